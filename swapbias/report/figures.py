"""Figures from findings alone: levels with intervals, gaps with intervals, a covariate's scatter."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from swapbias.declaring import Covariate, Experiment
from swapbias.finding import Finding
from swapbias.report.answer_figures import answer_figures
from swapbias.report.clinical_figures import rate_figures
from swapbias.report.drawing import COLOURS, STYLE, Drawn, saved
from swapbias.report.item_figures import from_items
from swapbias.report.words import plain
from swapbias.studies import load_study


def draw_figures(found: Sequence[Finding], items: Mapping[str, pd.DataFrame] | None = None) -> list[Drawn]:
    """Every figure: for each experiment its levels, gaps by slice, covariates and, from the items, its grid."""
    figures: list[Drawn] = []
    with matplotlib.rc_context(STYLE):
        for study, name in dict.fromkeys((one.study, one.experiment) for one in found):
            experiment = next(e for e in load_study(study).experiments if e.name == name)
            mine = [
                one
                for one in found
                if (one.study, one.experiment, one.score, one.robust) == (study, name, "score", "")
            ]
            if "answers" in experiment.rates:
                every = [one for one in found if (one.study, one.experiment, one.score) == (study, name, "score")]
                rows = items[study] if items is not None and study in items else None
                answered = None if rows is None else rows[rows["experiment"] == name]
                figures += answer_figures(study, experiment, every, answered)
                continue
            if experiment.rates:
                figures += rate_figures(study, experiment, mine)
                continue
            figures += _of_experiment(study, experiment, mine)
            if items is not None and study in items:
                rows = items[study][items[study]["experiment"] == name]
                figures += from_items(study, experiment, rows, mine[0].unit)
    return figures


def _of_experiment(study: str, experiment: Experiment, found: list[Finding]) -> Iterator[Drawn]:
    unit = found[0].unit
    for slice_ in experiment.slices:
        sliced = [one for one in found if one.slice_by == slice_.name]
        stem = f"{study}-{experiment.name}-{slice_.name.replace(' ', '-')}"
        levels = [one for one in sliced if one.measure == "mean" and one.contrast != "all"]
        gaps = [one for one in sliced if one.measure == experiment.measure]
        if levels and (slice_ == experiment.slices[0] or not gaps):
            caption = f"Mean {unit} by {slice_.name}, with 95 % intervals."
            if not gaps:  # one group per value: a ranking
                levels.sort(key=lambda one: (math.isnan(one.estimate.value), -one.estimate.value))
                caption = f"Mean {unit} of every {slice_.name}, from highest to lowest, with 95 % intervals."
            groups = [group for group in experiment.levels if group != "all"]
            yield saved(f"{stem}-levels", study, caption, _levels(levels, unit, groups, ranking=not gaps))
        if gaps:
            caption = (
                f"Gap ({plain(gaps[0].contrast)}) by {slice_.name}, with 95 % intervals; filled: p < .05 after "
                f"correction over {slice_.name}. {experiment.direction[0].upper()}{experiment.direction[1:]}."
            )
            yield saved(f"{stem}-gap", study, caption, _gaps(gaps, unit))
    for covariate in experiment.covariates:
        name = next(s.name for s in experiment.slices if s.column == covariate.column)
        means = [one for one in found if one.measure == "mean" and one.contrast == "all" and one.slice_by == name]
        r = next(one for one in found if one.contrast == f"score ~ {covariate.name}").estimate
        if math.isnan(r.value):  # a constant score has no scatter worth looking at
            continue
        caption = f"Mean {unit} against {covariate.name}: r = {r.value:.2f}, p = {r.p_value:.2f}, n = {r.n}."
        stem = f"{study}-{experiment.name}-{covariate.name.replace(' ', '-')}"
        yield saved(stem, study, caption, _scatter(means, covariate, unit))


def _panels(found: Sequence[Finding], height: float) -> tuple[Figure, dict[str, Any]]:
    subsets = list(dict.fromkeys(one.subset for one in found))
    figure = Figure(figsize=(3.6 * len(subsets) + 1.8, height), layout="constrained")
    axes = figure.subplots(1, len(subsets), squeeze=False, sharex=True)[0]
    for axis, subset in zip(axes, subsets, strict=True):
        axis.set_title(plain(subset), fontsize=9.5)
        axis.xaxis.set_major_locator(MaxNLocator(5))
    return figure, dict(zip(subsets, axes, strict=True))


def _height(found: Sequence[Finding]) -> float:
    rows = max(
        len({one.slice_value for one in found if one.subset == subset}) for subset in {one.subset for one in found}
    )
    return 1.1 + 0.27 * rows


def _levels(found: Sequence[Finding], unit: str, groups: Sequence[str], *, ranking: bool = False) -> Figure:
    """One row per slice value, one coloured point with interval per group; a ranking has one group a row."""
    figure, axes = _panels(found, 0.6 * _height(found) + 0.6 if ranking else _height(found) + 0.4)
    if ranking:
        figure.set_figwidth(7.5)
    for subset, axis in axes.items():
        mine = [one for one in found if one.subset == subset]
        values = list(dict.fromkeys(one.slice_value for one in mine))
        for shift, group in enumerate(groups):
            points = [one for one in mine if one.contrast == group]
            apart = 0.0 if ranking else 0.18 * (shift - (len(groups) - 1) / 2)
            rows = [values.index(one.slice_value) + apart for one in points]
            _points(axis, points, rows, COLOURS[shift % len(COLOURS)], label=plain(group))
        _label_rows(axis, values)
        axis.set_xlabel(f"mean {unit}")
    first = next(iter(axes.values()))
    figure.legend(
        *first.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(groups),
        frameon=False,
        fontsize=8,
    )
    return figure


def _gaps(found: Sequence[Finding], unit: str) -> Figure:
    """One row per slice value, sorted by the gap; filled points differ from zero after correction."""
    figure, axes = _panels(found, _height(found))
    for subset, axis in axes.items():
        mine = sorted((one for one in found if one.subset == subset), key=lambda one: one.estimate.value)
        axis.axvline(0, color="#999999", linewidth=0.8, zorder=0)
        for row, one in enumerate(mine):
            _points(axis, [one], [row], COLOURS[1], filled=one.estimate.p_adjusted < 0.05)
        _label_rows(axis, [one.slice_value for one in mine])
        axis.set_xlabel(f"{plain(mine[0].contrast)}, {unit}")
    return figure


def _points(
    axis: Any,
    found: Sequence[Finding],
    rows: Sequence[float],
    colour: str,
    *,
    label: str = "",
    filled: bool = True,
) -> None:
    values = [one.estimate.value for one in found]
    ends = ([one.estimate.ci_low for one in found], [one.estimate.ci_high for one in found])
    axis.hlines(rows, *ends, color=colour, linewidth=1.3)
    axis.plot(
        values,
        rows,
        "o",
        markersize=4.5,
        color=colour,
        markerfacecolor=colour if filled else "white",
        label=label,
    )


def _label_rows(axis: Any, names: Sequence[str]) -> None:
    size = 9.0 if len(names) <= 40 else 6.5
    axis.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=size)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)


def _scatter(means: Sequence[Finding], covariate: Covariate, unit: str) -> Figure:
    figure = Figure(figsize=(6.2, 4.2), layout="constrained")
    axis = figure.subplots()
    known = [one for one in means if one.slice_value in covariate.values]
    x = [covariate.values[one.slice_value] for one in known]
    y = [one.estimate.value for one in known]
    axis.plot(x, y, "o", color=COLOURS[1], markersize=5)
    for one, across, up in zip(known, x, y, strict=True):
        axis.annotate(plain(one.slice_value), (across, up), xytext=(5, 3), textcoords="offset points", fontsize=7.5)
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel(covariate.name)
    axis.set_ylabel(f"mean {unit}")
    return figure
