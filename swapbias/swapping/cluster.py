"""Who does the work: this process, processes of this machine, or workers on the machines of a Ray cluster.

A job is a plan of parts. A worker is called with a part, reads what it needs by itself, and returns or writes what
came of it. So a part that is done twice has the same result, and what one engine began another one finishes.
"""

import multiprocessing
import os
import pickle
import platform
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
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
_Done = Future[tuple[Result, Exception | None]]

MOST_DEATHS = 4  # of workers on one part, which is then taken for the cause
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
        """Whether all is done on this machine, without Ray."""
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
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Workers for the parts of a job: called with parts, the pool gives each with its result, in any order.

    Args:
        engine: where.
        maker: ``module:function``, called with ``spec`` once by each process elsewhere.
        own: makes the worker of this process.
        cores: of each worker of a cluster; None: all of a machine.
        processes: of this machine, where there is no cluster; 1: this one alone.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        advance: called with how many more rows of a part are done; from elsewhere with all at once.

    Raises:
        UsageError, ValueError, OSError: what a worker raised; no cluster; a part on which several workers died.
    """
    engine.check()
    work = partial(_result, maker, pickle.dumps(dict(spec)))
    with ExitStack() as started:

        def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
            if engine.local and processes == 1:
                worker = own()
                yield from ((part, worker(part, partial(advance, part))) for part in parts)
                return
            # Of what is in the cache alone no cluster is started.
            workers = _processes(processes, work) if engine.local else _cluster(engine, cores, credentialed, work)
            with closing(_each(*started.enter_context(workers), iter(parts))) as done:
                for part, result in done:
                    advance(part, part["rows"])
                    yield part, result

        yield pool


def _each(
    count: int, submit: Callable[[Part], _Done], died: Any, parts: Iterator[Part]
) -> Generator[tuple[Part, Result], None, None]:
    """The parts, each with its result, ``count`` at a time; one whose process or machine ``died`` is done again."""
    running, again, deaths = dict[_Done, Part](), deque[Part](), Counter[str]()
    while True:
        while len(running) < count and (part := again.popleft() if again else next(parts, None)) is not None:
            running[submit(part)] = part
        if not running:
            return
        for ended in wait(running, return_when=FIRST_COMPLETED).done:
            part = running.pop(ended)
            try:
                result, error = ended.result()
            except died:
                again.append(part)
                deaths[part["name"]] += 1
                if deaths[part["name"]] >= MOST_DEATHS:
                    raise ValueError(
                        f"{MOST_DEATHS} workers died on part {part['name']}, most likely for want of memory. "
                        "What is done is saved: go on with fewer workers, or on larger machines."
                    ) from None
                continue
            if error is not None:
                raise error from None
            yield part, result


def _result(maker: str, spec: bytes, part: Part) -> tuple[Result, Exception | None]:
    """In another process: the result of a part, or its error as one sentence, without a traceback's texts."""
    try:
        return dict(_worker(maker, spec)(part, lambda more: None)), None
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else None
        return {}, OSError(error.errno, error.strerror, place) if error.errno else OSError(safe_message(error))
    except Exception as error:  # noqa: BLE001 - whatever it is
        kind = next(one for one in (UsageError, ValueError, Exception) if isinstance(error, one))
        return {}, (RuntimeError if kind is Exception else kind)(safe_message(error))


@lru_cache(maxsize=1)
def _worker(maker: str, spec: bytes) -> Work:
    """Made once in each process."""
    module, _, name = maker.partition(":")
    work: Work = getattr(import_module(module), name)(pickle.loads(spec))  # noqa: S301 - of the job itself
    return work


@contextmanager
def _processes(count: int, work: Callable[[Part], Any]) -> Iterator[tuple[int, Callable[[Part], _Done], Any]]:
    """Processes of this machine: how many parts they take at a time, how they are given one, and how they fail."""
    # Not "fork": Arrow's threads would not live on in the child.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_process)
    try:
        yield count + 1, lambda part: pool.submit(work, part), ()
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
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _cluster(
    engine: Engine, cores: int | None, credentialed: bool, work: Callable[[Part], Any]
) -> Iterator[tuple[int, Callable[[Part], _Done], Any]]:
    """Processes of a Ray cluster, as of ``_processes``; a cluster that was started here ends with the job."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
    ray: Any = import_module("ray")
    own, given = not ray.is_initialized(), set[Any]()
    if own:
        _connect(ray, engine.address)
    try:
        nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
        counts = [int(one.get("CPU", 0)) for one in nodes if one.get("CPU", 0) >= 1] or [1]
        gpus, wanted = sum(one.get("GPU", 0) for one in nodes), engine.gpus
        if wanted and gpus < wanted:
            raise UsageError(f"The cluster has {gpus:g} GPUs, and each worker needs {wanted:g}. Give each fewer.")
        each = cores or min(counts)
        count = engine.workers or max(1, int(gpus // wanted) if wanted else sum(one // each for one in counts))
        threads = max(1, min(each, sum(counts) // count))
        # A process stays for the next part, so that a model is loaded once; Ray's own retries have no end.
        how = {"num_cpus": threads, "num_gpus": wanted, "max_calls": 0, "max_retries": 0}
        task = ray.remote(scheduling_strategy="SPREAD", **how)(_remote)
        settings = ray.put((threads, str(Path.cwd()), credentialed, tuple(library_versions().items()), work))

        def submit(part: Part) -> _Done:
            given.add(ref := task.remote(settings, dict(part)))
            done: _Done = ref.future()
            done.add_done_callback(lambda _: given.discard(ref))
            return done

        try:
            yield count, submit, ray.exceptions.RayError
        finally:
            for left in [*given]:
                ray.cancel(left, force=True)
    finally:
        if own:
            ray.shutdown()


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


def _remote(settings: tuple[Any, ...], part: Part) -> tuple[Result, Exception | None]:
    """``_result`` in a process of the cluster."""
    *how, work = settings
    try:
        _settle(*how)
    except UsageError as error:
        return {}, error
    found: tuple[Result, Exception | None] = work(part)
    return found


@lru_cache(maxsize=1)
def _settle(threads: int, place: str, credentialed: bool, expected: tuple[tuple[str, str], ...]) -> None:
    """Once in each process: privacy, threads, the folder that relative paths begin at, the same libraries."""
    if credentialed:
        os.umask(0o077)
        notes_read()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1), os.dup2(nowhere, 2)
    if os.path.isdir(place):
        os.chdir(place)
    threads_of = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    os.environ |= {**dict.fromkeys(threads_of, str(threads)), "TOKENIZERS_PARALLELISM": "false"}
    here = library_versions()
    for name, there in expected:
        if here.get(name) != there:
            raise UsageError(
                f"The worker on {platform.node()} has {name} {here.get(name, 'not installed')}, and the command "
                f"{there}: results would differ. Install the same on every machine."
            )


def library_versions(names: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """Of libraries that are installed, by default of those that decide which bytes are written."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
