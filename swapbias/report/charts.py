"""Values with their intervals on one scale, which ``charts.html.j2`` draws."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from swapbias.findings import Finding
from swapbias.report.numbers import (
    finding_format,
    format_interval,
    format_number,
)

_ROOM = 0.06  # share of the axis that is left beyond the outermost values
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
    """A row of a chart."""

    name: str
    """Text of its first cell."""
    dots: Sequence["Dot"]
    """Values of its picture, one above the other."""
    cells: tuple[tuple[str, float | None], ...]
    """Text of each further cell, and the number to sort by."""
    primary: bool = False
    """Whether it answers the question of its experiment."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Values with intervals on one scale, as rows of a table, in parts with a heading each."""

    name: str
    """Heading; blank for the chart of an answer."""
    caption: str
    """Sentence above it; blank for none."""
    heads: tuple[str, ...]
    """Heads of the columns behind the picture."""
    parts: Mapping[str, Sequence[Row]]
    """Rows by the heading of their part; blank for the only one."""
    axis: "Axis | None" = None
    """Scale of the pictures; None for a table without pictures."""
    unit: str = ""
    """Unit of the scale."""
    keys: tuple[tuple[int, str], ...] = ()
    """Groups and their names, for a legend."""
    first: str = "what"
    """Head of the first column."""
    folded: bool = False
    """Whether a page unfolds it on request alone."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Scale of a picture over its whole width."""

    low: float
    """Value at the left end."""
    high: float
    """Value at the right end."""
    ticks: tuple[float, ...]
    """Values with a mark."""
    margin: float = math.nan
    """Size of a gap that counts as none; NaN: there is no band around zero."""

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Position of each tick in percent of the width, and its number."""
        smallest = min((abs(tick) for tick in self.ticks if tick), default=1)
        digits = max(0, -math.floor(math.log10(smallest) + 1e-9))
        is_signed = self.low < 0
        return [
            (self.at(tick), format_number(tick, signed=is_signed, digits=digits))
            for tick in self.ticks
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
        """Return an axis that holds zero, the margin and every value.

        Args:
            values: values on the scale; those that are not finite are left out.
            margin: the margin of a gap that counts as none; NaN for none.
            least: the end that the axis does not go below.
            most: the end that it does not go beyond.
        """
        drawn = [0.0, *(value for value in values if math.isfinite(value))]
        if math.isfinite(margin):
            drawn += [-margin, margin]
        low = max(least, min(drawn))
        high = min(most, max(drawn))
        room = _ROOM * (high - low) or 1.0
        if low < 0:
            low = max(least, low - room)
        if high > 0:
            high = min(most, high + room)
        if high <= low:  # nothing but zero, at an end of its range
            high = low + 1
        step = _tick_step(low, high)
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        ticks = tuple(step * count for count in range(first, last + 1))
        return cls(low, high, ticks, margin)

    def at(self, value: float) -> float:
        """Return where a value lies, in percent of the width; a value beyond an end lies there.

        Args:
            value: the value on the scale.
        """
        share = (value - self.low) / (self.high - self.low)
        return round(2 + 96 * min(1.0, max(0.0, share)), 2)


def _tick_step(low: float, high: float) -> float:
    """Return a round distance between ticks, of which at most five fit between the ends."""
    step: float = 10 ** math.floor(math.log10((high - low) / 5))
    times = next(times for times in (1, 2, 5, 10) if (high - low) / (times * step) <= 5)
    return step * times


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval."""

    value: float
    """Position on the scale."""
    low: float = math.nan
    """Lower end of the interval; NaN for none."""
    high: float = math.nan
    """Upper end of the interval; NaN for none."""
    group: int | None = None
    """Chooses colour and shape; None for those of a gap."""
    hollow: bool = False
    """Whether it may be zero."""


def look(group: int | None) -> tuple[str, str]:
    """Return the class of a group's colour in ``page.css``, and its shape as a path of SVG.

    Args:
        group: its number; None for a gap.
    """
    if group is None:
        return "gap", _SHAPES[0]
    return f"g{group % _COLOURS}", _SHAPES[group % len(_SHAPES)]


def value_above_interval(finding: Finding, *, in_own_unit: bool = False) -> Markup:
    """Write a value with its 95 % interval below it in small letters, and its bounds if answers are missing.

    Args:
        finding: a finding of any measure.
        in_own_unit: write them in the unit of the scores.
    """
    written = finding_format(finding, in_own_unit=in_own_unit)
    lines = [format_interval(finding, in_own_unit=in_own_unit)]
    if lines == ["–"]:
        lines = []
    if finding.measure == "mean" and finding.bounds:
        bounds = " to ".join(map(written, finding.bounds))
        lines.append(f"{bounds} whatever was not answered")
    below = Markup("").join(Markup("<br><small>{}</small>").format(line) for line in lines)
    return Markup("{}").format(written(finding.estimate.value)) + below
