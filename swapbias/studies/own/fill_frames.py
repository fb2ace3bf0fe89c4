"""Take into a slot what both fills of a pair share and no template does: Smith of two Smiths, 王 of 王丽 and 王强."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swapbias.studies.own.text_pairs import FEWEST_FILLS, SLOT, Difference, Span, is_joined, is_word

# tokens of a frame and slots; longer texts are no templates of one slot
_LONGEST = 100
_MOST_SPANS = 4
# the most that fills share beside a difference, or between two: letters, or words
_LETTERS = 2
_WORDS = 1
Words = tuple[str, ...]
_Spans = tuple[Span, ...]


class Reduction(NamedTuple):
    """A pair whose slots from ``first`` to ``last`` are one, with shared tokens between, before and after them."""

    frame: Words
    """The frame without what was put into the slot."""
    spans: _Spans
    """The spans of the slots that remain."""
    narrow: _Spans
    """The spans of the slot before it was widened."""
    added: Words
    """Shared tokens that were put into the slot."""


def widened(differences: Sequence[Difference]) -> list[Difference]:
    """Find the template that most pairs have in common, and widen slots by what is not of it.

    Args:
        differences: where the texts of each pair differ.

    Returns:
        The same with wider slots, in order.
    """
    spans = {span for pair in differences for span in pair.spans}
    has_joined = any(is_joined(side[0]) for span in spans for side in span if side)
    if len(spans) < FEWEST_FILLS and not has_joined:
        return list(differences)  # he and she in every text
    options = [list(_reductions(pair)) for pair in differences]
    evidence = _Evidence()
    for reductions in options:
        evidence.add(reductions)
    chosen = [evidence.most_common(reductions) for reductions in options]
    return [Difference(reduction.frame, reduction.spans) for reduction in chosen]


class _Evidence:
    """The templates of all pairs, and what stands beside slots in them."""

    def __init__(self) -> None:
        # of each frame the number of pairs that it may be of
        self.sizes: Counter[Words] = Counter()
        self._fills: dict[Words, set[_Spans]] = defaultdict(set)  # by frame
        # by frame and what was added
        self._fills_with: dict[tuple[Words, Words], set[_Spans]] = defaultdict(set)
        # by fill and what was added
        self._frames_of: dict[tuple[_Spans, Words], set[Words]] = defaultdict(set)
        self._added: dict[Words, set[Words]] = defaultdict(set)  # by frame
        # of fills of several words, by frame
        self._first_words: dict[Words, set[str]] = defaultdict(set)
        self._written: set[Words] = set()  # fills as they differ in some pair

    def add(self, reductions: Sequence[Reduction]) -> None:
        """Count a pair, which comes first as it is."""
        as_it_is = reductions[0]
        sides = {side for span in as_it_is.spans for side in span}
        self._written |= sides
        self._first_words[as_it_is.frame] |= {side[0] for side in sides if len(side) > 1}
        self.sizes.update({reduction.frame for reduction in reductions})
        for reduction in reductions:
            self._fills[reduction.frame].add(reduction.narrow)
            self._fills_with[reduction.frame, reduction.added].add(reduction.narrow)
            self._frames_of[reduction.narrow, reduction.added].add(reduction.frame)
            self._added[reduction.frame].add(reduction.added)

    def most_common(self, reductions: Sequence[Reduction]) -> Reduction:
        """Choose the reduction of a pair whose frame most pairs may have; of these the one that adds least."""
        possible = [reduction for reduction in reductions if self.is_of_fill(reduction)]
        return max(
            possible, key=lambda reduction: (self.sizes[reduction.frame], -len(reduction.added))
        )

    def is_of_fill(self, reduction: Reduction) -> bool:
        """Tell whether what was added goes with few fills of its template, and with this one elsewhere too."""
        frame = reduction.frame
        added = reduction.added
        if not added:
            return True
        if len(added) == 1 and added[0] in self._first_words[frame]:  # an actress, a nurse
            return True
        count = len(self._fills[frame])
        count_with_added = len(self._fills_with[frame, added])
        # 女医生, 女教师
        is_same_fill = count == 1 and is_joined(added[0]) and len(self._added[frame]) > 1
        if 2 * count_with_added > count and not is_same_fill:
            return False
        sides = [side for span in reduction.spans for side in span if len(side) > 1]
        is_written = any(side in self._written for side in sides)
        return is_written or len(self._frames_of[reduction.narrow, added]) > 1


def _reductions(pair: Difference) -> Iterator[Reduction]:
    """Give the pair as it is, and with wider slots."""
    yield Reduction(pair.frame, pair.spans, pair.spans, ())
    if len(pair.frame) > _LONGEST or len(pair.spans) > _MOST_SPANS:
        return
    indices = [index for index, token in enumerate(pair.frame) if token == SLOT]
    for first, start in enumerate(indices):
        for last in range(first, len(indices)):
            end = indices[last] + 1
            between = pair.frame[start + 1 : end - 1]
            if not _may_be_of_fill(tuple(token for token in between if token != SLOT)):
                break
            for region in _regions(pair.frame, start, end, is_one_slot=first == last):
                yield _widen(pair, (first, last), region)


def _regions(frame: Words, start: int, end: int, *, is_one_slot: bool) -> Iterator[tuple[int, int]]:
    """Find the parts of a frame that may be one slot: from one to another, with tokens beside them."""
    for before in range(_reach(frame[:start][::-1]) + 1):
        for after in range(_reach(frame[end:]) + 1):
            is_as_it_is = is_one_slot and not before and not after
            is_whole_word = before and after and not is_joined(frame[end])
            if not is_as_it_is and not is_whole_word:
                yield start - before, end + after


def _may_be_of_fill(tokens: Words) -> bool:
    """Tell whether tokens between two slots may belong to the fill."""
    return len(tokens) <= _LETTERS and all(map(is_joined, tokens))


def _reach(tokens: Sequence[str]) -> int:
    """Count the tokens beside a slot that may belong to its fill."""
    if not tokens or not is_word(tokens[0]):
        return 0
    if not is_joined(tokens[0]):
        return _WORDS
    return _LETTERS if len(tokens) > 1 and is_joined(tokens[1]) else 1


def _widen(pair: Difference, slots: tuple[int, int], region: tuple[int, int]) -> Reduction:
    """Make one slot of a region of the frame, from the first to the last of some slots."""
    first, last = slots
    start, end = region
    inside = pair.frame[start:end]
    narrow = pair.spans[first : last + 1]
    span = (_fill_side(inside, narrow, 0), _fill_side(inside, narrow, 1))
    return Reduction(
        frame=(*pair.frame[:start], SLOT, *pair.frame[end:]),
        spans=(*pair.spans[:first], span, *pair.spans[last + 1 :]),
        narrow=narrow,
        added=tuple(token for token in inside if token != SLOT),
    )


def _fill_side(tokens: Words, spans: _Spans, side: int) -> Words:
    """Put the tokens of one side into the slots of a part of a frame."""
    filled: list[str] = []
    following = iter(spans)
    for token in tokens:
        if token == SLOT:
            filled += next(following)[side]
        else:
            filled.append(token)
    return tuple(filled)
