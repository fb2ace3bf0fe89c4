"""Columns that scored rows of many models have alike."""

from typing import Any

import pandas as pd
import pyarrow as pa


class SharedColumns:
    """Makes frames of tables; columns that those of one name have alike are converted and held in memory once."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[pa.Table, pd.DataFrame]] = {}

    def frame(self, table: pa.Table, name: str) -> pd.DataFrame:
        """Return a table for pandas.

        Args:
            table: scored rows.
            name: what the table is of, such as a study; tables of one name may have columns alike.
        """
        address = (name, *table.column_names)
        if address not in self._first:
            self._first[address] = table, _to_pandas(table)
        first, frame = self._first[address]
        if len(first) != len(table):
            return _to_pandas(table)
        different: dict[str, Any] = {
            column: table.column(column).to_pandas()
            for column in table.column_names
            if not table.column(column).equals(first.column(column))
        }
        return frame.assign(**different)


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a table for pandas; texts of Arrow are compared and grouped in twice the time of Python's."""
    frame = table.to_pandas()
    texts = [name for name, kind in frame.dtypes.items() if kind == "str"]
    return frame.astype(dict.fromkeys(texts, object))
