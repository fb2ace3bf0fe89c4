"""Progress bars of commands, on stderr."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from swapbias.models import progress


@contextmanager
def show_bars() -> Iterator[progress.Bar]:
    """Show bars on a terminal while a block runs; what it prints stands above them.

    Returns:
        What begins a bar; without a terminal it shows nothing.
    """
    if not sys.stderr.isatty():
        yield progress.no_bar
        return
    with ExitStack() as ends:
        line = ends.enter_context(closing(progress.BarLine(sys.stderr)))
        if sys.stdout.isatty():
            ends.enter_context(redirect_stdout(cast("TextIO", _AboveBars(sys.stdout, line))))
        ends.enter_context(redirect_stderr(cast("TextIO", _AboveBars(sys.stderr, line))))
        yield line.begin


class _AboveBars:
    """A stream of the terminal, whose lines stand above the bar."""

    def __init__(self, stream: TextIO, line: progress.BarLine) -> None:
        self._stream = stream
        self._line = line

    def write(self, text: str) -> int:
        """Write a text; the bar is taken away meanwhile."""
        return self._line.print_above(self._stream, text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
