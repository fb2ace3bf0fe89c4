"""Rows whose groups are compared, and the units that comparisons make of their scores."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.findings.compared_units import SCORE_OF, Shares, Units
from swapbias.findings.context import Context
from swapbias.findings.scored_rows import by_sentence
from swapbias.measures import Floats, pair_units


@dataclass(frozen=True, slots=True)
class _UnitFrame:
    """Units of several scores of the same rows, as far as they are the same."""

    units: Units
    """The units without their scores, as if all had one."""
    kept: NDArray[np.bool_]
    """Shape (units of the comparison,): which of them are compared."""


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """Rows of the compared groups; what does not depend on the score is found once for all scores."""

    rows: pd.DataFrame
    """Scored rows."""
    groups: NDArray[np.intp]
    """Shape (rows,): the index of each row's group."""
    pairs: NDArray[np.intp]
    """Shape (rows,): the number of each row's pair."""
    _frames: dict[bytes, _UnitFrame] = field(default_factory=dict, repr=False, compare=False)
    """By the first rows of units."""

    @classmethod
    def of(cls, context: Context, rows: pd.DataFrame) -> "ComparedRows | None":
        """Return the rows of the groups that are compared; None where these are not two.

        Args:
            context: the context of the gap.
            rows: scored rows.

        Raises:
            ValueError: rows are no pairs, where the comparison is one of pairs.
        """
        experiment = context.experiment
        comparison = experiment.comparison
        if comparison is None:
            return None
        compared = context.compared_rows(rows)
        if compared["group"].nunique() != len(context.sides):
            return None
        compared = by_sentence(experiment, compared, context.score)
        groups, pairs = _groups_and_pairs(context, compared)
        if comparison.is_paired:
            _refuse_without_pairs(context, compared, groups, pairs)
        return cls(compared, groups, pairs)

    def units(self, context: Context) -> Units:
        """Return the units of a score.

        Args:
            context: the context of the gap, which names the score; the same but for the score and the model for all
                units of these rows.
        """
        scores = self.rows[context.score].to_numpy(np.float64)
        units = context.comparison.units(scores, self.groups, self.pairs, context.sides)
        key = units.rows.tobytes()
        if key not in self._frames:
            self._frames[key] = self._frame(context, units)
        frame = self._frames[key]
        kept = frame.kept
        values = units.values[kept]
        scores_by_group = {
            name: of_group[kept] for name, of_group in _scores_by_group(context, units).items()
        }
        rows = frame.units.rows.assign(value=values, **scores_by_group)
        if np.isnan(values).any():
            return Units.of(rows, context, frame.units.weights)
        return replace(frame.units, rows=rows, context=context)

    def gaps(self, context: Context, score: str) -> Floats:
        """Return the gap of each pair in a score, NaN where a score of it is.

        Args:
            context: the context of the gap.
            score: the score column.
        """
        scores = self.rows[score].to_numpy(np.float64)
        return pair_units.units_of_pairs(scores, self.groups, self.pairs, context.sides).values

    def _frame(self, context: Context, units: pair_units.ComparedUnits) -> _UnitFrame:
        """Return what the units of any score of these rows have in common."""
        rows = self.rows.iloc[units.rows].assign(sample=units.samples)
        kept = np.ones(len(rows), dtype=bool)
        weights = units.weights
        contrast = context.experiment.compares.contrast
        subset = context.experiment.compares.subset
        is_paired = context.comparison.is_paired
        if is_paired and contrast and set(contrast) <= set(rows[subset].unique()):
            weights = (1.0, -1.0)
            kept = rows[subset].isin(contrast).to_numpy()
            rows = rows[kept]
            rows = rows.assign(sample=(rows[subset] == contrast[1]).astype(int))
        alike = Units.of(rows.assign(value=0.0), context, weights)
        return _UnitFrame(replace(alike, all_shares=Shares(alike.shares())), kept)


def gap_units(context: Context, rows: pd.DataFrame) -> Units | None:
    """Return the units of the gap, or of the difference of two gaps, over rows; None where it has no two groups.

    Args:
        context: the context of the gap.
        rows: scored rows.

    Raises:
        ValueError: rows are no pairs, where the comparison is one of pairs.
    """
    compared = ComparedRows.of(context, rows)
    return None if compared is None else compared.units(context)


def pair_gaps(context: Context, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a pair: its first row, its ``gap`` (NaN where a score of it is) and each group's score.

    Args:
        context: the context of the gap.
        rows: scored rows of pairs.

    Raises:
        ValueError: rows are no pairs.
    """
    compared = context.compared_rows(rows)
    units = _units_of_pairs(context, compared)
    first_rows = compared.iloc[units.rows]
    return first_rows.assign(gap=units.values, **_scores_by_group(context, units))


def _units_of_pairs(context: Context, rows: pd.DataFrame) -> pair_units.ComparedUnits:
    """Return the units of rows of the compared groups; a ValueError where these are no pairs."""
    groups, pairs = _groups_and_pairs(context, rows)
    _refuse_without_pairs(context, rows, groups, pairs)
    scores = rows[context.score].to_numpy(np.float64)
    return pair_units.units_of_pairs(scores, groups, pairs, context.sides)


def _groups_and_pairs(
    context: Context, rows: pd.DataFrame
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the index of the group of each row of the compared groups, and the number of its pair."""
    indexes = {group: index for index, group in enumerate(context.sides)}
    codes, names = pd.factorize(rows["group"].to_numpy())
    groups = np.array([indexes[name] for name in names], dtype=np.intp)[codes]
    return groups, pd.factorize(pair_ids(rows))[0]


def pair_ids(rows: pd.DataFrame) -> NDArray[Any]:
    """Return the pair of each row; rows without the column, as means over prompts, are of no pair.

    Args:
        rows: scored rows.
    """
    return rows["pair_id"].to_numpy() if "pair_id" in rows else np.arange(len(rows))


def _scores_by_group(context: Context, units: pair_units.ComparedUnits) -> dict[str, Floats]:
    """Return the columns that hold the score of each group of a pair; none of units that are no pairs."""
    if units.scores is None:
        return {}
    return {
        f"{SCORE_OF}{group}": units.scores[:, index] for index, group in enumerate(context.sides)
    }


def _refuse_without_pairs(
    context: Context, rows: pd.DataFrame, groups: NDArray[np.intp], pairs: NDArray[np.intp]
) -> None:
    """Refuse rows that are no pairs, one of each group, by the indexes of their groups and pairs."""
    count = len(context.sides)
    has_all_groups = len(np.unique(groups)) == count
    is_repeated = np.bincount(pairs * count + groups).max(initial=0) > 1
    if "pair_id" not in rows or not has_all_groups or is_repeated:
        raise ValueError(
            f"rows of {context.experiment.name} are no pairs: expected one of each group in each pair."
        )
