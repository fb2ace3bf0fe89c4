"""Verbs that agree with a pronoun: "she walks" and "they walk", where the words beside the pronoun tell the verb."""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from swapbias.swapping.table import pattern, word_list

_PLURAL = {
    "is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't", "wasn't": "weren't",
    "hasn't": "haven't", "doesn't": "don't",
}  # fmt: skip
_SINGULAR = {plural: singular for singular, plural in _PLURAL.items()}
_BASES = {
    "aches": "ache", "focuses": "focus", "dies": "die", "lies": "lie", "ties": "tie", "vies": "vie",
}  # fmt: skip
# Words that may stand between a pronoun and its verb; so may any that ends in -ly.
_ADVERBS = word_list("adverbs_before_verbs")
# Words that end like a verb after "he" and are none, or that are the same in singular and plural.
_NO_VERBS = word_list("no_verbs")
# Forms that do not change with the person: modal verbs and past tenses without -ed.
_FIXED = word_list("fixed_verb_forms")
_EITHER = frozenset(
    {"bet", "burst", "cast", "cost", "cut", "hit", "hurt", "let", "put", "read", "set", "shut", "split"}
)
# In -ed or -ing, and yet no past tense or participle.
_WHOLE = word_list("whole_ed_ing_verbs")
# Words before which no verb stands: what follows "they" there is no verb either.
_CLOSED = word_list("no_verb_after_they")
# Verbs after "and" that are hardly ever nouns: "has a cough and takes pills".
_JOINED = word_list("joined_verbs")


class Verb(NamedTuple):
    """A form that takes another, and where it begins in the text after the pronoun; below zero: before it."""

    start: int
    old: str
    new: str


def agreeing(before: str, after: str, *, plural: bool) -> list[Verb]:
    """The verbs beside a subject pronoun that change with it.

    Decided are the verb that follows, also behind adverbs or joined by "and", contractions, and the auxiliary before
    the pronoun of a question. A verb further on is left.

    Args:
        before, after: the text on both sides of the pronoun.
        plural: the new pronoun is "they", else the old one.

    >>> [(verb.old, verb.new) for verb in agreeing("", " often walks home.", plural=True)]
    [('walks', 'walk')]
    """
    forms = _PLURAL if plural else _SINGULAR
    if found := pattern("contracted").match(after):
        return _contracted(found, after, plural)
    verb, at = _verb(after, plural)
    inverted = pattern("verb_before").search(before)
    asks = bool(inverted and pattern("question").search(before[: inverted.start(1)]))
    if inverted and _plain(inverted[1]) in forms and (asks or verb is None):
        new_form = _changed(inverted[1], forms[_plain(inverted[1])])
        return [Verb(inverted.start(1) - len(before), inverted[1], new_form)]
    if verb is None:
        word = pattern("next_word").match(after)
        past = plural and word and (_plain(word[1]) in _FIXED or word[1].lower().endswith("ed"))
        return _joined(after, at, plural) if past else []  # "had a tube and was fed"
    return [verb, *_joined(after, at, plural)]


def _contracted(found: re.Match[str], after: str, plural: bool) -> list[Verb]:
    """ "he's" is "they're" or "they've"."""
    form = found[1].lower()
    if (form == "s") != plural:
        return []
    has = pattern("verb_has").match(after, found.end())
    new = ("ve" if has else "re") if plural else "s"
    return [Verb(found.start(1), found[1], _changed(found[1], new))]


def _verb(after: str, plural: bool) -> tuple[Verb | None, int]:
    """The verb behind a pronoun, over adverbs, and where it ends."""
    at = 0
    while word := pattern("next_word").match(after, at):
        low, at = _plain(word[1]), word.end()
        if low in _ADVERBS or (low.endswith("ly") and low not in ("rely", "supply", "apply", "reply", "fly")):
            continue
        new = _other_form(low, plural)
        return (Verb(word.start(1), word[1], _changed(word[1], new)) if new else None), at
    return None, at


def _joined(after: str, at: int, plural: bool) -> list[Verb]:
    """The second of two verbs joined by "and": right behind the first, or where hardly a noun can stand."""
    word = pattern("and_verb").match(after, at) if plural else None
    if word is None:
        word = pattern("clause_verb").match(after, at)
        joined = _JOINED if plural else _joined_bases()
        if not word or _plain(word[1]) not in joined:
            return []
        between = after[at : word.start(1)]
        if pattern("other_subject").search(between) or (not plural and pattern("infinitive").search(between)):
            return []
    new = _other_form(_plain(word[1]), plural)
    return [Verb(word.start(1), word[1], _changed(word[1], new))] if new else []


@cache
def _joined_bases() -> frozenset[str]:
    return frozenset(_other_form(word, plural=True) for word in _JOINED)


def _other_form(word: str, plural: bool) -> str:
    """ "walks" as "walk" or the reverse; blank for what is no such form.

    >>> [_other_form(word, True) for word in ("denies", "goes", "uses", "watches", "walked", "this")]
    ['deny', 'go', 'use', 'watch', '', '']
    >>> [_other_form(word, False) for word in ("deny", "go", "use", "watch", "walked", "could", "the")]
    ['denies', 'goes', 'uses', 'watches', '', '', '']
    """
    forms: Mapping[str, str] = _PLURAL if plural else _SINGULAR
    if word in forms:
        return forms[word]
    return _base(word) if plural else _third(word)


def _base(word: str) -> str:
    if word in _NO_VERBS or not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return ""
    if word in _BASES:
        return _BASES[word]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")) else word[:-1]


def _third(word: str) -> str:
    if word in _FIXED or word in _EITHER or word in _CLOSED or word in _NO_VERBS or len(word) < 2:
        return ""
    if word.endswith(("ed", "ing")) and word not in _WHOLE:
        return ""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z", "o")) and word != "ache" else "s")


# A vowel that is spoken as a consonant ("a uniform"), and an h that is not spoken ("an heir").
ARTICLE = re.compile(r"(?:^|[^\w'’-])(an?)(\s?)$", re.IGNORECASE)


def begins_with_vowel(text: str) -> bool | None:
    """Whether a text is spoken with a vowel at its start, as "an" wants it; None where no word is there.

    >>> [begins_with_vowel(text) for text in ("uncle", "heir", "union", "80-year-old", "45", "WM", "…")]
    [True, True, False, True, False, False, None]
    """
    found = pattern("spoken").match(text)
    if found is None:
        return None
    word = found[1]
    if word.isdigit():
        return word[0] == "8" or word in ("11", "18")
    if word.isupper() and len(word) < 3:
        return word[0] in "AEFHILMNORSX"
    return bool(pattern("silent_h").match(word)) or (
        word[0].lower() in "aeiou" and not pattern("spoken_consonant").match(word)
    )


def article_before(before: str, old: str, new: str) -> tuple[int, str, str] | None:
    """The article that no longer fits: where it begins (counted back from the end, below zero), and both forms.

    An article that did not fit the old text either is left.

    >>> article_before("This is a ", "white man", "African American man"), article_before("a ", "man", "woman")
    ((-2, 'a', 'an'), None)
    """
    found = ARTICLE.search(before[-4:])
    if found is None:
        return None
    vowels, written = (begins_with_vowel(old), begins_with_vowel(new)), found[1]
    if None in vowels or vowels[0] == vowels[1] or vowels[0] != (len(written) == 2):
        return None
    capitals = new[:2].isupper() and len(new.split()[0]) > 2
    article = written[0] + (("N" if capitals and written.isupper() else "n") if vowels[1] else "")
    return -len(written) - len(found[2]), written, article


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


def _changed(written: str, new: str) -> str:
    """The new form in the case of what was written, with its apostrophe."""
    new = new.replace("'", "’") if "’" in written else new
    if written.isupper() and len(written) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if written[0].isupper() else new
