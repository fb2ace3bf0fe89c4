"""How well a classifier does for each of two groups, by what is true of them: rates, ranking, calibration.

Rows are notes as they were written, each of the group that it is really of, so that groups differ in more than a
swapped word, and one may be harder to classify. Flips of versions of one note are in ``rates``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.estimate import ClusterIds, Estimate, Floats, two_groups
from swapbias.measures.rates import Quantity, blocks, dependence, design_effect, labelled, share_sum

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
_NEAREST = 1e-9  # an end lies no nearer
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
    answers: ArrayLike, labels: ArrayLike, groups: Sequence[str], *, reference_group: str,
    scores: ArrayLike | None = None, cluster_ids: ClusterIds = None, confidence: float = 0.95, seed: int = 0,
    n_resamples: int = 999,
) -> Performance:  # fmt: skip
    """Rates, ranking and calibration of a classifier in two groups, and their differences.

    Rates have the interval of ``share_sum``; AUROC has Newcombe's score interval (2006, method 5) with as many rows
    as the variance over clusters is worth (Obuchowski 1997), differences combine both (MOVER); slopes have t
    intervals with a jackknifed variance over clusters. Equalised odds has an interval and a p-value that hold for
    both rates at once (Bonferroni). The interval of an ECE ends at 0 where the error may be chance.

    Args:
        answers, labels: shape (rows,), 1 or 0; rows whose answer is NaN are left out and counted.
        groups, reference_group: as in ``paired_gap``.
        scores: shape (rows,), probabilities of label 1, 0 to 1, NaN where there is none; None: labels alone.
        cluster_ids: shape (rows,), subjects, whose rows are not independent; None: each row is one.
        seed, n_resamples: of the interval of an ECE.

    Returns:
        Slopes are NaN below ten clusters of a label, or where scores separate the labels without error.

    >>> found = performance([1, 1, 0, 0], [1, 1, 1, 0], ["f", "f", "m", "m"], reference_group="m")
    >>> found.differences["equal_opportunity_difference"].value, found.groups["f"]["ppv"].value
    (1.0, 1.0)
    """
    answer, label = labelled(answers, labels)
    _, side, names = two_groups(answer, groups, reference_group)
    clusters = dependence(len(answer), None, cluster_ids)[1]
    units = np.arange(len(answer)) if clusters is None else clusters
    sides = side[:, None] == [0, 1]
    called, known = answer == 1, ~np.isnan(answer)[:, None]
    interval = "Wilson, combined" + (", over clusters" if len(np.unique(units)) < len(units) else "")
    found: dict[str, dict[str, Estimate]] = {name: {} for name in names}
    gaps: dict[str, Quantity] = {}
    for rate, base, counted in (
        ("tpr", label == 1, called),
        ("fpr", label == 0, called),
        ("ppv", called, label == 1),
        ("selection_rate", label >= 0, called),
    ):
        mine = sides & base[:, None]
        whole, unscored = mine & known, (mine & ~known).sum(axis=0).tolist()
        part = whole & counted[:, None]
        for at, name in enumerate(names):
            own = part[:, [at]], whole[:, [at]], (1.0,), None, clusters
            found[name][rate] = share_sum(*own, n_unscored=unscored[at], interval=interval).estimate(confidence)
        # A subject is of one group: its rows are one unit.
        gaps[rate] = share_sum(part, whole, (1.0, -1.0), units, None, n_unscored=sum(unscored), interval=interval)
    if scores is not None:
        score = np.asarray(scores, dtype=np.float64)
        if score.shape != label.shape or ((score < 0) | (score > 1)).any():
            raise ValueError(f"scores of shape {score.shape}, {len(label)} labels: expected one from 0 to 1 per row.")
        graded = []
        for at, name in enumerate(names):
            used, unscored = sides[:, at] & ~np.isnan(score), int((sides[:, at] & np.isnan(score)).sum())
            rows = score[used], label[used] == 1, np.unique(units[used], return_inverse=True)[1]
            graded.append({"auroc": _auroc(*rows, unscored), "calibration_slope": _slope(*rows, unscored)})
            found[name] |= {measure: one.estimate(confidence) for measure, one in graded[at].items()}
            found[name]["ece"] = _ece(*rows, unscored, confidence, seed, n_resamples)
        gaps |= {measure: _difference(graded[0][measure], graded[1][measure]) for measure in graded[0]}
    differences = {
        DIFFERENCES[name]: one.estimate(confidence, tested=one.interval != "none") for name, one in gaps.items()
    }
    return Performance(found, differences, _equalised(gaps["tpr"], gaps["fpr"], confidence))


def _equalised(tpr: Quantity, fpr: Quantity, confidence: float) -> Estimate:
    """The larger absolute difference, with ends that hold for both at once."""
    n, value = tpr.n + fpr.n, float(np.abs([tpr.value, fpr.value]).max())
    ends = np.array([one.ends((1 + confidence) / 2) for one in (tpr, fpr)])
    if np.isnan(ends).any():
        return Estimate(value, n=n, test="none", interval="none")
    low, high = max(0.0, ends[:, 0].max(), -ends[:, 1].min()), min(1.0, np.abs(ends).max())
    return Estimate(
        value, float(low), float(high), p_value=min(1.0, 2 * min(tpr.p_value(), fpr.p_value())), n=n,
        test="either rate, Bonferroni", interval="of both rates, Bonferroni",
    )  # fmt: skip


def _difference(other: Quantity, reference: Quantity) -> Quantity:
    """The difference of a quantity of two groups of subjects, with an interval made of both (MOVER)."""
    value, counts = other.value - reference.value, (other.n + reference.n, other.n_unscored + reference.n_unscored)
    freedoms, squares = np.array([other.freedom, reference.freedom]), np.array([other.error, reference.error]) ** 2
    if np.isnan([value, *freedoms]).any():
        return Quantity(value, *counts)
    freedom, name = float(freedoms.min()), f"combined: {other.interval}"
    if squares.sum() > 0:  # of t intervals Welch's
        freedom, name = float(squares.sum() ** 2 / (squares**2 / freedoms).sum()), f"t: {other.interval}"

    def end(quantile: float, side: float) -> float:
        first = other.end(quantile, side) - other.value
        return value + side * math.hypot(first, reference.end(quantile, -side) - reference.value)

    return Quantity(value, *counts, name, freedom, end)


def _auroc(score: Floats, positive: Marks, codes: Codes, unscored: int) -> Quantity:
    """The chance that a positive row scores above a negative one, ties counting half."""
    counts = int(positive.sum()), int((~positive).sum())
    if min(counts) == 0:
        return Quantity(math.nan, len(score), unscored)
    value, influence = auroc_parts(score, positive)
    effect, limit = design_effect(influence, codes)
    if math.isnan(effect):
        return Quantity(value, len(score), unscored)
    sizes = counts[0] / effect, counts[1] / effect
    name = "Newcombe's score interval" + ("" if math.isinf(limit) else ", over clusters")
    freedom, more = min(limit, max(min(sizes) - 1, 1.0)), max(sum(sizes) / 2 - 1, 0.0)

    def end(quantile: float, side: float) -> float:
        """The area from which the observed one lies so many standard errors of that area."""

        def away(area: float) -> float:
            variance = area * (1 - area) * (1 + more * ((1 - area) / (2 - area) + area / (1 + area)))
            return side * (area - value) - quantile * math.sqrt(max(variance, 0.0) / (sizes[0] * sizes[1]))

        # An area of 1 has no error itself.
        edge, start = (1.0, value + _NEAREST) if side > 0 else (0.0, value - _NEAREST)
        if not 0 < start < 1 or away(edge) <= 0:
            return edge
        return float(scipy.optimize.brentq(away, start, edge)) if away(start) < 0 else value

    return Quantity(value, len(score), unscored, name, freedom, end)


def auroc_parts(score: Floats, positive: Marks) -> tuple[float, Floats]:
    """The area, and what each row adds to it less its expectation (DeLong's components over their number)."""
    above, below = np.sort(score[positive]), np.sort(score[~positive])
    won, lost = (
        (np.searchsorted(side, score, "left") + np.searchsorted(side, score, "right")) / (2 * len(side))
        for side in (below, above)
    )
    value = float(won[positive].mean())
    return value, np.where(positive, (won - value) / len(above), (1 - lost - value) / len(below))


def _slope(score: Floats, positive: Marks, codes: Codes, unscored: int) -> Quantity:
    """The slope of a logistic regression of the labels on the log-odds that the scores give (Cox 1958)."""
    fewest = min(len(np.unique(codes[chosen])) for chosen in (positive, ~positive))
    logit = scipy.special.logit(np.clip(score, _LOGIT, 1 - _LOGIT))
    design = np.column_stack([np.ones(len(score)), logit])
    weights = _logistic(design, positive) if fewest >= _FEWEST and np.ptp(logit) > 0 else None
    if weights is None:
        return Quantity(math.nan, len(score), unscored)
    # Standard error of the slope from leaving out each cluster in turn (CR3).
    fitted, count = scipy.special.expit(design @ weights), int(codes.max()) + 1
    pulls, parts = np.zeros((count, 2)), np.zeros((count, 2, 2))
    np.add.at(pulls, codes, design * (positive - fitted)[:, None])
    np.add.at(parts, codes, (fitted * (1 - fitted))[:, None, None] * design[:, :, None] * design[:, None, :])
    bread = np.linalg.inv(parts.sum(axis=0))
    moved = np.linalg.solve(np.eye(2) - parts @ bread, pulls[:, :, None])[:, :, 0] @ bread
    value, error = float(weights[1]), math.sqrt((count - 1) / count * (moved[:, 1] ** 2).sum())
    return Quantity(
        value, len(score), unscored, "t, jackknifed over clusters", fewest - 1.0,
        lambda quantile, side: value + side * quantile * error, error,
    )  # fmt: skip


def _logistic(design: Floats, truth: Marks) -> Floats | None:
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


def _ece(
    score: Floats, positive: Marks, codes: Codes, unscored: int, confidence: float, seed: int, n_resamples: int
) -> Estimate:
    """Expected calibration error: the distance of mean score and share of positives of a bin, over the rows of bins.

    The errors of bins add up however they fall: a calibrated model of few rows has one too. The interval is as wide
    as such errors: a quantile of the distances by which bins would move had other clusters been drawn.
    """
    parts = np.zeros((int(codes.max(initial=0)) + 1, _BINS))
    bins = np.minimum((score * _BINS).astype(int), _BINS - 1)
    np.add.at(parts, (codes, bins), (positive - score) / max(len(score), 1))
    value, count = float(np.abs(parts.sum(axis=0)).sum()) if len(score) else math.nan, len(parts)
    found = Estimate(value, n=len(score), n_unscored=unscored, test="none", interval="none")
    if count < 2:
        return found
    centred, rng = (parts - parts.mean(axis=0)) * math.sqrt(count / (count - 1)), np.random.default_rng(seed)
    drawn = (rng.standard_normal((size, count)) @ centred for size in blocks(n_resamples, count))
    reach = float(np.quantile(np.concatenate([np.abs(one).sum(axis=1) for one in drawn]), confidence))
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    return replace(found, ci_low=low, ci_high=high, interval="what chance moves bins by")
