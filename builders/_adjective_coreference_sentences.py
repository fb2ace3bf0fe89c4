"""Sentences of adjective_coreference: the project's own and WinoBias's, and adjectives put before occupations."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swapbias.studies import corpus_dir, fill, read_table, slots, tables
from swapbias.swapping.agreement import begins_with_vowel

NAME = "adjective_coreference"
FOLDER = corpus_dir(NAME)
SIDES = ("pro", "anti")
GENDERS = ("male", "female")
ORIGINS = ("male_origin", "female_origin")  # whose descriptions have the adjective, or supplemented
MODES = ("stereotype", "position")
_COLUMNS = ("sentence", *GENDERS, "referent", "template")
_PRONOUNS = {
    "subject": {"male": "he", "female": "she"},
    "object": {"male": "him", "female": "her"},
    "possessive": {"male": "his", "female": "her"},
}
_GENDERED = frozenset(("he", "him", "his", "himself", "she", "her", "hers", "herself"))
_MARKED = re.compile(r"\[([^\]]+)\]")
_ARTICLE = re.compile(r"^(the|an?) ", re.IGNORECASE)
OTHER_GENDER = {"male": "female", "female": "male"}
Condition = dict[str, str]
"""A name, and the adjective before the occupation of each stereotype; blank for none."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence about two occupations in two versions, which differ in the gender of its pronouns.

    Attributes:
        sentence_id: unique within a source.
        occupations: by the gender of their stereotype.
        referent: the gender of the stereotype of the occupation that the pronoun stands for.
        texts, pronouns: by side; ``pro`` has the pronoun that fits the stereotype of the referent.
    """

    sentence_id: str
    occupations: dict[str, str]
    referent: str
    texts: dict[str, str]
    pronouns: dict[str, str]

    def answer(self, gender: str) -> str:
        """The answer that names the occupation of that stereotype."""
        return f"the {self.occupations[gender]}"

    def with_adjectives(self, side: str, adjectives: dict[str, str], mode: str) -> str:
        """The version of a side with an adjective before each occupation.

        ``stereotype`` puts the male-associated adjective before the stereotypically male occupation; ``position``
        puts it before the occupation that is mentioned first. A blank adjective leaves its occupation alone.
        """
        text = self.texts[side]
        order = list(GENDERS)
        if mode != "stereotype":
            order.sort(key=lambda gender: self._start(side, gender))
        for adjective, gender in zip(adjectives.values(), order, strict=True):
            text = insert_adjective(text, self.occupations[gender], adjective)
        return text

    def _start(self, side: str, gender: str) -> int:
        """Find where the text of a side names an occupation first."""
        return _mention(self.texts[side], self.occupations[gender]).start()


def insert_adjective(text: str, noun: str, adjective: str) -> str:
    """The text with the adjective before the first mention of the noun; "a" and "an" follow the adjective.

    >>> insert_adjective("A cook met an editor.", "editor", "dry")
    'A cook met a dry editor.'

    Raises:
        ValueError: the text does not name the noun.
    """
    mention = _mention(text, noun)
    if not adjective:
        return text
    before = text[: mention.start()]
    article = re.search(r"\b(a)n?( )$", before, re.IGNORECASE)
    if article:
        before = f"{before[: article.end(1)]}{'n' if begins_with_vowel(adjective) else ''} "
    return f"{before}{adjective} {text[mention.start() :]}"


def _mention(text: str, noun: str) -> re.Match[str]:
    """Find where a text names a noun first."""
    mention = re.search(rf"\b{re.escape(noun)}\b", text, re.IGNORECASE)
    if mention is None:
        raise ValueError(
            f"{text!r} does not name {noun!r}, expected both occupations. Fix the sentence."
        )
    return mention


def without_article(words: str) -> str:
    """Return an occupation in lower case without its article.

    Args:
        words: the occupation, with or without an article.
    """
    return _ARTICLE.sub("", words).lower()


def key_aliases() -> dict[str, str]:
    """Misspelt or shortened key -> the occupation it means."""
    rows = read_table(FOLDER / "key_aliases.csv", ("key", "occupation"))
    return {row["key"]: row["occupation"] for row in rows}


def stereotypes() -> dict[str, str]:
    """Occupation -> the gender of its stereotype: the 40 occupations of WinoBias."""
    rows = read_table(FOLDER / "occupations.csv", ("occupation", "stereotype"))
    return {row["occupation"]: row["stereotype"] for row in rows}


def conditions() -> list[Condition]:
    """Each with the adjective that is associated with men and the one with women; blank where there is none."""
    optional = (*GENDERS, *ORIGINS)
    return read_table(FOLDER / "adjectives.csv", ("condition", *optional), optional=optional)


def own_sentences() -> Iterator[Sentence]:
    """The sentences written for this project."""
    return _written(read_table(FOLDER / "wino_sentences.csv", _COLUMNS))


def reworded_sentences() -> Iterator[tuple[str, list[Sentence]]]:
    """The number of each wording and the same sentences in it."""
    rows = read_table(FOLDER / "wino_sentences.csv", _COLUMNS)
    for number, worded in tables.wordings(NAME, "sentence").items():
        reworded = [{**row, "template": worded[row["sentence"]]["template"]} for row in rows]
        yield number, list(_written(reworded))


def _written(rows: Iterable[dict[str, str]]) -> Iterator[Sentence]:
    for row in rows:
        (slot,) = slots(row["template"])
        gender_of = {"pro": row["referent"], "anti": OTHER_GENDER[row["referent"]]}
        pronouns = {side: _PRONOUNS[slot][gender] for side, gender in gender_of.items()}
        yield Sentence(
            sentence_id=row["sentence"],
            occupations={gender: row[gender] for gender in GENDERS},
            referent=row["referent"],
            texts={
                side: fill(row["template"], **{slot: pronoun}) for side, pronoun in pronouns.items()
            },
            pronouns=pronouns,
        )


def upstream_paths(split: str) -> dict[str, str]:
    """The two files of WinoBias, type 1, of a split (``dev``, ``test``), by side."""
    return {side: f"WinoBias/wino/data/{side}_stereotyped_type1.txt.{split}" for side in SIDES}


def winobias_sentences(split: str) -> Iterator[Sentence]:
    """The sentences of WinoBias, type 1, of a split, as released but for the brackets.

    A line has a number, then a text with the referent and the pronouns in brackets.
    """
    gender_of = stereotypes()
    by_word = {name.lower(): name for name in gender_of}
    files = [
        tables.upstream_file(NAME, path).read_text(encoding="utf-8").splitlines()
        for path in upstream_paths(split).values()
    ]
    for number, lines in enumerate(zip(*files, strict=True), start=1):
        marked = {
            side: line.partition(" ")[2].strip() for side, line in zip(SIDES, lines, strict=True)
        }
        words = {side: _MARKED.findall(text) for side, text in marked.items()}
        texts = {side: _MARKED.sub(r"\1", text) for side, text in marked.items()}
        nouns = [without_article(word) for word in words["pro"]]
        (referent,) = [by_word[noun] for noun in nouns if noun in by_word]
        by_gender = {
            gender: name for name, gender in gender_of.items() if _names(texts["pro"], name)
        }
        yield Sentence(
            sentence_id=f"s{number:03d}",
            occupations={gender: by_gender[gender] for gender in GENDERS},
            referent=gender_of[referent],
            texts=texts,
            pronouns={
                side: [word for word in words[side] if word.lower() in _GENDERED][-1]
                for side in SIDES
            },
        )


def _names(text: str, noun: str) -> bool:
    """Tell whether a text has a noun as a whole word."""
    return re.search(rf"\b{re.escape(noun)}\b", text, re.IGNORECASE) is not None
