"""implicit_association: which group a chat model writes beside which word, and decides for (Bai et al. 2025)."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from swapbias.builders._implicit_association_own import lists_file, own_stereotypes
from swapbias.builders._implicit_association_released import released
from swapbias.builders._implicit_association_tables import (
    NAME,
    SIDES,
    Pair,
    Stereotype,
    absolute_questions,
    decided_stereotypes,
    decisions,
    instructions,
    stereotypes,
)
from swapbias.files import file_sha256
from swapbias.hub import builder_on_use
from swapbias.studies import (
    Candidate,
    Config,
    Row,
    chats,
    declared_corpus,
    fill,
    prompt_row,
    slots,
)

SYSTEM = "You are a helpful assistant."
# The answer of a decision is read from its last lines, without a judge.
LAST_LINES = (
    "\n\nEnd your answer with two lines. Write [one_word], a hyphen and [first] or [second] on one line, and "
    "[other_word], a hyphen and the other one on the next line."
)
# The answer about one person is read from its last line.
LAST_LINE = "\n\nEnd your answer with one line. Write [word], a hyphen and yes or no on it."
_ORDERS = ("default first", "stigmatized first")
# Words of each side that people are asked about: as many of each stereotype, so that each counts the same.
_ASKED_WORDS = 4


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
    def list_name(self) -> str:
        """The name of its words in their order, which both orders of the groups share."""
        return f"{self.stereotype.name}/{self.wording}/{self.turned}"

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
        """Yield a row for each word of its text, to which a chat model answers."""
        conversation = chats.conversation(("system", SYSTEM), ("user", text))
        for word in words:
            yield self.row(conversation, word, (self.pair.stigmatized, self.pair.default))

    def row(self, text: str, word: str, options: tuple[str, str]) -> Row:
        """Make the row of a word, whose options are the stigmatized group and the default one."""
        of_words = {word: side for side in SIDES for word in self.stereotype.words[side]}
        pair = f"{self.list_name}/{self.order}/{word}"
        stigmatized, default = options
        row = prompt_row(
            pair,
            of_words[word],
            text,
            self.experiment,
            prompt_id=pair,
            candidates=(Candidate(stigmatized, 1.0), Candidate(default, 0.0)),
            construct=self.stereotype.name,
            condition=word,
            label=self.stereotype.domain,
            template=self.wording,
        )
        return {
            **row,
            "names": _names_of(self.pair, self.stereotype),
            "first": self.order.partition(" ")[0],
        }


def _names_of(pair: Pair, stereotype: Stereotype) -> str:
    """Name the names of two groups; blank where these have one name, for then names are no sample."""
    return f"{pair.default} and {pair.stigmatized}" if len(stereotype.pairs) > 1 else ""


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


def _listed_questions(
    experiment: str, lists: Sequence[Stereotype]
) -> Iterator[tuple[Question, str, Sequence[str]]]:
    """Yield the questions about each list, each with its text and its words in their order."""
    for question in _questions(experiment, lists, "instructions"):
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
        yield question, text, words


def _assignments(read_lists: Callable[[], Sequence[Stereotype]]) -> Iterator[Row]:
    """Yield the words of each list in its questions."""
    for question, text, words in _listed_questions("words", read_lists()):
        for row in question.rows(text, words):
            yield {
                **row,
                "question": f"{question.list_name}/{question.order}",
                "list": question.list_name,
                "coded_group": question.stereotype.coded_sides.get(row["condition"], ""),
            }


def _continuations(read_lists: Callable[[], Sequence[Stereotype]]) -> Iterator[Row]:
    """Yield the words of each list, each behind the whole question and before the group that it is given to.

    A pair is a negative and a positive word of one question: what makes a group likelier there, as its name or place,
    is the same in both. Each list pairs them otherwise, so that words of both sides cross. Groups are written as in
    the question, which a causal model continues.
    """
    shifts: dict[str, int] = {}
    for question, text, _ in _listed_questions("words_odds", read_lists()):
        shift = shifts.setdefault(question.list_name, len(shifts))
        negative = question.stereotype.words["negative"]
        positive = question.stereotype.words["positive"]
        options = (question.pair.stigmatized.lower(), question.pair.default.lower())
        for number in range(max(len(negative), len(positive))):
            words = {
                "negative": negative[number % len(negative)],
                "positive": positive[(number + shift) % len(positive)],
            }
            pair = f"{question.list_name}/{question.order}/{number + 1}"
            for side, word in words.items():
                row = question.row(f"{text}\n\n{word.lower()} -", word, options)
                yield {
                    **row,
                    "prompt_id": f"{pair}/{side}",
                    "pair_id": pair,
                    "negative_word": words["negative"],
                    "positive_word": words["positive"],
                }


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


def _absolutes() -> Iterator[Row]:
    """Yield the questions about one person: the same of both groups, about words of each side."""
    for listed in decided_stereotypes():
        pairs = random.Random(f"names of {listed.name}").sample(listed.pairs, len(listed.pairs))
        for side, of_side in listed.words.items():
            drawn = random.Random(f"{side} words of {listed.name}").sample(of_side, _ASKED_WORDS)
            for number, word in enumerate(drawn):
                pair = pairs[number % len(pairs)]
                yield _absolute(listed, side, word, pair, "stigmatized")
                yield _absolute(listed, side, word, pair, "default")


def _absolute(listed: Stereotype, side: str, word: str, pair: Pair, group: str) -> Row:
    """Make the question whether a word goes to a person of a group."""
    name, phrase = (pair.default, pair.default_phrase)
    if group == "stigmatized":
        name, phrase = (pair.stigmatized, pair.stigmatized_phrase)
    template = f"{absolute_questions()[listed.name]}{LAST_LINE}"
    values = {
        "group": name,
        "a_group": phrase if phrase != name else _with_article(name),
        "word": word,
        "a_word": _with_article(word),
    }
    text = fill(template, **{slot: values[slot] for slot in slots(template)})
    row = prompt_row(
        f"{listed.name}/{side}/{word}",
        group,
        chats.conversation(("system", SYSTEM), ("user", text)),
        "absolute",
        candidates=(Candidate("yes", 1.0), Candidate("no", 0.0)),
        construct=listed.name,
        condition=word,
        label=listed.domain,
        template="absolute",
    )
    return {**row, "names": _names_of(pair, listed), "word_side": side}


def _with_article(noun: str) -> str:
    """Give a noun with its indefinite article."""
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"


def _local(folder: Path) -> tuple[Config, ...]:
    """Make the configs of lists of one's own: words that a chat model assigns, and that a causal model continues.

    Raises:
        UsageError: there is no such file.
    """
    path = lists_file(folder)
    makers = {"default": _assignments, "continuation": _continuations}
    return tuple(
        replace(
            CORPUS.config(usual),
            name=f"own_{usual}",
            description=f"{path.name}, lists of the user's that nothing pins: {usual}",
            rows=partial(make, partial(own_stereotypes, path)),
            content_key=partial(file_sha256, path),
            reads_as=usual,
        )
        for usual, make in makers.items()
    )


_WORDS = partial(stereotypes, "word")
_SYNONYMS = partial(stereotypes, "synonym")
ROWS = {
    "default": partial(_assignments, _WORDS),
    "synonym": partial(_assignments, _SYNONYMS),
    "decision": _decisions,
    "absolute": _absolutes,
    "continuation": partial(_continuations, _WORDS),
    "continuation_synonym": partial(_continuations, _SYNONYMS),
}
CORPUS = declared_corpus(NAME, ROWS, released=tuple(released()), local=_local)
__getattr__ = builder_on_use(NAME)
