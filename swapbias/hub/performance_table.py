"""The table of a model card that says how well each group is served, beside how often answers flip with the group."""

from collections.abc import Sequence
from dataclasses import dataclass

from swapbias.findings import Finding
from swapbias.hub.markdown import markdown
from swapbias.measures import DIFFERENCES
from swapbias.report import text
from swapbias.studies import Experiment, load_study

FLIPS = "flip_rate"
EQUALISED_ODDS = "equalised_odds_difference"
_QUANTITIES = (  # title, of each group, difference
    ("flips when the group is swapped", "", FLIPS),
    ("TPR", "tpr", DIFFERENCES["tpr"]),
    ("FPR", "fpr", DIFFERENCES["fpr"]),
    ("equalised odds: larger of both", "", EQUALISED_ODDS),
    ("PPV", "ppv", DIFFERENCES["ppv"]),
    ("called positive: demographic parity", "selection_rate", DIFFERENCES["selection_rate"]),
    ("AUROC", "auroc", DIFFERENCES["auroc"]),
    ("calibration slope", "calibration_slope", DIFFERENCES["calibration_slope"]),
    ("calibration error (ECE)", "ece", ""),
)
_TOLD = (
    "Performance by the patient's own group, in the notes as they were written, beside how often the answer flips "
    "when the words for the patient are swapped. Each value has its 95 % interval {over}. Notes about {two} differ "
    "in more than words, so that a difference of performance may lie in the notes; a flip lies in the model."
)


@dataclass(frozen=True, slots=True)
class PerformanceRow:
    """One quantity of one kind of notes: what each group gets, and the difference; blank where there is none."""

    where: str
    what: str
    groups: tuple[str, str]
    difference: str
    p: str


@dataclass(frozen=True, slots=True)
class PerformanceTable:
    """What one experiment tells: the names of its two groups, what the intervals are over, and the rows."""

    experiment: str
    groups: tuple[str, str]
    over: str
    rows: tuple[PerformanceRow, ...]


def performance_tables(found: Sequence[Finding], study: str) -> tuple[PerformanceTable, ...]:
    """A table for each experiment of the study that tells performance by group; of training notes, the headline's."""
    made = []
    for one in load_study(study).experiments:
        mine = [
            each
            for each in found
            if (each.study, each.experiment, each.score, each.view) == (study, one.name, "score", "")
        ]
        performed = [each for each in mine if each.measure == EQUALISED_ODDS]
        performed = [each for each in performed if each.subset == one.headline_subset] or performed
        if performed:
            made.append(_table(one, mine, performed))
    return tuple(made)


def _table(experiment: Experiment, found: Sequence[Finding], performed: Sequence[Finding]) -> PerformanceTable:
    sides = (experiment.group, experiment.reference_group)
    rows: list[PerformanceRow] = []
    places = list(dict.fromkeys((one.slice_by, one.slice_value, one.subset) for one in performed))
    sliced = [place for place in places if place[0] != "all"]  # by phenotype, never pooled over them
    for place in sliced or places:
        cells = {
            (one.measure, one.contrast if one.contrast in sides else ""): one
            for one in found
            if (one.slice_by, one.slice_value, one.subset) == place
        }
        for title, level, difference in _QUANTITIES:
            both = [cells.get((level, side)) for side in sides]
            apart = cells.get((difference, ""))
            if any(both) or apart:
                where = text.value_name(place[1]) if place[1] else "all notes"
                told = (_value(both[0]), _value(both[1]))
                tested = text.tested(apart.estimate) if apart else ""
                rows.append(PerformanceRow(where, title, told, _value(apart), tested))
    names = (text.group_name(experiment, sides[0]), text.group_name(experiment, sides[1]))
    return PerformanceTable(experiment.name, names, performed[0].inference, tuple(rows))


def _value(one: Finding | None) -> str:
    if one is None:
        return ""
    told = text.interval_of(one)
    return f"{text.value_of(one)} {told}" if told != "–" else text.value_of(one)


def performance_part(tables: Sequence[PerformanceTable]) -> str:
    """The tables in Markdown; blank without one."""
    return "\n\n".join(_part(one) for one in tables)


def _part(table: PerformanceTable) -> str:
    first, second = map(markdown, table.groups)
    lines = [
        markdown(_TOLD.format(over=table.over, two=f"{table.groups[0]} and {table.groups[1]}")),
        "",
        f"| {markdown(table.experiment)} | quantity | {first} | {second} | {first} − {second}, or of all "
        "| p corrected |",
        "|---|---|--:|--:|--:|--:|",
        *(
            f"| {' | '.join(markdown(cell) for cell in (row.where, row.what, *row.groups, row.difference, row.p))} |"
            for row in table.rows
        ),
    ]
    return "\n".join(lines)
