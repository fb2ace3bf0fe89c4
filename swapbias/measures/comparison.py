"""A comparison of two groups as an object: its units, estimate, published statistic, orientation and words."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from swapbias.measures.contrast import linear_contrast
from swapbias.measures.design import scarcest_levels
from swapbias.measures.estimate import ClusterIds, Codes, Estimate, Floats, Ids, by_pair, two_groups
from swapbias.measures.gaps import gap_of_samples
from swapbias.measures.group_scores import with_exact_test
from swapbias.measures.intervals import CONFIDENCE
from swapbias.measures.measure import Measure
from swapbias.measures.pair_units import ROUNDING, ComparedUnits, units_of_pairs
from swapbias.measures.random_factors import Factors, factor_codes, numbered, rows_of
from swapbias.measures.spreads import pooled_spread, spread_of

MOSTLY_TIED = "mostly_tied"
"""Why nothing is measured: more than half of the units have one value, and others differ."""


class Comparison(ABC):
    """One way to compare the scores of two groups, which an experiment names as its ``measure``.

    A file of ``measures/comparisons`` holds one as ``COMPARISON`` and has its name; another distribution adds one by
    an entry point of the group ``swapbias.measures``. All that an audit asks of it stands here: no other code knows
    its name. A new one of pairs is a ``PairedComparison`` that says its name, words and ``linearised``.
    """

    name: ClassVar[str]
    """The value of ``measure`` in study.toml, and of the column ``measure`` of findings."""

    title: ClassVar[str] = "gap, {contrast}"
    """What tables call it, with what was compared."""

    gap_words: ClassVar[str] = "gap"
    """What sentences call it: ``vader's gap, women minus men, is ...``."""

    by_words: ClassVar[str] = "by"
    """What stands before its size: ``scores women higher than men by 3.1 points``."""

    noun: ClassVar[str] = "pairs"
    """What units are called."""

    is_paired: ClassVar[bool] = True
    """Whether units are pairs: rows of one ``pair_id``, one of each group."""

    is_mean: ClassVar[bool] = True
    """Whether it is a difference of means; only of these are there effects of crossed factors and ratios of rates."""

    efficiency: ClassVar[float] = 1.0
    """The variance of the mean over that of the estimate, of normal effects, by which a plan finds its error."""

    tests: ClassVar[tuple[str, ...]] = ("t",)
    """The statistics that papers report beside it, the values of ``test`` in study.toml."""

    harness: ClassVar[str] = ""
    """The function of a task of lm-evaluation-harness that computes it; blank: none does."""

    @cached_property
    def record(self) -> Measure:
        """Return the record of its findings: words, sign and orientation; the largest gap is the unit's range."""
        return Measure(self.name, self.title, gap_span=1)

    @property
    def of_shares(self) -> "Comparison":
        """Return the comparison of how often a group's prompts have no answer, a share of 0 or 1 for each prompt."""
        return self

    @abstractmethod
    def units(
        self, scores: Floats, groups: Codes, pairs: Codes, weights: Mapping[str, float]
    ) -> ComparedUnits:
        """Make the units of rows.

        Args:
            scores: shape (rows,), NaN where a row has none.
            groups: shape (rows,): the index of each row's group in ``weights``.
            pairs: shape (rows,): the number of each row's pair, from 0 in the order of the first rows.
            weights: the weight of each group's score, by name; 1 and -1 for the gap between two.

        Raises:
            ValueError: rows are no pairs, where units are.
        """

    @abstractmethod
    def of_rows(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        cluster_ids: ClusterIds = None,
    ) -> Estimate:
        """Estimate the gap between two groups, for an `evaluate` module.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row.
            reference_group: the group that is subtracted.
            cluster_ids: shape (rows,), or by the name of a random factor; None: no factor.
        """

    def gap_by_papers_test(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        test: str,
    ) -> Estimate:
        """Estimate the gap by the statistic of the paper, which treats units as independent.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row.
            reference_group: the group that is subtracted.
            test: one of ``tests``.
        """
        return self.of_rows(scores, groups, pair_ids, reference_group=reference_group)

    def difference_by_papers_test(self, first: Floats, second: Floats) -> Estimate:
        """Estimate by how much two models' gaps of pairs differ, by the statistic of papers.

        It treats the models' gaps as independent of each other.

        Args:
            first: shape (pairs,), the gaps of a model.
            second: shape (pairs,), those of the model that is subtracted.
        """
        return gap_of_samples(first, second)

    def linearised(
        self, values: Floats, samples: Codes, factors: Factors, shares: Floats | None
    ) -> Floats:
        """Give each unit a number such that the mean of a sample's is its estimate, and varies as the estimate does.

        The mean, weighted by ``shares``, is the estimate that an audit tells: there is no other method to give it.
        The engine makes the interval of these, over every random factor. Of a mean they are the values themselves; of
        another estimate each is the estimate plus the influence of its unit, whose weighted mean is 0.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), from 0.
            factors: the cluster of each unit in each random factor.
            shares: shape (units,): the weight of each unit in the mean of its sample; those of a sample add up to 1.
                There are some where levels of a factor weigh the same. None: all units of a sample do.

        Returns:
            Shape (units,), in the order of ``values``.
        """
        return values

    def why_unmeasured(self, values: Floats, samples: Codes) -> str:
        """Return why these values say nothing (``MOSTLY_TIED``); blank where they do.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
        """
        return ""

    def estimate(
        self,
        values: Floats,
        samples: Codes,
        weights: Sequence[float],
        factors: Factors,
        *,
        shares: Floats | None = None,
        confidence: float = CONFIDENCE,
        n_unscored: int = 0,
    ) -> Estimate:
        """Estimate the weighted sum of the samples' estimates, with its interval over every random factor.

        Where all levels show one gap, its p-value is that of an exact test of the levels.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
            weights: the weights of the samples' estimates, signed.
            factors: the cluster of each unit in each random factor.
            shares: shape (units,): the weight of each unit in its sample, as in ``linearised``.
            confidence: the coverage of the interval, a share.
            n_unscored: the number of units that were left out.

        Returns:
            In the unit of the values; 0: no gap, above 0: the samples of positive weight are higher. NaN where
            ``why_unmeasured`` says why.
        """
        if len(values) and self.why_unmeasured(values, samples):
            return Estimate(math.nan, n=len(values), n_unscored=n_unscored, test="none")
        linear = self.linearised(values, samples, factors, shares)
        estimate = linear_contrast(
            linear,
            samples,
            weights,
            factors,
            shares=shares,
            confidence=confidence,
            n_unscored=n_unscored,
        )
        if linear is not values and len(values):
            levels = scarcest_levels(
                samples,
                {name: numbered(codes) for name, codes in factors.items()},
            )
            largest, spread = levels.distances(values, samples, shares)
            estimate = replace(estimate, largest_level=largest, level_spread=spread)
        return with_exact_test(estimate, values, samples, factors)

    def value(
        self,
        values: Floats,
        samples: Codes,
        weights: Sequence[float],
        factors: Factors,
        shares: Floats | None,
    ) -> float:
        """Compute only the value, also of values of which ``why_unmeasured`` says that they say nothing.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
            weights: the weights of the samples' estimates, signed.
            factors: the cluster of each unit in each random factor.
            shares: shape (units,): the weight of each unit in its sample; None: all of a sample weigh the same.
        """
        linear = self.linearised(values, samples, factors, shares)
        return linear_contrast(linear, samples, weights, factors, shares=shares).value


class PairedComparison(Comparison):
    """A comparison whose units are the differences of pairs."""

    def units(
        self, scores: Floats, groups: Codes, pairs: Codes, weights: Mapping[str, float]
    ) -> ComparedUnits:
        """Make a unit of each pair.

        Args:
            scores: shape (rows,), NaN where a row has none.
            groups: shape (rows,): the index of each row's group in ``weights``.
            pairs: shape (rows,): the number of each row's pair, from 0 in the order of the first rows.
            weights: the weight of each group's score, by name; 1 and -1 for the gap between two.

        Raises:
            ValueError: a pair has two rows of one group.
        """
        return units_of_pairs(scores, groups, pairs, weights)

    def of_rows(
        self,
        scores: Floats,
        groups: Sequence[str],
        pair_ids: Ids,
        *,
        reference_group: str,
        cluster_ids: ClusterIds = None,
    ) -> Estimate:
        """Estimate the gap between two groups.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.
            groups: shape (rows,), the name of each row's group; two of them.
            pair_ids: shape (rows,), the pair of each row.
            reference_group: the group that is subtracted.
            cluster_ids: shape (rows,), or by the name of a random factor; None: no factor.

        Raises:
            ValueError: other than two groups, or a pair that is not complete.
        """
        score, sides, names = two_groups(scores, groups, reference_group)
        table, first = by_pair(score, sides, pair_ids, names)
        scored = np.flatnonzero(~np.isnan(table).any(axis=1))
        factors = rows_of(factor_codes(cluster_ids, len(score), pair_ids), first[scored])
        both = table[scored]
        values = both @ np.array([1.0, -1.0])
        values[np.abs(values) <= ROUNDING * np.abs(both).sum(axis=1)] = 0.0
        samples = np.zeros(len(values), dtype=np.intp)
        unscored = len(table) - len(scored)
        estimate = self.estimate(values, samples, (1.0,), factors, n_unscored=unscored)
        pooled = pooled_spread(list(both.T)) if len(both) else math.nan
        spread = spread_of(values, both)
        return replace(
            estimate,
            effect_size=estimate.value / pooled if pooled > 0 else math.nan,
            effect_size_z=estimate.value / spread if spread > 0 else math.nan,
        )
