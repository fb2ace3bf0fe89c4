"""Agreement of two readings of the same answers: the share that they class alike, and Cohen's kappa."""

import math
from collections.abc import Sequence

import numpy as np

from swapbias.measures.contrast import linear_contrast
from swapbias.measures.estimate import Codes, Estimate, Ids, Texts, known_ids, texts_of
from swapbias.measures.share_intervals import share_of_rows


def agreement(
    first: Sequence[str], second: Sequence[str], *, cluster_ids: Ids
) -> tuple[Estimate, Estimate]:
    """Share of answers with the same class in both readings, 0 to 1, and Cohen's kappa (1960); nothing is tested.

    A reading that is "" leaves its answer out. Intervals are over clusters (answers about one story): Wilson's of the
    share; of kappa t's, of what each answer adds to it (Fleiss, Cohen and Everitt 1969).

    Args:
        first: shape (answers,), the class of each answer in one reading.
        second: shape (answers,), the class of each answer in the other reading.
        cluster_ids: shape (answers,).

    Returns:
        The share, and kappa, 1: always alike; 0: no more than classes of these frequencies are by chance; NaN where
        both readings give one class to every answer.

    Raises:
        ValueError: unequal numbers of readings.
    """
    counts = len(first), len(second), len(cluster_ids)
    if len(set(counts)) > 1:
        raise ValueError(
            f"{counts} first and second readings and cluster_ids, expected one of each per answer."
        )
    classes_first = texts_of(first)
    classes_second = texts_of(second)
    is_read = (classes_first != "") & (classes_second != "")
    classes_first = classes_first[is_read]
    classes_second = classes_second[is_read]
    n = int(is_read.sum())
    unread = int((~is_read).sum())
    ids = known_ids(cluster_ids, "cluster_ids")[is_read]
    clusters = np.unique(ids, return_inverse=True)[1]
    interval = "Wilson, over clusters" if n else "none"
    share = share_of_rows(classes_first == classes_second, clusters, interval, unread)
    return share, _kappa(classes_first, classes_second, clusters, unread)


def _kappa(first: Texts, second: Texts, clusters: Codes, unread: int) -> Estimate:
    """Return Cohen's kappa of two readings, with a t interval over clusters."""
    n = len(first)
    classes, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    a, b = codes.reshape(2, -1)
    shares_first = np.bincount(a, minlength=len(classes)) / max(1, n)
    shares_second = np.bincount(b, minlength=len(classes)) / max(1, n)
    alike = (a == b).astype(np.float64)
    chance = float(shares_first @ shares_second)
    if not n or chance >= 1:
        return Estimate(math.nan, n=n, n_unscored=unread, test="none", interval="none")
    value = (float(alike.mean()) - chance) / (1 - chance)
    by_chance = shares_second[a] + shares_first[b] - 2 * chance
    added = (alike - alike.mean() - (1 - value) * by_chance) / (1 - chance)
    mean = linear_contrast(value + added, np.zeros(n, np.intp), (1.0,), {"": clusters})
    return Estimate(
        value,
        float(np.clip(mean.ci_low, -1, 1)),
        float(np.clip(mean.ci_high, -1, 1)),
        n=n,
        n_unscored=unread,
        test="none",
        interval=mean.interval,
        std_error=mean.std_error,
        df=mean.df,
        skewness=mean.skewness,
    )
