"""Phenotype labels of MIMIC-III notes: annotators' votes, joined with the notes, split by subject.

Two layouts of the annotation file are read: one names a note by admission, subject, chart time and cohort,
the other (as PhysioNet distributes it) by ROW_ID. Column names are matched ignoring case.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.notes.mimic import mimic3_notes
from swapbias.notes.rows import NOTE_COLUMNS, published_sizes
from swapbias.notes.splits import split_notes
from swapbias.notes.tables import csv_header, csv_rows

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
    found = [path for path in paths if _layout(csv_header(path)) and "noteevents" not in path.name.lower()]
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
    keys = _layout(csv_header(path)) or BY_TIME
    optional = ("None", *OTHER_PHENOTYPES)
    votes: dict[Key, list[Vote]] = {}
    for number, row in enumerate(csv_rows(path, (*keys, *VOTES), optional=optional), start=1):
        flags = {name: _flag(path, number, name, row[name]) for name in (*VOTES, *optional) if name in row}
        votes.setdefault(_annotated_key(row), []).append(_vote(flags))
    return votes


def _flag(path: Path, number: int, column: str, value: str) -> bool:
    flag = _FLAGS.get(value.strip().lower())
    if flag is None:
        raise ValueError(f"{path.name}: row {number}, column {column!r}: {value!r}, expected 0 or 1. Fix the cell.")
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
