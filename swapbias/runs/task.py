"""An experiment on a model with the rows that it reads, and one that was not run."""

from collections.abc import Sequence
from dataclasses import dataclass

from swapbias.models import Kind, kind_of
from swapbias.notes import Notes
from swapbias.studies import Experiment, Row, Study, column


@dataclass(frozen=True, slots=True)
class Task:
    """An experiment on a model with its rows."""

    study: Study
    """The study of the experiment."""
    experiment: Experiment
    """The experiment."""
    configs: tuple[str, ...]
    """Configs whose rows are read."""
    model: str = ""
    """Name of the model; blank for the default of the experiment."""
    model_kind: str = ""
    """Name of the kind of its model, where that is another than its experiment's; blank: the same."""
    rows: Sequence[Row] = ()
    """Prompts of the configs, then rewordings and the baseline."""
    n_prompts: int = 0
    """Number of the first rows, those of the configs."""
    notes: Notes | None = None
    """Notes on which classifiers are trained."""
    n_available: int = 0
    """Number of rows of the configs where a part of them is read; else 0."""
    factless: int = 0
    """Number of notes that are left out, for they state nothing that an answer could repeat."""
    repeats: str = ""
    """Sentence on pairs of the user's own that repeat another pair's texts, and are not read."""

    @property
    def kind(self) -> Kind:
        """Kind of its model."""
        return kind_of(self.model_kind or self.experiment.kind)

    @property
    def split(self) -> str:
        """The seed of the split of its notes, where they are split several times; blank: once, or no notes."""
        return self.notes.split if self.notes else ""

    @property
    def name(self) -> str:
        """Study and experiment."""
        return f"{self.study.name} {self.experiment.name}"

    @property
    def credentialed(self) -> bool:
        """True where it reads credentialed notes, or rows that say so."""
        if self.notes is not None and self.notes.is_credentialed:
            return True
        return any(str(mark) == "True" for mark in column(self.rows, "credentialed"))

    @property
    def lexicons(self) -> list[str]:
        """The word lists that its rows count."""
        return sorted(
            {name.rpartition("/")[0] for name in set(column(self.rows, "lexicon"))} - {""}
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that was not run."""

    study: str
    """Name of the study."""
    experiment: str
    """Name of the experiment, or of a part of one."""
    reason: str
    """Says what it lacks."""
