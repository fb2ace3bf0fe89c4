"""Spread, standard errors (plain and cluster-robust) and intervals of means and their differences."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from swapbias.resampling import bootstrap_ends, bootstrap_interval

Floats = NDArray[np.float64]
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


# --- many samples at once, one a row ------------------------------------------------------------------


def bootstrap_intervals(
    samples: ArrayLike, *, confidence: float = 0.95, seed: int = 0, n_resamples: int = 9_999
) -> tuple[Floats, Floats]:
    """Bootstrap percentile intervals of the means of many samples, in the unit of the values.

    Args:
        samples: shape (samples, units); NaN where a unit could not be scored.
        confidence: coverage of each interval.
        seed, n_resamples: of the resampling. Samples with equally many scored units share their draws: each
            interval is what it is alone, but errors of different intervals are not independent of each other.

    Returns:
        Lower and upper ends, each of shape (samples,); NaN where nothing was scored.

    Raises:
        ValueError: another shape, an infinite value, a confidence that is no share.

    Example:
        >>> low, high = bootstrap_intervals([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
        >>> [round(float(end), 1) for end in (low[1], high[1])]
        [5.0, 5.0]
    """
    Draw(confidence, seed, n_resamples)
    values = table_of(samples)
    ends = np.full((2, len(values)), np.nan)
    for rows, (scored,) in by_number_scored(values):
        if scored.shape[1]:
            ends[:, rows] = bootstrap_ends(scored, confidence=confidence, seed=seed, n_resamples=n_resamples)
    return ends[0], ends[1]


def table_of(values: ArrayLike) -> Floats:
    """Finite numbers or NaN as an array of two dimensions."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"values of shape {table.shape}, expected one row per sample and one column per unit.")
    if not np.all(np.isfinite(table.sum(axis=1))) and np.any(np.isinf(table)):
        raise ValueError("values hold an infinite number, expected finite ones or NaN for what could not be scored.")
    return table


def by_number_scored(*tables: Floats) -> Iterator[tuple[NDArray[np.intp], tuple[Floats, ...]]]:
    """Rows with equally many columns that no table lacks (not NaN), and those columns of each table closed up."""
    lacking = np.flatnonzero(np.isnan(sum(table.sum(axis=1) for table in tables)))
    if not len(lacking):  # as usual: nothing is looked for in the columns
        yield np.arange(len(tables[0])), tables
        return
    scored = ~np.any([np.isnan(table) for table in tables], axis=0)
    counts = scored.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        kept = scored[rows]
        yield rows, tuple(table[rows][kept].reshape(len(rows), count) for table in tables)


def deviations_of(values: Floats, means: Floats, scratch: Floats) -> Floats:
    """Sum of the squared deviations of each row from its mean; ``scratch``, of the same shape, is written over."""
    np.subtract(values, means[:, None], out=scratch)
    squares: Floats = np.vecdot(scratch, scratch)
    return squares


def spreads_of(deviations: Floats, squares: Floats, *made_from: Floats) -> Floats:
    """``spread_of`` of each row.

    Args:
        deviations: sum of each row's squared deviations from its mean.
        squares: at least the square of the largest number that the row was made from.
        made_from: the tables that hold these numbers, shape (rows, units).
    """
    units = made_from[0].shape[1]
    if units < 2:
        return np.full(len(deviations), np.nan)
    spread: Floats = np.sqrt(deviations / (units - 1))
    few = np.flatnonzero(spread <= _FLAT * np.sqrt(squares))  # most rows are not: their largest is not looked for
    if len(few):
        largest = np.max([np.abs(table[few]).max(axis=1) for table in made_from], axis=0)
        spread[few] = np.where(spread[few] <= _FLAT * largest, 0.0, spread[few])
    return spread


def ratios(values: Floats, spreads: Floats) -> Floats:
    """``ratio`` of each pair."""
    found = np.full(len(values), np.nan)
    np.divide(values, spreads, out=found, where=spreads > 0)
    return found


def t_ends_of(values: Floats, errors: Floats, freedoms: NDArray[np.intp], confidence: float) -> tuple[Floats, Floats]:
    """``t_ends`` of each value; NaN where the error is."""
    known, codes = np.unique(freedoms, return_inverse=True)  # mostly one: quantiles are dear
    half: Floats = stats.t.ppf(0.5 + confidence / 2, known)[codes] * errors
    return values - half, values + half
