"""Every sentence about results and how numbers are written, for terminal, page, card and gate; it decides nothing."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from swapbias import findings
from swapbias.findings import (
    DIFFERENCE,
    EFFECTS,
    FAILS,
    LEVEL,
    OPEN,
    PASSES,
    Check,
    Finding,
    Gate,
    experiment_of,
)
from swapbias.measures import (
    MEASURES,
    MOSTLY_TIED,
    Comparison,
    Estimate,
    Unit,
    at_level,
    comparison_of,
    is_comparison,
)
from swapbias.studies import JUDGED, Experiment

FOUND, SMALL, UNSTABLE, NONE, UNDECIDED, UNMEASURED, TOO_FEW = findings.VERDICTS
FEW = 4  # models that a sentence names one by one
MOST_NAMES = 5  # of a list in a sentence
WIDTH = 80  # columns of a terminal
OWN_NOTES = "own"  # the phenotype of a user's notes whose label has no name
_LOW = 0.25  # mean rates below it are also compared by their ratio
_EQUAL = 1e-9  # a spread of means below it is rounding
_LONGEST = 2_000  # characters of a sentence
_SURE = (FOUND, SMALL, UNSTABLE)
_WORDS = {
    **dict.fromkeys(_SURE, "Gap"),
    NONE: "No gap",
    UNDECIDED: "Undecided",
    UNMEASURED: "Not measured",
}
_CLAIMS = {
    "masked": "prefers words for {more} to words for {less}",
    "causal": "finds texts about {more} likelier than those about {less}",
}
_RATES = {
    "flip_rate": "the share of notes whose prediction changes with the patient's gender",
    "leakage_uar": "the average recall of the patient's gender from notes (50 % is chance)",
    "direct_bias": "the mean absolute cosine of the words with the gender direction (0 is none)",
}
# What the sign or the size of a value means; of other answers as their experiment declares it.
_SIGNS = {
    DIFFERENCE: "above zero the model that stands first in the contrast is higher: {declared}",
    "gap_difference": (
        "above zero the gap lies further toward {one.group} with {one.within} than with {one.against}, "
        "below zero further toward {one.reference_group}"
    ),
    **dict.fromkeys(("interaction", "interaction_of_three"), "0: the factors add up"),
    "main_effect": "above zero the first is higher, averaged over the other factors; of groups: {declared}",
    "group_spread": "0: no group differs from the others",
    "flip_rate": "{higher}",
    "leakage_uar": "0.5 is chance; 1: the gender is predicted from every note",
    "direct_bias": "0: the words stand at right angles to the gender direction",
}
_TESTS = {
    findings.AS_PUBLISHED: "the paper's test, which treats prompts as independent",
    findings.INDEPENDENT: "a test that treats prompts as independent",
}
_VARIATIONS = {
    "matched_mass": "only words with an equally frequent match",
    "closed_list_mass": "all listed words",
    "log_odds": "log-odds in place of probabilities",
    "gap_beyond_wording": "the prompts and their rewordings together",
    "gap_without_doubtful": "notes whose swap is doubtful left out",
}
_LEAKS = {
    "leaks": "WARNING, answers show the group without its words as well, by more than the judgement",
    "leaks_in_judgement": "WARNING, answers show the group without its words, by their wording or their judgement",
}
# What decides a check of a gate in place of the printed interval.
_REASONS = {
    "": "",
    findings.SAME_SCORE: "every prompt has the same score",
    findings.SAME_INPUT: "the model reads the same input for both texts of each pair",
    findings.UNREAD_SWAP: "the model does not seem to read the swapped words",
    findings.UNNAMED_FILLS: "the names or words that the texts swap could not be found; add a column name",
    findings.NO_CONTROL: "no pair moves, and the model could not be asked whether it reads the swapped words",
    findings.NOTHING_SCORED: "nothing was scored that the question needs",
    MOSTLY_TIED: "more than half of the pairs differ by the same, of which a median says nothing",
    findings.MOSTLY_UNSCORED: "more than half could not be scored",
    findings.NOT_STABLE: "too few rewordings have the same sign",
    findings.NO_SPREAD: "there is no interval, because too little varies or was scored",
    findings.NO_RANGE: "the range of the score is not known: audit again with range",
    "same_model_scores": "both models score these prompts the same",
    "few_equal_changes": "nothing varies, and {changed.n} pairs are too few to rule out a larger change",
    "sign_test_of_change": "all {changed.n} change by the same: sign test",
}
# Why several gaps are undecided, as the ends of a sentence that names them.
_OPEN = {
    "": "may be chance",
    findings.FEW_EQUAL: "hardly vary over too few {names} to rule out a gap of {margin}",
    findings.MISSING_SCORES: "lack scores that could change this",
    findings.MOSTLY_UNSCORED: "lack more than half of their scores",
    findings.REPEATED_ANSWERS: "have one answer for most prompts, and others that were not read",
}
_DIFFERENCE_OF = "difference of gaps, "  # before the names of two groups
_NOTHING_SCORED = "could not score what the question needs"
_UNMEASURED_CLAIMS = {
    findings.SAME_SCORE: "gives every prompt the same score",
    findings.SAME_INPUT: "reads the same input for both texts of each pair",
    findings.UNREAD_SWAP: "does not seem to read the swapped words. Strong words in their place move no score either",
    findings.NO_CONTROL: (
        "scores all pairs alike, and could not be asked whether it reads the swapped words. Resume or repeat the run"
    ),
    MOSTLY_TIED: (
        "gives more than half of the pairs the same difference, so a median says nothing of the others. Compare means"
    ),
}
_NO_RANGE = (
    "The range of the score is not known, so no margin applies. Give it: -M range=LOW,HIGH, in Python "
    "range=(LOW, HIGH), in study.toml range = [LOW, HIGH]."
)
# What a gap would be without one item.
_CHANGES = {
    "sign": "a gap in the other direction",
    FOUND: "a gap",
    SMALL: "a gap within the margin",
    UNSTABLE: "a gap that is not robust",
    NONE: "no gap",
    UNDECIDED: "undecided",
    TOO_FEW: "too few levels",
    UNMEASURED: "not measured",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conclusion: its word (Gap, No gap, Undecided, Too few ..., Not measured; blank for a rate) and sentence."""

    word: str
    text: str

    def __str__(self) -> str:
        """Word and sentence: ``No gap: vader's gap, women minus men, is 0.0 points.``"""
        return f"{self.word}: {self.text}" if self.word else self.text


def questions(found: Sequence[Finding]) -> list[list[Finding]]:
    """The primary findings of each experiment and model."""
    results: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings.primary_findings(found):
        results.setdefault((one.study, one.experiment, one.model_id), []).append(one)
    return list(results.values())


def verdicts(results: Sequence[Finding], found: Sequence[Finding] = ()) -> list[Verdict]:
    """What the primary findings of an experiment and model come to; of many alike one sentence for all of them."""
    if whole := next((one for one in results if one.tests_all_groups), None):
        first, *others = _of_groups(whole, results)
        return [first, *(Verdict("", str(one)) for one in others)]
    if len(results) == 1:
        return [verdict(results[0]), *_of_sets(parts(results[0], found))]
    if all(one.verdict for one in results):
        return [*_several(results, lambda one: value_name(one.slice_value), "for ")]
    return [*_range_of_rates(results)]


def word(finding: Finding) -> str:
    """The word of a verdict; blank for what has none."""
    if math.isnan(finding.estimate.value) or finding.verdict == UNMEASURED:
        return "Not measured"
    if finding.verdict == TOO_FEW:
        return f"Too few {finding.estimate.fewest_of or 'pairs'}"
    named = _WORDS.get(finding.verdict, "")
    return (
        named
        if finding.measure != DIFFERENCE
        else named.replace("gap", "difference").replace("Gap", "Difference")
    )


def verdict(finding: Finding, place: str = "") -> Verdict:
    """One finding by itself; ``place`` stands before its sentence (``with other conditions``)."""
    place = place or (f"for {value_name(finding.slice_value)}" if finding.slice_by != "all" else "")
    return Verdict(
        word(finding), ", ".join(filter(None, (place, about(finding), f"{_sentence(finding)}.")))
    )


def about(finding: Finding) -> str:
    """The levels that a claim is about alone: ``for these 3 topics``; blank where there are none."""
    levels = [
        f"this one {name}" if count == "1" else f"these {count} {name}"
        for count, _, name in (one.partition(" ") for one in finding.fixed.split(" + ") if one)
    ]
    return f"for {listed(levels)}" if levels else ""


def _sentence(finding: Finding) -> str:
    one, model, (first, second) = finding.estimate, shown(finding.model_id), sides(finding)
    if word(finding) == "Not measured" and finding.measure == DIFFERENCE:
        return f"{first} could not be compared with {second}"
    if finding.reason == findings.UNNAMED_FILLS:
        return "the names or words that these texts swap could not be found. Add a column name"
    if finding.verdict == UNMEASURED:
        return f"{model} {_UNMEASURED_CLAIMS.get(finding.reason, _NOTHING_SCORED)}"
    if math.isnan(one.value):
        return f"{model} {_NOTHING_SCORED}"
    if finding.measure == findings.SPREAD:
        different = "different" if one.p_adjusted < LEVEL else "no difference shown"
        return f"{model}: {plain(finding.contrast)}: {different} (one test of all, p {p_value(one.p_adjusted)})"
    if not finding.verdict or not _is_gap(finding):
        return f"{model}: {_RATES.get(finding.measure) or quantity(finding)} is {_size(finding)}"
    if finding.verdict in (NONE, UNDECIDED) and findings.nothing_moves(finding, finding.margin):
        return (
            _alike(finding, finding.margin)
            if finding.verdict == NONE
            else equal_pairs(finding, finding.margin)
        )
    few = f"{too_few_levels(one)}. Among them " if finding.verdict == TOO_FEW else ""
    return f"{few}{_claim(finding)} {_size(finding)}{_ending(finding)}"


def too_few_levels(estimate: Estimate) -> str:
    """That the levels of a random factor are too few for a verdict, and how many are needed."""
    count = findings.levels_of(estimate)
    names = estimate.fewest_of or "pairs"
    if count == 1:
        return f"a verdict about {names} cannot rest on one; at least {findings.FEWEST} are needed"
    return f"{count} {names} are too few for a verdict; at least {findings.FEWEST} are needed"


def _is_gap(finding: Finding) -> bool:
    record = MEASURES[finding.measure]
    return record.gap_span > 0 or record.like_gap


def _is_claim(finding: Finding) -> bool:
    return finding.verdict in _SURE and bool(finding.group or finding.measure not in EFFECTS)


def _toward(finding: Finding) -> str:
    experiment = experiment_of(finding)
    place = int(finding.estimate.value <= 0)
    if finding.measure != DIFFERENCE:
        return f"toward {sides(finding)[place]}"
    if (
        experiment is None or len(experiment.compares.groups) > 1 or experiment.compares.factors
    ):  # one pair of several
        return ("higher", "lower")[place]
    group = (experiment.compares.group, experiment.compares.reference)[place]
    return f"further toward {group_name(experiment, group)}"


def _comparison(finding: Finding) -> Comparison | None:
    """How the two groups of a finding were compared; None where that is not known."""
    if is_comparison(finding.measure):
        return comparison_of(finding.measure)
    experiment = experiment_of(finding)
    return experiment.comparison if experiment else None


def _gap_words(finding: Finding) -> str:
    """What sentences call a gap: ``gap``, ``median gap``."""
    comparison = _comparison(finding)
    return comparison.gap_words if comparison else "gap"


def _by_words(finding: Finding) -> str:
    """What stands before the size of a gap: ``by``, ``by a median of``."""
    comparison = _comparison(finding)
    return comparison.by_words if comparison else "by"


def _claim(finding: Finding) -> str:
    """Who does what with whom, by the words of the study; where that is no claim, which gap it is."""
    return f"{_claim_without_by(finding)} {_by_words(finding) if _has_by(finding) else 'is'}"


def _has_by(finding: Finding) -> bool:
    """Whether a claim ends in a size by which something differs, and not in what a gap is."""
    moves = finding.measure == "gap_difference" or (
        finding.measure in EFFECTS and bool(finding.within)
    )
    return _is_claim(finding) or (moves and finding.measure != DIFFERENCE)


def _claim_without_by(finding: Finding) -> str:
    """A claim without the words before its size."""
    experiment, model, (first, second) = (
        experiment_of(finding),
        shown(finding.model_id),
        sides(finding),
    )
    claimed = _is_claim(finding)
    is_effect = finding.measure in EFFECTS
    if finding.measure == DIFFERENCE:
        return (
            f"{first} lies {_toward(finding)} than {second}"
            if claimed
            else f"{first} minus {second}"
        )
    if finding.measure == "gap_difference" or (is_effect and finding.within):
        names = " instead of ".join(
            group_name(experiment, one) for one in (finding.within, finding.against)
        )
        change = (
            experiment.words.change
            if experiment and not is_effect and experiment.words.change
            else names
        )
        where_to = _toward(finding) if claimed else f"between {first} and {second}"
        return f"{change} moves {model}'s {_gap_words(finding)} {where_to}"
    if claimed:
        more, less = (first, second) if finding.estimate.value > 0 else (second, first)
        says = (experiment.words.says or _CLAIMS.get(experiment.kind, "")) if experiment else ""
        return (
            f"{model} {(says or 'scores {more} higher than {less}').format(more=more, less=less)}"
        )
    whole = f"interaction, {plain(finding.contrast)}" if is_effect and not finding.group else ""
    return f"{model}'s {whole or f'{_gap_words(finding)}, {first} minus {second}'},"


def _size(finding: Finding) -> str:
    """A value and its interval; of a claim without sign, the interval turned likewise: ``10.5 points (95 % ...)``."""
    one, (low, high), unit, claimed = (
        finding.estimate,
        within(finding),
        finding.scale,
        _is_claim(finding),
    )
    size = value(finding)
    ends = interval(finding)
    if _is_gap(finding):
        low, high = (-high, -low) if claimed and one.value < 0 else (low, high)
        written = (lambda end: f"{math.exp(end):.2f}") if unit.ratio_of else form_in(unit)
        size = amount(one.value, unit, signed=not claimed)
        ends = f"{written(low)} to {written(high)}"
    each = f" in each of {one.n} pairs" if claimed and math.isnan(one.std_error) else ""
    ends = ends.replace("+", "") if claimed else ends
    return f"{size}{each}" if math.isnan(low) else f"{size} ({interval_name(finding)} {ends})"


def interval_name(finding: Finding) -> str:
    """What the printed interval is: ``95 % interval``, or for how many questions or rows it holds at once."""
    if finding.questions < 2:
        return "95 % interval"
    over = "rows of this table"
    if finding.primary:
        over = (
            "differences of this comparison"
            if finding.measure == DIFFERENCE
            else "questions of this run"
        )
    return f"simultaneous 95 % interval over the {finding.questions} {over}"


def interval_head(found: Sequence[Finding]) -> str:
    """What a column of intervals is called; of several kinds ``95 % interval``, and each cell says its own."""
    if found and all(finding.questions > 1 for finding in found):
        return "simultaneous 95 % interval"
    return "95 % interval"


def interval_cell(finding: Finding, found: Sequence[Finding], *, own: bool = False) -> str:
    """The printed interval in a column of those of ``found``: ``−0.5 to +0.4 (simultaneous)`` among plain ones."""
    ends = interval(finding, own=own)
    is_named = "simultaneous" in interval_head(found)
    if is_named or finding.questions < 2 or math.isnan(finding.estimate.ci_low):
        return ends
    return f"{ends} (simultaneous)"


def covered_by(finding: Finding) -> str:
    """For how much an interval and a p-value hold: ``3 questions``, ``11 rows``; blank for the row alone."""
    if finding.questions < 2:
        return ""
    return f"{finding.questions} {'questions' if finding.primary else 'rows'}"


def margins(found: Sequence[Finding]) -> str:
    """The margins of a run's answers in words; ``the margin`` where there is none."""
    known = [
        finding for finding in findings.primary_findings(found) if not math.isnan(finding.margin)
    ]
    return listed(list(dict.fromkeys(map(margin, known)))) if known else "the margin"


def judged_alone(found: Sequence[Finding]) -> str:
    """That each study of several is judged alone, and how often one of so many null studies shows a gap."""
    primary = [
        finding
        for finding in findings.primary_findings(found)
        if finding.verdict not in ("", UNMEASURED) and not math.isnan(finding.estimate.value)
    ]
    count = len({(finding.study, finding.model_id) for finding in primary})
    if count < 2:
        return ""
    chance = 100 * (1 - (1 - LEVEL) ** count)
    several_models = len({finding.model_id for finding in primary}) > 1
    judged = "study and model" if several_models else "study"
    return (
        f"Each {judged} is judged alone. Where nothing differs, up to {chance:.0f} of 100 runs of {count} show a gap "
        "somewhere."
    )


def plain_interval(finding: Finding) -> str:
    """The 95 % interval of one question alone, where a wider one is printed; blank where it is the printed one."""
    one = finding.estimate
    if finding.questions < 2 or math.isnan(one.ci_low):
        return ""
    return interval(replace(finding, estimate=at_level(one, LEVEL)))


def _ending(finding: Finding) -> str:
    """What follows of a gap: how it lies to the margin, how robust it is, or why nothing is decided."""
    rest = (
        ", averaged over the rest"
        if finding.measure == EFFECTS[0] and finding.verdict in _SURE
        else ""
    )
    return f"{rest}{_ratio(finding)}{_weights(finding)}{_conclusion(finding)}"


def _ratio(finding: Finding) -> str:
    """How two rates compare as a ratio, where they are low; where they are high, how their complements do."""
    is_low = finding.mean_level < _LOW
    if not (is_low or finding.has_high_rate) or not finding.ratio > 0:
        return ""
    low, high = finding.ratio_interval
    ends = (
        f" ({interval_name(finding)} {low:.2f} to {high:.2f})"
        if finding.has_rare_rate and low == low
        else ""
    )
    rates = "the two rates" if is_low else "what is left to 100 %"
    return f". The ratio of {rates} is {finding.ratio:.2f}{ends}"


def _weights(finding: Finding) -> str:
    """That levels count alike, where the plain mean of the pairs is another."""
    plain_mean = form(finding)(finding.row_mean, named=True)
    if math.isnan(finding.row_mean) or plain_mean == form(finding)(
        finding.estimate.value, named=True
    ):
        return ""
    comparison = _comparison(finding)
    if comparison is not None and not comparison.is_mean:
        return f". The plain mean of all pairs is {plain_mean}"
    names = finding.estimate.fewest_of
    return f". All {names} count the same; the plain mean of all pairs is {plain_mean}"


def _conclusion(finding: Finding) -> str:
    """What the verdict of a gap rests on."""
    limit = f"the margin of {margin(finding)}"
    if finding.verdict == TOO_FEW:
        return ""
    if finding.verdict == FOUND:
        is_still = decision(finding).reason == findings.FEW_EQUAL
        return f". {capital(_too_few_equal(finding))}" if is_still else ""
    if finding.verdict == NONE:
        return f". The whole interval is within {limit}"
    if finding.verdict == SMALL:
        return f". The gap is smaller than {limit}"
    if finding.verdict == UNSTABLE:
        same = (
            "few"
            if math.isnan(finding.sign_agreement)
            else f"only {100 * finding.sign_agreement:.0f} % of"
        )
        return f". Not robust: {same} rewordings have the same sign"
    return f". {capital(_why_undecided(finding, finding.margin))}"


def _why_undecided(finding: Finding, limit: float) -> str:
    """Why a gap is undecided beside a margin in its unit, in the words of a sentence."""
    one = finding.estimate
    reason = findings.decide(finding, limit).reason
    if reason == findings.MISSING_SCORES:
        return _missing(finding)
    if reason == findings.MOSTLY_UNSCORED:
        return f"more than half could not be scored: {_missing(finding)}"
    if reason == findings.FEW_EQUAL:
        return _too_few_equal(finding, limit)
    if reason == findings.REPEATED_ANSWERS:
        share = 100 * finding.repeated_share
        unread = 100 * finding.unread_share
        return f"{share:.0f} % of the answers are one answer, and {unread:.0f} % are unread, refused or an error"
    if reason == findings.MIXED_SIGNS:
        return f"{mixed_signs(finding, limit)}: check which group each text is labelled with"
    if reason == findings.EXACT_TEST:
        names = one.fewest_of or "pairs"
        return f"all {one.n} differ by the same, over too few {names} (p {p_value(findings.adjusted_p(finding))})"
    if reason in _REASONS and reason:
        return _REASONS[reason].format(one=one, changed=one)
    if math.isnan(one.std_error):
        return "there is no interval, because too little varies or was scored"
    larger = (
        ""
        if math.isnan(limit)
        else f", and may be larger than the margin of {_limit(finding, limit)}"
    )
    return f"this may be chance{larger}"


def decision(finding: Finding) -> findings.Decision:
    """What the verdict of a finding rests on, beside its own margin."""
    return findings.decide(finding, finding.margin)


def _missing(finding: Finding) -> str:
    """How many units have no score, and what the gap could be."""
    count = _unscored(finding.estimate) or "some have no score"
    if not finding.bounds:
        return f"{count}, which could change this"
    return f"{count}. Counted either way, the gap is {_ends(finding, *finding.bounds)}"


def _unscored(estimate: Estimate) -> str:
    """How many units have no score: ``4 of 404 have no score``; blank where each has one."""
    if not estimate.n_unscored:
        return ""
    verb = "has" if estimate.n_unscored == 1 else "have"
    return f"{estimate.n_unscored:,} of {estimate.n + estimate.n_unscored:,} {verb} no score"


def mixed_signs(finding: Finding, limit: float) -> str:
    """That most pairs differ by more than a margin, in both directions, and by how much they differ on average."""
    size = amount(finding.mean_absolute, finding.scale)
    most = f"most pairs differ by more than {_limit(finding, limit)}"
    return f"{most}, in both directions (mean absolute difference {size})"


def _limit(finding: Finding, limit: float) -> str:
    """A margin in the unit of a finding as a sentence has it: ``5 points``."""
    return margin(replace(finding, margin=limit))


def parts(finding: Finding, found: Sequence[Finding]) -> list[Finding]:
    """The gaps of both sets of conditions that a difference compares, and of its baseline, where they were found."""
    if finding.measure != "gap_difference" or math.isnan(finding.estimate.value):
        return []
    place = (
        finding.study,
        finding.experiment,
        finding.model_id,
        "all",
        "score",
        "",
        finding.contrast,
    )
    alike = {
        one.subset: one
        for one in found
        if place
        == (
            one.study,
            one.experiment,
            one.model_id,
            one.slice_by,
            one.score,
            one.view,
            one.contrast,
        )
        and MEASURES[one.measure].gap_span == 1
        and one.verdict
        and not math.isnan(one.estimate.value)
    }
    return [
        alike[name]
        for name in (finding.within, finding.against, findings.BASELINE)
        if name in alike
    ]


def _of_sets(each: Sequence[Finding]) -> list[Verdict]:
    """The gap of each set of a difference: one conclusion where each is found, with one direction."""
    names = [f"with {group_name(experiment_of(one), one.subset)}" for one in each]
    if len(each) < 2 or {(FOUND, _toward(each[0]))} != {
        (one.verdict, _toward(one)) for one in each
    }:
        return [
            Verdict("", capital(verdict(one, name).text))
            for one, name in zip(each, names, strict=True)
        ]
    sizes = [
        f"{_by_words(one)} {amount(one.estimate.value, one.scale)} {name}"
        for one, name in zip(each, names, strict=True)
    ]
    claim = f"in each case {_claim_without_by(each[0])}, {listed(sizes)}"
    have_intervals = not any(math.isnan(one.estimate.ci_low) for one in each)
    return [
        Verdict(
            "Gap", f"{claim}. Each interval leaves out zero." if have_intervals else f"{claim}."
        )
    ]


def listed(names: Sequence[str], most: int = 1_000) -> str:
    """Names as a sentence lists them: ``a, b and c``; of many the first ``most``: ``a, b and 1 more``."""
    names = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _several(
    found: Sequence[Finding], name: Callable[[Finding], str], start: str = ""
) -> Iterator[Verdict]:
    """Gaps that are never pooled: the largest by itself, then those of one verdict and direction together."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for one in sorted(
        found, key=lambda one: -abs(one.estimate.value) if word(one) == "Gap" else 0.0
    ):
        key = (
            (word(one), one.verdict, _toward(one))
            if word(one) == "Gap" and alike
            else (word(one), one.verdict)
        )
        alike.setdefault(key, []).append(one)
    for (reached, *_), several in alike.items():
        first = several[0]
        noun = "gaps"
        titles = [name(one) for one in several]
        if all(title.startswith(_DIFFERENCE_OF) for title in titles):
            noun = "differences of gaps"
            titles = [title.removeprefix(_DIFFERENCE_OF) for title in titles]
        names = listed(titles, MOST_NAMES)
        ends = {
            "Gap": f"lie {_toward(first)} by up to {amount(first.estimate.value, first.scale)}{_ending(first)}",
            "No gap": f"are within the margin of {margin(first)}",
            "Undecided": _why_several(several),
        }
        if len(several) == 1:
            yield verdict(first)
        elif reached in ends:
            yield Verdict(reached, f"the {noun} {start}{names} {ends[reached]}.")
        else:
            few = too_few_levels(first.estimate) if first.verdict == TOO_FEW else _sentence(first)
            yield Verdict(reached, f"for {names}, {few}.")


def _why_several(found: Sequence[Finding]) -> str:
    """Why several gaps are undecided, as the end of a sentence that names them."""
    names = found[0].estimate.fewest_of or "pairs"
    reasons = dict.fromkeys(
        _OPEN.get(decision(finding).reason, "cannot be decided") for finding in found
    )
    return ", or ".join(reasons).format(
        margin=whole_amount(found[0].margin, found[0].scale), names=names
    )


def _range_of_rates(results: Sequence[Finding]) -> Iterator[Verdict]:
    known = sorted(
        (one for one in results if word(one) != "Not measured"), key=lambda one: one.estimate.value
    )
    if known:
        low, high = (
            f"{value(one)} ({value_name(one.slice_value)})" for one in (known[0], known[-1])
        )
        what = _RATES.get(known[0].measure) or quantity(known[0])
        yield Verdict(
            "",
            f"{shown(known[0].model_id)}: {what} is from {low} to {high}, by {known[0].slice_by}.",
        )
    if missing := [one for one in results if word(one) == "Not measured"]:
        yield verdict(
            missing[0],
            f"for {listed([value_name(one.slice_value) for one in missing], MOST_NAMES)}",
        )


def _of_groups(whole: Finding, results: Sequence[Finding]) -> Iterator[Verdict]:
    """The test of all groups, then gaps or effects, those alike together."""
    experiment = experiment_of(whole)
    one = whole.estimate
    model = shown(whole.model_id)
    judged = [each for each in results if MEASURES[each.measure].gap_span and each.verdict]
    groups = f"the {len(experiment.compared)} groups" if experiment else "the groups"
    p = one.p_value if math.isnan(one.p_adjusted) else one.p_adjusted
    test = (
        "(too little varies for a test)" if math.isnan(p) else f"(one test of all, p {p_value(p)})"
    )
    reached = "Gap" if p < LEVEL else "Undecided"
    says = f"no difference among {groups} of {model} was found {test}"
    if (
        not math.isnan(p)
        and whole.contrast == findings.ALL_GAPS
        and experiment
        and experiment.compares.contrast
    ):
        change = experiment.words.change or " instead of ".join(
            group_name(experiment, name) for name in experiment.compares.contrast
        )
        moves = "changes" if p < LEVEL else "is not shown to change"
        says = f"{change} {moves} {model}'s gaps between {groups} {test}"
    elif p < LEVEL:
        says = f"{model} scores {groups} differently {test}"
    elif math.isnan(p) and abs(one.value) < _EQUAL:
        reached = "No gap" if {each.verdict for each in judged} == {NONE} else reached
        says = f"{model} scores {groups} the same"
        if whole.contrast == findings.ALL_GAPS:
            says = f"{model}'s gaps between {groups} are the same in both sets of conditions"
    if whole.verdict == UNMEASURED or (math.isnan(p) and math.isnan(one.value)):
        yield verdict(whole)
        judged *= whole.verdict != UNMEASURED
    else:
        yield Verdict(reached, f"{says}.")
    yield from _several(judged, compared)


def certainty(finding: Finding) -> str:
    """What the interval allows for, for how many questions it holds at once, and which gap such a run detects."""
    one = finding.estimate
    if math.isnan(one.value):
        return ""
    if math.isnan(one.ci_low) and not finding.tests_all_groups:
        is_equal = not one.value and math.isnan(one.std_error) and is_comparison(finding.measure)
        why = "all pairs score the same" if is_equal else "too little varies or was scored"
        return f"There is no interval: {why}."
    random = finding.cluster_vars.replace(" + ", " and ")
    allows = f"allows for other {random} of the same kind" if random else "is about these rows only"
    texts = [
        f"The {'test of all groups' if finding.tests_all_groups else '95 % interval'} {allows}."
    ]
    if alone := plain_interval(finding):
        texts += [f"The plain 95 % interval of this question alone is {alone}."]
    if finding.minimum_detectable_effect > 0:
        texts += [
            f"An audit of this size {detects(finding.minimum_detectable_effect, finding.scale)}."
        ]
    return " ".join(texts)


def detects(gap: float, unit: Unit) -> str:
    """How large a gap must be to be found, planned or after a run: ``detects gaps of 3.3 points in 4 of 5 runs``."""
    return f"detects gaps of {amount(gap, unit)} in 4 of 5 runs"


def meaning(finding: Finding) -> str:
    """What the sign of a finding and a point of it mean."""
    sign = plain(direction(finding))
    if finding.measure == "gap_difference" and not math.isnan(finding.estimate.value):
        first, second = (
            group_name(experiment_of(finding), name) for name in (finding.within, finding.against)
        )
        lies = f"lies further {_toward(finding)} with {first} than with {second}"
        sign = f"the gap {lies if finding.estimate.value else f'is the same with {first} and with {second}'}"
    return f"{capital(sign)}. {point(finding)}".removeprefix(". ")


def point(finding: Finding) -> str:
    """What one point of a finding is, or its unit."""
    unit = finding.scale
    if unit.ratio_of is not None and not unit.has_no_range:
        return f"0.7 doubles the {unit.ratio_of.noun}."
    if unit.is_points or not unit.in_points:
        return f"Unit: {unit.name}."
    name = unit.in_words or unit.name
    if unit.taken_from:
        name = f"{model_unit(finding)}, taken as {name}"
    ends = "" if (unit.low, unit.high) == (0, 1) else f" (from {unit.low:g} to {unit.high:g})"
    return f"A point is a hundredth of the {'range of the ' if ends else ''}{name}{ends}."


def unit_of_levels(unit: Unit) -> str:
    """The unit of scores in points, with what 0 and 100 points are: ``stars, from 0 (1) to 100 (5)``."""
    if not unit.in_points or (unit.low, unit.high) in ((0, 1), (0, 100)):
        return unit.name
    return f"{unit.name}, from 0 ({unit.low:g}) to 100 ({unit.high:g})"


def model_unit(finding: Finding) -> str:
    """What a model itself gives for a text: ``score of toxicity``, ``probability of the label toxic of my-model``."""
    return f"{finding.scale.taken_from} of {shown(finding.model_id)}"


def cautions(finding: Finding, found: Sequence[Finding] = (), *, every: bool = True) -> list[str]:
    """What could change a primary finding and what is not in it; with ``every`` also how far it holds.

    ``found``: the findings of its run, which hold the same gap in other scores.
    """
    texts = []
    one = finding.estimate
    if findings.lacks_range(finding):
        texts.append(_NO_RANGE)
    if (whole := findings.with_every_word(finding, found)) is not None:
        texts.append(_below_threshold(finding, whole))
    if decision(finding).reason != findings.MIXED_SIGNS and finding.has_mixed_signs(finding.margin):
        texts.append(f"{capital(mixed_signs(finding, finding.margin))}.")
    if every and not math.isnan(finding.loo_min):
        ends = _ends(finding, finding.loo_min, finding.loo_max)
        texts.append(f"Whichever one template or condition is left out, the value is {ends}.")
    influences = [_influence(*influence) for influence in finding.influences]
    texts += [f"Not robust: {'; '.join(influences)}."] if influences else []
    if every and not math.isnan(finding.sign_agreement):
        texts.append(f"{100 * finding.sign_agreement:.0f} % of rewordings have the same sign.")
    if finding.bounds and not math.isnan(one.value):
        could = (
            ": they alone could turn its sign"
            if min(finding.bounds) < 0 < max(finding.bounds)
            else ""
        )
        texts.append(
            f"Counting missing answers either way, the value is {_ends(finding, *finding.bounds)}{could}."
        )
    if one.n_unscored:
        units = one.n + one.n_unscored
        texts.append(
            f"{one.n_unscored} of {units} units ({100 * one.n_unscored / units:.0f} %) were not scored."
        )
    return texts


def _influence(change: str, factor: str, item: str) -> str:
    """What an item, or another score, would make of a verdict: ``undecided without nurse (profession)``."""
    if change == "score":
        return f"{plain(factor)} has the other sign ({item})"
    if change == "more":
        return f"and {item} more"
    return f"{_CHANGES.get(change, change)} without {item} ({factor})"


def _below_threshold(finding: Finding, whole: Finding) -> str:
    """What a study leaves out that counts likely words alone."""
    experiment = experiment_of(finding)
    share = 100 * experiment.reads.word_threshold if experiment else math.nan
    ends = interval(whole)
    sure = "" if ends == "–" else f" ({interval_name(whole)} {ends})"
    return (
        f"This study does not count words below {share:g} % at the blank. With every listed word the gap is "
        f"{value(whole)}{sure}."
    )


def sensitivity(finding: Finding, found: Sequence[Finding]) -> list[tuple[str, str, str, str, str]]:
    """The same question counted in other ways: what is changed, value, 95 % interval, p-value, verdict if any."""
    compared_rows = [finding]
    names = ["nothing"]
    place = (
        finding.model_id,
        finding.subset,
        finding.contrast,
        finding.slice_by,
        finding.slice_value,
    )
    for one in found:
        other = (
            one.measure == finding.measure and one is not finding
        ) or one.measure in _VARIATIONS
        other = other and one.score != JUDGED and (one.score == "score" or not one.view)
        if other and place == (
            one.model_id,
            one.subset,
            one.contrast,
            one.slice_by,
            one.slice_value,
        ):
            name = _VARIATIONS.get(one.measure) or _VARIATIONS.get(one.score, plain(one.score))
            name = _TESTS[one.view] if one.view else name
            compared_rows.append(one)
            names.append(name)
    if len(names) < 2 or math.isnan(finding.estimate.value):
        return []
    return [
        (name, value(one), interval_cell(one, compared_rows), own_p(one), word(one))
        for name, one in zip(names, compared_rows, strict=True)
    ]


def equal_pairs(finding: Finding, limit: float) -> str:
    """Why units that all have the same value decide nothing."""
    one = finding.estimate
    if findings.levels_of(finding.estimate) >= findings.equal_needed(finding, limit):
        return f"{_alike(finding, limit)}, but {one.n_unscored} could not be scored"
    return _too_few_equal(finding, limit)


def _alike(finding: Finding, limit: float) -> str:
    """That nothing moves, or that all differ by the same."""
    one = finding.estimate
    if math.isnan(one.std_error):
        first, second = sides(finding)
        if finding.measure == DIFFERENCE and not one.value:
            return f"{first} and {second} score the same"
        if one.value:
            return f"all {one.n} pairs differ by the same"
        if finding.measure == "gap_difference":
            return f"the gap, {first} minus {second}, is the same in all {one.n} pairs"
        if finding.measure in EFFECTS:
            return f"the effect is 0 in all {one.n} pairs"
        return f"all {one.n} pairs about {first} and {second} score the same"
    levels = f"the means of all {findings.levels_of(finding.estimate)} {one.fewest_of or 'pairs'}"
    close = amount(findings.STILL * limit, finding.scale)
    zero = "no gap" if findings.nothing_moves(finding, limit) else "each other"
    return f"{levels} lie within {close} of {zero}"


def _too_few_equal(finding: Finding, limit: float | None = None) -> str:
    """How many levels are needed where nothing varies to rule out a gap of the margin."""
    limit = finding.margin if limit is None else limit
    one = finding.estimate
    needed = findings.equal_needed(finding, limit)
    same = _alike(finding, limit)
    if math.isnan(one.std_error) and one.fewest_of and findings.levels_of(finding.estimate) < one.n:
        same = f"{same} (over {findings.levels_of(finding.estimate)} {one.fewest_of})"
    size = "" if math.isnan(limit) else f" of {whole_amount(limit, finding.scale)}"
    if math.isinf(needed) and abs(one.value) < limit:
        return f"{same}, at a rate that has no ratio to decide by"
    if math.isinf(needed):
        return f"{same}, which is no less than a gap{size}"
    names = f" {one.fewest_of}" if findings.levels_of(finding.estimate) < one.n else ""
    return f"{same}, but {needed:,.0f}{names} are needed to rule out a gap{size}"


def blinding(finding: Finding) -> str:
    """Whether a judge was blind to the group, as the end of a sentence."""
    outcome, chance = findings.blinding(finding)
    return f"goal {chance:.2f} ± {findings.GOAL:.2f}: {_LEAKS.get(outcome, plain(outcome))}"


def reason(check: Check) -> str:
    """What the outcome of a check rests on where that is not the printed interval; blank for that."""
    finding = check.finding
    changed = check.change or finding.estimate
    if check.why == findings.FEW_LEVELS:
        return too_few_levels(changed)
    if check.why == findings.EQUAL_SCORES:
        return _alike(finding, check.margin)
    if check.why == findings.EXACT_TEST:
        estimate = finding.estimate
        p = "" if check.outcome != OPEN else f" (p {p_value(findings.adjusted_p(finding))})"
        beyond = (
            f", beyond the margin of {_limit(finding, check.margin)}"
            if check.outcome == FAILS
            else ""
        )
        return f"all {estimate.n} differ by the same: {estimate.test}{p}{beyond}"
    if check.why in _REASONS:
        sentence = _REASONS[check.why].format(one=finding.estimate, changed=changed)
        return f"the baseline was not measured ({sentence})" if check.of_baseline else sentence
    return _why_undecided(finding, check.margin)


def check_name(check: Check) -> str:
    """Which gap a check is of: ``occupation_sentiment:control, women minus men``."""
    one = check.finding
    place = set_name(one) if one.slice_by == "all" else where(one, every="")
    return shown(
        ", ".join(filter(None, (f"{one.study}:{one.experiment}", compared(one), place))), 300
    )


def checked(check: Check) -> str:
    """A check of a gate: outcome, which gap, value, interval, and why."""
    one = check.finding
    change = check.change
    texts = [] if math.isnan(one.estimate.value) else [_size(replace(one, verdict=""))]
    ends = {
        PASSES: "within the margin of",
        FAILS: "beyond the margin of",
        OPEN: "the interval crosses the margin of",
    }
    if change is not None:
        ends |= {
            PASSES: "not larger than the baseline by",
            FAILS: "larger than the baseline by more than",
        }
        before = amount(
            check.baseline.value if check.baseline else math.nan, one.scale, signed=True
        )
        moved = amount(change.value, one.scale, signed=True)
        if not math.isnan(change.ci_low):
            low, high = map(form_in(one.scale), (change.ci_low, change.ci_high))
            moved = f"{moved} ({low} to {high})"
        texts.append(f"baseline {before}, change {moved} over {change.n} units")
    texts.append(
        reason(check) or f"{ends[check.outcome]} {margin(replace(one, margin=check.margin))}"
    )
    unscored = _unscored(one.estimate)
    if unscored not in texts[-1]:
        texts.append(unscored)
    gaps = [
        f"{amount(each.estimate.value, each.scale, signed=True)} ({set_name(each)})"
        for each in check.components
    ]
    also = f" Levels not gated: {listed(gaps)}." if gaps else ""
    return shown(f"{check_name(check)}: {check.outcome}: {'; '.join(texts)}.{also}", 600)


def gated(gate: Gate) -> str:
    """What a gate comes to: ``The gate fails: 1 fails, 2 undecided.``"""
    counts = [
        (outcome, sum(one.outcome == outcome for one in gate.checks))
        for outcome in (FAILS, OPEN, PASSES)
    ]
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    names = list(dict.fromkeys(f"{one.study}:{one.experiment}" for one in gate.unchecked))
    also = f" Not checked, because it is no gap: {listed(names)}." if names else ""
    return f"The gate {gate.outcome if gate.outcome != OPEN else 'is undecided'}: {outcomes}.{also}"


def between(finding: Finding, name: str, reference: str) -> Finding:
    """Name the two models of a difference, a model minus the reference, as sentences do."""
    contrast = f"{shown(name)} minus {shown(reference)}"
    return replace(finding, group=shown(name), reference_group=shown(reference), contrast=contrast)


def of_models(found: Sequence[Finding]) -> str:
    """What several models show of one quantity, or how far they lie from another: of many how many show what."""
    if len(found) <= FEW:
        return " ".join(str(verdict(one)) for one in found)
    ends = {
        NONE: lambda one: f" (within {margin(one)})",
        **dict.fromkeys(_SURE, lambda one: f" {_toward(one)}"),
    }
    names = Counter(
        (word(one).lower() or "rate") + ends.get(one.verdict, lambda one: "")(one) for one in found
    )
    return f"Of {len(found)} models: {listed([f'{name} in {count}' for name, count in names.items()])}."


def own_value(finding: Finding) -> str:
    """A value with its 95 % interval, and its bounds if answers are missing: ``+3.1 (−0.4 to +6.6)``."""
    ends = interval(finding)
    written = form(finding)
    if finding.questions > 1:
        ends = ends if ends == "–" else f"{ends}, simultaneous"
    bounds = finding.bounds if finding.measure == "mean" else ()
    missing = f"; {' to '.join(map(written, bounds))} whatever was not answered" if bounds else ""
    return written(finding.estimate.value) + (f" ({ends})" if ends != "–" else "") + missing


# --- numbers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written: less ``start``, times ``factor``, with decimals, a sign or none, and an ``ending``."""

    factor: float = 1.0
    digits: int = 3
    unit: str = ""
    signed: bool = False
    ending: str = ""
    start: float = 0.0

    def at(self, value: float) -> float:
        """Where a value lies on the scale that is written."""
        return self.factor * (value - self.start)

    def __call__(self, value: float, *, named: bool = False) -> str:
        """The value as text, with ``named`` its unit behind it; a dash for NaN."""
        text = number(self.at(value), signed=self.signed, digits=self.digits)
        return (
            text
            if math.isnan(value)
            else f"{text}{self.ending}{f' {self.unit}' if named and self.unit else ''}"
        )


def form_in(unit: Unit, *, signed: bool = True) -> Form:
    """How a difference of scores is written: in points, hundredths of the range of its unit, where that has one.

    Not ``signed``: how a score is written, in points from the low end of the range.
    """
    if unit.in_points:
        return Form(100 / unit.span, 1, "points", signed, start=0.0 if signed else unit.low)
    return Form(1.0, 3, unit.name if unit.symbol is None else unit.symbol, signed)


def form(finding: Finding, *, own: bool = False) -> Form:
    """How a finding is written: a gap signed and in points, a share in percent; with ``own`` in its own unit."""
    record = MEASURES[finding.measure]
    is_gap = _is_gap(finding)
    if own:
        return Form(digits=0 if record.whole else 3, signed=record.signed)
    if record.in_percent and not is_gap:
        return Form(100.0, 1, finding.unit, record.signed, "" if record.signed else " %")
    return form_in(finding.scale, signed=is_gap)


def number(value: float, *, signed: bool = False, digits: int = 3) -> str:
    """A number with its sign where that means something; a dash for NaN; zero has no sign."""
    if math.isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if signed and rounded else ''}.{digits}f}".replace("-", "−")


def amount(value: float, unit: Unit, *, signed: bool = False) -> str:
    """A gap in a sentence, of logs as a ratio: ``less than 0.1 points``, ``an odds ratio of 2.00``."""
    value = value if signed else abs(value)
    if unit.ratio_of and not math.isnan(value):
        return f"{unit.ratio_of.article} {unit.ratio_of.noun} ratio of {math.exp(value):.2f}"
    written = replace(form_in(unit), signed=signed)
    text = written(value, named=True)
    is_small = value and not signed and not written(value).strip("0.")
    return f"less than {text.replace('0 ', '1 ', 1)}" if is_small else text


def margin(finding: Finding) -> str:
    """The margin in the words of a sentence: ``5 points``, of a ratio ``1.22``; of rates that are rare two ratios."""
    if finding.has_rare_rate:
        points = whole_amount(finding.margin, finding.scale)
        return "{} and a ratio of {:g} to {:g}".format(points, *findings.RATIO_MARGIN)
    if finding.scale.ratio_of and not math.isnan(finding.margin):
        return f"{math.exp(finding.margin):.2f}"
    return whole_amount(finding.margin, finding.scale)


def whole_amount(value: float, unit: Unit) -> str:
    """Return a margin or another number that somebody chose: ``5 points``, ``1 point``, ``0.5 points``."""
    text = amount(value, unit).replace(".0 ", " ")
    return "1 point" if text == "1 points" else text


def _ends(finding: Finding, low: float, high: float) -> str:
    written = form_in(finding.scale)
    return f"{written(low)} to {written(high, named=True)}"


def value(finding: Finding, *, own: bool = False) -> str:
    """The value, a gap with its unit; with ``own`` in its own unit, without its name."""
    return form(finding, own=own)(finding.estimate.value, named=_is_gap(finding) and not own)


def interval(finding: Finding, *, own: bool = False) -> str:
    """The 95 % interval as tables show it: ``−1.6 to +3.1``; a dash where there is none."""
    low, high = (finding.estimate.ci_low, finding.estimate.ci_high) if own else within(finding)
    return "–" if math.isnan(low) else " to ".join(map(form(finding, own=own), (low, high)))


def within(finding: Finding) -> tuple[float, float]:
    """The ends of an interval, none beyond what the quantity can be or its value; NaN where there is none."""
    record = MEASURES[finding.measure]
    unit = finding.scale
    one = finding.estimate
    least = -math.inf
    most = math.inf
    if record.scale is not None:
        least = record.scale.least
        most = record.scale.most
    elif unit.in_points and finding.measure == "mean":
        least = unit.low
        most = unit.high
    elif unit.in_points and record.gap_span:
        most = unit.span * record.gap_span
        least = -most
    if math.isnan(one.value):
        return one.ci_low, one.ci_high
    return max(one.ci_low, min(least, one.value)), min(
        one.ci_high, max(most, one.value)
    )  # NaN first: it stays


def p_value(value: float) -> str:
    """A p-value, never printed as zero; a dash for NaN."""
    return "<0.001" if value < 0.001 else number(value)


def own_p(finding: Finding) -> str:
    """The p-value that belongs to the interval: of an answer for all questions at once, else of the row alone."""
    one = finding.estimate
    return p_value(
        findings.adjusted_p(finding) if finding.primary or finding.questions > 1 else one.p_value
    )


def counted(estimate: Estimate) -> str:
    """How many units an estimate rests on, and in brackets those that were not scored."""
    return f"{estimate.n} (+{estimate.n_unscored})" if estimate.n_unscored else str(estimate.n)


# --- names --------------------------------------------------------------------------------------------


def shown(text: str, limit: int = 60) -> str:
    """A text from outside: one line, a mark for what cannot be seen, an ellipsis where it is long."""
    seen = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def capital(text: str) -> str:
    """A text that begins a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def plain(name: str) -> str:
    """A column value as words: ``mental_health`` -> ``mental health``."""
    return name.replace("_", " ").replace(" - ", " − ")


def value_name(value: str) -> str:
    """A value of a slice as words; a user's notes have one label, which has no name."""
    return {"none": "no condition named", "": "(blank)", OWN_NOTES: "these notes"}.get(
        value, plain(value)
    )


def group_name(experiment: Experiment | None, name: str) -> str:
    """A group or a set of conditions, as its study names it; what is pooled, or about nobody, is named as that."""
    known = {
        "all": "all groups",
        "unspecified": "neither",
        **(experiment.words.named if experiment else {}),
    }
    if experiment and name == "baseline" and name in experiment.shows.levels:
        known = {name: "nobody named", **known}
    return known.get(name) or plain(name)


def group_place(experiment: Experiment, group: str) -> int:
    """Which colour and shape a group has, wherever it is drawn: the compared one 0, its reference 1."""
    order = list(
        dict.fromkeys(
            [experiment.compares.group, experiment.compares.reference, *experiment.shows.levels]
        )
    )
    return order.index(group) if group in order else len(order)


def sides(finding: Finding) -> tuple[str, str]:
    """The two groups of a gap in words, that of a positive gap first; of a difference of models these."""
    experiment = experiment_of(finding)
    names = (finding.group, finding.reference_group)
    if finding.measure == DIFFERENCE:
        return names
    if not finding.reference_group:
        names = (
            (experiment.compares.group, experiment.compares.reference)
            if experiment
            else (finding.contrast, "other")
        )
    return group_name(experiment, names[0]), group_name(experiment, names[1])


def compared(finding: Finding) -> str:
    """What a gap subtracts from what, by the names of groups; any other quantity in words."""
    both = " minus ".join(sides(finding))
    experiment = experiment_of(finding)
    if finding.measure == "gap_difference":
        return f"{_DIFFERENCE_OF}{both}"
    if finding.score != "score" or not finding.group or not MEASURES[finding.measure].gap_span:
        return quantity(finding)
    names = [group_name(experiment, one) for one in (finding.within, finding.against) if one]
    return f"{both} for {' against '.join(names)}" if names else both


def set_name(finding: Finding) -> str:
    """The conditions that a finding is of: a set of them, or one minus another; blank for all."""
    sets = (
        (finding.within, finding.against)
        if finding.measure == "gap_difference"
        else (finding.subset,)
    )
    return " minus ".join(group_name(experiment_of(finding), one) for one in sets if one)


def row_name(finding: Finding) -> str:
    """What the row of a primary finding, or of a part of one, is called in a table or chart."""
    experiment = experiment_of(finding)
    if experiment and len(experiment.compares.groups) > 1:
        return compared(finding)
    named = set_name(finding) if finding.slice_by == "all" else where(finding, every="")
    return named or compared(finding)


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
    by = finding.slice_by
    of = finding.slice_value
    part = (
        value_name(of)
        if of == OWN_NOTES
        else ""
        if by == "all"
        else f"{by}: {plain(of)}"
        if of
        else by
    )
    subset = "" if finding.subset == "as trained" else plain(finding.subset)
    return ", ".join(filter(None, (subset, part))) or every


def direction(finding: Finding) -> str:
    """What the sign of an answer means, or who has the higher rate; blank for what has no direction."""
    experiment = experiment_of(finding)
    declared = (
        experiment.words.direction
        if experiment
        else f"above zero {finding.group or 'the first'} is higher"
    )
    sign = _SIGNS.get(finding.measure, "{declared}" if MEASURES[finding.measure].gap_span else "")
    return sign.format(one=finding, declared=declared, higher=_higher(finding))


def _higher(finding: Finding) -> str:
    """Which group has the higher rate; of flips how many notes are positive in the version of one group alone."""
    text = f"{finding.higher_group} higher" if finding.higher_group else "equal"
    text = "not defined" if math.isnan(finding.estimate.value) else text
    experiment = experiment_of(finding)
    if math.isnan(finding.only_group) or experiment is None:
        return text
    counts = (
        f"{finding.only_group:.0f}, {experiment.compares.reference}: {finding.only_reference:.0f}"
    )
    return f"{text} (positive in the {experiment.compares.group} version alone: {counts})"


def inference(finding: Finding) -> str:
    """What interval and p-value are over: ``over templates and diagnoses``; blank where nothing was tested."""
    if finding.cluster_vars:
        paired = ", paired" if finding.measure == DIFFERENCE else ""
        return f"over {finding.cluster_vars.replace(' + ', ' and ')}{paired}"
    return finding.view or ("" if finding.estimate.test == "none" else "these rows only")


# --- the terminal -------------------------------------------------------------------------------------


def terminal(found: Sequence[Finding], *, verbose: bool = False) -> str:
    """Verdicts on each model, of a single question its numbers (``verbose``: of each), and warnings."""
    several = questions(found)
    alone = judged_alone(found)
    lines = ["", *_wrapped(alone)] if alone else []
    for results in several:
        first = results[0]
        experiment = experiment_of(results[0])
        name = f"{first.study}:{first.experiment}, {shown(first.model_id)}"
        lines += ["", *_wrapped(f"{name}: {experiment.question}" if experiment else name)]
        for one in verdicts(results, found):
            label, (start, *more) = f"  {one.word.upper()}", _wrapped(one.text, 16)
            lines += (
                [f"{label:<16}{start.strip()}", *more] if len(label) < 16 else [label, start, *more]
            )
        if len(several) == 1 or verbose:
            lines += _numbers([*(part for one in results for part in parts(one, found)), *results])
        details = (
            [certainty(first), *cautions(first, found)]
            if verbose
            else cautions(first, found, every=False)
        )
        lines += _wrapped(" ".join(filter(None, details)), 2) if len(results) == 1 else []
    return "\n".join(lines[1:])


def _numbers(found: Sequence[Finding]) -> list[str]:
    if len(found) < 2 or not all(
        MEASURES[one.measure].gap_span and one.scale.in_points for one in found
    ):
        return []
    heads = {" minus ".join(sides(one)) for one in found}
    heading = heads.pop() if len(heads) == 1 else ""
    rows: list[tuple[str, ...]] = [(heading, "points", "95 % interval", "for", "n", "verdict")]
    for one in found:
        is_difference = one.measure == "gap_difference" and len(found) <= 4
        name = "the first minus the second" if is_difference else row_name(one)
        covered = covered_by(one) or "1 row"
        numbers = (form(one)(one.estimate.value), interval(one), covered, counted(one.estimate))
        rows.append((name, *numbers, word(one).lower()))
    if not any(one.questions > 1 for one in found):
        rows = [(*row[:3], *row[4:]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    between = 2 * len(widths)  # blanks before each column
    room = min(widths[0], WIDTH - between - sum(widths[1:]))
    cells = [
        [f"{shown(name, room):<{room}}", *map(str.rjust, rest, widths[1:-1])]
        for name, *rest, _ in rows
    ]
    lines = [
        f"  {'  '.join([*row, last])}".rstrip() for row, (*_, last) in zip(cells, rows, strict=True)
    ]
    return ["", *lines, f"  {point(found[0])}"]


def _wrapped(sentence: str, indent: int = 0) -> list[str]:
    space = " " * indent
    return textwrap.wrap(
        shown(sentence, _LONGEST), WIDTH, initial_indent=space, subsequent_indent=space
    )
