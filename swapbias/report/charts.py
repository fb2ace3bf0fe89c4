"""Values with their intervals on one scale, which ``charts.html.j2`` draws, and forest plots for papers."""

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swapbias.findings import Finding, experiment_of
from swapbias.measures import MEASURES
from swapbias.report import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHAPES = (
    "M0-5a5 5 0 1 0 .01 0z",  # circle
    "M-4.5-4.5h9v9h-9z",  # square
    "M0-6l6 6-6 6-6-6z",  # diamond
    "M0-5.5l5.5 10h-11z",  # triangle
    "M-5-5l10 10M-5 5L5-5",  # cross
)
_COLOURS = 9  # of page.css; with five shapes no two of 45 groups look alike


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a chart: each cell is its text and the number to sort by."""

    name: str
    dots: Sequence["Dot"]
    cells: tuple[tuple[str, float | None], ...]
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Values with intervals on one scale, as rows of a table, in parts with a heading each."""

    name: str
    caption: str
    heads: tuple[str, ...]
    parts: Mapping[str, Sequence[Row]]
    axis: "Axis | None" = None
    """None: a table without pictures."""
    unit: str = ""
    keys: tuple[tuple[int, str], ...] = ()
    """Groups and their names."""
    first: str = "what"
    """The head of the first column."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What a picture's width stands for; a gap between ``-margin`` and ``margin`` counts as none, NaN: no band."""

    low: float
    high: float
    ticks: tuple[float, ...]
    margin: float = math.nan

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Where each tick lies, and its number."""
        digits = max(
            0,
            -math.floor(math.log10(min((abs(one) for one in self.ticks if one), default=1)) + 1e-9),
        )
        return [
            (self.at(one), text.number(one, signed=self.low < 0, digits=digits))
            for one in self.ticks
        ]

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        *,
        margin: float = math.nan,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> "Axis":
        """An axis that holds zero, the margin and every value, and does not go beyond least and most."""
        known = [0.0, *(one for one in values if math.isfinite(one))]
        known += [-margin, margin] if math.isfinite(margin) else []
        low, high = max(least, min(known)), min(most, max(known))
        room = 0.06 * (high - low) or 1.0
        low, high = (
            max(least, low - room if low < 0 else low),
            min(most, high + room if high > 0 else high),
        )
        high = high if high > low else low + 1  # nothing but zero, at an end of its range
        step = 10 ** math.floor(math.log10((high - low) / 5))
        step *= next(times for times in (1, 2, 5, 10) if (high - low) / (times * step) <= 5)
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        return cls(low, high, tuple(step * count for count in range(first, last + 1)), margin)

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width; values beyond an end lie there."""
        share = (value - self.low) / (self.high - self.low)
        return round(2 + 96 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval, NaN for none; ``group`` chooses colour and shape; a hollow dot is no finding."""

    value: float
    low: float = math.nan
    high: float = math.nan
    group: int | None = None
    hollow: bool = False


def look(group: int | None) -> tuple[str, str]:
    """The class of a group's colour in ``page.css``, and its shape as a path of SVG."""
    return (
        ("gap", _SHAPES[0])
        if group is None
        else (f"g{group % _COLOURS}", _SHAPES[group % len(_SHAPES)])
    )


# Okabe-Ito colours, and a shape for each: groups differ in grey and with any colour vision.
LOOKS = (("#D55E00", "o"), ("#0072B2", "s"), ("#777777", "D"), ("#009E73", "^"), ("#CC79A7", "X"))
FORMATS = ("pdf", "svg", "png")
# Text stays text, in fonts that journals take (TrueType, not Type 3); a dollar in a name is one.
STYLE: Mapping[Any, Any] = {
    "svg.hashsalt": "swapbias", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 8.0,
    "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False,
}  # fmt: skip


def draw_figures(found: Sequence[Finding], file_format: str) -> dict[str, bytes]:
    """Forest plots of primary gaps, means and gaps by slice, by name; the same findings give the same bytes."""
    from matplotlib import rc_context

    plots: dict[str, list[Finding]] = {"results": []}
    several = len({one.model_id for one in found}) > 1
    for one in found:
        experiment = experiment_of(one)
        is_gap = MEASURES[one.measure].gap_span > 0
        is_level = (
            one.measure == "mean"
            and experiment is not None
            and one.contrast in experiment.shows.levels
        )
        if one.primary and is_gap and one.scale.in_points:
            plots["results"].append(one)
        if (is_gap or is_level) and one.slice_by != "all" and one.score == "score" and not one.view:
            names = [one.study, one.experiment, one.slice_by, "gap" if is_gap else "levels"]
            name = "-".join([*names, *[text.shown(one.model_id)] * several])
            plots.setdefault(re.sub(r"[^A-Za-z0-9._-]+", "-", name), []).append(one)
    made = {}
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file_format)
    with rc_context(dict(STYLE)):
        for name, rows in plots.items():
            values = {
                round(one.estimate.value, 9) for one in rows if not math.isnan(one.estimate.value)
            }
            if len(values) > (name != "results"):
                buffer = io.BytesIO()
                forest(rows).savefig(
                    buffer, format=file_format, dpi=300, bbox_inches="tight", metadata=undated
                )
                made[name] = buffer.getvalue()
    return made


def forest(found: Sequence[Finding]) -> "Figure":
    """Values on one scale with their 95 % intervals; the band is the margin; each group has a colour and a shape."""
    from matplotlib.figure import Figure

    rows: dict[str, list[Finding]] = {}
    for one in found:
        names = [text.plain(one.subset), text.value_name(one.slice_value)]
        if one.primary:
            names = [f"{one.study}:{one.experiment}", text.row_name(one), text.shown(one.model_id)]
        rows.setdefault(", ".join(filter(None, names)), []).append(one)
    figure = Figure(figsize=(6.9, 0.8 + 0.22 * len(rows)), layout="constrained")
    axis = figure.add_subplot()
    labels = {""}
    if margins := [
        one.margin * text.form(one).factor for one in found if not math.isnan(one.margin)
    ]:
        axis.axvspan(-max(margins), max(margins), color="#dfe7ef", zorder=0)
    for row, place, beside, one in (
        (row, place, len(mine), one)
        for row, mine in enumerate(rows.values())
        for place, one in enumerate(mine)
    ):
        (colour, marker), name, written = ("#222222", "o"), "", text.form(one)
        if one.measure == "mean" and (experiment := experiment_of(one)):
            name = text.group_name(experiment, one.contrast)
            colour, marker = LOOKS[text.group_place(experiment, one.contrast) % len(LOOKS)]
        y, (low, high) = row + 0.5 * (place - (beside - 1) / 2) / beside, text.within(one)
        axis.hlines(y, written.at(low), written.at(high), color=colour, linewidth=1.2)
        label = f"_{name}" if name in labels else name
        axis.plot(
            [written.at(one.estimate.value)], [y], marker, color=colour, markersize=4, label=label
        )
        labels.add(name)
    axis.axvline(0, color="#777777", linewidth=0.8, zorder=0)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(text.form(found[0]).unit)
    if len(labels) > 1:
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
