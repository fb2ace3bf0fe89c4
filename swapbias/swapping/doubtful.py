"""Terms that are gendered only in some contexts: letters of a demographic, titles, names of other things.

Each function looks at the text before and after a term (at most ``NEAR`` characters of its row) and says whether it
is gendered there, and in a word why that is in doubt, if it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.his_or_him import word_kind
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, pattern, word_list


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a term is swapped, why the decision is doubtful, and what it becomes; blank: nothing, and the first."""

    swap: bool
    doubt: str = ""
    becomes: str = ""


_YES, _NO = Judged(True), Judged(False)

# --- letters: "72 y/o M", "45F", "Sex: M", "F/45" ------------------------------------------------------

_GROWN = 12  # years; "BM 3" counts stools
_OPENED = {"(": ")", "[": "]"}
_FEVER = (90, 110)  # degrees Fahrenheit that may also be an age
_OLDEST, _LARGEST_TUBE, _FEW = 109, 34, 12


def letter(term: str, before: str, after: str) -> Judged:
    """Letters ("M" and "F") stand for a gender after an age or a section header, and nowhere else.

    >>> letter("F", "a 45", " with pain").swap, letter("F", "a 14", " Foley").swap
    (True, False)
    """
    if term.lower() in GLUED:
        slashed = before[-2:].lower() == "y/"
        if slashed == (term[0] in "oO"):
            return _YES if pattern("glued").search(before[:-2] if slashed else before) else _NO
        return _NO
    if pattern("both_after").match(after) or pattern("both_before").search(before):
        return _NO
    bracketed = _OPENED.get(before[-1:]) == after[:1]
    if bracketed and term.isupper() and after[1:2] not in ("+", "-"):  # "[M]+" is an ion
        return _YES if _in_brackets(before, f"{before[:-1].rstrip()} ", after) else _NO
    # Both patterns are slow where they fail, and without these words they do.
    unit = "y" in before.lower() and pattern("age_unit").search(before)
    if unit or (pattern("named").search(before) and pattern("header").search(before)):
        return _YES if term.isupper() or ":" in before[-4:] or unit else _NO
    numbered = before[-1:].isdigit()
    if not term.isupper() or (len(term) > 1 and numbered):
        return _NO
    if not numbered and (
        pattern("examined").match(after) or _onto_age(before, after) or _described(term, before, after)
    ):
        return _YES
    if len(term) > 1:
        aged = pattern("age_behind").match(after)
        return _YES if aged and _GROWN <= int(aged[1]) <= _OLDEST else _NO
    if _beside_aged(term, before, after):
        return _YES
    if pattern("age_behind").match(after) and (
        pattern("leads").search(before) or (after[0] == "," and before[-2:] == ", ")
    ):
        return _YES
    if (
        pattern("age_after").match(after)
        and not before[-1:].isalnum()
        and before[-1:] != "/"
        and not pattern("graded").search(before)
    ):
        return _YES
    if pattern("young").search(before[-16:]) and not pattern("instrument").match(after) and after[:1] != "/":
        return _YES
    age = pattern("bare_age").search(before)
    return _after_number(term, before[: age.start()], before[age.end(1) :], age.group(1), after) if age else _NO


_AMBIGUOUS = frozenset({"BM", "BF", "HM", "HF"})  # a bowel movement, breast feeding, heart failure


def _described(term: str, before: str, after: str) -> bool:
    """Whether words of an examination go before: "G3P2 AAF", "pleasant WM", "Pt is a F with DM"."""
    if term in _AMBIGUOUS:
        return bool(pattern("delivered").search(before) and pattern("gestation").match(after))
    if pattern("delivered").search(before) or (len(term) > 1 and pattern("built").search(before)):
        return True
    said = len(term) == 1 and (pattern("story").match(after) or pattern("clause_ends").match(after))
    return bool(said and pattern("is_one").search(before) and not pattern("graded").search(before))


def _onto_age(before: str, after: str) -> bool:
    """Whether an age is written onto the letter, "M34 with pain", and no code: "F32, M54.5", "M34 Scleroderma"."""
    age = pattern("age_onto").match(after)
    if (
        age is None
        or not pattern("leads").search(before)
        or pattern("code").search(before)
        or pattern("code").search(after[age.end() :])
    ):
        return False
    return _GROWN <= int(age[1]) <= _OLDEST


def _beside_aged(term: str, before: str, after: str) -> bool:
    """Whether two people are described by age and letter: "59F/62M twins", and not two sizes of tubes ("14F/16F")."""
    if not {"/", "&"} & {*before[-6:], *after[:2]}:
        return False
    age, second = re.search(r"(\d{1,3})\s?$", before), pattern("two_aged_after").match(after)
    other = second or pattern("two_aged_before").search(before)
    rest = after[second.end() :] if second else after
    if age is None or other is None or pattern("instrument").match(rest) or pattern("device_near").match(rest):
        return False
    years = int(age[1]), int(other[1])
    return max(years) <= _OLDEST and (term != other[2] or _LARGEST_TUBE < min(years) <= max(years) < _FEVER[0])


def _in_brackets(before: str, opened: str, after: str) -> bool:
    """Whether "(M)" stands behind an age, a header or somebody, or before an age."""
    aged = "y" in opened.lower() and pattern("age_unit").search(opened)
    headed = pattern("named").search(before) and pattern("header").search(before)
    person = pattern("who_in_brackets").search(before) or pattern("who_in_brackets").search(before.lower())
    return bool(aged or headed or person or pattern("age_behind_bracket").match(after))


def _after_number(term: str, earlier: str, gap: str, number: str | None, after: str) -> Judged:
    """A letter after a bare number, or after a removed age: an age, a temperature, a tube or a unit."""
    is_story = bool(pattern("story").match(after))
    if pattern("instrument").match(after) or after[:1] in ("/", "°"):
        return Judged(False, "a letter after a number may be a unit")
    if number is None:
        return _YES
    years = int(number)
    if years > _OLDEST or (
        term == "F" and (_FEVER[0] <= years <= _FEVER[1] or pattern("temperature").search(earlier))
    ):
        swap = years <= _OLDEST and bool(pattern("who").match(after))
        return Judged(swap, "a number and F may be a temperature")
    stopped, person = bool(pattern("stop").match(after)), bool(pattern("person").search(earlier))
    small = years <= (_LARGEST_TUBE if term == "F" else _FEW)
    opened = not gap and bool(pattern("leads").search(earlier) or earlier.endswith(": "))
    opened = opened and bool(pattern("goes_on").match(after)) and not pattern("device_near").match(after)
    likely = opened or (is_story and (not small or person or not gap)) or (stopped and (person or not small))
    likely = likely and not after[:1].isdigit()
    sized = bool(pattern("device_near").match(after))
    if likely or (is_story and person) or (not small and not gap and not after[:1].isdigit() and not sized):
        return _YES
    return Judged(False, "a letter after a number may be a unit")


# --- words that are also names of other things ---------------------------------------------------------


def title(term: str, before: str, after: str) -> Judged:
    """Titles: "Mr", "Ms" before a name; "MR" and "MS" without one are findings and diseases, "miss" is a verb.

    >>> title("Ms", "", ". Jones").swap, title("MR", "cardiac ", " imaging").swap, title("miss", "", " a dose").swap
    (True, False, False)
    """
    low = term.lower()
    if term.islower():
        dotted = bool(re.match(r"\.\s*\w", after))
        if low in ("mr", "mrs"):
            return _YES if dotted or re.match(r"\s+\w", after) else _NO
        return Judged(low == "ms" and dotted, "" if low == "miss" or dotted else f"{term} may be no title")
    if term.isupper() and low in ("mr", "ms"):
        named = bool(pattern("name_in_capitals").match(after))
        in_capitals = (
            pattern("capital_word").match(after)
            and not pattern("no_name").match(after)
            and _in_capitals(before, after)
        )
        return Judged(named or bool(in_capitals), f"{term} may be a finding or a disease")
    if low == "miss":
        return Judged(bool(pattern("name").match(after)), "Miss may be a verb" if not before.strip() else "")
    return _YES


# What follows a subject; an abbreviation (hepatic encephalopathy) has other neighbours.


def pronoun(term: str, before: str, after: str) -> Judged:
    """Pronouns: "HER-2" and the "His bundle" are no pronouns; "s/he" has both; a lone "HE" may be an abbreviation.

    >>> pronoun("HER", "", "-2/neu").swap, pronoun("His", "the ", " bundle").swap, pronoun("he", "s/", " was").swap
    (False, False, False)
    """
    low = term.lower()
    if (low == "he" and pattern("inclusive_he").search(before)) or pattern("bracketed").search(before):
        return _NO
    if low == "her" and (
        (term.isupper() and _is_receptor(before, after)) or pattern("her2_in_any_case").match(after)
    ):
        return _NO
    if low == "he" and (
        (term == "He" and pattern("helium").match(after)) or (term == "HE" and pattern("stained").match(after))
    ):
        return _NO
    if low == "his" and term != "his" and (pattern("his_bundle").match(after) or pattern("bundle_of").search(before)):
        return _NO
    if term.isupper() and low == "he" and not _in_capitals(before, after):
        subject = pattern("subject").match(after) or (_starts(before) and not pattern("no_subject").match(after))
        return Judged(bool(subject), "HE may be an abbreviation")
    return _YES


def _is_receptor(before: str, after: str) -> bool:
    """Whether "HER" is a receptor: "HER-2", "HER: 2+", "ER/PR positive, HER negative"."""
    if pattern("her2").match(after):
        return True
    return bool(
        pattern("receptor").match(after) and (pattern("receptors").search(before) or not _in_capitals(before, after))
    )


def abbreviation(term: str, before: str, after: str) -> Judged:
    """Nouns that are an abbreviation in capitals: "MOM" is milk of magnesia.

    >>> abbreviation("MOM", "5. ", " 30 ml").swap, abbreviation("mom", "her ", " called").swap
    (False, True)
    """
    if term.isupper() and (pattern("dose").match(after) or not _in_capitals(before, after)):
        return Judged(False, f"{term} may be an abbreviation")
    return _YES


def _in_capitals(before: str, after: str) -> bool:
    """Whether most longer words around are in capitals; where there are none, nothing speaks against it."""
    beside = pattern("long_word").findall(before) + pattern("long_word").findall(after)
    return bool(2 * sum(word.isupper() for word in beside) >= len(beside))


def _starts(before: str) -> bool:
    return not before.strip() or before.rstrip()[-1:] in '.!?:"“'


def compound(term: str, before: str, after: str) -> Judged:
    """Words of both genders, "(wo)man", and "no man's land".

    >>> compound("man", "this (wo)", " with").swap
    False
    """
    land = pattern("no_mans_land").match(after) and before[-3:].lower() == "no "
    return _NO if land or pattern("inclusive_man").search(before) else _YES


def host(term: str, before: str, after: str) -> Judged:
    """A host of guests, not of a graft: beside "hostess", or of a party or a show.

    >>> host("host", "", "/hostess").swap, host("host", "graft versus ", " disease").swap
    (True, False)
    """
    return (
        _YES
        if pattern("hostess_after").match(after)
        or pattern("hostess_before").search(before)
        or pattern("party").search(before)
        else _NO
    )


def groom(term: str, before: str, after: str) -> Judged:
    """Who marries a bride, not a verb.

    >>> groom("groom", "bride and ", "").swap, groom("groom", "able to dress and ", " himself").swap
    (True, False)
    """
    return _NO if pattern("grooms_after").match(after) or pattern("grooms_before").search(before) else _YES


def institution(term: str, before: str, after: str) -> Judged:
    """Names of places and orders: "Brigham and Women's Hospital", "Our Lady of Lourdes", "Sisters of Mercy".

    >>> institution("Women", "Brigham and ", "'s Hospital").swap, institution("women", "pregnant ", " and men").swap
    (False, True)
    """
    low = term.lower()
    if low in ("women", "men") and (
        pattern("place").match(after) or pattern("infants").match(after) or pattern("brigham").search(before)
    ):
        return _NO if not term.islower() else compound(term, before, after)
    if low in ("lady", "gentleman"):
        named = term.istitle() and pattern("titled").match(after)  # "Lady Davis Hospital"
        return _NO if named or (not term.islower() and pattern("our").search(before)) else _YES
    if low in _ORDERS and not term.islower() and (pattern("order").match(after) or pattern("place").match(after)):
        return _NO
    return compound(term, before, after)


def honorific(term: str, before: str, after: str) -> Judged:
    """Sir and madam: the title of a name stays ("Sir William Osler"), in a salutation "sir" is "madam".

    >>> honorific("Sir", "", " William").swap, honorific("Sir", "Dear ", ",").becomes, honorific("sir", "Yes, ", ".").becomes
    (False, 'madam', '')
    """  # noqa: E501
    if term.istitle() and pattern("titled").match(after):
        return _NO
    if term.isupper() and not _in_capitals(before, after):
        return Judged(False, f"{term} may be an abbreviation")
    saluted = term.lower() == "sir" and (
        pattern("saluted_before").search(before) or pattern("saluted_after").match(after)
    )
    return Judged(True, "", "madam" if saluted else "")


def religious(term: str, before: str, after: str) -> Judged:
    """Sisters, brothers, mothers and fathers of an order, before a name: "Sister Mary", "Father O'Brien".

    >>> religious("Sister", "", " Mary").swap, religious("sister", "her ", " Mary").swap
    (False, True)
    """
    if not term.istitle():
        return _YES
    named = pattern("nun").match(after)
    if named and (not named[1] or named[1] in _first_names()):
        return Judged(False, f"{term} may be a title")
    return _NO if pattern("named_place").match(after) else _YES


@cache
def _first_names() -> frozenset[str]:
    rows = read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    return frozenset(row["word"] for row in rows)


_ORDERS = frozenset({"sisters", "brothers", "daughters", "sons", "fathers"})
# --- given names -----------------------------------------------------------------------------------------

_NO_FIRST_NAMES = word_list("no_first_names")


def _titled(text: str) -> str:
    """Words in capitals with their first letter alone in capitals: "'S DISEASE" is "'s Disease"."""
    return re.sub(r"['’]S\b", "'s", re.sub(r"\b[A-Z]{2,}\b", lambda found: found[0].capitalize(), text))


def given_name(term: str, before: str, after: str) -> Judged:
    """Given names: of a patient or a relative, and no surname, clinician, place or test.

    >>> given_name("John", "Mr. ", " Smith").swap, given_name("John", "St. ", "'s").swap
    (True, False)
    >>> given_name("JOHN", "NAME: ", " SMITH").swap, given_name("JOHN", "MARY ", " IS").swap
    (True, False)
    """
    capitals = term.isupper() and len(term) > 2
    if (
        not (term[0].isupper() and (capitals or term[1:].islower()))
        or before[-1:] in ("-", "’", "'")
        or after[:1] == "-"
    ):
        return _NO
    thing = pattern("of_a_thing").match(_titled(after) if capitals else after)
    if pattern("no_patient").search(before) or thing or pattern("clinician").match(after):
        return _NO
    if pattern("addressed").search(before):
        return _YES if pattern("capital_after").match(_titled(after) if capitals else after) else _NO
    first = pattern("capital_before").search(before)
    surname = first and first[1].lower() not in _NO_FIRST_NAMES
    # In capitals any word may be a heading's: "PATIENT SEEN WITH JOHN SMITH".
    if first and surname and (word_kind(first[1].lower()) == "n" if capitals else not first[1].isupper()):
        return Judged(False, "a given name may be a surname")
    return _YES


# --- race and age: only where they are said of a person ---------------------------------------------------


def of_person(term: str, before: str, after: str) -> Judged:
    """A word for a race or an age that names other things as well: "white count", "black stool", "Dr. White".

    >>> of_person("white", "a 45-year-old ", " male").swap, of_person("white", "elevated ", " count").swap
    (True, False)
    """
    said = pattern("of_person").match(after) or pattern("race_header").search(before)
    if said and not pattern("practitioner").search(before):
        return _YES
    return Judged(
        bool(pattern("identifies").search(before) and pattern("ends").match(after)),
        f"{term.lower()} may be no {_KIND_OF[term.lower()]}",
    )


_KIND_OF = {
    **dict.fromkeys(("white", "whites", "black", "blacks", "brown", "native", "indian"), "race"),
    **dict.fromkeys(("young", "younger", "older", "elderly"), "age"),
}
Judge = Callable[[str, str, str], Judged]
KIN_TITLES = frozenset({"sister", "brother", "mother", "father"})
JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(DEMOGRAPHIC | GLUED, letter),
    **dict.fromkeys(("mr", "ms", "mrs", "miss"), title),
    **dict.fromkeys(("her", "his", "he"), pronoun),
    "mom": abbreviation,
    "man": compound,
    **dict.fromkeys(_KIND_OF, of_person),
    **dict.fromkeys(("women", "men", "lady", "gentleman", *_ORDERS), institution),
    **dict.fromkeys(("sir", "madam"), honorific),
    **dict.fromkeys(("host", "hosts"), host),
    "groom": groom,
    **dict.fromkeys(KIN_TITLES, religious),
}
# Terms that must be looked at one by one in any case; the others only where what stands beside them is odd.
ALWAYS = frozenset(JUDGES) - {"he", "of"} - KIN_TITLES
