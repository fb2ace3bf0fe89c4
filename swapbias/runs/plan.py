"""The plan of an audit: which experiments fit the model, and which prompts they read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NoReturn

from swapbias import models
from swapbias.errors import (
    MissingExtraError,
    StudyError,
    UpstreamMissingError,
    UsageError,
    contributed_fault,
    first_line,
    listed,
    unknown_name,
)
from swapbias.models import Kind, RowSource, auto, kind_of, kinds
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.notes import Notes, load
from swapbias.privacy import manifest_redaction
from swapbias.runs import prompt_data, unread_settings
from swapbias.runs.demonstration import demonstration_tasks, is_demonstration, without_missing
from swapbias.runs.manifest_entries import fingerprints
from swapbias.runs.settings import Settings
from swapbias.runs.task import Skipped, Task
from swapbias.runs.task_rows import distinct, expanded, unreadable, with_notes, with_prompts
from swapbias.studies import Experiment, Study, catalogue, load_study, own_studies

_ALL = "all experiments"  # of a study whose file cannot be read, so that nothing names them


LoadNotes = Callable[..., tuple[Notes, ...]]
"""Reads the splits of a corpus's notes; knows whether classifiers are trained, and whether labels are read."""


def plan_tasks(settings: Settings, *, kind: str | None = None) -> tuple[list[Task], list[Skipped]]:
    """Return the experiments that run, with model and rows, and those that do not fit.

    An experiment whose prompts or libraries are not here is skipped, unless no other is left.

    Args:
        settings: the settings of the audit.
        kind: the kind of the model, if known.

    Raises:
        UsageError: an unknown name, or a model that fits nothing.
        ValueError: no such model, a broken or missing table.
    """
    if settings.kind and settings.model is None:
        raise UsageError(
            f"--kind {settings.kind} says what kind a model is, and no model is named. Name one."
        )
    settings.of(ChatOptions).check()
    unread_settings.refuse_unread_weights(settings)
    if is_demonstration(settings):
        return _demonstration(settings)
    requested = _requested(settings)
    wanted = [
        study for requested_kind in requested for study in _studies_wanted(requested_kind, settings)
    ]
    usual = [study.name for study in catalogue.outlines() if not study.on_request]
    chosen, skipped = _chosen(settings, [*dict.fromkeys(wanted)] or usual)
    unread_settings.refuse_unread_data(settings, [study.name for study, _ in chosen])
    if kind is None and settings.model is not None:
        kind = models.model_kind(settings.model, settings.kind, load=settings.load)
    unread_settings.refuse_unread_notes(settings, kind)
    planning = _Planning(settings, kind, wanted, skipped)
    for study, config in chosen:
        for experiment in study.experiments:
            if planning.is_wanted(study, experiment, config):
                planning.add(study, experiment, config)
    for task in [*planning.tasks]:
        planning.add_controls(task)
    if not planning.tasks and planning.missing:
        raise planning.missing[0]
    if not planning.tasks:
        _refuse_model(skipped, kind, usual)
    unread_settings.refuse_notes_for_data(settings, planning.tasks)
    _refuse_unread_settings(requested, planning.tasks)
    unread_settings.refuse_unread_adjectives(settings, planning.tasks)
    unread_settings.refuse_unread_splits(settings, planning.tasks)
    return planning.tasks, skipped


def _demonstration(settings: Settings) -> tuple[list[Task], list[Skipped]]:
    """Return the tasks of the demonstration with their rows, and those whose libraries are not installed."""
    tasks, skipped = without_missing(demonstration_tasks(), settings)
    with_rows = [expanded(with_prompts(task, settings, slow=False), settings) for task in tasks]
    return [distinct(task, settings) for task in with_rows], skipped


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
        self.notes: LoadNotes = cache(
            partial(load.load_splits, settings.of(NoteOptions), settings.seed)
        )

    def is_wanted(self, study: Study, experiment: Experiment, config: str) -> bool:
        """Return whether an experiment of a chosen study is among those that are wanted."""
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
        """Add an experiment on each model that fits, or the reason that it does not run."""
        if any((task.study, task.experiment) == (study, experiment) for task in self.tasks):
            raise UsageError(
                f"{study.name} {experiment.name} is named twice. Name it once, with one config."
            )
        slow = experiment.on_request and not self.settings.studies and study.name not in self.wanted
        model_kind = self._other_kind(study, experiment, config)
        kind = kind_of(model_kind or experiment.kind)
        fits = list(kind.fits(experiment, self.settings, self.kind))
        configs = experiment.reads.configs
        if config in _configs_of_experiment(experiment):
            configs = (config,)
        task = Task(study, experiment, configs, model_kind=model_kind)
        try:
            tasks, reasons = _tasks(task, fits, self.settings, self.notes, slow=slow)
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

    def _other_kind(self, study: Study, experiment: Experiment, config: str) -> str:
        """Return the name of another kind whose model reads an experiment; blank where its own kind does.

        Where an experiment of that kind asks the same, it stands for one that nobody named.
        """
        for kind in kinds():
            if kind.name == experiment.kind or not kind.also_reads(experiment, self.settings):
                continue
            asks_the_same = any(
                candidate.kind == kind.name and candidate.reads.configs == experiment.reads.configs
                for candidate in study.experiments
                if candidate.reads.reading == experiment.reads.reading
            )
            if config == experiment.name or not asks_the_same:
                return kind.name
        return ""

    def add_controls(self, task: Task) -> None:
        """Add the positive control of what is read, before it; a UsageError where another one is read."""
        control = task.study.control_of(task.experiment)
        if control is None:
            return
        wanted = tuple(task.experiment.design.controls[config] for config in task.configs)
        for planned in self.tasks:
            if (planned.study, planned.experiment) != (task.study, control):
                continue
            if planned.configs != wanted:
                raise UsageError(
                    f"{task.name} needs the control {listed(wanted)}, and {listed(planned.configs)} is read. "
                    "Audit configs of different controls apart."
                )
            return
        questions = self.tasks
        self.tasks = []
        self.add(task.study, control, wanted[0])
        self.tasks += questions


def _refuse_model(skipped: Sequence[Skipped], kind: str | None, usual: Sequence[str]) -> NoReturn:
    """Raise a UsageError that says why no experiment fits, and names a usual study that a model of the kind reads."""
    names_by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        names_by_reason.setdefault(entry.reason, []).append(f"{entry.study} {entry.experiment}")
    reasons = [f" {listed(names)}: {reason}." for reason, names in names_by_reason.items()]
    fitting = [name for name in usual if _has_kind(catalogue.outline(name), kind)]
    hint = f", such as {fitting[0]}" if fitting else ""
    raise UsageError(
        f"Nothing is measured, for no experiment fits.{''.join(reasons)} Choose another model or --study{hint}."
    )


def _has_kind(study: Study, kind: str | None) -> bool:
    """Return whether a study has an experiment for a kind of model."""
    return any(experiment.kind == kind for experiment in study.experiments)


def _refuse_unread_settings(requested: Sequence[Kind], tasks: Sequence[Task]) -> None:
    """Refuse settings of a kind of model, with a UsageError, where no task reads a model of that kind."""
    for kind in requested:
        if not any(task.kind is kind for task in tasks):
            names = listed(_studies_of(kind), "no study")
            raise UsageError(
                f"Settings of {kind.name} models are read by {names}. Name it as well."
            )


def _studies_wanted(kind: Kind, settings: Settings) -> list[str]:
    """Return the studies that settings of a kind ask for: those about notes where any are named, else others."""
    names = _studies_of(kind)
    with_notes = settings.of(NoteOptions).data is not None
    return [name for name in names if _is_about_notes(name, kind) == with_notes] or names


def _is_about_notes(study: str, kind: Kind) -> bool:
    """Return whether a study has an experiment in which a kind of model reads notes."""
    experiments = catalogue.outline(study).experiments
    return any(
        kind.rows(experiment) != RowSource.PROMPTS
        for experiment in experiments
        if experiment.kind == kind.name
    )


def _studies_of(kind: Kind) -> list[str]:
    """Return the studies that have an experiment for a kind of model."""
    return [study.name for study in catalogue.outlines() if _has_kind(study, kind.name)]


def _chosen(
    settings: Settings, usual: Sequence[str]
) -> tuple[list[tuple[Study, str]], list[Skipped]]:
    """Return the named studies, else the usual ones, each with its config; and those that do not load.

    One that nobody named does not stop the others.
    """
    if settings.studies:
        return [_checked_study(name, settings.prompt_data) for name in settings.studies], []
    chosen: list[tuple[Study, str]] = []
    skipped = [
        Skipped(name, _ALL, sentence) for name, sentence in catalogue.unreadable_studies().items()
    ]
    for name in usual:
        try:
            chosen.append(_checked_study(name, settings.prompt_data))
        except Exception as error:
            sentence = _study_fault(error)
            if not sentence:
                raise
            for experiment in catalogue.outline(name).experiments:
                skipped.append(Skipped(name, experiment.name, sentence))
    return chosen, skipped


def _checked_study(name: str, data: str | None) -> tuple[Study, str]:
    """Return the study of ``NAME[:CONFIG]`` and its config, where its readings and notes are what they should be.

    A study that reads data of the user's has their tables as its configs.
    """
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    if study.name not in own_studies():
        models.check_readings(study)
        catalogue.check_notes(study)
    tables: Sequence[str] = ()
    if source := prompt_data.source_of(study_name, data):
        tables = [table.name for table in prompt_data.data_corpus(study_name, source).configs]
        study = prompt_data.reading_data(study, source, config)
    experiments = [experiment.name for experiment in study.experiments]
    configs = list(dict.fromkeys([*_configs_of(study), *experiments]))
    if config and config not in configs:
        raise unknown_name("config", config, [*tables, *experiments] if tables else configs)
    return study, config


def _study_fault(error: Exception) -> str:
    """Return the sentence of an error on the study that it is about; blank where it is a bug of something else."""
    fault = contributed_fault(error)
    if not fault and isinstance(error, ValueError):
        return first_line(error)
    return fault


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
    """Return an experiment on each model that fits, and names of its parts with the reason that they are skipped."""
    tasks: list[Task] = []
    reasons: list[tuple[str, str]] = []
    experiment = empty.experiment
    trains = empty.kind.options is NoteOptions and settings.of(NoteOptions).trains
    for model, misfit in fits:
        if misfit:
            reasons.append((experiment.name, misfit))
            continue
        empty.kind.check_installed(model, experiment, settings)
        of_model = replace(empty, model=model)
        for task in _with_rows(of_model, settings, notes, trains=trains, slow=slow):
            reason = unreadable(task, settings, trains)
            if reason:
                reasons.append((experiment.name, _of_split(task, reason)))
            else:
                tasks.append(distinct(task, settings))
            for part in _untrainable_parts(task, trains=trains):
                if part not in reasons:
                    reasons.append(part)
    if tasks:
        name = f"{manifest_redaction.PARTIAL_EXPERIMENT_PREFIX}{experiment.name}"
        reasons += [(name, _of_split(tasks[0], remark)) for remark in _remarks(tasks[0])]
    return tasks, reasons


def _with_rows(
    task: Task, settings: Settings, notes: LoadNotes, *, trains: bool, slow: bool
) -> list[Task]:
    """Return a task with the rows that its model reads; of notes in several splits a task for each."""
    experiment = task.experiment
    if task.kind.rows(experiment) == RowSource.PROMPTS:
        return [expanded(with_prompts(task, settings, slow=slow), settings)]
    has_labels = bool(experiment.shows.rates)
    splits = notes(experiment.reads.notes.corpus, trains=trains, labelled=has_labels)
    return [expanded(with_notes(task, settings, split, trains), settings) for split in splits]


def _of_split(task: Task, sentence: str) -> str:
    """Return a sentence about the notes of a task with their split, where there are several."""
    return f"in split {task.split}: {sentence}" if task.split else sentence


def _untrainable_parts(task: Task, *, trains: bool) -> list[tuple[str, str]]:
    """Return the phenotypes that no classifier can be trained for, each with the reason."""
    if task.notes is None or not trains or not task.experiment.reads.notes.regimes:
        return []
    untrainable = task.notes.why_untrainable()
    return [
        (f"{task.experiment.name}, {phenotype}", _of_split(task, reason))
        for phenotype, reason in untrainable.items()
    ]


def _remarks(task: Task) -> list[str]:
    """Return sentences on notes that were left out."""
    if task.notes is None:
        return []
    remarks = list(task.notes.remarks())
    if task.factless:
        remarks.append(
            f"notes left out because they state no fact of the checklist: {task.factless}"
        )
    return remarks


def reads_installed(manifest: Mapping[str, Any]) -> bool:
    """Return whether the prompts of a run are those of the corpora as they are installed, by their fingerprints.

    Args:
        manifest: the manifest of the run.
    """
    settings = Settings.from_manifest(manifest["settings"])
    if settings.adjectives or settings.prompt_data:
        return False  # its prompts have the user's adjectives, or are the user's
    tasks, _ = plan_tasks(settings, kind=kind_of_manifest(manifest, settings))
    return fingerprints(tasks, settings) == list(manifest["corpora"])


def kind_of_manifest(manifest: Mapping[str, Any], settings: Settings) -> str | None:
    """Return the kind of the model that a run read.

    Args:
        manifest: the manifest of the run.
        settings: the settings of the run.

    Returns:
        The kind; None where no model is named, for each experiment has a default then.
    """
    if not settings.model:
        return None
    kinds_read = [str(model.get("kind")) for model in manifest.get("models", ())]
    return next((kind for kind in kinds_read if kind in auto.model_kinds()), None)
