"""Object stores (S3, Google Cloud Storage, Azure): a folder of files that are put whole, one process at a time."""

import errno
import hashlib
import json
import os
import platform
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from swapbias.errors import UsageError
from swapbias.files import LOCK, checksum, checksum_file, file_sha256, parse_json

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")  # stores that show an object once all of it is there
BEAT, LEASE, SETTLE = 10.0, 60.0, 2.0  # seconds: see ``Store.held``
_QUERY = ("endpoint_override", "region", "scheme")  # of an S3 URL
_AT_ONCE = 16  # objects that are fetched or removed


class Store:
    """A folder of a store. Objects appear whole, under their names, or not at all.

    Attributes:
        url: of the folder, without settings: objects are named below it.
        address: as ``open`` takes it.
        own: whether the user declared that credentialed notes may lie there.
    """

    def __init__(self, url: str, files: FileSystem, root: str, *, own: bool = False, address: str = "") -> None:
        """Of a file system of pyarrow, and the path there."""
        self.url, self.own, self.address = url.rstrip("/"), own, address or url
        self._files, self._root = files, root.rstrip("/")
        self._lost = threading.Event()

    @classmethod
    def open(cls, url: str, *, own: bool = False) -> "Store":
        """The store of a URL; keys, region and endpoint are found where its own tools look for them.

        Raises:
            UsageError: no URL of a store. OSError: it cannot be reached.
        """
        parts = urlsplit(url)
        if parts.password or (parts.scheme in ("s3", "gs", "gcs") and parts.username):
            raise UsageError(
                f"The URL of a folder in {parts.hostname} holds a key, and URLs are printed. Leave it to the "
                "environment or the configuration of the store's own tools."
            )
        if parts.scheme not in SCHEMES:
            raise UsageError(
                f"{url} is no place in a store: expected s3://, gs:// or abfs:// and then BUCKET/FOLDER. Of other "
                "file systems name the folder where they are mounted."
            )
        if not parts.netloc or not parts.path.strip("/"):
            raise UsageError(f"{url} names no folder of a bucket. Write {parts.scheme}://BUCKET/FOLDER.")
        if other := [name for name, _ in parse_qsl(parts.query) if name not in _QUERY]:
            raise UsageError(
                f"The URL of a folder in {parts.hostname} sets {other[0]}, and one may set {', '.join(_QUERY)} "
                "alone. Drop it."
            )
        with _told(url):
            files, root = _file_system(url, parts.scheme, parts.query)
        return cls(parts._replace(query="", fragment="").geturl(), files, root, own=own, address=url)

    def __str__(self) -> str:
        """Its URL, for sentences and to go on with."""
        return self.address

    def write(self, name: str, content: bytes) -> None:
        """Put an object, whole or not at all.

        Raises:
            UsageError: another process has taken the place over. OSError: the store refuses, or cannot be reached.
        """
        self._check_held()
        self._put(name, content)

    def _check_held(self) -> None:
        if self._lost.is_set():
            raise UsageError(
                f"{self.url} was taken over by another process, as this one could give no sign of life for "
                f"{LEASE:.0f} seconds. What was scored is kept there."
            )

    def _put(self, name: str, content: bytes) -> None:
        """By a thread of its own: a signal that came between opening and closing would put half of it."""

        def put() -> None:
            with _told(f"{self.url}/{name}"):
                stream = self._files.open_output_stream(f"{self._root}/{name}", compression=None)
                stream.write(content)
                stream.close()

        with ThreadPoolExecutor(1) as thread:
            thread.submit(put).result()

    def write_checked(self, name: str, content: bytes) -> None:
        """As ``files.write_checked``: its sha256 beside it, first."""
        sha256 = hashlib.sha256(content).hexdigest()
        self.write(_beside(name), f"{sha256}\n".encode())
        self.write(name, content)

    def read(self, name: str) -> bytes | None:
        """An object, or None where there is none.

        Raises:
            OSError: the store refuses, or cannot be reached.
        """
        with _told(f"{self.url}/{name}"):
            try:
                with self._files.open_input_stream(f"{self._root}/{name}", compression=None) as stream:
                    content: bytes = stream.readall()
                    return content
            except FileNotFoundError:
                return None

    def read_end(self, name: str, count: int) -> bytes:
        """The last bytes of an object, so many or all.

        Raises:
            OSError: as ``read``, and where there is none.
        """
        with _told(f"{self.url}/{name}"), self._files.open_input_file(f"{self._root}/{name}") as file:
            file.seek(max(0, file.size() - count))
            end: bytes = file.read()
            return end

    def names(self, under: str = "") -> list[str]:
        """Names of the objects in a folder of it, and in all below.

        Raises:
            OSError: as ``read``.
        """
        place = f"{self._root}/{under}".rstrip("/")
        with _told(self.url):
            found = self._files.get_file_info(FileSelector(place, allow_not_found=True, recursive=True))
        names = (one.path.removeprefix(f"{self._root}/") for one in found if one.type == FileType.File)
        return sorted(name for name in names if _is_within(name))

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Copy objects into a folder, by their names; those that are gone are left out.

        Raises:
            OSError: as ``read``.
        """

        def one(name: str) -> None:
            content = self.read(name)
            if content is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(one, names):
                pass

    def fetch_all(self, folder: Path) -> None:
        """As ``fetch``, of all that is there but the lock."""
        self.fetch(folder, [name for name in self.names() if name != LOCK])

    def fetch_checked(self, folder: Path, names: Iterable[str]) -> None:
        """As ``fetch``, of objects that have their sha256 beside them.

        Raises:
            ValueError: one is not what was put.
        """
        wanted = list(names)
        self.fetch(folder, [one for name in wanted for one in (name, _beside(name))])
        for name in wanted:
            path = folder / name
            if not path.exists() or checksum(path) != file_sha256(path):
                path.unlink(missing_ok=True)
                raise ValueError(
                    f"{self.url}/{name} is missing, or not what was put there. Go on with swapbias audit --resume "
                    f"{self.address}, which makes it again."
                )

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects.

        Raises:
            UsageError, OSError: as ``write``.
        """
        self._check_held()

        def one(name: str) -> None:
            with _told(f"{self.url}/{name}"), suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{name}")

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(one, names):
                pass

    def remove_folder(self, name: str) -> None:
        """Remove a folder of it with all that is below, where it is there.

        Raises:
            UsageError, OSError: as ``write``.
        """
        self._check_held()
        with _told(f"{self.url}/{name}"), suppress(FileNotFoundError):
            self._files.delete_dir(f"{self._root}/{name}")

    @contextmanager
    def mirrored(self, *, begun: bool, say: Callable[[str], None]) -> Iterator[Path]:
        """Hold it, with a temporary folder of this machine for a copy; of a job that was ``begun`` all is there.

        Raises:
            UsageError: another process works on it. OSError: it cannot be written.
        """
        with self.held(say), tempfile.TemporaryDirectory(prefix="swapbias-") as mirror:
            if begun:
                self.fetch_all(Path(mirror))
            yield Path(mirror)

    @contextmanager
    def held(self, say: Callable[[str], None]) -> Iterator[None]:
        """Keep other processes out until the block ends.

        A store has no locks of a system: an object that says who works here is put again every ``BEAT`` seconds. One
        that stays as it is for ``LEASE`` seconds is of a process that was killed, and is taken over; of two who take
        it at once the one whose name still stands after ``SETTLE`` seconds has it. Should two come to work all the
        same, the first notices at its next beat and ends: what both put meanwhile is the same.

        Raises:
            UsageError: another process works here. OSError: it cannot be written.
        """
        token = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._wait(say)
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(token, ended), daemon=True)
        try:
            self._sign(token, 0)
            time.sleep(SETTLE)
            if self._signed().get("holder") != token:
                raise self._busy()
            beating.start()
            yield
        finally:
            ended.set()
            if beating.ident is not None:
                beating.join()
            with suppress(OSError, UsageError):
                if self._signed().get("holder") == token:
                    self.remove([LOCK])

    def _wait(self, say: Callable[[str], None]) -> None:
        """Until nobody signs any more."""
        found = self._signed()
        if not found:
            return
        say(
            f"{self.url} has the lock of a process on {found.get('machine')}: waiting {LEASE:.0f} seconds at most, "
            "to see whether it lives."
        )
        until = time.monotonic() + LEASE
        while time.monotonic() < until and (now := self._signed()):
            if now != found:
                raise self._busy()
            time.sleep(BEAT / 10)

    def _busy(self) -> UsageError:
        return UsageError(
            f"{self.url} is being worked on by another process (on {self._signed().get('machine')}). Wait until it "
            "ends, or choose another folder."
        )

    def _sign(self, token: str, beat: int) -> None:
        self._put(LOCK, json.dumps({"holder": token, "machine": platform.node(), "beat": beat}).encode())

    def _signed(self) -> dict[str, Any]:
        """What the lock says; nothing where there is none."""
        try:
            found = parse_json(self.read(LOCK) or b"{}")
        except ValueError:
            found = {"holder": "unknown"}
        return found if isinstance(found, dict) else {"holder": "unknown"}

    def _beat(self, token: str, ended: threading.Event) -> None:
        beat = 0
        while not ended.wait(BEAT):
            beat += 1
            with suppress(OSError):  # the network may be back at the next
                if self._signed().get("holder", token) != token:
                    self._lost.set()
                    return
                self._sign(token, beat)


def _file_system(url: str, scheme: str, query: str) -> tuple[FileSystem, str]:
    """pyarrow's, and the path there; of S3 one that puts what is small in one request, where this version can."""
    if scheme == "s3":
        with suppress(pa.ArrowInvalid):
            found: tuple[FileSystem, str] = FileSystem.from_uri(
                f"{url}{'&' if query else '?'}allow_delayed_open=true"
            )
            return found
    found = FileSystem.from_uri(url)
    return found


def _is_within(name: str) -> bool:
    """Whether a name stays within the folder that it is fetched to: a store takes any."""
    path = PurePosixPath(name)
    strange = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name
    return bool(path.parts) and not strange and str(path) == name


def _beside(name: str) -> str:
    return checksum_file(Path(name)).as_posix()


@contextmanager
def _told(place: str) -> Iterator[None]:
    """What a store says against it as an error of a place, in one line."""
    try:
        yield
    except (OSError, pa.ArrowException, NotImplementedError) as error:
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise OSError(getattr(error, "errno", None) or errno.EIO, said.rstrip("."), place) from error
