"""Tell by the bytes beside a term whether its context must be read: many terms at once."""

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import MASKS, SPACE, Ints, eights
from swapbias.swapping.gendered import ADDRESS_SIGNS
from swapbias.swapping.matches import Text
from swapbias.swapping.rule_tables import word_list

IS_BLANK = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))
"""Whether each byte is a blank, (256,)."""
_IS_ADDRESS_SIGN = np.isin(np.arange(256), [ord(sign) for sign in ADDRESS_SIGNS])
"""Whether each byte is a sign that may make the term beside it part of an address, (256,)."""
# Signs beside "he" where it may be the code of a language.
_IS_LIST_SIGN = np.isin(np.arange(256), list(b",;:=([{\"'>"))

# Letters before the last one of "Dr", "Mrs" and "Miss".
_IS_BEFORE_END = np.isin(np.arange(256), list(b"DMrs"))
_ENDS_CELL = np.isin(np.arange(256), list(b"|,;\t\n\r\"'"))
_IS_LETTER = np.array([chr(byte).isalpha() and byte < 128 for byte in range(256)])


def _ends(words: frozenset[str]) -> NDArray[np.uint64]:
    """Return the last three letters of words with a blank behind them, packed as ``_packed`` packs starts."""
    return np.array(
        [int.from_bytes(f"{word} ".encode(), "little") for word in sorted(words)], np.uint64
    )


def _packed(words: frozenset[str], length: int) -> NDArray[np.uint64]:
    """Return the first bytes of words behind a blank, each packed in a number: compared with the text at once."""
    starts = [f" {word} ".encode()[:length] for word in sorted(words)]
    return np.array([int.from_bytes(start, "little") for start in starts], np.uint64)


# The first bytes of words after which "He" is helium, or "he" Spanish, and short words before it.
_HELIUM = _packed(word_list("helium_words"), 4)
_BEFORE_SON = _ends(word_list("before_english_son"))
_SPANISH_BEFORE = _packed(word_list("before_spanish_he"), 4)
_SPANISH = _packed(word_list("participles_after_he"), 6)


def _among(packed: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell which packed bytes are among those of a few words, (n,): faster than ``np.isin``."""
    among: NDArray[np.bool_] = (packed[:, None] == words).any(axis=1)
    return among


def is_odd_he(text: Text, indices: Ints, is_capital: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which "he" may be something else: "s/he", "He gas", "3-He", "he" of a list of languages, Spanish.

    Args:
        text: the rows and their terms.
        indices: the matches that are "he", (n,).
        is_capital: whether each is written "He", (n,).
    """
    signs = text.signs
    start = text.matches.start[indices]
    end = text.matches.end[indices]
    previous = signs[start - 1]
    following = signs[end]
    before = np.where(previous == SPACE, signs[start - 2], previous)
    words = eights(text.buffer)
    behind = words[end]
    is_last = end == text.offsets[text.rows[indices] + 1]
    odd: NDArray[np.bool_] = (before == ord("/")) | (previous == ord(")"))
    odd |= is_capital & _among(behind & MASKS[4], _HELIUM)
    # "the He scan", "he" of another language behind a short word: "me he caído".
    odd |= is_capital & (previous == SPACE) & _IS_LETTER[before]
    odd |= _among(words[start - 4] & MASKS[4], _SPANISH_BEFORE)
    odd |= _among(behind & MASKS[6], _SPANISH)
    odd |= _IS_LIST_SIGN[before] & (_IS_LIST_SIGN[following] | is_last)
    odd |= (previous == ord("-")) | (following == ord("-")) | (following == ord("_"))
    return odd


def has_odd_sign(text: Text, is_capital: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which terms may be part of an address, or a surname behind a title ("Dr. He", "Ms Boy"), (matches,).

    Args:
        text: the rows and their terms.
        is_capital: whether each is in title case, (matches,).
    """
    signs = text.signs
    start = text.matches.start
    end = text.matches.end
    odd: NDArray[np.bool_] = _IS_ADDRESS_SIGN[signs[start - 1]]
    odd |= _IS_ADDRESS_SIGN[signs[end]] & ~IS_BLANK[signs[end + 1]]
    in_title_case = np.flatnonzero(is_capital & (signs[start - 1] == SPACE))
    first = start[in_title_case]
    has_stop = signs[first - 2] == ord(".")
    last = signs[first - 2 - has_stop]
    before = signs[first - 3 - has_stop]
    ends_title = ((last == ord("r")) | (last == ord("s"))) & _IS_BEFORE_END[before]
    ends_title |= (last == ord("f")) & (before == ord("o"))
    odd[in_title_case] |= ends_title
    return odd


def is_odd_son(text: Text, indices: Ints) -> NDArray[np.bool_]:
    """Tell which "son" may be a word of another language: no English word such as "his" stands before it.

    Args:
        text: the rows and their terms.
        indices: the matches that are "son", (n,).
    """
    before = eights(text.buffer)[text.matches.start[indices] - 4]
    return ~_among(before & MASKS[4], _BEFORE_SON)


def may_be_cell(text: Text, indices: Ints) -> NDArray[np.bool_]:
    """Tell which capital letters may be all that a cell of a table holds: ", F;", "| M |".

    Args:
        text: the rows and their terms.
        indices: the matches that are letters, (n,).
    """
    signs = text.signs
    start = text.matches.start[indices]
    end = text.matches.end[indices]
    row = text.rows[indices]
    previous = signs[start - 1]
    following = signs[end]
    blank_after = (following == SPACE) & ~_IS_LETTER[signs[end + 1]]
    cell: NDArray[np.bool_] = signs[start] < ord("a")
    cell &= _ENDS_CELL[previous] | (previous == SPACE) | (start == text.offsets[row])
    cell &= _ENDS_CELL[following] | blank_after | (end + 1 >= text.offsets[row + 1])
    return cell
