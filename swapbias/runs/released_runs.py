"""Runs of what the authors of a study released: their outputs as scored rows, for which no model is read here."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import findings, studies
from swapbias.errors import UpstreamMissingError, UsageError, listed, need
from swapbias.privacy import writing
from swapbias.runs import manifest_entries
from swapbias.runs.results import Results, write_results
from swapbias.runs.run import ITEMS, RELEASED, SHA256, Run
from swapbias.runs.settings import Settings
from swapbias.studies import Corpus, Released, paper_models, tables

_CONFIG = "released outputs"
_UNPLAIN = re.compile(r"[^A-Za-z0-9.]+")  # letters that no folder is named with
Rows = list[dict[str, Any]]


def write_released_runs(names: Sequence[str], folder: Path) -> tuple[list[Run], list[str]]:
    """Write a run for each model of which the authors of studies released scored outputs.

    Outputs that the authors corrected after they had printed others are left out: the printed numbers are of those.

    Args:
        names: the names of the studies.
        folder: the folder of the runs, new or empty.

    Returns:
        The runs, and a sentence for each model that has none.

    Raises:
        UsageError: the folder is not empty, or no study has such outputs.
        UpstreamMissingError: all of them are missing.
        ValueError: a file is not the pinned one.
    """
    need("A run", "matplotlib")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder. Choose another --out.")
    written: list[Run] = []
    left_out: list[str] = []
    is_missing = False
    for name in names:
        corpus = studies.load_corpus(name)
        for model, outputs in _outputs_of_models(corpus).items():
            try:
                rows = _read_rows(corpus, model, outputs)
            except UpstreamMissingError as error:
                left_out.append(f"{name}, {model}: {str(error).partition('. ')[0]}.")
                is_missing = True
                continue
            if rows:
                written.append(_write_run(corpus, model, outputs, rows, folder))
            else:
                left_out.append(f"{name}, {model}: counts were released, and no scored outputs.")
    if not written and is_missing:
        raise UpstreamMissingError(
            f"No released output of {listed(names)} was found. Go online, or set SWAPBIAS_UPSTREAM to a folder that "
            "contains them as OWNER/REPOSITORY/PATH."
        )
    if not written:
        raise UsageError(
            f"The authors of {listed(names)} released no scored outputs. Audit a model."
        )
    return written, left_out


def _outputs_of_models(corpus: Corpus) -> dict[str, list[Released]]:
    """Return the outputs of each model, without those that were corrected later."""
    outputs: dict[str, list[Released]] = {}
    for released in corpus.released:
        if not released.note:
            outputs.setdefault(released.model, []).append(released)
    return outputs


def _read_rows(corpus: Corpus, model: str, outputs: Sequence[Released]) -> Rows:
    """Read the scored rows of the outputs of a model."""
    rows: Rows = []
    for released in outputs:
        files = {path: tables.upstream_file(corpus.name, path) for path in released.files}
        for row in released.rows(files):
            rows.append({**row, "model_id": model})
    return rows


def _write_run(
    corpus: Corpus, model: str, outputs: Sequence[Released], rows: Rows, folder: Path
) -> Run:
    """Write the run of a model."""
    name = _UNPLAIN.sub("-", model).strip("-")
    run_folder = folder / f"{corpus.name}-{name}"
    manifest = _manifest(corpus, model, outputs, rows)
    frame = pd.DataFrame(rows)
    with writing(run_folder, credentialed=False):
        run = Run.create(run_folder, manifest)
        all_findings = findings.with_verdicts(list(_findings(corpus, frame)))
        stored = frame.assign(candidates=[[*map(_as_stored, cell)] for cell in frame["candidates"]])
        run.write_parquet(f"{ITEMS}/{corpus.name}.parquet", stored)
        write_results(run, Results(manifest, all_findings, {corpus.name: run.items(corpus.name)}))
        run.write_manifest({**manifest, SHA256: run.sums()})
    return run


def _as_stored(candidate: studies.Candidate) -> dict[str, Any]:
    """Return a candidate as tables of scored rows have it."""
    return candidate._asdict()


def _findings(corpus: Corpus, frame: pd.DataFrame) -> Iterator[findings.Finding]:
    """Yield the findings of each experiment of scored rows, with the statistics of an audit and of the paper."""
    study = studies.load_study(corpus.name)
    for _, of_experiment in frame.groupby("experiment", sort=False):
        yield from findings.disaggregate(of_experiment, study, robustness=False)


def _manifest(
    corpus: Corpus, model: str, outputs: Sequence[Released], rows: Rows
) -> dict[str, Any]:
    """Return the manifest of a complete run, which says whose outputs they are."""
    settings = Settings(studies=(corpus.name,))
    manifest = manifest_entries.plan_manifest(settings, (), ())
    experiments = list(dict.fromkeys(str(row["experiment"]) for row in rows))
    corpora = []
    for experiment in experiments:
        of_experiment = [row for row in rows if row["experiment"] == experiment]
        texts = [{name: str(value) for name, value in row.items()} for row in of_experiment]
        entry = {"corpus": corpus.name, "config": f"{_CONFIG} of {experiment}", "lexicons": {}}
        corpora.append({**entry, "rows": len(of_experiment), "sha256": tables.fingerprint(texts)})
    return {
        **manifest,
        "status": "complete",
        "finished": manifest_entries.now(),
        "corpora": corpora,
        "models": [{"model_id": model}],
        RELEASED: _describe(corpus, model, outputs),
    }


def _describe(corpus: Corpus, model: str, outputs: Sequence[Released]) -> str:
    """Say whose outputs a run is of, and that no model was read."""
    pins = tables.pinned_files(corpus.name)
    sources = dict.fromkeys(
        f"{pins[path]['repository']} at commit {pins[path]['commit'][:12]}"
        for released in outputs
        for path in released.files
    )
    paper_model = paper_models.find_model(corpus.name, model)
    title = paper_model.title if paper_model else model
    return (
        f"Released outputs of {title}, from {listed(sources)}. No model was read here: the scores are those that the "
        "authors published."
    )
