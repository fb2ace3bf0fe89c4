"""Notes of MIMIC-III and MIMIC-IV, streamed from a local folder as PhysioNet distributes them.

These notes are credentialed: every row says so, and they may not be published or sent anywhere.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from swapbias.notes.rows import csv_rows

GENDERS = {"f": "female", "m": "male", "female": "female", "male": "male"}
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
    rows = csv_rows(patients, ("subject_id", "gender"))
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
    for row in csv_rows(notes, columns):
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
    for row in csv_rows(notes, columns):
        yield _note(row, row["note_id"], row["note_type"], genders.get(row["subject_id"], ""))
