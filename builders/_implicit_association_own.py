"""Lists of one's own for implicit_association: stereotypes with two groups, and words of both sides."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from swapbias.builders._implicit_association_tables import SIDES, Pair, Stereotype
from swapbias.errors import UsageError, listed
from swapbias.studies import read_table

LISTS = "lists.csv"
COLUMNS = ("stereotype", "group A", "group B", "word", "side")
OWN = "own"
"""The domain of lists of one's own."""


def lists_file(folder: Path) -> Path:
    """Return the table of lists in a folder.

    Args:
        folder: the folder, or the table itself.

    Raises:
        UsageError: it has none.
    """
    path = folder if folder.is_file() else folder / LISTS
    if not path.is_file():
        raise UsageError(
            f"{folder.name} has no {LISTS}. Write one with the columns {listed(COLUMNS)}."
        )
    return path


def own_stereotypes(path: Path) -> tuple[Stereotype, ...]:
    """Read lists of one's own. Group A is the default group, group B the stigmatized one.

    A row has a word, its side (positive is the stereotype of group A) and a name of each group. A stereotype whose
    groups have several names repeats its words for each pair of names, or has them in further rows.

    Args:
        path: the table.

    Raises:
        ValueError: another header, a blank cell, an unknown side, a word of both sides, a word in two writings, a
            side without words, two groups of one name, or a name of both groups.
    """
    rows = [
        {column: cell.strip() for column, cell in row.items()} for row in read_table(path, COLUMNS)
    ]
    if not rows:
        raise ValueError(f"{path.name} has no rows. Write a row for each word.")
    for line, row in enumerate(rows, start=2):
        _check_row(f"{path.name}:{line}", row)
    names = dict.fromkeys(row["stereotype"] for row in rows)
    return tuple(
        _stereotype(path.name, name, [row for row in rows if row["stereotype"] == name])
        for name in names
    )


def _plain(text: str) -> str:
    """Write a word or name as answers are compared: in lower case, with each accent in its letter."""
    return unicodedata.normalize("NFC", text).casefold()


def _check_row(where: str, row: dict[str, str]) -> None:
    """Check the side and the groups of a row; ValueError names its line."""
    if row["side"] not in SIDES:
        raise ValueError(
            f"{where}: the side is {row['side']!r}, expected {listed(SIDES)}. Correct it."
        )
    if _plain(row["group A"]) == _plain(row["group B"]):
        raise ValueError(f"{where}: both groups are {row['group A']!r}. Name two groups.")


def _stereotype(table: str, name: str, rows: Sequence[dict[str, str]]) -> Stereotype:
    """Make a stereotype of its rows; ValueError where a side has no words, or a word has both sides."""
    words = {
        side: tuple(dict.fromkeys(row["word"] for row in rows if row["side"] == side))
        for side in SIDES
    }
    for side, of_side in words.items():
        if not of_side:
            raise ValueError(f"{table}: {name} has no {side} word. Write at least one.")
    plain_words = {side: {*map(_plain, of_side)} for side, of_side in words.items()}
    both = [word for word in words["positive"] if _plain(word) in plain_words["negative"]]
    if both:
        raise ValueError(f"{table}: {both[0]!r} of {name} is positive and negative. Keep one side.")
    for side, of_side in words.items():
        if len(plain_words[side]) < len(of_side):
            raise ValueError(
                f"{table}: {name} has a {side} word in two writings, which answers do not distinguish. Keep one."
            )
    pairs = dict.fromkeys((row["group A"], row["group B"]) for row in rows)
    names_of_a, names_of_b = ({*map(_plain, of_group)} for of_group in zip(*pairs, strict=True))
    if names_of_both := sorted(names_of_a & names_of_b):
        raise ValueError(
            f"{table}: {names_of_both[0]!r} names both groups of {name}. Keep it in one of group A and group B."
        )
    return Stereotype(name, OWN, words, tuple(Pair(*pair, *pair) for pair in pairs), {})
