"""Find the line of every key and table of a TOML file, which the parser does not say."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

KeyPath = tuple[str | int, ...]  # to a value: keys, and numbers in lists, from the top of the file
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_BARE = re.compile(
    r"[\w-]+(?:\s*\.\s*[\w-]+)*", re.ASCII
)  # a key without quotes, or several with dots
# The beginning of a value that may go on in the next line: of a list, a table or a long text.
_OPEN = re.compile(r"""\s*(?:\[|\{|\"{3}|'{3})""")
_LONG_TEXT = re.compile(r"""\"{3}|'{3}""")  # the beginning of a text of several lines
_TEXT = re.compile(r"""\"(?:[^"\\]|\\.)*"|'[^']*'""")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")


def lines_of(text: str) -> dict[KeyPath, int]:
    """Find the line of every key and table of a TOML file, from 1.

    Args:
        text: the text of the file.
    """
    lines = text.split("\n")
    by_path: dict[KeyPath, int] = {}
    counts: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    number = 0
    while number < len(lines):
        if header := _HEADER.match(lines[number]):
            table = _numbered(_key_parts(header[2]), counts)
            if header[1] == "[[":
                table = (*table, counts[table])
                counts[table[:-1]] += 1
            by_path.setdefault(table, number + 1)
        elif key := _KEY.match(lines[number]):
            key_path = (*table, *_key_parts(key[1]))
            for length in range(len(table) + 1, len(key_path) + 1):
                by_path.setdefault(key_path[:length], number + 1)
            number += _count_lines(lines, number, key.end()) - 1
        number += 1
    return by_path


@lru_cache(maxsize=1024)
def _key_parts(key: str) -> KeyPath:
    """Split a key with dots, each part of which may be in quotes."""
    if _BARE.fullmatch(key):
        return tuple(part.strip() for part in key.split("."))
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return (key,)
    parts: list[str] = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        parts.append(name)
    return tuple(parts)


def _numbered(parts: KeyPath, counts: Mapping[KeyPath, int]) -> KeyPath:
    """Put behind each list of tables the number of its last one."""
    key_path: KeyPath = ()
    for part in parts[:-1]:
        key_path = (*key_path, part)
        if counts.get(key_path):
            key_path = (*key_path, counts[key_path] - 1)
    return (*key_path, *parts[-1:])


def _count_lines(lines: Sequence[str], first: int, start: int) -> int:
    """Count the lines of the value that begins at an index of the line number ``first``."""
    if not _OPEN.match(lines[first], start):
        return 1
    depth = 0
    for number in range(first, len(lines)):
        line = lines[number][start if number == first else 0 :]
        if _LONG_TEXT.search(line):
            return _count_parsed_lines([lines[first][start:], *lines[first + 1 :]])
        bare = _TEXT.sub("", line).partition("#")[0]
        depth += bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")
        if depth <= 0:
            return number - first + 1
    return 1


def _count_parsed_lines(lines: Sequence[str]) -> int:
    """Count the lines of a value with a text of several lines: the fewest that are a value."""
    for count in range(1, len(lines) + 1):
        value = "\n".join(lines[:count])
        try:
            tomllib.loads(f"value = {value}")
        except tomllib.TOMLDecodeError:
            continue
        return count
    return 1
