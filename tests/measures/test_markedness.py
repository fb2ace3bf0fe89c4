"""Markedness (D) of answers that give words one of two options."""

import math

import numpy as np
import pytest

from swapbias.measures.markedness import markedness, markedness_of_counts


def test_markedness_by_hand():
    """Three of four marked words and one of four others have 3/4 and 3/4, minus 1."""
    assert float(markedness_of_counts(3, 1, 1, 3)) == pytest.approx(2 * 3 / 4.01 - 1)
    assert float(markedness_of_counts(8, 0, 0, 8)) == pytest.approx(16 / 8.01 - 1)
    assert float(markedness_of_counts(0, 8, 8, 0)) == -1


@pytest.mark.parametrize("option", [0.0, 1.0])
def test_one_option_for_all_words(option):
    """An answer that gives one option all of 4 + 4 words has 4 / 8.01 - 1, whichever option it is."""
    marked = [True] * 4 + [False] * 4
    (value,) = markedness([option] * 8, marked, np.zeros(8, dtype=int))
    assert value == pytest.approx(4 / 8.01 - 1)


def test_nothing_read_is_missing():
    """An answer of which nothing was read is NaN, and the words that were read count alone in another."""
    scores = [math.nan, math.nan, 1.0, 0.0, math.nan]
    values = markedness(scores, [True, False, True, False, False], np.array([0, 0, 1, 1, 1]))
    assert math.isnan(values[0])
    assert values[1] == pytest.approx(2 / 1.01 - 1)


def test_no_rows():
    """Without rows there is no answer."""
    assert markedness([], [], np.array([], dtype=int)).shape == (0,)


def test_slow_definition():
    """It is what counting each answer's words one by one gives."""
    rng = np.random.default_rng(0)
    scores = rng.choice([0.0, 1.0, math.nan], 400, p=[0.4, 0.4, 0.2])
    marked = rng.random(400) < 0.5
    answers = rng.permutation(np.arange(400) % 37)
    values = markedness(scores, marked, answers)
    for answer in range(37):
        counts = {(option, side): 0 for option in (0.0, 1.0) for side in (True, False)}
        for score, side, number in zip(scores, marked, answers, strict=True):
            if number == answer and not math.isnan(score):
                counts[score, bool(side)] += 1
        a, b = counts[1.0, True], counts[1.0, False]
        c, d = counts[0.0, True], counts[0.0, False]
        assert values[answer] == pytest.approx(a / (a + b + 0.01) + d / (c + d + 0.01) - 1)


def test_options_exchanged():
    """With options and sides both exchanged it is the same number."""
    assert float(markedness_of_counts(5, 2, 1, 6)) == pytest.approx(
        float(markedness_of_counts(6, 1, 2, 5))
    )
