"""What an audit will do: which experiments fit the model, and which prompts they read."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, quoted
from swapbias.models import PROMPTS, VERSIONS, Kind, kind_of, kinds, model_kind, model_kinds, short_name
from swapbias.models.clinical import NoteOptions
from swapbias.notes import AS_TRAINED, Notes, load_notes
from swapbias.runs.settings import Settings
from swapbias.studies import (
    Corpus,
    Experiment,
    Row,
    Study,
    checked_rows,
    column,
    config_rows,
    did_you_mean,
    fingerprint,
    having,
    joined,
    load_lexicon,
    load_study,
    only,
    own_studies,
    part_of,
    studies,
)

_MOST_PLACEBO = 5_000  # rows in other wordings that are read for an experiment
_MOST_CALLS = 8_000  # of a model, for an experiment that is slow and that nobody named


@dataclass(frozen=True, slots=True)
class Task:
    """One experiment on one model, with the rows it reads: the first ``n_prompts`` are of its configs.

    Where only a part of these is read, for it is slow and nobody named it, ``n_available`` is how many there are.
    """

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
    def corpus(self) -> str:
        """The corpus that its rows are made of."""
        return self.experiment.corpus or self.study.name


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that was not run, and why."""

    study: str
    experiment: str
    reason: str


def plan_tasks(settings: Settings, *, kind: str | None = None) -> tuple[list[Task], list[Skipped]]:
    """Which experiments run on which model and rows, and which do not fit.

    Args:
        settings: what to audit and how.
        kind: of the model, where that is known already; found from the model where None.

    Raises:
        UsageError: an unknown study, config or kind, or a model that fits nothing.
        ValueError: no such model, a broken table, an upstream file that is not at hand.
    """
    if settings.kind and settings.model is None:
        raise UsageError(f"--kind {settings.kind} says what kind a model is, and no model is named. Name one.")
    for one in kinds():
        one.check(settings)
    own = [study for one in kinds() if one.is_requested(settings) for study in _studies_wanted(one, settings)]
    usual = [name for name in studies() if not load_study(name).on_request]
    chosen = [_study_and_config(name) for name in settings.studies or dict.fromkeys(own) or usual]
    if kind is None and settings.model is not None:
        kind = model_kind(settings.model, settings.kind, load=settings.load)
    options, tasks, skipped = settings.of(NoteOptions), list[Task](), list[Skipped]()
    notes = cache(
        lambda corpus, trains, labelled: load_notes(options, settings.seed, corpus, trains=trains, labelled=labelled)
    )
    for study, config in chosen:
        for experiment in study.experiments:
            configured = (*experiment.configs, *experiment.alternatives)
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
            configs = (config,) if config in configured else experiment.configs
            found, reasons = _tasks(Task(study, experiment, configs), fits, settings, notes, slow=slow)
            tasks += found
            skipped += [Skipped(study.name, name, why) for name, why in reasons]
    skipped = [one for one in skipped if not _read_otherwise(one, tasks)]
    if not tasks:
        why = "; ".join(f"{one.study} {one.experiment}: {one.reason}" for one in skipped)
        others = [each for each in map(load_study, studies()) if not each.on_request]
        fitting = [each.name for each in others if any(one.kind == kind for one in each.experiments)]
        hint = f" {fitting[0]} fits." if fitting else ""
        raise UsageError(f"No experiment fits. {why}. Choose another model or --study.{hint}")
    for one in kinds():
        if one.is_requested(settings) and not any(task.kind is one for task in tasks):
            named = " and ".join(_studies_of(one))
            raise UsageError(f"Settings of {one.name} models are read by {named}. Name it as well.")
    return tasks, skipped


def _read_otherwise(skipped: Skipped, tasks: Sequence[Task]) -> bool:
    """Whether a study of the user's own has the same prompts read by the kind of model that there is."""
    read = {name for task in tasks if task.study.name == skipped.study for name in task.configs}
    own = load_study(skipped.study).experiments if skipped.study in own_studies() else ()
    return any(one.name == skipped.experiment and set(one.configs) <= read for one in own)


def _studies_wanted(kind: Kind, settings: Settings) -> list[str]:
    """The studies that settings of a kind ask for: those about notes where notes are named, the others else."""
    names, with_notes = _studies_of(kind), settings.of(NoteOptions).data is not None
    experiments = {name: [one for one in load_study(name).experiments if one.kind == kind.name] for name in names}
    about_notes = {name: any(kind.rows(one) != PROMPTS for one in found) for name, found in experiments.items()}
    return [name for name in names if about_notes[name] == with_notes] or names


def _studies_of(kind: Kind) -> list[str]:
    """The studies with an experiment for a kind of model."""
    return [name for name in studies() if any(one.kind == kind.name for one in load_study(name).experiments)]


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = dict.fromkeys([*_configs_of(study), *(one.name for one in study.experiments)])
    if config and config not in known:
        near = did_you_mean(config, list(known))
        raise UsageError(
            f"Unknown config {quoted(config)} of {study_name}: expected one of {', '.join(known)}.{near}"
        )
    return study, config


def _configs_of(study: Study) -> list[str]:
    return [config for one in study.experiments for config in (*one.configs, *one.alternatives)]


# --- the rows of an experiment ----------------------------------------------------------------------------


def _tasks(
    empty: Task,
    fits: Sequence[tuple[str, str]],
    settings: Settings,
    notes: Callable[[str, bool, bool], Notes],
    *,
    slow: bool,
) -> tuple[list[Task], list[tuple[str, str]]]:
    """An experiment on each model that fits, and names of its parts with why they are skipped."""
    tasks: list[Task] = []
    reasons: list[tuple[str, str]] = []
    experiment = empty.experiment
    for model, why in fits:
        if why:
            reasons.append((experiment.name, why))
            continue
        task = replace(empty, model=model)
        prompts = empty.kind.rows(experiment) == PROMPTS
        task = _with_prompts(task, settings, slow=slow) if prompts else _with_notes(task, settings, notes)
        if reason := _unreadable(task, settings):
            reasons.append((experiment.name, reason))
        else:
            tasks.append(_distinct(task))
        if task.notes and experiment.regimes and task.kind.trains(settings):
            untrained = ((f"{experiment.name}, {one}", reason) for one, reason in task.notes.untrainable().items())
            reasons += [one for one in untrained if one not in reasons]
    if tasks and tasks[0].notes:
        remarks = tasks[0].notes.remarks()
        remarks += tasks[0].notes.unperformed() if "actual" in experiment.rates else []
        if tasks[0].factless:
            remarks.append(f"notes left out because they state no fact of the checklist: {tasks[0].factless}")
        reasons += [(part_of(experiment.name), one) for one in remarks]
    return tasks, reasons


def _unreadable(task: Task, settings: Settings) -> str:
    """Why an experiment on notes has nothing to read or to learn from; blank where it has.

    Raises:
        UsageError: of no model or experiment: the checklist has to be another.
    """
    if task.notes is None:
        return ""
    if not task.rows and task.factless:
        raise UsageError(
            "No test note states a fact of the checklist in both of its versions. Name other facts with -M checklist."
        )
    if not task.rows:
        learned = ", of a phenotype that a classifier can be trained for" if task.kind.trains(settings) else ""
        return f"no test note with a known gender is left{learned}"
    return task.notes.unlearnable_gender() if task.kind.rows(task.experiment) == VERSIONS else ""


def _with_prompts(task: Task, settings: Settings, *, slow: bool) -> Task:
    experiment, corpus = task.experiment, task.study.name
    every = [_limited(config_rows(corpus, name), settings.limit) for name in task.configs]
    passes = len(every) * task.kind.readings[experiment.reading].passes
    # Two experiments may read one config.
    parts = (_affordable(rows, passes) if slow else rows for rows in every)
    rows = joined(having(part, experiment=experiment.name) for part in parts)
    n_read, n_available = len(rows), sum(map(len, every))
    others: Sequence[Row] = ()
    # The calibration model knows nothing but the prompts that it is trained on.
    calibrated = experiment.calibrated and settings.model is None
    if task.configs == experiment.configs and not calibrated and _with_wordings(experiment, settings):
        baseline = joined(config_rows(corpus, name) for name in experiment.baseline)
        placebo = _some_of(_reworded(rows, joined(config_rows(corpus, name) for name in experiment.placebo)))
        others = joined(having(part, experiment=experiment.name) for part in (baseline, placebo))
    rows, others = (task.kind.expand(part, settings, experiment) for part in (rows, others))
    part = n_available if 0 < n_read < n_available else 0
    return replace(task, rows=joined([rows, others]), n_prompts=len(rows), n_available=part)


def _with_notes(task: Task, settings: Settings, notes: Callable[[str, bool, bool], Notes]) -> Task:
    experiment, trains = task.experiment, task.kind.trains(settings)
    clinical = notes(experiment.corpus, trains, bool(experiment.rates))
    untrained = clinical.untrainable() if trains else {}
    pairs = _limited([pair for pair in clinical.pairs() if pair["condition"] not in untrained], settings.limit)
    every, others = note_rows(experiment, clinical, pairs, trains), list[Row]()
    if experiment.placebo and _with_wordings(experiment, settings):
        others = note_rows(experiment, clinical, _reworded(pairs, list(clinical.reworded_pairs())), trains)
    rows, others = (list(task.kind.expand(part, settings, experiment)) for part in (every, others))
    stated = {row["pair_id"] for row in rows if row.get("trial", "1") == "1"}
    factless = len({row["pair_id"] for row in every}) - len(stated)
    return replace(task, rows=[*rows, *others], n_prompts=len(rows), notes=clinical, factless=factless)


def note_rows(experiment: Experiment, notes: Notes, pairs: Sequence[Row], trains: bool) -> list[dict[str, str]]:
    """The prompts of an experiment: each test pair once a regime, or each test note as written and neutralised."""
    if kind_of(experiment.kind).rows(experiment) == VERSIONS:
        rows = notes.versions({pair["pair_id"] for pair in pairs})
    else:
        regimes = experiment.regimes if trains and experiment.regimes else (AS_TRAINED,)
        rows = [{**row, "construct": regime} for regime in regimes for row in pairs]
    return [
        {**row, "experiment": experiment.name, "prompt_id": f"{row['prompt_id']}/{row['construct']}"} for row in rows
    ]


def _with_wordings(experiment: Experiment, settings: Settings) -> bool:
    """Whether rows in other wordings are read: where nothing is said, of whole configs that are not slow."""
    usual = settings.limit is None and not experiment.on_request
    return usual if settings.wordings is None else settings.wordings


def _reworded(rows: Sequence[Row], placebo: Sequence[Row]) -> Sequence[Row]:
    """Other wordings of the rows that are read."""
    pairs = set(column(rows, "pair_id"))
    return only(placebo, (pair.rpartition("/w")[0] in pairs for pair in column(placebo, "pair_id")))


def _some_of(placebo: Sequence[Row]) -> Sequence[Row]:
    """At most so many rows: of so many conditions of each label one."""
    of_rows = list(zip(column(placebo, "label"), column(placebo, "condition"), strict=True))
    numbers: dict[str, dict[str, int]] = {}
    for label, condition in of_rows:
        conditions = numbers.setdefault(label, {})
        conditions.setdefault(condition, len(conditions))
    step = -(-len(placebo) // _MOST_PLACEBO)
    return only(placebo, (numbers[label][condition] % step == 0 for label, condition in of_rows))


def _limited(rows: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(column(rows, "pair_id")))
    count = max(1, limit * len(pairs) // len(rows))
    chosen = {pairs[index * len(pairs) // count] for index in range(count)}
    return only(rows, (pair in chosen for pair in column(rows, "pair_id")))


def _affordable(rows: Sequence[Row], passes: int) -> Sequence[Row]:
    """As many rows as a share of the calls can read: whole pairs, spread evenly."""
    calls = passes * len(set(column(rows, "text")))
    return rows if calls <= _MOST_CALLS else _limited(rows, max(1, len(rows) * _MOST_CALLS // calls))


# --- what is known of a plan ------------------------------------------------------------------------------


def default_folder(settings: Settings) -> Path:
    """``swapbias-runs/<model>-<time>``, with a number of those that began in one second."""
    name = short_name(settings.model) if settings.model else "default"
    safe = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)
    folder = Path("swapbias-runs") / f"{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    every = (folder.with_name(f"{folder.name}-{number}") if number > 1 else folder for number in count(1))
    return next(one for one in every if not one.exists())


def run_prompts(manifest: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, str]]:
    """What a run asks by study, experiment and prompt, made from its settings and the corpora as they are installed.

    Raises:
        ValueError: its settings are not of this version, or a corpus is not at hand.
    """
    settings = Settings.from_manifest(manifest["settings"])
    tasks, _ = plan_tasks(settings, kind=kind_of_manifest(manifest, settings))
    return {(task.study.name, task.experiment.name, row["prompt_id"]): row for task in tasks for row in task.rows}


def kind_of_manifest(manifest: Mapping[str, Any], settings: Settings) -> str | None:
    """The kind of the model that a run read; None where no model is named: each experiment has a default then."""
    read = [str(one.get("kind")) for one in manifest.get("models", ())]
    return next((one for one in read if one in model_kinds()), None) if settings.model else None


def fingerprints(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """What was read: corpus, configs, row count, sha256 of the rows and of the word lists of each task."""
    return [
        {
            "corpus": task.corpus,
            "config": ", ".join(task.configs),
            "rows": task.n_prompts,
            **({"of": task.n_available} if task.n_available else {}),
            "sha256": fingerprint(task.rows[: task.n_prompts]),
            **({"beside": fingerprint(beside)} if (beside := task.rows[task.n_prompts :]) else {}),
            "lexicons": _lexicons(task),
            **({"training": fingerprint(task.notes.rows)} if task.notes else {}),
        }
        for task in tasks
    ]


def _lexicons(task: Task) -> dict[str, str]:
    """sha256 of each word list that the rows count: an edited list is another measurement."""
    names = sorted({name.rpartition("/")[0] for name in set(column(task.rows, "candidates"))} - {""})
    return {
        name: fingerprint({"word": word, "label": label} for word, label in load_lexicon(name).entries())
        for name in names
    }


def partial_note(tasks: Sequence[Task]) -> str:
    """Which experiments read a part of their prompts, and how all are read, in one sentence; blank for none."""
    parts = [task for task in tasks if task.n_available]
    counts = (f"{one.study.name} {one.experiment.name} ({one.n_prompts:,} of {one.n_available:,})" for one in parts)
    named = " ".join(f"--study {name}" for name in dict.fromkeys(one.study.name for one in parts))
    return (
        f"Slow experiments read a part of their prompts: {', '.join(counts)}. Read all with {named}." if parts else ""
    )


def _distinct(task: Task) -> Task:
    """A task on the user's own prompts without pairs of the same texts as another: they are no further evidence.

    Pairs of several subsets, values of the primary slice, labels or versions are never the same.
    """
    experiment, own = task.experiment, task.notes is not None or task.study.name in own_studies()
    if not own or experiment.measure != "paired_gap":
        return task
    answered_by = next((one.column for one in experiment.slices if one.name == experiment.headline_slice), "")
    names = ["group", "side", "text", "candidates", "wording", "trial", experiment.subset, answered_by]
    names += ["label", "version"] if experiment.rates else []
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
        task, rows=only(task.rows, read), n_prompts=sum(read[: task.n_prompts]),
        repeats=f"{note} another pair's texts and count once.",
    )  # fmt: skip


def repeat_notes(tasks: Sequence[Task]) -> list[str]:
    """Of prompts of the user's own how many pairs are of the same texts as another, a sentence an experiment."""
    return list(dict.fromkeys(one.repeats for one in tasks if one.repeats))


def study_designs(corpus: Corpus) -> Iterator[str]:
    """Of each experiment of a user's own study how many prompts it has, and the smallest gap that it could find."""
    if corpus.study is None:
        return
    for experiment in corpus.study.experiments:
        rows = having(checked_rows(corpus, experiment.configs[0]), experiment=experiment.name)
        task = Task(corpus.study, experiment, experiment.configs, "", rows, len(rows))
        yield f"{corpus.name} {experiment.name}: {len(rows)} prompts; {design_note(task)}."


def design_note(task: Task) -> str:
    """What a planned gap is over, and how large one must be to be found; blank where there is none."""
    from swapbias.findings import ANSWERS, planned_gap, planned_units
    from swapbias.report import detects

    experiment, rows = task.experiment, task.rows[: task.n_prompts]
    if not experiment.measure:
        return ""
    rows = only(rows, (trial == "1" for trial in column(rows, "trial", "1")))  # trials are no further prompts
    sides, clusters = planned_units(experiment, rows)
    what = "conditions" if experiment.aggregate else "sentences" if ANSWERS in experiment.rates else "pairs"
    over = " x ".join(f"{len(set(codes.tolist())):,} {name}" for name, codes in clusters.items())
    units = f"{len(sides):,} {what}{'' if list(clusters) == [what] else f', {over}'}"
    gap = planned_gap(task.study, experiment, rows)
    if math.isnan(gap):
        return f"{units}; the gap that it could find is unknown before a run"
    return f"{units}; {detects(gap, experiment.unit)}, if the model varies like published ones"
