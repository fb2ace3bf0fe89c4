"""Rows of swapped files: what is swapped and how, their columns, both versions of a row, and what is counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.swapping.readers import CREDENTIALED
from swapbias.swapping.referents import REASONS
from swapbias.swapping.resolvers import Resolver
from swapbias.swapping.swapper import MODES, Swapped
from swapbias.swapping.table import gender_columns, other_gender

FILE_MODES = (*MODES, "augment", "pairs")
COUNTED = ("swapbias_replaced", "swapbias_specific")
DOUBT = "swapbias_doubt"  # with whose="patient", as the next ones
OF_PATIENT = (*(f"swapbias_left_{reason}" for reason in REASONS), "swapbias_doubtful_words")
_VERSION, _PAIR_ID, _GROUP, _NOTE_ID = "swapbias_version", "pair_id", "group", "note_id"


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


@dataclass(frozen=True, slots=True)
class Totals:
    """What was counted, over a batch, a part or a whole job; they add up. Rows are of the input, if not said."""

    rows_read: int = 0
    rows_written: int = 0  # of the output
    rows_replaced: int = 0  # with at least one replacement
    rows_specific: int = 0  # with a gender-specific clinical term
    rows_left_out: int = 0  # without a replacement, which make no pair (mode ``pairs`` only)
    rows_implausible: int = 0  # left out for such a term (``plausible``); of ``augment`` the swapped version alone
    rows_doubtful: int = 0  # left out in the same way for more doubt than ``max_doubt``
    rows_unread: int = 0  # of which no answer of the resolver can be read: the rules decided
    text_bytes: int = 0  # UTF-8 bytes of the input texts
    terms: Counter[str] = field(default_factory=Counter)  # replacement -> times
    specific_terms: Counter[str] = field(default_factory=Counter)  # gender-specific clinical term -> times
    left: Counter[str] = field(default_factory=Counter)  # why a gendered word is not the patient's and stays -> times

    def __add__(self, other: "Totals") -> "Totals":
        """Counts of both."""
        return Totals(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Totals)})

    def counts(self) -> dict[str, int | dict[str, int]]:
        """By name, for JSON; terms by falling count."""
        # asdict would break a Counter: it makes one out of its pairs
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: dict(by_count(value)) if isinstance(value, Counter) else value for name, value in values.items()
        }

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> "Totals":
        """From ``counts``, by way of JSON."""
        values: dict[str, Any] = {k: Counter(v) if isinstance(v, dict) else v for k, v in counts.items()}
        return cls(**values)

    def by_kind(self) -> dict[str, Counter[str]]:
        """The counters by their names in ``report.csv``."""
        return {"replaced": self.terms, "specific": self.specific_terms, "left": self.left}


def schema_of(given: pa.Schema, job: Job) -> pa.Schema:
    """The input's columns, then counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced`` and ``swapbias_specific``, and for ``whose="patient"`` the words that stay by reason
    (``swapbias_left_relative``, ...) and doubtful words, count in the input's text: both versions of a row carry the
    same, as they do ``swapbias_doubt``. ``credentialed`` is true in every row, or not added.
    UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if job.mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {job.mode!r}: expected one of {', '.join(FILE_MODES)}.")
    patient = job.whose == "patient"
    more = (() if job.mode in MODES else (_VERSION,)) + ((_PAIR_ID, _GROUP) if job.mode == "pairs" else ())
    added = [pa.field(name, pa.int32()) for name in (*COUNTED, *OF_PATIENT * patient)]
    added += [pa.field(DOUBT, pa.float64())] * patient + [pa.field(name, pa.string()) for name in more]
    there = next((one.name for one in added if one.name in given.names), None)
    if there is not None:
        raise UsageError(f"The input has a column {there!r}, which mode {job.mode} adds. Rename or drop it.")
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
    schema, rows, replaced = schema_of(batch.schema, job), len(batch), swapped.replaced > 0
    numbers = (swapped.replaced, swapped.specific, *swapped.left.T, swapped.doubtful_words, swapped.doubt)
    table = pa.table(batch)
    if job.credentialed:
        table = table.drop_columns([CREDENTIALED] * (CREDENTIALED in table.column_names))
        table = table.append_column(CREDENTIALED, pa.repeat(pa.scalar(True), rows))
    for name, values in zip((*COUNTED, *OF_PATIENT, DOUBT), numbers, strict=True):
        if name in schema.names and name not in table.column_names:
            table = table.append_column(name, pa.array(values))
    other = _with_column(table, job.column, swapped.texts.cast(schema.field(job.column).type))
    if job.mode != "neutralise" and set(groups) == {"male", "female"}:
        texts = (
            one.name for one in batch.schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)
        )
        for name in gender_columns(texts):
            changed = zip(table.column(name).to_pylist(), replaced.tolist(), strict=True)
            values = [other_gender(one) if times else one for one, times in changed]
            other = _with_column(other, name, pa.array(values, table.schema.field(name).type))
    wanted = replaced | (job.mode != "pairs")
    implausible = wanted & (swapped.specific > 0) & job.plausible
    doubtful = wanted & (swapped.doubt > job.max_doubt)
    keep = wanted & ~implausible & ~doubtful
    if job.mode in MODES:
        other = other.filter(pa.array(keep))
    else:  # each row followed by its swapped version
        order = np.arange(2 * rows).reshape(2, rows).T[np.stack([keep | (job.mode == "augment"), keep], axis=1)]
        other = _both(table, other, first, swapped.sides, groups, job.mode).take(pa.array(order))
    totals = Totals(
        rows_read=rows,
        rows_written=len(other),
        rows_replaced=int(replaced.sum()),
        rows_specific=int(np.count_nonzero(swapped.specific)),
        rows_left_out=int((~wanted).sum()),
        rows_implausible=int(implausible.sum()),
        rows_doubtful=int(doubtful.sum()),
        rows_unread=int(swapped.unread.sum()),
        text_bytes=int(text_lengths(batch, job.column).sum()),
        terms=swapped.terms,
        specific_terms=swapped.specific_terms,
        left=Counter({name: int(count) for name, count in zip(REASONS, swapped.left.sum(0), strict=True) if count}),
    )
    return other.select(schema.names).cast(schema), totals


def _with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _both(
    original: pa.Table, swapped: pa.Table, first: int, sides: NDArray[np.int8], groups: tuple[str, str], mode: str
) -> pa.Table:
    """The rows as they are, then the swapped ones, with the columns that the mode adds."""
    rows = len(original)
    named = [
        table.append_column(_VERSION, pa.repeat(pa.scalar(name), rows))
        for table, name in ((original, "original"), (swapped, "swapped"))
    ]
    if mode == "pairs":
        ids = pa.array(range(first, first + rows), pa.int64()).cast(pa.string())
        if _NOTE_ID in original.column_names:  # the note's own id, else the row's number
            ids = pc.coalesce(original.column(_NOTE_ID).cast(pa.string()), ids)
        of_side = pa.array([groups[0], "", groups[1]], pa.string())  # blank for a tie of both sides
        named = [
            table.append_column(_PAIR_ID, ids).append_column(_GROUP, of_side.take(pa.array(own.astype(np.int64) + 1)))
            for table, own in zip(named, (sides, -sides), strict=True)
        ]
    return pa.concat_tables(named).combine_chunks()


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """UTF-8 bytes of each text, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(batch.column(column)), 0)
    found: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Names by falling count."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
