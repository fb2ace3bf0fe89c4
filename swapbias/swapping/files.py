"""Swap whole files: rows in, Parquet parts out, in bounded memory; a killed job goes on after its last whole part."""

import hashlib
import multiprocessing
import os
import platform
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from itertools import groupby
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapbias.cluster import LOCAL, Crew, Engine, Part, Worker, crew
from swapbias.errors import UsageError
from swapbias.files import is_there, is_url
from swapbias.privacy import why_credentialed, writing
from swapbias.studies import shown_names
from swapbias.swapping.nouns import REASONS
from swapbias.swapping.parts import SwapFolder, Totals
from swapbias.swapping.streams import CREDENTIALED, Batches, Source, is_mimic, open_source, why_held
from swapbias.swapping.swapper import MODES, Swapped, Swapper
from swapbias.swapping.table import gender_columns, other_gender

if TYPE_CHECKING:
    from swapbias.store import Store

FILE_MODES = (*MODES, "augment", "pairs")
COUNTED = ("swapbias_replaced", "swapbias_ambiguous", "swapbias_specific")
LEFT = tuple(f"swapbias_left_{reason}" for reason in REASONS)  # with whose="patient"
_VERSION, _PAIR_ID, _GROUP, _NOTE_ID = "swapbias_version", "pair_id", "group", "note_id"


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of the output.

    Attributes:
        schema: of the output.
        column: the column of texts.
        mode: one of ``FILE_MODES``.
        groups: the swap table's two groups; the second is the one of side +1.
        credentialed: whether every row is marked as such.
        counted: columns of counts.
        plausible: whether rows with gender-specific clinical terms are left out.
        genders: columns of the patient's gender, which become that of the swapped text.
    """

    schema: pa.Schema
    column: str
    mode: str
    groups: tuple[str, str]
    credentialed: bool
    counted: tuple[str, ...] = COUNTED
    plausible: bool = False
    genders: tuple[str, ...] = ()


def layout_of(
    given: pa.Schema,
    *,
    column: str,
    mode: str,
    groups: tuple[str, str],
    credentialed: bool,
    whose: str = "everyone",
    plausible: bool = False,
) -> Layout:
    """The input's columns, then counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced``, ``swapbias_ambiguous`` and ``swapbias_specific``, and for ``whose="patient"`` the words
    that stay by reason (``swapbias_left_relative``, ...), count in the input's text: both versions of a row carry the
    same. ``credentialed`` is true in every row, or not added.

    Raises:
        UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {mode!r}: expected one of {', '.join(FILE_MODES)}.")
    counted = COUNTED if whose == "everyone" else (*COUNTED, *LEFT)
    added = [pa.field(name, pa.int32()) for name in counted]
    if mode not in MODES:
        added.append(pa.field(_VERSION, pa.string()))
    if mode == "pairs":
        added += [pa.field(_PAIR_ID, pa.string()), pa.field(_GROUP, pa.string())]
    there = next((field.name for field in added if field.name in given.names), None)
    if there is not None:
        raise UsageError(f"The input has a column {there!r}, which mode {mode} adds. Rename or drop it.")
    schema = given
    for field in added:
        schema = schema.append(field)
    if credentialed:
        if CREDENTIALED in schema.names:
            schema = schema.remove(schema.get_field_index(CREDENTIALED))
        schema = schema.append(pa.field(CREDENTIALED, pa.bool_()))
    swaps = mode != "neutralise" and set(groups) == {"male", "female"}
    genders = gender_columns(
        one.name for one in given if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)
    )
    genders = genders if swaps else []
    return Layout(schema, column, mode, groups, credentialed, counted, plausible, tuple(genders))


def versions(batch: pa.RecordBatch, first: int, swapped: Swapped, layout: Layout) -> tuple[pa.Table, Totals]:
    """The output rows of a batch, and its counts.

    Args:
        batch: input rows.
        first: number of the first of them in the input, from 0.
        swapped: what the swap of its texts gave.
        layout: the output's columns.
    """
    table = pa.table(batch)
    kinds = swapped.replaced, swapped.ambiguous, swapped.specific, *swapped.left.T
    for name, counts in zip(layout.counted, kinds, strict=False):
        table = table.append_column(name, pa.array(counts, pa.int32()))
    if layout.credentialed:
        if CREDENTIALED in table.column_names:
            table = table.drop_columns(CREDENTIALED)
        table = table.append_column(CREDENTIALED, pa.repeat(pa.scalar(True), len(table)))
    texts = swapped.texts.cast(layout.schema.field(layout.column).type)
    other = table.set_column(table.schema.get_field_index(layout.column), layout.column, texts)
    for name in layout.genders:
        changed = zip(table.column(name).to_pylist(), swapped.replaced, strict=True)
        values = pa.array(
            [other_gender(one) if times else one for one, times in changed], table.schema.field(name).type
        )
        other = other.set_column(other.schema.get_field_index(name), name, values)
    if layout.mode not in MODES:
        other = _both(table, other, first, swapped.sides, layout)
    if layout.plausible:
        keep = pc.equal(other.column(COUNTED[2]), 0)
        keep = pc.or_(keep, pc.equal(other.column(_VERSION), "original")) if layout.mode == "augment" else keep
        other = other.filter(keep)
    return other.select(layout.schema.names).cast(layout.schema), _counted(batch, swapped, len(other), layout)


def _both(original: pa.Table, swapped: pa.Table, first: int, sides: NDArray[np.int8], layout: Layout) -> pa.Table:
    """Each row followed by its swapped version; as pairs, without the rows where nothing was replaced."""
    rows = len(original)
    named = [
        table.append_column(_VERSION, pa.repeat(pa.scalar(name), rows))
        for table, name in ((original, "original"), (swapped, "swapped"))
    ]
    if layout.mode == "pairs":
        ids = _pair_ids(original, first)
        named = [
            table.append_column(_PAIR_ID, ids).append_column(_GROUP, _groups(own, layout.groups))
            for table, own in zip(named, (sides, -sides), strict=True)
        ]
    both = pa.concat_tables(named).combine_chunks()
    order = np.arange(2 * rows).reshape(2, rows).T.ravel()  # 0, n, 1, n + 1, ...
    both = both.take(pa.array(order))
    return both.filter(pc.greater(both.column(COUNTED[0]), 0)) if layout.mode == "pairs" else both


def _pair_ids(table: pa.Table, first: int) -> pa.ChunkedArray | pa.Array:
    """The note's own id where the input has one, else the row's number."""
    numbers = pa.array(range(first, first + len(table)), pa.int64()).cast(pa.string())
    if _NOTE_ID not in table.column_names:
        return numbers
    return pc.coalesce(table.column(_NOTE_ID).cast(pa.string()), numbers)


def _groups(sides: NDArray[np.int8], groups: tuple[str, str]) -> pa.Array:
    """The group of each text by its sides; blank where neither side's words are more."""
    return pa.array([groups[0], "", groups[1]], pa.string()).take(pa.array(sides.astype(np.int64) + 1))


def _counted(batch: pa.RecordBatch, swapped: Swapped, written: int, layout: Layout) -> Totals:
    replaced = int(np.count_nonzero(swapped.replaced))
    return Totals(
        rows_read=len(batch),
        rows_written=written,
        rows_replaced=replaced,
        rows_ambiguous=int(np.count_nonzero(swapped.ambiguous)),
        rows_specific=int(np.count_nonzero(swapped.specific)),
        rows_left_out=len(batch) - replaced if layout.mode == "pairs" else 0,
        rows_implausible=_implausible(swapped, layout),
        text_bytes=int(text_lengths(batch, layout.column).sum()),
        terms=swapped.terms,
        doubtful=swapped.doubtful,
        specific_terms=swapped.specific_terms,
        left=Counter({name: int(count) for name, count in zip(REASONS, swapped.left.sum(0), strict=True) if count}),
    )


def _implausible(swapped: Swapped, layout: Layout) -> int:
    """Rows left out for a gender-specific term alone: a row without a replacement makes no pair anyway."""
    if not layout.plausible:
        return 0
    specific = swapped.specific > 0
    return int(np.count_nonzero(specific & (swapped.replaced > 0) if layout.mode == "pairs" else specific))


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """UTF-8 bytes of each text, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(batch.column(column)), 0)
    found: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


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


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker does: its swapper's arguments, the columns of text and of gender, and the swapper's mode."""

    table: str | Path
    resolver: str | None
    column: str
    mode: str
    whose: str = "everyone"
    spouses: str = "swap"
    gender: str | None = None
    names: bool = False


Item = TypeVar("Item")


def swapped_in_order(
    units: Iterator[Unit], task: Task, processes: int
) -> Generator[tuple[Unit, Swapped], None, None]:
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
    try:
        yield from _through(pool, units, task, processes + 1)
    except BrokenProcessPool as error:
        raise ValueError(
            "A worker process died, most likely for want of memory. Run the same command again with fewer "
            "--processes: whole parts are kept."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The same items, each made by a thread while its user is at the one before.

    So reading, swapping and writing overlap: most of reading and writing is Arrow's, which leaves Python to others.
    """
    left = iter(items)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, left, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, left, None)
            yield item


def _through(
    pool: ProcessPoolExecutor, units: Iterator[Unit], task: Task, most: int
) -> Iterator[tuple[Unit, Swapped]]:
    waiting: deque[tuple[Unit, Future[Swapped]]] = deque()
    for unit in units:
        waiting.append((unit, pool.submit(_swap, task, _packed(unit.batch, task))))
        if len(waiting) >= most:
            first, future = waiting.popleft()
            yield first, future.result()
    for last, future in waiting:
        yield last, future.result()


def _packed(batch: pa.RecordBatch, task: Task) -> pa.Buffer:
    """The texts alone and the genders, as Arrow IPC: of a slice only the slice is sent."""
    texts = batch.select([task.column, *([task.gender] if task.gender else [])])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, texts.schema) as writer:
        writer.write_batch(texts)
    return sink.getvalue()


def _swap(task: Task, packed: pa.Buffer) -> Swapped:
    with pa.ipc.open_stream(packed) as reader:
        return _swapped(task, reader.read_next_batch())


def _swapped(task: Task, batch: pa.RecordBatch) -> Swapped:
    known = batch.column(task.gender).to_pylist() if task.gender else None
    return _swapper(task).run(batch.column(task.column), task.mode, genders=known)


@cache
def _swapper(task: Task) -> Swapper:
    """Made once in each process."""
    return Swapper(
        task.table, resolver=task.resolver, whose=task.whose, spouses=task.spouses, names=task.names
    )  # fmt: skip


def _begin() -> None:
    """In a worker: Ctrl-C is the parent's, and a parent that was killed takes its workers along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_after, args=(parent.sentinel,), daemon=True).start()


def _die_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


PART_BYTES = 64 << 20
BATCH_ROWS = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """What to swap, and how.

    Attributes:
        source: a file, a folder of files, or a Hub dataset ``owner/name[:config]``.
        column: the column of texts.
        mode: ``swap`` or ``neutralise`` (the texts are replaced), ``augment`` (each row followed by its swapped
            version) or ``pairs`` (the same with ``pair_id`` and ``group``, without rows where nothing was replaced).
        table: of terms: ``resolved``, ``paper`` or a CSV file.
        resolver: a model that tells "his" from "him", or None for the built-in one.
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
    resolver: str | None = None
    split: str | None = None
    credentialed: bool = False
    whose: str | None = None
    spouses: str = "swap"
    gender: str | None = None
    plausible: bool = False
    names: bool = False


@dataclass(frozen=True, slots=True)
class Step:
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
class Done:
    """A finished job: its folder and counts, why its rows are credentialed (blank: they are not), the last step."""

    folder: Path
    totals: Totals
    credentialed: str
    last: Step


def swap_files(
    job: Job,
    out: Path,
    *,
    processes: int = 1,
    batch_rows: int = BATCH_ROWS,
    part_bytes: int = PART_BYTES,
    on_progress: Callable[[Step], None] | None = None,
    engine: Engine = LOCAL,
    say: Callable[[str], None] = lambda sentence: None,
    store: "Store | None" = None,
) -> Done:
    """Swap the texts of ``job.source`` into Parquet parts in ``out``.

    Rows keep their order; the rows written do not depend on ``processes``, ``batch_rows`` or ``engine``. Called again
    with the same job after a kill, it writes the parts that are not there, and those that are damaged.

    Args:
        job: what and how.
        out: a new or empty folder, or one where the same job was begun.
        processes: 1 swaps in this process.
        batch_rows: most rows that are swapped at once.
        part_bytes: a part ends with the row that brings its texts to so many bytes.
        on_progress: told after each batch; by a cluster after each part.
        engine: who swaps; the parts are the same to the byte.
        say: told which parts are damaged and written again.
        store: where the output lies, which the caller holds; ``out`` is then an empty folder of this machine.

    Raises:
        UsageError: a wrong request: no such input, column, table or mode; ``out`` complete or begun otherwise.
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
    swapper = Swapper(job.table, resolver=job.resolver, whose=whose, spouses=job.spouses, names=job.names)
    gender = _gender_column(job, source, whose)
    why = "--credentialed was given" if job.credentialed else _why_credentialed(job, source)
    shape: dict[str, Any] = {
        "column": job.column, "mode": job.mode, "credentialed": bool(why), "whose": whose, "plausible": job.plausible,
    }  # fmt: skip
    layout = layout_of(source.schema, groups=swapper.groups, **shape)
    settings = _settings(job, source, swapper, why)
    if whose == "patient":
        settings |= {"whose": whose, "spouses": job.spouses, "gender": gender or "read from the text"}
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, expected a folder. Choose another --out.")
    if why and store and not store.own:
        raise UsageError(
            f"These rows are credentialed ({why}), and {store} was not declared as a place for them. Choose an --out "
            "on this machine, or add --own-store where nobody but those who may read them can read that place."
        )
    mode = "neutralise" if job.mode == "neutralise" else "swap"
    task = Task(job.table, job.resolver, job.column, mode, whose, job.spouses, gender, job.names)
    then = "Wait until it ends, or choose another --out."
    with writing(out, held=bool(why), then=then):
        folder = SwapFolder.open(out, settings, say, store)
        kept = folder.parts()
        teller = _Teller(source.size, sum(kept.values(), Totals()), on_progress or (lambda step: None))
        units = _ahead(_units(source.read(batch_rows), job.column, kept, part_bytes, batch_rows))
        if engine.local:
            with closing(swapped_in_order(units, task, processes)) as results:
                _write(folder, layout, results, teller)
        else:
            place = store.address if store else str(out.resolve())
            spec = {"out": place, "task": {**asdict(task), **_wherever(task)}, "shape": shape}
            workers = crew(engine, WORKER, spec, own=lambda: part_swapper(spec), cores=1, held=bool(why), say=say)
            _have_written(folder, units, teller, workers)
        if not (kept or teller.totals.rows_read):  # a part without rows still has the columns
            folder.write_part(0, layout.schema, [], texts=layout.column)
        folder.finish(settings, teller.totals, source.identity.get("split", "train"))
    return Done(out, teller.totals, why, teller.step)


def _gender_column(job: Job, source: Source, whose: str) -> str | None:
    """The column of the patient's gender, or None.

    Raises:
        UsageError: no such column, or one that nothing asks for.
    """
    if job.gender is not None and whose != "patient":
        raise UsageError(f"--gender {job.gender}: all words are swapped, whoever's they are. Add --whose patient.")
    if job.gender is not None and job.gender not in source.schema.names:
        raise UsageError(
            f"There is no column {job.gender!r}, there are {shown_names(source.schema.names)}. Choose with --gender."
        )
    own = next((name for name in source.schema.names if name.lower() == "gender"), None)
    return (job.gender or own) if whose == "patient" else None


def _settings(job: Job, source: Source, swapper: Swapper, why: str) -> dict[str, Any]:
    """What must be the same for a job to go on."""
    return {
        "swapbias": version("swapbias"),
        "mode": job.mode,
        "column": job.column,
        "table": Path(swapper.table_name).name,
        "table_sha256": swapper.sha256,
        **_resolver(job.resolver),
        "plausible": job.plausible,
        "credentialed": bool(why),
        "credentialed_because": why,
        "input": source.identity,
    }


def _wherever(task: Task) -> dict[str, str | None]:
    """Table and resolver of a task, so that a worker in another folder finds them."""
    table, resolver = Path(task.table), task.resolver
    return {
        "table": str(table.resolve() if table.is_file() else table),
        "resolver": str(Path(resolver).resolve()) if resolver and Path(resolver).exists() else resolver,
    }


def _resolver(given: str | None) -> dict[str, str]:
    """The resolver's name, and where it is a folder a hash that tells it from another: card and manifest are meant to
    be uploaded, and name no place of a machine.
    """
    if given is None or not (Path(given).is_absolute() or is_there(given)):
        return {"resolver": given or "built-in"}
    place = Path(given).resolve()
    return {"resolver": place.name, "resolver_place": hashlib.sha256(str(place).encode()).hexdigest()[:16]}


def _units(
    batches: Batches, column: str, kept: Mapping[int, Totals], part_bytes: int, batch_rows: int
) -> Iterator[Unit]:
    """Rows that are not written yet, cut where a part ends: by the texts alone, so that batches do not matter."""
    part, row, used, rows = 0, 0, 0, 0
    for batch, position in batches:
        lengths = text_lengths(batch, column)
        start = 0
        while start < len(batch):
            filled = used + np.cumsum(lengths[start : start + batch_rows])
            count = min(int(np.searchsorted(filled, part_bytes)) + 1, len(filled))  # with the row that fills the part
            if part not in kept:
                yield Unit(part, row + start, batch.slice(start, count), position)
            used, rows = int(filled[count - 1]), rows + count
            if used >= part_bytes:
                _check_rows(part, rows, kept)
                part, used, rows = part + 1, 0, 0
            start += count
        row += len(batch)
    if rows:
        _check_rows(part, rows, kept)


def _check_rows(part: int, rows: int, kept: Mapping[int, Totals]) -> None:
    if part in kept and kept[part].rows_read != rows:
        raise UsageError(
            f"Part {part} was written with {kept[part].rows_read} rows, and {rows} belong to it now: parts were "
            "begun with another size. Give the same, or choose another --out."
        )


def _write(folder: SwapFolder, layout: Layout, results: Iterator[tuple[Unit, Swapped]], teller: "_Teller") -> None:
    """Write the parts that are not there yet."""

    def told(group: Iterable[tuple[Unit, Swapped]]) -> Iterator[tuple[pa.Table, Totals]]:
        for unit, swapped in group:
            table, counts = versions(unit.batch, unit.first, swapped, layout)
            yield table, counts
            teller.add(counts, unit.position)

    for part, group in groupby(results, key=lambda result: result[0].part):
        folder.write_part(part, layout.schema, told(group), texts=layout.column)


WORKER = "swapbias.swapping.files:part_swapper"


def _have_written(
    folder: SwapFolder, units: Iterator[Unit], teller: "_Teller", hands: AbstractContextManager[Crew]
) -> None:
    """Have workers write the parts that are not there yet: each reads its rows from a file in the output folder.

    At most as many parts wait there as workers can take; no text goes through the cluster's own store.
    """

    def planned() -> Iterator[Part]:
        for number, group in groupby(units, key=lambda unit: unit.part):
            name = f"{number:05d}"
            told = _staged(folder.planned / f"{name}.arrows", group)
            folder.put_planned(f"{name}.arrows")
            yield {"name": name, "part": number, **told}

    folder.planned.mkdir(mode=0o700, exist_ok=True)
    try:
        with hands as crew:
            for part, done in crew(planned()):
                folder.drop_planned(f"{part['name']}.arrows")
                teller.add(Totals.read(done["counts"]), part["position"])
    finally:
        folder.drop_planned()


def _staged(path: Path, units: Iterable[Unit]) -> dict[str, int]:
    """Write the units of a part as batches that are to be swapped at once; its first row, rows, and bytes read."""
    told: dict[str, int] = {}
    with ExitStack() as open_:
        writer = None
        for unit in units:
            if writer is None:
                writer = open_.enter_context(pa.ipc.new_stream(str(path), unit.batch.schema))
            writer.write_batch(unit.batch)
            rows = told.get("rows", 0) + len(unit.batch)
            told = {"first": told.get("first", unit.first), "rows": rows, "position": unit.position}
    return told


def part_swapper(spec: Mapping[str, Any]) -> Worker:
    """The worker of a swap on a machine of a cluster.

    Args:
        spec: ``out`` (the output folder, on a file system that all machines share, or its URL), ``task`` (a ``Task``)
            and ``shape`` (of the output: arguments of ``layout_of``).
    """
    folder, task = _folder_at(spec["out"]), Task(**spec["task"])

    def work(part: Part, advance: Callable[[float], None]) -> Mapping[str, Any]:
        rows = folder.read_planned(f"{part['name']}.arrows")
        if rows is None:
            raise UsageError(
                f"The worker on {platform.node()} does not see {folder.place}. Choose an --out on a file system that "
                "all machines share."
            )
        with rows, pa.ipc.open_stream(rows) as batches:
            layout = layout_of(batches.schema, groups=_swapper(task).groups, **spec["shape"])

            def pieces() -> Iterator[tuple[pa.Table, Totals]]:
                first = part["first"]
                for batch in batches:
                    yield versions(batch, first, _swapped(task, batch), layout)
                    first += len(batch)

            return {"counts": folder.write_part(part["part"], layout.schema, pieces(), texts=layout.column).counts()}

    return work


def _folder_at(place: str) -> SwapFolder:
    if not is_url(place):
        return SwapFolder(Path(place))
    from swapbias.store import Store  # its library takes long to import

    return SwapFolder(Path(), Store.open(place))


class _Teller:
    """Adds up what is done and tells how far it is."""

    def __init__(self, size: int | None, totals: Totals, tell: Callable[[Step], None]) -> None:
        self.totals, self.step = totals, Step(0, size, totals.rows_read, 0, 0.0)
        self._tell, self._begun = tell, time.perf_counter()

    def add(self, counts: Totals, position: int) -> None:
        self.totals += counts
        self.step = Step(
            position=position,
            size=self.step.size,
            rows=self.totals.rows_read,
            text_bytes=self.step.text_bytes + counts.text_bytes,
            seconds=time.perf_counter() - self._begun,
        )
        self._tell(self.step)


def _why_credentialed(job: Job, source: Source) -> str:
    path = Path(job.source)
    return (path.exists() and why_credentialed(path)) or why_held(source)
