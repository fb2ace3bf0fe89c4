"""Score prompts by the probability mass that a masked language model puts on labelled words at the mask.

A prompt's ``lexicon`` is CORPUS/LIST/LABEL: the word list, and the label whose words count. XLNet has no mask in its
training: it predicts a position that is hidden from it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, XLNetLMHeadModel

from swapbias.measures import Floats, mass_by_label
from swapbias.models.engine.transfers import Outputs, is_asynchronous, send
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, not_scored, ranked
from swapbias.models.tokens import output_rows
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.models.vocabulary import LabelledTokens, Vocabulary
from swapbias.models.word_matches import matched_words
from swapbias.studies import MASK, Lexicon, Prompt, load_lexicon

TOP_K = 100
"""Number of likeliest tokens that are counted where a lexicon has a threshold (Lin et al. 2022)."""
LEAST_SAVED = 10
"""Least number of tokens that are saved per prompt, the likeliest first."""
SAVED_FROM = 0.01
"""Every token of at least this probability is saved, also beyond ``LEAST_SAVED``."""
EXTRA_COLUMNS = ("closed_list_mass", "matched_mass")
"""Score columns beside the score."""
LOG_ODDS = "log_odds"
"""A further column for lexicons without a threshold: the log-odds of the score."""


class _MassesOfLabels(NamedTuple):
    """Probability mass of each text and label of a lexicon, arrays of shape (texts, labels)."""

    score: Floats
    """Words count that reach the threshold of the lexicon, if it has one."""
    closed_list: Floats
    """All words count."""
    matched: Floats
    """Only words with a match in each other list count."""


class _MassColumns(NamedTuple):
    """The probabilities of which the masses of labels are made: only few columns leave the device.

    The label of most tokens gets the mass that the others leave.
    """

    of_token: NDArray[np.intp]
    """For each token of the vocabulary the index of its label, shape (tokens,)."""
    labels: int
    """Number of labels."""
    common: int
    """Index of the label of most tokens."""
    columns: NDArray[np.intp]
    """Tokens of the other labels."""

    def masses(self, chosen: Floats, total: Floats) -> Floats:
        """Return the mass of each label over the whole vocabulary, shape (texts, labels).

        Args:
            chosen: probabilities of ``columns``, shape (texts, columns).
            total: sum of all probabilities, shape (texts,).
        """
        sums = mass_by_label(chosen, self.of_token[self.columns], self.labels)
        sums[:, self.common] = total - sums.sum(axis=1)
        return sums


class _TokensOfLexicon(NamedTuple):
    """The tokens of a lexicon's words in this vocabulary."""

    labelled: LabelledTokens
    """Tokens with their labels."""
    is_matched: NDArray[np.bool_]
    """For each token of the vocabulary whether its word has a match in each other list, shape (tokens,)."""
    closed_list: _MassColumns
    """Columns for the masses of all words."""
    matched: _MassColumns
    """Columns for the masses of words with a match in each other list."""


class _ReadBatch(NamedTuple):
    """Parts of the probabilities of a batch that are read, arrays by text."""

    top: Floats
    """Probabilities of the likeliest tokens, the likeliest first."""
    tokens: NDArray[np.intp]
    """The likeliest tokens."""
    total: Floats
    """Sum of all probabilities."""
    chosen: Mapping[str, tuple[Floats, Floats]]
    """By lexicon the probabilities of the columns ``closed_list`` and ``matched``."""


class _RowOfBatch(NamedTuple):
    """A prompt to score from a batch of texts."""

    position: int
    """Index of its text in the batch."""
    prompt: Prompt
    """The prompt."""
    row: int
    """Index of the prompt among all prompts."""


class _AutoMasked:
    """Loads a masked language model as ``load_model`` does; XLNet with the head that predicts a hidden position."""

    @staticmethod
    def from_pretrained(model: str, *, config: Any, **settings: Any) -> Any:
        head: Any = XLNetLMHeadModel if config.model_type == "xlnet" else AutoModelForMaskedLM
        return head.from_pretrained(model, config=config, **settings)


class MaskedScorer(TransformersScorer):
    """Score: probability mass at ``<mask>`` of the words with the prompt's label.

    Probabilities are summed by label and not renormalised. Where the lexicon has a ``threshold`` the score counts
    only those of the 100 likeliest tokens that reach it, and is 0 where none with the label does.

    Columns: ``closed_list_mass`` counts every word. ``matched_mass`` counts only words with a match in each other
    list, and is NaN where no words match. ``log_odds``, without a threshold: natural log-odds of the score.

    NaN: the text is too long, a probability is not finite, or the vocabulary has no token with the label.
    """

    auto_class = _AutoMasked
    kind = "masked"
    unit = "probability mass at the mask"

    def __init__(self, model: Any, tokenizer: Any, *, model_id: str, **settings: Any) -> None:
        """Prepare a model and its vocabulary.

        Args:
            model: a masked language model of transformers.
            tokenizer: its tokenizer.
            model_id: name of the model in findings.
            settings: further settings of a ``TransformersScorer``.

        Raises:
            ValueError: The tokenizer has no mask token.
        """
        if tokenizer.mask_token is None:
            raise ValueError(f"Model {model_id!r} has no mask token. Use a masked language model.")
        super().__init__(model, tokenizer, model_id=model_id, **settings)
        self.identity = {**self.identity, "top_k": TOP_K}
        self.vocabulary = Vocabulary(tokenizer, output_rows(model))
        self.words = self.vocabulary.words
        self._lexicons: dict[str, _TokensOfLexicon] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts; a text that several of them share is read once.

        Args:
            prompts: prompts with texts of one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        rows_of_text: dict[str, list[int]] = {}
        for row, prompt in enumerate(prompts):
            rows_of_text.setdefault(prompt.text, []).append(row)
        texts = list(rows_of_text)
        results = [not_scored(extra_columns(_lexicon_of(prompt))) for prompt in prompts]
        names = dict.fromkeys(prompt.lexicon.rpartition("/")[0] for prompt in prompts)
        lexicons = [load_lexicon(name) for name in names if name]
        columns = self._columns_of(lexicons)

        def choose(probabilities: torch.Tensor) -> Outputs:
            top, tokens = probabilities.topk(min(TOP_K, probabilities.shape[1]), dim=1)
            total = probabilities.sum(dim=1, dtype=torch.float64)
            return top, tokens, total, *(probabilities[:, indices] for indices in columns)

        for members, (top, tokens, total, *chosen) in self.mask_outputs(texts, choose):
            arrays = [part.numpy() for part in chosen]
            pairs = zip(arrays[::2], arrays[1::2], strict=True)
            of_lexicon = {lexicon.name: pair for lexicon, pair in zip(lexicons, pairs, strict=True)}
            read = _ReadBatch(top.numpy(), tokens.numpy(), total.numpy(), of_lexicon)
            batch = [
                _RowOfBatch(position, prompts[row], row)
                for position, index in enumerate(members)
                for row in rows_of_text[texts[index]]
            ]
            for row, scored in self._score_batch(read, batch):
                results[row] = scored
            on_progress(len(batch))
        return results

    def _columns_of(self, lexicons: Sequence[Lexicon]) -> list[torch.Tensor]:
        """Return the columns of probabilities that lexicons need, on the model's device: two sets of each lexicon."""
        sets = []
        for lexicon in lexicons:
            tokens = self._tokens_of(lexicon)
            sets += [tokens.closed_list.columns, tokens.matched.columns]
        return [send(torch.from_numpy(columns), self.model.device) for columns in sets]

    def mask_outputs(
        self, texts: Sequence[str], choose: Callable[[torch.Tensor], Outputs]
    ) -> Iterator[tuple[list[int], Outputs]]:
        """Return what is wanted of the probabilities of all tokens at the masks of texts, batch by batch.

        Args:
            texts: texts with one ``<mask>`` each; those that are too long are in no batch.
            choose: gives what is wanted of probabilities on the model's device, shape (texts, vocabulary). A row with
                a value that is not finite is NaN throughout.

        Yields:
            The indices of some texts, and what ``choose`` gave for them, on the processor.
        """

        def read(encoded: Sequence[Sequence[int]]) -> Outputs:
            probabilities = self.batch_probabilities(encoded)
            not_finite = ~probabilities.sum(dim=1, keepdim=True).isfinite()
            if is_asynchronous(probabilities.device) or not_finite.any():
                probabilities = probabilities.masked_fill(not_finite, math.nan)
            return choose(probabilities)

        return self.outputs(texts, read)

    def mask_probabilities(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Return the probabilities of all tokens at the masks of texts, batch by batch.

        Args:
            texts: texts with one ``<mask>`` each; those that are too long are in no batch.

        Yields:
            The indices of some texts, and the probabilities at their masks, shape (texts, vocabulary). A row with a
            value that is not finite is NaN throughout.
        """
        for members, (probabilities,) in self.mask_outputs(texts, lambda whole: (whole,)):
            yield members, probabilities

    def batch_probabilities(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the probabilities at the masks of texts that are read in one forward pass.

        Args:
            encoded: token ids of each text, with a mask; of several the first is read.

        Returns:
            Shape (texts, vocabulary), float32.
        """
        if self.model.config.model_type == "xlnet":
            logits = self._hidden_logits(send(torch.tensor(encoded), self.model.device))
        else:
            mask = self.tokenizer.mask_token_id
            logits = self.engine.logits(encoded, [list(ids).index(mask) for ids in encoded])
        return torch.softmax(logits, dim=-1)

    def _hidden_logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Return XLNet's logits at the first mask of each text of one length, predicted from its query stream."""
        is_masked = ids == self.tokenizer.mask_token_id
        is_first = is_masked & (is_masked.cumsum(dim=1) == 1)
        target = is_first[:, None].to(self.model.dtype)
        # perm_mask[k, i, j] = 1: in text k, i does not see j
        hidden = is_masked[:, None].to(self.model.dtype).expand(-1, ids.shape[1], -1)
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
            matched: False: the column ``matched`` is False throughout, for readings that match no words.

        Returns:
            A row for each word.
        """
        tokens = self._tokens_of(lexicon)
        labelled = tokens.labelled
        rows = []
        for word, label in lexicon.entries():
            ids = labelled.of_word[word]
            rows.append(
                {
                    "model_id": self.model_id,
                    "lexicon": lexicon.name,
                    "word": word,
                    "label": label,
                    "in_vocabulary": bool(ids),
                    "matched": matched and bool(tokens.is_matched[ids].any()),
                }
            )
        return rows

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts.

        Args:
            texts: texts with one ``<mask>`` each.

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
        """Return the labels of a lexicon, and for every token of the vocabulary the index of its label.

        Args:
            name: the lexicon as CORPUS/LIST.
        """
        labelled = self._tokens_of(load_lexicon(name)).labelled
        return labelled.labels, labelled.of_token

    def _tokens_of(self, lexicon: Lexicon) -> _TokensOfLexicon:
        """Return the tokens of a lexicon's words, found once for each lexicon."""
        if lexicon.name not in self._lexicons:
            tokens = self.vocabulary.label(lexicon)
            words = [word.lower() for word in self.words]
            rest = tokens.labels.index(lexicon.rest)
            is_matched = matched_words(words, tokens.of_token, rest)
            self._lexicons[lexicon.name] = _TokensOfLexicon(
                tokens,
                is_matched,
                _mass_columns(tokens.of_token, len(tokens.labels)),
                _mass_columns(np.where(is_matched, tokens.of_token, rest), len(tokens.labels)),
            )
        return self._lexicons[lexicon.name]

    def _score_batch(
        self, read: _ReadBatch, batch: Sequence[_RowOfBatch]
    ) -> Iterator[tuple[int, Scored]]:
        """Yield the row and the score of each prompt of a batch, from what is read of its texts."""
        # A little below the bound: probabilities are rounded to float32.
        is_likely = read.top >= np.float32(SAVED_FROM - 1e-6)
        counts = is_likely.sum(axis=1).clip(min=LEAST_SAVED).tolist()
        saved_probabilities = [
            row[:count] for row, count in zip(read.top.tolist(), counts, strict=True)
        ]
        saved_words = [
            [self.words[token] for token in row[:count]]
            for row, count in zip(read.tokens.tolist(), counts, strict=True)
        ]
        masses_of_lexicons: dict[str, _MassesOfLabels] = {}
        for position, prompt, row in batch:
            lexicon, index = self._label_of(prompt)
            if lexicon.name not in masses_of_lexicons:
                masses_of_lexicons[lexicon.name] = self._masses_of_labels(lexicon, read)
            masses = masses_of_lexicons[lexicon.name]
            score = float(masses.score[position, index])
            # Checked before the score: the mass of a label that no top token has would be 0.
            is_finite = not math.isnan(saved_probabilities[position][0])
            if not is_finite or math.isnan(score):
                yield row, not_scored(extra_columns(lexicon), finite=is_finite)
                continue
            columns = {
                "closed_list_mass": float(masses.closed_list[position, index]),
                "matched_mass": float(masses.matched[position, index]),
            }
            if not lexicon.threshold:
                columns[LOG_ODDS] = _log_odds(score)
            words = saved_words[position]
            yield (
                row,
                Scored(score, words[0], ranked(words, saved_probabilities[position]), columns),
            )

    def _label_of(self, prompt: Prompt) -> tuple[Lexicon, int]:
        """Return the lexicon of a prompt, and the index of the label that counts."""
        name, _, label = prompt.lexicon.rpartition("/")
        labels, _ = self.labels_of_tokens(name)
        if label not in labels:
            raise ValueError(
                f"lexicon {prompt.lexicon!r}: {name} has the labels {labels}. Fix the row."
            )
        return load_lexicon(name), labels.index(label)

    def _masses_of_labels(self, lexicon: Lexicon, read: _ReadBatch) -> _MassesOfLabels:
        """Sum probabilities by label."""
        tokens = self._tokens_of(lexicon)
        chosen, chosen_of_matched = read.chosen[lexicon.name]
        closed_list = tokens.closed_list.masses(chosen, read.total)
        if lexicon.threshold:
            score = _mass_of_top(tokens.closed_list, read, lexicon.threshold)
            matched = _mass_of_top(tokens.matched, read, lexicon.threshold)
        else:
            score = closed_list.copy()
            matched = tokens.matched.masses(chosen_of_matched, read.total)
        count = len(tokens.labelled.labels)
        has_no_token = np.bincount(tokens.labelled.of_token, minlength=count) == 0
        score[:, has_no_token] = math.nan  # 0 would be a score
        if not tokens.is_matched.any():
            matched[:] = math.nan
        return _MassesOfLabels(score, closed_list, matched)


def extra_columns(lexicon: Lexicon | None) -> tuple[str, ...]:
    """Return the names of the score columns beside the score of a prompt.

    Args:
        lexicon: the prompt's lexicon; None where it has none.
    """
    if lexicon is None or lexicon.threshold:
        return EXTRA_COLUMNS
    return (*EXTRA_COLUMNS, LOG_ODDS)


def _lexicon_of(prompt: Prompt) -> Lexicon | None:
    """Return the lexicon of a prompt; None where it has none."""
    name = prompt.lexicon.rpartition("/")[0]
    return load_lexicon(name) if name else None


def _log_odds(mass: float) -> float:
    """Return the natural log-odds of a probability mass; NaN where it is 0 or 1."""
    return math.log(mass) - math.log1p(-mass) if 0 < mass < 1 else math.nan


def _mass_columns(label_of_token: NDArray[np.intp], labels: int) -> _MassColumns:
    """Return the columns for the masses of labels."""
    common = int(np.bincount(label_of_token, minlength=labels).argmax())
    return _MassColumns(label_of_token, labels, common, np.flatnonzero(label_of_token != common))


def _mass_of_top(columns: _MassColumns, read: _ReadBatch, threshold: float) -> Floats:
    """Return the mass of each label among the likeliest tokens that reach a threshold, shape (texts, labels)."""
    codes = columns.of_token[read.tokens]
    return mass_by_label(read.top, codes, columns.labels, threshold=threshold)
