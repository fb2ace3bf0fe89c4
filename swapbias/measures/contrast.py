"""Standard error, degrees of freedom and skewness of a weighted sum of means, over every random factor of its design.

The variance is a sum of components estimated by the method of moments; degrees of freedom are Satterthwaite's, those
of each component Bell and McCaffrey's (2002); intervals and p-values allow for skewed effects as Hall (1992) does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.estimate import Estimate, Factors, Floats, independent_units

_FLAT = 1e-12  # a spread below this share of the largest value is rounding, not variance
FLAT_SUMS = 1e-10  # sums over clusters below this share of what was added are rounding
_FEWEST_SKEWED = 4  # clusters: fewer have no estimate of skewness
_NO_SKEW = 1e-6


def linear_contrast(
    values: Floats,
    sides: NDArray[np.intp],
    weights: Sequence[float],
    factors: Factors,
    *,
    shares: Floats | None = None,
    scale: Floats | None = None,
    confidence: float = 0.95,
    n_unscored: int = 0,
) -> Estimate:
    """A weighted sum of means: of pair differences (one side), of groups, of samples.

    Args:
        values: shape (units,), without NaN.
        sides: shape (units,), from 0: what each unit is averaged with.
        weights: of the means of the sides, none of them 0.
        factors: the cluster of each unit in each random factor; none: units are independent, and the interval is that
            of the t test, of several sides Welch's.
        shares: shape (units,), of each unit in the mean of its side, summing to 1 on each; None: all weigh the same.
            With shares units are independent only where a factor says so.
        scale: numbers as large as those that the values are differences of, whose rounding is no variance.
        confidence: coverage of the interval.
        n_unscored: units left out.

    Returns:
        ``n`` counts units. NaN where a side has no unit. No interval and p-value where a side has one unit, nothing
        varies, or a cluster makes up a side.
    """
    scale = values if scale is None else scale
    counts = np.bincount(sides, minlength=len(weights))
    if not counts.all():
        return Estimate(math.nan, n=len(values), n_unscored=n_unscored, test="none")
    means = np.bincount(sides, values) / counts
    if shares is not None:  # from the plain means, so that equal values have exactly their mean
        means = means + np.bincount(sides, shares * (values - means[sides]))
    value = exact(float(means @ np.asarray(weights, dtype=np.float64)), scale)
    samples = [values[sides == side] for side in range(len(counts))]
    spreads = [spread_of(sample, scale) for sample in samples]
    factors = {name: np.unique(codes, return_inverse=True)[1] for name, codes in factors.items()}
    if shares is not None and not factors:
        factors = {"": np.arange(len(values))}
    error, freedom, skewness, fewest = math.nan, math.nan, 0.0, ("", 0)
    if any(spreads) and not any(map(math.isnan, spreads)):
        if factors:
            design = Design.of_means(sides, factors, weights, shares)
            error, freedom, skewness = design.spread(values)
            fewest = design.fewest
        else:
            parts = np.array([(w * s) ** 2 / n for w, s, n in zip(weights, spreads, counts, strict=True)])
            error = math.sqrt(parts.sum())
            freedom = float(parts.sum() ** 2 / (parts**2 / (counts - 1)).sum())
    low, high = t_ends(value, error, freedom, confidence, skewness)
    name = clustered_name(factors, "t" if len(counts) == 1 else "Welch t")
    return Estimate(
        value, low, high, p_value=t_p(value, error, freedom, skewness), n=len(values), n_unscored=n_unscored,
        test=name, interval=name, error=error, freedom=freedom, skewness=skewness,
        fewest_of=fewest[0], fewest=fewest[1], independent=_independent(sides, factors) if math.isnan(error) else 0,
    )  # fmt: skip


def shares_in(weights: ArrayLike | None, known: NDArray[np.bool_], sides: NDArray[np.intp]) -> Floats | None:
    """Of the known rows the share of each in the mean of its side; None where all of a side weigh the same.

    Raises:
        ValueError: a weight for anything but each row, one below 0, or a side whose weights are all 0.
    """
    if weights is None:
        return None
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != known.shape:
        raise ValueError(f"{len(known)} scores and weights of shape {weight.shape}, expected one per row.")
    sums = np.bincount(sides, weight[known])
    if not (weight[known] >= 0).all() or not sums[np.unique(sides)].all():
        raise ValueError("weights below 0, or only zeros in a group, expected numbers above 0.")
    shares = weight[known] / sums[sides]
    equal = np.ptp(shares * np.bincount(sides)[sides]) < _FLAT if len(shares) else True
    return None if equal else np.asarray(shares)


def _independent(sides: NDArray[np.intp], factors: Factors) -> int:
    """The independent units of the side that has fewest."""
    return min(
        independent_units({name: codes[sides == side] for name, codes in factors.items()}, int(count))
        for side, count in enumerate(np.bincount(sides))
    )


@dataclass(frozen=True)
class Design:
    """Which units are compared, what each weighs, and which random effects they share.

    Attributes:
        sides: shape (units,), from 0: the group or the sample of a unit; all 0 for differences of pairs.
        shares: shape (units,): of a unit in the mean of its side; they sum to 1 on each side.
        weights: of the means of the sides, signed, none of them 0.
        factors: the cluster of each unit in each random factor, from 0. The effects of a factor are independent
            between sides: what both sides of a cluster share cancels.
    """

    sides: NDArray[np.intp]
    shares: Floats
    weights: Floats
    factors: Factors

    @classmethod
    def of_means(
        cls,
        sides: NDArray[np.intp],
        factors: Factors,
        weights: Sequence[float] = (1.0, -1.0),
        shares: Floats | None = None,
    ) -> "Design":
        """The design of the means of sides; without ``shares`` all units of a side weigh the same."""
        counts = np.bincount(sides)
        signed = np.asarray(weights[: len(counts)], dtype=np.float64)
        return cls(sides, 1 / counts[sides] if shares is None else shares, signed, factors)

    @cached_property
    def cluster_shares(self) -> list[Floats]:
        """Of each factor the share of each cluster in each side, shape (clusters, sides)."""
        found: list[Floats] = []
        for codes in self.factors.values():
            cells = np.zeros((int(codes.max()) + 1, len(self.weights)))
            np.add.at(cells, (codes, self.sides), self.shares)
            found.append(cells)
        return found

    @cached_property
    def estimable(self) -> bool:
        """Whether no cluster makes up a whole side: there would be nothing to compare it with."""
        return bool(self.factors) and all(share.max() < 1 - 1e-12 for share in self.cluster_shares)

    @property
    def fewest(self) -> tuple[str, int]:
        """The factor that has the fewest clusters on a side, and how many."""
        counts = {
            name: int((share > 0).sum(axis=0).min())
            for name, share in zip(self.factors, self.cluster_shares, strict=True)
        }
        name = min(counts, key=lambda one: counts[one])
        return name, counts[name]

    @cached_property
    def expected_squares(self) -> Floats:
        """E[f, g]: what squared sums over clusters of f hold of effects of g with variance 1; the rest comes last."""
        squared, size = self.weights**2, len(self.factors)
        found = np.zeros((size + 1, size + 1))
        each = list(zip(self.factors.values(), self.cluster_shares, strict=True))
        alone = np.bincount(self.sides, self.shares**2)
        for row, (codes, share) in enumerate(each):
            for column, (other, other_share) in enumerate(each[: row + 1]):
                clusters = (codes * len(other_share) + other) * len(squared) + self.sides
                _, first, place = np.unique(clusters, return_index=True, return_inverse=True)
                cell, side = np.bincount(place, self.shares), self.sides[first]
                product = share[codes[first], side] * other_share[other[first], side]
                whole = squared @ ((share**2).sum(axis=0) * (other_share**2).sum(axis=0))
                found[row, column] = found[column, row] = whole + squared[side] @ (cell**2 - 2 * cell * product)
            within = (self.shares**2 * (1 - 2 * share[codes, self.sides])) * squared[self.sides]
            found[row, size] = found[size, row] = within.sum() + squared @ ((share**2).sum(axis=0) * alone)
        found[size, size] = (self.shares**2 * (1 - 2 * self.shares) * squared[self.sides]).sum() + squared @ alone**2
        return found

    @cached_property
    def scales(self) -> Floats:
        """What a variance of 1 of each factor, and of the rest, adds to that of the value."""
        squared = self.weights**2
        parts = [squared @ (share**2).sum(axis=0) for share in self.cluster_shares]
        return np.array([*parts, squared @ np.bincount(self.sides, self.shares**2)])

    @cached_property
    def freedoms(self) -> Floats:
        """Degrees of freedom of each factor's sum of squares, and of the rest's."""
        size = np.abs(self.weights)
        parts = [_freedom(share, np.broadcast_to(size, share.shape)) for share in self.cluster_shares]
        rest = len(self.sides) - len(size) - sum(len(share) - 1 for share in self.cluster_shares)
        return np.array([*parts, max(1.0, rest)])

    def error(self, added: Floats) -> tuple[float, float]:
        """Standard error and degrees of freedom from what each factor adds to the variance, the rest's last."""
        *parts, rest = added
        joint, more = np.array(parts) + rest, len(parts) - 1
        total = joint.sum() - more * rest
        spread = (joint**2 / self.freedoms[:-1]).sum() + (more * rest) ** 2 / self.freedoms[-1]
        return (math.sqrt(total), float(total**2 / spread)) if spread > 0 else (math.nan, math.nan)

    def expected(self, spreads: Mapping[str, float]) -> tuple[float, float]:
        """Standard error and degrees of freedom before any score is known.

        Args:
            spreads: SD of the effects of each factor, by its name; blank: of what no factor explains. A cluster is
                taken to have one effect on all sides: what they share cancels.

        Returns:
            NaN, NaN where a spread is not known, or a cluster makes up a side.
        """
        names = (*self.factors, "")
        if not self.estimable or not all(name in spreads for name in names):
            return math.nan, math.nan
        scales = np.array([*(((share @ self.weights) ** 2).sum() for share in self.cluster_shares), self.scales[-1]])
        return self.error(np.array([spreads[name] for name in names]) ** 2 * scales)

    def spread(self, values: Floats) -> tuple[float, float, float]:
        """Standard error, degrees of freedom and skewness of the weighted sum of these units' means.

        One factor whose units weigh the same has the variance CR2 of Bell and McCaffrey. NaN, NaN, 0 where a cluster
        makes up a side, or where clusters differ by rounding alone.
        """
        nothing = math.nan, math.nan, 0.0
        if not self.estimable:
            return nothing
        means = np.bincount(self.sides, self.shares * values)
        influence = (self.weights[self.sides] * self.shares) * (values - means[self.sides])
        sums = [np.bincount(codes, influence) for codes in self.factors.values()]
        flat = FLAT_SUMS * float(np.abs(influence).sum())
        if all(float(np.abs(one).max()) <= flat / len(one) for one in sums):
            return nothing
        if len(sums) == 1 and np.ptp(self.shares * np.bincount(self.sides)[self.sides]) < 1e-12:
            error, freedom = self._one_factor(influence)
        else:
            squares = np.array([*(one @ one for one in sums), influence @ influence])
            unit = self.expected_squares.max()
            found = scipy.optimize.nnls(self.expected_squares / unit, squares / squares.max())[0]
            error, freedom = self.error(found * self.scales * squares.max() / unit)
        third = sum(
            float((one**3).sum()) * len(one) ** 2 / ((len(one) - 1) * (len(one) - 2))
            for one in sums
            if len(one) >= _FEWEST_SKEWED
        )
        return error, freedom, third / error**3

    def _one_factor(self, influence: Floats) -> tuple[float, float]:
        (codes,), (share,) = self.factors.values(), self.cluster_shares
        scale = 1 / np.sqrt(1 - share)
        totals = np.bincount(codes, influence * scale[codes, self.sides])
        return math.sqrt(totals @ totals), _freedom(share, scale * np.abs(self.weights))


def _freedom(share: Floats, scale: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of one factor, under an effect for each cluster and side.

    The scaled sums of a side are A a of its clusters' effects a, with A = diag(d) - d h', d = scale h and h the
    shares. Q = sum of A A' is a diagonal and, for each side, two vectors; (tr Q)^2 / tr Q^2 follows from those.
    """
    sides, weight = share.shape[1], scale * share
    diagonal = (weight**2).sum(axis=1)
    vectors = np.concatenate([weight, weight * share], axis=1)
    inner = np.zeros((2 * sides, 2 * sides))
    for side in range(sides):
        inner[side, side] = share[:, side] @ share[:, side]
        inner[side, sides + side] = inner[sides + side, side] = -1
    product = inner @ (vectors.T @ vectors)
    trace = diagonal.sum() + np.trace(product)
    squares = (
        diagonal @ diagonal
        + 2 * np.trace(inner @ (vectors.T @ (diagonal[:, None] * vectors)))
        + np.trace(product @ product)
    )
    return float(trace**2 / squares)


def t_above(statistic: float, freedom: float) -> float:
    """The chance that a t statistic lies above this one: ``scipy.stats.t.sf``, without its half second of import."""
    return float(scipy.special.stdtr(freedom, -statistic))


def t_quantile(share: float, freedom: float) -> float:
    """What a t statistic lies below in this share of cases, between 0 and 1: ``scipy.stats.t.ppf``."""
    return float(scipy.special.stdtrit(freedom, share))


def t_ends(
    value: float, error: float, freedom: float, confidence: float, skewness: float = 0.0
) -> tuple[float, float]:
    """Ends of the t interval, each moved outwards where Hall's correction for skewness says so; NaN without an error.

    >>> [round(end, 2) for end in t_ends(1.0, 0.5, 10, 0.95)]
    [-0.11, 2.11]
    >>> [round(end, 2) for end in t_ends(1.0, 0.5, 10, 0.95, skewness=0.4)]  # a long tail above the value
    [-0.11, 3.12]
    """
    if not error > 0:
        return math.nan, math.nan
    t = t_quantile(0.5 + confidence / 2, freedom)
    return value - error * max(t, _hall(t, skewness)), value + error * max(t, _hall(t, -skewness))


def t_p(value: float, error: float, freedom: float, skewness: float = 0.0) -> float:
    """Two-sided p for "the value is 0": one less the confidence of the interval that just reaches 0; NaN without an
    error."""
    if not error > 0:
        return math.nan
    reach = abs(value) / error
    reached = _from_hall(reach, math.copysign(skewness, value * skewness))
    return min(1.0, 2 * t_above(min(reach, reached), freedom))


def _hall(t: float, skewness: float) -> float:
    """How many standard errors below the value the end lies that t gives without skewness (Hall, JRSS B 1992)."""
    if abs(skewness) < _NO_SKEW:
        return t
    return float(3 / skewness * (np.cbrt(1 + skewness * (t - skewness / 6)) - 1))


def _from_hall(reach: float, skewness: float) -> float:
    """The t whose end lies so many standard errors below the value."""
    if abs(skewness) < _NO_SKEW:
        return reach
    return ((1 + skewness * reach / 3) ** 3 - 1) / skewness + skewness / 6


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


def pooled_spread(samples: Sequence[Floats]) -> float:
    """The SD within groups (ddof=1 each); NaN where no group has two values."""
    freedom = sum(len(side) - 1 for side in samples)
    squares = sum((len(side) - 1) * spread_of(side, side) ** 2 for side in samples if len(side) > 1)
    return math.sqrt(squares / freedom) if freedom > 0 else math.nan


def cohens_d(other: Floats, reference: Floats) -> float:
    """Difference of means over the pooled SD; NaN below two values in a group."""
    if min(len(other), len(reference)) < 2:
        return math.nan
    return ratio(mean_of(other) - mean_of(reference), pooled_spread((other, reference)))


def clustered_name(factors: Factors, plain: str) -> str:
    """What a t interval or test is called that allows for the factors."""
    names = " and ".join(filter(None, factors))
    return plain if not factors else f"cluster-robust t{names and f' ({names})'}"
