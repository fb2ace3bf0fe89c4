"""Findings about judges of answers: how they agree, and whether they are blind to the group."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from swapbias import measures, swapping
from swapbias.findings.context import Context
from swapbias.findings.finding import Finding, experiment_of
from swapbias.findings.scored_rows import JUDGED_BY
from swapbias.measures import Estimate, is_comparison, kappa
from swapbias.privacy import public_model
from swapbias.studies import JUDGED, Experiment, Rubric, Slice, answer_text, load_study

JUDGE = "judge model"
"""Column of rows by judge, and the slice of findings about one of them: the name of the judge."""
ABOUT_JUDGES = (
    "agreement",
    "kappa",
    "judge_agreement",
    "judge_kappa",
    "judge_correlation",
    "group_leakage",
)
"""Measures of findings about judges themselves."""
GOAL = 0.02
"""The largest distance from chance of the recall of the group, at which a judge counts as blind."""
# The answers of which the group is predicted once more.
_ALIKE = "pairs judged alike"
_DIFFERENT = "different answers"
# Recalls of one fold after the other vary by 1.1 to 1.3 times what independent ones do.
_WIDER = 1.3


def judge_name(model_id: str) -> str:
    """Return the name of a judge in columns and findings: never a path of a machine.

    Args:
        model_id: the name of its model.
    """
    return public_model(model_id)


def place_columns(judge: str) -> tuple[str, str]:
    """Return the columns of the options that a judge named in its first and its second reading.

    Args:
        judge: the name of the judge.
    """
    return f"{JUDGED}_first:{judge}", f"{JUDGED}_second:{judge}"


def judges_of_rows(rows: pd.DataFrame) -> list[str]:
    """Return the names of the judges of scored rows, in the order in which they were named.

    Args:
        rows: scored rows.
    """
    return [str(name).removeprefix(JUDGED_BY) for name in rows if str(name).startswith(JUDGED_BY)]


def count_ungraded(study: str, experiment: str, rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Count the answers that a judge gave no grade, by judge and reason; none of an experiment that is not judged.

    Args:
        study: the name of the study.
        experiment: the name of its experiment.
        rows: scored rows of the experiment, one an answer.

    Returns:
        By judge: answers without a reply (blank answers are not sent), those for which it named no option, and those
        for which it named one that does not count.
    """
    rubrics = {
        question.name: question.reads.rubric
        for question in load_study(study).experiments
        if question.reads.rubric is not None
    }
    if experiment not in rubrics:
        return {}
    count = len(rubrics[experiment].candidates)
    ungraded = {}
    for judge in judges_of_rows(rows):
        places = rows.loc[rows[f"{JUDGED_BY}{judge}"].isna(), [*place_columns(judge)]]
        has_reply = places.notna().any(axis=1)
        is_none = (places == count).any(axis=1)
        ungraded[judge] = {
            "without a reply": int((~has_reply).sum()),
            "that name no option": int(is_none.sum()),
            "that do not count": int((has_reply & ~is_none).sum()),
        }
    return ungraded


def by_judge(experiment: Experiment, rows: pd.DataFrame) -> tuple[Experiment, pd.DataFrame]:
    """Return an experiment whose judges are a random factor, crossed with the others, and a row for each judge.

    Args:
        experiment: the experiment whose answers were judged.
        rows: scored rows, one a prompt.

    Returns:
        The experiment, also broken down by judge; and the rows of each judge, whose pairs are that judge's.
    """
    parts = []
    for judge in judges_of_rows(rows):
        ids = {
            column: rows[column].astype(str) + f"/{judge}" for column in ("prompt_id", "pair_id")
        }
        parts.append(rows.assign(**{JUDGED: rows[f"{JUDGED_BY}{judge}"], JUDGE: judge}, **ids))
    judged = experiment.changed(
        design={"random": {**experiment.design.random, JUDGE: "judges"}},
        shows={"slices": (*experiment.shows.slices, Slice(JUDGE, JUDGE))},
    )
    return judged, pd.concat(parts, ignore_index=True)


def judge_findings(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Yield findings about the judges of an experiment's rows; none where nothing was judged.

    Args:
        context: the context of the experiment and the score of its judges.
        rows: scored rows, a row an answer.
    """
    rubric = context.experiment.reads.rubric
    judges = judges_of_rows(rows)
    if rubric is None or not judges:
        return
    was_read = rows[[name for judge in judges for name in place_columns(judge)]].notna().any(axis=1)
    rows = rows[was_read].reset_index(drop=True)
    if not len(rows):
        return
    texts = without_groups(rows["answer"].tolist(), rubric.neutral)
    # Equal texts are judged once. Of credentialed ones no text is there.
    answers = [text or name for text, name in zip(texts, rows["prompt_id"], strict=True)]
    yield from _agreement_findings(context, rows, rubric, answers)
    judgements = rows.groupby("pair_id")[[f"{JUDGED_BY}{judge}" for judge in judges]]
    counts = judgements.transform(lambda scores: scores.nunique(dropna=False))
    is_alike = (counts == 1).all(axis=1)
    for contrast, chosen in (("every answer", rows), (_ALIKE, rows[is_alike])):
        estimate = _group_leakage(chosen, rubric, context.experiment.compared)
        yield context.finding(estimate, "group_leakage", contrast, cluster_vars="stories")


def _agreement_findings(
    context: Context, rows: pd.DataFrame, rubric: Rubric, answers: Sequence[str]
) -> Iterator[Finding]:
    """Yield how far each judge agrees with itself, and with each other one, who read the same.

    ``answers`` are the texts that were judged: equal ones are no two judgements.
    """
    judges = judges_of_rows(rows)
    options_named = {judge: _named_options(rows, judge, rubric) for judge in judges}
    for judge, readings in options_named.items():
        estimates = kappa.agreement(*readings, cluster_ids=answers)
        for measure, estimate in zip(("agreement", "kappa"), estimates, strict=True):
            fields = {"slice_by": JUDGE, "slice_value": judge, "cluster_vars": _DIFFERENT}
            yield context.finding(estimate, measure, "options in both orders", **fields)
    is_graded = len({option.value for option in rubric.candidates} - {None}) > 2
    for pair in combinations(judges, 2):
        first, second = (
            [*orders[0], *orders[1]] for orders in map(options_named.__getitem__, pair)
        )
        alike, chance_corrected = kappa.agreement(first, second, cluster_ids=[*answers, *answers])
        estimates_of_two = {"judge_agreement": alike, "judge_kappa": chance_corrected}
        if is_graded:
            estimates_of_two["judge_correlation"] = _correlate(rows, answers, pair)
        for measure, estimate in estimates_of_two.items():
            contrast = " and ".join(pair)
            yield context.finding(estimate, measure, contrast, cluster_vars=_DIFFERENT)


def _named_options(rows: pd.DataFrame, judge: str, rubric: Rubric) -> tuple[list[str], list[str]]:
    """Return the option that a judge named of each answer in its two readings; blank where it gave no reply."""
    names = [*(candidate.text for candidate in rubric.candidates), "none"]
    options = dict(enumerate(names))
    first, second = (
        rows[column].map(options).fillna("").tolist() for column in place_columns(judge)
    )
    return first, second


def _correlate(rows: pd.DataFrame, answers: Sequence[str], judges: Sequence[str]) -> Estimate:
    """Return Pearson's correlation of two judges' scores over the answers that differ."""
    columns = [f"{JUDGED_BY}{judge}" for judge in judges]
    means = rows[columns].groupby(np.asarray(answers, dtype=object)).mean()
    return measures.correlation(means[columns[0]].to_numpy(), means[columns[1]].to_numpy())


def _group_leakage(
    rows: pd.DataFrame, rubric: Rubric, groups: Sequence[str], *, most_folds: int = 5
) -> Estimate:
    """Estimate how well a simple classifier predicts the group from the judge's input: unweighted average recall.

    1 / groups: by chance; NaN of fewer than two stories (values of the rubric's ``units``, without the trial). The
    interval is over stories, and wider, for the folds share what they learn from (benchmarks/judge.py).
    """
    rows = rows[rows["group"].isin(list(groups)) & (rows["answer"] != "")]
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
    """Return the findings of judges over all rows of each experiment, and of each judge, with agreement and blinding.

    Args:
        findings: the findings of any runs.
    """
    all_findings = list(findings)
    question_of = attrgetter("study", "experiment", "model_id", "subset")
    answered = {question_of(finding) for finding in all_findings if finding.primary}
    judged = []
    for finding in all_findings:
        if finding.score != JUDGED or finding.slice_by not in ("all", JUDGE) or finding.view:
            continue
        is_answer = is_comparison(finding.measure) and question_of(finding) in answered
        if finding.measure in ABOUT_JUDGES or is_answer:
            judged.append(finding)
    return judged


def judges_of(findings: Iterable[Finding]) -> list[str]:
    """Return the names of the judges that findings are about, in order.

    Args:
        findings: the findings of judges.
    """
    judges = (finding.slice_value for finding in findings if finding.slice_by == JUDGE)
    return list(dict.fromkeys(judges))


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
