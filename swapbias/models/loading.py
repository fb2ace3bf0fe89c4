"""Loading models: files of one commit of the Hub, weights of the requested type, no code of others unless allowed."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, first_line
from swapbias.models.adapter_weights import adapter_tokenizer, add_adapter
from swapbias.models.base import LoadOptions
from swapbias.models.broken_files import refuse_broken_files
from swapbias.models.custom_code import refuse_other_class
from swapbias.models.devices import chosen_dtype, pick_device
from swapbias.models.engine import layer_choice
from swapbias.models.formats import refuse_unread_quantization, refuse_without_weights
from swapbias.models.model_config import (
    architectures,
    locate_config,
    source_settings,
    split_adapter,
)
from swapbias.models.model_names import model_name, planned_name
from swapbias.models.model_pins import files_pin
from swapbias.models.tokens import refuse_other_tokenizer, tokenizer_doubt, tokenizer_pin
from swapbias.models.weight_checks import (
    refuse_hidden_nan,
    refuse_unread_layers,
    refuse_unread_scales,
)

_USUAL_WIDTH = 768  # of models whose config does not name the size of their states
_RECORDED = ("device_map", "quantization", "attn_implementation", "subfolder", "trust_remote_code")


def module_file(module: str) -> Path | None:
    """Find the file that importing a module would run, without importing anything.

    Args:
        module: its dotted name.

    Returns:
        The path of its source; None where there is none.
    """
    folders = list(sys.path)
    current = str(Path.cwd())
    if "" not in folders and current not in folders:  # as it will be when it is imported
        folders.insert(0, current)
    spec = None
    for part in module.split("."):  # importlib.util.find_spec would import the packages around it
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    if spec is None or not spec.origin:
        return None
    source = Path(spec.origin)
    return source if source.is_file() else None


def _check_package(package: str, setting: str) -> None:
    """Raise a UsageError where a package is not installed that a setting needs."""
    if find_spec(package) is None:
        raise UsageError(
            f"-M {setting} needs the package {package}. Install it: pip install {package}."
        )


def load_model(
    model: str, auto_class: Any, options: LoadOptions, *, labels: Sequence[str] = ()
) -> tuple[Any, Any, dict[str, Any]]:
    """Load a model and its tokenizer; all files are of one commit, and an adapter (PEFT) is merged.

    Args:
        model: a folder, or a Hub id with or without a revision.
        auto_class: a class of transformers that has the head.
        options: device, type and the like.
        labels: the labels of a new head, which is still to be trained; none: the head has weights.

    Returns:
        The model (in eval mode, on its device), its tokenizer, and what identifies the model, for the manifest.

    Raises:
        UsageError: A missing device or package, or remote code that is not pinned.
        ValueError: There is no model of this class, its head has no weights, or NaN among them does not show.
    """
    import torch

    device = pick_device(options.device)
    model, options = split_adapter(model, options)
    located, config = locate_config(model, options)
    dtype = dtype_of(model, config, options)
    weights = {"dtype": getattr(torch, dtype)} | _weight_settings(options)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: index for index, label in enumerate(labels)}
        weights["ignore_mismatched_sizes"] = True
    folder = Path(model, options.subfolder)
    refuse_without_weights(model, folder)
    refuse_broken_files(folder)
    refuse_unread_quantization(model, config)
    loaded, tokenizer, missing = _read_files(model, auto_class, located, options, config, weights)
    if labels:  # the head and what feeds it may lack weights
        body = f"{loaded.base_model_prefix}."
        missing = {key for key in missing if key.startswith(body) and "pooler" not in key}
    refuse_other_tokenizer(model, loaded, tokenizer)
    pin = {
        "architecture": [*architectures(config), config.model_type][0],
        **files_pin(located, options.subfolder),
    }
    if options.adapter:
        _check_package("peft", "adapter")
        loaded, trained, pin["adapter"] = add_adapter(
            loaded, options.adapter, merge=not options.quantization
        )
        missing = {key for key in missing if not set(key.split(".")) & trained}
        own_tokenizer = adapter_tokenizer(options.adapter, config)
        if own_tokenizer is not None:
            refuse_other_tokenizer(model_name(options.adapter), loaded, own_tokenizer)
            pin["adapter"]["own_tokenizer"] = tokenizer_pin(own_tokenizer) != tokenizer_pin(
                tokenizer
            )
            tokenizer = own_tokenizer
    pin |= tokenizer_pin(tokenizer) | tokenizer_doubt(loaded, tokenizer)
    if options.adapter or options.quantization or options.subfolder:
        pin["base"] = model_name(model)
    if missing:
        raise ValueError(
            f"Model {model!r} has no weights for {min(missing)} ({len(missing)} missing). "
            "Use one that was trained with this head."
        )
    if not {"device_map", "quantization_config"} & set(weights):
        loaded = loaded.to(device)
    loaded = loaded.eval()
    refuse_hidden_nan(planned_name(model, options), loaded, tokenizer)
    pin |= {"device": loaded.device.type, "dtype": dtype}
    for name in _RECORDED:
        if value := getattr(options, name):
            pin[name] = value
    return loaded, tokenizer, pin


def dtype_of(model: str, config: Any, options: LoadOptions) -> str:
    """Return the type that the weights of a model are read in.

    Args:
        model: a folder, or a Hub id with or without a revision.
        config: its config.
        options: name the type, or ``auto``.
    """
    width = getattr(config.get_text_config(), "hidden_size", _USUAL_WIDTH)
    return chosen_dtype(options, width, layer_choice.pinned_dtype(model_name(model)))


def _read_files(
    model: str,
    auto_class: Any,
    located: str,
    options: LoadOptions,
    config: Any,
    weights: dict[str, Any],
) -> tuple[Any, Any, set[str]]:
    """Read a model and its tokenizer from their files; the last are the weights that the files do not have."""
    from transformers import AutoTokenizer

    name, source = source_settings(located, options)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **source)
        with quiet():
            loaded, info = auto_class.from_pretrained(
                name, output_loading_info=True, config=config, **weights, **source
            )
    except Exception as error:
        raise ValueError(f"Model {model!r} cannot be loaded: {_reason(error)}") from error
    refuse_unread_layers(model, loaded, info["unexpected_keys"])
    refuse_unread_scales(model, info["unexpected_keys"])
    refuse_other_class(model, loaded, options)
    resized = {key for key, *_ in info["mismatched_keys"]}
    return loaded, tokenizer, set(info["missing_keys"]) | resized


def _reason(error: Exception) -> str:
    """Return why weights cannot be read, and what to do where what a library says does not tell."""
    if "weights_only" in str(error):  # what it advises nobody should do
        return "its weights are a pickle that would run code. Take a model with weights in .safetensors."
    if "ignore_mismatched_sizes" in str(error):
        return "its weights have other sizes than its config.json says. Save both together again."
    if isinstance(error, KeyError):
        return f"a file of it has no {first_line(error)}. Save the model again."
    return f"{first_line(error)}."


def _weight_settings(options: LoadOptions) -> dict[str, Any]:
    """Return arguments of ``from_pretrained`` for weights alone; a UsageError for a missing package or a kernel."""
    if "/" in (options.attn_implementation or ""):  # compiled code of the Hub
        raise UsageError(
            "attn-implementation names a kernel on the Hub, which is not run. Give sdpa or eager."
        )
    if options.device_map and options.device != "auto":
        raise UsageError(
            f"device {options.device} and device-map {options.device_map} exclude each other."
        )
    settings: dict[str, Any] = {}
    if options.device_map:
        _check_package("accelerate", "device-map")
        settings["device_map"] = options.device_map
    if options.attn_implementation:
        settings["attn_implementation"] = options.attn_implementation
    if options.quantization:
        from transformers import BitsAndBytesConfig

        _check_package("bitsandbytes", "quantization")
        bits: Any = {f"load_in_{options.quantization}": True}
        settings["quantization_config"] = BitsAndBytesConfig(**bits)  # type: ignore[no-untyped-call]
        settings.setdefault("device_map", {"": str(pick_device(options.device))})
    return settings


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers show no progress bars and no reports on unexpected weights of unused heads."""
    from transformers.utils import logging as library

    log = logging.getLogger("transformers")
    had_bars = library.is_progress_bar_enabled()
    level = log.level
    log.setLevel(logging.ERROR)
    library.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        log.setLevel(level)
        if had_bars:
            library.enable_progress_bar()  # type: ignore[no-untyped-call]
