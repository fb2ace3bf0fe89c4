"""Sentences on what judges of answers found, how they agree, and what to be careful about."""

import math
from collections.abc import Sequence
from operator import attrgetter

from swapbias.errors import joined
from swapbias.findings import Finding, judge_findings, terms
from swapbias.report.numbers import format_value
from swapbias.report.verdicts import state_verdict

_MOST_NAMED = 5
"""Most judges that a sentence names one by one."""


def title_of_judges(judged: Sequence[Finding]) -> str:
    """Return who judged, as a title: ``By a judge, a`` or ``By 3 judges: a, b and c``.

    Args:
        judged: the findings of judges.
    """
    judges = judge_findings.judges_of(judged)
    if len(judges) == 1:
        return f"By a judge, {judges[0]}"
    if len(judges) > _MOST_NAMED:
        return f"By {len(judges)} judges"
    return f"By {len(judges)} judges: {joined(judges)}"


def describe_judges(judged: Sequence[Finding]) -> list[str]:
    """Say about which judges a gap is, how they agree, and which of them grades its own answers.

    Args:
        judged: the findings of the judges of one experiment, of any models.
    """
    judges = judge_findings.judges_of(judged)
    sentences = []
    if len(judges) == 1:
        sentences.append(
            f"The gap is about this judge alone. Name {terms.FEWEST} judges or more for a gap of other judges too."
        )
    elif len(judges) < terms.FEWEST:
        sentences.append(
            f"{len(judges)} judges say nothing of others. Name {terms.FEWEST} or more for a verdict."
        )
    else:
        sentences.append("The interval allows for other judges of the same kind.")
    sentences += _describe_agreement(judged)
    audited = dict.fromkeys(judge_findings.judge_name(finding.model_id) for finding in judged)
    for name in audited:
        if name in judges:
            sentences.append(_describe_own_grades(name, len(judges)))
    return sentences


def _describe_agreement(judged: Sequence[Finding]) -> list[str]:
    """Say how far every two judges agree beyond chance, from the least to the most."""
    kappas = [
        finding
        for finding in judged
        if finding.measure == "judge_kappa" and not math.isnan(finding.estimate.value)
    ]
    if not kappas:
        return []
    kappas.sort(key=lambda finding: finding.estimate.value)
    least = f"{format_value(kappas[0])} ({kappas[0].contrast})"
    if len(kappas) == 1:
        return [f"Agreement of the judges beyond chance (kappa): {least}."]
    most = f"{format_value(kappas[-1])} ({kappas[-1].contrast})"
    return [f"Agreement of two judges beyond chance (kappa): from {least} to {most}."]


def _describe_own_grades(name: str, count: int) -> str:
    """Say that a judge has the name of the audited model, and what to do."""
    step = "Look at the gaps of the other judges too."
    if count == 1:
        step = "Name another judge."
    return f"The judge {name} is the audited model and grades its own answers. {step}"


def state_judged(results: Sequence[Finding], rows: Sequence[Finding]) -> str:
    """Say what judges found on a question, in sentences; blank where nobody judged.

    Args:
        results: primary findings of one experiment and model.
        rows: all findings of the run.
    """
    question_of = attrgetter("study", "experiment", "model_id")
    judged = [
        row
        for row in judge_findings.findings_of_judge(rows)
        if question_of(row) == question_of(results[0])
    ]
    if not judged:
        return ""
    gaps_of = attrgetter("measure", "contrast", "subset", "slice_by")
    answers = {gaps_of(finding) for finding in results}
    verdicts = [str(state_verdict(row)) for row in judged if gaps_of(row) in answers]
    return " ".join([f"{title_of_judges(judged)}.", *verdicts, *describe_judges(judged)])
