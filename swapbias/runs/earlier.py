"""Spreads and speed of a finished run, for a plan of runs like it."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.findings import planned_spreads
from swapbias.runs.results import Results


def earlier_run(results: Results) -> planned_spreads.EarlierRun:
    """Read the spreads and the speed of a finished run.

    Args:
        results: the results of the run, with its scored rows.

    Returns:
        The spreads of its primary gaps and the seconds that a prompt took.

    Raises:
        UsageError: the run has no scored rows, or no primary gap.
    """
    if not results.items:
        raise UsageError(
            f"{results.place} has no scored prompts, of which the spreads are computed. Name a run that has them."
        )
    gaps = tuple(planned_spreads.earlier_gaps(results.found, results.items, results.place))
    if not gaps:
        raise UsageError(
            f"{results.place} has no gap between groups to plan by. Name a run of another study."
        )
    unscored: dict[tuple[str, str], frozenset[str]] = {}
    row_count = 0
    for study in results.items:
        rows = results.items[study]
        row_count += len(rows)
        unscored |= _unscored_prompts(study, rows)
    fresh_count = row_count - int(results.manifest.get("from_cache") or 0)
    return planned_spreads.EarlierRun(
        results.place, gaps, fresh_count, _seconds(results.manifest), unscored
    )


def _unscored_prompts(study: str, rows: pd.DataFrame) -> dict[tuple[str, str], frozenset[str]]:
    """Return the prompts of each experiment that have no score; without one where none has any.

    Of an experiment without a score the run does not say which prompts can be scored.
    """
    unscored: dict[tuple[str, str], frozenset[str]] = {}
    for experiment, rows_of_experiment in rows.groupby("experiment", sort=False):
        missing = rows_of_experiment["score"].isna()
        if not missing.all():
            prompt_ids = rows_of_experiment.loc[missing, "prompt_id"]
            unscored[study, str(experiment)] = frozenset(prompt_ids)
    return unscored


def _seconds(manifest: Mapping[str, Any]) -> float:
    """Return the seconds that a run took; NaN where its manifest does not say."""
    try:
        started = datetime.fromisoformat(manifest["started"])
        finished = datetime.fromisoformat(manifest["finished"])
    except (KeyError, TypeError, ValueError):
        return math.nan
    return max(0.0, (finished - started).total_seconds())
