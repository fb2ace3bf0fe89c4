"""What all commands share: consoles, options, settings of -M, help in sections, progress, an end by a signal."""

import math
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_origin

import typer
from rich.console import Console
from typer.core import TyperCommand

from swapbias.errors import UsageError, expected_value, points_hint, quoted
from swapbias.files import is_url
from swapbias.models import FLAGS, LoadOptions, kinds, settable
from swapbias.studies import did_you_mean
from swapbias.swapping import Engine

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


def share_of_range(text: object) -> float:
    """Read a margin: a share of the range of a unit (``0.05``), or points of it (``5pt``)."""
    form = re.fullmatch(r"(\d+\.?\d*|\.\d+)(?: *(pts?|points?))?", str(text).strip())
    number = float(form[1]) if form else math.nan
    share = number / 100 if form and form[2] else number
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"{text} is no share from 0 to 1. {points_hint(number)}, and 5pt means the same")
    return share


SHARE: dict[str, Any] = {"parser": share_of_range, "metavar": "SHARE"}  # of an option that is a margin
Names = list[str] | None  # of an option or argument that may be repeated
DryRun = Annotated[bool, option("Show what would be written; write nothing.", "--dry-run")]
Verbose = Annotated[bool, option("Print details.", "--verbose")]
RunFolder = Annotated[Path, argument("RUN", "Folder of a finished run.")]
Runs = Annotated[list[str], argument("RUN...", "Folders, or OWNER/NAME[/RUN] on the Hub.")]
OutFolder = Annotated[Path, option("Folder to write to.", "--out")]
ModelSettings = Annotated[Names, option("Further setting: swapbias help settings.", "-M", metavar="KEY=VALUE")]


class Sectioned(TyperCommand):
    """A command whose options stand under the headings of their ``rich_help_panel``."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with stoppable("Stopped. The same command begins anew."):
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


class Setting(NamedTuple):
    """A setting of an audit: its group, type, default, meaning and range."""

    name: str
    group: str
    type: Any
    default: Any
    help: str
    least: float | None = None
    most: float | None = None

    @property
    def key(self) -> str:
        """As it is written."""
        return self.name.replace("_", "-")


_RUN = (
    Setting("group", "prompts", str, "", "Own prompts: the group compared with the reference; each by default."),
    Setting("lexicon", "prompts", str, "", "Own prompts: a CSV file of words (word, group) counted at <mask>."),
    Setting("unit", "prompts", str, "", "Own prompts: what a classifier's or function's score is."),
    Setting("range", "prompts", str, "", "Own prompts: least and largest score, as 0,5."),
    Setting("fixed", "prompts", tuple[str, ...], None, "Own prompts: a column whose values the claim is about."),
    Setting("shared_fills", "prompts", bool, False, "Own prompts: a name or word may stand for two groups."),
    Setting("engine", "cluster", str, "local", "local, or ray: workers on machines of a cluster."),
    Setting("address", "cluster", str | None, None, "Your Ray cluster, as HOST:PORT or auto; none: this machine."),
    Setting("workers", "cluster", int | None, None, "Number of workers; as the cluster has room for by default."),
    Setting("gpus_per_worker", "cluster", float, 0.0, "GPUs of a worker; may be a part of one."),
    Setting("own_store", "cluster", bool, False, "The store is yours alone: credentialed notes may lie there."),
)
RUN = tuple(one.name for one in _RUN)
CLUSTER = tuple(one.name for one in _RUN if one.group == "cluster")


def model_settings() -> Iterator[Setting]:
    """What a user sets of models: options of ``swapbias audit`` (``FLAGS``), and settings of ``-M``."""
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            more, default = one.metadata, None if get_origin(hint) is tuple else one.default
            group, name = "model" if made is LoadOptions else made.key, more.get("name", one.name)
            yield Setting(name, group, hint, default, more["help"], more.get("least"), more.get("most"))


def known_settings() -> list[Setting]:
    """Every setting of ``-M``, in the order of the help."""
    return [*model_settings(), *_RUN]


def as_typed(text: str) -> str:
    """Repeat what stands on the command line, in quotes where it would not be seen or is long."""
    return text if text.isprintable() and 0 < len(text) <= 80 and not text.isspace() else quoted(text)


def read_settings(pairs: Sequence[str] | None, only: Sequence[str] = ()) -> dict[str, Any]:
    """The settings that ``KEY=VALUE`` pairs name, of ``only`` these or all; of a key with several values a list."""
    from pydantic import TypeAdapter, ValidationError

    known = {one.name: one for one in known_settings() if not only or one.name in only}
    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, _, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if name in FLAGS and name not in known:
            raise UsageError(f"{key} has an option of its own. Write --{key.replace('_', '-')}.")
        if name not in known:
            hint = did_you_mean(name.replace("_", "-"), [one.key for one in known.values()])
            raise UsageError(f"Unknown setting {quoted(key)}.{hint or ' See swapbias help settings.'}")
        one = known[name]
        if get_origin(one.type) is tuple:
            found.setdefault(name, []).append(text)
            continue
        if name in found:
            raise UsageError(f"-M {one.key} is given twice. Drop one of them.")
        if not text and one.type is not bool:
            raise UsageError(f"-M {one.key} has no value. Write -M {one.key}=VALUE.")
        try:
            found[name] = TypeAdapter(one.type).validate_python(text or "true")
        except ValidationError:
            wanted = expected_value(one.type, one.least, one.most)
            raise UsageError(f"{one.key} is {as_typed(text)}, expected {wanted}. Change -M {one.key}.") from None
    return found


def engine_of(settings: Mapping[str, Any], place: str | None) -> Engine:
    """Where the work is done that writes to a place; UsageError: settings of the cluster do not fit together."""
    if settings.get("own_store") and not (place and is_url(place)):
        raise UsageError("own-store is about a store, and a folder of this machine is written. Drop it.")
    names = {"engine": "name", "gpus_per_worker": "gpus_per_worker", "address": "address", "workers": "workers"}
    engine = Engine(**{names[one]: value for one, value in settings.items() if one in names})
    engine.check()
    return engine


class WithSettings(Sectioned):
    """A command with ``-M``; a setting that is written as an option gets one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse ``--temperature 0``, which is ``-M temperature=0``."""
        options = {name for one in self.params for name in one.opts}
        keys = {f"--{one.key}": one for one in known_settings()}
        for written in (one.partition("=")[0] for one in args):
            if written in keys and written not in options:
                key = f"{keys[written].key}{'' if keys[written].type is bool else '=VALUE'}"
                raise UsageError(f"{written} is a setting. Write -M {key} (all: swapbias help settings).")
        return super().parse_args(ctx, args)


def show(sentence: object) -> None:
    """A line of results, never wrapped: others read it too."""
    out.print(sentence, soft_wrap=True)


def show_text(sentence: str) -> None:
    """Sentences of results, wrapped between words on a terminal."""
    out.print(sentence, soft_wrap=not out.is_terminal)


def say(sentence: str) -> None:
    """A sentence for the user, beside the results."""
    err.print(sentence, soft_wrap=True)


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
def stoppable(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and signals end the block with 128 + the signal, and one sentence: what was saved, where, what next."""
    try:
        yield
    except KeyboardInterrupt as stop:
        say(sentence if isinstance(sentence, str) else sentence())
        raise typer.Exit(stop.args[0] if stop.args else 130) from None


def end_by_signals() -> None:
    """SIGTERM and SIGHUP raise as Ctrl-C does, so that what is half made is deleted; ignored ones (nohup) stay so."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(128 + number)

    for one in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, end)


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
