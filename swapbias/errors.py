"""The kinds of trouble a user can cause; everything else is a bug."""

import logging
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Event


class UsageError(ValueError):
    """The command or call cannot be carried out (unknown name, model that does not fit): exit code 2."""


class StudyError(ValueError):
    """What is wrong with a study of the user's own: every fault on a line of its own."""


class UpstreamMissingError(ValueError):
    """A file that the package reads from a study's own repository is not reachable."""


class HubError(ValueError):
    """The Hub refused, could not be reached, or holds something that cannot be read."""


class MissingExtraError(UsageError, ImportError):
    """A library is missing that a plain installation leaves out."""


AUDIT = ("torch", "transformers", "matplotlib")  # what swapbias[audit] names, by the names of import
_OF_AUDITS = (*AUDIT, "tokenizers", "safetensors")  # what pip installs with it


def need(what: str, *names: str, extra: str = "audit") -> None:
    """A MissingExtraError, before any work, for packages of an extra (by the names of import) that are missing."""
    missing = ["scikit-learn" if name == "sklearn" else name for name in names if find_spec(name) is None]
    if missing:
        listed = " and ".join([*filter(None, [", ".join(missing[:-1])]), missing[-1]])
        lacking = f"{listed}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise MissingExtraError(f"{what} needs {lacking}. Install with pip install 'swapbias[{extra}]'.")


@contextmanager
def extras_named() -> Iterator[None]:
    """An import that fails because a plain installation leaves its library out says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _OF_AUDITS or isinstance(error, MissingExtraError):
            raise
        need("This", name)
        raise


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of those libraries that are installed."""
    return {name: version(name) for name in names if find_spec(name)}


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without its final period."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def quoted(value: object) -> str:
    """What a file or a call says, in a sentence: its beginning, where it is long.

    >>> quoted("She"), quoted("She" * 1_000)[-4:], len(quoted("She" * 1_000))
    ("'She'", 'She…', 80)
    """
    whole = repr(value)
    return whole if len(whole) <= 80 else f"{whole[:79]}…"


# --- errors while notes are read --------------------------------------------------------------------------

# Messages of libraries and of a user's own classifier often hold the value that they could not read, which those of
# swapbias never do. Once notes are read, only its own are shown.
TRACEBACKS = "swapbias.tracebacks"  # the logger that --debug shows
_reading = Event()
notes_read = _reading.set  # texts that may be notes are in this process from now on
forget_notes = _reading.clear  # as at the start of a process: a command begins


def safe_message(error: BaseException) -> str:
    """What an error says, or where it may quote a note its type alone."""
    if not _reading.is_set() or isinstance(error, UsageError | UpstreamMissingError | HubError) or _is_ours(error):
        return str(error)
    return f"{type(error).__name__}, and what it says may quote a note and is not shown"


def log_traceback(error: BaseException) -> None:
    """Log at debug level the tracebacks of an error that the user sees as one sentence, and of its causes."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        log_traceback(before)
    frames = "".join(traceback.format_tb(error.__traceback__))
    frames = f"Traceback (most recent call last):\n{frames}{type(error).__name__}"
    logging.getLogger(TRACEBACKS).debug("%s: %s", frames, safe_message(error))


def _is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` statement of this package wrote the message."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    package = Path(__file__).resolve().parent
    return any(package in Path(one.filename).parents and (one.line or "").startswith("raise ") for one in last)
