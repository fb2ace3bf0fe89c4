"""Many models in one folder: a run for each, which can be resumed alone, and one comparison of them."""

import errno
import gc
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.cluster import LOCAL, Done, Engine, Part, Worker, crew
from swapbias.errors import UsageError
from swapbias.files import (
    CHECKSUM,
    LOCK,
    SHA256,
    TEMPORARY,
    file_sha256,
    is_sealed,
    is_there,
    locked,
    parse_json,
    sealed,
)
from swapbias.models import Bar, Progress, Say, kind_of, short_name
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import is_credentialed, log_traceback, told, writing
from swapbias.runs.audit import check_code, resume, start, told_model
from swapbias.runs.compare import Compared, compare_runs, read_run, write_comparison
from swapbias.runs.plan import Settings, access_of, with_access
from swapbias.runs.results import mend
from swapbias.runs.run import ITEMS, MANIFEST, STUDIES, Run
from swapbias.studies import own_studies, reopen_study

MODELS = "models.json"  # names the models and their folders, with the settings of all
FAILED = "failed.json"  # why, by model, of those that failed last
COMPARISON = "comparison"
_BARS = 10  # models whose studies have bars of their own; of more there is one bar over all models
_WEIGHTS = (".safetensors", ".bin", ".joblib", ".skops", ".pt")
_LONGEST = 255  # bytes in the name of a folder, on any file system
_LEASE = 120.0  # seconds that a file server may keep the lock of a process whose machine is gone
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # what no other model would fare better with


@dataclass(frozen=True, slots=True)
class Several:
    """What an audit of several models comes to.

    Attributes:
        folder: holds a run for each model, and the comparison in ``comparison``.
        runs: the finished runs by model, in the order in which the models were named.
        failed: why, by model, of those that could not be audited.
        compared: what stands in ``comparison``; None where fewer than two runs have an experiment in common.
    """

    folder: Path
    runs: Mapping[str, Run]
    failed: Mapping[str, str]
    compared: Compared | None = None


def read_models(path: Path) -> dict[str, str]:
    """The models that a file lists, one a line, each with the name of its run: blank where the line gives none.

    A line is a model as ``swapbias audit`` takes it, or ``NAME=PATH``; what follows ``#`` (at the beginning, or after
    a blank) is a comment. Folders and files are found beside the file.

    Raises:
        UsageError: no model, one that stands twice, or a name that cannot be a folder's.
        ValueError: it is no text. OSError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8. Save it as a text file with a model a line.") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        entry = "" if line.lstrip().startswith("#") else line.partition(" #")[0].strip()
        if not entry:
            continue
        name, model = _named(entry, path.parent)
        if model in found or (name and name in found.values()):
            raise UsageError(f"{path}, line {number}: {entry} stands twice. Name each model and run once.")
        if name and (_as_folder(name) != name or name in (COMPARISON, STUDIES)):
            raise UsageError(f"{path}, line {number}: {name!r} cannot name a run: use letters, digits, - _ .")
        found[model] = name
    if not found:
        raise UsageError(f"{path} lists no model. Write one a line.")
    return found


def _named(entry: str, beside: Path) -> tuple[str, str]:
    """Name, or blank, and model of a line; a place that there is may have a ``=`` in it."""
    name, equals, model = entry.partition("=")
    if not equals or (beside / entry).exists():
        name, model = "", entry
    place = beside / model.strip()
    return name.strip(), str(place.resolve()) if place.exists() else model.strip()


def audit_several(
    models: Sequence[str] | Mapping[str, str],
    settings: Settings,
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool = False,
    engine: Engine = LOCAL,
) -> Several:
    """Audit each model into a run of its own below the folder, and compare them there.

    The largest is audited first, where sizes are known: what does not fit a machine is known early. Each is loaded
    once and let go before the next. A model that cannot be audited is named and does not stop the others.

    Workers of a cluster audit a model each at a time. Where a chat model is asked too, models are audited one after
    the other, and workers have parts of each.

    Args:
        models: two or more, as ``Settings.model`` names one, each once; by model the name of its run, where there are
            names.
        settings: of all; its own model is not read.
        folder: new or empty.
        say, bar, cache, engine: as of ``start``.

    Raises:
        UsageError, OSError: fewer than two different models, or a folder that cannot be written, also while it runs.
    """
    if len(set(models)) < max(2, len(models)):
        raise UsageError(f"Models {', '.join(models)}: expected two or more, each once. Name others, or drop some.")
    Run.check_new(folder)
    named = models if isinstance(models, Mapping) else dict.fromkeys(models, "")
    with _alone(folder, settings):
        Run.check_new(folder)  # another process may have been first
        run = Run(folder)
        own = run.keep_studies([one.partition(":")[0] for one in settings.studies])
        kept = {"own_studies": own} if own else {}
        told = {"models": _folders(named), "settings": settings.saved(), **kept, SHA256: {}}
        run.write_json(MODELS, sealed(told, MODELS))
    more: Any = {"allow_pickle": settings.load.allow_pickle, "access": access_of(settings)}
    return _work(folder, say=say, bar=bar, cache=cache, trust=True, engine=engine, **more)


def resume_several(
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool = False,
    trust: bool = False,
    allow_pickle: bool = False,
    access: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
) -> Several:
    """Go on with an audit of several models: finished runs stay, others go on, failed models are tried again.

    Raises:
        UsageError, ValueError: the folder holds no such audit. OSError: as ``audit_several``.
    """
    more: Any = {"allow_pickle": allow_pickle, "access": access or {}}
    return _work(folder, say=say, bar=bar, cache=cache, trust=trust, engine=engine, **more)


def _alone(folder: Path, settings: Settings) -> AbstractContextManager[None]:
    """The folder for this process alone, marked where the notes that all models read are credentialed."""
    data = settings.of(NoteOptions).data
    held = is_credentialed(folder) or (data is not None and is_credentialed(Path(data)))
    then = f"Wait until it ends, or stop it and go on with swapbias audit --resume {folder}."
    return writing(folder, held=held, then=then)


def is_several(folder: Path) -> bool:
    """Whether a folder holds an audit of several models."""
    return (folder / MODELS).is_file()


def audit_one(
    model: str,
    settings: Mapping[str, Any],
    folder: str,
    *,
    cache: bool = False,
    trust: bool = False,
    allow_pickle: bool = False,
    access: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
    say: Say | None = None,
    bar: Bar | None = None,
) -> str:
    """Audit one of several models, or go on with its run: the piece of work that is handed out.

    All but ``say`` and ``bar`` is plain JSON, and all that comes of it is on disk, so that any process that sees the
    folder can do it, and do it again: a finished run stays as it is.

    Args:
        model: as ``Settings.model`` names it.
        settings: of all models, as ``Settings.saved`` writes them.
        folder: of this model's run; own studies lie beside it.
        cache: take from and add to the scores that other audits keep.
        trust, allow_pickle, access, engine: as of ``resume``.
        say, bar: as of ``start``; None: nothing is shown.

    Returns:
        Why the model failed, in one sentence; blank where its run is complete.

    Raises:
        OSError: the disk is full or cannot be written: no other model would fare better.
    """
    place, say = Path(folder), say or (lambda sentence: None)
    how: dict[str, Any] = {
        "say": say,
        "bar": bar or _no_bar,
        "cache": cache,
        "engine": engine,
    }
    try:
        _wait_for(place, say)
        if (place / MANIFEST).is_file():
            if not (_finished(place) or mend(Run.open(place))):
                resume(place, **how, trust=trust, allow_pickle=allow_pickle, access=access)
            return ""
        _open_studies(place.parent)
        mine = Settings.from_manifest(settings)
        mine = replace(mine, model=model, load=replace(mine.load, allow_pickle=allow_pickle))
        mine = with_access(mine, access or {})
        check_code(str(place.parent), mine, None, trust=trust)  # the list of models may be anybody's
        start(mine, place, **how)
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise
        log_traceback(error)
        return " ".join(told(error).split())
    except Exception as error:  # noqa: BLE001 - one of a thousand models may break in any way, and the others go on
        log_traceback(error)
        return f"{type(error).__name__}. Audit it alone to see more."
    finally:
        gc.collect()  # models hold themselves in circles, and the next one needs the room
    return ""


def _wait_for(place: Path, say: Say) -> None:
    """Wait for whoever works on a run: a worker or command that died may seem to for a while."""
    until, told_so = time.monotonic() + _LEASE, False
    while (place / LOCK).exists() and time.monotonic() < until:
        try:
            with locked(place):
                return
        except UsageError:
            if not told_so:
                say(f"{place} is being worked on by another process: waiting up to {_LEASE:.0f} s for it to end.")
            told_so = True
            time.sleep(0.5)


WORKER = "swapbias.runs.several:model_auditor"


def model_auditor(spec: Mapping[str, Any]) -> Worker:
    """The worker of an audit of several models on a machine of a cluster: a part is a model.

    Args:
        spec: ``folder`` (on a file system that all machines share), the sha256 of its list of ``models``, and
            ``cache``, ``trust`` and ``allow_pickle`` as of ``audit_one``.

    Raises:
        UsageError: this machine does not see the folder as the one that began it does.
    """
    folder = Path(spec["folder"])
    if not is_several(folder) or file_sha256(folder / MODELS) != spec["models"]:
        raise UsageError(
            f"The worker on {platform.node()} does not see the audit in {folder}. Choose an --out on a file system "
            "that all machines share."
        )
    settings = _read(folder)[1]
    allowed: dict[str, Any] = {name: bool(spec[name]) for name in ("cache", "trust", "allow_pickle")}

    def audit(part: Part, advance: Progress) -> dict[str, Any]:
        said: list[str] = []
        why = audit_one(part["model"], settings, str(folder / part["name"]), **allowed, say=said.append)
        known = told_model(part["model"])
        return {"why": why, "said": [sentence for sentence in said if sentence != known]}

    return audit


def handed_out(folder: Path) -> Iterator[tuple[str, str]]:
    """The models that are not finished yet and the folders of their runs, the largest first where sizes are known.

    Sizes are those of the weights in local folders; the others follow in the order in which they were named.
    """
    models = _read(folder)[0]
    todo = [(model, folder / name) for model, name in models.items() if not _finished(folder / name)]
    for model, place in sorted(todo, key=lambda one: -_bytes(one[0])):
        yield model, str(place)


def _finished(place: Path) -> bool:
    """Whether a run is complete and whole; one whose manifest cannot be read is not."""
    try:
        run = Run(place)
        return (place / MANIFEST).is_file() and run.manifest()["status"] == "complete" and not run.damaged()
    except (ValueError, OSError):  # also of a disk that fails
        return False


def _bytes(model: str) -> int:
    """The size of the weights of a model in a local folder; 0 where that is not known."""
    place = Path(model)
    if not (is_there(place) and place.is_dir()):
        return 0
    return sum(path.stat().st_size for path in place.iterdir() if path.suffix in _WEIGHTS)


def _as_folder(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-._" else "-" for one in name).strip(".") or "model"


def _folders(models: Mapping[str, str]) -> dict[str, str]:
    """A folder for each model, by its own name or its short one; those of one name get a number."""
    named: dict[str, str] = {}
    taken = {*filter(None, models.values()), COMPARISON, STUDIES}
    times: dict[str, int] = {}
    for model, own in models.items():
        name = safe = own or _as_folder(short_name(model))
        while not own and name in taken:
            times[safe] = times.get(safe, 1) + 1
            name = f"{safe}-{times[safe]}"
        taken.add(name)
        named[model] = name
    return named


def _work(
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool,
    trust: bool,
    allow_pickle: bool,
    access: Mapping[str, Any],
    engine: Engine,
) -> Several:
    models, saved, _ = _read(folder)
    settings = Settings.from_manifest(saved)
    # A chat model has one limit and one log of answers, which all would share: of each run, parts are spread alone.
    where = LOCAL if kind_of("chat").given(settings) else engine
    allowed: dict[str, Any] = {"cache": cache, "trust": trust, "allow_pickle": allow_pickle}
    with _alone(folder, settings):
        _sweep(folder, models.values())
        _open_studies(folder)
        todo = list(handed_out(folder))
        shown = _Shown(say, bar, len(models), len(models) - len(todo), many=len(models) > _BARS or not where.local)
        if not where.local and is_credentialed(folder):
            say(f"These notes are credentialed: {folder} must not be published, shared or sent anywhere.")
            if where.address:
                say(f"The machines of the cluster at {where.address} read them: they must be yours.")

        def here(part: Part, advance: Progress) -> Done:
            more = {"access": access, "engine": engine, **shown.begins(part["model"])}
            return {"why": audit_one(part["model"], saved, str(folder / part["name"]), **allowed, **more)}

        spec = {"folder": str(folder.resolve()), "models": file_sha256(folder / MODELS), **allowed}
        parts: Iterator[Part] = ({"name": Path(place).name, "model": model, "rows": 1} for model, place in todo)
        failed: dict[str, str] = {}
        with crew(where, WORKER, spec, own=lambda: here, alone=True, held=is_credentialed(folder), say=say) as hands:
            for part, done in hands(parts):
                if why := _why(done):
                    failed[part["model"]] = why
                shown.ends(part["model"], why, None if where.local else done.get("said", ()))
        failed = {model: failed[model] for model in models if model in failed}
        runs = {model: Run(folder / name) for model, name in models.items() if model not in failed}
        _keep_failed(folder, failed)
        compared = _compare(folder, list(runs.values()), say) if len(runs) > 1 else None
    return Several(folder, runs, failed, compared)


def _sweep(folder: Path, names: Iterable[str]) -> None:
    """Remove what a killed process left behind, also beside a run that it finished just then.

    Runs that go on sweep themselves; a worker of a cluster may be writing there yet.
    """
    for path in (*folder.glob(f".*{TEMPORARY}"), *(folder / COMPARISON).rglob(f".*{TEMPORARY}")):
        path.unlink(missing_ok=True)
    for place in (folder / name for name in names):
        if ((place / LOCK).exists() or any((place / ITEMS).glob(f".*{CHECKSUM}"))) and _finished(place):
            with suppress(UsageError), locked(place):  # else whoever works there has not let go of it yet
                Run(place).sweep()
                Run(place).drop_checksums()


class _Shown:
    """What is said of models as they are audited, and of many one bar over all."""

    def __init__(self, say: Say, bar: Bar, total: int, number: int, *, many: bool) -> None:
        """Of so many in all, of which a number is done."""
        self.say, self.bar, self.total, self.number = say, bar, total, number
        self.overall = bar("models", total) if many else None
        if self.overall:
            self.overall(number)

    def _next(self) -> str:
        self.number += 1
        return f"odel {self.number:,} of {self.total:,}"

    def begins(self, model: str) -> dict[str, Any]:
        """Before a model is audited here: what ``audit_one`` is to say and show with."""
        place = self._next()
        self.say(f"M{place}: {short_name(model)}.")
        bar = _no_bar if self.overall else _titled(f"m{place}", self.bar)
        return {"say": _without(told_model(model), self.say), "bar": bar}

    def ends(self, model: str, why: str, said: Sequence[str] | None) -> None:
        """After it; ``said`` is what a worker would have said of it."""
        name = short_name(model)
        if said is not None:
            self.say(f"M{self._next()}: {name}.")
        for sentence in said or ():
            self.say(f"{name}: {sentence}")
        if why:
            self.say(f"{name} failed: {why}")
        if self.overall:
            self.overall(1)


def _why(done: Done) -> str:
    """Why a model failed; blank where it did not."""
    if "ended" not in done:
        return str(done["why"])
    return (
        f"{done['ended']} workers ended on it, most likely for want of memory. What is done is kept: go on with "
        "--resume and fewer workers, or on larger machines."
    )


def _no_bar(title: str, total: int) -> Progress:
    return lambda done: None


def _titled(place: str, bar: Bar) -> Bar:
    return lambda title, total: bar(f"{place}, {title}", total)


def _without(known: str, say: Say) -> Say:
    """Says all but a sentence that is said already."""
    return lambda sentence: None if sentence == known else say(sentence)


def _keep_failed(folder: Path, failed: Mapping[str, str]) -> None:
    if failed:
        Run(folder).write_json(FAILED, failed)
    else:
        (folder / FAILED).unlink(missing_ok=True)


def _compare(folder: Path, runs: Sequence[Run], say: Say) -> Compared | None:
    try:
        compared = compare_runs([read_run(one.folder) for one in runs])
    except UsageError as error:
        say(f"No comparison: {error}")
        return None
    for sentence in compared.left_out:
        say(sentence)
    write_comparison(folder / COMPARISON, compared)
    return compared


def _open_studies(folder: Path) -> None:
    """Make the user's own studies known, from the copies beside the runs, where this process does not know them."""
    own = _read(folder)[2] if is_several(folder) else {}
    for name, origin in own.items():
        if name not in own_studies():
            reopen_study(folder / STUDIES / name, origin)


def _read(folder: Path) -> tuple[dict[str, str], dict[str, Any], dict[str, str]]:
    """Models with their folders, the settings of all, and the user's own studies with their origins.

    Raises:
        ValueError: the file is not what ``audit_several`` writes.
    """
    try:
        read: Any = parse_json((folder / MODELS).read_text(encoding="utf-8"))
        models = {str(model): str(name) for model, name in read["models"].items()}
        own = {str(name): str(origin) for name, origin in read.get("own_studies", {}).items()}
        if any(Path(name).name != name or name in ("", ".", "..") for name in (*models.values(), *own)):
            raise ValueError("a run outside of the folder")
        if any(len(name.encode("utf-8", "replace")) > _LONGEST for name in models.values()):
            raise ValueError(f"a run whose folder has more than {_LONGEST} bytes in its name")
        if not is_sealed(read, MODELS):
            raise ValueError(f"it is damaged, or was edited: take out its {SHA256!r} if the edit is meant")
        Settings.from_manifest(read["settings"])
        return models, read["settings"], own
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / MODELS} cannot be read ({error}). Start a new audit.") from error
