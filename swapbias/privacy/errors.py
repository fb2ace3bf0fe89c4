"""Errors while notes are read: what a library says of them may quote one, and is then not shown.

What swapbias itself says of a file names its row and column and never a cell. Messages of libraries (pandas, pyarrow,
scikit-learn, a user's own classifier, a worker process) often hold the value that they could not read. So once notes
are read, only sentences that this package's own ``raise`` wrote are shown, in tracebacks too.
"""

import dis
import logging
import traceback
from collections.abc import Iterator
from types import TracebackType

from swapbias.errors import HubError, UpstreamMissingError, UsageError

TRACEBACKS = "swapbias.tracebacks"  # the logger that --debug shows
UNSHOWN = "what it says may quote a note and is not shown"
_OURS = (UsageError, UpstreamMissingError, HubError)
_RAISE = dis.opmap["RAISE_VARARGS"]
_reading: set[str] = set()  # not empty once texts were read that may be notes


def notes_read() -> None:
    """Texts that may be notes are in this process from now on."""
    _reading.add("notes")


def forget_notes() -> None:
    """As at the start of a process: a command begins."""
    _reading.clear()


def told(error: BaseException) -> str:
    """What an error says, or where it may quote a note its type alone.

    >>> told(UsageError("There is no column 'note'."))
    "There is no column 'note'."
    """
    if not _reading or _is_ours(error):
        return str(error)
    return f"{type(error).__name__}, and {UNSHOWN}"


def told_trace(error: BaseException) -> str:
    """The traceback of an error and of those before it; what these say is shown as ``told`` has it."""
    return "".join(_lines(error, set()))


def log_traceback(error: BaseException) -> None:
    """Log at debug level the traceback of an error that the user sees as one sentence."""
    log = logging.getLogger(TRACEBACKS)
    if log.isEnabledFor(logging.DEBUG):
        log.debug("%s", told_trace(error).rstrip())


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield "\nThen:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}: {told(error)}\n"


def _is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` of this package wrote the message; a call that failed in C has the frame of its caller."""
    if isinstance(error, _OURS):
        return True
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code, name = last.tb_frame.f_code.co_code, last.tb_frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "swapbias" and code[last.tb_lasti] == _RAISE
