"""Rows of swapped files: their columns, both versions of a row, and what is counted of them."""

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
from swapbias.swapping.swapper import MODES, Swapped
from swapbias.swapping.table import gender_columns, other_gender

FILE_MODES = (*MODES, "augment", "pairs")
COUNTED = ("swapbias_replaced", "swapbias_specific")
DOUBT = "swapbias_doubt"  # with whose="patient", as the next ones
OF_PATIENT = (*(f"swapbias_left_{reason}" for reason in REASONS), "swapbias_doubtful_words")
_VERSION, _PAIR_ID, _GROUP, _NOTE_ID = "swapbias_version", "pair_id", "group", "note_id"


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of the output."""

    schema: pa.Schema
    column: str  # of texts
    mode: str  # one of ``FILE_MODES``
    groups: tuple[str, str]  # of the swap table; the second is the one of side +1
    credentialed: bool  # every row is marked as such
    counted: tuple[str, ...] = COUNTED
    plausible: bool = False  # rows with gender-specific clinical terms are left out
    max_doubt: float = 1.0  # rows of more doubt are left out
    genders: tuple[str, ...] = ()  # columns of the patient's gender, which become that of the swapped text


def layout_of(
    given: pa.Schema,
    *,
    column: str,
    mode: str,
    groups: tuple[str, str],
    credentialed: bool,
    whose: str = "everyone",
    plausible: bool = False,
    max_doubt: float = 1.0,
) -> Layout:
    """The input's columns, then counts per input row, then what the mode adds, then ``credentialed``.

    ``swapbias_replaced`` and ``swapbias_specific``, and for ``whose="patient"`` the words
    that stay by reason (``swapbias_left_relative``, ...) and doubtful words, count in the input's text: both versions
    of a row carry the same, as they do ``swapbias_doubt``. ``credentialed`` is true in every row, or not added.
    UsageError: an unknown mode, or an input that has a column which would be added.
    """
    if mode not in FILE_MODES:
        raise UsageError(f"Unknown mode {mode!r}: expected one of {', '.join(FILE_MODES)}.")
    counted, doubt = (COUNTED, ()) if whose == "everyone" else ((*COUNTED, *OF_PATIENT), (DOUBT,))
    more = (() if mode in MODES else (_VERSION,)) + ((_PAIR_ID, _GROUP) if mode == "pairs" else ())
    there = next((name for name in (*counted, *doubt, *more) if name in given.names), None)
    if there is not None:
        raise UsageError(f"The input has a column {there!r}, which mode {mode} adds. Rename or drop it.")
    columns = [one for one in given if not (credentialed and one.name == CREDENTIALED)]
    columns += [pa.field(name, pa.int32()) for name in counted] + [pa.field(name, pa.float64()) for name in doubt]
    columns += [pa.field(name, pa.string()) for name in more]
    columns += [pa.field(CREDENTIALED, pa.bool_())] if credentialed else []
    genders: list[str] = []
    if mode != "neutralise" and set(groups) == {"male", "female"}:
        texts = (one.name for one in given if pa.types.is_string(one.type) or pa.types.is_large_string(one.type))
        genders = gender_columns(texts)
    kept = plausible, max_doubt
    return Layout(pa.schema(columns), column, mode, groups, credentialed, counted, *kept, tuple(genders))


def versions(batch: pa.RecordBatch, first: int, swapped: Swapped, layout: Layout) -> tuple[pa.Table, Totals]:
    """The output rows of a batch, and its counts; ``first`` is the number of its first row in the input, from 0."""
    table = pa.table(batch)
    kinds = swapped.replaced, swapped.specific, *swapped.left.T, swapped.doubtful_words
    for name, counts in zip(layout.counted, kinds, strict=False):
        table = table.append_column(name, pa.array(counts, pa.int32()))
    if DOUBT in layout.schema.names:
        table = table.append_column(DOUBT, pa.array(swapped.doubt))
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
    if layout.plausible or layout.max_doubt < 1:
        keep = pc.less_equal(other.column(DOUBT), layout.max_doubt) if layout.max_doubt < 1 else pa.scalar(True)
        keep = pc.and_(keep, pc.equal(other.column(COUNTED[1]), 0)) if layout.plausible else keep
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
        ids = pa.array(range(first, first + rows), pa.int64()).cast(pa.string())
        if _NOTE_ID in original.column_names:  # the note's own id, else the row's number
            ids = pc.coalesce(original.column(_NOTE_ID).cast(pa.string()), ids)
        groups = pa.array([layout.groups[0], "", layout.groups[1]], pa.string())  # blank for a tie of both sides
        named = [
            table.append_column(_PAIR_ID, ids).append_column(_GROUP, groups.take(pa.array(own.astype(np.int64) + 1)))
            for table, own in zip(named, (sides, -sides), strict=True)
        ]
    both = pa.concat_tables(named).combine_chunks()
    order = np.arange(2 * rows).reshape(2, rows).T.ravel()  # 0, n, 1, n + 1, ...
    both = both.take(pa.array(order))
    return both.filter(pc.greater(both.column(COUNTED[0]), 0)) if layout.mode == "pairs" else both


def _counted(batch: pa.RecordBatch, swapped: Swapped, written: int, layout: Layout) -> Totals:
    replaced = int(np.count_nonzero(swapped.replaced))
    # Left out for a gender-specific term or doubt alone: a row without a replacement makes no pair anyway.
    written_else = (swapped.replaced > 0) | (layout.mode != "pairs")
    implausible, doubtful = written_else & (swapped.specific > 0), written_else & (swapped.doubt > layout.max_doubt)
    return Totals(
        rows_read=len(batch),
        rows_written=written,
        rows_replaced=replaced,
        rows_specific=int(np.count_nonzero(swapped.specific)),
        rows_left_out=len(batch) - replaced if layout.mode == "pairs" else 0,
        rows_implausible=int(np.count_nonzero(implausible)) if layout.plausible else 0,
        rows_doubtful=int(np.count_nonzero(doubtful)),
        rows_unread=int(np.count_nonzero(swapped.unread)),
        text_bytes=int(text_lengths(batch, layout.column).sum()),
        terms=swapped.terms,
        specific_terms=swapped.specific_terms,
        left=Counter({name: int(count) for name, count in zip(REASONS, swapped.left.sum(0), strict=True) if count}),
    )


def text_lengths(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """UTF-8 bytes of each text, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(batch.column(column)), 0)
    found: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Names by falling count."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))
