"""Masked language models: probability mass of labelled words at the mask (XLNet: at a position that is hidden).

A prompt's ``lexicon`` is CORPUS/LIST/LABEL: the word list, and the label that counts; other words are ``rest``.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, XLNetLMHeadModel

from swapbias.measures import Floats, mass_by_label
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, not_scored, ranked
from swapbias.models.tokens import output_rows
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.models.vocabulary import LabelledTokens, Vocabulary
from swapbias.models.word_matches import matched_words
from swapbias.studies import MASK, Lexicon, Prompt, load_lexicon

TOP_K = 100
"""Likeliest tokens that are looked at where a study counts likely words alone (Lin et al. 2022)."""
SHOWN = 10
"""Tokens saved per prompt, or all that are at least as likely as ``SHOWN_FROM``."""
SHOWN_FROM = 0.01
"""Probability from which on a token is saved in any case."""
PARTS = ("closed_list_mass", "matched_mass")
"""Columns beside the score."""
LOG_ODDS = "log_odds"
"""Column of the log-odds of the words, where every one of them counts."""


class _AutoMasked:
    """An ``auto_class`` of ``load_model``; of XLNet the head that predicts a hidden position."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **settings: Any) -> Any:
        head: Any = XLNetLMHeadModel if config.model_type == "xlnet" else AutoModelForMaskedLM
        return head.from_pretrained(model, config=config, **settings)


class MaskedScorer(TransformersScorer):
    """Score: probability mass at ``<mask>`` of the words of the prompt's lexicon.

    Probabilities are added up by label, not renormalised; with a ``threshold`` of the lexicon only those of at least
    that, of the 100 likeliest tokens. ``closed_list_mass``: every token counts. ``matched_mass``: only words with a
    match in each other list. ``log_odds``: of the score, without a threshold. 0: no counted token has the label.
    NaN: too long, not finite, or, of ``matched_mass``, no words match.
    """

    auto_class = _AutoMasked
    kind = "masked"
    unit = "probability mass at the mask"

    def __init__(self, model: Any, tokenizer: Any, *, model_id: str, **settings: Any) -> None:
        """Read a model at its mask; a ValueError where the tokenizer has no mask token."""
        if tokenizer.mask_token is None:
            raise ValueError(f"Model {model_id!r} has no mask token. Use a masked language model.")
        super().__init__(model, tokenizer, model_id=model_id, **settings)
        self.identity = {**self.identity, "top_k": TOP_K}
        self.vocabulary = Vocabulary(tokenizer, output_rows(model))
        self.words = self.vocabulary.words
        self._lexicons: dict[str, tuple[LabelledTokens, NDArray[np.bool_]]] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts; each text runs once however many rows it is in.

        Args:
            prompts: with texts of one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        rows_of_text: dict[str, list[int]] = {}
        for row, prompt in enumerate(prompts):
            rows_of_text.setdefault(prompt.text, []).append(row)
        texts = list(rows_of_text)
        results = [not_scored(parts_of(_lexicon_of(prompt))) for prompt in prompts]
        for members, probabilities in self.read(texts):
            wanted = [
                (position, prompts[row], row)
                for position, index in enumerate(members)
                for row in rows_of_text[texts[index]]
            ]
            for row, scored in self._masses(probabilities, wanted):
                results[row] = scored
            on_progress(len(wanted))
        return results

    def read(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Read the masks of texts.

        Args:
            texts: with one ``<mask>`` each; those that are too long are in no batch.

        Yields:
            The indices of some texts, and probabilities at their masks, shape (texts, vocabulary), each row finite
            or NaN throughout.
        """
        for members, probabilities in self.outputs(self.encode(texts), self.probabilities):
            not_finite = ~probabilities.sum(dim=1, keepdim=True).isfinite()
            if not_finite.any():
                yield members, probabilities.masked_fill(not_finite, math.nan)
            else:
                yield members, probabilities

    def probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the softmax at the mask of texts that the engine reads together.

        Args:
            encoded: token ids of each text, with one mask.

        Returns:
            Shape (texts, vocabulary), float32.
        """
        if self.model.config.model_type == "xlnet":
            logits = self._hidden_logits(torch.tensor(encoded, device=self.model.device))
        else:
            mask = self.tokenizer.mask_token_id
            logits = self.engine.logits(encoded, [list(ids).index(mask) for ids in encoded])
        return torch.softmax(logits, dim=-1)

    def _hidden_logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Return XLNet's logits at the masked positions of texts of one length, predicted from its query stream."""
        target = (ids == self.tokenizer.mask_token_id)[:, None].to(self.model.dtype)
        # perm_mask[k, i, j] = 1: in text k, i does not see j
        hidden = target.expand(-1, ids.shape[1], -1)
        with torch.inference_mode():
            output = self.model(
                input_ids=ids,
                perm_mask=hidden,
                target_mapping=target,
                use_mems=False,
                return_dict=True,
            )
        logits: torch.Tensor = output.logits
        return logits[:, 0].float()

    def coverage(self, lexicon: Lexicon, *, matched: bool = True) -> list[dict[str, Any]]:
        """Say which words of a lexicon are single tokens of this vocabulary, and which have a match there.

        Args:
            lexicon: words with labels.
            matched: False: no word counts as matched.

        Returns:
            A row for each word.
        """
        tokens, is_matched = self._tokens_of(lexicon)
        rows = []
        for word, label in lexicon.entries():
            ids = tokens.of_word[word]
            rows.append(
                {
                    "model_id": self.model_id,
                    "lexicon": lexicon.name,
                    "word": word,
                    "label": label,
                    "in_vocabulary": bool(ids),
                    "matched": matched and bool(is_matched[ids].any()),
                }
            )
        return rows

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts.

        Args:
            texts: with one ``<mask>`` each.

        Raises:
            ValueError: A text has not exactly one ``<mask>``.
        """
        if not texts:
            return []
        masked = [text.replace(MASK, self.tokenizer.mask_token) for text in texts]
        encoded: list[list[int]] = self.tokenizer(masked)["input_ids"]
        for text, ids in zip(texts, encoded, strict=True):
            if ids.count(self.tokenizer.mask_token_id) != 1:
                raise ValueError(f"text {text!r}: expected exactly one {MASK}. Fix the template.")
        return encoded

    def labels_of_tokens(self, name: str) -> tuple[list[str], NDArray[np.intp]]:
        """Return the labels of a lexicon, and the label index of every token.

        Args:
            name: CORPUS/LIST.
        """
        tokens, _ = self._tokens_of(load_lexicon(name))
        return tokens.labels, tokens.of_token

    def _tokens_of(self, lexicon: Lexicon) -> tuple[LabelledTokens, NDArray[np.bool_]]:
        """Return the tokens of a lexicon's words, and for each token of the vocabulary whether it is matched."""
        if lexicon.name not in self._lexicons:
            tokens = self.vocabulary.label(lexicon)
            words = [word.lower() for word in self.words]
            is_matched = matched_words(words, tokens.of_token, tokens.labels.index(lexicon.rest))
            self._lexicons[lexicon.name] = tokens, is_matched
        return self._lexicons[lexicon.name]

    def _masses(
        self, probabilities: torch.Tensor, wanted: Sequence[tuple[int, Prompt, int]]
    ) -> Iterator[tuple[int, Scored]]:
        """Yield row and score of prompts; with each its place in the batch and its row."""
        top, tokens = probabilities.topk(min(TOP_K, probabilities.shape[1]), dim=1)
        counts = (top >= SHOWN_FROM - 1e-6).sum(dim=1).clamp(min=SHOWN).tolist()
        saved = [row[:count] for row, count in zip(top.tolist(), counts, strict=True)]
        words = [
            [self.words[token] for token in row[:count]]
            for row, count in zip(tokens.tolist(), counts, strict=True)
        ]
        sums = dict[str, tuple[Floats, ...]]()
        likeliest = (top.cpu().numpy(), tokens.cpu().numpy())
        for position, prompt, row in wanted:
            lexicon, index = self._label_of(prompt)
            if lexicon.name not in sums:
                sums[lexicon.name] = self._sums(lexicon, probabilities, *likeliest)
            score, *parts = (float(masses[position, index]) for masses in sums[lexicon.name])
            if math.isnan(
                saved[position][0]
            ):  # its sums would be 0 for labels that no top token has
                yield row, not_scored(parts_of(lexicon), finite=False)
            elif math.isnan(score):
                yield row, not_scored(parts_of(lexicon))
            else:
                columns = dict(zip(PARTS, parts, strict=True))
                if not lexicon.threshold:
                    columns[LOG_ODDS] = _log_odds(score)
                top_tokens = ranked(words[position], saved[position])
                yield row, Scored(score, words[position][0], top_tokens, columns)

    def _label_of(self, prompt: Prompt) -> tuple[Lexicon, int]:
        """Return the lexicon of a prompt, and the index of the label that counts."""
        name, _, label = prompt.lexicon.rpartition("/")
        labels, _ = self.labels_of_tokens(name)
        if label not in labels:
            raise ValueError(
                f"lexicon {prompt.lexicon!r}: {name} has the labels {labels}. Fix the row."
            )
        return load_lexicon(name), labels.index(label)

    def _sums(
        self, lexicon: Lexicon, probabilities: torch.Tensor, top: Floats, tokens: NDArray[np.intp]
    ) -> tuple[Floats, ...]:
        """Return score and ``PARTS`` of each text and label, shape (texts, labels)."""
        labelled, is_matched = self._tokens_of(lexicon)
        count = len(labelled.labels)
        rest = labelled.labels.index(lexicon.rest)
        label_of_token = labelled.of_token
        label_of_matched = np.where(is_matched, label_of_token, rest)
        closed_list = _closed_list(label_of_token, probabilities, count)
        if lexicon.threshold:
            limit = lexicon.threshold
            score = mass_by_label(top, label_of_token[tokens], count, threshold=limit)
            matched = mass_by_label(top, label_of_matched[tokens], count, threshold=limit)
        else:
            score = closed_list.copy()
            matched = _closed_list(label_of_matched, probabilities, count)
        has_no_token = np.bincount(label_of_token, minlength=count) == 0
        score[:, has_no_token] = math.nan  # a mass of 0 would be a finding
        if not is_matched.any():
            matched[:] = math.nan
        return score, closed_list, matched


def parts_of(lexicon: Lexicon | None) -> tuple[str, ...]:
    """Return the columns beside the score of a prompt.

    Args:
        lexicon: of the prompt; None where it has none.
    """
    return PARTS if lexicon is None or lexicon.threshold else (*PARTS, LOG_ODDS)


def _lexicon_of(prompt: Prompt) -> Lexicon | None:
    """Return the lexicon of a prompt; None where it has none."""
    name = prompt.lexicon.rpartition("/")[0]
    return load_lexicon(name) if name else None


def _log_odds(mass: float) -> float:
    """Return the natural log of the odds of words; NaN where they have no probability, or all of it."""
    return math.log(mass) - math.log1p(-mass) if 0 < mass < 1 else math.nan


def _closed_list(label_of: NDArray[np.intp], probabilities: torch.Tensor, labels: int) -> Floats:
    """Return the mass by label of the whole vocabulary: the label of most tokens gets what the others leave."""
    common = np.bincount(label_of, minlength=labels).argmax()
    columns = np.flatnonzero(label_of != common)
    chosen = probabilities[:, torch.as_tensor(columns, device=probabilities.device)].cpu().numpy()
    sums = mass_by_label(chosen, label_of[columns], labels)
    total = probabilities.sum(dim=1, dtype=torch.float64).cpu().numpy()
    sums[:, common] = total - sums.sum(axis=1)
    return sums
