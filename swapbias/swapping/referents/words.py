"""Gendered words by the kind of person that they name, and what the text beside them says of that person."""

import re
from collections.abc import Mapping
from functools import lru_cache

from swapbias.swapping.rule_tables import DEMOGRAPHIC, GLUED, byte_pattern, word_list

WHOSE = ("everyone", "patient")
SPOUSES = ("swap", "keep")
REASONS = ("relative", "spouse", "clinician", "other", "no_person", "both", "unknown")
OWNERS = ("patient", *REASONS)
"""Whose gender a word shows, or why else it stays."""
(
    OF_PATIENT,
    OF_RELATIVE,
    OF_SPOUSE,
    OF_CLINICIAN,
    OF_OTHER,
    OF_NO_PERSON,
    OF_BOTH,
    OF_UNKNOWN,
) = range(len(OWNERS))

# Persons whom a pronoun may mean.
KIN, SPOUSE, STAFF, OTHER, CHILD, PATIENT = range(6)
# Further kinds of words.
MAN, TITLE, PRONOUN, LETTER, ROLE = range(10, 15)
KINDS = {
    "kin": KIN,
    "spouse": SPOUSE,
    "man": MAN,
    "title": TITLE,
    "letter": LETTER,
    "role": ROLE,
}
"""Kinds of nouns and titles by their names in tables."""
OWNER_OF_KIND = {
    KIN: OF_RELATIVE,
    SPOUSE: OF_SPOUSE,
    STAFF: OF_CLINICIAN,
    OTHER: OF_OTHER,
    CHILD: OF_RELATIVE,
}
CUES: Mapping[str, int] = {
    **dict.fromkeys(sorted(word_list("clinicians")), STAFF),
    **dict.fromkeys(sorted(word_list("others")), OTHER),
    **dict.fromkeys(("baby", "infant", "newborn", "neonate", "fetus"), CHILD),
    **dict.fromkeys(("partner", "spouse"), SPOUSE),
    **dict.fromkeys(("patient", "pt", "proband"), PATIENT),
}
"""Words that name a person without a gender, and the kind of person."""
_PRONOUNS = frozenset("he she him her his hers himself herself".split())  # noqa: SIM905
_TITLES = frozenset("mr ms mrs miss sir madam ma'am".split())  # noqa: SIM905
_WORDS_OF_KIND = {
    PRONOUN: _PRONOUNS,
    TITLE: _TITLES,
    MAN: word_list("people"),
    SPOUSE: word_list("partners"),
    ROLE: word_list("roles"),
    LETTER: DEMOGRAPHIC | GLUED,
}

# Years; mothers of patients are younger at times, and children are described in up to 36 months.
_GROWN = 37


def kind_of(text: str) -> int:
    """Return the kind of word that a term of the table is.

    Args:
        text: the term in lower case.

    Returns:
        One of ``KIN`` to ``ROLE``; a term that is in no list names a relative.
    """
    for kind, words in _WORDS_OF_KIND.items():
        if text in words:
            return kind
    return KIN


def is_plural(text: str) -> bool:
    """Tell whether a term names several persons.

    Args:
        text: the term in lower case.
    """
    return (
        text.endswith(("s", "men"))
        and not text.endswith("ss")
        and text not in _PRONOUNS | _TITLES | DEMOGRAPHIC
    )


@lru_cache(maxsize=256)
def sentence_starts(text: bytes) -> tuple[int, ...]:
    """Return the places where sentences begin, after the first: no full stop of a title or an initial ends one.

    >>> sentence_starts(b"Seen by Dr. A. Lee. He left.")
    (19, 28)

    Args:
        text: part of a note.
    """
    return tuple([stop.end() for stop in byte_pattern("sentence_end").finditer(text)])


@lru_cache(maxsize=64)
def is_infant(head: bytes) -> bool:
    """Tell whether a note is about a newborn, and not about its mother.

    Args:
        head: how the note begins.
    """
    if byte_pattern("mother_note").search(head):
        return False
    if byte_pattern("newborn_note").search(head):
        return True
    names_infant = byte_pattern("infant_note").search(head)
    return bool(names_infant and not byte_pattern("maternal").search(head))


@lru_cache(maxsize=64)
def is_adult(head: bytes) -> bool:
    """Tell whether the first age in a note is that of a grown person.

    Args:
        head: how the note begins.
    """
    age = byte_pattern("first_age").search(head)
    return bool(age and int(age.group(1)) >= _GROWN and not is_infant(head))


_WORDS_OF_SIDE = (
    "he|his|him|himself|m|male|man|boy|mr|sir",
    "she|her|hers|herself|f|female|woman|girl|mrs|ms|miss|madam|ma'am",
)
_OTHER_AFTER, _OTHER_BEFORE = (
    [re.compile(text.replace("SIDE", words).encode(), re.IGNORECASE) for words in _WORDS_OF_SIDE]
    for text in (
        r"\.?\s*(?:/|\bor\b)\s*\(?\s*(?:SIDE)\b",
        r"\b(?:SIDE)\.?\s*(?:/|\bor\b)\s*$",
    )
)


def is_of_both(side: int, before: bytes, after: bytes) -> bool:
    """Tell whether the other gender's word stands beside a word as its alternative: "his/her", "he or she".

    Args:
        side: 0 for a word of male persons, 1 of female ones.
        before: the text before the word.
        after: the text after it.
    """
    if _OTHER_AFTER[1 - side].match(after):
        return True
    tail = before[-24:].rstrip()
    if not tail[-2:].lower().endswith((b"/", b"or")):
        return False
    return bool(_OTHER_BEFORE[1 - side].search(tail))
