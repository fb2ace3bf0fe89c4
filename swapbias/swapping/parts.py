"""The folder that swapped rows are written to: whole Parquet parts, their counts, and how a job goes on."""

import csv
import io
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError, quoted
from swapbias.files import (
    CHECKSUM,
    SHA256,
    TEMPORARY,
    checksum,
    checksum_file,
    file_sha256,
    inert,
    is_sealed,
    parse_json,
    sealed,
    temporary_for,
    write_whole,
)
from swapbias.privacy import FILE, is_left_over

if TYPE_CHECKING:
    from swapbias.store import Store

MANIFEST = "swap.json"
_PLANNED = ".planned"  # folder of rows that wait for a worker
_AT_ONCE = 16  # parts of a store whose counts are read
_END = 1 << 16  # bytes at the end of a part in which most footers lie
_COUNTS = b"swapbias"  # key of a part's own counts in its Parquet metadata
_CARD = """---
configs:
- config_name: default
  data_files:
  - split: {split}
    path: data/*.parquet
---
Rows whose column `{column}` was treated with `swapbias swap --mode {mode}` (table {table}, resolver {resolver}).
`swap.json` holds the settings and counts, `report.csv` the terms.
{warning}"""
_WARNING = "\nThese rows come from credentialed data: they must not be published, uploaded or sent to an API.\n"


@dataclass(frozen=True, slots=True)
class Totals:
    """What was counted, over a batch, a part or a whole job; they add up.

    Attributes:
        rows_read: rows of the input.
        rows_written: rows of the output.
        rows_replaced: input rows with at least one replacement.
        rows_ambiguous: input rows with at least one doubtful decision.
        rows_specific: input rows with a gender-specific clinical term.
        rows_left_out: input rows without a replacement, which make no pair (mode ``pairs`` only).
        rows_implausible: input rows with a gender-specific clinical term that were left out (``plausible`` only);
            of mode ``augment`` only their swapped version.
        text_bytes: UTF-8 bytes of the input texts.
        terms: replacement -> times.
        doubtful: reason of a doubtful decision -> times.
        specific_terms: gender-specific clinical term -> times.
        left: reason why a gendered word is not the patient's and stays -> times.
    """

    rows_read: int = 0
    rows_written: int = 0
    rows_replaced: int = 0
    rows_ambiguous: int = 0
    rows_specific: int = 0
    rows_left_out: int = 0
    rows_implausible: int = 0
    text_bytes: int = 0
    terms: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)
    specific_terms: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Totals") -> "Totals":
        """Counts of both."""
        return Totals(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Totals)})

    def counts(self) -> dict[str, int | dict[str, int]]:
        """By name, for JSON; terms by falling count."""
        # asdict would break a Counter: it makes one out of its pairs
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: dict(_by_count(value)) if isinstance(value, Counter) else value for name, value in values.items()
        }

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> "Totals":
        """From ``counts``, by way of JSON."""
        values: dict[str, Any] = {k: Counter(v) if isinstance(v, dict) else v for k, v in counts.items()}
        return cls(**values)

    def by_kind(self) -> Iterable[tuple[str, Counter[str]]]:
        """The counters with their names in ``report.csv``."""
        kinds = ("replaced", self.terms), ("ambiguous", self.doubtful), ("specific", self.specific_terms)
        return (*kinds, ("left", self.left))


@dataclass(frozen=True, slots=True)
class SwapFolder:
    """An output folder: ``data/part-*.parquet``, ``swap.json``, and at the end ``report.csv`` and ``README.md``.

    The sha256 of a part lies beside it, and at the end in ``swap.json``; a part of another sha256 is written again.

    Attributes:
        path: on this machine.
        store: where it lies, if not there: parts are put there alone, and of them the counts are read, not the rows;
            the path then holds what is small.
    """

    path: Path
    store: "Store | None" = None

    @property
    def place(self) -> "Path | Store":
        """Where it lies, for sentences."""
        return self.store or self.path

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Mapping[str, Any],
        say: Callable[[str], None] = lambda sentence: None,
        store: "Store | None" = None,
    ) -> "SwapFolder":
        """A new folder, or one that a job of the same settings began and did not finish, or that was damaged since.

        ``say`` is told which parts are damaged. With a ``store`` the path is an empty folder.

        Raises:
            UsageError: complete, begun with other settings, or holding something else.
            OSError: it cannot be written.
        """
        folder = cls(path, store)
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, expected a folder. Choose another --out.")
        if store:
            store.fetch(path, [MANIFEST])
            if not (path / MANIFEST).is_file() and not all(is_left_over(Path(name)) for name in store.names()):
                raise UsageError(f"{store} is not empty. Choose another --out.")
            if (path / FILE).exists():
                store.write(FILE, (path / FILE).read_bytes())
        if (path / MANIFEST).is_file():
            folder._check_same(settings)
            folder._sweep(say)
            return folder
        if path.exists() and not all(map(is_left_over, path.iterdir())):
            raise UsageError(f"{path} is not empty. Choose another --out.")
        path.mkdir(parents=True, exist_ok=True)
        for left in path.glob(f".*{TEMPORARY}"):  # of a process that was killed before its first manifest
            left.unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass  # known before the work starts: it can be written
        folder.write_manifest({"status": "running", **settings, SHA256: {}})
        (path / "data").mkdir(exist_ok=True)
        return folder

    def _check_same(self, settings: Mapping[str, Any]) -> None:
        try:
            known = parse_json((self.path / MANIFEST).read_text(encoding="utf-8"))
            complete = known["status"] == "complete"
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.place}/{MANIFEST} was not written by swapbias. Choose another --out.") from error
        if not is_sealed(known, MANIFEST):
            raise UsageError(
                f"{self.place}/{MANIFEST} is damaged, or was edited: it is not what its sha256 says. Choose another "
                "--out."
            )
        if complete and not list(self._damaged()):
            self._drop_checksums()  # of a process that was killed right after its manifest
            raise UsageError(f"{self.place} is complete. Choose another --out.")
        for name, value in json.loads(json.dumps(settings)).items():
            if known.get(name) != value:
                shown = "" if isinstance(value, dict | list) else f" {quoted(known.get(name))}, now {quoted(value)}"
                raise UsageError(
                    f"{self.place} was begun with another {name}:{shown or ' it is not what it was'}. "
                    "Give what it was begun with, or choose another --out."
                )

    def _sweep(self, say: Callable[[str], None]) -> None:
        """Remove what a killed process left, and damaged parts."""
        data = self.path / "data"
        data.mkdir(exist_ok=True)
        self.drop_planned()
        for left in (*self.path.glob(f".*{TEMPORARY}"), *data.glob(f".*{TEMPORARY}")):
            left.unlink(missing_ok=True)
        for name in self._damaged():
            say(f"{self.place}/{name} is damaged: it is written again.")
            if self.store:
                self.store.remove([name])
            else:
                (self.path / name).unlink(missing_ok=True)

    def _damaged(self) -> Iterator[str]:
        """Parts that are there and not what was written, and those that were and are gone.

        Of a store, which sees to its bytes by itself, those whose counts or sha256 cannot be read.
        """
        recorded, there = self._recorded(), self._counts()
        yield from (name for name in recorded or {} if name not in there)
        beside = self._beside(there)
        for name, counts in there.items():
            known = beside.get(name) or (recorded or {}).get(name)
            if known is None or self.store:
                whole = recorded is None or known is not None
            else:
                whole = file_sha256(self.path / name) == known
            if not whole or counts is None:
                yield name

    def _counts(self) -> dict[str, Totals | None]:
        """What the parts that are there say that they counted, by name."""
        if (store := self.store) is None:
            paths = sorted(self.path.glob("data/part-*.parquet"))
            return {path.relative_to(self.path).as_posix(): _counts_of(path) for path in paths}
        names = [name for name in store.names("data") if PurePath(name).match("data/part-*.parquet")]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return dict(zip(names, threads.map(lambda name: _counts_of(_footer(store, name)), names), strict=True))

    def _beside(self, names: Iterable[str]) -> dict[str, str]:
        """The sha256 that lie beside parts."""
        paths = {name: self.path / name for name in names}
        if self.store:
            self.store.fetch(self.path, [f"data/{checksum_file(path).name}" for path in paths.values()])
        return {name: known for name, path in paths.items() if (known := checksum(path))}

    def _recorded(self) -> dict[str, str] | None:
        """The sha256 of parts by name; None in folders of older versions."""
        read: Any = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        known = read.get(SHA256)
        return {name: one for name, one in known.items() if name.startswith("data/")} if known is not None else None

    def check(self) -> None:
        """Refuse damaged parts of a folder that others are to read.

        Raises:
            ValueError: naming the first.
        """
        for name in self._damaged():
            raise ValueError(
                f"{self.place}/{name} is damaged: its sha256 is not the one that was recorded when it was written. "
                "Run the swapbias swap that wrote it again, which mends it."
            )

    @property
    def planned(self) -> Path:
        """Where rows wait for a worker of a cluster: with a store, until they are put there."""
        return self.path / _PLANNED

    def put_planned(self, name: str) -> None:
        """Have the rows of a file in ``planned`` wait where workers find them."""
        if self.store:
            self.store.write(f"{_PLANNED}/{name}", (self.planned / name).read_bytes())
            (self.planned / name).unlink()

    def read_planned(self, name: str) -> pa.NativeFile | None:
        """The rows that wait for a worker; None where this machine does not see them."""
        if self.store:
            content = self.store.read(f"{_PLANNED}/{name}")
            return None if content is None else pa.BufferReader(content)
        return pa.memory_map(str(self.planned / name)) if (self.planned / name).exists() else None

    def drop_planned(self, name: str | None = None) -> None:
        """Remove the rows that waited for a worker, or all that wait."""
        if name is None:
            shutil.rmtree(self.planned, ignore_errors=True)
        else:
            (self.planned / name).unlink(missing_ok=True)
        if self.store and name is None:
            self.store.remove_folder(_PLANNED)
        elif self.store:
            self.store.remove([f"{_PLANNED}/{name}"])

    def part(self, number: int) -> str:
        """The name of a part that is there, or will be."""
        return f"data/part-{number:05d}.parquet"

    def parts(self) -> dict[int, Totals]:
        """The counts of the parts that are there, by number."""
        found = {int(PurePath(name).stem.partition("-")[2]): counts for name, counts in self._counts().items()}
        return {number: counts for number, counts in sorted(found.items()) if counts is not None}

    def write_part(
        self, number: int, schema: pa.Schema, pieces: Iterable[tuple[pa.Table, Totals]], *, texts: str
    ) -> Totals:
        """Write a part whole or not at all, its counts into its own metadata, its sha256 beside it."""
        if self.store:
            sink = pa.BufferOutputStream()
            totals = _fill(sink, schema, pieces, texts)
            self.store.write_checked(self.part(number), sink.getvalue().to_pybytes())
            return totals
        path = self.path / self.part(number)
        temporary = temporary_for(path)
        try:
            totals = _fill(temporary, schema, pieces, texts)
            with temporary.open("rb+") as handle:
                os.fsync(handle.fileno())
            write_whole(checksum_file(path), f"{file_sha256(temporary)}\n".encode())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return totals

    def finish(self, settings: Mapping[str, Any], totals: Totals, split: str) -> None:
        """Write the report and the card, and then say that the job is complete."""
        handle = io.StringIO(newline="")
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("term", "kind", "count"))
        for kind, counts in totals.by_kind():
            writer.writerows((inert(term), kind, count) for term, count in _by_count(counts))
        self._write("report.csv", handle.getvalue().encode())
        warning = _WARNING if settings["credentialed"] else ""
        shown = {name: settings[name] for name in ("column", "mode", "table", "resolver")}
        self._write("README.md", _CARD.format(**shown, split=split, warning=warning).encode())
        names = list(self._counts())
        beside, recorded = self._beside(names), self._recorded() or {}
        hashes = {name: beside.get(name) or recorded.get(name) or file_sha256(self.path / name) for name in names}
        done = {"status": "complete", **settings, "parts": len(names), "totals": totals.counts(), SHA256: hashes}
        self.write_manifest(done)
        self._drop_checksums()

    def _drop_checksums(self) -> None:
        """Remove the sha256 beside parts, once the manifest holds them."""
        for path in (self.path / "data").glob(f".*{CHECKSUM}"):
            path.unlink(missing_ok=True)
        if self.store:
            self.store.remove(name for name in self.store.names("data") if name.endswith(CHECKSUM))

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace ``swap.json``."""
        content = json.dumps(sealed(manifest, MANIFEST), indent=2, ensure_ascii=False)
        self._write(MANIFEST, f"{content}\n".encode())

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self.path / name, content)
        if self.store:
            self.store.write(name, content)


def _fill(sink: Any, schema: pa.Schema, pieces: Iterable[tuple[pa.Table, Totals]], texts: str) -> Totals:
    """Write a part piece by piece, with what was counted.

    The column of ``texts`` gets no dictionary (hardly two are alike) and no statistics (the least and the greatest
    text would stand once more in the file's footer).
    """
    others = [path for path in _leaves(schema) if path != texts]
    totals = Totals()
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=others, write_statistics=others) as writer:
        for table, counts in pieces:
            writer.write_table(table)
            totals += counts
        writer.add_key_value_metadata({_COUNTS.decode(): json.dumps(totals.counts(), ensure_ascii=False)})
    return totals


def _footer(store: "Store", name: str) -> pa.NativeFile:
    """The end of a part in a store, which is all that its counts take: what fails then is the part, not the way."""
    end = store.read_end(name, _END)
    length = int.from_bytes(end[-8:-4], "little") + 8
    return pa.BufferReader(end if length <= len(end) else store.read_end(name, length))


def _counts_of(part: Path | pa.NativeFile) -> Totals | None:
    """What a part says that it counted; None where it cannot be read."""
    try:
        return Totals.read(json.loads((pq.read_metadata(part).metadata or {})[_COUNTS]))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None


def _leaves(schema: pa.Schema) -> list[str]:
    """Paths of the columns as Parquet stores them: "visit.day" of a struct."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [stored.column(number).path for number in range(len(stored))]


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
