"""Fewer tokens to compute: no padding, no token unasked, no Longformer window."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AttentionInterface,
    LongformerForMaskedLM,
    LongformerModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
)

from swapbias.models.loading import position_padding

# Families whose attention goes through transformers' interface and sees no more than queries, keys and values.
_FAMILIES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
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
    return config.model_type in _FAMILIES


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


def pack(encoded: Sequence[Sequence[int]], model: Any) -> Packed:
    """Texts as one row for this model, in the order given; neighbours of equal length share an attention call.

    RoBERTa and its kin count the tokens of a text from the one after the padding token; a padding token within a
    text is not counted and has its own position.
    """
    padding, device = position_padding(model), model.device
    ids = torch.tensor([token for one in encoded for token in one])
    lengths = torch.tensor([len(one) for one in encoded])
    starts = torch.cumsum(lengths, 0) - lengths
    counted = torch.ones_like(ids) if padding is None else (ids != padding).long()
    count = torch.cumsum(counted, 0)
    before = torch.repeat_interleave((count - counted)[starts], lengths)
    positions = (count - before) * counted + (-1 if padding is None else padding)
    return Packed(
        ids=ids[None].to(device),
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


@contextmanager
def only_rows(model: Any, rows: torch.Tensor) -> Iterator[None]:
    """Let a model that reads a packed row finish with these tokens alone: the head sees the shape (tokens, 1, d).

    The last layer's keys and values need every token; what comes after its attention does not.
    """
    base = model.base_model
    handles = [base.register_forward_hook(_one_text_each(base))]
    last = _last_layer(base)
    if last is None:
        handles.append(base.register_forward_hook(_cut_output(rows), prepend=True))
    elif hasattr(last, "sa_layer_norm"):  # DistilBERT adds the residual before this norm, outside of any module
        handles.append(last.sa_layer_norm.register_forward_hook(lambda _module, _given, found: found[:, rows]))
    else:
        handles.append(last.attention.output.register_forward_pre_hook(_cut_input(rows)))
    with _removed(handles):
        yield


@contextmanager
def head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Let the model's head see one position of each text: logits get the shape (texts, 1, outputs).

    The vocabulary head on every token is the larger half of a small model's cost. The encoder's output is
    cut down before the model's own head reads it, whatever the family calls its head.
    """

    def cut(_module: Any, _given: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        output.last_hidden_state = hidden[rows, positions].unsqueeze(1)
        return output

    with _removed([model.base_model.register_forward_hook(cut)]):
        yield


@contextmanager
def _removed(handles: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _last_layer(base: Any) -> Any:
    """The last layer of a family whose layer can be cut; None for others, which are cut after it."""
    layers = getattr(getattr(base, "encoder", None) or getattr(base, "transformer", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or len(layers) == 0:
        return None
    last: Any = layers[-1]
    if hasattr(last, "sa_layer_norm") or hasattr(getattr(last, "attention", None), "output"):
        return last
    return None


def _cut_input(rows: torch.Tensor) -> Callable[..., Any]:
    """For the projection after the attention, which gets the attended states and the residual."""
    return lambda _module, given: tuple(one[:, rows] for one in given)


def _cut_output(rows: torch.Tensor) -> Callable[..., Any]:
    def cut(_module: Any, _given: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[:, rows]
        return output

    return cut


def _one_text_each(base: Any) -> Callable[..., Any]:
    """Each token as a text of one, and BERT's pooler over these (it pooled the row's first token alone)."""

    def reshape(_module: Any, _given: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[0].unsqueeze(1)
        if getattr(output, "pooler_output", None) is not None:
            output.pooler_output = base.pooler(output.last_hidden_state)
        return output

    return reshape


_SAME = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
    *("pad_token_id", "bos_token_id", "eos_token_id"),
)


def without_window(model: Any) -> tuple[Any, int] | None:
    """A RoBERTa made of a Longformer's own layers, and the longest text that both read the same.

    Longformer pads every text to its window (512 tokens). Token i sees i - w to i + w, w being half a window:
    where a text has at most w + 1 tokens, every token sees every other, and without global attention that is
    RoBERTa's attention. The layers are shared, not copied. None for other models, and for heads that look globally.
    """
    if type(model) not in (LongformerForMaskedLM, LongformerModel):
        return None
    window = model.config.attention_window
    reach = min([window] if isinstance(window, int) else window) // 2 + 1
    config = RobertaConfig(**{name: getattr(model.config, name) for name in _SAME})
    with torch.device("meta"):  # shapes without memory: every layer is put in below
        twin = _twin(model, config)
    for name, layer in model.base_model.named_modules():
        if next(layer.children(), None) is None and not name.endswith("_global") and not name.startswith("pooler"):
            twin.base_model.set_submodule(name, layer)
    embeddings = twin.base_model.embeddings
    embeddings.token_type_ids = torch.zeros(1, config.max_position_embeddings, dtype=torch.long, device=model.device)
    return twin.eval(), reach


def _twin(model: Any, config: RobertaConfig) -> Any:
    if isinstance(model, LongformerModel):
        return RobertaModel(config, add_pooling_layer=False)
    twin = RobertaForMaskedLM(config)
    head: nn.Module = model.lm_head
    twin.lm_head = head
    return twin
