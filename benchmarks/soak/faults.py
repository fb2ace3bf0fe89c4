"""A disk and a clock that fail: within a process, its n-th step of writing kills it, is refused, or is torn."""

import errno
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

KILL = "kill"
TORN = "torn"
FULL = "ENOSPC"
BROKEN = "EIO"
CLOCK = "clock"
_CHANGES = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Counts the steps of writing below a folder, and lets the ``at``-th of them fail (0: none).

    A step is a file that is opened for writing, flushed to disk, renamed, made or removed: the hook of the
    interpreter sees them all, before they happen, so that nothing of the package knows of it. So is a request, before
    it is sent and when its reply is there, where ``sends`` is set. ``torn``: what was written of a file is half there
    after a power cut.
    """

    def __init__(self, place: Path, kind: str, at: int, tell: Path, *, sends: bool = False) -> None:
        """From now on, for as long as the process lives; the count is written to ``tell`` by ``report``."""
        self.place = str(place)
        self.kind = kind
        self.at = at
        self.tell = tell
        self.steps = 0
        self.flush = os.fsync
        os.fsync = self._flush  # type: ignore[assignment]
        sys.addaudithook(self._hook)
        if sends:
            self.send = httpx.HTTPTransport.handle_request
            httpx.HTTPTransport.handle_request = lambda way, request: self._sent(way, request)  # type: ignore[method-assign]
        if kind == CLOCK:
            _jumping(random.Random(at))

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = set(mode) & set("wax+") if isinstance(mode, str) else (flags or 0) & _WRITES
            if writes and self._is_ours(path):
                self._step(None)
        elif event in _CHANGES and any(self._is_ours(one) for one in args[:2]):
            self._step(None)

    def _is_ours(self, path: object) -> bool:
        if not isinstance(path, str | os.PathLike):
            return False
        return os.path.abspath(os.fspath(path)).startswith(self.place)

    def _flush(self, file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if os.readlink(f"/proc/self/fd/{number}").startswith(self.place):
            self._step(number)
        self.flush(file)

    def _sent(self, way: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        self._step(None)
        reply = self.send(way, request)
        self._step(None)
        return reply

    def _step(self, file: int | None) -> None:
        self.steps += 1
        if self.steps != self.at or self.kind == CLOCK:
            return
        if self.kind in (KILL, TORN):
            if self.kind == TORN and file is not None:
                os.ftruncate(file, os.fstat(file).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self.kind)
        raise OSError(code, os.strerror(code))

    def report(self) -> None:
        """Write the count where the parent reads it."""
        self.tell.write_text(json.dumps(self.steps), encoding="utf-8")


def _jumping(draw: random.Random) -> None:
    """A clock that is set to days ago or to years ahead from call to call."""
    real = time.time
    shift = [0.0]

    def now() -> float:
        shift[0] = draw.choice(
            (0.0, shift[0], -86_400.0 * draw.randrange(2_000), 86_400.0 * draw.randrange(2_000))
        )
        return real() + shift[0]

    time.time = now
