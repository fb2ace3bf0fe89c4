"""Main effects and interactions of crossed factors of groups, such as gender and race."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike

from swapbias.measures.estimate import ClusterIds, Estimate, Ids, by_group, known_ids
from swapbias.measures.group_scores import GroupScores, Omnibus


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast of crossed group factors; its estimate is NaN where there are no scores.

    "female - male" is averaged over the other factors; "(female - male) x (black - white)" is the gap between the
    first two for the third less that for the fourth.
    """

    term: str
    """The factors that it is about, "gender" or "gender x race"."""
    name: str
    levels: Mapping[str, tuple[str, str]]
    """Of each of its factors the level, and the one that is subtracted."""
    weights: Mapping[tuple[str, ...], float]
    """Of the mean of each cell (its levels, in the order of the factors)."""
    estimate: Estimate

    @property
    def title(self) -> str:
        """Term and name, "gender: female - male"."""
        return f"{self.term}: {self.name}"


@dataclass(frozen=True, slots=True)
class Factorial:
    """Effects of crossed group factors, and of each term (``gender x race``) whether any of its effects is not 0."""

    effects: tuple[Effect, ...]
    terms: Mapping[str, Omnibus]


def factorial(
    scores: ArrayLike,
    levels: Mapping[str, Sequence[str]],
    *,
    reference: Mapping[str, str],
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
) -> Factorial:
    """Main effects of crossed group factors and their interactions.

    All are weighted sums of the means of the cells (every combination of levels), each cell weighing the same, with
    the inference of ``paired_gap`` or, without ``pair_ids``, of ``group_gap``. Effects are of all levels but the
    reference, interactions of up to three factors. ``adjust`` corrects their p-values.

    Args:
        levels: of each factor ("gender", "race") the level of each row.
        reference: of each factor the level that is subtracted.

    >>> scores, gender, race = [0.9, 0.5, 0.5, 0.5, 0.7, 0.5, 0.5, 0.3], ["f", "f", "m", "m"] * 2, ["b", "w"] * 4
    >>> found = factorial(scores, {"gender": gender, "race": race}, reference={"gender": "m", "race": "w"})
    >>> [(one.name, round(one.estimate.value, 3)) for one in found.effects]
    [('f - m', 0.2), ('b - w', 0.2), ('(f - m) x (b - w)', 0.2)]
    """
    for factor, column in levels.items():
        known_ids(column, f"levels of {factor}")
    effects = crossed_effects(levels, reference)
    cells = list(effects[0].weights)
    rows = [tuple(map(str, row)) for row in zip(*levels.values(), strict=True)]
    if empty := set(cells) - set(rows):
        wanted = f"every combination of {', '.join(levels)}"
        raise ValueError(f"no row of {', '.join(min(empty))}, expected {wanted}. Add its prompts.")
    places = {cell: place for place, cell in enumerate(cells)}
    names = [", ".join(cell) for cell in cells]
    codes = np.array([places[row] for row in rows])
    score = by_group(scores, rows)[0]
    found = GroupScores.of(score, codes, names, cluster_ids, pair_ids)
    weights = [np.array(list(one.weights.values())) for one in effects]
    tested = tuple(
        replace(one, estimate=found.contrast(each, test_constant=True))
        for one, each in zip(effects, weights, strict=True)
    )
    terms = {
        term: found.omnibus(
            [w for one, w in zip(effects, weights, strict=True) if one.term == term]
        )
        for term in dict.fromkeys(one.term for one in effects)
    }
    return Factorial(tested, terms)


def crossed_effects(
    levels: Mapping[str, Sequence[str]], reference: Mapping[str, str]
) -> list[Effect]:
    """The main effects and interactions of crossed factors, with the weights of their cells and no estimates."""
    if len(levels) < 2:
        raise ValueError(
            f"factors {list(levels)}, expected two or more. Compare groups of one with omnibus."
        )
    names: dict[str, list[str]] = {}  # of each factor its levels, the reference first
    for factor, column in levels.items():
        found = sorted({str(level) for level in column})
        if len(found) < 2 or reference.get(factor) not in found:
            wanted = f"two or more with {reference.get(factor)!r}, the reference, among them"
            raise ValueError(f"levels {found} of {factor}, expected {wanted}.")
        names[factor] = sorted(found, key=lambda level: (level != reference[factor], level))
    made = []
    for order in range(
        1, min(len(names), 3) + 1
    ):  # a fourth would be a difference of eight gaps, which nobody reads
        for chosen in combinations(names, order):
            for picked in product(*(names[factor][1:] for factor in chosen)):
                gaps = {
                    factor: (level, names[factor][0])
                    for factor, level in zip(chosen, picked, strict=True)
                }
                titles = [" - ".join(one) for one in gaps.values()]
                name = titles[0] if order == 1 else " x ".join(f"({gap})" for gap in titles)
                sides = [  # of a factor's levels: one less the reference, or the mean of all
                    [float(one == gaps[factor][0]) - (one == gaps[factor][1]) for one in each]
                    if factor in gaps
                    else [1 / len(each)] * len(each)
                    for factor, each in names.items()
                ]
                cells = reduce(
                    lambda one, other: np.outer(one, other).ravel(), sides[1:], np.array(sides[0])
                )
                weights = dict(zip(product(*names.values()), cells.tolist(), strict=True))
                made.append(Effect(" x ".join(chosen), name, gaps, weights, Estimate(math.nan)))
    named = [(one.term, one.name) for one in made]
    if twice := next((one for one in named if named.count(one) > 1), None):
        raise ValueError(
            f"two effects of {twice[0]} would be called {twice[1]!r}. Rename the levels."
        )
    return made
