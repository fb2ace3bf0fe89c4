"""Read a declaration, a TOML file, into its class: every fault is one sentence with file and line."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.studies.experiment import EXPECTED

Place = tuple[str | int, ...]  # of a value: keys, and numbers in lists, from the top of the file
T = TypeVar("T", bound=BaseModel)
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
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


Found = tuple[
    Place, str, str
]  # where something wrong stands, a sentence on it, and the name that is wrong


@dataclass(frozen=True)
class Fault:
    """What is wrong with a value of a declaration."""

    place: Place
    line: int
    sentence: str
    """With file and line."""

    @property
    def key(self) -> str:
        """The key of the value, without its table; blank for the whole file."""
        return next((part for part in reversed(self.place) if isinstance(part, str)), "")


@dataclass(frozen=True)
class Declaration:
    """A TOML file, and where its values stand."""

    name: str
    """As errors call it."""
    text: str
    values: dict[str, Any] = field(repr=False)
    likes: Mapping[Place, Place] = field(default_factory=dict, repr=False)
    """Tables, and those whose values they take."""

    @cached_property
    def lines(self) -> Mapping[Place, int]:
        """The line of every key and table, which are looked for where something is wrong."""
        return lines_of(self.text)

    def line(self, place: Place, value: object = "") -> int:
        """Give the line of a value: of its key, of the table that it is taken from, else of the table around it.

        Args:
            place: of the value.
            value: a text in it, where it is a list; its line is given, where it stands on one of its own.
        """
        start = self._known_line(place)
        if not isinstance(value, str) or not value:
            return start
        rest = self.text.split("\n")[start - 1 :]
        offset = next((number for number, line in enumerate(rest) if f'"{value}"' in line), 0)
        following = [line for line in self.lines.values() if line > start]
        return (
            start + offset if start + offset < min(following, default=start + offset + 1) else start
        )

    def _known_line(self, place: Place) -> int:
        for length in range(len(place), 0, -1):
            part = place[:length]
            while part not in self.lines and (table := self._table_like(part)):
                part = (*self.likes[table], *part[len(table) :])
            if part in self.lines:
                return self.lines[part]
        return 1

    def _table_like(self, place: Place) -> Place:
        """The table of a place whose values are those of another; none where there is no such."""
        return next(
            (
                table
                for table in self.likes
                if table == place[: len(table)] and len(table) < len(place)
            ),
            (),
        )

    def fault(self, place: Place, sentence: str, value: object = "") -> Fault:
        """Make a fault of a sentence about a value."""
        line = self.line(place, value)
        return Fault(place, line, f"{self.name}:{line}: {sentence}")


def line_of_fault(fault: Fault) -> int:
    """The line of a fault, by which faults are put in order."""
    return fault.line


def unknown_names(
    place: Place, names: Iterable[str], known: Sequence[str], thing: str
) -> Iterator[Found]:
    """Find names that are none of those there are, with the nearest of these.

    Args:
        place: of the value that names them.
        names: those of the value.
        known: those there are.
        thing: what they are names of, for sentences.
    """
    key = next(part for part in reversed(place) if isinstance(part, str))
    for name in names:
        if name not in known:
            there_are = listed(part or "blank" for part in known[:20])
            near = did_you_mean(name, known) or f" Expected {there_are}."
            yield place, f"{key} names the {thing} {quoted(name)}, and there is none.{near}", name


def parse_declaration(name: str, text: str, taken: Sequence[str] | None = None) -> Declaration:
    """Parse a TOML file; each table of a list may begin ``like`` an earlier one, whose values it takes.

    Args:
        name: of the file, for errors.
        text: its content.
        taken: the keys whose values are taken; None: all.

    Raises:
        ValueError: no valid TOML.
    """
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{name} is no valid TOML: {error}. Correct it.") from None
    likes: dict[Place, Place] = {}
    for key, tables in values.items():
        if isinstance(tables, list) and all(isinstance(table, dict) for table in tables):
            values[key] = _with_likes(key, tables, likes, taken)
    return Declaration(name, text, values, likes)


def _with_likes(
    key: str,
    tables: Sequence[dict[str, Any]],
    likes: dict[Place, Place],
    taken: Sequence[str] | None,
) -> list[dict[str, Any]]:
    """Give tables with the values of those that they are like; which they are is added to ``likes``."""
    numbers: dict[str, int] = {}
    merged: list[dict[str, Any]] = []
    for number, table in enumerate(tables):
        like = table.get("like")
        if isinstance(like, str) and like in numbers:
            likes[key, number] = (key, numbers[like])
            changes = {name: value for name, value in table.items() if name != "like"}
            earlier = merged[numbers[like]]
            table = _merged(
                {name: earlier[name] for name in earlier if taken is None or name in taken}, changes
            )
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


def lines_of(text: str) -> dict[Place, int]:
    """Find the line of every key and table of a TOML file, from 1."""
    lines = text.split("\n")
    places: dict[Place, int] = {}
    counts: Counter[Place] = Counter()
    table: Place = ()
    number = 0
    while number < len(lines):
        if header := _HEADER.match(lines[number]):
            table = _numbered(_key_parts(header[2]), counts)
            if header[1] == "[[":
                table = (*table, counts[table])
                counts[table[:-1]] += 1
            places.setdefault(table, number + 1)
        elif key := _KEY.match(lines[number]):
            place = (*table, *_key_parts(key[1]))
            for length in range(len(table) + 1, len(place) + 1):
                places.setdefault(place[:length], number + 1)
            number += _count_lines(lines[number:], key.end()) - 1
        number += 1
    return places


def _key_parts(key: str) -> Place:
    """Split a key with dots, each part of which may be in quotes."""
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return (key,)
    parts: list[str] = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        parts.append(name)
    return tuple(parts)


def _numbered(parts: Place, counts: Mapping[Place, int]) -> Place:
    """Put behind each list of tables the number of its last one."""
    place: Place = ()
    for part in parts[:-1]:
        place = (*place, part)
        if counts.get(place):
            place = (*place, counts[place] - 1)
    return (*place, *parts[-1:])


def _count_lines(lines: Sequence[str], start: int) -> int:
    """Count the lines of the value that begins at a place of the first."""
    for count in range(1, len(lines) + 1):
        value = "\n".join([lines[0][start:], *lines[1:count]])
        try:
            tomllib.loads(f"value = {value}")
        except tomllib.TOMLDecodeError:
            continue
        return count
    return 1


def validate(
    declaration: Declaration, of_class: type[T], values: Mapping[str, Any]
) -> tuple[T | None, list[Fault]]:
    """Make an object of a class from the values of a declaration.

    Args:
        declaration: where the values stand.
        of_class: a pydantic class.
        values: as parsed.

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
    place, section, info = _field_of(of_class, entry["loc"])
    if place[-1:] == ("like",) and "name" in section.model_fields and len(place) > 2:
        sentence = _like_sentence(declaration, place, entry)
    elif info is None:
        sentence = unknown_key(section, str(place[-1]), of_class)
    else:
        sentence = _sentence(info, place, entry)
    return declaration.fault(place, sentence, entry.get("input"))


def _like_sentence(declaration: Declaration, place: Place, entry: Mapping[str, Any]) -> str:
    """Write what is wrong with a table that is like none before it."""
    key, number = place[:2]
    earlier = [str(table.get("name", "")) for table in declaration.values[str(key)][:number]]
    value = entry["input"]
    near = did_you_mean(value, earlier) if isinstance(value, str) else ""
    return f"like names {quoted(value)}, and no earlier table is called so.{near or f' Expected {listed(earlier)}.'}"


def _field_of(
    of_class: type[BaseModel], loc: Place
) -> tuple[Place, type[BaseModel], FieldInfo | None]:
    """Find the place of a value, the class whose field it belongs to, and the field; None where there is none."""
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


def _length_of(loc: Place, depth: int) -> int:
    """How much of the place of an error is one of a file: behind the key the numbers of lists, no names of types."""
    length = depth + 1
    while length < len(loc) and isinstance(loc[length], int):
        length += 1
    return length


def class_within(annotation: Any) -> type[BaseModel] | None:
    """The pydantic class that an annotation names, of itself or of the parts of a tuple; None where there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (tuple, Union, UnionType, Annotated):
        return next(filter(None, map(class_within, get_args(annotation))), None)
    return None


def _sentence(info: FieldInfo, place: Place, entry: Mapping[str, Any]) -> str:
    key = next(part for part in reversed(place) if isinstance(part, str))
    if entry["type"] == "missing":
        return f"{key} is missing. Add it."
    value = entry["input"]
    if message := str((entry.get("ctx") or {}).get("error", "")):
        return message
    if choices := literals(info.annotation):
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        return (
            f"{key} is {quoted(value)}, expected one of {listed(choices)}.{near or ' Correct it.'}"
        )
    return f"{key} is {quoted(value)}, expected {_expected(info, place, entry)}. Correct it."


def _expected(info: FieldInfo, place: Place, entry: Mapping[str, Any]) -> str:
    if stated := _stated_form(info):
        return stated
    form = next(
        (form for start, form in _FORMS.items() if entry["type"].startswith(start)), "another value"
    )
    return f"{form} of texts" if form == "a list" and _holds_texts(info.annotation) else form


def _stated_form(info: FieldInfo) -> str:
    """What a value must be, as the field or a part of its type says; blank where neither does."""
    parts = [info, *(part for part in _metadata(info.annotation) if isinstance(part, FieldInfo))]
    extras = [part.json_schema_extra for part in parts]
    return next(
        (str(extra[EXPECTED]) for extra in extras if isinstance(extra, dict) and EXPECTED in extra),
        "",
    )


def _metadata(annotation: Any) -> list[Any]:
    """What is said of a type, and of the types of a union."""
    own = list(getattr(annotation, "__metadata__", ()))
    return own + [mark for part in get_args(annotation) for mark in _metadata(part)]


def _holds_texts(annotation: Any) -> bool:
    return "str" in str(annotation)


def unknown_key(section: type[BaseModel], key: str, of_class: type[BaseModel]) -> str:
    """Write what is wrong with a key that no field has: the nearest there is, or the table that it belongs to.

    Args:
        section: the class of the table in which it stands.
        key: of the file.
        of_class: the class of the whole file.
    """
    in_list = "name" in section.model_fields and section is not of_class
    known = [*section.model_fields, *(["like"] if in_list else [])]
    if near := did_you_mean(key, known):
        return f"{quoted(key)} is no key here.{near}"
    tables = [name for name, table in sections_of(of_class).items() if key in _own_keys(table)]
    if tables:
        return f"{quoted(key)} belongs into [{tables[0]}]. Move it there."
    return f"{quoted(key)} is none of {listed(known)}. Remove it."


def _own_keys(table: type[BaseModel]) -> list[str]:
    """The keys of a table that own studies may have."""
    return [
        key
        for key, info in table.model_fields.items()
        if not info.json_schema_extra or _stated_form(info)
    ]


def sections_of(of_class: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The tables that a class holds, by their keys."""
    found = {name: class_within(info.annotation) for name, info in of_class.model_fields.items()}
    return {name: section for name, section in found.items() if section is not None}


def literals(annotation: Any) -> list[str]:
    """The texts that an annotation allows, where it lists them."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if get_origin(annotation) in (tuple, Union, UnionType, Annotated):
        return [value for part in get_args(annotation) for value in literals(part)]
    return []
