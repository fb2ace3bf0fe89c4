"""Count the conditions that several models together score high, as papers do that average over models."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from swapbias.findings.model_difference import means_over_models
from swapbias.studies import Experiment, Study

HALF = 0.5
_ALL = 1 - 1e-9  # a mean of ones may be a little below one


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """The conditions of a group, each by its mean score over models."""

    n: int
    """How many conditions there are."""
    above_half: int
    """How many have a mean above one half, not at it."""
    all_ones: int
    """How many have a mean of 1: every model gives every text of them a score of 1."""
    mean: float
    """The mean over conditions."""


def count_conditions(
    study: Study, experiment: Experiment, models: Mapping[str, pd.DataFrame]
) -> dict[str, GroupCount]:
    """Count the conditions of each group by their mean over models.

    Args:
        study: the study.
        experiment: an experiment of it whose scores are from 0 to 1.
        models: scored rows by model; those without the experiment are left out.

    Returns:
        Counts by group, the compared group first; nothing where no model read the experiment.
    """
    means = means_over_models(study, experiment, models)
    if means is None:
        return {}
    means = means.dropna()
    groups = pd.Series([unit.split("/")[0] for unit in means.index], index=means.index)
    counts = {}
    for group in (*experiment.compares.groups, experiment.compares.reference):
        of_group = means[groups == group]
        if len(of_group):
            counts[group] = GroupCount(
                n=len(of_group),
                above_half=int((of_group > HALF).sum()),
                all_ones=int((of_group >= _ALL).sum()),
                mean=float(of_group.mean()),
            )
    return counts
