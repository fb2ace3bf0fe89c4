"""Why a classifier answers a note as it does: the most mismatched pair, word by word (LIME)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.planning import Task
from swapbias.scorers import Scorer
from swapbias.scorers.explain import Explained, explain_pair


def explain(
    tasks: Sequence[Task],
    readers: Sequence[Scorer],
    items: Mapping[str, pd.DataFrame],
    *,
    seed: int,
    say: Callable[[str], None],
) -> list[Explained]:
    """For each classifier of notes its most mismatched pair of the first regime; nothing of credentialed notes."""
    found: list[Explained] = []
    for task, reader in zip(tasks, readers, strict=True):
        if "flips" not in task.experiment.rates or task.notes is None or task.notes.credentialed:
            continue
        rows = items[task.study.name]
        mine = rows[(rows["experiment"] == task.experiment.name) & (rows["model_id"] == reader.model_id)]
        try:
            one = _most_mismatched(mine, reader, seed)
        except UsageError as error:  # LIME is an extra
            say(f"No explanation of the most mismatched note: {error}")
            return found
        found += [one] if one else []
    return found


def _most_mismatched(rows: pd.DataFrame, reader: Any, seed: int) -> Explained | None:
    if not len(rows):
        return None
    first = rows[rows["construct"] == rows["construct"].iloc[0]]
    scores = first.pivot(index="pair_id", columns="group", values="score").dropna()
    gaps = (scores.iloc[:, 0] - scores.iloc[:, 1]).abs() if scores.shape[1] == 2 else pd.Series(dtype=float)
    if not len(gaps) or gaps.max() == 0:
        return None
    pair = first[first["pair_id"] == gaps.idxmax()]
    phenotype, regime = str(pair["condition"].iloc[0]), str(pair["construct"].iloc[0])
    texts = dict(zip(pair["group"], pair["text"], strict=True))
    words = explain_pair(lambda sampled: reader.predict_proba(sampled, phenotype, regime), texts, seed=seed)
    scores_of = {str(group): float(score) for group, score in zip(pair["group"], pair["score"], strict=True)}
    return Explained(reader.model_id, phenotype, regime, str(gaps.idxmax()), scores_of, words)
