"""The social-distance study: conditions, attitudes against a slow definition, labels, comparing."""

import json
import math
from unittest.mock import patch

import pandas as pd
import pytest
import torch

from swapbias.builders._social_distance_tables import counts_over_models
from swapbias.findings import compare, disaggregate
from swapbias.findings.model_counts import count_conditions
from swapbias.findings.model_difference import condition_scores
from swapbias.measures import share_above
from swapbias.models.auto import load_scorer
from swapbias.models.classifier import CallableScorer
from swapbias.report.paper_tables import tables_of_page
from swapbias.studies.catalogue import (
    as_prompts,
    config_rows,
    load_corpus,
    load_lexicon,
    load_study,
)
from swapbias.studies.paper import PaperRun
from swapbias.studies.tables import upstream_file
from tests import tiny
from tests.baselines import RuleScorer, hash_of
from tests.released import numbers_of
from tests.scoring import read_as, score_rows
from tests.tables import rows_of

MASKED = [*(f"template{number}" for number in range(1, 5)), "baseline"]


def masked_rows():
    return [row for name in MASKED for row in config_rows("social_distance", name)]


def test_counts_of_conditions(upstream):
    """There are 93 stigmatized and 29 other conditions in 138 renderings."""
    rows = config_rows("social_distance", "conditions")
    released = load_corpus("social_distance").released[0]
    labelled = list(
        released.rows({path: upstream_file("social_distance", path) for path in released.files})
    )
    for some in (rows, labelled, config_rows("social_distance", "original")):
        found = {
            group: {row["condition"] for row in some if row["group"] == group} for group in GROUPS
        }
        assert {group: len(names) for group, names in found.items()} == GROUPS
    assert not [row for row in labelled if row["text"].startswith("We ")]
    assert "unemployed" in {
        row["condition"] for row in rows
    }  # missing from the paper's printed list
    assert len({row["singular"] for row in rows}) == 138
    assert not [row for row in rows if " a undocumented" in row["singular"]]
    assert len(masked_rows()) == 3_892


GROUPS = {"stigmatized": 93, "other": 29}
RAN = "data/MLM results/roberta-base-Nonstigma--social_distance_results-top50-p{}.csv"


def test_original_prompts_and_lexicon(
    upstream,
):
    """The original prompts are those that were run, and at least 95 % of the top-50 mass in the
    released outputs has a label."""
    ran = [rows_of(upstream_file("social_distance", RAN.format(number))) for number in range(1, 5)]
    rows = config_rows("social_distance", "original")
    mine = {
        row["text"] for row in rows if row["template"] == "template1" and row["group"] == "other"
    }
    assert mine == {row["prompt"] for row in ran[0]}
    lexicon = load_lexicon("social_distance/attitude")
    assert len(lexicon.words) >= 500
    predictions = [
        (float(row["probs"]), row["predicted_word"].strip().lower()) for rows in ran for row in rows
    ]
    assert sum(p for p, word in predictions if word in lexicon.words) >= 0.95 * sum(
        p for p, _ in predictions
    )


def test_original_sentences_for_sentiment(upstream):
    """The original sentences are the 276 that were labelled, in their order, and 202 of them are ours."""
    released = [
        row["prompts"]
        for group in ("stigma", "nonstigma")
        for row in rows_of(upstream_file("social_distance", LABELLED.format(group)))
        if not row["prompts"].startswith("We ")
    ]
    rows = config_rows("social_distance", "sentiment_original")
    labelled = [row["text"] for row in rows if row["group"] != "baseline"]
    assert len(labelled) == 276
    assert sorted(labelled) == sorted(released)
    by_template = [text for text in released if text.startswith("They ")]
    assert labelled[:138] == by_template
    ours = {row["text"] for row in config_rows("social_distance", "sentiment")}
    assert len(ours & set(labelled)) == 202
    assert {row["text"] for row in rows} - set(labelled) == {
        "They are people.",
        "These are people.",
    }


LABELLED = "data/SentimentClassifier results/SiEBERT_{}_sentiment.csv"


@pytest.mark.parametrize(
    ("corpus", "config", "count"),
    [
        ("social_distance", "original", 3864),
        ("social_distance", "sentiment_original", 278),
        ("gendered_stigma", "rq1_original", 1122),
        ("gendered_stigma", "rq2_original", 1188),
        ("gendered_stigma", "words_original", 2084),
    ],
)
def test_original_wording_needs_no_network(corpus, config, count, tmp_path, monkeypatch):
    """The original wording of the authors' MIT tables is read without their files."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    assert len(config_rows(corpus, config)) == count


@pytest.fixture(scope="module")
def attitudes(tmp_path_factory):
    words = {
        *tiny.words(),
        *load_lexicon("social_distance/attitude").words,
        "unheard",
        "someone",
        "home",
    }
    with patch.object(tiny, "words", lambda: sorted(words)):
        return load_scorer(str(tiny.save("bert", tmp_path_factory.mktemp("bert"))))


def test_attitudes_equal_slow_definition(attitudes):
    """Scores of attitudes equal a slow sum over the 50 most probable words."""
    prompts = as_prompts(masked_rows()[::311])
    lexicon = load_lexicon("social_distance/attitude")
    for prompt, one in zip(prompts, read_as(attitudes, "attitude").score(prompts), strict=True):
        p = attitudes.batch_probabilities(attitudes.encode([prompt.text]))[0]
        top = p.topk(50)
        sums = dict.fromkeys(("positive", "negative", "neutral", "irrelevant", "unrated"), 0.0)
        for value, token in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            word = attitudes.tokenizer.decode([token]).strip().lower()
            sums[lexicon.words.get(word, "unrated")] += value
        rated = sums["positive"] + sums["negative"] + sums["neutral"]
        assert one.score == pytest.approx(sums["negative"] / rated, abs=1e-5)
        for label, mass in sums.items():
            assert one.parts[f"{label}_mass"] == pytest.approx(mass, abs=1e-5)
        assert one.parts["top_mass"] == pytest.approx(sum(sums.values()), abs=1e-5)
        assert len(json.loads(one.top_tokens)) == 50


def test_antonym_log_odds(attitudes):
    """Log-odds of antonyms are the mean over pairs and rise with disapproval."""
    p = torch.full((1, len(attitudes.words)), 1e-6)
    planted = attitudes._changed(batch_probabilities=lambda encoded: p.expand(len(encoded), -1))
    reader = read_as(planted, "attitude")
    prompts = as_prompts(masked_rows()[:1])
    known = {word: index for index, word in enumerate(attitudes.words)}
    pairs = [("likely", "unlikely"), ("safe", "unsafe"), ("good", "bad")]
    assert all(word in known for pair in pairs for word in pair)
    (even,) = reader.score(prompts)
    assert even.parts["antonym_log_odds"] == pytest.approx(0)
    count = len(reader._pairs["social_distance"])
    p[0, known["unlikely"]] = 1e-6 * math.e  # one pair of all gains 1: the mean gains 1 / count
    (uneven,) = reader.score(prompts)
    assert uneven.parts["antonym_log_odds"] == pytest.approx(1 / count, abs=1e-4)


def test_prompt_without_rated_word(tmp_path):
    """A prompt without a rated word scores NaN, and XLNet can be scored too."""
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path))), "attitude")
    labels, of_token = scorer.inner.labels_of_tokens("social_distance/attitude")
    of_token[:] = labels.index("unrated")
    one = scorer.score(as_prompts(config_rows("social_distance", "baseline")[:1]))[0]
    assert math.isnan(one.score)
    assert one.parts["unrated_mass"] == pytest.approx(one.parts["top_mass"])
    scorer = read_as(load_scorer(str(tiny.save("xlnet", tmp_path))), "attitude")
    scored = scorer.score(as_prompts(config_rows("social_distance", "baseline")[:3]))
    assert all(0 < one.parts["top_mass"] <= 1 for one in scored)


def test_renderings_are_averaged_first():
    """Renderings are averaged before conditions are compared: with one of the three renderings of
    one condition at 1 and all else at 0, the mean of 93 conditions is 1/279."""
    rows = scored(
        "social_distance",
        MASKED,
        lambda prompt: float("who is a lesbian" in prompt.text),
        kind="masked",
    )
    found = disaggregate(rows, "social_distance", robustness=False)
    gap, published = (one for one in found if one.measure == "group_gap" and one.slice_by == "all")
    assert [gap.estimate.value, published.estimate.value] == pytest.approx([1 / 279] * 2)
    assert (gap.estimate.n, published.estimate.n) == (3864, 122)
    assert gap.cluster_vars == "templates + acts + categories"


def test_share_above_half_is_strict():
    """Conditions are counted above one half, not at it."""

    def rule(prompt):
        return {"skinny": 0.5, "rich": 0.6, "homeless": 0.9}.get(prompt.condition, 0.1)

    found = disaggregate(
        scored("social_distance", MASKED, rule, kind="masked"), "social_distance", robustness=False
    )
    counts = {one.contrast: one.estimate.value for one in found if one.measure == "count_above"}
    assert counts == {"stigmatized > 0.5": 1.0, "other > 0.5": 1.0}
    baseline = [one for one in found if one.contrast == "baseline" and one.slice_by == "all"]
    assert baseline[0].estimate.value == pytest.approx(0.1)


def test_negative_labels_and_baselines():
    """Negative labels are shares, and the baseline stands beside them."""
    rows = config_rows("social_distance", "sentiment")

    def says(texts):
        return [0.1 if "homeless" in text else 0.9 for text in texts]

    scorer = read_as(CallableScorer(says, model_id="m"), "negative_label")
    found = disaggregate(pd.DataFrame(score_rows(rows, scorer)), "social_distance")
    gap = next(one for one in found if one.measure == "group_gap" and one.slice_by == "all")
    assert gap.estimate.value == pytest.approx(1 / 93)
    counts = {one.contrast: one.estimate.value for one in found if one.measure == "count_above"}
    assert counts["stigmatized = 1"] == 1
    assert next(one for one in found if one.contrast == "baseline").estimate.value == 0


def test_share_above_by_hand():
    """The share above one half and its interval have the values worked out by hand."""
    # 2 of 4 above .5 (.5 itself is not): Wilson with z = 1.96: centre .5, half width .35004.
    found = share_above([0.9, 0.6, 0.5, 0.1, math.nan])
    assert (found.value, found.n, found.n_unscored) == (0.5, 4, 1)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.15004, 0.84996), abs=1e-4)
    assert math.isnan(share_above([math.nan]).value)


def scored(study, configs, rule, model="planted", kind="classifier"):
    rows = [row for config in configs for row in config_rows(study, config)]
    return pd.DataFrame(score_rows(rows, RuleScorer(rule, model_id=model, kind=kind)))


def test_paired_models_beat_independent():
    """The paired comparison finds a constant difference of .01 between models whose disparities
    vary widely by template, and the independent one does not."""

    def rule(extra):
        def score(prompt):
            wide = (hash_of(prompt.template) % 50) / 100
            ripple = (hash_of(prompt.pair_id) % 10) / 10_000
            return 0.3 + (wide + extra + ripple * (extra > 0)) * (prompt.group == "female")

        return score

    rows = {
        name: scored("gendered_stigma", ["rq1"], rule(extra), name)
        for name, extra in (("b", 0.0), ("a", 0.01))
    }
    compared = compare({"gendered_stigma": rows})
    found = [one for one in compared if one.slice_by == "all" and one.subset == "mental_health"]
    paired, plain = found
    assert (paired.cluster_vars, plain.view) == ("templates + diagnoses", "as published")
    assert (
        plain.estimate.value
        == pytest.approx(paired.estimate.value)
        == pytest.approx(0.0105, abs=5e-4)
    )
    assert plain.estimate.p_value > 0.2
    assert paired.estimate.p_value == pytest.approx(2 / 2**11)  # all eleven diagnoses agree


def test_disapproval_and_negative_labels():
    """Disapproval and negative labels correlate over conditions and within groups, where r differs
    since one group is higher on both."""

    def hidden(prompt):
        return (hash_of(prompt.condition) % 100) / 200 + 0.4 * (prompt.group == "stigmatized")

    models = {
        "masked": scored("social_distance", MASKED, hidden, "masked"),
        "sentiment": scored("social_distance", ["sentiment"], hidden, "sentiment"),
    }
    assert len(condition_scores(load_study("social_distance"), models)) == 122
    found = {
        (one.subset, one.contrast[-9:-1]): one.estimate
        for one in compare({"social_distance": models})
    }
    for subset, n in (("", 122), ("stigmatized", 93), ("other", 29)):
        assert found[subset, "(pearson"].value == pytest.approx(1)
        assert found[subset, "(pearson"].n == n


def test_conditions_with_several_renderings(upstream):
    """The paper says seven conditions have several renderings, and its released table has eleven."""
    (count,) = [
        number for number in numbers_of("social_distance") if number.model == "six masked models"
    ]
    assert (count.published, count.recomputed, count.match) == ("7", 11.0, "explained")
    assert "seven" in count.note


def slow_counts(models, experiment):
    """Count by plain loops: per condition over acts, templates and renderings, then over models."""
    means = {}
    for rows in models:
        by_rendering = {}
        for row in rows.to_dict("records"):
            if row["experiment"] == experiment and row["group"] in GROUPS:
                key = (row["group"], row["condition"], row["rendering"])
                by_rendering.setdefault(key, []).append(row["score"])
        by_condition = {}
        for (group, condition, _), scores in by_rendering.items():
            by_condition.setdefault((group, condition), []).append(sum(scores) / len(scores))
        for key, scores in by_condition.items():
            means.setdefault(key, []).append(sum(scores) / len(scores))
    counts = {}
    for (group, _), of_models in means.items():
        mean = sum(of_models) / len(of_models)
        above, ones, total, n = counts.get(group, (0, 0, 0.0, 0))
        counts[group] = (above + (mean > 0.5), ones + (mean > 1 - 1e-9), total + mean, n + 1)
    return {group: (a, ones, total / n, n) for group, (a, ones, total, n) in counts.items()}


def test_counts_over_models_equal_slow_definition():
    """Counts over models equal plain loops, and their table stands beside 69, 3, 27 and 1."""

    def labels(salt):
        def rule(prompt):
            return float("cancer" in prompt.text or hash_of(prompt.text + salt) % 10 < 6)

        return rule

    study = load_study("social_distance")
    (sentiment,) = [one for one in study.experiments if one.name == "sentiment"]
    rows = [scored("social_distance", ["sentiment"], labels(name), name) for name in "abc"]
    counts = count_conditions(study, sentiment, dict(zip("abc", rows, strict=True)))
    assert list(counts) == ["stigmatized", "other"]
    for group, expected in slow_counts(rows, "sentiment").items():
        one = counts[group]
        assert (one.above_half, one.all_ones, one.n) == (expected[0], expected[1], expected[3])
        assert one.mean == pytest.approx(expected[2])
    assert counts["stigmatized"].all_ones >= 8  # four cancers, current and remitted

    runs = [
        PaperRun(title=name, label="run x", model_id=name, rows=table)
        for name, table in zip("abc", rows, strict=True)
    ]
    head, lines, _ = counts_over_models(runs)
    by_models = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    printed = by_models["four sentiment classifiers"]
    names = ("stigmatized > .5", "other > .5", "stigmatized, all negative", "other, all negative")
    assert [printed[name] for name in names] == ["69", "3", "27", "1"]
    assert by_models["six masked models"]["stigmatized > .5"] == "78"
    assert by_models["a, b, c"]["stigmatized > .5"] == str(counts["stigmatized"].above_half)
    assert by_models["a, b, c"]["r"] == "–"
    assert counts_over_models([]) == (head, [], ())


def test_r_stands_on_tables_of_both_kinds():
    """With a masked model and a classifier the table has r over all conditions and in each group, and
    the unrated mass."""

    def hidden(prompt):
        return (hash_of(prompt.condition) % 100) / 200 + 0.4 * (prompt.group == "stigmatized")

    masked = scored("social_distance", MASKED, hidden, "masked").assign(unrated_mass=0.25)
    labelled = scored("social_distance", ["sentiment"], hidden, "labels")
    runs = [
        PaperRun(title=name, label="this run", model_id=name, rows=table)
        for name, table in (("masked", masked), ("labels", labelled))
    ]
    head, lines, _ = counts_over_models(runs)
    by_models = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    both = by_models["masked, labels"]
    assert [both[name] for name in ("r", "r, stigmatized", "r, other")] == ["1.00"] * 3
    assert by_models["six masked models and four classifiers"]["r"] == "0.79"
    assert by_models["masked"]["unrated mass"] == "0.25"
    assert by_models["labels"]["unrated mass"] == "–"


def test_gaps_stand_beside_table_2():
    """A model's gap stands beside the six that Mei et al. print, and every table is declared."""

    def rule(prompt):
        return 0.75 if prompt.group == "stigmatized" else 0.5

    rows = scored("social_distance", MASKED, rule, "mini", kind="masked")
    found = disaggregate(rows, "social_distance", robustness=False)
    tables = {table.name: table for table in tables_of_page({}, found, {"social_distance": rows})}
    assert list(tables) == ["table_2", "counts_over_models"]
    gaps = {(line[0], line[1]): line[2] for line in tables["table_2"].lines}
    assert gaps["RoBERTa-large", "printed"] == "0.28"
    assert gaps["DistilBERT", "printed"] == "0.10"
    assert gaps["mini", "this run"] == "0.25"
