"""The command line. Thin: each command calls one function."""

import gc
import logging
import sys
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from swapbias.cli.auditing import audit, plan
from swapbias.cli.building import build, lexicon, study, swap, train
from swapbias.cli.finished_runs import check, compare, export, figures, pull, push, report, share
from swapbias.cli.listing import WithSettings, cache, help_on, list_, reproduce
from swapbias.cli.terminal import Sectioned, say, show
from swapbias.errors import StudyError, UsageError, extras_named
from swapbias.privacy import TRACEBACKS, forget_notes, log_traceback, safe_message

# Torch and transformers bring a million objects that stay: by Python's own threshold (700) a fifth of an audit's
# start goes by in looking for garbage among them.
_COLLECT_AFTER = 100_000

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure social bias in language models by swapping one slot of a text.",
)
_commands: dict[str, Any] = {
    "list": list_, "check": check, "compare": compare, "report": report, "figures": figures, "export": export,
    "share": share, "build": build, "train": train, "reproduce": reproduce, "cache": cache, "help": help_on,
}  # fmt: skip
app.command("audit", cls=WithSettings)(audit)
app.command("plan", cls=Sectioned, context_settings={"ignore_unknown_options": True})(plan)
app.command("swap", cls=WithSettings)(swap)
for _name, _command in _commands.items():
    app.command(_name, cls=Sectioned)(_command)
for _name, _group in {"study": study, "lexicon": lexicon, "push": push, "pull": pull}.items():
    app.add_typer(_group, name=_name)
    for _each in _group.registered_commands:
        _each.cls = Sectioned


def main() -> NoReturn:
    """Run the command; trouble becomes one sentence and exit code 2 (usage) or 1."""
    gc.set_threshold(_COLLECT_AFTER)
    forget_notes()
    _show_tracebacks("--debug" in sys.argv)
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with extras_named():
            code = get_command(app)(arguments or ["--help"], prog_name="swapbias", standalone_mode=False)
    except UsageError as error:
        _fail(str(error), 2, error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or safe_message(error)}. Check the place and its free space.", 1, error)
    except ValueError as error:
        _fail(safe_message(error), 1, error)
    except Exception as fault:  # noqa: BLE001 - the last resort before a traceback
        if hasattr(fault, "format_message"):  # of click, whose classes typer has inside
            _fail(_parse_error(fault), 2, fault)
        name = "" if safe_message(fault).startswith(type(fault).__name__) else f"{type(fault).__name__}: "
        bug = "This is a bug in swapbias. Please report it with the output of --debug."
        _fail(f"{name}{safe_message(fault)}. {bug}", 1, fault)
    sys.exit(code or 0)


def _parse_error(error: Any) -> str:
    """A sentence for words that no command takes."""
    path = error.ctx.command_path if error.ctx else "swapbias"
    if type(error).__name__ == "NoArgsIsHelpError":
        return f"{path} needs a command: {', '.join(error.ctx.command.list_commands(error.ctx))}."
    if not hasattr(error, "possibilities"):
        sentence = error.format_message()
        return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See {path} --help."
    near = sorted(error.possibilities or ())[:1]
    return f"No option {error.option_name}. {f'Did you mean {near[0]}?' if near else f'See {path} --help.'}"


def _show_tracebacks(shown: bool) -> None:
    """Print the tracebacks of errors, those that become one sentence while others of several go on included."""
    log = logging.getLogger(TRACEBACKS)
    log.handlers = [logging.StreamHandler(sys.stderr)] if shown else []
    log.setLevel(logging.DEBUG if shown else logging.NOTSET)
    log.propagate = not shown


def _fail(sentence: str, code: int, error: Exception) -> NoReturn:
    log_traceback(error)
    lines = sentence.splitlines() if isinstance(error, StudyError) else [sentence]
    say("swapbias: " + "\n".join(" ".join(line.split()) for line in lines))
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(f"swapbias {version('swapbias')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command; ``--debug`` may stand anywhere."""
