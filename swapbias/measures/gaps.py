"""Estimates from arrays: gaps between groups, selection rates, means and correlations, with interval and p-value."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Floats,
    Ids,
    by_group,
    named_group,
    numbers,
    two_groups,
)
from swapbias.measures.group_scores import GroupScores, Omnibus
from swapbias.measures.intervals import CONFIDENCE, exp_of_end, t_ends, t_p, t_reach
from swapbias.measures.spreads import pooled_spread, spread_of
from swapbias.public_calls import public_call

# Weights of the two means; ``two_groups`` puts the reference second.
_OTHER_MINUS_REFERENCE = np.array([1.0, -1.0])


@public_call
def paired_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    pair_ids: Ids,
    *,
    reference_group: str,
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean over pairs of the other group's score minus the reference group's.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,); exactly two groups.
        pair_ids: shape (rows,); each id stands once in both groups.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect sizes.
        cluster_ids: None: pairs are independent. Shape (rows,), an id for each row: pairs of one cluster are not
            independent, and interval and test generalise to new clusters. A mapping of names to such ids, for crossed
            random factors: ``{"template": [...], "condition": [...]}``.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts pairs. No pairs: NaN. One pair, or no
        variance among the differences (with clusters, among the sums of clusters): interval, d_z and p are NaN.

    Raises:
        ValueError: other than two groups, an incomplete pair, or a missing id.

    >>> gap = paired_gap([0.3, 0.1, 0.5, 0.2], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
    >>> round(gap.value, 3), gap.n
    (0.25, 2)
    """
    score, sides, names = two_groups(scores, groups, reference_group)
    return GroupScores.of(score, sides, names, cluster_ids, pair_ids).contrast(
        _OTHER_MINUS_REFERENCE
    )


@public_call
def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    test: str = "welch",
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,); exactly two groups.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect size.
        test: ``welch`` or ``t`` (pooled: assumes equal variances, as many papers do). Either is checked, and has no
            effect with ``cluster_ids``: the test is then that of the clusters.
        cluster_ids: as in ``paired_gap``; a cluster may have rows in both groups.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts rows. Fewer than two scored rows in a
        group, or no variance: interval and p are NaN.

    Raises:
        ValueError: another test, other than two groups, or a missing id.

    >>> round(group_gap([1.0, 2.0, 4.0, 5.0], ["m", "m", "f", "f"], reference_group="m").value, 3)
    3.0
    """
    if test not in ("welch", "t"):
        raise ValueError(f"test {test!r}, expected 'welch' or 't'.")
    score, sides, names = two_groups(scores, groups, reference_group)
    rows = GroupScores.of(score, sides, names, cluster_ids)
    if test == "welch" or rows.factors:
        return rows.contrast(_OTHER_MINUS_REFERENCE)
    return _pooled_gap(rows)


def gap_of_samples(first: Floats, second: Floats) -> Estimate:
    """Return the mean of a sample minus that of another, by the t test of independent samples of equal variance.

    Args:
        first: shape (units,), NaN where a unit could not be scored.
        second: shape (other units,), the sample that is subtracted.
    """
    sides = np.repeat([0, 1], [len(first), len(second)])
    values = np.concatenate([first, second])
    return _pooled_gap(GroupScores.of(values, sides, ("first", "second"), None))


def _pooled_gap(rows: GroupScores) -> Estimate:
    """Return the gap of two groups by the t test that takes their variances as equal."""
    estimate = rows.contrast(_OTHER_MINUS_REFERENCE)
    samples = [rows.values[rows.sides == side] for side in (0, 1)]
    spread = pooled_spread(samples)
    counts = [len(sample) for sample in samples]
    std_error = spread * math.sqrt(1 / counts[0] + 1 / counts[1]) if spread > 0 else math.nan
    df = math.nan if math.isnan(std_error) else sum(counts) - 2
    low, high = t_ends(estimate.value, std_error, df, CONFIDENCE)
    return replace(
        estimate,
        ci_low=low,
        ci_high=high,
        std_error=std_error,
        df=df,
        p_value=t_p(estimate.value, std_error, df),
        test="independent t (equal variance)",
        interval="pooled t",
    )


@public_call
def selection_rate(
    selected: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    reference_group: str | None = None,
    cluster_ids: ClusterIds = None,
) -> dict[str, tuple[Estimate, Estimate]]:
    """Share of each group's candidates who are selected, and its impact ratio.

    A ratio's interval and p-value are those of its natural log by the delta method. A rate of 0 or of everyone has a
    ratio without them.

    Args:
        selected: shape (rows,), 1 for a candidate who is selected, 0 for one who is not, or the share of trials; NaN:
            not known, left out.
        groups: shape (rows,); two groups or more.
        pair_ids: shape (rows,), the id of the ranking or choice that each row is part of; each id has one row of each
            group. None: rows are not paired.
        reference_group: the group whose rate the ratios divide by; None: the mean of the groups' rates.
        cluster_ids: as in ``paired_gap``.

    Returns:
        By group the rate, 0 to 1, and the impact ratio, 0 or above; 1: as the reference, below 1: selected less
        often.

    Raises:
        ValueError: fewer than two groups, no rows of the reference, or a number outside of 0 to 1.

    >>> rates = selection_rate([1, 1, 0, 1, 0, 0], ["f"] * 3 + ["m"] * 3, reference_group="f")
    >>> {group: (round(rate.value, 2), ratio.value) for group, (rate, ratio) in rates.items()}
    {'f': (0.67, 1.0), 'm': (0.33, 0.5)}
    """
    score, codes, names = by_group(selected, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        names_found = names or "none"
        if reference is None:
            raise ValueError(f"groups {names_found}, expected two or more.")
        raise ValueError(
            f"groups {names_found}, expected two or more, {reference_group!r} among them."
        )
    if np.any((score < 0) | (score > 1)):
        raise ValueError(
            "selected contains a number outside of 0 to 1. Give whether each candidate is selected."
        )
    rows = GroupScores.of(score, codes, names, cluster_ids, pair_ids)
    base_weights = np.full(len(names), 1 / len(names))
    if reference is not None:
        base_weights = np.array([float(name == reference) for name in names])
    base = float(base_weights @ rows.means)
    rates = {}
    for name, weights in zip(names, np.eye(len(names)), strict=True):
        rate = rows.contrast(weights)
        ratio = _plain_ratio(rate, base)
        if name != reference:
            ratio = _with_log_inference(ratio, rows, rate, weights, base, base_weights)
        rates[name] = (
            replace(
                rate,
                ci_low=float(np.clip(rate.ci_low, 0, 1)),
                ci_high=float(np.clip(rate.ci_high, 0, 1)),
                p_value=math.nan,
                test="none",
                effect_size=math.nan,
            ),
            ratio,
        )
    return rates


def _plain_ratio(rate: Estimate, base: float) -> Estimate:
    """Return the impact ratio without interval and p-value."""
    value = rate.value / base if base > 0 else math.nan
    return Estimate(value, n=rate.n, n_unscored=rate.n_unscored, test="none")


def _with_log_inference(
    ratio: Estimate,
    rows: GroupScores,
    rate: Estimate,
    weights: Floats,
    base: float,
    base_weights: Floats,
) -> Estimate:
    """Return the impact ratio of a group with the inference of its log; as it is where either rate is 0.

    ``weights`` and ``base_weights`` are those of the groups' means in the group's rate and in ``base``, which the
    ratio divides by.
    """
    if not (rate.value > 0 and base > 0):
        return ratio
    # By the delta method; the value of this contrast itself is 0.
    log_ratio = rows.contrast(weights / rate.value - base_weights / base)
    method = f"{log_ratio.test} of the log"
    return replace(
        log_ratio,
        value=ratio.value,
        ci_low=ratio.value * exp_of_end(log_ratio.ci_low),
        ci_high=ratio.value * exp_of_end(log_ratio.ci_high),
        p_value=t_p(math.log(ratio.value), log_ratio.std_error, log_ratio.df, log_ratio.skewness),
        test=method,
        interval=method,
        effect_size=math.nan,
        effect_size_z=math.nan,
    )


@public_call
def mean_score(
    scores: ArrayLike, *, cluster_ids: ClusterIds = None, weights: ArrayLike | None = None
) -> Estimate:
    """Mean of the scores with its t interval; nothing is tested.

    Args:
        scores: shape (rows,), any unit; NaN scores are left out and counted.
        cluster_ids: as in ``paired_gap``.
        weights: shape (rows,), 0 or above; None: all rows weigh the same.

    Returns:
        In the unit of the scores; ``n`` counts rows.

    Raises:
        ValueError: scores of another shape, weights below 0, or a missing id.
    """
    score = numbers(scores)
    if score.ndim != 1:
        raise ValueError(f"scores of shape {score.shape}, expected one score per row.")
    codes = np.zeros(len(score), np.intp)
    rows = GroupScores.of(score, codes, ("",), cluster_ids, weights=weights)
    estimate = rows.contrast(np.ones(1))
    return replace(estimate, p_value=math.nan, effect_size=math.nan, test="none", independent=0)


@public_call
def correlation(x: ArrayLike, y: ArrayLike, *, method: str = "pearson") -> Estimate:
    """Correlation of two numbers known for the same units.

    The interval is Fisher's; for ranks it is Bonett and Wright's (2000). Fewer than four units, or a correlation of 1
    or -1, have no interval.

    Args:
        x: shape (units,), any unit; NaN leaves the unit out.
        y: shape (units,), any unit; NaN leaves the unit out.
        method: ``pearson`` or ``spearman``.

    Returns:
        -1 to 1; 0: no correlation. NaN for fewer than three units, or where x or y does not vary.

    Raises:
        ValueError: another method, unequal shapes, or an infinite number.
    """
    if method not in ("pearson", "spearman"):
        raise ValueError(f"method {method!r}, expected 'pearson' or 'spearman'.")
    all_x = numbers(x)
    all_y = numbers(y)
    if all_x.shape != all_y.shape:
        raise ValueError(f"{len(all_x)} and {len(all_y)} numbers, expected one of each per unit.")
    if np.any(np.isinf(all_x)) or np.any(np.isinf(all_y)):
        raise ValueError("An infinite number has no correlation. Correct it, or give NaN for none.")
    by_ranks = method == "spearman"
    are_known = ~(np.isnan(all_x) | np.isnan(all_y))
    n = int(are_known.sum())
    known_x = all_x[are_known]
    known_y = all_y[are_known]
    estimate = Estimate(
        math.nan,
        n=n,
        n_unscored=len(all_x) - n,
        test=f"{method} r",
        interval="Bonett-Wright" if by_ranks else "Fisher z",
    )
    if n < 3 or spread_of(known_x, known_x) == 0 or spread_of(known_y, known_y) == 0:
        return estimate
    result = scipy.stats.pearsonr(known_x, known_y)
    if by_ranks:
        result = scipy.stats.spearmanr(known_x, known_y)
    r = float(result.statistic)
    estimate = replace(estimate, value=r, p_value=float(result.pvalue))
    if n < 4 or abs(r) >= 1:
        return estimate
    variance = (1 + r**2 / 2 if by_ranks else 1.0) / (n - 3)
    half = t_reach(CONFIDENCE, math.inf) * math.sqrt(variance)
    z = math.atanh(r)
    return replace(estimate, ci_low=math.tanh(z - half), ci_high=math.tanh(z + half))


@public_call
def omnibus(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[Any] | None = None,
    reference_group: str | None = None,
) -> Omnibus:
    """Bonferroni test whether any of k groups differs, comparing every two of them, or each with the reference.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,); two groups or more.
        pair_ids: shape (rows,); pairs that are not scored in all groups are left out. None: rows are not paired.
        cluster_ids: as in ``paired_gap``.
        sample_ids: shape (rows,), with pairs only: the sample of each pair, one of two. The test is then whether the
            gaps of both samples are the same.
        reference_group: each other group is compared with it; None: every two groups are compared.

    Returns:
        The test with the mean of each group; its ``estimate`` is the SD of these means, 0: all are equal.

    Raises:
        ValueError: fewer than two groups, no rows of the reference, an incomplete pair, or a missing id.

    >>> result = omnibus([1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"))
    >>> result.contrasts, {name: round(mean, 2) for name, mean in result.means.items()}
    (3, {'a': 1.5, 'b': 3.0, 'c': 4.5})
    """
    score, codes, names = by_group(scores, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        raise ValueError(_group_error(names, reference_group))
    indicators = dict(zip(names, np.eye(len(names)), strict=True))
    pairs = list(combinations(names, 2))
    if reference is not None:
        pairs = [(name, reference) for name in names if name != reference]
    rows = GroupScores.of(score, codes, names, cluster_ids, pair_ids, sample_ids=sample_ids)
    return rows.omnibus([indicators[first] - indicators[second] for first, second in pairs])


def _group_error(names: Sequence[str], reference_group: str | None) -> str:
    """Say that a test of several groups has too few of them, or lacks its reference."""
    groups = names or "none"
    if reference_group is None:
        return f"groups {groups}, expected at least two."
    return f"groups {groups}, expected at least two with {reference_group!r} as reference_group."
