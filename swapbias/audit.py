"""The main job: prompts -> scores -> findings -> figures and report, in one resumable run."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.findings import Finding, disaggregate, findings_table
from swapbias.report.figures import draw_figures
from swapbias.report.page import Page, render
from swapbias.runs import Run
from swapbias.scorers import VADER, LoadOptions, Scorer, load_scorer, model_kind
from swapbias.scoring import chunks, score_rows
from swapbias.sources import fingerprint
from swapbias.studies import Experiment, Study, config_rows, load_lexicon, load_study, studies

CALIBRATION = "calibration"
_DEFAULT_MODELS = {"masked": CALIBRATION, "classifier": VADER}
_VERSIONS = ("torch", "transformers", "datasets", "numpy", "scipy", "pandas", "pyarrow")


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

    @classmethod
    def from_manifest(cls, saved: Mapping[str, Any]) -> "Settings":
        """The settings of a manifest.

        Raises:
            ValueError: they are not those of this version.
        """
        try:
            return cls(**{**saved, "studies": tuple(saved["studies"]), "load": LoadOptions(**saved["load"])})
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"The manifest's settings are not of this version ({error}). Start a new run."
            ) from error


@dataclass(frozen=True, slots=True)
class Task:
    """One experiment on one model."""

    study: Study
    experiment: Experiment
    config: str
    model: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An experiment that was not run, and why."""

    study: str
    experiment: str
    reason: str


Say = Callable[[str], None]
Bar = Callable[[str, int], Callable[[int], None]]  # title and total -> called with how many more are done


def plan(settings: Settings) -> tuple[list[Task], list[Skipped]]:
    """Which experiments run on which model, and which do not fit.

    Raises:
        UsageError: an unknown study, config or kind, or a model that fits nothing.
        ValueError: no such model.
    """
    chosen = [_study_and_config(name) for name in settings.studies or studies()]
    kind = None if settings.model is None else model_kind(settings.model, settings.kind)
    tasks, skipped = [], []
    for study, config in chosen:
        for experiment in study.experiments:
            if not experiment.configs or (config and config not in experiment.configs):
                continue
            if kind not in (None, experiment.kind):
                reason = f"it needs a {experiment.kind} model and {_short(settings.model)} is of kind {kind}"
                skipped.append(Skipped(study.name, experiment.name, reason))
                continue
            model = settings.model or _DEFAULT_MODELS[experiment.kind]
            tasks.append(Task(study, experiment, config or experiment.configs[0], model))
    if not tasks:
        reasons = "; ".join(f"{one.study} {one.experiment}: {one.reason}" for one in skipped)
        raise UsageError(f"Nothing to audit: {reasons}. Choose another model or --study.")
    return tasks, skipped


def _study_and_config(name: str) -> tuple[Study, str]:
    study_name, _, config = name.partition(":")
    study = load_study(study_name)
    known = [config for experiment in study.experiments for config in experiment.configs]
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


def start(settings: Settings, folder: Path, *, say: Say, bar: Bar) -> tuple[Run, list[Finding]]:
    """Run an audit into a new folder.

    Raises:
        UsageError, ValueError, OSError: each with one sentence; nothing half is left.
    """
    tasks, skipped = plan(settings)
    rows = [_limited(config_rows(task.study.name, task.config), settings.limit) for task in tasks]
    manifest = {
        "swapbias": __version__,
        "status": "running",
        "started": _now(),
        "versions": _versions(),
        "settings": asdict(settings),
        "corpora": _fingerprints(tasks, rows),
        "skipped": [asdict(one) for one in skipped],
    }
    return _work(Run.create(folder, manifest), settings, tasks, rows, say=say, bar=bar)


def resume(folder: Path, *, say: Say, bar: Bar) -> tuple[Run, list[Finding]]:
    """Go on with a run that was killed; what is on disk is not scored again.

    Raises:
        UsageError: the folder holds no run, or the corpora or the model are not what the run began with.
    """
    run = Run.open(folder)
    manifest = run.manifest()
    settings = Settings.from_manifest(manifest["settings"])
    tasks, _ = plan(settings)
    rows = [_limited(config_rows(task.study.name, task.config), settings.limit) for task in tasks]
    if manifest["swapbias"] != __version__ or manifest["corpora"] != _fingerprints(tasks, rows):
        raise UsageError(
            f"{folder} was begun with swapbias {manifest['swapbias']} and other corpora than this one "
            f"({__version__}) has. Start a new run."
        )
    return _work(run, settings, tasks, rows, say=say, bar=bar)


def _fingerprints(tasks: Sequence[Task], rows: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, Any]]:
    return [
        {"corpus": t.study.name, "config": t.config, "rows": len(part), "sha256": fingerprint(part)}
        for t, part in zip(tasks, rows, strict=True)
    ]


def _limited(rows: list[dict[str, str]], limit: int | None) -> list[dict[str, str]]:
    """At most ``limit`` rows: whole pairs, spread evenly over the config."""
    pairs = list(dict.fromkeys(row["pair_id"] for row in rows))
    if limit is None or limit >= len(rows):
        return rows
    count = max(1, limit * len(pairs) // len(rows))
    kept = {pairs[index * len(pairs) // count] for index in range(count)}
    return [row for row in rows if row["pair_id"] in kept]


def _work(
    run: Run, settings: Settings, tasks: list[Task], rows: list[list[dict[str, str]]], *, say: Say, bar: Bar
) -> tuple[Run, list[Finding]]:
    manifest = run.manifest()
    scorers = {model: _scorer(model, settings, say, bar) for model in dict.fromkeys(task.model for task in tasks)}
    models = [{"model_id": scorer.model_id, **scorer.identity} for scorer in scorers.values()]
    if manifest.setdefault("models", _as_saved(models)) != _as_saved(models):
        raise UsageError(f"{run.folder} was begun with another version of the model. Start a new run.")
    run.write_manifest(manifest)
    items = _score_all(run, scorers, tasks, rows, bar)
    found: list[Finding] = []
    for name, frame in items.items():
        for model_id, part in frame.groupby("model_id", sort=False):
            scorer = next(one for one in scorers.values() if one.model_id == model_id)
            found += _with_unit(disaggregate(part, name, expected=getattr(scorer, "expected", None)), scorer.unit)
    manifest |= {"status": "complete", "finished": _now()}
    _write_results(run, manifest, found, items, _coverage(scorers, items))
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return run, found


def _as_saved(models: list[dict[str, Any]]) -> Any:
    """As a manifest read back has it: lists for tuples, strings for keys."""
    import json

    return json.loads(json.dumps(models))


def _scorer(model: str, settings: Settings, say: Say, bar: Bar) -> Scorer:
    if model == CALIBRATION and settings.model is None:
        from swapbias.scorers.calibration import STEPS, load_calibration

        say("Calibration model: a tiny masked language model with a planted bias, trained once and kept.")
        return load_calibration(
            seed=settings.seed,
            options=settings.load,
            bar=lambda: bar("training the calibration model", STEPS),
        )
    say(f"Loading {model}.")
    return load_scorer(model, kind=settings.kind, options=settings.load)


def _score_all(
    run: Run,
    scorers: Mapping[str, Scorer],
    tasks: Sequence[Task],
    rows: Sequence[list[dict[str, str]]],
    bar: Bar,
) -> dict[str, pd.DataFrame]:
    items = {}
    for study in dict.fromkeys(task.study.name for task in tasks):
        todo = [(scorers[t.model], part) for t, part in zip(tasks, rows, strict=True) if t.study.name == study]
        advance = bar(study, sum(len(part) for _, part in todo))

        def chunk(scorer: Scorer, piece: Any, advance: Any = advance) -> Callable[[], list[dict[str, Any]]]:
            return lambda: score_rows(piece, scorer, advance)

        work = [chunk(scorer, piece) for scorer, part in todo for piece in chunks(part)]
        items[study] = run.score_once(study, work, advance)
    return items


def _with_unit(found: list[Finding], unit: str) -> list[Finding]:
    """Findings in the unit of the scorer, which may differ from the study's (VADER gives no probability)."""
    return [one if one.measure == "correlation" else replace(one, unit=unit) for one in found]


def _coverage(scorers: Mapping[str, Scorer], items: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    rows = []
    for scorer in scorers.values():
        if not hasattr(scorer, "coverage"):
            continue
        for frame in items.values():
            mine = frame[frame["model_id"] == scorer.model_id]["candidates"]
            for name in sorted({candidates.rpartition("/")[0] for candidates in set(mine)} - {""}):
                rows += [asdict(one) for one in scorer.coverage(load_lexicon(name))]
    return pd.DataFrame(rows)


def _write_results(
    run: Run,
    manifest: Mapping[str, Any],
    found: list[Finding],
    items: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
) -> None:
    table = findings_table(found)
    run.write_csv("findings.csv", table)
    run.write_json("results.json", {"swapbias": __version__, "findings": table.to_dict("records")})
    if len(coverage):
        run.write_csv("lexicon_coverage.csv", coverage)
    figures = draw_figures(found)
    for figure in figures:
        run.write(f"figures/{figure.name}.svg", figure.svg)
        run.write(f"figures/{figure.name}.png", figure.png)
    run.write("report.html", render(Page(manifest, found, items, figures, coverage)).encode())


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
