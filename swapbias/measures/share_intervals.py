"""Weighted sums of shares of rows, with intervals made of Wilson's that hold at shares of 0 and 1."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from swapbias.measures.contrast import linear_contrast
from swapbias.measures.estimate import Codes, Estimate, Floats
from swapbias.measures.intervals import CONFIDENCE, t_reach
from swapbias.measures.random_factors import Factors

# standard errors: no end is sought nearer or farther
_NEAREST = 1e-9


_FARTHEST = 1e3
_HALF = 0.5


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
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Weighted sum of shares of rows, on an increasing scale: a flip rate, a difference of rates.

    Its interval is made of the shares' Wilson intervals (MOVER: Newcombe 1998; Zou and Donner 2008), so that it holds
    where shares are 0 or 1. The correlation of the shares over units (both versions of a note) goes in, drawn towards
    0 by Newcombe's correction where it narrows the interval. Rows of clusters (of whole units) count as fewer: by
    ``_design_effect``, with a t quantile.

    Args:
        numerator: shape (rows, shares): 1 where a row counts in the numerator of a share.
        denominator: shape (rows, shares): 1 where a row counts in its denominator.
        weights: shape (shares,), signed.
        units: shape (rows,): the unit (note) of each row, from 0; None: each row is one.
        clusters: shape (rows,): the cluster of each row, from 0; None: units are independent.
        scale: an increasing function of shares, such as the log.
        n_unscored: rows that are left out, to be counted.
        interval: the name of the interval; blank: a plain one.
        tested: with the two-sided p of "it is 0", one less the coverage that just reaches 0.
        confidence: the coverage of the interval.

    Returns:
        NaN where a share is; no interval where all rows are of one cluster.
    """
    part = np.asarray(numerator, np.float64)
    whole = np.asarray(denominator, np.float64)
    weight = np.array(weights)
    shares = column_shares(part, whole)
    with np.errstate(divide="ignore"):
        scaled = scale(shares)
    estimate = Estimate(
        float(scaled @ weight) if np.isfinite(scaled).all() else math.nan,
        n=int(whole.any(axis=1).sum()),
        n_unscored=n_unscored,
        test="that of the interval" if tested else "none",
        interval=interval or _plain_name(clusters),
    )
    if math.isnan(estimate.value):
        return estimate
    effective = _effective_shares(part, whole, weight, units, clusters)
    if effective is None:
        return estimate
    sizes, correlations, df = effective
    value = estimate.value

    def end(quantile: float, side: float) -> float:
        low, high = _wilson_ends(shares, sizes, quantile)
        with np.errstate(divide="ignore"):
            away = weight * np.abs(scale(np.where(side * weight > 0, high, low)) - scaled)
        return value + side * math.sqrt(max(float(away @ correlations @ away), 0.0))

    def beyond(reach: float) -> float:
        return end(reach, -math.copysign(1.0, value)) * value

    quantile = t_reach(confidence, df)
    return replace(
        estimate,
        ci_low=end(quantile, -1.0),
        ci_high=end(quantile, 1.0),
        p_value=_reach_p(value, beyond, df) if tested else math.nan,
    )


def _plain_name(clusters: Codes | None) -> str:
    """Return the name of an interval that is made of Wilson's."""
    return "Wilson, combined" if clusters is None else "Wilson, combined, over clusters"


def _reach_p(value: float, beyond: Callable[[float], float], df: float) -> float:
    """Return one less the coverage whose interval just reaches 0: ``beyond`` of that reach in errors is 0."""
    if abs(value) <= 1e-12:
        return 1.0
    if not beyond(_FARTHEST) <= 0:
        return 0.0
    reach = scipy.optimize.brentq(beyond, _NEAREST, _FARTHEST)
    return 2 * float(scipy.special.stdtr(df, -reach))


def _effective_shares(
    part: Floats, whole: Floats, weight: Floats, units: Codes | None, clusters: Codes | None
) -> tuple[Floats, Floats, float] | None:
    """Return the effective number of units of each share, their correlations and the degrees of freedom.

    None where all rows are of one cluster.
    """
    counts = whole.sum(axis=0)
    used = whole.any(axis=1)
    shares = column_shares(part, whole)
    # What clusters share cancels in a difference of versions and adds up in a mean: there they are the units.
    is_difference = bool(weight.min() < 0)
    by_cluster = clusters is not None and not is_difference
    row_units = np.arange(len(whole)) if units is None else units
    if clusters is not None and by_cluster:
        row_units = clusters
    influence = (part - shares * whole) / counts
    sizes = np.empty(len(shares))
    df = math.inf
    for share, is_counted in enumerate(whole.T > 0):
        codes = np.unique(row_units[is_counted], return_inverse=True)[1]
        effect, limit = _design_effect(influence[is_counted, share], codes)
        if not math.isnan(effect):
            sizes[share] = counts[share] / effect
            df = min(df, limit)
        elif by_cluster:
            return None
        else:
            sizes[share] = 1.0  # the rows of one note are worth one row
    first, indexes = np.unique(row_units[used], return_index=True, return_inverse=True)[1:]
    by_unit = np.zeros((len(first), len(shares)))
    np.add.at(by_unit, indexes, influence[used])
    if is_difference and clusters is not None:
        codes = np.unique(clusters[used][first], return_inverse=True)[1]
        # By simulation: what units add to a difference leans both ways, and needs less caution.
        effect, limit = _design_effect(by_unit @ weight, codes, trust=1.5)
        if math.isnan(effect):
            return None
        sizes = sizes / effect
        df = min(df, limit)
    return sizes, _correlate_shares(by_unit, shares, sizes, weight), df


def _design_effect(influence: Floats, codes: Codes, *, trust: float = 1.0) -> tuple[float, float]:
    """Return by what factor clusters of units raise the variance of a sum over units, at least 1, and its d.f.

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
    rounded = np.round(influence * units, 9)
    _, kinds, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    is_unlike = kinds != counts.argmax()
    return max(1.0, effect, _copy_effect(codes, is_unlike, trust)), max(units / copies - 1, 1.0)


def _copy_effect(codes: Codes, is_unlike: NDArray[np.bool_], trust: float = 1.0) -> float:
    """Return the factor by which clusters raise a variance, as few of them hold units unlike the commonest.

    With many such clusters it is near 1, without one that of copies: the mean size of the cluster of a unit.
    """
    copies = float((np.bincount(codes) ** 2).sum()) / len(codes)
    unlike = len(np.unique(codes[is_unlike]))
    return 1 + (copies - 1) / (1 + math.pow(unlike, trust))


def _wilson_ends(shares: Floats, units: Floats, quantile: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval of shares of so many (effective) units; it holds at shares of 0 and 1."""
    square = quantile**2 / units
    half = np.sqrt(square * (shares * (1 - shares) + square / 4))
    # Of (centre - half) / (1 + square), free of cancellation.
    low = shares**2 / (shares + square / 2 + half)
    return np.asarray(low), np.asarray(1 - (1 - shares) ** 2 / (1 - shares + square / 2 + half))


def _correlate_shares(by_unit: Floats, shares: Floats, sizes: Floats, weights: Floats) -> Floats:
    """Return the correlation of the shares over units, (shares, shares), less where it narrows the interval."""
    lengths = np.sqrt((by_unit**2).sum(axis=0))
    observed = divide(by_unit.T @ by_unit, np.outer(lengths, lengths), 0.0)
    spread = np.sqrt(shares * (1 - shares) * sizes)
    correction = divide(np.ones(observed.shape), 2 * np.outer(spread, spread), 1.0)
    less = np.maximum(np.abs(observed) - correction, 0)
    narrows = np.outer(weights, weights) * observed < 0
    correlations = np.where(narrows, np.sign(observed) * less, observed)
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def column_shares(part: Floats, whole: Floats) -> Floats:
    """Return the share of each column; NaN where nothing counts in its denominator.

    Args:
        part: shape (rows, shares): 1 where a row counts in the numerator.
        whole: shape (rows, shares): 1 where a row counts in the denominator.
    """
    return divide(part.sum(axis=0), whole.sum(axis=0))


def divide(part: Floats, whole: Floats, otherwise: float = math.nan) -> Floats:
    """Divide elements, where the denominator is above 0.

    Args:
        part: any shape.
        whole: the same shape.
        otherwise: the result where the denominator is not above 0.
    """
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, otherwise), where=whole > 0))


def share_of_rows(
    counted: NDArray[np.bool_],
    clusters: Codes | None,
    interval: str,
    n_unscored: int = 0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Share of rows that count, with Wilson's interval.

    Args:
        counted: shape (rows,).
        clusters: shape (rows,): the cluster of each row, from 0; None: rows are independent.
        interval: the name of the interval.
        n_unscored: rows that are left out, to be counted.
        confidence: the coverage of the interval.
    """
    part = counted[:, None]
    return share_sum(
        part,
        np.ones_like(part),
        (1.0,),
        None,
        clusters,
        interval=interval,
        n_unscored=n_unscored,
        confidence=confidence,
    )


def share_over_factors(
    counted: NDArray[np.bool_],
    factors: Factors,
    *,
    shares: Floats | None = None,
    n_unscored: int = 0,
) -> Estimate:
    """Share of units that count, with Wilson's interval over every random factor.

    The variance of the share, which allows for the factors, says how many independent units the share is worth
    (Korn and Graubard 1998). Where all units or none count it is worth the levels of the scarcest factor. It is worth
    fewer as well where few levels hold a unit unlike the commonest: a level with many such was perhaps not seen.

    Args:
        counted: shape (units,), one at least.
        factors: the cluster of each unit in each random factor.
        shares: shape (units,): the weight of each unit, which add up to 1; None: all weigh the same.
        n_unscored: units that are left out, to be counted.

    Returns:
        From 0 to 1, without a p-value. No interval where there is one level.
    """
    values = counted.astype(np.float64)
    estimate = linear_contrast(
        values, np.zeros(len(values), np.intp), (1.0,), factors, shares=shares
    )
    share = min(1.0, max(0.0, estimate.value))
    levels = estimate.independent
    plain = Estimate(
        share,
        n=len(values),
        n_unscored=n_unscored,
        test="none",
        interval="none",
        fewest=estimate.fewest,
        fewest_of=estimate.fewest_of,
    )
    if levels < 2:
        return plain
    worth = float(levels)
    df = levels - 1.0
    if estimate.std_error > 0:
        worth = share * (1 - share) / estimate.std_error**2
        is_unlike = counted if share < _HALF else ~counted
        effects = (_copy_effect(codes, is_unlike) for codes in factors.values())
        units = float(len(values)) if shares is None else 1 / float(shares @ shares)
        worth = min(worth, units / max([1.0, *effects]))
        df = estimate.df
    low, high = _wilson_ends(np.array([share]), np.array([worth]), t_reach(CONFIDENCE, df))
    return replace(
        plain, ci_low=float(low[0]), ci_high=float(high[0]), interval=f"Wilson, {estimate.interval}"
    )
