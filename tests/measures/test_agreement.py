"""Agreement and kappa: by hand, by their slow definitions, unmoved by names, and right about chance."""

import math

import numpy as np
import pytest

from swapbias.measures import agreement


def kappa(*readings, **more):
    return agreement(*readings, **more)[1]


def readings(table):
    """Two readings of classes a and b with these counts, each answer a cluster of its own."""
    pairs = [(one, other) for one, row in zip("ab", table, strict=True)
             for other, count in zip("ab", row, strict=True) for _ in range(count)]  # fmt: skip
    first, second = zip(*pairs, strict=True)
    return first, second, [str(place) for place in range(len(pairs))]


def test_kappa_and_agreement_by_hand():
    # 20 a/a, 5 a/b, 10 b/a, 15 b/b: alike .7; by chance .5 x .6 + .5 x .4 = .5; kappa (.7 - .5) / (1 - .5) = .4.
    first, second, clusters = readings([[20, 5], [10, 15]])
    share, found = agreement(first, second, cluster_ids=clusters)
    assert (found.value, share.value, found.n, share.n) == (pytest.approx(0.4), pytest.approx(0.7), 50, 50)
    assert found.ci_low < 0.4 < found.ci_high
    # Fleiss, Cohen & Everitt's standard error of it is .126996, here with n - 1 for n.
    assert found.std_error == pytest.approx(0.126996 * math.sqrt(50 / 49), abs=1e-5)
    assert share.ci_low < 0.7 < share.ci_high


def test_names_of_classes_and_the_order_of_the_readings_do_not_matter():
    first, second, clusters = readings([[7, 2], [3, 5]])
    known = kappa(first, second, cluster_ids=clusters).value
    names = {"a": "yes", "b": "no"}
    renamed = [[names[one] for one in reading] for reading in (first, second)]
    assert kappa(*renamed, cluster_ids=clusters).value == pytest.approx(known)
    assert kappa(second, first, cluster_ids=clusters).value == pytest.approx(known)
    metrics = pytest.importorskip("sklearn.metrics")
    assert known == pytest.approx(metrics.cohen_kappa_score(first, second))
    first, second, clusters = readings([[20, 5], [10, 15]])
    both = agreement(first, second, cluster_ids=clusters), agreement(first * 2, second * 2, cluster_ids=clusters * 2)
    for once, twice in zip(*both, strict=True):
        assert (twice.ci_low, twice.ci_high) == pytest.approx((once.ci_low, once.ci_high), abs=0.01)


def test_a_missing_reading_leaves_its_answer_out_and_one_class_says_nothing():
    found = kappa(["a", "b", ""], ["a", "b", "b"], cluster_ids=["1", "2", "3"])
    assert (found.value, found.n, found.n_unscored) == (1.0, 2, 1)
    assert math.isnan(kappa(["a"] * 5, ["a"] * 5, cluster_ids=list("12345")).value)
    blank = agreement(["", ""], ["a", "b"], cluster_ids=["1", "2"])
    assert all(math.isnan(one.value) and math.isnan(one.ci_low) for one in blank)
    with pytest.raises(ValueError, match="expected one of each per answer"):
        kappa(["a"], ["a", "b"], cluster_ids=["1"])


@pytest.mark.simulation
def test_readings_that_know_nothing_of_each_other_have_a_kappa_about_zero():
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(40):
        clusters = [str(place // 2) for place in range(120)]
        first, second = ([str(one) for one in rng.choice(3, 120, p=(0.6, 0.3, 0.1))] for _ in range(2))
        found = kappa(first, second, cluster_ids=clusters)
        covered += found.ci_low <= 0 <= found.ci_high
    assert covered >= 34  # of a binomial of 40 and .95 fewer come once in a hundred
