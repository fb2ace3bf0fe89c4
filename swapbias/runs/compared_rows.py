"""Scored rows of several runs by study and model, without what a comparison does not read."""

from collections.abc import Collection, Sequence
from itertools import product

import pandas as pd

from swapbias import findings
from swapbias.findings import unit_rows
from swapbias.privacy import is_credentialed
from swapbias.report import ComparedModel, compared_models, safe_line
from swapbias.runs.results import Items, LazyItems, Results
from swapbias.runs.shared_columns import SharedColumns
from swapbias.studies import load_study

Columns = Sequence[tuple[ComparedModel, Results, str]]
"""A model, its run, and its name there."""


def scored_rows(
    runs: Sequence[Results], columns: Columns
) -> tuple[dict[str, dict[str, pd.DataFrame]], list[str]]:
    """Return scored rows by study and name in the order of the runs, most without texts; and what is left out.

    Args:
        runs: the runs that are compared.
        columns: their models.
    """
    scored: dict[str, dict[str, pd.DataFrame]] = {}
    left_out = []
    shared = SharedColumns()
    for run in {run.key: run for run in runs}.values():
        of_run = [column for column in columns if column[1].key == run.key]
        models = [model for model, _, _ in of_run]
        try:
            items = dict(_items_of(run, _left_out_columns(models, columns), shared))
        except ValueError as error:
            left_out.append(f"Left out of the differences: {error}")
            continue
        for (model, _, model_id), (study, frame) in product(of_run, items.items()):
            rows = _rows_of_model(frame, model_id)
            if not len(rows):
                continue
            fault = _describe_fault(study, rows) if run.commit else ""
            if fault:
                left_out.append(
                    f"Left out of the differences: {model.title}: its scored prompts of {safe_line(study)} are not "
                    f"what an audit writes ({fault})."
                )
                continue
            if model.name != model_id:
                rows = rows.assign(model_id=model.name)
            scored.setdefault(study, {})[model.name] = rows
    return scored, left_out


def _items_of(run: Results, without: Collection[str], shared: SharedColumns) -> Items:
    """Return the scored rows of a run by study, without some columns; those that runs have alike are held once."""
    if isinstance(run.items, LazyItems):
        return run.items.reading(without=without, shared=shared)
    return {
        study: rows.drop(columns=[*without], errors="ignore") for study, rows in run.items.items()
    }


def _left_out_columns(models: Sequence[ComparedModel], columns: Columns) -> list[str]:
    """Return the columns of a run's rows that a comparison does not hold in memory.

    Texts may be shown of few models, and never those of credentialed notes.
    """
    if len(columns) <= compared_models.MOST_DRAWN and not any(map(holds_credentialed, models)):
        return ["top_tokens"]
    return ["text", "top_tokens"]


def holds_credentialed(model: ComparedModel) -> bool:
    """Return whether a model's run holds credentialed notes, by its manifest or its folder.

    Args:
        model: a model that is compared.
    """
    in_folder = model.folder is not None and is_credentialed(model.folder)
    return bool(model.manifest.get("credentialed")) or in_folder


def _rows_of_model(frame: pd.DataFrame, model_id: str) -> pd.DataFrame:
    """Return the rows of a model; the frame itself where all are."""
    is_of_model = frame["model_id"] == model_id
    return frame if is_of_model.all() else frame[is_of_model]


def _describe_fault(study: str, rows: pd.DataFrame) -> str:
    """Return why nothing that is compared can be made of the rows; blank where it can."""
    try:
        for experiment in load_study(study).experiments:
            part = rows[rows["experiment"] == experiment.name]
            contexts = [
                findings.Context(study, "", contrast, "score") for contrast in experiment.gaps
            ]
            units = [unit_rows.gap_units(context, part) for context in contexts if len(part)]
            if units and units.count(None) == len(units) and experiment.is_paired:
                return "a group is missing"
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    return ""
