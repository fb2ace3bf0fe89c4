"""Tables that the rules of swapping are read from: lists of words, patterns, rules and weights."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from swapbias.studies import corpus_dir, read_table

DEMOGRAPHIC = frozenset(
    {"m", "f", "wm", "wf", "bm", "bf", "hm", "hf", "aam", "aaf", "rhm", "rhf", "lhm", "lhf"}
)
"""Letters and letter pairs that name a gender only in a demographic ("72 y/o M"), never as words of their own."""
UNITS = ("y", "yo", "yr", "yrs", "o")
"""Units of an age onto which such letters are written; the last after "y/"."""
GLUED = frozenset(f"{unit}{letters}" for unit in UNITS for letters in DEMOGRAPHIC)
"""Such letters with the unit before them: "yom"."""
_SETS_OF_WORDS = {"%letters%": DEMOGRAPHIC, "%glued%": GLUED}  # by their names in tables of rules


def unit_of(glued: str) -> int:
    """Return how many letters of "yom" are the unit.

    Args:
        glued: a glued demographic, an entry of ``GLUED``.
    """
    lengths = [
        len(unit)
        for unit in UNITS
        if glued.startswith(unit) and glued.removeprefix(unit) in DEMOGRAPHIC
    ]
    return max(lengths)


@cache
def word_list(name: str) -> frozenset[str]:
    """Return words that the rules of swapping share.

    Args:
        name: name of their list.
    """
    rows = read_table(corpus_dir("gender_lexicon") / "word_lists.csv", ("list", "words"))
    return frozenset(next(row["words"] for row in rows if row["list"] == name).split())


@cache
def weights_of(name: str) -> Mapping[str, float]:
    """Return the weights of a logistic model of swapping by feature, with ``bias``.

    Args:
        name: name of a table in ``gender_lexicon``.
    """
    rows = read_table(corpus_dir("gender_lexicon") / name, ("feature", "weight"))
    return {row["feature"]: float(row["weight"]) for row in rows}


@cache
def _patterns() -> Mapping[str, tuple[str, bool]]:
    """Return by name the text of each pattern, and whether it ignores case."""
    path = corpus_dir("gender_lexicon") / "patterns.csv"
    rows = read_table(path, ("name", "ignore_case", "pattern"))
    return {row["name"]: (row["pattern"], row["ignore_case"] == "yes") for row in rows}


def filled(text: str) -> str:
    """Return a regular expression in which names are replaced.

    Args:
        text: the text in which ``%name%`` stands for the pattern or the words (one of them) of that name.
    """
    return re.sub(r"%(\w+)%", _replacement, text)


def _replacement(name: re.Match[str]) -> str:
    """Return the regular expression that a name in a pattern stands for."""
    if name[1] not in _patterns():
        return "|".join(sorted(word_list(name[1])))
    text, ignores_case = _patterns()[name[1]]
    return f"(?i:{filled(text)})" if ignores_case else filled(text)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that the rules of swapping look for beside a word.

    Args:
        name: the name in ``patterns.csv``.
    """
    text, ignores_case = _patterns()[name]
    return re.compile(filled(text), re.IGNORECASE if ignores_case else 0)


@cache
def byte_pattern(name: str) -> re.Pattern[bytes]:
    """Return ``pattern`` for bytes.

    Args:
        name: the name in ``patterns.csv``.
    """
    of_text = pattern(name)
    return re.compile(of_text.pattern.encode(), of_text.flags & re.IGNORECASE)


@cache
def rules_by_word(name: str) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the rows of a table of rules by the words that they are for, in order: the first that fits decides.

    Args:
        name: name of the table in ``gender_lexicon``.
    """
    optional = ("when", "before", "after", "unless")
    columns = ("words", "says", *optional)
    by_word = dict[str, list[Mapping[str, str]]]()
    for row in read_table(corpus_dir("gender_lexicon") / name, columns, optional=optional):
        words = _SETS_OF_WORDS.get(row["words"], row["words"].split())
        for word in words:
            by_word.setdefault(word, []).append(row)
    return by_word


@cache
def rules(name: str, word: str, *, of_bytes: bool = False) -> Sequence[tuple[Any, ...]]:
    """Return the rules of a word.

    Args:
        name: name of the table in ``gender_lexicon``.
        word: the word in lower case, or a name of words.
        of_bytes: the patterns are looked for in bytes, not in text.

    Returns:
        For each rule its answer, the facts with the values that they must have, and three functions that look for
        its patterns: right behind the word, before it, and one that may not stand before it. An empty one fits
        anywhere.
    """
    compiled = []
    for row in rules_by_word(name).get(word, ()):
        facts = tuple((fact.lstrip("!"), not fact.startswith("!")) for fact in row["when"].split())
        after = _compiled(row["after"], of_bytes)
        before = _compiled(row["before"], of_bytes)
        unless = _compiled(row["unless"], of_bytes)
        match_after = after and after.match
        search_before = before and before.search
        search_unless = unless and unless.search
        compiled.append((row["says"], facts, match_after, search_before, search_unless))
    return compiled


def _compiled(text: str, of_bytes: bool) -> Any:
    """Return the compiled pattern of a rule, None where the rule has none."""
    if not text:
        return None
    expression = filled(text)
    return re.compile(expression.encode()) if of_bytes else re.compile(expression)
