"""Tell forms of one fill (Анна, Анны; لمريم, مريم) from different fills, by where they stand and what they share."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from swapbias.studies.own.text_pairs import FEWEST_FILLS, is_joined

_MOST_FORMS = 3_000  # fills of one side; more are no names in templates, and are not compared
_FEW_FORMS = 500  # of which those that share two letters are compared, of more three
_ALIKE = 0.5  # twice the shared letters by the letters of both: of a form that stands in one template alone
_ALIKE_RECURRING = 0.6  # of two forms that stand in several
_COMPLETE = 3  # fills that stand in every template: with so many what is left over is a fill too
_STRIPPED = ("LATIN", "CYRILLIC", "GREEK")  # scripts whose accents move with endings


class Classes(NamedTuple):
    """The fill of each pair on one side."""

    labels: list[str]
    """The fill of each pair, in the form that most pairs have."""
    forms: int
    """The number of different forms as they are written."""
    unclear: bool
    """Whether forms were joined that are not of one word."""


def classes_of(
    phrases: Sequence[tuple[str, ...]], contexts: Sequence[object], *, inflected: bool
) -> Classes:
    """Find the class of each pair's fill; where forms are in doubt they are one class, which widens intervals.

    Args:
        phrases: for each pair what may be its fill; several are in doubt, and joined.
        contexts: for each pair what all pairs of its template share.
        inflected: whether a fill may have several forms.
    """
    counts = Counter(phrase for parts in phrases for phrase in parts)
    joined = _Joined(counts)
    for parts in phrases:
        for phrase in parts[1:]:
            joined.join(parts[0], phrase)
    for parts, context in zip(phrases, contexts, strict=True):
        joined.contexts[joined.root(parts[0])].add(context)
    several = {parts for parts in phrases if len(parts) > 1}
    in_doubt = max(Counter(joined.root(parts[0]) for parts in several).values(), default=0) > 1
    if inflected:
        for first, second in _alike(joined):
            joined.join_forms(first, second)
        _join_last(joined)
    usual = {
        root: max(members, key=lambda form: (counts[form], -len(form), form))
        for root, members in joined.members.items()
    }
    labels = [usual[joined.root(parts[0])] for parts in phrases]
    few = len(joined.members) < FEWEST_FILLS <= len(counts)
    are_words = not inflected or all(joined.is_word(root) for root in joined.members)
    return Classes(labels, len(counts), in_doubt or (few and not are_words))


class _Joined:
    """Sets of forms that are one fill, the letters that all of a set share, and the templates they stand in."""

    def __init__(self, forms: Iterable[str]) -> None:
        self._parents = {form: form for form in forms}
        self.members = {form: [form] for form in self._parents}
        self.stems = {form: _letters(form) for form in self._parents}
        self.contexts: dict[str, set[object]] = defaultdict(set)

    def root(self, form: str) -> str:
        """Give the form that stands for the set of a form."""
        while self._parents[form] != form:
            form = self._parents[form]
        return form

    def is_word(self, root: str) -> bool:
        """Tell whether all forms of a set share at least half of their letters."""
        longest = max(len(_letters(form)) for form in self.members[root])
        return 2 * len(self.stems[root]) >= longest

    def join(self, first: str, second: str, stem: str = "") -> None:
        """Make one set of two; without a stem nothing says that they are forms of one word."""
        first = self.root(first)
        second = self.root(second)
        if first == second:
            return
        self._parents[second] = first
        self.members[first] += self.members.pop(second)
        self.contexts[first] |= self.contexts.pop(second, set())
        self.stems.pop(second)
        self.stems[first] = stem

    def join_forms(self, first: str, second: str) -> None:
        """Make one set of two that never stand in one template, where all forms share enough letters."""
        first = self.root(first)
        second = self.root(second)
        if first == second or self.contexts[first] & self.contexts[second]:
            return
        stem = _shared_letters(self.stems[first], self.stems[second])
        longest = max(
            len(_letters(form)) for root in (first, second) for form in self.members[root]
        )
        if stem and 3 * len(stem) >= longest:
            self.join(first, second, stem)


def _letters(form: str) -> str:
    """Write a form in lower case, without accents where these move with endings (Пётр, Петра)."""
    decomposed = unicodedata.normalize("NFKD", form.casefold())
    if not any(unicodedata.name(letter, "").startswith(_STRIPPED) for letter in decomposed):
        return form.casefold()
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _shared_letters(first: str, second: str) -> str:
    """Give the longest part of both; a single letter only in scripts of which a letter may be a name."""
    match = SequenceMatcher(None, first, second, autojunk=False).find_longest_match()
    shared = first[match.a : match.a + match.size]
    return shared if len(shared) > 1 or is_joined(shared) else ""


def _alike(joined: _Joined) -> list[tuple[str, str]]:
    """List forms of different sets that share enough letters, the most alike first."""
    if len(joined.members) > _MOST_FORMS:
        return []
    scored: list[tuple[float, str, str]] = []
    for first, second in _neighbours(joined.stems):
        if joined.contexts[first] & joined.contexts[second]:
            continue
        first_stem = joined.stems[first]
        second_stem = joined.stems[second]
        shared = _shared_letters(first_stem, second_stem)
        score = 2 * len(shared) / (len(first_stem) + len(second_stem))
        recur = min(len(joined.contexts[first]), len(joined.contexts[second])) > 1
        if score >= (_ALIKE_RECURRING if recur else _ALIKE):
            scored.append((score, first, second))
    scored.sort(key=lambda item: (-item[0], item[1], item[2]))
    return [(first, second) for _, first, second in scored]


def _neighbours(stems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Find pairs of forms that share as many letters in a row as the least alike ones do."""
    by_part: dict[str, list[str]] = defaultdict(list)
    fewest = 2 if len(stems) <= _FEW_FORMS else 3
    for form, stem in stems.items():
        size = 1 if stem and is_joined(stem) else fewest
        for part in {stem[start : start + size] for start in range(len(stem) - size + 1)}:
            by_part[part].append(form)
    seen = {
        (first, second)
        for forms in by_part.values()
        for index, first in enumerate(forms)
        for second in forms[:index]
    }
    yield from sorted(seen)


def _join_last(joined: _Joined) -> None:
    """Make one set of what is left where all templates have all other fills: Лев, Льва have no stem to share."""
    contexts = set().union(*joined.contexts.values())
    left = [form for form in joined.members if joined.contexts[form] != contexts]
    per_context = Counter(context for form in left for context in joined.contexts[form])
    is_grid = len(per_context) == len(contexts) > 1 and len(set(per_context.values())) == 1
    if is_grid and len(joined.members) - len(left) >= _COMPLETE:
        for form in left[1:]:
            first_stem = joined.stems[joined.root(left[0])]
            stem = joined.stems[joined.root(form)]
            joined.join(left[0], form, _shared_letters(first_stem, stem))
