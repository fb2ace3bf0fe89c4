"""What a shared manifest may hold: the keys that swapbias writes, each of its type; anything else stays."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{0,300}")  # a name, a label, a version
_WORDS = re.compile(r"[^\x00-\x1f\x7f]{0,2000}")  # a sentence that swapbias says
_KEY = re.compile(r"[A-Za-z0-9_.:,/ +@=-]{1,200}")

Shape = Any  # a check of one value, a dict of shapes by key, a list of one shape, or Every


@dataclass(frozen=True, slots=True)
class Every:
    """An object whose keys are names, with values of one shape."""

    shape: Shape


def _text(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


NAME, WORDS, HASH = _text(_NAME), _text(_WORDS), _text(_HASH)

_FEATURES = {
    **dict.fromkeys(("kind", "frequency", "library", "architecture", "device", "dtype", "revision"), NAME),
    **dict.fromkeys(("dimension", "words"), _number),
    "sha256": HASH,
    "weights": Every(HASH),
}
_MODEL = {
    **dict.fromkeys(
        (
            "model_id", "kind", "architecture", "device", "dtype", "revision", "host", "provider", "scoring",
            "endpoint", "positive_label", "classifier", "library", "target", "task", "inspect_ai", "own_address",
        ),
        NAME,
    ),
    **dict.fromkeys(
        (
            "top_k", "threshold", "beam", "steps", "prune", "most_lost", "seed", "temperature", "trials",
            "max_tokens", "top_logprobs", "dev_accuracy", "definitional_pairs", "null_words", "dimension", "words",
            "answers_per_request",
        ),
        _number,
    ),
    "json_schema": _truth,
    **dict.fromkeys(("sha256", "module_sha256", "log_sha256", "answers"), HASH),
    "weights": Every(HASH),
    "features": _FEATURES,
    "trained": {"steps": _number, "seed": _number, "planted": Every(Every(_number))},
}  # fmt: skip
_LOAD = {
    **dict.fromkeys(("device", "dtype", "positive_label", "negative_label"), NAME),
    **dict.fromkeys(("batch_size", "prune"), _number),
    "allow_pickle": _truth,
}
_NOTES = {
    "embeddings": [NAME],
    **dict.fromkeys(("classifier", "data", "checklist"), NAME),
    "question": WORDS,
    "plausible": _truth,
    "explain": _number,
}
_CHAT = {
    **dict.fromkeys(
        ("model", "base_url", "provider", "endpoint", "scoring", "log", "judge", "judge_base_url", "judge_provider"),
        NAME,
    ),
    **dict.fromkeys(
        (
            "top_logprobs", "trials", "temperature", "max_tokens", "concurrency", "max_requests", "timeout",
            "max_cost", "judge_max_tokens", "answers_per_request",
        ),
        _number,
    ),
    **dict.fromkeys(("no_seed", "stop_early", "json_schema"), _truth),
    "own_address": [NAME],
}  # fmt: skip
_CORPUS = {
    **dict.fromkeys(("corpus", "config"), NAME),
    **dict.fromkeys(("sha256", "beside", "training"), HASH),
    **dict.fromkeys(("rows", "of"), _number),
    "lexicons": Every(HASH),
}
_ROUNDS = {
    "planned": _number,
    "asked": Every(_number),
    "looks": [{"after": _number, "decided": [NAME]}],
    "stopped": WORDS,
    "told": [WORDS],
}
MANIFEST: Shape = {
    **dict.fromkeys(("swapbias", "status", "started", "finished"), NAME),
    **dict.fromkeys(("credentialed", "in_memory"), _truth),
    **{name: [WORDS] for name in ("dtype_error", "truncated", "pruning", "repeats", "unread")},
    "versions": Every(NAME),
    "from_cache": _number,
    "own_studies": Every(NAME),
    "settings": {
        **dict.fromkeys(("model", "kind"), NAME),
        **dict.fromkeys(("seed", "limit", "margin"), _number),
        "studies": [NAME],
        "wordings": _truth,
        "load": _LOAD,
        "notes": _NOTES,
        "chat": _CHAT,
    },
    "corpora": [_CORPUS],
    "skipped": [{"study": NAME, "experiment": NAME, "reason": WORDS}],
    "models": [{**_MODEL, "judge": _MODEL}],
    "rounds": _ROUNDS,
}


def shaped(value: Any, shape: Shape = MANIFEST) -> Any:
    """A value with what its shape has, made anew in its order: other keys, and values of another type, are left out.

    >>> shaped({"status": "complete", "note": "of a patient", "from_cache": "x"})
    {'status': 'complete'}
    """
    if isinstance(shape, Every):
        return {key: shaped(inner, shape.shape) for key, inner in value.items() if _fits(key, inner, shape)}
    if isinstance(shape, dict):
        return {
            key: shaped(inner, shape[key]) for key, inner in value.items() if key in shape and _is(inner, shape[key])
        }
    if isinstance(shape, list):
        return [shaped(one, shape[0]) for one in value if _is(one, shape[0])]
    return value


def left_out(value: Any, shape: Shape = MANIFEST, place: str = "") -> Iterator[str]:
    """Where in a value stands what ``shaped`` leaves out: keys from the outermost on, none that it does not know."""
    if isinstance(shape, Every):
        inside = {key: shape.shape for key, inner in value.items() if _fits(key, inner, shape)}
    elif isinstance(shape, dict):
        inside = {key: inner for key, inner in shape.items() if key in value and _is(value[key], inner)}
    elif isinstance(shape, list):
        for one in value:
            yield from left_out(one, shape[0], place) if _is(one, shape[0]) else (place,)
        return
    else:
        return
    if len(inside) < len(value):
        yield f"{place}: {len(value) - len(inside)} keys".removeprefix(": ")
    for key, inner in inside.items():
        yield from left_out(value[key], inner, f"{place}, {key}".removeprefix(", "))


def _fits(key: Any, value: Any, every: Every) -> bool:
    return isinstance(key, str) and _KEY.fullmatch(key) is not None and _is(value, every.shape)


def _is(value: Any, shape: Shape) -> bool:
    """Whether a value is of the type of its shape, whatever it holds; null stands for any that is not given."""
    if value is None:
        return callable(shape)
    if isinstance(shape, Every | dict):
        return isinstance(value, Mapping)
    if isinstance(shape, list):
        return isinstance(value, list | tuple)
    return bool(shape(value))
