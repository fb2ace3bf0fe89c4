"""Scorers are complete when they are built and never change; configuring one returns another."""

import pickle
import re
import sys
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import ClassVar

import pytest
from transformers import pipeline

import swapbias
from swapbias.errors import UsageError
from swapbias.measures import Unit
from swapbias.models import DerivedScorer, Kind, LoadOptions, Request, Scored, Scorer, load_scorer
from swapbias.models.auto import kinds
from swapbias.models.chat import ChatOptions
from swapbias.models.kind import Reading
from swapbias.runs.judge import JudgedScorer, read_judgement
from swapbias.studies import Candidate, Prompt, load_study
from swapbias.studies.catalogue import experiments_that
from tests import tiny
from tests.conftest import ROOT
from tests.models.chat import fake_vllm
from tests.models.clinical.test_features import direction
from tests.models.clinical.test_phenotype import scorer as phenotype
from tests.scoring import read_as

REQUIRED = ("model_id", "kind", "unit", "identity", "score")
CHAT = ChatOptions(model="m", base_url="http://127.0.0.1:1/v1")


def half(texts):
    return [0.5] * len(texts)


def no_spans(texts):
    return [[] for _ in texts]


class Embedder:
    def encode(self, texts):
        return [[1.0, len(text)] for text in texts]


class Reranker:
    def predict(self, pairs):
        return [0.5] * len(pairs)

    def rank(self, query, documents):
        return [*documents]


class Least(Scorer):
    model_id = "least"
    kind = "classifier"
    unit = "u"
    identity: ClassVar[dict[str, str]] = {}

    def score(self, prompts, on_progress=None):
        return [Scored(len(prompt.text) / 10) for prompt in prompts]


def called_pipeline(folder):
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        TextClassificationPipeline,
    )

    class Own(TextClassificationPipeline):
        def preprocess(self, inputs, **arguments):
            return super().preprocess(f"she is {inputs}", **arguments)

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return pipeline("text-classification", model=model, tokenizer=tokenizer, pipeline_class=Own)


def fitted_pipeline():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good", "bad"], [1, 0])


@pytest.fixture(scope="module")
def scorers_by_class(tmp_path_factory):
    """A scorer of each class, by the name of the class."""
    folder = tmp_path_factory.mktemp("models")
    masked = load_scorer(str(tiny.save("bert", folder / "masked")))
    causal = load_scorer(str(tiny.save_causal(folder / "causal")))
    classifier = str(tiny.save_classifier(folder / "classifier", ["negative", "positive"]))
    chat = import_module("swapbias.models.chat.openai_client").ChatScorer("m", CHAT)
    classifier_class = import_module("swapbias.models.clinical.phenotype").ClassifierScorer
    local = import_module("swapbias.models.chat.local").LocalChatScorer
    offline_vllm = import_module("swapbias.models.chat.offline_vllm").VllmScorer
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "vllm", fake_vllm.module())
        patched.setenv("VLLM_NO_USAGE_STATS", "")
        options = ChatOptions(model="m", provider="vllm")
        by_vllm = offline_vllm.load(str(folder / "causal"), LoadOptions(), options)
    searching = load_scorer(lambda queries, documents: [0.5] * len(queries), kind="retrieval")
    (judged, *_) = [
        experiment
        for experiment in load_study("stigma_vignettes").experiments
        if experiment.reads.rubric
    ]
    scorers = [
        masked,
        *(
            read_as(masked, reading)
            for reading in ("phrases", "attitude", "log_mass", "named_words")
        ),
        causal,
        *(
            read_as(causal, reading)
            for reading in ("antonyms", "answers", "options", "option_odds", "named_words")
        ),
        load_scorer(classifier),
        load_scorer(called_pipeline(classifier)),
        load_scorer("vader"),
        load_scorer(half),
        load_scorer(str(tiny.save_tagger(folder / "tagger"))),
        load_scorer(no_spans, kind="tagger"),
        load_scorer(str(tiny.save_bi_encoder(folder / "bi"))),
        load_scorer(str(tiny.save_classifier(folder / "cross", ["LABEL_0"])), kind="retrieval"),
        searching,
        read_as(searching, "rank"),
        load_scorer(Embedder()),
        load_scorer(Reranker()),
        load_scorer(fitted_pipeline()),
        read_as(load_scorer("vader"), "negative_label"),
        classifier_class(load_scorer(half)),
        phenotype(),
        direction(),
        chat,
        local.load(str(folder / "causal"), LoadOptions(), ChatOptions(model="m", provider="local")),
        by_vllm,
        JudgedScorer(
            chat,
            {"m": chat.with_reader(read_judgement)},
            judged.reads.rubric,
            lambda title, total: print,
        ),
    ]
    return {type(scorer).__name__: scorer for scorer in scorers}


def classes_below(parent):
    for child in parent.__subclasses__():
        yield child
        yield from classes_below(child)


def test_example_of_every_scorer(scorers_by_class):
    """There is an example of every scorer of the package."""
    for path in sorted((ROOT / "swapbias").rglob("*.py")):
        if "Scorer)" in path.read_text():
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    shipped = {one for one in classes_below(Scorer) if one.__module__.startswith("swapbias.")}
    leaves = {
        one.__name__
        for one in shipped
        if not one.__abstractmethods__ and not one.__name__.startswith("_")
    }
    ask_nobody = {"AnsweringScorer", "TemplatedScorer"}  # for estimates, and the base of two
    assert leaves - ask_nobody == {*scorers_by_class}
    assert len(scorers_by_class) >= 23


def public_names(scorer):
    return [name for name in dir(scorer) if not name.startswith("_")]


def refuses_changes(scorer):
    """Assert that no attribute of an object can be set or deleted."""
    for name in [*public_names(scorer), *vars(scorer), "something_new"]:
        before = dict(vars(scorer))
        sentence = rf"^{type(scorer).__name__}\.{name} cannot be changed after __init__\."
        with pytest.raises(AttributeError, match=sentence):
            setattr(scorer, name, "another")
        with pytest.raises(AttributeError, match=sentence):
            delattr(scorer, name)
        assert vars(scorer) == before


def test_scorer_cannot_be_changed(scorers_by_class):
    """No attribute of a scorer can be set after it is built."""
    for scorer in scorers_by_class.values():
        assert {*REQUIRED, "own_unit", "expected", "notes"} <= {*public_names(scorer)}
        refuses_changes(scorer)


def test_kind_cannot_be_changed():
    """No attribute of a kind can be set."""
    for kind in kinds():
        refuses_changes(kind)


def configured(scorer, folder):
    """Other scorers of the same model, by what made them."""
    yield "unit", scorer.reading_in(Unit("steps", 0, 9))
    yield "notes", scorer.reading_notes()
    yield "answers", scorer.keeping_answers(folder)
    if hasattr(scorer, "with_reader"):
        yield (
            "reading",
            scorer.with_reader(read_judgement, unit="place", max_tokens=77, identity={"more": 1}),
        )


def test_configured_scorer(scorers_by_class, tmp_path):
    """Configuring a scorer returns another one that cannot be changed either."""
    for scorer in scorers_by_class.values():
        before = dict(vars(scorer))
        for how, other in configured(scorer, tmp_path):
            assert vars(scorer) == before, how
            assert type(other) is type(scorer)
            assert other.model_id == scorer.model_id
            refuses_changes(other)
            assert how != "unit" or (other.unit, scorer.unit != "steps") == ("steps", True)
            if how == "reading":
                assert (other.unit, other.options.max_tokens, other.log is scorer.log) == (
                    "place",
                    77,
                    True,
                )
                assert (other.identity["max_tokens"], other.identity["more"]) == (77, 1)
                assert (scorer.options.max_tokens, "more" in scorer.identity) == (16, False)


def test_scoring_changes_no_attribute(scorers_by_class, monkeypatch):
    """Scoring changes no attribute: caches are objects that a scorer has before and after."""
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm.module())
    masked = Prompt(text="She <mask>.", lexicon="gendered_stigma/rq1/female")
    rated = Prompt(text="She <mask>.", lexicon="social_distance/attitude/negative")
    named = Prompt(text="Ann", candidates=(Candidate("Ann", 1.0),))
    prompts_by_class = {
        **dict.fromkeys(
            ("MaskedScorer", "LogMassScorer", "PhraseScorer", "MaskedWordsScorer"), masked
        ),
        "NamedWordsScorer": Prompt(text="She is here", candidates=(Candidate("here"),)),
        **dict.fromkeys(("AttitudeScorer", "AntonymScorer"), rated),
        "AnswerOddsScorer": Prompt(
            text="She is", candidates=(Candidate("here"), Candidate("there"))
        ),
        **dict.fromkeys(
            ("OptionScorer", "OptionOddsScorer"),
            Prompt(text="She is", candidates=(Candidate("here", 1.0), Candidate("there", 0.0))),
        ),
        "DirectionScorer": Prompt(text="gloom", construct="synonym"),
        **dict.fromkeys(("TokenTagScorer", "FunctionTagScorer"), named),
        **dict.fromkeys(
            (
                "BiEncoderScorer",
                "CrossEncoderScorer",
                "FunctionRetriever",
                "RankScorer",
                "EmbedderScorer",
                "RerankerScorer",
            ),
            Prompt(text="she\nShe is here.", candidates=(Candidate("He is here."),)),
        ),
    }
    for name, scorer in scorers_by_class.items():
        if name in ("ChatScorer", "JudgedScorer"):  # no service is there
            continue
        before = {key: id(value) for key, value in vars(scorer).items()}
        prompt = prompts_by_class.get(
            name, Prompt(text="hopeless", condition="depression", construct="original")
        )
        assert len(scorer.score([prompt])) == 1, name
        assert {key: id(value) for key, value in vars(scorer).items()} == before, name


def test_experiments_share_no_reader(scorers_by_class):
    """Experiments of one chat model do not share how answers are read."""
    chat = scorers_by_class["ChatScorer"]
    request = Request(options=(CHAT,))
    experiments = [
        one for name in ("stigma_vignettes", "care_notes") for one in load_study(name).experiments
    ]
    (kind,) = [one for one in kinds() if one.name == "chat"]
    readers = [kind.read(chat, one, request) for one in experiments if one.kind == "chat"]
    for experiment, reader in zip(
        [one for one in experiments if one.kind == "chat"], readers, strict=True
    ):
        assert reader.unit == experiment.compares.unit.name
        assert (reader.fields is not None) == (experiment.reads.reading in ("options", "label"))
        assert reader.options.max_tokens == (
            512 if experiment.reads.reading in ("facts", "tone") else 16
        )
        assert reader.log is chat.log
    assert len({reader.unit for reader in readers}) > 1
    assert (chat.unit, chat.fields, chat.options.max_tokens) == ("answer", None, 16)
    assert experiments_that(lambda one: one.reads.reading == "tone")


@pytest.mark.parametrize("missing", REQUIRED)
def test_missing_member(missing):
    """A scorer without a required member is told which."""
    members = {name: getattr(Least, name) for name in REQUIRED if name != missing}
    needed = "A scorer needs model_id, kind, unit, identity and score: set them in the class or in __init__."
    for more in ({}, {missing: None}) if missing != "score" else ({},):
        with pytest.raises(TypeError) as raised:
            type("Forgetful", (Scorer,), {**members, **more})()
        assert str(raised.value) == f"Forgetful has no {missing}. {needed}"


def test_missing_constructor():
    """A scorer that skips the constructor of its parent is told what it lacks."""

    class Mine(DerivedScorer):
        kind = "classifier"
        unit = "u"

        def __init__(self, inner):
            self.inner = inner

        def score(self, prompts, on_progress=None):
            return self.inner.score(prompts)

    with pytest.raises(TypeError, match=r"^Mine has no model_id and identity\. A scorer needs"):
        Mine(Least())


def test_missing_member_of_a_kind():
    """A kind without a required member is told which."""
    whole = {
        "name": "toy",
        "readings": {"": Reading({"score": "u"})},
        "load": lambda self, model, request: Least(),
    }
    type("Toy", (Kind,), whole)()
    for lacking, message in (
        ("name", "name"),
        ("readings", "readings"),
        ("load", "load or scorer"),
    ):
        toy = type(
            "Toy", (Kind,), {name: value for name, value in whole.items() if name != lacking}
        )
        with pytest.raises(
            TypeError, match=rf"^Toy has no {message}\. A kind of model needs name, readings"
        ):
            toy()
    by_scorer = {name: value for name, value in whole.items() if name != "load"} | {
        "scorer": "masked:MaskedScorer"
    }
    assert type("Toy", (Kind,), by_scorer)().name == "toy"


@dataclass
class Counting(Scorer):
    """An own scorer as a dataclass, with a cache and a property that is worked out once."""

    word: str
    model_id: str = "counting"
    kind: str = "classifier"
    unit: str = "times"
    identity: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)

    @cached_property
    def pattern(self):
        self.seen.append("compiled")
        return re.compile(self.word)

    def score(self, prompts, on_progress=None):
        return [Scored(float(len(self.pattern.findall(prompt.text)))) for prompt in prompts]


def test_dataclass_scorer():
    """A scorer may be a dataclass and keep what it computes once."""
    counting = Counting("she")
    prompts = [Prompt(text="she and she"), Prompt(text="he")]
    assert [one.score for one in counting.score(prompts)] == [2, 0]
    assert [one.score for one in counting.score(prompts)] == [2, 0]
    assert counting.seen == ["compiled"]
    refuses_changes(counting)


def test_counting_scorer():
    """A scorer that counts in an attribute is told where to count."""

    class Impatient(Least):
        calls = 0

        def score(self, prompts, on_progress=None):
            self.calls += 1
            return super().score(prompts)

    with pytest.raises(
        AttributeError, match=r"^Impatient\.calls cannot .* keep what changes later in a dict"
    ):
        Impatient().score([])


def test_own_chat_scorer():
    """A chat scorer of a user reads its answers itself."""

    class Talker(Least):
        kind = "chat"

    (kind,) = [one for one in kinds() if one.name == "chat"]
    experiment = next(
        one for one in load_study("care_notes").experiments if one.reads.reading == "tone"
    )
    talker = Talker()
    reader = kind.read(talker, experiment, Request())
    assert (reader.unit, talker.unit) == (experiment.compares.unit.name, "u")
    assert reader.score([Prompt(text="12345")])[0].score == 0.5


def test_scorer_with_a_limit():
    """A scorer with a limit states it in a sentence."""

    class Metered(Least):
        def beyond_limits(self, prompts):
            return "its licence allows 3 texts" if len(prompts) > 3 else ""

    with pytest.raises(
        UsageError,
        match=r"^least cannot score every prompt once: its licence allows 3 texts\. Raise",
    ):
        swapbias.audit(Metered(), "occupation_sentiment:control", progress=False)


@pytest.mark.parametrize(
    "copied",
    [copy, deepcopy, lambda scorer: pickle.loads(pickle.dumps(scorer))],  # noqa: S301
    ids=["copy", "deepcopy", "pickle"],
)
def test_copied_scorer(copied):
    """A copy of a scorer cannot be changed either."""
    refuses_changes(copied(Least()))


def test_change_of_an_unknown_attribute():
    """A copy with an attribute that the scorer lacks is refused, for it would change nothing."""
    scorer = load_scorer(lambda texts: [0.5 for _ in texts], name="toy")
    with pytest.raises(AttributeError, match="probabilties"):
        scorer._changed(probabilties=None)
