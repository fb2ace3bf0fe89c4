"""The config of an adapter (PEFT): whether a folder or repository is one, and of which model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swapbias.errors import first_line
from swapbias.files import is_there, parse_json
from swapbias.models.model_names import split_revision

ADAPTER_CONFIG = "adapter_config.json"


def read_adapter_config(place: str, subfolder: str, *, offline: bool) -> Mapping[str, Any] | None:
    """What the ``adapter_config.json`` of a folder, or of a model of the Hub at a commit, says; None without one."""
    name, commit = split_revision(place)
    path = (
        Path(place, subfolder, ADAPTER_CONFIG)
        if is_there(place)
        else _fetched_config(name, commit, subfolder, offline=offline)
    )
    if path is None or not path.is_file():
        return None
    try:
        read = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}). Save the adapter again.") from error
    return read if isinstance(read, dict) else {}


def _fetched_config(name: str, commit: str, subfolder: str, *, offline: bool) -> Path | None:
    """The ``adapter_config.json`` of a model of the Hub at a commit; None where it has none."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import (
        EntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if not commit:
        return None
    file = "/".join(filter(None, (subfolder, ADAPTER_CONFIG)))
    cached = try_to_load_from_cache(name, file, revision=commit)
    if cached is not None:  # a path, or a mark that the commit has no such file
        return Path(cached) if isinstance(cached, str) else None
    try:
        return Path(hf_hub_download(name, file, revision=commit, local_files_only=offline))
    except EntryNotFoundError:  # also of a model that was fetched whole before
        return None
    except (RepositoryNotFoundError, RevisionNotFoundError):  # whoever reads the model says it
        return None
    except Exception as error:
        raise ValueError(
            f"{file} of {name} cannot be read ({first_line(error)}). Check the connection."
        ) from error


def base_of(declared: Mapping[str, Any]) -> str:
    """The model that an adapter's config names, with its revision; blank where it names none."""
    base = declared.get("base_model_name_or_path")
    revision = declared.get("revision")
    if not isinstance(base, str):
        return ""
    return (
        f"{base}@{revision}"
        if isinstance(revision, str) and revision and not is_there(base)
        else base
    )
