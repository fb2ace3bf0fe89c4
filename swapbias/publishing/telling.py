"""The lines of the scripts: a reader that stops reading (``| head``) or knows few letters does not stop the work."""

import io
import os
import sys
from typing import TextIO


def prepare_output() -> None:
    """Let a terminal that cannot show a letter show ``?`` in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(line: str) -> None:
    """A line of the result."""
    _write(sys.stdout, line)


def complain(script: str, sentence: object) -> None:
    """A sentence of trouble, on one line after the script's name."""
    _write(sys.stderr, f"{script}: {' '.join(str(sentence).split())}")


def _write(stream: TextIO, line: str) -> None:
    """A line now; once nobody reads any more, lines go nowhere and the work goes on."""
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # what is still to be flushed at the end would fail as well
        os.close(nowhere)
