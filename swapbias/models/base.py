"""How a model is named and loaded: settings of all kinds of models, and the request that holds them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from swapbias.errors import UsageError, need
from swapbias.models.options import STRICT, Options, Place, Use, as_tuple

VADER = "vader"
CALIBRATION = "calibration"
"""The model that is trained here with a bias of known size."""
UNBIASED = "calibration-unbiased"
"""The same model with nothing planted."""
TFIDF = "tfidf-lsa"
CLASSIFIERS = ("svm", "rf", "mlp")
"""Phenotype classifiers that are trained here; any other name is one of the user's."""
REGRESSION = "regression"
"""A kind of text classifiers."""

Training = Callable[[str, str], Sequence[Mapping[str, str]]]
"""Gives training notes by phenotype and regime."""
T = TypeVar("T")
Labels = Annotated[str | tuple[str, ...] | None, BeforeValidator(as_tuple)]
"""Labels of a classifier: one, or several."""
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LoadOptions(Options):
    """Settings of loading and running a model."""

    key: ClassVar[str] = "load"
    """The table of files and manifests that has these settings."""

    device: Annotated[
        str,
        Field(
            pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$",
            examples=["auto", "cpu", "cuda", "cuda:N", "mps"],
        ),
        Use(flag=True, speed=True),
    ] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    dtype: Annotated[Literal["float32", "bfloat16", "float16", "auto"], Use(flag=True)] = "float32"
    """float32; bfloat16, float16 (change results); auto: bfloat16 where it is 4 times as fast."""
    batch_size: Annotated[Count, Use(flag=True, speed=True)] = 64
    """Texts per forward pass; a GPU reads more at once."""
    positive_label: Labels = None
    """The classifier's label for positive, or several with commas between, which are summed."""
    negative_label: Labels = None
    """The classifier's label for negative, or several with commas between."""
    device_map: Annotated[str | None, Use(weights=True, speed=True)] = None
    """auto: spread a large model over GPUs and memory (accelerate)."""
    quantization: Annotated[Literal["8bit", "4bit"] | None, Use(weights=True)] = None
    """8bit or 4bit (bitsandbytes); changes results."""
    attn_implementation: Annotated[str | None, Use(weights=True)] = None
    """Attention of transformers: eager, sdpa, flash_attention_2."""
    subfolder: Annotated[str, Use(weights=True)] = ""
    """Folder of the model inside its repository."""
    adapter: Annotated[Place | None, Use(place=True, weights=True)] = None
    """Adapter (PEFT) to merge: folder or OWNER/NAME[@REVISION]."""
    trust_remote_code: Annotated[bool, Use(weights=True)] = False
    """Run the code of a model at a pinned commit (OWNER/NAME@COMMIT); with --trust alone."""
    function_to_apply: Annotated[str | None, Use(inner=True)] = None
    """What a pipeline in memory applies to its logits."""

    def refuse_weights_settings(self, model: str) -> None:
        """Refuse settings of how weights are read for a model that has none here.

        Args:
            model: its name for the sentence.

        Raises:
            UsageError: Such a setting has another value than its default.
        """
        changed = [setting.written for setting in self.not_usual() if setting.use.weights]
        if changed:
            raise UsageError(
                f"{' and '.join(changed)} changes how weights are read, "
                f"and {model} has none that are loaded here. Drop it."
            )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Request(Options):
    """The model that a user names, its kind, how it is loaded, the seed, and settings of single kinds."""

    model: Annotated[Place | None, Use(place=True, words=(VADER,), elsewhere=True)] = None
    """Hub id (OWNER/NAME[@REVISION]), folder, vader or module:function; none: a demonstration."""
    kind: Annotated[str | None, Use(flag=True)] = None
    """masked, classifier, regression, causal, tagger, retrieval; if not detected."""
    seed: Annotated[int, Field(ge=0), Use(flag=True)] = 0
    """Seed of resampling and of the demonstration."""
    load: Annotated[LoadOptions, Use(inner=True)] = LoadOptions()
    """How the model is loaded."""
    options: Annotated[tuple[Any, ...], BeforeValidator(as_tuple), Use(inner=True)] = ()
    """Settings of single kinds of models, an object of each class."""

    def of(self, options: type[T]) -> T:
        """Return the settings of a class of single kinds of models.

        Args:
            options: the class.

        Returns:
            The object that the user set, or one with all defaults.
        """
        return next((chosen for chosen in self.options if isinstance(chosen, options)), options())

    def places(self) -> list[str]:
        """Return the models and files that are named: some may be Python functions, whose loading runs code."""
        paths = [self.model]
        for options in (self.load, *self.options):
            for setting in options.settings():
                if not setting.use.place:
                    continue
                value = getattr(options, setting.name)
                if isinstance(value, tuple):
                    paths += value
                else:
                    paths.append(value)
        return [path for path in paths if path]


def need_vader() -> None:
    """Raise a MissingExtraError where the lexicon of VADER is not installed."""
    need("vader", "vaderSentiment")
