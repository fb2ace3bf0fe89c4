"""Labels of token classifiers and taggers: which of them mean a person's name."""

import re
from collections.abc import Iterable, Sequence

from swapbias.errors import UsageError, did_you_mean

PERSON = (
    "per", "pers", "person", "persons", "people", "name", "names", "fullname", "personname", "privateperson",
    "firstname", "givenname", "forename", "middlename", "lastname", "surname", "familyname",
    "patient", "patientname", "namepatient", "doctor", "doctorname", "namedoctor", "hcp", "clinician", "physician",
    "staff", "staffname",
)  # fmt: skip
"""Entities that are names of people, in small letters without blanks and marks."""
_POSITION = re.compile(r"^[BILUESbilues][-_](?=.)")
_MARKS = re.compile(r"[\W_]+")
_LISTED = 12  # labels that a sentence lists
_STEP = "Pass -M person with each label that means a person, commas between them."


def entity_of(label: str) -> str:
    """Return the entity of a label without the letter of its position.

    >>> entity_of("B-PER"), entity_of("I-FIRST_NAME"), entity_of("PATIENT")
    ('PER', 'FIRST_NAME', 'PATIENT')

    Args:
        label: a label of a token classifier.
    """
    return _POSITION.sub("", label.strip())


def is_person(label: str, names: Iterable[str] = ()) -> bool:
    """Tell whether a label means a person.

    Args:
        label: a label, with or without its position.
        names: the labels or entities that the user named; none: those of ``PERSON``.
    """
    if names:
        wanted = {name.casefold() for name in names}
        return label.strip().casefold() in wanted or entity_of(label).casefold() in wanted
    return _MARKS.sub("", entity_of(label)).casefold() in PERSON


def split_labels(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return labels that a user named, one by one.

    Args:
        names: several labels, or a text with commas between them; None: none.
    """
    if names is None:
        return ()
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


def person_labels(labels: Sequence[str], names: Sequence[str] = ()) -> tuple[str, ...]:
    """Find the labels of a model that mean a person.

    >>> person_labels(["O", "B-PER", "I-PER", "B-LOC"])
    ('B-PER', 'I-PER')

    Args:
        labels: all labels of the model.
        names: the labels or entities that the user named; none: those of ``PERSON``.

    Raises:
        UsageError: None of them does, or the model has no label of a name.
    """
    begin = f"The model's labels are {_list_labels(labels)}"
    for name in names:
        if not any(is_person(label, [name]) for label in labels):
            entities = [*dict.fromkeys([*labels, *map(entity_of, labels)])]
            near = did_you_mean(name, entities)
            raise UsageError(f"{begin}: none is {name!r}.{near} Correct -M person.")
    persons = tuple(label for label in labels if is_person(label, names))
    if not persons:
        raise UsageError(f"{begin}: none is known to mean a person. {_STEP}")
    return persons


def _list_labels(labels: Sequence[str]) -> str:
    """Write labels for a sentence, the first of them where there are many."""
    if len(labels) <= _LISTED:
        return str(list(labels))
    return f"{list(labels[:_LISTED])} and {len(labels) - _LISTED} more"
