"""Gaps of rows that share the random effects of one factor or of several that cross: errors, freedom, p-values."""

import math
import re

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import linalg, optimize, stats
from statsmodels.regression.mixed_linear_model import VCSpec

from swapbias.measures import answer_bias, group_gap, mean_score, paired_gap
from swapbias.measures.contrast import linear_contrast
from swapbias.measures.design import Design
from swapbias.measures.intervals import t_ends, t_p
from tests.conftest import ROOT


def paired(differences, **factors):
    """The gap of pairs with these differences; the clusters of a pair are those of both of its rows."""
    count = len(differences)
    scores = np.column_stack([0.5 + np.asarray(differences), np.full(count, 0.5)]).ravel()
    clusters = {name: np.repeat(np.asarray(ids), 2) for name, ids in factors.items()}
    return paired_gap(
        scores,
        ["f", "m"] * count,
        np.repeat(np.arange(count), 2).astype(str),
        reference_group="m",
        cluster_ids=clusters or None,
    )


def crossed(rows, columns, spread, seed):
    """Differences of a full table with row, column and residual effects of these SDs; and the clusters."""
    rng = np.random.default_rng(seed)
    table = rng.normal(0, spread[0], (rows, 1)) + rng.normal(0, spread[1], (1, columns))
    table = table + rng.normal(0, spread[2], (rows, columns))
    template, condition = (index_array.ravel() for index_array in np.indices(table.shape))
    return table.ravel(), {"template": template, "condition": condition}


SEVEN_BY_FIVE = (7, 5, (0.3, 0.5, 0.4), 9)


def numbers(findings):
    return (
        findings.value,
        findings.std_error,
        findings.df,
        findings.ci_low,
        findings.ci_high,
        findings.p_value,
    )


TABLE = [1.0, 2.0, 6.0, 3.0, 6.0, 6.0]  # of two templates by three conditions
TEMPLATE = list("aaabbb")
CONDITION = list("xyzxyz")


def test_factors_by_hand():
    """Estimates with one and two factors have the values worked out by hand."""
    #            x  y  z  mean        Squares: templates 3 (1 + 1) = 6 with 1 degree of freedom, MSa = 6;
    #   a        1  2  6    3         conditions 2 (4 + 0 + 4) = 16 with 2, MSb = 8;
    #   b        3  6  6    5         all 9 + 4 + 4 + 1 + 4 + 4 = 26, left 26 - 6 - 16 = 4 with 2, MSe = 2.
    #   mean     2  4  6    4         Variance of the mean: (6 + 8 - 2) / 6 = 2.
    # Its parts are 1, 4/3 and 1/3 with 1, 2 and 2 degrees of freedom: 2^2 / (1 + 8/9 + 1/18) = 72/35.
    found = paired(TABLE, template=TEMPLATE, condition=CONDITION)
    assert found.value == pytest.approx(4)
    assert found.std_error == pytest.approx(math.sqrt(2))
    assert found.df == pytest.approx(72 / 35)
    half = stats.t.ppf(0.975, 72 / 35) * math.sqrt(2)
    assert (found.ci_low, found.ci_high) == pytest.approx((4 - half, 4 + half))
    assert found.p_value == pytest.approx(2 * stats.t.sf(4 / math.sqrt(2), 72 / 35))
    assert found.test == found.interval == "cluster-robust t (template and condition)"
    # Means of the conditions 2, 4, 6: variance 4, over 3 of them 4/3, with 2 degrees of freedom.
    found = paired(TABLE, condition=CONDITION)
    assert (found.std_error**2, found.df) == pytest.approx((4 / 3, 2))
    # Means of the templates 3 and 5: variance 2, over 2 of them 1, with 1.
    found = paired(TABLE, template=TEMPLATE)
    assert (found.std_error**2, found.df) == pytest.approx((1, 1))
    # Templates 1 and 2 alike (rows 1, 2, 6 with one permuted): their means are both 3, the residual is not subtracted
    # from what conditions alone give. Means of conditions 1.5, 1.5, 6: variance 6.75, over 3: 2.25.
    found = paired([1.0, 2.0, 6.0, 2.0, 1.0, 6.0], template=TEMPLATE, condition=CONDITION)
    assert 2.25 <= found.std_error**2 < 2.3


def slow_cr2(values, design, weights, codes):
    """Variance by A_g = (I - H_gg)^(-1/2) and Bell and McCaffrey's freedom under an effect for each cluster.

    Of two groups it is an effect for each cluster in each group: what both share would cancel.
    """
    inverse = np.linalg.inv(design.T @ design)
    residual_maker = np.eye(len(values)) - design @ inverse @ design.T
    residual = residual_maker @ values
    variance = 0.0
    columns = []
    for cluster in np.unique(codes):
        in_cluster = codes == cluster
        block = residual_maker[np.ix_(in_cluster, in_cluster)]
        adjusted = linalg.fractional_matrix_power(block, -0.5).real
        influence = adjusted @ design[in_cluster] @ inverse @ weights
        variance += (influence @ residual[in_cluster]) ** 2
        columns.append(residual_maker[:, in_cluster] @ influence)
    matrix = np.column_stack(columns)
    shared = (codes[:, None] == codes) & (design[:, None] == design).all(axis=2)
    quadratic = matrix.T @ shared @ matrix
    return variance, np.trace(quadratic) ** 2 / (quadratic**2).sum()


def uneven(seed):
    """Clusters of 1 to 9 rows, two groups of unequal share in each, effects of clusters."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(9), np.arange(1, 10))
    is_other_group = rng.random(len(codes)) < 0.4
    return rng.normal(size=len(codes)) + rng.normal(size=9)[codes], is_other_group, codes


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_variance_of_matrices(seed):
    """Variance and degrees of freedom equal those of a slow computation by matrices."""
    values, _, codes = uneven(seed)
    slow = slow_cr2(values, np.ones((len(values), 1)), np.array([1.0]), codes)
    for found in (mean_score(values, cluster_ids=codes), paired(values, c=codes)):
        assert (found.std_error**2, found.df) == pytest.approx(slow)
    values, other, codes = uneven(seed)
    design = np.column_stack([np.ones(len(values)), other])
    slow = slow_cr2(values, design, np.array([0.0, 1.0]), codes)
    found = group_gap(values, np.where(other, "f", "m"), reference_group="m", cluster_ids=codes)
    assert (found.std_error**2, found.df) == pytest.approx(slow)
    assert found.p_value == t_p(found.value, found.std_error, found.df, found.skewness)


@pytest.mark.parametrize("two_groups", [False, True])
def test_variance_of_several_factors(two_groups):
    """The variance of several factors is that of the moment equations of indicators, in an uneven
    table with a fifth of the cells of 8 x 6 x 5."""
    rng = np.random.default_rng(7)
    every = np.array(list(np.ndindex(8, 6, 5)))
    chosen = every[rng.random(len(every)) < 0.25]
    factors = {name: chosen[:, at] for at, name in enumerate("abc")}
    sides = (rng.random(len(chosen)) < 0.5).astype(int) * two_groups
    shares = rng.uniform(1, 2, len(chosen))
    weights = np.array([1.0, -1.0])[: 1 + two_groups]
    shares = shares / np.bincount(sides, shares)[sides]
    values = 0.5 * rng.normal(size=len(chosen))
    values += sum(rng.normal(size=(8, 2))[codes, sides] for codes in factors.values())
    columns = [*factors.values(), np.arange(len(chosen))]

    def squares(scores):
        means = np.array(
            [
                np.average(scores[sides == side], weights=shares[sides == side])
                for side in set(sides)
            ]
        )
        influence = weights[sides] * shares * (scores - means[sides])
        return np.array([(np.bincount(codes, influence) ** 2).sum() for codes in columns])

    def effects(codes):
        return [
            ((codes == one) & (sides == side)) * 1.0 for one in set(codes) for side in set(sides)
        ]

    expected = np.column_stack([sum(map(squares, effects(codes))) for codes in columns])
    own = [
        sum(float((one * shares * weights[sides]).sum()) ** 2 for one in effects(codes))
        for codes in columns
    ]
    variances = optimize.nnls(expected, squares(values))[0] * own
    assert variances[:3].min() > 0  # no component is at its edge
    design = Design(sides, shares, weights, factors)
    std_error, df, skewness = design.spread(values)
    assert design.expected_squares == pytest.approx(expected)
    assert std_error**2 == pytest.approx(variances.sum())
    joint = variances[:3] + variances[3]
    spread = (joint**2 / design.dfs[:3]).sum() + (2 * variances[3]) ** 2 / design.dfs[3]
    assert df == pytest.approx(std_error**4 / spread)
    assert skewness != 0


@pytest.mark.parametrize("skewness", [-0.8, 0.0, 0.5])
@pytest.mark.parametrize("value", [-0.7, 0.3])
def test_p_value_inverts_interval(value, skewness):
    """The p-value is that of the interval which just reaches zero."""
    p_value = t_p(value, 0.3, 9.0, skewness)
    low, high = t_ends(value, 0.3, 9.0, 1 - p_value, skewness)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)
    plain = t_ends(value, 0.3, 9.0, 1 - p_value)
    assert low <= plain[0]
    assert high >= plain[1]
    assert p_value >= 2 * stats.t.sf(abs(value) / 0.3, 9) - 1e-12


@pytest.mark.simulation
def test_few_skewed_clusters():
    """Few skewed clusters reject less often than a plain t test."""
    rejected = {"t": 0, "corrected": 0}
    codes = np.arange(60) // 5
    for seed in range(400):
        rng = np.random.default_rng(seed)
        values = (rng.lognormal(0, 1, 12) - math.exp(0.5))[codes] + rng.normal(0, 0.1, 60)
        found = linear_contrast(values, np.zeros(60, dtype=int), (1.0,), {"category": codes})
        rejected["corrected"] += found.p_value < 0.05
        rejected["t"] += t_p(found.value, found.std_error, found.df) < 0.05
    assert rejected["t"] > 40  # more than twice .05
    assert rejected["corrected"] <= 0.8 * rejected["t"]


def test_answers_and_means_take_factors():
    """Answers and means take factors as gaps do."""
    values, factors = crossed(6, 5, (1, 1, 1), seed=3)
    gap = paired(values, **factors)
    mean = mean_score(values, cluster_ids=factors)
    assert numbers(mean)[:5] == pytest.approx(numbers(gap)[:5])
    right = np.random.default_rng(5).random((30, 2)) < 0.6
    classes = np.where(right.ravel(), "correct", "incorrect").tolist()
    ids = np.repeat(np.arange(30), 2).astype(str)
    over = {name: np.repeat(codes, 2) for name, codes in factors.items()}
    found = answer_bias(classes, ["pro", "anti"] * 30, pair_ids=ids, cluster_ids=over).estimate
    slow = paired(100.0 * (right[:, 0].astype(float) - right[:, 1]), **factors)
    assert numbers(found) == pytest.approx(numbers(slow))


def two_way(values, factors):
    """Compute the two-way variance of the intercept by Cameron, Gelbach and Miller, and those of
    each factor."""
    groups = np.column_stack(list(factors.values()))
    model = sm.OLS(values, np.ones((len(values), 1)))
    both = model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True})
    one_way = (model.fit(cov_type="cluster", cov_kwds={"groups": codes}) for codes in groups.T)
    return both.bse[0] ** 2, [fitted.bse[0] ** 2 for fitted in one_way]


def test_variances_at_the_bound():
    """Where a variance would be negative, all are those of least squares with 0 as bound."""
    drawn = np.random.default_rng(7)
    at_bound = 0
    for _ in range(60):
        factors = {name: drawn.integers(0, count, 60) for name, count in (("a", 5), ("b", 9))}
        design = Design.of_means(np.zeros(60, dtype=np.intp), factors, (1.0,))
        values = drawn.normal(size=60) + drawn.choice([0, 1]) * drawn.normal(size=5)[factors["a"]]
        influence = (values - values.mean()) / 60
        sums = [np.bincount(codes, influence) for codes in factors.values()]
        squares = np.array([*(total @ total for total in sums), influence @ influence])
        unit = design.expected_squares.max()
        fit = optimize.lsq_linear(
            design.expected_squares / unit, squares / unit, bounds=(0, np.inf), method="bvls"
        )
        found = np.array(list(design.components(values).values())) ** 2
        np.testing.assert_allclose(found, np.maximum(fit.x, 0), rtol=1e-6, atol=1e-9)
        at_bound += (found == 0).any()
    assert 20 < at_bound < 60


def test_variances_of_statsmodels():
    """One-way and two-way variances and differences of groups equal those of statsmodels."""
    values, factors = crossed(7, 5, (0.5, 1, 1), seed=2)
    _, parts = two_way(values, factors)
    for (name, codes), part in zip(factors.items(), parts, strict=True):
        assert paired(values, **{name: codes}).std_error ** 2 == pytest.approx(part)
    # Theirs subtracts the variance of the cells, which holds each factor once more: 1 / G of the total with G each.
    for clusters in (5, 10, 20, 40):
        values, factors = crossed(clusters, clusters, (1, 1, 1), seed=clusters)
        found, (both, _) = paired(values, **factors).std_error ** 2, two_way(values, factors)
        assert both < found < both * (1 + 1.5 / clusters)
    # Three rows of either group in each of 12 clusters: CR1 takes (N - 1) / (N - 2) more for the second coefficient.
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(12), 6)
    other = np.tile([True, False], 36)
    score = rng.normal(size=72) + 0.5 * rng.normal(size=12)[codes] * (1 + other)
    slow = sm.OLS(score, sm.add_constant(other.astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": codes}
    )
    found = group_gap(score, np.where(other, "f", "m"), reference_group="m", cluster_ids=codes)
    assert found.std_error**2 * 71 / 70 == pytest.approx(slow.bse[1] ** 2)
    assert found.df == pytest.approx(11)


@pytest.mark.parametrize(
    ("shape", "seed"),
    [((6, 5), 1), ((17, 11), 2), ((4, 11), 6)],
    ids=["6 x 5", "17 x 11", "4 x 11"],
)
def test_mixed_model_error(shape, seed):
    """The error is that of a mixed model with crossed effects."""
    values, factors = crossed(*shape, (1.0, 1.5, 0.7), seed)
    matrices = [(codes[:, None] == np.unique(codes)).astype(float) for codes in factors.values()]
    names = [
        [[f"{name}{at}" for at in range(one.shape[1])]]
        for name, one in zip(factors, matrices, strict=True)
    ]
    spec = VCSpec(list(factors), names, [[one] for one in matrices])
    one_group = np.ones(len(values), dtype=int)
    ones = np.ones((len(values), 1))
    model = sm.MixedLM(
        values, ones, groups=one_group, exog_re=np.empty((len(values), 0)), exog_vc=spec
    )
    fitted = model.fit(reml=True)
    assert min(fitted.vcomp) > 0.05  # at the edge REML is no longer the table of variances
    found = paired(values, **factors)
    assert found.std_error == pytest.approx(fitted.bse[0], rel=2e-3)
    assert found.value == pytest.approx(fitted.params[0])


def test_half_widths_of_the_page():
    """The half widths in the page on templates are those of normal effects."""
    table = re.findall(
        r"^\| (\d+) \| ([\d.]+) \|$", (ROOT / "docs/why_templates.md").read_text(), re.MULTILINE
    )
    assert len(table) == 8
    for count, half in table:
        effects = np.random.default_rng(0).normal(size=(400, int(count)))
        found = [mean_score(one, cluster_ids=list(range(int(count)))) for one in effects]
        assert np.median([one.ci_high - one.ci_low for one in found]) / 2 == pytest.approx(
            float(half), rel=0.05
        )


def test_invariances():
    """Names and order change nothing, a scale scales, and swapped groups turn the sign."""
    values, factors = crossed(*SEVEN_BY_FIVE)
    wanted = numbers(paired(values, **factors))
    renamed = {name: [f"n{(13 * code) % 17}" for code in codes] for name, codes in factors.items()}
    order = np.random.default_rng(1).permutation(len(values))
    moved = {name: codes[order] for name, codes in factors.items()}
    for scores, columns in (
        (values, renamed),
        (values[order], moved),
        (values, dict(reversed(factors.items()))),
    ):
        assert numbers(paired(scores, **columns)) == pytest.approx(wanted)
    value, std_error, df, low, high, p_value = wanted
    assert numbers(paired(-values, **factors)) == pytest.approx(
        (-value, std_error, df, -high, -low, p_value)
    )
    scaled = numbers(paired(100 * values, **factors))
    assert scaled == pytest.approx(
        (100 * value, 100 * std_error, df, 100 * low, 100 * high, p_value)
    )
    groups = np.where(np.arange(35) % 2, "f", "m")
    codes = factors["template"]
    one, other = (
        numbers(group_gap(values, groups, reference_group=g, cluster_ids=codes)) for g in "mf"
    )
    assert one == pytest.approx((-other[0], other[1], other[2], -other[4], -other[3], other[5]))


def test_order_at_tied_variances():
    """The order of rows does not decide between two variances that tie: where a factor has no
    effect, its variance equals the remainder's."""
    draw = np.random.default_rng(0)
    for _ in range(300):
        values = draw.normal(size=draw.integers(10, 40))
        factors = {
            name: draw.integers(0, count, len(values))
            for name, count in (("template", 4), ("condition", 5))
        }
        order = draw.permutation(len(values))
        moved = paired(values[order], **{name: codes[order] for name, codes in factors.items()})
        assert numbers(moved) == pytest.approx(numbers(paired(values, **factors)), nan_ok=True)


def test_rows_without_score():
    """Rows without a score leave their clusters."""
    values, factors = crossed(*SEVEN_BY_FIVE)
    lost = values.copy()
    lost[factors["condition"] == 2] = np.nan
    known = ~np.isnan(lost)
    some = paired(values[known], **{name: codes[known] for name, codes in factors.items()})
    found = paired(lost, **factors)
    assert numbers(found) == pytest.approx(numbers(some))
    assert (found.n, found.n_unscored) == (28, 7)
    for over in ({"only": [0] * 35}, {**factors, "only": [0] * 35}):
        assert all(math.isnan(x) for x in numbers(paired(values, **over))[1:])
    # A group whose rows are all in one cluster cannot be told from its cluster, though the other has seven.
    groups = np.where(factors["template"] == 0, "f", "m")
    lone = group_gap(values, groups, reference_group="m", cluster_ids=factors["template"])
    assert all(math.isnan(x) for x in (lone.std_error, lone.p_value))
    assert all(math.isnan(x) for x in numbers(paired(np.full(35, 0.1), **factors))[1:])


def test_wrong_ids_of_a_factor():
    """Ids of a factor that do not fit the rows are refused with the name of the factor."""
    with pytest.raises(ValueError, match="4 scores and 3 cluster_ids of act, expected one per row"):
        paired_gap(
            [1, 2, 3, 4],
            ["f", "m"] * 2,
            list("aabb"),
            reference_group="m",
            cluster_ids={"act": [1, 2, 3]},
        )
    with pytest.raises(ValueError, match="two clusters of act, expected all of its rows in one"):
        paired_gap(
            [1, 2, 3, 4],
            ["f", "m"] * 2,
            list("aabb"),
            reference_group="m",
            cluster_ids={"act": [1, 1, 2, 3]},
        )


@pytest.mark.simulation
def test_crossed_error_rates():
    """Null gaps with crossed effects are significant in 5 % of 300 draws, and planted ones are
    found, with 17 templates by 11 conditions and the SDs of released outputs."""
    low, high = stats.binom.ppf([0.001, 0.999], 300, 0.05)
    rejected = {"both": 0, "template": 0, "plain": 0, "planted": 0}
    for seed in range(300):
        values, factors = crossed(17, 11, (0.042, 0.115, 0.035), seed)
        rejected["both"] += paired(values, **factors).p_value < 0.05
        rejected["template"] += paired(values, template=factors["template"]).p_value < 0.05
        rejected["plain"] += paired(values).p_value < 0.05
        planted = paired(values + 0.25, **factors)
        rejected["planted"] += planted.p_value < 0.05
        assert planted.value == pytest.approx(values.mean() + 0.25)
    assert low <= rejected["both"] <= high
    assert min(rejected["template"], rejected["plain"]) > 100  # what takes conditions for no sample
    assert rejected["planted"] > 295  # .25 is 7 standard errors
