"""Spread, standard errors (plain and cluster-robust), intervals of means and their differences, and resampling."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from swapbias.measures.estimate import Floats

_CELLS = 4_000_000  # weights, or means of resamples, made at once: 32 MB
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


Clusters = tuple[NDArray[np.intp], ...] | None
_FLAT_SUMS = 1e-10  # the same for sums over clusters, which gather rounding
_FLAT = 1e-12  # a spread below this share of the largest value is rounding, not variance


@dataclass(frozen=True, slots=True)
class Draw:
    """Coverage of an interval, and seed and number of resamples where there are any."""

    confidence: float
    seed: int
    n_resamples: int

    def __post_init__(self) -> None:
        """Refuse a coverage that is no share and a number of resamples below one."""
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence {self.confidence!r}, expected between 0 and 1, as 0.95.")
        if self.n_resamples < 1:
            raise ValueError(f"n_resamples {self.n_resamples!r}, expected at least 1.")


def mean_of(values: Floats) -> float:
    """Mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan


def spread_of(values: Floats, scale: Floats) -> float:
    """SD (ddof=1); exactly 0 where it is rounding noise of numbers as large as ``scale``; NaN below two values."""
    if len(values) < 2:
        return math.nan
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= _FLAT * float(np.abs(scale).max()) else spread


def ratio(value: float, spread: float) -> float:
    """Value over spread; NaN where there is no spread."""
    return value / spread if spread > 0 else math.nan


def cohens_d(other: Floats, reference: Floats) -> float:
    """Difference of means over the pooled SD (ddof=1); NaN below two values in a group."""
    if min(len(other), len(reference)) < 2:
        return math.nan
    squares = sum((len(side) - 1) * spread_of(side, side) ** 2 for side in (other, reference))
    return ratio(mean_of(other) - mean_of(reference), math.sqrt(squares / (len(other) + len(reference) - 2)))


def mean_error(values: Floats, spread: float, clusters: Clusters) -> tuple[float, float]:
    """Standard error of a mean and its degrees of freedom; NaN where there is no spread to estimate from."""
    if not spread > 0:
        return math.nan, math.nan
    if clusters is None:
        return spread / math.sqrt(len(values)), len(values) - 1
    return _clustered_error((values - values.mean()) / len(values), clusters[0], correction=1.0)


def difference_error(other: Floats, reference: Floats, clusters: Clusters) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom (Welch, or clusters - 1)."""
    spreads = [spread_of(side, np.concatenate([other, reference])) for side in (other, reference)]
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
    if float(np.abs(sums).max()) <= _FLAT_SUMS * float(np.abs(influence).sum()) / count:
        return math.nan, math.nan  # clusters differ by rounding alone
    return math.sqrt(correction * count / (count - 1) * float(sums @ sums)), count - 1


def t_ends(value: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Ends of the t interval; NaN without a standard error."""
    if not error > 0:
        return math.nan, math.nan
    half = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * error
    return value - half, value + half


def interval_of(
    kind: str,
    value: float,
    error: float,
    freedom: float,
    samples: tuple[Floats, ...],
    clusters: Clusters,
    draw: Draw,
    plain: str,
) -> tuple[float, float, str]:
    """Ends and name of the interval of the kind asked for."""
    if kind == "t":
        low, high = t_ends(value, error, freedom, draw.confidence)
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
