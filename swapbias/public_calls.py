"""Public functions of Python: their errors name arguments, where those of commands name options."""

import numbers
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from inspect import Parameter, Signature, formatannotation, signature
from itertools import chain
from threading import Event
from typing import Any, NamedTuple, ParamSpec, TypeVar

from swapbias.errors import ArgumentError, did_you_mean, listed

_P = ParamSpec("_P")
_R = TypeVar("_R")
_ON_COMMAND_LINE = Event()
_OPTION = re.compile(r"(?<![\w-])(?:--|-M )([a-z][a-z-]*)(?:=([^\s,;)]*[^\s,;).:]))?")
_RESUME = re.compile(r"swapbias audit --resume (\S*[^\s.,;])")
_ARGUMENTS = {"study": "studies"}  # whose names differ from those of their options
# What Python raises for a value of a type that code does not expect.
_TYPE_FAULTS = (TypeError, AttributeError, LookupError)
_OF_ANY_NUMBER = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)


class _Type(NamedTuple):
    """A type of arguments as annotations name it."""

    words: str
    """Its name in a sentence."""
    takes: Callable[[Any], bool]
    """Tells whether a value is of it."""


def _is_truth(value: Any) -> bool:
    """Tell whether a value is true or false, of Python or NumPy."""
    return type(value).__name__ in ("bool", "bool_")


def _is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number, and not True or False."""
    return isinstance(value, numbers.Integral) and not _is_truth(value)


def _is_column(value: Any) -> bool:
    """Tell whether a value has an order of further values, and is no text."""
    without_order = (str, bytes, Mapping, set, frozenset)
    return isinstance(value, Iterable) and not isinstance(value, without_order)


_SCALARS = {
    "int": _Type("a whole number", _is_whole),
    "float": _Type("a number", lambda value: isinstance(value, numbers.Real)),
    "bool": _Type("True or False", _is_truth),
    "None": _Type("None", lambda value: value is None),
}
_TYPES = {
    **_SCALARS,
    "str": _Type("a text", lambda value: isinstance(value, str)),
    "PathLike": _Type("a path", lambda value: isinstance(value, os.PathLike)),
    "Path": _Type("a path", lambda value: isinstance(value, os.PathLike)),
    "Sequence": _Type("a list", _is_column),
    "Collection": _Type("a list", lambda value: _is_column(value) or isinstance(value, set)),
    "ArrayLike": _Type("a list of numbers", _is_column),
    "ndarray": _Type("an array", _is_column),
    "Mapping": _Type("a dict", lambda value: isinstance(value, Mapping)),
    "Callable": _Type("a function", callable),
    "Any": _Type("anything", lambda _: True),
}


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
    """Let a public function name arguments in its errors: one of another type, or that it does not have.

    Args:
        function: the function; one that takes further keywords checks them itself, and scalars.
    """
    called = signature(function)
    parameters = called.parameters
    takes_others = any(part.kind is part.VAR_KEYWORD for part in parameters.values())
    names = [name for name in parameters if name not in ("self", "cls")]

    types = cache(partial(_scalar_types, parameters))

    @wraps(function)
    def call(*positional: _P.args, **arguments: _P.kwargs) -> _R:
        for name in arguments:
            if name not in names and not takes_others:
                raise ArgumentError(unknown_argument(function.__qualname__, name, names))
        all_arguments = chain(zip(parameters, positional, strict=False), arguments.items())
        if not takes_others and not _are_of(all_arguments, types()):
            _check_types(called, positional, arguments, beforehand=True)
        with arguments_named():
            try:
                return function(*positional, **arguments)
            except _TYPE_FAULTS as error:
                if not isinstance(error, ArgumentError):
                    _check_types(called, positional, arguments, because=error)
                raise

    return call


def _scalar_types(parameters: Mapping[str, Parameter]) -> dict[str, list[str]]:
    """Return the types of those parameters that are texts, numbers, True or False."""
    types = {
        part.name: _types_of(part.annotation)
        for part in parameters.values()
        if part.kind not in _OF_ANY_NUMBER
    }
    return {
        name: allowed
        for name, allowed in types.items()
        if allowed and {*allowed} <= {"str", *_SCALARS}
    }


def _are_of(arguments: Iterable[tuple[str, Any]], types: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether all arguments whose types are listed are of these."""
    return all(_is_of(value, types[name]) for name, value in arguments if name in types)


def _check_types(
    called: Signature,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
    *,
    beforehand: bool = False,
    because: Exception | None = None,
) -> None:
    """Refuse an argument of another type than its annotation says.

    Args:
        called: the signature of the function.
        positional: arguments by place.
        arguments: arguments by name.
        beforehand: the function was not called yet, and may take more than it says: only what is no scalar where one
            is expected, and another scalar than a number, True or False, is refused.
        because: what the function raised.

    Raises:
        ArgumentError: an argument is of another type.
    """
    try:
        bound = called.bind(*positional, **arguments).arguments
    except TypeError:  # one is missing, of which Python says enough
        return
    for name, value in bound.items():
        parameter = called.parameters[name]
        if parameter.kind in _OF_ANY_NUMBER or value is parameter.default:
            continue
        types = _types_of(parameter.annotation)
        if not types or _is_of(value, types) or (beforehand and _may_be_taken(value, types)):
            continue
        raise ArgumentError(
            f"{name} is a {type(value).__name__}, expected {_in_words(types)}. Change {name}."
        ) from because


def _may_be_taken(value: Any, types: Sequence[str]) -> bool:
    """Tell whether a function may take a value of another type than it says, or says more of a single one."""
    if "str" in types and set(types) <= {"str", *_SCALARS}:
        return value is None or isinstance(value, (numbers.Number, bytes))
    return not set(types) <= _SCALARS.keys()


def _types_of(annotation: Any) -> list[str]:
    """Return the names of the types that an annotation allows; none where it says nothing."""
    if annotation is Parameter.empty:
        return []
    text = annotation if isinstance(annotation, str) else formatannotation(annotation)
    if "_SupportsArray[" in text:  # how NumPy spells out ArrayLike
        return ["ArrayLike"]
    while "[" in text:  # the types of what is inside are left out, innermost first
        shorter = re.sub(r"\[[^\[\]]*\]", "", text)
        if shorter == text:
            return []
        text = shorter
    return [part.strip().rpartition(".")[2] for part in text.split("|")]


def _in_words(types: Sequence[str]) -> str:
    """Return the names of types as a sentence has them."""
    words = [_TYPES[key].words if key in _TYPES else f"a {key}" for key in types]
    return " or ".join(dict.fromkeys(words))


def _is_of(value: Any, types: Sequence[str]) -> bool:
    """Tell whether a value is of one of these types, of others by the names of its classes."""
    if any(key in _TYPES and _TYPES[key].takes(value) for key in types):
        return True
    classes = {kind.__name__ for kind in type(value).__mro__}
    return any(key in classes for key in types if key not in _TYPES)


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
