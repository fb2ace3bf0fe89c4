"""Recursive masking (Lin et al. 2022): the gendered phrases a masked model would put at the mask."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swapbias.lexicons import Lexicon
from swapbias.prompts import MASK, Prompt
from swapbias.scorers import Coverage, Progress, Scored, ranked
from swapbias.scorers.masked import MaskedScorer
from swapbias.studies import load_lexicon

BEAM = 10  # likeliest tokens followed at each step
_SHARES = (0.01, 0.09, 0.90)  # of the work, by step: 1, 10 and 100 forward passes per prompt

Token = tuple[int, float]


@dataclass(slots=True)
class _Stimulus:
    """One text under one lexicon: its open branches and the gendered phrases found."""

    text: str
    lexicon: str
    branches: list[tuple[tuple[str, ...], float]] = field(default_factory=lambda: [((), 1.0)])
    phrases: list[tuple[str, float, str]] = field(default_factory=list)
    unread: bool = False

    def sequence(self, words: tuple[str, ...]) -> str:
        """Step 1 asks for the last word, step 2 for one before it, step 3 for one between the two."""
        first, last = words[1:], words[:1]
        return self.text.replace(MASK, " ".join((*first, MASK, *last)))


class PhraseScorer:
    """Score: summed probability of the phrases that end in a word of the prompt's candidates.

    Step 1 fills the mask with the ten likeliest tokens t1. A token of the lexicon ends its branch and adds its
    probability; else ``<mask> t1`` is filled, with ten t2 each: again gendered ones end and add p1 p2; else
    ``t2 <mask> t1`` is filled, and gendered t3 add p1 p2 p3, the rest is dropped. No threshold, no
    normalisation. 0: no phrase of the group was met. NaN: the text is longer than the model reads.
    ``top_tokens`` holds every phrase of the group with its probability.
    """

    kind = "masked"
    unit = "probability mass of phrases"
    chunk_rows = 96

    def __init__(self, masked: MaskedScorer) -> None:
        """Read phrases with a masked scorer."""
        self.masked = masked
        self.model_id = masked.model_id
        self.identity: Mapping[str, Any] = {**masked.identity, "beam": BEAM, "steps": len(_SHARES)}
        # Tokens that begin a word carry a space in byte-level and SentencePiece vocabularies.
        self._spaces = any(token.startswith(" ") for token in masked.raw)
        self._known: dict[str, list[Token]] = {}  # identical sequences are computed once, over all chunks

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """Which words of a lexicon are single tokens of the vocabulary."""
        return self.masked.coverage(lexicon)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, breadth first over all of them."""
        stimuli: dict[tuple[str, str], _Stimulus] = {}
        for prompt in prompts:
            key = (prompt.text, prompt.candidates.rpartition("/")[0])
            stimuli.setdefault(key, _Stimulus(*key))
        for share in _SHARES:
            self._step(list(stimuli.values()), _part(on_progress, share * len(prompts)))
        return [
            self._scored(stimuli[prompt.text, prompt.candidates.rpartition("/")[0]], prompt) for prompt in prompts
        ]

    def _step(self, stimuli: Sequence[_Stimulus], on_progress: Callable[[float], None]) -> None:
        asked = dict.fromkeys(one.sequence(words) for one in stimuli for words, _ in one.branches)
        self._fill([sequence for sequence in asked if sequence not in self._known], on_progress)
        for one in stimuli:
            labels, of_token = self.masked.labels_of_tokens(one.lexicon)
            rest = labels.index(load_lexicon(one.lexicon).rest)
            branches, one.branches = one.branches, []
            for words, p in branches:
                tokens = self._known[one.sequence(words)]
                one.unread |= not tokens
                for token, share in tokens:
                    label = int(of_token[token])
                    if label != rest:
                        one.phrases.append((self._phrase(words, token), p * share, labels[label]))
                    elif len(words) < len(_SHARES) - 1 and self._usable(token):
                        one.branches.append(((*words, self.masked.words[token]), p * share))

    def _fill(self, sequences: Sequence[str], on_progress: Callable[[float], None]) -> None:
        """The ten likeliest tokens of each sequence; none where it is longer than the model reads."""
        self._known |= {sequence: [] for sequence in sequences}
        done = 0
        for members, probabilities in self.masked.read(sequences):
            top = probabilities.topk(BEAM, dim=1)
            for index, values, tokens in zip(members, top.values.tolist(), top.indices.tolist(), strict=True):
                self._known[sequences[index]] = list(zip(tokens, values, strict=True))
            done += len(members)
            on_progress(done / len(sequences))
        on_progress(1.0)

    def _usable(self, token: int) -> bool:
        """Whether a branch can go on: special and blank tokens leave nothing to put beside a mask."""
        return bool(self.masked.words[token]) and token not in self.masked.tokenizer.all_special_ids

    def _phrase(self, words: tuple[str, ...], token: int) -> str:
        """The phrase in reading order; a token that continues a word joins it ("school" + "girl")."""
        raw, word = self.masked.raw[token], self.masked.words[token]
        if len(words) == 2:
            joined = word.startswith("##") or (self._spaces and not raw.startswith(" "))
            return f"{words[1]}{'' if joined else ' '}{word.removeprefix('##')} {words[0]}"
        return " ".join((word, *words))

    def _scored(self, one: _Stimulus, prompt: Prompt) -> Scored:
        if one.unread:
            return Scored(float("nan"))
        label = prompt.candidates.rpartition("/")[2]
        mine = sorted(((p, phrase) for phrase, p, group in one.phrases if group == label), reverse=True)
        return Scored(
            score=sum(p for p, _ in mine),
            answer=mine[0][1] if mine else "",
            top_tokens=ranked([phrase for _, phrase in mine], [p for p, _ in mine], decimals=9),
        )


def _part(on_progress: Progress | None, size: float) -> Callable[[float], None]:
    """Progress of one step, told as the share that is done so far."""
    before = 0.0

    def report(share: float) -> None:
        nonlocal before
        if on_progress and share > before:
            on_progress((share - before) * size)
            before = share

    return report
