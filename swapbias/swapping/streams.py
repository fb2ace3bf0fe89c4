"""What is swapped: a file, a folder of files or a Hub dataset, as one stream of rows with one schema."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as kinds

from swapbias.errors import UsageError
from swapbias.sources import shown_names
from swapbias.swapping.readers import FORMATS, Batches, Format, format_of

if TYPE_CHECKING:
    from datasets import IterableDataset

CREDENTIALED = "credentialed"
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+)?")
_MIMIC_FILES = ("noteevents",)
_MIMIC_COLUMNS = {"subject_id", "hadm_id", "text"}
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of rows.

    Attributes:
        schema: columns and types of every batch; the text column is a string or large string.
        identity: what tells this input from another or from an edited one: names, sizes, times, hashes.
        size: bytes to read, or None where that is not known.
        files: names of the files, none for a Hub dataset.
        read: most rows per batch -> batches in order, each with the bytes read by then.
    """

    schema: pa.Schema
    identity: Mapping[str, Any]
    size: int | None
    files: tuple[str, ...]
    read: Callable[[int], Batches]


def open_source(name: str, column: str, *, split: str | None = None) -> Source:
    """The rows of a file, of a folder's files in the order of their names, or of a Hub dataset.

    Args:
        name: a path, or ``owner/name[:config]`` where no such path exists.
        column: the column of texts.
        split: of a Hub dataset; ``train`` if None.

    Raises:
        UsageError: nothing there, no file of a known format, or no such column.
        ValueError: a file that cannot be read, or files of different columns.
    """
    path = Path(name)
    if not path.exists() and format_of(path) is None and _HUB_ID.fullmatch(name):
        return _hub_source(name, column, split or "train")
    if split is not None:
        raise UsageError(f"--split {split}: {name} is no Hub dataset, and files have no splits. Drop --split.")
    return _file_source(_files(path), column)


def why_credentialed(source: Source) -> str:
    """Why these rows may not be shared, or blank; a column ``credentialed`` is read until its first true value."""
    if any(file.lower().split(".")[0] in _MIMIC_FILES for file in source.files):
        return "the file is named like MIMIC's notes"
    columns = {column.lower(): column for column in source.schema.names}
    if columns.keys() >= _MIMIC_COLUMNS:
        return "the columns are those of MIMIC's notes"
    if CREDENTIALED in columns:
        for batch, _ in source.read(1000):
            if any(map(_is_true, batch.column(columns[CREDENTIALED]).to_pylist())):
                return "the input says so in its column credentialed"
    return ""


def _is_true(value: object) -> bool:
    return value.strip().lower() in ("true", "1", "yes") if isinstance(value, str) else bool(value)


def _files(path: Path) -> list[Path]:
    known = ", ".join(FORMATS)
    if not path.exists():
        raise UsageError(
            f"{path} does not exist. Give a file ({known}), a folder of them or a Hub id like owner/name."
        )
    if path.is_file():
        _format(path)  # refused if unknown
        return [path]
    found = sorted(file for file in path.iterdir() if not file.name.startswith(".") and format_of(file))
    if not found:
        raise UsageError(f"{path} holds no files to swap, expected some of {known}. Give another folder.")
    return found


def _file_source(files: Sequence[Path], column: str) -> Source:
    schema = _format(files[0]).schema(files[0])
    for file in files[1:]:
        other = _format(file).schema(file)
        if set(other.names) != set(schema.names):
            raise ValueError(
                f"{file.name} has the columns {other.names}, expected {schema.names} as in {files[0].name}. "
                "Give a folder whose files have the same columns."
            )
        try:
            schema = pa.unify_schemas([schema, other], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise ValueError(
                f"{file.name}: a column has another type than in {files[0].name}. Convert it."
            ) from error
    schema = _with_text(schema, column)
    return Source(
        schema=schema,
        identity={"files": [_fingerprint(file) for file in files]},
        size=sum(file.stat().st_size for file in files),
        files=tuple(file.name for file in files),
        read=partial(_read_files, files, schema),
    )


def _format(file: Path) -> Format:
    known = format_of(file)
    if known is None:
        raise UsageError(f"{file.name} is of no known format, expected {', '.join(FORMATS)}. Convert it.")
    return known


def _with_text(schema: pa.Schema, column: str) -> pa.Schema:
    """The schema, checked, with the text column as plain text; a column that holds only nulls is text too."""
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"A column stands twice in the input ({shown_names([twice])}), expected once. Rename one.")
    if column not in schema.names:
        there = shown_names(schema.names)
        raise UsageError(f"There is no column {column!r}, there are {there}. Choose with --column.")
    field = schema.field(column)
    if kinds.is_string(field.type) or kinds.is_large_string(field.type):
        return schema
    inner = field.type.value_type if kinds.is_dictionary(field.type) else field.type
    if not (kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_null(inner)):
        raise UsageError(f"Column {column!r} holds {field.type}, expected texts. Choose another with --column.")
    return schema.set(schema.get_field_index(column), pa.field(column, pa.string()))


def _read_files(files: Sequence[Path], schema: pa.Schema, rows: int) -> Batches:
    before = 0
    for file in files:
        for batch, position in _format(file).batches(file, schema, rows):
            yield _shaped(batch, schema, file.name), before + position
        before += file.stat().st_size


def _shaped(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    try:
        return batch.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise ValueError(f"{name}: rows do not fit the columns and types of the first ones. Convert it.") from error


def _fingerprint(file: Path) -> dict[str, Any]:
    """Enough to notice another or an edited file without reading gigabytes."""
    with file.open("rb") as handle:
        head = hashlib.sha256(handle.read(_MEGABYTE)).hexdigest()
    status = file.stat()
    return {
        "name": file.name,
        "bytes": status.st_size,
        "modified_ns": status.st_mtime_ns,
        "sha256_of_first_mb": head,
    }


def _hub_source(name: str, column: str, split: str) -> Source:
    """A Hub dataset at the commit it has now, streamed; its own code is never run."""
    from huggingface_hub import HfApi

    dataset, _, config = name.partition(":")
    try:
        revision = HfApi().dataset_info(dataset).sha
        stream = _hub_stream(dataset, config or None, split, revision)
        first = next(iter(stream.iter(1)), None)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ValueError(
            f"{name} (split {split}) is neither a local file nor a dataset that the Hub gave "
            f"({lines[0].rstrip('.')}). Check the name, --split and the connection."
        ) from error
    if first is None:
        raise ValueError(f"{name} (split {split}) holds no rows, expected some. Choose another --split.")
    schema = _with_text(first.schema.remove_metadata(), column)
    return Source(
        schema=schema,
        identity={"dataset": dataset, "config": config, "split": split, "revision": revision},
        size=None,
        files=(),
        read=partial(_read_stream, stream, schema, name),
    )


def _hub_stream(dataset: str, config: str | None, split: str, revision: str | None) -> "IterableDataset":
    from datasets import load_dataset

    stream = load_dataset(dataset, config, split=split, revision=revision, streaming=True)
    return stream.with_format("arrow")


def _read_stream(stream: "IterableDataset", schema: pa.Schema, name: str, rows: int) -> Batches:
    for table in stream.iter(rows):
        for batch in table.combine_chunks().to_batches():
            yield _shaped(batch, schema, name), 0
