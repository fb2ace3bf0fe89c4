"""What a kind of model is: how it is named, chosen, loaded and read, and what its score columns mean."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from swapbias.errors import UsageError
from swapbias.files import is_there
from swapbias.models.scorer import Bar, LoadOptions, Say, Scorer
from swapbias.studies import Experiment, Row, column

PROMPTS, PAIRS, VERSIONS = "prompts", "note pairs", "note versions"  # the rows that an experiment can read
Training = Callable[[str, str], Sequence[Mapping[str, str]]]  # phenotype, regime -> training notes
Fit = tuple[str, str]  # a model, and why it does not fit: blank where it does


class Options(Protocol):
    """A frozen dataclass of what a user can set for a kind; ``key`` names it in a manifest's settings."""

    key: ClassVar[str]


Own = TypeVar("Own", bound=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user asked of models.

    Attributes:
        model: the one that is named; None: none is.
        kind: what the user says that it is.
        seed: of training and sampling.
        load: how models are loaded and run.
        options: of single kinds, each dataclass once at most.
    """

    model: str | None = None
    kind: str | None = None
    seed: int = 0
    load: LoadOptions = field(default_factory=LoadOptions)
    options: tuple[Options, ...] = ()

    def of(self, options: type[Own]) -> Own:
        """The options of this class, or their defaults."""
        return next((one for one in self.options if isinstance(one, options)), options())


@dataclass(frozen=True, slots=True)
class Column:
    """What a score column means: its name (``score`` is the first), unit, what more of it means, and its range."""

    name: str
    unit: str
    higher: str
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a model: its columns, and the scorer that reads so (``module:Class``; blank: the model itself).

    ``settings`` are the names of the ``LoadOptions`` that this scorer takes; ``passes`` is how many texts the model
    reads at most for one prompt.
    """

    columns: tuple[Column, ...]
    scorer: str = ""
    settings: tuple[str, ...] = ()
    passes: int = 1


class Kind(Protocol):
    """A kind of model. It is told what the user asked for and knows nothing of audits.

    Attributes:
        name: as experiments declare it.
        readings: the ways to read a model, by the name that experiments declare; blank is the usual one.
        options: its own settings, where it has any.
        architectures: endings of the architecture that a model's config names, and ``model_types``: families that
            are of this kind whatever their architecture is called. Where there are any, the model that is audited
            (``Request.model``) can be of this kind.
        default: the model that is read where none is named, if there is one.
    """

    name: str
    readings: Mapping[str, Reading]
    options: type[Any] | None = None
    architectures: tuple[str, ...] = ()
    model_types: tuple[str, ...] = ()
    default: str = ""

    def claims(self, model: str) -> bool:
        """Whether a name alone, without any config, says that a model is of this kind."""
        return False

    def of_head(self, model: str, config: Any, request: Request) -> str:
        """The kind of a model whose architecture is of this kind: another one where its head is read otherwise.

        Raises:
            UsageError: the config does not tell, and the user did not either.
        """
        return self.name

    def given(self, request: Request) -> bool:
        """Whether settings of its own were asked for."""
        return self.options is not None and request.of(self.options) != self.options()

    def spelled(self, options: Any) -> tuple[Any, tuple[str, ...]]:
        """Its options with what they point at (a log of answers) spelled out, and the studies that this names."""
        return options, ()

    def check(self, request: Request) -> None:
        """Refuse settings that cannot be meant, with a UsageError."""
        return

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """The models that read an experiment, or why none does; ``found`` is the kind of ``request.model``."""
        if found is None:
            yield (
                self.default,
                "" if self.default else f"it needs a {self.name} model, and none is embedded; name one",
            )
        elif found != self.name:
            yield "", f"it needs a {self.name} model and {short_name(request.model)} is of kind {found}"
        else:
            yield request.model or "", ""

    def rows(self, experiment: Experiment) -> str:
        """Which rows an experiment reads: ``PROMPTS``, ``PAIRS`` or ``VERSIONS``."""
        return PROMPTS

    def asked(self, rows: Sequence[Row], request: Request, experiment: Experiment) -> Sequence[Row]:
        """The rows of an experiment as the model is asked them."""
        return rows

    def sent(self, row: Mapping[str, str], request: Request) -> tuple[tuple[str, str], ...]:
        """Texts that are sent for a row as it is asked, each with its trial; the same are sent once."""
        return ((row["text"], row.get("trial", "")),)

    def trains(self, request: Request) -> bool:
        """Whether classifiers are trained on the notes that are not tested."""
        return False

    def unheard(self, request: Request, studies: str) -> str:
        """Which of its settings nothing reads but the experiments of these studies."""
        return f"Settings of {self.name} models are read by {studies}."

    def announce(self, rows: Sequence[Mapping[str, Any]], request: Request) -> str:
        """What scoring these rows takes, where that is worth a sentence before anything is sent."""
        return ""

    def calls(self, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> str:
        """How often the model is called for these rows; blank where ``announce`` says it."""
        passes = self.readings[experiment.reading].passes
        return f"{'at most ' if passes > 1 else ''}{passes * len(set(column(rows, 'text'))):,} model calls"

    def code(self, request: Request) -> tuple[str, ...]:
        """Models that its settings name and whose loading may run code."""
        return ()

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """A model that is to score these rows."""
        ...

    def wrap(self, model: Any, tokenizer: Any, *, model_id: str, load: LoadOptions) -> Scorer:
        """The scorer of a transformers model that the caller holds, which stays as it is.

        Raises:
            UsageError: this kind reads no such models.
        """
        raise UsageError(f"{type(model).__name__} cannot be read from memory. Save it and name its folder.")

    def read(
        self, model: Any, experiment: Experiment, request: Request, *, corpus: str, training: Training
    ) -> Scorer:
        """The scorer that reads an experiment on a corpus with a loaded model."""
        return self.read_as(model, experiment.reading, request.load)

    def read_as(self, model: Any, reading: str, load: LoadOptions) -> Scorer:
        """A loaded model, read in one of the ways of its kind.

        Raises:
            UsageError: there is no such way.
        """
        if reading not in self.readings:
            known = ", ".join(filter(None, self.readings)) or "none"
            raise UsageError(f"Unknown reading {reading!r} of a {self.name} model: expected {known}.")
        chosen = self.readings[reading]
        module, _, name = chosen.scorer.partition(":")
        settings = {one: getattr(load, one) for one in chosen.settings}
        scorer = getattr(import_module(f"swapbias.models.{module}"), name)(model, **settings) if name else model
        reader: Scorer = scorer
        return reader


def short_name(model: str | None) -> str:
    """A model's name without the path of this machine."""
    return Path(model).resolve().name if model and is_there(model) else str(model)
