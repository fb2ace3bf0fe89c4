"""Words of one list matched with words of like frequency on the others, by their places in a vocabulary."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def matched_words(words: Sequence[str], label_of: NDArray[np.intp], rest: int) -> NDArray[np.bool_]:
    """Find the tokens that are words with a match of like frequency in each other list, every word matched once.

    Vocabularies hold words in order of frequency, nearly: words match where the place of one's first token is at most
    twice the other's. Words of the shortest list are matched, the nearest first.

    >>> matched_words(["", "he", "she", "Al", "x", "y", "Bo", "Cy", "Di"], np.array([0, 1, 2, 1, 0, 0, 1, 1, 2]), 0)
    array([False, False,  True,  True, False, False, False,  True,  True])

    Args:
        words: the words of each token, in the order of the vocabulary.
        label_of: index of the list of each token, shape (tokens,).
        rest: index of tokens on no list.

    Returns:
        For each token whether it is such a word, shape (tokens,).
    """
    lists: dict[int, dict[str, int]] = {}
    for token in np.flatnonzero(label_of != rest).tolist():
        lists.setdefault(int(label_of[token]), {}).setdefault(words[token], token)
    if len(lists) < 2:
        return np.zeros(len(words), dtype=bool)
    shortest, *others = sorted(lists, key=lambda label: len(lists[label]))
    partners = {label: _match_nearest(lists[shortest], lists[label]) for label in others}
    common = [
        word for word in lists[shortest] if all(word in matches for matches in partners.values())
    ]
    chosen = {(shortest, word) for word in common}
    for label, matches in partners.items():
        chosen |= {(label, matches[word]) for word in common}
    return np.array(
        [(int(label), word) in chosen for label, word in zip(label_of, words, strict=True)]
    )


def _match_nearest(tokens: Mapping[str, int], other_tokens: Mapping[str, int]) -> dict[str, str]:
    """Match each word with one of the others by their tokens, nearest first; words without a match are left out."""
    words = list(tokens)
    other_words = list(other_tokens)
    logs = np.log1p(list(tokens.values()))
    other_logs = np.log1p(list(other_tokens.values()))
    distance = np.abs(np.subtract.outer(logs, other_logs))
    near = np.argwhere(distance <= math.log(2))
    matches: dict[str, str] = {}
    free = set(other_words)
    for index, other_index in near[np.argsort(distance[tuple(near.T)], kind="stable")]:
        word = words[index]
        match = other_words[other_index]
        if word not in matches and match in free:
            matches[word] = match
            free.remove(match)
    return matches
