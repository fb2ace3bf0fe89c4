"""Answers and scores of which one makes up more than half: a broken service or a default looks like that."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.measures import Unit
from swapbias.studies import PLACEBO

HALF = 0.5  # share of the rows that may have one answer or score
_LONG = 12  # words: a longer answer that comes again and again is no choice of an option
_OF_ERRORS = re.compile(
    r"\b(errors?|exceptions?|limit|quota|timeout|timed out|unavailable|overloaded|try again|denied|invalid|failed"
    r"|blocked|filter(ed)?|policy|unauthori[sz]ed|forbidden|sorry|cannot|can't|unable)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Repeats:
    """The commonest answer or score of some rows.

    Attributes:
        content: the answer as text, or the score.
        count, rows: how many rows have it, of how many.
        unread_share: the share of the rows that are unread, refused, or have a commonest answer that looks like an
            error.
        is_answer: whether ``content`` is the text of an answer.
    """

    content: str
    count: int
    rows: int
    unread_share: float
    is_answer: bool

    @property
    def share(self) -> float:
        """The share of the rows that have it; NaN without rows."""
        return self.count / self.rows if self.rows else math.nan


def commonest(rows: pd.DataFrame, unit: Unit) -> Repeats | None:
    """Return the commonest answer of scored rows of one experiment and model, or without answers the commonest score.

    Args:
        rows: with ``score``, and of a chat model ``answer`` and ``said_other``.
        unit: of the scores.

    Returns:
        None where scores are the two ends of their range (of which one is always common), and where nothing was
        scored or answered.
    """
    rows = rows[rows["group"] != PLACEBO] if "group" in rows else rows
    scores = rows["score"].to_numpy(dtype=np.float64)
    unread = np.isnan(scores)
    for name in ("said_other", "refused"):
        if name in rows:
            unread = unread | (rows[name].to_numpy(dtype=np.float64) > 0)
    texts = _texts(rows)
    if texts is not None:
        text, count = next(iter(texts[texts != ""].value_counts().items()))
        is_text = (texts == text).to_numpy()
        if is_binary(scores, unit) and not np.isnan(scores[is_text]).all():
            return None
        if len(str(text).split()) > _LONG or _OF_ERRORS.search(str(text)):
            unread = unread | is_text
        return Repeats(str(text), int(count), len(rows), float(unread.mean()), is_answer=True)
    values = scores[~np.isnan(scores)]
    if not len(values) or is_binary(scores, unit):
        return None
    levels, counts = np.unique(values, return_counts=True)
    largest = int(counts.argmax())
    if levels[largest] == 0 and "lexicon" in rows and (rows["lexicon"] != "").any():
        return None  # listed words that are unlikely everywhere
    return Repeats(
        f"{levels[largest]:g}",
        int(counts[largest]),
        len(rows),
        float(unread.mean()),
        is_answer=False,
    )


def _texts(rows: pd.DataFrame) -> "pd.Series[str] | None":
    """Return the texts of a chat model's answers; None where there are none, as of credentialed notes.

    What a classifier answers is its label, of which there are few.
    """
    if not {"answer", "said_other"} <= {*rows}:
        return None
    texts = rows["answer"].fillna("").astype(str).str.strip()
    return texts if (texts != "").any() else None


def is_binary(scores: NDArray[np.float64], unit: Unit) -> bool:
    """Tell whether all scores that there are lie at the two ends of their range: 0 and 1, where none is known."""
    ends = unit.ends if unit.in_points else (0.0, 1.0)
    values = scores[~np.isnan(scores)]
    return bool(len(values) and np.isin(values, ends).all())
