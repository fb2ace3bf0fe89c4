"""Audits that a file says: an ``audit.toml`` of the user's, or the ``manifest.json`` of a run to repeat."""

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

_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", re.ASCII)  # a study at a commit
_TABLE = re.compile(
    r"\s*\[\s*[\"']?([\w-]+)[\"']?\s*[\].]"
)  # the line where a table of TOML begins
_OPTION = re.compile(r"(?<![\w-])(?:--|-M )([a-z][a-z-]*)(?:=([^\s,;)]*[^\s,;).:]))?")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def read_request(
    path: Path,
    api_key_env: str | None = None,
    *,
    base_url: str | None = None,
    fetch_study: Callable[[str], Any] | None = None,
) -> tuple[list[str], Settings, dict[str, Any] | None]:
    """Models, settings and the run to repeat of a file: an ``audit.toml`` (None to repeat), or a ``manifest.json``.

    Args:
        path: of the file. A TOML file has ``models`` (or ``model``), found beside it, and settings as a manifest has
            them; beside a manifest are the files of the user's own studies.
        api_key_env: variable with the key of a service.
        base_url: address of a service that a shared manifest does not tell.
        fetch_study: opens a study of the Hub by OWNER/NAME@COMMIT, whose files are not there.

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
        raise ValueError(f"{path} cannot be read ({error}). Mend it.") from error
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
    return [settings.model] if settings.model else [], settings, manifest


def _read_toml(path: Path, content: bytes, api_key_env: str | None) -> tuple[list[str], Settings]:
    """The models and settings of an ``audit.toml``."""
    try:
        text = content.decode("utf-8-sig")
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        for line, name in _named_twice(text):
            raise UsageError(f"{path}:{line}: {name} stands twice. Keep one of them.") from None
        raise ValueError(f"{path} cannot be read ({error}). Mend it.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}). Mend it.") from error
    faults: list[FileFault] = []
    models = values.pop("models", None)
    if models is not None and "model" in values:
        faults.append(("", "model", "model and models both say what is audited. Keep one of them."))
    if models is not None and not (
        isinstance(models, list) and all(isinstance(name, str) for name in models)
    ):
        faults.append(
            ("", "models", f"models is {in_file(models)}, expected a list of names. Correct it.")
        )
    settings, others = from_tables(values, Toml, api_key_env)
    faults += others
    if settings is None or faults:
        declaration = declared.Declaration(str(path), text, values)
        places = [tuple(filter(None, (section, name))) for section, name, _ in faults]
        found = [
            declaration.fault(place, fault[2]) for place, fault in zip(places, faults, strict=True)
        ]
        raise SettingsError(
            *(fault.sentence for fault in sorted(found, key=declared.line_of_fault))
        )
    names = models or [settings.model]
    beside = [_beside(path, name) for name in names if name]
    return beside, replace(settings, model=beside[0] if beside else None)


def _beside(path: Path, model: str) -> str:
    """A model by its whole path where it lies beside a file, else its name."""
    beside = path.parent / model
    return str(beside.resolve()) if is_there(beside) else model


def _named_twice(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a TOML file whose key or table stood before, with its name."""
    table = ""
    names: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = f"[{header[1]}]"
            name = table
        elif key := _KEY.match(line):
            name = f"{key[1]} of {table}" if table else key[1]
        else:
            continue
        if name in names:
            yield number, name
        names.add(name)


@contextmanager
def named_in_file(path: str) -> Iterator[None]:
    """Errors raised inside name settings as an ``audit.toml`` writes them, and the file."""
    try:
        yield
    except ValueError as error:
        if len(error.args) == 1:
            error.args = (_in_file_words(str(error), path),)
        raise


def _in_file_words(sentence: str, path: str) -> str:
    """A sentence about options of the command line as one about keys of a file; any other as it is."""
    settings = {
        setting.key: setting
        for options in (Settings, *option_classes())
        for setting in options.settings()
    }

    def key(option: re.Match[str]) -> str:
        name = {"study": "studies"}.get(option[1], option[1])
        setting = settings.get(name)
        if setting is None or setting.use.unsaved:
            return option[0]
        return f"{Toml.name(setting)} = {option[2]}" if option[2] else Toml.name(setting)

    words = _OPTION.sub(key, sentence)
    return sentence if words == sentence else f"{path}: {words}"


def _with_service(saved: Any, base_url: str | None, path: Path) -> Any:
    """Settings of a manifest with the address of their service, which a shared one does not tell."""
    saved_chat = saved.get(ChatOptions.key) if isinstance(saved, Mapping) else None
    chat: Mapping[str, Any] = saved_chat if isinstance(saved_chat, Mapping) else {}
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
    own = [base_url] if chat.get("own_address") else []
    return {**saved, ChatOptions.key: {**chat, "base_url": base_url, "own_address": own}}


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
