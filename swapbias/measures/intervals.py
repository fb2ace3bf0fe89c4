"""Spread, standard errors (plain and cluster-robust), intervals of means and their differences, and resampling."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
import scipy
from numpy.typing import NDArray

from swapbias.measures.estimate import Factors, Floats

_DIFFERENCE = np.array([[1.0, -1.0], [-1.0, 1.0]])  # of two samples
_CELLS = 4_000_000  # weights, or means of resamples, made at once: 32 MB
_FLAT = 1e-12  # a spread below this share of the largest value is rounding, not variance
FLAT_SUMS = 1e-10  # the same for sums over clusters, which gather rounding
_SKEWED_CLUSTERS = range(5, 21)  # in so many, skewed effects are looked for
_CLUSTERS = 5  # fewer hold too few different resamples
_ROUNDING = 1e-14  # sums closer than this share of what was added are equal


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


def bootstrap_interval(
    samples: tuple[Floats, ...],
    clusters: tuple[NDArray[np.intp], ...] | None,
    *,
    confidence: float,
    seed: int,
    n_resamples: int,
) -> tuple[float, float]:
    """Bootstrap interval of a mean (one sample) or of a difference of means (two samples).

    Without clusters it is the percentile interval, each sample resampled on its own. With clusters whole clusters are
    drawn, the same draw for both samples, since a cluster may have rows in either; the interval is then the symmetric
    studentised one, for percentiles of few clusters are too narrow. By simulation it covers .94 to .99 of normal
    effects of 5 to 40 clusters and .92 to .95 of exponential ones (percentiles: .73 to .93); of lognormal ones in a
    single sample .89 to .93, like no other.

    Raises:
        ValueError: fewer than five clusters in a sample.
    """
    rng = np.random.default_rng(seed)
    if clusters is not None:
        return _studentised_interval(samples, clusters, confidence, rng, n_resamples)
    means = [_resampled_means(sample, rng, n_resamples) for sample in samples]
    drawn = means[0] if len(means) == 1 else means[0] - means[1]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _studentised_interval(
    samples: tuple[Floats, ...],
    clusters: tuple[NDArray[np.intp], ...],
    confidence: float,
    rng: np.random.Generator,
    n_resamples: int,
) -> tuple[float, float]:
    fewest = min(len(np.unique(codes)) for codes in clusters)
    if fewest < _CLUSTERS:
        raise ValueError(
            f"{fewest} clusters in a group, expected {_CLUSTERS} or more for a bootstrap over clusters. "
            "Use interval='t'."
        )
    used, codes = np.unique(np.concatenate(clusters), return_inverse=True)
    ends = np.cumsum([len(sample) for sample in samples])[:-1]
    sums = [
        (
            np.bincount(own, weights=sample, minlength=len(used)).astype(np.float64),
            np.bincount(own, minlength=len(used)).astype(np.float64),
        )
        for sample, own in zip(samples, np.split(codes, ends), strict=True)
    ]
    value, error = (float(one[0]) for one in _weighted(np.ones((1, len(used))), sums))
    far = []
    for block in _weights(rng, len(used), n_resamples):
        drawn, errors = _weighted(block, sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            far.append(np.abs(drawn - value) / errors)
    sizes = np.concatenate(far)
    # A resample that lacks a sample, or has no spread, is none.
    half = error * float(np.quantile(sizes[~np.isnan(sizes)], confidence, method="inverted_cdf"))
    return value - half, value + half


def _weighted(weights: Floats, sums: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The mean (or difference of means) of clusters drawn so often, and its cluster-robust error, by resample."""
    value, influence = np.zeros(len(weights)), np.zeros(weights.shape)
    for sign, (total, size) in zip((1, -1), sums, strict=False):
        drawn = weights @ size
        rows = np.where(drawn > 0, drawn, np.nan)
        mean = weights @ total / rows
        value += sign * mean
        influence += sign * (total - mean[:, None] * size) / rows[:, None]
    count = weights.shape[1]
    return value, np.sqrt(count / (count - 1) * (weights * influence**2).sum(axis=1))


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


def sign_flip_p(differences: Floats, *, seed: int, n_resamples: int) -> float:
    """Two-sided p for "signs are exchangeable": exact where all sign patterns fit into ``n_resamples``."""
    if len(differences) < 2 or not np.any(differences):
        return float("nan")
    result = scipy.stats.permutation_test(
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


def studentised_p(other: Floats, reference: Floats, codes: NDArray[np.intp], draw: Draw) -> float:
    """Two-sided p of the label permutation of the cluster-robust t statistic: differences of level between clusters,
    and of spread between groups, do not make it reject.

    Dealings that put all rows of a group into one cluster have no such statistic and are left out.
    """
    values, dealt = np.concatenate([other, reference]), len(other)
    member = (codes[:, None] == np.unique(codes)).astype(np.float64)
    labels = np.zeros((draw.n_resamples + 1, len(values)))
    labels[0, :dealt] = 1
    rng = np.random.default_rng(draw.seed)
    labels[1:] = rng.permuted(np.tile(labels[0], (draw.n_resamples, 1)), axis=1)
    sides = [(labels, 1.0), (1 - labels, -1.0)]
    value, sums = np.zeros(len(labels)), np.zeros((len(labels), member.shape[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        for chosen, sign in sides:
            rows, size = chosen @ member, chosen[0].sum()
            mean = chosen @ values / size
            value += sign * mean
            sums += (
                sign * (chosen @ (member * values[:, None]) - rows * mean[:, None]) / size / np.sqrt(1 - rows / size)
            )
        t = np.abs(value) / np.sqrt((sums**2).sum(axis=1))
    if not np.isfinite(t[0]):
        return math.nan
    return float((t[np.isfinite(t)] >= t[0] * (1 - FLAT_SUMS)).mean())


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


def mean_of(values: Floats) -> float:
    """Mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan


def spread_of(values: Floats, scale: Floats) -> float:
    """SD (ddof=1); exactly 0 where it is rounding noise of numbers as large as ``scale``; NaN below two values."""
    if len(values) < 2:
        return math.nan
    spread = float(values.std(ddof=1))
    return 0.0 if spread <= _FLAT * float(np.abs(scale).max()) else spread


def exact(value: float, scale: Floats) -> float:
    """The value, 0 where it is rounding noise of numbers as large as ``scale``."""
    return 0.0 if len(scale) and abs(value) <= _FLAT * float(np.abs(scale).max()) else value


def ratio(value: float, spread: float) -> float:
    """Value over spread; NaN where there is no spread."""
    return value / spread if spread > 0 else math.nan


def cohens_d(other: Floats, reference: Floats) -> float:
    """Difference of means over the pooled SD (ddof=1); NaN below two values in a group."""
    if min(len(other), len(reference)) < 2:
        return math.nan
    squares = sum((len(side) - 1) * spread_of(side, side) ** 2 for side in (other, reference))
    return ratio(mean_of(other) - mean_of(reference), math.sqrt(squares / (len(other) + len(reference) - 2)))


def mean_error(values: Floats, spread: float, factors: Factors) -> tuple[float, float]:
    """Standard error of a mean and its degrees of freedom; NaN where there is no spread to estimate from."""
    if not spread > 0:
        return math.nan, math.nan
    if not factors:
        return spread / math.sqrt(len(values)), len(values) - 1
    return crossed_error((values,), factors)


def difference_error(other: Floats, reference: Floats, factors: Factors) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom; without factors Welch's."""
    spreads = [spread_of(side, np.concatenate([other, reference])) for side in (other, reference)]
    if any(math.isnan(spread) for spread in spreads) or sum(spreads) == 0:
        return math.nan, math.nan
    if factors:
        return crossed_error((other, reference), factors)
    parts = [spread**2 / len(side) for spread, side in zip(spreads, (other, reference), strict=True)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (other, reference), strict=True)
    )
    return math.sqrt(sum(parts)), freedom


def crossed_error(
    samples: tuple[Floats, ...], factors: Factors, weights: Sequence[float] = (1.0, -1.0)
) -> tuple[float, float]:
    """Standard error of a mean, of a difference of two or of a weighted sum of means, of rows that share the random
    effects of their factors.

    Each factor's cluster-robust variance is bias-reduced (CR2, Bell and McCaffrey 2002): with clusters of one size it
    is that of the cluster means over their number. Over k factors they are added, less k - 1 times the variance of
    what no factor explains, which each of them holds, and less what each holds of the other factors where clusters
    cross them unevenly, by the method of moments (Cameron, Gelbach and Miller 2011 subtract the variance of the
    cells instead, which holds a share of every factor and makes the error too small by up to an eighth with four
    clusters); the sum is never taken below any of its parts. Degrees of freedom are Satterthwaite's, or those of the
    part that the sum is taken to be.

    Args:
        samples: one or two, or one for each weight, each shape (rows,), without NaN.
        factors: the cluster of each row, of all samples one after another; a cluster may have rows in several.
        weights: of the samples' means, none of them 0; of two the second is subtracted.

    Returns:
        NaN, NaN where a factor has only one cluster in a sample and none elsewhere to compare it with, or where
        clusters differ by rounding alone.
    """
    sides = np.repeat(np.arange(len(samples)), [len(sample) for sample in samples])
    influence = np.concatenate(
        [weight * (sample - sample.mean()) / len(sample) for weight, sample in zip(weights, samples, strict=False)]
    )
    parts = [_one_way(influence, sides, codes, np.abs(weights[: len(samples)])) for codes in factors.values()]
    if any(math.isnan(variance) for variance, _ in parts) or not any(variance for variance, _ in parts):
        return math.nan, math.nan
    if len(parts) == 1:
        return _added(parts, 0.0, 1.0)
    unexplained, rest = unexplained_variance(np.concatenate(samples), sides, factors)
    left = float(unexplained) * sum(w**2 / len(sample) for w, sample in zip(weights, samples, strict=False))
    joint = np.outer(weights, weights)
    variances = apart([variance for variance, _ in parts], left, sides, list(factors.values()), joint)
    parts = [(variance, freedom) for variance, (_, freedom) in zip(variances, parts, strict=True)]
    return _added(parts, (len(parts) - 1) * left, rest)


def apart(
    variances: Sequence[float],
    left: float,
    sides: NDArray[np.intp],
    factors: Sequence[NDArray[np.intp]],
    joint: Floats,
) -> Floats:
    """The variance of each factor without what its clusters hold of the others, by the method of moments.

    With clusters that hold as many rows of each of the other factor's, that is nothing. ``joint`` has shape (samples,
    samples): what the product of two samples' sums weighs.
    """
    held = np.array([[_held(one, other, sides, joint) for other in factors] for one in factors])
    found = np.array(variances)
    effects, _ = scipy.optimize.nnls(held, found - left)
    np.fill_diagonal(held, 0)
    return np.asarray(np.maximum(found - held @ effects, np.minimum(found, left)))


def _held(one: NDArray[np.intp], other: NDArray[np.intp], sides: NDArray[np.intp], joint: Floats) -> float:
    """What a factor's CR2 variance is expected to hold of effects of the other's clusters that have variance 1."""
    clusters, others, samples = int(one.max()) + 1, int(other.max()) + 1, int(sides.max()) + 1
    sums = np.zeros((samples, clusters, others))
    for side in range(samples):
        mine = sides == side
        cells = np.bincount(one[mine] * others + other[mine], minlength=clusters * others).reshape(clusters, others)
        shares = cells / mine.sum()
        share = shares.sum(axis=1, keepdims=True)
        sums[side] = (shares - share * shares.sum(axis=0)) / np.sqrt(1 - share)
    return float(np.einsum("st,sco,tco->", joint[:samples, :samples], sums, sums))


def _one_way(
    influence: Floats, sides: NDArray[np.intp], codes: NDArray[np.intp], sizes: Floats
) -> tuple[float, float]:
    """CR2 variance of one factor and its degrees of freedom; 0, 1 where clusters differ by rounding alone.

    ``sizes`` are those of the weights of the samples' means.
    """
    count, samples = int(codes.max()) + 1, int(sides.max()) + 1
    cells, share = codes * samples + sides, _shares(codes, sides)
    sums = np.bincount(cells, weights=influence, minlength=count * samples).reshape(count, samples)
    if share.max() == 1:  # nothing to compare the cluster with
        return math.nan, math.nan
    scale = 1 / np.sqrt(1 - share)
    totals = (sums * scale).sum(axis=1)
    if float(np.abs(totals).max()) <= FLAT_SUMS * float(np.abs(influence).sum()) / count:
        return 0.0, 1.0
    return float(totals @ totals), _one_way_freedom(share, scale * sizes)


def _one_way_freedom(share: Floats, scale: Floats) -> float:
    """Degrees of freedom of a factor's CR2 variance, from the share of each cluster in the rows of each sample.

    They are Bell and McCaffrey's, of a model with an effect for each cluster. The scaled sums of a sample are A a of
    its clusters' effects a, with A = diag(d) - d h', d = scale h and h the shares. Q = sum of A A' is a diagonal and,
    for each sample, two vectors; (tr Q)^2 / tr Q^2 follows from those.
    """
    samples, weight = share.shape[1], scale * share
    diagonal = (weight**2).sum(axis=1)
    vectors = np.concatenate([weight, weight * share], axis=1)
    inner = np.zeros((2 * samples, 2 * samples))
    for side in range(samples):
        inner[side, side] = share[:, side] @ share[:, side]
        inner[side, samples + side] = inner[samples + side, side] = -1
    product = inner @ (vectors.T @ vectors)
    trace = diagonal.sum() + np.trace(product)
    squares = (
        diagonal @ diagonal
        + 2 * np.trace(inner @ (vectors.T @ (diagonal[:, None] * vectors)))
        + np.trace(product @ product)
    )
    return float(trace**2 / squares)


def expected_error(sides: NDArray[np.intp], factors: Factors, spreads: Mapping[str, float]) -> tuple[float, float]:
    """The standard error and degrees of freedom that ``crossed_error`` comes to before any score is known.

    Args:
        sides: shape (rows,): 0, or 1 for the rows of a sample that is subtracted.
        factors: as in ``crossed_error``; at least one.
        spreads: SD of the effects of each factor, by its name; blank: of what no factor explains.

    Returns:
        The square root of the expected variance, in the unit of the spreads; NaN, NaN where a factor has only one
        cluster in a sample, or a spread is not known.
    """
    if not all(name in spreads for name in ("", *factors)):
        return math.nan, math.nan
    alone = spreads[""] ** 2 * float((1 / np.bincount(sides)).sum())
    parts = []
    for name, codes in factors.items():
        share = _shares(codes, sides)
        if share.max() == 1:
            return math.nan, math.nan
        variance = alone + spreads[name] ** 2 * _held(codes, codes, sides, _DIFFERENCE)
        parts.append((variance, _one_way_freedom(share, 1 / np.sqrt(1 - share))))
    sizes = np.linalg.eigvalsh(_rows_in_common((sides, *factors.values())))
    rank = int((sizes > _FLAT * sizes[-1]).sum())
    return _added(parts, (len(parts) - 1) * alone, float(max(len(sides) - rank, 1)))


def _shares(codes: NDArray[np.intp], sides: NDArray[np.intp]) -> Floats:
    """The share of each cluster in the rows of each sample, shape (clusters, samples)."""
    count, samples = int(codes.max()) + 1, int(sides.max()) + 1
    rows = np.bincount(codes * samples + sides, minlength=count * samples).reshape(count, samples)
    return np.asarray(rows / rows.sum(axis=0))


TIE = 1 + 1e-9  # times: what is no larger than that is equal but for rounding


def _added(parts: Sequence[tuple[float, float]], left: float, rest: float) -> tuple[float, float]:
    """Error and freedom of the sum of the factors' variances, less what each of them holds of the rest."""
    total, (most, freedom) = sum(variance for variance, _ in parts) - left, max(parts)
    if total <= most * TIE:  # rounding must not choose the freedom
        return (math.sqrt(most), freedom) if most else (math.nan, math.nan)
    return math.sqrt(total), total**2 / (sum(part**2 / free for part, free in parts) + left**2 / rest)


def unexplained_variance(values: Floats, sides: NDArray[np.intp], factors: Factors) -> tuple[Floats, float]:
    """Variance of a row (of a matrix its covariance) by what neither sample nor factors explain, and its degrees of
    freedom; 0, 1: none."""
    columns = [np.unique(codes, return_inverse=True)[1].reshape(-1) for codes in (sides, *factors.values())]
    # Through the normal equations, whose matrix is small; its rank is that of the design, which is never made: it
    # has a cell for every row and cluster.
    sizes, vectors = np.linalg.eigh(_rows_in_common(columns))
    kept = sizes > _FLAT * sizes[-1]
    freedom = len(values) - int(kept.sum())
    if freedom < 1:
        return np.zeros(values.shape[1:] * 2), 1.0
    basis = vectors[:, kept]
    sums = np.concatenate([_summed(values, codes) for codes in columns])
    fitted = basis @ (((basis.T @ sums).T / sizes[kept]).T)
    starts = np.cumsum([0, *(codes.max() + 1 for codes in columns)])
    residual = values - sum(fitted[start + codes] for start, codes in zip(starts, columns, strict=False))
    return np.asarray(residual.T @ residual) / freedom, float(freedom)


def _rows_in_common(columns: Sequence[NDArray[np.intp]]) -> Floats:
    """How many rows every two clusters of any two columns of codes share: a design's product with itself."""
    counts = [int(codes.max()) + 1 for codes in columns]
    told = list(zip(columns, counts, strict=True))
    blocks = [
        [np.bincount(one * more + other, minlength=many * more).reshape(many, more) for other, more in told]
        for one, many in told
    ]
    return np.block(blocks).astype(np.float64)


def _summed(values: Floats, codes: NDArray[np.intp]) -> Floats:
    """Sums of the values, or of each column of them, by cluster."""
    if values.ndim == 1:
        return np.asarray(np.bincount(codes, weights=values), dtype=np.float64)
    return np.stack([np.bincount(codes, weights=one) for one in values.T], axis=1)


def skewed_factor(influence: Floats, factors: Factors) -> tuple[str, int]:
    """The factor that an estimate varies with most, and how many clusters it has, where they are few and skewed.

    Few are 20 or fewer, and skewed are sums of clusters whose sample skewness is above twice its standard error
    under normal effects, which happens to 5 % of normal ones. With 11 exponential effects a t test at .05 rejects .09
    to .10 of true nulls, and with 20 .08; symmetric heavy tails do not matter.

    Args:
        influence: shape (rows,): what each row adds to the estimate, less its part of the estimate.
        factors: the cluster of each row in each factor.

    Returns:
        Blank and 0 where there is none; fewer than five clusters can show no skewness.
    """
    sums = {name: np.bincount(codes, weights=influence) for name, codes in factors.items()}
    name = max(sums, key=lambda one: float(sums[one] @ sums[one]), default="")
    count = len(sums[name]) if sums else 0
    if count not in _SKEWED_CLUSTERS:
        return "", 0
    away = sums[name] - sums[name].mean()
    if float(np.abs(away).max()) <= FLAT_SUMS * float(np.abs(influence).sum()):
        return "", 0
    skewness = float((away**3).mean() / (away**2).mean() ** 1.5)
    error = math.sqrt(6 * (count - 2) / ((count + 1) * (count + 3)))
    return (name, count) if abs(skewness) > 2 * error else ("", 0)


def t_above(statistic: float, freedom: float) -> float:
    """The chance that a t statistic lies above this one: ``scipy.stats.t.sf``, to the bit.

    The distributions of ``scipy.stats`` take a third of a second to import, and thirty times as long a call.
    """
    return float(scipy.special.stdtr(freedom, -statistic))


def t_quantile(share: float, freedom: float) -> float:
    """What a t statistic lies below in this share of cases, between 0 and 1: ``scipy.stats.t.ppf``, to the bit."""
    return float(scipy.special.stdtrit(freedom, share))


def t_ends(value: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Ends of the t interval; NaN without a standard error."""
    if not error > 0:
        return math.nan, math.nan
    half = t_quantile(0.5 + confidence / 2, freedom) * error
    return value - half, value + half


def clustered_name(factors: Factors, plain: str) -> str:
    """What a t interval or test is called that allows for the factors."""
    names = " and ".join(filter(None, factors))
    return plain if not factors else f"cluster-robust t{names and f' ({names})'}"


def one_factor(factors: Factors, what: str) -> NDArray[np.intp] | None:
    """The clusters that are drawn or flipped whole; None without any.

    Raises:
        ValueError: more than one factor, whose clusters cannot be drawn one by one.
    """
    if len(factors) > 1:
        raise ValueError(
            f"{what} with the factors {', '.join(factors)}, expected one. Use interval='t' and test='t'."
        )
    return next(iter(factors.values()), None)


def interval_of(
    kind: str,
    value: float,
    error: float,
    freedom: float,
    samples: tuple[Floats, ...],
    factors: Factors,
    draw: Draw,
    plain: str,
) -> tuple[float, float, str]:
    """Ends and name of the interval of the kind asked for."""
    if kind == "t":
        low, high = t_ends(value, error, freedom, draw.confidence)
        return low, high, clustered_name(factors, plain)
    if kind != "bootstrap":
        raise ValueError(f"interval {kind!r}, expected 't' or 'bootstrap'.")
    codes = one_factor(factors, "interval 'bootstrap'")
    name = "bootstrap percentile" if codes is None else "studentised bootstrap over clusters"
    if not error > 0:
        return math.nan, math.nan, name
    clusters = None
    if codes is not None:
        clusters = tuple(np.split(codes, np.cumsum([len(sample) for sample in samples])[:-1]))
    low, high = bootstrap_interval(
        samples, clusters, confidence=draw.confidence, seed=draw.seed, n_resamples=draw.n_resamples
    )
    return low, high, name


_TWO_SIDED = 1.5  # by simulation: what units add to a difference leans both ways, and needs less caution


def design_effect(influence: Floats, codes: NDArray[np.intp], *, trust: float = 1.0) -> tuple[float, float]:
    """How many times its variance over units a sum has over clusters of units, and the degrees of freedom of that.

    At least 1. Where nearly all units are alike (few flips, no error) clusters cannot show how alike their units are:
    the fewer of them hold a unit that differs from the commonest, the nearer it is kept to what copies would give.

    Args:
        influence: shape (units,), what each unit adds to the estimate, less its expectation; sums to 0.
        codes: shape (units,), the cluster of each unit.
        trust: power of the number of clusters that hold such a unit: how fast they come to be believed.

    Returns:
        1 and infinity where each unit is its own cluster; NaN with a single cluster of several units.
    """
    sizes = np.bincount(codes)
    units, largest = len(codes), int(sizes.max(initial=0))
    if largest <= 1:
        return 1.0, math.inf
    if largest == units:
        return math.nan, math.nan
    copies = float((sizes**2).sum()) / units
    sums = np.bincount(codes, weights=influence)
    plain = float(influence @ influence)
    # Each cluster pulls the estimate towards itself by its share: without the divisor large ones look too calm.
    effect = float((sums**2 / (1 - sizes / units)).sum()) / plain if plain > 0 else 1.0
    _, kind, times = np.unique(np.round(influence * units, 9), return_inverse=True, return_counts=True)
    apart = len(np.unique(codes[kind != times.argmax()]))
    return max(1.0, effect, 1 + (copies - 1) / (1 + apart**trust)), max(units / copies - 1, 1.0)


def wilson_ends(shares: Floats, units: Floats, quantile: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval of shares of so many (effective) units; it holds at shares of 0 and 1."""
    square = quantile**2 / units
    half = np.sqrt(square * (shares * (1 - shares) + square / 4))
    # Of (centre - half) / (1 + square), free of cancellation.
    low = shares**2 / (shares + square / 2 + half)
    high = 1 - (1 - shares) ** 2 / (1 - shares + square / 2 + half)
    return np.asarray(low), np.asarray(high)


@dataclass(frozen=True, slots=True)
class ShareSum:
    """A weighted sum of shares of rows, on a scale: a flip rate, a difference of rates, a mean of recalls.

    Its interval is made of the shares' Wilson intervals (MOVER: Newcombe 1998; Zou and Donner 2008), so that it holds
    where shares are 0 or 1 and no resample would vary. Rows of one unit (both versions of a note) are dependent: the
    correlation of the shares over units goes in, drawn towards 0 by Newcombe's correction where it narrows the
    interval. Rows of clusters count as fewer: by ``design_effect``, with a t quantile.

    Attributes:
        part, whole: shape (rows, shares), 1 where a row is counted in a share, and where it is asked.
        weights: one for each share.
        units: shape (rows,), from 0; None: each row is one.
        clusters: shape (rows,), of whole units; None: each unit is one.
        scale: increasing, of the shares, before they are weighed.
    """

    part: Floats
    whole: Floats
    weights: tuple[float, ...]
    units: NDArray[np.intp] | None = None
    clusters: NDArray[np.intp] | None = None
    scale: Callable[[Floats], Floats] = np.asarray

    @property
    def shares(self) -> Floats:
        """Shape (shares,); NaN for one that no row is asked for."""
        asked = self.whole.sum(axis=0)
        return np.asarray(np.divide(self.part.sum(axis=0), asked, out=np.full(len(asked), np.nan), where=asked > 0))

    @property
    def value(self) -> float:
        """The sum; NaN where a share is, or its place on the scale has no end."""
        with np.errstate(divide="ignore"):
            placed = self.scale(self.shares)
        return float(placed @ np.array(self.weights)) if np.isfinite(placed).all() else math.nan

    def interval(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval; NaN where the value is, or all rows are of one cluster."""
        known = self._precision()
        if known is None:
            return math.nan, math.nan
        quantile = np.array(t_quantile(0.5 + confidence / 2, known.freedom))
        return self._end(known, quantile, -1.0), self._end(known, quantile, 1.0)

    def p_value(self) -> float:
        """Two-sided p for "the sum is 0": one less the confidence of the interval that just reaches 0."""
        known, value = self._precision(), self.value
        if known is None:
            return math.nan
        if abs(value) <= _FLAT:
            return 1.0
        towards = -math.copysign(1.0, value)
        if self._end(known, np.array(_FARTHEST), towards) * value > 0:
            return 0.0
        reached = scipy.optimize.brentq(lambda q: self._end(known, np.array(q), towards) * value, _NEAREST, _FARTHEST)
        return 2 * t_above(reached, known.freedom)

    def _precision(self) -> "_Precision | None":
        shares, asked = self.shares, self.whole.sum(axis=0)
        if math.isnan(self.value):
            return None
        rows = np.arange(len(self.whole)) if self.units is None else self.units
        # What clusters share cancels in a difference of versions and adds up in a mean: there they are the units.
        paired = min(self.weights) < 0
        clusters = self.clusters if paired else None
        rows = rows if paired or self.clusters is None else self.clusters
        influence = (self.part - shares * self.whole) / asked
        sizes, freedom = np.empty(len(shares)), math.inf
        for share, within in enumerate(self.whole.T > 0):
            effect, limit = design_effect(influence[within, share], np.unique(rows[within], return_inverse=True)[1])
            alone = math.isnan(effect)
            if alone and rows is self.clusters:
                return None
            sizes[share] = 1.0 if alone else asked[share] / effect  # the rows of one note are worth one row
            freedom = freedom if alone else min(freedom, limit)
        used = self.whole.any(axis=1)
        first, units = np.unique(rows[used], return_index=True, return_inverse=True)[1:]
        by_unit = np.zeros((len(first), len(shares)))
        np.add.at(by_unit, units, influence[used])
        if clusters is not None:
            codes = np.unique(clusters[used][first], return_inverse=True)[1]
            effect, limit = design_effect(by_unit @ np.array(self.weights), codes, trust=_TWO_SIDED)
            if math.isnan(effect):
                return None
            sizes, freedom = sizes / effect, min(freedom, limit)
        return _Precision(shares, sizes, freedom, _correlations(by_unit, shares, sizes, np.array(self.weights)))

    def _end(self, known: "_Precision", quantile: Floats, side: float) -> float:
        """The end below (side -1) or above (1) the value."""
        ends = wilson_ends(known.shares, known.sizes, quantile)
        weights, middle = np.array(self.weights), self.scale(known.shares)
        chosen = np.where(side * weights > 0, ends[1], ends[0])
        with np.errstate(divide="ignore"):
            away = weights * np.abs(self.scale(chosen) - middle)
        return self.value + side * math.sqrt(max(float(away @ known.correlations @ away), 0.0))


@dataclass(frozen=True, slots=True)
class _Precision:
    """Shares, the rows that they are worth, degrees of freedom, and how the shares vary together."""

    shares: Floats
    sizes: Floats
    freedom: float
    correlations: Floats


_NEAREST, _FARTHEST = 1e-9, 1e3  # in standard errors: nothing lies nearer or beyond


def _correlations(by_unit: Floats, shares: Floats, sizes: Floats, weights: Floats) -> Floats:
    """Correlation of the shares over units, (shares, shares), of what narrows the interval less than observed."""
    lengths = np.sqrt((by_unit**2).sum(axis=0))
    scale = np.outer(lengths, lengths)
    observed = np.divide(by_unit.T @ by_unit, scale, out=np.zeros(scale.shape), where=scale > 0)
    spread = np.sqrt(shares * (1 - shares) * sizes)
    room = 2 * np.outer(spread, spread)
    less = np.maximum(np.abs(observed) - np.divide(1, room, out=np.ones(room.shape), where=room > 0), 0)
    found = np.where(np.outer(weights, weights) * observed < 0, np.sign(observed) * less, observed)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)
