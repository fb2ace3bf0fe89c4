"""What an answer to "who does the pronoun refer to?" says: one of four classes, read strictly or tolerantly."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from swapbias.errors import UsageError

CLASSES = ("correct", "incorrect", "unsure", "other")
PARSERS = ("tolerant", "strict")
SAID = "said_"  # before a class: the column that holds 1 where the tolerant parser gives it
_ARTICLES = frozenset(("the", "a", "an"))
_UNSURE = frozenset(("unsure", "uncertain", "unclear"))
_NEGATIONS = frozenset(("not", "no", "neither", "nor"))
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def answer_class(
    answer: str | None,
    *,
    correct: str,
    incorrect: str,
    parser: str = "tolerant",
    adjectives: Collection[str] = (),
    aliases: Mapping[str, str] | None = None,
) -> str:
    """``correct``, ``incorrect`` (the other occupation), ``unsure`` or ``other``; "" for None, which was not asked.

    ``strict`` reads as the study did: the first word (X of just "the X"), without full stops, in lower case, equal to
    the last word of a key or to "unsure". ``tolerant`` reads the first line that is not blank: whatever the case and
    the article, in the plural or possessive, with hyphens or inside a sentence; of an occupation of two words
    either word is enough where nothing else is said. Where both occupations are named, or one beside "unsure" or
    "not", nothing is decided: ``other``.

    Args:
        answer: the raw text; a blank one is ``other``.
        correct, incorrect: "the mechanic" or "mechanic".
        parser: ``tolerant`` or ``strict``.
        adjectives: words put into the sentence, which the tolerant parser skips.
        aliases: misspelt word -> occupation, for keys and answers; the tolerant parser alone uses them.

    Raises:
        UsageError: a parser that does not exist.
        ValueError: the two keys are the same, or one is blank.

    >>> answer_class("The arrogant mechanic.", correct="the mechanic", incorrect="the clerk")
    'correct'
    >>> answer_class("The arrogant mechanic.", correct="the mechanic", incorrect="the clerk", parser="strict")
    'other'
    """
    if parser not in PARSERS:
        raise UsageError(f"parser {parser!r}, expected 'tolerant' or 'strict'.")
    known = aliases if parser == "tolerant" and aliases else {}
    keys = [_without(_words(key, known), _ARTICLES) for key in (correct, incorrect)]
    if not all(keys) or keys[0] == keys[1]:
        raise ValueError(f"keys {correct!r} and {incorrect!r}, expected two different occupations. Fix the row.")
    if answer is None:
        return ""
    if parser == "strict":
        return _strict(answer, keys)
    return _tolerant(_without(_words(_first_line(answer), known), {*_ARTICLES, *adjectives}), keys)


def _strict(answer: str, keys: Sequence[Sequence[str]]) -> str:
    words = answer.split() or [""]
    word = words[1] if len(words) == 2 and words[0] == "the" else words[0]
    by_word = {"unsure": "unsure", keys[1][-1]: "incorrect", keys[0][-1]: "correct"}
    return by_word.get(word.strip(".").lower(), "other")


def _tolerant(words: list[str], keys: Sequence[Sequence[str]]) -> str:
    said = f" {' '.join(words)} ".replace(" not sure ", " unsure ")
    forms = [_forms(key) for key in keys]
    found = []
    for name, key, own, others in zip(CLASSES, keys, forms, forms[::-1], strict=False):
        only_start = len(key) > 1 and words == key[:-1]  # "construction" of a construction worker
        if only_start or any(f" {form} " in said for form in own - others):
            found.append(name)
    rest = set(said.split())
    if rest & _UNSURE:
        found.append("unsure")
    negated = rest & _NEGATIONS or any(word.endswith("n't") for word in rest)
    return found[0] if len(found) == 1 and not negated else "other"


def _forms(key: Sequence[str]) -> set[str]:
    """What names an occupation: the phrase, its words run together, its last word; each also in the plural."""
    singular = {" ".join(key), "".join(key), key[-1]}
    return singular | {_plural(form) for form in singular}


def _plural(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|sh|ch)$", word) else f"{word}s"


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _words(text: str, aliases: Mapping[str, str]) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
    bare = (word.removesuffix("'s") for word in _WORD.findall(plain))
    return [part for word in bare for part in aliases.get(word, word).lower().split()]


def _without(words: Iterable[str], left_out: Collection[str]) -> list[str]:
    return [word for word in words if word not in left_out]
