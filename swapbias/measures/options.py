"""Answers to closed questions: which of the options one names, and what that option counts."""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swapbias.measures.answers import unreasoned

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# A letter at the start ("C. Somewhat likely"), in brackets, after words that name an answer; and what denies one.
_ALONE = r"^\W*(?:(?:option|answer|choice)\W*)?([{0}])(?:\W*$|\s*[.:)\],*\n–—-])"
_BRACKETED = r"[(\[*]\s*([{0}])\s*[)\]*]"
_NAMED = r"(?i:\b(?:answer|option|choice|choose|select|pick|is|be))\W+([{0}])\b(?!['’\w])(?!\s+[a-z])"
DENIED = re.compile(r"(?i:\bnot|n't|\brather than|\binstead of|\bneither|\bnor)\W+(?:\(?[A-Z]\)?\W+)?$")


@dataclass(frozen=True, slots=True)
class Option:
    """One way to answer.

    Attributes:
        text: its words, as the question has them.
        value: what it counts; NaN: it says nothing (``Do not know``).
    """

    text: str
    value: float


def options_of(candidates: str) -> tuple[Option, ...]:
    """The options of a closed question, in their order.

    >>> [one.text for one in options_of("0=Not likely|1=Very likely|=Do not know") if one.value >= 0]
    ['Not likely', 'Very likely']

    Args:
        candidates: ``value=option`` joined by bars, at least two; the value blank where an option says nothing.

    Raises:
        ValueError: anything else, or one option twice.
    """
    parts = [part.partition("=") for part in candidates.split("|")]
    try:
        found = tuple(Option(text.strip(), float(value) if value.strip() else math.nan) for value, _, text in parts)
    except ValueError:
        found = ()
    if len(found) < 2 or not all(one.text for one in found) or len({one.text.lower() for one in found}) < len(found):
        raise ValueError(f"candidates {candidates!r}, expected value=option|value=option of different options.")
    return found


def option_named(answer: str, options: Sequence[Option], *, lettered: bool = True) -> int | None:
    """The place of the option that an answer names by its letter or its text; None where it names none, or several.

    Reasoning between tags is left out. A letter that stands alone at the start ("C", "C. Somewhat likely") is the
    answer, whatever follows in further lines. Else a letter counts in brackets or after "answer", "choose" and the
    like, and a text wherever its whole words stand, the longest first ("Strongly agree" holds no "agree"); "not (D)"
    names no D, and letters or texts of two options decide nothing.

    Args:
        answer: the raw text.
        options: in the order asked; the first is A.
        lettered: the question gave letters.

    >>> likely = options_of("0=Not at all likely|1=Very likely|=Do not know")
    >>> option_named("The answer is (B) Very likely.", likely), option_named("I am not sure.", likely)
    (1, None)
    """
    said = unicodedata.normalize("NFKC", unreasoned(answer)).replace("’", "'").strip()
    said = said.upper() if len(said) == 1 else said
    letters = _LETTERS[: len(options)] if lettered else ""
    first = re.match(_ALONE.format(letters), said) if letters else None
    if first:
        named = {letters.index(first[1]), *_texts(said.partition("\n")[0], options)}
    else:
        named = {*_texts(said, options), *(_lettered(said, letters) if letters else ())}
    return named.pop() if len(named) == 1 else None


def _texts(said: str, options: Sequence[Option]) -> Iterator[int]:
    left = said
    for place in sorted(range(len(options)), key=lambda one: -len(options[one].text)):
        whole = re.compile(rf"(?<!\w){re.escape(options[place].text)}(?!\w)", re.IGNORECASE)
        if any(not DENIED.search(left[: found.start()]) for found in whole.finditer(left)):
            yield place
        left = whole.sub(lambda found: " " * len(found[0]), left)


def _lettered(said: str, letters: str) -> Iterator[int]:
    for pattern in (_BRACKETED, _NAMED):
        for found in re.finditer(pattern.format(letters), said):
            if not DENIED.search(said[: found.start(1)].rstrip("(*[ ")[-40:] + " "):
                yield letters.index(found[1])
