"""TODO: what this module holds."""

import errno
import hashlib
import shutil
from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of a store by its URL; ``own``: the user declared that credentialed notes may lie there."""

    url: str
    own: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        schemes = ("s3", "gs", "gcs", "abfs", "abfss")
        if parts.password or (parts.scheme in schemes[:3] and parts.username):
            raise UsageError(
                "The URL of a store holds a key, and URLs are printed. Leave it to the environment."
            )
        if parts.scheme not in schemes or not parts.netloc or not parts.path.strip("/"):
            raise UsageError(
                f"{self.url} names no folder of a store: expected s3://, gs:// or abfs://BUCKET/FOLDER."
            )
        known = ("endpoint_override", "region", "scheme")  # of an S3 URL
        if other := [name for name, _ in parse_qsl(parts.query) if name not in known]:
            raise UsageError(
                f"The URL of a store sets {other[0]}, expected {listed(known)} alone. Drop it."
            )

    @contextmanager
    def mirrored(self) -> Iterator[Path]:
        """A local copy of the folder, for one process of this machine; at the end the store becomes what it is.

        UsageError: the folder holds something else, or another process works on it. OSError: the store refuses.
        """
        from pyarrow.fs import copy_files  # takes long to import

        mirror = files.cache_dir() / "stores" / hashlib.sha256(self.url.encode()).hexdigest()[:16]
        mirror.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.locked_place(mirror):
            mirror.mkdir(mode=0o700, exist_ok=True)
            with self._named():
                there, root = _file_system(self.url)
                names = _names(there, root)
                if names and not {MANIFEST, "swap.json"} & {
                    *names
                }:  # one is in every folder that swapbias wrote
                    raise UsageError(f"{self.url} is not empty. Choose another --out.")
                if names:
                    copy_files(root, str(mirror), source_filesystem=there)
            try:
                yield mirror
            finally:
                with self._named():
                    made = {
                        one.relative_to(mirror).as_posix()
                        for one in mirror.rglob("*")
                        if one.is_file()
                    }
                    for name in set(names) - made:
                        there.delete_file(f"{root}/{name}")
                    if made:
                        there.create_dir(root, recursive=True)
                        copy_files(str(mirror), root, destination_filesystem=there)
                shutil.rmtree(mirror)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the store name its folder, in one line."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise OSError(
                getattr(error, "errno", None) or errno.EIO, first_line(error), self.url
            ) from error


def _file_system(url: str) -> "tuple[FileSystem, str]":
    from pyarrow.fs import FileSystem

    found: tuple[FileSystem, str] = FileSystem.from_uri(url)
    return found


def _names(store: "FileSystem", root: str) -> list[str]:
    """The files below a folder of a store, by their paths from there."""
    from pyarrow.fs import FileSelector, FileType

    found = store.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    names = [
        one.path.removeprefix(f"{root.rstrip('/')}/") for one in found if one.type == FileType.File
    ]
    for name in names:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
            raise UsageError(
                f"The store has a file {name!r}, which is no path of a run. Choose another folder."
            )
    return names
