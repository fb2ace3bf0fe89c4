"""Closed questions: what each option counts, and what probabilities of options say."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapbias.measures.estimate import Floats

REFUSED, UNREADABLE = "refused", "unreadable"  # what an answer is that gives no option


@dataclass(frozen=True, slots=True)
class Option:
    """One way to answer.

    Attributes:
        text: its words, as the question has them.
        value: what it counts; NaN: it says nothing (``Do not know``).
    """

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
        score: the value that the options count on average, each weighted by its probability among those that count
            something: what the mean of many sampled answers comes to. NaN: no option has a probability, or what is
            hidden could move the score by more than ``MOST_HIDDEN`` of its range.
        log_odds: nats: log p(options that count more) - log p(options that count less), taken in each order and
            averaged over them, so that a letter that is liked in itself cancels. 0: both are as likely; above 0 those
            that count more are likelier. One in the middle is in neither. NaN: one of the two has no probability.
        unanswered: probability of the options that count nothing, as a share of all options; NaN where none has any.
        outside: probability of anything but an option, with what is hidden; 0: the model says options alone.
        hidden: the part of it that was not shown (beyond the first k tokens of a service), which may be options'.
    """

    score: float
    log_odds: float
    unanswered: float
    outside: float
    hidden: float


MOST_HIDDEN = 0.05  # of a score's range: the margin below which a gap counts as none


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
    unseen = float(np.mean(np.asarray(hidden, dtype=np.float64)))
    low, high = np.nanmin(counts, initial=math.inf), np.nanmax(counts, initial=-math.inf)
    if not low < high:
        raise ValueError(f"options that count {counts.tolist()}, expected two at least that count different numbers.")
    if np.isnan(known).any():
        raise ValueError("a log-probability of an option is NaN, expected numbers. Check the model.")
    most = float(known.max())
    if most == -math.inf:
        return OptionOdds(math.nan, math.nan, math.nan, 1.0, unseen)
    shares = np.exp(known - most).mean(axis=0)  # averaged over orders; small ones do not vanish
    counted = ~np.isnan(counts)
    said, total = float(shares[counted].sum()), float(shares.sum())
    odds = _log_sums(known[:, counts > (low + high) / 2]) - _log_sums(known[:, counts < (low + high) / 2])
    return OptionOdds(
        _score(shares[counted], counts[counted], unseen * math.exp(min(-most, 700.0))),
        float(odds.mean()) if np.isfinite(odds).all() else math.nan,
        1 - said / total,
        max(0.0, 1 - total * math.exp(most)),
        unseen,
    )


def _score(shares: Floats, counts: Floats, hidden: float) -> float:
    """The mean of what options count; NaN where what is hidden could move it too far, were it all one of them."""
    said = float(shares.sum())
    if not said:
        return math.nan
    score, reach = float(shares @ counts) / said, hidden / (said + hidden)
    low, high = float(counts.min()), float(counts.max())
    furthest = reach * max(high - score, score - low)
    return score if furthest <= MOST_HIDDEN * (high - low) else math.nan


def _log_sums(logs: Floats) -> Floats:
    """Log of the sum of probabilities, for each row; -inf where all are 0."""
    most = logs.max(axis=1)
    shift = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        sums: Floats = np.log(np.exp(logs - shift[:, None]).sum(axis=1)) + shift
    return sums
