"""The command line. Thin: each command calls one function."""

import gc
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.table import Table

from swapbias.cli.audit import audit, plan
from swapbias.cli.cache import cache
from swapbias.cli.check import check
from swapbias.cli.compare import compare
from swapbias.cli.lexicon import lexicon
from swapbias.cli.share import report, share
from swapbias.cli.swap import swap
from swapbias.cli.terminal import err, out
from swapbias.cli.train import train
from swapbias.errors import UsageError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure social bias in language models by swapping one slot of a text.",
)
app.add_typer(lexicon, name="lexicon")
app.command("audit")(audit)
app.command("plan")(plan)
app.command("check")(check)
app.command("swap")(swap)
app.command("train")(train)
app.command("report")(report)
app.command("cache")(cache)
app.command("share")(share)
app.command("compare")(compare)

# Torch and transformers bring a million objects that stay: by Python's own threshold (700) a fifth of an audit's
# start goes by in looking for garbage among them.
_COLLECT_AFTER = 100_000

Names = Annotated[list[str] | None, typer.Argument(show_default=False)]


def main() -> NoReturn:
    """Run the command; trouble becomes one sentence and exit code 2 (usage) or 1."""
    gc.set_threshold(_COLLECT_AFTER)
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, prog_name="swapbias", standalone_mode=True)
    except UsageError as error:
        _fail(str(error), 2, debug)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}. Check the place and its free space.", 1, debug)
    except ValueError as error:
        _fail(str(error), 1, debug)
    except KeyboardInterrupt:
        _fail("Stopped. What was scored is kept: go on with swapbias audit --resume DIR.", 130, debug)
    except Exception as error:  # noqa: BLE001 - the last resort before a traceback
        _fail(f"{type(error).__name__}: {error}. This is a fault of swapbias: see it with --debug.", 1, debug)
    sys.exit(0)


def _fail(sentence: str, code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
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
def list_() -> None:
    """List studies, corpora with their configs and row counts, and measures."""
    from swapbias.studies import corpora, load_corpus, load_study, metrics, row_count, studies

    table = Table("study", "experiment", "model", "question", title="Studies", title_justify="left")
    for name in studies():
        for experiment in load_study(name).experiments:
            kind = experiment.kind if experiment.configs else "released outputs only"
            table.add_row(name, experiment.name, kind, experiment.question)
    out.print(table)
    table = Table("corpus", "config", "rows", "description", title="Corpora", title_justify="left")
    for name in corpora():
        for config in load_corpus(name).configs:
            rows = row_count(name, config.name)
            table.add_row(name, config.name, "needs upstream" if rows is None else str(rows), config.description)
    out.print(table)
    out.print(f"Measures (evaluate modules): {', '.join(metrics())}")


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
    from swapbias.hub import corpora as building
    from swapbias.studies import corpora, load_corpus

    names = corpora_ or [name for name in corpora() if data is None or load_corpus(name).local]
    for name in names:
        load_corpus(name)  # an unknown name is refused before anything is written
    for name in names:
        for built in building.build(name, folder, data=data):
            what = f"left out: {built.left_out}" if built.left_out else f"{built.rows} rows"
            out.print(f"{built.corpus} {built.config}: {what}", soft_wrap=True, markup=False)
    out.print(f"Built in {folder}", soft_wrap=True, markup=False)


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...", show_default=False)] = None,
) -> None:
    """Recompute published numbers from the authors' released outputs."""
    from swapbias.cli.terminal import print_reproduced
    from swapbias.findings import NotAtHand, Reproduced, recompute as recomputed
    from swapbias.studies import load_study, studies

    chosen = names or studies()
    for name in chosen:
        load_study(name)
    rows: list[Reproduced] = []
    missing: list[NotAtHand] = []
    for name in chosen:
        for one in recomputed(name):
            if isinstance(one, NotAtHand):
                missing.append(one)
            else:
                rows.append(one)
    if print_reproduced(out, rows, missing):
        raise typer.Exit(1)
