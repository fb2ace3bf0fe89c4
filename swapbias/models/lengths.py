"""Lengths of texts in tokens: the longest that a model reads, and batches of equal length."""

from itertools import groupby
from typing import Any


def length_limit(tokenizer: Any, model: Any) -> int:
    """Return the largest number of tokens that a model can read.

    Args:
        tokenizer: the model's tokenizer.
        model: a model of transformers.
    """
    limit = int(tokenizer.model_max_length)
    positions = getattr(model.config, "max_position_embeddings", None) or -1
    if positions < 0:  # XLNet has no limit of its own
        return limit
    padding = position_padding(model)
    if padding is not None:  # positions up to it are lost
        positions = positions - padding - 1
    return int(min(limit, positions))


def position_padding(model: Any) -> int | None:
    """Return the token after which RoBERTa and its kin count positions.

    Args:
        model: a model of transformers.

    Returns:
        The padding index of its position embeddings; None for models that have none.
    """
    embeddings = getattr(model.base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    padding: int | None = getattr(positions, "padding_idx", None)
    return padding


def length_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    """Group texts of equal length, so that nothing is ever padded.

    >>> length_batches([3, 5, 3, 3], 2)
    [[0, 2], [3], [1]]

    Args:
        lengths: lengths in tokens, one for each text.
        batch_size: texts in one batch at most.

    Returns:
        Indices of the texts of each batch, shorter texts first.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches = []
    for _, group in groupby(order, key=lengths.__getitem__):
        indices = list(group)
        for start in range(0, len(indices), batch_size):
            batches.append(indices[start : start + batch_size])
    return batches
