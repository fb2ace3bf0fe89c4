"""Figures that need the scored rows themselves: a grid of means, the distribution of a reported mass."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from swapbias.declaring import Experiment
from swapbias.report.drawing import COLOURS, Drawn, saved
from swapbias.report.words import plain


def from_items(study: str, experiment: Experiment, rows: pd.DataFrame, unit: str) -> Iterator[Drawn]:
    """A heat map over the experiment's grid, and the distribution of the probability mass that was read."""
    if experiment.grid:
        down, across = experiment.grid
        names = [next(one.name for one in experiment.slices if one.column == column) for column in experiment.grid]
        mine = rows[rows["group"] == experiment.group]
        grid = mine.pivot_table(index=down, columns=across, values="score", sort=False)
        caption = f"Mean {unit} of {plain(experiment.group)} conditions by {names[0]} and {names[1]}."
        if grid.size:  # empty where nothing could be scored
            yield saved(f"{study}-{experiment.name}-grid", study, caption, _heat_map(grid))
    if "top_mass" in experiment.reported and "top_mass" in rows:
        caption = "Probability mass of the words that were read, per prompt; below one half most of it is not seen."
        yield saved(f"{study}-{experiment.name}-top-mass", study, caption, _histogram(rows, "top_mass"))


def _heat_map(grid: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(2.4 + 0.85 * grid.shape[1], 1.4 + 0.32 * grid.shape[0]), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(grid.to_numpy(), aspect="auto", cmap="cividis")
    middle = float(np.nanmean(grid.to_numpy()))
    for row, column in np.ndindex(*grid.shape):
        value = grid.iat[row, column]
        colour = "black" if value > middle else "white"
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    axis.set_xticks(range(grid.shape[1]), [plain(str(name)) for name in grid.columns], rotation=30, ha="right")
    axis.set_yticks(range(grid.shape[0]), [plain(str(name)) for name in grid.index])
    axis.spines[:].set_visible(False)
    figure.colorbar(image, ax=axis, shrink=0.8)
    return figure


def _histogram(rows: pd.DataFrame, column: str) -> Figure:
    figure = Figure(figsize=(6.0, 2.8), layout="constrained")
    axis = figure.subplots()
    for colour, (group, part) in zip(COLOURS, rows.groupby("group", sort=False), strict=False):
        weights = np.full(len(part), 100 / len(part))
        axis.hist(
            part[column],
            bins=np.linspace(0, 1, 41).tolist(),
            weights=weights,
            histtype="step",
            color=colour,
            label=group,
        )
    axis.axvline(0.5, color="#999999", linewidth=0.8)
    axis.set_xlabel("summed probability of the words read")
    axis.set_ylabel("% of prompts")
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    return figure
