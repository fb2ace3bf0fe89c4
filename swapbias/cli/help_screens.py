"""Help of commands: whole sentences, options under headings, and the types of values as words."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

_WIDEST = 100  # columns of a help screen, where the terminal has them
_NARROW = 52  # columns of a terminal
_LEAST = 30  # columns of a help screen
_NAMES = 26  # columns of the options at most
_RANGES = (
    (r"(\S+?)<=x<=(\S+?)(?=[];])", r"\1 to \2"),
    (r"x>=(\S+?)(?=[];])", r"at least \1"),
    (r"x<=(\S+?)(?=[];])", r"at most \1"),
)
_VALUES = {"chat": "MODEL", "encoder": "MODEL", "judge": "MODEL", "reference": "GROUP"}
_NUMBERS = re.compile(r"\b(int|float)")


def _widths() -> dict[str, int]:
    """Return the widths of a help screen: of a narrow terminal its own, where the library takes 50 columns."""
    columns = shutil.get_terminal_size().columns
    widths = {"max_content_width": _WIDEST}
    if columns < _NARROW:
        widths["terminal_width"] = max(columns - 2, _LEAST)
    return widths


class HelpScreen(TyperCommand):
    """A command whose options stand under the headings of their ``rich_help_panel``."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Begin the command with a help screen as wide as the terminal."""
        options |= _widths() | options
        return super().make_context(*arguments, **options)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """List the words of the usage line: arguments that may be left out stand in brackets."""
        pieces = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                name = _argument_name(parameter)
                pieces.append(name if parameter.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then each heading with its options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        title = ""
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if not record:
                continue
            if parameter.param_type_name != "argument":
                title = getattr(parameter, "rich_help_panel", None) or title or "Options"
            sections.setdefault(title or "Arguments", []).append(_in_words(parameter, *record))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=min(_NAMES, formatter.width // 3))


class CommandList(TyperGroup):
    """Commands below one, each with the whole first sentence of its help."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Begin the command with a help screen as wide as the terminal."""
        options |= _widths() | options
        return super().make_context(*arguments, **options)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, then the commands."""
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record])
        with formatter.section("Commands"):
            formatter.write_dl([*self._purposes(ctx)])

    def _purposes(self, ctx: Any) -> Iterator[tuple[str, str]]:
        """Yield each command and what it does."""
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            yield name, " ".join((command.help or "").partition("\n\n")[0].split())


def _argument_name(parameter: Any) -> str:
    """Return the name of an argument: words as in its ``metavar``, with dots where it may be repeated."""
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.nargs == 1 or name.endswith(("...", "...]")) else f"{name}..."


def _in_words(parameter: Any, names: str, meaning: str) -> tuple[str, str]:
    """Return the line of a parameter: its names with the type as a word, and its meaning with ranges as words."""
    for pattern, words in _RANGES:
        meaning = re.sub(pattern, words, meaning)
    if parameter.param_type_name == "argument":
        return _argument_name(parameter), meaning
    if parameter.is_flag:
        return names, meaning
    value = parameter.metavar or _value_name(parameter, names)
    return f"{', '.join(parameter.opts)} {value}", meaning


def _value_name(parameter: Any, names: str) -> str:
    """Return what stands for the value of an option: NUMBER, or the last word of its name, as in --base-url URL."""
    types = names.lower()
    for name in parameter.opts:
        types = types.replace(name, "")
    if _NUMBERS.search(types):
        return "NUMBER"
    name = str(parameter.opts[-1]).rpartition("-")[2]
    return _VALUES.get(name, name.upper())
