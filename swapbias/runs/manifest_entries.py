"""The manifest of a new run: versions, settings, fingerprints of what is read, and notes on it."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swapbias import __version__, studies
from swapbias.errors import library_versions
from swapbias.files import file_sha256
from swapbias.runs import prompt_data
from swapbias.runs.command import placed_names
from swapbias.runs.settings import Settings
from swapbias.runs.task import Skipped, Task
from swapbias.studies import own_studies, tables

# Libraries whose versions a manifest has.
_VERSIONS = ("torch", "transformers", "datasets", "numpy", "scipy", "pandas", "pyarrow")


def plan_manifest(
    settings: Settings, tasks: Sequence[Task], skipped: Sequence[Skipped]
) -> dict[str, Any]:
    """Return the manifest of a new run, without its models.

    Args:
        settings: the settings of the audit.
        tasks: tasks that are planned.
        skipped: experiments that do not run.
    """
    manifest: dict[str, Any] = {
        "swapbias": __version__,
        "status": "running",
        "started": now(),
        "versions": {"python": platform.python_version(), **library_versions(_VERSIONS)},
        "settings": settings.saved(),
        "corpora": fingerprints(tasks, settings),
        "skipped": [asdict(entry) for entry in skipped],
        "credentialed": any(task.credentialed for task in tasks),
    }
    manifest |= placed_names(manifest["settings"])
    repeats = repeat_notes(tasks)
    if repeats:
        manifest["repeats"] = repeats
    names = [task.study.name for task in tasks if task.study.name in own_studies()]
    corpora = [studies.load_corpus(name) for name in names]
    if corpora:
        manifest["own_studies"] = {corpus.name: corpus.origin or "local" for corpus in corpora}
    return manifest


def now() -> str:
    """Return the time of day as manifests have it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def fingerprints(tasks: Sequence[Task], settings: Settings) -> list[dict[str, Any]]:
    """Return what each task reads.

    Args:
        tasks: the tasks of an audit.
        settings: the settings of the audit.

    Returns:
        Entries of a manifest: corpus, configs, row count, sha256 of the rows, of the user's adjectives and of the
        word lists.
    """
    return [_fingerprint(task, settings) for task in tasks]


def reads_adjectives(study: str) -> bool:
    """Return whether the prompts of a study can have adjectives of the user's own.

    Args:
        study: its name.
    """
    return studies.load_corpus(study).with_adjectives is not None


def _fingerprint(task: Task, settings: Settings) -> dict[str, Any]:
    """Return the entry of a manifest for the rows of a task."""
    entry: dict[str, Any] = {
        "corpus": task.experiment.reads.notes.corpus or task.study.name,
        "config": ", ".join(task.configs),
        "rows": task.n_prompts,
    }
    if source := prompt_data.source_of(task.study.name, settings.prompt_data):
        entry["experiment"] = task.experiment.name
        entry["language"] = prompt_data.language_of(task.study.name, source, task.configs)
    if task.n_available:
        entry["of"] = task.n_available
    entry["sha256"] = tables.fingerprint(task.rows[: task.n_prompts])
    if settings.adjectives and reads_adjectives(task.study.name):
        entry["adjectives_sha256"] = file_sha256(Path(settings.adjectives))
    beside = task.rows[task.n_prompts :]
    if beside:
        entry["beside"] = tables.fingerprint(beside)
    lexicons = {}
    for name in task.lexicons:
        entries = studies.load_lexicon(name).entries()
        lexicons[name] = tables.fingerprint(
            {"word": word, "label": label} for word, label in entries
        )
    entry["lexicons"] = lexicons
    if task.notes:
        entry["training"] = tables.fingerprint(task.notes.rows)
    return entry


def partial_note(tasks: Sequence[Task]) -> str:
    """Say which experiments read a part of their prompts, and how all are read.

    Args:
        tasks: the tasks of an audit.

    Returns:
        Two sentences; blank where each reads all.
    """
    parts = [task for task in tasks if task.n_available]
    if not parts:
        return ""
    counts = [f"{task.name} ({task.n_prompts:,} of {task.n_available:,})" for task in parts]
    names = dict.fromkeys(task.study.name for task in parts)
    options = " ".join(f"--study {name}" for name in names)
    return f"Slow experiments read a part of their prompts: {', '.join(counts)}. Read all with {options}."


def repeat_notes(tasks: Sequence[Task]) -> list[str]:
    """Say how many pairs of the user's own prompts have the same texts as another, a sentence an experiment.

    Args:
        tasks: the tasks of an audit.
    """
    return list(dict.fromkeys(task.repeats for task in tasks if task.repeats))
