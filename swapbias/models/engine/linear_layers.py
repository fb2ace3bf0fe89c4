"""Linear layers over a copy of their weights for oneDNN, and whether these are faster here than torch's own."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from time import get_clock_info, perf_counter, thread_time
from typing import Any

import torch
from torch import nn
from torch.nn import functional

ONEDNN = "oneDNN"
"""Stands in manifests for layers that oneDNN multiplies."""
# Fewer rows gain nothing: to hand them to oneDNN costs more.
_FEWEST_ROWS = 64
# A product of some milliseconds; with fewer rows oneDNN would seem faster than it is for those of a batch.
_TRIED_ROWS = 512
_TRIED_OUTPUTS = 768
_REPEATS = 3  # of both in a trial
_TRIALS = 3  # on a busy machine one may err: each must show the gain
_FINE = 1e-5  # seconds; some systems count the time of a thread in steps of 16 ms
_WORTH_COPYING = 1.2  # times that oneDNN must be as fast


class OneDnnLinear(nn.Linear):
    """A linear layer that multiplies many rows by oneDNN, and few rows or for a gradient as torch does.

    It shares weight and bias with the layer that it stands for. Once these have changed it multiplies as torch does.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Copy the weights of a layer into the form of oneDNN.

        Args:
            layer: a layer in float32 on the CPU; it stays as it is.
        """
        nn.Module.__init__(self)
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.weight = layer.weight
        self.bias = layer.bias
        self.train(layer.training)
        self._copy_weights()

    def _copy_weights(self) -> None:
        """Copy weight and bias as they are now."""
        # In a tuple: no buffers, which would be saved, moved and counted with the model.
        bias = None if self.bias is None else _copied(self.bias)
        self._copies = (_copied(self.weight), bias)
        self._versions = self._current_versions()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy of the layer is made of: all but what oneDNN alone can read."""
        return {name: value for name, value in vars(self).items() if name != "_copies"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy of a layer, with copies of its weights."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._copy_weights()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Multiply by the weights and add the bias.

        Args:
            inputs: shape (..., in_features).

        Returns:
            Shape (..., out_features).
        """
        is_small = inputs.numel() < _FEWEST_ROWS * self.in_features
        is_other = inputs.dtype != torch.float32 or inputs.is_mkldnn or torch.is_grad_enabled()
        if is_small or is_other or self._current_versions() != self._versions:
            return functional.linear(inputs, self.weight, self.bias)
        weight, bias = self._copies
        return functional.linear(inputs.to_mkldnn(), weight, bias).to_dense()

    def _current_versions(self) -> tuple[int, ...]:
        """Return numbers that change whenever somebody changes weight or bias in place."""
        tensors = [self.weight] if self.bias is None else [self.weight, self.bias]
        return tuple(tensor._version for tensor in tensors)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the form of oneDNN."""
    return tensor.detach().to_mkldnn()


def has_onednn() -> bool:
    """Tell whether this build of torch can multiply by oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def speed_of_onednn(inside: int, outside: int) -> float:
    """Return how many times as fast as torch's own product oneDNN is here, tried for a moment, once a shape.

    Args:
        inside: inputs of a layer.
        outside: its outputs; of many a part is tried.

    Returns:
        1 where it gains less than a fifth, which is not worth a copy of the weights.
    """
    if not has_onednn():
        return 1.0
    speed = _measured_speed(inside, min(outside, _TRIED_OUTPUTS), torch.get_num_threads())
    return speed if speed >= _WORTH_COPYING else 1.0


@cache
def _measured_speed(inside: int, outside: int, threads: int) -> float:
    """Return the smallest gain of oneDNN in several trials; the first without one ends them."""
    layer = nn.Linear(inside, outside).eval()
    inputs = torch.ones(_TRIED_ROWS, inside)
    least = math.inf
    with torch.inference_mode(False), torch.no_grad():
        layers = (layer, OneDnnLinear(layer))
        for _ in range(_TRIALS):
            least = min(least, _tried_speed(layers, inputs))
            if least < _WORTH_COPYING:
                break
    return least


def _tried_speed(layers: Sequence[nn.Linear], inputs: torch.Tensor) -> float:
    """Divide the least time of the first layer by that of the second, which take turns."""
    seconds = [[_seconds(layer, inputs) for layer in layers] for _ in range(_REPEATS)]
    plain, onednn = (min(column) for column in zip(*seconds, strict=True))
    speed: float = plain / onednn
    return speed


def _seconds(layer: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> float:
    """Return the time that a layer takes for some rows, by the processor's clock: other programs hardly count."""
    clock = thread_time if get_clock_info("thread_time").resolution < _FINE else perf_counter
    start = clock()
    layer(inputs)
    return clock() - start
