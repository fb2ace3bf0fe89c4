"""The sentences of adjective_coreference as its authors ran them: 395 pairs of an older edit of WinoBias."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from swapbias.builders._adjective_coreference_sentences import (
    GENDERS,
    NAME,
    OTHER_GENDER,
    SIDES,
    Sentence,
    key_aliases,
    stereotypes,
    without_article,
)
from swapbias.studies import tables

FILES = {side: f"wino-data/{side}_stereotyped_type1.txt.test" for side in SIDES}
_BRACKETED = re.compile(r"\[([^\]]+)\]")
_IN_PARENTHESES = re.compile(r"\(([^)]+)\)")
_MARKS = str.maketrans("", "", "[]()")


@dataclass(frozen=True, slots=True)
class MarkedSentence(Sentence):
    """A sentence whose authors marked the two occupations, with their articles, in each version."""

    marked: dict[str, dict[str, str]]
    """By side and gender of the stereotype: the occupation as it is spelt there, with its article."""

    def with_adjectives(self, side: str, adjectives: dict[str, str], mode: str) -> str:
        """Put an adjective after the article of each occupation, wherever its marked words stand, as it was run.

        Args:
            side: the version.
            adjectives: the adjectives by gender.
            mode: how adjectives are assigned, as in ``Sentence``.
        """
        text = self.texts[side]
        order = list(GENDERS)
        if mode != "stereotype":
            order.sort(key=lambda gender: text.index(self.marked[side][gender]))
        for adjective, gender in zip(adjectives.values(), order, strict=True):
            if adjective:
                words = self.marked[side][gender]
                article, _, noun = words.partition(" ")
                text = text.replace(words, f"{article} {adjective} {noun}")
        return text


def original_sentences() -> Iterator[MarkedSentence]:
    """Yield the 395 sentences as they were run, with their misspelt words."""
    gender_of = {name.lower(): gender for name, gender in stereotypes().items()}
    names = {name.lower(): name for name in stereotypes()} | key_aliases()
    by_side = [
        tables.upstream_file(NAME, path).read_text(encoding="utf-8").splitlines()
        for path in FILES.values()
    ]
    for number, lines in enumerate(zip(*by_side, strict=True), start=1):
        whole = dict(zip(SIDES, map(str.strip, lines), strict=True))
        bracketed = {side: _BRACKETED.findall(line) for side, line in whole.items()}
        referent_noun = without_article(bracketed["pro"][0])
        referent = gender_of[names[referent_noun].lower()]
        other_noun = without_article(_IN_PARENTHESES.findall(whole["pro"])[0])
        yield MarkedSentence(
            sentence_id=f"s{number:03d}",
            occupations={
                referent: names[referent_noun],
                # One sentence marks a house.
                OTHER_GENDER[referent]: names.get(other_noun, other_noun),
            },
            referent=referent,
            texts={side: line.translate(_MARKS) for side, line in whole.items()},
            pronouns={side: words[-1] for side, words in bracketed.items()},
            marked={
                side: {
                    referent: bracketed[side][0],
                    OTHER_GENDER[referent]: _IN_PARENTHESES.findall(line)[0],
                }
                for side, line in whole.items()
            },
        )
