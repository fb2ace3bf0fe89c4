"""One process at a time works on a run: a lock that ends with the process, however that ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

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
