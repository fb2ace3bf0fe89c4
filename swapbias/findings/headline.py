"""Which findings are told first, and findings as numbers from 0 to 1 where higher is fairer."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from swapbias.errors import UsageError
from swapbias.findings.finding import Finding
from swapbias.measures import MEASURES, Scale
from swapbias.studies import Experiment, load_study

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
