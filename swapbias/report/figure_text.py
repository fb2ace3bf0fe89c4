"""Text of figures: lines that fit a width, and legends that fit a figure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

TEXT_SIZE = 8.0
"""Size of letters in points."""
_HANDLE = 30.0  # points that a legend takes for the mark of an entry and the room around it
_MOST_COLUMNS = 3


def text_width(text: str, size: float = TEXT_SIZE) -> float:
    """Return the width of a line of text in points.

    Args:
        text: the line.
        size: size of its letters in points.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width)


def wrap_text(text: str, width: float, size: float = TEXT_SIZE) -> str:
    """Return a text in lines that are no wider than a width; a word that is wider is broken.

    Args:
        text: the text.
        width: the width in points.
        size: size of its letters in points.
    """
    lines: list[str] = []
    for word in _words(text, width, size):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def _words(text: str, width: float, size: float) -> Iterator[str]:
    """Yield the words of a text, those that are too wide in pieces."""
    for word in text.split():
        if text_width(word, size) <= width:  # most words: measured once, not letter by letter
            yield word
            continue
        piece = ""
        for letter in word:
            if piece and text_width(piece + letter, size) > width:
                yield piece
                piece = ""
            piece += letter
        yield piece


def add_legend(figure: "Figure", handles: Sequence["Artist"], labels: Sequence[str]) -> int:
    """Add a legend below a figure, in as many columns as its names leave room for.

    Args:
        figure: the figure.
        handles: the marks of the entries.
        labels: their names.

    Returns:
        The number of lines of text that the legend takes.
    """
    whole = 72 * figure.get_figwidth()
    widest = max(text_width(label) for label in labels) + _HANDLE
    columns = min(_MOST_COLUMNS, len(labels), max(1, int(whole / widest)))
    wrapped = [wrap_text(label, whole / columns - _HANDLE) for label in labels]
    figure.legend(handles, wrapped, loc="outside lower center", ncols=columns, frameon=False)
    rows = -(-len(labels) // columns)
    return rows * max(label.count("\n") + 1 for label in wrapped)
