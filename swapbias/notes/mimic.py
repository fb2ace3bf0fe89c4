"""Notes of MIMIC as PhysioNet distributes it: every note, or those with a label by annotators or diagnosis codes."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from swapbias import swapping
from swapbias.errors import UsageError, listed
from swapbias.notes.note_rows import (
    GENDERS,
    NAME,
    NOTE_COLUMNS,
    PHENOTYPES,
    SPLITS,
    STREAM_COLUMNS,
    Cell,
    named_rows,
    published_sizes,
    shown_cell,
)
from swapbias.studies import corpus_dir, read_table

Labels = Mapping[str, str]  # positive or negative by phenotype; what is undecided is left out
Key = tuple[str, ...]  # by which annotations name a note


def find_table(folder: Path, name: str) -> Path | None:
    """``name.csv`` or ``name.csv.gz`` in a folder, or in its ``note`` and ``hosp`` as of MIMIC-IV, ignoring case."""
    for place in (folder, folder / "note", folder / "hosp"):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if path.name.lower() in (f"{name}.csv", f"{name}.csv.gz"):
                return path
    return None


# --- every note -------------------------------------------------------------------------------------------


def genders_of(patients: Path | None) -> dict[str, str]:
    """``female`` or ``male`` by subject_id; empty without a table of patients."""
    rows = named_rows(patients, ("subject_id", "gender")) if patients else ()
    return {row["subject_id"]: GENDERS.get(row["gender"].strip().lower(), "") for row in rows}


def mimic3_notes(notes: Path, patients: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Each note of NOTEEVENTS that is not marked as an error, and its DESCRIPTION."""
    genders = genders_of(patients)
    columns = (
        "row_id",
        "subject_id",
        "hadm_id",
        "charttime",
        "category",
        "description",
        "iserror",
        "text",
    )
    for row in named_rows(notes, columns):
        if row["iserror"].strip() not in ("1", "1.0"):
            yield _note(row, row["row_id"], row["category"], genders), row["description"]


def mimic4_notes(notes: Path, patients: Path | None = None) -> Iterator[dict[str, str]]:
    """Each discharge summary of MIMIC-IV-Note."""
    genders = genders_of(patients)
    for row in named_rows(
        notes, ("note_id", "subject_id", "hadm_id", "note_type", "charttime", "text")
    ):
        yield _note(row, row["note_id"], row["note_type"], genders)


def _note(
    row: Mapping[str, str], note_id: str, note_type: str, genders: Mapping[str, str]
) -> dict[str, str]:
    own = {
        "note_id": note_id,
        "note_type": note_type.strip(),
        "gender": genders.get(row["subject_id"], ""),
    }
    every = {**row, **own, "credentialed": "True"}
    return {name: every[name] for name in STREAM_COLUMNS}


# --- training and test ------------------------------------------------------------------------------------

Sizes = Mapping[str, Mapping[Cell, int]]


def affordable(available: Mapping[Cell, int], wanted: Sizes) -> dict[str, dict[Cell, int]]:
    """The sizes wanted; where a cell has too few notes, training and test shrink in proportion."""
    train, test = (dict(wanted[split]) for split in SPLITS)
    for cell in train:
        total = train[cell] + test[cell]
        there = available.get(cell, 0)
        if there < total:
            train[cell] = round(there * train[cell] / total)
            test[cell] = there - train[cell]
    return {"train": train, "test": test}


def split_notes(
    rows: Sequence[Mapping[str, str]], wanted: Sizes, *, seed: str
) -> list[dict[str, str]]:
    """The rows that fit, each with its ``split``; training first.

    Subjects come in a random order; all notes of one go where more of them are still wanted, then where the
    larger share is. What is too many there is dropped, so that a cell can stay short where its subjects have
    several notes.
    """
    sizes = affordable(Counter(map(_cell, rows)), wanted)
    vacant = {split: Counter(cells) for split, cells in sizes.items()}
    subjects: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        subjects.setdefault(row["subject_id"], []).append(row)
    order = sorted(subjects)
    random.Random(f"{seed}/subjects").shuffle(order)

    def need(split: str, cells: Mapping[Cell, int]) -> tuple[int, float]:
        fits = sum(min(count, vacant[split][cell]) for cell, count in cells.items())
        places = sum(sizes[split].get(cell, 0) for cell in cells)
        return fits, sum(vacant[split][cell] for cell in cells) / places if places else 0.0

    chosen: dict[str, list[dict[str, str]]] = {split: [] for split in SPLITS}
    for subject in order:
        cells = Counter(map(_cell, subjects[subject]))
        split = max(SPLITS, key=lambda name: need(name, cells))
        for row in subjects[subject]:
            if vacant[split][_cell(row)] > 0:
                vacant[split][_cell(row)] -= 1
                chosen[split].append({**row, "split": split})
    return [row for split in SPLITS for row in chosen[split]]


def _cell(row: Mapping[str, str]) -> Cell:
    return row["gender"], row["label"]


def _split_by_phenotype(
    labelled: Sequence[tuple[Mapping[str, str], Labels]], seed: int
) -> list[dict[str, str]]:
    """Note rows of each phenotype of patients with a known gender, in the published sizes as far as the notes go."""
    found = []
    for phenotype in PHENOTYPES:
        chosen = [
            (note, labels[phenotype])
            for note, labels in labelled
            if note["gender"] and phenotype in labels
        ]
        named = ({**note, "phenotype": phenotype, "label": label} for note, label in chosen)
        rows = [{name: row.get(name, "") for name in NOTE_COLUMNS} for row in named]
        found += split_notes(rows, published_sizes(phenotype), seed=f"{seed}/{phenotype}")
    return found


# --- MIMIC-III: annotations -------------------------------------------------------------------------------

_COLUMN_OF = {
    "depression": "Depression",
    "alcohol_abuse": "Alcohol.Abuse",
    "substance_abuse": "Other.Substance.Abuse",
    "psychiatric_disorders": "Schizophrenia.and.other.Psychiatric.Disorders",
}
# Annotated too: without a column "None", a note has no phenotype where all of these are 0.
_OTHERS = (
    "Advanced.Cancer", "Advanced.Heart.Disease", "Advanced.Lung.Disease", "Chronic.Neurological.Dystrophies",
    "Chronic.Pain.Fibromyalgia", "Dementia", "Developmental.Delay.Retardation", "Non.Adherence", "Obesity",
)  # fmt: skip
VOTES = (*_COLUMN_OF.values(), "Unsure")
_BY_TIME = ("Hospital.Admission.ID", "subject.id", "chart.time", "cohort")
_BY_ROW = ("ROW_ID",)
_FLAGS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
_NO_VALUE = ("na", "nan", "null", "none")
Vote = set[
    str
]  # the columns in which one annotator has a 1 for one note; "None" is implied where it is no column


def labelled_notes(folder: Path, notes: Path, patients: Path, *, seed: int) -> list[dict[str, str]]:
    """Note rows of MIMIC-III by their annotations, for the four phenotypes, split by subject.

    UsageError: no annotation file, or several. ValueError: a broken file, or no annotated note in NOTEEVENTS.
    """
    path = _find_annotations(folder)
    votes = read_votes(path)
    labels = {key: decided(each) for key, each in votes.items()}
    found = _joined(mimic3_notes(notes, patients), {key for key, label in labels.items() if label})
    if not found:
        raise ValueError(
            f"{path.name}: none of its {len(votes)} notes stands in {notes.name}. Use files of one MIMIC-III version."
        )
    return _split_by_phenotype([(note, labels[key]) for key, note in found.items()], seed)


def _find_annotations(folder: Path) -> Path:
    paths = [
        path for path in sorted(folder.iterdir()) if path.name.lower().endswith((".csv", ".csv.gz"))
    ]
    found = [path for path in paths if "noteevents" not in path.name.lower() and _layout(path)]
    if len(found) != 1:
        names = listed(path.name for path in found)
        raise UsageError(
            f"{folder}: annotation files found: {names}, expected one CSV with the columns {listed(VOTES)} and "
            f"either {listed(_BY_TIME)} or {_BY_ROW[0]}. Put the phenotype annotations of MIMIC-III there."
        )
    return found[0]


def _layout(path: Path) -> Key | None:
    """The columns by which a file of annotations names a note; None for another file."""
    names = swapping.read_files([path]).schema.names if path.stat().st_size else []
    columns = {name.strip().lower() for name in names}
    return next(
        (by for by in (_BY_TIME, _BY_ROW) if {one.lower() for one in (*by, *VOTES)} <= columns),
        None,
    )


def read_votes(path: Path) -> dict[Key, list[Vote]]:
    """Every annotator's vote by note. ValueError: naming file, row and column of a cell that is neither 0 nor 1."""
    by = _layout(path) or _BY_TIME
    optional = ("None", *_OTHERS)
    votes: dict[Key, list[Vote]] = {}
    for number, row in enumerate(named_rows(path, (*by, *VOTES), optional=optional), start=1):
        flags = {
            name: _FLAGS.get(row[name].strip().lower())
            for name in (*VOTES, *optional)
            if name in row
        }
        for column, flag in flags.items():
            if flag is None:
                raise ValueError(
                    f"{path.name}: row {number}, column {column!r}: {shown_cell(row[column])}, expected 0 or 1. "
                    "Fix the cell."
                )
        key = _time_key(*(row[name] for name in by)) if by == _BY_TIME else (_whole(row[by[0]]),)
        vote = {name for name, flag in flags.items() if flag}
        votes.setdefault(key, []).append(vote if vote or "None" in flags else {"None"})
    return votes


def _time_key(admission: str, subject: str, time: str, kind: str) -> Key:
    """Nursing notes by their minute; discharge summaries by admission, since they have no chart time."""
    first = re.match(r"[a-z]*", kind.strip().lower())
    word = first.group(0) if first else ""
    minute = (
        ""
        if word == "discharge" or time.strip().lower() in _NO_VALUE
        else time.strip().replace("T", " ")[:16]
    )
    return _whole(admission), _whole(subject), minute, word


def _whole(identifier: str) -> str:
    return identifier.strip().removesuffix(".0")  # as tables with missing ids are often saved


def decided(votes: Sequence[Vote]) -> dict[str, str]:
    """The label of a note by phenotype; a phenotype without a decision is left out.

    Positive where at least half of the annotators say so (ties are positive), negative where more than half
    say that the note has no phenotype at all. Nothing is decided where more than half are unsure.
    """
    counts = Counter(column for vote in votes for column in vote)
    if 2 * counts["Unsure"] > len(votes):
        return {}
    none = dict.fromkeys(PHENOTYPES, "negative") if 2 * counts["None"] > len(votes) else {}
    named = (one for one in PHENOTYPES if 2 * counts[_COLUMN_OF[one]] >= len(votes))
    return none | dict.fromkeys(named, "positive")


def _joined(
    notes: Iterable[tuple[dict[str, str], str]], wanted: set[Key]
) -> dict[Key, dict[str, str]]:
    """The note of each key: the first one, but a discharge report before its addenda."""
    found: dict[Key, dict[str, str]] = {}
    reports: set[Key] = set()
    for note, description in notes:
        report = description.strip().lower() == "report"
        timed = _time_key(note["hadm_id"], note["subject_id"], note["charttime"], note["note_type"])
        for key in ((_whole(note["note_id"]),), timed):
            if key in wanted and (key not in found or (report and key not in reports)):
                found[key] = note
                reports |= {key} if report else set()
    return found


# --- MIMIC-IV: diagnosis codes ----------------------------------------------------------------------------


@cache
def _code_prefixes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Beginnings of the codes by version (``9``, ``10``) and phenotype."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in read_table(
        corpus_dir(NAME) / "diagnosis_codes.csv", ("phenotype", "version", "prefix", "source")
    ):
        of = found.setdefault(row["version"], {})
        of[row["phenotype"]] = (*of.get(row["phenotype"], ()), row["prefix"])
    return found


@cache
def coded(code: str, version: str) -> frozenset[str]:
    """The phenotypes that a code of ICD-9-CM or ICD-10-CM stands for, after Quan et al. (2005).

    >>> sorted(coded("F32.9", "10")), sorted(coded("30390", "9")), sorted(coded("I10", "10"))
    (['depression'], ['alcohol_abuse'], [])
    """
    plain = code.strip().upper().replace(".", "")
    lists = _code_prefixes().get(version.strip(), {})
    return frozenset(name for name, prefixes in lists.items() if plain.startswith(prefixes))


def coded_notes(folder: Path, *, seed: int = 0) -> list[dict[str, str]]:
    """Note rows of the discharge summaries of MIMIC-IV, for the four phenotypes, split by subject.

    A note is positive for a phenotype where its admission has a code of it, negative where its admission has codes
    and none of any of the four. Codes are billed, not read from the note: they miss what was not billed. Memory
    holds the chosen notes, and of the others their ids.

    Raises:
        UsageError: no ``diagnoses_icd.csv`` or ``patients.csv`` in the folder. ValueError: a broken file, or no
            admission of the notes in it.
    """
    tables = {name: find_table(folder, name) for name in ("discharge", "diagnoses_icd", "patients")}
    if missing := [name for name, path in tables.items() if path is None]:
        raise UsageError(
            f"{folder}: no {' and no '.join(f'{name}.csv' for name in missing)}, which the labels of MIMIC-IV notes "
            "are made of (the hosp module of MIMIC-IV holds it). Put it there; swapping needs none."
        )
    discharge, diagnoses, patients = (path for path in tables.values() if path)
    coded_as: dict[
        str, frozenset[str]
    ] = {}  # by admission that has any code; most have none of the four
    for row in named_rows(diagnoses, ("hadm_id", "icd_code", "icd_version")):
        phenotypes = coded(row["icd_code"], row["icd_version"])
        before = coded_as.setdefault(row["hadm_id"], phenotypes)
        if not phenotypes <= before:
            coded_as[row["hadm_id"]] = before | phenotypes
    genders = genders_of(patients)
    ids = [
        (
            {**row, "gender": genders.get(row["subject_id"], ""), "credentialed": "True"},
            row["hadm_id"],
        )
        for row in named_rows(discharge, ("note_id", "subject_id", "hadm_id", "note_type"))
    ]
    negative = dict.fromkeys(PHENOTYPES, "negative")
    labelled = [
        (row, dict.fromkeys(coded_as[admission], "positive") or negative)
        for row, admission in ids
        if admission in coded_as
    ]
    if not labelled:
        raise ValueError(
            f"{diagnoses.name}: none of the admissions of {discharge.name} stands in it. Use files of one version."
        )
    chosen = _split_by_phenotype(labelled, seed)
    wanted = {row["note_id"] for row in chosen}
    pairs = ((row["note_id"], row["text"]) for row in named_rows(discharge, ("note_id", "text")))
    texts = {note: text for note, text in pairs if note in wanted}
    return [{**row, "text": texts[row["note_id"]]} for row in chosen]
