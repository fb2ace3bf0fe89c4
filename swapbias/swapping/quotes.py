"""The quotes of a CSV file, checked beside Arrow's reading: Arrow lets an open quote swallow the rows behind it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 18  # fits in the processor's cache


class QuoteCheck:
    """Reads a file, plain or gzipped, a second time, and raises where a quote is not closed.

    A quote opens a cell only at the cell's start, as for Arrow and the ``csv`` module: ``5" tube`` stays as it is.
    Arrow could read through this object instead, but its threads would then need Python's lock at the program's end.
    """

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self._path, self._delimiter = path, delimiter
        self._raw, self._stream = open_stream(path)
        self._quotes, self._ended = _Quotes(delimiter), False

    def advance(self, position: int | None = None) -> None:
        """Check what the first ``position`` bytes of the file hold, and its end if it is there; or all of it.

        Raises:
            ValueError: a quote is not closed, or text follows the closing one; names the row and its line.
            OSError: the file is no whole gzip file.
        """
        # Not before it reads bytes behind the position has a gzip stream given all that is held before it.
        while not self._ended and (position is None or self._raw.tell() <= position):
            block = self._stream.read(_CHUNK)
            self._ended = not block
            wrong = self._quotes.wrong(block)
            if wrong is not None:
                raise ValueError(
                    f"{self._path.name}: {self._place(wrong)}: a quote opens a cell and is not closed at the cell's "
                    "end, expected pairs. Close it, or double the quotes within the cell."
                )

    def long_cell(self, longest: int) -> str | None:
        """Where the first quoted cell of about that many bytes opens, or None."""
        quotes = _Quotes(self._delimiter)
        for block in _blocks(self._path):
            if quotes.wrong(block) is not None:
                break
            if quotes.inside and quotes.end - quotes.opened > longest - _CHUNK:
                return self._place(quotes.opened)
        return None

    def all_closed(self) -> bool:
        """Whether no quote of the file is wrong."""
        quotes = _Quotes(self._delimiter)
        return all(quotes.wrong(block) is None for block in _blocks(self._path))

    def _place(self, offset: int) -> str:
        """Row and line; counted only here, since reading has no use for them."""
        quotes = _Quotes(self._delimiter, until=offset)
        for block in _blocks(self._path):
            quotes.wrong(block)
            if quotes.end >= offset:
                break
        return f"row {quotes.rows + 1} (line {quotes.line}; the header is row 1)"


class _Quotes:
    """Where the quotes of a stream of blocks open and close.

    Attributes:
        inside: whether a quoted cell is open at the end.
        opened: where in the file it opened.
        end: the bytes that are checked.
        rows, line: rows ended before the offset ``until``, and the line at which the next one starts.
    """

    def __init__(self, delimiter: str, until: int | None = None) -> None:
        self.inside, self.opened, self.rows, self.line = False, 0, 0, 1
        self._until, self._lines = until, 1
        self._borders = np.zeros(256, bool)
        self._borders[[ord(delimiter), _NEWLINE, _RETURN]] = True
        self._borders_or_quote = self._borders.copy()
        self._borders_or_quote[_QUOTE] = True
        self._tail, self._base = b"\n", -1  # a file starts as after a line end

    @property
    def end(self) -> int:
        return self._base + 1

    def wrong(self, block: bytes) -> int | None:
        """Check the next block, an empty one as the end; gives where the cell with a wrong quote opens."""
        if self.end == 0 and block.startswith(_MARK):
            block, self._base = block[len(_MARK) :], self._base + len(_MARK)
        held = self._tail + (block or b"\n")
        body = held.rstrip(b'"')  # what follows a run of quotes decides about it: the last one waits
        data = np.frombuffer(body, np.uint8)
        quotes = np.flatnonzero(data == _QUOTE)
        wrong = None
        if self._until is not None or not self._in_pairs(data, quotes):
            wrong = self._by_runs(data, quotes)
        if wrong is None and not block and self.inside:
            wrong = self.opened
        self._tail = held[len(body) - 1 :] if block else b"\n"
        self._base += len(body) - 1
        return wrong

    def _in_pairs(self, data: Any, quotes: Any) -> bool:
        """Whether all quotes open, close and double without fault, which is so in most blocks and quickly seen."""
        opening, closing = quotes[int(self.inside) :: 2], quotes[1 - int(self.inside) :: 2]
        before = data[opening - 1]
        if not self._borders_or_quote[before].all() or not self._borders_or_quote[data[closing + 1]].all():
            return False
        self.inside = bool((quotes.size + self.inside) % 2)
        if self.inside:
            first = opening[before != _QUOTE]
            self.opened = self._base + int(first[-1]) if first.size else self.opened
        return True

    def _by_runs(self, data: Any, quotes: Any) -> int | None:
        """Any block. Runs of adjacent quotes decide, and an even run changes nothing.

        An odd run at the start of a cell opens it, or closes the one that is open; an odd run elsewhere closes, or is
        text of a cell without quotes. So a cell is open if the number of odd runs at a cell's start since the last
        one elsewhere is odd.
        """
        gaps = np.flatnonzero(np.diff(quotes) != 1)
        first = quotes[np.concatenate(([0], gaps + 1))] if quotes.size else quotes
        last = quotes[np.concatenate((gaps, [-1]))] if quotes.size else quotes
        odd = (last - first) % 2 == 0
        starts = self._borders[data[first - 1]]
        count = np.cumsum(odd & starts)
        since = np.maximum.accumulate(np.where(odd & ~starts, count, -int(self.inside)))
        inside = np.concatenate(([self.inside], (count - since) % 2 == 1))
        before = inside[:-1]
        if self._until is not None:
            self._count(data, first, inside)
        wrong = last[np.where(before, odd, starts & ~odd) & ~self._borders[data[last + 1]]]
        opening = first[starts & ~before]
        known = opening[opening <= wrong[0]] if wrong.size else opening
        if known.size:
            self.opened = self._base + int(known[-1])
        self.inside = bool(inside[-1])
        return self.opened if wrong.size else None

    def _count(self, data: Any, first: Any, inside: Any) -> None:
        """Rows and lines that end before the offset asked for; lines without cells are no rows."""
        breaks = np.flatnonzero((data == _NEWLINE) | (data == _RETURN))
        breaks = breaks[(breaks > 0) & (breaks + self._base < (self._until or 0))]
        if not breaks.size:
            return
        held = data[breaks - 1]
        lines = self._lines + np.cumsum(~((data[breaks] == _NEWLINE) & (held == _RETURN)))
        outside = ~inside[np.searchsorted(first, breaks)]
        self.rows += int(np.count_nonzero(outside & (held != _NEWLINE) & (held != _RETURN)))
        self._lines = int(lines[-1])
        if outside.any():
            self.line = int(lines[outside][-1])


def open_stream(path: Path) -> tuple[pa.NativeFile, pa.NativeFile]:
    """The file, whose position tells how much of it is read, and the stream of its text."""
    raw = pa.OSFile(str(path))
    return raw, pa.CompressedInputStream(raw, "gzip") if path.name.lower().endswith(".gz") else raw


def _blocks(path: Path) -> Iterator[bytes]:
    with open_stream(path)[1] as stream:
        while block := stream.read(_CHUNK):
            yield block
    yield b""
