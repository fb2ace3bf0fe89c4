"""Pairs of which the model reads one and the same input: their scores are equal whatever it has learned."""

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from swapbias.models import Scored, Scorer
from swapbias.studies import PLACEBO_COLUMNS, Prompt

_PAIR = ("experiment", "pair_id", "trial", *PLACEBO_COLUMNS)  # columns that rows of one pair share
Rows = Sequence[Mapping[str, Any]]


def find_same_inputs(rows: Rows, prompts: Sequence[Prompt], scorer: Scorer) -> frozenset[int]:
    """Find the rows whose text differs from another one of their pair, and whose input to the model does not.

    Args:
        rows: all rows of an experiment, so that no pair is parted.
        prompts: the same rows as the scorer reads them.
        scorer: says by ``inputs`` what its model gets: tokens after truncation, or what a pipeline prepares.

    Returns:
        The indices of these rows; none of a scorer that nothing shows it of.
    """
    pairs: dict[Hashable, list[int]] = {}
    for index, row in enumerate(rows):
        if row.get("pair_id"):
            pairs.setdefault(tuple(row.get(name) for name in _PAIR), []).append(index)
    same: set[int] = set()
    for batch in _batches(pairs.values(), scorer.chunk_rows):
        same.update(_same_in_batch(batch, rows, prompts, scorer))
    return frozenset(same)


def _batches(pairs: Iterable[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    """Yield whole pairs of about ``size`` rows together: the inputs of all notes at once could fill the memory."""
    batch: list[Sequence[int]] = []
    count = 0
    for indices in pairs:
        batch.append(indices)
        count += len(indices)
        if count >= size:
            yield batch
            batch = []
            count = 0
    if batch:
        yield batch


def _same_in_batch(
    pairs: Sequence[Sequence[int]], rows: Rows, prompts: Sequence[Prompt], scorer: Scorer
) -> Iterator[int]:
    """Yield the rows of some pairs that are read as the same input as another text of their pair."""
    members = [index for indices in pairs for index in indices]
    inputs = dict(zip(members, scorer.inputs([prompts[index] for index in members]), strict=True))
    for indices in pairs:
        alike: dict[Hashable, list[int]] = {}
        for index in indices:
            if inputs[index] is not None:
                prompt = prompts[index]
                key = (prompt.lexicon, prompt.candidates, inputs[index])
                alike.setdefault(key, []).append(index)
        for indices_alike in alike.values():
            groups = {rows[index].get("group") for index in indices_alike}
            texts = {prompts[index].text for index in indices_alike}
            if len(groups) > 1 and len(texts) > 1:
                yield from indices_alike


def without_same_inputs(
    scored: Sequence[Scored], same: Collection[int], scorer: Scorer
) -> list[Scored]:
    """Take the scores of rows that were read as the same input.

    Args:
        scored: the scores of all rows.
        same: the indices of those rows.
        scorer: the scorer that scored them; of a chat model the counts of refusals and the like stay.

    Returns:
        The same, with NaN for these rows.
    """
    return [
        _not_measured(score, scorer) if index in same else score
        for index, score in enumerate(scored)
    ]


def _not_measured(scored: Scored, scorer: Scorer) -> Scored:
    parts = scored.parts if scorer.kind == "chat" else dict.fromkeys(scored.parts, math.nan)
    return replace(scored, score=math.nan, parts=parts)
