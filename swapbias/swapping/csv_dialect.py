"""How a CSV file is written: the sign between its cells, and blanks behind it, by its first lines."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TextIO

_SIGN = re.compile(
    r'"?sep=(?P<sign>\\t|[^"\r\n])"?\s*', re.IGNORECASE
)  # a line that Excel writes and reads
_SIGNS = (";", "\t", "|")


@dataclass(frozen=True, slots=True)
class CsvLines:
    """The lines of a CSV file from its header on, and how they are written."""

    lines: Iterator[str]
    """The lines."""
    delimiter: str
    """The sign between cells."""
    skips_blanks: bool
    """Whether a blank follows each such sign."""


def read_dialect(text: TextIO, delimiter: str, longest: int) -> CsvLines:
    """Read the first lines of a CSV file.

    Args:
        text: the file.
        delimiter: the sign between cells, unless the file says another (``sep=;``) or its header has it never.
        longest: most characters of a line that are looked at.
    """
    header = text.readline(longest)
    sign = _SIGN.fullmatch(header)
    if sign:
        delimiter = "\t" if sign["sign"] == r"\t" else sign["sign"]
        header = text.readline(longest)
    elif len(_cells(header, delimiter)) == 1:
        delimiter = max((delimiter, *_SIGNS), key=lambda other: len(_cells(header, other)))
    cells = _cells(header, delimiter)
    skips_blanks = len(cells) > 1 and all(cell.startswith(" ") for cell in cells[1:])
    return CsvLines(chain([header] if header else [], text), delimiter, skips_blanks)


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, empty where it cannot be read."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
