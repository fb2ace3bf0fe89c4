"""Where the model-index of a YAML header stands, by characters: what an edit needs that leaves all else alone."""

import re
from dataclasses import dataclass

import yaml

from swapbias.hub.header import compose

KEY = "model-index"
SOURCE = "swapbias"  # source.name of our results


@dataclass(frozen=True, slots=True)
class Gap:
    """A place for our results, and how they are written there.

    Attributes:
        at: the character that they stand before: a line's first, where they are written as a block.
        pad: spaces before each line.
        level: ``key`` (with the key and the model), ``model`` (with the model) or ``result``.
        flow: within brackets.
        comma: within brackets, something stands before them.
    """

    at: int
    pad: int
    level: str
    flow: bool = False
    comma: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one model: the key, and its list (or the empty value that stands for none)."""

    key: yaml.Node
    listed: yaml.Node

    @property
    def items(self) -> list[yaml.Node]:
        """The results."""
        return list(self.listed.value) if isinstance(self.listed, yaml.SequenceNode) else []


@dataclass(frozen=True, slots=True)
class Index:
    """The nodes of a header: the whole, the key and its list of models; None where they are not there."""

    root: yaml.MappingNode | None
    key: yaml.Node | None
    models: yaml.Node | None
    results: tuple[Results, ...]


def index(header: str, where: str, first_line: int) -> Index:
    """The nodes of a header; a model-index that is null counts as an empty one.

    Raises:
        ValueError: YAML that cannot be read, or a model-index of another shape than the Hub's.
    """
    root = compose(header, where, first_line=first_line)
    if root is None:
        return Index(None, None, None, ())
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{where}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines.")
    key, models = _pair(root, KEY)
    if key is None or models is None:
        return Index(root, None, None, ())
    line = first_line + header.count("\n", 0, key.start_mark.index)
    results = []
    for model in _listed(models, where, line):
        of_model, listed = _pair(model, "results")
        if of_model is None or listed is None:
            raise _shape(where, line)
        _listed(listed, where, line)
        results.append(Results(of_model, listed))
    return Index(root, key, models, tuple(results))


def written_nulls(found: Index) -> list[tuple[int, int]]:
    """Where ``null`` or ``~`` stands for an empty list: nothing can be added behind it."""
    nodes = [found.models, *(one.listed for one in found.results)]
    return [
        (node.start_mark.index, node.end_mark.index)
        for node in nodes
        if node is not None and _is_null(node) and node.value
    ]


def is_ours(result: yaml.Node) -> bool:
    """Whether a result says that it comes from here."""
    _, source = _pair(result, "source")
    _, name = _pair(source, "name") if source else (None, None)
    return name is not None and name.value == SOURCE


def usual(header: str, found: Index, where: str) -> Gap:
    """Where our results go when they are not there yet: after the last one of the first model.

    Raises:
        ValueError: the list there is written in a way that leaves no place for them.
    """
    if found.root is None:
        return Gap(len(header), 0, "key")
    if found.key is None or found.models is None:
        if found.root.flow_style:
            return _within(header, found.root, [value for _, value in found.root.value], "key", where)
        return Gap(len(header), column(header, found.root.start_mark.index), "key")
    if not found.results:
        return _into(header, Results(found.key, found.models), "model", where)
    return _into(header, found.results[0], "result", where)


def item_lines(header: str, item: yaml.Node, where: str) -> tuple[int, int, int]:
    """Where the lines of a list's item begin and end, and the column of its dash.

    Raises:
        ValueError: it does not begin on the line of its dash.
    """
    start = header.rfind("\n", 0, item.start_mark.index) + 1
    dash = re.fullmatch(r"( *)- +", header[start : item.start_mark.index])
    if dash is None:
        raise ValueError(
            f"{where}: a result of its {KEY} is not on the line of its dash. Write '- task:' on one line."
        )
    return start, line_after(header, end_of(item)), len(dash[1])


def end_of(node: yaml.Node) -> int:
    """After the last character of a node; PyYAML counts what follows a block (blank lines, comments) to it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        last = last[1] if isinstance(last, tuple) else last
        if last.start_mark.index >= node.start_mark.index:  # else an alias, whose content stands elsewhere
            return end_of(last)
    return int(node.end_mark.index)


def line_after(header: str, at: int) -> int:
    """The first character of the next line; the same place where it begins a line (after a block of text)."""
    if at and header[at - 1] == "\n":
        return at
    end = header.find("\n", at)
    return len(header) if end < 0 else end + 1


def column(header: str, at: int) -> int:
    """How many characters stand before a place on its line."""
    return at - (header.rfind("\n", 0, at) + 1)


def scalars(node: yaml.Node | None) -> list[tuple[int, int]]:
    """From where to where each text and number reaches: what looks like a comment in them is none."""
    if node is None:
        return []
    spans, waiting, seen = [], [node], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, yaml.ScalarNode):
            spans.append((one.start_mark.index, one.end_mark.index))
        else:
            for inner in one.value:
                waiting += inner if isinstance(inner, tuple) else [inner]
    return spans


def _into(header: str, place: Results, level: str, where: str) -> Gap:
    if isinstance(place.listed, yaml.SequenceNode) and place.listed.flow_style:
        return _within(header, place.listed, place.items, level, where)
    if place.items:
        _, after, pad = item_lines(header, place.items[-1], where)
        return Gap(after, pad, level)
    after, pad = line_after(header, place.listed.end_mark.index), column(header, place.key.start_mark.index)
    if not re.fullmatch(r"[ -]*", header[place.key.start_mark.index - pad : place.key.start_mark.index]):
        raise ValueError(f"{where}: an empty list of its {KEY} stands within brackets. Write [].")
    return Gap(after, pad, level)


def _within(header: str, listed: yaml.Node, items: list[yaml.Node], level: str, where: str) -> Gap:
    """The place after the last item within brackets, and after its comma."""
    opened = re.compile(r"(?:[&!][^\s\[{]*\s+)*[\[{]").match(header, listed.start_mark.index)
    if opened is None:
        raise ValueError(f"{where}: the list of its {KEY} is an alias. Write it out.")
    line = header.rfind("\n", 0, listed.start_mark.index) + 1
    pad = len(re.match(r"[ -]*", header[line:])[0]) + 2  # type: ignore[index]  # it matches nothing too
    if not items:
        return Gap(opened.end(), pad, level, flow=True)
    last = items[-1].end_mark.index
    comma = re.compile(r"(?:\s|#[^\n]*+)*+,").match(header, last)
    return Gap(comma.end() if comma else last, pad, level, flow=True, comma=comma is None)


def _pair(node: yaml.Node, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key, value
    return None, None


def _listed(node: yaml.Node, where: str, line: int) -> list[yaml.Node]:
    """The items of a list of mappings; none for an empty value."""
    if _is_null(node):
        return []
    if not isinstance(node, yaml.SequenceNode) or not all(isinstance(one, yaml.MappingNode) for one in node.value):
        raise _shape(where, line)
    return list(node.value)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def _shape(where: str, line: int) -> ValueError:
    return ValueError(
        f"{where}:{line}: its {KEY} is no list of models with a name and a list of results. Correct it."
    )
