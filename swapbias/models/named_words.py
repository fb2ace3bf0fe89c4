"""A second reading of texts: the log-probability of the words that a prompt names, given the text around them.

The swapped words are part of that text alone, so that their length and frequency are in no score.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from swapbias.models.causal import score_of, shared_tokens, start_of_answer
from swapbias.models.engine.loglikelihood import TokenisedText
from swapbias.models.engine.transfers import Outputs, received, send
from swapbias.models.masked import MaskedScorer
from swapbias.models.masked_readings import LogMassScorer
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.studies import MASK, Prompt, load_lexicon

CONDITIONAL = "conditional"
"""The score column beside the score."""


class NamedWordsScorer(DerivedScorer):
    """Score: natural log-probability of the text, as of ``CausalScorer``.

    ``conditional``: that of the first of the prompt's ``candidates``, which its text contains, given the words before
    it; what follows is not read. NaN: the prompt has no candidates, or the text has no score.
    """

    kind = "causal"
    unit = "log-probability"

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts; what the text and its part have in common is read once where the model allows it.

        Args:
            prompts: any number of them; those of one pair stand in any order.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: The text of a prompt does not contain its candidate after other words.
        """
        texts = self.inner.tokenised_prompts(prompts)
        named = {index: prompt for index, prompt in enumerate(prompts) if prompt.candidates}
        parts = [self._part(prompt, texts[index][0]) for index, prompt in named.items()]
        share = len(prompts) / max(len(texts) + len(parts), 1)
        values = self.inner.continuation_log_probs(
            [*texts, *parts], lambda done: on_progress(done * share)
        )
        value_of_part = dict(zip(named, values[len(texts) :], strict=True))
        results = []
        for index, scored in enumerate(map(score_of, values[: len(texts)])):
            results.append(_with_part(scored, value_of_part.get(index)))
        return results

    def _part(self, prompt: Prompt, ids: Sequence[int]) -> TokenisedText:
        """Return the tokens of a text up to the end of its candidate, and the index at which the candidate starts."""
        before, through = text_parts(prompt, prompt.text)
        tokenizer = self.inner.tokenizer
        encoded = [
            [*self.inner.beginning, *tokenizer(text)["input_ids"]] for text in (before, through)
        ]
        span = token_span(tokenizer, ids, *encoded)
        return [*ids[: span.stop]], span.start


class _MaskedSequence(NamedTuple):
    """A text in which a token of its candidate and those after it are masked."""

    row: int
    """Index of its prompt."""
    ids: list[int]
    """Its token ids, with at least one mask."""
    token: int
    """The token at the first mask."""


class MaskedWordsScorer(LogMassScorer):
    """Score: natural log of the probability mass of the lexicon's words, as of ``LogMassScorer``.

    ``conditional``: natural log-probability of the first of the prompt's ``candidates``, which its text contains. The
    first word of the lexicon's label fills the mask, and the candidate's tokens are masked instead and read from left
    to right, each given those before it (Kauf & Ivanova 2023). NaN: the prompt has no candidates, the text is too
    long, or a log-probability is not finite.
    """

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, candidates="left to right")

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the log of their mass, and by their candidates.

        Args:
            prompts: prompts with one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: The text of a prompt does not contain its candidate after other words.
        """
        results = super().score(prompts, lambda done: on_progress(done / 2))
        sequences = [
            sequence
            for index, prompt in enumerate(prompts)
            if prompt.candidates
            for sequence in self._sequences(index, prompt)
        ]
        refuse_unknown_tokens(
            self.model_id,
            self.inner.model,
            self.inner.tokenizer,
            (sequence.ids for sequence in sequences),
        )
        sums: dict[int, float] = {}
        for members, (values,) in received(self._batches(sequences)):
            for index, value in zip(members, values.tolist(), strict=True):
                row = sequences[index].row
                sums[row] = sums.get(row, 0.0) + value
        on_progress(len(prompts) / 2)
        return [_with_part(scored, sums.get(index)) for index, scored in enumerate(results)]

    def _sequences(self, row: int, prompt: Prompt) -> Iterator[_MaskedSequence]:
        """Yield the ids of a text with a token of its candidate masked, and those after it; none of one too long."""
        text = prompt.text.replace(MASK, _word_of_label(prompt))
        tokenizer = self.inner.tokenizer
        encoded = tokenizer([text, *text_parts(prompt, text)])["input_ids"]
        ids = encoded[0]
        if len(ids) > self.inner.length_limit:
            return
        span = token_span(tokenizer, *encoded)
        for position in span:
            masks = [tokenizer.mask_token_id] * (span.stop - position)
            sequence = [*ids[:position], *masks, *ids[span.stop :]]
            yield _MaskedSequence(row, sequence, ids[position])

    def _batches(self, sequences: Sequence[_MaskedSequence]) -> Iterator[tuple[list[int], Outputs]]:
        """Yield indices of some sequences, and the log-probability of the token at the first mask of each."""
        device = self.inner.model.device
        for members in self.inner.engine.batches([len(sequence.ids) for sequence in sequences]):
            probabilities = self.inner.batch_probabilities(
                [sequences[index].ids for index in members]
            )
            tokens = torch.tensor([[sequences[index].token] for index in members])
            yield members, (probabilities.gather(1, send(tokens, device))[:, 0].double().log(),)


def _word_of_label(prompt: Prompt) -> str:
    """Return the first word of the lexicon's label that counts."""
    name, _, label = prompt.lexicon.rpartition("/")
    for word, word_label in load_lexicon(name).entries():
        if word_label == label:
            return word
    raise ValueError(f"lexicon {prompt.lexicon!r}: {name} has no word of it. Fix the row.")


def text_parts(prompt: Prompt, text: str) -> tuple[str, str]:
    """Return a text up to the beginning of the prompt's first candidate, and up to its end.

    Args:
        prompt: a prompt with candidates.
        text: its text as the model reads it, in which the candidate's last place counts, as whole words if it is so.

    Raises:
        ValueError: The candidate is not there, or no word is before it.
    """
    words = prompt.candidates[0].text
    whole_words = [*re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text)]
    start = whole_words[-1].start() if whole_words else text.rfind(words)
    if not words or not text[: max(start, 0)].strip():
        raise ValueError(
            f"{prompt.prompt_id}: its text does not contain {words!r} after other words. Correct the row."
        )
    return text[:start], text[: start + len(words)]


def token_span(
    tokenizer: Any, ids: Sequence[int], before: Sequence[int], through: Sequence[int]
) -> range:
    """Return the indices of the tokens of a part of a text; a token that reaches beyond it counts.

    Args:
        tokenizer: the model's tokenizer, whose marks at the end are no part.
        ids: token ids of the whole text.
        before: token ids of the text before the part alone.
        through: token ids of the text up to the end of the part.
    """
    marks = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    ids = _without_marks(ids, marks)
    through = _without_marks(through, marks)
    end = shared_tokens(through, ids)
    if end < len(through):
        end = min(end + 1, len(ids))
    return range(start_of_answer(before, ids[:end]), end)


def _without_marks(ids: Sequence[int], marks: Collection[int]) -> Sequence[int]:
    """Return token ids without the marks at their end."""
    end = len(ids)
    while end > 2 and ids[end - 1] in marks:
        end -= 1
    return ids[:end]


def _with_part(scored: Scored, value: float | None) -> Scored:
    """Return a score with the column beside it; None: it has none."""
    number = math.nan
    if value is not None and math.isfinite(value) and scored.finite:
        number = value
    return replace(scored, parts={**scored.parts, CONDITIONAL: number})
