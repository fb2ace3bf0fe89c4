"""Gaps between two groups, paired or not: value, interval, effect size, test."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import (
    clustered_name,
    cohens_d,
    linear_contrast,
    pooled_spread,
    ratio,
    shares_in,
    spread_of,
    t_ends,
    t_p,
    t_quantile,
)
from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Factors,
    Floats,
    align_pairs,
    factor_codes,
    factors_of_pairs,
    rows_of,
    two_groups,
)

_NODES = np.linspace(-8.0, 8.0, 161)  # normal deviates, over which what errors may be estimated is averaged


def power(gap: float, error: float, freedom: float, *, level: float = 0.05) -> float:
    """The chance that a two-sided t test at ``level`` finds a gap of this size; NaN without a standard error.

    >>> round(power(0.0, 0.1, 10), 3), round(power(0.3, 0.1, 10), 2)
    (0.05, 0.77)
    """
    return _power(freedom, level)(abs(gap) / error) if error > 0 and freedom > 0 else math.nan


def _power(freedom: float, level: float) -> Callable[[float], float]:
    """Of a gap in standard errors: the normal tails beyond the critical value, over what errors may be estimated.

    The noncentral t of scipy is NaN for few degrees of freedom and far gaps.
    """
    weights = np.exp(-(_NODES**2) / 2)
    weights /= weights.sum()
    estimated = np.sqrt(scipy.special.chdtri(freedom, scipy.special.ndtr(-_NODES)) / freedom)
    most = -t_quantile(level / 2, freedom) * estimated
    return lambda away: float(weights @ (scipy.special.ndtr(away - most) + scipy.special.ndtr(-most - away)))


def detectable_gap(error: float, freedom: float, *, level: float = 0.05, chance: float = 0.8) -> float:
    """The smallest gap that a test at ``level`` finds with this chance, in the unit of the error; NaN without one.

    >>> round(detectable_gap(0.1, 1e6), 3)
    0.28
    """
    if not (error > 0 and freedom > 0):
        return math.nan
    found = _power(freedom, level)
    most = 1.0
    while found(most) < chance:
        most *= 2
    return error * float(scipy.optimize.brentq(lambda away: found(away) - chance, 0, most, xtol=1e-4))


def equal_units_needed(margin: float, gap: float = 0.0, *, level: float = 0.025) -> float:
    """How many independent units must all differ by the same gap, to rule out a mean of the margin or more.

    A mean of the margin or more needs at least some values that differ: a share q of them equal to the gap, and the
    others at the end of the range, have a mean of q gap + 1 - q. That all of n are equal has a chance of q**n.

    >>> equal_units_needed(0.05), equal_units_needed(0.05, 0.01), equal_units_needed(0.05, 0.05)
    (72, 90, inf)

    Args:
        margin, gap: shares of the range of their unit.
        level: the largest chance.
    """
    if not abs(gap) < margin:
        return math.inf
    return math.floor(math.log(level) / math.log((1 - margin) / (1 - abs(gap)))) + 1 if margin < 1 else 1


def sign_test_p(difference: Floats, factors: Factors) -> float:
    """Two-sided exact p of the sign test of the clusters' means, the largest of any factor; NaN where all are 0.

    Fourteen equal differences in seven clusters of two: 2 * (1/2)**7, whatever their size.

    >>> sign_test_p(np.full(14, 0.2), {"template": np.arange(14) // 2})
    0.015625
    """
    found = []
    for codes in factors.values() or (np.arange(len(difference)),):
        sums = np.bincount(np.unique(codes, return_inverse=True)[1], weights=difference)  # signs are those of means
        above, unequal = int((sums > 0).sum()), int((sums != 0).sum())
        found.append(float(scipy.stats.binomtest(above, unequal).pvalue) if unequal else math.nan)
    return max(found, default=math.nan)


def pooled_error(other: Floats, reference: Floats) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom, were both groups to vary alike."""
    spreads = [spread_of(side, np.concatenate([other, reference])) for side in (other, reference)]
    if any(math.isnan(spread) for spread in spreads) or sum(spreads) == 0:
        return math.nan, math.nan
    sizes, freedom = (len(other), len(reference)), len(other) + len(reference) - 2
    squares = sum((size - 1) * spread**2 for size, spread in zip(sizes, spreads, strict=True))
    return math.sqrt(squares / freedom * (1 / sizes[0] + 1 / sizes[1])), freedom


def paired_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    pair_ids: Sequence[str],
    *,
    reference_group: str,
    test: str = "t",
    cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
) -> Estimate:
    """Mean over pairs of the other group's score minus the reference group's.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,), exactly two values.
        pair_ids: shape (rows,); each id stands once per group.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect sizes.
        test: ``t`` or ``sign`` (exact, of the means of clusters: the one that is defined where all differences are
            equal). Interval and p of the t test agree: p is below .05 where the 95 % interval leaves out 0.
        cluster_ids: shape (rows,); pairs of one cluster are not independent: interval and test hold over a new
            sample of clusters. A mapping of several random factors that cross, ``{"template": [...], "condition":
            [...]}``: they hold over all of them.
        confidence: coverage of the interval.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts pairs. No pairs: NaN. One pair,
        or no variance among the differences (with clusters: among their sums): interval, d_z and the p-value of
        the t test are NaN.

    Raises:
        ValueError: not two groups, a missing reference group, an incomplete or repeated pair, a cluster that
            splits a pair, an option that does not exist.

    Example:
        >>> gap = paired_gap([0.3, 0.1, 0.5, 0.2], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> round(gap.value, 3), gap.n
        (0.25, 2)
    """
    if test not in ("t", "sign"):
        raise ValueError(f"test {test!r}, expected 't' or 'sign'.")
    pairs = align_pairs(scores, groups, pair_ids, reference_group=reference_group)
    difference, both = pairs.differences, np.concatenate([pairs.other, pairs.reference])
    factors = rows_of(factors_of_pairs(cluster_ids, pair_ids), pairs.rows)
    sides = np.zeros(len(difference), dtype=np.intp)
    found = linear_contrast(
        difference, sides, (1.0,), factors, scale=both, confidence=confidence, n_unscored=pairs.n_unscored
    )
    tested = clustered_name(factors, "paired t")
    found = replace(found, test=tested, interval=tested)
    if test == "sign":
        names = " and ".join(filter(None, factors))
        by_signs = f"sign test{names and f' ({names})'}"
        found = replace(found, p_value=sign_test_p(difference, factors), test=by_signs)
    z = ratio(found.value, spread_of(difference, both))
    return replace(found, effect_size=cohens_d(pairs.other, pairs.reference), effect_size_z=z)


def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    test: str = "welch",
    cluster_ids: ClusterIds = None,
    weights: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,), exactly two values.
        reference_group: the group that is subtracted.
        test: ``welch`` or ``t`` (pooled: takes both groups to vary alike, as many papers do). Interval and p agree.
        cluster_ids: as in ``paired_gap``; a cluster may have rows in both groups.
        weights: shape (rows,), of each row in the mean of its group, from 0; None: all weigh the same.
        confidence: as in ``paired_gap``.

    Returns:
        value 0: equal means; above 0: the other group scores higher. ``n`` counts rows. A group without a
        scored row: NaN. Fewer than two rows in a group, or no variance: interval and p are NaN.

    Raises:
        ValueError: not two groups, a missing reference group, an option that does not exist.

    Example:
        >>> round(group_gap([1.0, 2.0, 4.0, 5.0], ["m", "m", "f", "f"], reference_group="m").value, 3)
        3.0
    """
    if test not in ("welch", "t"):
        raise ValueError(f"test {test!r}, expected 'welch' or 't'.")
    score, is_reference = two_groups(scores, groups, reference_group)
    known = ~np.isnan(score)
    used, sides = score[known], is_reference[known].astype(np.intp)
    factors = rows_of(factor_codes(cluster_ids, len(score)), known)
    lost, shares = int((~known).sum()), shares_in(weights, known, sides)
    found = linear_contrast(used, sides, (1.0, -1.0), factors, shares=shares, confidence=confidence, n_unscored=lost)
    other, reference = used[sides == 0], used[sides == 1]
    if test == "t" and not factors and shares is None:
        error, freedom = pooled_error(other, reference)
        low, high = t_ends(found.value, error, freedom, confidence)
        name, p_value = "independent t (equal variance)", t_p(found.value, error, freedom)
        found = replace(
            found,
            ci_low=low,
            ci_high=high,
            error=error,
            freedom=freedom,
            p_value=p_value,
            test=name,
            interval="pooled t",
        )
    spread = pooled_spread((other, reference)) if min(len(other), len(reference)) > 1 else math.nan
    return replace(found, effect_size=ratio(found.value, spread))
