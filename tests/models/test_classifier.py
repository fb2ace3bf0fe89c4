"""Sentiment systems of each kind: transformers classifiers, callables, VADER."""

import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.models.auto import load_scorer
from swapbias.models.base import LoadOptions
from swapbias.models.classifier import CallableScorer, VaderScorer
from swapbias.studies.catalogue import as_prompts, config_rows
from tests import tiny
from tests.scoring import read_as

PROMPTS = as_prompts(config_rows("occupation_sentiment", "sentences"))[::37]


@pytest.mark.parametrize("labels", [["NEGATIVE", "POSITIVE"], ["neg", "neu", "pos"], ["positive", "negative"]])
def test_a_classifier_gives_the_probability_of_its_positive_label(labels, tmp_path):
    folder = tiny.save_classifier(tmp_path, labels)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    column = next(index for index, name in enumerate(labels) if name.lower() in ("positive", "pos"))
    scored = load_scorer(str(folder)).score(PROMPTS)
    for prompt, one in zip(PROMPTS, scored, strict=True):
        with torch.no_grad():  # the slow definition: one sentence at a time
            p = torch.softmax(model(**tokenizer(prompt.text, return_tensors="pt")).logits[0], dim=-1)
        assert one.score == pytest.approx(float(p[column]), abs=1e-5)
        assert one.answer == labels[int(p.argmax())]


@pytest.mark.parametrize("name", ["math:sqrt", "builtins:len"])
def test_a_function_that_is_built_in_has_no_file_and_is_called_all_the_same(name):
    scorer = CallableScorer.load(name)
    assert "sha256" not in scorer.identity
    with pytest.raises(ValueError, match=rf"{name} (raised TypeError|returned shape \(\))"):
        scorer.score(PROMPTS)


def test_labels_without_meaning_are_asked_about_once(tmp_path):
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
        (["LABEL_0", "LABEL_1", "LABEL_2"], {"positive_label": "LABEL_2", "negative_label": "LABEL_0"}, "LABEL_0"),
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
)
def test_a_callable_that_returns_something_else_is_told_so(function, sentence):
    with pytest.raises(ValueError, match=sentence):
        CallableScorer(function, model_id="m:f").score(PROMPTS)


def test_a_callable_is_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "toy_sentiment.py").write_text("def half(texts):\n    return [0.5] * len(texts)\nfact = 3\n")
    monkeypatch.chdir(tmp_path)
    assert load_scorer("toy_sentiment:half").score(PROMPTS[:1])[0].score == 0.5
    for name, sentence in (
        ("toy_sentiment:third", "no attribute 'third'"),
        ("toy_sentiment:fact", "is a int"),
        ("no_such:f", "No module"),
    ):
        with pytest.raises(UsageError, match=sentence):
            load_scorer(name)


def test_vader_is_moved_to_zero_and_one():
    row = PROMPTS[0].row()
    good, bad, plain = (
        as_prompts([{**row, "text": text}])[0] for text in ("He is great.", "He is horrible.", "He is a clerk.")
    )
    scored = VaderScorer().score([good, bad, plain])
    assert scored[0].score > 0.5 > scored[1].score
    assert scored[2].score == 0.5  # no word of the sentence is in its lexicon: exactly neutral
    assert [one.answer for one in scored] == ["positive", "negative", "neutral"]
