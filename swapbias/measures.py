"""Every statistic of the package: arrays in, one Estimate out. numpy and scipy only.

NaN is the one mark for "could not be scored": it is left out, counted in ``n_unscored`` and never turned
into a number. A statistic that is not defined (one pair, no variance) is NaN as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from swapbias.alignment import align_pairs, cluster_codes, pair_clusters, two_groups
from swapbias.intervals import (
    Draw,
    cohens_d,
    difference_error,
    interval_of,
    mean_error,
    mean_of,
    ratio,
    spread_of,
    t_ends,
)
from swapbias.significance import group_test, paired_test

Floats = NDArray[np.float64]


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


def paired_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    pair_ids: Sequence[str],
    *,
    reference_group: str,
    interval: str = "t",
    test: str = "t",
    cluster_ids: Sequence[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Estimate:
    """Mean over pairs of the other group's score minus the reference group's.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,), exactly two values.
        pair_ids: shape (rows,); each id stands once per group.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect sizes.
        interval: ``t`` (paired t) or ``bootstrap`` (percentile, pairs or clusters resampled).
        test: ``t`` (paired t), ``wilcoxon`` (signed rank) or ``permutation`` (sign flip).
        cluster_ids: shape (rows,); pairs of one cluster are not independent. Makes the t interval and test
            cluster-robust (variance of cluster sums, clusters - 1 degrees of freedom), and the bootstrap and
            the sign flip act on whole clusters.
        confidence: coverage of the interval.
        seed, n_resamples: of the bootstrap and the permutation test.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts pairs. No pairs: NaN. One pair,
        or no variance among the differences: interval, d_z and p are NaN.

    Raises:
        ValueError: not two groups, a missing reference group, an incomplete or repeated pair, a cluster that
            splits a pair, an option that does not exist.

    Example:
        >>> gap = paired_gap([0.3, 0.1, 0.5, 0.2], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> round(gap.value, 3), gap.n
        (0.25, 2)
    """
    pairs = align_pairs(scores, groups, pair_ids, reference_group=reference_group)
    difference = pairs.differences
    clusters = None if cluster_ids is None else pair_clusters(cluster_ids, pair_ids, pairs)
    draw = Draw(confidence, seed, n_resamples)
    value = mean_of(difference)
    spread = spread_of(difference, np.concatenate([pairs.other, pairs.reference]))
    error, freedom = mean_error(difference, spread, clusters)
    low, high, made_by = interval_of(interval, value, error, freedom, (difference,), clusters, draw, "paired t")
    p_value, tested_by = paired_test(test, difference, value, error, freedom, clusters, draw)
    return Estimate(
        value=value,
        ci_low=low,
        ci_high=high,
        effect_size=cohens_d(pairs.other, pairs.reference),
        effect_size_z=ratio(value, spread),
        p_value=p_value,
        n=len(difference),
        n_unscored=pairs.n_unscored,
        test=tested_by,
        interval=made_by,
    )


def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    interval: str = "t",
    test: str = "t",
    cluster_ids: Sequence[str] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,), exactly two values.
        reference_group: the group that is subtracted.
        interval: ``t`` (Welch t) or ``bootstrap`` (percentile).
        test: ``t`` (independent t, equal variance), ``welch``, ``wilcoxon`` (rank sum) or ``permutation``.
        cluster_ids: shape (rows,); makes the t interval and test cluster-robust (CR1, clusters - 1 degrees of
            freedom); bootstrap and permutation act on whole clusters.
        confidence, seed, n_resamples: as in ``paired_gap``.

    Returns:
        value 0: equal means; above 0: the other group scores higher. ``n`` counts rows. A group without a
        scored row: NaN. Fewer than two rows in a group, or no variance: interval and p are NaN.

    Raises:
        ValueError: not two groups, a missing reference group, an option that does not exist.

    Example:
        >>> round(group_gap([1.0, 2.0, 4.0, 5.0], ["m", "m", "f", "f"], reference_group="m").value, 3)
        3.0
    """
    score, is_reference = two_groups(scores, groups, reference_group)
    scored = ~np.isnan(score)
    other, reference = score[scored & ~is_reference], score[scored & is_reference]
    clusters = None
    if cluster_ids is not None:
        codes = cluster_codes(cluster_ids, len(score))
        clusters = (codes[scored & ~is_reference], codes[scored & is_reference])
    draw = Draw(confidence, seed, n_resamples)
    value = mean_of(other) - mean_of(reference)
    error, freedom = difference_error(other, reference, clusters)
    low, high, made_by = interval_of(interval, value, error, freedom, (other, reference), clusters, draw, "Welch t")
    p_value, tested_by = group_test(test, other, reference, value, error, freedom, clusters, draw)
    return Estimate(
        value=value,
        ci_low=low,
        ci_high=high,
        effect_size=cohens_d(other, reference),
        p_value=p_value,
        n=int(scored.sum()),
        n_unscored=int((~scored).sum()),
        test=tested_by,
        interval=made_by,
    )


def mean_score(scores: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean of the scores with its t interval; nothing is tested. ``n`` counts rows.

    >>> mean_score([0.1, 0.3, float("nan")]).n_unscored
    1
    """
    score = np.asarray(scores, dtype=np.float64)
    used = score[~np.isnan(score)]
    value = mean_of(used)
    error, freedom = mean_error(used, spread_of(used, used), None)
    low, high = t_ends(value, error, freedom, confidence)
    return Estimate(value, low, high, n=len(used), n_unscored=len(score) - len(used), test="none", interval="t")


def correlation(x: ArrayLike, y: ArrayLike, *, method: str = "pearson", confidence: float = 0.95) -> Estimate:
    """Correlation of two numbers known for the same units, -1 to 1; the interval is Fisher's.

    Raises:
        ValueError: unequal lengths or a method other than ``pearson`` and ``spearman``.
    """
    if method not in ("pearson", "spearman"):
        raise ValueError(f"method {method!r}, expected 'pearson' or 'spearman'.")
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} and {len(second)} numbers, expected one of each per unit.")
    known = ~(np.isnan(first) | np.isnan(second))
    n, lost = int(known.sum()), int((~known).sum())
    a, b = first[known], second[known]
    blank = Estimate(math.nan, n=n, n_unscored=lost, test=f"{method} r", interval="Fisher z")
    if n < 3 or spread_of(a, a) == 0 or spread_of(b, b) == 0:
        return blank
    result = stats.pearsonr(a, b) if method == "pearson" else stats.spearmanr(a, b)
    r, p_value = float(result.statistic), float(result.pvalue)
    if n < 4 or abs(r) >= 1:
        return Estimate(r, p_value=p_value, n=n, n_unscored=lost, test=blank.test, interval=blank.interval)
    half = stats.norm.ppf(0.5 + confidence / 2) / math.sqrt(n - 3)
    ends = [float(np.tanh(np.arctanh(r) + sign * half)) for sign in (-1, 1)]
    return Estimate(
        r, ends[0], ends[1], p_value=p_value, n=n, n_unscored=lost, test=blank.test, interval=blank.interval
    )


def adjust(p_values: ArrayLike, method: str = "holm") -> Floats:
    """p-values corrected over their family, in the same order; NaN is no test and stays NaN.

    ``holm`` and ``bonferroni`` bound the chance of one false finding, ``bh`` the share of false findings.

    >>> [round(float(p), 3) for p in adjust([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]

    Raises:
        ValueError: a method that does not exist or a p-value outside 0..1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    known = ~np.isnan(p)
    if np.any((p[known] < 0) | (p[known] > 1)):
        raise ValueError(f"p-values from {np.nanmin(p)} to {np.nanmax(p)}, expected 0 to 1.")
    adjusted = np.full(p.shape, np.nan)
    tests = int(known.sum())
    if method == "bonferroni":
        adjusted[known] = np.minimum(p[known] * tests, 1.0)
    elif method == "bh":
        adjusted[known] = stats.false_discovery_control(p[known]) if tests else []
    elif method == "holm":
        order = np.argsort(p[known], kind="stable")
        stepped = np.maximum.accumulate(p[known][order] * (tests - np.arange(tests)))
        restored = np.empty(tests)
        restored[order] = np.minimum(stepped, 1.0)
        adjusted[known] = restored
    else:
        raise ValueError(f"method {method!r}, expected 'holm', 'bonferroni' or 'bh'.")
    return adjusted
