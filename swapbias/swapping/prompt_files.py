"""Own prompts from files of any format that a swap reads and writes, and from a swap's folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from swapbias.errors import UsageError, notes_read
from swapbias.public_calls import public_call
from swapbias.studies import Study, chats, own
from swapbias.studies.own import factors, own_files, own_study, ranges
from swapbias.swapping.readers import (
    CREDENTIALED,
    files_of,
    is_mimic,
    read_files,
    why_rows_credentialed,
)
from swapbias.swapping.row_formats import FORMATS, class_names, format_of

_ROWS = 10_000  # read at once
_SWAP_PREFIX = "swapbias_"  # of columns that a swap adds to say what it did
_WITH_LISTS = ("candidates", chats.MESSAGES)  # columns whose cells may be lists


@public_call
def open_study(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    origin: str = "",
    unit: str = "",
    range: ranges.Range = None,
    fixed: factors.Columns = (),
    shared_fills: bool = False,
) -> Study:
    """Open a study from a folder or one table; it is known by its name from now on like those of the package.

    >>> import pandas as pd
    >>> texts, groups = ["He is late.", "She is late.", "He left.", "She left."], ["male", "female"] * 2
    >>> table = pd.DataFrame({"text": texts, "group": groups, "pair": ["late", "late", "left", "left"]})
    >>> study = open_study(table, reference="male", name="punctual")
    >>> [experiment.name for experiment in study.experiments], study.experiments[0].compares.groups
    (['classifier', 'causal'], ('female',))

    Args:
        source: a folder with ``study.toml`` (see ``swapbias study new``), or one table with the columns ``text``,
            ``group`` and ``pair`` (see docs/own.md): a CSV, TSV, JSON lines or Parquet file, a folder of them (also
            that of a swap in pairs), a DataFrame or a Dataset.
        reference: only for a table: the group that is subtracted.
        group: only for a table: the group that is compared with it; blank: each other one.
        lexicon: only for a table: a CSV file with the columns ``word`` and ``group``, counted at ``<mask>``.
        name: name of the study; by default that of the file, or ``prompts``.
        origin: where it comes from, for the manifest of a run (``OWNER/NAME@commit``).
        unit: only for a table: what the score of a classifier or function is.
        range: only for a table: the least and the largest value of that score; None: not said.
        fixed: only for a table: columns whose levels the claim is about; others that recur over pairs are a sample.
        shared_fills: only for a table: let a name or word stand for two groups, as "she" in stereotypes and others.

    Returns:
        The study.

    Raises:
        StudyError: what is wrong, a line for each fault with file and line.
        UsageError: a path without such files.
    """
    table = prompt_table(source)
    return own.open_study(
        table,
        reference=reference,
        group=group,
        lexicon=lexicon,
        name=name,
        origin=origin,
        unit=unit,
        range=range,
        fixed=fixed,
        shared_fills=shared_fills,
    )


def check_study(source: Any, **of_table: Any) -> own_study.Check:
    """Find the faults of what ``open_study`` takes, and without any, advice on what may bend its numbers.

    Args:
        source: as ``open_study`` takes it.
        of_table: the other arguments of ``open_study``.
    """
    return own.check_study(prompt_table(source), **of_table)


def prompt_table(source: Any) -> Any:
    """Read a file of prompts that is no CSV file, or a folder of such files, as a table.

    Args:
        source: as ``open_study`` takes it.

    Returns:
        A DataFrame of texts, which knows the name of its file; what is no such file as it came.

    Raises:
        UsageError: a folder without files of a known format.
        ValueError: a file that cannot be read.
    """
    import pandas as pd

    if not isinstance(source, str | Path):
        return source
    path = Path(source).expanduser()
    if not _is_read_here(path):
        return source
    files = files_of(path)
    rows = read_files(files, notes=False)
    batches = [batch for batch, _ in rows.read(_ROWS)]
    table = pa.Table.from_batches(batches, rows.schema)
    cells = {
        name: _cells(name, table.column(name))
        for name in table.column_names
        if not name.startswith(_SWAP_PREFIX)
    }
    for name, classes in class_names(files[0]).items():
        if name in cells:
            cells[name] = [_class_name(classes, cell) for cell in cells[name]]
    frame = pd.DataFrame(cells, dtype=object)
    if is_mimic(rows) or why_rows_credentialed(rows):
        notes_read()  # errors quote none of them
        frame[CREDENTIALED] = "true"
    frame.attrs["file"] = path.name
    return frame


def _is_read_here(path: Path) -> bool:
    """Tell whether a path is read here, or refused: a file of a format other than CSV, or a folder of no study."""
    if path.is_dir():
        return not any((path / name).is_file() for name in own_files.STUDY_FILES)
    is_json = path.suffix.lower() == ".json"
    return path.is_file() and (is_json or format_of(path) in set(FORMATS) - {".csv"})


def _class_name(names: Sequence[str], cell: str) -> str:
    """Return the name of a class by its number; a class that is not among them stays, -1 is a missing value."""
    if cell == "-1":
        return ""
    if cell.isdecimal() and int(cell) < len(names):
        return names[int(cell)]
    return cell


def _cells(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Write a column as a CSV file has it: texts, blank where there is no value."""
    if kinds.is_nested(column.type):
        values: list[Any] = column.to_pylist()
        if name in _WITH_LISTS:
            return values
        return [json.dumps(value, ensure_ascii=False) for value in values]
    try:
        texts = pc.cast(column, pa.string()).to_pylist()
        return ["" if text is None else text for text in texts]
    except pa.ArrowException:
        raise UsageError(
            f"Column {name!r} contains {column.type}, expected texts or numbers. Convert it."
        ) from None
