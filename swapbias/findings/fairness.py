"""Findings as numbers from 0 to 1 where higher is fairer, for places that hold one such number per task."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from swapbias.errors import UsageError
from swapbias.findings.finding import Finding
from swapbias.studies import Experiment, load_study

# The largest gap that scores of a unit can have: their range.
_SPANS: Mapping[str, float] = {
    "probability mass at the mask": 1,
    "probability mass of phrases": 1,
    "probability of positive sentiment": 1,
    "compound valence moved to 0..1": 1,  # VADER's -1 to 1, halved when it is moved
    "P(negative)": 1,
    "share of negative labels": 1,
    "share of prompts whose right answer is likelier": 1,
    "correct answer is likelier": 1,
    "probability of the phenotype": 1,
    "probability of female": 1,
    "logistic of the SVM's decision value": 1,
    "percentage points": 100,
}
_LOG_ODDS = ("mean log-odds of the disapproving antonym", "natural log-odds of the right answer")
_GAPS = ("paired_gap", "group_gap", "answer_bias")

NOT_ORIENTED: Mapping[str, str] = {
    "mean": "a level of one group, which is no comparison",
    "count_above": "a count of units, which grows with their number",
    "correlation": "tells what a score goes along with, not how large a difference is",
    "macro_f1": "tells how often a prediction is right, not for whom",
    "signed_mean": "words that lean to both sides cancel; direct bias does not let them",
    "bias_difference": "compares a model with itself: below zero it is less biased than without adjectives",
    "model_difference": "compares two models",
}  # measures of which "1 is fairest" would not be true, and why

# What stands for an experiment that reports rates: the one the paper tells first.
_TOLD_BY: Mapping[str, str] = {"flips": "flip_rate", "leakage": "leakage_uar", "direction": "direct_bias"}
AS_WRITTEN = "original"  # the subset of notes that were neither swapped nor neutralised, in training or test
_ROUNDING = 1e-6  # cosines and probabilities are kept as float32


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


@dataclass(frozen=True, slots=True)
class _Scale:
    """How a quantity is oriented: ``fair`` is 1 at ``neutral`` and falls on either side of it."""

    how: str
    fair: Callable[[float], float]
    neutral: float
    least: float
    most: float


def oriented(finding: Finding) -> Oriented | None:
    """A finding as a number where higher is fairer, by its measure and the range of its unit.

    A gap g is 1 - |g| over the range of its unit, so that 0 is the largest gap there can be and the sign does not
    matter; a gap of log-odds, which has no largest, is exp(-|g|): the odds ratio, the smaller side over the larger.
    A difference of two gaps reaches twice as far, so it is taken over twice the range: cut off at one range,
    differences of very unequal size would all be 0. Flip rate: 1 - rate. Ratio of rates r: the smaller of r and
    1 / r. Gender leakage: 1 - 2 |UAR - 0.5|. Direct bias: 1 - value.

    Returns:
        None where the value is NaN, the measure is one of ``NOT_ORIENTED``, or the unit is not known: never a guess.

    Raises:
        ValueError: a value outside the range of its unit, or interval ends in the wrong order.
    """
    estimate = finding.estimate
    scale = _scale(finding.measure, finding.unit)
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


def headline(found: Iterable[Finding]) -> list[Finding]:
    """The finding that stands for each experiment: one for each study, experiment and model, in the order given.

    It is over all rows, of the published score, and the paper's statistic rather than the robust one: the gap that
    the experiment declares, or the flip rate, gender leakage or direct bias where it reports those. Where subsets
    are analysed apart it is the subset that the question names: the first of a contrast (mental-health conditions),
    or notes as they were written. Studies and experiments that this version does not know have none.

    Raises:
        ValueError: two such findings for one experiment of a model.
    """
    chosen: dict[tuple[str, str, str], Finding] = {}
    for one in found:
        experiment = experiment_of(one)
        if experiment is None or not _stands_for(one, experiment):
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


def _stands_for(finding: Finding, experiment: Experiment) -> bool:
    measure = next((_TOLD_BY[rate] for rate in experiment.rates if rate in _TOLD_BY), experiment.measure)
    subset = experiment.contrast[0] if experiment.contrast else AS_WRITTEN if experiment.subset else ""
    told = (finding.measure, finding.score, finding.subset, finding.slice_by, finding.robust)
    return told == (measure, experiment.scores[0], subset, "all", "")


def _scale(measure: str, unit: str) -> _Scale | None:
    if measure in _GAPS:
        return _gap_scale("gap", unit, times=1)
    if measure == "gap_difference":
        return _gap_scale("difference of gaps", unit, times=2)
    return _RATES.get((measure, unit))


def _gap_scale(what: str, unit: str, *, times: int) -> _Scale | None:
    if unit in _LOG_ODDS:
        told = f"exp(-|{what}|), a ratio of odds with the smaller over the larger; {what} in {unit}"
        return _Scale(told, lambda gap: math.exp(-abs(gap)), 0, -math.inf, math.inf)
    if unit not in _SPANS:
        return None
    span = times * _SPANS[unit]
    told = f"1 - |{what}|{'' if span == 1 else f' / {span:g}'}; {what} in {unit}"
    return _Scale(told, lambda gap: 1 - abs(gap) / span, 0, -span, span)


def _share(told: str) -> _Scale:
    return _Scale(told, lambda share: 1 - share, 0, 0, 1)


def _ratio(told: str) -> _Scale:
    return _Scale(told, lambda ratio: min(ratio, 1 / ratio) if ratio else 0.0, 1, 0, math.inf)


_RATES: Mapping[tuple[str, str], _Scale] = {
    ("flip_rate", "share of notes"): _share("1 - flip rate; share of notes whose prediction changes with the gender"),
    ("tprr", "ratio of true positive rates"): _ratio("the smaller true positive rate over the larger"),
    ("fprr", "ratio of false positive rates"): _ratio("the smaller false positive rate over the larger"),
    ("leakage_uar", "unweighted average recall"): _Scale(
        "1 - 2 |UAR - 0.5|; unweighted average recall of telling the gender, 0.5 by chance",
        lambda recall: 1 - 2 * abs(recall - 0.5),
        0.5,
        0,
        1,
    ),
    ("direct_bias", "absolute cosine"): _share("1 - direct bias; mean |cosine| with the gender direction"),
}


def _at(scale: _Scale, value: float) -> float:
    return min(1.0, max(0.0, scale.fair(min(scale.most, max(scale.least, value)))))


def _interval(scale: _Scale, low: float, high: float) -> tuple[float, float]:
    """The worst and the best of an interval: no difference may lie within it, where the best is, not at an end."""
    if math.isnan(low) or math.isnan(high):
        return math.nan, math.nan
    ends = _at(scale, low), _at(scale, high)
    return min(ends), 1.0 if low <= scale.neutral <= high else max(ends)
