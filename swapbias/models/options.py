"""What settings have in common: fields with type, range and meaning, and a sentence for a value that does not fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from swapbias.errors import UsageError, did_you_mean, expected_value, listed, quoted
from swapbias.public_calls import arguments_named

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
"""Of every class of settings: ``@dataclass(frozen=True, kw_only=True, config=STRICT)`` of pydantic."""
ALL_SETTINGS = "swapbias help settings"


def as_tuple(value: Any) -> Any:
    """Return a tuple for a list, as files and Python write several values; anything else as it is.

    Args:
        value: any value.
    """
    return tuple(value) if isinstance(value, list) else value


def _as_text(value: Any) -> Any:
    """Return the text of a path; anything else as it is."""
    return fspath(value) if isinstance(value, PathLike) else value


Place = Annotated[str, BeforeValidator(_as_text)]
"""A model, file or folder: a text, or a path."""
Texts = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
Places = Annotated[tuple[Place, ...], BeforeValidator(as_tuple)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Use of a setting, where its type, range and meaning do not say it; stands in the annotation of a field."""

    option: str = ""
    """Its name on the command line and in Python, where it is named after its section."""
    flag: bool = False
    """Whether the command line has it as an option; every other setting is a pair KEY=VALUE."""
    place: bool = False
    """Whether it may be a path of this machine, except the ``words``."""
    words: tuple[str, ...] = ()
    """Values that are no path even where a file of that name exists."""
    unsaved: bool = False
    """Whether it stands in no manifest and no file, which may be anybody's: whoever resumes a run sets it again."""
    speed: bool = False
    """Whether it is a matter of speed or costs alone, which changes no score."""
    weights: bool = False
    """Whether it says which weights are read and how."""
    hint: Callable[[float], str] | None = None
    """Writes a note on a number that is out of range, in place of the next step."""
    elsewhere: bool = False
    """Whether the command line names it in a way of its own (of the model and studies)."""
    inner: bool = False
    """Whether the package sets it, no user."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as others read it off its field."""

    section: str
    """Key of its class: the table of a file in which it stands; empty for one of the whole audit."""
    name: str
    """Its name in files and manifests."""
    type: Any
    """Its annotation."""
    default: Any
    """Its value where it is not set."""
    help: str
    """Its meaning, one sentence."""
    use: Use
    """Its use."""
    limits: tuple[Any, ...]
    """The constraints of pydantic."""
    choices: tuple[str, ...]
    """The values that it can have, where they are listed."""

    @property
    def option(self) -> str:
        """Return its name on the command line, as Python writes it."""
        return self.use.option or self.name

    @property
    def key(self) -> str:
        """Return its name as the command line writes it."""
        return self.option.replace("_", "-")

    @property
    def written(self) -> str:
        """Return how the command line sets it: ``--trials`` or ``-M max-tokens``."""
        return f"--{self.key}" if self.use.flag else f"-M {self.key}"

    @property
    def least(self) -> float | None:
        """Return the smallest number allowed; None where there is no limit."""
        return next((limit.ge for limit in self.limits if hasattr(limit, "ge")), None)

    @property
    def most(self) -> float | None:
        """Return the largest number allowed; None where there is no limit."""
        return next((limit.le for limit in self.limits if hasattr(limit, "le")), None)

    @property
    def plain_type(self) -> type:
        """Return the type of one value: bool, int, float or str."""
        plain: type = next(_plain_types(self.type))
        return plain

    @property
    def is_several(self) -> bool:
        """Return whether it holds several values, each given on its own."""
        return get_origin(self.type) is tuple

    @property
    def expected(self) -> str:
        """Say what values it takes, for a sentence after "expected"."""
        if self.choices:
            return listed(self.choices)
        alternatives = (self.type,)
        if not self.is_several:
            alternatives = get_args(self.type) or alternatives
        forms = [
            expected_value(_plain(form), self.least, self.most)
            for form in alternatives
            if form is not type(None)
        ]
        return " or ".join(dict.fromkeys(forms))

    def parse(self, text: str) -> Any:
        """Return the value that a text of the command line stands for.

        Args:
            text: one value as the user wrote it.

        Raises:
            ValueError: The setting cannot have it.
        """
        adapter = _text_reader(Annotated[(self.type, self.use, *self.limits)])
        return adapter.validate_python((text,) if self.is_several else text)

    def fault(self, value: Any, *, name: str, step: str, text: str = "") -> str:
        """Write the sentence for a value that it cannot have.

        Args:
            value: what it was set to.
            name: name of the setting as it was written.
            step: what to do, a sentence.
            text: the value as it was written; by default as Python writes it.
        """
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.use.hint is not None and is_number:
            value = float(value)
            step = f"{self.use.hint(value)}."
        text = text or quoted(value)
        if self.choices:
            hint = did_you_mean(str(value), self.choices)
            return f"Unknown {name} {text}: expected {self.expected}.{hint}"
        return f"{name} is {text}, expected {self.expected}. {step}".rstrip()


@cache
def _text_reader(of_type: Any) -> TypeAdapter[Any]:
    """Return what reads a text as a value of a type."""
    return TypeAdapter(of_type, config=ConfigDict(allow_inf_nan=False))


def _plain(annotation: Any) -> Any:
    """Return an annotation without what pydantic reads beside its type."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _plain_types(annotation: Any) -> Iterator[type]:
    """Yield the types that an annotation is made of, except None."""
    annotation = _plain(annotation)
    if annotation is type(None) or annotation is Ellipsis:
        return
    if get_origin(annotation) is Literal:
        yield str
    elif isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    else:
        for part in get_args(annotation):
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
    """The base of classes of settings: frozen dataclasses of pydantic, whose fields say all there is to say."""

    key: ClassVar[str] = ""
    """The table of files and manifests that has them, and what the help calls them."""

    @classmethod
    def settings(cls) -> "tuple[Setting, ...]":
        """Return the settings that a user can set, in their order."""
        return tuple(setting for setting in _all_settings(cls) if not setting.use.inner)

    def not_usual(self, *names: str) -> "list[Setting]":
        """Return the settings that have another value than where nothing is set.

        Args:
            names: names of settings that are looked at; all where there are none.
        """
        chosen = [setting for setting in self.settings() if not names or setting.name in names]
        return [setting for setting in chosen if getattr(self, setting.name) != setting.default]


@cache
def _all_settings(options: Any) -> "tuple[Setting, ...]":
    """Return the settings of a class, with those that the package sets."""
    fields: Mapping[str, FieldInfo] = options.__pydantic_fields__
    return tuple(_setting(options, name, field) for name, field in fields.items())


def _setting(options: Any, name: str, field: FieldInfo) -> Setting:
    """Read a setting off its field."""
    types = (field.annotation, *get_args(field.annotation))
    literal = next((part for part in types if get_origin(part) is Literal), None)
    return Setting(
        section=options.key,
        name=name,
        type=field.annotation,
        default=None if field.is_required() else field.get_default(call_default_factory=True),
        help=" ".join(_meaning(options, name).split()),
        use=next((part for part in field.metadata if isinstance(part, Use)), Use()),
        limits=tuple(part for part in field.metadata if not isinstance(part, Use)),
        choices=get_args(literal) or tuple(field.examples or ()),
    )


def _meaning(options: Any, name: str) -> str:
    """Return the text under a field, which pydantic reads in the class itself, not in those that inherit it."""
    for base in options.__mro__:
        field = getattr(base, "__pydantic_fields__", {}).get(name)
        if field and field.description:
            return str(field.description)
    return ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that a setting cannot have, or a name that no setting has."""

    name: str
    """The name as the user wrote it."""
    value: Any
    """The value as the user wrote it."""
    setting: Setting | None
    """The setting; None where there is none of that name."""
    names: tuple[str, ...]
    """The settings that there are."""
    cause: str = ""
    """The words of a check of its own on the value; empty where its type or range does not fit."""
    message: str = ""
    """The whole sentence, where it is about no value."""

    def sentence(self, name: str = "", step: str | None = None, text: str = "") -> str:
        """Write it for the user.

        Args:
            name: name of the setting as it was written; by default as Python writes it.
            step: what to do; by default in the words of the command line.
            text: the value as it was written; by default as Python writes it.
        """
        if self.message:
            return self.message
        if self.setting is None:
            hint = did_you_mean(self.name, self.names) or f" See {ALL_SETTINGS}."
            return f"Unknown setting {quoted(self.name)}.{hint}"
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
    """Return the faults that pydantic found, each setting once."""
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
