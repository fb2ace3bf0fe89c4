"""Runs compared, on disk or on the Hub: one row a quantity, one column a model of a run, and no order by value."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from pandas.api.types import is_numeric_dtype

from swapbias.errors import UsageError, need_audit_extra
from swapbias.findings import (
    MARGIN,
    MOST_DETAILED,
    Finding,
    Gate,
    check_gaps,
    compare,
    comparisons,
    experiment_of,
    findings_table,
    units,
)
from swapbias.measures import MEASURES
from swapbias.models.chat import scoring_in_words
from swapbias.privacy import is_credentialed, own_data, public_model, writing
from swapbias.report import (
    ComparedModel,
    ComparisonPage,
    Quantity,
    render_comparison,
    shown,
)
from swapbias.runs.results import FINDINGS_JSON, needed, parse_manifest, parse_results, scored_items
from swapbias.runs.run import MANIFEST, REPORT, Run
from swapbias.studies import PROMPT_COLUMNS, load_study

MOST_QUANTITIES = 2_000  # of one run; a whole audit of every study has some hundred
MOST_MODELS = 100  # of one run
MOST_CELLS = 2_000_000  # of a comparison
MOST_COMPARED = 500  # models with differences, each from one of them
_LONGEST = 200  # characters of a model's name in a page
MOST_PAIRED = 20  # models that are compared two by two
_HEAVY = ("text", "candidates", "top_tokens")  # columns of scored rows that one model's stand for all
_SHA256 = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
Items = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A finished run.

    Attributes:
        place: its folder, or OWNER/NAME on the Hub.
        name: of its folder.
        commit: the commit that was read; blank on disk.
        manifest: what was audited, and how.
        found: every finding.
        items: reads the scored rows by study; gives none where they are not at hand.
    """

    place: str
    name: str
    commit: str
    manifest: Mapping[str, Any]
    found: Sequence[Finding]
    items: Callable[[], Items] = dict

    @property
    def key(self) -> tuple[str, str, str]:
        """Tells it from other runs."""
        return self.place, self.name, self.commit


@dataclass(frozen=True, slots=True)
class Column:
    """One model of one run.

    Attributes:
        title: names model and run; no other column of the comparison has it.
        model_id, run: what it is.
        found: its headline findings.
        label: the model's name; the title where another column has that.
    """

    title: str
    model_id: str
    run: ComparedRun
    found: Sequence[Finding]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity that was measured on the same prompts: a finding for each column, None where there is none.

    ``note`` says what differs from other rows of the quantity (prompts, word lists, trials) or within this one
    (number format of the weights); blank where nothing does.
    """

    first: Finding
    found: tuple[Finding | None, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Columns by name, rows by study, and sentences to print below."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]

    @property
    def credentialed(self) -> bool:
        """Whether any of the runs is made of credentialed notes."""
        return any(
            one.run.manifest.get("credentialed") or (not one.run.commit and is_credentialed(Path(one.run.place)))
            for one in self.columns
        )


def read_run(folder: Path, *, repo: str = "", commit: str = "") -> ComparedRun:
    """A finished run of a folder: the user's own, or one that was fetched from a repository of anybody's.

    Raises:
        UsageError: the folder holds no run. ValueError: it is not complete, or not what swapbias writes; fetched, it
            says that it holds credentialed data.
    """
    where = f"{repo}/{shown(f'runs/{folder.name}')}" if repo else str(folder)
    run = Run.open(folder)
    manifest = parse_manifest((folder / MANIFEST).read_bytes(), f"{where}/{MANIFEST}")
    if manifest["status"] != "complete":
        raise UsageError(f"{where} is not complete. Whoever made it can go on with swapbias audit --resume.")
    if repo and manifest.get("credentialed"):
        raise ValueError(f"{where}: it says that it holds credentialed data, which nobody may share. Tell its owner.")
    own_names = not repo and own_data(manifest) is not None
    content = needed(run, FINDINGS_JSON).read_bytes()
    found = parse_results(content, f"{where}/{FINDINGS_JSON}", own_names=own_names)
    keys = [(one.model_id, *_quantity(one)) for one in comparisons(found, rates=True)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a headline finding stands twice. Its owner can audit again.")
    models, quantities = len({one.model_id for one in found}), len({key[1:] for key in keys})
    if models > MOST_MODELS or quantities > MOST_QUANTITIES:
        many, most = f"{models} models and {quantities:,} quantities", f"{MOST_MODELS} and {MOST_QUANTITIES:,}"
        raise ValueError(f"{where}: it holds {many}, expected at most {most}. Its owner can audit in parts.")
    return ComparedRun(repo or str(folder), folder.name, commit, manifest, found, lambda: _items(run))


def _items(run: Run) -> Items:
    names = sorted(path.stem for path in (run.folder / "items").glob("*.parquet"))
    return {name: scored_items(run, name) for name in names}


@dataclass(frozen=True, slots=True)
class Compared:
    """Runs compared: side by side, the differences between their models, and what was left out, in sentences.

    ``rows`` are scored rows by study and label of a column, of which one model's hold the texts;
    ``reference`` is the label of the column that differences are from.
    """

    comparison: Comparison
    differences: Sequence[Finding]
    rows: Mapping[str, Mapping[str, pd.DataFrame]]
    left_out: Sequence[str]
    reference: str = ""


def compare_runs(runs: Sequence[ComparedRun], *, every_pair: bool = False) -> Compared:
    """What ``swapbias compare`` makes of two runs or more.

    Args:
        runs: in any order; the first model of the first is what the others are compared with.
        every_pair: compare every two models.

    Raises:
        UsageError: they are one run, have no experiment in common, or there is more than a table can hold.
    """
    if len(runs) > 1 and len({run.key for run in runs}) == 1:
        raise UsageError("The same run is named several times, expected different ones. Name other runs as well.")
    comparison = side_by_side(runs)
    if every_pair and len(comparison.columns) > MOST_PAIRED:
        raise UsageError(
            f"--every-pair with {len(comparison.columns)} models, expected at most {MOST_PAIRED}. Name fewer runs, "
            "or leave it out: each is then compared with the first."
        )
    first = next(iter(dict.fromkeys(one.model_id for one in runs[0].found)), "") if runs else ""
    mine = [one for one in comparison.columns if runs and (one.run.key, one.model_id) == (runs[0].key, first)]
    reference = mine[0].label if mine else ""
    rows, left_out = scored_rows(runs, comparison.columns)
    differences = compare(rows, reference=reference, every_pair=every_pair, units_read=units_read(comparison.columns))
    if not differences and not any(sum(map(bool, row.found)) > 1 for row in comparison.rows):
        raise UsageError("The runs have no experiment in common. Audit them with the same --study.")
    models = max(map(len, rows.values()), default=0)
    pairs = models * (models - 1) // 2 if every_pair else models - 1
    if pairs > MOST_DETAILED:
        told = f"{pairs} pairs of models, at most {MOST_DETAILED} are compared so closely. Name fewer runs for more."
        left_out = [*left_out, f"Differences by slice, by subset and as published are left out: there are {told}"]
    return Compared(comparison, differences, rows, left_out, reference)


def write_comparison(folder: Path, compared: Compared) -> None:
    """The page, side_by_side.csv and comparison.csv, each table where there is anything in it.

    Of runs of credentialed notes the folder is marked, and its user's alone.
    """
    need_audit_extra("A comparison of runs", "jinja2")
    with writing(folder, credentialed=compared.comparison.credentialed):
        _write(Run(folder), compared)


def _write(result: Run, compared: Compared) -> None:
    if compared.comparison.rows:
        result.write_csv("side_by_side.csv", comparison_table(compared.comparison))
    if compared.differences:
        result.write_csv("comparison.csv", findings_table(compared.differences))
    result.write(REPORT, render_comparison(comparison_page(compared, result.folder)).encode())


def comparison_page(compared: Compared, folder: Path | None = None) -> ComparisonPage:
    """What the page shows: models and runs by names that tell no place of this machine; links from its folder."""
    columns = compared.comparison.columns
    names = _page_names(columns)
    by_key: dict[tuple[str, ...], dict[str, Finding]] = {}
    contrasts = {f"{compared.reference} - {label}": name for label, name in names.items()}
    for one in compared.differences:
        if one.slice_by == "all" and not one.view and one.contrast in contrasts:
            by_key.setdefault((one.study, one.experiment, one.subset), {})[contrasts[one.contrast]] = one
    return ComparisonPage(
        models=[
            ComparedModel(
                names[one.label],
                one.run.place if one.run.commit else one.run.name,
                one.run.manifest,
                [_called(each, names[one.label]) for each in one.run.found if each.model_id == one.model_id],
                _report_beside(one.run, folder),
            )
            for one in columns
        ],
        reference=names.get(compared.reference, ""),
        quantities=[_shown_row(row, columns, names, by_key) for row in compared.comparison.rows],
        differences=[_shown_difference(one, names) for one in compared.differences],
        scored={
            study: {names[label]: rows for label, rows in models.items()} for study, models in compared.rows.items()
        },
        notes=[*compared.comparison.footnotes, *compared.left_out],
    )


def check_run(
    run: ComparedRun | Path | str,
    *,
    max_gap: float = MARGIN,
    baseline: ComparedRun | Path | str | None = None,
    studies: Sequence[str] = (),
    of: str = "gap",
) -> Gate:
    """Whether a finished run passes: ``findings.check_gaps`` of what it found, and of a baseline's scored prompts.

    Args:
        run: as ``read_run`` or ``hub.find_run`` gives it, or its folder; likewise ``baseline``.
        max_gap: the margin, a share of the range of each gap's unit.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all.
        of: as of ``check_gaps``.

    Raises:
        UsageError, ValueError: as ``read_run`` and ``check_gaps``.
    """
    mine = run if isinstance(run, ComparedRun) else read_run(Path(run))
    notes = tuple(map(str, mine.manifest.get("repeats", ())))
    if baseline is None:
        gate = check_gaps(mine.found, max_gap=max_gap, studies=studies, of=of)
        return replace(gate, notes=notes)
    before = baseline if isinstance(baseline, ComparedRun) else read_run(Path(baseline))
    if before.commit:  # of the Hub come no texts to tell prompts by
        told = {(one.study, one.experiment): one for one in comparisons(before.found)}
        for one in comparisons(mine.found):
            other = told.get((one.study, one.experiment))
            if other and not _asked(one, mine.manifest) & _asked(other, before.manifest):
                raise UsageError(
                    f"{one.study} {one.experiment}: the runs read different prompts. Audit both with the same "
                    "swapbias and the same --limit."
                )
    more = {"items": mine.items(), "baseline": before.items()}
    return replace(check_gaps(mine.found, max_gap=max_gap, studies=studies, of=of, **more), notes=notes)


def side_by_side(runs: Sequence[ComparedRun]) -> Comparison:
    """Headline quantities of runs, by the inference of the design, over all rows of each experiment and subset.

    Numbers stand in one row where study, quantity, unit, prompts, word lists and trials are the same. Columns are
    in the order of the models' names, then of place and run.

    Raises:
        UsageError: there is more than a table can hold.
    """
    columns = _columns(list({run.key: run for run in runs}.values()))
    rows = tuple(_rows(columns))
    return Comparison(columns, rows, tuple(_footnotes(columns, rows)))


def comparison_table(comparison: Comparison) -> pd.DataFrame:
    """The comparison as a table: numbers in full, blank where there is none."""
    return pd.DataFrame([dict(_record(comparison.columns, row)) for row in comparison.rows]).astype(
        {f"{column.title}: n": "Int64" for column in comparison.columns}
    )


def _record(columns: Sequence[Column], row: Row) -> Iterator[tuple[str, Any]]:
    for name in ("study", "experiment", "subset", "measure", "contrast", "unit"):
        yield name, getattr(row.first, name)
    yield "note", row.note
    for column, found in zip(columns, row.found, strict=True):
        for name in ("value", "ci_low", "ci_high"):
            yield f"{column.title}: {name}", getattr(found.estimate, name) if found else math.nan
        yield f"{column.title}: n", found.estimate.n if found else None


def units_read(columns: Sequence[Column]) -> dict[tuple[str, str, str], str]:
    """The units of scores, by study, experiment and label of a column."""
    return {
        (one.study, one.experiment, column.label): one.unit
        for column in columns
        for one in column.run.found
        if one.model_id == column.model_id and one.score == "score" and MEASURES[one.measure].reach
    }


def scored_rows(
    runs: Sequence[ComparedRun], columns: Sequence[Column]
) -> tuple[dict[str, dict[str, pd.DataFrame]], list[str]]:
    """Scored rows by study and model, where they are at hand, and sentences that say what is left out.

    Models stand in the order of the runs, by their columns' labels; texts stand in the rows of the first model of a
    study that has them. Rows that no audit writes are left out.
    """
    if len(columns) > MOST_COMPARED:
        many = f"{len(columns)} models, expected at most {MOST_COMPARED}"
        return {}, [f"Differences are left out: there are {many}. Name fewer runs."]
    found: dict[str, dict[str, pd.DataFrame]] = {}
    left_out = []
    by_run: dict[tuple[str, str, str], list[Column]] = {}
    for column in columns:
        by_run.setdefault(column.run.key, []).append(column)
    for run in {one.key: one for one in runs}.values():
        try:
            items = run.items()
        except ValueError as error:
            left_out.append(f"Left out of the differences: {error}")
            continue
        for column, (study, scored) in product(by_run.get(run.key, ()), items.items()):
            mine = scored["model_id"] == column.model_id
            rows = scored if mine.all() else scored[mine]
            if not len(rows):
                continue
            before = found.get(study, {}).values()
            first = next((one for one in before if "text" in one), next(iter(before), None))
            asked = _asked_alike(first, rows)
            if trouble := "" if asked else _trouble(study, rows):
                told = f"{column.title}: its scored prompts of {shown(study)} are not what an audit writes"
                left_out.append(f"Left out of the differences: {told} ({trouble}).")
            else:
                if first is not None and "text" in first:
                    rows = _without_texts(first, rows, asked)
                found.setdefault(study, {})[column.label] = rows.assign(model_id=column.label)
    textless = [study for study, models in found.items() if not any("text" in rows for rows in models.values())]
    if textless:
        prompts = f"prompts of {', '.join(textless)} that are installed here"
        left_out.append(
            f"Pairs are left out: no run has {prompts}. Compare runs of the same swapbias without --limit."
        )
    return found, left_out


def _without_texts(first: pd.DataFrame, rows: pd.DataFrame, asked: Sequence[str]) -> pd.DataFrame:
    """Rows of a further model; what it was asked like the first is held once for all, in their own columns' order."""
    own = [one for one in rows if one not in _HEAVY and one not in asked]
    if not asked:
        return rows[own]
    kept = {one: first[one].array for one in asked if one not in _HEAVY}
    return pd.DataFrame({**kept, **{one: rows[one].array for one in own}}, index=first.index, copy=False)


def _asked_alike(first: pd.DataFrame | None, rows: pd.DataFrame) -> list[str]:
    """The columns of prompts, where two models read the very same ones and the second's scores are numbers."""
    if first is None or len(first) != len(rows) or not is_numeric_dtype(rows["score"]):
        return []
    columns = [name for name in PROMPT_COLUMNS if name in first]
    if set(columns) != {name for name in PROMPT_COLUMNS if name in rows}:
        return []
    return columns if all(first[name].array.equals(rows[name].array) for name in columns) else []


def _trouble(study: str, rows: pd.DataFrame) -> str:
    """Why nothing that is compared can be made of the rows; blank where it can."""
    try:
        for experiment in load_study(study).experiments:
            part = rows[rows["experiment"] == experiment.name]
            if len(part):
                units(experiment, part)
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    return ""


# --- columns ------------------------------------------------------------------------------------------


def _quantity(finding: Finding) -> tuple[str, ...]:
    return (finding.study, finding.experiment, finding.unit, *finding.key())


def _columns(runs: Sequence[ComparedRun]) -> tuple[Column, ...]:
    made = []
    for run in runs:
        told = comparisons(run.found, rates=True)
        for model in dict.fromkeys(one.model_id for one in run.found):
            mine = [one for one in told if one.model_id == model]
            made.append(Column(f"{shown(model)} @ {shown(run.place)}", model, run, mine))
    made = _told_apart(made, lambda one, _: f" ({shown(one.run.name)})")
    made = _told_apart(made, lambda one, _: f" at {one.run.commit[:8]}" if one.run.commit else "")
    made = _told_apart(made, lambda _, number: f" [{number}]")
    names = Counter(one.model_id for one in made)
    made = [replace(one, label=one.model_id if names[one.model_id] == 1 else one.title) for one in made]
    return tuple(sorted(made, key=lambda one: (one.model_id.casefold(), one.model_id, one.title)))


def _told_apart(columns: Sequence[Column], more: Callable[[Column, int], str]) -> list[Column]:
    """Columns with more in their title where two have the same; ``more`` gets the how manieth of them it is."""
    whole, before = Counter(column.title for column in columns), Counter[str]()
    made = []
    for one in columns:
        before[one.title] += 1
        longer = one.title + more(one, before[one.title])
        made.append(replace(one, title=longer) if whole[one.title] > 1 else one)
    return made


# --- the page -----------------------------------------------------------------------------------------


def _report_beside(run: ComparedRun, folder: Path | None) -> str:
    """The report of a run in the same folder as the comparison's, by its address from there; blank for any other."""
    if folder is None or run.commit or Path(run.place).resolve().parent != folder.resolve().parent:
        return ""
    return f"../{quote(run.name)}/{REPORT}" if (Path(run.place) / REPORT).is_file() else ""


def _page_names(columns: Sequence[Column]) -> dict[str, str]:
    """By label what a page calls a model: by its name; where others have that, with its run, and a number."""
    public = {one.label: shown(public_model(one.model_id), _LONGEST) for one in columns}
    many = Counter(public.values())
    told = {
        one.label: public[one.label]
        if many[public[one.label]] == 1
        else f"{public[one.label]} ({one.run.place if one.run.commit else one.run.name})"
        for one in columns
    }
    twice, before = Counter(told.values()), Counter[str]()
    for label, name in told.items():
        before[name] += 1
        told[label] = f"{name} [{before[name]}]" if twice[name] > 1 else name
    return told


def _called(finding: Finding, name: str) -> Finding:
    """The finding with its model called so; the finding itself where it is: a hundred models have many."""
    return finding if finding.model_id == name else replace(finding, model_id=name)


def _shown_row(
    row: Row,
    columns: Sequence[Column],
    names: Mapping[str, str],
    away: Mapping[tuple[str, ...], Mapping[str, Finding]],
) -> Quantity:
    found = tuple(
        _called(one, names[column.label]) if one is not None else None
        for column, one in zip(columns, row.found, strict=True)
    )
    first, experiment = row.first, experiment_of(row.first)
    several = experiment is not None and (experiment.groups or experiment.factors)
    subset = ", ".join(filter(None, (first.subset, first.contrast if several else "")))
    known = {one.model_id for one in found if one is not None}
    mine = {
        name: one
        for name, one in away.get((first.study, first.experiment, subset), {}).items()
        if first.headline and name in known
    }
    return Quantity(found, row.note, mine)


def _shown_difference(finding: Finding, names: Mapping[str, str]) -> Finding:
    """A difference whose models have the names of the page; a correlation over all models names none of them."""
    first, minus, second = finding.contrast.partition(" - ")
    if finding.measure != "model_difference":
        return replace(finding, model_id="")
    if not (minus and first in names and second in names):  # a name with a minus in it
        first = next((one for one in names if finding.contrast.startswith(f"{one} - ")), first)
        second = finding.contrast[len(first) + 3 :]
    told = " - ".join(names.get(one, public_model(one)) for one in (first, second))
    return replace(finding, contrast=told, model_id=told)


# --- rows ---------------------------------------------------------------------------------------------


def _rows(columns: Sequence[Column]) -> Iterator[Row]:
    """Rows by study and experiment, else in the order in which the columns have them."""
    quantities: dict[tuple[str, ...], list[tuple[frozenset[str], dict[int, Finding]]]] = {}
    for index, column in enumerate(columns):
        for one in column.found:
            rows, asked = quantities.setdefault(_quantity(one), []), _asked(one, column.run.manifest)
            # One config may be read by two experiments of which a run has one: any common entry will do.
            cells = next((cells for other, cells in rows if asked & other), None)
            if cells is None:
                rows.append((asked, cells := {}))
            cells.setdefault(index, one)
    count = sum(map(len, quantities.values()))
    if count * len(columns) > MOST_CELLS:
        raise UsageError(
            f"The runs make a table of {count:,} rows and {len(columns):,} columns, which is too large. Name fewer."
        )
    for key in sorted(quantities, key=lambda key: key[:2]):
        for asked, cells in quantities[key]:
            told = _SHA256.sub(r"\1", "; ".join(sorted(asked)) or "not stated")
            notes = [f"prompts differ: {told}"] if len(quantities[key]) > 1 else []
            formats = {_weights(columns[index]) for index in cells} - {""}
            notes += [f"weights differ: {', '.join(sorted(formats))}"] if len(formats) > 1 else []
            found = tuple(cells.get(index) for index in range(len(columns)))
            yield Row(next(iter(cells.values())), found, "; ".join(notes))


def _asked(finding: Finding, manifest: Mapping[str, Any]) -> frozenset[str]:
    """What a number depends on besides the model, by config: without a common entry numbers cannot be compared.

    Each says, in words, how many rows there were and the sha256 of the rows, of word lists and of training notes, and
    how often a chat model was asked. A run that does not state its prompts is never compared.
    """
    declared = experiment_of(finding)
    corpus = (declared.corpus if declared else "") or finding.study
    configs = {*declared.configs, *declared.alternatives} if declared else set()
    chat = manifest["settings"].get("chat")
    trials = ""
    if declared is not None and declared.kind == "chat" and isinstance(chat, dict):
        trials = f", {scoring_in_words(chat)}"
    return frozenset(
        _prompts(one) + trials
        for one in manifest["corpora"]
        if one["corpus"] == corpus and (not configs or set(one["config"].split(", ")) <= configs)
    )


def _prompts(entry: Mapping[str, Any]) -> str:
    lexicons, training = entry.get("lexicons"), str(entry.get("training", ""))
    lists = sorted({str(one) for one in lexicons.values()}) if isinstance(lexicons, dict) else []
    told = [f"{entry['rows']:,} prompts ({entry['sha256']})", *([f"word lists {', '.join(lists)}"] if lists else [])]
    return ", ".join([*told, *([f"notes {training}"] if training else [])])


def _weights(column: Column) -> str:
    """The number format of a model's weights, blank where the run does not say (a service)."""
    models = column.run.manifest.get("models", [])
    formats = [model.get("dtype") for model in models if model["model_id"] == column.model_id]
    return shown(str(formats[0] or "")) if formats else ""


def _footnotes(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    if any("prompts differ" in row.note for row in rows):
        yield (
            "Where prompts differ (or word lists, or trials) a quantity has a row for each; numbers of different "
            "rows cannot be compared, and a difference between their models is one of the prompts as well."
        )
    if any("weights differ" in row.note for row in rows):
        yield "Where weights differ, small differences may come from their number format."
    versions = sorted({shown(str(column.run.manifest["swapbias"])) for column in columns})
    if len(versions) > 1:
        yield f"The runs were made by different versions of swapbias: {', '.join(versions)}."
