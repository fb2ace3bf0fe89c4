"""What a user asked an audit for: read from options, an audit.toml or a manifest, and saved in the manifest."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from swapbias.errors import UsageError, quoted
from swapbias.files import is_there, parse_json
from swapbias.models import VADER, LoadOptions, Request, kinds, settable, with_revision
from swapbias.models.chat import ChatOptions
from swapbias.studies import did_you_mean, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Request):
    """What to audit and how; stands in the manifest, so that a run can be resumed or repeated.

    ``studies`` holds ``name`` or ``name:config``; empty means all. ``limit`` is the most rows per config; a gap
    below ``margin`` (a share of the range of its unit; None: as its study says, else .05) counts as none.
    ``wordings``: read prompts in other wordings too; None: of experiments that are not run on request alone, where
    nothing is limited.
    """

    studies: tuple[str, ...] = ()
    limit: int | None = None
    margin: float | None = None
    wordings: bool | None = None

    def saved(self) -> dict[str, Any]:
        """As a manifest has them: the options of each kind under their key."""
        found = {name: getattr(self, name) for name in _PLAIN}
        for made in _option_classes():
            options = self.load if made is LoadOptions else self.of(made)
            found[made.key] = {name: getattr(options, name) for name in _saved_names(made)}
        return found

    @classmethod
    def from_manifest(cls, saved: Mapping[str, Any]) -> "Settings":
        """The settings of a manifest, which may be anybody's.

        Raises:
            ValueError: they are not those of this version.
        """
        try:
            return _parse(saved)
        except ValidationError as error:
            wrong = _first_fault(error)[1]
        except (TypeError, ValueError) as error:
            wrong = str(error)[:200]
        raise ValueError(f"The manifest's settings are not of this version ({wrong}). Start a new run.")


_PLAIN = tuple(one.name for one in fields(Settings) if one.name not in ("load", "options"))


def _option_classes() -> tuple[Any, ...]:
    return (LoadOptions, *(one.options for one in kinds() if one.options))


def _saved_names(made: Any) -> list[str]:
    return [one.name for one, _ in settable(made) if not one.metadata.get("unsaved")]


@cache
def _schema(classes: tuple[Any, ...]) -> type[BaseModel]:
    """The saved settings as a pydantic model, those of each class of options as one of their own."""
    strict = ConfigDict(strict=True, extra="forbid", protected_namespaces=())

    def model(made: Any, names: Sequence[str], **inner: Any) -> type[BaseModel]:
        types: dict[str, Any] = {name: (get_type_hints(made)[name], None) for name in names}
        return create_model(made.__name__, __config__=strict, **types, **inner)

    inner = {made.key: (model(made, _saved_names(made)), ...) for made in classes}
    return model(Settings, _PLAIN, **inner)


def _parse(saved: Mapping[str, Any]) -> Settings:
    """Saved settings, without the permission to read pickles, which is asked of whoever goes on with a run."""
    read = _schema(_option_classes()).model_validate_json(json.dumps(saved))
    values = {name: getattr(read, name) for name in read.model_fields_set}
    load, *options = (
        made(**{name: getattr(each, name) for name in each.model_fields_set})
        for made in _option_classes()
        for each in [values.pop(made.key)]
    )
    return Settings(**values, load=replace(load, allow_pickle=False), options=tuple(options))


def _first_fault(error: ValidationError) -> tuple[dict[str, Any], str]:
    """The first fault that pydantic found, and it in words without the value, which may be anything."""
    first: Any = error.errors(include_url=False, include_input=False)[0]
    return first, f"{quoted('.'.join(map(str, first['loc'])))}: {first['msg']}"


def with_access(settings: Settings, access: Mapping[str, Any]) -> Settings:
    """The settings with what no manifest says, by the names of the command line: the name of the key, plain http."""
    chat = settings.of(ChatOptions)
    names = {"key_name": "api_key_env", "plain_http": "plain_http"}
    chat = replace(chat, **{name: access[option] for name, option in names.items() if option in access})
    return replace(settings, options=(*(one for one in settings.options if not isinstance(one, ChatOptions)), chat))


def read_request(path: Path) -> tuple[list[str], Settings, dict[str, Any] | None]:
    """Models, settings and the run to repeat of a file: an ``audit.toml``, or the ``manifest.json`` of a run.

    A TOML file has ``models`` (or ``model``), ``studies`` and the other settings by their names, those of loading in
    ``[load]`` and those of a kind in a table of its own, as a manifest has them; what is left out is as usual. Models
    are found beside the file.

    Returns:
        No model: none is named. The manifest is None for a TOML file.

    Raises:
        UsageError: a setting that there is not. ValueError: a file that cannot be read.
    """
    content = path.read_bytes()
    try:
        read: Any = tomllib.loads(content.decode()) if path.suffix == ".toml" else parse_json(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read ({error}). Mend it.") from error
    if path.suffix != ".toml":
        if not isinstance(read, dict) or not {"settings", "corpora"} <= read.keys():
            raise ValueError(f"{path} is no manifest of a run: it has no settings and corpora. Give another file.")
        settings = Settings.from_manifest(read["settings"])
        return [settings.model] if settings.model else [], settings, read
    models = read.pop("models", None) or [one for one in (read.pop("model", None),) if one]
    if not isinstance(models, list) or not all(isinstance(one, str) for one in models):
        raise UsageError(f"{path}: models is {quoted(models)}, expected a list of names. Correct it.")
    usual = Settings().saved()
    for name, value in read.items():
        table = isinstance(usual.get(name), dict) and isinstance(value, dict)
        usual[name] = {**usual[name], **value} if table else value
    try:
        settings = _parse(usual)
    except ValidationError as error:
        fault, wrong = _first_fault(error)
        if fault["type"] == "extra_forbidden":
            *table, name = fault["loc"]
            known = usual[table[0]].keys() - {name} if table else {*Settings().saved(), "models"}
            raise unknown(
                f"setting{f' of [{table[0]}]' if table else ''} in {path}", str(name), sorted(known)
            ) from None
        raise UsageError(f"{path}: a setting is of the wrong type ({wrong}). Correct it.") from None
    except TypeError as error:  # a date
        raise UsageError(f"{path}: a setting is of the wrong type ({error}). Correct it.") from error
    beside = [str((path.parent / one).resolve()) if is_there(path.parent / one) else one for one in models]
    return beside, _with_log(replace(settings, model=beside[0] if beside else None)), None


def settings_of(
    model: str | None,
    studies: Sequence[str],
    options: Mapping[str, Any],
    *,
    revision: str | None = None,
    **more: Any,
) -> Settings:
    """Settings from what a user asks for.

    Args:
        model: as a user names it; places of this machine become absolute, so that a run can go on from anywhere.
        studies: ``name`` or ``name:config``.
        options: of loading and of kinds, by the names that the command line has; default where there is none.
        revision: of a model on the Hub, which its name then carries.
        more: further fields of ``Settings``.

    Raises:
        UsageError: an option that no kind has, a revision of no model on the Hub.
    """
    known = [one.metadata.get("name", one.name) for made in _option_classes() for one, _ in settable(made)]
    for name in options:
        if name not in known:
            near = did_you_mean(name, known) or f" Expected one of {', '.join(sorted(known))}."
            raise UsageError(f"Unknown option {quoted(name)}.{near}")
    load, *others = (_filled(made, options) for made in _option_classes())
    named = _absolute(model, (VADER,)) if model else None
    if revision is not None:
        named = with_revision(None if named == VADER else named, revision)
    return _with_log(Settings(model=named, studies=tuple(studies), load=load, options=tuple(others), **more))


def _with_log(settings: Settings) -> Settings:
    """The settings with what a log of answers, to which options point, says of model and studies.

    Raises:
        UsageError: it names the studies, and so does the user.
    """
    read = {one.options: one.spelled(settings.of(one.options)) for one in kinds() if one.options}
    studies = tuple(name for _, names in read.values() for name in names)
    if studies and settings.studies:
        raise UsageError(
            f"A log says which study was asked, and {', '.join(settings.studies)} is named too. Drop it."
        )
    options = tuple(read[type(one)][0] if type(one) in read else one for one in settings.options)
    return replace(settings, options=options, studies=settings.studies or studies)


def _filled(made: Any, values: Mapping[str, Any]) -> Any:
    """Options of this class, with absolute places."""
    found = {}
    for one, hint in settable(made):
        value = values.get(one.metadata.get("name", one.name), one.default)
        each = [value] if get_origin(hint) is not tuple or isinstance(value, str) else list(value or ())
        if one.metadata.get("place"):
            each = [item and _absolute(item, one.metadata.get("words", ())) for item in each]
        found[one.name] = tuple(each) if get_origin(hint) is tuple else each[0]
    return made(**found)


def _absolute(model: str, words: Sequence[str]) -> str:
    """A model, or NAME=PATH, with the path of a local file or folder made absolute, so that a run can go on."""
    if model in words:  # a folder of that name does not matter
        return model
    name, equals, path = ("", "", model) if is_there(model) else model.partition("=")  # lr=1e-5 may be a folder
    return f"{name}{equals}{Path(path).resolve()}" if path and is_there(path) else model
