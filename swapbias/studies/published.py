"""Read the numbers that papers printed, each with what it is: printed, a bound, or only recomputed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.tables import header_fault, table_name, table_rows

KEY = ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value")
QUANTITIES = ("value", "p_value", "effect_size")
PRINTED = "printed"
RECOMPUTED = "recomputed"
BOUND = "bound"
ORIGINS = (PRINTED, RECOMPUTED, BOUND)
_BOUNDS = ("<", ">")
# sources of numbers that a calibration model or notes hold
PLANTED_BIAS = "planted"
PLANTED_LEAK = "planted leak"


@dataclass(frozen=True, slots=True)
class Published:
    """A number to compare a finding with: a paper's, with the decimals that it prints, or a planted one."""

    value: str = ""
    """The number, with its decimals."""
    p_value: str = ""
    """The printed p-value; blank where none is printed."""
    effect_size: str = ""
    """The printed effect size; blank where none is printed."""
    source: str = ""
    """The table or sentence that prints it."""
    note: str = ""
    """A note on why the authors' own release disagrees with what they print."""
    recomputed: str = ""
    """The released value."""
    value_origin: str = ""
    """Where the number is from: ``printed``, ``recomputed`` (nobody prints it: it follows from released outputs) or
    ``bound`` (printed as ``<0.01``); blank of a planted number."""
    p_value_origin: str = ""
    """Where the p-value is from, as for the number; blank where there is none."""
    effect_size_origin: str = ""
    """Where the effect size is from, as for the number; blank where there is none."""

    @property
    def planted(self) -> bool:
        """True where it is the size of a bias that was planted, and no paper's."""
        return self.source in (PLANTED_BIAS, PLANTED_LEAK)

    @property
    def is_recomputed(self) -> bool:
        """True where nobody prints some of its numbers."""
        return RECOMPUTED in (self.value_origin, self.p_value_origin, self.effect_size_origin)


class ReleasedNumber(NamedTuple):
    """A number that released outputs give without scored rows, by the key of ``published.csv``."""

    subset: str
    """The part of the outputs; blank for all of them."""
    measure: str
    """The measure."""
    contrast: str
    """What is compared, or counted."""
    value: float
    """The number."""
    slice_by: str = "all"
    """The slice; ``all`` for none."""
    slice_value: str = ""
    """The value of the slice."""


_COLUMNS = ("model", *KEY, *QUANTITIES, "source", "note", "recomputed", "origin")
_REQUIRED = ("model", "experiment", "measure", "contrast", "source", "origin")


def published_rows(study: str) -> list[dict[str, str]]:
    """Read the paper's numbers, as printed: texts keep their decimals.

    Args:
        study: its name.

    Returns:
        A row each; nothing where a study lists none.

    Raises:
        ValueError: another header, a blank cell, an unknown origin, or a cell that is no number.
    """
    table = corpus_dir(study) / "published.csv"
    if not table.exists():
        return []
    return [dict(row) for row in _checked_rows(table_name(table), table.read_bytes())]


@lru_cache(maxsize=16)  # each audited model asks for the rows of its study
def _checked_rows(name: str, content: bytes) -> list[dict[str, str]]:
    """Return the rows of a ``published.csv``; ValueError with file and line where one is wrong."""

    def header_faults(header: list[str]) -> Iterator[str]:
        if header != list(_COLUMNS):
            yield header_fault(header, _COLUMNS)

    rows = []
    may_be_blank = {*_COLUMNS} - {*_REQUIRED}
    for line, row, faults in table_rows(name, content, header_faults, optional=may_be_blank):
        for fault in faults or _row_faults(row):
            raise ValueError(f"{name}:{line}: {fault}")
        rows.append(row)
    return rows


def _row_faults(row: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the origin and the numbers of a row."""
    origin = row["origin"]
    if origin not in ORIGINS:
        yield f"origin {origin!r}, expected one of {', '.join(ORIGINS)}. Fix the cell."
        return
    for quantity in QUANTITIES:
        cell = row[quantity]
        if not cell:
            continue
        if cell.startswith(_BOUNDS) != (origin == BOUND):
            yield (
                f"{quantity} {cell!r} of origin {origin}. "
                "Begin a bound with < or >, and give it the origin bound."
            )
        try:
            Decimal(cell.removeprefix("<").removeprefix(">"))
        except InvalidOperation:
            yield f"{quantity} {cell!r}, expected a decimal number. Fix the cell."
