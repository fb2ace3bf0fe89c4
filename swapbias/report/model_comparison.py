"""Several models in one page: what each shows, how far it lies from one of them, and the evidence; no ranking."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.findings import Finding
from swapbias.measures import MEASURES
from swapbias.privacy import public_manifest
from swapbias.report import page, text
from swapbias.report.charts import Chart, Row
from swapbias.studies import Experiment, load_study

MOST_DRAWN = 5  # models that are drawn by slice
NO_RANKING = (
    "This is a comparison and not a ranking: models know different words, and the studies' word lists cover them to "
    "different degrees. Models stand in alphabetical order. A gap near zero shows that this gap is small on these "
    "prompts, not that a model is fair."
)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model of a run."""

    name: str
    """As the page calls it; no other model of the page has it."""
    run: str
    """Where it is from, without a place of this machine."""
    manifest: Mapping[str, Any]
    found: Sequence[Finding]
    report: str = ""
    """The address of the report of its run, from the folder of the page; blank for none."""
    title: str = ""
    """Names model and run; no other model of a comparison has it."""
    folder: Path | None = None
    """Of its run; None for one of the Hub."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What was measured on the same prompts."""

    found: tuple[Finding | None, ...]
    """Of each model in their order, None where there is none."""
    note: str = ""
    """What differs from others of its name (prompts, word lists, trials)."""
    differences_by_model: Mapping[str, Finding] | None = None
    """Of models by name, their value minus the reference's."""

    @property
    def known(self) -> list[Finding]:
        """The findings that there are."""
        return [one for one in self.found if one is not None]

    @property
    def primary(self) -> bool:
        """Whether it answers the question of its experiment."""
        return any(one.primary for one in self.known)


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """What the page of a comparison is made of."""

    models: Sequence[ComparedModel]
    reference: str
    """The name of the model that the others are compared with."""
    quantities: Sequence[Quantity]
    """By study."""
    differences: Sequence[Finding]
    """All of them."""
    notes: Sequence[str]
    """On what is not comparable, and what is left out."""


def render_comparison(compared: ComparisonPage) -> str:
    """The page as HTML; every value from outside is escaped, no place on this machine is named."""
    questions: dict[tuple[str, str], list[Quantity]] = {}
    for one in compared.quantities:
        if one.primary:
            questions.setdefault((one.known[0].study, one.known[0].experiment), []).append(one)
    names = [one.name for one in compared.models]
    families = [
        one.estimate.family for one in compared.differences if one.primary and one.slice_by == "all"
    ]
    return page.html(
        "comparison.html.j2",
        version=__version__,
        reference=compared.reference,
        title=f"{text.listed(names) if len(names) <= text.FEW else f'{len(names)} models'} compared",
        models=[(one, public_manifest(one.manifest, keep_unknown=True)) for one in compared.models],
        sections=[_section(compared, *names, mine) for names, mine in questions.items()],
        notes=[*compared.notes, NO_RANKING],
        family=next(filter(None, families), ""),
    )


def sentences(compared: ComparisonPage) -> Iterator[tuple[Finding, str]]:
    """What the page says of each question, for a terminal: a primary finding of it, and a sentence."""
    for one in compared.quantities:
        if one.primary:
            yield one.known[0], " ".join(filter(None, _texts(compared, one)))


def _texts(compared: ComparisonPage, quantity: Quantity) -> tuple[str, str]:
    """Of one quantity what each model shows, and how far it lies from the reference."""
    away = [
        text.between(one, name, compared.reference)
        for name, one in (quantity.differences_by_model or {}).items()
    ]
    tested = text.of_models(away) if away else "No difference of models is tested here."
    return text.of_models(quantity.known), tested if len(quantity.known) > 1 else ""


def _section(
    compared: ComparisonPage, study: str, name: str, mine: Sequence[Quantity]
) -> dict[str, Any]:
    """Everything about one question: sentences, a table of all models, gaps by slice."""
    first = mine[0].known[0]
    experiment = next((one for one in load_study(study).experiments if one.name == name), None)
    return {
        "place": page.anchor(study, name),
        "question": experiment.question if experiment else name,
        "said": [(*_texts(compared, one), one.note) for one in mine],
        "answer": _answer(compared, mine),
        "meaning": text.meaning(first),
        "inference": text.inference(first),
        "charts": [*_charts(compared, study, experiment)] if experiment else [],
    }


def _answer(compared: ComparisonPage, mine: Sequence[Quantity]) -> Chart:
    """A row for each model: its own value with its verdict, and how far it lies from the reference."""
    known = [one for each in mine for one in each.known]
    drawn = [
        one for one in known if MEASURES[one.measure].gap_span
    ] or known  # a test of all has no sign
    unit = text.form(drawn[0]).unit
    drawn = [one for one in drawn if text.form(one).unit == unit]
    parts: dict[str, list[Row]] = {}
    for quantity in mine:
        one = quantity.known[0]
        name = (
            ", ".join(filter(None, (text.compared(one), text.set_name(one))))
            if len(mine) > 1
            else ""
        )
        rows = parts.setdefault(name, [])
        for place, (model, found) in enumerate(zip(compared.models, quantity.found, strict=True)):
            away = (quantity.differences_by_model or {}).get(model.name)
            lies = "compared with" if model.name == compared.reference else "not tested"
            if away is not None:
                size = text.own_value(text.between(away, model.name, compared.reference))
                lies = f"{size}: {text.word(away).lower()}".rstrip(": ")
            if found is not None:
                cells = (text.own_value(found), text.word(found) if found.verdict else "", lies)
                dots = [page.dot_of(found, place)] * any(found is one for one in drawn)
                rows.append(
                    Row(page.printable(model.name), dots, tuple((cell, None) for cell in cells))
                )
    reference = page.printable(text.shown(compared.reference, 20))
    heads = (f"{unit} (95 % interval)", "verdict", f"minus {reference}")
    return Chart("", "", heads, parts, page.axis_of(drawn), unit)


def _set_name(finding: Finding, experiment: Experiment) -> str:
    """Name the contrast of a finding, where there are several, and its set of conditions."""
    contrast = text.plain(finding.contrast) if len(experiment.compares.groups) > 1 else ""
    return ", ".join(filter(None, (contrast, text.set_name(finding))))


def _charts(compared: ComparisonPage, study: str, experiment: Experiment) -> Iterator[Chart]:
    """Gaps by slice, where the models are few enough to be drawn."""
    columns = {
        one.name: (page.printable(one.name), place) for place, one in enumerate(compared.models)
    }
    for by in [one.name for one in experiment.shows.slices] if len(columns) <= MOST_DRAWN else ():
        rows = [
            (_set_name(one, experiment), text.value_name(one.slice_value), model.name, one)
            for model in compared.models
            for one in model.found
            if (one.study, one.experiment, one.slice_by) == (study, experiment.name, by)
            and MEASURES[one.measure].gap_span
            and one.score == "score"
            and not one.view
        ]
        if rows:
            yield page.chart_of(f"gaps by {by}", "", rows, columns)
