"""How numbers and findings are written for people."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swapbias.findings import (
    FAILS,
    FEWEST,
    JUDGED,
    LEVEL,
    OPEN,
    PASSES,
    Check,
    Finding,
    Gate,
    equal_needed,
    independent_pairs,
)
from swapbias.measures import MEASURES, SPANS, Estimate
from swapbias.studies import Experiment

SHOWN = 60  # characters of a stranger's name


def value_of(finding: Finding) -> str:
    """A finding's value: a count without decimals, a signed gap, a plain mean."""
    if MEASURES[finding.measure].whole:
        return f"{finding.estimate.value:.0f}"
    return number(finding.estimate.value, signed=is_signed(finding))


def number(value: float, *, signed: bool = False) -> str:
    """Three decimals; a dash for NaN; zero has no sign.

    >>> number(0.12345), number(-0.5, signed=True), number(-0.0001), number(float("nan"))
    ('0.123', '−0.500', '0.000', '–')
    """
    if math.isnan(value):
        return "–"
    rounded = round(value, 3) + 0.0
    return (f"{rounded:+.3f}" if signed and rounded else f"{rounded:.3f}").replace("-", "−")


def p_value(value: float) -> str:
    """A p-value, never printed as zero.

    >>> p_value(0.0312), p_value(1e-9), p_value(float("nan"))
    ('0.031', '<0.001', '–')
    """
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def tested(estimate: Estimate) -> str:
    """The p-value, corrected where its family has been."""
    return p_value(estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted)


def interval(estimate: Estimate, *, signed: bool = False) -> str:
    """The interval in brackets; a dash where there is none."""
    if math.isnan(estimate.ci_low):
        return "–"
    return f"[{number(estimate.ci_low, signed=signed)}, {number(estimate.ci_high, signed=signed)}]"


def of_level(finding: Finding) -> str:
    """A gap as a share of the reference group's mean; a dash where there is none to be a share of."""
    share = finding.estimate.value / finding.baseline if finding.baseline > 0 else math.nan
    return "–" if math.isnan(share) else f"{100 * share:+.0f} %".replace("-", "−")


def verdict(finding: Finding) -> str:
    """The verdict with the margin that it goes by; blank for what is no gap."""
    if not finding.verdict or math.isnan(finding.margin):
        return finding.verdict
    return finding.verdict.replace("the margin", f"the margin of {finding.margin:g}")


def robustness(finding: Finding) -> str:
    """How a headline holds up, in one sentence; blank for any other finding."""
    signed, parts = is_signed(finding), []
    if not math.isnan(finding.lowest):
        ends = f"{number(finding.lowest, signed=signed)} to {number(finding.highest, signed=signed)}"
        parts.append(f"{ends} with one item left out")
    parts += filter(None, [influence(finding)])
    if not math.isnan(finding.signs_kept):
        parts.append(f"the sign holds in {100 * finding.signs_kept:.0f} % of other wordings")
    if not math.isnan(finding.worst_low):
        ends = f"{number(finding.worst_low, signed=signed)} to {number(finding.worst_high, signed=signed)}"
        parts.append(f"{ends} whatever was not answered")
    return "; ".join(parts)


def equal_said(finding: Finding, margin: float) -> str:
    """Why units that all have the same value decide nothing."""
    one, units = finding.estimate, independent_pairs(finding)
    alike = "differ by the same" if one.value else "score the same"
    if units >= (needed := equal_needed(finding, margin)):
        return f"all {one.n} scored pairs {alike}, but {one.n_unscored} could not be scored"
    few = f" in {units} independent units" if units < one.n else ""
    span = SPANS.get(finding.unit, math.inf)
    share = f"{100 * margin / span:g} points" if math.isfinite(span) else f"{margin:g}"
    ruled = "a gap" if math.isnan(margin) else f"a gap of {share}"
    return f"all {one.n} pairs {alike}{few}, but {needed:,.0f} are needed to rule out {ruled}"


def few_said(estimate: Estimate) -> str:
    """Why a finding has no verdict: of which random factor it has too few levels."""
    few = f"too few {estimate.fewest_of} ({estimate.fewest})"
    return f"{few} to say how others would score: at least {FEWEST} are needed"


def reason(check: Check) -> str:
    """What the outcome of a check rests on where that is not the printed interval; blank for that."""
    one = check.finding.estimate
    tested = "" if one.p_adjusted < LEVEL else f" (p {one.p_adjusted:.2g})"
    changed = check.change or one
    told = {
        "": "",
        "constant_scores": "not measured, because every prompt has the same score",
        "mostly_unscored": "more than half of it could not be scored",
        "few_levels": few_said(changed),
        "other_sign_in_wordings": "the gap does not keep its sign in other wordings",
        "missing_scores": "scores that are missing could change it",
        "no_spread": "nothing varies that an interval could be made of",
        "equal_scores": f"all {one.n} of both groups score the same",
        "equal_differences": f"all {one.n} differ by the same",
        "sign_test": f"all {one.n} differ by the same: {one.test}{tested}",
        "same_model_scores": "both models score these prompts the same",
        "sign_test_of_change": f"all {changed.n} change by the same: sign test",
    }
    return equal_said(check.finding, check.margin) if check.why == "few_equal" else told[check.why]


def influence(finding: Finding) -> str:
    """What could turn a headline; blank for nothing."""
    changes = {"sign": "other sign", "lost": "not significant", "gained": "significant"}
    told = []
    for change, factor, item in finding.influences:
        if change in changes:
            told.append(f"{changes[change]} without {item} ({factor})")
        elif change == "score":
            told.append(f"{factor.replace('_', ' ')} has the other sign ({item})")
        else:
            told.append(f"and {item} more")
    return "; ".join(told)


def checked(check: Check) -> str:
    """A check of a gate in one sentence: which gap, what came out, and by which numbers."""
    one, signed, margin = check.finding, is_signed(check.finding), f"{check.margin:g}"
    gap = f"{value_of(one)} {interval(one.estimate, signed=signed)}"
    within, beyond = f"lies within the margin of {margin}", f"lies beyond the margin of {margin}"
    if check.change is not None and check.baseline is not None:
        before = number(check.baseline.value, signed=signed)
        moved = f"{number(check.change.value, signed=signed)} {interval(check.change, signed=signed)}"
        gap = f"{value_of(one)} after {before} of the baseline, a change of {moved} over {check.change.n},"
        within, beyond = (f"is not larger by {margin} or more", f"is larger by more than {margin}")
    told = {PASSES: within, FAILS: beyond, OPEN: f"is not shown to be either side of the margin of {margin}"}[
        check.outcome
    ]
    why = f": {reason(check)}" if check.why else ""
    what = f"{one.study} {one.experiment}, {where(one)}, {quantity(one)}"
    levels = ", ".join(f"{_in_points(level)} ({where(level)})" for level in check.levels)
    beside = f" (levels not gated: {levels})" if levels else ""
    measured = "" if math.isnan(one.estimate.value) else f": {gap} {told}"
    return shown(f"{what}: {check.outcome}{measured}{why}{beside}.", 500)


def _in_points(finding: Finding) -> str:
    """A gap in points, or in its own unit where that has no range."""
    span = SPANS.get(finding.unit, math.inf)
    value = finding.estimate.value
    return f"{100 * value / span:+.1f}".replace("-", "−") if math.isfinite(span) else number(value, signed=True)


def gated(gate: Gate) -> str:
    """What a gate comes to in one sentence."""
    counts = ((outcome, sum(one.outcome == outcome for one in gate.checks)) for outcome in (PASSES, FAILS, OPEN))
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    family = "all gaps must pass, each by its whole interval"
    left = ", ".join(dict.fromkeys(f"{one.study} {one.experiment}" for one in gate.unchecked))
    return f"The gate {gate.outcome if gate.outcome != OPEN else 'is undecided'}: {told}; {family}." + (
        f" Not checked, for it is no gap: {left}." if left else ""
    )


def counted(estimate: Estimate) -> str:
    """How many units an estimate rests on, and in brackets those that were not scored."""
    return f"{estimate.n} (+{estimate.n_unscored})" if estimate.n_unscored else str(estimate.n)


def plain(name: str) -> str:
    """A column value as words: ``mental_health`` -> ``mental health``."""
    return name.replace("_", " ").replace(" - ", " − ")


def value_name(value: str) -> str:
    """A value of a slice as words; what names nothing, or all that has no name, is said as that.

    >>> value_name("mental_health"), value_name("none"), value_name("other")
    ('mental health', 'none (nothing is named)', 'other (in no named category)')
    """
    known = {"none": "none (nothing is named)", "other": "other (in no named category)", "": "(blank)"}
    return known.get(value, plain(value))


OWN_NOTES = "own"  # the phenotype of a user's notes whose label has no name


def phenotype_name(value: str) -> str:
    """A phenotype as words.

    >>> phenotype_name("alcohol_abuse"), phenotype_name("own")
    ('alcohol abuse', 'own notes')
    """
    return "own notes" if value == OWN_NOTES else value_name(value)


def group_place(experiment: Experiment, group: str) -> int:
    """Which colour and shape a group has, wherever it is drawn: the compared one 0, its reference 1."""
    others = [name for name in experiment.levels if name not in (experiment.group, experiment.reference_group)]
    order = [experiment.group, experiment.reference_group, *others]
    return order.index(group) if group in order else len(order)


def group_name(experiment: Experiment, group: str) -> str:
    """A group in words; what is pooled, or about nobody, is said as that."""
    known = {"all": "all groups pooled", "baseline": "nobody named (baseline)", "unspecified": "no gender said"}
    return experiment.named.get(group) or known.get(group, plain(group))


def shown(text: str, limit: int = SHOWN) -> str:
    """A stranger's text for the terminal: one line, a mark for what cannot be seen, an ellipsis where it is long.

    >>> shown("gpt\\u200b2"), shown("a" * 9, limit=4)
    ('gpt�2', 'aaa…')
    """
    seen = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def quantity(finding: Finding) -> str:
    """What a finding's value is, in words."""
    contrast = plain(finding.contrast)
    # A mean of anything but a group is named in full: "answers unsure".
    named = finding.measure == "mean" and " " in contrast
    what = contrast if named else MEASURES[finding.measure].title.format(contrast=contrast)
    if finding.score == JUDGED:
        return f"by the judge: {what}"
    return what if finding.score == "score" else f"{what} ({plain(finding.score)})"


def is_signed(finding: Finding) -> bool:
    """Whether zero is a meaningful middle of the value."""
    return MEASURES[finding.measure].signed


def where(finding: Finding) -> str:
    """Which rows a finding is about; the one regime of a model that was trained elsewhere is not told."""
    parts = [plain(finding.subset)] if finding.subset not in ("", "as trained") else []
    if (finding.slice_by, finding.slice_value) == ("phenotype", OWN_NOTES):
        parts.append(phenotype_name(finding.slice_value))
    elif finding.slice_by != "all":
        parts.append(f"{finding.slice_by}: {plain(finding.slice_value)}" if finding.slice_value else finding.slice_by)
    return ", ".join(parts) or "all"


@dataclass(frozen=True, slots=True)
class Grid:
    """One model's rates: a row for each phenotype and regime, a cell for each rate."""

    model_id: str
    names: list[str]
    rows: list[tuple[str, str, list[Finding | None]]]


# What a terminal has room for.
_PERFORMED = {
    "equal_opportunity_difference": "TPR", "predictive_equality_difference": "FPR",
    "equalised_odds_difference": "eq. odds", "demographic_parity_difference": "positives",
}  # fmt: skip


def rate_grids(found: Sequence[Finding]) -> list[Grid]:
    """As the paper's Table V, one for each model; empty where no rates were found."""
    return _grids(found, {name: one.title for name, one in MEASURES.items() if one.tabled})


def performance_grids(found: Sequence[Finding]) -> list[Grid]:
    """The differences between groups in their notes as written, one for each model; empty where there are none."""
    return _grids(found, _PERFORMED)


def _grids(found: Sequence[Finding], titles: Mapping[str, str]) -> list[Grid]:
    cells = {
        (one.model_id, one.slice_value, one.subset, one.measure): one
        for one in found
        if one.slice_by != "all" and one.measure in titles
    }
    if not cells:
        return []
    models, phenotypes, regimes = (list(dict.fromkeys(key[part] for key in cells)) for part in range(3))
    names = [name for name in titles if any(key[3] == name for key in cells)]
    return [
        Grid(
            model,
            [titles[name] for name in names],
            [
                (phenotype, regime, [cells.get((model, phenotype, regime, name)) for name in names])
                for phenotype in phenotypes
                for regime in regimes
            ],
        )
        for model in models
    ]
