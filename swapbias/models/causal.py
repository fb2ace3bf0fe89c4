"""Causal language models: log-probability of a text, of an antonym in a sentence, and of one of two answers."""

import json
import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from transformers import AutoModelForCausalLM

from swapbias.errors import UsageError
from swapbias.models.chat.local import open_ids
from swapbias.models.engine.loglikelihood import Text, ends_within
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
        start = (
            tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        )
        # A tokenizer that begins every text with a token of its own needs no other.
        self._begun = any(
            tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"][:1]
        )
        self._start = [] if self._begun or start is None else [start]
        self._first: dict[str, int] = {}  # of each pair, where nothing predicts it
        if self._start:
            self.identity = {**self.identity, "before_text": tokenizer.convert_ids_to_tokens(start)}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        pairs = [
            f"{one.experiment}/{one.condition}/{one.template}/{one.pair_id}" for one in prompts
        ]
        values = self.log_probabilities([one.text for one in prompts], on_progress, pairs)
        return [
            not_scored()
            if value is None
            else Scored(value)
            if math.isfinite(value)
            else not_scored(finite=False)
            for value in values
        ]

    def log_probabilities(
        self, texts: Sequence[str], on_progress: Progress = silent, pairs: Sequence[str] = ()
    ) -> list[float | None]:
        """Log-probability of each text, in nats; None where it is too long or has no token to score.

        UsageError: texts of one name in ``pairs`` differ in a first token without a probability.
        """
        read = self.encode(texts)
        if not (self._begun or self._start):
            for ids, pair in zip(read, pairs, strict=False):
                if ids and self._first.setdefault(pair, ids[0]) != ids[0]:
                    why = f"{self.model_id} has neither a BOS nor an EOS token"
                    raise UsageError(
                        f"{why}: it scores no first token, and pairs differ in it. Name another model."
                    )
        return self.ends([([*self._start, *ids], 1) for ids in read], on_progress)

    def ends(self, texts: Sequence[Text], on_progress: Progress) -> list[float | None]:
        """Log-probability of the end of each text after its beginning, in nats; None as ``log_probabilities``."""
        refuse_unknown_tokens(self.model_id, self.model, self.tokenizer, (ids for ids, _ in texts))
        limit = length_limit(self.tokenizer, self.model)
        return ends_within(
            self.model, texts, limit, batch_size=self.batch_size, on_progress=on_progress
        )


class AntonymScorer(DerivedScorer):
    """Score: mean over antonym pairs of log p(text with the disapproving word) - log p(with the approving one).

    Above 0 the disapproving words are likelier. ``top_tokens`` has the log-odds of each pair of the prompt's corpus.
    """

    kind = "causal"
    unit = "mean log-odds of the disapproving antonym"
    chunk_rows = 64

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        corpora = (prompt.lexicon.partition("/")[0] for prompt in prompts)
        words = [
            [word for word, _ in load_lexicon(f"{corpus}/antonyms").entries()] for corpus in corpora
        ]
        texts = [
            prompt.text.replace(MASK, word)
            for prompt, own in zip(prompts, words, strict=True)
            for word in own
        ]
        share = len(prompts) / len(texts)
        pairs = [prompt.prompt_id for prompt, own in zip(prompts, words, strict=True) for _ in own]
        values = iter(
            self.inner.log_probabilities(texts, lambda done: on_progress(done * share), pairs)
        )
        return [self._scored(own, [next(values) for _ in own]) for own in words]

    def _scored(self, words: Sequence[str], values: Sequence[float | None]) -> Scored:
        """Words and values alternate: approving, disapproving."""
        if any(value is not None and not math.isfinite(value) for value in values):
            return not_scored(finite=False)
        known = [math.nan if value is None else value for value in values]
        odds = [bad - good for good, bad in zip(known[::2], known[1::2], strict=True)]
        named = [f"{good}/{bad}" for good, bad in zip(words[::2], words[1::2], strict=True)]
        pairs = [
            [name, round(value, 6)]
            for name, value in zip(named, odds, strict=True)
            if not math.isnan(value)
        ]
        return Scored(sum(odds) / len(odds), top_tokens=json.dumps(pairs, ensure_ascii=False))


class AnswerOddsScorer(DerivedScorer):
    """Score: 1 where the correct answer is likelier after the prompt than the incorrect one, 0 where less, .5: equal.

    ``candidates`` of a prompt are its answers, the correct one first; each follows the prompt after a space.
    ``log_odds``: natural log p(correct) - log p(incorrect), above 0 where the correct one is likelier, NaN where one
    is impossible. NaN: prompt and answer are longer than the model reads, a log-probability is NaN, or both answers
    are impossible.
    """

    kind = "causal"
    unit = "correct answer is likelier"

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """One Scored per prompt; a ValueError for candidates that are not two answers."""
        pairs = [self._tokens(prompt) for prompt in prompts]
        texts = [(ids, start) for both, start in pairs for ids in both]
        values = self.inner.ends(texts, lambda done: on_progress(done / 2))
        return [
            not_scored(["log_odds"])
            if right is None or wrong is None
            else _of_answers(prompt, right - wrong)
            for prompt, right, wrong in zip(prompts, values[::2], values[1::2], strict=True)
        ]

    def _tokens(self, prompt: Prompt) -> tuple[list[list[int]], int]:
        """The tokens of the prompt with each answer, and where the answers start; one start for both."""
        answers = [one.text for one in prompt.candidates]
        if len(answers) != 2 or not all(answers):
            raise ValueError(
                f"{prompt.prompt_id}: candidates {answers}, expected a correct and an incorrect one."
            )
        before = open_ids(self.inner.tokenizer, prompt.text)
        ids = [open_ids(self.inner.tokenizer, f"{prompt.text} {answer}") for answer in answers]
        # Nothing predicts a first token, and each answer has one of its own.
        pairs = (
            takewhile(lambda two: two[0] == two[1], zip(before, one, strict=False)) for one in ids
        )
        starts = [
            min(max(1, len(list(alike))), len(one) - 1)
            for alike, one in zip(pairs, ids, strict=True)
        ]
        return ids, min(starts)


def _of_answers(prompt: Prompt, odds: float) -> Scored:
    """The score by the log-odds of the correct answer."""
    answers = [one.text for one in prompt.candidates]
    if math.isnan(odds):
        return not_scored(["log_odds"], finite=False)
    share = (1 + math.tanh(odds / 2)) / 2  # of the correct one, were there no third answer
    return Scored(
        0.5 if odds == 0 else float(odds > 0),
        "" if odds == 0 else answers[odds < 0],
        ranked(answers, (share, 1 - share)),
        parts={"log_odds": odds if math.isfinite(odds) else math.nan},
    )
