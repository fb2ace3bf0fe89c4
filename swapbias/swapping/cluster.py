"""Who does the work: this process, or workers on the machines of a Ray cluster.

A job is a plan of parts. A worker is called with a part, reads what it needs by itself, and returns or writes what
came of it. So a part that is done twice has the same result, and what one engine began another one finishes.
"""

import os
import platform
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swapbias.errors import MissingExtraError, UsageError
from swapbias.privacy import notes_read, safe_message

ENGINES = ("local", "ray")
Part = Mapping[str, Any]  # names and numbers, as JSON has them; ``name`` is unique, ``rows`` is its size
Result = Mapping[str, Any]
Work = Callable[[Part, Callable[[float], None]], Result]  # the second reports how many more rows are done
WorkerPool = Callable[[Iterable[Part]], Iterator[tuple[Part, Result]]]

MOST_DEATHS = 4  # of workers on one part, which is then taken for the cause
_SILENCE = 30.0  # seconds without any worker before the user is informed
_OBJECT_STORE = 100 * 2**20  # bytes; nothing large goes through it
_LIBRARIES = ("swapbias", "numpy", "pyarrow", "torch", "transformers")  # another version may give other bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where parts are done.

    Attributes:
        name: ``local`` (this process) or ``ray``.
        address: of a running Ray cluster; None: one is started on this machine, and ends with the job. The variable
            RAY_ADDRESS is not read.
        workers: how many; None: as many as there are GPUs for, else as many as the cores allow.
        gpus: of each worker; may be a fraction.
    """

    name: str = "local"
    address: str | None = None
    workers: int | None = None
    gpus: float = 0.0

    def check(self) -> None:
        """Refuse settings that do not fit together, before any work.

        Raises:
            UsageError: an unknown engine, settings of ray for another; MissingExtraError: ray is not installed.
        """
        if self.name not in ENGINES:
            raise UsageError(f"Unknown engine {self.name!r}: expected {' or '.join(ENGINES)}.")
        for name in ("address", "workers", "gpus"):
            if self.local and getattr(self, name):
                raise UsageError(f"{name} is about workers of ray, and the engine is local. Choose the engine ray.")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"workers is {self.workers}, expected 1 or more. Give a larger number.")
        if self.gpus < 0:
            raise UsageError(f"GPUs per worker is {self.gpus:g}, expected 0 or more. Give a larger number.")
        if not self.local and find_spec("ray") is None:
            raise MissingExtraError(
                "The engine ray needs ray, which is not installed. Install with pip install 'swapbias[ray]'."
            )

    @property
    def local(self) -> bool:
        """Whether all is done in this process."""
        return self.name == "local"


LOCAL = Engine()


@contextmanager
def worker_pool(
    engine: Engine,
    maker: str,
    spec: Mapping[str, Any],
    *,
    own: Callable[[], Work],
    cores: int | None = None,
    credentialed: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Workers for the parts of a job: called with parts, the pool gives each with its result, in any order.

    Args:
        engine: where.
        maker: ``module:function``, called with ``spec`` (as JSON has it) once by each worker of a cluster.
        own: makes the worker of this process.
        cores: of each worker of a cluster; None: all of a machine.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        say: called with a sentence when no worker is there.
        advance: called with how many more rows of a part are done; by a cluster with all at once.

    Raises:
        UsageError, ValueError, OSError: what a worker raised; no cluster; a part on which several workers died.
    """
    engine.check()
    started: list[_RayPool] = []

    def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
        if engine.local:
            worker = own()
            yield from ((part, worker(part, partial(advance, part))) for part in parts)
            return
        if not started:
            started.append(_RayPool(engine, maker, spec, cores, credentialed, say))
        for part, result in started[0].run(iter(parts)):
            advance(part, part["rows"])
            yield part, result

    try:
        yield pool
    finally:
        for one in started:
            one.close()


class Worker:
    """In a process of the cluster: makes the worker at the first part, and returns errors as their sentences."""

    def __init__(self, maker: str, spec: Mapping[str, Any], threads: int, place: str, credentialed: bool) -> None:
        """``place``: the folder that relative paths begin at, where this machine has it."""
        if credentialed:
            os.umask(0o077)
            notes_read()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        if os.path.isdir(place):
            os.chdir(place)
        threads_of = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        os.environ |= {**dict.fromkeys(threads_of, str(threads)), "TOKENIZERS_PARALLELISM": "false"}
        self._maker, self._spec = maker, spec
        self._work: Work | None = None

    def ready(self) -> dict[str, str]:
        """The machine, and the versions of what decides on bytes."""
        return {"machine": platform.node(), **library_versions()}

    def run(self, part: Part) -> tuple[Result | None, Exception | None]:
        """The result of a part, or its error."""
        try:
            if self._work is None:
                module, _, name = self._maker.partition(":")
                self._work = getattr(import_module(module), name)(self._spec)
            return dict(self._work(part, lambda more: None)), None
        except OSError as error:
            place = error.filename if isinstance(error.filename, str) else None
            return None, OSError(error.errno, error.strerror, place) if error.errno else OSError(safe_message(error))
        except Exception as error:  # noqa: BLE001 - it would come as a traceback of Ray's, with texts
            kind = next(one for one in (UsageError, ValueError, Exception) if isinstance(error, one))
            return None, (RuntimeError if kind is Exception else kind)(safe_message(error))


def library_versions(names: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """Of libraries that are installed, by default of those that decide which bytes are written."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class _RayPool:
    """The workers of a cluster. One that dies is replaced, and its part goes to another.

    Ray's own restarts would wait for ever where the machine of a worker is gone and no other has its cores free. So
    parts are handed out here, one at a time to each worker that is ready.
    """

    def __init__(
        self, engine: Engine, maker: str, spec: Mapping[str, Any], cores: int | None, credentialed: bool, say: Any
    ) -> None:
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
        import ray

        self.ray: Any = ray
        self.say = say
        self.own_cluster = not ray.is_initialized()
        if self.own_cluster:
            _connect(ray, engine.address)
        count, threads = _spread(ray, engine, cores)
        actor = self.ray.remote(Worker).options(num_cpus=threads, num_gpus=engine.gpus, scheduling_strategy="SPREAD")
        self.start = partial(actor.remote, maker, dict(spec), threads, str(Path.cwd()), credentialed)
        self.work: dict[Any, tuple[Any, Part | None]] = {}  # worker and part by reference; no part: it is starting
        self.free: list[Any] = []
        for _ in range(count):
            self._add()

    def _add(self) -> None:
        worker = self.start()
        self.work[worker.ready.remote()] = worker, None

    def run(self, parts: Iterator[Part]) -> Iterator[tuple[Part, Result]]:
        """Each part with its result, once."""
        again: deque[Part] = deque()
        deaths: Counter[str] = Counter()
        quiet_since = time.monotonic()
        while True:
            while self.free and (part := again.popleft() if again else next(parts, None)) is not None:
                worker = self.free.pop()
                self.work[worker.run.remote(dict(part))] = worker, part
            busy = any(part is not None for _, part in self.work.values())
            if self.free and not busy:
                return
            if self.free or busy:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _SILENCE:
                quiet_since = time.monotonic()
                self.say("No worker is there: each waits for cores or GPUs of the cluster. Ctrl-C stops.")
            for end in self.ray.wait([*self.work], num_returns=1, timeout=1.0)[0]:
                worker, part = self.work.pop(end)
                try:
                    value = self.ray.get(end)
                except self.ray.exceptions.RayError:
                    self._add()
                    if part is not None:
                        again.append(part)
                        deaths[part["name"]] += 1
                        _check_deaths(part, deaths)
                    continue
                self.free.append(worker)
                if part is None:
                    _check_versions(value)
                elif value[1] is not None:
                    raise value[1] from None
                else:
                    yield part, value[0]

    def close(self) -> None:
        """End all workers, and the cluster that was started or connected to here."""
        for worker in (*self.free, *(one for one, _ in self.work.values())):
            with suppress(self.ray.exceptions.RayError, ValueError):  # it is gone already
                self.ray.kill(worker)
        if self.own_cluster:
            self.ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """To the cluster at an address, or to a new one of this machine."""
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        how |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE, "num_cpus": os.cpu_count()}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "local", **how)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
        where = f"at {address}" if address else "on this machine"
        raise UsageError(
            f"No Ray cluster could be used {where} ({said}). Check the address and ray status."
        ) from None
    if threading.current_thread() is threading.main_thread():  # Ray's own handler prints registers
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _spread(ray: Any, engine: Engine, cores: int | None) -> tuple[int, int]:
    """How many workers, and the cores of each."""
    nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    counts = [int(one.get("CPU", 0)) for one in nodes if one.get("CPU", 0) >= 1] or [1]
    gpus, wanted = sum(one.get("GPU", 0) for one in nodes), engine.gpus
    if wanted and gpus < wanted:
        raise UsageError(f"The cluster has {gpus:g} GPUs, and each worker needs {wanted:g}. Give each fewer.")
    each = cores or min(counts)
    count = engine.workers or max(1, int(gpus // wanted) if wanted else sum(one // each for one in counts))
    return count, max(1, min(each, sum(counts) // count))


def _check_deaths(part: Part, deaths: Mapping[str, int]) -> None:
    if deaths[part["name"]] >= MOST_DEATHS:
        raise ValueError(
            f"{MOST_DEATHS} workers died on part {part['name']}, most likely for want of memory. What is done is "
            "saved: go on with fewer workers, or on larger machines."
        ) from None


def _check_versions(ready: Mapping[str, str]) -> None:
    for name, mine in library_versions().items():
        if ready.get(name) != mine:
            raise UsageError(
                f"The worker on {ready['machine']} has {name} {ready.get(name, 'not installed')}, and this process "
                f"{mine}: results would differ. Install the same on every machine."
            )
