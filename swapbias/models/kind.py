"""A kind of models describes itself: how it is chosen, loaded and read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

from swapbias.errors import UsageError, listed
from swapbias.measures import Unit, units
from swapbias.models.base import Request, Training
from swapbias.models.immutable import Immutable
from swapbias.models.model_names import is_callable, short_name
from swapbias.models.progress import Bar, Say, no_bar, silent
from swapbias.models.scorer import Scorer
from swapbias.studies import JUDGED, Experiment, Row, column, option_texts

_LOAD = "load or scorer"  # a need of which one is enough


class Fit(NamedTuple):
    """A model for an experiment, or the reason why none reads it."""

    model: str = ""
    """Name of the model; blank where another setting is needed."""
    why_not: str = ""
    """Why it does not read the experiment, as half a sentence; blank where it does."""


class RowSource(StrEnum):
    """Rows that an experiment can read."""

    PROMPTS = "prompts"
    """The prompts of its configs."""
    PAIRS = "note pairs"
    """Notes in pairs that differ in the gender alone."""
    VERSIONS = "note versions"
    """Notes as they are and neutralised."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a model."""

    units: Mapping[str, str]
    """The unit of each score column, that of ``score`` first."""
    scorer: str = ""
    """Its scorer (``module:Class``); blank: the loaded model itself."""
    passes: int = 1
    """Forward passes per prompt, at most."""
    columns: tuple[str, ...] = ()
    """Further columns that it gives, in the unit of the score."""


class Kind(Immutable):
    """A kind of model, and how its models are found, loaded and read.

    A new one needs ``name``, ``readings``, and ``load`` or ``scorer``; ``fits`` and ``rows`` where they differ.
    """

    needs = ("name", "readings", _LOAD)
    noun = "A kind of model"

    name: str
    """Names it in experiments, settings and findings."""
    title: str = ""
    """What a list of studies calls its models; blank: its name."""
    readings: Mapping[str, Reading]
    """The ways to read its models by the name that experiments declare, blank for the usual one."""
    options: type[Any] | None = None
    """The class of its own settings."""
    scorer: str = ""
    """The ``TransformersScorer`` of its models (``module:Class``)."""
    function_scorer: str = ""
    """The scorer of Python functions that are of it (``module:Class``); blank: no function is."""
    architectures: tuple[str, ...] = ()
    """Endings of architectures in configs of this kind; where there are any, audited models can be of it."""
    model_types: tuple[str, ...] = ()
    """The ``model_type`` of configs whose models are of this kind whatever their architecture."""
    default: str = ""
    """The model that is read where none is named."""
    own_texts: str = ""
    """A sentence on how its models, which read no notes, are asked about texts of the user's."""

    def load(self, model: str, request: Request, *, say: Say = silent, bar: Bar = no_bar) -> Any:
        """Load a model, which ``read`` makes scorers of.

        Args:
            model: a name as ``fits`` yields it.
            request: says how it is loaded.
            say: called with sentences for the user.
            bar: begins a bar for work that takes long.

        Returns:
            The loaded model, whose type is a matter of the kind; of ``module:function`` a scorer of the function,
            where the kind has functions.
        """
        if self.function_scorer and is_callable(model):
            scorer = imported(self.function_scorer)
            return scorer.load(model, batch_size=request.load.batch_size)
        return imported(self.scorer).load(model, request.load)

    def fits(
        self, experiment: Experiment, request: Request, model_kind: str | None
    ) -> Iterator[Fit]:
        """Find the models that read an experiment, or why none does.

        Args:
            experiment: an experiment of this kind.
            request: the model that the user names, and settings.
            model_kind: the kind of ``request.model``; None: no model is named.

        Yields:
            Models that read it, or the reason why none does.
        """
        if model_kind == self.name:
            yield Fit(request.model or "")
        elif model_kind is not None:
            model = short_name(request.model)
            yield Fit(why_not=f"it needs a {self.name} model and {model} is of kind {model_kind}")
        elif self.default:
            yield Fit(self.default)
        else:
            yield Fit(why_not=f"it needs a {self.name} model, {self._way_to_give}")

    def also_reads(self, experiment: Experiment, request: Request) -> bool:
        """Return whether its models read an experiment of another kind.

        Args:
            experiment: an experiment of any other kind.
            request: the model that the user names, and settings.
        """
        return False

    @property
    def _way_to_give(self) -> str:
        """Say how a model of this kind is given where it has no default."""
        if self.architectures:
            return "and none is embedded; name one"
        return f"given to swapbias.audit in Python as a Scorer of kind {self.name!r}"

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        """Check that the libraries are there that read an experiment with a model.

        Args:
            model: a name as ``fits`` yields it.
            experiment: what is read.
            request: settings of the model.

        Raises:
            MissingExtraError: One is not installed.
        """
        return

    def rows(self, experiment: Experiment) -> RowSource:
        """Return which rows an experiment reads.

        Args:
            experiment: an experiment of this kind.
        """
        return RowSource.PROMPTS

    def unit_of(self, experiment: Experiment, score: str) -> Unit:
        """Return the unit of a score column.

        Args:
            experiment: an experiment of this kind.
            score: name of the column.

        Returns:
            The unit that the experiment declares for ``score``; for another column that of its reading; for a column
            that the reading does not declare that of ``score``.
        """
        unit_names = self.readings[experiment.reads.reading].units
        if score == "score":
            return experiment.compares.unit
        if score not in unit_names:
            return replace(experiment.compares.unit, taken_from="")
        if score == JUDGED and experiment.reads.rubric is not None:
            return units.named_unit(
                unit_names[score], *option_texts.range_of(experiment.reads.rubric.candidates)
            )
        return units.named_unit(unit_names[score])

    def read(
        self,
        model: Any,
        experiment: Experiment,
        request: Request,
        *,
        corpus: str,
        training: Training,
    ) -> Scorer:
        """Return the scorer that reads an experiment on a corpus, configured for it.

        Args:
            model: a model that ``load`` returned.
            experiment: what is read.
            request: settings of the model.
            corpus: name of the corpus whose rows are read.
            training: gives training notes, for models that are trained on them.

        Raises:
            UsageError: The kind has no reading of the name that the experiment declares.
        """
        return self.read_as(model, experiment.reads.reading)

    def read_as(self, model: Any, reading: str) -> Scorer:
        """Return the scorer that reads a model in one of the ways of its kind.

        Args:
            model: a model that ``load`` returned.
            reading: name of the way; empty for the usual one.

        Raises:
            UsageError: There is no such way.
        """
        if reading not in self.readings:
            names = listed(self.readings)
            raise UsageError(
                f"Unknown reading {reading!r} of a {self.name} model: expected {names}."
            )
        scorer = self.readings[reading].scorer
        reader: Scorer = imported(scorer)(model) if scorer else model
        return reader

    def expand(
        self, rows: Sequence[Row], request: Request, experiment: Experiment
    ) -> Sequence[Row]:
        """Return the rows that the model reads.

        Args:
            rows: rows of an experiment.
            request: settings of the model.
            experiment: what is read.

        Returns:
            The same rows; for a chat model one for each trial.
        """
        return rows

    def announce(
        self,
        rows: Sequence[Mapping[str, Any]],
        request: Request,
        experiment: Experiment,
        seen: set[str],
    ) -> str:
        """Say how many requests rows take.

        Args:
            rows: rows of an experiment.
            request: settings of the model.
            experiment: what is read.
            seen: requests that are counted already; those of these rows are added to it.

        Returns:
            A sentence; empty where there are no requests.
        """
        return ""

    def calls(self, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> str:
        """Say how many forward passes rows take, of a model without requests.

        Args:
            experiment: what is read.
            rows: its rows; each text is read once.
        """
        passes = self.readings[experiment.reads.reading].passes
        texts = set(column(rows, "text"))
        if passes > 1:
            return f"at most {passes * len(texts):,} model calls"
        return f"{len(texts):,} model calls"

    def _has(self, need: str) -> bool:
        if need == _LOAD:
            return bool(self.scorer) or type(self).load is not Kind.load
        return super()._has(need)


def imported(name: str) -> Any:
    """Import an object of this room on use.

    Args:
        name: ``module:name``, the module without ``swapbias.models``.
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"swapbias.models.{module}"), attribute)
