"""Results of a run: its findings, and all of it as files, also where a stranger wrote them."""

from collections import UserDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import findings, privacy
from swapbias.errors import UsageError, need, notes_read
from swapbias.files import file_sha256, unescape_csv_cell, write_whole
from swapbias.findings import (
    Finding,
    category_rates,
    comparisons,
    explained_notes,
    findings_table,
)
from swapbias.privacy import is_credentialed, public_model, writing
from swapbias.runs.command import placeholders_in, repeat_command
from swapbias.runs.results_schema import (
    parse_explanations,
    parse_manifest,
    parse_results,
    without_controls,
)
from swapbias.runs.run import ITEMS, MANIFEST, REPORT, SHA256, Run
from swapbias.studies import load_study

FINDINGS_CSV = "findings.csv"
"""File of the findings as a table."""
FINDINGS_JSON = "results.json"
"""File of the findings for programs."""
COVERAGE = "lexicon_coverage.csv"
"""File of the listed words, and whether the model knows them."""
SELECTION_RATES = "selection_rates.csv"
"""File of the rates of selection by sex and race, below a line that says what they are not."""
EXPLAINED = "explanations.json"
"""File of the words that weigh most in notes."""
Items = Mapping[str, pd.DataFrame]
"""Scored rows by study."""


@dataclass(frozen=True, slots=True)
class Results:
    """A finished run."""

    manifest: Mapping[str, Any]
    """Settings, versions, models and fingerprints."""
    found: list[Finding]
    """Every finding."""
    items: Items = field(default_factory=dict)
    """Scored rows by study."""
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Listed words, and whether the model knows them."""
    explanations: tuple[explained_notes.Explanation, ...] = ()
    """Words that weigh most in the most mismatched notes; empty for a run of the Hub."""
    place: str = ""
    """Folder of the run, or OWNER/NAME on the Hub."""
    name: str = ""
    """Name of its folder."""
    commit: str = ""
    """Commit on the Hub; blank for a run of this machine."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the run among others."""
        if not self.commit:  # one folder may be named in several ways
            return str(Path(self.place).resolve()), "", ""
        return self.place, self.name, self.commit

    @property
    def public_place(self) -> str:
        """Place without a path of this machine."""
        return self.place if self.commit else self.name


class LazyItems(UserDict[str, Any]):
    """Scored rows by study, each read when it is looked up, and not stored."""

    def __init__(self, names: Iterable[str], read: Callable[..., pd.DataFrame]) -> None:
        super().__init__(dict.fromkeys(names))
        self._read = read

    def __getitem__(self, study: str) -> pd.DataFrame:
        return self._read(study)

    def reading(self, **options: Any) -> "LazyItems":
        """Return the same rows, read in another way.

        Args:
            options: of ``Run.items``.
        """
        return LazyItems(self, partial(self._read, **options))


def write_results(run: Run, results: Results, *, draw: bool = True, command: str = "") -> None:
    """Write findings, coverage and the report; the scored rows stand there already.

    Args:
        run: where they are written.
        results: the results of the run.
        draw: write the report too.
        command: repeats the run, where its manifest tells less than all.
    """
    table = findings_table(results.found)
    version = results.manifest["swapbias"]
    run.write_csv(FINDINGS_CSV, table)
    run.write_json(FINDINGS_JSON, {"swapbias": version, "findings": table.to_dict("records")})
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    _write_category_rates(run, results.items)
    if draw:
        _write_report(run, results, command)


def _write_category_rates(run: Run, items: Items) -> None:
    """Write the rates of selection by sex and race, where a study names their columns."""
    studies = [load_study(name) for name in items]
    if not any(category_rates.asks_for_categories(study) for study in studies):
        return
    from swapbias.report import category_tables  # takes long to import

    rates = [
        rate
        for study in studies
        for rate in category_rates.category_rates(study, items[study.name])
    ]
    if rates:
        run.write(SELECTION_RATES, category_tables.as_csv(rates))


def _write_report(run: Run, results: Results, command: str = "") -> None:
    """Write the page of a run, which may be made public."""
    from swapbias.report import render  # takes long to import

    public = as_public(replace(results, items=dict(results.items)))
    command = command or repeat_command(results.manifest)
    meanings = placeholders_in(command)
    page = render(results.manifest, public.found, public.items, public.coverage, command, meanings)
    run.write(REPORT, page.encode())


def rebuild_report(run: Run) -> Path:
    """Write the report of a finished run again, from what is on disk.

    Args:
        run: the run that is complete.

    Returns:
        Path of the report.

    Raises:
        UsageError: the run is not complete.
        ValueError: its files are not what swapbias writes.
    """
    results = read_run(run.folder)
    path = run.folder / REPORT
    with writing(run.folder, credentialed=is_credentialed(run.folder)):
        _write_report(run, results)
        manifest = run.manifest()
        if SHA256 in manifest:
            sums = {**manifest[SHA256], REPORT: file_sha256(path)}
            run.write_manifest({**manifest, SHA256: sums})
    return path


def write_figures(run: Run, folder: Path, *, kind: str) -> list[Path]:
    """Write every figure of a run.

    Args:
        run: the run that is complete.
        folder: the folder of the figures.
        kind: one of ``report.FORMATS``.

    Returns:
        Paths of the figures.

    Raises:
        UsageError: there is nothing to draw.
    """
    need("A figure", "matplotlib")
    from swapbias.report import draw_figures

    figures = draw_figures(as_public(read_run(run.folder)).found, kind)
    if not figures:
        raise UsageError(
            f"{run.folder} has no figures. Its numbers are in {FINDINGS_CSV} and its report."
        )
    with writing(folder, credentialed=is_credentialed(run.folder)):
        for name, content in figures.items():
            write_whole(folder / f"{name}.{kind}", content)
    return [folder / f"{name}.{kind}" for name in figures]


def read_run(folder: Path, *, repo: str = "", commit: str = "") -> Results:
    """Return a finished run of a folder: the user's own, or one that was fetched from a repository of anybody's.

    Args:
        folder: the folder of the run; rows are read when they are looked up.
        repo: OWNER/NAME on the Hub; blank for the user's own.
        commit: the commit of the repository.

    Raises:
        UsageError: there is no run, or it is not complete.
        ValueError: its files are not what swapbias writes.
    """
    source = f"{repo}/runs/{without_controls(folder.name)}" if repo else str(folder)
    run = Run.open(folder)
    manifest = parse_manifest((folder / MANIFEST).read_bytes(), f"{source}/{MANIFEST}")
    _check_complete(manifest, source, folder, repo)
    own_names = not repo and privacy.own_data(manifest) is not None
    if own_names:
        notes_read()
    content = run.checked(FINDINGS_JSON).read_bytes()
    all_findings = parse_results(content, f"{source}/{FINDINGS_JSON}", own_names=own_names)
    _check_distinct(all_findings, source)
    recorded = () if repo else manifest.get(SHA256, ())
    stored = []
    for study in dict.fromkeys(finding.study for finding in all_findings):
        path = f"{ITEMS}/{study}.parquet"
        if path in recorded or (folder / path).is_file():  # without a file the run is damaged
            stored.append(study)
    return Results(
        manifest,
        all_findings,
        LazyItems(stored, run.items),
        _read_coverage(run),
        () if repo else _read_explanations(run, source, recorded),
        place=repo or str(folder),
        name=folder.name,
        commit=commit,
    )


def _check_complete(manifest: Mapping[str, Any], source: str, folder: Path, repo: str) -> None:
    """Refuse a run that is not complete (UsageError), or that nobody may share (ValueError)."""
    if manifest["status"] != "complete":
        step = "Its owner can continue" if repo else "Continue"
        raise UsageError(f"{source} is not complete. {step} with swapbias audit --resume {folder}.")
    if repo and manifest.get("credentialed"):
        raise ValueError(
            f"{source}: it says that it contains credentialed data, which nobody may share. Tell its owner."
        )


def _check_distinct(all_findings: Sequence[Finding], source: str) -> None:
    """Refuse, with a ValueError, two primary findings of one quantity."""
    keys = [
        (finding.model_id, finding.study, finding.experiment, finding.unit, *finding.key())
        for finding in comparisons(all_findings, rates=True)
    ]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{source}: a primary finding appears twice. Its owner can audit again.")


def _read_coverage(run: Run) -> pd.DataFrame:
    """Return the listed words of a run, and whether the model knows them."""
    if not (run.folder / COVERAGE).is_file():
        return pd.DataFrame()
    # Words such as null and nan stay words.
    cells = pd.read_csv(run.checked(COVERAGE), dtype=str, keep_default_na=False)
    text = cells.map(unescape_csv_cell)
    flags = [name for name in ("in_vocabulary", "matched") if name in text]
    return text.assign(**{name: text[name] == "True" for name in flags})


def _read_explanations(
    run: Run, source: str, recorded: Container[str]
) -> tuple[explained_notes.Explanation, ...]:
    """Return the explained notes of a run of the user's own."""
    if EXPLAINED not in recorded and not (run.folder / EXPLAINED).is_file():
        return ()
    return parse_explanations(run.checked(EXPLAINED).read_bytes(), f"{source}/{EXPLAINED}")


def any_credentialed(results: Iterable[Results]) -> bool:
    """Return whether any of several runs is of credentialed notes: what is made of them is for the user alone.

    Args:
        results: finished runs; those on the Hub have no such notes.
    """
    paths = [Path(entry.place) for entry in results if not entry.commit]
    return any(path.exists() and is_credentialed(path) for path in paths)


def as_public(results: Results) -> Results:
    """Return the results without places on the user's machine or network, in the manifest and in models' names.

    Args:
        results: the results of the user's own run.
    """
    public = replace(results, manifest=privacy.public_manifest(results.manifest))
    if all(public_model(finding.model_id) == finding.model_id for finding in results.found):
        return public
    return replace(
        public,
        found=[
            replace(finding, model_id=public_model(finding.model_id)) for finding in results.found
        ],
        items={study: _with_public_models(rows) for study, rows in results.items.items()},
        coverage=_with_public_models(results.coverage),
        explanations=tuple(
            replace(explanation, model_id=public_model(explanation.model_id))
            for explanation in results.explanations
        ),
    )


def _with_public_models(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose models have public names."""
    if "model_id" not in rows:
        return rows
    return rows.assign(model_id=rows["model_id"].map(public_model))


def corpora_read(manifest: Mapping[str, Any], finding: Finding) -> list[Mapping[str, Any]]:
    """Return what a manifest says of the prompts of a finding's experiment, an entry a config.

    Args:
        manifest: the manifest of the run.
        finding: the finding of an experiment.
    """
    experiment = findings.experiment_of(finding)
    corpus = finding.study
    configs: set[str] = set()
    if experiment:
        corpus = experiment.reads.notes.corpus or finding.study
        configs = {*experiment.reads.configs, *experiment.reads.alternatives}
    entries = [entry for entry in manifest["corpora"] if entry["corpus"] == corpus]
    if not configs:
        return entries
    return [
        entry
        for entry in entries
        if entry.get("experiment") == finding.experiment
        or set(str(entry["config"]).split(", ")) <= configs
    ]
