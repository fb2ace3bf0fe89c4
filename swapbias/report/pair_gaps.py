"""Gaps of pairs on a page: all of them, and their means by level of each random factor."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from swapbias.report.finding_names import group_name, plain_words, value_name
from swapbias.report.numbers import NumberFormat, format_number, unit_format
from swapbias.report.scored_pairs import scored_pairs
from swapbias.studies import Experiment

_LEFT_OUT = (
    "subject_id",
    "pair_id",
)  # factors whose levels are never named: patients, and pairs themselves
_SIDES = ["first", "second", "gap"]


@dataclass(frozen=True, slots=True)
class PairGaps:
    """The pairs of two groups that a model scored, in the unit of a page."""

    contrast: Experiment
    """The experiment as one of a group and the reference."""
    model_id: str
    """The model that scored them."""
    pairs: pd.DataFrame
    """A row a pair: ``pair_id``; ``first`` and ``second``, the scores of the group and of the reference; ``gap``, the
    first minus the second; ``set`` (blank: there are no sets); the level of each random factor, by its column."""
    factors: Mapping[str, str]
    """Names of the random factors, such as ``templates``, by their column."""
    texts: Mapping[str, str]
    """By template the words that all its texts share."""

    @property
    def groups(self) -> tuple[str, str]:
        """Return the two groups as the page names them, the reference last."""
        compares = self.contrast.compares
        return group_name(self.contrast, compares.group), group_name(
            self.contrast, compares.reference
        )

    @property
    def subtraction(self) -> str:
        """Return what a gap is: ``women minus men``."""
        return " minus ".join(self.groups)

    @property
    def written(self) -> NumberFormat:
        """Return the way to write a gap; the numbers of the pairs are scaled by it already."""
        return unit_format(self.contrast.compares.unit)

    def mean_of(self, level: "Level") -> str:
        """Return the mean gap of a level as the page writes it.

        Args:
            level: a level of a random factor of these pairs.
        """
        return format_number(level.mean, signed=self.written.signed, digits=self.written.digits)

    def level_name(self, column: str, level: str) -> str:
        """Return the name of a level: of a template its text, where its texts share words.

        Args:
            column: the column of the random factor.
            level: a value in the column.
        """
        if column == "template":
            return self.texts.get(level, level)
        return value_name(level)


@dataclass(frozen=True, slots=True)
class Level:
    """Pairs of one level of a random factor."""

    name: str
    """Its name."""
    gaps: tuple[float, ...]
    """The gap of each pair, in the unit of the page."""

    @property
    def mean(self) -> float:
        """Return the mean gap."""
        return math.fsum(self.gaps) / len(self.gaps)


def pairs_of_models(
    experiment: Experiment, items: pd.DataFrame, texts: Mapping[str, str]
) -> list[PairGaps]:
    """Return the scored pairs of each model and contrast.

    Args:
        experiment: the experiment in the unit of the scores; one without pairs gives none.
        items: its scored rows.
        texts: by template the words that all its texts share.
    """
    if not experiment.is_paired:
        return []
    by_model = []
    for model_id, rows in items.groupby("model_id", sort=False):
        for contrast in experiment.gaps:
            pairs = _pairs_of_contrast(contrast, rows, str(model_id), texts)
            if len(pairs.pairs):
                by_model.append(pairs)
    return by_model


def _pairs_of_contrast(
    contrast: Experiment, rows: pd.DataFrame, model_id: str, texts: Mapping[str, str]
) -> PairGaps:
    """Return the pairs of two groups, of which both have a score."""
    compares = contrast.compares
    sides = [compares.group, compares.reference]
    rows = rows[rows["group"].isin(sides)]
    scores = scored_pairs(contrast, rows)
    written = unit_format(compares.unit)
    levels = unit_format(compares.unit, signed=False)
    pairs = pd.DataFrame(index=scores.index)
    pairs["first"] = scores["first"].map(levels.scaled)
    pairs["second"] = scores["second"].map(levels.scaled)
    pairs["gap"] = scores["gap"].map(written.scaled)
    factors = {
        column: name
        for column, name in contrast.design.random.items()
        if column in rows and column not in _LEFT_OUT
    }
    # Without the reindexing, a frame without rows would take those of a new column.
    of_pair = rows.drop_duplicates("pair_id").set_index("pair_id").reindex(scores.index)
    for column in factors:
        pairs[column] = of_pair[column].astype(str)
    pairs["set"] = ""
    if compares.subset and compares.subset in of_pair:
        pairs["set"] = of_pair[compares.subset].astype(str)
    return PairGaps(contrast, model_id, pairs.reset_index(), factors, texts)


def levels_of_factor(gaps: PairGaps, column: str, of_set: str) -> list[Level]:
    """Return the levels of a random factor, that with the largest mean gap first.

    Args:
        gaps: the pairs of two groups.
        column: the column of the factor.
        of_set: the set of texts; blank for all where there are no sets.
    """
    pairs = gaps.pairs[gaps.pairs["set"] == of_set]
    levels = [
        Level(gaps.level_name(column, str(level)), tuple(part["gap"]))
        for level, part in pairs.groupby(column, sort=False)
    ]
    return sorted(levels, key=lambda level: -abs(level.mean))


def factors_with_levels(gaps: PairGaps) -> Iterator[tuple[str, str]]:
    """Yield column and name of each random factor of which the pairs have several levels.

    Args:
        gaps: the pairs of two groups.
    """
    for column, name in gaps.factors.items():
        n_levels = gaps.pairs[column].nunique()
        if 1 < n_levels < len(gaps.pairs):
            yield column, plain_words(name)


def table_of_pairs(gaps: PairGaps) -> pd.DataFrame:
    """Return the pairs as a table to download: model, pair, set, levels of factors, both scores and the gap.

    Args:
        gaps: the pairs of two groups.
    """
    first, second = gaps.groups
    columns = ["pair_id", *(["set"] if gaps.pairs["set"].any() else []), *gaps.factors, *_SIDES]
    table = gaps.pairs[columns].round(5)
    names: dict[str, Any] = {"first": first, "second": second, "gap": gaps.subtraction}
    table = table.rename(columns=names)
    table.insert(0, "model", gaps.model_id)
    return table
