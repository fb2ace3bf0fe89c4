"""Batches of rows of CSV, JSON lines and Parquet files in bounded memory; an error names the row, never a cell."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from swapbias.errors import UsageError, listed
from swapbias.files import parse_json
from swapbias.studies import csv_dialect, tables

Batches = Iterator[tuple[pa.RecordBatch, int]]
"""Rows, and how many bytes of the file are read by now."""
FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")
"""Endings of the files that are read."""
LONGEST = csv_dialect.LONGEST
"""Most bytes of one text, in any format."""
_CHUNK = 4 << 20  # bytes of lines of JSON that are read at once
_LINE = 8 * LONGEST  # of JSON lines, which may write each byte of a text with six
_ONE_TYPE = (
    "column {!r} contains values of more than one type or of no known type, "
    "expected one type. Write them as text."
)


def format_of(path: Path) -> str | None:
    """Return the ending of ``FORMATS`` that a file has, or None.

    Args:
        path: path of the file.
    """
    name = path.name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending)), None)


def file_schema(path: Path) -> pa.Schema:
    """Return the columns and types of a file.

    Args:
        path: path of the file.

    Raises:
        UsageError: it has no known format.
        ValueError: it cannot be read.
    """
    ending = format_of(path)
    if ending is None:
        raise UsageError(
            f"{path.name} is of no known format, expected {listed(FORMATS)}. Convert it."
        )
    if ending == ".parquet":
        return _parquet_file(path).schema_arrow.remove_metadata()
    if ".jsonl" in ending:
        return _json_schema(path)
    first, _ = next(_csv_batches(path, 1))
    return first.schema


def file_batches(path: Path, schema: pa.Schema, rows: int) -> Batches:
    """Yield the rows of a file.

    Args:
        path: path of the file.
        schema: columns and types of JSON lines, which have none.
        rows: most rows of a batch.
    """
    ending = str(format_of(path))
    if ".jsonl" in ending:
        return _json_batches(path, schema)
    return _parquet_batches(path, rows) if ending == ".parquet" else _csv_batches(path, rows)


def class_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of each column that a Dataset stored in Parquet as one of classes.

    Args:
        path: path of the file.
    """
    if format_of(path) != ".parquet":
        return {}
    try:
        features = json.loads(pq.read_schema(path).metadata[b"huggingface"])["info"]["features"]
        return {
            name: tuple(feature["names"])
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # a file of no Dataset


def in_schema(batches: Batches, schema: pa.Schema, column: str | None, name: str) -> Batches:
    """Yield rows in the columns and types of a schema.

    Args:
        batches: rows, and bytes read.
        schema: columns and types.
        column: the column of texts; None: each column of texts is checked.
        name: name of the file, for errors.

    Raises:
        ValueError: rows do not fit, or a text is too long.
    """
    text_columns = [column] if column is not None else _text_columns(schema)
    done = 0
    for batch, position in batches:
        if not batch.schema.equals(schema):
            try:
                batch = batch.select(schema.names).cast(schema)
            except (pa.ArrowException, KeyError):
                raise ValueError(
                    f"{name}: rows do not fit the columns and types of the first. Convert it."
                ) from None
        _check_unicode(batch, done, name)
        for text_column in text_columns:
            is_longer = pc.greater(pc.binary_length(batch.column(text_column)), LONGEST)
            index = pc.index(is_longer, True).as_py()
            if index >= 0:
                row = done + index + 1
                raise _too_long(f"{name}: row {row} below the header, column {text_column!r},")
        yield batch, position
        done += batch.num_rows


def _check_unicode(batch: pa.RecordBatch, done: int, name: str) -> None:
    """Refuse texts that are no UTF-8, which Parquet files may hold: ValueError names the row."""
    for column, cells in zip(batch.schema.names, batch.columns, strict=True):
        try:
            cells.validate(full=True)
        except pa.ArrowInvalid:
            rows = (row for row in range(len(cells)) if not _is_valid(cells.slice(row, 1)))
            raise ValueError(
                f"{name}: row {done + next(rows, 0) + 1}, column {column!r}, is not UTF-8. "
                "Write the file again as UTF-8."
            ) from None


def _is_valid(cells: pa.Array) -> bool:
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _text_columns(schema: pa.Schema) -> list[str]:
    return [
        column.name
        for column in schema
        if kinds.is_string(column.type) or kinds.is_large_string(column.type)
    ]


def _too_long(text: str) -> ValueError:
    """Return the error of a text that is too long."""
    return ValueError(
        f"{text} is longer than {LONGEST >> 20} MB, the most that is read. Cut it into several rows."
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file, which tells the bytes that are read, and its content, unzipped; ValueError: one that is cut."""
    with path.open("rb") as raw:
        try:
            if path.name.lower().endswith(".gz"):
                yield raw, gzip.GzipFile(fileobj=raw)  # type: ignore[misc]
            else:
                yield raw, raw
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(f"{path.name} is no whole gzip file. Fetch it again.") from None


def _csv_batches(path: Path, rows: int) -> Batches:
    """Yield texts exactly as they were, first without rows; a wrong quote is an error, and swallows no rows."""
    header = list[str]()
    cells = list[list[str]]()
    size = 0
    number = 0
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    with _opened(path) as (raw, content):
        encoding = csv_dialect.encoding_of(content.peek(4)[:4])  # type: ignore[attr-defined]
        text = io.TextIOWrapper(content, encoding=encoding, newline="")
        try:
            written = csv_dialect.read_dialect(text, delimiter, LONGEST)
            lines = tables.strict_rows(
                path.name,
                written.lines,
                delimiter=written.delimiter,
                skips_blanks=written.skips_blanks,
            )
            filled_rows = (row for _, row in lines if row and not _is_blank_line(row, header))
            for number, row in enumerate(filled_rows, start=1):
                if not header:
                    header = [name.strip() for name in row]
                elif len(row) != len(header):
                    raise ValueError(
                        f"{path.name}: row {number} (the header is row 1) has {len(row)} cells, expected "
                        f"{len(header)}. Quote or add cells."
                    )
                else:
                    cells.append(row)
                    size += sum(map(len, row))
                if number == 1 or len(cells) >= rows or size >= LONGEST:
                    yield _text_batch(header, cells), raw.tell()
                    cells = []
                    size = 0
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name} is not {error.encoding.upper()} after row {number}. Save the file as UTF-8."
            ) from None
        if not header:
            raise ValueError(
                f"{path.name} is empty, expected a header line. Give a CSV with a header."
            )
        if cells:
            yield _text_batch(header, cells), raw.tell()


def _is_blank_line(row: Sequence[str], header: Sequence[str]) -> bool:
    """Tell whether a row of a table of several columns is a line of blanks alone."""
    return len(row) == 1 < len(header) and not row[0].strip()


def _text_batch(header: list[str], cells: list[list[str]]) -> pa.RecordBatch:
    """Return rows of cells as columns of texts."""
    columns = zip(*cells, strict=True) if cells else [[]] * len(header)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=header)


def _json_schema(path: Path) -> pa.Schema:
    """Return columns and types over all rows: the file is read once for it, so that no type changes on the way."""
    fields: dict[str, pa.Field] = {}
    for rows, lines, _ in _json_chunks(path):
        for field in _json_batch(rows, None, lines).schema:
            schemas = [pa.schema([fields.get(field.name, field)]), pa.schema([field])]
            try:
                unified = pa.unify_schemas(schemas, promote_options="permissive")
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                raise ValueError(f"{lines}: {_ONE_TYPE.format(field.name)}") from None
            fields[field.name] = unified.field(0)
    if not fields:
        raise ValueError(
            f"{path.name} is empty, expected one JSON object per line. Give a file with rows."
        )
    return pa.schema(list(fields.values()))


def _json_batches(path: Path, schema: pa.Schema) -> Batches:
    for rows, lines, position in _json_chunks(path):
        yield _json_batch(rows, schema, lines), position


def _json_chunks(path: Path) -> Iterator[tuple[list[dict[str, Any]], str, int]]:
    """Yield rows of about 4 MB of lines, where they stand, and the bytes read."""
    rows: list[dict[str, Any]] = []
    first = 1
    size = 0
    number = 0
    with _opened(path) as (raw, content):
        lines = iter(lambda: content.readline(_LINE + 1), b"")
        for number, line in enumerate(lines, 1):
            if len(line) > _LINE:
                raise _too_long(f"{path.name}:{number}")
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


def _json_row(file_line: str, line: bytes, is_first: bool) -> dict[str, Any]:
    """Read a line as an object; ValueError names the line."""
    try:
        row = parse_json(line.decode("utf-8-sig" if is_first else "utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{file_line}: not UTF-8. Save the file as UTF-8.") from None
    except ValueError as error:
        # The whole sentence of a decoder would repeat the line.
        reason = getattr(error, "msg", error)
        raise ValueError(
            f"{file_line}: no JSON ({reason}), expected one JSON object per line. Correct it."
        ) from None
    if not isinstance(row, dict):
        raise ValueError(
            f"{file_line}: a {type(row).__name__}, expected one JSON object per line. Correct it."
        )
    return row


def _json_batch(
    rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None, lines: str
) -> pa.RecordBatch:
    """Return rows in the types of a schema, or in those that Arrow finds; ValueError names the lines."""
    names = schema.names if schema else list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    name = ""
    try:
        for name in names:
            cells = [row.get(name) for row in rows]
            columns.append(pa.array(cells, schema.field(name).type if schema else None))
        return pa.RecordBatch.from_arrays(columns, names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError):
        raise ValueError(f"{lines}: {_ONE_TYPE.format(name)}") from None


def _parquet_batches(path: Path, rows: int) -> Batches:
    """Yield rows of a Parquet file, fewer at once where they are wide."""
    file = _parquet_file(path)
    done = 0
    widest = 1.0  # bytes of a row
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if group.num_rows:
            widest = max(widest, group.total_byte_size / group.num_rows)
    batch_size = max(1, min(rows, int(LONGEST / widest)))
    try:
        for batch in file.iter_batches(batch_size=batch_size):
            done += batch.num_rows
            yield batch, path.stat().st_size * done // file.metadata.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(
            f"{path.name} is no whole Parquet file after row {done}. Fetch it again."
        ) from None


def _parquet_file(path: Path) -> pq.ParquetFile:
    """Open a Parquet file, which is streamed within a row group; ValueError: it is none."""
    try:
        return pq.ParquetFile(
            path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(f"{path.name} is no whole Parquet file. Fetch it again.") from None
