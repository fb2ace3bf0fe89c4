"""What `evaluate` modules have in common: their texts, and columns that are checked before anything is computed."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

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


# Columns of texts that may be missing in a row: an answer that was not given. Others are ids and names of groups.
_MAY_BE_MISSING = ("predictions", "references", "incorrect")


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
            ValueError: a missing column, or an unknown column or option.
        """
        module: Any = self
        parameters = list(inspect.signature(module._compute).parameters)
        if strange := [name for name in columns if name not in parameters]:
            raise ValueError(
                f"{module.name} takes no {', '.join(strange)}, expected {', '.join(parameters)}. Modules of other "
                "columns or options are computed one by one, not by combine()."
            )
        values = {"predictions": predictions, "references": references, **columns}
        needed = module._feature_names()
        missing = [name for name in needed if values.get(name) is None]
        if 0 < len(missing) < len(needed):
            names = ", ".join(missing)
            raise ValueError(
                f"{module.name} is given no {names}, expected {', '.join(needed)}. Add them."
            )
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
            name: self._read(name, column)
            for name, column in all_columns.items()
            if column is not None
        }
        super().add_batch(**self._whole(read))  # type: ignore[misc]

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
        read = self._whole(
            {
                name: self._read(name, [value])[0]
                for name, value in all_values.items()
                if value is not None
            }
        )
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

    def _read(self, name: str, column: Any) -> Any:
        """Return a column as evaluate takes it: texts of ids, whatever they are; None or NaN for what is missing."""
        module: Any = self
        features = module.features if isinstance(module.features, Mapping) else {}
        kind = getattr(features.get(name), "dtype", "")
        if kind in ("string", "large_string"):
            if name not in _MAY_BE_MISSING:
                return [str(value) for value in known_ids(column, name).tolist()]
            return [None if is_missing(value) else str(value) for value in values_of(column)]
        if kind == "float64":
            return numbers(column).tolist()
        is_flat = not features
        return [None if is_flat and is_missing(value) else value for value in values_of(column)]
