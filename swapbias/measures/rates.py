"""Rates of classifiers that read both versions of a note, and agreement of two readings: shares of rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.errors import UsageError
from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Floats,
    align_pairs,
    factor_codes,
    factors_of_pairs,
    known_ids,
    named_group,
    two_groups,
)
from swapbias.measures.intervals import Draw, ShareSum, sign_flip_p

Ids = Sequence[str] | None
Codes = NDArray[np.intp] | None
_CELLS = 4_000_000  # weights in memory at once: 32 MB
_TIE = 1e-12  # differences that cancel to this share of their size cancel but for rounding
_FEWEST = 20  # clusters of which kappa has a percentile interval


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
    cluster_ids: ClusterIds = None,
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
        scores: shape (rows,), probabilities; they decide the direction where both groups get as many positives.
        cluster_ids: shape (rows,); pairs of one cluster (a subject's notes) are not independent. The interval is then
            Wilson's on the effective number of pairs, and the test flips the versions of whole clusters.
        confidence: coverage of the interval.
        seed, n_resamples: of the test with clusters, exact where all ways to flip them fit in.

    Returns:
        No pair: NaN. No discordant pair: the p-value is NaN. One cluster: interval and p-value are NaN.

    Raises:
        ValueError: answers other than 1, 0 and NaN, not two groups, an incomplete or repeated pair, a cluster that
            splits a pair, several crossed factors.

    Example:
        >>> found = flip_rate([1, 0, 1, 1], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> found.estimate.value, found.more, found.higher_group
        (0.5, 1, 'f')
    """
    answer = _binary(answers, "answers")
    pairs = align_pairs(answer, groups, pair_ids, reference_group=reference_group)
    clusters = one_factor(cluster_ids)
    codes = None if clusters is None else factors_of_pairs(clusters, pair_ids)[""][pairs.rows]
    differs = (pairs.differences != 0)[:, None].astype(np.float64)
    share = ShareSum(differs, np.ones_like(differs), (1.0,), clusters=codes)
    more, fewer = int((pairs.differences > 0).sum()), int((pairs.differences < 0).sum())
    p_value, test = mcnemar_p(more, fewer), "exact McNemar"
    if codes is not None:
        sums = np.bincount(codes, weights=pairs.differences).astype(np.float64)
        p_value = sign_flip_p(sums, seed=seed, n_resamples=Draw(confidence, seed, n_resamples).n_resamples)
        test = "sign-flip permutation of clusters"
    interval = "Wilson" if codes is None else "Wilson on effective pairs"
    estimate = of_shares(share, confidence, pairs.n_unscored, interval=interval)
    balance = more - fewer or _balance(scores, answer, groups, pair_ids, reference_group)
    return Flips(
        replace(estimate, p_value=p_value, test=test), more, fewer, _higher(balance, groups, reference_group)
    )


def mcnemar_p(more: int, fewer: int) -> float:
    """Exact two-sided p of McNemar's test on the discordant pairs; NaN where there is none.

    >>> mcnemar_p(3, 0)
    0.25
    """
    return float(scipy.stats.binomtest(more, more + fewer).pvalue) if more + fewer else math.nan


def _balance(
    scores: ArrayLike | None, answer: Floats, groups: Sequence[str], pair_ids: Sequence[str], reference_group: str
) -> float:
    """Sum of the other group's scores less that of the reference group's; 0 without scores."""
    if scores is None:
        return 0.0
    score = np.array(scores, dtype=np.float64)
    if score.shape != answer.shape:
        raise ValueError(f"scores of shape {score.shape}, {len(answer)} answers: expected one of each per row.")
    score[np.isnan(answer)] = np.nan
    gaps = align_pairs(score, groups, pair_ids, reference_group=reference_group).differences
    return float(gaps.sum()) if abs(gaps.sum()) > _TIE * np.abs(gaps).sum() else 0.0


def rate_ratio(
    answers: ArrayLike,
    labels: ArrayLike,
    groups: Sequence[str],
    *,
    reference_group: str,
    pair_ids: Ids = None,
    cluster_ids: ClusterIds = None,
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
        reference_group: is subtracted, and divided by.
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
    answer, label = labelled(answers, labels)
    is_reference = two_groups(answer, groups, reference_group)[1]
    asked = label == (rate == "tpr")
    used = asked & ~np.isnan(answer)
    whole = np.column_stack([used & ~is_reference, used & is_reference]).astype(np.float64)
    part, lost = whole * (answer == 1)[:, None], int((asked & ~used).sum())
    units, clusters = dependence(len(answer), pair_ids, cluster_ids)
    shares = [ShareSum(part, whole, (1.0, -1.0), units, clusters, scale) for scale in (np.asarray, np.log)]
    difference, log_ratio = (of_shares(one, confidence, lost, tested=True) for one in shares)
    codes, unit = (units, "rows" if units is None else "pairs") if cluster_ids is None else (clusters, "clusters")
    ratio = _bootstrap(
        np.hstack([part, whole])[:, [0, 2, 1, 3]], codes, _ratio_of_rates, Draw(confidence, seed, n_resamples), unit
    )
    found = shares[0].shares.tolist()
    return RateRatio(
        difference, log_ratio, replace(ratio, n_unscored=lost),
        dict(zip(_names_of(groups, reference_group), found, strict=True)),
        _higher(found[0] - found[1], groups, reference_group),
    )  # fmt: skip


def macro_f1(
    answers: ArrayLike,
    labels: ArrayLike,
    *,
    pair_ids: Ids = None,
    cluster_ids: ClusterIds = None,
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
    answer, label = labelled(answers, labels)
    used = ~np.isnan(answer)
    wrong = used & (answer != label)
    right = np.column_stack([used & ~wrong & (label == 1), used & ~wrong & (label == 0)]).astype(np.float64)
    units, clusters = dependence(len(answer), pair_ids, cluster_ids)
    found = ShareSum(right, right + wrong[:, None], (0.5, 0.5), units, clusters, lambda s: 2 * s / (1 + s))
    return of_shares(found, confidence, int((~used).sum()))


def uar(
    predicted: Sequence[str],
    truth: Sequence[str],
    *,
    note_ids: Ids = None,
    cluster_ids: ClusterIds = None,
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
    used, classes = guess != "", np.unique(actual)
    if len(classes) < 2:
        return Estimate(math.nan, n=int(used.sum()), n_unscored=int((~used).sum()), test="none", interval="none")
    of_class = ((actual[:, None] == classes) & used[:, None]).astype(np.float64)
    units, clusters = dependence(len(actual), note_ids, cluster_ids)
    weights = (1 / len(classes),) * len(classes)
    found = ShareSum(of_class * (guess == actual)[:, None], of_class, weights, units, clusters)
    return of_shares(found, confidence, int((~used).sum()))


def agreement_share(first: Sequence[str], second: Sequence[str], *, cluster_ids: Sequence[str]) -> Estimate:
    """Share of answers with the same class in both readings: 0 (none) to 1 (all); nothing is tested.

    Args:
        first, second: shape (answers,), names of classes; "" where there is no reading, which leaves the answer out.
        cluster_ids: shape (answers,); answers of one cluster (about one story) are not independent. The interval is
            Wilson's on the effective number of answers.

    >>> agreement_share(["a", "b", "b"], ["a", "b", "a"], cluster_ids=["1", "2", "3"]).n
    3
    """
    one, other, codes = _readings(first, second, cluster_ids)
    if not len(one):
        return Estimate(math.nan, n_unscored=len(first), test="none", interval="none")
    alike = (one == other).astype(np.float64)[:, None]
    found = ShareSum(alike, np.ones_like(alike), (1.0,), clusters=codes)
    return of_shares(found, 0.95, len(first) - len(one), interval="Wilson, over clusters")


def kappa(
    first: Sequence[str],
    second: Sequence[str],
    *,
    cluster_ids: Sequence[str],
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Cohen's kappa: agreement beyond what classes of these frequencies agree by chance (Cohen 1960).

    1: always alike; 0: no more than by chance; below 0: less. NaN where both readings give one and the same class to
    every answer, for then nothing is beyond chance.

    Args:
        first, second, cluster_ids: as in ``agreement_share``.
        confidence: coverage of the percentile interval, clusters resampled; there is none of fewer than 20.
        seed: of the resampling.

    >>> kappa(["a", "a", "b", "b"], ["a", "b", "b", "b"], cluster_ids=["1", "2", "3", "4"]).value
    0.5
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
    found = _bootstrap(cells, codes, statistic, Draw(confidence, seed, 9_999), "clusters")
    if len(np.unique(codes)) < _FEWEST:
        name = f"none: fewer than {_FEWEST} clusters"
        found = replace(found, ci_low=math.nan, ci_high=math.nan, interval=name)
    return replace(found, n_unscored=len(first) - len(one))


def _readings(first: Sequence[str], second: Sequence[str], clusters: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Classes of the answers with both readings, and the clusters of these as numbers from 0."""
    if not len(first) == len(second) == len(clusters):
        raise ValueError(
            f"{len(first)} and {len(second)} readings, {len(clusters)} cluster_ids: expected one of each per answer."
        )
    one, other = np.asarray(first, dtype=np.str_), np.asarray(second, dtype=np.str_)
    known = (one != "") & (other != "")
    return one[known], other[known], np.unique(np.asarray(clusters)[known], return_inverse=True)[1]


# --- what rates are made of -----------------------------------------------------------------------------


def of_shares(
    found: ShareSum, confidence: float, n_unscored: int, *, interval: str = "", tested: bool = False
) -> Estimate:
    """The sum of shares with its interval; ``n`` is the rows that count in any share."""
    low, high = found.interval(Draw(confidence, 0, 1).confidence)
    return Estimate(
        found.value, low, high, p_value=found.p_value() if tested else math.nan,
        n=int(found.whole.any(axis=1).sum()), n_unscored=n_unscored,
        test="that of the interval" if tested else "none",
        interval=interval or "Wilson, combined" + ("" if found.clusters is None else ", over clusters"),
    )  # fmt: skip


def _bootstrap(
    counts: Floats, codes: Codes, statistic: Callable[[Floats], Floats], draw: Draw, unit: str
) -> Estimate:
    """A statistic of summed counts with its percentile interval, units resampled.

    Units of equal counts are interchangeable, so the draw is over distinct counts; a unit of zeros is not drawn.
    Undefined resamples are dropped and counted in the name. Where all resamples agree, or none is defined: no ends.

    Args:
        counts: shape (rows, counts).
        codes: shape (rows,), the unit of each row from 0; None: each is one.
        statistic: of sums, shape (resamples, counts), the values, shape (resamples,).
        draw: coverage, seed and number of resamples.
        unit: its name in the plural.
    """
    value, n = float(statistic(counts.sum(axis=0)[None])[0]), int(counts.any(axis=1).sum())
    found = Estimate(value, n=n, test="none", interval=f"bootstrap over {unit} percentile")
    if codes is not None:
        rows, counts = counts, np.zeros((int(codes.max(initial=-1)) + 1, counts.shape[1]))
        np.add.at(counts, codes, rows)
    patterns, times = np.unique(counts[counts.any(axis=1)], axis=0, return_counts=True)
    if not len(patterns):
        return found
    rng, units, block = np.random.default_rng(draw.seed), int(times.sum()), max(1, _CELLS // len(patterns))
    sizes = [min(block, draw.n_resamples - start) for start in range(0, draw.n_resamples, block)]
    drawn = np.concatenate([statistic(rng.multinomial(units, times / units, size=size) @ patterns) for size in sizes])
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < len(drawn):
        name = f"{found.interval} ({len(drawn) - len(defined)} of {len(drawn)} undefined)"
        found = replace(found, interval=name)
    if not len(defined) or defined.min() == defined.max():
        return found
    low, high = np.quantile(defined, [(1 - draw.confidence) / 2, (1 + draw.confidence) / 2])
    return replace(found, ci_low=float(low), ci_high=float(high))


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def _ratio_of_rates(sums: Floats) -> Floats:
    rates = _divide(sums[:, [0, 2]], sums[:, [1, 3]])
    return _divide(rates.min(axis=1), rates.max(axis=1))  # of a NaN rate both are NaN, and NaN > 0 is false


def one_factor(cluster_ids: ClusterIds) -> Any:
    """The clusters of the one factor that a rate allows for; None without any.

    Raises:
        ValueError: several factors that cross.
    """
    if not isinstance(cluster_ids, Mapping):
        return cluster_ids
    if len(cluster_ids) > 1:
        raise ValueError(
            f"cluster_ids with the factors {', '.join(cluster_ids)}, expected one: no interval of rates allows for "
            "several. Give the one that differs most."
        )
    return next(iter(cluster_ids.values()), None)


def dependence(rows: int, unit_ids: Ids, cluster_ids: ClusterIds) -> tuple[Codes, Codes]:
    """Unit and cluster of each row as integers from 0; None for ids that are not given."""
    clusters = one_factor(cluster_ids)
    if unit_ids is not None and len(unit_ids) != rows:
        raise ValueError(f"{rows} rows and {len(unit_ids)} ids of their notes, expected one id per row.")
    units = None if unit_ids is None else np.unique(known_ids(unit_ids, "pair_ids"), return_inverse=True)[1]
    if clusters is None:
        return units, None
    factors = factor_codes(clusters, rows) if unit_ids is None else factors_of_pairs(clusters, unit_ids)
    return units, factors[""]


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


def _names_of(groups: Sequence[str], reference: str) -> tuple[str, str]:
    names = list(map(str, groups))
    reference = named_group(reference, names)
    return next(name for name in names if name != reference), reference


def _higher(balance: float, groups: Sequence[str], reference: str) -> str:
    """The group that a difference favours; "" where it is 0 or NaN."""
    other, reference = _names_of(groups, reference)
    return other if balance > 0 else reference if balance < 0 else ""


def _texts(values: Sequence[str]) -> NDArray[np.str_]:
    return np.asarray(["" if value is None or value != value else str(value) for value in values], dtype=np.str_)
