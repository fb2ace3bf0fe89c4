"""The config of an adapter (PEFT): whether a folder or repository is one, and of which model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, listed
from swapbias.files import is_there
from swapbias.models.model_files import read_model_json

ADAPTER_CONFIG = "adapter_config.json"


def read_adapter_config(model: str, subfolder: str, *, offline: bool) -> Mapping[str, Any] | None:
    """Read the ``adapter_config.json`` of a folder, or of a model of the Hub at a commit.

    Args:
        model: a folder, or ``OWNER/NAME@COMMIT``.
        subfolder: the subfolder in which the file is; empty: at the root.
        offline: whether nothing is fetched from the Hub.

    Returns:
        The values of the file; None where there is no such file.

    Raises:
        ValueError: It cannot be fetched, or is no JSON.
    """
    config = read_model_json(
        model, ADAPTER_CONFIG, subfolder, offline=offline, remedy="Save the adapter again."
    )
    if config is None:
        return None
    return config if isinstance(config, dict) else {}


def base_of(config: Mapping[str, Any]) -> str:
    """Name the model that an adapter is of.

    Args:
        config: the config of the adapter.

    Returns:
        A folder, or a Hub id with its revision; empty where the config names none.
    """
    base = config.get("base_model_name_or_path")
    revision = config.get("revision")
    if not isinstance(base, str):
        return ""
    has_revision = isinstance(revision, str) and revision
    return f"{base}@{revision}" if has_revision and not is_there(base) else base


def refuse_adapter_of_adapter(adapter: str, base: str) -> None:
    """Refuse an adapter whose base is an adapter in a folder: without that one it would be on other weights.

    Args:
        adapter: the name of the adapter, for the sentence.
        base: what its config says it was trained on.

    Raises:
        UsageError: The base is an adapter.
    """
    folder = Path(base)
    if base and (folder / ADAPTER_CONFIG).is_file():
        raise UsageError(
            f"{adapter} is an adapter of {folder.name}, which is an adapter itself. "
            f"Merge {folder.name} into its model with peft, save that, and put {adapter} on it."
        )


def refuse_folder_of_adapters(name: str, folder: str) -> None:
    """Refuse a folder that is no adapter and has adapters in folders of their own: the user chooses one.

    Args:
        name: the name of the folder, for the sentence.
        folder: its path.

    Raises:
        UsageError: It has one or more.
    """
    inner = sorted(path.parent.name for path in Path(folder).glob(f"*/{ADAPTER_CONFIG}"))
    if inner:
        raise UsageError(
            f"{name} has adapters in folders of their own ({listed(inner)}). Name one: {Path(folder, inner[0])}."
        )
