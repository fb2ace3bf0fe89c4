"""Interim analyses: the levels of Pocock's table, and p-values and intervals that hold at each."""

import math

import numpy as np
import pytest
import scipy

from swapbias.measures import Estimate, interim_level, interim_rounds, mean_score, sequential_adjust
from swapbias.measures.contrast import sequential_p


def test_levels_are_those_of_the_published_table():
    # Pocock (1977), two-sided .05: .0294, .0221, .0182, .0158 for 2 to 5 looks; at .01: .0056 and .0028 for 2 and 5.
    assert [round(interim_level(looks), 4) for looks in range(1, 6)] == [0.05, 0.0294, 0.0221, 0.0182, 0.0158]
    assert [round(interim_level(looks, 0.01), 4) for looks in (2, 5)] == [0.0056, 0.0028]


def test_a_p_value_over_looks_is_the_chance_that_any_is_as_small():
    made = np.random.default_rng(0).standard_normal((100_000, 4)).cumsum(axis=1) / np.sqrt(np.arange(1, 5))
    for p in (0.3, 0.05, 0.01):
        any_look = np.mean((np.abs(made) > scipy.stats.norm.isf(p / 2)).any(axis=1))
        assert sequential_p(p, 4) == pytest.approx(any_look, abs=4 * math.sqrt(any_look / 100_000))
    several = [sequential_p(p, 5) for p in (0.0, 1e-12, 1e-6, 0.001, 0.2, 0.9, 1.0)]
    assert several == sorted(several)
    assert several[1] == 5e-12
    assert (several[0], several[-1]) == (0, 1)
    assert math.isnan(sequential_p(math.nan, 3))


def test_looks_lie_evenly_and_the_last_is_after_all_rounds():
    assert [interim_rounds(rounds) for rounds in (1, 2, 7)] == [(1,), (1, 2), (2, 3, 5, 6, 7)]


def test_an_estimate_holds_over_looks_by_its_t_distribution():
    one = mean_score([0.1, 0.2, 0.4, 0.3, 0.6])
    adjusted = sequential_adjust(one, 3)
    reach = scipy.stats.t.isf(interim_level(3) / 2, 4) * one.std_error
    assert (adjusted.ci_low, adjusted.ci_high) == pytest.approx((one.value - reach, one.value + reach))
    assert adjusted.std_error == one.std_error
    assert sequential_adjust(one, 1) == one


def test_without_a_standard_error_there_is_no_interval_and_the_bound_of_bonferroni():
    adjusted = sequential_adjust(Estimate(0.4, 0.1, 0.7, p_value=0.02, n=9), 5)
    assert adjusted.p_value == pytest.approx(0.1)
    assert math.isnan(adjusted.ci_low)
    assert math.isnan(sequential_adjust(Estimate(math.nan), 5).p_value)
