"""Findings as tables for a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from swapbias.findings import DIFFERENCE, JUDGED, SPREAD, Finding, by_the_judge, comparisons, told_by_chance
from swapbias.report import difference, words
from swapbias.report.sentence import answer

if TYPE_CHECKING:
    from rich.table import Table

_PERFORMED = "differences between the patients' own genders, in the notes as written"
_LONGEST = 2_000  # characters of a verdict


def headline_tables(found: Sequence[Finding]) -> "list[Table]":
    """The comparisons over all rows, headlines first, and the rates of each model."""
    # The papers' own statistics, effect sizes and the other scores stand in the report.
    headlines = terminal_table("Headline findings", comparisons(found))
    judged = by_the_judge(found)
    after = (
        [terminal_table("By the judge, which was shown no group: not in the findings above", judged)]
        if judged
        else []
    )
    performed = [replace(one, model_id=f"{one.model_id}: {_PERFORMED}") for one in words.performance_grids(found)]
    return [headlines, *map(_grid_table, [*words.rate_grids(found), *performed]), *after]


def terminal_table(title: str, found: Sequence[Finding]) -> "Table":
    """Findings, one row each. Names may be strangers': they stand there without markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("finding", min_width=30)
    for name in ("value, 95 % interval", "p", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        estimate, signed, known = one.estimate, words.is_signed(one), one.published
        what = f"{words.where(one)}: {words.quantity(one)}"
        table.add_row(
            Text(words.shown(f"{one.study} {one.experiment}, {what}, {one.inference}", 500) + _concluded(one, found)),
            f"{words.value_of(one)} {words.interval(estimate, signed=signed)}"
            + (f"\n{known.source} {known.value}" if known and known.value else ""),
            words.tested(estimate),
            words.counted(estimate),
        )
    return table


def _concluded(finding: Finding, found: Sequence[Finding]) -> str:
    """The verdict in the words of the report, and of a headline how far it holds, on lines of their own."""
    if finding.measure == "group_told":
        return f"\n→ {told_by_chance(finding)}"
    of_groups = finding.headline and finding.measure == SPREAD
    if not finding.verdict and not of_groups:
        return ""
    if finding.measure == DIFFERENCE:
        return f"\n→ {difference.verdict(finding)}"
    told = answer(finding, found)
    by = "by the judge: " if finding.score == JUDGED else ""
    lines = [f"→ {by}{words.shown(told.sentence, _LONGEST)}"]
    if finding.headline:
        lines.append(
            words.shown(
                "  " + " ".join([*filter(None, [told.certainty and f"{told.certainty}."]), *told.cautions]), _LONGEST
            )
        )
    return "".join(f"\n{line}" for line in lines)


def _grid_table(grid: words.Grid) -> "Table":
    """Rates of one model: phenotypes by regimes; f and m mark the group with more positives."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=grid.model_id, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("phenotype", no_wrap=True)
    table.add_column("regime", no_wrap=True)
    for name in grid.names:
        table.add_column(name, justify="right", no_wrap=True)
    for phenotype, regime, cells in grid.rows:
        shown = [f"{words.value_of(one)} {one.higher_group[:1]:1}" if one else "–" for one in cells]
        table.add_row(words.phenotype_name(phenotype), words.plain(regime), *shown)
    return table
