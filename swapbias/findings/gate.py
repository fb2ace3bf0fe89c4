"""Whether a model passes: its headline gaps within a margin, or no larger than a baseline's by more than it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from swapbias.errors import UsageError
from swapbias.findings.disaggregation import (
    FEWEST,
    MARGIN,
    all_alike,
    enough_equal,
    headline_rows,
    moved_to,
)
from swapbias.findings.finding import LEVEL as ALPHA, TOO_FEW, UNMEASURED, Finding, experiment_of, headlines
from swapbias.findings.predictions import ANSWERS
from swapbias.findings.robustness import HOLDS, Units, headline_units
from swapbias.measures import MEASURES, Estimate, margin_in, sign_test_p
from swapbias.studies import PLACEBO, Study, did_you_mean, load_study

GAP, LEVEL, ALL_OF_THEM = OF = ("gap", "level", "all")  # what is gated where a headline is a difference of gaps
PASSES, FAILS, OPEN = OUTCOMES = ("passes", "fails", "undecided")
_OUTCOMES = {"within": PASSES, "beyond": FAILS, "across": OPEN}  # by where an interval lies
_ROUNDING = 1e-9  # scores of two runs closer than this are the same: batches of other sizes add up so
REASONS = (
    "constant_scores", "mostly_unscored", "few_levels", "other_sign_in_wordings", "missing_scores", "no_spread",
    "few_equal", "equal_scores", "equal_differences", "sign_test", "same_model_scores", "sign_test_of_change",
)  # fmt: skip
(
    _CONSTANT,
    _UNSCORED,
    _FEW,
    _REWORDED,
    _MISSING,
    _FLAT,
    _FEW_EQUAL,
    _EQUAL,
    _ALIKE,
    _SIGNS,
    _SAME,
    _SIGNS_OF_CHANGE,
) = REASONS
Items = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One headline gap against a margin.

    Attributes:
        finding: the gap, by the inference of its design.
        margin: what it must stay within, in its unit; of a comparison what it may be larger by than the baseline's.
        outcome: of ``OUTCOMES``.
        why: what the outcome rests on, of ``REASONS``; blank for the printed interval.
        baseline: of a comparison the gap of the baseline over the prompts that both runs scored; else None.
        change: of a comparison the gap less the baseline's, paired by prompt; else None.
        levels: of a difference of gaps the gaps that it is made of, where these are not gated.
    """

    finding: Finding
    margin: float
    outcome: str
    why: str = ""
    baseline: Estimate | None = None
    change: Estimate | None = None
    levels: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run comes to.

    Attributes:
        checks: of its headlines.
        unchecked: the headlines that are no gaps.
        notes: what the run says of its prompts, a sentence each.
    """

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
    max_gap: float = MARGIN,
    studies: Sequence[str] = (),
    items: Items | None = None,
    baseline: Items | None = None,
    of: str = GAP,
) -> Gate:
    """Whether the headline gaps of a run lie within a margin, or are no larger than a baseline's by more than it.

    A gap passes where the interval that the report prints lies within the margin, and fails where it lies wholly
    beyond it; else it is undecided, as is one of too few levels of a random factor. All must pass for the gate to
    pass. A gap that keeps its sign in too few wordings does not fail, and nothing passes or fails that missing scores
    could change.

    Where all pairs differ by the same there is no interval. A gap beyond the margin then fails by the sign test of
    its clusters: it is exact where effects are symmetric. One within the margin passes where a mean beyond it would
    have shown: so many independent pairs would not all have differed alike (72 that score the same, at a margin of
    .05).
    Constant scores are undecided.

    Args:
        found: the findings of a run.
        max_gap: the margin, a share of the range of each gap's unit (``measures.margin_in``), above 0.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all that the run holds.
        items: the run's scored rows by study, and ``baseline`` those of another run: each gap may then be as large as
            there, and larger by the margin, by the interval of the difference of the two models' gaps, prompt by
            prompt over the random factors of the design.
        of: where a headline is a difference of two gaps: that (``gap``), both gaps (``level``), or all three
            (``all``). Any other headline is its own level.

    Raises:
        UsageError: another word for ``of``, nothing to check, a study that the run does not hold, a margin that is
            none, or a baseline without the prompts of this run.
    """
    if not 0 < max_gap <= 1:
        raise UsageError(
            f"max_gap is {max_gap}, expected above 0 and at most 1: a share of a unit's range. Change it."
        )
    if of not in OF:
        raise UsageError(f"of is {of!r}, expected {', '.join(OF)}.{did_you_mean(of, OF)} Choose one.")
    chosen = _chosen(headlines(found), studies)
    gaps = [one for one in chosen if MEASURES[one.measure].reach and not math.isnan(margin_in(one.unit, max_gap))]
    if not gaps:
        told = ", ".join(dict.fromkeys(f"{one.study} {one.experiment}" for one in chosen)) or "no headline"
        raise UsageError(f"Nothing to check: {told} has no gap in a unit with a range. Check another study.")
    checks = []
    for gap in gaps:
        levels = _levels(gap, found)
        gated = levels if levels and of != GAP else ()
        for one in (*(() if gated and of == LEVEL else (gap,)), *gated):
            margin = margin_in(one.unit, max_gap)
            made = _checked(one, margin) if baseline is None else _compared(one, margin, items or {}, baseline)
            checks.append(replace(made, levels=() if gated else levels))
    return Gate(tuple(checks), tuple(one for one in chosen if one not in gaps))


def _levels(finding: Finding, found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The gap in each set of conditions, where a headline is a difference of two; else none."""
    if finding.measure != "gap_difference":
        return ()

    def of(one: Finding) -> tuple[str, ...]:
        return (one.study, one.experiment, one.model_id, one.score, one.contrast, one.slice_by, one.slice_value)

    return tuple(one for one in found if MEASURES[one.measure].reach == 1 and not one.view and of(one) == of(finding))


def _chosen(found: Sequence[Finding], studies: Sequence[str]) -> list[Finding]:
    known = {name for one in found for name in (one.study, f"{one.study}:{one.experiment}")}
    for name in studies:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            near = did_you_mean(name, sorted(known)) or " Name one of these."
            raise UsageError(f"The run holds no headline of {name}: it has {has}.{near}")
    return [one for one in found if not studies or {one.study, f"{one.study}:{one.experiment}"} & set(studies)]


def _checked(finding: Finding, margin: float) -> Check:
    """A gap against the margin."""
    estimate, made = finding.estimate, Check(finding=finding, margin=margin, outcome=OPEN)
    if finding.verdict == UNMEASURED:
        return replace(made, why=_CONSTANT)
    if estimate.n_unscored > estimate.n:
        return replace(made, why=_UNSCORED)
    if finding.verdict == TOO_FEW:
        return replace(made, why=_FEW)
    if math.isnan(estimate.ci_low):
        return _without_interval(made)
    outcome = _OUTCOMES[finding.position(margin)]
    if outcome == FAILS and finding.signs_kept < HOLDS:
        return replace(made, why=_REWORDED)
    ends = [moved_to(finding, end) for end in (finding.worst_low, finding.worst_high) if not math.isnan(end)]
    if any(_OUTCOMES[end.position(margin)] != outcome for end in ends):
        return replace(made, why=_MISSING if outcome != OPEN else "")
    return replace(made, outcome=outcome)


def _without_interval(check: Check) -> Check:
    """Where all units have the same value, or too few have one."""
    finding, margin, estimate = check.finding, check.margin, check.finding.estimate
    if enough_equal(finding, margin):
        return replace(check, outcome=PASSES, why=_ALIKE if estimate.value else _EQUAL)
    if not all_alike(finding) or abs(estimate.value) <= margin:
        return replace(check, why=_FEW_EQUAL if abs(estimate.value) < margin else _FLAT)
    if not estimate.p_adjusted < ALPHA:
        return replace(check, why=_SIGNS)
    ends = [end for end in (finding.worst_low, finding.worst_high) if not math.isnan(end)]
    if any(abs(end) <= margin or end * estimate.value < 0 for end in ends):
        return replace(check, why=_MISSING)
    return replace(check, outcome=FAILS, why=_SIGNS)


# --- against a baseline -------------------------------------------------------------------------------


def _compared(finding: Finding, margin: float, items: Items, baseline: Items) -> Check:
    """A gap against a baseline's: how much further from 0 it lies, to the baseline's side or to the other."""
    mine, other = _rows(finding, items), _rows(finding, baseline)
    _same_prompts(finding, mine, other)
    study = load_study(finding.study)
    first, second = (_units(finding, study, rows) for rows in (mine, other))
    both = first.rows.merge(second.rows[[*_key(finding), "value"]], on=_key(finding), suffixes=("", "_before"))
    if not len(both):
        raise UsageError(f"{_named(finding)}: the baseline scored none of the same prompts. Audit both alike.")
    now, before = both["value"], both["value_before"]
    flat = _ROUNDING * max(float(now.abs().max()), float(before.abs().max()))
    difference = (now - before).mask((now - before).abs() <= flat, 0.0)
    change, total, was = (
        replace(first, rows=both.assign(value=values)).held(finding.level / 2)  # the side is chosen by the baseline
        for values in (difference, now + before, before)
    )
    made = Check(finding=finding, margin=margin, outcome=OPEN, baseline=was, change=change)
    if finding.verdict == UNMEASURED:
        return replace(made, why=_CONSTANT)
    if not difference.any():
        return replace(made, outcome=PASSES, why=_SAME)
    if 0 < change.fewest < FEWEST:
        return replace(made, why=_FEW)
    why = ""
    if math.isnan(change.ci_low):
        p_value = sign_test_p(difference.to_numpy(), first.context.random(both)[0])
        if both["sample"].any() or not p_value < finding.level:
            return replace(made, why=_FLAT)
        why = _SIGNS_OF_CHANGE
        change, total = (replace(one, ci_low=one.value, ci_high=one.value) for one in (change, total))
    side = -1.0 if was.value < 0 else 1.0
    outer, inner = (sorted((side * one.ci_low, side * one.ci_high)) for one in (change, total))
    if outer[1] < margin and inner[0] > -margin:
        outcome = PASSES
    else:
        outcome = FAILS if outer[0] > margin or inner[1] < -margin else OPEN
    most = margin + abs(was.value)
    ends = [end for end in (finding.worst_low, finding.worst_high) if not math.isnan(end)]
    if outcome != OPEN and any((abs(end) <= most) != (outcome == PASSES) for end in ends):
        return replace(made, why=_MISSING)
    return replace(made, outcome=outcome, why=why)


def _rows(finding: Finding, items: Items) -> pd.DataFrame:
    """The scored rows of an experiment: of the model, or of the only one where none of that name is there.

    Raises:
        UsageError: there are none, or those of several models.
    """
    rows = items.get(finding.study, pd.DataFrame({"experiment": [], "model_id": []}))
    rows = rows[rows["experiment"] == finding.experiment]
    models = list(dict.fromkeys(rows["model_id"]))
    if len(models) != 1 and finding.model_id in models:
        models = [finding.model_id]
    if len(models) != 1:
        has = f"the models {', '.join(models)}, expected one" if models else "no scored prompts of it"
        raise UsageError(f"{_named(finding)}: a run holds {has}. Audit both models with the same --study.")
    return rows[rows["model_id"] == models[0]]


def _same_prompts(finding: Finding, mine: pd.DataFrame, other: pd.DataFrame) -> None:
    """Refuse texts that differ under one name: another version of the prompts. Those of notes may be left out.

    Rows of the Hub come without: whoever reads them goes by the fingerprints of the prompts.
    """
    if "text" not in mine or "text" not in other:
        return
    texts = mine[["prompt_id", "text"]].merge(other[["prompt_id", "text"]], on="prompt_id", suffixes=("", "_before"))
    known = texts[(texts["text"] != "") & (texts["text_before"] != "")]
    if not (known["text"] == known["text_before"]).all():
        raise UsageError(f"{_named(finding)}: the runs read different prompts. Audit both with the same swapbias.")


def _units(finding: Finding, study: Study, rows: pd.DataFrame) -> Units:
    """What the headline is the mean of, with blanks where a prompt of it was not scored."""
    context, part = headline_rows(finding, study, rows, finding.model_id)
    units = headline_units(context, part[part["group"] != PLACEBO])
    if units is None:
        raise UsageError(f"{_named(finding)}: a run has no two groups to compare. Audit both models alike.")
    return units


def _key(finding: Finding) -> list[str]:
    """What tells the units of a headline apart: a sentence, a pair or a prompt."""
    experiment = experiment_of(finding)
    if experiment is not None and ANSWERS in experiment.rates:
        return ["template"]
    return ["prompt_id"] if experiment is not None and experiment.measure == "group_gap" else ["pair_id"]


def _named(finding: Finding) -> str:
    return f"{finding.study} {finding.experiment}"
