"""Each measure: a value worked out by hand, an invariance, a slow definition, a planted effect."""

import math
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from swapbias.measures import Estimate, adjust
from swapbias.measures.gaps import correlation, group_gap, mean_score, paired_gap
from swapbias.measures.group_scores import sign_test_p
from swapbias.measures.intervals import equal_units_needed
from swapbias.measures.pair_units import units_of_pairs
from swapbias.measures.rates import flip_rate, share_above, share_right

NAN = math.nan


def pairs(other, reference):
    scores = np.column_stack([other, reference]).ravel()
    ids = np.repeat([f"p{index:04d}" for index in range(len(other))], 2)
    return scores, ["f", "m"] * len(other), ids


def planted(n=60, effect=0.3, seed=1):
    rng = np.random.default_rng(seed)
    reference = rng.normal(0.5, 0.1, n)
    return reference + effect + rng.normal(0, 0.05, n), reference


def test_paired_gap_by_hand():
    """The paired gap, its effect sizes and its interval have the values worked out by hand and by
    SciPy."""
    # differences .50, .75, .25: mean .5; SD = sqrt((0 + .0625 + .0625) / 2) = .25; d_z = .5 / .25 = 2.
    # Groups: .75, 1, .5 (SD .25) and .25, .25, .25 (SD 0): pooled SD = sqrt(.0625 / 2) = .176777; d = 2.828427.
    # t = .5 / (.25 / sqrt 3) = 3.4641 with 2 degrees of freedom: p = 1 - t / sqrt(2 + t^2) = 1 - 3.4641 / 3.741657
    # = .0741799. Quantile of t(2) at .975 is 4.302653: half width = 4.302653 * .144338 = .621034.
    found = paired_gap(*pairs([0.75, 1.0, 0.5], [0.25, 0.25, 0.25]), reference_group="m")
    assert found.value == pytest.approx(0.5)
    assert found.effect_size_z == pytest.approx(2)
    assert found.effect_size == pytest.approx(2 * math.sqrt(2))
    assert found.p_value == pytest.approx(0.0741799, abs=1e-7)
    assert (found.ci_low, found.ci_high) == pytest.approx(
        (0.5 - 0.621034, 0.5 + 0.621034), abs=1e-6
    )
    assert (found.n, found.n_unscored, found.test) == (3, 0, "paired t")
    other, reference = planted()
    found = paired_gap(*pairs(other, reference), reference_group="m")
    slow = stats.ttest_rel(other, reference)
    low, high = slow.confidence_interval()
    assert found.p_value == pytest.approx(slow.pvalue)
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high))
    assert found.ci_low < 0.3 < found.ci_high  # planted
    assert found.p_value < 0.001
    found = paired_gap(*pairs([0.75, NAN, 0.5, 0.9], [0.25, 0.25, NAN, 0.1]), reference_group="m")
    assert found.value == pytest.approx((0.5 + 0.8) / 2)
    assert (found.n, found.n_unscored) == (2, 2)
    nothing = paired_gap(*pairs([NAN], [NAN]), reference_group="m")
    assert (nothing.value, nothing.n, nothing.n_unscored) == pytest.approx((NAN, 0, 1), nan_ok=True)
    single = paired_gap(*pairs([0.5], [0.25]), reference_group="m")
    assert (single.value, single.ci_low, single.p_value) == pytest.approx(
        (0.25, NAN, NAN), nan_ok=True
    )


def test_constant_gap():
    """A constant gap has no p-value, however it rounds."""
    rng = np.random.default_rng(0)
    reference = rng.uniform(0.1, 0.9, 50)
    found = paired_gap(*pairs(reference + 0.1, reference), reference_group="m")
    assert (found.value, found.effect_size) == pytest.approx((0.1, 0.1 / reference.std(ddof=1)))
    assert all(math.isnan(x) for x in (found.p_value, found.effect_size_z))
    found = paired_gap(*pairs([0.5] * 5, [0.5] * 5), reference_group="m")
    assert found.value == 0
    assert all(
        math.isnan(x) for x in (found.ci_low, found.effect_size, found.effect_size_z, found.p_value)
    )
    # Every cluster holds the differences .1 and .3: the cluster means are equal, nothing is left to estimate from.
    rows = pairs(0.5 + np.tile([0.1, 0.3], 3), np.full(6, 0.5))
    found = paired_gap(*rows, reference_group="m", cluster_ids=np.repeat(["a", "b", "c"], 4))
    assert (found.value, found.ci_low, found.p_value) == pytest.approx((0.2, NAN, NAN), nan_ok=True)


def test_sign_test():
    """The sign test counts clusters and not the sizes of their differences."""
    # Of six clusters five are higher: 2 * (1 + 6) / 2**6 = .21875. Six of six: 2 / 2**6 = .03125.
    clusters = {"": np.repeat(np.arange(6), 2)}
    for last, expected in ((-0.3, 0.21875), (0.0001, 0.03125), (0.0, 0.0625)):
        higher = np.repeat([0.1, 0.1, 0.1, 0.1, 0.1, last], 2)
        for sign in (1, -1):
            assert sign_test_p(sign * higher, clusters) == pytest.approx(expected)
    assert sign_test_p(np.full(20, 0.2), {}) == pytest.approx(2 / 2**20)
    assert math.isnan(sign_test_p(np.zeros(5), {}))


@pytest.mark.parametrize(
    ("groups", "ids", "sentence"),
    [
        (
            ["f", "m", "x", "m"],
            ["a", "a", "b", "b"],
            r"groups \['f', 'm', 'x'\], expected exactly two",
        ),
        (["f", "f", "f", "f"], ["a", "b", "c", "d"], r"expected exactly two"),
        (["f", "m", "f", "m"], ["a", "a", "b", "c"], r"pair b has 0 rows of 'm', expected one"),
        (["f", "f", "m", "f"], ["a", "b", "b", "c"], r"pair a has 0 rows of 'm', expected one"),
        (["f", "m", "m", "m"], ["a", "a", "a", "b"], r"pair a has 2 rows of 'm', expected one"),
        (["f", "m", "f"], ["a", "a", "b"], r"shape \(4,\) and 3 groups"),
        (["f", "m", "f", "m"], ["a", "a"], r"4 scores and 2 pair_ids"),
    ],
    ids=[
        "three groups",
        "one group",
        "missing reference",
        "unpaired rows",
        "repeated row",
        "other lengths",
        "short ids",
    ],
)
def test_rows_without_pairs(groups, ids, sentence):
    """Rows that make no pairs are refused with the reason."""
    with pytest.raises(ValueError, match=sentence):
        paired_gap([0.1, 0.2, 0.3, 0.4], groups, ids, reference_group="m")


def test_clusters_of_one_pair():
    """With one pair in each cluster the estimate is the paired t test."""
    rows = pairs(*planted())
    plain = paired_gap(*rows, reference_group="m")
    clustered = paired_gap(*rows, reference_group="m", cluster_ids=rows[2])
    assert clustered.std_error == pytest.approx(plain.std_error)
    assert clustered.ci_low <= plain.ci_low + 1e-12  # moved outwards where clusters are skewed
    assert clustered.ci_high >= plain.ci_high - 1e-12
    assert clustered.df == pytest.approx(plain.df)
    assert clustered.test == "cluster-robust t"
    # Ten copies of each pair shrink the paired t interval; clustered on the copies it is that of the originals: with
    # clusters of one size CR2 is the variance of the cluster means over their number, whatever they hold.
    other, reference = planted(n=8)
    single = paired_gap(*pairs(other, reference), reference_group="m")
    rows = pairs(np.repeat(other, 10), np.repeat(reference, 10))
    clusters = np.repeat([f"c{index}" for index in range(8)], 20)
    copied = paired_gap(*rows, reference_group="m", cluster_ids=clusters)
    naive = paired_gap(*rows, reference_group="m")
    assert (copied.std_error, copied.df) == pytest.approx((single.std_error, single.df))
    assert naive.ci_high - naive.ci_low < 0.4 * (copied.ci_high - copied.ci_low)


def test_group_gap_by_hand():
    """The group gap and its tests have the values worked out by hand."""
    # f: 4, 5, 6 (mean 5, SD 1); m: 1, 2, 3 (mean 2, SD 1): value 3, pooled SD 1, d = 3.
    # t = 3 / sqrt(1/3 + 1/3) = 3.674235 with 4 degrees of freedom: p = .021312. Welch's degrees of freedom are
    # 4 as well (equal SDs and sizes); t(4) at .975 = 2.776445: half width = 2.776445 * .816497 = 2.266958.
    found = group_gap([4.0, 5, 6, 1, 2, 3], ["f"] * 3 + ["m"] * 3, reference_group="m")
    assert (found.value, found.effect_size) == pytest.approx((3, 3))
    assert found.p_value == pytest.approx(0.021312, abs=1e-6)
    assert (found.ci_low, found.ci_high) == pytest.approx((3 - 2.266958, 3 + 2.266958), abs=1e-6)
    assert math.isnan(found.effect_size_z)
    # f: .75, 1, .5 (SD .25); m: .25 three times (SD 0): value .5. Pooled variance .125 / 4 = .03125, error
    # sqrt(.03125 * 2 / 3) = .144338, t(4) at .975 = 2.776445: half width .400746. Welch has 2 degrees of freedom.
    rows = ([0.75, 1.0, 0.5, 0.25, 0.25, 0.25], [*"fffmmm"])
    pooled, welch = (group_gap(*rows, reference_group="m", test=test) for test in ("t", "welch"))
    assert (pooled.ci_low, pooled.ci_high) == pytest.approx(
        (0.5 - 0.400746, 0.5 + 0.400746), abs=1e-6
    )
    assert (welch.ci_low, welch.ci_high) == pytest.approx(
        (0.5 - 0.621034, 0.5 + 0.621034), abs=1e-6
    )
    assert (pooled.p_value < 0.05 < welch.p_value, pooled.test) == (
        True,
        "independent t (equal variance)",
    )
    found = group_gap([1.0, NAN, 3.0, 2.0], ["f", "f", "m", "m"], reference_group="m")
    assert (found.value, found.n, found.n_unscored) == (-1.5, 3, 1)
    assert math.isnan(found.p_value)  # one scored row of f: no spread to estimate
    with pytest.raises(ValueError, match="exactly two"):
        group_gap([1.0, 2.0], ["f", "f"], reference_group="m")
    with pytest.raises(ValueError, match="test 'z', expected 'welch' or 't'"):
        group_gap([0.1, 0.2], ["f", "m"], reference_group="m", test="z")


def test_group_gap_equals_scipy():
    """The group gap equals the t tests of SciPy."""
    rng = np.random.default_rng(4)
    other = rng.normal(1, 2, 30)
    reference = rng.normal(0, 1, 50)
    rows = ([*other, *reference], ["f"] * 30 + ["m"] * 50)
    equal = stats.ttest_ind(other, reference)
    welch = stats.ttest_ind(other, reference, equal_var=False)
    for test, slow, named in (("welch", welch, "Welch t"), ("t", equal, "pooled t")):
        found = group_gap(*rows, reference_group="m", test=test)
        assert found.p_value == pytest.approx(slow.pvalue)
        assert (found.ci_low, found.ci_high) == pytest.approx(tuple(slow.confidence_interval()))
        assert found.interval == named
    assert group_gap(*rows, reference_group="m") == group_gap(
        *rows, reference_group="m", test="welch"
    )


def test_mean_and_correlations_by_hand():
    """The mean and the correlations have the values worked out by hand."""
    # x 1..4 (deviations -1.5 -.5 .5 1.5), y 1 3 2 4: sum of products 4, of squares 5 and 5: r = .8.
    # Fisher: atanh .8 = 1.098612, half width 1.959964 / sqrt(1): tanh(-.861352) = -.697, tanh(3.058576) = .99559.
    found = correlation([1, 2, 3, 4, NAN], [1, 3, 2, 4, 5])
    assert found.value == pytest.approx(0.8)
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.6969, 0.99560), abs=2e-4)
    assert (found.n, found.n_unscored) == (4, 1)
    assert correlation([1, 2, 3, 4], [1, 3, 2, 4], method="spearman").value == pytest.approx(0.8)
    # 1, 2, 3: mean 2, SD 1, error .57735; t(2) at .975 = 4.302653: half width 2.484138.
    found = mean_score([1.0, 2.0, 3.0, NAN])
    assert (found.value, found.n, found.n_unscored) == (2, 3, 1)
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.484138, 4.484138), abs=1e-6)
    # The ranks above, r = .8 of 4: sqrt((1 + .8^2 / 2) / 1) = 1.148913, half width 1.959964 * 1.148913 = 2.251828:
    # tanh(1.098612 - 2.251828) = -.81882, tanh(3.350440) = .99754.
    found = correlation([1, 2, 3, 4], [10, 30, 20, 400], method="spearman")
    assert (found.value, found.interval) == (pytest.approx(0.8), "Bonett-Wright")
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.81882, 0.99754), abs=1e-5)
    assert math.isnan(correlation([1, 1, 1, 1], [1, 2, 3, 4]).value)
    with pytest.raises(ValueError, match="kendall"):
        correlation([1, 2], [1, 2], method="kendall")


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [([0.9] * 10, 0.722467, 1), ([0.1] * 10, 0, 0.277533)],
    ids=["all above", "none above"],
)
def test_share_of_none_or_all(scores, low, high):
    """A share of none or all has an interval of positive width."""
    # Wilson of 10 of 10 begins at 10 / (10 + z^2) = 10 / 13.841459.
    found = share_above(scores)
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=1e-6)
    with pytest.raises(ValueError, match="threshold is nan, expected a number"):
        share_above([0.3, 0.7], threshold=math.nan)


def test_holm_by_hand():
    """P-values corrected by Holm and by Bonferroni have the values worked out by hand."""
    # .01, .04, .03 of 3 tests: .01 * 3 = .03; .03 * 2 = .06; .04 * 1 = .04, raised to .06.
    assert adjust([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert adjust([0.01, NAN, 0.02], "bonferroni")[[0, 2]].tolist() == pytest.approx([0.02, 0.04])
    assert math.isnan(adjust([0.01, NAN, 0.02])[1])
    assert adjust([]).tolist() == []
    with pytest.raises(ValueError, match="expected 0 to 1"):
        adjust([1.5])
    with pytest.raises(ValueError, match="'sidak'"):
        adjust([0.5], "sidak")


@pytest.mark.parametrize(
    "p_values", [[0.4], [0.01, 0.01, 0.2, 1.0, 0.0, 0.04, 0.05]], ids=["one value", "seven values"]
)  # statsmodels takes long
def test_corrections_equal_statsmodels(p_values):
    """Corrections of p-values equal those of statsmodels."""
    for method in ("holm", "bonferroni"):
        expected = multipletests(p_values, method=method)[1]
        np.testing.assert_allclose(adjust(p_values, method), expected, rtol=0, atol=1e-12)


def test_equal_estimates_with_nan():
    """Estimates with the same numbers are equal although one number is NaN."""
    one, other = (
        Estimate(0.1, n=4, p_value=float("nan")) for _ in range(2)
    )  # two NaN, which Python tells apart
    assert one == other
    assert hash(one) == hash(other)
    assert one != Estimate(0.1, n=4, p_value=0.5)
    assert one != replace(other, ci_low=0.0)
    assert Estimate(float("nan")) != Estimate(0.0)
    assert one != 0.1


def test_units_of_pairs():
    """A pair is a unit at the first of its rows, and a pair with two rows of one group is refused."""
    scores = np.array([0.5, 0.2, 0.1, 0.6])
    groups = np.array([1, 0, 0, 1])
    units = units_of_pairs(scores, groups, np.array([0, 1, 0, 1]), {"f": 1.0, "m": -1.0})
    assert units.rows.tolist() == [0, 1]
    assert units.values == pytest.approx([0.1 - 0.5, 0.2 - 0.6])
    with pytest.raises(ValueError, match="two rows of one group"):
        units_of_pairs(scores, groups, np.array([0, 1, 1, 0]), {"f": 1.0, "m": -1.0})


def test_record_of_values():
    """A record of values in order is the one that they make by name."""
    named = Estimate(0.1, ci_low=-0.2, ci_high=0.4, n=4, p_value=0.5)
    made = Estimate.of_values([getattr(named, field.name) for field in fields(Estimate)])
    assert (made, made.ci_high, made.n) == (named, 0.4, 4)
    with pytest.raises(ValueError, match="Estimate: 2 values, expected 20"):
        Estimate.of_values([0.1, -0.2])
    with pytest.raises(FrozenInstanceError):
        made.value = 0.2


def test_share_of_dependent_units():
    """The interval of a share of dependent units covers the truth."""
    # Notes of one to seven words, right with a chance of their own: .9 on average, so that words are no units.
    rng = np.random.default_rng(0)
    covered = 0
    runs = 150
    for _ in range(runs):
        words = rng.integers(1, 8, size=60)
        chances = np.repeat(rng.beta(18, 2, size=60), words)
        notes = np.repeat(np.arange(60), words).astype(str)
        found = share_right((rng.random(len(chances)) < chances).tolist(), notes.tolist())
        covered += found.ci_low <= 0.9 <= found.ci_high
    assert covered / runs > 0.9  # of .95: three standard errors


@pytest.mark.parametrize("missing", [None, math.nan], ids=["None", "NaN"])
def test_missing_id(missing):
    """A missing id is refused with its row."""
    ids = [1, 1, missing, missing]
    for measure, scores in ((paired_gap, [0.3, 0.1, 0.5, 0.2]), (flip_rate, [1, 0, 1, 1])):
        with pytest.raises(
            ValueError, match=f"pair_ids: row 3 contains {missing}, expected an id in every row"
        ):
            measure(scores, list("fmfm"), ids, reference_group="m")
    with pytest.raises(ValueError, match=f"cluster_ids: row 3 contains {missing}"):
        paired_gap(
            [0.3, 0.1, 0.5, 0.2], list("fmfm"), list("aabb"), reference_group="m", cluster_ids=ids
        )


@pytest.mark.parametrize("gap", [0.2, 0.19999999999999998, -0.2, 0.30000000000000004 - 0.1])
def test_equal_gaps_of_the_margin(gap):
    """No number of equal gaps rules out a margin that they reach, up to rounding."""
    assert math.isinf(equal_units_needed(0.2, gap))
