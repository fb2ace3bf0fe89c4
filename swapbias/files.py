"""Files of this machine: written whole or not at all, one process at a time, and the cache folder."""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from swapbias.errors import UsageError

LOCK = ".lock"  # an empty file of the folder, gone once the work is done
TEMPORARY = ".tmp"
CHECKSUM = ".sha256"
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


def temporary_for(path: Path) -> Path:
    """Where a file is written before it has its name: no two processes, of whichever machine, share one."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")


def checksum_file(path: Path) -> Path:
    """Beside a file whose sha256 nothing else records yet: the hidden file that holds it."""
    return path.with_name(f".{path.name}{CHECKSUM}")


def checksum(path: Path) -> str | None:
    """The sha256 that was recorded beside a file before it got its name; None where there is none."""
    try:
        return checksum_file(path).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except ValueError:  # damaged itself: no file has it
        return ""


SHA256 = "sha256"  # key of a manifest: the sha256 of files by name, and under its own name that of what it says


def seal(manifest: Mapping[str, Any], own: str) -> str:
    """sha256 of what a manifest of plain JSON says, but for the one that it records of itself by its ``own`` name."""
    rest = {name: value for name, value in manifest.get(SHA256, {}).items() if name != own}
    return hashlib.sha256(json.dumps({**manifest, SHA256: rest}, sort_keys=True).encode()).hexdigest()


def sealed(manifest: Mapping[str, Any], own: str) -> dict[str, Any]:
    """The manifest as JSON holds it; one that records the sha256 of files records its own too."""
    plain: dict[str, Any] = as_json(manifest)
    return {**plain, SHA256: {**plain[SHA256], own: seal(plain, own)}} if SHA256 in plain else plain


def is_sealed(manifest: Mapping[str, Any], own: str) -> bool:
    """Whether a manifest says what it did when it was written; those of older versions do not tell."""
    known = manifest[SHA256].get(own) if isinstance(manifest.get(SHA256), dict) else None
    return known is None or known == seal(manifest, own)


def write_checked(path: Path, content: bytes) -> None:
    """``write_whole``, and its sha256 beside it: first, so that no file is ever there without one."""
    write_whole(checksum_file(path), f"{hashlib.sha256(content).hexdigest()}\n".encode())
    write_whole(path, content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed."""
    temporary = temporary_for(path)
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
