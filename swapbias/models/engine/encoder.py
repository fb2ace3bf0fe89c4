"""Reading many texts with one encoder, as fast as its family allows."""

import copy
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch

from swapbias.models.engine.packing import can_pack, head_at, only_rows, pack, read_packed, rows_of, without_window
from swapbias.models.loading import length_batches

# Tokens of a row per text of the batch size: 64 texts make rows of 1,024 tokens, beyond which a CPU gains nothing.
_ROOM, _ROOM_ELSEWHERE = {"cpu": 16}, 256

Encoded = Sequence[Sequence[int]]


def twin(model: Any) -> Any:
    """The same model, hooks included, in eval mode over the same weights; ValueError: something cannot be copied."""
    name = type(model).__name__
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        made = copy.deepcopy(model, shared)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} holds what cannot be copied ({what}). Save it and name its folder.") from error
    if any(isinstance(vars(module).get("forward"), FunctionType) for module in made.modules()):
        raise ValueError(f"The forward of {name} was replaced by a function. Save it and name its folder.")
    return made.eval()


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
        self.model, self.batch_size = model, batch_size
        self._room = batch_size * _ROOM.get(model.device.type, _ROOM_ELSEWHERE)
        # The model that reads packed rows in place of this one, and the longest text that it reads the same.
        self._packing: tuple[Any, float] | None = None
        if _is_plain(model):
            self._packing = (model, float("inf")) if can_pack(model.config) else without_window(model)

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Indices of the texts that are read together, by length in tokens; every text is in one batch."""
        reach = self._packing[1] if self._packing else 0
        packed = [index for index, length in enumerate(lengths) if length <= reach]
        others = [index for index, length in enumerate(lengths) if length > reach]
        rows = rows_of([lengths[index] for index in packed], self._room)
        batches = length_batches([lengths[index] for index in others], self.batch_size)
        return [[packed[at] for at in row] for row in rows] + [[others[at] for at in batch] for batch in batches]

    def logits(self, encoded: Encoded, positions: Sequence[int]) -> torch.Tensor:
        """The head's output at one position of each text of a batch: shape (texts, outputs), float32."""
        places = torch.tensor(positions, device=self.model.device)
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                with only_rows(reader, row.starts + places):
                    found = read_packed(reader, row).logits
            else:
                with head_at(self.model, places):
                    found = self._read(self.model, encoded).logits
        flat: torch.Tensor = found.float().view(len(encoded), -1)
        return flat

    def class_logits(self, encoded: Encoded) -> torch.Tensor:
        """A text classifier's output for each text of a batch: shape (texts, labels), float32."""
        if self._packed_reader(encoded):  # the heads of all these families read the first token
            return self.logits(encoded, [0] * len(encoded))
        with torch.inference_mode():
            if self.model.config.get_text_config().pad_token_id is None:  # a causal model's head then reads one text
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
