"""One number and how sure it is; and the rows it comes from: groups, complete pairs, clusters."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.record import Record

Floats = NDArray[np.float64]
Texts = NDArray[np.str_]
Codes = NDArray[np.intp]  # numbers from 0 that stand for names
Ids = Sequence[str] | NDArray[Any]
ClusterIds = Ids | Mapping[str, Ids] | None  # of one random factor, or of several by name
Factors = Mapping[str, Codes]  # the cluster of each row in each random factor


@dataclass(frozen=True, slots=True, eq=False)
class Estimate(Record):
    """One number and how sure it is.

    >>> estimate = Estimate(0.02, ci_low=-0.01, ci_high=0.05, p_value=0.19, n=40)
    >>> estimate.ci_low < 0 < estimate.ci_high, estimate.n, estimate.effect_size  # what is not known is NaN
    (True, 40, nan)
    """

    value: float
    """In the unit of the scores. For gaps: the other group minus the reference group."""
    ci_low: float = math.nan
    """Lower end of the interval (95 % by default)."""
    ci_high: float = math.nan
    """Upper end of the interval (95 % by default)."""
    effect_size: float = math.nan
    """Cohen's d with the pooled SD of the two groups (ddof=1), also for pairs. No unit."""
    effect_size_z: float = math.nan
    """d_z, mean difference over the SD of the differences; NaN where there are no pairs."""
    p_value: float = math.nan
    """Two-sided, for "the value is zero"."""
    n: int = 0
    """Units used (pairs for paired measures, else rows)."""
    n_unscored: int = 0
    """Units left out because a score is NaN."""
    test: str = ""
    """The test that gave the p-value."""
    interval: str = ""
    """The method that gave the interval."""
    p_adjusted: float = math.nan
    """The p-value corrected over the tests of the family."""
    family: str = ""
    """The name of that family of tests."""
    std_error: float = math.nan
    """Standard error of the t interval; NaN where it is none."""
    df: float = math.nan
    """Degrees of freedom of the t interval; NaN where it is none."""
    skewness: float = 0.0
    """Skewness of the value, by which the interval and the p-value are corrected; 0: none, or not known."""
    fewest: int = 0
    """The smallest number of levels that a random factor has on a side; 0: there is none."""
    fewest_of: str = ""
    """The random factor that has so few levels."""
    independent: int = 0
    """That number too, of units where there is no random factor; 0 for what is no weighted mean."""
    largest_level: float = math.nan
    """The largest distance of the mean of one of these levels from no gap, in the unit of the scores. No gap is 0,
    or for several sides the mean of all levels. NaN where that is not known."""
    level_spread: float = math.nan
    """How far the mean of one of these levels lies at most from the mean of its side."""

    def numbers(self, *names: str) -> dict[str, float]:
        """Return value, interval, p-value and counts, as an `evaluate` module returns them.

        Args:
            names: further fields, which come before the p-value.
        """
        fields = ("value", "ci_low", "ci_high", *names, "p_value", "n", "n_unscored")
        return {name: float(getattr(self, name)) for name in fields}


def is_missing(value: Any) -> bool:
    """Tell whether a value of a table is missing: None, NaN, NaT, pandas.NA.

    Args:
        value: any value.
    """
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        # pandas.NA is neither equal nor unequal; an array is not missing.
        return not hasattr(value, "shape")


_CONTAINERS = (list, dict, set)  # which are no values of a column


def values_of(column: Any) -> list[Any]:
    """Return the values of a column as Python has them: of lists, arrays, pandas, Arrow and polars alike.

    Args:
        column: shape (rows,).
    """
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def texts_of(column: Any) -> Texts:
    """Return a column as texts; "" where a value is missing.

    Args:
        column: shape (rows,).
    """
    texts = ["" if is_missing(value) else str(value) for value in values_of(column)]
    return np.asarray(texts, dtype=np.str_)


def numbers(values: ArrayLike) -> Floats:
    """Return values as floats; NaN where one is missing, in any way that tables have.

    Args:
        values: any shape.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubf":
        return values.astype(np.float64)
    listed = values_of(values)
    flat = [
        math.nan if not isinstance(value, list | tuple) and is_missing(value) else value
        for value in listed
    ]
    return np.asarray(flat, dtype=np.float64)


def known_ids(ids: Ids, name: str) -> NDArray[Any]:
    """Return ids as an array, numbers or texts.

    Args:
        ids: shape (rows,).
        name: the name of the ids, for the error.

    Raises:
        ValueError: an id is missing or blank.
    """
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iub":
        return ids
    values = values_of(ids)
    if any(isinstance(value, _CONTAINERS) for value in values):
        raise ValueError(f"{name}: a row has a list, expected an id in every row. Flatten {name}.")
    if not all(map(_is_id, set(values))):
        row = next(index for index, value in enumerate(values) if not _is_id(value))
        fault = "is blank" if isinstance(values[row], str) else f"contains {values[row]}"
        raise ValueError(f"{name}: row {row + 1} {fault}, expected an id in every row. Fill it in.")
    return np.asarray(values if len(set(map(type, values))) < 2 else list(map(str, values)))


def _is_id(value: Any) -> bool:
    """Tell whether a value is neither missing nor blank."""
    return bool(value.strip()) if isinstance(value, str) else not is_missing(value)


def named_group(group: Any, names: Collection[str]) -> str:
    """Return the name of a group as groups are called: 0 is "0" of ints, and "0.0" of floats.

    Args:
        group: a name, or a number.
        names: the names of the groups.

    >>> named_group(0, ["0", "1"]), named_group(0, ["0.0", "1.0"]), named_group("male", ["male"])
    ('0', '0.0', 'male')
    """
    name = str(group)
    if name in names or isinstance(group, str):
        return name
    return next((label for label in names if _number(label) == _number(name)), name)


def _number(name: str) -> float:
    """Return a name as a number; NaN where it is none."""
    try:
        return float(name)
    except ValueError:
        return math.nan


def by_group(scores: ArrayLike, groups: Sequence[Any]) -> tuple[Floats, Codes, list[str]]:
    """Return scores as floats, the index of each row's group among the sorted names, and these names.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,).

    Raises:
        ValueError: an infinite score, a missing group, or unequal shapes.
    """
    called = [str(name) for name in known_ids(groups, "groups").tolist()]
    names, codes = np.unique(np.asarray(called, dtype=np.str_), return_inverse=True)
    return scores_of_groups(scores, len(codes)), codes, names.tolist()


def scores_of_groups(scores: ArrayLike, rows: int) -> Floats:
    """Return scores as floats.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        rows: the number of rows that have a group.

    Raises:
        ValueError: an infinite score, or unequal shapes.
    """
    score = numbers(scores)
    if np.any(np.isinf(score)):
        raise ValueError(
            "scores contain an infinite number, expected finite ones or NaN for what could not be scored."
        )
    if score.shape != (rows,):
        raise ValueError(
            f"scores of shape {score.shape} and {rows} groups, expected one score per row."
        )
    return score


def two_groups(
    scores: ArrayLike, groups: Sequence[str], reference_group: str
) -> tuple[Floats, Codes, tuple[str, str]]:
    """Return scores as floats; the side of each row, 0 of the other group and 1 of the reference; and their names.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        groups: shape (rows,); exactly two groups.
        reference_group: one of them.

    Raises:
        ValueError: other than two groups, or what ``by_group`` refuses.
    """
    score, codes, names = by_group(scores, groups)
    reference = named_group(reference_group, names)
    if len(names) != 2 or reference not in names:
        raise ValueError(
            f"groups {names or 'none'}, expected exactly two with {reference_group!r} as reference_group."
        )
    if names[0] == reference:
        return score, 1 - codes, (names[1], reference)
    return score, codes, (names[0], reference)


def by_pair(
    score: Floats, sides: Codes, pair_ids: Ids, names: Sequence[str]
) -> tuple[Floats, Codes]:
    """Return scores of shape (pairs, groups) and the first row of each pair.

    Args:
        score: shape (rows,).
        sides: shape (rows,), the index of each row's group in ``names``.
        pair_ids: shape (rows,).
        names: the names of the groups.

    Raises:
        ValueError: an incomplete pair, or a missing id.
    """
    rows = pair_rows(sides, pair_ids, names)
    return np.asarray(score, dtype=np.float64)[rows], rows.min(axis=1)


def pair_rows(sides: Codes, pair_ids: Ids, names: Sequence[str]) -> Codes:
    """Return the row of each group of each pair, shape (pairs, groups); pairs are in the order of their first rows.

    Args:
        sides: shape (rows,), the index of each row's group in ``names``.
        pair_ids: shape (rows,).
        names: the names of the groups.

    Raises:
        ValueError: an incomplete pair, or a missing id.
    """
    if len(pair_ids) != len(sides):
        raise ValueError(f"{len(sides)} scores and {len(pair_ids)} pair_ids, expected one per row.")
    numbers_by_id: dict[Any, int] = {}
    ids = known_ids(pair_ids, "pair_ids").tolist()
    pairs = np.array([numbers_by_id.setdefault(name, len(numbers_by_id)) for name in ids], np.intp)
    shape = (len(numbers_by_id), len(names))
    counts = np.bincount(pairs * len(names) + sides, minlength=shape[0] * shape[1]).reshape(shape)
    if (counts != 1).any():
        name, pair = min(
            (name, pair) for name, pair in numbers_by_id.items() if (counts[pair] != 1).any()
        )
        group = int(np.flatnonzero(counts[pair] != 1)[0])
        raise ValueError(
            f"pair {name!s} has {counts[pair, group]} rows of {names[group]!r}, expected one."
        )
    rows = np.empty(shape, dtype=np.intp)
    rows[pairs, sides] = np.arange(len(sides))
    return rows
