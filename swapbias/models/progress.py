"""How a reader follows work that takes long: bars, and sentences on what is done."""

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import TextIO

Progress = Callable[[float], None]
"""Called with the number of further items that are done."""
Bar = Callable[[str, int], Progress]
"""Begins a bar with a title and the total number of items."""
Say = Callable[[str], None]
"""Called with a sentence for the user."""

_REDRAWN = 0.1  # seconds from one drawing of a bar to the next
_ELAPSED_SHOWN = 0.5  # seconds after which the time that is left can be told
_STALE = 2.0  # seconds without a move after which another bar takes the line


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


@dataclass(eq=False)
class _Bar:
    """The state of a bar."""

    title: str
    total: int
    begun: float
    """Time of the clock."""
    moved: float
    """Time of the clock when it moved last."""
    done: float = 0.0

    @property
    def is_full(self) -> bool:
        """Return whether all items are done; their parts may add up to a little less."""
        return self.done > self.total - 1e-6

    def text(self, now: float, columns: int) -> str:
        """Write the bar; a long title is cut, so that the line fits."""
        share = 1.0 if self.is_full else self.done / self.total
        elapsed = now - self.begun
        state = f": {math.floor(share * 100)} % ({math.floor(self.done):,} of {self.total:,})"
        if self.is_full:
            state += f", {_duration(elapsed)}"
        elif share and elapsed >= _ELAPSED_SHOWN:
            state += f", {_duration(elapsed * (1 / share - 1))} left"
        room = max(columns - len(state), 8)
        title = self.title if len(self.title) <= room else f"{self.title[: room - 1]}…"
        return (title + state)[:columns]


@dataclass(eq=False)
class BarLine:
    """The line of a terminal on which bars are drawn, the last that moved alone; threads may move them.

    A full bar leaves its line there; the next bar begins a new line.
    """

    stream: TextIO
    """What is drawn on."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""
    _lock: RLock = field(default_factory=RLock)
    _shown: _Bar | None = None
    _bars: list[_Bar] = field(default_factory=list)
    _width: int = 0  # characters of the line that are drawn
    _drawn: float = -math.inf  # when the line was drawn last
    _is_taken: bool = False  # by something else, which has not ended its line

    def begin(self, title: str, total: int) -> Progress:
        """Begin a bar.

        Args:
            title: the title of the bar.
            total: number of items.

        Returns:
            What moves the bar.
        """
        now = self.clock()
        bar = _Bar(title, total, begun=now, moved=now)
        with self._lock:
            self._bars.append(bar)
            if self._shown is None:
                self._show(bar, now)
        return partial(self._move, bar)

    def close(self) -> None:
        """End the line; a bar that is not full stays as far as it came."""
        with self._lock:
            if self._shown is not None:
                self._show(self._shown, self.clock())
                self.stream.write("\n")
                self.stream.flush()
            self._shown = None
            self._width = 0
            self._bars.clear()

    def print_above(self, stream: TextIO, text: str) -> int:
        """Write something else than bars, which are taken away until its line ends.

        Args:
            stream: what it is written to, stdout or stderr.
            text: the text, which may be a part of a line.

        Returns:
            The number of characters, as ``write`` of a stream.
        """
        with self._lock:
            self._erase()
            count = stream.write(text)
            stream.flush()
            if text:
                self._is_taken = not text.endswith(("\n", "\r"))
            self._show_again()
        return count

    def say_above(self, say: Say, sentence: str) -> None:
        """Say a sentence, while the bar is taken away.

        Args:
            say: says it, as a whole line or not at all.
            sentence: the sentence.
        """
        with self._lock:
            self._erase()
            say(sentence)
            self._show_again()

    def _move(self, bar: _Bar, count: float) -> None:
        """Move a bar, within its ends, and show it."""
        with self._lock:
            if bar not in self._bars:  # it was full, or the line is closed
                return
            now = self.clock()
            bar.done = min(max(bar.done + count, 0.0), bar.total)
            bar.moved = now
            if bar.is_full:
                bar.done = bar.total
                self._show(bar, now)
                self._end(bar)
            elif self._may_be_drawn(bar, now):
                self._show(bar, now)

    def _may_be_drawn(self, bar: _Bar, now: float) -> bool:
        """Return whether a bar that moved is drawn: it has the line or takes it from a stale bar."""
        current = self._shown
        if self._is_taken:
            return False
        if current is not None and current is not bar and now - current.moved < _STALE:
            return False
        return self._shown is not bar or now - self._drawn >= _REDRAWN

    def _end(self, bar: _Bar) -> None:
        """Leave the line of a full bar where it is."""
        self.stream.write("\n")
        self.stream.flush()
        self._bars.remove(bar)
        self._shown = None
        self._width = 0

    def _show(self, bar: _Bar, now: float) -> None:
        """Draw a bar in place of what is on the line; what something else left there stays above it."""
        if self._is_taken:
            self.stream.write("\n")
            self._is_taken = False
        text = bar.text(now, shutil.get_terminal_size().columns - 1)
        self.stream.write(f"\r{text.ljust(self._width)}")
        self.stream.flush()
        self._shown = bar
        self._width = len(text)
        self._drawn = now

    def _show_again(self) -> None:
        """Draw the bar again that was taken away, unless something else has the line."""
        if self._shown is not None and not self._is_taken:
            self._show(self._shown, self.clock())

    def _erase(self) -> None:
        """Make the line empty."""
        if self._width:
            self.stream.write(f"\r{''.ljust(self._width)}\r")
            self.stream.flush()
            self._width = 0


@contextmanager
def watched_bars(say: Say, *, show_bars: bool = True) -> Iterator[tuple[Say, Bar]]:
    """Draw bars on a terminal or in a notebook while a block runs; elsewhere none are drawn.

    Args:
        say: says a sentence.
        show_bars: draw them.

    Returns:
        What says a sentence above the bars, and what begins a bar.
    """
    stream = sys.stderr
    if not stream.isatty() and "ipykernel" in sys.modules:
        stream = sys.stdout  # a notebook shows stderr as errors
    elif not stream.isatty():
        show_bars = False
    if not show_bars:
        yield say, no_bar
        return
    with closing(BarLine(stream)) as line:
        yield partial(line.say_above, say), line.begin


def _duration(seconds: float) -> str:
    """Write how long something takes.

    >>> [_duration(seconds) for seconds in (0.4, 59.4, 60, 3599, 7260)]
    ['0 s', '59 s', '1 min', '1 h', '2 h 1 min']
    """
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
