"""Tell whether a letter stands in a column of genders of a table that is written inside a text."""

from swapbias.swapping.rule_tables import pattern

REACH = 1200
"""Bytes before a letter in which the heading of its column is looked for."""


def in_sex_column(before: str, after: str) -> bool:
    """Tell whether a letter is a cell of a column that is headed by a word for gender.

    >>> in_sex_column("| Sex | Age |\\n| --- | --- |\\n| ", " | 44 |"), in_sex_column("Name,Sex\\n", ",F")
    (True, False)

    Args:
        before: the text before the letter.
        after: the text after it.
    """
    *lines, row = before.split("\n")
    if (
        not lines
        or not pattern("cell_begins").search(row)
        or not pattern("cell_closes").match(after)
    ):
        return False
    for separator in ("|", "\t", ";", ","):
        if separator in row or after.lstrip(" ").startswith(separator):
            column = row.count(separator)
            return any(_heads(_cell(line, separator, column)) for line in _above(lines, separator))
    start = len(row)
    return any(_heads(line[start:].split("  ")[0]) for line in _above(lines, "  "))


def _above(lines: list[str], separator: str) -> list[str]:
    """Return the lines of the table above a row, the lowest first: they hold its separator without a gap."""
    table = []
    for line in reversed(lines):
        if separator not in line:
            break
        table.append(line)
    return table


def _cell(line: str, separator: str, column: int) -> str:
    cells = line.split(separator)
    return cells[column] if column < len(cells) else ""


def _heads(cell: str) -> bool:
    """Tell whether a cell is the heading of a column of genders."""
    return pattern("sex_heading").fullmatch(cell.strip(" \t\"'*_\r")) is not None
