"""Find names and words that stand in two groups of a user's own study: its labels may be swapped in some pairs."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from math import ceil
from typing import NamedTuple

import pandas as pd

from swapbias.studies.own.fill_slots import fill_words
from swapbias.studies.own.own_declaration import quote_name
from swapbias.studies.own.own_files import LEXICON, NAMES, PROMPTS, SLOTS, TEMPLATES, WORDINGS
from swapbias.studies.own.own_prompts import Parsed
from swapbias.studies.own.own_tables import table_column
from swapbias.studies.own.text_pairs import bare, difference, is_joined
from swapbias.studies.prompt import slots

_MOST_COMPARED = 20_000  # texts of two groups; of more every second, third ... pair is compared
_LONGEST = 3_000  # letters of a text: longer ones are notes, which say more than one slot
_MOST_NAMED = 20  # faults
_PRONOUNS = {
    **dict.fromkeys(("she", "her", "hers", "herself"), "she"),
    **dict.fromkeys(("he", "him", "his", "himself"), "he"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themself", "themselves"), "they"),
}
# Words that texts in two styles or dialects differ in, on both sides: none fills a slot.
_FUNCTION_WORDS = frozenset((
    "the", "a", "an", "this", "that", "these", "those", "and", "or", "but", "so", "if", "as", "of", "to", "in",
    "on", "at", "by", "for", "from", "with", "about", "into", "than", "then", "there", "is", "am", "are", "was",
    "were", "be", "been", "being", "do", "does", "did", "done", "has", "have", "had", "will", "would", "can",
    "could", "shall", "should", "may", "might", "must", "not", "no", "never", "ain", "isn", "aren", "wasn",
    "weren", "don", "doesn", "didn", "hasn", "haven", "hadn", "won", "wouldn", "couldn", "shouldn", "i", "you",
    "we", "it", "its", "what", "who", "which", "when", "where", "how", "very", "too", "just", "also", "all",
    "any", "some", "one",
))  # fmt: skip
_OUT = (
    "Correct the group of one. If both are meant, set shared_fills = true (-M shared-fills=true)."
)


class Fill(NamedTuple):
    """The name or words that fill the swapped slot of one row."""

    key: Hashable
    """A value that is equal for what counts as the same name or word."""
    words: str
    """The words as they are written."""
    group: str
    """The group of the row."""
    row: str
    """File and line."""


def shared_names(parsed: Parsed) -> Iterator[str]:
    """Find names to rank and words to count that a table gives to two groups, which no declaration allows.

    Args:
        parsed: the files of a study.

    Yields:
        A sentence each, with file and line.
    """
    for table, column, noun in ((NAMES, "name", "a name"), (LEXICON, "word", "a word")):
        cells = table_column(parsed.tables, table, column)
        groups = table_column(parsed.tables, table, "group")
        fills = [
            Fill(cell.strip().casefold(), cell.strip(), group, f"{table}:{line}")
            for line, cell, group in zip(cells.index, cells, groups, strict=True)
        ]
        for first, again in _shared_by_groups(fills):
            yield (
                f"{again.row}: {quote_name(again.words)} is {noun} of {quote_name(again.group)} here and of "
                f"{quote_name(first.group)} in {first.row}. Remove it from one."
            )


def shared_fills(parsed: Parsed) -> Iterator[str]:
    """Find names and words that fill the swapped slot for two groups, unless the declaration allows it.

    Args:
        parsed: the files of a study without other faults.

    Yields:
        A sentence each, with file and line.
    """
    if parsed.declared.design.shared_fills:
        return
    fills = [*_fills_of_slots(parsed), *_fills_of_texts(parsed), *_fills_of_masks(parsed)]
    for first, again in _shared_by_groups(fills):
        words = ""
        if first.words.casefold() != again.words.casefold():
            words = f"{quote_name(first.words)} "
        yield (
            f"{again.row}: {quote_name(again.words)} stands for {quote_name(again.group)} here and {words}for "
            f"{quote_name(first.group)} in {first.row}. {_OUT}"
        )


def _shared_by_groups(fills: Iterable[Fill]) -> Iterator[tuple[Fill, Fill]]:
    """Give for each name or word of two groups the first row with it, and the first row of another group."""
    seen: dict[Hashable, Fill] = {}
    shared: set[Hashable] = set()
    for fill in fills:
        first = seen.setdefault(fill.key, fill)
        if first.group == fill.group or fill.key in shared:
            continue
        shared.add(fill.key)
        yield (first, fill) if _line(first) < _line(fill) else (fill, first)
        if len(shared) == _MOST_NAMED:
            return


def _line(fill: Fill) -> int:
    """Give the line of the row in its file."""
    return int(fill.row.rpartition(":")[2])


def _fills_of_slots(parsed: Parsed) -> Iterator[Fill]:
    """Give of each row of slots what is swapped in it: all its words that fill slots and differ within some pair."""
    if SLOTS not in parsed.tables:
        return
    table = parsed.tables[SLOTS]
    templates = [
        *table_column(parsed.tables, TEMPLATES, "template"),
        *table_column(parsed.tables, WORDINGS, "template"),
    ]
    wanted = {slot for template in templates for slot in slots(template)} - {"pair", "group"}
    swapped = [
        column
        for column in table
        if column in wanted and (table.groupby("pair")[column].nunique() > 1).any()
    ]
    if not swapped:
        return
    for line, row in table[table["group"].isin(parsed.groups)].iterrows():
        words = [str(row[column]) for column in swapped]
        key = tuple(word.casefold() for word in words)
        yield Fill(key, ", ".join(dict.fromkeys(words)), str(row["group"]), f"{SLOTS}:{line}")


def _fills_of_texts(parsed: Parsed) -> Iterator[Fill]:
    """Give of each row of plain prompts its name, or the words in which its text differs from that of a pair."""
    sides = _sides(parsed)
    comparisons = list(combinations(sides, 2))
    texts = sum(len(sides[group]) for group, _ in comparisons)
    step = max(1, ceil(texts / _MOST_COMPARED))
    for group, reference in comparisons:
        part = sides[group][::step]
        both = part.merge(
            sides[reference], left_index=True, right_index=True, suffixes=("", "_other")
        )
        is_named = bool((both["name"] != both["name_other"]).any())
        for pair in both.to_dict("records"):
            if is_named:
                words, words_other = _different_names(pair["name"], pair["name_other"])
            else:
                words, words_other = _swapped_words(pair["text"], pair["text_other"])
            if words is not None:
                yield Fill(*words, group, pair["where"])
            if words_other is not None:
                yield Fill(*words_other, reference, pair["where_other"])


def _sides(parsed: Parsed) -> dict[str, pd.DataFrame]:
    """Give the plain prompts of each group, by pair."""
    if PROMPTS not in parsed.tables:
        return {}
    rows = parsed.prompts.assign(name=parsed.prompts.get("name", ""))
    rows = rows.loc[
        rows["group"].isin(parsed.groups), ["pair_id", "group", "text", "name", "where"]
    ]
    return {
        str(group): part.set_index("pair_id") for group, part in rows.groupby("group", sort=False)
    }


class Swapped(NamedTuple):
    """The words of one text that the other text of its pair has not."""

    key: Hashable
    """A value that is equal for what counts as the same words."""
    words: str
    """The words as they are written."""


# of both texts of a pair; None where nothing fills a slot
_Both = tuple[Swapped | None, Swapped | None]


def _different_names(first: str, second: str) -> _Both:
    """Give the names of both rows, unless they are the same."""
    if first.casefold() == second.casefold():
        return None, None
    return Swapped(("name", first.casefold()), first), Swapped(("name", second.casefold()), second)


def _swapped_words(first: str, second: str) -> _Both:
    """Give the words of each text that the other has not."""
    if max(len(first), len(second)) > _LONGEST:
        return None, None
    spans = difference(first, second).spans
    of_first = [span[0] for span in spans]
    of_second = [span[1] for span in spans]
    return _own_words(of_first, second), _own_words(of_second, first)


def _own_words(spans: Sequence[Sequence[str]], second: str) -> Swapped | None:
    """Give the words of a text in the spans where it differs; pronouns count by whom they are about."""
    tokens = [bare(token) for span in spans for token in span]
    pronouns = [
        token for token in tokens if token.casefold() in _PRONOUNS and not _stands_in(token, second)
    ]
    persons = {_PRONOUNS[token.casefold()] for token in pronouns}
    words = [
        word
        for span in spans
        for word in fill_words(tuple(span))
        if word.casefold() not in _FUNCTION_WORDS
    ]
    words = [word for word in words if not _stands_in(word, second)]
    if not words and not persons:
        return None
    is_one_person = len(persons) < 2 and len(words) < 2  # else she meets him, and he meets her
    about = persons if is_one_person else [token.casefold() for token in pronouns]
    key = (*(word.casefold() for word in words), "", *about)
    return Swapped(key, " ".join(words or pronouns[:1]))


def _stands_in(word: str, text: str) -> bool:
    """Tell whether a text holds a whole word; scripts without blanks between words have no ends of words."""
    if is_joined(word):
        return word in text
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _fills_of_masks(parsed: Parsed) -> Iterator[Fill]:
    """Give the words that rows count at a mask, in pairs of one text: nothing else is swapped there."""
    if PROMPTS not in parsed.tables:
        return
    prompts = parsed.prompts
    is_compared = prompts["group"].isin(parsed.groups)
    has_own_words = ~prompts["counted"].isin(parsed.labels)
    rows = prompts[prompts["masked"] & is_compared & has_own_words]
    if not len(rows):
        return
    texts = rows.groupby("pair_id")["text"].transform("nunique")
    for _, pair in rows[texts == 1].groupby("pair_id", sort=False):
        cells = [[word.strip() for word in cell.split("|")] for cell in pair["counted"]]
        counts = Counter(word.casefold() for words in cells for word in set(words))
        for words, group, row in zip(cells, pair["group"], pair["where"], strict=True):
            for word in words:
                if counts[word.casefold()] == 1:
                    yield Fill(("counted", word.casefold()), word, group, row)
