"""Designs of crossed random factors: what units share, and the error of the means that they make."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.estimate import Codes, Floats, numbers
from swapbias.measures.random_factors import Factors

FLAT = 1e-12
"""A spread below this share of the largest value is rounding, not variance."""
NO_INFERENCE = (math.nan, math.nan, 0.0)
"""Standard error, degrees of freedom and skewness where there are none."""
# Sums over clusters below this share of what was added are rounding.
_FLAT_SUMS = 1e-10
# Slope of the squared errors of a fit of numbers up to 1: below it a fit cannot be better.
_FLAT_SLOPE = 1e-10
# Clusters: fewer have no estimate of skewness.
_FEWEST_SKEWED = 4
# Designs that are kept: those of the groups of an experiment, for the next model.
_KEPT = 16


@dataclass(frozen=True)
class Levels:
    """The levels of the random factor that has the fewest on a side; where there is no factor, the units."""

    factor: str
    """Blank for the units, and for the only factor of a measure, which has no name."""
    count: int
    """Levels on the side that has the fewest."""
    codes: Codes
    """Shape (units,): the level of each unit."""

    def distances(
        self, values: Floats, sides: Codes, shares: Floats | None = None
    ) -> tuple[float, float]:
        """Return how far the mean of a level lies at most from no gap, and from the mean of its side.

        No gap is 0 for differences of pairs (one side), else the mean of all levels of all sides.

        Args:
            values: shape (units,), without NaN.
            sides: shape (units,), from 0.
            shares: the share of each unit in the mean of its side; None: all weigh the same.
        """
        weight = np.ones(len(values)) if shares is None else shares
        side_count = int(sides.max()) + 1
        cells = self.codes * side_count + sides
        totals = np.bincount(cells, weight)
        # From one value of each level, so that equal values have exactly their mean.
        start = np.zeros(len(totals))
        start[cells] = values
        sums = np.bincount(cells, weight * (values - start[cells]))
        used = np.flatnonzero(totals > 0)
        totals = totals[used]
        means = start[used] + sums[used] / totals
        side_of = used % side_count
        side_means = np.bincount(side_of, totals * means) / np.bincount(side_of, totals)
        zero = 0.0 if side_count == 1 else float(side_means.mean())
        return float(np.abs(means - zero).max()), float(np.abs(means - side_means[side_of]).max())


def scarcest_levels(sides: Codes, factors: Factors) -> Levels:
    """Return the levels of the random factor that has the fewest on a side, the first of several; see ``Levels``.

    Args:
        sides: shape (units,), from 0.
        factors: the cluster of each unit, from 0, by random factor.

    >>> levels = scarcest_levels(np.zeros(4, int), {"templates": np.array([0, 0, 1, 1]), "names": np.arange(4)})
    >>> levels.factor, levels.count
    ('templates', 2)
    """
    if not len(sides):
        return Levels("", 0, np.empty(0, dtype=np.intp))
    if not factors:
        return Levels("", int(np.bincount(sides).min()), np.arange(len(sides)))
    counts = {
        name: int((level_sizes(sides, codes) > 0).sum(axis=0).min())
        for name, codes in factors.items()
    }
    name = min(counts, key=counts.__getitem__)
    return Levels(name, counts[name], factors[name])


def level_sizes(sides: Codes, codes: Codes) -> NDArray[np.intp]:
    """Return the number of units of each level of a factor on each side, shape (levels, sides).

    Args:
        sides: shape (units,), from 0.
        codes: shape (units,): the level of each unit, from 0.
    """
    side_count = int(sides.max(initial=0)) + 1
    level_count = int(codes.max(initial=0)) + 1
    cells = codes * side_count + sides
    return np.bincount(cells, minlength=level_count * side_count).reshape(level_count, side_count)


def level_shares(sides: Codes, codes: Codes) -> Floats:
    """Return the share of each unit in the mean of its side in which each level of a factor weighs the same.

    Args:
        sides: shape (units,), from 0.
        codes: shape (units,): the level of each unit, from 0.
    """
    sizes = level_sizes(sides, codes)
    levels = (sizes > 0).sum(axis=0)
    return np.asarray(1 / (sizes[codes, sides] * levels[sides]))


def shares_in(
    weights: ArrayLike | None, is_scored: NDArray[np.bool_], sides: Codes
) -> Floats | None:
    """Return the share of each scored row in the mean of its side; None where all of a side weigh the same.

    Args:
        weights: shape (rows,), from 0; None: all weigh the same.
        is_scored: shape (rows,): the rows to take.
        sides: shape (scored rows,), from 0.

    Returns:
        Shape (scored rows,); the shares of a side add up to 1.

    Raises:
        ValueError: weights of another shape, below 0, or 0 throughout a side.
    """
    if weights is None:
        return None
    weight = numbers(weights)
    if weight.shape != is_scored.shape:
        raise ValueError(
            f"{len(is_scored)} scores and weights of shape {weight.shape}, expected one per row."
        )
    weight = weight[is_scored]
    sums = np.bincount(sides, weight)
    if not (weight >= 0).all() or not sums[np.unique(sides)].all():
        raise ValueError("weights below 0, or only zeros in a group, expected numbers above 0.")
    shares = weight / sums[sides]
    return None if weigh_alike(shares, sides) else np.asarray(shares)


def weigh_alike(shares: Floats, sides: Codes) -> bool:
    """Tell whether all units of a side have the same share; True where there is no unit.

    Args:
        shares: shape (units,), of each unit in the mean of its side.
        sides: shape (units,), from 0.
    """
    if not len(shares):
        return True
    return bool(np.ptp(shares * np.bincount(sides)[sides]) < FLAT)


@dataclass(frozen=True)
class Design:
    """Design of a comparison: its units, their weights, and the random effects that they share.

    Variance components by the method of moments; Satterthwaite's degrees of freedom, of each component Bell and
    McCaffrey's (2002); intervals and p-values allow for skewed effects (Hall 1992).
    """

    sides: Codes
    """Shape (units,), from 0: the group or the sample of a unit; all 0 for differences of pairs."""
    shares: Floats
    """Shape (units,): of a unit in the mean of its side; they sum to 1 on each side."""
    weights: Floats
    """Shape (sides,): of the means of the sides, signed, none of them 0."""
    factors: Factors
    """By random factor the cluster of each unit, from 0. Effects are independent between sides: what both sides of a
    cluster share cancels."""

    @classmethod
    def of_means(
        cls,
        sides: Codes,
        factors: Factors,
        weights: Sequence[float] = (1.0, -1.0),
        shares: Floats | None = None,
    ) -> "Design":
        """Return the design of the means of sides.

        Args:
            sides: shape (units,), from 0.
            factors: the cluster of each unit, by random factor.
            weights: the weights of the means of the sides, signed.
            shares: shape (units,), of a unit in the mean of its side; None: all of a side weigh the same.
        """
        contents = tuple((name, _content(codes)) for name, codes in factors.items())
        own_shares = None if shares is None else np.asarray(shares, dtype=np.float64).tobytes()
        return _design(_content(sides), contents, tuple(weights), own_shares)

    @cached_property
    def cluster_shares(self) -> list[Floats]:
        """Return for each factor the share of each cluster in each side, shape (clusters, sides)."""
        side_count = len(self.weights)
        cluster_shares = []
        for codes in self.factors.values():
            cells = codes * side_count + self.sides
            cell_count = (int(codes.max()) + 1) * side_count
            sums = np.bincount(cells, self.shares, cell_count).reshape(-1, side_count)
            cluster_shares.append(np.asarray(sums, dtype=np.float64))
        return cluster_shares

    @cached_property
    def estimable(self) -> bool:
        """Tell whether no cluster makes up a whole side: there would be nothing to compare it with."""
        return bool(self.factors) and all(share.max() < 1 - 1e-12 for share in self.cluster_shares)

    @cached_property
    def expected_squares(self) -> Floats:
        """Return E[f, g], by which squared sums over clusters of f hold effects of g of variance 1; the rest last."""
        squared = self.weights**2
        size = len(self.factors)
        expected = np.zeros((size + 1, size + 1))
        factors = list(zip(self.factors.values(), self.cluster_shares, strict=True))
        alone = np.bincount(self.sides, self.shares**2)
        for row, (codes, share) in enumerate(factors):
            for column, (column_codes, column_share) in enumerate(factors[: row + 1]):
                clusters = (codes * len(column_share) + column_codes) * len(squared) + self.sides
                _, first, cells = np.unique(clusters, return_index=True, return_inverse=True)
                cell = np.bincount(cells, self.shares)
                side = self.sides[first]
                product = share[codes[first], side] * column_share[column_codes[first], side]
                whole = squared @ ((share**2).sum(axis=0) * (column_share**2).sum(axis=0))
                expected[row, column] = expected[column, row] = whole + squared[side] @ (
                    cell**2 - 2 * cell * product
                )
            within = (self.shares**2 * (1 - 2 * share[codes, self.sides])) * squared[self.sides]
            expected[row, size] = expected[size, row] = within.sum() + squared @ (
                (share**2).sum(axis=0) * alone
            )
        rest = (self.shares**2 * (1 - 2 * self.shares) * squared[self.sides]).sum()
        expected[size, size] = rest + squared @ alone**2
        return expected

    @cached_property
    def scales(self) -> Floats:
        """Return by how much a variance of 1 of each factor, and of the rest, adds to that of the value."""
        squared = self.weights**2
        parts = [squared @ (share**2).sum(axis=0) for share in self.cluster_shares]
        return np.array([*parts, squared @ np.bincount(self.sides, self.shares**2)])

    @cached_property
    def dfs(self) -> Floats:
        """Return the degrees of freedom of each factor's sum of squares, and of the rest's."""
        size = np.abs(self.weights)
        parts = [
            _factor_df(share, np.broadcast_to(size, share.shape)) for share in self.cluster_shares
        ]
        rest = len(self.sides) - len(size) - sum(len(share) - 1 for share in self.cluster_shares)
        return np.array([*parts, max(1.0, rest)])

    def std_error(self, added: Floats) -> tuple[float, float]:
        """Return standard error and degrees of freedom; NaN, NaN where nothing varies.

        Args:
            added: shape (factors + 1,): by how much each factor adds to the variance of the value, the rest's last.
        """
        *parts, rest = added
        joint = np.array(parts) + rest
        repeats = len(parts) - 1  # of the rest, which is part of the squares of every factor
        total = joint.sum() - repeats * rest
        spread = (joint**2 / self.dfs[:-1]).sum() + (repeats * rest) ** 2 / self.dfs[-1]
        if not spread > 0:
            return math.nan, math.nan
        return math.sqrt(total), float(total**2 / spread)

    def expected(
        self, spreads: Mapping[str, float], *, independent: bool = False
    ) -> tuple[float, float]:
        """Compute the standard error and degrees of freedom before any score is known.

        Args:
            spreads: the SD of the effects of each factor; blank: of what none explains.
            independent: whether a cluster has another effect on each side, as in ``components``, and not the same.

        Returns:
            NaN, NaN where a spread is unknown or a cluster makes up a side.
        """
        names = (*self.factors, "")
        if not self.estimable or not all(name in spreads for name in names):
            return math.nan, math.nan
        scales = self.scales
        if not independent:
            shared = [((share @ self.weights) ** 2).sum() for share in self.cluster_shares]
            scales = np.array([*shared, self.scales[-1]])
        return self.std_error(np.array([spreads[name] for name in names]) ** 2 * scales)

    def components(self, values: Floats) -> dict[str, float]:
        """Estimate the SD of the effects of each factor, and (blank) of what none explains, by the method of moments.

        Args:
            values: shape (units,), without NaN.

        Returns:
            The SDs in the unit of the values, none below 0; nothing where a cluster makes up a side.
        """
        if not self.estimable:
            return {}
        variances = self._variances(self._influence(values))
        return dict(zip((*self.factors, ""), np.sqrt(variances).tolist(), strict=True))

    def _influence(self, values: Floats) -> Floats:
        """Return by how much each unit adds to the value beyond the mean of its side."""
        means = np.bincount(self.sides, self.shares * values)
        return np.asarray((self.weights[self.sides] * self.shares) * (values - means[self.sides]))

    def _variances(self, influence: Floats) -> Floats:
        """Return the variance of each factor's effects, and of the rest, whose expected squares come nearest."""
        sums = [np.bincount(codes, influence) for codes in self.factors.values()]
        squares = np.array([*(total @ total for total in sums), influence @ influence])
        unit = self.expected_squares.max()
        largest = squares.max()
        if not largest > 0:
            return np.zeros(len(squares))
        variances = _least_squares(self.expected_squares / unit, squares / largest)
        return np.asarray(variances * largest / unit)

    def spread(self, values: Floats) -> tuple[float, float, float]:
        """Return standard error, degrees of freedom and skewness of the weighted sum of these units' means.

        Args:
            values: shape (units,), without NaN.

        Returns:
            NaN, NaN, 0 where a cluster makes up a side, or where clusters differ by rounding alone.
        """
        if not self.estimable:
            return NO_INFERENCE
        influence = self._influence(values)
        sums = [np.bincount(codes, influence) for codes in self.factors.values()]
        flat = _FLAT_SUMS * float(np.abs(influence).sum())
        if all(float(np.abs(totals).max()) <= flat / len(totals) for totals in sums):
            return NO_INFERENCE
        if len(sums) == 1 and weigh_alike(self.shares, self.sides):
            std_error, df = self._clustered_error(influence)
        else:
            std_error, df = self.std_error(self._variances(influence) * self.scales)
        third = sum(_third_moment(np.asarray(totals)) for totals in sums)
        return std_error, df, third / std_error**3

    def _clustered_error(self, influence: Floats) -> tuple[float, float]:
        """Return standard error and degrees of freedom of one factor by the variance CR2 of Bell and McCaffrey."""
        (codes,) = self.factors.values()
        (share,) = self.cluster_shares
        scale = 1 / np.sqrt(1 - share)
        totals = np.bincount(codes, influence * scale[codes, self.sides])
        return math.sqrt(totals @ totals), _factor_df(share, scale * np.abs(self.weights))


def _content(codes: Codes) -> bytes:
    """Return codes as bytes, by which those of another comparison are seen to be the same."""
    return np.asarray(codes, dtype=np.intp).tobytes()


@lru_cache(maxsize=_KEPT)
def _design(
    sides: bytes,
    factors: tuple[tuple[str, bytes], ...],
    weights: tuple[float, ...],
    shares: bytes | None,
) -> Design:
    """Return the design of these contents; one that many models and effects share is computed once."""
    side_codes = np.frombuffer(sides, dtype=np.intp)
    counts = np.bincount(side_codes)
    share = 1 / counts[side_codes] if shares is None else np.frombuffer(shares)
    signed = np.asarray(weights[: len(counts)], dtype=np.float64)
    codes = {name: np.frombuffer(content, dtype=np.intp) for name, content in factors}
    return Design(side_codes, share, signed, codes)


def _third_moment(totals: Floats) -> float:
    """Return the third central moment that the clusters of a factor add; 0 where they are too few to estimate it."""
    n = len(totals)
    if n < _FEWEST_SKEWED:
        return 0.0
    return float((totals**3).sum()) * n**2 / ((n - 1) * (n - 2))


def _least_squares(matrix: Floats, squares: Floats) -> Floats:
    """Solve for variances, none below 0: the exact solution where it has none, else by least squares with that bound.

    ``scipy.optimize.nnls`` of scipy 1.15.0 ends at another point where a variance is 0.
    """
    try:
        exact = np.linalg.solve(matrix, squares)
    except np.linalg.LinAlgError:
        exact = np.full(len(squares), -1.0)
    if exact.min() >= 0 and np.allclose(matrix @ exact, squares):
        return np.asarray(exact, dtype=np.float64)
    variances = _without_negative(matrix, squares)
    slope = matrix.T @ (matrix @ variances - squares)
    # Where no variance could be larger or smaller for a better fit it is the solution: the general method takes long.
    if max(np.abs(slope[variances > 0]).max(initial=0), (-slope).max()) < _FLAT_SLOPE:
        return variances
    bounded = scipy.optimize.lsq_linear(matrix, squares, bounds=(0, np.inf), method="bvls")
    return np.asarray(np.maximum(bounded.x, 0.0), dtype=np.float64)


def _without_negative(matrix: Floats, squares: Floats) -> Floats:
    """Return the least-squares solution with each variance as 0 that would be negative, until none is."""
    variances = np.linalg.lstsq(matrix, squares, rcond=-1)[0]
    while True:
        free = np.flatnonzero(variances > 0)
        variances = np.zeros(len(variances))
        if not len(free):
            return variances
        variances[free] = np.linalg.lstsq(matrix[:, free], squares, rcond=None)[0]
        if (variances >= 0).all():
            return variances


def _factor_df(share: Floats, scale: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of one factor, under an effect for each cluster and side."""
    # The scaled sums of a side are A a of its clusters' effects a, with A = diag(d) - d h', d = scale h and h the
    # shares. Q = sum of A A' is a diagonal and, for each side, two vectors; (tr Q)^2 / tr Q^2 follows from those.
    sides = share.shape[1]
    weight = scale * share
    diagonal = (weight**2).sum(axis=1)
    vectors = np.concatenate([weight, weight * share], axis=1)
    crossed = -np.eye(sides)
    inner = np.block(
        [[np.diag((share**2).sum(axis=0)), crossed], [crossed, np.zeros((sides, sides))]]
    )
    product = inner @ (vectors.T @ vectors)
    mixed = inner @ (vectors.T @ (diagonal[:, None] * vectors))
    squares = diagonal @ diagonal + 2 * np.trace(mixed) + np.trace(product @ product)
    return float((diagonal.sum() + np.trace(product)) ** 2 / squares)
