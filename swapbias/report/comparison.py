"""Several models in one page: what each shows, how far it lies from one of them, and the evidence; no ranking."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from swapbias import __version__
from swapbias.findings import Finding, experiment_of, experiment_rows
from swapbias.measures import MEASURES
from swapbias.privacy import public_manifest
from swapbias.report import page, text
from swapbias.report.charts import Axis, Chart, Dot, Row, key, ruler, strip
from swapbias.report.page import anchor
from swapbias.studies import Experiment, Slice, load_study

MOST_OPEN = 12  # models whose rows stand open; more are behind a click
MOST_DRAWN = 5  # models that are drawn by slice; of more there are numbers
NO_RANKING = (
    "This is a comparison and not a ranking: models have different vocabularies, and the studies' word lists cover "
    "them to different degrees. Runs stand in the order of their models' names. A value near zero is no proof that "
    "a model is fair: it says that this quantity is small on these prompts."
)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model of a run.

    Attributes:
        name: as the page calls it; no other model of the page has it.
        run: where it is from, without a place of this machine.
        report: the address of the report of its run, from the folder of the page; blank for none.
        manifest: of its run.
        found: its findings, of which those by slice are shown.
    """

    name: str
    run: str
    manifest: Mapping[str, Any]
    found: Sequence[Finding]
    report: str = ""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What was measured on the same prompts: a finding for each model, None where there is none.

    Attributes:
        found: in the order of the models.
        note: what differs from others of its name (prompts, word lists, trials); blank where nothing does.
        away: of models by name, the reference's value minus theirs.
    """

    found: tuple[Finding | None, ...]
    note: str = ""
    away: Mapping[str, Finding] | None = None

    @property
    def first(self) -> Finding:
        """The finding of the first model that has it."""
        return next(one for one in self.found if one is not None)

    @property
    def headline(self) -> bool:
        """Whether it answers the question of its experiment."""
        return any(one is not None and one.headline for one in self.found)


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """What the page of a comparison is made of.

    Attributes:
        models: in the order in which they stand.
        reference: the name of the model that the others are compared with.
        quantities: by study.
        differences: all of them, for the tables.
        scored: scored rows by study and name of model, where they are at hand; one model's hold the texts.
        notes: sentences on what is not comparable, and what is left out.
    """

    models: Sequence[ComparedModel]
    reference: str
    quantities: Sequence[Quantity]
    differences: Sequence[Finding]
    scored: Mapping[str, Mapping[str, pd.DataFrame]]
    notes: Sequence[str]


def render_comparison(told: ComparisonPage) -> str:
    """The page as HTML; every value from outside is escaped, no place on this machine is named."""
    style, script = (page.own_file(name) for name in ("page.css", "page.js"))
    packed = _packed(told)
    asked = _asked(told)
    shown = sorted({(one.study, one.experiment) for one in asked}, key=lambda one: one[0])
    return page.template("comparison.html.j2").render(
        version=__version__,
        title=_title(told),
        style=style,
        script=script,
        policy=page.policy(style, script),
        models=[(_name(told, place), one, _facts(one.manifest)) for place, one in enumerate(told.models)],
        reference=told.reference,
        several_open=len(told.models) <= MOST_OPEN,
        studies=list(dict.fromkeys(study for study, _ in shown)),
        answers=[_answer(told, one) for one in asked],
        sections=[_section(told, study, packed) for study in dict.fromkeys(study for study, _ in shown)],
        others=told.quantities,
        differences=[one for one in told.differences if one.slice_by == "all"],
        notes=[*told.notes, NO_RANKING],
        family=next((one.estimate.family for one in told.differences if one.headline and one.estimate.family), ""),
        packed=packed,
        too_large=bool(told.scored) and packed is None,
    )


def _title(told: ComparisonPage) -> str:
    names = [one.name for one in told.models]
    if len(names) > text.FEW:
        return f"{len(names)} models compared"
    return f"{', '.join(names[:-1])} and {names[-1]} compared"


def _facts(manifest: Mapping[str, Any]) -> str:
    public = public_manifest(manifest)
    return f"audited {str(public.get('started', ''))[:10]} with swapbias {public['swapbias']}"


def _name(told: ComparisonPage, place: int) -> Markup:
    """A model's shape and name; beyond 25 models the shapes repeat, and names alone tell them apart."""
    one = told.models[place]
    mark = Markup(' <span class="soft">(compared with)</span>') if one.name == told.reference else Markup("")
    return Markup("{} {}{}").format(key(place), page.seen(one.name), mark)


def _of(finding: Finding) -> tuple[str, str]:
    return finding.study, finding.experiment


def _asked(told: ComparisonPage) -> list[Finding]:
    """The first headline of each experiment, by study."""
    first: dict[tuple[str, str], Finding] = {}
    for one in told.quantities:
        if one.headline:
            first.setdefault(_of(one.first), one.first)
    return list(first.values())


# --- answers ------------------------------------------------------------------------------------------


def _answer(told: ComparisonPage, first: Finding) -> dict[str, Any]:
    mine = [one for one in told.quantities if _of(one.first) == _of(first) and one.headline]
    experiment = experiment_of(first)
    return {
        "place": anchor(first.study, first.experiment),
        "of": first,
        "question": experiment.question if experiment else first.experiment,
        "parts": [_part(told, one, len(mine) > 1) for one in mine],
        "meaning": text.meaning(first),
        "banded": not math.isnan(first.margin),
    }


def _part(told: ComparisonPage, quantity: Quantity, several: bool) -> dict[str, Any]:
    """One quantity: its sentences and a row for each model that has it."""
    known = [one for one in quantity.found if one is not None]
    first = quantity.first
    away = quantity.away or {}
    axis = _axis(told, first)
    own_said, away_said = _said(told, quantity)
    return {
        "head": f"{text.quantity(first)}, {text.where(first)}" if several else "",
        "note": quantity.note,
        "own": own_said,
        "away": away_said,
        "unit": page.unit_head(first),
        "inference": first.inference,
        "ruler": ruler(axis, page.unit_head(first)),
        "closed": len(known) > MOST_OPEN,
        "rows": [
            _line(told, place, one, away.get(told.models[place].name), axis)
            for place, one in enumerate(quantity.found)
            if one is not None
        ],
    }


def _axis(told: ComparisonPage, first: Finding) -> Axis:
    """One scale for all that is told in one unit, over all studies, and for the differences too."""
    alike = [
        one
        for quantity in told.quantities
        for one in quantity.found
        if one is not None and one.headline and page.scaled_alike(one, first)
    ]
    axis = page.axis_of(alike)
    ends = [
        text.factor(one.unit) * end
        for quantity in told.quantities
        if quantity.away and page.scaled_alike(quantity.first, first)
        for one in quantity.away.values()
        for end in (-one.estimate.value, -one.estimate.ci_low, -one.estimate.ci_high)
    ]
    return Axis.over([*ends, axis.low, axis.high], margin=axis.margin) if ends else axis


def _line(told: ComparisonPage, place: int, one: Finding, away: Finding | None, axis: Axis) -> dict[str, Any]:
    """A model's row: its own value, and how far it lies from the reference."""
    reference = told.models[place].name == told.reference
    picture = Markup("")
    if away is not None:
        scale, estimate = text.factor(away.unit), away.estimate
        ends = (-scale * estimate.ci_high, -scale * estimate.ci_low)
        dot = Dot(scale * text.away(away), *ends, place, hollow=not estimate.p_adjusted < 0.05)
        picture = strip([dot], axis)
    return {
        "name": _name(told, place),
        "picture": strip([page.dot_of(one, place, hollow=page.unsure(one))], axis),
        "own": text.own_value(one),
        "verdict": text.word(one) if one.verdict else "",
        "away_picture": picture,
        "away": text.away_value(away) if away is not None else "–",
        "away_verdict": text.difference_word(away) if away is not None else "" if reference else "not tested",
    }


def sentences(told: ComparisonPage) -> Iterator[tuple[Finding, str]]:
    """What the page says of each question, for a terminal: a headline of it, and a sentence."""
    for quantity in told.quantities:
        if quantity.headline:
            yield quantity.first, " ".join(filter(None, _said(told, quantity)))


def _said(told: ComparisonPage, quantity: Quantity) -> tuple[str, str]:
    """Of one quantity what each model shows, and how far it lies from the reference."""
    known = [one for one in quantity.found if one is not None]
    if len(known) < 2:
        return text.own_values(known), ""
    return text.own_values(known), text.differences([*(quantity.away or {}).items()], told.reference)


# --- evidence -----------------------------------------------------------------------------------------


def _section(told: ComparisonPage, name: str, packed: Mapping[str, str] | None) -> dict[str, Any]:
    study = load_study(name)
    run = {one.experiment for model in told.models for one in model.found if one.study == name}
    parts = []
    for experiment in study.experiments:
        if experiment.name in run:
            place = anchor(name, experiment.name)
            pairs = place if packed and place in packed else ""
            parts.append(
                {
                    "experiment": page.in_unit_read(name, experiment, _found(told)),
                    "place": place,
                    "charts": _charts(told, name, experiment),
                    "pairs": pairs,
                }
            )
    return {"study": study, "parts": parts}


def _charts(told: ComparisonPage, study: str, experiment: Experiment) -> list[Chart]:
    """Gaps by slice: drawn where the models are few, as numbers else."""
    found = [(place, one) for place, model in enumerate(told.models) for one in model.found]
    charts = []
    for slice_ in experiment.slices:
        cells: dict[tuple[str, str], dict[int, Finding]] = {}
        for place, one in found:
            if one.slice_by == slice_.name and _shown(one, study, experiment):
                cells.setdefault((_head(one, experiment), one.slice_value), {})[place] = one
        if cells:
            charts.append(_chart(told, slice_, cells))
    return charts


def _shown(one: Finding, study: str, experiment: Experiment) -> bool:
    mine = one.experiment == experiment.name and one.study == study and one.score == "score"
    return mine and not one.view and bool(MEASURES[one.measure].reach)


def _head(finding: Finding, experiment: Experiment) -> str:
    told = [text.plain(finding.contrast)] if experiment.groups else []
    return ", ".join([*told, *([text.plain(finding.subset)] if finding.subset else [])])


def _chart(told: ComparisonPage, slice_: Slice, cells: Mapping[tuple[str, str], Mapping[int, Finding]]) -> Chart:
    every = [one for row in cells.values() for one in row.values()]
    axis, unit = page.axis_of(every), page.unit_head(every[0])
    parts: dict[str, list[Row]] = {}
    few, models = len(told.models) <= MOST_DRAWN, tuple(one.name for one in told.models)
    for (head, value), row in cells.items():
        dots = [page.dot_of(one, place, hollow=page.unsure(one)) for place, one in row.items()]
        written = text.own_value if few else _starred
        texts = tuple((written(row[place]) if place in row else "", None) for place in range(len(models)))
        find = page.find(slice_, next(iter(row.values())))
        picture = strip(dots, axis) if few else Markup("")
        parts.setdefault(head, []).append(Row(text.value_name(value), picture, texts, find))
    how = (
        "with 95 % intervals; filled: p < .05 after correction. The band is the margin within which a gap counts as "
        "none."
    )
    return Chart(
        f"gaps by {slice_.name}",
        f"Gap by {slice_.name}, in {unit}{f', {how}' if few else '; starred: p < .05 after correction.'}",
        (slice_.name, *models),
        tuple((name, tuple(part)) for name, part in parts.items()),
        ruler(axis, unit) if few else Markup(""),
        keys=tuple((key(place), name) for place, name in enumerate(models)),
    )


def _starred(one: Finding) -> str:
    return text.value(one).removesuffix(" points") + ("" if page.unsure(one) else "*")


# --- pairs --------------------------------------------------------------------------------------------


def _packed(told: ComparisonPage) -> dict[str, str] | None:
    """The scores of all models, each prompt once, compressed, by the experiment's anchor; None where too many."""
    contents = {}
    for study, models in told.scored.items():
        for experiment in load_study(study).experiments:
            mine = {name: rows for name, rows in models.items() if (rows["experiment"] == experiment.name).any()}
            mine = {name: experiment_rows(rows, experiment.name) for name, rows in mine.items()}
            texts = next((rows for rows in mine.values() if "text" in rows and (rows["text"] != "").any()), None)
            if len(mine) < 2 or texts is None or not experiment.measure or page.of_notes(experiment):
                continue
            named = page.in_unit_read(study, experiment, _found(told))
            contents[anchor(study, experiment.name)] = _entries(named, mine, texts[texts["text"] != ""])
    return page.packed(contents)


def _found(page: ComparisonPage) -> list[Finding]:
    return [one for model in page.models for one in model.found]


def _means(rows: pd.DataFrame, prompts: pd.Series) -> pd.Series:
    """The mean score of each of these prompts; NaN where there is none."""
    if len(rows) == len(prompts) and rows["prompt_id"].array.equals(prompts.array):  # each was asked once
        return rows["score"].astype(float)
    return rows.groupby("prompt_id", sort=False)["score"].mean().reindex(prompts)


def _entries(experiment: Experiment, models: Mapping[str, pd.DataFrame], texts: pd.DataFrame) -> dict[str, Any]:
    """One model's rows with ``texts`` as ``page.entries`` codes them, with the scores of every model."""
    first = texts.drop_duplicates("prompt_id")
    scores = [_means(rows, first["prompt_id"]).round(5).to_list() for rows in models.values()]
    bare = first.drop(columns=[name for name in ("top_tokens", "answer", "trial") if name in first])
    coded = page.entries(experiment, bare.assign(model_id="", score=range(len(bare))))
    for _, rows in coded["entries"]:
        for row in rows:
            at = round(row[2])
            row[2:] = [[None if math.isnan(column[at]) else column[at] for column in scores]]
    return {**coded, "models": list(models)}
