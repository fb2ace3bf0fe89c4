"""One number and how sure it is; and the rows it comes from, as complete pairs, two groups and clusters."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ids = Sequence[str] | NDArray[Any]
ClusterIds = Ids | Mapping[str, Ids] | None  # of one random factor, or of several by name
Factors = Mapping[str, NDArray[np.intp]]  # the cluster of each row in each random factor


class Record:
    """What equals another of its class with the same fields: NaN equals NaN here, in every version of Python.

    For dataclasses with ``eq=False``: what Python makes of them tells two NaN apart since 3.13.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class, and its fields are the same."""
        return isinstance(other, Record) and type(self) is type(other) and self._held() == other._held()

    def __hash__(self) -> int:
        """Equal for equal records."""
        return hash((type(self), self._held()))

    def _held(self) -> tuple[Any, ...]:
        """The values of the fields, one text standing for every NaN."""
        values = (getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]
        return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate(Record):
    """One number and how sure it is.

    >>> one = Estimate(0.02, ci_low=-0.01, ci_high=0.05, p_value=0.19, n=40)
    >>> one.ci_low < 0 < one.ci_high, one.n, one.effect_size  # what is not known is NaN
    (True, 40, nan)

    Attributes:
        value: the quantity, in the unit of the scores. For gaps: the other group minus the reference group.
        ci_low, ci_high: ends of the interval (95 % by default).
        effect_size: Cohen's d with the pooled SD of the two groups (ddof=1), also for pairs. No unit.
        effect_size_z: d_z, mean difference over the SD of the differences; NaN where there are no pairs.
        p_value: two-sided, for "the value is zero".
        n: units used (pairs for paired measures, rows otherwise).
        n_unscored: units left out because a score is NaN.
        test, interval: what gave the p-value and the interval.
        p_adjusted, family: the p-value corrected over the tests of the family, and its name.
        error, freedom: standard error and degrees of freedom of the t interval; NaN where it is none.
        skewness: of the value, by which the interval and the p-value are corrected; 0: none, or not known.
        fewest, fewest_of: the smallest number of levels that a random factor has on a side, and which it is; 0: none.
        independent: of a gap without spread how many units are in no common cluster of every factor; else 0.
    """

    value: float
    ci_low: float = math.nan
    ci_high: float = math.nan
    effect_size: float = math.nan
    effect_size_z: float = math.nan
    p_value: float = math.nan
    n: int = 0
    n_unscored: int = 0
    test: str = ""
    interval: str = ""
    p_adjusted: float = math.nan
    family: str = ""
    error: float = math.nan
    freedom: float = math.nan
    skewness: float = 0.0
    fewest: int = 0
    fewest_of: str = ""
    independent: int = 0

    def numbers(self, *names: str) -> dict[str, float]:
        """Value, interval, p-value, counts and whatever else is named, as what an `evaluate` module returns.

        >>> Estimate(0.5, n=3).numbers("effect_size")["n"]
        3.0
        """
        wanted = ("value", "ci_low", "ci_high", *names, "p_value", "n", "n_unscored")
        return {name: float(getattr(self, name)) for name in wanted}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Complete pairs, aligned: scores of both groups, and the row of the other group's score."""

    other: Floats
    reference: Floats
    rows: NDArray[np.intp]
    n_unscored: int

    @property
    def differences(self) -> Floats:
        """Other minus reference, one per pair."""
        return self.other - self.reference


def known_ids(ids: Ids, name: str) -> NDArray[Any]:
    """Ids as an array, numbers or texts.

    Raises:
        ValueError: one is None or NaN.
    """
    found = np.asarray(ids)
    if found.dtype.kind in "iubUS":
        return found
    values = found.tolist()
    lost = next((row for row, one in enumerate(values, start=1) if one is None or one != one), None)
    if lost is not None:
        raise ValueError(f"{name}: row {lost} holds {values[lost - 1]!r}, expected an id in every row. Fill it in.")
    return found if len(set(map(type, values))) < 2 else np.asarray(list(map(str, values)))


def named_group(group: Any, names: Collection[str]) -> str:
    """The name of a group as groups are called: 0 is "0" of ints, and "0.0" of floats.

    >>> named_group(0, ["0", "1"]), named_group(0, ["0.0", "1.0"]), named_group("male", ["male"])
    ('0', '0.0', 'male')
    """
    name = str(group)
    if name in names or isinstance(group, str):
        return name
    return next((one for one in names if _number(one) == _number(name)), name)


def _number(name: str) -> float:
    try:
        return float(name)
    except ValueError:
        return math.nan


def align_pairs(scores: ArrayLike, groups: Sequence[str], pair_ids: Sequence[str], *, reference_group: str) -> Pairs:
    """Complete pairs in the order of their first row; pairs with a NaN score are counted and left out.

    Raises:
        ValueError: as ``paired_gap``.
    """
    score, is_reference = two_groups(scores, groups, reference_group)
    if len(pair_ids) != len(score):
        raise ValueError(f"{len(score)} scores and {len(pair_ids)} pair_ids, expected one per row.")
    names, first, codes = np.unique(known_ids(pair_ids, "pair_ids"), return_index=True, return_inverse=True)
    for side, members in (("the other group", ~is_reference), (repr(reference_group), is_reference)):
        counts = np.bincount(codes[members], minlength=len(names))
        wrong = np.flatnonzero(counts != 1)
        if len(wrong):
            raise ValueError(f"pair {names[wrong[0]]!s} has {counts[wrong[0]]} rows of {side}, expected one.")
    other_row, reference_row = (np.empty(len(names), dtype=np.intp) for _ in range(2))
    other_row[codes[~is_reference]] = np.flatnonzero(~is_reference)
    reference_row[codes[is_reference]] = np.flatnonzero(is_reference)
    order = np.argsort(first)
    other_row, reference_row = other_row[order], reference_row[order]
    complete = ~(np.isnan(score[other_row]) | np.isnan(score[reference_row]))
    other_row, reference_row = other_row[complete], reference_row[complete]
    return Pairs(score[other_row], score[reference_row], other_row, int((~complete).sum()))


def two_groups(scores: ArrayLike, groups: Sequence[str], reference_group: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores as floats, and which rows are of the reference group."""
    score = np.asarray(scores, dtype=np.float64)
    group = np.asarray([str(name) for name in groups])
    if np.any(np.isinf(score)):
        raise ValueError("scores hold an infinite number, expected finite ones or NaN for what could not be scored.")
    if score.ndim != 1 or len(score) != len(group):
        raise ValueError(f"scores of shape {score.shape} and {len(group)} groups, expected one score per row.")
    found = sorted(set(group.tolist()))
    reference = named_group(reference_group, found)
    if len(found) != 2 or reference not in found:
        raise ValueError(f"groups {found}, expected exactly two with {reference_group!r} as reference_group.")
    return score, group == reference


def factor_codes(cluster_ids: ClusterIds, rows: int) -> Factors:
    """The clusters of each random factor as integers from 0; one sequence of ids is one factor without a name."""
    factors = cluster_ids if isinstance(cluster_ids, Mapping) else {} if cluster_ids is None else {"": cluster_ids}
    for name, ids in factors.items():
        if len(ids) != rows:
            raise ValueError(
                f"{rows} scores and {len(ids)} cluster_ids{name and f' of {name}'}, expected one per row."
            )
    return {
        name: np.unique(known_ids(ids, f"cluster_ids{name and f' of {name}'}"), return_inverse=True)[1]
        for name, ids in factors.items()
    }


def factors_of_pairs(cluster_ids: ClusterIds, pair_ids: Sequence[str]) -> Factors:
    """The same, where all rows of a pair must lie in one cluster of each factor."""
    factors = factor_codes(cluster_ids, len(pair_ids))
    ids = np.asarray(pair_ids).tolist()
    for name, codes in factors.items():
        if len(set(zip(ids, codes.tolist(), strict=True))) != len(set(ids)):
            of = name and f" of {name}"
            raise ValueError(f"A pair lies in two clusters{of}, expected all of its rows in one. Fix cluster_ids.")
    return factors


def independent_units(factors: Factors, rows: int) -> int:
    """How many of the rows lie in no common cluster of every factor; all of them without factors.

    >>> independent_units({"template": np.array([0, 0, 1]), "condition": np.array([0, 0, 0])}, 3)
    2
    """
    return len(set(zip(*(codes.tolist() for codes in factors.values()), strict=True))) if factors else rows


def rows_of(factors: Factors, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Factors:
    """The clusters of some of the rows."""
    return {name: codes[rows] for name, codes in factors.items()}
