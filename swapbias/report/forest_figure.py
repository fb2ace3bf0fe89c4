"""Forest plots for papers: values on one scale with their intervals, a line each."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swapbias.findings import Finding, experiment_of
from swapbias.measures import MEASURES, is_comparison
from swapbias.report.figure_files import LOOKS, STYLE, figure_file
from swapbias.report.figure_text import add_legend, wrap_text
from swapbias.report.finding_names import (
    group_index,
    group_name,
    join_groups,
    plain_words,
    quantity_name,
    row_name,
    safe_line,
    set_name,
    value_name,
)
from swapbias.report.meanings import levels_unit
from swapbias.report.numbers import clipped_interval, finding_format

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RESULTS = "results"  # name of the plot of primary gaps
_WIDTH = 6.9  # inches of a figure
# Points for the names of lines: with their ticks a third of the figure.
_LABELS = 72 * _WIDTH / 3 - 20
_SCALE = 72 * _WIDTH / 2  # points for the name of the scale
_LINE = 0.145  # inches of a line of text
_DOT = 0.08  # inches from a value to the next in one line
_LEAST = 0.22  # inches of a line with one value


def draw_figures(rows: Sequence[Finding], file_format: str) -> dict[str, bytes]:
    """Return forest plots of primary gaps, and of means and gaps by slice, by name.

    Args:
        rows: findings of a run; the same findings give the same bytes.
        file_format: one of ``FORMATS``.
    """
    from matplotlib import rc_context

    figures = {}
    with rc_context(dict(STYLE)):
        for name, drawn in _plots(rows).items():
            values = {
                round(row.estimate.value, 9) for row in drawn if not math.isnan(row.estimate.value)
            }
            fewest = 1 if name == _RESULTS else 2
            if len(values) < fewest:
                continue
            figures[name] = figure_file(forest(drawn), file_format, dots_per_inch=300)
    return figures


def _plots(rows: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the findings of each plot, by its name: the primary gaps first, then those by slice."""
    plots: dict[str, list[Finding]] = {_RESULTS: []}
    several_models = len({row.model_id for row in rows}) > 1
    for row in rows:
        is_gap = MEASURES[row.measure].gap_span > 0
        if row.primary and is_gap and row.scale.in_points:
            plots[_RESULTS].append(row)
        is_slice = row.slice_by != "all" and row.score == "score" and not row.view
        if is_slice and (is_gap or _is_level(row)):
            kind = "gap" if is_gap else "levels"
            names = [row.study, row.experiment, row.slice_by, kind]
            if several_models:
                names.append(safe_line(row.model_id))
            _add(plots, "-".join(names), row)
    return plots


def _add(plots: dict[str, list[Finding]], title: str, row: Finding) -> None:
    """Add a finding to the plot of its name, or of its name and unit where that has another unit."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", title)
    drawn = plots.setdefault(name, [])
    unit = finding_format(row).unit
    if drawn and finding_format(drawn[0]).unit != unit:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{title}-{unit}")
        drawn = plots.setdefault(name, [])
    drawn.append(row)


def _is_level(finding: Finding) -> bool:
    """Return whether a finding is the mean of a group that its experiment shows."""
    experiment = experiment_of(finding)
    if finding.measure != "mean" or experiment is None:
        return False
    return finding.contrast in experiment.shows.levels


def forest(rows: Sequence[Finding]) -> "Figure":
    """Return values on one scale with their 95 % intervals; the band is the margin.

    Names of lines take at most a third of the width, in several lines of text where they are long.

    Args:
        rows: findings of one unit; each group has a colour and a shape.
    """
    from matplotlib.figure import Figure

    lines = {
        wrap_text(name, _LABELS): findings for name, findings in _findings_by_line(rows).items()
    }
    heights = [_height(name, findings) for name, findings in lines.items()]
    scale = wrap_text(_scale_name(rows), _SCALE)
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.6), layout="constrained")
    axis = figure.add_subplot()
    margins = [
        row.margin * finding_format(row).factor for row in rows if not math.isnan(row.margin)
    ]
    if margins:
        axis.axvspan(-max(margins), max(margins), color="#dfe7ef", zorder=0)
    labels = {""}
    middles = []
    top = 0.0
    for height, findings in zip(heights, lines.values(), strict=True):
        middles.append(top + height / 2)
        first = middles[-1] - _DOT * (len(findings) - 1) / 2
        for index, finding in enumerate(findings):
            _draw(axis, finding, first + _DOT * index, labels)
        top += height
    axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
    axis.set_yticks(middles, list(lines))
    axis.set_ylim(top, 0)
    axis.set_xlabel(scale)
    lines_below = scale.count("\n")
    if len(labels) > 1:
        lines_below += add_legend(figure, *axis.get_legend_handles_labels())
    figure.set_figheight(figure.get_figheight() + _LINE * lines_below)
    return figure


def _height(name: str, findings: Sequence[Finding]) -> float:
    """Return the inches of a line with its name and values."""
    of_text = _LINE * (name.count("\n") + 1) + 0.07
    return max(_LEAST, of_text, _DOT * len(findings) + 0.08)


def _scale_name(rows: Sequence[Finding]) -> str:
    """Return what a scale measures and in which unit: ``women minus men, points``."""
    unit = finding_format(rows[0]).unit
    gaps = [row for row in rows if MEASURES[row.measure].gap_span]
    if not gaps:
        measured = f"mean {levels_unit(rows[0].scale)}"
        return measured if unit in ("", rows[0].scale.name) else f"{measured}, {unit}"
    subtractions = {join_groups(gap) for gap in gaps}
    subtracted = subtractions.pop() if len(subtractions) == 1 else "the first minus the second"
    return ", ".join(filter(None, (subtracted, unit)))


def _findings_by_line(rows: Sequence[Finding]) -> Mapping[str, list[Finding]]:
    """Return the findings of each line by its name, which says what is subtracted where that differs."""
    gaps = [row for row in rows if MEASURES[row.measure].gap_span]
    several_groups = len({join_groups(gap) for gap in gaps}) > 1
    quantities = {quantity_name(gap) for gap in gaps if not _is_plain(gap)}
    lines: dict[str, list[Finding]] = {}
    for row in rows:
        names = [_line_name(row)]
        if row in gaps and several_groups and join_groups(row) not in names[0]:
            names.append(join_groups(row))
        if row in gaps and not _is_plain(row) and len(quantities) > 1:
            names.append(quantity_name(row))
        lines.setdefault(", ".join(filter(None, names)), []).append(row)
    return lines


def _is_plain(gap: Finding) -> bool:
    """Return whether a gap is a difference of scores of two groups, or of two such gaps."""
    return bool(gap.group or is_comparison(gap.measure) or gap.measure == "gap_difference")


def _line_name(finding: Finding) -> str:
    """Return the name of a finding's line in a forest plot."""
    names = [set_name(finding) or plain_words(finding.subset), value_name(finding.slice_value)]
    if finding.primary:
        question = f"{finding.study}:{finding.experiment}"
        names = [question, row_name(finding), safe_line(finding.model_id)]
    return ", ".join(filter(None, names))


def _draw(axis: "Axes", finding: Finding, y: float, labels: set[str]) -> None:
    """Draw a value and its interval; a name that is in ``labels`` is in the legend already."""
    name = ""
    colour = "#222222"
    marker = "o"
    experiment = experiment_of(finding)
    if finding.measure == "mean" and experiment:
        name = group_name(experiment, finding.contrast)
        colour, marker = LOOKS[group_index(experiment, finding.contrast) % len(LOOKS)]
    written = finding_format(finding)
    low, high = clipped_interval(finding)
    axis.hlines(y, written.scaled(low), written.scaled(high), color=colour, linewidth=1.2)
    label = f"_{name}" if name in labels else name
    value = written.scaled(finding.estimate.value)
    axis.plot([value], [y], marker, color=colour, markersize=4, label=label)
    labels.add(name)
