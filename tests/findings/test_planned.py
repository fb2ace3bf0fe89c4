"""What an audit can find before it is run: from the spreads of released outputs to the smallest gap."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from swapbias.builders._adjective_coreference_released import (
    CODES,
    KEYS,
    SIDES,
    _words,
    answers_path,
    classes,
    key_aliases,
)
from swapbias.builders._adjective_coreference_sentences import stereotypes
from swapbias.findings.disaggregation import condition_means, disaggregate, pair_gaps, planned_error, planned_units
from swapbias.findings.finding import Context, cautioned
from swapbias.measures.gaps import detectable_gap, power
from swapbias.measures.intervals import crossed_error, expected_error, skewed_factor
from swapbias.scorers.models import CAUSAL
from swapbias.studies.catalogue import config_rows, load_corpus, load_lexicon, load_study
from swapbias.studies.tables import upstream_file


def experiment_of(study, name):
    return next(one for one in load_study(study).experiments if one.name == name)


def rows_of(study, name):
    return [row for config in experiment_of(study, name).configs for row in config_rows(study, config)]


# --- from spreads to the smallest gap -----------------------------------------------------------------


def test_the_planned_error_of_a_contrast_by_hand():
    # Templates have pairs in both sets of conditions, so their effects cancel. Conditions: .115^2 (1/11 + 1/11) =
    # .00240455; the rest: .035^2 (1/187 + 1/187) = .0000131. Together .00241765, the root of which is .049170. Its
    # freedom is nearly that of 11 + 11 conditions: 20.
    error, freedom = planned_error(experiment_of("gendered_stigma", "rq1"), rows_of("gendered_stigma", "rq1"))
    assert error == pytest.approx(math.sqrt(0.115**2 * 2 / 11 + 0.035**2 * 2 / 187), rel=1e-9)
    assert error == pytest.approx(0.04917, abs=5e-6)
    assert freedom == pytest.approx(20, abs=0.01)


def test_the_planned_error_of_crossed_factors_by_hand():
    # 20 x 20 pairs: .125^2 / 20 + .048^2 / 20 + .136^2 / 400 = .00078125 + .0001152 + .00004624 = .00094269.
    error, freedom = planned_error(
        experiment_of("occupation_sentiment", "sentences"), rows_of("occupation_sentiment", "sentences")
    )
    assert error**2 == pytest.approx(0.00094269, abs=1e-8)
    assert 19 < freedom < 38


def test_what_a_headline_compares_is_counted():
    minus, clusters = planned_units(experiment_of("gendered_stigma", "rq1"), rows_of("gendered_stigma", "rq1"))
    assert (len(minus), minus.sum()) == (374, 187)
    assert {name: len(set(codes)) for name, codes in clusters.items()} == {"templates": 17, "diagnoses": 22}
    minus, clusters = planned_units(
        experiment_of("social_distance", "sentiment"), rows_of("social_distance", "sentiment")
    )
    assert (len(minus), minus.sum()) == (122, 29)
    assert list(clusters) == ["categories"]
    minus, _ = planned_units(
        experiment_of("adjective_coreference", "answers"), rows_of("adjective_coreference", "answers")
    )
    assert len(minus) == 48


def test_what_is_not_released_is_not_known():
    for study, name in (("social_distance", "attitude"), ("adjective_coreference", "odds")):
        assert np.isnan(planned_error(experiment_of(study, name), rows_of(study, name))).all()


def test_the_expected_error_is_the_mean_of_those_of_scores_that_have_these_spreads():
    # Unbalanced: two samples, 6 and 9 crossed clusters of unequal size. The slow definition is 3,000 samples.
    rng = np.random.default_rng(0)
    sides = np.repeat([0, 1], [60, 45])
    factors = {"a": rng.integers(6, size=105), "b": np.sort(rng.integers(9, size=105))}
    spreads = {"a": 0.5, "b": 1.0, "": 0.7}
    variances = []
    for _ in range(3_000):
        values = rng.normal(size=105) * spreads[""]
        values += sum(spreads[name] * rng.normal(size=9)[codes] for name, codes in factors.items())
        variances.append(crossed_error((values[:60], values[60:]), factors)[0] ** 2)
    assert expected_error(sides, factors, spreads)[0] ** 2 == pytest.approx(np.mean(variances), rel=0.05)


def test_no_error_is_expected_of_one_cluster_or_of_nothing_that_varies():
    one = {"a": np.zeros(8, dtype=int)}
    assert np.isnan(expected_error(np.zeros(8, dtype=int), one, {"a": 1.0, "": 1.0})).all()
    two = {"a": np.arange(8) % 2}
    assert np.isnan(expected_error(np.zeros(8, dtype=int), two, {"a": 0.0, "": 0.0})).all()
    assert np.isnan(expected_error(np.zeros(8, dtype=int), two, {"": 1.0})).all()


@pytest.mark.parametrize(
    ("study", "name"), [("gendered_stigma", "rq1"), ("occupation_sentiment", "sentences")]
)  # fmt: skip
def test_a_planned_gap_is_what_audits_of_simulated_scores_call_detectable(study, name):
    experiment = replace(experiment_of(study, name), slices=(), levels=(), covariates=(), scores=("score",))
    alone = replace(load_study(study), experiments=(experiment,))
    rows = pd.DataFrame(rows_of(study, name)).assign(model_id="simulated")
    rows = rows[rows["group"].isin(["female", "male"])]
    rng, told = np.random.default_rng(0), []
    for _ in range(60):
        gaps = sum(
            spread * rng.normal(size=len(set(codes)))[codes]
            for column, spread in experiment.spreads.items()
            for codes in [pd.factorize(rows[column or "pair_id"])[0]]
        )
        scored = rows.assign(score=gaps * np.where(rows["group"] == "female", 0.5, -0.5))
        found = disaggregate(scored, alone, robustness=False)
        told += [one.detectable for one in found if one.headline]
    assert len(told) == 60
    assert detectable_gap(*planned_error(experiment, rows.to_dict("records"))) == pytest.approx(
        np.mean(told), rel=0.1
    )


@pytest.mark.parametrize("freedom", [1.5, 7.0, 40.0])
@pytest.mark.parametrize("gap", [0.0, 0.2, 1.0, 5.0, 9.0])  # scipy has NaN for the other tail of 9 at 1.5
def test_power_is_the_chance_of_a_large_t(freedom, gap):
    # t = (z + gap) / s with s^2 a chi square over its freedom: the chance given s, over all s.
    most = stats.t.isf(0.025, freedom)
    quantiles = (np.arange(200_000) + 0.5) / 200_000
    reach = most * np.sqrt(stats.chi2.ppf(quantiles, freedom) / freedom)
    wanted = (stats.norm.sf(reach - gap) + stats.norm.cdf(-reach - gap)).mean()
    assert power(gap, 1.0, freedom) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("freedom", [1.0, 1.2, 2.0, 1e6])
def test_there_is_a_detectable_gap_for_any_freedom(freedom):
    gap = detectable_gap(1.0, freedom)
    assert power(gap, 1.0, freedom) == pytest.approx(0.8, abs=1e-4)


def test_the_number_of_antonyms_is_what_each_prompt_takes():
    assert CAUSAL.readings["antonyms"].passes == len(load_lexicon("social_distance/antonyms").entries())


# --- the spreads, from what was released --------------------------------------------------------------


def components(values, factors, sides):
    """SDs of crossed random effects and of the rest by the method of moments (MINQUE with no prior weights)."""
    fixed = (np.asarray(sides)[:, None] == np.unique(sides)).astype(float)
    off = np.eye(len(values)) - fixed @ np.linalg.pinv(fixed)
    left = off @ values
    kernels = [(codes[:, None] == codes).astype(float) for codes in factors] + [np.eye(len(values))]
    cleared = [off @ kernel for kernel in kernels]
    expected = [[np.sum(one * other.T) for other in cleared] for one in cleared]
    return np.sqrt(np.linalg.solve(expected, [left @ kernel @ left for kernel in kernels]))


def test_the_moments_of_a_balanced_table_are_those_of_its_analysis_of_variance():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 1)) + 2 * rng.normal(size=(1, 8)) + 0.5 * rng.normal(size=(6, 8))
    rows, columns = np.indices(table.shape).reshape(2, -1)
    rest = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    residual = (rest**2).sum() / (5 * 7)
    by_hand = [table.mean(1).var(ddof=1) - residual / 8, table.mean(0).var(ddof=1) - residual / 6, residual]
    assert components(table.ravel(), [rows, columns], np.zeros(48)) ** 2 == pytest.approx(by_hand)


def released(corpus, model, experiment):
    leaf = load_corpus(corpus)
    one = next(one for one in leaf.released if (one.model, one.experiment) == (model, experiment))
    return pd.DataFrame(one.rows({path: upstream_file(corpus, path) for path in one.files}))


@pytest.mark.parametrize(
    ("study", "name", "model", "subset"),
    [
        ("gendered_stigma", "rq1", "roberta-large", "mental_health"),
        ("gendered_stigma", "rq2", "roberta-large", "mental_health"),
        ("occupation_sentiment", "sentences", "bert-base-uncased (fine-tuned on SST-2)", ""),
    ],
)
def test_spreads_of_pairs_are_those_of_the_released_outputs(upstream, study, name, model, subset):
    rows, experiment = released(study, model, name), experiment_of(study, name)
    pairs = pair_gaps(Context("", "", experiment, "score"), rows[rows["experiment"] == name])
    pairs = pairs[pairs["label"] == subset] if subset else pairs
    codes = [pd.factorize(pairs[column])[0] for column in ("template", "condition")]
    found = components(pairs["gap"].to_numpy(), codes, np.zeros(len(pairs)))
    assert found == pytest.approx([experiment.spreads[one] for one in ("template", "condition", "")], abs=6e-4)


def test_the_spread_of_the_control_is_that_of_its_twenty_pairs(upstream):
    rows = released("occupation_sentiment", "bert-base-uncased (fine-tuned on SST-2)", "sentences")
    control = experiment_of("occupation_sentiment", "control")
    assert pair_gaps(Context("", "", control, "score"), rows[rows["experiment"] == "control"])[
        "gap"
    ].std() == pytest.approx(0.18, abs=6e-4)
    assert control.spreads == {"template": 0.18, "": 0.0}


def test_spreads_of_conditions_are_those_of_the_released_labels(upstream):
    experiment = experiment_of("social_distance", "sentiment")
    rows = released("social_distance", "distilbert-base-uncased-finetuned-sst-2-english", "sentiment")
    means = condition_means(experiment, rows[rows["group"].isin([experiment.group, experiment.reference_group])])
    found = components(means["score"].to_numpy(), [pd.factorize(means["label"])[0]], means["group"])
    assert found == pytest.approx([experiment.spreads["label"], experiment.spreads[""]], abs=6e-4)


def test_spreads_of_answers_are_those_of_the_released_answers(upstream):
    def right(trial, side, condition):
        path = answers_path(trial, side, condition)
        files = {one: upstream_file("adjective_coreference", one) for one in (path, *KEYS.values())}
        return np.array([one == "correct" for one in classes(files, trial, side, condition)], dtype=float)

    pro, anti = ([right(trial, side, condition) for trial in (1, 2) for condition in CODES] for side in SIDES)
    gaps = 100 * (np.mean(pro, axis=0) - np.mean(anti, axis=0))
    known, aliases = {name.lower(): gender for name, gender in stereotypes().items()}, key_aliases()
    keys = [_words(upstream_file("adjective_coreference", path), heading=False) for path in KEYS.values()]
    named = [[aliases.get(word, word).lower() for word in both] for both in zip(*keys, strict=True)]
    codes = [
        pd.factorize(np.array([next(word for word in both if known[word] == gender) for both in named]))[0]
        for gender in ("male", "female")
    ]
    found = components(gaps, codes, np.zeros(len(gaps)))
    spreads = experiment_of("adjective_coreference", "answers").spreads
    assert found == pytest.approx([spreads[one] for one in ("male_answer", "female_answer", "")], abs=0.06)


# --- few and skewed clusters --------------------------------------------------------------------------


def test_eleven_clusters_of_which_one_stands_out_are_called_skewed():
    # Sums 10, -1 x 10: mean 0; skewness = (1000 - 10) / 11 / ((100 + 10) / 11)^1.5 = 90 / 31.62 = 2.846, above twice
    # the standard error sqrt(6 x 9 / (12 x 14)) = .567. Five rows of one cluster count as one.
    codes = np.repeat(np.arange(11), 5)
    influence = np.where(codes == 0, 2.0, -0.2)
    factors = {"templates": np.tile(np.arange(5), 11), "diagnoses": codes}
    assert skewed_factor(influence, factors) == ("diagnoses", 11)
    said = cautioned("over templates and diagnoses", influence, factors)
    assert (
        said == "over templates and diagnoses; the 11 diagnoses are skewed: a test at .05 errs more often than that"
    )
    assert skewed_factor(-influence, factors) == ("diagnoses", 11)
    assert skewed_factor(np.zeros(55), factors) == ("", 0)
    assert skewed_factor(influence, {"": np.arange(55)}) == ("", 0)  # 55 clusters are many
    assert skewed_factor(influence[:4], {"": np.arange(4)}) == ("", 0)  # of four nobody can tell
    assert skewed_factor(influence, {}) == ("", 0)


@pytest.mark.parametrize("count", [6, 11, 20])
def test_normal_clusters_are_seldom_called_skewed(count):
    rng = np.random.default_rng(0)
    fired = np.mean([skewed_factor(rng.normal(size=count), {"a": np.arange(count)})[1] > 0 for _ in range(2_000)])
    assert 0.035 < fired < 0.065


def test_a_gap_over_skewed_diagnoses_says_so_and_its_published_statistic_does_not():
    experiment = replace(experiment_of("gendered_stigma", "rq1"), slices=(), levels=(), scores=("score",))
    alone = replace(load_study("gendered_stigma"), experiments=(experiment,))
    rows = pd.DataFrame(rows_of("gendered_stigma", "rq1")).assign(model_id="simulated")
    one = rows["condition"] == rows["condition"].iloc[0]
    tilt = pd.factorize(rows["template"])[0] / 1_000 + np.where(one, 0.5, 0.0)
    found = disaggregate(rows.assign(score=np.where(rows["group"] == "female", tilt, 0.0)), alone)
    first = rows["label"].iloc[0]
    said = {(gap.subset, gap.view): gap.inference for gap in found}
    assert "the 11 diagnoses are skewed" in said[first, ""]
    assert said[first, "as published"] == "as published"
    other = next(name for name in rows["label"].unique() if name != first)
    assert "skewed" not in said[other, ""]
