"""The command line. Thin: each command calls one function."""

import gc
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from typer.main import get_command

from swapbias.cli.audit import audit, plan
from swapbias.cli.cache import cache
from swapbias.cli.check import check
from swapbias.cli.compare import compare
from swapbias.cli.hub import pull, push
from swapbias.cli.lexicon import lexicon
from swapbias.cli.settings import WithSettings, help_on
from swapbias.cli.share import export, figures, report, share
from swapbias.cli.study import study
from swapbias.cli.swap import swap
from swapbias.cli.terminal import AsJson, err, out, print_json, print_reproduced, stoppable
from swapbias.cli.train import train
from swapbias.errors import StudyError, UsageError, extras_named
from swapbias.privacy import TRACEBACKS, forget_notes, log_traceback, told

if TYPE_CHECKING:
    from swapbias.studies import Experiment

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure social bias in language models by swapping one slot of a text.",
)
app.add_typer(lexicon, name="lexicon")
app.add_typer(study, name="study")
app.add_typer(push, name="push")
app.add_typer(pull, name="pull")
app.command("audit", cls=WithSettings)(audit)
app.command("plan", cls=WithSettings)(plan)
app.command("help")(help_on)
app.command("check")(check)
app.command("swap")(swap)
app.command("train")(train)
app.command("report")(report)
app.command("cache")(cache)
app.command("figures")(figures)
app.command("share")(share)
app.command("export")(export)
app.command("compare")(compare)


def _end_with_a_sentence(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run(*arguments: object, **options: object) -> None:
        with stoppable(lambda: "Stopped. The same command begins anew."):
            command(*arguments, **options)

    return run


# Torch and transformers bring a million objects that stay: by Python's own threshold (700) a fifth of an audit's
# start goes by in looking for garbage among them.
_COLLECT_AFTER = 100_000

Names = Annotated[list[str] | None, typer.Argument(show_default=False)]


def main() -> NoReturn:
    """Run the command; trouble becomes one sentence and exit code 2 (usage) or 1."""
    gc.set_threshold(_COLLECT_AFTER)
    forget_notes()
    _show_tracebacks("--debug" in sys.argv)
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with extras_named():
            get_command(app)(arguments, prog_name="swapbias", standalone_mode=True)
    except UsageError as error:
        _fail(str(error), 2, error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or told(error)}. Check the place and its free space.", 1, error)
    except ValueError as error:
        _fail(told(error), 1, error)
    except Exception as error:  # noqa: BLE001 - the last resort before a traceback
        said = "" if told(error).startswith(type(error).__name__) else f"{type(error).__name__}: "
        _fail(f"{said}{told(error)}. This is a fault of swapbias: see it with --debug.", 1, error)
    sys.exit(0)


def _show_tracebacks(shown: bool) -> None:
    """Print the tracebacks of errors, those that become one sentence while others of several go on included."""
    log = logging.getLogger(TRACEBACKS)
    log.handlers = [logging.StreamHandler(sys.stderr)] if shown else []
    log.setLevel(logging.DEBUG if shown else logging.NOTSET)
    log.propagate = not shown


def _fail(sentence: str, code: int, error: Exception) -> NoReturn:
    log_traceback(error)
    lines = sentence.splitlines() if isinstance(error, StudyError) else [sentence]
    told_lines = "\n".join(" ".join(line.split()) for line in lines)
    err.print(f"swapbias: {told_lines}", soft_wrap=True, markup=False)
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"swapbias {version('swapbias')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command; ``--debug`` may stand anywhere."""


_KINDS = {
    "masked": "Masked language models (BERT, RoBERTa)",
    "causal": "Causal language models (GPT-2, Llama)",
    "classifier": "Classifiers, Python functions, vader",
    "chat": "Chat models (--chat)",
    "embedding": "Clinical notes (word vectors, encoders)",
}
_MOST_NAMED = 3  # experiments of a study for one kind of model; more are one line


@app.command("list")
def list_(
    corpora_: Annotated[bool, typer.Option("--corpora", help="Corpora with their configs and row counts.")] = False,
    measures: Annotated[bool, typer.Option("--measures", help="Measures (evaluate modules).")] = False,
    as_json: AsJson = False,
) -> None:
    """List what can be asked of each kind of model; with options, corpora or measures."""
    from swapbias.studies import corpora, load_corpus, load_study, metrics, row_count, studies

    asked = [(name, one) for name in studies() for one in load_study(name).experiments]
    if as_json or corpora_:
        configs = [(name, one, row_count(name, one.name)) for name in corpora() for one in load_corpus(name).configs]
    if as_json:
        told = ("name", "kind", "configs", "question")
        made = [{"study": study, **{name: getattr(one, name) for name in told}} for study, one in asked]
        tables = [
            {"corpus": name, "config": one.name, "rows": rows, "description": one.description}
            for name, one, rows in configs
        ]
        print_json({"studies": made, "corpora": tables, "measures": metrics()})
        return
    if measures:
        out.print(f"Measures (evaluate modules): {', '.join(metrics())}")
    for corpus in corpora() if corpora_ else ():
        mine = [(one, rows) for name, one, rows in configs if name == corpus]
        table = Table(title=f"Corpus {corpus}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        _named(table, {"config": [one.name for one, _ in mine]})
        table.add_column("rows", justify="right")
        table.add_column("description")
        for config, rows in mine:
            table.add_row(config.name, "needs upstream" if rows is None else str(rows), config.description)
        out.print(table)
    if not (corpora_ or measures):
        out.print("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]", highlight=False)
        for kind, title in _KINDS.items():
            _print_kind(title, [(study, one) for study, one in asked if one.kind == kind and one.configs])


def _print_kind(title: str, asked: "Sequence[tuple[str, Experiment]]") -> None:
    """A line for each experiment, or for each study that has many: its name and the question."""
    from swapbias.studies import load_study

    lines = []
    for name in dict.fromkeys(name for name, _ in asked):
        mine = [one for study, one in asked if study == name]
        if len(mine) > _MOST_NAMED:
            lines.append((f"{name} ({len(mine)} experiments)", load_study(name).title))
        else:
            lines += [(f"{name}:{one.name}", one.question) for one in mine]
    out.print(f"\n{title}", highlight=False)
    for line in lines:
        out.print(f"  {line[0]:<34} {line[1]}", highlight=False, markup=False, no_wrap=True, overflow="ellipsis")


def _named(table: Table, columns: Mapping[str, Sequence[str]]) -> None:
    """Columns of names that must be typed: as wide as the longest, and never cut."""
    for title, names in columns.items():
        table.add_column(title, min_width=max(map(len, (title, *names))), overflow="fold")


@app.command()
def build(
    corpora_: Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...", show_default=False)] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("swapbias-corpora"),
    data: Annotated[
        Path | None,
        typer.Option(help="Your folder of notes (MIMIC-III, MIMIC-IV-Note, own CSV)."),
    ] = None,
) -> None:
    """Write corpora as folders that datasets.load_dataset reads."""
    from swapbias.studies import corpora, load_corpus

    names = corpora_ or [name for name in corpora() if data is None or load_corpus(name).local]
    for name in names:
        load_corpus(name)  # an unknown name is refused before anything is written
    with stoppable(lambda: f"Stopped. Corpora that are whole stay in {folder}: the same command builds all."):
        _build(names, folder, data)
    out.print(f"Built in {folder}", soft_wrap=True, markup=False)


def _build(names: Sequence[str], folder: Path, data: Path | None) -> None:
    from swapbias.hub import corpora as building

    for name in names:
        left_out: dict[str, list[str]] = {}
        for built in building.build(name, folder, data=data):
            if built.left_out:
                left_out.setdefault(built.left_out, []).append(built.config)
            else:
                out.print(f"{name} {built.config}: {built.rows} rows", soft_wrap=True, markup=False)
        for reason, configs in left_out.items():
            out.print(f"{name} {', '.join(configs)}: left out: {reason}", soft_wrap=True, markup=False)


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every number, and what is not at hand.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute published numbers from the authors' released outputs; exit 1 where one differs or none is at hand."""
    from swapbias.findings import NotAtHand, recompute as recomputed
    from swapbias.studies import load_study, studies

    chosen = names or studies()
    for name in chosen:
        load_study(name)
    found = [one for name in chosen for one in recomputed(name)]
    missing = [one for one in found if isinstance(one, NotAtHand)]
    rows = [one for one in found if not isinstance(one, NotAtHand)]
    if as_json:
        print_json({"numbers": [asdict(one) for one in rows], "not_at_hand": [asdict(one) for one in missing]})
    else:
        print_reproduced(out, rows, missing, every=every)
    if not rows:
        raise ValueError(_NOTHING_AT_HAND)
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


_NOTHING_AT_HAND = (
    "No released output is at hand, so nothing was recomputed. Go online, where the files of the pinned commits are "
    "fetched, or set SWAPBIAS_UPSTREAM to a folder that holds them as OWNER/REPOSITORY/PATH; --all names each."
)


for _group in (app, *(one.typer_instance for one in app.registered_groups)):
    for _command in _group.registered_commands if _group else ():
        _command.callback = _command.callback and _end_with_a_sentence(_command.callback)
