"""Probe whether a causal model gives the same probabilities from a cache as when it reads a whole text."""

from collections.abc import Sequence
from typing import Any

import torch

from swapbias.models.engine.cache_names import cache_of
from swapbias.models.engine.kv_cache import cached_rows, continued

PROBE_ERRORS = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""Exceptions that a model may raise when we probe whether it can be read in some way."""


def supports_prefix_sharing(model: Any, ids: Sequence[int]) -> bool:
    """Probe whether a model gives the same probabilities from a cache as when it reads a whole text.

    Args:
        model: a causal model of transformers in eval mode.
        ids: tokens of a text.

    Returns:
        False for models without a cache of keys and values, or whose sliding window drops tokens of the text.
    """
    half = len(ids) // 2
    text = torch.tensor([list(ids)], device=model.device)
    if not half:
        return False
    with torch.inference_mode():
        try:
            whole = model(input_ids=text, use_cache=False, return_dict=True).logits[:, half:]
            begun = cache_of(model(input_ids=text[:, :half], use_cache=True, return_dict=True))
            if any(layer.keys.shape[-2] != half for layer in begun.layers):
                return False
            cache = cached_rows([begun], [(0, 0)], half)
            rest = continued(model, text[:, half:].expand(2, -1), cache).logits
        except PROBE_ERRORS:
            return False
        return same_probabilities(rest, whole)


def same_probabilities(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether logits give the same probabilities, up to rounding of their type.

    Args:
        logits: shape (rows, tokens, vocabulary).
        expected: shape (rows, tokens, vocabulary), or (1, tokens, vocabulary) where all rows should be the same.

    Returns:
        False also where the shapes differ, or a probability is not finite.
    """
    if logits.shape[1:] != expected.shape[1:]:
        return False
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    expected_values = torch.log_softmax(expected.float(), dim=-1)
    if logits.dtype == torch.float32:
        return torch.allclose(log_probabilities, expected_values, rtol=1e-5, atol=1e-4)
    return torch.allclose(log_probabilities, expected_values, rtol=0.05, atol=0.5)
