"""What some studies have besides gaps: rates by phenotype, answers by class, words of explained notes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from swapbias.findings import Finding
from swapbias.measures import CLASSES, MEASURES, SAID
from swapbias.models.clinical import Explained
from swapbias.report import text
from swapbias.report.charts import Axis, Chart, Dot, Row, key, ruler, stack, stack_key, strip
from swapbias.studies import Experiment

# A class of answers as a reader knows it; the last is what no parser was given.
_ANSWERED = ("right", "wrong", "unsure", "refused", "unreadable", "no answer")


# --- rates --------------------------------------------------------------------------------------------


COLUMNS = 5  # of a table of rates: five stand side by side on a page of 1,400 pixels


@dataclass(frozen=True, slots=True)
class Cell:
    """One rate of one phenotype and regime: its picture, and for each group (blank: none) value and what it is of."""

    picture: Markup
    told: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class RateGrid:
    """One model's rates: a part for each phenotype, in it a row for each regime, a column for each rate."""

    model_id: str
    heads: tuple[tuple[str, Markup], ...]
    parts: tuple[tuple[str, tuple[tuple[str, tuple[Cell | None, ...]], ...]], ...]
    keys: tuple[tuple[Markup, str], ...] = ()
    performed: bool = False

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and last column of each table that the grid is shown as: no wider than a page is."""
        return [(start, min(start + COLUMNS, len(self.heads))) for start in range(0, len(self.heads), COLUMNS)]


def rate_grids(experiment: Experiment, found: Sequence[Finding]) -> list[RateGrid]:
    """Every tabled rate by slice, for each model: whatever there is, and for each group where a rate is a group's."""
    return _grids(experiment, found, lambda one: one.measure if MEASURES[one.measure].tabled else "")


def performance_grids(experiment: Experiment, found: Sequence[Finding]) -> list[RateGrid]:
    """How well each group is served, in its notes as written: a column holds both groups and their difference."""
    return [replace(one, performed=True) for one in _grids(experiment, found, lambda one: _performed(one.measure))]


def _performed(measure: str) -> str:
    return MEASURES[measure].performed


def _grids(experiment: Experiment, found: Sequence[Finding], column: Callable[[Finding], str]) -> list[RateGrid]:
    rates = [one for one in found if one.slice_by != "all" and column(one) and not one.view]
    return [
        _rate_grid(experiment, model, [one for one in rates if one.model_id == model], column)
        for model in dict.fromkeys(one.model_id for one in rates)
    ]


def _rate_grid(
    experiment: Experiment, model: str, rates: Sequence[Finding], column: Callable[[Finding], str]
) -> RateGrid:
    places = list(MEASURES)
    names = list(dict.fromkeys(column(one) for one in sorted(rates, key=lambda one: places.index(one.measure))))
    columns = {name: [one for one in rates if column(one) == name] for name in names}
    drawn = {name: _drawn(experiment, mine) for name, mine in columns.items()}
    axes = {name: _rate_axis(mine) for name, mine in drawn.items()}
    cells: dict[tuple[str, str, str], list[Finding]] = {}
    for one in rates:
        cells.setdefault((one.slice_value, one.subset, column(one)), []).append(one)
    phenotypes, regimes = (list(dict.fromkeys(place[part] for place in cells)) for part in range(2))

    def row(phenotype: str, regime: str) -> tuple[Cell | None, ...]:
        mine = [(name, cells.get((phenotype, regime, name))) for name in names]
        return tuple(_rate_cell(experiment, some, axes[name]) if some else None for name, some in mine)

    groups = [name for name in experiment.compared if any(one.contrast == name for one in rates)]
    return RateGrid(
        model,
        tuple((_rate_head(drawn[name][0].measure), ruler(axes[name])) for name in names),
        tuple(
            (text.value_name(one), tuple((text.plain(regime), row(one, regime)) for regime in regimes))
            for one in phenotypes
        ),
        tuple((key(text.group_place(experiment, name)), text.group_name(experiment, name)) for name in groups),
    )


def _drawn(experiment: Experiment, rates: Sequence[Finding]) -> Sequence[Finding]:
    """What has a point in the picture: groups, where a rate is a group's, and else whatever there is."""
    return [one for one in rates if one.contrast in experiment.compared] or rates


_PERCENT = ("TPR", "FPR", "PPV", "called positive", "equalised odds")  # of performance, beside AUROC and calibration


def _rate_scale(measure: str) -> float:
    """100 for shares and their differences, which are told in percent and in points; 1 for anything else."""
    scale, performed = MEASURES[measure].scale, _performed(measure)
    in_percent = performed in _PERCENT if performed else scale is not None and scale.most == 1
    return 100.0 if in_percent else 1.0


def _rate_head(measure: str) -> str:
    in_points, record = _rate_scale(measure) == 100, MEASURES[measure]
    return (record.performed or record.title) + (", points" if in_points and record.signed else ", %" * in_points)


def _rate_axis(rates: Sequence[Finding]) -> Axis:
    measure = rates[0].measure
    scale, record = _rate_scale(measure), MEASURES[measure].scale
    least, most = (scale * record.least, scale * record.most) if record else (0.0, scale)
    if measure == "calibration_slope":
        least, most = -math.inf, math.inf
    ends = [end for one in rates for end in (one.estimate.value, one.estimate.ci_low, one.estimate.ci_high)]
    return Axis.over([scale * end for end in ends], least=least, most=most, parts=3)


def _rate_cell(experiment: Experiment, rates: Sequence[Finding], axis: Axis) -> Cell:
    """Groups in the colour and shape that they have everywhere; a difference, or a rate of all, in that of gaps."""
    dots, told, drawn = [], [], _drawn(experiment, rates)
    for one in rates:
        scale, estimate = _rate_scale(one.measure), one.estimate
        of_group = one.contrast in experiment.compared
        place = text.group_place(experiment, one.contrast) if of_group else None
        if one in drawn:
            dots.append(Dot(scale * estimate.value, scale * estimate.ci_low, scale * estimate.ci_high, place))
        name = text.group_name(experiment, one.contrast) if of_group else "" if one in drawn else "difference"
        sure = f"p {text.p_value(estimate.p_adjusted)}" if _performed(one.measure) and not of_group else one.direction
        told.append((name, _rate(one), sure))
    return Cell(strip(dots, axis), tuple(told))


def _rate(one: Finding) -> str:
    scale, estimate, signed = _rate_scale(one.measure), one.estimate, MEASURES[one.measure].signed

    def number(value: float) -> str:
        if scale == 1:
            return text.number(value, signed=signed)
        rounded = round(scale * value, 1) + 0.0
        return (f"{rounded:+.1f}" if signed and rounded else f"{rounded:.1f}").replace("-", "−")

    if math.isnan(estimate.value):
        return "–"
    ends = "" if math.isnan(estimate.ci_low) else f" ({number(estimate.ci_low)} to {number(estimate.ci_high)})"
    return number(estimate.value) + ends


# --- answers ------------------------------------------------------------------------------------------


def answer_charts(experiment: Experiment, rows: pd.DataFrame | None) -> Iterator[Chart]:
    """For each model what was answered, by side: over everything, and for each value of the first slice."""
    if rows is None or f"{SAID}other" not in rows:
        return
    models = list(dict.fromkeys(rows["model_id"]))
    named = _ANSWERED if f"{SAID}correct" in rows else ("read", *_ANSWERED[1:])
    for model in models:
        mine = rows[rows["model_id"] == model]
        parts = [("all of them", mine)]
        for one in experiment.slices[:1]:
            parts += [(text.value_name(str(value)), part) for value, part in mine.groupby(one.column, sort=False)]
        told = tuple((name, tuple(_answered(experiment, part, named))) for name, part in parts)
        shown = [
            place for place in range(len(_ANSWERED)) if any(row.cells[place][1] for _, part in told for row in part)
        ]
        yield Chart(
            "answers by class" + (f", {model}" if len(models) > 1 else ""),
            "What was answered to each side, as a share of all answers, with counts. Unreadable: the answer does not "
            "give one option beyond doubt. No answer: nothing came, or nothing but spaces.",
            ("side", *(named[place] for place in shown)),
            tuple(
                (name, tuple(Row(row.name, row.picture, tuple(row.cells[place] for place in shown)) for row in part))
                for name, part in told
            ),
            ruler(Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0)), "percent of answers"),
            keys=tuple((stack_key(place), named[place]) for place in shown),
        )


def _answered(experiment: Experiment, rows: pd.DataFrame, named: Sequence[str]) -> Iterator[Row]:
    for side in experiment.compared:
        mine = rows[rows["group"] == side]
        if not len(mine):
            continue
        counts = answer_counts(mine)
        shares = [count / len(mine) for count in counts.values()]
        cells = tuple(
            (f"{100 * share:.1f} % ({count})", share) for share, count in zip(shares, counts.values(), strict=True)
        )
        name = text.group_name(experiment, side)
        texts = (f"{label} {text}" for label, (text, share) in zip(named, cells, strict=True) if share)
        yield Row(name, stack(shares, f"{name}: {', '.join(texts)}"), cells)


def answer_counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many answers are of each class, in the order of ``_ANSWERED``; every answer is of one."""

    def marked(column: str) -> NDArray[np.bool_]:
        return rows[column].to_numpy(dtype=float) > 0 if column in rows else np.zeros(len(rows), dtype=bool)

    said = {name: marked(f"{SAID}{name}") for name in CLASSES}
    refused = marked("refused")
    silent = rows[f"{SAID}other"].isna().to_numpy()
    text = rows["answer"].fillna("").astype(str).str.strip() if "answer" in rows else pd.Series(dtype=str)
    if text.any():  # texts of credentialed notes are not kept
        silent = silent | said["other"] & (text == "").to_numpy()
    read = said["correct"] if f"{SAID}correct" in rows else ~said["other"] & ~said["unsure"] & ~silent
    unread = said["other"] & ~silent
    classes = (read, said["incorrect"], said["unsure"], unread & refused, unread & ~refused, silent)
    return {name: int(one.sum()) for name, one in zip(_ANSWERED, classes, strict=True)}


# --- explained notes ----------------------------------------------------------------------------------


def word_charts(experiment: Experiment, explained: Sequence[Explained]) -> Iterator[Chart]:
    """For each model the words of its explained notes by mean weight, then its most mismatched note by itself."""
    models = list(dict.fromkeys(one.model_id for one in explained))
    for model in models:
        mine, named = [one for one in explained if one.model_id == model], f", {model}" if len(models) > 1 else ""
        if len(mine) > 1:
            yield _mean_words(experiment, mine, named)
        yield _note_words(experiment, mine[0], named)


def _mean_words(experiment: Experiment, explained: Sequence[Explained], named: str) -> Chart:
    """Words by phenotype and regime, those of the largest mean weight in either version first."""
    cells: dict[tuple[str, str], list[Explained]] = {}
    for one in sorted(explained, key=lambda one: one.phenotype):
        cells.setdefault((one.phenotype, one.regime), []).append(one)
    order = [group for group in experiment.compared if group in explained[0].words]
    places = {group: text.group_place(experiment, group) for group in order}
    means = {cell: {group: _means(some, group) for group in order} for cell, some in cells.items()}
    axis = Axis.over([weight for each in means.values() for one in each.values() for weight in one.values()])
    most = max(map(len, cells.values()))
    titles = {group: text.group_name(experiment, group) for group in order}
    return Chart(
        f"words by mean weight{named}",
        f"Weights by LIME, averaged over the notes that are judged most differently in both genders (up to {most} of "
        "each phenotype and training text; a word that is not among the heaviest of a note counts 0 there): above "
        "zero a word speaks for the phenotype.",
        ("word", *titles.values()),
        tuple(
            (
                f"{text.value_name(phenotype)}, training notes {text.plain(regime)} "
                f"({len(cells[phenotype, regime])} {'note' if len(cells[phenotype, regime]) == 1 else 'notes'})",
                tuple(_word_row(word, weights, places, axis) for word in _heaviest(weights)[:_WORDS]),
            )
            for (phenotype, regime), weights in means.items()
        ),
        ruler(axis, "mean weight"),
        keys=tuple((key(places[group]), titles[group]) for group in order),
    )


_WORDS = 8  # of each phenotype and regime


def _means(explained: Sequence[Explained], group: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in explained:
        for word, weight in one.words[group]:
            sums[word] = sums.get(word, 0.0) + weight / len(explained)
    return sums


def _note_words(experiment: Experiment, one: Explained, named: str) -> Chart:
    """The words of one note that weigh most in either version, those of the largest weight first."""
    order = sorted(one.words, key=lambda group: text.group_place(experiment, group))
    weights = {group: dict(one.words[group]) for group in order}
    axis = Axis.over([weight for each in weights.values() for weight in each.values()])
    titles = {group: text.group_name(experiment, group) for group in weights}
    places = {group: text.group_place(experiment, group) for group in weights}
    scores = ", ".join(f"{one.scores[group]:.2f} as {titles[group]}" for group in weights if group in one.scores)
    return Chart(
        f"words of the most mismatched note{named}",
        f"The note that {one.model_id} judges most differently ({text.value_name(one.phenotype)}, training "
        f"notes {text.plain(one.regime)}): {scores}. Weights by LIME, of the words that weigh most in each version: "
        "above zero a word speaks for the phenotype. A dash: not among them.",
        ("word", *(titles.values())),
        (("", tuple(_word_row(word, weights, places, axis) for word in _heaviest(weights))),),
        ruler(axis, "weight"),
        keys=tuple((key(places[group]), titles[group]) for group in weights),
    )


def _heaviest(weights: Mapping[str, Mapping[str, float]]) -> list[str]:
    most = {
        word: max(abs(each.get(word, 0.0)) for each in weights.values()) for each in weights.values() for word in each
    }
    return sorted(most, key=lambda word: -most[word])


def _word_row(word: str, weights: Mapping[str, Mapping[str, float]], places: Mapping[str, int], axis: Axis) -> Row:
    known = {group: each.get(word, math.nan) for group, each in weights.items()}
    return Row(
        word,
        strip([Dot(weight, group=places[group]) for group, weight in known.items()], axis),
        tuple((text.number(weight, signed=True), weight) for weight in known.values()),
    )
