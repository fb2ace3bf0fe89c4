"""Read checklists of facts, and find those that a text states."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from swapbias.studies.tables import read_table


class Fact(NamedTuple):
    """Something that a text can state by any of its terms: whole words in any case."""

    name: str
    """The name of the fact."""
    terms: tuple[str, ...]
    """Words that state it."""
    note_id: str = ""
    """The note that it is about; blank: every note."""


def read_checklist(path: Path) -> tuple[Fact, ...]:
    """Read the facts of a table: ``note_id``, ``fact``, and ``terms`` with bars between (blank: the fact itself).

    Args:
        path: the path of the table.

    Raises:
        ValueError: the table has a fault.
    """
    facts: list[Fact] = []
    for row in read_table(path, ("note_id", "fact", "terms"), optional=("note_id", "terms")):
        name = row["fact"].strip()
        terms = tuple(term.strip() for term in row["terms"].split("|") if term.strip())
        facts.append(Fact(name, terms or (name,), row["note_id"].strip()))
    return tuple(facts)


def stated(facts: Iterable[Fact], text: str) -> list[Fact]:
    """List those of the facts that a text states by any of their terms, denied ("denies chest pain") or not.

    Args:
        facts: facts to look for.
        text: the text of a note or an answer.
    """
    return [fact for fact in facts if any(_pattern(term).search(text) for term in fact.terms)]


@cache
def _pattern(term: str) -> re.Pattern[str]:
    """Give a pattern of a term as whole words in any case."""
    words = r"\s+".join(map(re.escape, term.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def facts_of(checklist: Sequence[Fact], note_id: str, texts: Collection[str]) -> list[Fact]:
    """List the facts of a note: those that every version of it states, and that are of this note or of all.

    Args:
        checklist: facts of all notes.
        note_id: the id of the note.
        texts: its versions.
    """
    return [
        fact
        for fact in checklist
        if fact.note_id in ("", note_id) and all(stated([fact], text) for text in texts)
    ]
