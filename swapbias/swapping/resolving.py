"""Which masculine word a feminine one stands for where there are two: "her" is "his" or "him"."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Protocol

from swapbias.sources import corpus_dir, read_table
from swapbias.swapping.contexts import features, word_class

WINDOW = 100  # bytes on each side that a resolver is shown
NEAR = 60  # characters of them that tell most
SHARE = 0.5
DOUBTFUL = 1.5  # log-odds within this of zero are counted as doubtful

_LAST = re.compile(r"([^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[^\w\s])\s*$")
_FIRST = re.compile(r"\s*([^\W\d_]+|\d+|[^\w\s])")
_PLACEHOLDER = re.compile(r"\s*(?:\[\*\*|_{2,})")  # a de-identified name: some noun
_PARTNER_AFTER = re.compile(r"\s*(?:/|\b(?:or|and)\b)\s*(his|him|hers|her)\b", re.IGNORECASE)
_PARTNER_BEFORE = re.compile(r"\b(his|him|hers|her)\s*(?:/|\b(?:or|and)\b)\s*$", re.IGNORECASE)
_CERTAIN = 20.0


class Resolver(Protocol):
    """Tells "his" from "him" where the text says "her".

    ``name`` stands in reports.
    """

    name: str

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """log P(his) - log P(him) for each "her", from the text before it and after it; 0 is undecided."""
        ...


def last_word(before: str) -> str:
    """The word or sign before the pronoun, in lower case; blank at the start of the text.

    >>> last_word("She took "), last_word("")
    ('took', '')
    """
    chunk = before.split()[-1:]  # the pattern is anchored at the end and slow on long texts
    found = _LAST.search(chunk[0]) if chunk else None
    return found.group(1).lower() if found else ""


def first_word(after: str) -> str | None:
    """The word or sign after the pronoun, in lower case; blank at the end, None for a removed name.

    >>> first_word(" own house."), first_word(" [**Hospital**]")
    ('own', None)
    """
    if _PLACEHOLDER.match(after):
        return None
    found = _FIRST.match(after)
    return found.group(1).lower() if found else ""


def partner(before: str, after: str) -> str:
    """The pronoun that stands beside this one as its alternative ("her/his", "him or her"), or blank.

    >>> partner("monitoring was placed on ", "/him, and")
    'him'
    """
    found = _PARTNER_AFTER.match(after)
    if not found and before.rstrip().endswith(("/", "or", "and")):
        found = _PARTNER_BEFORE.search(before)
    return found.group(1).lower() if found else ""


class WordResolver:
    """The built-in resolver: weights of the words next to the pronoun, learnt from "his" and "him" themselves."""

    name = "built-in"

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """See ``Resolver``."""
        return [self._one(left, right) for left, right in zip(before, after, strict=True)]

    def _one(self, left: str, right: str) -> float:
        beside = partner(left[-NEAR:], right[:NEAR])
        if beside in ("his", "him"):
            return _CERTAIN if beside == "his" else -_CERTAIN
        return by_words(last_word(left[-NEAR:]), first_word(right[:NEAR]))


class SecondedResolver:
    """A model's log-odds and ``SHARE`` of the built-in ones.

    The words next to the pronoun, counted in much text, mend what a small model gets wrong; a sure one outvotes them.
    """

    def __init__(self, first: Resolver) -> None:
        """Add the built-in resolver to another."""
        self._first, self._words = first, WordResolver()
        self.name = f"{first.name} + {SHARE} {self._words.name}"

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """See ``Resolver``."""
        both = zip(self._first.log_odds(before, after), self._words.log_odds(before, after), strict=True)
        return [model + SHARE * words for model, words in both]


@cache
def _weights() -> Mapping[str, float]:
    rows = read_table(corpus_dir("gender_lexicon") / "his_him_weights.csv", ("feature", "weight"))
    return {row["feature"]: float(row["weight"]) for row in rows}


@lru_cache(maxsize=1 << 16)
def by_words(previous: str, following: str | None) -> float:
    """The built-in log-odds of "his" by the words beside "her" alone: ``last_word`` and ``first_word``."""
    weights = _weights()
    return weights["bias"] + sum(weights.get(name, 0.0) for name in features(previous, following))


def is_pronoun(before: str, after: str) -> bool:
    """Whether "his" stands for a noun ("a friend of his.") and so is "hers", not "her".

    >>> is_pronoun("a friend of ", "."), is_pronoun("the size of ", " liver")
    (True, False)
    """
    if partner(before, after) == "hers":
        return True
    following = first_word(after)
    return following is not None and stands_alone(last_word(before), following, after)


def stands_alone(previous: str, following: str, after: str) -> bool:
    """``is_pronoun`` by the words before and after, and by how the text after begins."""
    closed = previous in _POSSESSED and word_class(following) in ("none", "punctuation", "closed")
    return closed and not _OPENS.match(after)


_POSSESSED = ("of", "is", "was", "were", "are", "be", "been", "than", "as", "not")
_OPENS = re.compile(r"\s*(?:[\"'“‘(\[]|(?:all|own|many|much|few|most|two|only|then|now|once|not)\b)")
