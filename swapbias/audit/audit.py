"""The main job: prompts -> scores -> findings -> figures and report, in one resumable run."""

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias import __version__
from swapbias.audit.cache import ScoreCache
from swapbias.audit.plan import Settings, Task, fingerprints, plan
from swapbias.audit.readers import Bar, Say, check_code, identities, load_readers
from swapbias.audit.run import CHUNK_ROWS, Run, chunks, now, refuse_non_finite, score_rows
from swapbias.errors import UsageError
from swapbias.files import locked
from swapbias.privacy import credentialed
from swapbias.scorers import HasLog, Scorer
from swapbias.scorers.chat import AnswerLog

if TYPE_CHECKING:
    import pandas as pd

    from swapbias.findings import Finding

ANSWERS = "answers.jsonl"  # of a chat model, each as it arrives
_VERSIONS = ("torch", "transformers", "datasets", "numpy", "scipy", "pandas", "pyarrow")


def start(
    settings: Settings, folder: Path, *, say: Say, bar: Bar, cache: bool = False
) -> "tuple[Run, list[Finding]]":
    """Run an audit into a new folder; with ``cache``, what an earlier one scored is not scored again.

    Raises:
        UsageError, ValueError, OSError: each with one sentence; nothing half is left.
    """
    tasks, skipped = plan(settings)
    Run.check_new(folder)
    kept = ScoreCache(settings.load) if cache else None
    readers = load_readers(settings, tasks, say=say, bar=bar)  # before anything is written
    manifest = {
        "swapbias": __version__,
        "status": "running",
        "started": now(),
        "versions": _versions(),
        "settings": asdict(settings),
        "corpora": fingerprints(tasks),
        "skipped": [asdict(one) for one in skipped],
        "credentialed": held(tasks),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _work(Run.create(folder, manifest), settings.seed, tasks, readers, say, bar, kept)


def resume(
    folder: Path, *, say: Say, bar: Bar, cache: bool = False, trust: bool = False, allow_pickle: bool = False
) -> "tuple[Run, list[Finding]]":
    """Go on with a run that was killed; what is on disk is not scored again.

    A manifest runs nothing by itself: ``trust`` lets it import the Python function and read the pickles that it
    names, ``allow_pickle`` the pickles alone.

    Raises:
        UsageError: the folder holds no run, another process works on it, the corpora or the model are not what
            the run began with, or code that is not trusted would run.
    """
    run = Run.open(folder)
    with locked(folder):
        return _go_on(run, say=say, bar=bar, cache=cache, trust=trust, allow_pickle=allow_pickle)


def _go_on(
    run: Run, *, say: Say, bar: Bar, cache: bool, trust: bool, allow_pickle: bool
) -> "tuple[Run, list[Finding]]":
    manifest = run.manifest()
    run.sweep()
    settings = Settings.from_manifest(manifest["settings"])
    settings = replace(settings, load=replace(settings.load, allow_pickle=trust or allow_pickle))
    check_code(str(run.folder), settings, manifest.get("models"), trust=trust)
    tasks, _ = plan(settings)
    if manifest["swapbias"] != __version__ or manifest["corpora"] != fingerprints(tasks):
        raise UsageError(
            f"{run.folder} was begun with swapbias {manifest['swapbias']} and other corpora than this one "
            f"({__version__}) has. Start a new run."
        )
    kept = ScoreCache(settings.load) if cache else None
    return _work(run, settings.seed, tasks, load_readers(settings, tasks, say=say, bar=bar), say, bar, kept)


def _work(
    run: Run,
    seed: int,
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    say: Say,
    bar: Bar,
    cache: ScoreCache | None,
) -> "tuple[Run, list[Finding]]":
    manifest = run.manifest()
    pinned = _as_saved(identities(readers))
    if manifest.setdefault("models", pinned) != pinned:
        raise UsageError(f"{run.folder} was begun with another version of the model. Start a new run.")
    run.write_manifest(manifest)
    if manifest.get("credentialed"):
        credentialed.mark(run.folder)
        say(f"These notes are credentialed: {run.folder} must not be published, shared or sent anywhere.")
    for reader in readers:
        if isinstance(reader, HasLog):
            reader.log = AnswerLog(run.folder / ANSWERS)
    try:
        items = _score_all(run, tasks, readers, bar, cache)
    finally:  # a run that is stopped says it too
        if cache is not None:
            manifest["from_cache"] = manifest.get("from_cache", 0) + cache.rows
            run.write_manifest(manifest)
    if notes := list(dict.fromkeys(note for one in readers if (note := getattr(one, "error_note", "")))):
        manifest["dtype_error"] = notes
        for note in notes:
            say(note)
    from swapbias.audit.conclusion import conclude  # statistics take long to import: the model does not wait for them

    return run, conclude(run, manifest, tasks, readers, items, seed=seed, say=say)


def _as_saved(models: list[dict[str, Any]]) -> Any:
    """As a manifest read back has it: lists for tuples, strings for keys."""
    return json.loads(json.dumps(models))


def _score_all(
    run: Run, tasks: Sequence[Task], readers: Sequence[Scorer], bar: Bar, cache: ScoreCache | None
) -> "dict[str, pd.DataFrame]":
    items = {}
    for study in dict.fromkeys(task.study.name for task in tasks):
        todo = [
            (reader, task.rows, None if task.notes else cache)  # notes are never kept: they may be private
            for task, reader in zip(tasks, readers, strict=True)
            if task.study.name == study
        ]
        advance = bar(study, sum(len(rows) for _, rows, _ in todo))

        def chunk(
            reader: Scorer, piece: Any, kept: ScoreCache | None, advance: Any = advance
        ) -> Callable[[], list[dict[str, Any]]]:
            return lambda: _without_held_text(score_rows(piece, reader, advance, cache=kept))

        work = [
            chunk(reader, piece, kept)
            for reader, rows, kept in todo
            for piece in chunks(rows, getattr(reader, "chunk_rows", CHUNK_ROWS))
        ]
        items[study] = run.score_once(study, work, advance)
        refuse_non_finite(items[study], str(run.folder))
    return items


def _without_held_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Scored rows as they are kept: the text of credentialed notes stays where it came from."""
    return [{**row, "text": ""} if row.get("credentialed") == "True" else row for row in rows]


def held(tasks: Sequence[Task]) -> bool:
    """Whether any task reads credentialed notes."""
    return any(task.notes is not None and task.notes.credentialed for task in tasks)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
