"""What rows of a folder of notes depend on: its files, and the code and tables that make rows of them."""

import hashlib
from os import PathLike
from pathlib import Path

from swapbias.files import file_sha256, rooms_sha256
from swapbias.notes.annotations import annotation_files
from swapbias.notes.load import MIMIC3, MIMIC4, kind_of_folder, note_tables, own_files
from swapbias.notes.mimic import find_table
from swapbias.notes.note_rows import NAME
from swapbias.privacy import is_credentialed
from swapbias.studies import corpus_dir

_ROOMS = ("notes", "studies", "swapping")  # whose code makes rows of notes
_CORPORA = (NAME, "gender_lexicon")  # whose tables that code reads


def notes_key(folder: "str | PathLike[str]") -> str:
    """Return a sha256 over the files of notes, and the code and tables that make rows of them.

    Args:
        folder: folder of a MIMIC, or a folder or file of own notes.

    Raises:
        UsageError: no notes there.
        OSError: a file cannot be read.
    """
    path = Path(folder)
    lines = [rooms_sha256(*_ROOMS), str(is_credentialed(path))]
    lines += [
        f"{file.name} {file_sha256(file)}" for file in [*_package_tables(), *_note_files(path)]
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _package_tables() -> list[Path]:
    """Return the tables of the package by which notes are labelled and their words swapped."""
    return [table for name in _CORPORA for table in sorted(corpus_dir(name).glob("*.csv"))]


def _note_files(path: Path) -> list[Path]:
    """Return the files that rows of these notes are made of; a MIMIC has many others."""
    kind = kind_of_folder(path)
    if kind == MIMIC3:
        return [*note_tables(path), *annotation_files(path)]
    if kind == MIMIC4:
        diagnoses = find_table(path, "diagnoses_icd")
        return [*note_tables(path), *([diagnoses] if diagnoses else [])]
    return [file for file, _ in own_files(path)]
