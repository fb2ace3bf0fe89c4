"""XLNet, a permutation language model: the masked position is hidden by the permutation, not by a mask token."""

from collections.abc import Sequence

import torch
from transformers import XLNetLMHeadModel

from swapbias.scorers.masked import MaskedScorer


class PermutationScorer(MaskedScorer):
    """As ``MaskedScorer``, for XLNet: no token may look at the asked position, and it alone is predicted.

    The fill-mask way (reading the output over a mask token) is wrong here: a permutation model predicts a
    position from its query stream, told by ``perm_mask`` and ``target_mapping``.
    """

    auto_class = XLNetLMHeadModel

    def probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Softmax at the mask, shape (texts, vocabulary), float32; all texts have the same length."""
        ids = torch.tensor(encoded, device=self.model.device)
        positions = (ids == self.tokenizer.mask_token_id).int().argmax(dim=1)
        rows = torch.arange(len(ids), device=ids.device)
        hidden = torch.zeros(*ids.shape, ids.shape[1], device=ids.device, dtype=self.model.dtype)
        hidden[rows, :, positions] = 1.0  # perm_mask[k, i, j] = 1: in text k, token i does not see token j
        target = torch.zeros(len(ids), 1, ids.shape[1], device=ids.device, dtype=self.model.dtype)
        target[rows, 0, positions] = 1.0
        with torch.inference_mode():
            logits = self.model(
                input_ids=ids, perm_mask=hidden, target_mapping=target, use_mems=False, return_dict=True
            ).logits
        return torch.softmax(logits[:, 0].float(), dim=-1)
