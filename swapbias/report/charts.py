"""Values with their intervals as rows of SVG on one scale: small enough to stand in the cells of a table.

All positions are shares of the width, so that a picture is as wide as its cell while dots and text keep their size.
Colours are classes of ``page.css``; each group has a shape of its own besides.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

_SHAPES = (
    "M0-5a5 5 0 1 0 .01 0z",  # circle
    "M-4.5-4.5h9v9h-9z",  # square
    "M0-6l6 6-6 6-6-6z",  # diamond
    "M0-5.5l5.5 10h-11z",  # triangle
    "M-5-5l10 10M-5 5L5-5",  # cross
)
_COLOURS = 9  # of page.css; with five shapes no two of 45 groups look alike
_HEIGHT = 24


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a chart; ``cells`` hold what is shown and the number to sort by, NaN: missing, None: by its text.

    ``find`` is what a link to its pairs asks for.
    """

    name: str
    picture: Markup
    cells: tuple[tuple[str, float | None], ...]
    find: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Values with intervals on one scale, as rows of a table, in parts with a heading each.

    ``said`` stands in place of rows that are all the same.
    """

    name: str
    caption: str
    heads: tuple[str, ...]
    parts: tuple[tuple[str, tuple[Row, ...]], ...]
    ruler: Markup
    keys: tuple[tuple[Markup, str], ...] = ()
    said: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """What a picture's width stands for.

    Attributes:
        low, high: the values at its ends.
        ticks: values that are marked.
        margin: half the width of the band about zero in which a gap counts as none; NaN for no band.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    margin: float = math.nan

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        *,
        margin: float = math.nan,
        least: float = -math.inf,
        most: float = math.inf,
        parts: int = 5,
    ) -> "Axis":
        """An axis that holds zero, the margin and every value, and leaves the range from least to most to none.

        Its ticks cut it into about so many ``parts`` at most, which have room where it is narrow.
        """
        known = [0.0, *(one for one in values if math.isfinite(one))]
        known += [-margin, margin] if math.isfinite(margin) else []
        low, high = max(least, min(known)), min(most, max(known))
        room = 0.06 * (high - low) or 1.0
        low, high = max(least, low - room if low < 0 else low), min(most, high + room if high > 0 else high)
        if high <= low:  # nothing but zero, at an end of its range
            high = low + 1
        return cls(low, high, tuple(_ticks(low, high, parts)), margin)

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width; values beyond an end lie there."""
        share = (value - self.low) / (self.high - self.low)
        return round(2 + 96 * min(1.0, max(0.0, share)), 2)


@dataclass(frozen=True, slots=True)
class Dot:
    """A value with its interval; NaN for none.

    ``group`` chooses colour and shape, None: a gap, which is no group's. A hollow dot is no finding.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    group: int | None = None
    hollow: bool = False


def _ticks(low: float, high: float, parts: int) -> list[float]:
    """Round numbers, zero among them."""
    step = 10 ** math.floor(math.log10((high - low) / parts))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (times * step) <= parts)
    return [step * count for count in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def strip(dots: Sequence[Dot], axis: Axis) -> Markup:
    """One row: the margin band, zero, and each dot with its interval, one below the other."""
    height, body = _HEIGHT + 13 * max(0, len(dots) - 1), ""
    if math.isfinite(axis.margin):
        left, right = axis.at(-axis.margin), axis.at(axis.margin)
        body = f'<rect class="band" x="{left}%" y="0" width="{right - left:.2f}%" height="{height}"/>'
    body += f'<line class="zero" x1="{axis.at(0)}%" x2="{axis.at(0)}%" y1="0" y2="{height}"/>'
    body += "".join(_dot(one, axis, _HEIGHT / 2 + 13 * place) for place, one in enumerate(dots))
    return _picture("strip", height, body, "")


def _picture(kind: str, height: int, body: str, title: str) -> Markup:
    role = Markup('role="img" aria-label="{}"').format(title) if title else Markup('aria-hidden="true"')
    start = Markup('<svg class="{}" width="100%" height="{}" {} focusable="false">').format(kind, height, role)
    return start + Markup(f"{body}</svg>")  # of numbers and of our own names


def _dot(one: Dot, axis: Axis, y: float) -> str:
    if math.isnan(one.value):
        return ""
    kind, shape = ("gap", _SHAPES[0]) if one.group is None else _look(one.group)
    drawn = ""
    if math.isfinite(one.low) and math.isfinite(one.high):
        drawn = f'<line class="ci {kind}" x1="{axis.at(one.low)}%" x2="{axis.at(one.high)}%" y1="{y}" y2="{y}"/>'
    path = f'<path class="dot {kind}{" hollow" * one.hollow}" d="{shape}"/>'
    return f'{drawn}<svg x="{axis.at(one.value)}%" y="{y}" overflow="visible">{path}</svg>'


def _look(group: int) -> tuple[str, str]:
    """The class of a group's colour and its shape."""
    return f"g{group % _COLOURS}", _SHAPES[group % len(_SHAPES)]


def ruler(axis: Axis, unit: str = "") -> Markup:
    """The scale above the rows: ticks with their numbers."""
    digits = max(0, -math.floor(math.log10(min((abs(one) for one in axis.ticks if one), default=1)) + 1e-9))
    body = ""
    for one in axis.ticks:
        x, sign = axis.at(one), "+" if one and axis.low < 0 else ""
        number = f"{one:{sign}.{digits}f}".replace("-", "−")
        anchor = "start" if x < 6 else "end" if x > 94 else "middle"
        body += f'<line class="tick" x1="{x}%" x2="{x}%" y1="0" y2="4"/>'
        body += f'<text x="{x}%" y="16" text-anchor="{anchor}">{number}</text>'
    ends = f"scale from {axis.ticks[0]:g} to {axis.ticks[-1]:g} {unit}".strip() if axis.ticks else "scale"
    return _picture("ruler", 20, body, ends)


def key(group: int) -> Markup:
    """The shape of a group, for a legend."""
    return _key('<path transform="translate(7 7)" class="dot {}" d="{}"/>'.format(*_look(group)))


def stack_key(place: int) -> Markup:
    """The shade of a part of a whole, for a legend."""
    return _key(f'<rect class="part p{place}" x="1" y="1" width="12" height="12"/>')


def _key(body: str) -> Markup:
    return Markup(f'<svg class="key" width="14" height="14" aria-hidden="true">{body}</svg>')


def stack(shares: Sequence[float], title: str = "") -> Markup:
    """Parts of a whole, from 0 to 1, beside each other in shades of their own; a screen reader reads the title."""
    whole, at, body = Axis(0.0, 1.0, ()), 0.0, ""
    for place, share in enumerate(shares):
        left, right = whole.at(at), whole.at(at + share)
        at += share
        if right > left:
            body += f'<rect class="part p{place}" x="{left}%" width="{right - left:.2f}%" y="4" height="16"/>'
    return _picture("strip", _HEIGHT, body, title)
