"""The gender direction and direct bias: by hand, invariant, planted, against random word sets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from swapbias.measures import direct_bias
from swapbias.measures.direction import (
    directions_without_a_pair,
    from_cosines,
    gender_direction,
    random_cosine,
)

NAN = math.nan
FEMALE = [[1.0, 0.0], [3.0, 4.0]]
MALE = [[-1.0, 0.0], [-3.0, 4.0]]


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


def test_direction_by_hand():
    """The direction and its explained variance have the values worked out by hand and by the
    covariance."""
    # Scaled to length 1 the pairs are (1, 0) / (-1, 0) and (.6, .8) / (-.6, .8); centred: (+-1, 0), (+-.6, 0).
    # All of the variance lies on the first axis.
    direction, explained = gender_direction(FEMALE, MALE)
    assert direction.tolist() == pytest.approx([1, 0])
    assert explained == pytest.approx(1)
    # Pairs (1, 0, 0) / (-1, 0, 0) and (0, .6, .8) / (0, -.6, .8): centred (+-1, 0, 0) and (0, +-.6, 0), so the
    # squares are 2 and .72, and the first axis has 1 / 1.36 of them.
    direction, explained = gender_direction([[1, 0, 0], [0, 3, 4]], [[-1, 0, 0], [0, -3, 4]])
    assert direction.tolist() == pytest.approx([1, 0, 0])
    assert explained == pytest.approx(1 / 1.36)
    _, female, male = planted(0.5)
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (female, male)]
    centre = (units[0] + units[1]) / 2
    values, axes = np.linalg.eigh(np.cov(np.concatenate([side - centre for side in units]).T))
    direction, explained = gender_direction(female, male)
    assert abs(direction @ axes[:, -1]) == pytest.approx(1)
    assert explained == pytest.approx(values[-1] / values.sum())
    assert np.linalg.norm(direction) == pytest.approx(1)


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
    ids=[
        "one pair",
        "other dimensions",
        "flat",
        "zero vector",
        "NaN",
        "infinite",
        "equal sides",
        "opposite pairs",
    ],
)
def test_pairs_without_direction(female, male, sentence):
    """Pairs that define no direction are refused with the reason."""
    with pytest.raises(ValueError, match=sentence):
        gender_direction(female, male)


def test_direct_bias_by_hand():
    """Direct bias, signed mean and cosines have the values worked out by hand."""
    # The direction is the first axis; cosines of (3, 4), (-8, 6), (0, 2), (5, 0): .6, -.8, 0, 1.
    # DB = 2.4 / 4 = .6; signed = .8 / 4 = .2.
    found = direct_bias([[3, 4], [-8, 6], [0, 2], [5, 0]], FEMALE, MALE)
    assert found.cosines.tolist() == pytest.approx([0.6, -0.8, 0, 1])
    assert (found.direct_bias.value, found.signed.value) == pytest.approx((0.6, 0.2))
    assert found.explained_variance == pytest.approx(1)
    assert (found.direct_bias.n, found.direct_bias.n_unscored) == (4, 0)
    assert (found.direct_bias.test, math.isnan(found.direct_bias.p_value)) == ("none", True)
    assert math.isnan(found.null_mean)
    found = direct_bias([[0, 1], [0, -3]], FEMALE, MALE)
    known = found.direct_bias.value, found.signed.value, found.direct_bias.ci_low
    assert known == pytest.approx((0, 0, NAN), nan_ok=True)
    found = direct_bias([[3, 4], [0, 0], [NAN, 1], [math.inf, 1], [1, 0]], FEMALE, MALE)
    assert (found.direct_bias.value, found.direct_bias.n, found.direct_bias.n_unscored) == (
        pytest.approx(0.8),
        2,
        3,
    )
    assert np.isnan(found.cosines).tolist() == [False, True, True, True, False]
    nothing = direct_bias(np.empty((0, 2)), FEMALE, MALE)
    assert (math.isnan(nothing.direct_bias.value), nothing.signed.n) == (True, 0)
    found = direct_bias([[3e-200, 4e-200], [3e200, 4e200]], FEMALE, MALE)
    assert found.cosines.tolist() == pytest.approx([0.6, 0.6])
    with pytest.raises(ValueError, match=r"words of shape \(1, 3\), expected \(words, 2\)"):
        direct_bias([[1, 2, 3]], FEMALE, MALE)


@settings(deadline=None)
@given(st.floats(0.001, 1e6), st.integers(0, 1000))
def test_turned_and_scaled_space(scale, seed):
    """Turning the space and scaling vectors change nothing."""
    rng = np.random.default_rng(seed)
    vectors, female, male = planted(0.3, words=8, dimensions=5)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    lengths = rng.uniform(0.5, 2, (8, 1)) * scale
    one = direct_bias(vectors, female, male)
    turned = direct_bias(vectors * lengths @ turn, female @ turn * scale, male @ turn)
    assert turned.cosines == pytest.approx(one.cosines)
    assert turned.explained_variance == pytest.approx(one.explained_variance)
    assert turned.direct_bias.ci_low == pytest.approx(one.direct_bias.ci_low)


def test_swapped_sides():
    """Swapping the sides flips the signed mean and leaves direct bias."""
    vectors, female, male = planted(0.3)
    one = direct_bias(vectors, female, male)
    other = direct_bias(vectors, male, female)
    assert one.signed.value == pytest.approx(-other.signed.value)
    assert (one.signed.ci_low, one.signed.ci_high) == pytest.approx(
        (-other.signed.ci_high, -other.signed.ci_low)
    )
    assert one.direct_bias.value == pytest.approx(other.direct_bias.value)
    assert one.signed.value > 0
    # lean * g + noise of length 1 at right angles: the cosine is lean / sqrt(lean^2 + 1) = .6 for lean .75.
    found = direct_bias(*planted(-0.75))
    assert (found.signed.value, found.direct_bias.value) == pytest.approx((-0.6, 0.6), abs=0.02)
    assert found.signed.ci_low < -0.6 + 0.02
    assert found.signed.ci_high < -0.5


def test_interval_of_slow_bootstrap():
    """The interval is close to that of a slow loop over words."""
    cosines = np.random.default_rng(2).uniform(-0.2, 0.5, 40)
    rng = np.random.default_rng(3)
    slow = [cosines[rng.integers(40, size=40)] for _ in range(4_000)]
    found = from_cosines(cosines)
    for estimate, drawn in ((found.signed, slow), (found.direct_bias, np.abs(slow))):
        ends = np.quantile([one.mean() for one in drawn], [0.025, 0.975])
        assert (estimate.ci_low, estimate.ci_high) == pytest.approx(tuple(ends), abs=0.008)
    rng = np.random.default_rng(7)
    null = rng.uniform(-0.3, 0.3, (50, 999))
    leaning = from_cosines(rng.uniform(-0.1, 0.5, 50), null)
    assert leaning.signed.p_value == pytest.approx(1 / 1000)
    p_values = [from_cosines(null[:, j], np.delete(null, j, 1)).signed.p_value for j in range(60)]
    assert np.mean(np.array(p_values) <= 0.25) == pytest.approx(0.25, abs=0.15)


def test_p_values_by_hand():
    """The p-values have the values worked out by hand."""
    # Observed .4 and -.2: mean |cos| .3, mean .1. Sets (columns): (.3, .3), (.1, -.1), (-.5, -.5), (0, 0):
    # mean |cos| .3, .1, .5, 0, of which .3 and .5 are >= .3: p = 3 / 5; their mean is .225.
    # Means .3, 0, -.5, 0, centre -.05; |observed - centre| = .15; distances .35, .05, .45, .05: p = 3 / 5.
    null = [[0.3, 0.1, -0.5, 0.0], [0.3, -0.1, -0.5, 0.0]]
    found = from_cosines([0.4, -0.2], null, like_frequency=True)
    assert (found.direct_bias.p_value, found.signed.p_value) == (0.6, 0.6)
    assert (found.null_mean, found.null_signed_mean) == pytest.approx((0.225, -0.05))
    assert found.signed.test == found.direct_bias.test == "random word sets of like frequency"
    assert from_cosines([0.4, -0.2], null).signed.test == "random word sets"
    # Every set leans by .3, the words by 0: they lie .3 from the sets' mean, the sets 0, so p = 1 / 4.
    assert from_cosines([0.2, -0.2], np.full((2, 3), 0.3)).signed.p_value == 0.25
    # Sets: (.2, NaN): .2; (NaN, NaN): no set; (.1, .5): .3. Observed .3: p = (1 + 1) / (1 + 2); mean .25.
    found = from_cosines([0.4, 0.2], [[0.2, NAN, 0.1], [NAN, NAN, 0.5]])
    assert found.direct_bias.p_value == pytest.approx(2 / 3)
    assert found.null_mean == pytest.approx(0.25)
    found = from_cosines([0.4, NAN, 0.2], [[0.1], [1.0], [0.3]])
    assert found.null_mean == pytest.approx(0.2)
    without = from_cosines([0.4, 0.2], [[0.1], [0.3]])
    assert found.direct_bias == replace(without.direct_bias, n_unscored=1)
    assert found.signed == replace(without.signed, n_unscored=1)
    for null in (None, np.full((2, 3), NAN), np.empty((2, 0))):
        found = from_cosines([0.4, 0.2], null)
        assert math.isnan(found.direct_bias.p_value)
        assert math.isnan(found.null_signed_mean)
        assert found.direct_bias.test == "none"
    with pytest.raises(ValueError, match=r"cosines contain 1.2, expected -1 to 1"):
        from_cosines([1.2, 0.1])
    with pytest.raises(ValueError, match="null_cosines contain -3"):
        from_cosines([0.2, 0.1], [[-3.0], [0.0]])


def test_cosines_alone():
    """Cosines alone give what the vectors gave."""
    vectors, female, male = planted(0.3)
    whole = direct_bias(vectors, female, male)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    others = units @ directions_without_a_pair(female, male).T
    again = from_cosines(whole.cosines, without_pairs=others, dimensions=20)
    for one, other in ((again.direct_bias, whole.direct_bias), (again.signed, whole.signed)):
        assert (one.value, one.ci_low, one.ci_high) == pytest.approx(
            (other.value, other.ci_low, other.ci_high)
        )
    assert again.random_direction == whole.random_direction
    assert from_cosines(whole.cosines).direct_bias.interval == "t over words"
    found = from_cosines(np.array([1.0000001, -1.0000001], dtype=np.float32))
    assert found.direct_bias.value == pytest.approx(1)


def test_interval_over_words_and_pairs():
    """The interval over words and pairs has the ends worked out by hand."""
    # Cosines .5, .1 (mean .3, variance .08 / 2 = .04 of the mean); without each of three pairs the means are .3, .2
    # and .4: jackknife 2 / 3 (0 + .01 + .01) = .013333. Variance .053333, freedom .053333^2 / (.04^2 / 1 + .013333^2
    # / 2) = 1.684211; t(1.684211) at .975 = 5.245 or so.
    others = [[0.5, 0.4, 0.6], [0.1, 0.0, 0.2]]
    found = from_cosines([0.5, 0.1], without_pairs=others).signed
    half = stats.t.ppf(0.975, 1.684211) * math.sqrt(0.053333)
    assert (found.ci_low, found.ci_high) == pytest.approx(
        (max(0.3 - half, -1), min(0.3 + half, 1)), abs=1e-4
    )
    assert found.interval == "t over words and pairs"
    _, female, male = planted(0.3)
    found = directions_without_a_pair(female, male)
    for pair, one in enumerate(found):
        slow = gender_direction(np.delete(female, pair, axis=0), np.delete(male, pair, axis=0))[0]
        assert one.tolist() == pytest.approx(slow.tolist())
    assert directions_without_a_pair(FEMALE, MALE).shape == (0, 2)
    assert direct_bias([[3, 4], [1, 0]], FEMALE, MALE).direct_bias.interval == "t over words"


def drawn(rng, pairs, words=60, dimensions=50):
    """Words that lean by .3 or so on the first axis, and noisy pairs along it."""
    middle, noise = rng.normal(size=(2, pairs, dimensions))
    axis = np.zeros(dimensions)
    axis[0] = 1.5
    vectors = rng.normal(size=(words, dimensions))
    vectors[:, 0] = 0.3 * math.sqrt(dimensions) + rng.normal(0, 0.5, words)
    return vectors, middle + axis + 0.4 * noise, middle - axis - 0.4 * noise


@pytest.mark.simulation
def test_interval_covers_words_and_pairs():
    """The interval over words and pairs covers the mean as often as stated, and one over words
    alone does not."""
    rng = np.random.default_rng(0)
    truth = np.mean([direct_bias(*drawn(rng, 8)).direct_bias.value for _ in range(400)])
    covered = []
    for _ in range(200):
        found = direct_bias(*drawn(rng, 8))
        each = (one.direct_bias for one in (found, from_cosines(found.cosines)))
        covered.append([one.ci_low <= truth <= one.ci_high for one in each])
    both, words = np.mean(covered, axis=0)
    assert both >= 0.92
    assert words < 0.88


@pytest.mark.parametrize(
    ("dimensions", "value"),
    [(1, 1.0), (2, 2 / math.pi), (3, 0.5), (5, 0.375)],
    ids=["1 dimension", "2 dimensions", "3 dimensions", "5 dimensions"],
)
def test_random_direction_by_hand(dimensions, value):
    """The mean cosine with a random direction has the value worked out by hand."""
    # On the sphere a coordinate is uniform (1/2); in the plane the mean of |cos| over the circle; in five dimensions
    # gamma(2.5) / (sqrt(pi) gamma(3)) = (3 sqrt(pi) / 4) / (2 sqrt(pi)) = 3 / 8.
    assert random_cosine(dimensions) == pytest.approx(value)
    with pytest.raises(ValueError, match="0 dimensions"):
        random_cosine(0)


@pytest.mark.parametrize("dimensions", [2, 10, 300])
def test_random_vectors_reach_it(dimensions):
    """Random vectors reach the mean cosine of a random direction."""
    rng = np.random.default_rng(dimensions)
    words = rng.normal(size=(4_000, dimensions))
    found = direct_bias(words, *(rng.normal(size=(4, dimensions)) + side for side in (1, -1)))
    assert found.direct_bias.value == pytest.approx(found.random_direction, rel=0.04)
    assert random_cosine(10_000) == pytest.approx(math.sqrt(2 / (math.pi * 10_000)), rel=1e-4)
