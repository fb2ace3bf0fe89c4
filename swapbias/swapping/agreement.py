"""Find verbs and articles that agree with a new word: "she walks", "they walk"; "a man", "an aunt"."""

import re
from typing import NamedTuple

from swapbias.swapping.rule_tables import pattern, word_list
from swapbias.swapping.table import cased

# "is": "are"; of others by their ending.
_BASE = dict(pair.split("_") for pair in word_list("verb_forms"))
_THIRD = {base: third for third, base in _BASE.items()}
# Words that end like a verb after "he" and are none, or the same in singular and plural.
_NO_VERBS = word_list("no_verbs")
# Words that do not change with the person: modal verbs and past tenses without -ed.
_FIXED = word_list("fixed_verb_forms")
_NO_THIRD = _FIXED | _NO_VERBS | word_list("no_verb_after_they") | word_list("past_like_present")
_WHOLE = word_list("whole_ed_ing_verbs")  # in -ed or -ing, and yet no past tense or participle
_JOINED = word_list("joined_verbs")  # after "and" hardly ever nouns: "has a cough and takes pills"
_ARTICLE = re.compile(r"(?:^|[^\w'’-])(an?)(\s?)$", re.IGNORECASE)


class Verb(NamedTuple):
    """A form that takes another."""

    start: int
    """The character of the text after the pronoun at which it begins; below zero: of the text before it."""
    old: str
    """As written."""
    new: str
    """In the same case."""


def agreeing(before: str, after: str, *, plural: bool) -> list[Verb]:
    """Return the verbs beside a subject pronoun that change with it.

    Decided are the verb that follows, also behind adverbs or joined by "and", contractions, and the auxiliary before
    the pronoun of a question. A verb further on is left.

    >>> [(verb.old, verb.new) for verb in agreeing("", " often walks home.", plural=True)]
    [('walks', 'walk')]

    Args:
        before: the text before the pronoun.
        after: the text after it.
        plural: the new pronoun is "they", else the old one.
    """
    contraction = pattern("contracted").match(after)
    if contraction:
        return _contracted(contraction, after, plural)
    word = pattern("verb").match(after)
    verb = _changing(word, plural) if word else None
    inverted = _inverted(before, plural, verb is None)
    if inverted:
        return [inverted]
    if not word:
        return []
    joined: Verb | None = None
    if verb or (plural and _is_past(word, after)):
        joined = _joined(after, word.end(), plural)  # "had a tube and was fed"
    return [form for form in (verb, joined) if form]


def _inverted(before: str, plural: bool, no_verb_follows: bool) -> Verb | None:
    """Return the auxiliary before the pronoun of a question; where a verb follows, a word must open the question."""
    word = pattern("verb_before").search(before)
    if not word:
        return None
    new = (_BASE if plural else _THIRD).get(_plain(word[1]))
    if not new:
        return None
    if no_verb_follows or pattern("question").search(before[: word.start(1)]):
        return Verb(word.start(1) - len(before), word[1], cased(word[1], new))
    return None


def _is_past(word: re.Match[str], after: str) -> bool:
    """Tell whether the word right behind a pronoun is a past tense or a modal verb."""
    if not after[: word.start(1)].isspace():
        return False
    return _plain(word[1]) in _FIXED or word[1].lower().endswith("ed")


def _contracted(contraction: re.Match[str], after: str, plural: bool) -> list[Verb]:
    """Return the verb of "he's", which is "they're" or "they've"."""
    is_singular = contraction[1].lower() == "s"
    if is_singular != plural:
        return []
    new = "s"
    if plural:
        new = "ve" if pattern("verb_has").match(after, contraction.end()) else "re"
    return [Verb(contraction.start(1), contraction[1], cased(contraction[1], new))]


def _joined(after: str, start: int, plural: bool) -> Verb | None:
    """Return the second of two verbs joined by "and": right behind the first, or where hardly a noun can stand."""
    if plural:
        word = pattern("and_verb").match(after, start)
        if word:
            return _changing(word, plural)
    word = pattern("clause_verb").match(after, start)
    if not word:
        return None
    singular = _plain(word[1]) if plural else _other_form(_plain(word[1]), plural)
    if singular not in _JOINED:
        return None
    between = after[start : word.start(1)]
    if pattern("other_subject").search(between):
        return None
    if not plural and pattern("infinitive").search(between):
        return None
    return _changing(word, plural)


def _changing(word: re.Match[str], plural: bool) -> Verb | None:
    """Return a verb with its other form; None for what is no such form."""
    new = _other_form(_plain(word[1]), plural)
    return Verb(word.start(1), word[1], cased(word[1], new)) if new else None


def _other_form(word: str, plural: bool) -> str:
    """Return "walks" as "walk" or the reverse; empty for what is no such form.

    >>> [_other_form(word, True) for word in ("denies", "goes", "uses", "watches", "walked", "this")]
    ['deny', 'go', 'use', 'watch', '', '']
    >>> [_other_form(word, False) for word in ("deny", "go", "use", "watch", "walked", "could", "the")]
    ['denies', 'goes', 'uses', 'watches', '', '', '']
    """
    return _base_form(word) if plural else _third_person(word)


def _base_form(word: str) -> str:
    """Return "walks" as "walk"; empty for what is no third person."""
    if word in _BASE:
        return _BASE[word]
    if word in _NO_VERBS or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return ""
    if len(word) < 4:
        return ""
    if word.endswith("ies"):
        return word[:-3] + "y"
    return pattern("third_person_ending").sub("", word)


def _third_person(word: str) -> str:
    """Return "walk" as "walks"; empty for what is no present tense."""
    if word in _THIRD:
        return _THIRD[word]
    if word in _NO_THIRD or len(word) < 2:
        return ""
    if word.endswith(("ed", "ing")) and word not in _WHOLE:
        return ""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def begins_with_vowel(text: str) -> bool | None:
    """Tell whether a text is spoken with a vowel at its start, as "an" wants it; None where no word is there.

    >>> [begins_with_vowel(text) for text in ("uncle", "heir", "union", "80-year-old", "45", "WM", "…")]
    [True, True, False, True, False, False, None]
    >>> [begins_with_vowel(text) for text in ("honourable", "utter", "unironic", "utopian", "usable")]
    [True, True, True, False, False]

    Args:
        text: the text which begins with the word.
    """
    spoken = pattern("spoken").match(text)
    return None if spoken is None else bool(pattern("vowel").match(spoken[1]))


def article_before(before: str, old: str, new: str) -> tuple[int, str, str] | None:
    """Return the article that no longer fits before a new word; one that did not fit the old text either is left.

    >>> article_before("This is a ", "white man", "African American man"), article_before("a ", "man", "woman")
    ((-2, 'a', 'an'), None)

    Args:
        before: the text before the word.
        old: the word as it was.
        new: the word that stands in.

    Returns:
        The place where it begins (counted back from the end of ``before``, below zero), and both forms; or None.
    """
    article = _ARTICLE.search(before[-4:])
    if article is None:
        return None
    old_vowel = begins_with_vowel(old)
    new_vowel = begins_with_vowel(new)
    written = article[1]
    if old_vowel is None or new_vowel is None or old_vowel == new_vowel:
        return None
    if old_vowel != (len(written) == 2):
        return None
    form = written[0]
    if new_vowel:
        in_capitals = new[:2].isupper() and len(new.split()[0]) > 2
        form += "N" if in_capitals and written.isupper() else "n"
    return -len(written) - len(article[2]), written, form


def _plain(word: str) -> str:
    """Return a word in lower case with a straight apostrophe."""
    return word.lower().replace("’", "'")
