"""Features of notes: what turns notes and words into vectors, and their words by frequency."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.models.immutable import Immutable

Floats = NDArray[np.float64]
Ranked = tuple[list[str], Floats]  # words and the frequency rank of each
_TOKEN = re.compile(r"[^\W\d_]{2,}")


class Features(Immutable):
    """Turn notes into vectors. A subclass needs ``name``, ``identity`` and ``vectors``; all else has a default."""

    needs = ("name", "identity", "vectors")
    noun = "A class of features"

    name: str
    """Names them in findings."""
    identity: Mapping[str, Any]
    """Pins them down in the manifest."""
    null_words: int = 0
    """Random words per word, for comparison."""

    def fit(self, texts: Sequence[str]) -> "Features":
        """Return features that have learned from training texts.

        Args:
            texts: training notes.

        Returns:
            New features; these where they learn nothing.
        """
        return self

    @abstractmethod
    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of texts.

        Args:
            texts: n notes.

        Returns:
            Shape (n, d); a row of NaN for a text without any known word.
        """

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Return vectors of words.

        Args:
            words: n words.
            sentences: one for each word, which holds it, for features that read words in a sentence.

        Returns:
            Shape (n, d); a row of NaN for an unknown word.

        Raises:
            UsageError: the features have no vectors of words.
        """
        raise UsageError(
            f"{self.name} has no vectors of words. Give a file of word vectors or an encoder."
        )

    def like_words(self, word: str) -> list[str]:
        """Return words about as frequent as this one.

        Args:
            word: the word in any case.

        Returns:
            Lower-case words; every word where ``identity["frequency"]`` is unknown.
        """
        return []


def clean(text: str) -> list[str]:
    """Return the words of a text in their case, without digits, symbols, punctuation and one-character tokens.

    >>> clean("Pt. is a 72-year-old, BP 120/80; denies SI.")
    ['Pt', 'is', 'year', 'old', 'BP', 'denies', 'SI']

    Args:
        text: the text of a note.

    Returns:
        Words in order.
    """
    return _TOKEN.findall(text)


def words_near_rank(rank: float, ranked: Ranked) -> list[str]:
    """Return the words whose rank is within a factor 1.5 of another.

    Args:
        rank: 1 for the most frequent word.
        ranked: words and ranks.

    Returns:
        Words in the order given.
    """
    words, ranks = ranked
    is_near = (ranks * 1.5 >= rank) & (ranks <= rank * 1.5)
    return [words[index] for index in np.flatnonzero(is_near)]


def plain_words(ranked: Iterable[tuple[int, str]]) -> Ranked:
    """Return the words of two or more letters, all in lower case, with their ranks.

    Args:
        ranked: ranks and words.

    Returns:
        Words and ranks.
    """
    words = []
    ranks = []
    for rank, word in ranked:
        if len(word) > 1 and word.isalpha() and word.islower():
            words.append(word)
            ranks.append(rank)
    return words, np.array(ranks, dtype=np.float64)
