"""The form of what stands in for a term: its case, its possessive, and no gap where a term is removed."""

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.matching import Ints, signs_of
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, UNITS, Term

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


def with_possessives(
    buffer: bytes, start: Ints, end: Ints, last: Ints, word_of: Ints, words: list[bytes]
) -> tuple[Ints, Ints]:
    """Plural possessives take their form from the new word: "ladies'" and "gentlemen's".

    Args:
        buffer: the text, padded.
        start, end: of what is replaced, (n,).
        last: end of the row that each stands in, (n,).
        word_of: number of the word that stands in for it, (n,).
        words: all of them; the possessives are added.

    Returns:
        The new ends and the new numbers.
    """
    found, which = end.copy(), word_of.copy()
    following = signs_of(buffer)[end]
    for place in np.flatnonzero((following == _MARKS[0][0]) | (following == _MARKS[1][0])).tolist():
        word, at, bound = words[word_of[place]], int(end[place]), int(last[place])
        mark = next((one for one in _MARKS if buffer.startswith(one, at, bound)), b"")
        if not mark or not word:
            continue
        after = buffer[at + len(mark) : min(at + len(mark) + 2, bound)]
        plural, written = _is_plural(word), _is_plural(buffer[int(start[place]) : at])
        if written and not plural and not after[:1].isalnum():
            words.append(word + mark + (b"S" if word.isupper() else b"s"))
            found[place], which[place] = at + len(mark), len(words) - 1
        elif plural and not written and after[:1] in (b"s", b"S") and not after[1:2].isalnum():
            words.append(word + mark)
            found[place], which[place] = at + len(mark) + 1, len(words) - 1
    return found, which


_MARKS = (b"'", "’".encode())


def _is_plural(word: bytes) -> bool:
    low = word.lower()
    return low.endswith(b"s") and not low.endswith((b"ss", b"his", b"hers", b"ms", b"mrs", b"miss"))


def without_gaps(
    buffer: bytes, offsets: Ints, start: Ints, end: Ints, removed: Ints, titles: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Where a term is removed one space beside it goes as well, and the full stop of a title.

    Args:
        buffer: the text.
        offsets: of its rows.
        start, end: of what is replaced, (n,).
        removed: the places among them where nothing stands in.
        titles: which of all are titles, (n,).
    """
    start, end = start.copy(), end.copy()
    for place in removed.tolist():
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
