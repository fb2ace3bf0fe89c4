"""Figures from findings and scored rows, of one run and of several models."""

import io
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from swapbias.findings import BASELINE, RANDOM_DIRECT, RANDOM_SIGNED, Finding, agreeing, condition_scores
from swapbias.measures import CLASSES, MEASURES, SAID
from swapbias.report.text import group_name, group_place, plain, shown, value_name, within
from swapbias.scorers.notes import Explained
from swapbias.studies import PLACEBO, Covariate, Experiment, Slice, load_study

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.figure import Figure

# Okabe-Ito colours: told apart with any colour vision.
COLOURS = ("#D55E00", "#0072B2", "#777777", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "D", "^", "X")  # of the same groups: never told by colour alone
_GAP = "#222222"  # which is no group's
_GROUPED = 15  # values of a slice above which they stand by category
ALIKE = 3  # rows that all show the same are a sentence on the page, from so many on
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "svg.hashsalt": "swapbias",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # names are strangers', and a dollar in them is one
}
# For papers: text stays text, in fonts that journals take (TrueType, not Type 3).
PAPER = {**STYLE, "font.size": 8.0, "pdf.fonttype": 42, "svg.fonttype": "none", "axes.linewidth": 0.6}
STYLES: Mapping[str, Mapping[Any, Any]] = {"page": STYLE, "paper": PAPER}
FORMATS = ("pdf", "svg", "png")
COLUMN, TEXT = 3.3, 6.9  # inches: one column of a paper, and both
_ROOM = 1.45  # inches that a panel needs beside its labels: where a column leaves less, it takes both
_NO_DATE: Mapping[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def _figure(**how: Any) -> "Figure":
    """A figure without anything on it. The library is loaded when something is drawn: it is of swapbias[audit]."""
    from matplotlib.figure import Figure

    return Figure(**how)


def _styled(style: str) -> "AbstractContextManager[None]":
    """Within the block things are drawn in this style."""
    from matplotlib import rc_context

    styled: AbstractContextManager[None] = rc_context(dict(STYLES[style]))
    return styled


@dataclass(frozen=True)
class Drawn:
    """A figure, with the sentence that says what it shows."""

    name: str
    study: str
    caption: str
    figure: "Figure"

    @cached_property
    def svg(self) -> bytes:
        return self.as_bytes("svg")

    @cached_property
    def png(self) -> bytes:
        return self.as_bytes("png")

    def as_bytes(self, kind: str, style: str = "page") -> bytes:
        """The figure in a format, the same bytes for the same drawing; for a paper as wide as its column or text."""
        with _styled(style):
            if style == "paper":
                _fit(self.figure)
            buffer = io.BytesIO()
            dpi = 150 if style == "page" else 600
            self.figure.savefig(buffer, format=kind, dpi=dpi, metadata=_NO_DATE[kind])
            return buffer.getvalue()


def _fit(figure: "Figure") -> None:
    """One column wide where all of it fits, else both; panels that have no room beside each other go below."""
    panels = [one for one in figure.axes if one.get_visible() and one.get_label() != "<colorbar>"]
    height = figure.get_figheight()
    labels = {one.get_xlabel() for one in panels if one.get_xlabel()}
    if len(panels) > 1 and len(labels) == 1:  # said once, below all of them
        for one in panels:
            one.set_xlabel("")
        figure.supxlabel(labels.pop(), fontsize="medium")
    if not any(_fits(figure, panels, width, height) for width in (COLUMN, TEXT)) and len(panels) > 1:
        rows = [max(1, len(one.get_yticks())) for one in panels]
        grid = figure.add_gridspec(len(panels), 1, height_ratios=rows)
        for place, one in enumerate(panels):
            one.set_subplotspec(grid[place])
        tall = height * sum(rows) / max(rows) + 0.3 * len(panels)
        any(_fits(figure, panels, width, tall) for width in (COLUMN, TEXT))


def _fits(figure: "Figure", panels: Sequence[Any], width: float, height: float) -> bool:
    """Whether at a width nothing is cut and every panel has room beside its labels; it has this width then."""
    figure.set_size_inches(width, height)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.draw_without_rendering()
    room = min(one.get_window_extent().width for one in panels) / figure.dpi
    drawn = figure.get_tightbbox()
    return bool(room >= _ROOM and drawn.x0 >= -0.02 and drawn.x1 <= width + 0.02)


def saved(name: str, study: str, caption: str, figure: "Figure") -> Drawn:
    """The figure, which is written out where a format is asked for."""
    return Drawn(name, study, caption, figure)


def answer_figures(
    study: str, experiment: Experiment, found: Sequence[Finding], rows: pd.DataFrame | None
) -> Iterator[Drawn]:
    """For each model the bias of every condition, and a heat map of the answers of both sides."""
    for model in dict.fromkeys(one.model_id for one in found):
        mine = [one for one in found if one.model_id == model]
        gaps = [one for one in mine if one.measure == experiment.measure and one.slice_by == "adjectives"]
        if gaps:
            caption = (
                f"{model}: accuracy on sentences that fit the stereotype minus accuracy on the others, with 95 % "
                "intervals over occupations, each sentence averaged over its trials; the band is the interval "
                "without adjectives."
            )
            yield saved(f"{study}-{experiment.name}-bias", study, caption, _bias(gaps))
        if rows is not None and f"{SAID}{CLASSES[0]}" in rows:
            caption = f"{model}: what was answered, in percent, by side and adjectives (tolerant parser)."
            figure = _classes(rows[rows["model_id"] == model], experiment)
            yield saved(f"{study}-{experiment.name}-classes", study, caption, figure)


def _bias(found: Sequence[Finding]) -> "Figure":
    figure = _figure(figsize=(6.6, 1.1 + 0.27 * len(found)), layout="constrained")
    axis = figure.subplots()
    ordered = sorted(found, key=lambda one: one.estimate.value)
    for one in found:
        if one.slice_value == BASELINE:
            axis.axvspan(one.estimate.ci_low, one.estimate.ci_high, color=COLOURS[2], alpha=0.18, linewidth=0)
            axis.axvline(one.estimate.value, color=COLOURS[2], linewidth=0.9)
    axis.axvline(0, color="#999999", linewidth=0.8)
    for row, one in enumerate(ordered):
        colour = COLOURS[2] if one.slice_value == BASELINE else _GAP
        axis.hlines(row, one.estimate.ci_low, one.estimate.ci_high, color=colour, linewidth=1.3)
        axis.plot(one.estimate.value, row, "o", markersize=4.5, color=colour)
    axis.set_yticks(range(len(ordered)), [plain(one.slice_value) for one in ordered], fontsize=8.5)
    axis.set_ylim(len(ordered) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("bias, percentage points")
    return figure


def _classes(rows: pd.DataFrame, experiment: Experiment) -> "Figure":
    sides = experiment.compared
    conditions = list(dict.fromkeys(rows["condition"]))
    figure = _figure(figsize=(8.2, 1.2 + 0.27 * len(conditions)), layout="constrained")
    axes = figure.subplots(1, len(sides), squeeze=False, sharey=True)[0]
    for axis, side in zip(axes, sides, strict=True):
        columns = [f"{SAID}{name}" for name in CLASSES]
        means = rows[rows["group"] == side].groupby("condition", sort=False)[columns].mean()
        shares = 100 * means.reindex(conditions).to_numpy(dtype=float)
        axis.imshow(shares, aspect="auto", cmap="Blues", vmin=0, vmax=100)
        for row, values in enumerate(shares):
            for column, value in enumerate(values):
                colour = "white" if value > 60 else "black"
                axis.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=7.5, color=colour)
        axis.set_xticks(range(len(CLASSES)), CLASSES, fontsize=8.5)
        axis.set_yticks(range(len(conditions)), [plain(name) for name in conditions], fontsize=8.5)
        axis.tick_params(length=0)
        axis.set_title(f"{side}-stereotyped", fontsize=9)
        for edge in ("left", "bottom"):
            axis.spines[edge].set_visible(False)
    return figure


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
        yield saved(f"{study}-{experiment.name}-top-mass", study, caption, _histogram(rows, experiment))


def _heat_map(grid: pd.DataFrame) -> "Figure":
    figure = _figure(figsize=(2.4 + 0.85 * grid.shape[1], 1.4 + 0.32 * grid.shape[0]), layout="constrained")
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


def _histogram(rows: pd.DataFrame, experiment: Experiment) -> "Figure":
    figure = _figure(figsize=(6.0, 2.8), layout="constrained")
    axis = figure.subplots()
    lines = ("-", "--", ":", "-.", "-")  # of the same groups as the colours
    for group, part in rows[rows["group"] != PLACEBO].groupby("group", sort=False):
        place = group_place(experiment, str(group)) % len(COLOURS)
        axis.hist(
            part["top_mass"],
            bins=np.linspace(0, 1, 41).tolist(),
            weights=np.full(len(part), 100 / len(part)),
            histtype="step",
            color=COLOURS[place],
            linestyle=lines[place],
            label=group_name(experiment, str(group)),
        )
    axis.axvline(0.5, color="#999999", linewidth=0.8)
    axis.set_xlabel("summed probability of the words read")
    axis.set_ylabel("% of prompts")
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def rate_figures(study: str, experiment: Experiment, found: Sequence[Finding]) -> Iterator[Drawn]:
    """Whatever an experiment's rates are drawn as: a grid for each model, or bars over all models."""
    models = list(dict.fromkeys(one.model_id for one in found))
    if "flips" in experiment.rates:
        for model in models:
            mine = [one for one in found if one.model_id == model]
            caption = (
                f"{model}: ratios of true and false positive rates (1: equal), flips (0: none) and macro F1 by how "
                "the training notes were treated; f or m: the group with the higher rate or more positives."
            )
            name = f"{study}-{experiment.name}-regimes" + ("" if len(models) == 1 else f"-{_safe(model)}")
            yield saved(name, study, caption, _grid(mine))
    if "leakage" in experiment.rates:
        caption = (
            "How well the gender is told from notes as written and neutralised, with 95 % intervals; 0.5: chance."
        )
        rows = [one for one in found if one.measure == "leakage_uar"]
        yield saved(
            f"{study}-{experiment.name}", study, caption, _bars(rows, "unweighted average recall", chance=0.5)
        )
    if "direction" in experiment.rates:
        rows = [one for one in found if one.slice_by == "all" and one.measure in ("direct_bias", "signed_mean")]
        caption = (
            "Direct bias of the words (mean absolute cosine with the gender direction) and their signed mean (above "
            "zero: toward female), with 95 % intervals over words and pairs; p and dotted lines: random words"
        )
        null = {
            (one.model_id, "direct_bias" if one.contrast == RANDOM_DIRECT else "signed_mean"): one.estimate.value
            for one in found
            if one.slice_by == "all" and one.contrast in (RANDOM_DIRECT, RANDOM_SIGNED)
        }
        figure = _bars(rows, "cosine with the gender direction", null=null)
        yield saved(f"{study}-{experiment.name}", study, caption, figure)


def explanation_figures(explained: Sequence[Explained], *, style: str = "page") -> list[Drawn]:
    """A panel for each model's most mismatched note: both versions side by side, the words that weigh most."""
    first = list({one.model_id: one for one in reversed(explained)}.values())[::-1]
    with _styled(style):
        return [_panel(one, number, len(first)) for number, one in enumerate(first)]


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in name)


def _grid(found: Sequence[Finding]) -> "Figure":
    sliced = [one for one in found if one.slice_by != "all" and MEASURES[one.measure].tabled]
    regimes = list(dict.fromkeys(one.subset for one in sliced))
    phenotypes = list(dict.fromkeys(one.slice_value for one in sliced))
    measures = list(dict.fromkeys(one.measure for one in sliced))
    down = math.ceil(len(measures) / 2)
    size = (2.6 + 1.5 * len(phenotypes), down * (1.0 + 0.34 * len(regimes)) + 0.7)
    figure = _figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, 2, squeeze=False, sharex=True, sharey=True).ravel()
    for axis in axes[len(measures) :]:
        axis.set_visible(False)
    for axis, measure in zip(axes, measures, strict=False):
        cells = {(one.subset, one.slice_value): one for one in sliced if one.measure == measure}
        values = np.array([[_value(cells.get((row, column))) for column in phenotypes] for row in regimes])
        axis.imshow(_shade(values, measure), aspect="auto", cmap="Oranges", vmin=0, vmax=1)
        for row, column in np.ndindex(*values.shape):
            axis.text(column, row, _cell(cells.get((regimes[row], phenotypes[column]))), ha="center", va="center",
                      fontsize=7.5)  # fmt: skip
        axis.set_xticks(
            range(len(phenotypes)), [plain(name) for name in phenotypes], rotation=30, ha="right", fontsize=7.5
        )
        axis.set_yticks(range(len(regimes)), [plain(name) for name in regimes])
        axis.tick_params(length=0)
        axis.set_title(MEASURES[measure].title, fontsize=9)
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
    return figure


def _value(one: Finding | None) -> float:
    return one.estimate.value if one else math.nan


def _shade(values: Any, measure: str) -> Any:
    """Darker: farther from equal treatment; macro F1 is not shaded."""
    scale = MEASURES[measure].scale
    return np.zeros_like(values) if scale is None else np.clip(np.abs(values - scale.neutral), 0, 0.6)


def _cell(one: Finding | None) -> str:
    if one is None or math.isnan(one.estimate.value):
        return "–"
    return f"{one.estimate.value:.2f} {one.higher_group[:1]}".strip()


def _bars(
    found: Sequence[Finding],
    label: str,
    *,
    chance: float | None = None,
    null: Mapping[tuple[str, str], float] | None = None,
) -> "Figure":
    """One bar a finding, grouped by model, with its interval."""
    names = [_bar_name(one) for one in found]
    figure = _figure(figsize=(6.6, 1.0 + 0.36 * len(found)), layout="constrained")
    axis = figure.subplots()
    for row, one in enumerate(found):
        axis.barh(row, one.estimate.value, 0.62, color=_GAP, alpha=0.35)
        axis.hlines(row, one.estimate.ci_low, one.estimate.ci_high, color="#222222", linewidth=1.2)
        if null and (one.model_id, one.measure) in null:
            at = null[one.model_id, one.measure]
            axis.vlines(at, row - 0.4, row + 0.4, color="#222222", linewidth=1.4, linestyle=":")
    axis.set_yticks(range(len(found)), names, fontsize=8)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.axvline(
        0 if chance is None else chance, color="#777777", linewidth=0.9, linestyle="-" if chance is None else "--"
    )
    axis.set_xlabel(label)
    return figure


def _bar_name(one: Finding) -> str:
    what = plain(one.subset) if one.subset else MEASURES[one.measure].title
    p_value = one.estimate.p_value
    return f"{one.model_id}: {what}" + ("" if math.isnan(p_value) else f" (p {p_value:.2f})")


def _panel(one: Explained, number: int, total: int) -> Drawn:
    order = load_study(one.study).experiments[0].compared  # of the colours, as everywhere
    groups = [group for group in order if group in one.words]
    longest = max(len(words) for words in one.words.values())
    figure = _figure(figsize=(8.4, 1.3 + 0.24 * longest), layout="constrained")
    axes = figure.subplots(1, len(groups), squeeze=False, sharex=True)[0]
    for axis, group in zip(axes, groups, strict=True):
        words = list(one.words[group])
        colour = COLOURS[list(order).index(group) % len(COLOURS)]
        axis.barh(range(len(words)), [weight for _, weight in words], 0.7, color=colour)
        axis.set_yticks(range(len(words)), [word for word, _ in words], fontsize=8)
        axis.set_ylim(len(words) - 0.5, -0.5)
        axis.axvline(0, color="#777777", linewidth=0.8)
        axis.set_title(f"as {group}: score {one.scores[group]:.2f}", fontsize=9)
        axis.set_xlabel("weight toward the phenotype")
        axis.tick_params(axis="y", length=0)
    caption = (
        f"The most mismatched note of {one.model_id} ({plain(one.phenotype)}, training notes {one.regime}): words "
        "that weigh most in each version (LIME)."
    )
    name = f"{one.study}-explained" + ("" if total == 1 else f"-{number + 1}")
    return saved(name, one.study, caption, figure)


def categories(experiment: Experiment, slice_: Slice, items: pd.DataFrame | None) -> Mapping[str, str]:
    """Of each value of a long slice the value of another slice that it always has; blank where there is none."""
    if items is None or slice_.column not in items:
        return {}
    answered = items[items["group"] != PLACEBO]
    columns = [one.column for one in experiment.slices if one.column != slice_.column]
    for column in [*columns, experiment.subset]:
        if not column or column not in answered or answered[slice_.column].nunique() <= _GROUPED:
            continue
        pairs = answered[[slice_.column, column]].drop_duplicates()
        if pairs[slice_.column].is_unique and 1 < pairs[column].nunique() < len(pairs):
            return dict(zip(pairs[slice_.column].astype(str), pairs[column].astype(str), strict=True))
    return {}


def draw_figures(
    found: Sequence[Finding], items: Mapping[str, pd.DataFrame] | None = None, *, style: str = "page"
) -> list[Drawn]:
    """Every figure: for each experiment its levels, gaps by slice, covariates and, from the items, its grid."""
    figures: list[Drawn] = []
    with _styled(style):
        for study, name in dict.fromkeys((one.study, one.experiment) for one in found):
            experiment = next(e for e in load_study(study).experiments if e.name == name)
            mine = [
                one for one in found if (one.study, one.experiment, one.score, one.view) == (study, name, "score", "")
            ]
            if "answers" in experiment.rates:
                every = [one for one in found if (one.study, one.experiment, one.score) == (study, name, "score")]
                rows = items[study] if items is not None and study in items else None
                answered = None if rows is None else rows[rows["experiment"] == name]
                figures += answer_figures(study, experiment, every, answered)
                continue
            if experiment.rates:
                every = [one for one in found if (one.study, one.experiment, one.score) == (study, name, "score")]
                figures += rate_figures(study, experiment, every)
                continue
            rows = None if items is None or study not in items else items[study]
            rows = None if rows is None else rows[rows["experiment"] == name]
            figures += _of_experiment(study, experiment, mine, rows)
            if rows is not None:
                figures += from_items(study, experiment, rows, mine[0].unit)
    return figures


def headline_figure(found: Sequence[Finding], *, style: str = "page") -> Drawn | None:
    """Each headline gap in margins, with its interval: what lies in the band counts as none; None without any."""
    gaps = [one for one in found if one.headline and one.margin > 0 and not math.isnan(one.estimate.value)]
    if not gaps:
        return None
    several = len({one.model_id for one in gaps}) > 1
    with _styled(style):
        figure = _figure(figsize=(6.6, 1.0 + 0.32 * len(gaps)), layout="constrained")
        axis = figure.subplots()
        axis.axvspan(-1, 1, color=COLOURS[2], alpha=0.18, linewidth=0)
        axis.axvline(0, color="#999999", linewidth=0.8)
        for row, one in enumerate(gaps):
            low, value, high = (
                at / one.margin for at in (one.estimate.ci_low, one.estimate.value, one.estimate.ci_high)
            )
            axis.hlines(row, low, high, color=_GAP, linewidth=1.3)
            axis.plot(value, row, "o", markersize=4.5, color=_GAP)
        asked = [(one.model_id, one.study, one.experiment, one.slice_value) for one in gaps]
        apart = len(set(asked)) < len(asked)  # several gaps answer one question: of several groups
        names = [
            (*name[:3], plain(name[3]), plain(one.contrast) if apart else "")
            for name, one in zip(asked, gaps, strict=True)
        ]
        _label_rows(axis, [(" ".join(filter(None, name[0 if several else 1 :])), False) for name in names])
        axis.set_xlabel("gap, as a multiple of its margin")
        caption = (
            "Headline gaps with 95 % intervals, as multiples of their margins; in the band a gap counts as none."
        )
        return saved("headlines", gaps[0].study, caption, figure)


def _of_experiment(
    study: str, experiment: Experiment, found: list[Finding], items: pd.DataFrame | None
) -> Iterator[Drawn]:
    unit, groups = found[0].unit, set(experiment.levels) - {"all"}
    for slice_ in experiment.slices:
        sliced = [one for one in found if one.slice_by == slice_.name]
        stem = f"{study}-{experiment.name}-{slice_.name.replace(' ', '-')}"
        levels = [one for one in sliced if one.measure == "mean" and one.contrast in groups]
        gaps = [one for one in sliced if one.measure == experiment.measure]
        if levels and not _alike(levels) and (slice_ == experiment.slices[0] or not gaps):
            category = categories(experiment, slice_, items)
            caption = f"Mean {unit} by {slice_.name}, with 95 % intervals."
            if not gaps:  # one group per value: a ranking, within each category
                levels = _ranked(levels, category)
                within = " within its category" if category else ""
                caption = f"Mean {unit} of every {slice_.name}, from highest to lowest{within}, with 95 % intervals."
            yield saved(f"{stem}-levels", study, caption, _levels(levels, experiment, None if gaps else category))
        if gaps and not _alike(gaps):
            caption = (
                f"Gap ({plain(gaps[0].contrast)}) by {slice_.name}, with 95 % intervals; filled: p < .05 after "
                f"correction over {slice_.name}. {experiment.direction[0].upper()}{experiment.direction[1:]}."
            )
            yield saved(f"{stem}-gap", study, caption, _gaps(gaps, unit, ordered=slice_.ordered))
    for covariate in (one for one in experiment.covariates if not one.beside):
        name = next(s.name for s in experiment.slices if s.column == covariate.column)
        first = experiment.gaps[0]
        what = ("gap", experiment.measure, f"{first.group} - {first.reference_group}")
        told, measure, contrast = what if covariate.of_gap else ("score", "mean", "all")
        means = [one for one in found if (one.measure, one.contrast, one.slice_by) == (measure, contrast, name)]
        r = next(one for one in found if one.contrast == f"{told} ~ {covariate.name}").estimate
        if math.isnan(r.value):  # a constant score has no scatter worth looking at
            continue
        told = "Gap in" if covariate.of_gap else "Mean"
        caption = f"{told} {unit} against {covariate.name}: r = {r.value:.2f}, p = {r.p_value:.2f}, n = {r.n}."
        stem = f"{study}-{experiment.name}-{covariate.name.replace(' ', '-')}"
        axis = contrast if covariate.of_gap else f"mean {unit}"
        yield saved(stem, study, caption, _scatter(means, covariate, axis))


def _panels(found: Sequence[Finding], height: float) -> "tuple[Figure, dict[str, Any]]":
    from matplotlib.ticker import MaxNLocator

    subsets = list(dict.fromkeys(one.subset for one in found))
    figure = _figure(figsize=(3.6 * len(subsets) + 1.8, height), layout="constrained")
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


def _alike(found: Sequence[Finding]) -> bool:
    """Whether all values of a slice show the same, for each group and set of conditions."""
    shown: dict[str, set[float]] = {}
    for one in found:
        shown.setdefault(f"{one.subset}/{one.contrast}", set()).add(round(one.estimate.value, 4))
    values = {one.slice_value for one in found}
    return len(values) >= ALIKE and all(len(each) == 1 for each in shown.values()) and len(found) >= len(values)


def _ranked(levels: Sequence[Finding], category: Mapping[str, str]) -> list[Finding]:
    """From highest to lowest, categories one after another in the order of the study."""
    places = list(dict.fromkeys(category.values()))

    def place(one: Finding) -> tuple[int, bool, float]:
        value, named = one.estimate.value, category.get(one.slice_value)
        return (places.index(named) if named in places else 0, math.isnan(value), -value)

    return sorted(levels, key=place)


def _levels(found: Sequence[Finding], experiment: Experiment, category: Mapping[str, str] | None) -> "Figure":
    """One row per slice value, one coloured point with interval per group.

    ``category`` (None: none) heads the values of a ranking, which has one group a row.
    """
    ranking = category is not None
    groups = [group for group in experiment.levels if group != "all"]
    figure, axes = _panels(found, _height(found) + 0.4)
    if ranking:
        figure.set_size_inches(7.5, 0.6 * _height(found) + 0.6 + 0.17 * len(set((category or {}).values())))
    for subset, axis in axes.items():
        mine = [one for one in found if one.subset == subset]
        rows = _rows(mine, category or {})
        for shift, group in enumerate(groups):
            points = [one for one in mine if one.contrast == group]
            if not points:  # no entry of a legend for what is not there
                continue
            apart = 0.0 if ranking else 0.18 * (shift - (len(groups) - 1) / 2)
            at = [rows.index((one.slice_value, False)) + apart for one in points]
            _points(axis, points, at, place=group_place(experiment, group), label=group_name(experiment, group))
        _label_rows(axis, rows)
        axis.set_xlabel(f"mean {found[0].unit}")
    first = next(iter(axes.values()))
    figure.legend(
        *first.get_legend_handles_labels(), loc="outside upper center", ncols=len(groups), frameon=False, fontsize=8
    )
    return figure


def _rows(found: Sequence[Finding], category: Mapping[str, str]) -> list[tuple[str, bool]]:
    """The rows of a panel from the top: names of values, and (true) of categories before theirs."""
    rows: list[tuple[str, bool]] = []
    for value in dict.fromkeys(one.slice_value for one in found):
        if value in category and (category[value], True) not in rows:
            rows.append((category[value], True))
        rows.append((value, False))
    return rows


def _gaps(found: Sequence[Finding], unit: str, *, ordered: bool) -> "Figure":
    """One row per slice value, in its own order or sorted by the gap; filled points differ from zero."""
    figure, axes = _panels(found, _height(found))
    for subset, axis in axes.items():
        mine = [one for one in found if one.subset == subset]
        mine = mine if ordered else sorted(mine, key=lambda one: one.estimate.value)
        axis.axvline(0, color="#999999", linewidth=0.8, zorder=0)
        for row, one in enumerate(mine):
            _points(axis, [one], [row], filled=one.estimate.p_adjusted < 0.05)
        _label_rows(axis, [(one.slice_value, False) for one in mine])
        axis.set_xlabel(f"{plain(mine[0].contrast)}, {unit}")
    return figure


def _points(
    axis: Any,
    found: Sequence[Finding],
    rows: Sequence[float],
    *,
    place: int | None = None,
    label: str = "",
    filled: bool = True,
) -> None:
    """Points with their intervals, in the colour and shape of a group's ``place``; None: gaps, which are of none."""
    colour = _GAP if place is None else COLOURS[place % len(COLOURS)]
    ends = [within(one) for one in found]
    axis.hlines(rows, [low for low, _ in ends], [high for _, high in ends], color=colour, linewidth=1.3)
    axis.plot(
        [one.estimate.value for one in found],
        rows,
        MARKERS[(place or 0) % len(MARKERS)],
        markersize=4.5,
        color=colour,
        markerfacecolor=colour if filled else "white",
        label=label,
    )


def _label_rows(axis: Any, rows: Sequence[tuple[str, bool]]) -> None:
    """Names of values, and in bold of the categories above them."""
    size = 9.0 if len(rows) <= 40 else 6.5
    axis.set_yticks(range(len(rows)), [value_name(name) for name, _ in rows], fontsize=size)
    for tick, (_, heads) in zip(axis.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if heads else "normal")
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)


def _scatter(means: Sequence[Finding], covariate: Covariate, name: str) -> "Figure":
    figure = _figure(figsize=(6.2, 4.2), layout="constrained")
    axis = figure.subplots()
    known = [one for one in means if one.slice_value in covariate.values]
    x = [covariate.values[one.slice_value] for one in known]
    y = [one.estimate.value for one in known]
    axis.plot(x, y, "o", color=COLOURS[1], markersize=5)
    for one, across, up in zip(known, x, y, strict=True):
        axis.annotate(plain(one.slice_value), (across, up), xytext=(5, 3), textcoords="offset points", fontsize=7.5)
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel(covariate.name)
    axis.set_ylabel(plain(name))
    return figure


MOST_GAPS = 60  # in one figure


def comparison_figures(found: Sequence[Finding], runs: Mapping[str, Mapping[str, pd.DataFrame]]) -> Iterator[Drawn]:
    """For each study its gap by model; where two kinds of score should agree, their scatter, and one by template.

    Args:
        found: findings of every model, which may have any name.
        runs: scored rows by study and model, where they are at hand.
    """
    if not found and not runs:  # loading what draws takes longer than to see that
        return
    with _styled("page"):
        every = list(dict.fromkeys(one.model_id for one in found))
        for study in dict.fromkeys(one.study for one in found):
            yield from _gaps_by_model(study, [one for one in found if one.study == study], every)
        for study, models in runs.items():
            kinds = agreeing(load_study(study))
            if kinds:
                yield from _agreement_scatter(study, kinds, condition_scores(load_study(study), models))
                yield from _by_template(study, kinds[1], models)


def _gaps_by_model(study: str, found: Sequence[Finding], models: list[str]) -> Iterator[Drawn]:
    for experiment in load_study(study).experiments:
        mine = [
            one
            for one in found
            if (one.experiment, one.measure, one.slice_by, one.score, one.view)
            == (experiment.name, experiment.measure, "all", "score", "")
        ][:MOST_GAPS]
        if len({one.model_id for one in mine}) < 2:
            continue
        figure = _figure(figsize=(6.4, 0.9 + 0.32 * len(mine)), layout="constrained")
        axis = figure.subplots()
        axis.axvline(0, color="#999999", linewidth=0.8)
        for row, one in enumerate(mine):
            estimate, place = one.estimate, models.index(one.model_id)
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
            axis.hlines(row, estimate.ci_low, estimate.ci_high, color=colour, linewidth=1.3)
            axis.plot(estimate.value, row, marker, color=colour, markersize=5)
        axis.set_yticks(range(len(mine)), [shown(f"{one.model_id} {plain(one.subset)}".strip()) for one in mine])
        axis.set_ylim(len(mine) - 0.5, -0.5)
        axis.set_xlabel(f"{plain(mine[0].contrast)}, {mine[0].unit}")
        caption = f"Gap ({plain(mine[0].contrast)}) by model, with 95 % intervals."
        yield saved(f"{study}-{experiment.name}-by-model", study, caption, figure)


def _agreement_scatter(study: str, kinds: Sequence[Experiment], scores: pd.DataFrame) -> Iterator[Drawn]:
    if not len(scores):
        return
    figure = _figure(figsize=(6.2, 4.6), layout="constrained")
    axis = figure.subplots()
    for group, part in scores.groupby("group", sort=False):
        place = group_place(kinds[0], str(group)) % len(COLOURS)
        axis.plot(
            part[kinds[0].name], part[kinds[1].name], MARKERS[place], markersize=4.5, alpha=0.75,
            color=COLOURS[place], label=group_name(kinds[0], str(group)),
        )  # fmt: skip
    axis.set_xlabel(kinds[0].unit)
    axis.set_ylabel(kinds[1].unit)
    axis.legend(frameon=False, fontsize=8)
    caption = f"Each condition's {kinds[0].unit} ({kinds[0].name}) against its {kinds[1].unit} ({kinds[1].name})."
    yield saved(f"{study}-scatter", study, caption, figure)


def _by_template(study: str, experiment: Experiment, models: Mapping[str, pd.DataFrame]) -> Iterator[Drawn]:
    rows = [part[part["experiment"] == experiment.name] for part in models.values()]
    both = pd.concat(rows) if rows else pd.DataFrame()
    if not len(both):
        return
    table = both.pivot_table(index=["model_id", "template"], columns="group", values="score", sort=False)
    figure = _figure(figsize=(6.4, 1.0 + 0.42 * len(table)), layout="constrained")
    axis = figure.subplots()
    hatches = ("", "//", "..", "xx", "\\\\")  # of the same groups as the colours
    for shift, group in enumerate(table.columns):
        place = group_place(experiment, str(group)) % len(COLOURS)
        rows_at = [row + 0.25 * (shift - 1) for row in range(len(table))]
        named = group_name(experiment, str(group))
        axis.barh(
            rows_at, table[group], 0.22, color=COLOURS[place], hatch=hatches[place], edgecolor="white", label=named
        )
    axis.set_yticks(range(len(table)), [shown(f"{model}: {template}") for model, template in table.index])
    axis.set_xlim(0, 1)
    axis.set_xlabel(experiment.unit)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    caption = f"Mean {experiment.unit} by model and template."
    yield saved(f"{study}-{experiment.name}-shares", study, caption, figure)
