"""Checklists of facts: which facts a note states, and which of them a text made from it still states."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swapbias.studies.tables import read_table

COLUMNS = ("note_id", "fact", "terms")
REGEX = "re:"
_PATTERN = re.compile(r"(?:^|\|)\s*re:.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a text can state.

    Attributes:
        name: what it is called.
        terms: ways to say it, any of which states it: whole words in any case and spacing, or ``re:`` and a pattern.
        note_id: the note that it is looked for in; blank: every note.
    """

    name: str
    terms: tuple[str, ...]
    note_id: str = ""


def read_checklist(path: Path) -> tuple[Fact, ...]:
    """The facts of a table with the columns ``note_id`` (blank: of every note), ``fact`` and ``terms``.

    Terms are joined by bars, and a pattern is the last of them; without any a fact is stated by its own name.

    Raises:
        ValueError: naming the file and the line, for a wrong header, a fact without a name or a broken pattern.
    """
    found = []
    for line, row in enumerate(read_table(path, COLUMNS, optional=("note_id", "terms")), start=2):
        patterns = _PATTERN.search(row["terms"])  # one may hold bars itself
        words = row["terms"][: patterns.start()] if patterns else row["terms"]
        terms = [one.strip() for one in words.split("|")] + ([patterns[0].lstrip("| ")] if patterns else [])
        fact = Fact(row["fact"].strip(), tuple(filter(None, terms)) or (row["fact"].strip(),), row["note_id"].strip())
        try:
            stated([fact], "")
        except (re.error, RecursionError, OverflowError) as error:
            told = f"{path.name}:{line}: a pattern cannot be read ({error})"
            raise ValueError(f"{told}, expected a regular expression after {REGEX} Mend it.") from error
        found.append(fact)
    return tuple(found)


def stated(facts: Iterable[Fact], text: str) -> list[Fact]:
    """Those of the facts that a text states by any of their terms.

    A term is found wherever it stands: "denies chest pain" states chest pain, as a note that says so does.

    >>> facts = [Fact("diabetes", ("type 2 diabetes", "T2DM")), Fact("fall", ("re:f[ae]ll(en)?",))]
    >>> [one.name for one in stated(facts, "Has Type 2  diabetes; FELL at home.")]
    ['diabetes', 'fall']
    """
    return [fact for fact in facts if any(_pattern(term).search(text) for term in fact.terms)]


@cache
def _pattern(term: str) -> re.Pattern[str]:
    if term.startswith(REGEX):
        return re.compile(term.removeprefix(REGEX), re.IGNORECASE)
    words = r"\s+".join(map(re.escape, term.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def facts_of(checklist: Sequence[Fact], note_id: str, texts: Collection[str]) -> list[Fact]:
    """The facts of a note: those that every version of it states, and that are of this note or of all."""
    found = [one for one in checklist if one.note_id in ("", note_id)]
    for text in texts:
        found = stated(found, text)
    return found


def facts_written(facts: Iterable[Fact]) -> str:
    """Facts as the candidates of a prompt; no slash stands in it, which names a lexicon there.

    >>> facts_read(facts_written([Fact("PT/OT", ("PT/OT",))]))
    [Fact(name='PT/OT', terms=('PT/OT',), note_id='')]
    """
    return json.dumps({one.name: one.terms for one in facts}).replace("/", "\\u002f")


def facts_read(candidates: str) -> list[Fact]:
    """The facts that the candidates of a prompt name."""
    read: Mapping[str, Sequence[str]] = json.loads(candidates)
    return [Fact(name, tuple(terms)) for name, terms in read.items()]
