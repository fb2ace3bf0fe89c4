"""The command that repeats a run, from the settings of its manifest: all that changes a result, nothing private."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from swapbias.files import is_there
from swapbias.models import LoadOptions, Setting, model_names
from swapbias.models.chat import ChatOptions
from swapbias.privacy import manifest_redaction, names_within, public_address
from swapbias.runs.kept_studies import LOCAL, STUDIES
from swapbias.runs.run import RELEASED, ROUNDS
from swapbias.runs.settings import Settings, option_classes

PLACEHOLDERS = {
    "MODEL": "the audited model", "RUN": "the folder of this run", "URL": "the address of the service",
    "NOTES": "the notes", "CHECKLIST": "their checklist", "PLACE": "the folder that contains it",
}  # fmt: skip
# Places of notes: their names may tell of patients.
_PRIVATE = {"data": "NOTES", "checklist": "CHECKLIST"}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f`\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_PATH = re.compile(r"[/\\~.]|[A-Za-z]:[/\\]")  # how a path of a machine begins
_AUDITED = "model"  # stands for the option that names the audited model
_ADDRESSES = ("base_url", "own_address")
_PLACED = "placed"  # the key of a manifest with the names of what was given by a path, which has no path in public


def repeat_command(manifest: Mapping[str, Any], *, page: str = "", revision: str = "") -> str:
    """Return the command of a shell that repeats the run of a manifest, its own or a public one.

    Every setting stands in it that differs from its default and is no matter of speed or costs. Models of the Hub
    are at the commits that were read; a folder of this machine has the last part of its path; ``PLACEHOLDERS`` stand
    for what only its owner has.

    Args:
        manifest: the manifest of a run that was begun.
        page: the name on the Hub of the audited model, or of its adapter, where the run read it under another.
        revision: the commit of that page whose files are those that were read.
    """
    if manifest.get(RELEASED):
        return shlex.join(
            ["swapbias", "reproduce", *manifest["settings"]["studies"], "--out", "FOLDER"]
        )
    return shlex.join(["swapbias", "audit", *_words(manifest, _Places(manifest, page, revision))])


def placed_names(saved: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the entry of a manifest that tells names of folders and files from those of the Hub.

    Args:
        saved: settings of a manifest.

    Returns:
        the last parts of models and files outside of the working folder; no entry where there are none.
    """
    values = [saved.get("model")]
    for options in option_classes():
        of_kind = saved.get(options.key) or {}
        values += [
            of_kind.get(setting.name)
            for setting in options.settings()
            if setting.use.place and setting.option not in _PRIVATE
        ]
    paths = [value for value in values if isinstance(value, str) and _PATH.match(value)]
    names = sorted({_last_part(path) for path in paths if not _is_in_working_folder(path)})
    return {_PLACED: names} if names else {}


def _is_in_working_folder(path: str) -> bool:
    """Return whether the last part of a path is enough where the command is run."""
    return is_there(path) and Path(path).resolve().parent == Path.cwd().resolve()


def without_speed(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of speed and costs, which change no question.

    Args:
        saved: settings of a manifest.
    """
    kept = dict(saved)
    for options in option_classes():
        speed = {setting.name for setting in options.settings() if setting.use.speed}
        values = kept.get(options.key)
        if isinstance(values, Mapping):
            kept[options.key] = {name: value for name, value in values.items() if name not in speed}
    return kept


def placeholders_in(command: str) -> dict[str, str]:
    """Return the placeholders of a command, with what they stand for.

    Args:
        command: the command that ``repeat_command`` gives.
    """
    words = set(re.findall(r"[A-Z]+", " ".join(re.split(r"[=/:\s]", command))))
    return {name: meaning for name, meaning in PLACEHOLDERS.items() if name in words}


class _Places:
    """The models and files that a manifest names, as a command for others names them."""

    def __init__(self, manifest: Mapping[str, Any], page: str, revision: str) -> None:
        self.pins: Sequence[Mapping[str, Any]] = manifest.get("models", ())
        self.in_memory = bool(manifest.get("in_memory"))
        self.placed: Sequence[str] = manifest.get(_PLACED, ())
        self.page = f"{page}@{revision}" if page and revision else page
        self.adapted: Mapping[str, Any] = next((pin for pin in self.pins if pin.get("adapter")), {})
        self.encoders = {
            name
            for pin in self.pins
            if pin.get("features")
            for name in names_within(pin["model_id"])
        }

    def name(self, value: str, option: str) -> str:
        """Return a model or file as the option of that name has it.

        Args:
            value: the value of the manifest.
            option: name of the option.
        """
        if option == _AUDITED and self.in_memory:
            return "MODEL"
        if option in _PRIVATE:
            return _PRIVATE[option]
        name = _last_part(value) if _PATH.match(value) else model_names.as_pinned(value, self.pins)
        if self.page and self._is_of_page(name, option):
            return self.page
        return f"PLACE/{name}" if name in self.placed else name

    def _is_of_page(self, name: str, option: str) -> bool:
        """Return whether a name stands for the model that has the page."""
        if self.adapted:
            return option == "adapter"
        return option == _AUDITED or self._is_encoder(name)

    def _is_encoder(self, name: str) -> bool:
        return names_within(name.partition("@")[0])[0] in self.encoders


def _last_part(path: str) -> str:
    """Return the last part of a path, also of one of another system."""
    name = Path(path).resolve().name if is_there(path) else PureWindowsPath(path).name
    return name or "MODEL"


def _words(manifest: Mapping[str, Any], places: _Places) -> Iterator[str]:
    """Yield the words of the command behind ``swapbias audit``."""
    saved = _with_split_adapter(manifest["settings"], places)
    model = saved.get("model")
    if model:
        yield _printable(places.name(str(model), _AUDITED), "MODEL")
    options: list[tuple[str, str]] = []
    for options_class in option_classes():
        values = saved.get(options_class.key) or {}
        if options_class is ChatOptions:
            values = _within_limits(values, manifest)
        options += _options(options_class, values, places)
    for flag, value in options:
        if flag == "--chat":
            yield from (flag, value)
    yield from _studies(manifest)
    yield from _plain_options(saved, places)
    for flag, value in options:
        if flag != "--chat":
            yield from (flag, value)
    if (saved.get(LoadOptions.key) or {}).get("trust_remote_code"):
        yield "--trust"


def _with_split_adapter(saved: Mapping[str, Any], places: _Places) -> Mapping[str, Any]:
    """Return settings that name base and adapter, where an adapter was named in place of a model."""
    load = saved.get(LoadOptions.key) or {}
    if not places.adapted or load.get("adapter"):
        return saved
    base = places.adapted["base"]
    load = {**load, "adapter": places.adapted["adapter"]["name"], "subfolder": ""}
    split = {**saved, LoadOptions.key: load}
    if saved.get("model"):
        return {**split, "model": base}
    chat = saved.get(ChatOptions.key) or {}
    if chat.get("model"):
        return {**split, ChatOptions.key: {**chat, "model": base}}
    return saved


def _within_limits(chat: Mapping[str, Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings of a chat model with the trials that its limits allowed."""
    whole = (manifest.get(ROUNDS) or {}).get("whole")
    return {**chat, "trials": whole} if whole else chat


def _plain_options(saved: Mapping[str, Any], places: _Places) -> Iterator[str]:
    """Yield the settings of every audit that differ from their defaults."""
    for setting in Settings.settings():
        value = saved.get(setting.name, setting.default)
        is_known = setting.name == "kind" and places.in_memory
        if setting.use.elsewhere or value == setting.default or is_known:
            continue
        if setting.name == "wordings":
            yield "--wordings" if value else "--no-wordings"
        else:
            yield from _option(setting, value)


def _studies(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the studies that were named; of the user's own the commit on the Hub, or the files that the run keeps."""
    origins = manifest.get("own_studies") or {}
    # Where the manifest does not say which were named, those that were read.
    corpora = dict.fromkeys(str(entry["corpus"]) for entry in manifest.get("corpora", ()))
    for study in manifest["settings"].get("studies", corpora):
        name, colon, config = str(study).partition(":")
        origin = str(origins.get(name, ""))
        source = f"RUN/{STUDIES}/{name}" if origin == LOCAL else origin or name
        yield from ("--study", _printable(source + colon + config, "STUDY"))


def _options(
    options_class: Any, saved: Mapping[str, Any], places: _Places
) -> Iterator[tuple[str, str]]:
    """Yield the settings of a kind of model that differ from their defaults and are no matter of speed."""
    for setting in options_class.settings():
        value = _as_default(saved.get(setting.name, setting.default), setting.default)
        if value == setting.default or setting.use.speed or setting.use.unsaved:
            continue
        parts = dict.fromkeys(value) if isinstance(value, tuple) else [value]
        for part in parts:
            yield _option(setting, _public_value(setting, part, places))


def _public_value(setting: Setting, value: Any, places: _Places) -> Any:
    """Return a value as others may see it: a model or file by its public name, an address that they may reach."""
    if setting.use.place:
        option = _AUDITED if setting.option == ChatOptions.key else setting.option
        return places.name(str(value), option)
    if setting.name in _ADDRESSES:
        return _address(str(value))
    return value


def _as_default(value: Any, default: Any) -> Any:
    """Return a saved value in the type of its default: several as a tuple, or as a text with commas between."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(value) if isinstance(default, tuple) else ",".join(map(str, value))


def _address(value: str) -> str:
    """Return the address of a service that others may reach; a placeholder for one that only its owner reaches."""
    public = public_address(value)
    if public == manifest_redaction.OWN_ENDPOINT or not urlsplit(public).scheme:
        return "URL"
    return public


def _option(setting: Setting, value: Any) -> tuple[str, str]:
    """Return an option and its value, as the command line has them."""
    written = str(value).lower() if isinstance(value, bool) else str(value)
    text = _printable(written, "VALUE")
    return (setting.written, text) if setting.use.flag else ("-M", f"{setting.key}={text}")


def _printable(text: str, placeholder: str) -> str:
    """Return a text in one line of a page; a placeholder for one that could end the line or the block of code."""
    return placeholder if _UNPRINTABLE.search(text) else text
