"""Who does the work: this process, others of this machine, or workers on the machines of a Ray cluster.

A part that is done twice has the same result, so that what one engine began another one finishes.
"""

import os
import pickle
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, cast

from pydantic import Field
from pydantic.dataclasses import dataclass

from swapbias.errors import UsageError, first_line, library_versions, need, notes_read, safe_message
from swapbias.models import STRICT, Options, Use

Part = Mapping[str, Any]
"""Names and numbers, as JSON has them; ``name`` is unique, ``rows`` is its size."""
Result = Mapping[str, Any]
"""The result of a part, as JSON has it."""
Work = Callable[[Part, Callable[[float], None]], Result]
"""Does a part; the second argument reports how many more rows are done."""
WorkerPool = Callable[[Iterable[Part]], Iterator[tuple[Part, Result]]]
"""Does parts: yields each with its result, in any order."""
Done = Future[tuple[Result, Exception | None]]
"""The result of a part to come, or its error."""

MOST_DEATHS = 4
"""Deaths of workers on one part, which is then taken for the cause."""
# Another version of these may give other bytes.
_LIBRARIES = ("swapbias", "numpy", "pyarrow", "torch", "transformers")
_STORE_BYTES = 100 * 2**20  # of the shared memory of a cluster on this machine


class Workers(NamedTuple):
    """Workers in other processes."""

    capacity: int
    """Parts that they take at a time."""
    submit: Callable[[Part], Done]
    """Gives them a part."""
    died: type[Exception]
    """Raised when they die."""
    sentence: str
    """What to say of it; ``{}`` stands for the name of a part."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Engine(Options):
    """Choice of the workers that do parts: of this machine, or of a cluster."""

    key: ClassVar[str] = "cluster"
    """The name of these settings in files and manifests."""

    name: Annotated[str, Use(option="engine")] = "local"
    """local, or ray: workers on machines of a cluster; vllm: the chat model runs here by vLLM."""
    address: str | None = None
    """Your Ray cluster, as HOST:PORT or auto; none: this machine."""
    workers: Annotated[int | None, Field(ge=1)] = None
    """Number of workers; as the cluster has room for by default."""
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of a worker; may be a part of one."""

    def check(self) -> None:
        """Refuse settings that do not fit together.

        Raises:
            UsageError: which.
            MissingExtraError: ray is not installed.
        """
        if self.name not in ("local", "ray"):
            raise UsageError(f"Unknown engine {self.name!r}: expected local or ray.")
        for name in ("address", "workers", "gpus_per_worker"):
            if self.local and getattr(self, name):
                raise UsageError(
                    f"{name} is about workers of ray, and the engine is local. Choose the engine ray."
                )
        if not self.local:
            need("The engine ray", "ray", extra="ray")

    @property
    def local(self) -> bool:
        """All is done on this machine, without Ray."""
        return self.name == "local"


LOCAL = Engine()


@contextmanager
def worker_pool(
    engine: Engine,
    maker: Callable[[Any], Work],
    spec: Any,
    *,
    begin_here: Callable[[], Work],
    begin_processes: Callable[[bytes, ExitStack], Workers] | None = None,
    cores: int | None = None,
    credentialed: bool = False,
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Provide workers for the parts of a job: called with parts, the pool yields each with its result, in any order.

    Args:
        engine: where.
        maker: a function of a module, called with ``spec`` once by each process elsewhere.
        spec: what ``maker`` makes a worker of.
        begin_here: makes the worker of this process.
        begin_processes: begins processes of this machine, where there is no cluster; None: this one does all.
        cores: number of cores of each worker of a cluster; None: all of a machine.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        advance: called with how many more rows of a part are done; from elsewhere with all at once.

    Raises:
        UsageError: raised by a worker, or no cluster.
        ValueError: raised by a worker, or a part on which several workers died.
        OSError: raised by a worker.
    """
    engine.check()
    job = pickle.dumps((maker, spec))  # imports wait for the settings of a process
    with ExitStack() as started:

        @cache  # so that no cluster is started for what is in the cache alone
        def begin_elsewhere() -> Workers:
            if begin_processes:
                return begin_processes(job, started)
            return _begin_cluster(job, engine, cores, credentialed, started)

        def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
            if engine.local and begin_processes is None:
                work = begin_here()
                for part in parts:
                    yield part, work(part, partial(advance, part))
            else:
                yield from _do_elsewhere(begin_elsewhere(), parts, advance)

        yield pool


def _do_elsewhere(
    workers: Workers, parts: Iterable[Part], advance: Callable[[Part, float], None]
) -> Iterator[tuple[Part, Result]]:
    """Yield parts with their results as workers finish them."""
    running = dict[Done, Part]()
    rest = iter(parts)
    try:
        while True:
            for part in islice(rest, workers.capacity - len(running)):
                running[workers.submit(part)] = part
            if not running:
                return
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                part = running.pop(ended)
                result, error = ended.result()
                if error is not None:
                    raise error from None
                advance(part, part["rows"])
                yield part, result
    except workers.died:
        raise ValueError(workers.sentence.format(part["name"])) from None


def result_of(job: bytes, settings: tuple[Any, ...], part: Part) -> tuple[Result, Exception | None]:
    """Do a part in another process.

    Args:
        job: a function that makes a worker and what it makes it of, pickled.
        settings: settings of the process, as in ``_settle``; empty where it has those of this one.
        part: the part.

    Returns:
        The result; or an empty one and the error as one sentence, without a traceback's texts.
    """
    try:
        return dict(_worker(job, settings)(part, lambda more: None)), None
    except Exception as error:  # noqa: BLE001 - whatever it is
        return {}, _as_sentence(error)


def _as_sentence(error: Exception) -> Exception:
    """Return an error of a kind that the user sees, without what it holds of texts."""
    if isinstance(error, OSError) and error.errno:
        return OSError(error.errno, error.strerror, error.filename)
    for kind in (UsageError, ValueError, OSError):
        if isinstance(error, kind):
            return kind(safe_message(error))
    return RuntimeError(safe_message(error))


@lru_cache(maxsize=1)
def _worker(job: bytes, settings: tuple[Any, ...]) -> Work:
    """Return the worker of this process, made once."""
    if settings:
        _settle(*settings)
    maker, spec = pickle.loads(job)  # noqa: S301 - of the job itself
    return cast(Work, maker(spec))


def _begin_cluster(
    job: bytes, engine: Engine, cores: int | None, credentialed: bool, started: ExitStack
) -> Workers:
    """Begin processes of a Ray cluster, until ``started`` is closed; a cluster started here ends with them."""
    # By itself Ray would begin a part that is too large for memory for ever, and print registers at SIGTERM.
    of_ray = {
        "USAGE_STATS_ENABLED": 0,
        "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": 1,
        "task_oom_retries": MOST_DEATHS - 1,
    }
    os.environ |= {f"RAY_{name}": str(value) for name, value in of_ray.items()}
    ray: Any = import_module("ray")
    if not ray.is_initialized():
        _start_ray(ray, engine.address, started)
    count, threads = _size_workers(ray, engine, cores)
    task = ray.remote(
        scheduling_strategy="SPREAD",
        num_cpus=threads,
        num_gpus=engine.gpus_per_worker,
        max_calls=0,
        max_retries=MOST_DEATHS - 1,
    )(result_of)  # in processes that keep their model
    versions = tuple(library_versions(_LIBRARIES).items())
    settings = (threads, str(Path.cwd()), credentialed, versions)
    references = set[Any]()  # a result whose reference is let go leaves the cluster's memory
    started.callback(lambda: [ray.cancel(waiting, force=True) for waiting in [*references]])

    def submit(part: Part) -> Done:
        reference = task.remote(job, settings, dict(part))
        references.add(reference)
        done = cast(Done, reference.future())
        done.add_done_callback(lambda _: references.discard(reference))
        return done

    sentence = (
        f"{MOST_DEATHS} workers died on part {{}}, most likely for want of memory. What is done is saved: "
        "continue with fewer workers, or on larger machines."
    )
    return Workers(count, submit, ray.exceptions.RayError, sentence)


def _start_ray(ray: Any, address: str | None, started: ExitStack) -> None:
    """Connect to a cluster, or start one on this machine; it is left when ``started`` is closed."""
    started.callback(ray.shutdown)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not address:
        options["include_dashboard"] = False
        options["object_store_memory"] = _STORE_BYTES
        options["num_cpus"] = os.cpu_count()
    before = signal.getsignal(signal.SIGTERM)
    with _trouble_of_ray(address):
        ray.init(address=address or "local", **options)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _size_workers(ray: Any, engine: Engine, cores: int | None) -> tuple[int, int]:
    """Return how many workers a cluster has room for, and the threads of each."""
    with _trouble_of_ray(engine.address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    core_counts = [int(node.get("CPU", 0)) for node in nodes if node.get("CPU", 0) >= 1] or [1]
    gpus = sum(node.get("GPU", 0) for node in nodes)
    gpus_needed = engine.gpus_per_worker
    if gpus_needed and gpus < gpus_needed:
        raise UsageError(
            f"The cluster has {gpus:g} GPUs, and each worker needs {gpus_needed:g}. Give each fewer."
        )
    cores_needed = cores or min(core_counts)
    room = sum(count // cores_needed for count in core_counts)
    if gpus_needed:
        room = int(gpus // gpus_needed)
    count = engine.workers or max(1, room)
    threads = max(1, min(cores_needed, sum(core_counts) // count))
    return count, threads


@contextmanager
def _trouble_of_ray(address: str | None) -> Iterator[None]:
    """Turn whatever Ray raises while it starts into a UsageError: also a plain Exception, where it is not in time."""
    try:
        yield
    except Exception as error:
        if address:
            location = f"at {address}"
            advice = "Check the address and ray status."
        else:
            location = "on this machine"
            advice = "Try again when it is less busy, or use the engine local."
        raise UsageError(
            f"No Ray cluster could be used {location} ({first_line(error)}). {advice}"
        ) from error


def _settle(
    threads: int, folder: str, credentialed: bool, expected: tuple[tuple[str, str], ...]
) -> None:
    """Set up a process once: privacy, threads, the folder that relative paths begin at, the same libraries."""
    if credentialed:
        os.umask(0o077)
        notes_read()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    if os.path.isdir(folder):
        os.chdir(folder)
    os.environ |= {
        "OMP_NUM_THREADS": f"{threads}",
        "MKL_NUM_THREADS": f"{threads}",
        "TOKENIZERS_PARALLELISM": "0",
    }
    installed = library_versions(_LIBRARIES)
    for name, version in expected:
        if installed.get(name) != version:
            raise UsageError(
                f"The worker on {platform.node()} has {name} {installed.get(name, 'not installed')}, and the command "
                f"{version}. Install the same on every machine."
            )
