"""A text put together again: what is kept of it and what stands in for the rest, copied once."""

import numpy as np
import pyarrow as pa

from swapbias.swapping.deciding import Decided
from swapbias.swapping.folding import Ints


def rebuilt(texts: pa.Array, buffer: bytes, offsets: Ints, decided: Decided) -> pa.Array:
    """The texts with the decided replacements in place: large strings, null where those are.

    Args:
        texts: large strings, for which of them are null.
        buffer: their bytes, padded.
        offsets: where each begins in the buffer, and the end of the last.
        decided: the replacements.
    """
    lengths = np.fromiter(map(len, decided.words), dtype=np.int64, count=len(decided.words))
    grown = np.cumsum(lengths[decided.word] - (decided.end - decided.start))
    moved = offsets + np.append(0, grown)[np.searchsorted(decided.start, offsets, side="left")]
    valid = None if not texts.null_count else pa.array(texts.is_valid()).buffers()[1]
    joined = _joined(buffer, int(offsets[-1]), decided, lengths)
    return pa.Array.from_buffers(pa.large_string(), len(texts), [valid, pa.py_buffer(moved.astype(np.int64)), joined])


def _joined(buffer: bytes, size: int, decided: Decided, lengths: Ints) -> pa.Buffer:
    """The new bytes, as Arrow lays out the values of an array that takes turns between the text and the words.

    The text is cut at the start and end of every replacement, so that every other piece is kept; then come the spaces
    that it is padded with, and the words.
    """
    times = len(decided.word)
    if not times:
        return pa.py_buffer(buffer).slice(0, size)
    ends = np.empty(2 * times + 3 + len(lengths), dtype=np.int64)
    ends[0], ends[1 : 2 * times + 1 : 2], ends[2 : 2 * times + 2 : 2] = 0, decided.start, decided.end
    ends[2 * times + 1 : 2 * times + 3] = size, len(buffer)
    ends[2 * times + 3 :] = len(buffer) + np.cumsum(lengths)
    pieces = pa.Array.from_buffers(
        pa.large_binary(),
        len(ends) - 1,
        [None, pa.py_buffer(ends), pa.py_buffer(b"".join([buffer, *decided.words]))],
    )
    order = np.arange(2 * times + 1)
    order[1::2] = 2 * times + 2 + decided.word
    return pieces.take(pa.array(order)).buffers()[2]
