"""Notes of MIMIC-III with labels by annotators: their votes, decided note by note."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from swapbias import swapping
from swapbias.errors import UsageError, listed
from swapbias.notes.mimic import mimic3_notes
from swapbias.notes.note_rows import PHENOTYPES, named_rows, quote_cell
from swapbias.notes.subject_split import split_by_phenotype

Key = tuple[str, ...]  # by which annotations identify a note
_ANNOTATION_COLUMNS = {
    "depression": "Depression",
    "alcohol_abuse": "Alcohol.Abuse",
    "substance_abuse": "Other.Substance.Abuse",
    "psychiatric_disorders": "Schizophrenia.and.other.Psychiatric.Disorders",
}
# Annotated too: without a column "None", a note has no phenotype where all of these are 0.
_FURTHER_COLUMNS = (
    "Advanced.Cancer", "Advanced.Heart.Disease", "Advanced.Lung.Disease", "Chronic.Neurological.Dystrophies",
    "Chronic.Pain.Fibromyalgia", "Dementia", "Developmental.Delay.Retardation", "Non.Adherence", "Obesity",
)  # fmt: skip
VOTES = (*_ANNOTATION_COLUMNS.values(), "Unsure")
_TIME_COLUMNS = ("Hospital.Admission.ID", "subject.id", "chart.time", "cohort")
_ROW_COLUMNS = ("ROW_ID",)
# By admission and patient: discharge summaries, as the public file of annotations has them.
_ADMISSION_COLUMNS = (_TIME_COLUMNS[:2], ("HADM_ID", "SUBJECT_ID"))
_DISCHARGE = "discharge"  # first word of the category of discharge summaries
_FLAG_VALUES = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
_NO_VALUE = ("na", "nan", "null", "none")
# The columns in which one annotator has a 1 for one note; "None" is implied where it is no column.
Vote = set[str]


def labelled_notes(
    folder: Path, notes: Path, patients: Path, *, seeds: Sequence[int]
) -> list[list[dict[str, str]]]:
    """Return note rows of MIMIC-III by their annotations, for the four phenotypes, split by subject.

    Args:
        folder: the folder that holds the annotations.
        notes: NOTEEVENTS.
        patients: PATIENTS.
        seeds: the seed of each split.

    Returns:
        Rows of ``NOTE_COLUMNS`` for each split.

    Raises:
        UsageError: no annotation file, or several.
        ValueError: a broken file, or no annotated note in NOTEEVENTS.
    """
    path = _find_annotations(folder)
    votes = read_votes(path)
    labels = {key: decide_labels(of_note) for key, of_note in votes.items()}
    decided_keys = {key for key, of_note in labels.items() if of_note}
    matched = _match_notes(mimic3_notes(notes, patients), decided_keys)
    if not matched:
        raise ValueError(
            f"{path.name}: none of its {len(votes)} notes is in {notes.name}. Use files of one MIMIC-III version."
        )
    labelled = [(note, labels[key]) for key, note in matched.items()]
    return [split_by_phenotype(labelled, seed) for seed in seeds]


def annotation_files(folder: Path) -> list[Path]:
    """Return the files of annotations in a folder of MIMIC-III.

    Args:
        folder: the folder.
    """
    paths = []
    for path in sorted(folder.iterdir()):
        name = path.name.lower()
        is_table = name.endswith((".csv", ".csv.gz")) and "noteevents" not in name
        if is_table and _key_columns(path):
            paths.append(path)
    return paths


def _find_annotations(folder: Path) -> Path:
    """Return the one file of annotations in a folder; UsageError: none, or several."""
    paths = annotation_files(folder)
    if len(paths) != 1:
        names = listed(path.name for path in paths)
        raise UsageError(
            f"{folder}: annotation files found: {names}, expected one CSV with the columns {listed(VOTES)} and "
            f"either {listed(_TIME_COLUMNS)} or {_ROW_COLUMNS[0]}. Put the phenotype annotations of MIMIC-III there."
        )
    return paths[0]


def _key_columns(path: Path) -> Key | None:
    """Return the columns by which a file of annotations identifies a note; None for another file."""
    if not path.stat().st_size:
        return None
    header = {name.strip().lower() for name in swapping.read_files([path]).schema.names}
    for key_columns in (_TIME_COLUMNS, _ROW_COLUMNS, *_ADMISSION_COLUMNS):
        if {name.lower() for name in (*key_columns, *VOTES)} <= header:
            return key_columns
    return None


def read_votes(path: Path) -> dict[Key, list[Vote]]:
    """Return the votes of all annotators.

    Args:
        path: a file of annotations, a row for each annotator and note.

    Returns:
        Votes by the key of their note.

    Raises:
        ValueError: a cell is neither 0 nor 1. It names file, row and column.
    """
    key_columns = _key_columns(path) or _TIME_COLUMNS
    optional = ("None", *_FURTHER_COLUMNS)
    votes: dict[Key, list[Vote]] = {}
    rows = named_rows(path, (*key_columns, *VOTES), optional=optional)
    for number, row in enumerate(rows, start=1):
        vote: Vote = set()
        for column in (name for name in (*VOTES, *optional) if name in row):
            flag = _FLAG_VALUES.get(row[column].strip().lower())
            if flag is None:
                raise ValueError(
                    f"{path.name}: row {number}, column {column!r}: {quote_cell(row[column])}, expected 0 or 1. "
                    "Fix the cell."
                )
            if flag:
                vote.add(column)
        if not vote and "None" not in row:
            vote.add("None")
        votes.setdefault(_note_key(row, key_columns), []).append(vote)
    return votes


def _note_key(row: Mapping[str, str], key_columns: Key) -> Key:
    """Return the key of the note that a row of annotations is about."""
    if key_columns == _TIME_COLUMNS:
        admission, subject, time, cohort = (row[name] for name in key_columns)
        # The public file numbers cohorts and times: its notes are discharge summaries.
        kind = cohort if cohort.strip()[:1].isalpha() else _DISCHARGE
        return _time_key(admission, subject, time, kind)
    if key_columns in _ADMISSION_COLUMNS:
        admission, subject = (row[name] for name in key_columns)
        return _time_key(admission, subject, "", _DISCHARGE)
    return (_without_fraction(row[key_columns[0]]),)


def _time_key(admission: str, subject: str, time: str, kind: str) -> Key:
    """Return the key of nursing notes by their minute; discharge summaries have no chart time, but an admission."""
    match = re.match(r"[a-z]*", kind.strip().lower())
    word = match.group(0) if match else ""
    time = time.strip()
    has_minute = word != _DISCHARGE and time.lower() not in _NO_VALUE
    minute = time.replace("T", " ")[:16] if has_minute else ""
    return _without_fraction(admission), _without_fraction(subject), minute, word


def _without_fraction(identifier: str) -> str:
    """Return an id without the ".0" that tables with missing ids are often saved with."""
    return identifier.strip().removesuffix(".0")


def decide_labels(votes: Sequence[Vote]) -> dict[str, str]:
    """Return the labels of a note.

    Positive where at least half of the annotators say so (ties are positive), negative where more than half
    say that the note has no phenotype at all. Nothing is decided where more than half are unsure.

    Args:
        votes: the votes of the annotators of one note.

    Returns:
        ``positive`` or ``negative`` by phenotype; a phenotype without a decision is left out.
    """
    counts = Counter(column for vote in votes for column in vote)
    if 2 * counts["Unsure"] > len(votes):
        return {}
    labels = {}
    if 2 * counts["None"] > len(votes):
        labels = dict.fromkeys(PHENOTYPES, "negative")
    for phenotype in PHENOTYPES:
        if 2 * counts[_ANNOTATION_COLUMNS[phenotype]] >= len(votes):
            labels[phenotype] = "positive"
    return labels


def _match_notes(
    notes: Iterable[tuple[dict[str, str], str]], wanted: set[Key]
) -> dict[Key, dict[str, str]]:
    """Return the note of each key: the first one, but a discharge report before its addenda."""
    matched: dict[Key, dict[str, str]] = {}
    keys_of_reports: set[Key] = set()
    for note, description in notes:
        is_report = description.strip().lower() == "report"
        by_row = (_without_fraction(note["note_id"]),)
        by_time = _time_key(
            note["hadm_id"], note["subject_id"], note["charttime"], note["note_type"]
        )
        for key in wanted & {by_row, by_time}:
            replaces_addendum = is_report and key not in keys_of_reports
            if key not in matched or replaces_addendum:
                matched[key] = note
                if is_report:
                    keys_of_reports.add(key)
    return matched
