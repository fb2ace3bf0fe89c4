"""Results as files: one JSON a workload, and one table of all of them."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.frame import Measured, Prepared, Series, Workload

BUSY = 0.10  # others used more than this share of the machine: the seconds are not to be trusted


@dataclass(frozen=True, slots=True)
class Timed:
    """One side: its seconds for the whole of the work, and the least that the hardware needs where that is known."""

    name: str
    seconds: float
    rounds: tuple[float, ...]
    share: float
    limit_seconds: float | None = None
    limit: str = ""
    peak_mb: float | None = None

    @property
    def fraction(self) -> float | None:
        """Return how much of what the hardware can do was reached."""
        return None if self.limit_seconds is None else self.limit_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class Compared:
    """Times that one side is faster than another, beside the goal where there is one."""

    ours: str
    against: str
    ratio: float
    goal: float | None

    @property
    def met(self) -> str:
        """``yes``, ``no``, or blank without a goal."""
        return "" if self.goal is None else "yes" if self.ratio >= self.goal else "no"


@dataclass(frozen=True, slots=True)
class Run:
    """One process that timed the sides of a workload in turns, and the load of others meanwhile."""

    timed: tuple[Timed, ...]
    foreign: float

    def ratio(self, ours: str, against: str) -> float:
        """Return how many times faster ours was in this run."""
        seconds = {timed.name: timed.seconds for timed in self.timed}
        return seconds[against] / seconds[ours]

    def ratios(self, ours: str, against: str) -> list[float]:
        """The same of each round."""
        rounds = {timed.name: timed.rounds for timed in self.timed}
        pairs = zip(rounds[ours], rounds[against], strict=True)
        return [peer_seconds / our_seconds for our_seconds, peer_seconds in pairs]


@dataclass(frozen=True, slots=True)
class Result:
    """Everything known about one workload, from one run or several in fresh processes.

    Attributes:
        timed: of each side the run in which it reached the least of its limit, or took longest where it has none.
        compared: the smallest ratios of all runs.
        foreign: the most that others used in any run.
        processor: seconds of the processor, all threads.
        runs: all of them.
    """

    name: str
    title: str
    size: str
    scale: float
    equality: str
    foreign: float
    timed: tuple[Timed, ...]
    compared: tuple[Compared, ...]
    machine: Mapping[str, Any]
    processor: bool = False
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """Everything known about one run of a series."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    scale: float
    foreign: float
    machine: Mapping[str, Any]
    timed: bool = True


def result(
    workload: Workload,
    prepared: Prepared,
    measured: Measured,
    *,
    scale: float,
    peaks: Mapping[str, float],
    machine: Mapping[str, Any],
    processor: bool = False,
) -> Result:
    """Medians, limits and ratios: each of ours beside each peer, and whatever else has a goal."""
    timed = []
    for side in prepared.sides:
        least, limit_name = measured.limits.get(side.name, (None, ""))
        rounds = measured.seconds[side.name]
        timed.append(
            Timed(
                side.name,
                measured.median(side.name),
                rounds,
                side.share,
                least,
                limit_name,
                peaks.get(side.name),
            )
        )
    pairs = [(side.name, peer.name) for side in prepared.ours for peer in prepared.peers]
    names = {side.name for side in prepared.sides}
    for pair in workload.goals:
        if not set(pair) <= names:
            raise ValueError(
                f"{workload.name} has a goal for {pair}, but its sides are {sorted(names)}."
            )
    compared = [
        Compared(
            ours,
            against,
            measured.median(against) / measured.median(ours),
            workload.goals.get((ours, against)),
        )
        for ours, against in dict.fromkeys([*pairs, *workload.goals])
    ]
    return Result(
        workload.name,
        workload.title,
        prepared.size,
        scale,
        measured.equality,
        measured.foreign,
        tuple(timed),
        tuple(compared),
        machine,
        processor,
        (Run(tuple(timed), measured.foreign),),
    )


def merged(results: Sequence[Result]) -> Result:
    """Runs of one workload in fresh processes as one result: what is told of it is true of each of them.

    Raises:
        ValueError: they are of different workloads or sizes.
    """
    first = results[0]
    runs = tuple(run for result in results for run in result.runs)
    for result in results[1:]:
        if (result.name, result.size, result.processor) != (
            first.name,
            first.size,
            first.processor,
        ):
            raise ValueError(
                f"runs of {first.name} ({first.size}) and of {result.name} ({result.size}): run it again."
            )
    sides = zip(*(run.timed for run in runs), strict=True)
    return replace(
        first,
        foreign=max(run.foreign for run in runs),
        timed=tuple(_worst(side) for side in sides),
        compared=tuple(
            replace(pair, ratio=min(run.ratio(pair.ours, pair.against) for run in runs))
            for pair in first.compared
        ),
        machine=results[-1].machine,
        runs=runs,
    )


def _worst(side: Sequence[Timed]) -> Timed:
    """Return of a side the run furthest from its limit, or the longest, with the most memory of any."""
    peaks = [timed.peak_mb for timed in side if timed.peak_mb is not None]
    return replace(
        min(side, key=lambda one: (one.fraction or 0.0, -one.seconds)),
        peak_mb=max(peaks) if peaks else None,
    )


def steps(
    series: Series, rows: Sequence[Sequence[str]], *, scale: float, foreign: float, machine: Any
) -> Steps:
    """The rows of a series as they are kept.

    Raises:
        ValueError: a row that does not fit the columns.
    """
    for row in rows:
        if len(row) != len(series.columns):
            raise ValueError(
                f"{series.name} has a row of {len(row)} cells for {len(series.columns)} columns."
            )
    kept = tuple(tuple(row) for row in rows)
    return Steps(
        series.name, series.title, series.columns, kept, scale, foreign, machine, series.timed
    )


def write(result: Result | Steps, folder: Path) -> Path:
    """``<folder>/<name>.json``."""
    path = folder / f"{result.name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    content = {**asdict(result), "foreign": _share(result.foreign)}
    for run in content.get("runs", ()):
        run["foreign"] = _share(run["foreign"])
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _share(foreign: float) -> float | None:
    """The load of others as JSON has it, which has no NaN."""
    return None if math.isnan(foreign) else round(foreign, 3)


def read(folder: Path) -> list[Result | Steps]:
    """Every result of a folder, by name.

    Raises:
        ValueError: a file that is none.
    """
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Result | Steps:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        stored["foreign"] = math.nan if stored["foreign"] is None else stored["foreign"]
        if "rows" in stored:
            stored["rows"] = tuple(tuple(row) for row in stored["rows"])
            return Steps(**{**stored, "columns": tuple(stored["columns"])})
        stored["timed"] = _timed(stored["timed"])
        stored["compared"] = tuple(Compared(**fields) for fields in stored["compared"])
        alone = [
            {"timed": stored["timed"], "foreign": stored["foreign"]}
        ]  # files of one run may not name it
        runs = stored.get("runs") or alone
        foreign = [math.nan if run["foreign"] is None else run["foreign"] for run in runs]
        timed = (_timed(run["timed"]) if runs is not alone else run["timed"] for run in runs)
        return Result(**{**stored, "runs": tuple(map(Run, timed, foreign))})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is no result of a benchmark ({error}). Delete it and run it again."
        ) from error


def _timed(sides: Sequence[Mapping[str, Any]]) -> tuple[Timed, ...]:
    return tuple(Timed(**{**side, "rounds": tuple(side["rounds"])}) for side in sides)


# --- the page -----------------------------------------------------------------------------------------

_HEAD = (
    *(
        "workload",
        "ours",
        "of the limit",
        "beside",
        "times faster",
        "all rounds",
        "goal",
        "met",
        "seconds",
    ),
    *("limit (s)", "runs", "equal"),
)


def page(results: Sequence[Result | Steps]) -> str:
    """All results as one Markdown page."""
    return (
        "# Measured speed\n\nWritten by `python -m benchmarks`; [README.md](README.md) says how to read it. "
        "Of several runs each number is the least favourable one; seconds are ours / beside, of that run. "
        "All rounds: the smallest and the largest ratio of a single round.\n\n"
        f"{body(results)}"
    )


def replace_page(path: Path, text: str) -> bool:
    """Write a page of results, unless it would lose sections: their results are not in the folder.

    Results are attached to releases, not part of the repository, so that a fresh checkout has none.
    """

    def sections(page: str) -> set[str]:
        return set(re.findall(r"^## .+|^- .+ \(`[\w-]+`\)", page, re.MULTILINE))

    if path.exists() and not sections(path.read_text(encoding="utf-8")) <= sections(text):
        return False
    path.write_text(text, encoding="utf-8")
    return True


def body(results: Sequence[Result | Steps]) -> str:
    """The tables: what has a peer in one, then each series, then what they were taken on."""
    compared = [result for result in results if isinstance(result, Result)]
    parts = []
    if compared:
        parts.append(markdown(_HEAD, [row for result in compared for row in _rows(result)]))
        parts.append("\n".join(_note(result) for result in compared) + "\n")
    for result in results:
        if isinstance(result, Steps):
            parts.append(
                f"## {result.title}\n\n{markdown(result.columns, result.rows)}"
                + (f"\n{_circumstances(result)}.\n" if result.timed else "")
            )
    parts.append("\n".join(dict.fromkeys(_taken_on(result.machine) for result in results)) + "\n")
    return "\n".join(parts)


def _rows(result: Result) -> list[tuple[str, ...]]:
    by_name = {timed.name: timed for timed in result.timed}
    rows: list[tuple[str, ...]] = []
    for number, pair in enumerate(result.compared):
        ours = by_name[pair.ours]
        worst = min(result.runs, key=lambda run: run.ratio(pair.ours, pair.against))
        rounds = [ratio for run in result.runs for ratio in run.ratios(pair.ours, pair.against)]
        seconds = {timed.name: timed.seconds for timed in worst.timed}
        rows.append(
            (
                "" if number else result.title,
                pair.ours,
                "" if ours.fraction is None else f"{ours.fraction:.0%}",
                pair.against,
                f"{pair.ratio:.1f}",
                f"{min(rounds):.1f} to {max(rounds):.1f}",
                "" if pair.goal is None else f"{pair.goal:g}",
                pair.met,
                f"{seconds[pair.ours]:.3g} / {seconds[pair.against]:.3g}",
                "" if ours.limit_seconds is None else f"{ours.limit_seconds:.3g}",
                "" if number else f"{len(result.runs)}",
                "" if number else result.equality,
            )
        )
    return rows


def _note(result: Result) -> str:
    limits = [f"{timed.name}: {timed.limit}" for timed in result.timed if timed.limit]
    slices = [
        f"{timed.name} ran {timed.share:.2%} of it" for timed in result.timed if timed.share < 1
    ]
    memory = [
        f"{timed.name} {timed.peak_mb:,.0f} MB"
        for timed in result.timed
        if timed.peak_mb is not None
    ]
    facts = [
        result.size,
        f"limit: {'; '.join(limits)}" if limits else "",
        f"extrapolated: {'; '.join(slices)}" if slices else "",
        f"peak memory: {', '.join(memory)}" if memory else "",
        "seconds of the processor, not of the clock" if result.processor else "",
        _circumstances(result),
    ]
    return f"- {result.title} (`{result.name}`): {'. '.join(fact for fact in facts if fact)}."


def _circumstances(result: Result | Steps) -> str:
    unknown = math.isnan(result.foreign)
    others = (
        "unknown"
        if unknown
        else f"{result.foreign:.0%}" + (" (too much)" if result.foreign > BUSY else "")
    )
    return f"Load of others: {others}" + (
        "" if result.scale == 1 else f"; at {result.scale:g} of the size"
    )


def _taken_on(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    cores = f"{machine['cores']} cores, {machine['system']}, Python {machine['python']}"
    return f"Taken on {machine['date']}: {machine['cpu']}, {cores}, {versions}."


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        + "\n"
    )
