"""Findings of answers to "who does it refer to?": unread ones, the strict parser, differences to a baseline."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.answers import difference_of_biases, trial_biases
from swapbias.estimates import Estimate
from swapbias.finding import Context, Finding
from swapbias.gaps import paired_gap
from swapbias.measures import mean_score

BASELINE = "baseline"
STRICT = "strict_correct"
_SHARES = (("said_unsure", "unsure"), ("said_other", "not readable"), ("strict_other", "not readable, strictly"))
Where = Mapping[str, str]


def answers(context: Context, rows: pd.DataFrame, subset: str, where: Where) -> Iterator[Finding]:
    """Unreadable answers, the bias by the strict parser, and differences to the baseline."""
    for column, name in _SHARES:
        share = mean_score(100 * _column(rows, column))
        yield context.finding(share, "mean", f"answers {name}", subset, **where)
    strict = paired_gap(
        100 * _column(rows, STRICT), rows["group"].to_numpy(), rows["pair_id"].to_numpy(),
        reference_group=context.experiment.reference_group, cluster_ids=rows["template"].to_numpy(),
    )  # fmt: skip
    contrast = f"{context.experiment.group} - {context.experiment.reference_group}, strict parser"
    yield context.finding(strict, "answer_bias", contrast, subset, direction=context.experiment.direction, **where)
    if where["slice_by"] == "all":
        yield from _differences(context, rows, subset)


def _column(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of answers; NaN where no answer at all was read."""
    found: NDArray[np.float64] = rows[name].to_numpy(dtype=float) if name in rows else np.full(len(rows), np.nan)
    return found


def _differences(context: Context, rows: pd.DataFrame, subset: str) -> Iterator[Finding]:
    """Each condition's bias minus the baseline's: over trials as published, and paired by sentence."""
    reference = context.experiment.reference_group
    base = rows[rows["condition"] == BASELINE]
    trials = _by_trial(base, reference)
    for condition, part in rows.groupby("condition", sort=False):
        if condition == BASELINE or not len(base):
            continue
        where = {"slice_by": "adjectives", "slice_value": str(condition)}
        told = "above zero: more bias than without adjectives"
        found = difference_of_biases(_by_trial(part, reference), trials)
        contrast = f"{context.experiment.group} - {reference}, minus {BASELINE}"
        yield context.finding(found.estimate, "bias_difference", contrast, subset, direction=told, **where)
        paired = _paired(context, part, base)
        yield context.finding(
            paired, "bias_difference", contrast, subset, direction=told, robust="paired by sentence", **where
        )


def _by_trial(rows: pd.DataFrame, reference: str) -> list[float]:
    classes = ["correct" if score > 0 else "other" for score in rows["score"]]
    unscored = rows["score"].isna()
    told = [None if lost else name for name, lost in zip(classes, unscored, strict=True)]
    found = trial_biases(told, rows["group"].tolist(), trial_ids=rows["trial"].tolist(), reference_group=reference)
    return list(found.values())


def _paired(context: Context, part: pd.DataFrame, base: pd.DataFrame) -> Estimate:
    """The difference for each sentence, over its trials."""
    both = {}
    for name, rows in (("condition", part), (BASELINE, base)):
        means = rows.groupby(["template", "group"], sort=False)["score"].mean().unstack("group")
        both[name] = means[context.experiment.group] - means[context.experiment.reference_group]
    table = pd.DataFrame(both)  # a sentence that either lacks is NaN, and counted
    groups = ["condition"] * len(table) + [BASELINE] * len(table)
    scores = np.concatenate([table["condition"], table[BASELINE]])
    return paired_gap(scores, groups, [*table.index, *table.index], reference_group=BASELINE)
