"""Rates of classifiers that read both versions of a note; each is made of shares of rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.errors import UsageError
from swapbias.measures.contrast import FLAT_SUMS
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
        more, fewer: pairs where only the other (``fewer``: the reference) group's version is positive; NaN of classes
            of which none is said to be the positive one.
        higher_group: the group with more positives, or with the higher mean score where they tie; "" for a tie.
    """

    estimate: Estimate
    more: float
    fewer: float
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
    positive: Any = None,
    cluster_ids: ClusterIds = None,
    confidence: float = 0.95,
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Flips:
    """Mismatch ratio: share of pairs whose two versions get different predictions, with Wilson's interval.

    The p-value is that of "as many flip one way as the other": exact McNemar's test; of more than two classes, none
    of which is ``positive``, Bowker's statistic of symmetry over random swaps of the versions.

    Args:
        answers: shape (rows,), 1 or 0, or classes: texts, or other whole numbers. NaN, None or "" where there is no
            prediction, which leaves the pair out.
        groups: shape (rows,), exactly two values.
        pair_ids: shape (rows,); each id stands once per group.
        reference_group: swapping it swaps ``more`` and ``fewer``; the value stays.
        scores: shape (rows,), probabilities; they tell the direction where both groups get as many positives.
        positive: of classes the one that ``more``, ``fewer``, the direction and the test are about; the value stays
            the share of pairs with different classes. 1 of answers that are 1 or 0. Of a class that no answer has
            none are positive.
        cluster_ids: shape (rows,); pairs of one cluster (a subject's notes) are not independent. The interval is then
            Wilson's on the effective number of pairs, and the test flips the versions of whole clusters.
        confidence: coverage of the interval.
        seed, n_resamples: of the tests with clusters or classes, exact where all ways to flip them fit in.

    Returns:
        No pair: NaN. No discordant pair: the p-value is NaN. One cluster: interval and p-value are NaN.

    Raises:
        ValueError: answers that are neither classes nor 1, 0 and NaN, not two groups, an incomplete or repeated pair,
            a cluster that splits a pair, several crossed factors.

    Example:
        >>> found = flip_rate([1, 0, 1, 1], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> found.estimate.value, found.more, found.higher_group
        (0.5, 1, 'f')
        >>> found = flip_rate(["x", "y", "z", "z"], ["f", "m", "f", "m"], ["a", "a", "b", "b"], reference_group="m")
        >>> found.estimate.value, found.more
        (0.5, nan)
    """
    label = _classes(answers)
    mark = positives(answers, positive)
    pairs = align_pairs(label, groups, pair_ids, reference_group=reference_group)
    clusters = _one_factor(cluster_ids)
    codes = None if clusters is None else factors_of_pairs(clusters, pair_ids)[""][pairs.rows]
    draw, differs = Draw(confidence, seed, n_resamples), (pairs.differences != 0)[:, None].astype(np.float64)
    share = ShareSum(differs, np.ones_like(differs), (1.0,), clusters=codes)
    low, high = share.interval(draw.confidence)
    interval = "Wilson" if codes is None else "Wilson on effective pairs"
    more = fewer = balance = math.nan
    if mark is None:
        p_value, test = symmetry_p(pairs.other, pairs.reference, codes, draw), "symmetry of classes, versions swapped"
    else:
        marked = align_pairs(mark, groups, pair_ids, reference_group=reference_group).differences
        more, fewer = int((marked > 0).sum()), int((marked < 0).sum())
        balance = _balance(scores, mark, groups, pair_ids, reference_group) if more == fewer else more - fewer
        p_value, test = mcnemar_p(more, fewer), "exact McNemar"
        if codes is not None:
            sums = np.bincount(codes, weights=marked).astype(np.float64)
            p_value = sign_flip_p(sums, seed=draw.seed, n_resamples=draw.n_resamples)
            test = "sign-flip permutation of clusters"
    estimate = Estimate(
        share.value, low, high, p_value=p_value, n=len(differs), n_unscored=pairs.n_unscored, test=test,
        interval=interval,
    )  # fmt: skip
    return Flips(estimate, more, fewer, _higher(balance, _names_of(groups, reference_group)))


def _balance(
    scores: ArrayLike | None, mark: Floats, groups: Sequence[str], pair_ids: Sequence[str], reference_group: str
) -> float:
    """What the other group's scores have more than the reference group's, in all; 0 without scores."""
    if scores is None:
        return 0.0
    score = np.array(scores, dtype=np.float64)
    if score.shape != mark.shape:
        raise ValueError(f"scores of shape {score.shape}, {len(mark)} answers: expected one of each per row.")
    score[np.isnan(mark)] = np.nan
    apart = align_pairs(score, groups, pair_ids, reference_group=reference_group).differences
    total = float(apart.sum())
    return total if abs(total) > _TIE * float(np.abs(apart).sum()) else 0.0


def positives(answers: ArrayLike, positive: Any = None) -> Floats | None:
    """1 where an answer is the positive one, 0 where it is another, NaN where there is none.

    None where the answers are classes and none of them is said to be positive.

    >>> positives(["x", "y", ""], "x").tolist(), positives(["x", "y", ""])
    ([1.0, 0.0, nan], None)
    """
    code = _classes(answers)
    if positive is None:
        return code if np.isin(code[~np.isnan(code)], (0, 1)).all() and not _worded(answers) else None
    is_positive = _named(answers) == str(positive) if _worded(answers) else code == float(positive)
    return np.where(np.isnan(code), np.nan, is_positive)


def symmetry_p(other: Floats, reference: Floats, codes: Codes, draw: Draw) -> float:
    """p of "the versions may be swapped" for classes: Bowker's statistic over swaps of pairs (or clusters of them).

    Each pair of classes adds the square of how many more flip one way than the other over how many flip. Of two
    classes it is the exact McNemar's test. NaN where nothing flips, or with one cluster.

    >>> from swapbias.measures.intervals import Draw
    >>> symmetry_p(np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0]), None, Draw(0.95, 0, 99)) == mcnemar_p(3, 0)
    True
    """
    flips = np.flatnonzero(other != reference)
    units = np.arange(len(other)) if codes is None else codes
    if not len(flips) or (codes is not None and len(np.unique(codes)) < 2):
        return math.nan
    both = np.sort(np.column_stack([other[flips], reference[flips]]), axis=1)
    kinds = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    rows = np.unique(units[flips], return_inverse=True)[1]
    nets = np.zeros((rows.max() + 1, kinds.max() + 1))
    np.add.at(nets, (rows, kinds), np.where(other[flips] > reference[flips], 1.0, -1.0))
    sizes = np.bincount(kinds)
    nets = nets[nets.any(axis=1)]
    observed = float((nets.sum(axis=0) ** 2 / sizes).sum()) * (1 - FLAT_SUMS)
    if 2 ** len(nets) <= draw.n_resamples:
        signs = 1.0 - 2 * (np.arange(2 ** len(nets))[:, None] >> np.arange(len(nets)) & 1)
        return float((((signs @ nets) ** 2 / sizes).sum(axis=1) >= observed).mean())
    rng, found, block = np.random.default_rng(draw.seed), 1, max(1, _CELLS // len(nets))
    for start in range(0, draw.n_resamples, block):
        signs = rng.choice((-1.0, 1.0), size=(min(block, draw.n_resamples - start), len(nets)))
        found += int((((signs @ nets) ** 2 / sizes).sum(axis=1) >= observed).sum())
    return found / (draw.n_resamples + 1)


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
        ids, unit = _one_factor(cluster_ids), "clusters"
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


def _one_factor(cluster_ids: ClusterIds) -> Ids:
    """The clusters of the one factor that a rate allows for; None without any.

    Raises:
        ValueError: several factors that cross.
    """
    if not isinstance(cluster_ids, Mapping):
        return cluster_ids  # type: ignore[return-value]
    if len(cluster_ids) > 1:
        raise ValueError(
            f"cluster_ids with the factors {', '.join(cluster_ids)}, expected one: no interval of rates allows for "
            "several. Give the one that differs most."
        )
    return next(iter(cluster_ids.values()), None)  # type: ignore[return-value]


def _dependence(rows: int, unit_ids: Ids, cluster_ids: ClusterIds) -> tuple[Codes, Codes]:
    """Unit and cluster of each row as integers from 0; None for ids that are not given."""
    cluster_ids = _one_factor(cluster_ids)
    if unit_ids is not None and len(unit_ids) != rows:
        raise ValueError(f"{rows} rows and {len(unit_ids)} ids of their notes, expected one id per row.")
    units = None if unit_ids is None else np.unique(known_ids(unit_ids, "pair_ids"), return_inverse=True)[1]
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
    names = list(map(str, groups))
    reference = named_group(reference, names)
    return next(name for name in names if name != reference), reference


def _higher(balance: float, names: tuple[str, str]) -> str:
    return names[0] if balance > 0 else names[1] if balance < 0 else ""


def _binary(values: ArrayLike, name: str) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    strange = found[~(np.isnan(found) | (found == 0) | (found == 1))]
    if found.ndim != 1 or len(strange):
        raise ValueError(f"{name} of shape {found.shape} with {strange[:3].tolist()}, expected 1, 0 or NaN per row.")
    return found


def _worded(answers: ArrayLike) -> bool:
    """Whether answers are names of classes."""
    return any(isinstance(one, str) for one in np.asarray(answers, dtype=object).ravel().tolist())


def _named(answers: ArrayLike) -> NDArray[np.str_]:
    return _texts(np.asarray(answers, dtype=object).tolist())


def _classes(answers: ArrayLike) -> Floats:
    """Numbers of classes, NaN where there is none; 1 and 0 stay what they are."""
    if _worded(answers):
        names = _named(answers)
        return np.where(names == "", np.nan, np.unique(names, return_inverse=True)[1])
    found = np.asarray(answers, dtype=np.float64)
    whole = found.ndim == 1 and not np.isinf(found).any() and np.all(np.isnan(found) | (found == np.round(found)))
    return found if whole else _binary(answers, "answers")


def _labelled(answers: ArrayLike, labels: ArrayLike) -> tuple[Floats, Floats]:
    answer, label = _binary(answers, "answers"), _binary(labels, "labels")
    if len(answer) != len(label) or np.isnan(label).any():
        raise ValueError(f"{len(answer)} answers, {len(label)} labels: expected one of each per row, no label NaN.")
    return answer, label


def _texts(values: Sequence[str]) -> NDArray[np.str_]:
    return np.asarray(["" if value is None or value != value else str(value) for value in values], dtype=np.str_)
