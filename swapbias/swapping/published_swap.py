"""Swap and neutralise notes as the authors of phenotype_fairness do: one way, by the patient's gender.

After a description of github.com/gizemsogancioglu/gender-bias-mental-health@edf6ff2, ``common/text_processing.py``.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from swapbias.errors import UsageError
from swapbias.swapping.changes import CHANGE, REASONS
from swapbias.swapping.genders import sides_of
from swapbias.swapping.swapper import Swapped, Swapper

_Rules = Sequence[tuple[str, str]]
_Patterns = Sequence[tuple[re.Pattern[str], str]]

# In order, on whole words of any case; what stands in is written as here.
_FROM_FEMALE: _Rules = (
    ("her", "his"),
    (r"Sex:\s+F", "Sex: M"),
    ("she", "he"),
    ("woman", "man"),
    ("female", "male"),
    ("F", "M"),
)
_FROM_MALE: _Rules = (
    ("his|him", "her"),
    (r"Sex:\s+M", "Sex: F"),
    ("he", "she"),
    ("man", "woman"),
    ("male", "female"),
    ("M", "F"),
)
_NEUTRAL: _Rules = (
    ("her|his|him", "its"),
    (r"Sex:\s+[FM]", "Sex: "),
    ("she|he|woman|man", "patient"),
    ("female|male|F|M", ""),
)


def _compiled(rules: _Rules) -> _Patterns:
    return [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), word) for words, word in rules]


_FEMALE_PATTERNS = _compiled(_FROM_FEMALE)
_MALE_PATTERNS = _compiled(_FROM_MALE)
_NEUTRAL_PATTERNS = _compiled(_NEUTRAL)


class PublishedSwapper(Swapper):
    """Swaps the words of one gender into the other's, as released with Sogancioglu et al. (2023).

    Bare F and M are swapped wherever they stand and case is lost, so that texts are spoiled as theirs are: "98.6 F"
    becomes "98.6 M". Notes of patients who are not female are swapped as a man's.

    >>> PublishedSwapper().run(["She is 45 F, Temp 98 F. He visits."], genders=["female"]).texts.to_pylist()
    ['he is 45 M, Temp 98 M. He visits.']
    """

    def __init__(self) -> None:
        """Prepare."""
        super().__init__("paper", whose="patient")

    @property
    def sha256(self) -> str:
        """The sha256 of everything that decides what a text becomes."""
        content = [super().sha256, _FROM_FEMALE, _FROM_MALE, _NEUTRAL]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def run(
        self,
        texts: pa.Array | pa.ChunkedArray | Sequence[str | None],
        mode: str = "swap",
        *,
        genders: Sequence[str | None] | None = None,
    ) -> Swapped:
        """Swap all texts at once; clinical terms and genders are reported as every swapper does.

        Args:
            texts: the texts; null stays null.
            mode: ``swap`` or ``neutralise``.
            genders: the gender of each patient, which a swap needs.

        Raises:
            UsageError: an unknown mode, or no genders for a swap.
        """
        if mode == "swap" and genders is None:
            raise UsageError("The swap as published goes by the patient's gender. Give genders.")
        report = super().run(texts, mode, genders=genders)
        originals = texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else texts
        changes = [
            _changes(text, _patterns_for(mode, side))
            for text, side in zip(originals, sides_of(genders, len(originals)), strict=True)
        ]
        changed = map(_changed, originals, changes)
        return replace(
            Swapped.unchanged(pa.chunked_array([pa.array(changed, pa.large_string())])),
            replaced=np.array(list(map(len, changes)), np.int32),
            specific=report.specific,
            specific_terms=report.specific_terms,
            sides=report.sides,
            list_changes=lambda: pa.chunked_array([pa.array(changes, pa.list_(CHANGE))]),
        )


def _patterns_for(mode: str, side: int) -> _Patterns:
    """Return what is replaced in a note; whoever is not female is swapped as a man."""
    if mode == "neutralise":
        return _NEUTRAL_PATTERNS
    return _FEMALE_PATTERNS if side == 1 else _MALE_PATTERNS


def _changes(text: str | None, patterns: _Patterns) -> list[dict[str, Any]]:
    """Return what the patterns change in a text, in order; of two that overlap the earlier pattern decides."""
    changes: list[dict[str, Any]] = []
    for pattern, word in patterns:
        for match in pattern.finditer(text or ""):
            start, end = match.span()
            if not any(start < before["end"] and before["start"] < end for before in changes):
                changes.append(
                    {"start": start, "end": end, "old": match[0], "new": word, "reason": REASONS[0]}
                )
    return sorted(changes, key=itemgetter("start"))


def _changed(text: str | None, changes: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a text after its changes."""
    if text is None:
        return None
    pieces = []
    end = 0
    for change in changes:
        pieces += [text[end : change["start"]], change["new"]]
        end = change["end"]
    return "".join([*pieces, text[end:]])
