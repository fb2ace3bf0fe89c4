"""Verdicts on the findings of a run: a word and a sentence for each question, many alike in one sentence."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from swapbias import findings
from swapbias.findings import Finding, experiment_of, terms
from swapbias.measures import MEASURES
from swapbias.report.claims import (
    FOUND,
    NONE,
    NOT_MEASURED,
    RATES,
    SURE,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    WORDS,
    claim_sentence,
    claim_without_size,
    fixed_levels,
    gap_ending,
    size_words,
    too_few_levels,
    verdict_word,
)
from swapbias.report.finding_names import (
    DIFFERENCE_PREFIX,
    capitalize,
    contrast_name,
    group_name,
    join_names,
    quantity_name,
    safe_line,
    toward_group,
    value_name,
)
from swapbias.report.numbers import (
    format_chosen_gap,
    format_gap,
    format_margin,
    format_p_value,
    format_value,
)
from swapbias.report.undecided import decide_at_margin

FEW = 4
"""Most models that a sentence names one by one."""
MOST_NAMES = 5
"""Most names of a list in a sentence."""
# A spread of means below it is rounding.
_EQUAL = 1e-9
# Why several gaps are undecided, as the ends of a sentence that names them.
_UNDECIDED_ENDINGS = {
    "": "may be chance",
    terms.FEW_EQUAL: "hardly vary over too few {names} to rule out a gap of {margin}",
    terms.MISSING_SCORES: "lack scores that could change this",
    terms.MOSTLY_UNSCORED: "lack more than half of their scores",
    terms.REPEATED_ANSWERS: "have one answer for most prompts, and others that were not read",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conclusion: a word and a sentence."""

    word: str
    """Gap, No gap, Undecided, Too few ..., Not measured; blank for a rate, and for a sentence that goes on."""
    text: str
    """The sentence."""

    def __str__(self) -> str:
        """Word and sentence: ``No gap: vader's gap, women minus men, is 0.0 points.``"""
        if not self.word:
            return self.text
        return f"{self.word}: {self.text}"


def group_by_question(rows: Sequence[Finding]) -> list[list[Finding]]:
    """Return the primary findings of each experiment and model.

    Args:
        rows: findings of a run.
    """
    questions: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings.primary_findings(rows):
        key = (finding.study, finding.experiment, finding.model_id)
        questions.setdefault(key, []).append(finding)
    return list(questions.values())


def state_verdicts(results: Sequence[Finding], rows: Sequence[Finding] = ()) -> list[Verdict]:
    """Return the verdicts on one question; gaps that are alike share one sentence.

    Args:
        results: primary findings of one experiment and model.
        rows: all findings of the run, among them the gaps that a difference of gaps compares; empty: these gaps are
            not stated.
    """
    test = next((finding for finding in results if finding.tests_all_groups), None)
    if test is not None:
        first, *others = _state_group_verdicts(test, results)
        # A question has one word, that of its test: each other word goes into its sentence.
        return [first, *(Verdict("", str(verdict)) for verdict in others)]
    if len(results) == 1:
        return [state_verdict(results[0]), *_state_set_verdicts(gaps_of_sets(results[0], rows))]
    if all(finding.verdict for finding in results):
        return [*_state_alike(results, lambda finding: value_name(finding.slice_value), "for ")]
    return [*_state_range_of_rates(results)]


def state_verdict(finding: Finding, start: str = "") -> Verdict:
    """Return the verdict on one finding by itself.

    Args:
        finding: a finding of any measure.
        start: stands before its sentence (``with other conditions``); by default its slice.
    """
    if not start and finding.slice_by != "all":
        start = f"for {value_name(finding.slice_value)}"
    sentence = f"{claim_sentence(finding)}."
    parts = filter(None, (start, fixed_levels(finding), sentence))
    return Verdict(verdict_word(finding), ", ".join(parts))


def gaps_of_sets(finding: Finding, rows: Sequence[Finding]) -> list[Finding]:
    """Return the gaps in both subsets (sets of conditions) that a difference compares, and in its baseline.

    Args:
        finding: a primary finding.
        rows: all findings of its run.

    Returns:
        The gaps that were measured; none where the finding is no difference of gaps, or its study claims no other.
    """
    if finding.measure != "gap_difference" or math.isnan(finding.estimate.value):
        return []
    experiment = experiment_of(finding)
    if experiment and experiment.words.says_of_contrast and not experiment.words.says:
        return []
    gaps: dict[str, Finding] = {}
    for row in rows:
        is_measured = row.verdict and not math.isnan(row.estimate.value)
        is_gap = MEASURES[row.measure].gap_span == 1
        if is_gap and is_measured and _is_whole_gap_of(row, finding):
            gaps[row.subset] = row
    names = (finding.within, finding.against, findings.BASELINE)
    return [gaps[name] for name in names if name in gaps]


def _is_whole_gap_of(row: Finding, finding: Finding) -> bool:
    """Return whether a row is of the same question and contrast, over all slices, by the plain score."""
    return (
        row.study == finding.study
        and row.experiment == finding.experiment
        and row.model_id == finding.model_id
        and row.contrast == finding.contrast
        and row.slice_by == "all"
        and row.score == "score"
        and not row.view
    )


def _state_set_verdicts(gaps: Sequence[Finding]) -> list[Verdict]:
    """Return verdicts on the gaps in the sets of a difference: one for all where all are found in one direction."""
    names = [f"with {group_name(experiment_of(gap), gap.subset)}" for gap in gaps]
    if len(gaps) < 2 or not _all_found_in_one_direction(gaps):
        sentences = [state_verdict(gap, name).text for gap, name in zip(gaps, names, strict=True)]
        return [Verdict("", capitalize(sentence)) for sentence in sentences]
    sizes = []
    for gap, name in zip(gaps, names, strict=True):
        sizes.append(f"{size_words(gap)} {format_gap(gap.estimate.value, gap.scale)} {name}")
    claim = f"in each case {claim_without_size(gaps[0])}, {join_names(sizes)}"
    if any(math.isnan(gap.estimate.ci_low) for gap in gaps):
        return [Verdict(WORDS[FOUND], f"{claim}.")]
    return [Verdict(WORDS[FOUND], f"{claim}. Each interval leaves out zero.")]


def _all_found_in_one_direction(gaps: Sequence[Finding]) -> bool:
    """Return whether each gap is found, all toward the same group."""
    directions = {toward_group(gap) for gap in gaps}
    return len(directions) == 1 and all(gap.verdict == FOUND for gap in gaps)


def _state_alike(
    gaps: Sequence[Finding], name: Callable[[Finding], str], preposition: str = ""
) -> Iterator[Verdict]:
    """Yield verdicts on gaps, which are never pooled: the largest by itself, then one verdict for those alike."""
    for word, alike in _group_alike(gaps):
        if len(alike) == 1:
            yield state_verdict(alike[0])
            continue
        noun = "gaps"
        titles = [name(gap) for gap in alike]
        if all(title.startswith(DIFFERENCE_PREFIX) for title in titles):
            noun = "differences of gaps"
            titles = [title.removeprefix(DIFFERENCE_PREFIX) for title in titles]
        names = join_names(titles, MOST_NAMES)
        ending = _describe_alike(alike)
        if ending:
            yield Verdict(word, f"the {noun} {preposition}{names} {ending}.")
        elif alike[0].verdict == TOO_FEW:
            yield Verdict(word, f"for {names}, {too_few_levels(alike[0].estimate)}.")
        else:
            yield Verdict(word, f"for {names}, {claim_sentence(alike[0])}.")


def _group_alike(gaps: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    """Yield the word and the findings of one verdict and direction; the largest gap comes first and alone."""
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for gap in sorted(gaps, key=_gap_order):
        direction = ""
        # The first gap is the largest: without a direction its key is its own, and it stays alone.
        if _is_measured_gap(gap) and alike:
            direction = toward_group(gap)
        alike.setdefault((verdict_word(gap), gap.verdict, direction), []).append(gap)
    for (word, _, _), rows in alike.items():
        yield word, rows


def _is_measured_gap(finding: Finding) -> bool:
    """Return whether a verdict says that there is a gap between two groups of one model."""
    is_of_models = finding.measure == terms.DIFFERENCE
    return finding.verdict in SURE and not is_of_models and not math.isnan(finding.estimate.value)


def _gap_order(finding: Finding) -> float:
    """Return what findings are sorted by: gaps by size, the largest first, then all others."""
    if not _is_measured_gap(finding):
        return 0.0
    return -abs(finding.estimate.value)


def _describe_alike(gaps: Sequence[Finding]) -> str:
    """Return the end of a sentence that names several gaps of one verdict; blank for a verdict that has none."""
    first = gaps[0]
    if math.isnan(first.estimate.value):
        return ""
    if first.verdict == UNDECIDED:
        return _why_all_undecided(gaps)
    if first.measure == terms.DIFFERENCE:
        return ""
    if first.verdict in SURE:
        size = format_gap(first.estimate.value, first.scale)
        return f"lie {toward_group(first)} by up to {size}{gap_ending(first)}"
    if first.verdict == NONE:
        return f"are within the margin of {format_margin(first)}"
    return ""


def _why_all_undecided(gaps: Sequence[Finding]) -> str:
    """Return why several gaps are undecided, as the end of a sentence that names them."""
    names = gaps[0].estimate.fewest_of or "pairs"
    margin = format_chosen_gap(gaps[0].margin, gaps[0].scale)
    endings = [
        _UNDECIDED_ENDINGS.get(decide_at_margin(gap).reason, "cannot be decided") for gap in gaps
    ]
    return ", or ".join(dict.fromkeys(endings)).format(margin=margin, names=names)


def _state_range_of_rates(results: Sequence[Finding]) -> Iterator[Verdict]:
    """Yield the lowest and the highest of several rates, and those that were not measured."""
    missing = [finding for finding in results if verdict_word(finding) == NOT_MEASURED]
    rates = [finding for finding in results if verdict_word(finding) != NOT_MEASURED]
    rates.sort(key=lambda finding: finding.estimate.value)
    if rates:
        first = rates[0]
        low, high = (_rate_of_slice(finding) for finding in (first, rates[-1]))
        model = safe_line(first.model_id)
        quantity = RATES.get(first.measure) or quantity_name(first)
        sentence = f"{model}: {quantity} is from {low} to {high}, by {first.slice_by}."
        yield Verdict("", sentence)
    if missing:
        names = [value_name(finding.slice_value) for finding in missing]
        yield state_verdict(missing[0], f"for {join_names(names, MOST_NAMES)}")


def _rate_of_slice(finding: Finding) -> str:
    """Return a rate and the slice that it is of: ``12.5 % (asthma)``."""
    return f"{format_value(finding)} ({value_name(finding.slice_value)})"


def _state_group_verdicts(test: Finding, results: Sequence[Finding]) -> Iterator[Verdict]:
    """Yield the test of all groups, then gaps or effects, those alike together."""
    if test.verdict == UNMEASURED:
        yield state_verdict(test)
        return
    gaps = [
        finding for finding in results if MEASURES[finding.measure].gap_span and finding.verdict
    ]
    if math.isnan(_group_p_value(test)) and math.isnan(test.estimate.value):
        yield state_verdict(test)
    else:
        yield _state_group_test(test, gaps)
    yield from _state_alike(gaps, contrast_name)


def _group_p_value(test: Finding) -> float:
    """Return the p-value of a test of all groups, corrected where it is one of several."""
    estimate = test.estimate
    return estimate.p_value if math.isnan(estimate.p_adjusted) else estimate.p_adjusted


def _state_group_test(test: Finding, gaps: Sequence[Finding]) -> Verdict:
    """Return the verdict on the test of all groups."""
    experiment = experiment_of(test)
    model = safe_line(test.model_id)
    groups = _tested_groups(test)
    p = _group_p_value(test)
    if math.isnan(p):
        return _state_untested_groups(test, gaps)
    is_different = p < terms.LEVEL
    outcome = f"(one test of all, p {format_p_value(p)})"
    if test.contrast == terms.ALL_GAPS and experiment and experiment.compares.contrast:
        sets = [group_name(experiment, name) for name in experiment.compares.contrast]
        gaps_of_model = f"{model}'s gaps between {groups}"
        if is_different:
            sentence = f"{gaps_of_model} differ between {join_names(sets)} {outcome}."
            return Verdict(WORDS[FOUND], sentence)
        sentence = f"{gaps_of_model} are not shown to differ between {join_names(sets)} {outcome}."
        return Verdict(WORDS[UNDECIDED], sentence)
    if is_different:
        return Verdict(WORDS[FOUND], f"{model} scores {groups} differently {outcome}.")
    return Verdict(
        WORDS[UNDECIDED], f"no difference among {groups} of {model} was found {outcome}."
    )


def _tested_groups(test: Finding) -> str:
    """Return the groups of a test as a sentence names them: ``the 5 groups``."""
    experiment = experiment_of(test)
    if experiment is None:
        return "the groups"
    return f"the {len(experiment.compared)} groups"


def _state_untested_groups(test: Finding, gaps: Sequence[Finding]) -> Verdict:
    """Return the verdict on groups of which too little varies for a p-value."""
    model = safe_line(test.model_id)
    groups = _tested_groups(test)
    if abs(test.estimate.value) >= _EQUAL:
        sentence = (
            f"no difference among {groups} of {model} was found (too little varies for a test)."
        )
        return Verdict(WORDS[UNDECIDED], sentence)
    word = WORDS[UNDECIDED]
    if {gap.verdict for gap in gaps} == {NONE}:
        word = WORDS[NONE]
    if test.contrast == terms.ALL_GAPS:
        sentence = f"{model}'s gaps between {groups} are the same in both sets of conditions."
        return Verdict(word, sentence)
    return Verdict(word, f"{model} scores {groups} the same.")


def describe_margins(rows: Sequence[Finding]) -> str:
    """Return the margins of a run's answers in words; ``the margin`` where there is none.

    Args:
        rows: findings of a run.
    """
    primary = findings.primary_findings(rows)
    margins = [format_margin(finding) for finding in primary if not math.isnan(finding.margin)]
    if not margins:
        return "the margin"
    return ", or ".join(dict.fromkeys(margins))


def describe_chance_of_gap(rows: Sequence[Finding]) -> str:
    """Say that each study is judged by itself, and how often studies without any gap show one all the same.

    Args:
        rows: findings of a run.

    Returns:
        Two sentences; blank for fewer than two pairs of study and model.
    """
    judged: set[tuple[str, str]] = set()
    for finding in findings.primary_findings(rows):
        has_verdict = finding.verdict not in ("", UNMEASURED)
        if has_verdict and not math.isnan(finding.estimate.value):
            judged.add((finding.study, finding.model_id))
    count = len(judged)
    if count < 2:
        return ""
    chance = 100 * (1 - (1 - terms.LEVEL) ** count)
    models = {model for _, model in judged}
    subject = "study and model" if len(models) > 1 else "study"
    return (
        f"Each {subject} is judged alone. Of 100 runs of {count} unbiased ones, up to {chance:.0f} "
        f"show at least one gap by chance."
    )


def summarize_models(rows: Sequence[Finding]) -> str:
    """Return what several models show of one quantity, or how far they lie from a reference model.

    Args:
        rows: one finding of each model; more than ``FEW`` are counted by what they show.
    """
    if len(rows) <= FEW:
        return " ".join(str(state_verdict(finding)) for finding in rows)
    counts = Counter(_outcome_words(finding) for finding in rows)
    outcomes = [f"{words} in {count}" for words, count in counts.items()]
    return f"Of {len(rows)} models: {join_names(outcomes)}."


def _outcome_words(finding: Finding) -> str:
    """Return verdict and direction of one of many models: ``gap toward men``."""
    word = verdict_word(finding).lower() or "rate"
    if finding.verdict == NONE:
        return f"{word} (within {format_margin(finding)})"
    if finding.verdict in SURE:
        return f"{word} {toward_group(finding)}"
    return word
