"""Sentences on several models at once: Cohen's d of two of them, and correlations over conditions."""

import math
from collections.abc import Iterator, Mapping, Sequence

from swapbias.findings import Finding, terms
from swapbias.report.finding_names import group_name, safe_line, set_name
from swapbias.report.numbers import format_number, value_with_interval
from swapbias.studies import load_study

_METHODS = {"pearson": "Pearson's r", "spearman": "Spearman's rho"}


def state_effect_sizes(differences: Sequence[Finding], model: str, reference: str) -> str:
    """State Cohen's d of two models by set of conditions; blank where no difference has one.

    Args:
        differences: differences of models in one experiment.
        model: the name of the model whose value is the larger one where d is above zero.
        reference: the name of the model that is subtracted.
    """
    parts = []
    pairs = 0
    for difference in differences:
        effect_size = difference.estimate.effect_size
        if not _is_of_two(difference, model, reference) or math.isnan(effect_size):
            continue
        pairs = max(pairs, difference.estimate.n)
        name = set_name(difference)
        parts.append(f"{name} {format_number(effect_size, signed=True, digits=2)}".strip())
    if not parts:
        return ""
    names = f"{safe_line(model)} minus {safe_line(reference)}"
    return (
        f"Cohen's d of {names}: {'; '.join(parts)}. "
        f"A unit is a pair (a prompt with one condition; up to {pairs:,} pairs). "
        "Cohen's d divides the difference of the mean gaps by the pooled SD of both models' gaps."
    )


def _is_of_two(difference: Finding, model: str, reference: str) -> bool:
    """Tell whether a difference is that of two models over all rows, by the inference of the design."""
    is_whole = difference.slice_by == "all" and not difference.view
    is_difference = difference.measure == terms.DIFFERENCE
    return is_difference and is_whole and difference.contrast == f"{model} - {reference}"


def state_correlations(differences: Sequence[Finding]) -> Iterator[tuple[Finding, str]]:
    """Yield a sentence for each correlation of two experiments over their conditions.

    Args:
        differences: differences of models and correlations over them.

    Returns:
        The first finding of each correlation, and what all of its parts say.
    """
    by_experiments: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in differences:
        if finding.measure == "correlation":
            method = finding.contrast.rpartition("(")[2].rstrip(")")
            key = (finding.study, finding.experiment, method)
            by_experiments.setdefault(key, []).append(finding)
    for (_, experiment, method), findings in by_experiments.items():
        coefficient = _METHODS.get(method, method)
        parts = [_part(finding) for finding in findings]
        yield findings[0], f"{coefficient} of {experiment}: {'; '.join(parts)}."


def _part(finding: Finding) -> str:
    """Return a correlation over all conditions, or within one group of them."""
    conditions = f"{finding.estimate.n:,} conditions"
    if finding.subset:
        conditions = f"{finding.estimate.n:,} of {_group_of(finding)}"
    if math.isnan(finding.estimate.value):
        return f"not measured over {conditions}"
    return f"{value_with_interval(finding)} over {conditions}"


def _group_of(finding: Finding) -> str:
    """Return the name of the group of conditions that a correlation is over, as its study names it."""
    experiments = load_study(finding.study).experiments
    names = (group_name(experiment, finding.subset) for experiment in experiments)
    return next((name for name in names if name != finding.subset), finding.subset)


def effects_by_model(
    differences: Sequence[Finding], models: Sequence[str], reference: str
) -> Mapping[str, str]:
    """Return what is said of each model's Cohen's d, without those of whom nothing is.

    Args:
        differences: differences of models in one experiment.
        models: names of the models.
        reference: the name of the model that is subtracted.
    """
    sentences = {
        model: state_effect_sizes(differences, model, reference)
        for model in models
        if model != reference
    }
    return {model: sentence for model, sentence in sentences.items() if sentence}
