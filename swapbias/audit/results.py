"""What a run comes to: its results as files, and read back from them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.audit.run import Run
from swapbias.errors import UsageError
from swapbias.findings import Finding, findings_table
from swapbias.privacy import own_data, public_manifest, public_model
from swapbias.scorers.notes import Explained
from swapbias.studies import load_study

FINDINGS_CSV = "findings.csv"
FINDINGS_JSON = "results.json"
COVERAGE = "lexicon_coverage.csv"
EXPLAINED = "explanations.json"
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class Results:
    """What was found, and all that the report shows of it.

    Attributes:
        manifest: of the run.
        found: findings in the order of the studies.
        items: scored rows of each study.
        coverage: words of each lexicon that the model can say; no rows where none is read.
        explained: notes explained word by word.
    """

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Mapping[str, pd.DataFrame]
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    explained: Sequence[Explained] = ()


def write_results(run: Run, results: Results) -> None:
    """Write findings, phrases, coverage, explanations, figures and report; the scored rows stand there already."""
    table = findings_table(results.found)
    run.write_csv(FINDINGS_CSV, table)
    findings = {"swapbias": results.manifest["swapbias"], "findings": table.to_dict("records")}
    run.write_json(FINDINGS_JSON, findings)
    for study, phrases in phrase_tables(results.items):
        run.write_parquet(f"phrases/{study}.parquet", phrases)
    if len(results.coverage):
        run.write_csv(COVERAGE, results.coverage)
    if results.explained:
        run.write_json(EXPLAINED, [asdict(one) for one in results.explained])
    write_report(run, results)


def write_report(run: Run, results: Results) -> None:
    """Draw the figures and write the report; neither names a place on this machine."""
    from swapbias.report import (
        Page,
        draw_figures,
        explanation_figures,  # drawing takes long to import
        render,
    )

    shown = as_public(results)
    figures = [*draw_figures(shown.found, shown.items), *explanation_figures(shown.explained)]
    for figure in figures:
        run.write(f"figures/{figure.name}.svg", figure.svg)
        run.write(f"figures/{figure.name}.png", figure.png)
    run.write(REPORT, render(Page(shown.manifest, shown.found, shown.items, figures, shown.coverage)).encode())


def rebuild_report(run: Run) -> Path:
    """Draw the figures and the report of a finished run again, from what is on disk; gives the report's path.

    Raises:
        UsageError, ValueError: as ``read_results``.
    """
    write_report(run, read_results(run))
    return run.folder / REPORT


def read_results(run: Run) -> Results:
    """The results of a finished run, as they were written.

    Raises:
        UsageError: the run is not complete. ValueError: a file is missing, or is not what an audit wrote.
    """
    manifest = run.manifest()
    if manifest["status"] != "complete":
        raise UsageError(
            f"{run.folder} is not complete (its status is {manifest['status']!r}). Go on with "
            f"swapbias audit --resume {run.folder}."
        )
    from swapbias.audit.result_files import parse_results

    path = needed(run, FINDINGS_JSON)
    found = parse_results(path.read_bytes(), str(path), own_names=own_data(manifest) is not None)
    items = {study: scored_items(run, study) for study in dict.fromkeys(one.study for one in found)}
    return Results(manifest, found, items, _coverage(run), _explained(run))


def as_public(results: Results) -> Results:
    """The results without places on the user's machine or network, in the manifest and in models' names."""
    if all(public_model(one.model_id) == one.model_id for one in results.found):
        return replace(results, manifest=public_manifest(results.manifest))
    return Results(
        public_manifest(results.manifest),
        [replace(one, model_id=public_model(one.model_id)) for one in results.found],
        {study: _renamed(rows) for study, rows in results.items.items()},
        _renamed(results.coverage),
        [replace(one, model_id=public_model(one.model_id)) for one in results.explained],
    )


def _renamed(rows: pd.DataFrame) -> pd.DataFrame:
    if "model_id" not in rows:
        return rows
    return rows.assign(model_id=[public_model(name) for name in rows["model_id"]])


def phrase_tables(items: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame]]:
    """For each study that reads phrases, a long table: a row per phrase with its probability and group."""
    for study, frame in items.items():
        reading = {one.name for one in load_study(study).experiments if one.reading == "phrases"}
        rows = frame[frame["experiment"].isin(reading)]
        if len(rows):
            phrases = rows.assign(pairs=rows["top_tokens"].map(json.loads)).explode("pairs").dropna(subset="pairs")
            names = ["prompt_id", "pair_id", "group", "construct", "condition", "label", "template", "model_id"]
            yield (
                study,
                phrases[names].assign(
                    phrase=[pair[0] for pair in phrases["pairs"]], probability=[pair[1] for pair in phrases["pairs"]]
                ),
            )


def needed(run: Run, name: str) -> Path:
    """The path of a file that every complete run has.

    Raises:
        ValueError: it is not there.
    """
    path = run.folder / name
    if not path.is_file():
        raise ValueError(f"{path} is missing, and a complete run has it. Write it again with --resume {run.folder}.")
    return path


def scored_items(run: Run, study: str) -> pd.DataFrame:
    """The scored rows of a study of a finished run.

    Raises:
        ValueError: they are missing, or are not what an audit wrote.
    """
    import pyarrow as pa

    path = needed(run, f"items/{study}.parquet")
    try:
        rows = run.items(study)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__}). Audit again.") from error
    if rows is None or not {"experiment", "group", "model_id", "score", "text"} <= set(rows):
        raise ValueError(f"{path} lacks columns of scored rows. Audit again.")
    return rows


def _coverage(run: Run) -> pd.DataFrame:
    """The table as it was written: words such as ``null`` and ``nan`` stay words."""
    path = run.folder / COVERAGE
    if not path.is_file():
        return pd.DataFrame()
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if "in_vocabulary" not in table or not set(table["in_vocabulary"]) <= {"True", "False"}:
        raise ValueError(f"{path} has no column in_vocabulary of True and False. Write it again with --resume.")
    return table.assign(in_vocabulary=table["in_vocabulary"] == "True")


def _explained(run: Run) -> list[Explained]:
    path = run.folder / EXPLAINED
    if not path.is_file():
        return []
    try:
        return [Explained(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no list of explained notes ({error}). Write it again with --resume.") from error
