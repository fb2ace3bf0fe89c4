"""The two kinds of trouble a user can cause; everything else is a bug."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(ValueError):
    """The command or call cannot be meant as given (unknown name, model that does not fit): exit code 2."""


class UpstreamMissingError(ValueError):
    """A file that the package reads from a study's own repository is not reachable."""


class HubError(ValueError):
    """The Hub refused, could not be reached, or holds something that cannot be read."""


_RESUMED = re.compile(r"(?:swapbias audit )?--resume (\S+?)(?=[.,]?(?:\s|$))")
_RENAMED = {"study": "studies"}  # what Python calls otherwise than the command line


@contextmanager
def python_names() -> Iterator[None]:
    """Sentences of errors name options as the command line has them; here they leave with Python's names.

    >>> try:
    ...     with python_names():
    ...         raise UsageError("No such label. Pass --positive-label, or another --study.")
    ... except UsageError as error:
    ...     print(error)
    No such label. Pass positive_label=, or another studies=.
    """
    try:
        yield
    except ValueError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise


def in_python(sentence: str) -> str:
    """A sentence with the arguments of ``swapbias.audit`` for the options of the command line.

    >>> in_python("It is not empty. Go on with --resume runs/a, or choose another --out.")
    "It is not empty. Go on with out='runs/a', resume=True, or choose another out=."
    """
    told = _RESUMED.sub(r"out='\1', resume=True", sentence)
    told = re.sub(r"(?<![\w-])--no-([a-z][a-z-]*)", lambda found: f"{found[1].replace('-', '_')}=False", told)
    return re.sub(
        r"(?<![\w-])--([a-z][a-z-]*)(?: (?=[A-Z]{2,}\b))?",
        lambda found: f"{_RENAMED.get(found[1], found[1].replace('-', '_'))}=",
        told,
    )
