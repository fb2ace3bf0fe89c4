"""What identifies a model in a manifest: its commit or the sha256 of its files or weights."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.files import file_sha256, is_there
from swapbias.models.layer_settings import added_code, computing, layer_settings
from swapbias.models.model_names import split_revision, weight_files
from swapbias.models.tokens import tokenizer_pin

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


def loaded_pin(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return what identifies a model in memory.

    Args:
        model: a module of torch.
        tokenizer: what it is read with; None: nothing shows it.

    Returns:
        Its class, the sha256 of its weights, of all else that its layers compute with, and of its tokenizer, its
        device and type.
    """
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        _add_value(digest, name, value)
    return {
        "architecture": type(model).__name__,
        "sha256": digest.hexdigest(),
        "layers_sha256": _layers_sha256(model),
        **tokenizer_pin(tokenizer),
        "device": model.device.type,
        "dtype": str(model.dtype).removeprefix("torch."),
    }


def _add_value(digest: Any, name: str, value: Any) -> None:
    """Add a tensor to a digest; layers that torch quantised have several of them in a tuple."""
    import torch

    if isinstance(value, tuple | list):
        for number, part in enumerate(value):
            _add_value(digest, f"{name} {number}", part)
    elif isinstance(value, torch.Tensor):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        numbers = value.detach().cpu()
        if numbers.is_quantized:
            digest.update(f"{numbers.qscheme()} {numbers.dequantize().sum().item()!r}\n".encode())
            numbers = numbers.int_repr()
        digest.update(numbers.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    else:
        digest.update(f"{name} {value}\n".encode())


def _layers_sha256(model: Any) -> str:
    """Return the sha256 of what layers compute with beside their weights."""
    digest = hashlib.sha256()
    config = getattr(model, "config", None)
    facts = {
        "config": computing(config) if hasattr(config, "get_text_config") else {},
        "layers": {
            name: layer_settings(layer)
            for name, layer in model.named_modules(remove_duplicate=False)
        },
        "code": added_code(model),
    }
    digest.update(json.dumps(facts, sort_keys=True).encode())
    saved = model.state_dict().keys()
    for name, buffer in sorted(model.named_buffers()):
        if name not in saved:
            _add_value(digest, name, buffer)
    return digest.hexdigest()
