"""Draw shares of answers by condition as heat maps: those of the paper, and beside them those of runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swapbias.report.finding_names import safe_line
from swapbias.studies import (
    paper,
    paper_figures_declared as declared_figures,
    paper_models,
    published as paper_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = "cividis"
_DARK_BELOW = 0.5  # share of the scale below which a number is written in white
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Shares:
    """The shares of answers of a model."""

    title: str
    """The model, and what its numbers are called."""
    shares: Mapping[_Key, float]
    """In the unit of the figure, by condition, group and class of answer."""


def draw_heat_map(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw a line of panels for each model, the paper's first: a panel for each group, a cell for each class.

    Args:
        study: the name of the study.
        entry: the figure of the paper, whose groups are the panels.
        models: the models of runs.

    Returns:
        The figure; None where no run has the classes of answers.
    """
    from matplotlib.figure import Figure

    of_runs = [*_shares_of_runs(entry, models)]
    if not of_runs:
        return None
    lines = [*_published_shares(study, entry), *of_runs]
    measured = (condition for line in lines for condition, _, _ in line.shares)
    conditions = [*dict.fromkeys((*entry.order, *measured))]
    height = 0.2 * len(conditions) + 0.8
    figure = Figure(figsize=(7.2, height * len(lines) + 0.9), layout="constrained")
    axes = figure.subplots(len(lines), len(entry.groups), squeeze=False, sharey=True)
    for line, panels in zip(lines, axes, strict=True):
        for (group, name), axis in zip(entry.groups.items(), panels, strict=True):
            cells = [
                [line.shares.get((condition, group, kind), math.nan) for kind in entry.classes]
                for condition in conditions
            ]
            picture = _draw_cells(axis, cells, entry)
            axis.set_title(f"{line.title}:\n{name}", fontsize=8)
            axis.set_xlabel(entry.across)
        panels[0].set_yticks(range(len(conditions)), [safe_line(name, 40) for name in conditions])
        panels[0].set_ylabel(entry.down)
    figure.colorbar(picture, ax=axes, label=entry.axis, location="bottom", aspect=50, pad=0.02)
    figure.suptitle(entry.title, fontsize=9)
    return figure


def _draw_cells(
    axis: "Axes", cells: Sequence[Sequence[float]], entry: declared_figures.PaperFigure
) -> Any:
    """Draw a panel, each cell with its number, and return the picture that a scale of colours explains."""
    picture = axis.imshow(cells, vmin=0, vmax=entry.scale, cmap=_COLOURS, aspect="auto")
    axis.set_xticks(range(len(entry.classes)), [*entry.classes.values()])
    axis.grid(visible=False)
    axis.tick_params(length=0)
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            is_blank = math.isnan(value)
            text = "–" if is_blank else f"{value:.1f}"
            is_dark = not is_blank and value < _DARK_BELOW * entry.scale
            colour = "white" if is_dark else "black"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=6)
    return picture


def _published_shares(study: str, entry: declared_figures.PaperFigure) -> Iterator[_Shares]:
    """Yield the published shares of each model of the paper, printed ones apart from recomputed ones."""
    titles = {model.model: model.title for model in paper_models.list_models(study)}
    kinds = {
        f"{group} {name}": (group, kind)
        for group in entry.groups
        for kind, name in entry.classes.items()
    }
    by_title: dict[str, dict[_Key, float]] = {}
    for row in paper_numbers.published_rows(study):
        is_cell = (row["experiment"], row["measure"]) == (entry.experiment, entry.measure)
        if is_cell and not row["subset"] and row["contrast"] in kinds:
            title = f"{titles[row['model']]} ({row['origin']})"
            key = (row["slice_value"], *kinds[row["contrast"]])
            by_title.setdefault(title, {})[key] = float(row["value"])
    for title, shares in by_title.items():
        yield _Shares(title, shares)


def _shares_of_runs(
    entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> Iterator[_Shares]:
    """Yield the shares of each model of runs whose answers were put into the classes."""
    for model in models:
        rows = model.rows
        if rows is None or not {*entry.classes} <= {*rows.columns}:
            continue
        is_counted = (rows["experiment"] == entry.experiment) & rows["group"].isin([*entry.groups])
        answered = rows[is_counted & rows["score"].notna()]
        if not len(answered):
            continue
        means = answered.groupby([entry.by, "group"], sort=False)[[*entry.classes]].mean()
        shares = {
            (str(condition), str(group), kind): float(share) * entry.scale
            for kind in entry.classes
            for (condition, group), share in means[kind].items()
        }
        yield _Shares(f"{safe_line(model.title, 40)} ({model.label})", shares)
