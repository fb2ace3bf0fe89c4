"""Direct bias of word vectors: how far words lean towards one end of a gender direction."""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.measures.contrast import mean_of, spread_of, t_ends
from swapbias.measures.estimate import Estimate, Floats
from swapbias.measures.intervals import Draw

WITHOUT_PAIR = "without_pair_"  # before a number: the column of cosines with the direction without that pair
_ROUNDING = 1e-12  # differences of means smaller than this are rounding
_STORED = 1e-6  # what a cosine kept as float32 may exceed 1 by
_PAIRS = 3  # the fewest pairs whose directions without one of them tell how much hangs on the pairs


@dataclass(frozen=True, slots=True)
class DirectBias:
    """How far words lean towards either end of the gender direction, and towards which.

    Attributes:
        direct_bias: mean of |cosine|, 0 (orthogonal to the direction) to 1 (along it).
        signed: mean cosine; above 0: nearer to the female side, below 0: nearer to the male side.
        explained_variance: share of the definitional pairs' variance along the direction, 0 to 1; NaN if unknown.
        cosines: shape (words,), NaN for a word that was left out.
        null_mean, null_signed_mean: the two values expected of random word sets; NaN without such sets.
        random_direction: mean |cosine| expected of a direction at random in so many dimensions; NaN if unknown.
    """

    direct_bias: Estimate
    signed: Estimate
    explained_variance: float
    cosines: Floats
    null_mean: float = math.nan
    null_signed_mean: float = math.nan
    random_direction: float = math.nan


def gender_direction(female: ArrayLike, male: ArrayLike) -> tuple[Floats, float]:
    """The gender direction g of definitional pairs (she/he, woman/man) and the variance it explains.

    Every vector is scaled to length 1, each pair is centred on its own mean, and g is the first principal
    component of the centred vectors (Bolukbasi et al. 2016).

    Args:
        female, male: shape (pairs, dimensions), two pairs or more; row i of both is one pair.

    Returns:
        g, shape (dimensions,), of length 1, with the sign that makes female - male point along +g on average;
        and its share of the variance, 1 / min(pairs, dimensions) to 1.

    Raises:
        ValueError: unequal or wrong shapes, fewer than two pairs, a zero or non-finite vector, pairs that do not
            differ, or that point as much to one side as to the other.

    Example:
        >>> g, explained = gender_direction([[1.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-3.0, 4.0]])
        >>> g.round(3).tolist(), explained
        ([1.0, 0.0], 1.0)
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (female, male)]
    if sides[0].ndim != 2 or sides[0].shape != sides[1].shape or len(sides[0]) < 2:
        raise ValueError(
            f"female of shape {sides[0].shape} and male of shape {sides[1].shape}, "
            "expected the same (pairs, dimensions) with two pairs or more."
        )
    apart = _apart(*sides)
    lost = np.flatnonzero(np.isnan(apart).any(axis=1))
    if len(lost):
        raise ValueError(f"pair {lost[0]} has a zero or non-finite vector, expected none. Leave the pair out.")
    strengths, components = np.linalg.svd(apart, full_matrices=False)[1:]
    lean = float((apart @ components[0]).mean())
    if abs(lean) <= _ROUNDING:
        raise ValueError(f"female - male leans {lean:.1e} along its own direction, expected pairs that share a side.")
    direction: Floats = components[0] * math.copysign(1.0, lean)
    return direction, float(strengths[0] ** 2 / (strengths**2).sum())


def directions_without_a_pair(female: ArrayLike, male: ArrayLike) -> Floats:
    """The gender direction without the first pair, the second, ...: shape (pairs, dimensions).

    Each on the side of the direction of all pairs. Empty below three pairs, where one that is left out leaves one.

    Raises:
        ValueError: as ``gender_direction``.
    """
    whole = gender_direction(female, male)[0]
    apart = _apart(np.asarray(female, dtype=np.float64), np.asarray(male, dtype=np.float64))
    if len(apart) < _PAIRS:
        return np.empty((0, len(whole)))
    first = [np.linalg.svd(np.delete(apart, pair, axis=0), full_matrices=False)[2][0] for pair in range(len(apart))]
    return np.array([one * math.copysign(1.0, float(one @ whole)) for one in first])


def random_cosine(dimensions: int) -> float:
    """Mean |cosine| of any vector with a direction at random: what words without a bias reach.

    The cosine is a coordinate of a point at random on the unit sphere, whose mean size is gamma(d / 2) /
    (sqrt(pi) gamma((d + 1) / 2)): 1 on a line, 2 / pi in a plane, about sqrt(2 / (pi d)) in many dimensions.

    >>> round(random_cosine(3), 6), round(random_cosine(300), 3)
    (0.5, 0.046)

    Raises:
        ValueError: fewer than one dimension.
    """
    if dimensions < 1:
        raise ValueError(f"{dimensions} dimensions, expected 1 or more.")
    logs = scipy.special.gammaln([dimensions / 2, (dimensions + 1) / 2])
    return math.exp(logs[0] - logs[1]) / math.sqrt(math.pi)


def direct_bias(
    words: ArrayLike,
    female: ArrayLike,
    male: ArrayLike,
    *,
    null_cosines: ArrayLike | None = None,
    like_frequency: bool = False,
    confidence: float = 0.95,
) -> DirectBias:
    """Direct bias of words: mean |cosine| to the gender direction (DB with c = 1; Bolukbasi et al. 2016).

    Args:
        words: shape (words, dimensions); a zero or non-finite vector leaves its word out and is counted.
        female, male: as in ``gender_direction``; swapping them flips the sign of ``signed`` alone.
        null_cosines, like_frequency, confidence: as in ``from_cosines``.

    Raises:
        ValueError: as ``gender_direction`` and ``from_cosines``, or words of other dimensions than the pairs.

    Example:
        >>> pairs = [[1.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-3.0, 4.0]]
        >>> found = direct_bias([[3.0, 4.0], [-3.0, 4.0]], *pairs)
        >>> round(found.direct_bias.value, 3), abs(round(found.signed.value, 3))
        (0.6, 0.0)
    """
    direction, explained = gender_direction(female, male)
    vectors = np.asarray(words, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[1] != len(direction):
        raise ValueError(f"words of shape {vectors.shape}, expected (words, {len(direction)}) like the pairs.")
    others = [cosines_with(one, vectors) for one in directions_without_a_pair(female, male)]
    return from_cosines(
        cosines_with(direction, vectors),
        null_cosines,
        without_pairs=np.column_stack(others) if others else None,
        explained_variance=explained,
        dimensions=len(direction),
        like_frequency=like_frequency,
        confidence=confidence,
    )


def from_cosines(
    cosines: ArrayLike,
    null_cosines: ArrayLike | None = None,
    *,
    without_pairs: ArrayLike | None = None,
    explained_variance: float = math.nan,
    dimensions: int | None = None,
    like_frequency: bool = False,
    confidence: float = 0.95,
) -> DirectBias:
    """Direct bias of words whose cosines to the gender direction are known.

    Args:
        cosines: shape (words,), -1 to 1; NaN leaves the word out.
        null_cosines: shape (words, sets): column j is one random word set, row i the match of word i; NaN where
            there is none. Rows of words that are left out are ignored, and so are columns of NaN alone.
        without_pairs: shape (words, pairs), from three pairs on: cosines with ``directions_without_a_pair``.
        explained_variance: of the direction, kept in the answer.
        dimensions: of the vectors, for ``random_direction``.
        like_frequency: the random words were drawn to be about as frequent as the words.
        confidence: coverage of the t interval. It is over words, and over pairs too where ``without_pairs`` tells
            (jackknife, its variance added): for other words and pairs of these kinds. Few pairs find the direction
            imprecisely, which draws all cosines towards those of a direction at random; no interval tells that.

    Returns:
        ``n`` counts words. p-values: how often a random set is at least as far out, (1 + hits) / (1 + sets): for
        ``direct_bias`` one-sided (as large a mean |cosine|), for ``signed`` two-sided about the mean of the sets.
        No word: NaN. One word, or equal cosines: no interval. No random sets: NaN p-values, test ``none``.

    Raises:
        ValueError: a number outside -1 to 1, or null cosines that have not one row per word.
    """
    cosine = _cosines(cosines, "cosines")
    null = np.empty((len(cosine), 0)) if null_cosines is None else _cosines(null_cosines, "null_cosines")
    if cosine.ndim != 1 or null.ndim != 2 or len(null) != len(cosine):
        raise ValueError(
            f"cosines of shape {cosine.shape} and null_cosines of shape {null.shape}, "
            "expected one cosine and one row of random words per word."
        )
    known = ~np.isnan(cosine)
    used, null = cosine[known], null[known]
    jackknife = None if without_pairs is None else _cosines(without_pairs, "without_pairs")
    if jackknife is not None and (
        jackknife.ndim != 2 or len(jackknife) != len(cosine) or jackknife.shape[1] < _PAIRS
    ):
        raise ValueError(
            f"without_pairs of shape {jackknife.shape}, expected ({len(cosine)}, pairs) with {_PAIRS} pairs or more."
        )
    others = np.empty((len(used), 0)) if jackknife is None else jackknife[known]
    sizes, means = _column_means(np.abs(null)), _column_means(null)
    size, mean = mean_of(np.abs(used)), mean_of(used)
    centre = mean_of(means)
    tested = (
        ("random word sets of like frequency" if like_frequency else "random word sets") if len(sizes) else "none"
    )
    lost, signed_p = int((~known).sum()), _p_value(np.abs(means - centre), abs(mean - centre))
    size_p = _p_value(sizes, size)
    return DirectBias(
        replace(
            _estimate(np.abs(used), np.abs(others), 0.0, confidence), p_value=size_p, n_unscored=lost, test=tested
        ),
        replace(_estimate(used, others, -1.0, confidence), p_value=signed_p, n_unscored=lost, test=tested),
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


def _apart(female: Floats, male: Floats) -> Floats:
    """Female minus male of the vectors scaled to length 1: a pair's centred vectors are plus and minus half of it."""
    return _unit_rows(female) - _unit_rows(male)


def _unit_rows(vectors: Floats) -> Floats:
    """Rows scaled to length 1; NaN for a row that is zero or not finite."""
    peak = np.abs(vectors).max(axis=1, keepdims=True, initial=0)  # first, so that squares neither vanish nor overflow
    usable = np.isfinite(peak) & (peak > 0)
    scaled = np.divide(vectors, peak, out=np.full(vectors.shape, np.nan), where=usable)
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def _cosines(values: ArrayLike, name: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    strange = found[np.abs(found) > 1 + _STORED]
    if len(strange):
        raise ValueError(f"{name} hold {strange[0]:g}, expected -1 to 1 or NaN.")
    return found


def _column_means(null: Floats) -> Floats:
    """Mean of each column's numbers; columns without one are left out."""
    sizes = (~np.isnan(null)).sum(axis=0)
    return np.asarray(np.nansum(null, axis=0)[sizes > 0] / sizes[sizes > 0])


def _p_value(null: Floats, observed: float) -> float:
    """Share of random sets, the observed one among them, that are at least as far out; NaN without one."""
    if not len(null) or math.isnan(observed):
        return math.nan
    return (1 + int((null >= observed - _ROUNDING).sum())) / (1 + len(null))


def _estimate(values: Floats, without_pairs: Floats, least: float, confidence: float) -> Estimate:
    """Mean over words with its t interval within ``least`` to 1; NaN ends where nothing varies."""
    n, pairs = len(values), without_pairs.shape[1]
    value, spread = mean_of(values), spread_of(values, values)
    squares, freedoms = [spread**2 / n if n > 1 else math.nan], [n - 1.0]
    if pairs and n:
        means = without_pairs.mean(axis=0)
        squares.append((pairs - 1) / pairs * float(((means - means.mean()) ** 2).sum()))
        freedoms.append(pairs - 1.0)
    variance, ends = sum(squares), (math.nan, math.nan)
    if spread > 0:
        freedom = variance**2 / sum(one**2 / free for one, free in zip(squares, freedoms, strict=True))
        low, high = t_ends(value, math.sqrt(variance), freedom, Draw(confidence, 0, 1).confidence)
        ends = max(low, least), min(high, 1.0)
    over = "words and pairs" if pairs else "words"
    return Estimate(value, *ends, n=n, interval=f"t over {over}")
