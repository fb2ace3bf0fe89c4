"""Sentences on why nothing is decided: too few equal pairs, missing scores, mixed signs, no interval."""

import math

from swapbias.findings import Finding, decision, terms
from swapbias.measures import MOSTLY_TIED, Estimate
from swapbias.report.finding_names import compared_groups
from swapbias.report.numbers import (
    format_chosen_gap,
    format_ends,
    format_gap,
    format_margin_of,
    format_p_value,
)

NO_INTERVAL = "there is no interval, because too little varies or was scored"
"""Reason where an estimate has no interval."""
REASONS = {
    "": "",
    terms.SAME_SCORE: "every prompt has the same score",
    terms.SAME_INPUT: "the model reads the same input for both texts of each pair",
    terms.UNREAD_SWAP: "the model does not seem to read the swapped words",
    terms.UNNAMED_FILLS: "the names or words that the texts swap could not be found; add a column name",
    terms.NO_CONTROL: "no pair moves, and the model could not be asked whether it reads the swapped words",
    terms.CONTROL_NOT_SHOWN: "the model does not show the gap of the positive control",
    terms.CONTROL_NOT_RUN: "the positive control was not audited",
    terms.NOTHING_SCORED: "nothing was scored that the question needs",
    MOSTLY_TIED: "more than half of the pairs differ by the same, of which a median says nothing",
    terms.SAME_DECISION: "every score lies on one side of the threshold",
    terms.COARSE_SCORES: "the scores of a group have too few different values for a quantile",
    terms.MOSTLY_UNSCORED: "more than half could not be scored",
    terms.NOT_STABLE: "too few rewordings have the same sign",
    terms.NO_SPREAD: NO_INTERVAL,
    terms.NO_RANGE: "the range of the score is not known: audit again with range",
    "same_model_scores": "both models score these prompts the same",
    "few_equal_changes": "nothing varies, and {estimate.n} pairs are too few to rule out a larger change",
    "sign_test_of_change": "all {estimate.n} change by the same: sign test",
}
"""Sentences by what decides a check of a gate, or a verdict, in place of the printed interval."""


def decide_at_margin(finding: Finding) -> decision.Decision:
    """Return what the verdict of a finding rests on, beside its own margin.

    Args:
        finding: a gap.
    """
    return decision.decide(finding, finding.margin)


def why_undecided(finding: Finding, margin: float) -> str:
    """Return why a gap is undecided, in the words of a sentence.

    Args:
        finding: a gap.
        margin: the margin beside which it is undecided, in its unit.
    """
    estimate = finding.estimate
    reason = decision.decide(finding, margin).reason
    if reason == terms.MISSING_SCORES:
        return _missing_scores(finding)
    if reason == terms.MOSTLY_UNSCORED:
        return f"more than half could not be scored: {_missing_scores(finding)}"
    if reason == terms.FEW_EQUAL:
        return too_few_equal_pairs(finding, margin)
    if reason == terms.REPEATED_ANSWERS:
        repeated = 100 * finding.repeated_share
        unread = 100 * finding.unread_share
        return f"{repeated:.0f} % of the answers are one answer, and {unread:.0f} % are unread, refused or an error"
    if reason == terms.MIXED_SIGNS:
        return f"{mixed_signs(finding, margin)}: check which group each text is labelled with"
    if reason == terms.EXACT_TEST:
        names = estimate.fewest_of or "pairs"
        p = format_p_value(decision.adjusted_p(finding))
        return f"all {estimate.n} differ by the same, over too few {names} (p {p})"
    if reason and reason in REASONS:
        return REASONS[reason].format(estimate=estimate)
    if math.isnan(estimate.std_error):
        return NO_INTERVAL
    if math.isnan(margin):
        return "this may be chance"
    limit = format_margin_of(finding, margin)
    return f"this may be chance, and may be larger than the margin of {limit}"


def _missing_scores(finding: Finding) -> str:
    """Say how many units have no score, and what the gap could be."""
    count = count_unscored(finding.estimate) or "some have no score"
    if not finding.bounds:
        return f"{count}, which could change this"
    ends = format_ends(finding, *finding.bounds)
    return f"{count}. Counted either way, the gap is {ends}"


def count_unscored(estimate: Estimate) -> str:
    """Say how many units have no score: ``4 of 404 have no score``; blank where each has one.

    Args:
        estimate: the estimate with its counts.
    """
    if not estimate.n_unscored:
        return ""
    verb = "has" if estimate.n_unscored == 1 else "have"
    return f"{estimate.n_unscored:,} of {estimate.n + estimate.n_unscored:,} {verb} no score"


def mixed_signs(finding: Finding, margin: float) -> str:
    """Say that most pairs differ by more than a margin, in both directions, and by how much on average.

    Args:
        finding: a gap.
        margin: the margin in its unit.
    """
    size = format_gap(finding.mean_absolute, finding.scale)
    limit = format_margin_of(finding, margin)
    return (
        f"most pairs differ by more than {limit}, in both directions "
        f"(mean absolute difference {size})"
    )


def why_equal_undecided(finding: Finding, margin: float) -> str:
    """Return why units that all have the same value decide nothing.

    Args:
        finding: a gap of which nothing moves.
        margin: the margin in its unit.
    """
    if decision.levels_of(finding.estimate) >= decision.equal_needed(finding, margin):
        equal = describe_equal_pairs(finding, margin)
        return f"{equal}, but {finding.estimate.n_unscored} could not be scored"
    return too_few_equal_pairs(finding, margin)


def describe_equal_pairs(finding: Finding, margin: float) -> str:
    """Say that nothing moves, or that all units differ by the same.

    Args:
        finding: a gap, an effect, or a difference of gaps or models.
        margin: the margin in its unit.
    """
    estimate = finding.estimate
    if math.isnan(estimate.std_error):
        return _describe_constant(finding)
    count = decision.levels_of(estimate)
    names = estimate.fewest_of or "pairs"
    close = format_gap(terms.STILL * margin, finding.scale)
    target = "no gap" if decision.nothing_moves(finding, margin) else "each other"
    return f"the means of all {count} {names} lie within {close} of {target}"


def _describe_constant(finding: Finding) -> str:
    """Say that all units have exactly one value."""
    estimate = finding.estimate
    first, second = compared_groups(finding)
    if finding.measure == terms.DIFFERENCE and not estimate.value:
        return f"{first} and {second} score the same"
    if estimate.value:
        return f"all {estimate.n} pairs differ by the same"
    if finding.measure == "gap_difference":
        return f"the gap, {first} minus {second}, is the same in all {estimate.n} pairs"
    if finding.measure in terms.EFFECTS:
        return f"the effect is 0 in all {estimate.n} pairs"
    return f"all {estimate.n} pairs about {first} and {second} score the same"


def too_few_equal_pairs(finding: Finding, margin: float) -> str:
    """Say how many levels are needed, where nothing varies, to rule out a gap of the margin.

    Args:
        finding: a gap of which nothing varies.
        margin: the margin in its unit; NaN where none applies.
    """
    estimate = finding.estimate
    count = decision.levels_of(estimate)
    needed = decision.equal_needed(finding, margin)
    equal = describe_equal_pairs(finding, margin)
    if math.isnan(estimate.std_error) and estimate.fewest_of and count < estimate.n:
        equal = f"{equal} (over {count} {estimate.fewest_of})"
    gap = "a gap"
    if not math.isnan(margin):
        gap = f"a gap of {format_chosen_gap(margin, finding.scale)}"
    is_below = abs(estimate.value) < margin and not math.isclose(abs(estimate.value), margin)
    if math.isinf(needed) and is_below:
        return f"{equal}, at a rate that has no ratio to decide by"
    if math.isinf(needed):
        return f"{equal}, which is no less than {gap}"
    if count < estimate.n:
        return f"{equal}, but {needed:,.0f} {estimate.fewest_of} are needed to rule out {gap}"
    return f"{equal}, but {needed:,.0f} are needed to rule out {gap}"
