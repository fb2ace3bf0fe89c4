"""Who does the work: this process, processes of this machine, or workers on the machines of a Ray cluster.

A job is a plan of parts. A worker is called with a part, reads what it needs by itself, and returns or writes what
came of it. So a part that is done twice has the same result, and what one engine began another one finishes.
"""

import json
import multiprocessing
import os
import platform
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from swapbias.errors import MissingExtraError, UsageError
from swapbias.privacy import notes_read, safe_message

ENGINES = ("local", "ray")
Part = Mapping[str, Any]  # names and numbers, as JSON has them; ``name`` is unique, ``rows`` is its size
Result = Mapping[str, Any]
Work = Callable[[Part, Callable[[float], None]], Result]  # the second reports how many more rows are done
PartResults = Generator[tuple[Part, Result], None, None]
WorkerPool = Callable[[Iterable[Part]], Iterator[tuple[Part, Result]]]

MOST_DEATHS = 4  # of workers on one part, which is then taken for the cause
_SILENCE = 30.0  # seconds without any worker before the user is informed
_OBJECT_STORE = 100 * 2**20  # bytes; nothing large goes through it
_LIBRARIES = ("swapbias", "numpy", "pyarrow", "torch", "transformers")  # another version may give other bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where parts are done: ``local`` (this machine) or ``ray``.

    Attributes:
        address: of a running Ray cluster; None: one is started on this machine, and ends with the job.
        workers: how many; None: as many as there are GPUs for, else as many as the cores allow.
        gpus: of each worker; may be a fraction.
    """

    name: str = "local"
    address: str | None = None
    workers: int | None = None
    gpus: float = 0.0

    def check(self) -> None:
        """UsageError: settings that do not fit together; MissingExtraError: ray is not installed."""
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
    processes: int = 1,
    credentialed: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Workers for the parts of a job: called with parts, the pool gives each with its result, in any order.

    Args:
        engine: where.
        maker: ``module:function``, called with ``spec`` once by each worker elsewhere.
        own: makes the worker of this process.
        cores: of each worker of a cluster; None: all of a machine.
        processes: of this machine, where there is no cluster and ``spec`` is JSON; 1: this one alone.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        say: called with a sentence when no worker is there.
        advance: called with how many more rows of a part are done; from elsewhere with all at once.

    Raises:
        UsageError, ValueError, OSError: what a worker raised; no cluster; a part on which several workers died.
    """
    engine.check()
    with ExitStack() as started:
        cluster: list[_RayPool] = []

        def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
            if engine.local and processes == 1:
                worker = own()
                yield from ((part, worker(part, partial(advance, part))) for part in parts)
                return
            if engine.local:
                done = _by_processes(processes, partial(_work, maker, json.dumps(spec)), parts)
            else:
                if not cluster:  # of what is in the cache alone none is started
                    cluster.append(_RayPool(engine, maker, spec, cores, credentialed, say))
                    started.callback(cluster[0].close)
                done = cluster[0].run(iter(parts))
            with closing(done):
                for part, result in done:
                    advance(part, part["rows"])
                    yield part, result

        yield pool


def _by_processes(count: int, work: Callable[[Part], Result], parts: Iterable[Part]) -> PartResults:
    """The parts in their order, each with its result; at most ``count + 1`` are begun at a time."""
    # Not "fork": Arrow's threads would not live on in the child.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_process)
    waiting: deque[tuple[Part, Future[Result]]] = deque()
    try:
        for part in parts:
            waiting.append((part, pool.submit(work, part)))
            if len(waiting) > count:
                first, future = waiting.popleft()
                yield first, future.result()
        yield from ((part, future.result()) for part, future in waiting)
    except BrokenProcessPool as error:
        raise ValueError(
            "A worker process died, most likely for want of memory. Run the same command again with fewer "
            "--processes: finished parts are kept."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_process() -> None:
    """Ctrl-C is the parent's, and a parent that was killed takes its processes along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def _work(maker: str, spec: str, part: Part) -> Result:
    return _worker(maker, spec)(part, lambda more: None)


@cache
def _worker(maker: str, spec: str) -> Work:
    """Made once in each process."""
    return _made(maker, json.loads(spec))


def _made(maker: str, spec: Mapping[str, Any]) -> Work:
    module, _, name = maker.partition(":")
    work: Work = getattr(import_module(module), name)(spec)
    return work


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
            self._work = self._work or _made(self._maker, self._spec)
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
    """The workers of a cluster, each at one part. One that dies is replaced, and its part goes to another.

    Neither ``ActorPool`` nor ``max_restarts``: a part would wait for ever for a worker whose machine is gone.
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

    def run(self, parts: Iterator[Part]) -> PartResults:
        """Each part with its result, once."""
        again: deque[Part] = deque()
        deaths: Counter[str] = Counter()
        while True:
            while self.free and (part := again.popleft() if again else next(parts, None)) is not None:
                worker = self.free.pop()
                self.work[worker.run.remote(dict(part))] = worker, part
            busy = any(part is not None for _, part in self.work.values())
            if self.free and not busy:
                return
            ended = self.ray.wait([*self.work], num_returns=1, timeout=_SILENCE)[0]
            if not (ended or busy):
                self.say("No worker is there: each waits for cores or GPUs of the cluster. Ctrl-C stops.")
            for end in ended:
                worker, part = self.work.pop(end)
                try:
                    value = self.ray.get(end)
                except self.ray.exceptions.RayError:
                    self._add()
                    if part is not None:
                        again.append(part)
                        deaths[part["name"]] += 1
                        if deaths[part["name"]] >= MOST_DEATHS:
                            raise ValueError(
                                f"{MOST_DEATHS} workers died on part {part['name']}, most likely for want of memory. "
                                "What is done is saved: go on with fewer workers, or on larger machines."
                            ) from None
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


def _check_versions(ready: Mapping[str, str]) -> None:
    for name, mine in library_versions().items():
        if ready.get(name) != mine:
            raise UsageError(
                f"The worker on {ready['machine']} has {name} {ready.get(name, 'not installed')}, and this process "
                f"{mine}: results would differ. Install the same on every machine."
            )
