"""Means, correlations, and gaps between two or more groups, paired or not: value, interval, effect size, test."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import (
    pooled_spread,
    spread_of,
)
from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Ids,
    by_group,
    named_group,
    numbers,
    two_groups,
)
from swapbias.measures.group_scores import GroupScores, Omnibus
from swapbias.measures.intervals import t_ends, t_p, t_reach

_MINUS_REFERENCE = np.array([1.0, -1.0])  # weights of the two means


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
        groups, pair_ids: shape (rows,); exactly two groups, each id stands once in both.
        reference_group: the group that is subtracted. Swapping it flips the sign of value and effect sizes.
        cluster_ids: shape (rows,); pairs of one cluster are not independent: interval and test generalise to new
            clusters. For crossed random factors a mapping: ``{"template": [...], "condition": [...]}``.

    Returns:
        value 0: no gap; above 0: the other group scores higher. ``n`` counts pairs. No pairs: NaN. One pair, or no
        variance among the differences (or sums of clusters): interval, d_z and p are NaN.

    >>> gap = paired_gap([0.3, 0.1, 0.5, 0.2], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
    >>> round(gap.value, 3), gap.n
    (0.25, 2)
    """
    return GroupScores.of(
        *two_groups(scores, groups, reference_group), cluster_ids, pair_ids
    ).contrast(_MINUS_REFERENCE)


def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    test: str = "welch",
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Arguments and value as in ``paired_gap``; a cluster may have rows in both groups. ``test`` is ``welch`` or ``t``
    (pooled: assumes equal variances, as many papers do). ``n`` counts rows. Fewer than two scored rows in a
    group, or no variance: interval and p are NaN.

    >>> round(group_gap([1.0, 2.0, 4.0, 5.0], ["m", "m", "f", "f"], reference_group="m").value, 3)
    3.0
    """
    if test not in ("welch", "t"):
        raise ValueError(f"test {test!r}, expected 'welch' or 't'.")
    rows = GroupScores.of(*two_groups(scores, groups, reference_group), cluster_ids)
    found = rows.contrast(_MINUS_REFERENCE)
    if test == "welch" or rows.factors:
        return found
    samples = [rows.values[rows.sides == side] for side in (0, 1)]
    spread = pooled_spread(samples)
    counts = [len(one) for one in samples]
    std_error = spread * math.sqrt(1 / counts[0] + 1 / counts[1]) if spread > 0 else math.nan
    df = math.nan if math.isnan(std_error) else sum(counts) - 2
    low, high = t_ends(found.value, std_error, df, 0.95)
    return replace(
        found,
        ci_low=low,
        ci_high=high,
        std_error=std_error,
        df=df,
        p_value=t_p(found.value, std_error, df),
        test="independent t (equal variance)",
        interval="pooled t",
    )


def selection_rate(
    selected: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    reference_group: str | None = None,
    cluster_ids: ClusterIds = None,
) -> dict[str, tuple[Estimate, Estimate]]:
    """Of each group the share of its candidates who are selected, 0 to 1, and the impact ratio (1: as the reference).

    A ratio's interval and p-value are those of its natural log by the delta method. A rate of 0 or of everyone has a
    ratio without them.

    Args:
        selected: shape (rows,), 1 for a candidate who is selected, 0 for others (or a share of trials), or NaN.
        pair_ids: shape (rows,), of the choice that a row belongs to (a ranking), with one row of each group; None:
            rows are not compared with each other.
        reference_group: whose rate the ratios divide by; None: the mean of the groups' rates.

    >>> found = selection_rate([1, 1, 0, 1, 0, 0], ["f"] * 3 + ["m"] * 3, reference_group="f")
    >>> {group: (round(rate.value, 2), ratio.value) for group, (rate, ratio) in found.items()}
    {'f': (0.67, 1.0), 'm': (0.33, 0.5)}
    """
    score, codes, names = by_group(selected, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        raise ValueError(
            f"groups {names or 'none'}, expected two or more, {reference_group!r} among them."
        )
    if np.any((score < 0) | (score > 1)):
        raise ValueError(
            "selected holds a number outside of 0 to 1. Give whether each candidate is selected."
        )
    rows = GroupScores.of(score, codes, names, cluster_ids, pair_ids)
    shares = np.array(
        [1 / len(names) if reference is None else float(name == reference) for name in names]
    )
    base = float(shares @ rows.means)
    found = {}
    for name, own in zip(names, np.eye(len(names)), strict=True):
        mean = rows.contrast(own)
        low, high = (float(np.clip(end, 0, 1)) for end in (mean.ci_low, mean.ci_high))
        rate = replace(
            mean, ci_low=low, ci_high=high, p_value=math.nan, test="none", effect_size=math.nan
        )
        value = mean.value / base if base > 0 else math.nan
        impact = Estimate(value, n=mean.n, n_unscored=mean.n_unscored, test="none")
        if mean.value > 0 and base > 0 and name != reference:
            log = rows.contrast(
                own / mean.value - shares / base
            )  # delta method; its own value is 0
            low, high = (value * math.exp(min(end, 700.0)) for end in (log.ci_low, log.ci_high))
            p_value = t_p(math.log(value), log.std_error, log.df, log.skewness)
            method = f"{log.test} of the log"
            impact = replace(
                log,
                value=value,
                ci_low=low,
                ci_high=high,
                p_value=p_value,
                test=method,
                interval=method,
                effect_size=math.nan,
                effect_size_z=math.nan,
            )
        found[name] = (rate, impact)
    return found


def mean_score(
    scores: ArrayLike, *, cluster_ids: ClusterIds = None, weights: ArrayLike | None = None
) -> Estimate:
    """Mean of the scores with its t interval; nothing is tested. ``n`` counts rows; NaN scores are left out.

    ``cluster_ids`` are those of ``paired_gap``; ``weights`` of rows, from 0; None: all weigh the same.
    """
    score = numbers(scores)
    if score.ndim != 1:
        raise ValueError(f"scores of shape {score.shape}, expected one score per row.")
    rows = GroupScores.of(score, np.zeros(len(score), np.intp), ("",), cluster_ids, weights=weights)
    found = rows.contrast(np.ones(1))
    return replace(found, p_value=math.nan, effect_size=math.nan, test="none", independent=0)


def correlation(x: ArrayLike, y: ArrayLike, *, method: str = "pearson") -> Estimate:
    """Correlation of two numbers known for the same units, -1 to 1; ``method`` is ``pearson`` or ``spearman``.

    The interval is Fisher's, of ranks Bonett and Wright's (2000). Fewer than four units, or a correlation of 1: none.
    """
    if method not in ("pearson", "spearman"):
        raise ValueError(f"method {method!r}, expected 'pearson' or 'spearman'.")
    first, second = numbers(x), numbers(y)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} and {len(second)} numbers, expected one of each per unit.")
    ranks = method == "spearman"
    known = ~(np.isnan(first) | np.isnan(second))
    n = int(known.sum())
    a = first[known]
    b = second[known]
    name = "Bonett-Wright" if ranks else "Fisher z"
    found = Estimate(math.nan, n=n, n_unscored=len(first) - n, test=f"{method} r", interval=name)
    if n < 3 or spread_of(a, a) == 0 or spread_of(b, b) == 0:
        return found
    result = scipy.stats.spearmanr(a, b) if ranks else scipy.stats.pearsonr(a, b)
    r = float(result.statistic)
    found = replace(found, value=r, p_value=float(result.pvalue))
    if n < 4 or abs(r) >= 1:
        return found
    half = t_reach(0.95, math.inf) * math.sqrt((1 + r**2 / 2 if ranks else 1.0) / (n - 3))
    return replace(
        found, ci_low=math.tanh(math.atanh(r) - half), ci_high=math.tanh(math.atanh(r) + half)
    )


def omnibus(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[Any] | None = None,
    reference_group: str | None = None,
) -> Omnibus:
    """Bonferroni test whether any of k groups differs, by contrasts of every two groups or with the reference.

    Args:
        scores, groups, cluster_ids: as in ``paired_gap``, with two groups or more.
        pair_ids: pairs that are not scored in all groups are left out. None: rows are not paired.
        sample_ids: shape (rows,), with pairs only: two samples of pairs; tested is whether their gaps are the same.
        reference_group: each other group is compared with it; None: every two groups are.

    >>> found = omnibus([1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"))
    >>> found.contrasts, {name: round(mean, 2) for name, mean in found.means.items()}
    (3, {'a': 1.5, 'b': 3.0, 'c': 4.5})
    """
    score, codes, names = by_group(scores, groups)
    reference = None if reference_group is None else named_group(reference_group, names)
    if len(names) < 2 or reference not in (None, *names):
        wanted = "at least two" + (
            "" if reference is None else f" with {reference_group!r} as reference_group"
        )
        raise ValueError(f"groups {names or 'none'}, expected {wanted}.")
    each = dict(zip(names, np.eye(len(names)), strict=True))
    gaps = (
        combinations(names, 2)
        if reference is None
        else [(one, reference) for one in names if one != reference]
    )
    found = GroupScores.of(score, codes, names, cluster_ids, pair_ids, sample_ids=sample_ids)
    return found.omnibus([each[one] - each[other] for one, other in gaps])
