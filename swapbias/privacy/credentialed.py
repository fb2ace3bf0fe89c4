"""Credentialed clinical text: what tells it, and how everything that would publish or send it refuses.

PhysioNet lets nobody share such text or what is derived from it with third parties or with services on the network.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED, OWNER_FOLDER, locked, parse_json

WARNING = (
    "**Credentialed clinical data: this folder and what is made from it must not be published, shared or sent to any "
    "service.**"
)
HOW_TO_READ = (
    "Read the rows with pandas, or with `load_dataset(..., streaming=True)`: without it `datasets` keeps a copy in "
    "its own cache, which is neither marked nor closed to others."
)
_NOTES = ("noteevents", "discharge", "radiology", "discharge_detail", "radiology_detail")
_TABLES = (
    "admissions",
    "patients",
    "icustays",
    "diagnoses_icd",
    "callout",
    "transfers",
    "services",
)
_MODULES = ("", "note", "hosp", "icu")  # folders that MIMIC-IV comes in
_MANIFESTS = ("manifest.json", "swap.json")
_TABLE = re.compile(
    r"(.+?)\.(?:csv|tsv|jsonl|ndjson|parquet)(?:\.(?:gz|zip|bz2|xz|zst))?", re.IGNORECASE
)
# As letters alone: "HADM_ID", "hadm id" and "Hospital.Admission.ID" (of the annotations) name admissions of MIMIC.
_ADMISSION = {"hadmid", "hospitaladmissionid"}
_MIMIC4 = {"noteid", "subjectid", "charttime", "text"}


def mark(folder: Path) -> None:
    """Say in a folder that it holds credentialed text, and keep everybody but its user out of it."""
    (folder / CREDENTIALED).write_text(f"{WARNING.strip('*')}\n", encoding="utf-8")
    (folder / CREDENTIALED).chmod(0o600)
    folder.chmod(OWNER_FOLDER)


@contextmanager
def for_owner_alone(credentialed: bool) -> Iterator[None]:
    """While the block runs, files of every library are their user's alone (umask 077)."""
    before = os.umask(0o077) if credentialed else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


@contextmanager
def writing(folder: Path, credentialed: bool, *, then: str = "") -> Iterator[None]:
    """Make a folder and write to it as the only process (``files.locked``); of credentialed notes it is marked."""
    with for_owner_alone(credentialed):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, then=then):
            if credentialed:
                mark(folder)
            yield


def is_credentialed(path: Path) -> bool:
    """Whether a file or folder (notes, run, built corpus, swapped files) holds credentialed text."""
    return bool(why_credentialed(path))


def why_credentialed(path: Path) -> str:
    """What tells that a file or folder holds credentialed text or what is made of it; blank: nothing."""
    place = path.resolve()
    for folder in (place, *place.parents):
        if (folder / CREDENTIALED).exists() or any(
            _is_marked_in(folder / name) for name in _MANIFESTS
        ):
            return "the input lies in a folder that is marked so"
    if is_mimic_name(place.name):
        return "the file is named like MIMIC's notes"
    here = place if place.is_dir() else place.parent
    beside = [
        one for module in _MODULES if (here / module).is_dir() for one in (here / module).iterdir()
    ]
    # A table of MIMIC's patients: that of another hospital has other columns.
    patients = (one for one in beside if _stem(one.name) in _TABLES)
    is_patients = any(
        "subject_id" in (name.strip().lower() for name in columns_of(one)) for one in patients
    )
    if is_patients or any(is_mimic_name(one.name) for one in beside):
        return "tables of MIMIC lie beside it"
    files = beside if place.is_dir() else (place,)
    if any(is_mimic_columns(columns_of(one)) for one in files if _TABLE.fullmatch(one.name)):
        return "the columns are those of MIMIC's notes"
    return ""


def is_mimic_name(path: str) -> bool:
    """Whether a file has the name of a table of MIMIC's notes (MIMIC-III, MIMIC-IV-Note), whatever its format."""
    return _stem(path) in _NOTES


def is_mimic_columns(columns: Iterable[str]) -> bool:
    """Whether columns are those of MIMIC's notes: they name an admission of MIMIC, or are those of MIMIC-IV-Note."""
    found = {re.sub("[^a-z]", "", name.lower()) for name in columns}
    return bool(_ADMISSION & found) or found >= _MIMIC4


def columns_of(path: Path) -> list[str]:
    """The names of a table's columns, or of its first JSON line; none where none can be read."""
    import pandas as pd
    import pyarrow.parquet as pq

    name = path.name.lower()
    with suppress(Exception):  # of any library that unpacks or reads
        if ".parquet" in name:
            return list(pq.read_schema(path).names)
        if ".jsonl" in name or ".ndjson" in name:
            return [*map(str, pd.read_json(path, lines=True, nrows=1, encoding_errors="replace"))]
        gap = "\t" if ".tsv" in name else ","
        return [*pd.read_csv(path, nrows=0, sep=gap, index_col=False, encoding_errors="replace")]
    return []


def _stem(path: str) -> str:
    found = _TABLE.fullmatch(Path(path).name)
    return found[1].lower() if found else ""


def _is_marked_in(file: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return bool(parse_json(file.read_bytes()).get("credentialed"))
    return False


def refuse(path: Path, action: str, *, known: bool = False) -> None:
    """UsageError before credentialed text is published or sent; ``known``: what was read of the path has said so."""
    if known or is_credentialed(path):
        raise UsageError(
            f"{path} holds credentialed clinical data, which must not be {action}. Keep it on this machine."
        )
