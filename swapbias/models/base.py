"""How a model is named and loaded: settings of all kinds of models, and the request that holds them."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from swapbias.errors import UsageError, expected_value, listed, need, quoted
from swapbias.files import is_there
from swapbias.models.scorer import Progress, silent
from swapbias.studies import did_you_mean

VADER, TFIDF = "vader", "tfidf-lsa"
CLASSIFIERS = ("svm", "rf", "mlp")  # phenotype classifiers trained here; any other name is one of the user's
REGRESSION = "regression"  # a kind of text classifiers
PROMPTS, PAIRS, VERSIONS = "prompts", "note pairs", "note versions"  # the rows that an experiment can read

Bar = Callable[[str, int], Progress]  # title and total
Say = Callable[[str], None]  # called with a sentence for the user
Training = Callable[[str, str], Sequence[Mapping[str, str]]]  # phenotype, regime -> training notes
T = TypeVar("T")


def no_bar(title: str, total: int) -> Progress:
    """The progress of a bar that is not shown."""
    return silent


# Settings that the command line has as options of their own as well; all others are of -M alone.
FLAGS = ("kind", "limit", "margin", "seed", "device", "dtype", "batch_size", "chat", "base_url", "trials", "max_cost")


def option(default: Any, help: str, **more: Any) -> Any:
    """A setting of a kind of model, saved in the manifest; ``help`` is one sentence for the command line.

    ``more``: ``name`` on the command line; ``least`` and ``most``, or ``choices``; ``place``: may be a path but for
    the ``words``; ``unsaved``: whoever resumes a run sets it again, because a manifest may be anybody's; ``speed``: a
    matter of speed or costs alone, which changes no score; ``weights``: says which weights are read and how.
    """
    return field(default=default, metadata={"help": help, **more})


def settable(made: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The fields of a settings class that a user sets, with their types."""
    hints = get_type_hints(made)
    return ((one, hints[one.name]) for one in fields(made) if "help" in one.metadata)


def written(name: str) -> str:
    """The name of a setting as the command line has it.

    >>> written("trials"), written("max_tokens")
    ('--trials', '-M max-tokens')
    """
    return f"{'--' if name in FLAGS else '-M '}{name.replace('_', '-')}"


def validated(made: type[T]) -> type[T]:
    """A dataclass of settings whose names, types and ranges are checked: a UsageError of one sentence.

    Settings that are places take a ``Path`` too, and hold text.
    """
    hints = get_type_hints(made)
    types: Any = {one.name: (hints[one.name], None) for one in fields(made)}  # type: ignore[arg-type]
    strict = ConfigDict(strict=True, extra="forbid", protected_namespaces=())
    model, build = create_model(made.__name__, __config__=strict, **types), cast(Any, made).__init__
    places = [one.name for one in fields(made) if one.metadata.get("place")]  # type: ignore[arg-type]

    @wraps(build)
    def initialise(self: T, **values: Any) -> None:
        values |= {name: _as_text(values[name]) for name in places if name in values}
        try:
            checked = model(**values)
        except ValidationError as error:
            limits = {one.name: one.metadata for one in fields(made)}  # type: ignore[arg-type]
            raise UsageError(_sentence(error, hints, limits)) from None
        for one in fields(made):  # type: ignore[arg-type]
            _check_limits(one, hints[one.name], getattr(checked, one.name))
        build(self, **values)

    made.__init__ = initialise  # type: ignore[assignment]
    return made


def _as_text(place: Any) -> Any:
    """The text of a path or of those in a tuple; anything else as it is, to be checked."""
    if isinstance(place, tuple):
        return tuple(map(_as_text, place))
    return str(place) if isinstance(place, PathLike) else place


def _check_limits(one: Field[Any], of_type: Any, value: Any) -> None:
    choices, least, most = (one.metadata.get(name) for name in ("choices", "least", "most"))
    if value is not None and choices and re.sub(r":\d+$", ":N", value) not in choices:
        raise UsageError(f"Unknown {one.name} {quoted(value)}: expected {listed(choices)}.")
    # NaN is in no range
    if value is not None and least is not None and not least <= value <= (most or sys.float_info.max):
        wanted = expected_value(of_type, least, most)
        hint = one.metadata["hint"](value) if "hint" in one.metadata else ""
        step = f"{hint[:1].upper()}{hint[1:]}." if hint else f"Change {written(one.name)}."
        raise UsageError(f"{one.name} is {value}, expected {wanted}. {step}")


def _sentence(error: ValidationError, types: Mapping[str, Any], limits: Mapping[str, Mapping[str, Any]]) -> str:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return f"Unknown setting {quoted(name)}.{did_you_mean(name, list(limits)) or ' See swapbias help settings.'}"
    expected = expected_value(types[name], limits[name].get("least"), limits[name].get("most"))
    return f"{name} is {quoted(first['input'])}, expected {expected}. Change {written(name)}."


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How a model is loaded and run; ``function_to_apply`` is what a pipeline in memory applies to its logits."""

    key: ClassVar[str] = "load"  # in a manifest's settings

    device: str = option(
        "auto", "auto, cpu, cuda, cuda:N or mps.", choices=("auto", "cpu", "cuda", "cuda:N", "mps"), speed=True
    )
    dtype: str = option(
        "float32", "float32; bfloat16, float16 (change results); auto: bfloat16 where it is 4 times as fast.",
        choices=("float32", "bfloat16", "float16", "auto"),
    )  # fmt: skip
    batch_size: int = option(64, "Texts per forward pass; a GPU reads more at once.", least=1, speed=True)
    positive_label: str | Sequence[str] | None = option(
        None, "The classifier's label for positive, or several with commas between, which are summed."
    )
    negative_label: str | Sequence[str] | None = option(
        None, "The classifier's label for negative, or several with commas between."
    )
    device_map: str | None = option(
        None, "auto: spread a large model over GPUs and memory (accelerate).", weights=True, speed=True
    )
    quantization: str | None = option(
        None, "8bit or 4bit (bitsandbytes); changes results.", choices=("8bit", "4bit"), weights=True
    )
    attn_implementation: str | None = option(
        None, "Attention of transformers: eager, sdpa, flash_attention_2.", weights=True
    )
    subfolder: str = option("", "Folder of the model inside its repository.", weights=True)
    adapter: str | None = option(
        None, "Adapter (PEFT) to merge: folder or OWNER/NAME[@REVISION].", place=True, weights=True
    )
    trust_remote_code: bool = option(
        False, "Run the code of a model at a pinned commit (OWNER/NAME@COMMIT); with --trust alone.", weights=True
    )
    function_to_apply: str | None = None

    def refuse_weights_settings(self, model: str) -> None:
        """Refuse settings of how weights are read, with a UsageError, for a model that has none here."""
        settings = (one for one, _ in settable(type(self)) if one.metadata.get("weights"))
        changed = [written(one.name) for one in settings if getattr(self, one.name) != one.default]
        if changed:
            why = f"{' and '.join(changed)} changes how weights are read, and {model} has none that are loaded here"
            raise UsageError(f"{why}. Drop it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The model that a user names, its kind, how it is loaded, the seed, and settings of single kinds."""

    model: str | None = None
    kind: str | None = None
    seed: int = field(default=0, metadata={"least": 0})
    load: LoadOptions = field(default_factory=LoadOptions)
    options: tuple[Any, ...] = ()

    def of(self, options: type[T]) -> T:
        """The settings of this class, or their defaults."""
        return next((one for one in self.options if isinstance(one, options)), options())

    def places(self) -> list[str]:
        """The models and files that are named: some may be Python functions, whose loading runs code."""
        named = [self.model]
        for made in (self.load, *self.options):
            for one in (each for each, _ in settable(type(made)) if each.metadata.get("place")):
                value = getattr(made, one.name)
                named += value if isinstance(value, tuple) else [value]
        return [name for name in named if name]


def need_vader() -> None:
    """Raise a MissingExtraError where the lexicon of VADER is not installed."""
    need("vader", "vaderSentiment", extra="lexicon")


def is_callable(model: str) -> bool:
    """Whether a model name is ``module:function``."""
    module, _, function = model.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def short_name(model: str | None) -> str:
    """A model's name without the path of this machine."""
    return Path(model).resolve().name if model and is_there(model) else str(model)
