"""A README.md as the Hub reads it: a YAML header between two lines of ``---``, read and edited safely; the body."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import yaml

LIMIT = 1_000_000  # characters of a header, and of what its aliases repeat; the longest real ones have some 400 000
DEEPEST = 60  # levels within levels; metadata has about eight
MARK = "\ufeff"  # what some editors put at the head of a file to say that it is UTF-8
LONGEST_NUMBER = 200  # characters; a number in base 60 (1:1:1:...) takes quadratic time
# The Hub allows white space before the header, and ends it at the first line of ---. Byte order marks are no text.
_OPENED = re.compile(r"[\ufeff\s]*---[ \t]*\r?\n")
_CLOSED = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Split:
    """A README.md in three parts that make the whole again when joined.

    Attributes:
        before: up to and with the line that opens the header; blank where there is none.
        header: the lines between, with their line ends.
        after: the line that closes the header, and the body; everything where there is no header.
    """

    before: str
    header: str
    after: str

    @property
    def text(self) -> str:
        """The whole, as it was."""
        return self.before + self.header + self.after

    @property
    def has_header(self) -> bool:
        """Whether there is a header, be it an empty one."""
        return bool(self.before)

    @property
    def first_line(self) -> int:
        """The number of the header's first line in the file, from 1."""
        return self.before.count("\n") + 1


def decode(content: bytes, where: str) -> str:
    """The text of a file; a byte order mark stays.

    Raises:
        ValueError: it is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{where}:{line}: not UTF-8. Save it as UTF-8.") from None


def newline(text: str) -> str:
    """The line end of a text: that of its first line, or a plain one where it has none."""
    first = text[: text.find("\n")] if "\n" in text else text
    return "\r\n" if first.endswith("\r") else "\n"


def split(text: str) -> Split:
    r"""A README.md in header and body. A rule (``---``) that nothing closes opens no header.

    >>> split("---\nlicense: mit\n---\n# Title\n")
    Split(before='---\n', header='license: mit\n', after='---\n# Title\n')
    """
    opened = _OPENED.match(text)
    closed = _CLOSED.search(text, opened.end()) if opened else None
    if opened is None or closed is None:
        return Split("", "", text)
    return Split(text[: opened.end()], text[opened.end() : closed.start()], text[closed.start() :])


def load(header: str, where: str, *, first_line: int = 1) -> dict[Any, Any]:
    """The metadata of a header, or of any YAML file that should hold a mapping; empty where it holds nothing.

    Raises:
        ValueError: as ``read``, or it is no mapping.
    """
    made = read(header, where, first_line=first_line)
    if made is None:
        return {}
    if not isinstance(made, dict):
        raise ValueError(f"{where}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines.")
    return made


def read(text: str, where: str, *, first_line: int = 1) -> Any:
    """What YAML holds, None where it holds nothing.

    What the Hub sends is not trusted: no Python objects, no doubled keys (the Hub refuses them too), and limits on
    length, depth and what aliases repeat.

    Args:
        text: the YAML.
        where: names it in errors.
        first_line: the number of its first line in that file.

    Raises:
        ValueError: one sentence with the place, which repeats little of the content.
    """
    if len(text) > LIMIT:
        raise ValueError(f"{where}: {len(text)} characters of YAML, at most {LIMIT} are read. Shorten it.")
    try:
        return _Guarded(text).get_single_data()
    except yaml.reader.ReaderError as error:
        line = first_line + text.count("\n", 0, error.position)
        raise ValueError(f"{where}:{line}: its YAML holds a control character. Remove it.") from None
    except yaml.MarkedYAMLError as error:
        line = first_line + (text.count("\n", 0, error.problem_mark.index) if error.problem_mark else 0)
        raise ValueError(f"{where}:{line}: {_problem(error)}. Correct this line.") from None
    except (ValueError, TypeError, OverflowError, RecursionError, AttributeError, KeyError):  # day 32, odd numbers
        raise ValueError(f"{where}: its YAML holds a value that cannot be read. Correct it.") from None


class Place(NamedTuple):
    """Where a pair of a mapping or an item of a list stands: its first character, and the first of the next line.

    ``name`` is the pair's key, or blank. The lines behind it that hold comments or nothing are not part of it.
    """

    name: str
    start: int
    after: int


def places(text: str) -> list[Place]:
    """Where the pairs or items of YAML that was read already stand, those of its outermost level alone."""
    nodes: list[list[Any]] = []  # key, value, key, ... or item, item, ...: text of a scalar, start, end
    depth, pairs = 0, False
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        start, end = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth == 0:
            pairs = pairs or isinstance(event, yaml.MappingStartEvent)
        elif depth == 1 and isinstance(event, yaml.NodeEvent):
            nodes.append([getattr(event, "value", ""), start, end])
        elif start < end:  # the end of a block has no width, and stands behind the comments that follow it
            nodes[-1][2] = end
        depth += isinstance(event, yaml.CollectionStartEvent)
    firsts, lasts = (nodes[::2], nodes[1::2]) if pairs else (nodes, nodes)
    return [
        Place(name if pairs else "", start, _line_after(text, end))
        for (name, start, _), (_, _, end) in zip(firsts, lasts, strict=True)
    ]


def _line_after(text: str, at: int) -> int:
    """The first character of the next line; the same place where it begins a line (after a block of text)."""
    if at and text[at - 1] == "\n":
        return at
    return text.find("\n", at) + 1 or len(text)


def with_keys(readme: str, values: Mapping[str, Any], *, where: str) -> str:
    """The README with these keys at the top of its header, all else byte for byte; a key that has its value stays.

    Where anything is written, byte order marks at its head go: behind one the Hub's own client sees no metadata.

    Args:
        readme: the whole file; blank where there is none.
        values: native values by key; new keys go to the end of the header, which is made where there is none.
        where: names the file in errors.

    Raises:
        ValueError: a header that cannot be read, or is not written as a line for each key.
    """
    parts = split(readme)
    line_end = newline(readme)
    before = load(parts.header, where, first_line=parts.first_line)
    wanted = {key: native(value) for key, value in values.items()}
    changed = {key: value for key, value in wanted.items() if key not in before or before[key] != value}
    if not changed:
        return readme
    lines = {key: dump({key: value}).replace("\n", line_end) for key, value in changed.items()}
    held = places(parts.header)
    added = "".join(lines[key] for key in changed if key not in before)
    gap = line_end if added and parts.header and not parts.header.endswith("\n") else ""
    header = parts.header + gap + added
    for one in reversed(held):
        if one.name in lines:
            header = header[: one.start] + lines[one.name] + header[one.after :]
    try:
        safe = load(header, where) == {**before, **wanted}
    except ValueError:
        safe = False
    if not safe:
        raise ValueError(f"{where}: its YAML header cannot be edited safely. Write a line 'key: value' for each.")
    if parts.has_header:
        return parts.before.replace(MARK, "") + header + parts.after
    return f"---{line_end}{header}---{line_end}{readme.lstrip(MARK)}"


def dump(value: Any) -> str:
    """YAML of native values, keys in their order, one line for each value that has no line ends.

    Raises:
        ValueError: it holds something that is not native (see ``native``).
    """
    text: str = yaml.dump(native(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LIMIT)
    return text


def native(value: Any) -> Any:
    """A value of plain mappings, lists, strings, numbers, truth values and None.

    Numpy's scalars become numbers, tuples lists, paths and dates strings; NaN and the infinities become None.

    Raises:
        ValueError: it holds an object of another kind.
    """
    if isinstance(value, Mapping):
        return {native(key): native(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [native(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, str):  # numpy's strings too, which YAML would write as objects
        return str(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    raise ValueError(f"A card cannot hold a {type(value).__name__}. Turn it into text or numbers first.")


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which else loses rare line ends (U+0085) that it writes as they are."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if re.search("[\x85\u2028\u2029\ufeff]", data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


class _Guarded(yaml.SafeLoader):
    """The safe loader, which stops where hostile YAML would cost memory, time or the stack."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.seen = 0  # size of what was composed, aliases counted as what they stand for
        self.sizes: dict[int, int] = {}
        self.repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self.seen
        self.depth += 1
        if self.depth > DEEPEST:
            self._stop(f"more than {DEEPEST} levels within each other", event)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self.sizes:
                self._stop("an alias of something that it stands in", event)
            self.repeated += self.sizes[id(node)]
            self.seen += self.sizes[id(node)]
            if self.repeated > LIMIT:
                self._stop("aliases that repeat too much", event)
            return node
        if isinstance(node, yaml.ScalarNode):
            self.seen += len(node.value)
            if len(node.value) > LONGEST_NUMBER and node.tag.rsplit(":", 1)[-1] in ("int", "float", "timestamp"):
                self._stop(f"a number of more than {LONGEST_NUMBER} characters", event)
        self.seen += 1
        self.sizes[id(node)] = self.seen - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    raise yaml.MarkedYAMLError(problem="a key that stands twice", problem_mark=key.start_mark)
                keys.add((key.tag, key.value))
        return node

    def _stop(self, problem: str, event: Any) -> None:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _problem(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, without the content that PyYAML repeats."""
    if isinstance(error, yaml.constructor.ConstructorError):
        return "a tag or key that is not plain YAML"
    if isinstance(error, yaml.composer.ComposerError):
        return "an alias, anchor or second document that cannot be meant"
    if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError):
        return "YAML that cannot be parsed"
    return str(error.problem)
