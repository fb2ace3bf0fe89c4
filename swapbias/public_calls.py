"""Public functions of Python: their errors name arguments, where those of commands name options."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from threading import Event
from typing import ParamSpec, TypeVar

from swapbias.errors import ArgumentError, did_you_mean, listed

_P = ParamSpec("_P")
_R = TypeVar("_R")
_ON_COMMAND_LINE = Event()
_OPTION = re.compile(r"(?<![\w-])(?:--|-M )([a-z][a-z-]*)(?:=([^\s,;)]*[^\s,;).:]))?")
_RESUME = re.compile(r"swapbias audit --resume (\S*[^\s.,;])")
_ARGUMENTS = {"study": "studies"}  # whose names differ from those of their options


@contextmanager
def on_command_line() -> Iterator[None]:
    """Run a command, whose errors name options."""
    _ON_COMMAND_LINE.set()
    try:
        yield
    finally:
        _ON_COMMAND_LINE.clear()


@contextmanager
def arguments_named() -> Iterator[None]:
    """Let errors raised inside name arguments of Python functions in place of options, except those of a command."""
    try:
        yield
    except ValueError as error:
        if len(error.args) == 1 and not _ON_COMMAND_LINE.is_set():
            error.args = (in_python_words(str(error)),)
        raise


def public_call(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a public function name arguments in its errors, also the nearest one of an argument that it does not have.

    Args:
        function: the function; names that it takes as further keywords it checks itself.
    """
    parameters = signature(function).parameters
    takes_others = any(part.kind is part.VAR_KEYWORD for part in parameters.values())
    names = [name for name in parameters if name not in ("self", "cls")]

    @wraps(function)
    def call(*positional: _P.args, **arguments: _P.kwargs) -> _R:
        for name in arguments:
            if name not in names and not takes_others:
                raise ArgumentError(unknown_argument(function.__qualname__, name, names))
        with arguments_named():
            return function(*positional, **arguments)

    return call


def unknown_argument(function: str, name: str, names: Sequence[str], all_names: str = "") -> str:
    """Write the sentence for an argument that a function does not have.

    >>> unknown_argument("audit", "studdy", ["model", "studies"])
    'audit has no argument studdy. Did you mean studies?'

    Args:
        function: the name of the function.
        name: the argument.
        names: the arguments that the function has.
        all_names: the command that lists them; blank: the sentence does.
    """
    others = f"See {all_names}" if all_names else f"It takes {listed(names)}"
    near = did_you_mean(name, names) or f" {others}."
    return f"{function} has no argument {name}.{near}"


def in_python_words(sentence: str) -> str:
    """Return a sentence about options of the command line as one about arguments of Python functions.

    >>> in_python_words("Drop --base-url, or add --study NAME. Use -M scoring=log-odds or (-M max-tokens=200).")
    "Drop base_url, or add studies NAME. Use scoring='log-odds' or (max_tokens=200)."

    Args:
        sentence: may name options; a resumed run becomes the same call.
    """
    return _OPTION.sub(_argument, _RESUME.sub(r"the same call and out=\1", sentence))


def _argument(option: re.Match[str]) -> str:
    """Return an option, with or without its value, as an argument of a Python function."""
    name = _ARGUMENTS.get(option[1], option[1].replace("-", "_"))
    return name if option[2] is None else f"{name}={_python_value(option[2])}"


def _python_value(text: str) -> str:
    """Return the value of a setting as Python writes it; capitals stand for what the user gives."""
    if text.isupper() or text.replace(".", "", 1).isdecimal():
        return text
    return text.capitalize() if text in ("true", "false") else repr(text)
