"""Settings of one kind of model, given as ``-M KEY=VALUE``: their table, and how values are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from swapbias.cli.terminal import Sectioned, show
from swapbias.cluster import Engine
from swapbias.errors import UsageError, quoted
from swapbias.files import is_url
from swapbias.models import FLAGS, LoadOptions, kinds, settable

ModelSettings = Annotated[
    list[str] | None,
    typer.Option("-M", metavar="KEY=VALUE", help="Further setting: swapbias help settings."),
]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of ``-M``: its group, type, default and meaning."""

    name: str
    group: str
    type: Any
    default: Any
    help: str

    @property
    def key(self) -> str:
        """As it is written."""
        return self.name.replace("_", "-")

    def read(self, text: str) -> Any:
        """A value from its text.

        Raises:
            UsageError: it is no value of the type.
        """
        wanted = next((one for one in get_args(self.type) if one is not type(None)), self.type)
        if not text and wanted is not bool:
            raise UsageError(f"-M {self.key} has no value. Write -M {self.key}=VALUE.")
        read, expected = _READERS.get(wanted, (str, "a text"))
        try:
            return read(text)
        except (ValueError, KeyError) as error:
            raise UsageError(f"-M {self.key} is {quoted(text)}, expected {expected}.") from error


_READERS: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    bool: ({"true": True, "false": False, "": True}.__getitem__, "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
}
_CLUSTER = (
    Setting("engine", "cluster", str, "local", "local, or ray: workers on machines of a cluster."),
    Setting("address", "cluster", str | None, None, "Your Ray cluster, as HOST:PORT or auto; none: this machine."),
    Setting("workers", "cluster", int | None, None, "Number of workers; as the cluster has room for by default."),
    Setting("gpus_per_worker", "cluster", float, 0.0, "GPUs of a worker; may be a part of one."),
    Setting("spill", "cluster", str | None, None, "Folder for what Ray's memory cannot hold."),
    Setting("own_store", "cluster", bool, False, "The store is yours alone: credentialed notes may lie there."),
)
_RUN = (
    Setting("group", "prompts", str, "", "Own prompts: the group compared with the reference; each by default."),
    Setting("lexicon", "prompts", str, "", "Own prompts: a CSV file of words (word, group) counted at <mask>."),
    *_CLUSTER,
)
CLUSTER = tuple(one.name for one in _CLUSTER)
RUN = tuple(one.name for one in _RUN)


def known_settings() -> Iterator[Setting]:
    """Every setting of ``-M``, in the order of the help."""
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            name = one.metadata.get("name", one.name)
            if name not in FLAGS:
                group = "model" if made is LoadOptions else made.key
                default = None if get_origin(hint) is tuple else one.default
                yield Setting(name, group, hint, default, one.metadata["help"])
    yield from _RUN


def read_settings(pairs: Sequence[str] | None, only: Sequence[str] = ()) -> dict[str, Any]:
    """The settings that ``KEY=VALUE`` pairs name, of ``only`` these or all; of a key with several values a list.

    Raises:
        UsageError: an unknown key, one named twice, or a value that does not fit.
    """
    known = {one.name: one for one in known_settings() if not only or one.name in only}
    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, _, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if name in FLAGS:
            raise UsageError(f"{key} has an option of its own. Write --{key.replace('_', '-')}.")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0].replace('_', '-')}?" if near else "See swapbias help settings."
            raise UsageError(f"Unknown setting {quoted(key)}. {hint}")
        if get_origin(known[name].type) is tuple:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise UsageError(f"-M {known[name].key} is given twice. Drop one of them.")
        else:
            found[name] = known[name].read(text)
    return found


def engine_of(settings: Mapping[str, Any], place: str | None) -> Engine:
    """Where the work is done, of settings of the cluster.

    Args:
        settings: by name.
        place: what is written to.

    Raises:
        UsageError: settings that do not fit together.
    """
    if settings.get("own_store") and not (place and is_url(place)):
        raise UsageError("own-store is about a store, and a folder of this machine is written. Drop it.")
    spill = settings.get("spill")
    engine = Engine(
        name=settings.get("engine", "local"),
        address=settings.get("address"),
        workers=settings.get("workers"),
        gpus=settings.get("gpus_per_worker", 0.0),
        spill=Path(spill) if spill else None,
    )
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
                value = "" if keys[written].type is bool else "=VALUE"
                key = f"{keys[written].key}{value}"
                raise UsageError(f"{written} is a setting. Write -M {key} (all: swapbias help settings).")
        return super().parse_args(ctx, args)


def help_on(
    topic: Annotated[str, typer.Argument(metavar="settings", help="What to explain.")] = "settings",
    group: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Settings of one kind.")] = None,
) -> None:
    """List the settings of -M with defaults and meanings."""
    groups: dict[str, list[Setting]] = {}
    for one in known_settings():
        groups.setdefault(one.group, []).append(one)
    if topic != "settings" or (group and group not in groups):
        what = f"settings, or settings and one of {', '.join(groups)}"
        raise UsageError(f"No help on {quoted(group or topic)}. Expected {what}.")
    for name in [group] if group else groups:
        show(f"{name}:")
        for one in groups[name]:
            default = str(one.default).lower() if one.type is bool else one.default
            show(f"  {one.key}={'' if default is None else default}  {one.help}")
