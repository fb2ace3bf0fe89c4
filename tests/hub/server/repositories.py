"""Repositories in memory: files, commits named by their content, branches, tags and pull requests."""

import fnmatch
import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath

BINARY = frozenset((".arrow", ".bin", ".gz", ".jpg", ".npy", ".parquet", ".png", ".safetensors", ".skops", ".zip"))
LARGEST_REGULAR = 10_000_000  # bytes
PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}


@dataclass(frozen=True, slots=True)
class File:
    """The content of a file and whether it is stored in large-file storage."""

    data: bytes
    lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        """What git itself stores for a file in large-file storage."""
        return (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.data)}\n".encode()
        )

    @property
    def oid(self) -> str:
        """The name git gives to the blob."""
        blob = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.oid


def stored(path: str, data: bytes) -> File:
    """A file, stored as the Hub would choose by name, size and content."""
    return File(data, lfs=is_large(path, len(data), data[:512]))


def is_large(path: str, size: int, sample: bytes) -> bool:
    """Whether the Hub wants a file in large-file storage: by extension, by size, or because it is binary."""
    return PurePosixPath(path).suffix.lower() in BINARY or size > LARGEST_REGULAR or b"\0" in sample


@dataclass(slots=True)
class Upload:
    """A large file that was announced: only its own address may receive it."""

    size: int
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of all files; ``oid`` follows from what is in it, so equal histories have equal names."""

    oid: str
    parent: str
    title: str
    description: str
    author: str
    date: str
    files: dict[str, File]


@dataclass(slots=True)
class Pull:
    """A pull request; ``base`` is the commit it was opened on."""

    number: int
    title: str
    description: str
    author: str
    base: str
    date: str
    status: str = "open"  # open, closed or merged
    merged: str = ""

    @property
    def ref(self) -> str:
        return f"refs/pr/{self.number}"


@dataclass(slots=True)
class Repository:
    """One repository of the Hub."""

    kind: str
    name: str
    private: bool = False
    sdk: str = ""
    discussions: bool = True
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pulls: list[Pull] = field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    @property
    def address(self) -> str:
        """The path of its page."""
        return "/" + PREFIXES[self.kind] + self.name

    def commit(
        self,
        ref: str,
        files: dict[str, File],
        *,
        title: str,
        author: str,
        parent: str = "",
        description: str = "",
    ) -> Commit:
        """Move a ref to a new commit that holds ``files``; returns the commit."""
        names = {path: file.oid for path, file in sorted(files.items())}
        told = json.dumps([self.kind, self.name, parent, title, description, author, names])
        made = Commit(hashlib.sha1(told.encode()).hexdigest(), parent, title, description, author, now(), dict(files))
        self.commits[made.oid] = made
        self.refs[ref] = made.oid
        return made

    def resolve(self, revision: str) -> Commit | None:
        """The commit a branch, a tag, a full ref or a commit name stands for; None where there is none."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.commits[self.refs[name]]
        return self.commits.get(revision)

    def head(self, ref: str = "refs/heads/main") -> Commit:
        """The newest commit of a ref that is there."""
        return self.commits[self.refs[ref]]

    def history(self, revision: str) -> Iterator[Commit]:
        """Commits from the newest to the first."""
        commit = self.resolve(revision)
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parent)

    def named(self, folder: str) -> dict[str, str]:
        """Refs under a folder such as "refs/tags/", by short name."""
        return {ref.removeprefix(folder): oid for ref, oid in self.refs.items() if ref.startswith(folder)}

    def open_pull(
        self, base: Commit, files: dict[str, File], *, title: str, author: str, description: str
    ) -> tuple[Pull, Commit]:
        """Open a pull request with one commit; returns both."""
        pull = Pull(len(self.pulls) + 1, title, description, author, base.oid, now())
        self.pulls.append(pull)
        return pull, self.commit(
            pull.ref, files, title=title, author=author, parent=base.oid, description=description
        )

    def pull(self, number: int) -> Pull | None:
        """The pull request of that number; None where there is none."""
        return self.pulls[number - 1] if 0 < number <= len(self.pulls) else None

    def changed(self, pull: Pull) -> list[str]:
        """Paths that a pull request adds, changes or deletes."""
        before, after = self.commits[pull.base].files, self.head(pull.ref).files
        return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))

    def merge(self, pull: Pull, *, author: str) -> None:
        """Bring the changes of a pull request to the main branch."""
        after, main = self.head(pull.ref).files, self.head()
        files = {path: file for path, file in main.files.items() if path not in self.changed(pull)}
        files |= {path: after[path] for path in self.changed(pull) if path in after}
        title = f"{pull.title} (#{pull.number})"
        pull.merged = self.commit("refs/heads/main", files, title=title, author=author, parent=main.oid).oid
        pull.status = "merged"


def ignored(path: str, gitignore: str) -> bool:
    """Whether a .gitignore leaves a path out (names and globs; no negation)."""
    patterns = [line.strip().strip("/") for line in gitignore.splitlines() if line.strip() and line[0] != "#"]
    parts = PurePosixPath(path)
    paths = [path, *(str(parent) for parent in parts.parents), *parts.parts]
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns for name in paths)


def now() -> str:
    """The time as the Hub writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
