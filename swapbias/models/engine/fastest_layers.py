"""A copy of a model whose linear layers are what multiplies fastest on this machine."""

import os
from typing import Any

import torch
from torch import nn

from swapbias.models.engine.encoder import twin
from swapbias.models.engine.layer_choice import pinned_layers
from swapbias.models.engine.linear_layers import ONEDNN, OneDnnLinear, has_onednn, speed_of_onednn

_LEAST_WEIGHTS = 2**18  # of the largest layer; smaller ones gain nothing
_PARTS_OF_MEMORY = 4  # the copied weights take at most one of these


def with_fastest_layers(model: Any, name: str = "") -> tuple[Any, str]:
    """Return a model to read with: its copy with layers of oneDNN where these are faster here, else the model itself.

    The copy shares all tensors with the model and has the weights of its linear layers once more. Float32 on the CPU
    alone is copied, and no more than a quarter of the machine's memory.

    Args:
        model: a model in eval mode; it stays as it is.
        name: its name in manifests. A run that goes on or is repeated keeps what it began with, where torch can.

    Returns:
        The model, and ``ONEDNN`` or blank.
    """
    layers = {path: layer for path, layer in model.named_modules() if _can_copy(layer)}
    largest = max(layers.values(), key=lambda layer: layer.weight.numel(), default=None)
    if largest is None or largest.weight.numel() < _LEAST_WEIGHTS:
        return model, ""
    pinned = pinned_layers(name)
    if pinned is None:
        is_chosen = _fits_in_memory(layers.values()) and (
            speed_of_onednn(largest.in_features, largest.out_features) > 1
        )
    else:
        is_chosen = pinned == ONEDNN and has_onednn()
    if not is_chosen:
        return model, ""
    try:
        copied = twin(model)
    except ValueError:  # a model that cannot be copied is read as it is
        return model, ""
    for path in layers:
        copied.set_submodule(path, OneDnnLinear(copied.get_submodule(path)))
    return copied, ONEDNN


def _can_copy(module: Any) -> bool:
    """Return whether a module is a linear layer in float32 on the CPU that nobody added to."""
    if type(module) is not nn.Linear or module._forward_hooks or module._forward_pre_hooks:
        return False
    weight = module.weight
    is_plain = "forward" not in vars(module) and not weight.is_inference()
    return is_plain and weight.device.type == "cpu" and weight.dtype == torch.float32


def _fits_in_memory(layers: Any) -> bool:
    """Return whether copies of the weights take a quarter of the memory at most; also where that is unknown."""
    copied: int = sum(layer.weight.numel() * layer.weight.element_size() for layer in layers)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return True
    return copied * _PARTS_OF_MEMORY <= memory
