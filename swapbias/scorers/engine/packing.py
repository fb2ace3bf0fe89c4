"""Packing: the tokens of many texts as one row without padding, each text looking at itself alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

# Families whose attention goes through transformers' interface and sees no more than queries, keys and values,
# and where they begin to count positions: RoBERTa and its kin after the padding index.
_FROM_ZERO = ("bert", "distilbert", "electra")
_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")
_ATTENTION = "swapbias_runs"

Run = tuple[int, int, int]  # where its tokens begin, how many texts, tokens of each


@dataclass(frozen=True, slots=True)
class Packed:
    """Texts as one row of tokens: ids and positions of shape (1, tokens), and the runs of equal length."""

    ids: torch.Tensor
    positions: torch.Tensor
    starts: torch.Tensor
    runs: tuple[Run, ...]


def can_pack(config: Any) -> bool:
    """Whether models of this config can read a packed row."""
    if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
        return False
    return config.model_type in _FROM_ZERO + _AFTER_PADDING


def rows_of(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Indices of texts row by row, shorter texts first, each row of at most ``room`` tokens and one text at least.

    >>> rows_of([3, 5, 3, 9], 8)
    [[0, 2], [1], [3]]
    """
    rows: list[list[int]] = []
    taken = room
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if taken + lengths[index] > room:
            rows.append([])
            taken = 0
        rows[-1].append(index)
        taken += lengths[index]
    return rows


def pack(encoded: Sequence[Sequence[int]], config: Any, device: torch.device) -> Packed:
    """Texts as one row, in the order given; neighbours of equal length share an attention call."""
    first = config.pad_token_id + 1 if config.model_type in _AFTER_PADDING else 0
    lengths = torch.tensor([len(ids) for ids in encoded])
    starts = torch.cumsum(lengths, 0) - lengths
    count = int(lengths.sum())
    positions = torch.arange(first, first + count) - torch.repeat_interleave(starts, lengths)
    return Packed(
        ids=torch.tensor([[token for ids in encoded for token in ids]], device=device),
        positions=positions[None].to(device),
        starts=starts.to(device),
        runs=tuple(_runs([len(ids) for ids in encoded])),
    )


def _runs(lengths: Sequence[int]) -> Iterator[Run]:
    start = 0
    for length, members in groupby(lengths):
        texts = len(list(members))
        yield start, texts, length
        start += texts * length


def read_packed(model: Any, packed: Packed) -> Any:
    """What a model returns for a packed row."""
    with _attention(model.config):
        return model(input_ids=packed.ids, position_ids=packed.positions, return_dict=True, runs=packed.runs)


@contextmanager
def _attention(config: Any) -> Iterator[None]:
    """The attention of a model goes run by run; put back afterwards, for others may call the model."""
    AttentionInterface.register(_ATTENTION, attend_in_runs)
    before = config._attn_implementation
    config._attn_implementation = _ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


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
    """Attention of shape (1, heads, tokens, d) within each text; returns (1, tokens, heads, d).

    The signature is transformers'; nothing is masked, for nothing is padded, and nothing is dropped out.
    """
    found = []
    for start, texts, length in runs:
        span = slice(start, start + texts * length)
        parts = [
            one[0, :, span].view(-1, texts, length, one.shape[-1]).transpose(0, 1) for one in (query, key, value)
        ]
        attended = scaled_dot_product_attention(parts[0], parts[1], parts[2], scale=scaling)
        found.append(attended.transpose(1, 2).flatten(0, 1))  # from (texts, heads, length, d)
    return torch.cat(found)[None], None
