"""Runs compared, on disk or on the Hub: one row a quantity, one column a model of a run, and no order by value."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from swapbias import findings
from swapbias.errors import UsageError, listed
from swapbias.findings import (
    Finding,
    Gate,
    comparisons,
    experiment_of,
    findings_table,
    model_difference,
    terms,
)
from swapbias.measures import MEASURES, Unit
from swapbias.models import model_names
from swapbias.privacy import public_model, writing
from swapbias.report import (
    ComparedModel,
    ComparisonPage,
    Quantity,
    render_comparison,
    safe_line,
)
from swapbias.runs.compared_prompts import Prompts, check_prompts, describe_prompts, prompts_of
from swapbias.runs.compared_rows import (
    Columns,
    holds_credentialed,
    same_texts_of_languages,
    scored_rows,
    without_other_prompts,
)
from swapbias.runs.results import Results, read_run
from swapbias.runs.run import REPORT, Run

_TABLE = (
    "study", "experiment", "subset", "measure", "contrast", "unit", "unit_low", "unit_high",
)  # fmt: skip


def compare_runs(runs: Sequence[Results]) -> ComparisonPage:
    """Compare the models of runs with the first run's first model.

    Args:
        runs: the runs of the same studies.

    Returns:
        What ``swapbias compare`` shows.

    Raises:
        UsageError: the runs have nothing in common, or are one run.
    """
    if len(runs) > 1 and len({run.key for run in runs}) == 1:
        raise UsageError(
            "The same run is named several times, expected different ones. Name other runs as well."
        )
    columns = _columns(runs)
    page = _side_by_side(columns)
    reference = _reference_name(runs, columns)
    scored, left_out = scored_rows(runs, columns)
    scored, other_prompts = without_other_prompts(scored, columns, reference)
    left_out += [*other_prompts, *same_texts_of_languages(columns, reference)]
    differences = findings.compare(scored, reference=reference, units_read=_units_read(page.models))
    if not differences and not any(len(row.known) > 1 for row in page.quantities):
        raise UsageError(_nothing_in_common(page.quantities))
    pairs = max(map(len, scored.values()), default=0) - 1
    if pairs > model_difference.MOST_DETAILED:
        left_out.append(
            f"There are {pairs} pairs of models, and at most {model_difference.MOST_DETAILED} are compared by "
            "slice and subset. Name fewer runs for more."
        )
    by_model = _differences_by_model(differences, columns, reference)
    quantities = [
        replace(row, differences_by_model=_differences_of_row(row, by_model))
        for row in page.quantities
    ]
    page = replace(
        page,
        quantities=quantities,
        differences=[_without_one_model(difference) for difference in differences],
        reference=reference,
        notes=[*page.notes, *left_out],
    )
    return page.with_moved_pairs(scored)


def _nothing_in_common(quantities: Sequence[Quantity]) -> str:
    """Say why nothing of models is compared, by the rows of the comparison."""
    if any(row.note for row in quantities):
        return "The runs read different prompts. Audit them with the same prompts and --limit."
    return "The runs have no experiment in common. Audit them with the same --study."


def _reference_name(runs: Sequence[Results], columns: Columns) -> str:
    """Return the name of the first run's first model; blank where it has no finding."""
    if not runs or not runs[0].found:
        return ""
    first = (runs[0].key, runs[0].found[0].model_id)
    names = (model.name for model, run, model_id in columns if (run.key, model_id) == first)
    return next(names, "")


def _units_read(models: Sequence[ComparedModel]) -> dict[tuple[str, str, str], Unit]:
    """Return the unit of each model's scores in an experiment."""
    units = {}
    for model in models:
        for finding in model.found:
            if finding.score == "score" and MEASURES[finding.measure].gap_span:
                units[finding.study, finding.experiment, finding.model_id] = finding.scale
    return units


def _without_one_model(difference: Finding) -> Finding:
    """Return a difference; a correlation is over all models and names none."""
    if difference.measure == terms.DIFFERENCE:
        return difference
    return replace(difference, model_id="")


def _differences_by_model(
    differences: Sequence[Finding], columns: Columns, reference: str
) -> dict[tuple[str, ...], dict[str, Finding]]:
    """Return differences over all rows by study, experiment and subset, and by the name of the model."""
    contrasts = {f"{model.name} - {reference}": model.name for model, _, _ in columns}
    by_model: dict[tuple[str, ...], dict[str, Finding]] = {}
    for finding in differences:
        if finding.slice_by == "all" and not finding.view and finding.contrast in contrasts:
            key = (finding.study, finding.experiment, finding.subset)
            by_model.setdefault(key, {})[contrasts[finding.contrast]] = finding
    return by_model


def _differences_of_row(
    row: Quantity, by_model: Mapping[tuple[str, ...], Mapping[str, Finding]]
) -> dict[str, Finding]:
    """Return the differences of a primary finding's models by name."""
    first = row.known[0]
    if not first.primary:
        return {}
    experiment = experiment_of(first)
    subset = first.subset
    if experiment and (len(experiment.compares.groups) > 1 or experiment.compares.factors):
        subset = ", ".join(filter(None, (first.subset, first.contrast)))
    names = {finding.model_id for finding in row.known}
    differences = by_model.get((first.study, first.experiment, subset), {})
    return {name: finding for name, finding in differences.items() if name in names}


def write_comparison(folder: Path, comparison: ComparisonPage) -> None:
    """Write the page, side_by_side.csv and comparison.csv; of credentialed notes the folder is marked and private.

    Args:
        folder: the folder of the comparison.
        comparison: the comparison of runs.
    """
    credentialed = any(map(holds_credentialed, comparison.models))
    models = [replace(model, report=_report_beside(model, folder)) for model in comparison.models]
    with writing(folder, credentialed=credentialed):
        run = Run(folder)
        if comparison.quantities:
            run.write_csv("side_by_side.csv", comparison_table(comparison))
        if comparison.differences:
            run.write_csv("comparison.csv", findings_table(comparison.differences))
        run.write(REPORT, render_comparison(replace(comparison, models=models)).encode())


def _report_beside(model: ComparedModel, folder: Path) -> str:
    """Return the address of a run's report from the folder of the comparison; blank where they are not neighbours."""
    if model.folder is None:
        return ""
    run_folder = model.folder.resolve()
    is_neighbour = run_folder.parent == folder.resolve().parent
    if not is_neighbour or not (run_folder / REPORT).is_file():
        return ""
    return f"../{quote(run_folder.name)}/{REPORT}"


def comparison_table(comparison: ComparisonPage) -> pd.DataFrame:
    """Return the comparison as a table.

    Args:
        comparison: the comparison of runs.

    Returns:
        A row for each quantity; numbers in full, blank where there is none.
    """
    records = []
    for row in comparison.quantities:
        record: dict[str, Any] = {name: getattr(row.known[0], name) for name in _TABLE}
        record["note"] = row.note
        for model, finding in zip(comparison.models, row.found, strict=True):
            estimate = finding.estimate if finding else None
            for name in ("value", "ci_low", "ci_high"):
                record[f"{model.title}: {name}"] = getattr(estimate, name, math.nan)
            record[f"{model.title}: n"] = estimate.n if estimate else None
        records.append(record)
    counts = {f"{model.title}: n": "Int64" for model in comparison.models}
    return pd.DataFrame(records).astype(counts)


def check_run(
    run: Results | Path | str,
    *,
    max_gap: float | None = None,
    baseline: Results | Path | str | None = None,
    studies: Sequence[str] = (),
) -> Gate:
    """Check whether a finished run passes: ``findings.check_gaps`` of its findings.

    Args:
        run: results, or the folder of a run.
        max_gap: share of the range of each unit; None: the margin of each finding.
        baseline: results or folder of an earlier run of the same prompts, with whose gaps these are compared.
        studies: ``NAME[:EXPERIMENT]`` of those that are checked; none: all.

    Returns:
        The gate with its checks.

    Raises:
        UsageError: the runs read different prompts, or a study was not audited.
    """
    results = run if isinstance(run, Results) else read_run(Path(run))
    options: dict[str, Any] = {}
    if baseline is not None:
        before = baseline if isinstance(baseline, Results) else read_run(Path(baseline))
        if before.commit:  # of the Hub come no texts to tell prompts by
            check_prompts(results, before)
        options = {
            "items": dict(results.items),
            "baseline": dict(before.items),
            "baseline_found": before.found,
        }
    gate = findings.check_gaps(results.found, max_gap=max_gap, studies=studies, **options)
    return replace(gate, notes=tuple(map(str, results.manifest.get("repeats", ()))))


def _side_by_side(columns: Columns) -> ComparisonPage:
    """Return primary quantities; a row is of one study, quantity, unit, prompts, word lists and trials."""
    rows_by_key = _rows_by_key(columns)
    quantities: list[Quantity] = []
    for key in sorted(rows_by_key, key=lambda key: key[:2]):
        same_quantity = rows_by_key[key]
        for prompts, cells in same_quantity:
            note = describe_prompts(prompts) if len(same_quantity) > 1 else ""
            findings_of_row = tuple(cells.get(index) for index in range(len(columns)))
            quantities.append(Quantity(findings_of_row, note))
    footnotes = []
    if any(len(same_quantity) > 1 for same_quantity in rows_by_key.values()):
        footnotes.append(
            "Where prompts, word lists or trials differ, rows cannot be compared with each other."
        )
    footnotes += _version_notes([run.manifest for _, run, _ in columns])
    return ComparisonPage([model for model, _, _ in columns], "", quantities, [], footnotes)


def _rows_by_key(
    columns: Columns,
) -> dict[tuple[str, ...], list[tuple[frozenset[Prompts], dict[int, Finding]]]]:
    """Return prompts and findings by column of each row, by study, experiment, unit and quantity."""
    rows: dict[tuple[str, ...], list[tuple[frozenset[Prompts], dict[int, Finding]]]] = {}
    for index, (model, run, _) in enumerate(columns):
        prompts_read: dict[tuple[str, ...], frozenset[Prompts]] = {}
        for finding in comparisons(list(model.found), rates=True):
            key = (finding.study, finding.experiment, finding.unit, *finding.key())
            same_quantity = rows.setdefault(key, [])
            if key[:2] not in prompts_read:
                prompts_read[key[:2]] = prompts_of(finding, run.manifest)
            prompts = prompts_read[key[:2]]
            # One config may be read by two experiments of which a run has one: any common entry will do.
            cells = next((cells for others, cells in same_quantity if prompts & others), None)
            if cells is None:
                cells = {}
                same_quantity.append((prompts, cells))
            cells.setdefault(index, finding)
    return rows


def _version_notes(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on different versions of swapbias and formats of numbers."""
    formats = set()
    for manifest in manifests:
        for model in manifest.get("models", ()):
            if model.get("dtype"):
                formats.add(str(model["dtype"]))
    versions = {str(manifest["swapbias"]) for manifest in manifests}
    notes = []
    if len(versions) > 1:
        names = ", ".join(sorted(map(safe_line, versions)))
        notes.append(f"The runs were made with different versions of swapbias: {names}.")
    if len(formats) > 1:
        names = ", ".join(sorted(map(safe_line, formats)))
        notes.append(f"The runs were made with different number formats: {names}.")
    return [*notes, *_tokenizer_notes(manifests)]


def _tokenizer_notes(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each model whose name or weights runs have read with different tokenizers."""
    names: dict[str, set[str]] = {}
    tokenizers: dict[str, set[str]] = {}
    for pin in chain.from_iterable(manifest.get("models", ()) for manifest in manifests):
        if not pin.get("tokenizer_sha256"):
            continue
        name = str(pin["model_id"])
        weights = pin.get("weights") or (pin.get("sha256") if "layers_sha256" in pin else None)
        for key in (name, json.dumps(weights or name, sort_keys=True)):
            names.setdefault(key, set()).add(safe_line(public_model(name), 200))
            tokenizers.setdefault(key, set()).add(str(pin["tokenizer_sha256"]))
    different = [names[key] for key, digests in tokenizers.items() if len(digests) > 1]
    sentences = [
        f"The runs read {listed(sorted(of_weights))} with different tokenizers."
        for of_weights in different
    ]
    return list(dict.fromkeys(sentences))


def _columns(runs: Sequence[Results]) -> Columns:
    """Return each model of each run once, by its name; those of one name are named with their runs."""
    models = []
    for run in {run.key: run for run in runs}.values():
        for model_id in dict.fromkeys(finding.model_id for finding in run.found):
            models.append((run, model_id))
    names = _with_revisions(models)
    titles = _column_titles(names, [run for run, _ in models])
    counts = Counter(names)
    columns = []
    for name, title, (run, model_id) in zip(names, titles, models, strict=True):
        label = name if counts[name] == 1 else title
        rows = [finding for finding in run.found if finding.model_id == model_id]
        if label != model_id:
            rows = [replace(finding, model_id=label) for finding in rows]
        folder = None if run.commit else Path(run.place)
        model = ComparedModel(label, run.public_place, run.manifest, rows, "", title, folder)
        columns.append((model, run, model_id))
    return sorted(columns, key=lambda column: (column[2].casefold(), column[2], column[0].title))


def _with_revisions(models: Sequence[tuple[Results, str]]) -> list[str]:
    """Return names of models; those of one name that were read at different commits say at which."""
    names = [safe_line(public_model(model_id), 200) for _, model_id in models]
    commits = []
    branches = []
    for run, model_id in models:
        commit = model_names.commit_of(model_id, run.manifest.get("models", ()))
        _, branch = model_names.split_revision(str(run.manifest["settings"].get("model") or ""))
        commits.append(commit[:8])
        branches.append(safe_line(branch, 40) if commit and commit != branch else commit[:8])
    titles = []
    for name, commit, branch in zip(names, commits, branches, strict=True):
        same_name = [index for index in range(len(names)) if names[index] == name]
        commits_read = {commits[index] for index in same_name}
        branches_read = {branches[index] for index in same_name}
        revision = branch if len(branches_read) == len(commits_read) else commit
        titles.append(f"{name}@{revision}" if revision and len(commits_read) > 1 else name)
    return titles


def _column_titles(names: Sequence[str], runs: Sequence[Results]) -> list[str]:
    """Return names of models with their runs, each different."""
    titles = []
    folders = []
    commits = []
    for name, run in zip(names, runs, strict=True):
        titles.append(f"{name} @ {safe_line(run.public_place)}")
        folder = run.name if run.commit else Path(run.place).resolve().parent.name
        folders.append(f" ({safe_line(folder)})")
        commits.append(f" at {run.commit[:8]}" if run.commit else "")
    return _distinct(titles, folders, commits)


def _distinct(names: list[str], *endings: Sequence[str]) -> list[str]:
    """Return the names; those that are the same get the first ending that distinguishes them, or a number."""
    for column in endings:
        counts = Counter(names)
        names = [
            f"{name}{ending}" if counts[name] > 1 else name
            for name, ending in zip(names, column, strict=True)
        ]
    counts = Counter(names)
    before = Counter[str]()
    numbered = []
    for name in names:
        before[name] += 1
        numbered.append(f"{name} [{before[name]}]" if counts[name] > 1 else name)
    return numbered
