"""How well a classifier does for each of two groups, by what is true of them: rates, ranking, calibration.

Rows are notes as they were written, each of the group that it is really of, so that groups differ in more than a
swapped word: such a difference may come from what is harder to tell. Flips of versions of one note are in ``rates``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.contrast import t_above, t_quantile
from swapbias.measures.estimate import ClusterIds, Estimate, Floats, two_groups
from swapbias.measures.intervals import Draw, ShareSum, design_effect
from swapbias.measures.rates import _dependence, _labelled, _one_factor

RATES = ("tpr", "fpr", "ppv", "selection_rate")
SCORED = ("auroc", "calibration_slope", "ece")  # of scores, which labels alone do not have
DIFFERENCES: Mapping[str, str] = {
    "tpr": "equal_opportunity_difference",
    "fpr": "predictive_equality_difference",
    "ppv": "predictive_parity_difference",
    "selection_rate": "demographic_parity_difference",
    "auroc": "auroc_difference",
    "calibration_slope": "calibration_slope_difference",
}
BINS = 10  # of equal width, of calibration errors
FEWEST = 10  # clusters of each label that a calibration slope is made of: of fewer its error cannot be told
_LOGIT = 1e-6  # probabilities nearer to 0 or 1 are taken for this
_NEAREST, _FARTHEST = 1e-9, 1e3  # an end lies no nearer, and no more standard errors away
_CELLS = 4_000_000
Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Performance:
    """What each group gets, and by how much more the other group gets than the reference group.

    Attributes:
        groups: for each group ``tpr``, ``fpr``, ``ppv`` (share of label 1 among answers 1), ``selection_rate`` (share
            of answers 1), and of scores ``auroc``, ``calibration_slope`` (1: as sure as right, below 1: surer than
            right) and ``ece`` (mean distance of score and truth over ten bins, 0: calibrated). NaN where nothing is
            asked.
        differences: by the names of ``DIFFERENCES``, the other group's value minus the reference group's; 0: equal.
        equalised_odds: the larger of the absolute differences of true and of false positive rates, 0 (equal) to 1.
    """

    groups: Mapping[str, Mapping[str, Estimate]]
    differences: Mapping[str, Estimate]
    equalised_odds: Estimate


def performance(
    answers: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    scores: ArrayLike | None = None,
    cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 999,
) -> Performance:
    """Rates, ranking and calibration of a classifier in two groups, and their differences.

    Rates have the interval of ``ShareSum``; AUROC has Newcombe's score interval (2006, method 5) with as many rows as
    the variance over clusters is worth (Obuchowski 1997), differences combine both (MOVER); slopes have t intervals
    with a jackknifed variance over clusters. Equalised odds has an interval and a p-value that hold for both rates at
    once (Bonferroni). The interval of an ECE allows for its bias: it ends at 0 where the error may be chance.

    Args:
        answers: shape (rows,), 1 or 0; NaN rows are left out and counted.
        labels: shape (rows,), 1 or 0, without NaN.
        groups: shape (rows,), exactly two values.
        reference_group: is subtracted.
        scores: shape (rows,), probabilities of label 1, 0 to 1, NaN where there is none; None: labels alone.
        cluster_ids: shape (rows,), subjects, whose rows are not independent; None: each row is one.
        confidence: coverage of the intervals.
        seed, n_resamples: of the interval of an ECE.

    Returns:
        Slopes are NaN below ten clusters of a label, or where scores part the labels without error.

    Raises:
        ValueError: answers or labels other than 1 and 0, scores outside 0..1, unequal lengths, not two groups.

    Example:
        >>> found = performance([1, 1, 0, 0], [1, 1, 1, 0], ["f", "f", "m", "m"], reference_group="m")
        >>> found.differences["equal_opportunity_difference"].value, found.groups["f"]["ppv"].value
        (1.0, 1.0)
    """
    answer, label = _labelled(answers, labels)
    is_reference = two_groups(answer, groups, reference_group)[1]
    codes = _dependence(len(answer), None, _one_factor(cluster_ids))[1]
    rows = np.arange(len(answer)) if codes is None else codes
    other = next(str(name) for name in groups if str(name) != reference_group)
    sides = {other: ~is_reference, reference_group: is_reference}
    draw = Draw(confidence, seed, n_resamples)
    found: dict[str, dict[str, Estimate]] = {name: {} for name in sides}
    differences, odds = {}, {}
    for rate in RATES:
        part, whole, lost = _counts(rate, answer, label)
        for name, side in sides.items():
            alone = [(marks & side)[:, None].astype(np.float64) for marks in (part, whole)]
            one = ShareSum(alone[0], alone[1], (1.0,), None, codes)
            found[name][rate] = _told(one, draw.confidence, int((lost & side).sum()))
        both = [
            np.column_stack([marks & side for side in sides.values()]).astype(np.float64) for marks in (part, whole)
        ]
        # A subject is of one group: its rows are one unit of that group's share.
        odds[rate] = ShareSum(both[0], both[1], (1.0, -1.0), rows)
        differences[DIFFERENCES[rate]] = _told(odds[rate], draw.confidence, int(lost.sum()), tested=True)
    if scores is not None:
        ranked = {name: _of_scores(scores, label, rows, side, draw) for name, side in sides.items()}
        for name, several in ranked.items():
            found[name] |= {measure: one.estimate(draw) for measure, one in several.items()}
        for measure in SCORED[:2]:
            pair = [ranked[name][measure] for name in sides]
            differences[DIFFERENCES[measure]] = _apart(pair[0], pair[1], draw)
    return Performance(found, differences, _equalised(odds["tpr"], odds["fpr"], draw.confidence))


def _counts(
    rate: str, answer: Floats, label: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows that count in a rate, rows that are asked, and rows that would be had they an answer."""
    known = ~np.isnan(answer)
    asked = {"tpr": label == 1, "fpr": label == 0, "ppv": answer == 1}.get(rate, np.ones(len(answer), dtype=bool))
    counted = label == 1 if rate == "ppv" else answer == 1
    return asked & known & counted, asked & known, asked & ~known


def _told(found: ShareSum, confidence: float, n_unscored: int, *, tested: bool = False) -> Estimate:
    low, high = found.interval(confidence)
    units = found.clusters if found.units is None else found.units
    clustered = units is not None and len(np.unique(units)) < len(found.whole)
    return Estimate(
        found.value, low, high, p_value=found.p_value() if tested else math.nan,
        n=int(found.whole.any(axis=1).sum()), n_unscored=n_unscored,
        test="that of the interval" if tested else "none",
        interval="Wilson, combined" + (", over clusters" if clustered else ""),
    )  # fmt: skip


def _equalised(tpr: ShareSum, fpr: ShareSum, confidence: float) -> Estimate:
    """The larger absolute difference, with ends that hold for both at once."""
    values = [abs(tpr.value), abs(fpr.value)]
    ends = [one.interval((1 + confidence) / 2) for one in (tpr, fpr)]
    p_values = [one.p_value() for one in (tpr, fpr)]
    n = int((tpr.whole.any(axis=1) | fpr.whole.any(axis=1)).sum())
    if any(map(math.isnan, values)):
        return Estimate(math.nan, n=n, test="none", interval="none")
    if any(math.isnan(end) for pair in ends for end in pair):
        return Estimate(max(values), n=n, test="none", interval="none")
    least = [0.0 if low <= 0 <= high else min(abs(low), abs(high)) for low, high in ends]
    most = [max(abs(low), abs(high)) for low, high in ends]
    return Estimate(
        max(values), max(least), min(1.0, max(most)), p_value=min(1.0, 2 * min(p_values)), n=n,
        test="either rate, Bonferroni", interval="of both rates, Bonferroni",
    )  # fmt: skip


# --- scores -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scored:
    """A quantity of one group's scores: its value, the end that lies so many standard errors away, its freedom."""

    value: float
    end: Callable[[float, float], float]  # quantile, side (-1 or 1) -> end
    freedom: float
    n: int
    lost: int
    interval: str
    fixed: tuple[float, float] | None = None  # ends that no quantile gives
    error: float = math.nan

    def estimate(self, draw: Draw) -> Estimate:
        if self.fixed is not None or math.isnan(self.freedom):
            low, high = self.fixed or (math.nan, math.nan)
        else:
            quantile = t_quantile(0.5 + draw.confidence / 2, self.freedom)
            low, high = self.end(quantile, -1.0), self.end(quantile, 1.0)
        return Estimate(self.value, low, high, n=self.n, n_unscored=self.lost, test="none", interval=self.interval)


def _of_scores(
    scores: ArrayLike, label: Floats, rows: Codes, side: NDArray[np.bool_], draw: Draw
) -> dict[str, _Scored]:
    score = np.asarray(scores, dtype=np.float64)
    if score.shape != label.shape or ((score < 0) | (score > 1)).any():
        raise ValueError(f"scores of shape {score.shape}, {len(label)} labels: expected one from 0 to 1 per row.")
    used = side & ~np.isnan(score)
    lost = int((side & np.isnan(score)).sum())
    mine = score[used], label[used] == 1, np.unique(rows[used], return_inverse=True)[1]
    return {"auroc": _auroc(*mine, lost), "calibration_slope": _slope(*mine, lost), "ece": _ece(*mine, lost, draw)}


def _nothing(n: int, lost: int) -> _Scored:
    return _Scored(math.nan, lambda quantile, side: math.nan, math.nan, n, lost, "none")


def _auroc(score: Floats, positive: NDArray[np.bool_], codes: Codes, lost: int) -> _Scored:
    """The chance that a positive row scores above a negative one, ties counting half."""
    count = int(positive.sum()), int((~positive).sum())
    if min(count) == 0:
        return _nothing(len(score), lost)
    value, influence = auroc_parts(score, positive)
    effect, limit = design_effect(influence, codes)
    if math.isnan(effect):
        return _Scored(value, lambda quantile, side: math.nan, math.nan, len(score), lost, "none")
    sizes = count[0] / effect, count[1] / effect
    freedom = min(limit, max(min(count) / effect - 1, 1.0))
    return _Scored(
        value, lambda quantile, side: _newcombe(value, sizes, quantile, side), freedom, len(score), lost,
        "Newcombe's score interval" + ("" if math.isinf(limit) else ", over clusters"),
    )  # fmt: skip


def auroc_parts(score: Floats, positive: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The area, and what each row adds to it less its expectation (DeLong's components over their number)."""
    above, below = np.sort(score[positive]), np.sort(score[~positive])
    won = (np.searchsorted(below, score, "left") + np.searchsorted(below, score, "right")) / (2 * len(below))
    lost = 1 - (np.searchsorted(above, score, "left") + np.searchsorted(above, score, "right")) / (2 * len(above))
    value = float(won[positive].mean())
    return value, np.where(positive, (won - value) / len(above), (lost - value) / len(below))


def _newcombe(value: float, sizes: tuple[float, float], quantile: float, side: float) -> float:
    """Where the area lies so many of its own standard errors from the observed one."""
    more = max((sizes[0] + sizes[1]) / 2 - 1, 0.0)

    def away(area: float) -> float:
        variance = area * (1 - area) * (1 + more * ((1 - area) / (2 - area) + area / (1 + area)))
        return side * (area - value) - quantile * math.sqrt(max(variance, 0.0) / (sizes[0] * sizes[1]))

    edge, start = (1.0, value + _NEAREST) if side > 0 else (0.0, value - _NEAREST)  # an area of 1 has no error itself
    if not 0 < start < 1 or away(edge) <= 0:
        return edge
    return float(scipy.optimize.brentq(away, start, edge)) if away(start) < 0 else value


def _slope(score: Floats, positive: NDArray[np.bool_], codes: Codes, lost: int) -> _Scored:
    """The slope of a logistic regression of the labels on the log-odds that the scores give (Cox 1958)."""
    labelled = [len(np.unique(codes[chosen])) for chosen in (positive, ~positive)]
    clipped = np.clip(score, _LOGIT, 1 - _LOGIT)
    design = np.column_stack([np.ones(len(score)), scipy.special.logit(clipped)])
    if min(labelled) < FEWEST or np.ptp(design[:, 1]) == 0:
        return _nothing(len(score), lost)
    fitted = _logistic(design, positive.astype(np.float64))
    if fitted is None:
        return _nothing(len(score), lost)
    weights, error = fitted[0], _jackknifed(design, positive - fitted[1], fitted[1] * (1 - fitted[1]), codes)
    value, freedom = float(weights[1]), float(min(labelled) - 1)
    return _Scored(
        value, lambda quantile, side: value + side * quantile * error, freedom, len(score), lost,
        "t, jackknifed over clusters", error=error,
    )  # fmt: skip


def _logistic(design: Floats, truth: Floats) -> tuple[Floats, Floats] | None:
    """Weights and fitted probabilities by Newton's method; None where the labels can be parted without error."""
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        fitted = scipy.special.expit(design @ weights)
        bend = (design * (fitted * (1 - fitted))[:, None]).T @ design
        if np.linalg.cond(bend) > 1e12:
            return None
        step = np.linalg.solve(bend, design.T @ (truth - fitted))
        weights = weights + step * min(1.0, 5 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-9:
            return weights, scipy.special.expit(design @ weights)
    return None


def _jackknifed(design: Floats, rest: Floats, spread: Floats, codes: Codes) -> float:
    """Standard error of the second weight: each cluster's pull, as if the model were fitted without it (CR3)."""
    count = int(codes.max()) + 1
    pulls, parts = np.zeros((count, 2)), np.zeros((count, 2, 2))
    np.add.at(pulls, codes, design * rest[:, None])
    np.add.at(parts, codes, spread[:, None, None] * design[:, :, None] * design[:, None, :])
    bread = np.linalg.inv(parts.sum(axis=0))
    left = np.eye(2) - parts @ bread
    alone = np.linalg.solve(left, pulls[:, :, None])[:, :, 0] @ bread
    return float(math.sqrt((count - 1) / count * (alone[:, 1] ** 2).sum()))


def _ece(score: Floats, positive: NDArray[np.bool_], codes: Codes, lost: int, draw: Draw) -> _Scored:
    """Expected calibration error: the distance of mean score and share of positives of a bin, over the rows of bins.

    The errors of bins add up however they fall: a calibrated model of few rows has one too. The interval is as
    wide as such errors: 95 % of the sums of distances by which bins would move had other clusters been drawn.
    """
    if not len(score):
        return _nothing(0, lost)
    bins = np.minimum((score * BINS).astype(int), BINS - 1)
    parts = np.zeros((int(codes.max()) + 1, BINS))
    np.add.at(parts, (codes, bins), (positive - score) / len(score))
    value, count = float(np.abs(parts.sum(axis=0)).sum()), len(parts)
    if count < 2:
        return _Scored(value, lambda quantile, side: math.nan, math.nan, len(score), lost, "none")
    centred = (parts - parts.mean(axis=0)) * math.sqrt(count / (count - 1))
    rng, block = np.random.default_rng(draw.seed), max(1, _CELLS // count)
    sizes = [min(block, draw.n_resamples - start) for start in range(0, draw.n_resamples, block)]
    moved = np.concatenate([np.abs(rng.standard_normal((size, count)) @ centred).sum(axis=1) for size in sizes])
    reach = float(np.quantile(moved, draw.confidence))
    return _Scored(
        value, lambda quantile, side: math.nan, math.inf, len(score), lost, "what chance moves bins by",
        fixed=(max(0.0, value - reach), min(1.0, value + reach)),
    )  # fmt: skip


def _apart(other: _Scored, reference: _Scored, draw: Draw) -> Estimate:
    """The difference of a quantity of two groups of subjects, with an interval made of both (MOVER)."""
    value, n, lost = other.value - reference.value, other.n + reference.n, other.lost + reference.lost
    freedom = _freedom(other, reference)
    if math.isnan(value) or math.isnan(freedom):
        return Estimate(value, n=n, n_unscored=lost, test="none", interval="none")

    def end(quantile: float, side: float) -> float:
        first = other.end(quantile, side) - other.value
        second = reference.end(quantile, -side) - reference.value
        return value + side * math.hypot(first, second)

    quantile = t_quantile(0.5 + draw.confidence / 2, freedom)
    p_value = 1.0
    if value:
        towards = -math.copysign(1.0, value)
        p_value = 0.0
        if end(_FARTHEST, towards) * value <= 0:
            reached = scipy.optimize.brentq(lambda q: end(q, towards) * value, 0.0, _FARTHEST)
            p_value = 2 * t_above(reached, freedom)
    name = "t" if not math.isnan(other.error) else "combined"
    return Estimate(
        value, end(quantile, -1.0), end(quantile, 1.0), p_value=p_value, n=n, n_unscored=lost,
        test="that of the interval", interval=f"{name}: {other.interval}",
    )  # fmt: skip


def _freedom(other: _Scored, reference: _Scored) -> float:
    """Welch's, of t intervals; else the smaller of both."""
    if math.isnan(other.error) or math.isnan(reference.error) or not (other.error or reference.error):
        return min(other.freedom, reference.freedom)
    both = other.error**2 + reference.error**2
    return both**2 / (other.error**4 / other.freedom + reference.error**4 / reference.freedom)
