"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import csv
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from swapbias.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

LOCK = ".lock"  # an empty file of the folder, gone once the work is done
TEMPORARY = ".tmp"
CREDENTIALED = (
    "CREDENTIALED"  # stands in every folder that holds credentialed text or anything made from it
)
OWNER_FOLDER = 0o700  # of a folder that is its user's alone


@contextmanager
def locked(
    folder: Path, *, then: str = "", file: Path | None = None, wait: float = 0.2
) -> Iterator[None]:
    """Keep other processes out of a folder until the block or this process ends, where the file system has locks.

    UsageError: another process is at work there, also ``wait`` seconds later; ``then`` says what to do. OSError: it
    cannot be written.
    """
    file = file or folder / LOCK
    with tempfile.TemporaryFile(dir=file.parent):
        pass  # known before: the lock would take a place that cannot be written for one that is locked
    # A holder that just ended takes its file along, so that the lock is tried again for a moment.
    lock = FileLock(file, timeout=wait, is_singleton=False)
    try:
        with (
            warnings.catch_warnings()
        ):  # where there is no flock, filelock says that a file alone stands for it
            warnings.simplefilter("ignore")
            lock.acquire()
    except Timeout:
        next_step = then or "Wait until it ends, or choose another folder."
        raise UsageError(f"{folder} is being worked on by another process. {next_step}") from None
    except (
        OSError,
        NotImplementedError,
    ):  # a file system without locks (filelock 3.13 raises the second):
        pass  # nobody can be kept out
    try:
        yield
    finally:
        with suppress(OSError):  # before it is let go: afterwards it may be another's
            file.unlink(missing_ok=True)
        lock.release()


def locked_place(target: Path) -> AbstractContextManager[None]:
    """As ``locked``, of a folder that appears whole at the end: the lock stands beside it, under its name."""
    return locked(target, file=target.with_name(f".{target.name}{LOCK}"))


@contextmanager
def atomic_directory(target: Path, *, new: bool = False) -> Iterator[Path]:
    """A folder that takes the place of ``target`` when the block ends well, else is deleted.

    UsageError: ``target`` is a file, a link or, where a ``new`` one is wanted, a folder that holds something.
    """
    link = target.is_symlink()
    there = target.exists()
    if link or (there and (not target.is_dir() or (new and any(target.iterdir())))):
        what = "link" if link else "folder that holds something" if target.is_dir() else "file"
        raise UsageError(f"{target} is a {what}. Choose another --out.")
    target.parent.mkdir(parents=True, exist_ok=True)
    making = target.with_name(f".{target.name}.new")
    with locked_place(target):
        shutil.rmtree(making, ignore_errors=True)  # of a process that was killed
        making.mkdir(mode=OWNER_FOLDER)
        try:
            yield making
            making.chmod(OWNER_FOLDER if (making / CREDENTIALED).exists() else 0o755)
            if target.exists():  # the old one goes only when the new one is whole; what was put there meanwhile stays
                target.rmdir() if new else shutil.rmtree(target)
            making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)


def is_left_over(path: Path) -> bool:
    """What a process that was killed before its first whole file may leave: such a folder is as good as empty."""
    return path.name in (LOCK, CREDENTIALED) or (
        path.name.startswith(".") and path.name.endswith(TEMPORARY)
    )


def cache_dir() -> Path:
    """The folder for what the package makes or fetches once: ``SWAPBIAS_CACHE`` or the user's cache folder."""
    chosen = os.environ.get("SWAPBIAS_CACHE")
    return Path(chosen) if chosen else user_cache_path("swapbias")


def check_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices with a UsageError: they cannot be read twice, or never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(
            f"{path} is a pipe, a socket or a device, expected a file. Write it to a file first."
        )


def rooms_sha256(*rooms: str) -> str:
    """sha256 of the code in some rooms of this package: what is edited without a new version counts as new."""
    package = Path(__file__).parent
    sources = sorted(path for room in rooms for path in (package / room).rglob("*.py"))
    lines = [f"{path.relative_to(package).as_posix()} {file_sha256(path)}\n" for path in sources]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside a file: what is written there is flushed to disk and takes its name if the block ends well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed."""
    try:
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise OSError(
            error.errno, error.strerror, str(path)
        ) from error  # a write error names no file


def parse_json(content: str | bytes, *, unique: bool = False) -> Any:
    """What JSON says, whoever wrote it; a ValueError where it is none, or nested too deeply.

    Args:
        content: the text, or its bytes.
        unique: refuse a key that stands twice in an object; else the last one counts.
    """
    try:
        return json.loads(content, object_pairs_hook=_unique_keys if unique else None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The keys and values of an object, each key once."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice")
    return values


def is_there(place: Path | str) -> bool:
    """Whether a path exists; a name that no file can have is none."""
    try:
        return Path(place).exists()
    except (OSError, ValueError):
        return False


def not_utf8(name: str, error: UnicodeDecodeError) -> ValueError:
    """The error for a file whose bytes are no UTF-8."""
    return ValueError(f"{name} is not UTF-8 ({error.reason}). Save it as UTF-8.")


def is_url(place: object) -> bool:
    """Whether a place is named by a URL, and not by a path of this machine."""
    return "://" in str(place)


def as_json(value: Any) -> Any:
    """A value as JSON holds it: lists for tuples, plain numbers for NumPy's, None for NaN."""
    from pydantic_core import to_json

    return json.loads(to_json(value, inf_nan_mode="null", fallback=lambda one: one.item()))


def json_file(value: Any) -> bytes:
    """A JSON file that people can read; NaN becomes null."""
    return f"{json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()


_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "＝",
    "＋",
    "－",
    "＠",
)  # what a spreadsheet takes for the start of a formula
_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def _is_formula(text: str) -> bool:
    bare = text.lstrip("'")
    formula = bare[:1] in ("\t", "\r", "\n") or bare.lstrip().startswith(_FORMULA)
    return formula and bool(bare) and not _NEGATIVE.fullmatch(bare)


def escape_csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula; ``unescape_csv_cell`` reads it back.

    >>> escape_csv_cell("=1+1"), escape_csv_cell("gap"), escape_csv_cell("-0.12"), escape_csv_cell("'=1")
    ("'=1+1", 'gap', '-0.12', "''=1")
    """
    return f"'{text}" if _is_formula(text) else text


def unescape_csv_cell(cell: str) -> str:
    """The text that ``escape_csv_cell`` made this cell of."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def as_csv(table: "pd.DataFrame") -> bytes:
    """A table as a CSV file with a header: NaN is an empty cell, numbers stay numbers, no text is a formula."""
    safe = table.rename(
        columns=lambda name: escape_csv_cell(name) if isinstance(name, str) else name
    )
    quoting = csv.QUOTE_MINIMAL
    for place in range(len(safe.columns)):
        column = safe.iloc[:, place]
        if column.dtype.kind == "O":
            safe.isetitem(
                place,
                column.map(lambda cell: escape_csv_cell(cell) if isinstance(cell, str) else cell),
            )
            if any("\r" in cell for cell in column if isinstance(cell, str)):
                quoting = csv.QUOTE_NONNUMERIC  # else it is not quoted, and ends a row for a reader
    content: str = safe.to_csv(index=False, lineterminator="\n", quoting=quoting)
    return content.encode()


SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")
