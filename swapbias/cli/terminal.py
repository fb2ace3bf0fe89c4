"""What all commands print through: the two consoles, sentences, tables and progress bars."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from swapbias.errors import UsageError
from swapbias.files import as_json as plain_json, is_url

if TYPE_CHECKING:
    from swapbias.findings import Finding, NotAtHand, Reproduced
    from swapbias.store import Store

# Names and places are printed as they are: ":x:" in one is no picture, "[x]" no style.
out = Console(emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)


EngineName = Annotated[str, typer.Option("--engine", help="local, or ray: workers on machines of a cluster.")]
Address = Annotated[
    str | None,
    typer.Option(help="Of your Ray cluster, as HOST:PORT or auto; none: one on this machine alone."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, show_default=False, help="How many; none: as the cluster has room for."),
]
Gpus = Annotated[float, typer.Option("--gpus-per-worker", min=0, help="May be a part of one.")]
Spill = Annotated[
    Path | None,
    typer.Option("--spill", show_default=False, help="Folder for what Ray's memory cannot hold."),
]
ENGINE_OPTIONS = ("engine", "address", "workers", "gpus_per_worker", "spill")  # as parameters of a command


OwnStore = Annotated[
    bool,
    typer.Option("--own-store", help="The store named is yours alone: credentialed notes may lie there."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def check_own_store(own: bool, place: str | None) -> None:
    """Refuse a word on a store where none is named."""
    if own and not (place and is_url(place)):
        raise UsageError("own-store is about a store, and a folder of this machine is written. Drop it.")


@contextmanager
def at(place: str, *, own: bool, begun: bool = False) -> Iterator[tuple[Path, "Store | None"]]:
    """The folder that is written to; of one in a store its copy (of all there, if ``begun``), and the store, held."""
    if not is_url(place):
        yield Path(place), None
        return
    from swapbias.store import Store  # its library takes long to import

    store = Store.open(place, own=own)
    with store.mirrored(begun=begun, say=say) as here:
        yield here, store


def print_json(content: Any) -> None:
    """What a table would say, for programs: NaN is null, and nothing is wrapped or coloured."""
    typer.echo(json.dumps(plain_json(content), indent=2, ensure_ascii=False, allow_nan=False))


def split_commas(names: Sequence[str] | None) -> tuple[str, ...]:
    """The values of an option that may be repeated, or hold several with commas between them."""
    return tuple(part.strip() for name in names or () for part in name.split(",") if part.strip())


def say(sentence: str) -> None:
    """A sentence for the user, beside the results."""
    err.print(sentence, soft_wrap=True, markup=False)


class Ended(KeyboardInterrupt):
    """A signal told the process to end; ``code`` is its exit status, 128 and the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def stoppable(told: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP unwind the block, and end the command with one sentence and 128 + the signal.

    Args:
        told: gives the sentence once the block is left: what is kept, where, and how to go on.
    """
    try:
        with _ended_by_signals():
            yield
    except KeyboardInterrupt as stop:
        say(told())
        raise typer.Exit(stop.code if isinstance(stop, Ended) else 130) from None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Signals that end a process raise ``Ended``, so that what is half made is deleted; ignored ones stay so."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended(number)

    ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():  # no other may set them
        ending = []
    before = {one: signal.getsignal(one) for one in ending}
    heeded = [one for one, action in before.items() if action not in (signal.SIG_IGN, None)]  # nohup ignores SIGHUP
    try:
        for one in heeded:
            signal.signal(one, end)
        yield
    finally:
        for one in heeded:
            signal.signal(one, before[one])


@contextmanager
def progress() -> Iterator[Callable[[str, int], Callable[[float], None]]]:
    """Bars: (title, total) -> called with how many more are done; lines where there is no terminal to draw on."""
    if not err.is_terminal:
        yield _progress_lines
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as bars:

        def bar(title: str, total: int) -> Callable[[float], None]:
            task = bars.add_task(title, total=total)

            def advance(done: float) -> None:
                bars.advance(task, done)
                if total - bars.tasks[task].completed < 0.5:  # shares of a step add up but for rounding
                    bars.update(task, completed=total)

            return advance

        yield bar


def _progress_lines(title: str, total: int) -> Callable[[float], None]:
    """A line each time that another tenth is done."""
    done, told = 0.0, 0

    def advance(more: float) -> None:
        nonlocal done, told
        done += more
        tenth = 10 if total - done < 0.5 else int(10 * done / total)  # shares of a step add up but for rounding
        if tenth > told:
            told = tenth
            say(f"{title}: {10 * tenth} % ({total if tenth == 10 else int(done)}/{total})")

    return advance


def print_headlines(out: Console, found: "list[Finding]") -> None:
    """The verdict on each question, and the numbers behind it."""
    from swapbias.report import terminal  # here: most commands print no findings, and these need numpy

    out.print(terminal(found), markup=False, highlight=False, soft_wrap=True)


def print_findings(out: Console, title: str, found: "list[Finding]") -> None:
    """Findings as a table, one row each."""
    from swapbias.report import terminal_table

    out.print(terminal_table(title, found))


def print_reproduced(
    out: Console, rows: "Sequence[Reproduced]", missing: "Sequence[NotAtHand]", *, every: bool
) -> None:
    """A line a study and the numbers that do not match; with ``every`` all of them, and what is not at hand."""
    told = [row for row in rows if every or row.match == "no"]
    if told:
        table = Table("model", "number", "published", "recomputed", "match", "file")
        for row in told:
            note = f"{row.match}: {row.note}" if row.match == "explained" else row.match
            printed = row.published or "–"  # no paper prints it: there is nothing to match
            number = f"{row.study} {row.number}"
            table.add_row(row.model, number, printed, f"{row.recomputed:.6g}", note or "–", row.file)
        out.print(table)
    for one in missing if every else ():
        what = f"Skipped: {one.study} {one.experiment} of {one.model}: {one.reason}"
        out.print(what, soft_wrap=True, markup=False)
    for study in dict.fromkeys([*(row.study for row in rows), *(one.study for one in missing)]):
        mine = [row for row in rows if row.study == study and row.published]
        left = sum(one.study == study for one in missing)
        out.print(f"{study}: {_matched(mine)}; {left} sets of outputs are not at hand.", soft_wrap=True)
    if rows:
        out.print(f"{_matched([row for row in rows if row.published])}.", soft_wrap=True)


def _matched(rows: "Sequence[Reproduced]") -> str:
    if not rows:
        return "nothing to compare"
    wrong, explained = (sum(row.match == kind for row in rows) for kind in ("no", "explained"))
    return f"{len(rows) - wrong - explained} of {len(rows)} numbers match, {explained} explained, {wrong} do not"
