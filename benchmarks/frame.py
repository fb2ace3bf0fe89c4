"""The frame of every benchmark: sides run in turns in one process, medians, ratios, and how equal the outputs are."""

import gc
import importlib
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError

FOLDER = Path(__file__).parent
Scale = float  # a factor for the size of a workload; 1.0 is the size the goals are for
Limit = Callable[
    [], tuple[float, str]
]  # the seconds that the hardware needs at least, and what that is
_DECLARES = re.compile(r"^(WORKLOAD|SERIES)\b", re.MULTILINE)


class NotHereError(Exception):
    """This machine lacks what a benchmark needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way to do the work.

    Attributes:
        name: as the table shows it.
        run: does the work and returns what ``check`` compares.
        share: the part of the workload that ``run`` does: its time is divided by it (an extrapolated peer).
        limit: of this side, where it is not that of the workload (half as wide numbers, two processes).
    """

    name: str
    run: Callable[[], Any]
    share: float = 1.0
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload ready to run: models made, texts in memory.

    Attributes:
        ours, peers: the sides; they run in turns, ours first.
        check: outputs by the name of the side -> a sentence that says how equal they are; ValueError where they
            are not equal enough.
        limit: of the first of ours.
        size: what the work is, as "374 prompts, 3,612 tokens".
    """

    ours: tuple[Side, ...]
    peers: tuple[Side, ...]
    check: Callable[[Mapping[str, Any]], str]
    limit: Limit | None = None
    size: str = ""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Ours, then the peers."""
        return (*self.ours, *self.peers)


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that is timed beside what people use for it.

    Attributes:
        name: the name of its file, or that with ``-variant`` (``masked``, ``masked-large``).
        title: as the table shows it.
        goals: (our side, the side it is held against) -> how many times faster is wanted.
        prepare: makes everything that is not timed, at the scale given.
        memory: each side runs once more in a process of its own, for its peak memory.
    """

    name: str
    title: str
    goals: Mapping[tuple[str, str], float]
    prepare: Callable[[Scale], Prepared]
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Something measured in steps rather than beside a peer: ``rows(scale, repeat)`` gives the cells by column.

    ``timed`` is False where no cell is a time, so that the load of other processes does not matter; ``detached`` is
    True where processes do the work that are no children: what others use is then not known.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Callable[[Scale, int], Sequence[Sequence[str]]]
    timed: bool = True
    detached: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each side by round, for the whole of the work; the sentence of ``check``; the load of others.

    ``limits``: of each side that has one, the fewest seconds that the hardware needed in any try, and for what.
    """

    seconds: Mapping[str, tuple[float, ...]]
    equality: str
    foreign: float = 0.0
    limits: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Median of the rounds."""
        return statistics.median(self.seconds[side])


def scaled(number: int, scale: Scale, *, least: int = 1) -> int:
    """A size at a scale."""
    return max(least, round(number * scale))


def measure(
    prepared: Prepared,
    *,
    repeat: int,
    clock: Callable[[], float] = time.perf_counter,
    foreign: Callable[[], Callable[[], float]] | None = None,
) -> Measured:
    """Time the sides in turns (A B A B ...) after a warm-up of each, whose outputs are checked first.

    Limits are measured before, between and after the rounds (a machine does not keep one speed); the fastest counts.

    Args:
        prepared: the sides.
        repeat: rounds; each side runs once in each.
        clock: seconds.
        foreign: starts to watch what other processes use; what it returns gives their share so far.

    Raises:
        ValueError: the outputs are not equal, two sides of one name, no round, or a share outside 0..1.
    """
    _check(prepared, repeat)
    equality = prepared.check({side.name: side.run() for side in prepared.sides})
    watched = foreign() if foreign else None
    seconds: dict[str, list[float]] = {side.name: [] for side in prepared.sides}
    known = {side.name: side.limit for side in prepared.sides if side.limit}
    if prepared.limit:
        known.setdefault(prepared.sides[0].name, prepared.limit)
    limits = {name: limit() for name, limit in known.items()}
    for _ in range(repeat):
        for side in prepared.sides:
            gc.collect()  # the rubbish of one side is not swept in the time of the next
            begun = clock()
            side.run()
            seconds[side.name].append((clock() - begun) / side.share)
        limits = {name: min(limits[name], limit()) for name, limit in known.items()}
    rounds = {name: tuple(all_) for name, all_ in seconds.items()}
    return Measured(rounds, equality, watched() if watched else 0.0, limits)


def _check(prepared: Prepared, repeat: int) -> None:
    names = [side.name for side in prepared.sides]
    if len(set(names)) < len(names):
        raise ValueError(f"sides {names}, expected each name once.")
    if repeat < 1:
        raise ValueError(f"repeat {repeat}, expected at least 1.")
    for side in prepared.sides:
        if not 0 < side.share <= 1:
            raise ValueError(
                f"share {side.share} of {side.name!r}, expected above 0 and at most 1."
            )


# --- by name ------------------------------------------------------------------------------------------


def names(folder: Path = FOLDER) -> list[str]:
    """The files that declare something to run, without importing them."""
    return sorted(
        path.stem
        for path in folder.glob("*.py")
        if _DECLARES.search(path.read_text(encoding="utf-8"))
    )


def find(wanted: Sequence[str]) -> Iterator[Workload | Series]:
    """Yield what names mean: a file's name is all it declares, a longer one (``masked-large``) that one; none: all.

    Raises:
        UsageError: a name that is none, before anything is returned.
    """
    known = names()
    for name in wanted:
        if name.split("-")[0] not in known:
            raise UsageError(f"no benchmark {name!r}. Choose from: {', '.join(known)}.")
    for name in wanted or known:
        yield from _declared(name)


def _declared(name: str) -> Iterator[Workload | Series]:
    module = importlib.import_module(f"benchmarks.{name.split('-')[0]}")
    declared = [getattr(module, kind, ()) for kind in ("WORKLOAD", "SERIES")]
    flat = [one for kind in declared for one in (kind if isinstance(kind, tuple) else (kind,))]
    chosen = [one for one in flat if "-" not in name or one.name == name]
    if not chosen:
        raise UsageError(
            f"no benchmark {name!r}. Choose from: {', '.join(one.name for one in flat)}."
        )
    yield from chosen
