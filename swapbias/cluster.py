"""Who does the work: this process, or workers on the machines of a Ray cluster; the parts they write are the truth.

A job is a plan of parts. A worker is told which part, reads what it needs by itself and writes the part whole; what
comes back is a few numbers. So a part that is done twice is the same file, and what one engine began another one
finishes.
"""

import os
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from swapbias.errors import MissingExtraError, UsageError
from swapbias.privacy import notes_read, told

ENGINES = ("local", "ray")
Part = Mapping[str, Any]  # which one: names and numbers, as JSON holds them; ``name`` tells it from others
Done = Mapping[str, Any]  # what came of it, likewise
Worker = Callable[[Part, Callable[[float], None]], Done]  # told how much more is done, where it is in this process
Crew = Callable[[Iterable[Part]], Iterator[tuple[Part, Done]]]

MOST_DEATHS = 12  # of workers on one part, which is then taken for the cause
MOST_TRIES = 4  # of a part that fails alone: how many workers it may end
AHEAD = 2  # parts that a worker is given at once, so that it need not wait for the next
PATIENCE = 10.0  # seconds before a part that takes much longer than the others is given to an idle worker too
_SLOW = 3  # times the longest so far
_TELL_AFTER = 30.0  # seconds without any worker
_STORE = 100 * 2**20  # bytes of the object store of a cluster that is started here: nothing large goes through it
_LIBRARIES = ("swapbias", "numpy", "pyarrow", "torch", "transformers")  # another version may write other bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where parts are done.

    Attributes:
        name: ``local`` (this process) or ``ray``.
        address: of a Ray cluster that the user declares by naming it; None: one is started on this machine, and ends
            with the job. The variable RAY_ADDRESS is not read.
        workers: how many; None: as many as there are GPUs for, else as the job is best spread.
        gpus: of each worker; may be a part of one.
        spill: folder for what the object store of a cluster started here cannot hold; None: Ray's own.
    """

    name: str = "local"
    address: str | None = None
    workers: int | None = None
    gpus: float = 0.0
    spill: Path | None = None

    def check(self) -> None:
        """Refuse what cannot be meant, before any work.

        Raises:
            UsageError: an unknown engine, settings of ray for another; MissingExtraError: ray is not installed.
        """
        if self.name not in ENGINES:
            raise UsageError(f"Unknown engine {self.name!r}: expected {' or '.join(ENGINES)}.")
        given = [name for name in ("address", "workers", "gpus", "spill") if getattr(self, name)]
        if self.name == "local":
            if given:
                raise UsageError(
                    f"{given[0]} is about workers of ray, and the engine is local. Choose the engine ray."
                )
            return
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"workers is {self.workers}, expected 1 or more. Give a larger number.")
        if self.gpus < 0:
            raise UsageError(f"GPUs per worker is {self.gpus:g}, expected 0 or more. Give a larger number.")
        if self.spill and self.address:
            raise UsageError(
                f"The cluster at {self.address} was started with a folder to spill to, and spill names another. "
                "Drop it, or start the cluster with ray start --object-spilling-directory."
            )
        if find_spec("ray") is None:
            raise MissingExtraError(
                "The engine ray needs ray, which is not installed. Install with pip install 'swapbias[ray]'."
            )

    @property
    def local(self) -> bool:
        """Whether all is done in this process."""
        return self.name == "local"


LOCAL = Engine()


@contextmanager
def crew(
    engine: Engine,
    maker: str,
    spec: Mapping[str, Any],
    *,
    own: Callable[[], Worker],
    cores: int | None = None,
    alone: bool = False,
    held: bool = False,
    say: Callable[[str], None] = lambda sentence: None,
    advance: Callable[[Part, float], None] = lambda part, more: None,
) -> Iterator[Crew]:
    """Workers for the parts of a job: called with parts, they give each with what came of it, in any order.

    Of a cluster, parts that say ``here`` are done in this process after the others.

    Args:
        engine: where.
        maker: ``module:function`` of the spec, called once by each worker of a cluster.
        spec: all that it needs, as JSON holds it: names and places, never a model or rows.
        own: makes the worker of this process.
        cores: of each worker of a cluster; None: a whole machine's.
        alone: of a cluster, each part is a job of its own: one worker has it at a time, and nothing else. A part that
            ended ``MOST_TRIES`` workers comes back with their number as ``ended``, and the others go on.
        held: texts are credentialed: the files that a worker of a cluster writes are its user's alone, and what it
            prints (a user's own function, a library's warning) is dropped, for Ray would keep it in its logs.
        say: told when no worker is there.
        advance: told how many more rows of a part are done: as they are in this process, all at once elsewhere.

    Raises:
        UsageError, ValueError, OSError: what a worker raised, with its one sentence; no cluster at the address; a
            part that ended many workers.
    """
    engine.check()

    def here(parts: Iterable[Part]) -> Iterator[tuple[Part, Done]]:
        worker = own()
        for part in parts:
            yield part, worker(part, partial(advance, part))

    if engine.local:
        yield here
        return

    with ExitStack() as open_:
        hands: list[_Hands] = []  # started when there is something to do

        def there(parts: Iterable[Part]) -> Iterator[tuple[Part, Done]]:
            kept: list[Part] = []
            far = _others(parts, kept)
            if (first := next(far, None)) is not None:
                if not hands:
                    ray = open_.enter_context(_cluster(engine))
                    hands.append(_Hands(ray, engine, maker, spec, cores, say, alone, held))
                    open_.callback(hands[0].dismiss)
                for part, done in hands[0].do(chain([first], far)):
                    advance(part, part["rows"])
                    yield part, done
            if kept:
                yield from here(kept)

        yield there


def _others(parts: Iterable[Part], here: list[Part]) -> Iterator[Part]:
    """The parts for workers; those for this process are put into the list."""
    for part in parts:
        if part.get("here"):
            here.append(part)
        else:
            yield part


# --- a cluster -----------------------------------------------------------------------------------------


@contextmanager
def _cluster(engine: Engine) -> Iterator[Any]:
    """Ray, connected to the cluster that was declared, or to one of this machine alone that ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # of a cluster started here: as this process, not behind others
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    import ray

    if ray.is_initialized():  # by whoever called
        with _hushed():
            yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if engine.address is None:
        spill = {"object_spilling_directory": str(engine.spill.resolve())} if engine.spill else {}
        quiet |= {"include_dashboard": False, "object_store_memory": _STORE, "num_cpus": os.cpu_count(), **spill}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=engine.address or "local", **quiet)
        if threading.current_thread() is threading.main_thread():  # Ray's own would print its registers
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        where = f"at {engine.address}" if engine.address else "on this machine"
        raise UsageError(
            f"No Ray cluster could be used {where} ({told[0].rstrip('.')}). Check the address and ray status."
        ) from None
    try:
        with _hushed():
            yield ray
    finally:
        ray.shutdown()


@contextmanager
def _hushed() -> Iterator[None]:
    """Ray prints what its machines say of deaths to stdout, whatever it was told of logs: among results."""
    private = import_module("ray._private.worker")
    printing = getattr(private, "print_to_stdstream", None)
    if printing is None:
        yield
        return
    private.__dict__["print_to_stdstream"] = lambda *_, **__: None
    try:
        yield
    finally:
        private.__dict__["print_to_stdstream"] = printing


class Hand:
    """In a worker's process: makes the worker at the first part, and turns what it raises into its sentence."""

    def __init__(self, maker: str, spec: Mapping[str, Any], threads: int, place: str, held: bool) -> None:
        """Nothing is loaded yet: whatever fails is to be told as an error of a part.

        ``place`` is the folder that relative paths begin at, where this machine has it. Where texts are ``held``
        nothing is printed, and files are their user's alone.
        """
        if held:
            os.umask(0o077)
            notes_read()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        self._made: Worker | None = None
        if os.path.isdir(place):
            os.chdir(place)
        self._how = maker, spec
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(threads)
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    def ready(self) -> dict[str, str]:
        """The machine, and the versions of what writes bytes."""
        return {"machine": platform.node(), **versions()}

    def do(self, part: Part) -> dict[str, Any]:
        """What came of a part, or the error and its sentence."""
        try:
            if self._made is None:
                maker, spec = self._how
                module, _, name = maker.partition(":")
                self._made = getattr(import_module(module), name)(spec)
            return {"done": dict(self._made(part, lambda more: None))}
        except UsageError as error:
            return {"error": "usage", "told": str(error)}
        except OSError as error:
            place = error.filename if isinstance(error.filename, str) else None
            return {"error": "os", "told": told(error), "os": (error.errno, error.strerror, place)}
        except ValueError as error:
            return {"error": "value", "told": told(error)}
        except Exception as error:  # noqa: BLE001 - it would come as a traceback of Ray's
            said, kind = told(error), type(error).__name__
            return {"error": "other", "told": said if said.startswith(kind) else f"{kind}: {said}"}


def versions() -> dict[str, str]:
    """Of the libraries that decide which bytes are written."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _raised(done: Mapping[str, Any]) -> Exception:
    kind, told = done["error"], done["told"]
    if kind == "os" and done["os"][0] is not None:
        return OSError(*done["os"])
    return {"usage": UsageError, "value": ValueError, "os": OSError}.get(kind, RuntimeError)(told)


@dataclass(slots=True)
class _Given:
    """A part that a worker has: since when, and whether another one has it too."""

    worker: Any
    part: Part
    since: float
    twice: bool = False


@dataclass(slots=True)
class _Hands:
    """The workers of a cluster. Who dies is replaced, and what it had goes to others first.

    Ray would restart actors and repeat their tasks itself, but a task of an actor that finds no machine any more
    waits for one for ever: so the parts are handed out here, and no worker is ever waited for.
    """

    ray: Any
    engine: Engine
    maker: str
    spec: Mapping[str, Any]
    cores: int | None
    say: Callable[[str], None]
    alone: bool = False
    held: bool = False
    given: dict[Any, _Given] = field(default_factory=dict)  # by the reference that Ray will have its end in
    coming: dict[Any, Any] = field(default_factory=dict)  # workers that are being started, likewise
    free: deque[Any] = field(default_factory=deque)  # a worker once for each part that it can take
    deaths: dict[str, int] = field(default_factory=dict)
    longest: float = 0.0
    heard: float = field(default_factory=time.monotonic)
    known: dict[str, str] = field(default_factory=versions)
    how: dict[str, Any] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.count, threads = self._spread()
        self.how = {
            "num_cpus": threads, "num_gpus": self.engine.gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"
        }  # fmt: skip
        for _ in range(self.count):
            self._hire()

    def _spread(self) -> tuple[int, int]:
        """How many workers, and the cores of each."""
        nodes = [one["Resources"] for one in self.ray.nodes() if one["Alive"]]
        cores = [int(one.get("CPU", 0)) for one in nodes if one.get("CPU", 0) >= 1] or [1]
        gpus, wanted = sum(one.get("GPU", 0) for one in nodes), self.engine.gpus
        if wanted and gpus < wanted:
            raise UsageError(
                f"The cluster has {gpus:g} GPUs, and each worker is to have {wanted:g}. Give fewer GPUs to each."
            )
        each = self.cores or min(cores)
        usual = int(gpus // wanted) if wanted else sum(one // each for one in cores)
        count = self.engine.workers or max(1, usual)
        return count, max(1, min(each, sum(cores) // count))

    def _hire(self) -> None:
        made = self.ray.remote(Hand).options(**self.how)
        worker = made.remote(self.maker, dict(self.spec), self.how["num_cpus"], str(Path.cwd()), self.held)
        self.coming[worker.ready.remote()] = worker

    def do(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Done]]:
        """Each part with what came of it, once."""
        left, again, open_ = iter(parts), deque[Part](), dict[str, Part]()
        more = True
        while more or open_:
            more = self._hand_out(left, again, open_) and more
            self._help(open_)
            if not (self.given or self.coming):
                continue
            ends, _ = self.ray.wait([*self.given, *self.coming], num_returns=1, timeout=1.0)
            for end in ends:
                if end in self.coming:
                    self._welcome(end)
                    continue
                given = self.given.pop(end)
                done = self._heard(end, given, again, open_)
                if done is None or given.part["name"] not in open_:
                    continue  # of a part that is done already
                if "error" in done:
                    raise _raised(done) from None
                del open_[given.part["name"]]
                self.longest = max(self.longest, time.monotonic() - given.since)
                yield given.part, done["done"]
            self._tell()

    def _hand_out(self, left: Iterator[Part], again: deque[Part], open_: dict[str, Part]) -> bool:
        """Parts to those who can take one; whether there may be more."""
        while self.free:
            part = again.popleft() if again else next(left, None)
            if part is None:
                return False
            if part["name"] not in self.deaths:
                self.deaths[part["name"]] = 0
            open_[part["name"]] = part
            self._give(part)
        return True

    def _give(self, part: Part, *, twice: bool = False) -> None:
        worker = self.free.popleft()
        self.given[worker.do.remote(dict(part))] = _Given(worker, part, time.monotonic(), twice)

    def _help(self, open_: Mapping[str, Part]) -> None:
        """With nothing else to do, workers take over what hangs: its machine may be gone without a word."""
        if self.alone:
            return
        late = time.monotonic() - max(PATIENCE, _SLOW * self.longest)
        for given in list(self.given.values()):
            if not self.free:
                return
            slow = not given.twice and given.since < late and given.part["name"] in open_
            if slow and any(one is not given.worker for one in self.free):
                while self.free[0] is given.worker:
                    self.free.rotate()
                given.twice = True
                self._give(given.part, twice=True)

    def _heard(self, end: Any, given: _Given, again: deque[Part], open_: Mapping[str, Part]) -> Done | None:
        """What a worker says of a part; None where it died, and the part goes to another."""
        try:
            done: Done = self.ray.get(end)
        except self.ray.exceptions.RayError:
            self._lose(given.worker)
            return self._died(given.part, again, open_)
        self.free.append(given.worker)
        return done

    def _died(self, part: Part, again: deque[Part], open_: Mapping[str, Part]) -> Done | None:
        """The part of a worker that died goes to another one, some times."""
        name = part["name"]
        self.deaths[name] = ended = self.deaths.get(name, 0) + 1
        if self.alone and ended >= MOST_TRIES:
            return {"done": {"ended": ended}}
        if ended > MOST_DEATHS:
            raise ValueError(
                f"{ended} workers ended on part {name}, most likely for want of memory. What is done is kept: go on "
                "with fewer workers, or on larger machines."
            ) from None
        if name in open_ and not any(one.part["name"] == name for one in self.given.values()):
            again.append(part)
        return None

    def _lose(self, worker: Any) -> None:
        """Replace a worker that died, once."""
        gone = worker not in self.free and not any(one.worker is worker for one in self.given.values())
        self.free = deque(one for one in self.free if one is not worker)
        if gone:
            self._kill(worker)
            self._hire()

    def _welcome(self, end: Any) -> None:
        worker = self.coming.pop(end)
        try:
            told = self.ray.get(end)
        except self.ray.exceptions.RayError:
            self._kill(worker)
            self._hire()
            return
        self.heard = time.monotonic()
        machine = told.pop("machine")
        if other := {name: told.get(name) for name in self.known if told.get(name) != self.known[name]}:
            name, found = next(iter(other.items()))
            raise UsageError(
                f"The worker on {machine} has {name} {found or 'not installed'}, and this process "
                f"{self.known[name]}: parts would differ. Install the same on every machine."
            )
        self.free.extend([worker] * (1 if self.alone else AHEAD))

    def _tell(self) -> None:
        if self.free or self.given:
            self.heard = time.monotonic()
        elif time.monotonic() - self.heard > _TELL_AFTER:
            self.heard = time.monotonic()
            self.say(
                f"No worker is there: each waits for {self.how['num_cpus']} cores and {self.engine.gpus:g} GPUs of "
                "the cluster. What is done is kept, and Ctrl-C stops."
            )

    def _kill(self, worker: Any) -> None:
        try:
            self.ray.kill(worker)
        except (self.ray.exceptions.RayError, ValueError):  # it is gone already
            return

    def dismiss(self) -> None:
        """Let all workers go; parts that they are at are not written."""
        for worker in {id(one): one for one in (*self.coming.values(), *self.free)}.values():
            self._kill(worker)
        for given in self.given.values():
            self._kill(given.worker)
