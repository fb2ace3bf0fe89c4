"""Code that a model brings along (``auto_map``): not run unasked, and no class of transformers stands in for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.models.base import LoadOptions

_CAUSAL_HEAD = "ForCausalLM"
_OLDER_HEAD = "LMHeadModel"
"""How classes of older models end that predict the next token."""
_ALLOW = "Name another model, or read that code and allow it with -M trust-remote-code=true."


def refuse_custom_config(model: str, folder: Path, values: Mapping[str, Any]) -> None:
    """Refuse a model of a type that its own code alone can read.

    Args:
        model: its name for the sentence.
        folder: its folder, which may not exist.
        values: its config as it is written.

    Raises:
        UsageError: transformers does not know its type, and its config names code.
    """
    from transformers import CONFIG_MAPPING

    code = _code_of(values.get("auto_map"), "AutoConfig")
    if code and values.get("model_type") not in CONFIG_MAPPING:
        config = folder / "config.json" if folder.is_dir() else f"The config.json of {model}"
        raise UsageError(
            f"{config} cannot be read without custom code ({code}), which is not run. {_ALLOW}"
        )


def refuse_other_class(model: str, loaded: Any, options: LoadOptions) -> None:
    """Refuse a model that was read as a class of transformers, where its config names another one of its own code.

    Args:
        model: its name for the sentence.
        loaded: the model.
        options: how it was loaded.

    Raises:
        UsageError: The classes have other names, and code of the model was not allowed.
    """
    config = loaded.config
    if options.trust_remote_code or config.is_encoder_decoder:
        return
    class_name = type(loaded).__name__
    _, separator, head = class_name.replace(_OLDER_HEAD, _CAUSAL_HEAD).partition("For")
    code = _code_of(getattr(config, "auto_map", None), f"AutoModel{separator}{head}")
    if code and code.rpartition(".")[2].lower() != class_name.lower():
        raise UsageError(
            f"{model} is computed by custom code ({code}), which is not run, and {class_name} of transformers is "
            f"another model. {_ALLOW}"
        )


def _code_of(classes: Any, key: str) -> str:
    """Return the code that a config names for a class of transformers; empty where it names none."""
    code = classes.get(key) if isinstance(classes, Mapping) else None
    return code if isinstance(code, str) else ""
