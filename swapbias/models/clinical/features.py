"""Features of notes: averages of word vectors, TF-IDF with latent semantic analysis, contextual encoders."""

import gzip
import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError, first_line, listed, need
from swapbias.files import file_sha256
from swapbias.models.base import TFIDF, LoadOptions
from swapbias.models.formats import PICKLES, refuse_pickle
from swapbias.models.immutable import Immutable
from swapbias.models.lengths import length_limit
from swapbias.models.loading import load_model
from swapbias.models.model_names import read_name
from swapbias.models.tokens import refuse_unknown_tokens

Floats = NDArray[np.float64]
Ranked = tuple[list[str], Floats]  # words and the frequency rank of each
SUFFIXES = (".bin", ".bin.gz", ".txt", ".txt.gz", ".vec", ".vec.gz")
_FASTTEXT = 793712314  # the first four bytes of a file that fastText wrote
_MOST_PACKED = 1_032  # bytes that gzip makes of one at most; a number takes a byte or more
_TOKEN = re.compile(r"[^\W\d_]{2,}")
_WORD_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece vocabularies mark the start of a word


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
        """Return features that have learned from training texts; these where they learn nothing."""
        return self

    @abstractmethod
    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of texts, shape (n, d); a row of NaN for a text without any known word."""

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Shape (n, d); ``sentences`` hold the words for features that read words in a sentence."""
        raise UsageError(
            f"{self.name} has no vectors of words. Give a file of word vectors or an encoder."
        )

    def like_words(self, word: str) -> list[str]:
        """Words about as frequent as this one; every word where ``identity["frequency"]`` is unknown."""
        return []


def clean(text: str) -> list[str]:
    """The words of a text in their case, without digits, symbols, punctuation and one-character tokens.

    >>> clean("Pt. is a 72-year-old, BP 120/80; denies SI.")
    ['Pt', 'is', 'year', 'old', 'BP', 'denies', 'SI']
    """
    return _TOKEN.findall(text)


def load_features(name: str, *, options: LoadOptions) -> Features:
    """Features by name: ``tfidf-lsa``, a file of word vectors (``SUFFIXES``), or an encoder.

    UsageError: a missing package, or a pickle. ValueError: a file or model that cannot be loaded.
    """
    if name == TFIDF:
        return TfidfLsa()
    if name.lower().endswith((*SUFFIXES, *PICKLES)) and not Path(name).is_dir():
        return StaticVectors.load(Path(name))
    return ContextualVectors.load(name, options)


def _near(rank: float, ranked: Ranked) -> list[str]:
    """The words whose rank is within a factor 1.5 of ``rank``."""
    words, ranks = ranked
    return [words[at] for at in np.flatnonzero((ranks * 1.5 >= rank) & (ranks <= rank * 1.5))]


def _plain(words: Sequence[tuple[int, str]]) -> Ranked:
    """Of ranked words those of two or more letters, all in lower case."""
    plain = [
        (rank, word) for rank, word in words if len(word) > 1 and word.isalpha() and word.islower()
    ]
    return [word for _, word in plain], np.array([rank for rank, _ in plain], dtype=np.float64)


class StaticVectors(Features):
    """A note's vector is the mean of its words' (word2vec, GloVe, fastText), found as written or in lower case."""

    null_words = 1_000

    def __init__(self, keyed: Any, *, name: str, identity: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.keyed = keyed
        words = keyed.index_to_key
        counts = np.asarray(keyed.expandos.get("count", []))
        # Of a file without counts gensim makes some up, from the number of words down to 1.
        made_up = np.array_equal(counts, np.arange(len(words), 0, -1))
        counted = bool(len(counts) == len(words) and counts.min() < counts.max()) and not made_up
        # A file in alphabetical order without counts does not tell which words are frequent.
        self._ordered = counted or any(map(str.__gt__, words, words[1:]))
        self.order = np.argsort(-counts, kind="stable") if counted else np.arange(len(words))
        self.identity = {
            "kind": "static",
            **(identity or {}),
            "dimension": int(keyed.vector_size),
            "words": len(words),
            "frequency": "counts" if counted else "rank" if self._ordered else "unknown",
        }

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a local file; its suffix and, for .bin, its first bytes say the format. Nothing is ever fetched."""
        if not path.is_file():
            raise ValueError(
                f"{path} does not exist. Give a file of word vectors ({listed(SUFFIXES)})."
            )
        refuse_pickle(path)
        keyed = _read_keyed(path)
        stem = next(
            path.name[: -len(one)] for one in SUFFIXES[::-1] if path.name.lower().endswith(one)
        )
        return cls(keyed, name=stem, identity={"sha256": file_sha256(path)})

    def position(self, word: str) -> int | None:
        """Where a word stands in the file; None if it is not there."""
        known: Mapping[str, int] = self.keyed.key_to_index
        return known.get(word, known.get(word.lower()))

    def _means(self, texts: Sequence[Sequence[str]]) -> Floats:
        """Shape (n, d): the mean over the known words of each text; NaN where there is none."""
        found = np.full((len(texts), self.keyed.vector_size), np.nan)
        for place, words in enumerate(texts):
            known = [at for at in map(self.position, words) if at is not None]
            if known:
                found[place] = self.keyed.vectors[known].mean(axis=0, dtype=np.float64)
        return found

    def vectors(self, texts: Sequence[str]) -> Floats:
        return self._means(list(map(clean, texts)))

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Shape (n, d): the vector of each word, NaN where it is unknown; the sentences are not read."""
        return self._means([[word] for word in words])

    def like_words(self, word: str) -> list[str]:
        """Lower-case words of a frequency rank within a factor 1.5 of the word's; all where ranks are unknown."""
        at = self.position(word)
        if at is None or not self._ordered:
            return list(self._ranked[0])
        return _near(1 + int(np.flatnonzero(self.order == at)[0]), self._ranked)

    @cached_property
    def _ranked(self) -> Ranked:
        """The plain words with their ranks."""
        return _plain(
            [(rank, self.keyed.index_to_key[at]) for rank, at in enumerate(self.order, 1)]
        )


def _read_keyed(path: Path) -> Any:
    need(path.name, "gensim", extra="clinical")
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors

    name = path.name.lower()
    try:
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as handle:
            first = handle.readline(100)
        if int.from_bytes(first[:4], "little") == _FASTTEXT:
            return load_facebook_vectors(str(path))
        binary = name.endswith((".bin", ".bin.gz"))
        header = len(first.split()) == 2 and all(part.isdigit() for part in first.split())
        if header and math.prod(map(int, first.split())) > path.stat().st_size * _MOST_PACKED:
            size = " x ".join(first.decode().split())
            raise ValueError(f"its first line claims {size} numbers, more than it can hold")
        return KeyedVectors.load_word2vec_format(
            str(path), binary=binary, no_header=not (header or binary)
        )
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(
            f"{path.name} cannot be read as word vectors ({reason}). Check its format."
        ) from error


class TfidfLsa(Features):
    """TF-IDF of lower-case words, reduced to at most 100 dimensions: needs no vectors, learns from training texts."""

    name = TFIDF

    def __init__(self, *, dimension: int = 100, fitted: tuple[Any, Floats] | None = None) -> None:
        """Features that have learned nothing yet (``fit`` does); a UsageError if scikit-learn is not installed."""
        need(self.name, "sklearn", extra="clinical")
        self.dimension = dimension
        self._fitted = fitted
        library = f"scikit-learn {version('scikit-learn')}"
        self.identity = {"kind": TFIDF, "dimension": dimension, "library": library}

    def fit(self, texts: Sequence[str]) -> "TfidfLsa":
        """A copy that knows the words of these texts (a ValueError for fewer than two)."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = (word for text in texts for word in _lower(text))
        first = next(words, None)
        if all(word == first for word in words):  # which looks no further than to the second word
            raise ValueError(
                f"{len(texts)} training texts hold fewer than two words. Check the texts."
            )
        weights = TfidfVectorizer(analyzer=_lower)
        table = weights.fit_transform(texts)
        reduce = TruncatedSVD(min(self.dimension, *table.shape), random_state=0)
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # equal texts have no variance to explain
            reduce.fit(table)
        # Directions that the texts do not span hold rounding errors, which scaling would blow up.
        spanned = reduce.singular_values_ > 1e-8 * reduce.singular_values_[0]
        return TfidfLsa(dimension=self.dimension, fitted=(weights, reduce.components_[spanned]))

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Shape (n, d); NaN where no word is known from training; a ValueError before training."""
        if self._fitted is None:
            raise ValueError(
                f"{self.name} has learned from no texts. Call fit with training texts first."
            )
        weights, components = self._fitted
        table = weights.transform(texts)
        found = np.asarray(table @ components.T, dtype=np.float64)
        found[np.diff(table.indptr) == 0] = np.nan
        return found


def _lower(text: str) -> list[str]:
    return [word.lower() for word in clean(text)]


class ContextualVectors(Features):
    """A note's vector is the mean of the states of its own tokens in a transformers encoder.

    Notes longer than the model reads are cut into windows; the mean is over all windows, and each is read once.
    """

    null_words = 200

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        identity: Mapping[str, Any] | None = None,
        batch_size: int = 64,
    ) -> None:
        from swapbias.models.engine.encoder import Engine

        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        self._engine = Engine(self.model, batch_size=batch_size)
        self._start, self._end = _added_tokens(tokenizer)
        self._window = length_limit(tokenizer, model) - len(self._start) - len(self._end)
        self._cache: dict[str, Floats] = {}
        self.dimension = int(model.config.hidden_size)
        self.identity = {**(identity or {}), "kind": "contextual", "dimension": self.dimension}

    @classmethod
    def load(cls, model: str, options: LoadOptions) -> Self:
        loaded, tokenizer, pin = load_model(model, _Encoder, options)
        return cls(
            loaded,
            tokenizer,
            name=read_name(model, pin),
            identity=pin,
            batch_size=options.batch_size,
        )

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Shape (n, d), of the cleaned texts; NaN for a text that holds nothing but unknown tokens."""
        return self.sentence_vectors([" ".join(clean(text)) for text in texts])

    def sentence_vectors(self, sentences: Sequence[str]) -> Floats:
        """Shape (n, d): like ``vectors`` for texts that are read as they are."""
        fresh = [one for one in dict.fromkeys(sentences) if one not in self._cache]
        self._cache.update(zip(fresh, self._encode(fresh), strict=True))
        return np.array([self._cache[one] for one in sentences]).reshape(
            len(sentences), self.dimension
        )

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Shape (n, d): the mean over the whole sentence that each word stands in; NaN for an unknown word."""
        found = self.sentence_vectors(sentences)
        found[[not self._pieces(word) for word in words]] = np.nan
        return found

    def like_words(self, word: str) -> list[str]:
        """Whole lower-case words with a token id, a rank of frequency, within a factor 1.5 of the word's."""
        pieces = self._pieces(
            f" {word}"
        )  # byte-level vocabularies know words by the space before them
        return _near(pieces[-1], self._ranked) if pieces else list(self._ranked[0])

    @cached_property
    def _ranked(self) -> Ranked:
        """The plain words that are one token, with its id as their rank."""
        vocabulary = self.tokenizer.get_vocab()
        common = len(vocabulary) / 100  # a letter like Ġ may stand in any vocabulary a few times
        marks = [
            one
            for one in _WORD_STARTS
            if sum(token.startswith(one) for token in vocabulary) > common
        ]
        start = marks[0] if marks else ""
        whole = [
            (at, token.removeprefix(start))
            for token, at in vocabulary.items()
            if token.startswith(start)
        ]
        return _plain(sorted(whole))

    def _pieces(self, text: str) -> list[int]:
        """Token ids without those that the model adds; none where every token is unknown."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids if any(one != self.tokenizer.unk_token_id for one in ids) else []

    def _encode(self, texts: Sequence[str]) -> Floats:
        import torch

        readers: dict[
            tuple[int, ...], list[int]
        ] = {}  # windows of token ids, and the texts that hold each
        for place, ids in enumerate(map(self._pieces, texts)):
            for start in range(0, len(ids), self._window):
                readers.setdefault(tuple(ids[start : start + self._window]), []).append(place)
        unique = list(readers)
        refuse_unknown_tokens(self.name, self.model, self.tokenizer, unique)
        sums = np.zeros((len(texts), self.dimension))
        tokens = np.zeros(len(texts))
        before = len(self._start)
        after = len(self._end)
        for batch in self._engine.batches([before + len(part) + after for part in unique]):
            encoded = [[*self._start, *unique[at], *self._end] for at in batch]
            states = torch.split(self._engine.hidden_states(encoded), [len(ids) for ids in encoded])
            totals = torch.stack(
                [own[before : len(own) - after].double().sum(dim=0) for own in states]
            )
            for at, total in zip(batch, totals.cpu().numpy(), strict=True):
                for place in readers[unique[at]]:
                    sums[place] += total
                    tokens[place] += len(unique[at])
        tokens[tokens == 0] = np.nan
        return np.asarray(sums / tokens[:, None])


class _Encoder:
    """An ``auto_class`` of ``load_model``: the encoder alone; a pooler without weights is fine, for it is unused."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **how: Any) -> tuple[Any, dict[str, Any]]:
        from transformers import AutoModel

        loaded, info = AutoModel.from_pretrained(model, config=config, **how)
        missing = [key for key in info["missing_keys"] if "pooler" not in key]
        encoder = loaded.get_encoder() if config.is_encoder_decoder else loaded
        return encoder, {**info, "missing_keys": missing}


def _added_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer adds before and after a text."""
    whole = tokenizer("a")["input_ids"]
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    return [], []
