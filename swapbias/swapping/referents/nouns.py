"""Decide whose gender nouns and titles show, by rules over what stands beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from swapbias.swapping.referents.words import (
    KINDS,
    OF_CLINICIAN,
    OF_PATIENT,
    OF_UNKNOWN,
    OWNERS,
    TITLE,
    is_adult,
    is_infant,
    is_of_both,
    is_plural,
    sentence_starts,
)
from swapbias.swapping.rule_tables import byte_pattern, rules

_KIND_NAME = {kind: name for name, kind in KINDS.items()}


@dataclass(slots=True)
class Patient:
    """The patient of one row, as far as the row was read."""

    side: int
    """0 for male, 1 for female."""
    head: bytes
    """How the row begins."""
    surname: bytes = b""
    """In lower case; empty until a title named it."""
    strangers: set[bytes] = field(default_factory=set)
    """Surnames of clinicians, in lower case."""


@dataclass(slots=True)
class Noun:
    """A noun or a title where it stands."""

    text: str
    """The term in lower case."""
    side: int
    """0 for a word of male persons, 1 of female ones."""
    before: bytes
    """The text before it."""
    after: bytes
    """The text after it."""
    patient: Patient
    """The patient of its row."""

    @property
    def surname(self) -> bytes:
        """The last name right behind a title in lower case, empty where there is none."""
        names = byte_pattern("surname").match(self.after)
        return names.group(1).split()[-1].lower() if names else b""


def _follows_somebody(noun: Noun) -> bool:
    """Tell whether somebody is named before a noun in its sentence."""
    opening = max((0, *sentence_starts(noun.before)))
    return bool(byte_pattern("somebody_named").search(noun.before, opening))


def _is_namesake(noun: Noun) -> bool:
    """Tell whether a title's surname is the patient's."""
    return bool(noun.surname) and noun.surname == noun.patient.surname


def _is_stranger(noun: Noun) -> bool:
    """Tell whether a title's surname is a clinician's and not the patient's."""
    patient = noun.patient
    return noun.surname in patient.strangers and noun.surname != patient.surname


FACTS: Mapping[str, Callable[[Noun], bool]] = {
    "newborn": lambda noun: is_infant(noun.patient.head),
    "grown": lambda noun: is_adult(noun.patient.head),
    "paired": lambda noun: is_of_both(noun.side, noun.before, noun.after),
    "led": _follows_somebody,
    # No other name of the patient was read.
    "first": lambda noun: not noun.patient.surname or not noun.surname,
    "correspondent": lambda noun: bool(byte_pattern("letter_to_patient").match(noun.patient.head)),
    "namesake": _is_namesake,
    "stranger": _is_stranger,
}
"""Facts about a noun by their names in rules."""


# Facts that take less time than to look for patterns: they are asked first.
_QUICK: Mapping[str, Callable[[bytes], bool]] = {
    "labelled": lambda before: before.rstrip()[-1:] in (b":", b"(", b",", b"-"),
    "said": lambda before: before.rstrip().endswith((b"is", b"was", b" a", b" an")),
    "quoted": lambda before: b'"' in before,
    "headed": lambda before: b"ex" in before[-16:].lower() or b"ender" in before[-16:].lower(),
    "slash": lambda before: b"/" in before[-4:],
    "marked": lambda before: before.rstrip(b" \t,;|")[-1:] in (b"]", b")", b"_", b"x", b"X"),
}


@cache
def _rules_for(
    kind: int, text: str, is_of_patients_gender: bool, patient_is_woman: bool
) -> Sequence[tuple[Any, ...]]:
    """Return the rules that remain for a word: as ``rules``, with the facts that take more than the word."""
    facts_of_word = {
        "own": is_of_patients_gender,
        "woman": patient_is_woman,
        "plural": is_plural(text),
        "young": text in ("boy", "girl"),
        "wedding": text in ("landlord", "landlady", "groom", "bride", "bridegroom"),
    }
    remaining = []
    for says, when, *patterns in rules("person_rules.csv", _KIND_NAME[kind], of_bytes=True):
        if all(facts_of_word.get(fact, holds) == holds for fact, holds in when):
            quick = [_QUICK[fact] for fact, _ in when if fact in _QUICK]
            facts = [(FACTS[fact], holds) for fact, holds in when if fact in FACTS]
            remaining.append((OWNERS.index(says), quick, facts, *patterns))
    return remaining


def owner_of_noun(kind: int, noun: Noun) -> int:
    """Return whose gender a noun or title shows, by the first rule that fits; a title's surname is noted.

    Args:
        kind: its kind of word, of ``KINDS``.
        noun: the word where it stands; its patient learns the surname.

    Returns:
        An index into ``OWNERS``.
    """
    owner = _first_owner(kind, noun)
    if kind == TITLE and owner == OF_CLINICIAN:
        noun.patient.strangers.add(noun.surname)
    elif kind == TITLE and owner == OF_PATIENT and not noun.patient.surname:
        noun.patient.surname = noun.surname
    return owner


def _first_owner(kind: int, noun: Noun) -> int:
    """Return what the first rule that fits says; facts are looked at last, as they take longest."""
    patient = noun.patient
    remaining = _rules_for(kind, noun.text, noun.side == patient.side, patient.side == 1)
    for owner, quick, facts, match_after, search_before, search_unless in remaining:
        if quick and not all(holds(noun.before) for holds in quick):
            continue
        if match_after and not match_after(noun.after):
            continue
        if search_before and not search_before(noun.before):
            continue
        if search_unless and search_unless(noun.before):
            continue
        if all(fact(noun) == holds for fact, holds in facts):
            return int(owner)
    return OF_UNKNOWN


def is_demographic(before: bytes, after: bytes, *, letter: bool) -> bool:
    """Tell whether a word for a man or a woman tells the gender of a note's patient: "45-year-old man".

    Args:
        before: the text before the word.
        after: the text after it.
        letter: the word is a letter ("45 F"), which needs no age before it.
    """
    if not letter and not byte_pattern("demographic_before").search(before):
        return False
    if byte_pattern("not_demographic_before").search(before):
        return False
    return not byte_pattern("not_demographic_after").match(after)
