"""Several models in one page: what each shows, how far it lies from one of them, and the evidence; no ranking."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.findings import Finding
from swapbias.measures import MEASURES
from swapbias.privacy import public_manifest
from swapbias.report.charts import Chart, Row
from swapbias.report.claims import verdict_word
from swapbias.report.finding_charts import PlacedFinding, axis_of, chart_of, dot_of
from swapbias.report.finding_names import (
    contrast_name,
    join_names,
    plain_words,
    safe_line,
    set_name,
    value_name,
)
from swapbias.report.meanings import inference_basis, sign_meaning
from swapbias.report.model_effects import effects_by_model, state_correlations
from swapbias.report.numbers import finding_format, value_with_interval
from swapbias.report.page_template import anchor, mark_unseen, render_html
from swapbias.report.verdicts import FEW, summarize_models
from swapbias.studies import Experiment, load_study

MOST_DRAWN = 5
"""Most models that are drawn by slice."""
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
    """Of its run."""
    found: Sequence[Finding]
    """Its findings."""
    report: str = ""
    """The address of the report of its run, from the folder of the page; blank for none."""
    title: str = ""
    """Names model and run; no other model of a comparison has it."""
    folder: Path | None = None
    """Of its run; None for one of the Hub."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity that was measured on the same prompts."""

    found: tuple[Finding | None, ...]
    """Finding of each model in their order; None where there is none."""
    note: str = ""
    """Says how it differs from others of its name: prompts, word lists, trials."""
    differences_by_model: Mapping[str, Finding] | None = None
    """Value of each model minus the reference's, by name; None where none was tested."""

    @property
    def known(self) -> list[Finding]:
        """Findings of the models that have one."""
        return [finding for finding in self.found if finding is not None]

    @property
    def primary(self) -> bool:
        """True where it answers the question of its experiment."""
        return any(finding.primary for finding in self.known)


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """Content of the page of a comparison."""

    models: Sequence[ComparedModel]
    """Models in alphabetical order."""
    reference: str
    """The name of the model that the others are compared with."""
    quantities: Sequence[Quantity]
    """Rows of the comparison, by study."""
    differences: Sequence[Finding]
    """Differences of all models and correlations over them."""
    notes: Sequence[str]
    """Sentences on what is not comparable, and what is left out."""


def render_comparison(compared: ComparisonPage) -> str:
    """Return the page as HTML; every value from outside is escaped, no place on this machine is named.

    Args:
        compared: content of the page.
    """
    questions = _primary_by_question(compared)
    names = [model.name for model in compared.models]
    title = join_names(names) if len(names) <= FEW else f"{len(names)} models"
    families = [
        difference.estimate.family
        for difference in compared.differences
        if difference.primary and difference.slice_by == "all"
    ]
    return render_html(
        "comparison.html.j2",
        version=__version__,
        reference=compared.reference,
        title=f"{title} compared",
        models=[
            (model, public_manifest(model.manifest, keep_unknown=True)) for model in compared.models
        ],
        sections=[
            _section(compared, study, name, quantities)
            for (study, name), quantities in questions.items()
        ],
        correlations=[sentence for _, sentence in state_correlations(compared.differences)],
        notes=[*compared.notes, NO_RANKING],
        family=next(filter(None, families), ""),
    )


def _primary_by_question(
    compared: ComparisonPage,
) -> dict[tuple[str, str], list[Quantity]]:
    """Return the primary quantities by study and experiment."""
    questions: dict[tuple[str, str], list[Quantity]] = {}
    for quantity in compared.quantities:
        if quantity.primary:
            first = quantity.known[0]
            questions.setdefault((first.study, first.experiment), []).append(quantity)
    return questions


def comparison_sentences(compared: ComparisonPage) -> Iterator[tuple[Finding, str]]:
    """Yield what the page says of each question, for a terminal: a primary finding of it, and a sentence.

    Args:
        compared: content of the page.
    """
    for (study, name), quantities in _primary_by_question(compared).items():
        for quantity in quantities:
            sentences = [*_sentences(compared, quantity)]
            if quantity is quantities[-1]:
                sentences += _effects(compared, study, name)
            yield quantity.known[0], " ".join(filter(None, sentences))
    yield from state_correlations(compared.differences)


def _effects(compared: ComparisonPage, study: str, name: str) -> list[str]:
    """Return Cohen's d of each model and the reference in an experiment, where the models are few enough."""
    if len(compared.models) > MOST_DRAWN:
        return []
    differences = [
        difference
        for difference in compared.differences
        if (difference.study, difference.experiment) == (study, name)
    ]
    names = [model.name for model in compared.models]
    return [*effects_by_model(differences, names, compared.reference).values()]


def _sentences(compared: ComparisonPage, quantity: Quantity) -> tuple[str, str]:
    """Return what each model shows of a quantity, and how far it lies from the reference."""
    own_values = summarize_models(quantity.known)
    if len(quantity.known) < 2:
        return own_values, ""
    differences = [
        with_model_names(difference, name, compared.reference)
        for name, difference in (quantity.differences_by_model or {}).items()
    ]
    if not differences:
        return own_values, "No difference of models is tested here."
    return own_values, summarize_models(differences)


def _section(
    compared: ComparisonPage, study: str, name: str, quantities: Sequence[Quantity]
) -> dict[str, Any]:
    """Return everything about one question: sentences, a table of all models, gaps by slice."""
    first = quantities[0].known[0]
    experiments = [entry for entry in load_study(study).experiments if entry.name == name]
    charts: list[Chart] = []
    question = name
    if experiments:
        charts = [*_slice_charts(compared, study, experiments[0])]
        question = experiments[0].question
    return {
        "place": anchor(study, name),
        "question": question,
        "said": [(*_sentences(compared, quantity), quantity.note) for quantity in quantities],
        "effects": _effects(compared, study, name),
        "answer": _answer_chart(compared, quantities),
        "meaning": sign_meaning(first),
        "inference": inference_basis(first),
        "charts": charts,
    }


def _answer_chart(compared: ComparisonPage, quantities: Sequence[Quantity]) -> Chart:
    """Return a row for each model: its own value with its verdict, and how far it lies from the reference."""
    drawn = _drawn_findings(quantities)
    unit = finding_format(drawn[0]).unit
    parts: dict[str, list[Row]] = {}
    for quantity in quantities:
        first = quantity.known[0]
        title = ""
        if len(quantities) > 1:
            title = ", ".join(filter(None, (contrast_name(first), set_name(first))))
        rows = parts.setdefault(title, [])
        for index, finding in enumerate(quantity.found):
            if finding is None:
                continue
            model = compared.models[index].name
            word = verdict_word(finding) if finding.verdict else ""
            texts = (
                value_with_interval(finding),
                word,
                _describe_difference(compared, quantity, model),
            )
            is_drawn = any(finding is row for row in drawn)
            dots = [dot_of(finding, index)] if is_drawn else []
            cells = tuple((text, None) for text in texts)
            rows.append(Row(mark_unseen(model), dots, cells))
    reference = mark_unseen(safe_line(compared.reference, 20))
    heads = (f"{unit} (95 % interval)", "verdict", f"minus {reference}")
    return Chart("", "", heads, parts, axis_of(drawn), unit)


def _drawn_findings(quantities: Sequence[Quantity]) -> list[Finding]:
    """Return the findings that fit on one scale: those in the unit of the first gap."""
    rows = [finding for quantity in quantities for finding in quantity.known]
    # A test of all groups has no sign.
    gaps = [finding for finding in rows if MEASURES[finding.measure].gap_span]
    drawn = gaps or rows
    unit = finding_format(drawn[0]).unit
    return [finding for finding in drawn if finding_format(finding).unit == unit]


def _describe_difference(compared: ComparisonPage, quantity: Quantity, model: str) -> str:
    """Return how far a model lies from the reference, and the verdict on that."""
    difference = (quantity.differences_by_model or {}).get(model)
    if difference is None:
        return "compared with" if model == compared.reference else "not tested"
    size = value_with_interval(with_model_names(difference, model, compared.reference))
    return f"{size}: {verdict_word(difference).lower()}".rstrip(": ")


def _part_name(finding: Finding, experiment: Experiment) -> str:
    """Name the contrast of a finding, where there are several, and its set of conditions."""
    contrast = plain_words(finding.contrast) if len(experiment.compares.groups) > 1 else ""
    return ", ".join(filter(None, (contrast, set_name(finding))))


def _slice_charts(compared: ComparisonPage, study: str, experiment: Experiment) -> Iterator[Chart]:
    """Yield gaps by slice, where the models are few enough to be drawn."""
    columns = {
        model.name: (mark_unseen(model.name), index) for index, model in enumerate(compared.models)
    }
    if len(columns) > MOST_DRAWN:
        return
    for slice_by in experiment.shows.slices:
        placed = []
        for model in compared.models:
            for finding in model.found:
                key = (finding.study, finding.experiment, finding.slice_by)
                if key == (study, experiment.name, slice_by.name) and _is_plain_gap(finding):
                    row = value_name(finding.slice_value)
                    part = _part_name(finding, experiment)
                    placed.append(PlacedFinding(finding, row, part, model.name))
        if placed:
            yield chart_of(f"gaps by {slice_by.name}", "", placed, columns)


def _is_plain_gap(finding: Finding) -> bool:
    """Return whether a finding is a gap in the plain score, by the study's own statistic."""
    is_gap = MEASURES[finding.measure].gap_span > 0
    return is_gap and finding.score == "score" and not finding.view


def with_model_names(difference: Finding, model: str, reference: str) -> Finding:
    """Return a difference of models that names the two as sentences do.

    Args:
        difference: a model minus the reference.
        model: its name.
        reference: name of the reference.
    """
    first = safe_line(model)
    second = safe_line(reference)
    contrast = f"{first} minus {second}"
    return replace(difference, group=first, reference_group=second, contrast=contrast)
