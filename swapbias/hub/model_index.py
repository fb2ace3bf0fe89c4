"""Results of an audit as model-index metadata, put into the YAML header of a README.md that stays as it is."""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from swapbias.hub import header_places as places
from swapbias.hub.header import LIMIT, Split, load, native, newline, split
from swapbias.hub.header_places import KEY, SOURCE, Gap
from swapbias.hub.markdown import visible

# "header": there was none before, so that it goes when our results go.
_MARKER = re.compile(r"^( *)# swapbias:(begin header|begin|end)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


def with_entries(
    readme: str,
    entries: Sequence[Mapping[str, Any]],
    *,
    model_name: str,
    where: str,
    studies: Collection[str] | None = None,
) -> str:
    """The README with these results in its header; all else in the file stays byte for byte.

    They stand between the comments ``# swapbias:begin`` and ``# swapbias:end``: where these are already, else after
    the last result of the first model. Results of ours without comments (the Hub's editor drops them) are replaced.
    Doing it twice changes nothing more.

    Args:
        readme: the whole file; blank where there is none.
        entries: as ``model_entries.entries`` gives them; none takes ours out.
        model_name: names the model where the header has no model-index yet.
        where: names the file in errors.
        studies: whose results are replaced; those of other studies stay. None: all of ours are.

    Raises:
        ValueError: a header that cannot be read or edited safely, in one sentence; nothing is changed.
    """
    if not entries and studies is None:
        return without_entries(readme, where=where)
    parts = split(readme)
    found = places.index(parts.header, where, parts.first_line)
    if not entries and not any(places.is_ours(item) for one in found.results for item in one.items):
        return readme
    header, gap, label = _without(parts.header, found, where, parts.first_line)
    if gap is None:
        header, gap = _usual(header, found if header == parts.header else None, where, parts.first_line)
        label = "begin" if parts.has_header else "begin header"
    others, ours = _parted(_built(parts.header, found, where, parts.first_line), where)
    kept = [one for one in ours if studies is not None and _study(one) and _study(one) not in studies]
    # In the order of their names, so that it does not hang on which study was shared last.
    wanted = sorted((native(one) for one in [*kept, *entries]), key=_study)
    if not wanted:
        return without_entries(readme, where=where)
    _refuse_unseen(parts, where)
    line_end = newline(readme)
    written = _written(wanted, gap, visible(model_name), label).replace("\n", line_end)
    made = header[: gap.at] + written + header[gap.at :]
    _verify(others, made, wanted, where, parts.first_line)
    if parts.has_header:
        return parts.before + made + parts.after
    mark = "\ufeff" if readme.startswith("\ufeff") else ""
    return f"{mark}---{line_end}{made}---{line_end}{readme.removeprefix(mark)}"


def without_entries(readme: str, *, where: str) -> str:
    """The README without results of ours: the bytes from before, where only ``with_entries`` put them in.

    Raises:
        ValueError: as ``with_entries``.
    """
    parts = split(readme)
    found = places.index(parts.header, where, parts.first_line)
    header, _, label = _without(parts.header, found, where, parts.first_line)
    if header == parts.header:
        return readme
    others, _ = _parted(_built(parts.header, found, where, parts.first_line), where)
    _verify(others, header, [], where, parts.first_line)
    if label == "begin header" and not header.strip():
        mark = "\ufeff" if readme.startswith("\ufeff") else ""
        return mark + re.sub(r"\A---[ \t]*(?:\r?\n|\Z)", "", parts.after)
    return parts.before + header + parts.after


def _refuse_unseen(parts: Split, where: str) -> None:
    """The Hub sees no header where spaces follow the dashes that open it: what is put in there would not count."""
    if re.search(r"---[ \t]+\r?\n\Z", parts.before):
        raise ValueError(f"{where}: spaces follow the first ---, so that the Hub sees no header there. Remove them.")


def _usual(header: str, found: places.Index | None, where: str, first_line: int) -> tuple[str, Gap]:
    """The usual place, in the header without a ``null`` that stands for an empty list."""
    found = found or places.index(header, where, first_line)
    nulls = places.written_nulls(found)
    for start, end in reversed(nulls):
        header = header[:start] + header[end:]
    if nulls:
        found = places.index(header, where, first_line)
    return header, places.usual(header, found, where)


def _written(entries: list[Any], gap: Gap, model: str, label: str) -> str:
    """Our lines, from comment to comment, with plain line ends."""
    pad = " " * gap.pad
    items: list[Any] = entries if gap.level == "result" else [{"name": model, "results": entries}]
    if not gap.flow:
        block = _yaml({KEY: items} if gap.level == "key" else items, flow=False)
        lines = [f"# swapbias:{label}", *block.splitlines(), "# swapbias:end"]
        return "".join(f"{pad}{line}\n" for line in lines)
    texts = [_yaml({KEY: items}, flow=True)[1:-1]] if gap.level == "key" else [_yaml(one, flow=True) for one in items]
    inner = [f", {text}" if gap.comma else f"{text}{',' * (text is not texts[-1])}" for text in texts]
    lines = ["", f"{pad}# swapbias:{label}", *(pad + line for line in inner), f"{pad}# swapbias:end", pad]
    return "\n".join(lines)


def _yaml(value: Any, *, flow: bool) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=LIMIT, default_flow_style=flow)
    return text.strip("\n")


def _without(header: str, found: places.Index, where: str, first_line: int) -> tuple[str, Gap | None, str]:
    """The header without results of ours, the place where comments held them, and what the first comment says."""
    markers = _markers(header, found)
    if not markers:
        return _without_nodes(header, found, where), None, "begin"
    if [one[2].split()[0] for one in markers] != ["begin", "end"]:
        line = first_line + header.count("\n", 0, markers[0].start())
        raise ValueError(
            f"{where}:{line}: its comments '# swapbias:begin' and '# swapbias:end' make no pair. Remove the odd one."
        )
    begin, end = markers
    gap = _held(header, found, begin, end)
    start, after = begin.start(), end.end()
    if gap is not None and gap.flow:  # within brackets, the line end before and the spaces after are ours too
        spaces = header[after : after + gap.pad]
        start, after = gap.at, after + len(spaces) - len(spaces.lstrip(" "))
    rest = header[:start] + header[after:]
    ours = [item.start_mark.index for one in found.results for item in one.items if places.is_ours(item)]
    if all(start <= at < after for at in ours):
        return rest, gap, begin[2]
    return _without_nodes(rest, places.index(rest, where, first_line), where), None, begin[2]


def _markers(header: str, found: places.Index) -> list[re.Match[str]]:
    """Our comments; what looks like one within a text is none."""
    if "# swapbias:" not in header:
        return []
    spans = sorted(places.scalars(found.root))
    starts = [start for start, _ in spans]
    markers = []
    for one in _MARKER.finditer(header):
        before = bisect_right(starts, one.start(2)) - 1
        if before < 0 or one.start(2) >= spans[before][1]:
            markers.append(one)
    return markers


def _held(header: str, found: places.Index, begin: re.Match[str], end: re.Match[str]) -> Gap | None:
    """The place between the comments; None where nothing stands there."""

    def inside(node: yaml.Node | None) -> bool:
        return node is not None and begin.end() <= node.start_mark.index < end.start()

    holders: list[tuple[str, Any, list[Any]]] = [("key", found.root, [found.key])]
    if isinstance(found.models, yaml.SequenceNode):
        holders.append(("model", found.models, found.models.value))
    holders += [("result", one.listed, one.items) for one in found.results]
    for level, holder, nodes in holders:
        if any(inside(node) for node in nodes):
            flow = bool(holder.flow_style)
            at = len(header[: begin.start()].removesuffix("\n").removesuffix("\r")) if flow else begin.start()
            comma = header[begin.end() :].lstrip().startswith(",")
            return Gap(at, len(begin[1]), level, flow=flow, comma=comma)
    return None


def _without_nodes(header: str, found: places.Index, where: str) -> str:
    """The header without results that say that they are ours, be they marked or not."""
    cuts = []
    for results in found.results:
        items = results.items
        flow = bool(isinstance(results.listed, yaml.SequenceNode) and results.listed.flow_style)
        for number, item in enumerate(items):
            if not places.is_ours(item):
                continue
            if not flow:
                cuts.append(places.item_lines(header, item, where)[:2])
            elif number + 1 < len(items):
                cuts.append((item.start_mark.index, items[number + 1].start_mark.index))
            else:
                others = [one for one in items[:number] if not places.is_ours(one)]
                cuts.append((others[-1].end_mark.index if others else item.start_mark.index, item.end_mark.index))
    for start, end in sorted(cuts, reverse=True):
        header = header[:start] + header[end:]
    return header


def _verify(others: dict[Any, Any], after: str, entries: list[Any], where: str, first_line: int) -> None:
    """Stop unless the edit changed our results and nothing else."""
    others_after, ours = _parted(load(after, where, first_line=first_line), where)
    if repr(others) != repr(others_after) or repr(ours) != repr(entries):
        raise ValueError(f"{where}: its {KEY} is written in a way that cannot be edited safely. Edit it by hand.")


def _built(header: str, found: places.Index, where: str, first_line: int) -> dict[Any, Any]:
    """The metadata of nodes that are not needed any more: building takes merged keys out of them."""
    if found.root is None:
        return {}
    try:
        made: dict[Any, Any] = yaml.SafeLoader("").construct_document(found.root)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, AttributeError, KeyError):
        return load(header, where, first_line=first_line)  # says where and what
    return made


def _study(entry: Mapping[str, Any]) -> str:
    """The study that a result of ours says it is of; blank where it says none."""
    metrics = entry.get("metrics")
    first = metrics[0] if isinstance(metrics, list) and metrics else None
    arguments = first.get("args") if isinstance(first, dict) else None
    return str(arguments.get("study", "")) if isinstance(arguments, dict) else ""


def _parted(data: dict[Any, Any], where: str) -> tuple[dict[Any, Any], list[Any]]:
    """The metadata without results of ours and what they leave empty, and ours.

    Raises:
        ValueError: a model-index of another shape than the Hub's.
    """
    ours: list[Any] = []
    models = []
    try:
        for model in data.get(KEY) or []:
            results = model.get("results") or []
            mine = [(one.get("source") or {}).get("name") == SOURCE for one in results]
            ours += [one for one, is_mine in zip(results, mine, strict=True) if is_mine]
            rest = [one for one, is_mine in zip(results, mine, strict=True) if not is_mine]
            models += [{**model, "results": rest}] if rest else []
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{where}: its {KEY} has a shape that is not the Hub's. Correct it.") from error
    return {**{key: value for key, value in data.items() if key != KEY}, **({KEY: models} if models else {})}, ours
