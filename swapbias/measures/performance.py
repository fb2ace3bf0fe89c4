"""How well a classifier does for each of two groups, by what is true of them: rates, ranking, calibration.

Rows are notes as they were written, each of the group that it is really of, so that groups differ in more than a
swapped word, and one may be harder to classify. Flips of versions of one note are in ``rates``.
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
from swapbias.measures.rates import dependence, labelled, of_shares

DIFFERENCES: Mapping[str, str] = {
    "tpr": "equal_opportunity_difference",
    "fpr": "predictive_equality_difference",
    "ppv": "predictive_parity_difference",
    "selection_rate": "demographic_parity_difference",
    "auroc": "auroc_difference",
    "calibration_slope": "calibration_slope_difference",
}
_BINS = 10  # of equal width, of calibration errors
_FEWEST = 10  # clusters of each label: fewer give a calibration slope no standard error
_LOGIT = 1e-6  # probabilities nearer to 0 or 1 are taken for this
_NEAREST, _FARTHEST = 1e-9, 1e3  # an end lies no nearer, and no more standard errors away
_CELLS = 4_000_000
Codes = NDArray[np.intp]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Performance:
    """What each group gets, and by how much more the other group gets than the reference group.

    Attributes:
        groups: for each group ``tpr``, ``fpr``, ``ppv`` (share of label 1 among answers 1), ``selection_rate`` (share
            of answers 1), and of scores ``auroc``, ``calibration_slope`` (1: as sure as right, below 1: surer than
            right) and ``ece`` (mean distance of score and truth over ten bins, 0: calibrated). NaN of no row.
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
        Slopes are NaN below ten clusters of a label, or where scores separate the labels without error.

    Raises:
        ValueError: answers or labels other than 1 and 0, scores outside 0..1, unequal lengths, not two groups.

    Example:
        >>> found = performance([1, 1, 0, 0], [1, 1, 1, 0], ["f", "f", "m", "m"], reference_group="m")
        >>> found.differences["equal_opportunity_difference"].value, found.groups["f"]["ppv"].value
        (1.0, 1.0)
    """
    answer, label = labelled(answers, labels)
    is_reference = two_groups(answer, groups, reference_group)[1]
    clusters = dependence(len(answer), None, cluster_ids)[1]
    units = np.arange(len(answer)) if clusters is None else clusters
    other = next(str(name) for name in groups if str(name) != reference_group)
    names, sides = (other, reference_group), np.column_stack([~is_reference, is_reference])
    draw, called, known = Draw(confidence, seed, n_resamples), answer == 1, ~np.isnan(answer)[:, None]
    interval = "Wilson, combined" + (", over clusters" if len(np.unique(units)) < len(units) else "")
    found: dict[str, dict[str, Estimate]] = {name: {} for name in names}
    differences, apart = {}, {}
    for rate, asked, counted in (
        ("tpr", label == 1, called),
        ("fpr", label == 0, called),
        ("ppv", called, label == 1),
        ("selection_rate", label >= 0, called),
    ):
        mine = sides & asked[:, None]
        whole, lost = (mine & known).astype(np.float64), (mine & ~known).sum(axis=0).tolist()
        part = whole * counted[:, None]
        for place, name in enumerate(names):
            alone = ShareSum(part[:, [place]], whole[:, [place]], (1.0,), None, clusters)
            found[name][rate] = of_shares(alone, confidence, lost[place], interval=interval)
        apart[rate] = ShareSum(part, whole, (1.0, -1.0), units)  # a subject is of one group: its rows are one unit
        differences[DIFFERENCES[rate]] = of_shares(apart[rate], confidence, sum(lost), interval=interval, tested=True)
    if scores is not None:
        score = np.asarray(scores, dtype=np.float64)
        if score.shape != label.shape or ((score < 0) | (score > 1)).any():
            raise ValueError(f"scores of shape {score.shape}, {len(label)} labels: expected one from 0 to 1 per row.")
        graded: dict[str, list[_Graded]] = {"auroc": [], "calibration_slope": []}
        for name, side in zip(names, sides.T, strict=True):
            used, lost = side & ~np.isnan(score), int((side & np.isnan(score)).sum())
            rows = score[used], label[used] == 1, np.unique(units[used], return_inverse=True)[1]
            for measure, graded_by in (("auroc", _auroc), ("calibration_slope", _slope)):
                graded[measure].append(graded_by(*rows, lost))
                found[name][measure] = graded[measure][-1].estimate(confidence)
            found[name]["ece"] = _ece(*rows, lost, draw)
        differences |= {DIFFERENCES[name]: _difference(both, confidence) for name, both in graded.items()}
    return Performance(found, differences, _equalised(apart["tpr"], apart["fpr"], confidence))


def _equalised(tpr: ShareSum, fpr: ShareSum, confidence: float) -> Estimate:
    """The larger absolute difference, with ends that hold for both at once."""
    n, value = int((tpr.whole + fpr.whole).any(axis=1).sum()), float(np.abs([tpr.value, fpr.value]).max())
    ends = np.array([one.interval((1 + confidence) / 2) for one in (tpr, fpr)])
    if np.isnan(ends).any():
        return Estimate(value, n=n, test="none", interval="none")
    low, high = max(0.0, ends[:, 0].max(), -ends[:, 1].min()), min(1.0, np.abs(ends).max())
    return Estimate(
        value, float(low), float(high), p_value=min(1.0, 2 * min(tpr.p_value(), fpr.p_value())), n=n,
        test="either rate, Bonferroni", interval="of both rates, Bonferroni",
    )  # fmt: skip


# --- scores -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Graded:
    """A quantity of one group's scores and the end of its interval at a t quantile, below (-1) or above (1)."""

    value: float
    n: int
    lost: int
    interval: str = "none"
    freedom: float = math.nan
    end: Callable[[float, float], float] = lambda quantile, side: math.nan
    error: float = math.nan

    def estimate(self, confidence: float) -> Estimate:
        quantile = t_quantile(0.5 + confidence / 2, self.freedom)
        ends = self.end(quantile, -1.0), self.end(quantile, 1.0)
        return Estimate(self.value, *ends, n=self.n, n_unscored=self.lost, test="none", interval=self.interval)


def _difference(sides: Sequence[_Graded], confidence: float) -> Estimate:
    """The difference of a quantity of two groups of subjects, with an interval made of both (MOVER)."""
    other, reference = sides
    value, n, lost = other.value - reference.value, other.n + reference.n, other.lost + reference.lost
    freedom, errors = min(other.freedom, reference.freedom), np.array([other.error, reference.error]) ** 2
    if math.isnan(value + other.freedom + reference.freedom):
        return Estimate(value, n=n, n_unscored=lost, test="none", interval="none")
    if errors.sum() > 0:  # of t intervals Welch's
        freedom = float(errors.sum() ** 2 / (errors**2 / [other.freedom, reference.freedom]).sum())

    def end(quantile: float, side: float) -> float:
        first = other.end(quantile, side) - other.value
        second = reference.end(quantile, -side) - reference.value
        return value + side * math.hypot(first, second)

    quantile, p_value, towards = t_quantile(0.5 + confidence / 2, freedom), 1.0, -math.copysign(1.0, value)
    if value:
        p_value = 0.0
        if end(_FARTHEST, towards) * value <= 0:
            reached = scipy.optimize.brentq(lambda q: end(q, towards) * value, 0.0, _FARTHEST)
            p_value = 2 * t_above(reached, freedom)
    return Estimate(
        value, end(quantile, -1.0), end(quantile, 1.0), p_value=p_value, n=n, n_unscored=lost,
        test="that of the interval", interval=f"{'combined' if math.isnan(other.error) else 't'}: {other.interval}",
    )  # fmt: skip


def _auroc(score: Floats, positive: Marks, codes: Codes, lost: int) -> _Graded:
    """The chance that a positive row scores above a negative one, ties counting half."""
    count = int(positive.sum()), int((~positive).sum())
    if min(count) == 0:
        return _Graded(math.nan, len(score), lost)
    value, influence = auroc_parts(score, positive)
    effect, limit = design_effect(influence, codes)
    if math.isnan(effect):
        return _Graded(value, len(score), lost)
    sizes = count[0] / effect, count[1] / effect
    return _Graded(
        value, len(score), lost, "Newcombe's score interval" + ("" if math.isinf(limit) else ", over clusters"),
        min(limit, max(min(sizes) - 1, 1.0)), lambda quantile, side: _newcombe(value, sizes, quantile, side),
    )  # fmt: skip


def auroc_parts(score: Floats, positive: Marks) -> tuple[float, Floats]:
    """The area, and what each row adds to it less its expectation (DeLong's components over their number)."""
    above, below = np.sort(score[positive]), np.sort(score[~positive])
    won = (np.searchsorted(below, score, "left") + np.searchsorted(below, score, "right")) / (2 * len(below))
    lost = 1 - (np.searchsorted(above, score, "left") + np.searchsorted(above, score, "right")) / (2 * len(above))
    value = float(won[positive].mean())
    return value, np.where(positive, (won - value) / len(above), (lost - value) / len(below))


def _newcombe(value: float, sizes: tuple[float, float], quantile: float, side: float) -> float:
    """The area from which the observed one lies so many standard errors of that area."""
    more = max(sum(sizes) / 2 - 1, 0.0)

    def away(area: float) -> float:
        variance = area * (1 - area) * (1 + more * ((1 - area) / (2 - area) + area / (1 + area)))
        return side * (area - value) - quantile * math.sqrt(max(variance, 0.0) / (sizes[0] * sizes[1]))

    edge, start = (1.0, value + _NEAREST) if side > 0 else (0.0, value - _NEAREST)  # an area of 1 has no error itself
    if not 0 < start < 1 or away(edge) <= 0:
        return edge
    return float(scipy.optimize.brentq(away, start, edge)) if away(start) < 0 else value


def _slope(score: Floats, positive: Marks, codes: Codes, lost: int) -> _Graded:
    """The slope of a logistic regression of the labels on the log-odds that the scores give (Cox 1958)."""
    fewest = min(len(np.unique(codes[chosen])) for chosen in (positive, ~positive))
    logit = scipy.special.logit(np.clip(score, _LOGIT, 1 - _LOGIT))
    weights = None
    if fewest >= _FEWEST and np.ptp(logit) > 0:
        weights = _logistic(design := np.column_stack([np.ones(len(score)), logit]), positive.astype(np.float64))
    if weights is None:
        return _Graded(math.nan, len(score), lost)
    value, error = float(weights[1]), _jackknife_error(design, scipy.special.expit(design @ weights), positive, codes)
    return _Graded(
        value, len(score), lost, "t, jackknifed over clusters", fewest - 1.0,
        lambda quantile, side: value + side * quantile * error, error,
    )  # fmt: skip


def _logistic(design: Floats, truth: Floats) -> Floats | None:
    """Weights by Newton's method; None where a line separates the labels without error."""
    weights: Floats = np.zeros(design.shape[1])
    for _ in range(50):
        fitted = scipy.special.expit(design @ weights)
        bend = (design * (fitted * (1 - fitted))[:, None]).T @ design
        if np.linalg.cond(bend) > 1e12:
            return None
        step = np.linalg.solve(bend, design.T @ (truth - fitted))
        weights = weights + step * min(1.0, 5 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-9:
            return weights
    return None


def _jackknife_error(design: Floats, fitted: Floats, positive: Marks, codes: Codes) -> float:
    """Standard error of the second weight, from leaving out each cluster in turn (CR3)."""
    count = int(codes.max()) + 1
    pulls, parts = np.zeros((count, 2)), np.zeros((count, 2, 2))
    np.add.at(pulls, codes, design * (positive - fitted)[:, None])
    np.add.at(parts, codes, (fitted * (1 - fitted))[:, None, None] * design[:, :, None] * design[:, None, :])
    bread = np.linalg.inv(parts.sum(axis=0))
    moved = np.linalg.solve(np.eye(2) - parts @ bread, pulls[:, :, None])[:, :, 0] @ bread
    return float(math.sqrt((count - 1) / count * (moved[:, 1] ** 2).sum()))


def _ece(score: Floats, positive: Marks, codes: Codes, lost: int, draw: Draw) -> Estimate:
    """Expected calibration error: the distance of mean score and share of positives of a bin, over the rows of bins.

    The errors of bins add up however they fall: a calibrated model of few rows has one too. The interval is as
    wide as such errors: 95 % of the sums of distances by which bins would move had other clusters been drawn.
    """
    if not len(score):
        return Estimate(math.nan, n_unscored=lost, test="none", interval="none")
    parts = np.zeros((int(codes.max()) + 1, _BINS))
    bins = np.minimum((score * _BINS).astype(int), _BINS - 1)
    np.add.at(parts, (codes, bins), (positive - score) / len(score))
    value, count = float(np.abs(parts.sum(axis=0)).sum()), len(parts)
    if count < 2:
        return Estimate(value, n=len(score), n_unscored=lost, test="none", interval="none")
    centred = (parts - parts.mean(axis=0)) * math.sqrt(count / (count - 1))
    rng, block = np.random.default_rng(draw.seed), max(1, _CELLS // count)
    sizes = [min(block, draw.n_resamples - start) for start in range(0, draw.n_resamples, block)]
    moved = np.concatenate([np.abs(rng.standard_normal((size, count)) @ centred).sum(axis=1) for size in sizes])
    reach = float(np.quantile(moved, draw.confidence))
    return Estimate(
        value, max(0.0, value - reach), min(1.0, value + reach), n=len(score), n_unscored=lost, test="none",
        interval="what chance moves bins by",
    )  # fmt: skip
