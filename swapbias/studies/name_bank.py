"""First names by race and sex, from the shares that the people who bear them reported: chosen by rules, and drawn."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from swapbias.errors import listed, quoted
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.tables import read_table

BANK = "first_names"
"""The corpus whose folder holds the names."""
COLUMNS = ("name", "race", "sex", "race_share", "sex_share", "bearers")
_REQUEST = re.compile(r"names:\s*(.*)", re.IGNORECASE | re.DOTALL)
_FORM = "names: white,female,12"


@dataclass(frozen=True, slots=True)
class NameRules:
    """The least shares and number of bearers that a name must have."""

    race_share: float = 0.8
    """Share of its bearers who reported the race."""
    sex_share: float = 0.95
    """Share of its bearers who reported the sex."""
    bearers: int = 2_000
    """Number of people with the name."""


USUAL_RULES = NameRules()
"""The rules where nobody states others."""


@cache
def _table() -> tuple[dict[str, Any], ...]:
    """Read all names of the folder."""
    rows = read_table(corpus_dir(BANK) / "census_2020.csv", COLUMNS)
    numbers = {"race_share": float, "sex_share": float, "bearers": int}
    return tuple(
        {column: numbers.get(column, str)(cell) for column, cell in row.items()} for row in rows
    )


def named_by(rules: NameRules = USUAL_RULES) -> Iterator[dict[str, Any]]:
    """Yield the names that rules allow, by race and sex, those with most bearers first.

    Args:
        rules: the least shares and bearers.

    Yields:
        Name, race, sex, both shares (0 to 1) and the number of bearers.

    Raises:
        ValueError: rules ask for less than the table has: shares of a half and of .9, and 1,000 bearers.
    """
    if rules.race_share < 0.5 or rules.sex_share < 0.9 or rules.bearers < 1_000:
        raise ValueError(
            "the names have shares of race from 0.5, of sex from 0.9, and 1,000 bearers. Ask for no less."
        )
    for row in _table():
        has_shares = row["race_share"] >= rules.race_share and row["sex_share"] >= rules.sex_share
        if has_shares and row["bearers"] >= rules.bearers:
            yield dict(row)


def draw_names(
    race: str, sex: str, count: int, *, seed: int = 0, rules: NameRules = USUAL_RULES
) -> list[str]:
    """Draw names of a race and sex at random, each at most once.

    Args:
        race: one of the table's, as ``white``.
        sex: ``female`` or ``male``.
        count: the number of names, one at least.
        seed: another one draws other names.
        rules: the least shares and bearers.

    Raises:
        ValueError: there is no such race or sex, or there are fewer names.
    """
    for kind, value in (("race", race), ("sex", sex)):
        known = list(dict.fromkeys(str(row[kind]) for row in _table()))
        if value not in known:
            raise ValueError(f"{kind} is {quoted(value)}, expected one of {listed(known)}.")
    names = [
        str(row["name"]) for row in named_by(rules) if (row["race"], row["sex"]) == (race, sex)
    ]
    if not 1 <= count <= len(names):
        raise ValueError(
            f"{count} names are asked for, expected 1 to {len(names)}, as many as there are of {race} {sex}."
        )
    return random.Random(f"{race} {sex} {seed}").sample(sorted(names), count)


def requested_names(cell: str) -> list[str] | None:
    """Return the names that a cell asks for: ``names: white,female,12``, with a seed behind it or none.

    Args:
        cell: the cell of a table.

    Returns:
        Drawn names; None where the cell asks for none.

    Raises:
        ValueError: the cell is of another form, or there are no such names.
    """
    request = _REQUEST.fullmatch(cell.strip())
    if request is None:
        return None
    parts = [part.strip() for part in request[1].split(",")]
    if len(parts) not in (3, 4) or not all(map(str.isdecimal, parts[2:])):
        raise ValueError(
            f"{quoted(cell)} asks for names, expected race, sex and number as in {quoted(_FORM)}."
        )
    race, sex, count, *seeds = parts
    return draw_names(race.lower(), sex.lower(), int(count), seed=int(seeds[0]) if seeds else 0)


def with_names(
    rows: Sequence[tuple[int, dict[str, str]]],
) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yield rows of slots with their lines; one that asks for names is a row for each name, in a pair of its own.

    Args:
        rows: the lines of rows, and the rows by column.

    Yields:
        Line and row, or line and a sentence on what is wrong with its request.
    """
    for line, row in rows:
        drawn: dict[str, list[str]] = {}
        try:
            for column, cell in row.items():
                names = requested_names(cell)
                if names is not None:
                    drawn[column] = names
        except ValueError as error:
            yield line, f"{error} Correct it."
            continue
        counts = {len(names) for names in drawn.values()}
        if len(counts) > 1:
            yield line, "columns ask for different numbers of names. Ask for as many in each."
            continue
        if not drawn:
            yield line, row
            continue
        for index in range(counts.pop()):
            names_of_row = {column: names[index] for column, names in drawn.items()}
            yield (
                line,
                {**row, **names_of_row, "pair": f"{row.get('pair', '')} {index + 1}".strip()},
            )
