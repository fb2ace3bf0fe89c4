"""What others shared: their results read from the Hub, and printed or written side by side."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapbias.hub.comparison import Column, Comparison, Row, shown
from swapbias.hub.results_repo import Broken
from swapbias.report import words

NO_RANKING = (
    "This is a comparison and not a ranking: models have different vocabularies, and the studies' word lists cover "
    "them to different degrees. Runs stand in the order of their models' names. A value near zero is no proof that "
    "a model is fair: it says that this quantity is small on these prompts."
)
MOST_CELLS = 8_000  # that are printed: some seconds of work, and more than anybody reads
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # what a spreadsheet takes for the start of a formula
_WIDEST = 24  # characters of a column in the terminal
_FIRST = 32  # characters of the column that names the quantity


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
    left, told = MOST_CELLS, []
    for study, rows, chosen in _parts(comparison, max(1, (out.width - _FIRST) // _WIDEST)):
        left -= len(rows) * len(chosen)
        if left < 0:
            told = ["There is more than is printed here. Write the whole comparison to a file with --out."]
            break
        out.print(_table(study, comparison.columns, rows, chosen))
    sentences = [*told, *comparison.footnotes, *(f"Left out: {one.reason}" for one in broken), NO_RANKING]
    for sentence in sentences:
        out.print(Text(shown(sentence, 500)), soft_wrap=True)


def _parts(comparison: Comparison, fitting: int) -> Iterator[tuple[str, list[Row], list[int]]]:
    """Of each study, as many columns as fit beside each other, with the rows in which one of them has a number."""
    for study in dict.fromkeys(row.first.study for row in comparison.rows):
        rows = [row for row in comparison.rows if row.first.study == study]
        mine = [index for index in range(len(comparison.columns)) if any(row.found[index] for row in rows)]
        for start in range(0, len(mine), fitting):
            chosen = mine[start : start + fitting]
            yield study, [row for row in rows if any(row.found[index] for index in chosen)], chosen


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
