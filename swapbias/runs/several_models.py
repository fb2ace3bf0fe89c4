"""Audits of several models, one after the other, and their comparison."""

import errno
import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, listed, log_traceback, safe_message
from swapbias.files import is_left_over
from swapbias.models import model_names, progress
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import is_credentialed, writing
from swapbias.report import ComparisonPage
from swapbias.runs import run_folders
from swapbias.runs.audit import start
from swapbias.runs.compare import compare_runs, write_comparison
from swapbias.runs.results import read_run
from swapbias.runs.run import MANIFEST, Run
from swapbias.runs.settings import Settings

COMPARISON = "comparison"
"""Folder of the comparison of several models, beside their runs."""


@dataclass(frozen=True, slots=True)
class Several:
    """An audit of several models."""

    folder: Path
    """Folder that holds a run for each model."""
    runs: Mapping[str, Run]
    """Run of each model that was audited."""
    failed: Mapping[str, str]
    """Sentence on each model that was not."""
    compared: ComparisonPage | None = None
    """Comparison of the models; None for fewer than two."""


def audit_several(
    models: Iterable[str],
    settings: Settings,
    folder: Path,
    *,
    say: progress.Say,
    bar: progress.Bar,
    **options: Any,
) -> Several:
    """Audit each model into a run of its own below the folder, and compare them there; the same call resumes.

    A model that cannot be audited is named and does not stop the others.

    Args:
        models: their names.
        settings: the settings of each audit, except the model.
        folder: the folder of the runs.
        say: shows a sentence.
        bar: begins a progress bar.
        options: ``cache`` and ``engine`` of ``start``.

    Raises:
        UsageError: fewer than two different models, or a folder that holds something else.
        OSError: a folder that cannot be written.
    """
    names = list(models)
    if len(set(names)) < max(2, len(names)):
        raise UsageError(
            f"Models {listed(names)}: expected two or more, each once. Name others, or drop some."
        )
    folders = _run_folders(names, settings, folder)
    _check_folder(folder, folders)
    data = settings.of(NoteOptions).data
    credentialed = is_credentialed(folder) or (data is not None and is_credentialed(Path(data)))
    failed: dict[str, str] = {}
    then = "Wait until it ends, or stop it. Run the same command again to resume."
    with writing(folder, credentialed, then=then):
        for number, model in enumerate(names, start=1):
            title = f"model {number:,} of {len(names):,}"
            _, revision = model_names.split_revision(model)
            at_revision = f" at {revision}" if revision else ""
            name = model_names.planned_name(model, settings.load)
            say(f"{title.capitalize()}: {name}{at_revision}.")
            titled = partial(_titled_bar, bar, title)
            try:
                start(
                    replace(settings, model=model), folders[model], say=say, bar=titled, **options
                )
            except Exception as error:  # one model may break in any way, and the others go on
                if _stops_every_audit(error):
                    raise
                log_traceback(error)
                failed[model] = _describe_failure(error)
                say(f"{model_names.short_name(model)} failed: {failed[model]}")
            gc.collect()  # models refer to themselves, and the next one needs the room
        runs = {model: Run(folders[model]) for model in names if model not in failed}
        compared = _compare(runs, folder, say) if len(runs) > 1 else None
    return Several(folder, runs, failed, compared)


def _run_folders(names: Sequence[str], settings: Settings, folder: Path) -> dict[str, Path]:
    """Return the folder of each model's run; those of one name are numbered."""
    folders: dict[str, Path] = {}
    used = {COMPARISON}
    for model in names:
        first = run_folders.folder_name(model, settings.load)
        name = first
        number = 1
        while name in used:
            number += 1
            name = f"{first}-{number}"
        used.add(name)
        folders[model] = folder / name
    return folders


def _check_folder(folder: Path, folders: Mapping[str, Path]) -> None:
    """Refuse a folder that is not new and holds no run of these models; a killed process may leave empty folders."""
    if any(folder.glob(f"*/{MANIFEST}")):
        return
    content = {folder}
    if folder.is_dir():
        content = {path for path in folder.iterdir() if not is_left_over(path)}
    if not content <= {*folders.values()}:
        Run.check_new(folder)


def _titled_bar(bar: progress.Bar, title: str, name: str, total: int) -> Any:
    """Begin a progress bar that says which model it is about."""
    return bar(f"{title}, {name}", total)


def _stops_every_audit(error: Exception) -> bool:
    """Return whether no other model would fare better: the disk is full, or cannot be written."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    return isinstance(error, OSError) and error.errno in numbers


def _describe_failure(error: Exception) -> str:
    """Return why a model could not be audited."""
    sentence = f"{type(error).__name__}. Audit it alone to see more."
    if isinstance(error, ValueError | OSError):
        sentence = safe_message(error)
    return " ".join(sentence.split())


def _compare(runs: Mapping[str, Run], folder: Path, say: progress.Say) -> ComparisonPage | None:
    """Compare the runs, and write the comparison beside them; None where they have nothing in common."""
    compared = None
    try:
        compared = compare_runs([read_run(run.folder) for run in runs.values()])
        write_comparison(folder / COMPARISON, compared)
    except UsageError as error:
        say(f"No comparison: {error}")
    return compared
