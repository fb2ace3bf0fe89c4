"""Labelled spans of texts, such as annotations, and where they are after the texts are changed."""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from swapbias.errors import UsageError
from swapbias.files import parse_json

_ENDS = {
    "start": ("end", "stop"),
    "begin": ("end",),
    "from": ("to",),
    "startoffset": ("endoffset",),
    "beginoffset": ("endoffset",),
    "startchar": ("endchar",),
    "charstart": ("charend",),
    "startindex": ("endindex",),
    "startidx": ("endidx",),
    "startpos": ("endpos",),
    "startposition": ("endposition",),
}
"""Names of the end of a span by those of its start, in lower case without signs."""
_HOLDERS = ("entities", "ents", "spans", "annotations", "labels", "label", "offsets", "value")
_TEXTS = ("text", "word", "mention", "surface")  # fields that repeat the text of a span
_EXPECTED = "lists of {start, end} or [start, end]"
Change = Mapping[str, Any]
_Span = tuple[int, int]


class _Text:
    """A text and what is changed in it."""

    def __init__(self, old: str, new: str, changes: Sequence[Change]) -> None:
        """Prepare.

        Args:
            old: the text before.
            new: the text after.
            changes: what is changed, in order.
        """
        self.old = old
        self.new = new
        self._starts = [change["start"] for change in changes]
        self._ends = [change["end"] for change in changes]
        self._lengths = [len(change["new"]) for change in changes]
        grown = (len(change["new"]) - len(change["old"]) for change in changes)
        self._shifts = [*accumulate(grown, initial=0)]

    def moved(self, span: _Span) -> _Span:
        """Return where a span is after the changes; one that cuts a changed word takes the whole word.

        Args:
            span: its first character and the one after its last.

        Raises:
            ValueError: it is not within the text.
        """
        start, end = span
        if not 0 <= start <= end <= len(self.old):
            raise ValueError
        return self._place(start, is_end=False), self._place(end, is_end=True)

    def _place(self, position: int, *, is_end: bool) -> int:
        index = bisect_right(self._ends, position)
        shift = self._shifts[index]
        if index == len(self._starts) or self._starts[index] >= position:
            return position + shift
        length = self._lengths[index] if is_end else 0
        return int(self._starts[index] + shift + length)


def check_labels(cells: Sequence[Any], column: str) -> None:
    """Refuse a column that holds something else than spans.

    Args:
        cells: its first cells.
        column: its name.

    Raises:
        UsageError: none of the cells that hold something holds a span.
    """
    spans: list[_Span] = []

    def note(span: _Span) -> _Span:
        spans.append(span)
        return span

    kept = [cell for cell in cells if cell not in (None, "", [], {}, "[]")]
    for cell in kept:
        _with_spans(cell, note, lambda written, _: written)
    if kept and not spans:
        raise UsageError(
            f"Column {column!r} contains no spans, expected {_EXPECTED}. Choose another with --spans."
        )


def moved_labels(
    labels: pa.Array, first: int, old: pa.Array, new: pa.ChunkedArray, changes: pa.ChunkedArray
) -> pa.Array:
    """Return the labels of changed texts: spans begin and end at the same words.

    A span that begins or ends within a changed word takes the whole new word. A span of a word that is removed stays,
    empty. What a span says of its own text becomes the new text.

    Args:
        labels: spans of each text: lists of structs or of pairs, structs of lists, or these as JSON, (n,).
        first: the number of the first row among all, for errors.
        old: the texts before, (n,).
        new: the texts after, (n,).
        changes: what is changed in each, as ``Swapped.spans``, (n,).

    Raises:
        ValueError: a span that is not within its text; the row is named.
    """
    cells = []
    columns = (labels, old, new, changes)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    for number, (cell, before, after, of_row) in enumerate(rows, start=first + 1):
        text = _Text(before or "", after or "", of_row)
        try:
            cells.append(_moved_cell(cell, text))
        except ValueError:
            raise ValueError(
                f"Row {number}: a span is not within its text. Count characters from 0; the end is behind the last."
            ) from None
    return pa.array(cells, labels.type)


def _moved_cell(cell: Any, text: _Text) -> Any:
    """Return a cell of spans after the changes of its text; ValueError: a span is not within the text."""

    def new_text(written: str, span: _Span) -> str:
        start, end = span
        if written != text.old[start:end]:
            return written
        start, end = text.moved(span)
        return text.new[start:end]

    return _with_spans(cell, text.moved, new_text)


def _with_spans(
    cell: Any, move: Callable[[_Span], _Span], rewrite: Callable[[str, _Span], str]
) -> Any:
    """Return a cell with each span moved, however it is written.

    Args:
        cell: lists of structs or of pairs, structs of lists, or these as JSON.
        move: returns the new span of an old one.
        rewrite: returns the text of a span that is repeated beside it.
    """
    if isinstance(cell, str):
        parsed = _parsed(cell)
        moved = _with_spans(parsed, move, rewrite)
        return cell if moved == parsed else json.dumps(moved, ensure_ascii=False)
    if isinstance(cell, list):
        if _are_places(cell[:2]):
            return [*move((cell[0], cell[1])), *cell[2:]]
        return [
            item if isinstance(item, str) else _with_spans(item, move, rewrite) for item in cell
        ]
    return _moved_struct(cell, move, rewrite) if isinstance(cell, dict) else cell


def _moved_struct(
    struct: Mapping[str, Any],
    move: Callable[[_Span], _Span],
    rewrite: Callable[[str, _Span], str],
) -> dict[str, Any]:
    """Return a struct with its spans moved: it is one itself, holds the columns of several, or a list of them."""
    names = _names_of_ends(struct)
    if names is None:
        return {
            name: _with_spans(value, move, rewrite) if name.lower() in _HOLDERS else value
            for name, value in struct.items()
        }
    first, last = struct[names[0]], struct[names[1]]
    texts = [name for name in struct if name.lower() in _TEXTS]
    if isinstance(first, list):
        return _moved_columns(struct, names, move)
    if not _are_places([first, last]):
        return dict(struct)
    new = {
        name: rewrite(struct[name], (first, last))
        for name in texts
        if isinstance(struct[name], str)
    }
    return {**struct, **new, **dict(zip(names, move((first, last)), strict=True))}


def _moved_columns(
    struct: Mapping[str, Any], names: tuple[str, str], move: Callable[[_Span], _Span]
) -> dict[str, Any]:
    """Return a struct of columns of spans with these moved."""
    spans = zip(struct[names[0]], struct[names[1]] or [], strict=True)
    moved = [move(span) if _are_places(span) else span for span in spans]
    columns = zip(names, map(list, zip(*moved, strict=True)), strict=True) if moved else ()
    return {**struct, **dict(columns)}


def _names_of_ends(struct: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the names of start and end in a struct, None where it has none."""
    names = {name.lower().replace("_", "").replace("-", ""): name for name in struct}
    for start, ends in _ENDS.items():
        end = next((end for end in ends if end in names), None)
        if start in names and end is not None:
            return names[start], names[end]
    return None


def _are_places(values: Sequence[Any]) -> bool:
    """Tell whether two values are whole numbers."""
    return len(values) == 2 and all(type(value) is int for value in values)


def _parsed(cell: str) -> Any:
    """Return what a cell of JSON holds, None where it is none."""
    try:
        return parse_json(cell)
    except ValueError:
        return None
