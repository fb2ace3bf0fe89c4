"""Read a declaration, a TOML file, into its class: every fault is one sentence with file and line."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.studies.declared_values import EXPECTED
from swapbias.studies.toml_lines import KeyPath, lines_of

# a fault before its line is known: where it stands, a sentence on it, and the name that is wrong
RawFault = tuple[KeyPath, str, str]
T = TypeVar("T", bound=BaseModel)
_FORMS = {  # of a value, by the beginning of pydantic's name for what is wrong with it
    "bool": "true or false",
    "string": "a text of one line, 1,000 letters at most",
    "tuple": "a list",
    "float": "a number",
    "greater": "a number",
    "less": "a number",
    "finite": "a number",
    "int": "a whole number",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table of keys",
}


@dataclass(frozen=True)
class Fault:
    """A fault of a value of a declaration."""

    key_path: KeyPath
    """The path to the value."""
    line: int
    """The line of the value, from 1."""
    sentence: str
    """A sentence with file and line."""

    @property
    def key(self) -> str:
        """The key of the value, without its table; blank for the whole file."""
        return next((part for part in reversed(self.key_path) if isinstance(part, str)), "")


@dataclass(frozen=True)
class Declaration:
    """A TOML file, and where its values stand."""

    name: str
    """The name that errors give the file."""
    text: str
    """The content of the file."""
    values: dict[str, Any] = field(repr=False)
    """The values of the file as parsed."""
    likes: Mapping[KeyPath, KeyPath] = field(default_factory=dict, repr=False)
    """Paths to tables, with those to the tables whose values they take."""

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """The line of every key and table, which are looked for where something is wrong."""
        return lines_of(self.text)

    def line(self, key_path: KeyPath, value: object = "") -> int:
        """Give the line of a value: of its key, of the table that it is taken from, else of the table around it.

        Args:
            key_path: the key path to the value.
            value: a text in it, where it is a list; its line is given, where it stands on one of its own.
        """
        start = self._known_line(key_path)
        if not isinstance(value, str) or not value:
            return start
        rest = self.text.split("\n")[start - 1 :]
        offset = next((number for number, line in enumerate(rest) if f'"{value}"' in line), 0)
        following = [line for line in self.lines.values() if line > start]
        is_of_key = not following or start + offset < min(following)
        return start + offset if is_of_key else start

    def _known_line(self, key_path: KeyPath) -> int:
        """Give the line of the key, or of the nearest table around it that has one."""
        for length in range(len(key_path), 0, -1):
            part = key_path[:length]
            while part not in self.lines and (table := self._table_like(part)):
                part = (*self.likes[table], *part[len(table) :])
            if part in self.lines:
                return self.lines[part]
        return 1

    def _table_like(self, key_path: KeyPath) -> KeyPath:
        """Give the path to the table around a value that takes those of another; none where there is no such."""
        for table in self.likes:
            if len(table) < len(key_path) and table == key_path[: len(table)]:
                return table
        return ()

    def fault(self, key_path: KeyPath, sentence: str, value: object = "") -> Fault:
        """Make a fault of a sentence about a value.

        Args:
            key_path: the key path to the value.
            sentence: the sentence without file and line.
            value: a text in a list, whose line is given.
        """
        line = self.line(key_path, value)
        return Fault(key_path, line, f"{self.name}:{line}: {sentence}")


def line_of_fault(fault: Fault) -> int:
    """Give the line of a fault, by which faults are put in order.

    Args:
        fault: a fault of a declaration.
    """
    return fault.line


def unknown_names(
    key_path: KeyPath, names: Iterable[str], existing: Sequence[str], thing: str
) -> Iterator[RawFault]:
    """Find names that are none of those there are, with the nearest of these.

    Args:
        key_path: the key path to the value that names them.
        names: the names that the value holds.
        existing: those there are.
        thing: what they are names of, for sentences.
    """
    key = _last_key(key_path)
    for name in names:
        if name not in existing:
            expected = listed(part or "blank" for part in existing[:20])
            hint = did_you_mean(name, existing) or f" Expected {expected}."
            sentence = f"{key} names the {thing} {quoted(name)}, and there is none.{hint}"
            yield key_path, sentence, name


def _last_key(key_path: KeyPath) -> str:
    """Give the last key of a path, which may end with the number of a table in a list."""
    return next(part for part in reversed(key_path) if isinstance(part, str))


def parse_declaration(name: str, text: str, copied: Sequence[str] | None = None) -> Declaration:
    """Parse a TOML file; each table of a list may begin ``like`` an earlier one, whose values it takes.

    Args:
        name: the name of the file, for errors.
        text: its content.
        copied: the keys whose values are taken; None: all.

    Raises:
        ValueError: no valid TOML.
    """
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{name} is no valid TOML: {error}. Correct it.") from None
    likes: dict[KeyPath, KeyPath] = {}
    for key, tables in values.items():
        if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
            values[key] = _with_likes(key, tables, likes, copied)
    return Declaration(name, text, values, likes)


def _with_likes(
    key: str,
    tables: Sequence[dict[str, Any]],
    likes: dict[KeyPath, KeyPath],
    copied: Sequence[str] | None,
) -> list[dict[str, Any]]:
    """Give tables with the values of those that they are like, whose paths are added to ``likes``."""
    numbers: dict[str, int] = {}
    merged: list[dict[str, Any]] = []
    for number, table in enumerate(tables):
        like = table.get("like")
        if isinstance(like, str) and like in numbers:
            likes[key, number] = (key, numbers[like])
            changes = {name: value for name, value in table.items() if name != "like"}
            earlier = merged[numbers[like]]
            base = {
                name: value for name, value in earlier.items() if copied is None or name in copied
            }
            table = _merged(base, changes)
        merged.append(table)
        if isinstance(table.get("name"), str):
            numbers[table["name"]] = number
    return merged


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Give a table with changes; its sections keep the keys that do not change."""
    merged = dict(base)
    for key, value in changes.items():
        is_section = (
            depth == 0 and isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        )
        merged[key] = _merged(base[key], value, depth + 1) if is_section else value
    return merged


def validate(
    declaration: Declaration, of_class: type[T], values: Mapping[str, Any]
) -> tuple[T | None, list[Fault]]:
    """Make an object of a class from the values of a declaration.

    Args:
        declaration: where the values stand.
        of_class: a pydantic class.
        values: values as parsed.

    Returns:
        The object, None where a value is wrong; and every fault, in the order of lines.
    """
    try:
        return of_class(**values), []
    except ValidationError as error:
        faults = [_fault(declaration, of_class, entry) for entry in error.errors(include_url=False)]
    by_sentence = {fault.sentence: fault for fault in faults}
    return None, sorted(by_sentence.values(), key=line_of_fault)


def _fault(declaration: Declaration, of_class: type[BaseModel], entry: Mapping[str, Any]) -> Fault:
    """Make a fault of an entry of pydantic's errors."""
    key_path, section, info = _field_of(of_class, entry["loc"])
    if key_path[-1:] == ("like",) and "name" in section.model_fields and len(key_path) > 2:
        sentence = _like_sentence(declaration, key_path, entry)
    elif info is None:
        sentence = unknown_key(section, str(key_path[-1]), of_class)
    else:
        sentence = _sentence(info, key_path, entry)
    return declaration.fault(key_path, sentence, entry.get("input"))


def _like_sentence(declaration: Declaration, key_path: KeyPath, entry: Mapping[str, Any]) -> str:
    """Write what is wrong with a table that is like none before it."""
    key, number = key_path[:2]
    earlier = [str(table.get("name", "")) for table in declaration.values[str(key)][:number]]
    value = entry["input"]
    near = did_you_mean(value, earlier) if isinstance(value, str) else ""
    hint = near or f" Expected {listed(earlier)}."
    return f"like names {quoted(value)}, and no earlier table is called so.{hint}"


def _field_of(
    of_class: type[BaseModel], loc: KeyPath
) -> tuple[KeyPath, type[BaseModel], FieldInfo | None]:
    """Find the path to a value, the class whose field it belongs to, and the field; None where there is none."""
    section = of_class
    info: FieldInfo | None = None
    for depth, part in enumerate(loc):
        if not isinstance(part, str):
            continue
        if part not in section.model_fields:
            return loc[: depth + 1], section, None
        info = section.model_fields[part]
        inner = class_within(info.annotation)
        if inner is None or depth + 1 == len(loc):
            return loc[: _length_of(loc, depth)], section, info
        section = inner
    return loc, section, info


def _length_of(loc: KeyPath, depth: int) -> int:
    """Count the parts of the path of an error that a file has: behind the key numbers of lists, no names of types."""
    length = depth + 1
    while length < len(loc) and isinstance(loc[length], int):
        length += 1
    return length


def class_within(annotation: Any) -> type[BaseModel] | None:
    """Give the pydantic class that an annotation names, itself or in the parts of a tuple; None where there is none.

    Args:
        annotation: the annotation of a field.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, Union, UnionType, Annotated):
        return next(filter(None, map(class_within, get_args(annotation))), None)
    return None


def _sentence(info: FieldInfo, key_path: KeyPath, entry: Mapping[str, Any]) -> str:
    """Write what is wrong with the value of a field."""
    key = _last_key(key_path)
    if entry["type"] == "missing":
        return f"{key} is missing. Add it."
    value = entry["input"]
    if message := str((entry.get("ctx") or {}).get("error", "")):
        return message
    if choices := literals(info.annotation):
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        hint = near or " Correct it."
        return f"{key} is {quoted(value)}, expected one of {listed(choices)}.{hint}"
    return f"{key} is {quoted(value)}, expected {_expected(info, entry)}. Correct it."


def _expected(info: FieldInfo, entry: Mapping[str, Any]) -> str:
    """Write what a value must be."""
    if stated := _stated_form(info):
        return stated
    for start, form in _FORMS.items():
        if entry["type"].startswith(start):
            if form == "a list" and _holds_texts(info.annotation):
                return "a list of texts"
            return form
    return "another value"


def _stated_form(info: FieldInfo) -> str:
    """Give what a value must be, as the field or a part of its type says; blank where neither does."""
    parts = [info, *(part for part in _metadata(info.annotation) if isinstance(part, FieldInfo))]
    for part in parts:
        extra = part.json_schema_extra
        if isinstance(extra, dict) and EXPECTED in extra:
            return str(extra[EXPECTED])
    return ""


def _metadata(annotation: Any) -> list[Any]:
    """List what is stated of a type, and of the types of a union."""
    marks = list(getattr(annotation, "__metadata__", ()))
    for part in get_args(annotation):
        marks += _metadata(part)
    return marks


def _holds_texts(annotation: Any) -> bool:
    """Tell whether a type has texts in it."""
    return "str" in str(annotation)


def unknown_key(section: type[BaseModel], key: str, of_class: type[BaseModel]) -> str:
    """Write what is wrong with a key that no field has: the nearest there is, or the table that it belongs to.

    Args:
        section: the class of the table in which it stands.
        key: the key of the file.
        of_class: the class of the whole file.
    """
    keys = [*section.model_fields]
    is_in_list = "name" in section.model_fields and section is not of_class
    if is_in_list:
        keys.append("like")
    if near := did_you_mean(key, keys):
        return f"{quoted(key)} is no key here.{near}"
    tables = [name for name, table in sections_of(of_class).items() if key in _own_keys(table)]
    if tables:
        return f"{quoted(key)} belongs into [{tables[0]}]. Move it there."
    return f"{quoted(key)} is none of {listed(keys)}. Remove it."


def _own_keys(table: type[BaseModel]) -> list[str]:
    """List the keys of a table that own studies may have."""
    return [
        key
        for key, info in table.model_fields.items()
        if not info.json_schema_extra or _stated_form(info)
    ]


def sections_of(of_class: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Give the classes of the tables that a class holds, by their keys.

    Args:
        of_class: the class of a declaration.
    """
    classes = {name: class_within(info.annotation) for name, info in of_class.model_fields.items()}
    return {name: section for name, section in classes.items() if section is not None}


def literals(annotation: Any) -> list[str]:
    """List the texts that an annotation allows, where it lists them.

    Args:
        annotation: the annotation of a field.
    """
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if get_origin(annotation) in (tuple, Union, UnionType, Annotated):
        return [value for part in get_args(annotation) for value in literals(part)]
    return []
