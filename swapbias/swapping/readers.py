"""Rows out of one file, batch by batch in bounded memory: CSV, JSON lines and Parquet, plain or gzipped."""

import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from swapbias.swapping.quotes import QuoteCheck, open_stream

Batches = Iterator[tuple[pa.RecordBatch, int]]  # rows, and how many bytes of the file are read by now

BLOCK = 8 << 20  # Arrow reads up to 32 blocks ahead: about 300 MB
LONGEST_LINE = 64 << 20
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Format:
    """How files of one kind are read.

    Attributes:
        schema: columns and types of a file, before its rows are read.
        batches: (file, schema, most rows per Parquet batch) -> its rows, in order.
    """

    schema: Callable[[Path], pa.Schema]
    batches: Callable[[Path, pa.Schema, int], Batches]


def format_of(path: Path) -> Format | None:
    """The format that a file's name tells, or None."""
    name = path.name.lower()
    return next((known for ending, known in FORMATS.items() if name.endswith(ending)), None)


# CSV


def _csv_schema(path: Path, *, delimiter: str) -> pa.Schema:
    """The header; every column is text, so that values come back exactly as they were."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as handle:
            header = next(csv.reader(handle, delimiter=delimiter, strict=True), None)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 near its start. Save it as UTF-8.") from error
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name}: its header cannot be read ({error}). Give a CSV with a header.") from error
    if not header:
        raise ValueError(f"{path.name} is empty, expected a header line. Give a CSV with a header.")
    return pa.schema([(name, pa.string()) for name in header])


def _csv_batches(path: Path, schema: pa.Schema, rows: int, *, delimiter: str) -> Batches:
    raw, stream = open_stream(path)
    quotes = QuoteCheck(path, delimiter)
    done = 1  # Arrow counts the header as row 1
    try:
        reader = arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=schema),
        )
        for batch in reader:
            quotes.advance(raw.tell())  # Arrow has read more than it gives
            done += batch.num_rows
            yield batch, raw.tell()
        quotes.advance()
    except (pa.ArrowInvalid, OSError) as error:
        message = str(error)
        long = quotes.long_cell(BLOCK) if "straddling" in message else None
        if "columns" in message:
            quotes.advance(raw.tell())  # a row that swallowed others has other cells
        raise ValueError(_csv_trouble(path, message, done, long)) from error


def _csv_trouble(path: Path, message: str, done: int, long: str | None) -> str:
    """One sentence that says where, and never repeats a cell: it may be a patient's."""
    at = re.search(r"Row #(\d+)", message)
    where = f"{path.name}: row {at.group(1) if at else f'after {done}'} (the header is row 1)"
    cells = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if "UTF8" in message:
        return f"{where} is not UTF-8. Save the file as UTF-8."
    if cells:
        return f"{where} has {cells.group(2)} cells, expected {cells.group(1)}. Quote or add cells."
    if "straddling" in message:
        where = f"{path.name}: {long}" if long else where
        return f"{where} is longer than {BLOCK >> 20} MB: a quote is probably not closed. Mend the quotes."
    if "ompress" in message or "inflate" in message:
        return f"{path.name} is no whole gzip file after row {done}. Fetch it again."
    return f"{where} cannot be read as CSV. Mend that row."


# JSON lines


def _jsonl_schema(path: Path) -> pa.Schema:
    """Columns and types over all rows: the file is read once for it, so that no type changes on the way."""
    schema = pa.schema([])
    for rows, where, _ in _json_chunks(path):
        found = _as_batch(rows, None, where).schema
        try:
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise ValueError(f"{where}: {_one_type(str(error))}") from error
    if not schema.names:
        raise ValueError(f"{path.name} is empty, expected one JSON object per line. Give a file with rows.")
    return schema


def _jsonl_batches(path: Path, schema: pa.Schema, rows: int) -> Batches:
    for found, where, position in _json_chunks(path):
        yield _as_batch(found, schema, where), position


def _json_chunks(path: Path) -> Iterator[tuple[list[dict[str, Any]], str, int]]:
    """Rows of about 4 MB of lines, where they stand, and the bytes read."""
    with path.open("rb") as raw:
        lines = _lines(path, gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw)
        rows: list[dict[str, Any]] = []
        first, last, size = 1, 0, 0
        for last, line in lines:
            size += len(line)
            if line.strip():
                rows.append(_json_row(path, last, line))
            if size >= _CHUNK:
                yield rows, f"{path.name}, lines {first} to {last}", raw.tell()
                rows, first, size = [], last + 1, 0
        if rows:
            yield rows, f"{path.name}, lines {first} to {last}", raw.tell()


def _lines(path: Path, handle: BinaryIO | gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        for number, line in enumerate(iter(lambda: handle.readline(LONGEST_LINE), b""), 1):
            if len(line) == LONGEST_LINE:
                raise ValueError(
                    f"{path.name}:{number}: longer than {LONGEST_LINE >> 20} MB, expected one JSON object per line. "
                    "Write one row per line."
                )
            yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} is no whole gzip file after line {number}. Fetch it again.") from error


def _json_row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    where = f"{path.name}:{number}"
    try:
        row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8. Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: no JSON ({error.msg}), expected one JSON object per line. Mend it.") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where}: a {type(row).__name__}, expected one JSON object per line. Mend it.")
    return row


def _as_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None, where: str) -> pa.RecordBatch:
    names = schema.names if schema else list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        try:
            columns.append(pa.array([row.get(name) for row in rows], schema.field(name).type if schema else None))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            raise ValueError(f"{where}: {_one_type(f'Field {name} has')}") from error
    return (
        pa.RecordBatch.from_arrays(columns, schema=schema) if schema else pa.RecordBatch.from_arrays(columns, names)
    )


def _one_type(message: str) -> str:
    found = re.search(r"Field (.+?) has", message)
    name = f"column {found.group(1)!r}" if found else "a column"
    return f"{name} holds values of more than one type or that no type holds, expected one type. Write them as text."


# Parquet


def _parquet_schema(path: Path) -> pa.Schema:
    return _parquet(path).schema_arrow.remove_metadata()  # metadata of pandas and datasets name the old columns


def _parquet_batches(path: Path, schema: pa.Schema, rows: int) -> Batches:
    file = _parquet(path)
    size, done = path.stat().st_size, 0
    try:
        for batch in file.iter_batches(batch_size=_fitting(file, rows)):
            done += batch.num_rows
            yield batch, size * done // file.metadata.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path.name} is no whole Parquet file after row {done}. Fetch it again.") from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)  # streams within a row group
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path.name} is no whole Parquet file. Fetch it again.") from error


def _fitting(file: pq.ParquetFile, rows: int) -> int:
    """Rows that make about one block: texts may be of any length."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    widest = max((group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=1.0)
    return max(1, min(rows, int(BLOCK / max(widest, 1.0))))


def _text_format(delimiter: str) -> Format:
    return Format(partial(_csv_schema, delimiter=delimiter), partial(_csv_batches, delimiter=delimiter))


FORMATS: Mapping[str, Format] = {
    **{ending: _text_format(",") for ending in (".csv", ".csv.gz")},
    **{ending: _text_format("\t") for ending in (".tsv", ".tsv.gz")},
    **{ending: Format(_jsonl_schema, _jsonl_batches) for ending in (".jsonl", ".jsonl.gz")},
    ".parquet": Format(_parquet_schema, _parquet_batches),
}
