"""Rows of the output of a swap: both versions of a row, and what is counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapbias.errors import UsageError, listed
from swapbias.swapping.changes import CHANGE
from swapbias.swapping.gender_columns import gender_names, is_gender_answer, swapped_genders
from swapbias.swapping.label_spans import moved_labels
from swapbias.swapping.readers import CREDENTIALED
from swapbias.swapping.referents.words import REASONS
from swapbias.swapping.swap_job import FILE_MODES, Job
from swapbias.swapping.swapper import MODES, Swapped

COUNTED = ("swapbias_replaced", "swapbias_specific")
"""Columns of counts."""
SPANS = "swapbias_spans"
"""Column of what was changed, by the characters of the input's text."""
SPAN_FIELDS = tuple(f"{SPANS}.list.element.{field.name}" for field in CHANGE)
"""Its columns in Parquet."""
COUNTED_OF_PATIENT = (*(f"swapbias_left_{reason}" for reason in REASONS), "swapbias_doubtful_words")
"""Columns of counts with ``whose="patient"``."""
DOUBT = "swapbias_doubt"
"""Column of the doubt with ``whose="patient"``."""
_VERSION = "swapbias_version"
_PAIR_ID = "pair_id"
_GROUP = "group"
_NOTE_ID = "note_id"


@dataclass(frozen=True)
class Totals:
    """Counts over a batch, a part or a whole job; they add up. Rows are of the input, if not said."""

    rows_read: int = 0
    """All rows."""
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
    genders_left: Counter[str] = field(default_factory=Counter)
    """Column of genders -> cells in swapped rows that name neither male nor female and stay."""
    left: Counter[str] = field(default_factory=Counter)
    """Why a gendered word is not the patient's and stays -> times."""

    def __add__(self, other: "Totals") -> "Totals":
        """Add the counts of both."""
        return Totals(*map(add, vars(self).values(), vars(other).values()))

    def counts(self) -> dict[str, int | dict[str, int]]:
        """Return the counts by name, for JSON; terms by falling count."""
        return {
            name: dict(by_count(value)) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> "Totals":
        """Read ``counts``, by way of JSON.

        Args:
            counts: counts by name.
        """
        values: dict[str, Any] = {
            name: Counter(value) if isinstance(value, dict) else value
            for name, value in counts.items()
        }
        return cls(**values)

    def by_kind(self) -> dict[str, Counter[str]]:
        """Return the counters by their names in ``report.csv``."""
        return {"replaced": self.terms, "specific": self.specific_terms, "left": self.left}


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return names and counts by falling count.

    Args:
        counts: counts by name.
    """
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def schema_of(input_schema: pa.Schema, job: Job) -> pa.Schema:
    """Return the input's columns, then counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced``, ``swapbias_specific`` and ``swapbias_spans``, and for ``whose="patient"`` the words that
    stay by reason (``swapbias_left_relative``, ...) and doubtful words, count in the input's text: both versions of a
    row carry the same, as they do ``swapbias_doubt``. ``credentialed`` is true in every row, or not added.

    Args:
        input_schema: the schema of the rows that are read.
        job: what and how.

    Raises:
        UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if job.mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {job.mode!r}: expected one of {listed(FILE_MODES)}.")
    added = _added_columns(job)
    present = next((column.name for column in added if column.name in input_schema.names), None)
    if present is not None:
        raise UsageError(
            f"The input has a column {present!r}, which mode {job.mode} adds. Rename or drop it."
        )
    if not job.credentialed:
        return pa.schema([*input_schema, *added])
    columns = [column for column in input_schema if column.name != CREDENTIALED]
    return pa.schema([*columns, *added, pa.field(CREDENTIALED, pa.bool_())])


def _added_columns(job: Job) -> list[pa.Field]:
    """Return the columns that a job adds, without ``credentialed``."""
    added = [pa.field(name, pa.int32()) for name in COUNTED]
    added.append(pa.field(SPANS, pa.list_(CHANGE)))
    if job.whose == "patient":
        added += [pa.field(name, pa.int32()) for name in COUNTED_OF_PATIENT]
        added.append(pa.field(DOUBT, pa.float64()))
    if job.mode not in MODES:
        added.append(pa.field(_VERSION, pa.string()))
    if job.mode == "pairs":
        added.append(pa.field(_PAIR_ID, pa.string()))
        added.append(pa.field(_GROUP, pa.string()))
    return added


def versions(
    batch: pa.RecordBatch, first: int, swapped: Swapped, job: Job, groups: tuple[str, str]
) -> tuple[pa.Table, Totals]:
    """Return the output rows of a batch, and its counts.

    Args:
        batch: rows of the input.
        first: the number of its first row in the input, from 0.
        swapped: their texts.
        job: what and how.
        groups: the groups of the swap table; the second is the one of side +1.
    """
    schema = schema_of(batch.schema, job)
    original = _original_columns(batch, swapped, job)
    changed = original | {job.column: swapped.texts}
    genders_left = Counter[str]()
    is_replaced = swapped.replaced > 0
    if job.mode != "neutralise" and set(groups) == {"male", "female"}:
        others, genders_left = _other_genders(batch, is_replaced, job)
        changed |= others
    if job.spans:
        changed[job.spans] = moved_labels(
            batch.column(job.spans),
            first,
            batch.column(job.column),
            swapped.texts,
            original[SPANS],
        )
    wanted = is_replaced if job.mode == "pairs" else np.ones(len(batch), dtype=bool)
    is_doubtful = wanted & (swapped.doubt > job.max_doubt)
    is_implausible = np.zeros(len(batch), dtype=bool)
    if job.plausible:
        is_implausible = wanted & (swapped.specific > 0)
    kept = wanted & ~is_implausible & ~is_doubtful
    if job.mode in MODES:
        table = _in_columns(changed, schema).filter(pa.array(kept))
    else:
        pair_columns = _pair_columns(original, first, swapped, groups)
        originals = _in_columns(original | pair_columns["original"], schema)
        others = _in_columns(changed | pair_columns["swapped"], schema)
        keeps_originals = np.ones(len(batch), dtype=bool) if job.mode == "augment" else kept
        table = _interleave(originals, others, keeps_originals, kept)
    left = swapped.left.sum(0).tolist()
    totals = Totals(
        rows_read=len(batch),
        rows_written=len(table),
        rows_replaced=int(is_replaced.sum()),
        rows_specific=int(np.count_nonzero(swapped.specific)),
        rows_left_out=int((~wanted).sum()),
        rows_implausible=int(is_implausible.sum()),
        rows_doubtful=int(is_doubtful.sum()),
        rows_unread=int(swapped.unread.sum()),
        text_bytes=int(text_lengths(batch, job.column).sum()),
        terms=swapped.terms,
        specific_terms=swapped.specific_terms,
        genders_left=genders_left,
        left=Counter({name: count for name, count in zip(REASONS, left, strict=True) if count}),
    )
    return table, totals


def _original_columns(batch: pa.RecordBatch, swapped: Swapped, job: Job) -> dict[str, Any]:
    """Return by name the columns of a batch, and those of counts."""
    numbers = (
        swapped.replaced,
        swapped.specific,
        *swapped.left.T,
        swapped.doubtful_words,
        swapped.doubt,
    )
    names = (*COUNTED, *COUNTED_OF_PATIENT, DOUBT)
    columns: dict[str, Any] = {
        name: pa.array(values) for name, values in zip(names, numbers, strict=True)
    }
    columns[SPANS] = swapped.spans
    columns |= dict(zip(batch.schema.names, batch.columns, strict=True))
    if job.credentialed:
        columns[CREDENTIALED] = pa.repeat(True, len(batch))
    return columns


def _other_genders(
    batch: pa.RecordBatch, is_replaced: NDArray[np.bool_], job: Job
) -> tuple[dict[str, pa.Array], Counter[str]]:
    """Return by name the columns of genders with the other one in each row that was swapped.

    The counts are of cells in such rows that stay, because nothing says which gender they are.
    """
    columns = {}
    left = Counter[str]()
    for name in gender_names(batch.schema):
        column = batch.column(name)
        old = column.to_pylist()
        new = swapped_genders(name, old, job.classes)
        rows = list(zip(is_replaced.tolist(), old, new, strict=True))
        cells = [other if replaced else cell for replaced, cell, other in rows]
        columns[name] = pa.array(cells, column.type)
        if not is_gender_answer(name):
            left[name] = sum(
                replaced and cell == other and cell not in (None, "")
                for replaced, cell, other in rows
            )
    return columns, +left


def _pair_columns(
    original: Mapping[str, Any], first: int, swapped: Swapped, groups: tuple[str, str]
) -> dict[str, dict[str, Any]]:
    """Return by version the columns that say which version of which row a row is."""
    rows = len(swapped.sides)
    ids = pa.array(np.arange(first, first + rows)).cast(pa.string())
    if _NOTE_ID in original:  # the note's own id, else the row's number
        ids = pc.coalesce(original[_NOTE_ID].cast(pa.string()), ids)
    # By side + 1; empty for a tie of both sides.
    group_of_side = pa.array([groups[0], "", groups[1]], pa.string())
    sides = {"original": swapped.sides, "swapped": -swapped.sides}
    return {
        version: {
            _VERSION: pa.repeat(version, rows),
            _PAIR_ID: ids,
            _GROUP: group_of_side.take(pa.array(1 + side)),
        }
        for version, side in sides.items()
    }


def _interleave(
    originals: pa.Table,
    others: pa.Table,
    keeps_originals: NDArray[np.bool_],
    keeps_others: NDArray[np.bool_],
) -> pa.Table:
    """Return each row followed by its swapped version, as far as they are kept."""
    rows = len(originals)
    numbers = np.arange(2 * rows).reshape(2, rows).T
    order = numbers[np.stack([keeps_originals, keeps_others], axis=1)]
    return pa.concat_tables([originals, others]).combine_chunks().take(pa.array(order))


def _in_columns(values: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema in its order and types."""
    return pa.table({name: values[name] for name in schema.names}).cast(schema)


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """Return the UTF-8 bytes of each text, 0 for null, (n,).

    Args:
        batch: rows.
        column: the column of texts.
    """
    return np.asarray(pc.fill_null(pc.binary_length(batch.column(column)), 0), dtype=np.int64)
