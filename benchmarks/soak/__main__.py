"""``python -m benchmarks.soak [NAME ...] [--minutes N]``: put the package through it, write reliability.md."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measuring, table
from benchmarks.frame import Series
from benchmarks.soak import fuzz, kills, memory, service
from benchmarks.table import Steps

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE / "reliability.md"
PARTS: dict[str, Series] = {one.SERIES.name: one.SERIES for one in (kills, service, fuzz, memory)}
FULL = 240  # minutes that everything at full size takes on two cores
_TOLD = {
    "kills": (
        "Each command runs in a process of its own, is stopped, goes on as its user would (`--resume`, or the "
        "same command again), and is compared with an undisturbed run byte by byte, but for times of day. A "
        "step of writing is a file that is opened for writing, flushed, renamed, made or removed; what is sent to a "
        "Hub is killed before each request and when its reply is there. `silent`: a flipped bit that changed results "
        "without a word."
    ),
    "soak": "An audit of a chat service is killed at random and goes on; what was paid for is not asked again.",
    "fuzz": (
        "Bytes made from whole files by changing, cutting, splicing and replacing values, by hypothesis, and by "
        "atheris (guided by the lines they reach) where it is installed, read in one process. A traceback is any "
        "error that is not a sentence of the package's own, be it a library's ValueError. A hook of the interpreter "
        "watches for code that is run, processes, connections, pickles, and files changed elsewhere. What was found "
        "is kept in `tests/benchmarks/found.jsonl` and read again by every run of the tests."
    ),
    "memory": (
        "A CSV of made notes is swapped, a table of own prompts is audited with a Python function, runs of made "
        "models in five studies are compared: each in a process of its own, at a length, twice and four times "
        "it. Peaks are resident memory, libraries included. Growth is linear where four times the length grew "
        "by twice what twice the length did; it may be 1.5 times as much."
    ),
}


def main() -> int:
    """Run what is named (everything by default) and write the page; 2 for a wrong name."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Put the package through it."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(PARTS)}; all by default"
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help=f"how long, about; {FULL} is full size"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WHAT", help="command, or kind of memory"
    )
    parser.add_argument(
        "--way", action="append", default=[], metavar="WAY", help="of kills: its beginning"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the page alone, from what is stored"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(PARTS):
        parser.error(f"no {min(unknown)!r}, expected {', '.join(PARTS)}")
    scale = options.minutes / FULL
    for name in () if options.page else options.names or PARTS:
        part = PARTS[name]
        made = (
            kills.rounds(scale, options.only, options.way, RESULTS / "kills.json")
            if part is kills.SERIES
            else memory.rounds(scale, options.only, RESULTS / "memory.json")
            if part is memory.SERIES
            else [part.rows(scale, 1)]
        )
        for rows in made:  # what is measured is kept at once
            table.write(
                table.steps(part, rows, scale=scale, foreign=0.0, machine=measuring.machine()),
                RESULTS,
            )
            table.replace_page(PAGE, page())
    return 0


def page() -> str:
    """reliability.md: what was done, how often, and what came of it, from the stored results."""
    found = {one.name: one for one in table.read(RESULTS) if isinstance(one, Steps)}
    return "\n".join(
        [
            "# Put to the test",
            "",
            "Written by `make soak` from `benchmarks/soak/results`; `make soak SOAK=30` takes half an hour, 240 is",
            "full size. What is promised stands in [SECURITY.md](../SECURITY.md).",
            "",
            *(line for name in PARTS if name in found for line in _section(found[name])),
        ]
    )


def _section(one: Steps) -> Iterator[str]:
    yield from (f"## {one.title}", "", _TOLD[one.name], "", table.markdown(one.columns, one.rows))
    yield f"{one.machine['date']}, Python {one.machine['python']}, {one.scale:.2g} of the full size.\n"


if __name__ == "__main__":
    sys.exit(main())
