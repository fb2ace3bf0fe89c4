"""Loading transformers models: config, weights, device and what pins the model down."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import RevisionNotFoundError
from transformers import AutoConfig, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.files import file_sha256, is_there
from swapbias.models.revision import at_commit, hub_away, no_revision, split_revision, weight_files
from swapbias.network import configure_http

_MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.codes", "*.spm")


def read_config(model: str) -> Any:
    """The config of a local folder or Hub id, of the latter at the revision that is named with it.

    Raises:
        ValueError: in one sentence, when there is none.
    """
    folder = Path(model)
    if is_there(folder) and not (folder / "config.json").is_file():
        raise ValueError(f"{model} is no model folder: it has no config.json. Give a folder saved by transformers.")
    if not is_there(folder) and (folder.is_absolute() or model.startswith(".") or model.count("/") > 1):
        raise ValueError(f"{model} does not exist. Give a local folder or a Hub id like owner/name.")
    name, found = _found(at_commit(model))
    try:
        config = AutoConfig.from_pretrained(name, **found)
    except Exception as error:
        if folder.is_dir():
            raise ValueError(f"{folder / 'config.json'} cannot be read ({first_line(error)}). Mend it.") from error
        if isinstance(error.__cause__, RevisionNotFoundError):
            raise ValueError(no_revision(name, found["revision"])) from error
        raise ValueError(
            f"Model {name!r} cannot be loaded: it is neither a local folder nor a model that the Hub gave "
            f"({first_line(error)}). Check the name and the connection."
        ) from error
    return _without_kernels(model, config)


def _without_kernels(model: str, config: Any) -> Any:
    """The config, once it is known to name no kernel: that is compiled code of the Hub, which would run unasked.

    Raises:
        ValueError: it names one.
    """
    parts = (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", {})))
    for part in parts:
        for name in ("_attn_implementation", "_experts_implementation"):
            asked = getattr(part, name, None)
            for value in asked.values() if isinstance(asked, Mapping) else (asked,):
                if isinstance(value, str) and "/" in value:
                    raise ValueError(
                        f"The config of {model} names {name.strip('_')} {value[:80]!r}, compiled code of the Hub, "
                        "which is not run. Take it out of config.json."
                    )
    return config


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without its final period."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


def architectures(config: Any) -> Sequence[str]:
    """The architectures that a config names; none where it has no such key."""
    named = config.architectures
    return [one for one in named if isinstance(one, str)] if isinstance(named, list | tuple) else ()


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

    The commit of a model on the Hub is told once: config, tokenizer and weights are all of that one.

    Raises:
        UsageError: a device that this machine does not have.
        ValueError: the folder or Hub id gives no model of this class, or one whose head has no weights.
    """
    where = pick_device(device)
    place = at_commit(model)
    config = read_config(place)
    name, found = _found(place)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **found)
        loaded, info = _quietly(auto_class, name, config=config, dtype=getattr(torch, dtype), **found)
    except Exception as error:
        if "weights_only" in str(error):  # what it advises nobody should do
            raise ValueError(
                f"Model {model!r} cannot be loaded: its weights are a pickle that would run code. Take a model with "
                "weights in .safetensors."
            ) from error
        raise ValueError(f"Model {model!r} cannot be loaded: {first_line(error)}.") from error
    _check_tokenizer(model, tokenizer, loaded)
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"Model {model!r} has no weights for {missing[0]} ({len(missing)} missing): its head would be random. "
            "Use a model that was trained with this head."
        )
    loaded = loaded.to(where).eval()
    return loaded, tokenizer, {**_pin(name, found["revision"], config), "device": where.type, "dtype": dtype}


def _check_tokenizer(model: str, tokenizer: Any, loaded: Any) -> None:
    """A folder without tokenizer files gets an empty default tokenizer: every text would read the same."""
    words, rows = len(tokenizer), loaded.get_input_embeddings().weight.shape[0]
    if words < rows / 2 or words > rows:
        raise ValueError(
            f"Model {model!r} has embeddings of {rows} tokens and its tokenizer knows {words}: they do not belong "
            "together. Put the tokenizer's own files into the folder."
        )


def _found(place: str) -> tuple[str, dict[str, Any]]:
    """A model's name or folder, and how transformers is to find it: no file of another commit, and no code."""
    configure_http()
    name, commit = split_revision(place)
    away = bool(commit and hub_away())  # its client would try for a minute to list files that are not kept
    return name, {"revision": commit or None, "local_files_only": away, "trust_remote_code": False}


def _quietly(auto_class: Any, model: str, **how: Any) -> tuple[Any, dict[str, Any]]:
    """Load without the library's report on unexpected weights, which is normal for heads left out."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    log = logging.getLogger("transformers")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        loaded, info = auto_class.from_pretrained(model, output_loading_info=True, **how)
    finally:
        log.setLevel(level)
    return loaded, info


def _pin(model: str, commit: str | None, config: Any) -> dict[str, Any]:
    folder = Path(model)
    architecture = [*architectures(config), config.model_type][0]
    if not folder.is_dir():
        return {"architecture": architecture, "revision": commit}
    paths = sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)})
    files = {path.name: file_sha256(path) for path in paths}
    digest = hashlib.sha256("".join(f"{name} {known}\n" for name, known in files.items()).encode())
    weights = {name: files[name] for name in weight_files(files)}
    return {"architecture": architecture, "sha256": digest.hexdigest(), "weights": weights}


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
    return Path(model).resolve().name if is_there(model) else split_revision(model)[0]


def length_limit(tokenizer: Any, model: Any) -> int:
    """Most tokens the model can read."""
    positions = getattr(model.config, "max_position_embeddings", None) or -1
    if positions < 0:  # XLNet has no limit of its own
        positions = tokenizer.model_max_length
    padding = position_padding(model)  # positions up to it are lost
    return int(min(tokenizer.model_max_length, positions if padding is None else positions - padding - 1))


def position_padding(model: Any) -> int | None:
    """The token that has no position of its own, after which RoBERTa and its kin begin to count; None for others.

    It is read from the position embeddings: the config may name another padding token since the model was made.
    """
    embeddings = getattr(model.base_model, "embeddings", None)
    padding: int | None = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return padding


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
