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
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field
from pydantic.dataclasses import dataclass

from swapbias.errors import UsageError, first_line, library_versions, need, notes_read, safe_message
from swapbias.models import STRICT, Options, Use

Part = Mapping[
    str, Any
]  # names and numbers, as JSON has them; ``name`` is unique, ``rows`` is its size
Result = Mapping[str, Any]
Work = Callable[
    [Part, Callable[[float], None]], Result
]  # the second reports how many more rows are done
WorkerPool = Callable[[Iterable[Part]], Iterator[tuple[Part, Result]]]
Done = Future[tuple[Result, Exception | None]]
# How many parts they take at a time, how they are given one, what it raises when they die, and that as a sentence
Workers = tuple[int, Callable[[Part], Done], type[Exception], str]

MOST_DEATHS = 4  # of workers on one part, which is then taken for the cause
_LIBRARIES = (
    "swapbias",
    "numpy",
    "pyarrow",
    "torch",
    "transformers",
)  # another version may give other bytes


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Engine(Options):
    """Where parts are done."""

    key: ClassVar[str] = "cluster"

    name: Annotated[str, Use(option="engine")] = "local"
    """local, or ray: workers on machines of a cluster."""
    address: str | None = None
    """Your Ray cluster, as HOST:PORT or auto; none: this machine."""
    workers: Annotated[int | None, Field(ge=1)] = None
    """Number of workers; as the cluster has room for by default."""
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of a worker; may be a part of one."""

    def check(self) -> None:
        """UsageError: settings that do not fit together; MissingExtraError: ray is not installed."""
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
        """Whether all is done on this machine, without Ray."""
        return self.name == "local"


LOCAL = Engine()


@contextmanager
def worker_pool(
    engine: Engine,
    maker: Callable[[Any], Work],
    spec: Any,
    *,
    own: Callable[[], Work],
    local: Callable[[bytes, ExitStack], Workers] | None = None,
    cores: int | None = None,
    credentialed: bool = False,
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Workers for the parts of a job: called with parts, the pool gives each with its result, in any order.

    Args:
        engine: where. own: makes the worker of this process.
        maker: a function of a module, called with ``spec`` once by each process elsewhere.
        local: begins processes of this machine, where there is no cluster; None: this one does all.
        cores: of each worker of a cluster; None: all of a machine.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        advance: called with how many more rows of a part are done; from elsewhere with all at once.

    UsageError, ValueError, OSError: what a worker raised; no cluster; a part on which several workers died.
    """
    engine.check()
    made = pickle.dumps((maker, spec))  # imports wait for the settings of a process
    with ExitStack() as started:

        @cache
        def others() -> Workers:
            return (
                local(made, started)
                if local
                else _cluster(made, engine, cores, credentialed, started)
            )

        def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
            if engine.local and local is None:
                worker = own()
                yield from ((part, worker(part, partial(advance, part))) for part in parts)
                return
            count, submit, died, sentence = (
                others()
            )  # of what is in the cache alone no cluster is started
            running = dict[Done, Part]()
            rest = iter(parts)
            try:
                while True:
                    for part in islice(rest, count - len(running)):
                        running[submit(part)] = part
                    if not running:
                        return
                    for ended in wait(running, return_when=FIRST_COMPLETED).done:
                        part = running.pop(ended)
                        result, error = ended.result()
                        if error is not None:
                            raise error from None
                        advance(part, part["rows"])
                        yield part, result
            except died:
                raise ValueError(sentence.format(part["name"])) from None

        yield pool


def result_of(
    made: bytes, settings: tuple[Any, ...], part: Part
) -> tuple[Result, Exception | None]:
    """In another process: the result of a part, or its error as one sentence, without a traceback's texts."""
    try:
        return dict(_worker(made, settings)(part, lambda more: None)), None
    except Exception as error:  # noqa: BLE001 - whatever it is
        kind = next(
            (one for one in (UsageError, ValueError, OSError) if isinstance(error, one)),
            RuntimeError,
        )
        if isinstance(error, OSError) and error.errno:
            return {}, OSError(error.errno, error.strerror, error.filename)
        return {}, kind(safe_message(error))


@lru_cache(maxsize=1)
def _worker(made: bytes, settings: tuple[Any, ...]) -> Work:
    """Made once in each process."""
    if settings:
        _settle(*settings)
    maker, spec = pickle.loads(made)  # noqa: S301 - of the job itself
    return cast(Work, maker(spec))


def _cluster(
    made: bytes, engine: Engine, cores: int | None, credentialed: bool, started: ExitStack
) -> Workers:
    """Processes of a Ray cluster, until ``started`` is closed; a cluster that was started here ends with them."""
    # By itself Ray would begin a part that is too large for memory for ever, and print registers at SIGTERM.
    of_ray = {
        "USAGE_STATS_ENABLED": 0,
        "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": 1,
        "task_oom_retries": MOST_DEATHS - 1,
    }
    os.environ |= {f"RAY_{name}": str(value) for name, value in of_ray.items()}
    ray: Any = import_module("ray")
    if not ray.is_initialized():
        started.callback(ray.shutdown)
        new = {
            "include_dashboard": False,
            "object_store_memory": 100 * 2**20,
            "num_cpus": os.cpu_count(),
        }
        quiet = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            **({} if engine.address else new),
        }
        before = signal.getsignal(signal.SIGTERM)
        with _trouble_of_ray(engine.address):
            ray.init(address=engine.address or "local", **quiet)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
    with _trouble_of_ray(engine.address):
        nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    counts = [int(one.get("CPU", 0)) for one in nodes if one.get("CPU", 0) >= 1] or [1]
    gpus = sum(one.get("GPU", 0) for one in nodes)
    wanted = engine.gpus_per_worker
    if wanted and gpus < wanted:
        raise UsageError(
            f"The cluster has {gpus:g} GPUs, and each worker needs {wanted:g}. Give each fewer."
        )
    each = cores or min(counts)
    count = engine.workers or max(
        1, int(gpus // wanted) if wanted else sum(one // each for one in counts)
    )
    threads = max(1, min(each, sum(counts) // count))
    how = {"num_cpus": threads, "num_gpus": wanted, "max_calls": 0, "max_retries": MOST_DEATHS - 1}
    task = ray.remote(scheduling_strategy="SPREAD", **how)(
        result_of
    )  # in processes that keep their model
    settings = (threads, str(Path.cwd()), credentialed, tuple(library_versions(_LIBRARIES).items()))
    given = set[Any]()  # a result whose reference is let go leaves the cluster's memory
    started.callback(lambda: [ray.cancel(one, force=True) for one in [*given]])

    def submit(part: Part) -> Done:
        given.add(ref := task.remote(made, settings, dict(part)))
        done = cast(Done, ref.future())
        done.add_done_callback(lambda _: given.discard(ref))
        return done

    died = f"{MOST_DEATHS} workers died on part {{}}, most likely for want of memory. What is done is saved"
    return (
        count,
        submit,
        ray.exceptions.RayError,
        f"{died}: go on with fewer workers, or on larger machines.",
    )


@contextmanager
def _trouble_of_ray(address: str | None) -> Iterator[None]:
    """Turn whatever Ray raises while it starts into a UsageError: also a plain Exception, where it is not in time."""
    try:
        yield
    except Exception as error:
        if address:
            place = f"at {address}"
            advice = "Check the address and ray status."
        else:
            place = "on this machine"
            advice = "Try again when it is less busy, or use the engine local."
        raise UsageError(
            f"No Ray cluster could be used {place} ({first_line(error)}). {advice}"
        ) from error


def _settle(
    threads: int, place: str, credentialed: bool, expected: tuple[tuple[str, str], ...]
) -> None:
    """Once in each process: privacy, threads, the folder that relative paths begin at, the same libraries."""
    if credentialed:
        os.umask(0o077)
        notes_read()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1), os.dup2(nowhere, 2)
    if os.path.isdir(place):
        os.chdir(place)
    os.environ |= {
        "OMP_NUM_THREADS": f"{threads}",
        "MKL_NUM_THREADS": f"{threads}",
        "TOKENIZERS_PARALLELISM": "0",
    }
    here = library_versions(_LIBRARIES)
    for name, there in expected:
        if here.get(name) != there:
            found = f"The worker on {platform.node()} has {name} {here.get(name, 'not installed')}"
            raise UsageError(
                f"{found}, and the command {there}. Install the same on every machine."
            )
