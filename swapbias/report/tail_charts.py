"""Charts of decisions at thresholds and of gaps at quantiles."""

import math
from collections.abc import Iterator, Sequence

from swapbias.findings import Finding
from swapbias.measures import MEASURES
from swapbias.report.charts import Chart
from swapbias.report.finding_charts import PlacedFinding, chart_of, has_several_models
from swapbias.report.finding_names import capitalize, join_groups, set_name, value_name
from swapbias.report.undecided import REASONS
from swapbias.studies import Experiment

_CAPTIONS = {
    "decision_flips": "The share of pairs that are decided otherwise, whichever group gains by it.",
    "decision_gap": "The share of positive decisions of the first group, minus that of the second.",
    "quantile_gap": (
        "The quantile of the first group's scores, minus that of the second's. "
        "A mean can hide a gap that only low or high scores have."
    ),
}
_NAMES = {
    "decision_flips": "decisions that flip",
    "decision_gap": "gaps in decisions",
    "quantile_gap": "gaps at quantiles",
}


def tail_charts(experiment: Experiment, rows: Sequence[Finding]) -> Iterator[Chart]:
    """Yield a chart of each measure that has findings at thresholds or quantiles.

    Args:
        experiment: the experiment that declares them.
        rows: its findings.
    """
    for measure, name in _NAMES.items():
        of_measure = [row for row in rows if row.measure == measure]
        drawn = [row for row in of_measure if not math.isnan(row.estimate.value)]
        if not of_measure:
            continue
        caption = " ".join([_CAPTIONS[measure], *_reasons(of_measure)])
        if not drawn:
            yield Chart(name, caption, (), {})
            continue
        placed = [PlacedFinding(row, cut_name(row), _part(row, rows)) for row in drawn]
        yield chart_of(name, caption, placed)


def cut_name(finding: Finding) -> str:
    """Return the threshold or quantile of a finding: ``Quantile 0.1``; blank for what has none.

    Args:
        finding: a finding of any measure.
    """
    if not MEASURES[finding.measure].at_cut:
        return ""
    return capitalize(finding.contrast.rpartition(", ")[2])


def _part(finding: Finding, rows: Sequence[Finding]) -> str:
    """Return the heading of the rows of a finding: its model, its groups, its set of conditions and slice."""
    model = finding.model_id if has_several_models(rows) else ""
    value = "" if finding.slice_by == "all" else value_name(finding.slice_value)
    return ", ".join(filter(None, (model, join_groups(finding), set_name(finding), value)))


def _reasons(rows: Sequence[Finding]) -> Iterator[str]:
    """Yield a sentence for each threshold or quantile that says nothing of these scores."""
    sentences = {
        f"{cut_name(row)} is not measured: {REASONS[row.reason]}."
        for row in rows
        if row.reason in REASONS and row.reason
    }
    yield from sorted(sentences)
