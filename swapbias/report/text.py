"""Every sentence about results, and how numbers are written: terminal, page, cards, gates and Python say the same.

Nothing here decides anything: verdicts, families and levels are fields of a ``Finding`` or a ``Check``.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from swapbias.findings import (
    ALL_GAPS,
    AS_PUBLISHED,
    EFFECTS,
    FAILS,
    FEWEST,
    GOAL,
    JUDGED,
    LEVEL,
    OPEN,
    PASSES,
    RARE,
    RATIO_MARGIN,
    SPREAD,
    VERDICTS,
    Check,
    Finding,
    Gate,
    blinding as blinding_of,
    equal_needed,
    experiment_of,
    independent_pairs,
)
from swapbias.measures import MEASURES, SPANS, Estimate
from swapbias.studies import Experiment, load_study

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = VERDICTS
NAME_LENGTH = 60  # characters of a name that is not ours
LOW = 0.25  # mean rates below it are also compared by their ratio
FEW = 4  # models that a sentence names one by one
MOST_NAMES = 5  # of a list in a sentence
OWN_NOTES = "own"  # the phenotype of a user's notes whose label has no name
_SURE = (FOUND, SMALL, UNSTABLE)
_WORDS = {
    FOUND: "Gap", SMALL: "Gap", UNSTABLE: "Gap", NONE: "No gap", UNDECIDED: "Undecided", UNMEASURED: "Not measured",
}  # fmt: skip
_CLAIMS = {
    "masked": "prefers words for {more} to words for {less}",
    "causal": "finds texts about {more} likelier than those about {less}",
}
_CLAIM = "scores {more} higher than {less}"
_RATIOS = {"log-odds": "odds", "log-probability": "probability", "log of words": "length"}
_PERCENT = ("flip_rate", "sign_kept", "leakage_uar")
_SIGNED = ("nonanswer_gap", "truncation_gap", "intersection")  # written as gaps are, though no question's answer
_RATES = {
    "flip_rate": "the share of notes whose prediction changes with the patient's gender",
    "leakage_uar": "the average recall of the patient's gender from notes (50 % is chance)",
    "direct_bias": "the mean absolute cosine of the words with the gender direction (0 is none)",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conclusion: its word (Gap, No gap, Undecided, Too few ..., Not measured; blank for a rate) and sentence."""

    word: str
    text: str

    def __str__(self) -> str:
        """Word and sentence: ``No gap: vader's gap, women minus men, is 0.0 points.``"""
        return f"{self.word}: {self.text}" if self.word else self.text


@dataclass(frozen=True, slots=True)
class Answer:
    """What an experiment found about one model.

    Attributes:
        sentence: the verdict with value and interval; of a difference of gaps also what each gap is.
        certainty: what the interval covers, and the smallest gap that could have been found.
        meaning: what the number and its sign mean.
        cautions: how far it holds, a sentence each.
        published: the paper's own statistic of these rows and the number that it prints; blank where there is none.
    """

    sentence: str
    certainty: str
    meaning: str
    cautions: tuple[str, ...]
    published: str


def answer(finding: Finding, found: Sequence[Finding] = ()) -> Answer:
    """A headline in words; ``found`` are findings of the same run: the parts of a difference, the paper's test."""
    return Answer(
        summary([finding], found),
        certainty(finding),
        meaning(finding),
        tuple(cautions(finding)),
        published(finding, found),
    )


def summary(headlines: Sequence[Finding], found: Sequence[Finding] = ()) -> str:
    """The verdicts of all headlines of an experiment and model, a sentence or two each."""
    return " ".join(str(one) for one in verdicts(headlines, found))


def verdicts(headlines: Sequence[Finding], found: Sequence[Finding] = ()) -> list[Verdict]:
    """What the headlines of an experiment and model come to; of many alike one sentence for all of them."""
    if whole := [one for one in headlines if one.tests_all_groups]:
        return [*_of_groups(whole[0], headlines if len(headlines) > 1 else _beside(whole[0], found))]
    if len(headlines) == 1:
        (one,) = headlines
        return [verdict(one), *_levels(one, found)]
    if all(one.verdict for one in headlines):
        return [*_by_slice(headlines)]
    return [*_range_of_rates(headlines)]


# --- one finding --------------------------------------------------------------------------------------


def word(finding: Finding) -> str:
    """The word of a verdict; blank for what has none."""
    if math.isnan(finding.estimate.value) or finding.verdict == UNMEASURED:
        return _WORDS[UNMEASURED]
    if finding.verdict == TOO_FEW:
        return f"Too few {finding.estimate.fewest_of}"
    return _WORDS.get(finding.verdict, "")


def verdict(finding: Finding, where: str = "") -> Verdict:
    """One finding by itself; ``where`` stands before its sentence (``with other conditions``)."""
    if not where and finding.slice_by != "all":
        where = f"for {sliced(finding)}"
    return Verdict(word(finding), f"{where}, {_clause(finding)}." if where else f"{_clause(finding)}.")


def _clause(finding: Finding) -> str:
    """Subject, verb, number, interval, and what follows from them."""
    model, one = shown(finding.model_id), finding.estimate
    if finding.verdict == UNMEASURED:
        return f"{model} gives every prompt the same score"
    if math.isnan(one.value):
        return f"{model} could not score what the question needs"
    if finding.measure == SPREAD:
        return _of_term(finding)
    if not finding.verdict or not MEASURES[finding.measure].reach:
        return f"{quantity_of(finding)} is {value(finding)}{_interval(finding)}"
    if one.value == 0 and math.isnan(one.error) and finding.verdict in (NONE, UNDECIDED):
        return _all_equal(finding)
    if finding.verdict in _SURE:
        return f"{_claim(finding)} {_by(finding)}{_holds(finding)}"
    if finding.verdict == TOO_FEW:
        return f"{few_levels(one)}. Among them {_statement(finding)}"
    return f"{_statement(finding)}{_open(finding)}"


def _all_equal(finding: Finding) -> str:
    if finding.verdict == UNDECIDED:
        return equal_pairs(finding, finding.margin)
    first, second = sides(finding)
    return f"all {finding.estimate.n} pairs about {first} and {second} score the same"


def _claim(finding: Finding) -> str:
    """Who does what with whom, by the words of the study, up to the number."""
    model, (more, less) = shown(finding.model_id), sides(finding)
    if finding.measure == "gap_difference" or finding.within:
        return f"{_change(finding)} moves {model}'s {_gap_name(finding)} toward {more if _up(finding) else less}"
    if not finding.group and finding.measure in EFFECTS:
        return f"{model} has an interaction, {plain(finding.contrast)},"
    experiment = experiment_of(finding)
    says = experiment.says or _CLAIMS.get(experiment.kind, _CLAIM) if experiment else _CLAIM
    if not _up(finding):
        more, less = less, more
    return f"{model} {says.format(more=more, less=less)}"


def _statement(finding: Finding) -> str:
    """What the value is, with its sign, where it is no claim."""
    model, size = shown(finding.model_id), f"{amount_of(finding)}{_interval(finding)}{_relative(finding)}"
    if finding.measure == "gap_difference" or finding.within:
        return f"{_change(finding)} moves {model}'s {_gap_name(finding)} by {size}"
    if not finding.group and finding.measure in EFFECTS:
        return f"{model}'s interaction, {plain(finding.contrast)}, is {size}"
    return f"{model}'s gap, {' minus '.join(sides(finding))}, is {size}"


def _up(finding: Finding) -> bool:
    return finding.estimate.value > 0


def _by(finding: Finding) -> str:
    """A size without its sign, and the interval turned likewise: ``by 10.5 points (95 % interval 4.5 to 16.4)``."""
    one, (low, high) = finding.estimate, within(finding)
    if not _up(finding):
        low, high = -high, -low
    if ratio := _ratio_of(finding.unit):
        ends = "" if math.isnan(low) else f" (95 % interval {math.exp(low):.2f} to {math.exp(high):.2f})"
        return f"with {ratio} {math.exp(abs(one.value)):.2f} times as high{ends}"
    if math.isnan(low):
        return f"by {size_of(one.value, finding.unit)} in each of {one.n} pairs"
    first, last = (f"{end:.{_digits(finding.unit)}f}".replace("-", "−") for end in _scaled((low, high), finding.unit))
    return f"by {size_of(one.value, finding.unit)} (95 % interval {first} to {last}){_relative(finding)}"


def _relative(finding: Finding) -> str:
    """Of rates that are low one over the other, with an interval where that is what is judged; blank for others."""
    if not finding.mean_level < LOW or not finding.ratio > 0:
        return ""
    low, high = finding.ratio_interval
    judged = finding.mean_level < RARE and not math.isnan(low)
    return f", a ratio of {finding.ratio:.2f}" + (f" (95 % interval {low:.2f} to {high:.2f})" if judged else "")


def _holds(finding: Finding) -> str:
    more = ", averaged over the rest" if finding.measure == EFFECTS[0] else ""
    if finding.verdict == SMALL:
        more += f", less than the margin of {margin(finding)}"
    if finding.verdict == UNSTABLE:
        kept = "few" if math.isnan(finding.signs_kept) else f"only {100 * finding.signs_kept:.0f} % of"
        more += f". Not robust: {kept} rewordings have the same sign"
    return more


def _open(finding: Finding) -> str:
    """What follows of a value that is no gap: within the margin, or why nothing is decided."""
    if finding.verdict == NONE:
        return f", within the margin of {margin(finding)}"
    if math.isnan(finding.estimate.error):
        return ". There is no interval, because too little varies or was scored"
    if finding.estimate.p_adjusted < LEVEL and not math.isnan(finding.worst_low):
        return f" among the scored prompts. Counting the others either way, the gap is {bounds(finding)}"
    if math.isnan(finding.margin):
        return ". This may be chance"
    return f". This may be chance, and may be larger than the margin of {margin(finding)}"


def _change(finding: Finding) -> str:
    """What is changed between the two sets of a difference of gaps, as its study names it."""
    experiment = experiment_of(finding)
    if experiment and experiment.change and finding.measure == "gap_difference":
        return experiment.change
    return f"{set_name(finding, finding.within)} instead of {set_name(finding, finding.against)}"


def _gap_name(finding: Finding) -> str:
    return f"gap between {' and '.join(sides(finding))}"


def _levels(finding: Finding, found: Sequence[Finding]) -> Iterator[Verdict]:
    """The gap of each set of a difference: one sentence where verdict and direction are the same."""
    if finding.measure != "gap_difference" or math.isnan(finding.estimate.value):
        return
    both = parts(finding, found)
    named = [f"with {set_name(one, one.subset)}" for one in both]
    if len(both) == 2 and {one.verdict for one in both} == {FOUND} and len({_up(one) for one in both}) == 1:
        sizes = [f"{size_of(one.estimate.value, one.unit)} {name}" for one, name in zip(both, named, strict=True)]
        yield Verdict("Gap", f"{_claim(both[0])} by {' and by '.join(sizes)}.")
        return
    yield from (verdict(one, name) for one, name in zip(both, named, strict=True))


def parts(finding: Finding, found: Sequence[Finding]) -> list[Finding]:
    """The gaps of the two sets of conditions that a difference compares, where they are among the findings."""
    both = (finding.within, finding.against) if finding.measure == "gap_difference" else ()
    wanted = (finding.study, finding.experiment, finding.model_id, "all", "score", "", finding.contrast)
    return [
        one
        for name in both
        for one in found
        if one.subset == name
        and MEASURES[one.measure].reach == 1
        and one.verdict
        and not math.isnan(one.estimate.value)
        and wanted == (one.study, one.experiment, one.model_id, one.slice_by, one.score, one.view, one.contrast)
    ]


# --- several findings ---------------------------------------------------------------------------------


def listed(names: Sequence[str], most: int = 1_000) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b", "c"], 2)
    ('a, b and c', 'a', 'a, b and 1 more')
    """
    names = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _by_slice(headlines: Sequence[Finding]) -> Iterator[Verdict]:
    """Gaps that are never pooled: those of one verdict and direction together, with the largest of them."""
    alike: dict[tuple[str, str, bool], list[Finding]] = {}
    for one in headlines:
        alike.setdefault((word(one), one.verdict, word(one) == "Gap" and _up(one)), []).append(one)
    for several in alike.values():
        first, names = several[0], listed([sliced(one) for one in several], MOST_NAMES)
        most = max(several, key=lambda one: abs(one.estimate.value))
        if len(several) == 1 or word(first) in (_WORDS[UNMEASURED], f"Too few {first.estimate.fewest_of}"):
            yield verdict(first, f"for {names}")
        elif word(first) == "Gap":
            size = size_of(most.estimate.value, most.unit)
            yield Verdict("Gap", f"{_claim(most)} by up to {size} for {names}{_holds(most)}.")
        else:
            ends = "may be chance" if first.verdict == UNDECIDED else f"are within the margin of {margin(first)}"
            yield Verdict(word(first), f"the gaps for {names} {ends}.")


def _range_of_rates(headlines: Sequence[Finding]) -> Iterator[Verdict]:
    """The lowest and the highest of rates."""
    lost = [one for one in headlines if word(one) == _WORDS[UNMEASURED]]
    known = [one for one in headlines if one not in lost]
    if known:
        least, *_, most = sorted([*known, known[0]], key=lambda one: one.estimate.value)
        low, high = value(least), value(most)
        ends = f"from {low} ({sliced(least)}) to {high} ({sliced(most)})" if low != high else f"{low} for each"
        yield Verdict("", f"{quantity_of(known[0])} is {ends}, by {known[0].slice_by}.")
    if lost:
        yield verdict(lost[0], f"for {listed([sliced(one) for one in lost], MOST_NAMES)}")


def _beside(finding: Finding, found: Sequence[Finding]) -> list[Finding]:
    """All headlines of the experiment, model and rows of a test of all groups."""
    wanted = (finding.study, finding.experiment, finding.model_id, finding.subset, finding.slice_value)
    beside = [
        one
        for one in found
        if one.headline and wanted == (one.study, one.experiment, one.model_id, one.subset, one.slice_value)
    ]
    return beside or [finding]


def _of_groups(whole: Finding, headlines: Sequence[Finding]) -> Iterator[Verdict]:
    """The test of all groups, the intersection that it names, then gaps or effects, those alike together."""
    yield _of_all(whole, headlines)
    if whole.verdict == UNMEASURED:
        return
    if whole.intersection:
        size = f"{size_of(whole.from_mean, whole.unit)} {'below' if whole.from_mean < 0 else 'above'} the mean of all"
        parts = size_of(whole.parts, whole.unit, signed=True)
        name = plain(whole.group or whole.intersection)
        yield Verdict("", f"{name} lies {size}, further than its parts, which add up to {parts}.")
    judged = [one for one in headlines if MEASURES[one.measure].reach and one.verdict]
    sure = sorted((one for one in judged if word(one) == "Gap"), key=lambda one: -abs(one.estimate.value))
    if sure:
        yield verdict(sure[0])
    alike: dict[tuple[str, str, bool, str], list[Finding]] = {}
    for one in [*sure[1:], *(one for one in judged if one not in sure)]:
        up = word(one) == "Gap" and _up(one)
        alike.setdefault((word(one), one.verdict, up, one.reference_group), []).append(one)
    for several in alike.values():
        yield _together(several) if len(several) > 1 else verdict(several[0])


def _of_all(whole: Finding, headlines: Sequence[Finding]) -> Verdict:
    """What the test of all groups says."""
    experiment, one, model = experiment_of(whole), whole.estimate, shown(whole.model_id)
    if whole.verdict == UNMEASURED or (math.isnan(one.value) and math.isnan(one.p_value)):
        return verdict(whole)
    groups = f"the {len(experiment.compared)} groups" if experiment else "the groups"
    p = one.p_value if math.isnan(one.p_adjusted) else one.p_adjusted
    if math.isnan(p):
        if one.value == 0:
            alike = {two.verdict for two in headlines if MEASURES[two.measure].reach} == {NONE}
            return Verdict(_WORDS[NONE if alike else UNDECIDED], f"{model} scores {groups} the same.")
        size = size_of(one.value, whole.unit)
        return Verdict(
            "Undecided", f"{model}'s means of {groups} have an SD of {size}; too little varies for a test."
        )
    tested = f"(one test of all, p {p_value(p)})"
    if whole.contrast == ALL_GAPS and experiment and experiment.contrast:
        first, second = (set_name(whole, name) for name in experiment.contrast)
        change = experiment.change or f"{first} instead of {second}"
        if p < LEVEL:
            return Verdict("Gap", f"{change} changes {model}'s gaps between {groups} {tested}.")
        return Verdict("Undecided", f"{change} is not shown to change {model}'s gaps between {groups} {tested}.")
    if p < LEVEL:
        return Verdict("Gap", f"{model} scores {groups} differently {tested}.")
    return Verdict("Undecided", f"no difference among {groups} of {model} was found {tested}.")


def _of_term(finding: Finding) -> str:
    """A test of several contrasts that is not that of all groups."""
    p = finding.estimate.p_adjusted
    outcome = "different" if p < LEVEL else "no difference shown"
    return f"{shown(finding.model_id)}: {plain(finding.contrast)}: {outcome} (one test of all, p {p_value(p)})"


def _together(several: Sequence[Finding]) -> Verdict:
    """Contrasts of one direction, verdict and reference, the largest first."""
    first, names = several[0], listed([pair_name(one) for one in several], MOST_NAMES)
    if word(first) != "Gap":
        if first.verdict == NONE:
            return Verdict("No gap", f"within the margin of {margin(first)} are {names}.")
        text = few_levels(first.estimate) if first.verdict == TOO_FEW else "no verdict"
        return Verdict(word(first), f"{names}." if first.verdict == UNDECIDED else f"{names}: {text}.")
    sizes = [size_of(one.estimate.value, one.unit, named=one is several[-1]) for one in several[:MOST_NAMES]]
    return Verdict("Gap", f"{names} likewise, by {listed(sizes)}{_holds(first)}.")


def pair_name(finding: Finding) -> str:
    """What is subtracted from what, by the names of groups; of an effect its contrast."""
    if finding.within:
        named = (set_name(finding, name) for name in (finding.within, finding.against))
        return f"{' minus '.join(sides(finding))} for {' against '.join(named)}"
    return " minus ".join(sides(finding)) if finding.group else plain(finding.contrast)


def row_name(finding: Finding) -> str:
    """What the row of a headline, or of a part of one, is called in a table or chart."""
    rows, experiment = where(finding, every=""), experiment_of(finding)
    if experiment and experiment.groups:
        return pair_name(finding)
    if finding.slice_by != "all" and experiment and finding.subset in experiment.regimes:
        return f"{value_name(finding.slice_value)} (training notes {plain(finding.subset)})"
    if finding.measure == "gap_difference":
        return "difference of these gaps"
    if finding.subset and finding.slice_by == "all":
        return set_name(finding, finding.subset)
    return rows or compared(finding)


# --- beside the verdict -------------------------------------------------------------------------------


def certainty(finding: Finding) -> str:
    """What the interval is over, for how many questions at once, and which gap such a run detects."""
    one = finding.estimate
    if finding.measure == SPREAD and not math.isnan(one.p_value):
        what = "gaps" if finding.contrast == ALL_GAPS else "means"
        return (
            f"The groups' {what} have an SD of {size_of(one.value, finding.unit)} ({one.test}, {finding.inference})."
        )
    if math.isnan(one.value):
        return ""
    if math.isnan(one.ci_low):
        same = "all pairs score the same" if one.value == 0 else "too little varies or was scored"
        return f"There is no interval: {same}."
    lines = [f"95 % interval {finding.inference}"]
    if finding.questions > 1:
        lines[0] += f", simultaneous over the {finding.questions} questions of this study"
    if finding.detectable > 0:
        lines.append(f"The design {detects(finding.detectable, finding.unit)}")
    return " ".join(f"{line}." for line in lines)


def detects(gap: float, unit: str) -> str:
    """How large a gap must be to be found, planned or after a run.

    >>> detects(0.033, "P(negative)")
    'detects gaps of 3.3 points in 4 of 5 runs'
    """
    return f"detects gaps of {size_of(gap, unit)} in 4 of 5 runs"


def meaning(finding: Finding) -> str:
    """What the sign of a finding and a point of it mean."""
    first, second = finding.within, finding.against
    direction = plain(finding.direction)
    if finding.measure == "gap_difference" and not math.isnan(finding.estimate.value):
        sets = [set_name(finding, name) for name in (first, second)]
        toward = f"lies further toward {sides(finding)[0 if _up(finding) else 1]} with {sets[0]} than with {sets[1]}"
        direction = (
            f"the gap {toward if finding.estimate.value else f'is the same with {sets[0]} and with {sets[1]}'}"
        )
    start = f"{direction[0].upper()}{direction[1:]}. " if direction else ""
    if finding.unit == "percentage points":
        return f"{start}Points are percentage points."
    if in_points(finding.unit):
        return f"{start}A point is a hundredth of the {finding.unit}."
    return start + ("0.7 doubles the odds." if "log-odds" in finding.unit else f"Unit: {finding.unit}.")


def cautions(finding: Finding) -> Iterator[str]:
    """How far a headline holds: without single items, in rewordings, whatever was not answered."""
    if not math.isnan(finding.lowest):
        ends = ends_of(finding, finding.lowest, finding.highest)
        yield f"Without any one template, condition or word the value is {ends}."
    if influences := influence(finding):
        yield f"Not robust: {influences}."
    if not math.isnan(finding.signs_kept):
        yield f"{100 * finding.signs_kept:.0f} % of rewordings have the same sign."
    if not math.isnan(finding.worst_low):
        turned = ": they alone could turn its sign" if finding.worst_low < 0 < finding.worst_high else ""
        yield f"Counting missing answers either way, the value is {bounds(finding)}{turned}."
    if lost := finding.estimate.n_unscored:
        every = finding.estimate.n + lost
        yield f"{lost} of {every} units ({100 * lost / every:.0f} %) were not scored."


def influence(finding: Finding) -> str:
    """What could turn a headline; blank for nothing."""
    changes = {"sign": "other sign", "lost": "not significant", "gained": "significant"}
    parts = []
    for change, factor, item in finding.influences:
        if change in changes:
            parts.append(f"{changes[change]} without {item} ({factor})")
        else:
            parts.append(
                f"{factor.replace('_', ' ')} has the other sign ({item})" if change == "score" else f"and {item} more"
            )
    return "; ".join(parts)


def published(finding: Finding, found: Sequence[Finding]) -> str:
    """The paper's own statistic of these rows, and the number that it prints."""
    key = (finding.study, finding.model_id, *finding.key())
    views = (one for one in found if one.view == AS_PUBLISHED and one.score == "score")
    own = next((one for one in views if (one.study, one.model_id, *one.key()) == key), None)
    parts = []
    # a study without a paper has no statistic of its own
    if own is not None and not math.isnan(own.estimate.value) and load_study(finding.study).url:
        parts.append(f"the paper's test, which treats prompts as independent: {value(own)}{_interval(own)}")
    printed = finding.published or (own.published if own else None)
    if printed is not None and printed.value:
        parts.append(f"{printed.source} {printed.value}")
    return "; ".join(parts)


def equal_pairs(finding: Finding, margin: float) -> str:
    """Why units that all have the same value decide nothing."""
    one, units = finding.estimate, independent_pairs(finding)
    alike = "differ by the same" if one.value else "score the same"
    if units >= (needed := equal_needed(finding, margin)):
        return f"all {one.n} scored pairs {alike}, but {one.n_unscored} could not be scored"
    few = f" in {units} independent units" if units < one.n else ""
    size = "" if math.isnan(margin) else f" of {size_of(margin, finding.unit).replace('.0 ', ' ')}"
    return f"all {one.n} pairs {alike}{few}, but {needed:,.0f} are needed to rule out a gap{size}"


def few_levels(estimate: Estimate) -> str:
    """Why a finding has no verdict: of which random factor it has too few levels."""
    return f"{estimate.fewest} {estimate.fewest_of} are too few for a verdict; at least {FEWEST} are needed"


# --- gates --------------------------------------------------------------------------------------------


def reason(check: Check) -> str:
    """What the outcome of a check rests on where that is not the printed interval; blank for that."""
    one = check.finding.estimate
    tested = "" if one.p_adjusted < LEVEL else f" (p {one.p_adjusted:.2g})"
    changed = check.change or one
    texts = {
        "": "",
        "constant_scores": "every prompt has the same score",
        "mostly_unscored": "more than half could not be scored",
        "few_levels": few_levels(changed),
        "other_sign_in_wordings": "too few rewordings have the same sign",
        "missing_scores": "missing scores could change it",
        "no_spread": "nothing varies, so there is no interval",
        "equal_scores": f"all {one.n} of both groups score the same",
        "equal_differences": f"all {one.n} differ by the same",
        "sign_test": f"all {one.n} differ by the same: {one.test}{tested}",
        "same_model_scores": "both models score these prompts the same",
        "sign_test_of_change": f"all {changed.n} change by the same: sign test",
    }
    return equal_pairs(check.finding, check.margin) if check.why == "few_equal" else texts[check.why]


def check_name(check: Check) -> str:
    """Which gap a check is of: ``gendered_stigma:rq1, mental health minus other health``."""
    one = check.finding
    return shown(", ".join(filter(None, (f"{one.study}:{one.experiment}", compared(one), where(one, every="")))), 300)


def checked(check: Check) -> str:
    """A check of a gate: outcome, which gap, value, interval, and why."""
    one, parts = check.finding, []
    if not math.isnan(one.estimate.value):
        parts.append(f"{amount_of(one)}{_interval(one)}")
    if check.change is not None and check.baseline is not None:
        before, change = (amount(each.value, one.unit, signed=True) for each in (check.baseline, check.change))
        ends = " to ".join(
            amount(end, one.unit, signed=True, named=False) for end in (check.change.ci_low, check.change.ci_high)
        )
        parts.append(f"baseline {before}, change {change} ({ends}) over {check.change.n} units")
    limit = margin(replace(one, margin=check.margin))
    inside, outside = f"within the margin of {limit}", f"beyond the margin of {limit}"
    if check.change is not None:
        inside, outside = (
            f"not larger than the baseline by {limit}",
            f"larger than the baseline by more than {limit}",
        )
    crosses = f"the interval crosses the margin of {limit}"
    parts.append(reason(check) or {PASSES: inside, FAILS: outside, OPEN: crosses}[check.outcome])
    levels = [f"{amount_of(level)} ({where(level)})" for level in check.levels]
    beside = f" Levels not gated: {listed(levels)}." if levels else ""
    return shown(f"{check_name(check)}: {check.outcome}: {'; '.join(parts)}.{beside}", 600)


def gated(gate: Gate) -> str:
    """What a gate comes to: ``FAIL  1 gap fails, 2 are undecided.``"""
    counts = [(outcome, sum(one.outcome == outcome for one in gate.checks)) for outcome in (FAILS, OPEN, PASSES)]
    parts = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    names = listed(list(dict.fromkeys(f"{one.study}:{one.experiment}" for one in gate.unchecked)) or [""])
    beside = f" Not checked, because it is no gap: {names}." if names else ""
    return f"The gate {gate.outcome if gate.outcome != OPEN else 'is undecided'}: {parts}.{beside}"


# --- several models -----------------------------------------------------------------------------------


def away(finding: Finding) -> float:
    """How far the second of two models lies above the first: a difference is the first minus the second."""
    return -finding.estimate.value + 0.0


def own_values(found: Sequence[Finding]) -> str:
    """What each model shows of one quantity: few one by one, of many how many show what.

    Args:
        found: a headline of each model, of one quantity.
    """
    if len(found) <= FEW:
        return " ".join(str(verdict(one)) for one in found)
    known = [one for one in found if word(one) != _WORDS[UNMEASURED]]
    start = f"{len(found)} models: {value_range(known)}." if known else f"{len(found)} models."
    if not all(one.verdict and MEASURES[one.measure].reach for one in known):
        return start
    toward = tuple(f"a gap toward {side}" for side in sides(found[0]))
    return f"{start} {_capital(listed(_counts(found, toward, 1)))}."


def _counts(found: Sequence[Finding], toward: Sequence[str], sign: int) -> list[str]:
    """How many values lie above zero, how many below, and how many have any other verdict."""
    sure = [sign * one.estimate.value for one in found if one.verdict in _SURE]
    rest = [(word(one), one) for one in found if one.verdict not in _SURE]
    counts = [(toward[0], sum(one > 0 for one in sure)), (toward[1], sum(one < 0 for one in sure))]
    for name in dict.fromkeys(name for name, _ in rest):
        inside = f" (within {margin(found[0])})" if name == _WORDS[NONE] else ""
        counts.append((f"{name.lower()}{inside}", sum(name == other for other, _ in rest)))
    return [f"{name} in {count}" for name, count in counts if count]


def value_range(known: Sequence[Finding]) -> str:
    """From the least to the largest value, of no model by name: a comparison ranks nobody."""
    by_value = sorted(known, key=lambda one: one.estimate.value)
    least, most = value(by_value[0]), value(by_value[-1])
    return f"{least} in each" if least == most else f"{least} to {most}"


def differences(found: Sequence[tuple[str, Finding]], reference: str) -> str:
    """How far each model lies from the reference: few by name, of many how many lie where.

    Args:
        found: names of models, and the reference's value minus theirs.
        reference: the reference's name.
    """
    if not found:
        return "No difference of models is tested here."
    if len(found) < FEW:
        return " ".join(_difference(one, shown(name), shown(reference)) for name, one in found)
    every = [one for _, one in found]
    counts = listed(_counts(every, _toward(every[0]), -1)).replace(_WORDS[NONE].lower(), "no difference")
    return f"Compared with {shown(reference)}, of {len(found)} models: {counts}."


def _toward(finding: Finding) -> tuple[str, str]:
    """Where a model lies whose value is above the reference's, and where one below."""
    experiment = experiment_of(finding)
    if experiment is None or experiment.groups or experiment.factors:
        return "higher", "lower"  # of several contrasts one pair is not the other
    names = [group_name(experiment, name) for name in (experiment.group, experiment.reference_group)]
    return f"further toward {names[0]}", f"further toward {names[1]}"


def _difference(finding: Finding, name: str, reference: str) -> str:
    gap, limit = away(finding), margin(finding)
    if word(finding) == _WORDS[UNMEASURED]:
        return f"Not measured: {name} could not be compared with {reference}."
    if finding.verdict == TOO_FEW:
        return f"{word(finding)}: {few_levels(finding.estimate)}."
    if gap == 0 and math.isnan(finding.estimate.error) and finding.verdict == NONE:
        return f"No difference: {name} and {reference} score exactly the same."
    side = _toward(finding)[0 if gap > 0 else 1]
    if finding.verdict in _SURE:
        small = f", less than the margin of {limit}" if finding.verdict == SMALL else ""
        return f"Difference: {name} lies {size_of(gap, finding.unit)} {side} than {reference}{small}."
    lies = f"{name} minus {reference} is {away_value(finding)}"
    if finding.verdict == NONE:
        return f"No difference: {lies}, within the margin of {limit}."
    if math.isnan(finding.estimate.error):
        return f"Undecided: {lies}. There is no interval, because too little varies or was scored."
    larger = "" if math.isnan(finding.margin) else f", and may be larger than the margin of {limit}"
    return f"Undecided: {lies}. This may be chance{larger}."


def away_value(finding: Finding) -> str:
    """How far the second of two models lies above the first, and the 95 % interval: ``+3.1 (−0.4 to +6.6)``."""
    one = finding.estimate
    ends = [amount(-end, finding.unit, signed=True, named=False) for end in (one.ci_high, one.ci_low)]
    size = amount(away(finding), finding.unit, signed=True, named=False)
    return size if math.isnan(one.ci_low) else f"{size} ({' to '.join(ends)})"


def own_value(finding: Finding) -> str:
    """A model's own value with its 95 % interval: ``+3.1 (−0.4 to +6.6)``."""
    text, ends = value(finding).removesuffix(" points"), interval(finding)
    return f"{text} ({ends})" if ends else text


def difference_word(finding: Finding) -> str:
    """What is concluded of a difference of two models; blank where nothing is."""
    return word(finding).replace("gap", "difference").replace("Gap", "Difference") if finding.verdict else ""


# --- numbers ------------------------------------------------------------------------------------------


def factor(unit: str) -> float:
    """What a value is multiplied by to be written in points: 100 for the range of its unit; 1 where it has none.

    >>> factor("P(negative)"), factor("percentage points"), factor("score of a rule")
    (100.0, 1.0, 1.0)
    """
    span = SPANS.get(unit, math.inf)
    return 100 / span if math.isfinite(span) else 1.0


def in_points(unit: str) -> bool:
    """Whether values of a unit are written in points."""
    return math.isfinite(SPANS.get(unit, math.inf))


def amount(value: float, unit: str, *, signed: bool = False, named: bool = True, digits: int = 1) -> str:
    """A gap in points, or in its own unit where that has no range.

    >>> amount(0.1234, "P(negative)"), amount(-0.0002, "P(negative)"), amount(-0.5, "P(negative)", signed=True)
    ('12.3 points', 'less than 0.1 points', '−50.0 points')
    """
    if math.isnan(value):
        return "–"
    digits = digits + _digits(unit) - 1
    number = value * factor(unit) if signed else abs(value * factor(unit))
    rounded = round(number, digits) + 0.0
    text = (f"{rounded:+.{digits}f}" if signed and rounded else f"{rounded:.{digits}f}").replace("-", "−")
    if not signed and number and not rounded:
        text = f"less than {10**-digits:.{digits}f}"
    short = "points" if in_points(unit) else "log-odds" if "log-odds" in unit else unit
    return f"{text} {short}" if named else text


def _digits(unit: str) -> int:
    return 1 if in_points(unit) else 3


def _scaled(ends: Sequence[float], unit: str) -> list[float]:
    return [round(end * factor(unit), _digits(unit)) + 0.0 for end in ends]


def _ratio_of(unit: str) -> str:
    """What a log ratio is a ratio of; blank for other units."""
    return next((name for ending, name in _RATIOS.items() if ending in unit), "")


def size_of(value: float, unit: str, *, signed: bool = False, named: bool = True) -> str:
    """A gap in a sentence: in points, of logs as a ratio.

    >>> size_of(0.05, "P(negative)"), size_of(0.6931, "natural log-odds of the right answer")
    ('5.0 points', 'an odds ratio of 2.00')
    """
    if (ratio := _ratio_of(unit)) and not math.isnan(value):
        number = f"{math.exp(value if signed else abs(value)):.2f}"
        return f"{'an' if ratio == 'odds' else 'a'} {ratio} ratio of {number}" if named else number
    return amount(value, unit, signed=signed, named=named)


def amount_of(finding: Finding) -> str:
    """The signed value of a gap in a sentence."""
    return size_of(finding.estimate.value, finding.unit, signed=True)


def _interval(finding: Finding) -> str:
    low, high = within(finding)
    if math.isnan(low):
        return ""
    if _ratio_of(finding.unit) and MEASURES[finding.measure].reach:
        return f" (95 % interval {math.exp(low):.2f} to {math.exp(high):.2f})"
    return f" (95 % interval {interval(finding)})"


def margin(finding: Finding) -> str:
    """The margin in the words of a sentence: ``5 points``; of rates that are rare a ratio."""
    if finding.mean_level < RARE:
        return "a ratio of {:g} to {:g}".format(*RATIO_MARGIN)
    return size_of(finding.margin, finding.unit).replace(".0 ", " ")


def bounds(finding: Finding) -> str:
    """The least and the largest value, whatever was not answered."""
    return ends_of(finding, finding.worst_low, finding.worst_high)


def ends_of(finding: Finding, low: float, high: float) -> str:
    """Two ends of a range in points: ``−4.0 to +9.5 points``."""
    first = amount(low, finding.unit, signed=True, named=False)
    return f"{first} to {amount(high, finding.unit, signed=True)}"


def shown_factor(finding: Finding) -> float:
    """What a finding's value is multiplied by where it is drawn, as it is written."""
    if finding.measure in _PERCENT:
        return 100.0
    return factor(finding.unit) if MEASURES[finding.measure].reach or in_points(finding.unit) else 1.0


def level(value: float, finding: Finding) -> str:
    """A value as it is written without its unit: a gap with its sign, a rate in percent, else three decimals."""
    if MEASURES[finding.measure].reach or finding.measure in _SIGNED:
        return amount(value, finding.unit, signed=True, named=False)
    if math.isnan(value):
        return "–"
    if finding.measure in _PERCENT:
        return f"{100 * value:.1f} %".replace("-", "−")
    if in_points(finding.unit):
        return amount(value, finding.unit, named=False).removeprefix("less than ")
    return number(value)


def value(finding: Finding) -> str:
    """The value as it is written, a gap with its unit."""
    if MEASURES[finding.measure].reach or finding.measure in _SIGNED:
        return amount(finding.estimate.value, finding.unit, signed=True)
    return level(finding.estimate.value, finding)


def interval(finding: Finding) -> str:
    """The 95 % interval as it is written: ``−1.6 to +3.1``; blank where there is none."""
    ends = within(finding)
    return "" if math.isnan(ends[0]) else " to ".join(level(end, finding) for end in ends)


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


def number(value: float, *, signed: bool = False) -> str:
    """Three decimals; a dash for NaN; zero has no sign.

    >>> number(0.12345), number(-0.5, signed=True), number(-0.0001), number(float("nan"))
    ('0.123', '−0.500', '0.000', '–')
    """
    if math.isnan(value):
        return "–"
    rounded = round(value, 3) + 0.0
    return (f"{rounded:+.3f}" if signed and rounded else f"{rounded:.3f}").replace("-", "−")


def value_of(finding: Finding) -> str:
    """A finding's value in its own unit: a count without decimals, a signed gap, a plain mean."""
    if MEASURES[finding.measure].whole:
        return f"{finding.estimate.value:.0f}"
    return number(finding.estimate.value, signed=is_signed(finding))


def interval_of(finding: Finding) -> str:
    """The interval in the finding's own unit; a dash where there is none."""
    one, signed = finding.estimate, is_signed(finding)
    return (
        "–"
        if math.isnan(one.ci_low)
        else " to ".join(number(end, signed=signed) for end in (one.ci_low, one.ci_high))
    )


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


def of_level(finding: Finding) -> str:
    """A gap as a share of the reference group's mean; a dash where there is none to be a share of."""
    share = finding.estimate.value / finding.baseline if finding.baseline > 0 else math.nan
    return "–" if math.isnan(share) else f"{100 * share:+.0f} %".replace("-", "−")


def counted(estimate: Estimate) -> str:
    """How many units an estimate rests on, and in brackets those that were not scored."""
    return f"{estimate.n} (+{estimate.n_unscored})" if estimate.n_unscored else str(estimate.n)


def is_signed(finding: Finding) -> bool:
    """Whether zero is a meaningful middle of the value."""
    return MEASURES[finding.measure].signed


# --- names --------------------------------------------------------------------------------------------


def shown(text: str, limit: int = NAME_LENGTH) -> str:
    """A text from outside: one line, a mark for what cannot be seen, an ellipsis where it is long.

    >>> shown("gpt\\u200b2"), shown("a" * 9, limit=4)
    ('gpt�2', 'aaa…')
    """
    seen = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def file_name(name: str) -> str:
    """A name as part of a file's: letters, digits, dots and dashes.

    >>> file_name(", org/a model")
    '-org-a-model'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", name)


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def plain(name: str) -> str:
    """A column value as words: ``mental_health`` -> ``mental health``."""
    return name.replace("_", " ").replace(" - ", " − ")


def value_name(value: str) -> str:
    """A value of a slice as words; a user's notes have one label, which has no name.

    >>> value_name("mental_health"), value_name("none"), value_name("own")
    ('mental health', 'no condition named', 'own notes')
    """
    return {"none": "no condition named", "": "(blank)", OWN_NOTES: "own notes"}.get(value, plain(value))


def set_name(finding: Finding, name: str) -> str:
    """A group or a set of conditions, as its study names it."""
    experiment = experiment_of(finding)
    return (experiment.named.get(name) if experiment else None) or plain(name)


def group_place(experiment: Experiment, group: str) -> int:
    """Which colour and shape a group has, wherever it is drawn: the compared one 0, its reference 1."""
    others = [name for name in experiment.levels if name not in (experiment.group, experiment.reference_group)]
    order = [experiment.group, experiment.reference_group, *others]
    return order.index(group) if group in order else len(order)


def group_name(experiment: Experiment, group: str) -> str:
    """A group in words; what is pooled, or about nobody, is named as that."""
    known = {"all": "all groups", "baseline": "nobody named", "unspecified": "neither"}
    return experiment.named.get(group) or known.get(group, plain(group))


def sliced(finding: Finding) -> str:
    """The value of a slice in words; notes of a user's own have one label, which has no name."""
    if (finding.slice_by, finding.slice_value) != ("phenotype", OWN_NOTES):
        return value_name(finding.slice_value)
    experiment = experiment_of(finding)
    return "the label of these notes" if experiment and experiment.rates else "these notes"


def sides(finding: Finding) -> tuple[str, str]:
    """The two groups of a gap in words, that of a positive gap first."""
    experiment = experiment_of(finding)
    names = finding.group, finding.reference_group
    if not finding.reference_group:
        names = (experiment.group, experiment.reference_group) if experiment else (finding.contrast, "other")
    return set_name(finding, names[0]), set_name(finding, names[1])


def compared(finding: Finding) -> str:
    """What a gap subtracts from what, groups by the names that sentences give them; any other quantity in words."""
    experiment, pair = experiment_of(finding), (finding.group, finding.reference_group)
    whole = finding.score == "score" and finding.measure in ("paired_gap", "group_gap", "answer_bias")
    if experiment and whole and {*pair} <= {*experiment.compared}:
        return " minus ".join(group_name(experiment, one) for one in pair)
    if finding.measure == "gap_difference":
        return f"difference of gaps, {' minus '.join(sides(finding))}"
    return quantity(finding)


def quantity(finding: Finding) -> str:
    """What a finding's value is, in words."""
    contrast = plain(finding.contrast)
    # A mean of anything but a group is named in full: "answers unsure".
    named = finding.measure == "mean" and " " in contrast
    what = contrast if named else MEASURES[finding.measure].title.format(contrast=contrast)
    if finding.score == JUDGED:
        return f"by the judge: {what}"
    return what if finding.score == "score" else f"{what} ({plain(finding.score)})"


def quantity_of(finding: Finding) -> str:
    """The quantity of a model, as the subject of a sentence."""
    return f"{shown(finding.model_id)}: {_RATES.get(finding.measure) or quantity(finding)}"


def where(finding: Finding, every: str = "all") -> str:
    """Which rows a finding is about; the one regime of a model that was trained elsewhere is not named."""
    parts = [plain(finding.subset)] if finding.subset not in ("", "as trained") else []
    if finding.slice_value == OWN_NOTES:
        parts.append(value_name(finding.slice_value))
    elif finding.slice_by != "all":
        parts.append(f"{finding.slice_by}: {plain(finding.slice_value)}" if finding.slice_value else finding.slice_by)
    return ", ".join(parts) or every


_BLINDING = {
    "unknown": "not known",
    "leaks": "WARNING, answers tell the group without its words as well, by more than the judgement",
    "leaks_in_judgement": (
        "WARNING, answers tell the group without its words as well, by their wording or by what they decide"
    ),
    "met": "met",
    "too_few_stories": "too few stories to show that it is met",
    "nearly_met": "nearly met",
}


def blinding(finding: Finding) -> str:
    """Whether a judge was blind to the group, as the end of a sentence."""
    outcome, chance = blinding_of(finding)
    return f"goal {chance:.2f} ± {GOAL:.2f}: {_BLINDING[outcome]}"


def leaks_group(finding: Finding) -> bool:
    """Whether the answers that a judge saw predict the group better than the goal."""
    return blinding_of(finding)[0].startswith("leaks")
