"""Decide whether "her" is "his" or "him", by a logistic model of the words beside it."""

from functools import lru_cache

from swapbias.swapping.neighbours import (
    NEAR,
    first_word,
    is_common,
    last_word,
    line_ends,
    names_owned_noun,
    partner,
    second_word,
    verb_class,
    word_class,
    word_kind,
)
from swapbias.swapping.rule_tables import pattern, weights_of, word_list
from swapbias.swapping.word_rows import COUNTS, HIM, HIS, UNDECIDED, by_pair, by_row, may_be_row

SURE = 4.0
"""Log-odds of the two words beside a pronoun from which on the next but one is not looked at."""
_LEFT_OPEN = 3.5  # of SURE: the word behind the next one decides
_ROW_OPEN = 3.75  # of SURE: the word behind the next one decides, but only by a rule
_CERTAIN = 20.0
_FED = 2.0  # of log-odds

# Adjectives that say how a person is: after "make" and its like they are no sign of "his" ("made her sick").
_PREDICATE = word_list("predicate_adjectives")
# Two words that no person owns or that tell when ("prior to", "next week"), and that somebody owns ("back pain").
_UNOWNED, _OWNED = (
    frozenset(tuple(phrase.split("_")) for phrase in word_list(name))
    for name in ("unowned_phrases", "owned_phrases")
)
_OPENS_PHRASE = frozenset(first for first, _ in _UNOWNED | _OWNED)
# After feeding verbs a noun is often a thing ("gave him tablets"), but hardly ever somebody: "gave his son".
_SOMEBODY = word_list("somebody")
_FEEDS = word_list("feeding_verbs")
_HANDS = frozenset({"fed", "feed", "feeding", "feeds", "offered"})
_LETS = word_list("letting_verbs")
_SENDS = word_list("sending_verbs")
_KEEPS_HOME = word_list("before_own_home")  # "visited her home"
_ALLOWS = frozenset({"let", "lets", "letting"})
_GIVEN = word_list("own_gifts")  # what is given is the giver's own: "gave her consent"
# After "have her" they are verbs; a noun behind them makes them nouns too ("sleep study"), a closed word does not.
_DOES = word_list("bare_verbs")
# Words that open shorthand ("w/", "re:") and abbreviations ("Dr."): the text behind them decides.
_SHORTHAND = word_list("after_her")
_COMPLEMENTS = word_list("complements")
_COMPLEMENT_VERBS = word_list("complement_verbs") | word_list("making_verb_forms")
_ADJECTIVE_ENDINGS = tuple(word_list("adjective_endings"))
_ATTRIBUTES = word_list("attributes")
_JOINS = word_list("joining_words")
_ADVERBS = word_list("adverbs_behind_persons")
_OWN = frozenset({"hers", "ours", "theirs", "yours"})


def features(previous: str | None, following: str | None) -> list[str]:
    """Return the names of what is seen around a pronoun.

    >>> features("of", "own")[:4]
    ['n=own', 'nc=open', 'ns=own', 'nt=wn']

    Args:
        previous: the word before it in lower case; None where it is not known (only in counts).
        following: the word after it in lower case; None where it is not known or a removed name.
    """
    names = []
    if following is not None:
        kind = word_class(following)
        if previous and verb_class(previous) == "make" and following in _PREDICATE:
            kind = "closed"
        names += [f"n={following}", f"nc={kind}"]
        if kind == "open":
            names += [f"ns={following[-3:]}", f"nt={following[-2:]}"]
    if previous is not None:
        kind = word_class(previous)
        verb = verb_class(previous)
        names += [f"p={previous}", f"pc={kind}", f"pv={verb}"]
        if kind == "open":
            names.append(f"ps={previous[-3:]}")
        if following is not None:
            after = word_class(following)
            names += [f"b={previous} {following}", f"c={kind} {after}", f"v={verb} {after}"]
            names.append(f"vt={verb} {following[-2:]}")
    return names


def further_features(
    previous: str, following: str | None, second: str | None, opens: bool
) -> list[str]:
    """Return the names of what the word after the next one adds.

    >>> further_features("had", "see", "the", False)[4:6]
    ['m=the', 'mc=nv closed']

    Args:
        previous: the word before the pronoun.
        following: the word after it; None for a removed name.
        second: the word behind that one; None for a removed name.
        opens: a sign after the pronoun opens a quotation or a bracket.
    """
    if following is None:
        return []
    kind = word_kind(following)
    second_kind = "unknown" if second is None else word_kind(second)
    second = second or ""
    verb = verb_class(previous)
    names = [f"o={kind}", f"o={kind} {second_kind}"] if opens else []
    if kind in ("punctuation", "none"):
        return names if opens else [f"x={following}"]
    names += [
        f"k={kind}",
        f"kc={word_class(previous)} {kind}",
        f"kv={verb} {kind}",
        f"kp={previous} {kind}",
        f"m={second}",
        f"mc={kind} {second_kind}",
        f"vm={verb} {kind} {second_kind}",
        f"nm={following} {second_kind}",
        f"nw={following} {second}",
    ]
    if word_class(following) == "open":
        last = second[-2:] if word_class(second) == "open" else second
        names += [
            f"tm={following[-2:]} {second_kind}",
            f"sm={following[-3:]} {second_kind}",
            f"tw={following[-2:]} {last}",
            f"pm={previous} {second_kind}",
        ]
    return names


def log_odds_of_his(before: str, after: str) -> float:
    """Return log P(his) - log P(him) of a "her": weights learnt from "his" and "him".

    Args:
        before: the text before it.
        after: the text after it.
    """
    if pattern("declared_her").search(before[-NEAR:]) and pattern("declared_pronouns").match(after):
        return -_CERTAIN
    alternative = partner(before[-NEAR:], after[:NEAR])
    if alternative == "his":
        return _CERTAIN
    if alternative == "him":
        return -_CERTAIN
    closing = pattern("closes_quotation").match(after)
    opening = pattern("quotes_before").search(before) if closing else None
    if closing and opening:  # marks around this word alone: "told *her* to rest"
        before = before[: opening.start()]
        after = after[closing.end() :]
    previous = last_word(before[-NEAR:])
    if (closing and not opening) or line_ends(before, after):
        return by_words(previous, ".")
    return in_context(previous, after[:NEAR])


def _ends_like_adverb(word: str) -> bool:
    """Tell whether a word is most likely an adverb: "safely", not "family"."""
    return word.endswith("ly") and len(word) > 4 and word not in word_list("no_adverbs")


def _leads_on(previous: str, following: str) -> bool:
    """Tell whether a closed word behind the next one leaves no noun: an adverb, "home", a verb after "have her"."""
    if following in _ADVERBS or _ends_like_adverb(following):
        return True
    return (previous in _LETS and following in _DOES) or (
        previous in _SENDS and following == "home"
    )


def _is_doubtful(previous: str, following: str | None) -> bool:
    """Tell whether the text behind two words may say that no noun follows, however sure these two make it."""
    if not following:
        return False
    if following in _SHORTHAND or following in _COMPLEMENTS or following in _OPENS_PHRASE:
        return True
    if previous in _ALLOWS and word_class(following) == "open":
        return True
    return _may_complement(previous, following) or _leads_on(previous, following)


def _may_complement(previous: str, following: str) -> bool:
    """Tell whether a word may say how a person is: "found her unresponsive"."""
    if following in _COMPLEMENTS:
        return True
    if previous not in _COMPLEMENT_VERBS or following in _ATTRIBUTES:
        return False
    is_adjective = {*word_kind(following)} <= {"a", "r"} or (
        len(following) > 6 and not is_common(following) and following.endswith(_ADJECTIVE_ENDINGS)
    )
    return following in _PREDICATE or is_adjective


@lru_cache(maxsize=1 << 16)
def by_words(previous: str, following: str | None) -> float:
    """Return the log-odds of "his" by the words beside "her" alone.

    Args:
        previous: as ``last_word`` returns it.
        following: as ``first_word`` returns it.
    """
    if following in _OWN:
        return -SURE  # "gave her hers"
    answer = by_pair(previous, following) if following else 0
    if answer:
        return SURE * answer
    if following in _SOMEBODY and previous not in ("is", "was", "be", "been", "being"):
        return SURE
    weights = weights_of("his_him_weights.csv")
    odds = weights["bias"] + sum(weights.get(name, 0.0) for name in features(previous, following))
    if not following:
        return odds
    if previous in _FEEDS:
        if following[0].isdigit() or following in COUNTS:
            return -SURE  # "gave her two units"
        if word_class(following) == "open" and following not in _GIVEN:
            odds -= 2 * _FED if previous in _HANDS else _FED  # "gave her oral antibiotics"
    if _is_doubtful(previous, following):
        return max(-_LEFT_OPEN, min(odds, _LEFT_OPEN))  # however sure these two make it
    if abs(odds) >= SURE and may_be_row(previous, following):
        return _ROW_OPEN if odds > 0 else -_ROW_OPEN
    return odds


def in_context(previous: str, after: str) -> float:
    """Return the log-odds of "his": ``by_words``, and where these are not sure by the word behind the next as well.

    Args:
        previous: as ``last_word`` returns it.
        after: the text after the pronoun.
    """
    following = first_word(after)
    if following is None and names_owned_noun(after):
        return _CERTAIN
    shorthand = _by_shorthand(following, after)
    if shorthand:
        return shorthand
    odds = by_words(previous, following)
    if abs(odds) >= SURE:
        return odds
    second = second_word(after)
    if following and second is not None and abs(odds) == _ROW_OPEN:
        return _CERTAIN * by_row(previous, following, second) or odds
    if following and _closes(second):
        if _may_complement(previous, following):
            return -_CERTAIN
        if previous in _ALLOWS and "v" in word_kind(following):
            return -_CERTAIN  # "let her rest."
    opens = bool(pattern("opens_quotation").match(after))
    return odds + _by_second(previous, following, second, opens)


def _by_shorthand(following: str | None, after: str) -> float:
    """Return the log-odds of "his" before shorthand, a date or an abbreviation; 0 where none stands there."""
    if following and following[0].isalpha() and following not in _SHORTHAND:
        return 0.0
    if pattern("shorthand").match(after):
        return -_CERTAIN
    if pattern("abbreviation_like_word").match(after):
        return _CERTAIN
    return _CERTAIN if pattern("abbreviated_person").match(after) else 0.0


def _closes(second: str | None) -> bool:
    """Tell whether a word ends what is said of a person: the end, a sign, or a word that joins something else."""
    return second is not None and (not second[:1].isalnum() or second in _JOINS)


@lru_cache(maxsize=1 << 16)
def _by_second(previous: str, following: str | None, second: str | None, opens: bool) -> float:
    """Return the log-odds that the word behind the next one adds."""
    if following and second is not None:
        answer = _by_phrase(previous, following, second)
        if answer:
            return _CERTAIN * answer
    weights = weights_of("his_him_weights.csv")
    names = further_features(previous, following, second, opens)
    return sum(weights.get(name, 0.0) for name in names)


def _by_phrase(previous: str, following: str, second: str) -> int:
    """Return what three words make a pronoun by rules: above zero "his", below zero "him", else undecided."""
    if (following, second) in _OWNED:
        return HIS
    if (following, second) in _UNOWNED:
        return HIM
    answer = by_row(previous, following, second)
    if answer != UNDECIDED:
        return answer
    is_closed = word_class(second) not in ("open", "digit") and second not in ("-", "/")
    if is_closed and following == "home" and previous in _KEEPS_HOME:
        return HIS
    goes_on = is_closed or _ends_like_adverb(second)
    return HIM if goes_on and _leads_on(previous, following) else UNDECIDED
