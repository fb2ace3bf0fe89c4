"""Runs on disk, read for a comparison."""

from collections.abc import Sequence

import pandas as pd

from swapbias.audit.run import Run
from swapbias.errors import UsageError


def load_runs(runs: Sequence[Run]) -> dict[str, dict[str, pd.DataFrame]]:
    """Scored rows by study and model.

    Raises:
        UsageError: fewer than two runs, a run that is not finished, or two runs of one model and study.
    """
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} run, expected two or more. Name further folders of runs.")
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for run in runs:
        if run.manifest().get("status") != "complete":
            raise UsageError(f"{run.folder} is not finished. Go on with swapbias audit --resume {run.folder}.")
        for path in sorted((run.folder / "items").glob("*.parquet")):
            rows = run.items(path.stem)
            for model, part in rows.groupby("model_id") if rows is not None else ():
                if model in found.setdefault(path.stem, {}):
                    raise UsageError(f"{model} stands in two runs of {path.stem}. Name one of them.")
                found[path.stem][str(model)] = part
    return found
