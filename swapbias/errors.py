"""The kinds of trouble a user can cause; everything else is a bug."""

import logging
import re
import sys
import sysconfig
import traceback
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any, get_args, get_origin


class UsageError(ValueError):
    """The command or call cannot be carried out (unknown name, model that does not fit): exit code 2.

    >>> from swapbias import UsageError, load_study
    >>> try:
    ...     load_study("gendered_stima")
    ... except UsageError as error:
    ...     print(str(error).partition(". ")[2])
    Did you mean gendered_stigma?
    """


class ArgumentError(UsageError, TypeError):
    """A Python function has no argument of that name, or none of that type."""


class StudyError(ValueError):
    """Faults of a study of the user's own, each on a line of its own.

    >>> import pandas
    >>> from swapbias import StudyError, open_study
    >>> prompts = pandas.DataFrame({"text": ["She is here.", ""], "group": ["female", "male"]})
    >>> try:
    ...     open_study(prompts, reference="male")
    ... except StudyError as error:
    ...     print(error)
    prompts.csv:3: column 'text' is blank, expected a value. Fill it in.
    """


class ServiceError(ValueError):
    """A service does not answer; what it answered before is kept, and the run can go on."""


class ServiceUsageError(ServiceError, UsageError):
    """A service refuses the key, or does not know the model."""


class UpstreamMissingError(ValueError):
    """A file that the package reads from a study's own repository is not reachable."""


class HubError(ValueError):
    """The Hub refused, could not be reached, or holds something that cannot be read."""


class MissingExtraError(UsageError, ImportError):
    """A library is missing that a plain installation leaves out."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that an error ends.

    >>> exit_code(StudyError("prompts.csv:1: ...")), exit_code(HubError("..."))
    (2, 1)

    Args:
        error: what was raised.

    Returns:
        2 where the request or a file of the user's is wrong, 1 for trouble on the way: the Hub, a service, the disk.
    """
    if isinstance(error, UsageError):
        return 2
    if isinstance(error, ServiceError | HubError | UpstreamMissingError):
        return 1
    return 2 if isinstance(error, ValueError) else 1


def points_hint(value: float) -> str:
    """Write how points are given as a share of a range, for errors about margins.

    >>> points_hint(10), points_hint(-1)
    ('10 points is 0.1', '5 points is 0.05')

    Args:
        value: what the user gave; another number of points than it is the example where it is none.
    """
    points = value if 1 < value <= 100 else 5
    return f"{points:g} points is {points / 100:g}"


def listed(names: Iterable[str], otherwise: str = "none") -> str:
    """Write names for a sentence, with commas between them.

    >>> listed(["a", "b"]), listed([])
    ('a, b', 'none')

    Args:
        names: empty ones are left out.
        otherwise: stands where there is no name, so that no list is empty.
    """
    return ", ".join(filter(None, names)) or otherwise


def joined(names: Sequence[str]) -> str:
    """Write names for a sentence, with "and" before the last.

    >>> joined(["a", "b", "c"]), joined(["a"])
    ('a, b and c', 'a')

    Args:
        names: any number of them.
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


_FORMS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def expected_value(of_type: Any, least: float | None = None, most: float | None = None) -> str:
    """Write what a setting of a type and range takes, for a sentence after "expected".

    >>> expected_value(int, 1), expected_value(float | None, 0, 2), expected_value(str | None)
    ('a whole number of 1 or more', 'a number from 0 to 2', 'a text')

    Args:
        of_type: the type, or a union with others, of which the first that has a word is named.
        least: the smallest number allowed; None where there is no limit.
        most: the largest number allowed, in the same way.

    Returns:
        A noun with its article, and the range.
    """
    types = (of_type, *get_args(of_type))
    form = next((_FORMS[part] for part in types if part in _FORMS), "another value")
    if get_origin(of_type) in (tuple, list):
        form = "a list of texts"
    if least is None:
        return form
    if most is None:
        return f"{form} of {least:g} or more"
    return f"{form} from {least:g} to {most:,.10g}"


MODELS = ("torch", "transformers")
"""Packages that ``swapbias[models]`` adds, by the names of import."""
_READ_MODELS = (*MODELS, "tokenizers", "safetensors")


def need(user: str, *names: str, extra: str = "audit") -> None:
    """Check that packages of an extra are installed, before any work.

    Args:
        user: begins the sentence, as "An audit".
        names: the names of the packages, as they are imported.
        extra: the extra of swapbias, which installs them.

    Raises:
        MissingExtraError: One is not installed.
    """
    absent = [name for name in names if find_spec(name) is None]
    if absent:
        packages = ["scikit-learn" if name == "sklearn" else name for name in absent]
        verb = "is" if len(packages) == 1 else "are"
        raise MissingExtraError(
            f"{user} needs {joined(packages)}, which {verb} not installed. "
            f"Install with pip install 'swapbias[{extra}]'."
        )


@contextmanager
def extras_named() -> Iterator[None]:
    """Let an import that fails because a plain installation leaves its library out say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtraError):
            raise
        if name in _READ_MODELS:
            need("This model", name, extra="models")
        if name == "matplotlib":
            need("A figure", name)
        raise


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of libraries.

    Args:
        names: the names of the libraries; those that are not installed are left out.
    """
    return {name: _version_of(name) for name in names if find_spec(name)}


@cache
def _version_of(name: str) -> str:
    """Return the version of an installed library, which is looked for on the whole path."""
    return version(name)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without its final period.

    Args:
        error: one without a text is named by its type.
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def quoted(value: object) -> str:
    """Write what a file or a call says for a sentence: its beginning, where it is long.

    >>> quoted("She"), quoted("She" * 1_000)[-4:], len(quoted("She" * 1_000))
    ("'She'", 'She…', 80)

    Args:
        value: any value, which is written as Python does.
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
    """Return what an error says, or where it may quote a note its type alone.

    Args:
        error: what was raised.
    """
    is_safe = isinstance(error, UsageError | UpstreamMissingError | HubError) or _is_ours(error)
    if is_safe or not _reading.is_set():
        return str(error)
    return f"{type(error).__name__}, and what it says may quote a note and is not shown"


def log_traceback(error: BaseException) -> None:
    """Log at debug level the tracebacks of an error that the user sees as one sentence, and of its causes.

    Args:
        error: what was raised.
    """
    before = error.__cause__
    if before is None and not error.__suppress_context__:
        before = error.__context__
    if before is not None:
        log_traceback(before)
    frames = "".join(traceback.format_tb(error.__traceback__))
    frames = f"Traceback (most recent call last):\n{frames}{type(error).__name__}"
    logging.getLogger(TRACEBACKS).debug("%s: %s", frames, safe_message(error))


def contributed_fault(error: BaseException) -> str:
    """Say where in a builder, or in code from outside of the package, a mistake is that an error shows.

    Args:
        error: what was raised.

    Returns:
        A sentence with file and line; blank for a bug of swapbias or a library, and for an error that says by itself
        what is wrong (a ValueError of a ``raise`` statement).
    """
    if _explains_itself(error):
        return ""
    location = contributed_place(error)
    if not location:
        return ""
    name = type(error).__name__
    message = error.msg if isinstance(error, SyntaxError) else safe_message(error).rstrip(".")
    if not message.startswith(name):
        message = f"{name}: {message}"
    return f"{location}: {message}. Correct it."


def _explains_itself(error: BaseException) -> bool:
    """Return whether an error says by itself what is wrong: it is a ValueError of a ``raise`` statement."""
    if not isinstance(error, ValueError) or isinstance(error, UnicodeError):
        return False
    if type(error) is not ValueError:
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or (frames[-1].line or "").startswith("raise ")


def contributed_place(error: BaseException) -> str:
    """Find the last frame of a traceback that is in a builder or from outside.

    Args:
        error: what was raised.

    Returns:
        ``file:line``; empty where there is none.
    """
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno))
    for name, line in reversed(lines):
        if file := _contributed_file(name):
            return f"{file}:{line}"
    return ""


def _contributed_file(name: str) -> str:
    """Return the path of a builder, or of a file from outside, as errors name it; empty for any other file."""
    path = Path(name)
    program = getattr(sys.modules["__main__"], "__file__", "")
    if name.startswith("<") or name in (sys.argv[0], program):
        return ""
    builders = find_spec("swapbias.builders")
    for folder in map(Path, (builders and builders.submodule_search_locations) or ()):
        if folder in path.parents:
            return f"builders/{path.relative_to(folder)}"
    if Path(__file__).resolve().parent in path.parents:
        return ""
    return _outside_file(name)


def _outside_file(name: str) -> str:
    """Return the path of a file from outside as errors name it; empty for one of Python or of a library."""
    path = Path(name)
    folders = sysconfig.get_paths()
    for library in (Path(folders["purelib"]), Path(folders["platlib"])):
        if library in path.parents:
            inside = path.relative_to(library)
            package = inside.parts[0].removesuffix(".py")
            return str(inside) if package in _plugin_packages() else ""
    if Path(folders["stdlib"]) in path.parents or "site-packages" in path.parts:
        return ""
    for folder in (Path.cwd(), *(Path(entry) for entry in sys.path if entry)):
        if folder in path.parents:
            return str(path.relative_to(folder))
    return name


def _plugin_packages() -> set[str]:
    """Return the packages that add something to swapbias by an entry point."""
    groups = [group for group in entry_points().groups if group.startswith("swapbias.")]
    points = [point for group in groups for point in entry_points(group=group)]
    return {re.split(r"[.:]", point.value)[0] for point in points}


def _is_ours(error: BaseException) -> bool:
    """Return whether a ``raise`` statement of this package wrote the message."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return False
    package = Path(__file__).resolve().parent
    is_here = package in Path(frames[-1].filename).parents
    return is_here and (frames[-1].line or "").startswith("raise ")


# Names that look alike and mean the opposite: none is proposed for the other.
_OPPOSITES = {
    frozenset(pair)
    for pair in (
        ("male", "female"), ("males", "females"), ("man", "woman"), ("men", "women"), ("he", "she"), ("boy", "girl"),
        ("him", "her"), ("his", "hers"), ("positive", "negative"), ("pro", "anti"), ("able", "unable"),
    )
}  # fmt: skip


def unknown_name(thing: str, name: str, names: Sequence[str]) -> UsageError:
    """Return the error for a name that is none of those there are.

    Args:
        thing: the name of what, for the sentence.
        name: what the user gave.
        names: those there are.
    """
    if not names:
        return UsageError(f"Unknown {thing} {quoted(name)}: there is none.")
    hint = did_you_mean(name, names)
    return UsageError(f"Unknown {thing} {quoted(name)}: expected one of {listed(names)}.{hint}")


def did_you_mean(name: object, names: Sequence[str]) -> str:
    """Name the nearest of the names there are.

    What is the same except case, form of Unicode or marks between words comes first.

    >>> did_you_mean("male", ["Female", "Male"]), did_you_mean("male", ["Female"])
    (' Did you mean Male?', '')

    Args:
        name: what the user gave.
        names: those there are.

    Returns:
        A sentence after a blank; empty where none is near.
    """
    if not isinstance(name, str):  # as a caller in Python may give it
        return ""
    typed = _normal_form(name)
    by_form: dict[str, str] = {}
    for candidate in names:
        by_form.setdefault(_normal_form(candidate), candidate)
    near = get_close_matches(typed, by_form, n=len(by_form) or 1)
    if typed in by_form:
        near = [typed]
    for form in near:
        if frozenset((typed, form)) not in _OPPOSITES:
            return f" Did you mean {by_form[form]}?"
    return ""


def _normal_form(name: str) -> str:
    """Return a name without what is easily written otherwise: case, accents in two forms, marks between words."""
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", name).casefold()).strip("_")
