"""Fold a buffer of UTF-8 text to letters in lower case and spaces, and find its words, many bytes at once."""

import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
"""Eight bytes each, as one number whose lowest byte is the first."""
SPACE = 32
PAD = 24
"""Spaces after a text: what is looked at around a term never leaves the buffer, and nothing is copied for it."""
MASKS = np.array([(1 << (8 * length)) - 1 for length in range(9)], dtype=np.uint64)
"""Masks of the first bytes of eight, by how many."""
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_SPACES, _ONES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (SPACE, 1, 128))


def _folded_byte(byte: int) -> int:
    """Return a letter in lower case, a byte of another alphabet as it is, and for everything else a space."""
    if byte >= 128:
        return byte
    lower = byte | 32
    return lower if byte >= ord("A") and lower in _LETTERS else SPACE


_FOLD = bytes(_folded_byte(byte) for byte in range(256))


def fold(buffer: bytes) -> bytes:
    """Return a buffer with letters in lower case and every other sign a space; the same length, byte for byte.

    >>> fold("He’s 45F, Ms.".encode())
    b'he   s   f  ms '

    Args:
        buffer: UTF-8 text.
    """
    return bytes(folded(padded(buffer))[: len(buffer)])


def padded(text: bytes | memoryview) -> bytes:
    """Return a text and ``PAD`` spaces.

    Args:
        text: UTF-8 text.
    """
    return b"".join((text, b" " * PAD))


def folded(buffer: bytes) -> bytes | bytearray:
    """Return ``fold`` of a padded buffer, padded too.

    Args:
        buffer: as ``padded`` returns it.
    """
    letters = buffer.translate(_FOLD)
    return letters if buffer.isascii() else _without_signs(bytearray(letters))


def _without_signs(letters: bytearray) -> bytearray:
    """Make signs beyond ASCII spaces too, in place; of the many alike ("’", "é") each is looked at once."""
    signs = signs_of(letters)
    beyond = np.flatnonzero(signs >= 128)
    first = beyond[np.diff(beyond, prepend=-2) > 1]
    last = beyond[np.diff(beyond, append=len(signs) + 1) > 1]
    lengths = last - first + 1
    is_long = lengths > 8
    for start, length in zip(first[is_long].tolist(), lengths[is_long].tolist(), strict=True):
        run = bytes(letters[start : start + length])
        letters[start : start + length] = _letters_of(run)
    first = first[~is_long]
    lengths = lengths[~is_long]
    runs, index = np.unique(eights(letters)[first] & MASKS[lengths], return_inverse=True)
    kept = [_letters_of(run.to_bytes(8, "little").rstrip(b"\0")) for run in runs.tolist()]
    filled = np.array([word.ljust(8) for word in kept], dtype="S8")
    replacements = filled.view(np.uint8).reshape(-1, 8)
    for column in range(8):
        inside = lengths > column
        signs[first[inside] + column] = replacements[index[inside], column]
    return letters


@lru_cache(maxsize=1 << 14)
def _letters_of(run: bytes) -> bytes:
    """Return a run of bytes beyond ASCII with its letters kept and its signs made spaces."""
    parts = []
    for sign in run.decode("utf-8"):
        encoded = sign.encode()
        parts.append(encoded if is_letter(sign) else b" " * len(encoded))
    return b"".join(parts)


def is_letter(sign: str) -> bool:
    """Tell whether a sign is a letter or a mark on one; empty text is none.

    Args:
        sign: one character, or none.
    """
    return bool(sign) and unicodedata.category(sign)[0] in "LM"


def signs_of(padded: bytes | bytearray) -> Bytes:
    """Return the bytes of a buffer as an array, not copied.

    Args:
        padded: as ``padded`` returns it.
    """
    return np.frombuffer(padded, dtype=np.uint8)


def eights(padded: bytes | bytearray) -> Words:
    """Return the eight bytes that begin at each place, not copied.

    Args:
        padded: as ``padded`` returns it.
    """
    return np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))


def within_word(words: Words) -> Words:
    """Return masks of the bytes before the first space.

    The lowest zero byte of x has the lowest bit of (x - 1) & ~x.

    Args:
        words: eight bytes each, (n,).
    """
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
    """Return the ends of rows with a letter on either side: each ends one word and begins another.

    Args:
        signs: folded bytes.
        offsets: where rows begin, and where the last ends, (rows + 1,).
    """
    inner = offsets[1:-1]
    cuts: Ints = np.unique(inner[(signs[inner] != SPACE) & (signs[inner - 1] != SPACE)])
    return cuts


def starts_of(signs: Bytes, begin: int, end: int, cuts: Ints) -> Ints:
    """Return the starts of all runs of letters; a row that is cut in a word begins another.

    Args:
        signs: folded bytes.
        begin: the first byte that is looked at.
        end: the byte after the last.
        cuts: as ``cuts_of`` returns it, those from ``begin`` to ``end``.
    """
    space = signs[begin:end] == SPACE
    begins = np.empty(end - begin, dtype=bool)
    begins[0] = not space[0] and (begin == 0 or signs[begin - 1] == SPACE)
    np.greater(space[:-1], space[1:], out=begins[1:])  # a space, and then none
    begins[cuts - begin] = True
    starts: Ints = np.flatnonzero(begins)
    starts += begin
    return starts
