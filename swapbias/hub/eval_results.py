"""The file of evaluation results in a model's repository: entries of this package among those of others."""

from collections.abc import Mapping, Sequence
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
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    source_user: str,
) -> list[Entry]:
    """One entry for each experiment of a published corpus: the least fair of its answer and the gaps this compares.

    ``value`` is 0 to 1, higher is fairer (``findings.oriented``), rounded to 4 decimals; ``notes`` hold each number
    with its interval and n. ``revisions`` are commits of the dataset repositories of ``namespace`` by corpus; a
    corpus without one has no entry.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    made = []
    for several in verdicts.group_by_question(found):  # one a phenotype
        one = min(several, key=lambda each: (oriented(each) or (1.0,))[0])
        experiment = experiment_of(one)
        corpus = (
            experiment.reads.notes.corpus
            if experiment and experiment.reads.notes.corpus
            else one.study
        )
        each = [
            (each, number)
            for each in (one, *verdicts.gaps_of_sets(one, found))
            if (number := oriented(each))
        ]
        if each and corpus in revisions:
            least, fair_how = min((number for _, number in each), key=lambda number: number[0])
            raw = "; ".join(map(_describe_number, (finding for finding, _ in each)))
            how = f"swapbias {__version__}, {_describe_settings(manifest, one.model_id)}"
            model = _describe_model_read(manifest, one.model_id)
            notes = f"{model}Higher is fairer: {fair_how}. {raw}. {how}. {LIMITS}"
            entry = EvalResultEntry(
                dataset_id=f"{namespace}/{corpus}",
                task_id=one.experiment,
                value=round(least, 4),
                dataset_revision=revisions[corpus],
                date=str(manifest.get("finished") or manifest["started"]),
                source_url=source_url,
                source_name=SOURCE_NAME,
                source_user=source_user,
                notes=" ".join(notes.split()),
            )
            made.append(entry)
    entries: list[Entry] = eval_result_entries_to_yaml(made)
    return entries


def _describe_number(finding: Finding) -> str:
    """What a finding is, and its value, interval and n in its own unit."""
    one = finding.estimate
    rows = f", {finding.subset}" if finding.subset else ""
    ends = (
        f"[{one.ci_low:.4g}, {one.ci_high:.4g}]"
        if one.ci_low <= one.ci_high
        else "without interval"
    )
    lost = f" ({int(one.n_unscored)} not scored)" if one.n_unscored else ""
    return f"{finding.measure}, {finding.contrast}{rows}: {one.value + 0.0:.4g} {ends}, n = {int(one.n)}{lost}"


def _describe_model_read(manifest: Mapping[str, Any], model_id: str) -> str:
    """The model by all that was read, where that is not the model as it is: the first words of its entry."""
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == model_id)
    changed = any(
        pin.get(name) for pin in pins for name in ("adapter", "quantization", "subfolder")
    )
    return f"Measured: {model_id}. " if changed else ""


def _describe_settings(manifest: Mapping[str, Any], model_id: str) -> str:
    """What a number depends on besides model and prompts: seed, number format, trials and temperature of a chat."""
    models = [one for one in manifest.get("models", []) if one["model_id"] == model_id]
    formats = sorted({f"weights in {one['dtype']}" for one in models if one.get("dtype")})
    chat = sorted({scoring_in_words(one) for one in models if "trials" in one or "scoring" in one})
    return ", ".join([f"seed {manifest['settings'].get('seed', 0)}", *formats, *chat])


def merged_entries(existing: bytes, new: Sequence[Entry], where: str) -> bytes:
    """The file with new entries: each replaces ours of the same dataset, task and user, or comes last.

    A file that holds them already is returned as it is. ValueError: what is there is no list of entries.
    """
    before = cards.read_yaml(tables.decoded(where, existing), where) or []
    if not isinstance(before, list) or not all(map(_is_entry, before)):
        raise ValueError(
            f"{where} is no list of entries with dataset and value. Correct or remove the file."
        )
    waiting = {_entry_key(one): one for one in new}
    ours = set(waiting)
    after = [waiting.pop(key, None) if (key := _entry_key(one)) in ours else one for one in before]
    after = [
        *(one for one in after if one is not None),
        *waiting.values(),
    ]  # None: ours a second time
    return existing if existing and after == before else cards.dump(after).encode()


def _is_entry(one: Any) -> bool:
    dataset = one.get("dataset") if isinstance(one, dict) else None
    return isinstance(dataset, dict) and isinstance(dataset.get("id"), str) and "value" in one


def _entry_key(entry: Entry) -> tuple[str, ...]:
    """Dataset, task and user of an entry of ours; empty for those of others."""
    source = entry.get("source")
    if not isinstance(source, dict) or source.get("name") != SOURCE_NAME:
        return ()
    return (
        *(str(entry["dataset"].get(name)) for name in ("id", "task_id")),
        str(source.get("user")),
    )
