"""Every command that writes, stopped at each of its steps and at random: what is lost, doubled, or not the same."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.frame import Scale, Series, scaled
from benchmarks.soak.faults import BROKEN, CLOCK, FULL, KILL, TORN, Faults
from benchmarks.soak.jobs import Content, Job, jobs, rows, run

RANDOM = 100
FLIPS = 40
_LOADED = [
    "benchmarks.soak.jobs",
    "swapbias.cli",
    "swapbias.runs.several_models",
    "swapbias.runs.results",
    "swapbias.swapping.jobs",
    "swapbias.report.page",
    "swapbias.report.charts",
    "swapbias.models.masked",
    "transformers.models.bert.modeling_bert",
    "swapbias.hub.share",
    "swapbias.hub.commands",
    "swapbias.models.chat.openai_client",
    "swapbias.models.training",
    "sklearn.linear_model",
    "skops.io",
    "vaderSentiment.vaderSentiment",
    "datasets",
]


@dataclass(slots=True)
class Tally:
    """Counts of what stops of a job did.

    Attributes:
        stops: kills, refused writes, flipped bits.
        lost, doubled: rows of tables, beside an undisturbed run.
        differing: runs whose files are not those of an undisturbed one.
        stuck: folders that neither went on nor could be begun anew.
        faults: lives that ended with a traceback, or with what swapbias calls its own fault.
        half: moments at which something published was there in part.
        silent: changes that no sentence told, and that changed results.
    """

    stops: int = 0
    lost: int = 0
    doubled: int = 0
    differing: int = 0
    stuck: int = 0
    faults: int = 0
    half: int = 0
    silent: int = 0
    notes: list[str] = field(default_factory=list)


class Bench:
    """A job that is run again and again in children of a server that has its libraries loaded."""

    def __init__(self, processes: Any, place: Path, job: Job) -> None:
        """Runs it once undisturbed, for what it makes, how many steps of writing it takes, and how long."""
        self.processes = processes
        self.place = place
        self.job = job
        self.folder = self._new()
        begun = time.monotonic()
        if code := self.life(job.command).exitcode:
            raise ValueError(f"{job.name} ends with {code} undisturbed: {self.said()}")
        self.seconds = time.monotonic() - begun
        self.steps = json.loads(self._tell.read_text())
        self.whole = job.made(self.folder)

    def _new(self) -> Path:
        self.job.reset(self.place)
        folder = (
            self.place / self.job.name.replace(" ", "-") / "run"
        )  # one for all: a comparison names places
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir()
        return folder

    @property
    def _tell(self) -> Path:
        return self.folder.parent / "steps.json"

    def said(self) -> str:
        """Return what the last life said."""
        return (self.folder.parent / "said.txt").read_text(errors="replace").strip()[-400:]

    def start(self, command: Callable[[Path], Sequence[str]], kind: str = KILL, at: int = 0) -> Any:
        """A life that has begun."""
        watched = self.place if self.job.at_once else self.folder.parent
        said = str(self.folder.parent / "said.txt")
        target = (
            command(self.folder),
            str(watched),
            kind,
            at,
            str(self._tell),
            said,
            self.job.at_once,
        )
        life = self.processes.Process(target=_live, args=target)
        life.start()
        return life

    def life(self, command: Callable[[Path], Sequence[str]], kind: str = KILL, at: int = 0) -> Any:
        """A life to its end."""
        life = self.start(command, kind, at)
        life.join()
        return life

    def fresh(self) -> None:
        """A new folder."""
        self.folder = self._new()

    def looked_at(self, tally: Tally) -> None:
        """After a stop: what is published is there as a whole, or not at all."""
        if (
            self.job.at_once
            and (found := self.job.made(self.folder))
            and not _like(found, self.whole)
        ):
            tally.half += 1

    def finished(self, tally: Tally, what: str) -> None:
        """Go on to the end as a user would, and compare."""
        life = self.life(self.job.again)
        if life.exitcode and dict(self.job.made(self.folder)) != dict(
            self.whole
        ):  # else it was complete already
            tally.stuck += 1
            tally.notes.append(f"{what}: {life.exitcode}: {self.said()}")
            return
        found = self.job.made(self.folder)
        had = rows(self.whole)
        has = rows(found)
        tally.lost += (had - has).total()
        tally.doubled += (has - had).total()
        if differing := [
            name for name in {*self.whole, *found} if self.whole.get(name) != found.get(name)
        ]:
            tally.differing += 1
            tally.notes.append(f"{what}: differs: {sorted(differing)[:3]}")

    def ended(self, life: Any, tally: Tally, what: str, codes: Sequence[int]) -> None:
        """A life that ended by itself has done so with one sentence."""
        if (
            life.exitcode not in codes
            or "Traceback" in self.said()
            or "fault of swapbias" in self.said()
        ):
            tally.faults += 1
            tally.notes.append(f"{what}: {life.exitcode}: {self.said()}")


def _live(
    arguments: Sequence[str],
    place: str,
    kind: str,
    at: int,
    tell: str,
    said: str,
    sends: bool = False,
) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1), os.dup2(handle, 2)
    faults = Faults(
        Path(place), kind, at, Path(tell), sends=sends
    )  # from here on: what it says is no step of its own
    code = run(arguments)
    faults.at = 0
    faults.report()
    os._exit(code)


def _like(found: Content, whole: Content) -> bool:
    """Tell whether something is whole but for its tag, which is set after the commit."""
    own = ("tags", "commits")
    return {name: one for name, one in found.items() if name not in own} == {
        name: one for name, one in whole.items() if name not in own
    }


# --- the ways to stop -----------------------------------------------------------------------------------


def every_step(bench: Bench, kind: str, scale: Scale, codes: Sequence[int]) -> Tally:
    """The run is stopped at each step of writing in turn, and goes on."""
    tally = Tally()
    every = max(1, round(1 / scale))
    for at in range(1, bench.steps + 1, every):
        bench.fresh()
        life = bench.life(bench.job.command, kind, at)
        tally.stops += 1
        bench.looked_at(tally)
        if life.exitcode != -signal.SIGKILL:
            bench.ended(life, tally, f"step {at}", codes)
        bench.finished(tally, f"step {at}")
    return tally


def at_random(bench: Bench, scale: Scale, draw: random.Random) -> Tally:
    """The run is killed at random moments, several times until it ends."""
    tally = Tally()
    while tally.stops < scaled(RANDOM, scale):
        bench.fresh()
        for times in range(3):
            life = bench.start(bench.job.again if times else bench.job.command)
            life.join(draw.uniform(0, 1.1 * bench.seconds))
            if not life.is_alive():
                break
            life.kill()
            life.join()
            tally.stops += 1
            bench.looked_at(tally)
        bench.finished(tally, f"after kill {tally.stops}")
    return tally


def two_at_once(bench: Bench, scale: Scale, draw: random.Random) -> Tally:
    """Two processes begin, or go on, in one folder at once."""
    tally = Tally()
    for _ in range(scaled(10, scale)):
        bench.fresh()
        if draw.random() < 0.5:
            bench.life(bench.job.command, KILL, draw.randrange(1, bench.steps + 1))
        first = bench.start(bench.job.again)
        time.sleep(draw.uniform(0, bench.seconds / 2))
        second = bench.start(bench.job.again)
        for life in (first, second):
            life.join()
            bench.ended(life, tally, "two at once", (0, 1, 2))
        tally.stops += 1
        if {first.exitcode, second.exitcode} == {0}:
            continue
        found = bench.job.made(bench.folder)
        if 0 not in (first.exitcode, second.exitcode) or found != bench.whole:
            bench.finished(tally, "two at once")
    return tally


def flipped(bench: Bench, scale: Scale, draw: random.Random) -> Tally:
    """A bit of a file of a stopped run is another one when it goes on."""
    tally = Tally()
    while tally.stops < scaled(FLIPS, scale):
        bench.fresh()
        bench.life(bench.job.command, KILL, draw.randrange(bench.steps // 3, bench.steps + 1))
        files = [
            one for one in sorted(bench.folder.rglob("*")) if one.is_file() and one.stat().st_size
        ]
        if not files:
            continue
        path = draw.choice(files)
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        tally.stops += 1
        life = bench.life(bench.job.again)
        if not life.exitcode and (bad := _differing(bench)):
            tally.silent += 1
            tally.notes.append(f"a bit of {path.relative_to(bench.folder)}: {bad[:3]}")
        elif life.exitcode:
            bench.ended(life, tally, f"a bit of {path.name}", (1, 2))
    return tally


def _differing(bench: Bench) -> list[str]:
    found = bench.job.made(bench.folder)
    return sorted(
        name for name in {*bench.whole, *found} if bench.whole.get(name) != found.get(name)
    )


def jumping(bench: Bench, scale: Scale) -> Tally:
    """The clock is set back and ahead while the run goes on; once it is killed on the way."""
    tally = Tally()
    for seed in range(1, scaled(5, scale) + 1):
        bench.fresh()
        life = bench.start(bench.job.command, CLOCK, seed)
        life.join(bench.seconds / 2)
        life.kill()
        life.join()
        tally.stops += 1
        life = bench.life(bench.job.again, CLOCK, seed + 100)
        bench.ended(life, tally, f"clock {seed}", (0, 2))
        if not life.exitcode and (bad := _differing(bench)):
            tally.differing += 1
            tally.notes.append(f"clock {seed}: differs: {bad[:3]}")
    return tally


# --- all of them ----------------------------------------------------------------------------------------


def _ways(
    bench: Bench, scale: Scale, draw: random.Random
) -> Iterator[tuple[str, Callable[[], Tally]]]:
    yield "kill -9 at random", lambda: at_random(bench, scale, draw)
    if bench.job.at_once:
        yield "kill -9 before and after a request", lambda: every_step(bench, KILL, scale, (0,))
    else:
        yield "kill -9 at a step of writing", lambda: every_step(bench, KILL, scale, (0,))
        yield "power cut, files half written", lambda: every_step(bench, TORN, scale / 3, (0,))
        yield "disk full (ENOSPC) at a step", lambda: every_step(bench, FULL, scale, (0, 1, 2))
        yield "disk broken (EIO) at a step", lambda: every_step(bench, BROKEN, scale / 3, (0, 1, 2))
        yield "two processes in one folder", lambda: two_at_once(bench, scale, draw)
        yield "flipped bits of a stopped run", lambda: flipped(bench, scale, draw)
    yield "clock set back and ahead", lambda: jumping(bench, scale)


@contextlib.contextmanager
def _services(place: Path) -> Iterator[tuple[Any, Any]]:
    """A Hub and a chat service on this machine, and the environment that points the commands at them."""
    from benchmarks.soak.service import answer
    from tests.hub.clients import settings
    from tests.hub.server import LocalHub
    from tests.models.chat.server import ChatServer

    with LocalHub() as hub, ChatServer(answer) as chat:
        hub.add_user("alice", token="hf_alice")
        for name, value in settings(hub, home=place / "hf", token="hf_alice").items():
            os.environ.pop(name, None) if not value else os.environ.update({name: value})
        os.environ |= {
            "SWAPBIAS_CACHE": str(place / "cache"),
            "OMP_NUM_THREADS": "1",
            "SWAPBIAS_API_KEY": "k",
            "COLUMNS": "200",
        }
        yield hub, chat


def stopped(
    scale: Scale, names: Sequence[str], ways: Sequence[str]
) -> Iterator[tuple[str, str, Tally]]:
    """Job, way and what came of it; of all, or of these jobs and the ways that begin so."""
    draw = random.Random(20_261_122)
    with (
        tempfile.TemporaryDirectory(prefix="swapbias-soak-") as folder,
        _services(Path(folder)) as (hub, chat),
    ):
        processes = multiprocessing.get_context("forkserver")
        processes.set_forkserver_preload(_LOADED)
        place = Path(folder)
        warm = processes.Process(
            target=int
        )  # the server loads its libraries before anything is timed
        warm.start()
        warm.join()
        for job in jobs(place, hub, chat):
            if job.name == "share":
                _audited(processes, place)
            if names and job.name not in names:
                continue
            bench = Bench(processes, place, job)
            sys.stderr.write(f"{job.name}: {bench.steps} steps, {bench.seconds:.1f} s\n")
            for way, done in _ways(bench, scale, draw):
                if ways and not way.startswith(tuple(ways)):
                    continue
                tally = done()
                for note in tally.notes:
                    sys.stderr.write(f"  {job.name}, {way}: {note}\n")
                yield job.name, way, tally


def _audited(processes: Any, place: Path) -> None:
    """The run that is shared."""
    asked = (
        "audit",
        "vader",
        "--study",
        "occupation_sentiment:control",
        "--limit",
        "40",
        "--out",
        str(place / "shared"),
    )
    life = processes.Process(
        target=_live,
        args=(asked, str(place / "no"), KILL, 0, str(place / "s"), str(place / "said")),
    )
    life.start()
    life.join()


def rounds(
    scale: Scale, names: Sequence[str], ways: Sequence[str], stored: Path
) -> Iterator[list[tuple[str, ...]]]:
    """All rows again after each way of each job: those that are stored, with the new ones in their place."""
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    if stored.exists():
        rows = {
            (row[0], row[1]): tuple(row)
            for row in json.loads(stored.read_text(encoding="utf-8"))["rows"]
        }
    for job, way, tally in stopped(scale, names, ways):
        counts = (
            tally.lost,
            tally.doubled,
            tally.differing,
            tally.stuck,
            tally.faults,
            tally.half,
            tally.silent,
        )
        rows[job, way] = (job, way, f"{tally.stops:,}", *(f"{one:,}" for one in counts))
        yield list(rows.values())


COLUMNS = (
    "command",
    "what was done to it",
    "times",
    "rows lost",
    "rows doubled",
    "results that differ",
    "stuck",
    "tracebacks",
    "half published",
    "silent",
)
SERIES = Series("kills", "Stopped and gone on with", COLUMNS, lambda scale, repeat: [], timed=False)
