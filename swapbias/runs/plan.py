"""What an audit will do: the settings that say so, which experiments fit the model, and which prompts they read."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from swapbias import __version__, models, studies
from swapbias.errors import (
    MissingExtraError,
    StudyError,
    UpstreamMissingError,
    UsageError,
    contributed_fault,
    first_line,
    library_versions,
    listed,
    unknown_name,
)
from swapbias.models import Kind, LoadOptions, RowSource, auto, kind_of, kinds, model_names
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.notes import Notes, load_notes
from swapbias.privacy import manifest_schema
from swapbias.runs.settings import Settings
from swapbias.runs.task import Skipped, Task
from swapbias.runs.task_rows import distinct, expanded, unreadable, with_notes, with_prompts
from swapbias.studies import Experiment, Study, catalogue, load_study, own_studies, tables

_ALL = "all experiments"  # of a study whose file cannot be read, so that nothing names them
_VERSIONS = (
    "torch",
    "transformers",
    "datasets",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
)  # that a manifest has


LoadNotes = Callable[..., Notes]  # corpus, whether classifiers are trained, whether labels are read


def plan_tasks(settings: Settings, *, kind: str | None = None) -> tuple[list[Task], list[Skipped]]:
    """Which experiments run on which model and rows, and which do not fit; ``kind`` is that of the model, if known.

    An experiment whose prompts or libraries are not here is skipped, unless no other is left. UsageError: an unknown
    name, or a model that fits nothing. ValueError: no such model, a broken or missing table.
    """
    if settings.kind and settings.model is None:
        raise UsageError(
            f"--kind {settings.kind} says what kind a model is, and no model is named. Name one."
        )
    settings.of(ChatOptions).check()
    _refuse_unread_weights(settings)
    requested = _requested(settings)
    wanted = [
        study for requested_kind in requested for study in _studies_wanted(requested_kind, settings)
    ]
    usual = [study.name for study in catalogue.outlines() if not study.on_request]
    chosen, skipped = _chosen(settings.studies, [*dict.fromkeys(wanted)] or usual)
    if kind is None and settings.model is not None:
        kind = models.model_kind(settings.model, settings.kind, load=settings.load)
    planning = _Planning(settings, kind, wanted, skipped)
    for study, config in chosen:
        for experiment in study.experiments:
            if planning.is_wanted(study, experiment, config):
                planning.add(study, experiment, config)
    if not planning.tasks and planning.missing:
        raise planning.missing[0]
    if not planning.tasks:
        _refuse_model(skipped, kind, usual)
    _refuse_unread_settings(requested, planning.tasks)
    return planning.tasks, skipped


def _requested(settings: Settings) -> list[Kind]:
    """The kinds of models whose settings are not the usual ones."""
    requested = [
        kind for kind in kinds() if kind.options and settings.of(kind.options) != kind.options()
    ]
    notes = settings.of(NoteOptions)
    names_reader = notes.embeddings or notes.not_usual("classifier")
    if settings.of(ChatOptions).model and not names_reader:  # the chat model reads the notes
        return [kind for kind in requested if kind.options is not NoteOptions]
    return requested


class _Planning:
    """The tasks of an audit as they are found.

    Attributes:
        tasks: experiments on models.
        skipped: experiments that do not run, with why.
        missing: errors of experiments whose prompts or libraries are not here.
    """

    def __init__(
        self, settings: Settings, kind: str | None, wanted: Sequence[str], skipped: list[Skipped]
    ) -> None:
        self.settings = settings
        self.kind = kind
        self.wanted = wanted  # studies that settings of a kind ask for
        self.tasks: list[Task] = []
        self.skipped = skipped
        self.missing: list[ValueError] = []
        self.notes: LoadNotes = cache(partial(load_notes, settings.of(NoteOptions), settings.seed))

    def is_wanted(self, study: Study, experiment: Experiment, config: str) -> bool:
        """Whether an experiment of a chosen study is among those that are asked for."""
        names = (
            _configs_of_experiment(experiment)
            if config in _configs_of(study)
            else (experiment.name,)
        )
        if config and config not in names:
            return False
        # A chat model is named, and nobody named the model that is read where none is.
        names_nothing = not self.settings.studies and self.settings.model is None
        return not (self.wanted and names_nothing and kind_of(experiment.kind).default)

    def add(self, study: Study, experiment: Experiment, config: str) -> None:
        """Add an experiment on each model that fits, or why it does not run."""
        if any((task.study, task.experiment) == (study, experiment) for task in self.tasks):
            raise UsageError(
                f"{study.name} {experiment.name} is named twice. Name it once, with one config."
            )
        slow = experiment.on_request and not self.settings.studies and study.name not in self.wanted
        fits = list(kind_of(experiment.kind).fits(experiment, self.settings, self.kind))
        if slow and self.settings.model is None and not all(why for _, why in fits):
            why = f"it takes many times as long as the others; run it with --study {study.name}"
            self.skipped.append(Skipped(study.name, experiment.name, why))
            return
        configs = (
            (config,) if config in _configs_of_experiment(experiment) else experiment.reads.configs
        )
        try:
            tasks, reasons = _tasks(
                Task(study, experiment, configs), fits, self.settings, self.notes, slow=slow
            )
        except (UpstreamMissingError, MissingExtraError) as error:
            self.missing.append(error)
            self.skipped.append(Skipped(study.name, experiment.name, first_line(error)))
            return
        except Exception as error:
            is_of_study = isinstance(error, StudyError) or bool(contributed_fault(error))
            if self.settings.studies or not is_of_study:
                raise
            self.skipped.append(Skipped(study.name, experiment.name, _study_fault(error)))
            return
        self.tasks += tasks
        self.skipped += [Skipped(study.name, name, reason) for name, reason in reasons]


def _refuse_model(skipped: Sequence[Skipped], kind: str | None, usual: Sequence[str]) -> NoReturn:
    """Raise a UsageError that says why no experiment fits, and names a usual study that a model of the kind reads."""
    reasons = [f" {one.study} {one.experiment}: {one.reason}." for one in skipped]
    fitting = [
        name
        for name in usual
        if any(one.kind == kind for one in catalogue.outline(name).experiments)
    ]
    hint = f" {fitting[0]} fits." if fitting else ""
    raise UsageError(
        f"No experiment fits.{''.join(reasons)} Choose another model or --study.{hint}"
    )


def _refuse_unread_settings(requested: Sequence[Kind], tasks: Sequence[Task]) -> None:
    """Refuse settings of a kind of model, with a UsageError, where no task reads a model of that kind."""
    for kind in requested:
        if not any(task.kind is kind for task in tasks):
            names = listed(_studies_of(kind), "no study")
            raise UsageError(
                f"Settings of {kind.name} models are read by {names}. Name it as well."
            )


def _refuse_unread_weights(settings: Settings) -> None:
    """Refuse settings of weights, with a UsageError, where only a model behind a service is read."""
    chat = settings.of(ChatOptions)
    notes = settings.of(NoteOptions)
    if settings.model is None and chat.model and not chat.local and notes == NoteOptions():
        settings.load.refuse_weights_settings(chat.model)


def _studies_wanted(kind: Kind, settings: Settings) -> list[str]:
    """The studies that settings of a kind ask for: those about notes where notes are named, the others else."""
    names = _studies_of(kind)
    with_notes = settings.of(NoteOptions).data is not None
    outlines = {name: catalogue.outline(name) for name in names}
    experiments = {
        name: [one for one in outlines[name].experiments if one.kind == kind.name] for name in names
    }
    about_notes = {
        name: any(kind.rows(one) != RowSource.PROMPTS for one in found)
        for name, found in experiments.items()
    }
    return [name for name in names if about_notes[name] == with_notes] or names


def _studies_of(kind: Kind) -> list[str]:
    outlines = catalogue.outlines()
    return [
        study.name for study in outlines if any(one.kind == kind.name for one in study.experiments)
    ]


def _chosen(
    named: Sequence[str], usual: Sequence[str]
) -> tuple[list[tuple[Study, str]], list[Skipped]]:
    """The studies that are named, else the usual ones, each with its config; and those that do not load.

    One that nobody named does not stop the others.
    """
    chosen = list[tuple[Study, str]]()
    skipped = list[Skipped]()
    if not named:
        skipped += [
            Skipped(name, _ALL, sentence)
            for name, sentence in catalogue.unreadable_studies().items()
        ]
    for name in named or usual:
        try:
            study, config = _study_and_config(name)
            if study.name not in own_studies():
                models.check_readings(study)
                catalogue.check_notes(study)
            chosen.append((study, config))
        except Exception as error:
            sentence = _study_fault(error)
            if named or not sentence:
                raise
            names = (one.name for one in catalogue.outline(name).experiments)
            skipped += [Skipped(name, experiment, sentence) for experiment in names]
    return chosen, skipped


def _study_fault(error: Exception) -> str:
    """What an error says of the study that it is about; blank where it is a bug of something else."""
    return contributed_fault(error) or (first_line(error) if isinstance(error, ValueError) else "")


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = list(dict.fromkeys([*_configs_of(study), *(one.name for one in study.experiments)]))
    if config and config not in known:
        raise unknown_name("config", config, known)
    return study, config


def _configs_of(study: Study) -> list[str]:
    return [
        config for experiment in study.experiments for config in _configs_of_experiment(experiment)
    ]


def _configs_of_experiment(experiment: Experiment) -> tuple[str, ...]:
    """The configs whose rows an experiment can read."""
    return (*experiment.reads.configs, *experiment.reads.alternatives)


def _tasks(
    empty: Task,
    fits: Sequence[tuple[str, str]],
    settings: Settings,
    notes: LoadNotes,
    *,
    slow: bool,
) -> tuple[list[Task], list[tuple[str, str]]]:
    """An experiment on each model that fits, and names of its parts with why they are skipped."""
    tasks: list[Task] = []
    reasons: list[tuple[str, str]] = []
    experiment = empty.experiment
    rows_of = empty.kind.rows(empty.experiment)
    trains = empty.kind.options is NoteOptions and settings.of(NoteOptions).trains
    for model, why in fits:
        if why:
            reasons.append((experiment.name, why))
            continue
        empty.kind.check_installed(model, experiment, settings)
        task = replace(empty, model=model)
        if rows_of == RowSource.PROMPTS:
            task = with_prompts(task, settings, slow=slow)
        else:
            read = notes(
                experiment.reads.notes.corpus, trains=trains, labelled=bool(experiment.shows.rates)
            )
            task = with_notes(task, settings, read, trains)
        task = expanded(task, settings)
        if reason := unreadable(task, trains):
            reasons.append((experiment.name, reason))
        else:
            tasks.append(distinct(task))
        if task.notes and experiment.reads.notes.regimes and trains:
            untrained = (
                (f"{experiment.name}, {one}", reason)
                for one, reason in task.notes.untrainable().items()
            )
            reasons += [one for one in untrained if one not in reasons]
    if tasks and tasks[0].notes:
        remarks = tasks[0].notes.remarks()
        if tasks[0].factless:
            remarks.append(
                f"notes left out because they state no fact of the checklist: {tasks[0].factless}"
            )
        reasons += [(f"{manifest_schema.PART_OF}{experiment.name}", one) for one in remarks]
    return tasks, reasons


def default_folder(settings: Settings) -> Path:
    """``swapbias-runs/<model>-<time>``, with a number of those that began in one second; also of a chat model."""
    chat = next(filter(None, (getattr(one, "model", None) for one in settings.options)), None)
    model = settings.model or chat
    name = folder_name(model, settings.load) if model else "default"
    folder = Path("swapbias-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    every = (
        folder.with_name(f"{folder.name}-{number}") if number > 1 else folder for number in count(1)
    )
    return next(one for one in every if not one.exists())


def folder_name(model: str, load: LoadOptions) -> str:
    """What the folder of a run is called after its model: by its revision, its adapter and its quantization too."""
    _, revision = model_names.split_revision(model)
    name = model_names.planned_name(model, load)
    return re.sub(r"-{2,}", "-", file_name(f"{name} {revision}")).strip("-.") or "model"


def file_name(text: str) -> str:
    """A text as the name of a file or folder on every system."""
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in text)


def reads_installed(manifest: Mapping[str, Any]) -> bool:
    """Whether the prompts of a run are those of the corpora as they are installed, by their fingerprints."""
    settings = Settings.from_manifest(manifest["settings"])
    tasks, _ = plan_tasks(settings, kind=kind_of_manifest(manifest, settings))
    return fingerprints(tasks) == list(manifest["corpora"])


def kind_of_manifest(manifest: Mapping[str, Any], settings: Settings) -> str | None:
    """The kind of the model that a run read; None where no model is named: each experiment has a default then."""
    read = [str(one.get("kind")) for one in manifest.get("models", ())]
    return (
        next((one for one in read if one in auto.model_kinds()), None) if settings.model else None
    )


def plan_manifest(
    settings: Settings, tasks: Sequence[Task], skipped: Sequence[Skipped]
) -> dict[str, Any]:
    """What the manifest of a new run says of its plan."""
    repeats = repeat_notes(tasks)
    own = [
        studies.load_corpus(task.study.name) for task in tasks if task.study.name in own_studies()
    ]
    return {
        "swapbias": __version__,
        "status": "running",
        "started": now(),
        "versions": {"python": platform.python_version(), **library_versions(_VERSIONS)},
        "settings": settings.saved(),
        "corpora": fingerprints(tasks),
        "skipped": [asdict(one) for one in skipped],
        "credentialed": any(task.credentialed for task in tasks),
        **({"repeats": repeats} if repeats else {}),
        **({"own_studies": {one.name: one.origin or "local" for one in own}} if own else {}),
    }


def now() -> str:
    """The time of day as manifests have it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def fingerprints(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """What was read: corpus, configs, row count, sha256 of the rows and of the word lists of each task."""
    return [
        {
            "corpus": task.experiment.reads.notes.corpus or task.study.name,
            "config": ", ".join(task.configs),
            "rows": task.n_prompts,
            **({"of": task.n_available} if task.n_available else {}),
            "sha256": tables.fingerprint(task.rows[: task.n_prompts]),
            **(
                {"beside": tables.fingerprint(beside)}
                if (beside := task.rows[task.n_prompts :])
                else {}
            ),
            "lexicons": {
                name: tables.fingerprint(
                    {"word": word, "label": label}
                    for word, label in studies.load_lexicon(name).entries()
                )
                for name in task.lexicons
            },
            **({"training": tables.fingerprint(task.notes.rows)} if task.notes else {}),
        }
        for task in tasks
    ]


def partial_note(tasks: Sequence[Task]) -> str:
    """Which experiments read a part of their prompts, and how all are read, in one sentence; blank for none."""
    parts = [task for task in tasks if task.n_available]
    counts = (f"{one.name} ({one.n_prompts:,} of {one.n_available:,})" for one in parts)
    named = " ".join(f"--study {name}" for name in dict.fromkeys(one.study.name for one in parts))
    said = f"Slow experiments read a part of their prompts: {', '.join(counts)}. Read all with {named}."
    return said if parts else ""


def repeat_notes(tasks: Sequence[Task]) -> list[str]:
    """Of prompts of the user's own how many pairs are of the same texts as another, a sentence an experiment."""
    return list(dict.fromkeys(one.repeats for one in tasks if one.repeats))
