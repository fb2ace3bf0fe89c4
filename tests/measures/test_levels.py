"""Means in which each level of a factor counts the same: value, error and freedom beside slow definitions."""

import math
from collections import Counter

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, stats

from swapbias.measures import mean_score
from swapbias.measures.contrast import linear_contrast
from swapbias.measures.design import level_shares


def uneven(counts, spreads, seed):
    """Values with effects of levels and of rows of these SDs, and the level of each row."""
    rng = np.random.default_rng(seed)
    levels = np.repeat(np.arange(len(counts)), counts)
    return spreads[0] * rng.normal(size=len(counts))[levels] + spreads[1] * rng.normal(
        size=len(levels)
    ), levels


def equal_shares(levels):
    """The weight of each row where levels weigh the same: one of so many levels, of so many rows in it."""
    counts = Counter(levels.tolist())
    return np.array([1 / (len(counts) * counts[level]) for level in levels.tolist()])


def test_shares_of_levels():
    """Each level has an equal share, whatever the count of its rows."""
    levels = np.array([0, 2, 2, 1, 2])
    assert level_shares(np.zeros(5, dtype=int), levels) == pytest.approx(
        [1 / 3, 1 / 9, 1 / 9, 1 / 3, 1 / 9]
    )
    assert level_shares(np.zeros(5, dtype=int), levels) == pytest.approx(equal_shares(levels))
    # Of two sides each has its own levels: the first 0 and 2, the second 2 and 1.
    assert level_shares(np.array([0, 0, 1, 1, 1]), levels) == pytest.approx(
        [1 / 2, 1 / 2, 1 / 4, 1 / 2, 1 / 4]
    )


def contrast(values, factors, shares):
    """The mean of one side by the inference of the design."""
    return linear_contrast(values, np.zeros(len(values), dtype=int), (1.0,), factors, shares=shares)


def level_means(values, levels):
    return np.array([values[levels == level].mean() for level in np.unique(levels)])


def test_uneven_levels_by_hand():
    """A mean of two uneven levels has the value, error and degrees of freedom worked out by hand."""
    # Levels a (1, 3, 5) and b (7): means 3 and 7, their mean 5, where that of rows is 4.
    # Sums of weighted residuals: (3 - 5) / 2 = -1 and (7 - 5) / 2 = 1; squares 2, expected half of the sum of
    # variances of the means, so that the variance of the value is 2 x 2 / 1 = 4: the SD of 3 and 7 is 2 sqrt(2),
    # over sqrt(2) levels 2. One degree of freedom.
    values = np.array([1.0, 3.0, 5.0, 7.0])
    levels = np.array([0, 0, 0, 1])
    estimate = contrast(values, {"template": levels}, equal_shares(levels))
    assert estimate.value == pytest.approx(5)
    assert estimate.std_error == pytest.approx(2)
    assert estimate.df == pytest.approx(1)
    assert mean_score(values, cluster_ids=levels).value == pytest.approx(4)


def moments(values, levels):
    """The variance of the mean of level means by its moment equations, written out for one factor; its two parts.

    With m_j the mean and n_j the rows of each of J levels, w = 1 / (J n_j) and S the sum of 1 / (J^2 n_j):
    squares of levels  sum (m_j - m)^2 / J^2            expect (1 - 1 / J) (theta / J + rest S),
    squares of rows    sum w^2 (y - m)^2                expect theta (1 - 1 / J) S + rest sum w^2 (1 - 2 w + S).
    """
    means = level_means(values, levels)
    size = len(np.unique(levels))
    weights = equal_shares(levels)
    per_level = sum(1 / (size**2 * int((levels == level).sum())) for level in np.unique(levels))
    of_levels = ((means - means.mean()) ** 2).sum() / size**2
    of_rows = (weights**2 * (values - means.mean()) ** 2).sum()
    left = 1 - 1 / size
    expected = np.array(
        [
            [left / size, left * per_level],
            [left * per_level, (weights**2 * (1 - 2 * weights + per_level)).sum()],
        ]
    )
    squares = np.array([of_levels, of_rows])
    theta, rest = np.linalg.solve(expected, squares)
    if min(theta, rest) < 0:
        theta, rest = optimize.lsq_linear(expected, squares, bounds=(0, np.inf), method="bvls").x
    return theta / size + rest * per_level, theta, rest


@pytest.mark.parametrize(
    "spreads", [(1.0, 0.2), (0.5, 0.5), (0.0, 1.0)], ids=["levels", "both", "rows"]
)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_error_of_moment_equations(spreads, seed):
    """The error is that of the moment equations."""
    values, levels = uneven((2, 3, 5, 8, 13), spreads, seed)
    estimate = contrast(values, {"template": levels}, equal_shares(levels))
    assert estimate.std_error**2 == pytest.approx(moments(values, levels)[0])
    assert estimate.df == pytest.approx(4)


@pytest.mark.parametrize(
    "counts",
    [(1, 2, 3, 9), (50, 1, 1, 1, 1, 1, 1, 1), tuple(range(1, 41, 3))],
    ids=["four levels", "eight levels", "fourteen levels"],
)
def test_t_interval_of_level_means(counts):
    """Levels and rows that both vary have the t interval of the level means, as an intercept of
    least squares where neither variance is at its edge."""
    draws = (uneven(counts, (1.0, 0.7), seed) for seed in range(40))
    inside = [draw for draw in draws if min(moments(*draw)[1:]) > 0]
    assert len(inside) >= 5
    for values, levels in inside:
        means = level_means(values, levels)
        fitted = sm.OLS(means, np.ones(len(means))).fit()
        estimate = contrast(values, {"template": levels}, equal_shares(levels))
        assert (estimate.value, estimate.std_error) == pytest.approx(
            (fitted.params[0], fitted.bse[0])
        )
        assert estimate.df == pytest.approx(fitted.df_resid)
        low, high = fitted.conf_int()[0]  # skewness moves an end outwards, never inwards
        assert estimate.ci_low <= low + 1e-9
        assert high - 1e-9 <= estimate.ci_high


def test_rows_alone_vary():
    """The error is that of the rest where rows alone vary and the variance of levels is
    estimated as zero."""
    draws = [uneven((2, 3, 5, 8, 13), (0.0, 1.0), seed) for seed in range(20)]
    at_edge = [draw for draw in draws if moments(*draw)[1] == 0]
    assert 0 < len(at_edge) < len(draws)
    for values, levels in at_edge:
        shares = equal_shares(levels)
        rest = moments(values, levels)[2]
        assert contrast(values, {"template": levels}, shares).std_error ** 2 == pytest.approx(
            rest * (shares**2).sum()
        )


def test_mixed_model_of_levels():
    """Levels that vary more than rows have mean and error of a mixed model, whose weights then are
    equal for all levels."""
    values, levels = uneven((2, 4, 8, 16) * 4, (1.0, 0.05), 7)
    fitted = sm.MixedLM(values, np.ones((len(values), 1)), groups=levels).fit(reml=True)
    estimate = contrast(values, {"template": levels}, equal_shares(levels))
    assert estimate.value == pytest.approx(fitted.params[0], abs=0.01 * estimate.std_error)
    assert estimate.std_error == pytest.approx(fitted.bse[0], rel=0.01)
    rows = contrast(values, {"template": levels}, None)
    assert (
        abs(rows.value - fitted.params[0]) > 0.2 * estimate.std_error
    )  # the mean of rows is another one


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_factors_of_uneven_levels(seed):
    """Two factors have the variance of the moment equations of indicators, with names used 12 to 1
    times over 12 templates and counting the same."""
    rng = np.random.default_rng(seed)
    name = np.repeat(np.arange(6), (12, 9, 7, 5, 3, 1))
    template = np.concatenate([rng.permutation(12)[:count] for count in (12, 9, 7, 5, 3, 1)])
    values = (
        rng.normal(size=6)[name] + rng.normal(size=12)[template] + 0.5 * rng.normal(size=len(name))
    )
    shares = equal_shares(name)
    columns = [name, template, np.arange(len(name))]

    def squares(scores):
        influence = shares * (scores - shares @ scores)
        return np.array([(np.bincount(codes, influence) ** 2).sum() for codes in columns])

    indicators = [[(codes == level) * 1.0 for level in np.unique(codes)] for codes in columns]
    expected = np.column_stack([sum(map(squares, kind)) for kind in indicators])
    scales = [sum(float(shares @ indicator) ** 2 for indicator in kind) for kind in indicators]
    variances = optimize.nnls(expected, squares(values))[0] * scales
    estimate = contrast(values, {"names": name, "templates": template}, shares)
    assert estimate.value == pytest.approx(level_means(values, name).mean())
    assert estimate.std_error**2 == pytest.approx(variances.sum())
    assert (estimate.fewest_of, estimate.fewest) == ("names", 6)


def test_even_levels():
    """Equal weights of levels change nothing where every level has as many rows."""
    values, levels = uneven((4,) * 6, (1.0, 0.5), 2)
    estimate, rows = (
        contrast(values, {"template": levels}, shares) for shares in (equal_shares(levels), None)
    )
    assert (estimate.value, estimate.std_error, estimate.df) == pytest.approx(
        (rows.value, rows.std_error, rows.df)
    )
    assert not math.isnan(estimate.p_value)


@pytest.mark.simulation
def test_coverage_of_uneven_levels():
    """An interval over 12 levels of 1 to 40 rows covers as often as stated in 300 draws, and finds
    a gap more often than one over rows."""
    counts = [round(count) for count in np.linspace(1, 40, 12)]
    std_error = math.sqrt(1 / 12 + sum(0.25 / (144 * count) for count in counts))
    covered = 0
    rejected = {"levels": 0, "rows": 0}
    for seed in range(300):
        values, levels = uneven(counts, (1.0, 0.5), seed)
        null = contrast(values, {"template": levels}, equal_shares(levels))
        covered += null.ci_low <= 0 <= null.ci_high
        for name, shares in (("levels", equal_shares(levels)), ("rows", None)):
            away = contrast(values + 3.2 * std_error, {"template": levels}, shares)
            rejected[name] += away.p_value < 0.05
    assert covered >= stats.binom.ppf(0.001, 300, 0.95)
    assert rejected["levels"] > rejected["rows"] + 30
