"""What an audit will do: its settings, which experiments fit the model, which prompts they read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from swapbias.audit.clinical import NoteSettings, load_notes, note_rows
from swapbias.errors import UsageError
from swapbias.notes import Notes
from swapbias.scorers import KINDS, VADER, LoadOptions, is_callable, model_kind
from swapbias.scorers.chat import ChatSettings, asked_rows, planned_requests
from swapbias.studies import Experiment, Study, config_rows, fingerprint, load_lexicon, load_study, studies

CALIBRATION = "calibration"
EMBEDDING = "embedding"  # the kind that reads notes and words through --embedding
NOTE_STUDY = "phenotype_fairness"
CHAT = "chat"  # the kind that answers through --chat
CHAT_STUDY = "adjective_coreference"
CALIBRATED = ("rq1",)  # experiments that the calibration model is trained for
_DEFAULT_MODELS = {"masked": CALIBRATION, "classifier": VADER}  # no causal model is embedded


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to audit and how; stands in the manifest, so that a run can be resumed or repeated.

    ``studies`` holds ``name`` or ``name:config``; empty means all. ``limit`` is the most rows per config.
    """

    model: str | None = None
    studies: tuple[str, ...] = ()
    kind: str | None = None
    limit: int | None = None
    seed: int = 0
    load: LoadOptions = field(default_factory=LoadOptions)
    notes: NoteSettings = field(default_factory=NoteSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)

    @classmethod
    def from_manifest(cls, saved: Mapping[str, Any]) -> "Settings":
        """The settings of a manifest.

        Raises:
            ValueError: they are not those of this version.
        """
        try:
            notes = NoteSettings(**{**saved["notes"], "embeddings": tuple(saved["notes"]["embeddings"])})
            load = LoadOptions(**{**saved["load"], "allow_pickle": False})  # asked of whoever goes on with a run
            made = {"studies": tuple(saved["studies"]), "load": load, "notes": notes}
            made["chat"] = ChatSettings(**saved["chat"])
            found = cls(**{**saved, **made})
            if not isinstance(found.limit, int | None) or not isinstance(found.seed, int):
                raise TypeError(f"limit {found.limit!r}, seed {found.seed!r}")
            return found
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"The manifest's settings are not of this version ({error}). Start a new run."
            ) from error


@dataclass(frozen=True, slots=True)
class Task:
    """One experiment on one model, with the rows it reads."""

    study: Study
    experiment: Experiment
    configs: tuple[str, ...]
    model: str
    rows: list[dict[str, str]]
    notes: Notes | None = None  # what classifiers are trained on


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
    settings.chat.check()
    named = settings.studies or _asked_for(settings)
    chosen = [_study_and_config(name) for name in named]
    if kind is None and settings.model is not None:
        kind = model_kind(settings.model, settings.kind)
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    notes = cache(lambda: load_notes(settings.notes, settings.seed))
    for study, config in chosen:
        for experiment in study.experiments:
            if config and config not in (*experiment.configs, *experiment.alternatives):
                continue
            if any((task.study, task.experiment) == (study, experiment) for task in tasks):
                raise UsageError(f"{study.name} {experiment.name} is named twice. Name it once, with one config.")
            reason = _misfit(study, experiment, kind, settings)
            if reason:
                skipped.append(Skipped(study.name, experiment.name, reason))
                continue
            configs = (config,) if config else experiment.configs
            for model in _models(experiment, settings):
                unfit = settings.notes.misfit(experiment, model)
                if unfit:
                    skipped.append(Skipped(study.name, experiment.name, unfit))
                    continue
                task = _task(study, experiment, configs, model, settings, notes)
                why = _unreadable(task, settings)
                if why:
                    skipped.append(Skipped(study.name, experiment.name, why))
                else:
                    tasks.append(task)
            if experiment.regimes and settings.notes.trains:
                skipped += [
                    Skipped(study.name, f"{experiment.name}, {phenotype}", why)
                    for phenotype, why in notes().untrainable().items()
                ]
            if experiment.corpus and any(task.experiment == experiment for task in tasks):
                skipped += [Skipped(study.name, f"part of {experiment.name}", one) for one in notes().remarks()]
    if not tasks:
        reasons = "; ".join(f"{one.study} {one.experiment}: {one.reason}" for one in skipped)
        raise UsageError(f"Nothing to audit: {reasons}. Choose another model or --study.")
    if settings.notes.given and not any(task.experiment.kind == EMBEDDING for task in tasks):
        raise UsageError(
            f"--embedding, --classifier, --data and --plausible are read by {NOTE_STUDY}. Name it as well."
        )
    if settings.chat.model is not None and not any(task.experiment.kind == CHAT for task in tasks):
        raise UsageError(f"--chat {_short(settings.chat.model)} is asked by {CHAT_STUDY} alone. Name it as well.")
    return tasks, skipped


def _unreadable(task: Task, settings: Settings) -> str:
    """Why an experiment on notes has nothing to read or to learn from; blank where it has."""
    if task.notes is None:
        return ""
    if not task.rows:
        return "no test note with a known gender is left" + (
            "" if not settings.notes.trains else ", of a phenotype that a classifier can be trained for"
        )
    return task.notes.unlearnable_gender() if task.experiment.reading == "gender" else ""


def _asked_for(settings: Settings) -> tuple[str, ...]:
    return _own(settings) or tuple(studies())


def _own(settings: Settings) -> tuple[str, ...]:
    """The studies that settings of their own speak of."""
    own = [(NOTE_STUDY, settings.notes.given), (CHAT_STUDY, settings.chat.model is not None)]
    return tuple(name for name, given in own if given)


def _models(experiment: Experiment, settings: Settings) -> tuple[str, ...]:
    if experiment.kind == EMBEDDING:
        return settings.notes.models(experiment)
    if experiment.kind == CHAT:
        return (settings.chat.model or "",)
    return (settings.model or _DEFAULT_MODELS[experiment.kind],)


def _task(
    study: Study,
    experiment: Experiment,
    configs: tuple[str, ...],
    model: str,
    settings: Settings,
    notes: Callable[[], Notes],
) -> Task:
    if experiment.corpus:  # rows that are made from notes
        left_out = notes().untrainable() if settings.notes.trains else {}
        pairs = [pair for pair in notes().pairs() if pair["condition"] not in left_out]
        pairs = _limited(pairs, settings.limit)
        rows = note_rows(experiment, notes(), pairs, settings.notes.trains)
        return Task(study, experiment, configs, model, rows, notes())
    rows = [
        {**row, "experiment": experiment.name}  # two experiments may read one config
        for name in configs
        for row in _limited(config_rows(study.name, name), settings.limit)
    ]
    if experiment.kind == CHAT:
        rows = asked_rows(rows, settings.chat.trials)
    return Task(study, experiment, configs, model, rows)


def _misfit(study: Study, experiment: Experiment, kind: str | None, settings: Settings) -> str:
    """Why an experiment cannot run; blank where it can."""
    if experiment.on_request and not settings.studies and study.name not in _own(settings):
        return f"it takes many times as long as the others; run it with --study {study.name}"
    if experiment.kind == CHAT:
        return "" if settings.chat.model else "it asks a chat model; name one with --chat"
    if experiment.kind == EMBEDDING:
        return _no_embedding(experiment, kind, settings)
    if kind not in (None, experiment.kind):
        return f"it needs a {experiment.kind} model and {_short(settings.model)} is of kind {kind}"
    if kind is None and experiment.kind not in _DEFAULT_MODELS:
        return f"it needs a {experiment.kind} model, and none is embedded; name one"
    if kind is None and experiment.kind == "masked" and experiment.name not in CALIBRATED:
        return f"the calibration model is trained for {', '.join(CALIBRATED)} alone; name a model to run it"
    return ""


def _no_embedding(experiment: Experiment, kind: str | None, settings: Settings) -> str:
    if kind is not None:
        return f"it reads word vectors and encoders: name them with --embedding instead of {_short(settings.model)}"
    return "" if _models(experiment, settings) else "it needs an --embedding beside a classifier of your own"


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = dict.fromkeys(config for one in study.experiments for config in (*one.configs, *one.alternatives))
    if config and config not in known:
        raise UsageError(f"Unknown config {config!r} of {study_name}: expected one of {', '.join(known)}.")
    return study, config


def _short(model: str | None) -> str:
    """A model's name without the path of this machine."""
    return Path(model).resolve().name if model and Path(model).exists() else str(model)


def default_folder(settings: Settings) -> Path:
    """``swapbias-runs/<model>-<time>``."""
    name = _short(settings.model) if settings.model else "default"
    safe = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)
    return Path("swapbias-runs") / f"{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def fingerprints(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """What was read: corpus, configs, row count, sha256 of the rows and of the word lists of each task."""
    return [
        {
            "corpus": task.experiment.corpus or task.study.name,
            "config": ", ".join(task.configs),
            "rows": len(task.rows),
            "sha256": fingerprint(task.rows),
            "lexicons": _lexicons(task),
            **({"training": fingerprint(task.notes.rows)} if task.notes else {}),
        }
        for task in tasks
    ]


def _lexicons(task: Task) -> dict[str, str]:
    """sha256 of each word list that the rows count: an edited list is another measurement."""
    names = sorted({row["candidates"].rpartition("/")[0] for row in task.rows} - {""})
    return {
        name: fingerprint({"word": word, "label": label} for word, label in load_lexicon(name).entries())
        for name in names
    }


def _limited(rows: list[dict[str, str]], limit: int | None) -> list[dict[str, str]]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    pairs = list(dict.fromkeys(row["pair_id"] for row in rows))
    if limit is None or limit >= len(rows):
        return rows
    count = max(1, limit * len(pairs) // len(rows))
    kept = {pairs[index * len(pairs) // count] for index in range(count)}
    return [row for row in rows if row["pair_id"] in kept]


def told_plan(settings: Settings) -> Iterator[str]:
    """Sentences: each experiment with its prompts, what asking takes, and what would not run.

    Raises:
        UsageError, ValueError: as ``planning.plan``, and where only the Hub could tell what kind a model is.
    """
    kind = None if settings.model is None else _kind_at_hand(settings.model, settings.kind)
    tasks, skipped = plan(settings, kind=kind)
    for task in tasks:
        told = f"{task.study.name} {task.experiment.name}: {len(task.rows)} prompts for {task.model}"
        if task.experiment.kind == CHAT:
            told += f"; {planned_requests(task.rows, settings.chat, settings.seed)}"
        yield told
    for one in skipped:
        yield f"Not run: {one.study} {one.experiment}: {one.reason}."


def _kind_at_hand(model: str, kind: str | None) -> str:
    """The kind of a model by what is on this machine: a Hub id's config where the cache holds it, else ``--kind``."""
    if model == VADER or is_callable(model) or Path(model).exists():
        return model_kind(model, kind)
    from huggingface_hub import try_to_load_from_cache

    with suppress(ValueError):  # no Hub id
        config = try_to_load_from_cache(model, "config.json")
        if isinstance(config, str):
            return model_kind(str(Path(config).parent), kind)
    if kind in KINDS:
        return kind
    raise UsageError(
        f"{model} is not on this machine, and a dry run asks nobody what kind of model it is. "
        f"Pass --kind {' or '.join(KINDS)}."
    )
