"""The vocabulary of a masked language model: which tokens its tokenizer reads a word as."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.studies import Lexicon

_PROBES = ("Mary", "JOHN")  # an uncased tokenizer reads them as it reads "mary" and "john"
# Scripts without spaces between words, as Unicode names letters.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_CONTINUES = "##"  # with which WordPiece writes a token that continues a word


@dataclass(frozen=True, slots=True)
class LabelledTokens:
    """The tokens of a lexicon's words."""

    labels: list[str]
    """The labels of the lexicon, in order."""
    of_token: NDArray[np.intp]
    """For each token of the vocabulary the index of its label, shape (tokens,)."""
    of_word: Mapping[str, list[int]]
    """For each word of the lexicon its tokens; none where it is not one token."""


class Vocabulary:
    """Tokens as text, and the tokens that the tokenizer itself gives for a word, by its own normaliser."""

    def __init__(self, tokenizer: Any, rows: int) -> None:
        """Decode a vocabulary.

        Args:
            tokenizer: the model's tokenizer.
            rows: tokens that the model gives a probability; those that the tokenizer does not know are blank.
        """
        self.tokenizer = tokenizer
        texts = tokenizer.batch_decode([[token] for token in range(min(rows, len(tokenizer)))])
        self._drops_spaces = not any(text.startswith((" ", _CONTINUES)) for text in texts)
        if self._drops_spaces:
            texts = self._after_another(texts)
        blanks = [""] * (rows - len(texts))
        self.raw = [*texts, *blanks]  # with a leading space, where there is one
        self.words = [text.strip() for text in self.raw]
        self._special = set(tokenizer.all_special_ids)
        self.uncased = self._is_uncased()

    def _after_another(self, texts: Sequence[str]) -> list[str]:
        """Return texts of tokens behind a word: SentencePiece drops the space of the first token that it decodes."""
        ids = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        if not ids:
            return list(texts)
        before = self.tokenizer.decode(ids)
        pairs = self.tokenizer.batch_decode(
            [[*ids, token] for token in range(len(texts))], clean_up_tokenization_spaces=False
        )
        return [
            pair.removeprefix(before) if pair.startswith(before) else text
            for pair, text in zip(pairs, texts, strict=True)
        ]

    def _is_uncased(self) -> bool:
        """Return whether words of any case are read alike; by the vocabulary where it knows no Latin letters."""
        unknown = self.tokenizer.unk_token_id
        for probe in _PROBES:
            cased = self.tokenizer(probe, add_special_tokens=False)["input_ids"]
            folded = self.tokenizer(probe.lower(), add_special_tokens=False)["input_ids"]
            if unknown is not None and unknown in (*cased, *folded):
                return self._is_lower_case()
            if cased != folded:
                return False
        return True

    def _is_lower_case(self) -> bool:
        """Return whether no token that was learned has a letter in upper case."""
        added = {*self._special, *self.tokenizer.get_added_vocab().values()}
        return all(
            text == text.lower() for token, text in enumerate(self.words) if token not in added
        )

    def tokens_of(self, words: Iterable[str]) -> dict[str, list[int]]:
        """Find the tokens of words alone, at the start of a text and after a space.

        Args:
            words: any words; they are normalised as the tokenizer does it.

        Returns:
            For each word the tokens that stand for all of it, that after a space first; none for a word of several
            tokens or an unknown one.
        """
        unique = list(dict.fromkeys(words))
        if not unique:
            return {}
        spellings = [f"{space}{word}" for word in unique for space in (" ", "")]
        encoded = self.tokenizer(spellings, add_special_tokens=False)["input_ids"]
        single = [list(ids) if self._is_one_text(ids) else [] for ids in encoded]
        return {
            word: list(dict.fromkeys([*after_space, *at_start]))
            for word, after_space, at_start in zip(unique, single[::2], single[1::2], strict=True)
        }

    def _is_one_text(self, ids: Sequence[int]) -> bool:
        """Return whether ids are one token that the model predicts and that is a text, no mark (unknown, mask)."""
        return len(ids) == 1 and ids[0] < len(self.words) and ids[0] not in self._special

    def label(self, lexicon: Lexicon) -> LabelledTokens:
        """Find the tokens of a lexicon's words.

        A token counts where its text is a word of the lexicon, except pieces of SentencePiece that only continue
        words. The tokens of its words in the tokenizer's normal form count as well ("Ärztin" is "arztin" to an
        uncased BERT).

        Args:
            lexicon: words with labels; ``words`` in any case, ``proper`` ones in their own.

        Returns:
            The label of each token, and the tokens of each word.
        """
        labels = sorted({*lexicon.words.values(), *lexicon.proper.values(), lexicon.rest})
        rest = labels.index(lexicon.rest)
        by_text = lexicon.labels(self.words, uncased=self.uncased)
        of_token = np.array([labels.index(label) for label in by_text], dtype=np.intp)
        listed = np.flatnonzero(of_token != rest).tolist()
        pieces = self._pieces(listed)
        of_token[pieces] = rest
        forms = {word: self._forms(word, lexicon) for word, _ in lexicon.entries()}
        tokens_of_form = self.tokens_of(form for word in forms for form in forms[word])
        tokens_of_text: dict[str, list[int]] = {}
        for token in sorted(set(listed) - set(pieces)):
            tokens_of_text.setdefault(self.words[token].lower(), []).append(token)
        of_word: dict[str, list[int]] = {}
        for word, label in lexicon.entries():
            index = labels.index(label)
            candidates = dict.fromkeys(
                token for form in forms[word] for token in tokens_of_form[form]
            )
            for token in candidates:
                if of_token[token] == rest:
                    of_token[token] = index
            for token in tokens_of_text.get(word.lower(), ()):
                if self._is_word(token, word, lexicon):
                    candidates[token] = None
            of_word[word] = [token for token in candidates if of_token[token] == index]
        return LabelledTokens(labels, of_token, of_word)

    def _pieces(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that continue words, in a vocabulary of SentencePiece and a script with spaces."""
        if not self._drops_spaces:
            return []
        inner = [
            token
            for token in tokens
            if not self.raw[token].startswith(" ") and _has_spaces(self.words[token])
        ]
        tokens_of_word = self.tokens_of(self.words[token] for token in inner)
        return [token for token in inner if token not in tokens_of_word[self.words[token]]]

    def _forms(self, word: str, lexicon: Lexicon) -> list[str]:
        """Return a word as it may be written: in any case, except proper names."""
        if word not in lexicon.words:
            return [word]
        return list(dict.fromkeys([word, word.capitalize(), word.upper()]))

    def _is_word(self, token: int, word: str, lexicon: Lexicon) -> bool:
        """Return whether a token, the same except case, is a word of a lexicon."""
        return self.uncased or word in lexicon.words or self.words[token] == word


def _has_spaces(word: str) -> bool:
    """Return whether words of a word's script stand between spaces."""
    return not any(unicodedata.name(letter, "").startswith(_UNSPACED) for letter in word)
