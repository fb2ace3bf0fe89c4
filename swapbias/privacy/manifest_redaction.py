"""Make the public copy of a run's manifest: only allow-listed keys, no local paths and no private hosts."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from swapbias.files import SUFFIXES

OWN_ENDPOINT = "own endpoint"
"""Replaces an address that only the user can reach."""
ADAPTER_SEPARATOR = " + "
"""Stands between a model and its adapter in the model's name in findings."""
OWN_NOTES = "own notes"
"""Replaces a file or folder of the user's notes: its name may tell of a ward or a patient."""
PARTIAL_EXPERIMENT_PREFIX = "part of "
"""Prefix of an experiment's name in a manifest entry about only some of its rows, where the others were run."""

# --- allow-listed keys ------------------------------------------------------------------------------------

_SCHEMA = tomllib.loads(Path(__file__).with_name("manifest_keys.toml").read_text(encoding="utf-8"))
# Key of an object whose own keys are free names (of models, studies): the type of its values.
_TYPE_OF_VALUES: Mapping[str, str] = _SCHEMA["named"]
# Keys of objects and lists, whose entries are checked one by one.
_OBJECT_KEYS = frozenset(_SCHEMA["objects"].split())
# Key of a plain value: its type.
_TYPE_OF_KEY = {key: kind for kind, keys in _SCHEMA["types"].items() for key in keys.split()}
_TEXT_PATTERNS = {
    "text": r"[^\x00-\x1f\x7f]{0,300}",
    "long_text": r"[^\x00-\x1f\x7f]{0,2000}",
    "hash": r"[0-9a-f]{40}|[0-9a-f]{64}",
    "name": r"[A-Za-z0-9_.:,/ +@=-]{1,200}",
}


def _is_type(value: Any, kind: str) -> bool:
    """Return whether a value is of a type of manifest_keys.toml."""
    if kind in _TEXT_PATTERNS:
        return isinstance(value, str) and re.fullmatch(_TEXT_PATTERNS[kind], value) is not None
    if kind == "flag":
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_allowed(key: Any, value: Any, parent: str) -> bool:
    """Return whether an entry may be published; the entries of an object or list are checked one by one later.

    ``parent`` is the key of the object that the entry is in; blank for the manifest itself and for items of a list.
    """
    if parent in _TYPE_OF_VALUES:
        if not _is_type(key, "name"):
            return False
        # Its values may be objects of numbers, whose entries are checked by this same rule.
        if parent == "planted" and isinstance(value, Mapping):
            return True
        return _is_type(value, _TYPE_OF_VALUES[parent])
    if isinstance(value, Mapping):
        return key in _OBJECT_KEYS or key in _TYPE_OF_VALUES
    if isinstance(value, list | tuple):
        return key in _OBJECT_KEYS or key in _TYPE_OF_KEY
    return key in _TYPE_OF_KEY and (value is None or _is_type(value, _TYPE_OF_KEY[key]))


# --- local paths and private hosts ------------------------------------------------------------------------

_PATH_START = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:")
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", re.IGNORECASE)
_PRIVATE_HOST = re.compile(
    r".*\.(local(host|domain)?|internal|intranet|lan|corp|home(\.arpa)?|private|test|example|invalid)"
)
# A path of an address that is the same for all of its users.
_GENERIC_PATH = r"(/(v[0-9]+[a-z0-9]*|api|openai|inference|compatible-mode|compatibility|paas))*"
# Prices that a user agreed with a provider are never published.
_UNSHARED_KEYS = ("price_in", "price_out")
# Keys whose values may be a path.
_PATH_KEYS = (
    "model",
    "model_id",
    "adapter",
    "classifier",
    "judge",
    "scorer",
    "embeddings",
    "adjectives",
    "prompt_data",
    "log",
)
_ADDRESS_KEYS = ("base_url", "own_address")
# Names of files that every run writes: they are not private where the user's notes have one of them.
_FILES_OF_RUNS = (
    "findings.csv",
    "findings.parquet",
    "lexicon_coverage.csv",
    "selection_rates.csv",
)


def public_model(name: str) -> str:
    """Return a model's name without the path that an endpoint may serve it by: ``/models/llama-3`` is ``llama-3``.

    Args:
        name: the model's name in findings or in a manifest.

    Returns:
        The name itself, or its last part where it is a path.
    """
    return _last_part(name) if _PATH_START.match(name) else name


def public_manifest(manifest: Mapping[str, Any], *, keep_unknown: bool = False) -> dict[str, Any]:
    """Return a manifest without anything of the user's machine, and without entries that swapbias does not write.

    Of a path only the last part is kept, of an endpoint only its host if that is a public https one; any other
    endpoint becomes ``own endpoint`` and the user's notes ``own notes``. Wherever one of these private strings
    appears within another text it is replaced there too.

    Args:
        manifest: a run's manifest as it is on disk.
        keep_unknown: True: entries that swapbias does not write are kept too, except prices. A report page needs
            them: it shows every entry, as plain text, also one that a stranger wrote.

    Returns:
        A new manifest, without hashes of the run's files: they are written anew.
    """
    entries = {key: value for key, value in manifest.items() if key != "sha256"}
    return _Publisher(manifest, keep_unknown).publish_entries(entries, "")


class _Publisher:
    """Make the values of one manifest public, whatever objects and lists they are in."""

    def __init__(self, manifest: Mapping[str, Any], keep_unknown: bool) -> None:
        self.keep_unknown = keep_unknown
        self.model_names = _names_of_models(manifest)
        # The longest first: a short one may be a part of it.
        self.replacements = sorted(_replacements(manifest), key=lambda pair: (-len(pair[0]), pair))

    def publish(self, value: Any, key: str) -> Any:
        """Return the public form of a value, which has this key in the manifest."""
        if isinstance(value, Mapping):
            return self.publish_entries(value, key)
        if isinstance(value, list | tuple):
            # A list was allowed by its key alone: here each item is checked as a value of that key.
            items = (item for item in value if self.keep_unknown or _is_allowed(key, item, ""))
            return [self.publish(item, key) for item in items]
        if isinstance(value, str):
            return self.publish_text(value, key)
        return value

    def publish_entries(self, entries: Mapping[str, Any], parent: str) -> dict[str, Any]:
        """Return the public entries of the object with the key ``parent``."""
        published = {}
        for key, value in entries.items():
            is_kept_unknown = self.keep_unknown and key not in _UNSHARED_KEYS
            if is_kept_unknown or _is_allowed(key, value, parent):
                # Objects within ``planted`` have free names as keys: they are checked as ``planted`` itself is.
                published[key] = self.publish(value, parent if parent == "planted" else key)
        return published

    def publish_text(self, text: str, key: str) -> str:
        """Return the public form of a text, without private strings of other entries."""
        text = _public_text(text, key, self.model_names)
        for private, public in self.replacements:
            text = text.replace(private, public)
        return text


def private_strings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the strings that ``public_manifest`` replaces, and the folders that contain them.

    Args:
        manifest: a run's manifest as it is on disk.

    Returns:
        Strings in alphabetical order, without short folders (``/data``), which may occur in any text.
    """
    strings = {private for private, _ in _replacements(manifest)}
    for private in [string for string in strings if _PATH_START.match(string)]:
        path = PureWindowsPath(private) if "\\" in private else PurePosixPath(private)
        long_folders = (str(folder) for folder in path.parents if len(folder.parts) > 2)
        strings.update(folder for folder in long_folders if _is_distinctive(folder))
    return tuple(sorted(strings))


def own_data(manifest: Mapping[str, Any]) -> str | None:
    """Return the file or folder of the user's own notes.

    Args:
        manifest: a run's manifest, on disk or public.

    Returns:
        A path, or ``OWN_NOTES`` in a public manifest; None where the run has no notes of the user's.
    """
    data = (manifest["settings"].get("notes") or {}).get("data")
    return str(data) if data else None


def _public_text(value: str, key: str, model_names: Collection[str]) -> str:
    """Return the public form of a text of a manifest: of a path its last part, unless it is the id of a model."""
    if value and key in ("data", "checklist"):
        return OWN_NOTES
    if value and key in _ADDRESS_KEYS:
        return _endpoint(value)
    if value and key == "host":
        return _endpoint(f"https://{value}")
    if key not in _PATH_KEYS or not ("/" in value or "\\" in value):
        return value
    is_model = value in model_names or value.partition("@")[0] in model_names
    if is_model and not _PATH_START.match(value):
        return value
    return _last_part(value)


def names_within(name: str) -> list[str]:
    """Split a model's name in findings into the names of its models: base and adapter, or the classifier's encoder.

    >>> names_within("owner/name + lab/lora (4bit)"), names_within("owner/encoder+svm")
    (['owner/name', 'lab/lora'], ['owner/encoder'])

    Args:
        name: a model's name in findings.

    Returns:
        Names without the remarks in brackets, such as ``(4bit)``.
    """
    return [part.partition(" (")[0].partition("+")[0] for part in name.split(ADAPTER_SEPARATOR)]


def _names_of_models(manifest: Mapping[str, Any]) -> set[str]:
    """Return the names of all models in a manifest's ``models``, however nested."""
    return set(_iterate_model_names(manifest.get("models", [])))


def _iterate_model_names(value: Any) -> Iterator[str]:
    """Yield the names of models in a value of a manifest and in all values within it."""
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        for key in ("model_id", "name", "base"):
            name = value.get(key)
            if isinstance(name, str):
                yield from (name, *names_within(name))
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    for item in inner:
        yield from _iterate_model_names(item)


def _replacements(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each private string that can be searched for in a text, with its replacement."""
    # Names of studies are public and never replaced.
    settings = {**manifest["settings"], "studies": None}
    searched = {"settings": settings, "models": manifest.get("models", [])}
    model_names = _names_of_models(manifest)
    for key, private in _texts_with_keys(searched, ""):
        public = _public_text(private, key, model_names)
        for form in _private_forms(private, public, key):
            if _is_distinctive(form):
                yield form, public


def _private_forms(private: str, public: str, key: str) -> list[str]:
    """Return the forms in which a private value of a manifest may occur in a text."""
    forms = []
    if public != private and key != "host":
        forms.append(private)
    if key == "data" and private != OWN_NOTES:
        file = _last_part(private)
        if file.lower().endswith(SUFFIXES) and file not in _FILES_OF_RUNS:
            forms.append(file)
    if key in _ADDRESS_KEYS and public == OWN_ENDPOINT and "://" in private:
        host = re.split(r"[/?#]", private.partition("://")[2])[0]
        forms += [host, re.sub(r":[0-9]*$", "", host)]
    return forms


def _texts_with_keys(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each text of a manifest, however nested; items of a list have the list's key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts_with_keys(inner, name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_with_keys(item, key)
    elif isinstance(value, str) and value:
        yield key, value


def _is_distinctive(private: str) -> bool:
    """Return whether a string is a path, an address, or a host with a dot or a port; others may be ordinary words."""
    if _PATH_START.match(private) or ":" in private:
        return True
    return "." in private and not re.search(r"[/\\]", private)


def _last_part(path: str) -> str:
    """Return the last part of a path of any operating system; ``local`` for a root such as ``/``, which has none."""
    return PureWindowsPath(path).name or "local"


def public_address(address: str) -> str:
    """Return the public form of the address of a chat service.

    >>> public_address("https://api.openai.com/v1"), public_address("https://lab.example.org/tenant-7/v1")
    ('https://api.openai.com/v1', 'lab.example.org')
    >>> public_address("http://10.0.0.7:8000/v1")
    'own endpoint'

    Args:
        address: an address of a chat service.

    Returns:
        The whole address where everyone can reach it and its path is the same for all users; only its host where
        the path may identify an account; ``OWN_ENDPOINT`` where only the user can reach it.
    """
    host = _endpoint(address)
    if host == OWN_ENDPOINT:
        return host
    pattern = rf"https://{re.escape(host)}(:443)?{_GENERIC_PATH}/?"
    is_generic = re.fullmatch(pattern, address, re.IGNORECASE) is not None
    return address if is_generic else host


def _endpoint(address: str) -> str:
    """Return the host of a public https address; ``own endpoint`` for any other."""
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        host = parts.hostname or ""
        public = _HOST.fullmatch(host) and not _PRIVATE_HOST.fullmatch(f".{host.lower()}")
    except ValueError:  # brackets that hold no address
        return OWN_ENDPOINT
    return host if public and parts.scheme == "https" else OWN_ENDPOINT
