"""Runs compared, on disk or on the Hub: one row a quantity, one column a model of a run, and no order by value."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from swapbias.errors import UsageError, need_audit_extra
from swapbias.findings import (
    DIFFERENCE,
    MARGIN,
    MOST_DETAILED,
    Context,
    Finding,
    Gate,
    check_gaps,
    compare,
    comparisons,
    experiment_of,
    findings_table,
    gap_units,
)
from swapbias.measures import MEASURES
from swapbias.models.chat import scoring_in_words
from swapbias.privacy import is_credentialed, own_data, public_model, writing
from swapbias.report import ComparedModel, ComparisonPage, Quantity, render_comparison, shown
from swapbias.runs.results import (
    FINDINGS_JSON,
    checked_path,
    corpora_read,
    parse_manifest,
    parse_results,
    scored_items,
)
from swapbias.runs.run import MANIFEST, REPORT, Run
from swapbias.studies import load_study

MOST_CELLS = 2_000_000  # of a comparison
_LONGEST = 200  # characters of a model's name
_HEAVY = ("text", "candidates", "top_tokens")  # columns of scored rows that one model's stand for all
Items = Mapping[str, pd.DataFrame]
Prompts = tuple[int, str, tuple[str, ...], str, str]  # rows, their sha256, of word lists and notes, how chat is asked


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

    @property
    def public_place(self) -> str:
        """Where it is from, without a path of this machine."""
        return self.place if self.commit else self.name


@dataclass(frozen=True, slots=True)
class Column:
    """One model of one run.

    Attributes:
        title: names model and run; no other column of the comparison has it.
        label: the model's public name; the title where another column has that name.
        model_id: as its run has it.
        run: that it is of.
        found: its findings, under its label.
        weights: the number format of its weights, blank where the run does not say (a service).
    """

    title: str
    label: str
    model_id: str
    run: ComparedRun
    found: Sequence[Finding]
    weights: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models of runs side by side, and the differences between them.

    Attributes:
        columns: by name of the model.
        rows: by study; a quantity that was measured on the same prompts has a finding for each column, or None.
        notes: sentences on what is not comparable and what is left out.
        differences: of models two by two.
        scored: scored rows by study and label, where they are at hand; one model's have the texts.
        reference: label of the column that differences are from.
    """

    columns: tuple[Column, ...]
    rows: tuple[Quantity, ...]
    notes: tuple[str, ...] = ()
    differences: Sequence[Finding] = ()
    scored: Mapping[str, Items] = field(default_factory=dict)
    reference: str = ""


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
    content = checked_path(run, FINDINGS_JSON).read_bytes()
    own_names = not repo and own_data(manifest) is not None
    found = parse_results(content, f"{where}/{FINDINGS_JSON}", own_names=own_names)
    keys = [(one.model_id, *_quantity(one)) for one in comparisons(found, rates=True)]
    if len(set(keys)) != len(keys):
        raise ValueError(f"{where}: a headline finding stands twice. Its owner can audit again.")
    items = sorted(path.stem for path in (folder / "items").glob("*.parquet"))
    read = {"items": lambda: {study: scored_items(run, study) for study in items}}
    return ComparedRun(repo or str(folder), folder.name, commit, manifest, found, **read)


def compare_runs(runs: Sequence[ComparedRun]) -> Comparison:
    """What ``swapbias compare`` makes of two runs or more: models are compared with the first of the first run.

    Raises:
        UsageError: they are one run, have no experiment in common, or there is more than a table can hold.
    """
    if len(runs) > 1 and len({run.key for run in runs}) == 1:
        raise UsageError("The same run is named several times, expected different ones. Name other runs as well.")
    made = side_by_side(runs)
    first = [(run.key, one.model_id) for run in runs[:1] for one in run.found[:1]]
    reference = next((one.label for one in made.columns if (one.run.key, one.model_id) in first), "")
    scored, left_out = _scored_rows(runs, made.columns)
    units_read = {
        (one.study, one.experiment, one.model_id): one.unit
        for column in made.columns
        for one in column.found
        if one.score == "score" and MEASURES[one.measure].reach
    }
    differences = compare(scored, reference=reference, units_read=units_read)
    if not differences and not any(len(row.known) > 1 for row in made.rows):
        raise UsageError("The runs have no experiment in common. Audit them with the same --study.")
    pairs = max(map(len, scored.values()), default=0) - 1
    if pairs > MOST_DETAILED:
        left_out.append(
            f"Differences by slice, by subset and as published are left out: there are {pairs} pairs of models, at "
            f"most {MOST_DETAILED} are compared so closely. Name fewer runs for more."
        )
    notes = (*made.notes, *left_out)
    return replace(made, notes=notes, differences=differences, scored=scored, reference=reference)


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """The page, side_by_side.csv and comparison.csv, each table where there is anything in it.

    Of runs of credentialed notes the folder is marked, and its user's alone.
    """
    need_audit_extra("A comparison of runs", "jinja2")
    runs = [one.run for one in comparison.columns]
    credentialed = any(
        run.manifest.get("credentialed") or (not run.commit and is_credentialed(Path(run.place))) for run in runs
    )
    with writing(folder, credentialed=credentialed):
        result = Run(folder)
        if comparison.rows:
            result.write_csv("side_by_side.csv", comparison_table(comparison))
        if comparison.differences:
            result.write_csv("comparison.csv", findings_table(comparison.differences))
        result.write(REPORT, render_comparison(comparison_page(comparison, folder)).encode())


def comparison_page(comparison: Comparison, folder: Path | None = None) -> ComparisonPage:
    """What the page shows, with links from its folder to reports beside it."""
    contrasts = {f"{comparison.reference} - {one.label}": one.label for one in comparison.columns}
    away: dict[tuple[str, ...], dict[str, Finding]] = {}
    for one in comparison.differences:
        if one.slice_by == "all" and not one.view and one.contrast in contrasts:
            away.setdefault((one.study, one.experiment, one.subset), {})[contrasts[one.contrast]] = one
    return ComparisonPage(
        models=[
            ComparedModel(
                one.label, one.run.public_place, one.run.manifest, one.found, _report_beside(one.run, folder)
            )
            for one in comparison.columns
        ],
        reference=comparison.reference,
        quantities=[replace(row, away=_of_row(row, away)) for row in comparison.rows],
        differences=[
            one if one.measure == DIFFERENCE else replace(one, model_id="") for one in comparison.differences
        ],  # a correlation is over all models
        scored=comparison.scored,
        notes=comparison.notes,
    )


def _of_row(row: Quantity, away: Mapping[tuple[str, ...], Mapping[str, Finding]]) -> dict[str, Finding]:
    """The differences of a headline's models by label."""
    first, experiment = row.known[0], experiment_of(row.known[0])
    several = experiment is not None and (experiment.groups or experiment.factors)
    subset = ", ".join(filter(None, (first.subset, first.contrast if several else "")))
    labels = {one.model_id for one in row.known} if first.headline else set()
    mine = away.get((first.study, first.experiment, subset), {})
    return {label: one for label, one in mine.items() if label in labels}


def _report_beside(run: ComparedRun, folder: Path | None) -> str:
    """The report of a run in the same folder as the comparison's, by its address from there; blank for any other."""
    if folder is None or run.commit or Path(run.place).resolve().parent != folder.resolve().parent:
        return ""
    return f"../{quote(run.name)}/{REPORT}" if (Path(run.place) / REPORT).is_file() else ""


def comparison_table(comparison: Comparison) -> pd.DataFrame:
    """The comparison as a table: numbers in full, blank where there is none."""
    records = []
    for row in comparison.rows:
        names = ("study", "experiment", "subset", "measure", "contrast", "unit")
        record: dict[str, Any] = {**{name: getattr(row.known[0], name) for name in names}, "note": row.note}
        for column, one in zip(comparison.columns, row.found, strict=True):
            for name in ("value", "ci_low", "ci_high"):
                record[f"{column.title}: {name}"] = getattr(one.estimate, name) if one else math.nan
            record[f"{column.title}: n"] = one.estimate.n if one else None
        records.append(record)
    return pd.DataFrame(records).astype({f"{column.title}: n": "Int64" for column in comparison.columns})


def check_run(
    run: ComparedRun | Path | str,
    *,
    max_gap: float = MARGIN,
    baseline: ComparedRun | Path | str | None = None,
    studies: Sequence[str] = (),
) -> Gate:
    """Whether a finished run passes: ``findings.check_gaps`` of what it found, and of a baseline's scored prompts.

    Args:
        run: as ``read_run`` or ``hub.find_run`` gives it, or its folder; likewise ``baseline``.
        max_gap: the margin, a share of the range of each gap's unit.
        studies: ``NAME`` or ``NAME:EXPERIMENT``; none: all.

    Raises:
        UsageError, ValueError: as ``read_run`` and ``check_gaps``.
    """
    mine = run if isinstance(run, ComparedRun) else read_run(Path(run))
    rows = {}
    if baseline is not None:
        before = baseline if isinstance(baseline, ComparedRun) else read_run(Path(baseline))
        if before.commit:  # of the Hub come no texts to tell prompts by
            others = {(one.study, one.experiment): one for one in comparisons(before.found)}
            for one in comparisons(mine.found):
                other = others.get((one.study, one.experiment))
                if other and not _prompts(one, mine.manifest) & _prompts(other, before.manifest):
                    raise UsageError(
                        f"{one.study} {one.experiment}: the runs read different prompts. Audit both with the same "
                        "swapbias and the same --limit."
                    )
        rows = {"items": mine.items(), "baseline": before.items()}
    gate = check_gaps(mine.found, max_gap=max_gap, studies=studies, **rows)
    return replace(gate, notes=tuple(map(str, mine.manifest.get("repeats", ()))))


# --- side by side -------------------------------------------------------------------------------------


def side_by_side(runs: Sequence[ComparedRun]) -> Comparison:
    """Headline quantities of runs, by the inference of the design, over all rows of each experiment and subset.

    Numbers stand in one row where study, quantity, unit, prompts, word lists and trials are the same. Columns are
    in the order of the models' names, then of place and run.

    Raises:
        UsageError: there is more than a table can hold.
    """
    columns = _columns(list({run.key: run for run in runs}.values()))
    quantities: dict[tuple[str, ...], list[tuple[frozenset[Prompts], dict[int, Finding]]]] = {}
    for place, column in enumerate(columns):
        for one in comparisons(column.found, rates=True):
            same, prompts = quantities.setdefault(_quantity(one), []), _prompts(one, column.run.manifest)
            # One config may be read by two experiments of which a run has one: any common entry will do.
            cells = next((cells for others, cells in same if prompts & others), None)
            if cells is None:
                same.append((prompts, cells := {}))
            cells.setdefault(place, one)
    count = sum(map(len, quantities.values()))
    if count * len(columns) > MOST_CELLS:
        raise UsageError(
            f"The runs make a table of {count:,} rows and {len(columns):,} columns, which is too large. Name fewer."
        )
    rows: list[Quantity] = []
    other_formats = False
    for key in sorted(quantities, key=lambda key: key[:2]):
        for prompts, cells in quantities[key]:
            notes = [_differing(prompts)] if len(quantities[key]) > 1 else []
            formats = sorted({columns[place].weights for place in cells} - {""})
            notes += [f"weights differ: {', '.join(formats)}"] if len(formats) > 1 else []
            other_formats = other_formats or len(formats) > 1
            rows.append(Quantity(tuple(cells.get(place) for place in range(len(columns))), "; ".join(notes)))
    footnotes = []
    if any(len(same) > 1 for same in quantities.values()):
        footnotes.append(
            "Where prompts differ (or word lists, or trials) a quantity has a row for each; numbers of different "
            "rows cannot be compared, and a difference between their models is one of the prompts as well."
        )
    if other_formats:
        footnotes.append("Where weights differ, small differences may come from their number format.")
    versions = sorted({shown(str(column.run.manifest["swapbias"])) for column in columns})
    if len(versions) > 1:
        footnotes.append(f"The runs were made by different versions of swapbias: {', '.join(versions)}.")
    return Comparison(columns, tuple(rows), tuple(footnotes))


def _quantity(finding: Finding) -> tuple[str, ...]:
    return (finding.study, finding.experiment, finding.unit, *finding.key())


def _columns(runs: Sequence[ComparedRun]) -> tuple[Column, ...]:
    each = [(run, model) for run in runs for model in dict.fromkeys(one.model_id for one in run.found)]
    names = [shown(public_model(model), _LONGEST) for _, model in each]
    titles = _distinct(
        [f"{name} @ {shown(run.public_place)}" for name, (run, _) in zip(names, each, strict=True)],
        [f" ({shown(run.name if run.commit else Path(run.place).resolve().parent.name)})" for run, _ in each],
        [f" at {run.commit[:8]}" if run.commit else "" for run, _ in each],
    )
    many = Counter(names)
    made = []
    for name, title, (run, model) in zip(names, titles, each, strict=True):
        label = name if many[name] == 1 else title
        mine = [one for one in run.found if one.model_id == model]
        if label != model:
            mine = [replace(one, model_id=label) for one in mine]
        formats = [one.get("dtype") for one in run.manifest.get("models", []) if one["model_id"] == model]
        made.append(Column(title, label, model, run, mine, shown(str(formats[0] or "")) if formats else ""))
    return tuple(sorted(made, key=lambda one: (one.model_id.casefold(), one.model_id, one.title)))


def _distinct(names: list[str], *more: Sequence[str]) -> list[str]:
    """The names; those that are the same are longer by the first of ``more`` that distinguishes them, or numbered."""
    for longer in more:
        many = Counter(names)
        names = [name + end if many[name] > 1 else name for name, end in zip(names, longer, strict=True)]
    many, before = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        before[name] += 1
        numbered.append(f"{name} [{before[name]}]" if many[name] > 1 else name)
    return numbered


def _prompts(finding: Finding, manifest: Mapping[str, Any]) -> frozenset[Prompts]:
    """What a number depends on besides the model, by config: without a common entry numbers cannot be compared.

    A run that does not state its prompts is never compared.
    """
    declared, chat = experiment_of(finding), manifest["settings"].get("chat")
    is_chat = declared is not None and declared.kind == "chat" and isinstance(chat, dict)
    trials = scoring_in_words(chat) if is_chat else ""
    each = []
    for one in corpora_read(manifest, finding):
        lexicons = one.get("lexicons")
        lists = sorted({str(words) for words in lexicons.values()}) if isinstance(lexicons, dict) else []
        each.append((one["rows"], one["sha256"], tuple(lists), str(one.get("training", "")), trials))
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


# --- scored rows --------------------------------------------------------------------------------------


def _scored_rows(
    runs: Sequence[ComparedRun], columns: Sequence[Column]
) -> tuple[dict[str, dict[str, pd.DataFrame]], list[str]]:
    """Scored rows by study and label, where they are at hand, and sentences that say what is left out.

    Models stand in the order of the runs; texts stand in the rows of the first model of a study that has them.
    """
    found: dict[str, dict[str, pd.DataFrame]] = {}
    left_out = []
    for run in {one.key: one for one in runs}.values():
        try:
            items = run.items()
        except ValueError as error:
            left_out.append(f"Left out of the differences: {error}")
            continue
        mine = [column for column in columns if column.run.key == run.key]
        for column, (study, every) in product(mine, items.items()):
            is_mine = every["model_id"] == column.model_id
            rows = every if is_mine.all() else every[is_mine]
            if not len(rows):
                continue
            if run.commit and (trouble := _trouble(study, rows)):
                left_out.append(
                    f"Left out of the differences: {column.title}: its scored prompts of {shown(study)} are not what "
                    f"an audit writes ({trouble})."
                )
                continue
            if any("text" in one for one in found.get(study, {}).values()):
                rows = rows.drop(columns=[name for name in _HEAVY if name in rows])
            found.setdefault(study, {})[column.label] = rows.assign(model_id=column.label)
    textless = [study for study, models in found.items() if not any("text" in rows for rows in models.values())]
    if textless:
        prompts = f"prompts of {', '.join(textless)} that are installed here"
        left_out.append(
            f"Pairs are left out: no run has {prompts}. Compare runs of the same swapbias without --limit."
        )
    return found, left_out


def _trouble(study: str, rows: pd.DataFrame) -> str:
    """Why nothing that is compared can be made of the rows; blank where it can."""
    try:
        for experiment in load_study(study).experiments:
            part = rows[rows["experiment"] == experiment.name]
            if len(part):
                gap_units(Context(study, "", experiment, "score"), part)
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    return ""
