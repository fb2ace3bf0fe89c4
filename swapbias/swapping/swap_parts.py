"""Parts that the rows of an input are cut into: each waits in a file of the output folder until a worker does it."""

from collections.abc import Collection, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from swapbias.swapping.cluster import Part
from swapbias.swapping.row_formats import Batches
from swapbias.swapping.swapped_rows import text_lengths

Item = TypeVar("Item")


def made_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield the same items, each made by a thread while its user is at the one before.

    So reading, swapping and writing overlap: most of reading and writing is Arrow's, which leaves Python to others.

    Args:
        items: any number of them, none of them None.
    """
    rest = iter(items)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, rest, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, rest, None)
            yield item


def cut_parts(batches: Batches, column: str, part_bytes: int) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows of each part, cut by the texts alone, whatever the batches, and the bytes read by then.

    Args:
        batches: batches of rows with the bytes of the input that were read by their end.
        column: the column of the texts.
        part_bytes: bytes of texts at which a part is full.
    """
    rows = list[pa.RecordBatch]()
    used = 0
    position = 0
    for batch, position in batches:
        while len(batch):
            filled = used + np.cumsum(text_lengths(batch, column))
            # With the row that fills the part.
            count = min(int(np.searchsorted(filled, part_bytes)) + 1, len(filled))
            rows.append(batch.slice(0, count))
            used = int(filled[count - 1])
            batch = batch.slice(count)
            if used >= part_bytes:
                yield pa.Table.from_batches(rows), position
                rows = []
                used = 0
    if rows:
        yield pa.Table.from_batches(rows), position


def write_planned_parts(
    folder: Path, parts: Iterable[tuple[pa.Table, int]], finished: Collection[int], batch_rows: int
) -> Iterator[Part]:
    """Yield the parts that are not finished, with the file that holds the rows of each.

    Args:
        folder: where the files are written.
        parts: the rows of each part, and the bytes of the input that were read by its end.
        finished: numbers of parts that are done.
        batch_rows: rows of a batch in a file, at most.
    """
    first = 0
    before = 0
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
