"""Pairs whose gap differs most between two models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from swapbias.report.finding_names import group_name
from swapbias.report.numbers import unit_format
from swapbias.report.page_pairs import mark_differences
from swapbias.report.scored_pairs import EQUAL, scored_pairs
from swapbias.studies import Experiment

MOST_MOVED = 10
"""Pairs that are shown."""
_PROMPTS = ["pair_id", "text_first", "text_second"]  # the same in both models


@dataclass(frozen=True, slots=True)
class MovedPair:
    """A pair of prompts with its gap in a model and in the reference."""

    model: str
    """The model that is compared with the reference."""
    compared: str
    """What a gap subtracts from what: ``women minus men``."""
    texts: tuple[str, str]
    """The prompts of both groups, the same text twice where one prompt scores both."""
    gap: float
    """The gap of the model, in the unit of the page."""
    reference_gap: float
    """The gap of the reference, in the same unit."""
    written: tuple[str, str, str]
    """The gap of the model, that of the reference, and the first minus the second, as the page writes them."""

    unit: str = ""
    """Unit of the written numbers."""

    @property
    def difference(self) -> float:
        """Return the gap of the model minus that of the reference."""
        return self.gap - self.reference_gap

    @property
    def marked(self) -> Sequence[Markup]:
        """Return the different texts with marks where they differ."""
        return mark_differences(self.texts)


def largest_moves(
    experiment: Experiment, rows_by_model: Mapping[str, pd.DataFrame], reference: str
) -> list[MovedPair]:
    """Return the ten pairs whose gap differs most between a model and the reference, the largest first.

    Args:
        experiment: the paired experiment in the unit of the scores.
        rows_by_model: its scored rows with texts, by model; pairs with other texts are not compared.
        reference: the model whose gaps are subtracted.
    """
    moved: list[MovedPair] = []
    for contrast in experiment.gaps:
        gaps = {model: scored_pairs(contrast, rows) for model, rows in rows_by_model.items()}
        for model in gaps:
            if model != reference:
                moved += _moves(contrast, gaps[model], gaps[reference], model)
    moved.sort(key=lambda pair: -abs(pair.difference))
    return moved[:MOST_MOVED]


def _moves(
    contrast: Experiment, gaps: pd.DataFrame, reference_gaps: pd.DataFrame, model: str
) -> list[MovedPair]:
    """Return the pairs of a contrast that moved most between a model and the reference."""
    both = gaps.merge(reference_gaps, on=_PROMPTS, suffixes=("", "_reference"))
    both["difference"] = both["gap"] - both["gap_reference"]
    both = both[both["difference"].abs() > EQUAL]
    both = both.sort_values("difference", key=lambda column: -column.abs(), kind="stable")
    compares = contrast.compares
    written = unit_format(compares.unit)
    groups = [group_name(contrast, group) for group in (compares.group, compares.reference)]
    columns = [*_PROMPTS[1:], "gap", "gap_reference", "difference"]
    moved = []
    for first, second, *values in both[columns].head(MOST_MOVED).itertuples(index=False):
        gap, reference_gap = (written.scaled(value) for value in values[:2])
        texts = (str(first), str(second))
        numbers = (written(values[0]), written(values[1]), written(values[2]))
        moved.append(
            MovedPair(
                model, " minus ".join(groups), texts, gap, reference_gap, numbers, written.unit
            )
        )
    return moved
