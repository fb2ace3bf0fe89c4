"""Answers: the bias of "who does the pronoun refer to?", odds of options, agreement of two readings."""

import math

import numpy as np
import pytest
from scipy import stats

from swapbias.measures.answer_accuracy import answer_bias, option_odds
from swapbias.measures.kappa import agreement
from swapbias.studies.option_texts import options_of

NAN = math.nan
KEYS = {"correct": "the mechanic", "incorrect": "the construction worker"}
LETTER = {"c": "correct", "i": "incorrect", "u": "unsure", "o": "other", "-": None}


def bias_of(pro, anti, **options):
    """The bias of pairs whose answers are written as letters: ``bias_of("cu", "ci")``."""
    classes = [LETTER[letter] for letter in pro + anti]
    sides = ["pro"] * len(pro) + ["anti"] * len(anti)
    ids = [f"s{number}" for number in range(len(pro))] * 2
    return answer_bias(classes, sides, **{"pair_ids": ids, **options})


def test_bias_by_hand():
    """The bias of answers, its interval and its p-value have the values worked out by hand."""
    # Pro: 6 of 8 right, anti 2 of 8: 75 - 25 = 50 points. Differences: 100 for s0 to s3, 0 for the others: squares of
    # the deviations 8 * 50^2, SD sqrt(20000 / 7) = 53.4522, error 18.8982, t = 2.6458 on 7 degrees of freedom:
    # p = .03315. Quantile .975 of t(7): 2.364624, half width 44.687. Other: 1 of 8 and 3 of 8.
    found = bias_of("ccccccuo", "iuoiccoo")
    assert found.estimate.value == 50
    assert found.accuracies == {"pro": 75, "anti": 25}
    assert found.estimate.p_value == pytest.approx(0.03315, abs=1e-5)
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx(
        (5.313, 94.687), abs=1e-3
    )
    assert (found.estimate.n, found.estimate.n_unscored, found.estimate.test) == (8, 0, "paired t")
    assert found.shares["pro"] == {"correct": 0.75, "incorrect": 0, "unsure": 0.125, "other": 0.125}
    assert found.shares["anti"] == {
        "correct": 0.25,
        "incorrect": 0.25,
        "unsure": 0.125,
        "other": 0.375,
    }
    one = bias_of("cccu", "ciuu")
    other = bias_of("cccu", "ciuu", reference_group="pro")
    assert one.estimate.value == -other.estimate.value == 50
    assert one.estimate.p_value == other.estimate.p_value
    assert one.shares == other.shares


def test_incomplete_pair():
    """A pair with a version that was not posed is left out and counted."""
    found = bias_of("cc-c", "ii--")
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (100, 2, 2)
    nothing = bias_of("--", "cc")
    assert all(math.isnan(x) for x in (nothing.estimate.value, nothing.shares["pro"]["other"]))
    assert (nothing.estimate.n, nothing.estimate.n_unscored) == (0, 2)
    found = answer_bias(
        ["correct", NAN, "", "correct"], ["pro", "anti"] * 2, pair_ids=["a", "a", "b", "b"]
    )
    assert (found.estimate.n, found.estimate.n_unscored) == (0, 2)
    found = bias_of("ccc", "ccc").estimate
    assert found.value == 0
    assert all(map(math.isnan, (found.ci_low, found.ci_high, found.p_value)))


def test_interval_equals_scipy():
    """The interval is that of SciPy, and a planted bias lies in it."""
    pro = 8 * "ccccccccuiouccci"
    anti = 8 * "cciiuucciouccuii"
    found = bias_of(pro, anti).estimate
    gaps = np.array([(a == "c") - (b == "c") for a, b in zip(pro, anti, strict=True)]) * 100.0
    slow = stats.ttest_1samp(gaps, 0)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(slow.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(slow.pvalue)
    rng = np.random.default_rng(0)

    def draw(right):
        return "".join(
            rng.choice(["c", "i", "u"], size=400, p=[right, (1 - right) / 2, (1 - right) / 2])
        )

    planted = bias_of(draw(0.85), draw(0.55)).estimate
    none = bias_of(draw(0.7), draw(0.7)).estimate
    assert planted.ci_low < 30 < planted.ci_high
    assert planted.p_value < 1e-6
    assert none.ci_low < 0 < none.ci_high


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": ["right", "correct"]}, r"classes \['right'\], expected correct, incorrect"),
        ({"sides": ["pro", "pro"]}, "expected exactly two with 'anti'"),
        ({"pair_ids": ["a", "b"]}, "has 0 rows of"),
        ({"cluster_ids": ["x", "y"]}, "lies in two clusters"),
    ],
    ids=["unknown class", "one side", "two pairs", "two clusters"],
)
def test_rows_without_pairs(changes, said):
    """Rows that make no pairs are refused with the reason."""
    rows = {
        "classes": ["correct", "other"],
        "sides": ["pro", "anti"],
        "pair_ids": ["a", "a"],
        **changes,
    }
    with pytest.raises(ValueError, match=said):
        answer_bias(rows.pop("classes"), rows.pop("sides"), **rows)


@pytest.mark.parametrize(
    "declared",
    [
        "",
        "1=yes",
        "yes|no",
        "1=yes|0=Yes",
        "1=yes|0=refused",
        "1=|0=no",
        "x=yes|0=no",
        "nan=yes|0=no",
    ],
)
def test_malformed_options(declared):
    """A declaration that holds no options with values is refused."""
    with pytest.raises(ValueError, match="expected different ones, each value=option"):
        options_of(declared.split("|"))


OPTION_VALUES = (1.0, 0.0, math.nan)


def logs(*rows):
    return [[math.log(p) if p else -math.inf for p in row] for row in rows]


def test_odds_of_options_by_hand():
    """Scores and log-odds of options have the values worked out by hand."""
    # Averaged: .5, .3, .1. Score .5 / .8; unanswered .1 / .9; outside 1 - .9.
    # Log-odds by order: ln(.6 / .2) = ln 3 and ln(.4 / .4) = 0.
    whole = np.array(logs((0.6, 0.2, 0.1), (0.4, 0.4, 0.1)))
    same = option_odds(whole, OPTION_VALUES)
    assert (same.score, same.unanswered, same.outside, same.hidden) == pytest.approx(
        (0.625, 1 / 9, 0.1, 0)
    )
    assert same.log_odds == pytest.approx(math.log(3) / 2)
    # (.1 * 0 + .2 * .5 + .3 * 1) / .6 = 2 / 3; ln(.3 / .1).
    found = option_odds(logs((0.1, 0.2, 0.3)), (0.0, 0.5, 1.0))
    assert (found.score, found.log_odds) == pytest.approx((2 / 3, math.log(3)))
    # Log p = option + letter: what the letters add is in one order on one option, in the other on the other.
    more = 0.3
    less = -0.4
    first = 2.0
    second = -1.0
    log_probs = np.array([[more + first, less + second], [more + second, less + first]]) - 4
    assert option_odds(log_probs, (1.0, 0.0)).log_odds == pytest.approx(0.7)
    rare = option_odds(whole - 900, OPTION_VALUES)  # beyond what floats hold as probabilities
    assert (rare.score, rare.log_odds, rare.unanswered) == pytest.approx(
        (same.score, same.log_odds, same.unanswered)
    )
    assert rare.outside == 1
    turned = option_odds(whole, (0.0, 1.0, math.nan))
    assert (turned.score, turned.log_odds) == pytest.approx((1 - same.score, -same.log_odds))


@pytest.mark.parametrize(
    ("shown", "hidden", "score"),
    # Were all that is hidden the lower option, .9 / (.9 + .09) would be 1 - 1 / 11: too far from 1.
    [
        ((0.9, 0.0, 0.0), 0.01, 1.0),
        ((0.9, 0.0, 0.0), 0.09, math.nan),
        ((0.0, 0.0, 0.0), 0.2, math.nan),
        ((0.001, 0.001, 0.0), 0.01, math.nan),
        ((0.001, 0.001, 0.0), 0.0, 0.5),
    ],
    ids=[
        "little hidden",
        "much hidden",
        "nothing shown",
        "more hidden than shown",
        "equal and nothing hidden",
    ],
)
def test_hidden_probability(shown, hidden, score):
    """Hidden probability is never counted as zero: a score that it could change is NaN."""
    found = option_odds(logs(shown), OPTION_VALUES, [hidden])
    assert found.score == pytest.approx(score, nan_ok=True)
    assert found.outside == pytest.approx(1 - sum(shown))
    assert math.isnan(found.log_odds) is (0.0 in shown[:2])


@pytest.mark.parametrize(
    "values",
    [(1.0, math.nan, math.nan), (1.0, 1.0, math.nan), (math.nan,) * 3],
    ids=["one value", "same value twice", "no value"],
)
def test_options_of_equal_value(values):
    """Options that count the same have no odds, and a NaN is refused."""
    with pytest.raises(ValueError, match="expected two at least that count different numbers"):
        option_odds(logs((0.5, 0.4, 0.1)), values)
    with pytest.raises(ValueError, match="is NaN"):
        option_odds([[math.nan, 0.0, 0.0]], OPTION_VALUES)


def readings(table):
    """Two readings of classes a and b with these counts, each answer a cluster of its own."""
    pairs = [
        (one, other)
        for one, row in zip("ab", table, strict=True)
        for other, count in zip("ab", row, strict=True)
        for _ in range(count)
    ]
    first, second = zip(*pairs, strict=True)
    return first, second, [str(index) for index in range(len(pairs))]


def test_kappa_by_hand():
    """Kappa and agreement have the values and errors worked out by hand."""
    # 20 a/a, 5 a/b, 10 b/a, 15 b/b: alike .7; by chance .5 x .6 + .5 x .4 = .5; kappa (.7 - .5) / (1 - .5) = .4.
    first, second, clusters = readings([[20, 5], [10, 15]])
    share, found = agreement(first, second, cluster_ids=clusters)
    assert (found.value, share.value, found.n, share.n) == (
        pytest.approx(0.4),
        pytest.approx(0.7),
        50,
        50,
    )
    assert found.ci_low < 0.4 < found.ci_high
    # Fleiss, Cohen & Everitt's standard error of it is .126996, here with n - 1 for n.
    assert found.std_error == pytest.approx(0.126996 * math.sqrt(50 / 49), abs=1e-5)
    assert share.ci_low < 0.7 < share.ci_high


def test_kappa_without_names_and_order():
    """Neither names of classes nor the order of the two readings change kappa."""
    first, second, clusters = readings([[7, 2], [3, 5]])
    known = agreement(first, second, cluster_ids=clusters)[1].value
    renamed = [[{"a": "yes", "b": "no"}[one] for one in reading] for reading in (second, first)]
    assert agreement(*renamed, cluster_ids=clusters)[1].value == pytest.approx(known)
    metrics = pytest.importorskip("sklearn.metrics")
    assert known == pytest.approx(metrics.cohen_kappa_score(first, second))
    first, second, clusters = readings([[20, 5], [10, 15]])
    both = (
        agreement(first, second, cluster_ids=clusters),
        agreement(first * 2, second * 2, cluster_ids=clusters * 2),
    )
    for once, twice in zip(*both, strict=True):
        assert (twice.ci_low, twice.ci_high) == pytest.approx((once.ci_low, once.ci_high), abs=0.01)


def test_missing_reading():
    """A missing reading leaves its answer out. A single class has no kappa, and a single story no interval."""
    _, found = agreement(["a", "b", ""], ["a", "b", "b"], cluster_ids=["1", "2", "3"])
    assert (found.value, found.n, found.n_unscored) == (1.0, 2, 1)
    assert math.isnan(agreement(["a"] * 5, ["a"] * 5, cluster_ids=list("12345"))[1].value)
    _, of_single_story = agreement(list("aabb"), list("abbb"), cluster_ids=["1"] * 4)
    assert of_single_story.value == 0.5
    assert math.isnan(of_single_story.ci_low)
    assert math.isnan(of_single_story.ci_high)
    blank = agreement(["", ""], ["a", "b"], cluster_ids=["1", "2"])
    assert all(math.isnan(one.value) and math.isnan(one.ci_low) for one in blank)
    with pytest.raises(ValueError, match="expected one of each per answer"):
        agreement(["a"], ["a", "b"], cluster_ids=["1"])


@pytest.mark.simulation
def test_independent_readings():
    """Independent readings have a kappa near zero, whose interval covers zero as often as stated."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(40):
        clusters = [str(place // 2) for place in range(120)]
        first, second = (
            [str(one) for one in rng.choice(3, 120, p=(0.6, 0.3, 0.1))] for _ in range(2)
        )
        _, found = agreement(first, second, cluster_ids=clusters)
        covered += found.ci_low <= 0 <= found.ci_high
    assert covered >= 34  # of a binomial of 40 and .95 fewer come once in a hundred
