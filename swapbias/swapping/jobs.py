"""Swap whole files: rows in, Parquet shards out, in bounded memory; a stopped job skips its finished shards."""

import json
import multiprocessing
import os
import platform
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from swapbias.errors import UsageError, listed, quoted
from swapbias.files import (
    TEMPORARY,
    as_csv,
    is_left_over,
    json_file,
    parse_json,
    whole_file,
    write_whole,
)
from swapbias.models import progress
from swapbias.privacy import credentialed, why_credentialed, writing
from swapbias.studies import tables
from swapbias.swapping.cluster import LOCAL, Engine, Part, Work, Workers, result_of, worker_pool
from swapbias.swapping.readers import (
    CREDENTIALED,
    SWAP_MANIFEST,
    SWAPPED_ROWS,
    Batches,
    Source,
    is_mimic,
    open_source,
    why_rows_credentialed,
)
from swapbias.swapping.referents.words import REASONS
from swapbias.swapping.resolvers import Resolver
from swapbias.swapping.swapper import MODES, Swapped, Swapper, check_genders
from swapbias.swapping.table import gender_columns, other_gender

PART_BYTES = 16 << 20
BATCH_ROWS = 2000
_PEEKED = 1000  # rows in which a column of genders is looked at before anything is written
_COUNTS = "swapbias"  # key of a part's own counts in its Parquet metadata
_PLANNED = ".planned"  # folder of rows that wait for a worker
_WARNING = f"""
These rows come from credentialed data: they must not be published, uploaded or sent to an API.
{credentialed.HOW_TO_READ}
"""
FILE_MODES = (*MODES, "augment", "pairs")
COUNTED = ("swapbias_replaced", "swapbias_specific")
DOUBT = "swapbias_doubt"  # with whose="patient", as the next ones
OF_PATIENT = (*(f"swapbias_left_{reason}" for reason in REASONS), "swapbias_doubtful_words")
_VERSION = "swapbias_version"
_PAIR_ID = "pair_id"
_GROUP = "group"
_NOTE_ID = "note_id"


@dataclass(frozen=True, slots=True)
class Job:
    """What to swap, and how.

    Attributes:
        source: a file, a folder of files, or a Hub dataset ``owner/name[:config]``.
        column: the column of texts.
        mode: ``swap`` or ``neutralise`` (the texts are replaced), ``augment`` (each row followed by its swapped
            version) or ``pairs`` (the same with ``pair_id`` and ``group``, without rows where nothing was replaced).
        table: of terms: ``resolved``, ``paper`` or a CSV file.
        split: of a Hub dataset.
        credentialed: these rows may not be shared.
        whose: ``everyone`` or ``patient`` (see ``Swapper``); None: the patient in notes of MIMIC, else everyone.
        spouses: ``swap`` or ``keep``, where it is the patient.
        gender: column of the patient's gender; None: a column ``gender`` where there is one, else the text tells.
        plausible: leave out rows with gender-specific clinical terms, whose other version is implausible; in mode
            ``augment`` that version alone.
        max_doubt: leave out rows with a ``swapbias_doubt`` above it, 0 to 1; of ``augment`` their swapped version.
        resolver: the model that says whose each word is (see ``load_resolver``); None: the rules.
    """

    source: str
    column: str = "text"
    mode: str = "swap"
    table: str = "resolved"
    split: str | None = None
    credentialed: bool = False
    whose: str | None = None
    spouses: str = "swap"
    gender: str | None = None
    plausible: bool = False
    max_doubt: float = 1.0
    resolver: Resolver | None = None


@dataclass(frozen=True)
class Totals:
    """What was counted, over a batch, a part or a whole job; they add up. Rows are of the input, if not said."""

    rows_read: int = 0
    rows_written: int = 0
    """Of the output."""
    rows_replaced: int = 0
    """With at least one replacement."""
    rows_specific: int = 0
    """With a gender-specific clinical term."""
    rows_left_out: int = 0
    """Without a replacement, which make no pair (mode ``pairs`` only)."""
    rows_implausible: int = 0
    """Left out for such a term (``plausible``); of ``augment`` the swapped version alone."""
    rows_doubtful: int = 0
    """Left out in the same way for more doubt than ``max_doubt``."""
    rows_unread: int = 0
    """Of which no answer of the resolver can be read: the rules decided."""
    text_bytes: int = 0
    """UTF-8 bytes of the input texts."""
    terms: Counter[str] = field(default_factory=Counter)
    """Replacement -> times."""
    specific_terms: Counter[str] = field(default_factory=Counter)
    """Gender-specific clinical term -> times."""
    left: Counter[str] = field(default_factory=Counter)
    """Why a gendered word is not the patient's and stays -> times."""

    def __add__(self, other: "Totals") -> "Totals":
        """Counts of both."""
        return Totals(*map(add, vars(self).values(), vars(other).values()))

    def counts(self) -> dict[str, int | dict[str, int]]:
        """By name, for JSON; terms by falling count."""
        return {
            name: dict(by_count(one)) if isinstance(one, Counter) else one
            for name, one in vars(self).items()
        }

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> "Totals":
        """From ``counts``, by way of JSON."""
        values: dict[str, Any] = {
            k: Counter(v) if isinstance(v, dict) else v for k, v in counts.items()
        }
        return cls(**values)

    def by_kind(self) -> dict[str, Counter[str]]:
        """The counters by their names in ``report.csv``."""
        return {"replaced": self.terms, "specific": self.specific_terms, "left": self.left}


@dataclass(frozen=True, slots=True)
class SwapResult:
    """A finished job: its folder and counts, and why its rows are credentialed (blank: they are not)."""

    folder: Path
    totals: Totals
    credentialed_because: str


def swap_files(
    job: Job,
    out: Path,
    *,
    processes: int = 1,
    batch_rows: int = BATCH_ROWS,
    part_bytes: int = PART_BYTES,
    bar: progress.Bar = progress.no_bar,
    engine: Engine = LOCAL,
    uploaded_to: str | None = None,
) -> SwapResult:
    """Swap the texts of ``job.source`` into Parquet parts in ``out``.

    Rows keep their order; the rows written do not depend on ``processes``, ``batch_rows`` or ``engine``. Called again
    with the same job after a stop, it writes the parts that are missing or cannot be read.

    Args:
        job: what and how.
        out: a new or empty folder, or one where the same job was begun.
        processes: so many swap a part each; 1: this process.
        batch_rows: most rows that are swapped at once.
        part_bytes: a part ends with the row that brings its texts to so many bytes.
        bar: shows how much of the input is done, after each batch; with processes or a cluster after each part.
        engine: who swaps; the rows are the same.
        uploaded_to: where ``out`` is copied afterwards, unless that place is declared as the user's own.

    Raises:
        UsageError: no such input, column, table or mode; ``out`` complete or begun otherwise; credentialed rows and
            ``uploaded_to``. ValueError: an input that cannot be read. OSError: ``out`` cannot be written.
    """
    if processes < 1 or batch_rows < 1:
        raise UsageError(
            f"processes {processes} and batch rows {batch_rows}: expected 1 or more. Give larger ones."
        )
    engine.check()
    if processes > 1 and not engine.local:
        raise UsageError(
            f"processes is {processes}, and workers of {engine.name} swap. Set workers instead."
        )
    if job.resolver and (processes > 1 or not engine.local):
        raise UsageError(
            "A resolver runs in one process of this machine. Drop --processes and -M engine."
        )
    source = open_source(job.source, job.column, split=job.split)
    whose = job.whose or ("patient" if is_mimic(source) else "everyone")
    columns = source.schema.names
    gender = job.gender
    if job.max_doubt < 1 and whose != "patient":
        raise UsageError("--max-doubt is about whose words are the patient's. Add --whose patient.")
    if gender is not None and whose != "patient":
        raise UsageError(
            f"--gender {gender}: all words are swapped, whoever's they are. Add --whose patient."
        )
    if gender is not None and gender not in columns:
        raise UsageError(
            f"There is no column {gender!r}, there are {tables.shown_names(columns)}. Choose with --gender."
        )
    if gender is None and whose == "patient":
        gender = next((name for name in columns if name.lower() == "gender"), None)
    if gender is not None:
        for first, _ in islice(source.read(_PEEKED), 1):
            check_genders(first.column(gender).to_pylist(), gender)
    swapper = Swapper(job.table, whose=whose, spouses=job.spouses, resolver=job.resolver)
    place = Path(job.source)
    why = "--credentialed was given" if job.credentialed else ""
    why = why or (place.exists() and why_credentialed(place)) or why_rows_credentialed(source)
    if why and uploaded_to:
        raise UsageError(
            f"These rows are credentialed ({why}), and {uploaded_to} was not declared as a place for them. Choose an "
            "--out on this machine, or add -M own-store where only those who may read them can read that place."
        )
    if why and job.resolver and job.resolver.sends_text:
        raise UsageError(
            f"{job.resolver.name} sends texts to a service, and these rows are credentialed ({why}). Take a model in "
            "a local folder, or declare a service that is your own with -M own-address=ADDRESS."
        )
    job = replace(job, whose=whose, gender=gender, credentialed=bool(why))
    schema = schema_of(source.schema, job)
    settings = {**_settings(job, source, swapper, why), "part_bytes": part_bytes}
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, expected a folder. Choose another --out.")
    spec = (out.resolve(), replace(job, resolver=None))
    with writing(out, credentialed=bool(why), then="Wait until it ends, or choose another --out."):
        finished = _begin_or_resume(out, settings)
        totals = sum(finished.values(), Totals())
        done_bytes = bar("Swapping (bytes)", source.size) if source.size else progress.silent
        parts = _cut(source.read(batch_rows), job.column, part_bytes)
        local = partial(_processes, processes) if processes > 1 else None
        how: dict[str, Any] = {"local": local, "cores": 1, "credentialed": bool(why)}
        how["advance"] = lambda part, rows: done_bytes(part["bytes"] * rows / part["rows"])
        planned = out / _PLANNED
        planned.mkdir(mode=0o700)
        with ExitStack() as ends:
            ends.callback(shutil.rmtree, planned, ignore_errors=True)
            waiting = ends.enter_context(
                closing(_ahead(_planned_parts(planned, parts, finished, batch_rows)))
            )
            pool = worker_pool(
                engine, part_swapper, spec, own=lambda: partial(_swap_part, *spec, swapper), **how
            )
            for part, done in ends.enter_context(pool)(waiting):
                (planned / part["name"]).unlink()
                totals += done["totals"]
        if not totals.rows_read and not finished:  # a part without rows still has the columns
            _write_part(out, 0, schema, job.column, [])
        _finish(out, settings, totals, source.identity.get("split", "train"))
    return SwapResult(out, totals, why)


def _settings(job: Job, source: Source, swapper: Swapper, why: str) -> dict[str, Any]:
    """What must be the same for a job to be resumed."""
    settings = {
        "swapbias": version("swapbias"),
        "mode": job.mode,
        "column": job.column,
        "table": Path(swapper.table_name).name,
        "table_sha256": swapper.sha256,
        "plausible": job.plausible,
        "credentialed": bool(why),
        "credentialed_because": why,
        "input": source.identity,
    }
    if job.whose == "patient":
        settings |= {
            "whose": job.whose,
            "spouses": job.spouses,
            "gender": job.gender or "read from the text",
        }
        settings |= {
            "max_doubt": job.max_doubt,
            "resolver": job.resolver.name if job.resolver else "rules",
        }
    return settings


# The rows of the output: both versions of a row, and what is counted


def schema_of(given: pa.Schema, job: Job) -> pa.Schema:
    """The input's columns, then counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced`` and ``swapbias_specific``, and for ``whose="patient"`` the words that stay by reason
    (``swapbias_left_relative``, ...) and doubtful words, count in the input's text: both versions of a row carry the
    same, as they do ``swapbias_doubt``. ``credentialed`` is true in every row, or not added.
    UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if job.mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {job.mode!r}: expected one of {listed(FILE_MODES)}.")
    patient = job.whose == "patient"
    more = (() if job.mode in MODES else (_VERSION,)) + (
        (_PAIR_ID, _GROUP) if job.mode == "pairs" else ()
    )
    added = [pa.field(name, pa.int32()) for name in (*COUNTED, *OF_PATIENT * patient)]
    added += [pa.field(DOUBT, pa.float64())] * patient + [
        pa.field(name, pa.string()) for name in more
    ]
    there = next((one.name for one in added if one.name in given.names), None)
    if there is not None:
        raise UsageError(
            f"The input has a column {there!r}, which mode {job.mode} adds. Rename or drop it."
        )
    columns = [one for one in given if not (job.credentialed and one.name == CREDENTIALED)]
    return pa.schema([*columns, *added, *[pa.field(CREDENTIALED, pa.bool_())] * job.credentialed])


def versions(
    batch: pa.RecordBatch, first: int, swapped: Swapped, job: Job, groups: tuple[str, str]
) -> tuple[pa.Table, Totals]:
    """The output rows of a batch, and its counts.

    Args:
        batch: rows of the input. first: the number of its first row in the input, from 0.
        swapped: their texts. groups: of the swap table; the second is the one of side +1.
    """
    schema = schema_of(batch.schema, job)
    rows = len(batch)
    replaced = swapped.replaced > 0
    numbers = (
        swapped.replaced,
        swapped.specific,
        *swapped.left.T,
        swapped.doubtful_words,
        swapped.doubt,
    )
    counted = {
        name: pa.array(one)
        for name, one in zip((*COUNTED, *OF_PATIENT, DOUBT), numbers, strict=True)
    }
    original: dict[str, Any] = counted | dict(zip(batch.schema.names, batch.columns, strict=True))
    original |= {CREDENTIALED: pa.repeat(True, rows)} if job.credentialed else {}
    other = original | {job.column: swapped.texts}
    if job.mode != "neutralise" and set(groups) == {"male", "female"}:
        texts = (one.name for one in batch.schema if one.type in (pa.string(), pa.large_string()))
        for name in gender_columns(texts):
            changed = zip(original[name].to_pylist(), replaced.tolist(), strict=True)
            other[name] = pa.array([other_gender(one) if times else one for one, times in changed])
    wanted = replaced | (job.mode != "pairs")
    implausible = wanted & (swapped.specific > 0) & job.plausible
    doubtful = wanted & (swapped.doubt > job.max_doubt)
    keep = wanted & ~implausible & ~doubtful
    if job.mode in MODES:
        table = _in_columns(other, schema).filter(pa.array(keep))
    else:  # each row followed by its swapped version
        ids = pa.array(np.arange(first, first + rows)).cast(pa.string())
        if _NOTE_ID in original:  # the note's own id, else the row's number
            ids = pc.coalesce(original[_NOTE_ID].cast(pa.string()), ids)
        of_side = pa.array([groups[0], "", groups[1]], pa.string())  # blank for a tie of both sides
        both = [
            {
                **one,
                _VERSION: pa.repeat(name, rows),
                _PAIR_ID: ids,
                _GROUP: of_side.take(pa.array(1 + sides)),
            }
            for name, one, sides in (
                ("original", original, swapped.sides),
                ("swapped", other, -swapped.sides),
            )
        ]
        order = (
            np.arange(2 * rows)
            .reshape(2, rows)
            .T[np.stack([keep | (job.mode == "augment"), keep], axis=1)]
        )
        tables = pa.concat_tables([_in_columns(one, schema) for one in both])
        table = tables.combine_chunks().take(pa.array(order))
    totals = Totals(
        rows_read=rows,
        rows_written=len(table),
        rows_replaced=int(replaced.sum()),
        rows_specific=int(np.count_nonzero(swapped.specific)),
        rows_left_out=int((~wanted).sum()),
        rows_implausible=int(implausible.sum()),
        rows_doubtful=int(doubtful.sum()),
        rows_unread=int(swapped.unread.sum()),
        text_bytes=int(text_lengths(batch, job.column).sum()),
        terms=swapped.terms,
        specific_terms=swapped.specific_terms,
        left=Counter(
            {
                name: int(count)
                for name, count in zip(REASONS, swapped.left.sum(0), strict=True)
                if count
            }
        ),
    )
    return table, totals


def _in_columns(values: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    return pa.table({name: values[name] for name in schema.names}).cast(schema)


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """UTF-8 bytes of each text, 0 for null."""
    return np.asarray(pc.fill_null(pc.binary_length(batch.column(column)), 0), dtype=np.int64)


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Names by falling count."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


# The output folder: data/part-*.parquet, swap.json, and at the end report.csv and README.md


def _begin_or_resume(out: Path, settings: Mapping[str, Any]) -> dict[int, Totals]:
    """Begin, or check that the same job was begun there. Gives the counts of whole parts; others are removed.

    UsageError: complete, begun with other settings, or holding something else.
    """
    if (out / SWAP_MANIFEST).is_file():
        _check_same(out, settings)
    elif not all(map(is_left_over, out.iterdir())):
        raise UsageError(f"{out} is not empty. Choose another --out.")
    else:
        write_whole(out / SWAP_MANIFEST, json_file({"status": "running", **settings}))
    (out / SWAPPED_ROWS).mkdir(exist_ok=True)
    shutil.rmtree(out / _PLANNED, ignore_errors=True)
    finished = {}
    for path in (*out.glob(f".*{TEMPORARY}"), *(out / SWAPPED_ROWS).iterdir()):
        if path.suffix == ".parquet" and (counts := _counts_of(path)):
            finished[int(path.stem.partition("-")[2])] = counts
        else:
            path.unlink(missing_ok=True)
    return finished


def _check_same(out: Path, settings: Mapping[str, Any]) -> None:
    """UsageError: a complete folder, or one of other settings."""
    try:
        known = parse_json((out / SWAP_MANIFEST).read_text(encoding="utf-8"))
        complete = known["status"] == "complete"
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{out}/{SWAP_MANIFEST} was not written by swapbias. Choose another --out."
        ) from error
    if complete:
        raise UsageError(f"{out} is complete. Choose another --out.")
    for name, value in json.loads(json.dumps(settings)).items():
        if known.get(name) != value:
            shown = (
                ""
                if isinstance(value, dict | list)
                else f" {quoted(known.get(name))}, now {quoted(value)}"
            )
            raise UsageError(
                f"{out} was begun with another {name}:{shown or ' it is not what it was'}. "
                "Give what it was begun with, or choose another --out."
            )


def _counts_of(part: Path) -> Totals | None:
    """What a part says that it counted; None where it is not whole."""
    try:
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
            return Totals.read(json.loads(file.metadata.metadata[_COUNTS.encode()]))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None


def _write_part(
    out: Path,
    number: int,
    schema: pa.Schema,
    text: str,
    pieces: Iterable[tuple[pa.Table, Totals]],
    advance: Callable[[float], None] = lambda rows: None,
) -> Totals:
    """Write a part whole or not at all, with what was counted in its metadata and a checksum in each page.

    The column ``text`` gets no dictionary (hardly two are alike) and no statistics (the least and the greatest text
    would stand once more in the file's footer).
    """
    totals = Totals()
    others = [name for name in schema.names if name != text]
    options = {"compression": "zstd", "use_dictionary": others, "write_statistics": others}
    with (
        whole_file(out / f"data/part-{number:05d}.parquet") as path,
        pq.ParquetWriter(path, schema, write_page_checksum=True, **options) as writer,
    ):
        for table, counts in pieces:
            writer.write_table(table)
            totals += counts
            advance(counts.rows_read)
        writer.add_key_value_metadata({_COUNTS: json.dumps(totals.counts(), ensure_ascii=False)})
    return totals


def _finish(out: Path, settings: Mapping[str, Any], totals: Totals, split: str) -> None:
    """Write the report and the card, and then say that the job is complete."""
    import pandas as pd

    terms = [
        (term, kind, count)
        for kind, counts in totals.by_kind().items()
        for term, count in by_count(counts)
    ]
    write_whole(out / "report.csv", as_csv(pd.DataFrame(terms, columns=["term", "kind", "count"])))
    warning = _WARNING if settings["credentialed"] else ""
    shown = {name: settings[name] for name in ("column", "mode", "table")}
    card = (files("swapbias.swapping") / "swapped_card.md").read_text(encoding="utf-8")
    write_whole(out / "README.md", card.format(**shown, split=split, warning=warning).encode())
    done = {"parts": len([*out.glob("data/*.parquet")]), "totals": totals.counts()}
    write_whole(out / SWAP_MANIFEST, json_file({"status": "complete", **settings, **done}))


# The rows of the input, cut into parts: each waits in a file of the output folder until a worker has done it


Item = TypeVar("Item")


def _ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The same items, each made by a thread while its user is at the one before.

    So reading, swapping and writing overlap: most of reading and writing is Arrow's, which leaves Python to others.
    """
    rest = iter(items)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, rest, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, rest, None)
            yield item


def _cut(batches: Batches, column: str, part_bytes: int) -> Iterator[tuple[pa.Table, int]]:
    """The rows of each part, cut by the texts alone, whatever the batches, and the bytes of the input by then."""
    rows = list[pa.RecordBatch]()
    used = 0
    position = 0
    for batch, position in batches:
        while len(batch):
            filled = used + np.cumsum(text_lengths(batch, column))
            count = min(
                int(np.searchsorted(filled, part_bytes)) + 1, len(filled)
            )  # with the row that fills the part
            rows.append(batch.slice(0, count))
            used = int(filled[count - 1])
            batch = batch.slice(count)
            if used >= part_bytes:
                yield pa.Table.from_batches(rows), position
                rows = []
                used = 0
    if rows:
        yield pa.Table.from_batches(rows), position


def _planned_parts(
    folder: Path, parts: Iterable[tuple[pa.Table, int]], finished: Collection[int], batch_rows: int
) -> Iterator[Part]:
    """The parts that are not finished, with the file that holds the rows of each."""
    first = before = 0
    for number, (table, position) in enumerate(parts):
        name = f"{number:05d}.arrows"
        rows = len(table)
        if number not in finished:
            with pa.ipc.new_stream(str(folder / name), table.schema) as writer:
                writer.write_table(table, max_chunksize=batch_rows)
            yield {
                "name": name,
                "part": number,
                "first": first,
                "rows": rows,
                "bytes": position - before,
            }
            before = position
        first += rows


def _processes(count: int, made: bytes, started: ExitStack) -> Workers:
    """Processes of this machine, until ``started`` is closed."""
    # Not "fork": Arrow's threads would not live on in the child.
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_process)
    started.callback(pool.shutdown, cancel_futures=True)
    died = (
        "A worker process died, most likely for want of memory. Run the same command again with fewer --processes: "
        "finished parts are kept."
    )
    return count + 1, lambda part: pool.submit(result_of, made, (), part), BrokenProcessPool, died


def _begin_process() -> None:
    """Ctrl-C is the parent's, and a parent that was killed takes its processes along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def part_swapper(spec: tuple[Path, Job]) -> Work:
    """The worker of a swap, on whichever machine that sees the output folder."""
    out, job = spec
    return partial(
        _swap_part, out, job, Swapper(job.table, whose=job.whose or "everyone", spouses=job.spouses)
    )


def _swap_part(
    out: Path, job: Job, swapper: Swapper, part: Part, advance: Callable[[float], None]
) -> Mapping[str, Any]:
    planned = out / _PLANNED / part["name"]
    if not planned.exists():
        raise UsageError(
            f"The worker on {platform.node()} does not see {out}. Choose an --out on a file system that all "
            "machines share."
        )

    def swapped(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, Totals]]:
        first = part["first"]
        mode = "neutralise" if job.mode == "neutralise" else "swap"
        for batch in batches:
            genders = batch.column(job.gender).to_pylist() if job.gender else None
            if genders is not None:
                check_genders(genders, str(job.gender))
            done = swapper.run(batch.column(job.column), mode, genders=genders)
            yield versions(batch, first, done, job, swapper.table.groups)
            first += len(batch)

    with pa.memory_map(str(planned)) as rows, pa.ipc.open_stream(rows) as batches:
        schema = schema_of(batches.schema, job)
        with closing(_ahead(swapped(batches))) as pieces:
            return {"totals": _write_part(out, part["part"], schema, job.column, pieces, advance)}
