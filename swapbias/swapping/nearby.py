"""What stands directly beside "her" and "his": in nearly every place that is all the decision depends on.

A key holds the word or sign before, in lower case, and the one after as it is written. Two places with the same key
are decided alike, so that a decision is worked out once and then looked up.
"""

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import Bytes, Ints, signs_of

_WORD = 16  # letters of the longest word that a key holds
_WIDE = _WORD + 2  # with the sign before a word, or the space before and the sign after it
HER, HIS = 1, 3  # kinds of keys; the next number is that of the word with a capital
_COLUMNS = np.arange(_WIDE + 1, dtype=np.uint8)
_BLANK, _SIGN, _JOINS = np.zeros(256, dtype=bool), np.zeros(256, dtype=bool), np.zeros(256, dtype=bool)
_BLANK[list(b" \t\n\r")] = True
_SIGN[list(b".,;:!?)")] = True  # no part of a word, and none that opens a quotation or names an alternative
_JOINS[list(b"0123456789_")] = True  # what beside a word may make it another one
_JOINS[128:] = True
_OTHER = np.isin(np.arange(256), list(b"abcdefghijklnopqtuvwxyz"))  # letters that none of these pronouns ends with
_APOSTROPHE = np.arange(256) == ord("'")
_FURTHER = (b"or", b"and")
_NOT_AFTER = frozenset({b"neu", b"ii", b"bundle", b"purkinje", b"electrogram", b"system"})


def keys_of(buffer: bytes, start: Ints, end: Ints, first: Ints, last: Ints, kind: Ints) -> list[bytes]:
    """A key for each place, blank where what stands beside it is nothing simple.

    Args:
        buffer: the text, padded.
        start, end: of the pronouns, (n,).
        first, last: of the row that each stands in.
        kind: a number below 255 that is part of the key; 0 makes a blank key.
    """
    signs = signs_of(buffer)
    gap = start - 1 - _BLANK[signs[start - 2]]  # where the space or two before the pronoun begin
    windows: Bytes = np.ndarray((len(buffer) - _WIDE, _WIDE + 1), np.uint8, buffer, strides=(1, 1))
    seen = windows[np.maximum(gap - _WIDE, 0)][:, :-1]
    before, left = _before(seen * (_few(gap - first)[:, None] > _COLUMNS[-2::-1]))
    after, right = _after(windows[end] * (_few(last - end)[:, None] > _COLUMNS))
    told = (kind > 0) & left & right & _BLANK[signs[start - 1]] & (gap > first) & (gap >= _WIDE)
    keys = np.concatenate([kind[:, None].astype(np.uint8), before, after], axis=1)
    keys[~told] = 0
    found: list[bytes] = keys.view(f"S{keys.shape[1]}").ravel().tolist()
    return found


def words_of(key: bytes) -> tuple[int, str, str] | None:
    """The kind of a key and the words before and after; None where the decision needs more than these.

    "her or his" needs more, and with a capital or in capitals "HER neu" and "bundle of His".
    """
    before, after = key[1 : 1 + _WIDE].strip(b"\0"), key[1 + _WIDE :].strip(b"\0")
    if not key or after.lower() in _FURTHER:
        return None
    if key[0] in (HER + 1, HIS + 1) and (before == b"of" or after.lower() in _NOT_AFTER):
        return None
    return key[0], before.decode(), after.decode()


def _few(numbers: Ints) -> Bytes:
    """Numbers as bytes, where more than a key is wide means as much as any more."""
    return np.clip(numbers, 0, 255).astype(np.uint8)


def _before(seen: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """The word or sign at the right end of each line, in lower case; and whether there is a simple one."""
    letters = _letters(seen)
    length = np.argmin(letters[:, ::-1], axis=1)  # 0 also where all are letters: too long
    told = np.where(length > 0, ~_at(_JOINS | _APOSTROPHE, seen, _WIDE - 1 - length), _SIGN[seen[:, -1]])
    seen = np.where(letters, seen | 32, seen)
    inside = _few(_WIDE - np.maximum(length, 1))[:, None] <= _COLUMNS[:-1]
    return seen * inside, told & ~_joined(seen, length)


def _joined(seen: Bytes, length: Ints) -> NDArray[np.bool_]:
    """Where the word is "or" or "and" and what stands before it may be "her", "hers", "his" or "him"."""
    one, other = (np.all(seen[:, -len(word) :] == list(word), axis=1) & (length == len(word)) for word in _FURTHER)
    length = np.minimum(length, _WIDE - 2)
    apart = _at(_BLANK, seen, _WIDE - 1 - length) & _at(_OTHER, seen, _WIDE - 2 - length)
    joined: NDArray[np.bool_] = (one | other) & ~apart
    return joined


def _after(seen: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """The sign at the left end of each line, or the word after a space there; and whether there is one."""
    sign = _SIGN[seen[:, 0]]
    length = np.argmin(_letters(seen[:, 1:]), axis=1)
    word = (length > 0) & _BLANK[seen[:, 0]] & ~_at(_JOINS, seen, length + 1)
    inside = (~sign[:, None] <= _COLUMNS) & (_few(np.where(sign, 0, length))[:, None] >= _COLUMNS)
    return seen * inside, sign | word


def _letters(seen: Bytes) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (seen | 32) - np.uint8(97) < 26
    return found


def _at(which: NDArray[np.bool_], seen: Bytes, column: Ints) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = which[seen[np.arange(len(seen)), column]]
    return found
