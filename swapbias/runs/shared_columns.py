"""Columns that scored rows of many models have alike."""

import pandas as pd
import pyarrow as pa


class SharedColumns:
    """Makes frames of tables that share columns: those that are the same are converted and held in memory once."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[pa.ChunkedArray, pd.Series[object]]] = {}

    def frame(self, table: pa.Table, name: str) -> pd.DataFrame:
        """Return a table for pandas.

        Args:
            table: scored rows.
            name: what the table is of, such as a study; tables of one name may have columns alike.
        """
        alike: dict[str, pd.Series[object]] = {}
        for column in table.column_names:
            address = f"{name}/{column}"
            content = table.column(column)
            if address not in self._first:
                self._first[address] = content, _to_pandas(content)
            first, series = self._first[address]
            if first.equals(content):
                alike[column] = series
        different = table.drop_columns([*alike]).to_pandas()
        return pd.DataFrame(
            {column: alike.get(column, different.get(column)) for column in table.column_names},
            copy=False,
        )


def _to_pandas(content: pa.ChunkedArray) -> "pd.Series[object]":
    """Return a column for pandas; texts of Arrow are compared and grouped in twice the time of Python's."""
    series = content.to_pandas()
    return series.astype(object) if series.dtype == "str" else series
