"""The device that a model is read on, and the type of its weights there."""

import logging
import math
from functools import cache
from typing import TYPE_CHECKING

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions

if TYPE_CHECKING:
    import torch

_TRIED_ROWS = 512  # of a product on a CPU
_WIDEST = 1_024  # widest layer that is tried on a CPU
_TRIED_ON_GPU = 4_096  # size of a square matrix
_WORTH_ROUNDING = 4.0  # times that bfloat16 must be as fast for ``auto`` to take it
_TRIALS = 3  # on a busy machine one may err: each must show that bfloat16 is faster


def pick_device(device: str) -> "torch.device":
    """Find the torch device of a name.

    Args:
        device: ``auto`` (cuda where there is one), or a name of torch.

    Raises:
        UsageError: This machine has no such device.
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:
        fault = f"device {device}: torch finds none on this machine. Pass --device cpu."
        raise UsageError(fault) from error


def chosen_dtype(options: LoadOptions, width: int, pinned: str | None = None) -> str:
    """Return the type of the weights.

    Args:
        options: name it, or ``auto``: bfloat16 where that is four times as fast here as float32.
        width: size of the model's hidden states: small products gain nothing.
        pinned: type that the manifest of the run names, which ``auto`` keeps; None or blank: there is none.
    """
    if options.dtype != "auto":
        return options.dtype
    if pinned:
        return pinned
    device = pick_device(options.device).type
    ratio = _speed_of_bfloat16(device, min(width, _WIDEST) if device == "cpu" else _TRIED_ON_GPU)
    dtype = "bfloat16" if ratio >= _WORTH_ROUNDING else "float32"
    logging.getLogger("swapbias").info(
        "dtype auto: %s, for bfloat16 is %.1f times as fast here.", dtype, ratio
    )
    return dtype


@cache
def _speed_of_bfloat16(device: str, width: int) -> float:
    """Return the smallest ratio of several trials, each of some 50 ms: times bfloat16 is as fast as float32.

    The first trial in which it is not fast enough ends them.
    """
    import torch

    from swapbias.models.engine import linear_layers

    # float32 is read by whatever is fastest
    onednn = linear_layers.speed_of_onednn(width, width) if device == "cpu" else 1.0
    least = math.inf
    for _ in range(_TRIALS):
        exact = _seconds_of_product(device, torch.float32, width) / onednn
        least = min(least, exact / _seconds_of_product(device, torch.bfloat16, width))
        if least < _WORTH_ROUNDING:
            break
    return least


def _seconds_of_product(device: str, dtype: "torch.dtype", width: int) -> float:
    """Return the median time that a device takes to multiply by a square matrix of a type."""
    import torch
    from torch.utils.benchmark import Timer  # waits for a GPU

    rows = _TRIED_ROWS if device == "cpu" else width
    timer = Timer(
        "states @ matrix",
        globals={
            "states": torch.ones(rows, width, dtype=dtype, device=device),
            "matrix": torch.ones(width, width, dtype=dtype, device=device),
        },
        num_threads=torch.get_num_threads(),
    )
    seconds: float = timer.blocked_autorange(min_run_time=0.025).median
    return seconds
