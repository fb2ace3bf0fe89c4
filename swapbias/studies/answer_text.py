"""Texts of answers as they are compared: without reasoning, markup and edges, and their words."""

import re
import unicodedata
from collections.abc import Mapping

_TAG = r"[<\[]{}(?:think|thinking|thought|reasoning)\b[^<>\[\]]*[>\]]"
_OPENED = re.compile(_TAG.format(""), re.IGNORECASE)
_CLOSED = re.compile(_TAG.format("/"), re.IGNORECASE)
# Before a digit a list mark may be a sign: "- 2" is no 2, nor is "- **2**".
_EMPHASIS = re.compile(r"[*_`]+")
_MARKUP = re.compile(
    r"^[ \t]*(?:(?:`{3,}|~{3,})\w*[ \t]*$|-{3,}$|(?:[-•+>#]+|[*](?!\*))[ \t]+(?!(?:[^\w\n]|_)*\d))",
    re.MULTILINE,
)
_APOSTROPHE = re.compile(r"(?<=\w)[’‘`´ʼ′＇](?=\w)")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# More marks on a letter would take long, and may strike it out.
_PILED = re.compile("([\u0300-\u036f])[\u0300-\u036f]{8,}")
_LONGEST = 20_000  # characters outside reasoning: what is longer is no answer, and would take long
_OPENS = " \t\n\"'“”„‘‚«»‹›「『【《([{"
_ENDS = " \t\n\"'“”‘’«»‹›」』】》)]}.,;:!。、"
_KEYS = "answer|choice|decision|option|response|verdict|conclusion"
_JSON = re.compile(rf'\{{\s*"(?:final_)?(?:{_KEYS})"\s*:\s*"([^"\\]*)"\s*\}}', re.IGNORECASE)
LEAD = re.compile(
    r"(?:(?:(?:the|my|final|short|correct|best|one-word)\s+){0,4}"
    rf"(?:{_KEYS})(?:\s+is|\s+would\s+be)?\s*(?:[:=]|[–—-](?!\s*\d))?"
    r"|i(?:'d|'ll|\s+would|\s+will)?\s+(?:choose|pick|select|answer)\b:?|it(?:'s| is)\b)\s*",
    re.IGNORECASE,
)
"""A lead-in to an answer: "Answer:", "I would choose"."""


def without_reasoning(answer: str) -> str:
    """Give what stands outside reasoning between tags; nothing where a reasoning that begins does not end.

    Args:
        answer: the raw text.
    """
    *closed, last = _CLOSED.split(answer)
    if _OPENED.search(last):
        return ""
    # A piece without an opening tag is reasoning from its start: some templates put that tag into the prompt.
    before = [_OPENED.split(piece)[0] for piece in closed if _OPENED.search(piece)]
    return "\n".join([*before, last]).strip()


def word_count(answer: str) -> int:
    """Count the words of an answer, without reasoning between tags.

    Args:
        answer: the raw text.
    """
    return len(re.findall(r"\w+(?:['’-]\w+)*", without_reasoning(answer)))


def plain_text(answer: str) -> str:
    """Give an answer without reasoning, markup and blank lines; a line that goes on below is one line.

    Args:
        answer: the raw text.
    """
    text = _UNSEEN.sub("", without_reasoning(answer))
    text = _PILED.sub(r"\1", _APOSTROPHE.sub("'", text))
    text = _normal(text if len(text) <= _LONGEST else "")
    text = _MARKUP.sub("", _APOSTROPHE.sub("'", text))
    lines: list[str] = []
    for line in _EMPHASIS.sub("", text).splitlines():
        line = line.strip()
        if not without_edges(line):
            continue
        if lines and _goes_on(lines[-1], line):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    value = _JSON.fullmatch(" ".join(lines))
    return value[1] if value else "\n".join(lines)


def _goes_on(line: str, following: str) -> bool:
    """Tell whether a line goes on in the one that follows it."""
    if LEAD.fullmatch(line):
        return True
    return following[0].islower() and line[-1] not in ".!?:"


def _normal(text: str) -> str:
    """Write a text in compatible letters; a sign that stands for several, such as that of a half, stays one."""
    signs = [letter for letter in {*text} if _is_sign_of_several(letter)]
    if not signs:
        return unicodedata.normalize("NFKC", text)
    parts = re.split(f"([{re.escape(''.join(signs))}])", text)
    return "".join(part if part in signs else unicodedata.normalize("NFKC", part) for part in parts)


def _is_sign_of_several(character: str) -> bool:
    """Tell whether a letter is a sign that NFKC writes with several."""
    is_sign = unicodedata.category(character)[0] in "SN"
    return is_sign and len(unicodedata.normalize("NFKC", character)) > 1


def without_edges(text: str) -> str:
    """Give a text without the quotes, brackets and end punctuation around it.

    Args:
        text: a piece of an answer.
    """
    return text.rstrip(_ENDS).lstrip(_OPENS)


def words_in(text: str, aliases: Mapping[str, str]) -> list[str]:
    """List the words of a text in lower case, without 's; a misspelt one as the occupation that it stands for.

    Args:
        text: any.
        aliases: misspelt word -> occupation.
    """
    plain = unicodedata.normalize("NFKC", text).replace("’", "'").casefold()
    bare = (word.removesuffix("'s") for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", plain))
    parts = [part for word in bare for part in aliases.get(word, word).casefold().split()]
    # With "worker" read as "construction worker", "construction worker" would be a construction construction worker.
    return [part for before, part in zip(["", *parts], parts, strict=False) if part != before]


def plural_of(word: str) -> str:
    """Write the plural of an occupation.

    Args:
        word: its singular.
    """
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(s|x|sh|ch)$", word) else f"{word}s"
