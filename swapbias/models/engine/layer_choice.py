"""Which models of a run have layers of oneDNN: a run that is resumed or repeated keeps what its manifest says."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

KEY = "linear_layers"
"""The key of a manifest that says what multiplies the layers of a model."""
_pinned: ContextVar[Sequence[Mapping[str, Any]]] = ContextVar("pinned", default=())


@contextmanager
def as_pinned(models: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Load models in the block with the layers that they have in a manifest.

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
    models = _pinned.get()
    if not models:
        return None
    entries = [entry for entry in models if entry.get("model_id") == name] or models
    return next(filter(None, map(_layers_within, entries)), "")


def _layers_within(entry: Mapping[str, Any]) -> str:
    """Return what an entry or an object within it says."""
    if KEY in entry:
        return str(entry[KEY])
    parts = [value for value in entry.values() if isinstance(value, Mapping)]
    return next(filter(None, map(_layers_within, parts)), "")


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
