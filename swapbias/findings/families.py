"""Families of findings: intervals and p-values that hold for all questions of a run, or rows of a table, at once."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from swapbias import measures
from swapbias.findings.finding import Finding, experiment_of
from swapbias.findings.terms import DIFFERENCE, SPREAD, UNMEASURED
from swapbias.measures import MEASURES, intervals
from swapbias.studies import Experiment, Study, load_study

_Key = tuple[str, ...]


def has_verdict(finding: Finding) -> bool:
    """Tell whether a finding is a gap, also at a threshold or quantile, or a difference of two models.

    Only those by the inference of the design have a verdict.

    Args:
        finding: any finding.
    """
    record = MEASURES[finding.measure]
    is_gap_at_cut = record.at_cut and record.like_gap
    is_gap = record.gap_span > 0 or is_gap_at_cut or finding.measure == DIFFERENCE
    return is_gap and not finding.view


def corrected_for_questions(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; intervals and p-values of primary ones hold for all primary questions that were answered.

    With k of them they hold at .05 / k (Bonferroni). Studies, models and packs are families of their own.

    Args:
        findings: the findings of any studies and models.
    """
    keys = [_questions_of(finding) if finding.primary else None for finding in findings]
    families: dict[_Key, list[Finding]] = {}
    for finding, key in zip(findings, keys, strict=True):
        if key is not None:
            families.setdefault(key, []).append(finding)
    counts = {key: _count_questions(family) for key, family in families.items()}
    return [
        finding if key is None else _at_question_level(finding, counts[key], families[key])
        for finding, key in zip(findings, keys, strict=True)
    ]


def _questions_of(finding: Finding) -> _Key:
    """Name the family: the study, the model (of differences: none, for all models are one) and its kind or pack."""
    experiment = experiment_of(finding)
    model = "" if finding.measure == DIFFERENCE else finding.model_id
    if experiment is None:
        return finding.study, model, ""
    study = load_study(finding.study)
    # A positive control is a condition of the questions and none of them.
    is_alone = study.family == "experiment" or experiment.own_family
    if is_alone or _is_control(experiment, study):
        return finding.study, model, finding.experiment
    return finding.study, model, experiment.kind


def is_control(finding: Finding) -> bool:
    """Tell whether a finding is of a positive control, which shows that a model can be measured.

    Args:
        finding: a finding of any study.
    """
    experiment = experiment_of(finding)
    return experiment is not None and _is_control(experiment, load_study(finding.study))


def _is_control(experiment: Experiment, study: Study) -> bool:
    """Tell whether an experiment is the positive control of another."""
    controls = [study.control_of(question) for question in study.experiments]
    return any(control is not None and control.name == experiment.name for control in controls)


def _count_questions(family: Sequence[Finding]) -> int:
    """Count the questions that were answered; a test of several groups holds for their contrasts already."""
    return max(1, sum(_is_answered(finding) and finding.measure != SPREAD for finding in family))


def _is_answered(finding: Finding) -> bool:
    """Tell whether a finding has a value."""
    return finding.verdict != UNMEASURED and not math.isnan(finding.estimate.value)


def _at_question_level(finding: Finding, questions: int, family: Sequence[Finding]) -> Finding:
    """Return a primary finding whose interval and p-value hold for so many questions at once."""
    finding = replace(finding, questions=questions)
    times = float(questions)
    if finding.measure == SPREAD:
        contrasts = sum(
            contrast.experiment == finding.experiment and contrast.measure != SPREAD
            for contrast in family
        )
        times /= max(1, contrasts)
    name = f"{questions} questions of {finding.study}" if questions > 1 else ""
    return _at_level(finding, times, name)


def _at_level(finding: Finding, times: float, family: str) -> Finding:
    """Return a finding with the interval of its level, and its p-value times the tests of its family."""
    estimate = intervals.at_level(finding.estimate, finding.level)
    p_value = estimate.p_value
    # No p-value is no test: never one.
    p_adjusted = p_value if math.isnan(p_value) else min(1.0, times * p_value)
    return replace(finding, estimate=replace(estimate, p_adjusted=p_adjusted, family=family))


def corrected_for_rows(
    findings: Sequence[Finding], method: str, experiments_of_several: Collection[str]
) -> list[Finding]:
    """Return the findings; intervals and p-values of those in tables hold for all rows of their table at once.

    Rows with a verdict are corrected by Bonferroni, so that interval and p-value agree. Other rows have p-values by
    ``method`` alone: those of the papers' own statistics, and of rates.

    Args:
        findings: the findings of one study and model.
        method: a method of ``measures.adjust``.
        experiments_of_several: experiments of more than two groups, whose contrasts are one family.
    """
    corrected = list(findings)
    for table, indexes in _tables(findings, experiments_of_several).items():
        count = len(indexes)
        if has_verdict(findings[indexes[0]]):
            name = _family_name(table, count, "bonferroni")
            for index in indexes:
                row = replace(findings[index], questions=count)
                corrected[index] = _at_level(row, count, name)
            continue
        adjusted = measures.adjust([findings[index].estimate.p_value for index in indexes], method)
        name = _family_name(table, count, method)
        for index, p_adjusted in zip(indexes, adjusted, strict=True):
            estimate = replace(findings[index].estimate, p_adjusted=float(p_adjusted), family=name)
            corrected[index] = replace(findings[index], estimate=estimate)
    return corrected


def _tables(
    findings: Sequence[Finding], experiments_of_several: Collection[str]
) -> dict[_Key, list[int]]:
    """Return the indexes of the findings that are tested in one table, by what they share."""
    tables: dict[_Key, list[int]] = {}
    for index, finding in enumerate(findings):
        is_row = has_verdict(finding) and _is_answered(finding)
        if finding.primary or not (is_row or not math.isnan(finding.estimate.p_value)):
            continue
        has_one_table = (
            finding.experiment in experiments_of_several or MEASURES[finding.measure].at_cut
        )
        key = (
            finding.experiment,
            finding.score,
            finding.measure,
            "" if has_one_table else finding.contrast,
            finding.view,
            finding.slice_by,
        )
        tables.setdefault(key, []).append(index)
    return tables


def _family_name(key: _Key, count: int, method: str) -> str:
    """Name the rows of a table with their number and the method of correction."""
    experiment, score, measure, _, view, slice_by = key
    table = f"{experiment} {measure} of {score} by {slice_by}"
    viewed = f", {view}" if view else ""
    return f"{table}{viewed}: {count} tests, {method}"
