"""A model that gives NaN is never scored 0: its rows are NaN and counted, and an audit ends where most are so."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from swapbias.models.auto import kinds, load_scorer
from swapbias.models.base import LoadOptions, Scored
from swapbias.models.chat.chat_options import ChatOptions
from swapbias.models.chat.local import LocalChatScorer
from swapbias.models.classifier import CallableScorer, ProbabilityScorer
from swapbias.models.clinical.features import ContextualVectors
from swapbias.models.clinical.phenotype import PhenotypeScorer, load_phenotype_classifier
from swapbias.models.clinical.word_direction import DirectionScorer
from swapbias.models.engine.encoder import Engine
from swapbias.models.sentiment import LABELS, BiLstmConfig, BiLstmForSequenceClassification, word_tokenizer
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.runs.audit import resume, start
from swapbias.runs.cache import ScoreCache
from swapbias.runs.plan import Settings
from swapbias.studies.catalogue import as_prompts, config_rows
from swapbias.studies.study import Candidate, Prompt
from tests import tiny
from tests.models.engine import encoders
from tests.scoring import read_as, score_rows

ROWS = config_rows("gendered_stigma", "rq1")[::40]
LIMIT = 9  # tokens that a model with weights as below reads in full
SENTENCE = "gave NaN or infinite numbers for {} of {} prompts of {}, expected finite ones"
MODEL = "tests.models.test_non_finite:sentiment"


def broken(folder, weight="", *, start=0):
    """The model of a folder with NaN in all its weights, or in the rows of one from ``start`` on."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for name, one in weights.items():
        if weight in name and one.is_floating_point():
            one[start:] = math.nan
    save_file(weights, path, metadata={"format": "pt"})
    return folder


def blank(**columns):
    return Prompt(**columns)


def lost(scored):
    """Whether every row is NaN throughout and marked, and shows neither answer nor probabilities."""
    for one in scored:
        assert math.isnan(one.score)
        assert all(math.isnan(value) for value in one.parts.values())
        assert (one.answer, one.top_tokens, one.finite) == ("", "[]", False)
    return bool(scored)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_texts_that_are_read_together_with_one_that_gives_nan_are_scored_as_ever(family, tmp_path):
    folder = tiny.save(family, tmp_path)
    well = load_scorer(str(folder)).score(as_prompts(ROWS))
    # The embeddings of late positions: only texts that reach them give NaN.
    scorer = load_scorer(str(broken(folder, "position_embeddings.weight", start=LIMIT)))
    first = LIMIT - (2 if family == "roberta" else 0)  # which counts positions after the padding index
    long = [len(ids) > first for ids in scorer.encode([row["text"] for row in ROWS])]
    assert 0 < sum(long) < len(long)
    for one, before, is_long in zip(scorer.score(as_prompts(ROWS)), well, long, strict=True):
        assert lost([one]) if is_long else one.score == pytest.approx(before.score, abs=1e-5)
        assert one.finite is not is_long


def test_a_nan_loses_its_row_alone_and_a_word_that_is_ruled_out_has_probability_zero(tmp_path, monkeypatch):
    scorer = load_scorer(str(tiny.save("bert", tmp_path)))
    real = scorer.probabilities

    def holed(encoded):
        found = real(encoded)
        found[0, 7] = math.nan
        return found

    monkeypatch.setattr(scorer, "probabilities", holed)
    batches = list(scorer.read(list({row["text"] for row in ROWS})))
    assert all(found[0].isnan().all() and found[1:].isfinite().all() for _, found in batches)
    folder = tiny.save("bert", tmp_path)
    scorer = load_scorer(str(folder))
    ruled_out = [token for token, word in enumerate(scorer.words) if word == "she"]
    with torch.no_grad():
        scorer.model.cls.predictions.bias[ruled_out] = -math.inf
    (_, found), *_ = scorer.read([ROWS[0]["text"]])
    assert found[0, ruled_out].tolist() == [0.0]
    assert all(one.finite and math.isfinite(one.score) for one in scorer.score(as_prompts(ROWS)))


def test_phrases_are_nan_where_a_later_step_is(tmp_path, monkeypatch):
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path))), "phrases")
    rows = config_rows("gendered_stigma", "rq2")
    prompts = as_prompts([row for row in rows if row["text"] == rows[0]["text"]])
    first_step = len(scorer.inner.encode([rows[0]["text"]])[0])
    real = scorer.inner.probabilities

    def longer_is_nan(encoded):
        found = real(encoded)
        found[[len(ids) > first_step for ids in encoded]] = math.nan
        return found

    monkeypatch.setattr(scorer.inner, "probabilities", longer_is_nan)
    assert lost(scorer.score(prompts))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "longformer"])
def test_nan_stays_within_its_text_in_every_way_the_engine_reads(family):
    model = encoders.made(family)
    encoded = encoders.ids()
    want = Engine(model).hidden_states([encoded[0]])
    with torch.no_grad():
        model.get_input_embeddings().weight[5] = math.nan
    encoded = [[token for token in ids if token != 5] or [6, 7, 8] for ids in encoded]
    encoded[1] = [5, *encoded[1]]
    engine = Engine(model)
    for batch in engine.batches([len(ids) for ids in encoded]):
        together = [encoded[at] for at in batch]
        states = engine.hidden_states(together).split([len(ids) for ids in together])
        assert [bool(own.isfinite().all()) for own in states] == [at != 1 for at in batch]
        if 0 in batch:
            assert torch.allclose(states[batch.index(0)], want, atol=1e-4)


QUESTION = blank(
    text="The doctor met the nurse. Who is ill?", candidates=(Candidate("the doctor"), Candidate("the nurse"))
)


@pytest.mark.parametrize(
    ("values", "score", "finite"),
    [
        ((-2.0, -3.0), 1.0, True),
        ((-3.0, -2.0), 0.0, True),
        ((-2.0, -math.inf), 1.0, True),  # what is impossible is less likely
        ((-math.inf, -2.0), 0.0, True),
        ((-math.inf, -math.inf), math.nan, False),
        ((math.nan, -2.0), math.nan, False),
        ((-2.0, math.nan), math.nan, False),
    ],
)
def test_an_answer_is_likelier_only_than_one_whose_probability_is_known(values, score, finite, tmp_path, monkeypatch):
    scorer = read_as(load_scorer(str(tiny.save_causal(tmp_path / "m"))), "answers")
    monkeypatch.setattr(scorer.inner, "ends", lambda texts, on_progress: list(values))
    one = scorer.score([QUESTION])[0]
    assert one.score == pytest.approx(score, nan_ok=True)
    assert one.finite is finite
    assert all(math.isfinite(value) is math.isfinite(sum(values)) for value in one.parts.values())


def test_a_text_that_is_impossible_has_no_score_that_could_be_averaged(tmp_path, monkeypatch):
    scorer = load_scorer(str(tiny.save_causal(tmp_path / "m")))
    monkeypatch.setattr(scorer, "log_probabilities", lambda texts, on_progress, pairs: [-math.inf] * len(texts))
    assert lost(scorer.score([QUESTION]))
    assert lost(read_as(scorer, "antonyms").score(as_prompts(config_rows("social_distance", "template4")[:1])))
    scorer = load_scorer(str(broken(tiny.save_causal(tmp_path / "m"))))
    long = scorer.score([replace(QUESTION, text="she " * 500)])[0]
    assert math.isnan(long.score)
    assert long.finite  # it was never asked


def sentiment(texts):
    return [0.5] * len(texts)


@pytest.mark.parametrize("kind", ["bow", "bilstm"])
def test_a_sentiment_model_of_nan_weights_scores_nothing(kind):
    if kind == "bow":
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(TfidfVectorizer(), LogisticRegression())
        model.fit(["good film", "bad film"] * 4, ["POSITIVE", "NEGATIVE"] * 4)
        model.steps[-1][1].coef_[:] = math.nan
        scorer = ProbabilityScorer(model, model_id="m", options=LoadOptions())
    else:
        config = BiLstmConfig(vocab_size=2, vector_size=2, id2label=dict(enumerate(LABELS)))
        model = BiLstmForSequenceClassification(config)
        with torch.no_grad():
            model.head.weight[:] = math.nan
        scorer = TextClassifierScorer(model, word_tokenizer(["good"]), model_id="m", identity={})
    film, empty = scorer.score([blank(text="good film"), blank(text=" ")])
    assert lost([film])
    assert math.isnan(empty.score)
    assert empty.finite


def training(phenotype, regime):
    return [
        {"subject_id": f"{label}{number}", "text": "she is someone", "gender": "male", "label": label}
        for label in ("positive", "negative")
        for number in range(6)
    ]


def test_an_encoder_of_nan_weights_teaches_no_phenotype_and_has_no_direction(tmp_path):
    folder = broken(tiny.save("bert", tmp_path))
    features = ContextualVectors.load(str(folder), LoadOptions(device="cpu"))
    assert np.isnan(features.vectors(["she is someone", "he is someone"])).all()
    wanted = rf"label negative \({features.name} gave no finite vector for 12\), expected 3 or more"
    with pytest.raises(ValueError, match=wanted):
        PhenotypeScorer(features, training=training).score([blank(text="ill 1")])
    pairs = [{"pair": "p", "female": "she", "male": "he"}]
    tables = (pairs, [{"kind": "p", "female": "she is someone", "male": "he is someone"}])
    with pytest.raises(ValueError, match=f"{features.name} knows 0 of 1 definitional pairs by finite vectors"):
        DirectionScorer(features, tables)


class Fixed:
    """A scorer of a model that is known to the byte, with scores that a test sets."""

    kind, unit, model_id = "masked", "probability", "fixed"
    identity = {"architecture": "X", "device": "cpu", "dtype": "float32", "sha256": "a" * 64}  # noqa: RUF012

    def __init__(self, scores):
        self.scores, self.asked = scores, 0

    def score(self, prompts, on_progress=None):
        self.asked += 1
        return self.scores


def test_rows_say_which_of_them_gave_no_finite_number():
    zero, unread = Scored(0.0, parts={"a": 0.0}), Scored(math.nan, parts={"a": math.nan})
    nan, infinite = Scored(math.nan, parts={"a": math.nan}, finite=False), Scored(math.inf, parts={"a": -math.inf})
    found = score_rows(ROWS[:4], Fixed([zero, unread, nan, infinite]))
    assert [row["non_finite"] for row in found] == [0.0, 0.0, 1.0, 1.0]
    assert [str(row["score"]) for row in found] == [str(row["a"]) for row in found] == ["0.0", "nan", "nan", "nan"]
    assert "non_finite" not in score_rows(ROWS[:2], Fixed([zero, unread]))[0]


def test_the_cache_keeps_nothing_of_a_chunk_that_gave_nan(tmp_path, monkeypatch):
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path))
    monkeypatch.delenv("SWAPBIAS_CACHE_LIMIT", raising=False)
    well, unread = Scored(0.0), Scored(math.nan)
    for scores, asked in (([well, replace(unread, finite=False)], 2), ([well, unread], 1)):
        scorer = Fixed(scores)
        cache, prompts = ScoreCache(LoadOptions(), tmp_path / str(asked), shared=False), as_prompts(ROWS[:2])
        place = cache.place(prompts, scorer, private=False)
        for _ in range(2):
            found = cache.read(place, 2)
            if found is None:
                found = scorer.score(prompts)
                cache.write(place, found)
        assert scorer.asked == asked
        assert [one.score for one in found] == pytest.approx([0.0, math.nan], nan_ok=True)


def test_an_audit_of_a_model_of_nan_weights_ends_with_a_sentence_and_keeps_its_rows(tmp_path, quiet):
    folder = broken(tiny.save("bert", tmp_path / "model"))
    settings = Settings(model=str(folder), studies=("gendered_stigma:rq1",), limit=60)
    place = tmp_path / "run"
    with pytest.raises(ValueError, match=SENTENCE.format(60, 60, "rq1")) as told:
        start(settings, place, cache=True, **quiet)
    assert f"what was scored is kept in {place}" in str(told.value)
    assert (place / "items" / "gendered_stigma.parquet").is_file()
    assert not (place / "findings.csv").exists()
    assert json.loads((place / "manifest.json").read_text())["status"] == "running"
    with pytest.raises(ValueError, match=SENTENCE.format(60, 60, "rq1")):  # not passed over by going on
        resume(place, cache=True, **quiet)


def test_a_model_with_a_few_rows_of_nan_goes_on_and_counts_them(tmp_path, quiet):
    folder = tiny.save("bert", tmp_path / "model")
    settings = Settings(model=str(folder), studies=("gendered_stigma:rq1",), limit=300)
    encode = load_scorer(str(folder)).encode
    lengths = list(map(len, encode([row["text"] for row in config_rows("gendered_stigma", "rq1")])))
    broken(folder, "position_embeddings.weight", start=int(np.quantile(lengths, 0.8)))
    run, found = start(settings, tmp_path / "run", **quiet)
    rows = run.items("gendered_stigma")
    assert 0 < rows["non_finite"].sum() < len(rows) / 2
    assert (rows["score"].isna() == (rows["non_finite"] == 1)).all()
    means = [one.estimate for one in found if one.measure == "mean" and one.slice_by == "all"]
    assert sum(one.n_unscored for one in means if one.n_unscored) > 0
    gaps = [one for one in found if one.measure == "paired_gap" and one.score == "score" and one.slice_by == "all"]
    assert all(math.isfinite(one.estimate.value) for one in gaps)
    scored = (
        rows[rows["group"].isin(["female", "male"])]
        .groupby(["label", "pair_id"])["score"]
        .agg(lambda x: x.isna().any())
    )
    for one in gaps:
        assert one.estimate.n_unscored == scored[one.subset].sum()
        assert one.estimate.n == (~scored[one.subset]).sum()


@pytest.mark.parametrize(("silent", "stops"), [(0.4, False), (0.6, True)])
def test_a_callable_may_be_silent_on_less_than_half(silent, stops, tmp_path, quiet, monkeypatch):
    count = iter(range(10_000))
    monkeypatch.setattr(
        "tests.models.test_non_finite.sentiment",
        lambda texts: [math.nan if next(count) % 10 < 10 * silent else 0.5 for _ in texts],
    )
    settings = Settings(model=MODEL, studies=("occupation_sentiment",), limit=100)
    if stops:
        with pytest.raises(ValueError, match=r"gave NaN or infinite numbers for \d+ of \d+ prompts"):
            start(settings, tmp_path / "run", **quiet)
    else:
        run, found = start(settings, tmp_path / "run", **quiet)
        assert run.manifest()["status"] == "complete"
        assert max(one.estimate.n_unscored for one in found) > 0


@pytest.mark.parametrize("every", [True, False])
def test_a_local_chat_model_of_nan_weights_answers_nothing(every, tmp_path):
    folder = tiny.save_causal(tmp_path / "m")
    texts = {"a": "she?", "b": f"{'she ' * 20}?"}
    options = ChatOptions(max_tokens=3, model=str(folder))
    before = LocalChatScorer.load(str(folder), LoadOptions(device="cpu"), options)
    first = len(before._encode(texts["a"])) + options.max_tokens
    assert len(before._encode(texts["b"])) > first
    # Of all weights, or of late positions: there the answer to the longer question alone is lost.
    broken(folder, "" if every else "wpe.weight", start=0 if every else first)
    scorer = LocalChatScorer.load(str(folder), LoadOptions(device="cpu"), options)
    scorer.read = lambda prompt, text: (1.0, {"correct": 1.0})
    short, long = scorer.score([blank(prompt_id=f"{name}/t1", text=text) for name, text in texts.items()])
    assert lost([short, long] if every else [long])
    assert set(long.parts) == {"tokens", "truncated", "correct"}
    assert every or (short.finite and short.score == 1.0)


# Readings of models that no folder of weights stands for, and the test above that gives them NaN.
ELSEWHERE = {
    "embedding": test_an_encoder_of_nan_weights_teaches_no_phenotype_and_has_no_direction,
    "chat": test_a_local_chat_model_of_nan_weights_answers_nothing,  # which is read after the answer
}
FOLDERS = {
    "masked": lambda place: tiny.save("bert", place), "xlnet": lambda place: tiny.save("xlnet", place),
    "classifier": lambda place: tiny.save_classifier(place, ["negative", "positive"]),
    "regression": lambda place: tiny.save_classifier(place, ["score"]), "causal": tiny.save_causal,
}  # fmt: skip


def test_every_kind_has_a_case_of_nan():
    assert {one.name for one in kinds()} == {*FOLDERS, *ELSEWHERE} - {"xlnet"}


@pytest.mark.parametrize("name", FOLDERS)
def test_every_reading_of_a_model_of_nan_weights_is_nan(name, tmp_path):
    kind = "masked" if name == "xlnet" else name
    rows = as_prompts(ROWS[:4]) if kind == "masked" else [QUESTION]
    antonyms = as_prompts(config_rows("social_distance", "template4" if kind == "causal" else "baseline")[:2])
    scorer, done = load_scorer(str(broken(FOLDERS[name](tmp_path / name))), kind=kind), []
    for reading in {one.name: one for one in kinds()}[kind].readings:
        prompts, done = antonyms if reading in ("antonyms", "attitude") else rows, []
        found = (read_as(scorer, reading) if reading else scorer).score(prompts, done.append)
        assert lost(found), reading
        assert sum(done) == pytest.approx(len(prompts))
    units = {one.name: one for one in kinds()}[kind].readings[reading].units
    assert units.keys() <= {"score", *found[0].parts}


def test_a_phenotype_classifier_of_nan_weights_predicts_nothing(tmp_path):
    broken(tiny.save_classifier(tmp_path, ["negative", "positive"]))
    scorer = load_phenotype_classifier(str(tmp_path), options=LoadOptions(device="cpu"))
    (one,) = scorer.score([blank(text="she is someone")])
    assert math.isnan(one.score)
    assert math.isnan(one.parts["predicted"])
    assert not one.finite


@pytest.mark.parametrize(
    "returned",
    [
        [math.nan, 0.2], (math.nan, 0.2), [None, 0.2], np.array([np.nan, 0.2]), np.array([np.nan, 0.2], np.float16),
        torch.tensor([math.nan, 0.2]), [[math.nan, math.nan], [0.8, 0.2]], np.array([[0.5, np.nan], [0.8, 0.2]]),
        [[np.nan, 0.5], [0.8, 0.2]], torch.tensor([[math.nan, 0.5], [0.8, 0.2]]),
    ],
    ids=str,
)  # fmt: skip
def test_nan_of_a_callable_is_lost_in_every_shape_that_it_may_return(returned):
    nan, known = CallableScorer(lambda texts: returned, model_id="m:f").score([blank(text="a"), blank(text="b")])
    assert lost([nan])
    assert known.score == pytest.approx(0.2, abs=1e-3)
    zero = CallableScorer(lambda texts: [0.0], model_id="m:f").score([blank(text="a")])
    assert [(one.score, one.answer, one.finite) for one in zero] == [(0.0, "negative", True)]
