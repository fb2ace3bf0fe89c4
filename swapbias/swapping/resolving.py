"""Which masculine word a feminine one stands for where there are two: "her" is "his" or "him"."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Protocol

from swapbias.studies import corpus_dir, read_table

_CLOSED = frozenset(
    """
    a about above across after again against ago all alone along already also although always am an and
    another any anyone anything anyway apart are around as aside at away back be because been before
    behind being below beneath beside between beyond both but by can could despite did do does down
    during each either else enough even ever every everyone everything except far for forever forward
    from had has have he her here him his home how i if in inside instead into is it its just like may
    me might more much must my near neither never no nor not nothing now of off often on once one only
    onto or our out outside over per perhaps please quite rather regarding s shall she should since so
    some someone something sometimes soon still such than that the their them then there these they this
    those though through throughout thus till to today together tomorrow tonight too toward towards
    twice under unless until up upon us very via was we were what when whenever where whether which
    while who whom whose why will with within without would yesterday yet you your
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
# Verbs that take a person and a thing ("gave her solace"), and verbs that take a person who does something
# ("helped her show"): after them a noun or a verb is no sign of "his".
_GIVE = frozenset(
    f"{form}"
    for forms in (
        "give gives giving gave given", "offer offers offering offered", "show shows showing showed shown",
        "pay pays paying paid", "sell sells selling sold",
        "provide provides providing provided", "charge charges charging charged", "send sends sending sent",
        "wish wishes wishing wished", "teach teaches teaching taught", "hand hands handing handed",
        "lend lends lending lent", "bring brings bringing brought", "buy buys buying bought",
        "cause causes causing caused", "ask asks asking asked", "transfuse transfused transfusing",
        "grant grants granting granted", "deny denies denying denied", "owe owes owing owed",
        "promise promises promising promised", "award awards awarding awarded", "cost costs costing",
        "serve serves serving served", "feed feeds feeding fed", "write writes writing wrote",
        "call calls calling called", "name names naming named", "consider considers considering considered",
    )
    for form in forms.split()
)  # fmt: skip
_MAKE = frozenset(
    f"{form}"
    for forms in (
        "help helps helping helped", "bother bothers bothering bothered", "discharge discharged",
        "make makes making made", "let lets letting", "see sees seeing saw seen",
        "watch watches watching watched", "hear hears hearing heard", "have has having had",
        "keep keeps keeping kept", "find finds finding found", "get gets getting got", "leave leaves leaving left",
        "prove proves proving proved", "treat treats treating treated", "take takes taking took taken",
        "drive drives driving drove", "send", "like likes liked", "start started starting", "place placed",
    )
    for form in forms.split()
)  # fmt: skip


# Adjectives that say how a person is: after "make" and its like they are no sign of "his" ("made her sick").
_PREDICATE = frozenset(
    """
    able afraid alert alive alone angry awake aware asleep better comfortable confused dizzy drowsy
    fatigued happy hungry ill late nauseated nauseous nervous npo pain-free pregnant quiet ready sad
    safe short sick sleepy stable still thirsty tired unable uncomfortable unsteady unresponsive upset
    warm weak worse worried
    """.split()  # noqa: SIM905
)


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


WINDOW = 100  # bytes on each side that a resolver is shown
NEAR = 60  # characters of them that tell most
SHARE = 0.5
DOUBTFUL = 1.5  # log-odds within this of zero are counted as doubtful

_LAST = re.compile(r"([^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[^\w\s])\s*$")
_FIRST = re.compile(r"\s*([^\W\d_]+|\d+|[^\w\s])")
_PLACEHOLDER = re.compile(r"\s*(?:\[\*\*|_{2,})")  # a de-identified name: some noun
_PARTNER_AFTER = re.compile(r"\s*(?:/|\b(?:or|and)\b)\s*(his|him|hers|her)\b", re.IGNORECASE)
_PARTNER_BEFORE = re.compile(r"\b(his|him|hers|her)\s*(?:/|\b(?:or|and)\b)\s*$", re.IGNORECASE)
_CERTAIN = 20.0


class Resolver(Protocol):
    """Tells "his" from "him" where the text says "her".

    ``name`` stands in reports.
    """

    name: str

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """log P(his) - log P(him) for each "her", from the text before it and after it; 0 is undecided."""
        ...


def last_word(before: str) -> str:
    """The word or sign before the pronoun, in lower case; blank at the start of the text.

    >>> last_word("She took "), last_word("")
    ('took', '')
    """
    chunk = before.split()[-1:]  # the pattern is anchored at the end and slow on long texts
    found = _LAST.search(chunk[0]) if chunk else None
    return found.group(1).lower() if found else ""


def first_word(after: str) -> str | None:
    """The word or sign after the pronoun, in lower case; blank at the end, None for a removed name.

    >>> first_word(" own house."), first_word(" [**Hospital**]")
    ('own', None)
    """
    if _PLACEHOLDER.match(after):
        return None
    found = _FIRST.match(after)
    return found.group(1).lower() if found else ""


def partner(before: str, after: str) -> str:
    """The pronoun that stands beside this one as its alternative ("her/his", "him or her"), or blank.

    >>> partner("monitoring was placed on ", "/him, and")
    'him'
    """
    found = _PARTNER_AFTER.match(after)
    if not found and before.rstrip().endswith(("/", "or", "and")):
        found = _PARTNER_BEFORE.search(before)
    return found.group(1).lower() if found else ""


class WordResolver:
    """The built-in resolver: weights of the words next to the pronoun, learnt from "his" and "him" themselves."""

    name = "built-in"

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """See ``Resolver``."""
        return [self._one(left, right) for left, right in zip(before, after, strict=True)]

    def _one(self, left: str, right: str) -> float:
        beside = partner(left[-NEAR:], right[:NEAR])
        if beside in ("his", "him"):
            return _CERTAIN if beside == "his" else -_CERTAIN
        return by_words(last_word(left[-NEAR:]), first_word(right[:NEAR]))


class SecondedResolver:
    """A model's log-odds and ``SHARE`` of the built-in ones.

    The words next to the pronoun, counted in much text, mend what a small model gets wrong; a sure one outvotes them.
    """

    def __init__(self, first: Resolver) -> None:
        """Add the built-in resolver to another."""
        self._first, self._words = first, WordResolver()
        self.name = f"{first.name} + {SHARE} {self._words.name}"

    def log_odds(self, before: Sequence[str], after: Sequence[str]) -> list[float]:
        """See ``Resolver``."""
        both = zip(self._first.log_odds(before, after), self._words.log_odds(before, after), strict=True)
        return [model + SHARE * words for model, words in both]


@cache
def _weights() -> Mapping[str, float]:
    rows = read_table(corpus_dir("gender_lexicon") / "his_him_weights.csv", ("feature", "weight"))
    return {row["feature"]: float(row["weight"]) for row in rows}


@lru_cache(maxsize=1 << 16)
def by_words(previous: str, following: str | None) -> float:
    """The built-in log-odds of "his" by the words beside "her" alone: ``last_word`` and ``first_word``."""
    weights = _weights()
    return weights["bias"] + sum(weights.get(name, 0.0) for name in features(previous, following))


def is_pronoun(before: str, after: str) -> bool:
    """Whether "his" stands for a noun ("a friend of his.") and so is "hers", not "her".

    >>> is_pronoun("a friend of ", "."), is_pronoun("the size of ", " liver")
    (True, False)
    """
    if partner(before, after) == "hers":
        return True
    following = first_word(after)
    return following is not None and stands_alone(last_word(before), following, after)


def stands_alone(previous: str, following: str, after: str) -> bool:
    """``is_pronoun`` by the words before and after, and by how the text after begins."""
    closed = previous in _POSSESSED and word_class(following) in ("none", "punctuation", "closed")
    return closed and not _OPENS.match(after)


_POSSESSED = ("of", "is", "was", "were", "are", "be", "been", "than", "as", "not")
_OPENS = re.compile(r"\s*(?:[\"'“‘(\[]|(?:all|own|many|much|few|most|two|only|then|now|once|not)\b)")
