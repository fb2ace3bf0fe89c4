"""Families of findings: intervals and p-values that hold for all questions of a run, or rows of a table, at once."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from swapbias import measures
from swapbias.findings.finding import Finding, experiment_of
from swapbias.findings.terms import DIFFERENCE, SPREAD, UNMEASURED
from swapbias.measures import MEASURES
from swapbias.studies import load_study

_Key = tuple[str, ...]


def has_verdict(finding: Finding) -> bool:
    """Tell whether a finding is a gap, or a difference of two models, by the inference of its design."""
    is_gap = MEASURES[finding.measure].gap_span > 0 or finding.measure == DIFFERENCE
    return is_gap and not finding.view


def corrected_for_questions(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings; intervals and p-values of primary ones hold for all primary questions that were answered.

    With k of them they hold at .05 / k (Bonferroni). Studies, models and packs are families of their own.
    """
    families: dict[_Key, list[Finding]] = {}
    for finding in found:
        if finding.primary:
            families.setdefault(_questions_of(finding), []).append(finding)
    counts = {key: _count_questions(family) for key, family in families.items()}
    corrected = []
    for finding in found:
        if not finding.primary:
            corrected.append(finding)
            continue
        key = _questions_of(finding)
        corrected.append(_at_question_level(finding, counts[key], families[key]))
    return corrected


def _questions_of(finding: Finding) -> _Key:
    """Name the family: the study, the model (of differences: none, for all models are one) and its kind or pack."""
    experiment = experiment_of(finding)
    model = "" if finding.measure == DIFFERENCE else finding.model_id
    if experiment and load_study(finding.study).family == "experiment":
        return finding.study, model, finding.experiment
    return finding.study, model, experiment.kind if experiment else ""


def _count_questions(family: Sequence[Finding]) -> int:
    """Count the questions that were answered; a test of several groups holds for their contrasts already."""
    return max(1, sum(_is_answered(finding) and finding.measure != SPREAD for finding in family))


def _is_answered(finding: Finding) -> bool:
    return finding.verdict != UNMEASURED and not math.isnan(finding.estimate.value)


def _at_question_level(finding: Finding, questions: int, family: Sequence[Finding]) -> Finding:
    """Return a primary finding whose interval and p-value hold for so many questions at once."""
    finding = replace(finding, questions=questions)
    times = float(questions)
    if finding.measure == SPREAD:
        contrasts = sum(
            one.experiment == finding.experiment and one.measure != SPREAD for one in family
        )
        times /= max(1, contrasts)
    name = f"{questions} questions of {finding.study}" if questions > 1 else ""
    return _at_level(finding, times, name)


def _at_level(finding: Finding, times: float, family: str) -> Finding:
    """Return a finding with the interval of its level, and its p-value times the tests of its family."""
    estimate = measures.at_level(finding.estimate, finding.level)
    p_value = estimate.p_value
    # No p-value is no test: never one.
    p_adjusted = p_value if math.isnan(p_value) else min(1.0, times * p_value)
    return replace(finding, estimate=replace(estimate, p_adjusted=p_adjusted, family=family))


def corrected_for_rows(
    found: Sequence[Finding], method: str, many: Collection[str]
) -> list[Finding]:
    """Return the findings; intervals and p-values of those in tables hold for all rows of their table at once.

    Rows with a verdict are corrected by Bonferroni, so that interval and p-value agree. Other rows have p-values by
    ``method`` alone: those of the papers' own statistics, and of rates.

    Args:
        found: findings of one study and model.
        method: of ``measures.adjust``.
        many: experiments of more than two groups, whose contrasts are one family.
    """
    families: dict[_Key, list[int]] = {}
    for index, finding in enumerate(found):
        is_row = has_verdict(finding) and _is_answered(finding)
        if not finding.primary and (is_row or not math.isnan(finding.estimate.p_value)):
            contrast = "" if finding.experiment in many else finding.contrast
            key = (
                finding.experiment,
                finding.score,
                finding.measure,
                contrast,
                finding.view,
                finding.slice_by,
            )
            families.setdefault(key, []).append(index)
    corrected = list(found)
    for table, members in families.items():
        if has_verdict(found[members[0]]):
            name = _family_name(table, len(members), "bonferroni")
            for index in members:
                row = replace(found[index], questions=len(members))
                corrected[index] = _at_level(row, len(members), name)
            continue
        adjusted = measures.adjust([found[index].estimate.p_value for index in members], method)
        name = _family_name(table, len(members), method)
        for index, p_adjusted in zip(members, adjusted, strict=True):
            estimate = replace(found[index].estimate, p_adjusted=float(p_adjusted), family=name)
            corrected[index] = replace(found[index], estimate=estimate)
    return corrected


def _family_name(key: _Key, count: int, method: str) -> str:
    """Name the rows of a table with their number and the method of correction."""
    experiment, score, measure, _, view, slice_by = key
    table = f"{experiment} {measure} of {score} by {slice_by}"
    viewed = f", {view}" if view else ""
    return f"{table}{viewed}: {count} tests, {method}"
