"""What settings have in common: fields with type, range and meaning, and a sentence for a value that does not fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from swapbias.errors import (
    UsageError,
    arguments_named,
    did_you_mean,
    expected_value,
    listed,
    quoted,
)

# Of every class of settings: ``@dataclass(frozen=True, kw_only=True, config=STRICT)`` of pydantic.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
ALL_SETTINGS = "swapbias help settings"


def as_tuple(value: Any) -> Any:
    """Give a tuple for a list, as files and Python write several values; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def _as_text(value: Any) -> Any:
    """Give the text of a path; anything else as it is."""
    return fspath(value) if isinstance(value, PathLike) else value


Place = Annotated[str, BeforeValidator(_as_text)]  # a model, file or folder: a text, or a path
Texts = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
Places = Annotated[tuple[Place, ...], BeforeValidator(as_tuple)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a setting is used, where its type, range and meaning do not say it; stands in the annotation of a field.

    Attributes:
        option: its name on the command line and in Python, where it is named after its section.
        flag: the command line has it as an option; every other setting is a pair KEY=VALUE.
        place: it may be a path of this machine, but for the ``words``.
        words: what is no path even where a file of that name exists.
        unsaved: it stands in no manifest and no file, which may be anybody's: whoever resumes a run sets it again.
        speed: a matter of speed or costs alone, which changes no score.
        weights: it says which weights are read and how.
        hint: a note on a number that is out of range, in place of the next step.
        elsewhere: the command line names it in a way of its own (of the model and studies).
        inner: the package sets it, no user.
    """

    option: str = ""
    flag: bool = False
    place: bool = False
    words: tuple[str, ...] = ()
    unsaved: bool = False
    speed: bool = False
    weights: bool = False
    hint: Callable[[float], str] | None = None
    elsewhere: bool = False
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as others read it off its field.

    Attributes:
        section: key of its class: the table of a file in which it stands; blank for one of the whole audit.
        name: in files and manifests.
        type: its annotation.
        default: what holds where it is not set.
        help: its meaning, one sentence.
        use: how it is used.
        limits: the constraints of pydantic.
        choices: the values that it can have, where they are listed.
    """

    section: str
    name: str
    type: Any
    default: Any
    help: str
    use: Use
    limits: tuple[Any, ...]
    choices: tuple[str, ...]

    @property
    def option(self) -> str:
        """Its name on the command line, as Python writes it."""
        return self.use.option or self.name

    @property
    def key(self) -> str:
        """Its name as the command line writes it."""
        return self.option.replace("_", "-")

    @property
    def written(self) -> str:
        """How the command line sets it: ``--trials`` or ``-M max-tokens``."""
        return f"{'--' if self.use.flag else '-M '}{self.key}"

    @property
    def least(self) -> float | None:
        """The smallest number allowed; None where there is no limit."""
        return next((limit.ge for limit in self.limits if hasattr(limit, "ge")), None)

    @property
    def most(self) -> float | None:
        """The largest number allowed; None where there is no limit."""
        return next((limit.le for limit in self.limits if hasattr(limit, "le")), None)

    @property
    def plain_type(self) -> type:
        """The type of one value: bool, int, float or str."""
        plain: type = next(_plain_types(self.type))
        return plain

    @property
    def is_several(self) -> bool:
        """Whether it holds several values, each given on its own."""
        return get_origin(self.type) is tuple

    @property
    def expected(self) -> str:
        """Say what values it takes, for a sentence after "expected"."""
        if self.choices:
            return listed(self.choices)
        alternatives = (self.type,) if self.is_several else get_args(self.type) or (self.type,)
        forms = [
            expected_value(_plain(form), self.least, self.most)
            for form in alternatives
            if form is not type(None)
        ]
        return " or ".join(dict.fromkeys(forms))

    def parse(self, text: str) -> Any:
        """The value that a text of the command line stands for; a ValueError for any other."""
        adapter = _text_reader(Annotated[(self.type, self.use, *self.limits)])
        return adapter.validate_python((text,) if self.is_several else text)

    def fault(self, value: Any, *, name: str, step: str, text: str = "") -> str:
        """Write the sentence for a value that it cannot have.

        Args:
            value: what it was set to.
            name: of the setting as it was written.
            step: what to do, a sentence.
            text: the value as it was written; by default as Python writes it.
        """
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.use.hint is not None and is_number:
            value = float(value)
            step = f"{self.use.hint(value)}."
        text = text or quoted(value)
        if self.choices:
            return f"Unknown {name} {text}: expected {self.expected}.{did_you_mean(str(value), self.choices)}"
        return f"{name} is {text}, expected {self.expected}. {step}".rstrip()


@cache
def _text_reader(of_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of_type, config=ConfigDict(allow_inf_nan=False))


def _plain(annotation: Any) -> Any:
    """An annotation without what pydantic reads beside its type."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _plain_types(annotation: Any) -> Iterator[type]:
    """The types that an annotation is made of, but for None."""
    if isinstance(annotation, type) and not get_args(annotation):
        if annotation is not type(None):
            yield annotation
    elif get_origin(annotation) is Literal:
        yield str
    else:
        parts = get_args(annotation)
        for part in parts[:1] if get_origin(annotation) is Annotated else parts:
            if part is not Ellipsis:
                yield from _plain_types(part)


class _Checked(type):
    """Makes settings; a wrong one is a UsageError that names it."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            faults = _faults(cls, error, values)
        with arguments_named():
            raise SettingsError(*(fault.sentence() for fault in faults), faults=faults)


class Options(metaclass=_Checked):
    """The base of classes of settings: frozen dataclasses of pydantic, whose fields say all there is to say.

    ``key``: the table of files and manifests that has them, and what the help calls them.
    """

    key: ClassVar[str] = ""

    @classmethod
    def settings(cls) -> "tuple[Setting, ...]":
        """The settings that a user can set, in their order."""
        return tuple(setting for setting in _all_settings(cls) if not setting.use.inner)

    def not_usual(self, *names: str) -> "list[Setting]":
        """Those of these settings, or of all, that have another value than where nothing is set."""
        chosen = [setting for setting in self.settings() if not names or setting.name in names]
        return [setting for setting in chosen if getattr(self, setting.name) != setting.default]


@cache
def _all_settings(options: Any) -> "tuple[Setting, ...]":
    fields: Mapping[str, FieldInfo] = options.__pydantic_fields__
    return tuple(_setting(options, name, field) for name, field in fields.items())


def _setting(options: Any, name: str, field: FieldInfo) -> Setting:
    use = next((part for part in field.metadata if isinstance(part, Use)), Use())
    limits = tuple(part for part in field.metadata if not isinstance(part, Use))
    literal = next(
        (part for part in (field.annotation, *get_args(field.annotation)) if _is_literal(part)),
        None,
    )
    choices = get_args(literal) or tuple(field.examples or ())
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    # Pydantic reads the text under a field of the class itself, not of those that inherit it.
    inherited = [getattr(base, "__pydantic_fields__", {}).get(name) for base in options.__mro__]
    meaning = next((base.description for base in inherited if base and base.description), "")
    return Setting(
        options.key,
        name,
        field.annotation,
        default,
        " ".join(meaning.split()),
        use,
        limits,
        choices,
    )


def _is_literal(part: Any) -> bool:
    return get_origin(part) is Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that a setting cannot have, or a name that no setting has.

    Attributes:
        name: as it was given.
        value: as it was given.
        setting: None where there is none of that name.
        names: the settings that there are.
        cause: what a check of its own says of the value; blank where its type or range does not fit.
        message: the whole sentence, where it is about no value.
    """

    name: str
    value: Any
    setting: Setting | None
    names: tuple[str, ...]
    cause: str = ""
    message: str = ""

    def sentence(self, name: str = "", step: str | None = None, text: str = "") -> str:
        """Write it for the user.

        Args:
            name: of the setting as it was written; by default as Python writes it.
            step: what to do; by default in the words of the command line.
            text: the value as it was written; by default as Python writes it.
        """
        if self.message:
            return self.message
        if self.setting is None:
            near = did_you_mean(self.name, self.names)
            return f"Unknown setting {quoted(self.name)}.{near or f' See {ALL_SETTINGS}.'}"
        if self.cause:
            return f"{name or self.setting.written}: {self.cause}"
        step = f"Change {self.setting.written}." if step is None else step
        return self.setting.fault(
            self.value, name=name or self.setting.option, step=step, text=text
        )


class SettingsError(UsageError):
    """Wrong settings: a sentence for each, on a line of its own."""

    def __init__(self, *sentences: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__("\n".join(sentences))
        self.faults = tuple(faults)


def _faults(options: Any, error: ValidationError, values: Mapping[str, Any]) -> list[Fault]:
    """The faults that pydantic found, each setting once."""
    settings = {setting.name: setting for setting in _all_settings(options)}
    names = tuple(setting.name for setting in options.settings())
    faults: dict[str, Fault] = {}
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0])
        setting = settings.get(name)
        cause = str(problem.get("ctx", {}).get("error") or "")
        message = ""
        if problem["type"] == "missing_keyword_only_argument" and setting:
            message = f"{name} is missing, expected {setting.expected}. Give {setting.written}."
        elif problem["type"] == "unexpected_positional_argument":
            message = f"{options.__name__} takes its settings by name, as {names[0]}=. Name each."
        faults.setdefault(name, Fault(name, values.get(name), setting, names, cause, message))
    return list(faults.values())
