"""From prompts to scored rows, in chunks that can be written down as they come."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from swapbias.scorers import Progress, Scorer
from swapbias.studies import as_prompts

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset

    from swapbias.caching import ScoreCache

CHUNK_ROWS = 1_024
NON_FINITE = "non_finite"  # column of scored rows, where there is such a row: 1 where the model gave NaN or infinity


def score_prompts(prompts: "Dataset", scorer: Scorer, *, on_progress: Progress | None = None) -> "Dataset":
    """The prompts with ``model_id``, ``score``, ``answer``, ``top_tokens`` and the scorer's further score columns.

    Rows keep their order and number; NaN marks what could not be scored. Where the model gave NaN or an infinite
    number for a row, there is a further column ``non_finite``, 1 for such rows and else 0.
    """
    from datasets import Dataset

    rows = prompts.to_list()
    return Dataset.from_list(score_rows(rows, scorer, on_progress))


def score_rows(
    rows: Sequence[Mapping[str, Any]],
    scorer: Scorer,
    on_progress: Progress | None = None,
    *,
    cache: "ScoreCache | None" = None,
) -> list[dict[str, Any]]:
    """``score_prompts`` on plain rows; with a cache, what an earlier audit scored is not scored again.

    Rows made from credentialed notes are never cached, whoever scores them.
    """
    prompts = as_prompts(rows)
    if cache is None or any(row.get("credentialed") == "True" for row in rows):
        scored = scorer.score(prompts, on_progress)
    else:
        scored = cache.score(prompts, scorer, on_progress)
    lost = [not one.finite or math.isinf(one.score) for one in scored]
    return [
        {
            **row,
            "model_id": scorer.model_id,
            "score": _finite(one.score),
            **{name: _finite(value) for name, value in one.parts.items()},
            **({NON_FINITE: float(non_finite)} if any(lost) else {}),
            "answer": one.answer,
            "top_tokens": one.top_tokens,
        }
        for row, one, non_finite in zip(rows, scored, lost, strict=True)
    ]


def _finite(value: float) -> float:
    """A float, for a chunk of whole numbers would become a column of another type; NaN for what has no mean."""
    return math.nan if math.isinf(value) else float(value)


def refuse_non_finite(rows: "pd.DataFrame", place: str) -> None:
    """Stop where a model is broken: what few finite numbers are left would say nothing of it.

    Args:
        rows: the scored rows of a study.
        place: where they are kept.

    Raises:
        ValueError: a model gave NaN or infinite numbers for more than half of the rows of an experiment.
    """
    if NON_FINITE not in rows:
        return
    for (experiment, model_id), lost in rows.groupby(["experiment", "model_id"], sort=False)[NON_FINITE]:
        if 2 * lost.sum() > len(lost):
            raise ValueError(
                f"{model_id} gave NaN or infinite numbers for {lost.sum():.0f} of {len(lost)} prompts "
                f"of {experiment}, expected finite ones. Check its weights and --dtype; what was scored is kept "
                f"in {place}."
            )


def chunks(rows: Sequence[Mapping[str, Any]], size: int = CHUNK_ROWS) -> Iterator[list[Mapping[str, Any]]]:
    """Runs of about ``size`` rows that never part neighbours with one text (they share a forward pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield list(rows[start:end])
        start = end
