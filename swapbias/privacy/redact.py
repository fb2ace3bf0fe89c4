"""A run's manifest as others may see it: nothing in it names a place on the user's machine or network."""

import html
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any
from urllib.parse import unquote, urlsplit

from swapbias.files import SUFFIXES

OWN_ENDPOINT = "own endpoint"  # stands for an address that only the user can reach
OWN_NOTES = "own notes"  # stands for a file or folder of the user's notes: its name may tell of a ward or a patient
UNSHARED = ("price_in", "price_out")  # settings that are nobody else's business
_PLACE = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:")  # how a path of a machine begins
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", re.IGNORECASE)
_PRIVATE_ENDINGS = (
    "local", "localhost", "localdomain", "internal", "intranet", "lan", "corp", "home", "private", "test", "example",
    "invalid", "home.arpa",
)  # fmt: skip
Models = Sequence[Mapping[str, Any]]  # what pins each down, as a manifest lists them
_HOMES = ("home", "Users", "users")  # folders of everybody's home
_SHORTEST_SECRET = 6  # characters of a part of an address that is looked for alone: shorter ones are words
_NO_SECRET = re.compile(r"v?\d[\d.-]{0,11}(-preview)?|true|false")  # versions and dates, as addresses ask for them
_WRITTEN = ("findings.csv", "findings.parquet", "lexicon_coverage.csv")  # names that every run has itself


def public_model(name: str) -> str:
    """A model's name without the path that an endpoint may serve it by.

    >>> public_model("/models/llama-3"), public_model("google-bert/bert-base-uncased")
    ('llama-3', 'google-bert/bert-base-uncased')
    """
    return _last(name) if _PLACE.match(name) else name


def public_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest without anything of the user's machine; what is public already stays as it is.

    Paths become the name of their last part, the user's notes ``own notes``, an endpoint its host if that is a
    public https one and ``own endpoint`` else; prices are left out.
    """
    settings, models = manifest["settings"], manifest.get("models", [])
    endpoint = _endpoint(_part(settings, "chat").get("base_url"))
    public = {**manifest, "settings": _settings(settings, models, endpoint)}
    public.pop("sha256", None)  # of the run's own files, which are written anew where they leave
    if models:
        public["models"] = [_model(one, endpoint) for one in models]
    taken = list(_telling(manifest))
    taken.sort(key=lambda pair: (-len(pair[0]), pair))
    cleaned: dict[str, Any] = _without(public, taken)
    return cleaned


def private_strings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The very strings that ``public_manifest`` takes out, with the folders that tell whose machine it is.

    None of them may appear in a file that leaves the machine, nor as JSON or HTML write them.
    """
    taken = [private for private, _ in _telling(manifest)]
    found = {*taken, *(folder for private in taken for folder in _folders(private) if _tells(folder))}
    written = {form for one in found for form in (one, json.dumps(one)[1:-1], html.escape(one))}
    return tuple(sorted(written))


def own_data(manifest: Mapping[str, Any]) -> str | None:
    """The file or folder of the user's own notes, or what stands for it; None where there are none."""
    data = _part(manifest["settings"], "notes").get("data")
    return str(data) if data else None


def _settings(settings: Mapping[str, Any], models: Models, endpoint: str | None) -> dict[str, Any]:
    public = dict(settings)
    if "model" in public:
        public["model"] = _reduced(public["model"], models)
    notes, chat = _part(settings, "notes"), _part(settings, "chat")
    if notes:
        public["notes"] = {
            **notes,
            "embeddings": [_named(one, models) for one in notes.get("embeddings") or ()],
            "classifier": _reduced(notes.get("classifier"), models),
            "data": OWN_NOTES if notes.get("data") else None,
            **({"checklist": OWN_NOTES if notes["checklist"] else None} if "checklist" in notes else {}),
        }
    if chat:
        kept = {key: value for key, value in chat.items() if key not in UNSHARED}
        public["chat"] = {**kept, "model": _reduced(kept.get("model"), models), "base_url": endpoint}
        if kept.get("log"):
            public["chat"]["log"] = _last(kept["log"])
        if chat.get("judge"):
            address = _endpoint(chat.get("judge_base_url"))
            public["chat"] |= {"judge": _reduced(chat["judge"], models), "judge_base_url": address}
        if chat.get("own_address"):
            public["chat"]["own_address"] = [OWN_ENDPOINT for _ in chat["own_address"]]
    return public


def _model(model: Mapping[str, Any], endpoint: str | None) -> dict[str, Any]:
    """What pins a model down; an endpoint's host as the settings name it."""
    public = {**model, "model_id": public_model(model["model_id"])}
    if isinstance(model.get("judge"), Mapping):
        judge = model["judge"]
        host = {"host": _endpoint(f"https://{judge['host']}")} if judge.get("host") else {}
        public["judge"] = {**judge, "model_id": public_model(judge["model_id"]), **host}
    return {**public, "host": endpoint} if endpoint and public.get("host") else public


def _telling(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each private string that can be looked for in a text, with what stands for it."""
    yield from (pair for pair in _taken_out(manifest) if _tells(pair[0]))
    for name in ("base_url", "judge_base_url"):
        yield from _secrets(_part(manifest["settings"], "chat").get(name))


def _taken_out(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each private string with what stands for it, be it so short that it might stand in any text."""
    settings, models = manifest["settings"], manifest.get("models", [])
    notes, chat = _part(settings, "notes"), _part(settings, "chat")
    named = (notes.get("classifier"), chat.get("model"), chat.get("log"), chat.get("judge"))
    for name in (settings.get("model"), *named):
        if name and _reduced(name, models) != name:
            yield name, _last(name)
    for model in models:
        if public_model(model["model_id"]) != model["model_id"]:
            yield model["model_id"], public_model(model["model_id"])
    for embedding in notes.get("embeddings") or ():
        if _named(embedding, models) != embedding:
            yield _parts(embedding)[1], _last(embedding)
    if notes.get("data") and notes["data"] != OWN_NOTES:
        yield notes["data"], OWN_NOTES
        file = _last(notes["data"])
        if file.lower().endswith(SUFFIXES) and file not in _WRITTEN:
            yield file, OWN_NOTES
    if notes.get("checklist") and notes["checklist"] != OWN_NOTES:
        yield notes["checklist"], OWN_NOTES
    for address in (chat.get("base_url"), chat.get("judge_base_url"), *(chat.get("own_address") or ())):
        yield from _address_parts(address)


def _address_parts(address: str | None) -> Iterator[tuple[str, str]]:
    """An address, and where it is not public its host with and without the port, with what stands for them."""
    endpoint = _endpoint(address)
    if not address or not endpoint or address == endpoint:
        return
    yield address, endpoint
    if endpoint == OWN_ENDPOINT and "://" in address:
        host = re.split(r"[/?#]", address.partition("://")[2])[0].rpartition("@")[2]
        yield host, OWN_ENDPOINT
        yield re.sub(r":[0-9]*$", "", host), OWN_ENDPOINT


def _secrets(address: str | None) -> Iterator[tuple[str, str]]:
    """What gives access in an address: who logs in and how, and the values of its query; each as it is written there
    and as it is meant.
    """
    if not address or address == OWN_ENDPOINT:
        return
    place = address.partition("://")[2] or address
    login = re.split(r"[/?#]", place)[0].rpartition("@")[0]
    name, colon, password = login.partition(":")
    query = place.partition("#")[0].partition("?")[2]
    values = [part.partition("=")[2] or part for part in re.split(r"[&;]", query)]
    # A name without a password is a token; beside one it is a word that may stand in any text.
    for one in (login, password if colon else name, *values):
        for form in dict.fromkeys((one, unquote(one))):
            if len(form) >= _SHORTEST_SECRET and not _NO_SECRET.fullmatch(form):
                yield form, OWN_ENDPOINT


def _without(value: Any, taken: list[tuple[str, str]]) -> Any:
    """Any native value, private strings replaced wherever they stand in a text (the longest first)."""
    if isinstance(value, Mapping):
        return {key: _without(inner, taken) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without(inner, taken) for inner in value]
    if not isinstance(value, str):
        return value
    for private, public in taken:
        value = value.replace(private, public)
    return value


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The settings of one part; a manifest of another version may lack it."""
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}


def _tells(private: str) -> bool:
    """Whether a string tells something of the machine: a whole path, an address, a host with a dot or a port.

    A relative path or the bare name of a host might stand in any text.
    """
    return bool(_PLACE.match(private)) or ":" in private or ("." in private and not re.search(r"[/\\]", private))


def _parts(embedding: str) -> tuple[str, str]:
    """``NAME=PATH`` as name and path; the name is blank where none is given."""
    name, equals, place = embedding.partition("=")
    return (name, place) if equals and not _PLACE.match(name) else ("", embedding)


def _named(embedding: str, models: Models) -> str | None:
    """An embedding with its path reduced; what the Hub pins by a revision is a Hub id."""
    name, place = _parts(embedding)
    if not name:
        return _reduced(embedding, models)
    pinned = any(one["model_id"].partition("+")[0] == name and "revision" in _part(one, "features") for one in models)
    hub = pinned and place.count("/") == 1 and not _PLACE.match(place)
    return embedding if hub else f"{name}={_last(place)}"


def _reduced(name: str | None, models: Models) -> str | None:
    """A model's name: as the findings carry it, else (a path) its last part."""
    if not name or not ("/" in name or "\\" in name):
        return name
    asked = name.partition("@")[0]  # findings carry a Hub id without its revision
    carried = any(one["model_id"] in (name, asked) or one["model_id"].startswith(f"{name}+") for one in models)
    return name if carried and not _PLACE.match(name) else _last(name)


def _last(path: str) -> str:
    """The last part of a path of any system."""
    return PureWindowsPath(path).name or "local"


def _endpoint(address: str | None) -> str | None:
    """The host of a public https address; ``own endpoint`` for any other; None where there is none."""
    if not address or address == OWN_ENDPOINT:
        return address
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        host = parts.hostname or ""
    except ValueError:  # brackets that hold no address
        return OWN_ENDPOINT
    return host if parts.scheme == "https" and _is_public(host) else OWN_ENDPOINT


def _is_public(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        ending = any(host.lower() == one or host.lower().endswith(f".{one}") for one in _PRIVATE_ENDINGS)
        return bool(_HOST.fullmatch(host)) and not ending
    return False


def _folders(path: str) -> Iterator[str]:
    """The folder that a path lies in, and its owner's home; short ones (``/data``) stand in any text."""
    if not _PLACE.match(path):
        return
    parts = re.split(r"[/\\]", path)
    gap = "\\" if "\\" in path else "/"
    if len([part for part in parts[:-1] if part]) > 1:
        yield gap.join(parts[:-1])
    homes = [index for index, part in enumerate(parts[:-2]) if part in _HOMES and index <= 1]
    yield from (gap.join(parts[: index + 2]) for index in homes)
