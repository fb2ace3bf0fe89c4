"""The command line. Thin: each command calls one function."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from swapbias.cli.audit import audit, plan
from swapbias.cli.cache import cache
from swapbias.cli.check import check
from swapbias.cli.compare import compare
from swapbias.cli.hub import pull, push
from swapbias.cli.lexicon import lexicon
from swapbias.cli.share import export, figures, report, share
from swapbias.cli.study import study
from swapbias.cli.swap import swap
from swapbias.cli.terminal import AsJson, err, out, print_json, print_reproduced, stoppable
from swapbias.cli.train import train
from swapbias.cli.view import view
from swapbias.errors import UsageError, extras_named
from swapbias.privacy import forget_notes, told, told_trace

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure social bias in language models by swapping one slot of a text.",
)
app.add_typer(lexicon, name="lexicon")
app.add_typer(study, name="study")
app.add_typer(push, name="push")
app.add_typer(pull, name="pull")
app.command("audit")(audit)
app.command("plan")(plan)
app.command("check")(check)
app.command("swap")(swap)
app.command("train")(train)
app.command("report")(report)
app.command("cache")(cache)
app.command("figures")(figures)
app.command("share")(share)
app.command("export")(export)
app.command("compare")(compare)
app.command("view")(view)


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
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with extras_named():
            app(arguments, prog_name="swapbias", standalone_mode=True)
    except UsageError as error:
        _fail(str(error), 2, error, debug)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or told(error)}. Check the place and its free space.", 1, error, debug)
    except ValueError as error:
        _fail(told(error), 1, error, debug)
    except Exception as error:  # noqa: BLE001 - the last resort before a traceback
        said = "" if told(error).startswith(type(error).__name__) else f"{type(error).__name__}: "
        _fail(f"{said}{told(error)}. This is a fault of swapbias: see it with --debug.", 1, error, debug)
    sys.exit(0)


def _fail(sentence: str, code: int, error: Exception, debug: bool) -> NoReturn:
    if debug:
        sys.stderr.write(told_trace(error))
    err.print(f"swapbias: {' '.join(sentence.split())}", soft_wrap=True, markup=False)
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


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List studies, corpora with their configs and row counts, and measures."""
    from swapbias.studies import corpora, load_corpus, load_study, metrics, row_count, studies

    asked = [(name, one) for name in studies() for one in load_study(name).experiments]
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
    table = Table(title="Studies", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    _named(table, {"study": [name for name, _ in asked], "experiment": [one.name for _, one in asked]})
    table.add_column("model", overflow="fold")
    table.add_column("question")
    for name, one in asked:
        table.add_row(name, one.name, one.kind if one.configs else "released outputs only", one.question)
    out.print(table)
    for corpus in corpora():
        mine = [(one, rows) for name, one, rows in configs if name == corpus]
        table = Table(title=f"Corpus {corpus}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        _named(table, {"config": [one.name for one, _ in mine]})
        table.add_column("rows", justify="right")
        table.add_column("description")
        for config, rows in mine:
            table.add_row(config.name, "needs upstream" if rows is None else str(rows), config.description)
        out.print(table)
    out.print(f"Measures (evaluate modules): {', '.join(metrics())}")


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
