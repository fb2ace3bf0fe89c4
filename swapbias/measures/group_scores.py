"""Scores of several groups, paired or not: contrasts of their means, and a test of several contrasts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import clustered_name, linear_contrast
from swapbias.measures.design import level_sizes, shares_in
from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Estimate,
    Floats,
    Ids,
    known_ids,
    pair_rows,
)
from swapbias.measures.random_factors import Factors, factor_codes, numbered, rows_of
from swapbias.measures.spreads import mean_of, pooled_spread, spread_of

_ROUNDING = 1e-12  # weights and gaps below this share are none


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Bonferroni test of several contrasts: whether the interval of any, at .05 / their number, excludes 0."""

    estimate: Estimate
    """The SD of the groups' means, in the unit of the scores; 0: all are equal. Mere chance makes it larger than 0,
    so it has no interval, and only its p-value tests it."""
    contrasts: int
    """The number of contrasts, by which the smallest of their p-values is multiplied."""
    means: Mapping[str, float]
    """By group the mean of its scores."""

    def with_p_values(self, p_values: Sequence[float]) -> "Omnibus":
        """Return a copy whose p-value is made from those of the contrasts (Bonferroni).

        Args:
            p_values: the p-values of the contrasts; NaN is no test.

        Returns:
            NaN as p-value where all of them are NaN.
        """
        tested = [p_value for p_value in p_values if not math.isnan(p_value)]
        p_value = min(1.0, self.contrasts * min(tested)) if tested else math.nan
        return replace(self, estimate=replace(self.estimate, p_value=p_value))


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores of k groups, those that cannot be used left out and counted."""

    names: Sequence[str]
    """The names of the groups."""
    values: Floats
    """Of pairs shape (pairs, groups), else (rows,), without NaN."""
    sides: Codes
    """Paired: the sample of each pair (0, or 1: subtracted); else the index of each row's group."""
    factors: Factors
    """The cluster of each unit in each random factor."""
    paired: bool
    """Whether units are pairs."""
    n_unscored: int
    """Number of units without all of their scores, which are left out."""
    shares: Floats | None = None
    """Of rows the share of each in the mean of its group; None: all of a group weigh the same."""

    @classmethod
    def of(
        cls,
        score: Floats,
        codes: Codes,
        names: Sequence[str],
        cluster_ids: ClusterIds,
        pair_ids: Ids | None = None,
        *,
        sample_ids: Sequence[Any] | None = None,
        weights: ArrayLike | None = None,
    ) -> "GroupScores":
        """Return the scores of rows, or of complete pairs.

        Args:
            score: shape (rows,), NaN where a row has none.
            codes: shape (rows,), the index of each row's group in ``names``.
            names: the names of the groups.
            cluster_ids: as in ``paired_gap``.
            pair_ids: shape (rows,), each id once in every group; None: rows are not paired.
            sample_ids: shape (rows,), with pairs only: two samples of pairs; None: one.
            weights: shape (rows,), without pairs only, from 0; None: all weigh the same.

        Raises:
            ValueError: an incomplete pair, a missing id, or a weight below 0.
        """
        rows = GroupRows.of(codes, names, cluster_ids, pair_ids, sample_ids=sample_ids)
        return rows.with_scores(score, weights)

    @property
    def means(self) -> Floats:
        """Return the mean of each group, less that of the sample that is subtracted; NaN of a group without a row."""
        indexes = range(len(self.names))
        if not self.paired:
            return np.array([mean_of(self.values[self.sides == index]) for index in indexes])
        samples = [
            self.values[self.sides == side] for side in range(int(self.sides.max(initial=0)) + 1)
        ]
        means = np.array([[mean_of(sample[:, index]) for index in indexes] for sample in samples])
        return np.asarray(means[0] if len(means) == 1 else means[0] - means[1])

    def contrast(self, weights: Floats, *, test_constant: bool = False) -> Estimate:
        """Estimate the weighted sum of the means of rows, or of pairs (of two samples the difference of those sums).

        Args:
            weights: shape (groups,), signed.
            test_constant: with the exact test of levels where nothing varies, which no paper has.

        Returns:
            In the unit of the scores, with Cohen's d, of pairs also with d_z.
        """
        if self.paired:
            return self._contrast_of_pairs(weights, test_constant=test_constant)
        used = np.flatnonzero(np.abs(weights) > _ROUNDING)
        chosen = np.isin(self.sides, used)
        values = self.values[chosen]
        sides = np.searchsorted(used, self.sides[chosen])
        factors = rows_of(self.factors, chosen)
        estimate = linear_contrast(
            values,
            sides,
            tuple(weights[used]),
            factors,
            shares=None if self.shares is None else self.shares[chosen],
            scale=self.values,
            n_unscored=self.n_unscored,
        )
        if test_constant:
            estimate = with_exact_test(estimate, values, sides, factors)
        samples = [values[sides == side] for side in range(len(used))]
        return replace(estimate, effect_size=_divide(estimate.value, pooled_spread(samples)))

    def _contrast_of_pairs(self, weights: Floats, *, test_constant: bool) -> Estimate:
        """Estimate the weighted sum of the means of pairs, or of two samples of them the difference of those sums."""
        values = self.values @ weights
        signs = (1.0, -1.0)[: int(self.sides.max(initial=0)) + 1]
        estimate = linear_contrast(
            values, self.sides, signs, self.factors, scale=self.values, n_unscored=self.n_unscored
        )
        test = estimate.test
        if test_constant:
            estimate = with_exact_test(estimate, values, self.sides, self.factors)
        used = np.flatnonzero(np.abs(weights) > _ROUNDING)
        pooled = pooled_spread(list(self.values.T[used]))
        estimate = replace(estimate, effect_size=_divide(estimate.value, pooled))
        if len(signs) > 1:
            return estimate
        name = clustered_name(self.factors, "paired t")
        if estimate.test == test:
            estimate = replace(estimate, test=name)
        spread = spread_of(values, self.values)
        return replace(estimate, interval=name, effect_size_z=_divide(estimate.value, spread))

    def omnibus(self, weights: Sequence[Floats]) -> Omnibus:
        """Test whether any of several contrasts is not 0.

        Args:
            weights: the weights of each contrast, shape (groups,).
        """
        p_values: list[float] = []
        if len(self.values):
            p_values = [self.contrast(contrast, test_constant=True).p_value for contrast in weights]
        return self.omnibus_of(weights, p_values)

    def omnibus_of(self, weights: Sequence[Floats], p_values: Sequence[float]) -> Omnibus:
        """Test whether any of several contrasts is not 0, by their p-values.

        Args:
            weights: the weights of each contrast, shape (groups,).
            p_values: the p-values of the contrasts; NaN is no test.
        """
        count = len(weights)
        means = self.means
        matrix = np.array(weights)
        centred = np.linalg.pinv(matrix) @ matrix @ means
        estimate = Estimate(
            float(np.sqrt((centred**2).mean())),
            n=len(self.values),
            n_unscored=self.n_unscored,
            interval="none",
            test=f"any of {count} contrasts at .05 / {count}",
        )
        means_by_group = dict(zip(self.names, means.tolist(), strict=True))
        return Omnibus(estimate, count, means_by_group).with_p_values(p_values)


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Rows of k groups; what does not depend on their scores is found once for all scores."""

    names: Sequence[str]
    """The names of the groups."""
    codes: Codes
    """Shape (rows,): the index of each row's group."""
    factors: Factors
    """The cluster of each unit, a row or a pair, in each random factor."""
    samples: Codes
    """Shape (units,), of pairs alone: 0, or 1 for the sample that is subtracted."""
    pairs: Codes | None = None
    """Shape (pairs, groups): the row of each; None: rows are not paired."""

    @classmethod
    def of(
        cls,
        codes: Codes,
        names: Sequence[str],
        cluster_ids: ClusterIds,
        pair_ids: Ids | None = None,
        *,
        sample_ids: Sequence[Any] | None = None,
    ) -> "GroupRows":
        """Return rows of groups.

        Args:
            codes: shape (rows,), the index of each row's group in ``names``.
            names: the names of the groups.
            cluster_ids: as in ``paired_gap``.
            pair_ids: shape (rows,), each id once in every group; None: rows are not paired.
            sample_ids: shape (rows,), with pairs only: two samples of pairs; None: one.

        Raises:
            ValueError: an incomplete pair, or a missing id.
        """
        if pair_ids is None:
            factors = factor_codes(cluster_ids, len(codes))
            return cls(names, codes, factors, np.zeros(len(codes), np.intp))
        pairs = pair_rows(codes, pair_ids, names)
        first = pairs.min(axis=1)
        samples = np.zeros(len(codes), np.intp)
        if sample_ids is not None:
            samples = np.unique(known_ids(sample_ids, "sample_ids"), return_inverse=True)[1]
        factors = rows_of(factor_codes(cluster_ids, len(codes), pair_ids), first)
        return cls(names, codes, factors, samples[first], pairs)

    def with_scores(self, score: Floats, weights: ArrayLike | None = None) -> GroupScores:
        """Return the scores of rows, or of complete pairs.

        Args:
            score: shape (rows,), NaN where a row has none.
            weights: shape (rows,), without pairs only, from 0; None: all weigh the same.

        Raises:
            ValueError: a weight below 0.
        """
        if self.pairs is None:
            is_scored = ~np.isnan(score)
            sides = self.codes[is_scored]
            shares = shares_in(weights, is_scored, sides)
            values = score[is_scored]
        else:
            table = score[self.pairs]
            is_scored = np.asarray(~np.isnan(table).any(axis=1))
            sides = self.samples[is_scored]
            shares = None
            values = table[is_scored]
        return GroupScores(
            names=self.names,
            values=values,
            sides=sides,
            factors=rows_of(self.factors, is_scored),
            paired=self.pairs is not None,
            n_unscored=int((~is_scored).sum()),
            shares=shares,
        )


def _divide(value: float, spread: float) -> float:
    """Return a value over a spread; NaN without one."""
    return value / spread if spread > 0 else math.nan


def sign_test_p(difference: Floats, factors: Factors) -> float:
    """Return the two-sided exact p of the sign test of the clusters' means, the largest of any factor.

    Args:
        difference: shape (units,), without NaN.
        factors: the cluster of each unit in each random factor; without any, units are the clusters.

    Returns:
        NaN where all means are 0.
    """
    p_values = []
    for codes in factors.values() or (np.arange(len(difference)),):
        # Signs of sums are those of means.
        sums = np.bincount(numbered(codes), weights=difference)
        above = int((sums > 0).sum())
        unequal = int((sums != 0).sum())
        p_value = math.nan
        if unequal:
            p_value = float(scipy.stats.binomtest(above, unequal).pvalue)
        p_values.append(p_value)
    return max(p_values, default=math.nan)


def with_exact_test(estimate: Estimate, values: Floats, sides: Codes, factors: Factors) -> Estimate:
    """Return an estimate without spread with an exact p-value over levels, where all levels agree on a gap.

    Of differences of pairs (one side) that of the sign test: 2 / 2**levels where all are equal. So of levels that
    several sides share. Of sides with levels of their own that of a permutation: 2 / the number of ways to choose one
    side's levels among those of the two sides with the fewest. The largest of any factor.

    Args:
        estimate: the result of ``linear_contrast``.
        values: shape (units,), as there.
        sides: shape (units,), as there.
        factors: as there.

    Returns:
        The estimate as it is where it has a spread, is 0, or levels differ or are one.
    """
    has_gap = estimate.value != 0 and not math.isnan(estimate.value)
    agrees = estimate.level_spread <= _ROUNDING * abs(estimate.value)
    if not math.isnan(estimate.std_error) or not has_gap or not agrees or estimate.independent < 2:
        return estimate
    side_count = int(sides.max(initial=0)) + 1
    names = " and ".join(filter(None, factors))
    over = f" ({names})" if names else ""
    if side_count == 1:
        return replace(estimate, p_value=sign_test_p(values, factors), test=f"sign test{over}")
    return replace(
        estimate, p_value=_permutation_p(sides, factors), test=f"permutation of levels{over}"
    )


def _permutation_p(sides: Codes, factors: Factors) -> float:
    """Return the two-sided p where all levels of one side differ from others', the largest of any factor."""
    p_values = []
    for codes in factors.values() or (np.arange(len(sides)),):
        is_there = level_sizes(sides, codes) > 0
        counts = sorted(is_there.sum(axis=0).tolist())
        distinct = int(is_there.any(axis=1).sum())
        if distinct < sum(counts):  # a level that sides share has a gap of its own
            p_values.append(math.ldexp(2.0, -distinct))
        if distinct > counts[0]:
            p_values.append(2 / math.comb(counts[0] + counts[1], counts[0]))
    return min(1.0, max(p_values))
