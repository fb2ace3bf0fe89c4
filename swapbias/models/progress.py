"""How a reader follows work that takes long: bars, and sentences on what is done."""

from collections.abc import Callable

Progress = Callable[[float], None]
"""Called with the number of further items that are done."""
Bar = Callable[[str, int], Progress]
"""Begins a bar with a title and the total number of items."""
Say = Callable[[str], None]
"""Called with a sentence for the user."""


def silent(value: object) -> None:
    """Take progress or a sentence that nobody reads.

    Args:
        value: any value, which is dropped.
    """


def no_bar(title: str, total: int) -> Progress:
    """Begin a bar that is not shown.

    Args:
        title: the title of the bar.
        total: number of items.

    Returns:
        The progress of the bar, which shows nothing.
    """
    return silent
