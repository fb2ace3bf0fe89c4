"""Charts of findings: values on one scale as rows of a table, gaps by slice, rates, answers by class."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from swapbias import findings
from swapbias.findings import Finding, decision, primary_findings, split_findings, terms
from swapbias.measures import MEASURES, answer_accuracy, split_rates
from swapbias.report.charts import Axis, Chart, Dot, Row, value_above_interval
from swapbias.report.claims import UNMEASURED
from swapbias.report.finding_names import (
    capitalize,
    contrast_name,
    group_index,
    group_name,
    join_groups,
    plain_words,
    set_name,
    value_name,
)
from swapbias.report.meanings import direction_meaning, levels_unit
from swapbias.report.numbers import (
    clipped_interval,
    finding_format,
    format_interval_p,
    format_unit_count,
    interval_cell,
    interval_heading,
)
from swapbias.studies import Experiment

_ANSWERED = "What was answered to each side, as a share of all answers. Unreadable: no option was clearly chosen."
_OVER_SPLITS = (
    f"Means over the train/test splits; where fewer than {split_rates.FEWEST_UNLIKE} subjects differ from the rest, "
    "no interval."
)
FOLDED_AFTER = 10
"""Rows of a table that are seen before the rest is unfolded, as in ``page.js``."""
Columns = Mapping[str, tuple[str, int]]
"""Title and colour of the columns of a chart, by their keys."""
Cell = tuple[str, float | None]
"""Text of a cell, and the number to sort by."""


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding with its place in a chart."""

    finding: Finding
    """What is drawn."""
    row: str
    """Name of its row."""
    part: str = ""
    """Heading of its part of the chart; blank for the only one."""
    column: str = ""
    """Key of its column; blank for the only one."""
    beside: tuple[Finding | None, ...] = ()
    """Findings of further measures and scores, whose value (and p) stand in its row; None where there is none."""


def has_several_models(rows: Sequence[Finding]) -> bool:
    """Return whether findings are of more than one model.

    Args:
        rows: findings.
    """
    return len({finding.model_id for finding in rows}) > 1


def axis_of(rows: Sequence[Finding]) -> Axis:
    """Return one scale for all findings of a chart, which reaches no further than their quantity can.

    Args:
        rows: findings of one unit.
    """
    first = rows[0]
    record = MEASURES[first.measure]
    factor = finding_format(first).factor
    margins = [row.margin * factor for row in rows if not math.isnan(row.margin)]
    has_range = first.scale.in_points or record.in_percent
    span = 100.0 if has_range else math.inf
    has_wide_gaps = any(MEASURES[row.measure].gap_span == 2 for row in rows)
    most = 2 * span if has_wide_gaps else span
    least = -most
    if not record.signed:
        is_share = factor == 1 and not record.whole and not has_range
        least = 0.0
        most = 1.0 if is_share else span
    dots = [dot_of(row) for row in rows]
    values = [value for dot in dots for value in (dot.value, dot.low, dot.high)]
    return Axis.over(values, margin=max(margins, default=math.nan), least=least, most=most)


def dot_of(finding: Finding, group: int | None = None) -> Dot:
    """Return a value on its scale; hollow where it may be zero, by its interval, or by its test without one.

    Args:
        finding: a finding of any measure.
        group: chooses colour and shape; None for those of a gap.
    """
    written = finding_format(finding)
    estimate = finding.estimate
    low, high = clipped_interval(finding)
    is_sure = estimate.ci_low > 0 or estimate.ci_high < 0
    if math.isnan(estimate.ci_low):
        is_sure = decision.adjusted_p(finding) < terms.LEVEL
    is_hollow = MEASURES[finding.measure].signed and not is_sure
    value = written.scaled(estimate.value)
    return Dot(value, written.scaled(low), written.scaled(high), group, is_hollow)


def chart_of(
    name: str,
    caption: str,
    placed: Sequence[PlacedFinding],
    columns: Columns | None = None,
    titles_beside: Mapping[str, bool] | None = None,
) -> Chart:
    """Return findings as rows on one scale.

    Args:
        name: the name of the chart; blank for that of an answer, which has no p-values.
        caption: above the chart.
        placed: findings with their places.
        columns: the columns of a chart with several findings in a row; None for one finding a row.
        titles_beside: what the findings beside those of the rows are called, and whether their p stands behind them,
            which replaces that of the rows.
    """
    rows = [entry.finding for entry in placed]
    unit = finding_format(rows[0]).unit
    axis = axis_of(rows)
    first_head = name.rpartition("by ")[2] or _heading_of_groups(rows, unit)
    if columns:
        heads = tuple(title for title, _ in columns.values())
        keys = tuple((group, title) for title, group in columns.values())
        parts = _rows_with_columns(placed, columns)
        kind = interval_heading(rows)
        below = f"Below each value is its {kind}."
        if "simultaneous" in kind:
            below = f"Below each value is its {kind}: it allows for all rows of the table."
        caption = f"{caption} {below}".strip()
        return Chart(name, caption, heads, parts, axis, unit, keys, first_head)
    interval = interval_heading(rows).replace(" ", "\N{NO-BREAK SPACE}")
    p_of_titles = titles_beside or {}
    with_p = bool(name) and not any(p_of_titles.values())
    heads_of_numbers = [unit, interval, *(["p"] if with_p else [])]
    for title, has_p in p_of_titles.items():
        heads_of_numbers += [title, f"p of {title}"] if has_p else [title]
    parts = _rows_with_numbers(placed, [*p_of_titles.values()], with_p=with_p)
    if name:
        parts = {part: _largest_first(part_rows) for part, part_rows in parts.items()}
    return Chart(name, caption, (*heads_of_numbers, "n"), parts, axis, unit, first=first_head)


def _heading_of_groups(rows: Sequence[Finding], unit: str) -> str:
    """Return the head of the first column of an answer's chart: what is subtracted from what."""
    if unit != "points":
        return "what"
    contrasts = {join_groups(finding) for finding in rows}
    return contrasts.pop() if len(contrasts) == 1 else "groups"


def _rows_with_numbers(
    placed: Sequence[PlacedFinding], p_beside: Sequence[bool], *, with_p: bool
) -> dict[str, list[Row]]:
    """Return a row for each finding, by part of the chart: value, interval, p-value and number of units.

    ``p_beside``: whether each of the findings beside it has its p behind it.
    """
    all_findings = [entry.finding for entry in placed]
    parts: dict[str, list[Row]] = {}
    for entry in placed:
        finding = entry.finding
        estimate = finding.estimate
        cells: list[Cell] = [
            (finding_format(finding)(estimate.value), estimate.value),
            (interval_cell(finding, all_findings), estimate.ci_low),
        ]
        if with_p:
            cells.append((format_interval_p(finding), estimate.p_value))
        for beside, has_p in zip(entry.beside, p_beside, strict=False):
            cells += _cells_beside(beside, has_p=has_p)
        cells.append((format_unit_count(estimate), estimate.n))
        row = Row(entry.row, [dot_of(finding)], tuple(cells), finding.primary)
        parts.setdefault(entry.part, []).append(row)
    return parts


def _cells_beside(finding: Finding | None, *, has_p: bool) -> list[Cell]:
    """Return the cells of a finding in the row of another: its value, and its p-value; dashes for none."""
    cells: list[Cell] = [("–", math.nan), ("–", math.nan)]
    if finding is not None:
        value = finding.estimate.value
        cells = [
            (finding_format(finding)(value), value),
            (format_interval_p(finding), finding.estimate.p_value),
        ]
    return cells if has_p else cells[:1]


def _largest_first(rows: list[Row]) -> list[Row]:
    """Return a long part with the largest values first, since a page folds the rest; a short part stays."""
    if len(rows) <= FOLDED_AFTER:
        return rows
    return sorted(rows, key=lambda row: -abs(row.cells[0][1] or 0.0))


def _rows_with_columns(placed: Sequence[PlacedFinding], columns: Columns) -> dict[str, list[Row]]:
    """Return rows of several findings, by part of the chart: a dot and a cell for each column."""
    findings_by_row: dict[tuple[str, str], dict[str, Finding]] = {}
    for entry in placed:
        findings_by_row.setdefault((entry.part, entry.row), {})[entry.column] = entry.finding
    parts: dict[str, list[Row]] = {}
    for (part, name), by_column in findings_by_row.items():
        dots = []
        cells: list[Cell] = []
        for column, (_, group) in columns.items():
            finding = by_column.get(column)
            if finding is None:
                cells.append(("", math.nan))
                continue
            dots.append(dot_of(finding, group))
            cells.append((value_above_interval(finding), finding.estimate.value))
        first = next(iter(by_column.values()))
        parts.setdefault(part, []).append(Row(name, dots, tuple(cells), first.primary))
    return parts


def slice_charts(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield all gaps and effects of several groups; then by slice the gaps, or the means where it has no gaps.

    Args:
        experiment: the experiment that declares the slices.
        rows: its findings; those of a model with one score for every prompt are left out, for equal means would read
            as "no gap".
    """
    constant = _constant_models(rows)
    all_rows = [row for row in rows if not row.view and row.model_id not in constant]
    rows = [row for row in all_rows if row.score == "score"]
    place_row = partial(_place, with_model=has_several_models(rows))
    gaps = [row for row in rows if MEASURES[row.measure].gap_span]
    whole_gaps = [gap for gap in gaps if gap.slice_by == "all"]
    if len(experiment.compares.groups) > 1 and whole_gaps:
        placed = [
            place_row(gap, contrast_name(gap), title=plain_words(gap.measure)) for gap in whole_gaps
        ]
        yield chart_of("groups", "", placed)
    for slice_by in experiment.shows.slices:
        by = slice_by.name
        folded = experiment.shows.folded
        sliced_gaps = [gap for gap in gaps if gap.slice_by == by and gap.measure not in folded]
        means = _level_means(experiment, rows, by)
        if any(not math.isnan(gap.estimate.value) for gap in sliced_gaps):
            yield _chart_of_gaps(f"gaps by {by}", experiment, sliced_gaps, all_rows)
        elif means:
            placed = [
                place_row(mean, value_name(mean.slice_value), column=mean.contrast)
                for mean in means
            ]
            caption = f"Mean {levels_unit(means[0].scale)}, with 95 % intervals."
            columns = _level_columns(experiment, means)
            yield chart_of(f"means by {by}", caption, placed, columns)
        for measure in folded:
            of_measure = [gap for gap in gaps if (gap.slice_by, gap.measure) == (by, measure)]
            if of_measure:
                _, _, detail = of_measure[0].contrast.partition(", ")
                name = f"{detail or plain_words(measure)}: gaps by {by}"
                placed = [place_row(gap, value_name(gap.slice_value)) for gap in of_measure]
                yield replace(chart_of(name, "", placed), folded=True)


def _chart_of_gaps(
    name: str, experiment: Experiment, gaps: Sequence[Finding], rows: Sequence[Finding]
) -> Chart:
    """Return a chart of the gaps of a slice, with the measures and scores that are declared beside them."""
    titles = _titles_of_contrasts(gaps)
    with_model = has_several_models(rows)
    by_row = {(row.measure, *_row_of(row)): row for row in rows if row.score == "score"}
    by_row |= {
        (row.score, *_row_of(row)): row
        for row in rows
        if row.score != "score" and row.measure == "mean" and row.contrast == "all"
    }
    beside_names = {
        name: title
        for name, title in experiment.shows.beside.items()
        if any((name, *_row_of(gap)) in by_row for gap in gaps)
    }
    placed = []
    for gap in gaps:
        entry = _place(
            gap,
            value_name(gap.slice_value),
            with_model=with_model,
            title=titles.get(gap.contrast, ""),
        )
        beside = tuple(by_row.get((column, *_row_of(gap))) for column in beside_names)
        placed.append(replace(entry, beside=beside))
    titles_beside = {title: column in MEASURES for column, title in beside_names.items()}
    caption = ""
    if any(titles_beside.values()):
        names = " and ".join(title for title, has_p in titles_beside.items() if has_p)
        caption = f"{names}: p is of its row alone, not corrected for the number of rows."
    return chart_of(name, caption, placed, titles_beside=titles_beside)


def _row_of(finding: Finding) -> tuple[str, ...]:
    """Return what findings in one row of a chart by slice have in common."""
    return finding.model_id, finding.subset, finding.slice_by, finding.slice_value


def _place(
    finding: Finding, row: str, *, with_model: bool, title: str = "", column: str = ""
) -> PlacedFinding:
    """Return a finding with its row; its part of the chart is headed by model, title and set of conditions."""
    names = [title, set_name(finding)]
    if with_model:
        names.insert(0, finding.model_id)
    return PlacedFinding(finding, row, ", ".join(filter(None, names)), column)


def _titles_of_contrasts(gaps: Sequence[Finding]) -> dict[str, str]:
    """Return the name of each contrast; none where there is only one, which needs no heading."""
    titles = {gap.contrast: contrast_name(gap) for gap in gaps}
    if len(titles) < 2:
        return {}
    return titles


def _constant_models(rows: Sequence[Finding]) -> set[str]:
    """Return the models none of whose primary findings was measured."""
    primary = primary_findings(rows)
    unmeasured = {finding.model_id for finding in primary if finding.verdict == UNMEASURED}
    measured = {finding.model_id for finding in primary if finding.verdict != UNMEASURED}
    return unmeasured - measured


def _level_means(experiment: Experiment, rows: Sequence[Finding], by: str) -> list[Finding]:
    """Return the means of the groups that an experiment shows, by slice."""
    levels = experiment.shows.levels
    return [
        row
        for row in rows
        if row.slice_by == by and row.measure == "mean" and row.contrast in levels
    ]


def _level_columns(experiment: Experiment, means: Sequence[Finding]) -> Columns:
    """Return title and colour of each group that has a mean."""
    groups = {mean.contrast for mean in means}
    return {
        group: (group_name(experiment, group), group_index(experiment, group))
        for group in experiment.shows.levels
        if group in groups
    }


def rate_charts(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield how far each rate differs between the groups, by phenotype and training condition.

    Args:
        experiment: the experiment that compares the groups.
        rows: its findings.
    """
    charts: dict[tuple[str, str], list[PlacedFinding]] = {}
    order = list(MEASURES)
    for finding in sorted(rows, key=lambda finding: order.index(finding.measure)):
        record = MEASURES[finding.measure]
        if not record.tabled or finding.slice_by == "all" or finding.view:
            continue
        name = plain_words(finding.subset)
        if finding.measure == "flip_rate":
            name = f"{name}: {direction_meaning(finding)}"
        placed = PlacedFinding(finding, name, value_name(finding.slice_value))
        charts.setdefault((record.title, finding.model_id), []).append(placed)
    compares = experiment.compares
    groups = [group_name(experiment, group) for group in (compares.group, compares.reference)]
    for (title, model), chart_rows in charts.items():
        record = MEASURES[chart_rows[0].finding.measure]
        caption = f"{capitalize(record.unit)}, with 95 % intervals."
        if record.signed:
            caption = f"{caption} A difference is {' minus '.join(groups)}."
        if split_findings.are_over_splits(placed.finding for placed in chart_rows):
            caption = f"{caption} {_OVER_SPLITS}"
        name = f"{title}, {model}" if has_several_models(rows) else title
        yield chart_of(name, caption, chart_rows)


def answer_tables(experiment: Experiment, rows: pd.DataFrame | None) -> Iterator[Chart]:
    """Yield for each model what was answered, by side: over everything, and for each value of the first slice.

    Args:
        experiment: the experiment that compares the sides.
        rows: its scored rows, if known; of an experiment that reads no answers there is no table.
    """
    if rows is None or f"{answer_accuracy.SAID}other" not in rows:
        return
    # Where no answer is right or wrong, one that was read counts as right.
    right = "right" if f"{answer_accuracy.SAID}correct" in rows else "read"
    several_models = rows["model_id"].nunique() > 1
    for model, of_model in rows.groupby("model_id", sort=False):
        counts = _count_answers(experiment, of_model)
        classes = [
            name
            for name in findings.answer_counts(of_model)
            if any(count[name] for count in counts.values())
        ]
        parts: dict[str, list[Row]] = {}
        for (part, side), count in counts.items():
            shares = _answer_shares(count, classes)
            parts.setdefault(part, []).append(Row(group_name(experiment, side), (), shares))
        heads = tuple(right if name == "right" else name for name in classes)
        title = f"answers by class, {model}" if several_models else "answers by class"
        yield Chart(title, _ANSWERED, heads, parts)


def _count_answers(
    experiment: Experiment, rows: pd.DataFrame
) -> dict[tuple[str, str], dict[str, int]]:
    """Return the number of answers of each class, by part of the table and side."""
    parts = {"all of them": rows}
    for slice_by in experiment.shows.slices[:1]:
        for value, part_rows in rows.groupby(slice_by.column, sort=False):
            parts[value_name(str(value))] = part_rows
    counts = {}
    for part, part_rows in parts.items():
        for side in experiment.compared:
            side_rows = part_rows[part_rows["group"] == side]
            if len(side_rows):
                counts[part, side] = findings.answer_counts(side_rows)
    return counts


def _answer_shares(counts: Mapping[str, int], classes: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells of a side: share and number of answers of each class."""
    total = sum(counts.values())
    cells: list[Cell] = []
    for name in classes:
        share = 100 * counts[name] / total
        cells.append((f"{share:.1f} % ({counts[name]})", counts[name]))
    return tuple(cells)
