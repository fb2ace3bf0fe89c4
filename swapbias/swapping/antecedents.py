"""Whom a pronoun means in a clinical note: the patient, or somebody else who was named before it.

A logistic model over words tells it: what stands beside the pronoun, what its subject does, who was named last and
what that person did, and whom the pronouns before it meant. Its weights (``antecedent_weights.csv``) are fitted by
``scripts/fit_weights.py`` to the development notes of ``clinical_swaps``. All text is bytes, as it stands in the
buffer, so that offsets need no translation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile
from typing import NamedTuple

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.resolvers import by_words, first_word, last_word
from swapbias.swapping.table import word_list

KIN, SPOUSE, STAFF, OTHER, CHILD, PATIENT = range(6)
REACH = 260  # bytes before a pronoun in which the person it means is looked for
AHEAD = 72  # bytes after it that say what it does
_I = re.IGNORECASE


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


# A full stop after a title or an initial ends no sentence.
_STOP = re.compile(
    # It begins with one of a few signs, which is searched for fast.
    rb"[\n!?:.](?:(?<=\n)|(?<=[!?])[!?]*(?=[\s,)\"\x27]|$)|(?<=\w:)(?!\s+[a-z])(?=\s|,|$)|(?<=\.)(?=[\s,)\"\x27]|$)"
    rb"(?<!Dr\.)(?<!DR\.)(?<!dr\.)(?<!Mr\.)(?<!MR\.)(?<!Mrs\.)"
    rb"(?<!Ms\.)(?<!MS\.)(?<!MRS\.)(?<!\bSt\.)(?<!\bvs\.)(?<!Drs\.)(?<![JS]r\.)(?<!\b[A-HJ-Z]\.))"
)
_FAMILY = re.compile(
    rb"(?:\bfamily\s+(?:medical\s+)?(?:history|hx)\b|\bFAMILY\s+HX|\bF\.?H\.?x?\b|"
    rb"\bFamHx)(?:/\w+)?[^\w\n]{0,6}[:,]", _I)  # fmt: skip
_SECTION = re.compile(rb"(?:^|[\n.,])\s*(?:[A-Z][A-Z /&-]{3,}|[A-Z][A-Za-z ]{2,28}):")


def in_family_history(before: bytes) -> bool:
    """Whether the last heading before is that of the family history.

    >>> in_family_history(b"PMH: none. FAMILY HISTORY: Mother had "), in_family_history(b"FH: CAD.\\nHEENT: he ")
    (True, False)
    """
    found = [*_FAMILY.finditer(before)][-1:]
    if not found:
        return False
    end = found[0].end()
    return not _SECTION.search(before, end) and b"\n\n" not in before[end:]


@lru_cache(maxsize=256)
def sentences(text: bytes) -> tuple[int, ...]:
    """Where sentences begin, after the first: no full stop of a title or of an initial ends one.

    >>> sentences(b"Seen by Dr. A. Lee. He left.")
    (19, 28)
    """
    return tuple([stop.end() for stop in _STOP.finditer(text)])


@dataclass(slots=True)
class Pronoun:
    """A pronoun in its context.

    Attributes:
        word: in lower case.
        row: where its text begins.
        start: where it stands.
        first: where ``before`` begins.
        before, after: the text around it.
        mentions: persons named in ``before``, in order, who may be meant.
        earlier: pronouns of the same gender in ``before``.
    """

    word: str
    row: int
    start: int
    first: int
    before: bytes
    after: bytes
    mentions: Sequence[Mention]
    earlier: Sequence[Earlier]


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


# --- what a pronoun is decided by ----------------------------------------------------------------------------

_WORD = re.compile(
    rb"(?:drs?|mrs?|ms|st|vs|jr|sr|[b-hj-z])\.(?=\s)|[a-z]+(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|"
    rb"\d[\d./,:-]*|[.!?:;\n]|[,()\"/]"
)
_ENDS = frozenset(b".!?:\n"[at : at + 1] for at in range(5))


def _set(words: str) -> frozenset[bytes]:
    return frozenset(words.encode().split())


def _listed(name: str) -> frozenset[bytes]:
    return frozenset(word.encode() for word in word_list(name))


_BE, _HAVE, _DO = _set("is was were be been being"), _set("has have had"), _set("did does do not")
_MODAL = _set("will would can cannot could shall may might must should")
_SKIPPED = _listed("between_subject_and_verb")
_PARTICIPLES = _set("given taken seen born put sent told found brought kept made held")
_PAST = _listed("past_verbs")
_SAYING = _listed("saying_verbs")
_OPENING = _listed("opening_words")
_PREPOSITIONS = _listed("prepositions")
_LEADING = _listed("leading_words")
_SPEAKER = _set("i we")
_EVENTS = 3  # before the pronoun
_JOINING = _set("that because when while who if")
_PRESENT = _set("present bedside notified paged aware called updated consulted")
_HIS, _HER = _set("he him his himself"), _set("she her hers herself")
_KIN = re.compile(
    rb"(?:mother|father|mom|dad|mum|brother|sister|son|daughter|wife|husband|uncle|aunt|nephew|niece|cousin|grand\w+|"
    rb"step\w+|parents?|children|siblings?|family|girlfriend|boyfriend|fianc\w*|pcp|roommate|neighbo\w+|friends?|"
    rb"teacher|coach|boss|partner|kids|spouse)s?$"
)
_STAFF = re.compile(
    rb"(?:doctor|physician|surgeon|nurse|therapist|counselor|\w+ologist|\w+iatrist|\w*ician|resident|dr\.?|provider|"
    rb"intern|attending|midwife|aide|pharmacist|dentist|team)s?$"
)
# Verbs by what they say of their subject; which of them an unknown verb is in tells as much as the verb itself.
_CLASSES = tuple(
    (letter, _listed(name))
    for letter, name in zip(
        "PCWKTVAOS",
        ("patient_verbs", "clinician_verbs", "witness_verbs", "caring_verbs", "telling_verbs", "visiting_verbs",
         "anyone_verbs", "witness_verbs_of_others", "clinician_verbs_alone"),
        strict=True,
    )
)  # fmt: skip
_KINDS = "KSTOCP"


@lru_cache(maxsize=4096)
def _classes(verb: bytes) -> str:
    return "".join(letter for letter, verbs in _CLASSES if verb in verbs) or "-"


@lru_cache(maxsize=4096)
def _shape(word: bytes) -> str:
    """A word as a feature: relatives, clinicians and numbers by their kind alone."""
    if not word:
        return "none"
    if word[:1].isdigit():
        return "digit"
    if not word[:1].isalpha():
        return "line" if word == b"\n" else word.decode()
    if _KIN.match(word):
        return "KIN"
    return "STAFF" if _STAFF.match(word) else word.decode(errors="ignore")


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
        elif word in _BE or word in _HAVE or word in _DO or word in _SKIPPED or word.endswith(b"ly"):
            continue
        elif not word[:1].isalpha():
            break
        else:
            if modal:
                tense = "modal"
            elif word.endswith(b"ed") or word in _PAST or (first and word in _PARTICIPLES):
                tense = "past"
            else:
                tense = "ing" if word.endswith(b"ing") else "present" if word.endswith(b"s") else "base"
            return _Verb(word, tense + first)
    return _Verb(b"", ("modal" if modal else "") + first)


_SUBJECTS = _set("he she")


class _Scene:
    """The words around a pronoun, by number, and where sentences begin."""

    def __init__(self, one: Pronoun) -> None:
        found = [*_WORD.finditer(one.before.lower())]
        self.words = [match[0] for match in found]
        self.starts = [match.start() for match in found]
        self.after: list[bytes] = _WORD.findall(one.after.lower())
        self.bounds = [0]
        for at in [at for at, word in enumerate(self.words) if word in _ENDS]:
            if at == self.bounds[-1]:  # nothing but signs since the last
                self.bounds[-1] = at + 1
            else:
                self.bounds.append(at + 1)
        self.here = self.bounds[-1]
        self.lead = self.words[self.here :]
        self.clause = list(takewhile(lambda word: word not in _ENDS and word != b";", self.after))

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


def candidate(one: Pronoun) -> Mention | None:
    """Who may be meant but the patient: the last of those who were named, one alone before several."""
    others = [person for person in one.mentions if person.kind != PATIENT]
    return next((person for person in reversed(others) if not person.plural), others[-1] if others else None)


def features(one: Pronoun, person: Mention) -> list[str]:
    """What tells whether a pronoun means a person or the patient, as names of weights."""
    scene, role, kind = _Scene(one), role_of(one.word, one.before, one.after), _KINDS[person.kind]
    at, end = scene.at(person.start - one.first), scene.at(person.end - one.first)
    away, begin = scene.away(at), scene.sentence(at)
    heads = _heads(scene.words[begin:at])
    opens = scene.opens(scene.here, len(scene.words))
    theirs = _predicate(scene.words[end:])
    action = _verb(theirs)
    last, subject, before = _decided(one, scene, person)
    patient = _patient_named(one, scene, person)
    previous, second = (scene.lead[-1] if scene.lead else b"^"), scene.after[1:2]
    after = _shape(scene.after[0]) if scene.after else "none"
    where, who = f"{role},{away}", f"{role},{kind}"
    found = [
        f"where:{where}", f"who:{who}", f"who-where:{who},{away}", f"last:{where},{last},{heads}",
        f"subject:{role},{subject}", f"before:{where},{before}", f"patient:{role},{patient}",
        f"patient-opens:{where},{patient},{opens},{heads}", f"near:{role},{_shape(previous)}",
        f"near-where:{where},{heads},{_shape(previous)}", f"lead:{role},{_lead(scene.words[begin:at])}",
        f"verb-theirs:{who},{action.word.decode(errors='ignore')}", f"says:{where},{heads},{_says(theirs, action)}",
        f"present:{role},{any(word in _PRESENT for word in theirs[:5])}",
        f"gap:{away},{min(len(scene.words) - end, 40) // 4}",
        f"others:{role},{min(sum(p.kind != PATIENT for p in one.mentions), 4)}",
        f"named:{role},{scene.words[at].decode(errors='ignore') if at < len(scene.words) else ''}",
        f"after:{role},{after}", f"after-who:{who},{after}",
    ]  # fmt: skip
    happened = _events(one, scene)
    happened.append(("^" if opens else "") + role)
    found.append("events:" + ",".join(happened[-2:]))
    if role == "subject":
        found += _of_subject(one, scene, f"{kind},{away}", action, opens=opens, kind=kind)
        does = _classes(_verb(scene.after).word)
    else:
        does = after if role in ("own", "self") else _shape(previous)
        if role == "object":
            found.append(f"object:{_classes(previous)[0]},{kind},{away},{heads}")
        else:
            found.append(f"own:{after == 'KIN'},{subject},{away},{heads}")
    follows = next(_following(one, scene), "")
    found += [f"follows:{who},{follows}", f"events-verb:{does},{','.join(happened)}"]
    return found + [f"second:{who},{_shape(second[0]) if second else 'none'}"] * (role == "subject")


def _of_subject(one: Pronoun, scene: _Scene, place: str, action: _Verb, *, opens: bool, kind: str) -> list[str]:
    does = _verb(scene.after)
    verb = does.word.decode(errors="ignore")
    at = scene.clause.index(does.word) + 1 if does.word in scene.clause else len(scene.clause)
    thing = _shape(scene.clause[at]) if at < len(scene.clause) else "none"
    words = [_shape(word) for word in (*scene.after[:2], b"", b"")]
    return [
        f"verb:{verb}", f"verb-who:{verb},{kind}", f"verb-thing:{verb},{thing}", f"words:{words[0]},{words[1]}",
        f"class:{_classes(does.word)},{place}", f"tense:{does.tense},{place},{opens}",
        f"tenses:{does.tense},{action.tense},{place}", f"object-follows:{_object_follows(one.word, scene.clause)}",
        *(f"clause:{word.decode(errors='ignore')}" for word in dict.fromkeys(scene.clause[:8])),
    ]  # fmt: skip


def _heads(lead: Sequence[bytes]) -> str:
    """Whether the person heads its sentence: ``yes``, ``near`` its begin, ``no``."""
    rest = [word for word in lead if word not in _LEADING]
    if not rest:
        return "yes"
    return "near" if len(rest) <= 2 and not any(word in _PREPOSITIONS or word in _SUBJECTS for word in rest) else "no"


def _lead(lead: Sequence[bytes]) -> str:
    """Whether a preposition goes before the person."""
    word = next((word for word in reversed(lead) if word not in _LEADING or word == b"and"), b"^")
    return "preposition" if word in _PREPOSITIONS else "none"


def _predicate(words: Sequence[bytes]) -> Sequence[bytes]:
    """What is said of a person, after a name in brackets and commas."""
    at = words.index(b")") + 1 if words[:1] == [b"("] and b")" in words else 0
    while at < len(words) and words[at] == b",":
        at += 1
    return words[at:]


def _says(words: Sequence[bytes], verb: _Verb) -> bool:
    return verb.word in _SAYING or any(word in _SAYING for word in words[:4])


def _label(was: Earlier | None) -> str:
    return "none" if was is None else ("patient" if was.patient else "other") + ("s" if was.subject else "")


def _decided(one: Pronoun, scene: _Scene, person: Mention) -> tuple[str, str, str]:
    """Whom pronouns meant before: the last since the person, the last subject of the sentence, of the one before."""
    here = scene.starts[scene.here] if scene.lead else len(one.before)
    since = [was for was in one.earlier if was.start > person.start]
    inside = [was for was in one.earlier if was.subject and was.start - one.first >= here]
    before = "none"
    if len(scene.bounds) > 1:
        first = scene.bounds[-2]
        for was in one.earlier:
            if scene.starts[first] <= was.start - one.first < here and was.subject:
                before = _label(was) + ("1" if scene.opens(first, scene.at(was.start - one.first)) else "2")
                break
    return _label(since[-1] if since else None), _label(inside[-1] if inside else None), before


def _patient_named(one: Pronoun, scene: _Scene, person: Mention) -> str:
    """Whether the patient was named since the person, where, and as the head of its sentence."""
    named = [other for other in one.mentions if other.kind == PATIENT and other.start > person.start]
    if not named:
        return "none"
    at = scene.at(named[-1].start - one.first)
    heads = all(word in _LEADING for word in scene.words[scene.sentence(at) : at])
    return f"{'head' if heads else 'named'}{min(scene.away(at), 2)}"


def _events(one: Pronoun, scene: _Scene) -> list[str]:
    """The last three before the pronoun: persons named, pronouns and whom they meant, ends of sentences."""
    other = _HER if one.word.encode() in _HIS else _HIS
    decided = {was.start - one.first: was for was in one.earlier}
    named = {person.start - one.first: person for person in one.mentions}
    found: list[str] = []
    person_next = False
    for at in range(len(scene.words) - 1, -1, -1):
        word, start = scene.words[at], scene.starts[at]
        was, person = decided.get(start), named.get(start)
        if was:
            own = word in (b"his", b"himself", b"her", b"he") and not was.subject
            if own and person_next:
                continue  # "his mother": one person
            event = ("p" if was.patient else "o") + ("s" if was.subject else "h" if own else "x")
        elif person:
            event = _event(person, scene.words[scene.sentence(at) : at], scene.words[at + 1 : at + 7])
        elif word in _ENDS:
            event = "." if found[-1:] != ["."] else ""
        elif word in other:
            event = "y" if word in _SUBJECTS else "yx"
        else:
            event = "I" if word in _SPEAKER else word.decode()[0] if word in _JOINING else ""
        if event:
            found.append(event)
            person_next = person is not None
            if len(found) == _EVENTS:
                break
    return found[::-1]


def _event(person: Mention, lead: Sequence[bytes], after: Sequence[bytes]) -> str:
    rest = [word for word in lead if word not in _LEADING]
    of = any(word in _PREPOSITIONS for word in lead[-2:])
    place = "H" if not rest else "p" if of else "h" if len(rest) <= 2 else "-"
    return _KINDS[person.kind] + "+" * person.plural + place + "S" * (_verb(after).word in _SAYING)


def _following(one: Pronoun, scene: _Scene) -> Iterator[str]:
    """Who comes next in the clause."""
    same, other = (_HIS, _HER) if one.word.encode() in _HIS else (_HER, _HIS)
    for at, word in enumerate(scene.clause[:14]):
        shape = _shape(word)
        if word in same:
            following = scene.clause[at + 1 : at + 2]
            yield ("K" if following and _shape(following[0]) == "KIN" else "") + word.decode()
        elif word in other:
            yield "other"
        elif shape in ("KIN", "STAFF"):
            yield shape
        elif word in (b"patient", b"pt", b"i", b"we", b"me", b"us"):
            yield "patient" if word[:1] == b"p" else "I"


def _object_follows(word: str, clause: Sequence[bytes]) -> str:
    """Whether the verb has an object of the same gender: then they are two persons."""
    wanted = b"him" if word == "he" else b"her"
    for at, one in enumerate(clause[:9]):
        if one == wanted:
            after = clause[at + 1] if at + 1 < len(clause) else b""
            kin = _shape(after) == "KIN"
            before = clause[at - 1].decode(errors="ignore") if at else ""
            own = word == "she" and after[:1].isalpha() and by_words(before, after.decode(errors="ignore")) > 0
            return ("own" if own and not kin else "object") + "K" * kin
    return "none"


@cache
def weights() -> dict[str, float]:
    path = corpus_dir("gender_lexicon") / "antecedent_weights.csv"
    return {row["feature"]: float(row["weight"]) for row in read_table(path, ("feature", "weight"))}


def antecedent_of(one: Pronoun) -> Mention | None:
    """The person whom it means, or None: the patient."""
    person = candidate(one)
    if person is None:
        return None
    known = weights()
    total = sum(known.get(name, 0.0) for name in features(one, person))
    return person if total + known["bias"] > 0 else None
