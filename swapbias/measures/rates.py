"""Shares of rows and what is made of them: flips, rates of classifiers by group, recall."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from swapbias.errors import UsageError
from swapbias.measures.estimate import (
    ClusterIds,
    Codes,
    Estimate,
    Floats,
    Ids,
    by_pair,
    known_ids,
    numbers,
    texts_of,
    two_groups,
)
from swapbias.measures.intervals import CONFIDENCE
from swapbias.measures.random_factors import factor_codes
from swapbias.measures.share_intervals import column_shares, divide, share_of_rows, share_sum
from swapbias.public_calls import public_call

_MINUS_REFERENCE = (1.0, -1.0)  # weights of a group and its reference


@public_call
def share_above(scores: ArrayLike, *, threshold: float = 0.5) -> Estimate:
    """Share of scores strictly above a threshold, 0 to 1, with Wilson's interval; nothing is tested.

    ``value * n`` is the count. No scored row: NaN. Nothing lies above the range of a share, so a threshold of 1 or
    more counts what reaches it.

    Args:
        scores: shape (rows,), any unit; NaN scores are left out and counted.
        threshold: the threshold in the unit of the scores.

    Raises:
        ValueError: the threshold is NaN.
    """
    if math.isnan(threshold):
        raise ValueError("threshold is nan, expected a number. Give one, such as 0.5.")
    score = numbers(scores)
    used = score[~np.isnan(score)]
    is_above = used > threshold
    if threshold >= 1:
        is_above = used >= threshold - 1e-9  # a mean of ones may lie below one
    return share_of_rows(is_above, None, "Wilson", len(score) - len(used))


def share_right(
    right: Sequence[bool], cluster_ids: Ids, *, confidence: float = CONFIDENCE
) -> Estimate:
    """Share of units that are right, 0 to 1, with Wilson's interval over clusters (notes); NaN without a unit.

    Args:
        right: shape (units,).
        cluster_ids: shape (units,).
        confidence: the coverage of the interval.
    """
    clusters = np.unique(known_ids(cluster_ids, "cluster_ids"), return_inverse=True)[1]
    is_right = np.asarray(right, dtype=bool)
    return share_of_rows(is_right, clusters, "Wilson, clustered", confidence=confidence)


@dataclass(frozen=True, slots=True)
class Flips:
    """Flips of the prediction by swapping, and their direction."""

    estimate: Estimate
    """Share of pairs whose prediction changes, 0 (none) to 1 (all)."""
    more: int
    """Pairs where only the other group's version is positive."""
    fewer: int
    """Pairs where only the reference group's version is positive."""
    higher_group: str
    """The group with more positives; "" for a tie."""


@public_call
def flip_rate(
    answers: ArrayLike,
    groups: Sequence[str],
    pair_ids: Ids,
    *,
    reference_group: str,
    cluster_ids: ClusterIds = None,
    seed: int = 0,
) -> Flips:
    """Mismatch ratio: share of pairs whose two versions get different predictions, with Wilson's interval.

    The p-value is that of "as many flip one way as the other": exact McNemar's test. No pair: NaN. No discordant
    pair: the p-value is NaN. One cluster: interval and p-value are NaN.

    Args:
        answers: shape (rows,), 1 or 0; NaN where there is no prediction, which leaves the pair out.
        groups: as in ``paired_gap``.
        pair_ids: as in ``paired_gap``.
        reference_group: as in ``paired_gap``.
        cluster_ids: shape (rows,); pairs of one cluster (a subject's notes) are not independent. The interval is then
            Wilson's on the effective number of pairs, and the test flips the versions of whole clusters.
        seed: the seed of the test with clusters, exact where all ways to flip them fit in 9,999.

    >>> flips = flip_rate([1, 0, 1, 1], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
    >>> flips.estimate.value, flips.more, flips.higher_group
    (0.5, 1, 'f')
    """
    answer, sides, names = two_groups(_binary(answers, "answers"), groups, reference_group)
    table, first = by_pair(answer, sides, pair_ids, names)
    complete = ~np.isnan(table).any(axis=1)
    clusters = _dependence(len(answer), pair_ids, cluster_ids)[1]
    difference = table[complete, 0] - table[complete, 1]
    positive_alone = int((difference > 0).sum())
    reference_alone = int((difference < 0).sum())
    discordant = positive_alone + reference_alone
    if clusters is None:
        codes = None
        test = "exact McNemar"
        interval = "Wilson"
        p_value = math.nan
        if discordant:
            p_value = float(scipy.stats.binomtest(positive_alone, discordant).pvalue)
    else:
        codes = clusters[first[complete]]
        test = "sign-flip permutation of clusters"
        interval = "Wilson on effective pairs"
        p_value = _sign_flip_p(np.bincount(codes, weights=difference).astype(np.float64), seed)
    share = share_of_rows(difference != 0, codes, interval, int((~complete).sum()))
    return Flips(
        estimate=replace(share, p_value=p_value, test=test),
        more=positive_alone,
        fewer=reference_alone,
        higher_group=higher_group(positive_alone - reference_alone, names),
    )


def _sign_flip_p(differences: Floats, seed: int) -> float:
    """Return the two-sided p for "signs are exchangeable": exact where all sign patterns fit into 9,999."""
    if len(differences) < 2 or not np.any(differences):
        return math.nan
    batch = max(1, 4_000_000 // len(differences))  # 32 MB at once
    result = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9_999,
        batch=batch,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def higher_group(difference: float, names: Iterable[str]) -> str:
    """Return the group that a difference favours; "" where it is 0 or NaN.

    Args:
        difference: the first group's number minus the second's.
        names: the names of the two groups.
    """
    first, second = names
    if difference > 0:
        return first
    return second if difference < 0 else ""


def smaller_over_larger(rates: Floats) -> float:
    """Return the smaller of two rates over the larger, 0 to 1; NaN where both are 0 or one is NaN.

    Args:
        rates: shape (2,).
    """
    # Of a NaN rate both the least and the largest are NaN, and NaN > 0 is false.
    return float(divide(rates.min(), rates.max()))


@dataclass(frozen=True, slots=True)
class RateRatio:
    """Difference and ratio of two groups' rates; ``n`` counts rows.

    The published ratio has no interval and is biased: the smaller rate is always on top, so that of equal rates its
    mean is below 1 (.72 for rates of .05 in 200 rows each).
    """

    difference: Estimate
    """The other group's rate minus the reference group's, -1 to 1; 0: equal."""
    log_ratio: Estimate
    """Natural log of the other group's rate over the reference group's; NaN where one is 0."""
    estimate: Estimate
    """As published: smaller over larger, 0 (one group gets none) to 1 (equal)."""
    rates: dict[str, float]
    """By group its rate, 0 to 1; NaN for a group without a row of the label."""
    higher_group: str
    """The group with the larger rate; "" where they are equal or undefined."""


@public_call
def rate_ratio(
    answers: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
    rate: str = "tpr",
) -> RateRatio:
    """Difference and log ratio of the two groups' true (or false) positive rates, and the ratio as published.

    A rate of 0 leaves the log ratio NaN; both 0, the published ratio too. A group without a row of the label: NaN.

    Args:
        answers: shape (rows,), 1 or 0; rows of the label whose answer is NaN are left out and counted.
        labels: shape (rows,), 1 or 0.
        groups: as in ``paired_gap``.
        reference_group: as in ``paired_gap``.
        pair_ids: shape (rows,), the note of each row: its versions are dependent. Without them each row is a note.
        cluster_ids: shape (rows,), as in ``flip_rate``. One cluster: no interval.
        rate: ``tpr``, the share of answer 1 among label 1, or ``fpr``, its share among label 0.

    Returns:
        Differences from -1 to 1, 0: equal, above 0: the other group's rate is larger.

    Raises:
        UsageError: another rate.
        ValueError: other than two groups, or unequal numbers of answers and labels.
    """
    if rate not in ("tpr", "fpr"):
        raise UsageError(f"rate {rate!r}, expected 'tpr' or 'fpr'.")
    answer, label = _labelled(answers, labels)
    _, sides, names = two_groups(answer, groups, reference_group)
    of_label = label == (rate == "tpr")
    used = of_label & ~np.isnan(answer)
    whole = (used[:, None] & (sides[:, None] == [0, 1])).astype(np.float64)
    part = whole * (answer == 1)[:, None]
    unscored = int((of_label & ~used).sum())
    units, clusters = _dependence(len(answer), pair_ids, cluster_ids)

    def difference_on(scale: Callable[[Floats], Floats]) -> Estimate:
        return share_sum(
            part,
            whole,
            _MINUS_REFERENCE,
            units,
            clusters,
            scale=scale,
            n_unscored=unscored,
            tested=True,
        )

    rates = column_shares(part, whole)
    return RateRatio(
        difference=difference_on(np.asarray),
        log_ratio=difference_on(np.log),
        estimate=Estimate(
            smaller_over_larger(rates),
            n=int(used.sum()),
            n_unscored=unscored,
            test="none",
            interval="none",
        ),
        rates=dict(zip(names, rates.tolist(), strict=True)),
        higher_group=higher_group(rates[0] - rates[1], names),
    )


def ratio_of_rounded(first: float, second: float) -> float:
    """Return the smaller over the larger of two rates that are rounded to two decimals first, rounded so itself.

    Published by Sogancioglu et al. (2023): of rates near 0 it can be far from the ratio of the rates.

    Args:
        first: a rate, 0 to 1.
        second: another rate.

    Returns:
        0 to 1; NaN where both rates round to 0, or one is NaN.

    >>> ratio_of_rounded(1 / 6, 0.5), ratio_of_rounded(0.004, 0.006)
    (0.34, 0.0)
    """
    return float(np.round(smaller_over_larger(np.round([first, second], 2)), 2))


def macro_f1(
    answers: ArrayLike,
    labels: ArrayLike,
    *,
    pair_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Mean of the F1 of class 1 and of class 0, 0 (nothing right) to 1 (all right).

    A class never predicted, or predicted but never true, has F1 0; one that neither answers nor labels have makes it
    NaN. The F1 of a class is 2 s / (1 + s), of the share s that is right among the rows of its label or answer.

    Args:
        answers: as in ``rate_ratio``.
        labels: as in ``rate_ratio``.
        pair_ids: as in ``rate_ratio``.
        cluster_ids: as in ``rate_ratio``.
    """
    answer, label = _labelled(answers, labels)
    used = ~np.isnan(answer)
    right = (used & (answer == label))[:, None] & (label[:, None] == [1, 0])
    whole = right | (used & (answer != label))[:, None]
    units, clusters = _dependence(len(answer), pair_ids, cluster_ids)
    return share_sum(
        right,
        whole,
        (0.5, 0.5),
        units,
        clusters,
        scale=lambda share: 2 * share / (1 + share),
        n_unscored=int((~used).sum()),
    )


@public_call
def uar(
    predicted: Sequence[str],
    truth: Sequence[str],
    *,
    note_ids: Ids | None = None,
    cluster_ids: ClusterIds = None,
) -> Estimate:
    """Unweighted average recall over the classes in ``truth``; gender leakage where the truth is the gender.

    Args:
        predicted: shape (rows,), the class predicted; None, NaN or "" is no prediction: left out and counted.
        truth: shape (rows,), the true class.
        note_ids: as ``pair_ids`` of ``rate_ratio``.
        cluster_ids: as in ``rate_ratio``.

    Returns:
        0: always wrong, 1 / classes: chance, 1: always right. Fewer than two classes, or a class without a
        prediction: NaN.

    Raises:
        ValueError: unequal numbers of rows, or a row without a true class.
    """
    guess = texts_of(predicted)
    actual = texts_of(truth)
    if len(guess) != len(actual) or "" in actual:
        raise ValueError(
            f"{len(guess)} predicted, {len(actual)} truth: expected one of each per row, no truth blank."
        )
    used = guess != ""
    classes = np.unique(actual)
    unscored = int((~used).sum())
    if len(classes) < 2:
        return Estimate(
            math.nan, n=int(used.sum()), n_unscored=unscored, test="none", interval="none"
        )
    whole = (actual[:, None] == classes) & used[:, None]
    right = whole & (guess == actual)[:, None]
    weights = (1 / len(classes),) * len(classes)
    units, clusters = _dependence(len(actual), note_ids, cluster_ids)
    return share_sum(right, whole, weights, units, clusters, n_unscored=unscored)


def _dependence(
    rows: int, unit_ids: Ids | None, cluster_ids: ClusterIds
) -> tuple[Codes | None, Codes | None]:
    """Return unit and cluster of each row as integers from 0, None without ids."""
    if unit_ids is not None and len(unit_ids) != rows:
        raise ValueError(
            f"{rows} rows and {len(unit_ids)} ids of their notes, expected one id per row."
        )
    units = None
    if unit_ids is not None:
        units = np.unique(known_ids(unit_ids, "pair_ids"), return_inverse=True)[1]
    if isinstance(cluster_ids, Mapping) and len(cluster_ids) > 1:
        raise ValueError(
            f"cluster_ids with the factors {', '.join(cluster_ids)}, expected one: no interval of rates allows for "
            "several. Give the one that differs most."
        )
    return units, next(iter(factor_codes(cluster_ids, rows, unit_ids).values()), None)


def _labelled(answers: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    """Return answers and labels as 1, 0 or NaN; ValueError for anything else, or a label that is NaN."""
    answer = _binary(answers, "answers")
    label = _binary(labels, "labels")
    if len(answer) != len(label) or np.isnan(label).any():
        raise ValueError(
            f"{len(answer)} answers, {len(label)} labels: expected one of each per row, no label NaN."
        )
    return answer, label


def _binary(values: ArrayLike, name: str) -> Floats:
    """Return values as 1, 0 or NaN; ValueError for anything else."""
    checked = numbers(values)
    strange = checked[~(np.isnan(checked) | (checked == 0) | (checked == 1))]
    if checked.ndim != 1 or len(strange):
        raise ValueError(
            f"{name} of shape {checked.shape} with {strange[:3].tolist()}, expected 1, 0 or NaN per row."
        )
    return checked
