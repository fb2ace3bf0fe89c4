"""The scorers of an audit: each model loaded once, within limits, and no code or service that nobody trusts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from swapbias import studies
from swapbias.errors import UsageError
from swapbias.files import as_json, file_sha256
from swapbias.models import Scorer, loading, model_names, progress
from swapbias.models.chat import KEY, AnsweringScorer, ChatOptions, gets_unnamed_key
from swapbias.models.engine import layer_choice
from swapbias.runs.judge import READINGS, answer_requests, with_judges
from swapbias.runs.scored_task import ScoredTask
from swapbias.runs.settings import Settings
from swapbias.runs.task import Task
from swapbias.runs.tone import with_classifier


def load_readers(
    settings: Settings,
    tasks: Sequence[Task],
    *,
    say: progress.Say = progress.silent,
    bar: progress.Bar = progress.no_bar,
    scorer: Scorer | None = None,
    pinned: Sequence[Mapping[str, Any]] = (),
) -> list[ScoredTask]:
    """Return each task with its scorer, each model loaded once.

    Args:
        settings: the settings of the audit.
        tasks: the tasks of the audit.
        say: shows a sentence.
        bar: begins a progress bar.
        scorer: reads the model that the settings name; None: it is loaded.
        pinned: models of a run, whose commits are loaded.

    Raises:
        UsageError: two models of one name, limits that are too low, or texts that must not be sent.
    """
    with layer_choice.as_pinned(pinned):
        return _load_readers(settings, tasks, say, bar, scorer, pinned)


def _load_readers(
    settings: Settings,
    tasks: Sequence[Task],
    say: progress.Say,
    bar: progress.Bar,
    scorer: Scorer | None,
    pinned: Sequence[Mapping[str, Any]],
) -> list[ScoredTask]:
    """Return each task with its scorer, as ``load_readers``."""
    loaded: dict[tuple[str, str], Any] = {}
    if scorer is not None:
        audited = settings.model or ""
        loaded = {(audited, task.kind.name): scorer for task in tasks if task.model == audited}
    scored_tasks: dict[tuple[str, str, str, str], ScoredTask] = {}
    request = pinned_settings(settings, pinned)
    for task in tasks:
        key = (task.model, task.kind.name)
        if key not in loaded:
            _announce_model(task, settings, say)
            name = model_names.as_pinned(task.model, pinned)
            loaded[key] = task.kind.load(name, request, say=say, bar=bar)
        training = task.notes.training if task.notes else _no_training
        # A split is what an audit with its seed has.
        own_request = replace(request, seed=int(task.split)) if task.split else request
        reader = task.kind.read(
            loaded[key], task.experiment, own_request, corpus=task.study.name, training=training
        )
        refuse_sending(task, reader)
        identity = (task.study.name, task.experiment.name, reader.model_id, task.split)
        if identity in scored_tasks:  # they would be taken for one
            raise UsageError(f"{reader.model_id} is named twice. Name it once, or rename a file.")
        scored_tasks[identity] = ScoredTask.of(task, reader)
    readers = list(scored_tasks.values())
    check_limits(readers, settings)
    # Adapter and subfolder are of the audited model alone.
    load = replace(request.load, adapter=None, subfolder="")
    beside = replace(request, load=load)
    readers = with_classifier(readers, beside, say=say)
    return with_judges(readers, beside, say=say, bar=bar)


def _announce_model(task: Task, settings: Settings, say: progress.Say) -> None:
    """Say which model is loaded, and that code of the user's reads credentialed notes."""
    if task.credentialed and model_names.is_callable(task.model):
        say(
            f"These notes are credentialed: make sure that {task.model} sends nothing of them to a service."
        )
    say(f"Model: {model_names.planned_name(task.model, settings.load)}.")


def _no_training(phenotype: str, regime: str) -> list[Any]:
    """Return the training notes of a task that has none."""
    return []


def pinned_settings(settings: Settings, pinned: Sequence[Mapping[str, Any]]) -> Settings:
    """Return settings whose adapters and models of the Hub are at the commits of a run.

    Args:
        settings: the settings of an audit.
        pinned: models of the run; none: the settings stay.
    """
    if not pinned:
        return settings
    load = _pinned_options(settings.load, pinned)
    options = tuple(_pinned_options(options, pinned) for options in settings.options)
    return replace(settings, load=load, options=options)


def _pinned_options(options: Any, pinned: Sequence[Mapping[str, Any]]) -> Any:
    """Return the settings of a kind of model with each model at its commit."""
    places: dict[str, Any] = {}
    for setting in options.settings():
        value = getattr(options, setting.name)
        if setting.use.place and isinstance(value, tuple):
            names = [model_names.as_pinned(name, pinned) for name in value]
            places[setting.name] = tuple(names)
        elif setting.use.place and value:
            places[setting.name] = model_names.as_pinned(value, pinned)
    return replace(options, **places)


def check_limits(scored_tasks: Sequence[ScoredTask], settings: Settings) -> None:
    """Refuse what costs more than the user allows.

    Args:
        scored_tasks: the scored tasks of the audit.
        settings: settings with the limits.

    Raises:
        UsageError: not even one trial, or with a judge not all of them, is within the limits.
    """
    readers = {scored_task.reader.model_id: scored_task.reader for scored_task in scored_tasks}
    for model_id, reader in readers.items():
        tasks = [
            scored_task.task
            for scored_task in scored_tasks
            if scored_task.reader.model_id == model_id
        ]
        _check_one_trial(reader, tasks)
    _check_requests_of_judges([scored_task.task for scored_task in scored_tasks], settings)


def _check_one_trial(reader: Scorer, tasks: Sequence[Task]) -> None:
    """Refuse, with a UsageError, prompts that cannot be scored even once."""
    rows = [row for task in tasks for row in task.rows if row.get("trial", "1") == "1"]
    prompts = studies.as_prompts(rows)
    limit = reader.beyond_limits(prompts)
    if not limit:
        return
    reason = f"{reader.model_id} cannot score every prompt once: {limit}"
    if isinstance(reader, AnsweringScorer):
        count = len(reader.requests(prompts))
        reason = f"One trial of each prompt takes {count:,} requests, and {limit}"
    raise UsageError(f"{reason}. Raise it, or take fewer prompts (--limit).")


def _check_requests_of_judges(tasks: Sequence[Task], settings: Settings) -> None:
    """Refuse, with a UsageError, more requests than are allowed where judges of a service read answers."""
    chat = settings.of(ChatOptions)
    count = sum(not judge.local for judge in chat.of_judges())
    if not count or chat.max_requests is None:
        return
    judged = [task for task in tasks if task.experiment.reads.rubric is not None]
    needed = len(answer_requests(tasks)) + count * READINGS * len(answer_requests(judged))
    if judged and needed > chat.max_requests:
        name = "judge" if count == 1 else f"{count} judges"
        raise UsageError(
            f"With the {name} up to {needed:,} requests are needed, and -M max-requests allows "
            f"{chat.max_requests:,}. Raise it, or take fewer prompts (--limit) or --trials."
        )


def identities(scored_tasks: Sequence[ScoredTask]) -> list[dict[str, Any]]:
    """Return what pins the models down, each once.

    Args:
        scored_tasks: the scored tasks of an audit.

    Returns:
        Entries of a manifest: ``model_id`` and the identity of the scorer.
    """
    readers: dict[str, Scorer] = {}
    for scored_task in scored_tasks:
        readers.setdefault(scored_task.reader.model_id, scored_task.reader)
    return [as_json({"model_id": name, **reader.identity}) for name, reader in readers.items()]


def check_code(run: str, settings: Settings, pinned: Any, *, trust: bool) -> None:
    """Refuse code that a manifest names and nobody trusts, or that is not the code of the run.

    Args:
        run: its name, for sentences.
        settings: the settings of its manifest.
        pinned: models of its manifest, with the sha256 of their code.
        trust: whether the user trusts the code.

    Raises:
        UsageError: code that is not trusted, or of another sha256.
    """
    if settings.load.trust_remote_code and not trust:
        raise UsageError(
            f"{run} runs code of {settings.model}. Repeat with --trust if you have read it."
        )
    identities_text = json.dumps(pinned) if pinned else ""  # it has each sha256, however deep
    for model in filter(model_names.is_callable, settings.places()):
        source = loading.module_file(model.partition(":")[0])
        if identities_text and source and file_sha256(source) not in identities_text:
            raise UsageError(f"{run} was begun with another version of {model}. Start a new run.")
        if not trust:
            raise UsageError(
                f"{run} names {model}, code that would run. Repeat with --trust if you trust it."
            )


def check_keys(run: str, settings: Settings) -> None:
    """Refuse to give a key to a service that a file names, which may be anybody's, by that alone.

    Args:
        run: its name, for the sentence.
        settings: the settings of its manifest.

    Raises:
        UsageError: the service would get a key.
    """
    chat = settings.of(ChatOptions)
    if gets_unnamed_key(chat):
        raise UsageError(
            f"{run} names {chat.host}, which would get the key in {KEY}. Repeat with --trust, or unset it."
        )


def refuse_sending(task: Task, reader: Scorer) -> None:
    """Stop before credentialed notes would leave this machine.

    Args:
        task: the task that may read credentialed notes.
        reader: the reader that may send texts to a service.

    Raises:
        UsageError: it would send them.
    """
    if task.credentialed and reader.sends_text:
        raise UsageError(
            f"{reader.model_id} sends texts to a service, and these notes are credentialed: they must not leave this "
            "machine, unless -M own-address=ADDRESS declares it."
        )
