"""Closed questions: their options, and what probabilities of options say."""

import math

import numpy as np
import pytest

from swapbias.measures.answer_accuracy import option_odds
from swapbias.studies.custom import options_of


@pytest.mark.parametrize(
    "declared", ["", "1=yes", "yes|no", "1=yes|0=Yes", "1=yes|0=refused", "1=|0=no", "x=yes|0=no", "nan=yes|0=no"]
)
def test_what_is_no_options_is_refused(declared):
    with pytest.raises(ValueError, match="expected different ones, each value=option"):
        options_of(declared.split("|"))


ASK = (1.0, 0.0, math.nan)


def logs(*rows):
    return [[math.log(p) if p else -math.inf for p in row] for row in rows]


def test_odds_of_options_by_hand():
    # Averaged: .5, .3, .1. Score .5 / .8; unanswered .1 / .9; outside 1 - .9.
    # Log-odds by order: ln(.6 / .2) = ln 3 and ln(.4 / .4) = 0.
    found = option_odds(logs((0.6, 0.2, 0.1), (0.4, 0.4, 0.1)), ASK)
    assert found.score == pytest.approx(0.625)
    assert found.unanswered == pytest.approx(1 / 9)
    assert found.outside == pytest.approx(0.1)
    assert found.log_odds == pytest.approx(math.log(3) / 2)
    assert found.hidden == 0
    # (.1 * 0 + .2 * .5 + .3 * 1) / .6 = 2 / 3; ln(.3 / .1).
    found = option_odds(logs((0.1, 0.2, 0.3)), (0.0, 0.5, 1.0))
    assert found.score == pytest.approx(2 / 3)
    assert found.log_odds == pytest.approx(math.log(3))
    # Log p = option + letter: what the letters add is in one order on one option, in the other on the other.
    more, less, first, second = 0.3, -0.4, 2.0, -1.0
    said = np.array([[more + first, less + second], [more + second, less + first]]) - 4
    assert option_odds(said, (1.0, 0.0)).log_odds == pytest.approx(0.7)
    whole = np.array(logs((0.6, 0.2, 0.1), (0.4, 0.4, 0.1)))
    rare = option_odds(whole - 900, ASK)  # beyond what floats hold as probabilities
    same = option_odds(whole, ASK)
    assert (rare.score, rare.log_odds, rare.unanswered) == pytest.approx((same.score, same.log_odds, same.unanswered))
    assert rare.outside == 1
    turned = option_odds(whole, (0.0, 1.0, math.nan))
    assert turned.score == pytest.approx(1 - same.score)
    assert turned.log_odds == pytest.approx(-same.log_odds)


@pytest.mark.parametrize(
    ("shown", "hidden", "score"),
    # Were all that is hidden the lower option, .9 / (.9 + .09) would be 1 - 1 / 11: too far from 1.
    [((0.9, 0.0, 0.0), 0.01, 1.0), ((0.9, 0.0, 0.0), 0.09, math.nan), ((0.0, 0.0, 0.0), 0.2, math.nan),
     ((0.001, 0.001, 0.0), 0.01, math.nan), ((0.001, 0.001, 0.0), 0.0, 0.5)],
)  # fmt: skip
def test_what_is_hidden_is_never_taken_for_nothing(shown, hidden, score):
    found = option_odds(logs(shown), ASK, [hidden])
    assert found.score == pytest.approx(score, nan_ok=True)
    assert found.outside == pytest.approx(1 - sum(shown))
    assert math.isnan(found.log_odds) is (0.0 in shown[:2])


@pytest.mark.parametrize("values", [(1.0, math.nan, math.nan), (1.0, 1.0, math.nan), (math.nan,) * 3])
def test_options_that_count_alike_have_no_odds_and_a_nan_is_refused(values):
    with pytest.raises(ValueError, match="expected two at least that count different numbers"):
        option_odds(logs((0.5, 0.4, 0.1)), values)
    with pytest.raises(ValueError, match="is NaN"):
        option_odds([[math.nan, 0.0, 0.0]], ASK)
