"""An experiment on a model with the rows that it reads, and one that was not run."""

from collections.abc import Sequence
from dataclasses import dataclass

from swapbias.models import Kind, kind_of
from swapbias.notes import Notes
from swapbias.studies import Experiment, Row, Study, column


@dataclass(frozen=True, slots=True)
class Task:
    """An experiment on a model; the first ``n_prompts`` rows are of its configs, part of ``n_available`` if set."""

    study: Study
    experiment: Experiment
    configs: tuple[str, ...]
    model: str = ""
    rows: Sequence[Row] = ()
    n_prompts: int = 0
    notes: Notes | None = None
    """What classifiers are trained on."""
    n_available: int = 0
    factless: int = 0
    """Notes that are left out, for they state nothing that an answer could repeat."""
    repeats: str = ""
    """How many pairs of the user's own repeat another pair's texts, and are not read."""

    @property
    def kind(self) -> Kind:
        """The kind of its model."""
        return kind_of(self.experiment.kind)

    @property
    def name(self) -> str:
        """Study and experiment."""
        return f"{self.study.name} {self.experiment.name}"

    @property
    def credentialed(self) -> bool:
        """Whether it reads credentialed notes, or rows that say so."""
        notes = self.notes is not None and self.notes.credentialed
        return notes or any(str(one) == "True" for one in column(self.rows, "credentialed"))

    @property
    def lexicons(self) -> list[str]:
        """The word lists that its rows count."""
        return sorted(
            {name.rpartition("/")[0] for name in set(column(self.rows, "lexicon"))} - {""}
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that was not run, and why."""

    study: str
    experiment: str
    reason: str
