"""Scorers with known answers: a blind one, a silent one and one with a bias of known size."""

import zlib

from swapbias.models.scorer import Scored, Scorer


def hash_of(text):
    return zlib.crc32(text.encode())


def mixed(*names):
    """A number from 0 to 1 that follows from names."""
    return hash_of("/".join(names)) % 10_000 / 10_000


def letter(row, value):
    """The letter of the first option of a row that counts this much."""
    return "ABCDE"[[candidate.value for candidate in row["candidates"]].index(value)]


class RuleScorer(Scorer):
    """Score: whatever a rule says of the prompt; a bias of known size can be planted with it."""

    unit = "score of a rule"

    def __init__(self, rule, *, model_id="planted", kind="classifier"):
        self.rule = rule
        self.model_id = model_id
        self.kind = kind
        self.identity = {"kind": kind, "revision": "rule"}

    def score(self, prompts, on_progress=None):
        if on_progress:
            on_progress(len(prompts))
        return [Scored(self.rule(prompt)) for prompt in prompts]


def blind(kind="classifier"):
    """Gives every prompt .5: nothing is measured."""
    return RuleScorer(lambda _prompt: 0.5, model_id="blind", kind=kind)


def silent(kind="classifier"):
    """Scores nothing: each value must be NaN and every pair counted as unscored."""
    return RuleScorer(lambda _prompt: float("nan"), model_id="silent", kind=kind)
