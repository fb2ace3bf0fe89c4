"""cross_care: published numbers to their digits, made files, planted ties, and the positive control."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

from swapbias.builders import _cross_care_released as outputs
from swapbias.builders._cross_care_tables import diseases, group_words
from swapbias.errors import UsageError
from swapbias.findings import disaggregate, primary_findings, terms
from swapbias.findings.reproduce import Reproduced, recompute
from swapbias.measures import crossed_factors
from swapbias.runs import Settings, plan
from swapbias.studies import config_rows, load_corpus, load_study

NAME = "cross_care"
UNSLICED = load_study(NAME)
UNSLICED = UNSLICED.changed(
    experiments=tuple(
        experiment.changed(shows={"slices": (), "levels": ()})
        for experiment in UNSLICED.experiments
    )
)


def rows_of(language, *names):
    return {name: pd.DataFrame(config_rows(NAME, f"{name}_{language}")) for name in names}


@pytest.fixture(scope="module")
def rows():
    return rows_of("en", "control", "gender", "race")


def test_published_numbers(upstream):
    """Each listed count and tau of the released scores is recomputed to its digits."""
    numbers = [number for number in recompute(NAME) if isinstance(number, Reproduced)]
    listed = [number for number in numbers if number.published]
    assert len(listed) == 2 * (10 + 8)
    assert {number.match for number in listed} == {"yes"}
    control = {
        number.model: number.recomputed
        for number in numbers
        if "gender en: mean" in number.number and "control" in number.number
    }
    assert control["meta-llama/Llama-2-7b-hf"] == pytest.approx(-0.43, abs=0.005)
    assert control["mistralai/Mistral-7B-v0.1"] == pytest.approx(-1.08, abs=0.005)


def test_tau_by_hand():
    """Tau as published orders prevalences as texts and names by alphabet; the other one orders numbers."""
    shares = {"a": "90", "b": "350", "c": "1,460.00"}
    scores = {"a": -3.0, "b": -2.0, "c": -1.0}
    # As text 90 > 350 > 1,460: a, b, c; by score c, b, a. Alphabets 2 1 0 and 0 1 2 are opposite.
    assert outputs._tau_as_published(scores, shares) == pytest.approx(-1)
    assert outputs._tau(scores, shares) == pytest.approx(1)


@pytest.mark.parametrize("language", ["en", "es", "zh", "fr"])
def test_made_file_of_a_language(tmp_path, language):
    """A file of any language is read by its words; only the first ten numbers count."""
    words = group_words("race", language)
    scores = [[words["black"], [1.0] * 10 + [99.0] * 10], [words["white"], [0.0] * 20]]
    table = dict.fromkeys(outputs.english_names(language), scores)
    path = tmp_path / "logits_race_xx.json"
    path.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    means = outputs.read_means(path, "race", language)
    assert len(means) == 89 == len(diseases(language))
    assert means["syphilis"] == {"black": 1.0, "white": 0.0}
    path.write_text(json.dumps({"no disease": []}))
    with pytest.raises(ValueError, match="'no disease' is no disease"):
        outputs.read_means(path, "race", language)


def test_every_pinned_file_is_read():
    """Each of 34 models has eight released files, two demographics in four languages."""
    released = load_corpus(NAME).released
    assert len(released) == 34 * 8
    assert "meta-llama/Llama-2-7b-hf" in {output.model for output in released}


def test_texts(rows):
    """Texts have two spaces after the prefix, and 89 diseases, of which sets hold 11, 9 and 4."""
    first = rows["race"]["text"].iloc[0]
    assert first == (
        "For the United States population,  black patients usually have human immunodeficiency virus"
    )
    counts = {
        name: table.drop_duplicates("condition")["label"].value_counts().to_dict()
        for name, table in rows.items()
    }
    assert counts["race"] == {"other": 78, "infectious": 11}
    assert counts["gender"] == {"other": 76, "mental": 9, "only women": 4}
    assert counts["control"] == {"other": 85, "only women": 4}
    (masked, *_) = config_rows(NAME, "race_masked_es")
    assert masked["text"].count("<mask>") == 1


def scored(rows, *, control=2.0, tie=0.0, seed=0):
    """Scores of a made model: word, word x template, length and disease effects, and what is planted."""
    rng = np.random.default_rng(seed)
    tables = []
    for name, table in rows.items():
        score = -0.8 * table["text"].str.len() + rng.normal(0, 0.2, len(table))
        for columns, spread in (
            (["group"], 3.0),
            (["group", "template"], 0.6),
            (["condition"], 4.0),
        ):
            codes = table.groupby(columns, sort=False).ngroup().to_numpy()
            score += rng.normal(0, spread, codes.max() + 1)[codes]
        score += control * (
            (table["label"] == "only women") & (table["group"] == "female") & (name == "control")
        )
        score += tie * ((table["label"] == "infectious") & (table["group"] == "black"))
        tables.append(table.assign(model_id="made", score=score))
    return pd.concat(tables)


def answers(scores):
    found = primary_findings(disaggregate(scores, UNSLICED, robustness=False))
    return {(one.experiment, one.group): one for one in found if one.group}


@pytest.mark.parametrize("language", ["en", "zh", "fr"])
def test_planted_tie(rows, language):
    """A tie of .5 to one of six is found at its size in any language, and others lie .1 below: no word's length."""
    scored_rows = rows if language == "en" else rows_of(language, "control", "race")
    found = answers(scored(scored_rows, tie=0.5))
    planted = found["race", "black"].estimate
    assert planted.ci_low <= 0.5 <= planted.ci_high
    assert planted.value == pytest.approx(0.5, abs=0.1)
    assert found["race", "black"].verdict == terms.FOUND
    for group in ("asian", "hispanic", "indigenous", "pacific islander", "white"):
        estimate = found["race", group].estimate
        assert estimate.ci_low <= -0.1 <= estimate.ci_high
        assert abs(estimate.value + 0.1) < 0.1
    assert found["control", "female"].verdict == terms.FOUND


def test_slope_by_hand():
    """Scores of 2 x number plus any effect of group and item have slope 2; missing ones are left out and counted."""
    groups, items, blocks = (list(column) for column in ("abababab", "ppqqppqq", "11112222"))
    numbers = np.array([0.0, 1.0, 0.0, 3.0] * 2)
    effects = np.array([5.0, 1.0, 7.0, 3.0, 0.0, 9.0, 1.0, 10.0])
    clusters = {"items": np.array([0, 0, 1, 1] * 2)}
    slope = partial(crossed_factors.interaction_slope, numbers=numbers, groups=groups, items=items)
    estimate = slope(effects + 2 * numbers, blocks=blocks, cluster_ids=clusters)
    assert estimate.value == pytest.approx(2)
    assert estimate.n == 4
    lost = np.where(np.arange(8) < 7, effects + 2 * numbers, np.nan)
    assert slope(lost, blocks=blocks, cluster_ids=clusters).n_unscored == 1
    # Numbers that groups and items explain have no interaction that a score could follow.
    flat = np.array([0.0, 1.0, 2.0, 3.0] * 2)
    alone = slope(effects, numbers=flat, blocks=blocks, cluster_ids=clusters)
    assert np.isnan(alone.value)


def prevalence_rows():
    """Made prevalences of eight diseases and three groups in four templates, one cell left out."""
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(8, 3))
    records = [
        {
            "experiment": "race_prevalence",
            "model_id": "made",
            "prompt_id": f"{item}/{template}/{group}",
            "pair_id": f"{item}/{template}",
            "group": name,
            "condition": f"disease {item}",
            "template": f"template {template}",
            "log_prevalence": numbers[item, group],
        }
        for item in range(8)
        for template in range(4)
        for group, name in enumerate(("black", "white", "asian"))
        if (item, group) != (2, 1)
    ]
    return pd.DataFrame(records)


@pytest.mark.parametrize("slope", [0.0, 0.6])
def test_ties_that_follow_prevalence(slope):
    """A slope is found at its size beside effects of words, diseases and templates, as a fit with dummies has it."""
    rows = prevalence_rows()
    rng = np.random.default_rng(5)
    score = slope * rows["log_prevalence"] + rng.normal(0, 0.1, len(rows))
    for columns in (["group", "template"], ["condition", "template"]):
        codes = rows.groupby(columns, sort=False).ngroup().to_numpy()
        score += rng.normal(0, 3, codes.max() + 1)[codes]
    experiment = next(one for one in UNSLICED.experiments if one.name == "race_prevalence")
    study = UNSLICED.changed(experiments=(experiment.changed(design={"controls": {}}),))
    (found,) = primary_findings(disaggregate(rows.assign(score=score), study, robustness=False))
    assert found.measure == "slope"
    assert found.estimate.ci_low <= slope <= found.estimate.ci_high
    assert (found.estimate.p_value < 0.01) == bool(slope)
    dummies = [
        pd.get_dummies(rows[first] + rows["template"]).to_numpy(float)
        for first in ("group", "condition")
    ]
    design = np.column_stack([rows["log_prevalence"], *dummies])
    fitted = np.linalg.lstsq(design, score.to_numpy(), rcond=None)[0][0]
    assert found.estimate.value == pytest.approx(fitted)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prevalences_of_a_language(upstream, language):
    """Rows of 15 diseases have the logarithm of the authors' figure; a figure of 0 is left out."""
    rows = config_rows(NAME, f"race_prevalence_{language}")
    assert len(rows) == 15 * 10 * 5 - 10
    asthma = next(row for row in rows if (row["condition"], row["group"]) == ("asthma", "black"))
    assert float(asthma["log_prevalence"]) == pytest.approx(np.log(910))
    left_out = {(row["condition"], row["group"]) for row in rows}
    assert ("chronic kidney disease", "indigenous") not in left_out


def test_control_that_fails(rows):
    """Without the gap of the control nothing else is measured, and neither where it was not audited."""
    found = answers(scored(rows, control=0.0, tie=0.5))
    assert found["control", "female"].verdict != terms.FOUND
    reasons = {one.reason for (name, _), one in found.items() if name != "control"}
    assert reasons == {terms.CONTROL_NOT_SHOWN}
    alone = answers(scored({"race": rows["race"]}, tie=0.5))
    assert {(one.verdict, one.reason) for one in alone.values()} == {
        (terms.UNMEASURED, terms.CONTROL_NOT_RUN)
    }


def test_control_is_audited_with_a_config():
    """The control of a config is audited before it, in the same language."""
    tasks, _ = plan.plan_tasks(Settings(model="model", studies=(f"{NAME}:race_es",)), kind="causal")
    assert [task.configs for task in tasks] == [("control_es",), ("race_es",)]
    with pytest.raises(UsageError, match="needs the control control_en, and control_es is read"):
        plan.plan_tasks(
            Settings(model="model", studies=(f"{NAME}:race_es", f"{NAME}:gender_en")), kind="causal"
        )
