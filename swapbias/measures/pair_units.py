"""Units that a comparison makes of rows, and those of pairs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swapbias.measures.estimate import Codes, Floats

ROUNDING = 1e-12
"""A gap below this share of its scores is none."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedUnits:
    """Units that a gap is made of: one value a unit, of one sample or of several."""

    rows: Codes
    """Shape (units,): the first row of each unit."""
    values: Floats
    """Shape (units,): NaN where a score is missing."""
    samples: Codes
    """Shape (units,): from 0; all 0 for differences of pairs."""
    weights: tuple[float, ...]
    """Weights of the samples in the gap."""
    scores: Floats | None = None
    """Shape (units, groups): the score of each group; None for units that are no pairs."""


def units_of_pairs(
    scores: Floats, groups: Codes, pairs: Codes, weights: Mapping[str, float]
) -> ComparedUnits:
    """Make a unit of each pair, the weighted sum of its scores.

    Args:
        scores: shape (rows,), NaN where a row has none.
        groups: shape (rows,): the index of each row's group in ``weights``.
        pairs: shape (rows,): the number of each row's pair, from 0 in the order of the first rows.
        weights: the weight of each group's score, by name.

    Raises:
        ValueError: a pair has two rows of one group.
    """
    count = int(pairs.max(initial=-1)) + 1
    cells = pairs * len(weights) + groups
    if np.bincount(cells).max(initial=0) > 1:
        raise ValueError("a pair has two rows of one group, expected one of each.")
    table = np.full((count, len(weights)), math.nan)
    table[pairs, groups] = scores
    signs = np.array(list(weights.values()))
    gaps = table @ signs
    gaps[np.abs(gaps) <= ROUNDING * (np.abs(table) @ np.abs(signs))] = 0.0  # rounding has no spread
    first = np.full(count, len(pairs))
    np.minimum.at(first, pairs, np.arange(len(pairs)))
    return ComparedUnits(first, gaps, np.zeros(count, dtype=np.intp), (1.0,), table)
