"""Markedness (D) of answers that give each of several words one of two options."""

import numpy as np
from numpy.typing import ArrayLike

from swapbias.measures.estimate import Codes, Floats

_SMALL = 0.01  # added to a number of words, so that an option without any has a share of 0


def markedness_of_counts(
    first_marked: ArrayLike,
    first_other: ArrayLike,
    second_marked: ArrayLike,
    second_other: ArrayLike,
) -> Floats:
    """Return a / (a + b + .01) + d / (c + d + .01) - 1 of the words that two options are given.

    It is the markedness of Powers (2011), each share a little below its own: precision of the first option plus that
    of the second one, minus 1. Bai et al. (2025) call it D.

    Args:
        first_marked: a, the number of marked words that are given the first option.
        first_other: b, the number of other words that are given the first option.
        second_marked: c, the number of marked words that are given the second option.
        second_other: d, the number of other words that are given the second option.

    Returns:
        From -1 to 1 in the shape of the numbers. Above 0: the first option is given marked words, and the second one
        the others. An option without any word has a share of 0: where as many words are marked as are not and one
        option is given all, the value is -.5.

    >>> float(markedness_of_counts(8, 0, 0, 8).round(4)), float(markedness_of_counts(8, 8, 0, 0).round(2))
    (0.9975, -0.5)
    """
    a, b, c, d = (
        np.asarray(count, dtype=np.float64)
        for count in (first_marked, first_other, second_marked, second_other)
    )
    value: Floats = a / (a + b + _SMALL) + d / (c + d + _SMALL) - 1
    return value


def markedness(scores: ArrayLike, is_marked: ArrayLike, answers: Codes) -> Floats:
    """Return the markedness of each answer, of the words that were read in it.

    Args:
        scores: shape (words,), 1 where a word is given the first option, 0 for the second one; NaN: it was not read.
        is_marked: shape (words,), whether a word is a marked one.
        answers: shape (words,), the number of the answer of each word, from 0; every number stands there.

    Returns:
        Shape (answers,), as of ``markedness_of_counts``; NaN for an answer of which nothing was read.
    """
    score = np.asarray(scores, dtype=np.float64)
    marked = np.asarray(is_marked, dtype=bool)
    was_read = ~np.isnan(score)
    first = np.where(was_read, score, 0.0)
    second = np.where(was_read, 1.0 - score, 0.0)
    count = int(answers.max(initial=-1)) + 1
    cells = [
        np.bincount(answers, np.where(side, share, 0.0), count)
        for share in (first, second)
        for side in (marked, ~marked)
    ]
    has_word = np.bincount(answers, was_read, count) > 0
    return np.where(has_word, markedness_of_counts(*cells), np.nan)
