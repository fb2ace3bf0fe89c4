"""swapbias help: a command, or the settings of -M."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from swapbias.cli import terminal as ui
from swapbias.cli.entries import show_entry
from swapbias.errors import UsageError, did_you_mean, listed, quoted
from swapbias.models import Setting


def _topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """List what the help explains and begins with what is typed."""
    commands: Any = ctx.find_root().command
    return [name for name in (*commands.commands, "settings") if name.startswith(incomplete)]


def help_on(
    context: typer.Context,
    topic: Annotated[
        str, ui.argument("TOPIC", "A command, or settings.", autocompletion=_topics)
    ] = "",
    part: Annotated[str, ui.argument("PART", "A command of study, or a kind of settings.")] = "",
) -> None:
    """Explain a command, or list the settings of -M.

    swapbias help audit

    swapbias help settings chat
    """
    if topic == "settings":
        _show_settings(part)
        return
    command: Any = context.find_root().command
    words = [word for word in (topic, part) if word]
    for depth, word in enumerate(words):
        below = getattr(command, "commands", {})
        if word not in below:
            raise _no_help(" ".join(words[: depth + 1]), [*below, *([] if depth else ["settings"])])
        command = below[word]
    command(["--help"], prog_name=" ".join(["swapbias", *words]), standalone_mode=False)


def _no_help(topic: str, topics: Sequence[str]) -> UsageError:
    """Return the error for a topic that the help does not have."""
    name = topic.rpartition(" ")[2]
    near = did_you_mean(name, topics)
    return UsageError(f"No help on {quoted(topic)}.{near or f' Expected one of {listed(topics)}.'}")


def _show_settings(section: str) -> None:
    """Show the settings of -M with defaults and meanings, all or those of one kind."""
    settings = ui.known_settings()
    sections = list(dict.fromkeys(setting.section for setting in settings))
    if section and section not in sections:
        raise _no_help(section, sections)
    wanted = [section] if section else sections
    for name in wanted:
        ui.show(f"{name}:")
        for setting in settings:
            if setting.section == name:
                show_entry(
                    f"  {setting.key}={_default_as_typed(setting)}  {setting.help}", indent=6
                )


def _default_as_typed(setting: Setting) -> str:
    """Return the value of a setting where nothing is set, as -M takes it; blank where it has none."""
    if setting.default is None or setting.is_several:
        return ""
    text = str(setting.default)
    return text.lower() if isinstance(setting.default, bool) else text
