"""The Finding: one estimate and everything needed to read it."""

from dataclasses import asdict, dataclass
from typing import Any

from swapbias.measures import MEASURES, Estimate
from swapbias.scorers import unit_of
from swapbias.studies import Experiment, Published


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One estimate and everything needed to read it.

    Attributes:
        study, experiment, model_id: what was audited.
        score: the score column: ``score`` is the published one.
        measure: one of ``measures.MEASURES``.
        contrast: what is subtracted from what, or the group of a mean.
        subset: part of the rows that is analysed apart; ``a - b`` for a difference of gaps.
        slice_by, slice_value: ``all``, or the slice and its value.
        unit: unit of the value.
        direction: what the sign means and which direction is worse.
        robust: blank for the paper's statistic (of chat answers: the one over sentence pairs); else what the other
            one does (clusters, permutation, over trials as published).
        estimate: the numbers.
        higher_group: of a rate: the group with the higher one, or with more positives; blank where they are equal.
        published: the number to hold it against, if there is one.
    """

    study: str
    experiment: str
    model_id: str
    score: str = "score"
    measure: str
    contrast: str
    subset: str = ""
    slice_by: str = "all"
    slice_value: str = ""
    unit: str
    direction: str = ""
    robust: str = ""
    estimate: Estimate
    higher_group: str = ""
    published: Published | None = None

    def row(self) -> dict[str, Any]:
        """The finding as one flat row; numbers are native, NaN where undefined."""
        published = self.published or Published()
        flat = asdict(self)
        del flat["estimate"], flat["published"]
        return {
            **flat,
            **asdict(self.estimate),
            **{f"published_{k}": v for k, v in asdict(published).items()},
        }

    def key(self) -> tuple[str, ...]:
        """What a published number is matched on."""
        return (self.experiment, self.subset, self.measure, self.contrast, self.slice_by, self.slice_value)


@dataclass(frozen=True, slots=True)
class Context:
    """What the findings of one score of one experiment have in common."""

    study: str
    model_id: str
    experiment: Experiment
    score: str
    seed: int = 0

    def finding(self, estimate: Estimate, measure: str, contrast: str, subset: str, **more: Any) -> Finding:
        """A finding of it; ``more`` are further fields of ``Finding``. The unit is the measure's, or the score's."""
        unit = more.pop("unit", MEASURES[measure].unit or unit_of(self.experiment, self.score))
        return Finding(
            study=self.study, experiment=self.experiment.name, model_id=self.model_id, score=self.score,
            measure=measure, contrast=contrast, subset=subset, unit=unit, estimate=estimate, **more,
        )  # fmt: skip
