"""The device that a model is read on, and the type of its weights there."""

import logging
from functools import cache
from typing import TYPE_CHECKING

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions

if TYPE_CHECKING:
    import torch

_TRIED_SIZE = 512  # of a square matrix on a CPU
_WORTH_ROUNDING = 4.0  # times that bfloat16 must be as fast for ``auto`` to take it


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


def chosen_dtype(options: LoadOptions) -> str:
    """Return the type of the weights.

    Args:
        options: name it, or ``auto``: bfloat16 where that is four times as fast here as float32.
    """
    if options.dtype != "auto":
        return options.dtype
    ratio = _speed_of_bfloat16(pick_device(options.device).type)
    dtype = "bfloat16" if ratio >= _WORTH_ROUNDING else "float32"
    logging.getLogger("swapbias").info(
        "dtype auto: %s, for bfloat16 is %.1f times as fast here.", dtype, ratio
    )
    return dtype


@cache
def _speed_of_bfloat16(device: str) -> float:
    """Return how many times as fast as in float32 a device multiplies matrices in bfloat16, tried for some 50 ms."""
    import torch

    from swapbias.models.engine import linear_layers

    exact = _seconds_of_product(device, torch.float32)
    if device == "cpu":  # float32 is read by whatever is fastest
        exact /= linear_layers.speed_of_onednn(_TRIED_SIZE, _TRIED_SIZE)
    rounded = _seconds_of_product(device, torch.bfloat16)
    return exact / rounded


def _seconds_of_product(device: str, dtype: "torch.dtype") -> float:
    """Return the median time that a device takes to multiply two matrices of a type."""
    import torch
    from torch.utils.benchmark import Timer  # waits for a GPU

    size = _TRIED_SIZE if device == "cpu" else 4_096
    matrix = torch.ones(size, size, dtype=dtype, device=device)
    timer = Timer(
        "matrix @ matrix", globals={"matrix": matrix}, num_threads=torch.get_num_threads()
    )
    seconds: float = timer.blocked_autorange(min_run_time=0.025).median
    return seconds
