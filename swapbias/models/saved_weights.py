"""Whether a model in memory still has the weights of the files that its name stands for."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from swapbias.files import is_there
from swapbias.models.model_names import weight_files

_COMPILED = "_orig_mod"
"""The module around one that is compiled."""
_OLDER = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""How older files call weights."""


def is_as_saved(model: Any, saved: str) -> bool:
    """Compare a model in memory with files on this machine, weight by weight, until one differs.

    Args:
        model: a module of torch.
        saved: what its config says it was loaded from: a folder, or a Hub id.

    Returns:
        Whether each weight is that of the files, in its type. False where there are no files.
    """
    files = _open_files(saved)
    if not files:
        return False
    for name, weight in model.named_parameters():
        key = next((key for key in _keys(model, name) if key in files), None)
        if not weight.is_floating_point():  # packed ones cannot be compared
            continue
        if key is None or not _is_same(weight, files[key]()):
            return False
    return True


def _keys(model: Any, name: str) -> Iterator[str]:
    """Yield the names that a weight may have in files: of a model with its head or without, or older ones."""
    parts = [part for part in name.split(".") if part != _COMPILED]
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


def _open_files(saved: str) -> dict[str, Callable[[], Any]]:
    """Return what reads each tensor of a folder's files, or of those of the Hub's cache; none without such files."""
    folder = _folder(saved)
    if folder is None:
        return {}
    tensors: dict[str, Callable[[], Any]] = {}
    for file in weight_files(os.listdir(folder)):
        tensors |= _readers(folder / file)
    return tensors


def _folder(saved: str) -> Path | None:
    """Return the folder of a model on this machine; None where there is none."""
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
