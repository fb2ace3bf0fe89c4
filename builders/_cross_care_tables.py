"""Tables of cross_care: diseases, groups and templates in each language, and the sets that are compared."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from swapbias.studies import corpus_dir, read_table

NAME = "cross_care"
FOLDER = corpus_dir(NAME)
LANGUAGES = ("en", "es", "zh", "fr")
DEMOGRAPHICS = ("race", "gender")
ONLY_WOMEN = "only women"
OTHER = "other"
# Templates of the published numbers; the others claim causes.
FIRST_TEMPLATES = tuple(map(str, range(10)))
# Diseases of the lists that the published numbers leave out.
LEFT_OUT = ("aortic aneurysem", "parkinson", "vision problems", "acute gastritis")


class Disease(NamedTuple):
    """A disease in a language."""

    name: str
    """Its English name, by which the languages are joined."""
    word: str
    """The word in the language."""
    set: str
    """``infectious``, ``mental``, ``only women`` or ``other``."""
    sense: str
    """``clear``, or ``unclear`` where the word has other meanings."""


@cache
def diseases(language: str) -> tuple[Disease, ...]:
    """Read the diseases that the published numbers use, in the order of the authors' list.

    Args:
        language: its code.
    """
    sets = _read_sets()
    unclear = {row["disease"] for row in read_table(FOLDER / "unclear.csv", ("disease", "source"))}
    return tuple(
        Disease(
            row["disease"],
            row["word"],
            sets.get(row["disease"], OTHER),
            "unclear" if row["disease"] in unclear else "clear",
        )
        for row in read_table(FOLDER / "diseases.csv", ("language", "disease", "word"))
        if row["language"] == language and row["disease"] not in LEFT_OUT
    )


def _read_sets() -> dict[str, str]:
    """Read the set of each disease that is in one."""
    rows = read_table(FOLDER / "sets.csv", ("disease", "set", "icd10", "source"))
    return {row["disease"]: row["set"] for row in rows}


@cache
def english_names(language: str) -> Mapping[str, str]:
    """Return the English name of each word for a disease, also of those that are left out.

    Args:
        language: the code of the language of the words.
    """
    rows = read_table(FOLDER / "diseases.csv", ("language", "disease", "word"))
    return {row["word"]: row["disease"] for row in rows if row["language"] == language}


@cache
def group_words(demographic: str, language: str) -> Mapping[str, str]:
    """Return the word of each group.

    Args:
        demographic: ``race`` or ``gender``.
        language: its code.
    """
    rows = read_table(FOLDER / "groups.csv", ("demographic", "language", "group", "word"))
    return {
        row["group"]: row["word"]
        for row in rows
        if (row["demographic"], row["language"]) == (demographic, language)
    }


@cache
def templates(language: str) -> Mapping[str, str]:
    """Return the text of each template that the published numbers use, by its number.

    Args:
        language: its code.
    """
    rows = read_table(FOLDER / "templates.csv", ("language", "template", "text"))
    return {
        row["template"]: row["text"]
        for row in rows
        if row["language"] == language and row["template"] in FIRST_TEMPLATES
    }
