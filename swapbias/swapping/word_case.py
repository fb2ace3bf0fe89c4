"""Write a new word in the case of the one that it replaces."""

from swapbias.swapping.rule_tables import GLUED, unit_of
from swapbias.swapping.table import Term, cased

LOWER = 0
CAPITAL = 1
UPPER = 2
# Letters that each stand for a word: "MtF" is "FtM".
_INITIALS = frozenset("ftm mtf ftms mtfs f-to-m m-to-f".split())  # noqa: SIM905


def in_case(word: str, case: int) -> str:
    """Write a word of the table in the case of the one it replaces.

    >>> in_case("the patient", CAPITAL), in_case("she", UPPER), in_case("Ms", LOWER)
    ('The patient', 'SHE', 'ms')

    Args:
        word: the word as the table has it.
        case: ``LOWER``, ``CAPITAL`` or ``UPPER``.
    """
    if case == LOWER:
        return word.lower()
    return word.upper() if case == UPPER else word[:1].upper() + word[1:]


def is_phrase(term: Term) -> bool:
    """Tell whether the case of a term must be read from all of it.

    So it is of several words, of signs, and of a first letter beyond ASCII.

    Args:
        term: a term of the table.
    """
    is_plain_word = term.text.isalpha() and term.text[0].isascii()
    return not is_plain_word or term.text in GLUED or term.text in _INITIALS


def as_written(term: Term, written: str, target: str) -> str:
    """Write a target in the case of what was written; where that is no known case, as the table has it.

    Args:
        term: the term that stands in the text.
        written: the term as it stands there.
        target: the word that it becomes, as the table has it.
    """
    if term.text in GLUED:  # the unit stays as it is: "72yoM", "72YOM"
        unit = unit_of(term.text)
        case = UPPER if written[-1].isupper() else LOWER
        return written[:unit] + in_case(target[unit:], case)
    if term.text in _INITIALS:
        return _in_cases_of(written, target)
    if written.islower():
        return target.lower()
    # Of "(S)he" the first letter tells.
    return cased(written.lstrip("("), target)


def _in_cases_of(written: str, target: str) -> str:
    """Write initials letter by letter in the case of those that they replace; longer words in that of the first."""
    if len(written) != len(target):
        return target.capitalize() if written[0].isupper() else target.lower()
    letters = zip(written, target.lower(), strict=True)
    return "".join(new.upper() if old.isupper() else new for old, new in letters)
