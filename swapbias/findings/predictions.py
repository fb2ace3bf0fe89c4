"""Findings of predictions, answers, cosines and judgements: flips, rates, leakage, direct bias."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias import swapping
from swapbias.findings.finding import AS_PUBLISHED, JUDGED, Context, Finding, experiment_of
from swapbias.findings.sensitivity import ANSWERS, by_sentence, gap_units, pair_gaps
from swapbias.measures import (
    WITHOUT_PAIR,
    Estimate,
    agreement_share,
    difference_of_biases,
    flip_rate,
    from_cosines,
    kappa,
    macro_f1,
    mean_score,
    options_of,
    performance,
    rate_ratio,
    selection_rate,
    trial_biases,
    uar,
)
from swapbias.studies import Rubric, without_reasoning

BASELINE = "baseline"
STRICT = "strict_correct"
_SHARES = (("said_unsure", "unsure"), ("said_other", "not readable"), ("strict_other", "not readable, strictly"))
POSITIVE = "positive"
AS_WRITTEN = "original"  # the version of a note in its patient's own gender
RANDOM_DIRECT = "random words: mean |cosine|"
RANDOM_SIGNED = "random words: mean cosine"
RANDOM_DIRECTION = "direction at random: mean |cosine|"
EXPLAINED = "variance explained by the gender direction"
SIGNED = ("flips", "ratios", "actual")  # rates with a direction, which cancels over slices of opposite signs
FIRST, SECOND = f"{JUDGED}_first", f"{JUDGED}_second"
GOAL = 0.02  # the largest distance of the recall of the group from chance
EVERY, ALIKE = "every answer", "pairs judged alike"  # the answers from which the group is predicted
UNKNOWN, LEAKS, LEAKS_IN_JUDGEMENT, MET, TOO_FEW_STORIES, NEARLY = BLINDING = (
    "unknown", "leaks", "leaks_in_judgement", "met", "too_few_stories", "nearly_met",
)  # fmt: skip
_FOLDS = 5
_WIDER = 1.3  # recalls of one fold after the other vary by 1.1 to 1.3 times what independent ones do
_TRIAL = r"/t\d+$"


# --- right answers over sentences ---------------------------------------------------------------------


def _answers(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Unreadable and missing answers, the bias by the strict parser, and differences to the baseline."""
    over, missing = context.random(rows)[1], 100 * rows["score"].isna().to_numpy(dtype=float)
    shares = [(name, 100 * _column(rows, column)) for column, name in _SHARES]
    if 0 < missing.mean() < 100:  # where all are, every other row says so
        shares.append(("missing", missing))
    clusters = context.random(rows.drop_duplicates("template"))[0]
    for name, percent in shares:
        means = rows.assign(share=percent).groupby("template", sort=False)["share"].mean()
        share = mean_score(means.to_numpy(), cluster_ids=clusters)
        yield context.finding(share, "mean", f"answers {name}", cluster_vars=over)
    for one in context.gaps():
        two, contrast = one.two(rows), one.gap_fields["contrast"]
        strict = _column(two, STRICT)
        units = gap_units(one, two.assign(score=np.where(np.isnan(strict), strict, 100.0 * (strict > 0))))
        if units is None:
            continue
        fields = {**one.gap_fields, "contrast": f"{contrast}, strict parser"}
        yield context.finding(units.measured(), "answer_bias", cluster_vars=over, **fields)
        base = two[two["condition"] == BASELINE]
        for condition, part in (
            two.groupby("condition", sort=False) if context.slice_by == "all" and len(base) else ()
        ):
            if condition != BASELINE:
                here = replace(one, slice_by="adjectives", slice_value=str(condition))
                yield from _baseline_difference(here, part, base)


def _column(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of answers; NaN where no answer at all was read."""
    found: NDArray[np.float64] = rows[name].to_numpy(dtype=float) if name in rows else np.full(len(rows), np.nan)
    return found


def _baseline_difference(context: Context, part: pd.DataFrame, base: pd.DataFrame) -> Iterator[Finding]:
    """The bias under some adjectives minus the baseline's: paired by sentence, and over trials as published."""
    experiment, contrast = context.experiment, f"{context.gap_fields['contrast']}, minus {BASELINE}"
    gaps = [
        pair_gaps(context, by_sentence(experiment, rows)).assign(group=name, score=lambda made: made["gap"])
        for name, rows in (("condition", part), (BASELINE, base))
    ]  # a sentence that either lacks is NaN, and counted
    paired = replace(experiment, rates=(), group="condition", reference_group=BASELINE)
    if (units := gap_units(replace(context, experiment=paired), pd.concat(gaps))) is not None:
        over = context.random(part)[1]
        yield context.finding(units.measured(), "bias_difference", contrast, cluster_vars=over)
    published = difference_of_biases(*(_by_trial(context, rows) for rows in (part, base))).estimate
    yield context.finding(published, "bias_difference", contrast, view=AS_PUBLISHED)


def _by_trial(context: Context, rows: pd.DataFrame) -> list[float]:
    """The bias of each trial. Answers that could not be read are a class of their own; any other is wrong."""
    unread = rows["said_other"] > 0 if "said_other" in rows else np.zeros(len(rows), dtype=bool)
    classes = [
        None if math.isnan(score) else "correct" if score > 0 else "other" if other else "incorrect"
        for score, other in zip(rows["score"], unread, strict=True)
    ]
    reference, sides = context.experiment.reference_group, rows["group"].tolist()
    return [*trial_biases(classes, sides, trial_ids=rows["trial"].tolist(), reference_group=reference).values()]


# --- predictions for notes ----------------------------------------------------------------------------


def subjects(rows: pd.DataFrame) -> list[str] | None:
    """The subject of each row, whose notes are not independent; None where the rows do not say."""
    known = rows.get("subject_id")
    return None if known is None or not known.astype(bool).all() else known.astype(str).tolist()


def over_subjects(rows: pd.DataFrame) -> str:
    """The random factor of notes."""
    return "notes" if subjects(rows) is None else "subjects"


def _notes(context: Context, rows: pd.DataFrame) -> dict[str, Any]:
    """What measures of predictions read of every note."""
    return {
        "groups": rows["group"].to_numpy(), "reference_group": context.experiment.reference_group,
        "cluster_ids": subjects(rows), "seed": context.seed,
    }  # fmt: skip


def _predicted(rows: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(rows["predicted"], dtype=np.float64)


def is_positive(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the true label of each note is positive."""
    return np.asarray(rows["label"] == POSITIVE)


def _pair(context: Context) -> str:
    return f"{context.experiment.group} and {context.experiment.reference_group}"


def _flips(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """The share of notes whose prediction changes with the gender, and who gets more positives."""
    two = context.two(rows)
    if not context.whole(two):
        return
    pairs, scores = two["pair_id"].to_numpy(), two["score"].to_numpy(dtype=float)
    found = flip_rate(_predicted(two), pair_ids=pairs, scores=scores, **_notes(context, two))
    undecided = math.isnan(found.estimate.value) or found.more == found.fewer
    yield context.finding(
        found.estimate, "flip_rate", _pair(context), cluster_vars=over_subjects(rows),
        higher_group="" if undecided else found.higher_group,
        only_group=float(found.more), only_reference=float(found.fewer),
    )  # fmt: skip


def _ratios(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """True and false positive rates: their difference, the log of their ratio, and the ratio as published."""
    two = context.two(rows)
    if not context.whole(two):
        return
    over, contrast, pairs = over_subjects(two), context.gap_fields["contrast"], two["pair_id"].to_numpy()
    for rate in ("tpr", "fpr"):
        found = rate_ratio(_predicted(two), is_positive(two), pair_ids=pairs, rate=rate, **_notes(context, two))
        for measure, estimate, name, more in (
            (f"{rate}_difference", found.difference, contrast, {"cluster_vars": over}),
            (f"log_{rate}r", found.log_ratio, contrast, {"cluster_vars": over}),
            (f"{rate}r", found.estimate, _pair(context), {"view": AS_PUBLISHED}),
        ):
            higher = "" if math.isnan(estimate.value) else found.higher_group
            yield context.finding(estimate, measure, name, higher_group=higher, **more)


def _actual(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Performance for each gender in the notes as they were written, each of its patient's own gender.

    Of labels alone (scores that are 0 or 1) there are the rates, and nothing of ranking and calibration.
    """
    two = context.two(rows)
    mine = two[two["version"] == AS_WRITTEN] if "version" in two else two.iloc[:0]
    if not context.whole(mine):
        return
    scores = mine["score"].to_numpy(dtype=float)
    graded = not np.isin(scores[~np.isnan(scores)], (0, 1)).all()
    found = performance(
        _predicted(mine), is_positive(mine), scores=scores if graded else None, **_notes(context, mine)
    )
    over, sides = over_subjects(mine), (context.experiment.group, context.experiment.reference_group)
    for group, values in found.groups.items():
        for measure, estimate in values.items():
            yield context.finding(estimate, measure, group, cluster_vars=over)
    contrast = context.gap_fields["contrast"]
    for measure, estimate in found.differences.items():
        higher = sides[0] if estimate.value > 0 else sides[1] * (estimate.value < 0)
        yield context.finding(estimate, measure, contrast, cluster_vars=over, higher_group=higher)
    yield context.finding(found.equalised_odds, "equalised_odds_difference", contrast, cluster_vars=over)


def _f1(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Macro F1 over both versions of every note."""
    pairs = rows["pair_id"].to_numpy()
    estimate = macro_f1(_predicted(rows), is_positive(rows), pair_ids=pairs, cluster_ids=subjects(rows))
    yield context.finding(estimate, "macro_f1", "all", cluster_vars=over_subjects(rows))


def _leakage(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """How well the gender is predicted from the notes: unweighted average recall, one half by chance."""
    pairs = rows["pair_id"].tolist()
    estimate = uar(rows["answer"].tolist(), rows["group"].tolist(), note_ids=pairs, cluster_ids=subjects(rows))
    yield context.finding(estimate, "leakage_uar", "gender", cluster_vars=over_subjects(rows))


# --- word vectors -------------------------------------------------------------------------------------


def _direction(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Direct bias and its sign, against random words and directions, and how clear the gender direction is."""
    others = rows.filter(regex=f"^{WITHOUT_PAIR}[0-9]+$")
    dimensions = _constant(rows, "dimensions")
    found = from_cosines(
        rows["score"].to_numpy(dtype=float), _random_cosines(rows),
        without_pairs=others.to_numpy(dtype=float) if len(others.columns) else None,
        dimensions=None if math.isnan(dimensions) else int(dimensions),
        like_frequency=_constant(rows, "frequency_known") == 1,
    )  # fmt: skip
    yield context.finding(found.direct_bias, "direct_bias", "mean |cosine|", cluster_vars="words")
    yield context.finding(found.signed, "signed_mean", "mean cosine", cluster_vars="words")
    facts = {RANDOM_DIRECT: found.null_mean, RANDOM_SIGNED: found.null_signed_mean}
    if context.slice_by == "all":
        facts |= {RANDOM_DIRECTION: found.random_direction, EXPLAINED: _constant(rows, "explained_variance")}
    for name, value in facts.items():
        if not math.isnan(value):
            unit = "share of variance" if name == EXPLAINED else "cosine"
            yield context.finding(Estimate(value, test="none"), "mean", name, unit=unit)


def _constant(rows: pd.DataFrame, name: str) -> float:
    """The value of a column that is the same in all rows; NaN where it is not there or blank."""
    known = rows[name].dropna().tolist() if name in rows else []
    return float(known[0]) if known else math.nan


def _random_cosines(rows: pd.DataFrame) -> NDArray[np.float64] | None:
    """Cosines of the random words drawn for each word: (words, sets), NaN where a word had none."""
    drawn = [[cosine for _, cosine in json.loads(cell)] for cell in rows["top_tokens"]]
    width = max(map(len, drawn), default=0)
    if not width:
        return None
    return np.array([row if len(row) == width else [math.nan] * width for row in drawn], dtype=np.float64)


# --- a judge of answers in free text ------------------------------------------------------------------


def judgements(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Findings about the judge of an experiment's rows, a row an answer; none where nothing was judged."""
    rubric = context.experiment.rubric
    if rubric is None or FIRST not in rows or rows[FIRST].isna().all():
        return
    rows = rows[rows[FIRST].notna()].reset_index(drop=True)
    names = dict(enumerate([*(one.text for one in options_of(rubric.candidates)), "none"]))
    first, second = (rows[name].map(names).fillna("").tolist() for name in (FIRST, SECOND))
    shown = swapping.without_groups(rows["answer"].tolist(), rubric.neutral)  # equal texts are judged once
    for measure, estimate in (
        ("agreement", agreement_share(first, second, cluster_ids=shown)),
        ("kappa", kappa(first, second, cluster_ids=shown, seed=context.seed)),
    ):
        yield context.finding(estimate, measure, "options in both orders", cluster_vars="different answers")
    alike = rows.groupby("pair_id")[JUDGED].transform(lambda one: one.nunique(dropna=False)) == 1
    for pairs, chosen in ((EVERY, rows), (ALIKE, rows[alike])):
        estimate = group_leakage(chosen, rubric, context.experiment.compared)
        yield context.finding(estimate, "group_leakage", pairs, cluster_vars="stories")


def _story_ids(rows: pd.DataFrame, rubric: Rubric) -> list[str]:
    """The story of each row: the values of its rubric's ``units``, without the trial."""
    columns = [rows[name].astype(str).str.replace(_TRIAL, "", regex=True) for name in rubric.units]
    return [" / ".join(values) for values in zip(*columns, strict=True)]


def group_leakage(rows: pd.DataFrame, rubric: Rubric, groups: Sequence[str], *, folds: int = _FOLDS) -> Estimate:
    """How well a simple classifier predicts the group from the judge's input: unweighted average recall.

    1 / groups: by chance; NaN of fewer than two stories. A story is never in two folds. Only pairs of which the judge
    saw all sides are read. The interval is over stories, and wider, for the folds share what they learn from
    (benchmarks/judge.py).

    Args:
        rows: of answers that were judged.
        rubric: how they were neutralised.
        groups: the classes.
        folds: at most.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    known = rows[rows["group"].isin(list(groups))]
    whole = known.groupby("pair_id")["group"].transform("nunique") == len(groups)
    known = known[whole].reset_index(drop=True)
    stories = np.unique(_story_ids(known, rubric), return_inverse=True)[1] if len(known) else np.empty(0, dtype=int)
    truth, count = known["group"].to_numpy(dtype=object), len(set(stories.tolist()))
    if count < 2:
        return uar([], [])
    shown = swapping.without_groups(known["answer"].tolist(), rubric.neutral)
    texts = np.array([without_reasoning(one) for one in shown], dtype=object)
    predicted, fold = np.full(len(texts), "", object), stories % min(folds, count)
    for number in range(min(folds, count)):
        test = fold == number
        model = _classifier().fit(texts[~test].tolist(), truth[~test].tolist())
        predicted[test] = model.predict(texts[test].tolist())
    notes, clusters = known["pair_id"].astype(str).tolist(), [str(one) for one in stories]
    found = uar(predicted.tolist(), truth.tolist(), note_ids=notes, cluster_ids=clusters)
    low, high = (found.value + _WIDER * (end - found.value) for end in (found.ci_low, found.ci_high))
    interval = f"{found.interval}, {_WIDER} x wider"
    return replace(found, ci_low=max(0.0, low), ci_high=min(1.0, high), interval=interval)


def _classifier() -> Any:
    """Words, pairs of words and pieces of words, weighted by tf-idf, in a logistic regression."""
    text, pipeline = import_module("sklearn.feature_extraction.text"), import_module("sklearn.pipeline")
    linear = import_module("sklearn.linear_model")
    seen = pipeline.make_union(
        text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"),
        text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    return pipeline.make_pipeline(seen, linear.LogisticRegression(C=10.0, max_iter=1_000))


def by_the_judge(found: Iterable[Finding]) -> list[Finding]:
    """The findings of a judge over all rows of each experiment that it answers, with its agreement and blinding."""
    every = list(found)
    answered = {(one.study, one.experiment, one.model_id, one.subset) for one in every if one.headline}

    def shown(one: Finding) -> bool:
        answers = (one.study, one.experiment, one.model_id, one.subset) in answered
        return one.measure in ("agreement", "kappa", "group_leakage") or (one.measure == "paired_gap" and answers)

    return [one for one in every if one.score == JUDGED and one.slice_by == "all" and not one.view and shown(one)]


def blinding(finding: Finding) -> tuple[str, float]:
    """Whether a judge was blind to the group, of ``BLINDING``, and the recall by chance; of a ``group_leakage``.

    Answers with other decisions about one group leak it by that alone: see the pairs that are judged alike.
    """
    experiment, estimate = experiment_of(finding), finding.estimate
    chance = 1 / len(experiment.compared) if experiment else math.nan
    if math.isnan(estimate.ci_low):
        return UNKNOWN, chance
    if estimate.ci_low > chance and estimate.value > chance + GOAL:
        return LEAKS if finding.contrast == ALIKE else LEAKS_IN_JUDGEMENT, chance
    if chance - GOAL <= estimate.ci_low and estimate.ci_high <= chance + GOAL:
        return MET, chance
    return TOO_FEW_STORIES if estimate.ci_low <= chance else NEARLY, chance


def _selection(context: Context, rows: pd.DataFrame) -> Iterator[Finding]:
    """Of candidates who are chosen among each other the impact ratio of each group to the mean of all."""
    clusters, over = context.random(rows)
    if rows["group"].nunique() < len(context.experiment.compared):
        return
    found = selection_rate(
        rows["score"].to_numpy(), rows["group"].tolist(), pair_ids=rows["pair_id"].tolist(), cluster_ids=clusters
    )
    for group in context.experiment.compared:
        yield context.finding(found[group][1], "impact_ratio", group, cluster_vars=over)


RATES: Mapping[str, Callable[[Context, pd.DataFrame], Iterator[Finding]]] = {
    "flips": _flips,
    "ratios": _ratios,
    "f1": _f1,
    "actual": _actual,
    "leakage": _leakage,
    "direction": _direction,
    "selection": _selection,
    ANSWERS: _answers,
}


# --- answers by class ---------------------------------------------------------------------------------


def answer_counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many answers are right, wrong, unsure, refused, unreadable or missing; every answer is of one class."""

    def marked(column: str) -> "pd.Series[bool]":
        return rows[column].astype(float) > 0 if column in rows else pd.Series(False, index=rows.index)

    wrong, unsure, other, refused = (
        marked(one) for one in ("said_incorrect", "said_unsure", "said_other", "refused")
    )
    silent = rows["said_other"].isna()
    text = rows["answer"].fillna("").astype(str).str.strip() if "answer" in rows else pd.Series("", index=rows.index)
    if (text != "").any():  # texts of credentialed notes are not stored
        silent |= other & (text == "")
    read = marked("said_correct") if "said_correct" in rows else ~other & ~unsure & ~silent
    classes = (read, wrong, unsure, other & ~silent & refused, other & ~silent & ~refused, silent)
    names = ("right", "wrong", "unsure", "refused", "unreadable", "no answer")  # the last: nothing came
    return {name: int(one.sum()) for name, one in zip(names, classes, strict=True)}
