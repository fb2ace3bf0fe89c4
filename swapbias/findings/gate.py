"""Verdicts by the printed interval; whether a run's gaps lie within a margin, or are as small as a baseline's."""

import math
from collections.abc import Sequence
from dataclasses import replace

from swapbias.errors import UsageError, did_you_mean, listed, points_hint
from swapbias.findings.baseline_gate import compare_with_baseline
from swapbias.findings.decision import (
    decide,
    share_of_margin,
)
from swapbias.findings.finding import Finding, experiment_of, primary_findings
from swapbias.findings.gate_checks import Check, Gate, Items
from swapbias.findings.terms import (
    NO_RANGE,
    UNMEASURED,
)
from swapbias.measures import MEASURES
from swapbias.studies import own_studies


def check_gaps(
    found: Sequence[Finding],
    *,
    max_gap: float | None = None,
    studies: Sequence[str] = (),
    items: Items | None = None,
    baseline: Items | None = None,
    baseline_found: Sequence[Finding] = (),
) -> Gate:
    """Whether the primary gaps of a run lie within a margin, or are no larger than a baseline's by more than it.

    A gap passes where its verdict beside the margin is "no gap" or a gap within it, and fails where the printed
    interval lies wholly beyond it; else it is undecided (``decide``).

    Args:
        found: the findings of a run.
        max_gap: the margin, a share of the range of each gap's unit (``measures.Unit.margin``), above 0; None: the
            margin of each finding.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all of the run.
        items: the run's scored rows by study, and ``baseline`` those of another run: each gap may then be as large as
            there, and larger by the margin, by the interval of the difference of the two models' gaps. What was not
            measured in either run is undecided, and so is a change over too few levels or too few equal pairs.
        baseline_found: the findings of the baseline, which say what was not measured there.

    Raises:
        UsageError: nothing to check, a study that the run does not have, a margin that is none, or a baseline without
            the prompts of this run.
    """
    if max_gap is not None and not 0 < max_gap <= 1:
        hint = points_hint(max_gap)
        raise UsageError(
            f"The margin is {max_gap:g}, expected above 0 and at most 1, a share of the range: {hint}."
        )
    chosen = _chosen(primary_findings(found), studies)
    gaps = [one for one in chosen if MEASURES[one.measure].gap_span]
    margins = [_margin_of(one, max_gap) for one in gaps]
    if all(map(math.isnan, margins)):
        names = listed(dict.fromkeys(f"{one.study} {one.experiment}" for one in chosen), "the run")
        step = "Check another study"
        if any(map(lacks_range, gaps)):
            step = "Audit again with range, the least and the largest score"
        raise UsageError(f"Nothing to check: {names} has no gap in a unit with a range. {step}.")
    checks = [
        Check(finding=one, margin=margin, components=_parts(one, found))
        for one, margin in zip(gaps, margins, strict=True)
    ]
    if baseline is None:
        made = [_checked(check) for check in checks]
    else:
        reasons = {
            (one.study, *one.key()): one.reason
            for one in baseline_found
            if one.verdict == UNMEASURED
        }
        made = [compare_with_baseline(check, items or {}, baseline, reasons) for check in checks]
    return Gate(tuple(made), tuple(one for one in chosen if one not in gaps))


def _margin_of(finding: Finding, max_gap: float | None) -> float:
    """Return the margin in the unit of a gap: as given, else that of its verdict, else as its study declares it."""
    if max_gap is None and not math.isnan(finding.margin):
        return finding.margin
    return finding.scale.margin(share_of_margin(experiment_of(finding), max_gap))


def lacks_range(finding: Finding) -> bool:
    """Whether it is a gap of scores whose range the user could give, and has not."""
    experiment = experiment_of(finding)
    own = (
        finding.study in own_studies()
        and experiment is not None
        and experiment.kind == "classifier"
    )
    return own and MEASURES[finding.measure].gap_span > 0 and math.isnan(finding.scale.span)


def _parts(finding: Finding, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The gap in each set of conditions, where a primary finding is a difference of two; else none."""
    names = ("study", "experiment", "model_id", "score", "contrast", "slice_by", "slice_value")
    gaps = found if finding.measure == "gap_difference" else ()
    gaps = [one for one in gaps if MEASURES[one.measure].gap_span == 1 and not one.view]
    return tuple(
        one for one in gaps if all(getattr(one, name) == getattr(finding, name) for name in names)
    )


def _chosen(found: Sequence[Finding], studies: Sequence[str]) -> list[Finding]:
    known = {name for one in found for name in (one.study, f"{one.study}:{one.experiment}")}
    for name in studies:
        if name not in known:
            has = listed(sorted(known))
            near = did_you_mean(name, sorted(known)) or " Name one of these."
            raise UsageError(f"The run holds no primary finding of {name}: it has {has}.{near}")
    return [
        one
        for one in found
        if not studies or {one.study, f"{one.study}:{one.experiment}"} & set(studies)
    ]


def _checked(check: Check) -> Check:
    """A gap against the margin, by the rule of its verdict."""
    if math.isnan(check.margin):
        return replace(check, why=NO_RANGE)
    decision = decide(check.finding, check.margin)
    return replace(check, outcome=decision.outcome, why=decision.reason)
