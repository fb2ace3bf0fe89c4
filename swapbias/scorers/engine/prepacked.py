"""Linear layers whose weights lie in the order that the processor multiplies them in (oneDNN)."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_DTYPES = (torch.float32, torch.bfloat16)
_ROWS = 1_024  # the number of tokens that the order of a weight is chosen for; any number may come
# Families that call their linear layers and do nothing else with them; others may read a weight by name.
_FAMILIES = ("bert", "camembert", "distilbert", "electra", "longformer", "mpnet", "roberta", "xlm-roberta", "xlnet")
# Where families apply GELU: the linear layer before it, and the module that applies it.
_GELU_AFTER = (("dense", "intermediate_act_fn"), ("lin1", "activation"))


class PackedLinear(nn.Module):
    """``nn.Linear`` for inference on a CPU, with its weight packed once instead of at every call.

    ``gelu``: the exact GELU is applied to the result in the same pass over memory.
    """

    def __init__(self, linear: nn.Linear, *, gelu: bool = False) -> None:
        """Pack the weight of a linear layer, which keeps its own."""
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # Not a parameter: a packed weight cannot be trained, moved or saved.
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self._bias = None if linear.bias is None else linear.bias.detach()
        self._activation = "gelu" if gelu else "none"

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """As ``nn.Linear``."""
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            hidden, self._packed, self._bias, self._activation, [], "none"
        )
        return found


def prepack(model: Any) -> int:
    """Replace the linear layers of a transformers model in place; how many were.

    Each weight is freed as its packed form takes its place, so that memory does not double; only a vocabulary
    head that shares its weight with the embeddings lies there twice. A prepacked model is for inference. Other
    families, devices and types, and builds of torch that cannot pack, are left as they are.
    """
    if model.config.model_type not in _FAMILIES or not can_prepack(next(model.parameters())):
        return 0
    places = list(_linears(model))
    for parent, name in places:
        fused = _fuse_gelu(parent, name)
        setattr(parent, name, PackedLinear(getattr(parent, name), gelu=fused))
    return len(places)


def can_prepack(weight: torch.Tensor) -> bool:
    """Whether weights of this device and type can be packed here, tried on a small one.

    The operations are private to torch: where they are gone, refuse or mean something else, models run plainly.
    """
    if weight.device.type != "cpu" or weight.dtype not in _DTYPES or not torch.backends.mkldnn.enabled:
        return False
    return _equals_plain(weight.dtype)


def _equals_plain(dtype: torch.dtype) -> bool:
    """Whether a small packed layer gives what the plain one does."""
    with torch.inference_mode():
        linear = nn.Linear(16, 32, dtype=dtype)
        wave = torch.arange(16 * 32, dtype=torch.float32).sin()
        linear.weight.copy_(wave.view(32, 16))
        linear.bias.copy_(wave[:32])
        hidden = wave[: 16 * 3].view(1, 3, 16).to(dtype)
        expected = linear(hidden)
        try:
            plain, fused = PackedLinear(linear)(hidden), PackedLinear(linear, gelu=True)(hidden)
        except (AttributeError, RuntimeError):  # NotImplementedError is one of the latter
            return False
        close = 1e-5 if dtype == torch.float32 else 0.1
        return torch.allclose(plain, expected, atol=close) and torch.allclose(
            fused, functional.gelu(expected), atol=close
        )


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """The parent and name of every plain linear layer; a subclass may mean something else by ``forward``."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                yield parent, name


def _fuse_gelu(parent: Any, name: str) -> bool:
    """Whether an exact GELU follows this layer; it is then replaced by nothing, for the layer applies it."""
    for linear, activation in _GELU_AFTER:
        after = getattr(parent, activation, None)
        if name == linear and getattr(after, "act", None) is functional.gelu:
            setattr(parent, activation, nn.Identity())
            return True
    return False
