"""A gate over a run: whether its gaps lie within a margin, or are as small as a baseline's."""

import math
from collections.abc import Sequence
from dataclasses import replace

from swapbias.errors import UsageError, did_you_mean, listed, points_hint
from swapbias.findings.baseline_gate import compare_with_baseline
from swapbias.findings.decision import decide, share_of_margin
from swapbias.findings.families import is_control
from swapbias.findings.finding import Finding, experiment_of, primary_findings
from swapbias.findings.gate_checks import Check, Gate, Items
from swapbias.findings.terms import NO_RANGE, UNMEASURED
from swapbias.measures import MEASURES
from swapbias.studies import own_studies

# Fields that the gaps of a difference of gaps share with it.
_SAME_FIELDS = (
    "study",
    "experiment",
    "model_id",
    "score",
    "contrast",
    "slice_by",
    "slice_value",
)


def check_gaps(
    findings: Sequence[Finding],
    *,
    max_gap: float | None = None,
    studies: Sequence[str] = (),
    items: Items | None = None,
    baseline: Items | None = None,
    baseline_found: Sequence[Finding] = (),
) -> Gate:
    """Check whether the primary gaps of a run lie within a margin, or exceed those of a baseline by no more than it.

    A gap passes where its verdict beside the margin is "no gap" or a gap within it, and fails where the printed
    interval lies wholly beyond it; else it is undecided (``decide``).

    Args:
        findings: the findings of a run.
        max_gap: the margin, a share of the range of each gap's unit (``measures.Unit.margin``), above 0; None: the
            margin of each finding.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all of the run.
        items: the run's scored rows by study.
        baseline: scored rows of another run by study: each gap may then be as large as there, and larger by the
            margin, by the interval of the difference of the two models' gaps. What was not measured in either run is
            undecided, and so is a change over too few levels or too few equal pairs.
        baseline_found: the findings of the baseline, which say what was not measured there.

    Returns:
        A check of each gap, and the primary findings that are no gaps.

    Raises:
        UsageError: nothing to check, a study that the run does not have, a margin that is none, or a baseline without
            the prompts of this run.
    """
    if max_gap is not None and not 0 < max_gap <= 1:
        hint = points_hint(max_gap)
        raise UsageError(
            f"The margin is {max_gap:g}, expected above 0 and at most 1, a share of the range: {hint}."
        )
    chosen = _choose(primary_findings(findings), studies)
    gaps = [finding for finding in chosen if MEASURES[finding.measure].gap_span]
    margins = [_margin_of(gap, max_gap) for gap in gaps]
    if all(map(math.isnan, margins)):
        raise UsageError(_nothing_to_check(chosen, gaps))
    unmeasured = {
        (finding.study, *finding.key()): finding.reason
        for finding in baseline_found
        if finding.verdict == UNMEASURED
    }
    checks = []
    for gap, margin in zip(gaps, margins, strict=True):
        check = Check(finding=gap, margin=margin, components=_components(gap, findings))
        if baseline is None:
            checks.append(_check_margin(check))
        else:
            checks.append(compare_with_baseline(check, items or {}, baseline, unmeasured))
    others = [finding for finding in chosen if not MEASURES[finding.measure].gap_span]
    return Gate(tuple(checks), tuple(others))


def _nothing_to_check(chosen: Sequence[Finding], gaps: Sequence[Finding]) -> str:
    """Return the sentence that no chosen finding is a gap in a unit with a range."""
    experiments = dict.fromkeys(f"{finding.study} {finding.experiment}" for finding in chosen)
    names = listed(experiments, "the run")
    if any(map(lacks_range, gaps)):
        return (
            f"Nothing to check: {names} has no gap in a unit with a range. "
            "Audit again with range, the least and the largest score."
        )
    return f"Nothing to check: {names} has no gap in a unit with a range. Check another study."


def _margin_of(finding: Finding, max_gap: float | None) -> float:
    """Return the margin in the unit of a gap: as given, else that of its verdict, else as its study declares it."""
    if max_gap is None and not math.isnan(finding.margin):
        return finding.margin
    return finding.scale.margin(share_of_margin(experiment_of(finding), max_gap))


def lacks_range(finding: Finding) -> bool:
    """Tell whether a finding is a gap of scores whose range the user could give, and has not.

    Args:
        finding: any finding.
    """
    if finding.study not in own_studies():
        return False
    experiment = experiment_of(finding)
    if experiment is None or experiment.kind != "classifier":
        return False
    return MEASURES[finding.measure].gap_span > 0 and math.isnan(finding.scale.span)


def _components(finding: Finding, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the gap in each set of conditions, where a primary finding is a difference of two; else none."""
    if finding.measure != "gap_difference":
        return ()
    key = [getattr(finding, name) for name in _SAME_FIELDS]
    return tuple(
        gap
        for gap in findings
        if MEASURES[gap.measure].gap_span == 1
        and not gap.view
        and [getattr(gap, name) for name in _SAME_FIELDS] == key
    )


def _choose(findings: Sequence[Finding], studies: Sequence[str]) -> list[Finding]:
    """Return the primary findings of the named studies and experiments; of all where none is named.

    A positive control has to show a gap: it is checked only where its own name is given.
    """
    names = {name for finding in findings for name in _names_of(finding)}
    for name in studies:
        if name not in names:
            has = listed(sorted(names))
            hint = did_you_mean(name, sorted(names)) or " Name one of these."
            raise UsageError(f"The run contains no primary finding of {name}: it has {has}.{hint}")
    chosen = [finding for finding in findings if not studies or _names_of(finding) & set(studies)]
    return [finding for finding in chosen if _is_named(finding, studies) or not is_control(finding)]


def _is_named(finding: Finding, studies: Sequence[str]) -> bool:
    """Tell whether the experiment of a finding is named itself."""
    return f"{finding.study}:{finding.experiment}" in studies


def _names_of(finding: Finding) -> set[str]:
    """Return the names by which a finding is chosen."""
    return {finding.study, f"{finding.study}:{finding.experiment}"}


def _check_margin(check: Check) -> Check:
    """Check a gap against the margin, by the rule of its verdict."""
    if math.isnan(check.margin):
        return replace(check, why=NO_RANGE)
    decision = decide(check.finding, check.margin)
    return replace(check, outcome=decision.outcome, why=decision.reason)
