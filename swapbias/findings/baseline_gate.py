"""A gate beside a baseline: whether a gap is no larger than that of another run by more than a margin."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from swapbias.errors import UsageError, listed
from swapbias.findings.compared_units import primary_rows
from swapbias.findings.context import Context
from swapbias.findings.decision import levels_of, nothing_moves, shows_no_spread, with_interval
from swapbias.findings.finding import Finding
from swapbias.findings.gate_checks import FEW_EQUAL_CHANGES, SAME_MODEL, Check, Items
from swapbias.findings.scored_rows import CHANGE, OTHER, is_constant, rows_of_two
from swapbias.findings.terms import (
    FAILS,
    FEW_LEVELS,
    FEWEST,
    MISSING_SCORES,
    MOSTLY_UNSCORED,
    NO_RANGE,
    NO_SPREAD,
    OPEN,
    PASSES,
    SAME_SCORE,
    STILL,
    TOO_FEW,
    UNMEASURED,
)
from swapbias.findings.unit_rows import gap_units
from swapbias.measures import Estimate, intervals
from swapbias.studies import PLACEBO, load_study

_TOTAL = "total"  # column of rows of two models: the sum of their scores


def compare_with_baseline(
    check: Check,
    items: Items,
    baseline: Items,
    unmeasured_reasons: Mapping[tuple[str, ...], str],
) -> Check:
    """Check a gap against a baseline's.

    Args:
        check: the gap and the margin.
        items: scored rows of the run by study.
        baseline: scored rows of the other run by study.
        unmeasured_reasons: why gaps of the baseline were not measured, by study and ``Finding.key``.

    Raises:
        UsageError: a run lacks the rows of the gap, or the runs read different prompts.
    """
    finding = check.finding
    if math.isnan(check.margin):
        return replace(check, why=NO_RANGE)
    rows = _model_rows(finding, items)
    rows_before = _model_rows(finding, baseline)
    _refuse_other_prompts(finding, rows, rows_before)
    study = load_study(finding.study)
    context, rows = primary_rows(finding, study, rows, finding.model_id)
    _, rows_before = primary_rows(finding, study, rows_before, finding.model_id)
    both = rows_of_two(rows[rows["group"] != PLACEBO], rows_before)
    before = both[OTHER].where(both[CHANGE].notna())
    both = both.assign(**{OTHER: before, _TOTAL: both["score"] + before})
    change = _estimate_column(context, both, CHANGE, finding)
    total = _estimate_column(context, both, _TOTAL, finding)  # the baseline chooses the side
    check = replace(check, baseline=_estimate_column(context, both, OTHER, finding), change=change)
    if finding.verdict == UNMEASURED:
        return replace(check, why=finding.reason)
    reason = unmeasured_reasons.get((finding.study, *finding.key()), "")
    if not reason and is_constant(context.experiment, rows_before):
        reason = SAME_SCORE
    if reason:
        return replace(check, why=reason, of_baseline=True)
    is_same = bool((both[CHANGE].dropna() == 0).all())
    return _decide_change(check, change, total, is_same=is_same)


def _model_rows(finding: Finding, items: Items) -> pd.DataFrame:
    """Return the scored rows of an experiment: of the model, or of the only one where none of that name is there."""
    rows = items.get(finding.study, pd.DataFrame({"experiment": [], "model_id": []}))
    rows = rows[rows["experiment"] == finding.experiment]
    models = list(dict.fromkeys(rows["model_id"]))
    if len(models) != 1 and finding.model_id in models:
        models = [finding.model_id]
    name = f"{finding.study} {finding.experiment}"
    if not models:
        raise UsageError(
            f"{name}: a run contains no scored prompts of it. Audit both models with the same --study."
        )
    if len(models) != 1:
        raise UsageError(
            f"{name}: a run contains the models {listed(models)}, expected one. "
            "Audit both models with the same --study."
        )
    return rows[rows["model_id"] == models[0]]


def _refuse_other_prompts(finding: Finding, rows: pd.DataFrame, rows_before: pd.DataFrame) -> None:
    """Refuse runs whose prompts have other texts; texts of notes may be blank."""
    if "text" not in rows or "text" not in rows_before:
        return
    texts = rows[["prompt_id", "text"]].merge(
        rows_before[["prompt_id", "text"]], on="prompt_id", suffixes=("", "_before")
    )
    texts = texts[(texts["text"] != "") & (texts["text_before"] != "")]
    if (texts["text"] != texts["text_before"]).any():
        raise UsageError(
            f"{finding.study} {finding.experiment}: the runs read different prompts. "
            "Audit both with the same swapbias."
        )


def _estimate_column(
    context: Context, rows: pd.DataFrame, column: str, finding: Finding
) -> Estimate:
    """Estimate the gap of a column of the rows of two models; both sides of the margin share the level."""
    units = gap_units(replace(context, score=column), rows) if len(rows) else None
    if units is None or not len(units.rows):
        raise UsageError(
            f"{finding.study} {finding.experiment}: the runs scored none of the same prompts of both groups. "
            "Audit both models alike."
        )
    return units.estimate(level=finding.level / 2)


def _decide_change(check: Check, change: Estimate, total: Estimate, *, is_same: bool) -> Check:
    """Decide how much further from 0 a gap lies than the baseline's, to the baseline's side or to the other.

    Args:
        check: the check with the baseline.
        change: the gap less the baseline's.
        total: the gap plus the baseline's, whose distance from 0 is how much further it lies to the other side.
        is_same: whether both models score every prompt the same, so that each prompt shows that they are one.
    """
    finding = check.finding
    margin = check.margin
    unscored_excess = max(
        finding.estimate.n_unscored - finding.estimate.n, change.n_unscored - change.n
    )
    if unscored_excess > 0:
        return replace(check, why=MOSTLY_UNSCORED)
    if finding.verdict == TOO_FEW or levels_of(change) < FEWEST:
        return replace(check, why=FEW_LEVELS)
    if is_same:
        if change.n >= intervals.equal_units_needed(margin / finding.scale.margin(1.0)):
            return replace(check, outcome=PASSES, why=SAME_MODEL)
        return replace(check, outcome=OPEN, why=FEW_EQUAL_CHANGES)
    before = check.baseline.value if check.baseline else math.nan
    side = -1.0 if before < 0 else 1.0
    outer = _Side.of(change, side, finding)
    inner = _Side.of(total, -side, finding)
    if outer.is_open or inner.is_open:
        return replace(check, why=NO_SPREAD)
    outcome = _outcome_of_sides(outer, inner, margin)
    if outcome == PASSES:
        is_still = nothing_moves(finding, margin) or shows_no_spread(with_interval(finding), margin)
        if not (outer.shows(margin, is_still=is_still) and inner.shows(margin, is_still=is_still)):
            return replace(check, why=FEW_EQUAL_CHANGES)
    largest = margin + abs(before)
    agrees_with_bounds = [(abs(end) <= largest) == (outcome == PASSES) for end in finding.bounds]
    if outcome != OPEN and not all(agrees_with_bounds):
        return replace(check, why=MISSING_SCORES)
    return replace(check, outcome=outcome, why="sign_test_of_change" if outer.is_constant else "")


def _outcome_of_sides(outer: "_Side", inner: "_Side", margin: float) -> str:
    """Return the outcome by the intervals of both sides."""
    if outer.low > margin or inner.low > margin:
        return FAILS
    return PASSES if outer.high < margin and inner.high < margin else OPEN


@dataclass(frozen=True, slots=True)
class _Side:
    """Distance from 0 of a gap less that of a baseline, to one side: above 0 it is larger."""

    low: float
    """Lower end of the interval; where nothing varies the value."""
    high: float
    """Upper end of the interval; where nothing varies the value."""
    is_constant: bool
    """Whether all levels show one value that is not 0, by an exact test."""
    is_open: bool
    """Whether nothing varies, and too few levels tell."""
    spread: float
    """How far the mean of a level lies at most from the value."""
    levels: int
    """Number of levels."""
    span: float
    """The range of the unit."""

    @classmethod
    def of(cls, estimate: Estimate, sign: float, finding: Finding) -> "_Side":
        """Return the side of an estimate, or with ``sign`` -1 that of its negative."""
        is_constant = math.isnan(estimate.ci_low)
        low = estimate.ci_low
        high = estimate.ci_high
        if is_constant:
            low = estimate.value
            high = estimate.value
        is_open = is_constant and estimate.value != 0 and not estimate.p_value < finding.level
        return cls(
            low=min(sign * low, sign * high),
            high=max(sign * low, sign * high),
            is_constant=is_constant and estimate.value != 0,
            is_open=is_open,
            spread=estimate.level_spread,
            levels=estimate.independent,
            span=finding.scale.margin(1.0),
        )

    def shows(self, margin: float, *, is_still: bool) -> bool:
        """Tell whether the change is shown to be smaller than the margin: a spread was seen, or many levels agree.

        Args:
            margin: the margin in the unit of the value.
            is_still: whether the model's own gap shows no spread.
        """
        if not is_still and (self.spread > STILL * margin or (self.is_constant and self.high < 0)):
            return True
        room = min(margin, margin - self.high)
        return self.levels >= intervals.equal_units_needed(room / self.span)
