"""Read the tables of a study's paper as ``paper.toml`` in the folder of its corpus declares them.

A table has lines and columns of cells. A line stands for one value of each dimension of ``rows``. A cell names the
numbers that it takes: experiment, measure, contrast, subset, slice, and which quantity of them. Dimensions that a
cell does not name are those of its line. ``model`` is a dimension of every table, also where ``rows`` leaves it out.
The paper's numbers come from ``published.csv``, those of a run from its findings: one declaration makes both.

A table without cells is calculated by a function of the builder (``Corpus.calculated_tables``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from swapbias.errors import StudyError, did_you_mean, listed, quoted
from swapbias.measures import MEASURES
from swapbias.studies.catalogue import load_corpus
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.declared import (
    Declaration,
    Fault,
    line_of_fault,
    parse_declaration,
    unknown_names,
    validate,
)
from swapbias.studies.declared_values import EXPECTED, Number, Switch, Text, Texts
from swapbias.studies.experiment import Declared, Study
from swapbias.studies.paper_figures_declared import PaperFigure
from swapbias.studies.published import published_rows
from swapbias.studies.toml_lines import KeyPath

PAPER_FILE = "paper.toml"
THIS_RUN = "this run"
"""The name of a run's numbers where there is no other run."""
RELEASED_OUTPUTS = "released outputs"
"""The name of the numbers of a run of what the authors released."""
Dimension = Literal["model", "experiment", "subset", "contrast", "slice_value"]
Quantity = Literal["value", "p_value", "effect_size", "stars", "higher_group", "n", "interval"]
_NAME = r"^[a-z0-9]+(_[a-z0-9]+)*$"
_Threshold = tuple[Number, Text]


class DeclaredCell(Declared):
    """A column of a table: which numbers stand in it, and how they are written."""

    heading: Text
    """The paper's heading of the column."""
    experiment: Texts = ()
    """The experiment of the study; several where ``experiment`` is a dimension of the table."""
    measure: Text
    """The measure."""
    subset: Texts | None = None
    """The part of the rows; left out: any."""
    contrast: Texts | None = None
    """The difference, or the group of a mean; left out: any."""
    slice_by: Texts = ("all",)
    """``all``, or the slice; several where a table has both."""
    slice_value: Texts | None = None
    """The value of the slice; left out: any."""
    score: Text = "score"
    """The column of scores that findings of a run are of."""
    quantity: Quantity = "value"
    """What of the number is written."""
    decimals: Annotated[int, Field(ge=0, le=12, strict=True)] = 2
    """The decimals of a number of a run; the paper's are as printed."""
    scale: Number = 1.0
    """What a number of a run is multiplied by: 100 where the paper prints percent."""
    stars: Switch = False
    """Whether the stars of its p-value stand behind the number."""
    mark: Switch = False
    """Whether the group with the higher rate stands behind the number."""


class DeclaredTable(Declared):
    """A table of the paper."""

    name: Annotated[
        str,
        Field(pattern=_NAME, json_schema_extra={EXPECTED: "small letters, digits and _ between"}),
    ]
    """Its name, in names of files."""
    title: Text
    """What it shows, in a line."""
    source: Text
    """Where the paper prints it."""
    rows: Annotated[tuple[Dimension, ...], Field(min_length=1)] = ("model",)
    """The dimensions that make its lines."""
    columns: tuple[Dimension, ...] = ()
    """The dimensions that make groups of columns."""
    order: Mapping[Dimension, tuple[Text, ...]] = {}
    """The values of a dimension in order; of a dimension that stands here others are left out."""
    named: Mapping[Text, Mapping[Text, Text]] = {}
    """The paper's words: of a dimension or of ``higher_group``, by value."""
    headings: Mapping[Dimension, Text] = {}
    """The paper's words for the dimensions themselves."""
    note: Text = ""
    """What stands below it."""
    stars: tuple[_Threshold, ...] = ()
    """Marks of p-values by the level that they lie below: ``[[0.05, "*"], [0.01, "**"]]``."""
    correction: Literal["none", "bonferroni"] = "none"
    """How the p-values of runs are corrected: by the number of models of the table, or not."""
    cells: tuple[DeclaredCell, ...] = ()
    """Its columns; none where a function of the builder calculates it."""

    def word(self, dimension: str, value: str) -> str:
        """Give what the paper calls a value of a dimension.

        Args:
            dimension: the dimension of the table.
            value: the value as findings have it.
        """
        return self.named.get(dimension, {}).get(value, value)


class DeclaredPaper(Declared):
    """The tables and figures of a paper."""

    tables: tuple[DeclaredTable, ...] = ()
    """Its tables in order; one may begin ``like`` an earlier one."""
    figures: tuple[PaperFigure, ...] = ()
    """Its figures in order; one may begin ``like`` an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """A model of a run, as a line or column of a paper's table."""

    title: str
    """What the paper calls the model; the model's own name where it has none."""
    label: str
    """What its numbers are called: ``this run``, or the name of the run."""
    model_id: str
    """The model's name in the run."""
    findings: Sequence[Any] = field(default=(), repr=False)
    """The findings of this model in this study."""
    rows: Any = field(default=None, repr=False)
    """The scored rows of this model in this study; None where the run has none."""
    explanations: Sequence[Any] = field(default=(), repr=False)
    """The words that explain notes of this model in this study (``findings.explained_notes.Explanation``)."""
    pin: Mapping[str, Any] = field(default_factory=dict)
    """What pins the model down in the manifest of the run, with the accuracy of a model of ``swapbias train``."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """By experiment what differs between its run and the paper, in a sentence."""


def read_paper(study: str) -> Declaration | None:
    """Parse ``paper.toml`` of a corpus; None where it has none.

    Args:
        study: the name of the study, and of its corpus.

    Raises:
        StudyError: it is no valid TOML.
    """
    path = corpus_dir(study) / PAPER_FILE
    if not path.is_file():
        return None
    try:
        return parse_declaration(f"{study}/{PAPER_FILE}", path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StudyError(str(error)) from None


def load_paper(study_name: str) -> DeclaredPaper:
    """Give what ``paper.toml`` of a study declares; nothing where it has none.

    Args:
        study_name: the name of the study.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    corpus = load_corpus(study_name)
    declaration = read_paper(study_name)
    if declaration is None or corpus.study is None:
        return DeclaredPaper()
    return check_paper(declaration, corpus.study, [*corpus.calculated_tables])


def check_paper(
    declaration: Declaration, study: Study, calculated: Sequence[str] = ()
) -> DeclaredPaper:
    """Check a declaration against its study.

    Args:
        declaration: the parsed ``paper.toml``.
        study: the study that it is of.
        calculated: the names of tables that the builder calculates.

    Raises:
        StudyError: every fault, a line each with file and line.
    """
    paper, faults = validate(declaration, DeclaredPaper, declaration.values)
    if paper is not None:
        faults = sorted(_faults(declaration, paper, study, calculated), key=line_of_fault)
    if paper is None or faults:
        sentences = "\n".join(dict.fromkeys(fault.sentence for fault in faults))
        raise StudyError(sentences)
    return paper


def _faults(
    declaration: Declaration, paper: DeclaredPaper, study: Study, calculated: Sequence[str]
) -> Iterator[Fault]:
    """Find tables and cells that do not fit each other, or the study."""
    known = _known_names(study)
    names: set[str] = set()
    for number, table in enumerate(paper.tables):
        key_path: KeyPath = ("tables", number)
        if table.name in names:
            sentence = f"the name {quoted(table.name)} appears twice. Change one."
            yield declaration.fault((*key_path, "name"), sentence)
        names.add(table.name)
        yield from _table_faults(declaration, key_path, table, calculated)
        for place, cell in enumerate(table.cells):
            yield from _cell_faults(declaration, (*key_path, "cells", place), cell, known)
            yield from _ambiguous_cell_faults(declaration, (*key_path, "cells", place), cell, table)
    for number, figure in enumerate(paper.figures):
        key = ("figures", number, "experiment")
        for fault in unknown_names(key, (figure.experiment,), known["experiment"], "experiment"):
            yield declaration.fault(*fault)
    for name in calculated:
        if name not in names:
            near = did_you_mean(name, [*names])
            sentence = f"the builder calculates {quoted(name)}, and no table is called so.{near or ' Add it.'}"
            yield declaration.fault((), sentence)


def _known_names(study: Study) -> dict[str, list[str]]:
    """Give the experiments, measures and slices that a study or its published numbers have."""
    published = published_rows(study.name)
    slices = [entry.name for part in study.experiments for entry in part.shows.slices]
    names = {
        "experiment": [experiment.name for experiment in study.experiments],
        "measure": [*MEASURES],
        "slice_by": ["all", *slices],
    }
    return {
        key: [*dict.fromkeys((*own, *(row[key] for row in published)))]
        for key, own in names.items()
    }


def _table_faults(
    declaration: Declaration, key_path: KeyPath, table: DeclaredTable, calculated: Sequence[str]
) -> Iterator[Fault]:
    """Find dimensions that stand twice, stars without levels, and tables that nothing fills."""
    dimensions = [*table.rows, *table.columns]
    repeated = [name for name in dimensions if dimensions.count(name) > 1]
    if repeated:
        sentence = f"the dimension {repeated[0]} appears twice in rows and columns. Drop one."
        yield declaration.fault((*key_path, "columns"), sentence)
    is_calculated = table.name in calculated
    if table.cells and is_calculated:
        sentence = "cells are declared, and the builder calculates the table. Drop one of them."
        yield declaration.fault((*key_path, "cells"), sentence)
    if not table.cells and not is_calculated:
        sentence = "it has no cells, and the builder does not calculate it. Add [[tables.cells]]."
        yield declaration.fault((*key_path, "name"), sentence)
    needs_stars = any(cell.stars or cell.quantity == "stars" for cell in table.cells)
    if needs_stars and not table.stars:
        sentence = 'cells have stars, and stars of the table is missing. Add stars = [[0.05, "*"]].'
        yield declaration.fault(key_path, sentence)
    levels = [level for level, _ in table.stars]
    if levels != sorted(levels, reverse=True):
        sentence = "stars are not in order from the largest level to the smallest. Sort them."
        yield declaration.fault((*key_path, "stars"), sentence)
    headings = [cell.heading for cell in table.cells]
    for heading in dict.fromkeys(headings):
        if headings.count(heading) > 1:
            sentence = f"the heading {quoted(heading)} appears twice. Change one."
            yield declaration.fault((*key_path, "cells", headings.index(heading)), sentence)


def _cell_faults(
    declaration: Declaration,
    key_path: KeyPath,
    cell: DeclaredCell,
    known: Mapping[str, Sequence[str]],
) -> Iterator[Fault]:
    """Find names in a cell that neither the study nor its published numbers have."""
    names = {
        "experiment": cell.experiment,
        "measure": (cell.measure,),
        "slice_by": cell.slice_by,
    }
    for key, values in names.items():
        thing = "slice" if key == "slice_by" else key
        for fault in unknown_names((*key_path, key), values, known[key], thing):
            yield declaration.fault(*fault)


def _ambiguous_cell_faults(
    declaration: Declaration, key_path: KeyPath, cell: DeclaredCell, table: DeclaredTable
) -> Iterator[Fault]:
    """Find several values of a dimension that a cell cannot tell apart, for no line or column is made of them."""
    dimensions = {*table.rows, *table.columns}
    values = {"experiment": cell.experiment, "subset": cell.subset, "contrast": cell.contrast}
    for key, names in values.items():
        if names and len(names) > 1 and key not in dimensions:
            sentence = (
                f"{key} names {listed(names)}, and it is in neither rows nor columns. Name one."
            )
            yield declaration.fault((*key_path, key), sentence)
    if len(cell.slice_by) > 1 and "slice_value" not in dimensions:
        sentence = (
            "slice_by names several, and slice_value is in neither rows nor columns. Name one."
        )
        yield declaration.fault((*key_path, "slice_by"), sentence)
