"""Flips, ratios of rates, macro F1, UAR: by hand, against slow loops, planted, degenerate."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from swapbias.measures.rates import flip_rate, macro_f1, rate_ratio, share_right, uar
from swapbias.measures.share_intervals import share_sum

NAN = math.nan


def pairs(other, reference):
    answers = np.column_stack([np.asarray(other, float), np.asarray(reference, float)]).ravel()
    return (
        answers,
        ["f", "m"] * len(other),
        np.repeat([f"p{index:04d}" for index in range(len(other))], 2),
    )


def clinic(n=60, seed=3, blind=False):
    """A doubled test set: half the notes positive, the classifier readier to say 1 for f unless it is blind."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 2
    reference = (rng.random(n) < np.where(label == 1, 0.6, 0.3)).astype(float)
    compared = reference.copy()
    if not blind:
        compared[(rng.random(n) < 0.4) & (reference == 0)] = 1
    answers, groups, ids = pairs(compared, reference)
    return answers, np.repeat(label, 2), groups, ids


def numbers(findings):
    """All numbers of estimates and of what holds them, in order."""
    return [
        float(finding)
        for finding in re.findall(
            r"(?:(?<=[=(])|(?<=: ))-?(?:[\d.]+(?:e-?\d+)?|nan)", repr(findings)
        )
    ]


def measures_of(answers, labels, groups, ids, **options):
    """Flips, ratio of rates, macro F1 and UAR of notes."""
    sides = {"reference_group": "m", **options}
    return (
        flip_rate(answers, groups, ids, **sides),
        rate_ratio(answers, labels, groups, pair_ids=ids, **sides),
        macro_f1(answers, labels, pair_ids=ids, **options),
        uar(["f" if answer else "m" for answer in answers], groups, note_ids=ids, **options),
    )


def estimates(*notes, **options):
    flips, rates, f1, recall = measures_of(*notes, **options)
    return flips.estimate, rates.difference, f1, recall


def slow_wilson(share, n, z):
    """Solve |share - p| = z sqrt(p (1 - p) / n) by a search over p."""
    ends = []
    for inside, outside in ((share, 0.0), (share, 1.0)):
        for _ in range(100):
            middle = (inside + outside) / 2
            within = abs(share - middle) <= z * math.sqrt(middle * (1 - middle) / n)
            inside, outside = (middle, outside) if within else (inside, middle)
        ends.append(inside)
    return tuple(ends)


def test_flips_and_mcnemar_by_hand():
    """The flip rate and McNemar's test have the values worked out by hand."""
    # Pairs f/m: 1/0, 1/0, 1/0, 0/1, 1/1, 0/0, 0/0, 0/0: four of eight differ, three towards f, one towards m.
    # McNemar: P(X <= 1) for Binomial(4, 1/2) = (1 + 4) / 16, doubled = .625.
    found = flip_rate(
        *pairs([1, 1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]), reference_group="m"
    )
    assert found.estimate.value == 0.5
    assert (found.more, found.fewer, found.higher_group) == (3, 1, "f")
    assert found.estimate.p_value == pytest.approx(0.625)
    assert (found.estimate.n, found.estimate.n_unscored) == (8, 0)
    assert (found.estimate.test, found.estimate.interval) == ("exact McNemar", "Wilson")
    # Wilson at 1/2: .5 -+ 1.959964 / (2 sqrt(8 + 1.959964^2)) = .5 -+ .284784.
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx(
        (0.215216, 0.784784), abs=1e-6
    )
    # 3 and 0: 2 * (1/2)^3 = .25; 1 and 1: the middle of the distribution, 1; none: no test.
    sides = (([1, 1, 1], [0, 0, 0]), ([0, 0, 0], [1, 1, 1]), ([1, 0], [0, 1]), ([1, 0], [1, 0]))
    found = [flip_rate(*pairs(*one), reference_group="m").estimate.p_value for one in sides]
    assert found == pytest.approx([0.25, 0.25, 1.0, NAN], nan_ok=True)
    found = flip_rate(*pairs([1, NAN, 0, 1], [0, 1, NAN, 1]), reference_group="m")
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (0.5, 2, 2)
    found = flip_rate(*pairs([NAN], [1]), reference_group="m")
    assert all(
        math.isnan(x) for x in (found.estimate.value, found.estimate.ci_low, found.estimate.p_value)
    )
    assert (found.estimate.n, found.estimate.n_unscored, found.higher_group) == (0, 1, "")


def test_swapped_reference():
    """Swapping the reference turns sides and leaves sizes."""
    answers, labels, groups, ids = clinic()
    one, other = (flip_rate(answers, groups, ids, reference_group=group) for group in "mf")
    assert (one.more, one.fewer) == (other.fewer, other.more)
    assert one.more > one.fewer
    assert one.estimate == other.estimate
    assert one.higher_group == other.higher_group == "f"
    one, other = (
        rate_ratio(answers, labels, groups, reference_group=g, pair_ids=ids) for g in "mf"
    )
    assert (one.estimate.value, one.rates, one.higher_group) == (
        other.estimate.value,
        other.rates,
        "f",
    )
    for name in ("difference", "log_ratio"):
        here = getattr(one, name)
        there = getattr(other, name)
        assert (here.value, here.ci_low, here.ci_high) == pytest.approx(
            (-there.value, -there.ci_high, -there.ci_low)
        )
        assert here.p_value == pytest.approx(there.p_value)
        assert here.value > 0 > there.value
    assert (list(one.rates), list(other.rates)) == (["f", "m"], ["m", "f"])


def test_blind_classifier():
    """A blind classifier never flips and has the ratio one."""
    # Wilson of 0 of 60: 0 to z^2 / (60 + z^2) = 3.841459 / 63.841459; of 60 of 60 the mirror image.
    answers, labels, groups, ids = clinic(blind=True)
    found = flip_rate(answers, groups, ids, reference_group="m")
    assert (found.estimate.value, found.more, found.fewer) == (0, 0, 0)
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx((0, 0.060172), abs=1e-6)
    assert math.isnan(found.estimate.p_value)
    always = flip_rate(*pairs([1] * 60, [0] * 60), reference_group="m").estimate
    assert (always.ci_low, always.ci_high) == pytest.approx((1 - 0.060172, 1), abs=1e-6)
    found = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids)
    assert (found.estimate.value, found.higher_group) == (1, "")
    assert math.isnan(found.estimate.ci_low)
    for one in (found.difference, found.log_ratio):
        assert (one.value, one.p_value) == (0, 1)
        assert one.ci_low < 0 < one.ci_high


@pytest.mark.parametrize(("flips", "n"), [(0, 5), (1, 20), (3, 7), (19, 20), (20, 20)])
def test_interval_of_flips(flips, n):
    """The interval of flips is found by a slow search for the rates that the data do not reject."""
    found = flip_rate(
        *pairs([1] * flips + [0] * (n - flips), [0] * n), reference_group="m"
    ).estimate
    assert (found.ci_low, found.ci_high) == pytest.approx(
        slow_wilson(flips / n, n, 1.959964), abs=1e-6
    )


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_order_of_rows(random):
    """The order of rows changes no measure of rates."""
    notes = clinic(n=12)
    order = list(range(len(notes[0])))
    random.shuffle(order)
    wanted = numbers(measures_of(*notes))
    assert len(wanted) > 50
    moved = [np.array(column)[order].tolist() for column in notes]
    assert numbers(measures_of(*moved)) == pytest.approx(wanted, nan_ok=True)


def test_rate_ratio_by_hand():
    """The ratio of rates has the value worked out by hand."""
    # Label 1: f 1, 1, 0, 1 (3/4), m 1, 0, 0, 1 (2/4): TPRR (2/4) / (3/4) = 2/3, f higher.
    # Label 0: f 0, 1 (1/2), m 1, 1 (1): FPRR 1/2, m higher.
    answers, groups, ids = pairs([1, 1, 0, 1, 0, 1], [1, 0, 0, 1, 1, 1])
    labels = np.repeat([1, 1, 1, 1, 0, 0], 2)
    found = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids)
    assert found.estimate.value == pytest.approx(2 / 3)
    assert (found.rates, found.higher_group) == ({"f": 0.75, "m": 0.5}, "f")
    assert (found.estimate.n, found.estimate.test) == (8, "none")
    assert (found.difference.value, found.log_ratio.value) == pytest.approx((0.25, math.log(1.5)))
    false = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids, rate="fpr")
    assert (false.estimate.value, false.rates, false.higher_group) == (
        0.5,
        {"f": 0.5, "m": 1.0},
        "m",
    )
    assert false.estimate.n == 4
    groups = ["f", "m", "f", "m"]
    labels = [1, 1, 1, 1]
    neither = rate_ratio([0, 0, 0, 0], labels, groups, reference_group="m")
    assert math.isnan(neither.estimate.value)
    assert (neither.rates, neither.higher_group) == ({"f": 0.0, "m": 0.0}, "")
    absent = rate_ratio([1, 0, 1, 0], [1, 0, 1, 0], groups, reference_group="m")
    assert (absent.estimate.value, *absent.rates.values()) == pytest.approx(
        (NAN, 1.0, NAN), nan_ok=True
    )
    assert absent.higher_group == ""
    one = rate_ratio([1, 0, 0, 0], labels, groups, reference_group="m")
    assert (one.estimate.value, one.difference.value) == (0, 0.5)
    assert -1 < one.difference.ci_low < 0.5 < one.difference.ci_high < 1
    assert all(
        math.isnan(x) for x in (one.log_ratio.value, one.log_ratio.ci_low, one.log_ratio.p_value)
    )
    unlabelled = rate_ratio([1, 0, 0, 0], labels, groups, reference_group="m", rate="fpr").estimate
    assert (unlabelled.value, unlabelled.n) == pytest.approx((NAN, 0), nan_ok=True)
    answers, groups, ids = pairs([1, NAN, NAN], [1, 0, 1])
    found = rate_ratio(answers, [1, 1, 1, 1, 0, 0], groups, reference_group="m", pair_ids=ids)
    # f: 1 of 1; m: 1 of 2; the NaN of the third pair has label 0.
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (0.5, 3, 1)


def test_macro_f1_by_hand():
    """The macro F1 and its interval have the values worked out by hand."""
    # TP 2, FP 1, FN 1, TN 1: F1 of class 1 = 4 / 6, of class 0 = 2 / 4; mean 7/12.
    found = macro_f1([1, 1, 1, 0, 0, NAN], [1, 1, 0, 1, 0, 1])
    assert found.value == pytest.approx(7 / 12)
    assert (found.n, found.n_unscored) == (5, 1)
    values = [macro_f1(*both).value for both in (([1, 1], [1, 1]), ([], []), ([0, 1], [1, 0]))]
    assert values == pytest.approx([NAN, NAN, 0], nan_ok=True)
    # 8 true positives, 8 true negatives, no error: each s is 1 from 8 / (8 + z^2) = .675592; F1 2 s / (1 + s) =
    # .806391 there; two classes that do not vary together: 1 - sqrt(2) * .193609 / 2 = .863098.
    found = macro_f1([1] * 8 + [0] * 8, [1] * 8 + [0] * 8)
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx((1, 0.863098, 1), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_and_uar_of_scikit_learn(seed):
    """The macro F1 and the unweighted average recall are those of scikit-learn."""
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="needs scikit-learn: pip install 'swapbias[clinical]'"
    )
    rng = np.random.default_rng(seed)
    # seed 0 never answers 1
    labels = rng.integers(2, size=20)
    answers = (rng.random(20) < 0.2 * seed).astype(int)
    slow = metrics.f1_score(labels, answers, labels=[0, 1], average="macro", zero_division=0)
    assert macro_f1(answers, labels).value == pytest.approx(slow)
    rng = np.random.default_rng(0)
    truth, guess = (rng.choice(["f", "m", "x"], 50).tolist() for _ in range(2))
    assert uar(guess, truth).value == pytest.approx(metrics.balanced_accuracy_score(truth, guess))


def test_uar_by_hand():
    """The unweighted average recall has the value and interval worked out by hand."""
    # Recall of a 3/4, of b 1/2, of c 0/1: (.75 + .5 + 0) / 3; the guess x is wrong, the blank ones do not count.
    truth = ["a", "a", "a", "a", "b", "b", "c", "c", "a", "b"]
    found = uar(["a", "a", "a", "x", "b", "a", "a", "", None, NAN], truth)
    assert found.value == pytest.approx(1.25 / 3)
    assert (found.n, found.n_unscored) == (7, 3)
    assert found.interval == "Wilson, combined"
    assert math.isnan(found.p_value)
    assert uar(["f"] * 100, ["f"] * 90 + ["m"] * 10).value == 0.5
    assert all(math.isnan(uar(*both).value) for both in (("fm", "ff"), (["f", ""], "fm"), ([], [])))
    perfect = uar(["f", "m"] * 5, ["f", "m"] * 5)
    # Wilson of 5 of 5 begins at 5 / (5 + z^2) = .565518: 1 - sqrt(2 * .434482^2) / 2 = .692775.
    assert (perfect.value, perfect.ci_low, perfect.ci_high) == pytest.approx(
        (1, 0.692775, 1), abs=1e-6
    )
    wrong = uar(["m", "f"] * 5, ["f", "m"] * 5)
    assert (wrong.value, wrong.ci_low, wrong.ci_high) == pytest.approx(
        (0, 0, 1 - 0.692775), abs=1e-6
    )


def test_newcombe_intervals():
    """Differences of paired and of independent rates have Newcombe's intervals."""
    # Newcombe's method for pairs: 50 of them, 12 positive in both, 9 in f alone, 1 in m alone, 28 in neither. Rates
    # 21/50 and 13/50, Wilson .2938 to .5577 and .1587 to .3955; phi with his correction (12 * 28 - 9 * 1 - 25) /
    # sqrt(21 * 29 * 13 * 37) = .5580. Below: .16 - sqrt(.1262^2 - 2 * .5580 * .1262 * .1355 + .1355^2) = .0370;
    # above: .16 + sqrt(.1377^2 - 2 * .5580 * .1377 * .1013 + .1013^2) = .2769.
    other = [1] * 12 + [1] * 9 + [0] + [0] * 28
    reference = [1] * 12 + [0] * 9 + [1] + [0] * 28
    answers, groups, ids = pairs(other, reference)
    found = rate_ratio(answers, [1] * 100, groups, reference_group="m", pair_ids=ids).difference
    assert (found.value, found.n) == (pytest.approx(0.16), 100)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.0370, 0.2769), abs=5e-4)
    assert found.p_value < 0.05
    # Newcombe (1998), method 10: 56/70 and 48/80: Wilson .6918 to .8782 and .4905 to .7006 (.6906 to .8770, z exact):
    # .2 - sqrt(.1094^2 + .1006^2) = .0524, .2 + sqrt(.0770^2 + .1095^2) = .3339.
    answers = [1] * 56 + [0] * 14 + [1] * 48 + [0] * 32
    found = rate_ratio(answers, [1] * 150, ["f"] * 70 + ["m"] * 80, reference_group="m").difference
    assert (found.value, found.ci_low, found.ci_high) == pytest.approx(
        (0.2, 0.0524, 0.3339), abs=1e-4
    )


@pytest.mark.parametrize("scale", [np.asarray, np.log], ids=["difference", "log ratio"])
def test_p_value_inverts_interval(scale):
    """The p-value is that of the interval which just reaches zero."""
    answers, labels, groups, ids = (np.asarray(column) for column in clinic())
    rows = (labels == 1)[:, None] & (groups[:, None] == ["f", "m"])
    units = np.unique(ids, return_inverse=True)[1]
    shares = rows & (answers == 1)[:, None], rows, (1.0, -1.0), units, None
    p_value = share_sum(*shares, scale=scale, tested=True).p_value
    assert 0.0001 < p_value < 0.05
    assert share_sum(*shares, scale=scale, confidence=1 - p_value).ci_low == pytest.approx(
        0, abs=1e-6
    )


def test_clusters_and_copies():
    """Clusters of one pair change nothing, and copies of notes add no precision."""
    notes = clinic()
    for alone, clustered in zip(
        estimates(*notes), estimates(*notes, cluster_ids=notes[-1]), strict=True
    ):
        assert (clustered.ci_low, clustered.ci_high) == pytest.approx((alone.ci_low, alone.ci_high))
    for found in estimates(*notes, cluster_ids=["s"] * len(notes[-1])):
        assert math.isfinite(found.value)
        assert all(math.isnan(x) for x in (found.ci_low, found.ci_high, found.p_value))
    # Ten copies of each note, clustered on the note: the interval is about that of the notes alone.
    answers, labels, groups, ids = clinic(n=80)
    copies = [f"{pair}/{copy}" for copy in range(10) for pair in ids]
    many = np.tile(answers, 10), np.tile(labels, 10), groups * 10, copies
    three = (
        estimates(answers, labels, groups, ids),
        estimates(*many),
        estimates(*many, cluster_ids=np.tile(ids, 10)),
    )
    for each in zip(*three, strict=True):
        one, naive, ten = (found.ci_high - found.ci_low for found in each)
        assert ten == pytest.approx(one, rel=0.08)
        assert naive < 0.4 * ten


def test_flips_of_clusters():
    """The test of flips permutes whole clusters."""
    # Net flips of three subjects 2, 1 and 1, all towards f: of 8 ways to turn them 2 reach |4|: p = .25; pair by pair
    # (McNemar) it would be 2 * .5^4 = .125.
    answers, groups, ids = pairs([1, 1, 1, 1, 0], [0, 0, 0, 0, 0])
    subjects = np.repeat(["s", "s", "t", "u", "u"], 2)
    found = flip_rate(answers, groups, ids, reference_group="m", cluster_ids=subjects).estimate
    assert (found.p_value, found.test) == (pytest.approx(0.25), "sign-flip permutation of clusters")


# --- coverage, by simulation: 300 to 600 data sets, so that .95 is told with a standard error of about .01 -------


def covered(estimates, truth):
    estimates = [item for item in estimates if math.isfinite(item.value)]
    return np.mean(
        [one.ci_low <= truth + 1e-9 and truth - 1e-9 <= one.ci_high for one in estimates]
    )


def versions(rng, n, rate, again=0.5):
    """Answers to both versions of notes with the same rate; the second answer is a new draw with that chance."""
    first = rng.random(n) < rate
    return pairs(np.where(rng.random(n) < again, rng.random(n) < rate, first), first)


@pytest.mark.simulation
@pytest.mark.parametrize(("n", "rate"), [(50, 0.5), (100, 0.05)])
def test_false_alarms(n, rate):
    """Equal rates are found different in at most a twentieth of the draws."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(400):
        answers, groups, ids = versions(rng, n, rate)
        rows = {"reference_group": "m", "pair_ids": ids}
        found.append(rate_ratio(answers, [1] * (2 * n), groups, **rows))
    for name in ("difference", "log_ratio"):
        estimates = [getattr(one, name) for one in found]
        assert np.mean([one.p_value < 0.05 for one in estimates]) <= 0.075
        assert covered(estimates, 0) >= 0.925


@pytest.mark.simulation
def test_planted_differences():
    """Planted differences of rates are recovered."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(300):
        draw = rng.random(150)
        other = np.where(rng.random(150) < 0.3, rng.random(150), draw) < 0.4
        answers, groups, ids = pairs(other, draw < 0.2)
        found.append(rate_ratio(answers, [1] * 300, groups, reference_group="m", pair_ids=ids))
    assert covered([one.difference for one in found], 0.2) >= 0.92
    assert covered([one.log_ratio for one in found], math.log(2)) >= 0.92
    assert np.mean([one.difference.p_value < 0.05 for one in found]) > 0.95


@pytest.mark.parametrize(
    ("recalls", "n"),
    [((1.0, 1.0), 20), ((0.95, 0.85), 50)],
    ids=["perfect recall", "uneven recall"],
)
def test_uar_interval_covers(recalls, n):
    """The interval of the unweighted average recall covers the truth."""
    rng = np.random.default_rng(n)
    truth = ["f"] * n + ["m"] * n
    found = []
    for _ in range(300):
        right = [*(rng.random(n) < recalls[0]), *(rng.random(n) < recalls[1])]
        guess = [one if ok else "x" for one, ok in zip(truth, right, strict=True)]
        found.append(uar(guess, truth))
    assert covered(found, sum(recalls) / 2) >= 0.92
    assert all(one.ci_low < one.ci_high for one in found)


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.8, 0.9), (0.95, 0.97)])
def test_macro_f1_interval_covers(sensitivity, specificity):
    """The interval of the macro F1 covers the truth."""
    rng = np.random.default_rng(9)
    wrong = (2 - sensitivity - specificity) / 2
    truth = np.mean(
        [right / (right + wrong) for right in (sensitivity, specificity)]
    )  # 2 TP / (2 TP + wrong)
    found = []
    for _ in range(400):
        label = rng.random(60) < 0.5
        answer = np.where(label, rng.random(60) < sensitivity, rng.random(60) >= specificity)
        found.append(macro_f1(answer, label))
    assert 0.925 <= covered(found, truth) <= 0.98


def test_whole_notes_are_resampled():
    """The bootstrap draws whole notes, which widens the interval of notes with two equal rows by
    the root of 2."""
    # Both rows of a note are right, or both wrong: over rows the interval is too narrow by sqrt 2.
    right = np.repeat(np.arange(100) % 2, 2)
    labels = np.repeat(np.arange(100) // 2 % 2, 2)
    answers = np.where(right == 1, labels, 1 - labels)
    rows = macro_f1(answers, labels)
    notes = macro_f1(answers, labels, pair_ids=np.repeat(np.arange(100), 2).tolist())
    assert (notes.ci_high - notes.ci_low) / (rows.ci_high - rows.ci_low) == pytest.approx(
        math.sqrt(2), rel=0.1
    )


F_M = ["f", "m"]
A_A = ["a", "a"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: flip_rate([0.3, 1], F_M, A_A, reference_group="m"),
            r"answers .* \[0.3\], expected 1, 0",
        ),
        (lambda: flip_rate([0, 1], F_M, ["a", "b"], reference_group="m"), "expected one"),
        (lambda: flip_rate([0, 1], F_M, A_A, reference_group="x"), "expected exactly two"),
        (lambda: rate_ratio([1, 1], [1, NAN], F_M, reference_group="m"), "no label NaN"),
        (
            lambda: rate_ratio([1, 1], [1, 1], F_M, reference_group="m", pair_ids=["a"]),
            "2 rows and 1 ids",
        ),
        (
            lambda: rate_ratio([1, 1], [1, 1], F_M, reference_group="m", cluster_ids=["a"]),
            "1 cluster_ids",
        ),
        (
            lambda: flip_rate([1, 1], F_M, A_A, reference_group="m", cluster_ids=["x", "y"]),
            "two clusters",
        ),
        (lambda: macro_f1([1, 1], [1]), "2 answers, 1 labels"),
        (lambda: share_right([True], ["a"], confidence=95), "confidence 95"),
        (lambda: uar(["f"], ["f", "m"]), "1 predicted, 2 truth"),
        (lambda: uar(["f", "f"], ["f", ""]), "no truth blank"),
    ],
    ids=[
        "fraction",
        "unpaired rows",
        "unknown reference",
        "label of NaN",
        "few ids",
        "few clusters",
        "split pair",
        "few labels",
        "confidence of 95",
        "few predictions",
        "blank truth",
    ],
)
def test_impossible_data(call, sentence):
    """Impossible data is refused with the reason."""
    with pytest.raises(ValueError, match=sentence):
        call()
