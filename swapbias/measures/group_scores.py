"""Scores of several groups, paired or not: contrasts of their means, and a test of several contrasts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import (
    clustered_name,
    linear_contrast,
    mean_of,
    pooled_spread,
    spread_of,
)
from swapbias.measures.design import level_sizes, shares_in
from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Estimate,
    Factors,
    Floats,
    Ids,
    by_pair,
    factor_codes,
    known_ids,
    rows_of,
)

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Omnibus:
    """Bonferroni test of several contrasts: whether the interval of any, at .05 / their number, excludes 0.

    The estimate is the SD of the groups' means, in the unit of the scores; 0: all are equal. Chance alone makes it
    larger than 0, so it has no interval, and only its p-value tests it.
    """

    estimate: Estimate
    contrasts: int
    """Their number, by which the smallest of their p-values is multiplied."""
    means: Mapping[str, float]
    """Of each group."""

    def with_p_values(self, p_values: Sequence[float]) -> "Omnibus":
        """A copy whose p-value is made from those of the contrasts (Bonferroni); NaN where all of them are NaN."""
        known = [p for p in p_values if not math.isnan(p)]
        p_value = min(1.0, self.contrasts * min(known)) if known else math.nan
        return replace(self, estimate=replace(self.estimate, p_value=p_value))


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores of k groups, those that cannot be used left out and counted."""

    names: Sequence[str]
    values: Floats
    """Of pairs shape (pairs, groups), else (rows,), without NaN."""
    sides: Codes
    """Paired: the sample of each pair (0, or 1: subtracted); else the index of each row's group."""
    factors: Factors
    paired: bool
    n_unscored: int
    shares: Floats | None = None

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
        if pair_ids is None:
            known = ~np.isnan(score)
            factors = rows_of(factor_codes(cluster_ids, len(score)), known)
            sides = codes[known]
            shares = shares_in(weights, known, sides)
            return cls(names, score[known], sides, factors, False, int((~known).sum()), shares)
        table, first = by_pair(score, codes, pair_ids, names)
        whole = np.flatnonzero(~np.isnan(table).any(axis=1))
        factors = rows_of(factor_codes(cluster_ids, len(score), pair_ids), first[whole])
        samples = np.zeros(len(score), np.intp)
        if sample_ids is not None:
            samples = np.unique(known_ids(sample_ids, "sample_ids"), return_inverse=True)[1]
        return cls(
            names, table[whole], samples[first[whole]], factors, True, len(table) - len(whole)
        )

    @property
    def means(self) -> Floats:
        """Of each group, less that of the sample that is subtracted; NaN of a group without a row."""
        places = range(len(self.names))
        if not self.paired:
            return np.array([mean_of(self.values[self.sides == place]) for place in places])
        samples = [
            self.values[self.sides == side] for side in range(int(self.sides.max(initial=0)) + 1)
        ]
        means = np.array([[mean_of(sample[:, place]) for place in places] for sample in samples])
        return np.asarray(means[0] if len(means) == 1 else means[0] - means[1])

    def contrast(self, weights: Floats, *, test_constant: bool = False) -> Estimate:
        """The weighted sum of the means of rows, or of pairs (of two samples the difference of those sums).

        ``test_constant``: with the exact test of levels where nothing varies, which no paper has.
        """
        used = np.flatnonzero(np.abs(weights) > _ROUNDING)
        scale = self.values
        if self.paired:
            values = self.values @ weights
            sides = self.sides
            factors = self.factors
            shares = None
            signs = (1.0, -1.0)[: int(sides.max(initial=0)) + 1]
            samples = list(self.values.T[used])
        else:
            chosen = np.isin(self.sides, used)
            values = self.values[chosen]
            sides = np.searchsorted(used, self.sides[chosen])
            factors = rows_of(self.factors, chosen)
            shares = None if self.shares is None else self.shares[chosen]
            signs = tuple(weights[used])
            samples = [values[sides == side] for side in range(len(used))]
        found = linear_contrast(
            values, sides, signs, factors, shares=shares, scale=scale, n_unscored=self.n_unscored
        )
        test = found.test
        if test_constant:
            found = with_exact_test(found, values, sides, factors)
        pooled = pooled_spread(samples)
        found = replace(found, effect_size=found.value / pooled if pooled > 0 else math.nan)
        if not self.paired or len(signs) > 1:
            return found
        name = clustered_name(factors, "paired t")
        spread = spread_of(values, scale)
        if found.test == test:
            found = replace(found, test=name)
        return replace(
            found, interval=name, effect_size_z=found.value / spread if spread > 0 else math.nan
        )

    def omnibus(self, weights: Sequence[Floats]) -> Omnibus:
        """Whether any of these contrasts is not 0."""
        p_values = (
            [self.contrast(one, test_constant=True).p_value for one in weights]
            if len(self.values)
            else []
        )
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
        return Omnibus(
            estimate, count, dict(zip(self.names, means.tolist(), strict=True))
        ).with_p_values(p_values)


def sign_test_p(difference: Floats, factors: Factors) -> float:
    """Two-sided exact p of the sign test of the clusters' means, the largest of any factor; NaN where all are 0."""
    found = []
    for codes in factors.values() or (np.arange(len(difference)),):
        sums = np.bincount(
            np.unique(codes, return_inverse=True)[1], weights=difference
        )  # signs are those of means
        above = int((sums > 0).sum())
        unequal = int((sums != 0).sum())
        found.append(float(scipy.stats.binomtest(above, unequal).pvalue) if unequal else math.nan)
    return max(found, default=math.nan)


def with_exact_test(estimate: Estimate, values: Floats, sides: Codes, factors: Factors) -> Estimate:
    """Return an estimate without spread with an exact p-value over levels, where all levels agree on a gap.

    Of differences of pairs (one side) that of the sign test: 2 / 2**levels where all are equal. So of levels that
    several sides share. Of sides with levels of their own that of a permutation: 2 / the number of ways to choose one
    side's levels among those of the two sides with the fewest. The largest of any factor.

    Args:
        estimate: of ``linear_contrast``.
        values, sides, factors: as there.

    Returns:
        The estimate as it is where it has a spread, is 0, or levels differ or are one.
    """
    has_gap = estimate.value != 0 and not math.isnan(estimate.value)
    agrees = estimate.level_spread <= _ROUNDING * abs(estimate.value)
    if not math.isnan(estimate.std_error) or not has_gap or not agrees or estimate.independent < 2:
        return estimate
    count = int(sides.max(initial=0)) + 1
    names = " and ".join(filter(None, factors))
    over = f" ({names})" if names else ""
    if count == 1:
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
