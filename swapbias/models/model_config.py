"""Where a model is and what its config says: a folder or a commit of the Hub, an adapter's base, what is refused."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from swapbias.errors import MODELS, UsageError, first_line, need, quoted
from swapbias.files import is_there
from swapbias.hub_http import configure_http, offline_reason
from swapbias.models.adapter_config import (
    base_of,
    read_adapter_config,
    refuse_adapter_of_adapter,
    refuse_folder_of_adapters,
)
from swapbias.models.base import LoadOptions
from swapbias.models.broken_files import refuse_broken_file
from swapbias.models.custom_code import refuse_custom_config
from swapbias.models.formats import refuse_other_formats, refuse_quantized
from swapbias.models.model_names import COMMIT, model_name, split_revision, weight_files


def at_commit(model: str) -> str:
    """Name a model on the Hub at a commit: that of the revision in its name, else of its main branch.

    Args:
        model: a Hub id with or without a revision, or a folder.

    Returns:
        ``OWNER/NAME@COMMIT``; offline it is the commit that was fetched last. Folders and commits stay.

    Raises:
        ValueError: There is no such model or revision, or it cannot be reached.
    """
    from huggingface_hub import HfApi

    name, revision = split_revision(model)
    if is_there(model) or COMMIT.fullmatch(revision):
        return model
    if model.endswith("@"):
        raise ValueError(
            f"Model {model!r} names no revision behind its @. Give a branch, tag or commit."
        )
    configure_http()
    offline = bool(offline_reason())
    try:
        resolved = HfApi().resolve_revision(
            name, revision=revision or None, local_files_only=offline
        )
    except Exception as error:
        raise ValueError(_not_found(model, error)) from error
    return f"{name}@{resolved.resolved}"


def _not_found(model: str, error: Exception) -> str:
    """Return the sentence for a model that the Hub did not give."""
    from huggingface_hub.errors import RevisionNotFoundError

    name, revision = split_revision(model)
    if any(isinstance(cause, RevisionNotFoundError) for cause in (error, error.__cause__)):
        return (
            f"Model {name!r} has no revision {revision!r} on the Hub. "
            "Look at its branches, tags and commits."
        )
    offline = offline_reason()
    if not offline:
        return (
            f"Model {name!r} cannot be loaded: it is neither a local folder nor a model that the "
            f"Hub gave ({first_line(error)}). Check the name and the connection."
        )
    at_revision = f" at revision {revision}" if revision else ""
    return (
        f"Model {name!r} cannot be loaded: it is neither a local folder nor stored on this "
        f"machine{at_revision}, and {offline}. Go online, or give a local folder."
    )


def read_config(model: str, options: LoadOptions | None = None) -> Any:
    """Read the config of a model; of an adapter that of its base.

    Args:
        model: a folder, or a Hub id with or without a revision.
        options: how it is loaded.

    Raises:
        UsageError: As of ``load_model``.
        ValueError: As of ``load_model``.
    """
    need(f"The model {model_name(model)}", *MODELS, extra="models")
    _, config = locate_config(*split_adapter(model, options or LoadOptions()))
    return config


def split_adapter(model: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Put the base of an adapter (PEFT) in the adapter's place, and the adapter beside it.

    Args:
        model: a folder, or a Hub id with or without a revision.
        options: how it is loaded.

    Returns:
        The base, and settings that name the adapter; both as they are for a model that is no adapter.

    Raises:
        UsageError: Another adapter is named as well.
        ValueError: Its base is missing, or a whole model stands beside it.
    """
    _refuse_unpinned_code(model, options)
    located = at_commit(model) if _may_be_hub_id(model) else model
    config = adapter_config(located, options.subfolder)
    if config is None:
        return model, options
    name = model_name(model)
    if options.adapter:
        raise UsageError(
            f"{name} is an adapter, and -M adapter names another. Name the model of one of them."
        )
    folder = Path(model, options.subfolder)
    weights = weight_files(os.listdir(folder)) if is_there(folder) else []
    if any(not file.startswith("adapter_model") for file in weights):
        raise ValueError(
            f"{name} contains a whole model and an adapter. Put one of them into a folder of its own."
        )
    base = base_of(config)
    if not base or not (is_there(base) or _may_be_hub_id(base)):
        raise ValueError(
            f"{name} is an adapter of {quoted(base)}, which is not on this machine. "
            "Name its model, and it with -M adapter."
        )
    refuse_adapter_of_adapter(name, base)
    adapter = str(folder) if is_there(model) else located
    return base, replace(options, adapter=adapter, subfolder="")


def adapter_config(model: str, subfolder: str = "") -> Mapping[str, Any] | None:
    """Read the config of an adapter, from the Hub where it is not on this machine.

    Args:
        model: a folder, or ``OWNER/NAME@COMMIT``.
        subfolder: the subfolder in which the file is; empty: at the root.

    Returns:
        Its values; None for a model that is no adapter.
    """
    is_remote = not is_there(model)
    return read_adapter_config(model, subfolder, offline=is_remote and bool(offline_reason()))


def _may_be_hub_id(model: str) -> bool:
    """Return whether a name may be a Hub id: it is no path."""
    return not (Path(model).is_absolute() or model.startswith(".") or model.count("/") > 1)


def locate_config(model: str, options: LoadOptions) -> tuple[str, Any]:
    """Find a model at its commit, and read its config.

    Args:
        model: a folder, or a Hub id with or without a revision; no adapter.
        options: how it is loaded.

    Returns:
        The folder or ``OWNER/NAME@COMMIT``, and the config.

    Raises:
        UsageError: Its format is not read here, or its code is not pinned.
        ValueError: There is no such model, or its config cannot be read or names a kernel.
    """
    from transformers import AutoConfig, PreTrainedConfig

    folder = Path(model, options.subfolder)
    is_path = folder.is_absolute() or model.startswith(".") or model.count("/") > 1
    if is_path and not is_there(folder):
        raise ValueError(
            f"{model} does not exist. Give a local folder or a Hub id like owner/name."
        )
    refuse_other_formats(model, folder)
    if is_there(folder) and not (folder / "config.json").is_file():
        refuse_folder_of_adapters(folder.name, str(folder))
        raise ValueError(f"{model} is no model folder: it has no config.json. Name another folder.")
    refuse_broken_file(folder / "config.json")
    _refuse_unpinned_code(model, options)
    located = at_commit(model)
    name, source = source_settings(located, options)
    try:
        values = PreTrainedConfig.get_config_dict(name, **source)[0]
        if values.get("model_type") == "bilstm":
            import_module("swapbias.models.bilstm")  # transformers knows it from then on
        if not options.trust_remote_code:
            refuse_custom_config(model, folder, values)
        config = AutoConfig.from_pretrained(name, **source)
    except UsageError:
        raise
    except Exception as error:
        if folder.is_dir():
            fault = f"{folder / 'config.json'} cannot be read ({first_line(error)}). Correct it."
            raise ValueError(fault) from error
        raise ValueError(_not_found(located, error)) from error
    _refuse_kernels(model, config)
    refuse_quantized(model, config)
    return located, config


def _refuse_unpinned_code(model: str, options: LoadOptions) -> None:
    """Refuse code of the Hub but at a commit that the user names: a branch may hold other code tomorrow."""
    name, revision = split_revision(model)
    if not options.trust_remote_code or is_there(model) or COMMIT.fullmatch(revision):
        return
    raise UsageError(
        f"trust-remote-code runs code of {name}, which is not pinned. "
        f"Read it and add its commit to the name: {name}@ and 40 hex digits."
    )


def _refuse_kernels(model: str, config: Any) -> None:
    """Refuse kernels in a config: they are compiled code of the Hub, which would run unasked."""
    for key, kernel in _kernels(config):
        if isinstance(kernel, str) and "/" in kernel:
            raise ValueError(
                f"The config of {model} names {key.strip('_')} {kernel[:80]!r}, "
                "compiled code of the Hub, which is not run. Drop it."
            )


def _kernels(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a config and its parts say on how attention and experts are computed, with its key."""
    parts = [config]
    parts += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    for part in parts:
        for key in ("_attn_implementation", "_experts_implementation"):
            value = getattr(part, key, None)
            values = value.values() if isinstance(value, Mapping) else (value,)
            for kernel in values:
                yield key, kernel


def architectures(config: Any) -> Sequence[str]:
    """Return the architectures in a config.

    Args:
        config: a model config of transformers.

    Returns:
        Their names; none where the config has no such key.
    """
    names = config.architectures
    if not isinstance(names, list | tuple):
        return ()
    return [name for name in names if isinstance(name, str)]


def source_settings(model: str, options: LoadOptions) -> tuple[str, dict[str, Any]]:
    """Say how transformers is to find a model: no file of another commit, no code unasked.

    Args:
        model: a folder, or ``OWNER/NAME@COMMIT``.
        options: how it is loaded.

    Returns:
        The name or folder, and arguments of ``from_pretrained``.
    """
    configure_http()
    name, commit = split_revision(model)
    # Offline its client would try for a minute to list files.
    settings = {
        "revision": commit or None,
        "local_files_only": bool(commit and offline_reason()),
        "trust_remote_code": options.trust_remote_code,
    }
    if options.subfolder:
        settings["subfolder"] = options.subfolder
    return name, settings
