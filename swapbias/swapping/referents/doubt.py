"""Estimate how likely each decision about a gendered word is wrong, by a logistic model of how it was made."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import Ints
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.words import KINDS, OF_PATIENT, OWNERS, PRONOUN
from swapbias.swapping.rule_tables import weights_of

# Ways to decide, beside the kinds of nouns and PRONOUN (of the other gender).
SCORED, ALONE, NO_PATIENT = range(20, 23)
WAYS = {
    **KINDS,
    "other gender": PRONOUN,
    "scored": SCORED,
    "alone": ALONE,
    "no patient": NO_PATIENT,
}
"""Ways to decide by their names in weights."""
NUMBERS = (
    "margin of patient",
    "margin of other",
    "persons near",
    "words",
    "unsure words",
    "words that stay",
)
"""Names of the numbers that tell how sure a decision is."""
DOUBTFUL = 0.2
"""A word whose decision is wrong by a larger chance is doubtful."""
UNKNOWABLE = 0.25
"""The least chance that a word is decided wrong which a form shows beside that of the other gender: "Male Female"."""
_WAY_NAME = {way: name for name, way in WAYS.items()}
# Log-odds: a larger margin counts as this; a pronoun with a smaller one is unsure.
_SUREST = 8.0
_UNSURE = 1.5
_LEAST_WRONG = 0.01  # wrong words that every note is expected to have


def case_name(case: int) -> str:
    """Return how a word was decided, as a name of weights: the way and the owner ("scored: patient").

    Args:
        case: as in ``Decisions.cases``.
    """
    way, owner = divmod(case, len(OWNERS))
    return f"{_WAY_NAME[way]}: {OWNERS[owner]}"


def log_expected_wrong(wrong: NDArray[np.float64], rows: Ints, size: int) -> NDArray[np.float64]:
    """Return the logarithm of how many decisions of each row are wrong, as expected, (size,).

    Args:
        wrong: the chance that each decision is wrong, 0 to 1, (n,).
        rows: the row of each decision, (n,).
        size: the number of rows.
    """
    expected = np.bincount(rows, -np.log1p(-wrong), size)
    logarithm: NDArray[np.float64] = np.log(expected + _LEAST_WRONG)
    return logarithm


def _logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 + 0.5 * np.tanh(odds / 2)  # which never overflows


class Evidence(NamedTuple):
    """Evidence of how each word of a block was decided."""

    owners: NDArray[np.int8]
    """Whose gender it shows, or why else it stays, as indices into ``OWNERS``, (n,)."""
    sides: Ints
    """The side of each row's patient, (rows,); -1 where nothing tells it."""
    ways: Ints
    """The way of each decision, of ``WAYS``, (n,)."""
    odds: NDArray[np.float64]
    """The log-odds of a scored word that it is somebody else's, (n,); NaN of the others."""
    persons_near: Ints
    """Persons shortly before each word, (n,)."""
    least: NDArray[np.float64]
    """The least chance that each decision is wrong, 0 to 1, (n,)."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions whose gender each word of a block shows, and how likely each is wrong."""

    owners: NDArray[np.int8]
    """Why each word stays, (n,): 0 where it is the patient's, else an index into ``OWNERS``."""
    sides: Ints
    """The side of each row's patient, (rows,): 0 male, 1 female, -1 where nothing tells it."""
    cases: Ints
    """How each word was decided (``case_name``), (n,)."""
    numbers: NDArray[np.float64]
    """What else tells how sure that is, (n, ``NUMBERS``)."""
    wrong: NDArray[np.float64]
    """The chance that each decision is wrong, 0 to 1, (n,); 0 for words that tell no gender."""
    doubt: NDArray[np.float64]
    """The chance that not all decisions of a row are right, 0 to 1, (rows,)."""
    doubtful_words: NDArray[np.int32]
    """Words of each row that are wrong by a chance above ``DOUBTFUL``, (rows,)."""

    @classmethod
    def weigh(cls, block: Block, evidence: Evidence) -> "Decisions":
        """Return the decisions with the chances that they are wrong, by the fitted weights.

        Args:
            block: the texts and words.
            evidence: how each word was decided.
        """
        # Weights of cases and numbers, toward a wrong decision; "note" and "expected" are those of a whole note.
        weights = weights_of("doubt_weights.csv")
        size = len(block.offsets) - 1
        rows = block.rows
        owners = evidence.owners
        cases = evidence.ways * len(OWNERS) + owners
        numbers = _numbers(block, evidence)
        distinct, index = np.unique(cases, return_inverse=True)
        by_case = np.array([weights.get(case_name(case), 0.0) for case in distinct.tolist()])
        by_number = np.array([weights.get(name, 0.0) for name in NUMBERS])
        odds = by_case[index] + weights["bias"]
        odds = odds + numbers @ by_number
        wrong = np.where(block.kept, np.maximum(_logistic(odds), evidence.least), 0.0)
        expected = log_expected_wrong(wrong, rows, size)
        doubt = _logistic(weights["note"] + weights["expected"] * expected)
        doubtful = np.bincount(rows[wrong > DOUBTFUL], minlength=size).astype(np.int32)
        return cls(owners, evidence.sides, cases, numbers, wrong, doubt, doubtful)


def _numbers(block: Block, evidence: Evidence) -> NDArray[np.float64]:
    """Return the numbers that tell how sure each decision is, (n, ``NUMBERS``)."""
    size = len(block.offsets) - 1
    rows = block.rows
    is_patient = evidence.owners == OF_PATIENT
    margin = np.abs(evidence.odds)
    bounded = np.nan_to_num(np.minimum(margin, _SUREST))
    words = np.bincount(rows[block.kept], minlength=size)
    unsure = np.bincount(rows[margin < _UNSURE], minlength=size)
    staying = np.bincount(rows[block.kept & (evidence.owners > 0)], minlength=size)
    columns = [
        np.where(is_patient, bounded, 0.0),
        np.where(is_patient, 0.0, bounded),
        np.log1p(evidence.persons_near),
        np.log1p(words[rows]),
        np.log1p(unsure[rows]),
        np.log1p(staying[rows]),
    ]
    return np.stack(columns, axis=1)
