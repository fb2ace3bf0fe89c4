"""More than two groups: one test of all, crossed factors, selection rates and impact ratios,
with error rates."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from swapbias.measures import factorial, group_gap, omnibus, paired_gap, selection_rate


def table(templates, conditions, groups, seed, spreads=(1.0, 0.7, 1.0)):
    """Scores of a full table with effects of each group's own by template and condition; and its columns."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, spreads[2], (templates, conditions, groups)) + rng.normal(
        0, 2, (templates, conditions, 1)
    )
    scores += rng.normal(0, spreads[0], (templates, 1, groups)) + rng.normal(
        0, spreads[1], (1, conditions, groups)
    )
    template, condition, group = (index_array.ravel() for index_array in np.indices(scores.shape))
    columns = {
        "groups": np.array(list("abcdefghijkl"))[group].tolist(),
        "pair_ids": [f"{one}/{other}" for one, other in zip(template, condition, strict=True)],
    }
    return scores, columns, {"template": template, "condition": condition}


def test_omnibus_by_hand():
    """The test of three groups has the value, means and p-value worked out by hand."""
    # Pairs (1, 2, 4) and (2, 4, 5): means 1.5, 3, 4.5; squares about their mean 1.5^2 + 0 + 1.5^2 = 4.5.
    # a - b is -1 and -2: mean -1.5, error .5, t 3 with one degree of freedom; b - c is -2 and -1, as clear; a - c is
    # -3 and -3, which has no spread. The smallest p of three contrasts, three times.
    found = omnibus([1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"))
    assert found.contrasts == 3
    assert found.estimate.value == pytest.approx(math.sqrt(4.5 / 3))
    assert found.estimate.p_value == pytest.approx(3 * 2 * stats.t.sf(3, 1))
    assert found.means == {"a": 1.5, "b": 3.0, "c": 4.5}
    two = omnibus(
        [1.0, 2.0, 4.0, 2.0, 4.0, 5.0], list("abcabc"), pair_ids=list("ppprrr"), reference_group="b"
    )
    assert (two.contrasts, two.estimate.p_value) == (2, pytest.approx(2 * 2 * stats.t.sf(3, 1)))
    alike = omnibus(
        [0.1, 0.2, 0.3] * 4, list("abc") * 4, pair_ids=np.repeat(list("pqrs"), 3).tolist()
    )
    assert alike.estimate.p_value == pytest.approx(
        3 * 2 / 2**4
    )  # four pairs of four agree, in three contrasts
    assert alike.estimate.value == pytest.approx(math.sqrt(0.02 / 3))
    one = omnibus(
        [0.1, 0.2, 0.4] * 2, list("abc") * 2, pair_ids=list("pppqqq"), cluster_ids=["t"] * 6
    )
    assert math.isnan(one.estimate.p_value)
    of_condition = np.random.default_rng(0).normal(size=22)
    names = np.repeat(np.arange(36), 22)
    conditions = np.tile(np.arange(22), 36)
    groups = np.array(list("abcd"))[names // 9].tolist()
    found = omnibus(
        of_condition[conditions],
        groups,
        cluster_ids={"names": names.tolist(), "conditions": conditions.tolist()},
    )
    assert found.estimate.value == pytest.approx(0, abs=1e-9)
    assert np.isnan(found.estimate.p_value)


#          b     w        Cells over three pairs: f b .9 .8 1.0, f w .5 .4 .6, m b .5 .6 .4, m w .5 .5 .5.
#   f     .9    .5        Means .9 .5 .5 .5, all .6. Gender f - m: .7 - .5 = .2; race b - w the same; interaction
#   m     .5    .5        (.9 - .5) - (.5 - .5) = .4.
GENDER = list("ffmm") * 3
RACE = list("bwbw") * 3
BY_PAIR = [0.9, 0.5, 0.5, 0.5, 0.8, 0.4, 0.6, 0.5, 1.0, 0.6, 0.4, 0.5]
CROSSED = {"gender": GENDER, "race": RACE}
REFERENCE = {"gender": "m", "race": "w"}


def test_two_factors_by_hand():
    """Two factors and their product have the effects worked out by hand."""
    found = factorial(BY_PAIR, CROSSED, reference=REFERENCE, pair_ids=list("ppppqqqqrrrr"))
    gender, race, both = found.effects
    assert [one.name for one in found.effects] == ["f - m", "b - w", "(f - m) x (b - w)"]
    assert [one.estimate.value for one in found.effects] == pytest.approx([0.2, 0.2, 0.4])
    # Gender by pair: .7 - .5 = .2, .6 - .55 = .05, .8 - .45 = .35: SD .15, error .15 / sqrt 3.
    assert gender.estimate.std_error == pytest.approx(0.15 / math.sqrt(3))
    # Race by pair: .7 - .5, .7 - .45, .7 - .55: SD .05.
    assert race.estimate.std_error == pytest.approx(0.05 / math.sqrt(3))
    # Of one contrast the term's test is its t, squared.
    assert found.terms["gender x race"].estimate.p_value == pytest.approx(both.estimate.p_value)
    scores, columns, clusters = table(5, 4, 4, seed=7)
    levels = {
        "gender": np.tile(list("ffmm"), 20).tolist(),
        "race": np.tile(list("bwbw"), 20).tolist(),
    }
    made = [
        factorial(
            scores.ravel(),
            levels,
            reference=one,
            pair_ids=columns["pair_ids"],
            cluster_ids=clusters,
        )
        for one in ({"gender": "m", "race": "w"}, {"gender": "f", "race": "w"})
    ]
    first, second = ([each.estimate for each in one.effects] for one in made)
    assert [one.value for one in second] == pytest.approx(
        [-first[0].value, first[1].value, -first[2].value]
    )
    assert [one.p_value for one in second] == pytest.approx([one.p_value for one in first])


def test_omnibus_of_two_samples():
    """The test of all groups for two samples of pairs is the t test of their gaps."""
    scores, columns, clusters = table(6, 3, 2, seed=5)
    sample = np.where(clusters["condition"] == 0, "first", "second")
    found = omnibus(
        scores.ravel(), **columns, cluster_ids={"t": clusters["template"]}, sample_ids=sample
    )
    gaps = scores[..., 0].ravel() - scores[..., 1].ravel()
    first = np.array(columns["groups"]) == "a"
    own = {"t": clusters["template"][first]}
    slow = group_gap(gaps, sample[first], reference_group="second", cluster_ids=own)
    assert found.estimate.p_value == pytest.approx(slow.p_value)


def test_omnibus_without_names_and_order():
    """Neither names nor order change the test of all groups."""
    scores, columns, clusters = table(5, 4, 4, seed=6)
    whole = omnibus(scores.ravel(), **columns, cluster_ids=clusters)
    order = np.random.default_rng(0).permutation(scores.size)
    names = [dict(zip("abcd", "zkxb", strict=True))[columns["groups"][place]] for place in order]
    again = omnibus(
        scores.ravel()[order],
        names,
        pair_ids=np.array(columns["pair_ids"])[order].tolist(),
        cluster_ids={name: codes[order] for name, codes in clusters.items()},
    )
    for name in ("value", "ci_low", "ci_high", "p_value", "std_error", "df", "n", "n_unscored"):
        assert getattr(again.estimate, name) == pytest.approx(
            getattr(whole.estimate, name), nan_ok=True
        )


@pytest.mark.parametrize("reference", ["a", "c", None])
def test_omnibus_is_corrected_minimum(reference):
    """The p-value of all groups is the least of its contrasts times their number."""
    scores, columns, clusters = table(5, 4, 4, seed=6)
    groups = np.array(columns["groups"])
    least = []
    pairs = (
        [(one, reference) for one in "abcd" if one != reference]
        if reference
        else combinations("abcd", 2)
    )
    for names in pairs:
        chosen = np.isin(groups, names)
        own = {name: codes[chosen] for name, codes in clusters.items()}
        ids = np.array(columns["pair_ids"])[chosen]
        gap = paired_gap(
            scores.ravel()[chosen], groups[chosen], ids, reference_group=names[1], cluster_ids=own
        )
        least.append(gap.p_value)
    found = omnibus(scores.ravel(), **columns, reference_group=reference, cluster_ids=clusters)
    assert found.contrasts == len(least) == (3 if reference else 6)
    assert found.estimate.p_value == pytest.approx(min(1.0, len(least) * min(least)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: omnibus([1.0], ["a"], reference_group="a"), "expected at least two"),
        (lambda: omnibus([1.0, 2.0], ["a", "b"], reference_group="c"), "'c' as reference_group"),
        (
            lambda: omnibus([1.0, 2.0, 3.0], list("abc"), pair_ids=list("ppq")),
            "pair p has 0 rows of 'c'",
        ),
        (
            lambda: factorial([1.0] * 3, {"x": "aab", "y": "cdc"}, reference={"x": "a", "y": "c"}),
            "no row of b, d",
        ),
        (lambda: factorial([1.0] * 2, {"x": "ab"}, reference={"x": "a"}), "expected two or more"),
        (lambda: selection_rate([1, 2], ["a", "b"]), "outside of 0 to 1"),
        (lambda: selection_rate([1, 0], ["a", "a"]), r"groups \['a'\], expected two or more\.$"),
        (lambda: selection_rate([1, 0], ["a", "b"], reference_group="c"), "'c' among them"),
    ],
    ids=[
        "one group",
        "unknown reference",
        "missing row",
        "missing levels",
        "one factor",
        "share above 1",
        "one group of shares",
        "unknown reference of shares",
    ],
)
def test_impossible_comparison(call, sentence):
    """A comparison that its rows do not allow is refused in one sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()


RUNS = 250
MOST = stats.binom.isf(0.001, RUNS, 0.05) / RUNS  # .096: more are hardly the work of chance at .05


@pytest.mark.simulation
@pytest.mark.parametrize("unlike", [1.0, 4.0])  # how much more one group varies than the others
def test_false_alarms_of_omnibus(unlike):
    """The test of all groups rejects in few of the draws where no group differs."""
    wrong = 0
    for run in range(RUNS):
        scores, columns, clusters = table(4, 8, 3, seed=run)
        scores[..., 0] += (unlike - 1) * np.random.default_rng(10_000 + run).normal(0, 1, (4, 1))
        found = omnibus(scores.ravel(), **columns, reference_group="b", cluster_ids=clusters)
        wrong += found.estimate.p_value < 0.05
    assert wrong / RUNS < MOST


def test_different_group_is_found():
    """A group that differs is found in 45 of 50 draws."""
    found = 0
    for run in range(50):
        scores, columns, clusters = table(10, 4, 4, seed=run)
        scores[..., 2] += 4.0
        found += omnibus(scores.ravel(), **columns, cluster_ids=clusters).estimate.p_value < 0.05
    assert found >= 45


def test_rates_and_ratios_by_hand():
    """Selection rates and impact ratios have the values worked out by hand."""
    selected = [1, 1, 0, 1, 0, 0, 1, 0]
    groups = ["w"] * 4 + ["m"] * 4
    found = selection_rate(selected, groups)  # 3/4 and 1/4, mean 1/2
    values = {group: (rate.value, impact.value) for group, (rate, impact) in found.items()}
    assert values == {"m": (0.25, 0.5), "w": (0.75, 1.5)}
    assert selection_rate(selected, groups, reference_group="w")["m"][1].value == pytest.approx(
        1 / 3
    )
    assert math.isnan(
        selection_rate([0, 0, 1, 1], list("mmww"))["m"][1].ci_low
    )  # a rate of 0 has no log


def test_interval_of_delta_method():
    """The interval of two independent rates is that of the delta method."""
    a = np.repeat([1.0, 0.0], [30, 70])
    b = np.repeat([1.0, 0.0], [20, 100])
    groups = ["a"] * 100 + ["b"] * 120
    _, impact = selection_rate([*a, *b], groups, reference_group="b")["a"]
    parts = np.array([one.var(ddof=1) / one.mean() ** 2 / len(one) for one in (a, b)])
    df = parts.sum() ** 2 / (parts**2 / (np.array([len(a), len(b)]) - 1)).sum()
    half = stats.t.ppf(0.975, df) * math.sqrt(parts.sum())
    assert [impact.ci_low, impact.ci_high] == pytest.approx(
        [impact.value * math.exp(one) for one in (-half, half)]
    )
    assert impact.p_value == pytest.approx(
        2 * stats.t.sf(abs(math.log(impact.value)) / math.sqrt(parts.sum()), df)
    )


@pytest.mark.simulation
def test_rankings_without_preference():
    """One impact ratio in twenty has an interval without one where rankings have no preference."""
    rng = np.random.default_rng(0)
    wrong = 0
    count = 300
    for _ in range(count):
        first = rng.integers(0, 8, 400)
        selected = (first[:, None] == np.arange(8)).astype(float).ravel()
        found = selection_rate(
            selected, list("abcdefgh") * 400, pair_ids=np.repeat(np.arange(400), 8).tolist()
        )
        wrong += not found["a"][1].ci_low <= 1 <= found["a"][1].ci_high
    assert 0.02 <= wrong / count <= 0.08
