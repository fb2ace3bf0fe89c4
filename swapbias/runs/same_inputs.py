"""Pairs of which the model reads one and the same input: their scores are equal whatever it has learned."""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
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
        The places of these rows; none of a scorer that nothing shows it of.
    """
    alike: dict[Hashable, list[int]] = {}
    for place, (row, prompt, made) in enumerate(zip(rows, prompts, scorer.inputs(prompts), strict=True)):
        if made is not None and row.get("pair_id"):
            pair = tuple(row.get(name) for name in _PAIR)
            alike.setdefault((pair, prompt.lexicon, prompt.candidates, made), []).append(place)
    found: set[int] = set()
    for places in alike.values():
        groups = {rows[place].get("group") for place in places}
        texts = {prompts[place].text for place in places}
        if len(groups) > 1 and len(texts) > 1:
            found.update(places)
    return frozenset(found)


def without_same_inputs(scored: Sequence[Scored], same: Collection[int], scorer: Scorer) -> list[Scored]:
    """Take the scores of rows that were read as the same input.

    Args:
        scored: of all rows.
        same: the places of those rows.
        scorer: that scored them; of a chat model the counts of refusals and the like stay.

    Returns:
        The same, with NaN for these rows.
    """
    return [_not_measured(one, scorer) if place in same else one for place, one in enumerate(scored)]


def _not_measured(scored: Scored, scorer: Scorer) -> Scored:
    parts = scored.parts if scorer.kind == "chat" else dict.fromkeys(scored.parts, math.nan)
    return replace(scored, score=math.nan, parts=parts)
