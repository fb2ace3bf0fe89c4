"""What layers compute with beside their weights: their classes and settings, hooks, adapters that are on."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from types import BuiltinFunctionType, FunctionType
from typing import Any

_COMPILED = "_orig_mod"
AROUND = (_COMPILED, "base_layer", "original_module", "token_adapter")
"""How a module is called inside of one that compiles it or adds an adapter to it."""
# Settings by which a model in eval mode computes nothing else.
_NEUTRAL = re.compile(
    r"drop|^_|^(?:architectures|dtype|torch_dtype|transformers_version|name_or_path|use_cache|output_\w+|return_dict"
    r"|gradient_checkpointing|initializer_\w+|problem_type|[a-z]+_token_id|vocab_size|is_decoder|chunk_size_\w+"
    r"|training|hf_device_map|max_seq_len_cached|warnings_issued|model_tags)$"
)
# Libraries whose hooks only watch a model, or let gradients reach its first layer.
_HARMLESS_HOOKS = ("transformers", "peft")
_MODELS = ("transformers", "transformers_modules", "swapbias")
_HARMLESS_CALLS = ("_hf_hook", _COMPILED)
"""What modules have whose call accelerate replaced to move them between devices, or torch to compile them."""
_OF_ADAPTERS = ("active_adapters", "disable_adapters", "merged_adapters")


def computing(config: Any) -> dict[str, Any]:
    """Return the settings of a config that change what a model gives: numbers, words and switches.

    Args:
        config: a model config of transformers.
    """
    values = config.get_text_config().to_dict()
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, str | int | float) and not _NEUTRAL.search(key)
    }


def plain_layers(model: Any) -> dict[str, Any]:
    """Return the layers of a model without what compiles them, and without adapters.

    Args:
        model: a module of torch.

    Returns:
        Layers by their names in the model as it was loaded; one in two places has both.
    """
    layers = dict(model.named_modules(remove_duplicate=False))
    parts_inside = {
        name: part for name in layers for part in AROUND if f"{name}.{part}".lstrip(".") in layers
    }
    plain = {}
    for name, layer in layers.items():
        parts = name.split(".") if name else []
        outer = [".".join(parts[:count]) for count in range(len(parts))]
        is_inside = all(
            parts_inside.get(prefix, part) == part
            for prefix, part in zip(outer, parts, strict=True)
        )
        if is_inside and name not in parts_inside:
            plain[".".join(part for part in parts if part not in AROUND)] = layer
    return plain


def layer_settings(layer: Any) -> dict[str, Any]:
    """Return what a layer computes with beside its weights: its class, numbers, words and functions.

    Args:
        layer: a module of torch.
    """
    settings = {"class": _full_name(type(layer))}
    if "drop" in type(layer).__name__.lower():
        return settings
    for key, value in vars(layer).items():
        if _is_plain(value) and not _NEUTRAL.search(key):
            settings[key] = _written(value)
    if hasattr(layer, "merged_adapters"):  # a layer with adapters
        settings |= {key: _written(getattr(layer, key)) for key in _OF_ADAPTERS}
    return settings


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, a word, a function, or several of them."""
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | FunctionType | BuiltinFunctionType)


def _written(value: Any) -> Any:
    """Return a plain value as JSON has it; a function by its name."""
    if isinstance(value, Mapping):
        return {str(key): _written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    return value if isinstance(value, str | int | float) else _full_name(value)


def _full_name(definition: Any) -> str:
    """Return the name of a class or function with its module."""
    return f"{definition.__module__}.{definition.__qualname__}"


def _origin(definition: Any) -> str:
    """Return the library that a class or function is from; blank where nothing tells it."""
    return str(getattr(definition, "__module__", "")).partition(".")[0]


def added_code(model: Any) -> list[str]:
    """Find code of the user's own that may change what a layer gets or gives.

    Args:
        model: a model of transformers.

    Returns:
        A name each, of hooks and of calls that replace those of their class; none of the hooks by which transformers
        and PEFT watch a model or train its adapters.
    """
    added = []
    for name, module in model.named_modules():
        # nothing public says it
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
            if _origin(hook) not in _HARMLESS_HOOKS:
                added.append(f"{name} hook {getattr(hook, '__qualname__', type(hook).__name__)}")
        if "forward" in vars(module) and not any(hasattr(module, key) for key in _HARMLESS_CALLS):
            added.append(f"{name} forward")
    return added


def is_of_library(model: Any) -> bool:
    """Return whether the class of a model is one that its files alone can name.

    Args:
        model: a model of transformers.
    """
    return _origin(type(model)) in _MODELS


def model_without_weights(model: Any, config: Any) -> Any:
    """Make a model of the class of another one, whose weights take no memory.

    Args:
        model: a model of transformers.
        config: the config that it is made of.

    Returns:
        The model; its buffers have numbers where accelerate is installed.
    """
    import torch

    empty: AbstractContextManager[Any] = torch.device("meta")
    if find_spec("accelerate") is not None:
        from accelerate import init_empty_weights

        empty = init_empty_weights(include_buffers=False)
    with empty:
        return type(model)(config)
