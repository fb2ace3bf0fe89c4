"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import hashlib
import math
import os
import tempfile
import warnings
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
def locked(folder: Path, *, then: str = "Wait until it ends, or choose another folder.") -> Iterator[None]:
    """Keep other processes out of a folder that exists, until the block or this process ends.

    The lock is ``flock`` of the system: the file that a killed process leaves locks nobody out. Processes of other
    machines are kept out as far as the file system passes locks on (NFS 4, and 3 with lockd; not every cluster's).
    Where it has no such locks, the work goes on without one.

    Args:
        folder: what is written.
        then: what to do about another process that is at work there, as a sentence.

    Raises:
        UsageError: another process is at work there.
        OSError: nothing can be written there.
    """
    with _locked(folder / LOCK, f"{folder} is being worked on by another process. {then}"):
        yield


@contextmanager
def locked_place(target: Path) -> Iterator[None]:
    """As ``locked``, of a folder that appears whole at the end: the lock stands beside it, under its name.

    Raises:
        UsageError: another process makes the same folder. OSError: nothing can be written there.
    """
    told = f"{target} is being worked on by another process. Wait until it ends, or choose another folder."
    with _locked(target.with_name(f".{target.name}{LOCK}"), told):
        yield


@contextmanager
def _locked(file: Path, told: str) -> Iterator[None]:
    with tempfile.TemporaryFile(dir=file.parent):
        pass  # known before: the lock would take a place that cannot be written for one that is locked
    lock = FileLock(file, timeout=_PATIENCE, is_singleton=False)
    try:
        with warnings.catch_warnings():  # where there is no flock, filelock says that a file alone stands for it
            warnings.simplefilter("ignore")
            lock.acquire()
    except Timeout:
        raise UsageError(told) from None
    except (OSError, NotImplementedError):  # no locks on this file system
        pass
    try:
        yield
    finally:
        with suppress(OSError):  # before it is let go: afterwards it may be another's
            file.unlink(missing_ok=True)
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


def as_json(value: Any) -> Any:
    """A value as JSON holds it: keys as texts, lists for tuples, plain numbers for NumPy's, None for NaN."""
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    number = value.item() if hasattr(value, "item") else value  # of NumPy, which this room does without
    return None if isinstance(number, float) and not math.isfinite(number) else number


SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")
