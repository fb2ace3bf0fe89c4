"""The settings of an audit, as one object, from a command, a call, a file or a manifest."""

from collections.abc import Iterable, Mapping, Sequence
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
from swapbias.public_calls import unknown_argument
from swapbias.swapping import Engine


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Settings(Request):
    """Settings of an audit; they stand in the manifest, so that a run can be resumed or repeated."""

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
            if options_class is LoadOptions:
                options: Any = self.load
            else:
                options = self.of(options_class)
            names = _saved_names(options_class)
            saved[options_class.key] = {name: getattr(options, name) for name in names}
        return saved

    @property
    def adjectives(self) -> str | None:
        """File of the user's adjectives; None: those of the study."""
        return self.of(WordOptions).adjectives

    @property
    def prompt_data(self) -> str | None:
        """Folder or file of the user's data in place of a study's own prompts; None: the study's."""
        return self.of(WordOptions).prompt_data

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
    """Settings with which a table of the user's own prompts is read."""

    key: ClassVar[str] = "prompts"
    """Section of ``swapbias help settings``."""

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
class WordOptions(Options):
    """Words and data of the user's own for the prompts of studies."""

    key: ClassVar[str] = "words"
    """The name of these settings in files and manifests."""

    adjectives: Annotated[model_options.Place | None, Use(place=True)] = None
    """Your adjectives for a study that has some: one a line, or columns male, female (CSV)."""
    prompt_data: Annotated[model_options.Place | None, Use(place=True)] = None
    """Folder or file of data in a form that the card of a study names, in place of its own prompts."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class StoreOptions(Options):
    """Settings of the store that a run is written to."""

    key: ClassVar[str] = Engine.key
    """Section of ``swapbias help settings``, shared with the engine."""

    own_store: bool = False
    """The store is yours alone: credentialed notes may lie there."""


def option_classes() -> tuple[Any, ...]:
    """Return the classes of settings that a manifest has: of weights, of each kind of model, of the user's words."""
    return (LoadOptions, *(kind.options for kind in kinds() if kind.options), WordOptions)


def setting_classes() -> tuple[Any, ...]:
    """Return every class of settings that a user can set."""
    return (Settings, *option_classes(), PromptOptions, Engine, StoreOptions)


def _saved_names(options_class: Any) -> list[str]:
    """Return the names of the settings that a manifest has."""
    return [setting.name for setting in options_class.settings() if not setting.use.unsaved]


def settings_of(
    model: str | None,
    studies: Sequence[str],
    options: Mapping[str, Any],
    *,
    arguments: Iterable[str] = (),
    **more: Any,
) -> Settings:
    """Return the settings of a command or a call, places of this machine absolute.

    Args:
        model: what is audited; None: the models that experiments read by default.
        studies: names.
        options: settings by their names on the command line, as Python writes them.
        arguments: names of further arguments, one of which may be meant by an unknown name.
        more: further settings.

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
            values[options_class][setting.name] = _absolute(_as_several(value, setting), setting)
        else:
            message = unknown_argument(
                "audit", name, [*arguments, *owners], "swapbias help settings"
            )
            faults.append(Fault(name, value, None, (), message=message))
    own_settings = {setting.name: setting for setting in Settings.settings()}
    values[Settings]["model"] = _absolute(model, own_settings["model"])
    values[Settings]["studies"] = tuple(studies)
    return _build(values, faults)


def _as_several(value: Any, setting: Setting) -> Any:
    """Return a tuple for a setting of several values: of one for a single text, of none for None."""
    if not setting.is_several:
        return value
    if value is None:
        return ()
    if isinstance(value, str | PathLike):
        return (value,)
    return value


def _absolute(value: Any, setting: Setting) -> Any:
    """Return the value of a setting; paths that exist become absolute, so that a run can go on from elsewhere."""
    if isinstance(value, list | tuple):
        return type(value)(_absolute(part, setting) for part in value)
    is_path = setting.use.place and isinstance(value, str | PathLike)
    if not is_path or value in setting.use.words or not value or not is_there(value):
        return value
    return str(Path(value).resolve())


def _build(
    values: Mapping[Any, Mapping[str, Any]], earlier_faults: Sequence[Fault] = ()
) -> Settings:
    """Return settings from the values of each class.

    Raises:
        SettingsError: values that do not fit, named together with the faults that were found earlier.
    """
    faults = list(earlier_faults)
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
    """Words for settings of a TOML file."""

    step = "Correct it."
    """Step that ends a sentence on a fault."""
    top = "Write it above the first table."
    """Advice for a setting that belongs to no table."""

    @staticmethod
    def name(setting: Setting) -> str:
        """Return the name of a setting with its table.

        Args:
            setting: a setting of any class.
        """
        if not setting.section:
            return setting.name
        return f"{setting.name} of [{setting.section}]"

    @staticmethod
    def table(section: str) -> str:
        """Return the name of a table.

        Args:
            section: key of the class of its settings.
        """
        return f"[{section}]"


class Json:
    """Words for settings of a manifest."""

    step = ""
    """Step that ends a sentence on a fault: none, for nobody writes a manifest."""
    top = "Write it into settings."
    """Advice for a setting that belongs to no table."""

    @staticmethod
    def name(setting: Setting) -> str:
        """Return the name of a setting with its table.

        Args:
            setting: a setting of any class.
        """
        if not setting.section:
            return setting.name
        return f"{setting.section}.{setting.name}"

    @staticmethod
    def table(section: str) -> str:
        """Return the name of a table.

        Args:
            section: key of the class of its settings.
        """
        return section


Form = type[Toml] | type[Json]
"""Words for settings of a kind of file."""
FileFault = tuple[str, str, str]
"""A fault in a file: table and key, and a sentence."""


def from_tables(
    saved: Any, form: Form, api_key_env: str | None
) -> tuple[Settings | None, list[FileFault]]:
    """Return the settings of a file, and what is wrong with them.

    Args:
        saved: content of the file: settings, and a table for each further class.
        form: words for settings of that kind of file.
        api_key_env: variable with the key of a service, which no file names.

    Returns:
        The settings, None where any is wrong; and each fault.
    """
    if not isinstance(saved, Mapping):
        sentence = f"settings is {in_file(saved)}, expected a table of settings. {form.step}"
        return None, [("", "", sentence)]
    classes = {options_class.key: options_class for options_class in option_classes()}
    top = {name: value for name, value in saved.items() if name not in classes}
    values, faults = _read_table("", top, Settings, form)
    values_of_classes: dict[Any, dict[str, Any]] = {Settings: values}
    for section, options_class in classes.items():
        values, wrong = _read_table(section, saved.get(section, {}), options_class, form)
        values_of_classes[options_class] = values
        faults += wrong
    if api_key_env:
        values_of_classes[ChatOptions]["api_key_env"] = api_key_env
    settings = None
    try:
        settings = _build(values_of_classes)
    except SettingsError as error:
        faults += _faults_in_file(error, form)
    if faults:
        return None, faults
    return settings, []


def _read_table(
    section: str, table: Any, options_class: Any, form: Form
) -> tuple[dict[str, Any], list[FileFault]]:
    """Return the values that a table has for the settings of a class, and what is wrong with its keys."""
    if not isinstance(table, Mapping):
        sentence = f"{section} is {in_file(table)}, expected a table of settings. {form.step}"
        return {}, [(section, "", sentence)]
    names = _saved_names(options_class)
    values = {name: table[name] for name in names if name in table}
    unknown = [name for name in table if name not in names]
    return values, [(section, name, _unknown(name, options_class, form)) for name in unknown]


def _faults_in_file(error: SettingsError, form: Form) -> list[FileFault]:
    """Return the faults of settings as faults in a file."""
    faults: list[FileFault] = []
    for fault in error.faults:
        if fault.setting:
            name = form.name(fault.setting)
            sentence = fault.sentence(name, form.step, in_file(fault.value))
            faults.append((fault.setting.section, fault.name, sentence))
    return faults


def in_file(value: Any) -> str:
    """Return a value as a file writes it, for a sentence.

    Args:
        value: the value from TOML or JSON.
    """
    if isinstance(value, date | time):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value)


def _unknown(name: str, options_class: Any, form: Form) -> str:
    """Return the sentence for a key that is none of its table: where it belongs, or the nearest that is one."""
    advice = _advise(name.replace("-", "_"), options_class, form)
    if not options_class.key:
        return f"Unknown setting {quoted(name)}. {advice}"
    return f"Unknown setting of {form.table(options_class.key)} {quoted(name)}. {advice}"


def _advise(name: str, options_class: Any, form: Form) -> str:
    """Return what to write in place of a key that is none of its table."""
    names = _saved_names(options_class)
    if name in names:
        return f"Write {name}."
    for candidate in setting_classes():
        for setting in candidate.settings():
            if name in (setting.name, setting.option):
                return _advise_home(setting, candidate, options_class, form)
        if candidate.key == name:
            return _ELSEWHERE.get(candidate, f"Write {form.table(name)} once.")
    if options_class is not Settings:
        near = did_you_mean(name, names).strip()
        return near or f"Remove it, or see swapbias help settings {options_class.key}."
    keys = [candidate.key for candidate in option_classes()]
    near = did_you_mean(name, [*names, "models", *keys]).strip()
    tables = [form.table(key) for key in keys]
    return near or f"Expected one of {listed([*names, *tables])}."


_ELSEWHERE = {
    PromptOptions: "It is about own prompts: write it into the study.toml of a folder, and name that in studies.",
    Engine: "It says where an audit runs and cannot be in a file: give it to the command.",
    StoreOptions: "It says where an audit runs and cannot be in a file: give it to the command.",
}


def _advise_home(setting: Setting, owner: Any, options_class: Any, form: Form) -> str:
    """Return where a setting is written that stands in the table of another class, or under another name."""
    if setting.use.unsaved:
        return f"A file may be anybody's: give it on the command line with {setting.written}."
    if owner is options_class:
        return f"Write {setting.name}."
    if owner in _ELSEWHERE:
        return _ELSEWHERE[owner]
    if not owner.key:
        return form.top
    return f"Write it below {form.table(owner.key)}."
