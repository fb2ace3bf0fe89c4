"""Sentences on the checks of a gate: outcome, which gap, its value beside the margin, and why."""

import math
from dataclasses import replace

from swapbias.findings import Check, Gate, decision, terms
from swapbias.report.claims import size_with_interval, too_few_levels
from swapbias.report.finding_names import contrast_name, join_names, rows_name, safe_line, set_name
from swapbias.report.numbers import (
    format_gap,
    format_margin_of,
    format_p_value,
    unit_format,
)
from swapbias.report.undecided import (
    REASONS,
    count_unscored,
    describe_equal_pairs,
    why_undecided,
)

_MOST_OF_NAME = 300  # characters of the name of a check
_MOST_OF_CHECK = 600  # characters of the sentence on a check
_ENDINGS = {
    terms.PASSES: "within the margin of",
    terms.FAILS: "beyond the margin of",
    terms.OPEN: "the interval crosses the margin of",
}
_ENDINGS_OF_CHANGE = {
    terms.PASSES: "not larger than the baseline by",
    terms.FAILS: "larger than the baseline by more than",
    terms.OPEN: "the interval crosses the margin of",
}


def check_reason(check: Check) -> str:
    """Return what the outcome of a check rests on where that is not the printed interval; blank for that.

    Args:
        check: a check of a gate.
    """
    finding = check.finding
    estimate = check.change or finding.estimate
    if check.why == terms.FEW_LEVELS:
        return too_few_levels(estimate)
    if check.why == terms.EQUAL_SCORES:
        return describe_equal_pairs(finding, check.margin)
    if check.why == terms.EXACT_TEST:
        return _exact_test_reason(check)
    if check.why in REASONS:
        sentence = REASONS[check.why].format(estimate=estimate)
        if check.of_baseline:
            return f"the baseline was not measured ({sentence})"
        return sentence
    return why_undecided(finding, check.margin)


def _exact_test_reason(check: Check) -> str:
    """Return what an exact test of levels that all show one gap says."""
    finding = check.finding
    estimate = finding.estimate
    reason = f"all {estimate.n} differ by the same: {estimate.test}"
    if check.outcome == terms.OPEN:
        return f"{reason} (p {format_p_value(decision.adjusted_p(finding))})"
    if check.outcome == terms.FAILS:
        return f"{reason}, beyond the margin of {format_margin_of(finding, check.margin)}"
    return reason


def check_name(check: Check) -> str:
    """Return which gap a check is of: ``occupation_sentiment:control, women minus men``.

    Args:
        check: a check of a gate.
    """
    finding = check.finding
    rows = set_name(finding) if finding.slice_by == "all" else rows_name(finding, if_all="")
    names = (f"{finding.study}:{finding.experiment}", contrast_name(finding), rows)
    return safe_line(", ".join(filter(None, names)), _MOST_OF_NAME)


def describe_check(check: Check) -> str:
    """Return a check of a gate as sentences: outcome, which gap, value, interval, and why.

    Args:
        check: a check of a gate.
    """
    finding = check.finding
    parts = []
    if not math.isnan(finding.estimate.value):
        parts.append(size_with_interval(replace(finding, verdict="", margin=check.margin)))
    endings = _ENDINGS
    if check.change is not None:
        endings = _ENDINGS_OF_CHANGE
        parts.append(_describe_change(check))
    margin = format_margin_of(finding, check.margin)
    reason = check_reason(check) or f"{endings[check.outcome]} {margin}"
    parts.append(reason)
    unscored = count_unscored(finding.estimate)
    if unscored not in reason:
        parts.append(unscored)
    sentence = f"{check_name(check)}: {check.outcome}: {'; '.join(parts)}."
    if check.components:
        gaps = []
        for component in check.components:
            size = format_gap(component.estimate.value, component.scale, signed=True)
            gaps.append(f"{size} ({set_name(component)})")
        sentence = f"{sentence} Levels not gated: {join_names(gaps)}."
    return safe_line(sentence, _MOST_OF_CHECK)


def _describe_change(check: Check) -> str:
    """Return the gap of the baseline, and how far this one lies from it."""
    unit = check.finding.scale
    change = check.change
    if change is None:
        return ""
    value = check.baseline.value if check.baseline else math.nan
    before = format_gap(value, unit, signed=True)
    moved = format_gap(change.value, unit, signed=True)
    if not math.isnan(change.ci_low):
        written = unit_format(unit)
        marks = (0.0, check.margin, -check.margin)
        ends = [written.end(end, marks) for end in (change.ci_low, change.ci_high)]
        moved = f"{moved} ({' to '.join(ends)})"
    return f"baseline {before}, change {moved} over {change.n} units"


def describe_gate(gate: Gate) -> str:
    """Return what a gate comes to: ``The gate fails: 1 fails, 2 undecided.``

    Args:
        gate: the gate with its checks.
    """
    outcomes = []
    for outcome in (terms.FAILS, terms.OPEN, terms.PASSES):
        count = sum(check.outcome == outcome for check in gate.checks)
        if count:
            outcomes.append(f"{count} {outcome}")
    verb = "is undecided" if gate.outcome == terms.OPEN else gate.outcome
    sentence = f"The gate {verb}: {', '.join(outcomes)}."
    names = [f"{finding.study}:{finding.experiment}" for finding in gate.unchecked]
    if not names:
        return sentence
    unchecked = join_names(list(dict.fromkeys(names)))
    return f"{sentence} Not checked, because it is no gap: {unchecked}."
