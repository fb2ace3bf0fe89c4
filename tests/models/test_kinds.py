"""Kinds of models describe themselves: readings, units of columns and options."""

import sys
from types import ModuleType
from typing import Annotated, ClassVar

import pytest
from pydantic import Field
from pydantic.dataclasses import dataclass
from typer.testing import CliRunner

from swapbias import audit, load_prompts, score_prompts
from swapbias.cli import app
from swapbias.cli.terminal import read_settings
from swapbias.errors import UsageError
from swapbias.models import STRICT, Kind, LoadOptions, Options, Scored, Scorer, auto
from swapbias.models.causal import AnswerOddsScorer, AntonymScorer, CausalScorer
from swapbias.models.chat import ChatOptions
from swapbias.models.classifier import CallableScorer, NegativeLabelScorer
from swapbias.models.clinical import NoteOptions
from swapbias.models.clinical.word_direction import DirectionScorer
from swapbias.models.kind import Reading
from swapbias.models.masked import MaskedScorer
from swapbias.models.masked_readings import AttitudeScorer
from swapbias.models.named_words import MaskedWordsScorer, NamedWordsScorer
from swapbias.models.phrase_scorer import PhraseScorer
from swapbias.models.search_scorers import FunctionRetriever, RankScorer
from swapbias.runs import Settings, plan_tasks, settings_of
from swapbias.runs.audit_file import read_request
from swapbias.studies import load_lexicon, load_study, studies
from tests.scoring import read_as

EXPERIMENTS = [one for name in studies() for one in load_study(name).experiments]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_scores_are_columns(experiment):
    """Every score of an experiment is a column of its reading."""
    units = auto.kind_of(experiment.kind).readings[experiment.reads.reading].units
    assert next(iter(units)) == "score"
    assert set(experiment.shows.scores) <= units.keys()


@pytest.mark.parametrize(
    ("scorer", "reading"),
    [
        (MaskedScorer, ""),
        (PhraseScorer, "phrases"),
        (AttitudeScorer, "attitude"),
        (CallableScorer, ""),
        (NegativeLabelScorer, "negative_label"),
        (CausalScorer, ""),
        (AntonymScorer, "antonyms"),
        (AnswerOddsScorer, "answers"),
        (NamedWordsScorer, "named_words"),
        (MaskedWordsScorer, "named_words"),
        (DirectionScorer, "direction"),
        (FunctionRetriever, ""),
        (RankScorer, "rank"),
    ],
)
def test_unit_of_a_reading(scorer, reading):
    """A reading has the unit of its scorer."""
    chosen = auto.kind_of(scorer.kind).readings[reading]
    assert chosen.units["score"] == scorer.unit
    assert chosen.scorer.partition(":")[2] in (scorer.__name__, "")


def test_unknown_reading():
    """A reading that a kind does not have is refused."""
    scorer = CallableScorer(lambda texts: [0.5] * len(texts), model_id="m")
    with pytest.raises(
        UsageError, match="Unknown reading 'phrases' of a classifier model: expected negative_label"
    ):
        read_as(scorer, "phrases")


def test_settings_in_a_manifest():
    """Settings in a manifest come back."""
    settings = Settings(
        studies=("a",),
        seed=3,
        options=(ChatOptions(model="m", trials=2, seed=9), NoteOptions(embeddings=("e",))),
    )
    saved = settings.saved()
    back = Settings.from_manifest({**saved, "notes": {**saved["notes"], "embeddings": ["e"]}})
    assert back.saved() == saved
    assert back.of(ChatOptions).seed == 0  # a seed is the audit's


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_setting_from_every_source(dtype, tmp_path):
    """A setting is the same from the command line, a file and Python."""
    (tmp_path / "audit.toml").write_text(f'model = "vader"\n[load]\ndtype = "{dtype}"\n')
    by_key = settings_of("vader", (), read_settings([f"dtype={dtype}"]))
    assert read_request(tmp_path / "audit.toml")[1].load == by_key.load == LoadOptions(dtype=dtype)
    assert Settings.from_manifest(by_key.saved()).load == by_key.load
    done = CliRunner().invoke(app, ["audit", "vader", "--dtype", dtype, "-M", "dtype=float32"])
    assert "dtype is an option and a setting of -M" in str(done.exception) + done.output


@pytest.mark.parametrize(
    ("made", "wrong", "sentence"),
    [
        (LoadOptions, {"dtpe": "auto"}, r"^Unknown setting 'dtpe'. Did you mean dtype\?$"),
        (
            LoadOptions,
            {"dtype": "int8"},
            r"^Unknown dtype 'int8': expected float32, bfloat16, float16, auto\.$",
        ),
        (
            LoadOptions,
            {"batch_size": "4"},
            r"^batch_size is .4., expected a whole number of 1 or more\. Change batch_size\.$",
        ),
        (
            ChatOptions,
            {"trials": 0},
            r"^trials is 0, expected a whole number from 1 to 1,000\. Change trials\.$",
        ),
        (
            NoteOptions,
            {"explain": -1},
            r"^explain is -1, expected a whole number of 0 or more\. Change explain\.$",
        ),
    ],
    ids=["misspelt", "dtype", "batch size", "trials", "explain"],
)
def test_wrong_setting(made, wrong, sentence):
    """A wrong setting is one sentence."""
    with pytest.raises(UsageError, match=sentence):
        made(**wrong)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        (None, "model", 3),
        (None, "model", ["a"]),
        (None, "kind", {}),
        (None, "studies", "abc"),
        (None, "studies", [3]),
        (None, "studies", None),
        ("chat", "model", 7),
        ("chat", "trials", "many"),
        ("chat", "base_url", 5),
        ("chat", "own_address", "http://a"),
        ("chat", "temperature", None),
        ("load", "device", []),
        ("load", "batch_size", "x"),
        ("notes", "embeddings", [1]),
        ("notes", "embeddings", "abc"),
        ("notes", "data", 3),
        ("notes", "max_doubt", "3"),
        ("chat", "timeout", True),
    ],
    ids=repr,
)
def test_wrong_type_in_a_manifest(part, name, value):
    """A setting of another type in a manifest is one sentence."""
    saved = Settings(model="lab/small").saved()
    (saved[part] if part else saved)[name] = value
    with pytest.raises(ValueError, match=r"not of this version|expected|is ") as raised:
        Settings.from_manifest(saved)
    assert "\n" not in str(raised.value)


class Least(Scorer):
    model_id = "least"
    kind = "classifier"
    unit = "u"
    identity: ClassVar = {}

    def score(self, prompts, on_progress=None):
        return [Scored(len(prompt.text) / 10) for prompt in prompts]


def test_minimal_scorer(tmp_path):
    """A scorer with the required members alone has every other member."""
    least = Least()
    assert (least.expected, least.chunk_rows, least.sends_text, least.notes) == (
        None,
        1_024,
        False,
        {},
    )
    assert least.coverage(load_lexicon("social_distance/attitude")) == []
    assert least.keeping_answers(tmp_path) is least
    assert list(tmp_path.iterdir()) == []
    called = type("Called", (Least,), {"__call__": lambda self, texts: [1.0] * len(texts)})()
    assert auto.load_scorer(called) is called


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ToyOptions(Options):
    key: ClassVar[str] = "toy"

    wheels: Annotated[int, Field(ge=1)] = 4
    """Wheels of the toy."""


class Toy(Kind):
    """A kind in one file and one line of the auto."""

    name = "toy"
    options = ToyOptions
    readings: ClassVar = {"": Reading({"score": "turns"})}

    def load(self, model, request, *, say, bar):
        return Least()


def test_kind_is_one_file(monkeypatch):
    """A kind is one file and one line of the registry."""
    home = ModuleType("swapbias.models.toy")
    home.TOY = Toy()
    monkeypatch.setitem(sys.modules, home.__name__, home)
    monkeypatch.setitem(auto._BUILT_IN, "toy", "swapbias.models.toy:TOY")
    auto.kinds.cache_clear()
    try:
        settings = Settings(
            studies=("occupation_sentiment",), model="vader", options=(ToyOptions(wheels=3),)
        )
        assert settings.saved()["toy"] == {"wheels": 3}
        assert Settings.from_manifest(settings.saved()).of(ToyOptions).wheels == 3
        with pytest.raises(UsageError, match="Settings of toy models are read by"):
            plan_tasks(settings)

        assert read_settings(["wheels=3"]) == {"wheels": 3}
    finally:
        monkeypatch.undo()
        auto.kinds.cache_clear()


class Lengths(Scorer):
    """Scores each text by its length, and forgets the last one."""

    model_id = "lengths"
    kind = "classifier"
    unit = "probability"
    identity: ClassVar = {"version": "1"}

    def score(self, prompts, on_progress=lambda done: None):
        return [Scored(min(1.0, len(prompt.text) / 100)) for prompt in prompts[:-1]]


def test_too_few_scores():
    """A scorer that gives too few scores is named."""
    prompts = load_prompts("occupation_sentiment", "control")
    with pytest.raises(UsageError, match=r"^lengths gave 39 scores for 40 prompts"):
        score_prompts(prompts, Lengths())
    with pytest.raises(UsageError, match=r"^lengths gave 39 scores for 40 prompts"):
        audit(Lengths(), "occupation_sentiment:control", progress=False, wordings=False)


def test_kind_of_scorers_alone(monkeypatch):
    """A kind whose models are scorers alone states how one is given."""

    class Sounds(Kind):
        name = "sounds"
        readings: ClassVar = {"": Reading({"score": "probability"})}
        scorer = "masked:MaskedScorer"

    ((_, why),) = Sounds().fits(EXPERIMENTS[0], settings_of(None, (), {}), None)
    assert (
        why
        == "it needs a sounds model, given to swapbias.audit in Python as a Scorer of kind 'sounds'"
    )
    monkeypatch.setattr(auto, "kinds", lambda: (*auto.KINDS.load_all().values(), Sounds()))
    with pytest.raises(UsageError, match=r"Give one to swapbias\.audit in Python as a Scorer"):
        auto.model_kind("vader", "sounds")
