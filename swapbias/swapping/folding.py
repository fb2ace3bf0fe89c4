"""Text as bytes of letters and spaces, and its words as numbers: what finding terms is fast on."""

import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
SPACE = 32
PAD = 24  # spaces after a text: what is looked at around a term never leaves the buffer, and nothing is copied for it
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
# Letters in lower case, bytes of other alphabets as they are, everything else a space.
_FOLD = bytes(
    byte if byte >= 128 else byte | 32 if byte >= 65 and byte | 32 in _LETTERS else 32 for byte in range(256)
)
_SPACES, _ONES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (SPACE, 1, 128))
MASKS = np.array([(1 << (8 * length)) - 1 for length in range(9)], dtype=np.uint64)  # of the first bytes of eight


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
    for begin, length in zip(first[lengths > 8].tolist(), lengths[lengths > 8].tolist(), strict=True):
        letters[begin : begin + length] = _words_of(bytes(letters[begin : begin + length]))
    first, lengths = first[lengths <= 8], lengths[lengths <= 8]
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
        one if is_letter(letter) else b" " * len(one) for letter in run.decode("utf-8") for one in [letter.encode()]
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
    apart = words ^ _SPACES
    ends = apart - _ONES
    np.invert(apart, out=apart)
    ends &= apart
    ends &= _TOPS
    ends &= np.negative(ends, out=apart)  # the lowest bit alone
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
