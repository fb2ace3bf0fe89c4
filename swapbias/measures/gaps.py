"""Gaps between two groups, paired or not: value, interval, effect size, test."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from swapbias.measures.estimate import Estimate, Floats, align_pairs, cluster_codes, clusters_of_pairs, two_groups
from swapbias.measures.intervals import (
    Clusters,
    Draw,
    cohens_d,
    difference_error,
    interval_of,
    label_permutation_p,
    mean_error,
    mean_of,
    ratio,
    sign_flip_p,
    spread_of,
)


def t_p(value: float, error: float, freedom: float) -> float:
    """Two-sided p-value of a t statistic; NaN without a standard error."""
    return float(2 * stats.t.sf(abs(value / error), freedom)) if error > 0 else math.nan


def paired_test(
    test: str,
    difference: Floats,
    value: float,
    error: float,
    freedom: float,
    clusters: Clusters,
    draw: Draw,
) -> tuple[float, str]:
    """p-value and name of the test of paired differences; NaN where nothing varies."""
    if test == "t":
        return t_p(value, error, freedom), "paired t" if clusters is None else "cluster-robust t"
    if test == "permutation":
        units = difference if clusters is None else np.bincount(clusters[0], weights=difference).astype(np.float64)
        name = "sign-flip permutation" + ("" if clusters is None else " of clusters")
        return sign_flip_p(units, seed=draw.seed, n_resamples=draw.n_resamples), name
    if test == "wilcoxon" and clusters is None:
        defined = np.any(difference != 0)
        return float(stats.wilcoxon(difference).pvalue) if defined else math.nan, "Wilcoxon signed rank"
    raise ValueError(
        f"test {test!r}{' with cluster_ids' if clusters else ''}, expected 't', 'wilcoxon' (no clusters) "
        "or 'permutation'."
    )


def group_test(
    test: str,
    other: Floats,
    reference: Floats,
    value: float,
    error: float,
    freedom: float,
    clusters: Clusters,
    draw: Draw,
) -> tuple[float, str]:
    """p-value and name of the test of two groups; NaN where nothing varies."""
    defined = error > 0
    if clusters is not None and test == "t":
        return t_p(value, error, freedom), "cluster-robust t"
    if clusters is not None or test not in ("t", "welch", "wilcoxon", "permutation"):
        raise ValueError(
            f"test {test!r}{' with cluster_ids' if clusters else ''}, expected 't' "
            "or, without clusters, 'welch', 'wilcoxon' or 'permutation'."
        )
    if test == "welch":
        return t_p(value, error, freedom), "Welch t"
    if test == "t":
        sides = [(s.mean(), s.std(ddof=1), len(s)) for s in (other, reference)] if defined else []
        p_value = float(stats.ttest_ind_from_stats(*sides[0], *sides[1]).pvalue) if defined else math.nan
        return p_value, "independent t (equal variance)"
    if test == "wilcoxon":
        p_value = float(stats.mannwhitneyu(other, reference).pvalue) if defined else math.nan
        return p_value, "Wilcoxon rank sum"
    p_value = math.nan
    if defined:
        p_value = label_permutation_p(other, reference, seed=draw.seed, n_resamples=draw.n_resamples)
    return p_value, "label permutation"


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
    pairs = align_pairs(scores, groups, pair_ids, reference_group=reference_group)
    difference = pairs.differences
    clusters = None if cluster_ids is None else (clusters_of_pairs(cluster_ids, pair_ids)[pairs.rows],)
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
            freedom) and the bootstrap draw whole clusters; the other tests are refused.
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
