"""Terms that are gendered only in some contexts: letters of a demographic, titles, names of other things.

Each function looks at the text before and after a term (at most ``NEAR`` characters of its row) and says whether it
is gendered there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.table import DEMOGRAPHIC, GLUED, pattern, rules


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a term is swapped, and what it becomes: a word, or the choice of that number."""

    swap: bool
    becomes: str = ""
    choice: int = 0


_YES = Judged(True)

# --- letters: "72 y/o M", "45F", "Sex: M", "F/45" ------------------------------------------------------

_GROWN = 12  # years; "BM 3" counts stools
_OPENED = {"(": ")", "[": "]"}
_FEVER = (90, 110)  # degrees Fahrenheit that may also be an age
_OLDEST, _LARGEST_TUBE, _FEW = 109, 34, 12


def letter(term: str, before: str, after: str) -> bool:
    """Letters ("M" and "F") stand for a gender after an age or a section header, and nowhere else.

    >>> letter("F", "a 45", " with pain"), letter("F", "a 14", " Foley")
    (True, False)
    """
    if term.lower() in GLUED:
        slashed = before[-2:].lower() == "y/"
        if slashed == (term[0] in "oO"):
            return bool(pattern("glued").search(before[:-2] if slashed else before))
        return False
    if pattern("both_after").match(after) or pattern("both_before").search(before):
        return False
    bracketed = _OPENED.get(before[-1:]) == after[:1]
    if bracketed and term.isupper() and after[1:2] not in ("+", "-"):  # "[M]+" is an ion
        return _in_brackets(before, f"{before[:-1].rstrip()} ", after)
    # Both patterns are slow where they fail, and without these words they do.
    unit = "y" in before.lower() and pattern("age_unit").search(before)
    if unit or (pattern("named").search(before) and pattern("header").search(before)):
        return bool(term.isupper() or ":" in before[-4:] or unit)
    numbered = before[-1:].isdigit()
    if not term.isupper() or (len(term) > 1 and numbered):
        return False
    if not numbered and (
        pattern("examined").match(after) or _onto_age(before, after) or _described(term, before, after)
    ):
        return True
    if len(term) > 1:
        aged = pattern("age_behind").match(after)
        return bool(aged and _GROWN <= int(aged[1]) <= _OLDEST)
    if _beside_aged(term, before, after):
        return True
    if pattern("age_behind").match(after) and (
        pattern("leads").search(before) or (after[0] == "," and before[-2:] == ", ")
    ):
        return True
    if (
        pattern("age_after").match(after)
        and not before[-1:].isalnum()
        and before[-1:] != "/"
        and not pattern("graded").search(before)
    ):
        return True
    if pattern("young").search(before[-16:]) and not pattern("instrument").match(after) and after[:1] != "/":
        return True
    age = pattern("bare_age").search(before)
    return age is not None and _after_number(term, before[: age.start()], before[age.end(1) :], age.group(1), after)


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


def _after_number(term: str, earlier: str, gap: str, number: str | None, after: str) -> bool:
    """A letter after a bare number, or after a removed age: an age, and no temperature, tube or unit."""
    if pattern("instrument").match(after) or after[:1] in ("/", "°"):
        return False
    if number is None:
        return True
    years = int(number)
    if term == "F" and (_FEVER[0] <= years <= _FEVER[1] or pattern("temperature").search(earlier)):
        return years <= _OLDEST and bool(pattern("who").match(after))
    is_story, person = pattern("story").match(after), pattern("person").search(earlier)
    small, sized = years <= (_LARGEST_TUBE if term == "F" else _FEW), pattern("device_near").match(after)
    if years > _OLDEST or (is_story and person):
        return years <= _OLDEST
    if after[:1].isdigit():
        return False
    opened = not gap and (pattern("leads").search(earlier) or earlier.endswith(": "))
    goes_on = opened and pattern("goes_on").match(after) and not sized
    stopped = pattern("stop").match(after) and (person or not small)
    return bool(goes_on or (is_story and not (small and gap)) or stopped or not (small or gap or sized))


# --- words that are also names of other things: rules ---------------------------------------------------

FACTS: Mapping[str, Callable[[str, str, str], bool]] = {  # of a term, what is before and after it; names in rules
    "lower": lambda term, before, after: term.islower(),
    "upper": lambda term, before, after: term.isupper(),
    "title": lambda term, before, after: term.istitle(),
    "capitals": lambda term, before, after: _in_capitals(before, after),
    "first": lambda term, before, after: not before.strip(),
    "starts": lambda term, before, after: not before.strip() or before.rstrip()[-1:] in '.!?:"“',  # a sentence
    "nun": lambda term, before, after: _is_nun(pattern("nun").match(after)),  # "Sister Mary", "Father O'Brien"
}


_RULES = rules("context_rules.csv", "becomes")  # where none fits a term is swapped


def by_rules(term: str, before: str, after: str) -> Judged:
    """Terms that are something else in places: "MR imaging", "HER-2", "Women's Hospital", "Sir William", "white count".

    >>> by_rules("Ms", "", ". Jones").swap, by_rules("MR", "cardiac ", " imaging").swap, by_rules("miss", "", " a dose").swap
    (True, False, False)
    >>> by_rules("white", "a 45-year-old ", " male").swap, by_rules("white", "elevated ", " count").swap
    (True, False)
    """  # noqa: E501
    for rule in _RULES[term.lower()]:
        if rule.fits(lambda name: FACTS[name](term, before, after), before, after):
            return Judged(rule.row["says"] == "yes", rule.row["becomes"])
    return _YES


def _is_nun(found: re.Match[str] | None) -> bool:
    return bool(found and (not found[1] or found[1] in _first_names()))


@cache
def _first_names() -> frozenset[str]:
    rows = read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    return frozenset(row["word"] for row in rows)


def _in_capitals(before: str, after: str) -> bool:
    """Whether most longer words around are in capitals; where there are none, nothing speaks against it."""
    beside = pattern("long_word").findall(before) + pattern("long_word").findall(after)
    return bool(2 * sum(word.isupper() for word in beside) >= len(beside))


Judge = Callable[[str, str, str], Judged]
KIN_TITLES = frozenset({"sister", "brother", "mother", "father"})
JUDGES: Mapping[str, Judge] = {
    **dict.fromkeys(DEMOGRAPHIC | GLUED, lambda *beside: Judged(letter(*beside))),
    **dict.fromkeys(_RULES, by_rules),
}
# Terms that must be looked at one by one in any case; the others only where what stands beside them is odd.
ALWAYS = frozenset(JUDGES) - {"he", "of"} - KIN_TITLES
