"""Genders as columns write them: whose they are, and what is no gender."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from swapbias.errors import UsageError
from swapbias.swapping.folding import Ints

# A letter alone is a code too: W of weiblich.
_CODE = re.compile(r"[-+]?\d+(\.\d+)?|true|false|yes|no|[^\W\d_]")
_SIDES = {"male": 0, "m": 0, "man": 0, "boy": 0, "female": 1, "f": 1, "woman": 1, "girl": 1}
_UNKNOWN = frozenset((
    "", "unknown", "unk", "u", "none", "n/a", "na", "nan", "null", "not known", "not stated", "not specified",
    "unspecified", "prefer not to say", "?", "-",
))  # fmt: skip
NEITHER_WORDS = _UNKNOWN | {
    "other", "o", "x", "nb", "nonbinary", "non-binary", "intersex", "undetermined", "indeterminate", "ambiguous",
    "neither",
}  # fmt: skip
"""Cells, in lower case, that name neither female nor male; a blank one among them."""


def check_genders(values: Sequence[Any], column: str) -> None:
    """Refuse a column of patients' genders that holds codes, or no gender at all: it would be ignored.

    Args:
        values: cells of the column.
        column: its name.

    Raises:
        UsageError: which column, and what it must hold; a value is repeated where it is a number.
    """
    # NaN, which is not equal to itself, is a missing value.
    kept = {str(value).strip().lower() for value in values if value is not None and value == value}
    strange = kept - NEITHER_WORDS - _SIDES.keys()
    codes = sorted(value for value in strange if _CODE.fullmatch(value))
    step = "Write these words in it, or name another column with --gender."
    if codes:
        raise UsageError(
            f"Column {column!r} contains the code {codes[0]}, expected female or male (or F, M). {step}"
        )
    if strange and not kept & _SIDES.keys():
        raise UsageError(
            f"Column {column!r} contains other words than female and male (or F, M). {step}"
        )


def is_unknown(value: str) -> bool:
    """Tell whether a cell of a column about people says that nothing is known of somebody.

    >>> is_unknown("Not stated"), is_unknown("other")
    (True, False)

    Args:
        value: the cell.
    """
    return value.strip().lower() in _UNKNOWN


def sides_of(genders: Sequence[str | None] | None, rows: int) -> Ints:
    """Return the side of each patient: 0 male, 1 female, -1 not known, (rows,).

    Args:
        genders: the gender of each patient as it is written; None: none is known.
        rows: the number of patients.

    Raises:
        ValueError: not as many genders.
    """
    if genders is None:
        return np.full(rows, -1)
    if isinstance(genders, str) or len(genders) != rows:
        raise ValueError(
            f"{len(genders)} genders for {rows} texts, expected one for each. Give as many."
        )
    sides = [_SIDES.get(str(gender or "").strip().lower(), -1) for gender in genders]
    return np.array(sides, dtype=np.int64)
