"""Sentiment systems of each kind: heads of transformers classifiers, callables, VADER."""

import json
import math

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import swapbias
from swapbias.errors import UsageError
from swapbias.measures.units import RAW_SCORE
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.classifier import CallableScorer, VaderScorer
from swapbias.models.clinical.phenotype import load_phenotype_classifier
from swapbias.studies import Prompt, as_prompts, config_rows
from tests import tiny
from tests.cli.test_cli import swapbias as command
from tests.scoring import read_as

PROMPTS = as_prompts(config_rows("occupation_sentiment", "sentences"))[::37]


@pytest.mark.parametrize(
    "labels",
    [["NEGATIVE", "POSITIVE"], ["neg", "neu", "pos"], ["positive", "negative"]],
    ids=["two", "three", "turned"],
)
def test_positive_label(labels, tmp_path):
    """A classifier gives the probability of its positive label."""
    folder = tiny.save_classifier(tmp_path, labels)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    column = next(index for index, name in enumerate(labels) if name.lower() in ("positive", "pos"))
    scored = load_scorer(str(folder)).score(PROMPTS)
    for prompt, one in zip(PROMPTS, scored, strict=True):
        with torch.no_grad():  # the slow definition: one sentence at a time
            p = torch.softmax(
                model(**tokenizer(prompt.text, return_tensors="pt")).logits[0], dim=-1
            )
        assert one.score == pytest.approx(float(p[column]), abs=1e-5)
        assert one.answer == labels[int(p.argmax())]


def test_labels_without_meaning(tmp_path):
    """Labels without meaning are refused until the user names one."""
    folder = tiny.save_classifier(tmp_path, ["LABEL_0", "LABEL_1"])
    with pytest.raises(UsageError, match=r"LABEL_0.*Pass positive_label"):
        load_scorer(str(folder))
    options = LoadOptions(positive_label="LABEL_1")
    assert load_scorer(str(folder), options=options).identity["positive_label"] == "LABEL_1"

    def labels_of(names, **options):
        folder = tiny.save_classifier(tmp_path, names)
        return read_as(load_scorer(str(folder), options=LoadOptions(**options)), "negative_label")

    for names, options, negative in (
        (["NEGATIVE", "POSITIVE"], {}, "NEGATIVE"),
        (["neg", "neu", "pos"], {}, "neg"),
        (["LABEL_0", "LABEL_1"], {"positive_label": "LABEL_1"}, "LABEL_0"),
        (
            ["LABEL_0", "LABEL_1", "LABEL_2"],
            {"positive_label": "LABEL_2", "negative_label": "LABEL_0"},
            "LABEL_0",
        ),
    ):
        scored = labels_of(names, **options).score(PROMPTS)
        assert [one.score for one in scored] == [float(one.answer == negative) for one in scored]
        assert {one.answer for one in scored} <= set(names)
    with pytest.raises(UsageError, match="-M negative-label"):
        labels_of(["LABEL_0", "LABEL_1", "LABEL_2"], positive_label="LABEL_2")
    with pytest.raises(UsageError, match="Correct negative_label"):
        labels_of(["NEGATIVE", "POSITIVE"], negative_label="bad")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda texts: [0.5], r"returned shape \(1,\), expected 22 probabilities"),
        (lambda texts: np.ones((len(texts), 3)), r"returned shape \(22, 3\)"),
        (lambda texts: ["good"] * len(texts), r"returned list, expected 22"),
        (lambda texts: [[[0.5, 0.5]]] * len(texts), r"returned shape \(22, 1, 2\)"),
        (lambda texts: [10**400] * len(texts), r"(returned|raised) "),
        (lambda texts: (0.5 for _ in texts), r"returned generator, expected 22"),
        (lambda texts: [1.5] * len(texts), r"numbers from 1.5 to 1.5, expected 0 to 1"),
        (lambda texts: [math.inf] * len(texts), r"numbers from inf to inf, expected 0 to 1"),
        (lambda texts: 1 / 0, r"raised ZeroDivisionError"),
    ],
    ids=[
        "too few",
        "three columns",
        "texts",
        "three axes",
        "overflow",
        "generator",
        "above 1",
        "infinite",
        "error",
    ],
)
def test_wrong_result_of_a_callable(function, sentence):
    """A wrong result of a function is refused with its shape or error."""
    with pytest.raises(ValueError, match=sentence):
        CallableScorer(function, model_id="m:f").score(PROMPTS)


def test_callable_in_current_folder(tmp_path, monkeypatch):
    """A function is found in the current folder, and a missing one is refused."""
    (tmp_path / "toy_sentiment.py").write_text(
        "def half(texts):\n    return [0.5] * len(texts)\nfact = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert load_scorer("toy_sentiment:half").score(PROMPTS[:1])[0].score == 0.5
    for name, sentence in (
        ("toy_sentiment:third", "no attribute 'third'"),
        ("toy_sentiment:fact", "is a int"),
        ("no_such:f", "No module"),
    ):
        with pytest.raises(UsageError, match=sentence):
            load_scorer(name)
    scorer = CallableScorer.load("math:sqrt")  # what is built in has no file
    assert "sha256" not in scorer.identity
    with pytest.raises(ValueError, match="math:sqrt raised TypeError"):
        scorer.score(PROMPTS)


def test_vader():
    """The score of VADER is moved to the range from 0 to 1."""
    texts = ("He is great.", "He is horrible.", "He is a clerk.")
    scored = VaderScorer().score([Prompt(text=text) for text in texts])
    assert scored[0].score > 0.5 > scored[1].score
    assert scored[2].score == 0.5  # no word of the sentence is in its lexicon: exactly neutral
    assert [one.answer for one in scored] == ["positive", "negative", "neutral"]


# Heads: read as ``transformers.pipeline`` reads them, and asked about where it would guess.

ONE_LABEL = ["LABEL_0"]
THREE_LABELS = ["negative", "neutral", "positive"]
MULTI = {"problem_type": "multi_label_classification"}
REGRESSION = {"problem_type": "regression"}
HEADS = [
    (["NEGATIVE", "POSITIVE"], {}, None, "POSITIVE"),
    (THREE_LABELS, MULTI, None, "positive"),
    (ONE_LABEL, MULTI, None, "LABEL_0"),
    (ONE_LABEL, {}, "classifier", "LABEL_0"),
    (ONE_LABEL, REGRESSION, None, "LABEL_0"),
    (THREE_LABELS, REGRESSION, None, "positive"),
]


def of_pipeline(made, label):
    """The score of a label in each prompt, one text at a time."""
    label_scores = [made(prompt.text, top_k=None) for prompt in PROMPTS]
    return [
        next(
            label_score["score"] for label_score in scores_of_text if label_score["label"] == label
        )
        for scores_of_text in label_scores
    ]


def scores(scorer):
    return [result.score for result in scorer.score(PROMPTS)]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(("labels", "settings", "kind", "label"), HEADS)
def test_head_equals_pipeline(labels, settings, kind, label, loaded, tmp_path):
    """A head has the score of its pipeline."""
    folder = str(tiny.save_classifier(tmp_path, labels, **settings))
    made = pipeline("text-classification", model=folder)
    scorer = load_scorer(made if loaded else folder, kind=kind)
    assert scores(scorer) == pytest.approx(of_pipeline(made, label), rel=1e-5, abs=1e-5)
    raw = settings == REGRESSION
    assert (scorer.kind, scorer.unit == RAW_SCORE.name) == (
        "regression" if raw else "classifier",
        raw,
    )


@pytest.mark.parametrize("function", ["sigmoid", "softmax", "none"])
def test_function_to_apply(function, tmp_path):
    """A pipeline is read with the function that it applies."""
    folder = str(tiny.save_classifier(tmp_path, ["NEGATIVE", "POSITIVE"]))
    made = pipeline("text-classification", model=folder, function_to_apply=function)
    scorer = load_scorer(made)
    assert scores(scorer) == pytest.approx(of_pipeline(made, "POSITIVE"), abs=1e-5)
    assert scorer.kind == ("regression" if function == "none" else "classifier")


def test_softmax_of_one_logit(tmp_path):
    """Softmax of one logit, and a raw score where a label is needed, are refused."""
    folder = str(tiny.save_classifier(tmp_path, ONE_LABEL))
    made = pipeline("text-classification", model=folder, function_to_apply="softmax")
    with pytest.raises(UsageError, match="applies softmax to one logit: 1 for every text"):
        swapbias.audit(made, "occupation_sentiment", progress=False)
    made = pipeline(
        "text-classification", model=str(tiny.save_classifier(tmp_path, ONE_LABEL, **REGRESSION))
    )
    with pytest.raises(UsageError, match=r"needs a label, and .* gives a raw score"):
        swapbias.audit(made, "social_distance", progress=False)


def test_one_logit(tmp_path):
    """One logit is the probability of its label or of the other one."""
    folder = str(tiny.save_classifier(tmp_path, ["toxic"]))
    with pytest.raises(UsageError, match=r"\['toxic', 'not toxic'\].*Pass -M positive-label"):
        read_as(load_scorer(folder, kind="classifier"), "")
    toxic, kind_ones = (
        load_scorer(folder, kind="classifier", options=LoadOptions(positive_label=name))
        for name in ("toxic", "not toxic")
    )
    assert scores(kind_ones) == pytest.approx([1 - one for one in scores(toxic)], abs=1e-6)
    assert toxic.negative_label == "not toxic"
    assert {one.answer for one in toxic.score(PROMPTS)} <= {"toxic", "not toxic"}


@pytest.mark.parametrize(
    ("settings", "kind", "sentence"),
    [
        ({}, None, r"model gives one number for a text.*regression.*classifier"),
        (REGRESSION, "classifier", r"is of kind \w+, not classifier"),
        (MULTI, "regression", "not regression"),
    ],
    ids=["ambiguous", "regression", "several labels"],
)
def test_ambiguous_head_and_wrong_kind(settings, kind, sentence, tmp_path):
    """A head that could be either kind, and a kind that it is not, are refused."""
    folder = str(tiny.save_classifier(tmp_path / "model", ONE_LABEL, **settings))
    for model in (folder, pipeline("text-classification", model=folder)):
        with pytest.raises(UsageError, match=sentence):
            swapbias.audit(model, "occupation_sentiment:control", kind=kind, progress=False)


def test_raw_score(tmp_path):
    """A raw score has a unit of its own and no margin, and is repeated from its manifest."""
    folder = str(tiny.save_classifier(tmp_path / "model", ONE_LABEL))
    run = swapbias.audit(
        folder,
        "occupation_sentiment:control",
        kind="regression",
        out=tmp_path / "run",
        progress=False,
    )
    found = run.findings.query("primary").iloc[0]
    items = run.items("occupation_sentiment")
    assert items["score"].nunique() > 2
    assert (items["score"].min() < 0) or (items["score"].max() > 1)  # no probability
    assert found["unit"] == RAW_SCORE.name
    assert all(math.isnan(one.margin) for one in run.found if one.primary)
    assert f" {RAW_SCORE.name}" in str(run)
    assert " points" not in str(run)
    with pytest.raises(UsageError, match="no gap in a unit with a range"):
        run.assert_below(0.05)
    probability = swapbias.audit(
        folder, "occupation_sentiment:control", kind="classifier", progress=False
    )
    with pytest.raises(UsageError, match="no experiment in common"):
        run.compare(probability)
    manifest = tmp_path / "run" / "manifest.json"
    assert json.loads(manifest.read_text())["settings"]["kind"] == "regression"
    done = command("audit", manifest, "--out", tmp_path / "again", "--no-cache")
    assert done.returncode == 0, done.stderr
    again = swapbias.Audit.open(tmp_path / "again")
    assert again.items("occupation_sentiment")["score"].tolist() == pytest.approx(
        items["score"].tolist(), abs=1e-5, nan_ok=True
    )
    assert run.compare(tmp_path / "again")["unit"].unique().tolist() == [RAW_SCORE.name]


def test_phenotype_needs_probability(tmp_path):
    """A phenotype needs a probability."""
    for name, settings in (("one", {}), ("raw", REGRESSION)):
        tiny.save_classifier(tmp_path / name, ONE_LABEL, **settings)
    scores = load_phenotype_classifier(str(tmp_path / "one"), options=LoadOptions()).score(PROMPTS)
    made = pipeline("text-classification", model=str(tmp_path / "one"))
    assert [one.score for one in scores] == pytest.approx(of_pipeline(made, "LABEL_0"), abs=1e-5)
    for name in (str(tmp_path / "raw"), "vader"):
        with pytest.raises(
            UsageError, match=r"(raw|vader) gives a raw score, expected a probability"
        ):
            load_phenotype_classifier(name, options=LoadOptions())


@pytest.mark.parametrize("loaded", [False, True])
def test_no_padding_token(loaded, tmp_path):
    """A classifier without a padding token can be scored."""
    folder = str(
        tiny.save_unmarked(tmp_path, head="GPT2ForSequenceClassification", eos_token="</s>")
    )
    made = pipeline("text-classification", model=folder)
    assert made.model.config.pad_token_id is None
    options = LoadOptions(positive_label="LABEL_1")
    scorer = load_scorer(made if loaded else folder, options=options)
    assert scores(scorer) == pytest.approx(of_pipeline(made, "LABEL_1"), abs=1e-5)


@pytest.mark.parametrize("family", ["Data2VecText", "XLMRobertaXL", "RobertaPreLayerNorm"])
def test_positions_of_a_family(family, tmp_path):
    """Texts as long as the positions of a family are scored and longer ones are not: RoBERTa and
    its kin lose the positions up to the padding token."""
    tokenizer = tiny._byte_level(tmp_path)
    tokenizer.model_max_length = 10_000
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer),
        max_position_embeddings=66,
        pad_token_id=1,
        num_labels=2,
        **tiny.SIZES,
    )
    getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    scorer = load_scorer(str(tmp_path), options=LoadOptions(positive_label="LABEL_1"))
    cut = [" clerk" * 80]
    while len(tokenizer(cut[-1])["input_ids"]) > 62:
        cut.append(cut[-1][:-1])
    texts = {len(tokenizer(text)["input_ids"]): text for text in cut}
    found = scorer.score([Prompt(text=texts[count]) for count in (63, 64, 65)])
    assert [math.isnan(one.score) for one in found] == [False, False, True]


@pytest.mark.parametrize("number", [1e300, -1e101])
def test_numbers_too_large_for_intervals(number):
    """Numbers whose squares are infinite are refused; an infinite one has no score."""
    few = CallableScorer(lambda texts: [number, math.nan], model_id="f").reading_in(RAW_SCORE)
    with pytest.raises(ValueError, match=r"^f returned numbers up to 1e\+\d+, .* by a constant\.$"):
        few.score([Prompt(text="a"), Prompt(text="b")])
    one = CallableScorer(lambda texts: [math.inf, 1e99], model_id="f").reading_in(RAW_SCORE)
    scores = [result.score for result in one.score([Prompt(text="a"), Prompt(text="b")])]
    assert scores == pytest.approx([math.nan, 1e99], nan_ok=True)
