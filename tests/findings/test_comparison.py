"""Differences between models: of primary findings, corrected together, with the stated error
rate."""

import math

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import compare, disaggregate
from swapbias.findings.terms import UNDECIDED
from swapbias.studies import config_rows, load_study

RQ1 = pd.DataFrame(config_rows("gendered_stigma", "rq1"))
SUBSET = load_study("gendered_stigma").experiments[0].compares.subset
FEW_CONDITIONS = RQ1[RQ1["condition"].isin(list(dict.fromkeys(RQ1["condition"]))[::2])].reset_index(
    drop=True
)


def scored(rows, gap, *, seed=0, noise=0.01):
    """Scores of which the first group gets ``gap`` more, which may be a number for each row."""
    wave = np.random.default_rng(seed).normal(0, noise, len(rows))
    return rows.assign(model_id="m", score=0.4 + gap * (rows["group"] == "female") + wave)


def primary_in(findings):
    return [finding for finding in findings if finding.primary]


def primary_of_models(models, study):
    return {
        name: primary_in(disaggregate(rows, study, robustness=False))
        for name, rows in models.items()
    }


def test_difference_of_primary_findings():
    """The difference of two primary findings is the difference of their values."""
    illness = (FEW_CONDITIONS[SUBSET] == "mental_health").astype(float)
    models = {
        "a": scored(FEW_CONDITIONS, 0.2 * illness),
        "b": scored(FEW_CONDITIONS, 0.05 * illness, seed=1),
    }
    own = primary_of_models(models, "gendered_stigma")
    (found,) = primary_in(compare({"gendered_stigma": models}))
    assert found.contrast == "b - a"
    assert found.subset == "mental_health - other_health"
    assert found.estimate.value == pytest.approx(
        own["b"][0].estimate.value - own["a"][0].estimate.value, abs=1e-9
    )
    assert found.estimate.value == pytest.approx(-0.15, abs=0.01)  # 0.05 - 0.2, planted
    assert found.cluster_vars.startswith("templates + diagnoses")
    assert found.estimate.ci_low < found.estimate.value < found.estimate.ci_high


def test_pairs_of_equal_prompts():
    """Pairs that are matched once for models with the same prompts equal those of each model."""
    models = {
        name: scored(FEW_CONDITIONS, gap, seed=seed)
        for seed, (name, gap) in enumerate({"a": 0.2, "b": 0.05}.items())
    }
    models["b"].loc[7, "score"] = math.nan  # its pair is lost in this model alone
    other_order = {**models, "a": models["a"].sample(frac=1, random_state=0).reset_index(drop=True)}
    shared, separate = (compare({"gendered_stigma": one}) for one in (models, other_order))
    assert [one.key() for one in shared] == [one.key() for one in separate]
    for one, other in zip(shared, separate, strict=True):
        assert one.estimate.n == other.estimate.n
        assert one.estimate.n_unscored == other.estimate.n_unscored
        numbers = [
            (each.estimate.value, each.estimate.std_error, each.estimate.p_adjusted)
            for each in (one, other)
        ]
        np.testing.assert_allclose(*numbers, rtol=1e-9)


def test_difference_of_conditions():
    """The difference of conditions is that of the gaps between their groups."""
    rows = pd.DataFrame(config_rows("social_distance", "sentiment"))
    first = rows["group"] == rows["group"].iloc[0]
    pairs = np.random.default_rng(1).normal(0.3, 0.02, rows["pair_id"].nunique())[
        rows["pair_id"].factorize()[0]
    ]
    flat, planted = (rows.assign(model_id="m", score=pairs + gap * first) for gap in (0.0, 0.4))
    wave = np.random.default_rng(2).normal(0, 0.02, len(rows))
    models = {"a": planted.assign(score=planted["score"] + wave), "b": flat}
    others = {f"m{number}": flat for number in range(12)}  # of so many the primary findings alone
    found = compare({"social_distance": {**models, **others}})[0]
    assert (found.primary, found.contrast) == (True, "b - a")
    own = primary_of_models(models, "social_distance")
    assert found.estimate.value == pytest.approx(
        own["b"][0].estimate.value - own["a"][0].estimate.value, abs=1e-9
    )


def test_crossed_factors():
    """Effects of crossed factors are compared as effects on the difference."""
    rows = pd.DataFrame(config_rows("spanish_occupations", "sentences_es"))
    rows = rows[rows["pair_id"].isin(rows["pair_id"].unique()[::3])].reset_index(drop=True)
    woman = rows["group"].str.endswith("woman")
    made = {
        name: rows.assign(model_id="m", score=0.5 + gap * woman)
        for name, gap in (("a", 0.1), ("b", 0.03))
    }
    wave = np.random.default_rng(3).normal(0, 0.01, len(rows))
    made["a"] = made["a"].assign(score=made["a"]["score"] + wave)
    others = {f"m{number}": made["b"] for number in range(13)}  # of many the primary findings alone
    found = compare({"spanish_occupations": {"a": made["a"], "b": made["b"], **others}})
    assert all(one.primary for one in found)
    effect = next(
        one for one in found if one.subset.startswith("gender") and one.contrast == "b - a"
    )
    assert abs(effect.estimate.value) == pytest.approx(0.07, abs=0.005)  # 0.1 - 0.03, planted


def test_family_of_primary_findings():
    """Primary findings of all models are one family in each study."""
    control = pd.DataFrame(config_rows("occupation_sentiment", "control"))
    studies = {
        "gendered_stigma": {
            name: scored(FEW_CONDITIONS, 0.0, seed=place) for place, name in enumerate("abc")
        },
        "occupation_sentiment": {
            name: scored(control, 0.0, seed=place) for place, name in enumerate("abc")
        },
    }
    found = compare(studies)
    answers = primary_in(found)
    assert [(one.study, one.contrast) for one in answers] == [
        (study, contrast) for study in studies for contrast in ("b - a", "c - a")
    ]
    assert {one.estimate.family for one in answers} == {
        f"2 questions of {study}" for study in studies
    }
    for one in answers:
        assert one.estimate.p_adjusted == pytest.approx(min(1.0, 2 * one.estimate.p_value))
    others = [one for one in found if not one.primary and not math.isnan(one.estimate.p_value)]
    assert others
    assert all(one.estimate.p_adjusted >= one.estimate.p_value for one in others)
    of_control = {"occupation_sentiment": studies["occupation_sentiment"]}
    for reference, contrasts in (("c", ["a - c", "b - c"]), ("gone", ["b - a", "c - a"])):
        assert [
            one.contrast for one in primary_in(compare(of_control, reference=reference))
        ] == contrasts


def test_one_or_equal_models():
    """One model has no comparison, and models with equal scores have no difference."""
    rows = scored(FEW_CONDITIONS, 0.1)
    assert compare({"gendered_stigma": {"a": rows}}) == []
    (found,) = primary_in(compare({"gendered_stigma": {"a": rows, "b": rows}}))
    assert found.estimate.value == 0
    assert math.isnan(found.estimate.p_value)


def test_false_alarms():
    """Models that differ by chance alone, with effects of templates and diagnoses drawn for each,
    are found to differ as rarely as stated."""
    drawn = np.random.default_rng(4)
    template, condition = (
        pd.factorize(FEW_CONDITIONS[name])[0] for name in ("template", "condition")
    )

    def model():
        effects = drawn.normal(0, 0.03, template.max() + 1)[template]
        effects = effects + drawn.normal(0, 0.03, condition.max() + 1)[condition]
        return FEW_CONDITIONS.assign(
            model_id="m",
            score=0.4
            + effects * (FEW_CONDITIONS["group"] == "female")
            + drawn.normal(0, 0.03, len(FEW_CONDITIONS)),
        )

    found = []
    for _ in range(5):
        models = {f"m{place}": model() for place in range(15)}
        found += primary_in(compare({"gendered_stigma": models}))
    assert len(found) == 5 * 14
    rejected = np.mean([one.estimate.p_value < 0.05 for one in found])
    covered = np.mean([one.estimate.ci_low <= 0 <= one.estimate.ci_high for one in found])
    assert rejected <= 0.13  # .05, give or take three errors of 70 draws that share a model each
    assert covered >= 0.87
    assert np.mean([one.verdict == UNDECIDED or "no gap" in one.verdict for one in found]) >= 0.95


def slow_effect_size(models, part):
    """Cohen's d of two models' gaps, row by row: the difference of the means over the pooled SD."""
    gaps = []
    for rows in models.values():
        pairs = {}
        for row in rows[rows[SUBSET] == part].itertuples():
            sign = {"female": 1, "male": -1}.get(row.group, 0)
            pairs[row.pair_id] = pairs.get(row.pair_id, 0.0) + sign * row.score
        gaps.append([*pairs.values()])
    means = [sum(sample) / len(sample) for sample in gaps]
    squares = sum(
        (gap - mean) ** 2 for sample, mean in zip(gaps, means, strict=True) for gap in sample
    )
    return (means[1] - means[0]) / math.sqrt(squares / (len(gaps[0]) + len(gaps[1]) - 2))


def test_effect_size_of_two_models():
    """Cohen's d of two models is that of their gaps of pairs, which no other quantity has."""
    models = {
        name: scored(FEW_CONDITIONS, gap, seed=seed, noise=0.05)
        for seed, (name, gap) in enumerate({"a": 0.2, "b": 0.15}.items())
    }
    differences = compare({"gendered_stigma": models})
    by_part = {
        found.subset: found.estimate.effect_size
        for found in differences
        if found.slice_by == "all" and not found.view
    }
    for part in ("mental_health", "other_health"):
        assert by_part[part] == pytest.approx(slow_effect_size(models, part), abs=1e-9)
    assert -1.5 < by_part["mental_health"] < 0  # b has the smaller gap
    assert math.isnan(by_part["mental_health - other_health"])


def test_effect_size_of_unpaired_groups():
    """Groups of conditions without pairs have no Cohen's d of two models."""
    rows = pd.DataFrame(config_rows("social_distance", "sentiment"))
    first = rows["group"] == rows["group"].iloc[0]
    models = {
        name: rows.assign(
            model_id=name,
            score=0.1 * gap * first + np.random.default_rng(gap).normal(0, 0.1, len(rows)),
        )
        for gap, name in enumerate("ab")
    }
    differences = compare({"social_distance": models})
    assert differences
    assert all(
        math.isnan(found.estimate.effect_size)
        for found in differences
        if found.measure == "model_difference"
    )


@pytest.mark.parametrize(
    ("study", "config"),
    [
        ("gendered_stigma", "rq1"),
        ("occupation_sentiment", "sentences"),
        ("social_distance", "sentiment"),
        ("spanish_occupations", "sentences_es"),
    ],
)
def test_brief_differences(study, config):
    """Where many models are compared, primary differences are those of few models, and only they."""
    experiment = next(
        part for part in load_study(study).experiments if config in part.reads.configs
    )
    rows = pd.DataFrame(config_rows(study, config)).assign(experiment=experiment.name)
    noise = np.random.default_rng(0)
    models = {
        name: rows.assign(model_id=name, score=0.5 + noise.normal(0, 0.1, len(rows)))
        for name in "abcdefg"
    }
    few = compare({study: {name: models[name] for name in "ab"}}, reference="a")
    many = compare({study: models}, reference="a")
    expected = {(finding.subset, finding.measure): finding for finding in primary_in(few)}
    found = {
        (finding.subset, finding.measure): finding
        for finding in many
        if finding.contrast == "b - a"
    }
    assert found.keys() == expected.keys()
    for key, finding in found.items():
        for name in ("value", "effect_size", "std_error", "df", "skewness", "p_value", "n", "test"):
            wanted = getattr(expected[key].estimate, name)
            if isinstance(wanted, float):
                wanted = pytest.approx(wanted, nan_ok=True)
            assert getattr(finding.estimate, name) == wanted
        for name in ("cluster_vars", "fixed", "unit", "margin", "view"):
            assert getattr(finding, name) == getattr(expected[key], name)


def test_brief_differences_in_any_order():
    """Where many models are compared, rows in another order and prompts that one lacks change nothing."""
    models = {name: scored(FEW_CONDITIONS, 0.1, seed=seed) for seed, name in enumerate("abcdefg")}
    order = np.random.default_rng(0).permutation(len(FEW_CONDITIONS))
    models["b"] = models["b"].iloc[order]
    lacking = FEW_CONDITIONS["pair_id"] == FEW_CONDITIONS["pair_id"].iloc[0]
    models["c"] = models["c"][~lacking]
    many = primary_in(compare({"gendered_stigma": models}, reference="a"))
    for name in "bc":
        two = {"a": models["a"], name: models[name]}
        (expected,) = primary_in(compare({"gendered_stigma": two}, reference="a"))
        (found,) = [finding for finding in many if finding.contrast == f"{name} - a"]
        assert found.estimate.n == expected.estimate.n
        for field in ("value", "std_error", "df", "effect_size"):
            wanted = getattr(expected.estimate, field)
            assert getattr(found.estimate, field) == pytest.approx(wanted, nan_ok=True)
    counts = [finding.estimate.n for finding in many]
    assert counts[0] == counts[2]
    assert counts[1] < counts[0]  # of c, which lacks a pair
