"""What all commands share: consoles, options, help in sections, progress, an end by Ctrl-C or a signal."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from swapbias.files import as_json as plain_json, is_url

if TYPE_CHECKING:
    from swapbias.runs import Store

# Names and places are printed as they are: ":x:" in one is no picture, "[x]" no style.
out = Console(emoji=False, markup=False, highlight=False)
err = Console(stderr=True, emoji=False, markup=False, highlight=False)


def option(help: str, *names: str, under: str | None = None, **more: Any) -> Any:
    """An option of a command, by default named after its parameter; ``under`` is its heading in the help."""
    return typer.Option(*names, help=help, rich_help_panel=under, **more)


def argument(metavar: str, help: str = "") -> Any:
    """A positional argument of a command."""
    return typer.Argument(metavar=metavar, help=help)


AsJson = Annotated[bool, option("Print JSON.", "--json")]
DryRun = Annotated[bool, option("Show what would be written; write nothing.", "--dry-run")]
Verbose = Annotated[bool, option("Print every number.", "--verbose")]
RunFolder = Annotated[Path, argument("RUN", "Folder of a finished run.")]
Runs = Annotated[list[str], argument("RUN...", "Folders, or OWNER/NAME[/RUN] on the Hub.")]
OutFolder = Annotated[Path, option("Folder to write to.", "--out")]


class Sectioned(TyperCommand):
    """A command whose options stand under the headings of their ``rich_help_panel``; signals end it in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _signals_raise(), stoppable(lambda: "Stopped. The same command begins anew."):
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then each heading with its options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        title = ""
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                if one.param_type_name != "argument":
                    title = getattr(one, "rich_help_panel", None) or title or "Options"
                sections.setdefault(title or "Arguments", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=26)


def show(sentence: object) -> None:
    """A line of results, never wrapped: others read it too."""
    out.print(sentence, soft_wrap=True)


def show_text(sentence: str) -> None:
    """Sentences of results, wrapped between words on a terminal."""
    out.print(sentence, soft_wrap=not out.is_terminal)


def say(sentence: str) -> None:
    """A sentence for the user, beside the results."""
    err.print(sentence, soft_wrap=True)


def show_json(content: Any) -> None:
    """What a table would say, for programs: NaN is null, and nothing is wrapped or coloured."""
    typer.echo(json.dumps(plain_json(content), indent=2, ensure_ascii=False, allow_nan=False))


def split_commas(names: Sequence[str] | None) -> list[str]:
    """The values of an option that may be repeated, or hold several with commas between them."""
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]


@contextmanager
def working_folder(place: str, *, own: bool) -> Iterator[tuple[Path, "Store | None"]]:
    """The folder that is written to; of a store a local copy, which is copied back at the end, and the store."""
    if not is_url(place):
        yield Path(place), None
        return
    from swapbias.runs import Store  # its library takes long to import

    store = Store(place, own=own)
    with store.mirrored() as here:
        yield here, store


@contextmanager
def stoppable(sentence: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and signals end the block with 128 + the signal, and one sentence: what was saved, where, what next."""
    try:
        yield
    except KeyboardInterrupt as stop:
        say(sentence())
        raise typer.Exit(stop.args[0] if stop.args else 130) from None


@contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP raise, so that what is half made is deleted; ignored ones (nohup) stay so."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(128 + number)

    main = threading.current_thread() is threading.main_thread()  # no other may set them
    ending = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)} if main else set()
    before = {one: signal.getsignal(one) for one in ending}
    before = {one: action for one, action in before.items() if action not in (signal.SIG_IGN, None)}
    try:
        for one in before:
            signal.signal(one, end)
        yield
    finally:
        for one, action in before.items():
            signal.signal(one, action)


@contextmanager
def progress() -> Iterator[Callable[[str, int], Callable[[float], Any]]]:
    """Bars on stderr: (title, total) -> called with how many more are done, which may be parts of one."""
    from tqdm import tqdm

    form = "{desc}: {percentage:3.0f} % ({n:.0f}/{total_fmt}), {remaining} to go"
    every = 0.1 if err.is_terminal else 30  # seconds between two states in a log
    with ExitStack() as bars:
        yield (
            lambda title, total: (
                bars.enter_context(tqdm(total=total, desc=title, mininterval=every, bar_format=form)).update
            )
        )
