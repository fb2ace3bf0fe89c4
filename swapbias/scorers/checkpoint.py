"""Loading transformers models: config, weights, device and what pins the model down."""

import hashlib
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
import transformers
from huggingface_hub import constants, try_to_load_from_cache
from transformers import AutoConfig, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.files import file_sha256

_PATIENCE = 5  # seconds for the Hub to answer
_MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.codes", "*.spm")


def read_config(model: str) -> Any:
    """The config of a Hub id or local folder.

    Raises:
        ValueError: in one sentence, when there is none.
    """
    folder = Path(model)
    if folder.exists() and not (folder / "config.json").is_file():
        raise ValueError(f"{model} is no model folder: it has no config.json. Give a folder saved by transformers.")
    if not folder.exists() and (folder.is_absolute() or model.startswith(".") or model.count("/") > 1):
        raise ValueError(f"{model} does not exist. Give a local folder or a Hub id like owner/name.")
    if not folder.exists():
        _refuse_unreachable(model)
    try:
        return AutoConfig.from_pretrained(model, trust_remote_code=False)
    except Exception as error:
        if folder.is_dir():
            raise ValueError(f"{folder / 'config.json'} cannot be read ({first_line(error)}). Mend it.") from error
        raise ValueError(
            f"Model {model!r} cannot be loaded: it is neither a local folder nor a model that the Hub gave "
            f"({first_line(error)}). Check the name and the connection."
        ) from error


def _refuse_unreachable(model: str) -> None:
    """Say at once that the Hub cannot be asked for a model that is not kept here: its own client tries for a minute.

    Raises:
        ValueError: offline, or nothing answers.
    """
    with suppress(ValueError):  # no Hub id: the client says so
        if isinstance(try_to_load_from_cache(model, "config.json"), str):
            return
    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    host = urlsplit(constants.ENDPOINT)
    if not why and not getproxies() and host.hostname:
        try:
            socket.create_connection((host.hostname, host.port or 443), timeout=_PATIENCE).close()
        except OSError as error:
            why = f"{host.hostname} cannot be reached: {error.strerror or error}"
    if why:
        raise ValueError(
            f"Model {model!r} cannot be loaded: it is neither a local folder nor kept on this machine, and {why}. "
            "Go online, or give a local folder."
        )


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without its final period."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def architectures(config: Any) -> Sequence[str]:
    """The architectures that a config names; none where it has no such key."""
    return config.architectures or ()


def pick_device(device: str) -> torch.device:
    """The torch device of ``auto`` (cuda where there is one), ``cpu``, ``cuda`` or ``mps``.

    Raises:
        UsageError: cuda or mps where there is none.
    """
    if device == "mps":
        if not torch.backends.mps.is_available():
            raise UsageError("device mps: this machine has no Apple GPU that torch can use. Pass --device cpu.")
        return torch.device("mps")
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: this machine has no CUDA device that torch can use. Pass --device cpu.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def load_model(model: str, auto_class: Any, *, device: str, dtype: str) -> tuple[Any, Any, dict[str, Any]]:
    """Model (in eval mode, on its device), tokenizer, and what pins the model down.

    Raises:
        UsageError: a device that this machine does not have.
        ValueError: the folder or Hub id gives no model of this class, or one whose head has no weights.
    """
    where = pick_device(device)
    config = read_config(model)
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        loaded, info = _quietly(auto_class, model, config, getattr(torch, dtype))
    except Exception as error:
        raise ValueError(f"Model {model!r} cannot be loaded: {first_line(error)}.") from error
    _check_tokenizer(model, tokenizer, loaded)
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"Model {model!r} has no weights for {missing[0]} ({len(missing)} missing): its head would be random. "
            "Use a model that was trained with this head."
        )
    loaded = loaded.to(where).eval()
    return loaded, tokenizer, {**_pin(model, config), "device": where.type, "dtype": dtype}


def _check_tokenizer(model: str, tokenizer: Any, loaded: Any) -> None:
    """A folder without tokenizer files gets an empty default tokenizer: every text would read the same."""
    words, rows = len(tokenizer), loaded.get_input_embeddings().weight.shape[0]
    if words < rows / 2 or words > rows:
        raise ValueError(
            f"Model {model!r} has embeddings of {rows} tokens and its tokenizer knows {words}: they do not belong "
            "together. Put the tokenizer's own files into the folder."
        )


def _quietly(auto_class: Any, model: str, config: Any, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    """Load without the library's report on unexpected weights, which is normal for heads left out."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    log = logging.getLogger("transformers")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        loaded, info = auto_class.from_pretrained(
            model, config=config, dtype=dtype, trust_remote_code=False, output_loading_info=True
        )
    finally:
        log.setLevel(level)
    return loaded, info


def _pin(model: str, config: Any) -> dict[str, Any]:
    folder = Path(model)
    architecture = [*architectures(config), config.model_type][0]
    if not folder.is_dir():
        return {"architecture": architecture, "revision": getattr(config, "_commit_hash", None)}
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)}):
        digest.update(f"{path.name} {file_sha256(path)}\n".encode())
    return {"architecture": architecture, "sha256": digest.hexdigest()}


def loaded_pin(model: Any) -> dict[str, Any]:
    """What pins a model in memory down: its class, and the sha256 of its weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    dtype = str(model.dtype).removeprefix("torch.")
    return {
        "architecture": type(model).__name__,
        "sha256": digest.hexdigest(),
        "device": model.device.type,
        "dtype": dtype,
    }


def model_name(model: str) -> str:
    """The name findings carry: the Hub id, or the last part of a folder's path (never a path of this machine)."""
    return Path(model).resolve().name if Path(model).exists() else model


def length_limit(tokenizer: Any, config: Any) -> int:
    """Most tokens the model can read."""
    positions = getattr(config, "max_position_embeddings", None) or -1
    if positions < 0:  # XLNet has no limit of its own
        positions = tokenizer.model_max_length
    # RoBERTa-like models start counting after the padding index and lose those positions.
    lost = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
    return int(min(tokenizer.model_max_length, positions - lost))


_OFFSET_POSITIONS = ("roberta", "camembert", "xlm-roberta", "longformer", "mpnet")


def length_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    """Indices in batches of equal length, at most ``batch_size`` each: nothing is ever padded.

    >>> length_batches([3, 5, 3, 3], 2)
    [[0, 2], [3], [1]]
    """
    by_length: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        by_length.setdefault(length, []).append(index)
    return [
        members[start : start + batch_size]
        for _, members in sorted(by_length.items())
        for start in range(0, len(members), batch_size)
    ]
