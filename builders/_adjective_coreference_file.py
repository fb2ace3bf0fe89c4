"""Read adjectives of the user's own from a file: a table of pairs and single ones, or a list of words."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from swapbias.builders._adjective_coreference_sentences import GENDERS, ORIGINS, Condition
from swapbias.errors import UsageError, quoted
from swapbias.studies import tables

CONDITION = "condition"
NOBODY = "-"
"""Stands in the name of a condition for the occupation that has no adjective."""
_BASELINE: Condition = {CONDITION: "baseline", "male": "", "female": ""}
_COLUMNS = (CONDITION, *GENDERS)
_ADJECTIVE = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_LONGEST = 40  # letters of an adjective


def read_adjectives(path: Path) -> list[Condition]:
    """Read the conditions of a file: no adjectives, then those of its lines.

    A table has the columns ``male`` and ``female``, the adjective before the occupation of that stereotype, one of
    them blank for a single adjective; a column ``condition`` may name the two, with ``/`` between, and the columns of
    origins, which the study's own table has, are not read. A list has one
    adjective a line, which stands once before the occupation of each stereotype, so that it gives two conditions.

    Args:
        path: the path of the file, in UTF-8.

    Raises:
        UsageError: there is no such file, or it has no adjectives.
        ValueError: a line is neither; the error names file and line.
    """
    if not path.is_file():
        raise UsageError(
            f"{path} does not exist, expected a file of adjectives: one a line, or columns male and female."
        )
    name = path.name
    content = path.read_bytes()
    lines: Callable[[str, bytes], Iterable[tuple[int, Condition]]] = _read_list
    first = tables.decoded(name, content).partition("\n")[0]
    if "," in first or first.strip() in GENDERS:
        lines = _read_columns
    conditions = [_BASELINE]
    line_of = {("", ""): 0}
    for line, condition in lines(name, content):
        _refuse_repeated(name, line, condition, line_of)
        conditions.append(condition)
    if len(conditions) == 1:
        raise UsageError(f"{name} has no adjectives. Write one a line, or columns male and female.")
    return conditions


def _refuse_repeated(
    name: str, line: int, condition: Condition, line_of: dict[tuple[str, str], int]
) -> None:
    """Refuse adjectives that stand on an earlier line, which is looked up in ``line_of``."""
    adjectives = (condition["male"].lower(), condition["female"].lower())
    earlier = line_of.setdefault(adjectives, line)
    if earlier != line:
        raise ValueError(
            f"{name}:{line}: the adjectives of line {earlier} stand here again. Remove one of the two lines."
        )


def _read_list(name: str, content: bytes) -> Iterator[tuple[int, Condition]]:
    """Yield the two conditions of each line that is not blank, with the number of the line."""
    lines = tables.decoded(name, content).splitlines()
    for line, text in enumerate(lines, start=1):
        adjective = text.strip()
        if adjective:
            _check_adjective(name, line, adjective)
            for gender in GENDERS:
                yield line, _named({other: adjective * (other == gender) for other in GENDERS})


def _read_columns(name: str, content: bytes) -> Iterator[tuple[int, Condition]]:
    """Yield the condition of each row, with the number of its line; a row without adjectives is the baseline's."""
    for line, row, faults in tables.table_rows(
        name, content, _header_faults, optional=(*_COLUMNS, *ORIGINS)
    ):
        if faults:
            raise ValueError(f"{name}:{line}: {faults[0]}")
        cells = {column: row.get(column, "").strip() for column in _COLUMNS}
        adjectives = {gender: cells[gender] for gender in GENDERS}
        if not any(adjectives.values()):
            _check_baseline(name, line, cells[CONDITION])
            continue
        for adjective in filter(None, adjectives.values()):
            _check_adjective(name, line, adjective)
        condition = _named(adjectives)
        if cells[CONDITION]:
            _check_condition(name, line, cells[CONDITION], adjectives)
            condition[CONDITION] = cells[CONDITION]
        yield line, condition


def _header_faults(header: list[str]) -> Iterator[str]:
    """Say what is wrong with the columns of a table."""
    is_complete = set(GENDERS) <= set(header) <= {*_COLUMNS, *ORIGINS}
    if not is_complete or len(set(header)) < len(header):
        yield (
            f"columns {tables.shown_names(header)}, expected male and female, with or without condition. "
            "Fix the header, or write one adjective a line."
        )


def _named(adjectives: Mapping[str, str]) -> Condition:
    """Return a condition that is named by its adjectives."""
    name = "/".join(adjectives[gender] or NOBODY for gender in GENDERS)
    return {CONDITION: name, **adjectives}


def _check_adjective(name: str, line: int, adjective: str) -> None:
    """Refuse what is no single word."""
    if len(adjective) > _LONGEST or not _ADJECTIVE.fullmatch(adjective):
        raise ValueError(
            f"{name}:{line}: {quoted(adjective)} is no adjective, expected one word of letters, with hyphens or not. "
            "Correct it."
        )


def _check_condition(name: str, line: int, condition: str, adjectives: Mapping[str, str]) -> None:
    """Refuse a name that does not say the adjectives: answers are read with the adjectives that it has."""
    words = [part for part in condition.split("/") if part != NOBODY]
    if words != [adjectives[gender] for gender in GENDERS if adjectives[gender]]:
        expected = _named(adjectives)[CONDITION]
        raise ValueError(
            f"{name}:{line}: condition is {quoted(condition)}, expected {quoted(expected)}. Correct it, or leave "
            "it blank."
        )


def _check_baseline(name: str, line: int, condition: str) -> None:
    """Refuse a row without adjectives, except one that says it is the baseline."""
    if condition != _BASELINE[CONDITION]:
        raise ValueError(
            f"{name}:{line}: no adjective stands here, expected one or two. Fill male or female in."
        )
