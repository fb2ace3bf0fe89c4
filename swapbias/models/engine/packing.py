"""Texts of an encoder as one row of tokens, in which each text attends to itself alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from swapbias.models.engine.transfers import send
from swapbias.models.lengths import position_padding

# Families whose attention goes through transformers' interface and sees no more than queries, keys and values.
_FAMILIES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
_ATTENTION = "swapbias_runs"

Run = tuple[int, int, int]
"""Index of its first token, number of texts, tokens of each."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Texts as one row of tokens."""

    ids: torch.Tensor
    """Token ids, shape (1, tokens)."""
    positions: torch.Tensor
    """Position of each token in its text, shape (1, tokens)."""
    chosen: torch.Tensor
    """Index of the token of each text that is read; none where all are."""
    runs: tuple[Run, ...]
    """Neighbouring texts of equal length."""


def can_pack(config: Any) -> bool:
    """Return whether models of a config can read a packed row.

    Args:
        config: a model config of transformers.
    """
    decodes = getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False)
    return not decodes and config.model_type in _FAMILIES


def rows_of(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Put texts into rows, shorter texts first.

    >>> rows_of([3, 5, 3, 9], 8)
    [[0, 2], [1], [3]]

    Args:
        lengths: lengths in tokens, one for each text.
        room: tokens of a row at most, except a row of one text.

    Returns:
        Indices of the texts of each row.
    """
    rows: list[list[int]] = []
    used = room
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if used + lengths[index] > room:
            rows.append([])
            used = 0
        rows[-1].append(index)
        used += lengths[index]
    return rows


def pack(
    encoded: Sequence[Sequence[int]], model: Any, read_at: Sequence[int] | None = None
) -> Packed:
    """Put texts into one row; positions count from the padding token where there is one, which keeps its own.

    Args:
        encoded: token ids of each text.
        model: a model of transformers.
        read_at: position in its text of the token that is read, one for each text; None: all tokens are read.
    """
    padding = position_padding(model)
    ids = torch.tensor([token for text in encoded for token in text])
    lengths = torch.tensor([len(text) for text in encoded])
    starts = torch.cumsum(lengths, 0) - lengths
    counted = torch.ones_like(ids) if padding is None else (ids != padding).long()
    count = torch.cumsum(counted, 0)
    before = torch.repeat_interleave((count - counted)[starts], lengths)
    positions = (count - before) * counted + (-1 if padding is None else padding)
    chosen = starts[:0] if read_at is None else starts + torch.tensor(read_at)
    runs = []
    start = 0
    for length, members in groupby(map(len, encoded)):
        texts = len(list(members))
        runs.append((start, texts, length))
        start += texts * length
    sent = send(torch.cat([ids, positions, chosen]), model.device)  # one copy of all three
    ids, positions, chosen = torch.split(sent, [len(ids), len(ids), len(chosen)])
    return Packed(ids[None], positions[None], chosen, tuple(runs))


def read_packed(model: Any, packed: Packed) -> Any:
    """Read a packed row; the model's attention is put back afterwards, for others may call it.

    Args:
        model: a model of transformers, of a family that ``can_pack``.
        packed: texts as one row.

    Returns:
        The model's output.
    """
    AttentionInterface.register(_ATTENTION, attend_in_runs)
    before = model.config._attn_implementation
    model.config._attn_implementation = _ATTENTION
    try:
        return model(
            input_ids=packed.ids, position_ids=packed.positions, return_dict=True, runs=packed.runs
        )
    finally:
        model.config._attn_implementation = before


def attend_in_runs(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    runs: Sequence[Run],
    scaling: float | None = None,
    **_settings: Any,
) -> tuple[torch.Tensor, None]:
    """Attend within each text, unmasked.

    Args:
        module: a layer of attention, as transformers gives it.
        query: shape (1, heads, tokens, d).
        key: shape (1, heads, tokens, d).
        value: shape (1, heads, tokens, d).
        attention_mask: not read.
        runs: the runs of the packed row.
        scaling: the scaling of the products; None: the usual one.

    Returns:
        Attended values, shape (1, tokens, heads, d), and no weights.
    """
    outputs = []
    for start, texts, length in runs:
        span = slice(start, start + texts * length)
        parts = [
            states[0, :, span].view(-1, texts, length, states.shape[-1]).transpose(0, 1)
            for states in (query, key, value)
        ]
        attended = scaled_dot_product_attention(parts[0], parts[1], parts[2], scale=scaling)
        outputs.append(attended.transpose(1, 2).flatten(0, 1))  # from (texts, heads, length, d)
    return torch.cat(outputs)[None], None
