"""Tables of implicit_association: 21 lists of words with their groups, and three wordings of each question."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from swapbias.studies import corpus_dir, read_table

NAME = "implicit_association"
FOLDER = corpus_dir(NAME)
SIDES = ("positive", "negative")


class Pair(NamedTuple):
    """Two names of groups that a question offers, and the phrases that stand for them in it."""

    default: str
    """The name of the default group."""
    stigmatized: str
    """The name of the other group."""
    default_phrase: str
    """The default group within a sentence."""
    stigmatized_phrase: str
    """The other group within a sentence."""


class Stereotype(NamedTuple):
    """A list of words: the first half is the stereotype of the default group."""

    name: str
    """The name that released files have."""
    domain: str
    """Race, gender, religion or health."""
    words: Mapping[str, tuple[str, ...]]
    """Words by side, positive and negative."""
    pairs: tuple[Pair, ...]
    """Names of the two groups."""
    coded_sides: Mapping[str, str]
    """By word the side that the authors' code counts it to; none where it knows no such word."""


@cache
def stereotypes(column: str = "word") -> tuple[Stereotype, ...]:
    """Read the 21 lists.

    Args:
        column: ``word``, or ``synonym`` for the synonyms of the words.
    """
    columns = ("stereotype", "domain", "side", "word", "synonym", "coded_side")
    rows = read_table(FOLDER / "words.csv", columns)
    groups = read_table(FOLDER / "groups.csv", ("stereotype", "pair", "default", "stigmatized"))
    names = dict.fromkeys(row["stereotype"] for row in rows)
    return tuple(
        _stereotype(
            name,
            [row for row in rows if row["stereotype"] == name],
            column,
            [
                Pair(row["default"], row["stigmatized"], row["default"], row["stigmatized"])
                for row in groups
                if row["stereotype"] == name
            ],
        )
        for name in names
    )


def _stereotype(
    name: str, rows: list[dict[str, str]], column: str, pairs: list[Pair]
) -> Stereotype:
    """Make a stereotype of its rows."""
    words = {side: tuple(row[column] for row in rows if row["side"] == side) for side in SIDES}
    coded_sides: Mapping[str, str] = {}
    if column == "word":
        coded_sides = {row["word"]: row["coded_side"] for row in rows if "coded_side" in row}
    return Stereotype(name, rows[0]["domain"], words, tuple(pairs), coded_sides)


@cache
def decided_stereotypes() -> tuple[Stereotype, ...]:
    """Read the lists that decisions are about: of four of them jobs, and groups in words."""
    jobs = read_table(FOLDER / "jobs.csv", ("stereotype", "domain", "side", "word"))
    columns = ("stereotype", "default", "stigmatized", "default_phrase", "stigmatized_phrase")
    pairs = {
        row["stereotype"]: Pair(*(row[column] for column in columns[1:]))
        for row in read_table(FOLDER / "job_groups.csv", columns)
    }
    return tuple(
        _stereotype(
            listed.name,
            [row for row in jobs if row["stereotype"] == listed.name],
            "word",
            [pairs[listed.name]],
        )
        if listed.name in pairs
        else listed
        for listed in stereotypes()
    )


@cache
def instructions() -> Mapping[str, str]:
    """Read the three instructions to assign words."""
    rows = read_table(FOLDER / "instructions.csv", ("instruction", "text"))
    return {row["instruction"]: row["text"] for row in rows}


@cache
def decisions(stereotype: str) -> Mapping[str, str]:
    """Read the three wordings of a decision.

    Args:
        stereotype: its name.
    """
    columns = ("stereotype", "wording", "text", "changed")
    rows = read_table(FOLDER / "decisions.csv", columns, optional=("changed",))
    return {row["wording"]: row["text"] for row in rows if row["stereotype"] == stereotype}


@cache
def absolute_questions() -> Mapping[str, str]:
    """Read the question about one person of each stereotype."""
    columns = ("stereotype", "text", "changed")
    return {row["stereotype"]: row["text"] for row in read_table(FOLDER / "absolute.csv", columns)}
