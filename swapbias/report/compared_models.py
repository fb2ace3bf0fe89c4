"""What a comparison of models is made of: its models, the quantities of each, and the pairs that moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from swapbias.findings import Finding, experiment_of
from swapbias.report.moved_pairs import MovedPair, largest_moves
from swapbias.report.page_pairs import in_unit_of_scores, shows_pairs
from swapbias.studies import Experiment

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWN = 5
"""Most models whose levels and pairs are shown side by side."""


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model of a run."""

    name: str
    """As the page calls it; no other model of the page has it."""
    run: str
    """Where it is from, without a place of this machine."""
    manifest: Mapping[str, Any]
    """Of its run."""
    found: Sequence[Finding]
    """Its findings."""
    report: str = ""
    """The address of the report of its run, from the folder of the page; blank for none."""
    title: str = ""
    """Names model and run; no other model of a comparison has it."""
    folder: Path | None = None
    """Of its run; None for one of the Hub."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity that was measured on the same prompts."""

    found: tuple[Finding | None, ...]
    """Finding of each model in their order; None where there is none."""
    note: str = ""
    """Says how it differs from others of its name: prompts, word lists, trials."""
    differences_by_model: Mapping[str, Finding] | None = None
    """Value of each model minus the reference's, by name; None where none was tested."""

    @property
    def known(self) -> list[Finding]:
        """Findings of the models that have one."""
        return [finding for finding in self.found if finding is not None]

    @property
    def primary(self) -> bool:
        """True where it answers the question of its experiment."""
        return any(finding.primary for finding in self.known)


@dataclass(frozen=True, slots=True)
class ComparedContent:
    """Content of a comparison of models."""

    models: Sequence[ComparedModel]
    """Models in alphabetical order."""
    reference: str
    """The name of the model that the others are compared with."""
    quantities: Sequence[Quantity]
    """Rows of the comparison, by study."""
    differences: Sequence[Finding]
    """Differences of all models and correlations over them."""
    notes: Sequence[str]
    """Sentences on what is not comparable, and what is left out."""
    moved: Mapping[tuple[str, str], Sequence[MovedPair]] = field(default_factory=dict)
    """The pairs whose gap differs most between a model and the reference, by study and experiment."""

    @property
    def questions(self) -> dict[tuple[str, str], list[Quantity]]:
        """Primary quantities by study and experiment."""
        questions: dict[tuple[str, str], list[Quantity]] = {}
        for quantity in self.quantities:
            if quantity.primary:
                first = quantity.known[0]
                questions.setdefault((first.study, first.experiment), []).append(quantity)
        return questions

    def with_moved_pairs(self, scored: Mapping[str, Mapping[str, "pd.DataFrame"]]) -> Self:
        """Return the content with the pairs whose gap differs most between the models.

        Args:
            scored: scored rows by study and model; those without texts are left out, as are notes.
        """
        moved = {}
        for (study, name), quantities in self.questions.items():
            experiment = experiment_of(quantities[0].known[0])
            if experiment is None or not experiment.is_paired or not shows_pairs(experiment):
                continue
            rows_by_model = {
                model: rows[rows["experiment"] == name]
                for model, rows in scored.get(study, {}).items()
                if "text" in rows
            }
            pairs = self._moved_of_question(study, experiment, rows_by_model)
            if pairs:
                moved[study, name] = pairs
        return replace(self, moved=moved)

    def _moved_of_question(
        self, study: str, experiment: Experiment, rows_by_model: Mapping[str, "pd.DataFrame"]
    ) -> list[MovedPair]:
        """Return the pairs of one question that moved most; none of models whose scores have another unit."""
        in_units = {
            model.name: in_unit_of_scores(study, experiment, model.found)
            for model in self.models
            if model.name in rows_by_model
        }
        if self.reference not in in_units:
            return []
        in_unit = in_units[self.reference]
        alike = {
            model: rows_by_model[model]
            for model, read_as in in_units.items()
            if read_as.compares.unit == in_unit.compares.unit
        }
        return largest_moves(in_unit, alike, self.reference)
