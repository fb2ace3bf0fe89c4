"""Tell whose a pronoun is where its form, a quotation or a birth says it, before its context is weighed."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from swapbias.swapping.referents.mentions import Mention
from swapbias.swapping.referents.words import (
    CHILD,
    KIN,
    OF_OTHER,
    OF_PATIENT,
    OF_RELATIVE,
    PATIENT,
    is_infant,
)
from swapbias.swapping.rule_tables import byte_pattern

# Parts of the words with which relatives report: a look at these is faster than at a pattern.
_REPORTING = (b"report", b"said", b"says", b"state", b"note", b"add", b"per ", b"Per ")


_BIRTHS = (b"irth", b"elive", b"born")  # of the words for births


class Place(NamedTuple):
    """Place of a pronoun of the patient's gender."""

    side: int
    """0 or 1 of the pronoun."""
    before: bytes
    """The text before it."""
    after: bytes
    """The text after it."""
    head: bytes = b""
    """How its note begins."""
    persons: Sequence[Mention] = ()
    """Persons who are named before it and whom it may mean, in order."""
    may_be_quoted: bool = False
    """A quotation mark stands before it."""
    follows_patient: bool = True
    """The pronoun of its gender before it means the patient."""


def settled_owner(context: Place) -> int | None:
    """Return whose a pronoun is where no weighing is needed.

    >>> settled_owner(Place(1, b"Seen by Dr. Kim (", b"/her)")) == OF_OTHER
    True
    >>> settled_owner(Place(1, b'Pt yelled "get ', b' away!"', may_be_quoted=True)) == OF_OTHER
    True

    Args:
        context: where it stands.

    Returns:
        An index into ``OWNERS``; None where its context must be weighed.
    """
    if _is_declared(context):
        return OF_OTHER
    if _is_reported(context.before, context.after):
        return OF_PATIENT
    owner = _quoted_owner(context) if context.may_be_quoted else None
    if owner is None and any(person.kind in (KIN, CHILD) for person in context.persons):
        owner = _newborn_owner(context)
    return owner


def _is_declared(context: Place) -> bool:
    """Tell whether a pronoun is one of those that another person goes by: "Dr. Kim (she/her)"."""
    if (
        context.after[:2].lstrip()[:1] not in (b"/", b")")
        and context.before[-2:].rstrip()[-1:] != b"/"
    ):
        return False
    is_in_set = byte_pattern("declared_after").match(
        context.after
    ) or context.before.rstrip().endswith(b"/")
    return bool(is_in_set and byte_pattern("declared_other").search(context.before))


def _is_reported(before: bytes, after: bytes) -> bool:
    """Tell whether a relative says it of the patient: "Mom reports she's had a fever since she came home"."""
    sentence = before[max(before.rfind(b"."), before.rfind(b";"), before.rfind(b"\n")) + 1 :]
    if not any(verb in sentence for verb in _REPORTING):
        return False
    if byte_pattern("reported_after").match(after) and byte_pattern("reported_before").search(
        sentence
    ):
        return True
    return byte_pattern("reported_chain").search(sentence) is not None


def _quoted_owner(context: Place) -> int | None:
    """Return whose a pronoun is that stands within quotation marks: the patient speaks of others.

    None outside of quotation marks, and where nothing says who speaks.
    """
    quotation = byte_pattern("quotation").search(context.before)
    if not quotation:
        return None
    introduction = context.before[: quotation.start() + 1].rstrip(b'"\xe2')
    if byte_pattern("other_speaks").search(introduction):
        return OF_PATIENT
    if byte_pattern("patient_speaks").search(introduction):
        return OF_OTHER
    speaker = byte_pattern("pronoun_speaks").search(introduction)
    if speaker:
        is_patient = context.follows_patient and len(speaker[1]) == 2 + context.side  # "he", "she"
        return OF_OTHER if is_patient else OF_PATIENT
    return OF_OTHER if byte_pattern("patient_spoke").match(context.after) else None


@lru_cache(maxsize=64)
def _is_mothers(head: bytes) -> bool:
    """Tell whether a note is about a woman who gave birth."""
    return byte_pattern("mother_note").search(head) is not None


def _newborn_owner(context: Place) -> int | None:
    """Return whose a pronoun is behind the mention of a newborn, by what is said there of newborns or mothers."""
    candidates = [person for person in context.persons if person.kind in (CHILD, KIN, PATIENT)]
    last = candidates[-1].kind if candidates else PATIENT
    of_newborn = byte_pattern("newborn_predicate").match(context.after) is not None
    may_be_child = last == CHILD or any(part in context.before for part in _BIRTHS)
    if not of_newborn and not may_be_child:
        return None
    infants = is_infant(context.head)
    if not infants and not _is_mothers(context.head):
        return None
    if infants:
        is_mothers = last == KIN and context.after.lstrip().startswith(b"cried")
        return OF_PATIENT if of_newborn and not is_mothers else None
    is_child = last == CHILD or byte_pattern("birth_of_child").search(context.before) is not None
    if last == PATIENT or not is_child:
        return None
    if byte_pattern("maternal_predicate").match(context.after):
        return OF_PATIENT
    return OF_RELATIVE if of_newborn else None
