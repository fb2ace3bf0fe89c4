"""Results of an audit as model-index metadata, put into the YAML header of a README.md that stays as it is."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from swapbias.cards import header_places as places
from swapbias.cards.escaping import url, visible
from swapbias.cards.header import LIMIT, load, native, newline, split
from swapbias.cards.header_places import KEY, SOURCE, Gap
from swapbias.finding import Finding
from swapbias.report import words
from swapbias.studies import load_study

TASKS = {
    "masked": ("fill-mask", "Fill-Mask"),
    "classifier": ("text-classification", "Text Classification"),
    "causal": ("text-generation", "Text Generation"),
    "chat": ("text-generation", "Text Generation"),
    "embedding": ("feature-extraction", "Feature Extraction"),
}
# "header": there was none before, so that it goes when our results go.
_MARKER = re.compile(r"^( *)# swapbias:(begin header|begin|end)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


def entries(
    found: Sequence[Finding],
    *,
    model_name: str,
    results_url: str,
    dataset_namespace: str,
    revisions: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The headline findings of a model as a model-index has them: a result for each experiment, a metric for each.

    The value is the raw one, in its unit and with its sign; its interval, unit and direction are arguments of the
    metric. What is not finite is left out.

    Args:
        found: findings of one model.
        model_name: the model's name on the Hub, for errors.
        results_url: the full results at a commit, the source of each number.
        dataset_namespace: who publishes the corpora on the Hub.
        revisions: the commit or tag of each corpus there, where known.

    Raises:
        ValueError: findings of several models, or an address that is none.
    """
    if len({one.model_id for one in found}) > 1:
        raise ValueError(f"Findings of several models for {visible(model_name)[:80]}, expected one. Choose one.")
    shown = [one for one in words.headlines(list(found)) if one.score == "score" and not one.robust]
    robust = {(one.study, *one.key()): one for one in found if one.robust and one.score == "score"}
    made = []
    for study, name in dict.fromkeys((one.study, one.experiment) for one in shown):
        mine = [one for one in shown if (one.study, one.experiment) == (study, name)]
        metrics = [_metric(one, robust.get((study, *one.key()))) for one in mine if math.isfinite(one.estimate.value)]
        if metrics:
            described = _described(study, name, dataset_namespace, revisions)
            made.append({**described, "metrics": metrics, "source": {"name": SOURCE, "url": url(results_url)}})
    return [native(one) for one in made]


def with_entries(readme: str, entries: Sequence[Mapping[str, Any]], *, model_name: str, where: str) -> str:
    """The README with these results in its header; all else in the file stays byte for byte.

    They stand between the comments ``# swapbias:begin`` and ``# swapbias:end``: where these are already, else after
    the last result of the first model. Results of ours without comments (the Hub's editor drops them) are replaced.
    Doing it twice changes nothing more.

    Args:
        readme: the whole file; blank where there is none.
        entries: as ``entries`` gives them; none takes ours out.
        model_name: names the model where the header has no model-index yet.
        where: names the file in errors.

    Raises:
        ValueError: a header that cannot be read or edited safely, in one sentence; nothing is changed.
    """
    if not entries:
        return without_entries(readme, where=where)
    parts = split(readme)
    line_end = newline(readme)
    header, gap, label = _without(parts.header, where, parts.first_line)
    if gap is None:
        gap = places.usual(header, places.index(header, where, parts.first_line), where)
        label = "begin" if parts.has_header else "begin header"
    written = _written([native(one) for one in entries], gap, visible(model_name), label).replace("\n", line_end)
    made = header[: gap.at] + written + header[gap.at :]
    _verify(parts.header, made, list(entries), where, parts.first_line)
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
    header, _, label = _without(parts.header, where, parts.first_line)
    if header == parts.header:
        return readme
    _verify(parts.header, header, [], where, parts.first_line)
    if label == "begin header" and not header.strip():
        mark = "\ufeff" if readme.startswith("\ufeff") else ""
        return mark + re.sub(r"\A---[ \t]*(?:\r?\n|\Z)", "", parts.after)
    return parts.before + header + parts.after


def _described(study: str, name: str, namespace: str, revisions: Mapping[str, str]) -> dict[str, Any]:
    declared = load_study(study)
    experiment = next(one for one in declared.experiments if one.name == name)
    corpus = experiment.corpus or study
    kind, title = TASKS.get(experiment.kind, TASKS["classifier"])
    dataset = {"type": f"{namespace}/{corpus}", "name": f"{declared.title}: {name}"}
    if len(experiment.configs) == 1:
        dataset["config"] = experiment.configs[0]
    dataset["split"] = "test"
    if corpus in revisions:
        dataset["revision"] = revisions[corpus]
    return {"task": {"type": kind, "name": title}, "dataset": {key: visible(text) for key, text in dataset.items()}}


def _metric(finding: Finding, robust: Finding | None) -> dict[str, Any]:
    estimate = finding.estimate
    arguments: dict[str, Any] = {
        "unit": finding.unit,
        "direction": finding.direction,
        "contrast": finding.contrast,
        "rows": words.where(finding),
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "p_value": estimate.p_value,
        "p_adjusted": estimate.p_adjusted,
        "n": estimate.n,
        "n_unscored": estimate.n_unscored,
        "test": estimate.test,
    }
    if robust is not None:
        arguments |= {
            "robust": robust.robust,
            "robust_ci_low": robust.estimate.ci_low,
            "robust_ci_high": robust.estimate.ci_high,
            "robust_p_value": robust.estimate.p_value,
        }
    told = {key: visible(value) if isinstance(value, str) else native(value) for key, value in arguments.items()}
    return {
        "type": visible(finding.measure),
        "value": native(estimate.value),
        "name": visible(f"{words.quantity(finding)} ({words.where(finding)})"),
        "args": {key: value for key, value in told.items() if value is not None and value != ""},
    }


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


def _without(header: str, where: str, first_line: int) -> tuple[str, Gap | None, str]:
    """The header without results of ours, the place where comments held them, and what the first comment says."""
    found = places.index(header, where, first_line)
    spans = places.scalars(found.root)
    markers = [one for one in _MARKER.finditer(header) if not any(a <= one.start(2) < b for a, b in spans)]
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
    cleaned = _without_nodes(rest, places.index(rest, where, first_line), where)
    return cleaned, gap if cleaned == rest else None, begin[2]


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


def _verify(before: str, after: str, entries: list[Any], where: str, first_line: int) -> None:
    """Stop unless the edit changed our results and nothing else."""
    try:
        others_before, _ = _parted(load(before, where, first_line=first_line))
        others_after, ours = _parted(load(after, where, first_line=first_line))
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{where}: its {KEY} has a shape that is not the Hub's. Correct it.") from error
    if repr(others_before) != repr(others_after) or repr(ours) != repr([native(one) for one in entries]):
        raise ValueError(f"{where}: its {KEY} is written in a way that cannot be edited safely. Edit it by hand.")


def _parted(data: dict[Any, Any]) -> tuple[dict[Any, Any], list[Any]]:
    """The metadata without results of ours and what they leave empty, and ours."""
    ours: list[Any] = []
    models = []
    for model in data.get(KEY) or []:
        results = model.get("results") or []
        mine = [one for one in results if (one.get("source") or {}).get("name") == SOURCE]
        ours += mine
        rest = [one for one in results if one not in mine]
        models += [{**model, "results": rest}] if rest else []
    return {**{key: value for key, value in data.items() if key != KEY}, **({KEY: models} if models else {})}, ours
