"""Direct bias of word vectors: how far words lean towards one end of a gender direction."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapbias.measures.estimate import Estimate, Floats
from swapbias.measures.intervals import Draw, bootstrap_interval, mean_of, spread_of

_ROUNDING = 1e-12  # differences of means smaller than this are rounding
_STORED = 1e-6  # what a cosine kept as float32 may exceed 1 by


@dataclass(frozen=True, slots=True)
class DirectBias:
    """How far words lean towards either end of the gender direction, and towards which.

    Attributes:
        direct_bias: mean of |cosine|, 0 (orthogonal to the direction) to 1 (along it).
        signed: mean cosine; above 0: nearer to the female side, below 0: nearer to the male side.
        explained_variance: share of the definitional pairs' variance along the direction, 0 to 1; NaN if unknown.
        cosines: shape (words,), NaN for a word that was left out.
        null_mean, null_signed_mean: the two values expected of random word sets; NaN without such sets.
    """

    direct_bias: Estimate
    signed: Estimate
    explained_variance: float
    cosines: Floats
    null_mean: float = math.nan
    null_signed_mean: float = math.nan


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
    units = [_unit_rows(side) for side in sides]
    lost = np.flatnonzero(np.isnan(units[0] + units[1]).any(axis=1))
    if len(lost):
        raise ValueError(f"pair {lost[0]} has a zero or non-finite vector, expected none. Leave the pair out.")
    apart = units[0] - units[1]  # a pair's centred vectors are plus and minus half of this: the same components
    strengths, components = np.linalg.svd(apart, full_matrices=False)[1:]
    lean = float((apart @ components[0]).mean())
    if abs(lean) <= _ROUNDING:
        raise ValueError(f"female - male leans {lean:.1e} along its own direction, expected pairs that share a side.")
    direction: Floats = components[0] * math.copysign(1.0, lean)
    return direction, float(strengths[0] ** 2 / (strengths**2).sum())


def direct_bias(
    words: ArrayLike,
    female: ArrayLike,
    male: ArrayLike,
    *,
    null_cosines: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 2_000,
) -> DirectBias:
    """Direct bias of words: mean |cosine| to the gender direction (DB with c = 1; Bolukbasi et al. 2016).

    Args:
        words: shape (words, dimensions); a zero or non-finite vector leaves its word out and is counted.
        female, male: as in ``gender_direction``; swapping them flips the sign of ``signed`` alone.
        null_cosines, confidence, seed, n_resamples: as in ``from_cosines``.

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
    return from_cosines(
        cosines_with(direction, vectors),
        null_cosines,
        explained_variance=explained,
        confidence=confidence,
        seed=seed,
        n_resamples=n_resamples,
    )


def from_cosines(
    cosines: ArrayLike,
    null_cosines: ArrayLike | None = None,
    *,
    explained_variance: float = math.nan,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 2_000,
) -> DirectBias:
    """Direct bias of words whose cosines to the gender direction are known.

    Args:
        cosines: shape (words,), -1 to 1; NaN leaves the word out.
        null_cosines: shape (words, sets): column j is one random word set, row i the match of word i in frequency;
            NaN where there is none. Rows of words that are left out are ignored, and so are columns of NaN alone.
        explained_variance: of the direction, kept in the answer.
        confidence, seed, n_resamples: of the percentile bootstrap over words.

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
    draw, lost = Draw(confidence, seed, n_resamples), int((~known).sum())
    sizes, means = _column_means(np.abs(null)), _column_means(null)
    size, mean = mean_of(np.abs(used)), mean_of(used)
    centre = mean_of(means)
    return DirectBias(
        _estimate(np.abs(used), lost, draw, _p_value(sizes, size), bool(len(sizes))),
        _estimate(used, lost, draw, _p_value(np.abs(means - centre), abs(mean - centre)), bool(len(means))),
        explained_variance,
        cosine,
        mean_of(sizes),
        centre,
    )


def cosines_with(direction: Floats, vectors: Floats) -> Floats:
    """Cosine of each row with a direction of length 1, -1 to 1; NaN for a row that is zero or not finite."""
    # Row by row: a matrix product of many rows rounds otherwise than of one.
    return np.asarray(np.clip((_unit_rows(vectors) * direction).sum(axis=1), -1, 1))


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


def _estimate(values: Floats, lost: int, draw: Draw, p_value: float, tested: bool) -> Estimate:
    """Mean over words with its bootstrap interval; NaN ends where nothing varies."""
    ends = (math.nan, math.nan)
    if spread_of(values, values) > 0:
        ends = bootstrap_interval(
            (values,), None, confidence=draw.confidence, seed=draw.seed, n_resamples=draw.n_resamples
        )
    return Estimate(
        mean_of(values),
        *ends,
        p_value=p_value,
        n=len(values),
        n_unscored=lost,
        test="random word sets of like frequency" if tested else "none",
        interval="bootstrap over words percentile",
    )
