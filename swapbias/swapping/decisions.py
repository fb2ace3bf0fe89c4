"""What each found term becomes: its case, its context, and its neutral word."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.agreement import agreeing, article_before
from swapbias.swapping.contexts import ALWAYS, JUDGES, KIN_TITLES, Judged
from swapbias.swapping.his_or_him import (
    NEAR,
    SURE,
    WINDOW,
    by_words,
    in_context,
    is_pronoun,
    log_odds_of_his,
    second_word,
    stands_alone,
)
from swapbias.swapping.matches import MASKS, SPACE, Bytes, Ints, Matches, Text, eights, signs_of
from swapbias.swapping.table import ALONE, DEMOGRAPHIC, GLUED, OBJECTS, UNITS, SwapTable, Term, word_list

LOWER, CAPITAL, UPPER = 0, 1, 2


def in_case(word: str, case: int) -> str:
    """A word of the table in the case of the one it replaces.

    >>> in_case("the patient", CAPITAL), in_case("she", UPPER), in_case("Ms", LOWER)
    ('The patient', 'SHE', 'ms')
    """
    if case == LOWER:
        return word.lower()
    return word.upper() if case == UPPER else word[:1].upper() + word[1:]


def is_phrase(term: Term) -> bool:
    """Whether the case of a term must be read from all of it: several words, signs, a first letter beyond ASCII."""
    return not (term.text.isalpha() and term.text[0].isascii()) or term.text in GLUED


def as_written(term: Term, written: str, target: str) -> str:
    """The target in the case of what was written; where that is neither of the three, as the table spells it."""
    if term.text in GLUED:  # the unit stays as it is: "72yoM", "72YOM"
        unit = next(unit for unit in sorted(UNITS, key=len, reverse=True) if term.text[: len(unit)] == unit
                    and term.text[len(unit) :] in DEMOGRAPHIC)  # fmt: skip
        letters = target[len(unit) :]
        return written[: len(unit)] + (letters.upper() if written[-1].isupper() else letters.lower())
    if written.islower():
        return target.lower()
    if written.isupper() and len(written) > 1:
        return target.upper()
    return target[:1].upper() + target[1:] if written[0].isupper() else target


def with_possessives(buffer: bytes, decided: "Decided", offsets: Ints) -> tuple[Ints, Ints]:
    """Plural possessives take their form from the new word: "ladies'" and "gentlemen's".

    Returns:
        The new ends and the new numbers of words, which are added.
    """
    end, word, words = decided.end.copy(), decided.word.copy(), decided.words
    following = signs_of(buffer)[end]
    for place in np.flatnonzero((following == _MARKS[0][0]) | (following == _MARKS[1][0])).tolist():
        new, at, bound = words[word[place]], int(end[place]), int(offsets[decided.rows[place] + 1])
        mark = next((one for one in _MARKS if buffer.startswith(one, at, bound)), b"")
        if not mark or not new:
            continue
        after = buffer[at + len(mark) : min(at + len(mark) + 2, bound)]
        plural, written = _is_plural(new), _is_plural(buffer[int(decided.start[place]) : at])
        if written and not plural and not after[:1].isalnum():
            words.append(new + mark + (b"S" if new.isupper() else b"s"))
            end[place], word[place] = at + len(mark), len(words) - 1
        elif plural and not written and after[:1] in (b"s", b"S") and not after[1:2].isalnum():
            words.append(new + mark)
            end[place], word[place] = at + len(mark) + 1, len(words) - 1
    return end, word


_MARKS = (b"'", "’".encode())


def _is_plural(word: bytes) -> bool:
    low = word.lower()
    return low.endswith(b"s") and not low.endswith((b"ss", b"his", b"hers", b"ms", b"mrs", b"miss"))


def without_gaps(buffer: bytes, offsets: Ints, decided: "Decided", titles: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where a term is removed one space beside it goes as well, and the full stop of a title: new starts and ends.

    Args:
        buffer: the text. offsets: of its rows. decided: what is replaced. titles: which terms are titles.
    """
    start, end = decided.start.copy(), decided.end.copy()
    removed = np.array([not one for one in decided.words])[decided.word]
    for place in np.flatnonzero(removed).tolist():
        row = int(decided.rows[place])
        first, last = int(offsets[row]), int(offsets[row + 1])
        if titles[decided.terms[place]] and buffer[end[place] : end[place] + 1] == b"." and end[place] < last:
            end[place] += 1
        bound = max(first, int(end[place - 1]) if place else 0)
        before = buffer[start[place] - 1 : start[place]] if start[place] > bound else b""
        if before == b" ":
            start[place] -= 1
        elif before in (b"", b"\n", b"(") and buffer[end[place] : end[place] + 1] == b" " and end[place] < last:
            end[place] += 1
    return start, end


_OR = re.compile(rb"\s?/\s?|\s+(?:and\s?/\s?)?or\s+", re.IGNORECASE)
_LONGEST_OR = 10


def as_one(buffer: bytes, decided: "Decided") -> "Decided":
    """Without the first of two words that become the same one: "he or she" and "his/her" are "they" and "their"."""
    start, end, rows, sides = decided.start.copy(), decided.end, decided.rows, decided.sides.copy()
    near = (rows[1:] == rows[:-1]) & (sides[1:] == -sides[:-1]) & (start[1:] - end[:-1] <= _LONGEST_OR)
    second: list[int] = []
    for at in (np.flatnonzero(near) + 1).tolist():
        one, other = (decided.words[decided.word[place]].lower() for place in (at - 1, at))
        joined = one == other and _OR.fullmatch(buffer, int(end[at - 1]), int(start[at]))
        if joined and (not second or second[-1] != at - 1):
            second.append(at)
    before = np.array(second, dtype=np.int64) - 1
    word = decided.word.copy()
    start[second], word[second], sides[second] = start[before], word[before], 0
    done = replace(decided, start=start, word=word, sides=sides)
    return done.arranged(np.delete(np.arange(len(start)), before))


_WIDE = 18  # letters of the longest word that a key holds, and the sign behind it
HER, HIS = 1, 3  # kinds of keys; the next number is that of the word with a capital
_COLUMNS = np.arange(_WIDE)
_LETTER, _BLANK, _SIGN, _JOINS = (
    np.isin(np.arange(256), list(signs))
    for signs in (
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        b" \t\n\r",
        b".,;:!?)",  # no part of a word, and none that opens a quotation or names an alternative
        b"0123456789_'-" + bytes(range(128, 256)),  # what beside a word may make it another one
    )
)
_NOT_AFTER = frozenset({b":", b"neu", b"ii", b"bundle", b"purkinje", b"electrogram", b"system"})
_NOT_AFTER |= {word.encode() for word in word_list("receptor_words")}
_HELIUM = np.array(
    [int.from_bytes(f" {word}".encode()[:4], "little") for word in word_list("helium_words")], np.uint64
)


def keys_of(buffer: bytes, start: Ints, end: Ints, first: Ints, last: Ints, kind: Ints) -> list[bytes]:
    """A key for each place: its kind, the word or sign before it backwards, and the one after it; or blank.

    Args:
        buffer: the text, padded.
        start, end: of the pronouns, (n,).
        first, last: of the row that each stands in.
        kind: a number from 1 to 255 that is part of the key.
    """
    signs = signs_of(buffer)
    blank = _BLANK[signs[end]]
    gap = start - 1 - _BLANK[signs[start - 2]]  # where the space or two before the pronoun begin
    windows: Bytes = np.ndarray((len(buffer) - _WIDE, _WIDE), np.uint8, buffer, strides=(1, 1))
    before, left = _word_or_sign(windows[np.maximum(gap - _WIDE, 0)][:, ::-1], gap - first)
    after, right = _word_or_sign(windows[end + blank], last - end - blank)
    right &= blank == _LETTER[after[:, 0]]
    keys = np.concatenate([kind[:, None].astype(np.uint8), before, after], axis=1)
    keys[~(left & right & _BLANK[signs[start - 1]] & (gap >= _WIDE))] = 0
    found: list[bytes] = keys.view(f"S{keys.shape[1]}").ravel().tolist()
    return found


def _word_or_sign(seen: Bytes, room: Ints) -> tuple[Bytes, NDArray[np.bool_]]:
    """The word or sign at the left end of each line, of which ``room`` bytes are of its row; whether one is there."""
    seen = np.where(room[:, None] > _COLUMNS, seen, np.uint8(SPACE))
    length = np.argmin(_LETTER[seen], axis=1)  # 0 also where all are letters: too long
    word = (length > 0) & ~_JOINS[seen[np.arange(len(seen)), length]]
    return seen * (np.maximum(length, 1)[:, None] > _COLUMNS), word | ((length == 0) & _SIGN[seen[:, 0]])


def words_of(key: bytes) -> tuple[int, str, str] | None:
    """The kind of a key and the words before and after; None where the decision needs more than these.

    "her or his" needs more, and with a capital or in capitals "HER neu" and "bundle of His".
    """
    before, after = key[1 : 1 + _WIDE].strip(b"\0")[::-1].lower(), key[1 + _WIDE :].strip(b"\0")
    if not key or before == b"or" or after.lower() in (b"or", b"and", b"neu"):
        return None
    if key[0] in (HER + 1, HIS + 1) and (before == b"of" or after.lower() in _NOT_AFTER):
        return None
    return key[0], before.decode(), after.decode()


_TITLES = frozenset({"mr", "ms", "mrs", "miss"})
_KNOWN = 1 << 18  # decisions that are kept


_ARRAYS = ("start", "end", "word", "rows", "sides", "terms")


@dataclass(frozen=True, slots=True)
class Decided:
    """Replacements in order: bytes, number of the new word, row, side and term (-1: a verb or an article), (n,) each.

    Attributes:
        words: that stand in. counts: "he -> she": times.
    """

    start: Ints
    end: Ints
    word: Ints
    rows: Ints
    sides: Ints
    terms: Ints
    words: list[bytes]
    counts: Counter[str]

    def arranged(self, places: Ints | NDArray[np.bool_]) -> "Decided":
        """Those at some places, in their order."""
        chosen: dict[str, Any] = {name: getattr(self, name)[places] for name in _ARRAYS}
        return replace(self, **chosen)

    def with_verbs(self, verbs: Mapping[int, tuple[int, str, str, int]]) -> "Decided":
        """Those and other changes, by where these begin: their end, the old and the new words, and the row."""
        more = np.array([(at, end, 0, row, 0, -1) for at, (end, _, _, row) in verbs.items()]).reshape(-1, 6).T
        more[2] = np.arange(len(self.words), len(self.words) + len(verbs))
        pairs = zip(_ARRAYS, more, strict=True)
        both: dict[str, Any] = {name: np.concatenate([getattr(self, name), new]) for name, new in pairs}
        words = [*self.words, *(new.encode() for _, _, new, _ in verbs.values())]
        counts = Counter(f"{old.lower()} -> {new.lower()}" for _, old, new, _ in verbs.values())
        done = Decided(**both, words=words, counts=self.counts + counts)
        return done.arranged(np.argsort(done.start, kind="stable"))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A term that is looked at in its context."""

    place: int
    term: Term
    written: str
    before: str
    after: str


Stays = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
_UNSURE = Judged(False, choice=-1)  # what stands beside the word leaves doubt: the word behind the next is looked at


class Decider:
    """Decides for one table and one mode (``swap`` or ``neutralise``)."""

    def __init__(self, table: SwapTable, mode: str) -> None:
        """Prepare what each term becomes in each case."""
        self._swaps, self._context = mode == "swap", table.context
        self._terms = list(table.terms.values())
        singular_they = {term.text: True for term in self._terms if "they" in term.neutral}
        self._plural = table.plural if self._swaps else singular_they
        self._texts = table.terms.keys()
        self._sides = np.array([2 * term.side - 1 for term in self._terms])
        self._looked_at = np.array([_looked_at(term, table.context) for term in self._terms])  # by case
        self._is_kin = np.array([table.context and term.text in KIN_TITLES for term in self._terms])
        self._is_title = np.array([term.text in _TITLES for term in self._terms])
        self._he, self._of = (self._number(text) if table.context else -1 for text in ("he", "of"))
        self._kinds = np.array([{"her": HER, "his": HIS}.get(term.text, 0) for term in self._terms])
        self._near = {kind + more: self._terms[at] for at, kind in enumerate(self._kinds) if kind for more in (0, 1)}
        self._known: dict[bytes, Judged] = {}
        self._pool, self._word = self._all_words()

    def _all_words(self) -> tuple[list[bytes], Ints]:
        """Every word that may stand in, and its number by term, choice and case."""
        pool: dict[bytes, int] = {}
        most = max(len(term.others) for term in self._terms)
        numbers = np.full((len(self._terms), most, 3), -1)
        for number, term in enumerate(self._terms):
            for choice, target in enumerate(self._targets(term)):
                for case in (LOWER, CAPITAL, UPPER):
                    word = in_case(target, case).encode()
                    numbers[number, choice, case] = pool.setdefault(word, len(pool))
        return list(pool), numbers

    def _number(self, text: str) -> int:
        return next((number for number, term in enumerate(self._terms) if term.text == text), -1)

    def _targets(self, term: Term) -> tuple[str, ...]:
        return term.others if self._swaps else term.neutral

    def decide(self, text: Text, stays: Stays | None = None) -> Decided:
        """The decisions for all matches; ``stays`` tells which of those that are swapped are somebody else's."""
        buffer, offsets, found, rows = text.buffer, text.offsets, text.found, text.rows
        case = _cases(text.signs, found)
        choice = np.zeros(len(rows), dtype=np.int64)
        kept = (found.term != self._of) | (text.signs[found.start - 1] == ord("/"))
        odd = self._odd_he(text, case) | self._before_name(text.signs, found, case)
        places = np.flatnonzero((self._looked_at[found.term, case] | odd) & kept)
        verdicts, seen = self._looked_up(text, places)
        choice[places] = [verdict.choice for verdict in verdicts]
        kept[places] = [verdict.swap for verdict in verdicts]
        kept = kept & ~stays(kept) if stays else kept
        words, word = list(self._pool), self._word[found.term, choice, case]
        for one in seen:
            if is_phrase(one.term):
                target = self._targets(one.term)[choice[one.place]]
                words.append(as_written(one.term, one.written, target).encode())
                word[one.place] = len(words) - 1
        counts = self._report(found.term[kept], choice[kept])
        sides = self._sides[found.term]
        decided = Decided(found.start, found.end, word, rows, sides, found.term, words, counts).arranged(kept)
        end, word = with_possessives(buffer, decided, offsets)
        decided = replace(decided, end=end, word=word)
        if not self._swaps and self._context:
            decided = as_one(buffer, decided)
        if not self._swaps:
            start, end = without_gaps(buffer, offsets, decided, self._is_title)
            decided = replace(decided, start=start, end=end)
        if not self._context:
            return decided
        changed = self._articles(text, decided)
        if self._plural:
            self._add_verbs(text, decided, changed)
        return decided.with_verbs(changed) if changed else decided

    def _articles(self, text: Text, decided: Decided) -> dict[int, tuple[int, str, str, int]]:
        """ "a" and "an" before a new word, or before what follows one that is removed."""
        found = {}
        blank = _BLANK[text.signs[decided.start - 1]]
        last = text.signs[decided.start - 1 - blank] | 32
        for place in np.flatnonzero((last == ord("a")) | (last == ord("n"))).tolist():
            start, end, row = (int(of[place]) for of in (decided.start, decided.end, decided.rows))
            first, bound = int(text.offsets[row]), int(text.offsets[row + 1])
            before = text.buffer[max(first, start - 8) : start].decode(errors="ignore")
            old = text.buffer[start : min(bound, start + 20)].decode(errors="ignore")
            new = decided.words[decided.word[place]].decode() or text.buffer[end : min(bound, end + 20)].decode(
                errors="ignore"
            )
            if change := article_before(before, old, new):
                at = start + change[0]
                found[at] = at + len(change[1]), change[1], change[2], row
        return found

    def _add_verbs(self, text: Text, decided: Decided, verbs: dict[int, tuple[int, str, str, int]]) -> None:
        """The verbs that agree with the new pronouns, beside what else changes."""
        for place, number in enumerate(decided.terms.tolist()):
            if self._terms[number].text not in self._plural:
                continue
            end = int(decided.end[place])
            first, last = (
                self._seen(text, int(np.searchsorted(text.found.start, at, side="right")) - 1)
                for at in (decided.start[place], end - 1)
            )
            seen = first
            if first.place != last.place:  # "he or she", now one word
                between = text.buffer[int(decided.start[place]) : end].decode()
                seen = _Seen(first.place, first.term, between, first.before, last.after)
            plural = self._plural[self._terms[number].text]
            for verb in agreeing(seen.written, seen.before, seen.after, plural=plural):
                if verb.old.lower() not in self._texts:  # "she mothers him"
                    at = end + _bytes(seen, verb.start)
                    verbs.setdefault(at, (at + len(verb.old.encode()), verb.old, verb.new, int(decided.rows[place])))

    def _looked_up(self, text: Text, places: Ints) -> tuple[list[Judged], list[_Seen]]:
        """A verdict on each place; and the places that were looked at, the rest being known by their key."""
        if len(self._known) > _KNOWN:
            self._known.clear()
        keys = self._keys(text, places)
        found = list(map(self._known.get, keys))
        new = [at for at, verdict in enumerate(found) if verdict is None]
        self._learn({keys[at] for at in new})
        for at in new:
            found[at] = self._known.get(keys[at])
        for at in [at for at, verdict in enumerate(found) if verdict is _UNSURE]:
            found[at] = self._by_second(text, int(places[at]), keys[at])
        unknown = [at for at in new if found[at] is None]
        seen = [self._seen(text, place) for place in places[unknown].tolist()]
        for at, one in zip(unknown, seen, strict=True):
            found[at] = self._verdict(one)
        return [verdict for verdict in found if verdict is not None], seen

    def _learn(self, keys: Collection[bytes]) -> None:
        """Decide for keys that tell enough, by the words in them alone."""
        for key in keys:
            if words := words_of(key):
                kind, before, after = words
                if (verdict := self._beside(self._near[kind], before, after)) is not None:
                    self._known[key] = verdict

    def _beside(self, term: Term, before: str, after: str) -> Judged | None:
        """``_resolved`` for "her" or "his" between two simple words or signs; None where it takes more."""
        if self._context and term.choices in OBJECTS:
            odds = by_words(before, after.lower())
            return self._his_or_him(term, odds) if abs(odds) >= SURE else _UNSURE
        if self._context and term.choices in ALONE:
            alone = stands_alone(before, after.lower())
            return None if alone is None else Judged(True, choice=_alone(term, alone))
        return Judged(True)

    def _by_second(self, text: Text, place: int, key: bytes) -> Judged:
        """The verdict on "her" with the word behind the next one, which is added to the key."""
        end, last = int(text.found.end[place]), int(text.offsets[text.rows[place] + 1])
        after = text.buffer[end : min(last, end + WINDOW)].decode(errors="ignore")[:NEAR]
        second = second_word(after)
        longer = b"\2".join((key, b"\1" if second is None else second.encode()))
        verdict = self._known.get(longer)
        if verdict is None:
            before = key[1 : 1 + _WIDE].strip(b"\0")[::-1].lower().decode()
            verdict = self._his_or_him(self._near[key[0]], in_context(before, after))
            self._known[longer] = verdict
        return verdict

    def _his_or_him(self, term: Term, odds: float) -> Judged:
        own = _index(term, OBJECTS[term.choices])
        return Judged(True, choice=own if odds > 0 else 1 - own)

    def _keys(self, text: Text, places: Ints) -> list[bytes]:
        found, kind = text.found, self._kinds[text.found.term[places]]
        keys = [b""] * len(places)
        mine = np.flatnonzero(kind)
        if len(mine):
            kind, places = kind[mine], places[mine]
            start, row = found.start[places], text.rows[places]
            plain = (text.signs[start] >= 97) & (text.signs[start + 1] >= 97) & (text.signs[start + 2] >= 97)
            kind = kind + ~plain
            made = keys_of(text.buffer, start, found.end[places], text.offsets[row], text.offsets[row + 1], kind)
            for place, key in zip(mine.tolist(), made, strict=True):
                keys[place] = key
        return keys

    def _odd_he(self, text: Text, case: Ints) -> NDArray[np.bool_]:
        """ "s/he" and "(s)he" are both, "He gas" is helium: the only ones of many "he" to look at, but for "HE"."""
        found, before = text.found, text.signs[text.found.start - 1]
        slashed = (before == ord("/")) | ((before == ord(" ")) & (text.signs[found.start - 2] == ord("/")))
        odd: NDArray[np.bool_] = (found.term == self._he) & (slashed | (before == ord(")")))
        capital = np.flatnonzero((found.term == self._he) & (case == CAPITAL))
        odd[capital] |= np.isin(eights(text.buffer)[found.end[capital]] & MASKS[4], _HELIUM)
        return odd

    def _before_name(self, signs: Bytes, found: Matches, case: Ints) -> NDArray[np.bool_]:
        """ "Sister Mary", "Father O'Brien": words for relatives with a capital, before one."""
        following = signs[found.end + 1]
        title: NDArray[np.bool_] = (
            self._is_kin[found.term] & (case == CAPITAL) & (following >= 65) & (following <= 90)
        )
        return title

    def _seen(self, text: Text, place: int) -> _Seen:
        start, end, row = (int(of[place]) for of in (text.found.start, text.found.end, text.rows))
        first, last = int(text.offsets[row]), int(text.offsets[row + 1])
        return _Seen(
            place,
            self._terms[text.found.term[place]],
            text.buffer[start:end].decode(),
            # A window may begin or end within a character: what is left of it is dropped.
            text.buffer[max(first, start - WINDOW) : start].decode(errors="ignore"),
            text.buffer[end : min(last, end + WINDOW)].decode(errors="ignore"),
        )

    def _verdict(self, one: _Seen) -> Judged:
        """Whether a word is swapped, and which of several stands in for it."""
        judge = JUDGES.get(one.term.text) if self._context else None
        judged = judge(one.written, one.before[-NEAR:], one.after[:NEAR]) if judge else Judged(True)
        if judged.swap and self._context and one.term.choices in OBJECTS:
            return self._his_or_him(one.term, log_odds_of_his(one.before, one.after))
        if judged.swap and judged.becomes:
            return replace(judged, choice=_index(one.term, judged.becomes))
        if judged.swap and self._context and one.term.choices in ALONE:
            return replace(judged, choice=_alone(one.term, is_pronoun(one.before, one.after)))
        return judged

    def _report(self, terms: Ints, choices: Ints) -> Counter[str]:
        most = self._word.shape[1]
        times = np.bincount(terms * most + choices)
        named: Counter[str] = Counter()
        for code in np.flatnonzero(times).tolist():
            term = self._terms[code // most]
            new = self._targets(term)[code % most].lower() or "(removed)"
            named[f"{term.text} -> {new}"] += int(times[code])
        return named


def _bytes(seen: _Seen, offset: int) -> int:
    """An offset in characters from the end of a pronoun in bytes."""
    if offset >= 0:
        return len(seen.after[:offset].encode())
    text = seen.before + seen.written
    return -len(text[len(text) + offset :].encode())


def _looked_at(term: Term, context: bool) -> tuple[bool, bool, bool]:
    """Whether a term must be looked at where it stands, in each case: "MR" is no "Mr", and "MOM" no "mom"."""
    decided = term.choices in OBJECTS or term.choices in ALONE
    always = is_phrase(term) or (context and (term.text in ALWAYS or decided))
    lower = always and term.text != "mom"
    return lower, lower and term.text not in ("mr", "ms", "mrs"), always or (context and term.text == "he")


def _cases(signs: Bytes, found: Matches) -> Ints:
    """Case of each match by its first two letters and the last ("SHe" is a slip of "She"); "M" alone is upper."""
    first, second = (
        (signs[place] >= 65) & (signs[place] <= 90)
        for place in (found.start, np.minimum(found.start + 1, found.end - 1))
    )
    lower = (signs[found.end - 1] >= 97) & (signs[found.end - 1] <= 122)
    return first.astype(np.int64) + (first & second & ~lower)


def _alone(term: Term, alone: bool) -> int:
    """ "hers" where it stands alone, else "her"."""
    place = _index(term, ALONE[term.choices])
    return place if alone else 1 - place


def _index(term: Term, word: str) -> int:
    return [other.lower() for other in term.others].index(word)
