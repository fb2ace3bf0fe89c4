"""How much memory long inputs take, at a length, twice and four times it: a process of its own each, and its peak.

A step alone is ``python -m benchmarks.soak.memory KIND SIZE FOLDER``. Notes are written down before they are swapped:
at full size that takes 5 GB of disk.
"""

import json
import math
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.frame import Scale, Series, scaled
from benchmarks.measuring import peak_of, timed_process

TIMES = (1, 2, 4)
LINEAR = 1.5  # times the growth that a straight line would have, at most
_LEAST = 8.0  # MB: a smaller growth is that of the allocator
_NOTE = "She is a 45 y/o woman. Her husband says that he told her of his pain; she denies it. "
_PROMPT = "{} came to the clinic, number {}, with a pain of kind {}, and was asked {} times whether it had changed."
_NOTHING = f"less than {_LEAST:.0f} MB in all"
Rows = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Input that is grown.

    Attributes:
        told: what a row of the table is of.
        full: how many there are at full size, at four times the first length.
        unit: of ``full``.
        most: MB that may be resident at full size.
        per: how the growth of memory by one is told, with its factor from MB.
        least: the fewest.
        prepare: (size, folder) -> what is measured; what comes before is not.
    """

    told: str
    full: int
    unit: str
    most: float
    per: tuple[str, float]
    least: int
    prepare: Callable[[int, Path], Callable[[], Any]]


def _notes(size: int, folder: Path) -> Callable[[], Any]:
    from swapbias.swapping import Job, swap_files

    notes = folder / "notes.csv"
    with notes.open("w", encoding="utf-8") as handle:
        handle.write("note_id,text\n")
        handle.writelines(_lines(size))
    return lambda: swap_files(Job(str(notes)), folder / "out")


def _lines(megabytes: int) -> Iterator[str]:
    written = 0
    number = 0
    while written < megabytes * 1e6:
        row = f'{number},"Note {number}. {_NOTE * (10 + number % 40)}"\n'
        written = written + len(row)
        number = number + 1
        yield row


def _prompts(size: int, folder: Path) -> Callable[[], Any]:
    import swapbias

    own = folder / "mine.csv"
    with own.open("w", encoding="utf-8") as handle:
        handle.write("text,group,pair,template,condition\n")
        for pair in range(size // 2):
            template = pair % 50
            condition = pair // 50 % 200
            for group, who in (("female", "She"), ("male", "He")):
                text = _PROMPT.format(who, pair, condition, template)
                handle.write(f'"{text}",{group},p{pair},t{template},c{condition}\n')
    asked: dict[str, Any] = {
        "prompts": own,
        "reference": "male",
        "progress": False,
        "out": folder / "run",
    }
    return lambda: swapbias.audit(positive, name="made", **asked)


def positive(texts: list[str]) -> list[float]:
    """A user's own function: probabilities of positive sentiment."""
    return [0.5 + 0.001 * (zlib.crc32(text.encode()) % 100) for text in texts]


def _models(size: int, folder: Path) -> Callable[[], Any]:
    from swapbias.runs import compare_runs, read_run, write_comparison

    runs = sorted((folder.parent / RUNS).iterdir())[:size]
    return lambda: write_comparison(folder / "out", compare_runs([read_run(one) for one in runs]))


RUNS = "runs"  # finished runs of many models, beside the folders of the steps
KINDS: Mapping[str, Kind] = {
    "notes": Kind("notes swapped", 4_000, "MB", 2_048, ("KB a MB", 1e3), 20, _notes),
    "prompts": Kind(
        "own prompts, by a function",
        1_000_000,
        "prompts",
        3_072,
        ("bytes a prompt", 1e6),
        40_000,
        _prompts,
    ),
    "models": Kind(
        "models in one comparison", 100, "models", 2_048, ("MB a model", 1.0), 8, _models
    ),
}


def rounds(scale: Scale, names: Sequence[str] = (), stored: Path | None = None) -> Iterator[Rows]:
    """The rows of the table so far, after each step; of kinds that are not among the names those that are stored."""
    before = (
        json.loads(stored.read_text(encoding="utf-8"))["rows"]
        if names and stored and stored.exists()
        else []
    )
    rows: Rows = []
    for name, kind in KINDS.items():
        if names and name not in names:
            rows += [tuple(row) for row in before if row[0] == kind.told]
            continue
        first = math.ceil(scaled(kind.full, scale, least=kind.least) / TIMES[-1])
        with tempfile.TemporaryDirectory() as place:
            if name == "models":
                timed_process(["-m", "benchmarks.soak.memory", RUNS, str(TIMES[-1] * first), place])
            peaks: list[float] = []
            for times in TIMES:
                peaks.append(_peak(name, times * first, Path(place)))
                rows.append(_row(kind, first, peaks))
                yield rows


def _peak(name: str, size: int, place: Path) -> float:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        _, said = timed_process(["-m", "benchmarks.soak.memory", name, str(size), folder])
    return float(json.loads(said.splitlines()[-1])["peak"])


def _row(kind: Kind, first: int, peaks: Sequence[float]) -> tuple[str, ...]:
    """One length: its peak, what it grew by, and by how many times what the growth before it foretells."""
    size = first * TIMES[len(peaks) - 1]
    peak = peaks[-1]
    grown = ""
    times = ""
    held = peak <= kind.most
    if len(peaks) > 1:
        unit, factor = kind.per
        more = peak - peaks[-2]
        grown = (
            f"{factor * more / (size / 2):,.{0 if factor > 1 else 1}f} {unit}"
            if more >= _LEAST
            else _NOTHING
        )
    if len(peaks) > 2:
        before = peaks[1] - peaks[0]
        after = peaks[2] - peaks[1]
        bound = max(LINEAR * 2 * before, _LEAST)
        times = (
            f"{after / (2 * before):.2f}" if min(before, after) >= _LEAST else "too little to tell"
        )
        held &= after <= bound
    return (
        kind.told,
        f"{size:,} {kind.unit}",
        f"{peak:,.0f} MB",
        f"{kind.most:,.0f} MB",
        grown,
        times,
        "yes" if held else "no",
    )


def _last(scale: Scale, repeat: int) -> Rows:
    *_, rows = rounds(scale)
    return rows


SERIES = Series(
    "memory",
    "The most memory that long inputs take",
    (
        "what",
        "how many",
        "peak",
        "at most",
        "grown by, since half as many",
        "times a straight line's growth",
        "met",
    ),
    _last,
    timed=False,
)


def _step(name: str, size: int, folder: Path) -> None:
    if name == RUNS:
        from benchmarks.comparing import save_runs

        save_runs(folder / RUNS, size)
        return
    before, peak = peak_of(KINDS[name].prepare(size, folder))
    sys.stdout.write(json.dumps({"before": before, "peak": peak}) + "\n")


if __name__ == "__main__":
    _step(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
