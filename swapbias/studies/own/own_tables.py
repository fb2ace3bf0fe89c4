"""Read the tables of a user's own study as texts with their lines; faults are named by line."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count

import pandas as pd

from swapbias.errors import quoted
from swapbias.studies.normal_form import composed
from swapbias.studies.own.own_files import PROMPTS, REQUIRED, TEMPLATES, WORDINGS
from swapbias.studies.own.table_layout import UNNAMED_COLUMN, layout_of, without_index
from swapbias.studies.prompt import PLACEBO_COLUMNS
from swapbias.studies.tables import shown_names, table_rows

_MOST_LETTERS = 300  # of a cell that is no text: it stands in tables and findings
_RESERVED = {
    *PLACEBO_COLUMNS, "prompt_id", "pair_id", "experiment", "model_id", "score", "answer", "top_tokens", "non_finite",
    "where", "counted", "positive_control", "same_input",
}  # fmt: skip
# columns that are read as they are, blanks at their ends included
_TEXTS = ("text", "template", "cv", "description")
_AS_WRITTEN = (*_TEXTS, "candidates", "word")


def read_own_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """Read the rows of a table that can be read.

    Args:
        name: the name of the file.
        content: the content of the file.
        faults: a list to which what is wrong is added, a sentence each with file and line.

    Returns:
        The rows as texts, indexed by their lines in the file.
    """
    try:
        layout = layout_of(name, content, REQUIRED[name])
    except ValueError as error:
        faults.append(str(error))
        return pd.DataFrame()
    rows = table_rows(
        name,
        layout.content,
        partial(_header_faults, name),
        optional=("candidates", *layout.unnamed),
        delimiter=layout.delimiter,
    )
    valid: dict[int, dict[str, str]] = {}
    wrong: list[str] = []
    try:
        for number, row, sentences in rows:
            if number > 1 and not any(map(str.strip, row.values())):
                continue
            line = number + layout.skipped
            of_row = [*sentences, *_cell_faults(row)]
            wrong += [f"{name}:{line}: {sentence}" for sentence in of_row]
            if not of_row:
                valid[line] = {column: _clean(column, cell) for column, cell in row.items()}
    except ValueError as error:
        valid = {}
        wrong = [str(error)]
    if not valid and not wrong:
        wrong = [f"{name} contains no rows below its header. Add some."]
    faults += wrong
    table = pd.DataFrame(list(valid.values()), index=list(valid), dtype=object)
    if name == PROMPTS and "pair" not in table:
        table = table.rename(columns={"pair_id": "pair"})  # as swapped files call it
    table, of_index = without_index(table, layout.unnamed)
    faults += [f"{name}:{1 + layout.skipped}: {sentence}" for sentence in of_index]
    if name == TEMPLATES and valid and "template_id" not in table:
        table["template_id"] = unique_names(table["template"])
    return table


def _cell_faults(row: Mapping[str, str]) -> Iterator[str]:
    """Find cells that are too long or cannot be printed, where they are no texts."""
    for column, cell in row.items():
        if column in _TEXTS or column == "candidates":
            continue
        if len(cell) > _MOST_LETTERS or not cell.strip().isprintable():
            yield (
                f"column {column!r} contains more than {_MOST_LETTERS} letters or what cannot be printed. "
                "Shorten it."
            )


def _clean(column: str, cell: str) -> str:
    """Take blanks off the ends of a cell, and write accents in one way; texts stay as they are."""
    if column in _AS_WRITTEN:
        return cell
    return composed(cell.strip())


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    """Find columns that are missing, stand twice, or have a name that cannot be used."""
    for required in REQUIRED[name]:
        if required not in columns:
            yield f"column {required!r} is missing, found {shown_names(columns)}. Add it."
    for number, column in enumerate(columns, start=1):
        if column and columns.index(column) < number - 1:
            yield f"a column ({shown_names([column])}) appears twice. Rename one of them."
        if _is_reserved(name, column, columns):
            hint = "Call it pair." if column == "pair_id" else "Rename it."
            yield f"column {quoted(column)} is a name that scored prompts use themselves. {hint}"
        if not (UNNAMED_COLUMN.fullmatch(column) or re.fullmatch(r"[A-Za-z][\w -]{0,39}", column)):
            yield f"cell {number} is no name of a column. Use letters, digits, - and _."


def _is_reserved(name: str, column: str, columns: Sequence[str]) -> bool:
    """Tell whether scored prompts use the name of a column; ``pair_id`` of prompts is read as ``pair``."""
    if column == "pair_id" and name == PROMPTS and "pair" not in columns:
        return False
    if column == "wording" and name == WORDINGS:
        return False
    return column in _RESERVED


def table_column(tables: Mapping[str, pd.DataFrame], table: str, name: str) -> "pd.Series[str]":
    """Give a column of a table; without values where there is none.

    Args:
        tables: by the names of their files.
        table: the name of a file.
        name: the name of the column.
    """
    return tables.get(table, pd.DataFrame()).get(name, pd.Series(dtype=object))


def unique_names(texts: Iterable[str], most: int = 40) -> list[str]:
    """Make a readable name of each text: ``non_binary``, and ``non_binary_2`` for a later one that is alike.

    Args:
        texts: texts in order.
        most: letters of a name, without the number.
    """
    names: list[str] = []
    for text in texts:
        base = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:most].strip("_") or "other"
        candidates = chain((base,), (f"{base}_{number}" for number in count(2)))
        names.append(next(name for name in candidates if name not in names))
    return names
