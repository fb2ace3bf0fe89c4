"""Heads of text classifiers: read as ``transformers.pipeline`` reads them, and asked about where it would guess."""

import json
import math

import pytest
import transformers
from transformers import pipeline
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.models.base import RAW, LoadOptions
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.studies.catalogue import as_prompts, config_rows
from tests import tiny

PROMPTS = as_prompts(config_rows("occupation_sentiment", "sentences"))[::97]
ONE, THREE = ["LABEL_0"], ["negative", "neutral", "positive"]
MULTI, REGRESSION = {"problem_type": "multi_label_classification"}, {"problem_type": "regression"}
HEADS = [
    (["NEGATIVE", "POSITIVE"], {}, None, "POSITIVE"), (THREE, MULTI, None, "positive"),
    (ONE, MULTI, None, "LABEL_0"), (ONE, {}, "classifier", "LABEL_0"), (ONE, REGRESSION, None, "LABEL_0"),
    (THREE, REGRESSION, None, "positive"),
]  # fmt: skip


def of_pipeline(made, label):
    """The score of a label in each prompt, one text at a time."""
    told = [made(prompt.text, top_k=None) for prompt in PROMPTS]
    return [next(one["score"] for one in each if one["label"] == label) for each in told]


def scores(scorer):
    return [one.score for one in scorer.score(PROMPTS)]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(("labels", "settings", "kind", "label"), HEADS)
def test_a_head_says_what_its_pipeline_says(labels, settings, kind, label, loaded, tmp_path):
    folder = str(tiny.save_classifier(tmp_path, labels, **settings))
    made = pipeline("text-classification", model=folder)
    scorer = swapbias.load_scorer(made if loaded else folder, kind=kind)
    assert scores(scorer) == pytest.approx(of_pipeline(made, label), rel=1e-5, abs=1e-5)
    raw = settings == REGRESSION
    assert (scorer.kind, scorer.unit == RAW) == ("regression" if raw else "classifier", raw)


@pytest.mark.parametrize("function", ["sigmoid", "softmax", "none"])
def test_a_pipeline_that_says_what_it_applies_is_read_so(function, tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ["NEGATIVE", "POSITIVE"]))
    made = pipeline("text-classification", model=folder, function_to_apply=function)
    scorer = swapbias.load_scorer(made)
    assert scores(scorer) == pytest.approx(of_pipeline(made, "POSITIVE"), abs=1e-5)
    assert scorer.kind == ("regression" if function == "none" else "classifier")


def test_softmax_of_one_logit_and_a_raw_score_where_a_label_is_needed_are_refused(tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ONE))
    made = pipeline("text-classification", model=folder, function_to_apply="softmax")
    with pytest.raises(UsageError, match="applies softmax to one logit: 1 for every text"):
        swapbias.audit(made, "occupation_sentiment", progress=False)
    made = pipeline("text-classification", model=str(tiny.save_classifier(tmp_path, ONE, **REGRESSION)))
    with pytest.raises(UsageError, match=r"needs a label, and .* gives a raw score"):
        swapbias.audit(made, "social_distance", progress=False)


def test_one_logit_is_the_probability_of_its_label_or_of_the_other(tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ["toxic"]))
    with pytest.raises(UsageError, match=r"\['toxic', 'not toxic'\].*Pass positive_label"):
        swapbias.load_scorer(folder, kind="classifier")
    toxic, kind_ones = (
        swapbias.load_scorer(folder, kind="classifier", options=LoadOptions(positive_label=name))
        for name in ("toxic", "not toxic")
    )
    assert scores(kind_ones) == pytest.approx([1 - one for one in scores(toxic)], abs=1e-6)
    assert toxic.negative_label == "not toxic"
    assert {one.answer for one in toxic.score(PROMPTS)} <= {"toxic", "not toxic"}


def test_a_head_that_could_be_either_is_asked_about_before_anything_is_scored(tmp_path):
    (tmp_path / "model").mkdir()
    folder = str(tiny.save_classifier(tmp_path / "model", ONE))
    asks = r"model gives one number for a text.*regression.*classifier"
    for model in (folder, pipeline("text-classification", model=folder)):
        with pytest.raises(UsageError, match=asks):
            swapbias.audit(model, "occupation_sentiment:control", progress=False)


@pytest.mark.parametrize(("settings", "kind"), [(REGRESSION, "classifier"), (MULTI, "regression")])
def test_a_kind_that_contradicts_the_config_is_refused(settings, kind, tmp_path):
    folder = str(tiny.save_classifier(tmp_path, ONE, **settings))
    with pytest.raises(UsageError, match=rf"By its config .* is of kind \w+, not {kind}"):
        swapbias.load_scorer(folder, kind=kind)
    with pytest.raises(UsageError, match=rf"is of kind \w+, not {kind}"):
        swapbias.load_scorer(pipeline("text-classification", model=folder), kind=kind)


def test_a_raw_score_has_its_own_unit_and_no_margin_and_is_repeated_from_its_manifest(tmp_path):
    (tmp_path / "model").mkdir()
    folder = str(tiny.save_classifier(tmp_path / "model", ONE))
    run = swapbias.audit(
        folder, "occupation_sentiment:control", kind="regression", out=tmp_path / "run", progress=False
    )
    found = run.primary.iloc[0]
    items = run.items("occupation_sentiment")
    assert items["score"].nunique() > 2
    assert (items["score"].min() < 0) or (items["score"].max() > 1)  # no probability
    assert found["unit"] == RAW
    assert all(math.isnan(one.margin) for one in run.found if one.primary)
    assert f" {RAW}" in str(run)
    assert " points" not in str(run)
    with pytest.raises(UsageError, match="no gap in a unit with a range"):
        run.assert_below(0.05)
    manifest = tmp_path / "run" / "manifest.json"
    assert json.loads(manifest.read_text())["settings"]["kind"] == "regression"
    done = CliRunner().invoke(app, ["audit", str(manifest), "--out", str(tmp_path / "again"), "--no-cache"])
    assert done.exit_code == 0, done.output
    again = swapbias.Audit.open(tmp_path / "again")
    assert again.items("occupation_sentiment")["score"].tolist() == pytest.approx(items["score"].tolist(), abs=1e-5)
    assert run.compare(tmp_path / "again")["unit"].unique().tolist() == [RAW]


def test_a_raw_score_and_a_probability_are_not_compared(tmp_path):
    (tmp_path / "model").mkdir()
    folder = str(tiny.save_classifier(tmp_path / "model", ONE))
    raw, probability = (
        swapbias.audit(folder, "occupation_sentiment:control", kind=kind, progress=False)
        for kind in ("regression", "classifier")
    )
    with pytest.raises(UsageError, match="no experiment in common"):
        raw.compare(probability)


def test_a_phenotype_needs_a_probability(tmp_path):
    for name, settings in (("one", {}), ("raw", REGRESSION)):
        (tmp_path / name).mkdir()
        tiny.save_classifier(tmp_path / name, ONE, **settings)
    told = load_phenotype_classifier(str(tmp_path / "one"), options=LoadOptions()).score(PROMPTS)
    made = pipeline("text-classification", model=str(tmp_path / "one"))
    assert [one.score for one in told] == pytest.approx(of_pipeline(made, "LABEL_0"), abs=1e-5)
    with pytest.raises(UsageError, match="raw gives a raw score, expected a probability"):
        load_phenotype_classifier(str(tmp_path / "raw"), options=LoadOptions())


@pytest.mark.parametrize("loaded", [False, True])
def test_a_classifier_without_a_padding_token_is_read(loaded, tmp_path):
    folder = str(tiny.save_unmarked(tmp_path, head="GPT2ForSequenceClassification", eos_token="</s>"))
    made = pipeline("text-classification", model=folder)
    assert made.model.config.pad_token_id is None
    options = LoadOptions(positive_label="LABEL_1")
    scorer = swapbias.load_scorer(made if loaded else folder, options=options)
    assert scores(scorer) == pytest.approx(of_pipeline(made, "LABEL_1"), abs=1e-5)


@pytest.mark.parametrize("family", ["Data2VecText", "XLMRobertaXL", "RobertaPreLayerNorm"])
def test_texts_as_long_as_the_positions_of_a_family_are_scored_and_longer_ones_are_not(family, tmp_path):
    """RoBERTa and its kin lose the positions up to the padding token: of 66 here 64 are left."""
    tokenizer = tiny._byte_level(tmp_path)
    tokenizer.model_max_length = 10_000
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), max_position_embeddings=66, pad_token_id=1, num_labels=2, **tiny.SIZES
    )
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    scorer = swapbias.load_scorer(str(tmp_path), options=LoadOptions(positive_label="LABEL_1"))
    row = PROMPTS[0].row()
    known, found = [], []
    for count in (63, 64, 65):
        text = " clerk" * 80
        while len(tokenizer(text)["input_ids"]) > count:
            text = text[:-1]
        found.append(scorer.score(as_prompts([{**row, "text": text}]))[0].score)
        known.append(len(tokenizer(text)["input_ids"]))
    assert known == [63, 64, 65]
    assert [math.isnan(one) for one in found] == [False, False, True]
