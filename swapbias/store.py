"""Object stores (S3, Google Cloud Storage, Azure): a folder is copied here, worked on, and copied back."""

import errno
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, copy_files

from swapbias.errors import UsageError
from swapbias.files import cache_dir, locked_place

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
_QUERY = ("endpoint_override", "region", "scheme")  # of an S3 URL
_BEGUN = ("manifest.json", "swap.json")  # one of these is in every folder that swapbias wrote


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of a store.

    Attributes:
        url: of the folder; keys, region and endpoint are found where the store's own tools look for them.
        own: whether the user declared that credentialed notes may lie there.
    """

    url: str
    own: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.password or (parts.scheme in ("s3", "gs", "gcs") and parts.username):
            raise UsageError("The URL of a store holds a key, and URLs are printed. Leave it to the environment.")
        if parts.scheme not in SCHEMES or not parts.netloc or not parts.path.strip("/"):
            raise UsageError(f"{self.url} names no folder of a store: expected s3://, gs:// or abfs://BUCKET/FOLDER.")
        if other := [name for name, _ in parse_qsl(parts.query) if name not in _QUERY]:
            raise UsageError(f"The URL of a store sets {other[0]}, expected {', '.join(_QUERY)} alone. Drop it.")

    def __str__(self) -> str:
        return self.url

    @contextmanager
    def mirrored(self) -> Iterator[Path]:
        """A local copy of the folder, for one process of this machine; at the end the store becomes what it is.

        A killed process leaves its copy, and the next one goes on with it.

        Raises:
            UsageError: the folder holds something else, or another process of this machine works on it.
            OSError: the store refuses, or cannot be reached.
        """
        mirror = cache_dir() / "stores" / hashlib.sha256(self.url.encode()).hexdigest()[:16]
        mirror.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_place(mirror):
            mirror.mkdir(mode=0o700, exist_ok=True)
            with self._named():
                files, root = FileSystem.from_uri(self.url)
                names = _names(files, root)
                if names and not {*_BEGUN} & {*names}:
                    raise UsageError(f"{self.url} is not empty. Choose another --out.")
                if names:
                    copy_files(root, str(mirror), source_filesystem=files, destination_filesystem=LocalFileSystem())
            try:
                yield mirror
            finally:
                with self._named():
                    for name in set(names) - {one.relative_to(mirror).as_posix() for one in mirror.rglob("*")}:
                        files.delete_file(f"{root}/{name}")
                    if any(one.is_file() for one in mirror.rglob("*")):
                        files.create_dir(root, recursive=True)
                        here = LocalFileSystem()
                        copy_files(str(mirror), root, source_filesystem=here, destination_filesystem=files)
                shutil.rmtree(mirror)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the store name its folder, in one line."""
        try:
            yield
        except (OSError, pa.ArrowException, NotImplementedError) as error:
            said = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise OSError(getattr(error, "errno", None) or errno.EIO, said.rstrip("."), self.url) from error


def _names(files: FileSystem, root: str) -> list[str]:
    """The files below a folder of a store, by their paths from there."""
    found = files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    names = [one.path.removeprefix(f"{root.rstrip('/')}/") for one in found if one.type == FileType.File]
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise UsageError(f"The store has a file {name!r}, which is no path of a run. Choose another folder.")
    return names
