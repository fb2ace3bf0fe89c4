"""Which notes a folder holds (those of MIMIC, or a user's own): all of them, or the labelled ones."""

from collections.abc import Iterator
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.files import SUFFIXES
from swapbias.notes.annotated import find_table, labelled_notes, mimic3_notes, mimic4_notes
from swapbias.notes.codes import coded_notes
from swapbias.notes.own import own_files, own_notes

MIMIC3, MIMIC4, OWN = "mimic3", "mimic4", "own"
_MIMIC_FILES = ("noteevents", "discharge", "patients")


def kind_of_folder(folder: Path) -> str:
    """``mimic3``, ``mimic4`` or ``own``, by the names of the files.

    Raises:
        UsageError: none of them, saying what was looked for.
    """
    if folder.is_dir():
        patients = find_table(folder, "patients")
        if find_table(folder, "noteevents") and patients:
            return MIMIC3
        if find_table(folder, "discharge"):
            return MIMIC4
    elif folder.name.lower().split(".")[0] in _MIMIC_FILES:
        raise UsageError(f"{folder} is one file of MIMIC, expected its folder. Give the folder that holds it.")
    if own_files(folder):
        return OWN
    raise UsageError(
        f"{folder}: no clinical notes. Looked for NOTEEVENTS.csv and PATIENTS.csv (MIMIC-III), discharge.csv "
        f"(MIMIC-IV-Note), a file ending in {', '.join(SUFFIXES)}, or train and test files of that kind. "
        "Give a folder or file like that."
    )


def stream_notes(folder: Path) -> Iterator[dict[str, str]]:
    """Every note of a MIMIC folder, one at a time: memory does not grow with the files.

    Keys: note_id, subject_id, hadm_id, note_type, charttime, gender (blank where the patient is not known),
    credentialed (``True``), text. Notes of MIMIC-III that are marked as an error are left out.

    Raises:
        UsageError: no MIMIC folder. ValueError: a missing column, or a file that is no readable CSV.
    """
    kind = kind_of_folder(folder)
    if kind == MIMIC3:
        return (note for note, _ in mimic3_notes(*_mimic3_files(folder)))
    if kind == MIMIC4:
        return mimic4_notes(_table(folder, "discharge"), find_table(folder, "patients"))
    raise UsageError(f"{folder} holds own notes, not MIMIC. Use own_notes.")


def local_notes(folder: Path, *, seed: int = 0, labelled: bool = True) -> list[dict[str, str]]:
    """Labelled note rows of whatever the folder or file holds; of MIMIC for the four phenotypes, split by subject.

    Notes of MIMIC-III have the labels of their annotations, those of MIMIC-IV the codes of their admission.

    Raises:
        UsageError: nothing of the kind there, or notes without labels. ValueError: a broken file.
    """
    kind = kind_of_folder(folder)
    if kind == OWN:
        return own_notes(folder, labelled=labelled)
    return (
        labelled_notes(folder, *_mimic3_files(folder), seed=seed)
        if kind == MIMIC3
        else coded_notes(folder, seed=seed)
    )


def _mimic3_files(folder: Path) -> tuple[Path, Path]:
    return _table(folder, "noteevents"), _table(folder, "patients")


def _table(folder: Path, name: str) -> Path:
    path = find_table(folder, name)
    if path is None:  # removed since the folder was looked at
        raise UsageError(f"{folder}: {name}.csv is gone. Put it back.")
    return path
