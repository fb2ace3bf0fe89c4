"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import csv
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from swapbias.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

LOCK = ".lock"
"""An empty file of a folder, gone once the work is done."""
TEMPORARY = ".tmp"
"""End of the name of a file that is not whole yet."""
CREDENTIALED = "CREDENTIALED"
"""A file that stands in every folder that holds credentialed text or anything made from it."""
OWNER_FOLDER = 0o700
"""Mode of a folder that is its user's alone."""


@contextmanager
def locked(
    folder: Path, *, then: str = "", file: Path | None = None, wait: float = 0.2
) -> Iterator[None]:
    """Keep other processes out of a folder until the block or this process ends, where the file system has locks.

    Args:
        folder: the folder.
        then: a sentence on what to do where another process is at work; empty: wait, or choose another folder.
        file: the file that is locked; None: one in the folder.
        wait: seconds until the lock is given up.

    Raises:
        UsageError: Another process is at work there.
        OSError: It cannot be written.
    """
    from filelock import FileLock, Timeout  # takes long to import

    file = file or folder / LOCK
    with tempfile.TemporaryFile(dir=file.parent):
        pass  # known before: the lock would take a place that cannot be written for one that is locked
    # A holder that just ended takes its file along, so that the lock is tried again for a moment.
    lock = FileLock(file, timeout=wait, is_singleton=False)
    try:
        with warnings.catch_warnings():
            # Where there is no flock, filelock says that a file alone stands for it.
            warnings.simplefilter("ignore")
            lock.acquire()
    except Timeout:
        step = then or "Wait until it ends, or choose another folder."
        raise UsageError(f"{folder} is being worked on by another process. {step}") from None
    except (OSError, NotImplementedError):
        pass  # a file system without locks (filelock 3.13 raises the second): nobody can be kept out
    try:
        yield
    finally:
        with suppress(OSError):  # before it is let go: afterwards it may be another's
            file.unlink(missing_ok=True)
        lock.release()


def locked_place(target: Path) -> AbstractContextManager[None]:
    """Lock a folder that appears whole at the end: the lock stands beside it, under its name.

    Args:
        target: the folder.

    Raises:
        UsageError: As of ``locked``.
        OSError: As of ``locked``.
    """
    return locked(target, file=target.with_name(f".{target.name}{LOCK}"))


@contextmanager
def atomic_directory(target: Path, *, new: bool = False) -> Iterator[Path]:
    """Make a folder that takes the place of another when the block ends well, else is deleted.

    Args:
        target: the folder that is replaced, or does not exist yet.
        new: whether it may hold nothing now.

    Yields:
        The folder in which files are written.

    Raises:
        UsageError: The target is a file, a link or, where a new one is wanted, a folder that holds something, also
            one that a process left under another name when it was killed.
    """
    _refuse_target(target, new=new)
    target.parent.mkdir(parents=True, exist_ok=True)
    making = target.with_name(f".{target.name}.new")
    old = target.with_name(f".{target.name}.replaced")
    with locked_place(target):
        if old.exists() and not target.exists():  # of a process that was killed between two steps
            old.rename(target)
            if new:
                raise UsageError(
                    f"{target} is back as it was before a run that was stopped. Run the command again."
                )
        shutil.rmtree(making, ignore_errors=True)  # of a process that was killed
        making.mkdir(mode=OWNER_FOLDER)
        try:
            yield making
            making.chmod(_mode_of_new(making, target))
            # The old one goes only when the new one has its name; what was put there meanwhile stays.
            if target.exists() and new:
                target.rmdir()
            elif target.exists():
                shutil.rmtree(old, ignore_errors=True)
                target.rename(old)
            making.rename(target)
        finally:
            if old.exists() and not target.exists():
                old.rename(target)
            shutil.rmtree(making, ignore_errors=True)
        if old.exists():
            shutil.rmtree(old)


def _mode_of_new(making: Path, target: Path) -> int:
    """Return the mode of a folder that takes the place of another: the other's, closed where it is marked."""
    if (making / CREDENTIALED).exists():
        return OWNER_FOLDER
    return stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o755


def _refuse_target(target: Path, *, new: bool) -> None:
    """Raise a UsageError for a place that no folder can take."""
    thing = ""
    if target.is_symlink():
        thing = "link"
    elif target.exists() and not target.is_dir():
        thing = "file"
    elif target.exists() and new and any(target.iterdir()):
        thing = "folder that is not empty"
    if thing:
        raise UsageError(f"{target} is a {thing}. Choose another --out.")


def is_left_over(path: Path) -> bool:
    """Return whether a process that was killed before its first whole file may have left a file.

    Args:
        path: the path of a file; a folder with such files alone is as good as empty.
    """
    is_temporary = path.name.startswith(".") and path.name.endswith(TEMPORARY)
    return is_temporary or path.name in (LOCK, CREDENTIALED)


def cache_dir() -> Path:
    """Return the folder for what the package makes or fetches once.

    Returns:
        ``SWAPBIAS_CACHE`` or the user's cache folder.
    """
    folder = os.environ.get("SWAPBIAS_CACHE")
    return Path(folder) if folder else user_cache_path("swapbias")


def check_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices: they cannot be read twice, or never end.

    Args:
        path: the path of a file or folder.

    Raises:
        UsageError: It is something else.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(
            f"{path} is a pipe, a socket or a device, expected a file. Give the path of a file."
        )


def rooms_sha256(*rooms: str) -> str:
    """Return the sha256 of the code in some rooms of this package: edits without a new version count as new.

    Args:
        rooms: names of folders of the package.
    """
    package = Path(__file__).parent
    sources = sorted(path for room in rooms for path in (package / room).rglob("*.py"))
    lines = [f"{path.relative_to(package).as_posix()} {file_sha256(path)}\n" for path in sources]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal.

    Args:
        path: the path of the file.
    """
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all, piece by piece.

    Args:
        path: the path of the file.

    Yields:
        A path beside it: what is written there is flushed to disk and takes its name if the block ends well.

    Raises:
        IsADirectoryError: The path has no name of a file, as "." and "/".
        UsageError: It is a pipe, a socket or a device, which a file would replace.
    """
    check_regular(path)
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
    try:
        yield temporary
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed.

    Args:
        path: the path of the file.
        content: its bytes.

    Raises:
        OSError: It cannot be written.
    """
    try:
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        # A write error names no file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def parse_json(content: str | bytes, *, unique: bool = False) -> Any:
    """Read JSON, whoever wrote it.

    Args:
        content: the text, or its bytes.
        unique: refuse a key that stands twice in an object; else the last one counts.

    Raises:
        ValueError: It is no JSON, or nested too deeply.
    """
    try:
        return json.loads(content, object_pairs_hook=_unique_keys if unique else None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the keys and values of an object; a ValueError where a key stands twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} appears twice")
    return values


def is_there(path: Path | str) -> bool:
    """Return whether a path exists.

    Args:
        path: any name; one that no file can have does not exist.
    """
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def not_utf8(name: str, error: UnicodeDecodeError) -> ValueError:
    """Return the error for a file whose bytes are no UTF-8, or no UTF-16 or UTF-32 where it begins so.

    Args:
        name: the name of the file, for the sentence.
        error: raised when it was read.
    """
    return ValueError(f"{name} is not {error.encoding.upper()} ({error.reason}). Save it as UTF-8.")


def is_url(location: object) -> bool:
    """Return whether something is named by a URL, and not by a path of this machine.

    Args:
        location: a path or a URL.
    """
    return "://" in str(location)


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON on one line; NaN becomes null.

    Args:
        value: lists, dicts, texts, numbers, also NumPy's, and what pydantic can write.
    """
    from pydantic_core import to_json

    return to_json(value, inf_nan_mode="null", fallback=lambda number: number.item())


def as_json(value: Any) -> Any:
    """Return a value as JSON holds it: lists for tuples, plain numbers for NumPy's, None for NaN.

    Args:
        value: as of ``json_bytes``.
    """
    return json.loads(json_bytes(value))


def json_file(value: Any) -> bytes:
    """Return a JSON file that people can read; NaN becomes null.

    Args:
        value: as of ``as_json``.
    """
    return f"{json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()


# What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet takes a cell for a formula."""
    bare = text.lstrip("'")
    formula = bare[:1] in ("\t", "\r", "\n") or bare.lstrip().startswith(_FORMULA)
    return formula and bool(bare) and not _NEGATIVE.fullmatch(bare)


def escape_csv_cell(text: str) -> str:
    """Write a cell that no spreadsheet takes for a formula; ``unescape_csv_cell`` reads it back.

    >>> escape_csv_cell("=1+1"), escape_csv_cell("gap"), escape_csv_cell("-0.12"), escape_csv_cell("'=1")
    ("'=1+1", 'gap', '-0.12', "''=1")

    Args:
        text: any text.
    """
    return f"'{text}" if _is_formula(text) else text


def unescape_csv_cell(cell: str) -> str:
    """Return the text that ``escape_csv_cell`` made a cell of.

    Args:
        cell: the cell as it stands in the file.
    """
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _escape_text(cell: Any) -> Any:
    """Return a text as a safe cell; anything else as it is."""
    return escape_csv_cell(cell) if isinstance(cell, str) else cell


def as_csv(table: "pd.DataFrame") -> bytes:
    """Write a table as a CSV file with a header: NaN is an empty cell, numbers stay numbers, no text is a formula.

    Args:
        table: any table; its index is not written.
    """
    safe = table.rename(columns=_escape_text)
    quoting = csv.QUOTE_MINIMAL
    for index in range(len(safe.columns)):
        column = safe.iloc[:, index]
        if column.dtype.kind == "O":
            safe.isetitem(index, column.map(_escape_text))
            if any("\r" in cell for cell in column if isinstance(cell, str)):
                quoting = csv.QUOTE_NONNUMERIC  # else it is not quoted, and ends a row for a reader
    content: str = safe.to_csv(index=False, lineterminator="\n", quoting=quoting)
    return content.encode()


SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")
