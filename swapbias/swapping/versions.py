"""What becomes of a batch of rows in each mode: replaced texts, or both versions of each row, and their counts."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.swapping import MODES, Swapped
from swapbias.swapping.parts import Totals
from swapbias.swapping.streams import CREDENTIALED

FILE_MODES = (*MODES, "augment", "pairs")
COUNTED = ("swapbias_replaced", "swapbias_ambiguous", "swapbias_specific")
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
    """

    schema: pa.Schema
    column: str
    mode: str
    groups: tuple[str, str]
    credentialed: bool


def layout_of(given: pa.Schema, *, column: str, mode: str, groups: tuple[str, str], credentialed: bool) -> Layout:
    """The input's columns, then three counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced``, ``swapbias_ambiguous`` and ``swapbias_specific`` count in the input's text: both versions
    of a row carry the same. ``credentialed`` is true in every row, or not added.

    Raises:
        UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {mode!r}: expected one of {', '.join(FILE_MODES)}.")
    added = [pa.field(name, pa.int32()) for name in COUNTED]
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
    return Layout(schema, column, mode, groups, credentialed)


def versions(batch: pa.RecordBatch, first: int, swapped: Swapped, layout: Layout) -> tuple[pa.Table, Totals]:
    """The output rows of a batch, and its counts.

    Args:
        batch: input rows.
        first: number of the first of them in the input, from 0.
        swapped: what the swap of its texts gave.
        layout: the output's columns.
    """
    table = pa.table(batch)
    for name, counts in zip(COUNTED, (swapped.replaced, swapped.ambiguous, swapped.specific), strict=True):
        table = table.append_column(name, pa.array(counts, pa.int32()))
    if layout.credentialed:
        if CREDENTIALED in table.column_names:
            table = table.drop_columns(CREDENTIALED)
        table = table.append_column(CREDENTIALED, pa.repeat(pa.scalar(True), len(table)))
    texts = swapped.texts.cast(layout.schema.field(layout.column).type)
    other = table.set_column(table.schema.get_field_index(layout.column), layout.column, texts)
    if layout.mode not in MODES:
        other = _both(table, other, first, swapped.sides, layout)
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
        text_bytes=int(text_lengths(batch, layout.column).sum()),
        terms=swapped.terms,
        doubtful=swapped.doubtful,
        specific_terms=swapped.specific_terms,
    )


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """UTF-8 bytes of each text, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(batch.column(column)), 0)
    found: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
