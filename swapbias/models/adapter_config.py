"""The config of an adapter (PEFT): whether a folder or repository is one, and of which model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import first_line
from swapbias.files import is_there, parse_json
from swapbias.models.model_names import split_revision

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
    name, commit = split_revision(model)
    if is_there(model):
        path: Path | None = Path(model, subfolder, ADAPTER_CONFIG)
    else:
        path = _fetched_config(name, commit, subfolder, offline=offline)
    if path is None or not path.is_file():
        return None
    try:
        config = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}). Save the adapter again.") from error
    return config if isinstance(config, dict) else {}


def _fetched_config(name: str, commit: str, subfolder: str, *, offline: bool) -> Path | None:
    """Return the path of the ``adapter_config.json`` of a model of the Hub at a commit; None where it has none."""
    from huggingface_hub import errors, hf_hub_download, try_to_load_from_cache

    if not commit:
        return None
    file = "/".join(filter(None, (subfolder, ADAPTER_CONFIG)))
    cached = try_to_load_from_cache(name, file, revision=commit)
    if cached is not None:  # a path, or a mark that the commit has no such file
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(hf_hub_download(name, file, revision=commit, local_files_only=offline))
    except errors.EntryNotFoundError:  # also of a model that was fetched whole before
        return None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        return None  # whoever reads the model says it
    except Exception as error:
        fault = f"{file} of {name} cannot be read ({first_line(error)}). Check the connection."
        raise ValueError(fault) from error


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
