"""Whether a model in memory still has the weights of the files that its name stands for."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from swapbias.files import is_there
from swapbias.models.layer_settings import (
    AROUND,
    added_code,
    computing,
    is_of_library,
    layer_settings,
    model_without_weights,
    plain_layers,
)
from swapbias.models.model_files import read_model_json
from swapbias.models.model_names import weight_files
from swapbias.models.model_pins import quantization_of
from swapbias.models.tokens import tokenizer_reading
from swapbias.models.weight_checks import layer_left_out
from swapbias.models.wrappers import active_adapters

_OLDER = {
    "LayerNorm.weight": "LayerNorm.gamma",
    "LayerNorm.bias": "LayerNorm.beta",
    "lm_head.weight": "embed_out.weight",  # of GPT-NeoX
}
"""How older files call weights."""
_CONFIG = "config.json"
_POOLER = "pooler"
"""A part of encoders whose vectors are made of their states instead."""
_BIAS = ".bias"
_PACKED_TYPES = ("float16", "bfloat16")
"""The types of weights beside packed ones, before training made them float32."""
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")
"""The files of a tokenizer; others end with ``.model``."""


def is_as_saved(model: Any, saved: str, tokenizer: Any) -> bool:
    """Compare a model in memory, and its tokenizer, with files on this machine, until something differs.

    Args:
        model: a model of transformers.
        saved: what its config says it was loaded from: a folder, or a Hub id.
        tokenizer: what it is read with.

    Returns:
        Whether each weight, layer and setting is that of the files, weights in their type, the tokenizer knows the
        same tokens where there are files of one, and no hook changes what a layer gives. False where there are no
        files.
    """
    folder = _folder(saved)
    if folder is None:
        return False
    return _is_model_of(model, folder) and _is_tokenizer_of(tokenizer, folder)


def is_search_object_as_saved(model: Any, saved: str) -> bool:
    """Compare an object that searches with files on this machine, module by module, until something differs.

    Args:
        model: any object; of one that is no list of modules of torch nothing shows what is in it.
        saved: what its config says it was loaded from: a folder, or a Hub id.

    Returns:
        Whether it has the modules of the files, with their weights and settings. False where nothing shows it.
    """
    import torch

    folder = _folder(saved)
    if folder is None or not isinstance(model, torch.nn.Sequential):
        return False
    modules = [*model.children()]
    places = _module_places(folder, modules)
    if not places:
        return False
    is_same = all(map(_is_module_of, modules, places))
    return is_same and _is_tokenizer_of(getattr(model, "tokenizer", None), places[0])


def _module_places(folder: Path, modules: Sequence[Any]) -> list[Path]:
    """Return the folder of each module of an object that searches; none where the files have other modules."""
    listing = read_model_json(str(folder), "modules.json", offline=True, remedy="Save it again.")
    if listing is None:  # of a model of transformers; what is around it has no weights
        return [folder for _ in modules]
    classes = [str(entry.get("type")).rpartition(".")[2] for entry in listing]
    if classes != [type(module).__name__ for module in modules]:
        return []
    return [folder / str(entry.get("path", "")) for entry in listing]


def _is_module_of(module: Any, folder: Path) -> bool:
    """Return whether a module of an object that searches has the weights and settings of a folder."""
    from transformers import PreTrainedModel

    inner = [part for part in module.modules() if isinstance(part, PreTrainedModel)]
    if inner:
        return _is_model_of(inner[0], folder, unused=_POOLER)
    if added_code(module) or (
        any(True for _ in module.parameters()) and not _has_weights(module, folder)
    ):
        return False
    settings: Mapping[str, Any] = getattr(module, "get_config_dict", dict)()
    saved = read_model_json(str(folder), _CONFIG, offline=True, remedy="Save it again.") or {}
    both = settings.keys() & saved.keys()
    return {key: settings[key] for key in both} == {key: saved[key] for key in both}


def _is_model_of(model: Any, folder: Path, unused: str = "") -> bool:
    """Return whether a model of transformers has the weights, layers and settings of a folder, and no hooks."""
    if added_code(model) or not is_of_library(model):
        return False
    return _has_weights(model, folder, unused) and _has_settings(model, folder)


def _has_weights(model: Any, folder: Path, unused: str = "") -> bool:
    """Return whether each weight of a module is that of the files, and no layer of the files is missing.

    Files need no weights of a part that is ``unused``, nor of adapters, after which a model is named.
    """
    files = _open_files(folder)
    if not files:
        return False
    unread = set(files)
    beside = {unused, *(getattr(model, "peft_config", None) or ())}  # adapters, by their names
    are_biases_trained = _trains_biases(model)
    types = _PACKED_TYPES if _is_packed(model) else ()
    for name, weight in model.named_parameters():
        key = next((key for key in _keys(model, name) if key in files), None)
        unread.discard(str(key))
        is_beside = key is None and not beside.isdisjoint(name.split("."))
        is_trained = are_biases_trained and name.endswith(_BIAS)
        if is_beside or is_trained or not weight.is_floating_point():  # packed cannot be compared
            continue
        if key is None or not _is_same(weight, files[key](), types):
            return False
    return not hasattr(model, "config") or layer_left_out(model, unread) is None


def _trains_biases(model: Any) -> bool:
    """Return whether biases of a model were trained with an adapter that it answers with."""
    configs = [model.peft_config[name] for name in active_adapters(model)]
    return any(getattr(config, "bias", "none") != "none" for config in configs)


def _is_packed(model: Any) -> bool:
    """Return whether weights of a model are quantised."""
    return hasattr(model, "config") and bool(quantization_of(model))


def _has_settings(model: Any, folder: Path) -> bool:
    """Return whether a model and its layers compute as the config of the files says."""
    try:
        config = type(model.config).from_pretrained(folder)
        built = model_without_weights(model, config)
    except Exception:  # noqa: BLE001 - whatever a class of the Hub raises: nothing shows that it is the same then
        return False
    if computing(model.config) != computing(config):
        return False
    layers = plain_layers(model)
    built_layers = plain_layers(built)
    is_packed = _is_packed(model)
    if built_layers.keys() - layers.keys() or (
        not is_packed and layers.keys() - built_layers.keys()
    ):
        return False
    return all(
        _is_layer_of(layers[name], layer, is_packed=is_packed)
        for name, layer in built_layers.items()
    )


def _is_layer_of(layer: Any, built: Any, *, is_packed: bool) -> bool:
    """Return whether a layer is of the class of another one, with the same settings and unsaved buffers."""
    if type(layer) is not type(built):
        return is_packed and any(True for _ in built.parameters(recurse=False))
    settings = layer_settings(layer)
    built_settings = layer_settings(built)
    both = settings.keys() & built_settings.keys()
    if any(settings[key] != built_settings[key] for key in both):
        return False
    buffers = dict(layer.named_buffers(recurse=False))
    return all(
        buffer.is_meta or (name in buffers and _is_same(buffers[name], buffer))
        for name, buffer in built.named_buffers(recurse=False)
        if name not in built.state_dict()
    )


def _is_tokenizer_of(tokenizer: Any, folder: Path) -> bool:
    """Return whether a tokenizer reads as that of a folder; True where the folder has none."""
    from transformers import AutoTokenizer, PreTrainedTokenizerBase

    names = os.listdir(folder)
    if not any(name in _TOKENIZERS or name.endswith(".model") for name in names):
        return True
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return False
    try:
        saved = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError):
        return False
    return tokenizer_reading(saved) == tokenizer_reading(tokenizer)


def _keys(model: Any, name: str) -> Iterator[str]:
    """Yield the names that a weight may have in files: of a model with its head or without, or older ones."""
    parts = [part for part in name.split(".") if part not in AROUND]
    prefix = str(getattr(model, "base_model_prefix", ""))
    names = [".".join(parts[start:]) for start in range(len(parts))]
    for candidate in (names[0], f"{prefix}.{names[0]}", *names[1:]):
        yield candidate
        for ending, older in _OLDER.items():
            if candidate.endswith(ending):
                yield candidate.removesuffix(ending) + older


def _is_same(weight: Any, saved: Any, types: Sequence[str] = ()) -> bool:
    """Return whether a weight is a tensor of a file, in the type of the weight or by way of another one."""
    import torch

    here = weight.detach().cpu()
    if here.shape != saved.shape:
        return False
    forms = [saved, *(saved.to(getattr(torch, name)) for name in types)]
    return any(
        torch.allclose(here, form.to(here.dtype), rtol=0, atol=0, equal_nan=True) for form in forms
    )


def _open_files(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what reads each tensor of a folder's files; none without such files."""
    tensors: dict[str, Callable[[], Any]] = {}
    for file in weight_files(os.listdir(folder)):
        tensors |= _readers(folder / file)
    return tensors


def _folder(saved: str) -> Path | None:
    """Return the folder of a model on this machine, which may be in the Hub's cache; None where there is none."""
    from huggingface_hub import snapshot_download

    if is_there(saved):
        return Path(saved) if Path(saved).is_dir() else None
    try:
        return Path(snapshot_download(saved, local_files_only=True))
    except (OSError, ValueError):  # no Hub id, or not in the cache
        return None


def _readers(path: Path) -> dict[str, Callable[[], Any]]:
    """Return what reads each tensor of a file; none of a file that cannot be read."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        if path.suffix == ".safetensors":
            tensors = safe_open(path, framework="pt")
            return {key: partial(tensors.get_tensor, key) for key in tensors.keys()}  # type: ignore[no-untyped-call]  # noqa: SIM118 - no mapping
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, SafetensorError, UnpicklingError):
        return {}
    return {key: partial(loaded.get, key) for key in loaded}
