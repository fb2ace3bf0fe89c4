"""Direct bias of word vectors: how far words lean towards one end of a gender direction."""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.estimate import Estimate, Floats
from swapbias.measures.intervals import CONFIDENCE, t_ends
from swapbias.measures.spreads import mean_of, spread_of
from swapbias.public_calls import public_call

WITHOUT_PAIR = "without_pair_"
"""Before a number: the column of cosines with the direction without that pair."""
_ROUNDING = 1e-12  # differences of means smaller than this are rounding
_PAIRS = 3  # the fewest pairs of which each can be left out in turn


@dataclass(frozen=True, slots=True)
class DirectBias:
    """Lean of words towards either end of the gender direction; NaN: not known."""

    direct_bias: Estimate
    """Mean of |cosine|, 0 (orthogonal to the direction) to 1 (along it)."""
    signed: Estimate
    """Mean cosine; above 0: nearer to the female side, below 0: nearer to the male side."""
    explained_variance: float
    """Share of the definitional pairs' variance along the direction, 0 to 1."""
    cosines: Floats
    """Shape (words,), NaN for a word that was left out."""
    null_mean: float
    """Mean of |cosine| in random word sets, 0 to 1."""
    null_signed_mean: float
    """Mean of the cosine in random word sets, -1 to 1."""
    random_direction: float
    """Mean |cosine| expected of a random direction in so many dimensions."""


def gender_direction(female: ArrayLike, male: ArrayLike) -> tuple[Floats, float]:
    """Find the gender direction of definitional pairs (she/he, woman/man) and the share of variance that it explains.

    Every vector is scaled to length 1, each pair is centred on its own mean, and the direction is the first principal
    component of the centred vectors (Bolukbasi et al. 2016). It has length 1 and the sign that makes female - male
    point along it on average.

    Args:
        female: shape (pairs, dimensions), the vectors of the female words.
        male: shape (pairs, dimensions), those of the male words.

    Returns:
        Shape (dimensions,); and a share, 0 to 1.

    Raises:
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
    """Find the gender direction without the first pair, the second, ..., each on the side of that of all pairs.

    Args:
        female: as in ``gender_direction``.
        male: as in ``gender_direction``.

    Returns:
        Shape (pairs, dimensions); empty below three pairs.

    Raises:
        ValueError: as in ``gender_direction``.
    """
    pairs = _pair_differences(female, male)
    whole = gender_direction(female, male)[0]
    if len(pairs) < _PAIRS:
        return np.empty((0, len(whole)))
    directions = []
    for pair in range(len(pairs)):
        direction = np.linalg.svd(np.delete(pairs, pair, axis=0), full_matrices=False)[2][0]
        directions.append(direction * math.copysign(1.0, float(direction @ whole)))
    return np.array(directions)


def _pair_differences(female: ArrayLike, male: ArrayLike) -> Floats:
    """Return female minus male of vectors of length 1: a pair's centred vectors are plus and minus half of it."""
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
    """Return the mean |cosine| of any vector with a random direction: gamma(d / 2) / (sqrt(pi) gamma((d + 1) / 2)).

    Args:
        dimensions: d, from 1.

    Raises:
        ValueError: fewer than one dimension.
    """
    if dimensions < 1:
        raise ValueError(f"{dimensions} dimensions, expected 1 or more.")
    logs = scipy.special.gammaln([dimensions / 2, (dimensions + 1) / 2])
    return math.exp(logs[0] - logs[1]) / math.sqrt(math.pi)


@public_call
def direct_bias(words: ArrayLike, female: ArrayLike, male: ArrayLike) -> DirectBias:
    """Direct bias of words: mean |cosine| to the gender direction (DB with c = 1; Bolukbasi et al. 2016).

    A zero or non-finite vector leaves its word out. Swapping female and male flips the sign of ``signed`` alone.

    Args:
        words: shape (words, dimensions).
        female: as in ``gender_direction``.
        male: as in ``gender_direction``.

    Raises:
        ValueError: words of other dimensions, or as in ``gender_direction``.

    >>> pairs = [[1.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-3.0, 4.0]]
    >>> bias = direct_bias([[3.0, 4.0], [-3.0, 4.0]], *pairs)
    >>> round(bias.direct_bias.value, 3), abs(round(bias.signed.value, 3))
    (0.6, 0.0)
    """
    direction, explained = gender_direction(female, male)
    vectors = np.asarray(words, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] != len(direction):
        raise ValueError(
            f"words of shape {vectors.shape}, expected (words, {len(direction)}) like the pairs."
        )
    without_pairs = [
        cosines_with(without_pair, vectors)
        for without_pair in directions_without_a_pair(female, male)
    ]
    return from_cosines(
        cosines_with(direction, vectors),
        without_pairs=np.column_stack(without_pairs) if without_pairs else None,
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
        explained_variance: share of the definitional pairs' variance along the direction; NaN: not known.
        dimensions: the number of dimensions of the vectors; None: not known.
        like_frequency: the random words are about as frequent as the words; names the test.
    """
    cosine = _checked(cosines, "cosines")
    empty = np.empty((len(np.asarray(cosines)), 0))
    null = empty if null_cosines is None else _checked(null_cosines, "null_cosines")
    jackknife = empty if without_pairs is None else _checked(without_pairs, "without_pairs")
    is_scored = ~np.isnan(cosine)
    scored = cosine[is_scored]
    without = jackknife[is_scored]
    sets = null[is_scored][:, ~np.isnan(null[is_scored]).all(axis=0)]
    sizes = np.nanmean(np.abs(sets), axis=0)
    means = np.nanmean(sets, axis=0)
    centre = mean_of(means)
    test = "none"
    if len(sizes):
        test = "random word sets of like frequency" if like_frequency else "random word sets"
    unscored = int((~is_scored).sum())
    size = mean_of(np.abs(scored))
    direct = replace(
        _mean_cosine(np.abs(scored), np.abs(without), 0.0, unscored),
        p_value=_random_set_p(sizes, size, len(scored)),
        test=test,
    )
    signed = replace(
        _mean_cosine(scored, without, -1.0, unscored),
        p_value=_random_set_p(np.abs(means - centre), abs(mean_of(scored) - centre), len(scored)),
        test=test,
    )
    return DirectBias(
        direct_bias=direct,
        signed=signed,
        explained_variance=explained_variance,
        cosines=cosine,
        null_mean=mean_of(sizes),
        null_signed_mean=centre,
        random_direction=math.nan if dimensions is None else random_cosine(dimensions),
    )


def _mean_cosine(values: Floats, without_pairs: Floats, least: float, unscored: int) -> Estimate:
    """Return the mean over words, with the variance over words and that over pairs left out; from ``least`` to 1."""
    pairs = without_pairs.shape[1]
    mean = mean_of(values)
    estimate = Estimate(
        mean,
        n=len(values),
        n_unscored=unscored,
        interval="t over words and pairs" if pairs else "t over words",
    )
    spread = spread_of(values, values)
    if not spread > 0:
        return estimate
    variances = np.array([spread**2 / len(values)])
    dfs = np.array([len(values) - 1.0])
    if pairs:
        dfs = np.append(dfs, pairs - 1.0)
        jackknife = (pairs - 1) * float(without_pairs.mean(axis=0).var())
        variances = np.append(variances, jackknife)
    variance = float(variances.sum())
    df = variance**2 / float((variances**2 / dfs).sum())
    low, high = t_ends(mean, math.sqrt(variance), df, CONFIDENCE)
    return replace(estimate, ci_low=max(low, least), ci_high=min(high, 1.0))


def _random_set_p(distances: Floats, observed: float, count: int) -> float:
    """Return how often a random set of words is at least as far out; NaN without sets or words."""
    if not len(distances) or not count:
        return math.nan
    return (1 + int((distances >= observed - _ROUNDING).sum())) / (1 + len(distances))


def cosines_with(direction: Floats, vectors: Floats) -> Floats:
    """Return the cosine of each row with a direction, -1 to 1; NaN for a row that is zero or not finite.

    Args:
        direction: shape (dimensions,), of length 1.
        vectors: shape (rows, dimensions).
    """
    # Row by row: a matrix product of many rows rounds otherwise than of one.
    return np.asarray(np.clip((_unit_rows(vectors) * direction).sum(axis=1), -1, 1))


def _unit_rows(vectors: Floats) -> Floats:
    """Return rows scaled to length 1; NaN for a row that is zero or not finite."""
    # Scaled by the peak first, so that squares neither vanish nor overflow.
    peak = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    scaled = np.divide(
        vectors, peak, out=np.full(vectors.shape, np.nan), where=np.isfinite(peak) & (peak > 0)
    )
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def _checked(values: ArrayLike, name: str) -> Floats:
    """Return cosines as floats; ValueError for one beyond -1 to 1, but by the rounding of float32."""
    checked = np.asarray(values, dtype=np.float64)
    strange = checked[np.abs(checked) > 1 + 1e-6]
    if len(strange):
        raise ValueError(f"{name} contain {strange[0]:g}, expected -1 to 1 or NaN.")
    return checked
