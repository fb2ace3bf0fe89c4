"""Find the terms of a table in a buffer of UTF-8 text: all rows at once, one pass, whole words, any case."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
SPACE = 32
PAD = 24  # spaces after a text: what is looked at around a term never leaves the buffer, and nothing is copied for it
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
# Letters in lower case, bytes of other alphabets as they are, everything else a space.
_FOLD = bytes(
    byte if byte >= 128 else byte | 32 if byte >= 65 and byte | 32 in _LETTERS else 32
    for byte in range(256)
)
_SPACES, _ONES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (SPACE, 1, 128))
MASKS = np.array(
    [(1 << (8 * length)) - 1 for length in range(9)], dtype=np.uint64
)  # of the first bytes of eight


def fold(buffer: bytes) -> bytes:
    """The buffer with letters in lower case and every other sign a space; the same length, byte for byte.

    >>> fold("He’s 45F, Ms.".encode())
    b'he   s   f  ms '
    """
    return bytes(folded(padded(buffer))[: len(buffer)])


def padded(text: bytes | memoryview) -> bytes:
    """The text and ``PAD`` spaces."""
    return b"".join((text, b" " * PAD))


def folded(buffer: bytes) -> bytes | bytearray:
    """``fold`` of a padded buffer, padded too."""
    found = buffer.translate(_FOLD)
    return found if buffer.isascii() else _without_signs(bytearray(found))


def _without_signs(letters: bytearray) -> bytearray:
    """Signs beyond ASCII made spaces too, in place; of the many alike ("’", "é") each is looked at once."""
    mended = signs_of(letters)
    beyond = np.flatnonzero(mended >= 128)
    first = beyond[np.diff(beyond, prepend=-2) > 1]
    last = beyond[np.diff(beyond, append=len(mended) + 1) > 1]
    lengths = last - first + 1
    for begin, length in zip(
        first[lengths > 8].tolist(), lengths[lengths > 8].tolist(), strict=True
    ):
        letters[begin : begin + length] = _words_of(bytes(letters[begin : begin + length]))
    first = first[lengths <= 8]
    lengths = lengths[lengths <= 8]
    runs, which = np.unique(eights(letters)[first] & MASKS[lengths], return_inverse=True)
    words = [_words_of(run.to_bytes(8, "little").rstrip(b"\0")) for run in runs.tolist()]
    signs = np.array([word.ljust(8) for word in words], dtype="S8").view(np.uint8).reshape(-1, 8)
    for at in range(8):
        inside = lengths > at
        mended[first[inside] + at] = signs[which[inside], at]
    return letters


@lru_cache(maxsize=1 << 14)
def _words_of(run: bytes) -> bytes:
    """A run of bytes beyond ASCII with its letters kept and its signs made spaces."""
    return b"".join(
        one if is_letter(letter) else b" " * len(one)
        for letter in run.decode("utf-8")
        for one in [letter.encode()]
    )


def is_letter(sign: str) -> bool:
    """Whether a sign is a letter or a mark on one; blank is none."""
    return bool(sign) and unicodedata.category(sign)[0] in "LM"


def signs_of(padded: bytes | bytearray) -> Bytes:
    """The bytes as an array, not copied."""
    return np.frombuffer(padded, dtype=np.uint8)


def eights(padded: bytes | bytearray) -> Words:
    """The eight bytes that begin at each place, as one number whose lowest byte is the first."""
    return np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))


def within_word(words: Words) -> Words:
    """Masks of the bytes before the first space: the lowest zero byte of x has the lowest bit of (x - 1) & ~x."""
    differences = words ^ _SPACES
    ends = differences - _ONES
    np.invert(differences, out=differences)
    ends &= differences
    ends &= _TOPS
    ends &= np.negative(ends, out=differences)  # the lowest bit alone
    ends >>= np.uint64(7)
    ends -= np.uint64(1)  # no space at all: all ones
    return ends


def cuts_of(signs: Bytes, offsets: Ints) -> Ints:
    """Ends of rows with a letter on either side: each ends one word and begins another."""
    inner = offsets[1:-1]
    cuts: Ints = np.unique(inner[(signs[inner] != SPACE) & (signs[inner - 1] != SPACE)])
    return cuts


def starts_of(signs: Bytes, begin: int, end: int, cuts: Ints) -> Ints:
    """Starts of all runs of letters from ``begin`` to ``end``, where a row that is cut in a word begins another."""
    space = signs[begin:end] == SPACE
    begins = np.empty(end - begin, dtype=bool)
    begins[0] = not space[0] and (begin == 0 or signs[begin - 1] == SPACE)
    np.greater(space[:-1], space[1:], out=begins[1:])  # a space, and then none
    begins[cuts - begin] = True
    starts: Ints = np.flatnonzero(begins)
    starts += begin
    return starts


_Letters = bytes | bytearray  # a folded and padded buffer
_STRIDE = 1 << 17  # bytes looked at at once: what is made of them stays in a core's own cache
_KEY = 16  # bytes of a word that are compared at once; the rest of a longer term is compared one by one
_LOWER = bytes(byte | 32 if 65 <= byte <= 90 else byte for byte in range(256))
_WHITE = b" \t\n\r\x0b\x0c"
_IS_DIGIT = np.array([48 <= byte <= 57 for byte in range(256)])
_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a key: Fibonacci hashing


@dataclass(frozen=True, slots=True)
class Matches:
    """Where terms stand: byte offsets ``start`` and ``end`` (n,) and the number of the ``term`` (n,), in order."""

    start: Ints
    end: Ints
    term: Ints

    def at(self, chosen: NDArray[np.bool_]) -> "Matches":
        """Those of the matches."""
        return Matches(self.start[chosen], self.end[chosen], self.term[chosen])


@dataclass(frozen=True, eq=False)
class Text:
    """Rows of text and the terms in them.

    Attributes:
        buffer: the texts, padded. offsets: where each row begins, and where the last one ends (rows + 1,).
        matches: the terms. rows: the row of each, (n,).
    """

    buffer: bytes
    offsets: Ints
    matches: Matches
    rows: Ints

    @cached_property
    def signs(self) -> Bytes:
        """The bytes of the buffer."""
        return signs_of(self.buffer)

    @cached_property
    def case(self) -> Ints:
        """Of each term by its first two letters and the last: 0 lower, 1 capital ("He", "SHe"), 2 upper ("M")."""
        start, end = self.matches.start, self.matches.end
        first, second, last = (
            self.signs[place] for place in (start, np.minimum(start + 1, end - 1), end - 1)
        )
        capital = (first >= 65) & (first <= 90)
        upper = capital & (second >= 65) & (second <= 90) & ((last < 97) | (last > 122))
        found: Ints = capital.astype(np.int64) + upper
        return found

    def beside(self, start: int, end: int, row: int, reach: int) -> tuple[str, str]:
        """What stands before and after a place, so many bytes of its row each; no character that is cut."""
        first = int(self.offsets[row])
        last = int(self.offsets[row + 1])
        before = self.buffer[max(first, start - reach) : start]
        after = self.buffer[end : min(last, end + reach)]
        return before.decode(errors="ignore"), after.decode(errors="ignore")


class Matcher:
    """Finds terms. Where several begin at one place the longest is taken; found terms never overlap."""

    def __init__(self, terms: Sequence[str], *, beside_digits: Collection[str] = ()) -> None:
        """Prepare for terms, distinguished by their number; those of ``beside_digits`` may touch a digit ("45F")."""
        self._beside_digits = np.array([term in beside_digits for term in terms], dtype=bool)
        words = dict[bytes, int]()
        phrases = dict[bytes, list[_Phrase]]()
        for number, term in enumerate(terms):
            for spelling in _spellings(term):
                if fold(spelling) == spelling and b" " not in spelling and len(spelling) <= _KEY:
                    words.setdefault(spelling, number)
                else:
                    letters = fold(spelling)
                    word = letters.split()[0]
                    lead = len(letters) - len(letters.lstrip())
                    after = spelling[lead + len(word) :] if len(word) <= _KEY else b""
                    whole = re.compile(
                        rb"\s+".join(map(re.escape, spelling.split(b" "))), re.IGNORECASE
                    )
                    known = phrases.setdefault(word[:_KEY], [])
                    known.append(_Phrase(lead, whole, number, _following(after)))
        keys = sorted({*words, *phrases})
        self._keys = pa.array([key.ljust(_KEY, b"\0") for key in keys], pa.binary(_KEY))
        self._lengths = np.array([len(key) for key in keys], dtype=np.int64)
        self._term = np.array([words.get(key, -1) for key in keys], dtype=np.int64)
        self._phrases = {place: phrases[key] for place, key in enumerate(keys) if key in phrases}
        self._opens_phrase = np.zeros(
            (3, len(keys), 256), dtype=bool
        )  # by key and each of the three signs after it
        for place, few in self._phrases.items():
            for phrase in few:
                for sign, following in zip(self._opens_phrase, phrase.following, strict=True):
                    sign[place, list(following)] = True
        self._likely = np.zeros(
            1 << 16, dtype=bool
        )  # tells most words from every term at one glance
        first = [int.from_bytes(key[:8], "little") for key in keys]
        self._likely[_bucket(np.array(first, dtype=np.uint64))] = True

    def find(self, buffer: bytes, offsets: Ints) -> Matches:
        """Matches in a ``padded`` buffer whose rows begin at ``offsets`` (rows + 1 values, the last is the end)."""
        letters = folded(buffer)
        cuts = cuts_of(signs_of(letters), offsets)
        found, key = self._known(
            letters, *self._likely_words(letters, int(offsets[-1]), cuts), cuts
        )
        if self._phrases:
            found = self._with_phrases(buffer, offsets, found, key)
        return self._beside_no_digits(buffer, offsets, found.at(found.term >= 0))

    def _likely_words(self, letters: _Letters, size: int, cuts: Ints) -> tuple[Ints, Words]:
        """Starts and first eight letters of the words that may be keys: about one in fifty of all words."""
        signs = signs_of(letters)
        words = eights(letters)
        bounds = [*range(0, size, _STRIDE), size]
        first = np.searchsorted(cuts, bounds).tolist()
        parts = [(cuts[:0], words[:0])]
        for begin, end, a, b in zip(bounds, bounds[1:], first, first[1:], strict=False):
            starts = starts_of(signs, begin, end, cuts[a:b])
            low = words[starts]
            low &= within_word(low)
            if len(near := cuts[a : b + 1]) and len(
                starts
            ):  # a word ends where its row does: before these
                before = np.searchsorted(starts, near) - 1
                near = near[before >= 0]
                before = before[before >= 0]
                low[before] &= MASKS[np.minimum(near - starts[before], 8)]
            likely = np.flatnonzero(self._likely[_bucket(low)])
            parts.append((starts[likely], low[likely]))
        return np.concatenate([start for start, _ in parts]), np.concatenate(
            [low for _, low in parts]
        )

    def _known(
        self, letters: _Letters, starts: Ints, low: Words, cuts: Ints
    ) -> tuple[Matches, Ints]:
        """The words whose first 16 bytes are a key, with the place of the key; a longer word is no term itself."""
        rest = eights(letters)[starts + 8]
        mask = within_word(rest)
        mask[low >> np.uint64(56) == 0] = 0
        stops = np.append(cuts, len(letters))
        room = stops[np.searchsorted(stops, starts, side="right")] - starts
        mask &= MASKS[np.clip(room - 8, 0, 8)]
        high = rest & mask
        words = pa.Array.from_buffers(
            pa.binary(_KEY), len(low), [None, pa.py_buffer(np.stack([low, high], axis=1))]
        )
        key: Ints = pc.fill_null(pc.index_in(words, self._keys), -1).to_numpy().astype(np.int64)
        same = np.flatnonzero(key >= 0)
        starts = starts[same]
        low = low[same]
        high = high[same]
        room = room[same]
        key = key[same]
        goes_on = (
            (high >> np.uint64(56) != 0)
            & (signs_of(letters)[starts + _KEY] != SPACE)
            & (room > _KEY)
        )
        lengths = self._lengths[key]
        return Matches(starts, starts + lengths, np.where(goes_on, -1, self._term[key])), key

    def _with_phrases(self, buffer: bytes, offsets: Ints, found: Matches, key: Ints) -> Matches:
        """The matches with those of phrases among them; a word inside a phrase is no match of its own."""
        longer: list[tuple[int, int, int]] = []
        signs = signs_of(buffer)
        after = found.start + self._lengths[key]
        places = np.arange(len(key))
        for at, opens in enumerate(self._opens_phrase):
            places = places[opens[key[places], signs[after[places] + at]]]
        for place in places.tolist():
            start = int(found.start[place])
            row = int(np.searchsorted(offsets, start, side="right"))
            bounds = int(offsets[row - 1]), int(offsets[row])
            fitting = [
                phrase.at(buffer, start, bounds) for phrase in self._phrases[int(key[place])]
            ]
            known = [one for one in fitting if one is not None]
            longest = max(known, key=lambda one: one[1] - one[0], default=None)
            if longest and (
                not longer or longest[0] >= longer[-1][1]
            ):  # of phrases that overlap the earlier
                longer.append(longest)
        if not longer:
            return found
        begin, end, term = np.array(longer, dtype=np.int64).T
        before = np.searchsorted(begin, found.start, side="right") - 1
        single = found.at((before < 0) | (found.start >= end[before]))
        pairs = (single.start, begin), (single.end, end), (single.term, term)
        starts, ends, terms = (np.concatenate(pair) for pair in pairs)
        order = np.argsort(starts, kind="stable")
        return Matches(starts[order], ends[order], terms[order])

    def _beside_no_digits(self, buffer: bytes, offsets: Ints, found: Matches) -> Matches:
        """Without terms that touch a digit of their row: "HER2" is no pronoun."""
        signs = signs_of(buffer)
        beside = _IS_DIGIT[signs[found.start - 1]] | _IS_DIGIT[signs[found.end]]
        places = np.flatnonzero(beside & ~self._beside_digits[found.term])
        start, end = found.start[places], found.end[places]
        row = np.searchsorted(offsets, start, side="right")
        before = _IS_DIGIT[signs[start - 1]] & (start > offsets[row - 1])
        kept = np.ones(len(found.start), dtype=bool)
        kept[places] = ~(before | (_IS_DIGIT[signs[end]] & (end < offsets[row])))
        return found.at(kept)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A term of several words or with signs in it, compared in full where its first word stands."""

    lead: int
    """Bytes before the first word."""
    pattern: re.Pattern[bytes]
    number: int
    following: tuple[bytes, ...]
    """What may stand first, second and third after the first word, or 16 bytes of it."""

    def at(self, buffer: bytes, start: int, bounds: tuple[int, int]) -> tuple[int, int, int] | None:
        """(start, end, number) where the phrase stands within the row, as whole words."""
        begin = start - self.lead
        found = self.pattern.match(buffer, begin, bounds[1]) if begin >= bounds[0] else None
        if found is None:
            return None
        end = found.end()
        # A slice may cut a character at either end: what is left of it is no part of the question.
        last = buffer[max(begin, end - 4) : end].decode(errors="ignore")[-1:]
        following = buffer[end : min(end + 4, bounds[1])].decode(errors="ignore")[:1]
        goes_on = is_letter(last) and is_letter(following)
        return None if goes_on else (begin, end, self.number)


def _following(after: bytes) -> tuple[bytes, ...]:
    """What may stand at each of three places after a phrase's first word: a blank is one or more."""
    signs = [
        _WHITE if sign == SPACE else bytes([sign]).lower() + bytes([sign]).upper()
        for sign in after[:3]
    ]
    signs += [bytes(range(256))] * 3
    return tuple(b"".join(signs[0 if b" " in after[:at] else at : at + 1]) for at in range(3))


def _spellings(term: str) -> Iterator[bytes]:
    """A term in lower case with either apostrophe, and where it has letters beyond ASCII in every case and form."""
    cases = {term.lower()} if term.isascii() else {term.lower(), term.title(), term.upper()}
    cases |= {case.replace("'", "’") for case in cases}
    forms = {unicodedata.normalize(form, case) for case in cases for form in ("NFC", "NFD")}
    for spelling in sorted(forms):
        yield spelling.encode().translate(_LOWER)


def _bucket(low: Words) -> Ints:
    return ((low * _MIX) >> np.uint64(48)).view(np.int64)
