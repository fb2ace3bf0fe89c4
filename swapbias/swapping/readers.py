"""Rows of files and Hub datasets, in batches and bounded memory; an error names the row, never a cell."""

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from swapbias.errors import UsageError, first_line, listed, notes_read
from swapbias.files import check_regular, parse_json
from swapbias.hub_http import configure_http
from swapbias.privacy import credentialed
from swapbias.studies import tables

Batches = Iterator[
    tuple[pa.RecordBatch, int]
]  # rows, and how many bytes of the file are read by now

LONGEST = 8 << 20  # bytes of one text, in any format
CREDENTIALED = "credentialed"
_CHUNK = 4 << 20
_LINE = 8 * LONGEST  # of JSON lines, which may write each byte of a text with six
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+)?")
# in a folder that a swap wrote: its settings, a folder of rows
SWAP_MANIFEST = "swap.json"
SWAPPED_ROWS = "data"
FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")
_TEXTS = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_null)


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


def open_source(name: str, column: str, *, split: str | None = None) -> Source:
    """The rows of a file, of a folder's files in the order of their names, or of a Hub dataset.

    Args:
        name: a path, or ``owner/name[:config]`` where no such path exists.
        column: the column of texts; it becomes a string column.
        split: of a Hub dataset; None: the only one that it has.

    UsageError: nothing there, no file of a known format, no such column, or several splits and none named.
    ValueError: a file that cannot be read, or files of different columns.
    """
    path = Path(name)
    if not path.exists() and format_of(path) is None and _HUB_ID.fullmatch(name):
        notes_read()
        return _hub_source(name, column, split)
    if split is not None:
        raise UsageError(
            f"--split {split}: {name} is no Hub dataset, and files have no splits. Drop --split."
        )
    return read_files(files_of(path), column)


def read_files(files: Sequence[Path], column: str | None = None, *, notes: bool = True) -> Source:
    """The rows of files with the same columns; ``column`` must hold texts. Raises as ``open_source``.

    ``notes``: any text may be a patient's, so that errors quote none from here on.
    """
    if notes:
        notes_read()
    schema = _schema(files[0])
    for file in files[1:]:
        other = _schema(file)
        if set(other.names) != set(schema.names):
            raise ValueError(
                f"{file.name} has the columns {tables.shown_names(other.names)}, "
                f"expected {tables.shown_names(schema.names)} as in {files[0].name}. "
                "Give a folder whose files have the same columns."
            )
        try:
            schema = pa.unify_schemas([schema, other], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            raise ValueError(
                f"{file.name}: a column has another type than in {files[0].name}. Convert it."
            ) from None
    schema = _with_text(schema, column)
    found = [(file.name, file.stat()) for file in files]
    known = [
        {"name": name, "bytes": one.st_size, "modified_ns": one.st_mtime_ns} for name, one in found
    ]
    size = sum(one.st_size for _, one in found)
    return Source(schema, {"files": known}, size, partial(_read_files, files, schema, column))


def is_mimic(source: Source) -> bool:
    """True for notes of MIMIC, by the names of files and columns."""
    names = [one["name"] for one in source.identity.get("files", [])]
    return any(map(credentialed.is_mimic_name, names)) or credentialed.is_mimic_columns(
        source.schema.names
    )


def why_rows_credentialed(source: Source) -> str:
    """Why these rows may not be shared, or blank; a column ``credentialed`` is read until its first true value."""
    if credentialed.is_mimic_columns(source.schema.names):
        return "the columns are those of MIMIC's notes"
    columns = {column.lower(): column for column in source.schema.names}
    if CREDENTIALED in columns:
        for batch, _ in source.read(1000):
            if any(map(_is_true, batch.column(columns[CREDENTIALED]).to_pylist())):
                return "the input says so in its column credentialed"
    return ""


def _is_true(value: object) -> bool:
    return value.strip().lower() in ("true", "1", "yes") if isinstance(value, str) else bool(value)


def format_of(path: Path) -> str | None:
    """The ending of ``FORMATS`` that a file has, or None."""
    return next((ending for ending in FORMATS if path.name.lower().endswith(ending)), None)


def files_of(path: Path) -> list[Path]:
    """The file, or those of a folder: in it, or in the one folder below it that has some; of a swap its rows."""
    known = listed(FORMATS)
    if not path.exists():
        raise UsageError(
            f"{path} does not exist. Give a file ({known}), a folder of them or a Hub id (owner/name)."
        )
    check_regular(path)
    if path.is_file():
        return [path]
    if (path / SWAP_MANIFEST).is_file() and (path / SWAPPED_ROWS).is_dir():
        if parse_json((path / SWAP_MANIFEST).read_bytes()).get("status") != "complete":
            raise UsageError(
                f"The swap into {path} is not complete. Repeat its command, which goes on from there."
            )
        path = path / SWAPPED_ROWS
    below = [
        one
        for one in sorted(path.rglob("*"))
        if format_of(one) and "/." not in f"/{one.relative_to(path)}"
    ]
    files = [one for one in below if one.parent == path] or below
    for file in files:
        check_regular(file)
    folders = list(dict.fromkeys(str(file.parent) for file in files))
    if len(folders) > 1:
        some = listed(folders[:8])
        raise UsageError(
            f"{path} holds files in {len(folders)} folders, among them {some}. Give one of them."
        )
    if not files:
        raise UsageError(
            f"{path} holds no files of rows, expected some of {known}. Give another folder."
        )
    return files


def _schema(path: Path) -> pa.Schema:
    ending = format_of(path)
    if ending is None:
        raise UsageError(
            f"{path.name} is of no known format, expected {listed(FORMATS)}. Convert it."
        )
    if ending == ".parquet":
        return _parquet_file(path).schema_arrow.remove_metadata()
    return _json_schema(path) if ".jsonl" in ending else next(_csv_batches(path, 1))[0].schema


def _with_text(schema: pa.Schema, column: str | None) -> pa.Schema:
    """The schema, checked; the column of texts and categories of texts become plain texts."""
    twice = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(
            f"A column stands twice in the input ({tables.shown_names([twice])}), expected once. Rename one."
        )
    if column is not None and column not in schema.names:
        there = tables.shown_names(schema.names)
        raise UsageError(f"There is no column {column!r}, there are {there}. Choose with --column.")
    for at, one in enumerate(schema):
        kind = one.type.value_type if kinds.is_dictionary(one.type) else one.type
        is_text = any(is_kind(kind) for is_kind in _TEXTS)
        if one.name == column and not is_text:
            raise UsageError(
                f"Column {column!r} holds {kind}, expected texts. Choose another with --column."
            )
        if is_text and (
            kind != one.type or (one.name == column and not kinds.is_large_string(kind))
        ):
            schema = schema.set(at, pa.field(one.name, pa.string()))
    return schema


def _read_files(files: Sequence[Path], schema: pa.Schema, column: str | None, rows: int) -> Batches:
    before = 0
    for file in files:
        for batch, position in _in_schema(_batches(file, schema, rows), schema, column, file.name):
            yield batch, before + position
        before += file.stat().st_size


def _batches(file: Path, schema: pa.Schema, rows: int) -> Batches:
    if ".jsonl" in str(format_of(file)):
        return (
            (_json_batch(chunk, schema, where), position)
            for chunk, where, position in _json_chunks(file)
        )
    return (
        _parquet_batches(file, rows) if format_of(file) == ".parquet" else _csv_batches(file, rows)
    )


def _in_schema(batches: Batches, schema: pa.Schema, column: str | None, name: str) -> Batches:
    """Rows in the columns and types of the schema; ValueError: they do not fit, or a text that is too long."""
    strings = [
        one.name for one in schema if kinds.is_string(one.type) or kinds.is_large_string(one.type)
    ]
    done = 0
    for batch, position in batches:
        if not batch.schema.equals(schema):
            try:
                batch = batch.select(schema.names).cast(schema)
            except (pa.ArrowException, KeyError):
                raise ValueError(
                    f"{name}: rows do not fit the columns and types of the first. Convert it."
                ) from None
        for text in strings if column is None else [column]:
            longer = pc.index(
                pc.greater(pc.binary_length(batch.column(text)), LONGEST), True
            ).as_py()
            if longer >= 0:
                raise ValueError(
                    _too_long(f"{name}: row {done + longer + 1} below the header, column {text!r},")
                )
        yield batch, position
        done += batch.num_rows


def _too_long(where: str) -> str:
    return f"{where} is longer than {LONGEST >> 20} MB, the most that is read. Cut it into several rows."


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A file, which tells the bytes that are read, and its content, unzipped; ValueError: one that is cut."""
    with path.open("rb") as raw:
        try:
            yield raw, gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw  # type: ignore[misc]
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{path.name} is no whole gzip file. Fetch it again.") from None


def _csv_batches(path: Path, rows: int) -> Batches:
    """Texts exactly as they were, first without rows; a wrong quote is an error, and swallows no rows."""
    csv.field_size_limit(LONGEST)
    header = list[str]()
    cells = list[list[str]]()
    size = 0
    number = 0

    def batch() -> pa.RecordBatch:
        columns = zip(*cells, strict=True) if cells else [[]] * len(header)
        return pa.RecordBatch.from_arrays(
            [pa.array(one, pa.string()) for one in columns], names=header
        )

    with _opened(path) as (raw, content):
        text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        lines = tables.strict_rows(
            path.name, text, delimiter="\t" if ".tsv" in path.name.lower() else ","
        )
        try:
            for number, row in enumerate((row for _, row in lines if row), start=1):
                if not header:
                    header = row
                elif len(row) != len(header):
                    raise ValueError(
                        f"{path.name}: row {number} (the header is row 1) has {len(row)} cells, expected "
                        f"{len(header)}. Quote or add cells."
                    )
                else:
                    cells.append(row)
                    size += sum(map(len, row))
                if number == 1 or len(cells) >= rows or size >= LONGEST:
                    yield batch(), raw.tell()
                    cells = []
                    size = 0
        except UnicodeDecodeError:
            raise ValueError(
                f"{path.name} is not UTF-8 after row {number}. Save the file as UTF-8."
            ) from None
        if not header:
            raise ValueError(
                f"{path.name} is empty, expected a header line. Give a CSV with a header."
            )
        if cells:
            yield batch(), raw.tell()


def _json_schema(path: Path) -> pa.Schema:
    """Columns and types over all rows: the file is read once for it, so that no type changes on the way."""
    fields: dict[str, pa.Field] = {}
    for rows, where, _ in _json_chunks(path):
        for field in _json_batch(rows, None, where).schema:
            both = [pa.schema([one]) for one in (fields.get(field.name, field), field)]
            try:
                fields[field.name] = pa.unify_schemas(both, promote_options="permissive").field(0)
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                raise ValueError(f"{where}: {_ONE_TYPE.format(field.name)}") from None
    if not fields:
        raise ValueError(
            f"{path.name} is empty, expected one JSON object per line. Give a file with rows."
        )
    return pa.schema(list(fields.values()))


def _json_chunks(path: Path) -> Iterator[tuple[list[dict[str, Any]], str, int]]:
    """Rows of about 4 MB of lines, where they stand, and the bytes read."""
    rows: list[dict[str, Any]] = []
    first = 1
    size = 0
    number = 0
    with _opened(path) as (raw, lines):
        for number, line in enumerate(iter(lambda: lines.readline(_LINE + 1), b""), 1):
            if len(line) > _LINE:
                raise ValueError(_too_long(f"{path.name}:{number}"))
            if line.strip():
                rows.append(_json_row(f"{path.name}:{number}", line, number == 1))
            size += len(line)
            if size >= _CHUNK:
                yield rows, f"{path.name}, lines {first} to {number}", raw.tell()
                rows = []
                first = number + 1
                size = 0
        if rows:
            yield rows, f"{path.name}, lines {first} to {number}", raw.tell()


def _json_row(where: str, line: bytes, first: bool) -> dict[str, Any]:
    try:
        row = parse_json(line.decode("utf-8-sig" if first else "utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{where}: not UTF-8. Save the file as UTF-8.") from None
    except ValueError as error:
        why = getattr(error, "msg", error)  # the whole sentence of a decoder would repeat the line
        raise ValueError(
            f"{where}: no JSON ({why}), expected one JSON object per line. Mend it."
        ) from None
    if not isinstance(row, dict):
        raise ValueError(
            f"{where}: a {type(row).__name__}, expected one JSON object per line. Mend it."
        )
    return row


_ONE_TYPE = (
    "column {!r} holds values of more than one type or that no type holds, "
    "expected one type. Write them as text."
)


def _json_batch(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None, where: str
) -> pa.RecordBatch:
    names = schema.names if schema else list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    name = ""
    try:
        for name in names:
            columns.append(
                pa.array(
                    [row.get(name) for row in rows], schema.field(name).type if schema else None
                )
            )
        return pa.RecordBatch.from_arrays(columns, names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError):
        raise ValueError(f"{where}: {_ONE_TYPE.format(name)}") from None


def _parquet_batches(path: Path, rows: int) -> Batches:
    file = _parquet_file(path)
    done = 0
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    widest = max(
        (group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=1.0
    )
    try:
        for batch in file.iter_batches(
            batch_size=max(1, min(rows, int(LONGEST / max(widest, 1.0))))
        ):
            done += batch.num_rows
            yield batch, path.stat().st_size * done // file.metadata.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(
            f"{path.name} is no whole Parquet file after row {done}. Fetch it again."
        ) from None


def _parquet_file(path: Path) -> pq.ParquetFile:
    try:  # streams within a row group
        return pq.ParquetFile(
            path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(f"{path.name} is no whole Parquet file. Fetch it again.") from None


def _hub_source(name: str, column: str, split: str | None) -> Source:
    """A Hub dataset at the commit it has now, streamed; its own code is never run."""
    from datasets import load_dataset
    from huggingface_hub import HfApi

    configure_http()
    dataset, _, config = name.partition(":")
    where = f"{name} (split {split})" if split else name
    try:
        revision = HfApi().dataset_info(dataset).sha
        found = load_dataset(
            dataset, config or None, split=split, revision=revision, streaming=True
        )
        streams = {
            str(one): rows.with_format("arrow")
            for one, rows in ({split: found} if split else found).items()
        }
        chosen, stream = next(iter(streams.items()))
        first = next(iter(stream.iter(1)), None) if len(streams) == 1 else None
    except Exception as error:
        raise ValueError(
            f"{where} is neither a local file nor a dataset that the Hub gave ({first_line(error)}). Check the name, "
            "--split and the connection."
        ) from error
    if len(streams) > 1:
        raise UsageError(f"{name} has the splits {listed(streams)}. Choose one with --split.")
    if first is None:
        raise ValueError(
            f"{name} (split {chosen}) holds no rows, expected some. Choose another --split."
        )
    schema = _with_text(first.schema.remove_metadata(), column)

    def read(rows: int) -> Batches:
        tables = (table.combine_chunks() for table in stream.iter(rows))
        return _in_schema(
            ((batch, 0) for table in tables for batch in table.to_batches()), schema, column, name
        )

    return Source(
        schema,
        {"dataset": dataset, "config": config or None, "split": chosen, "revision": revision},
        None,
        read,
    )
