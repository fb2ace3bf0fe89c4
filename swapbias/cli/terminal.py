"""What all commands share: consoles, options, settings of -M, help in sections, an end by a signal."""

import inspect
import math
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from swapbias.cli.help_screens import HelpScreen
from swapbias.errors import UsageError, did_you_mean, points_hint, quoted
from swapbias.files import is_url
from swapbias.models import Fault, Options, Setting, SettingsError
from swapbias.models.chat import ChatOptions
from swapbias.runs import Settings, StoreOptions, setting_classes
from swapbias.swapping import Engine

if TYPE_CHECKING:
    from swapbias.runs import Store

# Names and places are printed as they are: ":x:" in one is no picture, "[x]" no style.
out = Console(emoji=False, markup=False, highlight=False)
err = Console(stderr=True, emoji=False, markup=False, highlight=False)


def option(help: str, *names: str, under: str | None = None, **options: Any) -> Any:
    """Declare an option of a command.

    Args:
        help: its meaning, in the help.
        names: names as they are typed; by default it is named after its parameter.
        under: its heading in the help.
        options: the options of ``typer.Option``.

    Returns:
        the annotation of a parameter.
    """
    return typer.Option(*names, help=help, rich_help_panel=under, **options)


def argument(metavar: str, help: str, **options: Any) -> Any:
    """Declare a positional argument of a command.

    Args:
        metavar: its name in the help.
        help: its meaning there.
        options: the options of ``typer.Argument``.

    Returns:
        the annotation of a parameter.
    """
    return typer.Argument(metavar=metavar, help=help, **options)


def share_of_range(text: object) -> float:
    """Read a margin: a share of the range of a unit (``0.05``), or points of it (``5pt``).

    Args:
        text: the text as it is typed.

    Returns:
        the share, from 0 to 1.

    Raises:
        BadParameter: it is neither.
    """
    form = re.fullmatch(r"(\d+\.?\d*|\.\d+)(?: *(pts?|points?))?", str(text).strip())
    number = float(form[1]) if form else math.nan
    share = number / 100 if form and form[2] else number
    if not 0 <= share <= 1:
        raise typer.BadParameter(
            f"{text} is no share from 0 to 1. {points_hint(number)}, and 5pt means the same"
        )
    return share


SHARE: dict[str, Any] = {"parser": share_of_range, "metavar": "SHARE"}  # of an option: a margin
Names = list[str] | None  # of an option or argument that may be repeated
Overwrite = Annotated[
    bool, option("Overwrite what was changed on the Hub since the last push.", "--overwrite")
]
DryRun = Annotated[bool, option("Show what would be written; write nothing.", "--dry-run")]
Verbose = Annotated[bool, option("Print details.", "--verbose")]
RunFolder = Annotated[Path, argument("RUN", "Folder of a finished run.")]
Runs = Annotated[list[str], argument("RUN...", "Folders of runs, or OWNER/NAME[/RUN] on the Hub.")]
OutFolder = Annotated[Path, option("Folder to write to.", "--out", metavar="FOLDER")]
ModelSettings = Annotated[
    Names, option("Further setting: swapbias help settings.", "-M", metavar="KEY=VALUE")
]


class Sectioned(HelpScreen):
    """A command that Ctrl-C ends with a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with stoppable("Stopped. Run the same command again to start over."):
            return super().invoke(ctx)


def known_settings() -> list[Setting]:
    """List every setting of ``-M``.

    Returns:
        settings in the order of the help.
    """
    settings: list[Setting] = []
    for options in setting_classes():
        if options.key:
            settings += options.settings()
    return settings


def names_of(*classes: type[Options]) -> tuple[str, ...]:
    """List the names of the settings of some classes.

    Args:
        classes: the classes of settings.

    Returns:
        names as Python writes them.
    """
    return tuple(setting.option for options in classes for setting in options.settings())


CLUSTER = names_of(Engine, StoreOptions)


def flag(setting: Setting, under: str) -> inspect.Parameter:
    """Make the parameter of a command that is the option of a setting.

    Args:
        setting: the setting.
        under: its heading in the help.

    Returns:
        a keyword parameter.
    """
    form: Any = setting.plain_type if setting.default is not None else setting.plain_type | None
    default = setting.default
    if setting.is_several:
        form = list[setting.plain_type] | None  # type: ignore[name-defined]
        default = None
    limits: dict[str, Any] = {"min": setting.least, "max": setting.most}
    names = [f"--{setting.key}"]
    if setting.name == "margin":
        limits = SHARE
    if setting.plain_type is bool:
        names = [f"--{setting.key}/--no-{setting.key}"]
        limits = {}
    typed: Any = Annotated[form, option(setting.help, *names, under=under, **limits)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(setting.option, keyword, default=default, annotation=typed)


def add_flags(command: Callable[..., None], screen: Mapping[str, Sequence[str]]) -> None:
    """Give a command the options of settings, in place of its ``**options``.

    Args:
        command: the function; its parameters have annotations of their own.
        screen: headings of the help, each with the names below it: of parameters, or of settings that are options.
    """
    parameters = dict(inspect.signature(command).parameters)
    settings = _settings_by_option()
    placed = {name for names in screen.values() for name in names}
    ordered = [
        parameter
        for name, parameter in parameters.items()
        if name not in placed and parameter.kind != inspect.Parameter.VAR_KEYWORD
    ]
    for heading, names in screen.items():
        for name in names:
            if name in parameters:
                ordered.append(parameters[name])
            else:
                ordered.append(flag(settings[name], heading))
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([parameter.replace(kind=keyword) for parameter in ordered])
    command.__signature__ = signature  # type: ignore[attr-defined]


def _settings_by_option() -> dict[str, Setting]:
    """Return every setting by its name as Python writes it."""
    settings: dict[str, Setting] = {}
    for options in setting_classes():
        settings |= {setting.option: setting for setting in options.settings()}
    return settings


def in_options(error: SettingsError) -> SettingsError:
    """Name settings in an error as the command line writes them.

    Args:
        error: about settings.

    Returns:
        an error of the same faults.
    """
    sentences = []
    for fault in error.faults:
        name = fault.setting.key if fault.setting and not fault.cause else ""
        sentences.append(fault.sentence(name))
    return SettingsError(*sentences, faults=error.faults)


def as_typed(text: str) -> str:
    """Repeat what stands on the command line.

    Args:
        text: the text as it is typed.

    Returns:
        the text, in quotes where it would not be seen or is long.
    """
    if text.isprintable() and 0 < len(text) <= 80 and not text.isspace():
        return text
    return quoted(text)


def read_settings(pairs: Sequence[str] | None, only: Sequence[str] = ()) -> dict[str, Any]:
    """Read settings of ``KEY=VALUE`` pairs.

    Args:
        pairs: pairs as they are typed after ``-M``.
        only: names of the settings that may be set; all where none is given.

    Returns:
        values by name; of a setting with several values a list.

    Raises:
        SettingsError: every fault of the pairs.
    """
    settings = {setting.option: setting for setting in known_settings()}
    if only:
        settings = {name: settings[name] for name in settings if name in only}
    values: dict[str, Any] = {}
    faults: list[str] = []
    for pair in pairs or ():
        key, _, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        setting = settings.get(name)
        if setting is None:
            faults.append(_unknown_key(key, name, settings))
        elif setting.is_several:
            values[name] = [*values.get(name, ()), text]
        elif fault := _pair_fault(setting, text, is_set=name in values):
            faults.append(fault)
        else:
            values[name] = None
            try:
                values[name] = setting.parse(text or "true")
            except ValueError as error:
                faults.append(_wrong_value(setting, text, error))
    if faults:
        raise SettingsError(*faults)
    return ChatOptions.in_engine(values) if "provider" in settings else values


def _pair_fault(setting: Setting, text: str, *, is_set: bool) -> str:
    """Write the sentence for a setting that is given twice, or without a value; blank where neither is so."""
    if is_set:
        return f"-M {setting.key} is given twice. Drop one of them."
    if not text and setting.plain_type is not bool:
        return f"-M {setting.key} has no value. Write -M {setting.key}=VALUE."
    return ""


def _unknown_key(key: str, name: str, settings: Mapping[str, Setting]) -> str:
    """Write the sentence for a key of -M that is none."""
    options = {setting.option for setting in Settings.settings() if setting.use.flag}
    if name in options:
        return f"{key} has an option of its own. Write --{name.replace('_', '-')}."
    near = did_you_mean(name.replace("_", "-"), [setting.key for setting in settings.values()])
    return f"Unknown setting {quoted(key)}.{near or ' See swapbias help settings.'}"


def _wrong_value(setting: Setting, text: str, error: Any) -> str:
    """Write the sentence for a value of -M that its setting cannot have."""
    cause = str(error.errors(include_url=False)[0].get("ctx", {}).get("error") or "")
    fault = Fault(setting.name, text, setting, (), cause)
    name = f"-M {setting.key}" if cause else setting.key
    value = "" if setting.choices else as_typed(text)
    return fault.sentence(name, f"Change -M {setting.key}.", value)


def engine_of(settings: Mapping[str, Any], target: str | None) -> Engine:
    """Choose where work is done.

    Args:
        settings: the settings of the cluster.
        target: the folder or store that is written to; None: the default folder.

    Returns:
        the engine.

    Raises:
        UsageError: the settings do not fit together.
    """
    if settings.get("own_store") and not (target and is_url(target)):
        raise UsageError(
            "own-store is about a store, and a folder of this machine is written. Drop it."
        )
    values = {}
    for setting in Engine.settings():
        if setting.option in settings:
            values[setting.name] = settings[setting.option]
    engine = Engine(**values)
    engine.check()
    return engine


class WithSettings(Sectioned):
    """A command with ``-M``; a setting that is written as an option gets one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse ``--temperature 0``, which is ``-M temperature=0``, and an option that is given twice."""
        options = {name for parameter in self.params for name in parameter.opts}
        settings = {f"--{setting.key}": setting for setting in known_settings()}
        for written in (argument.partition("=")[0] for argument in args):
            if written in settings and written not in options:
                setting = settings[written]
                key = setting.key if setting.plain_type is bool else f"{setting.key}=VALUE"
                raise UsageError(
                    f"{written} is a setting. Write -M {key} (all: swapbias help settings)."
                )
        self._refuse_twice(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_twice(self, ctx: Any, args: Sequence[str]) -> None:
        """Refuse a setting of one value that has two: the first would count for nothing."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        settings = {
            name: setting
            for name, setting in _settings_by_option().items()
            if not setting.is_several
        }
        counts = Counter(parameter.opts[-1] for parameter in order if parameter.name in settings)
        for written, count in counts.items():
            if count > 1:
                raise UsageError(f"{written} is given twice. Drop one of them.")


def show(sentence: object) -> None:
    """Print a line of results, never wrapped: others read it too.

    Args:
        sentence: the line.
    """
    out.print(sentence, soft_wrap=True)


def show_text(sentence: str) -> None:
    """Print sentences of results, wrapped between words on a terminal.

    Args:
        sentence: one or several.
    """
    out.print(sentence, soft_wrap=not out.is_terminal)


def say(sentence: str) -> None:
    """Print a sentence for the user, beside the results.

    Args:
        sentence: the sentence.
    """
    err.print(sentence, soft_wrap=True)


def split_commas(names: Sequence[str] | None) -> list[str]:
    """Split the values of an option that may be repeated, or hold several with commas between them.

    Args:
        names: names as they are typed; None: none.

    Returns:
        values without white space around them.
    """
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]


@contextmanager
def working_folder(target: str, *, is_own: bool) -> Iterator[tuple[Path, "Store | None"]]:
    """Open the folder that is written to; of a store a local copy, which is copied back at the end.

    Args:
        target: a folder, or the address of a store.
        is_own: whether the store is the user's alone.

    Returns:
        the folder here, and the store if it is one.
    """
    if not is_url(target):
        yield Path(target), None
        return
    from swapbias.runs import Store  # its library takes long to import

    store = Store(target, own=is_own)
    with store.mirrored() as here:
        yield here, store


@contextmanager
def stoppable(sentence: str | Callable[[], str]) -> Iterator[None]:
    """End the block by Ctrl-C and signals with 128 + the signal, and one sentence: what was saved, where, what next.

    Args:
        sentence: the sentence, or what makes it.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        say(sentence if isinstance(sentence, str) else sentence())
        raise typer.Exit(stop.args[0] if stop.args else 130) from None


def end_by_signals() -> None:
    """Let SIGTERM and SIGHUP raise as Ctrl-C does: what is half made is deleted. Ignored ones (nohup) stay so."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(128 + number)

    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
