"""Rates of predictions over several train/test splits: means over splits, with the split as a random factor."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.measures.contrast import linear_contrast
from swapbias.measures.estimate import Codes, Estimate, Floats
from swapbias.measures.random_factors import Factors, rows_of
from swapbias.measures.share_intervals import column_shares, divide

FEWEST_UNLIKE = 3
"""The least number of subjects that must differ from the majority for an interval: of fewer it is too narrow."""


def _constant_slope(shares: Floats) -> Floats:
    return np.ones_like(shares)


@dataclass(frozen=True, slots=True)
class Scale:
    """An increasing function of shares, with its slope."""

    value: Callable[[Floats], Floats] = np.asarray
    """The function."""
    slope: Callable[[Floats], Floats] = _constant_slope
    """Its derivative."""
    of_means: bool = False
    """Whether it is taken of the mean share of all splits, which few counts upset less than the share of each."""


PLAIN = Scale()
"""Shares themselves."""
LOG = Scale(np.log, lambda shares: 1 / shares, of_means=True)
"""The natural log of shares, so that a difference is the log of a ratio of mean shares."""
F1 = Scale(lambda shares: 2 * shares / (1 + shares), lambda shares: 2 / (1 + shares) ** 2)
"""The F1 of a class, of the share that is right among the rows of its label or answer."""


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Scored rows of several splits."""

    splits: Codes
    """Shape (rows,): the split of each row, from 0."""
    units: Codes
    """Shape (rows,): the unit of each row, from 0: a note in one split, with its versions."""
    factors: Factors
    """The cluster of each row in each random factor: subjects, splits."""
    subjects: Codes
    """Shape (rows,): the subject of each row, from 0; its split where subjects are not known."""

    def shares(self, part: NDArray[Any], whole: NDArray[Any]) -> Floats:
        """Return the shares of each split, shape (splits, shares); NaN where nothing counts.

        Args:
            part: shape (rows, shares): 1 where a row counts in the numerator.
            whole: shape (rows, shares): 1 where a row counts in the denominator.
        """
        count = int(self.splits.max(initial=-1)) + 1
        chosen = (self.splits == split for split in range(count))
        return np.array(
            [column_shares(part[rows] * 1.0, whole[rows] * 1.0) for rows in chosen]
        ).reshape(count, part.shape[1])

    def mean(
        self,
        part: NDArray[Any],
        whole: NDArray[Any],
        weights: Sequence[float],
        *,
        scale: Scale = PLAIN,
        ends: tuple[float, float] = (-math.inf, math.inf),
        n_unscored: int = 0,
        tested: bool = False,
    ) -> Estimate:
        """Mean over splits of a weighted sum of shares of rows, such as a difference of rates.

        Each split weighs the same. A unit adds what the sum moves with it (its influence, by the slope of the scale),
        and the interval is that of a mean of these with the random factors crossed, as of ``paired_gap``.

        Args:
            part: shape (rows, shares): 1 where a row counts in the numerator of a share.
            whole: shape (rows, shares): 1 where a row counts in its denominator.
            weights: shape (shares,), signed.
            scale: a function of shares.
            ends: the least and largest number there can be, where the interval ends.
            n_unscored: rows that are left out, to be counted.
            tested: with the two-sided p of "it is 0".

        Returns:
            NaN where it is undefined in a split. No interval where fewer than ``FEWEST_UNLIKE`` subjects have a row
            that counts unlike the majority of rows, or a split or subject makes up all. ``n`` counts rows.
        """
        n = int(whole.any(axis=1).sum())
        none = Estimate(math.nan, n=n, n_unscored=n_unscored, test="none", interval="none")
        shares = self.shares(part, whole)
        at = np.broadcast_to(shares.mean(axis=0), shares.shape) if scale.of_means else shares
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = scale.value(at)
            slopes = scale.slope(at)
        if not len(shares) or not np.isfinite(scaled).all():
            return none
        sums = (scaled + slopes * (shares - at)) @ np.array(weights)
        influence = self._influence(part, whole, shares, slopes * np.array(weights))
        used = np.flatnonzero(whole.any(axis=1))
        _, first, indexes = np.unique(self.units[used], return_index=True, return_inverse=True)
        moved = np.bincount(indexes, influence[used])
        splits = self.splits[used][first]
        sizes = np.bincount(splits, minlength=len(shares))
        values = sums[splits] + sizes[splits] * moved
        estimate = linear_contrast(
            values,
            np.zeros(len(values), np.intp),
            (1.0,),
            rows_of(self.factors, used[first]),
            shares=1 / (len(shares) * sizes[splits]),
            n_unscored=n_unscored,
        )
        estimate = replace(estimate, n=n)
        columns = zip(part.T, whole.T, strict=True)
        if min(self._count_unlike(*column) for column in columns) < FEWEST_UNLIKE:
            return replace(none, value=estimate.value)
        if not tested:
            estimate = replace(estimate, p_value=math.nan, test="none")
        low, high = ends
        return replace(
            estimate,
            ci_low=float(np.clip(estimate.ci_low, low, high)),
            ci_high=float(np.clip(estimate.ci_high, low, high)),
        )

    def _influence(
        self, part: NDArray[Any], whole: NDArray[Any], shares: Floats, slopes: Floats
    ) -> Floats:
        """Return by how much each row moves the weighted sum of its split."""
        counts = np.zeros(shares.shape)
        np.add.at(counts, self.splits, whole * 1.0)
        residual = part - shares[self.splits] * whole
        moves = residual * divide(slopes, counts, 0.0)[self.splits]
        return np.asarray(moves.sum(axis=1), dtype=np.float64)

    def _count_unlike(self, part: NDArray[Any], whole: NDArray[Any]) -> int:
        """Return how many subjects have a row that counts otherwise in a share than most of its rows do."""
        values, kinds = np.unique(part[whole > 0], return_inverse=True)
        if len(values) < 2:
            return 0
        is_rare = kinds != np.bincount(kinds).argmax()
        return len(np.unique(self.subjects[whole > 0][is_rare]))
