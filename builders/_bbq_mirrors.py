"""Mirrors of lines of bbq, in which the two persons exchange places, and who is named first."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from swapbias.builders._bbq_forms import Language
from swapbias.builders._bbq_lines import QUAD, Line, plain


def pieces(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    """Cut lines into those that belong together: quads of one pair of words, where all lines are of such; else lines.

    Args:
        lines: lines in the order of their file.
    """
    runs = [tuple(run) for run in _runs(lines)]
    is_of_quads = all(len(run) == len(QUAD) for run in runs)
    return runs if is_of_quads else [(line,) for line in lines]


def _runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield lines that follow each other with one template and pair of words, until one asks the same again."""
    run: list[Line] = []
    for line in lines:
        asked = {(one.polarity, one.condition) for one in run}
        if run and (_pair(run[0]) != _pair(line) or (line.polarity, line.condition) in asked):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _pair(line: Line) -> tuple[str, frozenset[str]]:
    """Return the template and the two words of a line."""
    return line.template, frozenset(line.words[person] for person in line.persons)


def mirror_keys(quad: Sequence[Line]) -> tuple[str, str]:
    """Return two keys of lines; where their words exchange places, they are those of their mirror in reverse.

    Words are found whole, the longest first; "a" and "an" count alike before them.

    Args:
        quad: the lines.
    """
    words = sorted({quad[0].words[person] for person in quad[0].persons})
    keys = []
    for names in (words, words[::-1]):
        texts = [f"{_with_slots(line, names)} {line.question}" for line in quad]
        keys.append("\n".join([quad[0].template, *words, *texts]))
    return keys[0], keys[1]


def _with_slots(line: Line, words: Sequence[str]) -> str:
    """Return the context of a line with the number of a word in its place."""
    filled = _word_pattern(tuple(words), line.language).sub(
        lambda match: f"[{[plain(word) for word in words].index(plain(match[0]))}]", line.context
    )
    return re.sub(r"\b([Aa])n(?= \[)", r"\1", filled)


@cache
def _word_pattern(words: tuple[str, ...], language: Language) -> re.Pattern[str]:
    """Return the pattern of whole words, the longest first; a hyphen matches a blank."""
    longest_first = sorted(words, key=len, reverse=True)
    parts = [
        re.escape(word).replace(r"\-", "[- ]").replace(r"\ ", "[- ]") for word in longest_first
    ]
    end = "" if language.takes_endings else r"(?!\w)"
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)}){end}", re.IGNORECASE)


def first_named(line: Line) -> int | None:
    """Return the index of the option whose word the context has first; None where it has neither.

    Args:
        line: a line.
    """
    words = [line.words[person] for person in line.persons]
    match = _word_pattern(tuple(words), line.language).search(line.context)
    if match is None:
        return None
    return line.persons[[plain(word) for word in words].index(plain(match[0]))]
