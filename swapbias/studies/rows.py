"""Rows of texts held by column: a million prompts in little more memory than their letters take."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, repeat
from typing import overload

Row = dict[str, str]
_BLOCK = 4_096  # rows that are made into dicts, or out of them, at once


class Rows(Sequence[Row]):
    """Rows, each held once, by column; whoever reads one gets a dict of its own, with its keys in their order.

    >>> rows = Rows({"text": text, "group": "a"} for text in ("one", "two"))
    >>> len(rows), rows[1], list(rows.column("text"))
    (2, {'text': 'two', 'group': 'a'}, ['one', 'two'])
    >>> rows.having(group="b")[:1][0]
    {'text': 'one', 'group': 'b'}
    """

    def __init__(self, rows: Iterable[Mapping[str, str]] = ()) -> None:
        """Read once, so that they may come from a generator."""
        some = iter(rows)
        self._hold([_held(block) for block in iter(lambda: list(islice(some, _BLOCK)), [])])

    @classmethod
    def _of(cls, blocks: Iterable["_Block"]) -> "Rows":
        made = cls()
        made._hold([one for one in blocks if one.count])
        return made

    def _hold(self, blocks: list["_Block"]) -> None:
        self._blocks = blocks
        self._ends = array("q")
        for block in blocks:
            self._ends.append(block.count + (self._ends[-1] if self._ends else 0))
        self._last: tuple[int, list[Row]] = (-1, [])  # the block that was read last, for whoever goes row by row

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __eq__(self, other: object) -> bool:
        """Whether the rows are the same, however they are held."""
        if not isinstance(other, Rows | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(block.rows() for block in self._blocks)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> "Rows": ...

    def __getitem__(self, place: int | slice) -> "Row | Rows":
        """A row, or some of them, which share what they hold with these."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return Rows(self[one] for one in range(start, stop, step))
            return self._of(self._cut(start, stop))
        at = range(len(self))[place]  # IndexError where there is none
        block = self._block_of(at)
        if self._last[0] != block:
            self._last = block, self._blocks[block].rows()
        return dict(self._last[1][at - self._start(block)])

    def _block_of(self, at: int) -> int:
        return bisect_right(self._ends, at)

    def _start(self, block: int) -> int:
        return self._ends[block - 1] if block else 0

    def _cut(self, start: int, stop: int) -> Iterator["_Block"]:
        for number in range(self._block_of(start), len(self._blocks)) if start < stop else ():
            before, block = self._start(number), self._blocks[number]
            if before >= stop:
                return
            yield block.cut(max(0, start - before), min(block.count, stop - before))

    def at(self, places: Sequence[int]) -> Iterator[Row]:
        """The rows of these places, which rise."""
        first = 0
        while first < len(places):
            number = self._block_of(places[first])
            before, end, last = self._start(number), self._ends[number], first
            while last < len(places) and places[last] < end:
                last += 1
            yield from self._blocks[number].some([place - before for place in places[first:last]])
            first = last

    def column(self, name: str, missing: str = "") -> Iterator[str]:
        """The values of a column, in the order of the rows; ``missing`` of rows that have none."""
        return chain.from_iterable(block.values(name, missing) for block in self._blocks)

    @property
    def shapes(self) -> "set[tuple[str, ...]]":
        """The keys of the rows, each order of them once."""
        return {shape for block in self._blocks for shape in block.shapes}

    def having(self, **values: str) -> "Rows":
        """The same rows with one value of these columns for all, sharing the rest with these."""
        return self._of(block.having(values) for block in self._blocks)


def column(rows: Sequence[Mapping[str, str]], name: str, missing: str = "") -> Iterator[str]:
    """The values of a column of any rows, those held by column without making dicts of them."""
    return rows.column(name, missing) if isinstance(rows, Rows) else (row.get(name, missing) for row in rows)


def having(rows: Sequence[Row], **values: str) -> Sequence[Row]:
    """Any rows with one value of these columns for all."""
    return rows.having(**values) if isinstance(rows, Rows) else [{**row, **values} for row in rows]


def only(rows: Sequence[Row], kept: Iterable[bool]) -> Sequence[Row]:
    """Those rows that are kept, held as these are."""
    if not isinstance(rows, Rows):
        return [row for row, keep in zip(rows, kept, strict=True) if keep]
    return Rows(rows.at(array("q", (place for place, keep in enumerate(kept) if keep))))


def joined(parts: Iterable[Sequence[Row]]) -> Sequence[Row]:
    """The rows of all parts in order; where a part is held by column, all are."""
    told = [part for part in parts if len(part)]
    if not any(isinstance(part, Rows) for part in told):
        return [row for part in told for row in part]
    held = (part if isinstance(part, Rows) else Rows(part) for part in told)
    return Rows._of(block for part in held for block in part._blocks)


@dataclass(frozen=True, slots=True)
class _Coded:
    """A column of few texts: each once, and of each row which of them it has."""

    words: tuple[str, ...]
    codes: "array[int]"

    def listed(self) -> list[str]:
        return [self.words[code] for code in self.codes]


@dataclass(frozen=True, slots=True)
class _Spelled:
    """A column of texts that differ: one after another as UTF-8, and the letter at which each ends."""

    letters: bytes
    ends: "array[int]"

    def listed(self) -> list[str]:
        text = self.letters.decode()
        return [text[start:end] for start, end in zip(chain((0,), self.ends), self.ends, strict=False)]


_Column = str | _Coded | _Spelled  # one text: that of all rows


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows by column, of which ``first`` to ``last`` (excluded) count.

    ``shapes`` are the keys of rows in their orders, ``shape_of`` which of them each row has (None: the only one).
    """

    first: int
    last: int
    columns: Mapping[str, _Column]
    shapes: tuple[tuple[str, ...], ...]
    shape_of: "array[int] | None" = None

    @property
    def count(self) -> int:
        return self.last - self.first

    def rows(self) -> list[Row]:
        return self.some(range(self.count))

    def some(self, places: Sequence[int]) -> list[Row]:
        lists = {name: self._listed(name) for name in self.columns}
        if self.shape_of is not None:
            told = ((place, self.shapes[self.shape_of[self.first + place]]) for place in places)
            return [{name: lists[name][place] for name in shape} for place, shape in told]
        if len(places) == self.count:
            return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
        return [{name: values[place] for name, values in lists.items()} for place in places]

    def values(self, name: str, missing: str) -> Iterable[str]:
        if name not in self.columns:
            return repeat(missing, self.count)
        if self.shape_of is None:
            return self._listed(name)
        has = (name in self.shapes[shape] for shape in self.shape_of[self.first : self.last])
        return (value if there else missing for value, there in zip(self._listed(name), has, strict=True))

    def _listed(self, name: str) -> Sequence[str]:
        held = self.columns[name]
        return [held] * self.count if isinstance(held, str) else held.listed()[self.first : self.last]

    def cut(self, start: int, stop: int) -> "_Block":
        return replace(self, first=self.first + start, last=self.first + stop)

    def having(self, values: Mapping[str, str]) -> "_Block":
        shapes = tuple((*one, *(name for name in values if name not in one)) for one in self.shapes)
        return replace(self, columns={**self.columns, **values}, shapes=shapes)


def _held(rows: Sequence[Mapping[str, str]]) -> _Block:
    shapes: dict[tuple[str, ...], int] = {}
    shape_of = array("H", (shapes.setdefault(tuple(row), len(shapes)) for row in rows))
    names = dict.fromkeys(name for shape in shapes for name in shape)
    columns = {name: _column([row.get(name, "") for row in rows]) for name in names}
    return _Block(0, len(rows), columns, tuple(shapes), shape_of if len(shapes) > 1 else None)


def _column(values: Sequence[str]) -> _Column:
    """Texts as they take the least room: those that many rows share are held once."""
    words: dict[str, int] = {}
    codes = array("H", (words.setdefault(value, len(words)) for value in values))
    if len(words) == 1:
        return values[0]
    if 2 * len(words) < len(values):
        return _Coded(tuple(words), codes)
    return _Spelled("".join(values).encode(), array("I", accumulate(map(len, values))))
