"""What an `evaluate` module is given: checked, so that a wrong column or option is one sentence."""

import inspect
from typing import Any


class CheckedInputs:
    """Stands before ``evaluate.Metric`` among the bases of a module, and refuses what the module does not take.

    ``evaluate`` itself lets a missing column end in a ``TypeError`` of its own; its ``combine`` gives every module
    the columns and options of all.
    """

    def compute(self, *, predictions: Any = None, references: Any = None, **given: Any) -> Any:
        """As ``evaluate.Metric.compute``.

        Raises:
            ValueError: a column is missing, or something was given that is neither a column nor an option.
        """
        mine: Any = self
        columns = list(mine._feature_names())
        taken = list(inspect.signature(mine._compute).parameters)
        strange = [name for name in given if name not in taken]
        if strange:
            raise ValueError(
                f"{mine.name} takes no {', '.join(strange)}, expected {', '.join(taken)}. Modules of other columns "
                "or options are computed one by one, not by combine()."
            )
        values = {"predictions": predictions, "references": references, **given}
        lacking = [name for name in columns if values.get(name) is None]
        if 0 < len(lacking) < len(columns):
            raise ValueError(
                f"{mine.name} is given no {', '.join(lacking)}, expected {', '.join(columns)}. Add them."
            )
        return super().compute(predictions=predictions, references=references, **given)  # type: ignore[misc]
