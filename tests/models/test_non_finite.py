"""A model that gives NaN never scores 0: its rows are NaN and counted, and an audit of mostly
NaN ends."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from swapbias.models import LoadOptions, Scored, kinds, load_scorer
from swapbias.models.bilstm import BiLstmConfig, BiLstmForSequenceClassification, word_tokenizer
from swapbias.models.chat import ChatOptions
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.classifier import CallableScorer, ProbabilityScorer
from swapbias.models.clinical.encoder_vectors import ContextualVectors
from swapbias.models.clinical.phenotype import PhenotypeScorer, load_phenotype_classifier
from swapbias.models.clinical.word_direction import DirectionScorer
from swapbias.models.training import LABELS
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.runs import Settings, resume, start
from swapbias.runs.run import with_scores
from swapbias.studies import Candidate, Prompt, as_prompts, config_rows
from tests import tiny
from tests.scoring import read_as

ROWS = config_rows("gendered_stigma", "rq1")[::40]
LIMIT = 9  # tokens that a model with weights as below reads in full
CPU = LoadOptions(device="cpu")
QUESTION = Prompt(
    text="The nurse met the doctor. Who is ill?",
    candidates=(Candidate("the doctor"), Candidate("the nurse")),
)


def break_weights(folder, weight="", *, start=0):
    """The model of a folder with NaN in all its weights, or in the rows of one from ``start`` on."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, one in weights.items():
        if weight in name and one.is_floating_point():
            one[start:] = math.nan
    save_file(weights, path, metadata={"format": "pt"})
    return folder


def is_lost(scored):
    """Tell whether every row is NaN throughout and marked, and shows neither answer nor
    probabilities."""
    for result in scored:
        assert math.isnan(result.score)
        assert all(math.isnan(value) for value in result.parts.values())
        assert (result.answer, result.top_tokens, result.finite) == ("", "[]", False)
    return bool(scored)


def bag_of_words():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model.fit(["good film", "bad film"] * 4, ["POSITIVE", "NEGATIVE"] * 4)
    model.steps[-1][1].coef_[:] = math.nan
    return ProbabilityScorer(model, model_id="m", options=LoadOptions())


def bilstm():
    config = BiLstmConfig(vocab_size=2, vector_size=2, id2label=dict(enumerate(LABELS)))
    model = BiLstmForSequenceClassification(config)
    with torch.no_grad():
        model.head.weight[:] = math.nan
    return TextClassifierScorer(model, word_tokenizer(["good"]), model_id="m", identity={})


SENTIMENT = ["negative", "positive"]
FOLDERS = {  # of each kind a model, saved; xlnet is another masked one
    "masked": lambda place: tiny.save("bert", place),
    "xlnet": lambda place: tiny.save("xlnet", place),
    "classifier": lambda place: tiny.save_classifier(place, SENTIMENT),
    "regression": lambda place: tiny.save_classifier(place, ["score"]),
    "causal": tiny.save_causal,
    "tagger": tiny.save_tagger,
    "retrieval": tiny.save_bi_encoder,
}
OTHERS = {"bag of words": bag_of_words, "bilstm": bilstm}
CORPORA = {"tagger": ("name_recognition", "control"), "retrieval": ("profile_search", "gender")}
KINDS = {one.name: one for one in kinds()}
READINGS = [
    (name, one) for name in FOLDERS for one in KINDS["masked" if name == "xlnet" else name].readings
]


@pytest.mark.parametrize(("name", "reading"), [*READINGS, *((name, "") for name in OTHERS)])
def test_nan_weights(name, reading, tmp_path):
    """Every reading of a model of NaN weights is NaN."""
    assert {*KINDS} == {*FOLDERS, "embedding", "chat"} - {
        "xlnet"
    }  # two that are read in tests of their own
    prompts = [QUESTION]
    done = []
    if name in OTHERS:
        scorer = OTHERS[name]()
        prompts = [Prompt(text="good film")]
    else:
        kind = KINDS["masked" if name == "xlnet" else name]
        scorer = load_scorer(str(break_weights(FOLDERS[name](tmp_path / name))), kind=kind.name)
        scorer = read_as(scorer, reading) if reading else scorer
        prompts = as_prompts(ROWS[:4]) if kind.name == "masked" else prompts
        if reading in ("antonyms", "attitude"):
            config = "template4" if kind.name == "causal" else "baseline"
            prompts = as_prompts(config_rows("social_distance", config)[:2])
        elif kind.name in CORPORA:
            prompts = as_prompts(config_rows(*CORPORA[kind.name])[:2])
    found = scorer.score(prompts, done.append)
    assert is_lost(found)
    assert sum(done) == pytest.approx(len(prompts))
    if name in OTHERS:
        (empty,) = scorer.score([Prompt(text=" ")])
        assert math.isnan(empty.score)
        assert empty.finite
    else:
        of_own_prompts = (
            {"log_odds"} if kind.name == "masked" else set()
        )  # beside the whole mass of words
        assert kind.readings[reading].units.keys() - of_own_prompts <= {"score", *found[0].parts}


@pytest.mark.parametrize(
    "returned",
    [
        [math.nan, 0.2],
        (None, 0.2),
        np.array([np.nan, 0.2], np.float16),
        torch.tensor([math.nan, 0.2]),
        [[0.5, np.nan], [0.8, 0.2]],
        torch.tensor([[math.nan, 0.5], [0.8, 0.2]]),
    ],
    ids=str,
)
def test_nan_of_a_callable(returned):
    """NaN of a function is lost in every shape that it may return, and zero is not."""
    nan, known = CallableScorer(lambda texts: returned, model_id="m:f").score([QUESTION] * 2)
    assert is_lost([nan])
    assert known.score == pytest.approx(0.2, abs=1e-3)
    (zero,) = CallableScorer(lambda texts: [0.0], model_id="m:f").score([QUESTION])
    assert (zero.score, zero.answer, zero.finite) == (0.0, "negative", True)


def test_nan_encoder(
    tmp_path,
):
    """An encoder of NaN weights teaches no phenotype and has no direction."""
    features = ContextualVectors.load(str(break_weights(tiny.save("bert", tmp_path))), CPU)
    assert np.isnan(features.vectors(["she is someone", "he is someone"])).all()
    notes = [
        {
            "subject_id": f"{label}{number}",
            "text": "she is someone",
            "gender": "male",
            "label": label,
        }
        for label in SENTIMENT
        for number in range(6)
    ]
    wanted = rf"label negative \({features.name} gave no finite vector for 12\), expected 3 or more"
    with pytest.raises(ValueError, match=wanted):
        PhenotypeScorer(features, training=lambda *_: notes).score([QUESTION])
    pairs = [{"pair": "p", "female": "she", "male": "he"}]
    tables = (pairs, [{"kind": "p", "female": "she is someone", "male": "he is someone"}])
    with pytest.raises(
        ValueError, match=f"{features.name} knows 0 of 1 definitional pairs by finite vectors"
    ):
        DirectionScorer(features, tables)
    classifier = str(break_weights(tiny.save_classifier(tmp_path / "classifier", SENTIMENT)))
    (one,) = load_phenotype_classifier(classifier, options=CPU).score([QUESTION])
    assert math.isnan(one.score)
    assert math.isnan(one.parts["predicted"])
    assert not one.finite


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "longformer"])
def test_batch_with_nan(family, tmp_path):
    """Texts in a batch with one that gives NaN are scored as before."""
    folder = tiny.save(family, tmp_path)
    well = load_scorer(str(folder)).score(as_prompts(ROWS))
    # The embeddings of late positions: only texts that reach them give NaN.
    scorer = load_scorer(str(break_weights(folder, "position_embeddings.weight", start=LIMIT)))
    first = LIMIT - (
        2 if family in ("roberta", "longformer") else 0
    )  # which count positions after the padding index
    long = [len(ids) > first for ids in scorer.encode([row["text"] for row in ROWS])]
    assert 0 < sum(long) < len(long)
    for one, before, is_long in zip(scorer.score(as_prompts(ROWS)), well, long, strict=True):
        assert is_lost([one]) if is_long else one.score == pytest.approx(before.score, abs=1e-5)
        assert one.finite is not is_long


def test_chat_question_with_nan(tmp_path):
    """A question that a local chat model answers with NaN is lost alone."""
    folder = tiny.save_causal(tmp_path / "m")
    options = ChatOptions(max_tokens=3, model="m")
    texts = ("she?", f"{'she ' * 20}?")
    first = (
        len(LocalChatScorer.load(str(folder), CPU, options)._encode(texts[0])) + options.max_tokens
    )
    scorer = LocalChatScorer.load(
        str(break_weights(folder, "wpe.weight", start=first)), CPU, options
    )
    assert len(scorer._encode(texts[1])) > first
    reader = scorer.with_reader(lambda prompt, text, *, cut: (1.0, {"correct": 1.0}))
    short, long = reader.score(
        [Prompt(prompt_id=f"{number}/t1", text=text) for number, text in enumerate(texts)]
    )
    assert is_lost([long])
    assert set(long.parts) == {"tokens", "truncated", "correct"}
    assert (short.finite, short.score) == (True, 1.0)


def test_nan_loses_its_row(tmp_path, monkeypatch):
    """A NaN loses its row alone, and a word that is ruled out has probability zero."""
    scorer = load_scorer(str(tiny.save("bert", tmp_path)))
    real = type(scorer).batch_probabilities

    def holed(self, encoded):
        found = real(self, encoded)
        found[0, 7] = math.nan
        return found

    with monkeypatch.context() as patched:
        patched.setattr(type(scorer), "batch_probabilities", holed)
        batches = list(scorer.mask_probabilities(list({row["text"] for row in ROWS})))
    assert all(found[0].isnan().all() and found[1:].isfinite().all() for _, found in batches)
    ruled_out = [token for token, word in enumerate(scorer.words) if word == "she"]
    with torch.no_grad():
        scorer.model.cls.predictions.bias[ruled_out] = -math.inf
    (_, found), *_ = scorer.mask_probabilities([ROWS[0]["text"]])
    assert found[0, ruled_out].tolist() == [0.0]
    assert all(one.finite and math.isfinite(one.score) for one in scorer.score(as_prompts(ROWS)))


def test_phrases_with_nan(tmp_path, monkeypatch):
    """Phrases are NaN where a later step is."""
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path))), "phrases")
    prompts = as_prompts(config_rows("gendered_stigma", "rq2")[:1])
    first_step = len(scorer.inner.encode([prompts[0].text])[0])
    real = type(scorer.inner).batch_probabilities

    def longer_is_nan(self, encoded):
        found = real(self, encoded)
        found[[len(ids) > first_step for ids in encoded]] = math.nan
        return found

    monkeypatch.setattr(type(scorer.inner), "batch_probabilities", longer_is_nan)
    assert is_lost(scorer.score(prompts))


@pytest.mark.parametrize(
    ("values", "score", "finite"),
    [
        ((-2.0, -3.0), 1.0, True),
        ((-2.0, -math.inf), 1.0, True),  # what is impossible is less likely
        ((-math.inf, -2.0), 0.0, True),
        ((-math.inf, -math.inf), math.nan, False),
        ((math.nan, -2.0), math.nan, False),
        ((-2.0, math.nan), math.nan, False),
    ],
    ids=[
        "finite",
        "impossible second",
        "impossible first",
        "both impossible",
        "NaN first",
        "NaN second",
    ],
)
def test_answer_against_unknown_probability(values, score, finite, tmp_path, monkeypatch):
    """An answer is likelier only than one whose probability is known."""
    scorer = read_as(load_scorer(str(tiny.save_causal(tmp_path / "m"))), "answers")
    monkeypatch.setattr(
        type(scorer.inner), "continuation_log_probs", lambda self, texts, on_progress: list(values)
    )
    one = scorer.score([QUESTION])[0]
    assert one.score == pytest.approx(score, nan_ok=True)
    assert one.finite is finite
    assert all(math.isfinite(value) is math.isfinite(sum(values)) for value in one.parts.values())


def test_impossible_and_long_texts(tmp_path, monkeypatch):
    """A text that is impossible, or too long, has no score."""
    scorer = load_scorer(str(tiny.save_causal(tmp_path / "m")))
    (long,) = scorer.score([replace(QUESTION, text="she " * 500)])
    assert math.isnan(long.score)
    assert long.finite  # it was never read

    def impossible(self, texts, on_progress=None):
        return [-math.inf] * len(texts)

    monkeypatch.setattr(type(scorer), "continuation_log_probs", impossible)
    assert is_lost(scorer.score([QUESTION]))
    assert is_lost(
        read_as(scorer, "antonyms").score(
            as_prompts(config_rows("social_distance", "template4")[:1])
        )
    )


def test_rows_mark_non_finite():
    """Rows mark which of them gave no finite number."""
    zero = Scored(0.0, parts={"a": 0.0})
    unread = Scored(math.nan, parts={"a": math.nan})
    nan = replace(unread, finite=False)
    infinite = Scored(math.inf, parts={"a": -math.inf})
    found = with_scores(ROWS[:4], [zero, unread, nan, infinite], "m")
    assert [row["non_finite"] for row in found] == [0.0, 0.0, 1.0, 1.0]
    assert (
        [str(row["score"]) for row in found]
        == [str(row["a"]) for row in found]
        == ["0.0", "nan", "nan", "nan"]
    )
    assert "non_finite" not in with_scores(ROWS[:2], [zero, unread], "m")[0]


def mostly_silent(texts):
    return [math.nan if number % 5 < 3 else 0.5 for number, _ in enumerate(texts)]


def test_audit_of_mostly_nan(tmp_path, quiet):
    """An audit of a model that gives NaN for most rows ends with a sentence and keeps its scores."""
    model = "tests.models.test_non_finite:mostly_silent"
    place = tmp_path / "run"
    with pytest.raises(
        ValueError, match=r"gave NaN or infinite numbers for \d+ of 40 prompts of control"
    ) as raised:
        start(Settings(model=model, studies=("occupation_sentiment:control",)), place, **quiet)
    assert f"what was scored is kept in {place}" in str(raised.value)
    assert (place / "items" / "occupation_sentiment.parquet").is_file()
    assert not (place / "findings.csv").exists()
    assert json.loads((place / "manifest.json").read_text())["status"] == "running"
    with pytest.raises(ValueError, match="gave NaN"):  # not passed over by going on
        resume(place, trust=True, **quiet)


def test_audit_of_some_nan(tmp_path, quiet):
    """A model with less than half of its rows lost goes on, and the lost rows are counted."""
    folder = tiny.save("bert", tmp_path / "model")
    settings = Settings(model=str(folder), studies=("gendered_stigma:rq1",), limit=300)
    encode = load_scorer(str(folder)).encode
    lengths = list(map(len, encode([row["text"] for row in config_rows("gendered_stigma", "rq1")])))
    break_weights(folder, "position_embeddings.weight", start=int(np.quantile(lengths, 0.5)))
    run, found = start(settings, tmp_path / "run", **quiet)
    rows = run.items("gendered_stigma")
    assert 0.3 < rows["non_finite"].mean() < 0.5
    assert (rows["score"].isna() == (rows["non_finite"] == 1)).all()
    means = [one.estimate for one in found if one.measure == "mean" and one.slice_by == "all"]
    assert sum(one.n_unscored for one in means if one.n_unscored) > 0
    gaps = [
        one
        for one in found
        if one.measure == "paired_gap" and one.score == "score" and one.slice_by == "all"
    ]
    pairs = rows[rows["group"].isin(["female", "male"])].groupby(["label", "pair_id"])["score"]
    unscored = pairs.agg(lambda scores: scores.isna().any())
    assert gaps
    for one in gaps:
        assert math.isfinite(one.estimate.value)
        assert one.estimate.n_unscored == unscored[one.subset].sum()
        assert one.estimate.n == (~unscored[one.subset]).sum()
