"""Settings of one kind of model, given as ``-M KEY=VALUE``: their table, and how values are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand

from swapbias.cli.terminal import out
from swapbias.errors import UsageError, quoted
from swapbias.scorers import FLAGS, LoadOptions, kinds, settable

_GROUPS = {"load": "model"}


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
        if wanted not in _READ:
            return text
        read, expected = _READ[wanted]
        try:
            return read(text)
        except (ValueError, KeyError) as error:
            raise UsageError(f"-M {self.key} is {quoted(text)}, expected {expected}.") from error


_READ: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    bool: ({"true": True, "false": False, "": True}.__getitem__, "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
}
_RUN = (
    Setting("group", "prompts", str, "", "Of own prompts: the group compared with the reference; each by default."),
    Setting("lexicon", "prompts", str, "", "Of own prompts: a CSV file of words (word, group) counted at <mask>."),
    Setting("conclude", "run", bool, False, "With --resume: ask nothing more, and conclude from whole trials."),
    Setting("own_store", "run", bool, False, "The store named is yours alone: credentialed notes may lie there."),
    Setting("engine", "cluster", str, "local", "local, or ray: workers on machines of a cluster."),
    Setting("address", "cluster", str | None, None, "Of your Ray cluster, as HOST:PORT or auto."),
    Setting("workers", "cluster", int | None, None, "How many; as the cluster has room for by default."),
    Setting("gpus_per_worker", "cluster", float, 0.0, "May be a part of one."),
    Setting("spill", "cluster", str | None, None, "Folder for what Ray's memory cannot hold."),
)
RUN = tuple(one.name for one in _RUN)


def known_settings() -> Iterator[Setting]:
    """Every setting of ``-M``, in the order of the help."""
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            name = one.metadata.get("name", one.name)
            if name not in FLAGS:
                group, default = _GROUPS.get(made.key, made.key), None if get_origin(hint) is tuple else one.default
                yield Setting(name, group, hint, default, one.metadata["help"])
    yield from _RUN


def read_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """The settings that ``KEY=VALUE`` pairs name; of a key that takes several values a list.

    Raises:
        UsageError: an unknown key, one named twice, or a value that does not fit.
    """
    known = {one.name: one for one in known_settings()}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if name in FLAGS:
            raise UsageError(f"{key} has an option of its own. Write --{key.replace('_', '-')}.")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0].replace('_', '-')}?" if near else "See swapbias help settings."
            raise UsageError(f"Unknown setting {quoted(key)}. {hint}")
        one = known[name]
        if not text and one.type is not bool:
            raise UsageError(f"-M {one.key} has no value. Write -M {one.key}=VALUE.")
        if get_origin(one.type) is tuple:
            found.setdefault(name, []).append(text)
            continue
        if name in found:
            raise UsageError(f"-M {one.key} is given twice. Drop one of them.")
        found[name] = one.read(text)
    return found


class WithSettings(TyperCommand):
    """A command with ``-M``; a setting that is written as an option gets one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse ``--temperature 0``, which is ``-M temperature=0``."""
        keys = {f"--{one.key}": one for one in known_settings()}
        for written in (one.partition("=")[0] for one in args):
            if written in keys:
                key = keys[written].key
                value = "" if keys[written].type is bool else "=VALUE"
                raise UsageError(f"{written} is a setting. Write -M {key}{value} (all: swapbias help settings).")
        return super().parse_args(ctx, args)


ModelSettings = Annotated[
    list[str] | None,
    typer.Option(
        "-M",
        metavar="KEY=VALUE",
        show_default=False,
        help="Setting of one kind of model; all: swapbias help settings.",
    ),
]


def help_on(
    topic: Annotated[str, typer.Argument(metavar="settings", help="What to explain.")] = "settings",
    group: Annotated[str | None, typer.Argument(metavar="[KIND]", show_default=False, help="Of one kind.")] = None,
) -> None:
    """List the settings of -M with defaults and meanings."""
    groups: dict[str, list[Setting]] = {}
    for one in known_settings():
        groups.setdefault(one.group, []).append(one)
    if topic != "settings" or (group and group not in groups):
        raise UsageError(
            f"No help on {quoted(group or topic)}: expected settings, or settings and one of {_or(groups)}."
        )
    for name, listed in groups.items():
        if group in (None, name):
            out.print(f"{name}:", markup=False)
            for one in listed:
                out.print(f"  {_shown(one)}  {one.help}", soft_wrap=True, markup=False)


def _shown(one: Setting) -> str:
    default = "" if one.default in (None, "") else str(one.default).lower() if one.type is bool else str(one.default)
    return f"{one.key}={default}"


def _or(names: Mapping[str, Any]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
