"""Scorers: the only contact with models. torch and transformers load when a scorer is made, not before."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from swapbias.errors import UsageError
from swapbias.lexicons import Lexicon
from swapbias.prompts import Prompt

KINDS = ("masked", "classifier", "causal")
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "bfloat16")
VADER = "vader"

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Scored:
    """What a model said of one prompt.

    Attributes:
        score: in the scorer's unit; NaN where the prompt could not be scored.
        answer: the likeliest token or label; blank where there is none.
        top_tokens: JSON list of [token or label, probability], likeliest first.
        parts: further score columns by name (the untruncated mass beside the thresholded one).
        finite: False where the model was asked and what it gave is NaN or infinite; score and parts are NaN then.
    """

    score: float
    answer: str = ""
    top_tokens: str = "[]"
    parts: Mapping[str, float] = field(default_factory=dict)
    finite: bool = True


def not_finite(parts: Iterable[str] = ()) -> Scored:
    """What is kept of a prompt for which the model gave NaN or an infinite number; ``parts`` are names of columns."""
    return Scored(math.nan, parts=dict.fromkeys(parts, math.nan), finite=False)


class Scorer(Protocol):
    """Anything that turns prompts into scores.

    Attributes:
        model_id: the name findings carry.
        kind: which experiments it can read.
        unit: unit of the scores.
        identity: what pins the model down (revision or sha256, settings), for the manifest.
    """

    model_id: str
    kind: str
    unit: str
    identity: Mapping[str, Any]

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order; ``on_progress`` is told how many more prompts are done."""
        ...


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether one word of a lexicon is a single token of a model's vocabulary, so that it can be counted."""

    model_id: str
    lexicon: str
    word: str
    label: str
    in_vocabulary: bool


@runtime_checkable
class HasCoverage(Protocol):
    """A scorer that counts words of lexicons and can say which ones it is able to see."""

    model_id: str

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """One row per word of the lexicon."""
        ...


@runtime_checkable
class HasLog(Protocol):
    """A scorer whose answers are kept one by one, as they arrive; what its log knows is not asked again."""

    log: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a model is loaded and run: device (auto, cpu, cuda), dtype, prompts per forward pass, labels.

    ``prune``: recursive masking gives up branches whose probability is below it, .01 of a prompt in all at most; 0 is
    exact. ``allow_pickle``: files that run what their maker put in them (.joblib, .pkl, .kv) are read.
    """

    device: str = "auto"
    dtype: str = "float32"
    batch_size: int = 64
    positive_label: str | None = None
    negative_label: str | None = None
    prune: float = 0.0
    allow_pickle: bool = False


def load_scorer(
    model: str,
    *,
    kind: str | None = None,
    options: LoadOptions | None = None,
    say: Callable[[str], None] | None = None,
) -> Scorer:
    """A scorer for a model.

    Args:
        model: a Hub id or local folder (transformers), ``vader``, or ``module:function`` (texts ->
            probabilities of positive sentiment).
        kind: ``masked``, ``classifier`` or ``causal``; found from the model's config where None.
        options: device, dtype and batch size, and whether a pickle may be read.
        say: is told that reading a pickle runs what its maker put in it.

    Raises:
        UsageError: a kind that cannot be found or does not exist, a model of another kind, a pickle that is not
            allowed.
        ValueError: a model that cannot be loaded.
    """
    chosen = options or LoadOptions()
    if chosen.device not in DEVICES:
        raise UsageError(f"Unknown device {chosen.device!r}: expected {', '.join(DEVICES)}.")
    if chosen.dtype not in DTYPES:
        raise UsageError(f"Unknown dtype {chosen.dtype!r}: expected {' or '.join(DTYPES)}.")
    found = model_kind(model, kind)
    if found == "classifier":
        from swapbias.scorers import classifier

        if model == VADER:
            return classifier.VaderScorer()
        if _is_trained_here(model):
            from swapbias.scorers.sentiment_models import load_sentiment_model

            allow = chosen.allow_pickle
            return load_sentiment_model(model, batch_size=chosen.batch_size, allow_pickle=allow, say=say)
        if is_callable(model):
            return classifier.CallableScorer.load(model, batch_size=chosen.batch_size)
        return classifier.TextClassifierScorer.load(model, chosen)
    if found == "causal":
        from swapbias.scorers.causal import CausalScorer

        return CausalScorer.load(model, chosen)
    from swapbias.scorers.loading import PERMUTATION, read_config
    from swapbias.scorers.masked import MaskedScorer
    from swapbias.scorers.permutation import PermutationScorer

    permuted = read_config(model).model_type in PERMUTATION
    return (PermutationScorer if permuted else MaskedScorer).load(model, chosen)


def model_kind(model: str, kind: str | None = None) -> str:
    """The kind of a model, without loading its weights: ``masked``, ``classifier`` or ``causal``.

    Raises:
        UsageError: an unknown kind, or a config that does not tell and no ``kind`` given.
        ValueError: no such model.
    """
    if kind is not None and kind not in KINDS:
        raise UsageError(f"Unknown kind {kind!r}: expected one of {', '.join(KINDS)}.")
    if model == VADER or is_callable(model) or _is_trained_here(model):
        if kind not in (None, "classifier"):
            raise UsageError(f"{model} returns probabilities of a text, expected kind 'classifier'. Drop --kind.")
        return "classifier"
    from swapbias.scorers.loading import kind_of_config, read_config

    found = kind_of_config(read_config(model))
    if found is None and kind is None:
        raise UsageError(
            f"The config of {model} does not tell what kind of model it is. Pass --kind {' or '.join(KINDS)}."
        )
    if kind is not None and found is not None and found != kind:
        raise UsageError(f"Model {model} is of kind {found} by its config, not {kind}. Drop --kind.")
    return kind or found or ""


def _is_trained_here(model: str) -> bool:
    """Whether a folder holds a model of ``swapbias train`` that transformers does not read (bow, bilstm)."""
    if not (Path(model) / "training.json").is_file():
        return False
    from swapbias.scorers.sentiment_models import is_sentiment_folder

    return is_sentiment_folder(model)


def is_callable(model: str) -> bool:
    """Whether a model name is ``module:function``."""
    module, _, function = model.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def ranked(names: Sequence[str], probabilities: Sequence[float], decimals: int = 6) -> str:
    """JSON of [name, probability] pairs."""
    return json.dumps(
        [[name, round(float(p), decimals)] for name, p in zip(names, probabilities, strict=True)],
        ensure_ascii=False,
    )


def read_as(scorer: Any, reading: str, *, prune: float = 0.0) -> Scorer:
    """The scorer, or another way to read the same model.

    ``phrases``: recursive masking; ``attitude``: approval at the mask (both of a masked model);
    ``negative_label``: the label of a sentiment system; ``antonyms``: a causal model's choice between antonyms;
    ``answers``: its choice between two answers. ``prune`` is of phrases.

    Raises:
        UsageError: a reading that does not exist.
    """
    if not reading:
        plain: Scorer = scorer
        return plain
    if reading == "antonyms":
        from swapbias.scorers.causal import AntonymScorer

        return AntonymScorer(scorer)
    if reading == "phrases":
        from swapbias.scorers.recursive import PhraseScorer

        return PhraseScorer(scorer, prune=prune)
    if reading == "answers":
        from swapbias.scorers.answer_odds import AnswerOddsScorer

        return AnswerOddsScorer(scorer)
    from swapbias.scorers.attitude import AttitudeScorer, NegativeLabelScorer

    if reading == "attitude":
        return AttitudeScorer(scorer)
    if reading == "negative_label":
        return NegativeLabelScorer(scorer)
    raise UsageError(f"Unknown reading {reading!r}: expected answers, antonyms, phrases, attitude or negative_label.")
