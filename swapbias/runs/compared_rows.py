"""Scored rows of several runs by study and model, without what a comparison does not read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

import pandas as pd

from swapbias import findings
from swapbias.findings import unit_rows
from swapbias.privacy import is_credentialed
from swapbias.report import ComparedModel, compared_models, safe_line
from swapbias.runs.results import Items, LazyItems, Results, corpora_read
from swapbias.runs.shared_columns import SharedColumns
from swapbias.studies import corpora, load_study

_OF_USER = frozenset(["language", "adjectives_sha256"])
"""Keys of what was read in a manifest, where a study of the package was asked with texts of the user's."""

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


def without_other_prompts(
    scored: Mapping[str, Mapping[str, pd.DataFrame]], columns: Columns, reference: str
) -> tuple[dict[str, dict[str, pd.DataFrame]], list[str]]:
    """Leave out rows of prompts of the user's that are others than the reference's, whatever their names say.

    Args:
        scored: scored rows by study and name of the model.
        columns: the models.
        reference: the name of the model that others are compared with.

    Returns:
        The rows that are compared, and sentences on those that are left out.
    """
    prompts_by_name = {model.name: _prompts_of_user(model, run) for model, run, _ in columns}
    of_reference = prompts_by_name.get(reference, {})
    kept: dict[str, dict[str, pd.DataFrame]] = {study: {} for study in scored}
    left_out = []
    for study, name, frame in _rows_by_model(scored):
        prompts = prompts_by_name[name]
        others = [
            experiment
            for experiment in map(str, frame["experiment"].unique())
            if _are_others(prompts.get((study, experiment)), of_reference.get((study, experiment)))
        ]
        left_out += [
            f"Left out of the differences: {safe_line(name)}: its prompts of {safe_line(study)} "
            f"{safe_line(experiment)} are not those of {safe_line(reference)}."
            for experiment in others
        ]
        if others:
            frame = frame[~frame["experiment"].isin(others)]
        if len(frame):
            kept[study][name] = frame
    return kept, left_out


def same_texts_of_languages(columns: Columns, reference: str) -> list[str]:
    """Return a sentence on each model that read the reference's texts as those of another language.

    Args:
        columns: the models.
        reference: the name of the model that others are compared with.
    """
    by_model = {model.name: _languages_by_texts(model, run) for model, run, _ in columns}
    of_reference = by_model.get(reference, {})
    return [
        f"{safe_line(reference)} and {safe_line(name)} read the same texts, as {of_reference[texts]} and as "
        f"{language}. Check the data."
        for name, languages in by_model.items()
        for texts, language in languages.items()
        if of_reference.get(texts, language) != language
    ]


def _languages_by_texts(model: ComparedModel, run: Results) -> dict[str, str]:
    """Return the languages of the user's data that a model read, by the sha256 of the texts."""
    of_experiments = {(finding.study, finding.experiment): finding for finding in model.found}
    entries = (
        entry
        for finding in of_experiments.values()
        for entry in corpora_read(run.manifest, finding)
    )
    return {
        str(entry["sha256"]): safe_line(str(entry["language"]))
        for entry in entries
        if entry.get("language")
    }


def _rows_by_model(
    scored: Mapping[str, Mapping[str, pd.DataFrame]],
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield study, name of the model and scored rows."""
    for study, frames in scored.items():
        for name, frame in frames.items():
            yield study, name, frame


def _are_others(
    prompts: frozenset[tuple[int, str]] | None, compared: frozenset[tuple[int, str]] | None
) -> bool:
    """Tell whether two models read prompts of which the user's are different; None: a model reads none."""
    if prompts is None or compared is None or not (prompts or compared):
        return False
    return prompts.isdisjoint(compared)


def _prompts_of_user(
    model: ComparedModel, run: Results
) -> dict[tuple[str, str], frozenset[tuple[int, str]]]:
    """Return numbers of rows with their sha256 by study and experiment; none where all are the package's.

    Prompts of the package that have one name are the same.
    """
    prompts = {}
    for finding in model.found:
        key = (finding.study, finding.experiment)
        if key in prompts:
            continue
        entries = corpora_read(run.manifest, finding)
        is_of_user = any(
            entry["corpus"] not in corpora() or not _OF_USER.isdisjoint(entry) for entry in entries
        )
        read = frozenset((entry["rows"], str(entry["sha256"])) for entry in entries)
        prompts[key] = read if is_of_user else frozenset()
    return prompts


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
