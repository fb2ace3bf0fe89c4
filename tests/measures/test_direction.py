"""The gender direction and direct bias: by hand, invariant, planted, against random word sets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from swapbias.measures.direction import direct_bias, from_cosines, gender_direction

NAN = math.nan
FEMALE, MALE = [[1.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-3.0, 4.0]]


def planted(lean, words=60, dimensions=20, seed=0):
    """Words lean * g + noise of length 1 at right angles to g, and noisy pairs along g; g is the first axis."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(words, dimensions))
    noise[:, 0] = 0
    vectors = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    vectors[:, 0] = lean
    middle = rng.normal(size=(10, dimensions))
    axis = np.eye(dimensions)[0] * 5
    return vectors, middle + axis, middle - axis


# --- gender_direction -------------------------------------------------------------------------------


def test_the_direction_by_hand():
    # Scaled to length 1 the pairs are (1, 0) / (-1, 0) and (.6, .8) / (-.6, .8); centred: (+-1, 0), (+-.6, 0).
    # All of the variance lies on the first axis.
    direction, explained = gender_direction(FEMALE, MALE)
    assert direction.tolist() == pytest.approx([1, 0])
    assert explained == pytest.approx(1)


def test_the_explained_variance_by_hand():
    # Pairs (1, 0, 0) / (-1, 0, 0) and (0, .6, .8) / (0, -.6, .8): centred (+-1, 0, 0) and (0, +-.6, 0), so the
    # squares are 2 and .72, and the first axis has 1 / 1.36 of them.
    direction, explained = gender_direction([[1, 0, 0], [0, 3, 4]], [[-1, 0, 0], [0, -3, 4]])
    assert direction.tolist() == pytest.approx([1, 0, 0])
    assert explained == pytest.approx(1 / 1.36)


def test_the_direction_is_the_first_component_of_all_centred_vectors():
    _, female, male = planted(0.5)
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (female, male)]
    centre = (units[0] + units[1]) / 2
    values, axes = np.linalg.eigh(np.cov(np.concatenate([side - centre for side in units]).T))
    direction, explained = gender_direction(female, male)
    assert abs(direction @ axes[:, -1]) == pytest.approx(1)
    assert explained == pytest.approx(values[-1] / values.sum())
    assert np.linalg.norm(direction) == pytest.approx(1)


def test_swapping_the_sides_turns_the_direction_round():
    _, female, male = planted(0.5)
    one, other = gender_direction(female, male), gender_direction(male, female)
    assert one[0] == pytest.approx(-other[0])
    assert one[1] == pytest.approx(other[1])
    assert ((female - male) @ one[0]).mean() > 0


@pytest.mark.parametrize(
    ("female", "male", "sentence"),
    [
        ([[1.0, 0.0]], [[0.0, 1.0]], r"female of shape \(1, 2\)"),
        (FEMALE, [[1.0], [2.0]], r"male of shape \(2, 1\)"),
        ([1.0, 0.0], [0.0, 1.0], r"expected the same \(pairs, dimensions\)"),
        ([[1.0, 0.0], [0.0, 0.0]], MALE, "pair 1 has a zero or non-finite vector"),
        ([[NAN, 0.0], [3.0, 4.0]], MALE, "pair 0 has a zero or non-finite vector"),
        (FEMALE, [[-1.0, 0.0], [-3.0, math.inf]], "pair 1 has a zero or non-finite vector"),
        (FEMALE, FEMALE, "expected pairs that share a side"),
        ([[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]], "expected pairs that share a side"),
    ],
)
def test_pairs_without_a_direction_are_refused(female, male, sentence):
    with pytest.raises(ValueError, match=sentence):
        gender_direction(female, male)


# --- direct_bias ------------------------------------------------------------------------------------


def test_direct_bias_by_hand():
    # The direction is the first axis; cosines of (3, 4), (-8, 6), (0, 2), (5, 0): .6, -.8, 0, 1.
    # DB = 2.4 / 4 = .6; signed = .8 / 4 = .2.
    found = direct_bias([[3, 4], [-8, 6], [0, 2], [5, 0]], FEMALE, MALE)
    assert found.cosines.tolist() == pytest.approx([0.6, -0.8, 0, 1])
    assert (found.direct_bias.value, found.signed.value) == pytest.approx((0.6, 0.2))
    assert found.explained_variance == pytest.approx(1)
    assert (found.direct_bias.n, found.direct_bias.n_unscored) == (4, 0)
    assert (found.direct_bias.test, math.isnan(found.direct_bias.p_value)) == ("none", True)
    assert math.isnan(found.null_mean)


@settings(deadline=None)
@given(st.floats(0.001, 1e6), st.integers(0, 1000))
def test_turning_the_space_and_scaling_vectors_change_nothing(scale, seed):
    rng = np.random.default_rng(seed)
    vectors, female, male = planted(0.3, words=8, dimensions=5)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    lengths = rng.uniform(0.5, 2, (8, 1)) * scale
    one = direct_bias(vectors, female, male, n_resamples=20)
    turned = direct_bias(vectors * lengths @ turn, female @ turn * scale, male @ turn, n_resamples=20)
    assert turned.cosines == pytest.approx(one.cosines)
    assert turned.explained_variance == pytest.approx(one.explained_variance)
    assert turned.direct_bias.ci_low == pytest.approx(one.direct_bias.ci_low)


def test_swapping_the_sides_flips_the_signed_mean_and_leaves_direct_bias():
    vectors, female, male = planted(0.3)
    one, other = direct_bias(vectors, female, male), direct_bias(vectors, male, female)
    assert one.signed.value == pytest.approx(-other.signed.value)
    assert (one.signed.ci_low, one.signed.ci_high) == pytest.approx((-other.signed.ci_high, -other.signed.ci_low))
    assert one.direct_bias.value == pytest.approx(other.direct_bias.value)
    assert one.signed.value > 0


def test_a_planted_lean_is_recovered():
    # lean * g + noise of length 1 at right angles: the cosine is lean / sqrt(lean^2 + 1) = .6 for lean .75.
    vectors, female, male = planted(-0.75)
    found = direct_bias(vectors, female, male)
    assert found.signed.value == pytest.approx(-0.6, abs=0.02)
    assert found.signed.ci_low < -0.6 + 0.02
    assert found.signed.ci_high < -0.5
    assert found.direct_bias.value == pytest.approx(-found.signed.value)


def test_words_at_right_angles_have_no_direct_bias():
    found = direct_bias([[0, 1], [0, -3]], FEMALE, MALE)
    assert (found.direct_bias.value, found.signed.value) == pytest.approx((0, 0))
    assert math.isnan(found.direct_bias.ci_low)


def test_words_without_a_vector_are_left_out_and_counted():
    found = direct_bias([[3, 4], [0, 0], [NAN, 1], [math.inf, 1], [1, 0]], FEMALE, MALE)
    assert (found.direct_bias.value, found.direct_bias.n, found.direct_bias.n_unscored) == (pytest.approx(0.8), 2, 3)
    assert np.isnan(found.cosines).tolist() == [False, True, True, True, False]
    nothing = direct_bias(np.empty((0, 2)), FEMALE, MALE)
    assert math.isnan(nothing.direct_bias.value)
    assert nothing.signed.n == 0


def test_tiny_and_huge_vectors_keep_their_cosine():
    found = direct_bias([[3e-200, 4e-200], [3e200, 4e200]], FEMALE, MALE)
    assert found.cosines.tolist() == pytest.approx([0.6, 0.6])


def test_the_interval_is_close_to_the_slow_loop_over_words():
    cosines = np.random.default_rng(2).uniform(-0.2, 0.5, 40)
    rng = np.random.default_rng(3)
    slow = [cosines[rng.integers(40, size=40)] for _ in range(4_000)]
    found = from_cosines(cosines, n_resamples=4_000)
    for estimate, drawn in ((found.signed, slow), (found.direct_bias, np.abs(slow))):
        ends = np.quantile([one.mean() for one in drawn], [0.025, 0.975])
        assert (estimate.ci_low, estimate.ci_high) == pytest.approx(tuple(ends), abs=0.008)


def test_vectors_of_other_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"words of shape \(1, 3\), expected \(words, 2\)"):
        direct_bias([[1, 2, 3]], FEMALE, MALE)


# --- random word sets -------------------------------------------------------------------------------


def test_the_p_values_by_hand():
    # Observed .4 and -.2: mean |cos| .3, mean .1. Sets (columns): (.3, .3), (.1, -.1), (-.5, -.5), (0, 0):
    # mean |cos| .3, .1, .5, 0, of which .3 and .5 are >= .3: p = 3 / 5; their mean is .225.
    # Means .3, 0, -.5, 0, centre -.05; |observed - centre| = .15; distances .35, .05, .45, .05: p = 3 / 5.
    null = [[0.3, 0.1, -0.5, 0.0], [0.3, -0.1, -0.5, 0.0]]
    found = from_cosines([0.4, -0.2], null)
    assert (found.direct_bias.p_value, found.signed.p_value) == (0.6, 0.6)
    assert (found.null_mean, found.null_signed_mean) == pytest.approx((0.225, -0.05))
    assert found.signed.test == found.direct_bias.test == "random word sets of like frequency"


def test_the_signed_mean_is_compared_with_the_lean_of_random_words():
    # Every set leans by .3, the words by 0: they lie .3 from the sets' mean, the sets 0, so p = 1 / 4.
    assert from_cosines([0.2, -0.2], np.full((2, 3), 0.3)).signed.p_value == 0.25


def test_a_word_without_a_match_is_left_out_of_its_set_alone():
    # Sets: (.2, NaN): .2; (NaN, NaN): no set; (.1, .5): .3. Observed .3: p = (1 + 1) / (1 + 2); mean .25.
    found = from_cosines([0.4, 0.2], [[0.2, NAN, 0.1], [NAN, NAN, 0.5]])
    assert found.direct_bias.p_value == pytest.approx(2 / 3)
    assert found.null_mean == pytest.approx(0.25)


def test_the_match_of_a_word_that_is_left_out_is_ignored():
    found = from_cosines([0.4, NAN, 0.2], [[0.1], [1.0], [0.3]])
    assert found.null_mean == pytest.approx(0.2)
    without = from_cosines([0.4, 0.2], [[0.1], [0.3]])
    assert found.direct_bias == replace(without.direct_bias, n_unscored=1)
    assert found.signed == replace(without.signed, n_unscored=1)


def test_no_random_set_gives_no_p_value():
    for null in (None, np.full((2, 3), NAN), np.empty((2, 0))):
        found = from_cosines([0.4, 0.2], null)
        assert math.isnan(found.direct_bias.p_value)
        assert math.isnan(found.null_signed_mean)
        assert found.direct_bias.test == "none"


def test_a_planted_lean_is_far_out_and_random_words_are_not():
    rng = np.random.default_rng(7)
    null = rng.uniform(-0.3, 0.3, (50, 999))
    leaning = from_cosines(rng.uniform(-0.1, 0.5, 50), null)
    assert leaning.signed.p_value == pytest.approx(1 / 1000)
    p_values = [from_cosines(null[:, j], np.delete(null, j, 1), n_resamples=1).signed.p_value for j in range(60)]
    assert np.mean(np.array(p_values) <= 0.25) == pytest.approx(0.25, abs=0.15)


@pytest.mark.parametrize(
    ("cosines", "null", "sentence"),
    [
        ([1.2, 0.1], None, "cosines hold 1.2, expected -1 to 1"),
        ([0.2, 0.1], [[-3.0], [0.0]], "null_cosines hold -3"),
        ([0.2, 0.1], [[0.1]], r"null_cosines of shape \(1, 1\)"),
        ([0.2, 0.1], [0.1, 0.2], r"null_cosines of shape \(2,\)"),
        ([[0.2]], [[0.1]], r"cosines of shape \(1, 1\)"),
    ],
)
def test_cosines_that_cannot_be_meant_are_refused(cosines, null, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_cosines(cosines, null)


def test_a_cosine_kept_in_single_precision_is_accepted():
    found = from_cosines(np.array([1.0000001, -1.0000001], dtype=np.float32))
    assert found.direct_bias.value == pytest.approx(1)


def test_cosines_on_their_own_give_what_the_vectors_gave():
    vectors, female, male = planted(0.3)
    whole = direct_bias(vectors, female, male)
    again = from_cosines(whole.cosines, explained_variance=whole.explained_variance)
    assert (again.direct_bias, again.signed) == (whole.direct_bias, whole.signed)
