"""Read the package's tables, word lists, checklists, published numbers and pinned upstream files."""

import csv
import hashlib
import http.client
import io
import json
import os
import re
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from swapbias.errors import UpstreamMissingError
from swapbias.files import cache_dir, file_sha256, is_url, not_utf8, write_whole
from swapbias.studies.corpus_folders import CORPORA, corpus_dir

_NAME = re.compile(r"\s*[A-Za-z_][\w.-]{0,39}\s*")  # with spaces it may be a sentence
_HOW = "Set SWAPBIAS_UPSTREAM to a folder that holds it, or go online"
_RAW_URL = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def read_table(
    path: Path, columns: Sequence[str], *, optional: Iterable[str] = (), delimiter: str = ","
) -> list[dict[str, str]]:
    """The rows of a table as text; ValueError: another header than ``columns``, a ragged row, a blank cell."""
    found = _whole_table(
        _table_name(path), path.read_bytes(), tuple(columns), frozenset(optional), delimiter
    )
    return [dict(row) for row in found]


def _table_name(path: Path) -> str:
    """Name a table for errors, with its corpus where it lies in the folder of one."""
    corpus = path.parent.name
    is_of_corpus = corpus in CORPORA.names() and path.parent == corpus_dir(corpus)
    return f"{corpus}/{path.name}" if is_of_corpus else path.name


@lru_cache(maxsize=64)  # builders read a table for each of many configs
def _whole_table(
    name: str, content: bytes, columns: tuple[str, ...], optional: frozenset[str], delimiter: str
) -> list[dict[str, str]]:
    def header_faults(header: Sequence[str]) -> Iterator[str]:
        if header != list(columns):
            yield f"columns {shown_names(header)}, expected {shown_names(columns)}. Fix the header."

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
    """Each row of a CSV file (of one with a wrong header only the first), with its line and its faults."""
    lines = strict_rows(name, io.StringIO(decoded(name, content), newline=""), delimiter=delimiter)
    header = [cell.strip() for cell in next(lines, (1, []))[1]]
    if wrong := list(header_faults(header)):
        yield 1, {}, wrong
        return
    for line, cells in lines:
        row = dict(zip(header, cells, strict=False))
        blank = [one for one, cell in row.items() if one not in optional and not cell.strip()]
        faults = [f"column {one!r} is blank, expected a value. Fill it in." for one in blank]
        ragged = [f"{len(cells)} cells, expected {len(header)}. Quote or add cells."]
        yield line, row, faults if len(cells) == len(header) else ragged


def decoded(name: str, content: bytes, encoding: str = "utf-8-sig") -> str:
    """The text of a file, with ``utf-8`` as encoding a byte order mark included; ValueError where it is no UTF-8."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise not_utf8(name, error) from error


def wordings(
    corpus: str, key: str, *, optional: Sequence[str] = ()
) -> dict[str, dict[str, dict[str, str]]]:
    """The rows of ``wordings.csv`` by number of the wording, then by ``key``."""
    columns = (key, "wording", "template", *optional, "source")
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in read_table(corpus_dir(corpus) / "wordings.csv", columns, optional=optional):
        found.setdefault(row["wording"], {})[row[key]] = row
    return found


def strict_rows(
    name: str, handle: Iterable[str], *, delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV text, each with the line at which it starts; ValueError names the row whose quotes are wrong."""
    reader = csv.reader(handle, delimiter=delimiter, strict=True)
    row = line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
            row = row + bool(cells)
    except csv.Error as error:
        where = f"{name}: row {row} (line {line}; the header is row 1)"
        if "limit" in str(error):
            most = csv.field_size_limit() / 2**20
            what = f"has a cell longer than {most:g} MB. Close its quote, or cut the text into several rows."
        else:
            what = "has a quote that is not closed at its cell's end. Close it, or double the quotes within the cell."
        raise ValueError(f"{where} {what}") from None


def shown_names(header: Sequence[str]) -> str:
    """Column names for an error; a first line that is no header may be a note, and is not repeated."""
    is_header = all(map(_NAME.fullmatch, header))
    return (
        (", ".join(header[:20]) or "none") if is_header else f"{len(header)} columns without names"
    )


def fingerprint(rows: Iterable[Mapping[str, str]]) -> str:
    """sha256 over rows in order: changes with any edit of tables or of the code that builds the rows."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(dict(row), sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


_UNREAD = ("commit", "sha256", "bytes")  # blank of a source that no code reads


def outside_sources(corpus: str) -> list[dict[str, str]]:
    """Return what a corpus takes from others, or was checked with: the rows of its ``sources.csv``.

    ``repository`` is ``OWNER/NAME`` on GitHub or a URL, ``licence`` an SPDX identifier, or says that none is known.
    """
    table = corpus_dir(corpus) / "sources.csv"
    columns = ("path", "repository", "commit", "sha256", "bytes", "licence", "used_for")
    return read_table(table, columns, optional=_UNREAD) if table.exists() else []


def pinned_files(corpus: str) -> dict[str, dict[str, str]]:
    """The files of GitHub repositories that a corpus names, by path; those without a sha256 are never read."""
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
    """A pinned upstream file, of the folder ``SWAPBIAS_UPSTREAM``, else the cache, else fetched and checked."""
    if (reads := _READS.get()) is not None:
        reads.append((corpus, path))
    pin = pinned_files(corpus).get(path)
    if pin is None:
        raise ValueError(f"{corpus}/sources.csv: no file {path!r} is pinned. Add a row for it.")
    local = os.environ.get("SWAPBIAS_UPSTREAM")
    home = cache_dir() / "upstream"
    found = (
        Path(local) / pin["repository"] / path
        if local
        else home / pin["repository"] / pin["commit"] / path
    )
    if download and not local and not (found.is_file() and file_sha256(found) == pin["sha256"]):
        _fetch(pin, found)
    if not found.is_file():
        raise UpstreamMissingError(
            f"{pin['repository']}/{path} is not at hand. {_HOW} so that it is fetched."
        )
    if file_sha256(found) != pin["sha256"]:
        pinned = f"its sha256 is not the pinned {pin['sha256'][:12]}…"
        how = f"Fetch {pin['repository']} at commit {pin['commit'][:12]}."
        raise UpstreamMissingError(
            f"{pin['repository']}/{path} is another file here: {pinned}. {how}"
        )
    return found


def _fetch(pin: Mapping[str, str], target: Path) -> None:
    url = _RAW_URL.format(**pin).replace(" ", "%20")
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        what = f"{pin['repository']}/{pin['path']} could not be fetched ({getattr(error, 'reason', error)})"
        raise UpstreamMissingError(f"{what}. {_HOW}.") from error
    if hashlib.sha256(content).hexdigest() != pin["sha256"]:
        raise UpstreamMissingError(
            f"{url}: the sha256 of what came is not the pinned one. Nothing was saved."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)


def csv_rows(path: Path, *, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """The rows of an upstream file, by names of columns without blanks at their ends; cells as they are."""
    with path.open(newline="", encoding="utf-8-sig") as handle:
        for row in csv.DictReader(handle, delimiter=delimiter):
            yield {name.strip(): cell for name, cell in row.items() if name}


_KEY = ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value")
# sources of numbers that a calibration model or notes hold
PLANTED_BIAS = "planted"
PLANTED_LEAK = "planted leak"


@dataclass(frozen=True, slots=True)
class Published:
    """A number to compare a finding with: a paper's, with the decimals that it prints, or a planted one."""

    value: str = ""
    p_value: str = ""
    effect_size: str = ""
    source: str = ""
    note: str = ""
    """Why the authors' own release disagrees with what they print."""
    recomputed: str = ""
    """The released value."""

    @property
    def planted(self) -> bool:
        """Whether it is the size of a bias that was planted, and no paper's."""
        return self.source in (PLANTED_BIAS, PLANTED_LEAK)


def published_rows(study: str) -> list[dict[str, str]]:
    """The paper's numbers, as printed (strings keep their decimals); empty where a study lists none."""
    table = corpus_dir(study) / "published.csv"
    numbers = [one.name for one in fields(Published)]
    columns = ("model", *_KEY, *numbers)
    blank_allowed = {*columns} - {"model", "experiment", "measure", "contrast", "source"}
    return read_table(table, columns, optional=blank_allowed) if table.exists() else []


def published_for(study: str, model_id: str) -> dict[tuple[str, ...], Published]:
    """The paper's numbers for a model, by ``Finding.key``; a model is known by its name or last path part."""
    merged: dict[tuple[str, ...], Published] = {}
    name = model_id.rstrip("/").split("/")[-1].lower()
    for row in (
        published_rows(study) if " + " not in model_id else ()
    ):  # no paper audited a model with an adapter
        if row["model"].split("/")[-1].lower() == name:
            key = tuple(row[one] for one in _KEY)
            before = asdict(merged.get(key, Published(source=row["source"])))
            values = {name: value or row[name] for name, value in before.items()}
            merged[key] = Published(
                **values | {"source": "; ".join(dict.fromkeys((before["source"], row["source"])))}
            )
    return merged


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words with labels: ``words``, in lower case, match in any case; ``proper`` ones (Mark) in their own."""

    name: str
    """``corpus/lexicon``."""
    words: Mapping[str, str]
    proper: Mapping[str, str] = field(default_factory=dict)
    rest: str = "unspecified"
    """The label of every other word."""
    threshold: float = 0.0
    """The least probability at the mask from which a word counts; 0: every word counts."""

    def labels(self, words: Iterable[str], *, uncased: bool = False) -> list[str]:
        """The label of each word, stripped; ``uncased``: the model's vocabulary has no upper case."""
        proper = (
            {word.lower(): label for word, label in self.proper.items()} if uncased else self.proper
        )
        return [self.words.get(word.lower()) or proper.get(word, self.rest) for word in words]

    def entries(self) -> list[tuple[str, str]]:
        """Every (word, label), in order: first the words, then the proper names."""
        return [*self.words.items(), *self.proper.items()]


class Fact(NamedTuple):
    """Something that a text can state by any of its terms: whole words in any case. Blank note_id: of every note."""

    name: str
    terms: tuple[str, ...]
    note_id: str = ""


def read_checklist(path: Path) -> tuple[Fact, ...]:
    """The facts of a table: ``note_id``, ``fact``, ``terms`` with bars (blank: its name). ValueError: a fault."""
    rows = read_table(path, ("note_id", "fact", "terms"), optional=("note_id", "terms"))
    cells = [
        [one.strip() for one in (row["note_id"], row["fact"], *row["terms"].split("|"))]
        for row in rows
    ]
    return tuple(
        Fact(name, tuple(filter(None, terms)) or (name,), note) for note, name, *terms in cells
    )


def stated(facts: Iterable[Fact], text: str) -> list[Fact]:
    """Those of the facts that a text states by any of their terms, denied ("denies chest pain") or not."""
    return [fact for fact in facts if any(_pattern(term).search(text) for term in fact.terms)]


@cache
def _pattern(term: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, term.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def facts_of(checklist: Sequence[Fact], note_id: str, texts: Collection[str]) -> list[Fact]:
    """The facts of a note: those that every version of it states, and that are of this note or of all."""
    return [
        one
        for one in checklist
        if one.note_id in ("", note_id) and all(stated([one], text) for text in texts)
    ]
