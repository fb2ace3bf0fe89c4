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
from swapbias.swapping.referents.words import CHILD, KIN, OTHER, PATIENT, SPOUSE, STAFF
from swapbias.swapping.rule_tables import pattern, weights_of, word_list

_MOST_CANDIDATES = 3  # only the persons named last are candidates
# A word, abbreviation, number or sign of a text in lower case whose UTF-8 bytes are read as Latin-1.
_WORD = re.compile(
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
# Names of features use these letters; trained weights have them.
_KIND_LETTERS = {KIN: "K", SPOUSE: "S", STAFF: "T", OTHER: "O", CHILD: "C", PATIENT: "P"}


class DecidedPronoun(NamedTuple):
    """A pronoun whose referent is decided."""

    start: int
    """Byte of its row at which it begins."""
    is_subject: bool
    """It is "he" or "she"."""
    is_patient: bool
    """It refers to the patient."""


class Pronoun(NamedTuple):
    """A pronoun in its context."""

    word: str
    """The pronoun in lower case."""
    start: int
    """Byte of its row at which it begins."""
    role: str
    """Its role in the sentence, as ``role_of`` returns it: ``subject``, ``object``, ``own`` or ``self``."""
    words: Sequence[str]
    """The words before it."""
    starts: Sequence[int]
    """Byte at which each word before it begins."""
    following: Sequence[str]
    """The words after it."""
    mentions: Sequence[Mention]
    """Persons named before it, in order, to whom it may refer."""
    last: DecidedPronoun | None
    """The pronoun of the same gender before it; None: there is none."""


def split_words(text: str, low: int, high: int) -> tuple[list[str], list[int]]:
    """Split a part of a text into words and signs.

    Args:
        text: a text in lower case whose bytes are read as Latin-1.
        low: index of the first byte.
        high: index after the last byte.

    Returns:
        The words, and the index in the text at which each begins.
    """
    matches = [*_WORD.finditer(text, low, high)]
    return [match[0] for match in matches], [match.start() for match in matches]


@lru_cache(maxsize=4096)
def _shape(word: str) -> str:
    """Return a word as it appears in features: of relatives, clinicians and numbers only the kind."""
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
    """Return the first full verb after a subject, and a feature of its tense.

    The feature is tense and auxiliary in one word, as ``pastwas`` for "was seen". Trained weights use these names.
    """
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
    """Return the tense of a verb without a modal verb before it."""
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
    """Return the candidates for the referent other than the patient, each with the names of its features.

    Candidates are the last three persons named; a mention of several people is one only if no single person is named.
    Trained weights use the names of features, so these must not change. A name and its values, with the distance
    between person and pronoun in sentences:

    - ``where``: role of the pronoun, distance; ``who-where``: role, kind of person, distance.
    - ``last``: role, distance, referent of the last pronoun, whether the person heads the sentence.
    - ``verb-theirs``: role, kind of person, verb after the person.
    - ``says``: role, distance, whether the person heads the sentence, whether the person says something.
    - ``gap``: distance in sentences, and in words divided by four.
    - ``opens``: role, distance, whether only opening words precede the pronoun, as ``last``.
    - ``verb-who``: verb after the pronoun, kind of person.
    - ``tense``: tense of that verb, kind of person, distance, whether only opening words precede the pronoun.

    Args:
        pronoun: the pronoun in its context.
    """
    words = pronoun.words
    role = pronoun.role
    bounds = _sentence_bounds(words)
    sentence = words[bounds[-1] :]
    opens = _OPENING.issuperset(sentence)  # as in "Today he", "But she"
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
    """Return the persons other than the patient who were named last, the last one first."""
    others = [person for person in reversed(mentions) if person.kind != PATIENT]
    single = [person for person in others if not person.plural]
    return single[:_MOST_CANDIDATES] or others[:1]


def _features_beside(pronoun: Pronoun, sentence: Sequence[str]) -> list[str]:
    """Return the features of the words beside a pronoun, which are the same for every candidate."""
    previous = _shape(sentence[-1]) if sentence else "^"
    following = _shape(pronoun.following[0]) if pronoun.following else "none"
    names = [f"near:{pronoun.role},{previous}", f"after:{pronoun.role},{following}"]
    if pronoun.role == "subject":
        names.append(f"object-follows:{_object_follows(pronoun)}")
        names.append(f"words:{','.join(map(_shape, pronoun.following[:2]))}")
    return names


def _last_pronoun(last: DecidedPronoun | None, person: Mention) -> str:
    """Return to whom the last pronoun after a person refers; an "s" at the end marks a subject."""
    if last is None or last.start <= person.start:
        return "none"
    referent = "patient" if last.is_patient else "other"
    return f"{referent}s" if last.is_subject else referent


def _sentence_bounds(words: Sequence[str]) -> list[int]:
    """Return the indices of words at which sentences begin; several signs in a row end only one sentence."""
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
    """Return where a person stands in the sentence: ``yes`` at its head, ``near`` the head, or ``no``."""
    rest = [word for word in lead if word not in _LEADING]
    if not rest:
        return "yes"
    if len(rest) <= 2 and _PREPOSITIONS.isdisjoint(rest) and _SUBJECTS.isdisjoint(rest):
        return "near"
    return "no"


def _predicate(words: Sequence[str]) -> Sequence[str]:
    """Return the words after a person, without brackets and commas that follow the name."""
    start = 0
    if words[:1] == ["("] and ")" in words:
        start = words.index(")") + 1
    while start < len(words) and words[start] == ",":
        start += 1
    return words[start:]


def _object_follows(pronoun: Pronoun) -> str:
    """Return whether an object of the same gender follows: then subject and object are two persons.

    ``object``; ``objectK`` before a word for a relative; ``own`` for a possessive "her"; or ``none``.
    """
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
    """Return the log-odds that a pronoun refers to somebody other than the patient, and to whom.

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
        weights: weight by name of a feature, and ``bias``.
        features: persons with the names of their features, as ``referent_features`` returns them.

    Returns:
        The log-odds that the person is the referent and not the patient, and the person; -1 and None for no persons.
    """
    best_score = -1.0
    best_person: Mention | None = None
    for person, names in features:
        score = sum([weights.get(name, 0.0) for name in names]) + weights["bias"]
        if best_person is None or score > best_score:
            best_score = score
            best_person = person
    return best_score, best_person
