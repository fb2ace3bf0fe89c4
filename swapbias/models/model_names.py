"""Names of models: owner, name and revision, the commit of a manifest, and all that a name in findings says."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from swapbias.files import is_there
from swapbias.privacy import manifest_redaction, names_within

if TYPE_CHECKING:
    from swapbias.models.base import LoadOptions

COMMIT = re.compile(r"[0-9a-f]{40}")
# How a path begins, which no Hub id does.
_PATH = re.compile(r"[/\\~.]|[A-Za-z]:[/\\]|[^/]*/[^/]*/")
_WEIGHTS = (
    r"model\.safetensors", r"model-\d+-of-\d+\.safetensors",
    r"pytorch_model\.bin", r"pytorch_model-\d+-of-\d+\.bin",
    r"adapter_model\.safetensors", r"adapter_model\.bin",
)  # fmt: skip


def split_revision(model: str) -> tuple[str, str]:
    """Split a model's name from the branch, tag or commit in it.

    >>> split_revision("owner/name@v1"), split_revision("owner/name")
    (('owner/name', 'v1'), ('owner/name', ''))

    Args:
        model: a Hub id with or without a revision, or a folder.

    Returns:
        The name and the revision, which is empty where there is none, and for folders.
    """
    if is_there(model):
        return model, ""
    name, _, revision = model.partition("@")
    return name, revision


def model_name(model: str) -> str:
    """Name a model as findings do.

    Args:
        model: a Hub id with or without a revision, or a folder.

    Returns:
        The Hub id, or the last part of a folder's path (never a path of this machine).
    """
    if is_there(model):
        return Path(model).resolve().name
    name, _ = split_revision(model)
    return PureWindowsPath(model).name if _PATH.match(name) else name


def short_name(model: str | None) -> str:
    """Name a model without the path of this machine.

    Args:
        model: a name of any form; a revision stays in it.
    """
    return Path(model).resolve().name if model and is_there(model) else str(model)


def is_callable(model: str) -> bool:
    """Return whether a model name is ``module:function``.

    Args:
        model: a name of any form.
    """
    module, _, function = model.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def read_name(model: str, pin: Mapping[str, Any]) -> str:
    """Name what was read of a model, as findings do.

    >>> read_name("owner/name@v1", {"adapter": {"name": "lab/lora"}, "quantization": "4bit"})
    'owner/name + lab/lora (4bit)'

    Args:
        model: a Hub id with or without a revision, or a folder.
        pin: what identifies the model in a manifest.

    Returns:
        ``BASE + ADAPTER (4bit)``, or the model's own name where it is read whole; ``NAME (in memory)`` where it
        has other weights than that name.
    """
    parts = [str(pin.get("base") or model_name(model))]
    if adapter := pin.get("adapter"):
        parts.append(str(adapter["name"]))
    name = manifest_redaction.ADAPTER_SEPARATOR.join(parts)
    changes = [str(pin[key]) for key in ("subfolder", "quantization") if pin.get(key)]
    if pin.get("is_changed"):
        changes.append("in memory")
    return f"{name} ({', '.join(changes)})" if changes else name


def planned_name(model: str | None, options: "LoadOptions") -> str:
    """Name a model before it is loaded, as ``read_name`` will.

    Args:
        model: a Hub id with or without a revision, or a folder; None: no model is named.
        options: name its adapter and its quantization.

    Returns:
        The name; empty where no model is named.
    """
    if not model:
        return ""
    pin: dict[str, Any] = {"subfolder": options.subfolder, "quantization": options.quantization}
    if options.adapter:
        pin["adapter"] = {"name": model_name(options.adapter)}
    return read_name(model, pin)


def as_pinned(model: str, pins: Sequence[Mapping[str, Any]]) -> str:
    """Name a model or adapter of the Hub at its commit in a manifest, wherever its branch is by now.

    Args:
        model: a Hub id with or without a revision, or a folder.
        pins: the ``models`` of the manifest.

    Returns:
        ``OWNER/NAME@COMMIT``; the same name for a folder, and where the manifest has no commit of it.
    """
    if is_there(model):
        return model
    name, _ = split_revision(model)
    for pinned_name, commit in _commits(pins):
        if pinned_name == name:
            return f"{name}@{commit}"
    return model


def commit_of(model_id: str, pins: Sequence[Mapping[str, Any]]) -> str:
    """Return the commit of the Hub at which a model was read, of one with an adapter the adapter's.

    Args:
        model_id: its name in findings.
        pins: the ``models`` of the manifest.

    Returns:
        40 hexadecimal digits; empty for a folder, a service and a model in memory.
    """
    for pin in pins:
        if pin.get("model_id") != model_id:
            continue
        read = pin.get("features") or pin
        read = read.get("adapter") or read
        revision = str(read.get("revision"))
        elsewhere = any(read.get(key) for key in ("host", "provider", "sha256"))
        return revision if COMMIT.fullmatch(revision) and not elsewhere else ""
    return ""


def _commits(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each model of a manifest's ``models`` with its commit, however nested; ``name``: of what it is a part."""
    if isinstance(value, Mapping):
        inner_name = names_within(str(value.get("name") or value.get("model_id") or name))[0]
        revision = str(value.get("revision"))
        if COMMIT.fullmatch(revision):
            yield inner_name, revision
        for inner in value.values():
            yield from _commits(inner, inner_name)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _commits(inner, name)


def weight_files(names: Iterable[str]) -> list[str]:
    """Find the files from which the weights of a model or adapter are read.

    >>> weight_files(["config.json", "model.safetensors", "pytorch_model.bin"])
    ['model.safetensors']

    Args:
        names: the files of a folder or repository.

    Returns:
        Their names in order, of the first format that is there; none where there are no weights.
    """
    ordered = sorted(names)
    for pattern in _WEIGHTS:
        if matching := [file for file in ordered if re.fullmatch(pattern, file)]:
            return matching
    return []
