"""Terms that are gendered only in some contexts: letters of a demographic, titles, names of other things.

Each function looks at the text before and after a term (at most ``NEAR`` characters of its row) and says whether it
is gendered there, and in a word why that is in doubt, if it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from swapbias.swapping.table import DEMOGRAPHIC

_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a term is swapped, and why the decision is doubtful; blank where it is not."""

    swap: bool
    doubt: str = ""


_YES, _NO = Judged(True), Judged(False)

# --- letters: "72 y/o M", "45F", "Sex: M", "F/45" ------------------------------------------------------

_HEADER = re.compile(r"\b(?:sex|gender)(?:\s*/\s*age)?\s*[:=]\s*[(\[]?\s*$", _I)
_AGE_UNIT = re.compile(
    r"(?:\d|_{2,}|\*\*\])\s*-?\s*"
    r"(?:y\.?\s*/?\s*o\.?|yrs?\.?(?:[\s-]*old)?|years?[\s-]*old|y\.?r\.?s?\.?\s*/?\s*o(?:ld)?|year)"
    r"[\s,/-]*(?:(?:white|black|caucasian|hispanic|asian|right[- ]handed|african[- ]american)\s+)?$",
    _I,
)
_BARE_AGE = re.compile(r"(?:(?<![\d.,/:$%])(?<!\d[-/])(\d{1,3})|(_{3})|(\*\*\]))[\s-]?$")
_SLASH_AGE = re.compile(r"\s?/\s?\d{1,3}(?![\d/])")
_INSTRUMENT = re.compile(
    r"[\s-]*(?:fr\b|french|foley|cath|sheath|tube|drain|pigtail|stent|needle|introducer|ng\b|pessary|x\b|\(|deg)", _I
)
_STORY = re.compile(
    r"\s*(?:$|[,.;:)\n]|\b(?:with|who|w|s/p|h/o|p/w|c/o|hx|history|admitted|presents?|presented|presenting|and|has|had|is|was|"
    r"in|from|patient|pt|status|found|transferred|brought|adm|here|complain\w*|referred|known|seen|here|smoker|driver)\b)",
    _I,
)
_FEVER = (90, 110)  # degrees Fahrenheit that may also be an age
_OLDEST = 120


def letter(term: str, before: str, after: str) -> Judged:
    """Letters ("M" and "F") stand for a gender after an age or a section header, and nowhere else.

    >>> letter("F", "a 45", " with pain").swap, letter("F", "a 14", " Foley").swap
    (True, False)
    """
    if _HEADER.search(before):
        return _YES
    if _AGE_UNIT.search(before):
        return _YES
    if len(term) > 1 or term.islower():
        return _NO
    if _SLASH_AGE.match(after) and not before[-1:].isalnum() and before[-1:] != "/":
        return _YES
    age = _BARE_AGE.search(before)
    if not age:
        return _NO
    if _INSTRUMENT.match(after) or after[:1] in ("/", "°"):
        return _NO
    years = int(age.group(1)) if age.group(1) else None
    touching = not before[-1:].isspace()
    if years is not None and (years > _OLDEST or (term == "F" and _FEVER[0] <= years <= _FEVER[1])):
        return Judged(years <= _OLDEST and bool(_WHO.match(after)), "a number and F may be a temperature")
    if _STORY.match(after) or (touching and not after[:1].isdigit()):
        return _YES
    return Judged(False, "a letter after a number may be a unit")


_WHO = re.compile(r"\s*(?:who|with|s/p|h/o|p/w|c/o|admitted|presents?|presented|presenting)\b", _I)

# --- words that are also names of other things ---------------------------------------------------------

_CAPITAL_NAME = re.compile(r"\.?\s+(?:[A-Z]|\[\*\*|_{2,})|\.?\s*\[\*\*|\.?\s*_{2,}")
_NAME_IN_CAPITALS = re.compile(r"\.\s+(?:[A-Z]{2,}\b|\[\*\*|_{2,})|\s*\[\*\*|\s*_{2,}")


def title(term: str, before: str, after: str) -> Judged:
    """Titles: "Mr", "Ms" before a name; "MR" and "MS" without one are findings and diseases, "miss" is a verb.

    >>> title("Ms", "", ". Jones").swap, title("MR", "cardiac ", " imaging").swap, title("miss", "", " a dose").swap
    (True, False, False)
    """
    if term.islower():
        return Judged(term in ("mr", "mrs", "ms") and bool(re.match(r"\.\s*\w", after)))
    if term.isupper() and term.lower() in ("mr", "ms"):
        named = bool(_NAME_IN_CAPITALS.match(after))
        return Judged(named, f"{term} may be a finding or a disease")
    if term.lower() == "miss":
        return Judged(bool(_CAPITAL_NAME.match(after)), "Miss may be a verb" if not before.strip() else "")
    return _YES


_HER2 = re.compile(r"[\s-]{0,2}(?:\d|neu\b|/neu\b|II\b)", _I)
_HIS_BUNDLE = re.compile(r"[\s-]*(?:bundle|purkinje|electrogram|system)\b", _I)
_BUNDLE_OF = re.compile(r"\b(?:bundle|branch)(?:es)?\s+of\s+$", _I)
_INCLUSIVE_HE = re.compile(r"(?:\bs\s?/\s?|\(s\)\s?)$", _I)
_WORD_BESIDE = re.compile(r"([A-Za-z]{2,})\W*$"), re.compile(r"\W*([A-Za-z]{2,})")


def pronoun(term: str, before: str, after: str) -> Judged:
    """Pronouns: "HER-2" and the "His bundle" are no pronouns; "s/he" has both; a lone "HE" may be an abbreviation.

    >>> pronoun("HER", "", "-2/neu").swap, pronoun("His", "the ", " bundle").swap, pronoun("he", "s/", " was").swap
    (False, False, False)
    """
    low = term.lower()
    if low == "he" and _INCLUSIVE_HE.search(before):
        return _NO
    if low == "her" and term.isupper() and _HER2.match(after):
        return _NO
    if low == "his" and term != "his" and (_HIS_BUNDLE.match(after) or _BUNDLE_OF.search(before)):
        return _NO
    if term.isupper() and low == "he" and not _in_capitals(before, after):
        return Judged(True, "HE may be an abbreviation")
    return _YES


def abbreviation(term: str, before: str, after: str) -> Judged:
    """Nouns that are an abbreviation in capitals: "MOM" is milk of magnesia.

    >>> abbreviation("MOM", "gave ", " 30 ml").swap, abbreviation("mom", "her ", " called").swap
    (False, True)
    """
    if term.isupper() and not _in_capitals(before, after):
        return Judged(False, f"{term} may be an abbreviation")
    return _YES


def _in_capitals(before: str, after: str) -> bool:
    beside = [found.group(1) for found in (_WORD_BESIDE[0].search(before), _WORD_BESIDE[1].match(after)) if found]
    return any(word.isupper() for word in beside) or not beside


_INCLUSIVE_MAN = re.compile(r"\(?\bwo\s?[/)]\s?$", _I)


def compound(term: str, before: str, after: str) -> Judged:
    """Words of both genders: "(wo)man" stands for either.

    >>> compound("man", "this (wo)", " with").swap
    False
    """
    return _NO if _INCLUSIVE_MAN.search(before) else _YES


Judge = Callable[[str, str, str], Judged]
JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(DEMOGRAPHIC, letter),
    **dict.fromkeys(("mr", "ms", "mrs", "miss"), title),
    **dict.fromkeys(("her", "his", "he"), pronoun),
    "mom": abbreviation,
    **dict.fromkeys(("man", "men"), compound),
}
# Terms that must be looked at one by one in any case; "he" only where it stands in capitals or after "s/" and "(s)".
ALWAYS = frozenset(JUDGES) - {"he"}
