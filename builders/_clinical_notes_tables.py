"""The tables that synthetic clinical notes are made of, and their words for the patient in either gender."""

import random
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, TypeAdapter

from swapbias.notes import note_rows
from swapbias.studies import corpus_dir, read_table

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
PLACES = (
    "past",
    "now",
)  # of evidence: what is known of a patient, and what is seen during the stay
SLOT = re.compile(r"\[([A-Za-z_.]+)\]")  # a placeholder such as [**Last Name**] is no slot
# columns with blank cells
_OPTIONAL = ("medication", "form", "excludes", "problem", "youngest", "oldest", "unless", "topics")


def _several(cell: str | frozenset[str]) -> frozenset[str]:
    """Read the words of a cell, joined by bars."""
    return frozenset(filter(None, cell.split("|"))) if isinstance(cell, str) else cell


Several = Annotated[frozenset[str], BeforeValidator(_several)]


@dataclass(frozen=True, slots=True)
class Template:
    """A note with slots: evidence of both places once, and at least four words for the patient.

    ``unless`` names the acute illnesses that such a note is never about.
    """

    name: str
    note_type: str
    text: str
    unless: Several = frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence on a phenotype; those of a note differ in ``topic``, and share a ``form`` where they have any."""

    phenotype: str
    label: str
    topic: str
    place: str
    sentence: str
    form: str = ""
    medication: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """An illness: ages that have it, and words of illnesses or operations that nobody with it has."""

    name: str
    kind: str
    youngest: int
    oldest: int
    excludes: Several = frozenset()

    def fits(self, age: int) -> bool:
        """Tell whether a patient of this age can have it."""
        return self.youngest <= age <= self.oldest

    def rules_out(self, text: str) -> bool:
        """Tell whether nobody with it has the illness or operation of this text."""
        return any(word in text for word in self.excludes)


@dataclass(frozen=True, slots=True)
class Passage:
    """Words that a section may say: ages, problems that it does not stand beside, and topics.

    Passages of a note share no topic: who tells that the mother died has no mother at the bedside. ``gender``: what
    a patient of the other gender cannot have.
    """

    section: str
    text: str
    problem: str = ""
    gender: str = ""
    youngest: int = 0
    oldest: int = 150
    unless: Several = frozenset()
    topics: Several = frozenset()

    def fits(self, age: int, problems: Iterable[str] = ()) -> bool:
        """Tell whether it can be said of a patient of this age with these problems."""
        return self.youngest <= age <= self.oldest and self.unless.isdisjoint(problems)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A vital sign or laboratory value: its range, and its decimals."""

    kind: str
    name: str
    low: float
    high: float
    decimals: int
    problem: str = ""

    def drawn(self, rng: random.Random) -> str:
        """A value as it is written."""
        return f"{self.low + rng.random() * (self.high - self.low):.{self.decimals}f}"


@dataclass(frozen=True)
class NoteTables:
    """The tables that notes are made of."""

    templates: tuple[Template, ...]
    evidence: Mapping[tuple[str, str], tuple[Evidence, ...]]
    """By phenotype, label; (any, uninformative): none."""
    problems: tuple[Problem, ...]
    passages: Mapping[tuple[str, str], tuple[Passage, ...]]
    """By problem, section; a blank problem is any."""
    measurements: tuple[Measurement, ...]
    """Usual ones, with a blank problem, and those of problems."""
    specific: Mapping[str, tuple[Passage, ...]]
    """By gender."""
    words: Mapping[str, Mapping[str, str]]
    """By gender and slot."""

    def texts(self, section: str, problem: str = "") -> list[str]:
        """The passages of a section, of patients of any age."""
        return [passage.text for passage in self.passages.get((problem, section), ())]


@cache
def note_tables() -> NoteTables:
    """The package's tables."""
    words = read_table(corpus_dir(note_rows.NAME) / "gender_words.csv", ("slot", "female", "male"))
    evidence = _read(
        Evidence,
        "evidence",
        "phenotype",
        "label",
        "topic",
        "form",
        "place",
        "sentence",
        "medication",
    )
    passages = _read(
        Passage, "passages", "problem", "section", "youngest", "oldest", "unless", "topics", "text"
    )
    specific = _read(
        Passage, "specific", "gender", "section", "youngest", "oldest", "topics", "text"
    )
    return NoteTables(
        templates=_read(Template, "templates", "name", "note_type", "unless", "text"),
        evidence=_grouped(evidence, lambda sentence: (sentence.phenotype, sentence.label)),
        problems=_read(Problem, "problems", "name", "kind", "youngest", "oldest", "excludes"),
        passages=_grouped(passages, lambda passage: (passage.problem, passage.section)),
        measurements=_read(
            Measurement, "measurements", "problem", "kind", "name", "low", "high", "decimals"
        ),
        specific=_grouped(specific, lambda passage: passage.gender),
        words={
            gender: {row["slot"]: row[gender] for row in words} for gender in ("female", "male")
        },
    )


def _read(kind: type[Value], table: str, *columns: str) -> tuple[Value, ...]:
    """The rows of a table; a blank cell is the default of its field."""
    rows = read_table(corpus_dir(note_rows.NAME) / f"{table}.csv", columns, optional=_OPTIONAL)
    filled = [{name: cell for name, cell in row.items() if cell} for row in rows]
    return TypeAdapter(tuple[kind, ...]).validate_python(filled)


def _grouped(
    values: Iterable[Value], key_of: Callable[[Value], Key]
) -> dict[Key, tuple[Value, ...]]:
    """Give values by a key, in order."""
    by_key: dict[Key, list[Value]] = {}
    for value in values:
        by_key.setdefault(key_of(value), []).append(value)
    return {key: tuple(several) for key, several in by_key.items()}


def pick(remaining: list[Value], rng: random.Random) -> Value:
    """One of the values, taken out of the list.

    Built on ``random()`` alone, whose sequence for a seed Python promises to keep.
    """
    return remaining.pop(int(rng.random() * len(remaining)))


def by_system(texts: Iterable[str]) -> dict[str, list[str]]:
    """Findings by the system that they are of, which stands before a colon."""
    findings: dict[str, list[str]] = {}
    for text in texts:
        system, _, finding = text.partition(": ")
        findings.setdefault(system, []).append(finding)
    return findings


def capital(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


def listed(lines: Iterable[str]) -> str:
    """Lines with their numbers."""
    return "".join(f"\n{number}. {line}" for number, line in enumerate(lines, start=1))


def written_for(gender: str, open_text: str, tables: NoteTables) -> str:
    """The note with its words for the patient in this gender.

    >>> written_for("female", "[Mr.] A cut [himself].", note_tables())
    'Ms. A cut herself.'
    """
    words = tables.words[gender]
    return SLOT.sub(lambda match: words[match.group(1)], open_text)
