"""The table of levels of a section of the page: means, rates and counts, and what stands beside an answer."""

from collections.abc import Iterator, Sequence

from swapbias.findings import Finding
from swapbias.report.charts import Chart, Row
from swapbias.report.finding_charts import has_several_models
from swapbias.report.finding_names import quantity_name, set_name
from swapbias.report.numbers import format_interval, format_unit_count, format_value
from swapbias.studies import Experiment

_CAPTION = "Over all rows, each with its own 95 % interval where it has one."
_MEASURES = (
    "mean",
    "impact_ratio",
    "ratio_to_best",
    "times_selected",
    "geometric_mean",
    "geometric_ratio",
)


def level_tables(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield the table of levels over all rows, of the score and of reported columns; nothing where there are none.

    Args:
        experiment: the experiment that declares the columns.
        rows: its findings.
    """
    levels = levels_over_all(experiment, rows)
    several_models = has_several_models(rows)
    parts: dict[str, list[Row]] = {}
    for level in levels:
        names = [level.model_id if several_models else "", set_name(level)]
        part = ", ".join(filter(None, names))
        parts.setdefault(part, []).append(_row(level))
    if parts:
        heads = ("value", "95 % interval", "n")
        yield Chart("levels", _CAPTION, heads, parts)


def levels_over_all(experiment: Experiment, rows: Sequence[Finding]) -> list[Finding]:
    """Return the levels over all rows, of the score and of reported columns.

    Args:
        experiment: the experiment that declares the columns.
        rows: its findings.
    """
    if "direction" in experiment.shows.rates:
        return []  # cosines have a table of their own
    scores = ("score", *experiment.shows.reported)
    return [
        row
        for row in rows
        if row.measure in _MEASURES
        and row.slice_by == "all"
        and row.score in scores
        and not row.view
        and not row.primary
    ]


def _row(level: Finding) -> Row:
    """Return the row of a level: its value in its own unit, its interval and the number of its units."""
    texts = (
        format_value(level, in_own_unit=True),
        format_interval(level, in_own_unit=True),
        format_unit_count(level.estimate),
    )
    return Row(quantity_name(level), [], tuple((text, None) for text in texts))
