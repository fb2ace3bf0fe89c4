"""What an audit will do: the settings that say so, which experiments fit the model, and which prompts they read."""

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain, compress, count
from pathlib import Path
from typing import Any, NoReturn

from swapbias import __version__, models, studies
from swapbias.errors import (
    MissingExtraError,
    UpstreamMissingError,
    UsageError,
    first_line,
    library_versions,
    listed,
)
from swapbias.models import PROMPTS, Kind, LoadOptions, kind_of, kinds
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.notes import AS_TRAINED, Notes, load_notes
from swapbias.runs.settings import Settings
from swapbias.studies import Experiment, Row, Study, column, load_study, own_studies

_VERSIONS = ("torch", "transformers", "datasets", "numpy", "scipy", "pandas", "pyarrow")  # that a manifest has
_MOST_PLACEBO = 5_000  # rows in other wordings that are read for an experiment
_MOST_CALLS = 8_000  # of a model, for an experiment that is slow and that nobody named


@dataclass(frozen=True, slots=True)
class Task:
    """An experiment on a model; the first ``n_prompts`` rows are of its configs, part of ``n_available`` if set."""

    study: Study
    experiment: Experiment
    configs: tuple[str, ...]
    model: str = ""
    rows: Sequence[Row] = ()
    n_prompts: int = 0
    notes: Notes | None = None  # what classifiers are trained on
    n_available: int = 0
    factless: int = 0  # notes that are left out, for they state nothing that an answer could repeat
    repeats: str = ""  # how many pairs of the user's own repeat another pair's texts, and are not read

    @property
    def kind(self) -> Kind:
        """The kind of its model."""
        return kind_of(self.experiment.kind)

    @property
    def name(self) -> str:
        """Study and experiment."""
        return f"{self.study.name} {self.experiment.name}"

    @property
    def credentialed(self) -> bool:
        """Whether it reads credentialed notes, or rows that say so."""
        notes = self.notes is not None and self.notes.credentialed
        return notes or any(str(one) == "True" for one in column(self.rows, "credentialed"))

    @property
    def lexicons(self) -> list[str]:
        """The word lists that its rows count."""
        return sorted({name.rpartition("/")[0] for name in set(column(self.rows, "lexicon"))} - {""})


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that was not run, and why."""

    study: str
    experiment: str
    reason: str


LoadNotes = Callable[..., Notes]  # corpus, whether classifiers are trained, whether labels are read


def plan_tasks(settings: Settings, *, kind: str | None = None) -> tuple[list[Task], list[Skipped]]:
    """Which experiments run on which model and rows, and which do not fit; ``kind`` is that of the model, if known.

    An experiment whose prompts or libraries are not here is skipped, unless no other is left. UsageError: an unknown
    name, or a model that fits nothing. ValueError: no such model, a broken or missing table.
    """
    if settings.kind and settings.model is None:
        raise UsageError(f"--kind {settings.kind} says what kind a model is, and no model is named. Name one.")
    settings.of(ChatOptions).check()
    _refuse_unread_weights(settings)
    requested = [one for one in kinds() if one.options and settings.of(one.options) != one.options()]
    noted = settings.of(NoteOptions)
    own_reader = noted.embeddings or noted.classifier != NoteOptions().classifier
    if settings.of(ChatOptions).model and not own_reader:  # the chat model reads the notes
        requested = [one for one in requested if one.options is not NoteOptions]
    own = [study for one in requested for study in _studies_wanted(one, settings)]
    usual = [study.name for study in studies.outlines() if not study.on_request]
    chosen, skipped = _chosen(settings.studies, [*dict.fromkeys(own)] or usual)
    if kind is None and settings.model is not None:
        kind = models.model_kind(settings.model, settings.kind, load=settings.load)
    tasks = list[Task]()
    lost: list[ValueError] = []  # of experiments whose prompts or libraries are not here
    notes: LoadNotes = cache(partial(load_notes, settings.of(NoteOptions), settings.seed))
    for study, config in chosen:
        for experiment in study.experiments:
            configured = (*experiment.reads.configs, *experiment.reads.alternatives)
            if config and config not in (configured if config in _configs_of(study) else (experiment.name,)):
                continue
            if own and not settings.studies and settings.model is None and kind_of(experiment.kind).default:
                continue  # a chat model is named, and nobody named the model that is read where none is
            if any((task.study, task.experiment) == (study, experiment) for task in tasks):
                raise UsageError(f"{study.name} {experiment.name} is named twice. Name it once, with one config.")
            slow = experiment.on_request and not settings.studies and study.name not in own
            fits = list(kind_of(experiment.kind).fits(experiment, settings, kind))
            if slow and settings.model is None and not all(why for _, why in fits):
                why = f"it takes many times as long as the others; run it with --study {study.name}"
                skipped.append(Skipped(study.name, experiment.name, why))
                continue
            empty = Task(study, experiment, (config,) if config in configured else experiment.reads.configs)
            try:
                found, reasons = _tasks(empty, fits, settings, notes, slow=slow)
            except (UpstreamMissingError, MissingExtraError) as error:
                lost.append(error)
                skipped.append(Skipped(study.name, experiment.name, first_line(error)))
                continue
            tasks += found
            skipped += [Skipped(study.name, name, why) for name, why in reasons]
    if not tasks and lost:
        raise lost[0]
    if not tasks:
        _refuse_model(skipped, kind, usual)
    _refuse_unread_settings(requested, tasks)
    return tasks, skipped


def _refuse_model(skipped: Sequence[Skipped], kind: str | None, usual: Sequence[str]) -> NoReturn:
    """Raise a UsageError that says why no experiment fits, and names a usual study that a model of the kind reads."""
    reasons = [f" {one.study} {one.experiment}: {one.reason}." for one in skipped]
    fitting = [name for name in usual if any(one.kind == kind for one in studies.outline(name).experiments)]
    hint = f" {fitting[0]} fits." if fitting else ""
    raise UsageError(f"No experiment fits.{''.join(reasons)} Choose another model or --study.{hint}")


def _refuse_unread_settings(requested: Sequence[Kind], tasks: Sequence[Task]) -> None:
    """Refuse settings of a kind of model, with a UsageError, where no task reads a model of that kind."""
    for kind in requested:
        if not any(task.kind is kind for task in tasks):
            names = listed(_studies_of(kind), "no study")
            raise UsageError(f"Settings of {kind.name} models are read by {names}. Name it as well.")


def _refuse_unread_weights(settings: Settings) -> None:
    """Refuse settings of weights, with a UsageError, where only a model behind a service is read."""
    chat, notes = settings.of(ChatOptions), settings.of(NoteOptions)
    if settings.model is None and chat.model and not chat.local and notes == NoteOptions():
        settings.load.refuse_weights_settings(chat.model)


def _studies_wanted(kind: Kind, settings: Settings) -> list[str]:
    """The studies that settings of a kind ask for: those about notes where notes are named, the others else."""
    names, with_notes = _studies_of(kind), settings.of(NoteOptions).data is not None
    outlines = {name: studies.outline(name) for name in names}
    experiments = {name: [one for one in outlines[name].experiments if one.kind == kind.name] for name in names}
    about_notes = {name: any(kind.rows(one) != PROMPTS for one in found) for name, found in experiments.items()}
    return [name for name in names if about_notes[name] == with_notes] or names


def _studies_of(kind: Kind) -> list[str]:
    outlines = studies.outlines()
    return [study.name for study in outlines if any(one.kind == kind.name for one in study.experiments)]


def _chosen(named: Sequence[str], usual: Sequence[str]) -> tuple[list[tuple[Study, str]], list[Skipped]]:
    """The studies that are named, else the usual ones, each with its config; and those that do not load.

    One of another distribution that nobody named does not stop the others.
    """
    chosen, skipped = list[tuple[Study, str]](), list[Skipped]()
    for name in named or usual:
        try:
            study, config = _study_and_config(name)
            if study.name not in own_studies():
                models.check_readings(study)
                studies.check_notes(study)
            chosen.append((study, config))
        except ValueError as error:
            if named or not studies.CORPORA.distribution(name):
                raise
            names = (one.name for one in studies.outline(name).experiments)
            skipped += [Skipped(name, experiment, first_line(error)) for experiment in names]
    return chosen, skipped


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = list(dict.fromkeys([*_configs_of(study), *(one.name for one in study.experiments)]))
    if config and config not in known:
        raise studies.unknown("config", config, known)
    return study, config


def _configs_of(study: Study) -> list[str]:
    return [config for one in study.experiments for config in (*one.reads.configs, *one.reads.alternatives)]


def _tasks(
    empty: Task, fits: Sequence[tuple[str, str]], settings: Settings, notes: LoadNotes, *, slow: bool
) -> tuple[list[Task], list[tuple[str, str]]]:
    """An experiment on each model that fits, and names of its parts with why they are skipped."""
    tasks: list[Task] = []
    reasons: list[tuple[str, str]] = []
    experiment, rows_of = empty.experiment, empty.kind.rows(empty.experiment)
    trains = empty.kind.options is NoteOptions and settings.of(NoteOptions).trains
    for model, why in fits:
        if why:
            reasons.append((experiment.name, why))
            continue
        empty.kind.check_installed(model, experiment, settings)
        task = replace(empty, model=model)
        if rows_of == PROMPTS:
            task = _with_prompts(task, settings, slow=slow)
        else:
            read = notes(experiment.reads.notes.corpus, trains=trains, labelled=bool(experiment.shows.rates))
            task = _with_notes(task, settings, read, trains)
        task = _expanded(task, settings)
        if reason := _unreadable(task, trains):
            reasons.append((experiment.name, reason))
        else:
            tasks.append(_distinct(task))
        if task.notes and experiment.reads.notes.regimes and trains:
            untrained = ((f"{experiment.name}, {one}", reason) for one, reason in task.notes.untrainable().items())
            reasons += [one for one in untrained if one not in reasons]
    if tasks and tasks[0].notes:
        remarks = tasks[0].notes.remarks()
        if tasks[0].factless:
            remarks.append(f"notes left out because they state no fact of the checklist: {tasks[0].factless}")
        reasons += [(f"{studies.PART_OF}{experiment.name}", one) for one in remarks]
    return tasks, reasons


def _expanded(task: Task, settings: Settings) -> Task:
    """A task with the rows that its model reads: of a chat model one for each trial, of notes those that it can."""
    parts = task.rows[: task.n_prompts], task.rows[task.n_prompts :]
    rows, others = (task.kind.expand(part, settings, task.experiment) for part in parts)
    stated = {row["pair_id"] for row in rows if row.get("trial", "1") == "1"}
    factless = len(set(column(parts[0], "pair_id"))) - len(stated) if task.notes else 0
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), factless=factless)


def _unreadable(task: Task, trains: bool) -> str:
    """Why an experiment on notes has nothing to read or to learn from; blank where it has."""
    if task.notes is None:
        return ""
    if not task.rows and task.factless:
        raise UsageError("No test note states a fact of the checklist in both of its versions. Name other facts.")
    if not task.rows:
        learned = ", of a phenotype that a classifier can be trained for" if trains else ""
        return f"no test note with a known gender is left{learned}"
    return task.notes.unlearnable_gender() if task.kind.rows(task.experiment) == models.VERSIONS else ""


def _with_prompts(task: Task, settings: Settings, *, slow: bool) -> Task:
    experiment, read = task.experiment, partial(studies.config_rows, task.study.name)
    whole = [read(name) for name in task.configs]
    if task.study.name not in own_studies():
        is_usual = task.configs == experiment.reads.configs
        studies.check_rows(task.study, experiment, [*chain.from_iterable(whole)], whole=is_usual)
    every = [_limited(rows, settings.limit) for rows in whole]
    passes = len(every) * task.kind.readings[experiment.reads.reading].passes
    parts = (_affordable(rows, passes) if slow else rows for rows in every)
    rows = [{**row, "experiment": experiment.name} for part in parts for row in part]  # two may read one config
    n_read, n_available = len(rows), sum(map(len, every))
    others: Sequence[Row] = ()
    # The calibration model knows nothing but the prompts that it is trained on.
    calibrated = experiment.reads.calibrated and settings.model is None
    if task.configs == experiment.reads.configs and not calibrated and _with_wordings(experiment, settings):
        placebo = _some_of(_reworded(rows, [*chain.from_iterable(map(read, experiment.reads.rewordings))]))
        plain = map(read, experiment.reads.baseline)
        others = [{**row, "experiment": experiment.name} for row in chain(*plain, placebo)]
    part = n_available if 0 < n_read < n_available else 0
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), n_available=part)


def _with_notes(task: Task, settings: Settings, notes: Notes, trains: bool) -> Task:
    experiment, untrained = task.experiment, notes.untrainable() if trains else {}
    pairs = _limited([pair for pair in notes.pairs() if pair["condition"] not in untrained], settings.limit)
    rows, others = note_rows(experiment, notes, pairs, trains), list[Row]()
    if experiment.reads.rewordings and _with_wordings(experiment, settings):
        others = note_rows(experiment, notes, _reworded(pairs, list(notes.reworded_pairs())), trains)
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), notes=notes)


def note_rows(experiment: Experiment, notes: Notes, pairs: Sequence[Row], trains: bool) -> list[dict[str, str]]:
    """The prompts of an experiment: each test pair once a regime, or each test note as written and neutralised."""
    if kind_of(experiment.kind).rows(experiment) == models.VERSIONS:
        rows = notes.versions({pair["pair_id"] for pair in pairs})
    else:
        regimes = experiment.reads.notes.regimes if trains and experiment.reads.notes.regimes else (AS_TRAINED,)
        rows = [{**row, "construct": regime} for regime in regimes for row in pairs]
    return [
        {**row, "experiment": experiment.name, "prompt_id": f"{row['prompt_id']}/{row['construct']}"} for row in rows
    ]


def _with_wordings(experiment: Experiment, settings: Settings) -> bool:
    usual = settings.limit is None and not experiment.on_request
    return usual if settings.wordings is None else settings.wordings


def _reworded(rows: Sequence[Row], placebo: Sequence[Row]) -> Sequence[Row]:
    """Other wordings of the rows that are read."""
    pairs = set(column(rows, "pair_id"))
    return list(compress(placebo, (pair.rpartition("/w")[0] in pairs for pair in column(placebo, "pair_id"))))


def _some_of(placebo: Sequence[Row]) -> Sequence[Row]:
    """At most ``_MOST_PLACEBO`` rows: of so many conditions of each label one."""
    of_rows = list(zip(column(placebo, "label"), column(placebo, "condition"), strict=True))
    numbers: dict[str, dict[str, int]] = {}
    for label, condition in of_rows:
        conditions = numbers.setdefault(label, {})
        conditions.setdefault(condition, len(conditions))
    step = -(-len(placebo) // _MOST_PLACEBO)
    return list(compress(placebo, (numbers[label][condition] % step == 0 for label, condition in of_rows)))


def _limited(rows: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(column(rows, "pair_id")))
    number = max(1, limit * len(pairs) // len(rows))
    chosen = {pairs[index * len(pairs) // number] for index in range(number)}
    return list(compress(rows, (pair in chosen for pair in column(rows, "pair_id"))))


def _affordable(rows: Sequence[Row], passes: int) -> Sequence[Row]:
    """As many rows as a share of the calls can read: whole pairs, spread evenly."""
    calls = passes * len(set(column(rows, "text")))
    return rows if calls <= _MOST_CALLS else _limited(rows, max(1, len(rows) * _MOST_CALLS // calls))


def default_folder(settings: Settings) -> Path:
    """``swapbias-runs/<model>-<time>``, with a number of those that began in one second; also of a chat model."""
    chat = next(filter(None, (getattr(one, "model", None) for one in settings.options)), None)
    model = settings.model or chat
    name = folder_name(model, settings.load) if model else "default"
    folder = Path("swapbias-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    every = (folder.with_name(f"{folder.name}-{number}") if number > 1 else folder for number in count(1))
    return next(one for one in every if not one.exists())


def folder_name(model: str, load: LoadOptions) -> str:
    """What the folder of a run is called after its model: by its revision, its adapter and its quantization too."""
    _, revision = models.split_revision(model)
    name = models.planned_name(model, load)
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
    return next((one for one in read if one in models.model_kinds()), None) if settings.model else None


def plan_manifest(settings: Settings, tasks: Sequence[Task], skipped: Sequence[Skipped]) -> dict[str, Any]:
    """What the manifest of a new run says of its plan."""
    repeats = repeat_notes(tasks)
    own = [studies.load_corpus(task.study.name) for task in tasks if task.study.name in own_studies()]
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
            "sha256": studies.fingerprint(task.rows[: task.n_prompts]),
            **({"beside": studies.fingerprint(beside)} if (beside := task.rows[task.n_prompts :]) else {}),
            "lexicons": {
                name: studies.fingerprint(
                    {"word": word, "label": label} for word, label in studies.load_lexicon(name).entries()
                )
                for name in task.lexicons
            },
            **({"training": studies.fingerprint(task.notes.rows)} if task.notes else {}),
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


def _distinct(task: Task) -> Task:
    """A task without those pairs of the user's own whose texts are another's: they are no further evidence."""
    experiment, own = task.experiment, task.notes is not None or task.study.name in own_studies()
    if not own or not experiment.is_paired:
        return task
    answered_by = next(
        (one.column for one in experiment.shows.slices if one.name == experiment.compares.primary.slice), ""
    )
    names = [
        "group",
        "side",
        "text",
        "candidates",
        "lexicon",
        "wording",
        "trial",
        experiment.compares.subset,
        answered_by,
    ]
    names += ["label", "version"] if experiment.shows.rates else []
    content: dict[str, set[tuple[str, ...]]] = {}
    rows = zip(*(column(task.rows, name) for name in ("pair_id", *filter(None, names))), strict=True)
    for pair, *texts in rows:
        content.setdefault(pair, set()).add(tuple(texts))
    first: dict[frozenset[tuple[str, ...]], str] = {}
    read = [first.setdefault(frozenset(content[pair]), pair) == pair for pair in column(task.rows, "pair_id")]
    if all(read):
        return task
    places = zip(*(column(task.rows, name, "1") for name in ("pair_id", "group", "trial")), read, strict=True)
    pairs = {pair: one for pair, group, trial, one in places if trial == "1" and group in experiment.compared}
    note = f"{task.study.name} {experiment.name}: {len(pairs) - sum(pairs.values()):,} of {len(pairs):,} pairs repeat"
    return replace(
        task, rows=list(compress(task.rows, read)), n_prompts=sum(read[: task.n_prompts]),
        repeats=f"{note} another pair's texts and count once.",
    )  # fmt: skip


def repeat_notes(tasks: Sequence[Task]) -> list[str]:
    """Of prompts of the user's own how many pairs are of the same texts as another, a sentence an experiment."""
    return list(dict.fromkeys(one.repeats for one in tasks if one.repeats))
