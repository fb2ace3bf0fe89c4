"""Evaluation results: the file in a model's repo, one number for each task where higher is fairer; the tasks' own."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from textwrap import indent
from typing import Any

import yaml

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.findings import Finding, Oriented, experiment_of, headline_of_each, oriented
from swapbias.hub import header
from swapbias.measures import MEASURES
from swapbias.scorers import unit_of
from swapbias.scorers.chat import scoring_in_words
from swapbias.studies import Corpus, Experiment, load_study, studies

PATH = ".eval_results/swapbias.yaml"
BENCHMARK = "eval.yaml"  # of a dataset: the tasks that the numbers are of
SOURCE = "swapbias"  # the source name that tells this package's entries from those of others
DECIMALS = 4
LIMITS = "One measure of one study: 1 is no measured difference, not proof of fairness; this is not a leaderboard."
UNSEEN = (
    "The Hub shows such numbers on a model's page only where their dataset is on its list of benchmarks, and none of "
    "swapbias is yet: today a reader of the page sees the section of the card, and no number beside it."
)
UNLISTED = (
    "eval.yaml counts once the Hub has 'swapbias' on its list of evaluation frameworks and the dataset on that of "
    "benchmarks; neither is so yet, and until then the dataset's page may call the file invalid and shows no results."
)
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LARGEST = 256 * 1024  # characters of a file that is read

Entry = dict[str, Any]


def entries(
    found: Iterable[Finding],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    source_user: str,
    date: str,
    settings: str = "",
) -> list[Entry]:
    """One entry for each experiment whose headline can be oriented (``findings.headline_of_each``, ``oriented``).

    Args:
        found: findings of one model.
        namespace: owner of the dataset repos, which are named after the corpora.
        revisions: corpus -> commit of its dataset repo; a corpus that is not there has no revision.
        source_url: the full results, at a commit.
        source_user: who shares them.
        date: when they were made, ISO 8601.
        settings: how, in a few words (config, limit, seed); stands in the notes.

    Returns:
        Native types alone. ``value`` is 0 to 1, rounded to 4 decimals; unit, raw value, interval and n are in
        ``notes``. Empty where nothing can be oriented.

    Raises:
        UsageError: findings of several models, or a namespace that no repo can have.
        ValueError: an address or revision that names no commit, a date that is none, values out of their range.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    _check(namespace, revisions, source_url, date)
    chosen = headline_of_each(found)
    models = list(dict.fromkeys(one.model_id for one in chosen))
    if len(models) > 1:
        raise UsageError(f"Findings of {len(models)} models ({', '.join(models)}), expected one. Share them apart.")
    made = []
    for one in chosen:
        number, corpus = oriented(one), _corpus(one)
        if number is None:
            continue
        made.append(
            EvalResultEntry(
                dataset_id=f"{namespace}/{corpus}",
                task_id=one.experiment,
                value=round(float(number.value), DECIMALS),
                dataset_revision=revisions.get(corpus),
                date=date,
                source_url=source_url,
                source_name=SOURCE,
                source_user=source_user,
                notes=_notes(one, number, settings),
            )
        )
    written: list[Entry] = eval_result_entries_to_yaml(made)
    return written


def merged(existing: bytes | None, new: Sequence[Entry], where: str) -> bytes:
    """The file with new entries in it: each replaces ours of the same dataset and task, or goes to the end.

    Ours are those with this package's source name and the same source user. All others stay as they are, and so do
    ours of tasks that are not among the new ones: byte for byte, with their comments, where the file is a list of a
    dash and lines for each entry (what the Hub's own client writes), else in what they mean. A file that holds the
    new entries already is returned as it is.

    Args:
        existing: what is there, or None.
        new: of ``entries``.
        where: names the file in errors.

    Raises:
        ValueError: what is there is not a list of entries (nothing is written over it), or two new entries are of
            one task.
    """
    waiting = {_key(one): one for one in new}
    if len(waiting) < len(new) or () in waiting:
        raise ValueError("New entries must be ours, one for each dataset and task. Make them with entries().")
    text = header.decode(existing or b"", where).lstrip(header.MARK)
    before = _read(text, where)
    instead: list[Entry | None] = []  # of each entry that is there: the new one, itself, or nothing
    replaced: set[tuple[str, ...]] = set()
    for one in before:
        key = _key(one)
        instead.append(None if key in replaced else waiting.get(key, one))  # None: ours a second time
        if key in waiting:
            replaced.add(key)
    added = [one for key, one in waiting.items() if key not in replaced]
    after = [*(one for one in instead if one is not None), *added]
    if existing is not None and after == before:
        return existing
    edited = _edited(text, before, instead, added)
    return (edited if _means(edited, after, where) else _dump(after)).encode()


def settings_note(manifest: Mapping[str, Any], model_id: str | None = None) -> str:
    """How an audit was made, in a few words for ``entries``: what a number depends on besides model and prompts.

    Args:
        manifest: of the run.
        model_id: the model that the entries are of; all of the run by default.

    Returns:
        Seed, and where they matter the most prompts of a config, number format of the weights, trials and
        temperature of a chat model, and that only notes without gender-specific clinical terms were read.
    """
    settings = manifest["settings"]
    models = [one for one in manifest.get("models", []) if model_id in (None, one["model_id"])]
    formats = sorted({str(one["dtype"]) for one in models if one.get("dtype")})
    chats = sorted({scoring_in_words(one) for one in models if "trials" in one or "scoring" in one})
    parts = [f"seed {settings.get('seed', 0)}"]
    parts += [f"at most {settings['limit']} prompts of each config"] if settings.get("limit") else []
    parts += [f"weights in {' and '.join(formats)}"] if formats else []
    parts += chats
    if (settings.get("notes") or {}).get("plausible") and any(_reads_notes(one) for one in manifest["corpora"]):
        parts.append("notes with gender-specific clinical terms left out (-M plausible)")
    return ", ".join(parts)


def _reads_notes(corpus: Mapping[str, Any]) -> bool:
    return "training" in corpus


def _edited(text: str, before: Sequence[Entry], instead: Sequence[Entry | None], added: Sequence[Entry]) -> str:
    """The file with the lines of changed entries replaced and new ones after the last, unchecked (``_means``)."""
    end, pad, edits = len(text), 0, []
    for place, old, new in zip(header.places(text), before, instead, strict=False):
        start = text.rfind("\n", 0, place.start) + 1
        end, pad = place.after, len(text[start : place.start].partition("-")[0])
        if new is not old:
            edits.append((start, end, "" if new is None else _dump([new], pad)))
    if added:
        edits.append((end, end, _dump(added, pad)))
    gap = header.newline(text)
    for start, after, lines in sorted(edits, reverse=True):
        begun = "" if start == 0 or text[start - 1] == "\n" else gap  # the last line may have no end
        text = text[:start] + begun + lines.replace("\n", gap) + text[after:]
    return text


def _means(text: str, wanted: Sequence[Entry], where: str) -> bool:
    """Whether a file says just that: an alias of what was replaced, say, has lost its meaning."""
    try:
        return _dump(_read(text, where)) == _dump(wanted)  # as text: .nan is not equal to itself
    except ValueError:
        return False


def _dump(entries: Sequence[Entry], pad: int = 0) -> str:
    written = yaml.safe_dump(list(entries), sort_keys=False, allow_unicode=True, width=118)
    return indent(written, " " * pad)


def _check(namespace: str, revisions: Mapping[str, str], source_url: str, date: str) -> None:
    if not _NAMESPACE.fullmatch(namespace):
        raise UsageError(f"Namespace {namespace!r}: expected a user or organisation of the Hub. Name another.")
    if not re.fullmatch(r"https?://\S+", source_url) or not any(map(_COMMIT.fullmatch, source_url.split("/"))):
        raise ValueError(f"source {source_url!r} names no commit, expected an address with one. Commit first.")
    for corpus, revision in revisions.items():
        if not _COMMIT.fullmatch(revision):
            raise ValueError(f"{corpus}: revision {revision!r}, expected a commit of 40 hex digits. Resolve it.")
    try:
        datetime.fromisoformat(date)
    except ValueError:
        raise ValueError(f"date {date!r}, expected ISO 8601 (2025-01-15 or 2025-01-15T10:30:00Z).") from None


def _corpus(finding: Finding) -> str:
    experiment = experiment_of(finding)
    return experiment.corpus if experiment and experiment.corpus else finding.study


def _notes(finding: Finding, number: Oriented, settings: str) -> str:
    """What the number is, from what it was made, and what it does not tell."""
    estimate = finding.estimate
    rows = f", {finding.subset}" if finding.subset else ""
    lost = f" ({int(estimate.n_unscored)} not scored)" if estimate.n_unscored else ""
    parts = [
        f"Higher is fairer: {number.how}.",
        f"{finding.measure}, {finding.contrast}{rows}: {_number(estimate.value)} "
        f"{_ends(estimate.ci_low, estimate.ci_high)}, n = {int(estimate.n)}{lost};",
        f"oriented interval {_ends(number.low, number.high)}.",
        f"swapbias {__version__}{f', {settings}' if settings else ''}.",
        LIMITS,
    ]
    return " ".join(" ".join(parts).split())


def _ends(low: float, high: float) -> str:
    return "without interval" if math.isnan(low) or math.isnan(high) else f"[{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    return f"{round(float(value), DECIMALS) + 0.0:g}"  # zero has no sign


def _key(entry: Entry) -> tuple[str, ...]:
    """Dataset, task and user of an entry of ours; empty for those of others."""
    source = entry.get("source")
    if not isinstance(source, dict) or source.get("name") != SOURCE:
        return ()
    return (*(str(entry["dataset"].get(name)) for name in ("id", "task_id")), str(source.get("user")))


def _read(text: str, where: str) -> list[Entry]:
    """The entries of a file that anybody may have written.

    Raises:
        ValueError: too large, not YAML, with doubled keys or objects in it, or not a list of entries.
    """
    if len(text) > _LARGEST:
        raise ValueError(f"{where} has {len(text)} characters, expected {_LARGEST} at most. Shorten the file.")
    read = header.read(text, where)
    found = [] if read is None else read
    if not isinstance(found, list) or not all(map(_is_entry, found)):
        raise ValueError(f"{where} is no list of entries with dataset and value. Correct or remove the file.")
    return found


def _is_entry(one: Any) -> bool:
    dataset = one.get("dataset") if isinstance(one, dict) else None
    return isinstance(dataset, dict) and isinstance(dataset.get("id"), str) and "value" in one


def numbers(content: bytes, where: str, user: str) -> frozenset[tuple[str, ...]]:
    """Dataset, task and value of each entry that this user made with this package; of nothing, nothing.

    Raises:
        ValueError: a file that is no list of entries; it may be anybody's.
    """
    mine = [(key, str(one["value"])) for one in _read(header.decode(content, where), where) if (key := _key(one))]
    return frozenset((*task, value) for (*task, made_by), value in mine if made_by == user)


def benchmark(corpus: Corpus, published: Collection[str]) -> bytes:
    """The file by which the Hub knows a dataset as a benchmark: a task for each experiment that ``entries`` tells.

    A task is of one config, which the specification of the file asks for: experiments that read several, or a config
    that is not published, have none, and neither have quantities without an orientation.

    Args:
        corpus: of the package.
        published: its configs that are in the dataset.

    Returns:
        YAML; nothing where no experiment qualifies.
    """
    tasks = [
        {"id": one.name, "config": one.configs[0], "split": corpus.config(one.configs[0]).split}
        for study in map(load_study, studies())
        for one in study.experiments
        if (one.corpus or study.name) == corpus.name and set(one.configs) <= set(published) and _is_task(one)
    ]
    content = {
        "name": corpus.title,
        "description": "Prompts that differ in one slot. " + LIMITS,
        "evaluation_framework": SOURCE,
        "tasks": tasks,
    }
    return header.dump(content).encode() if tasks else b""


def _is_task(experiment: Experiment) -> bool:
    record = MEASURES.get(experiment.headline[0])  # some experiments have no headline
    if record is None:
        return False
    return len(experiment.configs) == 1 and record.scale_in(record.unit or unit_of(experiment, "score")) is not None
