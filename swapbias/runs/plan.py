"""What an audit will do: its settings, which experiments fit the model, which prompts they read."""

import json
import math
import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from swapbias import swapping
from swapbias.errors import UsageError, quoted
from swapbias.files import is_there, parse_json
from swapbias.models import (
    PROMPTS,
    VADER,
    VERSIONS,
    Kind,
    LoadOptions,
    Request,
    kind_of,
    kinds,
    model_kind,
    model_kinds,
    settable,
    short_name,
    with_revision,
)
from swapbias.models.clinical import NoteOptions
from swapbias.notes import NAME, PHENOTYPES, Notes, kind_of_folder, local_notes, with_genders
from swapbias.privacy import is_credentialed
from swapbias.runs.judge import announced
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
    of_a_part,
    only,
    own_studies,
    part_of,
    studies,
    unknown,
)

AS_TRAINED = "as trained"  # the regime of a classifier that was trained elsewhere
_MOST_PLACEBO = 5_000  # rows in other wordings that are read for an experiment
_MOST_CALLS = 8_000  # of a model, for an experiment that is slow and was not asked for by name
_TEST_SHARE = 3  # one subject in so many, where own notes name no split


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Request):
    """What to audit and how; stands in the manifest, so that a run can be resumed or repeated.

    ``studies`` holds ``name`` or ``name:config``; empty means all. ``limit`` is the most rows per config; a gap
    below ``margin`` (a share of the range of its unit; None: as its study says, else .05) counts as none.
    ``wordings``: read prompts in other wordings
    too; None: of experiments that are not run on request alone, where nothing is limited.
    """

    studies: tuple[str, ...] = ()
    limit: int | None = None
    margin: float | None = None
    wordings: bool | None = None

    def saved(self) -> dict[str, Any]:
        """As a manifest has them: the options of each kind under their key."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        chosen = (self.load, *(self.of(one.options) for one in kinds() if one.options))
        return {**plain, **{one.key: _saved(one) for one in chosen}}

    @classmethod
    def from_manifest(cls, saved: Mapping[str, Any]) -> "Settings":
        """The settings of a manifest.

        Raises:
            ValueError: they are not those of this version.
        """
        try:
            rest = dict(saved)
            load = _validated(LoadOptions, _savable(LoadOptions), rest.pop("load"))
            made = [one.options for one in kinds() if one.options]
            options = tuple(_validated(one, _savable(one), rest.pop(one.key)) for one in made)
            plain: Settings = _validated(cls, _PLAIN, {"studies": rest.pop("studies"), **rest})
            # Pickles are asked of whoever goes on.
            return replace(plain, load=replace(load, allow_pickle=False), options=options)
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(
                f"The manifest's settings are not of this version ({str(error)[:200]}). Start a new run."
            ) from error


_PLAIN = tuple(one.name for one in fields(Settings) if one.name not in ("load", "options"))


def access_of(settings: Settings | None) -> dict[str, Any]:
    """What no manifest says of these settings, as ``with_access`` takes it."""
    chosen = [settings.of(one.options) for one in kinds() if one.options] if settings else []
    return {
        field.metadata.get("name", field.name): getattr(one, field.name)
        for one in chosen
        for field in fields(one)
        if field.metadata.get("unsaved")
    }


def with_access(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with what no manifest says, by the names of the command line: keys, and ways to a service."""
    held = []
    for one in (settings.of(kind.options) for kind in kinds() if kind.options):
        named = {
            field.name: given[name]
            for field in fields(one)
            if field.metadata.get("unsaved") and (name := field.metadata.get("name", field.name)) in given
        }
        held.append(replace(one, **named) if named else one)
    return replace(settings, options=tuple(held))


def read_request(path: Path) -> tuple[list[str], Settings, dict[str, Any] | None]:
    """Models, settings and the run to repeat of a file: an ``audit.toml``, or the ``manifest.json`` of a run.

    A TOML file has ``models`` (or ``model``), ``studies`` and the other settings by their names, those of loading in
    ``[load]`` and those of a kind in a table of its own, as a manifest has them; what is left out is as usual. Models
    and notes are found beside the file.

    Returns:
        No model: none is named. The manifest is None for a TOML file.

    Raises:
        UsageError: a setting that there is not. ValueError: a file that cannot be read.
    """
    content = path.read_bytes()
    try:
        read: Any = tomllib.loads(content.decode()) if path.suffix == ".toml" else parse_json(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}). Mend it.") from error
    if path.suffix != ".toml":
        if not isinstance(read, dict) or not {"settings", "corpora"} <= read.keys():
            raise ValueError(f"{path} is no manifest of a run: it has no settings and corpora. Give another file.")
        settings = Settings.from_manifest(read["settings"])
        return [settings.model] if settings.model else [], settings, read
    models = read.pop("models", None) or [one for one in (read.pop("model", None),) if one]
    if not isinstance(models, list) or not all(isinstance(one, str) for one in models):
        raise UsageError(f"{path}: models is {quoted(models)}, expected a list of names. Correct it.")
    usual = Settings().saved()
    for name, value in read.items():
        _known(path, name, sorted({*usual, "models"}))
        if isinstance(usual[name], dict):
            for inner in value if isinstance(value, dict) else ():
                _known(path, inner, sorted(usual[name]), f" of [{name}]")
        usual[name] = {**usual[name], **value} if isinstance(usual[name], dict) and isinstance(value, dict) else value
    if isinstance(usual["margin"], int):
        usual["margin"] = float(usual["margin"])
    try:
        settings = Settings.from_manifest(usual)
    except ValueError as error:
        raise UsageError(f"{path}: a setting is of the wrong type ({error.__cause__}). Correct it.") from error
    beside = [str((path.parent / one).resolve()) if is_there(path.parent / one) else one for one in models]
    return beside, _spelled(replace(settings, model=beside[0] if beside else None)), None


def _known(path: Path, name: str, known: Sequence[str], where: str = "") -> None:
    if name not in known:
        raise unknown(f"setting{where} in {path}", name, known)


def settings_of(
    model: str | None,
    studies: Sequence[str],
    given: Mapping[str, Any],
    *,
    revision: str | None = None,
    **more: Any,
) -> Settings:
    """Settings from what a user gave.

    Args:
        model: as a user names it; places of this machine become absolute, so that a run can go on from anywhere.
        studies: ``name`` or ``name:config``.
        given: options of loading and of kinds, by the names that the command line has; what is not given is default.
        revision: of a model on the Hub, which its name then carries.
        more: further fields of ``Settings``.

    Raises:
        UsageError: an option that no kind has, a revision of no model on the Hub.
    """
    made = (LoadOptions, *(one.options for one in kinds() if one.options))
    known = [one.metadata.get("name", one.name) for own in made for one, _ in settable(own)]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Expected one of {', '.join(sorted(known))}."
            raise UsageError(f"Unknown option {quoted(name)}. {hint}")
    load, *options = (_filled(own, given) for own in made)
    named = _absolute(model, (VADER,)) if model else None
    if revision is not None:
        named = with_revision(None if named == VADER else named, revision)
    return _spelled(Settings(model=named, studies=tuple(studies), load=load, options=tuple(options), **more))


def _spelled(settings: Settings) -> Settings:
    """The settings with what the options of kinds say by pointing at it.

    Raises:
        UsageError: they name the studies, and so does the user.
    """
    own = {one.options: one.resolve(settings.of(one.options)) for one in kinds() if one.options}
    studies = tuple(name for _, names in own.values() for name in names)
    if studies and settings.studies:
        raise UsageError(
            f"A log says which study was asked, and {', '.join(settings.studies)} is named too. Drop it."
        )
    spelled = tuple(own[type(one)][0] if type(one) in own else one for one in settings.options)
    return replace(settings, options=spelled, studies=settings.studies or studies)


def _filled(made: Any, given: Mapping[str, Any]) -> Any:
    """Options of this class with what was given."""
    values = {}
    for one, hint in settable(made):
        many = get_origin(hint) is tuple
        value = given.get(one.metadata.get("name", one.name), None if many else one.default)
        listed = tuple([value] if isinstance(value, str) else value or ()) if many else (value,)
        if one.metadata.get("place"):
            listed = tuple(item and _absolute(item, one.metadata.get("words", ())) for item in listed)
        values[one.name] = listed if many else listed[0]
    return made(**values)


def _absolute(model: str, words: Sequence[str]) -> str:
    """A model, or NAME=PATH, with the path of a local file or folder made absolute, so that a run can go on."""
    if model in words:  # a folder of that name does not matter
        return model
    name, equals, path = ("", "", model) if is_there(model) else model.partition("=")  # lr=1e-5 may be a folder
    return f"{name}{equals}{_resolved(path)}" if equals else _resolved(model)


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if is_there(model) else model


def _saved(options: Any) -> dict[str, Any]:
    """What a user can set of some options, by name."""
    return {name: getattr(options, name) for name in _savable(options)}


def _savable(options: Any) -> list[str]:
    return [one.name for one in fields(options) if "help" in one.metadata and not one.metadata.get("unsaved")]


def _validated(made: Any, names: Iterable[str], saved: Mapping[str, Any]) -> Any:
    """A dataclass with these saved values of its fields: a manifest may be anybody's.

    Raises:
        ValueError: another name, or a value of another type.
    """
    hints = get_type_hints(made)
    strict = ConfigDict(strict=True, extra="forbid", protected_namespaces=())
    types: dict[str, Any] = {name: (hints[name], None) for name in names}
    model = create_model(made.__name__, __config__=strict, **types)
    try:
        checked = model.model_validate_json(json.dumps(saved))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{quoted('.'.join(map(str, first['loc'])))}: {first['msg']}") from None
    return made(**{name: getattr(checked, name) for name in checked.model_fields_set})


@dataclass(frozen=True, slots=True)
class Task:
    """One experiment on one model, with the rows it reads: the first ``asked`` are of its configs.

    Where only a part of these is read, for it is slow and was not asked for by name, ``whole`` is how many there are.
    """

    study: Study
    experiment: Experiment
    configs: tuple[str, ...]
    model: str
    rows: Sequence[Row]
    asked: int
    notes: Notes | None = None  # what classifiers are trained on
    whole: int = 0
    factless: int = 0  # notes that are not asked, for they state nothing that an answer could keep

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


def plan(settings: Settings, *, kind: str | None = None) -> tuple[list[Task], list[Skipped]]:
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
    own = [study for one in kinds() if one.is_requested(settings) for study in _meant(one, settings)]
    chosen = [_study_and_config(name) for name in settings.studies or dict.fromkeys(own) or _usual()]
    if kind is None and settings.model is not None:
        kind = model_kind(settings.model, settings.kind, load=settings.load)
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    options = settings.of(NoteOptions)
    notes = cache(
        lambda corpus, trains, labelled: load_notes(options, settings.seed, corpus, trains=trains, labelled=labelled)
    )
    for study, config in chosen:
        for experiment in study.experiments:
            configured = (*experiment.configs, *experiment.alternatives)
            if config and config not in (configured if config in _configs_of(study) else (experiment.name,)):
                continue
            if own and not settings.studies and settings.model is None and kind_of(experiment.kind).default:
                continue  # a chat model is named, and nobody asked for the model that is read where none is
            if any((task.study, task.experiment) == (study, experiment) for task in tasks):
                raise UsageError(f"{study.name} {experiment.name} is named twice. Name it once, with one config.")
            unasked = experiment.on_request and not settings.studies and study.name not in own
            fits = kind_of(experiment.kind).fits(experiment, settings, kind)
            if unasked and settings.model is None and not all(why for _, why in fits):
                why = f"it takes many times as long as the others; run it with --study {study.name}"
                skipped.append(Skipped(study.name, experiment.name, why))
                continue
            configs = (config,) if config in configured else experiment.configs
            found, left = _tasks(study, experiment, configs, settings, kind, notes, bounded=unasked)
            tasks += found
            skipped += left
    skipped = [one for one in skipped if not _read_otherwise(one, tasks)]
    if not tasks:
        reasons = "; ".join(f"{one.study} {one.experiment}: {one.reason}" for one in skipped)
        raise UsageError(f"Nothing to audit: {reasons}. Choose another model or --study.")
    for one in kinds():
        if one.is_requested(settings) and not any(task.kind is one for task in tasks):
            raise UsageError(f"{one.unused_note(settings, ' and '.join(_studies_of(one)))} Name it as well.")
    return tasks, skipped


def _read_otherwise(left: Skipped, tasks: Sequence[Task]) -> bool:
    """Whether a study of the user's own has the same prompts read by the kind of model that there is."""
    read = {name for task in tasks if task.study.name == left.study for name in task.configs}
    named = load_study(left.study).experiments if left.study in own_studies() else ()
    return any(one.name == left.experiment and set(one.configs) <= read for one in named)


def _usual() -> list[str]:
    """The studies of an audit that names none."""
    return [name for name in studies() if not load_study(name).on_request]


def _meant(kind: Kind, settings: Settings) -> list[str]:
    """The studies that settings of a kind ask for: those about notes where notes are given, the others else."""
    several, given = _studies_of(kind), settings.of(NoteOptions).data is not None
    return [name for name in several if _of_notes(name, kind) == given] or several


def _of_notes(study: str, kind: Kind) -> bool:
    return any(kind.rows(one) != PROMPTS for one in load_study(study).experiments if one.kind == kind.name)


def _studies_of(kind: Kind) -> list[str]:
    """The studies with an experiment for a kind of model."""
    return [name for name in studies() if any(one.kind == kind.name for one in load_study(name).experiments)]


def _tasks(
    study: Study,
    experiment: Experiment,
    configs: tuple[str, ...],
    settings: Settings,
    kind: str | None,
    notes: Callable[[str, bool, bool], Notes],
    *,
    bounded: bool,
) -> tuple[list[Task], list[Skipped]]:
    """An experiment on each model that fits, and what of it is left out; ``bounded``: at most so many calls."""
    tasks, reasons = [], []
    for model, why in kind_of(experiment.kind).fits(experiment, settings, kind):
        task = None if why else _task(study, experiment, configs, model, settings, notes, bounded=bounded)
        why = why if task is None else _unreadable(task, settings)
        tasks += [task] if task and not why else []
        reasons += [(experiment.name, why)] if why else []
        if task and task.notes and experiment.regimes and task.kind.trains(settings):
            untrained = ((f"{experiment.name}, {one}", left) for one, left in task.notes.untrainable().items())
            reasons += [one for one in untrained if one not in reasons]
    if tasks and tasks[0].notes:
        told = tasks[0].notes.remarks()
        told += tasks[0].notes.unperformed() if "actual" in experiment.rates else []
        if tasks[0].factless:
            told.append(f"notes left out because they state no fact of the checklist: {tasks[0].factless}")
        reasons += [(part_of(experiment.name), one) for one in told]
    return tasks, [Skipped(study.name, name, why) for name, why in reasons]


def _task(
    study: Study,
    experiment: Experiment,
    configs: tuple[str, ...],
    model: str,
    settings: Settings,
    notes: Callable[[str, bool, bool], Notes],
    *,
    bounded: bool,
) -> Task:
    kind = kind_of(experiment.kind)
    if kind.rows(experiment) == PROMPTS:
        every = [_limited(config_rows(study.name, name), settings.limit) for name in configs]
        read = [
            _affordable(rows, len(every) * kind.readings[experiment.reading].passes) if bounded else rows
            for rows in every
        ]
        # Two experiments may read one config.
        rows = joined(having(part, experiment=experiment.name) for part in read)
        whole = sum(map(len, every)) if rows and len(rows) < sum(map(len, every)) else 0
        # The calibration model knows nothing but the prompts that it is trained on.
        usual = configs == experiment.configs and not (experiment.calibrated and settings.model is None)
        beside: Sequence[Row] = ()
        if usual:
            beside = joined([_baseline(study, experiment, settings), _placebo(study, experiment, rows, settings)])
        asked = kind.expand(rows, settings, experiment)
        return Task(
            study, experiment, configs, model, joined([asked, kind.expand(beside, settings, experiment)]), len(asked),
            whole=whole,
        )  # fmt: skip
    trains = kind.trains(settings)
    clinical = notes(experiment.corpus, trains, bool(experiment.rates))
    left_out = clinical.untrainable() if trains else {}
    pairs = _limited([pair for pair in clinical.pairs() if pair["condition"] not in left_out], settings.limit)
    rows = note_rows(experiment, clinical, pairs, trains)
    beside = []
    if experiment.placebo and _with_wordings(experiment, settings):
        beside = note_rows(experiment, clinical, _reworded(pairs, list(clinical.reworded_pairs())), trains)
    asked, beside = (kind.expand(part, settings, experiment) for part in (rows, beside))
    factless = len({row["pair_id"] for row in rows}) - len(
        {row["pair_id"] for row in asked if row.get("trial", "1") == "1"}
    )
    return Task(study, experiment, configs, model, [*asked, *beside], len(asked), clinical, factless=factless)


def _with_wordings(experiment: Experiment, settings: Settings) -> bool:
    """Whether rows beside the prompts are read: where nothing is said, of whole configs that are not slow."""
    usual = settings.limit is None and not experiment.on_request
    return usual if settings.wordings is None else settings.wordings


def _baseline(study: Study, experiment: Experiment, settings: Settings) -> Sequence[Row]:
    names = experiment.baseline if _with_wordings(experiment, settings) else ()
    return joined(having(config_rows(study.name, name), experiment=experiment.name) for name in names)


def _placebo(study: Study, experiment: Experiment, rows: Sequence[Row], settings: Settings) -> Sequence[Row]:
    """Other wordings of the rows that are read."""
    if not _with_wordings(experiment, settings):
        return []
    chosen = _reworded(rows, joined(config_rows(study.name, name) for name in experiment.placebo))
    labels: dict[str, dict[str, int]] = {}
    for label, condition in zip(column(chosen, "label"), column(chosen, "condition"), strict=True):
        conditions = labels.setdefault(label, {})
        conditions.setdefault(condition, len(conditions))
    step = -(-len(chosen) // _MOST_PLACEBO)  # of so many conditions of each label one
    told = zip(column(chosen, "label"), column(chosen, "condition"), strict=True)
    kept = only(chosen, (labels[label][condition] % step == 0 for label, condition in told))
    return having(kept, experiment=experiment.name)


def _reworded(rows: Sequence[Row], placebo: Sequence[Row]) -> Sequence[Row]:
    pairs = set(column(rows, "pair_id"))
    return only(placebo, (pair.rpartition("/w")[0] in pairs for pair in column(placebo, "pair_id")))


def _unreadable(task: Task, settings: Settings) -> str:
    """Why an experiment on notes has nothing to read or to learn from; blank where it has.

    Raises:
        UsageError: of no model or experiment: the notes or the checklist have to be others.
    """
    if task.notes is None:
        return ""
    if not task.rows and task.factless:
        raise UsageError(
            "No test note states a fact of the checklist in both of its versions. Name other facts with -M checklist."
        )
    if task.notes.rows and not any(one["split"] == "test" for one in task.notes.rows):
        raise UsageError(
            f"None of the {len(task.notes.rows)} notes has the split test. Mark some in the column split, or leave "
            "that column out: then all are tested."
        )
    if not task.rows:
        return "no test note with a known gender is left" + (
            "" if not task.kind.trains(settings) else ", of a phenotype that a classifier can be trained for"
        )
    return task.notes.unlearnable_gender() if task.kind.rows(task.experiment) == VERSIONS else ""


def load_notes(
    settings: NoteOptions, seed: int, corpus: str = NAME, *, trains: bool | None = None, labelled: bool = True
) -> Notes:
    """The notes to audit with, every one with its gender where the text tells it.

    Own notes that name no split are all tested where nothing ``trains`` on them (None: as the classifier is), and
    need no labels unless they are to be ``labelled``.

    Raises:
        UsageError: nothing in the folder that can be read. ValueError: broken notes.
    """
    swapper = swapping.Swapper(whose="patient")
    if settings.data is None:
        rows: list[dict[str, str]] = [
            row for phenotype in PHENOTYPES for row in config_rows(corpus, f"{phenotype}-original")
        ]
        return Notes("synthetic", tuple(rows), swapper, settings.plausible, _known_versions(corpus))
    folder = Path(settings.data)
    rows = with_genders(local_notes(folder, seed=seed, labelled=labelled), swapper)
    if is_credentialed(folder):
        rows = [{**row, "credentialed": "True"} for row in rows]
    if (settings.trains if trains is None else trains) and not any(row["split"] == "train" for row in rows):
        rows = _split(rows, seed)
    return Notes(kind_of_folder(folder), tuple(rows), swapper, settings.plausible)


def _known_versions(corpus: str) -> dict[str, str]:
    """The texts of a corpus of notes and what they are in the other gender."""
    configs = [(f"{phenotype}-original", f"{phenotype}-swapped") for phenotype in PHENOTYPES]
    found = {
        one["text"]: other["text"]
        for names in configs
        for one, other in zip(*(config_rows(corpus, name) for name in names), strict=True)
        if one["split"] == "train"
    }
    pairs = config_rows(corpus, "pairs")
    return found | {one["text"]: other["text"] for one, other in zip(pairs[::2], pairs[1::2], strict=True)}


def _split(rows: Sequence[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """Own notes without a split: a third of the subjects are for testing, drawn by the seed."""
    subjects = sorted({row["subject_id"] for row in rows})
    random.Random(f"{seed}/split").shuffle(subjects)
    tested = set(subjects[::_TEST_SHARE])
    return [{**row, "split": "test" if row["subject_id"] in tested else "train"} for row in rows]


def note_rows(
    experiment: Experiment, notes: Notes, pairs: Sequence[dict[str, str]], trains: bool
) -> list[dict[str, str]]:
    """The prompts of an experiment: each test pair once a regime, or each test note as written and neutralised."""
    if kind_of(experiment.kind).rows(experiment) == VERSIONS:
        wanted = {pair["pair_id"] for pair in pairs}
        return [{**row, "experiment": experiment.name, "prompt_id": _in(row)} for row in notes.versions(wanted)]
    regimes = experiment.regimes if trains and experiment.regimes else (AS_TRAINED,)
    rows = [{**row, "construct": regime, "experiment": experiment.name} for regime in regimes for row in pairs]
    return [{**row, "prompt_id": _in(row)} for row in rows]


def _in(row: dict[str, str]) -> str:
    return f"{row['prompt_id']}/{row['construct']}"


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = dict.fromkeys([*_configs_of(study), *(one.name for one in study.experiments)])
    if config and config not in known:
        told, near = quoted(config), did_you_mean(config, list(known))
        raise UsageError(f"Unknown config {told} of {study_name}: expected one of {', '.join(known)}.{near}")
    return study, config


def _configs_of(study: Study) -> list[str]:
    return [config for one in study.experiments for config in (*one.configs, *one.alternatives)]


def default_folder(settings: Settings) -> Path:
    """``swapbias-runs/<model>-<time>``, with a number of those that began in one second."""
    name = short_name(settings.model) if settings.model else "default"
    safe = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)
    folder = Path("swapbias-runs") / f"{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def prompts_asked(manifest: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, str]]:
    """What a run asks by study, experiment and prompt, made from its settings and the corpora as they are installed.

    Raises:
        ValueError: its settings are not of this version, or a corpus is not at hand.
    """
    settings = Settings.from_manifest(manifest["settings"])
    tasks, _ = plan(settings, kind=kind_of_manifest(manifest, settings))
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
            "rows": task.asked,
            **({"of": task.whole} if task.whole else {}),
            "sha256": fingerprint(task.rows[: task.asked]),
            **({"beside": fingerprint(beside)} if (beside := task.rows[task.asked :]) else {}),
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


def _limited(rows: Sequence[Row], limit: int | None) -> Sequence[Row]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(column(rows, "pair_id")))
    count = max(1, limit * len(pairs) // len(rows))
    kept = {pairs[index * len(pairs) // count] for index in range(count)}
    return only(rows, (pair in kept for pair in column(rows, "pair_id")))


def _affordable(rows: Sequence[Row], passes: int) -> Sequence[Row]:
    """As many rows as a share of the calls can read: whole pairs, spread evenly."""
    calls = passes * len(set(column(rows, "text")))
    return rows if calls <= _MOST_CALLS else _limited(rows, max(1, len(rows) * _MOST_CALLS // calls))


def partial_note(tasks: Sequence[Task]) -> str:
    """Which experiments read a part of their prompts alone, and how all are read, in one sentence; blank for none."""
    parts = [task for task in tasks if task.whole]
    told = ", ".join(f"{one.study.name} {one.experiment.name} ({one.asked:,} of {one.whole:,})" for one in parts)
    named = " ".join(f"--study {name}" for name in dict.fromkeys(one.study.name for one in parts))
    return f"Slow experiments read a part of their prompts: {told}. Read all with {named}." if parts else ""


def repeat_notes(tasks: Sequence[Task]) -> list[str]:
    """Of prompts of the user's own how many pairs are of the same texts as another, a sentence an experiment."""
    own = [one for one in tasks if one.notes is not None or one.study.name in own_studies()]
    if not own:
        return []
    from swapbias.findings import repeated_pairs  # takes long to import: the package's own studies repeat nothing

    found = ((f"{one.study.name} {one.experiment.name}", *repeated_pairs(one.experiment, one.rows)) for one in own)
    return [
        f"{name}: {repeated:,} of {pairs:,} pairs repeat another pair's texts and count once."
        for name, repeated, pairs in dict.fromkeys(found)
        if repeated
    ]


def skipped_note(skipped: Sequence[Skipped], ran: Iterable[str]) -> str:
    """What was not run, and what is to be known of the rest; what needs another kind of model is counted.

    Blank for nothing. What is told of a part of an experiment's rows is told once for all experiments.

    Args:
        skipped: what and why.
        ran: the kinds of the experiments that were run.
    """
    kinds_run, others, reasons = set(ran), Counter[str](), dict[str, list[str]]()
    told = dict.fromkeys(one.reason for one in skipped if of_a_part(one.experiment))
    for one in skipped:
        if of_a_part(one.experiment):
            continue
        known = (each.kind for each in load_study(one.study).experiments if each.name == one.experiment)
        kind = next(known, "")
        if kind and kind not in kinds_run:
            others[kind] += 1
        else:
            reasons.setdefault(one.reason, []).append(f"{one.study} {one.experiment}")
    parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    if others:
        counted = ", ".join(f"{count} for {name} models" for name, count in others.items())
        parts.append(f"experiments for other kinds of models: {counted} (swapbias list)")
    not_run = f"Not run: {'; '.join(parts)}." if parts else ""
    return " ".join(filter(None, (not_run, f"Of what was read: {'; '.join(told)}." if told else "")))


def plan_sentences(settings: Settings) -> Iterator[str]:
    """Sentences: each experiment with its prompts, what asking takes, what it could find, and what would not run.

    Raises:
        UsageError, ValueError: as ``plan``, and where only the Hub could tell what kind a model is.
    """
    kind = (
        None
        if settings.model is None
        else model_kind(settings.model, settings.kind, ask_hub=False, load=settings.load)
    )
    tasks, skipped = plan(settings, kind=kind)
    known: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for task in tasks:
        beside = f" and {len(task.rows) - task.asked} beside them" if len(task.rows) > task.asked else ""
        told = f"{task.study.name} {task.experiment.name}: {task.asked} prompts{beside} for {task.model}"
        before = known.setdefault((task.kind.name, task.model), set())
        sent = [task.kind.sent(row, settings) for row in task.rows]
        # A text is asked once, whoever reads it.
        fresh = only(task.rows, (not before.issuperset(one) for one in sent))
        before.update(text for one in sent for text in one)
        asked = task.kind.announce(fresh, settings) if fresh else "asked by the experiments above."
        yield "; ".join(filter(None, (told, asked)))
        yield from filter(None, [announced(task, settings)])
        design = "; ".join(filter(None, (design_note(task), task.kind.calls(task.experiment, task.rows))))
        yield from [f"{design}."] if design else []
    yield from repeat_notes(tasks)
    yield from filter(None, (partial_note(tasks), skipped_note(skipped, (task.kind.name for task in tasks))))


def study_designs(corpus: Corpus) -> Iterator[str]:
    """Of each experiment of a user's own study how many prompts it has, and the smallest gap that it could find."""
    for experiment in corpus.study.experiments if corpus.study else ():
        rows = having(checked_rows(corpus, experiment.configs[0]), experiment=experiment.name)
        task = Task(corpus.study, experiment, experiment.configs, "", rows, len(rows))  # type: ignore[arg-type]
        yield f"{corpus.name} {experiment.name}: {len(rows)} prompts; {design_note(task)}."


def design_note(task: Task) -> str:
    """What a planned gap is over, and how large one must be to be found; blank where there is none."""
    from swapbias.findings import ANSWERS, planned_gap, planned_units
    from swapbias.report import detects

    experiment = task.experiment
    if not experiment.measure:
        return ""
    asked = task.rows[: task.asked]
    asked = only(asked, (trial == "1" for trial in column(asked, "trial", "1")))  # trials are no further prompts
    sides, clusters = planned_units(experiment, asked)
    what = "conditions" if experiment.aggregate else "sentences" if ANSWERS in experiment.rates else "pairs"
    over = " x ".join(f"{len(set(codes.tolist())):,} {name}" for name, codes in clusters.items())
    gap = planned_gap(task.study, experiment, asked)
    found = "the gap that it could find is unknown before a run"
    if not math.isnan(gap):
        found = f"{detects(gap, experiment.unit)}, if the model varies like published ones"
    told = f"{len(sides):,} {what}{'' if list(clusters) == [what] else f', {over}'}"
    return f"{told}; {found}"
