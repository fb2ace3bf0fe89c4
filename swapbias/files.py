"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from swapbias.errors import UsageError

LOCK = ".lock"  # an empty file of the folder, gone once the work is done
TEMPORARY = ".tmp"
_PATIENCE = 0.2  # seconds: a holder that just ended takes its file along, and the lock is tried again


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder that exists, until the block or this process ends.

    The file that a killed process leaves locks nobody out. Where the file system of the folder has no such locks
    (some network ones), the work goes on without one.

    Raises:
        UsageError: another process is at work there.
        OSError: nothing can be written there.
    """
    (folder / LOCK).touch()
    lock = FileLock(folder / LOCK, timeout=_PATIENCE, is_singleton=False)
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"{folder} is being worked on by another process. Wait until it ends, or stop it and go on with "
            f"swapbias audit --resume {folder}."
        ) from None
    except OSError:  # no locks on this file system: the file itself could be made
        pass
    try:
        yield
    finally:
        with suppress(OSError):  # before it is let go: afterwards it may be another's
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()


def cache_dir() -> Path:
    """The folder for what the package makes or fetches once: ``SWAPBIAS_CACHE`` or the user's cache folder."""
    chosen = os.environ.get("SWAPBIAS_CACHE")
    return Path(chosen) if chosen else user_cache_path("swapbias")


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # a write error names no file
    finally:
        temporary.unlink(missing_ok=True)


def parse_json(content: str | bytes) -> Any:
    """What JSON says, whoever wrote it.

    Raises:
        ValueError: it is none, or nested more deeply than anything that is read here.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_there(place: Path | str) -> bool:
    """Whether a path exists; a name that no file can have is none."""
    try:
        return Path(place).exists()
    except (OSError, ValueError):
        return False


def as_json(value: Any) -> Any:
    """A value as JSON holds it: keys as texts, lists for tuples, plain numbers for NumPy's, None for NaN."""
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    number = value.item() if hasattr(value, "item") else value  # of NumPy, which this room does without
    return None if isinstance(number, float) and not math.isfinite(number) else number


SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")
