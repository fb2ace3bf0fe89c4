"""The files of a study from what a user gives: a folder, a CSV file, or a table in memory."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.measures import named_group
from swapbias.studies.chats import MESSAGES, text_of
from swapbias.studies.normal_form import composed
from swapbias.studies.own.factors import Columns, read_columns
from swapbias.studies.own.own_declaration import shown
from swapbias.studies.own.own_files import DECLARATION, LEXICON, PROMPTS, STUDY_FILES
from swapbias.studies.own.own_tables import unique_names
from swapbias.studies.own.ranges import Range, read_range


def source_name(source: Any) -> str:
    """Give the name of the file that a table was read from; blank for any other table."""
    return str(getattr(source, "attrs", {}).get("file", ""))


def study_files(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    unit: str = "",
    range: Range = None,
    fixed: Columns = (),
    shared_fills: bool = False,
) -> dict[str, bytes]:
    """The files of a study by name: those of a folder, or what a table comes to, as ``open_study`` takes it."""
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if any((reference, group, lexicon, unit, range, fixed, shared_fills)):
            raise UsageError(
                f"{place} says reference, group, words, unit, range, fixed columns and shared fills in its files. "
                "Write them there, and drop --reference and the like."
            )
        return _files_of_folder(place)
    if place is not None:
        if not place.is_file():
            raise UsageError(
                f"{source} is no folder of a study and no file of prompts. Check the path."
            )
        content = place.read_bytes()
        name = name or study_name(place.stem)
    else:
        table = _prompt_table(source)
        if "group" in table:
            reference, group = (
                named_group(one, set(map(str, table["group"]))) for one in (reference, group)
            )
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode()
        name = name or study_name(source_name(source).partition(".")[0] or "prompts")
    group = composed(str(group))
    reference = composed(str(reference))
    if group and group == reference:
        raise UsageError(
            f"{shown(group)} is the reference and the group compared with it. Name another group."
        )
    groups = [group, reference] if group else []
    declared = _declaration_of_table(
        name,
        {"groups": groups, "reference": reference},
        unit,
        read_range(range),
        read_columns(fixed),
        shared_fills,
    )
    words = {LEXICON: Path(lexicon).expanduser().read_bytes()} if lexicon else {}
    return {DECLARATION: declared.encode(), PROMPTS: content, **words}


def _declaration_of_table(
    name: str,
    compares: dict[str, Any],
    unit: str,
    ends: Sequence[float],
    fixed: Sequence[str],
    shared_fills: bool,
) -> str:
    """Write ``study.toml`` of a table of prompts."""
    if unit and ends:
        compares["unit"] = {"name": unit, "range": ends}
    elif unit:
        compares["unit"] = unit
    elif ends:
        compares["unit"] = {"range": ends}
    design = {"fixed": fixed, "shared_fills": bool(shared_fills)}
    sections = {
        "": {"name": name, "title": f"Own prompts ({name})"},
        "compares": compares,
        "design": design,
    }
    lines: list[str] = []
    for section, values in sections.items():
        stated = {key: value for key, value in values.items() if value}
        if section and stated:
            lines.append(f"\n[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in stated.items()]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """Write a text, number, switch, list, or table of these as TOML."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _files_of_folder(folder: Path) -> dict[str, bytes]:
    """Read the files of a study from its folder."""
    if not (folder / DECLARATION).is_file():
        raise UsageError(f"{folder} holds no {DECLARATION}. Write one with swapbias study new.")
    return {name: (folder / name).read_bytes() for name in STUDY_FILES if (folder / name).is_file()}


def _prompt_table(source: Any) -> pd.DataFrame:
    """Give prompts in memory as a table whose cells are those of a CSV file."""
    table = _with_class_names(source)
    if not isinstance(table, pd.DataFrame):
        found = type(source).__name__
        raise UsageError(
            f"prompts are a {found}, expected a folder, a CSV file, a DataFrame or a Dataset."
        )
    if "candidates" in table:  # as corpora have them, or as a CSV file does
        table = table.assign(candidates=[_words(one) for one in table["candidates"]])
    if MESSAGES in table:
        table = table.assign(text=[text_of(one) for one in table[MESSAGES]]).drop(columns=MESSAGES)
    return table


def _with_class_names(source: Any) -> Any:
    """A table as a DataFrame; of a Dataset columns of classes hold the names of these."""
    if not hasattr(source, "to_pandas"):
        return source
    table = source.to_pandas()
    for column, feature in (getattr(source, "features", None) or {}).items():
        if hasattr(feature, "int2str") and isinstance(table, pd.DataFrame):
            classes = [
                None if pd.isna(value) or value < 0 else int(value) for value in table[column]
            ]
            names = [None if number is None else feature.int2str(number) for number in classes]
            table = table.assign(**{column: names})
    return table


def _words(cell: Any) -> Any:
    """Words that are counted as a cell of a CSV file has them, from a list of ``{"text": ...}`` as corpora have."""
    return (
        cell
        if isinstance(cell, str) or not hasattr(cell, "__len__")
        else "|".join(one["text"] for one in cell)
    )


def study_name(text: str) -> str:
    (name,) = unique_names([text], most=46)
    return name if name[0].isalpha() else f"own_{name}"
