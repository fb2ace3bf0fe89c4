"""The report: one HTML file without any external reference."""

import base64
import difflib
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pandas as pd
from markupsafe import Markup

from swapbias.findings import (
    ANSWERS,
    AS_PUBLISHED,
    AS_WRITTEN,
    LEVEL,
    POSITIVE,
    Finding,
    by_the_judge,
    comparisons,
    experiment_of,
    headlines,
    influential,
)
from swapbias.measures import MEASURES
from swapbias.models.chat import scoring_in_words
from swapbias.models.clinical import Explained
from swapbias.privacy import public_manifest
from swapbias.report import text
from swapbias.report.breakdowns import answer_charts, performance_grids, rate_grids, word_charts
from swapbias.report.charts import Axis, Chart, Dot, Row, bounds_key, interval_key, key, ruler, strip
from swapbias.studies import (
    PLACEBO,
    PLANTED_BIAS,
    PLANTED_LEAK,
    Experiment,
    Slice,
    load_study,
    of_a_part,
    published_rows,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def environment(finalize: Any = None) -> "Environment":
    """The templates of this package."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # of swapbias[audit]

    return Environment(
        loader=PackageLoader("swapbias.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )


ALIKE = 3  # rows that all show the same are a sentence, from so many on
_GROUPED = 15  # values of a slice above which they stand by category
EXAMPLES = 4  # pairs shown at each end
_SHOWN_TEXTS = 4  # of a unit of more groups
DRIVERS = 10  # units of largest influence
MOST_BYTES = 20_000_000  # of compressed scored prompts in one page
_GROUP_PARTS = {
    "main_effect": "main effects", "interaction": "interactions", "interaction_of_three": "interactions of three",
    "intersection": "intersections beside their parts",
}  # fmt: skip
_FIELDS = ("model_id", "construct", "label", "condition", "template", "wording")  # what pairs are searched by
_BOUNDS = (
    "bounds: between these it lies whatever would have been said where nothing, or nobody, was named; no interval"
)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_OF_ANSWERS = (
    "Intervals, tests and n are over sentence pairs: the trials of a pair are averaged, and over all rows its "
    "adjectives as well, so that asking again does not make them surer. Differences to the baseline are paired by "
    "sentence; the dimmed row below each compares trials, as published, and says nothing about other sentences."
)


@dataclass(frozen=True, slots=True)
class Page:
    """What the report is made of."""

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Mapping[str, pd.DataFrame]
    coverage: pd.DataFrame
    explained: Sequence[Explained] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """One pair: what was read, what the model gave each group."""

    texts: list[Markup]
    other: float
    reference: float
    answers: str


def render(page: Page) -> str:
    """The report as HTML; every value from outside is escaped, no place on this machine is named.

    Without items it shows no texts.
    """
    manifest = public_manifest(page.manifest)
    style, script = (own_file(name) for name in ("page.css", "page.js"))
    pairs = _packed(page)
    return template("page.html.j2").render(
        manifest=manifest,
        models=manifest["models"],
        style=style,
        script=script,
        policy=policy(style, script),
        answers=_answers(page.found),
        headlines=comparisons(page.found, views=True),
        several=len({one.model_id for one in page.found}) > 1,
        original=all("original" in one["config"] for one in manifest["corpora"]),
        compared=_published(page.found),
        leaks=[(one, *_leak_told(one, page.items)) for one in _planted(page.found, PLANTED_LEAK)],
        not_run=[one for one in manifest["skipped"] if not of_a_part(one["experiment"])],
        remarks=dict.fromkeys(one["reason"] for one in manifest["skipped"] if of_a_part(one["experiment"])),
        told_in_paper=_leakage_in_paper(page.found),
        planted=_planted(page.found, PLANTED_BIAS),
        studies=[_section(page, name, pairs) for name in dict.fromkeys(one.study for one in page.found)],
        with_items=bool(page.items),
        packed=pairs,
        too_large=bool(page.items) and pairs is None,
        coverage=_coverage(page.coverage),
    )


def render_summary(found: Sequence[Finding]) -> str:
    """What a notebook shows of a run, as HTML without any reference: results with their verdicts."""
    shown = comparisons(found)
    return template("summary.html.j2").render(found=shown, several=len({one.model_id for one in shown}) > 1)


@cache
def template(name: str) -> "Template":
    """A template of the report, compiled once."""
    templates = environment(seen)
    templates.globals |= {
        "text": text,
        "anchor": anchor,
        "scoring_in_words": scoring_in_words,
    }
    return templates.get_template(name)


def own_file(name: str) -> Markup:
    """A file of this package that stands within the page."""
    return Markup(files("swapbias.report").joinpath(name).read_text(encoding="utf-8"))


def policy(style: str, script: str) -> str:
    """What a page allows itself: its own style and script, by their hashes."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def seen(value: Any) -> Any:
    """A text with a mark for each control character, and for each that turns the direction of what follows."""
    if not isinstance(value, str) or not _UNSEEN.search(value):
        return value
    return type(value)(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value))


def anchor(*names: str) -> str:
    """What a link to a part of the page says: letters, digits, dashes and dots.

    >>> anchor("gendered_stigma", "rq1", "noun pair")
    'gendered_stigma.rq1.noun-pair'
    """
    return ".".join(re.sub(r"[^A-Za-z0-9_]+", "-", name) for name in names if name)


def _planted(found: Sequence[Finding], source: str) -> list[Finding]:
    return [one for one in found if not one.view and one.published and one.published.source == source]


_OF = 25  # a share is told as so many of this


def _leak_told(leak: Finding, items: Mapping[str, pd.DataFrame]) -> tuple[str, str]:
    """Of a planted leak: which notes flip, and what a model that ignores gender loses; blanks without items."""
    rows = items.get(leak.study)
    if rows is None or not {"planted", "predicted"} <= {*rows}:
        return "", ""
    asked = (rows["experiment"] == leak.experiment) & (rows["model_id"] == leak.model_id)
    mine = rows[asked & (rows["condition"] == leak.slice_value) & (rows["construct"] == leak.subset)]
    notes = mine[mine["version"] == AS_WRITTEN].drop_duplicates("pair_id").set_index("pair_id")
    told = notes["planted"] == "leak"
    if not told.any():
        return "", ""
    flips = (mine.groupby("pair_id")["predicted"].nunique() > 1)[notes.index]
    flipping = f"{flips[told].sum()} of {told.sum()} with it, {flips[~told].sum()} of {(~told).sum()} others"
    positive = int((notes["label"][told] == POSITIVE).sum())
    return flipping, (
        f"cannot tell {told.sum()} of {len(notes)} notes, about {round(_OF * told.mean())} of {_OF}: "
        f"wrong in {positive} of them if it always says no there, in {told.sum() - positive} if yes"
    )


def _leakage_in_paper(found: Sequence[Finding]) -> str:
    """Beside the leakage of synthetic notes what the paper found in real ones; blank without either."""
    leak = next((one for one in found if one.published and one.published.source == PLANTED_LEAK), None)
    ours = {one.subset: one.estimate.value for one in found if one.measure == "leakage_uar"}
    if leak is None or "original" not in ours:
        return ""
    known: dict[str, list[float]] = {}
    for row in published_rows(leak.study):
        if row["measure"] == "leakage_uar":
            known.setdefault(row["subset"], []).append(float(row["value"]))
    told = [
        f"{ours[name]:.2f} from {text.plain(name)} notes (in the paper {min(values):.2f} to {max(values):.2f})"
        for name, values in known.items()
        if name in ours
    ]
    return (
        f"Gender is told with an average recall of {', '.join(told)}. The paper read notes of MIMIC-III; every "
        "synthetic one names its patient's gender, so that it is told more surely than there."
    )


def _published(found: Sequence[Finding]) -> list[Finding]:
    """What papers print a number for, by their own statistics where there are such."""
    known = [one for one in found if one.published and not one.published.planted]
    own = {(one.study, one.model_id, *one.key()) for one in known if one.view == AS_PUBLISHED}
    return [one for one in known if one.view == AS_PUBLISHED or (one.study, one.model_id, *one.key()) not in own]


# --- answers ------------------------------------------------------------------------------------------


def _answers(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each experiment and model the sentence and its picture; gaps in points share one scale over all studies."""
    asked: dict[tuple[str, ...], list[Finding]] = {}
    for one in headlines(found):
        asked.setdefault((one.study, one.experiment, one.model_id), []).append(one)
    shown = {
        name: [one for each in several for one in (*text.parts(each, found), each)] for name, several in asked.items()
    }
    every = [one for several in shown.values() for one in several]
    return [_answer(several, shown[name], every, found) for name, several in asked.items()]


def _answer(
    several: list[Finding], shown: list[Finding], every: Sequence[Finding], found: Sequence[Finding]
) -> dict[str, Any]:
    first, experiment = (_gaps_of_groups(several) or several)[0], experiment_of(several[0])
    shown = _gaps_of_groups(shown) or shown  # a test of all groups is a sentence, not a point on the scale
    sure = [one for one in _gaps_of_groups(several) if one.estimate.p_adjusted < LEVEL]
    largest = max(sure, key=lambda one: abs(one.estimate.value)) if sure else None
    axis = axis_of([one for one in every if scaled_alike(one, first)])
    bounds = any(not math.isnan(one.worst_low) for one in shown)
    heads = (unit_head(first), "95 % interval", *(("bounds",) if bounds else ()))
    whole = [one for one in several if one.tests_all_groups or len(several) == 1]
    return {
        "of": first,
        "place": anchor(first.study, first.experiment),
        "question": experiment.question if experiment else first.experiment,
        "verdicts": text.verdicts(several, found),
        "certainty": text.certainty(whole[0]) if whole else "",
        "cautions": [*text.cautions(first)] if len(several) == 1 else [
            f"{text.row_name(largest)}: {caution}" for caution in text.cautions(largest)
        ] if largest else [],
        "meaning": text.meaning(first),
        "published": text.published(first, found) if len(several) == 1 else "",
        "chart": Chart(
            "", "", heads,
            (("", tuple(_answer_row(one, axis, bounds=bounds) for one in shown)),),
            ruler(axis, unit_head(first)),
            keys=((interval_key(), "95 % interval"), (bounds_key(), _BOUNDS)) if bounds else (),
        ),
    }  # fmt: skip


def _gaps_of_groups(found: Sequence[Finding]) -> list[Finding]:
    """The gaps and effects among headlines that hold a test of all groups; none where they hold no such test."""
    whole = any(one.tests_all_groups for one in found)
    return [one for one in found if MEASURES[one.measure].reach] if whole else []


def scaled_alike(one: Finding, other: Finding) -> bool:
    """Whether two values stand on one scale: all in points do."""
    both = [bool(MEASURES[each.measure].reach) and text.in_points(each.unit) for each in (one, other)]
    return all(both) or (not any(both) and (one.measure, one.unit) == (other.measure, other.unit))


def _group_of(finding: Finding) -> int | None:
    """The colour of a gap between several groups: that of the group which is not subtracted."""
    experiment = experiment_of(finding)
    if not experiment or not experiment.groups or finding.group not in experiment.compared:
        return None
    return text.group_place(experiment, finding.group)


def unit_head(finding: Finding) -> str:
    if MEASURES[finding.measure].reach and text.in_points(finding.unit):
        return "points"
    return finding.unit


def axis_of(found: Sequence[Finding]) -> Axis:
    """One scale for all of them: no interval reaches beyond what their quantity can be."""
    first, scale = found[0], text.shown_factor(found[0])
    margins = [one.margin * scale for one in found if not math.isnan(one.margin)]
    record = MEASURES[first.measure]
    span = 100.0 if text.in_points(first.unit) else math.inf
    reach = 2 if any(MEASURES[one.measure].reach == 2 for one in found) else 1
    least, most = -reach * span, reach * span
    if not record.signed:
        least, most = 0.0, min(span, 1.0 if scale == 1 and not record.whole and math.isinf(span) else span)
    ends = [
        text.shown_factor(one) * end
        for one in found
        for end in (one.estimate.value, one.estimate.ci_low, one.estimate.ci_high, one.worst_low, one.worst_high)
    ]
    return Axis.over(ends, margin=max(margins, default=math.nan), least=least, most=most)


def dot_of(finding: Finding, group: int | None = None, *, hollow: bool = False, bounds: bool = False) -> Dot:
    scale, estimate = text.shown_factor(finding), finding.estimate
    least, most = (scale * finding.worst_low, scale * finding.worst_high) if bounds else (math.nan, math.nan)
    return Dot(scale * estimate.value, scale * estimate.ci_low, scale * estimate.ci_high, group, hollow, least, most)


def _answer_row(finding: Finding, axis: Axis, *, bounds: bool) -> Row:
    row = _gap_row(finding, axis, text.row_name(finding), brief=True)
    known = not math.isnan(finding.worst_low)
    cell = (text.bounds(finding).removesuffix(" points") if known else "–", finding.worst_low)
    return replace(row, cells=(*row.cells, cell)) if bounds else row


def unsure(finding: Finding) -> bool:
    """Whether a signed value may be zero: by its corrected test, or by its interval where it has none."""
    estimate = finding.estimate
    sure = (
        estimate.ci_low > 0 or estimate.ci_high < 0 if math.isnan(estimate.p_adjusted) else estimate.p_adjusted < 0.05
    )
    return MEASURES[finding.measure].signed and not sure


def _gap_row(finding: Finding, axis: Axis, name: str, *, find: str = "", brief: bool = False) -> Row:
    estimate = finding.estimate
    told = ""
    if brief and not math.isnan(finding.worst_low):
        told = f"{text.value(finding)}, 95 % interval {text.interval(finding)}, bounds {text.bounds(finding)}"
    dot = dot_of(finding, _group_of(finding), hollow=unsure(finding), bounds=brief)
    picture = strip([dot], axis, title=told)
    cells: list[tuple[str, float | None]] = [
        (text.value(finding).removesuffix(" points"), estimate.value),
        (text.interval(finding) or "–", estimate.ci_low),
    ]
    if not brief:
        cells += [(text.p_value(estimate.p_adjusted), estimate.p_adjusted), (text.counted(estimate), estimate.n)]
    return Row(name, picture, tuple(cells), find)


# --- sections -----------------------------------------------------------------------------------------


def _section(page: Page, name: str, packed: Mapping[str, str] | None) -> dict[str, Any]:
    study = load_study(name)
    mine = [one for one in page.found if one.study == name]
    run = {one.experiment for one in mine}
    return {
        "study": study,
        "several": len({one.model_id for one in mine}) > 1,
        "experiments": [
            _part(page, experiment, [one for one in mine if one.experiment == experiment.name], packed)
            for experiment in study.experiments
            if experiment.name in run
        ],
    }


def _part(
    page: Page, experiment: Experiment, mine: list[Finding], packed: Mapping[str, str] | None
) -> dict[str, Any]:
    study = mine[0].study
    rows = page.items.get(study)
    items = None if rows is None else rows[rows["experiment"] == experiment.name]
    place = anchor(study, experiment.name)
    charts = [*_charts(experiment, mine, items), *answer_charts(experiment, items)]
    if "flips" in experiment.rates:
        charts += word_charts(experiment, [one for one in page.explained if one.study == study])
    return {
        "experiment": experiment,
        "place": place,
        "unit": next((one.unit for one in mine if one.headline), mine[0].unit),
        "note": _OF_ANSWERS if ANSWERS in experiment.rates else "",
        "charts": charts,
        "tables": _tables(experiment, mine, {chart.name for chart in charts}),
        "examples": [] if rows is None else _examples(experiment, rows),
        "drivers": [] if items is None or of_notes(experiment) else list(_drivers(experiment, mine, items)),
        "grids": [*rate_grids(experiment, mine), *performance_grids(experiment, mine)],
        "judged": by_the_judge(mine),
        "pairs": place if packed is not None and place in packed else "",
    }


def _tables(experiment: Experiment, found: list[Finding], drawn: set[str]) -> list[tuple[str, list[Finding]]]:
    """Findings by slice: over all rows every score and view, else what no chart shows.

    Of answers the published test between trials stands at the slices too.
    """
    answers = ANSWERS in experiment.rates
    shown = [one for one in found if one.slice_by == "all" or (one.score == "score" and (answers or not one.view))]
    if not answers:
        shown = [one for one in shown if one.slice_by == "all" or not _charted(one)]
    names = dict.fromkeys(one.slice_by for one in shown)
    return [(name, [one for one in shown if one.slice_by == name]) for name in names]


def _charted(finding: Finding) -> bool:
    return finding.measure == "mean" or bool(MEASURES[finding.measure].reach)


def _charts(experiment: Experiment, found: Sequence[Finding], items: pd.DataFrame | None) -> Iterator[Chart]:
    """Of several groups all gaps and effects; then for each slice its gaps, and apart from them its means."""
    if experiment.groups:
        yield from _group_chart(experiment, found)
    for one in experiment.slices:
        mine = [
            each
            for each in found
            if each.slice_by == one.name and each.score == "score" and not each.view and _charted(each)
        ]
        gaps = [each for each in mine if each.measure != "mean"]
        means = [each for each in mine if each.measure == "mean"]
        if ANSWERS in experiment.rates:  # shares of answers are no groups: they have a chart of their own
            means = [each for each in means if each.contrast in experiment.levels]
        category = categories(experiment, one, items)
        if gaps:
            yield _gap_chart(one, gaps, category)
        if means:
            yield _mean_chart(experiment, one, means, category)


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


def _group_chart(experiment: Experiment, found: Sequence[Finding]) -> Iterator[Chart]:
    """On one scale each gap between groups, the effects of crossed factors, each intersection beside its parts."""
    mine = [
        one
        for one in found
        if one.score == "score" and not one.view
        and (one.measure == "intersection" or (one.slice_by == "all" and MEASURES[one.measure].reach))
    ]  # fmt: skip
    if not mine:
        return
    axis, unit = axis_of(mine), unit_head(mine[0])
    several = len({one.model_id for one in mine}) > 1
    parts: dict[str, list[Row]] = {}
    for one in mine:
        name = text.plain(one.slice_value) if one.measure == "intersection" else text.pair_name(one)
        told = [_GROUP_PARTS.get(one.measure, "gaps between groups")]
        parts.setdefault(_head(one, {}, several, told), []).append(_gap_row(one, axis, name))
    caption = (
        f"In {unit}, with 95 % intervals; filled: p < .05 after correction. The band is the margin within which a "
        "gap counts as none."
    )
    if any(one.measure == "intersection" for one in mine):
        caption += (
            " An intersection's point says how much further it lies from the mean of all groups than its parts add "
            "up to; below zero it lies nearer."
        )
    names = [
        one for one in experiment.compared if one in {each.group for each in mine if _group_of(each) is not None}
    ]
    yield Chart(
        "groups", caption, ("groups", unit, "95 % interval", "p corrected", "n"),
        tuple((name, tuple(part)) for name, part in parts.items()), ruler(axis, unit),
        keys=tuple((key(text.group_place(experiment, one)), text.group_name(experiment, one)) for one in names),
    )  # fmt: skip


def _head(finding: Finding, category: Mapping[str, str], several: bool, more: Sequence[str] = ()) -> str:
    """Which part of a chart a finding stands in: its model, set of conditions and category, where there are more."""
    told = [*([finding.model_id] if several else []), *more]
    told += [text.plain(finding.subset)] if finding.subset else []
    if category.get(finding.slice_value, finding.subset) != finding.subset:
        told.append(text.value_name(category[finding.slice_value]))
    return ", ".join(told)


def _set_apart(finding: Finding) -> str:
    """What tells one gap of a chart from those of other measures or groups."""
    experiment = experiment_of(finding)
    return text.pair_name(finding) if experiment and experiment.groups else text.quantity(finding)


def _gap_chart(slice_: Slice, gaps: Sequence[Finding], category: Mapping[str, str]) -> Chart:
    axis, several = axis_of(gaps), len({one.model_id for one in gaps}) > 1
    parts: dict[str, list[Row]] = {}
    apart = len({one.contrast for one in gaps}) > 1
    for one in gaps:
        row = _gap_row(one, axis, text.value_name(one.slice_value), find=find(slice_, one))
        head = _head(one, category, several, [_set_apart(one)] if apart else [])
        parts.setdefault(head, []).append(row)
    unit, contrast = unit_head(gaps[0]), "" if apart else f" ({text.compared(gaps[0])})"
    rows = [row for part in parts.values() for row in part]
    return Chart(
        f"gaps by {slice_.name}",
        f"Gap{contrast} by {slice_.name}, in {unit}, with 95 % intervals; filled: p < .05 "
        "after correction. The band is the margin within which a gap counts as none.",
        (slice_.name, unit, "95 % interval", "p corrected", "n"),
        tuple((name, _merged(part)) for name, part in parts.items()),
        ruler(axis, unit),
        said=_all_alike(rows, slice_.name, unit),
    )


def find(slice_: Slice, finding: Finding) -> str:
    """What a link to a row's pairs asks for."""
    experiment = experiment_of(finding)
    wanted = {slice_.column: finding.slice_value}
    if experiment and finding.subset and not finding.within:
        wanted[experiment.subset] = finding.subset
    return urlencode(wanted)


def _merged(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows of a part of a chart; one for all of them where they show the same."""
    if len(rows) < ALIKE or len({row.picture for row in rows}) > 1:
        return tuple(rows)
    same = zip(*(row.cells for row in rows), strict=True)
    cells = tuple(one[0] if len({text for text, _ in one}) == 1 else ("", math.nan) for one in same)
    return (Row(f"each of {len(rows)}", rows[0].picture, cells),) if cells[0][0] else tuple(rows)


def _all_alike(rows: Sequence[Row], name: str, unit: str) -> str:
    """A sentence for rows that all show the same; blank for any others."""
    shown = {tuple(text for text, _ in row.cells[:2]) for row in rows}
    if len(rows) < ALIKE or len(shown) > 1:
        return ""
    value, ends = next(iter(shown))
    if value == "–":
        return f"None of the {len(rows)} values of {name} could be scored."
    interval = "" if ends == "–" else f" (95 % interval: {ends})"
    return f"All {len(rows)} values of {name} are the same: {value} {unit}{interval}."


def _mean_chart(
    experiment: Experiment, slice_: Slice, means: Sequence[Finding], category: Mapping[str, str]
) -> Chart:
    """A row for each value with a dot for each group; where a value has one group only, the row says which."""
    axis, several = axis_of(means), len({one.model_id for one in means}) > 1
    present = {one.contrast for one in means}
    groups = [name for name in dict.fromkeys((*experiment.levels, *present)) if name in present]
    cells: dict[tuple[str, str], dict[str, Finding]] = {}
    for one in means:
        cells.setdefault((_head(one, category, several), one.slice_value), {})[one.contrast] = one
    single = len(groups) > 1 and all(len(each) == 1 for each in cells.values())
    parts: dict[str, list[Row]] = {}
    for (head, value), by_group in cells.items():
        dots = [dot_of(one, text.group_place(experiment, name)) for name, one in by_group.items()]
        told = tuple(_mean_cell(by_group.get(name)) for name in groups)
        (first, one), *_ = by_group.items()
        if single:
            told = (_mean_cell(one), (text.group_name(experiment, first), None))
        parts.setdefault(head, []).append(Row(text.value_name(value), strip(dots, axis), told, find(slice_, one)))
    unit = "points" if text.in_points(means[0].unit) else means[0].unit
    named = [text.group_name(experiment, name) for name in groups]
    return Chart(
        f"means by {slice_.name}",
        f"Mean {means[0].unit} by {slice_.name}, in {unit}"
        + (", with 95 % intervals." if any(not math.isnan(one.estimate.ci_low) for one in means) else "."),
        (slice_.name, *(("mean", "group") if single else named)),
        tuple((name, _merged(part)) for name, part in parts.items()),
        ruler(axis, unit),
        keys=tuple(
            (key(text.group_place(experiment, name)), label) for name, label in zip(groups, named, strict=True)
        ),
        said="" if single else _means_alike([row for part in parts.values() for row in part], slice_.name, named),
    )


def _means_alike(rows: Sequence[Row], name: str, groups: Sequence[str]) -> str:
    """A sentence for means that are all the same; blank for any others."""
    if len(rows) < ALIKE or len({row.cells for row in rows}) > 1:
        return ""
    told = ", ".join(f"{group} {text}" for group, (text, _) in zip(groups, rows[0].cells, strict=True))
    return f"All {len(rows)} values of {name} have the same means: {told}."


def _mean_cell(finding: Finding | None) -> tuple[str, float | None]:
    if finding is None:
        return "", math.nan
    ends = text.interval(finding)
    told = text.level(finding.estimate.value, finding)
    told = f"{told} ({ends})" if ends else told
    if not math.isnan(finding.worst_low):
        low, high = (text.level(end, finding) for end in (finding.worst_low, finding.worst_high))
        told += f"; {low} to {high} whatever was not answered"
    return told, finding.estimate.value


# --- pairs --------------------------------------------------------------------------------------------


def _examples(experiment: Experiment, items: pd.DataFrame) -> list[Example]:
    """The pairs with the lowest and the highest gap."""
    if experiment.rates:  # notes are too long to stand here, and each stands once a regime
        return []
    rows = items[items["experiment"] == experiment.name]
    pair = [experiment.group, experiment.reference_group]
    two = rows[rows["group"].isin(pair)]
    scores = two.pivot(index="pair_id", columns="group", values="score").dropna()
    if experiment.measure != "paired_gap" or not set(pair) <= set(scores):
        return []
    gaps = scores[pair[0]] - scores[pair[1]]
    if not len(gaps) or gaps.max() - gaps.min() < 1e-9:  # no pair stands out
        return []
    order = gaps.sort_values(kind="stable").index
    ends = order if len(order) <= 2 * EXAMPLES else [*order[:EXAMPLES], *order[-EXAMPLES:]]
    chosen = two[two["pair_id"].isin(set(ends))].groupby("pair_id", sort=False)
    return [_example(chosen.get_group(name), pair) for name in ends]


def _example(rows: pd.DataFrame, pair: list[str]) -> Example:
    by_group = rows.set_index("group")
    top = json.loads(rows["top_tokens"].iloc[0])[:5]
    answers = ", ".join(f"{token} {probability:.2f}" for token, probability in top)
    texts = marked(list(by_group.loc[pair, "text"]))
    return Example(texts, by_group.loc[pair[0], "score"], by_group.loc[pair[1], "score"], answers)


def marked(texts: Sequence[str]) -> list[Markup]:
    """Each different text once, escaped, with the words in which it differs from the others (or its mask) marked.

    >>> [str(one) for one in marked(["He is <b>.", "She is <b>."])]
    ['<mark>He</mark> is &lt;b&gt;.', '<mark>She</mark> is &lt;b&gt;.']
    """
    unique = list(dict.fromkeys(texts))
    if len(unique) != 2:
        return [_masked(text) for text in unique]
    split = [re.findall(r"\s+|\w+|[^\w\s]", text) for text in unique]
    same = difflib.SequenceMatcher(None, split[0], split[1], autojunk=False).get_matching_blocks()
    told = []
    for side, tokens in enumerate(split):
        pieces, at = [], 0
        for block in same:
            start = (block.a, block.b)[side]
            if start > at:
                pieces.append(Markup("<mark>{}</mark>").format(seen("".join(tokens[at:start]))))
            pieces.append(Markup.escape(seen("".join(tokens[start : start + block.size]))))
            at = start + block.size
        told.append(Markup("").join(pieces))
    return told


def _masked(text: str) -> Markup:
    pieces = re.split(r"(<mask>|\[MASK\])", seen(text))
    return Markup("").join(
        Markup("<mark>{}</mark>").format(one) if place % 2 else Markup.escape(one) for place, one in enumerate(pieces)
    )


def _drivers(experiment: Experiment, found: Sequence[Finding], items: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """For each headline the units of largest influence, with the texts of pairs."""
    for headline in found:
        if not headline.headline or not MEASURES[headline.measure].reach:
            continue
        mine = items[items["model_id"] == headline.model_id]
        units = influential(experiment, headline, mine).head(DRIVERS)
        if not units["influence"].abs().max() > 0:  # none, or all alike
            continue
        sides = [one for one in (headline.group, headline.reference_group) if one in experiment.compared]
        texts = mine[mine["group"].isin(sides if len(sides) == 2 else experiment.compared[-_SHOWN_TEXTS:])]
        texts = texts[texts["pair_id"].isin(set(units.get("pair_id", ())))].groupby("pair_id", sort=False)["text"]
        by_pair = {str(name): list(part) for name, part in texts}
        yield {
            "finding": headline,
            "name": text.row_name(headline) if experiment.groups else "",
            "rows": [
                {
                    "texts": marked(by_pair.get(str(one.get("pair_id")), [])),
                    "name": text.plain(str(one.get("condition", one.get("template", "")))),
                    "value": text.amount(one["value"], headline.unit, signed=True, named=False),
                    "influence": text.amount(one["influence"], headline.unit, signed=True, named=False, digits=2),
                }
                for one in units.to_dict("records")
            ],
        }


def of_notes(experiment: Experiment) -> bool:
    """Whether its rows are notes of patients: they are long, may be the user's own, and stay in their folder."""
    return bool(experiment.corpus) or not set(experiment.rates) <= {ANSWERS}


def _packed(page: Page) -> dict[str, str] | None:
    """The scored prompts of each experiment, compressed, by its anchor; None where they are too many for a page."""
    contents = {}
    for study, rows in page.items.items():
        for declared in load_study(study).experiments:
            experiment = in_unit_read(study, declared, page.found)
            mine = rows[rows["experiment"] == experiment.name]
            if len(mine) and experiment.measure and not of_notes(experiment):
                contents[anchor(study, experiment.name)] = entries(experiment, mine)
    return packed(contents)


def packed(contents: Mapping[str, Any]) -> dict[str, str] | None:
    """Contents as the script reads them: JSON, compressed; None where all together are too large for a page."""
    made = {}
    for name, content in contents.items():
        written = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = base64.b64encode(zlib.compress(written.encode(errors="replace"), 9)).decode()
        made[name] = f"data:application/zlib;base64,{data}"
    return made if sum(map(len, made.values())) <= MOST_BYTES else None


def in_unit_read(study: str, experiment: Experiment, found: Sequence[Finding]) -> Experiment:
    """The experiment in the unit of its findings: that of the scorer, which may not be the declared one."""
    mine = (one for one in found if (one.study, one.experiment, one.score) == (study, experiment.name, "score"))
    return replace(experiment, unit=next((one.unit for one in mine if MEASURES[one.measure].reach), experiment.unit))


def entries(experiment: Experiment, rows: pd.DataFrame) -> dict[str, Any]:
    """Scored rows by pair, every text, field and list of tokens once, as ``page.js`` reads them."""
    placebo = rows["group"] == PLACEBO
    if "side" in rows:
        rows = rows.assign(group=rows["group"].where(~placebo, rows["side"]))
    if "wording" in rows:
        rows = rows.assign(wording=rows["wording"].fillna("as asked").astype(str))
    fields = [name for name in _FIELDS if name in rows and rows[name].nunique() > 1]
    tables: dict[str, list[str]] = {}
    coded = {name: _codes(rows[name].astype(str), tables, name) for name in (*fields, "group", "text")}
    for name in ("top_tokens", "answer"):
        coded[name] = _codes(rows[name].fillna("").astype(str), tables, name) if name in rows else [-1] * len(rows)
    scores = [None if math.isnan(one) else round(one, 5) for one in rows["score"].astype(float)]
    names = rows["pair_id"].astype(str) + "\0" + rows["model_id"].astype(str)
    if "trial" in rows:
        names = names + "\0" + rows["trial"].astype(str)
    entries: dict[str, list[Any]] = {}
    for at, name in enumerate(names):
        entry = entries.setdefault(name, [[coded[one][at] for one in fields], []])
        entry[1].append(
            [*(coded[one][at] for one in ("group", "text")), scores[at], coded["top_tokens"][at], coded["answer"][at]]
        )
    slices = {one.column: one.name for one in experiment.slices}
    tokens = [_tokens(one) for one in tables.pop("top_tokens", [])]
    return {
        "fields": fields,
        "titles": [
            {"model_id": "model", experiment.subset: "set", **slices}.get(name, text.plain(name)) for name in fields
        ],
        "values": tables,
        "tokens": tokens,
        "sides": [experiment.group, experiment.reference_group],
        "scale": text.factor(experiment.unit),
        "unit": experiment.unit,
        "entries": list(entries.values()),
    }


def _codes(column: pd.Series, tables: dict[str, list[str]], name: str) -> list[int]:
    codes, values = pd.factorize(column)
    tables[name] = [str(one) for one in values]
    return [int(one) for one in codes]


def _tokens(cell: str) -> list[Any]:
    try:
        read = json.loads(cell) if cell else []
    except ValueError:
        return []
    return [[str(one[0]), round(float(one[1]), 3)] for one in read[:8]] if isinstance(read, list) else []


def _coverage(coverage: pd.DataFrame) -> list[dict[str, Any]]:
    if not len(coverage):
        return []
    return [
        {
            "lexicon": lexicon,
            "label": label,
            "words": len(part),
            "seen": int(part["in_vocabulary"].sum()),
            "matched": int(part["matched"].sum()) if "matched" in part else 0,
            "lost": part.loc[~part["in_vocabulary"], "word"].head(12).tolist(),
        }
        for (lexicon, label), part in coverage.groupby(["lexicon", "label"], sort=False)
    ]
