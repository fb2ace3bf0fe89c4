"""One number and how sure it is."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number and how sure it is.

    Attributes:
        value: the quantity, in the unit of the scores. For gaps: the other group minus the reference group.
        ci_low, ci_high: ends of the interval (95 % by default).
        effect_size: Cohen's d with the pooled SD of the two groups (ddof=1), also for pairs. No unit.
        effect_size_z: d_z, mean difference over the SD of the differences; NaN where there are no pairs.
        p_value: two-sided, for "the value is zero".
        n: units used (pairs for paired measures, rows otherwise).
        n_unscored: units left out because a score is NaN.
        test, interval: what gave the p-value and the interval.
        p_adjusted, family: the p-value corrected over the tests of the family, and its name.
    """

    value: float
    ci_low: float = math.nan
    ci_high: float = math.nan
    effect_size: float = math.nan
    effect_size_z: float = math.nan
    p_value: float = math.nan
    n: int = 0
    n_unscored: int = 0
    test: str = ""
    interval: str = ""
    p_adjusted: float = math.nan
    family: str = ""
