"""Graded labels are refused until the user names those of a side, whose probabilities are
summed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from transformers import pipeline

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.labels import binary, find_sides
from swapbias.studies import Prompt
from tests import tiny
from tests.cli.test_cli import refused, swapbias as command
from tests.scoring import read_as

FIVE = ["Very Negative", "Negative", "Neutral", "Positive", "Very Positive"]
STAR_LABELS = ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]
BOTH_BAD = ("Very Negative", "Negative")
SPANISH = ["muy negativo", "negativo", "neutro", "positivo", "muy positivo"]
AGREE = ["strongly disagree", "disagree", "neither", "agree", "strongly agree"]
PROMPTS = [Prompt(text=text) for text in ("she is someone", "he is someone", "they will")]


@pytest.mark.parametrize(
    "labels",
    [
        FIVE,
        STAR_LABELS,
        SPANISH,
        AGREE,
        ["positive", "very positive"],
        ["Extremely Negative", "negative", "positive"],
        ["negative", "mixed", "positive"],
        ["positive", "pos", "negative"],
        ["NEG", "POS", "POS+"],
        ["LABEL_0", "LABEL_1", "LABEL_2"],
        ["joy", "anger", "fear"],
        ["positive", "other"],
        ["toxic", "hateful"],
        ["toxic", "positive", "other"],
    ],
    ids=str,
)
def test_ambiguous_labels(labels, tmp_path):
    """Labels of which several could be of one side are refused."""
    with pytest.raises(
        UsageError, match="Pass -M positive-label with each label that means positive"
    ):
        find_sides(labels)
    with pytest.raises(UsageError, match=r"labels are \[.*Pass positive_label"):
        load_scorer(str(tiny.save_classifier(tmp_path / "m", labels)))


@pytest.mark.parametrize(
    ("labels", "positive", "negative"),
    [
        (["NEGATIVE", "POSITIVE"], "POSITIVE", "NEGATIVE"),
        (["neg", "neu", "pos"], "pos", "neg"),
        (["Positive", "Neutral", "Negative"], "Positive", "Negative"),
        (["neutral", "positive"], "positive", None),
    ],
    ids=["two", "three", "capitals", "no negative"],
)
def test_plain_labels(labels, positive, negative):
    """Plain labels are read as they are."""
    sides = find_sides(labels)
    assert (sides.positive_label, sides.negative_label) == (positive, negative)


@pytest.mark.parametrize(
    ("labels", "named", "positive", "negative"),
    [
        (FIVE, {"positive": "Very Positive,Positive"}, ("Positive", "Very Positive"), None),
        (
            FIVE,
            {"positive": ["positive"], "negative": "very negative, NEGATIVE"},
            "Positive",
            BOTH_BAD,
        ),
        (FIVE, {"negative": "Very Negative,Negative"}, None, BOTH_BAD),
        (FIVE[:4], {"negative": "Very Negative,Negative"}, "Positive", BOTH_BAD),
        (STAR_LABELS, {"positive": "4 stars,5 stars"}, ("4 stars", "5 stars"), None),
        (["LABEL_0", "LABEL_1"], {"positive": "label_1"}, "LABEL_1", "LABEL_0"),
        (["LABEL_0", "LABEL_1"], {"negative": "LABEL_1"}, "LABEL_0", "LABEL_1"),
        (["bad, very", "good, very"], {"positive": "good, very"}, "good, very", "bad, very"),
        (["neg", "neu", "pos", "mixed"], {"positive": "pos"}, "pos", None),
    ],
    ids=[
        "several positive",
        "positive and several negative",
        "several negative",
        "four grades",
        "stars",
        "positive number",
        "negative number",
        "commas",
        "one of four",
    ],
)
def test_named_sides(labels, named, positive, negative):
    """The labels that a user names make the sides."""
    sides = find_sides(labels, **named)
    assert (sides.positive_label, sides.negative_label) == (positive, negative)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"positive": "Very Positve"}, r"Did you mean Very Positive\? Correct -M positive-label"),
        ({"negative": ["bad"]}, "none is 'bad'. Correct -M negative-label"),
        (
            {"positive": "Positive", "negative": "Positive"},
            "'Positive' is named by positive_label and negative",
        ),
    ],
    ids=["misspelt", "unknown", "both sides"],
)
def test_unknown_label(named, sentence):
    """A name that is no label is one sentence."""
    with pytest.raises(UsageError, match=sentence):
        find_sides(FIVE, **named)


def test_side_of_several_labels_by_hand():
    """A side of several labels counts as one: .15 + .2 and .25 + .1 lie behind neutral .3 one by
    one and before it together."""
    sides = find_sides(FIVE, "Positive,Very Positive", "Negative,Very Negative")
    scored = sides.scored(np.array([0.1, 0.26, 0.3, 0.14, 0.2]))
    assert scored.score == pytest.approx(0.34)
    assert scored.answer == "Negative"  # .36 with Very Negative
    assert json.loads(scored.top_tokens)[0] == ["Neutral", 0.3]
    assert (
        find_sides(FIVE, "Positive").scored(np.array([0.1, 0.26, 0.3, 0.14, 0.2])).answer
        == "Neutral"
    )


def test_graded_model_is_summed(tmp_path):
    """A graded model is summed as its pipeline gives it."""
    folder = str(tiny.save_classifier(tmp_path, FIVE))
    made = pipeline("text-classification", model=folder)
    rows = [
        {one["label"]: one["score"] for one in made(prompt.text, top_k=None)} for prompt in PROMPTS
    ]
    expected = [row["Positive"] + row["Very Positive"] for row in rows]
    for named in (
        "Very Positive,Positive",
        ["Positive", "Very Positive"],
        ("very positive", "POSITIVE"),
    ):
        scorer = load_scorer(folder, options=LoadOptions(positive_label=named))
        assert [one.score for one in scorer.score(PROMPTS)] == pytest.approx(expected, abs=1e-5)
        assert scorer.identity["positive_label"] == ("Positive", "Very Positive")
        with pytest.raises(UsageError, match=r"No label of .* means negative for sure"):
            read_as(scorer, "negative_label")
    options = LoadOptions(negative_label="Very Negative,Negative")
    scorer = load_scorer(folder, options=options)
    with pytest.raises(UsageError, match="Pass -M positive-label"):
        read_as(scorer, "")
    for one, row in zip(read_as(scorer, "negative_label").score(PROMPTS), rows, strict=True):
        negative = row["Negative"] + row["Very Negative"]
        assert one.score == float(
            negative > max(row["Neutral"], row["Positive"], row["Very Positive"])
        )
        assert math.isnan(one.parts["positive_probability"])


def test_numbers_without_sum(tmp_path):
    """Labels with numbers of their own have no sum."""
    for problem in ("multi_label_classification", "regression"):
        folder = str(tiny.save_classifier(tmp_path / problem, FIVE, problem_type=problem))
        with pytest.raises(
            UsageError, match=r"a number of its own, and such numbers have no sum\. Name one label"
        ):
            load_scorer(folder, options=LoadOptions(positive_label=["Positive", "Very Positive"]))


def test_graded_scikit_learn_pipeline():
    """A scikit-learn pipeline with grades needs names for its sides and is summed."""
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="needs scikit-learn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(text.TfidfVectorizer(), LogisticRegression())
    model.fit(
        [f"{word} film" for word in ("worst", "bad", "fine", "good", "best")] * 3,
        [1, 2, 3, 4, 5] * 3,
    )
    with pytest.raises(UsageError, match=r"\['1', '2', '3', '4', '5'\]: none is positive or pos"):
        load_scorer(model)
    scorer = load_scorer(model, options=LoadOptions(positive_label="4,5"))
    expected = model.predict_proba(["good film"])[0, 3:].sum()
    assert scorer.score([Prompt(text="good film")])[0].score == pytest.approx(expected)


def test_one_output():
    """One output can be named by its label or by "not" and its label."""
    assert binary("LABEL_0").positive == binary("Positive").positive == (0,)
    assert binary("toxic", "not toxic").positive == (1,)
    assert binary("toxic", None, "toxic").positive == (1,)
    assert binary("toxic").negative == (0,)
    with pytest.raises(UsageError, match="none is positive"):
        binary("offensive")


def test_graded_audit_is_repeated(tmp_path):
    """An audit of a graded model is repeated from its manifest."""
    folder = tiny.save_classifier(tmp_path / "model", FIVE)
    study = "occupation_sentiment:control"
    refused(
        command("audit", folder, "--study", study, "--out", tmp_path / "none"),
        2,
        "Pass -M positive-label",
    )
    named = "Positive,Very Positive"
    done = command(
        "audit",
        folder,
        "--study",
        study,
        "-M",
        f"positive-label={named}",
        "--out",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr
    again = command("audit", tmp_path / "run" / "manifest.json", "--out", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    how = {"positive_label": named.split(","), "out": tmp_path / "p", "progress": False}
    in_python, resumed = (swapbias.audit(str(folder), study, **how) for _ in range(2))
    runs = (
        swapbias.Audit.open(tmp_path / "run"),
        swapbias.Audit.open(tmp_path / "again"),
        in_python,
        resumed,
    )
    assert len({tuple(run.primary["value"]) for run in runs}) == 1


def test_help_names_several_labels():
    """The help texts say that several labels may be named."""
    helps = {setting.name: setting.help for setting in LoadOptions.settings()}
    assert all(
        "several with commas" in helps[name] for name in ("positive_label", "negative_label")
    )


@pytest.mark.parametrize(
    ("labels", "hateful"),
    [
        (["nothate", "hate"], "hate"),
        (["NON_HATE", "HATE"], "HATE"),
        (["neutral", "toxic"], "toxic"),
        (["Hate-Speech", "offensive", "neither"], "Hate-Speech"),
        (["toxic", "severe_toxic", "insult"], "toxic"),
    ],
    ids=str,
)
def test_detectors_of_hate(labels, hateful, tmp_path):
    """The one label of hate is negative without a name, and none means positive sentiment."""
    sides = find_sides(labels)
    assert (sides.positive_label, sides.negative_label) == (None, hateful)
    scorer = load_scorer(str(tiny.save_classifier(tmp_path / "m", labels)))
    read_as(scorer, "negative_label")
    with pytest.raises(UsageError, match="Pass -M positive-label"):
        read_as(scorer, "")


TOXIC = ["toxic", "insult", "threat"]


@pytest.mark.parametrize(
    ("probabilities", "answer"),
    [
        ([0.02, 0.01, 0.001], "not toxic"),
        ([0.6, 0.9, 0.1], "toxic"),
        ([0.5, 0.1, 0.1], "toxic"),
        ([0.4, 0.7, 0.1], "insult"),
    ],
    ids=["harmless", "both", "just", "another"],
)
def test_independent_labels_by_hand(probabilities, answer):
    """Of labels with a probability of their own the negative one counts from .5, the likeliest or not."""
    sides = replace(find_sides(TOXIC, negative="toxic"), are_independent=True)
    assert sides.scored(np.array(probabilities)).answer == answer


@pytest.mark.parametrize("as_pipeline", [False, True])
def test_independent_head(as_pipeline, tmp_path):
    """A head of several labels calls a text negative by that label's probability alone."""
    folder = tiny.save_classifier(tmp_path, TOXIC, problem_type="multi_label_classification")
    made = pipeline("text-classification", model=str(folder))
    options = LoadOptions(negative_label="insult")
    scorer = load_scorer(made if as_pipeline else str(folder), options=options)
    scored = read_as(scorer, "negative_label").score(PROMPTS)
    rows = [
        {one["label"]: one["score"] for one in made(prompt.text, top_k=None)} for prompt in PROMPTS
    ]
    assert [one.score for one in scored] == [float(row["insult"] >= 0.5) for row in rows]
