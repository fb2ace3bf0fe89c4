"""The ``model-index`` in the header of a model's card, which the Hub shows as evaluation results."""

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from swapbias import __version__
from swapbias.findings import Finding, experiment_of
from swapbias.hub import cards
from swapbias.hub.eval_results import SOURCE_NAME, corpus_of
from swapbias.report import finding_names, verdicts
from swapbias.studies import load_corpus

MODEL_INDEX = "model-index"
_OURS = "swapbias"  # the key in the arguments of a metric that tells this package's results from those of others
_TASKS = {  # by kind of model: what the Hub calls it
    "masked": "fill-mask",
    "classifier": "text-classification",
    "causal": "text-generation",
    "chat": "text-generation",
    "embedding": "feature-extraction",
    "retrieval": "sentence-similarity",
}
Result = dict[str, Any]
ResultKey = tuple[str, str]
"""Corpus and task of a result, whoever published the corpus."""


def index_results(
    findings: Sequence[Finding],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    model_commit: str = "",
) -> list[Result]:
    """Make a result for each question that an audit answered: the answer and the gaps in it, with their intervals.

    Args:
        findings: the findings of one model.
        namespace: owner of the dataset repositories of the corpora.
        revisions: commits of these repositories by corpus; a corpus without one is named without the owner.
        source_url: where the results are.
        model_commit: the commit of the model that was read; blank where nothing tells it.

    Returns:
        results as the Hub reads them.
    """
    results = []
    for answers in verdicts.group_by_question(findings):
        metrics: list[dict[str, Any]] = []
        for answer in answers:
            for finding in (answer, *verdicts.gaps_of_sets(answer, findings)):
                metric = _metric(finding, model_commit)
                if metric and metric not in metrics:
                    metrics.append(metric)
        if not metrics:
            continue
        results.append(
            {
                "task": _task(answers[0]),
                "dataset": _dataset(answers[0], namespace, revisions),
                "metrics": metrics,
                "source": {"name": SOURCE_NAME, "url": source_url},
            }
        )
    return results


def result_keys(findings: Sequence[Finding]) -> set[ResultKey]:
    """Return the key of the result of each question that an audit asked, whether it measured anything or not.

    Args:
        findings: the findings of one model.
    """
    keys = set()
    for answer, *_ in verdicts.group_by_question(findings):
        keys.add((corpus_of(answer), _task(answer)["name"]))
    return keys


def _metric(finding: Finding, model_commit: str) -> dict[str, Any] | None:
    """Return a finding as a metric; None where nothing was measured."""
    estimate = finding.estimate
    if math.isnan(estimate.value):
        return None
    arguments: dict[str, Any] = {_OURS: __version__, "unit": finding.unit, "n": int(estimate.n)}
    if estimate.ci_low <= estimate.ci_high:
        arguments["interval"] = [
            round(float(estimate.ci_low), 6),
            round(float(estimate.ci_high), 6),
        ]
    if model_commit:
        arguments["model_revision"] = model_commit
    if estimate.n_unscored:
        arguments["n_not_scored"] = int(estimate.n_unscored)
    return {
        "type": finding.measure,
        "value": round(float(estimate.value), 6),
        "name": cards.visible(finding_names.row_name(finding)),
        "args": arguments,
    }


def _task(finding: Finding) -> dict[str, str]:
    """Return the task of a finding's experiment, by the Hub's name and by the study's."""
    experiment = experiment_of(finding)
    kind = experiment.kind if experiment else ""
    return {"type": _TASKS.get(kind, "other"), "name": f"{finding.study} {finding.experiment}"}


def _dataset(finding: Finding, namespace: str, revisions: Mapping[str, str]) -> dict[str, str]:
    """Return the dataset that a finding is of, at a commit where it is published."""
    corpus = load_corpus(corpus_of(finding))
    experiment = experiment_of(finding)
    dataset = {"type": corpus.name, "name": corpus.title}
    if experiment and experiment.reads.configs:
        dataset["config"] = experiment.reads.configs[0]
    if corpus.name in revisions:
        dataset["type"] = f"{namespace}/{corpus.name}"
        dataset["revision"] = revisions[corpus.name]
    return dataset


# --- in the header of a card ------------------------------------------------------------------------------


def with_results(
    readme: str,
    results: Sequence[Result],
    *,
    questions: Collection[ResultKey],
    model_name: str,
    file: str,
) -> str:
    """Put results into the model-index of a card: each replaces ours of the same dataset and task.

    An earlier result of ours goes where the audit asked its question and has no number for it. Ours stand in an entry
    of their own. Entries of others and the rest of the header stay byte for byte where the header is in lines.

    Args:
        readme: the whole README.
        results: new results, as ``index_results`` makes them.
        questions: the keys of all questions of the audit, as ``result_keys`` makes them.
        model_name: the name of an entry.
        file: the README's file, as errors name it.

    Returns:
        the README with the results.

    Raises:
        ValueError: a header or model-index that cannot be read.
    """
    parts = cards.split(readme)
    metadata = cards.metadata_of(readme, file)
    if not results and not metadata.get(MODEL_INDEX):
        return readme
    entries = metadata.get(MODEL_INDEX) or []
    if not _is_index(entries):
        raise ValueError(
            f"{file}: its model-index is no list of entries with name and results that the Hub's client can read. "
            "Correct or remove it."
        )
    ours = next((index for index, entry in enumerate(entries) if _is_ours(entry)), len(entries))
    earlier = entries[ours]["results"] if ours < len(entries) else []
    merged = _merged(earlier, results, questions)
    entry = {"name": model_name, "results": merged} if merged else None
    before = entries[ours : ours + 1]
    ours_after = [entry] if entry else []
    if before == ours_after:
        return readme
    index = [*entries[:ours], *ours_after, *entries[ours + 1 :]]
    after = {**metadata, MODEL_INDEX: index}
    if not index:  # the client takes no empty list
        del after[MODEL_INDEX]
    header = _spliced(parts.header, entry, ours)
    if parts.before and header is not None and _reads_as(header, after):
        head = parts.before.lstrip(cards.BYTE_ORDER_MARK)  # behind it the client sees no metadata
        return head + header.replace("\n", cards.newline(readme)) + parts.after
    return cards.with_keys(readme, after, drop=() if index else (MODEL_INDEX,), file=file)


def _is_index(entries: Any) -> bool:
    """Tell whether a value is a model-index that the Hub's client can read: entries of whole results."""
    from huggingface_hub.repocard_data import model_index_to_eval_results

    results = [entry.get("results") for entry in entries] if _are_mappings(entries) else [None]
    if not all(map(_are_mappings, results)):
        return False
    empty = {"name": "", "results": []}  # the client takes no empty list
    try:
        model_index_to_eval_results([*entries, empty])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return False
    return True


def _are_mappings(values: Any) -> bool:
    """Tell whether a value is a list of mappings alone."""
    return isinstance(values, list) and all(isinstance(value, dict) for value in values)


def _reads_as(header: str, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a header is the YAML of this metadata."""
    try:
        return bool((yaml.safe_load(header) or {}) == metadata)
    except yaml.YAMLError:  # lines after which nothing may follow
        return False


def _is_ours(entry: Mapping[str, Any]) -> bool:
    """Tell whether this package made all results of an entry."""
    arguments = []
    for result in entry["results"]:
        for metric in result.get("metrics") or ():
            arguments.append(metric.get("args") if isinstance(metric, dict) else None)
    return bool(arguments) and all(isinstance(args, dict) and _OURS in args for args in arguments)


def _merged(
    earlier: Sequence[Result], new: Sequence[Result], questions: Collection[ResultKey]
) -> list[Result]:
    """Replace earlier results by new ones, drop those asked again without a number; further new ones come last."""
    waiting = {_result_key(result): result for result in new}
    merged = []
    for result in earlier:
        key = _result_key(result)
        if key in waiting:
            merged.append(waiting.pop(key))
        elif key not in questions:
            merged.append(result)
    return [*merged, *waiting.values()]


def _result_key(result: Mapping[str, Any]) -> ResultKey:
    """Return dataset and task of a result, whoever published the dataset."""
    dataset = str((result.get("dataset") or {}).get("type"))
    return dataset.rpartition("/")[2], str((result.get("task") or {}).get("name"))


def _spliced(header: str, entry: Mapping[str, Any] | None, index: int) -> str | None:
    """Write an entry into the lines of a header, in place of one or at the end; None where it has other lines.

    Args:
        header: the YAML of the header.
        entry: the entry; None: the one in its place is taken out.
        index: its index among the entries; their number adds it.
    """
    header = header.replace("\r\n", "\n")
    if header and not header.endswith("\n"):
        header += "\n"
    document = yaml.compose(header, Loader=yaml.SafeLoader)
    if document is None:
        return header + cards.dump({MODEL_INDEX: [entry]})
    if not isinstance(document, yaml.MappingNode) or document.flow_style:
        return None
    values = {key.value: value for key, value in document.value}
    if MODEL_INDEX not in values:
        return header + cards.dump({MODEL_INDEX: [entry]})
    entries = values[MODEL_INDEX]
    if not isinstance(entries, yaml.SequenceNode) or entries.flow_style or not entries.value:
        return None
    lines = header.splitlines(keepends=True)
    text = ""
    if entry is not None:
        text = textwrap.indent(cards.dump([entry]), "".ljust(entries.start_mark.column))
    if index < len(entries.value):
        start = entries.value[index].start_mark.line
        end = _end_line(lines, entries.value[index])
    else:
        start = end = _end_line(lines, entries.value[-1])
    if not text and len(entries.value) == 1:
        start = next(key.start_mark.line for key, value in document.value if value is entries)
    return "".join([*lines[:start], text, *lines[end:]])


def _end_line(lines: Sequence[str], node: yaml.Node) -> int:
    """Return the number of the line after a node, without the blank lines and comments that follow it."""
    end = node.end_mark.line
    if node.end_mark.column > 0:
        end += 1
    while end > node.start_mark.line + 1 and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1
    return int(end)
