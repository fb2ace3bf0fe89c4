"""What the words beside a pronoun tell: "his" or "him", "hers" or "her", and which verbs and articles agree."""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.table import cased, pattern, weights_of, word_list

# --- "her" is "his" or "him" ------------------------------------------------------------------------------

_CLOSED = word_list("closed_words")
# Verbs that take a person and a thing ("gave her solace"), and verbs that take a person who does something
# ("helped her show"): after them a noun or a verb is no sign of "his".
_GIVE = word_list("giving_verb_forms")
_MAKE = word_list("making_verb_forms")
# Adjectives that say how a person is: after "make" and its like they are no sign of "his" ("made her sick").
_PREDICATE = word_list("predicate_adjectives")


def word_class(word: str) -> str:
    """``none`` (start or end of the text), ``closed``, ``digit``, ``punctuation`` or ``open``."""
    if not word:
        return "none"
    if not any(letter.isalpha() for letter in word):
        return "digit" if word[0].isdigit() else "punctuation"
    return "closed" if word in _CLOSED else "open"


def verb_class(word: str) -> str:
    """What the word before does with a person: ``give``, ``make`` or nothing known."""
    return "give" if word in _GIVE else "make" if word in _MAKE else "other"


def features(previous: str | None, following: str | None) -> list[str]:
    """Names of what is seen around the pronoun; None where a side is not known (only in counts).

    >>> features("of", "own")[:4]
    ['n=own', 'nc=open', 'ns=own', 'nt=wn']
    """
    found = []
    if following is not None:
        made = previous and verb_class(previous) == "make" and following in _PREDICATE
        kind = "closed" if made else word_class(following)
        found += [f"n={following}", f"nc={kind}"]
        found += [f"ns={following[-3:]}", f"nt={following[-2:]}"] if kind == "open" else []
    if previous is not None:
        kind = word_class(previous)
        verb = verb_class(previous)
        found += [f"p={previous}", f"pc={kind}", f"pv={verb}"]
        found += [f"ps={previous[-3:]}"] if kind == "open" else []
        if following is not None:
            after = word_class(following)
            found += [f"b={previous} {following}", f"c={kind} {after}", f"v={verb} {after}"]
            found += [f"vt={verb} {following[-2:]}"]
    return found


@cache
def _kinds() -> Mapping[str, str]:
    rows = read_table(corpus_dir("gender_lexicon") / "word_kinds.csv", ("word", "kind"))
    return {row["word"]: row["kind"] for row in rows}


_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", ""))


def word_kind(word: str) -> str:
    """``word_class``, and of an open word which of noun, verb, adjective and adverb (n, v, a, r) it may be.

    >>> word_kind("several"), word_kind("says"), word_kind("liver"), word_kind("with")
    ('a', 'nvs', 'na', 'closed')
    """
    kind = word_class(word)
    if kind != "open":
        return kind
    known = _kinds()
    if word in known:
        return known[word]
    found = (known.get(word[: -len(end)] + base) for end, base in _ENDINGS if word.endswith(end))
    return next((f"{one}s" for one in found if one), "n")


def is_past(word: str | None) -> bool:
    """Whether a word is a past tense and no adjective: "visited", but not "adopted" or "deceased"."""
    return bool(
        word and word not in _kinds() and (word.endswith("ed") or word in word_list("past_verbs"))
    )


def further_features(
    previous: str, following: str | None, second: str | None, opens: bool
) -> list[str]:
    """Names of what the word after the next one adds, and a sign that ``opens`` a quotation or a bracket.

    >>> further_features("had", "see", "the", False)[4:6]
    ['m=the', 'mc=nv closed']
    """
    if following is None:
        return []
    one = word_kind(following)
    two = "unknown" if second is None else word_kind(second)
    second = second or ""
    verb = verb_class(previous)
    found = [f"o={one}", f"o={one} {two}"] if opens else []
    if one in ("punctuation", "none"):
        return found if opens else [f"x={following}"]
    found += [
        f"k={one}",
        f"kc={word_class(previous)} {one}",
        f"kv={verb} {one}",
        f"kp={previous} {one}",
        f"m={second}",
        f"mc={one} {two}",
        f"vm={verb} {one} {two}",
        f"nm={following} {two}",
        f"nw={following} {second}",
    ]
    if word_class(following) == "open":
        last = second[-2:] if word_class(second) == "open" else second
        found += [
            f"tm={following[-2:]} {two}",
            f"sm={following[-3:]} {two}",
            f"tw={following[-2:]} {last}",
        ]
        found += [f"pm={previous} {two}"]
    return found


WINDOW = 100  # bytes on each side of a word that are looked at
NEAR = 60  # characters of them that tell most
SURE = 4.0  # log-odds of the two words beside a pronoun that the next but one is not looked at
_LEFT_OPEN = 3.5  # of SURE: the word behind the next one decides
_CERTAIN = 20.0


def last_word(before: str) -> str:
    """The word or sign before the pronoun, in lower case; blank at the start of the text.

    >>> last_word("She took "), last_word("")
    ('took', '')
    """
    chunk = before.split()[-1:]  # the pattern is anchored at the end and slow on long texts
    found = pattern("last_word").search(chunk[0]) if chunk else None
    return found.group(1).lower() if found else ""


def first_word(after: str) -> str | None:
    """The word or sign after the pronoun, in lower case; blank at the end, None for a removed name.

    >>> first_word(" own house."), first_word(" [**Hospital**]")
    ('own', None)
    """
    if pattern("removed_name").match(after):
        return None
    found = pattern("first_word").match(after)
    return found.group(1).lower() if found else ""


def second_word(after: str) -> str | None:
    """The word or sign behind ``first_word``.

    >>> second_word(" see the house."), second_word(" house."), second_word(" house")
    ('the', '.', '')
    """
    found = pattern("first_word").match(after)
    return first_word(after[found.end() :]) if found else ""


def partner(before: str, after: str) -> str:
    """The pronoun that stands beside this one as its alternative ("her/his", "him or her"), or blank.

    >>> partner("monitoring was placed on ", "/him, and")
    'him'
    """
    found = pattern("partner_after").match(after)
    if not found and before.rstrip().endswith(("/", "or")):
        found = pattern("partner_before").search(before)
    return found.group(1).lower() if found else ""


def log_odds_of_his(before: str, after: str) -> float:
    """log P(his) - log P(him) of a "her" by the text before and after it: weights learnt from "his" and "him"."""
    if pattern("declared_her").search(before[-NEAR:]) and pattern("declared_pronouns").match(after):
        return -_CERTAIN
    beside = partner(before[-NEAR:], after[:NEAR])
    if beside in ("his", "him"):
        return _CERTAIN if beside == "his" else -_CERTAIN
    return in_context(last_word(before[-NEAR:]), after[:NEAR])


# Two words that no person owns or that tell when ("prior to", "next week"), and that somebody owns ("back pain").
_UNOWNED, _OWNED = (
    frozenset(tuple(phrase.split("_")) for phrase in word_list(name))
    for name in ("unowned_phrases", "owned_phrases")
)
_OPENS_PHRASE = frozenset(first for first, _ in _UNOWNED | _OWNED)
# After feeding verbs a noun is often a thing ("gave him tablets"), but hardly ever somebody: "gave his son".
_SOMEBODY = word_list("somebody")
_FEEDS = word_list("feeding_verbs")
_LETS = word_list("letting_verbs")
_GIVEN = word_list("own_gifts")  # what is given is the giver's own: "gave her consent"
# After "have her" they are verbs; a noun behind them makes them nouns too ("sleep study"), a closed word does not.
_DOES = word_list("bare_verbs")
_OWN = frozenset({"hers", "ours", "theirs", "yours"})
_COUNTS = frozenset("one two three four five six seven eight nine ten several some".split())  # noqa: SIM905
_FED = 2.0  # of log-odds


def _leads_on(previous: str, following: str) -> bool:
    """Whether a closed word behind the next one leaves that no noun: an adverb, or a verb after "have her"."""
    is_adverb = (
        following.endswith("ly") and len(following) > 4 and following not in word_list("no_adverbs")
    )
    return is_adverb or (previous in _LETS and following in _DOES)


@lru_cache(maxsize=1 << 16)
def by_words(previous: str, following: str | None) -> float:
    """The built-in log-odds of "his" by the words beside "her" alone: ``last_word`` and ``first_word``."""
    if following in _OWN:
        return -SURE  # "gave her hers"
    if following in _SOMEBODY and previous not in ("is", "was", "be", "been", "being"):
        return SURE
    weights = weights_of("his_him_weights.csv")
    odds = weights["bias"] + sum(weights.get(name, 0.0) for name in features(previous, following))
    if previous in _FEEDS and following and (following[0].isdigit() or following in _COUNTS):
        return -SURE  # "gave her two units"
    if (
        previous in _FEEDS
        and following
        and word_class(following) == "open"
        and following not in _GIVEN
    ):
        odds -= _FED  # "gave her oral antibiotics"
    if following and (
        following in _OPENS_PHRASE or _leads_on(previous, following)
    ):  # however sure these two make it
        return max(-_LEFT_OPEN, min(odds, _LEFT_OPEN))
    return odds


def in_context(previous: str, after: str) -> float:
    """The built-in log-odds of "his": ``by_words``, and where these are not sure the word behind the next as well."""
    following = first_word(after)
    odds = by_words(previous, following)
    if abs(odds) >= SURE:
        return odds
    return odds + _by_second(
        previous, following, second_word(after), bool(pattern("opens_quotation").match(after))
    )


@lru_cache(maxsize=1 << 16)
def _by_second(previous: str, following: str | None, second: str | None, opens: bool) -> float:
    if following is not None and second is not None:
        if (following, second) in _OWNED:
            return _CERTAIN
        closed = word_class(second) not in ("open", "digit") and second not in ("-", "/")
        if (following, second) in _UNOWNED or (closed and _leads_on(previous, following)):
            return -_CERTAIN
    weights = weights_of("his_him_weights.csv")
    return sum(
        weights.get(name, 0.0) for name in further_features(previous, following, second, opens)
    )


# --- verbs that agree: "she walks", "they walk" -------------------------------------------------------------

_BASE = dict(
    pair.split("_") for pair in word_list("verb_forms")
)  # "is": "are"; of others by their ending
_THIRD = {base: third for third, base in _BASE.items()}
_NO_VERBS = word_list(
    "no_verbs"
)  # end like a verb after "he" and are none, or the same in singular and plural
_FIXED = word_list(
    "fixed_verb_forms"
)  # do not change with the person: modal verbs and past tenses without -ed
_NO_THIRD = _FIXED | _NO_VERBS | word_list("no_verb_after_they") | word_list("past_like_present")
_WHOLE = word_list("whole_ed_ing_verbs")  # in -ed or -ing, and yet no past tense or participle
_JOINED = word_list("joined_verbs")  # after "and" hardly ever nouns: "has a cough and takes pills"


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
    if found := pattern("contracted").match(after):
        return _contracted(found, after, plural)
    word = pattern("verb").match(after)
    inverted = pattern("verb_before").search(before)
    verb = _changing(word, plural) if word else None
    new = (_BASE if plural else _THIRD).get(_plain(inverted[1])) if inverted else None
    if (
        inverted
        and new
        and (verb is None or pattern("question").search(before[: inverted.start(1)]))
    ):
        return [Verb(inverted.start(1) - len(before), inverted[1], cased(inverted[1], new))]
    if not word:
        return []
    past = (
        plural
        and after[: word.start(1)].isspace()
        and (_plain(word[1]) in _FIXED or word[1].lower().endswith("ed"))
    )
    joined = (
        _joined(after, word.end(), plural) if verb or past else None
    )  # "had a tube and was fed"
    return [one for one in (verb, joined) if one]


def _contracted(found: re.Match[str], after: str, plural: bool) -> list[Verb]:
    """ "he's" is "they're" or "they've"."""
    form = found[1].lower()
    if (form == "s") != plural:
        return []
    has = pattern("verb_has").match(after, found.end())
    new = ("ve" if has else "re") if plural else "s"
    return [Verb(found.start(1), found[1], cased(found[1], new))]


def _joined(after: str, at: int, plural: bool) -> Verb | None:
    """The second of two verbs joined by "and": right behind the first, or where hardly a noun can stand."""
    word = pattern("and_verb").match(after, at) if plural else None
    if word is None:
        word = pattern("clause_verb").match(after, at)
        if (
            not word
            or (_plain(word[1]) if plural else _other_form(_plain(word[1]), plural)) not in _JOINED
        ):
            return None
        between = after[at : word.start(1)]
        if pattern("other_subject").search(between) or (
            not plural and pattern("infinitive").search(between)
        ):
            return None
    return _changing(word, plural)


def _changing(word: re.Match[str], plural: bool) -> Verb | None:
    new = _other_form(_plain(word[1]), plural)
    return Verb(word.start(1), word[1], cased(word[1], new)) if new else None


def _other_form(word: str, plural: bool) -> str:
    """ "walks" as "walk" or the reverse; blank for what is no such form.

    >>> [_other_form(word, True) for word in ("denies", "goes", "uses", "watches", "walked", "this")]
    ['deny', 'go', 'use', 'watch', '', '']
    >>> [_other_form(word, False) for word in ("deny", "go", "use", "watch", "walked", "could", "the")]
    ['denies', 'goes', 'uses', 'watches', '', '', '']
    """
    if known := (_BASE if plural else _THIRD).get(word):
        return known
    if plural:
        if (
            word in _NO_VERBS
            or not word.endswith("s")
            or word.endswith(("ss", "us", "is"))
            or len(word) < 4
        ):
            return ""
        return (
            word[:-3] + "y"
            if word.endswith("ies")
            else pattern("third_person_ending").sub("", word)
        )
    if word in _NO_THIRD or len(word) < 2 or (word.endswith(("ed", "ing")) and word not in _WHOLE):
        return ""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


# --- articles -----------------------------------------------------------------------------------------------

ARTICLE = re.compile(r"(?:^|[^\w'’-])(an?)(\s?)$", re.IGNORECASE)


def begins_with_vowel(text: str) -> bool | None:
    """Whether a text is spoken with a vowel at its start, as "an" wants it; None where no word is there.

    >>> [begins_with_vowel(text) for text in ("uncle", "heir", "union", "80-year-old", "45", "WM", "…")]
    [True, True, False, True, False, False, None]
    """
    found = pattern("spoken").match(text)
    return None if found is None else bool(pattern("vowel").match(found[1]))


def article_before(before: str, old: str, new: str) -> tuple[int, str, str] | None:
    """The article that no longer fits: where it begins (counted back from the end, below zero), and both forms.

    An article that did not fit the old text either is left.

    >>> article_before("This is a ", "white man", "African American man"), article_before("a ", "man", "woman")
    ((-2, 'a', 'an'), None)
    """
    found = ARTICLE.search(before[-4:])
    if found is None:
        return None
    vowels = (begins_with_vowel(old), begins_with_vowel(new))
    written = found[1]
    if None in vowels or vowels[0] == vowels[1] or vowels[0] != (len(written) == 2):
        return None
    capitals = new[:2].isupper() and len(new.split()[0]) > 2
    article = written[0] + (("N" if capitals and written.isupper() else "n") if vowels[1] else "")
    return -len(written) - len(found[2]), written, article


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")
