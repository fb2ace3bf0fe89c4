"""The command line. Thin: each command calls one function."""

import gc
import logging
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from swapbias import __version__
from swapbias.cli import completion
from swapbias.cli.auditing import audit
from swapbias.cli.data import build, swap, train
from swapbias.cli.finished_runs import check, compare, export, figures, pull, push, redraw, share
from swapbias.cli.help_command import help_on
from swapbias.cli.help_screens import CommandList
from swapbias.cli.list_command import list_
from swapbias.cli.paper_commands import tables
from swapbias.cli.plans import plan
from swapbias.cli.reproduce_command import reproduce
from swapbias.cli.study_commands import study
from swapbias.cli.terminal import (
    Sectioned,
    WithSettings,
    as_typed,
    end_by_signals,
    option,
    say,
    show,
)
from swapbias.errors import (
    TRACEBACKS,
    StudyError,
    UsageError,
    contributed_fault,
    did_you_mean,
    exit_code,
    expected_value,
    extras_named,
    forget_notes,
    log_traceback,
    safe_message,
)
from swapbias.models import SettingsError
from swapbias.public_calls import on_command_line

COLLECT_AFTER = 100_000
"""Objects after which garbage is collected: torch, transformers and findings bring a million that stay."""

app = typer.Typer(
    cls=CommandList,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure social bias in language models by swapping one slot of a text.",
)
app.command("audit", cls=WithSettings)(audit)
app.command("plan", cls=Sectioned, context_settings={"ignore_unknown_options": True})(plan)
app.command("swap", cls=WithSettings)(swap)
app.command("list", cls=Sectioned)(list_)
app.command("help", cls=Sectioned)(help_on)
app.command("report", cls=Sectioned)(redraw)
for _command in (
    check,
    compare,
    tables,
    figures,
    export,
    share,
    push,
    pull,
    build,
    train,
    reproduce,
):
    app.command(cls=Sectioned)(_command)
app.add_typer(study, name="study")


def main() -> NoReturn:
    """Run the command; trouble becomes one sentence and an exit code (``errors.exit_code``)."""
    gc.set_threshold(COLLECT_AFTER)
    end_by_signals()
    forget_notes()
    _show_tracebacks("--debug" in sys.argv)
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with extras_named(), on_command_line():
            command = get_command(app)
            if completion.is_requested():
                completion.answer(command)
                sys.exit()
            words = arguments or ["--help"]
            code = command(words, prog_name="swapbias", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the last resort before a traceback
        log_traceback(error)
        sentence, code = _sentence(error)
        lines = [sentence]
        if isinstance(error, StudyError | SettingsError):
            lines = sentence.splitlines()
        say("swapbias: " + "\n".join(" ".join(line.split()) for line in lines))
    sys.exit(code or 0)


def _sentence(error: Any) -> tuple[str, int]:
    """Return what an error says to the user, and the exit code."""
    if isinstance(error, UsageError):
        return str(error), exit_code(error)
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename else ""
        cause = error.strerror or safe_message(error)
        return f"{file}{cause}. Check the place and its free space.", 1
    if contributed := contributed_fault(error):
        return contributed, 2
    if isinstance(error, ValueError):
        return safe_message(error), exit_code(error)
    if hasattr(error, "format_message"):
        return _command_line_sentence(error), 2
    message = safe_message(error)
    kind = type(error).__name__
    if not message.startswith(kind):
        message = f"{kind}: {message}"
    bug = "This is a bug in swapbias. Please report it with the output of --debug."
    return f"{message.rstrip('.')}. {bug}", 1


def _command_line_sentence(error: Any) -> str:
    """Say what no command takes: an error of click, whose classes typer has inside."""
    path = error.ctx.command_path if error.ctx else "swapbias"
    if type(error).__name__ == "NoArgsIsHelpError":
        return f"{path} needs a command: {', '.join(error.ctx.command.list_commands(error.ctx))}."
    if hasattr(error.__cause__, "errors") and getattr(error, "param", None) is not None:
        return _value_sentence(error.param, error.__cause__)
    if type(error).__name__ == "NoSuchOption":
        near = did_you_mean(error.option_name, error.possibilities or ())
        return f"No such option: {error.option_name}.{near or f' See {path} --help.'}"
    sentence = error.format_message()
    if not sentence.endswith((".", "?")):
        sentence += "."
    return f"{sentence} See {path} --help."


def _value_sentence(parameter: Any, refused: Any) -> str:
    """Say which value of an option pydantic refused, and what the option takes."""
    text = as_typed(str(refused.errors()[0]["input"]))
    limits = getattr(parameter, "min", None), getattr(parameter, "max", None)
    wanted = expected_value(parameter.type_descriptor.annotation, *limits)
    name = parameter.opts[-1]
    return f"{name.lstrip('-')} is {text}, expected {wanted}. Change {name}."


def _show_tracebacks(is_wanted: bool) -> None:
    """Print the tracebacks of errors, those that become one sentence while others of several go on included."""
    log = logging.getLogger(TRACEBACKS)
    log.handlers = []
    log.setLevel(logging.NOTSET)
    if is_wanted:
        log.handlers = [logging.StreamHandler(sys.stderr)]
        log.setLevel(logging.DEBUG)
    log.propagate = not is_wanted


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"swapbias {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, option("The version.", "--version", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, option("Show the traceback of an error.", "--debug")] = False,
) -> None:
    """Options of every command; ``--debug`` may stand anywhere."""
