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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapbias.errors import UsageError
from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.his_or_him import by_words, first_word, last_word
from swapbias.swapping.matches import Bytes, Ints, Matches, signs_of
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, byte_pattern, rules, word_list

WHOSE, SPOUSES = ("everyone", "patient"), ("swap", "keep")
REASONS = ("relative", "spouse", "clinician", "other", "no_person", "both", "unknown")
WHY = ("patient", *REASONS)  # whose a word is, or why else it stays
MINE, RELATIVES, SPOUSES_WORD, CLINICIANS, OTHERS, NO_PERSON, BOTH, UNKNOWN = range(len(WHY))

# --- words by what kind of person they name --------------------------------------------------------------

KIN, SPOUSE, STAFF, OTHER, CHILD, PATIENT = range(6)  # persons whom a pronoun may mean
MAN, TITLE, PRONOUN, LETTER, ROLE = range(10, 15)  # further kinds of words
KINDS = {"kin": KIN, "spouse": SPOUSE, "man": MAN, "title": TITLE, "letter": LETTER, "role": ROLE}  # in tables
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
    PRONOUN: _PRONOUNS, TITLE: _TITLES, MAN: word_list("people"), SPOUSE: word_list("partners"),
    ROLE: word_list("roles"), LETTER: DEMOGRAPHIC | GLUED,
}  # fmt: skip


def kind_of(text: str) -> int:
    """What kind of word a term of the table is; a term that is in no list names a relative.

    >>> kind_of("she") == PRONOUN, kind_of("yof") == LETTER, kind_of("stepson") == KIN
    (True, True, True)
    """
    return next((kind for kind, words in _KINDS_OF_WORDS.items() if text in words), KIN)


def is_plural(text: str) -> bool:
    return text.endswith(("s", "men")) and not text.endswith("ss") and text not in _PRONOUNS | _TITLES | DEMOGRAPHIC


@cache
def _re(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.IGNORECASE)


# --- sentences and headings ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def sentences(text: bytes) -> tuple[int, ...]:
    """Where sentences begin, after the first: no full stop of a title or of an initial ends one.

    >>> sentences(b"Seen by Dr. A. Lee. He left.")
    (19, 28)
    """
    return tuple([stop.end() for stop in byte_pattern("sentence_end").finditer(text)])


def in_family_history(before: bytes) -> bool:
    """Whether the last heading before is that of the family history.

    >>> in_family_history(b"PMH: none. FAMILY HISTORY: Mother had "), in_family_history(b"FH: CAD.\\nHEENT: he ")
    (True, False)
    """
    end = max((one.end() for one in byte_pattern("family_heading").finditer(before)), default=None)
    return end is not None and not byte_pattern("section_heading").search(before, end) and b"\n\n" not in before[end:]


# --- the note ---------------------------------------------------------------------------------------------

_HEAD = 400  # bytes that say whether a note is about a newborn
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
    """Whether the first age that a note tells is that of a grown person.

    >>> is_adult(b"60F here with her son, 9 y/o"), is_adult(b"12M with mother, 40 y/o")
    (True, False)
    """
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

    @property
    def clause(self) -> bytes:
        """What stands before it in its sentence."""
        bounds = sentences(self.before)
        return self.before[bounds[-1] if bounds else 0 :]


_SIDES = "he|his|him|himself|m|male|man|boy", "she|her|hers|herself|f|female|woman|girl"
_PARTNER_AFTER = [_re(rf"\s*(?:/|\bor\b)\s*\(?\s*(?:{words})\b") for words in _SIDES]
_PARTNER_BEFORE = [_re(rf"\b(?:{words})\s*(?:/|\bor\b)\s*$") for words in _SIDES]


def both(side: int, before: bytes, after: bytes) -> bool:
    """Whether the other gender's word stands beside it as its alternative: "his/her", "he or she"."""
    near = after[:6].lower() + b" " + before[-24:].lower()
    if b"/" not in near and b"or" not in near:
        return False
    return bool(_PARTNER_AFTER[1 - side].match(after) or _PARTNER_BEFORE[1 - side].search(before[-24:]))


# --- nouns and titles: rules ---------------------------------------------------------------------------------


FACTS: Mapping[str, Callable[[Word], bool]] = {  # by their names in rules
    "own": lambda word: word.side == word.row.side,  # it tells the patient's gender
    "woman": lambda word: word.row.side == 1,  # the patient is one
    "newborn": lambda word: is_infant(word.row.head),
    "grown": lambda word: is_adult(word.row.head),
    "plural": lambda word: is_plural(word.text),
    "young": lambda word: word.text in ("boy", "girl"),
    "wedding": lambda word: word.text in ("landlord", "landlady", "groom", "bride", "bridegroom"),
    "paired": lambda word: both(word.side, word.before, word.after),
    "led": lambda word: bool(byte_pattern("somebody_named").search(word.clause)),  # somebody is named in its sentence
    "first": lambda word: not word.row.surname or not word.surname,  # no other name of the patient's was read
    "namesake": lambda word: bool(word.surname) and word.surname == word.row.surname,
    "stranger": lambda word: word.surname in word.row.strangers and word.surname != word.row.surname,
}


def why_left(kind: int, word: Word) -> int:
    """The reason of the first rule that fits; a title's surname is noted."""
    every = rules("person_rules.csv")[_KIND_NAME[kind]]
    fitting = (rule for rule in every if rule.fits(lambda name: FACTS[name](word), word.before, word.after))
    why = WHY.index(next(fitting).row["says"])
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
        byte_pattern("not_demographic_before").search(before) or byte_pattern("not_demographic_after").match(after)
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
    """A pronoun that was decided: where it stands, whether it is a subject, and whether it means the patient."""

    start: int
    end: int
    subject: bool
    patient: bool


_WORD = re.compile(
    rb"(?:drs?|mrs?|ms|st|vs|jr|sr|[b-hj-z])\.(?=\s)|[a-z]+(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|"
    rb"\d[\d./,:-]*|[.!?:;\n]|[,()\"/]"
)
_ENDS = frozenset((b".", b"!", b"?", b":", b"\n"))


def _set(words: str) -> frozenset[bytes]:
    return frozenset(words.encode().split())


def _listed(name: str) -> frozenset[bytes]:
    return frozenset(word.encode() for word in word_list(name))


_AUXILIARY = _set("is was were be been being has have had did does do not") | _listed("between_subject_and_verb")
_MODAL = _listed("modal_verbs")
_PARTICIPLES = _listed("participles")
_PAST, _SAYING, _OPENING = _listed("past_verbs"), _listed("saying_verbs"), _listed("opening_words")
_PREPOSITIONS, _LEADING = _listed("prepositions"), _listed("leading_words")
_JOINING = _listed("joining_words")
_PRESENT = _listed("presence")
_SUBJECTS, _HIS, _HER = _set("he she"), _set("he him his himself"), _set("she her hers herself")
_KINDS = "KSTOCP"


@lru_cache(maxsize=4096)
def _shape(word: bytes) -> str:
    """A word as a feature: relatives, clinicians and numbers by their kind alone."""
    if not word:
        return "none"
    if word[:1].isdigit():
        return "digit"
    if not word[:1].isalpha():
        return "line" if word == b"\n" else word.decode()
    if byte_pattern("kin_shape").match(word):
        return "KIN"
    return "STAFF" if byte_pattern("staff_shape").match(word) else word.decode(errors="ignore")


class _Verb(NamedTuple):
    """The first full verb after a subject, and its tense with its auxiliary: ``pastwas``, ``modal``, ``ing``."""

    word: bytes
    tense: str


def _verb(words: Sequence[bytes]) -> _Verb:
    first = next((word for word in words[:3] if word in (b"is", b"was", b"has", b"had")), b"").decode()
    modal = False
    for word in words[:6]:
        if word in _MODAL:
            modal = True
        elif word in _AUXILIARY or word.endswith(b"ly"):
            continue
        elif not word[:1].isalpha():
            break
        elif modal:
            return _Verb(word, f"modal{first}")
        elif word.endswith(b"ed") or word in _PAST or (first and word in _PARTICIPLES):
            return _Verb(word, f"past{first}")
        else:
            tense = "ing" if word.endswith(b"ing") else "present" if word.endswith(b"s") else "base"
            return _Verb(word, tense + first)
    return _Verb(b"", ("modal" if modal else "") + first)


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
    odds = by_words(last_word(before[-60:].decode(errors="ignore")), first_word(after[:60].decode(errors="ignore")))
    return "own" if odds > 0 else "object"


@dataclass
class Pronoun:
    """A pronoun in its context.

    Attributes:
        word: in lower case.
        start: where it stands in its text.
        first: where ``before`` begins in the buffer, as ``mentions`` and ``earlier`` count.
        before, after: the text around it.
        mentions: persons named in ``before``, in order, who may be the referent.
        earlier: pronouns of the same gender in ``before``.
    """

    word: str
    start: int
    first: int
    before: bytes
    after: bytes
    mentions: Sequence[Mention]
    earlier: Sequence[Earlier]

    def __post_init__(self) -> None:
        """Cut the text around it into words, and find where sentences begin."""
        found = [*_WORD.finditer(self.before.lower())]
        self.words = [match[0] for match in found]
        self.starts = [match.start() + self.first for match in found]
        self.following: list[bytes] = _WORD.findall(self.after.lower())
        self.bounds = [0]
        for at in [at for at, word in enumerate(self.words) if word in _ENDS]:
            if at == self.bounds[-1]:  # nothing but signs since the last
                self.bounds[-1] = at + 1
            else:
                self.bounds.append(at + 1)
        self.here = self.bounds[-1]

    def at(self, offset: int) -> int:
        """The number of the word that begins at an offset, or after it."""
        return bisect_left(self.starts, offset)

    def sentence(self, at: int) -> int:
        """Where the sentence of a word begins."""
        return self.bounds[bisect_right(self.bounds, at) - 1]

    def away(self, at: int) -> int:
        """How many sentences end between a word and the pronoun, 3 for more."""
        return min(len(self.bounds) - bisect_right(self.bounds, at), 3)

    def opens(self, low: int, high: int) -> bool:
        """Whether the words say no more than when: "Today he", "But she"."""
        return all(word in _OPENING for word in self.words[low:high])


def candidates(one: Pronoun) -> Sequence[Mention]:
    """Who may be the referent but the patient: the last of those who were named, one alone before several.

    A full name that opens the sentence ("Amy Roe is well; she") and that nobody was introduced by is the patient's.
    """
    others = [person for person in reversed(one.mentions) if person.kind != PATIENT]
    if one.here < len(one.words) and byte_pattern("full_name").match(one.before, one.starts[one.here] - one.first):
        others = [person for person in others if person.start >= one.starts[one.here]]
    return [person for person in others if not person.plural][:_FEW] or others[:1]


def features(one: Pronoun, person: Mention) -> list[str]:
    """What tells whether a pronoun means a person or the patient, as names of weights."""
    role, kind = role_of(one.word, one.before, one.after), _KINDS[person.kind]
    at, end = one.at(person.start), one.at(person.end)
    away, begin = one.away(at), one.sentence(at)
    heads, opens = _heads(one.words[begin:at]), one.opens(one.here, len(one.words))
    theirs = _predicate(one.words[end:])
    action = _verb(theirs).word
    says = any(word in _SAYING for word in (action, *theirs[:4]))
    last, subject, before = _decided(one, person)
    patient = _patient_named(one, person)
    previous = _shape(one.words[-1] if one.here < len(one.words) else b"^")
    after = _shape(one.following[0]) if one.following else "none"
    where, who = f"{role},{away}", f"{role},{kind}"
    found = [
        f"where:{where}", f"who:{who}", f"who-where:{who},{away}", f"last:{where},{last},{heads}",
        f"subject:{role},{subject}", f"before:{where},{before}", f"patient:{role},{patient}",
        f"patient-opens:{where},{patient},{opens},{heads}", f"near:{role},{previous}",
        f"verb-theirs:{who},{action.decode(errors='ignore')}", f"says:{where},{heads},{says}",
        f"present:{role},{any(word in _PRESENT for word in theirs[:5])}",
        f"gap:{away},{min(len(one.words) - end, 40) // 4}",
        f"others:{role},{min(sum(p.kind != PATIENT for p in one.mentions), 4)}",
        f"after:{role},{after}", f"events:{_event_before(one)},{'^' * opens}{role}",
    ]  # fmt: skip
    return found + (_of_subject(one, f"{kind},{away}", opens) if role == "subject" else [])


def _of_subject(one: Pronoun, place: str, opens: bool) -> list[str]:
    """What a subject does."""
    does = _verb(one.following)
    verb = does.word.decode(errors="ignore")
    clause = [*takewhile(lambda word: word not in _ENDS and word != b";", one.following)]
    at = clause.index(does.word) + 1 if does.word in clause else len(clause)
    thing = _shape(clause[at]) if at < len(clause) else "none"
    words = [_shape(word) for word in (*one.following[:2], b"", b"")]
    return [
        f"verb:{verb}", f"verb-who:{verb},{place[0]}", f"verb-thing:{verb},{thing}", f"words:{words[0]},{words[1]}",
        f"tense:{does.tense},{place},{opens}", f"object-follows:{_object_follows(one.word, clause)}",
    ]  # fmt: skip


def _heads(lead: Sequence[bytes]) -> str:
    """Whether the person heads its sentence: ``yes``, ``near`` its begin, ``no``."""
    rest = [word for word in lead if word not in _LEADING]
    if not rest:
        return "yes"
    return "near" if len(rest) <= 2 and not any(word in _PREPOSITIONS or word in _SUBJECTS for word in rest) else "no"


def _predicate(words: Sequence[bytes]) -> Sequence[bytes]:
    """What is said of a person, after a name in brackets and commas."""
    at = words.index(b")") + 1 if words[:1] == [b"("] and b")" in words else 0
    while at < len(words) and words[at] == b",":
        at += 1
    return words[at:]


def _label(was: Earlier | None) -> str:
    return "none" if was is None else ("patient" if was.patient else "other") + ("s" if was.subject else "")


def _decided(one: Pronoun, person: Mention) -> tuple[str, str, str]:
    """Referents of earlier pronouns: the last since the person, the last subject of its sentence, of that before."""
    here = one.starts[one.here] if one.here < len(one.words) else one.first + len(one.before)
    since = [was for was in one.earlier if was.start > person.start]
    inside = [was for was in one.earlier if was.subject and was.start >= here]
    before = "none"
    if len(one.bounds) > 1:
        first = one.bounds[-2]
        for was in one.earlier:
            if one.starts[first] <= was.start < here and was.subject:
                before = _label(was) + ("1" if one.opens(first, one.at(was.start)) else "2")
                break
    return _label(since[-1] if since else None), _label(inside[-1] if inside else None), before


def _patient_named(one: Pronoun, person: Mention) -> str:
    """Whether the patient was named since the person, where, and as the head of its sentence."""
    named = [other for other in one.mentions if other.kind == PATIENT and other.start > person.start]
    if not named:
        return "none"
    at = one.at(named[-1].start)
    heads = all(word in _LEADING for word in one.words[one.sentence(at) : at])
    return f"{'head' if heads else 'named'}{min(one.away(at), 2)}"


def _event_before(one: Pronoun) -> str:
    """What is next before the pronoun: a person, a pronoun and its referent, the end of a sentence; or blank."""
    other = _HER if one.word.encode() in _HIS else _HIS
    decided = {was.start: was for was in one.earlier}
    named = {person.start: person for person in one.mentions}
    for at in range(len(one.words) - 1, -1, -1):
        word, start = one.words[at], one.starts[at]
        was, person = decided.get(start), named.get(start)
        if was:
            own = word in (b"his", b"himself", b"her", b"he") and not was.subject
            return ("p" if was.patient else "o") + ("s" if was.subject else "h" if own else "x")
        if person:
            return _event(person, one.words[one.sentence(at) : at], one.words[at + 1 : at + 7])
        if word in _ENDS:
            return "."
        if word in other:
            return "y" if word in _SUBJECTS else "yx"
        if word in (b"i", b"we") or word in _JOINING:
            return word.decode()[0].replace("i", "I")
    return ""


def _event(person: Mention, lead: Sequence[bytes], after: Sequence[bytes]) -> str:
    rest = [word for word in lead if word not in _LEADING]
    of = any(word in _PREPOSITIONS for word in lead[-2:])
    place = "H" if not rest else "p" if of else "h" if len(rest) <= 2 else "-"
    return _KINDS[person.kind] + "+" * person.plural + place + "S" * (_verb(after).word in _SAYING)


def _object_follows(word: str, clause: Sequence[bytes]) -> str:
    """Whether the verb has an object of the same gender: then they are two persons."""
    wanted = b"him" if word == "he" else b"her"
    at = next((at for at, one in enumerate(clause[:9]) if one == wanted), None)
    if at is None:
        return "none"
    after = clause[at + 1] if at + 1 < len(clause) else b""
    kin = _shape(after) == "KIN"
    before = clause[at - 1].decode(errors="ignore") if at else ""
    own = word == "she" and after[:1].isalpha() and by_words(before, after.decode(errors="ignore")) > 0
    return ("own" if own and not kin else "object") + "K" * kin


@cache
def weights() -> dict[str, float]:
    path = corpus_dir("gender_lexicon") / "antecedent_weights.csv"
    return {row["feature"]: float(row["weight"]) for row in read_table(path, ("feature", "weight"))}


def antecedent_of(one: Pronoun) -> tuple[float, Mention | None]:
    """The log-odds that it means another than the patient, and whom: None is the patient."""
    score, person = best(weights(), [(person, features(one, person)) for person in candidates(one)])
    return score, person if score > 0 else None


def best(known: Mapping[str, float], seen: Sequence[tuple[Mention, Sequence[str]]]) -> tuple[float, Mention | None]:
    """The person with the highest score by these weights, and the score: above zero the person is the referent."""
    scored = [(sum(known.get(name, 0.0) for name in names) + known["bias"], person) for person, names in seen]
    return max(scored, key=lambda one: one[0], default=(-1.0, None))


def _of_family(one: Pronoun) -> Mention | None:
    """In a family history whoever was named in the sentence is the referent, but before a relative ("his father")."""
    bounds = sentences(one.before)
    here = one.first + (bounds[-1] if bounds else 0)
    kin = [mention for mention in one.mentions if mention.start >= here and mention.kind == KIN]
    return kin[-1] if kin and not byte_pattern("before_kin").match(one.after) else None


# --- all words of a block -------------------------------------------------------------------------------------

_STOPS = 2
_KNOWN_FOR = 3000  # bytes after somebody was introduced by a name in which the name is theirs
_FAR = 600  # bytes before a pronoun of the other gender in which its person is looked for


@dataclass(frozen=True, eq=False)
class Block:
    """Texts and the gendered words in them.

    Attributes:
        buffer: the texts, padded. offsets: where each begins.
        found, rows: the gendered terms of the table, and the row of each.
        kept: which of them tell a gender at all.
        cues: persons without a gender.
    """

    buffer: bytes
    offsets: Ints
    found: Matches
    rows: Ints
    kept: NDArray[np.bool_]
    cues: Matches

    def row(self, at: int) -> tuple[int, int]:
        """Where the row of a word begins and ends."""
        number = int(self.rows[at])
        return int(self.offsets[number]), int(self.offsets[number + 1])

    def around(self, at: int, before: int, after: int) -> tuple[bytes, bytes]:
        """So many bytes before and after a word, of its row."""
        (first, last), start, end = self.row(at), int(self.found.start[at]), int(self.found.end[at])
        return self.buffer[max(first, start - before) : start], self.buffer[end : min(end + after, last)]


# --- how sure a decision is -----------------------------------------------------------------------------------

SCORED, ALONE, NO_PATIENT = range(20, 23)  # ways to decide, beside kinds of nouns and PRONOUN (of the other gender)
WAYS = {**KINDS, "other gender": PRONOUN, "scored": SCORED, "alone": ALONE, "no patient": NO_PATIENT}
NUMBERS = ("margin of patient", "margin of other", "persons near", "words", "unsure words", "words that stay")
DOUBTFUL = 0.2  # a word whose decision is wrong by a larger chance is doubtful
_SUREST, _UNSURE = 8.0, 1.5  # log-odds: a larger margin counts as this; a pronoun with a smaller one is unsure
_LEAST = 0.01  # wrong words that every note is expected to have


def case_name(case: int) -> str:
    """How a word was decided, as a name of weights: the way, and whose it is or why it stays ("scored: patient")."""
    way, why = divmod(case, len(WHY))
    return f"{next(name for name, number in WAYS.items() if number == way)}: {WHY[why]}"


@cache
def doubt_weights() -> dict[str, float]:
    """Weights of cases and ``NUMBERS`` toward a wrong decision; "note" and "expected" are those of a whole note."""
    path = corpus_dir("gender_lexicon") / "doubt_weights.csv"
    return {row["feature"]: float(row["weight"]) for row in read_table(path, ("feature", "weight"))}


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
        cls, block: Block, why: NDArray[np.int8], sides: Ints, cases: Ints, numbers: NDArray[np.float64]
    ) -> "Decisions":
        """The decisions with their chances by the weights."""
        known, size = doubt_weights(), len(block.offsets) - 1
        every, which = np.unique(cases, return_inverse=True)
        odds = np.array([known.get(case_name(one), 0.0) for one in every.tolist()])[which] + known["bias"]
        odds = odds + numbers @ np.array([known.get(name, 0.0) for name in NUMBERS])
        wrong = np.where(block.kept, _chance(odds), 0.0)
        doubt = _chance(known["note"] + known["expected"] * expected_wrong(wrong, block.rows, size))
        doubtful = np.bincount(block.rows[wrong > DOUBTFUL], minlength=size).astype(np.int32)
        return cls(why, sides, cases, numbers, wrong, doubt, doubtful)


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
        self._why = {**_WHY, SPOUSE: MINE if spouses == "swap" else SPOUSES_WORD}
        self._spouses = spouses == "swap"
        self._names = list(terms)
        self._kind = np.array([kind_of(text) for text in terms], dtype=np.int64)
        self._side = np.array(sides, dtype=np.int64)
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
        kind, side = self._kind[block.found.term], self._side[block.found.term]
        sides = self._patients(block, kind, side, given)
        mine = sides[block.rows]
        why[mine < 0] = UNKNOWN
        known, pronoun = block.kept & (mine >= 0), kind == PRONOUN
        self._nouns(block, np.flatnonzero(known & ~pronoun), sides, why)
        named = _Named.of(block, kind, side, self._plural, why, self._cue).with_names(block)
        self._of_others(block, np.flatnonzero(known & pronoun & (side != mine)), side, named, why)
        odds = self._of_patients(block, block.kept & pronoun & (side == mine), side, named, why)
        why[~block.kept] = 0
        way: Ints = np.where(side == mine, np.where(np.isnan(odds), ALONE, SCORED), PRONOUN)
        way = np.where(mine < 0, NO_PATIENT, np.where(pronoun, way, kind))
        near = named.count(block.found.start, np.maximum(block.offsets[block.rows], block.found.start - REACH), side)
        numbers = _numbers(block, why, np.abs(odds), near)
        return Decisions.of(block, why, sides, way * len(WHY) + why, numbers)

    def _patients(self, block: Block, kind: Ints, side: Ints, given: Ints) -> Ints:
        """The side of each row's patient: as given, else by the first demographic, the first title, most pronouns."""
        sides, rows = given.copy(), block.rows
        if not (sides[rows] < 0).any():
            return sides
        single = block.kept & ~self._plural[block.found.term]
        for at in np.flatnonzero((sides[rows] < 0) & single & np.isin(kind, (MAN, LETTER))).tolist():
            row = int(rows[at])
            if sides[row] < 0 and is_demographic(*block.around(at, 60, 40), letter=bool(kind[at] == LETTER)):
                sides[row] = side[at]
        for wanted in (TITLE, PRONOUN, MAN):
            mine = np.flatnonzero((sides[rows] < 0) & single & (kind == wanted))
            counts = 2.0 * side[mine] - 1
            if wanted == PRONOUN:
                counts *= self._votes(block, mine, kind, side)
            votes = np.bincount(rows[mine], weights=counts, minlength=len(sides))
            if wanted == TITLE:
                last = mine[::-1]
                votes[rows[last]] = 2.0 * side[last] - 1  # the first of a row is written last
            sides = np.where((sides < 0) & (votes != 0), (votes > 0).astype(np.int64), sides)
        return sides

    def _votes(self, block: Block, mine: Ints, kind: Ints, side: Ints) -> NDArray[np.float64]:
        """What each pronoun counts: "his sister" most, one shortly after a relative of its gender next to nothing."""
        found, cues, counts = block.found, block.cues, np.ones(len(mine))
        person = np.flatnonzero(block.kept & np.isin(kind, (KIN, SPOUSE, ROLE, MAN)))
        named = np.sort(np.concatenate([found.start[person], cues.start[self._cue[cues.term] != PATIENT], [-1]]))
        after = named[np.minimum(np.searchsorted(named, found.end[mine]), len(named) - 1)]
        before = named[np.searchsorted(named, found.start[mine]) - 1]
        counts[(before >= 0) & (found.start[mine] - before < REACH // 2)] = 0.5
        for one in (0, 1):
            named = found.start[person[side[person] == one]]
            last = np.searchsorted(named, found.start[mine]) - 1
            there = (last >= 0) & (side[mine] == one)
            near = found.start[mine[there]] - named[last[there]] < REACH
            counts[there] = np.where(near, 0.1, counts[there])
        counts[self._own[found.term[mine]] & (after - found.end[mine] == 1)] = 3.0
        return counts

    def _nouns(self, block: Block, places: Ints, sides: Ints, why: NDArray[np.int8]) -> None:
        """Nouns and titles, by the rules."""
        number, row = -1, Row(0, b"")
        for at in places.tolist():
            term, mine = int(block.found.term[at]), int(block.rows[at])
            if mine != number:
                number, (first, last) = mine, block.row(at)
                row = Row(int(sides[mine]), block.buffer[first : min(last, first + _HEAD)])
            word = Word(self._names[term], int(self._side[term]), *block.around(at, 90, 60), row)
            reason = why_left(int(self._kind[term]), word)
            why[at] = MINE if reason == SPOUSES_WORD and self._spouses else reason

    def _of_others(self, block: Block, places: Ints, side: Ints, named: "_Named", why: NDArray[np.int8]) -> None:
        """Pronouns of the other gender: those of the person of that gender who was named last."""
        for at in places.tolist():
            start = int(block.found.start[at])
            if both(int(side[at]), *block.around(at, 24, 24)):
                why[at] = BOTH
                continue
            person = named.last(start, max(block.row(at)[0], start - _FAR), int(side[at]), block.buffer)
            why[at] = OTHERS if person is None else self._why.get(person.kind, OTHERS)

    def _of_patients(
        self, block: Block, candidates: NDArray[np.bool_], side: Ints, named: "_Named", why: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """Pronouns of the patient's gender: the patient's, unless somebody else was named shortly before.

        Returns the log-odds of each word that it is somebody else's (n,), NaN where nobody was.
        """
        odds = np.full(len(why), np.nan)
        found, signs = block.found, signs_of(block.buffer)
        slash = (signs[found.start - 1] == ord("/")) | (signs[found.end] == ord("/"))
        stops = np.flatnonzero(signs == ord("."))
        stops = stops[(signs[stops + 1] == ord(" ")) | (signs[stops + 1] == ord("\n"))]
        title = (signs[stops - 1] | 32 == ord("r")) & np.isin(signs[stops - 2] | 32, (ord("d"), ord("m")))
        low = np.maximum(block.offsets[block.rows], found.start - REACH)
        near = named.near(found.start, low, side, stops[~title])
        doubtful = candidates & (near | slash | _beside_or(signs, found))
        sequence = np.flatnonzero(candidates)
        subject = self._subject[found.term]
        # Subjects that are not the patient's, for a patient of each side.
        strange = [found.start[subject & (why > 0) & (side == 1 - one)].tolist() for one in (0, 1)]
        starts, ends, subjects = (of[sequence].tolist() for of in (found.start, found.end, subject))
        means = [MINE] * len(starts)
        for number in np.flatnonzero(doubtful[sequence]).tolist():
            at, start, (first, last) = int(sequence[number]), starts[number], block.row(int(sequence[number]))
            before, after = block.around(at, REACH, AHEAD)
            since = start - len(before)
            if both(int(side[at]), before, after):
                why[at] = BOTH
                continue
            mentions = named.between(since, start, int(side[at]), strange[int(side[at])])
            if not any(one.kind != PATIENT or one.plural for one in mentions):
                continue
            earlier = [
                Earlier(starts[one], ends[one], subjects[one], means[one] == MINE)
                for one in range(bisect_left(starts, since, 0, number), number)
            ]
            if any(one.kind == CHILD for one in mentions) and is_infant(
                block.buffer[first : min(last, first + _HEAD)]
            ):
                mentions = [one for one in mentions if one.kind != CHILD]
            pronoun = Pronoun(
                self._names[int(found.term[at])], start - first, since, before, after, mentions, earlier
            )
            odds[at], person = antecedent_of(pronoun)
            related = person is None and any(one.kind == KIN for one in mentions)
            if related and in_family_history(block.around(at, 500, 0)[0]):
                person = _of_family(pronoun)
            if person is not None:
                why[at] = means[number] = self._why.get(person.kind, OTHERS)
        return odds


def _numbers(block: Block, why: NDArray[np.int8], margin: NDArray[np.float64], near: Ints) -> NDArray[np.float64]:
    """``NUMBERS`` of each word, by the margin of the scored ones (n,), NaN of the others, and persons near (n,)."""
    margin, unsure = np.nan_to_num(np.minimum(margin, _SUREST)), margin < _UNSURE
    size, rows = len(block.offsets) - 1, block.rows
    counts = [np.bincount(rows[one], minlength=size)[rows] for one in (block.kept, unsure, block.kept & (why > 0))]
    columns = [margin * (why == MINE), margin * (why != MINE), *map(np.log1p, (near, *counts))]
    return np.stack(columns, axis=1)


def _beside_or(signs: Bytes, found: Matches) -> NDArray[np.bool_]:
    after = [signs[np.minimum(found.end + more, len(signs) - 1)] | 32 for more in (1, 2)]
    before = [signs[found.start - more] | 32 for more in (2, 3)]
    beside: NDArray[np.bool_] = (after[0] == ord("o")) & (after[1] == ord("r"))
    beside |= (before[0] == ord("r")) & (before[1] == ord("o"))
    return beside


@dataclass(frozen=True)
class _Named:
    """All who are named in a block and may be a pronoun's referent, in order."""

    start: Ints
    end: Ints
    kind: Ints
    side: Ints
    plural: NDArray[np.bool_]

    @classmethod
    def of(
        cls, block: Block, kind: Ints, side: Ints, plural: NDArray[np.bool_], why: NDArray[np.int8], cue: Ints
    ) -> "_Named":
        noun = np.flatnonzero(block.kept & (kind != PRONOUN) & (why != NO_PERSON) & (why != BOTH))
        found, cues, reason, kinds = block.found, block.cues, why[noun], kind[noun].copy()
        patient, man = (reason == MINE) & (kinds != SPOUSE), kinds == MAN
        kinds[kinds >= MAN] = np.where(reason == CLINICIANS, STAFF, OTHER)[kinds >= MAN]
        kinds[reason == SPOUSES_WORD] = SPOUSE
        kinds[reason == RELATIVES] = np.where(man, CHILD, KIN)[reason == RELATIVES]  # "a viable male infant"
        kinds[patient] = PATIENT
        own = np.where(patient, -1, side[noun])
        return cls(
            np.concatenate([found.start[noun], cues.start]),
            np.concatenate([found.end[noun], cues.end]),
            np.concatenate([kinds, cue[cues.term]]),
            np.concatenate([own, np.full(len(cues.term), -1)]),
            np.concatenate([plural[found.term[noun]], np.zeros(len(cues.term), dtype=bool)]),
        )._sorted()

    def _sorted(self) -> "_Named":
        order = np.argsort(self.start, kind="stable")
        return _Named(*(one[order] for one in self._columns))

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.start, self.end, self.kind, self.side, self.plural

    def with_names(self, block: Block) -> "_Named":
        """Further mentions: where somebody who was introduced by a name ("her sister Amy") is called by it again."""
        signs = signs_of(block.buffer)
        others = (self.kind != PATIENT) & ~self.plural
        beyond = signs[np.minimum(self.end[:, None] + np.arange(1, 3), len(signs) - 1)]
        before = signs[np.maximum(self.start[:, None] - np.arange(1, 15), 0)]
        capital = ((beyond >= 65) & (beyond <= 90)).any(axis=1)
        candidates = np.flatnonzero(others & (capital | np.isin(before, (ord(","), ord("("))).any(axis=1)))
        more: dict[int, Mention] = {}
        for at in candidates.tolist():
            start, end, kind, side, _ = (int(of[at]) for of in self._columns)
            row = int(np.searchsorted(block.offsets, start, side="right"))
            first, last = int(block.offsets[row - 1]), int(block.offsets[row])
            text = block.buffer[max(first, start - 40) : start]
            name = byte_pattern("name_after").match(block.buffer, end, last) or byte_pattern("name_before").search(
                text
            )
            if name and name[1] not in _NO_NAMES:
                again = re.compile(rb"(?<![\w'-])" + name[1] + rb"(?= [a-z])")
                for one in again.finditer(block.buffer, end, min(last, end + _KNOWN_FOR)):
                    more.setdefault(one.start(), Mention(*one.span(), kind, side))
        if not more:
            return self
        both_ways = zip(self._columns, zip(*more.values(), strict=True), strict=True)
        return _Named(*(np.concatenate([old, new]) for old, new in both_ways))._sorted()

    def count(self, start: Ints, low: Ints, side: Ints) -> Ints:
        """How many stand between two places, (n,), whom a pronoun of that side may mean beside the patient."""
        found = np.zeros(len(start), dtype=np.int64)
        for one in (0, 1):
            mine = self.start[(self.kind != PATIENT) & ((self.side == one) | (self.side < 0))]
            there = side == one
            found[there] = np.searchsorted(mine, start[there]) - np.searchsorted(mine, low[there])
        return found

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
    def _listed(self) -> list[list[Any]]:
        return [one.tolist() for one in self._columns]

    def _mentions(self, low: int, high: int) -> list[Mention]:
        """All between two places, the last first."""
        last = bisect_left(self._listed[0], high)
        first = bisect_left(self._listed[0], low, 0, last)
        return [*map(Mention, *(one[first:last] for one in self._listed))][::-1]

    def between(self, low: int, high: int, side: int, strange: Sequence[int]) -> list[Mention]:
        """Those who may be the referent of a pronoun of that side at ``high``.

        Whoever has no gender and is taken up by a pronoun of the other one (at ``strange``) may not.
        """
        found: list[Mention] = []
        upto = following = high
        for one in self._mentions(low, high):
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
        cue: Mention | None = None
        for one in self._mentions(low, start):
            if one.kind == PATIENT or one.plural:
                continue
            if one.side == side:
                between = b"" if cue is None else buffer[one.end : cue.start]
                return cue if cue and (sentences(between) or byte_pattern("opens_clause").search(between)) else one
            if (
                one.side < 0
                and cue is None
                and not byte_pattern("described").search(buffer[max(low, one.start - 32) : one.start])
            ):
                cue = one
        return cue


_NO_NAMES = _listed("no_names")
