"""Weighted sums of shares of rows, with intervals made of Wilson's that hold at shares of 0 and 1."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from swapbias.measures.estimate import Codes, Estimate, Floats
from swapbias.measures.intervals import t_reach

# standard errors: no end is sought nearer or farther
_NEAREST = 1e-9


_FARTHEST = 1e3


def share_sum(
    numerator: NDArray[Any],
    denominator: NDArray[Any],
    weights: Sequence[float],
    units: Codes | None,
    clusters: Codes | None,
    *,
    scale: Callable[[Floats], Floats] = np.asarray,
    n_unscored: int = 0,
    interval: str = "",
    tested: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """A weighted sum of shares of rows, on an increasing scale: a flip rate, a difference of rates.

    Its interval is made of the shares' Wilson intervals (MOVER: Newcombe 1998; Zou and Donner 2008), so that it holds
    where shares are 0 or 1. The correlation of the shares over units (both versions of a note) goes in, drawn towards
    0 by Newcombe's correction where it narrows the interval. Rows of clusters (of whole units) count as fewer: by
    ``_design_effect``, with a t quantile. NaN where a share is; no interval where all rows are of one cluster.
    ``tested``: with the two-sided p of "it is 0", one less the coverage that just reaches 0.

    ``numerator`` and ``denominator`` have shape (rows, shares): 1 where a row counts in each.
    """
    part = np.asarray(numerator, np.float64)
    whole = np.asarray(denominator, np.float64)
    weight = np.array(weights)
    counts = whole.sum(axis=0)
    used = whole.any(axis=1)
    shares = column_shares(part, whole)
    with np.errstate(divide="ignore"):
        placed = scale(shares)
    found = Estimate(
        float(placed @ weight) if np.isfinite(placed).all() else math.nan,
        n=int(used.sum()),
        n_unscored=n_unscored,
        test="that of the interval" if tested else "none",
        interval=interval or "Wilson, combined" + ("" if clusters is None else ", over clusters"),
    )
    if math.isnan(found.value):
        return found
    # What clusters share cancels in a difference of versions and adds up in a mean: there they are the units.
    is_difference = min(weights) < 0
    own = np.arange(len(whole)) if units is None else units
    own = own if is_difference or clusters is None else clusters
    influence = (part - shares * whole) / counts
    sizes = np.empty(len(shares))
    df = math.inf
    for share, within in enumerate(whole.T > 0):
        effect, limit = _design_effect(
            influence[within, share], np.unique(own[within], return_inverse=True)[1]
        )
        alone = math.isnan(effect)
        if alone and own is clusters:
            return found
        sizes[share] = (
            1.0 if alone else counts[share] / effect
        )  # the rows of one note are worth one row
        df = df if alone else min(df, limit)
    first, places = np.unique(own[used], return_index=True, return_inverse=True)[1:]
    by_unit = np.zeros((len(first), len(shares)))
    np.add.at(by_unit, places, influence[used])
    if is_difference and clusters is not None:
        codes = np.unique(clusters[used][first], return_inverse=True)[1]
        # By simulation: what units add to a difference leans both ways, and needs less caution.
        effect, limit = _design_effect(by_unit @ weight, codes, trust=1.5)
        if math.isnan(effect):
            return found
        sizes = sizes / effect
        df = min(df, limit)
    correlations = _correlate_shares(by_unit, shares, sizes, weight)
    value = found.value

    def end(quantile: float, side: float) -> float:
        low, high = _wilson_ends(shares, sizes, quantile)
        with np.errstate(divide="ignore"):
            away = weight * np.abs(scale(np.where(side * weight > 0, high, low)) - placed)
        return value + side * math.sqrt(max(float(away @ correlations @ away), 0.0))

    def beyond(reach: float) -> float:
        return end(reach, -math.copysign(1.0, value)) * value

    quantile = t_reach(confidence, df)
    p_value = math.nan
    if tested:
        p_value = 1.0 if abs(value) <= 1e-12 else 0.0
        if not p_value and beyond(_FARTHEST) <= 0:
            p_value = 2 * float(
                scipy.special.stdtr(df, -scipy.optimize.brentq(beyond, _NEAREST, _FARTHEST))
            )
    return replace(found, ci_low=end(quantile, -1.0), ci_high=end(quantile, 1.0), p_value=p_value)


def _design_effect(influence: Floats, codes: Codes, *, trust: float = 1.0) -> tuple[float, float]:
    """How many times its variance over units a sum has over clusters of units, at least 1, and its d.f.

    The fewer clusters hold a unit unlike the commonest, the nearer it comes to what copies would give (``trust`` is a
    power of their number). 1 and infinity where each unit is its own cluster; NaN with one cluster of several units.
    """
    sizes = np.bincount(codes)
    units = len(codes)
    largest = int(sizes.max(initial=0))
    if largest <= 1:
        return 1.0, math.inf
    if largest == units:
        return math.nan, math.nan
    copies = float((sizes**2).sum()) / units
    sums = np.bincount(codes, weights=influence)
    plain = float(influence @ influence)
    # Each cluster pulls the estimate towards itself by its share: without the divisor large ones look too calm.
    effect = float((sums**2 / (1 - sizes / units)).sum()) / plain if plain > 0 else 1.0
    _, kind, times = np.unique(
        np.round(influence * units, 9), return_inverse=True, return_counts=True
    )
    unlike = len(np.unique(codes[kind != times.argmax()]))
    return max(1.0, effect, 1 + (copies - 1) / (1 + unlike**trust)), max(units / copies - 1, 1.0)


def _wilson_ends(shares: Floats, units: Floats, quantile: float) -> tuple[Floats, Floats]:
    """Wilson's interval of shares of so many (effective) units; it holds at shares of 0 and 1."""
    square = quantile**2 / units
    half = np.sqrt(square * (shares * (1 - shares) + square / 4))
    # Of (centre - half) / (1 + square), free of cancellation.
    low = shares**2 / (shares + square / 2 + half)
    return np.asarray(low), np.asarray(1 - (1 - shares) ** 2 / (1 - shares + square / 2 + half))


def _correlate_shares(by_unit: Floats, shares: Floats, sizes: Floats, weights: Floats) -> Floats:
    """Correlation of the shares over units, (shares, shares); what narrows the interval is less than observed."""
    lengths = np.sqrt((by_unit**2).sum(axis=0))
    observed = divide(by_unit.T @ by_unit, np.outer(lengths, lengths), 0.0)
    spread = np.sqrt(shares * (1 - shares) * sizes)
    less = np.maximum(
        np.abs(observed) - divide(np.ones(observed.shape), 2 * np.outer(spread, spread), 1.0), 0
    )
    found = np.where(np.outer(weights, weights) * observed < 0, np.sign(observed) * less, observed)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def column_shares(part: Floats, whole: Floats) -> Floats:
    return divide(part.sum(axis=0), whole.sum(axis=0))


def divide(part: Floats, whole: Floats, otherwise: float = math.nan) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, otherwise), where=whole > 0))


def share_of_rows(
    counted: NDArray[np.bool_],
    clusters: Codes | None,
    interval: str,
    n_unscored: int = 0,
    **more: Any,
) -> Estimate:
    part = counted[:, None]
    more = {"interval": interval, "n_unscored": n_unscored, **more}
    return share_sum(part, np.ones_like(part), (1.0,), None, clusters, **more)
