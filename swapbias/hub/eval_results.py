"""Evaluation results: the file in a model's repo, one number for each task where higher is fairer; the tasks' own."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.findings import Finding, Oriented, experiment_of, headline_of_each, oriented
from swapbias.hub.cards import BYTE_ORDER_MARK, decode, read_yaml
from swapbias.models.chat import scoring_in_words

PATH = ".eval_results/swapbias.yaml"
SOURCE = "swapbias"  # the source name that tells this package's entries from those of others
DECIMALS = 4
LIMITS = "One measure of one study: 1 is no measured difference, not proof of fairness; this is not a leaderboard."
UNSEEN = (
    "The Hub shows such numbers on a model's page only where their dataset is on its list of benchmarks, and none of "
    "swapbias is yet: today a reader of the page sees the section of the card, and no number beside it."
)

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
        UsageError: findings of several models.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

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


def merged(existing: bytes, new: Sequence[Entry], where: str) -> bytes:
    """The file with new entries in it: each replaces ours of the same dataset and task, or goes to the end.

    Ours are those with this package's source name and the same source user. All others stay byte for byte where
    entries are added, and keep what they say where ours are replaced. A file that holds the new entries already is
    returned as it is.

    Args:
        existing: what is there; blank for nothing.
        new: of ``entries``, one for each dataset and task.
        where: names the file in errors.

    Raises:
        ValueError: what is there is not a list of entries (nothing is written over it).
    """
    waiting = {_key(one): one for one in new}
    ours, before = set(waiting), _read(existing, where)
    found = [waiting.pop(key, None) if (key := _key(one)) in ours else one for one in before]
    after = [*(one for one in found if one is not None), *waiting.values()]  # None: ours a second time
    if existing and after == before:
        return existing
    added = _dump(list(waiting.values()))
    text = decode(existing, where).lstrip(BYTE_ORDER_MARK)
    longer = (f"{text}\n" if text and not text.endswith("\n") else text).encode() + added
    try:
        return longer if _read(longer, where) == after else _dump(after)
    except ValueError:  # a list in brackets, say, cannot be added to
        return _dump(after)


def _dump(entries: Sequence[Entry]) -> bytes:
    text: str = yaml.safe_dump(list(entries), sort_keys=False, allow_unicode=True, width=118)
    return text.encode()


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


def _read(content: bytes, where: str) -> list[Entry]:
    """The entries of a file that anybody may have written."""
    read = read_yaml(decode(content, where).lstrip(BYTE_ORDER_MARK), where)
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
    mine = [(key, str(one["value"])) for one in _read(content, where) if (key := _key(one))]
    return frozenset((*task, value) for (*task, made_by), value in mine if made_by == user)
