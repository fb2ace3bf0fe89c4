"""Tables of a comparison of models: all answers with their chips, and the levels of each question."""

import math
from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from swapbias.findings import Finding
from swapbias.measures import MEASURES
from swapbias.report.charts import Chart, Row, value_above_interval
from swapbias.report.compared_models import ComparedContent, Quantity
from swapbias.report.finding_charts import (
    Cell,
    PlacedFinding,
    axis_of,
    chart_of,
    dot_of,
    rate_charts,
    slice_charts,
)
from swapbias.report.finding_names import (
    join_groups,
    quantity_name,
    row_name,
    safe_line,
    set_name,
    value_name,
)
from swapbias.report.headline_tables import direction_tables, markedness_tables, ratio_tables
from swapbias.report.level_table import levels_over_all
from swapbias.report.numbers import (
    finding_format,
    format_interval,
    format_unit_count,
    interval_cell,
    interval_heading,
)
from swapbias.report.page_summary import has_place, question_heading, result_cells, verdict_chip
from swapbias.report.page_template import anchor, mark_unseen
from swapbias.studies import Experiment

_COMPARED = Markup('<span class="soft" id="{}">{}</span>')
_DIFFERENCE = Markup('{} {} <small class="ends">{}</small>')
_LEVELS = "Each value is over all rows, above its own 95 % interval where it has one."
_Titles = Mapping[str, tuple[str, int]]
"""Name and number of each model."""


def summary_tables(compared: ComparedContent, places: Sequence[str]) -> list[Chart]:
    """Return a table of all questions for each unit: a row a model, with its value and its distance to the reference.

    Args:
        compared: content of the page.
        places: the addresses of the sections of the page.
    """
    by_unit: dict[str, list[list[Quantity]]] = {}
    for quantities in compared.questions.values():
        by_unit.setdefault(_unit_of(quantities), []).append(quantities)
    return [
        _summary_table(compared, unit, questions, places) for unit, questions in by_unit.items()
    ]


def _unit_of(quantities: Sequence[Quantity]) -> str:
    """Return the unit of the first value of a question that can be drawn on a scale."""
    rows = [finding for quantity in quantities for finding in quantity.known]
    on_scale = [finding for finding in rows if has_place(finding)]
    return finding_format((on_scale or rows)[0]).unit


def _summary_table(
    compared: ComparedContent,
    unit: str,
    questions: Sequence[Sequence[Quantity]],
    places: Sequence[str],
) -> Chart:
    """Return the table of the questions of one unit."""
    parts: dict[str, list[Row]] = {}
    for quantities in questions:
        first = quantities[0].known[0]
        address = anchor(first.study, first.experiment)
        parts.setdefault(question_heading(first, places), [])
        for number, (compares, alike) in enumerate(_by_what_is_compared(quantities).items()):
            heading = _COMPARED.format(f"{address}.row{number}", compares)
            parts[heading] = [
                _summary_row(compared, quantity, index, unit)
                for index in range(len(compared.models))
                for quantity in alike
                if quantity.found[index] is not None
            ]
    rows = [
        finding for quantities in questions for quantity in quantities for finding in quantity.known
    ]
    on_scale = [finding for finding in rows if _is_drawn(finding, unit)]
    reference = mark_unseen(safe_line(compared.reference, 20))
    heads = (
        "verdict", unit or "value", interval_heading(on_scale or rows), "n", f"minus {reference}",
    )  # fmt: skip
    axis = axis_of(on_scale) if on_scale else None
    return Chart("", "", heads, parts, axis, unit, first="model")


def _by_what_is_compared(quantities: Sequence[Quantity]) -> dict[str, list[Quantity]]:
    """Return the quantities of a question by what they subtract; of several units or prompts each by itself.

    A quantity without any value stands with the first of its name, for there is nothing to confuse.
    """
    by_name: dict[str, list[Quantity]] = {}
    for quantity in sorted(quantities, key=_is_unmeasured):
        name = _what_is_compared(quantity.known[0])
        if name in by_name and not _is_unmeasured(quantity):
            name = f"{name}, {quantity.known[0].unit}; {quantity.note}".rstrip("; ")
        by_name.setdefault(name, []).append(quantity)
    return by_name


def _is_unmeasured(quantity: Quantity) -> bool:
    """Return whether no model has a value of a quantity."""
    return all(math.isnan(finding.estimate.value) for finding in quantity.known)


def _what_is_compared(finding: Finding) -> str:
    """Return what a row subtracts: ``women minus men, mental-health conditions minus other health conditions``."""
    is_gap = finding.group and MEASURES[finding.measure].gap_span
    groups = join_groups(finding) if is_gap and finding.score == "score" else ""
    name = row_name(finding)
    return name if groups in name else f"{groups}, {name}"


def _is_drawn(finding: Finding, unit: str) -> bool:
    """Return whether the value of a finding can be drawn on the scale of a unit."""
    return has_place(finding) and finding_format(finding).unit == unit


def _summary_row(compared: ComparedContent, quantity: Quantity, index: int, unit: str) -> Row:
    """Return the row of a model: verdict, value, interval and n, and its difference to the reference."""
    finding = quantity.found[index]
    assert finding is not None
    model = compared.models[index].name
    chip, value, interval, count = result_cells(finding)
    own_unit = finding_format(finding).unit
    if own_unit != unit and not finding.tests_all_groups:
        value = f"{value} {own_unit}".strip()
    difference = (quantity.differences_by_model or {}).get(model)
    cells = (chip, value, interval, count, _difference_cell(difference, model, compared.reference))
    dots = [dot_of(finding, index)] if _is_drawn(finding, unit) else []
    return Row(mark_unseen(model), dots, tuple((text, None) for text in cells))


def _difference_cell(difference: Finding | None, model: str, reference: str) -> str:
    """Return how far a model lies from the reference, behind the verdict on that."""
    if model == reference:
        return "reference"
    if difference is None:
        return "not tested"
    if math.isnan(difference.estimate.value):
        return verdict_chip(difference)
    value = finding_format(difference)(difference.estimate.value)
    ends = format_interval(difference)
    interval = f"({ends})" if ends != "–" else ""
    return _DIFFERENCE.format(verdict_chip(difference), value, interval)


def detail_charts(compared: ComparedContent, experiment: Experiment, study: str) -> Iterator[Chart]:
    """Yield what single pages show of a question, for all models: gaps of sets, gaps by slice, means, rates, levels.

    Args:
        compared: content of the page, of few models.
        experiment: the experiment that asks the question.
        study: its name.
    """
    titles = {
        model.name: (mark_unseen(model.name), index) for index, model in enumerate(compared.models)
    }
    rows = [
        finding
        for model in compared.models
        for finding in model.found
        if (finding.study, finding.experiment) == (study, experiment.name)
    ]
    gaps = [finding for finding in rows if _is_plain_gap(finding)]
    whole = [gap for gap in gaps if gap.slice_by == "all" and not gap.primary]
    if whole:
        yield _whole_gaps(compared, whole, titles)
    for slice_by in experiment.shows.slices:
        by_slice = [
            gap
            for gap in gaps
            if gap.slice_by == slice_by.name and gap.measure not in experiment.shows.folded
        ]
        placed = [
            PlacedFinding(
                gap, value_name(gap.slice_value), _part_name(gap, experiment), gap.model_id
            )
            for gap in by_slice
        ]
        if placed:
            yield chart_of(f"gaps by {slice_by.name}", "", placed, titles)
    for chart in slice_charts(experiment, rows):
        if chart.name != "groups" and not chart.name.startswith("gaps by "):
            yield chart
    yield from rate_charts(experiment, rows)
    yield from ratio_tables(experiment, rows)
    yield from direction_tables(rows)
    yield from markedness_tables(experiment, rows)
    levels = levels_over_all(experiment, rows)
    if levels:
        yield _level_table(levels, titles)


def _is_plain_gap(finding: Finding) -> bool:
    """Return whether a finding is a gap in the plain score, by the study's own statistic."""
    is_gap = MEASURES[finding.measure].gap_span > 0
    return is_gap and finding.score == "score" and not finding.view


def _part_name(finding: Finding, experiment: Experiment) -> str:
    """Name the contrast of a finding, where there are several, and its set of conditions."""
    contrast = join_groups(finding) if len(experiment.compares.groups) > 1 else ""
    return ", ".join(filter(None, (contrast, set_name(finding))))


def _whole_gaps(compared: ComparedContent, gaps: Sequence[Finding], titles: _Titles) -> Chart:
    """Return the gaps over all rows that are no answers, such as those within each set of conditions."""
    differences = {
        (difference.subset, difference.contrast): difference
        for difference in compared.differences
        if difference.slice_by == "all"
        and not difference.view
        and (difference.study, difference.experiment) == (gaps[0].study, gaps[0].experiment)
    }
    parts: dict[str, list[Row]] = {}
    for gap in gaps:
        contrast = f"{gap.model_id} - {compared.reference}"
        subset = ", ".join(filter(None, (gap.subset, gap.contrast)))
        difference = differences.get((gap.subset, contrast)) or differences.get((subset, contrast))
        texts = (
            verdict_chip(gap),
            finding_format(gap)(gap.estimate.value),
            interval_cell(gap, gaps),
            format_unit_count(gap.estimate),
            _difference_cell(difference, gap.model_id, compared.reference),
        )
        name, index = titles[gap.model_id]
        row = Row(name, [dot_of(gap, index)], tuple((text, None) for text in texts))
        parts.setdefault(_what_is_compared(gap), []).append(row)
    unit = finding_format(gaps[0]).unit
    reference = mark_unseen(safe_line(compared.reference, 20))
    heads = ("verdict", unit or "value", interval_heading(gaps), "n", f"minus {reference}")
    title = "gaps within each set" if any(gap.subset for gap in gaps) else "gaps over all rows"
    return Chart(title, "", heads, parts, axis_of(gaps), unit, first="model")


def _level_table(levels: Sequence[Finding], titles: _Titles) -> Chart:
    """Return means, rates and counts over all rows, a column a model."""
    by_row: dict[tuple[str, str], dict[str, Finding]] = {}
    for level in levels:
        address = (set_name(level), quantity_name(level))
        by_row.setdefault(address, {})[level.model_id] = level
    parts: dict[str, list[Row]] = {}
    for (part, name), by_model in by_row.items():
        cells = tuple(_level_cell(by_model.get(model)) for model in titles)
        parts.setdefault(part, []).append(Row(name, (), cells))
    return Chart("levels", _LEVELS, tuple(name for name, _ in titles.values()), parts)


def _level_cell(level: Finding | None) -> Cell:
    """Return a value above its interval; a dash where there is none."""
    if level is None:
        return "–", None
    return value_above_interval(level, in_own_unit=True), level.estimate.value
