"""What a run comes to: findings, and all of it as files, also where a stranger wrote them."""

import shutil
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import findings, privacy, studies
from swapbias.errors import UsageError, need, notes_read
from swapbias.files import file_sha256, unescape_csv_cell, write_whole
from swapbias.findings import Finding, comparisons, findings_table
from swapbias.models.clinical import NoteOptions, explain_mismatched
from swapbias.notes import Notes
from swapbias.privacy import is_credentialed, public_model, writing
from swapbias.runs.command import placeholders_in, repeat_command
from swapbias.runs.plan import now
from swapbias.runs.results_schema import _CONTROL, parse_manifest, parse_results
from swapbias.runs.run import MANIFEST, REPORT, SCORES, SHA256, Run
from swapbias.runs.score_notes import describe_repeated, describe_same_inputs, describe_unread
from swapbias.runs.scored_task import ScoredTask, as_read
from swapbias.runs.scoring import Scoring
from swapbias.runs.settings import Settings
from swapbias.studies import load_study, tables

FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
Items = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Results:
    """A finished run: manifest, findings, rows of each study, coverage of lexicons.

    ``place``: its folder, or OWNER/NAME on the Hub at ``commit``; ``name``: of its folder.
    """

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Items = field(default_factory=dict)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    place: str = ""
    name: str = ""
    commit: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the run among others."""
        return self.place, self.name, self.commit

    @property
    def public_place(self) -> str:
        """Where it is from, without a path of this machine."""
        return self.place if self.commit else self.name


class LazyItems(UserDict[str, Any]):
    """Scored rows by study, each read when it is looked up, and not stored."""

    def __init__(self, names: Iterable[str], read: Callable[[str], pd.DataFrame]) -> None:
        super().__init__(dict.fromkeys(names))
        self._read = read

    def __getitem__(self, study: str) -> pd.DataFrame:
        return self._read(study)


def conclude(scoring: Scoring, settings: Settings, *, draw: bool = True) -> list[Finding]:
    """Compare the groups, write everything down, and say in the manifest that the run is complete or stopped."""
    run = scoring.run
    manifest = scoring.manifest
    items = scoring.items
    every = [*scoring.tasks.values()]
    found = findings.with_verdicts(_found(items, every, settings), margin=settings.margin)
    words: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in every:
        for name in one.task.lexicons:
            if (one.reader.model_id, name) not in words:
                words[one.reader.model_id, name] = one.reader.coverage(studies.load_lexicon(name))
    truncated = dict.fromkeys(filter(None, (one.reader.notes.get("truncated") for one in every)))
    withheld = dict.fromkeys(filter(None, (one.reader.notes.get("withheld") for one in every)))
    repeated = [*describe_repeated(items)]
    notes = {
        "truncated": [*truncated],
        "unread": [*describe_unread(items, every), *withheld],
        "repeats": repeated,
    }
    notes["same_inputs"] = [*describe_same_inputs(items)]
    for sentence in chain.from_iterable(notes.values()):
        scoring.say(sentence)
    notes["repeats"] = [*dict.fromkeys([*manifest.get("repeats", ()), *repeated])]
    manifest |= {name: sentences for name, sentences in notes.items() if sentences}
    manifest |= {"status": "stopped" if scoring.stop else "complete", "finished": now()}
    table = pd.DataFrame([row for rows in words.values() for row in rows])
    if explained := _explained(scoring, settings):
        run.write_json(EXPLAINED, explained)
    write_results(run, Results(manifest, found, items, table), draw=draw)
    if not scoring.stop:
        manifest[SHA256] = run.sums()
        shutil.rmtree(run.folder / SCORES, ignore_errors=True)
    run.write_manifest(manifest)  # last: a run that says complete has all its files
    return found


def _found(items: Items, every: Sequence[ScoredTask], settings: Settings) -> list[Finding]:
    """The findings of every study and model, in the unit of the scorer: VADER and raw scores are no probabilities."""
    found: list[Finding] = []
    for name, frame in items.items():
        study = load_study(name)
        for model_id, part in frame.groupby("model_id", sort=False):
            mine = [one for one in every if one.reader.model_id == model_id]
            task = mine[0].task
            reader = mine[0].reader
            expected = reader.expected
            if task.notes is not None:
                expected = expected_numbers(task.study.name, task.notes, model_id)
            read = {
                one.task.experiment.name: as_read(one)
                for one in mine
                if one.task.study.name == name
            }
            experiments = tuple(read.get(one.name, one) for one in study.experiments)
            found += findings.disaggregate(
                part,
                study.changed(experiments=experiments),
                expected=expected,
                seed=settings.seed,
                margin=settings.margin,
            )
    return found


def expected_numbers(
    study: str, notes: Notes, model: str
) -> dict[tuple[str, ...], tables.Published]:
    """What to compare with: of MIMIC-III the paper's numbers, of synthetic notes the planted leak."""
    if notes.name == "mimic3":
        return tables.published_for(study, model.partition("+")[0])
    found: dict[tuple[str, ...], tables.Published] = {}
    for phenotype in notes.phenotypes if notes.name == "synthetic" else ():
        tests = [
            note for note in notes.rows if (note["phenotype"], note["split"]) == (phenotype, "test")
        ]
        share = sum(note["planted"] == "leak" for note in tests) / len(
            tests
        )  # a perfect learner flips on these
        key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", phenotype)
        found[key] = tables.Published(value=f"{share:.3f}", source=tables.PLANTED_LEAK)
    return found


def _explained(scoring: Scoring, settings: Settings) -> list[dict[str, Any]]:
    """Notes word by word; none that are credentialed, nor by chat models: each sample would be a request."""
    found = list[dict[str, Any]]()
    most = settings.of(NoteOptions).explain
    for one in scoring.tasks.values() if most else ():
        task = one.task
        reader = one.reader
        if (
            task.notes is None
            or task.credentialed
            or "flips" not in task.experiment.shows.rates
            or reader.kind == "chat"
        ):
            continue
        rows = scoring.items[task.study.name]
        mine = (rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)
        two = rows[mine & rows["group"].isin(task.experiment.compared)]
        try:
            explained = explain_mismatched(two, reader, most=most, seed=settings.seed)
            found += [{"study": task.study.name, **words} for words in explained]
        except UsageError as error:  # LIME is an extra
            scoring.say(f"No explanation of the most mismatched note: {error}")
            break
    return found


def write_results(run: Run, results: Results, *, draw: bool = True, command: str = "") -> None:
    """Write findings, coverage and, with ``draw``, the report; the scored rows stand there already.

    ``command`` repeats the run, where its manifest tells less than all.
    """
    table = findings_table(results.found)
    run.write_csv(FINDINGS_CSV, table)
    run.write_json(
        FINDINGS_JSON,
        {"swapbias": results.manifest["swapbias"], "findings": table.to_dict("records")},
    )
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    if draw:
        _write_report(run, results, command)


def _write_report(run: Run, results: Results, command: str = "") -> None:
    from swapbias.report import render  # takes long to import

    shown = as_public(replace(results, items=dict(results.items)))
    command = command or repeat_command(results.manifest)
    meanings = placeholders_in(command)
    page = render(results.manifest, shown.found, shown.items, shown.coverage, command, meanings)
    run.write(REPORT, page.encode())  # public there


def rebuild_report(run: Run) -> Path:
    """Write the report of a finished run again, from what is on disk; gives its path, raises as ``read_run``."""
    results = read_run(run.folder)
    with writing(run.folder, credentialed=is_credentialed(run.folder)):
        _write_report(run, results)
        manifest = run.manifest()
        if SHA256 in manifest:
            run.write_manifest(
                {**manifest, SHA256: {**manifest[SHA256], REPORT: file_sha256(run.folder / REPORT)}}
            )
    return run.folder / REPORT


def write_figures(run: Run, folder: Path, *, kind: str) -> list[Path]:
    """Write every figure (``kind``: of ``report.FORMATS``); their paths. UsageError: there is nothing to draw."""
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
    """A finished run of a folder: the user's own, or one that was fetched from a repository of anybody's.

    Rows are read when they are looked up. UsageError: no run, or not complete. ValueError: not what swapbias writes.
    """
    where = f"{repo}/runs/{_CONTROL.sub(' ', folder.name)}" if repo else str(folder)
    run = Run.open(folder)
    manifest = parse_manifest((folder / MANIFEST).read_bytes(), f"{where}/{MANIFEST}")
    if manifest["status"] != "complete":
        who = "Its owner can go on" if repo else "Go on"
        raise UsageError(f"{where} is not complete. {who} with swapbias audit --resume {folder}.")
    if repo and manifest.get("credentialed"):
        raise ValueError(
            f"{where}: it says that it holds credentialed data, which nobody may share. Tell its owner."
        )
    own_names = not repo and privacy.own_data(manifest) is not None
    if own_names:
        notes_read()
    content = run.checked(FINDINGS_JSON).read_bytes()
    found = parse_results(content, f"{where}/{FINDINGS_JSON}", own_names=own_names)
    keys = [
        (one.model_id, one.study, one.experiment, one.unit, *one.key())
        for one in comparisons(found, rates=True)
    ]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a primary finding stands twice. Its owner can audit again.")
    files = {one.study: f"items/{one.study}.parquet" for one in found}
    recorded = () if repo else manifest.get(SHA256, ())  # without a file the run is damaged
    there = [
        study for study, file in files.items() if file in recorded or (folder / file).is_file()
    ]
    items = LazyItems(there, run.items)
    coverage = _read_coverage(run)
    return Results(
        manifest, found, items, coverage, place=repo or str(folder), name=folder.name, commit=commit
    )


def _read_coverage(run: Run) -> pd.DataFrame:
    if not (run.folder / COVERAGE).is_file():
        return pd.DataFrame()
    # words such as null and nan stay words
    text = pd.read_csv(run.checked(COVERAGE), dtype=str, keep_default_na=False).map(
        unescape_csv_cell
    )
    flags = [name for name in ("in_vocabulary", "matched") if name in text]
    return text.assign(**{name: text[name] == "True" for name in flags})


def as_public(results: Results) -> Results:
    """The results without places on the user's machine or network, in the manifest and in models' names."""
    public = replace(results, manifest=privacy.public_manifest(results.manifest))
    if all(public_model(one.model_id) == one.model_id for one in results.found):
        return public

    def renamed(rows: pd.DataFrame) -> pd.DataFrame:
        return (
            rows.assign(model_id=rows["model_id"].map(public_model)) if "model_id" in rows else rows
        )

    return replace(
        public,
        found=[replace(one, model_id=public_model(one.model_id)) for one in results.found],
        items={study: renamed(rows) for study, rows in results.items.items()},
        coverage=renamed(results.coverage),
    )


def corpora_read(manifest: Mapping[str, Any], finding: Finding) -> list[Mapping[str, Any]]:
    """What a manifest says of the prompts of a finding's experiment, an entry a config."""
    declared = findings.experiment_of(finding)
    corpus = (declared.reads.notes.corpus if declared else "") or finding.study
    configs = {*declared.reads.configs, *declared.reads.alternatives} if declared else set()
    mine = [one for one in manifest["corpora"] if one["corpus"] == corpus]
    return [one for one in mine if not configs or set(str(one["config"]).split(", ")) <= configs]
