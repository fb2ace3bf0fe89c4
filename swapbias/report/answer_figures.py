"""Figures of a chat model's answers: bias by adjectives beside the baseline, and what was answered."""

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from swapbias.answer_findings import BASELINE
from swapbias.answers import CLASSES, SAID
from swapbias.declaring import Experiment
from swapbias.finding import Finding
from swapbias.report.drawing import COLOURS, Drawn, saved
from swapbias.report.words import plain


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
                "intervals over sentence pairs, each averaged over its trials; the band is the interval without "
                "adjectives."
            )
            yield saved(f"{study}-{experiment.name}-bias", study, caption, _bias(gaps))
        if rows is not None and f"{SAID}{CLASSES[0]}" in rows:
            caption = f"{model}: what was answered, in percent, by side and adjectives (tolerant parser)."
            figure = _classes(rows[rows["model_id"] == model], experiment)
            yield saved(f"{study}-{experiment.name}-classes", study, caption, figure)


def _bias(found: Sequence[Finding]) -> Figure:
    figure = Figure(figsize=(6.6, 1.1 + 0.27 * len(found)), layout="constrained")
    axis = figure.subplots()
    ordered = sorted(found, key=lambda one: one.estimate.value)
    for one in found:
        if one.slice_value == BASELINE:
            axis.axvspan(one.estimate.ci_low, one.estimate.ci_high, color=COLOURS[2], alpha=0.18, linewidth=0)
            axis.axvline(one.estimate.value, color=COLOURS[2], linewidth=0.9)
    axis.axvline(0, color="#999999", linewidth=0.8)
    for row, one in enumerate(ordered):
        colour = COLOURS[2] if one.slice_value == BASELINE else COLOURS[1]
        axis.hlines(row, one.estimate.ci_low, one.estimate.ci_high, color=colour, linewidth=1.3)
        axis.plot(one.estimate.value, row, "o", markersize=4.5, color=colour)
    axis.set_yticks(range(len(ordered)), [plain(one.slice_value) for one in ordered], fontsize=8.5)
    axis.set_ylim(len(ordered) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("bias, percentage points")
    return figure


def _classes(rows: pd.DataFrame, experiment: Experiment) -> Figure:
    sides = (experiment.group, experiment.reference_group)
    conditions = list(dict.fromkeys(rows["condition"]))
    figure = Figure(figsize=(8.2, 1.2 + 0.27 * len(conditions)), layout="constrained")
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
