"""Training and test notes that share no subject, as many of each gender and label as the published study had."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from swapbias.notes.rows import SPLITS, Cell

Sizes = Mapping[str, Mapping[Cell, int]]


def affordable(available: Mapping[Cell, int], wanted: Sizes) -> dict[str, dict[Cell, int]]:
    """The sizes wanted; where a cell has too few notes, training and test shrink in proportion.

    >>> cell = ("male", "positive")
    >>> affordable({cell: 9}, {"train": {cell: 20}, "test": {cell: 10}})
    {'train': {('male', 'positive'): 6}, 'test': {('male', 'positive'): 3}}
    """
    train, test = (dict(wanted[split]) for split in SPLITS)
    for cell in train:
        total, there = train[cell] + test[cell], available.get(cell, 0)
        if there < total:
            train[cell] = round(there * train[cell] / total)
            test[cell] = there - train[cell]
    return {"train": train, "test": test}


def split_notes(rows: Sequence[Mapping[str, str]], wanted: Sizes, *, seed: str) -> list[dict[str, str]]:
    """The rows that fit, each with its ``split``; training first.

    Subjects come in a random order; all notes of one go where more of them are still wanted, then where the
    larger share is. What is too many there is left out, so that a cell can stay short where its subjects have
    several notes.
    """
    left = affordable(Counter(_cell(row) for row in rows), wanted)
    start = {split: dict(cells) for split, cells in left.items()}
    subjects: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        subjects.setdefault(row["subject_id"], []).append(row)
    order = sorted(subjects)
    random.Random(f"{seed}/subjects").shuffle(order)
    kept: dict[str, list[dict[str, str]]] = {split: [] for split in SPLITS}
    for subject in order:
        notes = subjects[subject]
        split = max(SPLITS, key=lambda name: _need(notes, left[name], start[name]))
        for row in notes:
            if left[split].get(_cell(row), 0) > 0:
                left[split][_cell(row)] -= 1
                kept[split].append({**row, "split": split})
    return [row for split in SPLITS for row in kept[split]]


def _cell(row: Mapping[str, str]) -> Cell:
    return row["gender"], row["label"]


def _need(
    notes: Sequence[Mapping[str, str]], left: Mapping[Cell, int], start: Mapping[Cell, int]
) -> tuple[int, float]:
    """How many of the notes a split can take, then the share of its cells that is still open."""
    cells = Counter(_cell(row) for row in notes)
    fits = sum(min(count, left.get(cell, 0)) for cell, count in cells.items())
    places = sum(start.get(cell, 0) for cell in cells)
    return fits, sum(left.get(cell, 0) for cell in cells) / places if places else 0.0
