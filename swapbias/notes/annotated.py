"""Labelled notes of a local folder: MIMIC as PhysioNet distributes it, with annotations, or a user's own files."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.notes.rows import (
    GENDERS,
    NOTE_COLUMNS,
    SPLITS,
    Cell,
    header,
    named_rows,
    published_sizes,
    shown_cell,
)

STREAM_COLUMNS = (
    "note_id", "subject_id", "hadm_id", "note_type", "charttime", "gender", "credentialed", "text",
)  # fmt: skip
SUBFOLDERS = ("", "note", "hosp")  # MIMIC-IV keeps notes and patients apart


def find_table(folder: Path, name: str) -> Path | None:
    """The file ``name.csv`` or ``name.csv.gz`` of a folder (or of its ``note`` and ``hosp``), ignoring case."""
    for part in SUBFOLDERS:
        place = folder / part
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if path.name.lower() in (f"{name}.csv", f"{name}.csv.gz"):
                return path
    return None


def genders_of(patients: Path | None) -> dict[str, str]:
    """``female`` or ``male`` by subject_id; empty without a table of patients.

    Raises:
        ValueError: a column is missing.
    """
    if patients is None:
        return {}
    rows = named_rows(patients, ("subject_id", "gender"))
    return {row["subject_id"]: GENDERS.get(row["gender"].strip().lower(), "") for row in rows}


def _note(row: Mapping[str, str], note_id: str, note_type: str, gender: str) -> dict[str, str]:
    return {
        "note_id": note_id,
        "subject_id": row["subject_id"],
        "hadm_id": row["hadm_id"],
        "note_type": note_type.strip(),
        "charttime": row["charttime"],
        "gender": gender,
        "credentialed": "True",
        "text": row["text"],
    }


def mimic3_notes(notes: Path, patients: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Each note of NOTEEVENTS that is not marked as an error, and its DESCRIPTION.

    Raises:
        ValueError: a column is missing, or a file is no readable CSV.
    """
    genders = genders_of(patients)
    columns = ("row_id", "subject_id", "hadm_id", "charttime", "category", "description", "iserror", "text")
    for row in named_rows(notes, columns):
        if row["iserror"].strip() not in ("1", "1.0"):
            gender = genders.get(row["subject_id"], "")
            yield _note(row, row["row_id"], row["category"], gender), row["description"]


def mimic4_notes(notes: Path, patients: Path | None) -> Iterator[dict[str, str]]:
    """Each discharge summary of MIMIC-IV-Note.

    Raises:
        ValueError: a column is missing, or a file is no readable CSV.
    """
    genders = genders_of(patients)
    columns = ("note_id", "subject_id", "hadm_id", "note_type", "charttime", "text")
    for row in named_rows(notes, columns):
        yield _note(row, row["note_id"], row["note_type"], genders.get(row["subject_id"], ""))


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


COLUMN_OF = {
    "depression": "Depression",
    "alcohol_abuse": "Alcohol.Abuse",
    "substance_abuse": "Other.Substance.Abuse",
    "psychiatric_disorders": "Schizophrenia.and.other.Psychiatric.Disorders",
}
# Annotated too: without a column "None", a note has no phenotype where all of these are 0.
OTHER_PHENOTYPES = (
    "Advanced.Cancer", "Advanced.Heart.Disease", "Advanced.Lung.Disease", "Chronic.Neurological.Dystrophies",
    "Chronic.Pain.Fibromyalgia", "Dementia", "Developmental.Delay.Retardation", "Non.Adherence", "Obesity",
)  # fmt: skip
VOTES = (*COLUMN_OF.values(), "Unsure")
BY_TIME = ("Hospital.Admission.ID", "subject.id", "chart.time", "cohort")
BY_ROW = ("ROW_ID",)
_FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
_NO_VALUE = ("na", "nan", "null", "none")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one annotator said of one note: its phenotypes, that it has none at all, that they are unsure."""

    phenotypes: frozenset[str]
    none: bool
    unsure: bool


def find_annotations(folder: Path) -> Path:
    """The one CSV file of the folder that holds annotations.

    Raises:
        UsageError: there is none, or there are several.
    """
    paths = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith((".csv", ".csv.gz"))]
    found = [path for path in paths if _layout(header(path)) and "noteevents" not in path.name.lower()]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UsageError(
            f"{folder}: annotation files found: {names}, expected one CSV with the columns {', '.join(VOTES)} and "
            f"either {', '.join(BY_TIME)} or {BY_ROW[0]}. Put the phenotype annotations of MIMIC-III there."
        )
    return found[0]


def _layout(header: Sequence[str]) -> Key | None:
    there = {name.strip().lower() for name in header}
    layouts = [keys for keys in (BY_TIME, BY_ROW) if {name.lower() for name in (*keys, *VOTES)} <= there]
    return layouts[0] if layouts else None


def read_votes(path: Path) -> dict[Key, list[Vote]]:
    """Every annotator's vote by note.

    Raises:
        ValueError: naming file, row and column of a cell that is neither 0 nor 1.
    """
    keys = _layout(header(path)) or BY_TIME
    optional = ("None", *OTHER_PHENOTYPES)
    votes: dict[Key, list[Vote]] = {}
    for number, row in enumerate(named_rows(path, (*keys, *VOTES), optional=optional), start=1):
        flags = {name: _flag(path, number, name, row[name]) for name in (*VOTES, *optional) if name in row}
        votes.setdefault(_annotated_key(row), []).append(_vote(flags))
    return votes


def _flag(path: Path, number: int, column: str, value: str) -> bool:
    flag = _FLAGS.get(value.strip().lower())
    if flag is None:
        raise ValueError(
            f"{path.name}: row {number}, column {column!r}: {shown_cell(value)}, expected 0 or 1. Fix the cell."
        )
    return flag


def _vote(flags: Mapping[str, bool]) -> Vote:
    phenotypes = frozenset(name for name, column in COLUMN_OF.items() if flags[column])
    silent = not any(flags[name] for name in flags if name != "None")
    return Vote(phenotypes=phenotypes, none=flags.get("None", silent), unsure=flags["Unsure"])


def _annotated_key(row: Mapping[str, str]) -> Key:
    if BY_ROW[0] in row:
        return (_whole(row[BY_ROW[0]]),)
    admission, subject, time, cohort = (row[name] for name in BY_TIME)
    return _time_key(admission, subject, time, cohort)


def _time_key(admission: str, subject: str, time: str, kind: str) -> Key:
    """Nursing notes by their minute; discharge summaries by admission, since they have no chart time."""
    first = re.match(r"[a-z]*", kind.strip().lower())
    word = first.group(0) if first else ""
    minute = "" if word == "discharge" or time.strip().lower() in _NO_VALUE else time.strip().replace("T", " ")[:16]
    return _whole(admission), _whole(subject), minute, word


def _whole(identifier: str) -> str:
    return identifier.strip().removesuffix(".0")  # as tables with missing ids are often saved


def decided(votes: Sequence[Vote]) -> dict[str, str]:
    """The label of a note by phenotype; a phenotype without a decision is left out.

    Positive where at least half of the annotators say so (ties are positive), negative where more than half
    say that the note has no phenotype at all. Nothing is decided where more than half are unsure.
    """
    if 2 * sum(vote.unsure for vote in votes) > len(votes):
        return {}
    none = 2 * sum(vote.none for vote in votes) > len(votes)
    labels = {}
    for phenotype in COLUMN_OF:
        if 2 * sum(phenotype in vote.phenotypes for vote in votes) >= len(votes):
            labels[phenotype] = "positive"
        elif none:
            labels[phenotype] = "negative"
    return labels


def labelled_notes(folder: Path, notes: Path, patients: Path, *, seed: int) -> list[dict[str, str]]:
    """Note rows of the four phenotypes, in the published sizes as far as the notes go; see ``split_notes``.

    A note can stand under several phenotypes. Notes of patients without a known gender are left out.

    Raises:
        UsageError: no annotation file, or several. ValueError: a broken file, or no annotated note in NOTEEVENTS.
    """
    path = find_annotations(folder)
    votes = read_votes(path)
    labels = {key: decided(said) for key, said in votes.items()}
    found = _joined(mimic3_notes(notes, patients), {key for key, label in labels.items() if label})
    if not found:
        raise ValueError(
            f"{path.name}: none of its {len(votes)} notes stands in {notes.name}. Use files of one MIMIC-III version."
        )
    rows = []
    for phenotype in COLUMN_OF:
        labelled = _of_phenotype(phenotype, found, labels)
        rows += split_notes(labelled, published_sizes(phenotype), seed=f"{seed}/{phenotype}")
    return rows


def _joined(notes: Iterable[tuple[dict[str, str], str]], wanted: set[Key]) -> dict[Key, dict[str, str]]:
    """The note of each key: the first one, but a discharge report before its addenda."""
    found: dict[Key, dict[str, str]] = {}
    reports: set[Key] = set()
    for note, description in notes:
        for key in _note_keys(note):
            report = description.strip().lower() == "report"
            if key in wanted and (key not in found or (report and key not in reports)):
                found[key] = note
                reports |= {key} if report else set()
    return found


def _note_keys(note: Mapping[str, str]) -> Iterator[Key]:
    yield (_whole(note["note_id"]),)
    yield _time_key(note["hadm_id"], note["subject_id"], note["charttime"], note["note_type"])


def _of_phenotype(
    phenotype: str, found: Mapping[Key, Mapping[str, str]], labels: Mapping[Key, Mapping[str, str]]
) -> list[dict[str, str]]:
    rows = []
    for key, note in found.items():
        if phenotype in labels[key] and note["gender"]:
            row = {**note, "phenotype": phenotype, "label": labels[key][phenotype]}
            rows.append({name: row.get(name, "") for name in NOTE_COLUMNS})
    return rows
