"""Formats of models: those of scikit-learn, and those that are not read here, each with the way that works."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, quoted
from swapbias.files import is_there, parse_json

_SERVE = "Serve it with a program of that format, and name it with --chat and --base-url"
_EXPORTED = "Name the model that they were exported from, or give a function that runs them"
_MADE = "Name the model that they were made from, or give a function"
_OLDER = "Save them as safetensors with an older transformers, and name that folder"
_SAVE = "Save the model with save_pretrained, and name that folder"
_WEIGHTS = ("*.safetensors", "*.bin")
# Weights of other libraries, by how their files end, and the way that works.
_OTHER_WEIGHTS: Mapping[str, tuple[str, str]] = {
    ".gguf": ("GGUF weights (llama.cpp)", _SERVE),
    ".ggml": ("GGML weights (llama.cpp)", _SERVE),
    ".onnx": ("ONNX weights", _EXPORTED),
    ".tflite": ("TensorFlow Lite weights", _MADE),
    ".mlmodel": ("Core ML weights", _MADE),
    ".h5": ("TensorFlow weights", _OLDER),
    ".msgpack": ("Flax weights", _OLDER),
    ".ckpt": ("a checkpoint of a training program", _SAVE),
    ".pt": ("a checkpoint of PyTorch", _SAVE),
    ".pth": ("a checkpoint of PyTorch", _SAVE),
    ".engine": ("a TensorRT engine", _SERVE),
}
_BITSANDBYTES = "bitsandbytes"
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
        UsageError: A folder of a SentenceTransformer without a model at its root, of optimum-quanto, an adapter, or
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
        raise UsageError(
            f"{model} was saved by optimum-quanto, whose folders transformers does not read. "
            "Load it with optimum-quanto in Python, and pass the model and its tokenizer."
        )
    if (folder / "config.json").is_file():
        return
    if is_sentence_transformer(folder):
        raise UsageError(
            f"{model} is a SentenceTransformer whose encoder is in a folder of its own. "
            "Leave --kind out to audit it as a model that searches."
        )
    if (folder / "adapter_config.json").is_file():
        raise UsageError(
            f"{model} is no model folder: it has no config.json. "
            "It is an adapter: name its model, and it with -M adapter."
        )
    refuse_without_weights(model, folder)


def is_sentence_transformer(folder: Path) -> bool:
    """Return whether a folder is one of sentence-transformers, which says how texts become vectors.

    Args:
        folder: any path.
    """
    return (folder / "modules.json").is_file()


def refuse_without_weights(model: str, folder: Path) -> None:
    """Refuse a local folder with weights of another library alone.

    Args:
        model: its name for the sentence.
        folder: any path.

    Raises:
        UsageError: It has such weights, and none that transformers reads.
    """
    if not folder.is_dir() or any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        return
    suffixes = sorted({path.suffix.lower() for path in folder.rglob("*")} & set(_OTHER_WEIGHTS))
    if suffixes:
        raise UsageError(_other_weights(model, suffixes[0]))


def refuse_quantized(model: str, config: Any) -> None:
    """Refuse weights that are saved quantised where the package that reads them is missing.

    Args:
        model: its name for the sentence.
        config: a model config of transformers.

    Raises:
        UsageError: The package is not installed.
    """
    name = _quantization_method(config)
    package = _READERS.get(name, "")
    if not package or _is_installed(package):
        return
    wheel = {"optimum.quanto": "optimum-quanto"}.get(package, package.replace("_", "-"))
    raise UsageError(
        f"The weights of {model} are quantised with {name}, which needs the package {wheel}. "
        f"Install it (pip install {wheel}), or name the model that is not quantised."
    )


def refuse_unread_quantization(model: str, config: Any) -> None:
    """Refuse weights that are saved quantised in a way that transformers passes over: they would be read unscaled.

    Args:
        model: its name for the sentence.
        config: a model config of transformers.

    Raises:
        UsageError: transformers does not know the way.
    """
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    name = _quantization_method(config)
    if name and name != _BITSANDBYTES and name not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise UsageError(
            f"The weights of {model} are quantised with {quoted(name)}, which is not read here. "
            "Name the model that is not quantised, or serve it and name it with --chat and --base-url."
        )


def _quantization_method(config: Any) -> str:
    """Return how the weights of a model are saved quantised, by its config; empty where they are not."""
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return ""
    values = settings if isinstance(settings, Mapping) else vars(settings)
    if values.get("load_in_4bit") or values.get("load_in_8bit"):
        return _BITSANDBYTES
    method = values.get("quant_method")
    return str(getattr(method, "value", method) or "").lower()


def _is_installed(package: str) -> bool:
    """Return whether a package, which may be inside another one, is installed."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _other_weights(model: str, suffix: str) -> str:
    """Return the sentence that refuses weights of another library, by how their file ends."""
    weights, step = _OTHER_WEIGHTS[suffix]
    return f"{model} has {weights}, which are not read here. {step}."


PICKLES = (".joblib", ".kv", ".pkl")


# a file of ``swapbias train``
SKOPS = "model.skops"


def is_saved(model: str) -> bool:
    """Return whether a model is one of scikit-learn: a file of skops or a pickle, or a folder of ``swapbias train``.

    Args:
        model: a name of any form.
    """
    return model.lower().endswith((".skops", *PICKLES)) or Path(model, SKOPS).is_file()


def refuse_pickle(path: Path) -> None:
    """Refuse a file of a format that runs code when it is read, by its name, before it is read.

    Args:
        path: path of a model or of word vectors.

    Raises:
        UsageError: It is a pickle.
    """
    name = path.name.lower()
    if not name.endswith(PICKLES):
        return
    save = "with skops.io.dump as .skops"
    if name.endswith(".kv"):
        save = "with save_word2vec_format as .bin"
    raise UsageError(
        f"{path.name} is a pickle: it may run code of its maker. "
        f"If you trust it, load it in Python and save it {save}."
    )


def training_facts(model: str) -> dict[str, float]:
    """Read the share of development sentences that a model of ``swapbias train`` labels rightly.

    Args:
        model: what the user named: the folder of such a model, or any other model.

    Returns:
        ``dev_accuracy``, 0 to 1, as ``training.json`` of the folder says; nothing where there is no such number.
    """
    try:
        record = parse_json(Path(model, "training.json").read_bytes())
    except (OSError, ValueError):
        return {}
    accuracy = record.get("dev_accuracy") if isinstance(record, dict) else None
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float):
        return {}
    return {"dev_accuracy": float(accuracy)} if 0 <= accuracy <= 1 else {}
