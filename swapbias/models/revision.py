"""Which commit of the Hub a model is: told once before it is loaded, so that all its files are of one."""

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from swapbias.errors import UsageError
from swapbias.files import is_there
from swapbias.network import configure_http

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PATIENCE = 5  # seconds for the Hub to answer
_WEIGHTS = (
    r"model(-\d+-of-\d+)?\.safetensors",
    r"pytorch_model(-\d+-of-\d+)?\.bin",
)


def split_revision(model: str) -> tuple[str, str]:
    """A model's name and the branch, tag or commit that is named with it; blank where none is, and for folders.

    >>> split_revision("owner/name@v1"), split_revision("owner/name")
    (('owner/name', 'v1'), ('owner/name', ''))
    """
    name, _, revision = (model, "", "") if is_there(model) else model.partition("@")
    return name, revision


def weight_files(names: Iterable[str]) -> list[str]:
    """Of the files of a model's folder or repository those that transformers reads its weights from.

    >>> weight_files(["config.json", "model.safetensors", "pytorch_model.bin"])
    ['model.safetensors']
    """
    every = sorted(names)
    found = ([one for one in every if re.fullmatch(pattern, one)] for pattern in _WEIGHTS)
    return next(filter(None, found), [])


def with_revision(model: str | None, revision: str) -> str:
    """``OWNER/NAME@REVISION`` of a model on the Hub.

    Raises:
        UsageError: no model, or one that has a revision already or is none of the Hub.
    """
    if not model or is_there(model) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@.*)?", model):
        told = f"{Path(model).name or model} is none" if model else "none is named"
        raise UsageError(f"Revision {revision!r} is of a model on the Hub, and {told}. Drop it, or give OWNER/NAME.")
    if "@" in model:
        raise UsageError(f"{model} names its revision, and {revision!r} is given beside it. Drop one of the two.")
    if not revision:
        raise UsageError(f"The revision of {model} is blank, expected a branch, tag or commit. Give one, or none.")
    return f"{model}@{revision}"


def at_commit(model: str) -> str:
    """``OWNER/NAME@COMMIT``: the commit that a model on the Hub is at now, or at the revision that is named with it.

    A local folder stays as it is, and a whole commit (40 hex digits) is taken at its word. Where the Hub cannot be
    asked, it is the commit that was fetched last.

    Raises:
        ValueError: in one sentence, no such model or revision, or nobody to ask and nothing kept.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    if is_there(model):
        return model
    if model.endswith("@"):
        raise ValueError(f"Model {model!r} names no revision behind its @. Give a branch, tag or commit.")
    configure_http()
    name, asked = split_revision(model)
    away = hub_away()
    if away and not _is_kept(name, asked):
        kept = f"kept on this machine at revision {asked}" if asked else "kept on this machine"
        raise ValueError(
            f"Model {name!r} cannot be loaded: it is neither a local folder nor {kept}, and {away}. "
            "Go online, or give a local folder."
        )
    if _COMMIT.fullmatch(asked):
        return model
    try:
        found = HfApi().resolve_revision(name, revision=asked or None, local_files_only=bool(away))
    except RevisionNotFoundError as error:
        raise ValueError(no_revision(name, asked)) from error
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ValueError(
            f"Model {name!r} cannot be loaded: it is neither a local folder nor a model that the Hub gave "
            f"({lines[0].rstrip('.') if lines else type(error).__name__}). Check the name and the connection."
        ) from error
    return f"{name}@{found.resolved}"


def no_revision(name: str, asked: str) -> str:
    """The sentence on a revision that a model does not have."""
    return f"Model {name!r} has no revision {asked!r} on the Hub. Look at its branches, tags and commits."


def as_pinned(model: str, pinned: Sequence[Mapping[str, Any]]) -> str:
    """A model of the Hub at the commit by which a manifest's ``models`` pin it, wherever its branch is by now."""
    name, _ = split_revision(model)
    commits = [str(one.get("revision")) for one in pinned if one.get("model_id") == name]
    held = not is_there(model) and commits and _COMMIT.fullmatch(commits[0])
    return f"{name}@{commits[0]}" if held else model


def _is_kept(name: str, asked: str) -> bool:
    """Whether the config of a model is in the cache at this revision."""
    from huggingface_hub import try_to_load_from_cache

    with suppress(ValueError):  # no Hub id
        return isinstance(try_to_load_from_cache(name, "config.json", revision=asked or None), str)
    return False


def hub_away() -> str:
    """Why the Hub cannot be asked, told at once: its own client tries for a minute; blank where it can."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    host = urlsplit(constants.ENDPOINT)
    if host.hostname and (not getproxies() or proxy_bypass(host.hostname)):
        try:
            socket.create_connection((host.hostname, host.port or 443), timeout=_PATIENCE).close()
        except OSError as error:
            return f"{host.hostname} cannot be reached: {error.strerror or error}"
    return ""
