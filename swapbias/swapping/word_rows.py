"""Decide by a few words in a row whether "her" is "him" or "his": "made her notice you", "gave her name"."""

from swapbias.swapping.neighbours import is_common, word_class, word_kind
from swapbias.swapping.rule_tables import word_list

HIM = -1
"""Answer of a rule: the pronoun is "him"."""
HIS = 1
"""Answer of a rule: the pronoun is "his"."""
UNDECIDED = 0
"""Answer where no rule holds."""

COUNTS = word_list("numbers_of_things")
"""Words for numbers of things."""
_NUMBERS = COUNTS - {"several", "some"}
_LETS = word_list("letting_verbs")
_HAS = frozenset({"had", "has", "have", "having"})
_DOES = word_list("bare_verbs")
_GOES_ON = word_list("going_on")
_CONJUNCTIONS = word_list("conjunctions")
_SENT_BACK = word_list("sent_back")
_FINITE = word_list("finite_verbs")
_OBJECTS = word_list("determiners_and_objects")
_BESIDE = word_list("persons_beside")
_MAKING = word_list("making_verb_forms")
_FEEDS = word_list("feeding_verbs")
_WISHES = word_list("wishing_verbs")
_PARTICIPLES = word_list("participles") | {"done", "moved", "left", "transferred"}
_AMOUNTS = word_list("amounts")
_DISTANCES = frozenset({"times", "mile", "miles"})  # nobody's own
_OWN_AMOUNT = word_list("before_own_amount")
_WHEN = word_list("timed_adverbs")
_TIMES = word_list("times")
_PERSONS = word_list("somebody") | word_list("others")
_COMPLEMENTS = word_list("complements")
_ADVERBS = word_list("adverbs_behind_persons")
_PREDICATE = word_list("predicate_adjectives")
_PRESCRIBES = word_list("prescribing_verbs")
_ATTRIBUTES = word_list("attributes")
_CATCHES = word_list("verbs_of_finding")
_FINDS = frozenset({"find", "finds", "finding", "found"})
_MAKES = frozenset({"make", "makes", "making", "made"})
_NOUNS_IN_ING = word_list("nouns_in_ing")
_VERBS_ALONE = word_list("unowned_verbs")
_ALSO_NOUNS = word_list("verbs_used_as_nouns")
_NAMES = word_list("naming_verbs")
_BODY = word_list("body_parts")
_JOINED = frozenset({"and", "or"})
_LATER = frozenset("again before by now soon today tomorrow tonight until".split())  # noqa: SIM905
# Verbs or words before a pronoun, and words behind it, that decide together.
_PAIRS = (
    (word_list("doing_verbs"), word_list("done_to_persons"), HIM),  # "do her harm"
    (word_list("taking_time"), word_list("lengths_of_time"), HIM),  # "took her weeks"
    (_FINDS, word_list("found_colors"), HIM),  # "found her limp"
    (word_list("wishing_well"), word_list("wishes_for_persons"), HIM),
    (word_list("bringing_verbs"), word_list("gifts"), HIM),  # "sent her flowers"
    (word_list("telling_verbs"), word_list("told_things"), HIM),
    (word_list("telling_verbs"), word_list("told_persons"), HIS),
    (frozenset({"serve", "served", "serves"}), frozenset({"right"}), HIM),
    (_MAKES, word_list("made_own"), HIS),
    (word_list("taking_time"), frozenset({"leave"}), HIS),
    (frozenset({"get", "gets", "got", "getting"}), frozenset({"start"}), HIS),
    (_FEEDS, word_list("given_own"), HIS),
    (word_list("charging_verbs"), word_list("charged_things"), HIS),
    (word_list("before_own_back"), frozenset({"back"}), HIS),
    (frozenset({"bring", "bringing", "brings", "brought"}), word_list("own_belongings"), HIS),
    (frozenset({"take", "takes", "taking", "took"}), word_list("taken_by_oneself"), HIS),
    (frozenset({"treat", "treated", "treating", "treats"}), word_list("treated_things"), HIS),
)
# Likewise pairs that the word behind them decides, and words before a participle that it decides.
_OPEN_PAIRS = ((_WISHES, _PARTICIPLES), (_FEEDS, _BODY), (_LETS, frozenset({"home"})))
_BEFORE_ED = _BESIDE | _WISHES
_BEFORE_ING = _LETS | _CATCHES


def by_pair(previous: str, following: str) -> int:
    """Return what the words beside a pronoun make it: ``HIM``, ``HIS`` or ``UNDECIDED``.

    >>> by_pair("took", "weeks"), by_pair("gave", "name"), by_pair("saw", "leg")
    (-1, 1, 0)

    Args:
        previous: the word before it in lower case.
        following: the word behind it in lower case.
    """
    if following in _FINITE or following in _CONJUNCTIONS:
        return HIM  # "the man beside her got up", "sat with her until five"
    if previous in _NAMES and following not in _PERSONS:
        return HIM  # "elected her chairman"
    if previous in _PRESCRIBES and word_class(following) == "open":
        return UNDECIDED if following in _ATTRIBUTES else HIM
    for before, behind, answer in _PAIRS:
        if previous in before and following in behind:
            return answer
    is_verb = following in _VERBS_ALONE or (
        word_kind(following) == "v" and following not in _ALSO_NOUNS
    )
    return HIM if is_verb and previous in _LETS else UNDECIDED  # "have her see audiology"


def may_be_row(previous: str, following: str) -> bool:
    """Tell whether the word behind the next one may decide by ``by_row``.

    Args:
        previous: the word before the pronoun in lower case.
        following: the word behind it in lower case.
    """
    if following in _NUMBERS or following[0].isdigit() or following in _WHEN:
        return True
    if following.endswith("ed") and previous in _BEFORE_ED:
        return True
    if following.endswith("ing") and previous in _BEFORE_ING:
        return True
    if any(previous in before and following in behind for before, behind in _OPEN_PAIRS):
        return True
    if previous in _LETS and _may_be("v", following):
        return True
    return (previous in _MAKING or previous in _FEEDS) and _may_be("a", following)


def by_row(previous: str, following: str, second: str) -> int:
    """Return what three words make a pronoun: ``HIM``, ``HIS`` or ``UNDECIDED``.

    >>> by_row("made", "notice", "you"), by_row("saw", "early", "family"), by_row("saw", "early", "monday")
    (-1, 1, 0)

    Args:
        previous: the word before it in lower case.
        following: the word behind it in lower case.
        second: the word behind that one in lower case; empty at the end of the text.
    """
    if following in _NUMBERS or following[0].isdigit():
        return _by_amount(previous, following, second)
    answer = _by_noun(previous, following, second)
    if answer != UNDECIDED:
        return answer
    if previous in _LETS or (following.endswith("ing") and previous in _CATCHES):
        return _by_verb(previous, following, second)
    if not following.endswith("ed") and following not in _PARTICIPLES:
        return UNDECIDED
    if previous in _WISHES:
        is_open = word_class(second) == "open"
        ends = not is_open or second in _TIMES or second in _PREDICATE
        return HIM if ends else UNDECIDED  # "wants her seen today"
    is_verb = previous in _BESIDE and second in _OBJECTS and following.endswith("ed")
    return HIM if is_verb else UNDECIDED  # "the man behind her sucked the blood"


def _by_noun(previous: str, following: str, second: str) -> int:
    """Return what a pronoun is before a word that a noun follows or that may be one itself: "her right eye"."""
    is_open = word_class(second) == "open"
    if following == "back" and previous in _SENT_BACK:
        return UNDECIDED if is_open else HIM
    if following in _WHEN or following == "right":
        return HIS if is_open and second not in _TIMES else UNDECIDED
    if second in _PERSONS and _may_be("a", following):
        is_said = following in _COMPLEMENTS or following in _ADVERBS
        return UNDECIDED if is_said else HIS
    is_done = previous in _FEEDS and following in _BODY and second in ("a", "an")
    return HIS if is_done else UNDECIDED  # "gave her hair a brush"


def _by_amount(previous: str, following: str, second: str) -> int:
    """Return what an amount behind a pronoun makes it: "gave her two mg", "carried her nine miles"."""
    if second in _DISTANCES:
        return HIM
    if second in _AMOUNTS:
        return UNDECIDED if previous in _OWN_AMOUNT else HIM
    is_year = following.isdigit() and len(following) == 4 and following[:2] in ("18", "19", "20")
    return HIS if is_year and word_class(second) == "open" else UNDECIDED


def _by_verb(previous: str, following: str, second: str) -> int:
    """Return what a word that may be a verb makes a pronoun after "let", "made" or "saw"."""
    if following == "home":
        return HIM if previous in _HAS and second in _LATER else UNDECIDED
    if following.endswith("ing"):
        return _by_participle(previous, following, second)
    if not _may_be("v", following):
        return UNDECIDED
    if second in _OBJECTS and (previous not in _HAS or following in _DOES):
        return HIM
    return HIM if following in _GOES_ON and second.endswith("ing") else UNDECIDED


def _by_participle(previous: str, following: str, second: str) -> int:
    """Return what a word in "ing" makes a pronoun after "saw" or "found": "saw her riding", not "saw her wedding"."""
    is_noun = following in _NOUNS_IN_ING or is_common(following)
    if is_noun or previous in _HAS or previous in _MAKES:
        return UNDECIDED
    goes_on = second in _JOINED or (second != "w" and word_class(second) == "open")
    return UNDECIDED if goes_on else HIM


def _may_be(kind: str, word: str) -> bool:
    """Tell whether a word may be a verb ("v"), an adjective ("a") or a noun ("n")."""
    if kind == "a" and (word in _PREDICATE or ("-" in word and word[-1].isalpha())):
        return True  # "her well-known friend"
    return word_class(word) == "open" and kind in word_kind(word)
