"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from platformdirs import user_cache_path

from swapbias.errors import UsageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process out there
    fcntl = None

LOCK = ".lock"  # an empty file of the folder, gone once the work is done


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder that exists, until the block or this process ends.

    The file that a killed process leaves locks nobody out. Where the system or the file system of the folder (some
    network ones) has no such locks, the work goes on without one.

    Raises:
        UsageError: another process is at work there.
        OSError: nothing can be written there.
    """
    held = _acquire(folder)
    try:
        yield
    finally:
        if held is not None:
            (folder / LOCK).unlink(missing_ok=True)  # before it is let go: afterwards it may be another's
            os.close(held)


def _acquire(folder: Path) -> int | None:
    """The open file that holds the lock, or None where there are no locks."""
    if fcntl is None:
        return None
    while True:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # the second is what some network file systems say
            os.close(file)
            raise UsageError(
                f"{folder} is being worked on by another process. Wait until it ends, or stop it and go on with "
                f"swapbias audit --resume {folder}."
            ) from None
        except OSError:  # no locks on this file system
            return file
        if _is_there(file, folder / LOCK):
            return file
        os.close(file)  # whoever held it has ended between the two steps, and took the file along


def _is_there(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


TEMPORARY = ".tmp"


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


SUFFIXES = (".csv", ".csv.gz", ".jsonl", ".parquet")
