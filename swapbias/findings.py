"""Findings: the one long table of results, and how scored prompts become it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from swapbias.declaring import Study
from swapbias.finding import Context, Finding
from swapbias.measures import adjust
from swapbias.published import Published, published_for
from swapbias.slicing import experiment_findings, reported_means
from swapbias.studies import load_study

__all__ = ["Finding", "disaggregate", "findings_table"]

if TYPE_CHECKING:
    from datasets import Dataset


def disaggregate(
    scores: "Dataset | pd.DataFrame",
    study: Study | str,
    *,
    expected: Mapping[tuple[str, ...], Published] | None = None,
    seed: int = 0,
) -> list[Finding]:
    """Every finding of a study from scored prompts: overall, by subset and by slice.

    Args:
        scores: rows of ``score_prompts`` (prompt columns, ``model_id`` and at least one score column).
        study: the study or its name.
        expected: numbers to join by ``Finding.key``; the paper's for this model by default.
        seed: of resampled intervals and permutation tests.

    Returns:
        Findings in the order experiment, score, subset, slice; p-values corrected within each family (same
        experiment, score, measure, contrast and slice).

    Raises:
        ValueError: no rows of the study, or rows of more than one model.
    """
    chosen = load_study(study) if isinstance(study, str) else study
    frame = scores if isinstance(scores, pd.DataFrame) else scores.to_pandas()
    models = sorted(set(frame["model_id"]))
    if len(models) != 1:
        raise ValueError(f"scores of the models {models}, expected rows of exactly one. Audit models apart.")
    found: list[Finding] = []
    for experiment in chosen.experiments:
        rows = frame[frame["experiment"] == experiment.name]
        for score in experiment.scores:
            if len(rows) and score in rows:
                found += experiment_findings(Context(chosen.name, models[0], experiment, score, seed), rows)
        for column in experiment.reported:
            if column in rows and len(rows):
                found += reported_means(Context(chosen.name, models[0], experiment, column, seed), rows)
    if not found:
        raise ValueError(f"no rows of {chosen.name}: experiments {sorted(set(frame['experiment']))}.")
    known = published_for(chosen.name, models[0]) if expected is None else expected
    return [_joined(finding, known) for finding in _corrected(found, chosen.correction)]


def _joined(finding: Finding, known: Mapping[tuple[str, ...], Published]) -> Finding:
    if finding.robust or finding.score != "score":
        return finding
    return replace(finding, published=known.get(finding.key()))


# --- families -----------------------------------------------------------------------------------------


def _corrected(found: Sequence[Finding], method: str) -> list[Finding]:
    families: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(found):
        if not math.isnan(one.estimate.p_value):
            key = (one.experiment, one.score, one.measure, one.contrast, one.robust, one.slice_by)
            families.setdefault(key, []).append(index)
    corrected = list(found)
    for family, members in families.items():
        adjusted = adjust([found[index].estimate.p_value for index in members], method)
        experiment, score, measure, _, robust, slice_by = family
        name = f"{experiment} {measure} of {score} by {slice_by}" + (" (robust)" if robust else "")
        name += f": {len(members)} tests, {method}"
        for index, p_adjusted in zip(members, adjusted, strict=True):
            estimate = replace(found[index].estimate, p_adjusted=float(p_adjusted), family=name)
            corrected[index] = replace(found[index], estimate=estimate)
    return corrected


def findings_table(found: Iterable[Finding]) -> pd.DataFrame:
    """Findings as one long table, one row each."""
    return pd.DataFrame([finding.row() for finding in found])
