"""implicit_association: which group a chat model writes beside which word, and decides for (Bai et al. 2025)."""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from swapbias.builders._implicit_association_released import released
from swapbias.builders._implicit_association_tables import (
    NAME,
    SIDES,
    Pair,
    Stereotype,
    decided_stereotypes,
    decisions,
    instructions,
    stereotypes,
)
from swapbias.hub import builder_on_use
from swapbias.studies import Candidate, Row, chats, declared_corpus, fill, prompt_row

SYSTEM = "You are a helpful assistant."
# The answer of a decision is read from its last lines, without a judge.
LAST_LINES = (
    "\n\nEnd your answer with two lines. Write [one_word], a hyphen and [first] or [second] on one line, and "
    "[other_word], a hyphen and the other one on the next line."
)
_ORDERS = ("default first", "stigmatized first")


class Question(NamedTuple):
    """A question in one order of the groups and of the words."""

    experiment: str
    """The experiment that reads it."""
    stereotype: Stereotype
    """The stereotype that it is about."""
    wording: str
    """The instruction or wording."""
    pair: Pair
    """The names of the two groups."""
    order: str
    """Which group is named first."""
    turned: str
    """Whether the words are in the drawn order or reversed."""

    @property
    def names(self) -> tuple[str, str]:
        """The names of the groups in the order of the question."""
        names = (self.pair.default, self.pair.stigmatized)
        return names if self.order == _ORDERS[0] else names[::-1]

    @property
    def phrases(self) -> tuple[str, str]:
        """The phrases for the groups in the order of the question."""
        phrases = (self.pair.default_phrase, self.pair.stigmatized_phrase)
        return phrases if self.order == _ORDERS[0] else phrases[::-1]

    def rows(self, text: str, words: Sequence[str]) -> Iterator[Row]:
        """Yield a row for each word of its text."""
        of_words = {word: side for side in SIDES for word in self.stereotype.words[side]}
        conversation = chats.conversation(("system", SYSTEM), ("user", text))
        for word in words:
            side = of_words[word]
            pair = f"{self.stereotype.name}/{self.wording}/{self.turned}/{self.order}/{word}"
            row = prompt_row(
                pair,
                side,
                conversation,
                self.experiment,
                prompt_id=pair,
                candidates=(
                    Candidate(self.pair.stigmatized, 1.0),
                    Candidate(self.pair.default, 0.0),
                ),
                construct=self.stereotype.name,
                condition=word,
                label=self.stereotype.domain,
                template=self.wording,
            )
            # Blank where a group has one name: then names are no sample.
            names = " and ".join((self.pair.default, self.pair.stigmatized))
            yield {
                **row,
                "names": names if len(self.stereotype.pairs) > 1 else "",
                "first": self.order.partition(" ")[0],
            }


def _questions(experiment: str, lists: Sequence[Stereotype], wordings: str) -> Iterator[Question]:
    """Yield the questions about each list: three wordings, in both orders of the groups and of the words.

    Names are as many as there are pairs of a wording and an order of words, which both orders of the groups share.
    """
    for listed in lists:
        drawn = random.Random(f"names of {listed.name}")
        pairs = drawn.sample(listed.pairs, len(listed.pairs))
        names = decisions(listed.name) if wordings == "decisions" else instructions()
        for number, (wording, turned) in enumerate(product(names, ("drawn", "reversed"))):
            pair = pairs[number % len(pairs)]
            for order in _ORDERS:
                yield Question(experiment, listed, wording, pair, order, turned)


def _assignments(column: str) -> Iterator[Row]:
    """Yield the words of each list in its questions."""
    for question in _questions("words", stereotypes(column), "instructions"):
        listed = question.stereotype
        words = [word for side in SIDES for word in listed.words[side]]
        random.Random(f"words of {listed.name} {question.wording}").shuffle(words)
        if question.turned == "reversed":
            words.reverse()
        first, second = question.names
        listing = str([word.lower() for word in words])
        text = fill(
            instructions()[question.wording],
            first=first.lower(),
            second=second.lower(),
            words=listing,
        )
        yield from question.rows(text, words)


def _decisions() -> Iterator[Row]:
    """Yield the two words of each decision: one of each side, others in each wording."""
    for question in _questions("decision", decided_stereotypes(), "decisions"):
        listed = question.stereotype
        number = [*decisions(listed.name)].index(question.wording)
        words = [
            random.Random(f"{side} words of {listed.name}").sample(of_side, len(of_side))[number]
            for side, of_side in listed.words.items()
        ]
        if question.turned == "reversed":
            words.reverse()
        phrases = question.phrases
        text = fill(
            decisions(listed.name)[question.wording],
            first=phrases[0],
            second=phrases[1],
            one_word=words[0],
            other_word=words[1],
        )
        names = question.names
        ending = fill(
            LAST_LINES, first=names[0], second=names[1], one_word=words[0], other_word=words[1]
        )
        yield from question.rows(f"{text}{ending}", words)


ROWS = {
    "default": partial(_assignments, "word"),
    "synonym": partial(_assignments, "synonym"),
    "decision": _decisions,
}
CORPUS = declared_corpus(NAME, ROWS, released=tuple(released()))
__getattr__ = builder_on_use(NAME)
