"""Recursive masking (Lin et al. 2022): the gendered phrases a masked model would put at the mask."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from swapbias.models.base import Progress, Scored, not_scored, ranked, silent
from swapbias.models.masked import MaskedReading, MaskedScorer
from swapbias.studies import MASK, Prompt, load_lexicon

BEAM = 10  # likeliest tokens followed at each step
_SHARES = (0.01, 0.09, 0.90)  # of the work, by step: 1, 10 and 100 forward passes per prompt


@dataclass(slots=True)
class _Stimulus:
    """One text under one lexicon: its open branches and the gendered phrases found."""

    text: str
    lexicon: str
    branches: list[tuple[tuple[str, ...], float]] = field(default_factory=lambda: [((), 1.0)])
    phrases: list[tuple[str, float, str]] = field(default_factory=list)
    too_long: bool = False
    finite: bool = True  # whether all probabilities along its branches are

    def sequence(self, words: tuple[str, ...]) -> str:
        """Step 1 masks the last word, step 2 one before it, step 3 one between the two."""
        return self.text.replace(MASK, " ".join((*words[1:], MASK, *words[:1])))


class PhraseScorer(MaskedReading):
    """Score: summed probability of the phrases that end in a word of the prompt's lexicon.

    Step 1 fills the mask with the ten likeliest tokens t1. A token of the lexicon ends its branch and adds its
    probability; else ``<mask> t1`` is filled, with ten t2 each; else ``t2 <mask> t1``, whose gendered t3 add p1 p2
    p3. 0: no phrase of the group was met. NaN: the text is longer than the model reads, or probabilities on the way
    are not finite. ``top_tokens`` holds every phrase of the group with its probability.
    """

    unit = "probability mass of phrases"
    chunk_rows = 96

    def __init__(self, masked: MaskedScorer) -> None:
        super().__init__(masked, beam=BEAM, steps=len(_SHARES))
        # Tokens that begin a word carry a space in byte-level and SentencePiece vocabularies.
        self._spaces = any(token.startswith(" ") for token in masked.raw)
        self._labels: dict[str, list[str]] = {}  # of each token of the vocabulary, blank for words of no group
        self._known: dict[str, list[tuple[int, float]]] = {}  # identical sequences are computed once, over all chunks

    def score(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Scored]:
        keys = [(prompt.text, prompt.lexicon.rpartition("/")[0]) for prompt in prompts]
        stimuli = {key: _Stimulus(*key) for key in keys}
        for share in _SHARES:
            sequences = dict.fromkeys(one.sequence(words) for one in stimuli.values() for words, _ in one.branches)
            self._fill([sequence for sequence in sequences if sequence not in self._known])
            on_progress(share * len(prompts))
            for one in stimuli.values():
                branches, one.branches = one.branches, []
                for words, p in branches:
                    self._grow(one, words, p)
        return [self._scored(stimuli[key], prompt) for key, prompt in zip(keys, prompts, strict=True)]

    def _fill(self, sequences: Sequence[str]) -> None:
        """The ten likeliest tokens of each sequence; none where it is longer than the model reads."""
        self._known |= {sequence: [] for sequence in sequences}
        for members, probabilities in self.inner.read(sequences):
            top = probabilities.topk(BEAM, dim=1)
            for index, values, tokens in zip(members, top.values.tolist(), top.indices.tolist(), strict=True):
                self._known[sequences[index]] = list(zip(tokens, values, strict=True))

    def _grow(self, one: _Stimulus, words: tuple[str, ...], p: float) -> None:
        """One branch: each token ends in a phrase or opens a branch, and at the last step none is opened."""
        labels, tokens = self._labels_of(one.lexicon), self._known[one.sequence(words)]
        one.too_long |= not tokens
        if tokens and math.isnan(tokens[0][1]):
            one.finite = False
            return
        for token, share in tokens:
            word = self.inner.words[token]
            if labels[token]:
                one.phrases.append((self._phrase(words, token), p * share, labels[token]))
            # Special and blank tokens leave nothing to put beside a mask.
            elif len(words) < len(_SHARES) - 1 and word and token not in self.inner.tokenizer.all_special_ids:
                one.branches.append(((*words, word), p * share))

    def _labels_of(self, name: str) -> list[str]:
        if name not in self._labels:
            labels, of_token = self.inner.labels_of_tokens(name)
            rest = load_lexicon(name).rest
            self._labels[name] = ["" if labels[at] == rest else labels[at] for at in of_token.tolist()]
        return self._labels[name]

    def _phrase(self, words: tuple[str, ...], token: int) -> str:
        """The phrase in reading order; a token that continues a word joins it ("school" + "girl")."""
        raw, word = self.inner.raw[token], self.inner.words[token]
        if len(words) < 2:
            return " ".join((word, *words))
        joined = word.startswith("##") or (self._spaces and not raw.startswith(" "))
        return f"{words[1]}{'' if joined else ' '}{word.removeprefix('##')} {words[0]}"

    def _scored(self, one: _Stimulus, prompt: Prompt) -> Scored:
        if one.too_long or not one.finite:
            return not_scored(finite=one.finite)
        label = prompt.lexicon.rpartition("/")[2]
        mine = sorted(((p, phrase) for phrase, p, group in one.phrases if group == label), reverse=True)
        top_tokens = ranked([phrase for _, phrase in mine], [p for p, _ in mine], decimals=9)
        return Scored(sum(p for p, _ in mine), mine[0][1] if mine else "", top_tokens)
