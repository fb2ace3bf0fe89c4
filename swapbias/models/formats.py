"""Formats of models that are not read here, each with the way that works."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import is_there

_SERVE = "Serve it with a program of that format, and name it with --chat and --base-url"
_WEIGHTS = ("*.safetensors", "*.bin")
# Weights of other libraries, by how their files end, and the way that works.
_OTHER_WEIGHTS: Mapping[str, tuple[str, str]] = {
    ".gguf": ("GGUF weights (llama.cpp)", _SERVE),
    ".ggml": ("GGML weights (llama.cpp)", _SERVE),
    ".onnx": (
        "ONNX weights",
        "Name the model that they were exported from, or give a function that runs them",
    ),
    ".tflite": (
        "TensorFlow Lite weights",
        "Name the model that they were made from, or give a function",
    ),
    ".mlmodel": ("Core ML weights", "Name the model that they were made from, or give a function"),
    ".h5": (
        "TensorFlow weights",
        "Save them as safetensors with an older transformers, and name that folder",
    ),
    ".msgpack": (
        "Flax weights",
        "Save them as safetensors with an older transformers, and name that folder",
    ),
    ".ckpt": (
        "a checkpoint of a training program",
        "Save the model with save_pretrained, and name that folder",
    ),
    ".pt": ("a checkpoint of PyTorch", "Save the model with save_pretrained, and name that folder"),
    ".pth": (
        "a checkpoint of PyTorch",
        "Save the model with save_pretrained, and name that folder",
    ),
    ".engine": ("a TensorRT engine", _SERVE),
}
# Packages that read weights quantised in a way, by quant_method of a config.
_READERS = {
    "quanto": "optimum.quanto", "bitsandbytes": "bitsandbytes", "gptq": "gptqmodel", "awq": "gptqmodel",
    "aqlm": "aqlm", "hqq": "hqq", "eetq": "eetq", "compressed-tensors": "compressed_tensors", "torchao": "torchao",
    "quark": "quark", "vptq": "vptq", "higgs": "flute", "spqr": "spqr_quant", "auto-round": "auto_round",
}  # fmt: skip


def refuse_other_formats(model: str, folder: Path) -> None:
    """Raise a UsageError for a file or folder of another library.

    Args:
        model: what the user named.
        folder: the file or folder itself, which may not exist.

    Raises:
        UsageError: a folder of a SentenceTransformer without a model at its root, of optimum-quanto, an adapter, or
            weights that transformers does not read.
    """
    suffix = folder.suffix.lower()
    if folder.is_file() and suffix in _OTHER_WEIGHTS:
        raise UsageError(_other_weights(model, suffix))
    if model.lower().endswith(".gguf"):
        raise UsageError(_other_weights(model, ".gguf"))
    if not is_there(folder):
        return
    if (folder / "quanto_qmap.json").is_file():
        what = f"{model} was saved by optimum-quanto, whose folders transformers does not read"
        raise UsageError(
            f"{what}. Load it with optimum-quanto in Python, and pass the model and its tokenizer."
        )
    if (folder / "config.json").is_file():
        return
    if is_sentence_transformer(folder):
        raise UsageError(sentence_transformer(model))
    if (folder / "adapter_config.json").is_file():
        missing = f"{model} is no model folder: it has no config.json"
        raise UsageError(f"{missing}. It is an adapter: name its model, and it with -M adapter.")
    refuse_without_weights(model, folder)


def is_sentence_transformer(folder: Path) -> bool:
    """Return whether a folder is one of sentence-transformers: its encoder has no head that gives scores."""
    return (folder / "modules.json").is_file()


def sentence_transformer(model: str) -> str:
    """Return the sentence that refuses a SentenceTransformer as the model of an audit."""
    what = f"{model} is a SentenceTransformer, which gives vectors and no scores of texts"
    return f"{what}. Audit its vectors with -M embedding, or name a masked, causal or classifier model."


def refuse_without_weights(model: str, folder: Path) -> None:
    """Raise a UsageError for a local folder with weights of another library alone."""
    if not folder.is_dir() or any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        return
    suffixes = sorted({path.suffix.lower() for path in folder.rglob("*")} & set(_OTHER_WEIGHTS))
    if suffixes:
        raise UsageError(_other_weights(model, suffixes[0]))


def refuse_quantized(model: str, config: Any) -> None:
    """Raise a UsageError for weights that are saved quantised where the package that reads them is missing."""
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return
    method = (
        settings.get("quant_method")
        if isinstance(settings, Mapping)
        else getattr(settings, "quant_method", None)
    )
    name = str(getattr(method, "value", method) or "").lower()
    package = _READERS.get(name, "")
    if not package or _is_installed(package):
        return
    wheel = {"optimum.quanto": "optimum-quanto"}.get(package, package.replace("_", "-"))
    how = f"Install it (pip install {wheel}), or name the model that is not quantised"
    raise UsageError(
        f"The weights of {model} are quantised with {name}, which needs the package {wheel}. {how}."
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _other_weights(model: str, suffix: str) -> str:
    what, step = _OTHER_WEIGHTS[suffix]
    return f"{model} has {what}, which are not read here. {step}."
