"""What a shared run is called: the same for a repeated audit, another one for whatever else was asked or read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from swapbias.cards.escaping import slug
from swapbias.public import own_data, public_manifest

_MACHINE = {  # settings that change how fast or how dear an audit is, not what it asks
    "load": ("device", "batch_size", "allow_pickle"),
    "chat": ("concurrency", "max_requests", "timeout"),
}
_PINS = ("sha256", "answers")  # what tells a model that has no revision from others of its name


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of what was asked of them.

    Results, dates and versions do not count: auditing the same again gives the same name, other settings another.
    Neither does the revision of a model on the Hub, nor the version of a corpus: their later ones are shared in
    place of the earlier. What has no public name counts by its content: models from a folder or file, and notes of
    the user's own.
    """
    public = public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    asked = {
        "models": models,
        "pins": sorted(_pins(manifest.get("models", []))),
        "corpora": [_read(one, own=own_data(manifest) is not None) for one in public["corpora"]],
        "settings": {key: _settings(key, value) for key, value in public["settings"].items()},
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return f"{slug('-'.join(models), 60)}-{digest[:8]}"


def _settings(key: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: one for name, one in value.items() if name not in _MACHINE.get(key, ())}


def _pins(value: Any) -> Iterator[str]:
    """Digests of models that no revision pins down, however nested (of features within a classifier)."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _pins(one)
    elif isinstance(value, Mapping) and not value.get("revision"):
        for name, one in value.items():
            if name in _PINS and isinstance(one, str):
                yield one
            else:
                yield from _pins(one)


def _read(corpus: Mapping[str, Any], *, own: bool) -> list[str]:
    digests = [str(corpus.get(name, "")) for name in ("sha256", "training")] if own else []
    return [str(corpus["corpus"]), str(corpus["config"]), *digests]
