"""What a clinical note row holds, how many the published study had, and tables of notes on disk read as rows."""

import csv
import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import UsageError
from swapbias.files import parse_json
from swapbias.privacy import notes_read
from swapbias.studies import corpus_dir, read_table, shown_names

if TYPE_CHECKING:
    from swapbias.swapping import QuoteCheck

_SHOWN_CELL = 3  # characters
BLOCK_BYTES = 2 * 2**20  # a row must fit in a block; larger blocks are slower here and cost memory
_LONGEST_LINE = 6 * BLOCK_BYTES + 2**16  # of JSON lines, which may spell each byte of a text with six
# What Arrow says before it quotes the row: an error must not repeat the text of a note.
_SAFE_REASON = re.compile(r"(CSV parse error: .*?got \d+|In CSV column #\d+: .*invalid UTF8 data)")


def csv_header(path: Path) -> list[str]:
    """The column names as they are written; empty for an empty file.

    Raises:
        ValueError: the file is not what its ending says.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as handle:
            return next(csv.reader(handle, strict=True), [])
    except (gzip.BadGzipFile, EOFError, csv.Error) as error:
        raise ValueError(
            f"{path.name}: its first line cannot be read ({type(error).__name__}). Get the file again."
        ) from None


def shown_cell(value: str) -> str:
    """A cell in an error: what is longer than a flag may be a note, a name or an id, and is not repeated.

    >>> shown_cell("x"), shown_cell("Jane Roe")
    ("'x'", '8 characters')
    """
    return repr(value) if len(value) <= _SHOWN_CELL else f"{len(value)} characters"


def csv_rows(path: Path, columns: Sequence[str], *, optional: Iterable[str] = ()) -> Iterator[dict[str, str]]:
    """Rows of a CSV file (``.csv`` or ``.csv.gz``) in bounded memory, with the columns asked for.

    Column names are matched ignoring case and come back as asked for. Values come back as written: nothing is
    a null or a number. Values may hold newlines.

    Raises:
        ValueError: naming file and column that is missing, or saying that the file is no readable CSV; the
            sentence never holds text of a note.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    from swapbias.swapping import QuoteCheck, check_lengths, open_stream

    notes_read()
    names = _matched(path.name, csv_header(path), columns, optional)
    wanted = list(names.values())
    convert = arrow_csv.ConvertOptions(
        include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
    )
    read = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    parse = arrow_csv.ParseOptions(newlines_in_values=True)
    raw, stream = open_stream(path)
    quotes, done = QuoteCheck(path), 0
    try:
        with arrow_csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                quotes.advance(raw.tell())  # Arrow has read more than it gives
                check_lengths(batch, path.name, done, BLOCK_BYTES)
                done += batch.num_rows
                for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield dict(zip(names, cells, strict=True))
            quotes.advance()
    except (pa.ArrowInvalid, OSError) as error:
        message = str(error)
        place = (quotes.long_cell(BLOCK_BYTES) if "straddling" in message else None) or "a row"
        if "columns" in message:
            _quotes_told(quotes, raw.tell())  # a row that swallowed others has other cells
        raise ValueError(
            f"{path.name} cannot be read as CSV ({_reason(message, place)}). Look for an open quote, or get it again."
        ) from None


def _quotes_told(quotes: "QuoteCheck", position: int) -> None:
    """An open quote up to there, without what Arrow said of it: that repeats the row."""
    try:
        quotes.advance(position)
    except ValueError as error:
        raise error from None


def _reason(message: str, place: str) -> str:
    if "straddling" in message:
        return f"{place} is longer than {BLOCK_BYTES // 2**20} MiB"
    found = _SAFE_REASON.search(message)
    return found.group(0) if found else "broken or cut short"


def _matched(file: str, header: Sequence[str], columns: Sequence[str], optional: Iterable[str]) -> dict[str, str]:
    """The names asked for that are there, with the header's spelling."""
    there = {name.strip().lower(): name for name in header}
    missing = [name for name in columns if name.lower() not in there]
    if missing:
        shown = shown_names(header)
        raise ValueError(f"{file}:1: no column {missing[0]!r}, found {shown}. Add the column.")
    return {name: there[name.lower()] for name in (*columns, *optional) if name.lower() in there}


def named_rows(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Rows of a ``.csv``, ``.csv.gz``, ``.jsonl`` or ``.parquet`` file as strings, a null as a blank one.

    Raises:
        ValueError: naming file and column that is missing, or line that cannot be read.
    """
    notes_read()
    if path.suffix == ".jsonl":
        yield from _json_rows(path, columns, optional)
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path, columns, optional)
    else:
        yield from csv_rows(path, columns, optional=optional)


def _string(value: Any) -> str:
    return "" if value is None else str(value)


def _json_rows(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, str]]:
    from swapbias.swapping import too_long

    with path.open("rb") as handle:
        for line, text in enumerate(iter(lambda: handle.readline(_LONGEST_LINE + 1), b""), start=1):
            if len(text) > _LONGEST_LINE:
                raise ValueError(too_long(f"{path.name}:{line}", BLOCK_BYTES))
            if not text.strip():
                continue
            try:
                row = parse_json(text.decode("utf-8-sig" if line == 1 else "utf-8"))
            except UnicodeDecodeError:
                raise ValueError(f"{path.name}:{line}: not UTF-8. Save the file as UTF-8.") from None
            except ValueError as error:
                why = getattr(error, "msg", error)
                raise ValueError(f"{path.name}:{line}: no JSON ({why}). Write one object a line.") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path.name}:{line}: {type(row).__name__}, expected an object. Fix the line.")
            names = _matched(f"{path.name} line {line}", list(row), columns, optional)
            cells = {name: _string(row[spelled]) for name, spelled in names.items()}
            if any(
                len(cell) > BLOCK_BYTES // 4 and len(cell.encode(errors="surrogatepass")) > BLOCK_BYTES
                for cell in cells.values()
            ):
                raise ValueError(too_long(f"{path.name}:{line}", BLOCK_BYTES))
            yield cells


def _parquet_rows(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[dict[str, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from swapbias.swapping import check_lengths, fitting_rows

    try:
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)  # streams within a row group
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(f"{path.name} cannot be read as Parquet. Get the file again.") from None
    with file:
        names = _matched(path.name, file.schema_arrow.names, columns, optional)
        asked, done = list(names.values()), 0
        try:
            fitting = fitting_rows(path, file, 4_096, BLOCK_BYTES, asked)
            for batch in file.iter_batches(columns=asked, batch_size=fitting):
                check_lengths(batch, path.name, done, BLOCK_BYTES)
                done += batch.num_rows
                for row in batch.to_pylist():
                    yield {name: _string(row[spelled]) for name, spelled in names.items()}
        except (pa.ArrowException, OSError, UnicodeDecodeError):  # whole at its end, damaged within
            raise ValueError(f"{path.name} cannot be read as Parquet. Get the file again.") from None


NAME = "clinical_notes"
NOTE_COLUMNS = (
    "note_id", "subject_id", "gender", "phenotype", "label", "split",
    "note_type", "template", "planted", "credentialed", "text",
)  # fmt: skip
PHENOTYPES = ("depression", "alcohol_abuse", "substance_abuse", "psychiatric_disorders")
GENDERS = {"f": "female", "m": "male", "female": "female", "male": "male"}
SPLITS = ("train", "test")
# Sizes are given in this order, as the paper prints them.
CELLS = (("female", "positive"), ("male", "positive"), ("female", "negative"), ("male", "negative"))
Cell = tuple[str, str]
_SIZE_COLUMNS = ("phenotype", "split", "gender", "label", "notes", "source")


def check_phenotype(phenotype: str) -> str:
    """The phenotype unchanged.

    Raises:
        UsageError: it is none of the four.
    """
    if phenotype not in PHENOTYPES:
        raise UsageError(f"Unknown phenotype {phenotype!r}: expected one of {', '.join(PHENOTYPES)}.")
    return phenotype


def published_sizes(phenotype: str) -> dict[str, dict[Cell, int]]:
    """Notes of each split and (gender, label) in the published study (Sogancioglu et al. 2023, Table II).

    Raises:
        UsageError: unknown phenotype.
    """
    check_phenotype(phenotype)
    sizes: dict[str, dict[Cell, int]] = {split: {} for split in SPLITS}
    for row in read_table(corpus_dir(NAME) / "split_sizes.csv", _SIZE_COLUMNS):
        if row["phenotype"] == phenotype:
            sizes[row["split"]][row["gender"], row["label"]] = int(row["notes"])
    return sizes


def named_sizes(sizes: Mapping[str, Sequence[int]]) -> dict[str, dict[Cell, int]]:
    """Sizes by (gender, label) from four counts a split: positive women, men, then negative women, men.

    Raises:
        UsageError: an unknown split, or not four counts of zero or more.
    """
    for split, counts in sizes.items():
        if split not in SPLITS:
            raise UsageError(f"sizes: split {split!r}, expected train or test. Name one of them.")
        if len(counts) != len(CELLS) or any(count != int(count) or count < 0 for count in counts):
            raise UsageError(
                f"sizes of {split}: {list(counts)}, expected four counts of zero or more "
                "(female positive, male positive, female negative, male negative)."
            )
    return {split: dict(zip(CELLS, map(int, counts), strict=True)) for split, counts in sizes.items()}
