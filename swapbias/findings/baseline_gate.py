"""A gate beside a baseline: whether a gap is no larger than that of another run by more than a margin."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from swapbias import measures
from swapbias.errors import UsageError, listed
from swapbias.findings.compared_units import Units, gap_units, primary_rows
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
from swapbias.measures import Estimate
from swapbias.studies import PLACEBO, load_study


def compare_with_baseline(
    check: Check, items: Items, baseline: Items, reasons: Mapping[tuple[str, ...], str]
) -> Check:
    """A gap against a baseline's; ``reasons``: why gaps of the baseline were not measured, by study and key."""
    finding = check.finding
    name = f"{check.finding.study} {check.finding.experiment}"
    if math.isnan(check.margin):
        return replace(check, why=NO_RANGE)
    mine, other = (_model_rows(finding, name, run) for run in (items, baseline))
    if "text" in mine and "text" in other:
        texts = mine[["prompt_id", "text"]].merge(
            other[["prompt_id", "text"]], on="prompt_id", suffixes=("", "_before")
        )
        known = texts[
            (texts["text"] != "") & (texts["text_before"] != "")
        ]  # those of notes may be blank
        if (known["text"] != known["text_before"]).any():
            raise UsageError(
                f"{name}: the runs read different prompts. Audit both with the same swapbias."
            )
    context, rows = primary_rows(finding, load_study(finding.study), mine, finding.model_id)
    before = primary_rows(finding, load_study(finding.study), other, finding.model_id)[1]
    both = rows_of_two(rows[rows["group"] != PLACEBO], before)
    before_of_both = both[OTHER].where(both[CHANGE].notna())
    both = both.assign(**{OTHER: before_of_both, "total": both["score"] + before_of_both})
    # The side is chosen by the baseline.
    parts = [gap_units(replace(context, score=score), both) for score in (CHANGE, "total", OTHER)]
    if not len(both) or not all(one is not None and len(one.rows) for one in parts):
        raise UsageError(
            f"{name}: the runs scored none of the same prompts of both groups. Audit both models alike."
        )
    change, total, was = (one for one in parts if one is not None)
    check = replace(
        check, baseline=_estimate_side(was, finding), change=_estimate_side(change, finding)
    )
    reason = reasons.get((finding.study, *finding.key()), "")
    if not reason and is_constant(context.experiment, before):
        reason = SAME_SCORE
    if finding.verdict == UNMEASURED:
        return replace(check, why=finding.reason)
    if reason:
        return replace(check, why=reason, of_baseline=True)
    is_same = bool((both[CHANGE].dropna() == 0).all())
    return _decide_change(
        check, _estimate_side(change, finding), _estimate_side(total, finding), is_same=is_same
    )


def _estimate_side(units: Units, finding: Finding) -> Estimate:
    """The estimate of a change's units; both sides of the margin share the level."""
    return units.estimate(level=finding.level / 2)


def _decide_change(check: Check, change: Estimate, total: Estimate, *, is_same: bool) -> Check:
    """Decide how much further from 0 a gap lies than the baseline's, to the baseline's side or to the other.

    Args:
        check: with the baseline.
        change: the gap less the baseline's.
        total: the gap plus the baseline's, whose distance from 0 is how much further it lies to the other side.
        is_same: whether both models score every prompt the same, so that each prompt shows that they are one.
    """
    finding = check.finding
    margin = check.margin
    if max(finding.estimate.n_unscored - finding.estimate.n, change.n_unscored - change.n) > 0:
        return replace(check, why=MOSTLY_UNSCORED)
    if finding.verdict == TOO_FEW or levels_of(change) < FEWEST:
        return replace(check, why=FEW_LEVELS)
    if is_same:
        enough = change.n >= measures.equal_units_needed(margin / finding.scale.margin(1.0))
        return replace(
            check,
            outcome=PASSES if enough else OPEN,
            why=SAME_MODEL if enough else FEW_EQUAL_CHANGES,
        )
    before = check.baseline.value if check.baseline else math.nan
    side = -1.0 if before < 0 else 1.0
    outer = _Side.of(change, side, finding)
    inner = _Side.of(total, -side, finding)
    if outer.is_open or inner.is_open:
        return replace(check, why=NO_SPREAD)
    why = "sign_test_of_change" if outer.is_constant else ""
    outcome = OPEN
    if outer.low > margin or inner.low > margin:
        outcome = FAILS
    elif outer.high < margin and inner.high < margin:
        outcome = PASSES
        is_still = nothing_moves(finding, margin) or shows_no_spread(with_interval(finding), margin)
        if not (outer.shows(margin, is_still=is_still) and inner.shows(margin, is_still=is_still)):
            return replace(check, why=FEW_EQUAL_CHANGES)
    most = margin + abs(before)
    if outcome != OPEN and any((abs(end) <= most) != (outcome == PASSES) for end in finding.bounds):
        return replace(check, why=MISSING_SCORES)
    return replace(check, outcome=outcome, why=why)


@dataclass(frozen=True, slots=True)
class _Side:
    """How much further a gap lies from 0 than a baseline's, to one side: above 0 it is larger.

    Attributes:
        low, high: ends of the interval; where nothing varies the value.
        is_constant: whether all levels show one value that is not 0, by an exact test.
        is_open: whether nothing varies, and too few levels tell.
        spread: how far the mean of a level lies at most from the value.
        levels: their number.
        span: the range of the unit.
    """

    low: float
    high: float
    is_constant: bool
    is_open: bool
    spread: float
    levels: int
    span: float

    @classmethod
    def of(cls, estimate: Estimate, sign: float, finding: Finding) -> "_Side":
        """Return an estimate, or with ``sign`` -1 its negative."""
        is_constant = math.isnan(estimate.ci_low)
        low, high = estimate.ci_low, estimate.ci_high
        if is_constant:
            low = high = estimate.value
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

        ``is_still``: whether the model's own gap shows no spread.
        """
        if not is_still and (self.spread > STILL * margin or (self.is_constant and self.high < 0)):
            return True
        room = min(margin, margin - self.high)
        return self.levels >= measures.equal_units_needed(room / self.span)


def _model_rows(finding: Finding, name: str, items: Items) -> pd.DataFrame:
    """The scored rows of an experiment: of the model, or of the only one where none of that name is there."""
    rows = items.get(finding.study, pd.DataFrame({"experiment": [], "model_id": []}))
    rows = rows[rows["experiment"] == finding.experiment]
    models = list(dict.fromkeys(rows["model_id"]))
    if len(models) != 1 and finding.model_id in models:
        models = [finding.model_id]
    if len(models) != 1:
        has = f"the models {listed(models)}, expected one" if models else "no scored prompts of it"
        raise UsageError(f"{name}: a run holds {has}. Audit both models with the same --study.")
    return rows[rows["model_id"] == models[0]]
