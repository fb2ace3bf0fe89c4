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
    """Without what was taken into the slot."""
    spans: _Spans
    rest: _Spans
    """The spans before it was widened."""
    taken: Words
    """Shared tokens that were taken into the slot."""


def widened(differences: Sequence[Difference]) -> list[Difference]:
    """Find the template that most pairs have in common, and widen slots by what is not of it."""
    spans = {span for pair in differences for span in pair.spans}
    if len(spans) < FEWEST_FILLS and not any(
        is_joined(side[0]) for span in spans for side in span if side
    ):
        return list(differences)  # he and she in every text
    options = [list(_reductions(one)) for one in differences]
    evidence = _Evidence()
    for reductions in options:
        evidence.add(reductions)
    chosen = (
        max(
            filter(evidence.is_of_fill, reductions),
            key=lambda one: (evidence.sizes[one.frame], -len(one.taken)),
        )
        for reductions in options
    )
    return [Difference(reduction.frame, reduction.spans) for reduction in chosen]


class _Evidence:
    """What all pairs say of templates and of what stands beside a slot."""

    def __init__(self) -> None:
        self.sizes: Counter[Words] = (
            Counter()
        )  # of each frame the number of pairs that it may be of
        self._fills: dict[Words, set[_Spans]] = defaultdict(set)  # by frame
        self._fills_with: dict[tuple[Words, Words], set[_Spans]] = defaultdict(
            set
        )  # by frame and what was taken
        self._frames_of: dict[tuple[_Spans, Words], set[Words]] = defaultdict(
            set
        )  # by fill and what was taken
        self._taken: dict[Words, set[Words]] = defaultdict(set)  # by frame
        self._first_words: dict[Words, set[str]] = defaultdict(
            set
        )  # of fills of several words, by frame
        self._written: set[Words] = set()  # fills as they differ in some pair

    def add(self, reductions: Sequence[Reduction]) -> None:
        """Count a pair, which comes first as it is."""
        as_it_is = reductions[0]
        sides = {side for span in as_it_is.spans for side in span}
        self._written |= sides
        self._first_words[as_it_is.frame] |= {side[0] for side in sides if len(side) > 1}
        self.sizes.update({reduction.frame for reduction in reductions})
        for reduction in reductions:
            self._fills[reduction.frame].add(reduction.rest)
            self._fills_with[reduction.frame, reduction.taken].add(reduction.rest)
            self._frames_of[reduction.rest, reduction.taken].add(reduction.frame)
            self._taken[reduction.frame].add(reduction.taken)

    def is_of_fill(self, reduction: Reduction) -> bool:
        """Whether what was taken goes with few fills of its template, and with this one elsewhere too."""
        frame = reduction.frame
        taken = reduction.taken
        if not taken or (
            taken[0] in self._first_words[frame] and len(taken) == 1
        ):  # an actress, a nurse
            return True
        fills = len(self._fills[frame])
        with_taken = len(self._fills_with[frame, taken])
        same_fill = (
            fills == 1 and is_joined(taken[0]) and len(self._taken[frame]) > 1
        )  # 女医生, 女教师
        if 2 * with_taken > fills and not same_fill:
            return False
        is_written = any(
            side in self._written for span in reduction.spans for side in span if len(side) > 1
        )
        return is_written or len(self._frames_of[reduction.rest, taken]) > 1


def _reductions(pair: Difference) -> Iterator[Reduction]:
    """The pair as it is, and with wider slots."""
    yield Reduction(pair.frame, pair.spans, pair.spans, ())
    if len(pair.frame) > _LONGEST or len(pair.spans) > _MOST_SPANS:
        return
    places = [place for place, token in enumerate(pair.frame) if token == SLOT]
    for first, start in enumerate(places):
        for last in range(first, len(places)):
            end = places[last] + 1
            between = pair.frame[start + 1 : end - 1]
            if not _may_be_of_fill(tuple(token for token in between if token != SLOT)):
                break
            for before in range(_reach(pair.frame[:start][::-1]) + 1):
                for after in range(_reach(pair.frame[end:]) + 1):
                    is_whole_word = before and after and not is_joined(pair.frame[end])
                    if (last > first or before or after) and not is_whole_word:
                        yield _widened(pair, (first, last), (start - before, end + after))


def _may_be_of_fill(tokens: Words) -> bool:
    return len(tokens) <= _LETTERS and all(map(is_joined, tokens))


def _reach(tokens: Sequence[str]) -> int:
    """The number of tokens beside a slot that may belong to its fill."""
    if not tokens or not is_word(tokens[0]):
        return 0
    if not is_joined(tokens[0]):
        return _WORDS
    return _LETTERS if len(tokens) > 1 and is_joined(tokens[1]) else 1


def _widened(pair: Difference, slots: tuple[int, int], region: tuple[int, int]) -> Reduction:
    first, last = slots
    start, end = region
    sides: list[Words] = []
    for side in (0, 1):
        spans = iter(pair.spans[first : last + 1])
        tokens = [
            next(spans)[side] if token == SLOT else (token,) for token in pair.frame[start:end]
        ]
        sides.append(tuple(part for parts in tokens for part in parts))
    taken = tuple(token for token in pair.frame[start:end] if token != SLOT)
    return Reduction(
        (*pair.frame[:start], SLOT, *pair.frame[end:]),
        (*pair.spans[:first], (sides[0], sides[1]), *pair.spans[last + 1 :]),
        pair.spans[first : last + 1],
        taken,
    )
