"""Shares of rows and what is made of them: flips, rates of classifiers, recall, agreement of two readings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.errors import UsageError
from swapbias.measures.contrast import t_above, t_reach
from swapbias.measures.estimate import ClusterIds, Estimate, Floats, by_pair, factor_codes, known_ids, two_groups

Ids = Sequence[str] | None
Codes = NDArray[np.intp] | None
_CELLS = 4_000_000  # weights, or means of resamples, in memory at once: 32 MB
_TIE = 1e-12  # differences that cancel to this share of their size cancel but for rounding
_ROUNDING = 1e-9  # a mean of ones may lie this far below one
_FEWEST = 20  # clusters of which kappa has a percentile interval
_TWO_SIDED = 1.5  # by simulation: what units add to a difference leans both ways, and needs less caution
_NEAREST, _FARTHEST = 1e-9, 1e3  # standard errors: no end is sought nearer or farther


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with the end of its interval at any t quantile, below (side -1) or above (1) it.

    No interval where ``freedom`` is NaN; ``interval`` is its name, ``error`` the standard error of a t interval.
    """

    value: float
    n: int
    n_unscored: int
    interval: str = "none"
    freedom: float = math.nan
    end: Callable[[float, float], float] = lambda quantile, side: math.nan
    error: float = math.nan

    def ends(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval with this coverage."""
        quantile = t_reach(confidence, self.freedom)
        return self.end(quantile, -1.0), self.end(quantile, 1.0)

    def p_value(self) -> float:
        """Two-sided p for "the value is 0": one less the coverage that just reaches 0."""
        if math.isnan(self.value + self.freedom):
            return math.nan
        if abs(self.value) <= _TIE:
            return 1.0

        def beyond(quantile: float) -> float:
            return self.end(quantile, -math.copysign(1.0, self.value)) * self.value

        if beyond(_FARTHEST) > 0:
            return 0.0
        return 2 * t_above(scipy.optimize.brentq(beyond, _NEAREST, _FARTHEST), self.freedom)

    def estimate(self, confidence: float, *, tested: bool = False) -> Estimate:
        """The value with its interval, and with the p-value that goes with it."""
        return Estimate(
            self.value, *self.ends(confidence), p_value=self.p_value() if tested else math.nan, n=self.n,
            n_unscored=self.n_unscored, test="that of the interval" if tested else "none", interval=self.interval,
        )  # fmt: skip


def share_sum(
    counted: NDArray[Any], rows: NDArray[Any], weights: Sequence[float], units: Codes, clusters: Codes, *,
    scale: Callable[[Floats], Floats] = np.asarray, n_unscored: int = 0, interval: str = "",
) -> Quantity:  # fmt: skip
    """A weighted sum of shares of rows, on a scale: a flip rate, a difference of rates, a mean of recalls.

    Its interval is made of the shares' Wilson intervals (MOVER: Newcombe 1998; Zou and Donner 2008), so that it holds
    where shares are 0 or 1 and no resample would vary. Rows of one unit (both versions of a note) are dependent: the
    correlation of the shares over units goes in, drawn towards 0 by Newcombe's correction where it narrows the
    interval. Rows of clusters count as fewer: by ``design_effect``, with a t quantile.

    Args:
        counted, rows: shape (rows, shares), 1 where a row is counted in a share, and where it is in its denominator.
        units: shape (rows,), from 0; None: each row is one.
        clusters: shape (rows,), of whole units; None: each unit is one.
        scale: increasing, of the shares, before they are weighed.

    Returns:
        NaN where a share is, or its place on the scale has no end; no interval where all rows are of one cluster.
    """
    part, whole, weight = np.asarray(counted, np.float64), np.asarray(rows, np.float64), np.array(weights)
    counts, used, shares = whole.sum(axis=0), whole.any(axis=1), _shares(part, whole)
    with np.errstate(divide="ignore"):
        placed = scale(shares)
    name = interval or "Wilson, combined" + ("" if clusters is None else ", over clusters")
    found = Quantity(
        float(placed @ weight) if np.isfinite(placed).all() else math.nan, int(used.sum()), n_unscored, name
    )
    if math.isnan(found.value):
        return found
    # What clusters share cancels in a difference of versions and adds up in a mean: there they are the units.
    paired = min(weights) < 0
    own = np.arange(len(whole)) if units is None else units
    own = own if paired or clusters is None else clusters
    influence, sizes, freedom = (part - shares * whole) / counts, np.empty(len(shares)), math.inf
    for share, within in enumerate(whole.T > 0):
        effect, limit = design_effect(influence[within, share], np.unique(own[within], return_inverse=True)[1])
        alone = math.isnan(effect)
        if alone and own is clusters:
            return found
        sizes[share] = 1.0 if alone else counts[share] / effect  # the rows of one note are worth one row
        freedom = freedom if alone else min(freedom, limit)
    first, places = np.unique(own[used], return_index=True, return_inverse=True)[1:]
    by_unit = np.zeros((len(first), len(shares)))
    np.add.at(by_unit, places, influence[used])
    if paired and clusters is not None:
        codes = np.unique(clusters[used][first], return_inverse=True)[1]
        effect, limit = design_effect(by_unit @ weight, codes, trust=_TWO_SIDED)
        if math.isnan(effect):
            return found
        sizes, freedom = sizes / effect, min(freedom, limit)
    correlations = _correlations(by_unit, shares, sizes, weight)

    def end(quantile: float, side: float) -> float:
        low, high = _wilson_ends(shares, sizes, quantile)
        with np.errstate(divide="ignore"):
            away = weight * np.abs(scale(np.where(side * weight > 0, high, low)) - placed)
        return found.value + side * math.sqrt(max(float(away @ correlations @ away), 0.0))

    return replace(found, freedom=freedom, end=end)


def design_effect(influence: Floats, codes: NDArray[np.intp], *, trust: float = 1.0) -> tuple[float, float]:
    """How many times its variance over units a sum has over clusters of units, and the degrees of freedom of that.

    At least 1. Where nearly all units are alike (few flips, no error) clusters cannot show how alike their units are:
    the fewer of them hold a unit that differs from the commonest, the nearer it comes to what copies would give;
    ``trust`` is a power of their number. ``influence`` is what each unit adds to the estimate, less its expectation.
    1 and infinity where each unit is its own cluster; NaN with a single cluster of several units.
    """
    sizes = np.bincount(codes)
    units, largest = len(codes), int(sizes.max(initial=0))
    if largest <= 1:
        return 1.0, math.inf
    if largest == units:
        return math.nan, math.nan
    copies = float((sizes**2).sum()) / units
    sums = np.bincount(codes, weights=influence)
    plain = float(influence @ influence)
    # Each cluster pulls the estimate towards itself by its share: without the divisor large ones look too calm.
    effect = float((sums**2 / (1 - sizes / units)).sum()) / plain if plain > 0 else 1.0
    _, kind, times = np.unique(np.round(influence * units, 9), return_inverse=True, return_counts=True)
    unlike = len(np.unique(codes[kind != times.argmax()]))
    return max(1.0, effect, 1 + (copies - 1) / (1 + unlike**trust)), max(units / copies - 1, 1.0)


def _wilson_ends(shares: Floats, units: Floats, quantile: float) -> tuple[Floats, Floats]:
    """Wilson's interval of shares of so many (effective) units; it holds at shares of 0 and 1."""
    square = quantile**2 / units
    half = np.sqrt(square * (shares * (1 - shares) + square / 4))
    # Of (centre - half) / (1 + square), free of cancellation.
    low = shares**2 / (shares + square / 2 + half)
    return np.asarray(low), np.asarray(1 - (1 - shares) ** 2 / (1 - shares + square / 2 + half))


def _correlations(by_unit: Floats, shares: Floats, sizes: Floats, weights: Floats) -> Floats:
    """Correlation of the shares over units, (shares, shares), of what narrows the interval less than observed."""
    lengths = np.sqrt((by_unit**2).sum(axis=0))
    observed = _divide(by_unit.T @ by_unit, np.outer(lengths, lengths), 0.0)
    spread = np.sqrt(shares * (1 - shares) * sizes)
    less = np.maximum(np.abs(observed) - _divide(np.ones(observed.shape), 2 * np.outer(spread, spread), 1.0), 0)
    found = np.where(np.outer(weights, weights) * observed < 0, np.sign(observed) * less, observed)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _shares(part: Floats, whole: Floats) -> Floats:
    return _divide(part.sum(axis=0), whole.sum(axis=0))


def _divide(part: Floats, whole: Floats, otherwise: float = math.nan) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, otherwise), where=whole > 0))


def _bootstrap(
    counts: Floats, codes: Codes, statistic: Callable[[Floats], Floats], unit: str,
    *, n_resamples: int, seed: int, confidence: float = 0.95,
) -> Estimate:  # fmt: skip
    """A statistic of summed counts, (resamples, counts), with its percentile interval, units (by name) resampled.

    Units of equal counts are interchangeable, so the draw is over distinct counts; a unit of zeros is not drawn.
    Undefined resamples are dropped and counted in the name. Where all resamples agree, or none is defined: no ends.
    """
    value, n = float(statistic(counts.sum(axis=0)[None])[0]), int(counts.any(axis=1).sum())
    found = Estimate(value, n=n, test="none", interval=f"bootstrap over {unit} percentile")
    if codes is not None:
        rows, counts = counts, np.zeros((int(codes.max(initial=-1)) + 1, counts.shape[1]))
        np.add.at(counts, codes, rows)
    patterns, times = np.unique(counts[counts.any(axis=1)], axis=0, return_counts=True)
    if not len(patterns):
        return found
    units, rng = int(times.sum()), np.random.default_rng(seed)
    sizes = blocks(n_resamples, len(patterns))
    drawn = np.concatenate([statistic(rng.multinomial(units, times / units, size=size) @ patterns) for size in sizes])
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < len(drawn):
        found = replace(found, interval=f"{found.interval} ({len(drawn) - len(defined)} of {len(drawn)} undefined)")
    if not len(defined) or defined.min() == defined.max():
        return found
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return replace(found, ci_low=float(low), ci_high=float(high))


def blocks(resamples: int, columns: int) -> list[int]:
    """How many resamples are drawn at a time, where each has so many numbers."""
    block = max(1, _CELLS // columns)
    return [min(block, resamples - start) for start in range(0, resamples, block)]


def share_above(scores: ArrayLike, *, threshold: float = 0.5, confidence: float = 0.95) -> Estimate:
    """Share of scores strictly above a threshold, 0 to 1, with Wilson's interval; nothing is tested.

    ``value * n`` is the count. No scored row: NaN. Nothing lies above the range of a share, so a threshold of 1 or
    more counts what reaches it.
    """
    if math.isnan(threshold):
        raise ValueError("threshold is nan, expected a number. Give one, such as 0.5.")
    score = np.asarray(scores, dtype=np.float64)
    used = score[~np.isnan(score)]
    above = used >= threshold - _ROUNDING if threshold >= 1 else used > threshold
    return _share(above, None, "Wilson", len(score) - len(used)).estimate(confidence)


def share_right(right: Sequence[bool], cluster_ids: Sequence[str], *, confidence: float = 0.95) -> Estimate:
    """Share of units that are right, 0 to 1, with Wilson's interval over clusters; NaN without a unit.

    Units of a cluster (the words of a note) are dependent: they count as fewer.
    """
    clusters = np.unique(np.asarray(cluster_ids), return_inverse=True)[1]
    return _share(np.asarray(right, dtype=bool), clusters, "Wilson, clustered").estimate(confidence)


def agreement_share(first: Sequence[str], second: Sequence[str], *, cluster_ids: Sequence[str]) -> Estimate:
    """Share of answers with the same class in both readings: 0 (none) to 1 (all); nothing is tested.

    A reading that is "" leaves its answer out. Answers of one cluster (about one story) are not independent: the
    interval is Wilson's on the effective number of answers.
    """
    one, other, codes = _readings(first, second, cluster_ids)
    interval = "Wilson, over clusters" if len(one) else "none"
    return _share(one == other, codes, interval, len(first) - len(one)).estimate(0.95)


def _share(counted: NDArray[np.bool_], clusters: Codes, interval: str, n_unscored: int = 0) -> Quantity:
    part = counted[:, None]
    return share_sum(part, np.ones_like(part), (1.0,), None, clusters, interval=interval, n_unscored=n_unscored)


def _readings(first: Sequence[str], second: Sequence[str], clusters: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Classes of the answers with both readings, and the clusters of these as numbers from 0."""
    if not len(first) == len(second) == len(clusters):
        raise ValueError(
            f"{len(first)} and {len(second)} readings, {len(clusters)} cluster_ids: expected one of each per answer."
        )
    one, other = np.asarray(first, dtype=np.str_), np.asarray(second, dtype=np.str_)
    known = (one != "") & (other != "")
    return one[known], other[known], np.unique(np.asarray(clusters)[known], return_inverse=True)[1]


def kappa(first: Sequence[str], second: Sequence[str], *, cluster_ids: Sequence[str], seed: int = 0) -> Estimate:
    """Cohen's kappa: agreement beyond what classes of these frequencies agree by chance (Cohen 1960).

    1: always alike; 0: no more than by chance; below 0: less. NaN where both readings give one and the same class to
    every answer. Arguments as in ``agreement_share``; the percentile interval resamples clusters, from 20 on.
    """
    one, other, codes = _readings(first, second, cluster_ids)
    classes = np.unique(np.concatenate([one, other]))
    size = max(1, len(classes))

    def statistic(sums: Floats) -> Floats:
        table = sums.reshape(-1, size, size)
        total = table.sum(axis=(1, 2))
        chance = _divide((table.sum(axis=2) * table.sum(axis=1)).sum(axis=1), total**2)
        return _divide(_divide(np.trace(table, axis1=1, axis2=2), total) - chance, 1 - chance)

    cells = np.eye(size * size)[np.searchsorted(classes, one) * size + np.searchsorted(classes, other)]
    found = _bootstrap(cells, codes, statistic, "clusters", seed=seed, n_resamples=9_999)
    if len(np.unique(codes)) < _FEWEST:
        name = f"none: fewer than {_FEWEST} clusters"
        found = replace(found, ci_low=math.nan, ci_high=math.nan, interval=name)
    return replace(found, n_unscored=len(first) - len(one))


@dataclass(frozen=True, slots=True)
class Flips:
    """How often swapping changes the prediction: share of pairs, 0 (none) to 1 (all), and its direction."""

    estimate: Estimate
    more: int  # pairs where only the other group's version is positive
    fewer: int  # pairs where only the reference group's version is positive
    higher_group: str  # with more positives, or with the higher mean score where they tie; "" for a tie


@dataclass(frozen=True, slots=True)
class RateRatio:
    """How two groups' rates differ; ``n`` counts rows.

    The published ratio is biased: of equal rates the smaller is always on top, so that its mean is below 1 (.72 for
    rates of .05 in 200 rows each).
    """

    difference: Estimate  # the other group's rate minus the reference group's, -1 to 1; 0: equal
    log_ratio: Estimate  # natural log of the other group's rate over the reference group's; NaN where one is 0
    estimate: Estimate  # as published: smaller over larger, 0 (one group gets none) to 1 (equal)
    rates: dict[str, float]  # of each group, 0 to 1; NaN for a group without a row of the label
    higher_group: str  # with the larger rate; "" where they are equal or undefined


def flip_rate(
    answers: ArrayLike, groups: Sequence[str], pair_ids: Sequence[str], *, reference_group: str,
    scores: ArrayLike | None = None, cluster_ids: ClusterIds = None, confidence: float = 0.95, seed: int = 0,
) -> Flips:  # fmt: skip
    """Mismatch ratio: share of pairs whose two versions get different predictions, with Wilson's interval.

    The p-value is that of "as many flip one way as the other": exact McNemar's test.

    Args:
        answers: shape (rows,), 1 or 0; NaN where there is no prediction, which leaves the pair out.
        groups, pair_ids: as in ``paired_gap``.
        reference_group: swapping it swaps ``more`` and ``fewer``; the value stays.
        scores: shape (rows,), probabilities; they decide the direction where both groups get as many positives.
        cluster_ids: shape (rows,); pairs of one cluster (a subject's notes) are not independent. The interval is then
            Wilson's on the effective number of pairs, and the test flips the versions of whole clusters.
        seed: of the test with clusters, exact where all ways to flip them fit in 9,999.

    Returns:
        No pair: NaN. No discordant pair: the p-value is NaN. One cluster: interval and p-value are NaN.

    >>> found = flip_rate([1, 0, 1, 1], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
    >>> found.estimate.value, found.more, found.higher_group
    (0.5, 1, 'f')
    """
    answer, sides, names = two_groups(_binary(answers, "answers"), groups, reference_group)
    table, first = by_pair(answer, sides, pair_ids, names)
    complete = ~np.isnan(table).any(axis=1)
    clusters = dependence(len(answer), pair_ids, cluster_ids)[1]
    difference = table[complete, 0] - table[complete, 1]
    more, fewer = int((difference > 0).sum()), int((difference < 0).sum())
    p_value, test, interval, codes = mcnemar_p(more, fewer), "exact McNemar", "Wilson", None
    if clusters is not None:
        codes = clusters[first[complete]]
        p_value = _sign_flip_p(np.bincount(codes, weights=difference).astype(np.float64), seed)
        test, interval = "sign-flip permutation of clusters", "Wilson on effective pairs"
    found = _share(difference != 0, codes, interval, int((~complete).sum())).estimate(confidence)
    balance: float = more - fewer
    if not balance and scores is not None:
        score = np.asarray(scores, dtype=np.float64)
        if score.shape != answer.shape:
            raise ValueError(f"scores of shape {score.shape}, {len(answer)} answers: expected one of each per row.")
        both = by_pair(score, sides, pair_ids, names)[0][complete]
        gaps = (both[:, 0] - both[:, 1])[~np.isnan(both).any(axis=1)]
        balance = float(gaps.sum()) if abs(gaps.sum()) > _TIE * np.abs(gaps).sum() else 0.0
    return Flips(replace(found, p_value=p_value, test=test), more, fewer, _higher(balance, names))


def mcnemar_p(more: int, fewer: int) -> float:
    """Exact two-sided p of McNemar's test on the discordant pairs; NaN where there is none."""
    return float(scipy.stats.binomtest(more, more + fewer).pvalue) if more + fewer else math.nan


def _sign_flip_p(differences: Floats, seed: int) -> float:
    """Two-sided p for "signs are exchangeable": exact where all sign patterns fit into 9,999."""
    if len(differences) < 2 or not np.any(differences):
        return math.nan
    result = scipy.stats.permutation_test(
        (differences,), lambda x, axis: np.mean(x, axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=9_999, batch=max(1, _CELLS // len(differences)), rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(result.pvalue)


def _higher(balance: float, names: tuple[str, str]) -> str:
    """The group that a difference favours; "" where it is 0 or NaN."""
    return names[0] if balance > 0 else names[1] if balance < 0 else ""


def rate_ratio(
    answers: ArrayLike, labels: ArrayLike, groups: Sequence[str], *, reference_group: str, pair_ids: Ids = None,
    cluster_ids: ClusterIds = None, rate: str = "tpr", confidence: float = 0.95, seed: int = 0,
    n_resamples: int = 2_000,
) -> RateRatio:  # fmt: skip
    """Difference and log ratio of the two groups' true (or false) positive rates, and the ratio as published.

    Args:
        answers: shape (rows,), 1 or 0; NaN rows of the label are left out and counted.
        labels: shape (rows,), 1 or 0, without NaN.
        reference_group: is subtracted, and divided by.
        pair_ids: shape (rows,), the note of each row: its versions are dependent. Without them each row is a note.
        cluster_ids: shape (rows,), as in ``flip_rate``.
        rate: ``tpr``, the share of answer 1 among label 1, or ``fpr``, its share among label 0.
        seed, n_resamples: of the percentile bootstrap of the published ratio, over notes (or clusters).

    Returns:
        Difference and log ratio have the interval of ``share_sum`` and its p-value. A rate of 0 leaves the log ratio
        NaN; both 0, the published ratio too. A group without a row of the label: NaN. One cluster: no interval.
    """
    if rate not in ("tpr", "fpr"):
        raise UsageError(f"rate {rate!r}, expected 'tpr' or 'fpr'.")
    answer, label = labelled(answers, labels)
    _, sides, names = two_groups(answer, groups, reference_group)
    of_label = label == (rate == "tpr")
    used = of_label & ~np.isnan(answer)
    whole = (used[:, None] & (sides[:, None] == [0, 1])).astype(np.float64)
    part, unscored = whole * (answer == 1)[:, None], int((of_label & ~used).sum())
    units, clusters = dependence(len(answer), pair_ids, cluster_ids)
    both = (
        share_sum(part, whole, (1.0, -1.0), units, clusters, scale=scale, n_unscored=unscored)
        for scale in (np.asarray, np.log)
    )
    difference, log_ratio = (one.estimate(confidence, tested=True) for one in both)
    codes, unit = (units, "rows" if units is None else "pairs") if cluster_ids is None else (clusters, "clusters")
    published = _bootstrap(
        np.hstack([part, whole])[:, [0, 2, 1, 3]], codes, _ratio_of_rates, unit, confidence=confidence, seed=seed,
        n_resamples=n_resamples,
    )  # fmt: skip
    rates = dict(zip(names, _shares(part, whole).tolist(), strict=True))
    higher = _higher(rates[names[0]] - rates[names[1]], names)
    return RateRatio(difference, log_ratio, replace(published, n_unscored=unscored), rates, higher)


def _ratio_of_rates(sums: Floats) -> Floats:
    rates = _divide(sums[:, ::2], sums[:, 1::2])
    return _divide(rates.min(axis=1), rates.max(axis=1))  # of a NaN rate both are NaN, and NaN > 0 is false


def macro_f1(
    answers: ArrayLike, labels: ArrayLike, *, pair_ids: Ids = None, cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
) -> Estimate:  # fmt: skip
    """Mean of the F1 of class 1 and of class 0, 0 (nothing right) to 1 (all right); nothing is tested.

    A class never predicted, or predicted but never true, has F1 0; a class that neither answers nor labels have
    makes it NaN. The F1 of a class is 2 s / (1 + s), of the share s that is right among the rows of its label or
    answer; the interval is that of ``share_sum``. Arguments as in ``rate_ratio``.
    """
    answer, label = labelled(answers, labels)
    used = ~np.isnan(answer)
    right = (used & (answer == label))[:, None] & (label[:, None] == [1, 0])
    whole = right | (used & (answer != label))[:, None]
    return share_sum(
        right, whole, (0.5, 0.5), *dependence(len(answer), pair_ids, cluster_ids),
        scale=lambda s: 2 * s / (1 + s), n_unscored=int((~used).sum()),
    ).estimate(confidence)  # fmt: skip


def uar(
    predicted: Sequence[str], truth: Sequence[str], *, note_ids: Ids = None, cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
) -> Estimate:  # fmt: skip
    """Unweighted average recall over the classes in ``truth``; gender leakage where the truth is the gender.

    0: always wrong, 1 / classes: chance, 1: always right. Fewer than two classes, or a class without a prediction:
    NaN. None, NaN or "" is no prediction: left out and counted. The interval is that of ``share_sum``, which holds at
    1 too. ``note_ids`` are the ``pair_ids`` of ``rate_ratio``. ValueError: unequal lengths, a blank truth.
    """
    guess, actual = _texts(predicted), _texts(truth)
    if len(guess) != len(actual) or "" in actual:
        raise ValueError(
            f"{len(guess)} predicted, {len(actual)} truth: expected one of each per row, no truth blank."
        )
    used, classes = guess != "", np.unique(actual)
    unscored = int((~used).sum())
    if len(classes) < 2:
        return Estimate(math.nan, n=int(used.sum()), n_unscored=unscored, test="none", interval="none")
    whole = (actual[:, None] == classes) & used[:, None]
    right, weights = whole & (guess == actual)[:, None], (1 / len(classes),) * len(classes)
    units = dependence(len(actual), note_ids, cluster_ids)
    return share_sum(right, whole, weights, *units, n_unscored=unscored).estimate(confidence)


def _texts(values: Sequence[str]) -> NDArray[np.str_]:
    return np.asarray(["" if value is None or value != value else str(value) for value in values], dtype=np.str_)


def dependence(rows: int, unit_ids: Ids, cluster_ids: ClusterIds) -> tuple[Codes, Codes]:
    """Unit and cluster of each row as integers from 0, None without ids; ValueError for crossed factors."""
    if unit_ids is not None and len(unit_ids) != rows:
        raise ValueError(f"{rows} rows and {len(unit_ids)} ids of their notes, expected one id per row.")
    units = None if unit_ids is None else np.unique(known_ids(unit_ids, "pair_ids"), return_inverse=True)[1]
    if isinstance(cluster_ids, Mapping) and len(cluster_ids) > 1:
        raise ValueError(
            f"cluster_ids with the factors {', '.join(cluster_ids)}, expected one: no interval of rates allows for "
            "several. Give the one that differs most."
        )
    return units, next(iter(factor_codes(cluster_ids, rows, unit_ids).values()), None)


def labelled(answers: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    """Answers (1, 0 or NaN) and labels (1 or 0) as floats; ValueError for anything else."""
    answer, label = _binary(answers, "answers"), _binary(labels, "labels")
    if len(answer) != len(label) or np.isnan(label).any():
        raise ValueError(f"{len(answer)} answers, {len(label)} labels: expected one of each per row, no label NaN.")
    return answer, label


def _binary(values: ArrayLike, name: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    strange = found[~(np.isnan(found) | (found == 0) | (found == 1))]
    if found.ndim != 1 or len(strange):
        raise ValueError(f"{name} of shape {found.shape} with {strange[:3].tolist()}, expected 1, 0 or NaN per row.")
    return found
