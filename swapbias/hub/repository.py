"""Repositories of the Hub: their names, what they hold at a commit, and what differs from files that are here."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from swapbias.errors import UsageError
from swapbias.files import file_sha256
from swapbias.privacy import Files

HUB_FILES = frozenset({".gitattributes"})  # what the Hub itself puts into a new repository


_REPO = re.compile(r"\w[\w.-]*/\w[\w.-]*(?<!\.git)", re.ASCII)


SHARED = re.compile(rf"({_REPO.pattern})(?:/([^/@]+))?(?:@(.+))?", re.ASCII)


def is_shared_name(name: str) -> bool:
    """Tell whether a name can be one of shared runs.

    Args:
        name: any text.

    Returns:
        True for OWNER/NAME and OWNER/NAME/RUN, either with @REVISION.
    """
    return SHARED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository of the Hub; UsageError where its name cannot be one."""

    kind: str
    """``model``, ``dataset`` or ``space``."""
    name: str
    """``owner/name``."""

    def __post_init__(self) -> None:
        from huggingface_hub.errors import HFValidationError  # these two take long to import
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        try:
            validate_repo_id(self.name)
            is_name = _REPO.fullmatch(self.name) is not None
        except HFValidationError:
            is_name = False
        if not is_name:
            raise UsageError(
                f"{self.name!r} is no name of a repository, expected OWNER/NAME. Correct it."
            )

    @property
    def owner(self) -> str:
        """The user or organisation."""
        return self.name.partition("/")[0]


class Commit(NamedTuple):
    """A commit of a repository's main branch."""

    id: str
    """40 hexadecimal digits."""
    title: str
    """The first line of its message."""


@dataclass(frozen=True, slots=True)
class State:
    """A repository's content at a commit."""

    repo: Repo
    """The repository."""
    commit: str
    """The commit, 40 hexadecimal digits."""
    private: bool
    """Whether few may read it."""
    files: Mapping[str, str]
    """Path -> digest, ``sha256:...`` of large files and ``git:...`` of others."""
    tags: Mapping[str, str]
    """Name -> commit."""


@dataclass(frozen=True, slots=True)
class Change:
    """Files to write, and paths to delete; false where nothing changes."""

    write: Files
    """Path -> content, or the file on disk that holds it."""
    delete: tuple[str, ...] = ()
    """Paths."""

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def difference(state: State | None, files: Files, *, within: str = "") -> Change:
    """Compare a repository with the files that it is to hold.

    Args:
        state: the repository; None where it is not there.
        files: the files by path.
        within: a folder of the repository, outside which nothing is deleted; blank for all of it.

    Returns:
        what must be written and deleted so that it holds exactly these files.
    """
    before = state.files if state else {}
    write = {}
    for path, content in files.items():
        if not _has_digest(content, before.get(path)):
            write[path] = content
    inside = [path for path in before if path.startswith(f"{within}/") or not within]
    delete = sorted(path for path in inside if path not in files and path not in HUB_FILES)
    return Change(write, tuple(delete))


def _has_digest(content: bytes | Path, expected: str | None) -> bool:
    """Tell whether a content has the digest that the Hub gives; None: the Hub has no such file."""
    kind, _, digest = (expected or "").partition(":")
    if kind == "sha256" and isinstance(content, Path):
        return digest == file_sha256(content)
    if kind == "sha256":
        return digest == hashlib.sha256(as_bytes(content)).hexdigest()
    data = as_bytes(content)
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return digest == blob.hexdigest()


def as_bytes(content: bytes | Path) -> bytes:
    """Return the content of a file that is in memory or on disk.

    Args:
        content: the content, or the file's path.

    Returns:
        the content.
    """
    return content if isinstance(content, bytes) else content.read_bytes()
