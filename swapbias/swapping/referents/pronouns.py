"""Decide whether a pronoun means the patient or somebody named before it, by a logistic model of its context."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from swapbias.swapping.neighbours import first_word, last_word
from swapbias.swapping.possessives import by_words
from swapbias.swapping.referents.mentions import Mention
from swapbias.swapping.referents.words import PATIENT
from swapbias.swapping.rule_tables import pattern, weights_of, word_list

_MOST_CANDIDATES = 3  # persons named last, of whom each may be the referent
_WORD = re.compile(  # in lower case, of bytes read as Latin-1
    r"[a-z]{4,}(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|(?:drs?|mrs?|ms|st|vs|jr|sr|[b-hj-z])\.(?=\s)|"
    r"[a-z]+(?:(?:'|\xe2\x80\x99|-)[a-z]+)*|\d[\d./,:-]*|[.!?:;\n]|[,()\"/]",
    re.ASCII,
)
_SENTENCE_ENDS = frozenset(".!?:\n")
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
_KIND_LETTERS = "KSTOCP"  # of kinds of persons, in their order


class Earlier(NamedTuple):
    """A pronoun that was decided."""

    start: int
    """The byte at which it begins."""
    subject: bool
    """It is "he" or "she"."""
    patient: bool
    """It means the patient."""


class Pronoun(NamedTuple):
    """A pronoun in its context."""

    word: str
    """In lower case."""
    start: int
    """The byte of its row at which it begins."""
    role: str
    """Of ``role_of``."""
    words: Sequence[str]
    """The words before it."""
    starts: Sequence[int]
    """The byte at which each of these begins."""
    following: Sequence[str]
    """The words after it."""
    mentions: Sequence[Mention]
    """Persons named before it, in order, who may be the referent."""
    last: Earlier | None
    """The pronoun of the same gender before it."""


def split_words(text: str, low: int, high: int) -> tuple[list[str], list[int]]:
    """Split a part of a text into words and signs.

    Args:
        text: bytes in lower case, read as Latin-1.
        low: the first byte.
        high: the byte after the last.

    Returns:
        The words, and where in the text each begins.
    """
    matches = [*_WORD.finditer(text, low, high)]
    return [match[0] for match in matches], [match.start() for match in matches]


@lru_cache(maxsize=4096)
def _shape(word: str) -> str:
    """Return a word as a feature: relatives, clinicians and numbers by their kind alone."""
    if not word:
        return "none"
    if word[0].isdigit():
        return "digit"
    if not word[0].isalpha():
        return "line" if word == "\n" else word
    if pattern("kin_shape").match(word):
        return "KIN"
    return "STAFF" if pattern("staff_shape").match(word) else word


def _verb(words: Sequence[str]) -> tuple[str, str]:
    """Return the first full verb after a subject, and its tense with its auxiliary: ``pastwas``, ``modal``."""
    auxiliary = next((word for word in words[:3] if word in ("is", "was", "has", "had")), "")
    modal = False
    for word in words[:6]:
        if word in _MODAL:
            modal = True
        elif word in _AUXILIARY or word.endswith("ly"):
            continue
        elif not word[0].isalpha():
            break
        else:
            tense = "modal" if modal else _tense(word, auxiliary)
            return word, f"{tense}{auxiliary}"
    return "", f"modal{auxiliary}" if modal else auxiliary


def _tense(verb: str, auxiliary: str) -> str:
    """Return the tense of a verb that no modal verb stands before."""
    if verb.endswith("ed") or verb in _PAST or (auxiliary and verb in _PARTICIPLES):
        return "past"
    if verb.endswith("ing"):
        return "ing"
    return "present" if verb.endswith("s") else "base"


def role_of(word: str, before: bytes, after: bytes) -> str:
    """Return the role of a pronoun in its sentence: ``subject``, ``object``, ``own`` or ``self``.

    >>> role_of("her", b"gave ", b" a pill"), role_of("her", b"in ", b" leg")
    ('object', 'own')

    Args:
        word: the pronoun in lower case.
        before: the text before it.
        after: the text after it.
    """
    if word in _SUBJECTS:
        return "subject"
    if word in ("himself", "herself"):
        return "self"
    if word == "him":
        return "object"
    if word != "her":
        return "own"
    odds = by_words(
        last_word(before[-60:].decode(errors="ignore")),
        first_word(after[:60].decode(errors="ignore")),
    )
    return "own" if odds > 0 else "object"


def referent_features(pronoun: Pronoun) -> list[tuple[Mention, list[str]]]:
    """Return who may be the referent but the patient, and what tells whether that is so, as names of weights.

    They are the last of those who were named, one alone before several.

    Args:
        pronoun: the pronoun in its context.
    """
    words = pronoun.words
    role = pronoun.role
    bounds = _sentence_bounds(words)
    sentence = words[bounds[-1] :]
    opens = _OPENING.issuperset(sentence)  # no more than when: "Today he", "But she"
    shared = _features_beside(pronoun, sentence)
    subject_verb = _verb(pronoun.following) if role == "subject" else None
    candidates = []
    for person in _candidates(pronoun.mentions):
        index = bisect_left(pronoun.starts, person.start)
        end = bisect_left(pronoun.starts, person.end)
        if words[index:end] == ["dr."]:
            end += 1  # and the name
        number = bisect_right(bounds, index)
        kind = _KIND_LETTERS[person.kind]
        distance = min(len(bounds) - number, 3)  # sentences that end between the two
        heads = _heads(words[bounds[number - 1] : index])
        predicate = _predicate(words[end:])
        action, _ = _verb(predicate)
        says = not _SAYING.isdisjoint((action, *predicate[:4]))
        last = _last_pronoun(pronoun.last, person)
        names = [
            *shared,
            f"where:{role},{distance}",
            f"who-where:{role},{kind},{distance}",
            f"last:{role},{distance},{last},{heads}",
            f"verb-theirs:{role},{kind},{action}",
            f"says:{role},{distance},{heads},{says}",
            f"gap:{distance},{min(len(words) - end, 40) // 4}",
            f"opens:{role},{distance},{opens},{heads}",
        ]
        if subject_verb is not None:
            verb, tense = subject_verb
            names.append(f"verb-who:{verb},{kind}")
            names.append(f"tense:{tense},{kind},{distance},{opens}")
        candidates.append((person, names))
    return candidates


def _candidates(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the persons but the patient who were named last, the last first."""
    others = [person for person in reversed(mentions) if person.kind != PATIENT]
    single = [person for person in others if not person.plural]
    return single[:_MOST_CANDIDATES] or others[:1]


def _features_beside(pronoun: Pronoun, sentence: Sequence[str]) -> list[str]:
    """Return what the words beside a pronoun tell, whoever is the referent."""
    previous = _shape(sentence[-1]) if sentence else "^"
    following = _shape(pronoun.following[0]) if pronoun.following else "none"
    names = [f"near:{pronoun.role},{previous}", f"after:{pronoun.role},{following}"]
    if pronoun.role == "subject":
        names.append(f"object-follows:{_object_follows(pronoun)}")
        names.append(f"words:{','.join(map(_shape, pronoun.following[:2]))}")
    return names


def _last_pronoun(last: Earlier | None, person: Mention) -> str:
    """Return whom the last pronoun after a person meant; an "s" marks a subject."""
    if last is None or last.start <= person.start:
        return "none"
    referent = "patient" if last.patient else "other"
    return f"{referent}s" if last.subject else referent


def _sentence_bounds(words: Sequence[str]) -> list[int]:
    """Return at which words sentences begin; a row of signs ends one."""
    bounds = [0]
    for index, word in enumerate(words):
        if word not in _SENTENCE_ENDS:
            continue
        if index == bounds[-1]:
            bounds[-1] = index + 1
        else:
            bounds.append(index + 1)
    return bounds


def _heads(lead: Sequence[str]) -> str:
    """Tell whether a person heads the sentence: ``yes``, ``near`` its begin, ``no``."""
    rest = [word for word in lead if word not in _LEADING]
    if not rest:
        return "yes"
    if len(rest) <= 2 and _PREPOSITIONS.isdisjoint(rest) and _SUBJECTS.isdisjoint(rest):
        return "near"
    return "no"


def _predicate(words: Sequence[str]) -> Sequence[str]:
    """Return the words about a person, after a name in brackets and commas."""
    start = 0
    if words[:1] == ["("] and ")" in words:
        start = words.index(")") + 1
    while start < len(words) and words[start] == ",":
        start += 1
    return words[start:]


def _object_follows(pronoun: Pronoun) -> str:
    """Tell whether the verb has an object of the same gender: then they are two persons; a "K" marks a relative."""
    wanted = "him" if pronoun.word == "he" else "her"
    clause = [*takewhile(_continues_clause, pronoun.following[:9])]
    if wanted not in clause:
        return "none"
    index = clause.index(wanted)
    before = clause[index - 1] if index else ""
    after = clause[index + 1] if index + 1 < len(clause) else ""
    if _shape(after) == "KIN":
        return "objectK"
    if pronoun.word == "she" and after[:1].isalpha() and by_words(before, after) > 0:
        return "own"
    return "object"


def _continues_clause(word: str) -> bool:
    return word not in _SENTENCE_ENDS and word != ";"


def antecedent_of(pronoun: Pronoun) -> tuple[float, Mention | None]:
    """Return the log-odds that a pronoun means another than the patient, and whom.

    Args:
        pronoun: the pronoun in its context.

    Returns:
        The log-odds, above zero for another person; and that person, or None for the patient.
    """
    weights = weights_of("antecedent_weights.csv")
    score, person = likeliest_referent(weights, referent_features(pronoun))
    return score, person if score > 0 else None


def likeliest_referent(
    weights: Mapping[str, float], features: Sequence[tuple[Mention, Sequence[str]]]
) -> tuple[float, Mention | None]:
    """Return the person with the highest score, and the score.

    Args:
        weights: by the name of a feature, with ``bias``.
        features: of each person, as of ``referent_features``.

    Returns:
        The log-odds that the person is the referent and not the patient, and the person; -1 and None for nobody.
    """
    best_score = -1.0
    best_person: Mention | None = None
    for person, names in features:
        score = sum([weights.get(name, 0.0) for name in names]) + weights["bias"]
        if best_person is None or score > best_score:
            best_score = score
            best_person = person
    return best_score, best_person
