"""swapbias compare: runs on disk and on the Hub beside each other, and differences between their models."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swapbias.cli.terminal import AsJson, out, print_findings, print_json
from swapbias.errors import UsageError

if TYPE_CHECKING:
    from swapbias.audit import Column, Compared, Comparison, Row
    from swapbias.findings import Finding

MORE = "There is more than is printed here. Write the whole comparison to a folder with --out."
REPORT = "report.html"
_LONGEST = 4_000  # characters of a sentence
MOST_PRINTED = 2_000  # numbers: more than anybody reads


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|OWNER/NAME[/RUN][@REVISION]...",
            help="Folders of finished runs, and results repositories on the Hub.",
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the page (report.html), tables and figures."),
    ] = None,
    every_pair: Annotated[
        bool, typer.Option("--every-pair", help="Compare every two models, not each with the first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare models: their numbers side by side, differences, and correlations of scores. It ranks nothing."""
    from swapbias.audit import compare_runs, read_run, write_comparison
    from swapbias.hub import Hub, is_shared_name, load_all_shared

    on_hub = [one for one in runs if is_shared_name(one) and not Path(one).exists()]
    read = [read_run(Path(one)) for one in runs if one not in on_hub]
    found, broken = load_all_shared(Hub(), on_hub) if on_hub else ([], [])
    read += found
    if len(read) < 2:
        why = f": {broken[0]}" if broken else ". Name further folders of runs, or results repositories."
        raise UsageError(f"{len(read)} run{'s' * (not read)} can be read, expected two or more{why}")
    compared = compare_runs(read, every_pair=every_pair)
    if folder:
        write_comparison(folder, compared)
    if as_json:
        print_json(comparison_record(compared))
        return
    left_out = [f"Left out: {one}" for one in broken] + list(compared.left_out)
    print_comparison(out, compared.comparison, compared.differences, left_out, said(compared))
    told = f"Page: {folder / REPORT}" if folder else "Write it as a page, with the evidence, with --out DIR."
    out.print(told, soft_wrap=True, markup=False)


def said(compared: "Compared") -> list[str]:
    """The sentences of the page, with the question that each is about."""
    from swapbias.audit import comparison_page
    from swapbias.report import sentences

    return [f"{one.study} {one.experiment}: {told}" for one, told in sentences(comparison_page(compared))]


def comparison_record(compared: "Compared") -> dict[str, object]:
    """What the tables say, for programs."""
    from swapbias.audit import comparison_table
    from swapbias.findings import findings_table

    return {
        "side_by_side": comparison_table(compared.comparison).astype(object).to_dict("records"),
        "differences": findings_table(compared.differences).to_dict("records"),
        "notes": [*compared.comparison.footnotes, *compared.left_out],
    }


# --- the terminal -------------------------------------------------------------------------------------


def print_comparison(
    out: Console,
    comparison: "Comparison",
    differences: "Sequence[Finding]" = (),
    left_out: Sequence[str] = (),
    said: Sequence[str] = (),
) -> None:
    """The page's sentences, a table of each study, differences, what is not comparable, and that nobody wins.

    Names may be strangers': they are printed as they are, without markup or anything a terminal would obey.
    """
    from swapbias.report import NO_RANKING, shown

    for one in said:
        out.print(Text(shown(one, _LONGEST)), soft_wrap=True)
    whole = [one for one in differences if one.slice_by == "all"]
    left = MOST_PRINTED
    for study in dict.fromkeys(row.first.study for row in comparison.rows):
        table = Table(title=Text(study), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        for name in ("quantity", "model"):
            table.add_column(name, overflow="fold")
        for name in ("value, 95 % interval", "n"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in comparison.rows:
            cells = [(one, found) for one, found in zip(comparison.columns, row.found, strict=True) if found]
            if row.first.study == study and left >= len(cells):
                left -= len(cells)
                _add(table, row, cells)
        if table.rows:
            out.print(table)
    if whole and left:
        print_findings(out, "Models compared", whole[:left])
    cut = sum(bool(one) for row in comparison.rows for one in row.found) + len(whole) > MOST_PRINTED
    for sentence in [*([MORE] if cut else []), *comparison.footnotes, *left_out, NO_RANKING]:
        out.print(Text(shown(sentence, 500)), soft_wrap=True)


def _add(table: Table, row: "Row", cells: "Sequence[tuple[Column, Finding]]") -> None:
    """A line for each model that has the quantity; its name, and what differs, stand at the first."""
    from swapbias.report import shown, text

    one = row.first
    told = f"{one.experiment}, {text.where(one)}: {text.quantity(one)} ({one.unit})"
    name = shown(told, 200) + (f"\n{shown(row.note, 200)}" if row.note else "")
    for number, (column, found) in enumerate(cells, start=1):
        table.add_row(
            Text(name if number == 1 else ""),
            Text(shown(column.title, 120)),
            Text(f"{text.value_of(found)} {text.interval_of(found)}")
            + Text(f"\n{found.verdict}" if found.verdict else ""),
            text.counted(found.estimate),
            end_section=number == len(cells),
        )
