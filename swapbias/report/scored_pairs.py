"""Pairs of rows that a model scored: the scores of both groups, their gap, and both texts."""

import pandas as pd

from swapbias.studies import Experiment

EQUAL = 1e-9
"""Gaps that differ by less are the same."""


def scored_pairs(contrast: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of two groups both of which have a score, by ``pair_id``.

    Args:
        contrast: the experiment as one of a group and the reference.
        rows: scored rows of one model.

    Returns:
        ``first`` and ``second``, the scores of the group and of the reference, means over trials; ``gap``, the first
        minus the second; ``text_first`` and ``text_second``, where the rows have texts.
    """
    first, second = sides = [contrast.compares.group, contrast.compares.reference]
    by_side = rows[rows["group"].isin(sides)].groupby(["pair_id", "group"], sort=False)
    scores = by_side["score"].mean().unstack().reindex(columns=sides).dropna()
    columns = {
        "first": scores[first],
        "second": scores[second],
        "gap": scores[first] - scores[second],
    }
    if "text" in rows:
        texts = by_side["text"].first().unstack().reindex(index=scores.index, columns=sides)
        columns |= {"text_first": texts[first], "text_second": texts[second]}
    return pd.DataFrame(columns)
