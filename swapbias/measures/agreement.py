"""Agreement of two readings of the same answers: how often they are alike, and beyond chance."""

import math
from collections.abc import Sequence

import numpy as np

from swapbias.measures.estimate import Estimate, Floats
from swapbias.measures.intervals import Draw, ShareSum
from swapbias.measures.rates import sums_interval

_FEWEST = 20  # clusters of which a percentile interval can be made


def agreement_share(first: Sequence[str], second: Sequence[str], *, cluster_ids: Sequence[str]) -> Estimate:
    """Share of answers with the same class in both readings: 0 (none) to 1 (all); nothing is tested.

    Args:
        first, second: shape (answers,), names of classes; "" where there is no reading, which leaves the answer out.
        cluster_ids: shape (answers,); answers of one cluster (about one story) are not independent. The interval is
            Wilson's on the effective number of answers.

    >>> agreement_share(["a", "b", "b"], ["a", "b", "a"], cluster_ids=["1", "2", "3"]).n
    3
    """
    one, other, codes = _read(first, second, cluster_ids)
    if not len(one):
        return Estimate(math.nan, n_unscored=len(first), test="none", interval="none")
    alike = (one == other).astype(np.float64)[:, None]
    found = ShareSum(alike, np.ones_like(alike), (1.0,), np.arange(len(one)), codes)
    low, high = found.interval(0.95)
    lost = len(first) - len(one)
    return Estimate(
        found.value, low, high, n=len(one), n_unscored=lost, test="none", interval="Wilson, over clusters"
    )


def kappa(
    first: Sequence[str],
    second: Sequence[str],
    *,
    cluster_ids: Sequence[str],
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Cohen's kappa: agreement beyond what classes of these frequencies agree by chance.

    1: always alike; 0: no more than by chance; below 0: less. NaN where both readings give one and the same class to
    every answer, for then nothing is beyond chance. (Cohen 1960.)

    Args:
        first, second, cluster_ids: as in ``agreement_share``.
        confidence: coverage of the percentile interval, clusters resampled; there is none of fewer than 20.
        seed: of the resampling.

    >>> kappa(["a", "a", "b", "b"], ["a", "b", "b", "b"], cluster_ids=["1", "2", "3", "4"]).value
    0.5
    """
    one, other, codes = _read(first, second, cluster_ids)
    classes = np.unique(np.concatenate([one, other]))
    size = len(classes)
    cells = np.searchsorted(classes, one) * size + np.searchsorted(classes, other)
    counts = np.zeros((int(codes.max()) + 1 if len(codes) else 0, size * size))
    np.add.at(counts, (codes, cells), 1.0)

    def statistic(sums: Floats) -> Floats:
        table = sums.reshape(-1, size, size)
        total = table.sum(axis=(1, 2))
        observed = np.trace(table, axis1=1, axis2=2) / total
        chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / total**2
        beyond = np.full(len(total), np.nan)
        found: Floats = np.divide(observed - chance, 1 - chance, out=beyond, where=chance < 1)
        return found

    value = float(statistic(counts.sum(axis=0)[None])[0]) if len(one) else math.nan
    low, high, name = math.nan, math.nan, f"none: fewer than {_FEWEST} clusters"
    if len(counts) >= _FEWEST:
        low, high, name = sums_interval(counts, statistic, Draw(confidence, seed, 9_999), "clusters")
    lost = len(first) - len(one)
    return Estimate(value, low, high, n=len(one), n_unscored=lost, test="none", interval=name)


def _read(first: Sequence[str], second: Sequence[str], clusters: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Classes of the answers with both readings, and the clusters of these as numbers from 0."""
    if not len(first) == len(second) == len(clusters):
        raise ValueError(
            f"{len(first)} and {len(second)} readings, {len(clusters)} cluster_ids: expected one of each per answer."
        )
    one, other = np.asarray(first, dtype=np.str_), np.asarray(second, dtype=np.str_)
    known = (one != "") & (other != "")
    return one[known], other[known], np.unique(np.asarray(clusters)[known], return_inverse=True)[1]
