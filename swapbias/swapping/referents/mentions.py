"""Find all who are named in a block and may be a pronoun's referent."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.folding import Ints
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.words import (
    CHILD,
    KIN,
    MAN,
    OF_BOTH,
    OF_CLINICIAN,
    OF_NO_PERSON,
    OF_PATIENT,
    OF_RELATIVE,
    OF_SPOUSE,
    OTHER,
    PATIENT,
    PRONOUN,
    SPOUSE,
    STAFF,
    sentence_starts,
)
from swapbias.swapping.rule_tables import byte_pattern, word_list

# Bytes after somebody was introduced by a name in which the name is theirs.
_NAME_REACH = 3000
_NO_NAMES = frozenset(word.encode() for word in word_list("no_names"))
_MENTION = np.dtype(
    [("start", "i8"), ("end", "i8"), ("kind", "i8"), ("side", "i8"), ("plural", "?")]
)


class Mention(NamedTuple):
    """A person who is named."""

    start: int
    """First byte of the word that names the person."""
    end: int
    """The byte after its last."""
    kind: int
    """The kind of person, ``KIN`` to ``PATIENT``."""
    side: int
    """The side whose pronouns mean the person: 0 male, 1 female, -1 either."""
    plural: bool = False
    """Several persons are named by the word."""


class Mentions:
    """All who are named in a block and may be a pronoun's referent, in order."""

    def __init__(self, mentions: NDArray[np.void]) -> None:
        """Sort mentions by where they begin.

        Args:
            mentions: the fields of ``Mention``, (n,).
        """
        self._mentions = mentions[np.argsort(mentions["start"], kind="stable")]

    @classmethod
    def in_block(
        cls,
        block: Block,
        kinds: Ints,
        sides: Ints,
        term_is_plural: NDArray[np.bool_],
        owners: NDArray[np.int8],
        cue_kinds: Ints,
    ) -> "Mentions":
        """Collect the nouns of a block, its persons without a gender, and where they are called by their names again.

        Args:
            block: the texts and words.
            kinds: the kind of each word, (n,).
            sides: 0 or 1 of each word, (n,).
            term_is_plural: whether each term names several persons, (terms,).
            owners: owners whose gender each noun shows, as indices into ``OWNERS``, (n,).
            cue_kinds: the kind of person by the number of a cue's term.
        """
        names_person = (kinds != PRONOUN) & (owners != OF_NO_PERSON) & (owners != OF_BOTH)
        indices = np.flatnonzero(block.kept & names_person)
        owner = owners[indices]
        kind = kinds[indices]
        is_patient = (owner == OF_PATIENT) & (kind != SPOUSE)
        words = block.matches
        cues = block.cues
        mentions = np.zeros(len(indices) + len(cues.term), _MENTION)
        nouns = mentions[: len(indices)]
        nouns["start"] = words.start[indices]
        nouns["end"] = words.end[indices]
        nouns["kind"] = _person_kinds(kind, owner)
        nouns["side"] = np.where(is_patient, -1, sides[indices])
        nouns["plural"] = term_is_plural[words.term[indices]]
        persons = mentions[len(indices) :]
        persons["start"] = cues.start
        persons["end"] = cues.end
        persons["kind"] = cue_kinds[cues.term]
        persons["side"] = -1
        introduced = cls(mentions)
        repeated = introduced._called_by_name(block)
        if not repeated:
            return introduced
        return cls(np.concatenate([introduced._mentions, np.array(repeated, _MENTION)]))

    def _called_by_name(self, block: Block) -> list[Mention]:
        """Return where somebody who was introduced by a name ("her sister Amy") is called by it again."""
        candidates = self._mentions[self._may_have_name(block)]
        rows = np.searchsorted(block.offsets, candidates["start"], side="right")
        row_starts = block.offsets[rows - 1].tolist()
        row_ends = block.offsets[rows].tolist()
        persons = map(Mention._make, candidates.tolist())
        by_start: dict[int, Mention] = {}
        for person, first, last in zip(persons, row_starts, row_ends, strict=True):
            name = _name_beside(block.buffer, person, first, last)
            if name is None or name in _NO_NAMES:
                continue
            again = re.compile(rb"(?<![\w'-])" + name + rb"(?= [a-z])")
            end = min(last, person.end + _NAME_REACH)
            for match in again.finditer(block.buffer, person.end, end):
                mention = Mention(*match.span(), person.kind, person.side)
                by_start.setdefault(match.start(), mention)
        return [*by_start.values()]

    def _may_have_name(self, block: Block) -> NDArray[np.bool_]:
        """Tell which mentions a name may stand beside: a capital behind it, or a comma or bracket before it."""
        signs = block.signs
        start = self._mentions["start"]
        end = self._mentions["end"]
        is_other = (self._mentions["kind"] != PATIENT) & ~self._mentions["plural"]
        after = signs[np.minimum(end[:, None] + np.arange(1, 3), len(signs) - 1)]
        before = signs[np.maximum(start[:, None] - np.arange(1, 15), 0)]
        capital_after = ((after >= ord("A")) & (after <= ord("Z"))).any(axis=1)
        comma_before = np.isin(before, (ord(","), ord("("))).any(axis=1)
        likely: NDArray[np.bool_] = is_other & (capital_after | comma_before)
        return likely

    def count_near(self, start: Ints, low: Ints, side: Ints) -> tuple[Ints, Ints]:
        """Count the persons but the patient whom a pronoun may mean.

        Args:
            start: where each pronoun begins, (m,).
            low: from where on persons are counted for each, (m,).
            side: 0 or 1 of each pronoun, (m,).

        Returns:
            How many persons stand between ``low`` and ``start``, and where the last of them begins, -1 for nobody.
        """
        counts = np.zeros(len(start), dtype=np.int64)
        last = np.zeros(len(start), dtype=np.int64)
        starts = self._mentions["start"]
        sides = self._mentions["side"]
        is_other = self._mentions["kind"] != PATIENT
        for pronoun_side in (0, 1):
            of_side_or_either = is_other & ((sides == pronoun_side) | (sides < 0))
            person_starts = np.append(-1, starts[of_side_or_either])
            of_side = side == pronoun_side
            before = np.searchsorted(person_starts, start[of_side])
            counts[of_side] = before - np.searchsorted(person_starts, low[of_side])
            last[of_side] = person_starts[before - 1]
        return counts, np.where(counts > 0, last, -1)

    @cached_property
    def _starts(self) -> list[int]:
        starts: list[int] = self._mentions["start"].tolist()
        return starts

    def _backwards(self, low: int, high: int) -> list[Mention]:
        """Return all mentions between two places, the last first."""
        last = bisect_left(self._starts, high)
        first = bisect_left(self._starts, low, 0, last)
        return [*map(Mention._make, self._mentions[first:last].tolist())][::-1]

    def between(self, low: int, high: int, side: int, strange: Sequence[int]) -> list[Mention]:
        """Return those who may be the referent of a pronoun, in order.

        Whoever has no gender and is taken up by a pronoun of the other one may not.

        Args:
            low: from where on persons are looked for.
            high: where the pronoun begins.
            side: 0 or 1 of the pronoun.
            strange: where subjects of the other gender begin that are not the patient's, in order.
        """
        referents: list[Mention] = []
        upto = high  # where the next person after this one begins
        following = high
        for person in self._backwards(low, high):
            names_next_word = following - person.end <= 1 and following != high
            following = person.start
            if person.side < 0 and person.kind != PATIENT:
                if names_next_word:
                    continue  # "newborn son", "nurse practitioner": the next word names the person
                if _is_taken_up(person, upto, strange):
                    upto = person.start
                    continue
            if person.kind != PATIENT:
                upto = person.start
            if person.side in (side, -1):
                referents.append(person)
        return referents[::-1]

    def last_of_side(self, start: int, low: int, side: int, buffer: bytes) -> Mention | None:
        """Return who was named last of one gender before a pronoun.

        That is somebody without a gender who heads the clause, or where nobody else is near.

        Args:
            start: where the pronoun begins.
            low: from where on persons are looked for.
            side: 0 or 1 of the pronoun.
            buffer: the bytes of the block.

        Returns:
            The person; None where nobody is.
        """
        cue: Mention | None = None
        for person in self._backwards(low, start):
            if person.kind == PATIENT or person.plural:
                continue
            if person.side == side:
                if cue and _opens_clause(buffer[person.end : cue.start]):
                    return cue
                return person
            if person.side < 0 and cue is None and not _is_described(person, low, buffer):
                cue = person
        return cue


def _person_kinds(kinds: Ints, owners: NDArray[np.int8]) -> Ints:
    """Return the kind of person that each noun names, by its kind of word and whose gender it shows."""
    persons = kinds.copy()
    is_relative = owners == OF_RELATIVE
    other_words = kinds >= MAN
    persons[other_words] = np.where(owners == OF_CLINICIAN, STAFF, OTHER)[other_words]
    persons[owners == OF_SPOUSE] = SPOUSE
    # "a viable male infant" is a child.
    persons[is_relative] = np.where(kinds == MAN, CHILD, KIN)[is_relative]
    persons[(owners == OF_PATIENT) & (kinds != SPOUSE)] = PATIENT
    return persons


def _name_beside(buffer: bytes, person: Mention, first: int, last: int) -> bytes | None:
    """Return the name that stands after or before a person within a row, None where there is none."""
    before = buffer[max(first, person.start - 40) : person.start]
    name = byte_pattern("name_after").match(buffer, person.end, last)
    if not name:
        name = byte_pattern("name_before").search(before)
    return name[1] if name else None


def _is_taken_up(person: Mention, upto: int, strange: Sequence[int]) -> bool:
    """Tell whether a subject of the other gender stands between a person and the next one."""
    after = bisect_left(strange, person.end)
    return after < len(strange) and strange[after] < upto


def _opens_clause(between: bytes) -> bool:
    """Tell whether a sentence or a clause begins in the text between two persons."""
    return bool(sentence_starts(between) or byte_pattern("opens_clause").search(between))


def _is_described(person: Mention, low: int, buffer: bytes) -> bool:
    """Tell whether the words before a person describe somebody else by it."""
    before = buffer[max(low, person.start - 32) : person.start]
    return bool(byte_pattern("described").search(before))
