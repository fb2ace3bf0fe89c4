"""Audits: prompts -> scores -> findings -> report, of one model or several. The same call again goes on."""

import errno
import gc
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from swapbias import __version__, findings
from swapbias.errors import AUDIT, UsageError, listed, log_traceback, need, safe_message
from swapbias.files import TEMPORARY, is_left_over
from swapbias.models import Scorer, model_names, progress
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import is_credentialed, public_manifest, writing
from swapbias.report import ComparisonPage
from swapbias.runs import plan
from swapbias.runs.cache import ScoreCache
from swapbias.runs.compare import compare_runs, write_comparison
from swapbias.runs.kept_studies import STUDIES
from swapbias.runs.positive_control import ask_controls
from swapbias.runs.results import conclude, read_run
from swapbias.runs.run import MANIFEST, REPORT, SCORES, Run, Scoring, Store, score_part
from swapbias.runs.scorers import ScoredTask, check_code, check_keys, identities, load_readers
from swapbias.runs.settings import Settings
from swapbias.swapping import LOCAL, Engine, cluster

if TYPE_CHECKING:
    from swapbias.findings import Finding

COMPARISON = "comparison"


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

    What was scored is not scored again, and of a complete run no model is loaded. ``cache``: share scores with other
    audits of this user; ``expected``: the manifest of a run that is repeated, with the same prompts and models;
    ``scorer`` reads the model that the settings name; ``draw``: write the report too; ``store``: where the caller
    copies the folder to. UsageError, ValueError, OSError: each with one sentence; what was scored is saved.
    """
    need("An audit", *AUDIT)
    engine.check()
    if scorer is not None and not engine.local:
        raise UsageError(
            f"{scorer.model_id} is in memory, where workers cannot read it. Name its folder instead."
        )
    run = Run(folder, store.url if store else "")
    begun = run.manifest() if (folder / MANIFEST).is_file() else None
    if begun:
        _check_settings(run, begun, settings)
    kind = scorer.kind if scorer else plan.kind_of_manifest(begun or {}, settings)
    tasks, skipped = plan.plan_tasks(settings, kind=kind)
    planned = plan.plan_manifest(settings, tasks, skipped)
    _check_store(store, planned, chat=any(task.kind.name == "chat" for task in tasks))
    if begun:
        if (begun["swapbias"], begun["corpora"]) != (__version__, planned["corpora"]):
            raise UsageError(
                f"{run.place} was begun with another swapbias or other prompts. Choose another --out."
            )
        if begun["status"] == "complete" and scorer is None:
            return run, answered(run, read_run(folder).found)
        if bool(begun.get("in_memory")) != (scorer is not None):
            raise UsageError(f"{run.place} was begun with another model. Choose another --out.")
        if scorer and not any(name.endswith("sha256") for name in scorer.identity):
            say(
                f"Nothing shows whether {scorer.model_id} is the model that began {run.place}. Check it yourself."
            )
    else:
        Run.check_new(folder, run.address)
        if expected is not None and expected["corpora"] != planned["corpora"]:
            raise UsageError(
                "The prompts or word lists are not those of the run that is to be repeated. Audit anew."
            )
    pinned = (begun or expected or {}).get("models")
    how: dict[str, Any] = {"say": say, "bar": bar}
    every = load_readers(
        settings, tasks, scorer=scorer, pinned=pinned or (), **how
    )  # before any writing
    models = identities(every)
    if pinned is not None and not _are_same(models, pinned, strictly=begun is not None):
        raise UsageError(
            f"{run.place} needs another version of the model than there is now. Start a new run."
        )
    if begun and begun["status"] == "complete":
        return run, answered(run, read_run(folder).found)
    manifest = begun or {**planned, "models": models, **({"in_memory": True} if scorer else {})}
    then = f"Wait until it ends, or stop it and go on with swapbias audit --resume {run.place}."
    with writing(folder, credentialed=planned["credentialed"], then=then):
        if not begun:
            for sentence in filter(None, (plan.partial_note(tasks), *plan.repeat_notes(tasks))):
                say(sentence)
            Run.create(folder, manifest, run.address)
        for left in folder.rglob(f".*{TEMPORARY}"):  # of a killed process
            left.unlink(missing_ok=True)
        found = _score(run, settings, every, cache=cache, engine=engine, draw=draw, **how)
    return run, answered(run, found)


def answered(run: Run, found: "list[Finding]") -> "list[Finding]":
    """Give the findings of a run that answers a question.

    Raises:
        UsageError: no finding answers one, as where no row of a group that is compared was scored.
    """
    if findings.primary_findings(found):
        return found
    names = dict.fromkeys(f"{finding.study} {finding.experiment}" for finding in found)
    unanswered = (
        f"findings of {listed(names)} compare no groups" if names else "no prompt was compared"
    )
    raise UsageError(
        f"No question was answered: {unanswered}. What was scored is in {run.place}; look at its items, and name "
        "other prompts."
    )


def resume(
    folder: Path,
    *,
    trust: bool = False,
    api_key_env: str | None = None,
    store: Store | None = None,
    **how: Any,
) -> "tuple[Run, list[Finding]]":
    """``start`` with the settings of the manifest in a folder.

    ``trust``: import the function that it names; ``api_key_env``: variable with the key of a service; ``how``:
    further arguments of ``start``. Raises as it, and UsageError: no run, or code that is not trusted would run.
    """
    run = Run.open(folder, store.url if store else "")
    manifest = run.manifest()
    settings = Settings.from_manifest(manifest["settings"], api_key_env)
    if manifest["status"] != "complete":
        if manifest.get("in_memory"):
            why = f"{run.place} was begun in Python with a model in memory"
            raise UsageError(
                f"{why}. Call swapbias.audit with the same model and out={str(run.place)!r}."
            )
        check_code(str(run.place), settings, manifest.get("models"), trust=trust)
        if not trust:
            check_keys(str(run.place), settings)
    return start(settings, folder, store=store, **how)


def _are_same(models: Sequence[Any], pinned: Any, *, strictly: bool) -> bool:
    """Whether models are those of a manifest; of a run that is repeated, as others may see them."""
    if strictly or models == pinned:
        return bool(models == pinned)
    both = (
        public_manifest({"settings": {}, "models": each})["models"] for each in (models, pinned)
    )
    here, there = ([{**model, "device": ""} for model in each] for each in both)
    return here == there


def _check_settings(run: Run, begun: Mapping[str, Any], settings: Settings) -> None:
    before = Settings.from_manifest(begun["settings"]).saved()
    for name, value in settings.saved().items():
        if before[name] != value:
            raise UsageError(
                f"{run.place} was begun with {name} {before[name]!r}, now {value!r}. Change --out."
            )


def _check_store(store: Store | None, planned: Mapping[str, Any], *, chat: bool) -> None:
    if store and chat:
        raise UsageError(
            f"Answers are saved line by line, which {store.url} cannot do. Choose an --out on this machine."
        )
    if store and planned["credentialed"] and not store.own:
        why = f"These notes are credentialed, and {store.url} was not declared as a place for them"
        raise UsageError(
            f"{why}. Choose a local --out, or add -M own-store where only you can read that place."
        )


def _score(
    run: Run,
    settings: Settings,
    every: Sequence[ScoredTask],
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
        what = "be yours alone, and must not be published or shared"
        what = what if run.address else "not be published, shared or sent anywhere"
        say(f"These notes are credentialed: {run.place} must {what}.")
        if engine.address:
            say(f"The machines of the cluster at {engine.address} read them: they must be yours.")
    every = [
        scored_task.read_by(
            scored_task.reader.keeping_answers(run.folder, text=not scored_task.task.credentialed)
        )
        for scored_task in every
    ]
    scores = ScoreCache(settings.load, run.folder / SCORES, shared=cache)
    scoring = Scoring(run, manifest, dict(enumerate(every)), say, bar, scores)
    files = (one for one in (run.folder / STUDIES).rglob("*") if one.is_file())
    spec = {
        "manifest": manifest,
        "studies": {one.relative_to(run.folder).as_posix(): one.read_bytes() for one in files},
    }
    how: dict[str, Any] = {"credentialed": manifest["credentialed"], "advance": scoring.advance}
    try:
        with cluster.worker_pool(
            engine, part_scorer, spec, begin_here=lambda: partial(score_part, scoring.every), **how
        ) as pool:
            scoring.score(pool)
        ask_controls(scoring, settings)
    finally:  # a run that is stopped says it too
        if cache:
            scores.trim()
            manifest["from_cache"] = manifest.get("from_cache", 0) + scores.rows_reused
            run.write_manifest(manifest)
    found = conclude(scoring, settings, draw=draw)
    if scoring.stop:
        say(f"The report has the whole trials: {run.place}/{REPORT}.")
        raise scoring.stop
    return found


def part_scorer(spec: Mapping[str, Any]) -> cluster.Work:
    """A cluster's worker: plans the run again and loads its models; UsageError: other prompts or models are here."""
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
    if plan.fingerprints(tasks) != manifest["corpora"]:
        raise UsageError(
            f"The worker on {machine} has other prompts or word lists. Install the same everywhere."
        )
    # Requests to chat models are made by the process that began the run.
    settings = replace(
        settings, options=tuple(one for one in settings.options if not isinstance(one, ChatOptions))
    )
    mine = {place: task for place, task in enumerate(tasks) if task.kind.name != "chat"}
    every = load_readers(settings, [*mine.values()], pinned=manifest["models"])
    known = [{**one, "device": ""} for one in manifest["models"]]
    if not all({**one, "device": ""} in known for one in identities(every)):
        raise UsageError(
            f"The worker on {machine} has another version of the model. Put the same one everywhere."
        )
    return partial(score_part, dict(zip(mine, every, strict=True)))


@dataclass(frozen=True, slots=True)
class Several:
    """An audit of several models: runs, and why others failed, by model; no comparison of fewer than two."""

    folder: Path
    runs: Mapping[str, Run]
    failed: Mapping[str, str]
    compared: ComparisonPage | None = None


def audit_several(
    models: Iterable[str],
    settings: Settings,
    folder: Path,
    *,
    say: progress.Say,
    bar: progress.Bar,
    **how: Any,
) -> Several:
    """Audit each model into a run of its own below the folder, and compare them there; the same call resumes.

    A model that cannot be audited is named and does not stop the others. ``how`` has ``cache`` and ``engine`` of
    ``start``. UsageError, OSError: fewer than two different models, or a folder that cannot be written.
    """
    names = list(models)
    places = dict[str, Path]()
    used = {COMPARISON}
    if len(set(names)) < max(2, len(names)):
        raise UsageError(
            f"Models {listed(names)}: expected two or more, each once. Name others, or drop some."
        )
    for model in names:
        plain = plan.folder_name(model, settings.load)
        every = (f"{plain}-{number}" if number > 1 else plain for number in count(1))
        used.add(name := next(one for one in every if one not in used))
        places[model] = folder / name
    there = (
        {one for one in folder.iterdir() if not is_left_over(one)} if folder.is_dir() else {folder}
    )
    if not any(folder.glob(f"*/{MANIFEST}")) and not there <= {
        *places.values()
    }:  # a killed process may leave one
        Run.check_new(folder)
    data = settings.of(NoteOptions).data
    failed = dict[str, str]()
    credentialed = is_credentialed(folder) or (data is not None and is_credentialed(Path(data)))
    with writing(
        folder, credentialed, then="Wait until it ends, or stop it. The same command goes on."
    ):
        for number, (model, place) in enumerate(places.items(), start=1):
            title = f"model {number:,} of {len(places):,}"
            say(f"{title.capitalize()}: {model_names.planned_name(model, settings.load)}.")
            titled = partial(lambda place, title, total: bar(f"{place}, {title}", total), title)
            try:
                start(replace(settings, model=model), place, say=say, bar=titled, **how)
            except Exception as error:  # one model may break in any way, and the others go on
                if isinstance(error, OSError) and error.errno in (
                    errno.ENOSPC,
                    errno.EDQUOT,
                    errno.EROFS,
                ):
                    raise  # no other model would fare better
                log_traceback(error)
                known = isinstance(error, ValueError | OSError)
                unknown = f"{type(error).__name__}. Audit it alone to see more."
                failed[model] = " ".join((safe_message(error) if known else unknown).split())
                say(f"{model_names.short_name(model)} failed: {failed[model]}")
            gc.collect()  # models refer to themselves, and the next one needs the room
        runs = {model: Run(place) for model, place in places.items() if model not in failed}
        compared = None
        if len(runs) > 1:
            try:
                compared = compare_runs([read_run(one.folder) for one in runs.values()])
                write_comparison(folder / COMPARISON, compared)
            except UsageError as error:
                say(f"No comparison: {error}")
        return Several(folder, runs, failed, compared)
