"""What this package keeps on a machine between audits: how much room it takes, and clearing it."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swapbias.errors import UsageError
from swapbias.sources import cache_dir

LIMIT = "SWAPBIAS_CACHE_LIMIT"
# What can be had again, by folder; labels that the user imported cannot, and stay.
CLEARED = {"scores": "scores", "upstream": "upstream", "models": "calibration-*"}
_DEFAULT_LIMIT = "2 GB"
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one kind: entries (files; folders of models) and their bytes."""

    kind: str
    entries: int
    bytes: int


def kept() -> list[Kept]:
    """What is kept of each kind that can be cleared."""
    found = []
    for kind in CLEARED:
        files = [one for place in _places(kind) for one in _files(place)]
        entries = len(_places(kind)) if kind == "models" else len(files)
        found.append(Kept(kind, entries, sum(size for _, size, _ in files)))
    return found


def clear(kind: str) -> Kept:
    """Remove what is kept of one kind; says what was.

    Raises:
        UsageError: no such kind.
        OSError: something cannot be removed.
    """
    if kind not in CLEARED:
        raise UsageError(f"Nothing of kind {kind!r} is kept: expected {', '.join(CLEARED)} or all.")
    gone = next(one for one in kept() if one.kind == kind)
    for place in _places(kind):
        shutil.rmtree(place)
    return gone


def cache_limit() -> int:
    """Most bytes of scores that are kept: ``SWAPBIAS_CACHE_LIMIT``, as ``500 MB`` or a number of bytes.

    Raises:
        UsageError: it is no size.
    """
    given = os.environ.get(LIMIT, _DEFAULT_LIMIT)
    found = _SIZE.fullmatch(given)
    if not found:
        raise UsageError(f"{LIMIT} is {given!r}, expected a size like 500 MB or 2 GB (0: keep nothing). Correct it.")
    return int(float(found[1]) * 1_000 ** " KMGT".index(found[2].upper() or " "))


def trim(folder: Path, limit: int) -> int:
    """Remove the least recently used files until the others take at most ``limit`` bytes; the bytes left."""
    files = sorted(_files(folder))
    left = sum(size for _, size, _ in files)
    for _, size, path in files:
        if left <= limit:
            break
        path.unlink(missing_ok=True)  # another process may have been faster
        left -= size
    return left


def _places(kind: str) -> list[Path]:
    return sorted(path for path in cache_dir().glob(CLEARED[kind]) if path.is_dir() and not path.is_symlink())


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, bytes and path of every file; what another process removes meanwhile is left out."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                state = path.stat()
                yield state.st_mtime, state.st_size, path


def bytes_in(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none."""
    return sum(size for _, size, _ in _files(folder))
