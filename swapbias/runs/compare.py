"""Runs compared, on disk or on the Hub: one row a quantity, one column a model of a run, and no order by value."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from swapbias import findings
from swapbias.errors import UsageError
from swapbias.findings import (
    Finding,
    Gate,
    compared_units,
    comparisons,
    experiment_of,
    findings_table,
    model_difference,
    terms,
)
from swapbias.measures import MEASURES
from swapbias.models.chat import scoring_in_words
from swapbias.privacy import is_credentialed, public_model, writing
from swapbias.report import ComparedModel, ComparisonPage, Quantity, render_comparison, safe_line
from swapbias.runs.results import Results, corpora_read, read_run
from swapbias.runs.run import REPORT, Run
from swapbias.studies import load_study

_HEAVY = ["text", "top_tokens"]  # columns of scored rows that no comparison reads
Prompts = tuple[
    int, str, tuple[str, ...], str, str
]  # rows, their sha256, of word lists and notes, settings of chat
Columns = Sequence[tuple[ComparedModel, Results, str]]  # a model, its run, and its name there


def compare_runs(runs: Sequence[Results]) -> ComparisonPage:
    """What ``swapbias compare`` shows, against the first run's first model; UsageError: nothing in common."""
    if len(runs) > 1 and len({run.key for run in runs}) == 1:
        raise UsageError(
            "The same run is named several times, expected different ones. Name other runs as well."
        )
    columns = _columns(runs)
    made = _side_by_side(columns)
    first = [(run.key, one.model_id) for run in runs[:1] for one in run.found[:1]]
    reference = next(
        (model.name for model, run, model_id in columns if (run.key, model_id) in first), ""
    )
    scored, left_out = _scored_rows(runs, columns)
    units_read = {
        (one.study, one.experiment, one.model_id): one.scale
        for model in made.models
        for one in model.found
        if one.score == "score" and MEASURES[one.measure].gap_span
    }
    differences = findings.compare(scored, reference=reference, units_read=units_read)
    if not differences and not any(len(row.known) > 1 for row in made.quantities):
        raise UsageError("The runs have no experiment in common. Audit them with the same --study.")
    pairs = max(map(len, scored.values()), default=0) - 1
    if pairs > model_difference.MOST_DETAILED:
        left_out.append(
            f"There are {pairs} pairs of models, and at most {model_difference.MOST_DETAILED} are compared by "
            "slice and subset. Name fewer runs for more."
        )
    contrasts = {f"{model.name} - {reference}": model.name for model, _, _ in columns}
    by_model: dict[tuple[str, ...], dict[str, Finding]] = {}
    for one in differences:
        if one.slice_by == "all" and not one.view and one.contrast in contrasts:
            by_model.setdefault((one.study, one.experiment, one.subset), {})[
                contrasts[one.contrast]
            ] = one
    return replace(
        made,
        quantities=[
            replace(row, differences_by_model=_of_row(row, by_model)) for row in made.quantities
        ],
        differences=[
            one if one.measure == terms.DIFFERENCE else replace(one, model_id="")
            for one in differences
        ],  # a correlation is over all models
        reference=reference,
        notes=[*made.notes, *left_out],
    )


def _of_row(
    row: Quantity, by_model: Mapping[tuple[str, ...], Mapping[str, Finding]]
) -> dict[str, Finding]:
    """The differences of a primary finding's models by name."""
    first = row.known[0]
    experiment = experiment_of(row.known[0])
    several = experiment is not None and (
        len(experiment.compares.groups) > 1 or experiment.compares.factors
    )
    subset = ", ".join(filter(None, (first.subset, first.contrast if several else "")))
    names = {one.model_id for one in row.known} if first.primary else set()
    mine = by_model.get((first.study, first.experiment, subset), {})
    return {name: one for name, one in mine.items() if name in names}


def write_comparison(folder: Path, comparison: ComparisonPage) -> None:
    """The page, side_by_side.csv and comparison.csv; of credentialed notes the folder is marked and private."""
    each = [(one.manifest.get("credentialed"), one.folder) for one in comparison.models]
    credentialed = any(said or (place and is_credentialed(place)) for said, place in each)
    models = [replace(one, report=_report_beside(one, folder)) for one in comparison.models]
    with writing(folder, credentialed=credentialed):
        result = Run(folder)
        if comparison.quantities:
            result.write_csv("side_by_side.csv", comparison_table(comparison))
        if comparison.differences:
            result.write_csv("comparison.csv", findings_table(comparison.differences))
        result.write(REPORT, render_comparison(replace(comparison, models=models)).encode())


def _report_beside(model: ComparedModel, folder: Path) -> str:
    """The report of a run in the same folder as the comparison's, by its address from there; blank for any other."""
    place = model.folder.resolve() if model.folder else None
    if place is None or place.parent != folder.resolve().parent or not (place / REPORT).is_file():
        return ""
    return f"../{quote(place.name)}/{REPORT}"


def comparison_table(comparison: ComparisonPage) -> pd.DataFrame:
    """The comparison as a table: numbers in full, blank where there is none."""
    records = []
    for row in comparison.quantities:
        names = (
            "study",
            "experiment",
            "subset",
            "measure",
            "contrast",
            "unit",
            "unit_low",
            "unit_high",
        )
        record: dict[str, Any] = {
            **{name: getattr(row.known[0], name) for name in names},
            "note": row.note,
        }
        for model, one in zip(comparison.models, row.found, strict=True):
            for name in ("value", "ci_low", "ci_high"):
                record[f"{model.title}: {name}"] = getattr(one.estimate, name) if one else math.nan
            record[f"{model.title}: n"] = one.estimate.n if one else None
        records.append(record)
    return pd.DataFrame(records).astype(
        {f"{model.title}: n": "Int64" for model in comparison.models}
    )


def check_run(
    run: Results | Path | str,
    *,
    max_gap: float | None = None,
    baseline: Results | Path | str | None = None,
    studies: Sequence[str] = (),
) -> Gate:
    """Whether a finished run passes: ``findings.check_gaps`` of what it found, and of a baseline's scored prompts.

    Runs are results or folders; ``max_gap``: a share of the range of each unit, None: the margin of each finding;
    ``studies``: ``NAME[:EXPERIMENT]``.
    """
    mine = run if isinstance(run, Results) else read_run(Path(run))
    rows: dict[str, Any] = {}
    if baseline is not None:
        before = baseline if isinstance(baseline, Results) else read_run(Path(baseline))
        if before.commit:  # of the Hub come no texts to tell prompts by
            others = {(one.study, one.experiment): one for one in comparisons(before.found)}
            for one in comparisons(mine.found):
                other = others.get((one.study, one.experiment))
                if other and not _prompts(one, mine.manifest) & _prompts(other, before.manifest):
                    which = f"{one.study} {one.experiment}: the runs read different prompts"
                    raise UsageError(f"{which}. Audit both with the same swapbias and --limit.")
        rows = {
            "items": dict(mine.items),
            "baseline": dict(before.items),
            "baseline_found": before.found,
        }
    gate = findings.check_gaps(mine.found, max_gap=max_gap, studies=studies, **rows)
    return replace(gate, notes=tuple(map(str, mine.manifest.get("repeats", ()))))


def _side_by_side(columns: Columns) -> ComparisonPage:
    """Primary quantities; a row is of one study, quantity, unit, prompts, word lists and trials."""
    by_key: dict[tuple[str, ...], list[tuple[frozenset[Prompts], dict[int, Finding]]]] = {}
    for place, (model, run, _) in enumerate(columns):
        for one in comparisons(list(model.found), rates=True):
            key = (one.study, one.experiment, one.unit, *one.key())
            same = by_key.setdefault(key, [])
            prompts = _prompts(one, run.manifest)
            # One config may be read by two experiments of which a run has one: any common entry will do.
            cells = next((cells for others, cells in same if prompts & others), None)
            if cells is None:
                same.append((prompts, cells := {}))
            cells.setdefault(place, one)
    rows: list[Quantity] = []
    for key in sorted(by_key, key=lambda key: key[:2]):
        for prompts, cells in by_key[key]:
            note = _differing(prompts) if len(by_key[key]) > 1 else ""
            rows.append(Quantity(tuple(cells.get(place) for place in range(len(columns))), note))
    footnotes = []
    if any(len(same) > 1 for same in by_key.values()):
        footnotes.append(
            "Where prompts, word lists or trials differ, rows cannot be compared with each other."
        )
    runs = [run.manifest for _, run, _ in columns]
    formats = {
        str(one["dtype"])
        for manifest in runs
        for one in manifest.get("models", ())
        if one.get("dtype")
    }
    versions = {str(one["swapbias"]) for one in runs}
    for what, found in (("versions of swapbias", versions), ("number formats", formats)):
        if len(found) > 1:
            footnotes.append(
                f"The runs were made with different {what}: {', '.join(sorted(map(safe_line, found)))}."
            )
    return ComparisonPage([model for model, _, _ in columns], "", rows, [], footnotes)


def _columns(runs: Sequence[Results]) -> Columns:
    """Each model of each run once, by its name; those of one name are named with their runs."""
    different = {run.key: run for run in runs}.values()
    each = [
        (run, model)
        for run in different
        for model in dict.fromkeys(one.model_id for one in run.found)
    ]
    names = [safe_line(public_model(model), 200) for _, model in each]
    titles = _distinct(
        [
            f"{name} @ {safe_line(run.public_place)}"
            for name, (run, _) in zip(names, each, strict=True)
        ],
        [
            f" ({safe_line(run.name if run.commit else Path(run.place).resolve().parent.name)})"
            for run, _ in each
        ],
        [f" at {run.commit[:8]}" if run.commit else "" for run, _ in each],
    )
    many = Counter(names)
    made = []
    for name, title, (run, model) in zip(names, titles, each, strict=True):
        label = name if many[name] == 1 else title
        mine = [replace(one, model_id=label) for one in run.found if one.model_id == model]
        folder = None if run.commit else Path(run.place)
        made.append(
            (
                ComparedModel(label, run.public_place, run.manifest, mine, "", title, folder),
                run,
                model,
            )
        )
    return sorted(made, key=lambda one: (one[2].casefold(), one[2], one[0].title))


def _distinct(names: list[str], *more: Sequence[str]) -> list[str]:
    """The names; those that are the same are longer by the first of ``more`` that distinguishes them, or numbered."""
    for longer in more:
        many = Counter(names)
        names = [
            name + end if many[name] > 1 else name for name, end in zip(names, longer, strict=True)
        ]
    many = Counter(names)
    before = Counter[str]()
    numbered = []
    for name in names:
        before[name] += 1
        numbered.append(f"{name} [{before[name]}]" if many[name] > 1 else name)
    return numbered


def _prompts(finding: Finding, manifest: Mapping[str, Any]) -> frozenset[Prompts]:
    """What a number depends on besides the model, by config: without a common entry numbers are not compared."""
    declared = experiment_of(finding)
    chat = manifest["settings"].get("chat")
    is_chat = declared is not None and declared.kind == "chat" and isinstance(chat, dict)
    trials = scoring_in_words(chat) if is_chat else ""
    each = []
    for one in corpora_read(manifest, finding):
        lexicons = one.get("lexicons")
        lists = (
            sorted({str(words) for words in lexicons.values()})
            if isinstance(lexicons, dict)
            else []
        )
        each.append(
            (one["rows"], one["sha256"], tuple(lists), str(one.get("training", "")), trials)
        )
    return frozenset(each)


def _differing(prompts: frozenset[Prompts]) -> str:
    """Prompts, word lists and trials in words, each sha256 by its first eight digits."""
    each = []
    for rows, sha256, lists, training, trials in prompts:
        parts = [f"{rows:,} prompts ({sha256[:8]})"]
        parts += [f"word lists {', '.join(one[:8] for one in lists)}"] if lists else []
        parts += [f"notes {training[:8]}"] if training else []
        each.append(", ".join([*parts, *filter(None, [trials])]))
    return f"prompts differ: {'; '.join(sorted(each)) or 'not stated'}"


def _scored_rows(
    runs: Sequence[Results], columns: Columns
) -> tuple[dict[str, dict[str, pd.DataFrame]], list[str]]:
    """Scored rows by study and name in the order of the runs, without texts; and what is left out."""
    found: dict[str, dict[str, pd.DataFrame]] = {}
    left_out = []
    for run in {one.key: one for one in runs}.values():
        try:
            items = dict(run.items)
        except ValueError as error:
            left_out.append(f"Left out of the differences: {error}")
            continue
        mine = [column for column in columns if column[1].key == run.key]
        for (model, _, model_id), (study, every) in product(mine, items.items()):
            is_mine = every["model_id"] == model_id
            rows = every if is_mine.all() else every[is_mine]
            if not len(rows):
                continue
            if run.commit and (trouble := _why_unusable(study, rows)):
                why = f"its scored prompts of {safe_line(study)} are not what an audit writes ({trouble})"
                left_out.append(f"Left out of the differences: {model.title}: {why}.")
                continue
            rows = rows.drop(columns=_HEAVY, errors="ignore").assign(model_id=model.name)
            found.setdefault(study, {})[model.name] = rows
    return found, left_out


def _why_unusable(study: str, rows: pd.DataFrame) -> str:
    """Why nothing that is compared can be made of the rows; blank where it can."""
    try:
        for experiment in load_study(study).experiments:
            part = rows[rows["experiment"] == experiment.name]
            contexts = [
                findings.Context(study, "", contrast, "score") for contrast in experiment.gaps
            ]
            units = [compared_units.gap_units(context, part) for context in contexts if len(part)]
            if units and units.count(None) == len(units) and experiment.is_paired:
                return "a group is missing"
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    return ""
