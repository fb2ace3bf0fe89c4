"""Swap and neutralise notes as the authors of phenotype_fairness do: one way, by the patient's gender."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from swapbias.errors import UsageError
from swapbias.swapping.swapper import Swapped, Swapper

_Rules = Sequence[tuple[str, str]]

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


def _compiled(rules: _Rules) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), new) for words, new in rules]


_SWAPS = {"female": _compiled(_FROM_FEMALE), "male": _compiled(_FROM_MALE)}
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
        return f"published/{super().sha256}"

    def run(
        self,
        texts: pa.Array | pa.ChunkedArray | Sequence[str | None],
        mode: str = "swap",
        *,
        genders: Sequence[str | None] | None = None,
    ) -> Swapped:
        """Swap all texts at once, and report what was done.

        Args:
            texts: the texts; null stays null.
            mode: ``swap`` or ``neutralise``.
            genders: the gender of each patient.

        Raises:
            UsageError: an unknown mode, or no genders for a swap.
        """
        if mode == "swap" and genders is None:
            raise UsageError("The swap as published goes by the patient's gender. Give genders.")
        report = super().run(texts, mode, genders=genders)
        given = texts.to_pylist() if isinstance(texts, pa.Array | pa.ChunkedArray) else texts
        changed = []
        replaced = np.zeros(len(given), np.int32)
        for place, text in enumerate(given):
            patterns = _NEUTRAL_PATTERNS
            if mode == "swap" and genders is not None:
                side = "female" if (genders[place] or "").lower() in ("female", "f") else "male"
                patterns = _SWAPS[side]
            for pattern, new in patterns:
                if text is not None:
                    text, count = pattern.subn(new, text)
                    replaced[place] += count
            changed.append(text)
        return replace(
            report,
            texts=pa.chunked_array([pa.array(changed, pa.large_string())]),
            replaced=replaced,
            terms=Counter(),
            left=np.zeros_like(report.left),
            doubt=np.zeros(len(given)),
            doubtful_words=np.zeros(len(given), np.int32),
        )
