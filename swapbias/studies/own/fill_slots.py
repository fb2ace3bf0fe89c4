"""Tell the slot that is swapped from words that agree with it (articles, endings, pronouns), over all pairs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from swapbias.studies.own.fill_classes import classes_of
from swapbias.studies.own.fill_frames import widened
from swapbias.studies.own.text_pairs import (
    ENGLISH,
    PRONOUNS,
    SLOT,
    Difference,
    bare,
    elided_start,
    is_joined,
)

_COMMON = (
    3  # a word in a third of the contents of a slot or more is an article or a title, not a name
)
Words = tuple[str, ...]


class Labels(NamedTuple):
    """The fills of pairs."""

    labels: list[tuple[str, str]]
    """The fills of both sides of each pair."""
    templates: list[str]
    """The text of each pair without its fills."""
    forms: tuple[int, int]
    """The number of different forms of fills on each side."""
    unclear: bool
    """Whether no rule separates the forms."""


class Content(NamedTuple):
    """The words of both sides that fill one slot of one pair, without pronouns and punctuation."""

    group: Words
    """Words of the group."""
    reference: Words
    """Words of the reference."""


@dataclass
class _Pair:
    """A pair while its fill is looked for."""

    difference: Difference
    """The places where its texts differ."""
    contents: list[Content]
    """The content of each slot."""
    fill_slots: list[int]
    """The slots that may hold the fill."""
    context: tuple[object, ...] = ()
    """A value that the pairs of one template share."""
    is_alone: bool = False
    """Whether no other pair has its template: then nothing says which of its words is the fill."""


def label_pairs(
    differences: Sequence[Difference], names: Sequence[tuple[str, str]] | None = None
) -> Labels:
    """Find the fill of both sides of each pair, and the template.

    Args:
        differences: where the texts of each pair differ.
        names: the fills of both sides of each pair, where they are known.
    """
    pairs = [
        _Pair(pair, [_content(span) for span in pair.spans], [*range(len(pair.spans))])
        for pair in widened(differences)
    ]
    inflected = not _is_english(differences)
    _find_slots(pairs, inflected)
    if names is not None:
        groups, references = map(set, zip(*names, strict=True))
        return Labels(list(names), _templates(pairs), (len(groups), len(references)), False)
    contexts = [pair.context for pair in pairs]
    of_group = [_phrases(pair, 0) for pair in pairs]
    of_reference = [_phrases(pair, 1) for pair in pairs]
    group = classes_of(of_group, contexts, inflected=inflected)
    reference = classes_of(of_reference, contexts, inflected=inflected)
    labels = list(zip(group.labels, reference.labels, strict=True))
    unclear = group.unclear or reference.unclear
    return Labels(labels, _templates(pairs), (group.forms, reference.forms), unclear)


def _is_english(differences: Sequence[Difference]) -> bool:
    """Tell whether the texts are English: its names have one form, which may be part of another (Ann, Anna)."""
    count = sum(any(token in ENGLISH for token in pair.frame) for pair in differences)
    return _COMMON * count >= len(differences)


def _find_slots(pairs: Sequence[_Pair], inflected: bool) -> None:
    """Find the slots and words that may be the fill of each pair, and what the pairs of its template share."""
    by_frame: dict[Words, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        by_frame[pair.difference.frame].append(pair)
    contexts = _contexts_of_contents(by_frame)
    for frame, members in by_frame.items():
        _choose_slots(members, contexts)
        for pair in members:
            pair.is_alone = len(members) == 1 and inflected
            others = [
                content for slot, content in enumerate(pair.contents) if slot not in pair.fill_slots
            ]
            pair.context = (frame, *others)
    by_context: dict[tuple[object, ...], list[_Pair]] = defaultdict(list)
    for pair in pairs:
        by_context[pair.context].append(pair)
    for members in by_context.values():
        if len(members) > 1:
            _drop_common_words(members)
    if inflected:
        _drop_words_of_many([pair for pair in pairs if pair.is_alone])


def _content(span: tuple[Words, Words]) -> Content:
    return Content(*(fill_words(tokens) for tokens in span))


def fill_words(tokens: Words) -> Words:
    """List the words of a slot without pronouns; letters of a script without blanks stay together.

    Args:
        tokens: the tokens of one side of the slot.
    """
    words: list[str] = []
    is_open = False
    for token in tokens:
        word = bare(token)
        if not word or word.casefold() in PRONOUNS:
            is_open = False
            continue
        if is_open and is_joined(word):
            words[-1] += word
        else:
            words.append(word)
        is_open = is_joined(word)
    distinct = dict.fromkeys(words)  # of forms of one word the shortest: דנה ודנה
    return tuple(
        word for word in distinct if not any(_is_inside(shorter, word) for shorter in distinct)
    )


def _is_inside(word: str, longer: str) -> bool:
    return 1 < len(word) < len(longer) and word in longer


def _contexts_of_contents(templates: Mapping[Words, Sequence[_Pair]]) -> Counter[tuple[int, Words]]:
    """Count the templates in which each content of a slot stands, by side."""
    seen = {
        (side, words, frame)
        for frame, pairs in templates.items()
        for pair in pairs
        for content in pair.contents
        for side, words in enumerate(content)
        if words
    }
    return Counter((side, words) for side, words, _ in seen)


def _choose_slots(pairs: Sequence[_Pair], contexts: Mapping[tuple[int, Words], int]) -> None:
    """Keep the slots of one template that hold the fill: those that vary, do not agree, and recur elsewhere."""

    def has_words(slot: int) -> bool:
        return any(any(pair.contents[slot]) for pair in pairs)

    def varies(slot: int) -> bool:
        return len({pair.contents[slot] for pair in pairs}) > 1

    def differs_in_stem(slot: int) -> bool:
        return not all(_agree(pair.contents[slot]) for pair in pairs)

    def recurs_elsewhere(slot: int) -> bool:
        contents = (content for pair in pairs for content in enumerate(pair.contents[slot]))
        return any(contexts[side, words] > 1 for side, words in contents)

    slots = _slots_that(has_words, pairs[0].fill_slots)
    if len(pairs) > 1:
        slots = _slots_that(varies, slots)
        slots = _slots_that(differs_in_stem, slots)
        if len(slots) > 1:
            slots = _slots_that(recurs_elsewhere, slots)
    for pair in pairs:
        pair.fill_slots = slots


def _slots_that(fit: Callable[[int], bool], slots: list[int]) -> list[int]:
    """List the slots that fit; all where none does."""
    return [slot for slot in slots if fit(slot)] or slots


def _agree(content: Content) -> bool:
    """Tell whether one word of each side has the same stem, as ``cansada`` and ``cansado``."""
    if len(content.group) != 1 or len(content.reference) != 1:
        return content.group == content.reference
    first, second = (side[0].casefold() for side in content)
    longest = max(len(first), len(second))
    start = _shared_start(first, second)
    end = _shared_start(first[::-1], second[::-1])
    return 2 * max(start, end) >= longest


def _shared_start(first: str, second: str) -> int:
    """Count the letters at the start that two words share."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], pairs))


def _drop_common_words(pairs: Sequence[_Pair]) -> None:
    """Take articles and the like out of the slots of one template: words that many of its contents share."""
    for slot in pairs[0].fill_slots:
        of_group = _without_common(pairs, slot, 0)
        of_reference = _without_common(pairs, slot, 1)
        for pair, group, reference in zip(pairs, of_group, of_reference, strict=True):
            pair.contents[slot] = Content(group, reference)


def _without_common(pairs: Sequence[_Pair], slot: int, side: int) -> list[Words]:
    """List the content of a slot in each pair without common words; whole where it has no others."""
    contents = [pair.contents[slot][side] for pair in pairs]
    different = set(contents)
    counts = Counter(word.casefold() for words in different for word in words)
    common = {
        word for word, count in counts.items() if count > 1 and _COMMON * count >= len(different)
    }
    return [
        tuple(word for word in words if word.casefold() not in common) or words
        for words in contents
    ]


def _drop_words_of_many(pairs: Sequence[_Pair]) -> None:
    """Take the words that many pairs share out of pairs that are the only ones of their templates."""
    for side in (0, 1):
        words = [_words_of(pair, side) for pair in pairs]
        counts = Counter(word for parts in words for word in parts)
        common = {word for word, count in counts.items() if _COMMON * count >= len(pairs)}
        for pair, parts in zip(pairs, words, strict=True):
            if not parts <= common:
                _drop_words(pair, side, common)


def _drop_words(pair: _Pair, side: int, dropped: set[str]) -> None:
    """Take words out of one side of a pair."""
    for slot in pair.fill_slots:
        sides = list(pair.contents[slot])
        sides[side] = tuple(word for word in sides[side] if word.casefold() not in dropped)
        pair.contents[slot] = Content(*sides)


def _words_of(pair: _Pair, side: int) -> set[str]:
    """List the words of one side that may be the fill, in lower case."""
    return {word.casefold() for slot in pair.fill_slots for word in pair.contents[slot][side]}


def _phrases(pair: _Pair, side: int) -> tuple[str, ...]:
    """List what may be the fill of a pair: what a slot holds, or every word where no other pair has its template."""
    contents = [pair.contents[slot][side] for slot in pair.fill_slots]
    words = [word for words in contents for word in words]
    if pair.is_alone:
        return tuple(dict.fromkeys(words)) or ("",)
    texts = [" ".join(words_of_slot) for words_of_slot in contents]
    return tuple(dict.fromkeys(text for text in texts if text)) or ("",)


# --- templates ----------------------------------------------------------------------------------------


def _templates(pairs: Sequence[_Pair]) -> list[str]:
    """List the text of each pair without its fills: equal for all pairs of a template."""
    elided = _elided(pairs)
    return [_template(pair, elided) for pair in pairs]


def _template(pair: _Pair, elided: set[str]) -> str:
    """Write the frame of a pair with what other slots hold, without a word before the fill that may be elided."""
    kept: list[str] = []
    slot = -1
    for token in pair.difference.frame:
        if token != SLOT:
            kept.append(token)
            continue
        slot += 1
        if slot in pair.fill_slots:
            _add_slot(kept, elided)
        else:
            kept.append("|".join(" ".join(words) for words in pair.contents[slot]))
    return " ".join(kept)


def _add_slot(kept: list[str], elided: set[str]) -> None:
    """Add a slot to the words of a template; slots beside each other are one."""
    if kept and _shortened(kept[-1]) in elided:
        kept.pop()
    if not kept or kept[-1] != SLOT:
        kept.append(SLOT)


def _shortened(word: str) -> str:
    """Give a word without its last letter, as it stands before a vowel: ``d`` for ``de``."""
    return word[:-1].casefold()


def _elided(pairs: Iterable[_Pair]) -> set[str]:
    """List what stands before an apostrophe in fills: ``d`` of ``d'Anne``."""
    spans = (pair.difference.spans[slot] for pair in pairs for slot in pair.fill_slots)
    return {elided_start(token) for span in spans for tokens in span for token in tokens} - {""}
