"""Which masculine word a feminine one stands for where there are two: "her" is "his" or "him"."""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping.table import pattern, weights_of, word_list

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


def features(previous: str | None, following: str | None) -> Iterator[str]:
    """Names of what is seen around the pronoun; None where a side is not known (only in counts).

    >>> list(features("of", "own"))[:4]
    ['n=own', 'nc=open', 'ns=own', 'nt=wn']
    """
    if following is not None:
        kind = (
            "closed"
            if previous and verb_class(previous) == "make" and following in _PREDICATE
            else word_class(following)
        )
        yield f"n={following}"
        yield f"nc={kind}"
        if kind == "open":
            yield f"ns={following[-3:]}"
            yield f"nt={following[-2:]}"
    if previous is not None:
        kind = word_class(previous)
        yield f"p={previous}"
        yield f"pc={kind}"
        yield f"pv={verb_class(previous)}"
        if kind == "open":
            yield f"ps={previous[-3:]}"
    if previous is not None and following is not None:
        yield f"b={previous} {following}"
        yield f"c={word_class(previous)} {word_class(following)}"
        yield f"v={verb_class(previous)} {word_class(following)}"
        yield f"vt={verb_class(previous)} {following[-2:]}"


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


def further_features(previous: str, following: str | None, second: str | None, opens: bool) -> Iterator[str]:
    """Names of what the word after the next one adds, and a sign that ``opens`` a quotation or a bracket.

    >>> list(further_features("had", "see", "the", False))[4:6]
    ['m=the', 'mc=nv closed']
    """
    if following is None:
        return
    one, two = word_kind(following), "unknown" if second is None else word_kind(second)
    second = second or ""
    if opens:
        yield f"o={one}"
        yield f"o={one} {two}"
    if one in ("punctuation", "none"):
        if not opens:
            yield f"x={following}"
        return
    verb = verb_class(previous)
    yield f"k={one}"
    yield f"kc={word_class(previous)} {one}"
    yield f"kv={verb} {one}"
    yield f"kp={previous} {one}"
    yield f"m={second}"
    yield f"mc={one} {two}"
    yield f"vm={verb} {one} {two}"
    yield f"nm={following} {two}"
    yield f"nw={following} {second}"
    if word_class(following) == "open":
        yield f"tm={following[-2:]} {two}"
        yield f"sm={following[-3:]} {two}"
        yield f"tw={following[-2:]} {second[-2:] if word_class(second) == 'open' else second}"
        yield f"pm={previous} {two}"


WINDOW = 100  # bytes on each side of a word that are looked at
NEAR = 60  # characters of them that tell most
_LEFT_OPEN = 3.5  # of SURE: the word behind the next one decides
SURE = 4.0  # log-odds of the two words beside a pronoun that the next but one is not looked at

# A word whole ("so-called"), a number or a sign; two or more dashes are one.
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
    if not found and before.rstrip().endswith(("/", "or", "and")):
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


# After them a noun is often a thing ("gave him tablets"), but hardly ever one of these: "gave his son".
_SOMEBODY = word_list("somebody")
_OWN = frozenset({"hers", "ours", "theirs", "yours"})
# Pronouns that somebody names: "she/her/hers", "uses she/her pronouns", "(she/her)".


# Two words that no person owns: "reviewed with him prior to leaving", "we called him several times".
_PHRASES = {
    "ahead": ("of",), "along": ("with",), "due": ("to",), "many": ("times",), "multiple": ("times",),
    "next": ("to",), "prior": ("to",), "several": ("times",), "subsequent": ("to",), "together": ("with",),
}  # fmt: skip


# Two words that somebody owns, or that tell when: "her back pain"; "see her next week", "met her last Tuesday".
_OWNED_PHRASES = {"back": word_list("owned_after_back")}
_TIMES = {
    "next": word_list("times"), "last": word_list("times") | {"night", "evening"}, "late": frozenset({"last"}),
    "early": frozenset({"on"}), "first": frozenset({"thing"}), "skin": frozenset({"to"}),
}  # fmt: skip
_FEEDS, _LETS = word_list("feeding_verbs"), word_list("letting_verbs")
_GIVEN = word_list("own_gifts")  # what is given is the giver's own: "gave her consent"
# After "have her" they are verbs; a noun behind them makes them nouns too ("sleep study"), a closed word does not.
_DOES = word_list("bare_verbs")
_COUNTS = frozenset("one two three four five six seven eight nine ten several some".split())  # noqa: SIM905
_FED = 2.0  # of log-odds


def _phrased(previous: str, following: str | None, second: str | None) -> float:
    """What two words behind "her" tell at once: log-odds for sure, 0 where they are no such phrase."""
    if following is None or second is None:
        return 0.0
    if second in _OWNED_PHRASES.get(following, ()):
        return _CERTAIN
    if second in _PHRASES.get(following, ()) or second in _TIMES.get(following, ()):
        return -_CERTAIN
    closed = word_class(second) not in ("open", "digit") and second not in ("-", "/")
    return -_CERTAIN if closed and (_is_adverb(following) or (previous in _LETS and following in _DOES)) else 0.0


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and len(word) > 4 and word not in word_list("no_adverbs")


def _asks_further(previous: str, following: str) -> bool:
    """Whether the word behind the next one is looked at, however sure the words beside the pronoun make it."""
    phrase = following in _PHRASES or following in _TIMES or following in _OWNED_PHRASES
    return phrase or _is_adverb(following) or (previous in _LETS and following in _DOES)


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
    if previous in _FEEDS and following and word_class(following) == "open" and following not in _GIVEN:
        odds -= _FED  # "gave her oral antibiotics"
    return max(-_LEFT_OPEN, min(odds, _LEFT_OPEN)) if following and _asks_further(previous, following) else odds


def in_context(previous: str, after: str) -> float:
    """The built-in log-odds of "his": ``by_words``, and where these are not sure the word behind the next as well."""
    following = first_word(after)
    odds = by_words(previous, following)
    if abs(odds) >= SURE:
        return odds
    return odds + _by_second(previous, following, second_word(after), bool(pattern("opens_quotation").match(after)))


@lru_cache(maxsize=1 << 16)
def _by_second(previous: str, following: str | None, second: str | None, opens: bool) -> float:
    if odds_of_phrase := _phrased(previous, following, second):
        return odds_of_phrase
    weights = weights_of("his_him_weights.csv")
    return sum(weights.get(name, 0.0) for name in further_features(previous, following, second, opens))


def is_pronoun(before: str, after: str) -> bool:
    """Whether "his" stands for a noun ("a friend of his.") and so is "hers", not "her".

    Only where hardly a noun can follow: a wrong "hers" makes no sentence, and "her" for "hers" is still understood.

    >>> is_pronoun("a friend of ", "."), is_pronoun("the size of ", " liver")
    (True, False)
    """
    if pattern("and_hers").match(after) or pattern("declared_his").search(before):
        return True
    if partner(before, after):  # "her/his"
        return False
    if pattern("clause_ended").match(after):
        return bool(before.strip())
    previous, owned = last_word(before), bool(pattern("owned_noun").search(before[-NEAR:]))
    if previous == "of" and not owned and (pattern("is_or_was").match(after) or pattern("aside").match(after)):
        return False
    if pattern("is_or_was").match(after):
        return before[-1:].isspace() or not before
    if previous in _POSSESSED and (pattern("clause_paused").match(after) or pattern("to_keep").match(after)):
        return True
    if previous != "of":
        return False
    return bool(
        pattern("clause_follows").match(after)
        or (owned and (pattern("preposition_follows").match(after) or _is_past(first_word(after))))
    )


def _is_past(word: str | None) -> bool:
    """Whether a word is a past tense and no adjective: "visited", but not "adopted" or "deceased"."""
    return bool(word and word not in _kinds() and (word.endswith("ed") or word in word_list("past_verbs")))


def stands_alone(previous: str, following: str) -> bool | None:
    """``is_pronoun`` by the words before and after alone; None where it takes more of the text."""
    if not following.isalpha() or following in ("is", "was") or previous in _POSSESSED:
        return None
    return False


_POSSESSED = ("of", "is", "was", "were", "are", "be", "been", "than", "as", "not", "like", *(
    f"{word}{mark}{end}" for mark in "'’" for word, end in (
        ("it", "s"), ("that", "s"), ("this", "s"), ("which", "s"), ("what", "s"), ("they", "re"), ("these", "re"),
        ("isn", "t"), ("wasn", "t"), ("aren", "t"), ("weren", "t"),
    )
))  # fmt: skip
