"""TODO: what this module holds."""

from collections.abc import Callable

Progress = Callable[[float], None]  # called with how many more are done


def silent(value: object) -> None:
    """For progress and sentences that nobody reads."""


Bar = Callable[[str, int], Progress]  # title and total


Say = Callable[[str], None]  # called with a sentence for the user


def no_bar(title: str, total: int) -> Progress:
    """The progress of a bar that is not shown."""
    return silent
