"""A run's manifest as others may see it: keys of one list alone, and no place of the user's machine or network."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from swapbias.files import SUFFIXES

OWN_ENDPOINT = "own endpoint"  # stands for an address that only the user can reach
AND = " + "  # in a model's name in findings: between a model and its adapter
OWN_NOTES = "own notes"  # stands for a file or folder of the user's notes: its name may tell of a ward or a patient
# before the name of an experiment that was run, where a manifest says something of some of its rows alone
PART_OF = "part of "

# --- the keys that leave ----------------------------------------------------------------------------------

_KEYS = tomllib.loads(Path(__file__).with_name("manifest_keys.toml").read_text(encoding="utf-8"))
_NAMED: Mapping[str, str] = _KEYS["named"]
_OBJECTS = frozenset(_KEYS["objects"].split())
_TYPES = {key: kind for kind, keys in _KEYS["types"].items() for key in keys.split()}
_TEXTS = {
    "text": r"[^\x00-\x1f\x7f]{0,300}",
    "long_text": r"[^\x00-\x1f\x7f]{0,2000}",
    "hash": r"[0-9a-f]{40}|[0-9a-f]{64}",
    "name": r"[A-Za-z0-9_.:,/ +@=-]{1,200}",
}


def _is_type(value: Any, kind: str) -> bool:
    if kind in _TEXTS:
        return isinstance(value, str) and re.fullmatch(_TEXTS[kind], value) is not None
    return isinstance(value, bool) == (kind == "flag") and isinstance(value, bool | int | float)


def _allowed(key: Any, value: Any, parent: str) -> bool:
    """Whether an entry of an object may leave, whatever is in it."""
    if parent in _NAMED:
        nested = isinstance(value, Mapping) and parent == "planted"
        return _is_type(key, "name") and (nested or _is_type(value, _NAMED[parent]))
    if isinstance(value, Mapping | list | tuple):
        return key in _OBJECTS or key in (_NAMED if isinstance(value, Mapping) else _TYPES)
    return key in _TYPES and (value is None or _is_type(value, _TYPES[key]))


# --- places of the machine --------------------------------------------------------------------------------

_PLACE = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:")  # how a path of a machine begins
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", re.IGNORECASE)
_PRIVATE = r".*\.(local(host|domain)?|internal|intranet|lan|corp|home(\.arpa)?|private|test|example|invalid)"
# A path of an address that is the same for all of its users.
_GENERIC_PATH = r"(/(v[0-9]+[a-z0-9]*|api|openai|inference|compatible-mode|compatibility|paas))*"
_UNSHARED = ("price_in", "price_out")  # settings that are nobody else's business
_PATHS = ("model", "model_id", "adapter", "classifier", "judge", "scorer", "embeddings", "log")
_ADDRESSES = ("base_url", "own_address")
_OF_RUNS = (
    "findings.csv",
    "findings.parquet",
    "lexicon_coverage.csv",
)  # names that every run has itself


def public_model(name: str) -> str:
    """A model's name without the path that an endpoint may serve it by: ``/models/llama-3`` is ``llama-3``."""
    return _last_part(name) if _PLACE.match(name) else name


def public_manifest(manifest: Mapping[str, Any], *, every: bool = False) -> dict[str, Any]:
    """The manifest without anything of the user's machine, and without entries that swapbias does not write.

    Paths become the name of their last part, the user's notes ``own notes``, an endpoint its host if that is a
    public https one and ``own endpoint`` else. Private strings go wherever they stand in a text. ``every``: keep
    the other entries too, but for prices: for a page, which shows whatever a stranger wrote as text.
    """
    pairs = sorted(
        _replacements(manifest), key=lambda pair: (-len(pair[0]), pair)
    )  # the longest first

    def public(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {
                name: public(inner, key if key == "planted" else name)
                for name, inner in value.items()
                if (every and name not in _UNSHARED) or _allowed(name, inner, key)
            }
        if isinstance(value, list | tuple):
            return [public(one, key) for one in value if every or _allowed(key, one, "")]
        if isinstance(value, str):
            value = _public(value, key, manifest)
            for private, other in pairs:
                value = value.replace(private, other)
        return value

    # What the files of a run hash to is left out: they are written anew.
    return dict(public({key: one for key, one in manifest.items() if key != "sha256"}, ""))


def private_strings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The strings that ``public_manifest`` takes out, with the folders that contain them."""
    found = {private for private, _ in _replacements(manifest)}
    for one in [
        PureWindowsPath(one) if "\\" in one else PurePosixPath(one)
        for one in found
        if _PLACE.match(one)
    ]:
        found |= {
            str(folder)
            for folder in one.parents
            if len(folder.parts) > 2 and _is_distinctive(str(folder))
        }
    return tuple(sorted(found))  # short folders (``/data``) stand in any text


def own_data(manifest: Mapping[str, Any]) -> str | None:
    """The file or folder of the user's own notes, or what stands for it; None where there are none."""
    data = (manifest["settings"].get("notes") or {}).get("data")
    return str(data) if data else None


def _public(value: str, key: str, manifest: Mapping[str, Any]) -> str:
    """A text of a manifest as others may see it: of a path its last part, unless that is a name on the Hub."""
    if key in ("data", "checklist"):
        return OWN_NOTES if value else value
    if key in (*_ADDRESSES, "host") and value:
        return _endpoint(value if key in _ADDRESSES else f"https://{value}")
    if key not in _PATHS or not ("/" in value or "\\" in value):
        return value
    known = {*_names_read(manifest.get("models", []))} & {value, value.partition("@")[0]}
    return value if known and not _PLACE.match(value) else _last_part(value)


def names_within(name: str) -> list[str]:
    """The names of models in one of findings: base and adapter, or the encoder below a classifier.

    >>> names_within("owner/name + lab/lora (4bit)"), names_within("owner/encoder+svm")
    (['owner/name', 'lab/lora'], ['owner/encoder'])
    """
    return [part.partition(" (")[0].partition("+")[0] for part in name.split(AND)]


def _names_read(value: Any) -> Iterator[str]:
    """The names of all models that a manifest's ``models`` hold, however nested."""
    if isinstance(value, Mapping):
        for key in ("model_id", "name", "base"):
            if isinstance(name := value.get(key), str):
                yield from (name, *names_within(name))
        value = list(value.values())
    for inner in value if isinstance(value, list | tuple) else ():
        yield from _names_read(inner)


def _replacements(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each private string that can be looked for in a text, with what stands for it."""
    settings = {**manifest["settings"], "studies": None}
    for key, private in _leaves({"settings": settings, "models": manifest.get("models", [])}, ""):
        public = _public(private, key, manifest)
        file = _last_part(private)
        forms = [private] if public != private and key != "host" else []
        if (
            key == "data"
            and private != OWN_NOTES
            and file.lower().endswith(SUFFIXES)
            and file not in _OF_RUNS
        ):
            forms.append(file)
        if key in _ADDRESSES and public == OWN_ENDPOINT and "://" in private:
            host = re.split(r"[/?#]", private.partition("://")[2])[0]
            forms += [host, re.sub(r":[0-9]*$", "", host)]
        yield from ((one, public) for one in forms if _is_distinctive(one))


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """The texts of a manifest, each with its key."""
    if isinstance(value, Mapping | list | tuple):
        for name, inner in (
            value.items() if isinstance(value, Mapping) else ((key, one) for one in value)
        ):
            yield from _leaves(inner, name)
    elif isinstance(value, str) and value:
        yield key, value


def _is_distinctive(private: str) -> bool:
    """Whether it is a whole path, an address, or a host with a dot or a port: others may be ordinary words."""
    return (
        bool(_PLACE.match(private))
        or ":" in private
        or ("." in private and not re.search(r"[/\\]", private))
    )


def _last_part(path: str) -> str:
    """The last part of a path of any system."""
    return PureWindowsPath(path).name or "local"


def public_address(address: str) -> str:
    """An address of a service that all can reach, its host alone where the path may tell of an account; else a mark.

    >>> public_address("https://api.openai.com/v1"), public_address("https://lab.example.org/tenant-7/v1")
    ('https://api.openai.com/v1', 'lab.example.org')
    >>> public_address("http://10.0.0.7:8000/v1")
    'own endpoint'
    """
    host = _endpoint(address)
    whole = re.fullmatch(
        rf"https://{re.escape(host)}(:443)?{_GENERIC_PATH}/?", address, re.IGNORECASE
    )
    return address if whole and host != OWN_ENDPOINT else host


def _endpoint(address: str) -> str:
    """The host of a public https address; ``own endpoint`` for any other."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        host = parts.hostname or ""
        public = _HOST.fullmatch(host) and not re.fullmatch(_PRIVATE, f".{host.lower()}")
    except ValueError:  # brackets that hold no address
        return OWN_ENDPOINT
    return host if public and parts.scheme == "https" else OWN_ENDPOINT
