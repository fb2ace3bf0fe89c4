"""The kinds of trouble a user can cause; everything else is a bug."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


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


# What pip installs with swapbias[audit], by the names of import; the first four are what it names.
_OF_AUDITS = ("torch", "transformers", "matplotlib", "jinja2", "tokenizers", "safetensors")


def need_audit_extra(what: str, *names: str) -> None:
    """Refuse before any work what could not be finished without libraries of audits: those names, all by default.

    Raises:
        MissingExtraError: naming those that are not installed.
    """
    if missing := [name for name in names or _OF_AUDITS[:4] if find_spec(name) is None]:
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
    listed = " and ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])
    verb = "is" if len(names) == 1 else "are"
    return MissingExtraError(
        f"{what} needs {listed}, which {verb} not installed. Install with pip install 'swapbias[audit]'."
    )


def quoted(value: object) -> str:
    """What a file or a call says, in a sentence: its beginning, where it is long.

    >>> quoted("She"), quoted("She" * 1_000)[-4:], len(quoted("She" * 1_000))
    ("'She'", 'She…', 80)
    """
    whole = repr(value)
    return whole if len(whole) <= 80 else f"{whole[:79]}…"
