"""The unit and range of scores: of the options that answers choose from, or as a study of the user's declares."""

import math
from collections.abc import Sequence

from swapbias.errors import UsageError, quoted
from swapbias.measures import Unit, units
from swapbias.studies.option_texts import range_of
from swapbias.studies.prompt import Candidate

VALUE_OF_ANSWERS = "value of the answers"  # the unit of answers that count other than 0 and 1
Range = str | Sequence[float] | None  # as a user gives it: ``0,5``, or the two numbers


def read_range(ends: Range) -> tuple[float, ...]:
    """Read the ends of a range.

    Args:
        ends: ends as a user gives them.

    Returns:
        The smaller and the larger number; nothing where there are none.

    Raises:
        UsageError: no two finite numbers, the smaller one first.

    >>> read_range("0,5"), read_range((1, 5)), read_range(None)
    ((0.0, 5.0), (1.0, 5.0), ())
    """
    if ends is None or ends == "":
        return ()
    numbers = ends.split(",") if isinstance(ends, str) else ends
    try:
        low, high = (float(number) for number in numbers)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (low < high and math.isfinite(high - low)):
        raise UsageError(
            f"range is {quoted(ends)}, expected two numbers as in 0,5, the smaller one first."
        )
    return low, high


def unit_declared(kind: str, usual: Unit, declared: Unit, options: Sequence[Candidate]) -> Unit:
    """Give the unit of the scores of a study of the user's.

    Args:
        kind: the kind of the model; a declaration does not change the unit of probabilities and log-probabilities.
        usual: the unit of that kind.
        declared: the unit of the declaration; the default unit where nothing is declared.
        options: the options that answers choose from; none where candidates are ranked.
    """
    if kind == "classifier":
        return declared
    if kind != "chat" or not options:
        return usual
    if {option.value for option in options} <= {0.0, 1.0, None}:
        return usual
    name = declared.name if declared.is_named else VALUE_OF_ANSWERS
    return units.named_unit(name, *range_of(options))
