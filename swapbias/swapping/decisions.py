"""What each found term becomes: whether it is gendered where it stands, its case, its neutral word, what agrees."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from swapbias.studies import corpus_dir, read_table
from swapbias.swapping import grammar
from swapbias.swapping.grammar import NEAR, SURE, WINDOW
from swapbias.swapping.matches import MASKS, SPACE, Ints, Text, eights
from swapbias.swapping.table import (
    ALONE,
    GLUED,
    OBJECTS,
    SwapTable,
    Term,
    cased,
    pattern,
    rules,
    rules_by_word,
    unit_of,
    word_list,
)

# --- whether a term is gendered where it stands: rules --------------------------------------------------

_NAMES = {
    None,
    *(
        row["word"]
        for row in read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    ),
}
_POSSESSED = word_list("before_possessed")  # "it is his", "a friend of his"
FACTS: Mapping[
    str, Callable[[str, str, str], bool]
] = {  # of a term, what is before and after it; names in rules
    "lower": lambda term, before, after: term.islower(),
    "upper": lambda term, before, after: term.isupper(),
    "title": lambda term, before, after: term.istitle(),
    "capitals": lambda term, before, after: _in_capitals(before, after),
    "first": lambda term, before, after: not before.strip(),
    "starts": lambda term, before, after: (
        not before.strip() or before.rstrip()[-1:] in '.!?:"“'
    ),  # a sentence
    "nun": lambda term, before, after: bool(  # "Sister Mary", "Father O'Brien"
        (found := pattern("nun").match(after)) and found[1] in _NAMES
    ),
    "of": lambda term, before, after: grammar.last_word(before) == "of",
    "partner": lambda term, before, after: bool(grammar.partner(before, after)),  # "her/his"
    "possessed": lambda term, before, after: grammar.last_word(before) in _POSSESSED,
    "past": lambda term, before, after: grammar.is_past(grammar.first_word(after)),
    "colon": lambda term, before, after: ":" in before[-4:],
    "onto_slash": lambda term, before, after: term[0] in "oO",  # "72y/oM"
    "bracketed": lambda term, before, after: (  # "[M]+" is an ion
        before[-1:] + after[:1] in ("()", "[]") and term.isupper() and after[1:2] not in ("+", "-")
    ),
}


_rules_of = cache(partial(rules, "context_rules.csv"))


def verdict(term: str, before: str, after: str) -> str:
    """Whether a term is gendered where it stands: ``yes``, ``no``, or the word that it becomes.

    Args:
        term: as written. before, after: at most ``NEAR`` characters of its row.

    >>> verdict("F", "a 45", " with pain"), verdict("F", "a 14", " Foley"), verdict("MR", "cardiac ", " imaging")
    ('yes', 'no', 'no')
    >>> verdict("white", "a 45-year-old ", " male"), verdict("white", "elevated ", " count")
    ('yes', 'no')
    """
    for says, when, match_after, search_before, unless_before in _rules_of(term.lower()):
        if (
            (not match_after or match_after(after))
            and (not search_before or search_before(before))
            and not (unless_before and unless_before(before))
            and not (
                when and any(FACTS[name](term, before, after) != holds for name, holds in when)
            )
        ):
            return str(says)
    return "yes"


def is_pronoun(before: str, after: str) -> bool:
    """Whether "his" stands for a noun ("a friend of his.") and so is "hers", not "her".

    Only where hardly a noun can follow: a wrong "hers" makes no sentence, and "her" for "hers" is still understood.

    >>> is_pronoun("a friend of ", "."), is_pronoun("the size of ", " liver")
    (True, False)
    """
    return verdict("his_alone", before, after) == "yes"


def _in_capitals(before: str, after: str) -> bool:
    """Whether most longer words around are in capitals; where there are none, nothing speaks against it."""
    beside = pattern("long_word").findall(before) + pattern("long_word").findall(after)
    return bool(2 * sum(word.isupper() for word in beside) >= len(beside))


_KIN_TITLES = frozenset({"sister", "brother", "mother", "father"})
_TITLES = frozenset({"mr", "ms", "mrs", "miss"})
# Terms that must be looked at one by one in any case; the others only where what stands beside them is odd.
ALWAYS = frozenset(rules_by_word("context_rules.csv")) - {"he"} - _KIN_TITLES

# --- the case of a word ---------------------------------------------------------------------------------

LOWER = 0
CAPITAL = 1
UPPER = 2


def in_case(word: str, case: int) -> str:
    """A word of the table in the case of the one it replaces.

    >>> in_case("the patient", CAPITAL), in_case("she", UPPER), in_case("Ms", LOWER)
    ('The patient', 'SHE', 'ms')
    """
    if case == LOWER:
        return word.lower()
    return word.upper() if case == UPPER else word[:1].upper() + word[1:]


def is_phrase(term: Term) -> bool:
    """Whether the case of a term must be read from all of it: several words, signs, a first letter beyond ASCII."""
    return not (term.text.isalpha() and term.text[0].isascii()) or term.text in GLUED


def as_written(term: Term, written: str, target: str) -> str:
    """The target in the case of what was written; where that is neither of the three, as the table spells it."""
    if term.text in GLUED:  # the unit stays as it is: "72yoM", "72YOM"
        unit = unit_of(term.text)
        return written[:unit] + in_case(target[unit:], UPPER if written[-1].isupper() else LOWER)
    return target.lower() if written.islower() else cased(written, target)


# --- what is replaced -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Edits:
    """What is replaced in a block."""

    # In order, (6, n): where it begins and ends (bytes), the number of the new word, the row of the text, the side
    # (-1, 1; 0 of both), and the term (-1: a verb or an article).
    places: Ints
    words: list[bytes]
    """That stand in."""
    counts: Counter[str]
    """"he -> she": times."""


_APOSTROPHES = (b"'", "’".encode())


def _add_possessives(text: Text, edits: Edits) -> None:
    """Plural possessives take their form from the new word: "ladies'" and "gentlemen's"."""
    (start, end, number, row, *_), words = edits.places, edits.words
    following = text.signs[end]
    for at in np.flatnonzero(
        (following == _APOSTROPHES[0][0]) | (following == _APOSTROPHES[1][0])
    ).tolist():
        new = words[number[at]]
        bound = int(text.offsets[row[at] + 1])
        mark = next(
            (one for one in _APOSTROPHES if text.buffer.startswith(one, end[at], bound)), b""
        )
        if not mark or not new:
            continue
        upto = int(end[at]) + len(mark)
        after = text.buffer[upto : min(upto + 2, bound)]
        plural = _is_plural(new)
        written = _is_plural(text.buffer[start[at] : end[at]])
        if written and not plural and not after[:1].isalnum():
            words.append(new + mark + (b"S" if new.isupper() else b"s"))
            end[at] = upto
            number[at] = len(words) - 1
        elif plural and not written and after[:1] in (b"s", b"S") and not after[1:2].isalnum():
            words.append(new + mark)
            end[at] = upto + 1
            number[at] = len(words) - 1


def _is_plural(word: bytes) -> bool:
    low = word.lower()
    return low.endswith(b"s") and not low.endswith((b"ss", b"his", b"hers", b"ms", b"mrs", b"miss"))


_OR = re.compile(rb"\s?/\s?|\s+(?:and\s?/\s?)?or\s+", re.IGNORECASE)
_LONGEST_OR = 10


def _join_alternatives(text: Text, edits: Edits) -> None:
    """Two words that become the same one become it once: "he or she" and "his/her" are "they" and "their"."""
    (start, end, word, row, side, _), words = edits.places, edits.words
    kept = np.ones(len(start), dtype=bool)
    near = (row[1:] == row[:-1]) & (side[1:] == -side[:-1]) & (start[1:] - end[:-1] <= _LONGEST_OR)
    for at in np.flatnonzero(near).tolist():
        same = (
            side[at] and words[word[at]].lower() == words[word[at + 1]].lower()
        )  # a joined one is no first
        if same and _OR.fullmatch(text.buffer, int(end[at]), int(start[at + 1])):
            start[at + 1] = start[at]
            word[at + 1] = word[at]
            side[at + 1] = 0
            kept[at] = False
    edits.places = edits.places[:, kept]


_WIDE = (
    20  # bytes beside a pronoun that hold a word of 17 letters, the signs around it and two blanks
)
_LAST = re.compile(
    rb"(?<![\w'\x80-\xff-])[A-Za-z]{1,17}\Z|[.,;:!?)]\Z"
)  # of what stands before a pronoun
_FIRST = re.compile(
    rb" [A-Za-z]{1,17}(?![\w'\x80-\xff-])|[.,;:!?)]"
)  # no sign that opens a quotation, no "/"
_NOT_AFTER = word_list("receptor_words") | {
    "neu",
    "ii",
    "bundle",
    "purkinje",
    "electrogram",
    "system",
    ":",
}
_HELIUM = np.array(
    [int.from_bytes(f" {word}".encode()[:4], "little") for word in word_list("helium_words")],
    np.uint64,
)
_BLANK = np.isin(np.arange(256), list(b" \t\n\r\x0b\x0c"))
_KNOWN = 1 << 18  # decisions that are kept
# Beside the choices: it stays; the word behind the next one decides; all that stands around it does.
_STAYS = -1
_UNSURE = -2
_BY_CONTEXT = -3


class Decider:
    """Decides for one table and one mode (``swap`` or ``neutralise``)."""

    def __init__(self, table: SwapTable, mode: str) -> None:
        """Prepare what each term becomes in each case."""
        self._swaps = mode == "swap"
        self._context = table.context
        self._terms = list(table.terms.values())
        self._texts = table.terms
        self._targets = [term.others if self._swaps else term.neutral for term in self._terms]
        singular_they = {term.text: True for term in self._terms if "they" in term.neutral}
        self._plural = table.plural if self._swaps else singular_they
        self._sides = np.array([2 * term.side - 1 for term in self._terms])
        self._needs_context = np.array(
            [_needs_context(term, table.context) for term in self._terms]
        )  # by case
        self._is_phrase = np.array([is_phrase(term) for term in self._terms])
        self._is_kin, self._is_title, self._is_he, self._is_of, self._is_near = (
            np.array([term.text in words for term in self._terms])
            for words in (_KIN_TITLES, _TITLES, {"he"}, {"of"}, {"her", "his"})
        )
        self._known = dict[tuple[int, bytes, bytes], int]()
        # Every word that may stand in, and its number by term, choice and case.
        pool = dict[bytes, int]()
        self._word = np.full((len(self._terms), max(map(len, self._targets)), 3), -1)
        for number, targets in enumerate(self._targets):
            for choice, target in enumerate(targets):
                for case in (LOWER, CAPITAL, UPPER):
                    word = in_case(target, case).encode()
                    self._word[number, choice, case] = pool.setdefault(word, len(pool))
        self._pool = list(pool)

    def __getstate__(self) -> dict[str, object]:
        return {
            **vars(self),
            "_known": {},
        }  # words of texts; and ``datasets`` caches by what is pickled

    def choices(self, text: Text) -> Ints:
        """Which of its words each match becomes, -1 where it is not gendered and stays, (n,)."""
        case = text.case
        term = text.matches.term
        needs_context = self._needs_context[term, case]
        stays = np.zeros(len(term), dtype=bool)
        if self._context:
            stays = self._is_of[term] & (text.signs[text.matches.start - 1] != ord("/"))
            needs_context = (needs_context | self._beside_odd(text, case)) & ~stays
        choice = np.where(stays, _STAYS, 0)
        places = np.flatnonzero(needs_context)
        choice[places] = self._choices_in_context(text, places)
        return choice

    def edits(self, text: Text, choice: Ints) -> Edits:
        """What is replaced, where the matches become these words; below zero they stay."""
        kept = choice >= 0
        term = text.matches.term[kept]
        chosen = choice[kept]
        start = text.matches.start[kept]
        end = text.matches.end[kept]
        row = text.rows[kept]
        word = self._word[term, chosen, text.case[kept]]
        words = list(self._pool)
        for at in np.flatnonzero(self._is_phrase[term]).tolist():
            written = text.buffer[start[at] : end[at]].decode()
            target = self._targets[term[at]][chosen[at]]
            words.append(as_written(self._terms[term[at]], written, target).encode())
            word[at] = len(words) - 1
        counts = Counter[str]()
        most = self._word.shape[1]
        times = np.bincount(term * most + chosen)
        for code in np.flatnonzero(times).tolist():
            new = self._targets[code // most][code % most].lower() or "(removed)"
            counts[f"{self._terms[code // most].text} -> {new}"] += int(times[code])
        edits = Edits(np.stack([start, end, word, row, self._sides[term], term]), words, counts)
        _add_possessives(text, edits)
        if not self._swaps:
            if self._context:
                _join_alternatives(text, edits)
            self._close_gaps(text, edits)
        if self._context:
            self._make_agree(text, edits)
        return edits

    def _close_gaps(self, text: Text, edits: Edits) -> None:
        """Where a term is removed one space beside it goes as well, and the full stop of a title."""
        (start, end, word, row, _, term), buffer = edits.places, text.buffer
        removed = np.array([not one for one in edits.words])[word]
        for at in np.flatnonzero(removed).tolist():
            first = text.offsets[row[at]]
            last = text.offsets[row[at] + 1]
            if self._is_title[term[at]] and buffer[end[at]] == ord(".") and end[at] < last:
                end[at] += 1
            before = (
                buffer[start[at] - 1 : start[at]]
                if start[at] > max(first, end[at - 1] if at else 0)
                else b""
            )
            if before == b" ":
                start[at] -= 1
            elif before in (b"", b"\n", b"(") and buffer[end[at]] == SPACE and end[at] < last:
                end[at] += 1

    def _make_agree(self, text: Text, edits: Edits) -> None:
        """Articles before a new word, or before what follows one that is removed, and verbs beside new pronouns."""
        # where: the old and the new words, the row
        places = edits.places
        changed = dict[int, tuple[str, str, int]]()
        at = places[0] - 1 - _BLANK[text.signs[places[0] - 1]]
        last, before = (text.signs[at - more] | 32 for more in (0, 1))
        inside = (before >= ord("a")) & (before <= ord("z")) & (at > text.offsets[places[3]])
        beside = ((last == ord("a")) & ~inside) | ((last == ord("n")) & (before == ord("a")))
        for start, end, word, row, _, _ in places[:, beside].T.tolist():
            (left, right), old = text.beside(start, end, row, 20), text.buffer[start:end].decode()
            if change := grammar.article_before(left, old, edits.words[word].decode() or right):
                changed[start + change[0]] = change[1], change[2], row
        plural = {
            at: self._plural[one] for at, one in enumerate(self._texts) if one in self._plural
        }
        for start, end, _, row, _, term in places[:, np.isin(places[5], list(plural))].T.tolist():
            left, right = text.beside(start, end, row, WINDOW)
            for verb in grammar.agreeing(left, right, plural=plural[term]):
                if verb.old.lower() not in self._texts:  # "she mothers him"
                    after = verb.start >= 0
                    between = len((right[: verb.start] if after else left[verb.start :]).encode())
                    changed.setdefault(
                        end + between if after else start - between, (verb.old, verb.new, row)
                    )
        if not changed:
            return
        more = [
            (place, place + len(old.encode()), 0, row, 0, -1)
            for place, (old, _, row) in changed.items()
        ]
        both = np.concatenate([places, np.array(more).T], axis=1)
        both[2, len(places[0]) :] = len(edits.words) + np.arange(len(more))
        edits.places = both[:, np.argsort(both[0], kind="stable")]
        edits.words += [new.encode() for _, new, _ in changed.values()]
        edits.counts += Counter(
            f"{old.lower()} -> {new.lower()}" for old, new, _ in changed.values()
        )

    def _beside_odd(self, text: Text, case: Ints) -> NDArray[np.bool_]:
        """What is looked at for its neighbours alone: "s/he", "(s)he" are both, "He gas" is helium, "Sister Mary"."""
        signs = text.signs
        start = text.matches.start
        end = text.matches.end
        term = text.matches.term
        before = np.where(signs[start - 1] == SPACE, signs[start - 2], signs[start - 1])
        capital = case == CAPITAL
        slashed = (before == ord("/")) | (signs[start - 1] == ord(")"))
        helium = capital & np.isin(eights(text.buffer)[end] & MASKS[4], _HELIUM)
        name = capital & (signs[end + 1] >= 65) & (signs[end + 1] <= 90)
        odd: NDArray[np.bool_] = (self._is_he[term] & (slashed | helium)) | (
            self._is_kin[term] & name
        )
        return odd

    def _choices_in_context(self, text: Text, places: Ints) -> Ints:
        """The choice at each place."""
        buffer = text.buffer
        signs = text.signs
        start, end, row, term = (
            of[places]
            for of in (text.matches.start, text.matches.end, text.rows, text.matches.term)
        )
        first = text.offsets[row]
        last = text.offsets[row + 1]
        choice = np.full(len(places), _BY_CONTEXT)
        blank = [_BLANK[signs[start - at]] for at in (1, 2, 3)]
        gap = _BLANK[signs[end]]
        plain = (signs[start] >= 97) & (signs[start + 1] >= 97) & (signs[start + 2] >= 97)
        near = (
            self._is_near[term]
            & blank[0]
            & ~(blank[1] & blank[2])
            & ~(gap & _BLANK[signs[end + 1]])
        )
        beside = np.flatnonzero(near & (start - first > 2) & (end + gap < last))
        low = np.maximum(first, start - _WIDE)
        high = np.minimum(last, end + _WIDE)
        kinds = 4 * term + 2 * plain + gap
        keys = [
            (code, buffer[before:begin].rsplit(None, 1)[-1], buffer[stop:after].split(None, 1)[0])
            for code, before, begin, stop, after in zip(
                *(of[beside].tolist() for of in (kinds, low, start, end, high)), strict=True
            )
        ]
        if len(self._known) > _KNOWN:
            self._known = {}  # and not cleared, as another thread may look into it
        known = self._known
        known |= {key: self._by_neighbours(*key) for key in {*keys}.difference(known)}
        choice[beside] = [*map(known.__getitem__, keys)]
        for number in np.flatnonzero(choice[beside] == _UNSURE).tolist():
            at, (kind, before, _) = beside[number], keys[number]
            after = buffer[end[at] : min(last[at], end[at] + WINDOW)].decode(errors="ignore")[:NEAR]
            odds = grammar.in_context(grammar.last_word(before.decode(errors="ignore")), after)
            choice[at] = _pick(self._terms[kind // 4], OBJECTS, odds > 0)
        for at in np.flatnonzero(choice == _BY_CONTEXT).tolist():
            written = buffer[start[at] : end[at]].decode()
            around = text.beside(int(start[at]), int(end[at]), row[at], WINDOW)
            choice[at] = self._by_context(self._terms[term[at]], written, *around)
        return choice

    def _by_neighbours(self, kind: int, before: bytes, after: bytes) -> int:
        """``_by_context`` of "her" or "his" by the words beside it; ``kind``: 4 * term + 2 * lower case + blank."""
        last = _LAST.search(before)
        first = _FIRST.match(b" " * (kind % 2) + after)
        if not last or not first:
            return _BY_CONTEXT
        term = self._terms[kind // 4]
        previous = last[0].decode().lower()
        following = first[0].decode().strip().lower()
        named = kind % 4 < 2 and (previous == "of" or following in _NOT_AFTER)  # "bundle of His"
        if named or previous == "or" or following in ("or", "and", "neu"):
            return _BY_CONTEXT
        if self._context and term.choices in OBJECTS:
            odds = grammar.by_words(previous, following)
            return _pick(term, OBJECTS, odds > 0) if abs(odds) >= SURE else _UNSURE
        if self._context and term.choices in ALONE:
            plain = (
                following.isalpha()
                and following not in ("is", "was")
                and previous not in _POSSESSED
            )
            return _pick(term, ALONE, False) if plain else _BY_CONTEXT
        return 0

    def _by_context(self, term: Term, written: str, before: str, after: str) -> int:
        """The choice by all that stands around the term."""
        says = verdict(written, before[-NEAR:], after[:NEAR]) if self._context else "yes"
        if says == "no":
            return _STAYS
        if says != "yes":
            return _others(term).index(says)
        if self._context and term.choices in OBJECTS:
            return _pick(term, OBJECTS, grammar.log_odds_of_his(before, after) > 0)
        if self._context and term.choices in ALONE:
            return _pick(term, ALONE, is_pronoun(before, after))
        return 0


def _others(term: Term) -> list[str]:
    return [other.lower() for other in term.others]


def _pick(term: Term, form: Mapping[frozenset[str], str], chosen: bool) -> int:
    """Which of its two words a term becomes: the one of that form, or the other."""
    place = _others(term).index(form[term.choices])
    return place if chosen else 1 - place


def _needs_context(term: Term, context: bool) -> tuple[bool, bool, bool]:
    """Whether the choice for a term depends on its context, for each case: "MR" is no "Mr", and "MOM" no "mom"."""
    always = context and (term.text in ALWAYS or term.choices in OBJECTS or term.choices in ALONE)
    lower = always and term.text != "mom"
    return (
        lower,
        lower and term.text not in ("mr", "ms", "mrs"),
        always or (context and term.text == "he"),
    )
