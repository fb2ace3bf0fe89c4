"""Many models in one folder: a run for each, one after another, and one comparison of them."""

import errno
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.cluster import LOCAL, Engine
from swapbias.errors import UsageError
from swapbias.files import as_json, parse_json
from swapbias.models import Bar, Progress, Say, short_name
from swapbias.models.clinical import NoteOptions
from swapbias.privacy import is_credentialed, log_traceback, safe_message, writing
from swapbias.runs.audit import check_code, check_keys, start, without_permissions
from swapbias.runs.compare import Compared, compare_runs, read_run, write_comparison
from swapbias.runs.run import STUDIES, Run
from swapbias.runs.settings import Settings, with_access
from swapbias.studies import own_studies, reopen_study

MODELS = "models.json"  # names the models and their folders, with the settings of all
COMPARISON = "comparison"
_BARS = 10  # models whose studies have bars of their own; of more there is one bar over all models
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # what no other model would fare better with


@dataclass(frozen=True, slots=True)
class Several:
    """What an audit of several models comes to.

    Attributes:
        folder: has a run for each model, and the comparison in ``comparison``.
        runs: the finished runs by model, in the order in which the models were named.
        failed: why, by model, of those that could not be audited.
        compared: what ``comparison`` shows; None where fewer than two runs have an experiment in common.
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
        UsageError: no model, one that is listed twice, or a name that cannot be a folder's.
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
            raise UsageError(f"{path}, line {number}: {entry} is listed twice. Name each model and run once.")
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
    """Audit each model into a run of its own below the folder, and compare them there; the same call goes on.

    Each model is loaded once and freed before the next. A model that cannot be audited is named and does not stop
    the others.

    Args:
        models: two or more, as ``Settings.model`` names one, each once; by model the name of its run, where there are
            names.
        settings: of all; its own model is not read.
        folder: new, empty, or of the same models and settings.
        say, bar, cache, engine: as of ``start``.

    Raises:
        UsageError, OSError: fewer than two different models, or a folder that cannot be written, also while it runs.
    """
    if len(set(models)) < max(2, len(models)):
        raise UsageError(f"Models {', '.join(models)}: expected two or more, each once. Name others, or drop some.")
    named = _folders(models if isinstance(models, Mapping) else dict.fromkeys(models, ""))
    record: dict[str, Any] = {"models": named, "settings": settings.saved()}
    if not is_several(folder):
        Run.check_new(folder)
    elif _comparable(_read(folder)) != _comparable(as_json(record)):
        raise UsageError(f"{folder} has an audit of other models or settings. Choose another --out.")
    with _writing(folder, settings):
        if not is_several(folder):
            own = Run(folder).save_studies([one.partition(":")[0] for one in settings.studies])
            Run(folder).write_json(MODELS, {**record, **({"own_studies": own} if own else {})})
        return _audit_each(named, settings, folder, say=say, bar=bar, cache=cache, engine=engine)


def _comparable(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record["models"], without_permissions(record["settings"])


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
        UsageError, ValueError: the folder has no such audit. OSError: as ``audit_several``.
    """
    record = _read(folder)
    settings = Settings.from_manifest(record["settings"])
    settings = replace(settings, load=replace(settings.load, allow_pickle=trust or allow_pickle))
    settings = with_access(settings, access or {})
    for name, origin in record.get("own_studies", {}).items():
        if name not in own_studies():
            reopen_study(folder / STUDIES / name, origin)
    how: dict[str, Any] = {"say": say, "bar": bar, "cache": cache, "engine": engine, "trust": trust}
    with _writing(folder, settings):
        return _audit_each(record["models"], settings, folder, **how)


def _writing(folder: Path, settings: Settings) -> Any:
    """The folder for this process alone, marked where the notes that all models read are credentialed."""
    data = settings.of(NoteOptions).data
    credentialed = is_credentialed(folder) or (data is not None and is_credentialed(Path(data)))
    then = f"Wait until it ends, or stop it and go on with swapbias audit --resume {folder}."
    return writing(folder, credentialed=credentialed, then=then)


def is_several(folder: Path) -> bool:
    """Whether a folder has an audit of several models."""
    return (folder / MODELS).is_file()


def _audit_each(
    models: Mapping[str, str],
    settings: Settings,
    folder: Path,
    *,
    say: Say,
    bar: Bar,
    cache: bool,
    engine: Engine,
    trust: bool = True,
) -> Several:
    failed: dict[str, str] = {}
    overall = bar("models", len(models)) if len(models) > _BARS else None
    for number, (model, name) in enumerate(models.items(), start=1):
        mine, place = replace(settings, model=model), f"odel {number:,} of {len(models):,}"
        say(f"M{place}: {short_name(model)}.")
        shown = _no_bar if overall else _titled(f"m{place}", bar)
        try:
            if not trust and not _is_complete(folder / name):  # the list of models may be anybody's
                check_code(str(folder), mine, None, trust=False)
                check_keys(str(folder), mine)
            start(mine, folder / name, say=say, bar=shown, cache=cache, engine=engine)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            log_traceback(error)
            failed[model] = " ".join(safe_message(error).split())
        except Exception as error:  # noqa: BLE001 - one model may break in any way, and the others go on
            log_traceback(error)
            failed[model] = f"{type(error).__name__}. Audit it alone to see more."
        if model in failed:
            say(f"{short_name(model)} failed: {failed[model]}")
        if overall:
            overall(1)
        gc.collect()  # models refer to themselves, and the next one needs the room
    runs = {model: Run(folder / name) for model, name in models.items() if model not in failed}
    return Several(folder, runs, failed, _compare(folder, list(runs.values()), say) if len(runs) > 1 else None)


def _is_complete(place: Path) -> bool:
    try:
        return bool(Run(place).manifest()["status"] == "complete")
    except (ValueError, OSError):
        return False


def _as_folder(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-._" else "-" for one in name).strip(".") or "model"


def _folders(models: Mapping[str, str]) -> dict[str, str]:
    """A folder for each model, by its own name or its short one; those of one name get a number."""
    named: dict[str, str] = {}
    taken = {*filter(None, models.values()), COMPARISON, STUDIES}
    for model, own in models.items():
        safe = own or _as_folder(short_name(model))
        free: Iterator[str] = (safe if number == 1 else f"{safe}-{number}" for number in range(1, len(models) + 3))
        named[model] = own or next(name for name in free if name not in taken)
        taken.add(named[model])
    return named


def _no_bar(title: str, total: int) -> Progress:
    return lambda done: None


def _titled(place: str, bar: Bar) -> Bar:
    return lambda title, total: bar(f"{place}, {title}", total)


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


def _read(folder: Path) -> dict[str, Any]:
    """Models with their folders, the settings of all, and the user's own studies with their origins.

    Raises:
        ValueError: the file is not what ``audit_several`` writes.
    """
    try:
        read: Any = parse_json((folder / MODELS).read_text(encoding="utf-8"))
        names = [*read["models"].values(), *read.get("own_studies", {})]
        if any(Path(name).name != name or name in ("", ".", "..") or len(name.encode()) > 255 for name in names):
            raise ValueError("a run outside of the folder")
        Settings.from_manifest(read["settings"])
        return dict(read)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / MODELS} cannot be read ({error}). Start a new audit.") from error
