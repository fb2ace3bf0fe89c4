"""Spread, standard errors (plain and cluster-robust), intervals of means and their differences, and resampling."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from swapbias.measures.contrast import t_above, t_quantile
from swapbias.measures.estimate import Floats

_CELLS = 4_000_000  # weights, or means of resamples, made at once: 32 MB


@dataclass(frozen=True, slots=True)
class Draw:
    """Coverage of an interval, and seed and number of resamples where there are any."""

    confidence: float
    seed: int
    n_resamples: int

    def __post_init__(self) -> None:
        """Refuse a coverage that is no share and a number of resamples below one."""
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence {self.confidence!r}, expected between 0 and 1, as 0.95.")
        if self.n_resamples < 1:
            raise ValueError(f"n_resamples {self.n_resamples!r}, expected at least 1.")


def sign_flip_p(differences: Floats, *, seed: int, n_resamples: int) -> float:
    """Two-sided p for "signs are exchangeable": exact where all sign patterns fit into ``n_resamples``."""
    if len(differences) < 2 or not np.any(differences):
        return float("nan")
    result = scipy.stats.permutation_test(
        (differences,),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, _CELLS // len(differences)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


_TWO_SIDED = 1.5  # by simulation: what units add to a difference leans both ways, and needs less caution


def design_effect(influence: Floats, codes: NDArray[np.intp], *, trust: float = 1.0) -> tuple[float, float]:
    """How many times its variance over units a sum has over clusters of units, and the degrees of freedom of that.

    At least 1. Where nearly all units are alike (few flips, no error) clusters cannot show how alike their units are:
    the fewer of them hold a unit that differs from the commonest, the nearer it is kept to what copies would give.

    Args:
        influence: shape (units,), what each unit adds to the estimate, less its expectation; sums to 0.
        codes: shape (units,), the cluster of each unit.
        trust: power of the number of clusters that hold such a unit: how fast they come to be believed.

    Returns:
        1 and infinity where each unit is its own cluster; NaN with a single cluster of several units.
    """
    sizes = np.bincount(codes)
    units, largest = len(codes), int(sizes.max(initial=0))
    if largest <= 1:
        return 1.0, math.inf
    if largest == units:
        return math.nan, math.nan
    copies = float((sizes**2).sum()) / units
    sums = np.bincount(codes, weights=influence)
    plain = float(influence @ influence)
    # Each cluster pulls the estimate towards itself by its share: without the divisor large ones look too calm.
    effect = float((sums**2 / (1 - sizes / units)).sum()) / plain if plain > 0 else 1.0
    _, kind, times = np.unique(np.round(influence * units, 9), return_inverse=True, return_counts=True)
    apart = len(np.unique(codes[kind != times.argmax()]))
    return max(1.0, effect, 1 + (copies - 1) / (1 + apart**trust)), max(units / copies - 1, 1.0)


def wilson_ends(shares: Floats, units: Floats, quantile: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval of shares of so many (effective) units; it holds at shares of 0 and 1."""
    square = quantile**2 / units
    half = np.sqrt(square * (shares * (1 - shares) + square / 4))
    # Of (centre - half) / (1 + square), free of cancellation.
    low = shares**2 / (shares + square / 2 + half)
    high = 1 - (1 - shares) ** 2 / (1 - shares + square / 2 + half)
    return np.asarray(low), np.asarray(high)


@dataclass(frozen=True, slots=True)
class ShareSum:
    """A weighted sum of shares of rows, on a scale: a flip rate, a difference of rates, a mean of recalls.

    Its interval is made of the shares' Wilson intervals (MOVER: Newcombe 1998; Zou and Donner 2008), so that it holds
    where shares are 0 or 1 and no resample would vary. Rows of one unit (both versions of a note) are dependent: the
    correlation of the shares over units goes in, drawn towards 0 by Newcombe's correction where it narrows the
    interval. Rows of clusters count as fewer: by ``design_effect``, with a t quantile.

    Attributes:
        part, whole: shape (rows, shares), 1 where a row is counted in a share, and where it is asked.
        weights: one for each share.
        units: shape (rows,), from 0; None: each row is one.
        clusters: shape (rows,), of whole units; None: each unit is one.
        scale: increasing, of the shares, before they are weighed.
    """

    part: Floats
    whole: Floats
    weights: tuple[float, ...]
    units: NDArray[np.intp] | None = None
    clusters: NDArray[np.intp] | None = None
    scale: Callable[[Floats], Floats] = np.asarray

    @property
    def shares(self) -> Floats:
        """Shape (shares,); NaN for one that no row is asked for."""
        asked = self.whole.sum(axis=0)
        return np.asarray(np.divide(self.part.sum(axis=0), asked, out=np.full(len(asked), np.nan), where=asked > 0))

    @property
    def value(self) -> float:
        """The sum; NaN where a share is, or its place on the scale has no end."""
        with np.errstate(divide="ignore"):
            placed = self.scale(self.shares)
        return float(placed @ np.array(self.weights)) if np.isfinite(placed).all() else math.nan

    def interval(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval; NaN where the value is, or all rows are of one cluster."""
        known = self._precision()
        if known is None:
            return math.nan, math.nan
        quantile = np.array(t_quantile(0.5 + confidence / 2, known.freedom))
        return self._end(known, quantile, -1.0), self._end(known, quantile, 1.0)

    def p_value(self) -> float:
        """Two-sided p for "the sum is 0": one less the confidence of the interval that just reaches 0."""
        known, value = self._precision(), self.value
        if known is None:
            return math.nan
        if abs(value) <= 1e-12:
            return 1.0
        towards = -math.copysign(1.0, value)
        if self._end(known, np.array(_FARTHEST), towards) * value > 0:
            return 0.0
        reached = scipy.optimize.brentq(lambda q: self._end(known, np.array(q), towards) * value, _NEAREST, _FARTHEST)
        return 2 * t_above(reached, known.freedom)

    def _precision(self) -> "_Precision | None":
        shares, asked = self.shares, self.whole.sum(axis=0)
        if math.isnan(self.value):
            return None
        rows = np.arange(len(self.whole)) if self.units is None else self.units
        # What clusters share cancels in a difference of versions and adds up in a mean: there they are the units.
        paired = min(self.weights) < 0
        clusters = self.clusters if paired else None
        rows = rows if paired or self.clusters is None else self.clusters
        influence = (self.part - shares * self.whole) / asked
        sizes, freedom = np.empty(len(shares)), math.inf
        for share, within in enumerate(self.whole.T > 0):
            effect, limit = design_effect(influence[within, share], np.unique(rows[within], return_inverse=True)[1])
            alone = math.isnan(effect)
            if alone and rows is self.clusters:
                return None
            sizes[share] = 1.0 if alone else asked[share] / effect  # the rows of one note are worth one row
            freedom = freedom if alone else min(freedom, limit)
        used = self.whole.any(axis=1)
        first, units = np.unique(rows[used], return_index=True, return_inverse=True)[1:]
        by_unit = np.zeros((len(first), len(shares)))
        np.add.at(by_unit, units, influence[used])
        if clusters is not None:
            codes = np.unique(clusters[used][first], return_inverse=True)[1]
            effect, limit = design_effect(by_unit @ np.array(self.weights), codes, trust=_TWO_SIDED)
            if math.isnan(effect):
                return None
            sizes, freedom = sizes / effect, min(freedom, limit)
        return _Precision(shares, sizes, freedom, _correlations(by_unit, shares, sizes, np.array(self.weights)))

    def _end(self, known: "_Precision", quantile: Floats, side: float) -> float:
        """The end below (side -1) or above (1) the value."""
        ends = wilson_ends(known.shares, known.sizes, quantile)
        weights, middle = np.array(self.weights), self.scale(known.shares)
        chosen = np.where(side * weights > 0, ends[1], ends[0])
        with np.errstate(divide="ignore"):
            away = weights * np.abs(self.scale(chosen) - middle)
        return self.value + side * math.sqrt(max(float(away @ known.correlations @ away), 0.0))


@dataclass(frozen=True, slots=True)
class _Precision:
    """Shares, the rows that they are worth, degrees of freedom, and how the shares vary together."""

    shares: Floats
    sizes: Floats
    freedom: float
    correlations: Floats


_NEAREST, _FARTHEST = 1e-9, 1e3  # in standard errors: nothing lies nearer or beyond


def _correlations(by_unit: Floats, shares: Floats, sizes: Floats, weights: Floats) -> Floats:
    """Correlation of the shares over units, (shares, shares), of what narrows the interval less than observed."""
    lengths = np.sqrt((by_unit**2).sum(axis=0))
    scale = np.outer(lengths, lengths)
    observed = np.divide(by_unit.T @ by_unit, scale, out=np.zeros(scale.shape), where=scale > 0)
    spread = np.sqrt(shares * (1 - shares) * sizes)
    room = 2 * np.outer(spread, spread)
    less = np.maximum(np.abs(observed) - np.divide(1, room, out=np.ones(room.shape), where=room > 0), 0)
    found = np.where(np.outer(weights, weights) * observed < 0, np.sign(observed) * less, observed)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)
