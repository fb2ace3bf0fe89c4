"""Pictures of pairs for a page: the distribution of their gaps, and the score of one group against the other's."""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from swapbias.files import as_csv
from swapbias.report.charts import Axis
from swapbias.report.finding_charts import FOLDED_AFTER
from swapbias.report.finding_names import group_name, safe_line
from swapbias.report.numbers import format_number
from swapbias.report.page_template import load_template
from swapbias.report.pair_gaps import (
    Level,
    PairGaps,
    factors_with_levels,
    levels_of_factor,
    pairs_of_models,
    table_of_pairs,
)
from swapbias.report.scored_pairs import EQUAL
from swapbias.studies import Experiment

_BINS = 48  # of a histogram
_CELLS = 40  # of a scatter, on each side
_LARGEST_DOT = 7.0  # radius in pixels
_SMALLEST_DOT = 2.2
_BAR_HEIGHT = 24.0
_LONGEST_NAME = 34  # letters of a level's name in a picture
_MOST_PAIRS = 5_000  # of a table in the page
ALL_PAIRS = "all pairs"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with its files."""

    title: str
    """Its heading."""
    svg: Markup
    """The picture, in the colours of the page."""
    svg_file: str
    """The picture as a file of its own: an address of data."""
    file_name: str
    """Name of the file, without an ending."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Mean gaps by level of a random factor, in one set of texts."""

    title: str
    """Name of the factor, and of the set."""
    picture: Picture
    """Distribution of the gaps of the levels with the largest means."""
    levels: tuple[Level, ...]
    """Every level, that with the largest mean first."""


@dataclass(frozen=True, slots=True)
class PairPictures:
    """Everything that a page draws of the pairs of one model and two groups."""

    title: str
    """Model and groups, where a page has several; else blank."""
    gaps: PairGaps
    """The pairs."""
    distribution: Picture
    """Distribution of the gaps, by set."""
    scatter: Picture
    """Scores of one group against those of the other."""
    breakdowns: tuple[Breakdown, ...]
    """Gaps by level of each random factor."""
    csv_file: str
    """The table of pairs: an address of data; blank where there are too many."""


def pictures_of_pairs(
    experiment: Experiment, items: pd.DataFrame, texts: Mapping[str, str], address: str
) -> list[PairPictures]:
    """Return the pictures of each model and contrast whose pairs have different gaps.

    Args:
        experiment: the experiment in the unit of the scores.
        items: its scored rows.
        texts: by template the words that all its texts share.
        address: the address of the question on the page, for names of files.
    """
    by_model = pairs_of_models(experiment, items, texts)
    several_models = len({gaps.model_id for gaps in by_model}) > 1
    several_contrasts = len(experiment.gaps) > 1
    drawn = []
    for index, gaps in enumerate(by_model):
        if gaps.pairs["gap"].max() - gaps.pairs["gap"].min() < EQUAL:
            continue
        names = [gaps.model_id] if several_models else []
        if several_contrasts:
            names.append(gaps.subtraction)
        stem = f"{address}.{index}" if len(by_model) > 1 else address
        drawn.append(_draw(gaps, ", ".join(names), stem))
    return drawn


def _draw(gaps: PairGaps, title: str, stem: str) -> PairPictures:
    """Return the pictures of the pairs of one model and two groups."""
    breakdowns = []
    sliced = {slice_by.column for slice_by in gaps.contrast.shows.slices}  # have charts already
    for of_set in dict.fromkeys(gaps.pairs["set"]):
        for column, factor in factors_with_levels(gaps):
            if column in sliced:
                continue
            levels = levels_of_factor(gaps, column, of_set)
            if len(levels) < 2:
                continue
            name = f"{factor}, {group_name(gaps.contrast, of_set)}" if of_set else factor
            file_name = ".".join(filter(None, [stem, "gaps", column, of_set]))
            picture = draw_distribution(gaps, f"by {name}", levels[:FOLDED_AFTER], file_name)
            breakdowns.append(Breakdown(f"by {name}", picture, tuple(levels)))
    sets = [
        Level(group_name(gaps.contrast, of_set) if of_set else ALL_PAIRS, tuple(part["gap"]))
        for of_set, part in gaps.pairs.groupby("set", sort=False)
    ]
    csv_file = ""
    if len(gaps.pairs) <= _MOST_PAIRS:
        csv_file = _data_address("text/csv", as_csv(table_of_pairs(gaps)))
    return PairPictures(
        title,
        gaps,
        draw_distribution(gaps, "Gaps of all pairs", sets, f"{stem}.gaps"),
        draw_scatter(gaps, f"{stem}.scores"),
        tuple(breakdowns),
        csv_file,
    )


def draw_distribution(
    gaps: PairGaps, title: str, levels: Sequence[Level], file_name: str
) -> Picture:
    """Return a histogram of gaps for each level, one below the other on one scale.

    Args:
        gaps: all pairs of the two groups, which set the scale.
        title: its heading.
        levels: the levels, the first one at the top.
        file_name: the name of its file, without an ending.
    """
    axis = Axis.over(gaps.pairs["gap"])
    rows = []
    for level in levels:
        words = f"mean {gaps.mean_of(level)}, n {len(level.gaps)}"
        row = {"name": safe_line(level.name, _LONGEST_NAME), "words": words, "mean": level.mean}
        rows.append({**row, "bars": _bars(level.gaps, axis)})
    unit = gaps.written.unit
    label = ", ".join(filter(None, [gaps.subtraction, unit]))
    values = {"rows": rows, "axis": axis, "label": label, "bar_height": _BAR_HEIGHT}
    return _picture("distribution", title, file_name, values)


def _bars(gaps: Sequence[float], axis: Axis) -> list[tuple[float, float]]:
    """Return place in percent of the width and height in pixels of each bar that is not empty."""
    counts = Counter(_bin(gap, axis, _BINS) for gap in gaps)
    highest = max(counts.values())
    return [
        (2 + 96 * index / _BINS, _BAR_HEIGHT * max(0.08, count / highest))
        for index, count in sorted(counts.items())
    ]


def _bin(value: float, axis: Axis, n_bins: int) -> int:
    """Return the number of the bin of an axis in which a value lies."""
    share = (value - axis.low) / (axis.high - axis.low)
    return min(n_bins - 1, max(0, int(share * n_bins)))


def draw_scatter(gaps: PairGaps, file_name: str) -> Picture:
    """Return the score of one group against that of the other: a dot is larger, the more pairs lie there.

    Args:
        gaps: the pairs of two groups.
        file_name: the name of its file, without an ending.
    """
    first, second = gaps.groups
    scores = [*gaps.pairs["first"], *gaps.pairs["second"]]
    axis = Axis.over(scores)
    counts = Counter(
        (_bin(across, axis, _CELLS), _bin(up, axis, _CELLS))
        for up, across in zip(gaps.pairs["first"], gaps.pairs["second"], strict=True)
    )
    most = max(counts.values())
    dots = [
        {
            "x": 2 + 96 * (across + 0.5) / _CELLS,
            "y": 2 + 96 * (up + 0.5) / _CELLS,
            "radius": max(_SMALLEST_DOT, _LARGEST_DOT * (count / most) ** 0.5),
            "n": count,
        }
        for (across, up), count in sorted(counts.items())
    ]
    unit = gaps.written.unit
    labels = [", ".join(filter(None, [group, unit])) for group in (second, first)]
    values = {"dots": dots, "axis": axis, "labels": labels}
    return _picture("scatter", f"{first} against {second}", file_name, values)


def _picture(kind: str, title: str, file_name: str, values: Mapping[str, Any]) -> Picture:
    """Return a picture and its file, both from one template."""
    template = load_template(f"{kind}.svg.j2")
    common = {**values, "title": title, "format_number": format_number}
    svg = Markup(template.render(**common, standalone=False))
    file = template.render(**common, standalone=True)
    return Picture(
        title, svg, _data_address("image/svg+xml", file.encode(errors="replace")), file_name
    )


def _data_address(media_type: str, content: bytes) -> str:
    """Return a file as an address of data."""
    encoded = base64.b64encode(content).decode()
    return f"data:{media_type};charset=utf-8;base64,{encoded}"
