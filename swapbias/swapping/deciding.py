"""What each found term becomes: its case, its context, its neutral word, and which decisions were doubtful."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.doubtful import ALWAYS, JUDGES, Judged
from swapbias.swapping.matching import Ints, Matches
from swapbias.swapping.resolving import DOUBTFUL, NEAR, WINDOW, Resolver, is_pronoun
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, UNITS, SwapTable, Term

LOWER, CAPITAL, UPPER = 0, 1, 2
_TITLES = frozenset({"mr", "ms", "mrs", "miss"})


@dataclass(frozen=True, slots=True)
class Decided:
    """Replacements in order: byte offsets, the new bytes, row and side of each; and rows of doubtful decisions."""

    start: Ints
    end: Ints
    replacements: list[bytes]
    rows: Ints
    sides: Ints
    terms: Counter[str]
    doubtful: Counter[str]
    doubtful_rows: Ints


@dataclass(frozen=True, slots=True)
class _Seen:
    """A term that is looked at in its context."""

    place: int
    term: Term
    written: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    swap: bool
    choice: int = 0
    doubt: str = ""


class Decider:
    """Decides for one table and one mode (``swap`` or ``neutralise``)."""

    def __init__(self, table: SwapTable, resolver: Resolver, mode: str) -> None:
        """Prepare what each term becomes in each case."""
        self._resolver, self._swaps, self._context = resolver, mode == "swap", table.context
        self._terms = list(table.terms.values())
        self._sides = np.array([2 * term.side - 1 for term in self._terms])
        self._looked_at = np.array(
            [_is_phrase(term) or (table.context and term.text in ALWAYS) for term in self._terms]
        )
        self._he, self._of = (self._number(text) if table.context else -1 for text in ("he", "of"))
        most = max(len(term.others) for term in self._terms)
        self._words = np.empty((len(self._terms), most, 3), dtype=object)
        for number, term in enumerate(self._terms):
            for choice, target in enumerate(self._targets(term)):
                for case in (LOWER, CAPITAL, UPPER):
                    self._words[number, choice, case] = in_case(target, case).encode()

    def _number(self, text: str) -> int:
        return next((number for number, term in enumerate(self._terms) if term.text == text), -1)

    def _targets(self, term: Term) -> tuple[str, ...]:
        return term.others if self._swaps else term.neutral

    def decide(self, buffer: bytes, offsets: Ints, found: Matches, rows: Ints) -> Decided:
        """The decisions for all matches of a buffer; ``rows`` holds the row of each match."""
        signs = np.frombuffer(buffer + b" ", dtype=np.uint8)
        case = _cases(signs, found)
        choice = np.zeros(len(rows), dtype=np.int64)
        kept = np.ones(len(rows), dtype=bool)
        kept &= (found.term != self._of) | (signs[found.start - 1] == ord("/"))
        places = np.flatnonzero((self._looked_at[found.term] | self._odd_he(signs, found, case)) & kept)
        seen = [self._seen(buffer, offsets, found, rows, place) for place in places.tolist()]
        verdicts = self._verdicts(seen)
        choice[places] = [verdict.choice for verdict in verdicts]
        kept[places] = [verdict.swap for verdict in verdicts]
        words = self._words[found.term, choice, case]
        for one, verdict in zip(seen, verdicts, strict=True):
            if _is_phrase(one.term):
                words[one.place] = _as_written(one, self._targets(one.term)[verdict.choice]).encode()
        doubts = [(int(rows[one.place]), v.doubt) for one, v in zip(seen, verdicts, strict=True) if v.doubt]
        start, end = found.start[kept], found.end[kept]
        replacements = words[kept].tolist()
        end = _with_possessives(buffer, start, end, replacements)
        if not self._swaps:
            start, end = _without_gaps(buffer, offsets, start, end, replacements, self._titles(found.term[kept]))
        return Decided(
            start=start,
            end=end,
            replacements=replacements,
            rows=rows[kept],
            sides=self._sides[found.term[kept]],
            terms=self._report(found.term[kept], choice[kept]),
            doubtful=Counter(doubt for _, doubt in doubts),
            doubtful_rows=np.array([row for row, _ in doubts], dtype=np.int64),
        )

    def _odd_he(self, signs: NDArray[np.uint8], found: Matches, case: Ints) -> NDArray[np.bool_]:
        """ "HE" may be an abbreviation, and "s/he" and "(s)he" are both: the only ones of many "he" to look at."""
        before = signs[found.start - 1]
        odd: NDArray[np.bool_] = (found.term == self._of) | (found.term == self._he) & (
            (case == UPPER) | (before == ord("/")) | (before == ord(")"))
        )
        return odd

    def _seen(self, buffer: bytes, offsets: Ints, found: Matches, rows: Ints, place: int) -> _Seen:
        start, end = int(found.start[place]), int(found.end[place])
        first, last = int(offsets[rows[place]]), int(offsets[rows[place] + 1])
        return _Seen(
            place,
            self._terms[found.term[place]],
            buffer[start:end].decode(),
            # A window may begin or end within a character: what is left of it is dropped.
            buffer[max(first, start - WINDOW) : start].decode(errors="ignore"),
            buffer[end : min(last, end + WINDOW)].decode(errors="ignore"),
        )

    def _verdicts(self, seen: Sequence[_Seen]) -> list[_Verdict]:
        judged = [self._judged(one) for one in seen]
        asked = [
            place
            for place, (one, verdict) in enumerate(zip(seen, judged, strict=True))
            if verdict.swap and self._context and one.term.choices == {"his", "him"}
        ]
        verdicts = [
            _Verdict(one.swap, self._his_or_hers(seen[place]) if one.swap else 0, one.doubt)
            for place, one in enumerate(judged)
        ]
        odds = (
            self._resolver.log_odds([seen[p].before for p in asked], [seen[p].after for p in asked]) if asked else []
        )
        for place, value in zip(asked, odds, strict=True):
            choice = _index(seen[place].term, "his" if value > 0 else "him")
            doubt = "her: his or him" if abs(value) < DOUBTFUL else judged[place].doubt
            verdicts[place] = _Verdict(True, choice, doubt)
        return verdicts

    def _odds(self, seen: Sequence[_Seen]) -> list[float]:
        return self._resolver.log_odds([one.before for one in seen], [one.after for one in seen]) if seen else []

    def _judged(self, one: _Seen) -> Judged:
        judge = JUDGES.get(one.term.text) if self._context else None
        return judge(one.written, one.before[-NEAR:], one.after[:NEAR]) if judge else Judged(True)

    def _his_or_hers(self, one: _Seen) -> int:
        if not self._context or one.term.choices != {"her", "hers"}:
            return 0
        return _index(one.term, "hers" if is_pronoun(one.before, one.after) else "her")

    def _titles(self, numbers: Ints) -> NDArray[np.bool_]:
        return np.array([self._terms[number].text in _TITLES for number in numbers.tolist()], dtype=bool)

    def _report(self, terms: Ints, choices: Ints) -> Counter[str]:
        pairs, times = np.unique(np.stack([terms, choices]), axis=1, return_counts=True)
        named: Counter[str] = Counter()
        for number, choice, count in zip(*pairs.tolist(), times.tolist(), strict=True):
            target = self._targets(self._terms[number])[choice]
            named[f"{self._terms[number].text} -> {target.lower() or '(removed)'}"] += count
        return named


def in_case(word: str, case: int) -> str:
    """A word of the table in the case of the one it replaces.

    >>> in_case("the patient", CAPITAL), in_case("she", UPPER), in_case("Ms", LOWER)
    ('The patient', 'SHE', 'ms')
    """
    if case == LOWER:
        return word.lower()
    return word.upper() if case == UPPER else word[:1].upper() + word[1:]


def _is_phrase(term: Term) -> bool:
    """Whether the case of a term must be read from all of it: several words, signs, a first letter beyond ASCII."""
    return not (term.text.isalpha() and term.text[0].isascii()) or term.text in GLUED


def _as_written(one: _Seen, target: str) -> str:
    """The target in the case of what was written; where that is neither of the three, as the table spells it."""
    if one.term.text in GLUED:  # the unit stays as it is: "72yoM", "72YOM"
        unit = next(unit for unit in sorted(UNITS, key=len, reverse=True) if one.term.text[: len(unit)] == unit
                    and one.term.text[len(unit) :] in DEMOGRAPHIC)  # fmt: skip
        letters = target[len(unit) :]
        return one.written[: len(unit)] + (letters.upper() if one.written[-1].isupper() else letters.lower())
    if one.written.islower():
        return target.lower()
    if one.written.isupper() and len(one.written) > 1:
        return target.upper()
    return target[:1].upper() + target[1:] if one.written[0].isupper() else target


def _cases(signs: NDArray[np.uint8], found: Matches) -> Ints:
    """Case of each match by its first two letters; one letter alone in upper case counts as upper."""
    first = (signs[found.start] >= 65) & (signs[found.start] <= 90)
    place = np.minimum(found.start + 1, found.end - 1)
    second = (signs[place] >= 65) & (signs[place] <= 90)
    return first.astype(np.int64) + (first & second)


def _index(term: Term, word: str) -> int:
    return [other.lower() for other in term.others].index(word)


def _with_possessives(buffer: bytes, start: Ints, end: Ints, replacements: list[bytes]) -> Ints:
    """Plural possessives take their form from the new word: "ladies'" and "gentlemen's"."""
    found = end.copy()
    signs = np.frombuffer(buffer + b" ", dtype=np.uint8)[end]
    for place in np.flatnonzero((signs == _MARKS[0][0]) | (signs == _MARKS[1][0])).tolist():
        word, at = replacements[place], int(end[place])
        mark = next((one for one in _MARKS if buffer.startswith(one, at)), b"")
        if not mark or not word:
            continue
        after = buffer[at + len(mark) : at + len(mark) + 2]
        plural, written = _is_plural(word), _is_plural(buffer[int(start[place]) : at])
        if written and not plural and not after[:1].isalnum():
            replacements[place] = word + mark + (b"S" if word.isupper() else b"s")
            found[place] = at + len(mark)
        elif plural and not written and after[:1] in (b"s", b"S") and not after[1:2].isalnum():
            replacements[place] = word + mark
            found[place] = at + len(mark) + 1
    return found


_MARKS = (b"'", "’".encode())


def _is_plural(word: bytes) -> bool:
    low = word.lower()
    return low.endswith(b"s") and not low.endswith((b"ss", b"his", b"hers", b"ms", b"mrs", b"miss"))


def _without_gaps(
    buffer: bytes, offsets: Ints, start: Ints, end: Ints, replacements: Sequence[bytes], titles: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Where a term is removed one space beside it goes as well, and the full stop of a title."""
    start, end = start.copy(), end.copy()
    for place in [number for number, word in enumerate(replacements) if not word]:
        row = int(np.searchsorted(offsets, start[place], side="right"))
        first, last = int(offsets[row - 1]), int(offsets[row])
        if titles[place] and buffer[end[place] : end[place] + 1] == b"." and end[place] < last:
            end[place] += 1
        bound = max(first, int(end[place - 1]) if place else 0)
        before = buffer[start[place] - 1 : start[place]] if start[place] > bound else b""
        if before == b" ":
            start[place] -= 1
        elif before in (b"", b"\n", b"(") and buffer[end[place] : end[place] + 1] == b" " and end[place] < last:
            end[place] += 1
    return start, end
