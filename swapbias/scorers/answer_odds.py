"""Coreference by probability: which of two answers a causal language model would rather give."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from swapbias.prompts import Prompt
from swapbias.scorers import Progress, Scored, not_finite, ranked
from swapbias.scorers.causal import CausalScorer
from swapbias.scorers.chat_local import open_ids
from swapbias.scorers.loading import length_batches, length_limit

PARTS = ("log_odds", "log_odds_per_token")
UNSCORED = Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan))


class AnswerOddsScorer:
    """Score: 1 where the correct answer is likelier after the prompt than the incorrect one, 0 where less, .5: equal.

    ``candidates`` of a prompt are its answers, ``correct|incorrect`` (``the mechanic|the clerk``); each follows the
    prompt after a space. ``log_odds``: natural log p(correct) - log p(incorrect), above 0 where the correct one is
    likelier. ``log_odds_per_token``: the same of the mean over the tokens of each answer, for answers of unequal
    length. NaN: prompt and answer are longer than the model reads, or a log-probability is NaN, or both answers are
    impossible. Where one is (probability 0), the other is likelier, and the log-odds are NaN.
    """

    kind = "causal"
    unit = "correct answer is likelier"

    def __init__(self, causal: CausalScorer) -> None:
        """Compare answers with a causal scorer."""
        self.causal = causal
        self.model_id = causal.model_id
        self.identity: Mapping[str, Any] = causal.identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt.

        Raises:
            ValueError: candidates that are not two answers.
        """
        results = [UNSCORED] * len(prompts)
        pairs = [self._pair(prompt) for prompt in prompts]
        limit = length_limit(self.causal.tokenizer, self.causal.model.config)
        fits = [index for index, pair in enumerate(pairs) if max(map(len, pair.ids)) <= limit]
        texts = [(pairs[index].ids[side], pairs[index].start) for index in fits for side in (0, 1)]
        values = self._log_probabilities(texts, on_progress)
        for place, index in enumerate(fits):
            results[index] = pairs[index].scored(values[2 * place], values[2 * place + 1])
        if on_progress and len(fits) < len(prompts):
            on_progress(len(prompts) - len(fits))
        return results

    def _pair(self, prompt: Prompt) -> "_Pair":
        answers = prompt.candidates.split("|")
        if len(answers) != 2 or not all(answers):
            raise ValueError(
                f"{prompt.prompt_id}: candidates {prompt.candidates!r}, expected 'correct|incorrect'. Give two."
            )
        before = open_ids(self.causal.tokenizer, prompt.text)
        ids = [open_ids(self.causal.tokenizer, f"{prompt.text} {answer}") for answer in answers]
        return _Pair(answers, ids, min(min(_shared(before, one), len(one) - 1) for one in ids))

    def _log_probabilities(self, texts: Sequence[tuple[list[int], int]], on_progress: Progress | None) -> list[float]:
        """For (tokens, start): natural log-probability of the tokens from ``start`` on, given those before."""
        found = [math.nan] * len(texts)
        for members in length_batches([len(ids) for ids, _ in texts], self.causal.batch_size):
            starts = [texts[index][1] for index in members]
            low = min(starts)  # logits are kept from the first answer on: they are large
            ids = torch.tensor([texts[index][0] for index in members], device=self.causal.model.device)
            with torch.inference_mode():
                logits = self.causal.model(input_ids=ids, return_dict=True).logits[:, low - 1 : -1].float()
                each = torch.log_softmax(logits, dim=-1).gather(2, ids[:, low:, None])[..., 0].double()
            for index, start, row in zip(members, starts, each, strict=True):
                found[index] = float(row[start - low :].sum())
            if on_progress:
                on_progress(len(members) / 2)
        return found


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two answers, the tokens of the prompt with each, and where the answers start; one start for both."""

    answers: Sequence[str]
    ids: Sequence[list[int]]
    start: int

    def scored(self, correct: float, incorrect: float) -> Scored:
        odds = correct - incorrect
        if math.isnan(odds):
            return not_finite(PARTS)
        means = [value / (len(ids) - self.start) for value, ids in zip((correct, incorrect), self.ids, strict=True)]
        likelier = "" if odds == 0 else self.answers[0] if odds > 0 else self.answers[1]
        share = (1 + math.tanh(odds / 2)) / 2  # of the correct one, were there no third answer
        return Scored(
            0.5 if odds == 0 else float(odds > 0),
            likelier,
            ranked(self.answers, (share, 1 - share)),
            dict(zip(PARTS, (odds, means[0] - means[1]), strict=True)) if math.isfinite(odds) else UNSCORED.parts,
        )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with in common; at least 1, since nothing predicts a first token."""
    pairs = enumerate(zip(one, other, strict=False))
    return max(1, next((place for place, (a, b) in pairs if a != b), min(len(one), len(other))))
