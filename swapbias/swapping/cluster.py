"""Who does the work of a swap or an audit: this process, or workers on the machines of a Ray cluster.

A job is a plan of parts. A worker is called with a part, reads what it needs by itself, and returns or writes what
came of it. So a part that is done twice has the same result, and what one engine began another one finishes.
"""

import os
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
Part = Mapping[str, Any]  # names and numbers, as JSON has them; ``rows`` is its size
Result = Mapping[str, Any]
Work = Callable[[Part, Callable[[float], None]], Result]  # the second reports how many more rows are done
WorkerPool = Callable[[Iterable[Part]], Iterator[tuple[Part, Result]]]

MOST_DEATHS = 4  # of workers on one part, which is then taken for the cause
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
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[WorkerPool]:
    """Workers for the parts of a job: called with parts, the pool gives each with its result, in any order.

    Args:
        engine: where.
        maker: ``module:function``, called with ``spec`` (as JSON has it) once by each worker of a cluster.
        own: makes the worker of this process.
        cores: of each worker of a cluster; None: all of a machine.
        credentialed: files of workers are their user's alone, and what they print, which Ray would log, is dropped.
        advance: called with how many more rows of a part are done; by a cluster with all at once.

    Raises:
        UsageError, ValueError, OSError: what a worker raised; no cluster; a part on which several workers died.
    """
    engine.check()
    actors: list[Any] = []
    with ExitStack() as stack:

        def pool(parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
            if engine.local:
                worker = own()
                yield from ((part, worker(part, partial(advance, part))) for part in parts)
                return
            if not actors:  # started once there is something to do
                actors.extend(stack.enter_context(_started(engine, cores, maker, dict(spec), credentialed)))
            for part, result in _done_by(actors, parts):
                advance(part, part["rows"])
                yield part, result

        yield pool


class Worker:
    """In a process of the cluster: makes the worker at the first part, and returns errors as their sentences."""

    def __init__(
        self,
        maker: str,
        spec: Mapping[str, Any],
        place: str,
        threads: int,
        needed: Mapping[str, str],
        credentialed: bool,
    ) -> None:
        """``place``: the folder that relative paths begin at; ``needed``: versions of the process that began."""
        if credentialed:
            os.umask(0o077)
            notes_read()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        if os.path.isdir(place):
            os.chdir(place)
        threads_of = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        os.environ |= {**dict.fromkeys(threads_of, str(threads)), "TOKENIZERS_PARALLELISM": "false"}
        self._maker, self._spec, self._needed = maker, spec, needed
        self._work: Work | None = None

    def run(self, part: Part) -> tuple[Part, Result, Exception | None]:
        """A part with its result, or with its error."""
        try:
            if self._work is None:
                _check_versions(self._needed)
                module, _, name = self._maker.partition(":")
                self._work = getattr(import_module(module), name)(self._spec)
            return part, dict(self._work(part, lambda more: None)), None
        except OSError as error:
            place = error.filename if isinstance(error.filename, str) else None
            known = OSError(error.errno, error.strerror, place) if error.errno else OSError(safe_message(error))
            return part, {}, known
        except Exception as error:  # noqa: BLE001 - it would come as a traceback of Ray's, with texts
            kind = next(one for one in (UsageError, ValueError, Exception) if isinstance(error, one))
            return part, {}, (RuntimeError if kind is Exception else kind)(safe_message(error))


def library_versions(names: Iterable[str] = _LIBRARIES) -> dict[str, str]:
    """Of libraries that are installed, by default of those that decide which bytes are written."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _check_versions(needed: Mapping[str, str]) -> None:
    here = library_versions()
    for name, wanted in needed.items():
        if here.get(name) != wanted:
            raise UsageError(
                f"The worker on {platform.node()} has {name} {here.get(name, 'not installed')}, and the process that "
                f"began the job {wanted}: results would differ. Install the same on every machine."
            )


def _done_by(actors: list[Any], parts: Iterable[Part]) -> Iterator[tuple[Part, Result]]:
    """Each part with its result; parts are drawn one by one, for they may lie on the disk until they are done."""
    from ray.exceptions import RayActorError
    from ray.util import ActorPool

    pool: Any = ActorPool(actors)

    def next_done() -> tuple[Part, Result]:
        try:
            part, result, error = pool.get_next_unordered()
        except RayActorError:
            raise ValueError(
                f"{MOST_DEATHS} workers died on one part, most likely for want of memory. What is done is saved: go "
                "on with fewer workers, or on larger machines."
            ) from None
        if error is not None:
            raise error from None
        return part, result

    for part in parts:
        if not pool.has_free():
            yield next_done()
        pool.submit(lambda actor, one: actor.run.remote(one), dict(part))
    while pool.has_next():
        yield next_done()


@contextmanager
def _started(engine: Engine, cores: int | None, maker: str, spec: Any, credentialed: bool) -> Iterator[list[Any]]:
    """The workers of a cluster; at the end they end, and with them the cluster that was started or connected to here.

    Ray replaces a worker that dies, and gives its part to the new one. While they run they hold no cores: one whose
    machine is gone can begin again on any other.
    """
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
    import ray

    is_own = not ray.is_initialized()
    if is_own:
        _connect(ray, engine.address)
    actors: list[Any] = []
    try:
        count, threads = _spread(ray, engine, cores)
        restarts = {"max_restarts": -1, "max_task_retries": MOST_DEATHS - 1}
        remote: Any = ray.remote(Worker)
        actor = remote.options(num_gpus=engine.gpus, scheduling_strategy="SPREAD", **restarts)
        for _ in range(count):
            actors.append(actor.remote(maker, spec, str(Path.cwd()), threads, library_versions(), credentialed))
        yield actors
    finally:
        for one in actors:
            with suppress(ray.exceptions.RayError, ValueError):  # it is gone already
                ray.kill(one)
        if is_own:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """To the cluster at an address, or to a new one of this machine."""
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:  # nothing large goes through the store of objects
        how |= {"include_dashboard": False, "object_store_memory": 100 * 2**20, "num_cpus": os.cpu_count()}
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
    """How many workers, and the threads of each."""
    nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    counts = [int(one.get("CPU", 0)) for one in nodes if one.get("CPU", 0) >= 1] or [1]
    gpus, wanted = sum(one.get("GPU", 0) for one in nodes), engine.gpus
    if wanted and gpus < wanted:
        raise UsageError(f"The cluster has {gpus:g} GPUs, and each worker needs {wanted:g}. Give each fewer.")
    each = cores or min(counts)
    count = engine.workers or max(1, int(gpus // wanted) if wanted else sum(one // each for one in counts))
    return count, max(1, min(each, sum(counts) // count))
