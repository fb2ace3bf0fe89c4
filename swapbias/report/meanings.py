"""Sentences on what a number means: its sign, a point of it, its unit, and what its interval is over."""

import math

from swapbias.findings import Finding, experiment_of, terms
from swapbias.measures import MEASURES, Unit
from swapbias.report.finding_names import (
    capitalize,
    group_name,
    plain_words,
    safe_line,
    toward_group,
)

# Meaning of the sign or the size of a value; of other gaps as their experiment declares it.
_SIGNS = {
    terms.DIFFERENCE: "above zero the first model of the contrast is higher: {declared}",
    "gap_difference": (
        "above zero the gap lies further toward {finding.group} with {finding.within} than with {finding.against}, "
        "below zero further toward {finding.reference_group}"
    ),
    "interaction": "0: the factors add up",
    "interaction_of_three": "0: the factors add up",
    "main_effect": "above zero the first is higher, averaged over the other factors; of groups: {declared}",
    "slope": "{declared}",
    "group_spread": "0: no group differs from the others",
    "leakage_uar": "0.5 is chance; 1: the gender is predicted from every note",
    "direct_bias": "0: the words are at right angles to the gender direction",
}


def direction_meaning(finding: Finding) -> str:
    """Return what the sign of a finding means, or which group has the higher rate.

    Args:
        finding: a finding of any measure.

    Returns:
        The meaning in words; blank for what has no direction.
    """
    if finding.measure == "flip_rate":
        return _higher_rate(finding)
    experiment = experiment_of(finding)
    declared = f"above zero {finding.group or 'the first'} is higher"
    if experiment:
        declared = experiment.words.direction
    if finding.measure in _SIGNS:
        return _SIGNS[finding.measure].format(finding=finding, declared=declared)
    return declared if MEASURES[finding.measure].gap_span else ""


def _higher_rate(finding: Finding) -> str:
    """Return which group has the higher rate, and how many notes are positive in the version of only one group."""
    if math.isnan(finding.estimate.value):
        rate = "not defined"
    elif finding.higher_group:
        rate = f"{finding.higher_group} higher"
    else:
        rate = "equal"
    experiment = experiment_of(finding)
    if math.isnan(finding.only_group) or experiment is None:
        return rate
    compares = experiment.compares
    return (
        f"{rate} (positive in the {compares.group} version alone: {finding.only_group:.0f}, "
        f"{compares.reference}: {finding.only_reference:.0f})"
    )


def sign_meaning(finding: Finding) -> str:
    """Return what the sign of a finding and a point of it mean, as sentences.

    Args:
        finding: a finding of any measure; a difference of two gaps is explained by the sign that it has.
    """
    sign = plain_words(direction_meaning(finding))
    if finding.measure == "gap_difference" and not math.isnan(finding.estimate.value):
        experiment = experiment_of(finding)
        first = group_name(experiment, finding.within)
        second = group_name(experiment, finding.against)
        sign = f"the gap lies further {toward_group(finding)} with {first} than with {second}"
        if not finding.estimate.value:
            sign = f"the gap is the same with {first} and with {second}"
    if not sign:
        return point_meaning(finding)
    return f"{capitalize(sign)}. {point_meaning(finding)}"


def point_meaning(finding: Finding) -> str:
    """Return what one point of a finding is, or its unit, as a sentence.

    Args:
        finding: a finding of any measure.
    """
    unit = finding.scale
    if unit.ratio_of is not None and not unit.has_no_range:
        return f"0.7 doubles the {unit.ratio_of.noun}."
    if unit.is_points or not unit.in_points:
        return f"Unit: {unit.name}."
    name = unit.in_words or unit.name
    if unit.taken_from:
        name = f"{model_unit_name(finding)}, taken as {name}"
    if (unit.low, unit.high) == (0, 1):
        return f"A point is a hundredth of the {name}."
    return (
        f"A point is a hundredth of the range of the {name} (from {unit.low:g} to {unit.high:g})."
    )


def levels_unit(unit: Unit) -> str:
    """Return the unit of scores in points, with what 0 and 100 points are: ``stars, from 0 (1) to 100 (5)``.

    Args:
        unit: the unit of the scores.
    """
    if not unit.in_points or (unit.low, unit.high) in ((0, 1), (0, 100)):
        return unit.name
    return f"{unit.name}, from 0 ({unit.low:g}) to 100 ({unit.high:g})"


def model_unit_name(finding: Finding) -> str:
    """Return what a model itself gives for a text: ``probability of the label toxic of my-model``.

    Args:
        finding: the finding whose scores are taken as another unit.
    """
    return f"{finding.scale.taken_from} of {safe_line(finding.model_id)}"


def inference_basis(finding: Finding) -> str:
    """Return what interval and p-value are over: ``over templates and diagnoses``.

    Args:
        finding: a finding of any measure.

    Returns:
        The random factors, or the view of the rows; blank where nothing was tested.
    """
    if finding.cluster_vars:
        paired = ", paired" if finding.measure == terms.DIFFERENCE else ""
        return f"over {finding.cluster_vars.replace(' + ', ' and ')}{paired}"
    if finding.view:
        return finding.view
    return "" if finding.estimate.test == "none" else "these rows only"
