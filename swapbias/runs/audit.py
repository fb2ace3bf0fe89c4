"""The main job: prompts -> scores -> findings -> figures and report, in one resumable run."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from swapbias import __version__
from swapbias.cluster import LOCAL, Engine, crew
from swapbias.errors import UsageError, need_audit_extra
from swapbias.files import SHA256, as_json, is_url
from swapbias.models import Bar, Say, Scorer, as_pinned, check_load, code_of, is_callable, kinds, short_name
from swapbias.models.chat import ChatOptions, unnamed_keys
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import writing
from swapbias.runs.cache import ScoreCache
from swapbias.runs.judge import with_judge
from swapbias.runs.plan import Settings, Task, access_of, fingerprints, plan, repeat_notes, told_part, with_access
from swapbias.runs.rounds import PartScorer, Scoring, check_whole
from swapbias.runs.run import MANIFEST, STUDIES, Run, now
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
    """Run an audit into a new folder; with ``cache``, what an earlier one scored is not scored again.

    ``expected`` is the manifest of a run that is to be repeated, with the same prompts and models. ``scorer`` reads
    the model that the settings name, which is then not loaded. Without ``draw`` figures and report are left to
    ``rebuild_report``. ``engine``: who scores; the run is the same. ``store``: where the run lies, which the caller
    holds; the folder is then a copy.

    Raises:
        UsageError, ValueError, OSError: each with one sentence; nothing half is left.
    """
    need_audit_extra("An audit")
    _check_engine(engine, scorer)
    tasks, skipped = plan(settings, kind=scorer.kind if scorer else None)
    Run.check_new(folder, store)
    _check_store(store, tasks)
    if expected is not None and expected["corpora"] != fingerprints(tasks):
        raise UsageError("The prompts or word lists are not those of the run that is to be repeated. Audit anew.")
    kept = ScoreCache(settings.load) if cache else None
    repeated = (expected or {}).get("models", ())
    readers = load_readers(
        settings, tasks, say=say, bar=bar, scorer=scorer, pinned=repeated
    )  # before anything is written
    pinned = as_json(identities(readers))
    if expected is not None and expected.get("models", pinned) != pinned:
        raise UsageError("A model is not the version of the run that is to be repeated. Audit anew.")
    repeats = repeat_notes(tasks)
    for sentence in filter(None, (told_part(tasks), *repeats)):
        say(sentence)
    manifest = {
        "swapbias": __version__,
        "status": "running",
        "started": now(),
        "versions": _versions(),
        "settings": settings.saved(),
        "corpora": fingerprints(tasks),
        "skipped": [asdict(one) for one in skipped],
        "credentialed": held(tasks),
        **({"in_memory": True} if scorer else {}),
        **({"repeats": repeats} if repeats else {}),
        SHA256: {},
    }
    with writing(folder, held=held(tasks), then=_then(folder)):
        run = Run.create(folder, manifest, store)
        if own := run.keep_studies(list(dict.fromkeys(task.study.name for task in tasks))):
            run.write_manifest({**manifest, "own_studies": own})
        return _work(run, settings, tasks, readers, say, bar, kept, draw=draw, engine=engine)


def resume(
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool = False,
    trust: bool = False,
    allow_pickle: bool = False,
    asked: Settings | None = None,
    scorer: Scorer | None = None,
    conclude: bool = False,
    access: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
    store: "Store | None" = None,
) -> "tuple[Run, list[Finding]]":
    """Go on with a run that was killed; what is on disk is not scored again.

    A manifest runs nothing by itself: ``trust`` lets it import the Python function and read the pickles that it
    names, ``allow_pickle`` the pickles alone. ``access`` is what it does not say (``with_access``). ``conclude`` ends
    it with the trials of every prompt that are there, and asks nothing more. ``asked`` are settings that the run must
    have been begun with, and ``scorer`` reads its model, where that is in memory. ``engine``: who scores the rest,
    whoever began. ``store``: as of ``start``; the folder is a copy of all that is there.

    Raises:
        UsageError: the folder holds no run, another process works on it, the corpora, the settings or the model are
            not what the run began with, or code that is not trusted would run.
    """
    need_audit_extra("An audit")
    _check_engine(engine, scorer)
    if asked is not None:
        _check_same(Run(folder, store), asked)
    # Of prompts that were given again: opening the run takes its own copies of them.
    given = fingerprints(plan(asked, kind=scorer.kind if scorer else None)[0]) if asked else None
    run = Run.open(folder, store)
    if given is not None and given != run.manifest()["corpora"]:
        raise UsageError(f"{run.place} was begun with other prompts or another swapbias. Choose another --out.")
    with writing(folder, held=bool(run.manifest().get("credentialed")), then=_then(folder)):
        allowed = trust or allow_pickle
        return _go_on(
            run, say=say, bar=bar, cache=cache, trust=trust, allow_pickle=allowed, scorer=scorer, conclude=conclude,
            access=access or access_of(asked), engine=engine, typed=asked is not None,
        )  # fmt: skip


def _then(folder: Path) -> str:
    return f"Wait until it ends, or stop it and go on with swapbias audit --resume {folder}."


def _check_same(run: Run, asked: Settings) -> None:
    """Refuse to go on with a run of other settings.

    Raises:
        UsageError: naming the first that differs.
    """
    begun, wanted = run.manifest()["settings"], as_json(asked.saved())
    for name, value in wanted.items():
        if begun.get(name) != value:
            raise UsageError(
                f"{run.place} was begun with {name} {begun.get(name)!r}, and {value!r} is asked for. Ask for the "
                "same, or choose another --out."
            )


def _go_on(
    run: Run,
    *,
    say: Say,
    bar: Bar,
    cache: bool,
    trust: bool,
    allow_pickle: bool,
    scorer: Scorer | None,
    conclude: bool,
    access: Mapping[str, Any],
    engine: Engine,
    typed: bool,
) -> "tuple[Run, list[Finding]]":
    manifest = run.manifest()
    run.sweep()
    settings = Settings.from_manifest(manifest["settings"])
    settings = with_access(replace(settings, load=replace(settings.load, allow_pickle=allow_pickle)), access)
    if manifest.get("in_memory") and scorer is None:
        raise UsageError(
            f"{run.place} was begun in Python with a model in memory. Go on there: swapbias.audit with the "
            f"same model and arguments, out={str(run.place)!r} and resume=True."
        )
    if scorer is None:
        check_code(str(run.place), settings, manifest.get("models"), trust=trust)
        if not (trust or typed or conclude):
            check_keys(str(run.place), settings)
    elif not any(name.endswith("sha256") for name in scorer.identity):
        say(f"Nothing tells whether {scorer.model_id} is the model that {run.place} began with: see to it yourself.")
    tasks, _ = plan(settings, kind=scorer.kind if scorer else None)
    if manifest["swapbias"] != __version__ or manifest["corpora"] != fingerprints(tasks):
        raise UsageError(
            f"{run.place} was begun with swapbias {manifest['swapbias']} and other corpora than this one "
            f"({__version__}) has. Start a new run."
        )
    _check_store(run.store, tasks)
    if conclude:
        check_whole(run, tasks)
    kept = ScoreCache(settings.load) if cache else None
    pinned = manifest.get("models", ())
    readers = load_readers(settings, tasks, say=say, bar=bar, pinned=pinned, scorer=scorer)
    return _work(run, settings, tasks, readers, say, bar, kept, conclude=conclude, engine=engine)


def _work(
    run: Run,
    settings: Settings,
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    say: Say,
    bar: Bar,
    cache: ScoreCache | None,
    *,
    draw: bool = True,
    conclude: bool = False,
    engine: Engine = LOCAL,
) -> "tuple[Run, list[Finding]]":
    manifest = run.manifest()
    pinned = as_json(identities(readers))
    if manifest.setdefault("models", pinned) != pinned:
        raise UsageError(f"{run.place} was begun with another version of the model. Start a new run.")
    run.write_manifest(manifest)
    if manifest.get("credentialed") and run.store:
        say(f"These notes are credentialed: {run.place} must be yours alone, and must not be published or shared.")
    elif manifest.get("credentialed"):
        say(f"These notes are credentialed: {run.place} must not be published, shared or sent anywhere.")
    if manifest.get("credentialed") and engine.address:
        say(f"The machines of the cluster at {engine.address} read them: they must be yours.")
    for task, reader in zip(tasks, readers, strict=True):
        reader.keep_answers(run.folder, text=task.notes is None or not task.notes.credentialed)
    scoring = Scoring(run, manifest, say, settings.margin, conclude)
    spec = {
        "run": run.store.address if run.store else str(run.folder.resolve()), "started": manifest.get("started"),
        "cache": cache is not None, "allow_pickle": settings.load.allow_pickle,
    }  # fmt: skip
    own = PartScorer(run, tasks, readers, cache)
    try:
        how: Any = {"held": bool(manifest.get("credentialed")), "say": say, "advance": scoring.advance}
        with crew(engine, WORKER, spec, own=lambda: own, **how) as hands:
            items = scoring.score(tasks, readers, bar, hands)
    finally:  # a run that is stopped says it too
        if cache is not None:
            manifest["from_cache"] = manifest.get("from_cache", 0) + scoring.cached
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


def part_scorer(spec: Mapping[str, Any]) -> PartScorer:
    """The worker of an audit on a machine of a cluster: plans the run of a folder again, and loads its models.

    Args:
        spec: ``run`` (its folder, on a file system that all machines share, or the URL of a store), when it was
            ``started``, whether scores are kept in this machine's ``cache``, and ``allow_pickle``.

    Raises:
        UsageError: this machine does not see the run, its prompts or its models as the one that began it does.
    """
    if not is_url(spec["run"]):
        return _part_scorer(spec, Path(spec["run"]), None)
    from swapbias.store import Store

    store = Store.open(spec["run"])
    with TemporaryDirectory(prefix="swapbias-") as folder:  # what the plan is made of; parts go to the store
        store.fetch(Path(folder), [MANIFEST, *store.names(STUDIES)])
        return _part_scorer(spec, Path(folder), store)


def _part_scorer(spec: Mapping[str, Any], folder: Path, store: "Store | None") -> PartScorer:
    machine = platform.node()
    if not (folder / MANIFEST).is_file() or Run(folder, store).manifest().get("started") != spec["started"]:
        raise UsageError(
            f"The worker on {machine} does not see the run in {store or folder}. Choose an --out on a file "
            "system that all machines share."
        )
    run = Run.open(folder, store)
    manifest = run.manifest()
    settings = Settings.from_manifest(manifest["settings"])
    settings = replace(settings, load=replace(settings.load, allow_pickle=bool(spec["allow_pickle"])))
    tasks, _ = plan(settings)
    if fingerprints(tasks) != manifest["corpora"]:
        raise UsageError(f"The worker on {machine} has other prompts or word lists. Install the same everywhere.")
    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    readers = load_readers(settings, tasks, pinned=manifest["models"], **quiet)
    if _wherever(as_json(identities(readers))) != _wherever(manifest["models"]):
        raise UsageError(f"The worker on {machine} has another version of the model. Put the same one everywhere.")
    return PartScorer(run, tasks, readers, ScoreCache(settings.load) if spec["cache"] else None)


def _wherever(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What pins models down, on whatever device they are read."""
    return [{name: value for name, value in one.items() if name != "device"} for one in models]


def _check_store(store: "Store | None", tasks: Sequence[Task]) -> None:
    """Refuse what a store cannot hold, or may not."""
    if store is None:
        return
    if any(task.kind.name == "chat" for task in tasks):
        raise UsageError(
            f"Answers of chat models are written to a log line by line, which {store} cannot do. Choose an --out on "
            "this machine, and copy the run there once it is complete."
        )
    if held(tasks) and not store.own:
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
            say(told_model(task.model))
            rows = joined(one.rows for one in tasks if (one.model, one.kind.name) == key)
            loaded[key] = task.kind.load(as_pinned(task.model, pinned), settings, rows, say=say, bar=bar)
        training = task.notes.training if task.notes else lambda phenotype, regime: []
        reader = task.kind.read(loaded[key], task.experiment, settings, corpus=task.study.name, training=training)
        readers.append(reader)
        refuse_sending(task, reader)
    _check_names(tasks, readers)
    return with_judge(tasks, readers, settings, say=say, bar=bar)


def told_model(model: str) -> str:
    """The sentence that says which model is loaded."""
    return f"Model: {short_name(model)}."


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
            raise UsageError(f"{reader.model_id} is named twice. Name it once, or tell the two apart as NAME=PATH.")
        seen.add(key)


def refuse_sending(task: Task, reader: Scorer) -> None:
    """Stop before credentialed notes would leave this machine.

    Raises:
        UsageError: the scorer says that it sends texts to a service (``sends_text``).
    """
    if held([task]) and reader.sends_text:
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


def held(tasks: Sequence[Task]) -> bool:
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
