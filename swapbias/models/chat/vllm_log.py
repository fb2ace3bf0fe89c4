"""What vLLM and the processes that it starts print: kept off the terminal, and searched for why they ended."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import mkstemp

from pydantic import ValidationError

from swapbias.errors import first_line

_LEVEL = "VLLM_LOGGING_LEVEL"
# The report is on the standard output; nothing about an audit leaves this machine.
_VARIABLES = {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_NO_USAGE_STATS": "1"}
_ERROR = re.compile(r"(?:^|\] )(?:\w+\.)*(\w*(?:Error|Exception)): +(.+)$", re.MULTILINE)
_QUOTED = re.compile(r"Worker failed with error '(.+)', please check")
_MOST_BYTES = 1 << 22  # of a log that are searched
_MOST_LETTERS = 240  # of a reason


class VllmLog:
    """A file without a name for what vLLM prints, which is gone when the process ends.

    Where the user sets VLLM_LOGGING_LEVEL, vLLM prints on the terminal, and nothing is kept.
    """

    def __init__(self) -> None:
        """Open the file, and let vLLM log errors alone unless the user wants more."""
        self._is_shown = _LEVEL in os.environ
        for name, value in {**_VARIABLES, _LEVEL: "ERROR"}.items():
            os.environ.setdefault(name, value)
        self._file, path = mkstemp()
        os.unlink(path)

    def __del__(self) -> None:
        os.close(self._file)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Send into the file what is printed here, and for good what the processes print that are started here."""
        if self._is_shown:
            yield
            return
        _flush()
        copies = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in copies:
                os.dup2(self._file, number)
            yield
        finally:
            _flush()
            for number, copy in copies:
                os.dup2(copy, number)
                os.close(copy)

    def size(self) -> int:
        """Return the number of bytes so far."""
        return os.fstat(self._file).st_size

    def reason(self, error: Exception, since: int = 0) -> str:
        """Return why vLLM ended: the first error that a process of it printed, or the error itself.

        Args:
            error: what vLLM raised.
            since: the bytes that were printed before.

        Returns:
            The first sentence of it, without its period.
        """
        # Reading in the usual way would move the place where those processes write.
        text = os.pread(self._file, _MOST_BYTES, since).decode(errors="replace")
        match = _ERROR.search(text)
        if match:
            message = _message_of_worker(*match.groups())
        elif isinstance(error, ValidationError):
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
        else:
            message = first_line(error)
        sentence = message.split(". ")[0].strip().rstrip(".")
        return sentence if len(sentence) <= _MOST_LETTERS else f"{sentence[:_MOST_LETTERS]}…"


def _message_of_worker(name: str, message: str) -> str:
    """Return what an error of a process says, or the error that it passes on; with its name, where it is a word."""
    passed_on = _QUOTED.search(message)
    message = passed_on.group(1) if passed_on else message
    return message if " " in message else f"{name} {message}"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
