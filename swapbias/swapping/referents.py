"""Whose gender a word tells in a clinical note: the patient's, or that of a relative, a clinician, somebody else.

``Persons.left`` says of every gendered word why it stays. Nouns and titles are decided by rules over what stands
beside them (``person_rules.csv``, the first that fits). Pronouns of the patient's gender with nobody else named
shortly before are the patient's, which is decided for all of a block at once; of the rest a logistic model tells
whether they mean the person before them: what stands beside the pronoun, what its subject does, what that person
did, whom the pronouns before it stood for. A second one says how likely each decision is wrong (``Decisions``). Their
weights (``antecedent_weights.csv``, ``doubt_weights.csv``) are fitted by ``scripts/fit_weights.py`` to development
notes of ``clinical_swaps``. All text is bytes, as it stands in the buffer, so that offsets need no translation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.swapping.grammar import by_words, first_word, last_word
from swapbias.swapping.matches import Bytes, Ints, Matches, Text
from swapbias.swapping.table import (
    DEMOGRAPHIC,
    GLUED,
    byte_pattern,
    pattern,
    rules,
    weights_of,
    word_list,
)

WHOSE = ("everyone", "patient")
SPOUSES = ("swap", "keep")
REASONS = ("relative", "spouse", "clinician", "other", "no_person", "both", "unknown")
WHY = ("patient", *REASONS)  # whose a word is, or why else it stays
MINE, RELATIVES, SPOUSES_WORD, CLINICIANS, OTHERS, NO_PERSON, BOTH, UNKNOWN = range(len(WHY))

# --- words by what kind of person they name --------------------------------------------------------------

KIN, SPOUSE, STAFF, OTHER, CHILD, PATIENT = range(6)  # persons whom a pronoun may mean
MAN, TITLE, PRONOUN, LETTER, ROLE = range(10, 15)  # further kinds of words
KINDS = {
    "kin": KIN,
    "spouse": SPOUSE,
    "man": MAN,
    "title": TITLE,
    "letter": LETTER,
    "role": ROLE,
}  # in tables
_KIND_NAME = {number: name for name, number in KINDS.items()}
_WHY = {KIN: RELATIVES, SPOUSE: SPOUSES_WORD, STAFF: CLINICIANS, OTHER: OTHERS, CHILD: RELATIVES}
CUES: Mapping[str, int] = {
    **dict.fromkeys(sorted(word_list("clinicians")), STAFF),
    **dict.fromkeys(sorted(word_list("others")), OTHER),
    **dict.fromkeys(("baby", "infant", "newborn", "neonate", "fetus"), CHILD),
    **dict.fromkeys(("partner", "spouse"), SPOUSE),
    **dict.fromkeys(("patient", "pt", "proband"), PATIENT),
}
_PRONOUNS = frozenset("he she him her his hers himself herself".split())  # noqa: SIM905
_TITLES = frozenset("mr ms mrs miss sir madam ma'am".split())  # noqa: SIM905
_KINDS_OF_WORDS = {
    PRONOUN: _PRONOUNS,
    TITLE: _TITLES,
    MAN: word_list("people"),
    SPOUSE: word_list("partners"),
    ROLE: word_list("roles"),
    LETTER: DEMOGRAPHIC | GLUED,
}


def kind_of(text: str) -> int:
    """What kind of word a term of the table is; a term that is in no list names a relative."""
    return next((kind for kind, words in _KINDS_OF_WORDS.items() if text in words), KIN)


def is_plural(text: str) -> bool:
    return (
        text.endswith(("s", "men"))
        and not text.endswith("ss")
        and text not in _PRONOUNS | _TITLES | DEMOGRAPHIC
    )


@lru_cache(maxsize=256)
def sentences(text: bytes) -> tuple[int, ...]:
    """Where sentences begin, after the first: no full stop of a title or of an initial ends one.

    >>> sentences(b"Seen by Dr. A. Lee. He left.")
    (19, 28)
    """
    return tuple([stop.end() for stop in byte_pattern("sentence_end").finditer(text)])


# --- the note ---------------------------------------------------------------------------------------------

_HEAD = 400  # bytes
_GROWN = 37  # years; mothers of patients are younger at times, and children are described in up to 36 months


@lru_cache(maxsize=64)
def is_infant(head: bytes) -> bool:
    """Whether a note that begins so is about a newborn, and not about its mother."""
    if byte_pattern("mother_note").search(head):
        return False
    return bool(byte_pattern("newborn_note").search(head)) or bool(
        byte_pattern("infant_note").search(head) and not byte_pattern("maternal").search(head)
    )


@lru_cache(maxsize=64)
def is_adult(head: bytes) -> bool:
    """Whether the first age that a note tells is that of a grown person."""
    found = byte_pattern("first_age").search(head)
    return bool(found and int(found.group(1)) >= _GROWN and not is_infant(head))


@dataclass(slots=True)
class Row:
    """What is known of a row: the side of its patient, how it begins, whose surnames were read."""

    side: int
    head: bytes
    surname: bytes = b""
    strangers: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class Word:
    """A noun or a title where it stands."""

    text: str
    side: int
    before: bytes
    after: bytes
    row: Row

    @property
    def surname(self) -> bytes:
        found = byte_pattern("surname").match(self.after)
        return found.group(1).split()[-1].lower() if found else b""


_SIDES = "he|his|him|himself|m|male|man|boy", "she|her|hers|herself|f|female|woman|girl"
_PARTNER_AFTER, _PARTNER_BEFORE = (
    [re.compile(text.replace("SIDE", words).encode(), re.IGNORECASE) for words in _SIDES]
    for text in (r"\s*(?:/|\bor\b)\s*\(?\s*(?:SIDE)\b", r"\b(?:SIDE)\s*(?:/|\bor\b)\s*$")
)


def both(side: int, before: bytes, after: bytes) -> bool:
    """Whether the other gender's word stands beside it as its alternative: "his/her", "he or she"."""
    if _PARTNER_AFTER[1 - side].match(after):
        return True
    tail = before[-24:].rstrip()
    return tail[-2:].lower().endswith((b"/", b"or")) and bool(
        _PARTNER_BEFORE[1 - side].search(tail)
    )


# --- nouns and titles: rules ---------------------------------------------------------------------------------


FACTS: Mapping[str, Callable[[Word], bool]] = {  # by their names in rules
    "newborn": lambda word: is_infant(word.row.head),
    "grown": lambda word: is_adult(word.row.head),
    "paired": lambda word: both(word.side, word.before, word.after),
    "led": lambda word: bool(  # somebody is named in its sentence
        byte_pattern("somebody_named").search(word.before, max((0, *sentences(word.before))))
    ),
    "first": lambda word: (
        not word.row.surname or not word.surname
    ),  # no other name of the patient's was read
    "namesake": lambda word: bool(word.surname) and word.surname == word.row.surname,
    "stranger": lambda word: (
        word.surname in word.row.strangers and word.surname != word.row.surname
    ),
}


@cache
def _rules_of(kind: int, text: str, own: bool, woman: bool) -> Sequence[tuple[Any, ...]]:
    """What is left of the rules for a word: as ``rules``, with the facts that take more than the word."""
    known = {
        "own": own,  # it tells the patient's gender
        "woman": woman,  # the patient is one
        "plural": is_plural(text),
        "young": text in ("boy", "girl"),
        "wedding": text in ("landlord", "landlady", "groom", "bride", "bridegroom"),
    }
    return [
        (
            WHY.index(says),
            [(FACTS[fact], holds) for fact, holds in when if fact not in known],
            *patterns,
        )
        for says, when, *patterns in rules("person_rules.csv", _KIND_NAME[kind], of_bytes=True)
        if all(known.get(fact, holds) == holds for fact, holds in when)
    ]


def why_left(kind: int, word: Word) -> int:
    """The reason of the first rule that fits, its facts looked at last; a title's surname is noted."""
    every = _rules_of(kind, word.text, word.side == word.row.side, word.row.side == 1)
    why: int = next(
        why
        for why, facts, after, before, unless in every
        if (not after or after(word.after))
        and (not before or before(word.before))
        and not (unless and unless(word.before))
        and all(fact(word) == holds for fact, holds in facts)
    )
    if kind == TITLE and why == CLINICIANS:
        word.row.strangers.add(word.surname)
    elif kind == TITLE and why == MINE and not word.row.surname:
        word.row.surname = word.surname
    return why


def is_demographic(before: bytes, after: bytes, *, letter: bool) -> bool:
    """Whether a word for a man or a woman (or a letter) tells the gender of a note's patient: "45-year-old man"."""
    if not letter and not byte_pattern("demographic_before").search(before):
        return False
    return not (
        byte_pattern("not_demographic_before").search(before)
        or byte_pattern("not_demographic_after").match(after)
    )


# --- pronouns: what is seen of them ---------------------------------------------------------------------------

REACH = 260  # bytes before a pronoun in which the person it means is looked for
AHEAD = 72  # bytes after it that say what it does
_FEW = 3  # persons named last, of whom each may be the referent


class Mention(NamedTuple):
    """A person who is named: where, what kind, which side's pronouns mean it (-1: either)."""

    start: int
    end: int
    kind: int
    side: int
    plural: bool = False


class Earlier(NamedTuple):
    """A pronoun that was decided: where it begins, whether it is a subject, and whether it means the patient."""

    start: int
    subject: bool
    patient: bool


_WORD = re.compile(  # in lower case, of bytes read as Latin-1
    r"[a-z]{4,}(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|(?:drs?|mrs?|ms|st|vs|jr|sr|[b-hj-z])\.(?=\s)|"
    r"[a-z]+(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|\d[\d./,:-]*|[.!?:;\n]|[,()\"/]",
    re.ASCII,
)
_ENDS = frozenset(".!?:\n")


_AUXILIARY = word_list("between_subject_and_verb").union(
    ["is", "was", "were", "be", "been", "being", "has", "have", "had", "did", "does", "do", "not"]
)
_MODAL = word_list("modal_verbs")
_PARTICIPLES = word_list("participles")
_PAST = word_list("past_verbs")
_SAYING = word_list("saying_verbs")
_OPENING = word_list("opening_words")
_PREPOSITIONS = word_list("prepositions")
_LEADING = word_list("leading_words")
_SUBJECTS = frozenset({"he", "she"})
_KINDS = "KSTOCP"


def _words(text: str, low: int, high: int) -> tuple[list[str], list[int]]:
    """The words of a text in lower case from ``low`` to ``high``, and where each begins."""
    found = [*_WORD.finditer(text, low, high)]
    return [one[0] for one in found], [one.start() for one in found]


@lru_cache(maxsize=4096)
def _shape(word: str) -> str:
    """A word as a feature: relatives, clinicians and numbers by their kind alone."""
    if not word:
        return "none"
    if not word[0].isalpha():
        return "digit" if word[0].isdigit() else "line" if word == "\n" else word
    if pattern("kin_shape").match(word):
        return "KIN"
    return "STAFF" if pattern("staff_shape").match(word) else word


def _verb(words: Sequence[str]) -> tuple[str, str]:
    """The first full verb after a subject, and its tense with its auxiliary: ``pastwas``, ``modal``, ``ing``."""
    first = next((word for word in words[:3] if word in ("is", "was", "has", "had")), "")
    modal = False
    for word in words[:6]:
        if word in _MODAL:
            modal = True
        elif word in _AUXILIARY or word.endswith("ly"):
            continue
        elif not word[0].isalpha():
            break
        elif modal:
            return word, f"modal{first}"
        elif word.endswith("ed") or word in _PAST or (first and word in _PARTICIPLES):
            return word, f"past{first}"
        else:
            tense = "ing" if word.endswith("ing") else "present" if word.endswith("s") else "base"
            return word, tense + first
    return "", ("modal" if modal else "") + first


def role_of(word: str, before: bytes, after: bytes) -> str:
    """``subject``, ``object``, ``own`` or ``self``.

    >>> role_of("her", b"gave ", b" a pill"), role_of("her", b"in ", b" leg")
    ('object', 'own')
    """
    if word in ("he", "she"):
        return "subject"
    if word in ("himself", "herself"):
        return "self"
    if word != "her":
        return "object" if word == "him" else "own"
    odds = by_words(
        last_word(before[-60:].decode(errors="ignore")),
        first_word(after[:60].decode(errors="ignore")),
    )
    return "own" if odds > 0 else "object"


class Pronoun(NamedTuple):
    """A pronoun in its context.

    Attributes:
        start: where it begins in its text. role: of ``role_of``.
        words, following: those before and after it. starts: where those before begin.
        mentions: persons named before, in order, who may be the referent.
        last: the pronoun of the same gender before.
    """

    word: str
    start: int
    role: str
    words: Sequence[str]
    starts: Sequence[int]
    following: Sequence[str]
    mentions: Sequence[Mention]
    last: Earlier | None


def features(one: Pronoun) -> list[tuple[Mention, list[str]]]:
    """Who may be the referent but the patient, and what tells whether that is so, as names of weights.

    They are the last of those who were named, one alone before several.
    """
    others = [person for person in reversed(one.mentions) if person.kind != PATIENT]
    words = one.words
    role = one.role
    bounds = _sentences_of(one.words)
    here = words[bounds[-1] :]
    opens = _OPENING.issuperset(here)  # no more than when: "Today he", "But she"
    following = _shape(one.following[0]) if one.following else "none"
    shared = [f"near:{role},{_shape(here[-1] if here else '^')}", f"after:{role},{following}"]
    if role == "subject":
        verb, tense = _verb(one.following)
        shared += [
            f"object-follows:{_object_follows(one)}",
            f"words:{','.join(map(_shape, one.following[:2]))}",
        ]
    found = []
    for person in [person for person in others if not person.plural][:_FEW] or others[:1]:
        at = bisect_left(one.starts, person.start)
        end = bisect_left(one.starts, person.end)
        end += words[at:end] == ["dr."]  # and the name
        sentence = bisect_right(bounds, at)
        kind = _KINDS[person.kind]
        away = min(len(bounds) - sentence, 3)  # sentences that end between the two
        heads = _heads(words[bounds[sentence - 1] : at])
        theirs = _predicate(words[end:])
        action, _ = _verb(theirs)
        says = not _SAYING.isdisjoint((action, *theirs[:4]))
        was = one.last if one.last and one.last.start > person.start else None
        last = (
            "none" if was is None else ("patient" if was.patient else "other") + "s" * was.subject
        )
        names = [
            *shared,
            f"where:{role},{away}",
            f"who-where:{role},{kind},{away}",
            f"last:{role},{away},{last},{heads}",
            f"verb-theirs:{role},{kind},{action}",
            f"says:{role},{away},{heads},{says}",
            f"gap:{away},{min(len(words) - end, 40) // 4}",
            f"opens:{role},{away},{opens},{heads}",
        ]
        if role == "subject":
            names += [f"verb-who:{verb},{kind}", f"tense:{tense},{kind},{away},{opens}"]
        found.append((person, names))
    return found


def _sentences_of(words: Sequence[str]) -> list[int]:
    """At which words sentences begin; a row of signs ends one."""
    bounds = [0]
    for at in [at for at, word in enumerate(words) if word in _ENDS]:
        if at == bounds[-1]:
            bounds[-1] = at + 1
        else:
            bounds.append(at + 1)
    return bounds


def _heads(lead: Sequence[str]) -> str:
    """Whether the person heads its sentence: ``yes``, ``near`` its begin, ``no``."""
    rest = [word for word in lead if word not in _LEADING]
    if not rest:
        return "yes"
    return (
        "near"
        if len(rest) <= 2 and _PREPOSITIONS.isdisjoint(rest) and _SUBJECTS.isdisjoint(rest)
        else "no"
    )


def _predicate(words: Sequence[str]) -> Sequence[str]:
    """What is said of a person, after a name in brackets and commas."""
    at = words.index(")") + 1 if words[:1] == ["("] and ")" in words else 0
    while at < len(words) and words[at] == ",":
        at += 1
    return words[at:]


def _object_follows(one: Pronoun) -> str:
    """Whether the verb has an object of the same gender: then they are two persons."""
    wanted = "him" if one.word == "he" else "her"
    clause = [*takewhile(lambda word: word not in _ENDS and word != ";", one.following[:9])]
    if wanted not in clause:
        return "none"
    at = clause.index(wanted)
    before = clause[at - 1] if at else ""
    after = clause[at + 1] if at + 1 < len(clause) else ""
    kin = _shape(after) == "KIN"
    own = one.word == "she" and after[:1].isalpha() and by_words(before, after) > 0
    return ("own" if own and not kin else "object") + "K" * kin


def antecedent_of(one: Pronoun) -> tuple[float, Mention | None]:
    """The log-odds that it means another than the patient, and whom: None is the patient."""
    score, person = best(weights_of("antecedent_weights.csv"), features(one))
    return score, person if score > 0 else None


def best(
    known: Mapping[str, float], seen: Sequence[tuple[Mention, Sequence[str]]]
) -> tuple[float, Mention | None]:
    """The person with the highest score by these weights, and the score: above zero the person is the referent."""
    scored = [
        (sum([known.get(name, 0.0) for name in names]) + known["bias"], person)
        for person, names in seen
    ]
    return max(scored, key=lambda one: one[0], default=(-1.0, None))


# --- all words of a block -------------------------------------------------------------------------------------

_STOP = re.compile(rb"\.[ \n](?<![DdMm][Rr]..)", re.DOTALL)
_STOPS = 2
_KNOWN_FOR = 3000  # bytes after somebody was introduced by a name in which the name is theirs
_FAR = 600  # bytes before a pronoun of the other gender in which its person is looked for


@dataclass(frozen=True, eq=False)
class Block(Text):
    """Texts and the gendered words in them.

    Attributes:
        kept: which of the terms tell a gender at all.
        cues: persons without a gender.
    """

    kept: NDArray[np.bool_]
    cues: Matches

    def windows(self, places: Ints, before: int, after: int) -> tuple[Ints, Ints]:
        """Where the text around words at some places begins and ends: so many bytes, within their rows."""
        rows = self.rows[places]
        low = np.maximum(self.offsets[rows], self.found.start[places] - before)
        return low, np.minimum(self.offsets[rows + 1], self.found.end[places] + after)

    def around(
        self, places: Ints, before: int, after: int
    ) -> Iterator[tuple[int, int, int, int, bytes, bytes]]:
        """Of words at some places: the place, term and row, where each begins, and so many bytes around it."""
        columns = (
            places,
            *(of[places] for of in (self.found.term, self.rows, self.found.start, self.found.end)),
        )
        every = zip(
            *(one.tolist() for one in (*columns, *self.windows(places, before, after))), strict=True
        )
        for at, term, row, first, last, begin, stop in every:
            yield at, term, row, first, self.buffer[begin:first], self.buffer[last:stop]

    def head(self, row: int) -> bytes:
        """How a row begins: that says whether it is about a newborn."""
        first, last = (int(self.offsets[row + more]) for more in (0, 1))
        return self.buffer[first : min(last, first + _HEAD)]


# --- how sure a decision is -----------------------------------------------------------------------------------

SCORED, ALONE, NO_PATIENT = range(
    20, 23
)  # ways to decide, beside kinds of nouns and PRONOUN (of the other gender)
WAYS = {
    **KINDS,
    "other gender": PRONOUN,
    "scored": SCORED,
    "alone": ALONE,
    "no patient": NO_PATIENT,
}
NUMBERS = (
    "margin of patient",
    "margin of other",
    "persons near",
    "words",
    "unsure words",
    "words that stay",
)
DOUBTFUL = 0.2  # a word whose decision is wrong by a larger chance is doubtful
# log-odds: a larger margin counts as this; a pronoun with a smaller one is unsure
_SUREST = 8.0
_UNSURE = 1.5
_LEAST = 0.01  # wrong words that every note is expected to have


def case_name(case: int) -> str:
    """How a word was decided, as a name of weights: the way, and whose it is or why it stays ("scored: patient")."""
    way, why = divmod(case, len(WHY))
    return f"{next(name for name, number in WAYS.items() if number == way)}: {WHY[why]}"


def expected_wrong(wrong: NDArray[np.float64], rows: Ints, size: int) -> NDArray[np.float64]:
    """The logarithm of how many decisions of each row are wrong, as expected (rows,)."""
    expected: NDArray[np.float64] = np.log(np.bincount(rows, -np.log1p(-wrong), size) + _LEAST)
    return expected


def _chance(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 + 0.5 * np.tanh(odds / 2)  # the logistic function, which never overflows


@dataclass(frozen=True, slots=True)
class Decisions:
    """Whose each word of a block is, and how likely that is wrong.

    Attributes:
        why: why each word stays, (n,): 0 where it is the patient's, else a place in ``WHY``.
        sides: of each row's patient, (rows,); -1 where nothing tells it.
        cases: how each word was decided (``case_name``), (n,).
        numbers: what else tells how sure that is, (n, ``NUMBERS``).
        wrong: the chance that each decision is wrong, 0 to 1 (n,); 0 for words that tell no gender.
        doubt: the chance that not all decisions of a row are right, 0 to 1 (rows,).
        doubtful_words: words of each row that are wrong by a chance above ``DOUBTFUL``, (rows,).
    """

    why: NDArray[np.int8]
    sides: Ints
    cases: Ints
    numbers: NDArray[np.float64]
    wrong: NDArray[np.float64]
    doubt: NDArray[np.float64]
    doubtful_words: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        block: Block,
        why: NDArray[np.int8],
        sides: Ints,
        way: Ints,
        odds: NDArray[np.float64],
        near: Ints,
    ) -> "Decisions":
        """The decisions with their chances by the weights.

        Args:
            way: how each was decided (``WAYS``). odds: of the scored ones, NaN of the others. near: persons near.
        """
        # Of cases and numbers toward a wrong decision; "note" and "expected" are those of a whole note.
        known = weights_of("doubt_weights.csv")
        size = len(block.offsets) - 1
        rows = block.rows
        margin = np.abs(odds)
        cases = way * len(WHY) + why
        stays = block.kept & (why > 0)
        unsure = margin < _UNSURE
        counts = [
            np.bincount(rows[one], minlength=size)[rows] for one in (block.kept, unsure, stays)
        ]
        margin = np.nan_to_num(np.minimum(margin, _SUREST))
        columns = [margin * (why == MINE), margin * (why != MINE), *map(np.log1p, (near, *counts))]
        numbers = np.stack(columns, axis=1)
        every, which = np.unique(cases, return_inverse=True)
        chances = (
            np.array([known.get(case_name(one), 0.0) for one in every.tolist()])[which]
            + known["bias"]
        )
        chances = chances + numbers @ np.array([known.get(name, 0.0) for name in NUMBERS])
        wrong = np.where(block.kept, _chance(chances), 0.0)
        doubt = _chance(known["note"] + known["expected"] * expected_wrong(wrong, rows, size))
        doubtful = np.bincount(rows[wrong > DOUBTFUL], minlength=size).astype(np.int32)
        return cls(why, sides, cases, numbers, wrong, doubt, doubtful)


class Persons:
    """Tells the patient's words from those of others, for one table."""

    def __init__(
        self, terms: Sequence[str], sides: Sequence[int], cues: Mapping[int, int], spouses: str
    ) -> None:
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
        self._why = {**_WHY, SPOUSE: MINE if spouses == "swap" else SPOUSES_WORD}
        self._spouses = spouses == "swap"
        self._names = list(terms)
        self._kind = np.array([kind_of(text) for text in terms], dtype=np.int64)
        self._side = np.array(sides, dtype=np.int64)
        self._kinds = self._kind.tolist()
        self._sides = self._side.tolist()
        self._plural = np.array([is_plural(text) for text in terms])
        self._subject = np.array([text in ("he", "she") for text in terms])
        self._own = np.array([text in ("his", "her") for text in terms])
        self._cue = np.full(max([*cues, len(terms)]) + 1, -1)
        for number, kind in cues.items():
            self._cue[number] = kind

    def is_cue(self, terms: Ints) -> NDArray[np.bool_]:
        """Which of the matches name a person without a gender, (n,)."""
        named: NDArray[np.bool_] = self._cue[np.minimum(terms, len(self._cue) - 1)] >= 0
        return named

    def decide(self, block: Block, given: Ints) -> Decisions:
        """Whose each word is.

        Args:
            block: the texts and words.
            given: the side of each row's patient (0 or 1), -1 where it is to be read from the text.
        """
        why = np.zeros(len(block.rows), dtype=np.int8)
        kind = self._kind[block.found.term]
        side = self._side[block.found.term]
        sides = self._patients(block, kind, side, given)
        mine = sides[block.rows]
        why[mine < 0] = UNKNOWN
        known = block.kept & (mine >= 0)
        pronoun = kind == PRONOUN
        self._nouns(block, np.flatnonzero(known & ~pronoun), sides, why)
        named = _Named.of(block, kind, side, self._plural, why, self._cue)
        self._of_others(block, np.flatnonzero(known & pronoun & (side != mine)), named, why)
        low = np.maximum(block.offsets[block.rows], block.found.start - REACH)
        near, last = named.near(block.found.start, low, side)
        odds = self._of_patients(
            block, block.kept & pronoun & (side == mine), side, named, last, why
        )
        why[~block.kept] = 0
        way: Ints = np.where(side == mine, np.where(np.isnan(odds), ALONE, SCORED), PRONOUN)
        way = np.where(mine < 0, NO_PATIENT, np.where(pronoun, way, kind))
        return Decisions.of(block, why, sides, way, odds, near)

    def _patients(self, block: Block, kind: Ints, side: Ints, given: Ints) -> Ints:
        """The side of each row's patient: as given, else by the first demographic, the first title, most pronouns."""
        sides = given.copy()
        rows = block.rows
        if not (sides[rows] < 0).any():
            return sides
        single = block.kept & ~self._plural[block.found.term]
        places = np.flatnonzero((sides[rows] < 0) & single & np.isin(kind, (MAN, LETTER)))
        for _, term, row, _, before, after in block.around(places, 60, 40):
            if sides[row] < 0 and is_demographic(before, after, letter=self._kinds[term] == LETTER):
                sides[row] = self._sides[term]
        persons = block.found.start[block.kept & np.isin(kind, (KIN, SPOUSE, ROLE, MAN))]
        for wanted in (TITLE, PRONOUN, MAN):
            mine = np.flatnonzero((sides[rows] < 0) & single & (kind == wanted))
            counts = 2.0 * side[mine] - 1
            if wanted == PRONOUN:  # "his sister" counts most
                counts[
                    self._own[block.found.term[mine]] & np.isin(block.found.end[mine] + 1, persons)
                ] *= 3
            votes = np.bincount(rows[mine], weights=counts, minlength=len(sides))
            if wanted == TITLE:
                last = mine[::-1]
                votes[rows[last]] = 2.0 * side[last] - 1  # the first of a row is written last
            sides = np.where((sides < 0) & (votes != 0), (votes > 0).astype(np.int64), sides)
        return sides

    def _nouns(self, block: Block, places: Ints, sides: Ints, why: NDArray[np.int8]) -> None:
        """Nouns and titles, by the rules."""
        known = Row(0, b"")
        number = -1
        for at, term, row, _, before, after in block.around(places, 90, 60):
            if row != number:
                known = Row(int(sides[row]), block.head(row))
                number = row
            reason = why_left(
                self._kinds[term], Word(self._names[term], self._sides[term], before, after, known)
            )
            why[at] = MINE if reason == SPOUSES_WORD and self._spouses else reason

    def _of_others(
        self, block: Block, places: Ints, named: "_Named", why: NDArray[np.int8]
    ) -> None:
        """Pronouns of the other gender: those of the person of that gender who was named last."""
        for at, term, row, start, before, after in block.around(places, 24, 24):
            if both(self._sides[term], before, after):
                why[at] = BOTH
                continue
            low = max(int(block.offsets[row]), start - _FAR)
            person = named.last(start, low, self._sides[term], block.buffer)
            why[at] = OTHERS if person is None else self._why.get(person.kind, OTHERS)

    def _of_patients(
        self,
        block: Block,
        own: NDArray[np.bool_],
        side: Ints,
        named: "_Named",
        last: Ints,
        why: NDArray[np.int8],
    ) -> NDArray[np.float64]:
        """Pronouns of the patient's gender (``own``): the patient's, unless somebody else was named shortly before.

        ``last`` is where the last one begins who was, -1 for nobody. Returns the log-odds of each word that it is
        somebody else's (n,), NaN where nobody was.
        """
        odds = np.full(len(why), np.nan)
        found = block.found
        signs = block.signs
        slash = (signs[found.start - 1] == ord("/")) | (signs[found.end] == ord("/"))
        doubtful = own & (slash | _beside_or(signs, found))
        places = np.flatnonzero(
            own & (last >= 0)
        )  # not more than a sentence and an abbreviation before
        pairs = zip(last[places].tolist(), found.start[places].tolist(), strict=True)
        doubtful[places] |= np.array(
            [len(_STOP.findall(block.buffer, *pair)) <= _STOPS for pair in pairs], dtype=bool
        )
        sequence = np.flatnonzero(own)
        subject = self._subject[found.term]
        # Subjects that are not the patient's, for a patient of each side.
        strange = [found.start[subject & (why > 0) & (side == 1 - one)].tolist() for one in (0, 1)]
        starts, subjects = (of[sequence].tolist() for of in (found.start, subject))
        means = [True] * len(starts)
        places = np.flatnonzero(doubtful)
        if not len(places):
            return odds
        text = block.buffer.lower().decode("latin-1")
        low, high = block.windows(places, REACH, AHEAD)
        fresh = np.append(True, low[1:] >= high[:-1])  # windows that overlap share their words
        stretches = zip(low[fresh].tolist(), high[np.append(fresh[1:], True)].tolist(), strict=True)
        every = zip(np.searchsorted(sequence, places).tolist(), fresh.tolist(), strict=True)
        for (number, new), (at, term, row, start, before, after) in zip(
            every, block.around(places, REACH, AHEAD), strict=True
        ):
            if new:
                words, begins = _words(text, *next(stretches))
            word = self._names[term]
            mine = self._sides[term]
            since = start - len(before)
            if both(mine, before, after):
                why[at] = BOTH
                continue
            mentions = named.between(since, start, mine, strange[mine])
            opening = max(before.rfind(b". "), before.rfind(b"\n")) + 1
            if byte_pattern("full_name").match(
                before, opening
            ):  # the patient: "Amy Roe is well; she"
                mentions = [
                    one for one in mentions if one.start >= since + opening or one.kind == PATIENT
                ]
            if not any(one.kind != PATIENT or one.plural for one in mentions):
                continue
            if any(one.kind == CHILD for one in mentions) and is_infant(block.head(row)):
                mentions = [one for one in mentions if one.kind != CHILD]
            first = bisect_left(begins, since)
            here = bisect_left(begins, start)
            following = words[
                bisect_right(begins, start) : bisect_left(begins, start + len(word) + len(after))
            ]
            earlier = (
                Earlier(*(of[number - 1] for of in (starts, subjects, means))) if number else None
            )
            role = role_of(word, before, after)
            beside = words[first:here], begins[first:here], following
            odds[at], person = antecedent_of(
                Pronoun(word, start - int(block.offsets[row]), role, *beside, mentions, earlier)
            )
            if person is not None:
                why[at] = reason = self._why.get(person.kind, OTHERS)
                means[number] = reason == MINE
        return odds


def _beside_or(signs: Bytes, found: Matches) -> NDArray[np.bool_]:
    after = [signs[np.minimum(found.end + more, len(signs) - 1)] | 32 for more in (1, 2)]
    before = [signs[found.start - more] | 32 for more in (2, 3)]
    beside: NDArray[np.bool_] = (after[0] == ord("o")) & (after[1] == ord("r"))
    beside |= (before[0] == ord("r")) & (before[1] == ord("o"))
    return beside


_MENTION = np.dtype(
    [("start", "i8"), ("end", "i8"), ("kind", "i8"), ("side", "i8"), ("plural", "?")]
)


class _Named:
    """All who are named in a block and may be a pronoun's referent, in order."""

    def __init__(self, every: NDArray[np.void]) -> None:
        self.every = every[np.argsort(every["start"], kind="stable")]

    @classmethod
    def of(
        cls,
        block: Block,
        kind: Ints,
        side: Ints,
        plural: NDArray[np.bool_],
        why: NDArray[np.int8],
        cue: Ints,
    ) -> "_Named":
        """The nouns of a block and its persons without a gender, and where they are called by their names again."""
        noun = np.flatnonzero(block.kept & (kind != PRONOUN) & (why != NO_PERSON) & (why != BOTH))
        found = block.found
        cues = block.cues
        reason = why[noun]
        kinds = kind[noun].copy()
        patient = (reason == MINE) & (kinds != SPOUSE)
        man = kinds == MAN
        kinds[kinds >= MAN] = np.where(reason == CLINICIANS, STAFF, OTHER)[kinds >= MAN]
        kinds[reason == SPOUSES_WORD] = SPOUSE
        kinds[reason == RELATIVES] = np.where(man, CHILD, KIN)[
            reason == RELATIVES
        ]  # "a viable male infant"
        kinds[patient] = PATIENT
        every = np.zeros(len(noun) + len(cues.term), _MENTION)
        nouns = every[: len(noun)]
        others = every[len(noun) :]
        nouns["start"] = found.start[noun]
        nouns["end"] = found.end[noun]
        nouns["kind"] = kinds
        nouns["side"] = np.where(patient, -1, side[noun])
        nouns["plural"] = plural[found.term[noun]]
        others["start"] = cues.start
        others["end"] = cues.end
        others["kind"] = cue[cues.term]
        others["side"] = -1
        named = cls(every)
        more = named._by_name(block)
        return cls(np.concatenate([named.every, np.array(more, _MENTION)])) if more else named

    def _by_name(self, block: Block) -> list[Mention]:
        """Where somebody who was introduced by a name ("her sister Amy") is called by it again."""
        signs = block.signs
        start = self.every["start"]
        end = self.every["end"]
        others = (self.every["kind"] != PATIENT) & ~self.every["plural"]
        beyond = signs[np.minimum(end[:, None] + np.arange(1, 3), len(signs) - 1)]
        before = signs[np.maximum(start[:, None] - np.arange(1, 15), 0)]
        capital = ((beyond >= 65) & (beyond <= 90)).any(axis=1)
        candidates = others & (capital | np.isin(before, (ord(","), ord("("))).any(axis=1))
        rows = np.searchsorted(block.offsets, start[candidates], side="right")
        bounds = block.offsets[rows - 1].tolist(), block.offsets[rows].tolist()
        more: dict[int, Mention] = {}
        for one, first, last in zip(
            map(Mention._make, self.every[candidates].tolist()), *bounds, strict=True
        ):
            text = block.buffer[max(first, one.start - 40) : one.start]
            name = byte_pattern("name_after").match(block.buffer, one.end, last)
            name = name or byte_pattern("name_before").search(text)
            if name and name[1] not in _NO_NAMES:
                again = re.compile(rb"(?<![\w'-])" + name[1] + rb"(?= [a-z])")
                for place in again.finditer(block.buffer, one.end, min(last, one.end + _KNOWN_FOR)):
                    more.setdefault(place.start(), Mention(*place.span(), one.kind, one.side))
        return [*more.values()]

    def near(self, start: Ints, low: Ints, side: Ints) -> tuple[Ints, Ints]:
        """How many stand between two places whom a pronoun of that side may mean; where the last begins, or -1."""
        times, last = np.zeros((2, len(start)), dtype=np.int64)
        starts = self.every["start"]
        sides = self.every["side"]
        others = self.every["kind"] != PATIENT
        for one in (0, 1):
            mine = np.append(-1, starts[others & ((sides == one) | (sides < 0))])
            there = side == one
            before = np.searchsorted(mine, start[there])
            times[there] = before - np.searchsorted(mine, low[there])
            last[there] = mine[before - 1]
        return times, np.where(times > 0, last, -1)

    @cached_property
    def _starts(self) -> list[int]:
        starts: list[int] = self.every["start"].tolist()
        return starts

    def _mentions(self, low: int, high: int) -> list[Mention]:
        """All between two places, the last first."""
        last = bisect_left(self._starts, high)
        first = bisect_left(self._starts, low, 0, last)
        return [*map(Mention._make, self.every[first:last].tolist())][::-1]

    def between(self, low: int, high: int, side: int, strange: Sequence[int]) -> list[Mention]:
        """Those who may be the referent of a pronoun of that side at ``high``.

        Whoever has no gender and is taken up by a pronoun of the other one (at ``strange``) may not.
        """
        found: list[Mention] = []
        upto = following = high
        for one in self._mentions(low, high):
            beside = following - one.end <= 1 and following != high
            following = one.start
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
        cue: Mention | None = None
        for one in self._mentions(low, start):
            if one.kind == PATIENT or one.plural:
                continue
            if one.side == side:
                between = b"" if cue is None else buffer[one.end : cue.start]
                return (
                    cue
                    if cue and (sentences(between) or byte_pattern("opens_clause").search(between))
                    else one
                )
            if (
                one.side < 0
                and cue is None
                and not byte_pattern("described").search(
                    buffer[max(low, one.start - 32) : one.start]
                )
            ):
                cue = one
        return cue


_NO_NAMES = frozenset(word.encode() for word in word_list("no_names"))
