"""Inference for a weighted sum of means over every random factor."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from swapbias.measures.design import FLAT, NO_INFERENCE, Design, scarcest_levels, weigh_alike
from swapbias.measures.estimate import Codes, Estimate, Floats
from swapbias.measures.intervals import CONFIDENCE, t_ends, t_p
from swapbias.measures.random_factors import Factors, numbered
from swapbias.measures.spreads import spread_of


def linear_contrast(
    values: Floats,
    sides: Codes,
    weights: Sequence[float],
    factors: Factors,
    *,
    shares: Floats | None = None,
    scale: Floats | None = None,
    confidence: float = CONFIDENCE,
    n_unscored: int = 0,
) -> Estimate:
    """Weighted sum of means: of pair differences (one side), of groups, of samples.

    Args:
        values: shape (units,), without NaN.
        sides: shape (units,), from 0, as in ``Design``.
        weights: the weights of the means of the sides, signed, as in ``Design``.
        factors: the cluster of each unit in each random factor. Without factors: a t test, of sides Welch's.
        shares: shape (units,), of each unit in the mean of its side; None: all of a side weigh the same.
        scale: numbers as large as those that the values are differences of, whose rounding is no variance.
        confidence: the coverage of the interval.
        n_unscored: units that are left out, to be counted.

    Returns:
        In the unit of the values; ``n`` counts units. NaN where a side has no unit. No interval and p-value where a
        side has one unit, nothing varies, or a cluster makes up a side. ``fewest``, ``independent`` and the two
        numbers about level means are those of the random factor with the fewest levels on a side, also where nothing
        varies.
    """
    scale = values if scale is None else scale
    if shares is not None and weigh_alike(shares, sides):
        shares = None
    counts = np.bincount(sides, minlength=len(weights))
    if not counts.all():
        return Estimate(math.nan, n=len(values), n_unscored=n_unscored, test="none")
    means = np.bincount(sides, values) / counts
    if shares is not None:  # from the plain means, so that equal values have exactly their mean
        means = means + np.bincount(sides, shares * (values - means[sides]))
    value = float(means @ np.asarray(weights, dtype=np.float64))
    if abs(value) <= FLAT * float(np.abs(scale).max()):
        value = 0.0
    spreads = [spread_of(values[sides == side], scale) for side in range(len(counts))]
    factors = {name: numbered(codes) for name, codes in factors.items()}
    levels = scarcest_levels(sides, factors)
    fewest = levels.count if factors else 0
    if shares is not None and not factors:
        factors = {"": np.arange(len(values))}
    std_error, df, skewness = NO_INFERENCE
    if any(spreads) and not any(map(math.isnan, spreads)):
        if factors:
            design = Design.of_means(sides, factors, weights, shares)
            std_error, df, skewness = design.spread(values)
        else:
            std_error, df = _welch_error(spreads, counts, weights)
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


def _welch_error(
    spreads: Sequence[float], counts: NDArray[np.intp], weights: Sequence[float]
) -> tuple[float, float]:
    """Return standard error and Welch's degrees of freedom of a weighted sum of means of independent units."""
    parts = np.array(
        [
            (weight * spread) ** 2 / count
            for weight, spread, count in zip(weights, spreads, counts, strict=True)
        ]
    )
    df = float(parts.sum() ** 2 / (parts**2 / (counts - 1)).sum())
    return math.sqrt(parts.sum()), df


def clustered_name(factors: Factors, plain: str) -> str:
    """Return the name of a t interval or test that allows for the factors.

    Args:
        factors: factors by their names; without any the name is ``plain``.
        plain: the name without factors.
    """
    if not factors:
        return plain
    names = " and ".join(filter(None, factors))
    return f"cluster-robust t ({names})" if names else "cluster-robust t"
