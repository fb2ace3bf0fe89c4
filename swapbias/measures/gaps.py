"""Gaps between two groups, paired or not: value, interval, effect size, test."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

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
from swapbias.measures.intervals import (
    Draw,
    clustered_name,
    cohens_d,
    difference_error,
    exact,
    interval_of,
    label_permutation_p,
    mean_error,
    mean_of,
    one_factor,
    ratio,
    sign_flip_p,
    spread_of,
    studentised_p,
    t_above,
    t_quantile,
)

_NODES = np.linspace(-8.0, 8.0, 161)  # normal deviates, over which what errors may be estimated is averaged


def t_p(value: float, error: float, freedom: float) -> float:
    """Two-sided p-value of a t statistic; NaN without a standard error."""
    return 2 * t_above(abs(value / error), freedom) if error > 0 else math.nan


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


def equivalence_p(value: float, error: float, freedom: float, margin: float) -> float:
    """Two one-sided tests (Schuirmann 1987): p-value for "the gap is as large as the margin or larger".

    >>> equivalence_p(0.0, 0.01, 20, 0.05) < 0.001 < 0.5 < equivalence_p(0.06, 0.01, 20, 0.05)
    True
    """
    if not error > 0:
        return math.nan
    return t_above((margin - abs(value)) / error, freedom)


def above_p(value: float, error: float, freedom: float, bound: float) -> float:
    """One-sided p-value for "the value is the bound or lower"; NaN without a standard error.

    >>> above_p(0.3, 0.05, 20, 0.05) < 0.001 < 0.5 < above_p(0.04, 0.05, 20, 0.05)
    True
    """
    return t_above((value - bound) / error, freedom) if error > 0 else math.nan


def paired_test(
    test: str,
    difference: Floats,
    value: float,
    error: float,
    freedom: float,
    factors: Factors,
    draw: Draw,
) -> tuple[float, str]:
    """p-value and name of the test of paired differences; NaN where nothing varies."""
    if test == "t":
        return t_p(value, error, freedom), clustered_name(factors, "paired t")
    if test == "permutation":
        codes = one_factor(factors, "test 'permutation'")
        units = difference if codes is None else np.bincount(codes, weights=difference).astype(np.float64)
        name = "sign-flip permutation" + ("" if codes is None else " of clusters")
        return sign_flip_p(units, seed=draw.seed, n_resamples=draw.n_resamples), name
    if test == "wilcoxon" and not factors:
        defined = np.any(difference != 0)
        return float(scipy.stats.wilcoxon(difference).pvalue) if defined else math.nan, "Wilcoxon signed rank"
    if test == "sign":
        names = " and ".join(filter(None, factors))
        return sign_test_p(difference, factors), f"sign test{names and f' ({names})'}"
    raise ValueError(
        f"test {test!r}{' with cluster_ids' if factors else ''}, expected 't', 'wilcoxon' (no clusters), "
        "'permutation' or 'sign'."
    )


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


def group_test(
    test: str,
    other: Floats,
    reference: Floats,
    value: float,
    error: float,
    freedom: float,
    factors: Factors,
    draw: Draw,
) -> tuple[float, str]:
    """p-value and name of the test of two groups; NaN where nothing varies."""
    defined = error > 0
    if factors and test in ("welch", "t"):
        return t_p(value, error, freedom), clustered_name(factors, "")
    if factors and test == "permutation":
        codes = one_factor(factors, "test 'permutation'")
        permuted = studentised_p(other, reference, codes, draw) if codes is not None and defined else math.nan
        return permuted, "studentised label permutation"
    if factors or test not in ("welch", "t", "wilcoxon", "permutation"):
        raise ValueError(
            f"test {test!r}{' with cluster_ids' if factors else ''}, expected 'welch', 't' or 'permutation' "
            "or, without clusters, 'wilcoxon'."
        )
    if test in ("welch", "t"):
        return t_p(value, error, freedom), "Welch t" if test == "welch" else "independent t (equal variance)"
    if test == "wilcoxon":
        p_value = float(scipy.stats.mannwhitneyu(other, reference).pvalue) if defined else math.nan
        return p_value, "Wilcoxon rank sum"
    p_value = math.nan
    if defined:
        p_value = label_permutation_p(other, reference, seed=draw.seed, n_resamples=draw.n_resamples)
    return p_value, "label permutation"


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
    interval: str = "t",
    test: str = "t",
    cluster_ids: ClusterIds = None,
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
        interval: ``t`` (paired t) or ``bootstrap`` (percentile, pairs resampled; with clusters studentised).
        test: ``t`` (paired t), ``wilcoxon`` (signed rank), ``permutation`` (sign flip) or ``sign`` (exact, of the
            means of clusters): the one that is defined where all differences are equal.
        cluster_ids: shape (rows,); pairs of one cluster are not independent. Makes the t interval and test
            cluster-robust (CR2, Satterthwaite degrees of freedom), and the bootstrap and the sign flip act on whole
            clusters. A mapping of several random factors that cross, ``{"template": [...], "condition": [...]}``:
            the t interval and test hold over all of them; bootstrap and permutation are refused.
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
    factors = rows_of(factors_of_pairs(cluster_ids, pair_ids), pairs.rows)
    draw = Draw(confidence, seed, n_resamples)
    value = mean_of(difference)
    spread = spread_of(difference, np.concatenate([pairs.other, pairs.reference]))
    error, freedom = mean_error(difference, spread, factors)
    low, high, made_by = interval_of(interval, value, error, freedom, (difference,), factors, draw, "paired t")
    p_value, tested_by = paired_test(test, difference, value, error, freedom, factors, draw)
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
        error=error,
        freedom=freedom,
    )


def group_gap(
    scores: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    interval: str = "t",
    test: str = "welch",
    cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Estimate:
    """Mean score of the other group minus mean score of the reference group, rows not paired.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,), exactly two values.
        reference_group: the group that is subtracted.
        interval: ``t`` (that of the t test; Welch's beside the other tests) or ``bootstrap`` (percentile; with
            clusters studentised).
        test: ``welch``, ``t`` (pooled: takes both groups to vary alike, as many papers do), ``wilcoxon`` (rank sum)
            or ``permutation``. Interval and p of a t test agree: p is below .05 where the 95 % interval leaves out 0.
        cluster_ids: as in ``paired_gap``; a cluster may have rows in both groups. The permutation is then of the
            cluster-robust t statistic; the rank sum is refused.
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
    order = np.concatenate([np.flatnonzero(scored & ~is_reference), np.flatnonzero(scored & is_reference)])
    factors = rows_of(factor_codes(cluster_ids, len(score)), order)
    draw = Draw(confidence, seed, n_resamples)
    value = exact(mean_of(other) - mean_of(reference), score[scored])
    pooled = test == "t" and not factors
    error, freedom = pooled_error(other, reference) if pooled else difference_error(other, reference, factors)
    plain = "pooled t" if pooled else "Welch t"
    low, high, made_by = interval_of(interval, value, error, freedom, (other, reference), factors, draw, plain)
    p_value, tested_by = group_test(test, other, reference, value, error, freedom, factors, draw)
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
        error=error,
        freedom=freedom,
    )
