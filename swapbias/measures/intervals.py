"""Intervals and p-values by t, corrected for skewness and for several tests; power."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.estimate import Estimate, Floats
from swapbias.public_calls import public_call

CONFIDENCE = 0.95
"""Coverage of an interval where no other is wanted."""
_NO_SKEW = 1e-6
_MOST_LOG = 700.0  # above 709 its exponential is no finite number


# Times t: further, few levels of a skewed factor would decide nothing however large the gap.
_MOST_REACH = 2


def t_reach(confidence: float, df: float) -> float:
    """Return the number of standard errors that an interval reaches.

    Args:
        confidence: the coverage, a share.
        df: degrees of freedom.

    Raises:
        ValueError: a coverage that is no share.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence!r}, expected between 0 and 1, as 0.95.")
    return float(scipy.special.stdtrit(df, 0.5 + confidence / 2))


def t_ends(
    value: float, std_error: float, df: float, confidence: float, skewness: float = 0.0
) -> tuple[float, float]:
    """Ends of the t interval, each moved outwards where Hall's correction for skewness says so; NaN without an error.

    An end lies at most twice as far from the value as t alone puts it.

    Args:
        value: the estimate.
        std_error: its standard error, in the same unit.
        df: degrees of freedom of the standard error.
        confidence: the coverage, a share.
        skewness: the skewness of the value; 0: none, or not known.

    >>> [round(end, 2) for end in t_ends(1.0, 0.5, 10, 0.95, skewness=0.4)]  # without: -0.11 and 2.11
    [-0.11, 3.12]
    """
    if not std_error > 0:
        return math.nan, math.nan
    t = t_reach(confidence, df)
    return value - std_error * _reach(t, skewness), value + std_error * _reach(t, -skewness)


def exp_of_end(end: float) -> float:
    """Return the exponential of an end of an interval of logs; about 1e304 where it is larger.

    Args:
        end: the end, a natural log; NaN stays.
    """
    return math.exp(min(end, _MOST_LOG))


def t_p(value: float, std_error: float, df: float, skewness: float = 0.0) -> float:
    """Two-sided p for "the value is 0": one less the coverage that just reaches 0; NaN without an error.

    It inverts ``t_ends``: below a level exactly where the interval of that level leaves out 0.

    Args:
        value: the estimate.
        std_error: its standard error, in the same unit.
        df: degrees of freedom of the standard error.
        skewness: the skewness of the value; 0: none, or not known.
    """
    if not std_error > 0:
        return math.nan
    reach = abs(value) / std_error
    skewness = math.copysign(skewness, value * skewness)
    if abs(skewness) >= _NO_SKEW:
        by_hall = ((1 + skewness * reach / 3) ** 3 - 1) / skewness + skewness / 6
        reach = min(reach, max(by_hall, reach / _MOST_REACH))
    return min(1.0, 2 * float(scipy.special.stdtr(df, -reach)))


def _reach(t: float, skewness: float) -> float:
    """Return how many standard errors below the value the end lies: t, or as far as Hall says, at most 2 t."""
    return max(t, min(_hall_end(t, skewness), _MOST_REACH * t))


def _hall_end(t: float, skewness: float) -> float:
    """Return where the end lies that t gives without skewness (Hall, JRSS B 1992), in standard errors."""
    if abs(skewness) < _NO_SKEW:
        return t
    return float(3 / skewness * (np.cbrt(1 + skewness * (t - skewness / 6)) - 1))


def power(gap: float, std_error: float, df: float, *, level: float = 0.05) -> float:
    """Chance that a two-sided t test finds a gap of this size; NaN without a standard error.

    Args:
        gap: the gap in the unit of the error.
        std_error: the standard error to expect.
        df: its degrees of freedom.
        level: the level of the test.

    >>> round(power(0.0, 0.1, 10), 3), round(power(0.3, 0.1, 10), 2)
    (0.05, 0.77)
    """
    if not (std_error > 0 and df > 0):
        return math.nan
    return _share_beyond(abs(gap) / std_error, _critical_values(df, level))


@cache
def _deviates() -> tuple[Floats, Floats]:
    """Return upper tails of normal deviates from -8 to 8, and the weight of each deviate."""
    deviates = np.linspace(-8.0, 8.0, 161)
    weights = np.exp(-(deviates**2) / 2)
    return scipy.special.ndtr(-deviates), weights / weights.sum()


def _critical_values(df: float, level: float) -> Floats:
    """Return the critical value of the test, in true errors, for each error that may be estimated (``_deviates``)."""
    estimated = np.sqrt(scipy.special.chdtri(df, _deviates()[0]) / df)
    return np.asarray(-float(scipy.special.stdtrit(df, level / 2)) * estimated)


def _share_beyond(away: float, critical: Floats) -> float:
    """Return the chance of a value beyond the critical one on either side, where the truth is ``away`` errors from 0.

    Normal tails over what errors may be estimated: scipy's noncentral t is NaN for few degrees of freedom and far
    gaps.
    """
    tails = scipy.special.ndtr(away - critical) + scipy.special.ndtr(-critical - away)
    return float(_deviates()[1] @ tails)


def detectable_gap(
    std_error: float, df: float, *, level: float = 0.05, chance: float = 0.8
) -> float:
    """Smallest gap that a test finds with a chance, in the unit of the error; NaN without one.

    Args:
        std_error: the standard error to expect.
        df: its degrees of freedom.
        level: the level of the test.
        chance: a share of such audits.
    """
    if not (std_error > 0 and df > 0):
        return math.nan

    critical = _critical_values(df, level)

    def missing(away: float) -> float:
        return _share_beyond(away, critical) - chance

    most = 1.0
    while missing(most) < 0:
        most *= 2
    return std_error * float(scipy.optimize.brentq(missing, 0, most, xtol=1e-4))


def equal_units_needed(margin: float, gap: float = 0.0, *, level: float = 0.025) -> float:
    """Return the number of independent units that must all differ by the same gap, to rule out the margin or more.

    A share q of values equal to the gap, and the others at the end of the range, have a mean of q gap + 1 - q. That
    all of n are equal has a chance of q**n, at most ``level``.

    Args:
        margin: a share of the range of the unit.
        gap: a share of the range of the unit, by which all units differ.
        level: the chance that is allowed.

    Returns:
        Infinite where the gap reaches the margin, up to rounding.

    >>> equal_units_needed(0.05), equal_units_needed(0.05, 0.01), equal_units_needed(0.05, 0.05)
    (72, 90, inf)
    """
    if not abs(gap) < margin or math.isclose(abs(gap), margin):
        return math.inf
    if margin >= 1:
        return 1
    # By log1p: 1 less a tiny margin is 1.
    share = math.log1p(-margin) - math.log1p(-abs(gap))
    needed = math.log(level) / share if share < 0 else math.inf
    return math.inf if math.isinf(needed) else math.floor(needed) + 1


@public_call
def adjust(p_values: ArrayLike, method: str = "holm") -> Floats:
    """p-values corrected over their family by ``holm`` or ``bonferroni``; NaN is no test and stays NaN.

    Args:
        p_values: shape (tests,), 0 to 1 or NaN.
        method: ``holm`` or ``bonferroni``.

    Raises:
        ValueError: another method, or a number outside of 0 to 1.

    >>> [round(float(p), 3) for p in adjust([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    if method not in ("holm", "bonferroni"):
        raise ValueError(f"method {method!r}, expected 'holm' or 'bonferroni'.")
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]  # NaN comes last
    tests = len(order)
    adjusted = np.full(p.shape, np.nan)
    if tests and not 0 <= p[order[0]] <= p[order[-1]] <= 1:
        raise ValueError(f"p-values from {p[order[0]]} to {p[order[-1]]}, expected 0 to 1.")
    times = np.full(tests, tests)
    if method == "holm":
        times = tests - np.arange(tests)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * times), 1.0)
    return adjusted


def at_level(estimate: Estimate, level: float) -> Estimate:
    """Return the estimate with an interval of another coverage; as it is without a standard error.

    Args:
        estimate: the estimate with standard error, degrees of freedom and skewness.
        level: 1 less the coverage.
    """
    if math.isnan(estimate.std_error):
        return estimate
    low, high = t_ends(
        estimate.value, estimate.std_error, estimate.df, 1 - level, estimate.skewness
    )
    return replace(estimate, ci_low=low, ci_high=high)
