"""What a scorer is: prompts in, one Scored per prompt out."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_type_hints

from swapbias.errors import UsageError
from swapbias.studies import PROMPT_COLUMNS, Lexicon, Prompt, Published

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEVICES = ("auto", "cpu", "cuda", "cuda:N", "mps")
HALF_PRECISION = ("bfloat16", "float16")
DTYPES = ("float32", *HALF_PRECISION, "auto")
QUANTIZATIONS = ("8bit", "4bit")
# Settings of ``LoadOptions`` that say how weights are found and loaded: none is of a model in memory.
OF_WEIGHTS = (
    "device", "dtype", "device_map", "quantization", "attn_implementation", "subfolder", "adapter",
    "trust_remote_code",
)  # fmt: skip
VADER = "vader"
REGRESSION, RAW = "regression", "raw score of the model"  # a kind of text classifiers, and the unit of its scores

Progress = Callable[[float], None]  # called with how many more are done
Bar = Callable[[str, int], Progress]  # title and total
Say = Callable[[str], None]  # called with a sentence for the user


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


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether one word of a lexicon is a single token of a model's vocabulary, so that it can be counted.

    Attributes:
        matched: whether a word of each other label is as frequent there, so that it counts in ``matched_mass``.
    """

    model_id: str
    lexicon: str
    word: str
    label: str
    in_vocabulary: bool
    matched: bool = False


class Scorer(Protocol):
    """Anything that turns prompts into scores; whoever inherits from it need only say the first four and ``score``.

    Attributes:
        model_id: the name findings carry.
        kind: which experiments it can read.
        unit: unit of the scores.
        identity: what pins the model down (revision or sha256, settings), for the manifest.
        expected: numbers by ``Finding.key`` to hold findings against; None: what is published of the model.
        chunk_rows: rows that are scored before they are written down.
        sends_text: whether texts leave what is the user's own: this machine, and services that they declared so.
        negative_label: the ``answer`` that means negative sentiment; None where nothing tells.
        error_note: what a faster way to compute did to the scores, in a sentence; blank where nothing.
        cut_note: how many answers reached the most tokens, in a sentence; blank where none.
    """

    model_id: str
    kind: str
    unit: str
    identity: Mapping[str, Any]
    expected: Mapping[tuple[str, ...], Published] | None = None
    chunk_rows: int = 1_024
    sends_text: bool = False
    negative_label: str | None = "negative"

    @property
    def error_note(self) -> str:
        """Known once texts were read."""
        return ""

    @property
    def cut_note(self) -> str:
        """Known once answers are there."""
        return ""

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order; ``on_progress`` is called with how many more prompts are done."""
        ...

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """One row per word of a lexicon; none where no words of lexicons are counted."""
        return []

    def keep_answers(self, folder: Path, *, text: bool = True) -> None:
        """Write each answer into a run's folder as it arrives; what is answered there is not asked again.

        Without its ``text`` what was read of it is kept in its place.
        """
        return

    def spent(self, left: Sequence[Prompt]) -> str:
        """What asking took so far, and what these prompts will take yet, in a sentence; blank where none asks."""
        return ""

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        """Why these prompts may not be asked as well, by what asking may cost; blank where they may."""
        return ""

    def predict_proba(self, texts: Sequence[str], condition: str = "", construct: str = "") -> "NDArray[np.float64]":
        """Scores of texts as probabilities, shape (n, 2), the score second; NaN rows for those without one."""
        import numpy as np

        blank = Prompt(**{**dict.fromkeys(PROMPT_COLUMNS, ""), "condition": condition, "construct": construct})
        scores = np.array([one.score for one in self.score([replace(blank, text=text) for text in texts])])
        return np.column_stack([1 - scores, scores])


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a kind's options that the user sets: an option of ``swapbias audit``, saved in the manifest.

    Args:
        default: its value where none is given.
        help: for the command line.
        more: ``name`` there, if not the field's; ``least`` and ``most``; ``place``: may be a path of this machine,
            but for the ``words`` that have a meaning of their own; ``unsaved``: asked of whoever goes on with a run,
            for its manifest may be anybody's.
    """
    return field(default=default, metadata={"help": help, **more})


def settable(made: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The fields of an options dataclass that a user sets, with their types."""
    hints = get_type_hints(made)
    return ((one, hints[one.name]) for one in fields(made) if "help" in one.metadata)


# Options of models that the command line has as options of their own; every other one is a setting of -M.
FLAGS = ("kind", "limit", "margin", "seed", "device", "dtype", "batch_size", "chat", "base_url", "trials", "max_cost")


def written(name: str, value: Any = None) -> str:
    """An option of models as the command line has it: ``--trials 3``, ``-M temperature=0``; without a value its name.

    >>> written("trials", 3), written("max_tokens", 10), written("no_seed", True), written("judge")
    ('--trials 3', '-M max-tokens=10', '-M no-seed', '-M judge')
    """
    key = name.replace("_", "-")
    given = "" if value in (None, True) else str(value)
    if name in FLAGS:
        return f"--{key} {given}".rstrip()
    return f"-M {key}={given}" if given else f"-M {key}"


def check_ranges(options: Any) -> None:
    """Refuse a number outside the range that its field declares.

    Raises:
        UsageError: naming the field.
    """
    for one in fields(options):
        value, least, most = getattr(options, one.name), one.metadata.get("least"), one.metadata.get("most")
        if value is None or least is None:
            continue
        if not least <= value <= (sys.float_info.max if most is None else most):  # NaN is neither
            wanted = f"a number of {least:g} or more" if most is None else f"{least:g} to {most:,g}"
            raise UsageError(f"{one.name} is {value}, expected {wanted}. Change {written(one.name)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a model is loaded and run: device (auto, cpu, cuda, mps), dtype, prompts per forward pass, labels.

    What transformers takes (``dtype``, ``device_map``, ``quantization``, ``attn_implementation``, ``subfolder``,
    ``trust_remote_code``) is handed to ``from_pretrained``.
    ``prune``: recursive masking gives up branches whose probability is below it, .01 of a prompt in all at most; 0 is
    exact. ``allow_pickle``: files that run what their maker put in them (.joblib, .pkl, .kv) are read.
    ``function_to_apply``: what a pipeline in memory applies to its logits: sigmoid, softmax or none.
    """

    key: ClassVar[str] = "load"  # in a manifest's settings

    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps.")
    dtype: str = option("float32", "float32; bfloat16 or float16 (faster, change results); auto: as saved.")
    batch_size: int = option(64, "Texts per forward pass.", least=1)
    positive_label: str | None = option(None, "The classifier's label for positive.")
    negative_label: str | None = option(None, "The classifier's label for negative.")
    prune: float = option(
        0.0, "Recursive masking: give up branches less likely (.01 in all at most); 0 is exact.", least=0.0, most=1.0
    )
    device_map: str | None = option(None, "auto: spread a large model over GPUs and memory (accelerate).")
    quantization: str | None = option(None, "8bit or 4bit (bitsandbytes); changes results.")
    attn_implementation: str | None = option(None, "Attention of transformers: eager, sdpa, flash_attention_2.")
    subfolder: str = option("", "Folder of the model inside its repository.")
    adapter: str | None = option(None, "Adapter (PEFT) to merge: folder or OWNER/NAME[@REVISION].", place=True)
    trust_remote_code: bool = option(
        False, "Run the code of a model at a pinned commit (OWNER/NAME@COMMIT); with --trust alone."
    )
    function_to_apply: str | None = None
    allow_pickle: bool = option(False, "Read .joblib, .pkl, .kv: runs what their makers put in them.")


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
