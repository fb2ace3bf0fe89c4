"""A folder of an object store that a run is copied to, checked by its URL and mirrored on this machine."""

import errno
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from swapbias import files
from swapbias.errors import UsageError, first_line, listed
from swapbias.runs.run import MANIFEST

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")  # the first three have keys as user names
_S3_SETTINGS = ("endpoint_override", "region", "scheme")  # of the URL


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of an object store."""

    url: str
    """Address of the folder, without a key."""
    own: bool = False
    """Whether the user declared that credentialed notes may lie there."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.password or (parts.scheme in _SCHEMES[:3] and parts.username):
            raise UsageError(
                "The URL of a store contains a key, and URLs are printed. Leave it to the environment."
            )
        if parts.scheme not in _SCHEMES or not parts.netloc or not parts.path.strip("/"):
            raise UsageError(
                f"{self.url} names no folder of a store: expected s3://, gs:// or abfs://BUCKET/FOLDER."
            )
        unknown = [name for name, _ in parse_qsl(parts.query) if name not in _S3_SETTINGS]
        if unknown:
            raise UsageError(
                f"The URL of a store sets {unknown[0]}, expected {listed(_S3_SETTINGS)} alone. Drop it."
            )

    @contextmanager
    def mirrored(self) -> Iterator[Path]:
        """Copy the folder to this machine for one process; at the end the store becomes what the copy is.

        Yields:
            The copy.

        Raises:
            UsageError: the folder holds something else, or another process works on it.
            OSError: the store refuses.
        """
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        mirror = files.cache_dir() / "stores" / digest
        mirror.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.locked_place(mirror):
            mirror.mkdir(mode=0o700, exist_ok=True)
            with self._errors_with_url():
                names = self._fetch(mirror)
            try:
                yield mirror
            finally:
                with self._errors_with_url():
                    self._send(mirror, names)
                shutil.rmtree(mirror)

    def _fetch(self, mirror: Path) -> list[str]:
        """Copy what the store has to a folder, and return its paths."""
        from pyarrow.fs import copy_files  # takes long to import

        store, root = _file_system(self.url)
        names = _names(store, root)
        # Every folder that swapbias wrote has one of these.
        if names and not {MANIFEST, "swap.json"} & {*names}:
            raise UsageError(f"{self.url} is not empty. Choose another --out.")
        if names:
            copy_files(root, str(mirror), source_filesystem=store)
        return names

    def _send(self, mirror: Path, names: Sequence[str]) -> None:
        """Copy a folder to the store, and delete the files of the store that the folder lacks."""
        from pyarrow.fs import copy_files

        store, root = _file_system(self.url)
        paths = [path for path in mirror.rglob("*") if path.is_file()]
        kept = {path.relative_to(mirror).as_posix() for path in paths}
        for name in set(names) - kept:
            store.delete_file(f"{root}/{name}")
        if kept:
            store.create_dir(root, recursive=True)
            copy_files(str(mirror), root, destination_filesystem=store)

    @contextmanager
    def _errors_with_url(self) -> Iterator[None]:
        """Let errors of the store name its folder, in one line."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise OSError(
                getattr(error, "errno", None) or errno.EIO, first_line(error), self.url
            ) from error


def _file_system(url: str) -> "tuple[FileSystem, str]":
    """Return the store of a URL, and the path of the folder there."""
    from pyarrow.fs import FileSystem

    store, root = FileSystem.from_uri(url)
    return store, str(root)


def _names(store: "FileSystem", root: str) -> list[str]:
    """Return the files below a folder of a store, by their paths from there."""
    from pyarrow.fs import FileSelector, FileType

    entries = store.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    paths = [entry.path for entry in entries if entry.type == FileType.File]
    names = [path.removeprefix(f"{root.rstrip('/')}/") for path in paths]
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
            raise UsageError(
                f"The store has a file {name!r}, which is no path of a run. Choose another folder."
            )
    return names
