"""Copies to and from a GPU: it computes the next batch while the outputs of the one before are read."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import torch

Outputs = tuple[torch.Tensor, ...]
"""Tensors that are read of a batch."""


def is_asynchronous(device: torch.device) -> bool:
    """Return whether a device computes on its own, so that whoever asks for a value waits for it.

    Args:
        device: device of a model.
    """
    return device.type != "cpu"


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor to the device of a model; nobody waits for a GPU, which gets it before what it is asked next.

    Args:
        tensor: a tensor of the processor.
        device: where it is wanted.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def received(batches: Iterable[tuple[list[int], Outputs]]) -> Iterator[tuple[list[int], Outputs]]:
    """Bring outputs to the processor, with one wait for a GPU a batch, before which the next batch is begun.

    Args:
        batches: indices of some texts, and what is read of them, on the device of the model.

    Yields:
        The same indices, and the outputs on the processor.
    """
    begun: deque[tuple[list[int], Callable[[], Outputs]]] = deque()
    for members, outputs in batches:
        begun.append((members, _begin_copy(outputs)))
        if len(begun) > _batches_ahead(outputs[0].device):
            members, finish = begun.popleft()
            yield members, finish()
    for members, finish in begun:
        yield members, finish()


def _batches_ahead(device: torch.device) -> int:
    """Return how many batches a device is given before the outputs of one are read."""
    return 1 if device.type == "cuda" else 0


def _begin_copy(outputs: Outputs) -> Callable[[], Outputs]:
    """Begin to copy tensors to the processor; return what waits for the copies."""
    device = outputs[0].device
    if device.type != "cuda":
        copies = tuple(output.cpu() for output in outputs)
        return lambda: copies
    copies = tuple(output.to("cpu", non_blocking=True) for output in outputs)
    copied = torch.cuda.current_stream(device).record_event()

    def finish() -> Outputs:
        copied.synchronize()
        return copies

    return finish
