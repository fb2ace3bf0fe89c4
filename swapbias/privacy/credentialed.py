"""Credentialed clinical text: how it is recognised, and how all that would publish or send it refuses.

PhysioNet lets nobody share such text or what is derived from it with third parties or with services on the network.
"""

import csv
import io
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from swapbias.errors import UsageError
from swapbias.files import CREDENTIALED, OWNER_FOLDER, locked, parse_json
from swapbias.studies import csv_dialect

WARNING = (
    "**Credentialed clinical data: this folder and what is made from it must not be published, shared or sent to any "
    "service.**"
)
HOW_TO_READ = (
    "Read the rows with pandas, or with `load_dataset(..., streaming=True)`. Without `streaming`, `datasets` keeps a "
    "copy in its own cache, which is neither marked nor closed to others."
)
_UMASK_LOCK = threading.Lock()
# The umask before each block that is open: the first is the user's, and the last to be taken away.
_umasks: list[int] = []
_NOTE_TABLES = ("noteevents", "discharge", "radiology", "discharge_detail", "radiology_detail")
_PATIENT_TABLES = (
    "admissions",
    "patients",
    "icustays",
    "diagnoses_icd",
    "callout",
    "transfers",
    "services",
)
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO  # bits of a mode
_LONGEST = 1 << 20  # characters of a header
_NO_SIGN = "\x01"  # that stands between no cells
_MODULES = ("", "note", "hosp", "icu")  # folders that MIMIC-IV comes in
_MANIFESTS = ("manifest.json", "swap.json")
_TABLE_FILE = re.compile(
    r"(.+?)\.(?:csv|tsv|jsonl|ndjson|parquet)(?:\.(?:gz|zip|bz2|xz|zst))?", re.IGNORECASE
)
# As letters alone: "HADM_ID", "hadm id" and "Hospital.Admission.ID" (of the annotations) name admissions of MIMIC.
_ADMISSION_COLUMNS = {"hadmid", "hospitaladmissionid"}
_MIMIC4_COLUMNS = {"noteid", "subjectid", "charttime", "text"}


def mark(folder: Path) -> None:
    """Say in a folder that it holds credentialed text, and keep everybody but its user out of it.

    Args:
        folder: an existing folder of this machine.

    Raises:
        OSError: it cannot be written.
    """
    sign = folder / CREDENTIALED
    if sign.is_file() and not stat.S_IMODE(folder.stat().st_mode) & _OF_OTHERS:
        return
    sign.write_text(f"{WARNING.strip('*')}\n", encoding="utf-8")
    sign.chmod(0o600)
    folder.chmod(OWNER_FOLDER)


@contextmanager
def for_owner_alone(credentialed: bool) -> Iterator[None]:
    """Make the files that any library writes in the block their user's alone (umask 077).

    Threads share one umask: it is given back when the last of their blocks ends.

    Args:
        credentialed: whether the files hold credentialed text; if not, nothing changes.
    """
    if not credentialed:
        yield
        return
    with _UMASK_LOCK:
        _umasks.append(os.umask(0o077))
    try:
        yield
    finally:
        with _UMASK_LOCK:
            before = _umasks.pop()
            if not _umasks:
                os.umask(before)


@contextmanager
def writing(folder: Path, credentialed: bool, *, then: str = "") -> Iterator[None]:
    """Make a folder and write to it as the only process (``files.locked``).

    Args:
        folder: made with its parents where it is not there.
        credentialed: whether credentialed text is written: the folder is marked, and for its user alone.
        then: advice for a second process that finds the folder locked.

    Raises:
        UsageError: it is a file or a link that leads nowhere, or another process is at work there.
        OSError: it cannot be written.
    """
    with for_owner_alone(credentialed):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"{folder} is, or lies below, a file or a link to nothing. Choose another --out."
            ) from None
        with locked(folder, then=then):
            if credentialed:
                mark(folder)
            yield


def is_credentialed(path: Path) -> bool:
    """Return whether a file or folder holds credentialed text.

    Args:
        path: path of notes, a run, a built corpus or swapped files.

    Returns:
        True where ``why_credentialed`` gives a reason.
    """
    return bool(why_credentialed(path))


def why_credentialed(path: Path) -> str:
    """Return the reason to take a file or folder for credentialed text or for what is made of it.

    Args:
        path: path of notes, a run, a built corpus or swapped files; it need not exist.

    Returns:
        A clause without a capital; blank: nothing speaks for it.
    """
    path = path.resolve()
    if any(_is_marked(folder) for folder in (path, *path.parents)):
        return "the input lies in a folder that is marked so"
    if is_mimic_name(path.name):
        return "the file is named like MIMIC's notes"
    neighbours = _files_beside(path)
    if any(_is_mimic_neighbour(file) for file in neighbours):
        return "tables of MIMIC lie beside it"
    files = neighbours if path.is_dir() else (path,)
    for file in files:
        if _TABLE_FILE.fullmatch(file.name) and is_mimic_columns(columns_of(file)):
            return "the columns are those of MIMIC's notes"
    return ""


def _is_marked(folder: Path) -> bool:
    """Return whether a folder holds the mark, or a manifest that says credentialed."""
    if (folder / CREDENTIALED).exists():
        return True
    return any(_says_credentialed(folder / name) for name in _MANIFESTS)


def _says_credentialed(manifest: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return bool(parse_json(manifest.read_bytes()).get("credentialed"))
    return False


def _files_beside(path: Path) -> Sequence[Path]:
    """Return what lies in a folder, or beside a file, and in the folders there that MIMIC-IV comes in."""
    folder = path if path.is_dir() else path.parent
    folders = [folder / module for module in _MODULES]
    return [file for inner in folders if inner.is_dir() for file in inner.iterdir()]


def _is_mimic_neighbour(file: Path) -> bool:
    """Return whether a file is a table of MIMIC: its notes, or its patients (another hospital has other columns)."""
    if is_mimic_name(file.name):
        return True
    if _table_name(file.name) not in _PATIENT_TABLES:
        return False
    return any(column.strip().lower() == "subject_id" for column in columns_of(file))


def is_mimic_name(path: str) -> bool:
    """Return whether a file has the name of a table of MIMIC's notes (MIMIC-III, MIMIC-IV-Note).

    Args:
        path: path of any table format, packed or not; its last part alone is read.

    Returns:
        True for such a name.
    """
    return _table_name(path) in _NOTE_TABLES


def is_mimic_columns(columns: Iterable[str]) -> bool:
    """Return whether columns are those of MIMIC's notes.

    Args:
        columns: names in any case.

    Returns:
        True where they name an admission of MIMIC, or are those of MIMIC-IV-Note.
    """
    letters = {re.sub("[^a-z]", "", name.lower()) for name in columns}
    return bool(_ADMISSION_COLUMNS & letters) or letters >= _MIMIC4_COLUMNS


def columns_of(path: Path) -> list[str]:
    """Return the names of a table's columns, or of its first JSON line.

    Args:
        path: a Parquet, JSON lines, TSV or CSV file, packed or not.

    Returns:
        Names in order; none where none can be read.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    name = path.name.lower()
    with suppress(Exception):  # of any library that unpacks or reads
        if ".parquet" in name:
            return list(pq.read_schema(path).names)
        if ".jsonl" in name or ".ndjson" in name:
            first = pd.read_json(path, lines=True, nrows=1, encoding_errors="replace")
            return [str(column) for column in first]
        separator = "\t" if ".tsv" in name else ","
        with _first_lines(path) as lines:
            written = csv_dialect.read_dialect(lines, separator, _LONGEST)
            return next(filter(None, csv.reader(written.lines, delimiter=written.delimiter)), [])
    return []


def _first_lines(path: Path) -> TextIO:
    """Open the text of a CSV file; of a packed one the first two lines, which may name the sign between cells."""
    if path.suffix.lower() in (".csv", ".tsv"):  # pandas would read far more than a line
        return path.open(encoding="utf-8-sig", errors="replace", newline="")
    import pandas as pd

    lines = pd.read_csv(
        path,
        nrows=2,
        header=None,
        sep=_NO_SIGN,
        quoting=csv.QUOTE_NONE,
        encoding_errors="replace",
        dtype=str,
    )
    return io.StringIO("\n".join(lines[0]))


def _table_name(path: str) -> str:
    """Return the name of a table in lower case without its endings; blank for a file of another format."""
    match = _TABLE_FILE.fullmatch(Path(path).name)
    return match[1].lower() if match else ""


def refuse(path: Path, action: str, *, is_known: bool = False) -> None:
    """Refuse to publish or send credentialed text.

    Args:
        path: path of what would be published or sent.
        action: a participle for the error, such as "published".
        is_known: whether what was read of the path has already said so.

    Raises:
        UsageError: the path holds credentialed text.
    """
    if is_known or is_credentialed(path):
        raise UsageError(
            f"{path} contains credentialed clinical data, which must not be {action}. Keep it on this machine."
        )
