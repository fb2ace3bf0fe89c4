"""The files of a study from what a user gives: a folder, a CSV file, or a table in memory."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.errors import UsageError
from swapbias.measures import estimate
from swapbias.studies.chats import MESSAGES, text_of
from swapbias.studies.normal_form import composed
from swapbias.studies.own.factors import Columns, read_columns
from swapbias.studies.own.own_declaration import quote_name
from swapbias.studies.own.own_files import DECLARATION, LEXICON, PROMPTS, STUDY_FILES
from swapbias.studies.own.own_tables import unique_names
from swapbias.studies.own.ranges import Range, read_range


def source_name(source: Any) -> str:
    """Give the name of the file that a table was read from; blank for any other table.

    Args:
        source: a table in memory.
    """
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
    """Give the files of a study: those of a folder, or what a table comes to.

    Args:
        source: a folder, a CSV file, a DataFrame or a Dataset. The other arguments are those of tables.
        reference: the group that is subtracted.
        group: the group that is compared with it.
        lexicon: a CSV file of words and their groups.
        name: the name of the study; that of the file where it is blank.
        unit: the unit of the scores.
        range: the ends of the range of the scores.
        fixed: columns whose values the claim is about.
        shared_fills: whether a name or word may stand for two groups.

    Returns:
        Content of each file by its name.

    Raises:
        UsageError: there is no such folder or file, or arguments do not fit.
    """
    path = Path(source).expanduser() if isinstance(source, str | Path) else None
    if path is not None and path.is_dir():
        if any((reference, group, lexicon, unit, range, fixed, shared_fills)):
            raise UsageError(
                f"{path} says reference, group, words, unit, range, fixed columns and shared fills in its files. "
                "Write them there, and drop --reference and the like."
            )
        return _files_of_folder(path)
    if path is not None:
        if not path.is_file():
            raise UsageError(
                f"{source} is no folder of a study and no file of prompts. Check the path."
            )
        content = path.read_bytes()
        name = name or study_name(path.stem)
    else:
        table = _prompt_table(source)
        if "group" in table:
            groups = set(map(str, table["group"]))
            reference = estimate.named_group(reference, groups)
            group = estimate.named_group(group, groups)
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode()
        name = name or study_name(source_name(source).partition(".")[0] or "prompts")
    declaration = _declaration_of_table(
        name,
        _compares_of_table(str(group), str(reference), unit, range),
        {"fixed": read_columns(fixed), "shared_fills": bool(shared_fills)},
    )
    files = {DECLARATION: declaration.encode(), PROMPTS: content}
    if lexicon:
        files[LEXICON] = Path(lexicon).expanduser().read_bytes()
    return files


def _compares_of_table(group: str, reference: str, unit: str, range: Range) -> dict[str, Any]:
    """Give the section ``compares`` of a table of prompts."""
    group = composed(group)
    reference = composed(reference)
    if group and group == reference:
        raise UsageError(
            f"{quote_name(group)} is the reference and the group compared with it. Name another group."
        )
    ends = read_range(range)
    compares: dict[str, Any] = {
        "groups": [group, reference] if group else [],
        "reference": reference,
    }
    if unit and ends:
        compares["unit"] = {"name": unit, "range": ends}
    elif unit:
        compares["unit"] = unit
    elif ends:
        compares["unit"] = {"range": ends}
    return compares


def _declaration_of_table(name: str, compares: Mapping[str, Any], design: Mapping[str, Any]) -> str:
    """Write ``study.toml`` of a table of prompts; what is blank is left out."""
    sections: Mapping[str, Mapping[str, Any]] = {
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
        entries = ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items())
        return f"{{{entries}}}"
    return json.dumps(value, ensure_ascii=False)


def _files_of_folder(folder: Path) -> dict[str, bytes]:
    """Read the files of a study from its folder."""
    if not (folder / DECLARATION).is_file():
        raise UsageError(f"{folder} contains no {DECLARATION}. Write one with swapbias study new.")
    return {name: (folder / name).read_bytes() for name in STUDY_FILES if (folder / name).is_file()}


def _prompt_table(source: Any) -> pd.DataFrame:
    """Give prompts in memory as a table whose cells are those of a CSV file."""
    table = _with_class_names(source)
    if not isinstance(table, pd.DataFrame):
        raise UsageError(
            f"prompts are a {type(source).__name__}, expected a folder, a CSV file, a DataFrame or a Dataset."
        )
    if "candidates" in table:  # as corpora have them, or as a CSV file does
        table = table.assign(candidates=[_words_cell(cell) for cell in table["candidates"]])
    if MESSAGES in table:
        texts = [text_of(messages) for messages in table[MESSAGES]]
        table = table.assign(text=texts).drop(columns=MESSAGES)
    return table


def _with_class_names(source: Any) -> Any:
    """Give a table as a DataFrame; of a Dataset columns of classes hold the names of these."""
    if not hasattr(source, "to_pandas"):
        return source
    table = source.to_pandas()
    if not isinstance(table, pd.DataFrame):
        return table
    for column, feature in (getattr(source, "features", None) or {}).items():
        if hasattr(feature, "int2str"):
            names = [_class_name(feature, value) for value in table[column]]
            table = table.assign(**{column: names})
    return table


def _class_name(feature: Any, value: Any) -> str | None:
    """Give the name of a class by its number; None where a row has none."""
    if pd.isna(value) or value < 0:
        return None
    return str(feature.int2str(int(value)))


def _words_cell(words: Any) -> Any:
    """Give words that are counted as a cell of a CSV file, from a list of ``{"text": ...}`` as corpora have."""
    if isinstance(words, str) or not hasattr(words, "__len__"):
        return words
    return "|".join(word["text"] for word in words)


def study_name(text: str) -> str:
    """Make a name for a study of the name of a file or folder: a letter first, 50 letters at most.

    Args:
        text: any name.
    """
    (name,) = unique_names([text], most=46)
    return name if name[0].isalpha() else f"own_{name}"
