"""Split labelled notes of MIMIC into training and test by subject, in the sizes of the published study."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from swapbias.notes.note_rows import NOTE_COLUMNS, PHENOTYPES, SPLITS, Cell, published_sizes

Labels = Mapping[str, str]  # positive or negative by phenotype; what is undecided is left out
Sizes = Mapping[str, Mapping[Cell, int]]


def affordable_sizes(available: Mapping[Cell, int], wanted: Sizes) -> dict[str, dict[Cell, int]]:
    """Return sizes that notes suffice for.

    Args:
        available: numbers of notes by gender and label.
        wanted: numbers of notes by split and by gender and label.

    Returns:
        The sizes wanted; where a cell has too few notes, training and test shrink in proportion.
    """
    train, test = (dict(wanted[split]) for split in SPLITS)
    for cell in train:
        total = train[cell] + test[cell]
        count = available.get(cell, 0)
        if count < total:
            train[cell] = round(count * train[cell] / total)
            test[cell] = count - train[cell]
    return {"train": train, "test": test}


def split_notes(
    rows: Sequence[Mapping[str, str]], wanted: Sizes, *, seed: str
) -> list[dict[str, str]]:
    """Return the rows that fit the sizes wanted, split by subject.

    Subjects come in a random order; all notes of one go where more of them are still wanted, then where the
    larger share is. What is too many there is dropped, so that a cell can stay short where its subjects have
    several notes.

    Args:
        rows: labelled note rows of one phenotype.
        wanted: numbers of notes by split and by gender and label.
        seed: seed of the order of subjects.

    Returns:
        Rows with their ``split``, training first.
    """
    sizes = affordable_sizes(Counter(map(_cell_of, rows)), wanted)
    vacant = {split: Counter(cells) for split, cells in sizes.items()}
    rows_of_subject: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        rows_of_subject.setdefault(row["subject_id"], []).append(row)
    subjects = sorted(rows_of_subject)
    random.Random(f"{seed}/subjects").shuffle(subjects)

    def need(split: str, cells: Mapping[Cell, int]) -> tuple[int, float]:
        """Return how many notes of a subject a split still takes, and the share of its cells that is vacant."""
        fits = sum(min(count, vacant[split][cell]) for cell, count in cells.items())
        size = sum(sizes[split].get(cell, 0) for cell in cells)
        share = sum(vacant[split][cell] for cell in cells) / size if size else 0.0
        return fits, share

    chosen: dict[str, list[dict[str, str]]] = {split: [] for split in SPLITS}
    for subject in subjects:
        cells = Counter(map(_cell_of, rows_of_subject[subject]))
        needs = {split: need(split, cells) for split in SPLITS}
        split = max(SPLITS, key=needs.__getitem__)
        for row in rows_of_subject[subject]:
            if vacant[split][_cell_of(row)] > 0:
                vacant[split][_cell_of(row)] -= 1
                chosen[split].append({**row, "split": split})
    return [row for split in SPLITS for row in chosen[split]]


def _cell_of(row: Mapping[str, str]) -> Cell:
    """Return gender and label of a note."""
    return row["gender"], row["label"]


def split_by_phenotype(
    labelled: Sequence[tuple[Mapping[str, str], Labels]], seed: int
) -> list[dict[str, str]]:
    """Return the note rows of each phenotype, split in the published sizes as far as the notes go.

    Args:
        labelled: note rows, each with its labels; a note of a patient whose gender is not known is left out.
        seed: seed of the split.

    Returns:
        Rows of ``NOTE_COLUMNS``.
    """
    notes = []
    for phenotype in PHENOTYPES:
        rows = []
        for note, labels in labelled:
            if note["gender"] and phenotype in labels:
                cells = {**note, "phenotype": phenotype, "label": labels[phenotype]}
                rows.append({name: cells.get(name, "") for name in NOTE_COLUMNS})
        notes += split_notes(rows, published_sizes(phenotype), seed=f"{seed}/{phenotype}")
    return notes
