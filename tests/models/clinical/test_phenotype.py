"""Phenotype classifiers on planted data, classifiers of users, and LIME on one note."""

import math
import random
import sys

import numpy as np
import pytest

from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.clinical.phenotype import (
    PhenotypeScorer,
    explain_pair,
    load_phenotype_classifier,
    train,
)
from swapbias.studies import Prompt
from tests import tiny

OPTIONS = LoadOptions(device="cpu", batch_size=4)
VECTORS = {"hopeless": (2.0, 0.0), "cheerful": (-2.0, 0.0), "she": (0.0, 1.0), "he": (0.0, -1.0)}
VECTORS["endless"] = (math.inf, 0.0)
NOISE = [f"noise{letter}" for letter in "abcdefghij"]


class Summed:
    """Features with known numbers: the sum of the vectors of a note's words."""

    name = "toy"
    identity = {"kind": "toy", "dimension": 2}  # noqa: RUF012

    def __init__(self, scale=(1.0, 1.0)):
        self.table = {word: np.array(vector) * scale for word, vector in VECTORS.items()}
        for place, word in enumerate(NOISE):
            self.table[word] = np.array([0.1 * place, 0.3 - 0.05 * place]) * scale

    def fit(self, texts):
        return self

    def vectors(self, texts, on_progress=None):
        rows = [[self.table[word] for word in text.split() if word in self.table] for text in texts]
        return np.array(
            [np.sum(row, axis=0) if row else np.full(2, np.nan) for row in rows]
        ).reshape(-1, 2)


def notes(count=24, seed=0):
    """Half of them hopeless and positive; gender independent of the label."""
    draw = random.Random(seed)
    return [
        {
            "note_id": str(index),
            "subject_id": str(index),
            "gender": gender,
            "label": label,
            "text": " ".join([who, feels, *draw.sample(NOISE, 3)]),
        }
        for index in range(count)
        for gender, who in [("female", "she") if index % 4 < 2 else ("male", "he")]
        for label, feels in [("positive", "hopeless") if index % 2 else ("negative", "cheerful")]
    ]


def prompts(texts, construct="original"):
    return [Prompt(text=text, condition="depression", construct=construct) for text in texts]


def scorer(classifier="svm", training=lambda phenotype, regime: notes(), features=None, **settings):
    return PhenotypeScorer(
        features or Summed(), classifier=classifier, training=training, **settings
    )


TEST = [row["text"] for row in notes(12, seed=5)]
TRUTH = [row["label"] for row in notes(12, seed=5)]


@pytest.mark.parametrize("classifier", ["svm", "rf", "mlp"])
def test_separating_words_are_learned(
    classifier,
):
    """Words that separate the classes are learned, and order and batches change no score."""
    reader = scorer(classifier)
    scored = reader.score(prompts(TEST))
    assert [one.answer for one in scored] == TRUTH
    for one in scored:
        assert (one.score > 0.5) == (one.answer == "positive") == (one.parts["predicted"] == 1.0)
        assert 0 <= one.score <= 1
    again = scorer(classifier)
    parts = [again.score(prompts([text]))[0] for text in TEST[::-1]]
    assert [one.score for one in parts[::-1]] == pytest.approx(
        [one.score for one in scored], abs=1e-12
    )
    if classifier == "mlp":
        network = reader._trained["depression", "original"][1][-1]
        assert network.n_iter_ < network.max_iter  # it converges


def test_svm_and_forest():
    """A support vector machine scores by the logistic function, a target may be gender, and a seed
    fixes the forest."""
    reader = scorer()
    one = reader.score(prompts(TEST[:1]))[0]
    features, model = reader._trained["depression", "original"]
    value = model.decision_function(features.vectors(TEST[:1]))[0]
    assert one.score == pytest.approx(1 / (1 + math.exp(-value)))
    reader = scorer(
        target="gender", training=lambda phenotype, regime: [*notes(), {**notes()[0], "gender": ""}]
    )
    scored = reader.score(prompts(TEST))
    expected = [row["gender"] for row in notes(12, seed=5)]
    assert [one.answer for one in scored] == expected
    assert [one.parts["predicted"] for one in scored] == [
        float(name == "female") for name in expected
    ]
    assert reader.identity["target"] == "gender"
    assert scorer("rf", target="gender").unit == "probability of female"
    same, again, other = (
        scorer("rf", seed=seed).score(prompts(["hopeless cheerful"])) for seed in (0, 0, 1)
    )
    assert same == again
    assert same != other


@pytest.mark.parametrize("classifier", ["svm", "mlp"])
def test_scaled_features(classifier):
    """Features are scaled on the training notes."""
    # A feature measured in another unit is worth as much; without scaling the second one would drown the first.
    plain, stretched = (scorer(classifier, features=Summed(scale)) for scale in ((1, 1), (1, 1e4)))
    expected = [one.score for one in plain.score(prompts(TEST))]
    assert [one.score for one in stretched.score(prompts(TEST))] == pytest.approx(
        expected, abs=1e-6
    )
    # Extreme notes beside them in the test set move nothing.
    crowd = plain.score(prompts([*TEST, "hopeless " * 1000]))
    assert [one.score for one in crowd[:-1]] == pytest.approx(expected, abs=1e-12)


def test_note_without_known_words():
    """A note without known words is left out and has no score."""
    blank = {
        "note_id": "x",
        "subject_id": "x",
        "gender": "male",
        "label": "positive",
        "text": "unheard",
    }
    calls = []
    scored = scorer(training=lambda phenotype, regime: [*notes(), blank]).score(
        prompts(["unheard", TEST[0]]), calls.append
    )
    assert math.isnan(scored[0].score)
    assert scored[0].answer == ""
    assert math.isnan(scored[0].parts["predicted"])
    assert scored[1] == scorer().score(prompts(TEST[:1]))[0]
    assert sum(calls) == 2
    assert all(math.isnan(one.score) for one in scorer().score(prompts(["unheard", "endless"])))


def test_classifier_of_each_regime():
    """Each phenotype and regime has a classifier that is trained once."""
    calls = []

    def training(phenotype, regime):
        calls.append((phenotype, regime))
        turned = {"positive": "negative", "negative": "positive"}
        return (
            notes()
            if regime == "original"
            else [{**row, "label": turned[row["label"]]} for row in notes()]
        )

    reader = scorer(training=training)
    mixed = [
        one
        for pair in zip(prompts(TEST), prompts(TEST, construct="turned"), strict=True)
        for one in pair
    ]
    for _ in range(2):
        scored = reader.score(mixed)
        assert [one.answer for one in scored[::2]] == TRUTH
        assert all(
            one.answer != other.answer for one, other in zip(scored[::2], scored[1::2], strict=True)
        )
    assert calls == [("depression", "original"), ("depression", "turned")]
    assert set(reader._trained) == set(calls)


def test_grid_search():
    """The grid search chooses the kernel that the data need and splits by subject."""
    # Exclusive or: no line separates it, a radial kernel does.
    draw = np.random.default_rng(0)
    vectors = draw.choice([-1.0, 1.0], size=(60, 2)) + draw.normal(0, 0.1, (60, 2))
    truth = (vectors[:, 0] * vectors[:, 1] > 0).astype(int)
    ids = np.arange(60).astype(str)
    model = train(vectors, truth, ids, kind="svm", seed=0)
    assert model.best_params_["svc__kernel"] == "rbf"
    assert model.best_params_["svc__C"] in (0.01, 0.1, 1, 10, 100)
    assert model.best_score_ == 1
    assert (model.predict(vectors) == truth).all()
    # Labels are noise, and every note stands twice: folds that part the twins would look nearly perfect.
    draw = np.random.default_rng(0)
    vectors = np.repeat(draw.normal(size=(100, 8)), 2, axis=0)
    truth = np.repeat(draw.permutation([0, 1] * 50), 2)
    apart = train(vectors, truth, np.arange(200).astype(str), kind="svm", seed=0).best_score_
    together = train(
        vectors, truth, np.repeat(np.arange(100), 2).astype(str), kind="svm", seed=0
    ).best_score_
    assert apart > 0.8
    assert together < 0.6


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [row for row in notes() if row["label"] == "positive"],
            "depression, original: 0 readable .*label negative",
        ),
        (notes()[:5], "2 readable training notes with label positive, expected 3 or more"),
        (
            [{**notes()[0], "label": "maybe"}, *notes()],
            "1 other label, expected negative or positive",
        ),
        ([], "0 readable training notes"),
    ],
    ids=["one class", "too few", "other label", "none"],
)
def test_useless_training_notes(rows, sentence):
    """Training notes that teach nothing are refused with the reason."""
    with pytest.raises(ValueError, match=sentence):
        scorer(training=lambda phenotype, regime: rows).score(prompts(TEST))


def test_missing_scikit_learn(monkeypatch):
    """Without scikit-learn no classifier is trained."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UsageError, match=r"needs scikit-learn.*swapbias\[clinical\]"):
        scorer()


TEXTS = ["hopeless today", "cheerful today", "hopeless and tired", "cheerful and rested"]


def regression(labels):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, labels)


@pytest.mark.parametrize(
    "labels",
    [[1, 0] * 2, ["positive", "negative"] * 2, [True, False] * 2],
    ids=["numbers", "words", "booleans"],
)
def test_saved_classifier(labels, tmp_path):
    """A saved classifier is read with its classes."""
    skops = pytest.importorskip("skops.io", reason="needs skops: pip install 'swapbias[clinical]'")
    skops.dump(regression(labels), tmp_path / "mine.skops")
    found = load_phenotype_classifier(str(tmp_path / "mine.skops"), options=OPTIONS)
    scored = found.score(prompts(["hopeless", "cheerful"]))
    assert [one.answer for one in scored] == ["positive", "negative"]
    assert (found.model_id, found.kind, found.unit) == (
        "mine",
        "phenotype",
        "probability of the phenotype",
    )
    assert scored[0].score == pytest.approx(regression(labels).predict_proba(["hopeless"])[0].max())
    named = load_scorer(str(tmp_path / "mine.skops"))
    assert (named.model_id, named.score(prompts(["hopeless"]))[0].score) == (
        "mine",
        scored[0].score,
    )


def test_no_classifier(tmp_path):
    """A file that holds no classifier is refused."""
    skops = pytest.importorskip("skops.io", reason="needs skops: pip install 'swapbias[clinical]'")
    skops.dump({"a": 1}, tmp_path / "dict.skops")
    skops.dump(regression(["sick", "well"] * 2), tmp_path / "named.skops")
    skops.dump(Summed(), tmp_path / "own.skops")
    (tmp_path / "junk.skops").write_bytes(b"junk")
    for name, sentence in (
        ("dict.skops", "dict has no classes_"),
        ("named.skops", r"labels are \['sick', 'well'\]: none is positive"),
        ("own.skops", r"own\.skops contains types that skops does not trust: .*Summed"),
        ("junk.skops", r"junk\.skops cannot be read"),
        ("none.skops", r"none\.skops does not exist"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_phenotype_classifier(str(tmp_path / name), options=OPTIONS)


def test_long_note_for_transformers(tmp_path):
    """A note too long for a transformers model is cut at a word and counted."""
    # The model reads 64 tokens, two of them its own: 62 words of one token each.
    folder = tiny.save_classifier(tmp_path, ["negative", "positive"])
    found = load_phenotype_classifier(str(folder), options=OPTIONS)
    words = ("she is someone with depression " * 20).split()
    long, exact = found.score(prompts([" ".join(words), " ".join(words[:62])]))
    assert long.score == pytest.approx(exact.score, abs=1e-6)
    assert (long.parts["truncated"], exact.parts["truncated"]) == (1.0, 0.0)
    assert long.answer == ("positive" if long.score > 0.5 else "negative")
    stuck = found.score(prompts(["." * 200]))[0]  # one word of 200 tokens cannot be cut
    assert math.isnan(stuck.score)
    assert stuck.answer == ""


def word_rule(texts):
    """P(positive) is .2, .6 more with "hopeless" and .1 more with "she"; nothing can be said of an empty text."""
    rows = [
        0.2 + 0.6 * ("hopeless" in text) + 0.1 * ("she" in text) if text.strip() else math.nan
        for text in texts
    ]
    return np.column_stack([1 - np.array(rows), rows])


def test_lime_finds_words():
    """LIME finds the words that speak for the phenotype, the same for one seed."""
    texts = {"original": "she feels hopeless and tired", "swapped": "he feels hopeless and tired"}
    explanation = explain_pair(word_rule, texts, samples=500)
    assert [word for word, _ in explanation["original"]][:2] == ["hopeless", "she"]
    weights = {version: dict(words) for version, words in explanation.items()}
    assert weights["original"]["hopeless"] == pytest.approx(0.6, abs=0.05)
    assert weights["original"]["she"] == pytest.approx(0.1, abs=0.05)
    assert abs(weights["swapped"]["he"]) < 0.05
    assert explanation == explain_pair(word_rule, texts, samples=500)
    assert explanation != explain_pair(word_rule, texts, samples=500, seed=1)


def test_explanation_without_probability(monkeypatch):
    """A version without a probability, and missing LIME, are refused."""
    with pytest.raises(ValueError, match=r"'swapped'.*has no probability"):
        explain_pair(word_rule, {"original": "she", "swapped": " "})
    monkeypatch.setitem(sys.modules, "lime", None)
    with pytest.raises(UsageError, match=r"needs lime.*swapbias\[explain\]"):
        explain_pair(word_rule, {"original": "she"})
