"""Options of an answer, and what each counts, as declarations write them: ``0=Not likely``, ``=Do not know``."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from swapbias.errors import listed
from swapbias.studies.prompt import Candidate


def options_of(declared: Sequence[str]) -> tuple[Candidate, ...]:
    """Read options, each as value=option; a blank value counts nothing. ValueError: others than two or more."""
    from swapbias.measures import (
        REFUSED,
        UNREADABLE,
    )  # with numpy, which lists of studies do not need

    parts = [part.partition("=") for part in declared]
    try:
        options = tuple(
            Candidate(text.strip(), float(value) if value.strip() else None)
            for value, _, text in parts
        )
    except ValueError:
        options = ()
    texts = {option.text.casefold() for option in options}
    if any(option.value is not None and not math.isfinite(option.value) for option in options):
        options = ()
    counted = [option for option in options if option.value is not None]
    if (
        len(options) < 2
        or not counted
        or texts & {"", REFUSED, UNREADABLE}
        or len(texts) < len(options)
    ):
        raise ValueError(
            f"options {listed(map(repr, declared))}, expected different ones, each value=option."
        )
    return options


def read_options(declared: Any, key: str) -> Any:
    """Read the options that a key of a declaration lists; what are options already, or no texts, stays as it is.

    Raises:
        ValueError: one cannot be read, or all count the same, so that no gap could show.
    """
    texts = [declared] if isinstance(declared, str) else declared
    if (
        not texts
        or not isinstance(texts, list | tuple)
        or not all(isinstance(text, str) for text in texts)
    ):
        return declared
    example = f'{key} = ["0=Yes", "1=No"]'
    try:
        options = options_of(texts)
    except ValueError as error:
        raise ValueError(f"{key} cannot be read ({error}) Write {example}.") from error
    low, high = range_of(options)
    if low == high:
        raise ValueError(
            f"{key} all count {low:g}, so that no gap could show. Let two count differently: {example}."
        )
    return options


def range_of(options: Iterable[Candidate]) -> tuple[float, float]:
    """Give the least and the largest number that an option counts.

    >>> range_of([Candidate("Never", 1), Candidate("Always", 5), Candidate("Do not know")])
    (1.0, 5.0)
    """
    values = [float(option.value) for option in options if option.value is not None]
    return min(values), max(values)
