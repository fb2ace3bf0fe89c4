"""Resampling: bootstrap intervals and permutation tests, vectorised, seeded, in bounded memory."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
_CELLS = 4_000_000  # weights held at once: 32 MB


def bootstrap_interval(
    samples: tuple[Floats, ...],
    clusters: tuple[NDArray[np.intp], ...] | None,
    *,
    confidence: float,
    seed: int,
    n_resamples: int,
) -> tuple[float, float]:
    """Percentile interval of a mean (one sample) or of a difference of means (two samples).

    Without clusters each sample is resampled on its own; with clusters whole clusters are drawn, the same
    draw for both samples, since a cluster may have rows in either.
    """
    rng = np.random.default_rng(seed)
    if clusters is None:
        means = [_means(_weights(rng, len(s), n_resamples), [(s, np.ones(len(s)))])[0] for s in samples]
    else:
        used, codes = np.unique(np.concatenate(clusters), return_inverse=True)
        ends = np.cumsum([len(sample) for sample in samples])[:-1]
        sums = [
            (
                np.bincount(own, weights=sample, minlength=len(used)).astype(np.float64),
                np.bincount(own, minlength=len(used)).astype(np.float64),
            )
            for sample, own in zip(samples, np.split(codes, ends), strict=True)
        ]
        means = _means(_weights(rng, len(used), n_resamples), sums)
    drawn = means[0] if len(means) == 1 else means[0] - means[1]
    low, high = np.nanquantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _weights(rng: np.random.Generator, units: int, n_resamples: int) -> Iterator[Floats]:
    """Blocks of (resamples, units): how often each unit is drawn."""
    block = max(1, _CELLS // units)
    for start in range(0, n_resamples, block):
        rows = min(block, n_resamples - start)
        drawn = rng.integers(units, size=(rows, units))
        flat = drawn + np.arange(rows)[:, None] * units
        yield np.bincount(flat.ravel(), minlength=rows * units).reshape(rows, units).astype(np.float64)


def _means(weights: Iterable[Floats], samples: Sequence[tuple[Floats, Floats]]) -> list[Floats]:
    """For each sample of (sums, sizes) by unit, the mean of every resample; NaN where none of it was drawn."""
    drawn: list[list[Floats]] = [[] for _ in samples]
    for block in weights:
        for found, (sums, sizes) in zip(drawn, samples, strict=True):
            total = block @ sizes
            found.append(np.divide(block @ sums, total, out=np.full(len(total), np.nan), where=total > 0))
    return [np.concatenate(found) for found in drawn]


def sign_flip_p(differences: Floats, *, seed: int, n_resamples: int) -> float:
    """Two-sided p for "signs are exchangeable": exact where all sign patterns fit into ``n_resamples``."""
    if len(differences) < 2 or not np.any(differences):
        return float("nan")
    result = stats.permutation_test(
        (differences,),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, _CELLS // len(differences)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def label_permutation_p(other: Floats, reference: Floats, *, seed: int, n_resamples: int) -> float:
    """Two-sided p for "group labels are exchangeable", of the difference of means."""
    result = stats.permutation_test(
        (other, reference),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, _CELLS // (len(other) + len(reference))),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
