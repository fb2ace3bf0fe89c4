"""The report: one HTML file without any external reference."""

import base64
import difflib
import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Finding,
    by_the_judge,
    comparisons,
    experiment_of,
    headlines,
)
from swapbias.measures import CLASSES, MEASURES, SAID
from swapbias.models.chat import scoring_in_words
from swapbias.models.clinical import Explained
from swapbias.privacy import public_manifest
from swapbias.report import text
from swapbias.report.charts import Axis, Chart, Dot, Row, key, ruler, stack, stack_key, strip
from swapbias.studies import PLACEBO, PLANTED_BIAS, PLANTED_LEAK, Experiment, Slice, load_study, of_a_part

if TYPE_CHECKING:
    from jinja2 import Template

ALIKE = 3  # rows that all show the same are a sentence, from so many on
EXAMPLES = 4  # pairs shown at each end
MOST_BYTES = 20_000_000  # of compressed scored prompts in one page
_GROUPED = 15  # values of a slice above which they stand by category
_WORDS = 8  # of each phenotype and training condition
_CLASSES = ("right", "wrong", "unsure", "refused", "unreadable", "no answer")  # the last: nothing came
_FIELDS = ("model_id", "construct", "label", "condition", "template", "wording")  # what pairs are searched by
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
BAND = "Line: 95 % interval. Filled: p < 0.05 after correction. Shaded: the margin; a gap inside counts as none."


@dataclass(frozen=True, slots=True)
class Page:
    """What the report is made of."""

    manifest: Mapping[str, Any]
    found: list[Finding]
    items: Mapping[str, pd.DataFrame]
    coverage: pd.DataFrame
    explained: Sequence[Explained] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a chart: its part and name, its findings by column, and what a link to its pairs asks for."""

    part: str
    name: str
    found: Mapping[str, Finding]
    find: str = ""


def render(page: Page) -> str:
    """The report as HTML; every value from outside is escaped, no place on this machine is named.

    Without items it shows no texts.
    """
    manifest = public_manifest(page.manifest)
    packed = _packed(page)
    questions = dict.fromkeys((one.study, one.experiment) for one in page.found)
    studies = [load_study(name) for name in dict.fromkeys(one.study for one in page.found)]
    return html(
        "page.html.j2",
        packed,
        manifest=manifest,
        models=manifest["models"],
        answers=_answers(page.found),
        several=len({one.model_id for one in page.found}) > 1,
        planted=[one for one in page.found if not one.view and one.published and one.published.planted],
        sections=[_section(page, *names, packed or {}) for names in questions],
        studies=studies,
        limits=dict.fromkeys(limit for one in studies for limit in one.limits),
        not_run=[one for one in manifest["skipped"] if not of_a_part(one["experiment"])],
        remarks=dict.fromkeys(one["reason"] for one in manifest["skipped"] if of_a_part(one["experiment"])),
        numbers=comparisons(page.found, views=True),
        with_items=bool(page.items),
        too_large=bool(page.items) and packed is None,
        coverage=_coverage(page.coverage),
    )


def html(name: str, packed: Mapping[str, str] | None, **values: Any) -> str:
    """A page of this package with its own style and script, which alone may run."""
    style, script = (
        Markup(files("swapbias.report").joinpath(own).read_text(encoding="utf-8")) for own in ("page.css", "page.js")
    )
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return template(name).render(style=style, script=script, policy=policy, packed=packed, **values)


def render_summary(found: Sequence[Finding]) -> str:
    """What a notebook shows of a run, as HTML without any reference: a sentence for each verdict."""
    return template("summary.html.j2").render(answers=_answers(found))


@cache
def template(name: str) -> "Template":
    """A template of the report, compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # of swapbias[audit]

    templates = Environment(
        loader=PackageLoader("swapbias.report", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=seen,
    )  # fmt: skip
    templates.globals |= {
        "text": text, "anchor": anchor, "scoring_in_words": scoring_in_words,
        "PLANTED_BIAS": PLANTED_BIAS, "PLANTED_LEAK": PLANTED_LEAK,
    }  # fmt: skip
    return templates.get_template(name)


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


# --- answers ------------------------------------------------------------------------------------------


def _answers(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each question and model the sentences and their picture; gaps in points share one scale."""
    questions = text.questions(found)
    shown = [[one for each in several for one in (*text.parts(each, found), each)] for several in questions]
    every = [one for several in shown for one in several]
    return [_answer(several, mine, every, found) for several, mine in zip(questions, shown, strict=True)]


def _answer(
    several: Sequence[Finding], shown: Sequence[Finding], every: Sequence[Finding], found: Sequence[Finding]
) -> dict[str, Any]:
    # a test of all groups is a sentence, not a point on the scale
    whole = [one for one in several if one.tests_all_groups]
    gaps = [one for one in shown if MEASURES[one.measure].reach] if whole else list(shown)
    first = (gaps or several)[0]
    experiment = experiment_of(first)
    axis = axis_of([one for one in every if scaled_alike(one, first)])
    lines = [Line("", text.row_name(one), {"": one}) for one in gaps or several]
    return {
        "of": first,
        "place": anchor(first.study, first.experiment),
        "question": experiment.question if experiment else first.experiment,
        "verdicts": text.verdicts(several, found),
        "beside": text.beside(several),
        "meaning": text.meaning(first),
        "chart": chart_of("", "", lines, {"": (unit_head(first), None)}, axis=axis),
    }


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
    """The unit of a column: points, or the finding's own."""
    return "points" if MEASURES[finding.measure].reach and text.in_points(finding.unit) else finding.unit


def axis_of(found: Sequence[Finding]) -> Axis:
    """One scale for all of them: no interval reaches beyond what their quantity can be."""
    first, scale = found[0], text.shown_factor(found[0])
    margins = [one.margin * scale for one in found if not math.isnan(one.margin)]
    record = MEASURES[first.measure]
    span = 100.0 if text.in_points(first.unit) or text.in_percent(first.measure) else math.inf
    reach = 2 if any(MEASURES[one.measure].reach == 2 for one in found) else 1
    least, most = -reach * span, reach * span
    if not record.signed and first.measure != "calibration_slope":
        least, most = 0.0, min(span, 1.0 if scale == 1 and not record.whole and math.isinf(span) else span)
    ends = [
        text.shown_factor(one) * end
        for one in found
        for end in (one.estimate.value, one.estimate.ci_low, one.estimate.ci_high)
    ]
    return Axis.over(ends, margin=max(margins, default=math.nan), least=least, most=most)


def dot_of(finding: Finding, group: int | None = None) -> Dot:
    """A value on its scale, hollow where it may be zero."""
    scale, one = text.shown_factor(finding), finding.estimate
    return Dot(scale * one.value, scale * one.ci_low, scale * one.ci_high, group, unsure(finding))


def unsure(finding: Finding) -> bool:
    """Whether a signed value may be zero: by its corrected test, or by its interval where it has none."""
    one = finding.estimate
    sure = one.p_adjusted < 0.05 or (math.isnan(one.p_adjusted) and (one.ci_low > 0 or one.ci_high < 0))
    return MEASURES[finding.measure].signed and not sure


def chart_of(
    name: str, caption: str, lines: Sequence[Line], columns: Mapping[str, tuple[str, int | None]], *,
    axis: Axis | None = None, drawn: bool = True, written: Callable[[Finding], str] = text.own_value,
) -> Chart:  # fmt: skip
    """Findings as rows on one scale.

    Args:
        name: of the chart; blank for that of an answer, which has no p-values.
        caption: what it shows.
        lines: in the order of their parts.
        columns: title and colour of each; a single one is drawn as a gap, of several those without a colour are not.
        axis: the scale, where others share it.
        drawn: False: numbers alone.
        written: a finding as it stands in one of several columns.
    """
    axis = axis or axis_of([one for line in lines for one in line.found.values()])
    single, parts = len(columns) == 1, dict[str, list[Row]]()
    for line in lines:
        shown = [
            dot_of(one, _group_of(one) if single else columns[column][1])
            for column, one in line.found.items()
            if single or columns[column][1] is not None
        ]
        one = next(iter(line.found.values()))
        cells = _cells(one, tested=bool(name)) if single else [
            (written(line.found[column]), line.found[column].estimate.value) if column in line.found
            else ("", math.nan) for column in columns
        ]  # fmt: skip
        picture = strip(shown, axis) if drawn else Markup("")
        parts.setdefault(line.part, []).append(Row(line.name, picture, tuple(cells), line.find))
    unit = unit_head(next(iter(lines[0].found.values())))
    heads = [title for title, _ in columns.values()]
    if single:
        heads = [unit, "95 % interval", *["p corrected"] * bool(name), "n"]
    rows = [row for part in parts.values() for row in part]
    alike = bool(name) and len(rows) >= ALIKE and len({tuple(cell for cell, _ in row.cells[:2]) for row in rows}) == 1
    return Chart(
        name, caption, tuple(heads), tuple((part, tuple(rows)) for part, rows in parts.items()),
        ruler(axis, unit) if drawn else Markup(""),
        tuple((key(place), title) for title, place in columns.values() if place is not None),
        text.all_alike(len(rows), [cell for cell, _ in rows[0].cells[:2]], heads) if alike else "",
    )  # fmt: skip


def _cells(finding: Finding, *, tested: bool) -> list[tuple[str, float | None]]:
    """Value, interval, p-value where asked, and count of a gap."""
    one = finding.estimate
    cells: list[tuple[str, float | None]] = [
        (text.value(finding).removesuffix(" points"), one.value),
        (text.interval(finding) or "–", one.ci_low),
    ]
    if tested:
        cells.append((text.p_value(one.p_adjusted), one.p_adjusted))
    return [*cells, (text.counted(one), one.n)]


# --- sections -----------------------------------------------------------------------------------------


def _section(page: Page, study: str, name: str, packed: Mapping[str, str]) -> dict[str, Any]:
    """Everything about one question: charts, published results, sensitivity, pairs."""
    mine = [one for one in page.found if (one.study, one.experiment) == (study, name)]
    experiment = next(one for one in load_study(study).experiments if one.name == name)
    rows, place = page.items.get(study), anchor(study, name)
    items = None if rows is None else rows[rows["experiment"] == name]
    charts = [*_charts(experiment, mine, items), *rate_charts(experiment, mine), *answer_charts(experiment, items)]
    if "flips" in experiment.rates:
        charts += word_charts(experiment, [one for one in page.explained if one.study == study])
    answers = headlines(mine)
    return {
        "study": load_study(study),
        "experiment": experiment,
        "place": place,
        "several": len({one.model_id for one in mine}) > 1,
        "answers": [one for one in answers if MEASURES[one.measure].reach] or answers,
        "found": mine,
        "unit": (answers or mine)[0].unit,
        "charts": charts,
        "compared": _published(mine),
        "examples": [] if items is None else _examples(in_unit_read(study, experiment, mine), items),
        "judged": by_the_judge(mine),
        "pairs": place if place in packed else "",
    }


def _published(found: Sequence[Finding]) -> list[Finding]:
    """What papers print a number for, by their own statistics where there are such."""
    known = [one for one in found if one.published and not one.published.planted]
    own = {(one.model_id, *one.key()) for one in known if one.view == AS_PUBLISHED}
    return [one for one in known if one.view == AS_PUBLISHED or (one.model_id, *one.key()) not in own]


def _charts(experiment: Experiment, found: Sequence[Finding], items: pd.DataFrame | None) -> Iterator[Chart]:
    """Of several groups all gaps and effects; then by slice the gaps, or the means where it has no gaps."""
    shown = [one for one in found if one.score == "score" and not one.view]
    several = len({one.model_id for one in found}) > 1
    if experiment.groups:
        yield from _group_charts(shown, several)
    for slice_ in experiment.slices:
        mine = [one for one in shown if one.slice_by == slice_.name]
        gaps = [one for one in mine if MEASURES[one.measure].reach]
        means = [one for one in mine if one.measure == "mean" and one.contrast in experiment.levels]
        if gaps or means:
            yield _slice_chart(experiment, slice_, gaps or means, categories(experiment, slice_, items), several)


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


def _part(finding: Finding, category: Mapping[str, str], several: bool, more: str = "") -> str:
    """Which part of a chart a finding stands in: its model, set of conditions and category, where there are more."""
    sets = [finding.within, finding.against] if finding.measure == "gap_difference" else [finding.subset]
    subset = " minus ".join(text.set_name(finding, one) for one in sets if one)
    names = [finding.model_id if several else "", more, subset]
    if category.get(finding.slice_value, finding.subset) != finding.subset:
        names.append(text.value_name(category[finding.slice_value]))
    return ", ".join(filter(None, names))


def _group_charts(found: Sequence[Finding], several: bool) -> Iterator[Chart]:
    """On one scale each gap between groups, the effects of crossed factors, each intersection beside its parts."""
    mine = [
        one
        for one in found
        if one.measure == "intersection" or (one.slice_by == "all" and MEASURES[one.measure].reach)
    ]
    lines = [
        Line(
            _part(one, {}, several, text.effect_name(one)),
            text.plain(one.slice_value) if one.measure == "intersection" else text.pair_name(one),
            {"": one},
        )
        for one in mine
    ]
    if lines:
        more = text.BEYOND_PARTS if any(one.measure == "intersection" for one in mine) else ""
        yield chart_of("groups", f"In {unit_head(mine[0])}. {BAND}{more}", lines, {"": ("", None)})


def _slice_chart(
    experiment: Experiment, slice_: Slice, found: Sequence[Finding], category: Mapping[str, str], several: bool
) -> Chart:
    """A row for each value of a slice: with its gap, or with a dot for the mean of each group."""
    means, unit = found[0].measure == "mean", unit_head(found[0])
    more = len({one.contrast for one in found}) > 1 and not means
    cells: dict[tuple[str, str], dict[str, Finding]] = {}
    for one in found:
        place = _part(one, category, several, text.compared(one) if more else ""), one.slice_value
        cells.setdefault(place, {})[one.contrast if means else ""] = one
    columns: dict[str, tuple[str, int | None]] = {"": ("", None)}
    caption = f"Gap{'' if more else f' ({text.compared(found[0])})'} by {slice_.name}, in {unit}. {BAND}"
    if means:
        present = [one for one in experiment.levels if any(one in each for each in cells.values())]
        columns = {one: (text.group_name(experiment, one), text.group_place(experiment, one)) for one in present}
        caption = f"Mean {found[0].unit} by {slice_.name}, in {unit}, with 95 % intervals."
    return chart_of(f"{'means' if means else 'gaps'} by {slice_.name}", caption, lines_of(slice_, cells), columns)


def lines_of(slice_: Slice, cells: Mapping[tuple[str, str], Mapping[str, Finding]]) -> list[Line]:
    """Rows of a chart by slice: findings by column, of each part and value."""
    return [
        Line(part, text.value_name(value), mine, find(slice_, next(iter(mine.values()))))
        for (part, value), mine in cells.items()
    ]


def find(slice_: Slice, finding: Finding) -> str:
    """What a link to a row's pairs asks for."""
    experiment = experiment_of(finding)
    wanted = {slice_.column: finding.slice_value}
    if experiment and finding.subset and not finding.within:
        wanted[experiment.subset] = finding.subset
    return urlencode(wanted)


# --- rates, classes of answers, words -----------------------------------------------------------------


def rate_charts(experiment: Experiment, found: Sequence[Finding]) -> Iterator[Chart]:
    """Each rate by phenotype and training condition: both groups, and how far they differ."""
    rates: dict[tuple[str, str], list[Finding]] = {}
    order = list(MEASURES)
    for one in sorted(found, key=lambda one: order.index(one.measure)):
        record = MEASURES[one.measure]
        name = record.performed or (record.title if record.tabled else "")
        if name and one.slice_by != "all" and not one.view:
            rates.setdefault((name, one.model_id), []).append(one)
    several = len({model for _, model in rates}) > 1
    for (name, model), mine in rates.items():
        cells: dict[tuple[str, str], dict[str, Finding]] = {}
        for one in mine:
            column = one.contrast if one.contrast in experiment.compared else ""
            cells.setdefault((text.value_name(one.slice_value), text.plain(one.subset)), {})[column] = one
        groups = [one for one in experiment.compared if any(one in each for each in cells.values())]
        columns: dict[str, tuple[str, int | None]] = {
            one: (text.group_name(experiment, one), text.group_place(experiment, one)) for one in groups
        }
        if any("" in each for each in cells.values()):
            columns[""] = ("difference" if groups else name, None)
        lines = [
            Line(part, text.rate_name(regime, next(iter(each.values()))), each)
            for (part, regime), each in cells.items()
        ]
        title = f"{name}{f', {model}' if several else ''}"
        yield chart_of(title, text.rate_caption(experiment, mine[0]), lines, columns, written=text.rate_value)


def answer_charts(experiment: Experiment, rows: pd.DataFrame | None) -> Iterator[Chart]:
    """For each model what was answered, by side: over everything, and for each value of the first slice."""
    if rows is None or f"{SAID}other" not in rows:
        return
    names = _CLASSES if f"{SAID}correct" in rows else ("read", *_CLASSES[1:])
    several = rows["model_id"].nunique() > 1
    for model, mine in rows.groupby("model_id", sort=False):
        parts = [("all of them", mine)]
        for one in experiment.slices[:1]:
            parts += [(text.value_name(str(value)), part) for value, part in mine.groupby(one.column, sort=False)]
        counts = {
            (name, side): answer_counts(part[part["group"] == side])
            for name, part in parts
            for side in experiment.compared
            if (part["group"] == side).any()
        }
        used = [place for place, one in enumerate(_CLASSES) if any(each[one] for each in counts.values())]
        stacks: dict[str, list[Row]] = {}
        for (name, side), each in counts.items():
            every = sum(each.values())
            cells = tuple((f"{100 * one / every:.1f} % ({one})", one / every) for one in each.values())
            said = ", ".join(f"{names[place]} {cells[place][0]}" for place in used if cells[place][1])
            group = text.group_name(experiment, side)
            picture = stack([share for _, share in cells], f"{group}: {said}")
            stacks.setdefault(name, []).append(Row(group, picture, tuple(cells[place] for place in used)))
        yield Chart(
            "answers by class" + (f", {model}" if several else ""), text.ANSWERED,
            tuple(names[place] for place in used),
            tuple((name, tuple(part)) for name, part in stacks.items()),
            ruler(Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0)), "percent of answers"),
            tuple((stack_key(place), names[place]) for place in used),
        )  # fmt: skip


def answer_counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many answers are right, wrong, unsure, refused, unreadable or missing; every answer is of one class."""

    def marked(column: str) -> "pd.Series[bool]":
        return rows[column].astype(float) > 0 if column in rows else pd.Series(False, index=rows.index)

    said = {name: marked(f"{SAID}{name}") for name in CLASSES}
    refused, silent = marked("refused"), rows[f"{SAID}other"].isna()
    text = rows["answer"].fillna("").astype(str).str.strip() if "answer" in rows else pd.Series("", index=rows.index)
    if (text != "").any():  # texts of credentialed notes are not kept
        silent = silent | said["other"] & (text == "")
    read = said["correct"] if f"{SAID}correct" in rows else ~said["other"] & ~said["unsure"] & ~silent
    unread = said["other"] & ~silent
    classes = (read, said["incorrect"], said["unsure"], unread & refused, unread & ~refused, silent)
    return {name: int(one.sum()) for name, one in zip(_CLASSES, classes, strict=True)}


def word_charts(experiment: Experiment, explained: Sequence[Explained]) -> Iterator[Chart]:
    """For each model the words of its most mismatched notes by mean weight, by phenotype and training condition."""
    models = dict.fromkeys(one.model_id for one in explained)
    for model in models:
        cells: dict[tuple[str, str], list[Explained]] = {}
        for one in (one for one in explained if one.model_id == model):
            cells.setdefault((one.phenotype, one.regime), []).append(one)
        groups = [one for one in experiment.compared if one in explained[0].words]
        places = {one: text.group_place(experiment, one) for one in groups}
        weights = {cell: _mean_weights(notes, groups) for cell, notes in cells.items()}
        axis = Axis.over(one for each in weights.values() for row in each for one in row[1].values())
        names = {one: text.group_name(experiment, one) for one in groups}
        yield Chart(
            "words of the most mismatched notes" + (f", {model}" if len(models) > 1 else ""),
            text.EXPLAINED, tuple(names.values()),
            tuple(
                (text.explained_name(cells[cell], names), tuple(_word_row(*row, places, axis) for row in each))
                for cell, each in weights.items()
            ),
            ruler(axis, "weight"),
            tuple((key(places[one]), names[one]) for one in groups),
        )  # fmt: skip


def _mean_weights(notes: Sequence[Explained], groups: Sequence[str]) -> list[tuple[str, dict[str, float]]]:
    """The heaviest words in either version, by group."""
    weights: dict[str, dict[str, float]] = {}
    for group in groups:
        for word, weight in (pair for note in notes for pair in note.words[group]):
            by_group = weights.setdefault(word, {})
            by_group[group] = by_group.get(group, 0.0) + weight / len(notes)
    return sorted(weights.items(), key=lambda one: -max(map(abs, one[1].values())))[:_WORDS]


def _word_row(word: str, weights: Mapping[str, float], places: Mapping[str, int], axis: Axis) -> Row:
    shown = {group: weights.get(group, math.nan) for group in places}
    picture = strip([Dot(one, group=places[group]) for group, one in shown.items()], axis)
    return Row(word, picture, tuple((text.number(one, signed=True), one) for one in shown.values()))


# --- pairs --------------------------------------------------------------------------------------------


def _examples(experiment: Experiment, items: pd.DataFrame) -> list[dict[str, Any]]:
    """The pairs with the lowest and the highest gap; of notes, which are long, none."""
    pair = [experiment.group, experiment.reference_group]
    two = items[items["group"].isin(pair)]
    if experiment.rates or experiment.measure != "paired_gap" or not {*pair} <= {*two["group"]}:
        return []
    scores = two.groupby(["pair_id", "group"], sort=False)["score"].mean().unstack()[pair].dropna()
    gaps = scores[pair[0]] - scores[pair[1]]
    if not len(gaps) or gaps.max() - gaps.min() < 1e-9:  # no pair stands out
        return []
    order = gaps.sort_values(kind="stable").index
    ends = order if len(order) <= 2 * EXAMPLES else [*order[:EXAMPLES], *order[-EXAMPLES:]]
    texts = two.drop_duplicates(["pair_id", "group"]).set_index(["pair_id", "group"])["text"]
    return [
        {
            "texts": marked([texts[name, one] for one in pair]),
            "levels": [text.amount(scores[one][name], experiment.unit, named=False) for one in pair],
            "gap": text.amount(gaps[name], experiment.unit, signed=True, named=False),
        }
        for name in ends
    ]


def marked(texts: Sequence[str]) -> list[Markup]:
    """Each different text once, escaped, with the words in which it differs from the others (or its mask) marked.

    >>> [str(one) for one in marked(["He is <b>.", "She is <b>."])]
    ['<mark>He</mark> is &lt;b&gt;.', '<mark>She</mark> is &lt;b&gt;.']
    """
    unique = list(dict.fromkeys(texts))
    if len(unique) != 2:
        split = [re.split(r"(<mask>|\[MASK\])", one) for one in unique]
        return [Markup("").join(_piece(one, place % 2 == 1) for place, one in enumerate(parts)) for parts in split]
    split = [re.findall(r"\s+|\w+|[^\w\s]", one) for one in unique]
    codes = difflib.SequenceMatcher(None, split[0], split[1], autojunk=False).get_opcodes()
    sides = [[(code[0], *code[1:3]) for code in codes], [(code[0], *code[3:5]) for code in codes]]
    return [
        Markup("").join(_piece("".join(words[low:high]), code != "equal") for code, low, high in side)
        for words, side in zip(split, sides, strict=True)
    ]


def _piece(text: str, marked: bool) -> Markup:
    return Markup("<mark>{}</mark>" if marked and text else "{}").format(seen(text))


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
    """The experiment in the unit of its findings: that of the model's scores, which may not be the declared one."""
    mine = (one for one in found if (one.study, one.experiment, one.score) == (study, experiment.name, "score"))
    return replace(experiment, unit=next((one.unit for one in mine if MEASURES[one.measure].reach), experiment.unit))


def entries(experiment: Experiment, rows: pd.DataFrame) -> dict[str, Any]:
    """Scored rows by pair, every text, field and list of tokens once, as ``page.js`` reads them."""
    if "side" in rows:
        rows = rows.assign(group=rows["group"].where(rows["group"] != PLACEBO, rows["side"]))
    if "wording" in rows:
        rows = rows.assign(wording=rows["wording"].fillna("original"))
    fields = [name for name in _FIELDS if name in rows and rows[name].nunique() > 1]
    codes, values = {}, {}
    for name in (*fields, "group", "text", "top_tokens", "answer"):
        column = rows[name].fillna("").astype(str) if name in rows else pd.Series("", index=rows.index)
        codes[name], unique = pd.factorize(column)
        values[name] = [str(one) for one in unique]
    tokens = [_tokens(one) for one in values.pop("top_tokens")]
    scores = [None if math.isnan(one) else round(one, 5) for one in rows["score"].astype(float)]
    pairs: dict[tuple[str, ...], list[Any]] = {}
    names = [rows[name].astype(str) for name in ("pair_id", "model_id", "trial") if name in rows]
    for at, of_pair in enumerate(zip(*names, strict=True)):
        pair = pairs.setdefault(of_pair, [[int(codes[one][at]) for one in fields], []])
        group, text_of, token, answer = (int(codes[one][at]) for one in ("group", "text", "top_tokens", "answer"))
        pair[1].append([group, text_of, scores[at], token, answer])
    titles = {"model_id": "model", experiment.subset: "set", **{one.column: one.name for one in experiment.slices}}
    return {
        "fields": fields,
        "titles": [titles.get(name, text.plain(name)) for name in fields],
        "values": values,
        "tokens": tokens,
        "sides": [experiment.group, experiment.reference_group],
        "scale": text.factor(experiment.unit),
        "unit": experiment.unit,
        "entries": list(pairs.values()),
    }


def _tokens(cell: str) -> list[Any]:
    try:
        read = json.loads(cell) if cell else []
    except ValueError:
        return []
    return [[str(one[0]), round(float(one[1]), 3)] for one in read[:8]] if isinstance(read, list) else []


def _coverage(coverage: pd.DataFrame) -> list[dict[str, Any]]:
    """How many words of each list the model knows, and some that it does not."""
    return [
        {
            "label": f"{lexicon}, {text.plain(str(label))}",
            "words": len(part),
            "seen": int(part["in_vocabulary"].sum()),
            "matched": int(part["matched"].sum()) if "matched" in part else 0,
            "missing": part.loc[~part["in_vocabulary"], "word"].head(12).tolist(),
        }
        for (lexicon, label), part in (coverage.groupby(["lexicon", "label"], sort=False) if len(coverage) else ())
    ]
