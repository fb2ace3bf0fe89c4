"""Records that are equal where their fields are, NaN to NaN."""

import math
import operator
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from itertools import repeat
from typing import Any, Self


class Record:
    """Equal to another of its class with the same fields, NaN to NaN; for dataclasses with slots and ``eq=False``."""

    __slots__ = ()

    @classmethod
    def of_values(cls, values: Sequence[Any]) -> Self:
        """Return a record of values that were checked; a frozen class takes three times as long to take them by name.

        Args:
            values: of every field in the order of the class.

        Raises:
            ValueError: more or fewer values than fields.
        """
        setters = _setters(cls)  # type: ignore[arg-type]
        if len(values) != len(setters):
            raise ValueError(f"{cls.__name__}: {len(values)} values, expected {len(setters)}.")
        record = cls.__new__(cls)
        # No loop in Python: a run has tens of thousands of records.
        deque(map(operator.call, setters, repeat(record), values), maxlen=0)
        return record

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


@cache
def _setters(of_class: type[Record]) -> list[Callable[[Record, Any], None]]:
    """Return what sets each field of a record, whose slots have no other way past the frozen class."""
    return [getattr(of_class, field.name).__set__ for field in fields(of_class)]  # type: ignore[arg-type]
