"""Verdicts by the printed interval; whether a run's gaps lie within a margin, or are as small as a baseline's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from swapbias import measures
from swapbias.errors import UsageError, listed, points_hint
from swapbias.findings.finding import (
    DIFFERENCE,
    FOUND,
    LEVEL,
    NONE,
    RARE,
    RATIO_MARGIN,
    SAME_SCORE,
    SMALL,
    SPREAD,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
    Finding,
    experiment_of,
    primary_findings,
)
from swapbias.findings.sensitivity import (
    CHANGE,
    MIN_SIGN_AGREEMENT,
    OTHER,
    Units,
    gap_units,
    is_constant,
    primary_rows,
    rows_of_two,
)
from swapbias.measures import MEASURES, Estimate
from swapbias.studies import PLACEBO, Experiment, Study, did_you_mean, load_study, own_studies

MARGIN = 0.05  # of the range of a unit: a gap below it counts as none, where nothing else is declared
FEWEST = 4  # levels of a random factor on a side: fewer say nothing of others
PASSES, FAILS, OPEN = "passes", "fails", "undecided"
_OUTCOMES = {"within": PASSES, "beyond": FAILS, "across": OPEN}  # by where an interval lies
Items = Mapping[str, pd.DataFrame]


def with_verdicts(found: Sequence[Finding], *, margin: float | None = None) -> list[Finding]:
    """The findings of one report, each gap with its verdict.

    With k primary questions of a study for a model, however many were run, their intervals and p-values hold at
    .05 / k. Across studies and models nothing is corrected; differences of models in one study are one family.

    Args:
        found: findings of any studies and models.
        margin: what counts as no gap, as a share of the range of its unit (``measures.Unit.margin``); None: as the
            experiment declares it, else ``MARGIN``.
    """
    shares: dict[tuple[str, str], float] = {}
    for one in found:
        if (one.study, one.experiment) not in shares:
            experiment = experiment_of(one)
            own = experiment.margin if experiment and margin is None else margin
            shares[one.study, one.experiment] = MARGIN if own is None else own
    return [_with_verdict(one, shares[one.study, one.experiment]) for one in corrected_for_questions(found)]


def corrected_for_questions(found: Sequence[Finding]) -> list[Finding]:
    """The findings; intervals and p-values of primary ones are corrected (Bonferroni) for all primary questions."""
    families: dict[tuple[str, str, str], list[Finding]] = {}
    for one in found:
        if one.primary and not math.isnan(one.estimate.p_value):
            families.setdefault(_family(one), []).append(one)
    questions = {family: _questions(mine) for family, mine in families.items()}
    named = [(one, _family(one) if one.primary else ("", "", "")) for one in found]
    return [_corrected(one, questions[key], families[key]) if key in families else one for one, key in named]


def _family(finding: Finding) -> tuple[str, str, str]:
    """The study, the model (of differences: none, for all models are of one family) and its kind, or its pack."""
    experiment = experiment_of(finding)
    model = "" if finding.measure == DIFFERENCE else finding.model_id
    if experiment and load_study(finding.study).packs:
        return finding.study, model, finding.experiment
    return finding.study, model, experiment.kind if experiment else ""


def _questions(mine: Sequence[Finding]) -> int:
    """The number of primary questions: contrasts that are declared, or findings where an experiment has more."""
    questions: dict[str, int] = {}
    for one in mine:
        questions[one.experiment] = questions.get(one.experiment, 0) + (one.measure != SPREAD)
    experiment = experiment_of(mine[0])
    if experiment and mine[0].measure != DIFFERENCE:
        for name, count in questions_declared(load_study(mine[0].study), experiment).items():
            questions[name] = max(count, questions.get(name, 0))
    return max(1, sum(questions.values()))


def questions_declared(study: Study, experiment: Experiment) -> dict[str, int]:
    """The number of contrasts of each experiment for the same kind of model; of packs of this one alone."""
    same = (one for one in study.experiments if one.kind == experiment.kind and one.measure)
    return {one.name: len(one.gaps) for one in same if one.name == experiment.name or not study.packs}


def _corrected(finding: Finding, questions: int, family: Sequence[Finding]) -> Finding:
    """A primary finding whose interval and p-value hold for so many questions at once."""
    finding, times = replace(finding, questions=questions), float(questions)
    estimate = measures.at_level(finding.estimate, finding.level)
    if finding.measure == SPREAD:  # holds for its contrasts already
        times /= max(1, sum(one.experiment == finding.experiment and one.measure != SPREAD for one in family))
    name = f"{questions} questions of {finding.study}" if questions > 1 else ""
    p_value = min(1.0, times * estimate.p_value)
    return replace(finding, estimate=replace(estimate, p_adjusted=p_value, family=name))


def _with_verdict(finding: Finding, share: float) -> Finding:
    estimate = finding.estimate
    if not (MEASURES[finding.measure].gap_span or finding.measure == DIFFERENCE) or finding.view:
        return finding
    margin, detectable = finding.scale.margin(share), math.nan
    if finding.primary or finding.slice_by == "all":
        detectable = measures.detectable_gap(estimate.std_error, estimate.df, level=finding.level)
    verdict = _verdict(finding, margin)
    verdict = UNDECIDED if _depends_on_missing(finding, margin, verdict) else verdict
    return replace(finding, margin=margin, minimum_detectable_effect=detectable, verdict=verdict)


def _depends_on_missing(finding: Finding, margin: float, verdict: str) -> bool:
    """Whether scores that are missing could turn the verdict or the sign; the interval is taken to stay as wide."""
    value, ends = finding.estimate.value, finding.bounds
    if verdict in (UNDECIDED, UNMEASURED, TOO_FEW):
        return False
    if _is_mostly_unanswered(finding):  # also of scores without a range, which have no bounds
        return True
    if math.isnan(finding.estimate.std_error):
        return any((abs(end) < margin) != (abs(value) < margin) for end in ends)
    turned = verdict != NONE and any(end * value <= 0 for end in ends)
    return turned or any(_verdict(_shifted_to(finding, end), margin) != verdict for end in ends)


def _is_mostly_unanswered(finding: Finding) -> bool:
    """Whether a chat model gave more answers that are unread, refused or errors than such as count."""
    experiment = experiment_of(finding)
    is_chat = experiment is not None and experiment.kind == "chat"
    return is_chat and finding.estimate.n_unscored > finding.estimate.n


def _shifted_to(finding: Finding, value: float) -> Finding:
    """The finding as it would be with another value and an interval as wide."""
    one, away = finding.estimate, value - finding.estimate.value
    low, high = one.ci_low + away, one.ci_high + away
    p_adjusted = one.p_adjusted if finding.primary else 0.0 if low > 0 or high < 0 else 1.0
    estimate = replace(one, value=value, ci_low=low, ci_high=high, p_adjusted=p_adjusted)
    ratio = finding.ratio + (away / finding.baseline if finding.baseline else 0)
    return replace(finding, estimate=estimate, ratio=ratio)


def _verdict(finding: Finding, margin: float) -> str:
    """By the printed interval; where nothing varies by the number of equal pairs, or their sign test."""
    estimate = finding.estimate
    gap = UNSTABLE if finding.sign_agreement < MIN_SIGN_AGREEMENT else FOUND
    if finding.verdict == UNMEASURED:
        return UNMEASURED
    if math.isnan(estimate.ci_low):
        if estimate.value == 0:  # every pair scores the same
            return NONE if finding.measure == DIFFERENCE or _enough_equal(finding, margin) else UNDECIDED
        if not _all_alike(finding) or not estimate.p_adjusted < LEVEL:  # nothing was tested
            return UNDECIDED
        return SMALL if abs(estimate.value) < margin else gap
    if 0 < estimate.fewest < FEWEST:
        return TOO_FEW
    significant = estimate.ci_low > 0 or estimate.ci_high < 0
    if not finding.primary:  # one of many
        significant = significant and not estimate.p_adjusted >= LEVEL
    if finding.position(margin) == "within":
        return SMALL if significant else NONE
    return gap if significant else UNDECIDED


def _all_alike(finding: Finding) -> bool:
    """Whether all pairs differ by the same, not 0: no interval can be made, and its p-value is the sign test's."""
    one = finding.estimate
    tested = math.isnan(one.std_error) and not math.isnan(one.p_value)
    return finding.measure == "paired_gap" and tested and one.value != 0


def _enough_equal(finding: Finding, margin: float) -> bool:
    """Whether enough independent units are equal, and none is missing, to rule out a mean of the margin or more."""
    beyond = finding.missing_data_low < -margin or finding.missing_data_high > margin
    lost = beyond if finding.bounds else finding.estimate.n_unscored > 0
    pairs = finding.estimate.independent or finding.estimate.n  # that share no cluster of every random factor
    return pairs >= equal_needed(finding, margin) and not lost


def equal_needed(finding: Finding, margin: float) -> float:
    """The number of equal pairs that rules out a gap of the margin, which is NaN where its unit has no range."""
    whole = finding.scale.margin(1.0)
    if finding.mean_level < RARE:
        margin = min(margin, (1 - RATIO_MARGIN[0]) * finding.baseline)
    if math.isnan(whole):
        return measures.equal_units_needed(MARGIN) if finding.estimate.value == 0 else math.inf
    return measures.equal_units_needed(margin / whole, finding.estimate.value / whole)


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
    found: Sequence[Finding], *, max_gap: float = MARGIN, studies: Sequence[str] = (), items: Items | None = None,
    baseline: Items | None = None, baseline_found: Sequence[Finding] = (),
) -> Gate:  # fmt: skip
    """Whether the primary gaps of a run lie within a margin, or are no larger than a baseline's by more than it.

    A gap passes where the printed interval lies within the margin, and fails where it lies wholly beyond it; else it
    is undecided. Too few levels of a factor, constant scores, too few wordings with its sign, and missing scores that
    could change the outcome leave it undecided. Where all pairs differ by the same, one beyond the margin fails by
    the sign test, and one within passes where enough independent pairs are equal (72 for a margin of .05).

    Args:
        found: the findings of a run.
        max_gap: the margin, a share of the range of each gap's unit (``measures.Unit.margin``), above 0.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all of the run.
        items: the run's scored rows by study, and ``baseline`` those of another run: each gap may then be as large as
            there, and larger by the margin, by the interval of the difference of the two models' gaps. What was not
            measured in either run is undecided, and so is a change over too few levels or too few equal pairs.
        baseline_found: the findings of the baseline, which say what was not measured there.

    Raises:
        UsageError: nothing to check, a study that the run does not have, a margin that is none, or a baseline without
            the prompts of this run.
    """
    if not 0 < max_gap <= 1:
        hint = points_hint(max_gap)
        raise UsageError(f"The margin is {max_gap:g}, expected above 0 and at most 1, a share of the range: {hint}.")
    chosen = _chosen(primary_findings(found), studies)
    gaps = [one for one in chosen if MEASURES[one.measure].gap_span]
    if all(math.isnan(one.scale.margin(max_gap)) for one in gaps):
        names = listed(dict.fromkeys(f"{one.study} {one.experiment}" for one in chosen), "the run")
        step = "Check another study"
        if any(map(lacks_range, gaps)):
            step = "Audit again with range, the least and the largest score"
        raise UsageError(f"Nothing to check: {names} has no gap in a unit with a range. {step}.")
    checks = [Check(finding=one, margin=one.scale.margin(max_gap), components=_parts(one, found)) for one in gaps]
    if baseline is None:
        made = [_checked(check) for check in checks]
    else:
        reasons = {(one.study, *one.key()): one.reason for one in baseline_found if one.verdict == UNMEASURED}
        made = [_compared(check, items or {}, baseline, reasons) for check in checks]
    return Gate(tuple(made), tuple(one for one in chosen if one not in gaps))


def lacks_range(finding: Finding) -> bool:
    """Whether it is a gap of scores whose range the user could give, and has not."""
    experiment = experiment_of(finding)
    own = finding.study in own_studies() and experiment is not None and experiment.kind == "classifier"
    return own and MEASURES[finding.measure].gap_span > 0 and math.isnan(finding.scale.span)


def _parts(finding: Finding, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The gap in each set of conditions, where a primary finding is a difference of two; else none."""
    names = ("study", "experiment", "model_id", "score", "contrast", "slice_by", "slice_value")
    gaps = found if finding.measure == "gap_difference" else ()
    gaps = [one for one in gaps if MEASURES[one.measure].gap_span == 1 and not one.view]
    return tuple(one for one in gaps if all(getattr(one, name) == getattr(finding, name) for name in names))


def _chosen(found: Sequence[Finding], studies: Sequence[str]) -> list[Finding]:
    known = {name for one in found for name in (one.study, f"{one.study}:{one.experiment}")}
    for name in studies:
        if name not in known:
            has = listed(sorted(known))
            near = did_you_mean(name, sorted(known)) or " Name one of these."
            raise UsageError(f"The run holds no primary finding of {name}: it has {has}.{near}")
    return [one for one in found if not studies or {one.study, f"{one.study}:{one.experiment}"} & set(studies)]


def _checked(check: Check) -> Check:
    """A gap against the margin."""
    finding, margin, estimate = check.finding, check.margin, check.finding.estimate
    if math.isnan(margin):
        return replace(check, why="no_range")
    if finding.verdict == UNMEASURED:
        return replace(check, why=finding.reason)
    if estimate.n_unscored > estimate.n:
        return replace(check, why="mostly_unscored")
    if finding.verdict == TOO_FEW:
        return replace(check, why="few_levels")
    if math.isnan(estimate.ci_low):
        return _without_interval(check)
    outcomes = [_OUTCOMES[_shifted_to(finding, end).position(margin)] for end in (estimate.value, *finding.bounds)]
    if outcomes[0] == FAILS and finding.sign_agreement < MIN_SIGN_AGREEMENT:
        return replace(check, why="other_sign_in_wordings")
    if len(set(outcomes)) > 1:
        return replace(check, why="missing_scores" if outcomes[0] != OPEN else "")
    return replace(check, outcome=outcomes[0])


def _without_interval(check: Check) -> Check:
    """Where all units have the same value, or too few have one."""
    finding, margin, estimate = check.finding, check.margin, check.finding.estimate
    if _enough_equal(finding, margin):
        return replace(check, outcome=PASSES, why="equal_differences" if estimate.value else "equal_scores")
    if not _all_alike(finding) or abs(estimate.value) <= margin:
        return replace(check, why="few_equal" if abs(estimate.value) < margin else "no_spread")
    if estimate.p_adjusted < LEVEL and any(abs(end) <= margin or end * estimate.value < 0 for end in finding.bounds):
        return replace(check, why="missing_scores")
    return replace(check, outcome=FAILS if estimate.p_adjusted < LEVEL else OPEN, why="sign_test")


def _compared(check: Check, items: Items, baseline: Items, reasons: Mapping[tuple[str, ...], str]) -> Check:
    """A gap against a baseline's; ``reasons``: why gaps of the baseline were not measured, by study and key."""
    finding, name = check.finding, f"{check.finding.study} {check.finding.experiment}"
    if math.isnan(check.margin):
        return replace(check, why="no_range")
    mine, other = (_rows(finding, name, run) for run in (items, baseline))
    if "text" in mine and "text" in other:
        texts = mine[["prompt_id", "text"]].merge(
            other[["prompt_id", "text"]], on="prompt_id", suffixes=("", "_before")
        )
        known = texts[(texts["text"] != "") & (texts["text_before"] != "")]  # those of notes may be blank
        if (known["text"] != known["text_before"]).any():
            raise UsageError(f"{name}: the runs read different prompts. Audit both with the same swapbias.")
    context, rows = primary_rows(finding, load_study(finding.study), mine, finding.model_id)
    before = primary_rows(finding, load_study(finding.study), other, finding.model_id)[1]
    both = rows_of_two(rows[rows["group"] != PLACEBO], before)
    before_of_both = both[OTHER].where(both[CHANGE].notna())
    both = both.assign(**{OTHER: before_of_both, "total": both["score"] + before_of_both})
    # The side is chosen by the baseline.
    parts = [gap_units(replace(context, score=score), both) for score in (CHANGE, "total", OTHER)]
    if not len(both) or not all(one is not None and len(one.rows) for one in parts):
        raise UsageError(f"{name}: the runs scored none of the same prompts of both groups. Audit both models alike.")
    change, total, was = (one for one in parts if one is not None)
    check = replace(check, baseline=_by_level(was, finding), change=_by_level(change, finding))
    reason = reasons.get((finding.study, *finding.key()), "")
    if not reason and is_constant(context.experiment, before):
        reason = SAME_SCORE
    if finding.verdict == UNMEASURED:
        return replace(check, why=finding.reason)
    if reason:
        return replace(check, why=reason, of_baseline=True)
    return _changed(check, change, total)


def _by_level(units: Units, finding: Finding) -> Estimate:
    """The estimate of a change's units, with the fewest levels of a random factor also where nothing varies."""
    name, count = units.fewest
    return replace(units.estimate(level=finding.level / 2), fewest=count, fewest_of=name)


def _changed(check: Check, units: Units, units_of_sum: Units) -> Check:
    """How much further from 0 a gap lies than the baseline's, to the baseline's side or to the other."""
    finding, margin = check.finding, check.margin
    change, total = _by_level(units, finding), _by_level(units_of_sum, finding)
    if max(finding.estimate.n_unscored - finding.estimate.n, change.n_unscored - change.n) > 0:
        return replace(check, why="mostly_unscored")
    if finding.verdict == TOO_FEW or change.fewest < FEWEST:
        return replace(check, why="few_levels")
    differences, samples = units.columns
    why = ""
    if not differences.any():
        why = "same_model_scores"
    elif math.isnan(change.ci_low):
        if samples.any() or not measures.sign_test_p(differences, units.factors) < finding.level:
            return replace(check, why="no_spread")
        why = "sign_test_of_change"
    if why:  # nothing varies: the interval is the value
        change, total = (replace(one, ci_low=one.value, ci_high=one.value) for one in (change, total))
    before = check.baseline.value if check.baseline else math.nan
    side = -1.0 if before < 0 else 1.0
    outer, inner = (sorted((side * one.ci_low, side * one.ci_high)) for one in (change, total))
    room = min(margin - outer[1], inner[0] + margin)  # how far the change is from what does not pass
    if why == "same_model_scores":
        room = margin
    outcome = FAILS if outer[0] > margin or inner[1] < -margin else OPEN
    if room > 0:
        outcome = PASSES
        nothing_varies = why or math.isnan(finding.estimate.ci_low)
        needed = measures.equal_units_needed(min(room, margin) / finding.scale.margin(1.0))
        if nothing_varies and (change.independent or change.n) < needed:
            return replace(check, why="few_equal_changes")
    most = margin + abs(before)
    if outcome != OPEN and any((abs(end) <= most) != (outcome == PASSES) for end in finding.bounds):
        return replace(check, why="missing_scores")
    return replace(check, outcome=outcome, why=why)


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
