"""Scored rows of one experiment as its findings read them: a row a prompt, a condition or a sentence."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.measures import Floats
from swapbias.studies import JUDGED, PLACEBO, Experiment

ANSWERS = "answers"
"""Among an experiment's rates: its prompts have several trials."""
LOST = "not_answered"
"""Column of shares of prompts, or of their trials, without an answer."""
CHANGE = "change"
"""Column of rows of two models: a score less the other model's."""
OTHER = "score_of_other"
"""Column of rows of two models: the other model's score."""
JUDGED_BY = f"{JUDGED}:"
"""Before the name of a judge: the score column of what that judge read in free text."""
CUT = "truncated"
"""The score column of answers that reached the most tokens."""
UNANSWERED_SCORES = ("unanswered", "refused", "said_unsure")
"""The score columns of prompts that no option answered."""
ANSWER_SCORES = (*UNANSWERED_SCORES, "length")
"""Score columns that say nothing where no answer could be read."""

# What the ids of a prompt with several trials end in, before those of a paraphrase.
_TRIAL = r"/t\d+(?=$|/w)"
# Share of the largest score: scores that differ by less are one number in float32.
_CONSTANT = 1e-6
# Scores of two models closer than this share of them are the same: batches of other sizes add up so.
_SAME = 1e-9


def row_shares(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> Floats:
    """Return the weight of each row in the mean of its group, as in ``condition_means``; 0 without a score.

    Args:
        experiment: the experiment whose design says what means are taken over first.
        rows: scored rows with ``group`` and the columns of ``aggregate``.
        score: the score column.

    Returns:
        Shape (rows,); the weights of a group add up to 1.
    """
    scored = rows[score].notna().to_numpy()
    weights = np.zeros(len(rows))
    aggregate = experiment.design.aggregate
    group, *levels = (
        pd.factorize(rows[column].to_numpy()[scored])[0] for column in ("group", *aggregate)
    )
    conditions = _cells(group, *levels)
    shares = 1 / np.bincount(conditions)[conditions]
    for index, level in enumerate(levels):
        wholes = _cells(group, *levels[index + 1 :])
        shares = shares / _count_within(wholes, level)
    weights[scored] = shares
    return weights


def _cells(*codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the number of each row's combination of codes, from 0."""
    cells = codes[0]
    for code in codes[1:]:
        cells = pd.factorize(cells * (code.max(initial=0) + 1) + code)[0]
    return cells


def _count_within(wholes: NDArray[np.intp], levels: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each row how many levels the rows of its whole have."""
    cells = _cells(wholes, levels)
    whole_of_cell = np.empty(cells.max(initial=-1) + 1, dtype=np.intp)
    whole_of_cell[cells] = wholes
    return np.bincount(whole_of_cell)[wholes]


def condition_means(
    experiment: Experiment, rows: pd.DataFrame, score: str = "score"
) -> pd.DataFrame:
    """Return a row per unit of comparison: rows themselves, or means over ``aggregate`` columns, the finest first.

    Where rows are pairs, the means of one unit are a pair.

    Args:
        experiment: the experiment whose design says what means are taken over.
        rows: scored rows with ``group``, ``label`` and the columns of ``aggregate``.
        score: the score column.
    """
    for start in range(len(experiment.design.aggregate)):
        keys = ["group", "label", *experiment.design.aggregate[start:]]
        rows = rows.groupby(keys, sort=False, as_index=False)[score].mean()
    if experiment.design.aggregate and experiment.is_paired:
        unit = rows[experiment.design.aggregate[-1]].astype(str)
        rows = rows.assign(pair_id=rows["label"].astype(str) + "/" + unit)
    return rows


def one_per_prompt(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a prompt; where no prompt was answered there is no share of those answered less either.

    Args:
        experiment: the experiment that the rows belong to.
        rows: scored rows, one a trial.
    """
    rows = over_prompts(experiment, rows)
    if ANSWERS in experiment.shows.rates:
        rows = readable(rows)
    if rows["score"].isna().all():
        rows = rows.assign(**{name: math.nan for name in ANSWER_SCORES if name in rows})
    return rows


def over_prompts(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a prompt with its mean scores over trials; ``LOST`` is the share of its trials without a score.

    Trials of answers that are compared by sentence stay.

    Args:
        experiment: the experiment that the rows belong to.
        rows: scored rows, one a trial.
    """
    if ANSWERS in experiment.shows.rates or "trial" not in rows:
        return rows
    ids = {
        column: rows[column].str.replace(_TRIAL, "", regex=True)
        for column in ("prompt_id", "pair_id")
    }
    is_lost = rows["score"].isna().astype(float)
    trials = rows.drop(columns="trial").assign(**ids, **{LOST: is_lost})
    by_judge = [column for column in trials if column.startswith(JUDGED_BY)]
    averaged = (*experiment.shows.scores, *experiment.shows.reported, *by_judge, CUT, LOST)
    scores = [column for column in averaged if column in trials]
    means = trials.groupby("prompt_id", sort=False)[scores].mean()
    prompts = trials.drop_duplicates("prompt_id").set_index("prompt_id")
    prompts = prompts.assign(**{column: means[column] for column in means})
    if "predicted" in rows:
        is_positive = (means["score"] > 0.5).astype(float)
        prompts["predicted"] = is_positive.where(means["score"].notna())
    return prompts.reset_index()


def over_trials(rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """Return a row per sentence, adjectives and side with its mean score over trials.

    Args:
        rows: scored rows, one a trial; without a column ``trial`` they stay as they are.
        score: the score column; NaN where no trial was answered.
    """
    if "trial" not in rows:
        return rows
    keys = ["template", "condition", "group"]
    means = rows.groupby(keys, sort=False)[score].transform("mean")
    pairs = rows["template"] + "/" + rows["condition"]
    averaged = rows.assign(**{score: means, "pair_id": pairs})
    return averaged.drop(columns="trial").drop_duplicates(keys)


def by_sentence(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """Return a row per sentence and side, a pair, of answers in trials; other rows as they are.

    Its score is the mean over trials first, then over adjectives of which both sides are scored.

    Args:
        experiment: the experiment that the rows belong to.
        rows: scored rows, one a trial.
        score: the score column.
    """
    if ANSWERS not in experiment.shows.rates or "trial" not in rows or rows["group"].nunique() != 2:
        return rows
    reference = experiment.compares.reference
    group = next(group for group in rows["group"] if group != reference)
    trials = readable(rows).groupby(["template", "condition", "group"], sort=False)[score]
    pairs = trials.mean().unstack("group")
    means = pairs.dropna().groupby("template").mean()
    sentences = rows.drop_duplicates("template").drop(columns="trial")
    sentences = sentences.assign(pair_id=sentences["template"])
    sides = [
        sentences.assign(**{"group": side, score: sentences["template"].map(means[side])})
        for side in (group, reference)
    ]
    return pd.concat(sides, ignore_index=True)


def rows_of_two(rows: pd.DataFrame, rows_of_other: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of prompts that two models have both, with ``OTHER`` and ``CHANGE``.

    Args:
        rows: scored rows of one model, a row a prompt.
        rows_of_other: the rows of the other model, whose scores are subtracted.
    """
    both, scores = scores_of_two(rows, rows_of_other)
    both = both.reset_index(drop=True)
    return both.assign(**{OTHER: scores.subtracted, CHANGE: scores.change})


class ScoresOfTwo(NamedTuple):
    """Scores of two models of the same rows."""

    score: Floats
    """Shape (rows,): of the first."""
    subtracted: Floats
    """Shape (rows,): of the other."""

    @property
    def change(self) -> Floats:
        """The score of the first less that of the other; 0 where only batches of another size differ."""
        change = self.score - self.subtracted
        largest = np.maximum(np.abs(self.score), np.abs(self.subtracted))
        change[np.abs(change) <= _SAME * largest] = 0.0
        return change


def scores_of_two(
    rows: pd.DataFrame, rows_of_other: pd.DataFrame
) -> tuple[pd.DataFrame, ScoresOfTwo]:
    """Return the rows of prompts that two models have both, and their scores.

    Args:
        rows: scored rows of one model, a row a prompt.
        rows_of_other: the rows of the other model, whose scores are subtracted.
    """
    prompts = rows["prompt_id"]
    if prompts.is_unique and have_same_values(prompts, rows_of_other["prompt_id"]):
        # Most models score the same prompts in one order, and a join of them would take most of the time.
        other_scores = rows_of_other["score"]
        return rows, ScoresOfTwo(rows["score"].to_numpy(), other_scores.to_numpy())
    scores_by_prompt = rows_of_other[["prompt_id", "score"]].rename(columns={"score": OTHER})
    both = rows.merge(scores_by_prompt, on="prompt_id")
    return both, ScoresOfTwo(both["score"].to_numpy(), both[OTHER].to_numpy())


def have_same_values(first: pd.Series, second: pd.Series) -> bool:
    """Tell whether two columns are equal whatever their indexes; those that lie in one memory are so at once.

    Args:
        first: shape (rows,).
        second: shape (rows,).
    """
    if first.dtype == second.dtype == object:
        places = [
            (values.__array_interface__["data"], values.shape, values.strides)
            for values in (first.to_numpy(), second.to_numpy())
        ]
        if places[0] == places[1]:
            return True
    return bool(first.array.equals(second.array))


def readable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, without any score where not one answer of a model can be read: these are no wrong answers.

    Args:
        rows: scored rows of one model.
    """
    if "said_other" in rows and (rows["said_other"].dropna() > 0).all():
        return rows.assign(score=math.nan)
    return rows


def scores_right_answers(experiment: Experiment) -> bool:
    """Tell whether a score says if an answer is right: then equal scores may be those of a model without error.

    Args:
        experiment: the experiment whose unit and rates say so.
    """
    return ANSWERS in experiment.shows.rates or experiment.compares.unit.is_right_answer


def is_constant(experiment: Experiment, rows: pd.DataFrame) -> bool:
    """Tell whether a model scores every prompt the same; not of right answers, of which all may be right.

    Args:
        experiment: the experiment that the rows belong to.
        rows: scored rows of one model; placebo rows are left out.
    """
    scores = rows["score"].to_numpy(dtype=np.float64)
    scores = scores[(rows["group"] != PLACEBO).to_numpy() & ~np.isnan(scores)]
    if not len(scores) or scores_right_answers(experiment):
        return False
    return bool(np.ptp(scores) <= _CONSTANT * np.abs(scores).max())


def split_rows(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    """Split rows by the values of a column, in the order of the rows.

    Args:
        rows: scored rows.
        column: the column of a subset or slice; blank: the rows stay together.

    Returns:
        Each value with its rows; nothing where the rows lack the column, as released outputs may lack one that own
        prompts have.
    """
    if not column:
        return [("", rows)]
    if column not in rows:
        return []
    return [(str(value), part) for value, part in rows.groupby(column, sort=False)]
