"""Options of an answer, and what each counts, as declarations write them: ``0=Not likely``, ``=Do not know``."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from swapbias.errors import listed
from swapbias.studies.prompt import Candidate


def options_of(declared: Sequence[str]) -> tuple[Candidate, ...]:
    """Read the options of an answer.

    Args:
        declared: each as value=option; a blank value counts nothing.

    Raises:
        ValueError: they are not two or more different ones, of which one counts.
    """
    try:
        options = tuple(map(_read_option, declared))
    except ValueError:
        options = ()
    if not _are_readable(options):
        raise ValueError(
            f"options {listed(map(repr, declared))}, expected different ones, each value=option."
        )
    return options


def _read_option(declared: str) -> Candidate:
    """Read an option from value=option."""
    value, _, text = declared.partition("=")
    return Candidate(text.strip(), float(value) if value.strip() else None)


def _are_readable(options: Sequence[Candidate]) -> bool:
    """Tell whether options are two or more different ones, of which one counts, by finite numbers."""
    # Imported on use, as lists of studies need none of the patterns that it compiles.
    from swapbias.studies.answers import REFUSED, UNREADABLE

    texts = {option.text.casefold() for option in options}
    values = [option.value for option in options if option.value is not None]
    if len(texts) < max(2, len(options)) or texts & {"", REFUSED, UNREADABLE}:
        return False
    return bool(values) and all(map(math.isfinite, values))


def read_options(declared: Any, key: str) -> Any:
    """Read the options that a key of a declaration lists; what are options already, or no texts, stays as it is.

    Args:
        declared: the value of the key.
        key: the key, for errors.

    Raises:
        ValueError: one cannot be read, or all count the same, so that no gap could show.
    """
    texts = [declared] if isinstance(declared, str) else declared
    is_list = isinstance(texts, list | tuple) and len(texts) > 0
    if not is_list or not all(isinstance(text, str) for text in texts):
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

    Args:
        options: the options, of which one counts.

    >>> range_of([Candidate("Never", 1), Candidate("Always", 5), Candidate("Do not know")])
    (1.0, 5.0)
    """
    values = [float(option.value) for option in options if option.value is not None]
    return min(values), max(values)
