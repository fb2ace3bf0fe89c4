"""The file of evaluation results in a model's repository: entries of this package among those of others."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from swapbias import __version__
from swapbias.findings import Finding, experiment_of, oriented
from swapbias.hub import cards
from swapbias.models.chat import scoring_in_words
from swapbias.report import verdicts
from swapbias.studies import tables

EVAL_RESULTS = ".eval_results/swapbias.yaml"
SOURCE_NAME = "swapbias"  # tells this package's entries from those of others
LIMITS = "One measure of one study: 1 is no measured difference, not proof of fairness; this is not a leaderboard."
Entry = dict[str, Any]


def eval_entries(
    findings: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    source_user: str,
    model_commit: str = "",
) -> list[Entry]:
    """Make one entry for each experiment of a published corpus: the least fair of its answer and the gaps in it.

    ``value`` is 0 to 1, higher is fairer (``findings.oriented``), rounded to 4 decimals; ``notes`` hold each number
    with its interval and n.

    Args:
        findings: the findings of one model.
        manifest: the manifest of the run.
        namespace: owner of the dataset repositories of the corpora.
        revisions: commits of these repositories by corpus; a corpus without one has no entry.
        source_url: where the results are.
        source_user: who shares them.
        model_commit: the commit of the model that was read; blank where nothing tells it.

    Returns:
        entries as the Hub reads them.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    results = []
    for answers in verdicts.group_by_question(findings):  # one a phenotype
        answer = min(answers, key=lambda finding: (oriented(finding) or (1.0,))[0])
        numbers = []
        for finding in (answer, *verdicts.gaps_of_sets(answer, findings)):
            if number := oriented(finding):
                numbers.append((finding, *number))
        corpus = corpus_of(answer)
        if not numbers or corpus not in revisions:
            continue
        _, value, higher_is = min(numbers, key=lambda number: number[1])
        model = _describe_model_read(manifest, answer.model_id, model_commit)
        settings = _describe_settings(manifest, answer.model_id)
        values = "; ".join(_describe_number(finding) for finding, *_ in numbers)
        notes = f"{model}Higher is fairer: {higher_is}. {values}. swapbias {__version__}, {settings}. {LIMITS}"
        entry = EvalResultEntry(
            dataset_id=f"{namespace}/{corpus}",
            task_id=answer.experiment,
            value=round(value, 4),
            dataset_revision=revisions[corpus],
            date=str(manifest.get("finished") or manifest["started"]),
            source_url=source_url,
            source_name=SOURCE_NAME,
            source_user=source_user,
            notes=" ".join(notes.split()),
        )
        results.append(entry)
    entries: list[Entry] = eval_result_entries_to_yaml(results)
    return entries


def corpus_of(finding: Finding) -> str:
    """Return the name of the corpus that a finding is of: that of its notes, else of its study.

    Args:
        finding: any finding.
    """
    experiment = experiment_of(finding)
    notes_corpus = experiment.reads.notes.corpus if experiment else ""
    return notes_corpus or finding.study


def _describe_number(finding: Finding) -> str:
    """Say what a finding is, and its value, interval and n in its own unit."""
    estimate = finding.estimate
    subset = f", {finding.subset}" if finding.subset else ""
    interval = "without interval"
    if estimate.ci_low <= estimate.ci_high:
        interval = f"[{estimate.ci_low:.4g}, {estimate.ci_high:.4g}]"
    unscored = f" ({int(estimate.n_unscored)} not scored)" if estimate.n_unscored else ""
    value = f"{estimate.value + 0.0:.4g}"
    count = int(estimate.n)
    return (
        f"{finding.measure}, {finding.contrast}{subset}: {value} {interval}, n = {count}{unscored}"
    )


def _describe_model_read(manifest: Mapping[str, Any], model_id: str, commit: str) -> str:
    """Name the model by all that was read, where that is not the model as it is, or at its commit."""
    at_commit = f" at commit {commit[:12]}" if commit else ""
    for pin in manifest.get("models", ()):
        is_changed = pin.get("adapter") or pin.get("quantization") or pin.get("subfolder")
        if pin["model_id"] == model_id and (is_changed or commit):
            return f"Measured: {model_id}{at_commit}. "
    return ""


def _describe_settings(manifest: Mapping[str, Any], model_id: str) -> str:
    """Say what a number depends on besides model and prompts: seed, number format, and how a chat was scored."""
    pins = [pin for pin in manifest.get("models", []) if pin["model_id"] == model_id]
    formats = sorted({f"weights in {pin['dtype']}" for pin in pins if pin.get("dtype")})
    chat = sorted({scoring_in_words(pin) for pin in pins if "trials" in pin or "scoring" in pin})
    return ", ".join([f"seed {manifest['settings'].get('seed', 0)}", *formats, *chat])


def entry_keys(
    findings: Sequence[Finding], *, namespace: str, source_user: str
) -> set[tuple[str, ...]]:
    """Return the key of the entry of each question that an audit asked, whether it measured anything or not.

    Args:
        findings: the findings of one model.
        namespace: owner of the dataset repositories of the corpora.
        source_user: who shares them.

    Returns:
        dataset, task and user of each.
    """
    keys: set[tuple[str, ...]] = set()
    for answer, *_ in verdicts.group_by_question(findings):
        keys.add((f"{namespace}/{corpus_of(answer)}", answer.experiment, source_user))
    return keys


def merged_entries(
    existing: bytes, new: Sequence[Entry], *, questions: Collection[tuple[str, ...]], file: str
) -> bytes:
    """Put new entries into the file: each replaces ours of the same dataset, task and user, or comes last.

    An earlier entry of ours goes where the audit asked its question and has no number for it.

    Args:
        existing: the file that is there; empty for none.
        new: entries of ours.
        questions: the keys of all questions of the audit, as ``entry_keys`` makes them.
        file: its name, as errors have it.

    Returns:
        the file; as it is where it holds them already, empty where no entry is left.

    Raises:
        ValueError: what is there is no list of entries.
    """
    before = cards.read_yaml(tables.decoded(file, existing), file) or []
    if not isinstance(before, list) or not all(map(_is_entry, before)):
        raise ValueError(
            f"{file} is no list of entries with dataset and value. Correct or remove the file."
        )
    waiting = {_entry_key(entry): entry for entry in new}
    replaced_keys = {*waiting, *questions}
    after = []
    for entry in before:
        key = _entry_key(entry)
        if key not in replaced_keys:
            after.append(entry)
        elif key in waiting:  # else ours a second time
            after.append(waiting.pop(key))
    after += waiting.values()
    if existing and after == before:
        return existing
    if not after:
        return b""
    return cards.dump(after).encode()


def _is_entry(value: Any) -> bool:
    """Tell whether a value of the file is an entry: it names a dataset, and has a value."""
    dataset = value.get("dataset") if isinstance(value, dict) else None
    return isinstance(dataset, dict) and isinstance(dataset.get("id"), str) and "value" in value


def _entry_key(entry: Entry) -> tuple[str, ...]:
    """Return dataset, task and user of an entry of ours; empty for those of others."""
    source = entry.get("source")
    if not isinstance(source, dict) or source.get("name") != SOURCE_NAME:
        return ()
    dataset = entry["dataset"]
    return str(dataset.get("id")), str(dataset.get("task_id")), str(source.get("user"))
