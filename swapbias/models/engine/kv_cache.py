"""Caches of keys and values: what a causal model read before is not read again."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from swapbias.models.engine.cache_names import cache_name
from swapbias.models.engine.transfers import send


def continued(model: Any, ids: torch.Tensor, cache: Any, **settings: Any) -> Any:
    """Read tokens after those in a cache; nothing is masked, and positions follow.

    Args:
        model: a causal model of transformers, or its body.
        ids: shape (rows, tokens).
        cache: keys and values of what stands before, one row each; None: nothing does.
        settings: further arguments of the model.

    Returns:
        The model's output, with the cache of all tokens.
    """
    start = cache.get_seq_length() if cache else 0
    mask = torch.ones(len(ids), start + ids.shape[1], dtype=torch.long, device=ids.device)
    settings[cache_name(model.forward)] = cache
    return model(input_ids=ids, attention_mask=mask, use_cache=True, return_dict=True, **settings)


def cached_rows(caches: Sequence[Any], rows: Sequence[Sequence[int]], length: int) -> DynamicCache:
    """Gather rows of caches in one cache.

    Args:
        caches: the caches of one model.
        rows: indices of the rows of each cache.
        length: tokens of each row that are kept.

    Returns:
        A new cache, the rows of the first cache first.
    """
    gathered = DynamicCache()
    indices = [
        send(torch.tensor(row_indices), cache.layers[0].keys.device)
        for cache, row_indices in zip(caches, rows, strict=True)
    ]
    for number, layers in enumerate(zip(*(cache.layers for cache in caches), strict=True)):
        keys = []
        values = []
        for layer, index in zip(layers, indices, strict=True):
            index_there = index.to(layer.keys.device)
            keys.append(layer.keys[index_there, :, :length])
            values.append(layer.values[index_there, :, :length])
        gathered.update(torch.cat(keys), torch.cat(values), number)
    return gathered
