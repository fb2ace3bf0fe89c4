"""Swap batches in order, in this process or in several, with a bounded number of batches in flight."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path

import pyarrow as pa

from swapbias.swapping import Swapped, Swapper


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
    """What every worker does: its swapper's arguments, the column and the swapper's mode."""

    table: str | Path
    resolver: str | None
    column: str
    mode: str


def swapped_in_order(
    units: Iterator[Unit], task: Task, processes: int
) -> Generator[tuple[Unit, Swapped], None, None]:
    """Each unit with what the swap gave, in the order of the units.

    With one process nothing is started. At most ``processes + 1`` units are in flight.

    Raises:
        ValueError: a worker process died.
    """
    if processes == 1:
        for unit in units:
            yield unit, _swapper(task).run(unit.batch.column(task.column), task.mode)
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


def _through(
    pool: ProcessPoolExecutor, units: Iterator[Unit], task: Task, most: int
) -> Iterator[tuple[Unit, Swapped]]:
    waiting: deque[tuple[Unit, Future[Swapped]]] = deque()
    for unit in units:
        waiting.append((unit, pool.submit(_swap, task, _packed(unit.batch, task.column))))
        if len(waiting) >= most:
            first, future = waiting.popleft()
            yield first, future.result()
    for last, future in waiting:
        yield last, future.result()


def _packed(batch: pa.RecordBatch, column: str) -> pa.Buffer:
    """The texts alone, as Arrow IPC: of a slice only the slice is sent."""
    texts = batch.select([column])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, texts.schema) as writer:
        writer.write_batch(texts)
    return sink.getvalue()


def _swap(task: Task, packed: pa.Buffer) -> Swapped:
    with pa.ipc.open_stream(packed) as reader:
        texts = reader.read_next_batch().column(0)
    return _swapper(task).run(texts, task.mode)


@cache
def _swapper(task: Task) -> Swapper:
    """Made once in each process."""
    return Swapper(task.table, resolver=task.resolver)


def _begin() -> None:
    """In a worker: Ctrl-C is the parent's, and a parent that was killed takes its workers along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_die_after, args=(parent.sentinel,), daemon=True).start()


def _die_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
