"""A run's manifest as others may see it: keys of one list alone, and no place of the user's machine or network."""

import html
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any
from urllib.parse import unquote, urlsplit

from swapbias.files import SUFFIXES

OWN_ENDPOINT = "own endpoint"  # stands for an address that only the user can reach
OWN_NOTES = "own notes"  # stands for a file or folder of the user's notes: its name may tell of a ward or a patient
Models = Sequence[Mapping[str, Any]]  # what pins each down, as a manifest lists them
Check = Callable[[Any], bool]

# --- the keys that leave ----------------------------------------------------------------------------------


def _text(pattern: str) -> Check:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_NAME, _WORDS = _text(r"[^\x00-\x1f\x7f]{0,300}"), _text(r"[^\x00-\x1f\x7f]{0,2000}")  # a label; a sentence of ours
_HASH, _KEY = _text(r"[0-9a-f]{40}|[0-9a-f]{64}"), _text(r"[A-Za-z0-9_.:,/ +@=-]{1,200}")
_KEYS: dict[Check, str] = {  # wherever they stand; a list holds values of the type
    _NAME: """
        swapbias status started finished model kind device dtype positive_label negative_label embeddings classifier
        data checklist base_url provider endpoint scoring log judge judge_base_url judge_provider own_address corpus
        config study experiment studies decided model_id architecture revision host library target task inspect_ai
        frequency device_map quantization attn_implementation subfolder adapter
    """,
    _WORDS: "dtype_error truncated pruning repeats unread question reason stopped told",
    _is_number: """
        from_cache seed limit margin batch_size prune explain top_logprobs trials temperature max_tokens concurrency
        max_requests timeout max_cost judge_max_tokens answers_per_request rows of planned after top_k threshold beam
        steps most_lost dev_accuracy definitional_pairs null_words dimension words
    """,
    _is_flag: """
        credentialed in_memory wordings allow_pickle plausible no_seed stop_early json_schema trust_remote_code
    """,
    _HASH: "sha256 module_sha256 log_sha256 answers beside training",
}
_TYPES = {key: check for check, keys in _KEYS.items() for key in keys.split()}
_OBJECTS = {
    "settings", "load", "notes", "chat", "corpora", "skipped", "models", "judge", "features", "trained", "rounds",
    "looks",
}  # fmt: skip
_NAMED: dict[str, Check] = {  # objects whose keys are names, with values of one type
    "versions": _NAME, "own_studies": _NAME, "weights": _HASH, "lexicons": _HASH, "asked": _is_number,
    "planted": _is_number,
}  # fmt: skip


def _allowed(key: Any, value: Any, parent: str) -> bool:
    """Whether an entry of an object may leave, whatever is in it."""
    if parent in _NAMED:
        nested = isinstance(value, Mapping) and parent == "planted"
        return _KEY(key) and (nested or _NAMED[parent](value))
    if isinstance(value, Mapping):
        return key in _OBJECTS or key in _NAMED
    if isinstance(value, list | tuple):
        return key in _TYPES or key in _OBJECTS
    return key in _TYPES and (value is None or _TYPES[key](value))


def filter_manifest(value: Any, key: str = "") -> Any:
    """A manifest with the keys that swapbias writes, each of its type; others are left out.

    >>> filter_manifest({"status": "complete", "note": "of a patient", "from_cache": "x"})
    {'status': 'complete'}
    """
    if isinstance(value, Mapping):
        return {
            name: filter_manifest(inner, key if key == "planted" else name)
            for name, inner in value.items()
            if _allowed(name, inner, key)
        }
    if isinstance(value, list | tuple):
        return [filter_manifest(one, key) for one in value if _allowed(key, one, "")]
    return value


# --- places of the machine --------------------------------------------------------------------------------

_PLACE = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:")  # how a path of a machine begins
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", re.IGNORECASE)
_PRIVATE_ENDINGS = (
    ".local", ".localhost", ".localdomain", ".internal", ".intranet", ".lan", ".corp", ".home", ".private", ".test",
    ".example", ".invalid", ".home.arpa",
)  # fmt: skip
_UNSHARED = ("price_in", "price_out")  # settings that are nobody else's business
_ADDRESSES = ("base_url", "judge_base_url", "own_address")
_SHORTEST_SECRET = 6  # characters of a part of an address that is looked for alone: shorter ones are words
_NO_SECRET = re.compile(r"v?\d[\d.-]{0,11}(-preview)?|true|false")  # versions and dates, as addresses ask for them
_OF_RUNS = ("findings.csv", "findings.parquet", "lexicon_coverage.csv")  # names that every run has itself


def public_model(name: str) -> str:
    """A model's name without the path that an endpoint may serve it by.

    >>> public_model("/models/llama-3"), public_model("google-bert/bert-base-uncased")
    ('llama-3', 'google-bert/bert-base-uncased')
    """
    return _last(name) if _PLACE.match(name) else name


def public_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without anything of the user's machine; what is public already stays as it is.

    Paths become the name of their last part, the user's notes ``own notes``, an endpoint its host if that is a
    public https one and ``own endpoint`` else; prices are left out. Private strings go wherever they stand in a text.
    """
    models = manifest.get("models", [])
    pairs = sorted(_pairs(manifest), key=lambda pair: (-len(pair[0]), pair))  # the longest first

    def public(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {name: public(inner, name) for name, inner in value.items() if name not in _UNSHARED}
        if isinstance(value, list | tuple):
            return [public(one, key) for one in value]
        if isinstance(value, str):
            value = _public(value, key, models)
            for private, other in pairs:
                value = value.replace(private, other)
        return value

    # What the files of a run hash to is left out: they are written anew.
    return {key: public(value, key) for key, value in manifest.items() if key not in ("sha256", *_UNSHARED)}


def private_strings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The very strings that ``public_manifest`` takes out, with the folders that tell whose machine it is.

    None of them may appear in a file that leaves the machine, nor as JSON or HTML write them.
    """
    private = [private for private, _ in _pairs(manifest)]
    found = {*private, *(folder for one in private for folder in _folders(one) if _is_telling(folder))}
    return tuple(sorted({form for one in found for form in (one, json.dumps(one)[1:-1], html.escape(one))}))


def own_data(manifest: Mapping[str, Any]) -> str | None:
    """The file or folder of the user's own notes, or what stands for it; None where there are none."""
    notes = manifest["settings"].get("notes")
    data = notes.get("data") if isinstance(notes, Mapping) else None
    return str(data) if data else None


def _public(value: str, key: str, models: Models) -> str:
    """A text of a manifest as others may see it, by its key."""
    if not value:
        return value
    if key in ("model", "adapter", "classifier", "judge"):
        return _reduced(value, models)
    if key in ("model_id", "log"):
        return public_model(value) if key == "model_id" else _last(value)
    if key in (*_ADDRESSES, "host"):
        return _endpoint(value if key in _ADDRESSES else f"https://{value}")
    if key == "embeddings":
        return _named(value, models)
    return OWN_NOTES if key in ("data", "checklist") else value


def _pairs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each private string that can be looked for in a text, with what stands for it."""
    models = manifest.get("models", [])
    for key, private in _leaves({"settings": {**manifest["settings"], "studies": None}, "models": models}, ""):
        public = _public(private, key, models)
        if key == "embeddings" and public != private:
            private, public = _parts(private)[1], _last(private)
        if public != private and key != "host" and _is_telling(private):
            yield private, public
        file = _last(private)
        if key == "data" and private != OWN_NOTES and file.lower().endswith(SUFFIXES) and file not in _OF_RUNS:
            yield file, OWN_NOTES
        if key in _ADDRESSES and private != OWN_ENDPOINT:
            yield from ((one, OWN_ENDPOINT) for one in _secrets(private))
            if public == OWN_ENDPOINT and "://" in private:
                host = re.split(r"[/?#]", private.partition("://")[2])[0].rpartition("@")[2]
                yield from ((one, public) for one in (host, re.sub(r":[0-9]*$", "", host)) if _is_telling(one))


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """The texts of a manifest, each with its key."""
    if isinstance(value, Mapping | list | tuple):
        for name, inner in value.items() if isinstance(value, Mapping) else ((key, one) for one in value):
            yield from _leaves(inner, name)
    elif isinstance(value, str) and value:
        yield key, value


def _secrets(address: str) -> Iterator[str]:
    """What gives access in an address: who logs in and how, and the values of its query; quoted and plain."""
    place = address.partition("://")[2] or address
    login = re.split(r"[/?#]", place)[0].rpartition("@")[0]
    name, colon, password = login.partition(":")
    query = place.partition("#")[0].partition("?")[2]
    values = [part.partition("=")[2] or part for part in re.split(r"[&;]", query)]
    # A name without a password is a token; beside one it is a word that may stand in any text.
    for one in (login, password if colon else name, *values):
        for form in dict.fromkeys((one, unquote(one))):
            if len(form) >= _SHORTEST_SECRET and not _NO_SECRET.fullmatch(form):
                yield form


def _is_telling(private: str) -> bool:
    """Whether a string tells something of the machine: a whole path, an address, a host with a dot or a port.

    A relative path or the bare name of a host might stand in any text.
    """
    return bool(_PLACE.match(private)) or ":" in private or ("." in private and not re.search(r"[/\\]", private))


def _parts(embedding: str) -> tuple[str, str]:
    """``NAME=PATH`` as name and path; the name is blank where there is none."""
    name, equals, place = embedding.partition("=")
    return (name, place) if equals and not _PLACE.match(name) else ("", embedding)


def _named(embedding: str, models: Models) -> str:
    """An embedding with its path reduced; what the Hub pins by a revision is a Hub id."""
    name, place = _parts(embedding)
    if not name:
        return _reduced(embedding, models)
    pinned = any(
        one["model_id"].partition("+")[0] == name and "revision" in one.get("features", {}) for one in models
    )
    return embedding if pinned and place.count("/") == 1 and not _PLACE.match(place) else f"{name}={_last(place)}"


def _reduced(name: str, models: Models) -> str:
    """A model's name: as the findings carry it, else (a path) its last part."""
    if not ("/" in name or "\\" in name):
        return name
    plain = name.partition("@")[0]  # findings carry a Hub id without its revision
    carried = any(one["model_id"] in (name, plain) or one["model_id"].startswith(f"{name}+") for one in models)
    return name if carried and not _PLACE.match(name) else _last(name)


def _last(path: str) -> str:
    """The last part of a path of any system."""
    return PureWindowsPath(path).name or "local"


def _endpoint(address: str) -> str:
    """The host of a public https address; ``own endpoint`` for any other."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        host = parts.hostname or ""
    except ValueError:  # brackets that hold no address
        return OWN_ENDPOINT
    try:
        ipaddress.ip_address(host)
    except ValueError:
        public = _HOST.fullmatch(host) and not f".{host.lower()}".endswith(_PRIVATE_ENDINGS)
        return host if parts.scheme == "https" and public else OWN_ENDPOINT
    return OWN_ENDPOINT


def _folders(path: str) -> Iterator[str]:
    """The folder that a path lies in, and its owner's home; short ones (``/data``) stand in any text."""
    if _PLACE.match(path):
        parts, gap = re.split(r"[/\\]", path), "\\" if "\\" in path else "/"
        if len([part for part in parts[:-1] if part]) > 1:
            yield gap.join(parts[:-1])
        homes = [at for at, part in enumerate(parts[:-2]) if part.lower() in ("home", "users") and at <= 1]
        yield from (gap.join(parts[: at + 2]) for at in homes)
