"""The words that weigh most in both versions of a note, as a run keeps them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """The words that move a classifier most in both versions of a note (LIME)."""

    study: str
    """The study that the note was read for."""
    model_id: str
    """The name of the classifier."""
    phenotype: str
    """The phenotype that it predicts."""
    regime: str
    """The regime of its training notes."""
    pair_id: str
    """The pair of the two versions."""
    scores: Mapping[str, float]
    """By group the score of its version."""
    words: Mapping[str, Sequence[tuple[str, float]]]
    """By group the words of its version with their weights toward the phenotype, heaviest first."""
