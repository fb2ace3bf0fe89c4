"""Make the tables of papers of finished runs, and write them to files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swapbias.errors import UsageError, listed
from swapbias.files import write_whole
from swapbias.findings import explained_notes
from swapbias.privacy import writing
from swapbias.report import (
    TABLE_FORMS,
    PaperTable,
    fill_tables,
    models_in,
    paper_differences,
)
from swapbias.runs.results import Results, any_credentialed, as_public
from swapbias.runs.results_schema import without_controls
from swapbias.runs.run import RELEASED
from swapbias.studies import paper


def paper_tables(results: Sequence[Results]) -> list[PaperTable]:
    """Return the tables of the papers of the studies of runs, with the numbers of the runs beside the printed ones.

    Args:
        results: finished runs.

    Raises:
        UsageError: no study of them has a table of a paper, or none of its numbers is in one.
    """
    public = [as_public(entry) for entry in results]
    studies = dict.fromkeys(finding.study for entry in public for finding in entry.found)
    with_tables = [study for study in studies if paper.load_paper(study).tables]
    filled = [
        table
        for study in with_tables
        for table in fill_tables(study, models_of_runs(public, study))
    ]
    if filled:
        return filled
    names = listed(without_controls(entry.name) for entry in public)
    if not with_tables:
        raise UsageError(
            f"{names} has no table of a paper: {listed(studies)} declares none. Its numbers are in findings.csv."
        )
    raise UsageError(
        f"{names} has no number for a table of {listed(with_tables)}. Audit the paper's experiments."
    )


def models_of_runs(results: Sequence[Results], study: str) -> list[paper.PaperRun]:
    """Return each model of runs, labelled with its run where there are several, and with its limit of prompts.

    Args:
        results: finished runs.
        study: the name of the study.
    """
    models = []
    folders = Counter(entry.name for entry in results)
    for number, entry in enumerate(results, 1):
        label = paper.THIS_RUN
        if entry.manifest.get(RELEASED):
            label = paper.RELEASED_OUTPUTS
        elif len(results) > 1:
            name = without_controls(entry.name)
            label = f"run {name}" if folders[entry.name] == 1 else f"run {name} ({number})"
        if limit := entry.manifest["settings"].get("limit"):
            label = f"{label}, limit {limit}"
        pins = entry.manifest.get("models", ())
        models += [
            replace(
                model,
                explanations=_explanations_of(entry, study, model.model_id),
                differs=paper_differences.differences_of(entry.manifest, model),
            )
            for model in models_in(entry.found, entry.items, study, label, pins)
        ]
    return models


def _explanations_of(
    entry: Results, study: str, model_id: str
) -> tuple[explained_notes.Explanation, ...]:
    """Return the explained notes of a model of a run."""
    return tuple(
        explanation
        for explanation in entry.explanations
        if (explanation.study, explanation.model_id) == (study, model_id)
    )


def write_tables(results: Sequence[Results], folder: Path) -> tuple[list[PaperTable], list[Path]]:
    """Write the tables of the papers of runs as CSV, Markdown and LaTeX.

    Args:
        results: finished runs; tables of credentialed ones are for the user alone.
        folder: the folder of the tables.

    Returns:
        The tables, and the paths of their files.

    Raises:
        UsageError: there is no table.
    """
    filled = paper_tables(results)
    paths = []
    with writing(folder, credentialed=any_credentialed(results)):
        for table in filled:
            for ending, form in TABLE_FORMS.items():
                path = folder / f"{table.file_stem}.{ending}"
                write_whole(path, form(table).encode())
                paths.append(path)
    return filled, paths
