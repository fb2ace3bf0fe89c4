"""Weights of an adapter (PEFT) put on a model: all of them from its files, and the model that it was trained as."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, first_line
from swapbias.files import is_there
from swapbias.hub_http import offline_reason
from swapbias.models.adapter_config import (
    ADAPTER_CONFIG,
    base_of,
    refuse_adapter_of_adapter,
    refuse_folder_of_adapters,
)
from swapbias.models.base import LoadOptions
from swapbias.models.broken_files import refuse_broken_files
from swapbias.models.model_config import adapter_config, at_commit, source_settings
from swapbias.models.model_files import read_model_json
from swapbias.models.model_names import model_name, split_revision, weight_files
from swapbias.models.model_pins import files_pin

_ADAPTED = "base_model."
"""How names of an adapter's weights begin."""
_SHARED = ("vblora_vector_bank", "prompt_encoder")
"""Parts of names of an adapter's weights that no file of it needs to have."""
_BIAS = ".bias"
_SAVED_MODULE = ".modules_to_save"
_TOKEN_ROWS = ".trainable_tokens_delta"
_WHOLE_TABLES = (
    ".weight",
    ".modules_to_save.weight",
    ".token_adapter.base_layer.weight",
    ".base_layer.weight",
)
"""How names of weights end after the part whose rows for all tokens they are."""
_TOKENIZER_CONFIG = "tokenizer_config.json"
_REMEDY = "Save it with the adapter again."
_BASE_LAYER = ".base_layer."
"""In the name of a weight of the model to which an adapter adds something."""


def add_adapter(model: Any, adapter: str, *, merge: bool) -> tuple[Any, set[str], dict[str, Any]]:
    """Put an adapter on a model.

    Args:
        model: a model of transformers, which is changed.
        adapter: a folder, or a Hub id with or without a revision.
        merge: whether its weights are added to the model's where that gives the same model; else they stay beside.

    Returns:
        The model with its adapter, the modules that the adapter brings along, and what identifies the adapter.

    Raises:
        UsageError: It is an adapter of another adapter, or is not in the layers of the model.
        ValueError: It cannot be read, weights of it are missing, or it does not fit the model.
    """
    from peft import PeftModel, load_peft_weights

    located = at_commit(adapter)
    adapter_name = model_name(adapter)
    name, commit = split_revision(located)
    _refuse_without_weights(adapter_name, name)
    refuse_broken_files(Path(name))
    base = base_of(adapter_config(located) or {})
    refuse_adapter_of_adapter(adapter_name, base)
    try:
        weights = load_peft_weights(name, device="cpu", revision=commit or None)
        _add_rows(model, weights)
        adapted = PeftModel.from_pretrained(model, name, revision=commit or None)
        _refuse_outside_of_layers(adapter_name, adapted.active_peft_config)
        # Once more, for what it lacks, of which the first only warns: weights that are not there are random.
        result = adapted.load_adapter(name, adapted.active_adapter, revision=commit or None)
        missing = [key for key in result.missing_keys if not any(part in key for part in _SHARED)]
        unread = _without_copies(result.unexpected_keys, weights)
        biases = [*_missing_biases(adapted, weights)]
    except UsageError:
        raise
    except Exception as error:
        fault = f"Adapter {adapter_name!r} cannot be loaded: {_reason(error)}"
        raise ValueError(fault) from error
    if biases:
        raise ValueError(
            f"Adapter {adapter_name!r} lacks {len(biases)} biases that its config says were trained with it, first "
            f"{min(biases)}. Save the adapter again."
        )
    if misfits := sorted([*missing, *unread]):
        raise ValueError(
            f"Adapter {adapter_name!r} does not fit the model: {len(misfits)} of its weights are missing or "
            f"have no place, first {misfits[0]}. Name the model that it was trained on."
        )
    trained = set(adapted.active_peft_config.modules_to_save or ())
    can_merge = merge and not _has_tied_targets(adapted)
    loaded = adapted.merge_and_unload() if can_merge else adapted.get_base_model()
    pin: dict[str, Any] = {"name": adapter_name}
    if base:
        pin["base"] = model_name(base)
    return loaded, trained, {**pin, **files_pin(located)}


def adapter_tokenizer(adapter: str, config: Any) -> Any | None:
    """Read the tokenizer that was saved with an adapter: with tokens or a chat template that training added.

    Args:
        adapter: a folder, or a Hub id with or without a revision.
        config: the config of the model that the adapter is put on.

    Returns:
        The tokenizer; None where the adapter has none, and is read with that of its model.

    Raises:
        ValueError: It cannot be read.
    """
    from transformers import AutoTokenizer

    located = at_commit(adapter)
    name, source = source_settings(located, LoadOptions())
    offline = not is_there(adapter) and bool(offline_reason())
    if read_model_json(located, _TOKENIZER_CONFIG, offline=offline, remedy=_REMEDY) is None:
        return None
    try:
        return AutoTokenizer.from_pretrained(name, config=config, **source)
    except Exception as error:
        raise ValueError(
            f"The tokenizer of adapter {model_name(adapter)!r} cannot be read: {first_line(error)}. {_REMEDY}"
        ) from error


def _add_rows(model: Any, weights: Mapping[str, Any]) -> None:
    """Add rows to the embeddings of a model where an adapter has weights of more tokens, from which they are read.

    A ValueError where it has no weights of the tokens that are predicted.
    """
    table = model.get_input_embeddings()
    rows = _rows_of(table, model, weights)
    if rows is None or rows <= table.weight.shape[0]:
        return
    head = model.get_output_embeddings()
    is_tied = head is None or head.weight is table.weight
    if not is_tied and _rows_of(head, model, weights) != rows:
        raise ValueError(
            f"it has embeddings of {rows} tokens, and does not predict all of them. Save the adapter again"
        )
    model.resize_token_embeddings(rows, mean_resizing=False)


def _rows_of(part: Any, model: Any, weights: Mapping[str, Any]) -> int | None:
    """Return the number of tokens of which an adapter has weights in a part of a model; None where it has none."""
    names = [name for name, module in model.named_modules() if module is part]
    endings = [f"{name}{form}" for name in names for form in _WHOLE_TABLES]
    for key, weight in weights.items():
        if key.endswith(tuple(endings)):
            return int(weight.shape[0])
    return None


def _refuse_without_weights(adapter: str, name: str) -> None:
    """Raise a ValueError for a folder that has no weights of an adapter itself."""
    if not is_there(name) or weight_files(os.listdir(name)):
        return
    refuse_folder_of_adapters(adapter, name)
    raise ValueError(
        f"Adapter {adapter!r} has no adapter_model.safetensors. Save the adapter again."
    )


def _refuse_outside_of_layers(adapter: str, config: Any) -> None:
    """Raise a UsageError for an adapter that puts vectors before the text (prompt tuning), which are not read."""
    if config.is_prompt_learning:
        raise UsageError(
            f"{adapter} is an adapter that puts vectors before a text ({config.peft_type.value}), which are not read "
            "here. Give one whose weights are in the layers, as those of LoRA are."
        )


def _without_copies(names: Sequence[str], weights: Mapping[str, Any]) -> list[str]:
    """Return the names of weights without a place that are no copies of others, as PEFT saves embeddings twice."""
    read = {key: weight for key, weight in weights.items() if key not in names}
    return [name for name in names if not _has_copy(name, weights[name], read)]


def _has_copy(name: str, weight: Any, read: Mapping[str, Any]) -> bool:
    """Return whether weights of embeddings are read under another name."""
    if name.endswith(_TOKEN_ROWS):
        candidates = [rows for key, rows in read.items() if key.endswith(_TOKEN_ROWS)]
    else:
        plain_name = name.replace(_SAVED_MODULE, "")
        candidates = [rows for key, rows in read.items() if key == plain_name]
    return any(rows.shape == weight.shape and rows.equal(weight) for rows in candidates)


def _missing_biases(adapted: Any, saved: Mapping[str, Any]) -> Iterator[str]:
    """Yield the biases that were trained with an adapter and are not in its files: those of the model would stand."""
    if getattr(adapted.active_peft_config, "bias", "none") == "none":
        return
    from peft import get_peft_model_state_dict

    trained = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    in_files = {trained[key].data_ptr() for key in saved if key in trained}
    for key, weight in trained.items():
        if key.endswith(_BIAS) and weight.data_ptr() not in in_files:
            yield key


def _has_tied_targets(adapted: Any) -> bool:
    """Return whether an adapter adds to a weight that has a second place, which merging would change as well."""
    places: dict[int, list[str]] = {}
    for key, weight in adapted.named_parameters(remove_duplicate=False):
        places.setdefault(id(weight), []).append(key)
    return any(len(keys) > 1 and _BASE_LAYER in "".join(keys) for keys in places.values())


def _reason(error: Exception) -> str:
    """Return why an adapter cannot be read, and what to do where what a library says does not tell."""
    if isinstance(error, KeyError):  # a key of its config, or a module that it brings along
        is_weight = str(error.args[0]).startswith(_ADAPTED)
        file = "file of weights" if is_weight else ADAPTER_CONFIG
        return f"its {file} has no {error.args[0]}. Save the adapter again."
    if str(error).startswith("Error(s) in loading state_dict"):
        return "its weights have other sizes than the model. Name the model that it was trained on."
    reason = first_line(error).rstrip(":")
    return f"{reason}."
