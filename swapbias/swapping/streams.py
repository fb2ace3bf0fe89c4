"""What is swapped: a file, a folder of files or a Hub dataset, as one stream of rows with one schema."""

import csv
import gzip
import hashlib
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from swapbias.errors import UsageError
from swapbias.files import check_regular, parse_json
from swapbias.network import configure_http
from swapbias.privacy import is_mimic_columns, is_mimic_name, notes_read
from swapbias.studies import shown_names
from swapbias.swapping.parts import MANIFEST, SwapFolder
from swapbias.swapping.quotes import QuoteCheck, open_stream

if TYPE_CHECKING:
    from datasets import IterableDataset

Batches = Iterator[tuple[pa.RecordBatch, int]]  # rows, and how many bytes of the file are read by now

BLOCK = 8 << 20  # the longest text of any format; Arrow reads up to 32 blocks ahead: about 300 MB
LONGEST_LINE = 64 << 20
_CHUNK = 4 << 20
_FEW = 32  # rows that are read at once where a dictionary may hold long texts


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
        why = type(error).__name__
        raise ValueError(f"{path.name}: its header cannot be read ({why}). Give a CSV with a header.") from error
    if not header:
        raise ValueError(f"{path.name} is empty, expected a header line. Give a CSV with a header.")
    return pa.schema([(name, pa.string()) for name in header])


def _csv_batches(path: Path, schema: pa.Schema, rows: int, *, delimiter: str) -> Batches:
    raw, stream = open_stream(path)
    quotes = QuoteCheck(path, delimiter)
    done, blocks = 1, 0  # Arrow counts the header as row 1
    size, unpacked = path.stat().st_size, _unpacked(path)
    try:
        reader = arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=schema),
        )
        for batch in reader:
            quotes.advance(raw.tell())  # Arrow has read more than it gives
            done, blocks = done + batch.num_rows, blocks + 1
            yield batch, min(raw.tell(), int(size * min(1.0, blocks * BLOCK / unpacked)))  # each batch is a block
        quotes.advance()
    except (pa.ArrowInvalid, OSError) as error:
        message = str(error)
        long = quotes.long_cell(BLOCK) if "straddling" in message else None
        if "straddling" in message and quotes.all_closed():
            raise ValueError(too_long(f"{path.name}: {long or f'a row after {done}'}", BLOCK)) from None
        if "columns" in message:
            try:
                quotes.advance(raw.tell())  # a row that swallowed others has other cells
            except ValueError as found:
                raise found from None
        raise ValueError(_csv_trouble(path, message, done, long)) from None  # Arrow repeats the row


def _unpacked(path: Path) -> int:
    """Bytes of text, at least 1; of gzip what the last part of a file says, so too few for several or above 4 GB."""
    size = path.stat().st_size
    if path.name.lower().endswith(".gz") and size > 4:
        with path.open("rb") as handle:
            handle.seek(-4, os.SEEK_END)
            size = int.from_bytes(handle.read(4), "little")
    return max(size, 1)


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


def too_long(where: str, longest: int) -> str:
    """The sentence for a text that no reader takes, whatever the format."""
    return (
        f"{where} is longer than {longest >> 20} MB, the most that is read of any format. Cut it into several rows."
    )


def check_lengths(batch: pa.RecordBatch, name: str, done: int, longest: int) -> None:
    """Nothing, once no text of some rows of a file, of which so many were ``done``, is longer than any reader takes.

    Raises:
        ValueError: naming the first that is.
    """
    for label, column in zip(batch.schema.names, batch.columns, strict=True):
        coded = kinds.is_dictionary(column.type)
        texts = column.dictionary if coded else column
        if kinds.is_string_view(texts.type):  # of which no lengths are told
            texts = texts.cast(pa.large_string())
        if not any(is_kind(texts.type) for is_kind in _LONG):
            continue
        lengths = compute.binary_length(texts)
        if (compute.max(lengths).as_py() or 0) > longest:
            over = compute.greater(compute.take(lengths, column.indices) if coded else lengths, longest)
            place = compute.index(over, True).as_py()
            if place >= 0:  # a word of a dictionary that some row has
                where = f"{name}: row {done + place + 1} below the header, column {shown_names([label])},"
                raise ValueError(too_long(where, longest))


# JSON lines


def _jsonl_schema(path: Path) -> pa.Schema:
    """Columns and types over all rows: the file is read once for it, so that no type changes on the way."""
    schema = pa.schema([])
    for rows, where, _ in _json_chunks(path):
        found = _as_batch(rows, None, where).schema
        try:
            schema = pa.unify_schemas([schema, found], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise ValueError(f"{where}: {_one_type(str(error))}") from None
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
        row = parse_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8. Save the file as UTF-8.") from error
    except ValueError as error:
        why = getattr(error, "msg", error)  # the whole sentence of a decoder would repeat the line
        raise ValueError(f"{where}: no JSON ({why}), expected one JSON object per line. Mend it.") from error
    if not isinstance(row, dict):
        raise ValueError(f"{where}: a {type(row).__name__}, expected one JSON object per line. Mend it.")
    return row


def _as_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None, where: str) -> pa.RecordBatch:
    names = schema.names if schema else list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        try:
            columns.append(pa.array([row.get(name) for row in rows], schema.field(name).type if schema else None))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError):
            raise ValueError(f"{where}: {_one_type(f'Field {name} has')}") from None  # Arrow repeats a value
    if schema is not None:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    try:
        return pa.RecordBatch.from_arrays(columns, names)
    except UnicodeError as error:
        raise ValueError(f"{where}: the name of a column is no text, half of a character. Rename it.") from error


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
        for batch in _merged(
            file.iter_batches(batch_size=fitting_rows(path, file, rows, BLOCK)), schema, rows, path.name
        ):
            done += batch.num_rows
            yield batch, size * done // file.metadata.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is no whole Parquet file after row {done}. Fetch it again.") from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)  # streams within a row group
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is no whole Parquet file. Fetch it again.") from error


def _merged(batches: Iterator[pa.RecordBatch], schema: pa.Schema, rows: int, name: str) -> Iterator[pa.RecordBatch]:
    """The same rows in the types of the schema, in batches of so many rows or of about one block."""
    held, count, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        held.append(_shaped(batch, schema, name))
        count, size = count + batch.num_rows, size + held[-1].nbytes
        if count >= rows or size >= BLOCK:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count, size = [], 0, 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def fitting_rows(
    path: Path, file: pq.ParquetFile, rows: int, longest: int, columns: Sequence[str] | None = None
) -> int:
    """Rows that make about one block, where a text may be nearly as long.

    ``columns`` are those that are read, if not all. What stands once in a dictionary may be a long text in every
    row, and the file's size does not tell: few rows.

    Raises:
        ValueError: rows that are all read are longer on average than any reader takes, which is seen without reading.
        OSError: the file is damaged.
    """
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    for number, group in enumerate(groups, start=1):
        if columns is None and group.total_byte_size > (longest + 64) * group.num_columns * max(group.num_rows, 1):
            raise ValueError(too_long(f"{path.name}: a row in group {number}", longest))
    if groups and _has_dictionary(file, columns):
        rows = min(rows, _FEW)
    widest = max((group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=1.0)
    return max(1, min(rows, int(BLOCK / max(widest, 1.0))))


def _has_dictionary(file: pq.ParquetFile, columns: Sequence[str] | None) -> bool:
    """Whether texts of the first rows are held once each.

    A row is read first: where what is told of a column is damaged, that is an error, and asking for it would end the
    process (``ColumnChunk`` throws through pyarrow 26).
    """
    next(file.iter_batches(batch_size=1, row_groups=[0], columns=columns), None)
    group = file.metadata.row_group(0)
    read = (place for place in range(group.num_columns) if columns is None or _top(file, place) in columns)
    return any(one.physical_type == "BYTE_ARRAY" and one.has_dictionary_page for one in map(group.column, read))


def _top(file: pq.ParquetFile, place: int) -> str:
    """The column of the table that a column of the file belongs to."""
    return str(file.schema.column(place).path).partition(".")[0]


def _text_format(delimiter: str) -> Format:
    return Format(partial(_csv_schema, delimiter=delimiter), partial(_csv_batches, delimiter=delimiter))


FORMATS: Mapping[str, Format] = {
    **{ending: _text_format(",") for ending in (".csv", ".csv.gz")},
    **{ending: _text_format("\t") for ending in (".tsv", ".tsv.gz")},
    **{ending: Format(_jsonl_schema, _jsonl_batches) for ending in (".jsonl", ".jsonl.gz")},
    ".parquet": Format(_parquet_schema, _parquet_batches),
}


CREDENTIALED = "credentialed"
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+)?")
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
        split: of a Hub dataset; None: the only one that it has.

    Raises:
        UsageError: nothing there, no file of a known format, no such column, or several splits and none named.
        ValueError: a file that cannot be read, or files of different columns.
    """
    notes_read()  # for all that is known they are
    path = Path(name)
    if not path.exists() and format_of(path) is None and _HUB_ID.fullmatch(name):
        return _hub_source(name, column, split)
    if split is not None:
        raise UsageError(f"--split {split}: {name} is no Hub dataset, and files have no splits. Drop --split.")
    return _file_source(_files(path), column)


def is_mimic(source: Source) -> bool:
    """Whether these are notes of MIMIC, by the names of files and columns."""
    return any(map(is_mimic_name, source.files)) or is_mimic_columns(source.schema.names)


def why_held(source: Source) -> str:
    """Why these rows may not be shared, or blank; a column ``credentialed`` is read until its first true value."""
    if is_mimic_columns(source.schema.names):
        return "the columns are those of MIMIC's notes"
    columns = {column.lower(): column for column in source.schema.names}
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
    check_regular(path)
    if path.is_file():
        _format(path)  # refused if unknown
        return [path]
    found = _within(path)
    # A built corpus has a folder for each config, and a swapped one its parts in "data".
    if (path / MANIFEST).is_file():
        SwapFolder(path).check()
    inner = {file.parent for file in path.rglob("*") if file.is_file()} if not found else set()
    folders = sorted(one for one in inner if not _hidden(one.relative_to(path)) and _within(one))
    if len(folders) > 1:
        raise UsageError(f"{path} holds files in {_shown(folders)}. Give one of them.")
    if not found and not folders:
        raise UsageError(f"{path} holds no files to swap, expected some of {known}. Give another folder.")
    return found or _within(folders[0])


def _shown(folders: Sequence[Path]) -> str:
    more = f" and {len(folders) - 8} more" if len(folders) > 8 else ""
    return ", ".join(map(str, folders[:8])) + more


def _within(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.iterdir() if not file.name.startswith(".") and format_of(file))
    for file in found:
        check_regular(file)
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _file_source(files: Sequence[Path], column: str) -> Source:
    schema = _format(files[0]).schema(files[0])
    for file in files[1:]:
        other = _format(file).schema(file)
        if set(other.names) != set(schema.names):
            raise ValueError(
                f"{file.name} has the columns {shown_names(other.names)}, expected {shown_names(schema.names)} as in "
                f"{files[0].name}. Give a folder whose files have the same columns."
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


# Those that become plain texts; views are there from pyarrow 16 on.
_TEXTS = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_null)
_LONG = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)


def _with_text(schema: pa.Schema, column: str) -> pa.Schema:
    """The schema, checked, with the text column as plain text; a column that holds only nulls is text too."""
    twice = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"A column stands twice in the input ({shown_names([twice])}), expected once. Rename one.")
    if column not in schema.names:
        there = shown_names(schema.names)
        raise UsageError(f"There is no column {column!r}, there are {there}. Choose with --column.")
    field = schema.field(column)
    if kinds.is_string(field.type) or kinds.is_large_string(field.type):
        return schema
    inner = field.type.value_type if kinds.is_dictionary(field.type) else field.type
    if not any(is_kind(inner) for is_kind in _TEXTS):
        raise UsageError(f"Column {column!r} holds {field.type}, expected texts. Choose another with --column.")
    return schema.set(schema.get_field_index(column), pa.field(column, pa.string()))


def _read_files(files: Sequence[Path], schema: pa.Schema, rows: int) -> Batches:
    before = 0
    for file in files:
        done = 0
        for batch, position in _format(file).batches(file, schema, rows):
            shaped = _shaped(batch, schema, file.name)
            check_lengths(shaped, file.name, done, BLOCK)
            done += batch.num_rows
            yield shaped, before + position
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


def _hub_source(name: str, column: str, split: str | None) -> Source:
    """A Hub dataset at the commit it has now, streamed; its own code is never run."""
    from huggingface_hub import HfApi

    configure_http()
    dataset, _, config = name.partition(":")
    where = f"{name} (split {split})" if split else name
    try:
        revision = HfApi().dataset_info(dataset).sha
        streams = _hub_streams(dataset, config or None, split, revision)
        chosen, stream = next(iter(streams.items()))
        first = next(iter(stream.iter(1)), None) if len(streams) == 1 else None
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ValueError(
            f"{where} is neither a local file nor a dataset that the Hub gave "
            f"({lines[0].rstrip('.')}). Check the name, --split and the connection."
        ) from error
    if len(streams) > 1:
        raise UsageError(f"{name} has the splits {', '.join(streams)}. Choose one with --split.")
    if first is None:
        raise ValueError(f"{name} (split {chosen}) holds no rows, expected some. Choose another --split.")
    schema = _with_text(first.schema.remove_metadata(), column)
    return Source(
        schema=schema,
        identity={"dataset": dataset, "config": config, "split": chosen, "revision": revision},
        size=None,
        files=(),
        read=partial(_read_stream, stream, schema, name),
    )


def _hub_streams(
    dataset: str, config: str | None, split: str | None, revision: str | None
) -> "dict[str, IterableDataset]":
    """The rows of a split, or of each split where none is named, by its name."""
    from datasets import load_dataset

    found = load_dataset(dataset, config, split=split, revision=revision, streaming=True)
    streams = {split: found} if split else dict(found)
    return {str(one): stream.with_format("arrow") for one, stream in streams.items()}


def _read_stream(stream: "IterableDataset", schema: pa.Schema, name: str, rows: int) -> Batches:
    done = 0
    for table in stream.iter(rows):
        for batch in table.combine_chunks().to_batches():
            shaped = _shaped(batch, schema, name)
            check_lengths(shaped, name, done, BLOCK)
            done += batch.num_rows
            yield shaped, 0
