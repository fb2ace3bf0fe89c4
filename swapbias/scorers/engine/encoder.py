"""Reading many texts with one encoder, as fast as its family allows."""

from collections.abc import Sequence
from typing import Any

import torch

from swapbias.scorers.checkpoint import length_batches
from swapbias.scorers.engine.packing import can_pack, head_at, only_rows, pack, read_packed, rows_of, without_window
from swapbias.scorers.engine.prepacked import prepack

# Tokens of a row per text of the batch size: 64 texts make rows of 1,024 tokens, beyond which a CPU gains nothing.
_ROOM = {"cpu": 16}
_ROOM_ELSEWHERE = 256


class Engine:
    """A transformers encoder and the way it is read.

    Packed rows where the family can read them, batches of equal length where it cannot: nothing is ever padded.
    The model is not changed unless asked, and only the tokens asked about reach its head.
    """

    def __init__(self, model: Any, *, batch_size: int = 64) -> None:
        """Wrap a model in eval mode, with a head or without."""
        self.model, self.batch_size = model, batch_size
        self._room = batch_size * _ROOM.get(model.device.type, _ROOM_ELSEWHERE)
        self._packing = _packing(model)

    def prepack(self) -> None:
        """Replace the model's linear layers by prepacked ones, where this machine can: for inference alone."""
        prepack(self.model)
        self._packing = _packing(self.model)

    def to_bfloat16(self) -> None:
        """Round the weights in place, one after another."""
        self.model.to(torch.bfloat16)

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Indices of the texts that are read together, by length in tokens; every text is in one batch."""
        reach = self._packing[1] if self._packing else 0
        packed = [index for index, length in enumerate(lengths) if length <= reach]
        others = [index for index, length in enumerate(lengths) if length > reach]
        rows = rows_of([lengths[index] for index in packed], self._room)
        batches = length_batches([lengths[index] for index in others], self.batch_size)
        return [[packed[at] for at in row] for row in rows] + [[others[at] for at in batch] for batch in batches]

    def logits(self, encoded: Sequence[Sequence[int]], positions: Sequence[int]) -> torch.Tensor:
        """The head's output at one position of each text of a batch: shape (texts, outputs), float32."""
        places = torch.tensor(positions, device=self.model.device)
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader.config, self.model.device)
                with only_rows(reader, row.starts + places):
                    found = read_packed(reader, row).logits
            else:
                with head_at(self.model, places):
                    found = self._read(self.model, encoded).logits
        flat: torch.Tensor = found.float().view(len(encoded), -1)
        return flat

    def class_logits(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """A text classifier's output for each text of a batch: shape (texts, labels), float32."""
        if self._packed_reader(encoded):  # the heads of all these families read the first token
            return self.logits(encoded, [0] * len(encoded))
        with torch.inference_mode():
            found: torch.Tensor = self._read(self.model, encoded).logits
        return found.float()

    def hidden_states(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """The encoder's last states of a batch, one text after another: shape (tokens, d)."""
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader.config, self.model.device)
                states: torch.Tensor = read_packed(reader.base_model, row).last_hidden_state
            else:
                states = self._read(self.model.base_model, encoded).last_hidden_state
        return states.flatten(0, 1)

    def _packed_reader(self, encoded: Sequence[Sequence[int]]) -> Any:
        """The model that reads packed rows; None where there is none or a text is too long for it."""
        if self._packing is None or max(map(len, encoded)) > self._packing[1]:
            return None
        return self._packing[0]

    def _read(self, model: Any, encoded: Sequence[Sequence[int]]) -> Any:
        """What a model returns for texts of one length."""
        ids = torch.tensor(encoded, device=self.model.device)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)


def _packing(model: Any) -> tuple[Any, float] | None:
    """The model that reads packed rows in place of this one, and the longest text that it reads the same."""
    return (model, float("inf")) if can_pack(model.config) else without_window(model)
