"""Prompts that runs read: told apart, and in words."""

from collections.abc import Mapping
from typing import Any

from swapbias.errors import UsageError
from swapbias.findings import Finding, comparisons, experiment_of
from swapbias.models.chat import scoring_in_words
from swapbias.runs.results import Results, corpora_read

Prompts = tuple[int, str, tuple[str, ...], str, str]
"""Number of rows, their sha256, those of word lists and notes, settings of chat."""


def prompts_of(finding: Finding, manifest: Mapping[str, Any]) -> frozenset[Prompts]:
    """Return what a number depends on besides the model, by config.

    Args:
        finding: the number.
        manifest: the manifest of its run.

    Returns:
        an entry for each config; numbers without a common entry do not compare.
    """
    experiment = experiment_of(finding)
    chat = manifest["settings"].get("chat")
    chat_models = [
        model.get("model_id") for model in manifest["models"] if model.get("kind") == "chat"
    ]
    asks_chat = experiment is not None and experiment.kind == "chat"
    is_chat = asks_chat or finding.model_id in chat_models
    trials = scoring_in_words(chat) if is_chat and isinstance(chat, dict) else ""
    entries = []
    for entry in corpora_read(manifest, finding):
        lexicons = entry.get("lexicons")
        lists: list[str] = []
        if isinstance(lexicons, dict):
            lists = sorted({str(sha256) for sha256 in lexicons.values()})
        training = str(entry.get("training", ""))
        entries.append((entry["rows"], entry["sha256"], tuple(lists), training, trials))
    return frozenset(entries)


def describe_prompts(prompts: frozenset[Prompts]) -> str:
    """Return prompts, word lists and trials in words, each sha256 by its first eight digits.

    Args:
        prompts: entries of ``prompts_of``.
    """
    entries = []
    for count, sha256, lists, training, trials in prompts:
        parts = [f"{count:,} prompts ({sha256[:8]})"]
        if lists:
            parts.append(f"word lists {', '.join(words[:8] for words in lists)}")
        if training:
            parts.append(f"notes {training[:8]}")
        if trials:
            parts.append(trials)
        entries.append(", ".join(parts))
    return f"prompts differ: {'; '.join(sorted(entries)) or 'not stated'}"


def check_prompts(results: Results, before: Results) -> None:
    """Refuse, with a UsageError, a baseline that read other prompts.

    Args:
        results: the run that is checked.
        before: the baseline.
    """
    earlier = {
        (finding.study, finding.experiment): finding for finding in comparisons(before.found)
    }
    for finding in comparisons(results.found):
        baseline = earlier.get((finding.study, finding.experiment))
        if baseline is None:
            continue
        if not prompts_of(finding, results.manifest) & prompts_of(baseline, before.manifest):
            raise UsageError(
                f"{finding.study} {finding.experiment}: the runs read different prompts. Audit both with the same "
                "swapbias and --limit."
            )
