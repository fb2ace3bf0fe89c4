"""Flips, ratios of rates, macro F1, UAR: by hand, against slow loops, planted, degenerate."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from swapbias.errors import UsageError
from swapbias.measures.rates import flip_rate, macro_f1, mcnemar_p, rate_ratio, uar

NAN = math.nan
TAIL = [0.025, 0.975]


def pairs(other, reference):
    """Interleaved answers, groups f and m, and pair ids."""
    answers = np.column_stack([np.asarray(other, float), np.asarray(reference, float)]).ravel()
    return answers, ["f", "m"] * len(other), np.repeat([f"p{index:04d}" for index in range(len(other))], 2)


def clinic(n=60, seed=3, blind=False):
    """A doubled test set: half the notes positive, the classifier readier to say 1 for f unless it is blind."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 2
    reference = (rng.random(n) < np.where(label == 1, 0.6, 0.3)).astype(float)
    other = reference.copy()
    if not blind:
        other[(rng.random(n) < 0.4) & (reference == 0)] = 1
    answers, groups, ids = pairs(other, reference)
    return answers, np.repeat(label, 2), groups, ids


def resamples(counts, n_resamples, seed=0):
    """The library's draws, one by one: positions of the drawn units, duplicates and all."""
    times = Counter(map(tuple, counts))
    kinds = sorted(times)
    example = {kind: [tuple(row) for row in counts].index(kind) for kind in kinds}
    share = np.array([times[kind] for kind in kinds]) / len(counts)
    for weights in np.random.default_rng(seed).multinomial(len(counts), share, size=n_resamples):
        yield [example[kind] for kind, weight in zip(kinds, weights, strict=True) for _ in range(weight)]


def slow_rate(rows):
    return sum(answer for answer, _ in rows) / len(rows) if rows else NAN


# --- flip_rate --------------------------------------------------------------------------------------


def test_flip_rate_by_hand():
    # Pairs f/m: 1/0, 1/0, 1/0, 0/1, 1/1, 0/0, 0/0, 0/0: four of eight differ, three towards f, one towards m.
    # McNemar: P(X <= 1) for Binomial(4, 1/2) = (1 + 4) / 16, doubled = .625.
    found = flip_rate(*pairs([1, 1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]), reference_group="m")
    assert found.estimate.value == 0.5
    assert (found.more, found.fewer, found.higher_group) == (3, 1, "f")
    assert found.estimate.p_value == pytest.approx(0.625)
    assert (found.estimate.n, found.estimate.n_unscored) == (8, 0)
    assert (found.estimate.test, found.estimate.interval) == ("exact McNemar", "bootstrap over pairs percentile")


def test_mcnemar_by_hand():
    # 3 and 0: 2 * (1/2)^3 = .25; 1 and 1: the middle of the distribution, 1; none: no test.
    assert (mcnemar_p(3, 0), mcnemar_p(0, 3), mcnemar_p(1, 1)) == (0.25, 0.25, 1.0)
    assert math.isnan(mcnemar_p(0, 0))
    with pytest.raises(ValueError, match="expected counts from 0"):
        mcnemar_p(-1, 2)


def test_swapping_the_reference_swaps_more_and_fewer_and_keeps_the_rest():
    answers, _, groups, ids = clinic()
    one, other = (flip_rate(answers, groups, ids, reference_group=group) for group in "mf")
    assert (one.more, one.fewer) == (other.fewer, other.more)
    assert one.more > one.fewer
    assert one.estimate == other.estimate
    assert one.higher_group == other.higher_group == "f"


def test_a_tie_of_positives_is_told_by_the_scores():
    # One flip each way. Mean score of f (.9 + .2 + .3) / 3 against m (.1 + .8 + .2) / 3: f is higher.
    rows = pairs([1, 0, 0], [0, 1, 0])
    scores = pairs([0.9, 0.2, 0.3], [0.1, 0.8, 0.2])[0]
    assert flip_rate(*rows, reference_group="m").higher_group == ""
    assert flip_rate(*rows, reference_group="m", scores=scores).higher_group == "f"
    assert flip_rate(*rows, reference_group="m", scores=1 - scores).higher_group == "m"


def test_more_positives_outweigh_the_scores():
    rows = pairs([1, 0, 0], [0, 0, 0])
    scores = pairs([0.6, 0.1, 0.1], [0.4, 0.4, 0.4])[0]  # mean of f .27, of m .4
    assert flip_rate(*rows, reference_group="m", scores=scores).higher_group == "f"


def test_scores_that_cancel_but_for_rounding_tell_nothing():
    scores = pairs([0.3, 0.1], [0.1, 0.3])[0]
    scores[3] = 0.1 + 0.2  # .30000000000000004, so that .2 and -.2 leave -5.6e-17
    found = flip_rate(*pairs([0, 0], [0, 0]), reference_group="m", scores=scores)
    assert (found.higher_group, found.estimate.value) == ("", 0)


def test_scores_of_pairs_without_a_prediction_do_not_count():
    answers = pairs([0, NAN], [0, 0])
    scores = pairs([0.2, 0.9], [0.3, 0.1])[0]
    assert flip_rate(*answers, reference_group="m", scores=scores).higher_group == "m"


def test_a_missing_prediction_drops_its_pair_and_is_counted():
    found = flip_rate(*pairs([1, NAN, 0, 1], [0, 1, NAN, 1]), reference_group="m")
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (0.5, 2, 2)


def test_no_predicted_pair_is_nan():
    found = flip_rate(*pairs([NAN], [1]), reference_group="m", scores=[0.5, 0.5])
    assert all(math.isnan(x) for x in (found.estimate.value, found.estimate.ci_low, found.estimate.p_value))
    assert (found.estimate.n, found.estimate.n_unscored, found.higher_group) == (0, 1, "")


def test_a_blind_classifier_never_flips_and_has_no_interval():
    answers, _, groups, ids = clinic(blind=True)
    found = flip_rate(answers, groups, ids, reference_group="m")
    assert (found.estimate.value, found.more, found.fewer) == (0, 0, 0)
    assert math.isnan(found.estimate.ci_low)
    assert math.isnan(found.estimate.p_value)


def test_a_planted_share_of_flips_is_recovered():
    # 200 pairs, 50 of which flip towards f: .25, and sqrt(.25 * .75 / 200) * 1.96 = .060 to either side.
    found = flip_rate(*pairs([1] * 50 + [0] * 150, [0] * 200), reference_group="m")
    assert found.estimate.value == 0.25
    assert (found.estimate.ci_low, found.estimate.ci_high) == pytest.approx((0.19, 0.31), abs=0.01)
    assert found.estimate.p_value == pytest.approx(2 * 0.5**50)


def test_booleans_are_answers():
    rows = pairs([1, 0, 1], [0, 0, 1])
    assert flip_rate(rows[0].astype(bool), *rows[1:], reference_group="m") == flip_rate(*rows, reference_group="m")


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing_to_any_of_them(random):
    answers, labels, groups, ids = clinic(n=12)
    order = list(range(len(answers)))
    random.shuffle(order)

    def four(rows):
        a, y, g, i = answers[rows], labels[rows], [groups[row] for row in rows], ids[rows]
        options = {"pair_ids": i, "n_resamples": 50}
        return (
            flip_rate(a, g, i, reference_group="m", n_resamples=50),
            rate_ratio(a, y, g, reference_group="m", **options),
            macro_f1(a, y, **options),
            uar([str(x) for x in a], g, note_ids=i, n_resamples=50),
        )

    assert four(order) == four(list(range(len(answers))))


# --- rate_ratio -------------------------------------------------------------------------------------


def test_rate_ratio_by_hand():
    # Label 1: f 1, 1, 0, 1 (3/4), m 1, 0, 0, 1 (2/4): TPRR (2/4) / (3/4) = 2/3, f higher.
    # Label 0: f 0, 1 (1/2), m 1, 1 (1): FPRR 1/2, m higher.
    answers, groups, ids = pairs([1, 1, 0, 1, 0, 1], [1, 0, 0, 1, 1, 1])
    labels = np.repeat([1, 1, 1, 1, 0, 0], 2)
    found = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids)
    assert found.estimate.value == pytest.approx(2 / 3)
    assert (found.rates, found.higher_group) == ({"f": 0.75, "m": 0.5}, "f")
    assert (found.estimate.n, found.estimate.test) == (8, "none")
    false = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids, rate="fpr")
    assert (false.estimate.value, false.rates, false.higher_group) == (0.5, {"f": 0.5, "m": 1.0}, "m")
    assert false.estimate.n == 4


def test_swapping_the_reference_leaves_the_ratio_alone():
    answers, labels, groups, ids = clinic()
    one, other = (rate_ratio(answers, labels, groups, reference_group=g, pair_ids=ids) for g in "mf")
    assert (one.estimate.value, one.rates, one.higher_group) == (other.estimate.value, other.rates, "f")
    assert (one.estimate.ci_low, one.estimate.ci_high) == pytest.approx(
        (other.estimate.ci_low, other.estimate.ci_high)
    )
    assert (list(one.rates), list(other.rates)) == (["f", "m"], ["m", "f"])


def test_a_blind_classifier_has_the_ratio_one_in_every_resample():
    answers, labels, groups, ids = clinic(blind=True)
    found = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids)
    assert (found.estimate.value, found.higher_group) == (1, "")
    assert math.isnan(found.estimate.ci_low)


def test_undefined_ratios_are_nan_and_one_rate_of_zero_is_zero():
    groups, labels = ["f", "m", "f", "m"], [1, 1, 1, 1]
    neither = rate_ratio([0, 0, 0, 0], labels, groups, reference_group="m")
    assert math.isnan(neither.estimate.value)
    assert (neither.rates, neither.higher_group) == ({"f": 0.0, "m": 0.0}, "")
    assert neither.estimate.interval == "bootstrap over rows percentile (2000 of 2000 undefined)"
    absent = rate_ratio([1, 0, 1, 0], [1, 0, 1, 0], groups, reference_group="m")
    assert math.isnan(absent.estimate.value)
    assert math.isnan(absent.rates["m"])
    assert (absent.rates["f"], absent.higher_group) == (1.0, "")
    assert rate_ratio([1, 0, 0, 0], labels, groups, reference_group="m").estimate.value == 0
    unlabelled = rate_ratio([1, 0, 0, 0], labels, groups, reference_group="m", rate="fpr").estimate
    assert math.isnan(unlabelled.value)
    assert unlabelled.n == 0


def test_rows_of_the_label_without_a_prediction_are_counted():
    answers, groups, ids = pairs([1, NAN, NAN], [1, 0, 1])
    found = rate_ratio(answers, [1, 1, 1, 1, 0, 0], groups, reference_group="m", pair_ids=ids)
    # f: 1 of 1; m: 1 of 2; the NaN of the third pair has label 0.
    assert (found.estimate.value, found.estimate.n, found.estimate.n_unscored) == (0.5, 3, 1)


# --- macro_f1 ---------------------------------------------------------------------------------------


def test_macro_f1_by_hand():
    # TP 2, FP 1, FN 1, TN 1: F1 of class 1 = 4 / 6, of class 0 = 2 / 4; mean 7/12.
    found = macro_f1([1, 1, 1, 0, 0, NAN], [1, 1, 0, 1, 0, 1])
    assert found.value == pytest.approx(7 / 12)
    assert (found.n, found.n_unscored) == (5, 1)


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_is_that_of_scikit_learn(seed):
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn: pip install 'swapbias[clinical]'")
    rng = np.random.default_rng(seed)
    labels, answers = rng.integers(2, size=20), (rng.random(20) < 0.2 * seed).astype(int)  # seed 0 never answers 1
    slow = metrics.f1_score(labels, answers, labels=[0, 1], average="macro", zero_division=0)
    assert macro_f1(answers, labels, n_resamples=10).value == pytest.approx(slow)


def test_macro_f1_without_one_class_is_nan_and_all_wrong_is_zero():
    assert math.isnan(macro_f1([1, 1], [1, 1]).value)
    assert math.isnan(macro_f1([], []).value)
    assert macro_f1([0, 1], [1, 0]).value == 0


# --- uar --------------------------------------------------------------------------------------------


def test_uar_by_hand():
    # Recall of a 3/4, of b 1/2, of c 0/1: (.75 + .5 + 0) / 3; the guess x is wrong, the blank ones do not count.
    truth = ["a", "a", "a", "a", "b", "b", "c", "c", "a", "b"]
    found = uar(["a", "a", "a", "x", "b", "a", "a", "", None, NAN], truth)
    assert found.value == pytest.approx(1.25 / 3)
    assert (found.n, found.n_unscored) == (7, 3)
    assert found.interval.startswith("bootstrap over notes percentile (")
    assert math.isnan(found.p_value)


def test_constant_guesses_are_at_chance_whatever_the_class_sizes():
    assert uar(["f"] * 100, ["f"] * 90 + ["m"] * 10).value == 0.5


def test_uar_of_one_class_or_of_a_class_without_a_guess_is_nan():
    assert math.isnan(uar(["f", "m"], ["f", "f"]).value)
    assert math.isnan(uar(["f", ""], ["f", "m"]).value)
    assert math.isnan(uar([], []).value)
    perfect = uar(["f", "m"] * 5, ["f", "m"] * 5)
    assert perfect.value == 1
    assert math.isnan(perfect.ci_low)


def test_uar_is_the_balanced_accuracy_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn: pip install 'swapbias[clinical]'")
    rng = np.random.default_rng(0)
    truth, guess = (rng.choice(["f", "m", "x"], 50).tolist() for _ in range(2))
    assert uar(guess, truth, n_resamples=10).value == pytest.approx(metrics.balanced_accuracy_score(truth, guess))


# --- the bootstrap ----------------------------------------------------------------------------------


def test_the_bootstrap_of_flips_is_the_slow_loop_over_pairs():
    answers, _, groups, ids = clinic(n=30)
    differ = answers[::2] != answers[1::2]
    slow = [np.mean(differ[drawn]) for drawn in resamples([(int(x), 1) for x in differ], 300)]
    found = flip_rate(answers, groups, ids, reference_group="m", n_resamples=300).estimate
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(slow, TAIL)))


def test_the_bootstrap_of_ratios_is_the_slow_loop_over_notes_and_drops_undefined_resamples():
    other, reference = [1, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 0]
    answers, groups, ids = pairs(other, reference)
    slow, lost = [], 0
    for drawn in resamples([(f, 1, m, 1) for f, m in zip(other, reference, strict=True)], 400):
        rates = [sum(side[unit] for unit in drawn) / len(drawn) for side in (other, reference)]
        if max(rates) == 0:
            lost += 1
        else:
            slow.append(min(rates) / max(rates))
    found = rate_ratio(answers, [1] * 12, groups, reference_group="m", pair_ids=ids, n_resamples=400).estimate
    assert lost > 0
    assert found.interval == f"bootstrap over pairs percentile ({lost} of 400 undefined)"
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(slow, TAIL)))


def test_the_bootstrap_of_uar_is_the_slow_loop_over_notes_of_two_rows():
    rng = np.random.default_rng(5)
    notes = [[(str(rng.choice(["f", "m"])), truth) for truth in "fm"] for _ in range(25)]
    rows = [row for note in notes for row in note]
    counts = [(int(f == "f"), int(m == "m"), 1, 1) for (f, _), (m, _) in notes]
    slow = []
    for drawn in resamples(counts, 300):
        read = [row for unit in drawn for row in notes[unit]]
        slow.append(np.mean([np.mean([guess == truth for guess, truth in read if truth == c]) for c in "fm"]))
    ids = [str(index) for index in range(25) for _ in range(2)]
    found = uar(*zip(*rows, strict=True), note_ids=ids, n_resamples=300)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(slow, TAIL)))


def test_the_bootstrap_of_macro_f1_has_the_law_of_drawing_notes_with_replacement():
    answers, labels, _, ids = clinic(n=60)
    rng = np.random.default_rng(1)
    slow = []
    for _ in range(2_000):
        drawn = rng.integers(60, size=60)
        rows = np.concatenate([2 * drawn, 2 * drawn + 1])
        slow.append(macro_f1(answers[rows], labels[rows], n_resamples=1).value)
    found = macro_f1(answers, labels, pair_ids=ids)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(slow, TAIL)), abs=0.012)


def test_notes_without_a_row_of_the_label_are_not_drawn():
    answers, groups, ids = pairs([1, 0, 1, 1, 1, 0], [1, 0, 0, 1, 0, 0])
    labels = np.repeat([1, 1, 1, 1, 0, 0], 2)
    with_rest = rate_ratio(answers, labels, groups, reference_group="m", pair_ids=ids).estimate
    without = rate_ratio(answers[:8], labels[:8], groups[:8], reference_group="m", pair_ids=ids[:8]).estimate
    assert with_rest == without


def test_whole_notes_are_resampled():
    # Both rows of a note are right, or both wrong: over rows the interval is too narrow by sqrt 2.
    right = np.repeat(np.arange(100) % 2, 2)
    labels = np.repeat(np.arange(100) // 2 % 2, 2)
    answers = np.where(right == 1, labels, 1 - labels)
    rows = macro_f1(answers, labels)
    notes = macro_f1(answers, labels, pair_ids=np.repeat(np.arange(100), 2).tolist())
    assert (notes.ci_high - notes.ci_low) / (rows.ci_high - rows.ci_low) == pytest.approx(math.sqrt(2), rel=0.1)


def test_the_seed_decides_and_confidence_widens():
    answers, _, groups, ids = clinic()
    one, same, other = (flip_rate(answers, groups, ids, reference_group="m", seed=s).estimate for s in (0, 0, 1))
    assert one == same
    assert one.value == other.value
    narrow = flip_rate(answers, groups, ids, reference_group="m", confidence=0.5).estimate
    assert one.ci_low < narrow.ci_low < narrow.ci_high < one.ci_high


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: flip_rate([0.3, 1], ["f", "m"], ["a", "a"], reference_group="m"),
            r"answers .* \[0.3\], expected 1, 0",
        ),
        (lambda: flip_rate([0, 1], ["f", "m"], ["a", "b"], reference_group="m"), "expected one"),
        (lambda: flip_rate([0, 1], ["f", "m"], ["a", "a"], reference_group="x"), "expected exactly two"),
        (
            lambda: flip_rate([1, 1], ["f", "m"], ["a", "a"], reference_group="m", scores=[0.5]),
            r"scores of shape \(1,\)",
        ),
        (lambda: rate_ratio([1, 1], [1, NAN], ["f", "m"], reference_group="m"), "no label NaN"),
        (lambda: rate_ratio([1, 1], [1, 1], ["f", "m"], reference_group="m", pair_ids=["a"]), "2 rows and 1 ids"),
        (lambda: macro_f1([1, 1], [1]), "2 answers, 1 labels"),
        (lambda: macro_f1([1, 0], [1, 0], confidence=95), "confidence 95"),
        (lambda: uar(["f"], ["f", "m"]), "1 predicted, 2 truth"),
        (lambda: uar(["f", "f"], ["f", ""]), "no truth blank"),
    ],
)
def test_data_that_cannot_be_meant_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_an_unknown_rate_is_a_usage_error():
    with pytest.raises(UsageError, match="rate 'tnr', expected 'tpr' or 'fpr'"):
        rate_ratio([1, 1], [1, 1], ["f", "m"], reference_group="m", rate="tnr")
