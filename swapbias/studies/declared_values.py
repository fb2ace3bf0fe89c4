"""Types of the values that declarations hold, and how those of several forms are read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from swapbias.errors import quoted
from swapbias.measures import Unit, units
from swapbias.studies.normal_form import composed
from swapbias.studies.option_texts import read_options
from swapbias.studies.prompt import Candidate

EXPECTED = "expected"  # what a value of a field must be, where its type does not say so
Text = Annotated[str, Field(max_length=1_000, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # one line
Switch = Annotated[bool, Field(strict=True)]
as_list = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Texts = Annotated[tuple[Text, ...], as_list]
Group = Annotated[Text, AfterValidator(composed)]  # as tables have it
Groups = Annotated[tuple[Group, ...], as_list]
Share = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        strict=True,
        allow_inf_nan=False,
        json_schema_extra={EXPECTED: "a number from 0 to 1 (5 points is 0.05)"},
    ),
]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
as_numbers = BeforeValidator(lambda value: [value] if isinstance(value, int | float) else value)
Numbers = Annotated[tuple[Number, ...], as_numbers]
Quantile = Annotated[
    float,
    Field(
        gt=0,
        lt=1,
        strict=True,
        allow_inf_nan=False,
        json_schema_extra={EXPECTED: "a number between 0 and 1, as 0.1"},
    ),
]
OF_PACKAGE = "of_package"  # marks fields that studies of the package alone have
COMPUTED = "computed"  # marks fields that an audit sets, and no file
FOR_PACKAGE = Field(json_schema_extra={OF_PACKAGE: True})
SET_BY_AUDIT = Field(json_schema_extra={COMPUTED: True})


def read_names(value: Any) -> Any:
    """Give a list of columns as columns by a name; blank: one is made of the column's.

    Args:
        value: the value of a declaration; what is no list stays as it is.
    """
    names = [value] if isinstance(value, str) else value
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return dict.fromkeys(names, "") if is_list else value


# Columns with what sentences call their values in the plural. A list of columns: names are made from theirs.
Columns = Annotated[
    Mapping[Text, Text],
    BeforeValidator(read_names),
    Field(json_schema_extra={EXPECTED: "a list of columns, or column = plural in braces"}),
]


Rates = Literal[
    "answers",
    "selection",
    "balance",
    "exchanges",
    "flips",
    "ratios",
    "f1",
    "leakage",
    "direction",
    "geometric",
    "markedness",
]
"""Rates of predictions, labels and answers that an experiment may show."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A prompt column to break findings down by, and what the study calls it."""

    column: str
    """The column of prompts."""
    name: str
    """The name that the study gives it."""


def read_slices(value: Any) -> Any:
    """Give columns by what they are called, or in a list, as slices.

    Args:
        value: the value of a declaration; what is neither stays as it is.

    Raises:
        ValueError: a name is no text.
    """
    names = read_names(value)
    if not isinstance(names, Mapping):
        return value
    if not all(isinstance(name, str) for pair in names.items() for name in pair):
        raise ValueError(
            f"slices is {quoted(value)}, expected column = name in braces. Correct it."
        )
    return tuple(Slice(column, name or column) for column, name in names.items())


@dataclass(frozen=True, slots=True)
class Covariate:
    """A number known for each value of a column (earnings of a profession), to correlate the score with."""

    name: str
    """The name of the quantity."""
    column: str
    """The column of prompts whose values have a number."""
    values: Mapping[str, float]
    """The number of each value."""
    beside: bool = False
    """The same quantity of somebody else (people's answers), shown beside the mean of all groups."""
    of_gap: bool = False
    """Correlated with the first gap, not with the mean score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """The question to a judge about an answer in free text, which it reads without the group."""

    question: str
    """The question, about the answer and not about the person."""
    candidates: tuple[Candidate, ...]
    """The options of its answer in order, with what each counts."""
    neutral: Mapping[str, str] = field(default_factory=dict)
    """Words that show the group, with what stands for each."""
    units: tuple[str, ...] = ("pair_id",)
    """Columns whose values are one story, which no two folds share."""


def read_rubric(value: Any) -> Any:
    """Read a rubric from a table of ``question`` and ``options``.

    Args:
        value: the value of a declaration; what is a rubric already stays as it is.

    Raises:
        ValueError: the table has other keys, or its options cannot be read.
    """
    if value is None or isinstance(value, Rubric):
        return value
    is_table = isinstance(value, Mapping) and {*value} == {"question", "options"}
    if not is_table or not value["question"]:
        raise ValueError(
            'rubric needs a question and options: rubric = {question = "...", options = ["0=Yes", "1=No"]}.'
        )
    candidates = read_options(value["options"], "rubric.options")
    return Rubric(question=str(value["question"]), candidates=candidates)


def read_unit(value: Any) -> Unit:
    """Read a unit by its name, or a table of ``name`` and ``range``.

    Args:
        value: the value of a declaration; what is a unit already stays as it is.

    Raises:
        ValueError: it is neither, or the range is none.
    """
    if isinstance(value, Unit):
        return value
    if isinstance(value, str):
        return units.named_unit(value) if value else units.UNNAMED_SCORE
    if not isinstance(value, Mapping) or not value or value.keys() - {"name", "range"}:
        raise ValueError(
            f"unit is {quoted(value)}, expected a name, or name and range as in {_UNIT_EXAMPLE}. Correct it."
        )
    name = value.get("name", units.UNNAMED_SCORE.name)
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of unit is {quoted(name)}, expected a text. Correct it.")
    return units.named_unit(name, *_read_ends(value.get("range")))


_UNIT_EXAMPLE = '{name = "stars", range = [0, 5]}'


def _read_ends(value: Any) -> tuple[float, ...]:
    """Read the ends of a range; none where nothing is given."""
    if value is None:
        return ()
    numbers = value if isinstance(value, list | tuple) else ()
    is_number = [
        isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end)
        for end in numbers
    ]
    if is_number != [True, True]:
        raise ValueError(
            f"range is {quoted(value)}, expected two numbers as in [0, 5], the smaller one first. Correct it."
        )
    low, high = (float(end) for end in numbers)
    if not low < high:
        raise ValueError(
            f"range is [{low:g}, {high:g}], expected the smaller number first. Correct it."
        )
    return low, high
