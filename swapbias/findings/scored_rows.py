"""Scored rows of one experiment as its findings read them: a row a prompt, a condition or a sentence."""

import math

import numpy as np
import pandas as pd

from swapbias.measures import Floats
from swapbias.studies import PLACEBO, Experiment

ANSWERS = "answers"  # among an experiment's rates: its prompts have several trials


LOST = "not_answered"  # the column of shares of prompts, or of their trials, without an answer


# columns of rows of two models: a score less the other model's; that
CHANGE = "change"


OTHER = "score_of_other"


CUT = "truncated"  # the score column of answers that reached the most tokens


_TRIAL = r"/t\d+(?=$|/w)"  # what the ids of a prompt with several trials end in, before those of a paraphrase


_CONSTANT = 1e-6  # of the largest score: scores that differ by less are one number in float32


_SAME = 1e-9  # scores of two models closer than this share of them are the same: batches of other sizes add up so


def row_shares(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> Floats:
    """Weight of each row in the mean of its group, as in ``condition_means``; 0 without a score."""
    scored = rows[score].notna().to_numpy()
    used = rows[scored]
    shares = np.zeros(len(rows))
    sizes = (
        1
        / used.groupby(["group", *experiment.design.aggregate], sort=False)["group"]
        .transform("size")
        .to_numpy()
    )
    for place, column in enumerate(experiment.design.aggregate):
        within = ["group", *experiment.design.aggregate[place + 1 :]]
        sizes = sizes / used.groupby(within, sort=False)[column].transform("nunique").to_numpy()
    shares[scored] = sizes
    return shares


def condition_means(
    experiment: Experiment, rows: pd.DataFrame, score: str = "score"
) -> pd.DataFrame:
    """One row per unit of comparison: rows themselves, or means over ``aggregate`` columns, the finest first."""
    for start in range(len(experiment.design.aggregate)):
        keys = ["group", "label", *experiment.design.aggregate[start:]]
        rows = rows.groupby(keys, sort=False, as_index=False)[score].mean()
    return rows


def over_prompts(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a prompt with its mean scores over trials; ``LOST`` is the share of its trials without a score.

    Trials of answers that are compared by sentence stay.
    """
    if ANSWERS in experiment.shows.rates or "trial" not in rows:
        return rows
    ids = {
        name: rows[name].str.replace(_TRIAL, "", regex=True) for name in ("prompt_id", "pair_id")
    }
    every = rows.drop(columns="trial").assign(**ids, **{LOST: rows["score"].isna().astype(float)})
    scores = [
        name
        for name in (*experiment.shows.scores, *experiment.shows.reported, CUT, LOST)
        if name in every
    ]
    means = every.groupby("prompt_id", sort=False)[scores].mean()
    made = (
        every.drop_duplicates("prompt_id")
        .set_index("prompt_id")
        .assign(**{name: means[name] for name in means})
    )
    if "predicted" in rows:
        made["predicted"] = (means["score"] > 0.5).astype(float).where(means["score"].notna())
    return made.reset_index()


def rows_of_two(rows: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The rows of prompts that both models have, with ``OTHER`` and ``CHANGE``."""
    both = rows.merge(other[["prompt_id", "score"]], on="prompt_id", suffixes=("", "_of_other"))
    change = both["score"] - both[OTHER]
    largest = np.maximum(both["score"].abs(), both[OTHER].abs())
    return both.assign(**{CHANGE: change.mask(change.abs() <= _SAME * largest, 0.0)})


def readable(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, without any score where not one answer of a model can be read: unreadable ones are no wrong ones."""
    if "said_other" in rows and (rows["said_other"].dropna() > 0).all():
        return rows.assign(score=math.nan)
    return rows


def scores_right_answers(experiment: Experiment) -> bool:
    """Return whether a score says if an answer is right: then equal scores may be those of a model without error."""
    return ANSWERS in experiment.shows.rates or experiment.compares.unit.is_right_answer


def is_constant(experiment: Experiment, rows: pd.DataFrame) -> bool:
    """Tell whether a model scores every prompt the same; not of right answers, of which all may be right."""
    scores = rows.loc[rows["group"] != PLACEBO, "score"].dropna().to_numpy(dtype=np.float64)
    if not len(scores) or scores_right_answers(experiment):
        return False
    return bool(np.ptp(scores) <= _CONSTANT * np.abs(scores).max())


def over_trials(rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """One row per sentence, adjectives and side with its mean score over trials; NaN where no trial was answered."""
    if "trial" not in rows:
        return rows
    keys = ["template", "condition", "group"]
    means = rows.groupby(keys, sort=False)[score].transform("mean")
    pairs = rows["template"] + "/" + rows["condition"]
    return (
        rows.assign(**{score: means, "pair_id": pairs}).drop(columns="trial").drop_duplicates(keys)
    )


def by_sentence(experiment: Experiment, rows: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """Of answers in trials one row per sentence and side, a pair; other rows as they are.

    Its score is the mean over trials first, then over adjectives of which both sides are scored.
    """
    if ANSWERS not in experiment.shows.rates or "trial" not in rows or rows["group"].nunique() != 2:
        return rows
    reference = experiment.compares.reference
    sides = [next(side for side in rows["group"] if side != reference), reference]
    pairs = (
        readable(rows)
        .groupby(["template", "condition", "group"], sort=False)[score]
        .mean()
        .unstack("group")
    )
    means = pairs.dropna().groupby("template").mean()
    first = rows.drop_duplicates("template").drop(columns="trial")
    first = first.assign(pair_id=first["template"])
    made = [
        first.assign(**{"group": side, score: first["template"].map(means[side])}) for side in sides
    ]
    return pd.concat(made, ignore_index=True)


UNANSWERED_SCORES = (
    "unanswered",
    "refused",
    "said_unsure",
)  # the score columns of prompts that no option answered


ANSWER_SCORES = (
    *UNANSWERED_SCORES,
    "length",
)  # score columns that say nothing where no answer could be read


def one_per_prompt(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a prompt; where no prompt was answered there is no share of those answered less either."""
    rows = over_prompts(experiment, rows)
    if ANSWERS in experiment.shows.rates:
        rows = readable(rows)
    if rows["score"].isna().all():
        rows = rows.assign(**{name: math.nan for name in ANSWER_SCORES if name in rows})
    return rows


def split_rows(rows: pd.DataFrame, column: str) -> list[tuple[str, pd.DataFrame]]:
    if not column:
        return [("", rows)]
    if column not in rows:  # released outputs may lack a column that own prompts have
        return []
    return [(str(value), part) for value, part in rows.groupby(column, sort=False)]
