"""Read a user's CSV file as programs write it: any sign between cells, Excel's ``sep=``, UTF-16, pandas' index."""

import codecs
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from swapbias.files import not_utf8
from swapbias.studies.csv_dialect import SIGNS, cells_of, encoding_of, named_sign
from swapbias.studies.tables import decoded

if TYPE_CHECKING:
    import pandas as pd

UNNAMED_COLUMN = re.compile(r"(Unnamed: \d+(\.\d+)?(_level_\d+)?)?")


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


def layout_of(name: str, content: bytes, required: Collection[str]) -> Layout:
    """Find how a file is written; where that cannot be seen, the usual way is given, and faults are named later.

    Args:
        name: the name of the file, for errors.
        content: the file.
        required: columns that it must have, by which the sign between cells is known.

    Raises:
        ValueError: it is no text in the encoding in which it begins, or has the character of code 0.
    """
    encoding = encoding_of(content[:4])
    if encoding != "utf-8-sig":
        try:
            content = content.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise not_utf8(name, error) from error
    before, zero, _ = decoded(name, content).partition("\0")
    if zero:
        line = 1 + before.count("\n")
        raise ValueError(f"{name}:{line}: a cell has a character of code 0. Remove it.")
    content = content.removeprefix(codecs.BOM_UTF8)
    first, _, remaining = content.partition(b"\n")
    delimiter = named_sign(_decoded(first))
    skipped = 1 if delimiter else 0
    if skipped:
        content = remaining
    header = _decoded(content.partition(b"\n")[0])
    if not delimiter:
        fitting = (sign for sign in SIGNS if {*required} <= {*_names(header, sign)})
        delimiter = next(fitting, SIGNS[0])
    unnamed = tuple(name for name in _names(header, delimiter) if UNNAMED_COLUMN.fullmatch(name))
    return Layout(content, delimiter, skipped, unnamed)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip("\r")


def _names(header: str, sign: str) -> list[str]:
    return [name.strip() for name in cells_of(header, sign)]


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
