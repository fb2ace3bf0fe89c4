"""Weights as they were loaded: whether the files had layers that were left out, and whether NaN among them shows."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_NUMBERED = re.compile(r"(.+?)\.(\d+)\.")
_SCALE = re.compile(
    r"\.(?:weight_scale\w*|weight_zero_point|weight\.(?:absmax|quant_\w+|nested_\w+)|input_scale|SCB)$"
)
"""How names of tensors end that turn packed weights into numbers."""
_FLOAT8_BYTES = 1
_PROBE = "This is a short text."


def refuse_unread_layers(name: str, model: Any, unread: Iterable[str]) -> None:
    """Refuse a model that has fewer layers than its files of weights.

    Args:
        name: name of the model for the sentence.
        model: a model of transformers.
        unread: names of weights in the files that have no place in it.

    Raises:
        ValueError: The config tells fewer layers than there are.
    """
    left_out = layer_left_out(model, unread)
    if left_out is not None:
        weight, count = left_out
        raise ValueError(
            f"Model {name!r} has {count} layers by its config and weights of more, as {weight}. "
            "Correct its config.json."
        )


def layer_left_out(model: Any, unread: Iterable[str]) -> tuple[str, int] | None:
    """Find a weight of a layer that a model does not have.

    Args:
        model: a model of transformers.
        unread: names of weights in its files that have no place in it.

    Returns:
        The name of the weight, and how many such layers the model has; None where no layer is missing.
    """
    # Layers that predict further tokens stand behind the others, and are not read.
    further = int(getattr(model.config.get_text_config(), "num_nextn_predict_layers", None) or 0)
    sizes = {key: len(module) for key, module in model.named_modules() if _is_list(module)}
    for weight in sorted(unread):
        for match in _NUMBERED.finditer(weight):
            count = _layer_count(model, sizes, weight[: match.end(1)])
            if count is not None and int(match[2]) >= count + further:
                return weight, count
    return None


def _layer_count(model: Any, sizes: Mapping[str, int], path: str) -> int | None:
    """Return how many layers a list has, by its path in files, which may be of the model with its head or without."""
    body = f"{model.base_model_prefix}."
    paths = (path, f"{body}{path}", path.removeprefix(body))
    return next((sizes[key] for key in paths if key in sizes), None)


def _is_list(module: Any) -> bool:
    """Return whether a module is a list of layers."""
    import torch

    return isinstance(module, torch.nn.ModuleList)


def refuse_unread_scales(name: str, unread: Iterable[str]) -> None:
    """Refuse a model whose files have scales of packed weights that nothing reads: the weights would be read bare.

    Args:
        name: name of the model for the sentence.
        unread: names of tensors in the files that have no place in it.

    Raises:
        ValueError: There are such tensors.
    """
    scales = sorted(key for key in unread if _SCALE.search(key))
    if scales:
        raise ValueError(
            f"Model {name!r} has packed weights with {len(scales)} scales that its config does not tell of, as "
            f"{scales[0]}. Name the model that is not quantised."
        )


def refuse_hidden_nan(name: str, model: Any, tokenizer: Any) -> None:
    """Refuse a model that gives numbers although some of its weights are none: fused attention passes over them.

    Rows of embeddings are not looked at: they spoil the texts that have their tokens, whose scores are NaN.

    Args:
        name: name of the model for the sentence.
        model: a model of transformers, in eval mode.
        tokenizer: the tokenizer of the model.

    Raises:
        ValueError: It has such weights, and its numbers do not show it.
    """
    import torch

    tables = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.Embedding)}
    broken = [
        key
        for key, weight in model.named_parameters()
        if id(weight) not in tables and not _is_finite(weight)
    ]
    if broken and _gives_numbers(model, tokenizer):
        raise ValueError(
            f"Model {name!r} gives numbers although {len(broken)} of its weights are NaN or infinite, "
            f"first {broken[0]}. Take another dtype, or a checkpoint whose training did not diverge."
        )


def _gives_numbers(model: Any, tokenizer: Any) -> bool:
    """Return whether what a model gives for a text is finite."""
    import torch

    encoded = tokenizer(_PROBE, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**encoded, return_dict=True)
    return bool(torch.isfinite(next(iter(outputs.values()))).all())


def _is_finite(weight: Any) -> bool:
    """Return whether all numbers of a tensor are finite; packed ones and those elsewhere are not looked at."""
    import torch

    is_readable = weight.is_floating_point() and weight.element_size() > _FLOAT8_BYTES
    if weight.is_meta or not weight.numel() or not is_readable:
        return True
    low, high = torch.aminmax(weight.detach())
    return bool(torch.isfinite(low) & torch.isfinite(high))
