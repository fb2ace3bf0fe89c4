"""Marks of findings: which answer a question, which measured nothing, which other scores contradict."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from swapbias.findings.finding import Finding, as_unmeasured
from swapbias.findings.repeats import commonest
from swapbias.findings.scored_rows import ANSWER_SCORES, is_constant, split_rows
from swapbias.findings.terms import (
    CONTROL,
    CONTROL_NOT_RUN,
    CONTROL_NOT_SHOWN,
    CONTROL_UNKNOWN,
    CONTROL_UNMOVED,
    EFFECTS,
    LEVEL,
    NO_CONTROL,
    SAME_INPUT,
    SAME_SCORE,
    SPREAD,
    UNNAMED_FILLS,
    UNREAD_SWAP,
)
from swapbias.measures import MEASURES, crossed_factors
from swapbias.studies import PLACEBO, Experiment, Study


def add_repeats(
    findings: Sequence[Finding], experiments: Iterable[Experiment], rows: pd.DataFrame
) -> list[Finding]:
    """Add to findings of scores that were read how many rows have the commonest answer and are unread.

    Args:
        findings: the findings of one study and model.
        experiments: the experiments of the study.
        rows: all scored rows, one a trial.
    """
    units = {experiment.name: experiment.compares.unit for experiment in experiments}
    repeats = {
        name: commonest(part, units[name])
        for name, part in rows.groupby("experiment", sort=False)
        if name in units
    }
    marked = []
    for finding in findings:
        repeated = repeats.get(finding.experiment)
        if repeated is not None and finding.score == "score" and not finding.view:
            finding = replace(
                finding, repeated_share=repeated.share, unread_share=repeated.unread_share
            )
        marked.append(finding)
    return marked


def with_primary(findings: Iterable[Finding], experiments: Iterable[Experiment]) -> list[Finding]:
    """Mark the findings that answer an experiment's question; where all rows are of one subset its gap does.

    Args:
        findings: the findings of one study and model.
        experiments: the experiments of the study.
    """
    marked = list(findings)
    for experiment in experiments:
        candidates = {
            index: finding
            for index, finding in enumerate(marked)
            if finding.experiment == experiment.name
            and finding.score == "score"
            and not finding.view
        }
        for index in _answers_of(experiment, candidates):
            is_gap_of_cells = _is_gap_of_cells(marked[index], experiment)
            marked[index] = replace(marked[index], primary=not is_gap_of_cells)
    return marked


def answers_by_effects(experiment: Experiment) -> bool:
    """Tell whether effects of factors answer an experiment's question, and no gap between two of its groups.

    Args:
        experiment: the experiment that may name factors.
    """
    compares = experiment.compares
    return bool(compares.factors) and (len(compares.factors) == 1 or not compares.contrast)


def _is_gap_of_cells(finding: Finding, experiment: Experiment) -> bool:
    """Tell whether a finding is a gap of two groups where effects of factors answer the question.

    Of one factor these compare each level with the mean of the others, also in the difference of two subsets.
    """
    factors = experiment.compares.factors
    if finding.measure == "gap_difference":
        return len(factors) == 1 and finding.reference_group != crossed_factors.THE_OTHERS
    return answers_by_effects(experiment) and finding.measure == experiment.compares.measure


def _answers_of(experiment: Experiment, candidates: Mapping[int, Finding]) -> list[int]:
    """Return the indexes of the findings that answer the question, with tests of several groups and effects."""
    primary = experiment.compares.primary
    questions = [experiment.primary]
    subsets = {finding.subset for finding in candidates.values()}
    if len(subsets) == 1:
        measure = primary.measure or experiment.compares.measure
        questions.append((measure, min(subsets), primary.slice))
    for measure, subset, slice_by in questions:
        measure_of = {
            index: finding.measure
            for index, finding in candidates.items()
            if finding.subset == subset and finding.slice_by == slice_by
        }
        effects = set[str]()
        if not experiment.compares.contrast or answers_by_effects(experiment):
            effects |= set(EFFECTS)
        answers = {measure}
        if measure == experiment.compares.measure and answers_by_effects(experiment):
            answers |= effects
        if answers.isdisjoint(measure_of.values()):
            continue
        measures = {measure, SPREAD, *effects}
        return [index for index, candidate in measure_of.items() if candidate in measures]
    return []


def mark_unmeasured(
    findings: Sequence[Finding],
    experiments: Iterable[Experiment],
    rows_by_experiment: Mapping[str, pd.DataFrame],
) -> list[Finding]:
    """Mark the findings made of one constant, of all rows or of a slice's value, and those of names not found.

    Args:
        findings: the findings of one study and model.
        experiments: the experiments of the study.
        rows_by_experiment: scored rows, one a prompt.
    """
    constant: set[tuple[str, str]] = set()
    reasons: dict[str, str] = {}
    unnamed: set[str] = set()
    for experiment in experiments:
        rows = rows_by_experiment[experiment.name]
        reasons[experiment.name] = unread_swap_reason(rows) or _same_input_reason(rows)
        constant |= {(experiment.name, value) for value in _constant_slices(experiment, rows)}
        if experiment.design.unnamed_fills:
            unnamed.add(experiment.name)

    marked = []
    for finding in findings:
        is_scored = finding.score == "score"
        parts = {(finding.experiment, ""), (finding.experiment, finding.slice_value)}
        reason = UNNAMED_FILLS if finding.experiment in unnamed else ""
        # What lacks its scores is not said to have equal ones.
        if is_scored and parts & constant and finding.estimate.n:
            reason = SAME_SCORE
        elif is_scored and reasons[finding.experiment]:
            reason = reasons[finding.experiment]
        marked.append(as_unmeasured(finding, reason) if reason and _is_claim(finding) else finding)
    return marked


def _is_claim(finding: Finding) -> bool:
    """Tell whether a finding says how groups differ."""
    record = MEASURES[finding.measure]
    return finding.primary or record.gap_span > 0 or record.at_cut


def mark_without_control(findings: Sequence[Finding], study: Study) -> list[Finding]:
    """Mark the claims of experiments whose positive control was not found above zero, or not audited.

    Args:
        findings: the findings of one study and model, with the intervals of primary ones.
        study: their study.
    """
    reasons = {
        experiment.name: _control_fault(control, findings)
        for experiment in study.experiments
        if (control := study.control_of(experiment))
    }
    marked = []
    for finding in findings:
        reason = reasons.get(finding.experiment, "")
        is_marked = bool(reason) and _is_claim(finding)
        marked.append(as_unmeasured(finding, reason) if is_marked else finding)
    return marked


def _control_fault(control: Experiment, findings: Iterable[Finding]) -> str:
    """Return why a positive control does not let its questions be measured; blank where it does."""
    answers = [
        finding for finding in findings if finding.experiment == control.name and finding.primary
    ]
    if not answers:
        return CONTROL_NOT_RUN
    return "" if all(map(_is_above_zero, answers)) else CONTROL_NOT_SHOWN


def _is_above_zero(answer: Finding) -> bool:
    """Tell whether a gap lies above zero, by its interval, or by the exact test where all levels show one gap."""
    estimate = answer.estimate
    if not math.isnan(estimate.std_error):
        return estimate.ci_low > 0
    return estimate.value > 0 and estimate.p_value < LEVEL


def _constant_slices(experiment: Experiment, rows: pd.DataFrame) -> Iterator[str]:
    """Yield the values of the primary slice whose rows have one score; blank for all rows."""
    if is_constant(experiment, rows):
        yield ""
    columns = [
        part.column
        for part in experiment.shows.slices
        if part.name == experiment.compares.primary.slice
    ]
    if not columns or not columns[0]:
        return
    for value, part in split_rows(rows, columns[0]):
        if is_constant(experiment, part):
            yield value


def _same_input_reason(rows: pd.DataFrame) -> str:
    """Return the reason where no row of a group has a score, because the model reads one input for a pair's texts."""
    compared = rows[rows["group"] != PLACEBO]
    if SAME_INPUT not in rows or compared["score"].notna().any():
        return ""
    return SAME_INPUT if (compared[SAME_INPUT] == 1).any() else ""


def unread_swap_reason(rows: pd.DataFrame) -> str:
    """Return why equal scores of a black box say nothing, by its positive control; blank where they say something.

    Args:
        rows: scored rows of one experiment and model.
    """
    outcomes = set(rows[CONTROL]) if CONTROL in rows else set()
    if CONTROL_UNMOVED in outcomes:
        return UNREAD_SWAP
    return NO_CONTROL if CONTROL_UNKNOWN in outcomes else ""


def mark_disagreeing(findings: Sequence[Finding]) -> list[Finding]:
    """Add to primary findings the other scores of the same construct that give another answer.

    Args:
        findings: the findings of one study.
    """
    return [
        _with_contradictions(finding, findings) if finding.primary else finding
        for finding in findings
    ]


def _with_contradictions(finding: Finding, findings: Sequence[Finding]) -> Finding:
    """Return a primary finding with the scores that contradict it among what could change it.

    Their gap has another sign, or is in the same unit, and one of two intervals that do not overlap includes zero.
    A gap of another size is the same answer: scores of one unit may be of different quantities.
    """
    influences = finding.influences
    key = (finding.model_id, *finding.key())
    for candidate in findings:
        if candidate.view or (candidate.model_id, *candidate.key()) != key:
            continue
        if candidate.score in ("score", *ANSWER_SCORES):
            continue
        value = f"{candidate.estimate.value:+.3g}"
        if candidate.estimate.value * finding.estimate.value < 0:
            influences.append(["score", candidate.score, value])
        elif _are_disjoint(candidate, finding) and _includes_zero(candidate) != _includes_zero(
            finding
        ):
            influences.append(["zero", candidate.score, value])
    if influences == finding.influences:
        return finding
    return replace(finding, influential_items=json.dumps(influences, ensure_ascii=False))


def _includes_zero(finding: Finding) -> bool:
    """Tell whether the interval of a finding includes zero."""
    return finding.estimate.ci_low <= 0 <= finding.estimate.ci_high


def _are_disjoint(finding: Finding, other_finding: Finding) -> bool:
    """Tell whether the intervals of two findings of one unit do not overlap."""
    if finding.unit != other_finding.unit:
        return False
    estimates = (finding.estimate, other_finding.estimate)
    lowest_end = min(estimate.ci_high for estimate in estimates)
    highest_start = max(estimate.ci_low for estimate in estimates)
    return lowest_end < highest_start
