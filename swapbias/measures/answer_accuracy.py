"""Answers: how often they are right on either side of a stereotype, and what the probabilities of words say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from swapbias.measures.contrast import mean_of, pooled_error, pooled_spread, ratio, t_ends, t_p
from swapbias.measures.estimate import ClusterIds, Estimate, Floats, by_pair, factor_codes, known_ids, two_groups
from swapbias.measures.gaps import paired_gap

CLASSES = ("correct", "incorrect", "unsure", "other")
SAID = "said_"  # before a class: the column that holds 1 where the tolerant parser gives it
REFUSED, UNREADABLE = "refused", "unreadable"  # what an answer is that gives no option
_POINTS = 100.0  # a share in percent; a difference of two in percentage points
_MOST_HIDDEN = 0.05  # of a score's range: the margin below which a gap counts as none
_TIE = 1e-6  # float32 noise: a token this close below the threshold counts as on it


@dataclass(frozen=True, slots=True)
class AnswerBias:
    """How much more often the pro-stereotyped version of a sentence is answered right than the anti one.

    Accuracy on pro minus accuracy on anti in percentage points; 0: equal, above 0: the stereotype helps. ``n`` counts
    sentences, ``n_unscored`` those that were never asked in both versions.
    """

    estimate: Estimate
    accuracies: dict[str, float]  # percent of right answers by side; unsure and unreadable ones count as wrong
    shares: dict[str, dict[str, float]]  # by side and class of answer, 0 to 1; those of a side sum to 1
    unparsed: float  # share of answers of class ``other`` over both sides, 0 to 1


@dataclass(frozen=True, slots=True)
class BiasDifference:
    """Mean bias of some trials minus that of others; ``p_one_sided`` looks in the direction that was observed."""

    estimate: Estimate
    p_one_sided: float


def answer_bias(
    classes: Sequence[str | None], sides: Sequence[str], *, pair_ids: Sequence[str],
    trial_ids: Sequence[str] | None = None, sentence_ids: Sequence[str] | None = None,
    cluster_ids: ClusterIds = None, reference_group: str = "anti", confidence: float = 0.95,
) -> AnswerBias:  # fmt: skip
    """Accuracy on the pro-stereotyped sentences minus accuracy on the anti-stereotyped ones, in percentage points.

    Args:
        classes: shape (rows,), of ``CLASSES``; None, NaN or "" where nothing was asked.
        sides: shape (rows,), exactly two values; ``reference_group`` is subtracted.
        pair_ids: shape (rows,); each id stands once per side and trial.
        trial_ids: shape (rows,); None for one trial.
        sentence_ids: shape (rows,); pairs of one sentence (under all its adjectives) are not independent. Without
            them each pair is a sentence.
        cluster_ids: shape (rows,), as in ``paired_gap``: the occupations of a sentence; all its rows share them.

    Returns:
        The ``paired_gap`` of the ``sentence_means``: trials that repeat one another change neither interval, p-value
        nor ``n``. No sentence, or no answer that could be read (all of class ``other``): NaN.

    >>> classes = ["correct", "unsure", "correct", "correct"]
    >>> found = answer_bias(classes, ["pro", "anti"] * 2, pair_ids=["s1", "s1", "s2", "s2"])
    >>> found.estimate.value, found.accuracies
    (50.0, {'pro': 100.0, 'anti': 50.0})
    """
    trials = ["1"] * len(pair_ids) if trial_ids is None else trial_ids
    if len(trials) != len(pair_ids):
        raise ValueError(f"{len(trials)} trial_ids and {len(pair_ids)} pair_ids, expected one of each per row.")
    code, side, names = two_groups(_codes(classes), sides, reference_group)
    units = [f"{trial}/{pair}" for trial, pair in zip(trials, known_ids(pair_ids, "pair_ids").tolist(), strict=True)]
    answers = by_pair(code, side, units, names)[0]
    answers = answers[~np.isnan(answers).any(axis=1)]
    rows = rows_by_sentence(classes, sides, pair_ids, sentence_ids, cluster_ids)
    estimate = paired_gap(**rows, reference_group=reference_group, confidence=confidence)
    means = {name: rows["scores"][rows["groups"] == name] for name in names}
    if (code[~np.isnan(code)] == CLASSES.index("other")).all():  # nothing was read: that is no equal treatment
        sentences = len(means[names[0]])
        estimate = Estimate(math.nan, n_unscored=sentences, test=estimate.test, interval=estimate.interval)
    return AnswerBias(
        estimate,
        {name: mean_of(one[~np.isnan(one)]) for name, one in means.items()},
        {name: _shares(part) for name, part in zip(names, answers.T, strict=True)},
        _shares(answers.ravel())["other"],
    )


def rows_by_sentence(
    classes: Sequence[str | None], sides: Sequence[str], pair_ids: Sequence[str], sentence_ids: Any,
    clusters: ClusterIds,
) -> dict[str, Any]:  # fmt: skip
    """Percent of right answers of each sentence and side, as arguments of ``paired_gap`` and ``omnibus``."""
    code = _codes(classes)
    names, side = np.unique([str(name) for name in sides], return_inverse=True)
    right = np.where(np.isnan(code), np.nan, _POINTS * (code == 0))
    means, first = _sentence_means(right, side, pair_ids, sentence_ids)
    factors = factor_codes(clusters, len(code), pair_ids if sentence_ids is None else sentence_ids)
    return {
        "scores": means.T.ravel(), "groups": np.repeat(names, len(means)),
        "pair_ids": np.tile(np.arange(len(means)), len(names)),
        "cluster_ids": {name: np.tile(codes[first], len(names)) for name, codes in factors.items()},
    }  # fmt: skip


def sentence_means(
    scores: ArrayLike, sides: Sequence[str], pair_ids: Sequence[str], sentence_ids: Sequence[str] | None = None,
    *, reference_group: str,
) -> Floats:  # fmt: skip
    """Mean score of both sides of each sentence, the other one first, in the order of their first rows.

    Over the rows of a pair (its trials) first, then over the pairs of a sentence (its adjectives): neither further
    trials nor further adjectives are further sentences. Pairs with an unscored side are left out on both; NaN for a
    sentence without any other. Shape (sentences, 2).
    """
    score, side, _ = two_groups(scores, sides, reference_group)
    return _sentence_means(score, side, pair_ids, sentence_ids)[0]


def _sentence_means(
    score: Floats, side: NDArray[np.intp], pair_ids: Any, sentence_ids: Any
) -> tuple[Floats, NDArray[np.intp]]:
    """Of any number of sides, (sentences, sides); and the first row of each sentence, in the order of these."""
    _, of_pair, pair = np.unique(known_ids(pair_ids, "pair_ids"), return_index=True, return_inverse=True)
    sentence = pair
    if sentence_ids is not None:
        sentence = factor_codes(sentence_ids, len(score), pair_ids)[""]
    by_pair = _means_by(pair, np.where(side[:, None] == np.arange(side.max() + 1), score[:, None], np.nan))
    by_pair[np.isnan(by_pair).any(axis=1)] = np.nan
    first = np.unique(sentence, return_index=True)[1]
    order = np.argsort(first)
    return _means_by(sentence[of_pair], by_pair)[order], first[order]


def _means_by(codes: NDArray[np.intp], values: Floats) -> Floats:
    """Means of each unit and column of what is not NaN; NaN of none."""
    known = ~np.isnan(values)
    sums, counts = np.zeros((2, int(codes.max()) + 1, values.shape[1]))
    np.add.at(sums, codes, np.where(known, values, 0))
    np.add.at(counts, codes, known)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def trial_biases(
    classes: Sequence[str | None], sides: Sequence[str], *, trial_ids: Sequence[str],
    reference_group: str = "anti", decimals: int | None = None,
) -> dict[str, float]:  # fmt: skip
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


def difference_of_biases(trials: ArrayLike, baseline: ArrayLike, *, decimals: int | None = None) -> BiasDifference:
    """Mean bias over trials minus that of the baseline's trials, tested as published: pooled t over the trials.

    Biases are percentage points; NaN ones are left out and counted. With ``decimals`` the means are rounded before
    they are compared, as the study did (1). Above 0: more bias than the baseline. ``n`` counts trials of both. Fewer
    than two on a side, or no variance: no test. It asks whether further trials on the same sentences would give the
    same, not whether other sentences would.
    """
    every = [np.asarray(side, dtype=np.float64) for side in (trials, baseline)]
    known = [side[~np.isnan(side)] for side in every]
    means, n = [mean_of(side) for side in known], sum(map(len, known))
    value = _rounded(means[0], decimals) - _rounded(means[1], decimals)
    error, freedom = pooled_error(*known)
    p_value = t_p(value, error, freedom)
    estimate = Estimate(
        value, *t_ends(value, error, freedom, 0.95), ratio(means[0] - means[1], pooled_spread(known)),
        p_value=p_value, n=n, n_unscored=sum(map(len, every)) - n, test="independent t (equal variance)",
        interval="pooled t",
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


@dataclass(frozen=True, slots=True)
class Option:
    """One way to answer: its words, as the question has them, and what it counts (NaN: ``Do not know``)."""

    text: str
    value: float


def options_of(candidates: str) -> tuple[Option, ...]:
    """The options of a closed question, in their order, from ``value=option`` joined by bars; blank: it says nothing.

    ValueError: anything else, fewer than two, or one option twice.

    >>> [one.text for one in options_of("0=Not likely|1=Very likely|=Do not know") if one.value >= 0]
    ['Not likely', 'Very likely']
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
        log_odds: nats: log p(options above the middle of the values) - log p(options below), averaged over orders, so
            that a letter that is liked in itself cancels. 0: both are as likely; above 0 those that count more are
            likelier. NaN: one of the two has no probability.
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
    """Score and log-odds of one question from the probabilities of its options in each order.

    Args:
        logs: shape (orders, options), natural log-probabilities; the columns are the same options in every order,
            wherever they stood. -inf: impossible, or not shown.
        values: shape (options,), what each counts; NaN: nothing. ValueError unless two count something different.
        hidden: shape (orders,), probability of what was not shown.
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


def label_masses(
    tokens: Sequence[str], probabilities: ArrayLike, labels: Mapping[str, str], *, threshold: float = 0.0
) -> dict[str, float]:
    """Probability mass of each label among one prompt's likeliest tokens, 0 to 1, not renormalised.

    ``labels`` are those of words in lower case; every other token is ``unspecified``. Tokens are compared as
    ``plain_word``. ValueError: unequal lengths, or probabilities outside 0..1 or summing to more than 1.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != (len(tokens),):
        raise ValueError(f"{len(tokens)} tokens and probabilities of shape {p.shape}, expected one for each.")
    if not np.all((p >= 0) & (p <= 1)) or p.sum() > 1 + 1e-4:
        raise ValueError(f"probabilities that sum to {p.sum():g}, expected each in 0..1 and at most 1 in all.")
    names = list(dict.fromkeys([*labels.values(), "unspecified"]))
    codes = np.array([names.index(labels.get(plain_word(token), "unspecified")) for token in tokens], dtype=np.intp)
    (masses,) = mass_by_label(p[None], codes, len(names), threshold=threshold).tolist()
    return dict(zip(names, masses, strict=True))


def plain_word(token: str) -> str:
    """A token as a word in lower case, without the marks of tokenizers; a piece that goes on a word stays as it is.

    >>> [plain_word(token) for token in ("ĠHe", "▁he", " he", "he</w>", "##he")]
    ['he', 'he', 'he', 'he', '##he']
    """
    return token.strip().lstrip("Ġ▁").removesuffix("</w>").strip().lower()


def mass_by_label(
    probabilities: NDArray[np.floating[Any]], codes: NDArray[np.integer[Any]], labels: int, *, threshold: float = 0.0
) -> Floats:
    """Probability mass of each label in each row, shape (rows, labels), added up in float64 from left to right.

    Args:
        probabilities: shape (rows, tokens), float32 or float64.
        codes: the label of each token, 0 to ``labels`` - 1: the same shape, or (tokens,) for all rows.
        threshold: what lies below it by more than float32 noise (1e-6) is not counted.
    """
    if math.isnan(threshold):
        raise ValueError("threshold is nan, expected a number. Give one, such as 0.")
    rows = len(probabilities)
    counted = np.where(probabilities >= threshold - _TIE, probabilities, 0)
    cells = np.arange(rows)[:, None] * labels + codes
    sums = np.bincount(cells.ravel(), weights=counted.ravel(), minlength=rows * labels)
    return np.asarray(sums.reshape(rows, labels), dtype=np.float64)
