"""Only the tokens asked about: a model's last layer and its head need not see the others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def only_rows(model: Any, rows: torch.Tensor) -> Iterator[None]:
    """Let a model that reads a packed row finish with these tokens alone: the head sees the shape (tokens, 1, d).

    The last layer's keys and values need every token; what comes after its attention does not.
    """
    base = model.base_model
    handles = [base.register_forward_hook(_one_text_each(base))]
    last = _last_layer(base)
    if last is None:
        handles.append(base.register_forward_hook(_cut_output(rows), prepend=True))
    elif hasattr(last, "sa_layer_norm"):  # DistilBERT adds the residual before this norm, outside of any module
        handles.append(last.sa_layer_norm.register_forward_hook(lambda _module, _given, found: found[:, rows]))
    else:
        handles.append(last.attention.output.register_forward_pre_hook(_cut_input(rows)))
    with _removed(handles):
        yield


@contextmanager
def head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Let the model's head see one position of each text: logits get the shape (texts, 1, outputs).

    The vocabulary head on every token is the larger half of a small model's cost. The encoder's output is
    cut down before the model's own head reads it, whatever the family calls its head.
    """

    def cut(_module: Any, _given: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        output.last_hidden_state = hidden[rows, positions].unsqueeze(1)
        return output

    with _removed([model.base_model.register_forward_hook(cut)]):
        yield


@contextmanager
def _removed(handles: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _last_layer(base: Any) -> Any:
    """The last layer of a family whose layer can be cut; None for others, which are cut after it."""
    layers = getattr(getattr(base, "encoder", None) or getattr(base, "transformer", None), "layer", None)
    if not isinstance(layers, nn.ModuleList) or len(layers) == 0:
        return None
    last: Any = layers[-1]
    if hasattr(last, "sa_layer_norm") or hasattr(getattr(last, "attention", None), "output"):
        return last
    return None


def _cut_input(rows: torch.Tensor) -> Callable[..., Any]:
    """For the projection after the attention, which gets the attended states and the residual."""
    return lambda _module, given: tuple(one[:, rows] for one in given)


def _cut_output(rows: torch.Tensor) -> Callable[..., Any]:
    def cut(_module: Any, _given: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[:, rows]
        return output

    return cut


def _one_text_each(base: Any) -> Callable[..., Any]:
    """Each token as a text of one, and BERT's pooler over these (it pooled the row's first token alone)."""

    def reshape(_module: Any, _given: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[0].unsqueeze(1)
        if getattr(output, "pooler_output", None) is not None:
            output.pooler_output = base.pooler(output.last_hidden_state)
        return output

    return reshape
