"""Read what ``study.toml`` of a user's own study says: the sections of all studies, with defaults."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.studies.corpus_folders import corpora
from swapbias.studies.declared import (
    Declaration,
    Fault,
    line_of_fault,
    parse_declaration,
    sections_of,
    validate,
)
from swapbias.studies.declared_values import COMPUTED, OF_PACKAGE
from swapbias.studies.experiment import OwnStudy
from swapbias.studies.own.own_files import DECLARATION
from swapbias.studies.tables import decoded
from swapbias.studies.toml_lines import KeyPath

USUAL_REQUEST = "Rank these candidates for a job as [job], the best first. Answer with names only."
_NEEDED = ("name", "title")
READINGS = ("text", "person", "options", "ranking")  # of a chat model's answer


def read_declaration(content: bytes) -> tuple[OwnStudy, dict[str, str], Declaration]:
    """Read ``study.toml``.

    Args:
        content: the content of the file.

    Returns:
        What it says, without what is wrong; by key a sentence for each fault, in the order of lines (a blank key:
        the whole file); and the file with the lines of its keys.
    """
    empty = Declaration(DECLARATION, "", {})
    try:
        text = decoded(DECLARATION, content)
        declaration = parse_declaration(DECLARATION, text)
    except ValueError as error:
        return OwnStudy(), {"": str(error)}, empty
    values = {
        key: value for key, value in declaration.values.items() if value or key not in _NEEDED
    }
    last = text.count("\n") + 1
    faults = [
        Fault((key,), last, f'{DECLARATION}:{last}: {key} is missing. Add {key} = "...".')
        for key in _NEEDED
        if key not in values
    ]
    faults += _package_keys(declaration, OwnStudy, values)
    study, of_values = _valid_part(declaration, _without(values, faults))
    faults += [*of_values, *_disagreements(declaration, study, {fault.key for fault in of_values})]
    wrong: dict[str, str] = {}
    for fault in sorted(faults, key=line_of_fault):
        wrong.setdefault(fault.key, fault.sentence)
    return study, wrong, declaration


def _valid_part(
    declaration: Declaration, values: Mapping[str, Any]
) -> tuple[OwnStudy, list[Fault]]:
    """Give what the values say without those that are wrong, and what is wrong."""
    study, faults = validate(declaration, OwnStudy, values)
    while study is None:
        values = _without(values, faults)
        study, others = validate(declaration, OwnStudy, values)
        faults += others
    return study, faults


def _without(values: Mapping[str, Any], faults: Sequence[Fault]) -> dict[str, Any]:
    """Give values without those that faults are about."""
    places = {tuple(part for part in fault.key_path if isinstance(part, str)) for fault in faults}
    return {
        key: _without_in(key, value, places)
        for key, value in values.items()
        if (key,) not in places
    }


def _without_in(section: str, value: Any, places: set[tuple[str, ...]]) -> Any:
    """Give a section without the keys at some places; any other value as it is."""
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if (section, key) not in places}


def _package_keys(
    declaration: Declaration,
    of_class: type[BaseModel],
    values: Mapping[str, Any],
    section: KeyPath = (),
) -> Iterator[Fault]:
    """Find keys that only studies of the package have."""
    sections = sections_of(of_class)
    for key, value in values.items():
        info = of_class.model_fields.get(key)
        extra = getattr(info, "json_schema_extra", None)
        marks = extra if isinstance(extra, dict) else {}
        if OF_PACKAGE in marks or COMPUTED in marks:
            yield declaration.fault((*section, key), f"{key} is no key of own studies. Remove it.")
        elif key in sections and isinstance(value, Mapping):
            yield from _package_keys(declaration, sections[key], value, (*section, key))


def _disagreements(declaration: Declaration, study: OwnStudy, wrong: set[str]) -> Iterator[Fault]:
    """Find values that contradict each other; values that are wrong by themselves are skipped."""
    reads = study.reads
    if study.name in corpora():
        yield declaration.fault(
            ("name",), f"name is {quoted(study.name)}, a study of the package. Choose another."
        )
    if reads.reading not in ("", *READINGS):
        hint = did_you_mean(reads.reading, READINGS) or " Correct it."
        yield declaration.fault(
            ("reads", "reading"),
            f"reading is {quoted(reads.reading)}, expected {listed(READINGS)}.{hint}",
        )
        return
    if not wrong & {"kind", "answers", "rubric"}:
        yield from _answer_faults(declaration, study)
    states_range = not wrong & {"compares", "unit"} and _states_range(declaration)
    if states_range and study.kind and "classifier" not in study.kind:
        yield declaration.fault(
            ("compares", "unit"),
            "range is that of a classifier's scores; answers and words have their own. Remove it.",
        )


def _states_range(declaration: Declaration) -> bool:
    """Tell whether the unit is a table with a range."""
    unit = declaration.values.get("compares", {}).get("unit")
    return isinstance(unit, Mapping) and "range" in unit


def _answer_faults(declaration: Declaration, study: OwnStudy) -> Iterator[Fault]:
    """Find options of answers that nothing asks for, and a question without options."""
    asks = "chat" in study.kind and not study.is_ranking
    if study.reads.answers and not asks:
        yield declaration.fault(
            ("reads", "answers"),
            'answers are given, and nothing asks for them. Add kind = ["chat"] above the sections.',
        )
    if asks and not study.reads.answers:
        yield declaration.fault(
            ("kind",),
            'kind names chat, and answers is missing. Add answers = ["0=Yes", "1=No"] to [reads].',
        )


def quote_name(name: str) -> str:
    """Write the name of a group or pair for a sentence; what is long may be a text, and is not repeated.

    Args:
        name: the name of a group, pair, column or word.
    """
    if len(name) <= 40 and len(name.split()) <= 4:
        return quoted(name)
    return f"(a name of {len(name)} letters)"
