"""Decide by rules whether a term is gendered where it stands."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.neighbours import (
    first_word,
    is_common,
    is_past,
    last_word,
    line_ends,
    may_be_english,
    partner,
    word_kind,
)
from swapbias.swapping.rule_tables import pattern, rules, rules_by_word, word_list

_NAME_ROWS = read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
_NAMES = {None, *(row["word"] for row in _NAME_ROWS)}
_FOREIGN = word_list("foreign_words")
_ENGLISH = word_list("closed_words") - _FOREIGN - {"a", "me", "no", "on", "so"}
_SEX = re.compile("sex|gender", re.IGNORECASE)
_LONGEST_TITLE = 8  # characters, with the blank and the one before it
_ALONE_BEFORE = word_list("alone_before")
_CONTRASTS = word_list("contrasts")
_ALONE_BEHIND_VERB = word_list("alone_behind_verb")
POSSESSED = word_list("before_possessed")
"""Words after which "his" stands alone: "it is his", "a friend of his"."""
DETERMINERS = word_list("determiners")
"""Words after which no pronoun stands: "the He scan"."""
ADDRESS_SIGNS = tuple(".@_/-#=&?")
"""Signs beside a term that may make it part of an address."""
KIN_TITLES = frozenset({"sister", "brother", "mother", "father"})
"""Words for relatives that are titles as well: "Sister Mary"."""
REPLACED = "yes"
"""Decision of a rule: the term is gendered."""
STAYS = "no"
"""Decision of a rule: the term is not gendered."""
ALWAYS = frozenset(rules_by_word("context_rules.csv")) - {"he", "son"} - KIN_TITLES
"""Terms whose context is always checked; that of others only where a neighbour is odd."""


def _in_capitals(before: str, after: str) -> bool:
    """Tell whether at least half of the longer words around are in capitals; True where there are none."""
    words = pattern("long_word").findall(before) + pattern("long_word").findall(after)
    return bool(2 * sum(word.isupper() for word in words) >= len(words))


def _opens_sentence(before: str) -> bool:
    return not before.strip() or before.rstrip()[-1:] in '.!?:"“'


def _is_determined(before: str) -> bool:
    """Tell whether an article, or one and an adjective, stands before a term: "the distal His" is no pronoun."""
    words = before[-40:].split()[-2:]
    if not words or before[-1:] != " " or not (words[-1].isascii() and words[-1].isalpha()):
        return False
    if words[-1].lower() in DETERMINERS:
        return True
    return words[-1].islower() and words[0].lower() in DETERMINERS


def _is_nun(after: str) -> bool:
    """Tell whether a name makes a title of the word before it: "Sister Mary", "Father O'Brien"."""
    name = pattern("nun").match(after)
    return name is not None and name[1] in _NAMES


def _is_after_name(before: str) -> bool:
    """Tell whether the word before a term is a name: "Salomon Brothers", and not "Older Brothers"."""
    word = pattern("capital_before").search(before)
    return word is not None and not is_common(word[1].lower())


def _is_bracketed(term: str, before: str, after: str) -> bool:
    """Tell whether a term in capitals is in brackets, as "(M)"; "[M]+" is an ion and does not count."""
    brackets = before[-1:] + after[:1]
    return brackets in ("()", "[]") and term.isupper() and after[1:2] not in ("+", "-")


def in_address(before: str, after: str) -> bool:
    """Tell whether a term is part of a web address, an e-mail address, a handle or a file's name.

    >>> in_address("See ", ".wikipedia.org."), in_address("We saw ", ".She left.")
    (True, False)

    Args:
        before: the text before the term.
        after: the text after it.
    """
    if before[-1:] not in ADDRESS_SIGNS and after[:1] not in ADDRESS_SIGNS:
        return False
    words_before = before.split()
    words_after = after.split()
    left = words_before[-1] if words_before and not before[-1].isspace() else ""
    right = words_after[0] if words_after and not after[0].isspace() else ""
    return pattern("address").fullmatch(f"{left}x{right}") is not None


def _has_common_word_next(after: str) -> bool:
    """Tell whether a sentence may begin behind a full stop: its first word is a common one."""
    word = pattern("capital_next").match(after)
    return word is not None and word[1] not in _NAMES and is_common(word[1].lower())


def _is_strange(before: str, after: str) -> bool:
    """Tell whether a word that may be of another language stands before a term that no word follows: "kam her."."""
    following = first_word(after)
    is_last = following is not None and not following[:1].isalpha()
    return is_last and not may_be_english(last_word(before))


def _is_foreign(before: str, after: str) -> bool:
    """Tell whether most of the known short words of a sentence are Spanish, French, German or Portuguese."""
    sentence = pattern("sentence_sign").split(before)[-1] + pattern("sentence_sign").split(after)[0]
    words = [word.lower() for word in pattern("any_word").findall(sentence)]
    foreign = sum(
        word in _FOREIGN or not (word.isascii() or word.startswith("fianc")) for word in words
    )
    english = sum(word in _ENGLISH for word in words)
    return foreign > english


FACTS: Mapping[str, Callable[[str, str, str], bool]] = {
    "lower": lambda term, before, after: term.islower(),
    "upper": lambda term, before, after: term.isupper(),
    "title": lambda term, before, after: term.istitle(),
    "capitals": lambda term, before, after: _in_capitals(before, after),
    "first": lambda term, before, after: not before.strip(),
    "starts": lambda term, before, after: _opens_sentence(before),
    "nun": lambda term, before, after: _is_nun(after),
    "of": lambda term, before, after: last_word(before) == "of",
    "determined": lambda term, before, after: _is_determined(before),
    "partner": lambda term, before, after: bool(partner(before, after)),  # "her/his"
    "possessed": lambda term, before, after: last_word(before) in POSSESSED,
    "after_name": lambda term, before, after: _is_after_name(before),
    "past": lambda term, before, after: is_past(first_word(after)),
    "word_next": lambda term, before, after: _has_common_word_next(after),
    "strange": lambda term, before, after: _is_strange(before, after),
    "foreign": lambda term, before, after: _is_foreign(before, after),
    "line_ends": lambda term, before, after: line_ends(before, after),
    "colon": lambda term, before, after: ":" in before[-4:],
    "onto_slash": lambda term, before, after: term[0] in "oO",  # "72y/oM"
    "digit": lambda term, before, after: before.rstrip()[-1:].isdigit(),
    "after_number": lambda term, before, after: before.rstrip(" /,-")[-1:].isdigit(),
    "year": lambda term, before, after: "y" in before or "Y" in before,
    "sex": lambda term, before, after: _SEX.search(before) is not None,
    "bracketed": _is_bracketed,
}
"""Facts about a term and the text before and after it, by their names in rules."""

# Facts of the term alone: rules for which they do not hold are left out before any text is looked at.
_OF_TERM = {"lower", "upper", "title", "onto_slash"}
# Facts that take less time than to look for patterns: they are asked first.
_QUICK = {"determined", "year", "sex", "first", "digit", "after_number", "bracketed"}


@lru_cache(maxsize=1 << 12)
def _rules_of(term: str) -> Sequence[tuple[Any, ...]]:
    """Return the rules that may hold for a term as written: as ``rules``, with quick facts and others apart."""
    remaining = []
    for says, facts, *patterns in rules("context_rules.csv", term.lower()):
        if any(FACTS[fact](term, "", "") != holds for fact, holds in facts if fact in _OF_TERM):
            continue
        quick = [(FACTS[fact], holds) for fact, holds in facts if fact in _QUICK]
        slow = [
            (FACTS[fact], holds)
            for fact, holds in facts
            if fact not in _QUICK and fact not in _OF_TERM
        ]
        remaining.append((says, quick, slow, *patterns))
    return remaining


def may_stay(term: str) -> bool:
    """Tell whether a rule may say that a term as written is not gendered.

    >>> may_stay("gentleman"), may_stay("Gentleman")
    (False, True)

    Args:
        term: the term as written.
    """
    return bool(_rules_of(term))


def follows_title(before: str) -> bool:
    """Tell whether a word in title case is a surname, for a title stands before it.

    >>> follows_title("seen by Dr. "), follows_title("seen by the doctor ")
    (True, False)

    Args:
        before: the text before the word, with the blank.
    """
    return pattern("before_surname").search(before[-_LONGEST_TITLE:]) is not None


def replacement_by_rules(term: str, before: str, after: str) -> str:
    """Decide by the rules whether a term is gendered in its context: the first rule that holds decides.

    >>> replacement_by_rules("F", "a 45", " with pain"), replacement_by_rules("F", "a 14", " Foley")
    ('yes', 'no')
    >>> replacement_by_rules("white", "a 45-year-old ", " male"), replacement_by_rules("white", "elevated ", " count")
    ('yes', 'no')

    Args:
        term: the term as written.
        before: the before at most ``NEAR`` characters of its row before it.
        after: the after at most ``NEAR`` characters of its row after it.

    Returns:
        ``REPLACED``, ``STAYS``, or the word that it becomes.
    """
    if in_address(before, after):
        return STAYS
    if term[:1].isupper() and term[1:].islower() and follows_title(before):
        return STAYS
    for decision, quick, slow, match_after, search_before, search_unless in _rules_of(term):
        if quick and not _all_hold(quick, term, before, after):
            continue
        if match_after and not match_after(after):
            continue
        if search_before and not search_before(before):
            continue
        if search_unless and search_unless(before):
            continue
        if not slow or _all_hold(slow, term, before, after):
            return str(decision)
    return REPLACED


def _all_hold(
    facts: Sequence[tuple[Callable[[str, str, str], bool], bool]],
    term: str,
    before: str,
    after: str,
) -> bool:
    for fact, holds in facts:  # noqa: SIM110 - a loop takes half the time of all()
        if fact(term, before, after) != holds:
            return False
    return True


def is_pronoun(before: str, after: str) -> bool:
    """Tell whether "his" is used without a noun ("a friend of his."), so that it becomes "hers" and not "her".

    True only where a noun can hardly follow: a wrong "hers" makes no sentence, while "her" for "hers" is understood.

    >>> is_pronoun("a friend of ", "."), is_pronoun("the size of ", " liver")
    (True, False)

    Args:
        before: the text before the word.
        after: the text after it.
    """
    if after[:1] == " " and after[1:2].isalpha():
        following = first_word(after) or ""
        previous = last_word(before)
        is_joined = previous == "or" or following in ("or", "and")
        if not is_joined and not may_follow_alone(previous, following):
            return False
    return replacement_by_rules("his_alone", before, after) == REPLACED


def may_follow_alone(previous: str, word: str) -> bool:
    """Tell whether a word may stand behind "his" that stands alone: "but his hurts more".

    Args:
        previous: the word or sign before "his" in lower case.
        word: the word behind it in lower case.
    """
    if word in ("is", "was") or word in _ALONE_BEFORE:
        return True
    if previous in POSSESSED:
        return word in _ALONE_BEHIND_VERB or is_past(word)
    is_contrast = previous in ("", ",", ";") or previous in _CONTRASTS
    return is_contrast and (is_past(word) or (word.endswith("s") and "v" in word_kind(word[:-1])))
