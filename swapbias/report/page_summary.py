"""The first table of a page: every question with its verdict, value and interval."""

import math
from collections.abc import Container, Sequence, Set

from markupsafe import Markup

from swapbias.findings import Finding, experiment_of
from swapbias.measures import MEASURES
from swapbias.report.charts import Chart, Row
from swapbias.report.claims import verdict_word
from swapbias.report.finding_charts import axis_of, dot_of, has_several_models
from swapbias.report.finding_names import join_groups, row_name
from swapbias.report.numbers import (
    finding_format,
    format_interval,
    format_p_value,
    format_unit_count,
    interval_heading,
)
from swapbias.report.page_template import anchor, mark_unseen
from swapbias.report.verdicts import group_by_question

_LINK = Markup(' <a href="#{}">Details</a>')
_WORD = Markup('<span class="v {}">{}</span>')


def summary_charts(rows: Sequence[Finding], places: Set[str]) -> list[Chart]:
    """Return a table of all questions for each unit, for values of different units share no scale.

    Args:
        rows: findings of a run.
        places: the addresses of the sections of the page.
    """
    by_unit: dict[str, list[list[Finding]]] = {}
    for results in group_by_question(rows):
        gaps = [finding for finding in results if has_place(finding)]
        unit = finding_format((gaps or results)[0]).unit
        by_unit.setdefault(unit, []).append(results)
    several_models = has_several_models(rows)
    return [
        _chart(unit, questions, places, several_models=several_models)
        for unit, questions in by_unit.items()
    ]


def has_place(finding: Finding) -> bool:
    """Return whether the value of a finding has a place on a scale of gaps or rates.

    Args:
        finding: a finding of any measure.
    """
    is_test = finding.tests_all_groups or not MEASURES[finding.measure].signed
    is_measured = not math.isnan(finding.estimate.value)
    return is_measured and (bool(MEASURES[finding.measure].gap_span) or not is_test)


def _chart(
    unit: str,
    questions: Sequence[Sequence[Finding]],
    places: Set[str],
    *,
    several_models: bool,
) -> Chart:
    """Return the table of the questions of one unit."""
    all_results = [finding for results in questions for finding in results]
    on_scale = [finding for finding in all_results if has_place(finding)]
    parts: dict[str, list[Row]] = {}
    for results in questions:
        parts.setdefault(question_heading(results[0], places), []).extend(
            _row(finding, several_models=several_models) for finding in results
        )
    heads = ("verdict", unit or "value", interval_heading(on_scale or all_results), "n")
    axis = axis_of(on_scale) if on_scale else None
    return Chart("", "", heads, parts, axis, unit, first="what is compared")


def question_heading(finding: Finding, places: Container[str]) -> Markup:
    """Return the question of a finding, with a link to its section of the page where there is one.

    Args:
        finding: a primary finding.
        places: the addresses of the sections of the page.
    """
    experiment = experiment_of(finding)
    question = experiment.question if experiment else finding.experiment
    address = anchor(finding.study, finding.experiment)
    link = _LINK.format(address) if address in places else ""
    return Markup("{}{}").format(mark_unseen(question), link)


def _row(finding: Finding, *, several_models: bool) -> Row:
    """Return the row of one result."""
    name = row_name(finding)
    if finding.measure == "gap_difference":
        name = f"{join_groups(finding)}: {name}"
    if several_models:
        name = f"{finding.model_id}: {name}"
    dots = [dot_of(finding)] if has_place(finding) else []
    return Row(name, dots, tuple((text, None) for text in result_cells(finding)))


def result_cells(finding: Finding) -> tuple[str, str, str, str]:
    """Return the verdict of a result as a chip, its value, its interval and its number of units.

    Args:
        finding: a finding of any measure.
    """
    estimate = finding.estimate
    value = finding_format(finding)(estimate.value)
    interval = format_interval(finding)
    if finding.tests_all_groups:
        value = f"one test of all, p {format_p_value(estimate.p_adjusted)}"
        interval = ""
    return verdict_chip(finding), value, interval, format_unit_count(estimate)


def verdict_chip(finding: Finding) -> str:
    """Return the verdict of a finding as a chip of HTML; blank where it has none.

    Args:
        finding: a finding of any measure.
    """
    word = verdict_word(finding)
    return _WORD.format(word.split()[0].lower(), word) if word else ""
