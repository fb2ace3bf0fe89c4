"""Means and standard deviations of units, where rounding is no spread."""

import math
from collections.abc import Sequence

import numpy as np

from swapbias.measures.design import FLAT
from swapbias.measures.estimate import Floats


def mean_of(values: Floats) -> float:
    """Return the mean; NaN of nothing.

    Args:
        values: shape (units,).
    """
    return float(values.mean()) if len(values) else math.nan


def spread_of(values: Floats, scale: Floats) -> float:
    """Return the SD (ddof=1); exactly 0 where it is rounding noise; NaN below two values.

    Args:
        values: shape (units,).
        scale: numbers as large as those that the values were made of.
    """
    if len(values) < 2:
        return math.nan
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= FLAT * float(np.abs(scale).max()) else spread


def pooled_spread(samples: Sequence[Floats]) -> float:
    """Return the SD within groups (ddof=1 each); NaN where a group has fewer than two values.

    Args:
        samples: the values of each group, shape (units,).
    """
    squares = [(len(sample) - 1) * spread_of(sample, sample) ** 2 for sample in samples]
    if min(map(len, samples)) <= 1:
        return math.nan
    return math.sqrt(sum(squares) / sum(len(sample) - 1 for sample in samples))
