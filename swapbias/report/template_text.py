"""The text of a template, read from the texts that were made of it."""

import difflib
import re
from collections.abc import Sequence

import pandas as pd

from swapbias.studies import PLACEBO, chats

_SAMPLED_TEXTS = 40  # of a template, compared to find the words in all of them
_MOST_LETTERS = 90
_PIECE = re.compile(r"<mask>|\[MASK\]|\w+|\S")
_SPACE_BEFORE_MARK = re.compile(r"\s+([.,;:!?])")


def texts_of_templates(rows: pd.DataFrame) -> dict[str, str]:
    """Return for each template the words that all its texts share, where there are any.

    Args:
        rows: scored rows with ``template`` and ``text``, else there are no texts; reworded ones are not read.
    """
    if "template" not in rows or "text" not in rows:
        return {}
    texts = {}
    for template, part in rows[rows["group"] != PLACEBO].groupby("template", sort=False):
        shared = shared_words(part["text"].unique().tolist())
        if shared:
            texts[str(template)] = shared
    return texts


def _without_roles(text: str) -> str:
    """Return what the turns of a chat say, without their roles; any other text as it is."""
    return " ".join(turn["content"] for turn in chats.turns(text))


def shared_words(texts: Sequence[str]) -> str:
    """Return the words that all texts share, in their order, and dots for the others; blank for no shared word.

    >>> shared_words(["She is a doctor.", "He is a nurse."])
    '… is a ….'

    Args:
        texts: texts of one template.
    """
    if not texts:
        return ""
    step = max(1, len(texts) // _SAMPLED_TEXTS)
    sampled = [_PIECE.findall(_without_roles(text)) for text in texts[::step]]
    shared: list[str | None] = list(sampled[0])  # None: words that are not in all texts
    for pieces in sampled[1:]:
        shared = _common_pieces(shared, pieces)
    words = [piece for piece in shared if piece is not None]
    if not any(piece.isalpha() for piece in words):
        return ""
    text = " ".join("…" if piece is None else piece for piece in shared)
    text = _SPACE_BEFORE_MARK.sub(r"\1", text)
    if len(text) > _MOST_LETTERS:
        text = text[: _MOST_LETTERS - 1].rstrip("… ") + "…"
    return text


def _common_pieces(shared: Sequence[str | None], pieces: Sequence[str]) -> list[str | None]:
    """Return the pieces that are also in another text, with None between those that are not neighbours."""
    matcher = difflib.SequenceMatcher(None, list(shared), list(pieces), autojunk=False)
    common: list[str | None] = []
    end_of_shared = end_of_pieces = 0
    for start, other_start, length in matcher.get_matching_blocks():
        has_words_between = start > end_of_shared or other_start > end_of_pieces
        if has_words_between and (not common or common[-1] is not None):
            common.append(None)
        common += shared[start : start + length]
        end_of_shared = start + length
        end_of_pieces = other_start + length
    return common
