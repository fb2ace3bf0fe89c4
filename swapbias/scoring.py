"""From prompts to scored rows, in chunks that can be written down as they come."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from swapbias.scorers import Progress, Scorer
from swapbias.studies import as_prompts

if TYPE_CHECKING:
    from datasets import Dataset

    from swapbias.caching import ScoreCache

CHUNK_ROWS = 1_024


def score_prompts(prompts: "Dataset", scorer: Scorer, *, on_progress: Progress | None = None) -> "Dataset":
    """The prompts with ``model_id``, ``score``, ``answer``, ``top_tokens`` and the scorer's further score columns.

    Rows keep their order and number; NaN marks what could not be scored.
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
    return [
        {
            **row,
            "model_id": scorer.model_id,
            "score": float(one.score),  # a chunk of whole numbers would else become a column of another type
            **{name: float(value) for name, value in one.parts.items()},
            "answer": one.answer,
            "top_tokens": one.top_tokens,
        }
        for row, one in zip(rows, scored, strict=True)
    ]


def chunks(rows: Sequence[Mapping[str, Any]], size: int = CHUNK_ROWS) -> Iterator[list[Mapping[str, Any]]]:
    """Runs of about ``size`` rows that never part neighbours with one text (they share a forward pass)."""
    start = 0
    while start < len(rows):
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["text"] == rows[end - 1]["text"]:
            end += 1
        yield list(rows[start:end])
        start = end
