"""Several models in one page: what each shows, how far it lies from one of them, and the evidence; no ranking."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapbias import __version__
from swapbias.findings import Finding, experiment_of, terms
from swapbias.privacy import public_manifest
from swapbias.report.charts import Chart
from swapbias.report.compared_models import MOST_DRAWN, ComparedContent, Quantity
from swapbias.report.comparison_charts import detail_charts, summary_tables
from swapbias.report.finding_names import join_names, safe_line
from swapbias.report.meanings import inference_basis, sign_meaning
from swapbias.report.model_effects import effects_by_model, state_correlations
from swapbias.report.page_template import anchor, render_html, render_part
from swapbias.report.verdicts import (
    FEW,
    Verdict,
    describe_margins,
    state_verdict,
    summarize_models,
)
from swapbias.studies import load_study

NOT_TESTED = "No difference of models is tested here."
NO_RANKING = (
    "This is a comparison and not a ranking: models know different words, and the studies' word lists cover them to "
    "different degrees. Models are in alphabetical order. A gap near zero shows that this gap is small on these "
    "prompts, not that a model is fair."
)


@dataclass(frozen=True, slots=True)
class ComparisonPage(ComparedContent):
    """Content of the page of a comparison, which a notebook shows as its first table."""

    def _repr_html_(self) -> str:
        """Write the first table of the page, for notebooks."""
        return render_part("summary.html.j2", answers=[], summary=summary_tables(self, []))


def render_comparison(compared: ComparisonPage) -> str:
    """Return the page as HTML; every value from outside is escaped, no place on this machine is named.

    Args:
        compared: content of the page.
    """
    names = [model.name for model in compared.models]
    title = join_names(names) if len(names) <= FEW else f"{len(names)} models"
    families = [
        difference.estimate.family
        for difference in compared.differences
        if difference.primary and difference.slice_by == "all"
    ]
    sections = [
        _section(compared, study, name, quantities)
        for (study, name), quantities in compared.questions.items()
    ]
    places = [section["place"] for section in sections if section["charts"] or section["moved"]]
    measured = [finding for quantity in compared.quantities for finding in quantity.known]
    has_margin = any(not math.isnan(finding.margin) for finding in measured)
    with_texts = dict.fromkeys(study for study, _ in compared.moved)
    notices = [load_study(study).notice for study in with_texts]
    return render_html(
        "comparison.html.j2",
        version=__version__,
        reference=compared.reference,
        title=f"{title} compared",
        models=[
            (model, public_manifest(model.manifest, keep_unknown=True)) for model in compared.models
        ],
        margin=describe_margins(measured) if has_margin else "",
        notices=[*filter(None, notices)],
        summary=summary_tables(compared, places),
        sections=sections,
        correlations=[sentence for _, sentence in state_correlations(compared.differences)],
        notes=[*compared.notes, NO_RANKING],
        family=next(filter(None, families), ""),
    )


def comparison_sentences(compared: ComparisonPage) -> Iterator[tuple[Finding, str]]:
    """Yield what the page says of each question, for a terminal: a primary finding of it, and a sentence.

    Args:
        compared: content of the page.
    """
    for (study, name), quantities in compared.questions.items():
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
    differences = _named_differences(compared, quantity)
    return own_values, summarize_models(differences) if differences else NOT_TESTED


def _named_differences(compared: ComparisonPage, quantity: Quantity) -> list[Finding]:
    """Return the differences of a quantity to the reference, with the names of the models."""
    return [
        with_model_names(difference, name, compared.reference)
        for name, difference in (quantity.differences_by_model or {}).items()
    ]


def _section(
    compared: ComparisonPage, study: str, name: str, quantities: Sequence[Quantity]
) -> dict[str, Any]:
    """Return everything about one question: sentences, levels of all models, the pairs that moved."""
    first = quantities[0].known[0]
    experiment = experiment_of(first)
    charts: list[Chart] = []
    moved = compared.moved.get((study, name), ())
    if experiment and len(compared.models) <= MOST_DRAWN:
        charts = [*detail_charts(compared, experiment, study)]
    return {
        "place": anchor(study, name),
        "question": experiment.question if experiment else name,
        "verdicts": [*_verdicts(compared, quantities)],
        "notes": [quantity.note for quantity in quantities if quantity.note],
        "effects": _effects(compared, study, name),
        "meaning": sign_meaning(first),
        "inference": inference_basis(first),
        "charts": charts,
        "moved": moved,
        "moved_unit": f" ({moved[0].unit})" if moved and moved[0].unit else "",
    }


def _verdicts(compared: ComparisonPage, quantities: Sequence[Quantity]) -> Iterator[Verdict]:
    """Yield what each model shows, and how far it lies from the reference; of many models one sentence each."""
    for quantity in quantities:
        yield from _verdicts_of_models(quantity.known)
        if len(quantity.known) > 1:
            yield from _verdicts_of_models(_named_differences(compared, quantity))


def _verdicts_of_models(rows: Sequence[Finding]) -> list[Verdict]:
    """Return a verdict of each of a few models; of many one sentence."""
    if not rows:
        return [Verdict("", NOT_TESTED)]
    if len(rows) > FEW:
        return [Verdict("", summarize_models(rows))]
    verdicts = []
    for finding in rows:
        is_difference = finding.measure == terms.DIFFERENCE
        subject, start = finding.model_id, safe_line(finding.model_id)
        if is_difference:
            subject, start = finding.group, finding.contrast
        verdict = state_verdict(finding)
        is_named = safe_line(subject) in verdict.text
        verdicts.append(verdict if is_named else state_verdict(finding, start=start))
    return verdicts


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
