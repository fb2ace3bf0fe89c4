"""Other scores of a masked model at one mask: log-mass of words, and the attitude of the words that it fills in."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from swapbias.measures import mass_by_label
from swapbias.models.engine.transfers import Outputs, send
from swapbias.models.masked import MaskedScorer
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import DerivedScorer, Scored, not_scored, ranked
from swapbias.studies import Lexicon, Prompt, load_lexicon

ATTITUDE_TOP_K = 50
"""Words rated per prompt (Mei et al. 2023)."""
ATTITUDES = ("positive", "negative", "neutral", "irrelevant", "unrated")
_RATED = ATTITUDES[:3]
_ATTITUDE_PARTS = (*(f"{label}_mass" for label in ATTITUDES), "top_mass", "antonym_log_odds")


class MaskedReading(DerivedScorer):
    """Another score of a masked model."""

    kind = "masked"

    def coverage(self, lexicon: Lexicon) -> list[dict[str, Any]]:
        """Say which words of a lexicon are single tokens; none counts as matched.

        Args:
            lexicon: words with labels.
        """
        return list(self.inner.coverage(lexicon, matched=False))


class LogMassScorer(MaskedReading):
    """Score: natural log of the probability mass of the lexicon's words, however rare; NaN: too long, or no mass."""

    unit = "natural log-probability"

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the log of their mass.

        Args:
            prompts: prompts with one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        results = []
        for scored in self.inner.score(prompts, on_progress):
            mass = scored.parts["closed_list_mass"]
            score = math.log(mass) if mass > 0 else math.nan
            results.append(replace(scored, score=score, parts={}))
        return results


class AttitudeScorer(MaskedReading):
    """Score: P(negative), the share of disapproving words in the rated mass of the 50 likeliest words.

    NEG / (POS + NEG + NEUT). NaN: no rated word among the 50, or not finite. ``antonym_log_odds``: mean over known
    antonym pairs of log p(disapproving) - log p(approving).
    """

    unit = "P(negative)"

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, top_k=ATTITUDE_TOP_K)
        self._pairs: dict[str, list[tuple[int, int]]] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the words that are filled in.

        Args:
            prompts: prompts with one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        results = [not_scored(_ATTITUDE_PARTS)] * len(prompts)
        texts = [prompt.text for prompt in prompts]
        corpora = dict.fromkeys(prompt.lexicon.partition("/")[0] for prompt in prompts)
        pairs_of_corpora = [
            torch.tensor(self._known_pairs(corpus), dtype=torch.long) for corpus in corpora
        ]
        pairs = [send(tokens.view(-1, 2), self.inner.model.device) for tokens in pairs_of_corpora]

        def choose(probabilities: torch.Tensor) -> Outputs:
            top, tokens = probabilities.topk(min(ATTITUDE_TOP_K, probabilities.shape[1]), dim=1)
            return top, tokens, *(probabilities[:, tokens_of_pairs] for tokens_of_pairs in pairs)

        for members, (values, tokens, *of_pairs) in self.inner.mask_outputs(texts, choose):
            lexicons = [prompts[index].lexicon.rpartition("/")[0] for index in members]
            odds = dict(zip(corpora, map(_log_odds, of_pairs), strict=True))
            for position, index in enumerate(members):
                results[index] = self._scored(
                    values[position],
                    tokens[position],
                    lexicons[position],
                    odds[lexicons[position].partition("/")[0]][position],
                )
            on_progress(len(members))
        return results

    def _scored(
        self, top: torch.Tensor, tokens: torch.Tensor, lexicon: str, log_odds: float
    ) -> Scored:
        """Score a text by the probabilities of its likeliest tokens."""
        labels, label_of_token = self.inner.labels_of_tokens(lexicon)
        if math.isnan(float(top[0])):
            return not_scored(_ATTITUDE_PARTS, finite=False)
        masses = mass_by_label(top[None].numpy(), label_of_token[tokens.numpy()], len(labels))[0]
        sums = {**dict.fromkeys(ATTITUDES, 0.0), **dict(zip(labels, masses.tolist(), strict=True))}
        rated = sum(sums[label] for label in _RATED)
        words = [self.inner.words[token] for token in tokens.tolist()]
        parts = {f"{label}_mass": mass for label, mass in sums.items()}
        parts |= {"top_mass": float(top.sum()), "antonym_log_odds": log_odds}
        score = sums["negative"] / rated if rated > 0 else math.nan
        return Scored(score, words[0], ranked(words, top.tolist()), parts)

    def _known_pairs(self, corpus: str) -> list[tuple[int, int]]:
        """Return token ids of the antonyms of a corpus, found once."""
        if corpus not in self._pairs:
            self._pairs[corpus] = self._antonyms(f"{corpus}/antonyms")
        return self._pairs[corpus]

    def _antonyms(self, name: str) -> list[tuple[int, int]]:
        """Return token ids of the pairs whose two words are single tokens, a word's commonest form first."""
        words = [word for word, _ in load_lexicon(name).entries()]
        tokens_of_word = self.inner.vocabulary.tokens_of(words)
        # at this mask words begin with a space
        ids = {word: tokens[0] for word, tokens in tokens_of_word.items() if tokens}
        pairs = zip(words[::2], words[1::2], strict=True)
        return [(ids[good], ids[bad]) for good, bad in pairs if good in ids and bad in ids]


def _log_odds(probabilities: torch.Tensor) -> list[float]:
    """Return the mean over antonym pairs of each text, shape (texts, pairs, 2); NaN where no pair is known."""
    approving, disapproving = torch.log(probabilities.clamp_min(1e-12)).unbind(dim=2)
    return [float(row.mean()) for row in disapproving - approving]
