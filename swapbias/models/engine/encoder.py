"""Many texts read with one encoder: no padding, no head on tokens that nobody reads, no Longformer window."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from types import FunctionType
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

from swapbias.models.engine.loglikelihood import same_odds
from swapbias.models.lengths import length_batches, position_padding

# Tokens of a row per text of the batch size: 64 texts make rows of 1,024 tokens, beyond which a CPU gains nothing.
_ROOM = {"cpu": 16}
_ROOM_ELSEWHERE = 256

Encoded = Sequence[Sequence[int]]
# Families whose attention goes through transformers' interface and sees no more than queries, keys and values.
_FAMILIES = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")
_ATTENTION = "swapbias_runs"
_SAME = (  # settings that Longformer and RoBERTa share
    *(
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "hidden_act",
    ),
    *("max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
    *("pad_token_id", "bos_token_id", "eos_token_id"),
)

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
    decodes = getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False)
    return not decodes and config.model_type in _FAMILIES


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
    """Texts as one row; positions count from the padding token where there is one, which keeps its own."""
    padding = position_padding(model)
    device = model.device
    ids = torch.tensor([token for one in encoded for token in one])
    lengths = torch.tensor([len(one) for one in encoded])
    starts = torch.cumsum(lengths, 0) - lengths
    counted = torch.ones_like(ids) if padding is None else (ids != padding).long()
    count = torch.cumsum(counted, 0)
    before = torch.repeat_interleave((count - counted)[starts], lengths)
    positions = (count - before) * counted + (-1 if padding is None else padding)
    runs = []
    start = 0
    for length, members in groupby(map(len, encoded)):
        texts = len(list(members))
        runs.append((start, texts, length))
        start += texts * length
    return Packed(ids[None].to(device), positions[None].to(device), starts.to(device), tuple(runs))


def read_packed(model: Any, packed: Packed) -> Any:
    """What a model returns for a packed row; its attention is put back afterwards, for others may call it."""
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
    """Attention of shape (1, heads, tokens, d) within each text, unmasked; returns (1, tokens, heads, d)."""
    found = []
    for start, texts, length in runs:
        span = slice(start, start + texts * length)
        parts = [
            one[0, :, span].view(-1, texts, length, one.shape[-1]).transpose(0, 1)
            for one in (query, key, value)
        ]
        attended = scaled_dot_product_attention(parts[0], parts[1], parts[2], scale=scaling)
        found.append(attended.transpose(1, 2).flatten(0, 1))  # from (texts, heads, length, d)
    return torch.cat(found)[None], None


@contextmanager
def only_rows(model: Any, rows: torch.Tensor) -> Iterator[None]:
    """Let a model finish a packed row with these tokens alone; its head sees the shape (tokens, 1, d)."""
    base = model.base_model

    def one_text_each(_module: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[0].unsqueeze(1)
        if (
            getattr(output, "pooler_output", None) is not None
        ):  # BERT pooled the first token of the row alone
            output.pooler_output = base.pooler(output.last_hidden_state)
        return output

    handles = [base.register_forward_hook(one_text_each)]
    last = _last_layer(base)
    if last is None:
        handles.append(
            base.register_forward_hook(_with_states(lambda states: states[:, rows]), prepend=True)
        )
    elif hasattr(
        last, "sa_layer_norm"
    ):  # DistilBERT adds the residual before this norm, outside of any module
        handles.append(
            last.sa_layer_norm.register_forward_hook(lambda _module, _inputs, found: found[:, rows])
        )
    else:  # the projection after the attention gets the attended states and the residual
        projection = last.attention.output
        handles.append(
            projection.register_forward_pre_hook(
                lambda _module, inputs: tuple(one[:, rows] for one in inputs)
            )
        )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Let the model's head, the larger half of the cost, see one position of each text: (texts, 1, outputs)."""

    def cut(states: torch.Tensor) -> torch.Tensor:
        return states[torch.arange(len(states), device=states.device), positions].unsqueeze(1)

    handle = model.base_model.register_forward_hook(_with_states(cut))
    try:
        yield
    finally:
        handle.remove()


def _with_states(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A hook that changes the last states of an encoder's output."""

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = change(output.last_hidden_state)
        return output

    return hook


def _last_layer(base: Any) -> Any:
    """The last layer of a family whose layer can be cut; None for others, which are cut after it."""
    layers = getattr(
        getattr(base, "encoder", None) or getattr(base, "transformer", None), "layer", None
    )
    last: Any = layers[-1] if isinstance(layers, nn.ModuleList) and len(layers) else None
    cuts = hasattr(last, "sa_layer_norm") or hasattr(getattr(last, "attention", None), "output")
    return last if cuts else None


def without_window(model: Any) -> tuple[Any, int] | None:
    """A RoBERTa made of a Longformer's own layers, and the longest text that both read the same; else None.

    Where a text has at most w + 1 tokens, every token sees every other: RoBERTa's attention.
    """
    if type(model) not in (LongformerForMaskedLM, LongformerModel):
        return None
    window = model.config.attention_window
    reach = min([window] if isinstance(window, int) else window) // 2 + 1
    config = RobertaConfig(**{name: getattr(model.config, name) for name in _SAME})
    with torch.device("meta"):  # shapes without memory: every layer is put in below
        if isinstance(model, LongformerModel):
            twin: Any = RobertaModel(config, add_pooling_layer=False)
        else:
            twin = RobertaForMaskedLM(config)
            twin.lm_head = model.lm_head
    for name, layer in model.base_model.named_modules():
        if (
            next(layer.children(), None) is None
            and not name.endswith("_global")
            and not name.startswith("pooler")
        ):
            twin.base_model.set_submodule(name, layer)
    embeddings = twin.base_model.embeddings
    embeddings.token_type_ids = torch.zeros(
        1, config.max_position_embeddings, dtype=torch.long, device=model.device
    )
    return twin.eval(), reach


def twin(model: Any) -> Any:
    """The same model, hooks included, in eval mode over the same weights; ValueError: something cannot be copied."""
    name = type(model).__name__
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        made = copy.deepcopy(model, shared)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{name} holds what cannot be copied ({what}). Save it and name its folder."
        ) from error
    _replace_compiled_parts(made)
    if any(isinstance(vars(module).get("forward"), FunctionType) for module in made.modules()):
        raise ValueError(
            f"The forward of {name} was replaced by a function. Save it and name its folder."
        )
    return made.eval()


def _replace_compiled_parts(model: Any) -> None:
    """Put the parts of a model that were compiled back as they were before."""
    if find_spec("accelerate") is None:
        return
    from accelerate.utils import extract_model_from_parallel, is_compiled_module

    while name := next(
        (name for name, part in model.named_modules() if name and is_compiled_module(part)), ""
    ):
        part = extract_model_from_parallel(model.get_submodule(name), keep_torch_compile=False)
        model.set_submodule(name, part)


def _is_plain(model: Any) -> bool:
    """Whether nobody added to what a transformers model computes: no hooks, wrapped calls or layers of their own."""
    return all(
        type(module).__module__.partition(".")[0] in ("torch", "transformers")
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
        for module in model.modules()
    )


class Engine:
    """A transformers encoder in eval mode, read by packed rows or batches of equal length: nothing is padded."""

    def __init__(self, model: Any, *, batch_size: int = 64) -> None:
        self.model = model
        self.batch_size = batch_size
        self._room = batch_size * _ROOM.get(model.device.type, _ROOM_ELSEWHERE)
        # The model that reads packed rows in place of this one, and the longest text that it reads the same.
        self._packing: tuple[Any, float] | None = None
        self._cuts: bool | None = (
            None  # whether the head may see single positions; None: not tried yet
        )
        if _is_plain(model):
            self._packing = (
                (model, float("inf")) if can_pack(model.config) else without_window(model)
            )

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Indices of the texts that are read together, by length in tokens; every text is in one batch."""
        reach = self._packing[1] if self._packing else 0
        packed = [index for index, length in enumerate(lengths) if length <= reach]
        others = [index for index, length in enumerate(lengths) if length > reach]
        rows = rows_of([lengths[index] for index in packed], self._room)
        batches = length_batches([lengths[index] for index in others], self.batch_size)
        return [[packed[at] for at in row] for row in rows] + [
            [others[at] for at in batch] for batch in batches
        ]

    def logits(self, encoded: Encoded, positions: Sequence[int]) -> torch.Tensor:
        """The head's output at one position of each text of a batch: shape (texts, outputs), float32."""
        places = torch.tensor(positions, device=self.model.device)
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                with only_rows(reader, row.starts + places):
                    found = read_packed(reader, row).logits
            elif self._can_cut(encoded[0], positions[0]):
                with head_at(self.model, places):
                    found = self._read(self.model, encoded).logits
            else:
                found = self._read(self.model, encoded).logits[torch.arange(len(encoded)), places]
        flat: torch.Tensor = found.float().view(len(encoded), -1)
        return flat

    def _can_cut(self, ids: Sequence[int], position: int) -> bool:
        """Whether the head gives the same for one position alone, tried once: some families read all or none."""
        if self._cuts is None:
            whole = self._read(self.model, [ids]).logits[:, position : position + 1]
            try:
                with head_at(self.model, torch.tensor([position], device=self.model.device)):
                    alone = self._read(self.model, [ids]).logits
                self._cuts = alone.shape == whole.shape and same_odds(alone, whole)
            except (
                AttributeError,
                IndexError,
                RuntimeError,
                TypeError,
                ValueError,
            ):  # as families refuse
                self._cuts = False
        return self._cuts

    def class_logits(self, encoded: Encoded) -> torch.Tensor:
        """A text classifier's output for each text of a batch: shape (texts, labels), float32."""
        if self._packed_reader(encoded):  # the heads of all these families read the first token
            return self.logits(encoded, [0] * len(encoded))
        with torch.inference_mode():
            if (
                getattr(self.model.config.get_text_config(), "pad_token_id", None) is None
            ):  # a causal model's head then reads one text
                found = torch.cat([self._read(self.model, [ids]).logits for ids in encoded])
            else:
                found = self._read(self.model, encoded).logits
        return found.float()

    def hidden_states(self, encoded: Encoded) -> torch.Tensor:
        """The encoder's last states of a batch, one text after another: shape (tokens, d)."""
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                states: torch.Tensor = read_packed(reader.base_model, row).last_hidden_state
            else:
                states = self._read(self.model.base_model, encoded).last_hidden_state
        return states.flatten(0, 1)

    def _packed_reader(self, encoded: Encoded) -> Any:
        """The model that reads packed rows; None where there is none or a text is too long for it."""
        if self._packing is None or max(map(len, encoded)) > self._packing[1]:
            return None
        return self._packing[0]

    def _read(self, model: Any, encoded: Encoded) -> Any:
        """What a model returns for texts of one length."""
        ids = torch.tensor(encoded, device=self.model.device)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)
