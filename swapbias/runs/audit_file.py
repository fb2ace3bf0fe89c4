"""Audits of an ``audit.toml`` of the user, or of the ``manifest.json`` of a run to repeat."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.files import is_there, parse_json
from swapbias.models import SettingsError
from swapbias.models.chat import ChatOptions
from swapbias.runs.kept_studies import STUDIES, open_kept_studies
from swapbias.runs.settings import FileFault, Settings, Toml, from_tables, in_file, option_classes
from swapbias.studies import declared

# A study at a commit.
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", re.ASCII)
# The line where a table of TOML begins.
_TABLE = re.compile(r"\s*\[\s*[\"']?([\w-]+)[\"']?\s*[\].]")
# An option of the command line, with its value.
_OPTION = re.compile(r"(?<![\w-])(?:--|-M )([a-z][a-z-]*)(?:=([^\s,;)]*[^\s,;).:]))?")
# The line of a key of TOML.
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def read_request(
    path: Path,
    api_key_env: str | None = None,
    *,
    base_url: str | None = None,
    fetch_study: Callable[[str], Any] | None = None,
) -> tuple[list[str], Settings, dict[str, Any] | None]:
    """Read an ``audit.toml``, or the ``manifest.json`` of a run to repeat.

    Args:
        path: the path of the file. A TOML file has ``models`` (or ``model``), found beside it, and settings
            as a manifest has
            them; beside a manifest are the files of the user's own studies.
        api_key_env: variable with the key of a service.
        base_url: address of a service that a shared manifest does not tell.
        fetch_study: opens a study of the Hub by OWNER/NAME@COMMIT, whose files are not there.

    Returns:
        The models, the settings, and the manifest of the run to repeat; None for a TOML file.

    Raises:
        UsageError: wrong settings, all of them, or an address or a study that the file does not tell.
        ValueError: a file that cannot be read.
    """
    content = path.read_bytes()
    if path.suffix == ".toml":
        if base_url:
            raise UsageError(f"{path} says what is audited and how. Write base_url into it.")
        models, settings = _read_toml(path, content, api_key_env)
        return models, settings, None
    try:
        manifest = parse_json(content, unique=True)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}). Correct it.") from error
    if not isinstance(manifest, dict) or not {"settings", "corpora"} <= manifest.keys():
        raise ValueError(
            f"{path} is no manifest of a run: it has no settings and corpora. Give another file."
        )
    saved = _with_service(manifest["settings"], base_url, path)
    try:
        settings = Settings.from_manifest(saved, api_key_env)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _open_studies(path, manifest, fetch_study)
    models = [settings.model] if settings.model else []
    return models, settings, manifest


def _read_toml(path: Path, content: bytes, api_key_env: str | None) -> tuple[list[str], Settings]:
    """Return the models and settings of an ``audit.toml``."""
    text, values = _parse_toml(path, content)
    models = values.pop("models", None)
    faults = _model_faults(models, values)
    settings, faults_of_settings = from_tables(values, Toml, api_key_env)
    faults += faults_of_settings
    if settings is None or faults:
        declaration = declared.Declaration(str(path), text, values)
        located = []
        for section, name, sentence in faults:
            keys = tuple(filter(None, (section, name)))
            located.append(declaration.fault(keys, sentence))
        located.sort(key=declared.line_of_fault)
        raise SettingsError(*(fault.sentence for fault in located))
    names = [_beside(path, name) for name in models or [settings.model] if name]
    first = names[0] if names else None
    return names, replace(settings, model=first)


def _parse_toml(path: Path, content: bytes) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and its values."""
    text = ""
    try:
        text = content.decode("utf-8-sig")
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            for line, name in _repeated_names(text):
                raise UsageError(
                    f"{path}:{line}: {name} appears twice. Keep one of them."
                ) from None
        raise ValueError(f"{path} cannot be read ({error}). Correct it.") from error


def _model_faults(models: Any, values: Mapping[str, Any]) -> list[FileFault]:
    """Return what is wrong with the key ``models`` of a file, beside its other values."""
    faults: list[FileFault] = []
    if models is None:
        return faults
    if "model" in values:
        faults.append(("", "model", "model and models both say what is audited. Keep one of them."))
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        sentence = f"models is {in_file(models)}, expected a list of names. Correct it."
        faults.append(("", "models", sentence))
    return faults


def _beside(path: Path, model: str) -> str:
    """Return a model by its whole path where it lies beside a file, else its name."""
    beside = path.parent / model
    return str(beside.resolve()) if is_there(beside) else model


def _repeated_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a TOML file whose key or table stood before, with its name."""
    table = ""
    names: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = f"[{header[1]}]"
            name = table
        elif key := _KEY.match(line):
            name = key[1]
            if table:
                name = f"{name} of {table}"
        else:
            continue
        if name in names:
            yield number, name
        names.add(name)


@contextmanager
def named_in_file(path: str) -> Iterator[None]:
    """Name settings as an ``audit.toml`` writes them in the errors that are raised inside, and the file.

    Args:
        path: the path of the file.
    """
    try:
        yield
    except ValueError as error:
        if len(error.args) == 1:
            error.args = (_in_file_words(str(error), path),)
        raise


def _in_file_words(sentence: str, path: str) -> str:
    """Return a sentence about options of the command line as one about keys of a file; any other as it is."""
    settings = {
        setting.key: setting
        for options in (Settings, *option_classes())
        for setting in options.settings()
    }

    def write_key(option: re.Match[str]) -> str:
        """Return the key that stands in a file for an option, with its value."""
        name = {"study": "studies"}.get(option[1], option[1])
        setting = settings.get(name)
        if setting is None or setting.use.unsaved:
            return option[0]
        if not option[2]:
            return Toml.name(setting)
        return f"{Toml.name(setting)} = {option[2]}"

    in_words = _OPTION.sub(write_key, sentence)
    if in_words == sentence:
        return sentence
    return f"{path}: {in_words}"


def _with_service(saved: Any, base_url: str | None, path: Path) -> Any:
    """Return settings of a manifest with the address of their service, which a shared one does not tell."""
    chat: Mapping[str, Any] = {}
    if isinstance(saved, Mapping) and isinstance(saved.get(ChatOptions.key), Mapping):
        chat = saved[ChatOptions.key]
    address = chat.get("base_url")
    is_hidden = isinstance(address, str) and "://" not in address
    if base_url and not is_hidden:
        raise UsageError(f"{path} says what is audited and how, and --base-url is given. Drop it.")
    if not is_hidden:
        return saved
    if not base_url:
        raise UsageError(
            f"{path} does not tell the address of the service. Give it with --base-url."
        )
    own_address = [base_url] if chat.get("own_address") else []
    with_service = {**chat, "base_url": base_url, "own_address": own_address}
    return {**saved, ChatOptions.key: with_service}


def _open_studies(
    path: Path, manifest: Mapping[str, Any], fetch_study: Callable[[str], Any] | None
) -> None:
    """Make the user's own studies of a manifest known, by their files beside it or from the Hub."""
    for name, origin in open_kept_studies(path.parent, manifest).items():
        if fetch_study is None or not _ON_HUB.fullmatch(origin):
            kept = path.parent / STUDIES / name
            raise UsageError(
                f"The run read an own study, whose files are not in {kept}. Copy them there."
            )
        fetch_study(origin)
