"""Contextual encoders as features of notes, and the gender direction of an embedding."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from swapbias.scorers import LoadOptions, Progress
from swapbias.scorers.features import Floats, clean, is_plain, near

Window = tuple[int, ...]  # token ids without those that the model adds

_WORD_STARTS = ("Ġ", "▁")  # how byte-level and SentencePiece vocabularies mark the start of a word


class ContextualVectors:
    """A note's vector is the mean of the states of its tokens in a transformers encoder.

    Notes longer than the model reads are cut into windows; the mean is over all tokens of all windows. The tokens
    that a model adds at start and end are read but left out of the mean. Vectors are kept by text, so that a note
    that several regimes share is encoded once; a window that several notes share is read once.
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
        """Wrap a loaded encoder; ``load`` is the usual way."""
        from swapbias.scorers.engine.running import Engine
        from swapbias.scorers.loading import length_limit

        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self._engine = Engine(self.model, batch_size=batch_size)
        self._start, self._end = _added_tokens(tokenizer)
        self._window = length_limit(tokenizer, model.config) - len(self._start) - len(self._end)
        self._kept: dict[str, Floats] = {}
        self._plain: tuple[list[str], Floats] | None = None
        self.dimension = int(model.config.hidden_size)
        self.identity: Mapping[str, Any] = {**(identity or {}), "kind": "contextual", "dimension": self.dimension}

    @classmethod
    def load(cls, model: str, options: LoadOptions, *, name: str | None = None) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model.
        """
        from swapbias.scorers.loading import load_model, model_name

        loaded, tokenizer, pin = load_model(model, _Encoder, device=options.device, dtype=options.dtype)
        made = cls(loaded, tokenizer, name=name or model_name(model), identity=pin, batch_size=options.batch_size)
        made._engine.prepack()  # of a model that is nobody else's
        return made

    def fit(self, texts: Sequence[str]) -> Self:
        """Itself: nothing is learned."""
        return self

    def vectors(self, texts: Sequence[str], on_progress: Progress | None = None) -> Floats:
        """Shape (n, d), of the cleaned texts; NaN for a text that holds nothing but unknown tokens."""
        return self.sentence_vectors([" ".join(clean(text)) for text in texts], on_progress)

    def sentence_vectors(self, sentences: Sequence[str], on_progress: Progress | None = None) -> Floats:
        """Shape (n, d): like ``vectors`` for texts that are read as they are."""
        tell = on_progress or (lambda done: None)
        times = Counter(sentences)
        fresh = [one for one in times if one not in self._kept]
        tell(len(sentences) - sum(times[one] for one in fresh))
        found = self._encode(fresh, [times[one] for one in fresh], tell)
        self._kept.update(zip(fresh, found, strict=True))
        return np.array([self._kept[one] for one in sentences]).reshape(len(sentences), self.dimension)

    def word_vectors(self, words: Sequence[str], sentences: Sequence[str]) -> Floats:
        """Shape (n, d): the mean over the whole sentence that each word stands in; NaN for an unknown word."""
        found = self.sentence_vectors(sentences)
        found[[not self._pieces(word) for word in words]] = np.nan
        return found

    def like_words(self, word: str) -> list[str]:
        """Whole lower-case words of the vocabulary with a token id within a factor 1.5 of the word's last piece.

        Vocabularies list their tokens roughly from the most to the least frequent.
        """
        if self._plain is None:
            self._plain = _whole_words(self.tokenizer.get_vocab())
        words, ids = self._plain
        pieces = self._pieces(f" {word}")  # byte-level vocabularies tell words by the space before them
        return near(pieces[-1], words, ids) if pieces else list(words)

    def _pieces(self, text: str) -> list[int]:
        """Token ids without those that the model adds; none where every token is unknown."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids if any(one != self.tokenizer.unk_token_id for one in ids) else []

    def _encode(self, texts: Sequence[str], times: Sequence[int], tell: Progress) -> Floats:
        import torch

        windows = [self._windows(text) for text in texts]
        readers = _readers(windows)  # notes share windows: letterheads, text copied from visit to visit
        unique = list(readers)
        sums, tokens = np.zeros((len(texts), self.dimension)), np.zeros(len(texts))
        before, after = len(self._start), len(self._end)
        for batch in self._engine.batches([before + len(part) + after for part in unique]):
            encoded = [[*self._start, *unique[at], *self._end] for at in batch]
            states = torch.split(self._engine.hidden_states(encoded), [len(ids) for ids in encoded])
            totals = torch.stack([own[before : len(own) - after].double().sum(dim=0) for own in states])
            for at, total in zip(batch, totals.cpu().numpy(), strict=True):
                for place in readers[unique[at]]:
                    sums[place] += total
                    tokens[place] += len(unique[at])
            tell(sum(times[place] / len(windows[place]) for at in batch for place in readers[unique[at]]))
        tell(sum(count for count, own_windows in zip(times, windows, strict=True) if not own_windows))
        tokens[tokens == 0] = np.nan
        found: Floats = sums / tokens[:, None]
        return found

    def _windows(self, text: str) -> list[Window]:
        ids = self._pieces(text)
        return [tuple(ids[start : start + self._window]) for start in range(0, len(ids), self._window)]


def _readers(windows: Sequence[Sequence[Window]]) -> dict[Window, list[int]]:
    """Each different window with the texts that hold it, as often as they do."""
    found: dict[Window, list[int]] = {}
    for place, own in enumerate(windows):
        for window in own:
            found.setdefault(window, []).append(place)
    return found


class _Encoder:
    """What ``load_model`` calls: the encoder alone; a pooler without weights is fine, for no state passes it."""

    @staticmethod
    def from_pretrained(
        model: str, *, config: Any, dtype: Any, trust_remote_code: bool, output_loading_info: bool
    ) -> tuple[Any, dict[str, Any]]:
        from transformers import AutoModel

        loaded, info = AutoModel.from_pretrained(
            model, config=config, dtype=dtype, trust_remote_code=trust_remote_code, output_loading_info=True
        )
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


def _whole_words(vocabulary: Mapping[str, int]) -> tuple[list[str], Floats]:
    """Lower-case alphabetic tokens that are whole words, and their ids."""
    common = len(vocabulary) / 100  # a letter like Ġ may stand in any vocabulary a few times
    marks = [mark for mark in _WORD_STARTS if sum(token.startswith(mark) for token in vocabulary) > common]
    start = marks[0] if marks else ""
    words = {token.removeprefix(start): at for token, at in vocabulary.items() if token.startswith(start)}
    plain = sorted((at, word) for word, at in words.items() if is_plain(word))
    return [word for _, word in plain], np.array([at for at, _ in plain], dtype=np.float64)
