"""Transformers encoders: a note is the mean of the states of its tokens."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from swapbias.models.bare_encoder import BareEncoder
from swapbias.models.base import LoadOptions
from swapbias.models.clinical.features import (
    Features,
    Floats,
    Ranked,
    clean,
    plain_words,
    words_near_rank,
)
from swapbias.models.lengths import length_limit
from swapbias.models.loading import load_model
from swapbias.models.model_names import read_name
from swapbias.models.tokens import refuse_unknown_tokens

if TYPE_CHECKING:
    from swapbias.models.engine.transfers import Outputs

_WORD_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece vocabularies mark the start of a word


class ContextualVectors(Features):
    """A transformers encoder; a note's vector is the mean of the states of its own tokens.

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
        """Wrap a loaded encoder; ``load`` is the usual way.

        Args:
            model: a model of transformers.
            tokenizer: the model's tokenizer.
            name: names it in findings.
            identity: added to what pins it down in the manifest.
            batch_size: most texts in one forward pass.
        """
        from swapbias.models.engine import layer_choice
        from swapbias.models.engine.encoder import Engine
        from swapbias.models.engine.fastest_layers import with_fastest_layers

        self.model, layers = with_fastest_layers(model.eval(), name)
        self.tokenizer = tokenizer
        self.name = name
        self._engine = Engine(self.model, batch_size=batch_size)
        self._start, self._end = _added_tokens(tokenizer)
        self._window = length_limit(tokenizer, model) - len(self._start) - len(self._end)
        self._cache: dict[str, Floats] = {}
        self.dimension = int(model.config.hidden_size)
        self.identity = {**(identity or {}), "kind": "contextual", "dimension": self.dimension}
        if layers:
            self.identity[layer_choice.KEY] = layers

    @classmethod
    def load(cls, model: str, options: LoadOptions) -> Self:
        """Load an encoder.

        Args:
            model: a Hub id or local folder.
            options: how it is loaded.

        Returns:
            Features with the pin of the model.

        Raises:
            ValueError: the model cannot be loaded.
        """
        loaded, tokenizer, pin = load_model(model, BareEncoder, options)
        return cls(
            loaded,
            tokenizer,
            name=read_name(model, pin),
            identity=pin,
            batch_size=options.batch_size,
        )

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors of the cleaned texts.

        Args:
            texts: n notes.

        Returns:
            Shape (n, d); a row of NaN for a note that holds nothing but unknown tokens.
        """
        return self.sentence_vectors([" ".join(clean(text)) for text in texts])

    def sentence_vectors(self, sentences: Sequence[str]) -> Floats:
        """Return vectors like ``vectors`` for texts that are read as they are.

        Args:
            sentences: n texts.

        Returns:
            Shape (n, d); a row of NaN for a text that holds nothing but unknown tokens.
        """
        fresh = [text for text in dict.fromkeys(sentences) if text not in self._cache]
        self._cache.update(zip(fresh, self._encode(fresh), strict=True))
        vectors = np.array([self._cache[text] for text in sentences])
        return vectors.reshape(len(sentences), self.dimension)

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Return the mean over the whole sentence that holds each word.

        Args:
            words: n words.
            sentences: one for each word, which holds it.

        Returns:
            Shape (n, d); a row of NaN for an unknown word.
        """
        vectors = self.sentence_vectors(sentences)
        vectors[[not self._token_ids(word) for word in words]] = np.nan
        return vectors

    def like_words(self, word: str) -> list[str]:
        """Return words about as frequent as this one, by their token ids, which rank them by frequency.

        Args:
            word: the word in any case.

        Returns:
            Whole lower-case words whose token id is within a factor 1.5 of the word's.
        """
        # Byte-level vocabularies know words by the space before them.
        ids = self._token_ids(f" {word}")
        return words_near_rank(ids[-1], self._ranked) if ids else list(self._ranked[0])

    @cached_property
    def _ranked(self) -> Ranked:
        """The plain words that are one token, with its id as their rank."""
        vocabulary = self.tokenizer.get_vocab()
        mark = _word_start(vocabulary)
        whole = []
        for token, token_id in vocabulary.items():
            if token.startswith(mark):
                whole.append((token_id, token.removeprefix(mark)))
        return plain_words(sorted(whole))

    def _token_ids(self, text: str) -> list[int]:
        """Return token ids without those that the model adds; none where every token is unknown."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        is_known = any(token_id != self.tokenizer.unk_token_id for token_id in ids)
        return ids if is_known else []

    def _encode(self, texts: Sequence[str]) -> Floats:
        """Return the mean over the states of each text's own tokens, shape (n, d)."""
        from swapbias.models.engine.transfers import received

        texts_of_window: dict[tuple[int, ...], list[int]] = {}
        for row, ids in enumerate(map(self._token_ids, texts)):
            for start in range(0, len(ids), self._window):
                window = tuple(ids[start : start + self._window])
                texts_of_window.setdefault(window, []).append(row)
        windows = list(texts_of_window)
        refuse_unknown_tokens(self.name, self.model, self.tokenizer, windows)
        sums = np.zeros((len(texts), self.dimension))
        tokens = np.zeros(len(texts))
        before = len(self._start)
        after = len(self._end)
        batches = self._engine.batches([before + len(window) + after for window in windows])
        started = (
            (batch, self._sums_of_states([windows[index] for index in batch])) for batch in batches
        )
        for batch, (totals,) in received(started):
            for index, total in zip(batch, totals.numpy(), strict=True):
                for row in texts_of_window[windows[index]]:
                    sums[row] += total
                    tokens[row] += len(windows[index])
        tokens[tokens == 0] = np.nan
        return np.asarray(sums / tokens[:, None])

    def _sums_of_states(self, windows: Sequence[tuple[int, ...]]) -> "Outputs":
        """Return the sum of the states of each window's own tokens, shape (windows, d), on the model's device."""
        import torch

        before = len(self._start)
        after = len(self._end)
        encoded = [[*self._start, *window, *self._end] for window in windows]
        hidden = self._engine.hidden_states(encoded)
        states_of_windows = torch.split(hidden, [len(ids) for ids in encoded])
        return (
            torch.stack(
                [
                    states[before : len(states) - after].double().sum(dim=0)
                    for states in states_of_windows
                ]
            ),
        )


def _word_start(vocabulary: Iterable[str]) -> str:
    """Return the mark of the start of a word in a vocabulary; blank where it has none."""
    tokens = list(vocabulary)
    few = len(tokens) / 100  # a letter like Ġ may stand in any vocabulary a few times
    for mark in _WORD_STARTS:
        if sum(token.startswith(mark) for token in tokens) > few:
            return mark
    return ""


def _added_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer adds before and after a text."""
    whole = tokenizer("a")["input_ids"]
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    return [], []
