"""Find the terms of a table in a buffer of UTF-8 text: all rows at once, one pass, whole words, any case."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapbias.swapping.folding import (
    MASKS,
    SPACE,
    Bytes,
    Ints,
    Words,
    cuts_of,
    eights,
    fold,
    folded,
    is_letter,
    signs_of,
    starts_of,
    within_word,
)

_Letters = bytes | bytearray  # a folded and padded buffer
_STRIDE = 1 << 17  # bytes looked at at once: what is made of them stays in a core's own cache
_KEY = 16  # bytes of a word that are compared at once; the rest of a longer term is compared one by one
_LOWER = bytes(byte | 32 if 65 <= byte <= 90 else byte for byte in range(256))
_APOSTROPHE_ENDS = (b"'", "’".encode()[-1:])
_WHITE = b" \t\n\r\x0b\x0c"
_IS_DIGIT = np.array([48 <= byte <= 57 for byte in range(256)])
_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a key: Fibonacci hashing


@dataclass(frozen=True, slots=True)
class Matches:
    """Terms where they stand in a buffer, in order."""

    start: Ints
    """The first byte of each, (n,)."""
    end: Ints
    """The byte after the last of each, (n,)."""
    term: Ints
    """The number of each term, (n,)."""

    def at(self, chosen: NDArray[np.bool_]) -> "Matches":
        """Return some of the matches.

        Args:
            chosen: whether each is among them, (n,).
        """
        return Matches(self.start[chosen], self.end[chosen], self.term[chosen])


@dataclass(frozen=True, eq=False)
class Text:
    """Rows of text and the terms in them."""

    buffer: bytes
    """The texts, padded."""
    offsets: Ints
    """Where each row begins, and where the last one ends, (rows + 1,)."""
    matches: Matches
    """The terms."""
    rows: Ints
    """The row of each term, (n,)."""

    @cached_property
    def signs(self) -> Bytes:
        """The bytes of the buffer."""
        return signs_of(self.buffer)

    @cached_property
    def case(self) -> Ints:
        """The case of each term by its first two letters and the last: 0 lower, 1 capital ("He", "SHe"), 2 upper."""
        start = self.matches.start
        end = self.matches.end
        first = self.signs[start]
        second = self.signs[np.minimum(start + 1, end - 1)]
        last = self.signs[end - 1]
        capital = (first >= 65) & (first <= 90)
        upper = capital & (second >= 65) & (second <= 90) & ((last < 97) | (last > 122))
        case: Ints = capital.astype(np.int64) + upper
        return case

    def around_each(self, indices: Ints, reach: int) -> Iterator[tuple[str, str, str]]:
        """Yield terms as written, and the text before and after each: as ``beside``, many at once.

        Args:
            indices: indices of the terms, (m,).
            reach: bytes on each side.
        """
        rows = self.rows[indices]
        start = self.matches.start[indices]
        end = self.matches.end[indices]
        low = np.maximum(self.offsets[rows], start - reach)
        high = np.minimum(self.offsets[rows + 1], end + reach)
        buffer = self.buffer
        columns = (array.tolist() for array in (low, start, end, high))
        for begin, first, last, stop in zip(*columns, strict=True):
            written = buffer[first:last].decode()
            before = buffer[begin:first].decode(errors="ignore")
            yield written, before, buffer[last:stop].decode(errors="ignore")

    def beside(self, start: int, end: int, row: int, reach: int) -> tuple[str, str]:
        """Return the text before and after a place within its row, without a character that is cut.

        Args:
            start: the first byte of the place.
            end: the byte after its last.
            row: its row.
            reach: bytes on each side.
        """
        first = int(self.offsets[row])
        last = int(self.offsets[row + 1])
        before = self.buffer[max(first, start - reach) : start]
        after = self.buffer[end : min(last, end + reach)]
        return before.decode(errors="ignore"), after.decode(errors="ignore")


class Matcher:
    """Finds terms. Where several begin at one place the longest is taken; found terms never overlap."""

    def __init__(self, terms: Sequence[str], *, beside_digits: Collection[str] = ()) -> None:
        """Prepare for terms, distinguished by their number.

        Args:
            terms: terms in lower case.
            beside_digits: those that may touch a digit ("45F").
        """
        self._beside_digits = np.array([term in beside_digits for term in terms], dtype=bool)
        words = dict[bytes, int]()
        phrases = dict[bytes, list[_Phrase]]()
        for number, term in enumerate(terms):
            for spelling in _spellings(term):
                if fold(spelling) == spelling and b" " not in spelling and len(spelling) <= _KEY:
                    words.setdefault(spelling, number)
                else:
                    key, phrase = _phrase_of(spelling, number)
                    phrases.setdefault(key, []).append(phrase)
        keys = sorted({*words, *phrases})
        self._keys = pa.array([key.ljust(_KEY, b"\0") for key in keys], pa.binary(_KEY))
        self._lengths = np.array([len(key) for key in keys], dtype=np.int64)
        self._term = np.array([words.get(key, -1) for key in keys], dtype=np.int64)
        self._phrases = {
            index: _phrases_of_key(phrases[key]) for index, key in enumerate(keys) if key in phrases
        }
        # By key and each of the three signs after it.
        self._opens_phrase = np.zeros((3, len(keys), 256), dtype=bool)
        for index, phrases_of_key in self._phrases.items():
            for phrase in phrases_of_key.phrases:
                for opens, following in zip(self._opens_phrase, phrase.following, strict=True):
                    opens[index, list(following)] = True
        # Tells most words from every term at one glance.
        self._likely = np.zeros(1 << 16, dtype=bool)
        first = [int.from_bytes(key[:8], "little") for key in keys]
        self._likely[_bucket(np.array(first, dtype=np.uint64))] = True

    def find(self, buffer: bytes, offsets: Ints) -> Matches:
        """Find the terms in a buffer.

        Args:
            buffer: the rows of text, ``padded``.
            offsets: where rows begin, and where the last ends, (rows + 1,).
        """
        letters = folded(buffer)
        cuts = cuts_of(signs_of(letters), offsets)
        starts, low = self._likely_words(letters, int(offsets[-1]), cuts)
        matches, key = self._words_with_key(letters, starts, low, cuts)
        if self._phrases:
            matches = self._with_phrases(buffer, offsets, matches, key)
        return self._beside_no_digits(buffer, offsets, matches.at(matches.term >= 0))

    def _likely_words(self, letters: _Letters, size: int, cuts: Ints) -> tuple[Ints, Words]:
        """Return starts and first eight letters of the words that may be keys: about one in fifty of all words."""
        signs = signs_of(letters)
        words = eights(letters)
        bounds = [*range(0, size, _STRIDE), size]
        first_cuts = np.searchsorted(cuts, bounds).tolist()
        start_parts = [cuts[:0]]
        low_parts = [words[:0]]
        strides = zip(bounds, bounds[1:], first_cuts, first_cuts[1:], strict=False)
        for begin, end, first_cut, next_cut in strides:
            starts = starts_of(signs, begin, end, cuts[first_cut:next_cut])
            low = words[starts]
            low &= within_word(low)
            near = cuts[first_cut : next_cut + 1]
            if len(near) and len(starts):  # a word ends where its row does: before these
                before = np.searchsorted(starts, near) - 1
                near = near[before >= 0]
                before = before[before >= 0]
                low[before] &= MASKS[np.minimum(near - starts[before], 8)]
            likely = np.flatnonzero(self._likely[_bucket(low)])
            start_parts.append(starts[likely])
            low_parts.append(low[likely])
        return np.concatenate(start_parts), np.concatenate(low_parts)

    def _words_with_key(
        self, letters: _Letters, starts: Ints, low: Words, cuts: Ints
    ) -> tuple[Matches, Ints]:
        """Return the words whose first 16 bytes are a key, with the key's index; a longer word is no term itself."""
        rest = eights(letters)[starts + 8]
        mask = within_word(rest)
        mask[low >> np.uint64(56) == 0] = 0
        stops = np.append(cuts, len(letters))
        room = stops[np.searchsorted(stops, starts, side="right")] - starts
        mask &= MASKS[np.clip(room - 8, 0, 8)]
        high = rest & mask
        content = pa.py_buffer(np.stack([low, high], axis=1))
        words = pa.Array.from_buffers(pa.binary(_KEY), len(low), [None, content])
        key: Ints = pc.fill_null(pc.index_in(words, self._keys), -1).to_numpy().astype(np.int64)
        has_key = np.flatnonzero(key >= 0)
        starts = starts[has_key]
        high = high[has_key]
        room = room[has_key]
        key = key[has_key]
        fills_key = high >> np.uint64(56) != 0
        is_longer = fills_key & (signs_of(letters)[starts + _KEY] != SPACE) & (room > _KEY)
        term = np.where(is_longer, -1, self._term[key])
        return Matches(starts, starts + self._lengths[key], term), key

    def _with_phrases(self, buffer: bytes, offsets: Ints, matches: Matches, key: Ints) -> Matches:
        """Return the matches with those of phrases among them; a word inside a phrase is no match of its own."""
        phrases: list[tuple[int, int, int]] = []
        signs = signs_of(buffer)
        after = matches.start + self._lengths[key]
        indices = np.arange(len(key))
        for distance, opens in enumerate(self._opens_phrase):
            indices = indices[opens[key[indices], signs[after[indices] + distance]]]
        for index in indices.tolist():
            start = int(matches.start[index])
            phrases_of_key = self._phrases[int(key[index])]
            if not phrases_of_key.any_of.match(buffer, start):
                continue
            row = int(np.searchsorted(offsets, start, side="right"))
            bounds = int(offsets[row - 1]), int(offsets[row])
            longest = _longest_phrase(phrases_of_key.phrases, buffer, start, bounds)
            if longest is None:
                continue
            if not phrases or longest[0] >= phrases[-1][1]:  # of phrases that overlap the earlier
                phrases.append(longest)
        if not phrases:
            return matches
        begin, end, term = np.array(phrases, dtype=np.int64).T
        before = np.searchsorted(begin, matches.start, side="right") - 1
        single = matches.at((before < 0) | (matches.start >= end[before]))
        starts = np.concatenate([single.start, begin])
        ends = np.concatenate([single.end, end])
        terms = np.concatenate([single.term, term])
        order = np.argsort(starts, kind="stable")
        return Matches(starts[order], ends[order], terms[order])

    def _beside_no_digits(self, buffer: bytes, offsets: Ints, matches: Matches) -> Matches:
        """Leave out terms that touch a digit of their row: "HER2" is no pronoun."""
        signs = signs_of(buffer)
        beside = _IS_DIGIT[signs[matches.start - 1]] | _IS_DIGIT[signs[matches.end]]
        indices = np.flatnonzero(beside & ~self._beside_digits[matches.term])
        start = matches.start[indices]
        end = matches.end[indices]
        row = np.searchsorted(offsets, start, side="right")
        digit_before = _IS_DIGIT[signs[start - 1]] & (start > offsets[row - 1])
        digit_after = _IS_DIGIT[signs[end]] & (end < offsets[row])
        kept = np.ones(len(matches.start), dtype=bool)
        kept[indices] = ~(digit_before | digit_after)
        return matches.at(kept)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A term of several words or with signs in it, compared in full where its first word stands."""

    lead: int
    """Bytes before the first word."""
    pattern: re.Pattern[bytes]
    """Matches the term in any case."""
    rest: bytes
    """The pattern from the first word on."""
    number: int
    """Of the term."""
    is_initial: bool
    """Its first word is a letter alone: "s/he"."""
    following: tuple[bytes, ...]
    """Signs that may stand first, second and third after the first word, or 16 bytes of it."""

    def at(self, buffer: bytes, start: int, bounds: tuple[int, int]) -> tuple[int, int, int] | None:
        """Return the phrase at a place, as whole words.

        Args:
            buffer: the rows of text, padded.
            start: where its first word begins.
            bounds: where the row begins and ends.

        Returns:
            Its first byte, the one after its last, and its number; None where it does not stand there.
        """
        begin = start - self.lead
        if begin < bounds[0]:
            return None
        if self.is_initial and buffer[begin - 1 : begin] in _APOSTROPHE_ENDS and begin > bounds[0]:
            return None  # "her mother's/he"
        phrase = self.pattern.match(buffer, begin, bounds[1])
        if phrase is None:
            return None
        end = phrase.end()
        # A slice may cut a character at either end: what is left of it is no part of the question.
        last = buffer[max(begin, end - 4) : end].decode(errors="ignore")[-1:]
        following = buffer[end : min(end + 4, bounds[1])].decode(errors="ignore")[:1]
        is_cut = is_letter(last) and is_letter(following)
        return None if is_cut else (begin, end, self.number)


def _phrase_of(spelling: bytes, number: int) -> tuple[bytes, _Phrase]:
    """Return a term that is no plain word as a phrase, with the key of its first word."""
    letters = fold(spelling)
    word = letters.split()[0]
    lead = len(letters) - len(letters.lstrip())
    after = spelling[lead + len(word) :] if len(word) <= _KEY else b""
    whole, rest = (
        rb"\s+".join(map(re.escape, text.split(b" "))) for text in (spelling, spelling[lead:])
    )
    pattern = re.compile(whole, re.IGNORECASE)
    is_initial = len(word) == 1 and not lead
    return word[:_KEY], _Phrase(lead, pattern, rest, number, is_initial, _following(after))


@dataclass(frozen=True, slots=True)
class _PhrasesOfKey:
    """Terms with the same first word."""

    phrases: Sequence[_Phrase]
    """The terms."""
    any_of: re.Pattern[bytes]
    """Matches where one of them may stand, from the first word on: most places are told at one glance."""


def _phrases_of_key(phrases: Sequence[_Phrase]) -> _PhrasesOfKey:
    """Return phrases with one pattern for all."""
    texts = {phrase.rest for phrase in phrases}
    return _PhrasesOfKey(phrases, re.compile(b"|".join(sorted(texts)), re.IGNORECASE))


def _longest_phrase(
    phrases: Sequence[_Phrase], buffer: bytes, start: int, bounds: tuple[int, int]
) -> tuple[int, int, int] | None:
    """Return the longest phrase at a place, as ``_Phrase.at``."""
    longest: tuple[int, int, int] | None = None
    for phrase in phrases:
        match = phrase.at(buffer, start, bounds)
        if match is None:
            continue
        if longest is None or match[1] - match[0] > longest[1] - longest[0]:
            longest = match
    return longest


def _following(after: bytes) -> tuple[bytes, ...]:
    """Return the signs that may stand at each of three places after a phrase's first word.

    A blank is one or more, so that behind one each later sign may stand at each place.
    """
    signs = [
        _WHITE if sign == SPACE else bytes([sign]).lower() + bytes([sign]).upper()
        for sign in after[:3]
    ]
    signs += [bytes(range(256))] * 3
    return tuple(b"".join(signs[0 if b" " in after[:at] else at : at + 1]) for at in range(3))


def _spellings(term: str) -> Iterator[bytes]:
    """Yield a term in lower case with either apostrophe, and beyond ASCII in every case and form."""
    cases = {term.lower()} if term.isascii() else {term.lower(), term.title(), term.upper()}
    cases |= {case.replace("'", "’") for case in cases}
    forms = {case for case in cases if case.isascii()}
    for case in cases - forms:
        forms |= {unicodedata.normalize(form, case) for form in ("NFC", "NFD")}
    for spelling in sorted(forms):
        yield spelling.encode().translate(_LOWER)


def _bucket(low: Words) -> Ints:
    """Return the place of each word in the table of likely words."""
    return ((low * _MIX) >> np.uint64(48)).view(np.int64)
