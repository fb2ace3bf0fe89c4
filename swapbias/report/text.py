"""Every sentence about results, and how numbers are written: terminal, page, cards, gates and Python say the same.

Nothing here decides anything: verdicts, families and levels are fields of a ``Finding`` or a ``Check``.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from swapbias.findings import (
    ALL_GAPS,
    AS_PUBLISHED,
    DIFFERENCE,
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
    by_the_judge,
    comparisons,
    equal_needed,
    experiment_of,
    headlines,
    independent_pairs,
)
from swapbias.measures import MEASURES, SPANS, Estimate, interim_level
from swapbias.models.clinical import Explained
from swapbias.studies import Experiment, load_study

if TYPE_CHECKING:
    from rich.table import Table

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = VERDICTS
NAME_LENGTH = 60  # characters of a name that is not ours
LOW = 0.25  # mean rates below it are also compared by their ratio
FEW = 4  # models that a sentence names one by one
MOST_NAMES = 5  # of a list in a sentence
WIDTH = 80  # columns of a terminal
OWN_NOTES = "own"  # the phenotype of a user's notes whose label has no name
_LONGEST = 2_000  # characters of a sentence
_SURE = (FOUND, SMALL, UNSTABLE)
_WORDS = {**dict.fromkeys(_SURE, "Gap"), NONE: "No gap", UNDECIDED: "Undecided", UNMEASURED: "Not measured"}
_CLAIMS = {
    "masked": "prefers words for {more} to words for {less}",
    "causal": "finds texts about {more} likelier than those about {less}",
}
_RATIOS = {"log-odds": "odds", "log-probability": "probability", "log of words": "length"}
_PERCENT = ("flip_rate", "sign_kept", "leakage_uar")
_SHARES = ("TPR", "FPR", "PPV", "called positive", "equalised odds")  # of performance, beside AUROC and calibration
_SIGNED = ("nonanswer_gap", "truncation_gap", "intersection", "gap_beyond_wording")  # no answers, but written as gaps
_RATES = {
    "flip_rate": "the share of notes whose prediction changes with the patient's gender",
    "leakage_uar": "the average recall of the patient's gender from notes (50 % is chance)",
    "direct_bias": "the mean absolute cosine of the words with the gender direction (0 is none)",
}
_EFFECTS = {
    "main_effect": "main effects", "interaction": "interactions", "interaction_of_three": "interactions of three",
    "intersection": "intersections beside their parts",
}  # fmt: skip
_VARIATIONS = {
    "matched_mass": "only words with an equally frequent match", "closed_list_mass": "all listed words",
    "gap_beyond_wording": "the prompts and their rewordings together",
}  # fmt: skip
BEYOND_PARTS = " An intersection's value is how much further it lies from the mean of all than its parts add up to."
ANSWERED = "What was answered to each side, as a share of all answers. Unreadable: no option was given beyond doubt."
EXPLAINED = (
    "Weights by LIME, averaged over notes. Above zero a word speaks for the phenotype. A dash: among no heavy words."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conclusion: its word (Gap, No gap, Undecided, Too few ..., Not measured; blank for a rate) and sentence."""

    word: str
    text: str

    def __str__(self) -> str:
        """Word and sentence: ``No gap: vader's gap, women minus men, is 0.0 points.``"""
        return f"{self.word}: {self.text}" if self.word else self.text


def summary(results: Sequence[Finding], found: Sequence[Finding] = ()) -> str:
    """The verdicts of all headlines of an experiment and model, a sentence or two each."""
    return " ".join(str(one) for one in verdicts(results, found))


def questions(found: Sequence[Finding]) -> list[list[Finding]]:
    """The headlines of each experiment and model."""
    results: dict[tuple[str, ...], list[Finding]] = {}
    for one in headlines(found):
        results.setdefault((one.study, one.experiment, one.model_id), []).append(one)
    return list(results.values())


def verdicts(results: Sequence[Finding], found: Sequence[Finding] = ()) -> list[Verdict]:
    """What the headlines of an experiment and model come to; of many alike one sentence for all of them."""
    whole = next((one for one in results if one.tests_all_groups), None)
    if whole is not None:
        wanted = (whole.study, whole.experiment, whole.model_id, whole.subset, whole.slice_value)
        beside = [
            one for one in headlines(found)
            if wanted == (one.study, one.experiment, one.model_id, one.subset, one.slice_value)
        ]  # fmt: skip
        return [*_of_groups(whole, results if len(results) > 1 else beside)]
    if len(results) == 1:
        return [verdict(results[0]), *_of_sets(results[0], found)]
    return [*(_alike(results, sliced, "for ") if all(one.verdict for one in results) else _range_of_rates(results))]


# --- one finding --------------------------------------------------------------------------------------


def word(finding: Finding) -> str:
    """The word of a verdict; blank for what has none."""
    if math.isnan(finding.estimate.value) or finding.verdict == UNMEASURED:
        return "Not measured"
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
        different = "different" if one.p_adjusted < LEVEL else "no difference shown"
        return f"{model}: {plain(finding.contrast)}: {different} (one test of all, p {p_value(one.p_adjusted)})"
    if not finding.verdict or not MEASURES[finding.measure].reach:
        return f"{model}: {_RATES.get(finding.measure) or quantity(finding)} is {value(finding)}{_interval(finding)}"
    if one.value == 0 and math.isnan(one.error) and finding.verdict in (NONE, UNDECIDED):
        both = f"all {one.n} pairs about {' and '.join(sides(finding))} score the same"
        return both if finding.verdict == NONE else equal_pairs(finding, finding.margin)
    if finding.verdict in _SURE and (finding.group or finding.measure not in EFFECTS):
        return f"{_claim(finding)} {_by(finding)}{_tail(finding)}"
    few = f"{few_levels(one)}. Among them " if finding.verdict == TOO_FEW else ""
    return f"{few}{_statement(finding)}{_tail(finding)}"


def _claim(finding: Finding) -> str:
    """Who does what with whom, by the words of the study, up to the number."""
    model, (more, less) = shown(finding.model_id), sides(finding)
    toward, other = (more, less) if finding.estimate.value > 0 else (less, more)
    if finding.measure == "gap_difference" or finding.within:
        return f"{_change(finding)} moves {model}'s gap between {more} and {less} toward {toward}"
    experiment = experiment_of(finding)
    says = (experiment.says or _CLAIMS.get(experiment.kind, "")) if experiment else ""
    return f"{model} {(says or 'scores {more} higher than {less}').format(more=toward, less=other)}"


def _statement(finding: Finding) -> str:
    """What the value is, with its sign, where it is no claim."""
    model, (more, less) = shown(finding.model_id), sides(finding)
    size = f"{size_of(finding.estimate.value, finding.unit, signed=True)}{_interval(finding)}{_relative(finding)}"
    if finding.measure == "gap_difference" or finding.within:
        return f"{_change(finding)} moves {model}'s gap between {more} and {less} by {size}"
    if not finding.group and finding.measure in EFFECTS:
        return f"{model}'s interaction, {plain(finding.contrast)}, is {size}"
    return f"{model}'s gap, {more} minus {less}, is {size}"


def _by(finding: Finding) -> str:
    """A size without its sign, and the interval turned likewise: ``by 10.5 points (95 % interval 4.5 to 16.4)``."""
    one, (low, high) = finding.estimate, within(finding)
    if one.value < 0:
        low, high = -high, -low
    size = size_of(one.value, finding.unit)
    if ratio := _ratio_of(finding.unit):
        ends = "" if math.isnan(low) else f" (95 % interval {math.exp(low):.2f} to {math.exp(high):.2f})"
        return f"with {ratio} {math.exp(abs(one.value)):.2f} times as high{ends}"
    if math.isnan(low):
        return f"by {size} in each of {one.n} pairs"
    first, last = (amount(end, finding.unit, signed=True, named=False).lstrip("+") for end in (low, high))
    return f"by {size} (95 % interval {first} to {last}){_relative(finding)}"


def _relative(finding: Finding) -> str:
    """Of rates that are low one over the other, with an interval where that is what is judged; blank for others."""
    if not finding.mean_level < LOW or not finding.ratio > 0:
        return ""
    low, high = finding.ratio_interval
    judged = finding.mean_level < RARE and not math.isnan(low)
    return f", a ratio of {finding.ratio:.2f}" + (f" (95 % interval {low:.2f} to {high:.2f})" if judged else "")


def _tail(finding: Finding) -> str:
    """What follows of a value: how it lies to the margin, how robust it is, or why nothing is decided."""
    one, limit = finding.estimate, f"the margin of {margin(finding)}"
    if finding.verdict in _SURE:
        more = ", averaged over the rest" if finding.measure == EFFECTS[0] else ""
        more += f", less than {limit}" if finding.verdict == SMALL else ""
        some = "few" if math.isnan(finding.signs_kept) else f"only {100 * finding.signs_kept:.0f} % of"
        return more + (f". Not robust: {some} rewordings have the same sign" if finding.verdict == UNSTABLE else "")
    if finding.verdict == NONE:
        return f", within {limit}"
    if finding.verdict == TOO_FEW:
        return ""
    if math.isnan(one.error):
        return ". There is no interval, because too little varies or was scored"
    if one.p_adjusted < LEVEL and not math.isnan(finding.worst_low):
        return f" among the scored prompts. Counting the others either way, the gap is {bounds(finding)}"
    return ". This may be chance" + ("" if math.isnan(finding.margin) else f", and may be larger than {limit}")


def _change(finding: Finding) -> str:
    """What is changed between the two sets of a difference of gaps, as its study names it."""
    experiment = experiment_of(finding)
    if experiment and experiment.change and finding.measure == "gap_difference":
        return experiment.change
    return f"{set_name(finding, finding.within)} instead of {set_name(finding, finding.against)}"


def _of_sets(finding: Finding, found: Sequence[Finding]) -> Iterator[Verdict]:
    """The gap of each set of a difference: one sentence where verdict and direction are the same."""
    both = [] if math.isnan(finding.estimate.value) else parts(finding, found)
    names = [f"with {set_name(one, one.subset)}" for one in both]
    if len(both) == 2 and {(one.verdict, one.estimate.value > 0) for one in both} in (
        {(FOUND, True)},
        {(FOUND, False)},
    ):
        sizes = [f"{size_of(one.estimate.value, one.unit)} {name}" for one, name in zip(both, names, strict=True)]
        yield Verdict("Gap", f"{_claim(both[0])} by {' and by '.join(sizes)}.")
        return
    yield from (verdict(one, name) for one, name in zip(both, names, strict=True))


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


def _alike(found: Sequence[Finding], name: Callable[[Finding], str], start: str) -> Iterator[Verdict]:
    """Gaps that are never pooled: those of one verdict and direction together, with the largest of them."""
    alike: dict[tuple[str, str, bool, str], list[Finding]] = {}
    for one in found:
        up = word(one) == "Gap" and one.estimate.value > 0
        alike.setdefault((word(one), one.verdict, up, one.reference_group), []).append(one)
    for several in alike.values():
        first, names = several[0], listed([name(one) for one in several], MOST_NAMES)
        largest = max(several, key=lambda one: abs(one.estimate.value))
        size = f"by up to {size_of(largest.estimate.value, largest.unit)}"
        if len(several) == 1:
            yield verdict(first, f"for {names}" if start else "")
        elif word(first) == "Gap":
            claim = f"{_claim(largest)} {size} for {names}" if start else f"{names} likewise, {size}"
            yield Verdict("Gap", f"{claim}{_tail(largest)}.")
        elif first.verdict in (NONE, UNDECIDED) and word(first) != "Not measured":
            ends = "may be chance" if first.verdict == UNDECIDED else f"are within the margin of {margin(first)}"
            yield Verdict(word(first), f"{f'the gaps for {names}' if start else names} {ends}.")
        else:
            yield verdict(first, f"for {names}")


def _range_of_rates(results: Sequence[Finding]) -> Iterator[Verdict]:
    """The lowest and the highest of rates."""
    missing = [one for one in results if word(one) == "Not measured"]
    known = sorted((one for one in results if one not in missing), key=lambda one: one.estimate.value)
    if known:
        (low, first), (high, last) = ((value(one), sliced(one)) for one in (known[0], known[-1]))
        ends = f"from {low} ({first}) to {high} ({last})" if low != high else f"{low} for each"
        what = _RATES.get(known[0].measure) or quantity(known[0])
        yield Verdict("", f"{shown(known[0].model_id)}: {what} is {ends}, by {known[0].slice_by}.")
    if missing:
        yield verdict(missing[0], f"for {listed([sliced(one) for one in missing], MOST_NAMES)}")


def _of_groups(whole: Finding, results: Sequence[Finding]) -> Iterator[Verdict]:
    """The test of all groups, the intersection that it names, then gaps or effects, those alike together."""
    yield _of_all(whole, results)
    if whole.verdict == UNMEASURED:
        return
    if whole.intersection:
        size = f"{size_of(whole.from_mean, whole.unit)} {'below' if whole.from_mean < 0 else 'above'} the mean of all"
        whole_parts, name = size_of(whole.parts, whole.unit, signed=True), plain(whole.group or whole.intersection)
        yield Verdict("", f"{name} lies {size}, further than its parts, which add up to {whole_parts}.")
    judged = [one for one in results if MEASURES[one.measure].reach and one.verdict]
    sure = sorted((one for one in judged if word(one) == "Gap"), key=lambda one: -abs(one.estimate.value))
    yield from (verdict(one) for one in sure[:1])
    yield from _alike([*sure[1:], *(one for one in judged if one not in sure)], pair_name, "")


def _of_all(whole: Finding, results: Sequence[Finding]) -> Verdict:
    """What the test of all groups says."""
    experiment, one, model = experiment_of(whole), whole.estimate, shown(whole.model_id)
    p = one.p_value if math.isnan(one.p_adjusted) else one.p_adjusted
    if whole.verdict == UNMEASURED or (math.isnan(one.value) and math.isnan(p)):
        return verdict(whole)
    groups = f"the {len(experiment.compared)} groups" if experiment else "the groups"
    if math.isnan(p) and one.value == 0:
        alike = {two.verdict for two in results if MEASURES[two.measure].reach} == {NONE}
        return Verdict("No gap" if alike else "Undecided", f"{model} scores {groups} the same.")
    if math.isnan(p):
        size = size_of(one.value, whole.unit)
        return Verdict(
            "Undecided", f"{model}'s means of {groups} have an SD of {size}; too little varies for a test."
        )
    said = (
        f"{model} scores {groups} differently" if p < LEVEL else f"no difference among {groups} of {model} was found"
    )
    if whole.contrast == ALL_GAPS and experiment and experiment.contrast:
        change = experiment.change or " instead of ".join(set_name(whole, name) for name in experiment.contrast)
        said = f"{change} {'changes' if p < LEVEL else 'is not shown to change'} {model}'s gaps between {groups}"
    return Verdict("Gap" if p < LEVEL else "Undecided", f"{said} (one test of all, p {p_value(p)}).")


# --- beside the verdict -------------------------------------------------------------------------------


def certainty(finding: Finding) -> str:
    """What the interval is over, for how many questions at once, and which gap such a run detects."""
    one = finding.estimate
    if finding.measure == SPREAD and not math.isnan(one.p_value):
        what, size = "gaps" if finding.contrast == ALL_GAPS else "means", size_of(one.value, finding.unit)
        return f"The groups' {what} have an SD of {size} ({one.test}, {inference(finding)})."
    if math.isnan(one.value):
        return ""
    if math.isnan(one.ci_low):
        return (
            f"There is no interval: {'too little varies or was scored' if one.value else 'all pairs score the same'}."
        )
    over = f", simultaneous over the {finding.questions} questions of this study" if finding.questions > 1 else ""
    design = f" The design {detects(finding.detectable, finding.unit)}." if finding.detectable > 0 else ""
    return f"95 % interval {inference(finding)}{over}.{design}"


def detects(gap: float, unit: str) -> str:
    """How large a gap must be to be found, planned or after a run.

    >>> detects(0.033, "P(negative)")
    'detects gaps of 3.3 points in 4 of 5 runs'
    """
    return f"detects gaps of {size_of(gap, unit)} in 4 of 5 runs"


def meaning(finding: Finding) -> str:
    """What the sign of a finding and a point of it mean."""
    sign = plain(direction(finding))
    if finding.measure == "gap_difference" and not math.isnan(finding.estimate.value):
        first, second = (set_name(finding, name) for name in (finding.within, finding.against))
        toward = sides(finding)[0 if finding.estimate.value > 0 else 1]
        further = f"lies further toward {toward} with {first} than with {second}"
        sign = f"the gap {further if finding.estimate.value else f'is the same with {first} and with {second}'}"
    start = f"{sign[0].upper()}{sign[1:]}. " if sign else ""
    if in_points(finding.unit):
        percent = finding.unit == "percentage points"
        return start + (
            "Points are percentage points." if percent else f"A point is a hundredth of the {finding.unit}."
        )
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
    if missing := finding.estimate.n_unscored:
        every = finding.estimate.n + missing
        yield f"{missing} of {every} units ({100 * missing / every:.0f} %) were not scored."


def beside(results: Sequence[Finding]) -> list[str]:
    """Sentences under an answer: interval and cautions of its only headline, else of the test of all groups."""
    one = results[0] if len(results) == 1 else next((each for each in results if each.tests_all_groups), None)
    return [] if one is None else [sentence for sentence in (certainty(one), *cautions(one)) if sentence]


def influence(finding: Finding) -> str:
    """What could turn a headline; blank for nothing."""
    changes = {"sign": "other sign", "lost": "not significant", "gained": "significant"}
    return "; ".join(
        f"{changes[change]} without {item} ({factor})" if change in changes
        else f"{factor.replace('_', ' ')} has the other sign ({item})" if change == "score" else f"and {item} more"
        for change, factor, item in finding.influences
    )  # fmt: skip


def sensitivity(finding: Finding, found: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """The same question counted in other ways: what is changed, value, 95 % interval, verdict or p-value."""
    rows = [("nothing: the result", value(finding), interval(finding) or "–", word(finding))]
    if not math.isnan(finding.lowest):
        ends = ends_of(finding, finding.lowest, finding.highest)
        rows.append(("any one template, condition or word left out", ends, "–", influence(finding)))
    if not math.isnan(finding.signs_kept):
        rows.append(("each rewording by itself", "–", "–", f"same sign in {100 * finding.signs_kept:.0f} %"))
    if not math.isnan(finding.worst_low):
        rows.append(("missing answers counted either way", bounds(finding), "–", ""))
    wanted = (finding.model_id, finding.subset, finding.contrast, finding.slice_by, finding.slice_value)
    for one in found:
        others = (one.measure == finding.measure and one is not finding) or one.measure == "gap_beyond_wording"
        if (
            others
            and (one.score == "score" or not one.view)
            and one.score != JUDGED
            and wanted == (one.model_id, *one.key()[1:2], *one.key()[3:])
        ):
            name = _VARIATIONS.get(one.measure) or _VARIATIONS.get(one.score, plain(one.score))
            if one.view == AS_PUBLISHED:
                name = "the paper's test, which treats prompts as independent"
            verdict = word(one) if one.verdict else f"p {tested(one.estimate)}"
            rows.append((name, value(one), interval(one) or "–", verdict))
    return rows if len(rows) > 1 and not math.isnan(finding.estimate.value) else []


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


def all_alike(count: int, cells: Sequence[str], heads: Sequence[str]) -> str:
    """A sentence in place of the rows of a chart that all show the same."""
    shown = [f"{head} {cell}" for head, cell in zip(heads, cells, strict=False) if cell not in ("", "–")]
    return f"All {count} rows are the same: {', '.join(shown)}." if shown else f"None of the {count} could be scored."


def effect_name(finding: Finding) -> str:
    """Which kind of contrast between groups a finding is of."""
    return _EFFECTS.get(finding.measure, "gaps between groups")


def rate_caption(experiment: Experiment, finding: Finding) -> str:
    """What a rate by phenotype is of."""
    both = " minus ".join(group_name(experiment, one) for one in (experiment.group, experiment.reference_group))
    notes = "notes as written, each of its patient's own gender" if MEASURES[finding.measure].performed else "notes"
    sign = (
        f" A difference is {both}." if MEASURES[finding.measure].performed or MEASURES[finding.measure].signed else ""
    )
    return f"{MEASURES[finding.measure].unit} of {notes}, with 95 % intervals.{sign}"


def rate_value(finding: Finding) -> str:
    """A rate with its interval; of performance also the p-value of the difference."""
    tested = finding.estimate.p_adjusted
    return own_value(finding) + ("" if math.isnan(tested) else f", p {p_value(tested)}")


def rate_name(regime: str, finding: Finding) -> str:
    """The row of a rate: training notes, and in which version a flip is positive."""
    return f"{regime}: {direction(finding)}" if finding.measure == "flip_rate" else regime


def explained_name(explained: Sequence[Explained], names: Mapping[str, str]) -> str:
    """Which notes words are of: phenotype, training notes, and the scores of a single one."""
    one, many = explained[0], len(explained)
    scores = ", ".join(f"{one.scores[group]:.2f} as {name}" for group, name in names.items() if group in one.scores)
    which = f"{many} notes" if many > 1 else f"1 note: {scores}"
    return f"{value_name(one.phenotype)}, training notes {plain(one.regime)} ({which})"


# --- gates --------------------------------------------------------------------------------------------


def reason(check: Check) -> str:
    """What the outcome of a check rests on where that is not the printed interval; blank for that."""
    one, changed = check.finding.estimate, check.change or check.finding.estimate
    tested = "" if one.p_adjusted < LEVEL else f" (p {one.p_adjusted:.2g})"
    if check.why == "few_equal":
        return equal_pairs(check.finding, check.margin)
    return {
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
    }[check.why]


def check_name(check: Check) -> str:
    """Which gap a check is of: ``gendered_stigma:rq1, mental health minus other health``."""
    one = check.finding
    return shown(", ".join(filter(None, (f"{one.study}:{one.experiment}", compared(one), where(one, every="")))), 300)


def checked(check: Check) -> str:
    """A check of a gate: outcome, which gap, value, interval, and why."""
    one, parts, limit = check.finding, [], margin(replace(check.finding, margin=check.margin))
    if not math.isnan(one.estimate.value):
        parts.append(f"{size_of(one.estimate.value, one.unit, signed=True)}{_interval(one)}")
    outcomes = {PASSES: f"within the margin of {limit}", FAILS: f"beyond the margin of {limit}"}
    if check.change is not None:
        outcomes = {
            PASSES: f"not larger than the baseline by {limit}",
            FAILS: f"larger than the baseline by more than {limit}",
        }
        before = math.nan if check.baseline is None else check.baseline.value
        low, high = (
            amount(end, one.unit, signed=True, named=False) for end in (check.change.ci_low, check.change.ci_high)
        )
        sizes = (amount(end, one.unit, signed=True) for end in (before, check.change.value))
        parts.append("baseline {}, change {} ({} to {}) over {} units".format(*sizes, low, high, check.change.n))
    parts.append(reason(check) or {**outcomes, OPEN: f"the interval crosses the margin of {limit}"}[check.outcome])
    levels = [f"{size_of(each.estimate.value, each.unit, signed=True)} ({where(each)})" for each in check.levels]
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
    """What each model shows of one quantity (a headline of each): few one by one, of many how many show what."""
    if len(found) <= FEW:
        return " ".join(str(verdict(one)) for one in found)
    known = sorted((one for one in found if word(one) != "Not measured"), key=lambda one: one.estimate.value)
    if not known:
        return f"{len(found)} models could not be measured."
    least, most = value(known[0]), value(known[-1])
    start = f"{len(found)} models: {f'{least} in each' if least == most else f'{least} to {most}'}."
    if not all(one.verdict and MEASURES[one.measure].reach for one in known):
        return start
    counts = _counts(found, [f"a gap toward {side}" for side in sides(found[0])], 1)
    return f"{start} {counts[:1].upper()}{counts[1:]}."


def _counts(found: Sequence[Finding], toward: Sequence[str], sign: int) -> str:
    """How many values lie above zero, how many below, and how many have any other verdict."""
    names = []
    for one in found:
        name = word(one).lower()
        if one.verdict in _SURE:
            name = toward[0] if sign * one.estimate.value > 0 else toward[1]
        names.append(f"{name} (within {margin(one)})" if one.verdict == NONE else name)
    return listed([f"{name} in {names.count(name)}" for name in dict.fromkeys(names)])


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
    counts = _counts([one for _, one in found], _toward(found[0][1]), -1).replace("no gap", "no difference")
    return f"Compared with {shown(reference)}, of {len(found)} models: {counts}."


def _toward(finding: Finding) -> tuple[str, str]:
    """Where a model lies whose value is above the reference's, and where one below."""
    experiment = experiment_of(finding)
    if experiment is None or experiment.groups or experiment.factors:
        return "higher", "lower"  # of several contrasts one pair is not the other
    first, second = (group_name(experiment, name) for name in (experiment.group, experiment.reference_group))
    return f"further toward {first}", f"further toward {second}"


def _difference(finding: Finding, name: str, reference: str) -> str:
    """A difference in words: how far one model lies from another, by the verdict on it."""
    gap, start = away(finding), f"{difference_word(finding) or word(finding)}: "
    if word(finding) == "Not measured":
        return f"Not measured: {name} could not be compared with {reference}."
    if finding.verdict == TOO_FEW:
        return f"{start}{few_levels(finding.estimate)}."
    if gap == 0 and math.isnan(finding.estimate.error) and finding.verdict == NONE:
        return f"{start}{name} and {reference} score exactly the same."
    lies = f"{name} minus {reference} is {away_value(finding)}"
    if finding.verdict in _SURE:
        side = _toward(finding)[0 if gap > 0 else 1]
        lies = f"{name} lies {size_of(gap, finding.unit)} {side} than {reference}"
    return f"{start}{lies}{_tail(finding)}."


def away_value(finding: Finding) -> str:
    """How far the second of two models lies above the first, and the 95 % interval: ``+3.1 (−0.4 to +6.6)``."""
    one = finding.estimate
    size, *ends = (
        amount(-end + 0.0, finding.unit, signed=True, named=False) for end in (one.value, one.ci_high, one.ci_low)
    )
    return size if math.isnan(one.ci_low) else f"{size} ({' to '.join(ends)})"


def own_value(finding: Finding) -> str:
    """A value with its 95 % interval, and its bounds if answers are missing: ``+3.1 (−0.4 to +6.6)``."""
    text, ends = value(finding).removesuffix(" points"), interval(finding)
    lost = (
        "" if math.isnan(finding.worst_low) or finding.measure != "mean" else "; {} to {} whatever was not answered"
    )
    return (f"{text} ({ends})" if ends else text) + lost.format(
        *(level(end, finding) for end in (finding.worst_low, finding.worst_high))
    )


def difference_word(finding: Finding) -> str:
    """What is concluded of a difference of two models; blank where nothing is."""
    return word(finding).replace("gap", "difference").replace("Gap", "Difference") if finding.verdict else ""


# --- numbers ------------------------------------------------------------------------------------------


def factor(unit: str) -> float:
    """What a value is multiplied by to be written in points: 100 for the range of its unit; 1 where it has none.

    >>> factor("P(negative)"), factor("percentage points"), factor("score of a rule")
    (100.0, 1.0, 1.0)
    """
    return 100 / SPANS[unit] if in_points(unit) else 1.0


def in_points(unit: str) -> bool:
    """Whether values of a unit are written in points."""
    return math.isfinite(SPANS.get(unit, math.inf))


def in_percent(measure: str) -> bool:
    """Whether a measure is a share, or a difference of two, which is written in percent or in points."""
    record = MEASURES[measure]
    share = record.scale is not None and record.scale.most == 1 and measure != "direct_bias"
    return measure in _PERCENT or (record.performed in _SHARES if record.performed else share)


def amount(value: float, unit: str, *, signed: bool = False, named: bool = True) -> str:
    """A gap in points, or in its own unit where that has no range.

    >>> amount(0.1234, "P(negative)"), amount(-0.0002, "P(negative)"), amount(-0.5, "P(negative)", signed=True)
    ('12.3 points', 'less than 0.1 points', '−50.0 points')
    """
    if math.isnan(value):
        return "–"
    points = in_points(unit)
    digits = 1 if points else 3
    exact = value * factor(unit) if signed else abs(value * factor(unit))
    text = number(exact, signed=signed, digits=digits)
    if not signed and exact and not round(exact, digits):
        text = f"less than {10**-digits:.{digits}f}"
    short = "points" if points else "log-odds" if "log-odds" in unit else unit
    return f"{text} {short}" if named else text


def number(value: float, *, signed: bool = False, digits: int = 3) -> str:
    """A number with its sign where that means something; a dash for NaN; zero has no sign.

    >>> number(0.12345), number(-0.5, signed=True), number(-0.0001), number(float("nan"))
    ('0.123', '−0.500', '0.000', '–')
    """
    if math.isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0
    return (f"{rounded:+.{digits}f}" if signed and rounded else f"{rounded:.{digits}f}").replace("-", "−")


def _ratio_of(unit: str) -> str:
    """What a log ratio is a ratio of; blank for other units."""
    return next((name for ending, name in _RATIOS.items() if ending in unit), "")


def size_of(value: float, unit: str, *, signed: bool = False) -> str:
    """A gap in a sentence: in points, of logs as a ratio.

    >>> size_of(0.05, "P(negative)"), size_of(0.6931, "natural log-odds of the right answer")
    ('5.0 points', 'an odds ratio of 2.00')
    """
    if (ratio := _ratio_of(unit)) and not math.isnan(value):
        return f"{'an' if ratio == 'odds' else 'a'} {ratio} ratio of {math.exp(value if signed else abs(value)):.2f}"
    return amount(value, unit, signed=signed)


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
    return 100.0 if in_percent(finding.measure) else factor(finding.unit)


def level(value: float, finding: Finding) -> str:
    """A value as it is written without its unit: a gap with its sign, a rate in percent, else three decimals."""
    record = MEASURES[finding.measure]
    if record.reach or finding.measure in _SIGNED:
        return amount(value, finding.unit, signed=True, named=False)
    if in_percent(finding.measure):
        return number(100 * value, signed=record.signed, digits=1) + (
            "" if record.signed or math.isnan(value) else " %"
        )
    return number(value * factor(finding.unit), digits=1 if in_points(finding.unit) else 3)


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


def value_of(finding: Finding) -> str:
    """A finding's value in its own unit: a count without decimals, a signed gap, a plain mean."""
    record = MEASURES[finding.measure]
    return number(finding.estimate.value, signed=record.signed, digits=0 if record.whole else 3)


def interval_of(finding: Finding) -> str:
    """The interval in the finding's own unit; a dash where there is none."""
    one, signed = finding.estimate, MEASURES[finding.measure].signed
    ends = " to ".join(number(end, signed=signed) for end in (one.ci_low, one.ci_high))
    return "–" if math.isnan(one.ci_low) else ends


def p_value(value: float) -> str:
    """A p-value, never printed as zero.

    >>> p_value(0.0312), p_value(1e-9), p_value(float("nan"))
    ('0.031', '<0.001', '–')
    """
    return "<0.001" if value < 0.001 else number(value)


def tested(estimate: Estimate) -> str:
    """The p-value, corrected where its family has been."""
    return p_value(estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted)


def counted(estimate: Estimate) -> str:
    """How many units an estimate rests on, and in brackets those that were not scored."""
    return f"{estimate.n} (+{estimate.n_unscored})" if estimate.n_unscored else str(estimate.n)


# --- names --------------------------------------------------------------------------------------------


def shown(text: str, limit: int = NAME_LENGTH) -> str:
    """A text from outside: one line, a mark for what cannot be seen, an ellipsis where it is long.

    >>> shown("gpt\\u200b2"), shown("a" * 9, limit=4)
    ('gpt�2', 'aaa…')
    """
    seen = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def plain(name: str) -> str:
    """A column value as words: ``mental_health`` -> ``mental health``."""
    return name.replace("_", " ").replace(" - ", " − ")


def value_name(value: str) -> str:
    """A value of a slice as words; a user's notes have one label, which has no name.

    >>> value_name("mental_health"), value_name("none"), value_name("own")
    ('mental health', 'no condition named', 'own notes')
    """
    return {"none": "no condition named", "": "(blank)", OWN_NOTES: "own notes"}.get(value, plain(value))


def group_place(experiment: Experiment, group: str) -> int:
    """Which colour and shape a group has, wherever it is drawn: the compared one 0, its reference 1."""
    order = list(dict.fromkeys([experiment.group, experiment.reference_group, *experiment.levels]))
    return order.index(group) if group in order else len(order)


def group_name(experiment: Experiment, group: str) -> str:
    """A group in words; what is pooled, or about nobody, is named as that."""
    known = {"all": "all groups", "baseline": "nobody named", "unspecified": "neither"}
    return experiment.named.get(group) or known.get(group, plain(group))


def set_name(finding: Finding, name: str) -> str:
    """A group or a set of conditions, as its study names it."""
    experiment = experiment_of(finding)
    return (experiment.named.get(name) if experiment else None) or plain(name)


def sliced(finding: Finding) -> str:
    """The value of a slice in words; notes of a user's own have one label, which has no name."""
    if (finding.slice_by, finding.slice_value) != ("phenotype", OWN_NOTES):
        return value_name(finding.slice_value)
    experiment = experiment_of(finding)
    return "the label of these notes" if experiment and experiment.rates else "these notes"


def sides(finding: Finding) -> tuple[str, str]:
    """The two groups of a gap in words, that of a positive gap first."""
    experiment, names = experiment_of(finding), (finding.group, finding.reference_group)
    if not finding.reference_group:
        names = (experiment.group, experiment.reference_group) if experiment else (finding.contrast, "other")
    return set_name(finding, names[0]), set_name(finding, names[1])


def pair_name(finding: Finding) -> str:
    """What is subtracted from what, by the names of groups; of an effect its contrast."""
    both = " minus ".join(sides(finding))
    if finding.within:
        return f"{both} for {' against '.join(set_name(finding, one) for one in (finding.within, finding.against))}"
    return both if finding.group else plain(finding.contrast)


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


def compared(finding: Finding) -> str:
    """What a gap subtracts from what, groups by the names that sentences give them; any other quantity in words."""
    experiment = experiment_of(finding)
    whole = finding.score == "score" and finding.measure in ("paired_gap", "group_gap", "answer_bias")
    if experiment and whole and {finding.group, finding.reference_group} <= {*experiment.compared}:
        return " minus ".join(group_name(experiment, one) for one in (finding.group, finding.reference_group))
    if finding.measure == "gap_difference":
        return f"difference of gaps, {' minus '.join(sides(finding))}"
    return quantity(finding)


def quantity(finding: Finding) -> str:
    """What a finding's value is, in words."""
    contrast = plain(finding.contrast)
    # a mean of anything but a group is named in full: "answers unsure"
    named = finding.measure == "mean" and " " in contrast
    what = contrast if named else MEASURES[finding.measure].title.format(contrast=contrast)
    if finding.score == JUDGED:
        return f"by the judge: {what}"
    return what if finding.score == "score" else f"{what} ({plain(finding.score)})"


def where(finding: Finding, every: str = "all") -> str:
    """Which rows a finding is about; the training condition of a model that was trained elsewhere is not named."""
    parts = [plain(finding.subset)] if finding.subset not in ("", "as trained") else []
    if finding.slice_value == OWN_NOTES:
        parts.append(value_name(finding.slice_value))
    elif finding.slice_by != "all":
        parts.append(f"{finding.slice_by}: {plain(finding.slice_value)}" if finding.slice_value else finding.slice_by)
    return ", ".join(parts) or every


# --- a terminal ---------------------------------------------------------------------------------------


def terminal(found: Sequence[Finding], *, brief: bool = False) -> str:
    """What each experiment found about each model: verdicts, the numbers behind them, how far they hold.

    With ``brief`` the verdicts alone, where there are several questions.
    """
    results = questions(found)
    return "\n\n".join("\n".join(_question(one, found, brief and len(results) > 1)) for one in results)


def _question(several: Sequence[Finding], found: Sequence[Finding], alone: bool) -> Iterator[str]:
    first, experiment, indent = several[0], experiment_of(several[0]), 16
    name = f"{first.study}:{first.experiment}, {shown(first.model_id)}"
    yield from _wrapped(f"{name}: {experiment.question if experiment else ''}".removesuffix(": "))
    for one in verdicts(several, found):
        label, lines = f"  {one.word.upper()}", _wrapped(one.text, indent)
        if len(label) < indent:
            lines[0] = f"{label:<{indent}}{lines[0].strip()}"
        else:
            yield label
        yield from lines
    if alone:
        return
    yield from _numbers([*(part for one in several for part in parts(one, found)), *several])
    if len(several) == 1:
        for line in (*cautions(first), certainty(first), published(first, found)):
            yield from _wrapped(line, 2) if line else ()


def _numbers(found: Sequence[Finding]) -> Iterator[str]:
    """A small table, where there are several numbers and all are gaps in points."""
    if len(found) < 2 or not all(MEASURES[one.measure].reach and in_points(one.unit) for one in found):
        return
    rows = [("", "points", "95 % interval", "n", "verdict")] + [
        (row_name(one), value(one).removesuffix(" points"), interval(one) or "–", counted(one.estimate),
         word(one).lower())
        for one in found
    ]  # fmt: skip
    first, *widths, last = (max(len(row[place]) for row in rows) for place in range(5))
    first = min(first, WIDTH - 10 - sum(widths) - last)
    yield ""
    for name, *cells, end in rows:
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"  {shown(name, first):<{first}}  {numbers}  {end}".rstrip()
    yield ""


def _wrapped(sentence: str, indent: int = 0) -> list[str]:
    space = " " * indent
    return textwrap.wrap(shown(sentence, _LONGEST), WIDTH, initial_indent=space, subsequent_indent=space) or [""]


def comparison_tables(found: Sequence[Finding]) -> "list[Table]":
    """Every comparison over all rows, headlines first, and apart from them what a judge found."""
    judged = by_the_judge(found)
    tables = [terminal_table("Every comparison over all rows", comparisons(found, rates=True))]
    return [*tables, terminal_table("By the judge, which was shown no group", judged)] if judged else tables


def terminal_table(title: str, found: Sequence[Finding]) -> "Table":
    """Findings, one row each. Names from outside stand there without markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("finding", min_width=30)
    for name in ("value, 95 % interval", "p", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        what = f"{one.study}:{one.experiment}, {where(one)}: {quantity(one)}, {inference(one)}"
        verdict = difference_word(one) if one.measure == DIFFERENCE else word(one) if one.verdict else ""
        if one.measure == "group_leakage":
            verdict = blinding(one)
        known = f"\n{one.published.source} {one.published.value}" if one.published and one.published.value else ""
        table.add_row(
            Text(shown(what, 500) + (f"\n→ {verdict}" if verdict else "")),
            f"{value_of(one)} ({interval_of(one)}){known}", tested(one.estimate), counted(one.estimate),
        )  # fmt: skip
    return table


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


# --- what a sign means, what an interval is over ---------------------------------------------------------


_SIGNS = {
    "group_spread": "0: no group differs from the others",
    "interaction_of_three": "above zero toward the first of each factor; 0: the factors add up",
    "bias_difference": "above zero: more bias than without adjectives",
    "gap_beyond_wording": "the gap over the prompts and their rewordings together",
    "sign_kept": "the share of rewordings in which the gap has its sign",
    "correlation": "above zero both rise together",
    "leakage_uar": "0.5 is chance; 1: the gender is predicted from every note",
    "kappa": "1: always alike; 0: no more than by chance",
    "group_leakage": "1: the group is predicted from every answer",
    "direct_bias": "0: the words stand at right angles to the gender direction",
    "signed_mean": "above zero toward female, below toward male",
}
_WITH_HIGHER = ("flip_rate", "tpr_difference", "log_tprr", "tprr", "fpr_difference", "log_fprr", "fprr")
_MORE = {"nonanswer_gap": "no answer", "truncation_gap": "an answer that is cut off"}


def direction(finding: Finding) -> str:
    """What the value's sign means, or who has the higher rate; blank for what has no direction."""
    name, experiment, record = finding.measure, experiment_of(finding), MEASURES[finding.measure]
    declared = experiment.direction if experiment else f"above zero {finding.group or 'the first'} is higher"
    if name == DIFFERENCE:
        return f"above zero the first model is higher: {declared}"
    if name == EFFECTS[0]:
        return f"above zero the first is higher, averaged over the other factors; of groups: {declared}"
    if name in ("gap_difference", EFFECTS[1]):
        adds = "; 0: the factors add up" if name == EFFECTS[1] else ""
        return (
            f"above zero the gap lies further toward {finding.group} with {finding.within} than with "
            f"{finding.against}, below zero further toward {finding.reference_group}{adds}"
        )
    if name == "intersection":
        side = "below" if finding.from_mean < 0 else "above"
        sizes = f"{finding.from_mean:+.3g} from the mean of all groups, its parts add up to {finding.parts:+.3g}"
        return f"above zero {finding.intersection} lies further {side} the mean than its parts add up to: {sizes}"
    if name in _MORE:
        return f"above zero more {finding.group or 'of the first'} prompts get {_MORE[name]}"
    if record.performed:
        own = "0: equal; patients of either gender in their own notes, which differ in more than words"
        return own if finding.reference_group else ""
    if name in _WITH_HIGHER:
        return _higher(finding)
    return declared if record.reach else _SIGNS.get(name, "")


def _higher(finding: Finding) -> str:
    """Which group has the higher rate; of flips how many notes are positive in the version of one group alone."""
    said = f"{finding.higher_group} higher" if finding.higher_group else "equal"
    if math.isnan(finding.estimate.value):
        said = "not defined"
    if math.isnan(finding.only_group):
        return said
    experiment = experiment_of(finding)
    group, reference = (experiment.group, experiment.reference_group) if experiment else ("first", "second")
    counts = f"{group} version alone: {finding.only_group:.0f}, {reference}: {finding.only_reference:.0f}"
    return f"{said} (positive in the {counts})"


def inference(finding: Finding) -> str:
    """What interval and p-value are over: ``over templates and diagnoses``; blank where nothing was tested."""
    over = finding.view or ("" if finding.estimate.test == "none" else "these rows only")
    if finding.cluster_vars:
        written = " as written" if MEASURES[finding.measure].performed else ""
        paired = ", paired" if finding.measure == DIFFERENCE else ""
        over = f"over {finding.cluster_vars.replace(' + ', ' and ')}{written}{paired}"
    each = f"at each of {finding.looks} looks (level {interim_level(finding.looks):.3g})" if finding.looks > 1 else ""
    return ", ".join(filter(None, (each, over)))
