"""A README.md as the Hub reads it: an optional YAML header between two lines of ``---``, then the body."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml

LIMIT = 1_000_000  # characters of a header, and of what its aliases repeat; the longest real ones have some 400 000
DEEPEST = 60  # levels within levels; metadata has about eight
LONGEST_NUMBER = 200  # characters; a number in base 60 (1:1:1:...) takes quadratic time
# The Hub allows white space before the header, and ends it at the first line of ---.
_OPENED = re.compile(r"\ufeff?\s*---[ \t]*\r?\n")
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

    What the Hub sends is not trusted: no Python objects, no doubled keys (the Hub refuses them too), and limits on
    length, depth and what aliases repeat.

    Args:
        header: the YAML.
        where: names it in errors.
        first_line: the number of its first line in that file.

    Raises:
        ValueError: one sentence with the place, which repeats little of the content.
    """
    node = compose(header, where, first_line=first_line)
    if node is None:
        return {}
    try:
        # A fresh loader: the safe constructor needs no stream to build a node.
        made = yaml.SafeLoader("").construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _refused(header, where, first_line, error.problem_mark, _problem(error)) from None
    except (ValueError, TypeError, OverflowError, RecursionError, AttributeError, KeyError):  # day 32, odd numbers
        raise ValueError(f"{where}: its YAML holds a value that cannot be read. Correct it.") from None
    if not isinstance(made, dict):
        raise ValueError(f"{where}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines.")
    return made


def compose(header: str, where: str, *, first_line: int = 1) -> yaml.Node | None:
    """The nodes of a header with their places in it, or None where it holds nothing.

    Raises:
        ValueError: as ``load``, but for values that have no meaning.
    """
    if len(header) > LIMIT:
        raise ValueError(f"{where}: {len(header)} characters of YAML, at most {LIMIT} are read. Shorten it.")
    try:
        return _Guarded(header).get_single_node()
    except yaml.reader.ReaderError as error:
        line = first_line + header.count("\n", 0, error.position)
        raise ValueError(f"{where}:{line}: its YAML holds a control character. Remove it.") from None
    except yaml.MarkedYAMLError as error:
        raise _refused(header, where, first_line, error.problem_mark, _problem(error)) from None


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
    """Composes nodes; stops where hostile YAML would cost memory, time or the stack."""

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
            return self._at(event, node)
        if isinstance(node, yaml.ScalarNode):
            self.seen += len(node.value)
            if len(node.value) > LONGEST_NUMBER and node.tag.rsplit(":", 1)[-1] in ("int", "float", "timestamp"):
                self._stop(f"a number of more than {LONGEST_NUMBER} characters", event)
        self.seen += 1
        self.sizes[id(node)] = self.seen - before
        return node

    def _at(self, event: yaml.Event, node: Any) -> yaml.Node:
        """The node that an alias stands for, with the place of the alias."""
        repeated: yaml.Node = copy(node)
        repeated.start_mark, repeated.end_mark = event.start_mark, event.end_mark
        if isinstance(node, yaml.CollectionNode):
            repeated.value = list(node.value)  # building a mapping takes merged keys out of it
        self.sizes[id(repeated)] = self.sizes[id(node)]
        return repeated

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


def _refused(header: str, where: str, first_line: int, mark: Any, problem: str) -> ValueError:
    line = first_line + (header.count("\n", 0, mark.index) if mark else 0)
    return ValueError(f"{where}:{line}: {problem}. Correct this line.")
