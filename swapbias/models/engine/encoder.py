"""Many texts read with one encoder: no padding, no head on tokens that nobody reads, no Longformer window."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import torch
from torch import nn
from transformers import (
    LongformerForMaskedLM,
    LongformerModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
)

from swapbias.models.engine.cache_probe import PROBE_ERRORS, same_probabilities
from swapbias.models.engine.linear_layers import OneDnnLinear
from swapbias.models.engine.packing import can_pack, pack, read_packed, rows_of
from swapbias.models.engine.transfers import send
from swapbias.models.lengths import length_batches

# Tokens of a row per text of the batch size: 64 texts make rows of 1,024 tokens, beyond which a CPU gains nothing.
_ROOM = {"cpu": 16}
_ROOM_ELSEWHERE = 256

Encoded = Sequence[Sequence[int]]
"""Token ids of each text."""
# Settings that Longformer and RoBERTa share.
_SAME = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip


@contextmanager
def only_rows(model: Any, rows: torch.Tensor) -> Iterator[None]:
    """Let a model finish a packed row with some tokens alone; its head sees the shape (tokens, 1, d).

    Args:
        model: a model of transformers, of a family that ``can_pack``.
        rows: indices of the tokens.
    """
    base = model.base_model

    def put_in_rows(_module: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[0].unsqueeze(1)
        # BERT pooled the first token of the row alone.
        if getattr(output, "pooler_output", None) is not None:
            output.pooler_output = base.pooler(output.last_hidden_state)
        return output

    def choose_output(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output[:, rows]

    def choose_inputs(_module: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(states[:, rows] for states in inputs)

    handles = [base.register_forward_hook(put_in_rows)]
    last = _last_layer(base)
    if last is None:
        hook = _change_states(lambda states: states[:, rows])
        handles.append(base.register_forward_hook(hook, prepend=True))
    elif hasattr(last, "sa_layer_norm"):
        # DistilBERT adds the residual before this norm, outside of any module.
        handles.append(last.sa_layer_norm.register_forward_hook(choose_output))
    else:
        # The projection after the attention gets the attended states and the residual.
        handles.append(last.attention.output.register_forward_pre_hook(choose_inputs))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Let the model's head, the larger half of the cost, see one position of each text: (texts, 1, outputs).

    Args:
        model: a model of transformers.
        positions: one of each text, shape (texts,).
    """

    def cut(states: torch.Tensor) -> torch.Tensor:
        return states[torch.arange(len(states), device=states.device), positions].unsqueeze(1)

    handle = model.base_model.register_forward_hook(_change_states(cut))
    try:
        yield
    finally:
        handle.remove()


def _change_states(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Return a hook that changes the last states of an encoder's output."""

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        output.last_hidden_state = change(output.last_hidden_state)
        return output

    return hook


def _last_layer(base: Any) -> Any:
    """Return the last layer of a family whose layer can be cut; None for others, which are cut after it."""
    stack = getattr(base, "encoder", None) or getattr(base, "transformer", None)
    layers = getattr(stack, "layer", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return None
    last: Any = layers[-1]
    cuts = hasattr(last, "sa_layer_norm") or hasattr(getattr(last, "attention", None), "output")
    before = {module for layer in layers[:-1] for module in layer.modules()}
    return last if cuts and before.isdisjoint(last.modules()) else None


def without_window(model: Any) -> tuple[Any, int] | None:
    """Make a RoBERTa of a Longformer's own layers.

    Where a text has at most w + 1 tokens, every token sees every other: RoBERTa's attention.

    Args:
        model: a model of transformers.

    Returns:
        The RoBERTa, and the tokens of the longest text that both read the same; None for any other model.
    """
    if type(model) not in (LongformerForMaskedLM, LongformerModel):
        return None
    window = model.config.attention_window
    smallest = window if isinstance(window, int) else min(window)
    reach = smallest // 2 + 1
    config = RobertaConfig(**{name: getattr(model.config, name) for name in _SAME})
    with torch.device("meta"):  # shapes without memory: every layer is put in below
        if isinstance(model, LongformerModel):
            twin: Any = RobertaModel(config, add_pooling_layer=False)
        else:
            twin = RobertaForMaskedLM(config)
            twin.lm_head = model.lm_head
    for name, layer in model.base_model.named_modules():
        has_parts = next(layer.children(), None) is not None
        if not has_parts and not name.endswith("_global") and not name.startswith("pooler"):
            twin.base_model.set_submodule(name, layer)
    embeddings = twin.base_model.embeddings
    embeddings.token_type_ids = torch.zeros(
        1, config.max_position_embeddings, dtype=torch.long, device=model.device
    )
    return twin.eval(), reach


def twin(model: Any) -> Any:
    """Copy a model, hooks included, in eval mode over the same weights.

    Args:
        model: a module of torch; it stays as it is.

    Raises:
        ValueError: Something in it cannot be copied.
    """
    name = type(model).__name__
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        copied = copy.deepcopy(model, shared)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{name} contains what cannot be copied ({reason}). Save it and name its folder."
        ) from error
    _replace_compiled_parts(copied)
    if any(isinstance(vars(module).get("forward"), FunctionType) for module in copied.modules()):
        raise ValueError(
            f"The forward of {name} was replaced by a function. Save it and name its folder."
        )
    return copied.eval()


def _replace_compiled_parts(model: Any) -> None:
    """Put the parts of a model that were compiled back as they were before."""
    if find_spec("accelerate") is None:
        return
    from accelerate.utils import extract_model_from_parallel, is_compiled_module

    def compiled_part() -> str:
        for name, part in model.named_modules():
            if name and is_compiled_module(part):
                return str(name)
        return ""

    while name := compiled_part():
        part = extract_model_from_parallel(model.get_submodule(name), keep_torch_compile=False)
        model.set_submodule(name, part)


def _is_ours(module: Any) -> bool:
    """Return whether a module is a layer of the engine that computes what torch's own does."""
    return type(module) is OneDnnLinear


def _is_plain(model: Any) -> bool:
    """Return whether nobody added to what a transformers model computes: no hooks, wrapped calls or own layers."""
    return all(
        (type(module).__module__.partition(".")[0] in ("torch", "transformers") or _is_ours(module))
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
        # Whether the head may see single positions; None: not tried yet.
        self._cuts: bool | None = None
        if _is_plain(model):
            self._packing = without_window(model)
            if can_pack(model.config):
                self._packing = (model, float("inf"))

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Say which texts are read together.

        Args:
            lengths: lengths in tokens, one for each text.

        Returns:
            Indices of the texts of each batch; every text is in one.
        """
        reach = self._packing[1] if self._packing else 0
        packed = [index for index, length in enumerate(lengths) if length <= reach]
        longer = [index for index, length in enumerate(lengths) if length > reach]
        rows = rows_of([lengths[index] for index in packed], self._room)
        batches = length_batches([lengths[index] for index in longer], self.batch_size)
        return [
            *([packed[position] for position in row] for row in rows),
            *([longer[position] for position in batch] for batch in batches),
        ]

    def logits(self, encoded: Encoded, positions: Sequence[int]) -> torch.Tensor:
        """Return the head's output at one position of each text of a batch.

        Args:
            encoded: token ids of each text.
            positions: one of each text.

        Returns:
            Shape (texts, outputs), float32.
        """
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader, positions)
                with only_rows(reader, row.chosen):
                    logits = read_packed(reader, row).logits
            else:
                logits = self._logits_at(encoded, positions)
        flat: torch.Tensor = logits.float().view(len(encoded), -1)
        return flat

    def _logits_at(self, encoded: Encoded, positions: Sequence[int]) -> torch.Tensor:
        """Return the head's output at one position of each text of a batch of equal length."""
        indices = send(torch.tensor(positions), self.model.device)
        if self._can_cut(encoded[0], positions[0]):
            with head_at(self.model, indices):
                return self._read(self.model, encoded).logits  # type: ignore[no-any-return]
        logits: torch.Tensor = self._read(self.model, encoded).logits
        return logits[torch.arange(len(encoded), device=logits.device), indices]

    def _can_cut(self, ids: Sequence[int], position: int) -> bool:
        """Return whether the head gives the same for one position alone, tried once: some families read all."""
        if self._cuts is None:
            whole = self._read(self.model, [ids]).logits[:, position : position + 1]
            try:
                with head_at(self.model, torch.tensor([position], device=self.model.device)):
                    alone = self._read(self.model, [ids]).logits
                self._cuts = alone.shape == whole.shape and same_probabilities(alone, whole)
            except PROBE_ERRORS:
                self._cuts = False
        return self._cuts

    def class_logits(self, encoded: Encoded) -> torch.Tensor:
        """Return a text classifier's output for each text of a batch.

        Args:
            encoded: token ids of each text.

        Returns:
            Shape (texts, labels), float32.
        """
        if self._packed_reader(encoded):  # the heads of all these families read the first token
            return self.logits(encoded, [0] * len(encoded))
        padding = getattr(self.model.config.get_text_config(), "pad_token_id", None)
        with torch.inference_mode():
            if padding is None:  # a causal model's head then reads one text
                logits = torch.cat([self._read(self.model, [ids]).logits for ids in encoded])
            else:
                logits = self._read(self.model, encoded).logits
        return logits.float()

    def token_logits(self, encoded: Encoded) -> torch.Tensor:
        """Return a token classifier's output for every token of a batch, one text after another.

        Args:
            encoded: token ids of each text.

        Returns:
            Shape (tokens, labels), float32.
        """
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                logits = read_packed(reader, pack(encoded, reader)).logits
            else:
                logits = self._read(self.model, encoded).logits
        flat: torch.Tensor = logits.float().flatten(0, 1)
        return flat

    def hidden_states(self, encoded: Encoded) -> torch.Tensor:
        """Return the encoder's last states of a batch, one text after another.

        Args:
            encoded: token ids of each text.

        Returns:
            Shape (tokens, d).
        """
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                states: torch.Tensor = read_packed(reader.base_model, row).last_hidden_state
            else:
                states = self._read(self.model.base_model, encoded).last_hidden_state
        return states.flatten(0, 1)

    def _packed_reader(self, encoded: Encoded) -> Any:
        """Return the model that reads packed rows; None where there is none or a text is too long for it."""
        if self._packing is None:
            return None
        reader, reach = self._packing
        return reader if max(map(len, encoded)) <= reach else None

    def _read(self, model: Any, encoded: Encoded) -> Any:
        """Return what a model gives for texts of one length."""
        ids = send(torch.tensor(encoded), self.model.device)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)
