"""Decide for each matched term whether it is replaced and by which word, and make the words around it agree."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapbias.swapping.agreement import agreeing, article_before
from swapbias.swapping.edits import Edits, add_possessives, join_alternatives, join_titles
from swapbias.swapping.folding import SPACE, Ints
from swapbias.swapping.gendered import (
    ALWAYS,
    DETERMINERS,
    KIN_TITLES,
    REPLACED,
    STAYS,
    follows_title,
    is_pronoun,
    may_follow_alone,
    may_stay,
    replacement_by_rules,
)
from swapbias.swapping.matches import Text
from swapbias.swapping.neighbours import NEAR, WINDOW, last_word, may_be_english, without_unseen
from swapbias.swapping.odd_neighbours import (
    IS_BLANK,
    has_odd_sign,
    is_odd_he,
    is_odd_son,
    may_be_cell,
)
from swapbias.swapping.possessives import SURE, by_words, in_context, log_odds_of_his
from swapbias.swapping.rule_tables import word_list
from swapbias.swapping.sex_columns import REACH, in_sex_column
from swapbias.swapping.table import ALONE, OBJECTS, SwapTable, Term
from swapbias.swapping.word_case import CAPITAL, LOWER, UPPER, as_written, in_case, is_phrase

_ABBREVIATED_TITLES = frozenset({"mr", "ms", "mrs", "miss"})
# Bytes beside a pronoun that are enough for a word of 17 letters, the signs around it and two blanks.
_NEIGHBOUR_BYTES = 20
# Characters beside a changed word that are enough for its article.
_ARTICLE_CHARACTERS = 20
# A word or sign before a pronoun, and after it: no sign that opens a quotation, no "/".
_WORD_BEFORE = re.compile(rb"(?<![\w'\x80-\xff-])[A-Za-z]{1,17}\Z|[.,;:!?)]\Z")
_WORD_AFTER = re.compile(
    rb" (?!(?:[A-Z][/&]|(?:AM|US|IS) ))[A-Za-z]{1,17}(?![\w'\x80-\xff-])|[.,;:!?)](?!\w)"
)
# Words after "His" or "Her" that make it a name: the bundle of His, the receptor HER2/neu.
_NAME_FOLLOWERS = word_list("receptor_words") | word_list("name_followers") | {":", ","}
_MOST_CACHED = 1 << 18  # decisions kept in memory
# A choice is the index of a word among those that a term may become, or one of these negative numbers.
# The term is not gendered where it is, and stays.
_STAYS = -1
# Words on both sides do not decide: the second word after the term does. Replaced by a choice before edits are made.
_UNSURE = -2
# The whole context decides. Replaced by a choice before edits are made.
_BY_CONTEXT = -3


class _Neighbours(NamedTuple):
    """Everything that decides for "her" or "his" between two words."""

    term: int
    """Number of the term."""
    is_lower: bool
    """The pronoun is in lower case."""
    blank_after: bool
    """A blank follows the pronoun."""
    before: bytes
    """The word before it."""
    after: bytes
    """The word after it."""


_Key = tuple[int, bool, bool, bytes, bytes]
"""Fields of ``_Neighbours``, by which choices are cached: a plain tuple is made faster."""


class Decider:
    """Decides what matched terms become, for one table and one mode."""

    def __init__(self, table: SwapTable, mode: str) -> None:
        """Prepare what each term becomes in each case.

        Args:
            table: the terms, and the words that each may become.
            mode: ``swap`` or ``neutralise``.
        """
        self._swaps = mode == "swap"
        self._context = table.context
        self._terms = [*table.terms.values(), *table.inclusive]
        self._texts = table.terms
        self._targets = [term.others if self._swaps else term.neutral for term in self._terms]
        singular_they = {term.text: True for term in self._terms if "they" in term.neutral}
        self._plural = table.plural if self._swaps else singular_they
        self._plural_terms = {
            number: self._plural[term.text]
            for number, term in enumerate(self._terms)
            if term.text in self._plural
        }
        # 1 and -1 for the two genders, as in ``Edits``.
        most = max(len(term.sides) for term in self._terms)
        self._sides = np.array(
            [
                [2 * side - 1 for side in (*term.sides, *term.sides[:1] * most)[:most]]
                for term in self._terms
            ]
        )
        self._sides[len(table.terms) :] = 0  # of both
        self._needs_context = np.array(
            [_needs_context(term, table.context) for term in self._terms]
        )
        self._is_phrase = np.array([is_phrase(term) for term in self._terms])
        self._is_kin = self._are_among(KIN_TITLES)
        self._is_title = self._are_among(_ABBREVIATED_TITLES)
        self._is_he = self._are_among({"he"})
        self._is_son = self._are_among({"son"})
        # "oF" in "72y/oF": the letter for the gender is glued to "y/o". Elsewhere "of" is just the preposition.
        self._is_of = self._are_among({"of"})
        self._is_sex = self._are_among({"m", "f"})
        self._is_her_or_his = self._are_among({"her", "his"})
        self._cached_choices: dict[_Key, int] = {}
        # Every word that a term may become, once; and its number by term, choice and case.
        numbers: dict[bytes, int] = {}
        self._word_number = np.full((len(self._terms), max(map(len, self._targets)), 3), -1)
        for term, targets in enumerate(self._targets):
            for choice, target in enumerate(targets):
                for case in (LOWER, CAPITAL, UPPER):
                    word = in_case(target, case).encode()
                    self._word_number[term, choice, case] = numbers.setdefault(word, len(numbers))
        self._new_words = list(numbers)

    def _are_among(self, words: frozenset[str] | set[str]) -> NDArray[np.bool_]:
        """Return which terms are among some words, (terms,)."""
        return np.array([term.text in words for term in self._terms])

    def choices(self, text: Text) -> Ints:
        """Choose which word each match becomes.

        Args:
            text: the rows and their matched terms.

        Returns:
            The index of the word among those that its term may become, shape (matches,); -1 where the term is not
            gendered and stays.
        """
        case = text.case
        term = text.matches.term
        needs_context = self._needs_context[term, case]
        stays = np.zeros(len(term), dtype=bool)
        if self._context:
            stays = self._is_of[term] & (text.signs[text.matches.start - 1] != ord("/"))
            needs_context = (needs_context | self._has_odd_neighbour(text, case)) & ~stays
        choice = np.where(stays, _STAYS, 0)
        indices = np.flatnonzero(needs_context)
        choice[indices] = self._choices_in_context(text, indices)
        return choice

    def edits(self, text: Text, choice: Ints) -> Edits:
        """Return the replacements of the matches by their chosen words, and of the words that agree with them.

        Args:
            text: the rows and their matched terms.
            choice: as ``choices`` returns it, shape (matches,); matches with a choice below zero stay.
        """
        kept = choice >= 0
        term = text.matches.term[kept]
        chosen = choice[kept]
        start = text.matches.start[kept]
        end = text.matches.end[kept]
        row = text.rows[kept]
        number = self._word_number[term, chosen, text.case[kept]]
        words = list(self._new_words)
        for index in np.flatnonzero(self._is_phrase[term]).tolist():
            written = text.buffer[start[index] : end[index]].decode()
            target = self._targets[term[index]][chosen[index]]
            words.append(as_written(self._terms[term[index]], written, target).encode())
            number[index] = len(words) - 1
        places = np.stack([start, end, number, row, self._sides[term, chosen], term])
        edits = Edits(places, words, self._count(term, chosen))
        add_possessives(text, edits)
        if not self._swaps:
            if self._context:
                join_alternatives(text, edits)
                join_titles(text, edits, self._is_title)
            self._close_gaps(text, edits)
        if self._context:
            self._make_agree(text, edits)
        return edits

    def _count(self, term: Ints, chosen: Ints) -> Counter[str]:
        """Count the replacements, as "old -> new"."""
        most_choices = self._word_number.shape[1]
        times = np.bincount(term * most_choices + chosen)
        counts = Counter[str]()
        for code in np.flatnonzero(times).tolist():
            number, choice = divmod(code, most_choices)
            new = self._targets[number][choice].lower() or "(removed)"
            counts[f"{self._terms[number].text} -> {new}"] += int(times[code])
        return counts

    def _close_gaps(self, text: Text, edits: Edits) -> None:
        """Remove one space beside each term that is removed, and the full stop of a title."""
        start, end, number, row, _, term = edits.places
        buffer = text.buffer
        is_empty = np.array([not word for word in edits.words])
        for index in np.flatnonzero(is_empty[number]).tolist():
            row_end = text.offsets[row[index] + 1]
            is_stop = buffer[end[index]] == ord(".")
            if self._is_title[term[index]] and is_stop and end[index] < row_end:
                end[index] += 1
            # Not before the row, nor into the previous replacement.
            bound = max(text.offsets[row[index]], end[index - 1] if index else 0)
            before = b""
            if start[index] > bound:
                before = buffer[start[index] - 1 : start[index]]
            if before == b" ":
                start[index] -= 1
                continue
            is_opening = before in (b"", b"\n", b"(")
            if is_opening and buffer[end[index]] == SPACE and end[index] < row_end:
                end[index] += 1

    def _make_agree(self, text: Text, edits: Edits) -> None:
        """Add edits of the words that agree with a replacement.

        These are articles before a new word, or before the word after a removed one, and verbs beside pronouns.
        """
        # By start (byte): the old word, the new word, and the row.
        changes = self._articles(text, edits)
        for start, change in self._verbs(text, edits):
            changes.setdefault(start, change)
        if not changes:
            return
        added = [
            (start, start + len(old.encode()), 0, row, 0, -1)
            for start, (old, _, row) in changes.items()
        ]
        edits.insert(
            np.array(added).T,
            [new.encode() for _, new, _ in changes.values()],
            Counter(f"{old.lower()} -> {new.lower()}" for old, new, _ in changes.values()),
        )

    def _articles(self, text: Text, edits: Edits) -> dict[int, tuple[str, str, int]]:
        """Return articles that no longer fit: by their start (byte) the old one, the new one, and the row."""
        places = edits.places
        signs = text.signs
        # The byte before the replacement, or before the blank before it. ``| 32`` makes a letter lower case.
        index = places[0] - 1 - IS_BLANK[signs[places[0] - 1]]
        last = signs[index] | 32
        before = signs[index - 1] | 32
        has_letter_before = (
            (before >= ord("a")) & (before <= ord("z")) & (index > text.offsets[places[3]])
        )
        ends_in_a = (last == ord("a")) & ~has_letter_before
        ends_in_an = (last == ord("n")) & (before == ord("a"))
        articles: dict[int, tuple[str, str, int]] = {}
        for start, end, number, row, _, _ in places[:, ends_in_a | ends_in_an].T.tolist():
            left, right = text.beside(start, end, row, _ARTICLE_CHARACTERS)
            old = text.buffer[start:end].decode()
            change = article_before(left, old, edits.words[number].decode() or right)
            if change:
                articles[start + change[0]] = change[1], change[2], row
        return articles

    def _verbs(self, text: Text, edits: Edits) -> list[tuple[int, tuple[str, str, int]]]:
        """Return verbs that change with a pronoun: the start (byte), the old one, the new one, and the row."""
        verbs = []
        is_subject = np.isin(edits.places[5], list(self._plural_terms))
        for start, end, _, row, _, term in edits.places[:, is_subject].T.tolist():
            left, right = text.beside(start, end, row, WINDOW)
            for verb in agreeing(left, right, plural=self._plural_terms[term]):
                if verb.old.lower() in self._texts:
                    continue  # "she mothers him"
                if verb.start >= 0:
                    verb_start = end + len(right[: verb.start].encode())
                else:
                    verb_start = start - len(left[verb.start :].encode())
                verbs.append((verb_start, (verb.old, verb.new, row)))
        return verbs

    def _has_odd_neighbour(self, text: Text, case: Ints) -> NDArray[np.bool_]:
        """Return which terms need their context only because of a neighbour, shape (matches,).

        "s/he" and "(s)he" are both genders, "He gas" is helium, "Sister Mary" a nun.
        """
        signs = text.signs
        end = text.matches.end
        term = text.matches.term
        is_capital = case == CAPITAL
        is_name_next = is_capital & (signs[end + 1] >= ord("A")) & (signs[end + 1] <= ord("Z"))
        odd: NDArray[np.bool_] = has_odd_sign(text, is_capital)
        odd |= self._is_kin[term] & is_name_next
        he = np.flatnonzero(self._is_he[term])
        odd[he] |= is_odd_he(text, he, is_capital[he])
        son = np.flatnonzero(self._is_son[term])
        odd[son] |= is_odd_son(text, son)
        return odd

    def _choices_in_context(self, text: Text, indices: Ints) -> Ints:
        """Choose for some matches by their context, shape (indices,)."""
        buffer = text.buffer
        end = text.matches.end[indices]
        term = text.matches.term[indices]
        last = text.offsets[text.rows[indices] + 1]
        choice = np.full(len(indices), _BY_CONTEXT)
        between_words, keys = self._neighbours(text, indices)
        if len(self._cached_choices) > _MOST_CACHED:
            # A new dictionary: another thread may still read the old one, and misses nothing that is only added.
            self._cached_choices = {}
        cached = self._cached_choices
        new_keys = {*keys}.difference(cached)
        cached |= {key: self._choice_by_neighbours(_Neighbours(*key)) for key in new_keys}
        choice[between_words] = [*map(cached.__getitem__, keys)]
        unsure = np.flatnonzero(choice[between_words] == _UNSURE)
        places = between_words[unsure]
        stops = np.minimum(last[places], end[places] + WINDOW)
        columns = (array.tolist() for array in (unsure, places, end[places], stops))
        for number, index, begin, stop in zip(*columns, strict=True):
            key = _Neighbours(*keys[number])
            after = without_unseen(buffer[begin:stop].decode(errors="ignore"))[:NEAR]
            odds = in_context(last_word(key.before.decode(errors="ignore")), after)
            choice[index] = _pick(self._terms[key.term], OBJECTS, odds > 0)
        unread = np.flatnonzero(choice == _BY_CONTEXT)
        for index, around in zip(
            unread.tolist(), text.around_each(indices[unread], WINDOW), strict=True
        ):
            choice[index] = self._choice_by_context(self._terms[term[index]], *around)
        letters = np.flatnonzero((choice == _STAYS) & self._is_sex[term])
        cells = letters[may_be_cell(text, indices[letters])]
        for index, (_, *beside) in zip(
            cells.tolist(), text.around_each(indices[cells], REACH), strict=True
        ):
            if in_sex_column(*beside):
                choice[index] = 0
        return choice

    def _neighbours(self, text: Text, indices: Ints) -> tuple[Ints, list[_Key]]:
        """Return the matches among ``indices`` that are "her" or "his" between two words, and their keys."""
        buffer = text.buffer
        signs = text.signs
        start = text.matches.start[indices]
        end = text.matches.end[indices]
        row = text.rows[indices]
        term = text.matches.term[indices]
        first = text.offsets[row]
        last = text.offsets[row + 1]
        three_blanks_before = IS_BLANK[signs[start - 2]] & IS_BLANK[signs[start - 3]]
        few_blanks_before = IS_BLANK[signs[start - 1]] & ~three_blanks_before
        blank_after = IS_BLANK[signs[end]]
        two_blanks_after = blank_after & IS_BLANK[signs[end + 1]]
        first_lower = ord("a")
        is_lower = (
            (signs[start] >= first_lower)
            & (signs[start + 1] >= first_lower)
            & (signs[start + 2] >= first_lower)
        )
        # A line or a cell may end there.
        line_after = (
            (signs[end] == ord("\n")) | (signs[end] == ord("\t")) | (signs[end] == ord("\r"))
        )
        is_between = self._is_her_or_his[term] & few_blanks_before & ~two_blanks_after & ~line_after
        is_inside = (start - first > 2) & (end + blank_after < last)
        between_words = np.flatnonzero(is_between & is_inside)
        low = np.maximum(first, start - _NEIGHBOUR_BYTES)
        high = np.minimum(last, end + _NEIGHBOUR_BYTES)
        arrays = (term, is_lower, blank_after, low, start, end, high)
        columns = (array[between_words].tolist() for array in arrays)
        keys = [
            (
                number,
                lower,
                blank,
                buffer[begin:left].rsplit(None, 1)[-1],
                buffer[right:stop].split(None, 1)[0],
            )
            for number, lower, blank, begin, left, right, stop in zip(*columns, strict=True)
        ]
        return between_words, keys

    def _choice_by_neighbours(self, key: _Neighbours) -> int:
        """Choose for "her" or "his" by the words beside it."""
        last = _WORD_BEFORE.search(key.before)
        first = _WORD_AFTER.match(b" " + key.after if key.blank_after else key.after)
        if not last or not first:
            return _BY_CONTEXT
        term = self._terms[key.term]
        previous = last[0].decode().lower()
        following = first[0].decode().strip().lower()
        if not key.is_lower:
            is_word_before = previous.isalpha() and (last[0].islower() or previous in DETERMINERS)
            is_surname = follows_title(f"{key.before.decode(errors='replace')} ")
            if is_word_before or is_surname or following in _NAME_FOLLOWERS:
                return _BY_CONTEXT  # "bundle of His", "the distal His", "Dr. Her"
        if previous == "or" or following in ("or", "and", "neu"):
            return _BY_CONTEXT
        if not following[0].isalpha() and not may_be_english(previous):
            return _BY_CONTEXT  # "kam her."
        if self._context and term.choices in OBJECTS:
            odds = by_words(previous, following)
            return _pick(term, OBJECTS, odds > 0) if abs(odds) >= SURE else _UNSURE
        if self._context and term.choices in ALONE:
            # "his" before a noun is "her"; where it may stand alone ("a friend of his"), the context decides.
            if following.isalpha() and not may_follow_alone(previous, following):
                return _pick(term, ALONE, False)
            return _BY_CONTEXT
        return 0

    def _choice_by_context(self, term: Term, written: str, before: str, after: str) -> int:
        """Choose by the text around a term."""
        before = without_unseen(before)
        after = without_unseen(after)
        if self._context:
            decision = replacement_by_rules(written, before[-NEAR:], after[:NEAR])
            if decision == STAYS:
                return _STAYS
            if decision != REPLACED:
                return term.lower_others.index(decision)
        if self._context and term.choices in OBJECTS:
            return _pick(term, OBJECTS, log_odds_of_his(before, after) > 0)
        if self._context and term.choices in ALONE:
            return _pick(term, ALONE, is_pronoun(before, after))
        return 0


def _pick(term: Term, form: Mapping[frozenset[str], str], chosen: bool) -> int:
    """Return the index of the word that a term with two words becomes.

    That is the word in ``form`` (``OBJECTS``, ``ALONE``) where ``chosen``, and the other one where not.
    """
    index = term.lower_others.index(form[term.choices])
    return index if chosen else 1 - index


def _needs_context(term: Term, context: bool) -> tuple[bool, bool, bool]:
    """Return for each case whether the choice for a term depends on context: "MR" is no "Mr", and "MOM" no "mom"."""
    has_choice = term.choices in OBJECTS or term.choices in ALONE
    has_rules = term.text in ALWAYS
    lower, capital, upper = (
        context and (has_choice or (has_rules and may_stay(written)))
        for written in (term.text, term.text.capitalize(), term.text.upper())
    )
    capital = capital and term.text not in _ABBREVIATED_TITLES - {"miss"}
    return lower, capital, upper or (context and term.text == "he")
