"""What a judge found: how steadily it reads, and how well it could tell the group from what it was shown."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from swapbias import swapping
from swapbias.findings.finding import JUDGED, Context, Finding, experiment_of
from swapbias.measures import Estimate, agreement_share, kappa, options_of, uar
from swapbias.studies import Rubric, without_reasoning

FIRST, SECOND = f"{JUDGED}_first", f"{JUDGED}_second"
GOAL = 0.02  # from chance: so far the recall of the group may lie
EVERY, ALIKE = "every answer", "pairs judged alike"  # what it is told from
_FOLDS = 5
_WIDER = 1.3  # recalls of one fold after the other vary by 1.1 to 1.3 times what independent ones do
_TRIAL = r"/t\d+$"


def judgements(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Findings about the judge of an experiment's rows, a row an answer; none where nothing was judged."""
    rubric = context.experiment.rubric
    if rubric is None or FIRST not in rows or rows[FIRST].isna().all():
        return
    rows = rows[rows[FIRST].notna()].reset_index(drop=True)
    first, second = (_named(rows[name], rubric) for name in (FIRST, SECOND))
    shown = swapping.without_groups(
        rows["answer"].tolist(), rubric.neutral
    )  # what is the same is judged once for all
    told: dict[str, Any] = {"subset": "", "inference": f"over {len(set(shown))} different answers"}
    readings = "options in both orders"
    yield context.finding(agreement_share(first, second, cluster_ids=shown), "agreement", readings, **told)
    yield context.finding(
        kappa(first, second, cluster_ids=shown, seed=context.seed), "kappa", readings,
        direction="1: always alike; 0: no more than by chance", **told,
    )  # fmt: skip
    groups = context.experiment.compared
    told["inference"] = f"over {len(set(told_apart(rows, rubric)))} stories"
    for pairs, chosen in ((EVERY, rows), (ALIKE, rows[_alike(rows)])):
        yield context.finding(
            group_told(chosen, rubric, groups), "group_told", pairs,
            direction=f"{1 / len(groups):.2f} is chance; 1: every answer tells the group", **told,
        )  # fmt: skip


def _alike(rows: pd.DataFrame) -> pd.Series:
    """Of each row whether its pair is judged alike: then no difference in judgement tells the groups apart."""
    return rows.groupby("pair_id")[JUDGED].transform(lambda one: one.nunique(dropna=False)) == 1


def _named(places: pd.Series, rubric: Rubric) -> list[str]:
    names = [*(one.text for one in options_of(rubric.candidates)), "none"]
    return ["" if math.isnan(place) else names[int(place)] for place in places.to_numpy(dtype=float)]


def told_apart(rows: pd.DataFrame, rubric: Rubric) -> list[str]:
    """The story of each row: what its rubric's ``units`` say, without the trial."""
    columns = [rows[name].astype(str).str.replace(_TRIAL, "", regex=True) for name in rubric.units]
    return [" / ".join(values) for values in zip(*columns, strict=True)]


def group_told(rows: pd.DataFrame, rubric: Rubric, groups: Sequence[str], *, folds: int = _FOLDS) -> Estimate:
    """How well a simple classifier tells the group from what the judge saw: unweighted average recall.

    Words, pairs of words and pieces of words, weighted by tf-idf, in a logistic regression; a story is never in two
    folds. 1 / groups: by chance. Only pairs of which the judge saw all sides are read, so that the classes are as
    large in every fold. NaN of fewer than two stories. The interval is over stories, and wider than that of
    predictions that share nothing: the folds learn from each other (benchmarks/judge.py).

    Args:
        rows: of answers that were judged.
        rubric: how they were neutralised.
        groups: that are told apart.
        folds: at most.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    known = rows[rows["group"].isin(list(groups))]
    whole = known.groupby("pair_id")["group"].transform("nunique") == len(groups)
    known = known[whole].reset_index(drop=True)
    stories = np.unique(told_apart(known, rubric), return_inverse=True)[1] if len(known) else np.empty(0, dtype=int)
    truth, count = known["group"].astype(str).tolist(), len(set(stories.tolist()))
    if count < 2:
        return uar([], [])
    texts = [without_reasoning(one) for one in swapping.without_groups(known["answer"].tolist(), rubric.neutral)]
    predicted = np.full(len(texts), "", dtype=object)
    fold = stories % min(folds, count)
    for held in range(min(folds, count)):
        test = np.flatnonzero(fold == held)
        learnt = _classifier().fit([texts[one] for one in np.flatnonzero(fold != held)],
                                   [truth[one] for one in np.flatnonzero(fold != held)])  # fmt: skip
        predicted[test] = learnt.predict([texts[one] for one in test])
    found = uar(
        predicted.tolist(),
        truth,
        note_ids=known["pair_id"].astype(str).tolist(),
        cluster_ids=[str(one) for one in stories],
    )
    low, high = (found.value + _WIDER * (end - found.value) for end in (found.ci_low, found.ci_high))
    return replace(
        found, ci_low=max(0.0, low), ci_high=min(1.0, high), interval=f"{found.interval}, {_WIDER} x wider"
    )


def _classifier() -> Any:
    text, pipeline = import_module("sklearn.feature_extraction.text"), import_module("sklearn.pipeline")
    linear = import_module("sklearn.linear_model")
    seen = pipeline.make_union(
        text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    return pipeline.make_pipeline(seen, linear.LogisticRegression(C=10.0, max_iter=1_000))


def by_the_judge(found: Iterable[Finding]) -> list[Finding]:
    """What a judge found over all rows of each experiment that it answers, and how steady and how blind it was."""
    every = list(found)
    answered = {(one.study, one.experiment, one.model_id, one.subset) for one in every if one.headline}
    return [
        one
        for one in every
        if one.score == JUDGED
        and one.slice_by == "all"
        and not one.view
        and (
            one.measure in ("agreement", "kappa", "group_told")
            or (one.measure == "paired_gap" and (one.study, one.experiment, one.model_id, one.subset) in answered)
        )
    ]


def told_by_chance(finding: Finding) -> str:
    """What the recall of the group says of a judge's blindness, as the end of a sentence.

    Answers that decide otherwise about one group tell it by that alone: see the pairs that are judged alike.
    """
    experiment, estimate = experiment_of(finding), finding.estimate
    chance = 1 / len(experiment.compared) if experiment else math.nan
    goal = f"goal {chance:.2f} ± {GOAL:.2f}"
    if math.isnan(estimate.ci_low):
        return f"{goal}: not known"
    if estimate.ci_low > chance and estimate.value > chance + GOAL:
        why = "by more than the judgement" if finding.contrast == ALIKE else "by their wording or by what they decide"
        return f"{goal}: WARNING, answers tell the group without its words as well, {why}"
    if chance - GOAL <= estimate.ci_low and estimate.ci_high <= chance + GOAL:
        return f"{goal}: met"
    return f"{goal}: too few stories to show that it is met" if estimate.ci_low <= chance else f"{goal}: nearly met"
