"""Several models in one folder: a run for each, which can be resumed alone, and one comparison of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.audit.audit import check_code, resume, start
from swapbias.audit.compare import compare_runs, read_run, write_comparison
from swapbias.audit.plan import Settings
from swapbias.audit.run import MANIFEST, Run
from swapbias.errors import UsageError
from swapbias.files import locked, parse_json
from swapbias.scorers import Bar, Say, short_name

MODELS = "models.json"  # names the models and their folders, with the settings of all
COMPARISON = "comparison"


@dataclass(frozen=True, slots=True)
class Several:
    """What an audit of several models comes to.

    Attributes:
        folder: holds a run for each model, and the comparison in ``comparison``.
        runs: the finished runs by model.
        failed: why, by model, of those that could not be audited.
    """

    folder: Path
    runs: Mapping[str, Run]
    failed: Mapping[str, str]


def audit_several(
    models: Sequence[str], settings: Settings, folder: Path, *, say: Say, bar: Bar, cache: bool = False
) -> Several:
    """Audit each model into a run of its own below the folder, and compare them there.

    A model that cannot be audited is named and does not stop the others.

    Args:
        models: two or more, as ``Settings.model`` names one; each once.
        settings: of all; its own model is not read.
        folder: new or empty.
        say, bar, cache: as of ``start``.

    Raises:
        UsageError, OSError: fewer than two different models, or a folder that cannot be written.
    """
    if len(set(models)) < max(2, len(models)):
        raise UsageError(f"Models {', '.join(models)}: expected two or more, each once. Name others, or drop some.")
    Run.check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    Run(folder).write_json(MODELS, {"models": _folders(models), "settings": settings.saved()})
    return _work(folder, say=say, bar=bar, cache=cache, trust=True, allow_pickle=settings.load.allow_pickle)


def resume_several(
    folder: Path, *, say: Say, bar: Bar, cache: bool = False, trust: bool = False, allow_pickle: bool = False
) -> Several:
    """Go on with an audit of several models: finished runs stay, others go on, failed models are tried again.

    Raises:
        UsageError, ValueError: the folder holds no such audit.
    """
    return _work(folder, say=say, bar=bar, cache=cache, trust=trust, allow_pickle=allow_pickle)


def is_several(folder: Path) -> bool:
    """Whether a folder holds an audit of several models."""
    return (folder / MODELS).is_file()


def _folders(models: Sequence[str]) -> dict[str, str]:
    """A folder for each model, by its short name; those of one name get a number."""
    named: dict[str, str] = {}
    for model in models:
        safe = (
            "".join(one if one.isalnum() or one in "-._" else "-" for one in short_name(model)).strip(".") or "model"
        )
        taken = {*named.values(), COMPARISON}
        named[model] = next(
            name for number in range(1, len(models) + 2)
            if (name := safe if number == 1 else f"{safe}-{number}") not in taken
        )  # fmt: skip
    return named


def _work(
    folder: Path, *, say: Say, bar: Bar, cache: bool, trust: bool = False, allow_pickle: bool = False
) -> Several:
    models, settings = _read(folder)
    settings = replace(settings, load=replace(settings.load, allow_pickle=allow_pickle))
    runs: dict[str, Run] = {}
    failed: dict[str, str] = {}
    with locked(folder):
        for model, name in models.items():
            place = folder / name
            try:
                if (place / MANIFEST).is_file() and Run(place).manifest()["status"] == "complete":
                    runs[model] = Run(place)
                elif (place / MANIFEST).is_file():
                    allowed: Any = {"trust": trust, "allow_pickle": allow_pickle}
                    runs[model] = resume(place, say=say, bar=bar, cache=cache, **allowed)[0]
                else:
                    mine = replace(settings, model=model)
                    check_code(str(folder), mine, None, trust=trust)  # the list of models may be anybody's
                    runs[model] = start(mine, place, say=say, bar=bar, cache=cache)[0]
            except (ValueError, OSError) as error:
                failed[model] = " ".join(str(error).split())
                say(f"{short_name(model)} failed: {failed[model]}")
        if len(runs) > 1:
            _compare(folder, list(runs.values()), say)
    return Several(folder, runs, failed)


def _compare(folder: Path, runs: Sequence[Run], say: Say) -> None:
    try:
        compared = compare_runs([read_run(one.folder) for one in runs])
    except UsageError as error:
        say(f"No comparison: {error}")
        return
    for sentence in compared.left_out:
        say(sentence)
    write_comparison(folder / COMPARISON, compared)


def _read(folder: Path) -> tuple[dict[str, str], Settings]:
    """Models with their folders, and the settings of all."""
    try:
        read: Any = parse_json((folder / MODELS).read_text(encoding="utf-8"))
        models = {str(model): str(name) for model, name in read["models"].items()}
        if any(Path(name).name != name or name in (".", "..") for name in models.values()):
            raise ValueError("a run outside of the folder")
        return models, Settings.from_manifest(read["settings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / MODELS} cannot be read ({error}). Start a new audit.") from error
