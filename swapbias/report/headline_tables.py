"""Tables of headline quantities of papers that have no picture: ratios of rates, direct bias beside chance, and D."""

import math
from collections.abc import Iterator, Sequence, Sized

from swapbias.findings import Finding, assigned_words, predictions, split_findings
from swapbias.report.charts import Chart, Row
from swapbias.report.finding_charts import Cell
from swapbias.report.finding_names import (
    capitalize,
    group_name,
    plain_words,
    value_name,
)
from swapbias.report.numbers import (
    format_interval,
    format_number,
    format_p_value,
    format_unit_count,
)
from swapbias.studies import Experiment

_RATIOS = {"tprr": "TPR ratio", "fprr": "FPR ratio"}
_RATIO_CAPTION = (
    "The smaller rate over the larger, as published: 1 is equal treatment. "
    "Behind it the group with the higher rate."
)
_OVER_SPLITS = (
    " Means over the train/test splits, without interval: of equal rates too the smaller is on top, "
    "so that the ratio lies below 1."
)
_DIRECTION_CAPTION = (
    "Cosines with the gender direction, compared with random words and with a random direction. "
    "Only values above chance are bias of these words."
)
_DIRECTION = ("direct_bias", "signed_mean")
_D_CAPTION = (
    "D of an answer, as published, is the sum of two shares, minus 1. One is that of {group} among the words that"
    " the answer gives to the first group of its score. The other is that of {reference} among the other group's "
    "words. 0.01 is added to each number of words. D lies between −1 and 1; above 0 words go as the stereotype "
    "has them. An answer that gives all words to one group has −0.5, whichever group that is. So a model without "
    "a gap may have another D than 0. As coded: by the labels of the authors' code. Answers without a word that "
    "was read have no D; their number is in brackets."
)


def ratio_tables(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield the ratios of true and of false positive rates by phenotype and training condition, a table a model.

    Args:
        experiment: the experiment that compares the groups.
        rows: its findings.
    """
    by_model: dict[str, dict[tuple[str, str], dict[str, Finding]]] = {}
    caption = _RATIO_CAPTION
    if split_findings.are_over_splits(rows):
        caption += _OVER_SPLITS
    for finding in rows:
        is_rounded = finding.contrast.endswith(predictions.ROUNDED)
        if finding.measure in _RATIOS and finding.slice_by != "all" and not is_rounded:
            place = (value_name(finding.slice_value), plain_words(finding.subset))
            by_place = by_model.setdefault(finding.model_id, {})
            by_place.setdefault(place, {})[finding.measure] = finding
    for model, by_place in by_model.items():
        parts: dict[str, list[Row]] = {}
        for (part, name), ratios in by_place.items():
            cells = tuple(_ratio_cell(experiment, ratios.get(measure)) for measure in _RATIOS)
            parts.setdefault(part, []).append(Row(name, (), cells))
        title = _title("ratios of rates", model, by_model)
        yield Chart(title, caption, tuple(_RATIOS.values()), parts)


def _ratio_cell(experiment: Experiment, ratio: Finding | None) -> tuple[str, float | None]:
    """Return a ratio with the group that has the higher rate; a dash where there is none."""
    if ratio is None:
        return format_number(float("nan")), None
    text = format_number(ratio.estimate.value, digits=2)
    if ratio.higher_group:
        text = f"{text} ({group_name(experiment, ratio.higher_group)})"
    return text, ratio.estimate.value


def direction_tables(rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield direct bias beside random words and random directions, a table a model.

    Args:
        rows: the findings of an experiment.
    """
    by_model: dict[str, list[Finding]] = {}
    for finding in rows:
        if finding.slice_by == "all" and not finding.view:
            by_model.setdefault(finding.model_id, []).append(finding)
    measured = {
        model: findings
        for model, findings in by_model.items()
        if any(finding.measure in _DIRECTION for finding in findings)
    }
    for model, findings in measured.items():
        lines = [_direction_row(finding) for finding in sorted(findings, key=_direction_place)]
        heads = ("cosine or share", "95 % interval", "p against chance", "words")
        title = _title("direct bias beside chance", model, measured)
        yield Chart(title, _DIRECTION_CAPTION, heads, {"": lines})


def _direction_place(finding: Finding) -> tuple[bool, bool]:
    """Return the place of a finding: absolute cosines first, facts of the direction last."""
    return "cosine" not in finding.contrast, "|cosine|" not in finding.contrast


def _direction_row(finding: Finding) -> Row:
    """Return a row of cosines: value, interval, p against chance, and number of words."""
    estimate = finding.estimate
    name = finding.contrast
    if finding.measure in _DIRECTION:
        name = f"{plain_words(finding.measure)}: {finding.contrast}"
    count = f"{estimate.n:,}" if estimate.n else "–"
    cells = (
        (
            format_number(estimate.value, signed="|" not in name and "cosine" in name),
            estimate.value,
        ),
        (format_interval(finding, in_own_unit=True), None),
        (format_p_value(estimate.p_value), None),
        (count, None),
    )
    return Row(capitalize(name), (), cells, primary=finding.primary)


def markedness_tables(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield D of a model's answers over all of them and by slice, by each labelling of words, a table a model.

    Args:
        experiment: the experiment that compares the words.
        rows: its findings.
    """
    by_model: dict[str, dict[tuple[str, str], dict[str, Finding]]] = {}
    for finding in rows:
        if finding.measure == assigned_words.MARKEDNESS:
            by_slice = by_model.setdefault(finding.model_id, {})
            by_labelling = by_slice.setdefault((finding.slice_by, finding.slice_value), {})
            by_labelling[finding.contrast] = finding
    compares = experiment.compares
    caption = _D_CAPTION.format(
        group=group_name(experiment, compares.group),
        reference=group_name(experiment, compares.reference),
    )
    for model, by_slice in by_model.items():
        contrasts = {contrast for by_labelling in by_slice.values() for contrast in by_labelling}
        labellings = [name for name in assigned_words.LABELLINGS if name in contrasts]
        parts: dict[str, list[Row]] = {}
        for (slice_by, value), by_labelling in by_slice.items():
            findings = [by_labelling.get(name) for name in labellings]
            if slice_by == "all":
                parts["over all"] = [_markedness_row("all", findings)]
            else:
                row = _markedness_row(value_name(value), findings)
                parts.setdefault(f"by {slice_by}", []).append(row)
        heads: list[str] = []
        for name in labellings:
            heads += [f"D, {name}", "95 % interval"]
        yield Chart(_title("D", model, by_model), caption, (*heads, "answers"), parts)


def _markedness_row(name: str, findings: Sequence[Finding | None]) -> Row:
    """Return a row of D by each labelling, each with its interval, and the number of answers."""
    cells: list[Cell] = []
    count = ""
    for finding in findings:
        if finding is None:
            cells += [(format_number(math.nan), None), (format_number(math.nan), None)]
            continue
        value = finding.estimate.value
        cells += [
            (format_number(value, signed=True), value),
            (format_interval(finding, in_own_unit=True), finding.estimate.ci_low),
        ]
        count = format_unit_count(finding.estimate)
    return Row(name, (), (*cells, (count, None)))


def _title(name: str, model: str, models: Sized) -> str:
    """Return the name of a table, with its model where there are several."""
    return f"{name}, {model}" if len(models) > 1 else name
