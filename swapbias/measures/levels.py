"""Every statistic of the package: arrays in, one Estimate out. numpy and scipy only.

NaN is the one mark for "could not be scored": it is left out, counted in ``n_unscored`` and never turned
into a number. A statistic that is not defined (one pair, no variance) is NaN as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.contrast import linear_contrast, shares_in, spread_of
from swapbias.measures.estimate import ClusterIds, Estimate, Floats, factor_codes, rows_of
from swapbias.measures.intervals import ShareSum

_TIE = 1e-6  # float32 noise: a token this close below the threshold counts as on it
_ROUNDING = 1e-9  # a mean of ones may lie this far below one


def mean_score(
    scores: ArrayLike,
    *,
    cluster_ids: ClusterIds = None,
    weights: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Mean of the scores with its t interval; nothing is tested. ``n`` counts rows.

    ``cluster_ids`` are those of ``paired_gap``, ``weights`` those of ``group_gap``.

    >>> mean_score([0.1, 0.3, float("nan")]).n_unscored
    1
    """
    score = np.asarray(scores, dtype=np.float64)
    if score.ndim != 1:
        raise ValueError(f"scores of shape {score.shape}, expected one score per row.")
    known = ~np.isnan(score)
    used, factors = score[known], rows_of(factor_codes(cluster_ids, len(score)), known)
    sides = np.zeros(len(used), dtype=np.intp)
    shares = shares_in(weights, known, sides)
    found = linear_contrast(
        used, sides, (1.0,), factors, shares=shares, confidence=confidence, n_unscored=len(score) - len(used)
    )
    return replace(found, p_value=math.nan, test="none", independent=0)


def correlation(x: ArrayLike, y: ArrayLike, *, method: str = "pearson", confidence: float = 0.95) -> Estimate:
    """Correlation of two numbers known for the same units, -1 to 1.

    The interval is Fisher's, for ranks with the standard error of Bonett and Wright (2000): ranks vary more than
    Fisher's takes them to, the more the stronger the correlation. Fewer than four units, or a correlation of 1: none.

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
    made_by = "Fisher z" if method == "pearson" else "Bonett-Wright"
    blank = Estimate(math.nan, n=n, n_unscored=lost, test=f"{method} r", interval=made_by)
    if n < 3 or spread_of(a, a) == 0 or spread_of(b, b) == 0:
        return blank
    result = scipy.stats.pearsonr(a, b) if method == "pearson" else scipy.stats.spearmanr(a, b)
    r, p_value = float(result.statistic), float(result.pvalue)
    if n < 4 or abs(r) >= 1:
        return Estimate(r, p_value=p_value, n=n, n_unscored=lost, test=blank.test, interval=blank.interval)
    more = 1.0 if method == "pearson" else 1 + r**2 / 2
    half = scipy.stats.norm.ppf(0.5 + confidence / 2) * math.sqrt(more / (n - 3))
    ends = [float(np.tanh(np.arctanh(r) + sign * half)) for sign in (-1, 1)]
    return Estimate(
        r, ends[0], ends[1], p_value=p_value, n=n, n_unscored=lost, test=blank.test, interval=blank.interval
    )


def label_masses(
    tokens: Sequence[str],
    probabilities: ArrayLike,
    labels: Mapping[str, str],
    *,
    threshold: float = 0.0,
    rest: str = "unspecified",
) -> dict[str, float]:
    """Probability mass of each label among one prompt's tokens: ``mass_by_label`` of one row.

    Args:
        tokens: the likeliest tokens, shape (k,), as text or as a tokenizer writes them; compared as ``plain_word``.
        probabilities: their probabilities, shape (k,); NaN is an error, for a prompt has a distribution or none.
        labels: word -> label; words in lower case.
        threshold: tokens below it are not counted, as in ``mass_by_label``.
        rest: the label of every other token.

    Returns:
        Mass by label, in 0..1, not renormalised; 0 for a label that no counted token has.

    Raises:
        ValueError: unequal lengths, or probabilities outside 0..1 or summing to more than 1.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(tokens),):
        raise ValueError(f"{len(tokens)} tokens and probabilities of shape {p.shape}, expected one for each.")
    if not np.all((p >= 0) & (p <= 1)) or p.sum() > 1 + 1e-4:
        raise ValueError(f"probabilities that sum to {p.sum():g}, expected each in 0..1 and at most 1 in all.")
    names = list(dict.fromkeys([*labels.values(), rest]))
    codes = np.array([names.index(labels.get(plain_word(token), rest)) for token in tokens], dtype=np.intp)
    return dict(
        zip(names, mass_by_label(p[None], codes[None], len(names), threshold=threshold)[0].tolist(), strict=True)
    )


def plain_word(token: str) -> str:
    """A token as a word in lower case, without the marks of tokenizers: of byte pairs, SentencePiece and word ends.

    A piece that goes on a word ("##he" of "the") is none and stays as it is.

    >>> [plain_word(token) for token in ("ĠHe", "▁he", " he", "he</w>", "##he")]
    ['he', 'he', 'he', 'he', '##he']
    """
    return token.strip().lstrip("Ġ▁").removesuffix("</w>").strip().lower()


def mass_by_label(
    probabilities: NDArray[np.floating[Any]], codes: NDArray[np.integer[Any]], labels: int, *, threshold: float = 0.0
) -> Floats:
    """Probability mass of each label in each row, shape (rows, labels), added up in float64 from left to right.

    Args:
        probabilities: shape (rows, tokens), float32 or float64.
        codes: the label of each token, 0 to ``labels`` - 1: the same shape, or (tokens,) for all rows.
        labels: how many there are.
        threshold: what lies below it by more than float32 noise (1e-6) is not counted.

    >>> mass_by_label(np.array([[0.5, 0.25, 0.125]]), np.array([0, 1, 0]), 2).tolist()
    [[0.625, 0.25]]
    """
    if math.isnan(threshold):
        raise ValueError("threshold is nan, expected a number. Give one, such as 0.")
    rows = len(probabilities)
    counted = np.where(probabilities >= threshold - _TIE, probabilities, 0)
    cells = np.arange(rows)[:, None] * labels + codes
    sums = np.bincount(cells.ravel(), weights=counted.ravel(), minlength=rows * labels)
    return np.asarray(sums.reshape(rows, labels), dtype=np.float64)


def share_above(scores: ArrayLike, *, threshold: float = 0.5, confidence: float = 0.95) -> Estimate:
    """Share of scores strictly above a threshold, with Wilson's interval; nothing is tested.

    0: none, 1: all. ``value * n`` is the count. No scored row: NaN. Nothing lies above the range of a share, so a
    threshold of 1 or more counts what reaches it.

    >>> share_above([0.2, 0.6, 0.9, float("nan")]).n
    3
    """
    score = np.asarray(scores, dtype=np.float64)
    if math.isnan(threshold):
        raise ValueError("threshold is nan, expected a number. Give one, such as 0.5.")
    used = score[~np.isnan(score)]
    n, lost = len(used), len(score) - len(used)
    if not n:
        return Estimate(math.nan, n_unscored=lost, test="none", interval="Wilson")
    above = int((used >= threshold - _ROUNDING if threshold >= 1 else used > threshold).sum())
    ends = scipy.stats.binomtest(above, n).proportion_ci(confidence, method="wilson")
    return Estimate(
        above / n, float(ends.low), float(ends.high), n=n, n_unscored=lost, test="none", interval="Wilson"
    )


def share_right(right: Sequence[bool], cluster_ids: Sequence[str], *, confidence: float = 0.95) -> Estimate:
    """Share of units that are right, with Wilson's interval over clusters; nothing is tested.

    0: none, 1: all. NaN without a unit. Units of a cluster (the words of a note) are dependent: they count as fewer.

    >>> share_right([True, True, False], ["a", "a", "b"]).n
    3
    """
    if not right:
        return Estimate(math.nan, test="none", interval="Wilson, clustered")
    part = np.asarray(right, dtype=np.float64)[:, None]
    clusters = np.unique(np.asarray(cluster_ids), return_inverse=True)[1]
    found = ShareSum(part, np.ones_like(part), (1.0,), clusters=clusters)
    return Estimate(found.value, *found.interval(confidence), n=len(part), test="none", interval="Wilson, clustered")


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
        adjusted[known] = scipy.stats.false_discovery_control(p[known]) if tests else []
    elif method == "holm":
        order = np.argsort(p[known], kind="stable")
        stepped = np.maximum.accumulate(p[known][order] * (tests - np.arange(tests)))
        restored = np.empty(tests)
        restored[order] = np.minimum(stepped, 1.0)
        adjusted[known] = restored
    else:
        raise ValueError(f"method {method!r}, expected 'holm', 'bonferroni' or 'bh'.")
    return adjusted
