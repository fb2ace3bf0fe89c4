"""Rows of files, folders and Hub datasets, in batches and bounded memory."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from swapbias.errors import UsageError, listed, notes_read
from swapbias.files import check_regular, parse_json
from swapbias.privacy import credentialed
from swapbias.studies import tables
from swapbias.swapping.cloned_datasets import declared_classes, files_of_split, local_folder
from swapbias.swapping.hub_rows import HubName, HubRows, read_hub_name
from swapbias.swapping.row_formats import (
    FORMATS,
    Batches,
    class_names,
    file_batches,
    file_schema,
    format_of,
    in_schema,
)

CREDENTIALED = "credentialed"
"""Column that says of each row whether it may not be shared."""
SWAP_MANIFEST = "swap.json"
"""File of settings in a folder that a swap wrote."""
SWAPPED_ROWS = "data"
"""Folder of rows in it."""
_IS_TEXT = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_null)


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of rows."""

    schema: pa.Schema
    """Of every batch."""
    identity: Mapping[str, Any]
    """Distinguishes this input from another or an edited one: names, sizes, times, commit."""
    size: int | None
    """Bytes to read, where it is known."""
    read: Callable[[int], Batches]
    """Most rows per batch -> batches in order, each with the bytes read by then."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the classes of each column whose numbers stand for classes."""


def open_source(name: str, column: str, *, split: str | None = None) -> Source:
    """Open the rows of a file, of a folder's files in the order of their names, or of a Hub dataset.

    Args:
        name: a path (``folder[:config]``), or ``owner/name[@revision][:config]`` where no such path exists.
        column: the column of texts; it becomes a string column.
        split: the split of a Hub dataset, or of a folder of files named by their splits; None: the only one.

    Raises:
        UsageError: nothing there, no file of a known format, no such column, or several splits and none named.
        ValueError: a file that cannot be read, or files of different columns.
    """
    path = Path(name)
    hub_name = read_hub_name(name)
    folder, config = local_folder(name)
    if not folder.exists() and format_of(path) is None and hub_name:
        notes_read()
        return _hub_source(name, hub_name, column, split)
    if split is not None and not folder.is_dir():
        raise UsageError(
            f"--split {split}: {name} is no Hub dataset, and files have no splits. Drop --split."
        )
    source = read_files(files_of(folder, split=split, config=config), column)
    source = replace(source, classes={**declared_classes(folder), **source.classes})
    if split is None:
        return source
    return replace(source, identity={**source.identity, "split": split})


def read_files(files: Sequence[Path], column: str | None = None, *, notes: bool = True) -> Source:
    """Open the rows of files with the same columns.

    Args:
        files: paths, at least one.
        column: the column of texts; None: there need be none.
        notes: any text may be a patient's, so that errors quote none from here on.

    Raises:
        UsageError: no such column, or a file of no known format.
        ValueError: a file that cannot be read, or files of different columns.
    """
    if notes:
        notes_read()
    schema = _with_text(_common_schema(files), column)
    identities = []
    size = 0
    for file in files:
        status = file.stat()
        size += status.st_size
        identities.append(
            {"name": file.name, "bytes": status.st_size, "modified_ns": status.st_mtime_ns}
        )
    read = partial(_read_files, files, schema, column)
    return Source(schema, {"files": identities}, size, read, class_names(files[0]))


def _common_schema(files: Sequence[Path]) -> pa.Schema:
    """Return the columns of files, with types that hold the values of all; ValueError: they differ."""
    schema = file_schema(files[0])
    for file in files[1:]:
        further = file_schema(file)
        if set(further.names) != set(schema.names):
            raise ValueError(
                f"{file.name} has the columns {tables.shown_names(further.names)}, "
                f"expected {tables.shown_names(schema.names)} as in {files[0].name}. "
                "Give a folder whose files have the same columns."
            )
        try:
            schema = pa.unify_schemas([schema, further], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            raise ValueError(
                f"{file.name}: a column has another type than in {files[0].name}. Convert it."
            ) from None
    return schema


def _read_files(files: Sequence[Path], schema: pa.Schema, column: str | None, rows: int) -> Batches:
    """Yield the rows of files one after the other."""
    before = 0
    for file in files:
        batches = file_batches(file, schema, rows)
        for batch, position in in_schema(batches, schema, column, file.name):
            yield batch, before + position
        before += file.stat().st_size


def is_mimic(source: Source) -> bool:
    """Tell notes of MIMIC, by the names of files and columns.

    Args:
        source: an opened one.
    """
    names = [file["name"] for file in source.identity.get("files", [])]
    if any(map(credentialed.is_mimic_name, names)):
        return True
    return credentialed.is_mimic_columns(source.schema.names)


def why_rows_credentialed(source: Source) -> str:
    """Return why rows may not be shared, empty where they may.

    A column ``credentialed`` is read until its first true value.

    Args:
        source: an opened one.
    """
    if credentialed.is_mimic_columns(source.schema.names):
        return "the columns are those of MIMIC's notes"
    columns = {column.lower(): column for column in source.schema.names}
    if CREDENTIALED in columns:
        for batch, _ in source.read(1000):
            if any(map(_is_true, batch.column(columns[CREDENTIALED]).to_pylist())):
                return "the input says so in its column credentialed"
    return ""


def _is_true(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1", "yes")
    return bool(value)


def files_of(path: Path, *, split: str | None = None, config: str = "") -> list[Path]:
    """Return a file, or those of a folder: in it, or in the one folder below it that has some; of a swap its rows.

    Args:
        path: path of a file or a folder.
        split: of a cloned dataset, the split whose files are returned; None: the only one.
        config: the config of its README.md; blank: the only one, or the default.

    Raises:
        UsageError: nothing there, files in several folders, of several splits or configs and none chosen, or a swap
            that is not complete.
    """
    formats = listed(FORMATS)
    if not path.exists():
        raise UsageError(
            f"{path} does not exist. Give a file ({formats}), a folder of them or a Hub id (owner/name)."
        )
    check_regular(path)
    if path.is_file():
        return [path]
    if (path / SWAP_MANIFEST).is_file() and (path / SWAPPED_ROWS).is_dir():
        if parse_json((path / SWAP_MANIFEST).read_bytes()).get("status") != "complete":
            raise UsageError(
                f"The swap into {path} is not complete. Run its command again to resume."
            )
        path = path / SWAPPED_ROWS
    below = files_of_split(path, _visible_files(path), split, config)
    files = [file for file in below if file.parent == path] or below
    for file in files:
        check_regular(file)
    folders = list(dict.fromkeys(str(file.parent) for file in files))
    if len(folders) > 1:
        examples = listed(folders[:8])
        raise UsageError(
            f"{path} contains files in {len(folders)} folders, among them {examples}. Give one of them."
        )
    if not files:
        raise UsageError(
            f"{path} contains no files of rows, expected some of {formats}. Give another folder."
        )
    return files


def _visible_files(folder: Path) -> list[Path]:
    """Return the files of a known format in a folder and below, without hidden ones."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if format_of(path) and "/." not in f"/{path.relative_to(folder)}"
    ]


def _with_text(schema: pa.Schema, column: str | None) -> pa.Schema:
    """Return a checked schema in which the column of texts and categories of texts are plain texts."""
    repeated = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if repeated is not None:
        raise ValueError(
            f"A column appears twice in the input ({tables.shown_names([repeated])}), expected once. Rename one."
        )
    if column is not None and column not in schema.names:
        names = tables.shown_names(schema.names)
        raise UsageError(f"There is no column {column!r}, there are {names}. Choose with --column.")
    schema = pa.schema([pa.field(cell.name, _plain(cell.type)) for cell in schema])
    for index, cells in enumerate(schema):
        kind = cells.type
        is_category = kinds.is_dictionary(kind)
        if is_category:
            kind = kind.value_type
        is_text = any(is_kind(kind) for is_kind in _IS_TEXT)
        is_texts = cells.name == column
        if is_texts and not is_text:
            raise UsageError(
                f"Column {column!r} contains {kind}, expected texts. Choose another with --column."
            )
        is_other_text = is_texts and not kinds.is_large_string(kind)
        if is_text and (is_category or is_other_text):
            schema = schema.set(index, pa.field(cells.name, pa.string()))
    return schema


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts, bytes and lists in place of views of them."""
    if kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_struct(kind):
        return pa.struct([pa.field(part.name, _plain(part.type)) for part in kind])
    if kinds.is_list(kind) or kinds.is_list_view(kind):
        return pa.list_(_plain(kind.value_type))
    if kinds.is_large_list(kind) or kinds.is_large_list_view(kind):
        return pa.large_list(_plain(kind.value_type))
    return kind


def _hub_source(name: str, hub_name: HubName, column: str, split: str | None) -> Source:
    """Open a dataset of the Hub."""
    rows = HubRows(name, hub_name, split)
    schema = _with_text(rows.schema, column)

    def read(count: int) -> Batches:
        return in_schema(rows.read(count), schema, column, name)

    return Source(schema, rows.identity, None, read, rows.classes)
