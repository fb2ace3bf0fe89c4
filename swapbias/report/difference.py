"""Several models in a plain sentence: what each shows, and how far it lies from the one they are compared with."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from swapbias.findings import FOUND, NONE, SMALL, TOO_FEW, UNDECIDED, UNMEASURED, Finding, experiment_of
from swapbias.measures import MEASURES
from swapbias.report import words
from swapbias.report.sentence import amount, change, gap_said, interval, listed, margin_said, sides, value

FEW = 4  # models that a sentence names one by one
_VERDICTS = {
    "gap found": "difference found",
    SMALL: "difference found, smaller than the margin",
    NONE: "no difference larger than the margin",
}


def verdict(finding: Finding) -> str:
    """What is concluded of a difference of two models, in the words of all outputs; blank where nothing is."""
    return _VERDICTS.get(finding.verdict, finding.verdict)


def away(finding: Finding) -> float:
    """How far the second of two models lies above the first: a difference is the first minus the second."""
    return -finding.estimate.value + 0.0


def away_said(finding: Finding) -> str:
    """How far the second of two models lies above the first, and the 95 % interval: ``+3.1 (−0.4 to +6.6)``."""
    estimate = finding.estimate
    told = amount(away(finding), finding.unit, signed=True, named=False)
    if math.isnan(estimate.ci_low):
        return told
    ends = (amount(-end, finding.unit, signed=True, named=False) for end in (estimate.ci_high, estimate.ci_low))
    return f"{told} ({' to '.join(ends)})"


def own_values(found: Sequence[Finding]) -> str:
    """What each model shows of one quantity: few by name, of many how many show what.

    Args:
        found: a headline of each model, of one quantity.
    """
    known = [one for one in found if not math.isnan(one.estimate.value)]
    if not all(_judged(one) for one in known):
        known = [one for one in known if one.verdict != UNMEASURED]
    lost = len(found) - len(known)
    if not known:
        return "No model could be scored."
    if not all(_judged(one) for one in known):
        told = _plain_values(known)
    elif len(found) <= FEW:
        told = _named(known)
    else:
        told = _counted(known)
    return told + (f" {lost} could not be scored." if lost else "")


def _judged(finding: Finding) -> bool:
    """Whether it is a gap of two groups, of which can be told which way it goes; an interaction is none."""
    told = finding.measure == "gap_difference" or MEASURES[finding.measure].reach == 1
    return told and bool(finding.verdict)


def _plain_values(known: Sequence[Finding]) -> str:
    what = words.quantity(known[0])
    if len(known) <= FEW:
        each = ", ".join(f"{value(one)} of {words.shown(one.model_id)}" for one in known)
        return f"{what[0].upper()}{what[1:]}: {each}."
    return f"{what[0].upper()}{what[1:]} of {len(known)} models: {_range(known)}."


def _range(known: Sequence[Finding]) -> str:
    """From the least to the largest value, of no model by name: a comparison ranks nobody."""
    by_value = sorted(known, key=lambda one: one.estimate.value)
    least, most = value(by_value[0]), value(by_value[-1])
    return f"{least} for each" if least == most else f"from {least} to {most}"


def _named(known: Sequence[Finding]) -> str:
    if known[0].measure != "gap_difference":
        alike: dict[str, list[str]] = {}
        for one in known:
            alike.setdefault(gap_said(one), []).append(words.shown(one.model_id))
        told = "; ".join(f"{_each(names)} {said}" for said, names in alike.items()) + "."
        return f"E{told[1:]}" if told.startswith("each of") else told
    first, second = map(words.plain, (known[0].within, known[0].against))
    gap = f"the gap between {' and '.join(sides(known[0]))}"
    each = [f"In {words.shown(known[0].model_id)}, compared with {second}, {first} {change(known[0], gap)}"]
    each += [f"in {words.shown(one.model_id)} it {change(one, 'that gap')}" for one in known[1:]]
    return "; ".join(each) + "."


def _each(names: Sequence[str]) -> str:
    """
    >>> _each(["a", "b", "c"]), _each(["a"])
    ('each of a, b and c', 'a')
    """
    return f"each of {listed(names)}" if len(names) > 1 else names[0]


def _counted(known: Sequence[Finding]) -> str:
    """In how many models there is which verdict, with the values from end to end."""
    first, second = sides(known[0])
    lead, moved, none = "", "a gap", f"no gap as large as {margin_said(known[0])}"
    if known[0].measure == "gap_difference":
        what, other = map(words.plain, (known[0].within, known[0].against))
        lead, moved = f", with {what} compared with {other}", "the gap moves"
        none = f"the gap moves by less than {margin_said(known[0])}"
    gone = [one for one in known if one.verdict not in (NONE, UNDECIDED, UNMEASURED, TOO_FEW)]
    parts = [
        (f"{moved} toward {first}", sum(one.estimate.value > 0 for one in gone)),
        (f"{moved} toward {second}", sum(one.estimate.value < 0 for one in gone)),
        (none, sum(one.verdict == NONE for one in known)),
        ("undecided", sum(one.verdict == UNDECIDED for one in known)),
        ("too few levels of a random factor", sum(one.verdict == TOO_FEW for one in known)),
        ("not measured (constant scores)", sum(one.verdict == UNMEASURED for one in known)),
    ]
    told = ", ".join(f"{what} in {count}" for what, count in parts if count)
    return f"Of {len(known)} models{lead}: {told}. Values {_range(known)}."


# --- differences ----------------------------------------------------------------------------------------


def differences(found: Sequence[Finding], reference: str, names: Callable[[Finding], str]) -> str:
    """How far each model lies from the reference: few by name, of many how many lie where.

    Args:
        found: differences of one quantity, each the reference's value minus another model's.
        reference: the reference's name.
        names: the other model of a difference.
    """
    if not found:
        return "No difference of models is tested here."
    reference = words.shown(reference)
    if len(found) < FEW:
        told = "; ".join(_difference(one, words.shown(names(one)), reference) for one in found)
        return f"{told[0].upper()}{told[1:]}." if told.startswith("whether") else f"{told}."
    told = ", ".join(f"{count} {what}" for what, count in _places(found) if count)
    return f"Compared with {reference}, of {len(found)} models: {told}."


def _toward(finding: Finding) -> tuple[str, str]:
    """Where a model lies whose value is above the reference's, and where one below."""
    experiment = experiment_of(finding)
    if (
        experiment is None or experiment.groups or experiment.factors
    ):  # of several contrasts one pair is not the other
        return "higher", "lower"
    first, second = sides(replace(finding, contrast=f"{experiment.group} - {experiment.reference_group}"))
    return f"further toward {first}", f"further toward {second}"


def _places(found: Sequence[Finding]) -> Iterator[tuple[str, int]]:
    above, below = _toward(found[0])
    known = [one for one in found if not math.isnan(one.estimate.value)]
    gone = [one for one in known if one.verdict in (FOUND, SMALL)]
    yield above, sum(away(one) > 0 for one in gone)
    yield below, sum(away(one) < 0 for one in gone)
    yield f"no further than {margin_said(found[0])} away", sum(one.verdict == NONE for one in known)
    yield "undecided", sum(one.verdict == UNDECIDED for one in known)
    yield "too few levels of a random factor", sum(one.verdict == TOO_FEW for one in known)
    yield "could not be compared", len(found) - len(known) + sum(one.verdict == UNMEASURED for one in known)


def _difference(finding: Finding, name: str, reference: str) -> str:
    value_of, size, margin = away(finding), amount(away(finding), finding.unit), margin_said(finding)
    if finding.verdict == UNMEASURED:
        return f"{name} could not be compared with {reference}, for one of them gives every prompt the same score"
    if math.isnan(value_of):
        return f"{name} could not be compared with {reference}"
    lies = f"{name} lies {size} {_toward(finding)[0 if value_of > 0 else 1]} than {reference}"
    if finding.verdict == NONE:
        exact = value_of == 0 and math.isnan(finding.estimate.error)
        return (
            f"{name} gives exactly what {reference} gives"
            if exact
            else f"{name} lies no further than {margin} from {reference}"
        )
    if finding.verdict == TOO_FEW:
        return f"{name} is not compared with {reference}: {words.few_said(finding.estimate)}"
    if finding.verdict == UNDECIDED:
        if math.isnan(finding.estimate.error):
            return f"{lies}, on too little to say how sure that is"
        chance = f"whether {name} differs from {reference} is undecided: {size} may be chance"
        return f"{chance}, and {margin} is not ruled out" if not math.isnan(finding.margin) else chance
    return f"{lies}, less than the {margin} that count as a difference" if finding.verdict == SMALL else lies


def own_said(finding: Finding) -> str:
    """A model's own value with its 95 % interval: ``+3.1 (−0.4 to +6.6)``."""
    told, ends = value(finding).removesuffix(" points"), interval(finding)
    return f"{told} ({ends})" if ends else told
