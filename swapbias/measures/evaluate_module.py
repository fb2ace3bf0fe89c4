"""What `evaluate` modules have in common: their texts, and columns that are checked before anything is computed."""

import inspect
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from swapbias.measures.estimate import is_missing, known_ids, numbers, values_of

_SOURCE = "https://github.com/swapbias/swapbias"
_SOFTWARE = f"""
@software{{swapbias,
  title = {{swapbias: social bias in language models by swapping one slot of a text}},
  author = {{{{The swapbias authors}}}}, year = {{2026}}, url = {{{_SOURCE}}}
}}
"""


def module_info(description: str, inputs: str, citation: str) -> dict[str, Any]:
    """Return the texts that ``evaluate.MetricInfo`` shows of a module, with the software and addresses of its papers.

    Args:
        description: the description of the measure.
        inputs: what the columns hold.
        citation: BibTeX of its papers.
    """
    papers = re.findall(r"(url|doi)\s*=\s*\{(\S+?)\}", citation)
    return {
        "description": description,
        "inputs_description": inputs,
        "citation": _SOFTWARE + citation,
        "codebase_urls": [_SOURCE],
        "reference_urls": [
            address if kind == "url" else f"https://doi.org/{address}" for kind, address in papers
        ],
    }


# The column of texts that may be missing in a row: an answer that was not given. Others are keys, ids and groups.
_MAY_BE_MISSING = "predictions"


class CheckedInputs:
    """Base of an `evaluate` module, before ``evaluate.Metric``: refuses what the module does not take.

    Inputs stay in memory where one process computes: those of credentialed notes would else lie below HF_HOME, and
    stay there after an error.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make a module as ``evaluate.Metric`` does.

        Args:
            arguments: the arguments of ``evaluate.Metric``.
            options: the options of ``evaluate.Metric``, by name.
        """
        super().__init__(*arguments, **options)
        module: Any = self
        module.keep_in_memory = module.num_process == 1

    def compute(self, *, predictions: Any = None, references: Any = None, **columns: Any) -> Any:
        """Compute as ``evaluate.Metric.compute``.

        ``evaluate`` lets a missing column end in a ``TypeError``; its ``combine`` passes every module those of all.

        Args:
            predictions: shape (rows,), the column of that name; None: none.
            references: shape (rows,), the column of that name; None: none.
            columns: other columns, and options, by name.

        Returns:
            The numbers of the module by name.

        Raises:
            ValueError: a missing column or option, an unknown one, or an option that is none of its kind.
        """
        module: Any = self
        declared = inspect.signature(module._compute).parameters
        parameters = list(declared)
        if strange := [name for name in columns if name not in parameters]:
            raise ValueError(
                f"{module.name} takes no {', '.join(strange)}, expected {', '.join(parameters)}. Modules of other "
                "columns or options are computed one by one, not by combine()."
            )
        values = {"predictions": predictions, "references": references, **columns}
        needed = module._feature_names()
        columns_given = [name for name in needed if values.get(name) is not None]
        required = [
            name for name in parameters if declared[name].default is inspect.Parameter.empty
        ]
        # Columns may have come by add_batch.
        missing = [
            name
            for name in required
            if values.get(name) is None and (columns_given or name not in needed)
        ]
        if missing:
            names = ", ".join(missing)
            raise ValueError(
                f"{module.name} is given no {names}, expected {', '.join(required)}. Add them."
            )
        for name, value in columns.items():
            is_left_out = value is None and declared[name].default is None
            if name not in needed and not is_left_out:
                _check_option(name, value)
        return super().compute(**values)  # type: ignore[misc]

    def add_batch(self, *, predictions: Any = None, references: Any = None, **columns: Any) -> None:
        """Add rows as ``evaluate.Metric.add_batch``.

        Args:
            predictions: shape (rows,), the column of that name; None: none.
            references: shape (rows,), the column of that name; None: none.
            columns: other columns by name.

        Raises:
            ValueError: a column, an id or the name of a group is missing.
        """
        all_columns = {"predictions": predictions, "references": references, **columns}
        read = {
            name: self._read(name, _as_list(name, column))
            for name, column in all_columns.items()
            if column is not None
        }
        super().add_batch(**self._of_one_type(self._whole(read)))  # type: ignore[misc]

    def add(self, *, prediction: Any = None, reference: Any = None, **columns: Any) -> None:
        """Add a row as ``evaluate.Metric.add``.

        Args:
            prediction: its value in the column ``predictions``; None: none.
            reference: its value in the column ``references``; None: none.
            columns: its values in other columns, by name.

        Raises:
            ValueError: a column, an id or the name of a group is missing.
        """
        all_values = {"predictions": prediction, "references": reference, **columns}
        rows = self._of_one_type(
            self._whole(
                {
                    name: self._read(name, [value])
                    for name, value in all_values.items()
                    if value is not None
                }
            )
        )
        read = {name: column[0] for name, column in rows.items()}
        super().add(  # type: ignore[misc]
            prediction=read.pop("predictions", None), reference=read.pop("references", None), **read
        )

    def _whole(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return the columns; ValueError where one that the module needs is missing."""
        module: Any = self
        needed = module._feature_names()
        if missing := [name for name in needed if name not in columns]:
            names = ", ".join(missing)
            raise ValueError(
                f"{module.name} is given no {names}, expected {', '.join(needed)}. Add them."
            )
        return columns

    def _read(self, name: str, column: Any) -> list[Any]:
        """Return a column as evaluate takes it: texts of ids, whatever they are; None or NaN for what is missing."""
        module: Any = self
        features = module.features if isinstance(module.features, Mapping) else {}
        feature = features.get(name)
        kind = getattr(feature, "dtype", "")
        if kind in ("string", "large_string"):
            if name != _MAY_BE_MISSING:
                return [str(value) for value in known_ids(column, name).tolist()]
            return [None if is_missing(value) else str(value) for value in values_of(column)]
        if kind == "float64":
            return _floats(column, name, "a number, or NaN for none")
        if inner := getattr(feature, "feature", None):
            return _lists(column, name, inner.dtype)
        return values_of(column)

    def _of_one_type(self, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Return columns of a module that takes texts or numbers as the one or the other: "" or NaN for none."""
        module: Any = self
        if isinstance(module.features, Mapping):
            return columns
        if not all(columns.values()):
            raise ValueError(f"{module.name} is given no rows, expected one or more. Add them.")
        values = [value for column in columns.values() for value in column]
        if any(isinstance(value, str) for value in values):
            return {name: _texts(column, name) for name, column in columns.items()}
        return {
            name: _floats(column, name, "a text or a number") for name, column in columns.items()
        }

    def keyed(self, pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return numbers by key, of which the names of groups are parts.

        Args:
            pairs: key and number of each.

        Raises:
            ValueError: two numbers would have one key.
        """
        module: Any = self
        numbers_by_key: dict[str, float] = {}
        for key, value in pairs:
            if key in numbers_by_key:
                raise ValueError(
                    f"{module.name} would give two numbers as {key}, for the names of groups are parts of keys. "
                    "Rename a group."
                )
            numbers_by_key[key] = value
        return numbers_by_key

    def vectors(self, name: str, rows: Any) -> list[list[float]]:
        """Return vectors of one length.

        Args:
            name: what they are, for the error.
            rows: shape (rows, dimensions).

        Raises:
            ValueError: a row is no list of numbers, or has another length.
        """
        read = _lists(_as_list(name, rows), name, "float64")
        lengths = sorted(set(map(len, read)))
        if len(lengths) > 1:
            raise ValueError(
                f"{name}: vectors of {lengths[0]} and {lengths[-1]} numbers, expected one length. Correct them."
            )
        return read


def _as_list(name: str, column: Any) -> Any:
    """Return a column; a ValueError for what is none, such as a text, whose letters would be rows."""
    is_one = isinstance(column, str | bytes | Mapping) or not hasattr(column, "__iter__")
    if is_one or getattr(column, "ndim", 1) == 0:
        raise ValueError(
            f"{name} is of type {type(column).__name__}, expected a list of values. Put it into a list."
        )
    return column


def _floats(column: Any, name: str, expected: str) -> list[float]:
    """Return a column as floats; a ValueError that names the first row that is none, but not what is in it."""
    values = values_of(column)
    if (read := _numbers_or_none(column)) is not None:
        return read
    bad = next(row for row, value in enumerate(values, 1) if _numbers_or_none([value]) is None)
    raise _wrong_row(name, bad, values[bad - 1], expected)


def _texts(column: list[Any], name: str) -> list[str]:
    """Return a column as texts, "" for none; a ValueError for a row that holds several values."""
    for row, value in enumerate(column, 1):
        if isinstance(value, list | tuple | Mapping):
            raise _wrong_row(name, row, value, "a text or a number")
    return ["" if is_missing(value) else str(value) for value in column]


def _numbers_or_none(values: Any) -> list[float] | None:
    """Return values as floats; None where one is no number."""
    try:
        read = numbers(values)
    except (TypeError, ValueError):
        return None
    flat: list[float] = read.tolist()
    return flat if read.ndim == 1 else None


def _lists(column: Any, name: str, kind: str) -> list[Any]:
    """Return a column of lists of floats or texts; a ValueError that names the first row that is none."""
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.dtype.kind in "iubf":
        vectors: list[Any] = column.tolist()
        return vectors
    rows = []
    expected = "a list of texts" if kind == "string" else "a list of numbers"
    for row, value in enumerate(values_of(column), 1):
        is_list = hasattr(value, "__iter__") and not isinstance(value, str | bytes | Mapping)
        inner: Any = values_of(value) if is_list else None
        if kind != "string" and is_list:
            inner = _numbers_or_none(value)
        if inner is None or (kind == "string" and not all(isinstance(text, str) for text in inner)):
            raise _wrong_row(name, row, value, expected)
        rows.append(inner)
    return rows


def _wrong_row(name: str, row: int, value: Any, expected: str) -> ValueError:
    """Return the error for a row of a column; it names the type of the value, which may be private itself."""
    return ValueError(
        f"{name}: row {row} contains a value of type {type(value).__name__}, expected {expected}. Correct it."
    )


def _check_option(name: str, value: Any) -> None:
    """Refuse ids that are no columns, and a threshold that no score can be compared with, with a ValueError."""
    if name.endswith("_ids"):
        if isinstance(value, Mapping) and not value:
            raise ValueError(
                f"{name} names no factor, expected one or more. Add one, or drop {name}."
            )
        factors = value if isinstance(value, Mapping) else {name: value}
        for column in factors.values():
            _as_list(name, column)
    if name == "threshold":
        read = _numbers_or_none([value])
        if read is None or isinstance(value, str) or not math.isfinite(read[0]):
            raise ValueError(
                f"threshold is {value!r:.20}, expected a number. Give one, such as 0.5."
            )
