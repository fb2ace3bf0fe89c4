"""How a CSV file is written: its encoding, the sign between its cells, and blanks behind it, by its first lines."""

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TextIO

SIGNS = (",", ";", "\t", "|")
"""Signs that programs write between cells, the most usual first."""
LONGEST = 8 << 20
"""Most bytes of a text that is read."""
_MARKS = {  # that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_PATTERNS: dict[
    tuple[bool, ...], str
] = {  # by which of the first four bytes, the first letters of a header, are 0
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}
_NAMED = re.compile(r'"?sep=(?P<sign>\\t|[^"\r\n])"?\s*', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CsvLines:
    """The lines of a CSV file from its header on, and how they are written."""

    lines: Iterator[str]
    """The lines."""
    delimiter: str
    """The sign between cells."""
    skips_blanks: bool
    """Whether a blank follows each such sign."""


def encoding_of(start: bytes) -> str:
    """Return the encoding of a file: UTF-8 unless its first bytes are those of UTF-16 or UTF-32.

    Args:
        start: four bytes or more, as far as the file has them.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    zeros = tuple(byte == 0 for byte in start[:4])
    return _PATTERNS.get(zeros, "utf-8-sig")


def read_dialect(text: TextIO, delimiter: str, longest: int) -> CsvLines:
    """Read the first lines of a CSV file.

    Args:
        text: the file.
        delimiter: the sign between cells, unless the file says another (``sep=;``) or its header lacks it.
        longest: most characters of a line that are looked at.
    """
    header = text.readline(longest)
    sign = named_sign(header)
    if sign:
        delimiter = sign
        header = text.readline(longest)
    elif len(cells_of(header, delimiter)) == 1:
        delimiter = max((delimiter, *SIGNS), key=lambda other: len(cells_of(header, other)))
    cells = cells_of(header, delimiter)
    skips_blanks = len(cells) > 1 and all(cell.startswith(" ") for cell in cells[1:])
    return CsvLines(chain([header] if header else [], text), delimiter, skips_blanks)


def named_sign(line: str) -> str:
    r"""Return the sign that a first line names, as Excel writes and reads it; blank for any other line.

    >>> named_sign("sep=;\r\n"), named_sign("text;group\r\n")
    (';', '')

    Args:
        line: the first line of a file.
    """
    named = _NAMED.fullmatch(line)
    if named is None:
        return ""
    return "\t" if named["sign"] == r"\t" else named["sign"]


def cells_of(line: str, sign: str) -> list[str]:
    """Return the cells of a line, none where it cannot be read.

    Args:
        line: the line.
        sign: the sign between cells.
    """
    try:
        return next(csv.reader([line], delimiter=sign), [])
    except csv.Error:
        return []
