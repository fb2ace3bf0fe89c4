"""Answers and scores of which one makes up more than half: a broken service or a default looks like that."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from swapbias.measures import Floats, Unit
from swapbias.studies import PLACEBO

HALF = 0.5
"""Share of the rows that may have one answer or score."""
_LONG = 12  # words: a longer answer that comes again and again is no choice of an option
_OF_ERRORS = re.compile(
    r"\b(errors?|exceptions?|limit|quota|timeout|timed out|unavailable|overloaded|try again|denied|invalid|failed"
    r"|blocked|filter(ed)?|policy|unauthori[sz]ed|forbidden|sorry|cannot|can't|unable)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Commonest answer or score of some rows."""

    content: str
    """The answer as text, or the score."""
    count: int
    """Number of rows that have it."""
    rows: int
    """Number of all rows."""
    unread_share: float
    """Share of the rows that are unread, refused, or have a commonest answer that looks like an error."""
    is_answer: bool
    """Whether ``content`` is the text of an answer."""

    @property
    def share(self) -> float:
        """Return the share of the rows that have it; NaN without rows."""
        return self.count / self.rows if self.rows else math.nan


def commonest(rows: pd.DataFrame, unit: Unit) -> Repeats | None:
    """Return the commonest answer of scored rows of one experiment and model, or without answers the commonest score.

    Args:
        rows: rows with ``score``, and of a chat model ``answer`` and ``said_other``.
        unit: the unit of the scores.

    Returns:
        None where scores are the two ends of their range (of which one is always common), and where nothing was
        scored or answered.
    """
    if "group" in rows:
        rows = rows[rows["group"] != PLACEBO]
    scores = rows["score"].to_numpy(dtype=np.float64)
    is_unread = np.isnan(scores)
    for column in ("said_other", "refused"):
        if column in rows:
            is_unread = is_unread | (rows[column].to_numpy(dtype=np.float64) > 0)
    texts = _texts(rows)
    if texts is None:
        return _commonest_score(rows, scores, is_unread, unit)
    return _commonest_answer(texts, scores, is_unread, unit)


def _commonest_answer(
    texts: "pd.Series[str]", scores: Floats, is_unread: NDArray[np.bool_], unit: Unit
) -> Repeats | None:
    """Return the commonest answer; None where it is one of two options."""
    text, count = next(iter(texts[texts != ""].value_counts().items()))
    has_text = (texts == text).to_numpy()
    if is_binary(scores, unit) and not np.isnan(scores[has_text]).all():
        return None
    if len(str(text).split()) > _LONG or _OF_ERRORS.search(str(text)):
        is_unread = is_unread | has_text
    return Repeats(str(text), int(count), len(texts), float(is_unread.mean()), is_answer=True)


def _commonest_score(
    rows: pd.DataFrame, scores: Floats, is_unread: NDArray[np.bool_], unit: Unit
) -> Repeats | None:
    """Return the commonest score; None where scores are two, or it is 0 of words that are unlikely everywhere."""
    values = scores[~np.isnan(scores)]
    if not len(values) or is_binary(scores, unit):
        return None
    levels, counts = np.unique(values, return_counts=True)
    largest = int(counts.argmax())
    if levels[largest] == 0 and "lexicon" in rows and (rows["lexicon"] != "").any():
        return None
    return Repeats(
        content=f"{levels[largest]:g}",
        count=int(counts[largest]),
        rows=len(rows),
        unread_share=float(is_unread.mean()),
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
    """Tell whether all scores that there are lie at the two ends of their range: 0 and 1, where none is known.

    Args:
        scores: shape (rows,); NaN where a row has none.
        unit: the unit of the scores.
    """
    ends = unit.ends if unit.in_points else (0.0, 1.0)
    values = scores[~np.isnan(scores)]
    return bool(len(values) and np.isin(values, ends).all())
