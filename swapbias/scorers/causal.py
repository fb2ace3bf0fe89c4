"""Causal language models: log-probability of a text, and which antonym a sentence would rather hold."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM

from swapbias.prompts import MASK, Prompt
from swapbias.scorers import LoadOptions, Progress, Scored, not_finite
from swapbias.scorers.loading import length_batches, length_limit, load_model, model_name
from swapbias.studies import load_lexicon


class CausalScorer:
    """Score: natural log-probability of the text, token by token, after its first token.

    NaN: the text is longer than the model reads, or a single token, or what the model gives is not finite.
    """

    kind = "causal"
    unit = "log-probability"

    def __init__(
        self, model: Any, tokenizer: Any, *, model_id: str, batch_size: int = 64, identity: Mapping[str, Any]
    ) -> None:
        """Wrap a loaded model; ``load`` is the usual way."""
        self.model, self.tokenizer = model.eval(), tokenizer
        self.model_id, self.batch_size = model_id, batch_size
        self.identity: Mapping[str, Any] = {**identity, "kind": self.kind}

    @classmethod
    def load(cls, model: str, options: LoadOptions) -> Self:
        """From a Hub id or local folder.

        Raises:
            ValueError: no such model, or not a causal one.
        """
        loaded, tokenizer, pin = load_model(model, AutoModelForCausalLM, device=options.device, dtype=options.dtype)
        return cls(loaded, tokenizer, model_id=model_name(model), batch_size=options.batch_size, identity=pin)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        return [_scored(value) for value in self.log_probabilities([one.text for one in prompts], on_progress)]

    def log_probabilities(self, texts: Sequence[str], on_progress: Progress | None = None) -> list[float | None]:
        """Log-probability of each text, in nats; None where it is too long or a single token."""
        encoded = [self.tokenizer(text)["input_ids"] for text in texts]
        limit = length_limit(self.tokenizer, self.model.config)
        fits = [index for index, ids in enumerate(encoded) if 1 < len(ids) <= limit]
        found: list[float | None] = [None] * len(texts)
        for batch in length_batches([len(encoded[index]) for index in fits], self.batch_size):
            members = [fits[index] for index in batch]
            ids = torch.tensor([encoded[index] for index in members], device=self.model.device)
            with torch.inference_mode():
                logits = self.model(input_ids=ids, return_dict=True).logits[:, :-1].float()
                each = torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None])[..., 0]
            for index, value in zip(members, each.double().sum(dim=1).tolist(), strict=True):
                found[index] = value
            if on_progress:
                on_progress(len(members))
        return found


def _scored(value: float | None) -> Scored:
    if value is None:
        return Scored(math.nan)
    return Scored(value) if math.isfinite(value) else not_finite()


class AntonymScorer:
    """Score: mean over antonym pairs of log p(text with the disapproving word) - log p(with the approving one).

    Needs no lexicon of attitudes: above 0 the model would rather disapprove; 0: either word. The pairs are those of
    the corpus the prompt belongs to; ``top_tokens`` holds each pair's log-odds.
    """

    kind = "causal"
    unit = "mean log-odds of the disapproving antonym"
    chunk_rows = 64

    def __init__(self, causal: CausalScorer) -> None:
        """Read antonyms with a causal scorer."""
        self.causal = causal
        self.model_id, self.identity = causal.model_id, causal.identity

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        words = [self._words(prompt) for prompt in prompts]
        texts = [prompt.text.replace(MASK, word) for prompt, own in zip(prompts, words, strict=True) for word in own]
        share = len(prompts) / len(texts)
        report = (lambda done: on_progress(done * share)) if on_progress else None
        values = iter(self.causal.log_probabilities(texts, report))
        return [self._scored(own, [next(values) for _ in own]) for own in words]

    def _words(self, prompt: Prompt) -> list[str]:
        corpus = prompt.candidates.partition("/")[0]
        return [word for word, _ in load_lexicon(f"{corpus}/antonyms").entries()]

    def _scored(self, words: Sequence[str], values: Sequence[float | None]) -> Scored:
        """Words and values alternate: approving, disapproving."""
        if any(value is not None and not math.isfinite(value) for value in values):
            return not_finite()
        known = [math.nan if value is None else value for value in values]
        odds = [bad - good for good, bad in zip(known[::2], known[1::2], strict=True)]
        named = [f"{good}/{bad}" for good, bad in zip(words[::2], words[1::2], strict=True)]
        pairs = [[name, round(value, 6)] for name, value in zip(named, odds, strict=True) if not math.isnan(value)]
        return Scored(sum(odds) / len(odds), top_tokens=json.dumps(pairs, ensure_ascii=False))
