"""Inference for a weighted sum of means over every random factor; power; corrections for several tests."""

import math
from collections.abc import Sequence

import numpy as np

from swapbias.measures.design import FLAT, NO_INFERENCE, Design, scarcest_levels
from swapbias.measures.estimate import Codes, Estimate, Factors, Floats
from swapbias.measures.intervals import t_ends, t_p


def linear_contrast(
    values: Floats,
    sides: Codes,
    weights: Sequence[float],
    factors: Factors,
    *,
    shares: Floats | None = None,
    scale: Floats | None = None,
    confidence: float = 0.95,
    n_unscored: int = 0,
) -> Estimate:
    """A weighted sum of means: of pair differences (one side), of groups, of samples.

    Args:
        values: shape (units,), without NaN.
        sides, weights, factors, shares: as in ``Design``. Without factors: a t test, of sides Welch's.
        scale: numbers as large as those that the values are differences of, whose rounding is no variance.

    ``n`` counts units. NaN where a side has no unit. No interval and p-value where a side has one unit, nothing
    varies, or a cluster makes up a side. ``fewest``, ``independent`` and the two numbers about level means are those
    of the random factor with the fewest levels on a side, also where nothing varies.
    """
    scale = values if scale is None else scale
    counts = np.bincount(sides, minlength=len(weights))
    if not counts.all():
        return Estimate(math.nan, n=len(values), n_unscored=n_unscored, test="none")
    means = np.bincount(sides, values) / counts
    if shares is not None:  # from the plain means, so that equal values have exactly their mean
        means = means + np.bincount(sides, shares * (values - means[sides]))
    value = float(means @ np.asarray(weights, dtype=np.float64))
    value = 0.0 if abs(value) <= FLAT * float(np.abs(scale).max()) else value
    spreads = [spread_of(values[sides == side], scale) for side in range(len(counts))]
    factors = {name: np.unique(codes, return_inverse=True)[1] for name, codes in factors.items()}
    levels = scarcest_levels(sides, factors)
    fewest = levels.count if factors else 0
    if shares is not None and not factors:
        factors = {"": np.arange(len(values))}
    std_error, df, skewness = NO_INFERENCE
    if any(spreads) and not any(map(math.isnan, spreads)):
        if factors:
            std_error, df, skewness = Design.of_means(sides, factors, weights, shares).spread(
                values
            )
        else:
            parts = np.array(
                [(w * s) ** 2 / n for w, s, n in zip(weights, spreads, counts, strict=True)]
            )
            std_error = math.sqrt(parts.sum())
            df = float(parts.sum() ** 2 / (parts**2 / (counts - 1)).sum())
    low, high = t_ends(value, std_error, df, confidence, skewness)
    name = clustered_name(factors, "t" if len(counts) == 1 else "Welch t")
    largest_level, level_spread = levels.distances(values, sides, shares)
    return Estimate(
        value,
        low,
        high,
        p_value=t_p(value, std_error, df, skewness),
        n=len(values),
        n_unscored=n_unscored,
        test=name,
        interval=name,
        std_error=std_error,
        df=df,
        skewness=skewness,
        fewest_of=levels.factor,
        fewest=fewest,
        independent=levels.count,
        largest_level=largest_level,
        level_spread=level_spread,
    )


def mean_of(values: Floats) -> float:
    """Mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan


def spread_of(values: Floats, scale: Floats) -> float:
    """SD (ddof=1); exactly 0 where it is rounding noise of numbers as large as ``scale``; NaN below two values."""
    if len(values) < 2:
        return math.nan
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= FLAT * float(np.abs(scale).max()) else spread


def pooled_spread(samples: Sequence[Floats]) -> float:
    """The SD within groups (ddof=1 each); NaN where a group has fewer than two values."""
    squares = [(len(one) - 1) * spread_of(one, one) ** 2 for one in samples]
    return (
        math.sqrt(sum(squares) / sum(len(one) - 1 for one in samples))
        if min(map(len, samples)) > 1
        else math.nan
    )


def clustered_name(factors: Factors, plain: str) -> str:
    """What a t interval or test is called that allows for the factors."""
    names = " and ".join(filter(None, factors))
    return plain if not factors else f"cluster-robust t{names and f' ({names})'}"
