"""Causal language models: log-probability of a text, of an antonym in a sentence, and of one of two answers."""

import json
import math
from collections.abc import Sequence
from typing import Any

from transformers import AutoModelForCausalLM

from swapbias.errors import UsageError
from swapbias.models.chat.local import open_ids
from swapbias.models.engine.loglikelihood import TokenisedText, log_probs_within
from swapbias.models.lengths import length_limit
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored, not_scored, ranked
from swapbias.models.tokens import refuse_unknown_tokens
from swapbias.models.transformers_scorer import TransformersScorer
from swapbias.studies import MASK, Prompt, load_lexicon


class CausalScorer(TransformersScorer):
    """Score: natural log-probability of the text, token by token, its first token included.

    The first token is scored after the token that begins a text (BOS, else EOS, as GPT-2 was trained), which is put
    before the text where the tokenizer does not. Where there is neither, it is left out, and pairs that differ in it
    are refused. NaN: the text is longer than the model reads, has no token to score, or a log-probability is not
    finite.
    """

    kind = "causal"
    unit = "log-probability"

    auto_class = AutoModelForCausalLM
    is_encoder = False

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        start = tokenizer.bos_token_id
        if start is None:
            start = tokenizer.eos_token_id
        # A tokenizer that begins every text with a token of its own needs no other.
        is_special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        self._has_beginning = any(is_special[:1])
        self.beginning: list[int] = [] if self._has_beginning or start is None else [start]
        self._first_tokens: dict[str, int] = {}  # of each pair, where nothing predicts them
        if self.beginning:
            self.identity = {**self.identity, "before_text": tokenizer.convert_ids_to_tokens(start)}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the log-probability of their text.

        Args:
            prompts: any number of them; those of one pair stand in any order.
            on_progress: called with the number of further prompts that are done.
        """
        values = self.continuation_log_probs(self.tokenised_prompts(prompts), on_progress)
        return [score_of(value) for value in values]

    def tokenised_prompts(self, prompts: Sequence[Prompt]) -> list[TokenisedText]:
        """Return the texts of prompts as ``continuation_log_probs`` takes them, all of their tokens scored.

        Args:
            prompts: any number of them.

        Raises:
            UsageError: Texts of one pair differ in a first token without a probability.
        """
        pairs = [
            f"{prompt.experiment}/{prompt.condition}/{prompt.template}/{prompt.pair_id}"
            for prompt in prompts
        ]
        return self._tokenised([prompt.text for prompt in prompts], pairs)

    def log_probabilities(
        self, texts: Sequence[str], on_progress: Progress = silent, pairs: Sequence[str] = ()
    ) -> list[float | None]:
        """Return the log-probability of each text.

        Args:
            texts: any number of them.
            on_progress: called with the number of further texts that are done.
            pairs: names of pairs, one for each text; none: texts are compared with no other.

        Returns:
            Nats, at most 0; None where a text is too long or has no token to score.

        Raises:
            UsageError: Texts of one pair differ in a first token without a probability.
        """
        return self.continuation_log_probs(self._tokenised(texts, pairs), on_progress)

    def _tokenised(self, texts: Sequence[str], pairs: Sequence[str]) -> list[TokenisedText]:
        """Return texts after what begins them, all of their tokens scored; a UsageError as ``log_probabilities``."""
        encoded = self.encode(texts)
        if not (self._has_beginning or self.beginning):
            self._refuse_other_beginnings(encoded, pairs)
        return [([*self.beginning, *ids], 1) for ids in encoded]

    def _refuse_other_beginnings(
        self, encoded: Sequence[Sequence[int]], pairs: Sequence[str]
    ) -> None:
        """Raise a UsageError where texts of a pair differ in their first token, which nothing predicts."""
        for ids, pair in zip(encoded, pairs, strict=False):
            if ids and self._first_tokens.setdefault(pair, ids[0]) != ids[0]:
                raise UsageError(
                    f"{self.model_id} has neither a BOS nor an EOS token: it scores no first token, "
                    "and pairs differ in it. Name another model."
                )

    def continuation_log_probs(
        self, texts: Sequence[TokenisedText], on_progress: Progress
    ) -> list[float | None]:
        """Return the log-probability of each text's continuation given its context.

        Args:
            texts: token ids of context and continuation, and the index at which the continuation begins.
            on_progress: called with the number of further texts that are done.

        Returns:
            Nats, at most 0; None where a text is too long or has no token to score.
        """
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, (ids for ids, _ in texts))
        limit = length_limit(self.tokenizer, self.model)
        return log_probs_within(
            self.model, texts, limit, batch_size=self.batch_size, on_progress=on_progress
        )


def score_of(value: float | None) -> Scored:
    """Return the score of a log-probability.

    Args:
        value: nats; None: there is none.
    """
    if value is None:
        return not_scored()
    return Scored(value) if math.isfinite(value) else not_scored(finite=False)


class AntonymScorer(DerivedScorer):
    """Score: mean over antonym pairs of log p(text with the disapproving word) - log p(with the approving one).

    Above 0 disapproving words are more likely. ``top_tokens`` has the log-odds of each pair of the prompt's corpus.
    """

    kind = "causal"
    unit = "mean log-odds of the disapproving antonym"
    chunk_rows = 64

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the antonyms in their text.

        Args:
            prompts: prompts with one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        words_of_prompt = [_antonyms_of(prompt) for prompt in prompts]
        texts = []
        pairs = []
        for prompt, words in zip(prompts, words_of_prompt, strict=True):
            texts += [prompt.text.replace(MASK, word) for word in words]
            pairs += [prompt.prompt_id] * len(words)
        share = len(prompts) / len(texts)
        values = self.inner.log_probabilities(texts, lambda done: on_progress(done * share), pairs)
        results = []
        start = 0
        for words in words_of_prompt:
            results.append(self._scored(words, values[start : start + len(words)]))
            start += len(words)
        return results

    def _scored(self, words: Sequence[str], values: Sequence[float | None]) -> Scored:
        """Score a prompt; words and values alternate: approving, disapproving."""
        if any(value is not None and not math.isfinite(value) for value in values):
            return not_scored(finite=False)
        numbers = [math.nan if value is None else value for value in values]
        odds = [bad - good for good, bad in zip(numbers[::2], numbers[1::2], strict=True)]
        names = [f"{good}/{bad}" for good, bad in zip(words[::2], words[1::2], strict=True)]
        pairs = [
            [name, round(value, 6)]
            for name, value in zip(names, odds, strict=True)
            if not math.isnan(value)
        ]
        return Scored(sum(odds) / len(odds), top_tokens=json.dumps(pairs, ensure_ascii=False))


def _antonyms_of(prompt: Prompt) -> list[str]:
    """Return the antonyms of a prompt's corpus: approving and disapproving ones alternate."""
    corpus = prompt.lexicon.partition("/")[0]
    return [word for word, _ in load_lexicon(f"{corpus}/antonyms").entries()]


class AnswerOddsScorer(DerivedScorer):
    """Score: 1 if the correct answer is more likely after the prompt than the incorrect one, 0 if less, .5: equal.

    ``candidates`` of a prompt are its answers, the correct one first; each follows the prompt after a space.
    ``log_odds``: natural log p(correct) - log p(incorrect), above 0 if the correct one is more likely, NaN if one is
    impossible. NaN: prompt and answer are longer than the model reads, a log-probability is NaN, or both answers
    are impossible.
    """

    kind = "causal"
    unit = "correct answer is more likely"

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the odds of their answers.

        Args:
            prompts: prompts with two candidates each.
            on_progress: called with the number of further prompts that are done.

        Raises:
            ValueError: The candidates of a prompt are not two answers.
        """
        pairs = [self._tokens(prompt) for prompt in prompts]
        texts = [(ids, start) for both, start in pairs for ids in both]
        values = self.inner.continuation_log_probs(texts, lambda done: on_progress(done / 2))
        results = []
        for prompt, right, wrong in zip(prompts, values[::2], values[1::2], strict=True):
            if right is None or wrong is None:
                results.append(not_scored(["log_odds"]))
            else:
                results.append(_score_of_odds(prompt, right - wrong))
        return results

    def _tokens(self, prompt: Prompt) -> tuple[list[list[int]], int]:
        """Return the tokens of the prompt with each answer, and the index at which both answers start."""
        answers = [candidate.text for candidate in prompt.candidates]
        if len(answers) != 2 or not all(answers):
            raise ValueError(
                f"{prompt.prompt_id}: candidates {answers}, expected a correct and an incorrect one."
            )
        tokenizer = self.inner.tokenizer
        before = open_ids(tokenizer, prompt.text)
        encoded = [open_ids(tokenizer, f"{prompt.text} {answer}") for answer in answers]
        return encoded, min(start_of_answer(before, ids) for ids in encoded)


def start_of_answer(before: Sequence[int], ids: Sequence[int]) -> int:
    """Return the index at which an answer starts; nothing predicts a first token, and an answer has one at least.

    Args:
        before: token ids of the prompt alone.
        ids: token ids of the prompt with the answer.
    """
    return min(max(1, shared_tokens(before, ids)), len(ids) - 1)


def shared_tokens(ids: Sequence[int], other_ids: Sequence[int]) -> int:
    """Count the tokens that two texts begin with alike.

    Args:
        ids: token ids of a text.
        other_ids: token ids of another text.
    """
    shared = 0
    for token, other_token in zip(ids, other_ids, strict=False):
        if token != other_token:
            break
        shared += 1
    return shared


def _score_of_odds(prompt: Prompt, odds: float) -> Scored:
    """Return the score by the log-odds of the correct answer."""
    if math.isnan(odds):
        return not_scored(["log_odds"], finite=False)
    right, wrong = [candidate.text for candidate in prompt.candidates]
    share = (1 + math.tanh(odds / 2)) / 2  # of the correct one, were there no third answer
    top_tokens = ranked((right, wrong), (share, 1 - share))
    parts = {"log_odds": odds if math.isfinite(odds) else math.nan}
    if odds == 0:
        return Scored(0.5, "", top_tokens, parts=parts)
    if odds > 0:
        return Scored(1.0, right, top_tokens, parts=parts)
    return Scored(0.0, wrong, top_tokens, parts=parts)
