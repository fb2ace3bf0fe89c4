"""``python -m benchmarks [NAME ...] [--scale F] [--repeat N] [--out DIR]``."""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from benchmarks import frame, measuring, pages, table
from swapbias.errors import UsageError

HERE = frame.FOLDER
CHART = HERE.parent / "docs" / "speed.png"
out = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run what is named (everything by default); 2 for a wrong name, 1 where outputs are not equal."""
    options = _options()
    try:
        if options.side:
            _side_alone(options.names[0], options.side, options.scale)
        else:
            _run(options)
    except UsageError as error:
        out.print(f"benchmarks: {error}", markup=False)
        return 2
    except ValueError as error:
        out.print(f"benchmarks: {error}", markup=False)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure speed beside what people use."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(frame.names())}; all by default"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for the size; other than 1 is not kept"
    )
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the median counts")
    parser.add_argument(
        "--runs", type=int, default=1, help="fresh processes for each workload; all are kept"
    )
    parser.add_argument(
        "--memory", action="store_true", help="peak memory of every side, each in its own process"
    )
    parser.add_argument(
        "--processor", action="store_true", help="processor seconds, where others use the machine"
    )
    parser.add_argument("--out", type=Path, help="folder for results, page and chart, at any scale")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if (
        not (math.isfinite(options.scale) and options.scale > 0)
        or min(options.repeat, options.runs) < 1
    ):
        parser.error("--scale must be above 0, --repeat and --runs at least 1")
    return options


def _run(options: argparse.Namespace) -> None:
    kept = options.out or (HERE if options.scale == 1 else None)
    for one in frame.find(options.names):
        try:
            if isinstance(one, frame.Series):
                done: table.Result | table.Steps = _series(
                    one, options
                )  # its steps are processes already
            else:
                done = _workload(one, options) if options.runs == 1 else _fresh(one, options)
        except frame.NotHereError as error:
            out.print(f"{one.name} is left out: {error}.", markup=False)
            continue
        out.print(table.body([done]), markup=False)
        if done.foreign > table.BUSY:
            out.print(
                f"Others used {done.foreign:.0%} of the machine: run {one.name} again when it is idle."
            )
        if kept:
            table.write(done, kept / "results")
            _publish(kept)
    if not kept:
        out.print("Nothing was written: the scale is not 1 and there is no --out.")


def _publish(folder: Path) -> None:
    """The page and the chart again, from all results of the folder, where none is missing."""
    from benchmarks.drawing import draw

    found = table.read(folder / "results")
    if not table.replace_page(folder / "results.md", table.page(found)):
        out.print(
            "results.md is left as it is. To rewrite it, unpack a release's results in benchmarks/results."
        )
        return
    if folder == HERE:
        for name, (heading, content) in pages.pages(found).items():
            page = HERE.parent / name
            text = pages.placed(page.read_text(encoding="utf-8"), content, heading=heading)
            page.write_text(text, encoding="utf-8")
    if cost := next(
        (one for one in found if isinstance(one, table.Steps) and one.name == "cost"), None
    ):
        draw(cost, CHART if folder == HERE else folder / CHART.name)


def _fresh(workload: frame.Workload, options: argparse.Namespace) -> table.Result:
    """The workload in several processes, one after the other; memory is measured in the first alone."""
    found = []
    for number in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            chosen = [
                "--scale",
                str(options.scale),
                "--repeat",
                str(options.repeat),
                "--out",
                folder,
            ]
            flags = ["--memory"] * (options.memory and not number) + [
                "--processor"
            ] * options.processor
            measuring.timed_process(["-m", "benchmarks", workload.name, *chosen, *flags])
            read = (
                table.read(Path(folder) / "results") if (Path(folder) / "results").is_dir() else []
            )
        mine = [one for one in read if isinstance(one, table.Result) and one.name == workload.name]
        if not mine:
            raise frame.NotHereError(f"a process of its own left {workload.name} out")
        found += mine
    return table.merged(found)


def _workload(workload: frame.Workload, options: argparse.Namespace) -> table.Result:
    prepared = workload.prepare(options.scale)
    clock = time.process_time if options.processor else time.perf_counter
    if options.processor:
        measuring.count_processor_time()
    measured = frame.measure(
        prepared, repeat=options.repeat, clock=clock, foreign=measuring.watch_others
    )
    asked = workload.memory or options.memory
    peaks = (
        {side.name: _peak(workload, side.name, options.scale) for side in prepared.sides}
        if asked
        else {}
    )
    return table.result(
        workload,
        prepared,
        measured,
        scale=options.scale,
        peaks=peaks,
        machine=measuring.machine(),
        processor=options.processor,
    )


def _series(series: frame.Series, options: argparse.Namespace) -> table.Steps:
    since = measuring.watch_others()
    rows = series.rows(options.scale, options.repeat)
    foreign = math.nan if series.detached else since() if series.timed else 0.0
    return table.steps(
        series, rows, scale=options.scale, foreign=foreign, machine=measuring.machine()
    )


def _peak(workload: frame.Workload, side: str, scale: float) -> float:
    """MB that a side needs at most, with its inputs, in a process that runs nothing else."""
    _, said = measuring.timed_process(
        ["-m", "benchmarks", workload.name, "--side", side, "--scale", str(scale)]
    )
    told: Mapping[str, float] = json.loads(said.splitlines()[-1])
    return told["peak"]


def _side_alone(name: str, side_name: str, scale: float) -> None:
    workload = next(
        one for one in frame.find([name]) if isinstance(one, frame.Workload) and one.name == name
    )
    prepared = workload.prepare(scale)
    side = next(one for one in prepared.sides if one.name == side_name)
    before, peak = measuring.peak_of(side.run)
    out.print(json.dumps({"before": before, "peak": peak}), markup=False)


if __name__ == "__main__":
    sys.exit(main())
