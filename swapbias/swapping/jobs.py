"""Swap whole files: rows in, Parquet shards out, in bounded memory; a stopped job skips its finished shards."""

import csv
import io
import json
import multiprocessing
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import groupby
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError, quoted
from swapbias.files import TEMPORARY, escape_csv_cell, file_sha256, parse_json, temporary_for, write_whole
from swapbias.privacy import is_left_over, why_credentialed, writing
from swapbias.studies import shown_names
from swapbias.swapping.cluster import LOCAL, Engine, Part, Work, worker_pool
from swapbias.swapping.readers import Batches, Source, is_mimic, open_source, why_rows_credentialed
from swapbias.swapping.swapper import Swapped, Swapper
from swapbias.swapping.versions import Layout, Totals, by_count, layout_of, text_lengths, versions

MANIFEST = "swap.json"
PART_BYTES = 64 << 20
BATCH_ROWS = 2000
WORKER = "swapbias.swapping.jobs:part_swapper"
_COUNTS = "swapbias"  # key of a part's own counts in its Parquet metadata
_PLANNED = ".planned"  # folder of rows that wait for a worker
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
        names: swap given names as well.
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
    names: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is.

    Attributes:
        position: bytes of the input read, where its size is known.
        size: bytes of the input, or None.
        rows: input rows that are done.
        text_bytes: bytes of text swapped since this process began.
        seconds: since then.
    """

    position: int
    size: int | None
    rows: int
    text_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SwapResult:
    """A finished job: its folder and counts, why its rows are credentialed (blank: they are not), the last step."""

    folder: Path
    totals: Totals
    credentialed: str
    last: Progress


def swap_files(
    job: Job,
    out: Path,
    *,
    processes: int = 1,
    batch_rows: int = BATCH_ROWS,
    part_bytes: int = PART_BYTES,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    engine: Engine = LOCAL,
    uploaded_to: str | None = None,
) -> SwapResult:
    """Swap the texts of ``job.source`` into Parquet parts in ``out``.

    Rows keep their order; the rows written do not depend on ``processes``, ``batch_rows`` or ``engine``. Called again
    with the same job after a stop, it writes the parts that are missing or cannot be read.

    Args:
        job: what and how.
        out: a new or empty folder, or one where the same job was begun.
        processes: 1 swaps in this process.
        batch_rows: most rows that are swapped at once.
        part_bytes: a part ends with the row that brings its texts to so many bytes.
        on_progress: called after each batch; with a cluster after each part.
        engine: who swaps; the rows are the same.
        uploaded_to: where ``out`` is copied afterwards, unless that place is declared as the user's own.

    Raises:
        UsageError: a wrong request: no such input, column, table or mode; ``out`` complete or begun otherwise;
            credentialed rows and ``uploaded_to``.
        ValueError: an input that cannot be read, in one sentence with the place.
        OSError: ``out`` cannot be written.
    """
    if processes < 1 or batch_rows < 1:
        raise UsageError(f"processes {processes} and batch rows {batch_rows}: expected 1 or more. Give larger ones.")
    engine.check()
    if processes > 1 and not engine.local:
        raise UsageError(f"processes is {processes}, and workers of {engine.name} swap. Set workers instead.")
    source = open_source(job.source, job.column, split=job.split)
    whose = job.whose or ("patient" if is_mimic(source) else "everyone")
    swapper = Swapper(job.table, whose=whose, spouses=job.spouses, names=job.names)
    gender = _gender_column(job, source, whose)
    why = "--credentialed was given" if job.credentialed else _why_credentialed(job, source)
    if why and uploaded_to:
        raise UsageError(
            f"These rows are credentialed ({why}), and {uploaded_to} was not declared as a place for them. Choose an "
            "--out on this machine, or add --own-store where only those who may read them can read that place."
        )
    shape: dict[str, Any] = {
        "column": job.column, "mode": job.mode, "credentialed": bool(why), "whose": whose, "plausible": job.plausible,
    }  # fmt: skip
    layout = layout_of(source.schema, groups=swapper.groups, **shape)
    settings = _settings(job, source, swapper, why)
    if whose == "patient":
        settings |= {"whose": whose, "spouses": job.spouses, "gender": gender or "read from the text"}
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, expected a folder. Choose another --out.")
    mode = "neutralise" if job.mode == "neutralise" else "swap"
    task = replace(job, mode=mode, whose=whose, gender=gender)
    with writing(out, credentialed=bool(why), then="Wait until it ends, or choose another --out."):
        finished, hashes = _begin_or_resume(out, settings)
        totals = sum(finished.values(), Totals())
        progress, begun = Progress(0, source.size, totals.rows_read, 0, 0.0), time.perf_counter()

        def record(part: int) -> None:
            hashes[_part_name(part)] = file_sha256(out / _part_name(part))
            _write_manifest(out, {"status": "running", **settings, "sha256": hashes})

        def advance(counts: Totals, position: int) -> None:
            nonlocal totals, progress
            totals += counts
            swapped_bytes = progress.text_bytes + counts.text_bytes
            seconds = time.perf_counter() - begun
            progress = Progress(position, source.size, totals.rows_read, swapped_bytes, seconds)
            on_progress(progress)

        units = _ahead(_units(source.read(batch_rows), job.column, finished, part_bytes, batch_rows))
        if engine.local:
            with closing(swapped_in_order(units, task, processes)) as results:
                for part, group in groupby(results, key=lambda result: result[0].part):
                    write_part(out, part, layout, _counted_rows(group, layout, advance))
                    record(part)
        else:
            spec = {"out": str(out.resolve()), "task": asdict(_with_absolute_paths(task)), "shape": shape}
            planned = out / _PLANNED
            planned.mkdir(mode=0o700, exist_ok=True)
            how: dict[str, Any] = {"cores": 1, "credentialed": bool(why)}
            workers = worker_pool(engine, WORKER, spec, own=lambda: part_swapper(spec), **how)
            try:
                with workers as work:
                    for done_part, done in work(_planned_parts(planned, units)):
                        (planned / f"{done_part['name']}.arrows").unlink(missing_ok=True)
                        record(done_part["part"])
                        advance(Totals.read(done["counts"]), done_part["position"])
            finally:
                shutil.rmtree(planned, ignore_errors=True)
        if not totals.rows_read and not finished:  # a part without rows still has the columns
            write_part(out, 0, layout, [])
            record(0)
        _finish(out, settings, totals, hashes, source.identity.get("split", "train"))
    return SwapResult(out, totals, why, progress)


def _counted_rows(
    group: Iterable[tuple["Unit", Swapped]], layout: "Layout", advance: Callable[[Totals, int], None]
) -> Iterator[tuple[pa.Table, Totals]]:
    for unit, swapped in group:
        table, counts = versions(unit.batch, unit.first, swapped, layout)
        yield table, counts
        advance(counts, unit.position)


def _gender_column(job: Job, source: Source, whose: str) -> str | None:
    """The column of the patient's gender, or None.

    Raises:
        UsageError: no such column, or one without ``whose="patient"``.
    """
    if job.gender is not None and whose != "patient":
        raise UsageError(f"--gender {job.gender}: all words are swapped, whoever's they are. Add --whose patient.")
    if job.gender is not None and job.gender not in source.schema.names:
        raise UsageError(
            f"There is no column {job.gender!r}, there are {shown_names(source.schema.names)}. Choose with --gender."
        )
    own = next((name for name in source.schema.names if name.lower() == "gender"), None)
    return (job.gender or own) if whose == "patient" else None


def _why_credentialed(job: Job, source: Source) -> str:
    path = Path(job.source)
    return (path.exists() and why_credentialed(path)) or why_rows_credentialed(source)


def _settings(job: Job, source: Source, swapper: Swapper, why: str) -> dict[str, Any]:
    """What must be the same for a job to be resumed."""
    return {
        "swapbias": version("swapbias"),
        "mode": job.mode,
        "column": job.column,
        "table": Path(swapper.table_name).name,
        "table_sha256": swapper.sha256,
        "resolver": swapper.resolver.name,
        "plausible": job.plausible,
        "credentialed": bool(why),
        "credentialed_because": why,
        "input": source.identity,
    }


def _with_absolute_paths(task: Job) -> Job:
    """The job as a worker in another folder finds its table."""
    return replace(task, table=str(Path(task.table).resolve()) if Path(task.table).exists() else task.table)


# The output folder: data/part-*.parquet, swap.json, and at the end report.csv and README.md


def _begin_or_resume(out: Path, settings: Mapping[str, Any]) -> tuple[dict[int, Totals], dict[str, str]]:
    """Make the folder, or check that the same job was begun there.

    Returns:
        The counts of finished parts by number, and their sha256 by name. Parts that the manifest does not have, or
        with another sha256, are removed.

    Raises:
        UsageError: complete, begun with other settings, or holding something else. OSError: it cannot be written.
    """
    data, recorded = out / "data", dict[str, str]()
    if (out / MANIFEST).is_file():
        recorded = _check_same(out, settings)
    elif not all(map(is_left_over, out.iterdir())):
        raise UsageError(f"{out} is not empty. Choose another --out.")
    else:
        with tempfile.TemporaryFile(dir=out):
            pass  # known before the work starts: it can be written
        _write_manifest(out, {"status": "running", **settings})
    data.mkdir(exist_ok=True)
    shutil.rmtree(out / _PLANNED, ignore_errors=True)
    finished, hashes = {}, {}
    for path in (*out.glob(f".*{TEMPORARY}"), *data.iterdir()):
        name = f"data/{path.name}"
        counts = _counts_of(path, recorded.get(name))
        if counts is None:
            path.unlink(missing_ok=True)
        else:
            finished[int(path.stem.partition("-")[2])], hashes[name] = counts, recorded[name]
    return finished, hashes


def _check_same(out: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Refuse a complete folder or other settings; the recorded sha256 of parts by name."""
    try:
        known = parse_json((out / MANIFEST).read_text(encoding="utf-8"))
        complete, recorded = known["status"] == "complete", dict(known.get("sha256", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{out}/{MANIFEST} was not written by swapbias. Choose another --out.") from error
    if complete and all(_counts_of(out / name, sha256) for name, sha256 in recorded.items()):
        raise UsageError(f"{out} is complete. Choose another --out.")
    for name, value in json.loads(json.dumps(settings)).items():
        if known.get(name) != value:
            shown = "" if isinstance(value, dict | list) else f" {quoted(known.get(name))}, now {quoted(value)}"
            raise UsageError(
                f"{out} was begun with another {name}:{shown or ' it is not what it was'}. "
                "Give what it was begun with, or choose another --out."
            )
    return recorded


def _counts_of(part: Path, sha256: str | None) -> Totals | None:
    """What a part says that it counted; None where it is not whole."""
    try:
        if file_sha256(part) != sha256:
            return None
        return Totals.read(json.loads((pq.read_metadata(part).metadata or {})[_COUNTS.encode()]))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError):
        return None


def _part_name(number: int) -> str:
    return f"data/part-{number:05d}.parquet"


def write_part(out: Path, number: int, layout: "Layout", pieces: Iterable[tuple[pa.Table, Totals]]) -> Totals:
    """Write a part whole or not at all, with what was counted in its metadata and a checksum in each page.

    The column of texts gets no dictionary (hardly two are alike) and no statistics (the least and the greatest text
    would stand once more in the file's footer).
    """
    path = out / _part_name(number)
    temporary, totals = temporary_for(path), Totals()
    sink = pa.BufferOutputStream()
    pq.write_table(layout.schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    others = [column for at in range(len(stored)) if (column := stored.column(at).path) != layout.column]
    options = {"compression": "zstd", "use_dictionary": others, "write_statistics": others}
    try:
        with pq.ParquetWriter(temporary, layout.schema, write_page_checksum=True, **options) as writer:
            for table, counts in pieces:
                writer.write_table(table)
                totals += counts
            writer.add_key_value_metadata({_COUNTS: json.dumps(totals.counts(), ensure_ascii=False)})
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return totals


def _finish(out: Path, settings: Mapping[str, Any], totals: Totals, hashes: Mapping[str, str], split: str) -> None:
    """Write the report and the card, and then say that the job is complete."""
    handle = io.StringIO(newline="")
    writer = csv.writer(handle, lineterminator="\n")
    writer.writerow(("term", "kind", "count"))
    for kind, counts in totals.by_kind().items():
        writer.writerows((escape_csv_cell(term), kind, count) for term, count in by_count(counts))
    write_whole(out / "report.csv", handle.getvalue().encode())
    warning = _WARNING if settings["credentialed"] else ""
    shown = {name: settings[name] for name in ("column", "mode", "table", "resolver")}
    write_whole(out / "README.md", _CARD.format(**shown, split=split, warning=warning).encode())
    shown = {"parts": len(hashes), "totals": totals.counts(), "sha256": dict(sorted(hashes.items()))}
    _write_manifest(out, {"status": "complete", **settings, **shown})


def _write_manifest(out: Path, manifest: Mapping[str, Any]) -> None:
    write_whole(out / MANIFEST, f"{json.dumps(manifest, indent=2, ensure_ascii=False)}\n".encode())


# Rows of the input, swapped in order


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that are swapped at once.

    Attributes:
        part: number of the output part they belong to.
        first: number of the first row in the input, from 0.
        batch: the rows with all their columns.
        position: bytes of the input read by then.
    """

    part: int
    first: int
    batch: pa.RecordBatch
    position: int


Item = TypeVar("Item")


def swapped_in_order(units: Iterator[Unit], task: Job, processes: int) -> Generator[tuple[Unit, Swapped], None, None]:
    """Each unit with what the swap gave, in the order of the units.

    With one process none is started, and a thread swaps the next unit. Of more processes at most ``processes + 1``
    units are in flight.

    Raises:
        ValueError: a worker process died.
    """
    if processes == 1:
        yield from _ahead((unit, _swapped(task, unit.batch)) for unit in units)
        return
    # Not "fork": Arrow's threads would not live on in the child.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)
    columns = [task.column, *([task.gender] if task.gender else [])]
    waiting: deque[tuple[Unit, Future[Swapped]]] = deque()
    try:
        for unit in units:
            texts = unit.batch.select(columns)
            waiting.append((unit, pool.submit(_swap, task, texts.schema, texts.serialize())))
            if len(waiting) > processes:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    except BrokenProcessPool as error:
        raise ValueError(
            "A worker process died, most likely for want of memory. Run the same command again with fewer "
            "--processes: finished parts are kept."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


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


def _swap(task: Job, schema: pa.Schema, texts: pa.Buffer) -> Swapped:
    return _swapped(task, pa.ipc.read_record_batch(texts, schema))


def _swapped(task: Job, batch: pa.RecordBatch) -> Swapped:
    known = batch.column(task.gender).to_pylist() if task.gender else None
    return _swapper(task).run(batch.column(task.column), task.mode, genders=known)


@cache
def _swapper(task: Job) -> Swapper:
    """Made once in each process."""
    whose = task.whose or "everyone"
    return Swapper(task.table, whose=whose, spouses=task.spouses, names=task.names)


def _begin() -> None:
    """In a worker: Ctrl-C is the parent's, and a parent that was killed takes its workers along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def _units(
    batches: Batches, column: str, finished: Mapping[int, Totals], part_bytes: int, batch_rows: int
) -> Iterator[Unit]:
    """Rows that are not written yet, cut where a part ends: by the texts alone, so that batches do not matter."""
    part, row, used, rows = 0, 0, 0, 0
    for batch, position in batches:
        lengths = text_lengths(batch, column)
        start = 0
        while start < len(batch):
            filled = used + np.cumsum(lengths[start : start + batch_rows])
            count = min(int(np.searchsorted(filled, part_bytes)) + 1, len(filled))  # with the row that fills the part
            if part not in finished:
                yield Unit(part, row + start, batch.slice(start, count), position)
            used, rows = int(filled[count - 1]), rows + count
            if used >= part_bytes:
                _check_rows(part, rows, finished)
                part, used, rows = part + 1, 0, 0
            start += count
        row += len(batch)
    if rows:
        _check_rows(part, rows, finished)


def _check_rows(part: int, rows: int, finished: Mapping[int, Totals]) -> None:
    if part in finished and finished[part].rows_read != rows:
        raise UsageError(
            f"Part {part} was written with {finished[part].rows_read} rows, and {rows} belong to it now: parts were "
            "begun with another size. Give the same, or choose another --out."
        )


# Workers of a cluster: each reads its rows from a file in the output folder, for no text goes through the cluster


def _planned_parts(folder: Path, units: Iterator[Unit]) -> Iterator[Part]:
    """The parts to do; the rows of each wait in a file until a worker has done it."""
    for number, group in groupby(units, key=lambda unit: unit.part):
        name, batches = f"{number:05d}", list(group)
        with pa.ipc.new_stream(str(folder / f"{name}.arrows"), batches[0].batch.schema) as writer:
            for unit in batches:
                writer.write_batch(unit.batch)
        rows = sum(len(unit.batch) for unit in batches)
        first, position = batches[0].first, batches[-1].position
        yield {"name": name, "part": number, "first": first, "rows": rows, "position": position}


def part_swapper(spec: Mapping[str, Any]) -> Work:
    """The worker of a swap on a machine of a cluster.

    Args:
        spec: ``out`` (the output folder, on a file system that all machines share), ``task`` (a ``Job`` with all that
            is decided) and ``shape`` (of the output: arguments of ``layout_of``).
    """
    out, task = Path(spec["out"]), Job(**spec["task"])

    def work(part: Part, advance: Callable[[float], None]) -> Mapping[str, Any]:
        planned = out / _PLANNED / f"{part['name']}.arrows"
        if not planned.exists():
            raise UsageError(
                f"The worker on {platform.node()} does not see {out}. Choose an --out on a file system that all "
                "machines share."
            )
        with pa.memory_map(str(planned)) as rows, pa.ipc.open_stream(rows) as batches:
            layout = layout_of(batches.schema, groups=_swapper(task).groups, **spec["shape"])

            def pieces() -> Iterator[tuple[pa.Table, Totals]]:
                first = part["first"]
                for batch in batches:
                    yield versions(batch, first, _swapped(task, batch), layout)
                    first += len(batch)

            return {"counts": write_part(out, part["part"], layout, pieces()).counts()}

    return work
