"""What identifies a model in a manifest: its commit or the sha256 of its files or weights."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.files import file_sha256, is_there
from swapbias.models.model_names import split_revision, weight_files

_MODEL_FILES = (
    "*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.codes", "*.spm", "*.py", "*.skops", "*.jinja",
)  # fmt: skip


def files_pin(model: str, subfolder: str = "") -> dict[str, Any]:
    """Return what identifies the files of a model.

    Args:
        model: a folder, or ``OWNER/NAME@COMMIT``.
        subfolder: the subfolder of a folder in which the files are; empty: at its root.

    Returns:
        ``revision``, the commit on the Hub; of a folder ``sha256`` over its files and ``weights``, the sha256 of each
        file of weights.
    """
    if not is_there(model):
        return {"revision": split_revision(model)[1]}
    folder = Path(model, subfolder)
    paths = sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)})
    files = {path.name: file_sha256(path) for path in paths}
    lines = [f"{name} {sha256}\n" for name, sha256 in files.items()]
    return {
        "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "weights": {name: files[name] for name in weight_files(files)},
    }


def quantization_of(model: Any) -> dict[str, str]:
    """Return the quantization of a model in memory, as ``read_name`` takes it.

    Args:
        model: a model of transformers.

    Returns:
        ``quantization``: ``4bit``, ``8bit`` or the name of the method; empty without one.
    """
    config = getattr(model.config, "quantization_config", None)
    if config is None:
        return {}
    values = config if isinstance(config, Mapping) else config.to_dict()
    for bits in (4, 8):
        if values.get(f"load_in_{bits}bit"):
            return {"quantization": f"{bits}bit"}
    return {"quantization": str(values.get("quant_method") or "quantized")}


def loaded_pin(model: Any) -> dict[str, Any]:
    """Return what identifies a model in memory.

    Args:
        model: a module of torch.

    Returns:
        Its class, the sha256 of its weights, its device and type.
    """
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return {
        "architecture": type(model).__name__,
        "sha256": digest.hexdigest(),
        "device": model.device.type,
        "dtype": str(model.dtype).removeprefix("torch."),
    }
