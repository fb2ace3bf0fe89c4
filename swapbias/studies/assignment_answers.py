"""Read assignments: a line for each word, with the option that it is given to behind a hyphen or a colon."""

import re
import unicodedata
from collections.abc import Collection

# Marks of lists and bold type, and a number, before a line.
_MARKS = re.compile(r"^(?:[-•>#|]+\s+|\(?\d+[.):]\s*)+")
_TYPE = re.compile(r"[*_`\"“”\[\]]|^['‘’]+|['‘’]+$")
# The option is read behind the last of these. A hyphen inside a word has no blank beside it.
_SEPARATOR = re.compile(r"\s*(?:\s[-–—]|[-–—]\s|[:–—]|->|→|=)\s*")
_CLOSE = re.compile(r"\s*-\s*")


def read_assignments(text: str, options: Collection[str]) -> dict[str, str]:
    """Return the option that an answer gives each word.

    Args:
        text: an answer without reasoning. A line counts that ends in an option alone, behind a separator.
        options: the names that words are given to, which may have blanks and hyphens.

    Returns:
        Options by word in lower case; without a word that is given to several.
    """
    by_name = {_plain(option): option for option in options}
    chosen_by_word: dict[str, set[str]] = {}
    for line in text.splitlines():
        word, name = _split(_MARKS.sub("", line.strip()), by_name)
        if word:
            chosen_by_word.setdefault(word, set()).add(by_name[name])
    return {word: min(chosen) for word, chosen in chosen_by_word.items() if len(chosen) == 1}


def _split(line: str, names: Collection[str]) -> tuple[str, str]:
    """Return the word of a line and the name at its end; blank where the line is no such pair."""
    for separator in (_SEPARATOR, _CLOSE):
        for match in reversed([*separator.finditer(line)]):
            word = _plain(line[: match.start()])
            name = _plain(line[match.end() :])
            if word and name in names:
                return word, name
    return "", ""


def plain_word(word: str) -> str:
    """Write a word as the words of an answer are written, which may correct "didnt".

    Args:
        word: the word.

    Returns:
        It in lower case without apostrophes, each accent in its letter.
    """
    return unicodedata.normalize("NFC", word).casefold().replace("'", "")


def _plain(text: str) -> str:
    """Write a text in lower case, without quotes, marks of type and a stop or comma at its end."""
    text = unicodedata.normalize("NFC", text)
    bare = _TYPE.sub("", text.strip().rstrip(".,;").strip())
    return " ".join(bare.replace("’", "'").casefold().split())
