"""Files of a repository on the Hub: what differs, and which names may be written to disk."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Protocol

from swapbias.errors import HubError
from swapbias.privacy import Files

LONGEST_NAME = 240  # characters of a path that every file system takes
KEPT = frozenset({".gitattributes"})  # what the Hub itself puts into a new repository
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}


class Held(Protocol):
    """Something with files by path and the id of their content (``hub.State``)."""

    @property
    def files(self) -> Mapping[str, str]:
        """Path to ``sha256:...`` or ``git:...``."""


@dataclass(frozen=True, slots=True)
class Change:
    """Files to write, and paths to delete; false where nothing changes."""

    write: Files
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.write or self.delete)


def difference(state: Held | None, files: Files, *, within: str = "") -> Change:
    """What must be written and deleted so that a repository holds exactly ``files`` (``within`` a folder).

    Args:
        state: what is there; None: nothing.
        files: what should be.
        within: a folder; what lies outside it, and the Hub's own files, stay.
    """
    there = state.files if state else {}
    write = {path: content for path, content in files.items() if not _same(there.get(path), content)}
    inside = [path for path in there if path.startswith(f"{within}/") or not within]
    return Change(write, tuple(sorted(path for path in inside if path not in files and path not in KEPT)))


def _same(known: str | None, content: bytes | Path) -> bool:
    if known is None:
        return False
    kind, _, digest = known.partition(":")
    return digest == (_sha256(content) if kind == "sha256" else _git_id(content))


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _git_id(content: bytes | Path) -> str:
    """As git names a blob."""
    data = content if isinstance(content, bytes) else content.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def matching(names: Iterable[str], patterns: Collection[str]) -> list[str]:
    """Names that fit any pattern (``*`` takes slashes as well), all without one, sorted."""
    return sorted(name for name in names if not patterns or any(fnmatchcase(name, one) for one in patterns))


def check_names(where: str, names: Collection[str]) -> None:
    """Refuse names that a stranger could have chosen to leave the folder or to hide one file behind another.

    Raises:
        HubError: a path that is absolute, climbs, holds control characters or backslashes, is too long or reserved,
            differs from another one by case alone, or is the folder of another one as well.
    """
    seen: dict[str, str] = {}
    folders = {str(folder) for name in names for folder in PurePosixPath(name.casefold()).parents}
    for name in names:
        trouble = next(_troubles(name), "")
        other = seen.setdefault(name.casefold(), name)
        if not trouble and other != name:
            trouble = f"differs from {other!r} by case alone"
        if not trouble and name.casefold() in folders:
            trouble = "is the folder of another file as well"
        if trouble:
            raise HubError(f"{where} holds the file {name[:80]!r}, which {trouble}. Nothing was fetched.")


def _troubles(name: str) -> Iterator[str]:
    parts = name.split("/")
    if (
        name.startswith(("/", "~"))
        or PurePosixPath(name).is_absolute()
        or any(one in ("", ".", "..") for one in parts)
    ):
        yield "does not stay in its folder"
    if "\\" in name or ":" in name or not name.isprintable():
        yield "has characters that no file name should have"
    if len(name.encode()) > LONGEST_NAME:
        yield f"is longer than {LONGEST_NAME} bytes"
    if any(one.partition(".")[0].casefold() in _RESERVED or one.endswith((" ", ".")) for one in parts):
        yield "not every system can keep"
    if any(one == ".git" for one in parts):
        yield "belongs to git"
