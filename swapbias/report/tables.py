"""Findings in a terminal: verdicts in 80 columns, and tables for those who ask for every number."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from swapbias.findings import DIFFERENCE, Finding, by_the_judge, comparisons, experiment_of, headlines
from swapbias.measures import MEASURES
from swapbias.report import text

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 80  # columns of a terminal
_INDENT = 16  # of a sentence, after its word
_LONGEST = 2_000  # characters of a sentence
_HEADS = ("", "points", "95 % interval", "n", "verdict")


def terminal(found: Sequence[Finding], *, brief: bool = False) -> str:
    """What each experiment found about each model: verdicts, the numbers behind them, how far they hold.

    With ``brief`` the verdicts alone, where there are several questions.
    """
    questions: dict[tuple[str, ...], list[Finding]] = {}
    for one in headlines(found):
        questions.setdefault((one.study, one.experiment, one.model_id), []).append(one)
    alone = brief and len(questions) > 1
    return "\n\n".join("\n".join(_question(several, found, alone)) for several in questions.values())


def _question(several: Sequence[Finding], found: Sequence[Finding], alone: bool) -> Iterator[str]:
    first, experiment = several[0], experiment_of(several[0])
    name = f"{first.study}:{first.experiment}, {text.shown(first.model_id)}"
    yield from _wrapped(f"{name}: {experiment.question if experiment else ''}".removesuffix(": "))
    for one in text.verdicts(several, found):
        label, lines = f"  {one.word.upper()}", _wrapped(text.shown(one.text, _LONGEST), _INDENT)
        if len(label) < _INDENT - 1:
            lines[0] = f"{label:<{_INDENT}}{lines[0].strip()}"
        else:
            yield label
        yield from lines
    if alone:
        return
    yield from _numbers([*(part for one in several for part in text.parts(one, found)), *several])
    for caution in text.cautions(first) if len(several) == 1 else ():
        yield from _wrapped(text.shown(caution, _LONGEST), 2)
    for line in (text.certainty(first), text.published(first, found)) if len(several) == 1 else ():
        yield from _wrapped(line, 2) if line else ()


def _numbers(found: Sequence[Finding]) -> Iterator[str]:
    """A small table, where there are several numbers and all are gaps in points."""
    if len(found) < 2 or not all(MEASURES[one.measure].reach and text.in_points(one.unit) for one in found):
        return
    rows = [
        (text.row_name(one), text.value(one).removesuffix(" points"), text.interval(one) or "–",
         text.counted(one.estimate), text.word(one).lower())
        for one in found
    ]  # fmt: skip
    widths = [max(len(row[place]) for row in (*rows, _HEADS)) for place in range(len(_HEADS))]
    widths[0] = min(widths[0], WIDTH - 2 - sum(widths[1:]) - 2 * (len(widths) - 1))
    yield ""
    for row in (_HEADS, *rows):
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        yield f"  {text.shown(row[0], widths[0]):<{widths[0]}}  {numbers}  {row[-1]}".rstrip()
    yield ""


def _wrapped(sentence: str, indent: int = 0) -> list[str]:
    return textwrap.wrap(sentence, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent) or [""]


def comparison_tables(found: Sequence[Finding]) -> "list[Table]":
    """Every comparison over all rows, headlines first, and apart from them what a judge found."""
    judged = by_the_judge(found)
    tables = [terminal_table("Every comparison over all rows", comparisons(found, rates=True))]
    return [*tables, terminal_table("By the judge, which was shown no group", judged)] if judged else tables


def terminal_table(title: str, found: Sequence[Finding]) -> "Table":
    """Findings, one row each. Names from outside stand there without markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("finding", min_width=30)
    for name in ("value, 95 % interval", "p", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        what = f"{one.study}:{one.experiment}, {text.where(one)}: {text.quantity(one)}, {one.inference}"
        verdict = text.difference_word(one) if one.measure == DIFFERENCE else text.word(one) if one.verdict else ""
        if one.measure == "group_told":
            verdict = text.blinding(one)
        known = one.published
        table.add_row(
            Text(text.shown(what, 500) + (f"\n→ {verdict}" if verdict else "")),
            f"{text.value_of(one)} ({text.interval_of(one)})"
            + (f"\n{known.source} {known.value}" if known and known.value else ""),
            text.tested(one.estimate),
            text.counted(one.estimate),
        )
    return table
