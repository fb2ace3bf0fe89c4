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
_TEXTS = (
    "text",
    "template",
    "cv",
    "description",
)  # columns that are read as they are, blanks at their ends included
_AS_WRITTEN = (*_TEXTS, "candidates", "word")


def read_own_table(name: str, content: bytes, faults: list[str]) -> pd.DataFrame:
    """The rows of a table that can be read, by their lines in the file; what is wrong is added to ``faults``."""
    valid: dict[int, dict[str, str]] = {}
    wrong: list[str] = []
    layout = layout_of(content, REQUIRED[name])
    try:
        optional = ("candidates", *layout.unnamed)
        rows = table_rows(
            name,
            layout.content,
            partial(_header_faults, name),
            optional=optional,
            delimiter=layout.delimiter,
        )
        for number, row, found in rows:
            line = number + layout.skipped
            if number > 1 and not any(map(str.strip, row.values())):
                continue
            found += [
                f"column {one!r} holds more than {_MOST_LETTERS} letters or what cannot be printed. Shorten it."
                for one, cell in row.items()
                if one not in (*_TEXTS, "candidates")
                and not (len(cell) <= _MOST_LETTERS and cell.strip().isprintable())
            ]
            wrong += [f"{name}:{line}: {what}" for what in found]
            if not found:
                valid[line] = {
                    one: cell if one in _AS_WRITTEN else composed(cell.strip())
                    for one, cell in row.items()
                }
    except ValueError as error:
        valid = {}
        wrong = [str(error)]
    faults += wrong if valid or wrong else [f"{name} holds no rows below its header. Add some."]
    table = pd.DataFrame(list(valid.values()), index=list(valid), dtype=object)
    if name == PROMPTS and "pair" not in table:
        table = table.rename(columns={"pair_id": "pair"})  # as swapped files call it
    table, of_index = without_index(table, layout.unnamed)
    faults += [f"{name}:{1 + layout.skipped}: {fault}" for fault in of_index]
    if name == TEMPLATES and valid and "template_id" not in table:
        table["template_id"] = unique_names(table["template"])
    return table


def _header_faults(name: str, columns: Sequence[str]) -> Iterator[str]:
    for one in REQUIRED[name]:
        if one not in columns:
            hint = (
                "Save it with commas between cells"
                if len(columns) == 1 and {*columns[0]} & {*";|"}
                else "Add it"
            )
            yield f"column {one!r} is missing, found {shown_names(columns)}. {hint}."
    for number, one in enumerate(columns, start=1):
        if one and columns.index(one) < number - 1:
            yield f"a column ({shown_names([one])}) stands twice. Name one of them anew."
        is_pair = one == "pair_id" and name == PROMPTS and "pair" not in columns
        if one in _RESERVED and not is_pair and not (one == "wording" and name == WORDINGS):
            hint = "Call it pair." if one == "pair_id" else "Name it anew."
            yield f"column {quoted(one)} is a name that scored prompts use themselves. {hint}"
        if not (UNNAMED_COLUMN.fullmatch(one) or re.fullmatch(r"[A-Za-z][\w -]{0,39}", one)):
            yield f"cell {number} is no name of a column. Use letters, digits, - and _."


def table_column(tables: Mapping[str, pd.DataFrame], table: str, name: str) -> "pd.Series[str]":
    """A column of a table; without values where there is none."""
    return tables.get(table, pd.DataFrame()).get(name, pd.Series(dtype=object))


def unique_names(texts: Iterable[str], most: int = 40) -> list[str]:
    """A readable name for each text: ``non_binary``, and ``non_binary_2`` for a later one that is alike."""
    found: list[str] = []
    for text in texts:
        base = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:most].strip("_") or "other"
        names = chain((base,), (f"{base}_{number}" for number in count(2)))
        found.append(next(one for one in names if one not in found))
    return found
