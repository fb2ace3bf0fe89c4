"""Main effects and interactions of crossed factors of groups, such as gender and race."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapbias.measures.contrast import linear_contrast
from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Estimate,
    Floats,
    Ids,
    known_ids,
    scores_of_groups,
)
from swapbias.measures.group_scores import GroupRows, GroupScores, Omnibus
from swapbias.public_calls import public_call

THE_OTHERS = "the others"
"""Stands for the mean of all levels of a factor but one."""
_LEAST_INTERACTION = 1e-12  # of the squares of numbers: below it groups and items explain them all


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast of crossed group factors.

    "female - male" is averaged over the other factors; "(female - male) x (black - white)" is the gap between the
    first two for the third less that for the fourth.
    """

    term: str
    """The factors that it is about, "gender" or "gender x race"."""
    name: str
    """The levels that are compared, "female - male"."""
    levels: Mapping[str, tuple[str, str]]
    """By each of its factors the level, and the level that is subtracted."""
    weights: Mapping[tuple[str, ...], float]
    """By cell (its levels, in the order of the factors) the weight of its mean."""
    estimate: Estimate
    """In the unit of the scores; NaN where there are no scores."""

    @property
    def title(self) -> str:
        """Return term and name, "gender: female - male"."""
        return f"{self.term}: {self.name}"


@dataclass(frozen=True, slots=True)
class Factorial:
    """Effects of crossed group factors."""

    effects: tuple[Effect, ...]
    """Main effects first, then interactions of two factors, then of three."""
    terms: Mapping[str, Omnibus]
    """By term (``gender x race``) the test whether any of its effects is not 0."""
    groups: GroupScores = field(repr=False)
    """The scores of every cell."""

    def subtracted_mean(self, effect: Effect) -> float:
        """Return the mean score of the cells that an effect subtracts.

        Args:
            effect: one of its main effects.
        """
        subtracted = np.maximum(-_weights(effect), 0.0)
        return self.groups.contrast(subtracted).value

    def relative(self, effect: Effect, of_level: float, of_subtracted: float) -> Estimate:
        """Estimate an effect whose two means are each divided by a number, as by themselves for their log ratio.

        Args:
            effect: one of its main effects.
            of_level: what the mean of the level is divided by, not 0.
            of_subtracted: what the mean of the cells that it subtracts is divided by, not 0.
        """
        weights = _weights(effect)
        return self.groups.contrast(weights / np.where(weights > 0, of_level, of_subtracted))


def _weights(effect: Effect) -> Floats:
    """Return the weights of all cells in order."""
    return np.array(list(effect.weights.values()))


@dataclass(frozen=True, slots=True)
class CellRows:
    """Rows of cells; what does not depend on their scores is found once for all scores."""

    effects: Sequence[Effect]
    """Contrasts of cells, without estimates."""
    rows: GroupRows
    """The cell of each row."""

    @classmethod
    def crossed(
        cls,
        levels: Mapping[str, Sequence[str]],
        reference: Mapping[str, str],
        *,
        pair_ids: Ids | None = None,
        cluster_ids: ClusterIds = None,
    ) -> "CellRows":
        """Return the rows of crossed factors.

        Args:
            levels: as in ``factorial``.
            reference: as in ``factorial``.
            pair_ids: as in ``factorial``.
            cluster_ids: as in ``paired_gap``.

        Raises:
            ValueError: a factor without two levels or without its reference, or a cell without a row.
        """
        for factor, column in levels.items():
            known_ids(column, f"levels of {factor}")
        effects = crossed_effects(levels, reference)
        cell_of_row = _cells_of_rows(levels)
        if empty := {*effects[0].weights} - {*cell_of_row}:
            factors = ", ".join(levels)
            raise ValueError(
                f"no row of {', '.join(min(empty))}, expected every combination of {factors}. Add its prompts."
            )
        return cls._of(effects, cell_of_row, cluster_ids, pair_ids)

    @classmethod
    def of_levels(
        cls,
        factor: str,
        levels: Sequence[str],
        *,
        pair_ids: Ids | None = None,
        cluster_ids: ClusterIds = None,
        sample_ids: Sequence[Any] | None = None,
    ) -> "CellRows":
        """Return the rows of one factor, whose levels are the cells.

        Args:
            factor: the name of the factor.
            levels: the level of each row.
            pair_ids: as in ``factorial``.
            cluster_ids: as in ``paired_gap``.
            sample_ids: as in ``deviations``.
        """
        known_ids(levels, f"levels of {factor}")
        effects = level_effects(factor, levels)
        cell_of_row = _cells_of_rows({factor: levels})
        return cls._of(effects, cell_of_row, cluster_ids, pair_ids, sample_ids)

    @classmethod
    def _of(
        cls,
        effects: Sequence[Effect],
        cell_of_row: Sequence[tuple[str, ...]],
        cluster_ids: ClusterIds,
        pair_ids: Ids | None,
        sample_ids: Sequence[Any] | None = None,
    ) -> "CellRows":
        """Return rows by the levels of each."""
        cells = list(effects[0].weights)
        indexes = {cell: index for index, cell in enumerate(cells)}
        names = [", ".join(cell) for cell in cells]
        codes = np.array([indexes[cell] for cell in cell_of_row])
        rows = GroupRows.of(codes, names, cluster_ids, pair_ids, sample_ids=sample_ids)
        return cls(effects, rows)

    def factorial(self, scores: ArrayLike) -> Factorial:
        """Estimate effects, and test by term whether any is not 0.

        Args:
            scores: shape (rows,), any unit; NaN where a row could not be scored.

        Raises:
            ValueError: an infinite score, or another number of scores than of rows.
        """
        groups = self.rows.with_scores(scores_of_groups(scores, len(self.rows.codes)))
        estimated = []
        by_term: dict[str, list[Effect]] = {}
        for effect in self.effects:
            estimate = groups.contrast(_weights(effect), test_constant=True)
            estimated.append(replace(effect, estimate=estimate))
            by_term.setdefault(effect.term, []).append(estimated[-1])
        terms = {
            term: groups.omnibus_of(
                [_weights(effect) for effect in of_term],
                [effect.estimate.p_value for effect in of_term],
            )
            for term, of_term in by_term.items()
        }
        return Factorial(tuple(estimated), terms, groups)


@public_call
def factorial(
    scores: ArrayLike,
    levels: Mapping[str, Sequence[str]],
    *,
    reference: Mapping[str, str],
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
) -> Factorial:
    """Estimate main effects of crossed group factors and their interactions.

    All are weighted sums of the means of the cells (every combination of levels), each cell weighing the same, with
    the inference of ``paired_gap`` or, without ``pair_ids``, of ``group_gap``. Effects are of all levels but the
    reference, interactions of up to three factors. ``adjust`` corrects their p-values.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        levels: the level of each row, by factor ("gender", "race").
        reference: the level that is subtracted, by factor.
        pair_ids: shape (rows,), as in ``paired_gap``, each pair with a row of every cell; None: rows are not paired.
        cluster_ids: as in ``paired_gap``.

    Returns:
        Effects in the unit of the scores; 0: none.

    Raises:
        ValueError: a factor without two levels or without its reference, or a cell without a row.

    >>> scores, gender, race = [0.9, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.3], ["f", "f", "m", "m"] * 2, ["b", "w"] * 4
    >>> result = factorial(scores, {"gender": gender, "race": race}, reference={"gender": "m", "race": "w"})
    >>> [(effect.name, round(effect.estimate.value, 3)) for effect in result.effects]
    [('f - m', 0.2), ('b - w', 0.2), ('(f - m) x (b - w)', 0.2)]
    """
    rows = CellRows.crossed(levels, reference, pair_ids=pair_ids, cluster_ids=cluster_ids)
    return rows.factorial(scores)


def deviations(
    scores: ArrayLike,
    factor: str,
    levels: Sequence[str],
    *,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
    sample_ids: Sequence[Any] | None = None,
) -> Factorial:
    """Estimate by how much the mean of each level of a factor differs from the mean of the others.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        factor: the name of the factor.
        levels: the level of each row.
        pair_ids: as in ``factorial``.
        cluster_ids: as in ``paired_gap``.
        sample_ids: shape (rows,), with pairs only: the sample of each pair, 0, or 1 for the one whose effects are
            subtracted; None: one sample.

    Returns:
        Effects in the unit of the scores, one for each level; 0: none.
    """
    rows = CellRows.of_levels(
        factor, levels, pair_ids=pair_ids, cluster_ids=cluster_ids, sample_ids=sample_ids
    )
    return rows.factorial(scores)


def interaction_slope(
    scores: Floats,
    numbers: Floats,
    groups: Sequence[str],
    items: Sequence[str],
    blocks: Sequence[str],
    cluster_ids: Mapping[str, Codes],
) -> Estimate:
    """Estimate how far scores follow a number that each group and item has, by the interaction of the two alone.

    Within each block, scores and numbers are taken less the sums of an effect of the group and one of the item that
    fit them best: how common a word for a group or an item is makes no slope. A unit is an item in a block, and its
    value is the slope plus the unit's influence on it.

    Args:
        scores: shape (rows,), any unit; NaN where a row could not be scored.
        numbers: shape (rows,), without NaN.
        groups: shape (rows,), the group of each row.
        items: shape (rows,), the item of each row.
        blocks: shape (rows,), the block of each row, such as its template.
        cluster_ids: the cluster of each row in each random factor; all rows of an item in a block share one.

    Returns:
        In units of the scores per unit of the numbers; 0: they do not follow it. NaN where nothing varies.
    """
    is_scored = ~np.isnan(scores)
    unscored = int((~is_scored).sum())
    columns = (np.asarray(column)[is_scored] for column in (groups, items, blocks))
    group_codes, item_codes, block_codes = (
        np.unique(column, return_inverse=True)[1] for column in columns
    )
    score = scores[is_scored].copy()
    number = numbers[is_scored].copy()
    for block in range(int(block_codes.max(initial=-1)) + 1):
        chosen = block_codes == block
        effects = _additive_effects(group_codes[chosen], item_codes[chosen])
        for values in (score, number):
            values[chosen] -= effects @ np.linalg.lstsq(effects, values[chosen], rcond=None)[0]
    size = float(number @ number)
    if not size > _LEAST_INTERACTION * float(numbers @ numbers):
        return Estimate(math.nan, n=0, n_unscored=unscored, test="none")
    slope = float(number @ score) / size
    pairs = np.column_stack([item_codes, block_codes])
    first, units = np.unique(pairs, axis=0, return_index=True, return_inverse=True)[1:]
    residuals = np.bincount(units.ravel(), number * (score - slope * number))
    leverage = np.bincount(item_codes, number**2) / size
    influence = residuals / (1 - leverage[item_codes[first]])
    values = slope + influence * len(first) / size
    factors = {name: codes[is_scored][first] for name, codes in cluster_ids.items()}
    sides = np.zeros(len(first), dtype=np.intp)
    estimate = linear_contrast(values, sides, (1.0,), factors, n_unscored=unscored)
    # The values of items that weigh much lie further from the slope, which widens the interval and moves no slope.
    shift = slope - estimate.value
    return replace(
        estimate, value=slope, ci_low=estimate.ci_low + shift, ci_high=estimate.ci_high + shift
    )


def _additive_effects(groups: Codes, items: Codes) -> Floats:
    """Return the columns of a fit by an effect of each group and of each item, shape (rows, groups + items)."""
    return np.column_stack([np.eye(int(codes.max()) + 1)[codes] for codes in (groups, items)])


def _cells_of_rows(levels: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the levels of each row, in the order of the factors."""
    return [tuple(map(str, row)) for row in zip(*levels.values(), strict=True)]


def crossed_effects(
    levels: Mapping[str, Sequence[str]], reference: Mapping[str, str]
) -> list[Effect]:
    """Return the main effects and interactions of crossed factors, with the weights of their cells and no estimates.

    Args:
        levels: the level of each row, by factor.
        reference: the level that is subtracted, by factor.

    Raises:
        ValueError: fewer than two factors, a factor without two levels or without its reference, or two effects of
            one name.
    """
    if len(levels) < 2:
        raise ValueError(
            f"factors {list(levels)}, expected two or more. Compare groups of one with omnibus."
        )
    names = {
        factor: _names_of_levels(factor, column, reference.get(factor))
        for factor, column in levels.items()
    }
    # An interaction of four would be a difference of eight gaps, which nobody reads.
    orders = range(1, min(len(names), 3) + 1)
    effects = []
    for order in orders:
        for factors in combinations(names, order):
            for picked in product(*(names[factor][1:] for factor in factors)):
                gaps = {
                    factor: (level, names[factor][0])
                    for factor, level in zip(factors, picked, strict=True)
                }
                effects.append(_effect(gaps, names))
    titles = [(effect.term, effect.name) for effect in effects]
    for term, name in titles:
        if titles.count((term, name)) > 1:
            raise ValueError(f"two effects of {term} would be called {name!r}. Rename the levels.")
    return effects


def level_effects(factor: str, levels: Sequence[str]) -> list[Effect]:
    """Return the effects of one factor with their weights and no estimates: each level less the mean of the others.

    Args:
        factor: the name of the factor.
        levels: the level of each row.
    """
    names = sorted({str(level) for level in levels})
    share = -1 / max(len(names) - 1, 1)
    effects = []
    for level in names:
        weights: dict[tuple[str, ...], float] = {(name,): share for name in names}
        weights[level,] = 1.0
        pair = {factor: (level, THE_OTHERS)}
        effects.append(Effect(factor, f"{level} - {THE_OTHERS}", pair, weights, Estimate(math.nan)))
    return effects


def _names_of_levels(factor: str, column: Sequence[str], reference: str | None) -> list[str]:
    """Return the levels of a factor, the reference first."""
    names = sorted({str(level) for level in column})
    if len(names) < 2 or reference not in names:
        raise ValueError(
            f"levels {names} of {factor}, expected two or more with {reference!r}, the reference, among them."
        )
    return sorted(names, key=lambda level: (level != reference, level))


def _effect(gaps: Mapping[str, tuple[str, str]], names: Mapping[str, Sequence[str]]) -> Effect:
    """Return the effect of gaps between levels of some factors, averaged over the levels of all others."""
    titles = [" - ".join(pair) for pair in gaps.values()]
    name = titles[0] if len(titles) == 1 else " x ".join(f"({title})" for title in titles)
    sides = [_level_weights(levels, gaps.get(factor)) for factor, levels in names.items()]
    cells = reduce(
        lambda weights, side: np.outer(weights, side).ravel(), sides[1:], np.array(sides[0])
    )
    weights = dict(zip(product(*names.values()), cells.tolist(), strict=True))
    return Effect(" x ".join(gaps), name, dict(gaps), weights, Estimate(math.nan))


def _level_weights(levels: Sequence[str], gap: tuple[str, str] | None) -> list[float]:
    """Return the weights of a factor's levels: one less the reference, or the mean of all."""
    if gap is None:
        return [1 / len(levels)] * len(levels)
    return [float(level == gap[0]) - (level == gap[1]) for level in levels]
