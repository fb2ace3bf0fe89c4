"""Interim analyses: p-values and intervals that hold however often results are looked at, whenever a run stops."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import scipy

from swapbias.measures.contrast import t_ends
from swapbias.measures.estimate import Estimate

_MOST = 5  # interim analyses: more find hardly anything sooner (Pocock 1977)
_NODES = 48  # of the integrals: exact to 1e-9
_TINY = 1e-9  # below it Bonferroni's bound is as good


def interim_rounds(rounds: int) -> tuple[int, ...]:
    """After which of so many equal rounds results are analysed: all, or five evenly spaced ones with the last.

    >>> interim_rounds(3), interim_rounds(20)
    ((1, 2, 3), (4, 8, 12, 16, 20))
    """
    count = min(rounds, _MOST)
    return tuple(-(-rounds * look // count) for look in range(1, count + 1))


@cache
def sequential_p(p_value: float, looks: int) -> float:
    """The chance that any of ``looks`` analyses has a two-sided p as small where there is no gap (Pocock 1977).

    Rounds are taken to be independent. Where they share something (the same prompts again) the chance is lower.

    >>> round(sequential_p(0.0158, 5), 3), sequential_p(0.04, 1)
    (0.05, 0.04)
    """
    if looks == 1 or math.isnan(p_value) or p_value in (0.0, 1.0):
        return p_value
    if p_value < _TINY:
        return looks * p_value
    bound = float(scipy.stats.norm.isf(p_value / 2))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    sums, density = bound * nodes, scipy.stats.norm.pdf(bound * nodes)  # of the first look, where it does not stop
    weight = bound * weights
    for look in range(2, looks + 1):
        reach = bound * math.sqrt(look)
        density = scipy.stats.norm.pdf(reach * nodes[:, None] - sums) @ (weight * density)
        sums, weight = reach * nodes, reach * weights
    return float(min(max(1 - weight @ density, p_value), looks * p_value, 1.0))


@cache
def interim_level(looks: int, level: float = 0.05) -> float:
    """The level of each of ``looks`` interim analyses at which any of them is wrong in ``level`` of all null runs.

    >>> round(interim_level(2), 4), round(interim_level(5), 4)
    (0.0294, 0.0158)
    """
    if looks == 1:
        return level
    return float(scipy.optimize.brentq(lambda p: sequential_p(p, looks) - level, level / looks, level))


def sequential_adjust(estimate: Estimate, looks: int, *, level: float = 0.05) -> Estimate:
    """Adjust p-value and interval for interim analyses (Pocock; repeated intervals, Jennison & Turnbull 1989).

    They hold at each of ``looks`` analyses, whyever the run stopped; coverage is 1 - ``level``. Without a standard
    error the p-value has Bonferroni's bound and several looks leave no interval.
    """
    if math.isnan(estimate.error):
        p_value = float(np.minimum(1.0, looks * estimate.p_value))  # NaN stays NaN
        return estimate if looks == 1 else replace(estimate, p_value=p_value, ci_low=math.nan, ci_high=math.nan)
    covered = 1 - interim_level(looks, level)
    low, high = t_ends(estimate.value, estimate.error, estimate.freedom, covered, estimate.skewness)
    return replace(estimate, p_value=sequential_p(estimate.p_value, looks), ci_low=low, ci_high=high)
