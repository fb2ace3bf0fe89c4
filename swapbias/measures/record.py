"""Records that are equal where their fields are, NaN to NaN."""

import math
from dataclasses import fields
from typing import Any


class Record:
    """Equal to another of its class with the same fields, NaN to NaN; for dataclasses with ``eq=False``."""

    __slots__ = ()

    def __eq__(self, record: object) -> bool:
        if self is record:
            return True
        return (
            isinstance(record, Record)
            and type(self) is type(record)
            and self._values() == record._values()
        )

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def _values(self) -> tuple[Any, ...]:
        """Return the fields, one text standing for every NaN, which Python distinguishes since 3.13."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return tuple(
            "NaN" if isinstance(value, float) and math.isnan(value) else value for value in values
        )
