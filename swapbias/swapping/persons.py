"""Whose gender a word tells in a clinical note: the patient's, or that of a relative, a clinician, somebody else.

``Persons.left`` says of every gendered word why it stays, in two steps: nouns and titles by what stands beside them
(``nouns``), then pronouns. A pronoun of the patient's gender with nobody else named shortly before it is the
patient's: that is decided for all of a block at once. Only the rest is looked at one by one (``antecedents``).
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.swapping.antecedents import (
    AHEAD,
    CHILD,
    KIN,
    OTHER,
    PATIENT,
    REACH,
    SPOUSE,
    STAFF,
    Earlier,
    Mention,
    Pronoun,
    antecedent_of,
    in_family_history,
    sentences,
)
from swapbias.swapping.matches import Bytes, Ints, Matches, signs_of
from swapbias.swapping.nouns import (
    JUDGES,
    LEFT_BOTH,
    LEFT_CLINICIAN,
    LEFT_NO_PERSON,
    LEFT_OTHER,
    LEFT_RELATIVE,
    LEFT_SPOUSE,
    LEFT_UNKNOWN,
    LETTER,
    MAN,
    PRONOUN,
    ROLE,
    TITLE,
    Row,
    both,
    is_demographic,
    is_infant,
    is_plural,
    kind_of,
)  # fmt: skip
from swapbias.swapping.table import word_list

WHOSE = ("everyone", "patient")
SPOUSES = ("swap", "keep")
_WHY = {KIN: LEFT_RELATIVE, SPOUSE: LEFT_SPOUSE, STAFF: LEFT_CLINICIAN, OTHER: LEFT_OTHER, CHILD: LEFT_RELATIVE}
_STOPS = 2
_HEAD = 400  # bytes that say whether a note is about a newborn
_KNOWN_FOR = 3000  # bytes after somebody was introduced by a name in which the name is theirs
_FAR = 600  # bytes before a pronoun of the other gender in which its person is looked for
_I = re.IGNORECASE


class Persons:
    """Tells the patient's words from those of others, for one table."""

    def __init__(self, terms: Sequence[str], sides: Sequence[int], cues: Mapping[int, int], spouses: str) -> None:
        """Prepare.

        Args:
            terms: of the table, by number. sides: 0 or 1 of each.
            cues: the kind of person that a term beyond the table names, by its number.
            spouses: whether the words for husbands and wives are swapped too (``swap``) or stay (``keep``).

        Raises:
            UsageError: ``spouses`` is neither.
        """
        if spouses not in SPOUSES:
            raise UsageError(f"Unknown spouses {spouses!r}: expected {' or '.join(SPOUSES)}.")
        self._spouses = spouses == "swap"
        self._names = list(terms)
        self._kind = np.array([kind_of(text) for text in terms], dtype=np.int64)
        self._side = np.array(sides, dtype=np.int64)
        self._plural = np.array([is_plural(text) for text in terms])
        self._cue = np.full(max([*cues, len(terms)]) + 1, -1)
        for number, kind in cues.items():
            self._cue[number] = kind

    def is_cue(self, terms: Ints) -> NDArray[np.bool_]:
        """Which of the matches name a person without a gender, (n,)."""
        named: NDArray[np.bool_] = self._cue[np.minimum(terms, len(self._cue) - 1)] >= 0
        return named

    def left(
        self,
        buffer: bytes,
        offsets: Ints,
        found: Matches,
        rows: Ints,
        kept: NDArray[np.bool_],
        cues: Matches,
        given: Ints,
    ) -> tuple[NDArray[np.int8], Ints]:
        """Why each word stays, (n,): 0 where it is the patient's, else the reason's place in ``REASONS`` plus one.

        And the side of each row's patient, -1 where nothing tells it.

        Args:
            buffer: the texts, padded. offsets: where each row begins.
            found, rows: the gendered terms of the table, and the row of each.
            kept: which of them tell a gender at all.
            cues: persons without a gender.
            given: the side of each row's patient (0 or 1), -1 where it is to be read from the text.
        """
        why = np.zeros(len(rows), dtype=np.int8)
        kind, side = self._kind[found.term], self._side[found.term]
        sides = self._patients(buffer, offsets, found, rows, kept, kind, side, given, cues)
        mine = sides[rows]
        why[mine < 0] = LEFT_UNKNOWN
        same = side == mine
        self._nouns(buffer, offsets, found, rows, np.flatnonzero(kept & (mine >= 0) & (kind != PRONOUN)), sides, why)
        named = _Named.of(found, kind, side, self._plural[found.term], why, kept, cues, self._cue)
        named = named.with_names(buffer, offsets)
        others = np.flatnonzero(kept & (kind == PRONOUN) & (mine >= 0) & ~same)
        self._of_others(buffer, offsets, found, rows, others, side, named, why)
        candidates = kept & (kind == PRONOUN) & same
        self._of_patients(buffer, offsets, found, rows, candidates, side, named, why)
        why[~kept] = 0
        return why, sides

    # --- the patient's gender ------------------------------------------------------------------------------

    def _patients(
        self,
        buffer: bytes,
        offsets: Ints,
        found: Matches,
        rows: Ints,
        kept: NDArray[np.bool_],
        kind: Ints,
        side: Ints,
        given: Ints,
        cues: Matches,
    ) -> Ints:
        """The side of each row's patient: as given, else by the first demographic, the first title, most pronouns."""
        sides = given.copy()
        unknown = sides[rows] < 0
        if not unknown.any():
            return sides
        candidates = np.flatnonzero(unknown & kept & np.isin(kind, (MAN, LETTER)) & ~self._plural[found.term])
        for at in candidates.tolist():
            row = int(rows[at])
            if sides[row] >= 0:
                continue
            first = int(offsets[row])
            start, end = int(found.start[at]), int(found.end[at])
            before = buffer[max(first, start - 60) : start]
            after = buffer[end : min(end + 40, int(offsets[row + 1]))]
            if is_demographic(before, after, letter=bool(kind[at] == LETTER)):
                sides[row] = side[at]
        single = kept & ~self._plural[found.term]
        for wanted in (TITLE, PRONOUN, MAN):
            mine = np.flatnonzero((sides[rows] < 0) & single & (kind == wanted))
            weights = 2.0 * side[mine] - 1
            if wanted == PRONOUN:
                weights *= self._votes(found, mine, kept, kind, side, cues)
            votes = np.bincount(rows[mine], weights=weights, minlength=len(sides))
            if wanted == TITLE:
                last = mine[::-1]
                votes[rows[last]] = 2.0 * side[last] - 1  # the first of a row is written last
            sides = np.where((sides < 0) & (votes != 0), (votes > 0).astype(np.int64), sides)
        return sides

    def _votes(
        self, found: Matches, mine: Ints, kept: NDArray[np.bool_], kind: Ints, side: Ints, cues: Matches
    ) -> NDArray[np.float64]:
        """What each pronoun counts: "his sister" most, one shortly after a relative of its gender next to nothing."""
        weights = np.ones(len(mine))
        person = np.flatnonzero(kept & np.isin(kind, (KIN, SPOUSE, ROLE, MAN)))
        own = np.array([name in ("his", "her") for name in self._names])[found.term[mine]]
        named = np.sort(np.concatenate([found.start[person], cues.start[self._cue[cues.term] != PATIENT], [-1]]))
        after = named[np.minimum(np.searchsorted(named, found.end[mine]), len(named) - 1)]
        before = named[np.searchsorted(named, found.start[mine]) - 1]
        weights[(before >= 0) & (found.start[mine] - before < REACH // 2)] = 0.5
        for one in (0, 1):
            named = found.start[person[side[person] == one]]
            last = np.searchsorted(named, found.start[mine]) - 1
            there = (last >= 0) & (side[mine] == one)
            near = found.start[mine[there]] - named[last[there]] < REACH
            weights[there] = np.where(near, 0.1, weights[there])
        weights[own & (after - found.end[mine] == 1)] = 3.0
        return weights

    # --- nouns and titles ----------------------------------------------------------------------------------

    def _nouns(
        self,
        buffer: bytes,
        offsets: Ints,
        found: Matches,
        rows: Ints,
        places: Ints,
        sides: Ints,
        why: NDArray[np.int8],
    ) -> None:
        row, known = -1, None
        for at, start, end, term, mine in zip(
            *(one[places].tolist() for one in (np.arange(len(rows)), found.start, found.end, found.term, rows)),
            strict=True,
        ):
            if mine != row or known is None:
                row = mine
                first, last = int(offsets[row]), int(offsets[row + 1])
                known = Row(first, last, int(sides[row]), buffer[first : min(last, first + _HEAD)])
            before = buffer[max(known.first, start - 90) : start]
            after = buffer[end : min(known.last, end + 60)]
            kind, side = int(self._kind[term]), int(self._side[term])
            known.capital = buffer[start : start + 1].isupper()
            reason = JUDGES[kind](self._names[term], side, before, after, known)
            why[at] = 0 if reason == LEFT_SPOUSE and self._spouses else reason

    # --- pronouns ------------------------------------------------------------------------------------------

    def _of_others(
        self,
        buffer: bytes,
        offsets: Ints,
        found: Matches,
        rows: Ints,
        places: Ints,
        side: Ints,
        named: "_Named",
        why: NDArray[np.int8],
    ) -> None:
        """Pronouns of the other gender: those of the person of that gender who was named last."""
        for at in places.tolist():
            start, first = int(found.start[at]), int(offsets[rows[at]])
            after = buffer[int(found.end[at]) : int(found.end[at]) + 24]
            before = buffer[max(first, start - 24) : start]
            if both(int(side[at]), before, after):
                why[at] = LEFT_BOTH
                continue
            person = named.last(start, max(first, start - _FAR), int(side[at]), buffer)
            reason = LEFT_OTHER if person is None else _WHY.get(person.kind, LEFT_OTHER)
            why[at] = 0 if reason == LEFT_SPOUSE and self._spouses else reason

    def _strangers(self, found: Matches, side: Ints, why: NDArray[np.int8]) -> tuple[list[int], list[int]]:
        """Where subjects stand ("he", "she") that are not the patient's, for a patient of each side."""
        subject = np.array([name in ("he", "she") for name in self._names])[found.term] & (why > 0)
        return found.start[subject & (side == 1)].tolist(), found.start[subject & (side == 0)].tolist()

    def _of_patients(
        self,
        buffer: bytes,
        offsets: Ints,
        found: Matches,
        rows: Ints,
        candidates: NDArray[np.bool_],
        side: Ints,
        named: "_Named",
        why: NDArray[np.int8],
    ) -> None:
        """Pronouns of the patient's gender: the patient's, unless somebody else was named shortly before."""
        signs = signs_of(buffer)
        paired = candidates & (
            (signs[found.start - 1] == ord("/")) | (signs[found.end] == ord("/")) | _beside_or(signs, found)
        )
        stops = np.flatnonzero(signs == ord("."))
        stops = stops[(signs[stops + 1] == ord(" ")) | (signs[stops + 1] == ord("\n"))]
        title = (signs[stops - 1] | 32 == ord("r")) & np.isin(signs[stops - 2] | 32, (ord("d"), ord("m")))
        stops = stops[~title]
        low = np.maximum(offsets[rows], found.start - REACH)
        doubtful = candidates & (named.near(found.start, low, side, stops) | paired)
        strange = self._strangers(found, side, why)
        row = -1
        sequence = np.flatnonzero(candidates)
        places = np.flatnonzero(doubtful[sequence])
        subject = np.array([name in ("he", "she") for name in self._names])[found.term[sequence]]
        starts: list[int] = found.start[sequence].tolist()
        ends: list[int] = found.end[sequence].tolist()
        subjects: list[bool] = subject.tolist()
        means: list[int] = [0] * len(starts)
        for number in places.tolist():
            at = int(sequence[number])
            start, end, mine = starts[number], ends[number], int(rows[at])
            first, last = int(offsets[mine]), int(offsets[mine + 1])
            if mine != row:
                row = mine
                newborn = partial(is_infant, buffer[first : min(last, first + _HEAD)])
            after = buffer[end : min(last, end + AHEAD)]
            since = max(first, start - REACH)
            text = buffer[since:start]
            if both(int(side[at]), text, after):
                why[at] = LEFT_BOTH
                continue
            mentions = named.between(since, start, int(side[at]), strange[int(side[at])])
            if not any(one.kind != PATIENT or one.plural for one in mentions):
                continue
            before = range(bisect_left(starts, since, 0, number), number)
            earlier = [Earlier(starts[one], ends[one], subjects[one], not means[one]) for one in before]
            infant = any(one.kind == CHILD for one in mentions) and newborn()
            mentions = [one for one in mentions if not (infant and one.kind == CHILD)]
            pronoun = Pronoun(self._names[int(found.term[at])], first, start, since, text, after, mentions, earlier)
            person = antecedent_of(pronoun)
            related = person is None and any(one.kind == KIN for one in mentions)
            if related and in_family_history(buffer[max(first, start - 500) : start]):
                person = _of_family(pronoun)
            if person is not None:
                reason = _WHY.get(person.kind, LEFT_OTHER)
                why[at] = means[number] = 0 if reason == LEFT_SPOUSE and self._spouses else reason


def _of_family(one: Pronoun) -> Mention | None:
    """In a family history whoever was named in the sentence is meant, but before a relative ("his father")."""
    if re.match(
        rb"\s+(?:\w+[\s-]+){0,2}(?:mother|father|brother|sister|son|daughter|aunt|uncle|grand\w+|cousin|family)",
        one.after,
        _I,
    ):
        return None
    bounds = sentences(one.before)
    here = one.first + (bounds[-1] if bounds else 0)
    kin = [mention for mention in one.mentions if mention.start >= here and mention.kind == KIN]
    return kin[-1] if kin else None


def _beside_or(signs: Bytes, found: Matches) -> NDArray[np.bool_]:
    after = (signs[np.minimum(found.end + 1, len(signs) - 1)] | 32 == ord("o")) & (
        signs[np.minimum(found.end + 2, len(signs) - 1)] | 32 == ord("r")
    )
    before = (signs[found.start - 2] | 32 == ord("r")) & (signs[found.start - 3] | 32 == ord("o"))
    beside: NDArray[np.bool_] = after | before
    return beside


@dataclass(frozen=True)
class _Named:
    """All who are named in a block and may be meant by a pronoun, in order."""

    start: Ints
    end: Ints
    kind: Ints
    side: Ints
    plural: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        found: Matches,
        kind: Ints,
        side: Ints,
        plural: NDArray[np.bool_],
        why: NDArray[np.int8],
        kept: NDArray[np.bool_],
        cues: Matches,
        cue: Ints,
    ) -> "_Named":
        noun = np.flatnonzero(kept & (kind != PRONOUN) & (why != LEFT_NO_PERSON) & (why != LEFT_BOTH))
        kinds = kind[noun].copy()
        patient = (why[noun] == 0) & (kinds != SPOUSE)
        person = np.isin(kinds, (MAN, LETTER, ROLE, TITLE))
        kinds[person] = np.where(why[noun][person] == LEFT_CLINICIAN, STAFF, OTHER)
        kinds[why[noun] == LEFT_SPOUSE] = SPOUSE
        kinds[(why[noun] == LEFT_RELATIVE) & (kind[noun] == MAN)] = CHILD  # "a viable male infant"
        kinds[(why[noun] == LEFT_RELATIVE) & (kind[noun] != MAN)] = KIN
        kinds[patient] = PATIENT
        all_start = np.concatenate([found.start[noun], cues.start])
        order = np.argsort(all_start, kind="stable")
        return cls(
            all_start[order],
            np.concatenate([found.end[noun], cues.end])[order],
            np.concatenate([kinds, cue[cues.term]])[order],
            np.concatenate([np.where(patient, -1, side[noun]), np.full(len(cues.term), -1)])[order],
            np.concatenate([plural[noun], np.zeros(len(cues.term), dtype=bool)])[order],
        )

    def with_names(self, buffer: bytes, offsets: Ints) -> "_Named":
        """Further mentions: where somebody who was introduced by a name ("her sister Amy") is called by it again."""
        signs = signs_of(buffer)
        others = (self.kind != PATIENT) & ~self.plural
        beyond = signs[np.minimum(self.end[:, None] + np.arange(1, 3), len(signs) - 1)]
        before = signs[np.maximum(self.start[:, None] - np.arange(1, 15), 0)]
        capital = ((beyond >= 65) & (beyond <= 90)).any(axis=1)
        candidates = np.flatnonzero(others & (capital | ((before == ord(",")) | (before == ord("("))).any(axis=1)))
        more: dict[int, tuple[int, int, int, int, bool]] = {}
        for at in candidates.tolist():
            start, end = int(self.start[at]), int(self.end[at])
            row = int(np.searchsorted(offsets, start, side="right"))
            first, last = int(offsets[row - 1]), int(offsets[row])
            name = _NAME_AFTER.match(buffer, end, last) or _NAME_BEFORE.search(buffer[max(first, start - 40) : start])
            if name and name[1] not in _NO_NAMES:
                again = re.compile(rb"(?<![\w'-])" + name[1] + rb"(?= [a-z])")
                kind, side = int(self.kind[at]), int(self.side[at])
                for one in again.finditer(buffer, end, min(last, end + _KNOWN_FOR)):
                    more.setdefault(one.start(), (*one.span(), kind, side, False))
        if not more:
            return self
        columns = (self.start, self.end, self.kind, self.side, self.plural)
        joined = [
            np.concatenate([old, new]) for old, new in zip(columns, zip(*more.values(), strict=True), strict=True)
        ]
        order = np.argsort(joined[0], kind="stable")
        return _Named(*(one[order] for one in joined))

    def near(self, start: Ints, low: Ints, side: Ints, stops: Ints) -> NDArray[np.bool_]:
        """Before which of these places somebody is named, since ``low``, whom a pronoun of that side may mean.

        And not more than two full stops (``stops``) away: a sentence, and an abbreviation.
        """
        near = np.zeros(len(start), dtype=bool)
        for one in (0, 1):
            mine = self.start[(self.kind != PATIENT) & ((self.side == one) | (self.side < 0))]
            last = np.searchsorted(mine, start) - 1
            there = (last >= 0) & (side == one)
            named = mine[last[there]]
            ended = np.searchsorted(stops, start[there]) - np.searchsorted(stops, named)
            near[there] = (named >= low[there]) & (ended <= _STOPS)
        return near

    @cached_property
    def _listed(self) -> list[Any]:
        return [one.tolist() for one in (self.start, self.end, self.kind, self.side, self.plural)]

    def _mentions(self, low: int, high: int) -> list[Mention]:
        """All from one number to the other, the last first."""
        return [*map(Mention, *(one[low:high] for one in self._listed))][::-1]

    @cached_property
    def _starts(self) -> list[int]:
        starts: list[int] = self.start.tolist()
        return starts

    def between(self, low: int, high: int, side: int, strange: Sequence[int]) -> list[Mention]:
        """Those who may be meant by a pronoun of that side at ``high``.

        Whoever has no gender and is taken up by a pronoun of the other one (at ``strange``) may not.
        """
        last = bisect_left(self._starts, high)
        found: list[Mention] = []
        upto = following = high
        for one in self._mentions(bisect_left(self._starts, low, 0, last), last):
            beside, following = following - one.end <= 1 and following != high, one.start
            if one.side < 0 and one.kind != PATIENT:
                if beside:
                    continue  # "newborn son", "nurse practitioner": the next word names the person
                after = bisect_left(strange, one.end)
                if after < len(strange) and strange[after] < upto:
                    upto = one.start
                    continue
            if one.kind != PATIENT:
                upto = one.start
            if one.side in (side, -1):
                found.append(one)
        return found[::-1]

    def last(self, start: int, low: int, side: int, buffer: bytes) -> Mention | None:
        """Who was named last of that side; one without a gender where it heads its clause or nobody else is near."""
        last = bisect_left(self._starts, start)
        cue: Mention | None = None
        for one in self._mentions(bisect_left(self._starts, low, 0, last), last):
            if one.kind == PATIENT or one.plural:
                continue
            if one.side == side:
                return _nearer(cue, one, buffer)
            if one.side < 0 and cue is None and not _described(buffer, one, low):
                cue = one
        return cue


_NAME_AFTER = re.compile(rb"(?:,| \()? ?([A-Z][a-z]{2,})\b(?!\s+(?:Hospital|Health|Clinic|disease|syndrome))")
_NAME_BEFORE = re.compile(
    rb"(?<![\w.] )\b([A-Z][a-z]{2,})(?:, | \()(?:(?:the|his|her|an?|our|my|patient's) )?(?:[a-z]+ ){0,2}$"
)
_NO_NAMES = frozenset(word.encode() for word in word_list("no_names"))


def _described(buffer: bytes, cue: Mention, low: int) -> bool:
    """Whether the word only says what somebody is: "who is a nurse", "a retired nurse,"."""
    before = buffer[max(low, cue.start - 32) : cue.start]
    return bool(
        re.search(
            rb"(?:\b(?:is|was|as)\s+|,\s*)(?:also\s+)?(?:an?|"
            rb"the)\s+(?:[a-z'-]+\s+){0,2}$",
            before,
            _I,
        )
    )


def _nearer(cue: Mention | None, person: Mention, buffer: bytes) -> Mention:
    """A person without a gender, named after one of the right gender, where it heads its clause."""
    if cue is None:
        return person
    between = buffer[person.end : cue.start]
    if sentences(between):
        return cue
    opened = re.search(
        rb"(?:^|[.;:\n,]|\band\b)\s*(?:(?:the|his|her|an?|our|my|by|with|per|discussed with|d/w)\s+|"
        rb"[A-Z][\w']+\s+|\()*$",
        between,
    )
    return cue if opened else person
