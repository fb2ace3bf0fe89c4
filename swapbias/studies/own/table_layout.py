"""Read a user's CSV file as programs write it: with tabs, Excel's first line ``sep=``, UTF-16, pandas' index."""

import codecs
import csv
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

_SEPARATOR = re.compile(rb'"?sep=(.)"?\r?\n')
UNNAMED_COLUMN = re.compile(r"(Unnamed: \d+(\.\d+)?(_level_\d+)?)?")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Layout(NamedTuple):
    """The way in which the rows of a file are written."""

    content: bytes
    """The file in UTF-8, the header first."""
    delimiter: str
    """The letter between cells."""
    skipped: int
    """Lines before the header."""
    unnamed: tuple[str, ...]
    """Columns without a name of their own."""


def layout_of(content: bytes, required: Collection[str]) -> Layout:
    """Find how a file is written; where that cannot be seen, the usual way is given, and faults are named later.

    Args:
        content: the file.
        required: columns that it must have, by which tabs between cells are known.
    """
    if content.startswith(_UTF_16):
        content = content.decode("utf-16", "replace").encode()
    content = content.removeprefix(codecs.BOM_UTF8)
    delimiter = ","
    skipped = 0
    if separator := _SEPARATOR.match(content):
        delimiter = separator[1].decode("ascii", "replace")
        skipped = 1
        content = content[separator.end() :]
    first = content.partition(b"\n")[0].decode("utf-8", "replace").strip("\r")
    needed = set(required)
    has_tabs = needed.issubset(_cells(first, "\t")) and not needed.issubset(_cells(first, ","))
    if has_tabs and not skipped:
        delimiter = "\t"
    header = _cells(first, delimiter)
    unnamed = tuple(name for name in header if UNNAMED_COLUMN.fullmatch(name))
    return Layout(content, delimiter, skipped, unnamed)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def without_index(
    table: "pd.DataFrame", unnamed: Sequence[str]
) -> "tuple[pd.DataFrame, list[str]]":
    """Take out columns without a name that hold nothing, or the numbers of rows.

    Args:
        table: a table of texts.
        unnamed: the columns without a name.

    Returns:
        The table without these columns, and a sentence for each that holds something else.
    """
    faults: list[str] = []
    for name in dict.fromkeys(unnamed):
        if name in table and not table[name].str.fullmatch(r"\d*").all():
            faults.append(
                "a column has no name. Name it, or write the file without the index (index=False)."
            )
    return table.drop(columns=[name for name in unnamed if name in table]), faults
