"""Make the tables of papers of finished runs, and write them to files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from swapbias.errors import UsageError, listed
from swapbias.files import write_whole
from swapbias.privacy import is_credentialed, writing
from swapbias.report import TABLE_FORMS, PaperTable, fill_tables
from swapbias.runs.results import Results, as_public
from swapbias.runs.results_schema import without_controls
from swapbias.studies import paper, paper_models


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
        table for study in with_tables for table in fill_tables(study, _models_of(public, study))
    ]
    if filled:
        return filled
    names = listed(without_controls(entry.name) for entry in public)
    if not with_tables:
        raise UsageError(
            f"{names} has no table of a paper: {listed(studies)} declares none. Its numbers are in findings.csv."
        )
    raise UsageError(
        f"{names} has no number that stands in a table of {listed(with_tables)}. Audit the paper's experiments."
    )


def _models_of(results: Sequence[Results], study: str) -> list[paper.PaperRun]:
    """Return each model of runs, labelled with its run where there are several."""
    models = []
    folders = Counter(entry.name for entry in results)
    for number, entry in enumerate(results, 1):
        label = "this run"
        if len(results) > 1:
            name = without_controls(entry.name)
            label = f"run {name}" if folders[entry.name] == 1 else f"run {name} ({number})"
        models += models_of_run(entry, study, label)
    return models


def models_of_run(results: Results, study: str, label: str) -> list[paper.PaperRun]:
    """Return the models of a run, for tables of the paper of a study.

    Args:
        results: the run.
        study: the name of the study.
        label: what its numbers are called.
    """
    found = [finding for finding in results.found if finding.study == study]
    scored = results.items.get(study)
    models = []
    for model_id in dict.fromkeys(finding.model_id for finding in found):
        of_paper = paper_models.find_model(study, model_id)
        rows = None if scored is None else scored[scored["model_id"] == model_id]
        models.append(
            paper.PaperRun(
                title=of_paper.title if of_paper else model_id,
                label=label,
                model_id=model_id,
                findings=[finding for finding in found if finding.model_id == model_id],
                rows=rows,
            )
        )
    return models


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
    places = [Path(entry.place) for entry in results if not entry.commit]
    credentialed = any(place.exists() and is_credentialed(place) for place in places)
    paths = []
    with writing(folder, credentialed=credentialed):
        for table in filled:
            for ending, form in TABLE_FORMS.items():
                path = folder / f"{table.file_stem}.{ending}"
                write_whole(path, form(table).encode())
                paths.append(path)
    return filled, paths
