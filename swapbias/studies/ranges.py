"""The unit and range of scores: of the options that answers choose from, or as a study of the user's declares."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, FiniteFloat

from swapbias.errors import UsageError, quoted
from swapbias.measures import Unit, named_unit
from swapbias.studies.study import Candidate, Experiment

VALUE_OF_ANSWERS = "value of the answers"  # the unit of answers that count other than 0 and 1
Range = str | Sequence[float] | None  # as a user gives it: ``0,5``, or the two numbers


def _rising(ends: tuple[float, float]) -> tuple[float, float]:
    if not ends[0] < ends[1]:
        raise ValueError(f"range is [{ends[0]:g}, {ends[1]:g}], expected the smaller number first. Correct it.")
    return ends


ScoreRange = Annotated[tuple[FiniteFloat, FiniteFloat], AfterValidator(_rising)]


def read_range(given: Range) -> tuple[float, ...]:
    """The ends of a range that a user gives; none where nothing is given.

    >>> read_range("0,5"), read_range((1, 5)), read_range(None)
    ((0.0, 5.0), (1.0, 5.0), ())

    Raises:
        UsageError: no two finite numbers, the smaller one first.
    """
    if given is None or given == "":
        return ()
    try:
        low, high = (float(one) for one in (given.split(",") if isinstance(given, str) else given))
    except (TypeError, ValueError):
        low = high = math.nan
    if not (low < high and math.isfinite(high - low)):
        raise UsageError(f"range is {quoted(given)}, expected two numbers as in 0,5, the smaller one first.")
    return low, high


def unit_declared(
    kind: str, usual: Unit, name: str, ends: tuple[float, float] | None, options: Sequence[Candidate]
) -> Unit:
    """The unit of the scores of a study of the user's.

    Args:
        kind: of the model; probabilities and log-probabilities of words are what they are, whatever is declared.
        usual: the unit of that kind.
        name, ends: as declared; blank and None for nothing.
        options: what answers choose from; none where candidates are ranked.
    """
    if kind == "classifier":
        return named_unit(name or usual.name, *(ends or ()))
    if kind != "chat" or not options:
        return usual
    if {one.value for one in options} <= {0.0, 1.0, None}:
        return usual
    return named_unit(name or VALUE_OF_ANSWERS, *range_of(options))


def range_of(options: Iterable[Candidate]) -> tuple[float, float]:
    """The least and the largest number that an option counts.

    >>> range_of([Candidate("Never", 1), Candidate("Always", 5), Candidate("Do not know")])
    (1.0, 5.0)
    """
    values = [float(one.value) for one in options if one.value is not None]
    return min(values), max(values)


def in_unit(experiment: Experiment, unit: Unit) -> Experiment:
    """The experiment with its score in this unit."""
    ends = unit.ends if unit.in_points else None
    return replace(experiment, unit=unit.name, unit_range=ends, own_unit=unit.taken_from)
