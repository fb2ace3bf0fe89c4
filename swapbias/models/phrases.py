"""Recursive masking (Lin et al. 2022): the gendered phrases a masked model would put at the mask."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swapbias.errors import UsageError
from swapbias.models.masked import MaskedScorer
from swapbias.models.scorer import Coverage, Progress, Scored, Scorer, ranked
from swapbias.studies import MASK, Lexicon, Prompt, load_lexicon

BEAM = 10  # likeliest tokens followed at each step
MOST_LOST = 0.01  # path probability that pruning may give up of a prompt
_SHARES = (0.01, 0.09, 0.90)  # of the work, by step: 1, 10 and 100 forward passes per prompt

Token = tuple[int, float]


@dataclass(slots=True)
class _Stimulus:
    """One text under one lexicon: its open branches and the gendered phrases found."""

    text: str
    lexicon: str
    branches: list[tuple[tuple[str, ...], float]] = field(default_factory=lambda: [((), 1.0)])
    phrases: list[tuple[str, float, str]] = field(default_factory=list)
    pruned: float = 0.0  # path probability of the branches that were given up
    unread: bool = False
    finite: bool = True  # whether all probabilities along its branches are

    def sequence(self, words: tuple[str, ...]) -> str:
        """Step 1 asks for the last word, step 2 for one before it, step 3 for one between the two."""
        first, last = words[1:], words[:1]
        return self.text.replace(MASK, " ".join((*first, MASK, *last)))


class PhraseScorer(Scorer):
    """Score: summed probability of the phrases that end in a word of the prompt's candidates.

    Step 1 fills the mask with the ten likeliest tokens t1. A token of the lexicon ends its branch and adds its
    probability; else ``<mask> t1`` is filled, with ten t2 each: again gendered ones end and add p1 p2; else
    ``t2 <mask> t1`` is filled, and gendered t3 add p1 p2 p3, the rest is dropped. No threshold, no
    normalisation. 0: no phrase of the group was met. NaN: the text is longer than the model reads,
    or probabilities on the way are not finite. ``top_tokens`` holds every phrase of the group with its probability.

    ``prune`` gives up branches of a lower path probability, which is faster and no longer exact: at each step the
    least likely first, and none by which a prompt's would hold more than ``most_lost`` in all. What they held is kept
    as ``pruned_mass``: the phrases of all groups together could have had that much more at most.
    """

    kind = "masked"
    unit = "probability mass of phrases"
    chunk_rows = 96

    def __init__(self, masked: MaskedScorer, *, prune: float = 0.0, most_lost: float = MOST_LOST) -> None:
        """Read phrases with a masked scorer; ``prune`` 0 is exact.

        Raises:
            UsageError: a probability to prune at, or one to lose, outside 0 to 1.
        """
        if not 0 <= prune < 1:
            raise UsageError(f"prune {prune}: expected a probability of at least 0 and below 1, such as 0.001.")
        if not 0 <= most_lost <= 1:
            raise UsageError(f"most_lost {most_lost}: expected a probability, such as {MOST_LOST}.")
        self.masked, self.prune, self.most_lost = masked, prune, most_lost
        self.model_id = masked.model_id
        self.identity: Mapping[str, Any] = {
            **masked.identity,
            "beam": BEAM,
            "steps": len(_SHARES),
            **({"prune": prune, "most_lost": most_lost} if prune else {}),
        }
        # Tokens that begin a word carry a space in byte-level and SentencePiece vocabularies.
        self._spaces = any(token.startswith(" ") for token in masked.raw)
        self._labels: dict[str, tuple[list[str], list[int]]] = {}
        self._known: dict[str, list[Token]] = {}  # identical sequences are computed once, over all chunks

    @property
    def error_note(self) -> str:
        """As of the masked scorer."""
        return self.masked.error_note

    def coverage(self, lexicon: Lexicon) -> list[Coverage]:
        """Which words of a lexicon are single tokens of the vocabulary."""
        return self.masked.coverage(lexicon, matched=False)

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
            branches, one.branches = one.branches, []
            for words, p in branches:
                self._grow(one, words, p)
            self._give_up(one)

    def _give_up(self, one: _Stimulus) -> None:
        """The least likely branches below the threshold, as many as may be lost."""
        unlikely = sorted((p, at) for at, (_, p) in enumerate(one.branches) if p < self.prune)
        lost = set()
        for p, at in unlikely:
            if one.pruned + p > self.most_lost:
                break
            one.pruned += p
            lost.add(at)
        one.branches = [branch for at, branch in enumerate(one.branches) if at not in lost]

    def _grow(self, one: _Stimulus, words: tuple[str, ...], p: float) -> None:
        """One branch: its tokens end in a phrase or go on, and at the last step nothing does."""
        labels, of_token = self._labels_of(one.lexicon)
        tokens = self._known[one.sequence(words)]
        one.unread |= not tokens
        if tokens and math.isnan(tokens[0][1]):
            one.finite = False
            return
        for token, share in tokens:
            label = labels[of_token[token]]
            if label:
                one.phrases.append((self._phrase(words, token), p * share, label))
            elif len(words) < len(_SHARES) - 1 and self._usable(token):
                one.branches.append(((*words, self.masked.words[token]), p * share))

    def _labels_of(self, name: str) -> tuple[list[str], list[int]]:
        """The labels of a lexicon, blank for the one of all other words, and the label's place for every token."""
        if name not in self._labels:
            labels, of_token = self.masked.labels_of_tokens(name)
            rest = load_lexicon(name).rest
            self._labels[name] = ["" if label == rest else label for label in labels], of_token.tolist()
        return self._labels[name]

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
        parts = {"pruned_mass": one.pruned} if self.prune else {}
        if one.unread or not one.finite:
            return Scored(math.nan, parts=dict.fromkeys(parts, math.nan), finite=one.finite)
        label = prompt.candidates.rpartition("/")[2]
        mine = sorted(((p, phrase) for phrase, p, group in one.phrases if group == label), reverse=True)
        return Scored(
            score=sum(p for p, _ in mine),
            answer=mine[0][1] if mine else "",
            top_tokens=ranked([phrase for _, phrase in mine], [p for p, _ in mine], decimals=9),
            parts=parts,
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
