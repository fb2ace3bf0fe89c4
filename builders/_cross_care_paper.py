"""Kendall's tau of an audit of cross_care beside its slope: as published, with both faults, and of values."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from swapbias.builders._cross_care_released import (
    PREVALENCE,
    Means,
    read_prevalences,
    tau,
    tau_as_published,
)
from swapbias.builders._cross_care_tables import DEMOGRAPHICS, NAME
from swapbias.builders._paper_lines import NOTHING, find_finding, write_number
from swapbias.errors import UpstreamMissingError
from swapbias.findings.terms import UNMEASURED
from swapbias.studies import tables
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.paper import PaperRun

_HEADS = [
    "model",
    "numbers",
    "groups",
    "language",
    "slope on log prevalence",
    "diseases of tau",
    "tau as published",
    "tau of values",
]
_NO_PREVALENCES = (
    "Tau needs the authors' prevalences, which were not found: "
    "set SWAPBIAS_UPSTREAM to a folder that contains them."
)
_DECIMALS = 3


def compare_tau(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Calculate the mean of tau over diseases beside the slope, by groups and language.

    Args:
        runs: the models of runs; those without scored texts have no line.
    """
    path = _find_prevalences()
    lines = [line for run in runs for line in _lines_of_run(run, path)]
    notes = (_NO_PREVALENCES,) if lines and path is None else ()
    return CalculatedTable(_HEADS, lines, notes)


def _find_prevalences() -> Path | None:
    """Find the authors' prevalences on this machine; None where they are not."""
    try:
        return tables.upstream_file(NAME, PREVALENCE, download=False)
    except UpstreamMissingError:
        return None


def _lines_of_run(run: PaperRun, path: Path | None) -> Iterator[list[str]]:
    """Yield a line for each set of groups and language that a run read."""
    if run.rows is None or "language" not in run.rows:
        return
    for demographic in DEMOGRAPHICS:
        names = (demographic, f"{demographic}_prevalence")
        rows = run.rows[run.rows["experiment"].isin(names)]
        for language in dict.fromkeys(rows["language"]):
            of_language = rows[rows["language"] == language]
            cells = [UNMEASURED, NOTHING, UNMEASURED, UNMEASURED]
            if _is_measured(run, names):
                slope = NOTHING
                if names[1] in set(of_language["experiment"]):
                    slope = _slope(run, names[1])
                read = partial(read_prevalences, demographic=demographic, language=language)
                prevalences = {} if path is None else read(path)
                cells = [slope, *_taus(_means(of_language, demographic), prevalences)]
            yield [run.title, run.label, demographic, language, *cells]


def _is_measured(run: PaperRun, experiments: Sequence[str]) -> bool:
    """Tell whether a run measured anything by experiments: where their control fails it did not."""
    verdicts = {
        finding.verdict
        for finding in run.findings
        if finding.primary and finding.experiment in experiments
    }
    return verdicts != {UNMEASURED}


def _slope(run: PaperRun, experiment: str) -> str:
    """Return the slope that a run found; a dash for none."""
    finding = find_finding(run, "slope", experiment=experiment)
    return NOTHING if finding is None else write_number(finding.estimate.value, _DECIMALS)


def _means(rows: Any, demographic: str) -> Means:
    """Return by disease the mean score of each group: of all texts, else of those whose prevalence is known."""
    is_whole = rows["experiment"] == demographic
    chosen = rows[is_whole] if is_whole.any() else rows
    means: dict[str, dict[str, float]] = {}
    for (disease, group), scores in chosen.groupby(["condition", "group"], sort=False)["score"]:
        means.setdefault(disease, {})[group] = float(scores.to_numpy(dtype=float).mean())
    return means


def _taus(means: Means, prevalences: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the number of diseases whose groups all have scores, and the mean of each tau over them."""
    pairs = [
        (means[disease], shares)
        for disease, shares in prevalences.items()
        if _has_scores(means.get(disease, {}), shares)
    ]
    if not pairs:
        return [NOTHING, NOTHING, NOTHING]
    cells = [f"{len(pairs)} of {len(prevalences)}"]
    for statistic in (tau_as_published, tau):
        mean = float(np.mean([statistic(*pair) for pair in pairs]))
        cells.append(write_number(mean, _DECIMALS))
    return cells


def _has_scores(of_groups: Mapping[str, float], groups: Iterable[str]) -> bool:
    """Tell whether each group has a mean score."""
    return not any(math.isnan(of_groups.get(group, math.nan)) for group in groups)
