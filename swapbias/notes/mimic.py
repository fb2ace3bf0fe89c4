"""Read every note of MIMIC as PhysioNet distributes it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from swapbias.notes.note_rows import (
    GENDERS,
    STREAM_COLUMNS,
    named_rows,
)


def find_table(folder: Path, name: str) -> Path | None:
    """Return a table of a folder, or of its ``note`` and ``hosp`` as of MIMIC-IV.

    Args:
        folder: folder of a MIMIC.
        name: name of the table without its ending.

    Returns:
        ``name.csv`` or ``name.csv.gz``, ignoring case; None where there is none.
    """
    for inner in (folder, folder / "note", folder / "hosp"):
        if not inner.is_dir():
            continue
        for path in sorted(inner.iterdir()):
            if path.name.lower() in (f"{name}.csv", f"{name}.csv.gz"):
                return path
    return None


def read_genders(patients: Path | None) -> dict[str, str]:
    """Return the genders of a table of patients.

    Args:
        patients: the table, if there is one.

    Returns:
        ``female`` or ``male`` by subject_id, blank for another value; empty without a table.
    """
    if patients is None:
        return {}
    rows = named_rows(patients, ("subject_id", "gender"))
    return {row["subject_id"]: GENDERS.get(row["gender"].strip().lower(), "") for row in rows}


def mimic3_notes(notes: Path, patients: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield each note of MIMIC-III that is not marked as an error.

    Args:
        notes: NOTEEVENTS.
        patients: PATIENTS.

    Yields:
        A row of ``STREAM_COLUMNS`` and its DESCRIPTION.
    """
    genders = read_genders(patients)
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
            yield _stream_row(row, row["row_id"], row["category"], genders), row["description"]


def mimic4_notes(notes: Path, patients: Path | None = None) -> Iterator[dict[str, str]]:
    """Yield each discharge summary of MIMIC-IV-Note.

    Args:
        notes: discharge.
        patients: the table of MIMIC-IV, if it is there.

    Yields:
        Rows of ``STREAM_COLUMNS``.
    """
    genders = read_genders(patients)
    columns = ("note_id", "subject_id", "hadm_id", "note_type", "charttime", "text")
    for row in named_rows(notes, columns):
        yield _stream_row(row, row["note_id"], row["note_type"], genders)


def _stream_row(
    row: Mapping[str, str], note_id: str, note_type: str, genders: Mapping[str, str]
) -> dict[str, str]:
    """Return a row of MIMIC as ``STREAM_COLUMNS`` have it."""
    cells = {
        **row,
        "note_id": note_id,
        "note_type": note_type.strip(),
        "gender": genders.get(row["subject_id"], ""),
        "credentialed": "True",
    }
    return {name: cells[name] for name in STREAM_COLUMNS}
