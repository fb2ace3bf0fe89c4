"""Probability mass of the phrases that a masked model grows at a mask, word by word (Lin et al. 2022)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from swapbias.models.masked import MaskedScorer
from swapbias.models.masked_readings import MaskedReading
from swapbias.models.progress import Progress, silent
from swapbias.models.scorer import Scored, not_scored, ranked
from swapbias.studies import MASK, Prompt, load_lexicon

BEAM = 10
"""Likeliest tokens followed at each step."""
_SHARES = (0.01, 0.09, 0.90)  # of the work, by step: 1, 10 and 100 forward passes per prompt


@dataclass(slots=True)
class _Stimulus:
    """One text under one lexicon: its open branches and the gendered phrases that they ended in."""

    text: str
    """The text with its ``<mask>``."""
    lexicon: str
    """CORPUS/LIST of the words that end a phrase."""
    branches: list[tuple[tuple[str, ...], float]] = field(default_factory=lambda: [((), 1.0)])
    """Words of each open branch, and their probability."""
    phrases: list[tuple[str, float, str]] = field(default_factory=list)
    """Phrases, their probability, and the label of their last word."""
    too_long: bool = False
    """Whether a sequence is longer than the model reads."""
    finite: bool = True
    """Whether all probabilities along its branches are."""

    def sequence(self, words: tuple[str, ...]) -> str:
        """Return the text of a branch: step 1 masks the last word, step 2 one before it, step 3 one between them."""
        return self.text.replace(MASK, " ".join((*words[1:], MASK, *words[:1])))

    def take_branches(self) -> list[tuple[tuple[str, ...], float]]:
        """Return the open branches, which are open no longer."""
        branches = self.branches
        self.branches = []
        return branches

    def lose(self, *, finite: bool) -> None:
        """Leave it without a score: too long, or, not ``finite``, NaN along a branch."""
        if finite:
            self.too_long = True
        else:
            self.finite = False


class PhraseScorer(MaskedReading):
    """Score: summed probability of the phrases that end in a word of the prompt's lexicon (Lin et al. 2022).

    Step 1 fills the mask with the ten likeliest tokens t1. A token of the lexicon ends its branch and adds its
    probability; else ``<mask> t1`` is filled, with ten t2 each; else ``t2 <mask> t1``, whose gendered t3 add all p.
    0: no phrase of the group was met. NaN: too long, or not finite. ``top_tokens``: each phrase with its p.
    """

    unit = "probability mass of phrases"
    chunk_rows = 96

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, beam=BEAM, steps=len(_SHARES))
        # Tokens that begin a word carry a space in byte-level and SentencePiece vocabularies.
        self._spaces = any(token.startswith(" ") for token in masked.vocabulary.raw)
        # Of each token of the vocabulary, by lexicon; empty for words of no group.
        self._labels: dict[str, list[str]] = {}
        # Identical sequences are computed once, over all chunks.
        self._likeliest: dict[str, list[tuple[int, float]]] = {}

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        """Score prompts by the phrases that are filled in; each stimulus is read once.

        Args:
            prompts: prompts with one ``<mask>`` each.
            on_progress: called with the number of further prompts that are done.
        """
        keys = [(prompt.text, prompt.lexicon.rpartition("/")[0]) for prompt in prompts]
        stimuli = {key: _Stimulus(*key) for key in keys}
        for share in _SHARES:
            self._fill(list(stimuli.values()))
            on_progress(share * len(prompts))
            for stimulus in stimuli.values():
                for words, probability in stimulus.take_branches():
                    self._grow(stimulus, words, probability)
        return [
            self._scored(stimuli[key], prompt) for key, prompt in zip(keys, prompts, strict=True)
        ]

    def _fill(self, stimuli: Sequence[_Stimulus]) -> None:
        """Read the ten likeliest tokens of each open branch; none where it is longer than the model reads."""
        new: dict[str, None] = {}
        for stimulus in stimuli:
            for words, _ in stimulus.branches:
                sequence = stimulus.sequence(words)
                if sequence not in self._likeliest:
                    new[sequence] = None
        sequences = list(new)
        self._likeliest.update({sequence: [] for sequence in sequences})
        for members, (tops, indices) in self.inner.mask_outputs(
            sequences, lambda probabilities: tuple(probabilities.topk(BEAM, dim=1))
        ):
            values = tops.tolist()
            tokens = indices.tolist()
            for position, index in enumerate(members):
                pairs = zip(tokens[position], values[position], strict=True)
                self._likeliest[sequences[index]] = list(pairs)

    def _grow(self, stimulus: _Stimulus, words: tuple[str, ...], probability: float) -> None:
        """Grow a branch: each token ends in a phrase or opens a branch, and at the last step none is opened."""
        labels = self._labels_of(stimulus.lexicon)
        likeliest = self._likeliest[stimulus.sequence(words)]
        if not likeliest or math.isnan(likeliest[0][1]):
            stimulus.lose(finite=not likeliest)
            return
        is_last = len(words) == len(_SHARES) - 1
        for token, share in likeliest:
            word = self.inner.words[token]
            if labels[token]:
                phrase = self._phrase(words, token)
                stimulus.phrases.append((phrase, probability * share, labels[token]))
            # Special and blank tokens leave nothing to put beside a mask.
            elif not is_last and word and token not in self.inner.tokenizer.all_special_ids:
                stimulus.branches.append(((*words, word), probability * share))

    def _labels_of(self, name: str) -> list[str]:
        """Return the label of each token under a lexicon; empty for words of no group."""
        if name not in self._labels:
            labels, label_of_token = self.inner.labels_of_tokens(name)
            rest = load_lexicon(name).rest
            names = ["" if label == rest else label for label in labels]
            self._labels[name] = [names[index] for index in label_of_token.tolist()]
        return self._labels[name]

    def _phrase(self, words: tuple[str, ...], token: int) -> str:
        """Return the phrase in reading order; a token that continues a word joins it ("school" + "girl")."""
        raw = self.inner.vocabulary.raw[token]
        word = self.inner.words[token]
        if len(words) < 2:
            return " ".join((word, *words))
        continues = word.startswith("##") or (self._spaces and not raw.startswith(" "))
        space = "" if continues else " "
        return f"{words[1]}{space}{word.removeprefix('##')} {words[0]}"

    def _scored(self, stimulus: _Stimulus, prompt: Prompt) -> Scored:
        """Score a prompt by the phrases of its group."""
        if stimulus.too_long or not stimulus.finite:
            return not_scored(finite=stimulus.finite)
        label = prompt.lexicon.rpartition("/")[2]
        pairs = [
            (probability, phrase)
            for phrase, probability, group in stimulus.phrases
            if group == label
        ]
        pairs.sort(reverse=True)
        phrases = [phrase for _, phrase in pairs]
        probabilities = [probability for probability, _ in pairs]
        likeliest = phrases[0] if phrases else ""
        return Scored(sum(probabilities), likeliest, ranked(phrases, probabilities, decimals=9))
