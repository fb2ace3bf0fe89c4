"""Name what there is where a user names something that is not there."""

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches

from swapbias.errors import UsageError, listed, quoted

# Names that look alike and mean the opposite: none is proposed for the other.
_OPPOSITES = frozenset(
    map(
        frozenset,
        (
            ("male", "female"),
            ("males", "females"),
            ("man", "woman"),
            ("men", "women"),
            ("he", "she"),
            ("boy", "girl"),
            ("him", "her"),
            ("his", "hers"),
            ("positive", "negative"),
            ("pro", "anti"),
            ("able", "unable"),
        ),
    )
)


def unknown(thing: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for a name that is none of those there are."""
    one_of = (
        f"expected one of {listed(known)}.{did_you_mean(name, known)}"
        if known
        else "there is none."
    )
    return UsageError(f"Unknown {thing} {quoted(name)}: {one_of}")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Which of the names there are is nearest, as a sentence after a blank; blank where none is near.

    What is the same but for case, form of Unicode or marks between words comes first.

    >>> did_you_mean("male", ["Female", "Male"]), did_you_mean("male", ["Female"])
    (' Did you mean Male?', '')
    """
    typed = _normal_form(name)
    by_form: dict[str, str] = {}
    for one in known:
        by_form.setdefault(_normal_form(one), one)
    near = [typed] if typed in by_form else get_close_matches(typed, by_form, n=len(by_form) or 1)
    nearest = next((one for one in near if frozenset((typed, one)) not in _OPPOSITES), None)
    return f" Did you mean {by_form[nearest]}?" if nearest is not None else ""


def _normal_form(name: str) -> str:
    """A name without what is easily written otherwise: case, accents in two forms, marks between words."""
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", name).casefold()).strip("_")


def composed(text: str) -> str:
    """A name in the normal form NFC: composed and decomposed accents are one name."""
    return unicodedata.normalize("NFC", text)
