"""Whether a model in memory still has the weights of the files that its name stands for."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from swapbias.files import is_there
from swapbias.models.model_files import read_model_json
from swapbias.models.model_names import weight_files
from swapbias.models.weight_checks import layer_left_out

_AROUND = ("_orig_mod", "base_layer", "original_module")
"""How a module is called inside of one that compiles it or adds an adapter to it."""
_OLDER = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""How older files call weights."""
_CONFIG = "config.json"
_POOLER = "pooler"
"""A part of encoders whose vectors are made of their states instead."""
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json")
"""The files of a tokenizer; others end with ``.model``."""
_PROBES = ("The doctor said that she was tired.", "ANN is well")
# Settings by which a model in eval mode computes nothing else.
_NEUTRAL = re.compile(
    r"drop|^_|^(?:architectures|dtype|torch_dtype|transformers_version|name_or_path|use_cache|output_\w+|return_dict"
    r"|gradient_checkpointing|initializer_\w+|problem_type|[a-z]+_token_id|vocab_size|is_decoder|chunk_size_\w+)$"
)


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
    if _has_hooks(module) or (
        any(True for _ in module.parameters()) and not _has_weights(module, folder)
    ):
        return False
    settings: Mapping[str, Any] = getattr(module, "get_config_dict", dict)()
    saved = read_model_json(str(folder), _CONFIG, offline=True, remedy="Save it again.") or {}
    both = settings.keys() & saved.keys()
    return {key: settings[key] for key in both} == {key: saved[key] for key in both}


def _is_model_of(model: Any, folder: Path, unused: str = "") -> bool:
    """Return whether a model of transformers has the weights, layers and settings of a folder, and no hooks."""
    if not _has_weights(model, folder, unused) or _has_hooks(model):
        return False
    return _has_settings(model.config, folder)


def _has_weights(model: Any, folder: Path, unused: str = "") -> bool:
    """Return whether each weight of a module is that of the files, and no layer of the files is missing.

    Files need no weights of a part that is ``unused``, nor of adapters, after which a model is named.
    """
    files = _open_files(folder)
    if not files:
        return False
    unread = set(files)
    beside = {unused, *(getattr(model, "peft_config", None) or ())}  # adapters, by their names
    for name, weight in model.named_parameters():
        key = next((key for key in _keys(model, name) if key in files), None)
        unread.discard(str(key))
        is_beside = key is None and not beside.isdisjoint(name.split("."))
        if is_beside or not weight.is_floating_point():  # packed ones cannot be compared
            continue
        if key is None or not _is_same(weight, files[key]()):
            return False
    return not hasattr(model, "config") or layer_left_out(model, unread) is None


def _has_settings(config: Any, folder: Path) -> bool:
    """Return whether a config says how to compute as that of the files does."""
    try:
        saved = type(config).from_pretrained(folder)
    except (OSError, ValueError):
        return False
    return _computing(config) == _computing(saved)


def _computing(config: Any) -> dict[str, Any]:
    """Return the settings of a config that change what a model gives: numbers, words and switches."""
    values = config.get_text_config().to_dict()
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, str | int | float) and not _NEUTRAL.search(key)
    }


def _has_hooks(model: Any) -> bool:
    """Return whether something of the user's may change what a layer gets or gives."""
    return any(
        module._forward_hooks or module._forward_pre_hooks  # nothing public says it
        for module in model.modules()
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
    if saved.get_vocab() != tokenizer.get_vocab() or _marks(saved) != _marks(tokenizer):
        return False
    return all(saved(text)["input_ids"] == tokenizer(text)["input_ids"] for text in _PROBES)


def _marks(tokenizer: Any) -> dict[str, Any]:
    """Return the special tokens of a tokenizer by their names, without padding, which no score depends on."""
    return {
        name: token for name, token in tokenizer.special_tokens_map.items() if name != "pad_token"
    }


def _keys(model: Any, name: str) -> Iterator[str]:
    """Yield the names that a weight may have in files: of a model with its head or without, or older ones."""
    parts = [part for part in name.split(".") if part not in _AROUND]
    prefix = str(getattr(model, "base_model_prefix", ""))
    names = [".".join(parts[start:]) for start in range(len(parts))]
    for candidate in (names[0], f"{prefix}.{names[0]}", *names[1:]):
        yield candidate
        for ending, older in _OLDER.items():
            if candidate.endswith(ending):
                yield candidate.removesuffix(ending) + older


def _is_same(weight: Any, saved: Any) -> bool:
    """Return whether a weight is a tensor of a file, in the type of the weight."""
    import torch

    here = weight.detach().cpu()
    if here.shape != saved.shape:
        return False
    return torch.allclose(here, saved.to(here.dtype), rtol=0, atol=0, equal_nan=True)


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
