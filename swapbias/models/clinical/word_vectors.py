"""Files of word vectors: a note is the mean of its words."""

import gzip
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import first_line, listed, need
from swapbias.files import file_sha256
from swapbias.models.clinical.features import (
    Features,
    Floats,
    Ranked,
    clean,
    plain_words,
    words_near_rank,
)
from swapbias.models.formats import refuse_pickle

SUFFIXES = (".bin", ".bin.gz", ".txt", ".txt.gz", ".vec", ".vec.gz")
_FASTTEXT_MARK = 793712314  # the first four bytes of a file that fastText wrote
_MOST_UNPACKED = 1_032  # bytes that gzip makes of one at most; a number takes a byte or more


class StaticVectors(Features):
    """Vectors of words (word2vec, GloVe, fastText), found as written or in lower case; a note is their mean."""

    null_words = 1_000

    def __init__(self, keyed: Any, *, name: str, identity: Mapping[str, Any] | None = None) -> None:
        """Wrap word vectors; ``load`` is the usual way.

        Args:
            keyed: gensim's KeyedVectors.
            name: names them in findings.
            identity: added to what pins them down in the manifest.
        """
        self.name = name
        self.keyed = keyed
        words = keyed.index_to_key
        counts = np.asarray(keyed.expandos.get("count", []))
        has_counts = _has_counts(counts, len(words))
        # A file in alphabetical order without counts does not tell which words are frequent.
        self._has_order = has_counts or any(map(str.__gt__, words, words[1:]))
        if has_counts:
            self.order = np.argsort(-counts, kind="stable")
            frequency = "counts"
        else:
            self.order = np.arange(len(words))
            frequency = "rank" if self._has_order else "unknown"
        self.identity = {
            "kind": "static",
            **(identity or {}),
            "dimension": int(keyed.vector_size),
            "words": len(words),
            "frequency": frequency,
        }

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a local file; nothing is ever fetched.

        Args:
            path: its suffix and, for .bin, its first bytes say the format.

        Returns:
            Vectors named as the file.

        Raises:
            UsageError: a missing package, or a pickle.
            ValueError: there is no such file, or it cannot be read.
        """
        if not path.is_file():
            raise ValueError(
                f"{path} does not exist. Give a file of word vectors ({listed(SUFFIXES)})."
            )
        refuse_pickle(path)
        keyed = _read_keyed(path)
        suffixes = [suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)]
        stem = path.name[: -len(suffixes[-1])]
        return cls(keyed, name=stem, identity={"sha256": file_sha256(path)})

    def position(self, word: str) -> int | None:
        """Return the index of a word in the file.

        Args:
            word: the word as written; in lower case where the file lacks it so.

        Returns:
            A row of the vectors; None for an unknown word.
        """
        indices: Mapping[str, int] = self.keyed.key_to_index
        return indices.get(word, indices.get(word.lower()))

    def _means(self, texts: Sequence[Sequence[str]]) -> Floats:
        """Return the mean over the known words of each text, shape (n, d); NaN where there is none."""
        means = np.full((len(texts), self.keyed.vector_size), np.nan)
        for row, words in enumerate(texts):
            positions = [index for index in map(self.position, words) if index is not None]
            if positions:
                means[row] = self.keyed.vectors[positions].mean(axis=0, dtype=np.float64)
        return means

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return the mean of each text's word vectors.

        Args:
            texts: n notes.

        Returns:
            Shape (n, d); a row of NaN for a note without any known word.
        """
        return self._means(list(map(clean, texts)))

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Return the vectors of words, and of phrases the mean over their known words.

        Args:
            words: n words or phrases.
            sentences: are not read.

        Returns:
            Shape (n, d); a row of NaN where no word is known.
        """
        return self._means([word.split() for word in words])

    def like_words(self, word: str) -> list[str]:
        """Return words about as frequent as this one.

        Args:
            word: the word in any case.

        Returns:
            Lower-case words of a rank within a factor 1.5 of the word's; all where ranks are unknown.
        """
        index = self.position(word)
        if index is None or not self._has_order:
            return list(self._ranked[0])
        rank = 1 + int(np.flatnonzero(self.order == index)[0])
        return words_near_rank(rank, self._ranked)

    @cached_property
    def _ranked(self) -> Ranked:
        """The plain words with their ranks."""
        words = (self.keyed.index_to_key[index] for index in self.order)
        return plain_words(enumerate(words, start=1))


def _has_counts(counts: NDArray[Any], words: int) -> bool:
    """Return whether counts of words were read: without any, gensim makes some up, from their number down to 1."""
    if len(counts) != words or counts.min() == counts.max():
        return False
    return not np.array_equal(counts, np.arange(words, 0, -1))


def _read_keyed(path: Path) -> Any:
    """Return gensim's vectors of a file; a ValueError where it cannot be read."""
    need(path.name, "gensim", extra="clinical")
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors

    name = path.name.lower()
    try:
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as handle:
            first = handle.readline(100)
        if int.from_bytes(first[:4], "little") == _FASTTEXT_MARK:
            return load_facebook_vectors(str(path))
        is_binary = name.endswith((".bin", ".bin.gz"))
        sizes = first.split()
        has_header = len(sizes) == 2 and all(size.isdigit() for size in sizes)
        if has_header and math.prod(map(int, sizes)) > path.stat().st_size * _MOST_UNPACKED:
            product = " x ".join(first.decode().split())
            raise ValueError(f"its first line claims {product} numbers, more than its size allows")
        return KeyedVectors.load_word2vec_format(
            str(path), binary=is_binary, no_header=not (has_header or is_binary)
        )
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(
            f"{path.name} cannot be read as word vectors ({reason}). Check its format."
        ) from error
