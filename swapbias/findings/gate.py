"""Verdicts by the printed interval; whether a run's gaps lie within a margin, or are as small as a baseline's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from swapbias import measures
from swapbias.errors import UsageError, listed, points_hint
from swapbias.findings.decision import (
    FAILS,
    FEWEST,
    OPEN,
    PASSES,
    STILL,
    decide,
    exact_p,
    levels_of,
    nothing_moves,
    shows_no_spread,
    with_interval,
)
from swapbias.findings.families import corrected_for_questions, has_verdict
from swapbias.findings.finding import (
    FEW_EQUAL,
    FEW_LEVELS,
    MARGIN,
    MISSING_SCORES,
    MOSTLY_UNSCORED,
    NO_RANGE,
    NO_SPREAD,
    SAME_SCORE,
    TOO_FEW,
    UNMEASURED,
    Finding,
    experiment_of,
    primary_findings,
)
from swapbias.findings.sensitivity import (
    CHANGE,
    OTHER,
    Units,
    gap_units,
    is_constant,
    primary_rows,
    rows_of_two,
)
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import PLACEBO, Experiment, did_you_mean, load_study, own_studies

SAME_MODEL = "same_model_scores"
FEW_EQUAL_CHANGES = "few_equal_changes"
Items = Mapping[str, pd.DataFrame]


def share_of_margin(experiment: Experiment | None, margin: float | None = None) -> float:
    """Return the margin of an experiment, a share of its range: as given, as declared, else ``MARGIN``."""
    if margin is not None:
        return margin
    declared = experiment.compares.margin if experiment else None
    return MARGIN if declared is None else declared


def with_verdicts(found: Sequence[Finding], *, margin: float | None = None) -> list[Finding]:
    """The findings of one report, each gap with its verdict.

    With k primary questions of a study that were answered for a model, their intervals and p-values hold at .05 / k.
    Across studies and models nothing is corrected; differences of models in one study are one family.

    Args:
        found: findings of any studies and models.
        margin: what counts as no gap, as a share of the range of its unit (``measures.Unit.margin``); None: as the
            experiment declares it, else ``MARGIN``.
    """
    shares: dict[tuple[str, str], float] = {}
    for finding in found:
        if (finding.study, finding.experiment) not in shares:
            share = share_of_margin(experiment_of(finding), margin)
            shares[finding.study, finding.experiment] = share
    return [
        _with_verdict(finding, shares[finding.study, finding.experiment])
        for finding in corrected_for_questions(found)
    ]


def _with_verdict(finding: Finding, share: float) -> Finding:
    """The finding with its margin, verdict and the gap that such an audit finds; as it is where it is no gap."""
    if not has_verdict(finding):
        return finding
    estimate = finding.estimate
    margin = finding.scale.margin(share)
    detectable = math.nan
    if finding.primary or finding.slice_by == "all":
        detectable = measures.detectable_gap(estimate.std_error, estimate.df, level=finding.level)
    decision = decide(finding, margin)
    if decision.reason == FEW_EQUAL and not math.isnan(estimate.std_error):
        estimate = _without_interval(finding, margin)
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


def _without_interval(finding: Finding, margin: float) -> Estimate:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One primary gap against a margin.

    Attributes:
        finding: the gap, by the inference of its design.
        margin: what it must stay within, in its unit; of a comparison what it may be larger by than the baseline's.
        outcome: ``PASSES``, ``FAILS`` or ``OPEN``.
        why: the basis of the outcome (``same_score``, ``few_levels`` ...); blank for the printed interval.
        of_baseline: whether ``why`` is about the baseline, which was not measured.
        baseline, change: of a comparison the baseline's gap over the prompts that both runs scored, and the gap less
            that, paired by prompt; else None.
        components: of a difference of gaps the gaps that it is made of, which are not gated.
    """

    finding: Finding
    margin: float
    outcome: str = OPEN
    why: str = ""
    of_baseline: bool = False
    baseline: Estimate | None = None
    change: Estimate | None = None
    components: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of a check of a run: its primary gaps, primary findings that are none, notes about its prompts."""

    checks: tuple[Check, ...]
    unchecked: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """``fails`` where any gap fails, ``passes`` where all pass, else ``undecided``."""
        found = {one.outcome for one in self.checks}
        return FAILS if FAILS in found else PASSES if found == {PASSES} else OPEN

    @property
    def code(self) -> int:
        """The exit code of ``swapbias check``: 0 passes, 1 fails, 3 undecided."""
        return {PASSES: 0, FAILS: 1, OPEN: 3}[self.outcome]


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
        made = [_compared(check, items or {}, baseline, reasons) for check in checks]
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


def _compared(
    check: Check, items: Items, baseline: Items, reasons: Mapping[tuple[str, ...], str]
) -> Check:
    """A gap against a baseline's; ``reasons``: why gaps of the baseline were not measured, by study and key."""
    finding = check.finding
    name = f"{check.finding.study} {check.finding.experiment}"
    if math.isnan(check.margin):
        return replace(check, why=NO_RANGE)
    mine, other = (_rows(finding, name, run) for run in (items, baseline))
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
    check = replace(check, baseline=_by_level(was, finding), change=_by_level(change, finding))
    reason = reasons.get((finding.study, *finding.key()), "")
    if not reason and is_constant(context.experiment, before):
        reason = SAME_SCORE
    if finding.verdict == UNMEASURED:
        return replace(check, why=finding.reason)
    if reason:
        return replace(check, why=reason, of_baseline=True)
    is_same = bool((both[CHANGE].dropna() == 0).all())
    return _changed(check, _by_level(change, finding), _by_level(total, finding), is_same=is_same)


def _by_level(units: Units, finding: Finding) -> Estimate:
    """The estimate of a change's units; both sides of the margin share the level."""
    return units.estimate(level=finding.level / 2)


def _changed(check: Check, change: Estimate, total: Estimate, *, is_same: bool) -> Check:
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


def _rows(finding: Finding, name: str, items: Items) -> pd.DataFrame:
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
