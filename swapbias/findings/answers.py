"""Findings of answers to "who does it refer to?", over sentence pairs: trials of one are averaged, never counted."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.finding import Context, Finding
from swapbias.measures import (
    Estimate,
    answer_bias,
    difference_of_biases,
    mean_score,
    paired_gap,
    sentence_means,
    trial_biases,
)

ANSWERS = "answers"  # among an experiment's rates: its prompts are asked several times over
BASELINE = "baseline"
AS_PUBLISHED = "over trials, as published"  # the robust field of the test between trials
STRICT = "strict_correct"
_SHARES = (("said_unsure", "unsure"), ("said_other", "not readable"), ("strict_other", "not readable, strictly"))
Where = Mapping[str, str]


def answers(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Unreadable and missing answers, the bias by the strict parser, and differences to the baseline."""
    for column, name in _SHARES:
        share = _share(rows["template"], 100 * _column(rows, column))
        yield context.finding(share, "mean", f"answers {name}", subset, **where)
    missing = 100 * rows["score"].isna().to_numpy(dtype=float)
    if 0 < missing.mean() < 100:  # where all are, every other row says so
        yield context.finding(_share(rows["template"], missing), "mean", "answers missing", subset, **where)
    estimate = bias(context, rows.assign(score=_column(rows, STRICT)))
    contrast = f"{context.experiment.group} - {context.experiment.reference_group}, strict parser"
    yield context.finding(estimate, "answer_bias", contrast, subset, direction=context.experiment.direction, **where)
    if where["slice_by"] == "all":
        yield from _differences(context, rows, subset)


def over_trials(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per sentence, adjectives and side with its mean score over trials; NaN where no trial was answered.

    ``pair_id`` is that of the prompts, before they were asked several times.
    """
    means = rows.groupby(["template", "condition", "group"], sort=False, as_index=False)["score"].mean()
    return means.assign(pair_id=means["template"] + "/" + means["condition"])


def bias(context: Context, rows: pd.DataFrame) -> Estimate:
    """Right answers of both sides, over sentences; a score above 0 is a right answer."""
    return answer_bias(
        _classes(rows), rows["group"].tolist(), pair_ids=_asked(rows), trial_ids=rows["trial"].tolist(),
        sentence_ids=rows["template"].tolist(), reference_group=context.experiment.reference_group,
    ).estimate  # fmt: skip


def sentence_pairs(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """A row a sentence, a column a side: ``sentence_means`` of the scores."""
    other = next(side for side in rows["group"] if side != reference)
    means = sentence_means(
        rows["score"], rows["group"].tolist(), _asked(rows), rows["template"].tolist(), reference_group=reference
    )
    return pd.DataFrame(means, columns=[other, reference], index=rows["template"].unique())


def _asked(rows: pd.DataFrame) -> list[str]:
    """The pair of each row, before it was asked several times."""
    return [
        f"{sentence}/{adjectives}" for sentence, adjectives in zip(rows["template"], rows["condition"], strict=True)
    ]


def _classes(rows: pd.DataFrame) -> list[str | None]:
    return [None if math.isnan(score) else "correct" if score > 0 else "other" for score in rows["score"]]


def _column(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of answers; NaN where no answer at all was read."""
    found: NDArray[np.float64] = rows[name].to_numpy(dtype=float) if name in rows else np.full(len(rows), np.nan)
    return found


def _share(sentences: pd.Series, percent: NDArray[np.float64]) -> Estimate:
    """The mean over sentences of what was answered to each, in percent; ``n`` counts sentences."""
    return mean_score(pd.Series(percent).groupby(sentences.to_numpy(), sort=False).mean().to_numpy())


def _differences(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    """Each condition's bias minus the baseline's: paired by sentence, and over trials as published."""
    reference = context.experiment.reference_group
    base = rows[rows["condition"] == BASELINE]
    trials = _by_trial(base, reference)
    for condition, part in rows.groupby("condition", sort=False):
        if condition == BASELINE or not len(base):
            continue
        where = {"slice_by": "adjectives", "slice_value": str(condition)}
        told = "above zero: more bias than without adjectives"
        contrast = f"{context.experiment.group} - {reference}, minus {BASELINE}"
        paired = _paired(context, part, base)
        yield context.finding(paired, "bias_difference", contrast, subset, direction=told, **where)
        published = difference_of_biases(_by_trial(part, reference), trials).estimate
        yield context.finding(
            published, "bias_difference", contrast, subset, direction=told, robust=AS_PUBLISHED, **where
        )


def _by_trial(rows: pd.DataFrame, reference: str) -> list[float]:
    found = trial_biases(
        _classes(rows), rows["group"].tolist(), trial_ids=rows["trial"].tolist(), reference_group=reference
    )
    return list(found.values())


def _paired(context: Context, part: pd.DataFrame, base: pd.DataFrame) -> Estimate:
    """The difference for each sentence, over its trials."""
    sides = context.experiment.group, context.experiment.reference_group
    gaps = []
    for some in (part, base):
        means = sentence_pairs(some, sides[1])
        gaps.append(means[sides[0]] - means[sides[1]])
    table = pd.concat(gaps, axis=1, keys=["condition", BASELINE])  # a sentence that either lacks is NaN, and counted
    groups = ["condition"] * len(table) + [BASELINE] * len(table)
    scores = np.concatenate([table["condition"], table[BASELINE]])
    return paired_gap(scores, groups, [*table.index, *table.index], reference_group=BASELINE)
