"""Sentences beside an answer: how sure it is, what could change it, and the same question counted in other ways."""

import math
from collections.abc import Mapping, Sequence

from swapbias import findings
from swapbias.findings import Finding, experiment_of, judge_findings, split_findings, terms
from swapbias.measures import is_comparison
from swapbias.report.claims import (
    FOUND,
    NONE,
    SMALL,
    TOO_FEW,
    UNDECIDED,
    UNMEASURED,
    UNSTABLE,
    verdict_word,
)
from swapbias.report.finding_names import capitalize, plain_words
from swapbias.report.numbers import (
    detectable_gap,
    finding_format,
    format_ends,
    format_interval,
    format_interval_p,
    format_value,
    interval_cell,
    interval_name,
    plain_interval,
)
from swapbias.report.undecided import decide_at_margin, mixed_signs
from swapbias.studies import JUDGED

_TESTS = {
    terms.AS_PUBLISHED: "the paper's test, which treats prompts as independent",
    terms.INDEPENDENT: "a test that treats prompts as independent",
}
_VARIATIONS = {
    "matched_mass": "only words with an equally frequent match",
    "closed_list_mass": "all listed words",
    "log_odds": "log-odds in place of probabilities",
    "conditional": "the named words alone, given the text around them",
    "gap_beyond_wording": "the prompts and their rewordings together",
    "gap_without_doubtful": "notes whose swap is doubtful left out",
}
_LEAKS = {
    "leaks": "WARNING, answers show the group without its words as well, by more than the judgement",
    "leaks_in_judgement": "WARNING, answers show the group without its words, by their wording or their judgement",
}
_NO_RANGE = (
    "The range of the score is not known, so no margin applies. Give it: -M range=LOW,HIGH, in Python "
    "range=(LOW, HIGH), in study.toml range = [LOW, HIGH]."
)
# What scores are called as the subject of a sentence, where their column does not say it.
_SCORES = {"conditional": "the score of the named words alone"}
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


def describe_certainty(finding: Finding) -> str:
    """Say what the interval allows for, and which gap such a run detects.

    Args:
        finding: a primary finding.

    Returns:
        Sentences; blank where there is no value.
    """
    estimate = finding.estimate
    if math.isnan(estimate.value):
        return ""
    if math.isnan(estimate.ci_low) and not finding.tests_all_groups:
        is_constant = not estimate.value and math.isnan(estimate.std_error)
        if is_constant and is_comparison(finding.measure):
            return "There is no interval: all pairs score the same."
        return "There is no interval: too little varies or was scored."
    subject = "test of all groups" if finding.tests_all_groups else "95 % interval"
    sentences = [f"The {subject} is about these rows only."]
    if finding.cluster_vars:
        factors = finding.cluster_vars.replace(" + ", " and ")
        sentences = [f"The {subject} allows for other {factors} of the same kind."]
    interval_alone = plain_interval(finding)
    if interval_alone:
        sentences.append(f"The plain 95 % interval of this question alone is {interval_alone}.")
    if finding.minimum_detectable_effect > 0:
        detects = detectable_gap(finding.minimum_detectable_effect, finding.scale)
        sentences.append(f"An audit of this size {detects}.")
    return " ".join(sentences)


def list_cautions(
    finding: Finding,
    rows: Sequence[Finding] = (),
    *,
    with_range: bool = True,
    texts: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what could change a primary finding and what is not in it, a sentence each.

    Args:
        finding: a primary finding.
        rows: all findings of its run, which hold the same gap in other scores.
        with_range: say also in which range it stays, which item moves it most, and how many rewordings agree.
        texts: the text of each template by its id; others are named by their id.
    """
    sentences = []
    margin = finding.margin
    if findings.lacks_range(finding):
        sentences.append(_NO_RANGE)
    with_every_word = findings.with_every_word(finding, rows)
    if with_every_word is not None:
        sentences.append(_describe_uncounted_words(finding, with_every_word))
    rests_on_signs = decide_at_margin(finding).reason == terms.MIXED_SIGNS
    if not rests_on_signs and finding.has_mixed_signs(margin):
        sentences.append(f"{capitalize(mixed_signs(finding, margin))}.")
    if with_range and not math.isnan(finding.loo_min):
        ends = format_ends(finding, finding.loo_min, finding.loo_max)
        sentences.append(f"Whichever one {_left_out(finding)} is left out, the value is {ends}.")
        sentences += _describe_carrier(finding, texts or {})
    if finding.influences:
        influences = [_describe_influence(*influence) for influence in finding.influences]
        sentences.append(f"Not robust: {'; '.join(influences)}.")
    if with_range and not math.isnan(finding.sign_agreement):
        share = 100 * finding.sign_agreement
        sentences.append(f"{share:.0f} % of rewordings have the same sign.")
    sentences += _describe_missing_scores(finding)
    return sentences


def _left_out(finding: Finding) -> str:
    """Return what is left out one at a time; of notes, whose subjects are never named, their splits."""
    is_split = finding.carrier is not None and finding.carrier[0] == split_findings.SPLITS
    return "train/test split" if is_split else "template or condition"


def _describe_carrier(finding: Finding, texts: Mapping[str, str]) -> list[str]:
    """Say which template, condition or name moves the value most, and what is left without it."""
    if finding.carrier is None:
        return []
    factor, item, value = finding.carrier
    left = finding_format(finding)(value, with_unit=True)
    return [f"It moves most without “{texts.get(item, item)}” ({factor}): it is {left} then."]


def _describe_missing_scores(finding: Finding) -> list[str]:
    """Say what the value could be with the missing answers, and how many units were not scored."""
    sentences = []
    estimate = finding.estimate
    if finding.bounds and not math.isnan(estimate.value):
        ends = format_ends(finding, *finding.bounds)
        sentence = f"Counting missing answers either way, the value is {ends}."
        if min(finding.bounds) < 0 < max(finding.bounds):
            sentence = (
                f"Counting missing answers either way, the value is {ends}: "
                "they alone could turn its sign."
            )
        sentences.append(sentence)
    if estimate.n_unscored:
        count = estimate.n + estimate.n_unscored
        share = 100 * estimate.n_unscored / count
        sentences.append(f"{estimate.n_unscored} of {count} units ({share:.0f} %) were not scored.")
    return sentences


def _describe_influence(change: str, factor: str, item: str) -> str:
    """Say what an item, or another score, would make of a verdict: ``undecided without nurse (profession)``."""
    name = _SCORES.get(factor, plain_words(factor))
    if change == "score":
        return f"{name} has the other sign ({item})"
    if change == "zero":
        return f"{name} gives {item}, and only one of the two intervals includes zero"
    if change == "more":
        return f"and {item} more"
    return f"{_CHANGES.get(change, change)} without {item} ({factor})"


def _describe_uncounted_words(finding: Finding, with_every_word: Finding) -> str:
    """Say what the gap is with every word, where a study counts only likely words."""
    experiment = experiment_of(finding)
    share = 100 * experiment.reads.word_threshold if experiment else math.nan
    gap = format_value(with_every_word)
    ends = format_interval(with_every_word)
    if ends != "–":
        gap = f"{gap} ({interval_name(with_every_word)} {ends})"
    return (
        f"This study does not count words below {share:g} % at the blank. With every listed word the gap is "
        f"{gap}."
    )


def sensitivity_rows(
    finding: Finding, rows: Sequence[Finding]
) -> list[tuple[str, str, str, str, str]]:
    """Return the same question counted in other ways.

    Args:
        finding: a primary finding.
        rows: all findings of its run.

    Returns:
        For each way: what is changed, value, 95 % interval, p-value and verdict, the finding itself first; none where
        there is no other way.
    """
    names = ["nothing"]
    compared = [finding]
    for row in rows:
        if _is_variation(row, finding):
            names.append(_variation_name(row))
            compared.append(row)
    if len(names) < 2 or math.isnan(finding.estimate.value):
        return []
    return [
        (
            name,
            format_value(row),
            interval_cell(row, compared),
            format_interval_p(row),
            verdict_word(row),
        )
        for name, row in zip(names, compared, strict=True)
    ]


def _is_variation(row: Finding, finding: Finding) -> bool:
    """Return whether a row is the same question as a finding, counted in another way."""
    is_same_measure = row.measure == finding.measure and row is not finding
    if not (is_same_measure or row.measure in _VARIATIONS):
        return False
    if row.score == JUDGED or (row.score != "score" and row.view):
        return False
    return (
        row.model_id == finding.model_id
        and row.subset == finding.subset
        and row.contrast == finding.contrast
        and row.slice_by == finding.slice_by
        and row.slice_value == finding.slice_value
    )


def _variation_name(row: Finding) -> str:
    """Return what is changed in a row of the table of sensitivity."""
    if row.view:
        return _TESTS[row.view]
    if row.measure in _VARIATIONS:
        return _VARIATIONS[row.measure]
    return _VARIATIONS.get(row.score, plain_words(row.score))


def describe_blinding(finding: Finding) -> str:
    """Say whether a judge was blind to the group, as the end of a sentence.

    Args:
        finding: tells how well a classifier finds the group in what the judge read.
    """
    outcome, chance = judge_findings.blinding(finding)
    return f"goal {chance:.2f} ± {judge_findings.GOAL:.2f}: {_LEAKS.get(outcome, plain_words(outcome))}"
