"""Read what ``study.toml`` of a user's own study says: its keys, and a sentence for each fault."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from swapbias.errors import listed, quoted
from swapbias.measures import REFUSED, UNREADABLE
from swapbias.studies.catalogue import corpora
from swapbias.studies.own_tables import DECLARATION
from swapbias.studies.ranges import ScoreRange, range_of
from swapbias.studies.study import Candidate, did_you_mean
from swapbias.studies.table_layout import composed
from swapbias.studies.tables import decoded


def _new_name(value: str) -> str:
    if value in corpora():
        raise ValueError(f"name is {quoted(value)}, a study of the package. Choose another.")
    return value


Kind = Literal["masked", "classifier", "causal", "chat"]
Reading = Literal["text", "person", "options", "ranking"]
Text = Annotated[str, Field(strict=True, max_length=1_000, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # one line
_as_list = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Texts = Annotated[tuple[Text, ...], _as_list]
Name = Annotated[Text, AfterValidator(composed)]  # of a group, as tables have it


class Declaration(BaseModel, extra="forbid", frozen=True):
    """What ``study.toml`` says, as docs/study_toml.md explains; descriptions say what a value must be, for errors."""

    name: Annotated[
        Text, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$", description="a-z, 0-9 and _, a letter first, 50 at most"),
        AfterValidator(_new_name),
    ] = "study"  # fmt: skip
    title: Text = "study"
    question: Text = ""
    url: Annotated[Text, Field(pattern=r"^(https?://.*)?$", description="one that begins with https://")] = ""
    licence: Text = "other"
    version: Annotated[Text, Field(pattern=r"^\d+\.\d+\.\d+$", description="three numbers as in 1.0.0")] = "1.0.0"
    groups: Annotated[tuple[Name, ...], _as_list] = ()
    reference: Name = ""
    kind: Annotated[tuple[Kind, ...], _as_list, Field(description=", ".join(get_args(Kind)))] = ()
    reading: Annotated[Reading, Field(description=", ".join(get_args(Reading)))] = "text"
    ask: Text = "Rank these candidates for a job as [job], the best first. Answer with names only."
    answers: Annotated[Texts, Field(validate_default=True)] = ()
    rubric: Text = ""
    rubric_options: Annotated[Texts, Field(validate_default=True)] = ()
    unit: Text = ""
    range: Annotated[ScoreRange | None, Field(description="two numbers as in [0, 5], the smaller one first")] = None
    margin: Annotated[
        float | None,
        Field(ge=0, le=1, strict=True, allow_inf_nan=False, description="a number from 0 to 1 (5 points is 0.05)"),
    ] = None
    random: Texts = ()
    fixed: Texts = ()
    shared_fills: Annotated[bool, Field(strict=True, description="true or false")] = False
    slices: Texts = ()
    limits: Texts = ()

    @field_validator("answers", "rubric_options")
    @classmethod
    def _options(cls, options: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        key, before = info.field_name, info.data
        question = before.get("rubric" if key == "rubric_options" else "kind")
        if question is None:  # which is wrong itself
            return options
        ranks = before.get("reading") == "ranking"
        has_question = bool(question) if key == "rubric_options" else "chat" in question and not ranks
        if options and not has_question:
            raise ValueError(f'{key} are given, and nothing asks for them. Add kind = ["chat"], or a rubric.')
        if not has_question:
            return options
        example = f'{key} = ["0=Yes", "1=No"]'
        try:
            low, high = range_of(options_of(options))
        except ValueError as error:
            raise ValueError(f"{key} cannot be read ({error}) Write {example}.") from error
        if low == high:
            raise ValueError(
                f"{key} all count {low:g}, so that no gap could show. Let two count differently: {example}."
            )
        return options

    @field_validator("range")
    @classmethod
    def _range(cls, ends: ScoreRange | None, info: ValidationInfo) -> ScoreRange | None:
        kinds = info.data.get("kind")
        if ends is not None and kinds and "classifier" not in kinds:
            raise ValueError("range is that of a classifier's scores; answers and words have their own. Remove it.")
        return ends


def options_of(declared: Sequence[str]) -> tuple[Candidate, ...]:
    """The options of a question as ``study.toml`` has them: ``0=Not likely``, ``=Do not know`` (counts nothing)."""
    parts = [part.partition("=") for part in declared]
    try:
        found = tuple(Candidate(text.strip(), float(value) if value.strip() else None) for value, _, text in parts)
    except ValueError:
        found = ()
    texts = {one.text.casefold() for one in found}
    if any(one.value is not None and not math.isfinite(one.value) for one in found):
        found = ()
    counted = [one for one in found if one.value is not None]
    if len(found) < 2 or not counted or texts & {"", REFUSED, UNREADABLE} or len(texts) < len(found):
        raise ValueError(f"options {listed(map(repr, declared))}, expected different ones, each value=option.")
    return found


def read_declaration(content: bytes) -> tuple[Declaration, dict[str, str]]:
    """What ``study.toml`` says without what is wrong, and by key a sentence for each fault, in the order of lines."""
    try:
        values = tomllib.loads(text := decoded(DECLARATION, content))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Declaration(), {"": f"{DECLARATION} is no valid TOML: {error}. Correct it."}
    except ValueError as error:
        return Declaration(), {"": str(error)}
    found: dict[str, tuple[int, str]] = {}
    values = {key: value for key, value in values.items() if value or key not in ("name", "title")}
    for key in sorted({"name", "title"} - {*values}):
        found[key] = text.count("\n") + 1, f'{key} is missing. Add {key} = "...".'
    try:
        declared = Declaration(**values)
    except ValidationError as error:
        for fault in error.errors():
            key, value = str(fault["loc"][0]), fault["input"]
            found.setdefault(key, (line_of(text, key, value), _sentence(key, value, fault)))
        together = {"kind", "answers", "rubric", "rubric_options"}  # valid only with each other
        dropped = {*found, *(together if found.keys() & together else ())}
        declared = Declaration(**{key: value for key, value in values.items() if key not in dropped})
    by_line = sorted(found.items(), key=lambda one: one[1][0])
    return declared, {key: f"{DECLARATION}:{line}: {what}" for key, (line, what) in by_line}


def _sentence(key: str, value: Any, fault: Mapping[str, Any]) -> str:
    known = Declaration.model_fields
    if key not in known:
        return f"{shown(key)} is none of {', '.join(known)}.{did_you_mean(key, list(known)) or ' Remove it.'}"
    if message := str(fault.get("ctx", {}).get("error", "")):
        return message
    is_list = known[key].default == () and len(fault["loc"]) == 1
    form = "a list of texts" if is_list else "a text of one line, 1,000 letters at most"
    return f"{key} is {quoted(value)}, expected {known[key].description or form}. Correct it."


def line_of(text: str, key: str, value: Any = "") -> int:
    """The line of a declaration where a key stands, or after it the text that is its value; 1 where none does."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*=", text, re.MULTILINE)
    start = found.end() if found else 0
    inside = text.find(f'"{value}"', start) if isinstance(value, str) and value else -1
    return text.count("\n", 0, max(start, inside)) + 1


def shown(name: str) -> str:
    """A name of a group or pair in a sentence; what is long may be a text, and is not repeated."""
    return quoted(name) if len(name) <= 40 and len(name.split()) <= 4 else f"(a name of {len(name)} letters)"
