"""One rule for the word of a gap and for the outcome of a gate: the printed interval, and what stands above it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from swapbias.findings.families import corrected_for_questions, has_verdict
from swapbias.findings.finding import Finding, experiment_of
from swapbias.findings.repeats import HALF
from swapbias.findings.terms import (
    EQUAL_SCORES,
    EXACT_TEST,
    FAILS,
    FEW_EQUAL,
    FEW_LEVELS,
    FEWEST,
    FOUND,
    LEVEL,
    MARGIN,
    MISSING_SCORES,
    MIXED_SIGNS,
    MOSTLY_UNSCORED,
    NO_RANGE,
    NO_SPREAD,
    NONE,
    NOT_STABLE,
    NOTHING_SCORED,
    OPEN,
    PASSES,
    RATIO_MARGIN,
    REPEATED_ANSWERS,
    SMALL,
    STILL,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
)
from swapbias.measures import Estimate, intervals
from swapbias.studies import Experiment, own_studies

MIN_SIGN_AGREEMENT = 0.8
"""Share of rewordings in which a gap must have its sign."""
_WITHIN = (NONE, SMALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """Verdict of a gap beside a margin, and what decided it."""

    verdict: str
    """One of ``VERDICTS``."""
    outcome: str = OPEN
    """The outcome of a gate with that margin: ``PASSES``, ``FAILS`` or ``OPEN``."""
    reason: str = ""
    """The basis of the decision where it is not the printed interval (``FEW_EQUAL`` ...); blank for the interval."""


def decide(finding: Finding, margin: float) -> Decision:
    """Return the word of a gap and the outcome of a gate, by the first of these that holds.

    1. Nothing was measured: Not measured.
    2. A random factor has fewer than four levels on a side: Too few.
    3. Most units have no score, or most answers are one answer and more are unread than the margin: Undecided.
    4. Nothing moves or varies, at fewer levels than rule out the margin: no interval is believed, and an exact test
       of the levels decides whether there is a gap.
    5. The printed interval: inside the margin "no gap" (or a small one), without 0 a gap, else Undecided.

    Whatever missing scores could change in 4 and 5 is Undecided.

    Args:
        finding: a gap, with the interval that is printed.
        margin: the margin in the unit of the value; NaN where the range of scores is not known.
    """
    if finding.verdict == UNMEASURED:
        return Decision(UNMEASURED, OPEN, finding.reason or NOTHING_SCORED)
    if math.isnan(finding.estimate.value):
        return Decision(UNMEASURED, OPEN, NOTHING_SCORED)
    if 0 < levels_of(finding.estimate) < FEWEST:
        return Decision(TOO_FEW, OPEN, FEW_LEVELS)
    if finding.estimate.n_unscored > finding.estimate.n:
        return Decision(UNDECIDED, OPEN, MOSTLY_UNSCORED)
    if repeats_answers(finding, margin):
        return Decision(UNDECIDED, OPEN, REPEATED_ANSWERS)
    decision = _by_scores(with_interval(finding), margin)
    if math.isnan(margin) and decision.outcome != OPEN:
        return replace(decision, outcome=OPEN, reason=NO_RANGE)
    if (
        decision.verdict in _WITHIN
        and finding.has_mixed_signs(margin)
        and finding.study in own_studies()
    ):
        # Groups that are labelled the wrong way round look like that.
        return Decision(UNDECIDED, OPEN, MIXED_SIGNS)
    is_by_interval = decision.reason != FEW_EQUAL
    if decision.verdict == FOUND and is_by_interval and finding.sign_agreement < MIN_SIGN_AGREEMENT:
        return Decision(UNSTABLE, OPEN, NOT_STABLE)
    return decision


def with_interval(finding: Finding) -> Finding:
    """Return a finding with the interval of its standard error, also where it was not believed beside a margin.

    Args:
        finding: a gap.
    """
    estimate = finding.estimate
    if not math.isnan(estimate.ci_low) or math.isnan(estimate.std_error):
        return finding
    return replace(finding, estimate=intervals.at_level(estimate, finding.level))


def levels_of(estimate: Estimate) -> int:
    """Return the number of independent levels that a gap rests on: of the scarcest factor, or of units.

    Args:
        estimate: the estimate of a gap.
    """
    return estimate.independent or estimate.fewest or estimate.n


def repeats_answers(finding: Finding, margin: float) -> bool:
    """Tell whether most answers are one, and more than the margin were not read or look like errors.

    Args:
        finding: a gap, with the interval that is printed.
        margin: the margin in the unit of the value; NaN where the range of scores is not known.
    """
    share = margin / finding.scale.margin(1.0)
    most_unread = MARGIN if math.isnan(share) else share
    return finding.repeated_share > HALF and finding.unread_share > most_unread


def equal_needed(finding: Finding, margin: float) -> float:
    """Return the number of equal levels that rules out a gap of the margin (NaN: of a unit without a range).

    Args:
        finding: a gap, with the interval that is printed.
        margin: the margin in the unit of the value; NaN where the range of scores is not known.
    """
    whole = finding.scale.margin(1.0)
    value = finding.estimate.value
    if math.isnan(whole):
        return intervals.equal_units_needed(MARGIN) if value == 0 else math.inf
    if finding.has_rare_rate:
        rarer = min(finding.baseline - finding.scale.low, finding.scale.high - finding.baseline)
        margin = min(margin, (1 - RATIO_MARGIN[0]) * rarer)
    if not nothing_moves(finding, margin):
        return intervals.equal_units_needed(margin / whole, value / whole)
    return intervals.equal_units_needed(margin / whole)


def nothing_moves(finding: Finding, margin: float) -> bool:
    """Tell whether the mean of every level of the scarcest factor lies within a tenth of the margin of no gap.

    Args:
        finding: a gap, with the interval that is printed.
        margin: the margin in the unit of the value.
    """
    estimate = finding.estimate
    if estimate.value == 0 and math.isnan(estimate.std_error):
        return True
    return estimate.largest_level <= STILL * margin


def shows_no_spread(finding: Finding, margin: float) -> bool:
    """Tell whether so few levels agree so closely on a gap within the margin that no interval is believed.

    Args:
        finding: a gap, with the interval that is printed.
        margin: the margin in the unit of the value.
    """
    is_close = (
        finding.position(margin) == "within" and finding.estimate.level_spread <= STILL * margin
    )
    if not (is_close or nothing_moves(finding, margin)):
        return False
    return levels_of(finding.estimate) < equal_needed(finding, margin)


def _by_scores(finding: Finding, margin: float) -> Decision:
    """Decide by the scores: their levels where nothing moves or varies, else the printed interval."""
    has_interval = not math.isnan(finding.estimate.ci_low)
    if nothing_moves(finding, margin) and not has_interval:
        return _by_equal_levels(finding, margin)
    if has_interval and shows_no_spread(finding, margin):
        decide_value = _by_signs
    else:
        decide_value = _by_interval if has_interval else _by_constant
    decision = decide_value(finding, margin)
    ends = [decide_value(shifted_to(finding, end), margin) for end in finding.bounds]
    if any(
        _turns(finding, decision, end, value)
        for end, value in zip(ends, finding.bounds, strict=True)
    ):
        return Decision(UNDECIDED, OPEN, MISSING_SCORES)
    if decision.outcome != OPEN and any(end.outcome != decision.outcome for end in ends):
        return replace(decision, outcome=OPEN, reason=MISSING_SCORES)
    return decision


def _turns(finding: Finding, decision: Decision, end: Decision, value: float) -> bool:
    """Tell whether missing scores that bring the gap to ``value`` would change the word or the sign of a gap.

    "No gap" and a gap within the margin are one word here: neither is larger than the margin.
    """
    if decision.verdict == UNDECIDED:
        return False
    if decision.verdict in _WITHIN:
        return end.verdict not in _WITHIN
    return end.verdict != FOUND or value * finding.estimate.value <= 0


def _by_equal_levels(finding: Finding, margin: float) -> Decision:
    """Decide where nothing moves: no spread was seen, so only many levels rule out that some would move."""
    could_exceed = finding.missing_data_low < -margin or finding.missing_data_high > margin
    is_incomplete = could_exceed if finding.bounds else finding.estimate.n_unscored > 0
    if is_incomplete:
        return Decision(UNDECIDED, OPEN, MISSING_SCORES)
    if levels_of(finding.estimate) < equal_needed(finding, margin):
        return Decision(UNDECIDED, OPEN, FEW_EQUAL)
    return Decision(NONE, PASSES, EQUAL_SCORES)


def _by_constant(finding: Finding, margin: float) -> Decision:
    """Decide where all levels show one gap that is not 0, so that there is no interval, by their exact test."""
    estimate = finding.estimate
    p_value = adjusted_p(finding)
    if math.isnan(p_value):
        return Decision(UNDECIDED, OPEN, NO_SPREAD)
    if not p_value < LEVEL:
        return Decision(UNDECIDED, OPEN, EXACT_TEST)
    if abs(estimate.value) > margin:
        return Decision(FOUND, FAILS, EXACT_TEST)
    if levels_of(finding.estimate) < equal_needed(finding, margin):
        return Decision(FOUND, OPEN, FEW_EQUAL)
    return Decision(SMALL, PASSES, EXACT_TEST)


def _by_signs(finding: Finding, margin: float) -> Decision:
    """Decide where no interval is believed: a gap where all of enough levels lie to one side of 0, else nothing."""
    is_gap = exact_p(finding) < LEVEL and not nothing_moves(finding, margin)
    return Decision(FOUND if is_gap else UNDECIDED, OPEN, FEW_EQUAL)


def exact_p(finding: Finding) -> float:
    """Return the p-value of the sign test of the levels over all tests of the family; 1 where signs may differ.

    Args:
        finding: a gap.
    """
    estimate = finding.estimate
    if not abs(estimate.value) > estimate.level_spread:
        return 1.0
    return min(1.0, finding.questions * math.ldexp(2.0, -levels_of(estimate)))


def _by_interval(finding: Finding, margin: float) -> Decision:
    """Decide by the printed interval."""
    estimate = finding.estimate
    is_gap = estimate.ci_low > 0 or estimate.ci_high < 0
    position = finding.position(margin)
    if position == "within":
        return Decision(SMALL if is_gap else NONE, PASSES)
    word = FOUND if is_gap else UNDECIDED
    return Decision(word, FAILS if is_gap and position == "beyond" else OPEN)


def adjusted_p(finding: Finding) -> float:
    """Return the p-value over all tests of its family, or its own where there is no family.

    Args:
        finding: a gap.
    """
    estimate = finding.estimate
    return estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted


def shifted_to(finding: Finding, value: float) -> Finding:
    """Return the finding as it would be with another value and an interval as wide.

    Args:
        finding: a gap.
        value: the value that it would have, in the same unit.
    """
    estimate = finding.estimate
    away = value - estimate.value
    moved = replace(
        estimate, value=value, ci_low=estimate.ci_low + away, ci_high=estimate.ci_high + away
    )
    return replace(finding, estimate=moved, ratio=_shifted_ratio(finding, away))


def _shifted_ratio(finding: Finding, away: float) -> float:
    """Return the ratio of two rates (of their complements, where those are rarer) after a shift of the gap."""
    room = finding.baseline - finding.scale.low
    if finding.has_high_rate:
        room = finding.baseline - finding.scale.high
    return finding.ratio + away / room if room else finding.ratio


def share_of_margin(experiment: Experiment | None, margin: float | None = None) -> float:
    """Return the margin of an experiment, a share of its range: as given, as declared, else ``MARGIN``.

    Args:
        experiment: the experiment that may declare a margin; None: one that this version does not know.
        margin: a share of the range; None: the declared one.
    """
    if margin is not None:
        return margin
    declared = experiment.compares.margin if experiment else None
    return MARGIN if declared is None else declared


def with_verdicts(findings: Sequence[Finding], *, margin: float | None = None) -> list[Finding]:
    """Return the findings of one report, each gap with its verdict.

    With k primary questions of a study that were answered for a model, their intervals and p-values hold at .05 / k.
    Across studies and models nothing is corrected; differences of models in one study are one family.

    Args:
        findings: the findings of any studies and models.
        margin: what counts as no gap, as a share of the range of its unit (``measures.Unit.margin``); None: as the
            experiment declares it, else ``MARGIN``.
    """
    shares: dict[tuple[str, str], float] = {}
    for finding in findings:
        if (finding.study, finding.experiment) not in shares:
            share = share_of_margin(experiment_of(finding), margin)
            shares[finding.study, finding.experiment] = share
    return [
        _add_verdict(finding, shares[finding.study, finding.experiment])
        for finding in corrected_for_questions(findings)
    ]


def _add_verdict(finding: Finding, share: float) -> Finding:
    """Return a gap with its margin, its verdict and the gap that such an audit finds; other findings as they are."""
    if not has_verdict(finding):
        return finding
    estimate = finding.estimate
    margin = finding.scale.margin(share)
    detectable = math.nan
    if finding.primary or finding.slice_by == "all":
        detectable = intervals.detectable_gap(estimate.std_error, estimate.df, level=finding.level)
    decision = decide(finding, margin)
    if decision.reason == FEW_EQUAL and not math.isnan(estimate.std_error):
        estimate = _drop_interval(finding, margin)
        detectable = math.nan
    reason = decision.reason if decision.verdict == UNMEASURED else ""
    return replace(
        finding,
        estimate=estimate,
        margin=margin,
        minimum_detectable_effect=detectable,
        verdict=decision.verdict,
        reason=reason,
    )


def _drop_interval(finding: Finding, margin: float) -> Estimate:
    """Return the estimate without its interval, which is not believed, and with the exact p-value of its levels.

    Where nothing moves no test is looked at either.
    """
    p_value = math.nan if nothing_moves(finding, margin) else exact_p(finding)
    return replace(
        finding.estimate,
        ci_low=math.nan,
        ci_high=math.nan,
        p_value=p_value / finding.questions,
        p_adjusted=p_value,
    )
