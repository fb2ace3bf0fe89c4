"""Longformer without its window: a text that fits into one is read as RoBERTa reads it."""

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
