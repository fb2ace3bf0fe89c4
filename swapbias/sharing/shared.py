"""What others shared: their results read from the Hub, and printed or written side by side."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapbias.errors import HubError, UsageError
from swapbias.hub import Hub, Repo, State
from swapbias.report import words
from swapbias.result_files import parse_manifest, parse_results
from swapbias.sharing.side_by_side import Column, Comparison, Row, SharedRun, headline, shown, side_by_side

__all__ = ["Broken", "SharedRun", "load_shared", "print_shared", "shared_table", "side_by_side"]

NO_RANKING = (
    "This is a comparison and not a ranking: models have different vocabularies, and the studies' word lists cover "
    "them to different degrees. Runs stand in the order of their models' names. A value near zero is no proof that "
    "a model is fair: it says that this quantity is small on these prompts."
)
MOST_RUNS = 200  # of one repository
MOST_MODELS = 100  # of one run
_RESULTS = re.compile(r"runs/([^/]+)/results\.json")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # what a spreadsheet takes for the start of a formula
_WIDEST = 24  # characters of a column in the terminal
_FIRST = 32  # characters of the column that names the quantity


@dataclass(frozen=True, slots=True)
class Broken:
    """A shared run that cannot be read, and why."""

    repo: str
    name: str
    reason: str


def load_shared(hub: Hub, repo_name: str, *, revision: str = "main") -> tuple[list[SharedRun], list[Broken]]:
    """The runs of a results repository, all read at one commit, and those that cannot be read.

    Raises:
        UsageError: there is no such repository, or it holds no runs.
        HubError: the Hub refuses or cannot be reached.
    """
    repo = Repo("dataset", repo_name)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is no dataset repository that can be seen. Check its name, or log in.")
    names = sorted(found[1] for found in map(_RESULTS.fullmatch, state.files) if found)
    if not names:
        raise UsageError(f"{repo_name} holds no runs/NAME/results.json. Name a repository made with swapbias share.")
    if len(names) > MOST_RUNS:
        raise UsageError(f"{repo_name} holds {len(names)} runs, at most {MOST_RUNS} are read. Name another one.")
    runs: list[SharedRun] = []
    broken: list[Broken] = []
    for name in names:
        try:
            runs.append(_run(hub, state, name))
        except (HubError, ValueError) as error:
            broken.append(Broken(repo_name, name, str(error)))
    return runs, broken


def _run(hub: Hub, state: State, name: str) -> SharedRun:
    """One run.

    Raises:
        ValueError: it is incomplete or not what swapbias writes. HubError: a file of it cannot be read.
    """
    repo, folder = state.repo, f"runs/{name}"
    where = f"{repo.name}/{shown(folder)}"
    if f"{folder}/manifest.json" not in state.files:
        raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
    content = hub.read(repo, f"{folder}/manifest.json", revision=state.commit)
    manifest = parse_manifest(content, f"{where}/manifest.json")
    if manifest["status"] != "complete":
        raise ValueError(f"{where}: the run is not complete. Its owner can finish and share it again.")
    if manifest.get("credentialed"):
        raise ValueError(f"{where}: it says that it holds credentialed data, which nobody may share. Tell its owner.")
    content = hub.read(repo, f"{folder}/results.json", revision=state.commit)
    found = parse_results(content, f"{where}/results.json")
    models = {one.model_id for one in found}
    if len(models) > MOST_MODELS:
        raise ValueError(f"{where}: it holds {len(models)} models, at most {MOST_MODELS} are read.")
    keys = [(*one.key(), one.study, one.model_id) for one in found if headline(one)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a headline finding stands twice. Its owner can share it again.")
    return SharedRun(repo.name, name, state.commit, manifest, found)


def shared_table(comparison: Comparison) -> pd.DataFrame:
    """The comparison for a CSV file: numbers in full, blank where there is none.

    Cells and headers that a spreadsheet would run as a formula begin with an apostrophe.
    """
    return pd.DataFrame([dict(_record(comparison.columns, row)) for row in comparison.rows]).astype(
        {inert(f"{column.title}: n"): "Int64" for column in comparison.columns}
    )


def _record(columns: Sequence[Column], row: Row) -> Iterator[tuple[str, Any]]:
    for name in ("study", "experiment", "subset", "measure", "contrast", "unit"):
        yield name, inert(getattr(row.first, name))
    yield "note", inert(row.note)
    for column, found in zip(columns, row.found, strict=True):
        for name in ("value", "ci_low", "ci_high"):
            yield inert(f"{column.title}: {name}"), getattr(found.estimate, name) if found else math.nan
        yield inert(f"{column.title}: n"), found.estimate.n if found else None


def inert(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> inert("=1+1"), inert("gap")
    ("'=1+1", 'gap')
    """
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


# --- the terminal -------------------------------------------------------------------------------------


def print_shared(out: Console, comparison: Comparison, broken: Sequence[Broken] = ()) -> None:
    """Tables of a study each, runs beside each other; what is not comparable or broken, and that nobody wins.

    Names come from strangers: they are printed as they are, without markup or anything a terminal would obey.
    """
    columns = comparison.columns
    fitting = max(1, (out.width - _FIRST) // _WIDEST)
    for study in dict.fromkeys(row.first.study for row in comparison.rows):
        rows = [row for row in comparison.rows if row.first.study == study]
        mine = [index for index in range(len(columns)) if any(row.found[index] for row in rows)]
        for start in range(0, len(mine), fitting):
            out.print(_table(study, columns, rows, mine[start : start + fitting]))
    sentences = [*comparison.footnotes, *(f"Left out: {one.reason}" for one in broken), NO_RANKING]
    for sentence in sentences:
        out.print(Text(shown(sentence, 500)), soft_wrap=True)


def _table(study: str, columns: Sequence[Column], rows: Sequence[Row], chosen: Sequence[int]) -> Table:
    table = Table(title=Text(study), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("quantity", min_width=_FIRST - 10, max_width=2 * _FIRST, overflow="fold")
    for index in chosen:
        table.add_column(Text(shown(columns[index].title, 120)), justify="right", overflow="fold")
    for row in rows:
        table.add_row(Text(_quantity(row)), *(Text(_cell(row, index)) for index in chosen))
    return table


def _quantity(row: Row) -> str:
    """What a row holds, in words: experiment, subset, quantity, unit and note."""
    one = row.first
    told = f"{one.experiment}, {words.where(one)}: {words.quantity(one)} ({one.unit})"
    return shown(told, 200) + (f"\n{shown(row.note, 200)}" if row.note else "")


def _cell(row: Row, index: int) -> str:
    """The value, its interval and how many units it rests on, a line each."""
    found = row.found[index]
    if found is None:
        return "–"
    estimate = found.estimate
    left_out = f" (+{estimate.n_unscored} not scored)" if estimate.n_unscored else ""
    ends = "" if math.isnan(estimate.ci_low) else f"\n{words.interval(estimate, signed=words.is_signed(found))}"
    return f"{words.value_of(found)}{ends}\nn = {estimate.n}{left_out}"
