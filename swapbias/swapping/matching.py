"""Find the terms of a table in a buffer of UTF-8 text: all rows at once, one pass, whole words, any case."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
_KEY = 16  # bytes of a word that are compared at once; the rest of a longer term is compared one by one
_SPACE = 32
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
# Letters in lower case, bytes of other alphabets as they are, everything else a space.
_FOLD = bytes(
    byte if byte >= 128 else byte | 32 if byte >= 65 and byte | 32 in _LETTERS else 32 for byte in range(256)
)
_LOWER = bytes(byte | 32 if 65 <= byte <= 90 else byte for byte in range(256))
_IS_DIGIT = np.array([48 <= byte <= 57 for byte in range(256)])
_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the bits of a key: Fibonacci hashing
_MASKS = np.array([(1 << (8 * length)) - 1 for length in range(9)], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Matches:
    """Where terms stand: byte offsets ``start`` and ``end`` (n,) and the number of the ``term`` (n,), in order."""

    start: Ints
    end: Ints
    term: Ints


def fold(buffer: bytes) -> bytes:
    """The buffer with letters in lower case and every other sign a space; the same length, byte for byte.

    >>> fold("He’s 45F, Ms.".encode())
    b'he   s   f  ms '
    """
    folded = buffer.translate(_FOLD)
    if buffer.isascii():
        return folded
    mended = bytearray(folded)
    beyond = np.flatnonzero(np.frombuffer(folded, dtype=np.uint8) >= 128)
    for run in np.split(beyond, np.flatnonzero(np.diff(beyond) > 1) + 1):
        start, end = int(run[0]), int(run[-1]) + 1
        mended[start:end] = _words_of(folded[start:end])
    return bytes(mended)


@cache
def _words_of(run: bytes) -> bytes:
    """A run of bytes beyond ASCII with its letters kept and its signs made spaces."""
    return b"".join(
        one if _is_letter(letter) else b" " * len(one) for letter in run.decode("utf-8") for one in [letter.encode()]
    )


class Matcher:
    """Finds terms. Where several begin at one place the longest is taken; found terms never overlap."""

    def __init__(self, terms: Sequence[str], *, beside_digits: Collection[str] = ()) -> None:
        """Prepare for terms, told apart by their number; those of ``beside_digits`` may touch a digit ("45F")."""
        self._beside_digits = np.array([term in beside_digits for term in terms], dtype=bool)
        self._phrases: dict[int, list[_Phrase]] = {}
        words: dict[bytes, int] = {}
        phrases: dict[bytes, list[_Phrase]] = {}
        for number, term in enumerate(terms):
            for spelled in _spellings(term):
                if fold(spelled) == spelled and b" " not in spelled and len(spelled) <= _KEY:
                    words.setdefault(spelled, number)
                else:
                    phrase = _Phrase.of(spelled, number)
                    phrases.setdefault(phrase.first[:_KEY], []).append(phrase)
        self._prepare(sorted({*words, *phrases}), words, phrases)

    def _prepare(self, keys: list[bytes], words: dict[bytes, int], phrases: "dict[bytes, list[_Phrase]]") -> None:
        halves = sorted((_number(key[:8]), _number(key[8:]), key) for key in keys)
        self._first = np.array([first for first, _, _ in halves], dtype=np.uint64)
        self._second = np.array([second for _, second, _ in halves], dtype=np.uint64)
        self._term = np.array([words.get(key, -1) for _, _, key in halves], dtype=np.int64)
        self._phrases = {place: phrases[key] for place, (_, _, key) in enumerate(halves) if key in phrases}
        self._alike = int(np.unique(self._first, return_counts=True)[1].max()) - 1
        self._likely = np.zeros(1 << 16, dtype=bool)  # tells most words from every term at one glance
        self._likely[_bucket(self._first)] = True

    def find(self, buffer: bytes, offsets: Ints) -> Matches:
        """Matches in a buffer whose rows begin at ``offsets`` (rows + 1 values, the last is the end)."""
        padded = fold(buffer) + b" " * (_KEY + 8)
        starts, lengths = _words(np.frombuffer(padded, dtype=np.uint8), len(buffer), offsets)
        starts, lengths, key = self._known(padded, starts, lengths)
        number = self._term[key]
        found = Matches(starts, starts + lengths, number)
        if self._phrases:
            found = self._with_phrases(buffer, offsets, found, key)
        return self._apart_from_digits(buffer, offsets, _chosen(found, found.term >= 0))

    def _known(self, padded: bytes, starts: Ints, lengths: Ints) -> tuple[Ints, Ints, Ints]:
        """The words whose first 16 bytes are a key, with their lengths and the place of the key."""
        eights: Words = np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))
        low = eights[starts] & _MASKS[np.minimum(lengths, 8)]
        likely = self._likely[_bucket(low)]
        starts, lengths, low = starts[likely], lengths[likely], low[likely]
        high = eights[starts + 8] & _MASKS[np.clip(lengths - 8, 0, 8)]
        key = self._place(low, high)
        same = (self._first[key] == low) & (self._second[key] == high)
        return starts[same], lengths[same], key[same]

    def _place(self, low: Words, high: Words) -> Ints:
        """Where a key may stand among the keys, sorted by their halves; few share the first ("grandfather")."""
        last = len(self._first) - 1
        place = np.minimum(np.searchsorted(self._first, low), last)
        for _ in range(self._alike):
            onward = np.minimum(place + 1, last)
            wrong = (self._second[place] != high) & (self._first[onward] == low)
            place = np.where(wrong, onward, place)
        return place

    def _with_phrases(self, buffer: bytes, offsets: Ints, found: Matches, key: Ints) -> Matches:
        """The matches with those of phrases among them; a word inside a phrase is no match of its own."""
        longer = []
        for place in np.flatnonzero(np.isin(key, list(self._phrases))):
            start = int(found.start[place])
            row = int(np.searchsorted(offsets, start, side="right"))
            bounds = int(offsets[row - 1]), int(offsets[row])
            fitting = [phrase.at(buffer, start, bounds) for phrase in self._phrases[int(key[place])]]
            known = [one for one in fitting if one is not None]
            if known:
                longer.append(max(known, key=lambda one: one[1] - one[0]))
        return _merged(found, longer)

    def _apart_from_digits(self, buffer: bytes, offsets: Ints, found: Matches) -> Matches:
        """Without terms that touch a digit of their row: "HER2" is no pronoun."""
        signs = np.frombuffer(buffer + b"  ", dtype=np.uint8)
        row = np.searchsorted(offsets, found.start, side="right")
        before = _IS_DIGIT[signs[found.start - 1]] & (found.start > offsets[row - 1])
        after = _IS_DIGIT[signs[found.end]] & (found.end < offsets[row])
        return _chosen(found, ~(before | after) | self._beside_digits[found.term])


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A term of several words or with signs in it, compared in full where its ``first`` word stands."""

    first: bytes
    lead: int  # bytes before the first word
    pattern: re.Pattern[bytes]
    number: int

    @classmethod
    def of(cls, spelled: bytes, number: int) -> "_Phrase":
        folded = fold(spelled)
        lead = len(folded) - len(folded.lstrip(b" "))
        text = rb"\s+".join(re.escape(part) for part in spelled.split(b" "))
        return cls(folded[lead:].split(b" ")[0], lead, re.compile(text, re.IGNORECASE), number)

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
        goes_on = _is_letter(last) and _is_letter(following)
        return None if goes_on else (begin, end, self.number)


def _is_letter(sign: str) -> bool:
    return bool(sign) and unicodedata.category(sign)[0] in "LM"


def _spellings(term: str) -> Iterator[bytes]:
    """A term in lower case, and where it has letters beyond ASCII in every case and composition."""
    cases = {term.lower()} if term.isascii() else {term.lower(), term.title(), term.upper()}
    forms = {unicodedata.normalize(form, case) for case in cases for form in ("NFC", "NFD")}
    for spelled in sorted(forms):
        yield spelled.encode().translate(_LOWER)


def _number(part: bytes) -> int:
    return int.from_bytes(part[:8], "little")


def _words(signs: NDArray[np.uint8], size: int, offsets: Ints) -> tuple[Ints, Ints]:
    """Starts and lengths of all runs of letters; a run ends with its row."""
    spaces = np.flatnonzero(signs[: size + 1] == _SPACE)
    gaps = np.diff(spaces, prepend=-1)
    word = np.flatnonzero(gaps > 1)
    lengths = gaps[word] - 1
    starts = spaces[word] - lengths
    inner = offsets[1:-1]
    cuts = inner[(signs[inner] != _SPACE) & (signs[inner - 1] != _SPACE)]  # a letter on either side of a row's end
    if not len(cuts):
        return starts, lengths
    cuts = np.unique(cuts)  # each ends one word and begins another
    begins = np.sort(np.concatenate([starts, cuts]), kind="stable")
    ends = np.sort(np.concatenate([starts + lengths, cuts]), kind="stable")
    return begins, ends - begins


def _bucket(low: Words) -> Words:
    return (low * _MIX) >> np.uint64(48)


def _chosen(found: Matches, kept: NDArray[np.bool_]) -> Matches:
    return Matches(found.start[kept], found.end[kept], found.term[kept])


def _merged(found: Matches, longer: Sequence[tuple[int, int, int]]) -> Matches:
    """Single words and phrases in order; the earlier and then the longer one wins where they overlap."""
    if not longer:
        return found
    single = zip(found.start.tolist(), found.end.tolist(), found.term.tolist(), strict=True)
    kept: list[tuple[int, int, int]] = []
    for one in sorted([*(one for one in single if one[2] >= 0), *longer], key=lambda one: (one[0], -one[1])):
        if not kept or one[0] >= kept[-1][1]:
            kept.append(one)
    start, end, term = (np.array(column, dtype=np.int64) for column in zip(*kept, strict=True))
    return Matches(start, end, term)
