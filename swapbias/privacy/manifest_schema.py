"""A run's manifest as others may see it: keys of one list alone, and no place of the user's machine or network."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
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

_SCHEMA = tomllib.loads(Path(__file__).with_name("manifest_keys.toml").read_text(encoding="utf-8"))
_TYPE_OF_VALUES: Mapping[str, str] = _SCHEMA[
    "named"
]  # by the key of an object whose keys are names
_OBJECT_KEYS = frozenset(_SCHEMA["objects"].split())
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
    """Return whether an entry of the object ``parent`` may leave; what is in it is looked at by itself."""
    if parent in _TYPE_OF_VALUES:
        if not _is_type(key, "name"):
            return False
        if parent == "planted" and isinstance(value, Mapping):
            return True
        return _is_type(value, _TYPE_OF_VALUES[parent])
    if isinstance(value, Mapping):
        return key in _OBJECT_KEYS or key in _TYPE_OF_VALUES
    if isinstance(value, list | tuple):
        return key in _OBJECT_KEYS or key in _TYPE_OF_KEY
    return key in _TYPE_OF_KEY and (value is None or _is_type(value, _TYPE_OF_KEY[key]))


# --- places of the machine --------------------------------------------------------------------------------

_PATH_START = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|file:")
_HOST_PATTERN = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", re.IGNORECASE
)
_PRIVATE_HOST = r".*\.(local(host|domain)?|internal|intranet|lan|corp|home(\.arpa)?|private|test|example|invalid)"
# A path of an address that is the same for all of its users.
_GENERIC_PATH = r"(/(v[0-9]+[a-z0-9]*|api|openai|inference|compatible-mode|compatibility|paas))*"
_UNSHARED_KEYS = ("price_in", "price_out")  # settings that are nobody else's business
_PATH_KEYS = ("model", "model_id", "adapter", "classifier", "judge", "scorer", "embeddings", "log")
_ADDRESS_KEYS = ("base_url", "own_address")
_FILES_OF_RUNS = ("findings.csv", "findings.parquet", "lexicon_coverage.csv")


def public_model(name: str) -> str:
    """Return a model's name without the path that an endpoint may serve it by: ``/models/llama-3`` is ``llama-3``.

    Args:
        name: a name as findings or a manifest have it.

    Returns:
        The name itself, or its last part where it is a path.
    """
    return _last_part(name) if _PATH_START.match(name) else name


def public_manifest(manifest: Mapping[str, Any], *, keep_unknown: bool = False) -> dict[str, Any]:
    """Return a manifest without anything of the user's machine, and without entries that swapbias does not write.

    Paths become the name of their last part, the user's notes ``own notes``, an endpoint its host if that is a
    public https one and ``own endpoint`` else. Private strings go wherever they stand in a text.

    Args:
        manifest: a run's manifest as it is on disk.
        keep_unknown: keep the other entries too, but for prices: for a page, which shows whatever a stranger wrote
            as text.

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
        """Return a value as others may see it."""
        if isinstance(value, Mapping):
            return self.publish_entries(value, key)
        if isinstance(value, list | tuple):
            items = (item for item in value if self.keep_unknown or _is_allowed(key, item, ""))
            return [self.publish(item, key) for item in items]
        if isinstance(value, str):
            return self.publish_text(value, key)
        return value

    def publish_entries(self, entries: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return the entries of an object that may leave, each as others may see it."""
        published = {}
        for name, value in entries.items():
            is_kept_unknown = self.keep_unknown and name not in _UNSHARED_KEYS
            if is_kept_unknown or _is_allowed(name, value, key):
                published[name] = self.publish(value, key if key == "planted" else name)
        return published

    def publish_text(self, text: str, key: str) -> str:
        """Return a text as others may see it, without private strings of other entries."""
        text = _public_text(text, key, self.model_names)
        for private, public in self.replacements:
            text = text.replace(private, public)
        return text


def private_strings(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the strings that ``public_manifest`` takes out, with the folders that contain them.

    Args:
        manifest: a run's manifest as it is on disk.

    Returns:
        Strings in alphabetical order, without short folders (``/data``), which stand in any text.
    """
    strings = {private for private, _ in _replacements(manifest)}
    for private in [string for string in strings if _PATH_START.match(string)]:
        path = PureWindowsPath(private) if "\\" in private else PurePosixPath(private)
        long_folders = (str(folder) for folder in path.parents if len(folder.parts) > 2)
        strings.update(folder for folder in long_folders if _is_distinctive(folder))
    return tuple(sorted(strings))


def own_data(manifest: Mapping[str, Any]) -> str | None:
    """Return the file or folder of the user's own notes, or what stands for it.

    Args:
        manifest: a run's manifest, on disk or public.

    Returns:
        A path or a mark; None where the run has no notes of the user's.
    """
    data = (manifest["settings"].get("notes") or {}).get("data")
    return str(data) if data else None


def _public_text(value: str, key: str, model_names: Collection[str]) -> str:
    """Return a text of a manifest as others may see it: of a path its last part, unless a model is named so."""
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
    """Return the names of models in a name of findings: base and adapter, or the encoder below a classifier.

    >>> names_within("owner/name + lab/lora (4bit)"), names_within("owner/encoder+svm")
    (['owner/name', 'lab/lora'], ['owner/encoder'])

    Args:
        name: a model's name in findings.

    Returns:
        Names without what is said of them in brackets.
    """
    return [part.partition(" (")[0].partition("+")[0] for part in name.split(AND)]


def _names_of_models(manifest: Mapping[str, Any]) -> set[str]:
    """Return the names of all models that a manifest's ``models`` hold, however nested."""
    return set(_names_in(manifest.get("models", [])))


def _names_in(value: Any) -> Iterator[str]:
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
        yield from _names_in(item)


def _replacements(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each private string that can be looked for in a text, with what stands for it."""
    settings = {**manifest["settings"], "studies": None}
    model_names = _names_of_models(manifest)
    for key, private in _texts_with_keys(
        {"settings": settings, "models": manifest.get("models", [])}, ""
    ):
        public = _public_text(private, key, model_names)
        for form in _private_forms(private, public, key):
            if _is_distinctive(form):
                yield form, public


def _private_forms(private: str, public: str, key: str) -> list[str]:
    """Return the forms in which a private value of a manifest may stand in a text."""
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
    """Return whether it is a whole path, an address, or a host with a dot or a port: others may be ordinary words."""
    if _PATH_START.match(private) or ":" in private:
        return True
    return "." in private and not re.search(r"[/\\]", private)


def _last_part(path: str) -> str:
    """Return the last part of a path of any system."""
    return PureWindowsPath(path).name or "local"


def public_address(address: str) -> str:
    """Return an address of a service as others may see it.

    >>> public_address("https://api.openai.com/v1"), public_address("https://lab.example.org/tenant-7/v1")
    ('https://api.openai.com/v1', 'lab.example.org')
    >>> public_address("http://10.0.0.7:8000/v1")
    'own endpoint'

    Args:
        address: an address of a chat service.

    Returns:
        The address where all can reach it, its host alone where the path may tell of an account, else
        ``OWN_ENDPOINT``.
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
        public = _HOST_PATTERN.fullmatch(host) and not re.fullmatch(
            _PRIVATE_HOST, f".{host.lower()}"
        )
    except ValueError:  # brackets that hold no address
        return OWN_ENDPOINT
    return host if public and parts.scheme == "https" else OWN_ENDPOINT
