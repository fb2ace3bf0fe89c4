"""Text of a terminal: the verdicts on each model, their numbers as a table, and warnings."""

import textwrap
from collections.abc import Sequence

from swapbias.findings import Finding, experiment_of
from swapbias.measures import MEASURES
from swapbias.report.cautions import describe_certainty, list_cautions
from swapbias.report.claims import verdict_word
from swapbias.report.finding_names import join_groups, row_name, safe_line
from swapbias.report.judge_text import state_judged
from swapbias.report.meanings import point_meaning
from swapbias.report.numbers import (
    covered_comparisons,
    finding_format,
    format_interval,
    format_unit_count,
)
from swapbias.report.verdicts import (
    Verdict,
    describe_chance_of_gap,
    gaps_of_sets,
    group_by_question,
    state_verdicts,
)

WIDTH = 80
"""Columns of a terminal."""
_INDENT = 16  # columns before the sentence of a verdict
_LONGEST = 2_000  # characters of a sentence
_FEW_ROWS = 4  # of which one may be called the first minus the second


def render_terminal(rows: Sequence[Finding], *, verbose: bool = False) -> str:
    """Return verdicts on each model, the numbers of a single question, and warnings, as lines of text.

    Args:
        rows: findings of a run.
        verbose: numbers of each question, and how sure each answer is.
    """
    lines: list[str] = []
    chance = describe_chance_of_gap(rows)
    if chance:
        lines += ["", *wrap_sentence(chance)]
    questions = group_by_question(rows)
    for results in questions:
        lines += ["", *wrap_sentence(_heading(results[0]))]
        for verdict in state_verdicts(results, rows):
            lines += _verdict_lines(verdict)
        if len(questions) == 1 or verbose:
            gaps = [gap for finding in results for gap in gaps_of_sets(finding, rows)]
            lines += _number_lines([*gaps, *results])
        if len(results) == 1:
            lines += wrap_sentence(_details(results[0], rows, verbose=verbose), 2)
        lines += wrap_sentence(state_judged(results, rows), 2)
    return "\n".join(lines[1:])


def _heading(finding: Finding) -> str:
    """Return study, experiment, model and question."""
    name = f"{finding.study}:{finding.experiment}, {safe_line(finding.model_id)}"
    experiment = experiment_of(finding)
    return f"{name}: {experiment.question}" if experiment else name


def _verdict_lines(verdict: Verdict) -> list[str]:
    """Return the word of a verdict and its sentence beside it; below it where the word is long."""
    label = f"  {verdict.word.upper()}"
    first, *others = wrap_sentence(verdict.text, _INDENT)
    if len(label) < _INDENT:
        return [f"{label:<{_INDENT}}{first.strip()}", *others]
    return [label, first, *others]


def _details(finding: Finding, rows: Sequence[Finding], *, verbose: bool) -> str:
    """Return what could change an answer, and with ``verbose`` how sure it is."""
    if not verbose:
        return " ".join(list_cautions(finding, rows, with_range=False))
    sentences = [describe_certainty(finding), *list_cautions(finding, rows)]
    return " ".join(filter(None, sentences))


def _number_lines(rows: Sequence[Finding]) -> list[str]:
    """Return a table of gaps in points; nothing for a single one, or where any is no gap in points."""
    if len(rows) < 2:
        return []
    if not all(MEASURES[row.measure].gap_span and row.scale.in_points for row in rows):
        return []
    contrasts = {join_groups(row) for row in rows}
    heading = contrasts.pop() if len(contrasts) == 1 else ""
    table: list[tuple[str, ...]] = [
        (heading, "points", "95 % interval", "for", "n", "verdict"),
    ]
    for row in rows:
        is_difference = row.measure == "gap_difference" and len(rows) <= _FEW_ROWS
        name = "the first minus the second" if is_difference else row_name(row)
        value = finding_format(row)(row.estimate.value)
        covered = covered_comparisons(row) or "1 row"
        count = format_unit_count(row.estimate)
        word = verdict_word(row).lower()
        table.append((name, value, format_interval(row), covered, count, word))
    if not any(row.questions > 1 for row in rows):
        table = [(*line[:3], *line[4:]) for line in table]
    return ["", *_align(table), f"  {point_meaning(rows[0])}"]


def _align(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table: names at the left, numbers at the right, verdicts at the end."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    blanks = 2 * len(widths)  # before each column
    name_width = min(widths[0], WIDTH - blanks - sum(widths[1:]))
    lines = []
    for name, *numbers, word in table:
        cells = [f"{safe_line(name, name_width):<{name_width}}"]
        for number, width in zip(numbers, widths[1:-1], strict=True):
            cells.append(number.rjust(width))
        lines.append(f"  {'  '.join([*cells, word])}".rstrip())
    return lines


def wrap_sentence(sentence: str, indent: int = 0) -> list[str]:
    """Return a sentence as lines of a terminal.

    Args:
        sentence: one or several; each sign that cannot be printed is replaced.
        indent: blanks before each line.
    """
    space = "".ljust(indent)
    return textwrap.wrap(
        safe_line(sentence, _LONGEST), WIDTH, initial_indent=space, subsequent_indent=space
    )
