"""Reword notes: replace carrier phrases, which say nothing about patient, phenotype or gender, by synonyms."""

import re
import string
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from swapbias.notes.note_rows import NAME
from swapbias.studies import corpus_dir, read_table

WORDINGS = 5
"""Number of rewordings of each test note, made as a placebo: nothing is swapped."""


class Carrier(NamedTuple):
    """A carrier phrase in a text: a frequent phrase of clinical prose without content ("presents with")."""

    start: int
    """Index of its first character."""
    end: int
    """Index of the character after its last one."""
    alternatives: tuple[str, ...]
    """The phrase that replaces it in each of the ``WORDINGS``."""


@cache
def carrier_synonyms() -> dict[str, tuple[str, ...]]:
    """Return carrier phrases of clinical prose, which say nothing about patient, phenotype or gender.

    Returns:
        By phrase in lower case its synonyms, one for each of the ``WORDINGS``.
    """
    synonyms: dict[str, tuple[str, ...]] = {}
    columns = ("phrase", "wording", "alternative", "source")
    for row in read_table(corpus_dir(NAME) / "carrier_synonyms.csv", columns):
        synonyms[row["phrase"]] = (*synonyms.get(row["phrase"], ()), row["alternative"])
    return synonyms


@cache
def _carrier_pattern() -> re.Pattern[str]:
    """Return a pattern that matches carrier phrases in lower case as whole words.

    Where several begin at one place it matches the longest; the words of a phrase may be on two lines.
    """
    # Grouped by first word: there are hundreds of phrases, and long texts are searched faster this way.
    rest_by_first: dict[str, list[str]] = {}
    for phrase in sorted(carrier_synonyms(), key=len, reverse=True):
        first, *rest = map(re.escape, phrase.split())
        rest_by_first.setdefault(first, []).append("".join(rf"\s+{word}" for word in rest))
    either = "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in rest_by_first.items())
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")


def find_carriers(text: str) -> list[Carrier]:
    """Find the carrier phrases of a text, from left to right.

    Args:
        text: a note.
    """
    synonyms = carrier_synonyms()
    carriers = []
    for match in _carrier_pattern().finditer(_lower_in_place(text)):
        phrase = " ".join(match[0].split())
        carriers.append(Carrier(match.start(), match.end(), synonyms[phrase]))
    return carriers


def _lower_in_place(text: str) -> str:
    """Return a text in lower case with every character at its index: letters that would become two stay."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    letters = []
    for letter in text:
        lower_letter = letter.lower()
        letters.append(lower_letter if len(lower_letter) == 1 else letter)
    return "".join(letters)


def reword(text: str, carriers: Iterable[Carrier], wording: int) -> str:
    """Return a text with each carrier phrase replaced by its synonym, in the same case.

    Args:
        text: a note.
        carriers: its carrier phrases, from left to right.
        wording: number of the wording, 1 to ``WORDINGS``.
    """
    parts = []
    end_before = 0
    for start, end, alternatives in carriers:
        parts += [text[end_before:start], _in_case_of(text[start:end], alternatives[wording - 1])]
        end_before = end
    return "".join([*parts, text[end_before:]])


def _in_case_of(phrase: str, alternative: str) -> str:
    """Return an alternative in the case of the phrase that it replaces."""
    if phrase.isupper():
        return alternative.upper()
    if phrase.istitle() and " " in phrase:
        return string.capwords(alternative)
    if phrase[0].isupper():
        return alternative[0].upper() + alternative[1:]
    return alternative
