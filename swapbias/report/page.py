"""The report: one HTML file without any external reference."""

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from swapbias import findings
from swapbias.findings import Finding, experiment_of, primary_findings
from swapbias.measures import MEASURES, SAID
from swapbias.models.chat import scoring_in_words
from swapbias.privacy import manifest_schema, own_data, public_manifest
from swapbias.report import text
from swapbias.report.charts import Axis, Chart, Dot, Row, look
from swapbias.studies import PLACEBO, Experiment, load_study, tables

if TYPE_CHECKING:
    from jinja2 import Template

EXAMPLES = 4  # pairs shown at each end
MOST_BYTES = 20_000_000  # of compressed scored prompts in one page
_FIELDS = (
    "model_id",
    "construct",
    "label",
    "condition",
    "template",
    "wording",
)  # what pairs are searched by
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ANSWERED = "What was answered to each side, as a share of all answers. Unreadable: no option was clearly chosen."
Columns = Mapping[str, tuple[str, int]]  # title and colour of each
Placed = tuple[
    str, str, str, Finding
]  # part, row and column of a chart (blank: the only one), for a finding


def render(
    manifest: Mapping[str, Any],
    found: Sequence[Finding],
    items: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
    command: str = "",
    meanings: Mapping[str, str] | None = None,
) -> str:
    """The report of a run as HTML, every value escaped.

    Args:
        manifest: of the run; no place of the user's machine in it is shown.
        found: every finding.
        items: scored rows by study, none to show no texts.
        coverage: words of lexicons and whether they were counted.
        command: repeats the run; ``meanings`` of the placeholders in it.
    """
    manifest = public_manifest(manifest, keep_unknown=True)
    packed = _packed(found, items)
    studies = [load_study(name) for name in dict.fromkeys(one.study for one in found)]
    skipped = [
        (one, one["experiment"].startswith(manifest_schema.PART_OF)) for one in manifest["skipped"]
    ]
    names = dict.fromkeys((one.study, one.experiment) for one in found)
    own_notes = own_data(manifest) is not None
    return html(
        "page.html.j2",
        command=command,
        meanings=meanings or {},
        packed=packed,
        manifest=manifest,
        models=manifest["models"],
        size=_size(manifest, items),
        answers=_answers(found),
        margins=text.margins(found),
        judged_alone=text.judged_alone(found),
        reached={one.verdict for one in primary_findings(found)},
        several=_several(found),
        planted=[one for one in found if not one.view and one.published and one.published.planted],
        sections=[
            _section(found, items.get(study), study, name, packed or {}) for study, name in names
        ],
        studies=studies,
        limits=dict.fromkeys(
            limit
            for one in studies
            for limit in one.limits_of_run(
                [name for study, name in names if study == one.name], own_notes=own_notes
            )
        ),
        not_run=[one for one, in_part in skipped if not in_part],
        remarks=dict.fromkeys(one["reason"] for one, in_part in skipped if in_part),
        numbers=findings.comparisons(found, views=True),
        with_items=bool(items),
        too_large=bool(items) and packed is None,
        coverage=coverage.groupby(["lexicon", "label"], sort=False) if len(coverage) else (),
    )


def html(name: str, **values: Any) -> str:
    """A page of this package with its own style and script, which alone may run."""
    own = [
        files("swapbias.report").joinpath(one).read_text(encoding="utf-8")
        for one in ("page.css", "page.js")
    ]
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in own]
    style, script = map(Markup, own)
    return template(name).render(style=style, script=script, hashes=hashes, **values)


def render_summary(found: Sequence[Finding]) -> str:
    """What a notebook shows of a run, as HTML without any reference: a sentence for each verdict."""
    return template("summary.html.j2").render(answers=_answers(found))


@cache
def template(name: str) -> "Template":
    """A template of the report, compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("swapbias.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    templates.globals |= {
        "text": text,
        "anchor": anchor,
        "look": look,
        "scoring_in_words": scoring_in_words,
        "PLANTED_BIAS": tables.PLANTED_BIAS,
        "PLANTED_LEAK": tables.PLANTED_LEAK,
    }
    return templates.get_template(name)


def printable(value: Any) -> Any:
    """A text with a mark in place of each control character, and of each that reverses the direction of writing."""
    if not isinstance(value, str) or not _UNSEEN.search(value):
        return value
    return type(value)(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value))


def anchor(*names: str) -> str:
    """What a link to a part of the page says: ``gendered_stigma.rq1.noun-pair``."""
    return ".".join(re.sub(r"[^A-Za-z0-9_]+", "-", name) for name in names if name)


def _several(found: Sequence[Finding]) -> bool:
    return len({one.model_id for one in found}) > 1


def _size(manifest: Mapping[str, Any], items: Mapping[str, pd.DataFrame]) -> str:
    """How much was measured: ``1,173 prompts from 17 templates``; without scored rows the prompts alone."""
    if not items:
        return f"{sum(one['rows'] for one in manifest['corpora']):,} prompts"
    rows = [each[each["group"] != PLACEBO] for each in items.values()]
    templates = sum(
        len(each[["experiment", "template"]].drop_duplicates())
        for each in rows
        if "template" in each
    )
    return f"{sum(map(len, rows)):,} prompts from {templates:,} template{'s' * (templates != 1)}"


def _answers(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each question and model the sentences and their picture."""
    answers = []
    for results in text.questions(found):
        whole = [
            one for one in results if one.tests_all_groups
        ]  # a sentence, not a point on the scale
        rows = [one for each in results for one in (*text.parts(each, found), each)]
        rows = [one for one in rows if MEASURES[one.measure].gap_span or not whole] or rows
        alone = results if len(results) == 1 else whole[:1]
        beside = [(text.certainty(one), *text.cautions(one, found, every=False)) for one in alone]
        first = rows[0]
        experiment = experiment_of(rows[0])
        answers.append(
            {
                "of": first,
                "place": anchor(first.study, first.experiment),
                "question": experiment.question if experiment else first.experiment,
                "verdicts": text.verdicts(results, found),
                "beside": [*filter(None, sum(beside, ()))],
                "meaning": text.meaning(first),
                "several": len(rows) > len(results),
                "known": any(not math.isnan(one.estimate.value) for one in rows),
                "chart": chart_of("", "", [("", text.row_name(one), "", one) for one in rows]),
            }
        )
    return answers


def axis_of(found: Sequence[Finding]) -> Axis:
    """One scale for all of them: no interval reaches beyond what their quantity can be."""
    first = found[0]
    scale = text.form(found[0]).factor
    record = MEASURES[found[0].measure]
    margins = [one.margin * scale for one in found if not math.isnan(one.margin)]
    span = 100.0 if first.scale.in_points or MEASURES[first.measure].in_percent else math.inf
    most = span * (2 if any(MEASURES[one.measure].gap_span == 2 for one in found) else 1)
    least = -most
    if not record.signed:
        least = 0.0
        most = 1.0 if scale == 1 and not record.whole and math.isinf(span) else span
    dots = [dot_of(one) for one in found]
    ends = [end for one in dots for end in (one.value, one.low, one.high)]
    return Axis.over(ends, margin=max(margins, default=math.nan), least=least, most=most)


def dot_of(finding: Finding, group: int | None = None) -> Dot:
    """A value on its scale; hollow where it may be zero, by its printed interval, or by its test without one."""
    written = text.form(finding)
    one = finding.estimate
    low, high = text.within(finding)
    sure = one.ci_low > 0 or one.ci_high < 0
    if math.isnan(one.ci_low):
        sure = findings.adjusted_p(finding) < findings.LEVEL
    hollow = MEASURES[finding.measure].signed and not sure
    return Dot(written.at(one.value), written.at(low), written.at(high), group, hollow)


def chart_of(
    name: str, caption: str, placed: Sequence[Placed], columns: Columns | None = None
) -> Chart:
    """Findings as rows on one scale; without a name it is that of an answer, which has no p-values."""
    drawn = [one for *_, one in placed]
    unit = text.form(drawn[0]).unit
    axis = axis_of(drawn)
    rows: dict[tuple[str, str, int], dict[str, Finding]] = {}
    for at, (part, row, column, one) in enumerate(placed):
        rows.setdefault((part, row, 0 if columns else at), {})[column] = one
    parts: dict[str, list[Row]] = {}
    for (part, row, _), mine in rows.items():
        first = next(iter(mine.values()))
        size = first.estimate
        dots = [dot_of(first)]
        cells = [
            (text.form(first)(size.value), size.value),
            (text.interval_cell(first, drawn), size.ci_low),
        ]
        cells += [*[(text.own_p(first), size.p_value)] * bool(name), (text.counted(size), size.n)]
        if columns:
            dots = [dot_of(mine[at], group) for at, (_, group) in columns.items() if at in mine]
            values = [mine.get(at) for at in columns]
            cells = [
                (text.own_value(each), each.estimate.value) if each else ("", math.nan)
                for each in values
            ]
        parts.setdefault(part, []).append(Row(row, dots, tuple(cells), first.primary))
    interval = text.interval_head(drawn).replace(" ", "\N{NO-BREAK SPACE}")
    heads = [unit, interval, *["p"] * bool(name), "n"]
    heads = [title for title, _ in columns.values()] if columns else heads
    keys = [(group, title) for title, group in (columns or {}).values()]
    sides = (
        {" minus ".join(text.sides(one)) for *_, one in placed}
        if not name and unit == "points"
        else {"what"}
    )
    heading = sides.pop() if len(sides) == 1 else "groups"
    return Chart(
        name,
        caption,
        tuple(heads),
        parts,
        axis,
        unit,
        tuple(keys),
        name.rpartition("by ")[2] or heading,
    )


def _section(
    found: Sequence[Finding],
    rows: pd.DataFrame | None,
    study: str,
    name: str,
    packed: Mapping[str, str],
) -> dict[str, Any]:
    """Everything about one question: charts, published results, sensitivity, pairs."""
    mine = [one for one in found if (one.study, one.experiment) == (study, name)]
    experiment = next(one for one in load_study(study).experiments if one.name == name)
    place = anchor(study, name)
    items = None if rows is None else rows[rows["experiment"] == name]
    answers = primary_findings(mine)
    answers = [one for one in answers if MEASURES[one.measure].gap_span] or answers
    known = [one for one in mine if one.published and not one.published.planted]
    views = {(one.model_id, *one.key()) for one in known if one.view}
    charts = [
        *slice_charts(experiment, mine),
        *rate_charts(experiment, mine),
        *answer_tables(experiment, items),
    ]
    return {
        "study": load_study(study),
        "experiment": experiment,
        "place": place,
        "several": _several(mine),
        "answers": answers,
        "found": mine,
        "charts": charts,
        # what papers print a number for, by their own statistics where there are such
        "compared": [one for one in known if one.view or (one.model_id, *one.key()) not in views],
        "examples": []
        if items is None
        else _examples(in_unit_of_scores(study, experiment, mine), items),
        "judged": findings.findings_of_judge(mine),
        "pairs": place if place in packed else "",
    }


def slice_charts(experiment: Experiment, found: Sequence[Finding]) -> Iterator[Chart]:
    """Of several groups all gaps and effects; then by slice the gaps, or the means where it has no gaps.

    Nothing of a model with one score for every prompt: equal means would read as "no gap".
    """
    by_verdict = [(one.verdict == text.UNMEASURED, one.model_id) for one in primary_findings(found)]
    constant = {model for lost, model in by_verdict if lost and (False, model) not in by_verdict}
    found = [
        one
        for one in found
        if one.score == "score" and not one.view and one.model_id not in constant
    ]
    several = _several(found)

    def placed(one: Finding, more: str, row: str, column: str = "") -> Placed:
        return (
            ", ".join(filter(None, (one.model_id * several, more, text.set_name(one)))),
            row,
            column,
            one,
        )

    groups = [one for one in found if MEASURES[one.measure].gap_span and one.slice_by == "all"]
    if len(experiment.compares.groups) > 1 and groups:
        rows = [placed(one, text.plain(one.measure), text.compared(one)) for one in groups]
        yield chart_of("groups", "", rows)
    for by in [one.name for one in experiment.shows.slices]:
        mine = [(one, text.value_name(one.slice_value)) for one in found if one.slice_by == by]
        gaps = [(one, row) for one, row in mine if MEASURES[one.measure].gap_span]
        means = [
            (one, row)
            for one, row in mine
            if one.measure == "mean" and one.contrast in experiment.shows.levels
        ]
        if any(not math.isnan(one.estimate.value) for one, _ in gaps):
            names = {one.contrast: text.compared(one) for one, _ in gaps}
            rows = [placed(one, names[one.contrast] * (len(names) > 1), row) for one, row in gaps]
            yield chart_of(f"gaps by {by}", "", rows)
        elif means:
            rows = [placed(one, "", row, one.contrast) for one, row in means]
            used = [
                one
                for one in experiment.shows.levels
                if any(one == column for _, _, column, _ in rows)
            ]
            columns = {
                one: (text.group_name(experiment, one), text.group_place(experiment, one))
                for one in used
            }
            caption = f"Mean {text.unit_of_levels(means[0][0].scale)}, with 95 % intervals."
            yield chart_of(f"means by {by}", caption, rows, columns)


def rate_charts(experiment: Experiment, found: Sequence[Finding]) -> Iterator[Chart]:
    """How far each rate differs between the groups, by phenotype and training condition."""
    rates: dict[tuple[str, str], list[Placed]] = {}
    order = list(MEASURES)
    for one in sorted(found, key=lambda one: order.index(one.measure)):
        record = MEASURES[one.measure]
        part = text.value_name(one.slice_value)
        if record.tabled and one.slice_by != "all" and not one.view:
            row = text.plain(one.subset)
            row += f": {text.direction(one)}" if one.measure == "flip_rate" else ""
            rates.setdefault((record.title, one.model_id), []).append((part, row, "", one))
    both = " minus ".join(
        text.group_name(experiment, one)
        for one in (experiment.compares.group, experiment.compares.reference)
    )
    for (name, model), rows in rates.items():
        record = MEASURES[rows[0][-1].measure]
        caption = f"{text.capital(record.unit)}, with 95 % intervals."
        if record.signed:
            caption = f"{caption} A difference is {both}."
        yield chart_of(f"{name}{f', {model}' if _several(found) else ''}", caption, rows)


def answer_tables(experiment: Experiment, rows: pd.DataFrame | None) -> Iterator[Chart]:
    """For each model what was answered, by side: over everything, and for each value of the first slice."""
    if rows is None or f"{SAID}other" not in rows:
        return
    for model, mine in rows.groupby("model_id", sort=False):
        parts = {"all of them": mine}
        for by in experiment.shows.slices[:1]:
            parts |= {
                text.value_name(str(value)): part
                for value, part in mine.groupby(by.column, sort=False)
            }
        counts = {
            (part, side): findings.answer_counts(of_side)
            for part, of_part in parts.items()
            for side in experiment.compared
            if len(of_side := of_part[of_part["group"] == side])
        }
        used = [
            name
            for name in findings.answer_counts(mine)
            if any(each[name] for each in counts.values())
        ]
        cells: dict[str, list[Row]] = {}
        for (part, side), each in counts.items():
            shares = [
                (f"{100 * each[name] / sum(each.values()):.1f} % ({each[name]})", each[name])
                for name in used
            ]
            cells.setdefault(part, []).append(
                Row(text.group_name(experiment, side), (), tuple(shares))
            )
        heads = [name if f"{SAID}correct" in rows or name != "right" else "read" for name in used]
        title = "answers by class" + (f", {model}" if rows["model_id"].nunique() > 1 else "")
        yield Chart(title, _ANSWERED, tuple(heads), cells)


def _examples(experiment: Experiment, items: pd.DataFrame) -> list[dict[str, Any]]:
    """The pairs with the lowest and the highest gap of any contrast; of notes, which are long, none."""
    if experiment.shows.rates or not experiment.is_paired:
        return []
    examples = [
        example for contrast in experiment.gaps for example in _pair_examples(contrast, items)
    ]
    examples.sort(key=lambda example: example["gap"])
    if not examples or examples[-1]["gap"] - examples[0]["gap"] < 1e-9:  # no pair stands out
        return []
    ends = examples if len(examples) <= 2 * EXAMPLES else examples[:EXAMPLES] + examples[-EXAMPLES:]
    levels = text.form_in(experiment.compares.unit, signed=False)
    gaps = text.form_in(experiment.compares.unit)
    return [
        {
            "texts": marked(example["texts"]),
            "compared": " minus ".join(
                text.group_name(experiment, group) for group in example["groups"]
            ),
            "levels": [levels(score) for score in example["scores"]],
            "gap": gaps(example["gap"]),
        }
        for example in ends
    ]


def _pair_examples(contrast: Experiment, items: pd.DataFrame) -> list[dict[str, Any]]:
    """The pairs of two groups: texts and scores of each side, and the gap."""
    groups = [contrast.compares.group, contrast.compares.reference]
    rows = items[items["group"].isin(groups)]
    if not {*groups} <= {*rows["group"]}:
        return []
    scores = (
        rows.groupby(["pair_id", "group"], sort=False)["score"].mean().unstack()[groups].dropna()
    )
    texts = rows.drop_duplicates(["pair_id", "group"]).set_index(["pair_id", "group"])["text"]
    return [
        {
            "groups": groups,
            "texts": [texts[pair, one] for one in groups],
            "scores": of_pair,
            "gap": of_pair[0] - of_pair[1],
        }
        for pair, of_pair in zip(scores.index, scores.to_numpy().tolist(), strict=True)
    ]


def marked(texts: Sequence[str]) -> list[Markup]:
    """Each different text once, escaped, marked each word that the other text lacks, else the mask."""
    unique = list(dict.fromkeys(texts))
    made = []
    for one in unique:
        others = {word for other in unique if other != one for word in re.findall(r"\w+", other)}
        pieces = re.split(r"(<mask>|\[MASK\]|\w+)", one)  # words and masks at odd places
        marks = [
            at % 2 and (each not in others if len(unique) == 2 else each[0] in "<[")
            for at, each in enumerate(pieces)
        ]
        tags = [Markup("<mark>{}</mark>" if mark else "{}") for mark in marks]
        made.append(
            Markup("").join(
                tag.format(printable(each)) for tag, each in zip(tags, pieces, strict=True)
            )
        )
    return made


def _packed(found: Sequence[Finding], items: Mapping[str, pd.DataFrame]) -> dict[str, str] | None:
    """The scored prompts of each experiment (of notes none), compressed, by its anchor; None: too many for a page."""
    made = {}
    for study, rows in items.items():
        for declared in load_study(study).experiments:
            mine = rows[rows["experiment"] == declared.name]
            of_notes = {*declared.shows.rates} - {findings.ANSWERS}
            if (
                len(mine)
                and declared.compares.measure
                and not (of_notes or declared.reads.notes.corpus)
            ):
                pairs = entries(in_unit_of_scores(study, declared, found), mine)
                written = json.dumps(
                    pairs, ensure_ascii=False, separators=(",", ":"), allow_nan=False
                )
                data = base64.b64encode(zlib.compress(written.encode(errors="replace"), 9)).decode()
                made[anchor(study, declared.name)] = f"data:application/zlib;base64,{data}"
    return made if sum(map(len, made.values())) <= MOST_BYTES else None


def in_unit_of_scores(study: str, experiment: Experiment, found: Sequence[Finding]) -> Experiment:
    """The experiment in the unit of its findings: that of the model's scores, which may not be the declared one."""
    mine = (
        one
        for one in found
        if (one.study, one.experiment, one.score) == (study, experiment.name, "score")
    )
    units = (one.scale for one in mine if MEASURES[one.measure].gap_span)
    return experiment.in_unit(next(units, experiment.compares.unit))


def entries(experiment: Experiment, rows: pd.DataFrame) -> dict[str, Any]:
    """Scored rows by pair, every text, field and list of tokens once, as ``page.js`` reads them."""
    if "side" in rows:
        rows = rows.assign(group=rows["group"].where(rows["group"] != PLACEBO, rows["side"]))
    if "wording" in rows:
        rows = rows.assign(wording=rows["wording"].fillna("original"))
    fields = [name for name in _FIELDS if name in rows and rows[name].nunique() > 1]
    codes = {}
    values = {}
    for name in (*fields, "group", "text", "top_tokens", "answer"):
        column = (
            rows[name].fillna("").astype(str) if name in rows else pd.Series("", index=rows.index)
        )
        codes[name], unique = pd.factorize(column)
        values[name] = [str(one) for one in unique]
    words = map(json.loads, (one or "[]" for one in values.pop("top_tokens")))
    tokens = [[[str(one), round(float(p), 3)] for one, p in each[:8]] for each in words]
    scores = [None if math.isnan(one) else round(one, 5) for one in rows["score"].astype(float)]
    pairs: dict[tuple[str, ...], list[Any]] = {}
    names = [rows[name].astype(str) for name in ("pair_id", "model_id", "trial") if name in rows]
    for at, of_pair in enumerate(zip(*names, strict=True)):
        pair = pairs.setdefault(of_pair, [[int(codes[one][at]) for one in fields], []])
        group, text_of, token, answer = (
            int(codes[one][at]) for one in ("group", "text", "top_tokens", "answer")
        )
        pair[1].append([group, text_of, scores[at], token, answer])
    written = text.form_in(experiment.compares.unit, signed=False)
    titles = {
        "model_id": "model",
        experiment.compares.subset: "set",
        **{one.column: one.name for one in experiment.shows.slices},
    }
    return {
        "fields": fields,
        "titles": [titles.get(name, text.plain(name)) for name in fields],
        "values": values,
        "tokens": tokens,
        "contrasts": [[one.compares.group, one.compares.reference] for one in experiment.gaps],
        "entries": list(pairs.values()),
        "scale": written.factor,
        "start": written.start,
        "unit": text.unit_of_levels(experiment.compares.unit),
    }
