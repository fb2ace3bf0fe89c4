"""Direct bias of word vectors: how far words lean towards one end of a gender direction."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import mean_of, spread_of
from swapbias.measures.estimate import Estimate, Floats
from swapbias.measures.intervals import t_ends

WITHOUT_PAIR = (
    "without_pair_"  # before a number: the column of cosines with the direction without that pair
)
_ROUNDING = 1e-12  # differences of means smaller than this are rounding
_PAIRS = 3  # the fewest pairs of which each can be left out in turn


@dataclass(frozen=True, slots=True)
class DirectBias:
    """How far words lean towards either end of the gender direction, and towards which; NaN: not known."""

    direct_bias: Estimate
    """Mean of |cosine|, 0 (orthogonal to the direction) to 1 (along it)."""
    signed: Estimate
    """Mean cosine; above 0: nearer to the female side, below 0: nearer to the male side."""
    explained_variance: float
    """Share of the definitional pairs' variance along the direction, 0 to 1."""
    cosines: Floats
    """Shape (words,), NaN for a word that was left out."""
    null_mean: float
    """Of |cosine| in random word sets."""
    null_signed_mean: float
    """Of the cosine in random word sets."""
    random_direction: float
    """Mean |cosine| expected of a random direction in so many dimensions."""


def gender_direction(female: ArrayLike, male: ArrayLike) -> tuple[Floats, float]:
    """The gender direction of definitional pairs (she/he, woman/man) and the share of variance that it explains.

    Every vector is scaled to length 1, each pair is centred on its own mean, and the direction is the first principal
    component of the centred vectors (Bolukbasi et al. 2016). It has length 1 and the sign that makes female - male
    point along it on average. ``female`` and ``male`` have shape (pairs, dimensions).

    ValueError: unequal shapes, fewer than two pairs, a zero or non-finite vector, pairs that share no side.
    """
    pairs = _pair_differences(female, male)
    strengths, components = np.linalg.svd(pairs, full_matrices=False)[1:]
    lean = float((pairs @ components[0]).mean())
    if abs(lean) <= _ROUNDING:
        raise ValueError(
            f"female - male leans {lean:.1e} along its own direction, expected pairs that share a side."
        )
    return components[0] * math.copysign(1.0, lean), float(strengths[0] ** 2 / (strengths**2).sum())


def directions_without_a_pair(female: ArrayLike, male: ArrayLike) -> Floats:
    """The gender direction without the first pair, the second, ...: shape (pairs, dimensions).

    Each on the side of the direction of all pairs. Empty below three pairs. Errors as in ``gender_direction``.
    """
    pairs = _pair_differences(female, male)
    whole = gender_direction(female, male)[0]
    if len(pairs) < _PAIRS:
        return np.empty((0, len(whole)))
    first = [
        np.linalg.svd(np.delete(pairs, pair, axis=0), full_matrices=False)[2][0]
        for pair in range(len(pairs))
    ]
    return np.array([one * math.copysign(1.0, float(one @ whole)) for one in first])


def _pair_differences(female: ArrayLike, male: ArrayLike) -> Floats:
    """Female minus male of vectors of length 1: a pair's centred vectors are plus and minus half of it."""
    sides = [np.asarray(side, dtype=np.float64) for side in (female, male)]
    if sides[0].ndim != 2 or sides[0].shape != sides[1].shape or len(sides[0]) < 2:
        raise ValueError(
            f"female of shape {sides[0].shape} and male of shape {sides[1].shape}, "
            "expected the same (pairs, dimensions) with two pairs or more."
        )
    differences: Floats = _unit_rows(sides[0]) - _unit_rows(sides[1])
    unusable = np.flatnonzero(np.isnan(differences).any(axis=1))
    if len(unusable):
        raise ValueError(
            f"pair {unusable[0]} has a zero or non-finite vector, expected none. Leave the pair out."
        )
    return differences


def random_cosine(dimensions: int) -> float:
    """Mean |cosine| of any vector with a random direction: gamma(d / 2) / (sqrt(pi) gamma((d + 1) / 2))."""
    if dimensions < 1:
        raise ValueError(f"{dimensions} dimensions, expected 1 or more.")
    logs = scipy.special.gammaln([dimensions / 2, (dimensions + 1) / 2])
    return math.exp(logs[0] - logs[1]) / math.sqrt(math.pi)


def direct_bias(words: ArrayLike, female: ArrayLike, male: ArrayLike) -> DirectBias:
    """Direct bias of words: mean |cosine| to the gender direction (DB with c = 1; Bolukbasi et al. 2016).

    A zero or non-finite vector leaves its word out. Swapping female and male flips the sign of ``signed`` alone.

    >>> pairs = [[1.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-3.0, 4.0]]
    >>> found = direct_bias([[3.0, 4.0], [-3.0, 4.0]], *pairs)
    >>> round(found.direct_bias.value, 3), abs(round(found.signed.value, 3))
    (0.6, 0.0)
    """
    direction, explained = gender_direction(female, male)
    vectors = np.asarray(words, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] != len(direction):
        raise ValueError(
            f"words of shape {vectors.shape}, expected (words, {len(direction)}) like the pairs."
        )
    others = [cosines_with(one, vectors) for one in directions_without_a_pair(female, male)]
    return from_cosines(
        cosines_with(direction, vectors),
        without_pairs=np.column_stack(others) if others else None,
        explained_variance=explained,
        dimensions=len(direction),
    )


def from_cosines(
    cosines: ArrayLike,
    null_cosines: ArrayLike | None = None,
    *,
    without_pairs: ArrayLike | None = None,
    explained_variance: float = math.nan,
    dimensions: int | None = None,
    like_frequency: bool = False,
) -> DirectBias:
    """Direct bias of words whose cosines to the gender direction are known.

    p-values: how often a random set is at least as far out, (1 + hits) / (1 + sets): for ``direct_bias`` one-sided
    (as large a mean |cosine|), for ``signed`` two-sided about the mean of the sets. ``n`` counts words. No word: NaN.
    One word, or equal cosines: no interval.

    Args:
        cosines: shape (words,), -1 to 1; NaN leaves the word out.
        null_cosines: shape (words, sets): column j is one random word set, row i the match of word i; NaN: none.
        without_pairs: shape (words, pairs), from three pairs on: cosines with ``directions_without_a_pair``, whose
            jackknife variance is added to that over words.
        like_frequency: the random words are about as frequent as the words; names the test.
    """
    cosine = _checked(cosines, "cosines")
    nothing = np.empty((len(np.asarray(cosines)), 0))
    null = nothing if null_cosines is None else _checked(null_cosines, "null_cosines")
    others = nothing if without_pairs is None else _checked(without_pairs, "without_pairs")
    known = ~np.isnan(cosine)
    own = cosine[known]
    without = others[known]
    sets = null[known][:, ~np.isnan(null[known]).all(axis=0)]
    sizes = np.nanmean(np.abs(sets), axis=0)
    means = np.nanmean(sets, axis=0)
    test = (
        f"random word sets{' of like frequency' if like_frequency else ''}"
        if len(sizes)
        else "none"
    )
    pairs = without.shape[1]
    name = f"t over words{' and pairs' if without.shape[1] else ''}"

    def estimate(
        values: Floats, of_pairs: Floats, least: float, distances: Floats, observed: float
    ) -> Estimate:
        spread = spread_of(values, values)
        ends = (math.nan, math.nan)
        p_value = math.nan
        if spread > 0:
            variances = np.array([spread**2 / len(values)])
            dfs = np.array([len(values) - 1.0])
            if pairs:
                dfs = np.append(dfs, pairs - 1.0)
                variances = np.append(variances, (pairs - 1) * float(of_pairs.mean(axis=0).var()))
            variance = float(variances.sum())
            df = variance**2 / float((variances**2 / dfs).sum())
            low, high = t_ends(mean_of(values), math.sqrt(variance), df, 0.95)
            ends = max(low, least), min(high, 1.0)
        if len(distances) and len(values):
            p_value = (1 + int((distances >= observed - _ROUNDING).sum())) / (1 + len(distances))
        return Estimate(
            mean_of(values),
            *ends,
            p_value=p_value,
            n=len(values),
            n_unscored=int((~known).sum()),
            test=test,
            interval=name,
        )

    centre = mean_of(means)
    return DirectBias(
        estimate(np.abs(own), np.abs(without), 0.0, sizes, mean_of(np.abs(own))),
        estimate(own, without, -1.0, np.abs(means - centre), abs(mean_of(own) - centre)),
        explained_variance,
        cosine,
        mean_of(sizes),
        centre,
        math.nan if dimensions is None else random_cosine(dimensions),
    )


def cosines_with(direction: Floats, vectors: Floats) -> Floats:
    """Cosine of each row with a direction of length 1, -1 to 1; NaN for a row that is zero or not finite."""
    # Row by row: a matrix product of many rows rounds otherwise than of one.
    return np.asarray(np.clip((_unit_rows(vectors) * direction).sum(axis=1), -1, 1))


def _unit_rows(vectors: Floats) -> Floats:
    """Rows scaled to length 1; NaN for a row that is zero or not finite."""
    peak = np.abs(vectors).max(
        axis=1, keepdims=True, initial=0
    )  # first, so that squares neither vanish nor overflow
    scaled = np.divide(
        vectors, peak, out=np.full(vectors.shape, np.nan), where=np.isfinite(peak) & (peak > 0)
    )
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def _checked(values: ArrayLike, name: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    strange = found[np.abs(found) > 1 + 1e-6]  # by which a cosine stored as float32 may exceed 1
    if len(strange):
        raise ValueError(f"{name} hold {strange[0]:g}, expected -1 to 1 or NaN.")
    return found
