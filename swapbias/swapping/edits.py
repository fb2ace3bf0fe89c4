"""Replacements in a block of text, and what they change in the signs and words beside them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import Ints
from swapbias.swapping.matches import Text

_APOSTROPHES = (b"'", "’".encode())
_OR = re.compile(rb"\s?/\s?|\s+(?:and\s?/\s?)?or\s+", re.IGNORECASE)
_SINGULAR = frozenset({b"his", b"hers", b"ms", b"mrs", b"sis"})  # that end in s
_LONGEST_OR = 10  # bytes
_OPENS_BRACKET = re.compile(rb"\s?/?\s?\((?:or\s)?", re.IGNORECASE)
_THIRD = re.compile(rb"\s?/\s?(they|them|theirs?)\b", re.IGNORECASE)  # "he/she/they"
_BETWEEN_TITLES = re.compile(rb"\.?\s?(?:/|&|,|\band\b|\bor\b)\s?", re.IGNORECASE)


@dataclass(slots=True)
class Edits:
    """Replacements in a block."""

    places: Ints
    """In order, (6, n): where each begins and ends (bytes), the number of the new word, the row of the text, the side
    (-1, 1; 0 of both), and the term (-1: a verb or an article)."""
    words: list[bytes]
    """New words, by number."""
    counts: Counter[str]
    """How often each replacement was made, as "he -> she"."""

    def insert(self, added: Ints, words: Sequence[bytes], counts: Counter[str]) -> None:
        """Add replacements, and put all in the order of the text.

        Args:
            added: as ``places``, (6, n); the numbers of their words are set here.
            words: the new word of each.
            counts: how often each was made.
        """
        places = np.concatenate([self.places, added], axis=1)
        places[2, -len(words) :] = len(self.words) + np.arange(len(words))
        self.places = places[:, np.argsort(places[0], kind="stable")]
        self.words += words
        self.counts += counts


def add_possessives(text: Text, edits: Edits) -> None:
    """Give plural possessives the form of the new word: "ladies'" and "gentlemen's".

    Args:
        text: the rows and their terms.
        edits: the replacements; ends and words are changed in place.
    """
    start, end, number, row, _, _ = edits.places
    following = text.signs[end]
    is_apostrophe = (following == _APOSTROPHES[0][0]) | (following == _APOSTROPHES[1][0])
    for index in np.flatnonzero(is_apostrophe).tolist():
        new = edits.words[number[index]]
        row_end = int(text.offsets[row[index] + 1])
        mark = _apostrophe_at(text.buffer, int(end[index]), row_end)
        if not mark or not new:
            continue
        mark_end = int(end[index]) + len(mark)
        after = text.buffer[mark_end : min(mark_end + 2, row_end)]
        is_plural = _is_plural(new)
        was_plural = _is_plural(text.buffer[start[index] : end[index]])
        if was_plural and not is_plural and not after[:1].isalnum():
            possessive = new + mark + (b"S" if new.isupper() else b"s")
            end[index] = mark_end
        elif (
            is_plural and not was_plural and after[:1] in (b"s", b"S") and not after[1:2].isalnum()
        ):
            possessive = new + mark
            end[index] = mark_end + 1
        else:
            continue
        edits.words.append(possessive)
        number[index] = len(edits.words) - 1


def _apostrophe_at(buffer: bytes, start: int, end: int) -> bytes:
    """Return the apostrophe that begins at a place within a row, empty for none."""
    for mark in _APOSTROPHES:
        if buffer.startswith(mark, start, end):
            return mark
    return b""


def _is_plural(word: bytes) -> bool:
    low = word.lower()
    return low.endswith(b"s") and not low.endswith(b"ss") and low not in _SINGULAR


def join_alternatives(text: Text, edits: Edits) -> None:
    """Write two words that become the same one once: "he or she" and "his/her" are "they" and "their".

    Args:
        text: the rows and their terms.
        edits: the replacements; changed in place.
    """
    start, end, number, row, side, _ = edits.places
    words = edits.words
    kept = np.ones(len(start), dtype=bool)
    is_near = (
        (row[1:] == row[:-1]) & (side[1:] == -side[:-1]) & (start[1:] - end[:-1] <= _LONGEST_OR)
    )
    for index in np.flatnonzero(is_near).tolist():
        following = index + 1
        if not side[index]:
            continue  # it was joined itself
        if words[number[index]].lower() != words[number[following]].lower():
            continue
        between = int(end[index]), int(start[following])
        closes = int(end[following])
        if _OPENS_BRACKET.fullmatch(text.buffer, *between) and text.signs[closes] == ord(")"):
            end[following] += 1
        elif _OR.fullmatch(text.buffer, *between):
            third = _THIRD.match(text.buffer, closes)
            if third and third[1].lower() == words[number[following]].lower():
                end[following] = third.end()
        else:
            continue
        start[following] = start[index]
        number[following] = number[index]
        side[following] = 0
        kept[index] = False
    edits.places = edits.places[:, kept]


def join_titles(text: Text, edits: Edits, is_title: NDArray[np.bool_]) -> None:
    """Remove titles that are joined together with what joins them: "Mr. and Mrs. Smith" is "Smith".

    Args:
        text: the rows and their terms.
        edits: the replacements; changed in place.
        is_title: whether each term is a title, (terms,).
    """
    start, end, number, row, _, term = edits.places
    is_removed = np.array([not word for word in edits.words], dtype=bool)[number] & is_title[term]
    kept = np.ones(len(start), dtype=bool)
    is_pair = is_removed[1:] & is_removed[:-1] & (row[1:] == row[:-1])
    for index in np.flatnonzero(is_pair).tolist():
        following = index + 1
        if _BETWEEN_TITLES.fullmatch(text.buffer, int(end[index]), int(start[following])):
            start[following] = start[index]
            kept[index] = False
    edits.places = edits.places[:, kept]
