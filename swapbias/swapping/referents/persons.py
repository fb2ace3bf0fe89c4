"""Tell the patient's words of a block from those of others."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.swapping.folding import Bytes, Ints
from swapbias.swapping.matches import Matches
from swapbias.swapping.referents.block import Block
from swapbias.swapping.referents.doubt import (
    ALONE,
    NO_PATIENT,
    SCORED,
    UNKNOWABLE,
    Decisions,
    Evidence,
)
from swapbias.swapping.referents.mentions import Mention, Mentions
from swapbias.swapping.referents.nouns import Noun, Patient, is_demographic, owner_of_noun
from swapbias.swapping.referents.pronouns import (
    DecidedPronoun,
    Pronoun,
    antecedent_of,
    role_of,
    split_words,
)
from swapbias.swapping.referents.settled import Place, settled_owner
from swapbias.swapping.referents.words import (
    CHILD,
    KIN,
    LETTER,
    MAN,
    OF_BOTH,
    OF_OTHER,
    OF_PATIENT,
    OF_SPOUSE,
    OF_UNKNOWN,
    OWNER_OF_KIND,
    PATIENT,
    PRONOUN,
    ROLE,
    SPOUSE,
    SPOUSES,
    TITLE,
    is_infant,
    is_of_both,
    is_plural,
    kind_of,
)
from swapbias.swapping.rule_tables import byte_pattern

_REACH = 260  # bytes before a pronoun in which the person it means is looked for
_AHEAD = 72  # bytes after it that say what it does
_FAR = 600  # bytes before a pronoun of the other gender in which its person is looked for
_STOP = re.compile(rb"\.[ \n](?<![DdMm][Rr]..)", re.DOTALL)
_OPENS_QUOTATION = "“".encode()[-1]
_MOST_STOPS = 2  # between a person and a pronoun: a sentence and an abbreviation
_OWN_PERSON_VOTES = 3  # of a pronoun before a person, "his sister", for the patient's gender


class Persons:
    """Tells the patient's words from those of others, for one table."""

    def __init__(
        self, terms: Sequence[str], sides: Sequence[int], cues: Mapping[int, int], spouses: str
    ) -> None:
        """Prepare what is known of each term.

        Args:
            terms: the terms of the table, by number.
            sides: 0 or 1 of each.
            cues: the kind of person that a term beyond the table names, by its number.
            spouses: whether the words for husbands and wives are swapped too (``swap``) or stay (``keep``).

        Raises:
            UsageError: ``spouses`` is neither.
        """
        if spouses not in SPOUSES:
            raise UsageError(f"Unknown spouses {spouses!r}: expected {' or '.join(SPOUSES)}.")
        self._swaps_spouses = spouses == "swap"
        spouse_owner = OF_PATIENT if self._swaps_spouses else OF_SPOUSE
        self._owner_of_kind = {**OWNER_OF_KIND, SPOUSE: spouse_owner}
        self._names = list(terms)
        self._kind = np.array([kind_of(text) for text in terms], dtype=np.int64)
        self._side = np.array(sides, dtype=np.int64)
        self._kinds = self._kind.tolist()
        self._sides = self._side.tolist()
        self._is_plural = np.array([is_plural(text) for text in terms])
        self._is_subject = np.array([text in ("he", "she") for text in terms])
        self._is_possessive = np.array([text in ("his", "her") for text in terms])
        self._cue_kinds = np.full(max([*cues, len(terms)]) + 1, -1)
        for number, kind in cues.items():
            self._cue_kinds[number] = kind

    def is_cue(self, terms: Ints) -> NDArray[np.bool_]:
        """Tell which matches name a person without a gender, (n,).

        Args:
            terms: the number of each match's term, (n,).
        """
        kinds = self._cue_kinds[np.minimum(terms, len(self._cue_kinds) - 1)]
        is_person: NDArray[np.bool_] = kinds >= 0
        return is_person

    def decide(self, block: Block, patient_sides: Ints) -> Decisions:
        """Decide whose gender each word shows.

        Args:
            block: the texts and words.
            patient_sides: the side of each row's patient (0 or 1), -1 where it is to be read from the text, (rows,).
        """
        owners = np.zeros(len(block.rows), dtype=np.int8)
        kind = self._kind[block.matches.term]
        side = self._side[block.matches.term]
        sides = self._read_patients(block, kind, side, patient_sides)
        patient = sides[block.rows]
        owners[patient < 0] = OF_UNKNOWN
        decidable = block.kept & (patient >= 0)
        is_pronoun = kind == PRONOUN
        self._decide_nouns(block, np.flatnonzero(decidable & ~is_pronoun), sides, owners)
        mentions = Mentions.in_block(block, kind, side, self._is_plural, owners, self._cue_kinds)
        of_other_gender = np.flatnonzero(decidable & is_pronoun & (side != patient))
        self._decide_other_gender(block, of_other_gender, mentions, owners)
        low = np.maximum(block.offsets[block.rows], block.matches.start - _REACH)
        persons_near, last = mentions.count_near(block.matches.start, low, side)
        of_patient = block.kept & is_pronoun & (side == patient)
        odds = self._decide_patients_gender(block, of_patient, side, mentions, last, owners)
        owners[~block.kept] = 0
        way_of_pronoun = np.where(np.isnan(odds), ALONE, SCORED)
        way_of_pronoun = np.where(side == patient, way_of_pronoun, PRONOUN)
        ways = np.where(is_pronoun, way_of_pronoun, kind)
        ways = np.where(patient < 0, NO_PATIENT, ways)
        # A form that shows both stays, whichever is marked.
        least = np.where((owners == OF_BOTH) & ~is_pronoun, UNKNOWABLE, 0.0)
        return Decisions.weigh(block, Evidence(owners, sides, ways, odds, persons_near, least))

    def _read_patients(self, block: Block, kind: Ints, side: Ints, patient_sides: Ints) -> Ints:
        """Return the side of each row's patient where it is not given.

        The first demographic tells it, else the first title, else most pronouns, else most words for men and women.
        """
        sides = patient_sides.copy()
        rows = block.rows
        if not (sides[rows] < 0).any():
            return sides
        single = block.kept & ~self._is_plural[block.matches.term]
        may_be_demographic = (sides[rows] < 0) & single & np.isin(kind, (MAN, LETTER))
        for _, term, row, _, before, after in block.around(
            np.flatnonzero(may_be_demographic), 60, 40
        ):
            letter = self._kinds[term] == LETTER
            if sides[row] < 0 and is_demographic(before, after, letter=letter):
                sides[row] = self._sides[term]
        is_person = block.kept & np.isin(kind, (KIN, SPOUSE, ROLE, MAN))
        person_starts = block.matches.start[is_person]
        for wanted in (TITLE, PRONOUN, MAN):
            indices = np.flatnonzero((sides[rows] < 0) & single & (kind == wanted))
            counts = 2.0 * side[indices] - 1
            if wanted == PRONOUN:
                is_possessive = self._is_possessive[block.matches.term[indices]]
                before_person = np.isin(block.matches.end[indices] + 1, person_starts)
                counts[is_possessive & before_person] *= _OWN_PERSON_VOTES
            votes = np.bincount(rows[indices], weights=counts, minlength=len(sides))
            if wanted == TITLE:
                indices = _without_addressees(block, indices)
                votes = np.zeros_like(votes)
                backwards = indices[::-1]  # so that the first of a row is written last
                votes[rows[backwards]] = 2 * side[backwards] - 1
            sides = np.where((sides < 0) & (votes != 0), (votes > 0).astype(np.int64), sides)
        return sides

    def _decide_nouns(
        self, block: Block, indices: Ints, sides: Ints, owners: NDArray[np.int8]
    ) -> None:
        """Decide nouns and titles by the rules."""
        patient = Patient(0, b"")
        patient_row = -1
        for index, term, row, _, before, after in block.around(indices, 90, 60):
            if row != patient_row:
                patient = Patient(int(sides[row]), block.head(row))
                patient_row = row
            noun = Noun(self._names[term], self._sides[term], before, after, patient)
            owner = owner_of_noun(self._kinds[term], noun)
            if owner == OF_SPOUSE and self._swaps_spouses:
                owner = OF_PATIENT
            owners[index] = owner

    def _decide_other_gender(
        self, block: Block, indices: Ints, mentions: Mentions, owners: NDArray[np.int8]
    ) -> None:
        """Decide pronouns of the other gender: they mean the person of that gender who was named last."""
        for index, term, row, start, before, after in block.around(indices, 24, 24):
            if is_of_both(self._sides[term], before, after):
                owners[index] = OF_BOTH
                continue
            low = max(int(block.offsets[row]), start - _FAR)
            person = mentions.last_of_side(start, low, self._sides[term], block.buffer)
            owners[index] = OF_OTHER if person is None else self._owner_of(person)

    def _decide_patients_gender(
        self,
        block: Block,
        of_patient: NDArray[np.bool_],
        side: Ints,
        mentions: Mentions,
        last: Ints,
        owners: NDArray[np.int8],
    ) -> NDArray[np.float64]:
        """Decide pronouns of the patient's gender: the patient's, unless somebody else was named shortly before.

        Args:
            block: the texts and words.
            of_patient: whether each word is such a pronoun, (n,).
            side: 0 or 1 of each word, (n,).
            mentions: all who are named.
            last: where the last person begins who was named before each word, -1 for nobody, (n,).
            owners: decided so far; written to, (n,).

        Returns:
            The log-odds of each word that it is somebody else's, (n,); NaN where nobody was named.
        """
        odds = np.full(len(owners), np.nan)
        quoted = _is_quoted(block, of_patient)
        indices = np.flatnonzero(_is_doubtful(block, of_patient, last) | quoted)
        if not len(indices):
            return odds
        matches = block.matches
        sequence = np.flatnonzero(of_patient)
        is_subject = self._is_subject[matches.term]
        starts = matches.start[sequence].tolist()
        subjects = is_subject[sequence].tolist()
        means_patient = [True] * len(starts)
        # Subjects that are not the patient's, for a patient of each side.
        strange = [
            matches.start[is_subject & (owners > 0) & (side == 1 - patient)].tolist()
            for patient in (0, 1)
        ]
        numbers = np.searchsorted(sequence, indices).tolist()
        contexts = zip(
            numbers, _words_near(block, indices), block.around(indices, _REACH, _AHEAD), strict=True
        )
        for number, (words, begins), (index, term, row, start, before, after) in contexts:
            word = self._names[term]
            pronoun_side = self._sides[term]
            low = start - len(before)
            if is_of_both(pronoun_side, before, after):
                owners[index] = OF_BOTH
                continue
            persons = mentions.between(low, start, pronoun_side, strange[pronoun_side])
            context = Place(
                pronoun_side,
                before,
                after,
                block.head(row),
                persons,
                quoted[index],
                not number or means_patient[number - 1],
            )
            settled = settled_owner(context)
            if settled is not None:
                owners[index] = settled
                means_patient[number] = settled == OF_PATIENT
                continue
            referents = _possible_referents(block, row, persons, before, low)
            if referents is None:
                continue
            first = bisect_left(begins, low)
            own_place = bisect_left(begins, start)
            next_word = bisect_right(begins, start)
            end = bisect_left(begins, start + len(word) + len(after))
            earlier: DecidedPronoun | None = None
            if number:
                previous = number - 1
                earlier = DecidedPronoun(
                    starts[previous], subjects[previous], means_patient[previous]
                )
            pronoun = Pronoun(
                word,
                start - int(block.offsets[row]),
                role_of(word, before, after),
                words[first:own_place],
                begins[first:own_place],
                words[next_word:end],
                referents,
                earlier,
            )
            odds[index], person = antecedent_of(pronoun)
            if person is not None:
                owner = self._owner_of(person)
                owners[index] = owner
                means_patient[number] = owner == OF_PATIENT
        return odds

    def _owner_of(self, person: Mention) -> int:
        """Return whose gender a pronoun shows that refers to this person."""
        return self._owner_of_kind.get(person.kind, OF_OTHER)


def _without_addressees(block: Block, indices: Ints) -> Ints:
    """Return titles without those of the people to whom a letter is addressed, where its row has others."""
    addressed = byte_pattern("addressed")
    is_other = np.array(
        [not addressed.search(before) for *_, before, _ in block.around(indices, 40, 0)], dtype=bool
    )
    has_other = np.isin(block.rows[indices], block.rows[indices[is_other]])
    return indices[is_other | ~has_other]


def _is_doubtful(block: Block, of_patient: NDArray[np.bool_], last: Ints) -> NDArray[np.bool_]:
    """Tell which pronouns of the patient's gender may be somebody else's, or of both genders."""
    matches = block.matches
    signs = block.signs
    slash = (signs[matches.start - 1] == ord("/")) | (signs[matches.end] == ord("/"))
    doubtful: NDArray[np.bool_] = of_patient & (slash | _is_beside_or(signs, matches))
    after_person = np.flatnonzero(of_patient & (last >= 0))
    bounds = zip(last[after_person].tolist(), matches.start[after_person].tolist(), strict=True)
    is_near = [len(_STOP.findall(block.buffer, start, end)) <= _MOST_STOPS for start, end in bounds]
    doubtful[after_person] |= np.array(is_near, dtype=bool)
    return doubtful


def _is_quoted(block: Block, of_patient: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which pronouns of the patient's gender may stand within quotation marks."""
    signs = block.signs
    marks = np.flatnonzero((signs == ord('"')) | (signs == _OPENS_QUOTATION))
    previous = signs[marks - 1]  # of "5'3\"" a digit
    marks = marks[~((previous >= ord("0")) & (previous <= ord("9")))]
    start = block.matches.start
    last = np.append(-_REACH, marks)[np.searchsorted(marks, start)]
    quoted: NDArray[np.bool_] = of_patient & (start - last < _REACH)
    return quoted


def _is_beside_or(signs: Bytes, matches: Matches) -> NDArray[np.bool_]:
    """Return which words have "or" beside them, (n,)."""
    last = len(signs) - 1
    after = signs[np.minimum(matches.end + 1, last)] | 32
    second_after = signs[np.minimum(matches.end + 2, last)] | 32
    before = signs[matches.start - 2] | 32
    second_before = signs[matches.start - 3] | 32
    beside: NDArray[np.bool_] = (after == ord("o")) & (second_after == ord("r"))
    beside |= (before == ord("r")) & (second_before == ord("o"))
    return beside


def _words_near(block: Block, indices: Ints) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the words around each pronoun and where they begin; windows that overlap share their words."""
    text = block.buffer.lower().decode("latin-1")
    low, high = block.windows(indices, _REACH, _AHEAD)
    is_separate = np.append(True, low[1:] >= high[:-1])
    ends = high[np.append(is_separate[1:], True)]
    stretches = zip(low[is_separate].tolist(), ends.tolist(), strict=True)
    words: tuple[list[str], list[int]] = ([], [])
    for begins_stretch in is_separate.tolist():
        if begins_stretch:
            words = split_words(text, *next(stretches))
        yield words


def _possible_referents(
    block: Block, row: int, persons: list[Mention], before: bytes, low: int
) -> list[Mention] | None:
    """Return the persons before a pronoun to whom it may refer; None where it can only refer to the patient."""
    opening = max(before.rfind(b". "), before.rfind(b"\n")) + 1
    # The patient by name, as in "Amy Roe is well; she": nobody before that is meant.
    if byte_pattern("full_name").match(before, opening):
        persons = [
            person for person in persons if person.start >= low + opening or person.kind == PATIENT
        ]
    if not any(person.kind != PATIENT or person.plural for person in persons):
        return None
    if any(person.kind == CHILD for person in persons) and is_infant(block.head(row)):
        return [person for person in persons if person.kind != CHILD]
    return persons
