"""The transformers model inside what wraps it: several devices, torch.compile, adapters of PEFT."""

import sys
from importlib.util import find_spec
from typing import Any

from swapbias.errors import UsageError

_PROBE = "This is a short text."
_ROUNDING = 1e-4  # relative, of outputs that are the same: other kernels may read a wrapped model


def without_containers(model: Any) -> Any:
    """Give the model inside what spreads or compiles it, neither of which changes its answers.

    Args:
        model: any object; it stays as it is.

    Returns:
        The module inside ``DataParallel``, ``DistributedDataParallel`` and ``torch.compile``, in any order; else the
        object itself.

    Raises:
        UsageError: weights that lie in parts on several devices (FSDP).
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        return model
    if _is_sharded(model):
        raise UsageError(
            "The weights lie in parts on several devices. Audit the saved checkpoints."
        )
    inner = _without_container(model)
    while inner is not model:
        model = inner
        inner = _without_container(inner)
    return model


def _is_sharded(model: Any) -> bool:
    """Return whether weights of a module lie in parts on several devices."""
    sharding = sys.modules.get("torch.distributed.fsdp")
    if sharding is None:
        return False
    sharded_class = sharding.FullyShardedDataParallel
    return any(isinstance(module, sharded_class) for module in model.modules())


def _without_container(model: Any) -> Any:
    """Take one container off a module."""
    import torch

    if isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        return model.module
    if find_spec("accelerate") is None:
        return model
    from accelerate.utils import (
        extract_model_from_parallel,
        has_compiled_regions,
        is_compiled_module,
    )

    if is_compiled_module(model) or has_compiled_regions(model):
        return extract_model_from_parallel(model, keep_torch_compile=False)
    return model


def is_adapted(model: Any) -> bool:
    """Return whether an object is a model of PEFT: a wrapper with adapters, with a transformers model inside.

    Args:
        model: any object.
    """
    torch = sys.modules.get("torch")
    transformers = sys.modules.get("transformers")
    if torch is None or transformers is None or not isinstance(model, torch.nn.Module):
        return False
    return hasattr(model, "peft_config") and not isinstance(model, transformers.PreTrainedModel)


def adapted_model(model: Any, tokenizer: Any) -> Any:
    """Give the transformers model inside a model of PEFT, whose layers hold the adapters as they are set now.

    Args:
        model: a model of PEFT; it stays as it is.
        tokenizer: the model's tokenizer.

    Returns:
        The model, which answers as the wrapper does.

    Raises:
        UsageError: the wrapper answers otherwise, because its adapter is not in the layers (prompt tuning).
    """
    import torch

    from swapbias.models.engine.encoder import twin

    wrapper = _without_mixed_precision(twin(model))
    inner = _inner(wrapper)
    encoded = tokenizer(_PROBE, return_tensors="pt").to(inner.device)
    inputs = {name: encoded[name] for name in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        expected = wrapper(**inputs, return_dict=True).logits
        logits = inner(**inputs, return_dict=True).logits
    is_same = expected.shape == logits.shape and torch.allclose(
        expected, logits, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True
    )
    if not is_same:
        raise UsageError(
            f"The adapter of {type(model).__name__} is not in the layers of its model, so an audit would read the "
            "model without it. Audit a model whose adapter is in its layers, as that of LoRA is."
        )
    return _inner(model)


def _without_mixed_precision(copied: Any) -> Any:
    """Give a copied model the forward that it had before a trainer made it compute in bfloat16 or float16."""
    if find_spec("accelerate") is None:
        return copied
    from accelerate.utils import extract_model_from_parallel

    return extract_model_from_parallel(copied, keep_fp32_wrapper=False)


def adapter_name(model: Any) -> str:
    """Name the adapters that a model answers with: their kind, and their names where somebody chose one.

    Args:
        model: a model of PEFT, or of transformers with adapters added.

    Returns:
        ``lora adapter``, ``lora adapter formal``; blank without an adapter, or where all are disabled.

    Raises:
        UsageError: an adapter is merged and disabled, which PEFT undoes in the weights when the model answers.
    """
    configs = getattr(model, "peft_config", None)
    if not configs:
        return ""
    names = active_adapters(model)
    if not names:
        return ""
    types = [configs[name].peft_type for name in names]
    kinds = [str(getattr(kind, "value", kind)).lower() for kind in types]
    chosen_names = () if names == ["default"] else names
    return " ".join([*dict.fromkeys(kinds), "adapter", *chosen_names])


def active_adapters(model: Any) -> list[str]:
    """Return the names of the adapters that a layer of a model adds to it as it is set now.

    Args:
        model: a model of PEFT, or of transformers with adapters added.

    Raises:
        UsageError: an adapter is merged and disabled.
    """
    layers = _adapter_layers(model)
    if any(layer.merged_adapters and not layer.enabled for layer in layers):
        raise UsageError(
            "An adapter of this model is merged into its weights and disabled, which PEFT undoes in the weights when "
            "the model answers. Call its unmerge_adapter() first."
        )
    if layers:
        return list(dict.fromkeys(name for layer in layers for name in _added_by(layer)))
    has_adapters = getattr(model, "peft_config", None)
    if not has_adapters or not getattr(model, "has_active_enabled_adapter", True):
        return []
    active = getattr(model, "active_adapters", ())
    return list(active() if callable(active) else active)


def has_mixed_adapters(model: Any) -> bool:
    """Return whether some layers of a model add other adapters than others that could: no name says what it is.

    Args:
        model: a model of PEFT, or of transformers with adapters added.
    """
    names = active_adapters(model)
    return any(
        _added_by(layer) != [name for name in names if name in layer.available_adapters]
        for layer in _adapter_layers(model)
    )


def _added_by(layer: Any) -> list[str]:
    """Return the names of the adapters that a layer adds, by its status."""
    if not layer.enabled:
        return []
    names = [*layer.merged_adapters, *layer.active_adapters]
    return [name for name in dict.fromkeys(names) if name in layer.available_adapters]


def _adapter_layers(model: Any) -> list[Any]:
    """Return the status of each layer that has adapters; none where they are not in the layers."""
    peft = sys.modules.get("peft")
    if peft is None or not getattr(model, "peft_config", None):
        return []
    try:
        return list(peft.get_layer_status(model))
    except (TypeError, ValueError):  # by PEFT: they are before the text, or nowhere
        return []


def _inner(model: Any) -> Any:
    """Give the transformers model; a mixed model has no method that does."""
    if callable(getattr(model, "get_base_model", None)):
        return model.get_base_model()
    return model.base_model.model
