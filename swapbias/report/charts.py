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

    ``group`` chooses colour and shape, None: a gap, which is no group's. A hollow dot is no finding. ``least`` and
    ``most`` are bounds: what the value can be whatever is missing, which is no interval and is not drawn as one.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    group: int | None = None
    hollow: bool = False
    least: float = math.nan
    most: float = math.nan


def _ticks(low: float, high: float, parts: int) -> list[float]:
    """Round numbers, zero among them."""
    step = 10 ** math.floor(math.log10((high - low) / parts))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (times * step) <= parts)
    return [step * count for count in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def strip(dots: Sequence[Dot], axis: Axis, *, title: str = "") -> Markup:
    """One row: the margin band, zero, and each dot with its interval.

    Args:
        dots: drawn one below the other.
        axis: shared by all the rows of a chart.
        title: read out by a screen reader; blank: the row's text says the same, and the picture is skipped.
    """
    height = _HEIGHT + 13 * max(0, len(dots) - 1)
    role = Markup('role="img" aria-label="{}"').format(title) if title else Markup('aria-hidden="true"')
    body = [_ground(axis, height)]
    body += [_dot(one, axis, _HEIGHT / 2 + 13 * place) for place, one in enumerate(dots)]
    return Markup('<svg class="strip" width="100%" height="{}" {} focusable="false">{}</svg>').format(
        height, role, Markup("").join(body)
    )


def _ground(axis: Axis, height: int) -> Markup:
    band = Markup("")
    if math.isfinite(axis.margin):
        left, right = axis.at(-axis.margin), axis.at(axis.margin)
        band = Markup('<rect class="band" x="{}%" y="0" width="{}%" height="{}"/>').format(
            left, round(right - left, 2), height
        )
    zero = axis.at(0)
    return band + Markup('<line class="zero" x1="{0}%" x2="{0}%" y1="0" y2="{1}"/>').format(zero, height)


def _dot(one: Dot, axis: Axis, y: float) -> Markup:
    if math.isnan(one.value):
        return Markup("")
    kind, shape = ("gap", _SHAPES[0]) if one.group is None else _look(one.group)
    drawn = Markup("")
    if math.isfinite(one.least) and math.isfinite(one.most):
        left, right = axis.at(one.least), axis.at(one.most)
        drawn += Markup(
            '<g class="bounds"><line x1="{0}%" x2="{1}%" y1="{2}" y2="{2}"/><line x1="{0}%" x2="{0}%" y1="{3}" '
            'y2="{4}"/><line x1="{1}%" x2="{1}%" y1="{3}" y2="{4}"/></g>'
        ).format(left, right, y, y - 7, y + 7)
    if math.isfinite(one.low) and math.isfinite(one.high):
        drawn += Markup('<line class="ci {}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(
            kind, axis.at(one.low), axis.at(one.high), y, y
        )
    return drawn + Markup('<svg x="{}%" y="{}" overflow="visible"><path class="dot {}{}" d="{}"/></svg>').format(
        axis.at(one.value), y, kind, " hollow" if one.hollow else "", shape
    )


def _look(group: int) -> tuple[str, str]:
    """The class of a group's colour and its shape."""
    return f"g{group % _COLOURS}", _SHAPES[group % len(_SHAPES)]


def ruler(axis: Axis, unit: str = "") -> Markup:
    """The scale below or above the rows: ticks with their numbers."""
    digits = max(0, -math.floor(math.log10(min((abs(one) for one in axis.ticks if one), default=1)) + 1e-9))
    parts = []
    for one in axis.ticks:
        x, told = (
            axis.at(one),
            f"{one:+.{digits}f}".replace("-", "−") if one and axis.low < 0 else f"{one:.{digits}f}",
        )
        anchor = "start" if x < 6 else "end" if x > 94 else "middle"
        line = Markup('<line class="tick" x1="{0}%" x2="{0}%" y1="0" y2="4"/>').format(x)
        parts.append(line + Markup('<text x="{}%" y="16" text-anchor="{}">{}</text>').format(x, anchor, told))
    said = f"scale from {axis.ticks[0]:g} to {axis.ticks[-1]:g} {unit}".strip() if axis.ticks else "scale"
    return Markup('<svg class="ruler" width="100%" height="20" role="img" aria-label="{}">{}</svg>').format(
        said, Markup("").join(parts)
    )


def key(group: int) -> Markup:
    """The shape of a group, for a legend."""
    colour, shape = _look(group)
    return Markup(
        '<svg class="key" width="14" height="14" aria-hidden="true"><path transform="translate(7 7)" '
        'class="dot {}" d="{}"/></svg>'
    ).format(colour, shape)


def interval_key() -> Markup:
    """A dot with its interval, for a legend."""
    return Markup(
        '<svg class="key" width="34" height="14" aria-hidden="true"><line class="ci gap" x1="3" x2="31" y1="7" '
        'y2="7"/><path transform="translate(17 7)" class="dot gap" d="{}"/></svg>'
    ).format(_SHAPES[0])


def bounds_key() -> Markup:
    """Bounds without a dot, for a legend."""
    return Markup(
        '<svg class="key" width="34" height="14" aria-hidden="true"><g class="bounds"><line x1="2" x2="32" y1="7" '
        'y2="7"/><line x1="2" x2="2" y1="1" y2="13"/><line x1="32" x2="32" y1="1" y2="13"/></g></svg>'
    )


def stack(shares: Sequence[float], title: str = "") -> Markup:
    """Parts of a whole beside each other, from left to right in shades of their own, divided by lines.

    Args:
        shares: from 0 to 1; what lacks to 1 stays blank.
        title: as in ``strip``.
    """
    role = Markup('role="img" aria-label="{}"').format(title) if title else Markup('aria-hidden="true"')
    whole, at, parts = Axis(0.0, 1.0, ()), 0.0, []
    for place, share in enumerate(shares):
        left, right = whole.at(at), whole.at(at + share)
        at += share
        if right > left:
            parts.append(
                Markup('<rect class="part p{}" x="{}%" width="{}%" y="4" height="16"/>').format(
                    place, left, round(right - left, 2)
                )
            )
    return Markup('<svg class="strip" width="100%" height="{}" {} focusable="false">{}</svg>').format(
        _HEIGHT, role, Markup("").join(parts)
    )


def stack_key(place: int) -> Markup:
    """The shade of a part of a whole, for a legend."""
    return Markup(
        '<svg class="key" width="14" height="14" aria-hidden="true"><rect class="part p{}" x="1" y="1" width="12" '
        'height="12"/></svg>'
    ).format(place)
