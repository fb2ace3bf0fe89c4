"""cross_care: published numbers to their digits, made files, planted ties, and the positive control."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from swapbias.builders import _cross_care_released as outputs
from swapbias.builders._cross_care_tables import diseases, group_words, templates
from swapbias.builders.cross_care import PREFIX
from swapbias.errors import UsageError
from swapbias.findings import Finding, disaggregate, primary_findings, terms
from swapbias.measures import Estimate, crossed_factors
from swapbias.models.named_words import text_parts
from swapbias.report import fill_tables
from swapbias.report.cautions import list_cautions, sensitivity_rows
from swapbias.report.verdicts import gaps_of_sets, state_verdict
from swapbias.runs import Settings, plan
from swapbias.studies import MASK, as_prompts, config_rows, load_corpus, load_study
from swapbias.studies.paper import PaperRun
from swapbias.studies.tables import upstream_file
from tests.released import numbers_of

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
    numbers = numbers_of(NAME)
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
    assert outputs.tau_as_published(scores, shares) == pytest.approx(-1)
    assert outputs.tau(scores, shares) == pytest.approx(1)


def run_with(rows, verdict="gap"):
    """A run that scored rows, whose question about races has a verdict."""
    finding = Finding(
        study=NAME,
        experiment="race",
        model_id="made",
        score="score",
        measure="gap_difference",
        contrast="black - the others",
        unit="natural log-probability",
        estimate=Estimate(0.1, n=1, test="t"),
        primary=True,
        verdict=verdict,
    )
    slope = replace(
        finding,
        experiment="race_prevalence",
        measure="slope",
        contrast="score ~ log prevalence",
        estimate=Estimate(0.25, n=1, test="t"),
    )
    findings = (finding, slope)
    return PaperRun(title="made", label="this run", model_id="made", findings=findings, rows=rows)


def made_means(rows):
    """Scores of a made model by disease and group, one number in each template."""
    codes = rows.groupby(["condition", "group"], sort=False).ngroup().to_numpy()
    return rows.assign(score=np.random.default_rng(4).normal(size=codes.max() + 1)[codes])


def test_tau_beside_the_slope(rows, upstream):
    """An audit's tables have both means of tau by the authors' prevalences, and the slope where it was audited."""
    scores = made_means(rows["race"])
    means = {
        disease: of_disease.groupby("group")["score"].mean().to_dict()
        for disease, of_disease in scores.groupby("condition")
    }
    prevalences = outputs.read_prevalences(upstream_file(NAME, outputs.PREVALENCE), "race", "en")
    pairs = [(means[disease], shares) for disease, shares in prevalences.items()]
    published = np.mean([outputs.tau_as_published(*pair) for pair in pairs])
    right = np.mean([outputs.tau(*pair) for pair in pairs])
    (table,) = fill_tables(NAME, [run_with(scores)])
    expected = ["made", "this run", "race", "en", "–", "15 of 15"]
    assert table.lines == ((*expected, f"{published:.3f}", f"{right:.3f}"),)
    assert "no rank correlation" in table.notes[0]
    known = scores.assign(experiment="race_prevalence").drop(
        scores.index[(scores["condition"] == "asthma") & (scores["group"] == "asian")]
    )
    (table,) = fill_tables(NAME, [run_with(pd.concat([scores, known]))])
    assert table.lines[0][4:6] == ("0.250", "15 of 15")
    (table,) = fill_tables(NAME, [run_with(known)])
    assert table.lines[0][4:6] == ("0.250", "14 of 15")


def test_tau_without_prevalences(rows, tmp_path, monkeypatch):
    """Without the authors' prevalences a sentence says so, and where the control fails nothing is measured."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    scores = made_means(rows["race"])
    (table,) = fill_tables(NAME, [run_with(scores)])
    assert table.lines[0][4:] == ("–", "–", "–", "–")
    assert table.notes[-1].startswith("Tau needs the authors' prevalences, which were not found")
    (table,) = fill_tables(NAME, [run_with(scores, terms.UNMEASURED)])
    assert table.lines[0][4:] == ("not measured", "–", "not measured", "not measured")


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


@pytest.mark.parametrize("language", ["en", "es", "zh", "fr"])
def test_named_diseases(language):
    """Four templates name the group first: there rows name the disease at its place in the text."""
    rows = config_rows(NAME, f"race_{language}")
    assert {row["template"] for row in rows if row["candidates"]} == {
        f"{language} {number}" for number in (0, 3, 5, 8)
    }
    named = [row for row in rows if row["candidates"]]
    masked = [row for row in config_rows(NAME, f"gender_masked_{language}") if row["candidates"]]
    assert len(masked) == 89 * 4 * 2
    for row in (*named[::7], *masked[::7]):
        (disease,) = row["candidates"]
        number = row["template"].removeprefix(f"{language} ")
        group = MASK if row in masked else group_words("race", language)[row["group"]]
        template = f"{PREFIX} {templates(language)[number]}"
        before, _, _ = template.replace("[demographic]", group).partition("[disease]")
        (prompt,) = as_prompts([row])
        assert text_parts(prompt, row["text"]) == (before, before + disease.text)


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


def with_second_reading(scores, tie):
    """Scored rows with a second reading of a made model: what a disease and its text add, and what is planted."""
    rng = np.random.default_rng(2)
    has_disease = scores["candidates"].map(len) > 0
    conditional = rng.normal(0, 0.2, len(scores))
    codes = scores.groupby(["condition", "template"], sort=False).ngroup().to_numpy()
    conditional += rng.normal(0, 4, codes.max() + 1)[codes]
    conditional += tie * ((scores["label"] == "infectious") & (scores["group"] == "black"))
    return scores.assign(conditional=np.where(has_disease, conditional, np.nan))


@pytest.mark.parametrize(
    ("first_tie", "tie", "sentence"),
    [
        (0.5, 0.5, ""),
        (0.5, -0.5, "Not robust: the score of the named words alone has the other sign (-"),
        (3.0, 0.02, ", and only one of the two intervals includes zero."),
        (0.5, 3.0, ""),
    ],
)
def test_second_reading(rows, first_tie, tie, sentence):
    """The second reading has its size in the four templates that have it; a contradiction is said in a sentence."""
    scores = with_second_reading(
        scored({name: rows[name] for name in ("control", "race")}, tie=first_tie), tie
    )
    found = disaggregate(scores, UNSLICED, robustness=False)
    (primary,) = [one for one in primary_findings(found) if one.group == "black"]
    (second,) = [
        one
        for one in found
        if one.key() == primary.key() and one.score == "conditional" and not one.view
    ]
    assert second.estimate.value == pytest.approx(tie, abs=0.1)
    # By 4 templates x (11 infectious diseases + 78 others) x 6 groups, and none is missing.
    assert second.estimate.n_unscored == 0
    assert second.estimate.n == primary.estimate.n * 4 // 10
    cautions = " ".join(list_cautions(primary, found))
    assert sentence in cautions
    assert ("named words" in cautions) == bool(sentence)
    (row,) = [row for row in sensitivity_rows(primary, found) if "named words" in row[0]]
    assert row[0] == "the named words alone, given the text around them"


def test_texts_without_the_group_cancel(rows):
    """Subtracting a number of each pair, as of the text without the group's word, changes no gap."""
    scores = with_second_reading(scored({name: rows[name] for name in ("control", "race")}), 0.5)
    number = scores["pair_id"].map(lambda pair: sum(map(ord, pair)) % 13)
    less = scores.assign(conditional=scores["conditional"] - number)
    gaps = [
        [
            one.estimate.value
            for one in disaggregate(table, UNSLICED, robustness=False)
            if one.score == "conditional" and one.measure == "gap_difference" and one.group
        ]
        for table in (scores, less)
    ]
    assert gaps[0] == pytest.approx(gaps[1])
    assert len(gaps[0]) > 6


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


def test_gaps_of_sets_are_no_claim(rows):
    """How often a word is written is no answer: no gap in one set of diseases is stated beside their difference."""
    found = disaggregate(scored(rows, tie=0.5), UNSLICED, robustness=False)
    for primary in primary_findings(found):
        assert gaps_of_sets(primary, found) == []
    control = next(one for one in primary_findings(found) if one.experiment == "control")
    sentence = state_verdict(control).text
    assert (
        "ties diseases that only women have rather than others to women more than to men"
        in sentence
    )


def test_control_is_audited_with_a_config():
    """The control of a config is audited before it, in the same language."""
    tasks, _ = plan.plan_tasks(Settings(model="model", studies=(f"{NAME}:race_es",)), kind="causal")
    assert [task.configs for task in tasks] == [("control_es",), ("race_es",)]
    with pytest.raises(UsageError, match="needs the control control_en, and control_es is read"):
        plan.plan_tasks(
            Settings(model="model", studies=(f"{NAME}:race_es", f"{NAME}:gender_en")), kind="causal"
        )
