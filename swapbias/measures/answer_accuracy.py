"""Answers to questions: how often they are right on either side of a stereotype, and what closed options say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.contrast import cohens_d, mean_of, t_ends, t_p
from swapbias.measures.estimate import (
    ClusterIds,
    Estimate,
    Floats,
    align_pairs,
    factors_of_pairs,
    known_ids,
    two_groups,
)
from swapbias.measures.gaps import paired_gap, pooled_error

CLASSES = ("correct", "incorrect", "unsure", "other")
SAID = "said_"  # before a class: the column that holds 1 where the tolerant parser gives it
REFUSED, UNREADABLE = "refused", "unreadable"  # what an answer is that gives no option
_POINTS = 100.0  # a share in percent; a difference of two in percentage points
_MOST_HIDDEN = 0.05  # of a score's range: the margin below which a gap counts as none


@dataclass(frozen=True, slots=True)
class AnswerBias:
    """How much more often the pro-stereotyped version of a sentence is answered right than the anti one.

    Attributes:
        estimate: accuracy on pro minus accuracy on anti, in percentage points; 0: equal, above 0: the stereotype
            helps. ``n`` counts sentences, ``n_unscored`` those that were never asked in both versions.
        accuracies: percent of right answers by side; unsure and unreadable ones count as wrong.
        shares: by side and class of answer, 0 to 1; those of a side sum to 1.
        unparsed: share of answers of class ``other`` over both sides, 0 to 1.
    """

    estimate: Estimate
    accuracies: dict[str, float]
    shares: dict[str, dict[str, float]]
    unparsed: float


@dataclass(frozen=True, slots=True)
class BiasDifference:
    """Mean bias of some trials minus that of others; ``p_one_sided`` looks in the direction that was observed."""

    estimate: Estimate
    p_one_sided: float


def answer_bias(
    classes: Sequence[str | None],
    sides: Sequence[str],
    *,
    pair_ids: Sequence[str],
    trial_ids: Sequence[str] | None = None,
    sentence_ids: Sequence[str] | None = None,
    cluster_ids: ClusterIds = None,
    reference_group: str = "anti",
    confidence: float = 0.95,
) -> AnswerBias:
    """Accuracy on the pro-stereotyped sentences minus accuracy on the anti-stereotyped ones, in percentage points.

    Args:
        classes: shape (rows,), of ``CLASSES``; None, NaN or "" where nothing was asked.
        sides: shape (rows,), exactly two values.
        pair_ids: shape (rows,); each id stands once per side and trial.
        trial_ids: shape (rows,); None for one trial.
        sentence_ids: shape (rows,); pairs of one sentence (under all its adjectives) are not independent. Without
            them each pair is a sentence.
        cluster_ids: shape (rows,), as in ``paired_gap``: the occupations of a sentence; all its rows share them.
        reference_group: the side that is subtracted.
        confidence: coverage of the interval.

    Returns:
        The ``paired_gap`` of the ``sentence_means``: trials that repeat one another change neither interval, p-value
        nor ``n``. No sentence, or no answer that could be read (all of class ``other``): NaN. Sentences that are all
        alike: interval and p-value are NaN.

    Raises:
        ValueError: an unknown class, not two sides, unequal lengths, an incomplete or repeated pair, a sentence that
            splits a pair.

    >>> classes = ["correct", "unsure", "correct", "correct"]
    >>> found = answer_bias(classes, ["pro", "anti"] * 2, pair_ids=["s1", "s1", "s2", "s2"])
    >>> found.estimate.value, found.accuracies
    (50.0, {'pro': 100.0, 'anti': 50.0})
    """
    trials = ["1"] * len(pair_ids) if trial_ids is None else trial_ids
    if len(trials) != len(pair_ids):
        raise ValueError(f"{len(trials)} trial_ids and {len(pair_ids)} pair_ids, expected one of each per row.")
    code = _codes(classes)
    units = [f"{trial}/{pair}" for trial, pair in zip(trials, known_ids(pair_ids, "pair_ids").tolist(), strict=True)]
    asked = align_pairs(code, sides, units, reference_group=reference_group)
    right = np.where(np.isnan(code), np.nan, _POINTS * (code == 0))
    means = sentence_means(right, sides, pair_ids, sentence_ids, reference_group=reference_group)
    names = (next(str(side) for side in sides if str(side) != reference_group), reference_group)
    ids = pair_ids if sentence_ids is None else sentence_ids
    first = np.sort(np.unique(np.asarray(ids), return_index=True)[1])
    estimate = paired_gap(
        means.T.ravel(),
        np.repeat(names, len(means)).tolist(),
        [str(at) for at in range(len(means))] * 2,
        reference_group=reference_group,
        cluster_ids={name: np.tile(codes[first], 2) for name, codes in factors_of_pairs(cluster_ids, ids).items()},
        confidence=confidence,
    )
    if (code[~np.isnan(code)] == CLASSES.index("other")).all():  # nothing was read: that is no equal treatment
        estimate = Estimate(math.nan, n_unscored=len(means), test=estimate.test, interval=estimate.interval)
    known = means[~np.isnan(means[:, 0])]
    return AnswerBias(
        estimate,
        {name: mean_of(known[:, side]) for side, name in enumerate(names)},
        {name: _shares(part) for name, part in zip(names, (asked.other, asked.reference), strict=True)},
        _shares(np.concatenate([asked.other, asked.reference]))["other"],
    )


def sentence_means(
    scores: ArrayLike,
    sides: Sequence[str],
    pair_ids: Sequence[str],
    sentence_ids: Sequence[str] | None = None,
    *,
    reference_group: str,
) -> Floats:
    """Mean score of both sides of each sentence, the other one first, in the order of their first rows.

    Over the rows of a pair (its trials) first, then over the pairs of a sentence (its adjectives): neither further
    trials nor further adjectives are further sentences. Pairs with an unscored side are left out on both; NaN for a
    sentence that keeps none. Shape (sentences, 2).

    >>> sentence_means([1, 0, 0, 0], ["pro", "pro", "anti", "anti"], ["s1"] * 4, reference_group="anti").tolist()
    [[0.5, 0.0]]
    """
    score, is_reference = two_groups(scores, sides, reference_group)
    _, first, pair = np.unique(known_ids(pair_ids, "pair_ids"), return_index=True, return_inverse=True)
    codes = pair[first] if sentence_ids is None else factors_of_pairs(sentence_ids, pair_ids)[""][first]
    sides_of = (np.where(side, score, np.nan) for side in (~is_reference, is_reference))
    by_pair = np.column_stack([_means_by(pair, side) for side in sides_of])
    by_pair[np.isnan(by_pair).any(axis=1)] = np.nan
    starts = np.full(int(codes.max()) + 1, len(score))
    np.minimum.at(starts, codes, first)
    return np.column_stack([_means_by(codes, side)[np.argsort(starts)] for side in by_pair.T])


def _means_by(codes: NDArray[np.intp], values: Floats) -> Floats:
    """Mean of the values of each unit that are not NaN; NaN of none."""
    known, units = ~np.isnan(values), int(codes.max()) + 1
    sums = np.bincount(codes[known], weights=values[known], minlength=units)
    counts = np.bincount(codes[known], minlength=units)
    return np.asarray(np.divide(sums, counts, out=np.full(units, np.nan), where=counts > 0))


def trial_biases(
    classes: Sequence[str | None],
    sides: Sequence[str],
    *,
    trial_ids: Sequence[str],
    reference_group: str = "anti",
    decimals: int | None = None,
) -> dict[str, float]:
    """Bias of each trial in percentage points, in the order of the trials; NaN for one that lacks a side.

    With ``decimals`` the two accuracies of a trial, in percent, and their difference are rounded, as published (1).
    """
    code, side, trial = _codes(classes), np.asarray(sides), np.asarray(trial_ids)
    if not len(code) == len(side) == len(trial):
        raise ValueError(f"{len(code)} classes, {len(side)} sides, {len(trial)} trials: expected one per row.")
    found = {}
    for name in dict.fromkeys(trial.tolist()):
        mine, anti = (trial == name) & ~np.isnan(code), side == reference_group
        pro, against = (_POINTS * mean_of((code[mine & part] == 0).astype(np.float64)) for part in (~anti, anti))
        found[str(name)] = _rounded(_rounded(pro, decimals) - _rounded(against, decimals), decimals)
    return found


def difference_of_biases(
    trials: ArrayLike, baseline: ArrayLike, *, decimals: int | None = None, confidence: float = 0.95
) -> BiasDifference:
    """Mean bias over trials minus that of the baseline's trials, tested as published: pooled t over the trials.

    Args:
        trials, baseline: shape (trials,), biases in percentage points; NaN ones are left out and counted.
        decimals: the means are rounded before they are compared, as the study did (1); None: not.
        confidence: coverage of the t interval.

    Returns:
        Above 0: more bias than the baseline. ``n`` counts trials of both. Fewer than two on a side, or no variance:
        p-values and interval are NaN. It asks whether further trials on the same sentences would give the same,
        not whether other sentences would.
    """
    every = [np.asarray(side, dtype=np.float64) for side in (trials, baseline)]
    known = [side[~np.isnan(side)] for side in every]
    value, n = _rounded(mean_of(known[0]), decimals) - _rounded(mean_of(known[1]), decimals), sum(map(len, known))
    error, freedom = pooled_error(*known)
    low, high = t_ends(value, error, freedom, confidence)
    p_value = t_p(value, error, freedom)
    estimate = Estimate(
        value, low, high, cohens_d(*known), p_value=p_value, n=n, n_unscored=sum(map(len, every)) - n,
        test="independent t (equal variance)", interval="pooled t",
    )  # fmt: skip
    return BiasDifference(estimate, p_value / 2)


def _codes(classes: Sequence[str | None]) -> Floats:
    """Place of each class in ``CLASSES``; NaN where nothing was asked."""
    known = {name: float(place) for place, name in enumerate(CLASSES)}
    # NaN, the only thing that differs from itself, is what a table makes of None.
    names = ["" if name is None or name != name else str(name) for name in classes]
    strange = sorted(set(names) - {*CLASSES, ""})
    if strange:
        raise ValueError(f"classes {strange[:3]}, expected {', '.join(CLASSES)} or None. Use answer_class.")
    return np.array([known.get(name, math.nan) for name in names], dtype=np.float64)


def _shares(codes: Floats) -> dict[str, float]:
    return {name: mean_of((codes == place).astype(np.float64)) for place, name in enumerate(CLASSES)}


def _rounded(value: float, decimals: int | None) -> float:
    return value if decimals is None else round(value, decimals)


# --- closed questions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """One way to answer: its words, as the question has them, and what it counts (NaN: ``Do not know``)."""

    text: str
    value: float


def options_of(candidates: str) -> tuple[Option, ...]:
    """The options of a closed question, in their order.

    >>> [one.text for one in options_of("0=Not likely|1=Very likely|=Do not know") if one.value >= 0]
    ['Not likely', 'Very likely']

    Args:
        candidates: ``value=option`` joined by bars, at least two; the value blank where an option says nothing.

    Raises:
        ValueError: anything else, or one option twice.
    """
    parts = [part.partition("=") for part in candidates.split("|")]
    try:
        found = tuple(Option(text.strip(), float(value) if value.strip() else math.nan) for value, _, text in parts)
    except ValueError:
        found = ()
    texts = {one.text.casefold() for one in found}
    if len(found) < 2 or texts & {"", REFUSED, UNREADABLE} or len(texts) < len(found):
        raise ValueError(f"candidates {candidates!r}, expected value=option|value=option of different options.")
    return found


@dataclass(frozen=True, slots=True)
class OptionOdds:
    """What the probabilities of a question's options say, averaged over orders of the options.

    Attributes:
        score: the mean value of the options that count something, weighted by their probabilities: what the mean of
            many sampled answers comes to. NaN: no option has a probability, or what is hidden could move the score by
            more than 5 % of its range.
        log_odds: nats: log p(options above the middle of the values) - log p(options below), in each order and
            averaged over them, so that a letter that is liked in itself cancels. 0: both are as likely; above 0 those
            that count more are likelier. NaN: one of the two has no probability.
        unanswered: probability of the options that count nothing, as a share of all options; NaN where none has any.
        outside: probability of anything but an option, with what is hidden; 0: the model says options alone.
        hidden: the part of it that was not shown (beyond the first k tokens of a service), which may be options'.
    """

    score: float
    log_odds: float
    unanswered: float
    outside: float
    hidden: float


def option_odds(logs: ArrayLike, values: ArrayLike, hidden: ArrayLike = 0.0) -> OptionOdds:
    """Score and log-odds of one question from the probabilities of its options in each order that was asked.

    >>> one = option_odds(np.log([[0.6, 0.2, 0.1], [0.4, 0.4, 0.1]]), [1, 0, math.nan])
    >>> round(one.score, 3), round(one.log_odds, 3), round(one.unanswered, 3), round(one.outside, 3)
    (0.625, 0.549, 0.111, 0.1)

    Args:
        logs: shape (orders, options), natural log-probabilities; the columns are the same options in every order,
            wherever they stood. -inf: impossible, or not shown.
        values: shape (options,), what each counts; NaN: nothing.
        hidden: shape (orders,), probability of what was not shown.

    Raises:
        ValueError: fewer than two options that count something different, or a log-probability that is NaN.
    """
    known, counts = np.asarray(logs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    unseen, counted = float(np.mean(np.asarray(hidden, dtype=np.float64))), ~np.isnan(counts)
    low, high = np.min(counts[counted], initial=math.inf), np.max(counts[counted], initial=-math.inf)
    if not low < high:
        raise ValueError(f"options that count {counts.tolist()}, expected two at least that count different numbers.")
    if np.isnan(known).any():
        raise ValueError("a log-probability of an option is NaN, expected numbers. Check the model.")
    most = float(known.max())
    if most == -math.inf:
        return OptionOdds(math.nan, math.nan, math.nan, 1.0, unseen)
    shares = np.exp(known - most).mean(axis=0)  # averaged over orders; small ones do not vanish
    said, total, score = float(shares[counted].sum()), float(shares.sum()), math.nan
    if said:
        score = float(shares[counted] @ counts[counted]) / said
        rest = unseen * math.exp(min(-most, 700.0))
        if rest / (said + rest) * max(high - score, score - low) > _MOST_HIDDEN * (high - low):
            score = math.nan  # were all that is hidden one option, the mean would be another
    middle = (low + high) / 2
    above, below = (scipy.special.logsumexp(known[:, side], axis=1) for side in (counts > middle, counts < middle))
    sure = np.isfinite(above).all() and np.isfinite(below).all()
    return OptionOdds(
        score, float((above - below).mean()) if sure else math.nan, 1 - said / total,
        max(0.0, 1 - total * math.exp(most)), unseen,
    )  # fmt: skip
