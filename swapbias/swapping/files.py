"""Swap whole files: rows in, Parquet parts out, in bounded memory; a killed job goes on after its last whole part."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from swapbias.credentialed import is_credentialed
from swapbias.errors import UsageError
from swapbias.swapping import Swapped, Swapper
from swapbias.swapping.parts import SwapFolder, Totals
from swapbias.swapping.readers import Batches
from swapbias.swapping.streams import Source, open_source, why_credentialed
from swapbias.swapping.versions import Layout, layout_of, text_lengths, versions
from swapbias.swapping.workers import Task, Unit, swapped_in_order

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
    """

    source: str
    column: str = "text"
    mode: str = "swap"
    table: str = "resolved"
    resolver: str | None = None
    split: str | None = None
    credentialed: bool = False


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
) -> Done:
    """Swap the texts of ``job.source`` into Parquet parts in ``out``.

    Rows keep their order; the rows written do not depend on ``processes`` or ``batch_rows``. Called again with the
    same job after a kill, it goes on after the last whole part.

    Args:
        job: what and how.
        out: a new or empty folder, or one where the same job was begun.
        processes: 1 swaps in this process.
        batch_rows: most rows that are swapped at once.
        part_bytes: a part ends with the row that brings its texts to so many bytes.
        on_progress: told after each batch.

    Raises:
        UsageError: a wrong request: no such input, column, table or mode; ``out`` complete or begun otherwise.
        ValueError: an input that cannot be read, in one sentence with the place.
        OSError: ``out`` cannot be written.
    """
    if processes < 1 or batch_rows < 1:
        raise UsageError(f"processes {processes} and batch rows {batch_rows}: expected 1 or more. Give larger ones.")
    swapper = Swapper(job.table, resolver=job.resolver)
    source = open_source(job.source, job.column, split=job.split)
    why = "--credentialed was given" if job.credentialed else _why_credentialed(job, source)
    layout = layout_of(source.schema, column=job.column, mode=job.mode, groups=swapper.groups, credentialed=bool(why))
    settings = _settings(job, source, swapper, why)
    folder = SwapFolder.open(out, settings)
    teller = _Teller(source.size, sum(folder.parts(), Totals()), on_progress or (lambda step: None))
    task = Task(job.table, job.resolver, job.column, "neutralise" if job.mode == "neutralise" else "swap")
    units = _units(source.read(batch_rows), job.column, folder.parts(), part_bytes, batch_rows)
    with closing(swapped_in_order(units, task, processes)) as results:
        parts = _write(folder, layout, results, teller)
    folder.finish(settings, teller.totals, parts, job.split or "train")
    return Done(out, teller.totals, why, teller.step)


def _settings(job: Job, source: Source, swapper: Swapper, why: str) -> dict[str, Any]:
    """What must be the same for a job to go on."""
    return {
        "swapbias": version("swapbias"),
        "mode": job.mode,
        "column": job.column,
        "table": Path(swapper.table_name).name,
        "table_sha256": swapper.sha256,
        "resolver": job.resolver or "built-in",
        "credentialed": bool(why),
        "credentialed_because": why,
        "input": source.identity,
    }


def _units(batches: Batches, column: str, kept: Sequence[Totals], part_bytes: int, batch_rows: int) -> Iterator[Unit]:
    """Rows that are not written yet, cut where a part ends: by the texts alone, so that batches do not matter."""
    part, row, used, skip = len(kept), 0, 0, sum(one.rows_read for one in kept)
    for batch, position in batches:
        lengths = text_lengths(batch, column)
        start = min(max(skip - row, 0), len(batch))
        while start < len(batch):
            filled = used + np.cumsum(lengths[start : start + batch_rows])
            count = min(int(np.searchsorted(filled, part_bytes)) + 1, len(filled))  # with the row that fills the part
            yield Unit(part, row + start, batch.slice(start, count), position)
            used = int(filled[count - 1])
            if used >= part_bytes:
                part, used = part + 1, 0
            start += count
        row += len(batch)


def _write(folder: SwapFolder, layout: Layout, results: Iterator[tuple[Unit, Swapped]], teller: "_Teller") -> int:
    """Write the parts that are not there yet; gives how many parts there are then."""

    def pieces(group: Iterable[tuple[Unit, Swapped]]) -> Iterator[tuple[pa.Table, Totals]]:
        for unit, swapped in group:
            table, counts = versions(unit.batch, unit.first, swapped, layout)
            yield table, counts
            teller.add(counts, unit.position)

    for part, group in groupby(results, key=lambda result: result[0].part):
        folder.write_part(part, layout.schema, pieces(group), texts=layout.column)
    if not folder.part(0).exists():  # no rows at all: a part without rows still has the columns
        folder.write_part(0, layout.schema, [], texts=layout.column)
    return len(folder.parts())


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
    if path.exists() and is_credentialed(path):
        return "the input lies in a folder that is marked so"
    return why_credentialed(source)
