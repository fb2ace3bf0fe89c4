"""Read the package's tables, word lists, checklists and pinned upstream files."""

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from swapbias.errors import UpstreamMissingError
from swapbias.files import cache_dir, file_sha256, is_url, not_utf8, write_whole
from swapbias.studies import csv_dialect
from swapbias.studies.corpus_folders import CORPORA, corpus_dir

_NAME = re.compile(r"\s*[A-Za-z_][\w.-]{0,39}\s*")  # with spaces it may be a sentence
_PACKED = {
    b"PK\x03\x04": "a workbook or an archive",
    b"\xd0\xcf\x11\xe0": "a workbook",
    b"\x1f\x8b": "packed by gzip",
    b"PAR1": "a Parquet file",
}  # first bytes of files that are no text
_RAW_URL = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def read_table(
    path: Path, columns: Sequence[str], *, optional: Iterable[str] = (), delimiter: str = ","
) -> list[dict[str, str]]:
    """Read the rows of a table as text.

    Args:
        path: the path of the file.
        columns: its header.
        optional: columns that may be blank.
        delimiter: the letter between cells.

    Raises:
        ValueError: another header than ``columns``, a ragged row, a blank cell.
    """
    rows = _whole_table(
        table_name(path), path.read_bytes(), tuple(columns), frozenset(optional), delimiter
    )
    return [dict(row) for row in rows]


def table_name(path: Path) -> str:
    """Name a table for errors, with its corpus where it lies in the folder of one.

    Args:
        path: the path of the file.
    """
    corpus = path.parent.name
    is_of_corpus = corpus in CORPORA.names() and path.parent == corpus_dir(corpus)
    return f"{corpus}/{path.name}" if is_of_corpus else path.name


@lru_cache(maxsize=64)  # builders read a table for each of many configs
def _whole_table(
    name: str, content: bytes, columns: tuple[str, ...], optional: frozenset[str], delimiter: str
) -> list[dict[str, str]]:
    def header_faults(header: Sequence[str]) -> Iterator[str]:
        if header != list(columns):
            yield header_fault(header, columns)

    rows = []
    for line, row, faults in table_rows(
        name, content, header_faults, optional=optional, delimiter=delimiter
    ):
        if faults:
            raise ValueError(f"{name}:{line}: {faults[0]}")
        rows.append(row)
    return rows


def table_rows(
    name: str,
    content: bytes,
    header_faults: Callable[[list[str]], Iterable[str]],
    *,
    optional: Collection[str] = (),
    delimiter: str = ",",
) -> Iterator[tuple[int, dict[str, str], list[str]]]:
    """Read the rows of a CSV file; of one with a wrong header only the first.

    Args:
        name: the name of the file, for errors.
        content: the content of the file.
        header_faults: says what is wrong with the header.
        optional: columns that may be blank.
        delimiter: the letter between cells.

    Yields:
        The line of each row, its cells by column, and sentences on what is wrong with it.

    Raises:
        ValueError: it is no UTF-8, or its quotes are wrong.
    """
    lines = strict_rows(name, io.StringIO(decoded(name, content), newline=""), delimiter=delimiter)
    header = [cell.strip() for cell in next(lines, (1, []))[1]]
    if wrong := list(header_faults(header)):
        sign = _sign_between(header, delimiter)
        if sign:
            wrong = [f"cells are separated by {sign!r}. Save it with commas between cells."]
        yield 1, {}, wrong
        return
    for line, cells in lines:
        row = dict(zip(header, cells, strict=False))
        if len(cells) != len(header):
            yield line, row, [f"{len(cells)} cells, expected {len(header)}. Quote or add cells."]
            continue
        faults = [
            f"column {column!r} is blank, expected a value. Fill it in."
            for column, cell in row.items()
            if column not in optional and not cell.strip()
        ]
        yield line, row, faults


def _sign_between(header: Sequence[str], delimiter: str) -> str:
    """Return the sign that separates names in a header that was read as one cell; blank where there is none."""
    if len(header) != 1:
        return ""
    for sign in csv_dialect.SIGNS:
        names = csv_dialect.cells_of(header[0], sign)
        if sign != delimiter and len(names) > 1 and all(map(_NAME.fullmatch, names)):
            return sign
    return ""


def decoded(name: str, content: bytes, encoding: str = "utf-8-sig") -> str:
    """Decode the text of a file.

    Args:
        name: the name of the file, for errors.
        content: the content of the file.
        encoding: with ``utf-8`` a byte order mark is part of the text.

    Raises:
        ValueError: it is no UTF-8, or no text.
    """
    for start, kind in _PACKED.items():
        if content.startswith(start):
            raise ValueError(f"{name} is {kind}, expected text. Save it as CSV in UTF-8.")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error


def wordings(
    corpus: str, key: str, *, optional: Sequence[str] = ()
) -> dict[str, dict[str, dict[str, str]]]:
    """Read the rows of ``wordings.csv`` of a corpus.

    Args:
        corpus: its name.
        key: the column that says what is reworded.
        optional: further columns, which may be blank.

    Returns:
        The rows by the number of the wording, then by ``key``.
    """
    columns = (key, "wording", "template", *optional, "source")
    by_wording: dict[str, dict[str, dict[str, str]]] = {}
    for row in read_table(corpus_dir(corpus) / "wordings.csv", columns, optional=optional):
        by_wording.setdefault(row["wording"], {})[row[key]] = row
    return by_wording


def strict_rows(
    name: str, handle: Iterable[str], *, delimiter: str = ",", skips_blanks: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a CSV text.

    Args:
        name: the name of the file, for errors.
        handle: its lines.
        delimiter: the letter between cells.
        skips_blanks: leave out blanks behind it.

    Yields:
        The line at which each row starts, and its cells.

    Raises:
        ValueError: the quotes of a row are wrong, or a cell is too long.
    """
    csv.field_size_limit(max(csv.field_size_limit(), csv_dialect.LONGEST))
    reader = csv.reader(handle, delimiter=delimiter, skipinitialspace=skips_blanks, strict=True)
    row = 1
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
            if cells:
                row += 1
    except csv.Error as error:
        start = f"{name}: row {row} (line {line}; the header is row 1)"
        if "limit" in str(error):
            most = csv.field_size_limit() / 2**20
            raise ValueError(
                f"{start} has a cell longer than {most:g} MB. Close its quote, or cut the text into several rows."
            ) from None
        raise ValueError(
            f"{start} has a quote that is not closed at its cell's end. "
            "Close it, or double the quotes within the cell."
        ) from None


def header_fault(header: Sequence[str], columns: Sequence[str]) -> str:
    """Say that a table has another header than it should.

    Args:
        header: cells of the first line.
        columns: the columns that are expected.
    """
    return f"columns {shown_names(header)}, expected {', '.join(columns)}. Fix the header."


def shown_names(header: Sequence[str]) -> str:
    """List names of columns for an error; a first line that is no header may be a note, and is not repeated.

    Args:
        header: cells of the first line.
    """
    if not all(map(_NAME.fullmatch, header)):
        return "one without a name" if len(header) == 1 else f"{len(header)} without names"
    return ", ".join(header[:20]) or "none"


def fingerprint(rows: Iterable[Mapping[str, str]]) -> str:
    """Compute the sha256 over rows in order: it changes with any edit of tables or of the code that builds rows.

    Args:
        rows: rows in order.
    """
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode  # dumps makes one a row
    for row in rows:
        digest.update(f"{encode(dict(row))}\n".encode())
    return digest.hexdigest()


_UNREAD = ("commit", "sha256", "bytes")  # blank of a source that no code reads


def outside_sources(corpus: str) -> list[dict[str, str]]:
    """Return what a corpus takes from others, or was checked with: the rows of its ``sources.csv``.

    ``repository`` is ``OWNER/NAME`` on GitHub or a URL, ``licence`` an SPDX identifier, or says that none is known.

    Args:
        corpus: its name.
    """
    table = corpus_dir(corpus) / "sources.csv"
    columns = ("path", "repository", "commit", "sha256", "bytes", "licence", "used_for")
    return read_table(table, columns, optional=_UNREAD) if table.exists() else []


def pinned_files(corpus: str) -> dict[str, dict[str, str]]:
    """Return the files of GitHub repositories that a corpus names, by path; those without a sha256 are never read.

    Args:
        corpus: its name.
    """
    return {row["path"]: row for row in outside_sources(corpus) if not is_url(row["repository"])}


_READS: ContextVar[list[tuple[str, str]] | None] = ContextVar("reads", default=None)


@contextmanager
def recorded_reads() -> Iterator[list[tuple[str, str]]]:
    """Record corpus and path of each upstream file that is asked for within the block."""
    reads: list[tuple[str, str]] = []
    token = _READS.set(reads)
    try:
        yield reads
    finally:
        _READS.reset(token)


def upstream_file(corpus: str, path: str, *, download: bool = True) -> Path:
    """Find a pinned upstream file: in the folder ``SWAPBIAS_UPSTREAM``, else in the cache, else fetched and checked.

    Args:
        corpus: the name of the corpus that pins it.
        path: the path of the file in its repository.
        download: fetch it where it is missing.

    Raises:
        UpstreamMissingError: it is missing, or another file.
        ValueError: the corpus pins no such file.
    """
    if (reads := _READS.get()) is not None:
        reads.append((corpus, path))
    pin = pinned_files(corpus).get(path)
    if pin is None:
        raise ValueError(f"{corpus}/sources.csv: no file {path!r} is pinned. Add a row for it.")
    local = os.environ.get("SWAPBIAS_UPSTREAM")
    if local:
        file = Path(local) / pin["repository"] / path
    else:
        file = cache_dir() / "upstream" / pin["repository"] / pin["commit"] / path
        is_cached = file.is_file() and file_sha256(file) == pin["sha256"]
        if download and not is_cached:
            _fetch(corpus, pin, file)
    if not file.is_file():
        next_step = _NEXT_STEP
        if local:
            next_step = (
                "Put it into the folder SWAPBIAS_UPSTREAM, or unset that to have it fetched."
            )
        raise UpstreamMissingError(
            f"{corpus} is made of {pin['repository']}/{path}, which was not found. {next_step}"
        )
    if file_sha256(file) != pin["sha256"]:
        raise UpstreamMissingError(
            f"{pin['repository']}/{path} is another file here: its sha256 is not the pinned {pin['sha256'][:12]}…. "
            f"Fetch {pin['repository']} at commit {pin['commit'][:12]}."
        )
    return file


_NEXT_STEP = "Go online once, or set SWAPBIAS_UPSTREAM to a folder that contains it."


def _fetch(corpus: str, pin: Mapping[str, str], target: Path) -> None:
    """Fetch a pinned file of a corpus and save it, where it is the pinned one."""
    from http.client import HTTPException  # these two take long to import
    from urllib.request import urlopen

    url = _RAW_URL.format(**pin).replace(" ", "%20")
    try:
        with urlopen(url, timeout=30) as answer:
            content = answer.read()
    except (OSError, HTTPException) as error:
        raise UpstreamMissingError(
            f"{corpus} is made of {pin['repository']}/{pin['path']}, which could not be fetched: "
            f"{_why_unfetched(error)}. {_NEXT_STEP}"
        ) from error
    if hashlib.sha256(content).hexdigest() != pin["sha256"]:
        raise UpstreamMissingError(
            f"{url}: the sha256 of what came is not the pinned one. Nothing was saved."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)


def _why_unfetched(error: Exception) -> str:
    """Say in plain words why a file did not come."""
    from urllib.error import HTTPError, URLError  # takes long to import

    if isinstance(error, HTTPError):
        return f"GitHub answered {error.code}"
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "GitHub did not answer within 30 seconds"
    if isinstance(error, URLError):
        return "GitHub cannot be reached from here"
    return f"it was cut ({type(error).__name__})"


def csv_rows(path: Path, *, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Read the rows of an upstream file.

    Args:
        path: the path of the file.
        delimiter: the letter between cells.

    Yields:
        Cells as they are, by names of columns without blanks at their ends.
    """
    with path.open(newline="", encoding="utf-8-sig") as handle:
        for row in csv.DictReader(handle, delimiter=delimiter):
            yield {name.strip(): cell for name, cell in row.items() if name}


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words with labels: ``words``, in lower case, match in any case; ``proper`` ones (Mark) in their own."""

    name: str
    """The name as ``corpus/lexicon``."""
    words: Mapping[str, str]
    """Words in lower case with their labels."""
    proper: Mapping[str, str] = field(default_factory=dict)
    """Words that match only in their own case, with their labels."""
    rest: str = "unspecified"
    """The label of every other word."""
    threshold: float = 0.0
    """The least probability at the mask from which a word counts; 0: every word counts."""

    def labels(self, words: Iterable[str], *, uncased: bool = False) -> list[str]:
        """Give the label of each word.

        Args:
            words: words without blanks at their ends.
            uncased: whether the model's vocabulary has no upper case.
        """
        proper = self.proper
        if uncased:
            proper = {word.lower(): label for word, label in self.proper.items()}
        return [self.words.get(word.lower()) or proper.get(word, self.rest) for word in words]

    def entries(self) -> list[tuple[str, str]]:
        """List words with their labels: first those in lower case, then the proper names."""
        return [*self.words.items(), *self.proper.items()]
