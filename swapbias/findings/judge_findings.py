"""Findings about a judge of answers: its agreement with itself, and whether it is blind to the group."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures, swapping
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding, experiment_of
from swapbias.measures import Estimate, is_comparison, kappa
from swapbias.studies import JUDGED, Rubric, answer_text

GOAL = 0.02
"""The largest distance from chance of the recall of the group, at which a judge counts as blind."""
# The answers of which the group is predicted once more.
_ALIKE = "pairs judged alike"
# Recalls of one fold after the other vary by 1.1 to 1.3 times what independent ones do.
_WIDER = 1.3


def judge_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield findings about the judge of an experiment's rows; none where nothing was judged.

    Args:
        context: the context of the experiment and the score of its judge.
        rows: scored rows, a row an answer.
    """
    rubric = context.experiment.reads.rubric
    columns = (f"{JUDGED}_first", f"{JUDGED}_second")
    if rubric is None or columns[0] not in rows or rows[columns[0]].isna().all():
        return
    rows = rows[rows[columns[0]].notna()].reset_index(drop=True)
    options = dict(enumerate([*(candidate.text for candidate in rubric.candidates), "none"]))
    first, second = (rows[column].map(options).fillna("").tolist() for column in columns)
    neutral = without_groups(rows["answer"].tolist(), rubric.neutral)  # judged once where equal
    agreement, chance_corrected = kappa.agreement(first, second, cluster_ids=neutral)
    for measure, estimate in (("agreement", agreement), ("kappa", chance_corrected)):
        yield context.finding(
            estimate, measure, "options in both orders", cluster_vars="different answers"
        )
    judgements = rows.groupby("pair_id")[JUDGED]
    is_alike = judgements.transform(lambda scores: scores.nunique(dropna=False)) == 1
    for contrast, chosen in (("every answer", rows), (_ALIKE, rows[is_alike])):
        estimate = _group_leakage(chosen, rubric, context.experiment.compared)
        yield context.finding(estimate, "group_leakage", contrast, cluster_vars="stories")


def _group_leakage(
    rows: pd.DataFrame, rubric: Rubric, groups: Sequence[str], *, most_folds: int = 5
) -> Estimate:
    """Estimate how well a simple classifier predicts the group from the judge's input: unweighted average recall.

    1 / groups: by chance; NaN of fewer than two stories (values of the rubric's ``units``, without the trial). The
    interval is over stories, and wider, for the folds share what they learn from (benchmarks/judge.py).
    """
    rows = rows[rows["group"].isin(list(groups))]
    groups_of_pair = rows.groupby("pair_id")["group"].transform("nunique")
    rows = rows[groups_of_pair == len(groups)].reset_index(drop=True)
    columns = rows[list(rubric.units)].astype(str).replace(r"/t\d+$", "", regex=True)
    names = [" / ".join(values) for values in columns.itertuples(index=False)]
    stories = np.unique(names, return_inverse=True)[1]
    truth = rows["group"].to_numpy(dtype=object)
    count = len(set(stories.tolist()))
    if count < 2:
        return measures.uar([], [])
    neutral = without_groups(rows["answer"].tolist(), rubric.neutral)
    texts = np.array([answer_text.without_reasoning(text) for text in neutral], dtype=object)
    predicted = np.full(len(texts), "", object)
    folds = min(most_folds, count)
    fold_of_row = stories % folds
    for fold in range(folds):
        is_test = fold_of_row == fold
        model = _classifier().fit(texts[~is_test].tolist(), truth[~is_test].tolist())
        predicted[is_test] = model.predict(texts[is_test].tolist())
    estimate = measures.uar(
        predicted.tolist(),
        truth.tolist(),
        note_ids=rows["pair_id"].astype(str).tolist(),
        cluster_ids=[str(story) for story in stories],
    )
    low = estimate.value + _WIDER * (estimate.ci_low - estimate.value)
    high = estimate.value + _WIDER * (estimate.ci_high - estimate.value)
    return replace(
        estimate,
        ci_low=float(np.clip(low, 0, 1)),
        ci_high=float(np.clip(high, 0, 1)),
        interval=f"{estimate.interval}, {_WIDER} x wider",
    )


def _classifier() -> Any:
    """Return a logistic regression of words, pairs of words and pieces of words, weighted by tf-idf."""
    text = import_module("sklearn.feature_extraction.text")
    pipeline = import_module("sklearn.pipeline")
    linear = import_module("sklearn.linear_model")
    features = pipeline.make_union(
        text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    return pipeline.make_pipeline(features, linear.LogisticRegression(C=10.0, max_iter=1_000))


def findings_of_judge(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of a judge over all rows of each experiment that it answers, with agreement and blinding.

    Args:
        findings: the findings of any runs.
    """
    all_findings = list(findings)
    question_of = attrgetter("study", "experiment", "model_id", "subset")
    answered = {question_of(finding) for finding in all_findings if finding.primary}
    about_judge = ("agreement", "kappa", "group_leakage")
    judged = []
    for finding in all_findings:
        if finding.score != JUDGED or finding.slice_by != "all" or finding.view:
            continue
        is_answer = is_comparison(finding.measure) and question_of(finding) in answered
        if finding.measure in about_judge or is_answer:
            judged.append(finding)
    return judged


def blinding(finding: Finding) -> tuple[str, float]:
    """Return whether a judge was blind to the group, and the recall by chance.

    Args:
        finding: a ``group_leakage``.

    Returns:
        ``unknown``, ``leaks``, ``leaks_in_judgement`` (other decisions about one group leak it by that alone: see the
        pairs that are judged alike), ``met``, ``too_few_stories`` or ``nearly_met``; and 1 / groups.
    """
    experiment = experiment_of(finding)
    estimate = finding.estimate
    chance = 1 / len(experiment.compared) if experiment else math.nan
    if math.isnan(estimate.ci_low):
        return "unknown", chance
    if estimate.ci_low > chance and estimate.value > chance + GOAL:
        return "leaks" if finding.contrast == _ALIKE else "leaks_in_judgement", chance
    if chance - GOAL <= estimate.ci_low and estimate.ci_high <= chance + GOAL:
        return "met", chance
    return "too_few_stories" if estimate.ci_low <= chance else "nearly_met", chance


def without_groups(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Replace words of groups in texts by neutral ones, then neutralise the texts by ``Swapper.neutralise``.

    Words are whole ones, in any case, with a blank or a hyphen between their parts; the article before one becomes
    "a", which would tell an African American from a White person.

    >>> without_groups(["Mary is an African-American woman. I trust her."], {"Mary": "[name]", "African American": "[race]"})
    ['[name] is a [race] person. I trust them.']

    Args:
        texts: any texts.
        words: what stands for it, by word.
    """  # noqa: E501
    neutral_words = {_normalise_word(word): neutral for word, neutral in words.items()}
    if neutral_words:
        longest_first = sorted(neutral_words, key=lambda word: (-len(word), word))
        alternatives = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in longest_first)
        pattern = re.compile(rf"(?<!\w)(?:(a)n?\s+)?({alternatives})(?!\w)", re.IGNORECASE)

        def neutralise(match: re.Match[str]) -> str:
            neutral = neutral_words[_normalise_word(match[2])]
            return f"{match[1]} {neutral}" if match[1] else neutral

        texts = [pattern.sub(neutralise, text) for text in texts]
    return _default_swapper().neutralise(texts)


@cache
def _default_swapper() -> "swapping.Swapper":
    """Return the swapper of the package's own word lists."""
    return swapping.Swapper()


def _normalise_word(word: str) -> str:
    """Return a word in lower case with blanks between its parts."""
    return " ".join(re.split(r"[\s-]+", word.lower()))
