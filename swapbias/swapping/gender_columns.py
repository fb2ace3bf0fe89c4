"""Columns of a gender beside texts: words, and codes whose meaning a name or a list of classes says."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from swapbias.swapping.table import cased

Classes = Mapping[str, tuple[str, ...]]
"""Names of the classes of each column whose numbers stand for classes."""
_WHO = r"(?:(?:patient|subject|person|participant|anchor)[ _-]?)?"
_GENDER = re.compile(
    rf"{_WHO}(?:birth[ _-]?)?(?:gender|sex)(?:[ _-]?(?:identity|at[ _-]birth|label|code|id|cd))?"
    r"\s*(?:\(.*\))?",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    rf"{_WHO}(?:(?:is|gender|sex)[ _-]?)?(?P<gender>female|woman|male|man)"
    r"|(?:gender|sex)[ _-](?P<letter>[fm])",
    re.IGNORECASE,
)
"""A column that answers whether a patient is of one gender: "is_female", "sex_M"."""
_CODE = re.compile(
    r"(?<![\w.])(\d+|[a-z]\w*)\s*[=:]\s*(female|male|woman|man|f|m)(?!\w)|"
    r"(?<!\w)(female|male|woman|man|f|m)\s*[=:]\s*(\d+)(?![\w.])",
    re.IGNORECASE,
)
"""A code in the name of a column: "gender (0 = male, 1 = female)"."""
_FEMALE_OF_MALE = {
    "male": "female",
    "m": "f",
    "man": "woman",
    "boy": "girl",
    "males": "females",
    "men": "women",
    "boys": "girls",
    "gentleman": "lady",
    "masculine": "feminine",
    "homme": "femme",
    "masculin": "féminin",
    "hombre": "mujer",
    "masculino": "femenino",
    "mann": "frau",
    "männlich": "weiblich",
}
_OTHER_GENDER = _FEMALE_OF_MALE | {female: male for male, female in _FEMALE_OF_MALE.items()}
_OTHER_ANSWER = {
    "1": "0",
    "1.0": "0.0",
    "true": "false",
    "yes": "no",
    "y": "n",
    "t": "f",
}
_OTHER_ANSWER |= {no: yes for yes, no in _OTHER_ANSWER.items()}
_YES = ("1", "1.0", "true", "yes", "y", "t")


def other_gender(value: Any) -> Any:
    """Return the other gender, written alike; what names none is given back.

    >>> other_gender("F"), other_gender("Male"), other_gender("unknown"), other_gender(None)
    ('M', 'Female', 'unknown', None)

    Args:
        value: a cell of a column of genders.
    """
    if not isinstance(value, str):
        return value
    gender = _OTHER_GENDER.get(value.strip().lower())
    return cased(value.strip(), gender) if gender else value


def swapped_genders(name: str, cells: Sequence[Any], classes: Classes) -> list[Any]:
    """Return a column of genders with the other one in each cell whose meaning is known.

    Args:
        name: the name of the column, of ``gender_names``.
        cells: its cells.
        classes: names of classes by column.
    """
    if is_gender_answer(name):
        return [_other_answer(cell) for cell in cells]
    codes = _other_codes(name, classes)
    return [_other_code(cell, codes) for cell in cells]


def gender_names(schema: pa.Schema) -> list[str]:
    """Return the names of columns that hold genders, or answer whether a patient is of one.

    Args:
        schema: names and types of all columns.
    """
    return [
        field.name
        for field in schema
        if _GENDER.fullmatch(field.name.strip())
        or (is_gender_answer(field.name) and _may_answer(field.type))
    ]


def is_gender_answer(name: str) -> bool:
    """Tell whether a column answers yes or no, so that no cell of it need be a gender.

    Args:
        name: the name of the column.
    """
    return bool(_ANSWER.fullmatch(name.strip()))


def genders_in_words(cells: Sequence[Any], name: str, classes: Classes) -> list[Any]:
    """Return genders with words in place of codes whose meaning is known.

    Args:
        cells: the cells of a column of genders.
        name: its name.
        classes: names of classes by column.
    """
    answer = _ANSWER.fullmatch(name.strip())
    if answer:
        gender = answer["gender"] or answer["letter"]
        return [_answered(cell, gender) for cell in cells]
    words = _words_of_codes(name, classes)
    return [words.get(_written(cell), cell) for cell in cells]


def _answered(cell: Any, gender: str) -> Any:
    """Return the gender of a patient by a cell that says whether it is this one."""
    written = _written(cell)
    if written not in _OTHER_ANSWER:
        return cell
    return gender if written in _YES else other_gender(gender)


def _may_answer(kind: pa.DataType) -> bool:
    """Tell whether a type can hold yes and no."""
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind)
    is_number = kinds.is_integer(kind) or kinds.is_floating(kind)
    return bool(is_text or is_number or kinds.is_boolean(kind))


def _words_of_codes(name: str, classes: Classes) -> dict[str, str]:
    """Return the gender by each code that the classes of a column say, or its name."""
    if name in classes:
        return {str(code): gender for code, gender in enumerate(classes[name])}
    codes = (match.groups() for match in _CODE.finditer(name))
    return {(code or later).lower(): word or first for code, word, first, later in codes}


def _other_codes(name: str, classes: Classes) -> dict[str, str]:
    """Return the code of the other gender by each code."""
    words = _words_of_codes(name, classes)
    genders = {gender.strip().lower(): code for code, gender in words.items()}
    others = {
        code: genders.get(other_gender(gender.strip().lower())) for code, gender in words.items()
    }
    return {code: other for code, other in others.items() if other not in (None, code)}


def _other_code(cell: Any, codes: Mapping[str, str]) -> Any:
    """Return the cell of the other gender."""
    code = codes.get(_written(cell))
    if code is None:
        return other_gender(cell)
    if isinstance(cell, str):
        return cased(cell.strip(), code)
    return type(cell)(int(code)) if code.isdecimal() else cell


def _other_answer(cell: Any) -> Any:
    """Return the other answer, written alike."""
    if isinstance(cell, bool):
        return not cell
    other = _OTHER_ANSWER.get(_written(cell))
    if other is None:
        return cell
    return cased(cell.strip(), other) if isinstance(cell, str) else type(cell)(1 - cell)


def _written(cell: Any) -> str:
    """Return a cell in lower case; a whole number without its fraction."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip().lower()
