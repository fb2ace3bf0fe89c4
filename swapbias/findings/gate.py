"""Whether a model passes: its headline gaps within a margin, or no larger than a baseline's by more than it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from swapbias.errors import UsageError
from swapbias.findings.disaggregation import MARGIN, headline_rows
from swapbias.findings.finding import Finding, experiment_of, headlines
from swapbias.findings.predictions import ANSWERS
from swapbias.findings.robustness import HOLDS, Units, headline_units
from swapbias.measures import MEASURES, Estimate, above_p, adjust, equivalence_p, margin_in
from swapbias.studies import PLACEBO, Study, load_study, meant

PASSES, FAILS, OPEN = OUTCOMES = ("passes", "fails", "undecided")
GATE_LEVEL = 0.025  # of every one-sided test: an interval of 95 % has as much beyond each of its ends
_SKEWED_LEVEL = 0.005  # where the clusters are few and visibly skewed, whose tests err several times as often
_ROUNDING = 1e-9  # scores of two runs closer than this are the same: batches of other sizes add up so
_FLAT = "nothing varies that an interval could be made of"
Items = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One headline gap against a margin.

    Attributes:
        finding: the gap, by the inference of its design.
        margin: what it must stay within, in its unit; of a comparison what it may be larger by than the baseline's.
        p_within: one-sided, for "the gap is as large as the margin or larger"; NaN where nothing varies.
        p_beyond: for "the gap is the margin or smaller", corrected by Holm over the checks of the gate.
        outcome: of ``OUTCOMES``.
        why: what the outcome rests on where that is no test; blank for a test.
        baseline: of a comparison the gap of the baseline over the prompts that both runs scored; else None.
        change: of a comparison the gap less the baseline's, paired by prompt; else None.
    """

    finding: Finding
    margin: float
    p_within: float
    p_beyond: float
    outcome: str
    why: str = ""
    baseline: Estimate | None = None
    change: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run comes to: its checks, and the headlines that are no gaps and were not checked."""

    checks: tuple[Check, ...]
    unchecked: tuple[Finding, ...] = ()

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
) -> Gate:
    """Whether the headline gaps of a run lie within a margin, or are no larger than a baseline's by more than it.

    A gap passes where its 95 % interval lies within the margin (two one-sided tests at .025), and fails where it is
    larger at .025, corrected by Holm over the gaps of the gate; else it is undecided. All must pass for the gate to
    pass, so that passing needs no correction. Where few clusters are visibly skewed, passing is tested at .005.
    Each kind of error is meant to happen in at most 5 % of audits; ``make bench BENCH=truth-gate`` simulates both.
    A gap that keeps its sign in too few wordings does not fail.

    Args:
        found: the findings of a run.
        max_gap: the margin, a share of the range of each gap's unit (``measures.margin_in``), above 0.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all that the run holds.
        items: the run's scored rows by study, and ``baseline`` those of another run: each gap may then be as large as
            there, and larger by the margin. Differences and sums of the two models' gaps are taken prompt by prompt,
            over the random factors of the design; a gap is no larger where either is small enough (Bonferroni).

    Raises:
        UsageError: nothing to check, a study that the run does not hold, a margin that is none, or a baseline without
            the prompts of this run.
    """
    if not 0 < max_gap <= 1:
        raise UsageError(
            f"max_gap is {max_gap}, expected above 0 and at most 1: a share of a unit's range. Change it."
        )
    chosen = _chosen(headlines(found), studies)
    gaps = [one for one in chosen if MEASURES[one.measure].reach and not math.isnan(margin_in(one.unit, max_gap))]
    if not gaps:
        told = ", ".join(dict.fromkeys(f"{one.study} {one.experiment}" for one in chosen)) or "no headline"
        raise UsageError(f"Nothing to check: {told} has no gap in a unit with a range. Check another study.")
    if baseline is None:
        checks = [_checked(one, margin_in(one.unit, max_gap), max_gap) for one in gaps]
    else:
        checks = [_compared(one, margin_in(one.unit, max_gap), items or {}, baseline) for one in gaps]
    return Gate(_decided(checks), tuple(one for one in chosen if one not in gaps))


def _chosen(found: Sequence[Finding], studies: Sequence[str]) -> list[Finding]:
    known = {name for one in found for name in (one.study, f"{one.study}:{one.experiment}")}
    for name in studies:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            near = meant(name, sorted(known)) or " Name one of these."
            raise UsageError(f"The run holds no headline of {name}: it has {has}.{near}")
    return [one for one in found if not studies or {one.study, f"{one.study}:{one.experiment}"} & set(studies)]


def _checked(finding: Finding, margin: float, share: float) -> Check:
    """A gap against the margin, before the correction."""
    estimate = finding.estimate
    within = equivalence_p(estimate.value, estimate.error, estimate.freedom, margin)
    beyond = min(1.0, sum(_above(abs(estimate.value), estimate, end) for end in (margin, -margin)))
    made = Check(finding=finding, margin=margin, p_within=within, p_beyond=beyond, outcome="")
    if estimate.n_unscored > estimate.n:
        return replace(made, outcome=OPEN, why="more than half of it could not be scored")
    if not math.isnan(within):
        return made
    if estimate.value == 0 and (1 - share) ** estimate.n < GATE_LEVEL:  # were so many unequal, some would be here
        return replace(made, outcome=PASSES, why=f"all {estimate.n} of both groups score the same")
    return replace(made, outcome=OPEN, why=_FLAT)


def _decided(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Checks with outcomes; failing is corrected over those that are tested."""
    tested = [place for place, one in enumerate(checks) if not one.outcome]
    made = list(checks)
    adjusted = adjust([checks[place].p_beyond for place in tested], "holm") if tested else ()
    for place, p_beyond in zip(tested, adjusted, strict=True):
        one = replace(checks[place], p_beyond=float(p_beyond))
        skewed = "skewed" in one.finding.inference
        outcome, why = OPEN, ""
        if one.p_within < (_SKEWED_LEVEL if skewed else GATE_LEVEL):
            outcome = PASSES
        elif one.p_beyond < GATE_LEVEL:
            steady = one.change is not None or not one.finding.signs_kept < HOLDS
            outcome, why = (FAILS, "") if steady else (OPEN, "the gap does not keep its sign in other wordings")
        made[place] = replace(one, outcome=outcome, why=why)
    return tuple(made)


# --- against a baseline -------------------------------------------------------------------------------


def _compared(finding: Finding, margin: float, items: Items, baseline: Items) -> Check:
    """A gap against a baseline's, before the correction."""
    mine, other = _rows(finding, items), _rows(finding, baseline)
    _same_prompts(finding, mine, other)
    study = load_study(finding.study)
    first, second = (_units(finding, study, rows) for rows in (mine, other))
    both = first.rows.merge(second.rows[[*_key(finding), "value"]], on=_key(finding), suffixes=("", "_before"))
    if not len(both):
        raise UsageError(f"{_named(finding)}: the baseline scored none of the same prompts. Audit both alike.")
    now, before = both["value"], both["value_before"]
    flat = _ROUNDING * max(float(now.abs().max()), float(before.abs().max()))
    apart = (now - before).mask((now - before).abs() <= flat, 0.0)
    change, total, was = (
        replace(first, rows=both.assign(value=values)).estimate() for values in (apart, now + before, before)
    )
    made = Check(
        finding=finding, margin=margin, p_within=_no_larger(change, total, margin),
        p_beyond=_larger(change, total, margin), outcome="", baseline=was, change=change,
    )  # fmt: skip
    if not apart.any():
        return replace(made, outcome=PASSES, why="both models score these prompts the same")
    if math.isnan(made.p_within):
        return replace(made, outcome=OPEN, why=_FLAT)
    return made


def _no_larger(change: Estimate, total: Estimate, margin: float) -> float:
    """p for "the gap is larger than the baseline's by the margin or more", to either side.

    |a| >= |b| + m means that a - b and a + b are both m or more, or both -m or less: each side is refuted by the
    clearer of the two.
    """
    sides = [
        min(1.0, 2 * min(_above(-sign * one.value, one, -margin) for one in (change, total))) for sign in (1, -1)
    ]
    return max(sides) if change.error > 0 else math.nan


def _larger(change: Estimate, total: Estimate, margin: float) -> float:
    """p for "the gap is larger than the baseline's by no more than the margin"."""
    sides = [max(_above(sign * one.value, one, margin) for one in (change, total)) for sign in (1, -1)]
    return min(1.0, 2 * min(sides)) if change.error > 0 else math.nan


def _above(value: float, estimate: Estimate, bound: float) -> float:
    """p for "it is the bound or less", of a value with the error of an estimate; 1 where there is no error."""
    p = above_p(value, estimate.error, estimate.freedom, bound)
    return 1.0 if math.isnan(p) else p


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
    """Refuse texts that differ under one name: another version of the prompts. Those of notes may be left out."""
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
    """What tells the units of a headline apart: a sentence, a pair, a condition of a group, or a prompt."""
    experiment = experiment_of(finding)
    if experiment is not None and ANSWERS in experiment.rates:
        return ["template"]
    if experiment is not None and experiment.measure == "group_gap":
        return ["group", experiment.aggregate[-1]] if experiment.aggregate else ["prompt_id"]
    return ["pair_id"]


def _named(finding: Finding) -> str:
    return f"{finding.study} {finding.experiment}"
