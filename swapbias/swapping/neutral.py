"""Texts without the group: gendered terms by the table, and the further words of a slot."""

import re
from collections.abc import Mapping, Sequence
from functools import cache

from swapbias.swapping.swapper import Swapper


def without_groups(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The texts neutralised by ``Swapper.neutralise``, and before it every one of these words by what stands for it.

    Words are whole ones, in any case, with a blank or a hyphen between their parts; the article before one becomes
    "a", which would tell an African American from a White person.

    >>> without_groups(["Mary is an African-American woman. I trust her."], {"Mary": "[name]", "African American": "[race]"})
    ['[name] is a [race] person. I trust them.']
    """  # noqa: E501
    return _swapper().neutralise([_replaced(text, words) for text in texts])


@cache
def _swapper() -> Swapper:
    return Swapper()


def _replaced(text: str, words: Mapping[str, str]) -> str:
    known = {_plain(word): stands for word, stands in words.items()}
    if not known:
        return text
    named = "|".join(
        re.escape(word).replace(r"\ ", r"[\s-]+") for word in sorted(known, key=lambda one: (-len(one), one))
    )
    whole = re.compile(rf"(?<!\w)(?:(a)n?\s+)?({named})(?!\w)", re.IGNORECASE)

    def stands(found: re.Match[str]) -> str:
        return f"{found[1]} {known[_plain(found[2])]}" if found[1] else known[_plain(found[2])]

    return whole.sub(stands, text)


def _plain(word: str) -> str:
    return " ".join(re.split(r"[\s-]+", word.lower()))
