"""Readings of social distance: approval at the mask, and the negative label of a sentiment system."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from swapbias.errors import UsageError
from swapbias.measures import mass_by_label
from swapbias.models.masked import MaskedScorer
from swapbias.models.scorer import Coverage, Progress, Scored, Scorer, not_finite, ranked
from swapbias.studies import Lexicon, Prompt, load_lexicon

TOP_K = 50  # words rated per prompt (Mei et al. 2023)
LABELS = ("positive", "negative", "neutral", "irrelevant", "unrated")
RATED = ("positive", "negative", "neutral")
PARTS = (*(f"{label}_mass" for label in LABELS), "top_mass", "antonym_log_odds")


class AttitudeScorer(Scorer):
    """Score: P(negative), the share of disapproving words in the rated mass of the 50 likeliest words.

    NEG / (POS + NEG + NEUT) of probability mass; unrated and irrelevant words are left out, and their mass is
    kept beside it. 0: no disapproval; 1: nothing else. NaN: no rated word among the 50, or probabilities that are
    not finite. ``antonym_log_odds`` needs no lexicon: the mean over antonym pairs that the vocabulary knows of log
    p(disapproving) - log p(approving); above 0 disapproval is likelier.
    """

    kind = "masked"
    unit = "P(negative)"

    def __init__(self, masked: MaskedScorer) -> None:
        """Read attitudes with a masked scorer."""
        self.masked = masked
        self.model_id = masked.model_id
        self.identity: Mapping[str, Any] = {**masked.identity, "top_k": TOP_K}
        self._pairs: dict[str, list[tuple[int, int]]] = {}

    @property
    def error_note(self) -> str:
        """As of the masked scorer."""
        return self.masked.error_note

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """Which words of a lexicon are single tokens of the vocabulary."""
        return self.masked.coverage(lexicon, matched=False)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt."""
        results = [Scored(math.nan, parts=dict.fromkeys(PARTS, math.nan))] * len(prompts)
        for members, probabilities in self.masked.read([prompt.text for prompt in prompts]):
            for place, index in enumerate(members):
                results[index] = self._scored(probabilities[place], prompts[index].candidates)
            if on_progress:
                on_progress(len(members))
        return results

    def _scored(self, probabilities: torch.Tensor, candidates: str) -> Scored:
        name = candidates.rpartition("/")[0]
        labels, of_token = self.masked.labels_of_tokens(name)
        top, tokens = probabilities.topk(min(TOP_K, len(probabilities)))
        if math.isnan(float(top[0])):
            return not_finite(PARTS)
        masses = mass_by_label(top[None].cpu().numpy(), of_token[tokens.cpu().numpy()], len(labels))[0]
        sums = {**dict.fromkeys(LABELS, 0.0), **dict(zip(labels, masses.tolist(), strict=True))}
        rated = sum(sums[label] for label in RATED)
        words = [self.masked.words[token] for token in tokens.tolist()]
        return Scored(
            score=sums["negative"] / rated if rated > 0 else math.nan,
            answer=words[0],
            top_tokens=ranked(words, top.tolist()),
            parts={
                **{f"{label}_mass": mass for label, mass in sums.items()},
                "top_mass": float(top.sum()),
                "antonym_log_odds": self._log_odds(probabilities, name.partition("/")[0]),
            },
        )

    def _log_odds(self, probabilities: torch.Tensor, corpus: str) -> float:
        if corpus not in self._pairs:
            self._pairs[corpus] = self._antonyms(f"{corpus}/antonyms")
        pairs = self._pairs[corpus]
        if not pairs:
            return math.nan
        approving, disapproving = (
            torch.log(probabilities[list(side)].clamp_min(1e-12)) for side in zip(*pairs, strict=True)
        )
        return float((disapproving - approving).mean())

    def _antonyms(self, name: str) -> list[tuple[int, int]]:
        """Token ids of the pairs whose two words are single tokens, a word's commonest form first."""
        ids: dict[str, int] = {}
        for token, raw in enumerate(self.masked.raw):
            word = raw.strip()
            if word and (word not in ids or raw.startswith(" ")):  # at this mask words begin with a space
                ids[word] = token
        words = [word for word, _ in load_lexicon(name).entries()]
        pairs = zip(words[::2], words[1::2], strict=True)
        return [(ids[one], ids[other]) for one, other in pairs if one in ids and other in ids]


class NegativeLabelScorer(Scorer):
    """Score: 1 where a sentiment system labels the text negative, else 0; NaN where it gives no label."""

    kind = "classifier"
    unit = "share of negative labels"

    def __init__(self, classifier: Scorer) -> None:
        """Read labels with a sentiment scorer.

        Raises:
            UsageError: the labels of the model do not tell which one is negative.
        """
        self.classifier = classifier
        self.model_id = classifier.model_id
        self.identity = classifier.identity
        self._negative = classifier.negative_label
        if self._negative is None:
            raise UsageError(
                f"The labels of {self.model_id} do not tell which one means negative. "
                "Pass -M negative-label with its name."
            )

    @property
    def error_note(self) -> str:
        """As of the sentiment scorer."""
        return self.classifier.error_note

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt; the probability of positive sentiment is kept beside it."""
        return [self._scored(one) for one in self.classifier.score(prompts, on_progress)]

    def _scored(self, one: Scored) -> Scored:
        negative = math.nan if math.isnan(one.score) else float(one.answer == self._negative)
        return replace(one, score=negative, parts={"positive_probability": one.score})
