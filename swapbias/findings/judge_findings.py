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
from swapbias.measures import Estimate, is_comparison
from swapbias.studies import JUDGED, Rubric, answers

GOAL = 0.02  # the largest distance of the recall of the group from chance


_ALIKE = "pairs judged alike"  # the answers of which the group is predicted once more


_WIDER = (
    1.3  # recalls of one fold after the other vary by 1.1 to 1.3 times what independent ones do
)


def judge_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Findings about the judge of an experiment's rows, a row an answer; none where nothing was judged."""
    rubric = context.experiment.reads.rubric
    columns = (f"{JUDGED}_first", f"{JUDGED}_second")
    if rubric is None or columns[0] not in rows or rows[columns[0]].isna().all():
        return
    rows = rows[rows[columns[0]].notna()].reset_index(drop=True)
    names = dict(enumerate([*(one.text for one in rubric.candidates), "none"]))
    both = [rows[name].map(names).fillna("").tolist() for name in columns]
    shown = without_groups(rows["answer"].tolist(), rubric.neutral)  # equal texts are judged once
    for measure, estimate in zip(
        ("agreement", "kappa"), measures.agreement(*both, cluster_ids=shown), strict=True
    ):
        yield context.finding(
            estimate, measure, "options in both orders", cluster_vars="different answers"
        )
    alike = rows.groupby("pair_id")[JUDGED].transform(lambda one: one.nunique(dropna=False)) == 1
    for pairs, chosen in (("every answer", rows), (_ALIKE, rows[alike])):
        estimate = _group_leakage(chosen, rubric, context.experiment.compared)
        yield context.finding(estimate, "group_leakage", pairs, cluster_vars="stories")


def _group_leakage(
    rows: pd.DataFrame, rubric: Rubric, groups: Sequence[str], *, folds: int = 5
) -> Estimate:
    """How well a simple classifier predicts the group from the judge's input: unweighted average recall.

    1 / groups: by chance; NaN of fewer than two stories (values of the rubric's ``units``, without the trial). The
    interval is over stories, and wider, for the folds share what they learn from (benchmarks/judge.py).
    """
    known = rows[rows["group"].isin(list(groups))]
    known = known[
        known.groupby("pair_id")["group"].transform("nunique") == len(groups)
    ].reset_index(drop=True)
    columns = known[list(rubric.units)].astype(str).replace(r"/t\d+$", "", regex=True)
    joined = [" / ".join(values) for values in columns.itertuples(index=False)]
    stories = np.unique(joined, return_inverse=True)[1]
    truth = known["group"].to_numpy(dtype=object)
    count = len(set(stories.tolist()))
    if count < 2:
        return measures.uar([], [])
    shown = without_groups(known["answer"].tolist(), rubric.neutral)
    texts = np.array([answers.without_reasoning(one) for one in shown], dtype=object)
    predicted = np.full(len(texts), "", object)
    fold = stories % min(folds, count)
    for number in range(min(folds, count)):
        test = fold == number
        model = _classifier().fit(texts[~test].tolist(), truth[~test].tolist())
        predicted[test] = model.predict(texts[test].tolist())
    notes = known["pair_id"].astype(str).tolist()
    clusters = [str(one) for one in stories]
    found = measures.uar(predicted.tolist(), truth.tolist(), note_ids=notes, cluster_ids=clusters)
    low, high = (
        found.value + _WIDER * (end - found.value) for end in (found.ci_low, found.ci_high)
    )
    interval = f"{found.interval}, {_WIDER} x wider"
    return replace(found, ci_low=max(0.0, low), ci_high=min(1.0, high), interval=interval)


def _classifier() -> Any:
    """Words, pairs of words and pieces of words, weighted by tf-idf, in a logistic regression."""
    text = import_module("sklearn.feature_extraction.text")
    pipeline = import_module("sklearn.pipeline")
    linear = import_module("sklearn.linear_model")
    seen = pipeline.make_union(
        text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    return pipeline.make_pipeline(seen, linear.LogisticRegression(C=10.0, max_iter=1_000))


def findings_of_judge(found: Iterable[Finding]) -> list[Finding]:
    """The findings of a judge over all rows of each experiment that it answers, with its agreement and blinding."""
    every = list(found)
    place = attrgetter("study", "experiment", "model_id", "subset")
    answered = {place(one) for one in every if one.primary}
    mine = [one for one in every if one.score == JUDGED and one.slice_by == "all" and not one.view]
    about = ("agreement", "kappa", "group_leakage")
    return [
        one
        for one in mine
        if one.measure in about or (is_comparison(one.measure) and place(one) in answered)
    ]


def blinding(finding: Finding) -> tuple[str, float]:
    """Whether a judge was blind to the group, and the recall by chance; of a ``group_leakage``.

    ``unknown``, ``leaks``, ``leaks_in_judgement`` (other decisions about one group leak it by that alone: see the
    pairs that are judged alike), ``met``, ``too_few_stories`` or ``nearly_met``.
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
    """The texts neutralised by ``Swapper.neutralise``, and before it every one of these words by what stands for it.

    Words are whole ones, in any case, with a blank or a hyphen between their parts; the article before one becomes
    "a", which would tell an African American from a White person.

    >>> without_groups(["Mary is an African-American woman. I trust her."], {"Mary": "[name]", "African American": "[race]"})
    ['[name] is a [race] person. I trust them.']
    """  # noqa: E501
    stands = {_normalise_word(word): other for word, other in words.items()}
    if stands:
        longest = sorted(stands, key=lambda one: (-len(one), one))
        named = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in longest)
        whole = re.compile(rf"(?<!\w)(?:(a)n?\s+)?({named})(?!\w)", re.IGNORECASE)
        texts = [
            whole.sub(
                lambda one: (f"{one[1]} " if one[1] else "") + stands[_normalise_word(one[2])], text
            )
            for text in texts
        ]
    return _default_swapper().neutralise(texts)


@cache
def _default_swapper() -> "swapping.Swapper":
    return swapping.Swapper()


def _normalise_word(word: str) -> str:
    return " ".join(re.split(r"[\s-]+", word.lower()))
