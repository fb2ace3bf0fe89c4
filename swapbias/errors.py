"""The kinds of trouble a user can cause; everything else is a bug."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class UsageError(ValueError):
    """The command or call cannot be meant as given (unknown name, model that does not fit): exit code 2."""


class StudyError(ValueError):
    """What is wrong with a study of the user's own: every fault on a line of its own."""


class UpstreamMissingError(ValueError):
    """A file that the package reads from a study's own repository is not reachable."""


class HubError(ValueError):
    """The Hub refused, could not be reached, or holds something that cannot be read."""


class MissingExtraError(UsageError, ImportError):
    """What was asked for takes libraries that a plain installation leaves out."""


_QUOTED = 80  # letters of a value that is named in a sentence
# What pip installs with swapbias[audit], by the names of import; the first four are what it names.
_OF_AUDITS = ("torch", "transformers", "matplotlib", "jinja2", "tokenizers", "safetensors")


def need_audit_extra(what: str, *names: str) -> None:
    """Refuse before any work what could not be finished without libraries of audits: those names, all by default.

    Raises:
        MissingExtraError: naming those that are not installed.
    """
    missing = [name for name in names or _OF_AUDITS[:4] if find_spec(name) is None]
    if missing:
        raise _missing(what, missing)


@contextmanager
def extras_named() -> Iterator[None]:
    """An import that fails because a plain installation leaves its library out says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _OF_AUDITS or isinstance(error, MissingExtraError):
            raise
        raise _missing("This", [name]) from error


def _missing(what: str, names: list[str]) -> MissingExtraError:
    told = " and ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])
    install = "pip install 'swapbias[audit]'"
    return MissingExtraError(
        f"{what} needs {told}, which {'is' if len(names) == 1 else 'are'} not installed. Install with {install}."
    )


def quoted(value: object) -> str:
    """What a file or a call says, in a sentence: its beginning, where it is long.

    >>> quoted("She"), quoted("She" * 1_000)[-4:], len(quoted("She" * 1_000))
    ("'She'", 'She…', 80)
    """
    whole = repr(value)
    return whole if len(whole) <= _QUOTED else f"{whole[: _QUOTED - 1]}…"


_RESUMED = re.compile(r"(?:swapbias audit )?--resume (\S+?)(?=[.,]?(?:\s|$))")
_SWITCHES = ("allow-pickle", "conclude", "no-seed", "own-store", "plain-http", "plausible", "stop-early")  # settings
_RENAMED = {"study": "studies"}  # what Python calls otherwise than the command line


@contextmanager
def python_names() -> Iterator[None]:
    """Sentences of errors name options as the command line has them; here they leave with Python's names.

    >>> try:
    ...     with python_names():
    ...         raise UsageError("No such label. Pass -M positive-label, or another --study.")
    ... except UsageError as error:
    ...     print(error)
    No such label. Pass positive_label=, or another studies=.
    """
    try:
        with extras_named():
            yield
    except ValueError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise


def _setting(found: re.Match[str]) -> str:
    return f"{found[1].replace('-', '_')}={'True' if found[1] in _SWITCHES else ''}"


def in_python(sentence: str) -> str:
    """A sentence with the arguments of ``swapbias.audit`` for the options of the command line.

    >>> in_python("It is not empty. Go on with --resume runs/a, or choose another --out.")
    "It is not empty. Go on with out='runs/a', resume=True, or choose another out=."
    >>> in_python("Ask with -M scoring=log-odds, -M judge=MODEL or -M no-seed.")
    'Ask with scoring=log-odds, judge= or no_seed=True.'
    """
    told = _RESUMED.sub(r"out='\1', resume=True", sentence)
    told = re.sub(r"(?<![\w-])-M ([a-z][a-z-]*)(=[A-Z]{2,}\b|=)?", _setting, told)
    told = re.sub(r"(?<![\w-])--no-([a-z][a-z-]*)", lambda found: f"{found[1].replace('-', '_')}=False", told)
    return re.sub(
        r"(?<![\w-])--([a-z][a-z-]*)(?: (?=[A-Z]{2,}\b))?",
        lambda found: f"{_RENAMED.get(found[1], found[1].replace('-', '_'))}=",
        told,
    )
