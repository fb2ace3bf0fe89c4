"""A block of texts with the gendered words and the persons that were found in it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import Ints
from swapbias.swapping.matches import Matches, Text

_HEAD = 400  # bytes


@dataclass(frozen=True, eq=False)
class Block(Text):
    """Texts and the gendered words in them."""

    kept: NDArray[np.bool_]
    """Whether each of the terms tells a gender where it stands, (n,)."""
    cues: Matches
    """Words for persons without a gender."""

    def windows(self, places: Ints, before: int, after: int) -> tuple[Ints, Ints]:
        """Return where the text around words begins and ends, within their rows.

        Args:
            places: indices of the words, (m,).
            before: bytes before each word.
            after: bytes after each word.

        Returns:
            The first byte of each window and the one after its last, each (m,).
        """
        rows = self.rows[places]
        low = np.maximum(self.offsets[rows], self.matches.start[places] - before)
        high = np.minimum(self.offsets[rows + 1], self.matches.end[places] + after)
        return low, high

    def around(
        self, places: Ints, before: int, after: int
    ) -> Iterator[tuple[int, int, int, int, bytes, bytes]]:
        """Yield words with the text around them.

        Args:
            places: indices of the words, (m,).
            before: bytes before each word, within its row.
            after: bytes after each word, within its row.

        Yields:
            The index of a word, the number of its term, its row, its first byte, and the text before and after it.
        """
        low, high = self.windows(places, before, after)
        columns = (
            places,
            self.matches.term[places],
            self.rows[places],
            self.matches.start[places],
            self.matches.end[places],
            low,
            high,
        )
        words = zip(*(column.tolist() for column in columns), strict=True)
        buffer = self.buffer
        for index, term, row, start, end, begin, stop in words:
            yield index, term, row, start, buffer[begin:start], buffer[end:stop]

    def head(self, row: int) -> bytes:
        """Return the first bytes of a row, which say whether it is about a newborn.

        Args:
            row: the number of the row, from 0.
        """
        first = int(self.offsets[row])
        last = int(self.offsets[row + 1])
        return self.buffer[first : min(last, first + _HEAD)]
