"""One run: prompts -> scores -> findings -> report. The same call again goes on where a stopped one ended."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from swapbias import __version__
from swapbias.cluster import LOCAL, Engine, Work, worker_pool
from swapbias.errors import UsageError, need_audit_extra
from swapbias.files import as_json
from swapbias.models import Bar, Say, Scorer, as_pinned, check_load, code_of, is_callable, kinds, short_name
from swapbias.models.chat import ChatOptions, unnamed_keys
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import writing
from swapbias.runs.cache import ScoreCache
from swapbias.runs.judge import with_judge
from swapbias.runs.plan import Task, fingerprints, kind_of_manifest, partial_note, plan, repeat_notes
from swapbias.runs.results import read_results
from swapbias.runs.rounds import Scoring, score_part, scored_tasks
from swapbias.runs.run import MANIFEST, SCORES, STUDIES, Run, now
from swapbias.runs.settings import Settings, with_access
from swapbias.studies import column, joined

if TYPE_CHECKING:
    from swapbias.findings import Finding
    from swapbias.store import Store

_VERSIONS = ("torch", "transformers", "datasets", "numpy", "scipy", "pandas", "pyarrow")


def start(
    settings: Settings,
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool = False,
    expected: Mapping[str, Any] | None = None,
    scorer: Scorer | None = None,
    draw: bool = True,
    engine: Engine = LOCAL,
    store: "Store | None" = None,
) -> "tuple[Run, list[Finding]]":
    """Run an audit in a folder, or go on with the one of the same settings that was begun there.

    What was scored is not scored again, and of a complete run no model is loaded.

    Args:
        settings: what to audit, and how.
        folder: new, empty, or of a run of the same settings, prompts and models.
        say: called with sentences for the user.
        bar: makes progress bars.
        cache: share scores with other audits of this user.
        expected: the manifest of a run that is repeated, with the same prompts and models.
        scorer: reads the model that the settings name, which is then not loaded.
        draw: write the report too; else ``rebuild_report`` does.
        engine: who scores; the run is the same.
        store: where the folder is copied to by the caller.

    Raises:
        UsageError, ValueError, OSError: each with one sentence; what was scored is saved.
    """
    need_audit_extra("An audit")
    _check_engine(engine, scorer)
    address = str(store or "")
    begun = Run(folder, address) if (folder / MANIFEST).is_file() else None
    manifest = begun.manifest() if begun else {}
    kind = scorer.kind if scorer else kind_of_manifest(manifest, settings)
    if begun:
        _check_same(begun, settings)
    tasks, skipped = plan(settings, kind=kind)
    _check_store(store, tasks)
    how: dict[str, Any] = {
        "say": say, "bar": bar, "cache": cache, "scorer": scorer, "engine": engine, "draw": draw,
    }  # fmt: skip
    if begun:
        return _go_on(begun, settings, tasks, **how)
    Run.check_new(folder, address)
    if expected is not None and expected["corpora"] != fingerprints(tasks):
        raise UsageError("The prompts or word lists are not those of the run that is to be repeated. Audit anew.")
    repeated = (expected or {}).get("models", ())
    readers = load_readers(settings, tasks, say=say, bar=bar, scorer=scorer, pinned=repeated)  # before any writing
    models = as_json(identities(readers))
    if expected is not None and expected.get("models", models) != models:
        raise UsageError("A model is not the version of the run that is to be repeated. Audit anew.")
    repeats = repeat_notes(tasks)
    for sentence in filter(None, (partial_note(tasks), *repeats)):
        say(sentence)
    manifest = {
        "swapbias": __version__,
        "status": "running",
        "started": now(),
        "versions": _versions(),
        "settings": settings.saved(),
        "corpora": fingerprints(tasks),
        "skipped": [asdict(one) for one in skipped],
        "credentialed": is_credentialed_plan(tasks),
        "models": models,
        **({"in_memory": True} if scorer else {}),
        **({"repeats": repeats} if repeats else {}),
    }
    with writing(folder, credentialed=is_credentialed_plan(tasks), then=_next_step(address or folder)):
        run = Run.create(folder, manifest, address)
        run.remove_temporary()
        if own := run.save_studies(list(dict.fromkeys(task.study.name for task in tasks))):
            run.write_manifest({**manifest, "own_studies": own})
        return _work(run, settings, tasks, readers, say=say, bar=bar, cache=cache, engine=engine, draw=draw)


def resume(
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool = False,
    trust: bool = False,
    allow_pickle: bool = False,
    access: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
    store: "Store | None" = None,
) -> "tuple[Run, list[Finding]]":
    """``start`` with the settings of the manifest in a folder.

    A manifest runs nothing by itself: ``trust`` lets it import the Python function and read the pickles that it
    names, ``allow_pickle`` the pickles alone. ``access`` is what it does not say (``with_access``).

    Raises:
        UsageError: the folder holds no run, or code that is not trusted would run; and as ``start``.
    """
    need_audit_extra("An audit")
    engine.check()
    run = Run.open(folder, str(store or ""))
    manifest = run.manifest()
    settings = Settings.from_manifest(manifest["settings"])
    settings = replace(settings, load=replace(settings.load, allow_pickle=trust or allow_pickle))
    settings = with_access(settings, access or {})
    if manifest["status"] != "complete":
        if manifest.get("in_memory"):
            raise UsageError(
                f"{run.place} was begun in Python with a model in memory. Go on there: swapbias.audit with the same "
                f"model and arguments, and out={str(run.place)!r}."
            )
        check_code(str(run.place), settings, manifest.get("models"), trust=trust)
        if not trust:
            check_keys(str(run.place), settings)
    tasks, _ = plan(settings, kind=kind_of_manifest(manifest, settings))
    _check_store(store, tasks)
    return _go_on(run, settings, tasks, say=say, bar=bar, cache=cache, engine=engine)


def _next_step(place: Path | str) -> str:
    return f"Wait until it ends, or stop it and go on with swapbias audit --resume {place}."


def _check_same(run: Run, settings: Settings) -> None:
    """Refuse to go on with a run of other settings.

    Raises:
        UsageError: naming the first that differs.
    """
    begun = without_permissions(run.manifest()["settings"])
    for name, value in without_permissions(as_json(settings.saved())).items():
        if begun.get(name) != value:
            raise UsageError(
                f"{run.place} was begun with {name} {begun.get(name)!r}, and {value!r} is asked for. Ask for the "
                "same, or choose another --out."
            )


def without_permissions(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved settings without what is asked of whoever goes on with a run."""
    load = saved.get("load")
    return {**saved, **({"load": {**load, "allow_pickle": False}} if isinstance(load, dict) else {})}


def _go_on(
    run: Run,
    settings: Settings,
    tasks: Sequence[Task],
    *,
    say: Say,
    bar: Bar,
    cache: bool,
    engine: Engine,
    scorer: Scorer | None = None,
    draw: bool = True,
) -> "tuple[Run, list[Finding]]":
    """A run that was begun: its findings, where it is complete; else what it lacks is scored."""
    manifest = run.manifest()
    if manifest["swapbias"] != __version__ or manifest["corpora"] != fingerprints(tasks):
        raise UsageError(
            f"{run.place} was begun with swapbias {manifest['swapbias']} or other prompts than there are now "
            f"({__version__}). Choose another --out."
        )
    if manifest["status"] == "complete" and scorer is None:
        return run, read_results(run).found
    if bool(manifest.get("in_memory")) != (scorer is not None):
        raise UsageError(f"{run.place} was begun with another model. Choose another --out.")
    if scorer and not any(name.endswith("sha256") for name in scorer.identity):
        say(f"Nothing shows whether {scorer.model_id} is the model that {run.place} began with. Check it yourself.")
    models = manifest.get("models", ())
    readers = load_readers(settings, tasks, say=say, bar=bar, pinned=models, scorer=scorer)
    if as_json(identities(readers)) != models:
        raise UsageError(f"{run.place} was begun with another version of the model. Start a new run.")
    if manifest["status"] == "complete":
        return run, read_results(run).found
    with writing(run.folder, credentialed=bool(manifest.get("credentialed")), then=_next_step(run.place)):
        run.remove_temporary()
        return _work(run, settings, tasks, readers, say=say, bar=bar, cache=cache, engine=engine, draw=draw)


def _work(
    run: Run,
    settings: Settings,
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    *,
    say: Say,
    bar: Bar,
    cache: bool,
    engine: Engine,
    draw: bool,
) -> "tuple[Run, list[Finding]]":
    manifest = run.manifest()
    credentialed = bool(manifest.get("credentialed"))
    if credentialed:
        limits = "be yours alone, and must not be published or shared" if run.address else (
            "not be published, shared or sent anywhere"
        )  # fmt: skip
        say(f"These notes are credentialed: {run.place} must {limits}.")
    if credentialed and engine.address:
        say(f"The machines of the cluster at {engine.address} read them: they must be yours.")
    for task, reader in zip(tasks, readers, strict=True):
        reader.keep_answers(run.folder, text=task.notes is None or not task.notes.credentialed)
    scores = ScoreCache(settings.load, run.folder / SCORES, shared=cache)
    scoring = Scoring(run, manifest, say, scores, settings.margin)
    files = (run.folder / STUDIES).rglob("*")
    spec = {
        "manifest": manifest, "allow_pickle": settings.load.allow_pickle,
        "studies": {one.relative_to(run.folder).as_posix(): one.read_bytes() for one in files if one.is_file()},
    }  # fmt: skip
    how: dict[str, Any] = {"credentialed": credentialed, "say": say, "advance": scoring.advance}
    try:
        with worker_pool(engine, WORKER, spec, own=lambda: partial(score_part, scoring.every), **how) as pool:
            items = scoring.score(tasks, readers, bar, pool)
    finally:  # a run that is stopped says it too
        if cache:
            manifest["from_cache"] = manifest.get("from_cache", 0) + scores.rows
            run.write_manifest(manifest)
    if notes := list(scoring.notes):
        manifest["dtype_error"] = notes
    if cut := list(dict.fromkeys(one.cut_note for one in readers if one.cut_note)):
        manifest["truncated"] = cut
    for note in [*notes, *cut]:
        say(note)
    from swapbias.runs import conclusion  # statistics take long to import: the model does not wait for them

    more: dict[str, Any] = {"seed": settings.seed, "margin": settings.margin, "say": say, "draw": draw}
    most = settings.of(NoteOptions).explain
    return run, conclusion.conclude(run, manifest, tasks, readers, items, explained=most, **more)


WORKER = "swapbias.runs.audit:part_scorer"


def part_scorer(spec: Mapping[str, Any]) -> Work:
    """The worker of an audit on a machine of a cluster: plans the run again, and loads its models.

    Args:
        spec: the ``manifest`` of the run, the files of its own ``studies``, and ``allow_pickle``.

    Raises:
        UsageError: this machine has other prompts or models than the one that began the run.
    """
    machine, manifest = platform.node(), spec["manifest"]
    with TemporaryDirectory(prefix="swapbias-") as folder:
        run = Run(Path(folder))
        run.write_manifest(manifest)
        for name, content in spec["studies"].items():
            run.write(name, content)
        run.open_studies()
    settings = Settings.from_manifest(manifest["settings"])
    settings = replace(settings, load=replace(settings.load, allow_pickle=bool(spec["allow_pickle"])))
    tasks, _ = plan(settings, kind=kind_of_manifest(manifest, settings))
    if fingerprints(tasks) != manifest["corpora"]:
        raise UsageError(f"The worker on {machine} has other prompts or word lists. Install the same everywhere.")
    mine = [task for task in tasks if task.kind.name != "chat"]
    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    readers = load_readers(
        replace(settings, options=_without_chat(settings)), mine, pinned=manifest["models"], **quiet
    )
    known = [_on_any_device(one) for one in manifest["models"]]
    if not all(_on_any_device(one) in known for one in as_json(identities(readers))):
        raise UsageError(f"The worker on {machine} has another version of the model. Put the same one everywhere.")
    loaded = iter(readers)
    every = scored_tasks(tasks, [readers[0] if task.kind.name == "chat" else next(loaded) for task in tasks])
    return partial(score_part, every)


def _without_chat(settings: Settings) -> tuple[Any, ...]:
    """The options of other kinds: chat models are asked by the process that began the run."""
    return tuple(one for one in settings.options if not isinstance(one, ChatOptions))


def _on_any_device(model: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in model.items() if name != "device"}


def _check_store(store: "Store | None", tasks: Sequence[Task]) -> None:
    """Refuse what a store cannot hold, or may not."""
    if store and any(task.kind.name == "chat" for task in tasks):
        raise UsageError(
            f"Answers of chat models are saved line by line, which {store} cannot do. Choose an --out on this "
            "machine, and copy the run there once it is complete."
        )
    if store and is_credentialed_plan(tasks) and not store.own:
        raise UsageError(
            f"These notes are credentialed, and {store} was not declared as a place for them. Choose an --out on "
            "this machine, or add -M own-store where nobody but those who may read the notes can read that place."
        )


def _check_engine(engine: Engine, scorer: Scorer | None) -> None:
    """Refuse an engine whose workers could not load the model, before anything is planned."""
    engine.check()
    if scorer is not None and not engine.local:
        raise UsageError(
            f"{scorer.model_id} is in the memory of this process, where workers of {engine.name} cannot read it. "
            "Save it and name its folder, name a function as module:function, or leave the engine local."
        )


def load_readers(
    settings: Settings,
    tasks: Sequence[Task],
    *,
    say: Say,
    bar: Bar,
    scorer: Scorer | None = None,
    pinned: Sequence[Mapping[str, Any]] = (),
) -> list[Scorer]:
    """For each task the scorer that reads its model; each model is loaded once, that of ``scorer`` never.

    ``pinned`` are the models of the manifest of a run that goes on or is repeated: those of the Hub are loaded at
    its commits.

    Raises:
        UsageError: a model that sends texts away would read credentialed notes, or one that does not fit.
        ValueError: a model that cannot be loaded.
    """
    check_load(settings.load)
    own = {task.kind.name for task in tasks if task.model == (settings.model or "")} if scorer else ()
    loaded: dict[tuple[str, str], Any] = {(settings.model or "", kind): scorer for kind in own}
    readers = []
    for task in tasks:
        key = (task.model, task.kind.name)
        if key not in loaded:
            if task.notes and task.notes.credentialed and is_callable(task.model):
                say(f"These notes are credentialed: make sure that {task.model} sends nothing of them to a service.")
            say(f"Model: {short_name(task.model)}.")
            rows = joined(one.rows for one in tasks if (one.model, one.kind.name) == key)
            loaded[key] = task.kind.load(as_pinned(task.model, pinned), settings, rows, say=say, bar=bar)
        training = task.notes.training if task.notes else lambda phenotype, regime: []
        reader = task.kind.read(loaded[key], task.experiment, settings, corpus=task.study.name, training=training)
        readers.append(reader)
        refuse_sending(task, reader)
    _check_names(tasks, readers)
    return with_judge(tasks, readers, settings, say=say, bar=bar)


def check_code(run: str, settings: Settings, pinned: Any, *, trust: bool) -> None:
    """Before a run goes on: its manifest may be anybody's, and the models that it names may run code.

    Args:
        run: for the error.
        settings: as the manifest has them; pickles that ``settings.load`` allows are trusted.
        pinned: the manifest's models with their sha256; None where it has none yet.
        trust: whether the code may run.

    Raises:
        UsageError: a pickle or Python function that is not trusted, or not the one that the run began with.
    """
    if settings.load.trust_remote_code and not trust:
        raise UsageError(
            f"{run} asks to run code of {settings.model}. Repeat with --trust if you have read that code."
        )
    known = set(_hashes(pinned))
    for model in (settings.model, *(name for one in kinds() for name in one.code(settings))):
        code = code_of(model) if model else None
        if code is None:
            continue
        if known and code.sha256 and code.sha256 not in known:
            raise UsageError(f"{run} was begun with another version of {code.name}. Start a new run.")
        if not (trust or (code.pickle and settings.load.allow_pickle)):
            runs = "a pickle, and reading" if code.pickle else "a Python function, and importing"
            raise UsageError(
                f"{run} names {code.name}, {runs} it runs what its maker wrote. Repeat with --trust if you trust who "
                "made it and that code."
            )


def check_keys(run: str, settings: Settings) -> None:
    """Before a run asks on: the service that its manifest names may be anybody's, and gets no key by that alone.

    Raises:
        UsageError: naming the variable and the service.
    """
    for name, host in unnamed_keys(settings.of(ChatOptions)):
        raise UsageError(
            f"{run} names {host}, which would get the key in {name}. Repeat with --trust if that is the service that "
            "it is for, or unset it."
        )


def _hashes(pinned: Any) -> Iterator[str]:
    """Every text in the identities of models, however deep."""
    if isinstance(pinned, str):
        yield pinned
    elif isinstance(pinned, Mapping | list):
        for inner in pinned.values() if isinstance(pinned, Mapping) else pinned:
            yield from _hashes(inner)


def _check_names(tasks: Sequence[Task], readers: Sequence[Scorer]) -> None:
    """Two models of one name would be taken for one."""
    seen = set()
    for task, reader in zip(tasks, readers, strict=True):
        key = (task.study.name, task.experiment.name, reader.model_id)
        if key in seen:
            raise UsageError(f"{reader.model_id} is named twice. Name it once, or name them as NAME=PATH.")
        seen.add(key)


def refuse_sending(task: Task, reader: Scorer) -> None:
    """Stop before credentialed notes would leave this machine.

    Raises:
        UsageError: the scorer says that it sends texts to a service (``sends_text``).
    """
    if is_credentialed_plan([task]) and reader.sends_text:
        raise UsageError(
            f"{reader.model_id} sends texts to a service, and these notes are credentialed: they must not leave this "
            "machine, but for a service that is your own and hands nothing on, which -M own-address=ADDRESS declares."
        )


def identities(readers: Sequence[Scorer]) -> list[dict[str, Any]]:
    """What pins the models down, each once."""
    known: dict[str, dict[str, Any]] = {}
    for reader in readers:
        known.setdefault(reader.model_id, {"model_id": reader.model_id, **reader.identity})
    return list(known.values())


def is_credentialed_plan(tasks: Sequence[Task]) -> bool:
    """Whether any task reads credentialed notes, or rows that say so."""
    notes = any(task.notes is not None and task.notes.credentialed for task in tasks)
    return notes or any(str(one) == "True" for task in tasks for one in column(task.rows, "credentialed"))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
