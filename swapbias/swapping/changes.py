"""Where texts are changed: the spans of a swap in characters of the old text."""

import numpy as np
import pyarrow as pa

from swapbias.swapping.edits import Edits
from swapbias.swapping.folding import Ints, signs_of

CHANGE = pa.struct(
    [
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("reason", pa.string()),
    ]
)
"""A change: its first character in the old text and the one after its last, both words, and why."""
REASONS = ("term", "alternatives", "agreement")
"""Why a span is changed: a term of the table; two that become one ("he or she"); a verb or article beside one."""
_CONTINUES = 0x80  # the first two bits of a byte that continues a character


def no_changes(rows: int) -> pa.ChunkedArray:
    """Return the changes of texts in which nothing is changed.

    Args:
        rows: the number of texts.
    """
    bounds = pa.array(np.zeros(rows + 1, np.int32))
    return pa.chunked_array([pa.ListArray.from_arrays(bounds, pa.array([], CHANGE))])


def changes_of(buffer: bytes, offsets: Ints, edits: Edits) -> pa.ListArray:
    """Return the changes of each row of a block, in order.

    Args:
        buffer: the rows before they are changed.
        offsets: where each begins, and where the last ends, (rows + 1,).
        edits: the replacements.
    """
    start, end, number, row, side, term = edits.places
    bounds = pa.array(np.searchsorted(row, np.arange(len(offsets))), pa.int32())
    first, begins, ends = _characters(buffer, np.stack([offsets[row], start, end]))
    reason = np.where(term < 0, 2, side == 0)
    fields = [
        pa.array(begins - first, pa.int32()),
        pa.array(ends - first, pa.int32()),
        _slices(buffer, start, end),
        pa.array(edits.words, pa.binary()).take(pa.array(number)).cast(pa.string()),
        pa.array(REASONS).take(pa.array(reason)),
    ]
    names = [field.name for field in CHANGE]
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(fields, names))


def _characters(buffer: bytes, places: Ints) -> Ints:
    """Return how many characters of a buffer stand before each of some bytes."""
    if buffer.isascii():
        return places
    continuing = np.flatnonzero(signs_of(buffer) & 0xC0 == _CONTINUES)
    return places - np.searchsorted(continuing, places)


def _slices(buffer: bytes, start: Ints, end: Ints) -> pa.StringArray:
    """Return the pieces of a buffer that begin and end at ordered places."""
    cuts = np.stack([start, end], axis=1).ravel()
    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(buffer)]
    pieces = pa.Array.from_buffers(pa.large_string(), max(len(cuts) - 1, 0), buffers)
    return pieces.take(pa.array(np.arange(0, len(cuts), 2))).cast(pa.string())
