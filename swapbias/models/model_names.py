"""Names of models: owner, name and revision, the commit of a manifest, and all that a name in findings says."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from swapbias.files import is_there
from swapbias.privacy import manifest_schema, names_within

if TYPE_CHECKING:
    from swapbias.models.base import LoadOptions

COMMIT = re.compile(r"[0-9a-f]{40}")
_PATH = re.compile(
    r"[/\\~.]|[A-Za-z]:[/\\]|[^/]*/[^/]*/"
)  # how a path begins, which no Hub id does
_WEIGHTS = (
    r"model(-\d+-of-\d+)?\.safetensors", r"pytorch_model(-\d+-of-\d+)?\.bin",
    r"adapter_model\.safetensors", r"adapter_model\.bin",
)  # fmt: skip


def split_revision(model: str) -> tuple[str, str]:
    """A model's name and the branch, tag or commit in it; blank where there is none, and for folders.

    >>> split_revision("owner/name@v1"), split_revision("owner/name")
    (('owner/name', 'v1'), ('owner/name', ''))
    """
    name, _, revision = (model, "", "") if is_there(model) else model.partition("@")
    return name, revision


def model_name(model: str) -> str:
    """Its name in findings: the Hub id, or the last part of a folder's path (never a path of this machine)."""
    if is_there(model):
        return Path(model).resolve().name
    name, _ = split_revision(model)
    return PureWindowsPath(model).name if _PATH.match(name) else name


def read_name(model: str, pin: Mapping[str, Any]) -> str:
    """The name in findings of what was read of a model: ``BASE + ADAPTER (4bit)``, or its own name where it is whole.

    >>> read_name("owner/name@v1", {"adapter": {"name": "lab/lora"}, "quantization": "4bit"})
    'owner/name + lab/lora (4bit)'
    """
    parts = [str(pin.get("base") or model_name(model))]
    if adapter := pin.get("adapter"):
        parts.append(str(adapter["name"]))
    changes = ", ".join(str(pin[name]) for name in ("subfolder", "quantization") if pin.get(name))
    return manifest_schema.AND.join(parts) + (f" ({changes})" if changes else "")


def planned_name(model: str | None, options: "LoadOptions") -> str:
    """``read_name`` of a model before it is loaded, by the settings that name its adapter and its quantization."""
    if not model:
        return ""
    adapter = {"adapter": {"name": model_name(options.adapter)}} if options.adapter else {}
    return read_name(
        model, {**adapter, "subfolder": options.subfolder, "quantization": options.quantization}
    )


def as_pinned(model: str, pinned: Sequence[Mapping[str, Any]]) -> str:
    """A model or adapter of the Hub at its commit in a manifest's ``models``, wherever its branch is by now."""
    if is_there(model):
        return model
    name, _ = split_revision(model)
    commits = (commit for known, commit in _commits(pinned) if known == name)
    commit = next(commits, "")
    return f"{name}@{commit}" if commit else model


def _commits(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Each model of a manifest's ``models`` with its commit, however nested; ``name``: of what it is a part."""
    if isinstance(value, Mapping):
        read = names_within(str(value.get("name") or value.get("model_id") or name))[0]
        revision = str(value.get("revision"))
        if COMMIT.fullmatch(revision):
            yield read, revision
        for inner in value.values():
            yield from _commits(inner, read)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _commits(inner, name)


def weight_files(names: Iterable[str]) -> list[str]:
    """Those files of a model's or adapter's folder or repository from which its weights are read.

    >>> weight_files(["config.json", "model.safetensors", "pytorch_model.bin"])
    ['model.safetensors']
    """
    ordered = sorted(names)
    found = ([file for file in ordered if re.fullmatch(pattern, file)] for pattern in _WEIGHTS)
    return next(filter(None, found), [])


def is_callable(model: str) -> bool:
    """Whether a model name is ``module:function``."""
    module, _, function = model.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def short_name(model: str | None) -> str:
    """A model's name without the path of this machine."""
    return Path(model).resolve().name if model and is_there(model) else str(model)
