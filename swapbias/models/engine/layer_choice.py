"""Layers of oneDNN and types of weights in manifests: a run that is resumed or repeated keeps what it began with."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

KEY = "linear_layers"
"""The key of a manifest that says what multiplies the layers of a model."""
_pinned: ContextVar[Sequence[Mapping[str, Any]]] = ContextVar("pinned", default=())


@contextmanager
def as_pinned(models: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Load models in the block with the layers and the type of weights that they have in a manifest.

    Args:
        models: entries of the manifest; none: what is faster here is tried.
    """
    token = _pinned.set(models)
    try:
        yield
    finally:
        _pinned.reset(token)


def pinned_layers(name: str) -> str | None:
    """Return what multiplies the layers of a model, by the manifest; None where there is none.

    Args:
        name: the model's name; one that has no entry of its own is a part of the others (features).
    """
    return _pinned_value(name, KEY)


def pinned_dtype(name: str) -> str | None:
    """Return the type of a model's weights, by the manifest; None where there is none, blank where it names no type.

    Args:
        name: the model's name, as of ``pinned_layers``, also without its adapter.
    """
    return _pinned_value(name, "dtype")


def _pinned_value(name: str, key: str) -> str | None:
    """Return the value of a key in the entry of a model, or in an object within it."""
    models = _pinned.get()
    if not models:
        return None
    names = [str(entry.get("model_id")) for entry in models]
    entries = [entry for entry, entry_name in zip(models, names, strict=True) if entry_name == name]
    if not entries:  # a model is named after its adapter too
        entries = [
            entry
            for entry, entry_name in zip(models, names, strict=True)
            if entry_name.startswith(f"{name} ")
        ]
    return next(filter(None, (_value_within(entry, key) for entry in entries or models)), "")


def _value_within(entry: Mapping[str, Any], key: str) -> str:
    """Return the value of a key in an entry or an object within it."""
    if key in entry:
        return str(entry[key])
    parts = [value for value in entry.values() if isinstance(value, Mapping)]
    return next(filter(None, (_value_within(part, key) for part in parts)), "")


def without_layers(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a manifest without what multiplies the layers, also of objects within it.

    Args:
        entry: the entry of a model.
    """
    return {
        name: without_layers(value) if isinstance(value, Mapping) else value
        for name, value in entry.items()
        if name != KEY
    }
