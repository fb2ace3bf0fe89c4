"""The Hodges-Lehmann estimate of the gap between two groups: the median of the averages of two pairs' differences."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy

from swapbias.measures.comparison import MOSTLY_TIED, Comparison, PairedComparison
from swapbias.measures.comparisons.paired_gap import COMPARISON as PAIRED_GAP
from swapbias.measures.design import Design
from swapbias.measures.estimate import Codes, Estimate, Floats
from swapbias.measures.intervals import CONFIDENCE
from swapbias.measures.random_factors import Factors, numbered, rows_of

_SAME = 1e-10  # differences closer than this share of the largest are tied
_CLOSE = 1e-9  # share of the range within which the middle is searched, before the averages around it are looked at
_HALF = 0.5
_REACH = 1.5  # standard errors
_FEWEST = 4  # levels of the scarcest random factor, or pairs where there is none
_ROUNDING = 1e-12


class MedianGap(PairedComparison):
    """The Hodges-Lehmann estimate of pair differences (Hodges and Lehmann 1963), with the intervals of the engine.

    Without ties it is the median of the averages of every two pairs' differences, weighted as these are. With ties
    it is the median of their mid-distribution function, linear between averages (Ma, Genton and Parzen 2011). Few
    pairs with large differences move it little.

    Each unit's influence is its signed rank over the slope of the ranks' mean, found from their length over one
    standard error on each side (Lehmann 1963). The engine allows for every random factor in the influences, as it
    does in the differences of a mean. Where more than half of the pairs differ by the same, as scores of 0 and 1 do,
    a median says nothing of the others, and nothing is measured.
    """

    name = "median_gap"
    title = "median gap, {contrast}"
    gap_words = "median gap"
    by_words = "by a median of"
    is_mean = False
    efficiency = 3 / math.pi

    @property
    def of_shares(self) -> Comparison:
        """Return the mean: of shares of 0 and 1 there is no median worth telling."""
        return PAIRED_GAP

    def difference_by_papers_test(self, first: Floats, second: Floats) -> Estimate:
        """Estimate the difference of two models' estimates, which treats pairs as independent, also those of both.

        Args:
            first: shape (pairs,), the gaps of a model; NaN where a pair has none.
            second: shape (pairs,), those of the model that is subtracted.
        """
        values = np.concatenate([first, second])
        samples = np.repeat([0, 1], [len(first), len(second)])
        scored = ~np.isnan(values)
        return self.estimate(
            values[scored], samples[scored], (1.0, -1.0), {}, n_unscored=int((~scored).sum())
        )

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
        """Estimate as ``Comparison.estimate``; without an interval below four levels, whose ranks say little.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
            weights: the weights of the samples' estimates, signed.
            factors: the cluster of each unit in each random factor.
            shares: shape (units,): the weight of each unit in its sample, as in ``linearised``.
            confidence: the coverage of the interval, a share.
            n_unscored: the number of units that were left out.
        """
        estimate = super().estimate(
            values,
            samples,
            weights,
            factors,
            shares=shares,
            confidence=confidence,
            n_unscored=n_unscored,
        )
        if estimate.independent >= _FEWEST or math.isnan(estimate.std_error):
            return estimate
        return replace(
            estimate,
            ci_low=math.nan,
            ci_high=math.nan,
            p_value=math.nan,
            std_error=math.nan,
            df=math.nan,
            skewness=0.0,
        )

    def why_unmeasured(self, values: Floats, samples: Codes) -> str:
        """Return ``MOSTLY_TIED`` where more than half of a sample has one value, and not all of it has; else "".

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
        """
        for sample in range(int(samples.max(initial=0)) + 1):
            ordered = np.sort(values[samples == sample])
            if not len(ordered):
                continue
            step = _SAME * max(abs(ordered[0]), abs(ordered[-1]))
            starts = np.flatnonzero(np.diff(ordered, prepend=-math.inf) > step)
            largest = int(np.diff([*starts, len(ordered)]).max())
            if _HALF * len(ordered) < largest < len(ordered):
                return MOSTLY_TIED
        return ""

    def linearised(
        self, values: Floats, samples: Codes, factors: Factors, shares: Floats | None
    ) -> Floats:
        """Return for each unit the estimate of its sample plus the unit's influence on it.

        Args:
            values: shape (units,), without NaN.
            samples: shape (units,), the sample of each unit, from 0.
            factors: the cluster of each unit in each random factor.
            shares: shape (units,): the weight of each unit in its sample; None: all of a sample weigh the same.

        Returns:
            Shape (units,), in the order of ``values``.
        """
        linear = values.copy()
        for sample in range(int(samples.max(initial=0)) + 1):
            chosen = samples == sample
            if chosen.any():
                of_sample = None if shares is None else shares[chosen]
                linear[chosen] = _with_influence(
                    values[chosen], rows_of(factors, chosen), of_sample
                )
        return linear


def _with_influence(values: Floats, factors: Factors, shares: Floats | None) -> Floats:
    """Return the estimate of a sample plus each unit's influence."""
    if len(values) < 2 or np.ptp(values) == 0:
        return values
    weights = np.full(len(values), 1 / len(values)) if shares is None else shares / shares.sum()
    ranks = _SignedRanks(values, weights)
    middle = ranks.crossing(0.0)
    scores = ranks.scores(middle)
    coded = {name: numbered(codes) for name, codes in factors.items()}
    sides = np.zeros(len(values), dtype=np.intp)
    design = Design.of_means(sides, coded or {"": np.arange(len(values))}, (1.0,), shares)
    std_error, _, _ = design.spread(scores)
    slope = 1.0
    if std_error > 0:
        # The mean of ranks is one of pairs of units, so its error is twice that of a mean of the scores.
        reach = _REACH * std_error
        low = ranks.crossing(2 * reach)
        high = ranks.crossing(-2 * reach)
        slope = (high - low) / 2 / reach
    return middle + slope * (scores - float(weights @ scores))


class _SignedRanks:
    """The signed ranks of differences less a value, as shares: from -1, all averages lie below the value, to 1."""

    def __init__(self, values: Floats, weights: Floats) -> None:
        self._order = np.argsort(values, kind="stable")
        self._values = values[self._order]
        self._weights = weights[self._order]
        self._below = np.concatenate([[0.0], np.cumsum(self._weights)])
        self._index = np.arange(len(values))
        self._same = _SAME * float(np.abs(values).max())

    def _scores(self, value: float) -> Floats:
        """Return by how much more of a unit's averages with the others lie above a value than below it, weighted."""
        mirrored = 2 * value - self._values
        lower = self._below[np.searchsorted(self._values, mirrored - self._same, side="left")]
        upper = self._below[np.searchsorted(self._values, mirrored + self._same, side="right")]
        away = self._values - value
        with_itself = self._weights * np.where(np.abs(away) <= self._same / 2, 0.0, np.sign(away))
        return np.asarray(self._below[-1] - lower - upper - with_itself)

    def scores(self, value: float) -> Floats:
        """Return each unit's signed rank: the share of its averages with others above a value, less that below."""
        ranks = np.empty(len(self._values))
        ranks[self._order] = self._scores(value) / (self._below[-1] - self._weights)
        return ranks

    def mean(self, value: float) -> float:
        """Return the share of all averages of two units above a value, less that below; it falls as that rises."""
        total = float(self._below[-1]) ** 2 - float(self._weights @ self._weights)
        return float(self._weights @ self._scores(value)) / total

    def crossing(self, level: float) -> float:
        """Find the value at which the mean is a level, linear between the averages on both sides."""
        lowest = float(self._values[:2].mean())
        highest = float(self._values[-2:].mean())
        if self.mean(lowest) <= level:
            return lowest
        if self.mean(highest) >= level:
            return highest
        close = _CLOSE * (highest - lowest)
        start = float(
            scipy.optimize.brentq(
                lambda value: self.mean(value) - level, lowest, highest, xtol=close
            )
        )
        low = self._average_at_most(start)
        high = self._average_above(start)
        while self.mean(low) < level - _ROUNDING:
            high = low
            low = self._average_at_most(low - 2 * self._same)
        while self.mean(high) > level + _ROUNDING:
            low = high
            high = self._average_above(high)
        above = self.mean(low)
        below = self.mean(high)
        if not above > below:
            return (low + high) / 2
        return low + (above - level) / (above - below) * (high - low)

    def _average_at_most(self, value: float) -> float:
        """Return the largest average of two units that is no larger than a value; the smallest where none is."""
        index = (
            np.searchsorted(self._values, 2 * value - self._values + self._same, side="right") - 1
        )
        index -= index == self._index
        averages = ((self._values + self._values[np.maximum(index, 0)]) / 2)[index >= 0]
        return float(averages.max(initial=self._values[:2].mean()))

    def _average_above(self, value: float) -> float:
        """Return the smallest average of two units that is larger than a value; the largest where none is."""
        index = np.searchsorted(self._values, 2 * value - self._values + self._same, side="right")
        index += index == self._index
        last = len(self._values) - 1
        averages = ((self._values + self._values[np.minimum(index, last)]) / 2)[index <= last]
        return float(averages.min(initial=self._values[-2:].mean()))


COMPARISON = MedianGap()
