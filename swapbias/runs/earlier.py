"""What a finished run says of runs that are planned like it: how far its scores spread, and how long it took."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from swapbias.errors import UsageError
from swapbias.findings import planned_spreads
from swapbias.runs.results import Results


def earlier_run(results: Results) -> planned_spreads.EarlierRun:
    """Read the spreads and the speed of a finished run.

    Args:
        results: of the run, with its scored rows.

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
    rows = 0
    for study in results.items:
        frame = results.items[study]
        rows += len(frame)
        for experiment, part in frame.groupby("experiment", sort=False):
            missing = part["score"].isna()
            if not missing.all():  # else the run says nothing of which prompts can be scored
                unscored[study, str(experiment)] = frozenset(part.loc[missing, "prompt_id"])
    fresh = rows - int(results.manifest.get("from_cache") or 0)
    return planned_spreads.EarlierRun(
        results.place, gaps, fresh, _seconds(results.manifest), unscored
    )


def _seconds(manifest: Mapping[str, Any]) -> float:
    """Return the seconds that a run took; NaN where its manifest does not say."""
    try:
        started, finished = (
            datetime.fromisoformat(manifest[name]) for name in ("started", "finished")
        )
    except (KeyError, TypeError, ValueError):
        return math.nan
    return max(0.0, (finished - started).total_seconds())
