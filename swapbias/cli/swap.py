"""``swapbias swap``: swap, neutralise or double the texts of a file, a folder or a Hub dataset."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from swapbias.cli.terminal import (
    Address,
    AsJson,
    EngineName,
    Gpus,
    OwnStore,
    Spill,
    Workers,
    at,
    check_own_store,
    err,
    out,
    print_json,
    say,
    stoppable,
)
from swapbias.workers import Engine

if TYPE_CHECKING:
    from swapbias.swapping import Done, Step

_SHOWN = 10  # terms in the closing table; report.csv has them all


def swap(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", show_default=False, help="CSV, TSV, JSON lines, Parquet, a folder or a Hub id."
        ),
    ],
    folder: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PATH",
            show_default=False,
            help="New folder, or one to go on with; or s3://BUCKET/FOLDER.",
        ),
    ],
    column: Annotated[str, typer.Option(help="Column of texts.")] = "text",
    mode: Annotated[str, typer.Option(help="swap, neutralise, augment or pairs.")] = "swap",
    table: Annotated[
        str, typer.Option(help="resolved, paper, race, age, two pronouns (she-they) or a CSV file.")
    ] = "resolved",
    resolver: Annotated[
        str | None, typer.Option(show_default=False, help="Model that tells his from him; none: the built-in one.")
    ] = None,
    whose: Annotated[
        str | None,
        typer.Option(show_default=False, help="everyone, or patient: relatives and staff stay. MIMIC: patient."),
    ] = None,
    spouses: Annotated[str, typer.Option(help="swap or keep husbands and wives, with --whose patient.")] = "swap",
    gender: Annotated[
        str | None,
        typer.Option(show_default=False, help="Column of the patient's gender; none: gender, or the text."),
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes that swap.")] = 1,
    split: Annotated[
        str | None, typer.Option(show_default=False, help="Split of a Hub dataset that has several.")
    ] = None,
    credentialed: Annotated[bool, typer.Option("--credentialed", help="Mark rows as not to be shared.")] = False,
    plausible: Annotated[
        bool, typer.Option("--plausible", help="Leave out rows with gender-specific clinical terms (pregnant).")
    ] = False,
    names: Annotated[bool, typer.Option("--names", help="Swap given names too, by how common they are.")] = False,
    batch_rows: Annotated[int, typer.Option(help="Most rows swapped at once.")] = 2000,
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: Gpus = 0.0,
    spill: Spill = None,
    own_store: OwnStore = False,
    as_json: AsJson = False,
) -> None:
    """Swap gendered words in a column of texts and write Parquet; the same command goes on after a stop."""
    from swapbias.swapping import Job, swap_files

    job = Job(
        source, column, mode, table, resolver, split, credentialed, whose=whose, spouses=spouses, gender=gender,
        plausible=plausible, names=names,
    )  # fmt: skip
    where = Engine(name=engine, address=address, workers=workers, gpus=gpus_per_worker, spill=spill)
    stopped = f"Stopped. Whole parts are kept in {folder}: the same command goes on."
    check_own_store(own_store, folder)
    with stoppable(lambda: stopped), _bar() as on_progress, at(folder, own=own_store) as (here, store):
        done = swap_files(
            job, here, processes=processes, batch_rows=batch_rows, on_progress=on_progress, engine=where, say=say,
            store=store,
        )  # fmt: skip
    if as_json:
        print_json({"folder": folder, "credentialed": done.credentialed, **asdict(done.totals)})
    else:
        _print_done(done, folder)


@contextmanager
def _bar() -> Iterator[Callable[["Step"], None]]:
    """A bar over the bytes of the input (none where their number is not known), with rows and text per second."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bars:

        def tell(step: "Step") -> None:
            if not bars.task_ids:  # no bar for a command that is refused
                bars.add_task("Swapping", total=step.size, shown="")
            shown = f"{step.rows:,} rows, {_speed(step)}"
            bars.update(bars.task_ids[0], completed=step.position, shown=shown)

        yield tell


def _speed(step: "Step") -> str:
    return f"{step.text_bytes / 1e6 / max(step.seconds, 1e-9):.1f} MB/s"


def _print_done(done: "Done", place: str) -> None:
    """One table: rows, terms, doubts, and where it all is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    totals = done.totals
    table = Table("what", title="Swapped", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("count", justify="right", no_wrap=True)
    for what, count in (
        ("rows read", totals.rows_read),
        ("rows written", totals.rows_written),
        ("rows with a replacement", totals.rows_replaced),
        ("rows left out: nothing to replace", totals.rows_left_out),
        ("rows left out: implausible in the other gender", totals.rows_implausible),
        ("rows with a doubtful decision", totals.rows_ambiguous),
        ("rows with a gender-specific term", totals.rows_specific),
    ):
        table.add_row(what, f"{count:,}")
    for kind, counts in totals.by_kind():
        table.add_section()
        for term, count in counts.most_common(_SHOWN):
            table.add_row(Text(f"{kind}: {term}"), f"{count:,}")
        rest = len(counts) - _SHOWN
        if rest > 0:
            table.add_row(f"{kind}: {rest} more, see report.csv", f"{sum(counts.values()) - _top(counts):,}")
    out.print(table)
    speed = f", {_speed(done.last)}" if done.last.text_bytes else ""
    say(f"{totals.text_bytes / 1e6:,.1f} MB of text{speed}.")
    if done.credentialed:
        say(f"Every row is marked credentialed ({done.credentialed}): do not publish, upload or send them to an API.")
    out.print(f"Swapped: {place}", soft_wrap=True, markup=False)


def _top(counts: Counter[str]) -> int:
    return sum(count for _, count in counts.most_common(_SHOWN))
