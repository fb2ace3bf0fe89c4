"""Several looks at one audit: p-values and intervals that hold however often, and whenever, it may have stopped."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import scipy

from swapbias.measures.contrast import t_ends
from swapbias.measures.estimate import Estimate

MOST_LOOKS = 5  # more find hardly anything sooner (Pocock 1977)
_NODES = 48  # of the integrals: exact to 1e-9
_TINY = 1e-9  # below it the bound of Bonferroni is as good


def look_rounds(rounds: int) -> tuple[int, ...]:
    """After which of so many rounds of equal size results are looked at: all, or five that lie evenly, the last one.

    >>> look_rounds(3), look_rounds(20)
    ((1, 2, 3), (4, 8, 12, 16, 20))
    """
    count = min(rounds, MOST_LOOKS)
    return tuple(-(-rounds * look // count) for look in range(1, count + 1))


@cache
def looked_p(p_value: float, looks: int) -> float:
    """How likely any of so many looks, after rounds of equal size, has a two-sided p as small where there is no gap.

    Pocock's rule (Biometrika 1977): one level for all looks. Rounds are taken to be independent of each other; where
    they share something, as the prompts that are asked again, looks are more alike and it is less likely than that.

    >>> round(looked_p(0.0158, 5), 3), looked_p(0.04, 1)
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
def look_level(looks: int, level: float = 0.05) -> float:
    """The level of each of so many looks at which any of them errs in ``level`` of all audits.

    >>> round(look_level(2), 4), round(look_level(5), 4)
    (0.0294, 0.0158)
    """
    if looks == 1:
        return level
    return float(scipy.optimize.brentq(lambda p: looked_p(p, looks) - level, level / looks, level))


def held_over(estimate: Estimate, looks: int, *, level: float = 0.05) -> Estimate:
    """An estimate with the p-value and interval that hold at each of so many looks: the repeated ones.

    So it does not matter why asking ended (Jennison and Turnbull, JRSS B 1989). The interval is a t interval of the
    level of a look. Where there is no standard error, p-values are corrected by Bonferroni and there is no interval.
    """
    if looks > 1 and math.isnan(estimate.error):
        p_value = min(1.0, looks * estimate.p_value) if estimate.p_value == estimate.p_value else math.nan
        return replace(estimate, p_value=p_value, ci_low=math.nan, ci_high=math.nan)
    if math.isnan(estimate.error):
        return estimate
    covered = 1 - look_level(looks, level)
    low, high = t_ends(estimate.value, estimate.error, estimate.freedom, covered, estimate.skewness)
    return replace(estimate, p_value=looked_p(estimate.p_value, looks), ci_low=low, ci_high=high)
