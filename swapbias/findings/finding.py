"""The Finding, which findings are told first, and findings turned so that higher is fairer."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from swapbias.errors import UsageError
from swapbias.measures import MEASURES, Estimate, Scale
from swapbias.scorers import unit_of
from swapbias.studies import Experiment, Published, load_study


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


_ROUNDING = 1e-6  # cosines and probabilities are kept as float32


def headlines(found: Iterable[Finding], *, rates: bool = False, views: bool = False) -> list[Finding]:
    """The comparisons over all rows, those across a slice last; no means.

    Args:
        found: of any runs.
        rates: with those that have a table of their own.
        views: with the robust statistics and the other scores, beside the paper's statistic of the published score.
    """
    chosen = [
        (record.across, one)
        for one in found
        for record in [MEASURES[one.measure]]
        if record.comparison
        and (one.slice_by == "all" or record.across)
        and (rates or not record.tabled)
        and (views or (one.score == "score" and not one.robust))
    ]
    return [one for last in (False, True) for across, one in chosen if across == last]


def headline_of_each(found: Iterable[Finding]) -> list[Finding]:
    """The headline that stands for each experiment: one for each study, experiment and model, in the order given.

    It is the measure and the subset that the experiment declares: the first of a contrast (mental-health conditions),
    or notes as they were written. Studies and experiments that this version does not know have none.

    Raises:
        ValueError: two such findings for one experiment of a model.
    """
    chosen: dict[tuple[str, str, str], Finding] = {}
    for one in headlines(found, rates=True):
        experiment = experiment_of(one)
        if experiment is None or (one.measure, one.subset) != experiment.headline:
            continue
        key = (one.study, one.experiment, one.model_id)
        if key in chosen:
            raise ValueError(
                f"{one.study} {one.experiment}: two findings over all rows of {one.model_id}, expected one. "
                "Give the findings of one run."
            )
        chosen[key] = one
    return list(chosen.values())


def experiment_of(finding: Finding) -> Experiment | None:
    """What its study declares of a finding's experiment; None where this version does not know it."""
    try:
        study = load_study(finding.study)
    except UsageError:
        return None
    return next((one for one in study.experiments if one.name == finding.experiment), None)


@dataclass(frozen=True, slots=True)
class Oriented:
    """A finding as a number from 0 (as unequal as can be) to 1 (no measured difference); it has no unit.

    Attributes:
        value: the number.
        low, high: its interval, NaN where the finding has none. Where the finding's interval holds "no
            difference", ``high`` is 1, above both transformed ends.
        how: how it was made, in words.
    """

    value: float
    low: float
    high: float
    how: str


def oriented(finding: Finding) -> Oriented | None:
    """A finding as a number where higher is fairer, by ``Measure.scale_in`` its unit.

    Returns:
        None where the value is NaN, the measure has no orientation, or the unit is not known: never a guess.

    Raises:
        ValueError: a value outside the range of its unit, or interval ends in the wrong order.
    """
    estimate = finding.estimate
    scale = MEASURES[finding.measure].scale_in(finding.unit)
    if scale is None or math.isnan(estimate.value):
        return None
    room = _ROUNDING * (scale.most - scale.least) if math.isfinite(scale.most - scale.least) else 0.0
    if not scale.least - room <= estimate.value <= scale.most + room:
        raise ValueError(
            f"{finding.study} {finding.experiment}: {finding.measure} of {estimate.value:g} {finding.unit}, expected "
            f"{scale.least:g} to {scale.most:g}. Check the scores."
        )
    if estimate.ci_low > estimate.ci_high:
        raise ValueError(
            f"{finding.study} {finding.experiment}: interval {estimate.ci_low:g} to {estimate.ci_high:g}, expected "
            "the lower end first. Check the results."
        )
    low, high = _interval(scale, float(estimate.ci_low), float(estimate.ci_high))
    return Oriented(_at(scale, float(estimate.value)), low, high, scale.how)


def _at(scale: Scale, value: float) -> float:
    return min(1.0, max(0.0, scale.fair(min(scale.most, max(scale.least, value)))))


def _interval(scale: Scale, low: float, high: float) -> tuple[float, float]:
    """The worst and the best of an interval: no difference may lie within it, where the best is, not at an end."""
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan
    ends = _at(scale, low), _at(scale, high)
    return min(ends), 1.0 if low <= scale.neutral <= high else max(ends)
