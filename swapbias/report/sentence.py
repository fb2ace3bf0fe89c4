"""A headline in a plain sentence, made from the parts of its finding; pages and terminals say the same."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from swapbias.findings import (
    ALL,
    ALL_GAPS,
    AS_PUBLISHED,
    EFFECTS,
    LEVEL,
    SPREAD,
    VERDICTS,
    Finding,
    all_alike,
    experiment_of,
)
from swapbias.measures import MEASURES, SPANS
from swapbias.report import words
from swapbias.studies import Experiment, load_study

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = VERDICTS
_SURE = (FOUND, SMALL, UNSTABLE)
_GAPS = ("nonanswer_gap", "truncation_gap", "intersection")  # told with a sign, as gaps are
_CLAIM = "scores {more} above {less}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an experiment found about one model.

    Attributes:
        sentence: the verdict.
        certainty: the value with its interval, what it holds over, and the smallest gap that could have been found.
        meaning: what the number and its sign mean.
        cautions: how far it holds, and what could turn it, a sentence each.
        published: the paper's own statistic of these rows and the number that it prints; blank where there is none.
    """

    sentence: str
    certainty: str
    meaning: str
    cautions: tuple[str, ...]
    published: str


def answer(finding: Finding, found: Sequence[Finding] = ()) -> Answer:
    """A headline in words.

    Args:
        finding: the headline.
        found: findings of the same run: of a difference of gaps both gaps are told, and the paper's statistic.
    """
    return Answer(
        _sentence(finding, found),
        _certainty(finding),
        meaning(replace(finding, direction=_moved(finding))),
        tuple(_cautions(finding)),
        _published(finding, found),
    )


def summary(headlines: Sequence[Finding], found: Sequence[Finding] = ()) -> str:
    """One sentence for all the headlines of an experiment and model: their ends where there are several."""
    if len(headlines) == 1:
        return _sentence(headlines[0], found)
    if any(one.contrast in (ALL, ALL_GAPS) for one in headlines):
        return _of_groups(headlines)
    if all(one.verdict for one in headlines):
        return _several(headlines)
    return _ends(headlines)


def _ends(headlines: Sequence[Finding]) -> str:
    """The lowest and the highest of rates."""
    constant = [one for one in headlines if one.verdict == UNMEASURED]
    known = [one for one in headlines if not math.isnan(one.estimate.value) and one not in constant]
    first = headlines[0]
    beside = f" {_constant(first)[:-1]} for {listed([sliced(one) for one in constant])}." if constant else ""
    if not known:
        lost = f"{words.shown(first.model_id)}: {words.quantity(first)} could not be told for any {first.slice_by}."
        return lost + beside
    least, most = min(known, key=lambda one: one.estimate.value), max(known, key=lambda one: one.estimate.value)
    low, high = (value(one) for one in (least, most))
    if low == high:
        return f"{_subject(first)} {low} for each of {len(known)} values of {first.slice_by}.{beside}"
    ends = f"from {low} ({words.plain(least.slice_value)}) to {high} ({words.plain(most.slice_value)})"
    return f"{_subject(first)} {ends}, by {first.slice_by}.{beside}"


def _several(headlines: Sequence[Finding]) -> str:
    """What is said of each gap, those of one verdict and direction together, with the largest of them."""
    alike: dict[str, list[Finding]] = {}
    for one in headlines:
        known = not math.isnan(one.estimate.value)
        gone = known and one.verdict in _SURE
        said = _claim(one, experiment_of(one)) + _but(one) if gone else one.verdict if known else "not scored"
        alike.setdefault(said, []).append(one)
    told = []
    for said, part in alike.items():
        names = listed([sliced(one) for one in part])
        most = max(part, key=lambda one: abs(one.estimate.value))
        size = amount(most.estimate.value, most.unit)
        up_to = "up to " if len(part) > 1 else ""
        first, second = sides(most)
        margin = margin_said(most)
        told.append(
            {
                NONE: f"shows no gap between {first} and {second} as large as {margin} for {names}",
                UNDECIDED: f"leaves undecided whether {first} and {second} are treated differently for {names}",
                TOO_FEW: f"has {words.few_said(most.estimate)} for {names}",
                UNMEASURED: f"is not measured for {names}, where every prompt has the same score",
                "not scored": f"could not be scored for {names}",
            }.get(said, f"{said}, by {up_to}{size} for {names}")
        )
    return f"{words.shown(headlines[0].model_id)} {'; it '.join(told)}."


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# --- numbers ------------------------------------------------------------------------------------------


def factor(unit: str) -> float:
    """What a value is multiplied by to be told in points: of 100 for the range of its unit; 1 where it has none.

    >>> factor("P(negative)"), factor("percentage points"), factor("score of a rule")
    (100.0, 1.0, 1.0)
    """
    span = SPANS.get(unit, math.inf)
    return 100 / span if math.isfinite(span) else 1.0


def in_points(unit: str) -> bool:
    """Whether values of a unit are told in points."""
    return math.isfinite(SPANS.get(unit, math.inf))


def amount(value: float, unit: str, *, signed: bool = False, named: bool = True, digits: int = 1) -> str:
    """A gap in points, or in its own unit where that has no range.

    >>> amount(0.1234, "P(negative)"), amount(-0.0002, "P(negative)"), amount(-0.5, "P(negative)", signed=True)
    ('12.3 points', 'less than 0.1 points', '−50.0 points')
    """
    if math.isnan(value):
        return "–"
    number = value * factor(unit)
    digits, what = (digits, "points") if in_points(unit) else (digits + 2, _short(unit))
    shown = number if signed else abs(number)
    rounded = round(shown, digits) + 0.0
    told = (f"{rounded:+.{digits}f}" if signed and rounded else f"{rounded:.{digits}f}").replace("-", "−")
    if not signed and number and not rounded:
        told = f"less than {10**-digits:.{digits}f}"
    return f"{told} {what}" if named else told


def shown_factor(finding: Finding) -> float:
    """What a finding's value is multiplied by where it is drawn, as it is told."""
    if finding.measure in ("flip_rate", "sign_kept", "leakage_uar"):
        return 100.0
    return factor(finding.unit) if MEASURES[finding.measure].reach or in_points(finding.unit) else 1.0


def _short(unit: str) -> str:
    return "log-odds" if "log-odds" in unit else unit


def level(value: float, finding: Finding) -> str:
    """A rate, share or mean: in percent where it is a share, with three decimals else."""
    if math.isnan(value):
        return "–"
    unit = finding.unit
    if finding.measure in ("flip_rate", "sign_kept", "leakage_uar"):
        return f"{100 * value:.1f} %".replace("-", "−")
    return words.number(value) if not in_points(unit) else amount(value, unit, named=False).removeprefix("less than ")


def interval(finding: Finding, *, named: bool = False) -> str:
    """The 95 % interval as it is told: ``−1.6 to +3.1``; blank where there is none."""
    ends = within(finding)
    if math.isnan(ends[0]):
        return ""
    if MEASURES[finding.measure].reach or finding.measure in _GAPS:
        told = [amount(end, finding.unit, signed=True, named=False) for end in ends]
        return " to ".join(told) + (" points" if named and in_points(finding.unit) else "")
    return " to ".join(level(end, finding) for end in ends)


def within(finding: Finding) -> tuple[float, float]:
    """The ends of an interval, neither beyond what the quantity can be; NaN where there is none."""
    estimate, record = finding.estimate, MEASURES[finding.measure]
    least, most = -math.inf, math.inf
    if record.scale is not None:
        least, most = record.scale.least, record.scale.most
    elif record.reach or finding.measure == "mean":
        most = SPANS.get(finding.unit, math.inf) * (record.reach or 1)
        least = 0.0 if finding.measure == "mean" and math.isfinite(most) else -most
    # not min and max alone: NaN has to stay
    low = least if estimate.ci_low < least else estimate.ci_low
    return low, most if estimate.ci_high > most else estimate.ci_high


def value(finding: Finding) -> str:
    """The value as it is told, in points or in percent, with its sign where that means something."""
    if MEASURES[finding.measure].reach or finding.measure in _GAPS:
        return amount(finding.estimate.value, finding.unit, signed=True)
    return level(finding.estimate.value, finding)


# --- the sentence -------------------------------------------------------------------------------------


def _sentence(finding: Finding, found: Sequence[Finding]) -> str:
    model = words.shown(finding.model_id)
    if finding.verdict == UNMEASURED:
        return _constant(finding)
    if math.isnan(finding.estimate.value):
        return f"{model}: no answer, because nothing that the question needs could be scored."
    if finding.measure == SPREAD:
        whole = finding.contrast in (ALL, ALL_GAPS)
        return _of_groups(_beside(finding, found) or [finding]) if whole else _of_term(finding)
    if not MEASURES[finding.measure].reach or not finding.verdict:
        where = "" if finding.slice_by == "all" else f" ({words.plain(finding.slice_value)})"
        return f"{_subject(finding)} {value(finding)}{where}."
    if finding.measure == "gap_difference":
        told = _difference(finding, found)
    elif finding.measure in EFFECTS:
        clause = _effect(finding)
        told = f"{model}: {clause}" if finding.within or finding.measure == EFFECTS[2] else f"{model} {clause}"
    else:
        told = f"{model} {gap_said(finding)}"
    if finding.subset and not finding.headline and finding.measure != "gap_difference":
        told += f" ({words.plain(finding.subset)})"
    return f"{told}{'' if finding.slice_by == 'all' else f' for {sliced(finding)}'}."


def _constant(finding: Finding) -> str:
    return f"Not measured: {words.shown(finding.model_id)} gives every prompt the same score."


def sliced(finding: Finding) -> str:
    """The value of a slice in words; notes of a user's own have one label, which has no name."""
    own = (finding.slice_by, finding.slice_value) == ("phenotype", words.OWN_NOTES)
    if not own:
        return words.plain(finding.slice_value)
    experiment = experiment_of(finding)
    return "the label of these notes" if experiment and experiment.rates else "these notes"


def _subject(finding: Finding) -> str:
    model = words.shown(finding.model_id)
    told = {
        "flip_rate": f"{model}: the share of notes whose prediction changes with the patient's gender is",
        "leakage_uar": f"{model}: the patient's gender is told from notes with an average recall (50 %: chance) of",
        "direct_bias": f"{model}: the words lie along the gender direction with a mean absolute cosine (0: not) of",
    }
    return told.get(finding.measure, f"{model}: {words.quantity(finding)} is")


def sides(finding: Finding) -> tuple[str, str]:
    """The two groups of a gap in words, that of a positive gap first."""
    experiment = experiment_of(finding)
    names = finding.group, finding.reference_group
    if not finding.reference_group:
        names = (
            (experiment.group, experiment.reference_group) if experiment else (finding.contrast, "the other group")
        )
    named = experiment.named if experiment else {}
    first, second = (named.get(name, words.plain(name)) for name in names)
    return first, second


def compared(finding: Finding) -> str:
    """What a gap subtracts from what, groups by the names that sentences give them; any other quantity in words."""
    experiment, sides = experiment_of(finding), (finding.group, finding.reference_group)
    whole = finding.score == "score" and finding.measure in ("paired_gap", "group_gap", "answer_bias")
    if experiment and whole and {*sides} <= {*experiment.compared}:
        return " minus ".join(words.group_name(experiment, one) for one in sides)
    return words.quantity(finding)


def _claim(finding: Finding, experiment: Experiment | None) -> str:
    more, less = sides(finding)
    if finding.estimate.value < 0:
        more, less = less, more
    return ((experiment.says if experiment else "") or _CLAIM).format(more=more, less=less)


def gap_said(finding: Finding) -> str:
    """What follows the name of the model."""
    claim, size = _claim(finding, experiment_of(finding)), amount(finding.estimate.value, finding.unit)
    margin = margin_said(finding)
    first, second = sides(finding)
    if finding.verdict == UNMEASURED:
        return "gives every prompt the same score, so that no gap is measured"
    if finding.verdict == TOO_FEW:
        among = amount(finding.estimate.value, finding.unit, signed=True)
        return f"has {words.few_said(finding.estimate)} ({among} among these)"
    if finding.verdict == UNDECIDED:
        return _undecided(finding, f"{claim} by {size}", f"{first} and {second}")
    if finding.verdict == NONE:
        if _exact(finding):
            return f"gives {first} and {second} exactly the same scores"
        return f"shows no gap between {first} and {second} as large as {margin}"
    return f"{claim} by {size}{_but(finding)}"


def _effect(finding: Finding) -> str:
    """A main effect after the name of the model, an interaction as a clause of its own."""
    if finding.measure == EFFECTS[0]:
        return f"{gap_said(finding)}, averaged over the rest"
    if finding.within:
        first, second = (words.plain(name) for name in (finding.within, finding.against))
        both_sides = " and ".join(sides(finding))
        return f"{first}, compared with {second}, {change(finding, f'the gap between {both_sides}')}"
    size, margin = amount(finding.estimate.value, finding.unit, signed=True), margin_said(finding)
    what = f"the interaction {words.plain(finding.contrast)}"
    if finding.verdict == NONE:
        return f"{what} is not as large as {margin}"
    if finding.verdict == TOO_FEW:
        return f"{what} is not judged: {words.few_said(finding.estimate)}"
    if finding.verdict == UNDECIDED:
        return f"{what} is undecided: {size} may be chance"
    return f"{what} is {size}{_but(finding)}"


# --- several groups -----------------------------------------------------------------------------------


def _beside(finding: Finding, found: Sequence[Finding]) -> list[Finding]:
    """All headlines of the experiment, model and rows of a test of all groups."""
    wanted = (finding.study, finding.experiment, finding.model_id, finding.subset, finding.slice_value)
    return [
        one
        for one in found
        if one.headline and wanted == (one.study, one.experiment, one.model_id, one.subset, one.slice_value)
    ]


def _of_groups(headlines: Sequence[Finding]) -> str:
    """The test of all groups, the intersection that it names, then the gaps or effects, those alike together."""
    whole = next(one for one in headlines if one.contrast in (ALL, ALL_GAPS))
    if whole.verdict == UNMEASURED:
        return _constant(whole)
    judged = [one for one in headlines if MEASURES[one.measure].reach and one.verdict]
    told = [_of_all(whole), *_intersection(whole)]
    for names in (EFFECTS[:1], EFFECTS[1:]) if any(one.measure in EFFECTS for one in judged) else (None,):
        told += _gaps_of_groups([one for one in judged if names is None or one.measure in names])
    return f"{words.shown(whole.model_id)} {'; '.join(told)}."


def _of_all(finding: Finding) -> str:
    """What the test of all groups says, after the name of the model."""
    experiment = experiment_of(finding)
    groups = f"the {len(experiment.compared)} groups" if experiment else "the groups"
    p = finding.estimate.p_value if math.isnan(finding.estimate.p_adjusted) else finding.estimate.p_adjusted
    sure, tested = p < 0.05, f"(one test of all, p {words.p_value(p)})"
    if finding.contrast == ALL_GAPS and experiment and experiment.contrast:
        first, second = (words.plain(name) for name in experiment.contrast)
        gaps = f"gaps between {groups} with {first}"
        if math.isnan(p) and finding.estimate.value == 0:
            return f"gives {gaps} that are exactly those with {second}"
        if math.isnan(p):
            return f"gives {gaps} that cannot be tested against those with {second}"
        return f"{'gives' if sure else 'does not show'} other {gaps} than with {second} {tested}"
    if math.isnan(p) and finding.estimate.value == 0:
        return f"gives {groups} exactly the same scores"
    if math.isnan(p):
        size = amount(finding.estimate.value, finding.unit)
        return f"gives {groups} means with an SD of {size}, on too little to say how sure that is"
    return (
        f"treats {groups} differently {tested}"
        if sure
        else (f"does not show that {groups} are treated differently {tested}")
    )


def _of_term(finding: Finding) -> str:
    """A test of several contrasts that is not that of all groups."""
    sure = finding.estimate.p_adjusted < 0.05
    told = "different" if sure else "no difference shown"
    p = words.p_value(finding.estimate.p_adjusted)
    return f"{words.shown(finding.model_id)}: {words.plain(finding.contrast)}: {told} (one test of all, p {p})."


def _intersection(finding: Finding) -> Iterator[str]:
    """The intersection that is further from the mean than its parts, if one is."""
    if not finding.intersection:
        return
    side = "below" if finding.from_mean < 0 else "above"
    parts = amount(finding.parts, finding.unit, signed=True)
    yield (
        f"{words.plain(finding.group or finding.intersection)} lies {amount(finding.from_mean, finding.unit)} {side} "
        f"the mean of all, further than its parts, which add up to {parts}"
    )


def _gaps_of_groups(found: Sequence[Finding]) -> Iterator[str]:
    """The largest sure gap, the other sure ones by direction, those that are none, and those that are undecided."""
    sure = sorted((one for one in found if one.verdict in _SURE), key=lambda one: -abs(one.estimate.value))
    for one in sure[:1]:
        yield _clause(one) + (", the largest" if len(sure) > 1 else "")
    alike: dict[tuple[bool, str, str], list[Finding]] = {}
    for one in sure[1:]:
        alike.setdefault((one.estimate.value > 0, one.verdict, one.reference_group), []).append(one)
    for several in alike.values():
        yield _clause(several[0]) if len(several) == 1 else _together(several)
    exact = [one for one in found if one.verdict == NONE and math.isnan(one.estimate.error)]
    if exact:
        yield f"{_pairs(exact)}: exactly no difference"
    if small := [one for one in found if one.verdict == NONE and one not in exact]:
        yield f"{_pairs(small)}: none as large as {margin_said(small[0])}"
    if undecided := [one for one in found if one.verdict == UNDECIDED]:
        yield f"{_pairs(undecided)}: undecided"
    if few := [one for one in found if one.verdict == TOO_FEW]:
        yield f"{_pairs(few)}: {words.few_said(few[0].estimate)}"
    if constant := [one for one in found if one.verdict == UNMEASURED]:
        yield f"{_pairs(constant)}: not measured, for every prompt has the same score"


def _clause(finding: Finding) -> str:
    if finding.measure == "gap_difference":
        experiment = experiment_of(finding)
        first, second = map(words.plain, experiment.contrast or ("", "")) if experiment else ("", "")
        both_sides = " and ".join(sides(finding))
        return f"{first}, compared with {second}, {change(finding, f'the gap between {both_sides}')}"
    if finding.measure in EFFECTS:
        return _effect(finding) if finding.measure != EFFECTS[0] else f"it {_effect(finding)}"
    return f"it {gap_said(finding)}"


def _together(several: Sequence[Finding]) -> str:
    """Gaps of one direction, verdict and reference, the largest first."""
    sizes = [
        amount(one.estimate.value, one.unit, named=place == len(several)) for place, one in enumerate(several, 1)
    ]
    experiment, first = experiment_of(several[0]), several[0]
    if first.measure == "gap_difference" or first.within or first.measure == EFFECTS[2]:
        return f"{_pairs(several)} likewise, by {listed(sizes)}{_but(first)}"
    names, reference = listed([sides(one)[0] for one in several]), sides(first)[1]
    more, less = (names, reference) if first.estimate.value > 0 else (reference, names)
    claim = ((experiment.says if experiment else "") or _CLAIM).format(more=more, less=less)
    return f"it {claim} as well, by {listed(sizes)}{_but(first)}"


def _pairs(several: Sequence[Finding]) -> str:
    """What is compared, those with one reference together."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for one in several:
        alike.setdefault((one.reference_group or one.contrast, one.within and one.group, one.against), []).append(one)
    return " and ".join(_with_one_reference(part) for part in alike.values())


def _with_one_reference(several: Sequence[Finding]) -> str:
    first = several[0]
    if not first.reference_group:
        return words.plain(first.contrast)
    if first.within:
        levels = listed([words.plain(one.within) for one in several])
        return f"{' against '.join(sides(first))} for {levels} against {words.plain(first.against)}"
    return f"{listed([sides(one)[0] for one in several])} against {sides(first)[1]}"


def _exact(finding: Finding) -> bool:
    """Whether all its units are 0, so that it has no interval."""
    return finding.estimate.value == 0 and math.isnan(finding.estimate.error)


def margin_said(finding: Finding) -> str:
    return amount(finding.margin, finding.unit).replace(".0 ", " ")


def _but(finding: Finding) -> str:
    return {
        SMALL: f", which is less than the {margin_said(finding)} that count as a gap",
        UNSTABLE: " as asked here, but not in other wordings",
    }.get(finding.verdict, "")


def _undecided(finding: Finding, claim: str, sides: str) -> str:
    if _exact(finding):
        equal = words.equal_said(finding, finding.margin)
        return f"leaves undecided whether {sides} are treated differently: {equal}"
    if math.isnan(finding.estimate.error):
        return f"{claim}, on too little to say how sure that is"
    size = amount(finding.estimate.value, finding.unit)
    told = f"leaves undecided whether {sides} are treated differently: "
    if _undecided_by_bounds(finding):
        return f"{told}the gap is {size} among scored prompts, and counting the others either way {_bounds(finding)}"
    told += f"a gap of {size} may be chance"
    if math.isnan(finding.margin):
        return told
    return f"{told}, and one of {margin_said(finding)} is not ruled out"


def _undecided_by_bounds(finding: Finding) -> bool:
    """Whether the interval shows a gap, and scores that are missing could turn it."""
    return finding.estimate.p_adjusted < LEVEL and not math.isnan(finding.worst_low)


def _bounds(finding: Finding) -> str:
    low, high = (amount(end, finding.unit, signed=True) for end in (finding.worst_low, finding.worst_high))
    return f"{low} to {high}"


def _difference(finding: Finding, found: Sequence[Finding]) -> str:
    """Both gaps, and whether they differ."""
    model = words.shown(finding.model_id)
    names = finding.within, finding.against
    parts = [part(finding, name, found) for name in names]
    first, second = map(words.plain, names)
    both = [one for one in parts if one is not None]
    if len(both) < 2:
        both_sides = " and ".join(sides(finding))
        return f"{model}: compared with {second}, {first} {change(finding, f'the gap between {both_sides}')}"
    signs = {one.estimate.value > 0 for one in both}
    experiment = experiment_of(finding)
    if len(signs) == 1 and all(one.verdict in (FOUND, UNSTABLE) for one in both):
        sizes = [
            amount(one.estimate.value, one.unit, named=name) for one, name in zip(both, (True, False), strict=True)
        ]
        told = f"{_claim(both[0], experiment)} by {sizes[0]} with {first} and by {sizes[1]} with {second}"
    elif {one.verdict for one in both} == {NONE}:
        told = f"{gap_said(both[0])} with {first}, nor with {second}"
    else:
        told = f"{gap_said(both[0])} with {first}, and {gap_said(both[1])} with {second}"
    return f"{model} {told}; {first} {change(finding, 'that')}"


def part(finding: Finding, subset: str, found: Sequence[Finding]) -> Finding | None:
    """The gap of one of the two sets of conditions that a difference compares; None where it is not among them."""
    wanted = (finding.study, finding.experiment, finding.model_id, subset, "all", "score", "", finding.contrast)
    for one in found:
        key = (one.study, one.experiment, one.model_id, one.subset, one.slice_by, one.score, one.view, one.contrast)
        judged = MEASURES[one.measure].reach == 1 and one.verdict and not math.isnan(one.estimate.value)
        if key == wanted and judged:
            return one
    return None


def change(finding: Finding, what: str) -> str:
    size, margin = amount(finding.estimate.value, finding.unit), margin_said(finding)
    toward = sides(finding)[0 if finding.estimate.value > 0 else 1]
    moves = f"moves {what} toward {toward} by {size}"
    if finding.verdict == UNMEASURED:
        return f"cannot be said to move {what}: every prompt has the same score"
    if finding.verdict == NONE:
        return (
            f"makes no difference to {what} at all"
            if _exact(finding)
            else f"makes no difference to {what} as large as {margin}"
        )
    if finding.verdict == TOO_FEW:
        return f"cannot be said to change {what}: {words.few_said(finding.estimate)}"
    if finding.verdict == UNDECIDED:
        if _exact(finding):
            equal = words.equal_said(finding, finding.margin)
            return f"is not shown to leave {what} as it is: {equal}"
        if math.isnan(finding.estimate.error):
            return f"{moves}, on too little to say how sure that is"
        if _undecided_by_bounds(finding):
            return f"{moves} among scored prompts, and counting the others either way by {_bounds(finding)}"
        told = f"makes no detectable difference to {what}: {size} may be chance"
        return told if math.isnan(finding.margin) else f"{told}, and {margin} are not ruled out"
    return moves + _but(finding)


# --- beside the sentence ------------------------------------------------------------------------------


def _certainty(finding: Finding) -> str:
    if finding.measure == SPREAD and not math.isnan(finding.estimate.p_value):
        size = amount(finding.estimate.value, finding.unit)
        what = "gaps" if finding.contrast == ALL_GAPS else "means"
        return f"an SD of {size} between the groups' {what}, {finding.estimate.test}, {finding.inference}"
    if math.isnan(finding.estimate.value):
        return ""
    estimate = finding.estimate
    if all_alike(finding):
        told = f"{value(finding)} in each of {estimate.n} pairs, so that there is no interval"
        return f"{told}; {estimate.test}: p {words.p_value(estimate.p_value)}"
    if not interval(finding):
        return f"{value(finding)}; no interval, because nothing varies or too little is scored"
    together = f"simultaneous over the {finding.questions} questions of this study" * (finding.questions > 1)
    first = ", ".join(filter(None, (value(finding), f"95 % {interval(finding)}", together, finding.inference)))
    if finding.detectable > 0:
        first += f"; {detects(finding.detectable, finding.unit)}, as this model varies"
    return first


def detects(gap: float, unit: str) -> str:
    """How large a gap must be to be found, planned or after a run.

    >>> detects(0.033, "P(negative)")
    'detects gaps of 3.3 points in 4 of 5 runs'
    """
    return f"detects gaps of {amount(gap, unit)} in 4 of 5 runs"


def meaning(finding: Finding) -> str:
    """What the sign of a finding and a point of it mean."""
    direction = words.plain(finding.direction)
    told = f"{direction[0].upper()}{direction[1:]}. " if direction else ""
    if finding.unit == "percentage points":
        return f"{told}Points are percentage points."
    if in_points(finding.unit):
        return f"{told}A point is a hundredth of the {finding.unit}."
    return told + ("0.7 doubles the odds." if "log-odds" in finding.unit else f"Unit: {finding.unit}.")


def _moved(finding: Finding) -> str:
    """Which way a difference of gaps goes by its sign; of any other finding what its sign means."""
    value, first, second = finding.estimate.value, finding.within, finding.against
    if finding.measure != "gap_difference" or math.isnan(value):
        return finding.direction
    if not value:
        return f"the gap is the same with {first} and with {second}"
    return f"with {first} the gap lies further toward {sides(finding)[0 if value > 0 else 1]} than with {second}"


def _cautions(finding: Finding) -> list[str]:
    def ends(low: float, high: float) -> str:
        return f"{amount(low, finding.unit, signed=True, named=False)} and {amount(high, finding.unit, signed=True)}"

    estimate, told = finding.estimate, []
    if not math.isnan(finding.lowest):
        told.append(f"Leaving out one item at a time keeps it between {ends(finding.lowest, finding.highest)}.")
    if turned_by := words.influence(finding):
        told.append(f"What could turn it: {turned_by}.")
    if not math.isnan(finding.signs_kept):
        told.append(f"Its sign holds in {100 * finding.signs_kept:.0f} % of other wordings.")
    if not math.isnan(finding.worst_low):
        turned = finding.worst_low < 0 < finding.worst_high
        why = ", so they alone could turn its sign" if turned else ""
        told.append(
            f"Whatever the missing answers are, it is between {ends(finding.worst_low, finding.worst_high)}{why}."
        )
    if estimate.n_unscored:
        told.append(f"{estimate.n_unscored} of {estimate.n + estimate.n_unscored} units could not be scored.")
    return told


def _published(finding: Finding, found: Sequence[Finding]) -> str:
    own = next(
        (
            one
            for one in found
            if one.view == AS_PUBLISHED
            and one.score == "score"
            and (one.study, one.model_id, *one.key()) == (finding.study, finding.model_id, *finding.key())
        ),
        None,
    )
    told = []
    known = own is not None and not math.isnan(own.estimate.value)
    if known and own and load_study(finding.study).url:  # a study without a paper has no statistic of its own
        told.append(
            f"by the paper's own statistic, which takes every prompt for independent, {value(own)}"
            + (f", 95 % {interval(own)}" if interval(own) else "")
            + ("" if math.isnan(own.estimate.p_value) else f", p {words.p_value(own.estimate.p_value)}")
        )
    printed = finding.published or (own.published if own else None)
    if printed is not None and printed.value:
        told.append(f"{printed.source} {printed.value}")
    return "; ".join(told)
