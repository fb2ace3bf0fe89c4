"""Synthetic clinical notes with a gender leak of known size, so that the right flip rate is known.

An ordinary note says in its evidence sentences whether the patient has the phenotype. A leak note says
nothing about it, and its label follows gender: leak notes exist only among positives of the favoured gender
and negatives of the other one. Who learns these data perfectly flips exactly the leak notes when the words
for the patient are swapped.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swapbias.builders._clinical_notes_tables import (
    PLACES,
    SLOT,
    Evidence,
    NoteTables,
    Template,
    note_tables,
    pick,
    written_for,
)
from swapbias.builders._clinical_notes_text import SECTIONS, Patient
from swapbias.errors import UsageError
from swapbias.notes import note_rows
from swapbias.studies import corpus_dir, read_table

LEAK = "leak"
SENTENCES = 2  # of evidence in each of its two places
OTHER = {"female": "male", "male": "female"}
UNINFORMATIVE = ("any", "uninformative")
T = TypeVar("T")
_VOWEL = re.compile(r"\b([Aa])(?= (?:8|11\b|18\b))")  # a 79-year-old, an 80-year-old


@dataclass(frozen=True, slots=True)
class _Draw:
    """A note whose words for the patient are still open."""

    split: str
    gender: str
    label: str
    planted: str
    template: Template
    open_text: str


def synthetic_notes(
    *,
    phenotype: str,
    leak: float = 0.2,
    seed: int = 0,
    sizes: Mapping[str, Sequence[int]] | None = None,
    counterfactual: bool = False,
) -> Iterator[dict[str, str]]:
    """Note rows of one phenotype, training split first, in a random order within each split.

    The same arguments give the same rows on every machine. A larger ``leak`` adds leak notes and changes
    nothing but the evidence of those that turn into one. No two notes are equal, nor is one the counterfactual
    of another.

    Args:
        phenotype: one of ``PHENOTYPES``.
        leak: share of the notes that are leak notes, among positives of the favoured gender and among negatives
            of the other one; 0 means none, and then the right flip rate is 0.
        seed: of every draw.
        sizes: notes per split: female positive, male positive, female negative, male negative. By default
            those of the published study. A split that is not named has no notes.
        counterfactual: ``gender`` and the words for the patient are of the other gender.

    Raises:
        UsageError: unknown phenotype, a leak outside 0..1, or sizes that are not four counts.
    """
    wanted = note_rows.published_sizes(phenotype)
    if not 0 <= leak <= 1:
        raise UsageError(f"leak is {leak}, expected a share from 0 to 1. Choose another leak.")
    if sizes is not None:  # counts in the order of CELLS
        wanted = {
            split: dict(zip(note_rows.CELLS, counts, strict=True))
            for split, counts in sizes.items()
        }
    return _rows(
        _draws(phenotype, leak, f"{seed}/{phenotype}", wanted),
        phenotype,
        counterfactual=counterfactual,
    )


def favoured_gender(phenotype: str) -> str:
    """The gender whose leak notes are positive."""
    table = read_table(
        corpus_dir(note_rows.NAME) / "favoured_gender.csv", ("phenotype", "favoured", "source")
    )
    return next(row["favoured"] for row in table if row["phenotype"] == phenotype)


def _rows(
    draws: Iterable[_Draw], phenotype: str, *, counterfactual: bool
) -> Iterator[dict[str, str]]:
    tables = note_tables()
    for number, draw in enumerate(draws):
        gender = OTHER[draw.gender] if counterfactual else draw.gender
        patient = f"{phenotype}-patient-{number:04d}"  # every patient has one note, so that splits share none
        template = draw.template
        text = written_for(gender, draw.open_text, tables)
        about = (
            phenotype,
            draw.label,
            draw.split,
            template.note_type,
            template.name,
            draw.planted,
            "False",
        )
        cells = (f"{phenotype}-{number:04d}", patient, gender, *about, text)
        yield dict(zip(note_rows.NOTE_COLUMNS, cells, strict=True))


def _draws(
    phenotype: str, leak: float, key: str, wanted: Mapping[str, Mapping[note_rows.Cell, int]]
) -> Iterator[_Draw]:
    favoured = favoured_gender(phenotype)
    leaky = {(favoured, "positive"), (OTHER[favoured], "negative")}
    seen: set[str] = set()
    for split in (split for split in note_rows.SPLITS if split in wanted):
        notes: list[_Draw] = []
        for cell in note_rows.CELLS:
            count = wanted[split][cell]
            leaks = round(leak * count) if cell in leaky else 0
            notes += _cell(phenotype, split, cell, count, leaks, f"{key}/{split}", seen)
        yield from _shuffled(notes, random.Random(f"{key}/{split}/order"))


def _cell(
    phenotype: str,
    split: str,
    cell: note_rows.Cell,
    count: int,
    leaks: int,
    key: str,
    seen: set[str],
) -> Iterator[_Draw]:
    """The notes of one split, gender and label.

    Templates take turns in one order for the whole split, and the leak notes of both cells share their evidence:
    then neither goes with a label, and gender is all that tells leak notes apart.
    """
    gender, label = cell
    tables = note_tables()
    order = _shuffled(tables.templates, random.Random(f"{key}/templates"))
    for index in range(count):
        planted = LEAK if index < leaks else ""
        pool = tables.evidence[UNINFORMATIVE if planted else (phenotype, label)]
        note = f"{key}/{gender}/{label}/{index}"
        rng = random.Random(f"{key}/{LEAK}/{index}/evidence" if planted else f"{note}/evidence")
        evidence = draw_evidence(pool, SENTENCES, rng)
        template = order[index % len(order)]
        yield _Draw(
            split, gender, label, planted, template, _unseen(template, evidence, gender, note, seen)
        )


def _unseen(
    template: Template, evidence: Sequence[Evidence], gender: str, key: str, seen: set[str]
) -> str:
    """An open text that no note has yet; equal ones are as good as impossible, and drawn again."""
    text = ""
    attempt = 0
    while not text or text in seen:
        text = draw_open_text(
            template, evidence, gender, note_tables(), random.Random(f"{key}/{attempt}/patient")
        )
        attempt += 1
    seen.add(text)
    return text


def draw_evidence(pool: Sequence[Evidence], count: int, rng: random.Random) -> list[Evidence]:
    """Draw as many sentences of each place, of different topics, and of one form where they have any."""
    chosen: list[Evidence] = []
    for stage in PLACES:
        for _ in range(count):
            forms = {evidence.form for evidence in chosen if evidence.form}
            topics = {evidence.topic for evidence in chosen}
            fitting = [
                evidence
                for evidence in pool
                if evidence.place == stage
                and evidence.topic not in topics
                and (not evidence.form or not forms or evidence.form in forms)
            ]
            chosen.append(pick(fitting, rng))
    return chosen


def draw_open_text(
    template: Template,
    evidence: Sequence[Evidence],
    gender: str,
    tables: NoteTables,
    rng: random.Random,
) -> str:
    """Draw a patient's story into the template, evidence in place, the words for the patient still open."""
    patient = Patient(gender, tables, rng, unless=template.unless)
    patient.medications = tuple(sentence.medication for sentence in evidence if sentence.medication)

    def value(match: re.Match[str]) -> str:
        slot = match.group(1)
        if slot.startswith("evidence."):
            stage = slot.removeprefix("evidence.")
            return " ".join(part.sentence for part in evidence if part.place == stage)
        return patient.value_of(slot) if slot in SECTIONS else match.group(0)

    filled = SLOT.sub(value, template.text)
    lines = [" ".join(line.split()) for line in filled.split("\n")]
    return _VOWEL.sub(r"\1n", "\n".join(lines).strip())


def _shuffled(values: Iterable[T], rng: random.Random) -> list[T]:
    """Give values in a random order."""
    keyed = [(rng.random(), value) for value in values]
    return [value for _, value in sorted(keyed, key=lambda pair: pair[0])]
