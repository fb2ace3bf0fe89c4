"""The settings of an audit: what a command, a call, a file or a manifest says, as one object."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from swapbias.errors import did_you_mean, listed, points_hint, quoted
from swapbias.files import is_there
from swapbias.models import (
    STRICT,
    Fault,
    LoadOptions,
    Options,
    Request,
    Setting,
    SettingsError,
    Use,
    kinds,
    options as model_options,
)
from swapbias.models.chat import ChatOptions
from swapbias.swapping import Engine


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Settings(Request):
    """What to audit and how; stands in the manifest, so that a run can be resumed or repeated."""

    studies: Annotated[model_options.Texts, Use(elsewhere=True)] = ()
    """Names of studies, each NAME or NAME:EXPERIMENT; none: all that fit the model."""
    limit: Annotated[int | None, Field(ge=1), Use(flag=True)] = None
    """Most prompts of each experiment, in whole pairs."""
    margin: Annotated[float | None, Field(ge=0, le=1), Use(flag=True, hint=points_hint)] = None
    """Small gap: a share of the range; 5pt on the command line [0.05]."""
    wordings: Annotated[bool | None, Use(flag=True)] = None
    """Add five rewordings [if fast]."""

    def saved(self) -> dict[str, Any]:
        """Return them as a manifest has them: the options of each kind under their key."""
        saved = {setting.name: getattr(self, setting.name) for setting in self.settings()}
        for options_class in option_classes():
            options = self.load if options_class is LoadOptions else self.of(options_class)
            saved[options_class.key] = {
                name: getattr(options, name) for name in _saved_names(options_class)
            }
        return saved

    @classmethod
    def from_manifest(cls, saved: Any, api_key_env: str | None = None) -> "Settings":
        """Return the settings of a manifest, which may be anybody's.

        Args:
            saved: as ``saved`` gives them; what is not there is as where nothing is set.
            api_key_env: variable with the key of a service, which no manifest names.

        Raises:
            ValueError: a manifest of another version.
        """
        settings, faults = from_tables(saved, Json, api_key_env)
        if settings is None:
            wrong = " ".join(sentence.strip() for _, _, sentence in faults)
            raise ValueError(
                f"The manifest's settings are not of this version. {wrong} Start a new run."
            )
        return settings


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PromptOptions(Options):
    """How a table of the user's own prompts is read."""

    key: ClassVar[str] = "prompts"

    reference: Annotated[str, Use(flag=True)] = ""
    """Own prompts: the group that is subtracted."""
    group: str = ""
    """Own prompts: the group compared with the reference; each by default."""
    lexicon: model_options.Place | None = None
    """Own prompts: a CSV file of words (word, group) counted at <mask>."""
    unit: str = ""
    """Own prompts: what a classifier's or function's score is."""
    range: Annotated[str | tuple[float, float] | None, BeforeValidator(model_options.as_tuple)] = (
        None
    )
    """Own prompts: least and largest score, as 0,5."""
    fixed: model_options.Texts = ()
    """Own prompts: a column whose values the claim is about."""
    shared_fills: bool = False
    """Own prompts: a name or word may stand for two groups."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class StoreOptions(Options):
    """How a store is used that a run is written to."""

    key: ClassVar[str] = Engine.key

    own_store: bool = False
    """The store is yours alone: credentialed notes may lie there."""


def option_classes() -> tuple[Any, ...]:
    """The classes of settings of models: how they are loaded, and of each kind that has any."""
    return (LoadOptions, *(kind.options for kind in kinds() if kind.options))


def setting_classes() -> tuple[Any, ...]:
    """Every class of settings that a user can set."""
    return (Settings, *option_classes(), PromptOptions, Engine, StoreOptions)


def _saved_names(options_class: Any) -> list[str]:
    return [setting.name for setting in options_class.settings() if not setting.use.unsaved]


def settings_of(
    model: str | None, studies: Sequence[str], options: Mapping[str, Any], **more: Any
) -> Settings:
    """Return the settings of a command or a call, places of this machine absolute.

    Args:
        model: what is audited; None: the models that experiments read by default.
        studies: names.
        options: settings by their names on the command line, as Python writes them.
        more: further ones.

    Raises:
        SettingsError: unknown names and values that do not fit.
    """
    classes = (Settings, *option_classes())
    owners = {
        setting.option: (options_class, setting)
        for options_class in classes
        for setting in options_class.settings()
    }
    values: dict[Any, dict[str, Any]] = {options_class: {} for options_class in classes}
    faults: list[Fault] = []
    for name, value in {**options, **more}.items():
        if name in owners:
            options_class, setting = owners[name]
            values[options_class][setting.name] = _absolute(_as_given(value, setting), setting)
        else:
            near = did_you_mean(name, list(owners))
            message = f"Unknown option {quoted(name)}.{near or ' See swapbias help settings.'}"
            faults.append(Fault(name, value, None, (), message=message))
    places = {setting.name: setting for setting in Settings.settings()}
    values[Settings] |= {"model": _absolute(model, places["model"]), "studies": tuple(studies)}
    return _built(values, faults)


def _as_given(value: Any, setting: Setting) -> Any:
    """A single text for a setting of several values stands for a list of one; None for none."""
    if not setting.is_several:
        return value
    if value is None:
        return ()
    return (value,) if isinstance(value, str | PathLike) else value


def _absolute(value: Any, setting: Setting) -> Any:
    """The value of a setting, with paths of files and folders that are there made absolute: a run can go on."""
    if isinstance(value, list | tuple):
        return type(value)(_absolute(part, setting) for part in value)
    is_path = (
        setting.use.place and isinstance(value, str | PathLike) and value not in setting.use.words
    )
    return str(Path(value).resolve()) if is_path and value and is_there(value) else value


def _built(values: Mapping[Any, Mapping[str, Any]], others: Sequence[Fault] = ()) -> Settings:
    """Settings from the values of each class; a SettingsError with all that is wrong, also what was found before."""
    faults = list(others)
    options = {}
    for options_class in values:
        try:
            options[options_class] = options_class(**values[options_class])
        except SettingsError as error:
            faults += error.faults
    if faults:
        raise SettingsError(*(fault.sentence() for fault in faults), faults=faults)
    settings: Settings = options.pop(Settings)
    return replace(settings, load=options.pop(LoadOptions), options=tuple(options.values()))


class Toml:
    """How a TOML file writes settings."""

    step = "Correct it."
    top = "Write it above the first table."

    @staticmethod
    def name(setting: Setting) -> str:
        return f"{setting.name} of [{setting.section}]" if setting.section else setting.name

    @staticmethod
    def table(section: str) -> str:
        return f"[{section}]"


class Json:
    """How a manifest writes settings."""

    step = ""
    top = "Write it into settings."

    @staticmethod
    def name(setting: Setting) -> str:
        return f"{setting.section}.{setting.name}" if setting.section else setting.name

    @staticmethod
    def table(section: str) -> str:
        return section


Form = type[Toml] | type[Json]
FileFault = tuple[str, str, str]  # table and key where it is, and a sentence


def from_tables(
    saved: Any, form: Form, api_key_env: str | None
) -> tuple[Settings | None, list[FileFault]]:
    """The settings of a file, None where any is wrong, and what is wrong."""
    if not isinstance(saved, Mapping):
        return None, [
            ("", "", f"settings is {in_file(saved)}, expected a table of settings. {form.step}")
        ]
    classes = {options_class.key: options_class for options_class in option_classes()}
    tables = {"": {name: value for name, value in saved.items() if name not in classes}}
    tables |= {section: saved.get(section, {}) for section in classes}
    values: dict[Any, dict[str, Any]] = {}
    faults: list[FileFault] = []
    for section, options_class in {Settings.key: Settings, **classes}.items():
        table = tables[section] if isinstance(tables[section], Mapping) else {}
        if table is not tables[section]:
            text = in_file(tables[section])
            faults.append(
                (section, "", f"{section} is {text}, expected a table of settings. {form.step}")
            )
        names = _saved_names(options_class)
        values[options_class] = {name: table[name] for name in names if name in table}
        faults += [
            (section, name, _unknown(name, options_class, form))
            for name in table
            if name not in names
        ]
    if api_key_env:
        values[ChatOptions]["api_key_env"] = api_key_env
    settings = None
    try:
        settings = _built(values)
    except SettingsError as error:
        for fault in error.faults:
            if fault.setting:
                sentence = fault.sentence(form.name(fault.setting), form.step, in_file(fault.value))
                faults.append((fault.setting.section, fault.name, sentence))
    return (None if faults else settings), faults


def in_file(value: Any) -> str:
    """A value as a file writes it, for a sentence."""
    if isinstance(value, date | time):
        return str(value)
    words = {True: "true", False: "false", None: "null"}
    return words[value] if value is None or isinstance(value, bool) else quoted(value)


def _unknown(name: str, options_class: Any, form: Form) -> str:
    """The sentence for a key that is none of its table: where it belongs, or the nearest that is one."""
    table = f" of {form.table(options_class.key)}" if options_class.key else ""
    return f"Unknown setting{table} {quoted(name)}. {_advice(name.replace('-', '_'), options_class, form)}"


def _advice(name: str, options_class: Any, form: Form) -> str:
    """What to write in place of a key that is none of its table."""
    names = _saved_names(options_class)
    if name in names:
        return f"Write {name}."
    for candidate in setting_classes():
        matching = (
            setting for setting in candidate.settings() if name in (setting.name, setting.option)
        )
        setting = next(matching, None)
        if setting is not None:
            return _home_of(setting, candidate, options_class, form)
        if candidate.key == name:
            return _ELSEWHERE.get(candidate, f"Write {form.table(name)} once.")
    keys = [candidate.key for candidate in option_classes()]
    near = did_you_mean(
        name, [*names, "models", *keys] if options_class is Settings else names
    ).strip()
    if options_class is Settings:
        tables = [form.table(key) for key in keys]
        return near or f"Expected one of {listed([*names, *tables])}."
    return near or f"Remove it, or see swapbias help settings {options_class.key}."


_ELSEWHERE = {
    PromptOptions: "It is about own prompts: write it into the study.toml of a folder, and name that in studies.",
    Engine: "It says where an audit runs, and stands in no file: give it to the command.",
    StoreOptions: "It says where an audit runs, and stands in no file: give it to the command.",
}


def _home_of(setting: Setting, owner: Any, options_class: Any, form: Form) -> str:
    """Where a setting of a class is written that stands in the table of another one, or under another name."""
    if setting.use.unsaved:
        return f"A file may be anybody's: give it on the command line with {setting.written}."
    if owner is options_class:
        return f"Write {setting.name}."
    if owner in _ELSEWHERE:
        return _ELSEWHERE[owner]
    return f"Write it below {form.table(owner.key)}." if owner.key else form.top
