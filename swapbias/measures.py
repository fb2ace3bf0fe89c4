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

from swapbias.resampling import bootstrap_interval, label_permutation_p, sign_flip_p

Floats = NDArray[np.float64]
_FLAT = 1e-12  # a spread below this share of the largest value is rounding, not variance


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


@dataclass(frozen=True, slots=True)
class Pairs:
    """Complete pairs, aligned: scores of both groups, and the row of the other group's score."""

    other: Floats
    reference: Floats
    rows: NDArray[np.intp]
    n_unscored: int

    @property
    def differences(self) -> Floats:
        """Other minus reference, one per pair."""
        return self.other - self.reference


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
    clusters = None if cluster_ids is None else _pair_clusters(cluster_ids, pair_ids, pairs)
    draw = _Draw(confidence, seed, n_resamples)
    value = _mean(difference)
    spread = _spread(difference, np.concatenate([pairs.other, pairs.reference]))
    error, freedom = _mean_error(difference, spread, clusters)
    low, high, made_by = _interval(interval, value, error, freedom, (difference,), clusters, draw, "paired t")
    p_value, tested_by = _paired_test(test, difference, value, error, freedom, clusters, draw)
    return Estimate(
        value=value,
        ci_low=low,
        ci_high=high,
        effect_size=_cohens_d(pairs.other, pairs.reference),
        effect_size_z=_ratio(value, spread),
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
    score, is_reference = _two_groups(scores, groups, reference_group)
    scored = ~np.isnan(score)
    other, reference = score[scored & ~is_reference], score[scored & is_reference]
    clusters = None
    if cluster_ids is not None:
        codes = _codes(cluster_ids, len(score))
        clusters = (codes[scored & ~is_reference], codes[scored & is_reference])
    draw = _Draw(confidence, seed, n_resamples)
    value = _mean(other) - _mean(reference)
    error, freedom = _difference_error(other, reference, clusters)
    low, high, made_by = _interval(interval, value, error, freedom, (other, reference), clusters, draw, "Welch t")
    p_value, tested_by = _group_test(test, other, reference, value, error, freedom, clusters, draw)
    return Estimate(
        value=value,
        ci_low=low,
        ci_high=high,
        effect_size=_cohens_d(other, reference),
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
    value = _mean(used)
    error, freedom = _mean_error(used, _spread(used, used), None)
    low, high = _t_ends(value, error, freedom, confidence)
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
    if n < 3 or _spread(a, a) == 0 or _spread(b, b) == 0:
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


# --- aligning rows ------------------------------------------------------------------------------------


def align_pairs(scores: ArrayLike, groups: Sequence[str], pair_ids: Sequence[str], *, reference_group: str) -> Pairs:
    """Complete pairs in the order of their first row; pairs with a NaN score are counted and left out.

    Raises:
        ValueError: as ``paired_gap``.
    """
    score, is_reference = _two_groups(scores, groups, reference_group)
    if len(pair_ids) != len(score):
        raise ValueError(f"{len(score)} scores and {len(pair_ids)} pair_ids, expected one per row.")
    names, first, codes = np.unique(np.asarray(pair_ids), return_index=True, return_inverse=True)
    for side, members in (("the other group", ~is_reference), (repr(reference_group), is_reference)):
        counts = np.bincount(codes[members], minlength=len(names))
        wrong = np.flatnonzero(counts != 1)
        if len(wrong):
            raise ValueError(f"pair {names[wrong[0]]!s} has {counts[wrong[0]]} rows of {side}, expected one.")
    other_row, reference_row = (np.empty(len(names), dtype=np.intp) for _ in range(2))
    other_row[codes[~is_reference]] = np.flatnonzero(~is_reference)
    reference_row[codes[is_reference]] = np.flatnonzero(is_reference)
    order = np.argsort(first)
    other_row, reference_row = other_row[order], reference_row[order]
    complete = ~(np.isnan(score[other_row]) | np.isnan(score[reference_row]))
    other_row, reference_row = other_row[complete], reference_row[complete]
    return Pairs(score[other_row], score[reference_row], other_row, int((~complete).sum()))


def _two_groups(scores: ArrayLike, groups: Sequence[str], reference_group: str) -> tuple[Floats, NDArray[np.bool_]]:
    score = np.asarray(scores, dtype=np.float64)
    group = np.asarray(groups)
    if score.ndim != 1 or len(score) != len(group):
        raise ValueError(f"scores of shape {score.shape} and {len(group)} groups, expected one score per row.")
    found = sorted({str(name) for name in group})
    if len(found) != 2 or reference_group not in found:
        raise ValueError(f"groups {found}, expected exactly two with {reference_group!r} as reference_group.")
    return score, group == reference_group


def _codes(ids: Sequence[str], rows: int) -> NDArray[np.intp]:
    if len(ids) != rows:
        raise ValueError(f"{rows} scores and {len(ids)} cluster_ids, expected one per row.")
    return np.unique(np.asarray(ids), return_inverse=True)[1]


def _pair_clusters(cluster_ids: Sequence[str], pair_ids: Sequence[str], pairs: Pairs) -> tuple[NDArray[np.intp], ...]:
    codes = _codes(cluster_ids, len(pair_ids))
    ids = np.asarray(pair_ids)
    if len(set(zip(ids.tolist(), codes.tolist(), strict=True))) != len(set(ids.tolist())):
        raise ValueError("A pair lies in two clusters, expected both of its rows in one. Fix cluster_ids.")
    return (codes[pairs.rows],)


# --- spread, error and interval -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Draw:
    confidence: float
    seed: int
    n_resamples: int


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _spread(values: Floats, scale: Floats) -> float:
    """SD (ddof=1); exactly 0 where it is rounding noise of numbers as large as ``scale``; NaN below two values."""
    if len(values) < 2:
        return math.nan
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= _FLAT * float(np.abs(scale).max()) else spread


def _ratio(value: float, spread: float) -> float:
    return value / spread if spread > 0 else math.nan


def _cohens_d(other: Floats, reference: Floats) -> float:
    if min(len(other), len(reference)) < 2:
        return math.nan
    squares = sum((len(side) - 1) * _spread(side, side) ** 2 for side in (other, reference))
    return _ratio(_mean(other) - _mean(reference), math.sqrt(squares / (len(other) + len(reference) - 2)))


def _mean_error(values: Floats, spread: float, clusters: tuple[NDArray[np.intp], ...] | None) -> tuple[float, float]:
    """Standard error of a mean and its degrees of freedom; NaN where there is no spread to estimate from."""
    if not spread > 0:
        return math.nan, math.nan
    if clusters is None:
        return spread / math.sqrt(len(values)), len(values) - 1
    return _clustered_error((values - values.mean()) / len(values), clusters[0], correction=1.0)


def _difference_error(
    other: Floats, reference: Floats, clusters: tuple[NDArray[np.intp], ...] | None
) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom (Welch, or clusters - 1)."""
    spreads = [_spread(side, np.concatenate([other, reference])) for side in (other, reference)]
    if any(math.isnan(spread) for spread in spreads) or sum(spreads) == 0:
        return math.nan, math.nan
    if clusters is not None:
        influence = np.concatenate(
            [(other - other.mean()) / len(other), -(reference - reference.mean()) / len(reference)]
        )
        rows = len(influence)
        return _clustered_error(influence, np.concatenate(clusters), correction=(rows - 1) / (rows - 2))
    parts = [spread**2 / len(side) for spread, side in zip(spreads, (other, reference), strict=True)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (other, reference), strict=True)
    )
    return math.sqrt(sum(parts)), freedom


def _clustered_error(influence: Floats, codes: NDArray[np.intp], correction: float) -> tuple[float, float]:
    count = len(np.unique(codes))
    if count < 2:
        return math.nan, math.nan
    sums = np.bincount(codes, weights=influence)
    return math.sqrt(correction * count / (count - 1) * float(sums @ sums)), count - 1


def _t_ends(value: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    if not error > 0:
        return math.nan, math.nan
    half = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return value - half, value + half


def _interval(
    kind: str,
    value: float,
    error: float,
    freedom: float,
    samples: tuple[Floats, ...],
    clusters: tuple[NDArray[np.intp], ...] | None,
    draw: _Draw,
    plain: str,
) -> tuple[float, float, str]:
    if kind == "t":
        low, high = _t_ends(value, error, freedom, draw.confidence)
        return low, high, plain if clusters is None else "cluster-robust t"
    if kind != "bootstrap":
        raise ValueError(f"interval {kind!r}, expected 't' or 'bootstrap'.")
    name = "bootstrap percentile" if clusters is None else "cluster bootstrap percentile"
    if not error > 0:
        return math.nan, math.nan, name
    low, high = bootstrap_interval(
        samples, clusters, confidence=draw.confidence, seed=draw.seed, n_resamples=draw.n_resamples
    )
    return low, high, name


# --- tests --------------------------------------------------------------------------------------------


def _t_p(value: float, error: float, freedom: float) -> float:
    return float(2 * stats.t.sf(abs(value / error), freedom)) if error > 0 else math.nan


def _paired_test(
    test: str,
    difference: Floats,
    value: float,
    error: float,
    freedom: float,
    clusters: tuple[NDArray[np.intp], ...] | None,
    draw: _Draw,
) -> tuple[float, str]:
    if test == "t":
        return _t_p(value, error, freedom), "paired t" if clusters is None else "cluster-robust t"
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


def _group_test(
    test: str,
    other: Floats,
    reference: Floats,
    value: float,
    error: float,
    freedom: float,
    clusters: tuple[NDArray[np.intp], ...] | None,
    draw: _Draw,
) -> tuple[float, str]:
    defined = error > 0
    if clusters is not None and test == "t":
        return _t_p(value, error, freedom), "cluster-robust t"
    if clusters is not None or test not in ("t", "welch", "wilcoxon", "permutation"):
        raise ValueError(
            f"test {test!r}{' with cluster_ids' if clusters else ''}, expected 't' "
            "or, without clusters, 'welch', 'wilcoxon' or 'permutation'."
        )
    if test == "welch":
        return _t_p(value, error, freedom), "Welch t"
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
