"""Quantiles of scores as weighted means of ordered scores, and by how much each score moves them."""

import numpy as np
import scipy

from swapbias.measures.estimate import Floats

FEWEST_IN_TAIL = 2.5
"""Units that must be expected beyond a quantile for an interval: of fewer it is too narrow."""
FEWEST_LEVELS_IN_TAIL = 0.8
"""Levels of the scarcest random factor that must be expected there: 8 levels for the tenths at either end."""
_ROUNDING = 1e-9
_MOST_TIED = 0.5
_FEWEST_VALUES = 5


def linearised_quantile(scores: Floats, quantile: float, shares: Floats | None = None) -> Floats:
    """Return for each score the quantile of all of them plus the influence of that score on it.

    The quantile is that of Harrell and Davis (1982): a mean of the ordered scores, weighted by a beta distribution
    around the quantile. It moves with every score near the quantile, so that it has an influence for each of them
    (Serfling 1980, chapter 8), which a single ordered score has not.

    Args:
        scores: shape (units,), without NaN, one at least.
        quantile: between 0 and 1.
        shares: shape (units,): the weight of each score, above 0; None: all weigh the same.

    Returns:
        Shape (units,), in the unit of the scores. Their mean, weighted by ``shares``, is the quantile.

    >>> [round(float(value), 3) for value in linearised_quantile(np.array([0.0, 1.0, 2.0]), 0.5)]
    [-0.333, 1.0, 2.333]
    """
    count = len(scores)
    weights = np.full(count, 1 / count) if shares is None else shares / shares.sum()
    units = 1 / float(weights @ weights)
    parameters = ((units + 1) * quantile, (units + 1) * (1 - quantile))
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    below = np.concatenate([[0.0], np.minimum(np.cumsum(weights[order]), 1.0)])
    below[-1] = 1.0
    value = float(np.diff(scipy.special.betainc(*parameters, below)) @ ordered)
    inner = below[1:-1]
    steps = np.diff(ordered) * _beta_density(inner, *parameters)
    # A score counts below every step that lies above it.
    above = np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    linear = np.empty(count)
    linear[order] = value + float(steps @ inner) - above
    return linear


def _beta_density(places: Floats, first: float, second: float) -> Floats:
    """Return the density of a beta distribution between 0 and 1."""
    logs = (first - 1) * np.log(places) + (second - 1) * np.log1p(-places)
    return np.asarray(np.exp(logs - scipy.special.betaln(first, second)))


def has_tail(quantile: float, units: int, levels: int) -> bool:
    """Tell whether enough units and levels lie beyond a quantile for an interval.

    Args:
        quantile: between 0 and 1.
        units: the number of units of the smaller group.
        levels: the number of levels of the scarcest random factor; 0: there is none.
    """
    tail = min(quantile, 1 - quantile) + _ROUNDING
    return units * tail >= FEWEST_IN_TAIL and (levels or units) * tail >= FEWEST_LEVELS_IN_TAIL


def is_coarse(scores: Floats) -> bool:
    """Tell whether scores have too few different values for a quantile: fewer than five, or one in most of them.

    Args:
        scores: shape (units,), without NaN, one at least.
    """
    values, counts = np.unique(scores, return_counts=True)
    return len(values) < _FEWEST_VALUES or bool(counts.max() > _MOST_TIED * len(scores))
