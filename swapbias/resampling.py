"""Resampling: bootstrap intervals and permutation tests, vectorised, seeded, in bounded memory."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
_CELLS = 4_000_000  # weights, or means of resamples, made at once: 32 MB
_HELD = 16_000_000  # weights kept for the next samples: 128 MB; beyond that they are drawn again
_ROUNDING = 1e-14  # sums closer than this share of what was added are equal


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
        means = [_resampled_means(sample, rng, n_resamples) for sample in samples]
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


def bootstrap_ends(values: Floats, *, confidence: float, seed: int, n_resamples: int) -> tuple[Floats, Floats]:
    """Percentile intervals of the means of many samples of one size, ``values`` of shape (samples, units).

    All samples are resampled by the same draws, those of ``bootstrap_interval`` with this seed, so that all means of
    a block of samples are one matrix product. Memory is bounded whatever the shape.
    """
    samples, units = values.shape
    held = list(_weights(np.random.default_rng(seed), units, n_resamples)) if units * n_resamples <= _HELD else None
    block = max(1, _CELLS // n_resamples)
    ends = np.empty((2, samples))
    for start in range(0, samples, block):
        part = values[start : start + block]
        drawn = np.empty((len(part), n_resamples))
        done = 0
        for weights in held or _weights(np.random.default_rng(seed), units, n_resamples):
            np.matmul(part, weights.T, out=drawn[:, done : done + len(weights)])
            done += len(weights)
        for end, share in zip(ends, ((1 - confidence) / 2, (1 + confidence) / 2), strict=True):
            end[start : start + block] = _quantile(drawn, share) / units
    return ends[0], ends[1]


def _quantile(drawn: Floats, share: float) -> Floats:
    """Quantile of each row, interpolated; reorders the rows. Selecting one place is twice as fast as sorting."""
    last = drawn.shape[1] - 1
    place = share * last
    below = min(int(place), max(0, last - 1))
    drawn.partition(below, axis=1)
    low: Floats = drawn[:, below].copy()
    high: Floats = drawn[:, below + 1 :].min(axis=1) if last else low
    between: Floats = low + (high - low) * (place - below)
    return between


def _resampled_means(sample: Floats, rng: np.random.Generator, n_resamples: int) -> Floats:
    """Mean of each resample of one sample; the draws are those of ``_weights``."""
    units = len(sample)
    block = max(1, _CELLS // units)
    return np.concatenate(
        [
            sample[rng.integers(units, size=(min(block, n_resamples - start), units))].mean(axis=1)
            for start in range(0, n_resamples, block)
        ]
    )


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
    """Two-sided p for "group labels are exchangeable", of the difference of means.

    Exact where all ways to deal the labels fit into ``n_resamples``; else so many are drawn, and the one at hand
    counts as one more.
    """
    pooled, dealt = np.concatenate([other, reference]), len(other)
    if math.comb(len(pooled), dealt) <= n_resamples:
        sums, one_more = _all_sums(pooled, dealt), 0
    else:
        sums, one_more = _dealt_sums(pooled, dealt, seed, n_resamples), 1
    # With the labels dealt anew the difference of means rises and falls with the sum of the other group alone.
    observed, rounding = pooled[:dealt].sum(), _ROUNDING * float(np.abs(pooled).sum())
    below, above = (sums <= observed + rounding).sum(), (sums >= observed - rounding).sum()
    return min(1.0, 2.0 * (min(int(below), int(above)) + one_more) / (len(sums) + one_more))


def _all_sums(pooled: Floats, dealt: int) -> Floats:
    """Sum of every way to choose so many of the values."""
    ways = combinations(range(len(pooled)), dealt)
    block = max(1, _CELLS // 10 // dealt)
    blocks = iter(lambda: list(islice(ways, block)), [])
    return np.concatenate([pooled[np.array(block_of_ways)].sum(axis=1) for block_of_ways in blocks])


def _dealt_sums(pooled: Floats, dealt: int, seed: int, n_resamples: int) -> Floats:
    """Sum of the first so many values, for each random order of all."""
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // len(pooled))
    return np.concatenate(
        [
            rng.permuted(np.tile(pooled, (min(block, n_resamples - start), 1)), axis=1)[:, :dealt].sum(axis=1)
            for start in range(0, n_resamples, block)
        ]
    )
