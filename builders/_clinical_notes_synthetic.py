"""Synthetic clinical notes with a gender leak of known size, so that the right flip rate is known.

An ordinary note says in its evidence sentences whether the patient has the phenotype. A leak note says
nothing about it, and its label follows gender: leak notes exist only among positives of the favoured gender
and negatives of the other one. Who learns these data perfectly flips exactly the leak notes when the words
for the patient are swapped.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swapbias.builders._clinical_notes_text import (
    Evidence,
    Template,
    draw_evidence,
    draw_open_text,
    note_tables,
    written_for,
)
from swapbias.errors import UsageError
from swapbias.notes import CELLS, NAME, NOTE_COLUMNS, SPLITS, Cell, published_sizes
from swapbias.studies import corpus_dir, read_table

LEAK = "leak"
SENTENCES = 2  # of evidence in each of its two places
OTHER = {"female": "male", "male": "female"}
UNINFORMATIVE = ("any", "uninformative")
T = TypeVar("T")


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
    *, phenotype: str, leak: float = 0.2, seed: int = 0, sizes: Mapping[str, Sequence[int]] | None = None
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

    Raises:
        UsageError: unknown phenotype, a leak outside 0..1, or sizes that are not four counts.
    """
    return _rows(_checked(phenotype, leak, seed, sizes), phenotype, counterfactual=False)


def counterfactual_notes(
    *, phenotype: str, leak: float = 0.2, seed: int = 0, sizes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[dict[str, str]]:
    """The rows of ``synthetic_notes``, in order, with ``gender`` and the words for the patient of the other gender.

    Raises:
        UsageError: as ``synthetic_notes``.
    """
    return _rows(_checked(phenotype, leak, seed, sizes), phenotype, counterfactual=True)


def planted_flip_rate(rows: Iterable[Mapping[str, str]]) -> float:
    """Leak notes / notes of the test split: the flip rate (0..1) of who has learned these data perfectly.

    NaN without a test note.
    """
    test = [row["planted"] == LEAK for row in rows if row["split"] == "test"]
    return sum(test) / len(test) if test else float("nan")


def favoured_gender(phenotype: str) -> str:
    """The gender whose leak notes are positive."""
    table = read_table(corpus_dir(NAME) / "favoured_gender.csv", ("phenotype", "favoured", "source"))
    return next(row["favoured"] for row in table if row["phenotype"] == phenotype)


def _checked(phenotype: str, leak: float, seed: int, sizes: Mapping[str, Sequence[int]] | None) -> Iterator[_Draw]:
    wanted = published_sizes(phenotype)
    if not 0 <= leak <= 1:
        raise UsageError(f"leak is {leak}, expected a share from 0 to 1. Choose another leak.")
    if sizes is not None:  # counts in the order of CELLS
        wanted = {split: dict(zip(CELLS, counts, strict=True)) for split, counts in sizes.items()}
    return _draws(phenotype, leak, f"{seed}/{phenotype}", wanted)


def _rows(draws: Iterable[_Draw], phenotype: str, *, counterfactual: bool) -> Iterator[dict[str, str]]:
    tables = note_tables()
    for number, draw in enumerate(draws):
        gender = OTHER[draw.gender] if counterfactual else draw.gender
        patient = f"{phenotype}-patient-{number:04d}"  # every patient has one note, so that splits share none
        about = (
            phenotype,
            draw.label,
            draw.split,
            draw.template.note_type,
            draw.template.name,
            draw.planted,
            "False",
        )
        cells = (f"{phenotype}-{number:04d}", patient, gender, *about, written_for(gender, draw.open_text, tables))
        yield dict(zip(NOTE_COLUMNS, cells, strict=True))


def _draws(phenotype: str, leak: float, key: str, wanted: Mapping[str, Mapping[Cell, int]]) -> Iterator[_Draw]:
    favoured = favoured_gender(phenotype)
    leaky = {(favoured, "positive"), (OTHER[favoured], "negative")}
    seen: set[str] = set()
    for split in (split for split in SPLITS if split in wanted):
        notes: list[_Draw] = []
        for cell in CELLS:
            count = wanted[split][cell]
            leaks = round(leak * count) if cell in leaky else 0
            notes += _cell(phenotype, split, cell, count, leaks, f"{key}/{split}", seen)
        yield from _shuffled(notes, random.Random(f"{key}/{split}/order"))


def _cell(
    phenotype: str, split: str, cell: Cell, count: int, leaks: int, key: str, seen: set[str]
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
        yield _Draw(split, gender, label, planted, template, _unseen(template, evidence, gender, note, seen))


def _unseen(template: Template, evidence: Sequence[Evidence], gender: str, key: str, seen: set[str]) -> str:
    """An open text that no note has yet; equal ones are as good as impossible, and drawn again."""
    text, attempt = "", 0
    while not text or text in seen:
        text = draw_open_text(template, evidence, gender, note_tables(), random.Random(f"{key}/{attempt}/patient"))
        attempt += 1
    seen.add(text)
    return text


def _shuffled(values: Iterable[T], rng: random.Random) -> list[T]:
    return [value for _, value in sorted(((rng.random(), value) for value in values), key=lambda pair: pair[0])]
