"""Figures for papers: values with their intervals as a forest plot, drawn by matplotlib when they are asked for."""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swapbias.findings import Finding, experiment_of, headlines
from swapbias.measures import MEASURES
from swapbias.report import text
from swapbias.studies import Experiment, Slice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe-Ito colours, and a shape for each: groups differ in grey and with any colour vision.
COLOURS = ("#D55E00", "#0072B2", "#777777", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "D", "^", "X")
FORMATS = ("pdf", "svg", "png")
_GAP = "#222222"
_SHARED: dict[Any, Any] = {
    "svg.hashsalt": "swapbias",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a dollar in a name is one
}
# For papers text stays text, in fonts that journals take (TrueType, not Type 3).
STYLES: Mapping[str, Mapping[Any, Any]] = {
    "page": {**_SHARED, "font.size": 9.0},
    "paper": {**_SHARED, "font.size": 8.0, "pdf.fonttype": 42, "svg.fonttype": "none"},
}
_WIDTHS = {"page": 7.0, "paper": 6.9}  # inches; of a paper both columns
_NO_DATE: Mapping[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


@dataclass(frozen=True)
class Drawn:
    """A figure, with the sentence that says what it shows."""

    name: str
    study: str
    caption: str
    figure: "Figure"

    @property
    def png(self) -> bytes:
        """The figure as PNG."""
        return self.as_bytes("png")

    def as_bytes(self, kind: str, style: str = "page") -> bytes:
        """The figure in one of ``FORMATS``, the same bytes for the same drawing."""
        from matplotlib import rc_context

        buffer = io.BytesIO()
        with rc_context(dict(STYLES[style])):
            dpi = 150 if style == "page" else 600
            self.figure.savefig(buffer, format=kind, dpi=dpi, bbox_inches="tight", metadata=_NO_DATE[kind])
        return buffer.getvalue()


def draw_figures(found: Sequence[Finding], *, style: str = "page") -> list[Drawn]:
    """Forest plots of a run: its answers on one scale, then means and gaps by slice of each experiment and model.

    Args:
        found: findings of one run.
        style: of ``STYLES``.
    """
    answers = [one for one in headlines(found) if MEASURES[one.measure].reach and text.in_points(one.unit)]
    figures = []
    if any(not math.isnan(one.estimate.value) for one in answers):
        rows = [f"{one.study}:{one.experiment}, {text.row_name(one)}, {text.shown(one.model_id)}" for one in answers]
        caption = "Result of each question, in points, with 95 % intervals. The band is the margin."
        figures.append(Drawn("results", answers[0].study, caption, forest(answers, rows, "points", style=style)))
    for key in dict.fromkeys((one.study, one.experiment, one.model_id) for one in found):
        mine = [one for one in found if (one.study, one.experiment, one.model_id) == key]
        models = {one.model_id for one in found if one.study == key[0]}
        if experiment := experiment_of(mine[0]):
            model = f", {text.shown(key[2])}" * (len(models) > 1)
            figures += [one for each in experiment.slices for one in _of_slice(mine, experiment, each, model, style)]
    return figures


def _of_slice(
    found: Sequence[Finding], experiment: Experiment, slice_: Slice, model: str, style: str
) -> Iterator[Drawn]:
    """Means, then gaps by a slice: those of the published score whose values differ."""
    mine = [one for one in found if one.slice_by == slice_.name and one.score == "score" and not one.view]
    levels = [one for one in mine if one.measure == "mean" and one.contrast in experiment.levels]
    gaps = [one for one in mine if MEASURES[one.measure].reach]
    for kind, what, rows in (("levels", "Mean", levels), ("gap", "Gap", gaps)):
        if len({round(one.estimate.value, 9) for one in rows if not math.isnan(one.estimate.value)}) > 1:
            names = [
                ", ".join(filter(None, (text.plain(one.subset), text.value_name(one.slice_value)))) for one in rows
            ]
            unit = "points" if text.in_points(rows[0].unit) else rows[0].unit
            caption = f"{what} by {slice_.name} of {experiment.name}{model}, in {unit}, with 95 % intervals."
            file = f"{rows[0].study}-{experiment.name}-{slice_.name}-{kind}{model}"
            figure = forest(rows, names, unit, style=style)
            yield Drawn(re.sub(r"[^A-Za-z0-9._-]+", "-", file), rows[0].study, caption, figure)


def forest(found: Sequence[Finding], names: Sequence[str], unit: str, *, style: str = "page") -> "Figure":
    """Values with their intervals; findings of one name share a row, each group in its colour and shape.

    Args:
        found: values that stand on one scale.
        names: of the rows, one for each finding.
        unit: of the scale.
        style: of ``STYLES``.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows, seen = list(dict.fromkeys(names)), set()
    with rc_context(dict(STYLES[style])):
        figure = Figure(figsize=(_WIDTHS[style], 0.8 + 0.22 * len(rows)), layout="constrained")
        axis = figure.add_subplot()
        margins = {one.margin for one in found if not math.isnan(one.margin)}
        if margins:
            width = max(margins) * text.shown_factor(found[0])
            axis.axvspan(-width, width, color="#dfe7ef", zorder=0)
        for one, name in zip(found, names, strict=True):
            colour, marker, label = _look(one)
            scale, (low, high) = text.shown_factor(one), text.within(one)
            beside = [each for each, other in zip(found, names, strict=True) if other == name]
            place = rows.index(name) + 0.5 * (beside.index(one) - (len(beside) - 1) / 2) / max(1, len(beside))
            axis.hlines(place, scale * low, scale * high, color=colour, linewidth=1.2)
            axis.plot(
                [scale * one.estimate.value], [place], marker=marker, color=colour, markersize=4, linestyle="",
                label="_" if label in seen else label,
            )  # fmt: skip
            seen.add(label)
        axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
        axis.set_yticks(range(len(rows)), rows)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel(unit)
        if seen - {""}:
            axis.legend(loc="upper left", bbox_to_anchor=(0, -0.3 / figure.get_figheight()), ncols=3, frameon=False)
    return figure


def _look(finding: Finding) -> tuple[str, str, str]:
    """Colour, marker and label: a group's of a mean, that of gaps for any other value."""
    experiment = experiment_of(finding)
    if finding.measure != "mean" or experiment is None:
        return _GAP, "o", ""
    place = text.group_place(experiment, finding.contrast)
    return COLOURS[place % 5], MARKERS[place % 5], text.group_name(experiment, finding.contrast)
