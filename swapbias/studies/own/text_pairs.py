"""Find where the two texts of a pair differ: by words, and by letters in scripts without blanks."""

import re
import sys
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher

SLOT = "_"
# in place of a shared token that a text itself writes like a slot, as in "Name: ____"
_WRITTEN = "__"
# fills that recur, each in texts of its own: fewer are forms of a word (woman, women)
FEWEST_FILLS = 4
# English words that go with the fill, whatever it is; in other languages what is constant in a template is left out.
PRONOUNS = frozenset((
    "he", "she", "they", "him", "her", "them", "his", "hers", "their", "theirs", "himself", "herself", "themselves",
    "themself", "it", "its", "itself", "a", "an",
))  # fmt: skip
ENGLISH = frozenset((
    "the", "and", "to", "with", "of", "that", "they", "this", "is", "was", "from", "has", "The", "They",
))  # fmt: skip
# Chinese and Japanese, Thai, Lao, Tibetan, Burmese and Khmer have no blanks between words: each letter is a token.
_JOINED = (
    "\u0e00-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e4f-\u0eaf\u0eb2\u0eb3\u0ebd-\u0ec7\u0ed0-\u0fff\u1000-\u109f"
    "\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f"
    "\U00020000-\U0003ffff"
)
_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\ufe00-\ufe0f"
_TOKEN = re.compile(rf"[{_JOINED}][{_MARKS}]*|[^\s{_JOINED}]+")
_JOINED_LETTER = re.compile(rf"[{_JOINED}]")
_POSSESSIVE = re.compile("(?<=.)((?i:['’]s))$")
_SHORT = 2  # letters before an apostrophe that are no name
Span = tuple[tuple[str, ...], tuple[str, ...]]  # tokens of both sides that fill one slot


@dataclass(frozen=True, slots=True)
class Difference:
    """The places where the two texts of a pair differ: shared tokens, and spans that fill the slots between them."""

    frame: tuple[str, ...]
    """Shared tokens, ``SLOT`` for each span."""
    spans: tuple[Span, ...]
    """Tokens of each side, in the order of slots."""


def tokens_of(text: str) -> list[str]:
    """Split a text into words, punctuation, and the letters of scripts without blanks.

    Args:
        text: one of a pair.

    >>> tokens_of("Call Emily, please."), tokens_of("王丽来了。")
    (['Call', 'Emily', ',', 'please', '.'], ['王', '丽', '来', '了', '。'])
    """
    tokens: list[str] = []
    for word in _TOKEN.findall(unicodedata.normalize("NFC", text)):
        start = 0
        end = len(word)
        while start < end and _is_punctuation(word[start]):
            start += 1
        while end > start and _is_punctuation(word[end - 1]):
            end -= 1
        tokens += [*word[:start], *_POSSESSIVE.split(word[start:end]), *word[end:]]
    return [sys.intern(token) for token in tokens if token]


def is_joined(token: str) -> bool:
    """Tell whether a token begins with a letter of a script without blanks.

    Args:
        token: not blank.
    """
    return bool(_JOINED_LETTER.match(token))


def bare(word: str) -> str:
    """Give a word without punctuation, what is joined to it by an apostrophe left out.

    Args:
        word: a token.

    >>> bare("Emily's"), bare("d'Anne"), bare("Ayşe'nin"), bare(",")
    ('Emily', 'Anne', 'Ayşe', '')
    """
    if not is_word(word):
        return ""
    before, mark, after = word.replace("’", "'").rpartition("'")
    if not (mark and before and after):
        return word
    return after if elided_start(word) else before


def elided_start(word: str) -> str:
    """Give what stands before an apostrophe in place of a longer word, in lower case: ``d`` of ``d'Anne``.

    Args:
        word: a token.

    Returns:
        The shortened word; blank where there is none.
    """
    before, mark, after = word.replace("’", "'").rpartition("'")
    is_elision = bool(mark and before and after) and (len(before) <= _SHORT or after[0].isupper())
    return before.casefold() if is_elision else ""


def is_word(token: str) -> bool:
    """Tell whether a token is a word or a letter of one.

    Args:
        token: not blank.
    """
    return not (_is_punctuation(token[0]) and len(token) < 3)


def _is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "PS"


def difference(first: str, second: str) -> Difference:
    """Find where two texts differ.

    Args:
        first: the text of one side.
        second: the text of the other side.

    >>> difference("Mary Ann is late.", "Greg is late.")
    Difference(frame=('_', 'is', 'late', '.'), spans=((('Mary', 'Ann'), ('Greg',)),))
    """
    frame: list[str] = []
    spans: list[Span] = []
    for is_shared, left, right in _align(tokens_of(first), tokens_of(second)):
        if is_shared:
            frame += [_WRITTEN if token == SLOT else token for token in left]
        else:
            frame.append(SLOT)
            spans.append((tuple(left), tuple(right)))
    return Difference(tuple(frame), tuple(spans))


_Piece = tuple[bool, list[str], list[str]]


def _align(first: list[str], second: list[str]) -> list[_Piece]:
    """Align two lists of tokens: word by word where that has as much in common as any alignment."""
    same = [token == opposite for token, opposite in zip(first, second, strict=False)]
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    if len(first) == len(second) and _has_most_in_common(same, matcher):
        return _pieces_by_word(first, second, same)
    return [
        (tag == "equal", first[start:end], second[second_start:second_end])
        for tag, start, end, second_start, second_end in matcher.get_opcodes()
    ]


def _has_most_in_common(same: list[bool], matcher: "SequenceMatcher[str]") -> bool:
    """Tell whether the tokens that are the same word by word are half of them, or as many as in any alignment."""
    count = sum(same)
    if count * 2 >= len(same):
        return True
    return count >= sum(block.size for block in matcher.get_matching_blocks())


def _pieces_by_word(first: list[str], second: list[str], same: list[bool]) -> list[_Piece]:
    """Give pieces of tokens that are the same and that are not, in order."""
    pieces: list[_Piece] = []
    for is_shared, left, right in zip(same, first, second, strict=True):
        if pieces and pieces[-1][0] == is_shared:
            pieces[-1][1].append(left)
            pieces[-1][2].append(right)
        else:
            pieces.append((is_shared, [left], [right]))
    return pieces
