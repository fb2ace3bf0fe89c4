"""Features of the words around a gendered pronoun, for telling "his" from "him" where the text says "her"."""

from collections.abc import Iterator

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
