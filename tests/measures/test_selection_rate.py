"""Selection rates and impact ratios: by hand, by the delta method, and under no difference."""

import math

import numpy as np
import pytest
from scipy import stats

from swapbias.measures import selection_rate


def test_rates_and_ratios_are_those_by_hand():
    selected, groups = [1, 1, 0, 1, 0, 0, 1, 0], ["w"] * 4 + ["m"] * 4
    found = selection_rate(selected, groups)  # 3/4 and 1/4, mean 1/2
    values = {group: (rate.value, impact.value) for group, (rate, impact) in found.items()}
    assert values == {"m": (0.25, 0.5), "w": (0.75, 1.5)}
    assert selection_rate(selected, groups, reference_group="w")["m"][1].value == pytest.approx(1 / 3)
    assert math.isnan(selection_rate([0, 0, 1, 1], list("mmww"))["m"][1].ci_low)  # a rate of 0 has no log


def test_the_interval_of_two_independent_rates_is_that_of_the_delta_method():
    a, b = np.repeat([1.0, 0.0], [30, 70]), np.repeat([1.0, 0.0], [20, 100])
    groups = ["a"] * 100 + ["b"] * 120
    _, impact = selection_rate([*a, *b], groups, reference_group="b")["a"]
    parts = np.array([one.var(ddof=1) / one.mean() ** 2 / len(one) for one in (a, b)])
    df = parts.sum() ** 2 / (parts**2 / (np.array([len(a), len(b)]) - 1)).sum()
    half = stats.t.ppf(0.975, df) * math.sqrt(parts.sum())
    assert [impact.ci_low, impact.ci_high] == pytest.approx([impact.value * math.exp(one) for one in (-half, half)])
    assert impact.p_value == pytest.approx(2 * stats.t.sf(abs(math.log(impact.value)) / math.sqrt(parts.sum()), df))


@pytest.mark.simulation
def test_of_rankings_without_a_preference_one_ratio_in_twenty_leaves_out_one():
    rng, wrong, count = np.random.default_rng(0), 0, 300
    for _ in range(count):
        first = rng.integers(0, 8, 400)
        selected = (first[:, None] == np.arange(8)).astype(float).ravel()
        found = selection_rate(selected, list("abcdefgh") * 400, pair_ids=np.repeat(np.arange(400), 8).tolist())
        _, impact = found["a"]
        wrong += not impact.ci_low <= 1 <= impact.ci_high
    assert 0.02 <= wrong / count <= 0.08


@pytest.mark.parametrize(
    ("selected", "groups", "options", "message"),
    [
        ([1, 2], ["a", "b"], {}, "outside of 0 to 1"),
        ([1, 0], ["a", "a"], {}, "expected two or more"),
        ([1, 0], ["a", "b"], {"reference_group": "c"}, "'c' among them"),
    ],
)
def test_bad_input_is_refused(selected, groups, options, message):
    with pytest.raises(ValueError, match=message):
        selection_rate(selected, groups, **options)
