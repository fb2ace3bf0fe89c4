"""Fill the tables of a study's paper: printed numbers, and beside them those of runs."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swapbias.findings import Finding, terms
from swapbias.report.paper_differences import state_differences, with_differences
from swapbias.studies import load_corpus, paper, paper_models, published as paper_numbers

NOTHING = "–"
"""A cell without a number."""
_DIMENSIONS = {
    "model": "model", "experiment": "experiment", "subset": "set", "contrast": "contrast", "slice_value": "slice",
}  # fmt: skip
_HIGHER = re.compile(r"(.+) higher\b")  # the note of a printed rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A filled table."""

    study: str
    """The name of its study."""
    name: str
    """Its name in the study."""
    title: str
    """What it shows."""
    source: str
    """Where the paper prints it."""
    notes: tuple[str, ...] = ()
    """Sentences below it."""
    heads: tuple[tuple[str, str], ...]
    """Of each column the group that it belongs to, blank for none, and its heading."""
    lines: tuple[tuple[str, ...], ...]
    """The cells of each line."""
    text_columns: int
    """How many columns at the left are no numbers."""

    @property
    def file_stem(self) -> str:
        """The name of its files without their endings."""
        return f"{self.study}-{self.name}"

    @property
    def flat_heads(self) -> list[str]:
        """Its headings in one line."""
        return [f"{group}: {heading}" if group else heading for group, heading in self.heads]


@dataclass(frozen=True, slots=True)
class _Fact:
    """A printed number, or a finding of a run."""

    key: Mapping[str, str]
    """Experiment, subset, measure, contrast, slice, value of the slice, and column of scores."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """The texts of a printed number by quantity; none of a finding."""
    finding: Finding | None = None
    """The finding; None of a printed number."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a model, printed or of a run."""

    title: str
    label: str
    facts: Sequence[_Fact]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A fact in a cell of a table."""

    line: tuple[str, ...]
    column: tuple[str, ...]
    cell: int
    fact: _Fact


def models_in(
    findings: Sequence[Finding],
    items: Mapping[str, Any],
    study: str,
    label: str,
    pins: Sequence[Mapping[str, Any]] = (),
) -> list[paper.PaperRun]:
    """Return the models of a run, for the tables of a study's paper.

    Args:
        findings: the findings of the run.
        items: scored rows by study; those of other studies are not read.
        study: the name of the study.
        label: what the numbers of the run are called.
        pins: what pins each model down in the manifest of the run.
    """
    pin_of = {str(pin.get("model_id")): pin for pin in pins}
    by_model: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.study == study:
            by_model.setdefault(finding.model_id, []).append(finding)
    scored = items.get(study) if by_model else None
    models = []
    for model_id, of_model in by_model.items():
        paper_model = paper_models.find_model(study, model_id)
        models.append(
            paper.PaperRun(
                title=paper_model.title if paper_model else model_id,
                label=label,
                model_id=model_id,
                findings=of_model,
                rows=None if scored is None else scored[scored["model_id"] == model_id],
                pin=pin_of.get(model_id, {}),
            )
        )
    return models


def tables_of_page(
    manifest: Mapping[str, Any],
    findings: Sequence[Finding],
    items: Mapping[str, Any],
    label: str = paper.THIS_RUN,
) -> list[PaperTable]:
    """Return the tables of papers for the page of a run.

    Args:
        manifest: the manifest of the run.
        findings: the findings of the run.
        items: scored rows by study.
        label: what the numbers of the run are called.
    """
    filled = []
    for study in dict.fromkeys(finding.study for finding in findings):
        if paper.load_paper(study).tables:
            models = models_in(findings, items, study, label, manifest.get("models", ()))
            filled += fill_tables(study, with_differences(manifest, models))
    return filled


def fill_tables(study: str, runs: Sequence[paper.PaperRun]) -> list[PaperTable]:
    """Return the tables of a study's paper in which a model of a run has a number.

    Args:
        study: the name of the study.
        runs: the models of runs, with their findings of this study.

    Raises:
        StudyError: ``paper.toml`` of the study is faulty.
    """
    filled = []
    titles = [model.title for model in paper_models.list_models(study)]
    numbers_of_all = [*_printed_numbers(study), *map(_numbers_of_run, runs)]
    ordered = sorted(numbers_of_all, key=lambda numbers: _place_of(titles, numbers.title))
    calculated = load_corpus(study).calculated_tables
    for declared in paper.load_paper(study).tables:
        if declared.name in calculated:
            heads, lines, notes = calculated[declared.name](runs)
            table = _finish(study, declared, [("", head) for head in heads], lines, 2)
            table = replace(table, notes=(*table.notes, *notes))
            is_filled = bool(lines)
        else:
            table, is_filled = _fill(study, declared, ordered, runs)
        if is_filled:
            filled.append(replace(table, notes=(*table.notes, *state_differences(declared, runs))))
    return filled


def _place_of(values: Sequence[str], value: str) -> int:
    """Return the place of a value in a list; behind all where it is not in it."""
    return values.index(value) if value in values else len(values)


def _printed_numbers(study: str) -> list[_Numbers]:
    """Return what is published of each model of the paper, printed numbers apart from recomputed ones."""
    titles = {model.model: model.title for model in paper_models.list_models(study)}
    facts: dict[tuple[str, str], dict[tuple[str, ...], dict[str, str]]] = {}
    for row in paper_numbers.published_rows(study):
        label = (
            paper_numbers.RECOMPUTED
            if row.get("origin") == paper_numbers.RECOMPUTED
            else paper_numbers.PRINTED
        )
        of_model = facts.setdefault((titles[row["model"]], label), {})
        texts = of_model.setdefault(tuple(row[name] for name in paper_numbers.KEY), {})
        for quantity in paper_numbers.QUANTITIES:
            texts[quantity] = texts.get(quantity) or row[quantity]
        higher = _HIGHER.match(row["note"])
        texts["higher_group"] = texts.get("higher_group") or (higher[1] if higher else "")
    numbers = []
    for (title, label), by_key in facts.items():
        printed = [
            _Fact({**dict(zip(paper_numbers.KEY, key, strict=True)), "score": ""}, texts)
            for key, texts in by_key.items()
        ]
        numbers.append(_Numbers(title, label, printed))
    return numbers


def _numbers_of_run(run: paper.PaperRun) -> _Numbers:
    """Return the findings of a model, those by the paper's own statistic first."""
    ordered = sorted(run.findings, key=lambda finding: finding.view != terms.AS_PUBLISHED)
    facts = [
        _Fact(
            {**dict(zip(paper_numbers.KEY, finding.key(), strict=True)), "score": finding.score},
            {},
            finding,
        )
        for finding in ordered
    ]
    return _Numbers(run.title, run.label, facts)


def _fill(
    study: str,
    declared: paper.DeclaredTable,
    numbers: Sequence[_Numbers],
    runs: Sequence[paper.PaperRun],
) -> tuple[PaperTable, bool]:
    """Return a table, and whether a run has a number in it."""
    rows = declared.rows
    if "model" not in (*rows, *declared.columns):
        rows = ("model", *rows)
    placed_of = [(part, [*_placed(declared, rows, part)]) for part in numbers]
    family = len({part.title for part, placed in placed_of if placed})
    cells: dict[tuple[tuple[str, ...], tuple[str, ...], int], str] = {}
    labels_of_runs = {(run.title, run.label) for run in runs}
    is_filled = False
    for part, placed in placed_of:
        for fact in placed:
            position = (fact.line, fact.column, fact.cell)
            text = _text(declared, declared.cells[fact.cell], fact.fact, family)
            is_of_run = (part.title, part.label) in labels_of_runs
            if cells.get(position, NOTHING) == NOTHING and (is_of_run or text != NOTHING):
                cells[position] = text
            is_filled = is_filled or is_of_run
    lines = _in_order(declared, rows, [line for line, _, _ in cells])
    columns = _in_order(declared, declared.columns, [column for _, column, _ in cells])
    heads = [("", declared.headings.get(name, _DIMENSIONS[name])) for name in rows]
    if "model" in rows:
        heads.append(("", "numbers"))
    n_text = len(heads)
    for column in columns:
        group = ", ".join(filter(None, _words(declared, declared.columns, column)))
        heads += [(group, cell.heading) for cell in declared.cells]
    body = []
    for line in lines:
        texts = [*_words(declared, rows, line)]
        for column in columns:
            texts += [
                cells.get((line, column, index), NOTHING) for index in range(len(declared.cells))
            ]
        body.append(texts)
    return _finish(study, declared, heads, body, n_text), is_filled


def _finish(
    study: str,
    declared: paper.DeclaredTable,
    heads: Sequence[tuple[str, str]],
    lines: Sequence[Sequence[str]],
    n_text: int,
) -> PaperTable:
    """Return a table with what stands below it."""
    notes = [declared.note] if declared.note else []
    notes.append(f"Printed: {declared.source}.")
    if any(
        paper_numbers.RECOMPUTED in cell
        for cell in (*(part for head in heads for part in head), *_all(lines))
    ):
        notes.append("Recomputed: from what the authors released, not read in the paper.")
    if any(cell == NOTHING for cell in _all(lines)):
        notes.append(f"{NOTHING}: no number.")
    return PaperTable(
        study=study,
        name=declared.name,
        title=declared.title,
        source=declared.source,
        notes=tuple(notes),
        heads=tuple(heads),
        lines=tuple(tuple(line) for line in lines),
        text_columns=n_text,
    )


def _all(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield every cell."""
    for line in lines:
        yield from line


def _placed(
    declared: paper.DeclaredTable, rows: Sequence[str], numbers: _Numbers
) -> Iterator[_Placed]:
    """Yield the facts that stand in a table, each with its place."""
    is_of_paper = numbers.label in (paper_numbers.PRINTED, paper_numbers.RECOMPUTED)
    if is_of_paper and numbers.title not in declared.order.get("model", (numbers.title,)):
        return
    for fact in numbers.facts:
        if not _is_ordered(declared, (*rows, *declared.columns), fact):
            continue
        for index, cell in enumerate(declared.cells):
            if _takes(cell, fact):
                line = _values(rows, numbers, fact)
                yield _Placed(line, _values(declared.columns, numbers, fact), index, fact)


def _is_ordered(declared: paper.DeclaredTable, dimensions: Sequence[str], fact: _Fact) -> bool:
    """Tell whether the values of a fact stand among those that a table lists."""
    return all(
        fact.key[name] in values
        for name, values in declared.order.items()
        if name != "model" and name in dimensions
    )


def _takes(cell: paper.DeclaredCell, fact: _Fact) -> bool:
    """Tell whether a cell takes a number."""
    key = fact.key
    wanted = {
        "experiment": cell.experiment or None,
        "measure": (cell.measure,),
        "subset": cell.subset,
        "contrast": cell.contrast,
        "slice_by": cell.slice_by,
        "slice_value": cell.slice_value,
    }
    if any(values is not None and key[name] not in values for name, values in wanted.items()):
        return False
    return not key["score"] or key["score"] == cell.score


def _values(dimensions: Sequence[str], numbers: _Numbers, fact: _Fact) -> tuple[str, ...]:
    """Return the values of a fact in some dimensions; of a model its title and what its numbers are called."""
    values: list[str] = []
    for name in dimensions:
        values.append(numbers.title if name == "model" else fact.key[name])
    return (*values, numbers.label) if "model" in dimensions else tuple(values)


def _in_order(
    declared: paper.DeclaredTable, dimensions: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Return lines or columns in the order of the table, else as they appear; numbers of a model last."""
    distinct = [*dict.fromkeys(keys)]
    by_dimension = {str(name): values for name, values in declared.order.items()}
    orders: list[dict[str, int]] = []
    for index in range(len(distinct[0]) if distinct else 0):
        name = dimensions[index] if index < len(dimensions) else ""
        values = [*by_dimension.get(name, ()), *(key[index] for key in distinct)]
        orders.append({value: index for index, value in enumerate(dict.fromkeys(values))})
    return sorted(
        distinct,
        key=lambda key: [order[value] for order, value in zip(orders, key, strict=True)],
    )


def _words(
    declared: paper.DeclaredTable, dimensions: Sequence[str], values: Sequence[str]
) -> Iterator[str]:
    """Yield the paper's words for values of dimensions; behind them what the numbers of a model are called."""
    for index, value in enumerate(values):
        yield declared.word(dimensions[index], value) if index < len(dimensions) else value


def _text(declared: paper.DeclaredTable, cell: paper.DeclaredCell, fact: _Fact, family: int) -> str:
    """Write a cell."""
    if declared.correction == "none":
        family = 1
    if cell.quantity == "stars":
        p_text = fact.printed.get("p_value", "")
        has_p = bool(p_text) or (fact.finding and not math.isnan(fact.finding.estimate.p_value))
        return _stars(declared, fact, family) if has_p else NOTHING
    text = _of_finding(cell, fact.finding, family) if fact.finding else _of_paper(cell, fact)
    if cell.quantity == "higher_group":
        return declared.word("higher_group", text) or NOTHING
    if not text:
        return NOTHING
    if cell.stars:
        text += _stars(declared, fact, family)
    group = fact.finding.higher_group if fact.finding else fact.printed.get("higher_group", "")
    if cell.mark and group:
        text += f" {declared.word('higher_group', group)}"
    return text


def _of_paper(cell: paper.DeclaredCell, fact: _Fact) -> str:
    """Return the text of a printed number; blank where there is none."""
    return fact.printed.get(cell.quantity, "")


def _of_finding(cell: paper.DeclaredCell, finding: Finding, family: int) -> str:
    """Write a number of a finding; blank where there is none."""
    estimate = finding.estimate
    if cell.quantity == "higher_group":
        return finding.higher_group
    if cell.quantity == "n":
        return str(estimate.n)
    if cell.quantity == "interval":
        ends = [
            _rounded(end * cell.scale, cell.decimals) for end in (estimate.ci_low, estimate.ci_high)
        ]
        return f"[{', '.join(ends)}]" if all(ends) else ""
    if cell.quantity == "p_value":
        corrected = estimate.p_value * family
        return _rounded(1.0 if corrected > 1 else corrected, cell.decimals)
    if cell.quantity == "effect_size":
        return _rounded(estimate.effect_size, cell.decimals)
    return _rounded(estimate.value * cell.scale, cell.decimals)


def _rounded(number: float, decimals: int) -> str:
    """Write a number with its decimals; blank for NaN, and no minus before zero."""
    if not math.isfinite(number):
        return ""
    text = f"{number:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _stars(declared: paper.DeclaredTable, fact: _Fact, family: int) -> str:
    """Return the stars of a p-value: of the smallest level that it lies below; of a printed bound its own."""
    if fact.finding:
        p_value = fact.finding.estimate.p_value * family
        reached = [mark for level, mark in declared.stars if p_value < level]
    else:
        text = fact.printed.get("p_value", "")
        number = printed_number(text)
        is_bound = text.startswith("<")
        reached = [
            mark
            for level, mark in declared.stars
            if number < level or (is_bound and number <= level)
        ]
    return reached[-1] if reached else ""


def printed_number(text: str) -> float:
    """Read a printed number, also one that is printed as a bound; NaN where there is none.

    >>> printed_number("<0.01"), printed_number("2.7e-5")
    (0.01, 2.7e-05)

    Args:
        text: the number as printed.
    """
    digits = text.lstrip("<>=≤≥ ")
    return float(digits) if digits else math.nan
