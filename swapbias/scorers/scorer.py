"""What a scorer is: prompts in, one Scored per prompt out."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from swapbias.studies import Lexicon, Prompt

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
