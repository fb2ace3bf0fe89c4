"""Draw the figures of papers as ``paper.toml`` declares them, of the models of runs."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from swapbias.report.explanation_figure import draw_explanation
from swapbias.report.figure_files import LOOKS, STYLE, figure_file
from swapbias.report.figure_text import add_legend, wrap_text
from swapbias.report.finding_names import safe_line
from swapbias.report.heat_map_figure import draw_heat_map
from swapbias.studies import corpus_dir, paper, paper_figures_declared as declared_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_MEASURED = "not measured"
"""What stands in a panel without values."""
_TICK = 80  # points for the name of a model below its bars
_FEWEST = 3  # points that have a correlation
_Draw = Callable[[str, declared_figures.PaperFigure, Sequence[paper.PaperRun]], "Figure | None"]


def draw_paper_figures(
    declared: Sequence[declared_figures.PaperFigure],
    study: str,
    models: Sequence[paper.PaperRun],
    file_format: str,
) -> tuple[dict[str, bytes], list[str]]:
    """Return figures by name, and a sentence for each that the runs lack something for.

    Args:
        declared: the figures of the paper.
        study: the name of the study.
        models: the models of runs; the same give the same bytes.
        file_format: one of ``FORMATS``.
    """
    from matplotlib import rc_context

    drawn = {}
    left_out = []
    with rc_context(dict(STYLE)):
        for entry in declared:
            figure = draw_figure(entry, study, models)
            if figure is None:
                left_out.append(
                    f"Left out: {entry.name} ({entry.source}), which needs {entry.needs}."
                )
                continue
            drawn[f"{study}-{entry.name}"] = figure_file(figure, file_format, dots_per_inch=200)
    return drawn, left_out


def draw_figure(
    entry: declared_figures.PaperFigure, study: str, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Return a figure; None where the models lack what it needs.

    Args:
        entry: the figure of the paper.
        study: the name of the study.
        models: the models of runs.
    """
    kinds: Mapping[str, _Draw] = {
        "boxes": _boxes,
        "scatter": _scatter,
        "sorted": _sorted,
        "shares": _shares,
        "bars": _bars,
        "explanation": draw_explanation,
        "heat_map": draw_heat_map,
    }
    return kinds[entry.kind](study, entry, models)


def _rows(entry: declared_figures.PaperFigure, model: paper.PaperRun, experiment: str = "") -> Any:
    """Return the scored rows of a figure's experiment in its groups, without rewordings and missing scores."""
    rows = model.rows
    if rows is None:
        return None
    rows = rows[(rows["experiment"] == (experiment or entry.experiment)) & rows["score"].notna()]
    if "wording" in rows:
        rows = rows[rows["wording"].fillna("").astype(str) == ""]
    rows = rows[rows["group"].isin([*entry.groups])]
    return rows if len(rows) else None


def _measured(
    entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> list[tuple[str, Any]]:
    """Return the title and the rows of each model that has rows of a figure."""
    several_labels = len({model.label for model in models}) > 1
    measured = []
    for model in models:
        rows = _rows(entry, model)
        if rows is not None:
            title = safe_line(model.title, 40)
            measured.append((f"{title} ({model.label})" if several_labels else title, rows))
    return measured


def _panels(n_rows: int, n_columns: int, width: float, height: float) -> "tuple[Figure, Any]":
    """Return a figure with panels of one size, on one scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows + 0.7), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharey=True)


def _finish(figure: "Figure", entry: declared_figures.PaperFigure, axis: "Axes") -> "Figure":
    """Return a figure with its title, and the legend of a panel below all."""
    handles, labels = axis.get_legend_handles_labels()
    figure.suptitle(wrap_text(entry.title, 70 * figure.get_figwidth(), size=9), fontsize=9)
    if handles:
        add_legend(figure, handles, labels)
    return figure


def _wrap_beside(entry: declared_figures.PaperFigure, height: float) -> str:
    """Return the name of the scale of a panel, in lines as long as the panel is high."""
    return wrap_text(entry.axis, 50 * height)


def _say_not_measured(axis: "Axes") -> None:
    """Write into a panel that nothing was measured."""
    axis.text(0.5, 0.5, NOT_MEASURED, ha="center", va="center", transform=axis.transAxes)


def _boxes(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw boxes of scored rows: a row of panels for each model, a box for each group and value."""
    measured = _measured(entry, models)
    if not measured:
        return None
    names = entry.order or tuple(dict.fromkeys(measured[0][1][entry.by]))
    panels = dict(entry.panels) or {"": ""}
    width = 7.2 / len(panels)
    figure, axes = _panels(len(measured), len(panels), width, 2.2)
    for line, (title, rows) in enumerate(measured):
        for column, (value, panel) in enumerate(panels.items()):
            axis = axes[line][column]
            heading = ", ".join(filter(None, (title, panel)))
            axis.set_title(wrap_text(heading, 60 * width), fontsize=8)
            part = rows[rows[entry.panel_by] == value] if entry.panel_by else rows
            _draw_boxes(axis, entry, part, names)
            if not column:
                axis.set_ylabel(_wrap_beside(entry, 2.2))
    return _finish(figure, entry, axes[0][0])


def _draw_boxes(
    axis: "Axes", entry: declared_figures.PaperFigure, rows: Any, names: Sequence[str]
) -> None:
    """Draw the boxes of a panel, those of a value beside each other in colours of the groups."""
    width = 0.8 / len(entry.groups)
    for index, (group, name) in enumerate(entry.groups.items()):
        colour = LOOKS[index % len(LOOKS)][0]
        axis.plot([], [], "s", color=colour, label=name)
        for position, value in enumerate(names):
            scores = rows[(rows[entry.by] == value) & (rows["group"] == group)]["score"]
            if len(scores):
                axis.boxplot(
                    [scores.to_numpy(dtype=float) * entry.scale],
                    positions=[position + (index - (len(entry.groups) - 1) / 2) * width],
                    widths=0.85 * width,
                    patch_artist=True,
                    manage_ticks=False,
                    boxprops={"facecolor": colour, "linewidth": 0.6},
                    medianprops={"color": "black"},
                    flierprops={"marker": ".", "markersize": 2},
                )
    if not len(rows):
        _say_not_measured(axis)
    is_long = max(map(len, names)) * len(names) > 40
    axis.set_xticks(
        range(len(names)), names, rotation=40 if is_long else 0, ha="right" if is_long else "center"
    )


def _means(rows: Any, entry: declared_figures.PaperFigure) -> dict[str, float]:
    """Return the mean score of each value of a column, times the scale of the figure."""
    return {
        str(value): float(part["score"].mean()) * entry.scale
        for value, part in rows.groupby(entry.by, sort=False)
    }


def _values_across(study: str, entry: declared_figures.PaperFigure) -> dict[str, float]:
    """Return the values across of a scatter by name, from a file of the corpus; those left blank are not in it."""
    text = (corpus_dir(study) / entry.table).read_text(encoding="utf-8")
    lines = csv.DictReader(io.StringIO(text))
    key = (lines.fieldnames or [""])[0]
    return {line[key]: float(line[entry.column]) for line in lines if line[entry.column]}


def _points(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> Iterator[tuple[str, dict[str, tuple[float, float]], dict[str, str]]]:
    """Yield the title of each panel of a scatter, its points by name, and the group of each."""
    measured = _measured(entry, models)
    if entry.table:
        across = _values_across(study, entry)
        for title, rows in measured:
            means = _means(rows, entry)
            yield title, {name: (across[name], means[name]) for name in means if name in across}, {}
        return
    for other in models:
        rows_across = _rows(entry, other, entry.against)
        if rows_across is None:
            continue
        means_across = _means(rows_across, entry)
        for title, rows in measured:
            means = _means(rows, entry)
            both = {
                name: (means_across[name], means[name]) for name in means if name in means_across
            }
            groups = dict(zip(rows[entry.by], rows["group"], strict=True))
            yield f"{title} against {safe_line(other.title, 40)}", both, groups


def _scatter(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw points with Pearson's r, a panel for each model or pair of models."""
    panels = [*_points(study, entry, models)]
    if not panels:
        return None
    figure, axes = _panels(len(panels), 1, 6.2, 3.6)
    for (title, points, groups), axis in zip(panels, axes[:, 0], strict=True):
        heading = f"{title}: {_describe_r([*points.values()])}, n = {len(points)}"
        axis.set_title(wrap_text(heading, 60 * 6.2), fontsize=8)
        axis.set_xlabel(entry.across)
        axis.set_ylabel(_wrap_beside(entry, 3.6))
        if groups:
            _draw_groups(axis, entry, points, groups)
        else:
            _draw_named(axis, points)
        if not points:
            _say_not_measured(axis)
    _finish(figure, entry, axes[0][0])
    figure.draw_without_rendering()
    for axis in axes[:, 0]:
        _hide_names_that_overlap(axis)
    return figure


def _hide_names_that_overlap(axis: "Axes") -> None:
    """Hide each name of a point that would be written over a point or an earlier name."""
    from matplotlib.transforms import Bbox

    points = [axis.transData.transform(line.get_xydata()) for line in axis.lines]
    written = [Bbox.from_bounds(x - 2, y - 2, 4, 4) for line in points for x, y in line]
    for name in axis.texts:
        box = name.get_window_extent()
        if any(box.overlaps(earlier) for earlier in written):
            name.set_visible(False)
        else:
            written.append(box)


def _describe_r(points: Sequence[tuple[float, float]]) -> str:
    """Say Pearson's r of points; not measured below three of them, or where a side does not vary."""
    import numpy as np

    across = [point[0] for point in points]
    up = [point[1] for point in points]
    varies = len(set(across)) > 1 and len(set(up)) > 1
    if len(points) < _FEWEST or not varies:
        return "r: not measured"
    return f"r = {np.corrcoef(across, up)[0, 1]:.2f}"


def _draw_groups(
    axis: "Axes",
    entry: declared_figures.PaperFigure,
    points: Mapping[str, tuple[float, float]],
    groups: Mapping[str, str],
) -> None:
    """Draw points in the colours of their groups."""
    for index, (group, name) in enumerate(entry.groups.items()):
        colour, marker = LOOKS[index % len(LOOKS)]
        of_group = [point for key, point in points.items() if groups[key] == group]
        x = [point[0] for point in of_group]
        y = [point[1] for point in of_group]
        axis.plot(x, y, marker, color=colour, markersize=4, label=name)


def _draw_named(axis: "Axes", points: Mapping[str, tuple[float, float]]) -> None:
    """Draw points with their names."""
    colour, marker = LOOKS[0]
    x = [point[0] for point in points.values()]
    y = [point[1] for point in points.values()]
    axis.plot(x, y, marker, color=colour, markersize=4)
    for name, point in points.items():
        axis.annotate(safe_line(name, 30), point, (3, 3), textcoords="offset points", fontsize=6)


def _sorted(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw the mean of each condition from the lowest to the highest, in the colour of its group."""
    measured = _measured(entry, models)
    if not measured:
        return None
    figure, axes = _panels(len(measured), 1, 7.2, 2.4)
    for (title, rows), axis in zip(measured, axes[:, 0], strict=True):
        means = _means(rows, entry)
        group_of = dict(zip(rows[entry.by], rows["group"], strict=True))
        names = sorted(means, key=lambda name: (means[name], name))
        for index, (group, label) in enumerate(entry.groups.items()):
            colour, marker = LOOKS[index % len(LOOKS)]
            positions = [position for position, name in enumerate(names) if group_of[name] == group]
            values = [means[names[position]] for position in positions]
            axis.plot(positions, values, marker, color=colour, markersize=3, label=label)
        axis.set_title(f"{title}, n = {len(names)}", fontsize=8)
        axis.set_ylabel(_wrap_beside(entry, 2.4))
        axis.set_xlabel(entry.across)
    return _finish(figure, entry, axes[0][0])


def _shares(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw the mean of each group as a bar, beside each other for each model."""
    measured = _measured(entry, models)
    if not measured:
        return None
    figure, axes = _panels(1, 1, 1.6 + 1.4 * len(measured), 2.8)
    axis = axes[0][0]
    width = 0.8 / len(entry.groups)
    for index, (group, name) in enumerate(entry.groups.items()):
        positions, values = [], []
        for position, (_, rows) in enumerate(measured):
            scores = rows[rows["group"] == group]["score"]
            if len(scores):
                positions.append(position + (index - (len(entry.groups) - 1) / 2) * width)
                values.append(float(scores.mean()) * entry.scale)
        bars = axis.bar(positions, values, width, color=LOOKS[index % len(LOOKS)][0], label=name)
        axis.bar_label(bars, fmt="%.2f", fontsize=7)
    axis.set_xticks(range(len(measured)), [wrap_text(title, _TICK) for title, _ in measured])
    axis.set_ylabel(_wrap_beside(entry, 2.8))
    return _finish(figure, entry, axis)


def _bars(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw a bar for each contrast of each model that has findings of it."""
    by_model: list[tuple[str, dict[str, float]]] = []
    for model in models:
        values = {
            finding.contrast: finding.estimate.value * entry.scale
            for finding in model.findings
            if finding.experiment == entry.experiment
            and finding.slice_by == "all"
            and finding.contrast in entry.bars
            and not math.isnan(finding.estimate.value)
        }
        if values:
            by_model.append((safe_line(model.title, 40), values))
    if not by_model:
        return None
    figure, axes = _panels(1, 1, 3.4 + 1.4 * len(by_model), 2.8)
    axis = axes[0][0]
    width = 0.8 / len(entry.bars)
    for index, (contrast, name) in enumerate(entry.bars.items()):
        positions = [
            position + (index - (len(entry.bars) - 1) / 2) * width
            for position, (_, values) in enumerate(by_model)
            if contrast in values
        ]
        heights = [values[contrast] for _, values in by_model if contrast in values]
        label = name if heights else f"{name}: {NOT_MEASURED}"
        bars = axis.bar(positions, heights, width, color=LOOKS[index % len(LOOKS)][0], label=label)
        axis.bar_label(bars, fmt="%.3f", fontsize=7)
    axis.set_xticks(range(len(by_model)), [wrap_text(title, _TICK) for title, _ in by_model])
    axis.set_ylabel(_wrap_beside(entry, 2.8))
    return _finish(figure, entry, axis)
