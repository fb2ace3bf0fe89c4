"""Tests of a gap against zero: t, Wilcoxon, permutation; cluster-robust where that is defined."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from swapbias.intervals import Clusters, Draw, Floats
from swapbias.resampling import label_permutation_p, sign_flip_p


def t_p(value: float, error: float, freedom: float) -> float:
    """Two-sided p-value of a t statistic; NaN without a standard error."""
    return float(2 * stats.t.sf(abs(value / error), freedom)) if error > 0 else math.nan


def t_ps(values: Floats, errors: Floats, freedoms: NDArray[np.intp]) -> Floats:
    """``t_p`` of each value; NaN where the error is."""
    return np.asarray(2 * stats.t.sf(np.abs(values / errors), freedoms), dtype=np.float64)


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
