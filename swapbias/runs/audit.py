"""Audits: prompts -> scores -> findings -> report, of one model or several. The same call again goes on."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from swapbias import __version__, findings
from swapbias.errors import UsageError, listed
from swapbias.files import TEMPORARY
from swapbias.models import Scorer, progress
from swapbias.models.chat import ChatOptions
from swapbias.models.engine import layer_choice
from swapbias.privacy import credentialed, public_manifest, writing
from swapbias.runs import manifest_entries, plan
from swapbias.runs.cache import ScoreCache
from swapbias.runs.conclusion import conclude
from swapbias.runs.kept_studies import STUDIES
from swapbias.runs.positive_control import ask_controls
from swapbias.runs.remote_store import Store
from swapbias.runs.results import read_run
from swapbias.runs.run import MANIFEST, REPORT, SCORES, Run
from swapbias.runs.scored_task import ScoredTask
from swapbias.runs.scorers import check_code, check_keys, identities, load_readers
from swapbias.runs.scoring import Scoring, score_part
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.swapping import LOCAL, Engine, cluster

if TYPE_CHECKING:
    from swapbias.findings import Finding


def start(
    settings: Settings,
    folder: Path,
    *,
    say: progress.Say,
    bar: progress.Bar,
    cache: bool = False,
    expected: Mapping[str, Any] | None = None,
    scorer: Scorer | None = None,
    draw: bool = True,
    engine: Engine = LOCAL,
    store: Store | None = None,
) -> "tuple[Run, list[Finding]]":
    """Run an audit in a new or empty folder, or resume the one of the same settings that was begun there.

    What was scored is not scored again, and of a complete run no model is loaded.

    Args:
        settings: the settings of the audit.
        folder: the folder of the run.
        say: shows a sentence.
        bar: begins a progress bar.
        cache: share scores with other audits of this user.
        expected: manifest of a run that is repeated, with the same prompts and models.
        scorer: reads the model that the settings name.
        draw: write the report too.
        engine: machines that score.
        store: where the caller copies the folder to.

    Returns:
        The run and its findings.

    Raises:
        UsageError: settings, models and folder do not fit together; what was scored is saved.
        ValueError: a model or table is broken.
        OSError: a file cannot be read or written.
    """
    _check_engine(engine, scorer)
    run = Run(folder, store.url if store else "")
    begun = _begun_manifest(run, settings)
    kind = scorer.kind if scorer else plan.kind_of_manifest(begun or {}, settings)
    tasks, skipped = plan.plan_tasks(settings, kind=kind)
    planned = manifest_entries.plan_manifest(settings, tasks, skipped)
    _check_store(store, planned, chat=any(task.kind.name == "chat" for task in tasks))
    if begun:
        _check_versions(run, begun, planned)
        if _is_complete(begun) and scorer is None:
            return run, answered(run, read_run(folder).found)
        _check_in_memory(run, begun, scorer, say)
    else:
        _check_new(run, planned, expected)
    pinned = (begun or expected or {}).get("models")
    # The models are loaded before anything is written.
    scored_tasks = load_readers(
        settings, tasks, say=say, bar=bar, scorer=scorer, pinned=pinned or ()
    )
    models = identities(scored_tasks)
    _check_models(run, models, pinned, strictly=begun is not None)
    if _is_complete(begun):
        return run, answered(run, read_run(folder).found)
    manifest = begun or _new_manifest(planned, models, in_memory=scorer is not None)
    then = f"Wait until it ends, or stop it and continue with swapbias audit --resume {run.place}."
    with writing(folder, credentialed=planned["credentialed"], then=then):
        if not begun:
            _say_notes(tasks, say)
            Run.create(folder, manifest, run.address)
        _remove_temporary_files(folder)
        all_findings = _score(
            run, settings, scored_tasks, say=say, bar=bar, cache=cache, engine=engine, draw=draw
        )
    return run, answered(run, all_findings)


def _check_engine(engine: Engine, scorer: Scorer | None) -> None:
    """Refuse, with a UsageError, an engine that does not fit, and workers for a model in memory."""
    engine.check()
    if scorer is not None and not engine.local:
        raise UsageError(
            f"{scorer.model_id} is in memory, where workers cannot read it. Name its folder instead."
        )


def _is_complete(begun: Mapping[str, Any] | None) -> bool:
    """Return whether a manifest is there, and says that its run is complete."""
    return begun is not None and begun["status"] == "complete"


def _say_notes(tasks: Sequence[Task], say: progress.Say) -> None:
    """Say which experiments read a part of their prompts, and which prompts are repeated."""
    partial_note = manifest_entries.partial_note(tasks)
    if partial_note:
        say(partial_note)
    for note in manifest_entries.repeat_notes(tasks):
        say(note)


def _begun_manifest(run: Run, settings: Settings) -> dict[str, Any] | None:
    """Return the manifest of the run of these settings that was begun in a folder; None in a new one."""
    if not (run.folder / MANIFEST).is_file():
        return None
    begun = run.manifest()
    if begun["credentialed"]:  # it may have been opened since; not every way from here writes
        credentialed.mark(run.folder)
    _check_settings(run, begun, settings)
    return begun


def _check_models(
    run: Run, models: Sequence[Mapping[str, Any]], pinned: Any, *, strictly: bool
) -> None:
    """Refuse, with a UsageError, other models than those of the run that is resumed or repeated."""
    if pinned is not None and not _are_same(models, pinned, strictly=strictly):
        raise UsageError(
            f"{run.place} needs another version of the model than there is now. Start a new run."
        )


def _remove_temporary_files(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.rglob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def _check_versions(run: Run, begun: Mapping[str, Any], planned: Mapping[str, Any]) -> None:
    """Refuse, with a UsageError, to go on with another swapbias or other prompts."""
    if (begun["swapbias"], begun["corpora"]) != (__version__, planned["corpora"]):
        raise UsageError(
            f"{run.place} was begun with another swapbias or other prompts. Choose another --out."
        )


def _check_in_memory(
    run: Run, begun: Mapping[str, Any], scorer: Scorer | None, say: progress.Say
) -> None:
    """Refuse, with a UsageError, to go on with another model in memory; say where nothing shows which it is."""
    if bool(begun.get("in_memory")) != (scorer is not None):
        raise UsageError(f"{run.place} was begun with another model. Choose another --out.")
    if scorer and not any(name.endswith("sha256") for name in scorer.identity):
        say(
            f"Nothing shows whether {scorer.model_id} is the model that began {run.place}. Check it yourself."
        )


def _check_new(run: Run, planned: Mapping[str, Any], expected: Mapping[str, Any] | None) -> None:
    """Refuse, with a UsageError, a folder that is not empty, and other prompts than those of a run to repeat."""
    Run.check_new(run.folder, run.address)
    if expected is not None and expected["corpora"] != planned["corpora"]:
        raise UsageError(
            "The prompts or word lists are not those of the run that is to be repeated. Run a new audit."
        )


def _new_manifest(
    planned: Mapping[str, Any], models: Sequence[Mapping[str, Any]], *, in_memory: bool
) -> dict[str, Any]:
    """Return the manifest of a new run with its models."""
    manifest = {**planned, "models": models}
    if in_memory:
        manifest["in_memory"] = True
    return manifest


def answered(run: Run, all_findings: "list[Finding]") -> "list[Finding]":
    """Return the findings of a run that answers a question.

    Args:
        run: the run, for the sentence.
        all_findings: every finding of the run.

    Raises:
        UsageError: no finding answers one, as where no row of a group that is compared was scored.
    """
    if findings.primary_findings(all_findings):
        return all_findings
    names = dict.fromkeys(f"{finding.study} {finding.experiment}" for finding in all_findings)
    reason = "no prompt was compared"
    if names:
        reason = f"findings of {listed(names)} compare no groups"
    raise UsageError(
        f"No question was answered: {reason}. What was scored is in {run.place}; look at its items, and name "
        "other prompts."
    )


def resume(
    folder: Path,
    *,
    trust: bool = False,
    api_key_env: str | None = None,
    store: Store | None = None,
    **options: Any,
) -> "tuple[Run, list[Finding]]":
    """Go on with the run that was begun in a folder, with the settings of its manifest.

    Args:
        folder: the folder of the run.
        trust: import the function that the manifest names.
        api_key_env: variable with the key of a service.
        store: where the caller copies the folder to.
        options: further arguments of ``start``.

    Raises:
        UsageError: there is no run, code that is not trusted would run, or as ``start`` raises.
    """
    run = Run.open(folder, store.url if store else "")
    manifest = run.manifest()
    settings = Settings.from_manifest(manifest["settings"], api_key_env)
    if manifest["status"] != "complete":
        if manifest.get("in_memory"):
            raise UsageError(
                f"{run.place} was begun in Python with a model in memory. Call swapbias.audit with the same model "
                f"and out={str(run.place)!r}."
            )
        check_code(str(run.place), settings, manifest.get("models"), trust=trust)
        if not trust:
            check_keys(str(run.place), settings)
    return start(settings, folder, store=store, **options)


def _are_same(models: Sequence[Any], pinned: Any, *, strictly: bool) -> bool:
    """Return whether models are those of a manifest; of a run that is repeated, as others may see them."""
    if strictly or models == pinned:
        return bool(models == pinned)
    return _as_others_see(models) == _as_others_see(pinned)


def _as_others_see(models: Any) -> list[dict[str, Any]]:
    """Return models without places of this machine, its device, and what multiplies their layers on it."""
    manifest = public_manifest({"settings": {}, "models": models})
    return [{**layer_choice.without_layers(model), "device": ""} for model in manifest["models"]]


def _check_settings(run: Run, begun: Mapping[str, Any], settings: Settings) -> None:
    """Refuse, with a UsageError, to go on with other settings."""
    before = Settings.from_manifest(begun["settings"]).saved()
    for name, value in settings.saved().items():
        if before[name] != value:
            raise UsageError(
                f"{run.place} was begun with {name} {before[name]!r}, now {value!r}. Change --out."
            )


def _check_store(store: Store | None, planned: Mapping[str, Any], *, chat: bool) -> None:
    """Refuse, with a UsageError, a store that cannot hold the run or must not."""
    if store and chat:
        raise UsageError(
            f"Answers are saved line by line, which {store.url} cannot do. Choose an --out on this machine."
        )
    if store and planned["credentialed"] and not store.own:
        raise UsageError(
            f"These notes are credentialed, and {store.url} was not declared as a place for them. Choose a local "
            "--out, or add -M own-store where only you can read that place."
        )


def _score(
    run: Run,
    settings: Settings,
    scored_tasks: Sequence[ScoredTask],
    *,
    say: progress.Say,
    bar: progress.Bar,
    cache: bool,
    engine: Engine,
    draw: bool,
) -> "list[Finding]":
    """Score what a run lacks, and conclude it."""
    manifest = run.manifest()
    if manifest["credentialed"]:
        _say_credentialed(run, engine, say)
    scores = ScoreCache(settings.load, run.folder / SCORES, shared=cache)
    tasks = dict(enumerate(_keeping_answers(scored_tasks, run.folder)))
    scoring = Scoring(run, manifest, tasks, say, bar, scores)
    try:
        with cluster.worker_pool(
            engine,
            part_scorer,
            {"manifest": manifest, "studies": _own_study_files(run)},
            begin_here=lambda: partial(score_part, scoring.tasks),
            credentialed=manifest["credentialed"],
            advance=scoring.advance,
        ) as pool:
            scoring.score(pool)
        ask_controls(scoring, settings)
    finally:  # a run that is stopped says it too
        if cache:
            scores.trim()
            manifest["from_cache"] = manifest.get("from_cache", 0) + scores.rows_reused
            run.write_manifest(manifest)
    all_findings = conclude(scoring, settings, draw=draw)
    if scoring.stop_error:
        say(f"The report has the whole trials: {run.place}/{REPORT}.")
        raise scoring.stop_error
    return all_findings


def _say_credentialed(run: Run, engine: Engine, say: progress.Say) -> None:
    """Say where credentialed notes must stay."""
    if run.address:
        say(
            f"These notes are credentialed: {run.place} must be yours alone, and must not be published or shared."
        )
    else:
        say(
            f"These notes are credentialed: {run.place} must not be published, shared or sent anywhere."
        )
    if engine.address:
        say(f"The machines of the cluster at {engine.address} read them: they must be yours.")


def _keeping_answers(scored_tasks: Sequence[ScoredTask], folder: Path) -> list[ScoredTask]:
    """Return the tasks with readers that save their answers in the run; of credentialed notes without texts."""
    keeping = []
    for scored_task in scored_tasks:
        with_text = not scored_task.task.credentialed
        reader = scored_task.reader.keeping_answers(folder, text=with_text)
        keeping.append(scored_task.read_by(reader))
    return keeping


def _own_study_files(run: Run) -> dict[str, bytes]:
    """Return the files of the user's own studies, by their paths within the run."""
    paths = [path for path in (run.folder / STUDIES).rglob("*") if path.is_file()]
    return {path.relative_to(run.folder).as_posix(): path.read_bytes() for path in paths}


def part_scorer(spec: Mapping[str, Any]) -> cluster.Work:
    """Plan a run again and load its models, as a worker of a cluster.

    Args:
        spec: manifest of the run, and files of the user's own studies.

    Returns:
        What scores a part.

    Raises:
        UsageError: other prompts or models are on this machine.
    """
    machine = platform.node()
    manifest = spec["manifest"]
    with TemporaryDirectory(prefix="swapbias-") as folder:
        run = Run(Path(folder))
        run.write_manifest(manifest)
        for name, content in spec["studies"].items():
            run.write(name, content)
        run.open_studies()
    settings = Settings.from_manifest(manifest["settings"])
    tasks, _ = plan.plan_tasks(settings, kind=plan.kind_of_manifest(manifest, settings))
    if manifest_entries.fingerprints(tasks, settings) != manifest["corpora"]:
        raise UsageError(
            f"The worker on {machine} has other prompts or word lists. Install the same everywhere."
        )
    # Requests to chat models are made by the process that began the run.
    options = [options for options in settings.options if not isinstance(options, ChatOptions)]
    settings = replace(settings, options=tuple(options))
    indices = [index for index, task in enumerate(tasks) if task.kind.name != "chat"]
    scored_tasks = load_readers(
        settings, [tasks[index] for index in indices], pinned=manifest["models"]
    )
    pinned = [{**model, "device": ""} for model in manifest["models"]]
    if not all({**model, "device": ""} in pinned for model in identities(scored_tasks)):
        raise UsageError(
            f"The worker on {machine} has another version of the model. Put the same one everywhere."
        )
    return partial(score_part, dict(zip(indices, scored_tasks, strict=True)))
