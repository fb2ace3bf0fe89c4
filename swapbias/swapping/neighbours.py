"""Read the words beside a pronoun, and tell their class."""

from collections.abc import Mapping
from functools import cache

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.rule_tables import pattern, word_list

WINDOW = 100
"""Bytes on each side of a word that are looked at."""
NEAR = 60
"""Characters of them that tell most."""
_WRAPPED = 50  # characters: a shorter line before one that begins with a capital is no wrapped line
_CLOSED = word_list("closed_words")
_SOMEBODY = word_list("somebody") | word_list("clinicians") | {"ob", "gyn", "ent"}
_ENGLISH_ENDINGS = ("ed", "ing", "s", "'d", "’d")  # of verbs, which no list has
# Verbs that take a person and a thing ("gave her solace"), and verbs that take a person who does something
# ("helped her show"): after them a noun or a verb is no sign of "his".
_GIVE = word_list("giving_verb_forms")
_MAKE = word_list("making_verb_forms")
# Endings of inflected words, and those of the word that stands in the table.
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", ""))


def word_class(word: str) -> str:
    """Return the class of a word.

    Args:
        word: the word in lower case.

    Returns:
        ``none`` (start or end of the text), ``closed``, ``digit``, ``punctuation`` or ``open``.
    """
    if not word:
        return "none"
    if any(letter.isalpha() for letter in word):
        return "closed" if word in _CLOSED else "open"
    return "digit" if word[0].isdigit() else "punctuation"


def verb_class(word: str) -> str:
    """Return what the word before a pronoun does with a person: ``give``, ``make`` or ``other``.

    Args:
        word: the word in lower case.
    """
    if word in _GIVE:
        return "give"
    return "make" if word in _MAKE else "other"


@cache
def _kinds() -> Mapping[str, str]:
    rows = read_table(corpus_dir("gender_lexicon") / "word_kinds.csv", ("word", "kind"))
    return {row["word"]: row["kind"] for row in rows}


def word_kind(word: str) -> str:
    """Return ``word_class``, and of an open word which of noun, verb, adjective and adverb (n, v, a, r) it may be.

    >>> word_kind("several"), word_kind("says"), word_kind("liver"), word_kind("with")
    ('a', 'nvs', 'na', 'closed')

    Args:
        word: the word in lower case.
    """
    kind = word_class(word)
    if kind != "open":
        return kind
    kinds = _kinds()
    if word in kinds:
        return kinds[word]
    for ending, base_ending in _ENDINGS:
        if word.endswith(ending):
            base_kind = kinds.get(word[: -len(ending)] + base_ending)
            if base_kind:
                return f"{base_kind}s"
    return "n"


def is_common(word: str) -> bool:
    """Tell whether a word is a common English one, and seldom a name.

    Args:
        word: the word in lower case.
    """
    return word in _kinds() or word in _CLOSED


def may_be_english(word: str) -> bool:
    """Tell whether a word is a common English one or ends as many do.

    Args:
        word: the word in lower case.
    """
    return word.endswith(_ENGLISH_ENDINGS) or is_common(word)


def is_past(word: str | None) -> bool:
    """Tell whether a word is a past tense and no adjective: "visited", but not "adopted" or "deceased".

    Args:
        word: the word in lower case; None for a removed name.
    """
    if not word or word in _kinds():
        return False
    return word.endswith("ed") or word in word_list("past_verbs")


def without_unseen(text: str) -> str:
    """Return a text without signs that are not seen: soft hyphens, and marks of no width.

    >>> without_unseen("her\u200b leg")
    'her leg'

    Args:
        text: any text.
    """
    return text if text.isascii() else pattern("unseen").sub("", text)


def last_word(before: str) -> str:
    """Return the word or sign before a pronoun, in lower case; empty at the start of the text.

    >>> last_word("She took "), last_word("")
    ('took', '')

    Args:
        before: the text before the pronoun.
    """
    chunk = before.split()[-1:]  # the pattern is anchored at the end and slow on long texts
    word = pattern("last_word").search(chunk[0]) if chunk else None
    return word.group(1).lower() if word else ""


def first_word(after: str) -> str | None:
    """Return the word or sign after a pronoun, in lower case.

    >>> first_word(" own house."), first_word(" [**Hospital**]")
    ('own', None)

    Args:
        after: the text after the pronoun.

    Returns:
        The word; empty at the end of the text, None for a removed name.
    """
    if pattern("removed_name").match(after):
        return None
    word = pattern("first_word").match(after)
    return word.group(1).lower() if word else ""


def second_word(after: str) -> str | None:
    """Return the word or sign behind ``first_word``.

    >>> second_word(" see the house."), second_word(" house."), second_word(" house")
    ('the', '.', '')

    Args:
        after: the text after the pronoun.
    """
    word = pattern("first_word").match(after)
    return first_word(after[word.end() :]) if word else ""


def names_owned_noun(after: str) -> bool:
    """Tell whether the removed name of a place stands after a pronoun, and a noun behind it that somebody owns.

    >>> names_owned_noun(" [**Hospital1 18**] nurse said"), names_owned_noun(" [**Hospital1 18**] today")
    (True, False)

    Args:
        after: the text after the pronoun.
    """
    match = pattern("removed_place").match(after)
    if not match:
        return False
    word = match[1].lower()
    return word in _SOMEBODY or (is_common(word) and "n" in word_kind(word))


def partner(before: str, after: str) -> str:
    """Return the pronoun that stands beside a pronoun as its alternative ("her/his", "him or her"), or empty text.

    >>> partner("monitoring was placed on ", "/him, and")
    'him'

    Args:
        before: the text before the pronoun.
        after: the text after it.
    """
    alternative = pattern("partner_after").match(after)
    joined = ("/", "or", "(") if after[:1] == ")" else ("/", "or")
    if not alternative and before.rstrip().endswith(joined):
        alternative = pattern("partner_before").search(before)
    return alternative.group(1).lower() if alternative else ""


def line_ends(before: str, after: str) -> bool:
    """Tell whether a word is the last of its text, paragraph, list line or cell: no wrapped line goes on behind it.

    >>> line_ends("RN spoke to ", "\\nLabs pending"), line_ends("She hurt ", "\\nleg")
    (True, False)

    Args:
        before: the text before the word.
        after: the text after it.
    """
    if after[:1] == " " and after[1:2].isalpha():  # most words: the patterns take longer
        return False
    if pattern("cell_ends").match(after):
        # "in her", a blank line, "kitchen": a page ended.
        goes_on = after.lstrip()[:1].islower() and not after[:1].strip("\r\n")
        return not goes_on or last_word(before) not in word_list("before_possessive")
    following = pattern("next_line").match(after)
    if not following or names_owned_noun(after):
        return False
    word = following[1]
    if word in ("A", "I") or (len(word) > 1 and word.istitle() and is_common(word.lower())):
        return True
    if word.isupper() and word.lower().partition("/")[0] in _SOMEBODY:
        return False  # "told by her PCP"
    previous = last_word(before)
    if previous in word_list("before_device") and pattern("device_goes_on").match(after):
        return False  # "weaned off her BiPAP"
    line = before.rpartition("\n")[2]
    return len(line) < _WRAPPED and previous not in word_list("before_possessive")
