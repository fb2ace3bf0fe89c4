"""The config of an adapter (PEFT): whether a folder or repository is one, and of which model."""

from collections.abc import Mapping
from typing import Any

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
