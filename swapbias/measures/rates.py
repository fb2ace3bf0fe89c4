"""Rates of classifiers that read both versions of a note; each is made of shares of rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.errors import UsageError
from swapbias.measures.estimate import Estimate, Floats, align_pairs, factor_codes, factors_of_pairs, two_groups
from swapbias.measures.intervals import Draw, ShareSum, sign_flip_p

Marks = NDArray[np.bool_]
Ids = Sequence[str] | None
Codes = NDArray[np.intp] | None
Statistic = Callable[[Floats], Floats]  # sums, shape (resamples, counts) -> values, shape (resamples,)
_CELLS = 4_000_000  # weights held at once: 32 MB
_TIE = 1e-12  # differences that cancel to this share of their size cancel but for rounding


@dataclass(frozen=True, slots=True)
class Flips:
    """How often swapping changes the prediction: share of pairs, 0 (none) to 1 (all), and its direction.

    Attributes:
        more, fewer: pairs where only the other (``fewer``: the reference) group's version is positive.
        higher_group: the group with more positives, or with the higher mean score where they tie; "" for a tie.
    """

    estimate: Estimate
    more: int
    fewer: int
    higher_group: str


@dataclass(frozen=True, slots=True)
class RateRatio:
    """How two groups' rates differ; ``n`` counts rows.

    Attributes:
        difference: the other group's rate minus the reference group's, -1 to 1; 0: equal.
        log_ratio: natural log of the other group's rate over the reference group's; 0: equal. NaN where a rate is 0.
        estimate: smaller over larger, 0 (one group gets none) to 1 (equal), as published. It is biased: of equal
            rates the smaller is always on top, so that its mean is below 1 (.72 for rates of .05 in 200 rows each).
        rates: the rate of each group, 0 to 1; NaN for a group without a row of the label.
        higher_group: the group with the larger rate; "" where they are equal or undefined.
    """

    difference: Estimate
    log_ratio: Estimate
    estimate: Estimate
    rates: dict[str, float]
    higher_group: str


def flip_rate(
    answers: ArrayLike,
    groups: Sequence[str],
    pair_ids: Sequence[str],
    *,
    reference_group: str,
    scores: ArrayLike | None = None,
    cluster_ids: Ids = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Flips:
    """Mismatch ratio: share of pairs whose two versions get different predictions, with Wilson's interval.

    The p-value is that of "as many flip one way as the other": exact McNemar's test.

    Args:
        answers: shape (rows,), 1 or 0; NaN where there is no prediction, which leaves the pair out.
        groups: shape (rows,), exactly two values.
        pair_ids: shape (rows,); each id stands once per group.
        reference_group: swapping it swaps ``more`` and ``fewer``; the value stays.
        scores: shape (rows,), probabilities; they tell the direction where both groups get as many positives.
        cluster_ids: shape (rows,); pairs of one cluster (a subject's notes) are not independent. The interval is then
            Wilson's on the effective number of pairs, and the test flips the versions of whole clusters.
        confidence: coverage of the interval.
        seed, n_resamples: of the test with clusters, which is exact where all ways to flip them fit in.

    Returns:
        No pair: NaN. No discordant pair: the p-value is NaN. One cluster: interval and p-value are NaN.

    Raises:
        ValueError: answers other than 1, 0 and NaN, not two groups, an incomplete or repeated pair, a cluster that
            splits a pair.

    Example:
        >>> found = flip_rate([1, 0, 1, 1], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> found.estimate.value, found.more, found.higher_group
        (0.5, 1, 'f')
    """
    answer = _binary(answers, "answers")
    pairs = align_pairs(answer, groups, pair_ids, reference_group=reference_group)
    more, fewer = int((pairs.differences > 0).sum()), int((pairs.differences < 0).sum())
    balance = float(more - fewer)
    if scores is not None and more == fewer:
        score = np.array(scores, dtype=np.float64)
        if score.shape != answer.shape:
            raise ValueError(f"scores of shape {score.shape}, {len(answer)} answers: expected one of each per row.")
        score[np.isnan(answer)] = np.nan
        apart = align_pairs(score, groups, pair_ids, reference_group=reference_group).differences
        balance = float(apart.sum())
        balance = balance if abs(balance) > _TIE * float(np.abs(apart).sum()) else 0.0
    codes = None if cluster_ids is None else factors_of_pairs(cluster_ids, pair_ids)[""][pairs.rows]
    draw, differs = Draw(confidence, seed, n_resamples), (pairs.differences != 0)[:, None].astype(np.float64)
    share = ShareSum(differs, np.ones_like(differs), (1.0,), clusters=codes)
    p_value, test, interval = mcnemar_p(more, fewer), "exact McNemar", "Wilson"
    if codes is not None:
        sums = np.bincount(codes, weights=pairs.differences).astype(np.float64)
        p_value = sign_flip_p(sums, seed=draw.seed, n_resamples=draw.n_resamples)
        test, interval = "sign-flip permutation of clusters", "Wilson on effective pairs"
    low, high = share.interval(draw.confidence)
    estimate = Estimate(
        share.value, low, high, p_value=p_value, n=len(differs), n_unscored=pairs.n_unscored, test=test,
        interval=interval,
    )  # fmt: skip
    return Flips(estimate, more, fewer, _higher(balance, _names_of(groups, reference_group)))


def rate_ratio(
    answers: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    pair_ids: Ids = None,
    cluster_ids: Ids = None,
    rate: str = "tpr",
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 2_000,
) -> RateRatio:
    """Difference and log ratio of the two groups' true (or false) positive rates, and the ratio as published.

    Args:
        answers: shape (rows,), 1 or 0; NaN rows of the label are left out and counted.
        labels: shape (rows,), 1 or 0, without NaN.
        groups: shape (rows,), exactly two values.
        pair_ids: shape (rows,), the note of each row: its versions are dependent. Without them each row is a note.
        cluster_ids: shape (rows,), as in ``flip_rate``.
        rate: ``tpr``, the share of answer 1 among label 1, or ``fpr``, its share among label 0.
        confidence: coverage of the intervals.
        seed, n_resamples: of the percentile bootstrap of the published ratio, over notes (or clusters) that have a
            row of the label.

    Returns:
        Difference and log ratio have the interval of ``ShareSum`` and the p-value of "equal rates" that goes with it.
        A rate of 0 leaves the log ratio NaN, while the difference keeps its interval; with both 0 the published ratio
        is NaN too. A group without a row of the label: NaN. One cluster: no interval, no p-value.

    Raises:
        UsageError: a rate that does not exist.
        ValueError: answers or labels other than 1 and 0, unequal lengths, not two groups.
    """
    if rate not in ("tpr", "fpr"):
        raise UsageError(f"rate {rate!r}, expected 'tpr' or 'fpr'.")
    answer, label = _labelled(answers, labels)
    is_reference = two_groups(answer, groups, reference_group)[1]
    asked = label == (1 if rate == "tpr" else 0)
    used = asked & ~np.isnan(answer)
    sides = (used & ~is_reference, used & is_reference)
    counts = np.column_stack([column for side in sides for column in (side & (answer == 1), side)])
    draw, lost, ids = Draw(confidence, seed, n_resamples), int((asked & ~used).sum()), pair_ids
    unit = "rows" if pair_ids is None else "pairs"
    units, clusters = _dependence(len(answer), pair_ids, cluster_ids)
    if cluster_ids is not None:
        ids, unit = cluster_ids, "clusters"
    estimate = _resampled(counts, _ratio_of_rates, draw, unit, ids, lost)
    part, whole = np.hsplit(counts[:, [0, 2, 1, 3]].astype(np.float64), 2)
    difference = ShareSum(part, whole, (1.0, -1.0), units, clusters)
    log_ratio = ShareSum(part, whole, (1.0, -1.0), units, clusters, np.log)
    rates, names = difference.shares.tolist(), _names_of(groups, reference_group)
    return RateRatio(
        _combined(difference, confidence, lost, tested=True),
        _combined(log_ratio, confidence, lost, tested=True),
        estimate,
        dict(zip(names, rates, strict=True)),
        _higher(rates[0] - rates[1], names),
    )


def macro_f1(
    answers: ArrayLike,
    labels: ArrayLike,
    *,
    pair_ids: Ids = None,
    cluster_ids: Ids = None,
    confidence: float = 0.95,
) -> Estimate:
    """Mean of the F1 of class 1 and of class 0, 0 (nothing right) to 1 (all right); nothing is tested.

    A class never predicted, or predicted but never true, has F1 0; a class that neither answers nor labels
    have makes it NaN. Rows without an answer are left out and counted. The F1 of a class is 2 s / (1 + s), of the
    share s that is right among the rows of its label or answer; the interval is that of ``ShareSum``. Arguments as
    in ``rate_ratio``.

    >>> round(macro_f1([1, 1, 0, 0], [1, 0, 0, 0]).value, 3)
    0.733
    """
    answer, label = _labelled(answers, labels)
    used = ~np.isnan(answer)
    wrong = used & (answer != label)
    right = np.column_stack([used & ~wrong & (label == 1), used & ~wrong & (label == 0)])
    whole = (right | wrong[:, None]).astype(np.float64)
    units, clusters = _dependence(len(answer), pair_ids, cluster_ids)
    found = ShareSum(right.astype(np.float64), whole, (0.5, 0.5), units, clusters, lambda s: 2 * s / (1 + s))
    return _combined(found, confidence, int((~used).sum()))


def uar(
    predicted: Sequence[str],
    truth: Sequence[str],
    *,
    note_ids: Ids = None,
    cluster_ids: Ids = None,
    confidence: float = 0.95,
) -> Estimate:
    """Unweighted average recall over the classes in ``truth``; gender leakage where the truth is the gender.

    0: always wrong, 1 / classes: chance, 1: always right. Fewer than two classes, or a class without a
    prediction: NaN. The interval is that of ``ShareSum``, which holds at 1 too. Other arguments as in
    ``rate_ratio``; each row is a note without ``note_ids``.

    Args:
        predicted: shape (rows,); None, NaN or "" where there is no prediction: left out and counted.
        truth: shape (rows,), never blank (ValueError).

    >>> uar(["f", "f", "m", "f"], ["f", "f", "m", "m"]).value
    0.75
    """
    guess, actual = _texts(predicted), _texts(truth)
    if len(guess) != len(actual) or "" in actual:
        raise ValueError(
            f"{len(guess)} predicted, {len(actual)} truth: expected one of each per row, no truth blank."
        )
    used = guess != ""
    classes = np.unique(actual)
    if len(classes) < 2:
        return Estimate(math.nan, n=int(used.sum()), n_unscored=int((~used).sum()), test="none", interval="none")
    is_class = (actual[:, None] == classes) & used[:, None]
    right = is_class & (guess == actual)[:, None]
    units, clusters = _dependence(len(actual), note_ids, cluster_ids)
    weights = (1 / len(classes),) * len(classes)
    found = ShareSum(right.astype(np.float64), is_class.astype(np.float64), weights, units, clusters)
    return _combined(found, confidence, int((~used).sum()))


def mcnemar_p(more: int, fewer: int) -> float:
    """Exact two-sided p of McNemar's test on the discordant pairs; NaN where there is none.

    >>> mcnemar_p(3, 0)
    0.25
    """
    if min(more, fewer) < 0:
        raise ValueError(f"{more} and {fewer} discordant pairs, expected counts from 0.")
    return float(scipy.stats.binomtest(more, more + fewer).pvalue) if more + fewer else math.nan


def sums_interval(counts: Floats, statistic: Statistic, draw: Draw, unit: str) -> tuple[float, float, str]:
    """Ends and name of the percentile interval of a statistic of summed counts, units resampled.

    Units of equal counts are interchangeable, so the draw is over distinct rows of counts. Undefined resamples
    are dropped and counted in the name. Where all resamples agree, or none is defined, the ends are NaN.
    ``counts`` has shape (units, counts); a unit of zeros carries nothing and is not drawn.
    """
    name = f"bootstrap over {unit} percentile"
    patterns, times = np.unique(counts[counts.any(axis=1)], axis=0, return_counts=True)
    if not len(patterns):
        return math.nan, math.nan, name
    rng, units, block = np.random.default_rng(draw.seed), int(times.sum()), max(1, _CELLS // len(patterns))
    sizes = [min(block, draw.n_resamples - start) for start in range(0, draw.n_resamples, block)]
    drawn = np.concatenate([statistic(rng.multinomial(units, times / units, size=size) @ patterns) for size in sizes])
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < len(drawn):
        name += f" ({len(drawn) - len(defined)} of {len(drawn)} undefined)"
    if not len(defined) or defined.min() == defined.max():
        return math.nan, math.nan, name
    low, high = np.quantile(defined, [(1 - draw.confidence) / 2, (1 + draw.confidence) / 2])
    return float(low), float(high), name


def _dependence(rows: int, unit_ids: Ids, cluster_ids: Ids) -> tuple[Codes, Codes]:
    """Unit and cluster of each row as integers from 0; None for ids that are not given."""
    if unit_ids is not None and len(unit_ids) != rows:
        raise ValueError(f"{rows} rows and {len(unit_ids)} ids of their notes, expected one id per row.")
    units = None if unit_ids is None else np.unique(np.asarray(unit_ids), return_inverse=True)[1]
    if cluster_ids is None:
        return units, None
    if unit_ids is None:
        return None, factor_codes(cluster_ids, rows)[""]
    return units, factors_of_pairs(cluster_ids, unit_ids)[""]


def _combined(found: ShareSum, confidence: float, n_unscored: int, *, tested: bool = False) -> Estimate:
    """The sum with its interval; ``n`` is the rows that count in any share."""
    low, high = found.interval(Draw(confidence, 0, 1).confidence)
    return Estimate(
        found.value,
        low,
        high,
        p_value=found.p_value() if tested else math.nan,
        n=int(found.whole.any(axis=1).sum()),
        n_unscored=n_unscored,
        test="that of the interval" if tested else "none",
        interval="Wilson, combined" + ("" if found.clusters is None else ", over clusters"),
    )


def _resampled(counts: Marks, statistic: Statistic, draw: Draw, unit: str, ids: Ids, n_unscored: int) -> Estimate:
    """The statistic of the rows' counts; ``n`` is the rows that count anything."""
    numbers, n = counts.astype(np.float64), int(counts.any(axis=1).sum())
    value = float(statistic(numbers.sum(axis=0)[None])[0])
    if ids is not None:
        names, codes = np.unique(np.asarray(ids), return_inverse=True)
        rows, numbers = numbers, np.zeros((len(names), counts.shape[1]))
        np.add.at(numbers, codes, rows)
    low, high, name = sums_interval(numbers, statistic, draw, unit)
    return Estimate(value, low, high, n=n, n_unscored=n_unscored, test="none", interval=name)


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def _ratio_of_rates(sums: Floats) -> Floats:
    rates = _divide(sums[:, [0, 2]], sums[:, [1, 3]])
    return _divide(rates.min(axis=1), rates.max(axis=1))  # of a NaN rate both are NaN, and NaN > 0 is false


def _names_of(groups: Sequence[str], reference: str) -> tuple[str, str]:
    return next(str(name) for name in groups if str(name) != reference), reference


def _higher(balance: float, names: tuple[str, str]) -> str:
    return names[0] if balance > 0 else names[1] if balance < 0 else ""


def _binary(values: ArrayLike, name: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    strange = found[~(np.isnan(found) | (found == 0) | (found == 1))]
    if found.ndim != 1 or len(strange):
        raise ValueError(f"{name} of shape {found.shape} with {strange[:3].tolist()}, expected 1, 0 or NaN per row.")
    return found


def _labelled(answers: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    answer, label = _binary(answers, "answers"), _binary(labels, "labels")
    if len(answer) != len(label) or np.isnan(label).any():
        raise ValueError(f"{len(answer)} answers, {len(label)} labels: expected one of each per row, no label NaN.")
    return answer, label


def _texts(values: Sequence[str]) -> NDArray[np.str_]:
    return np.asarray(["" if value is None or value != value else str(value) for value in values], dtype=np.str_)
