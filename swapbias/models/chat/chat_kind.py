"""The kind of chat models: answers to prompts, several of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from swapbias.errors import UsageError
from swapbias.models.base import (
    PAIRS,
    PROMPTS,
    Bar,
    Column,
    Fit,
    Kind,
    Reading,
    Request,
    Say,
    Scorer,
    Training,
    imported,
)
from swapbias.models.chat.chat_options import LOG_ODDS, SAMPLED, ChatOptions, api_key, settings
from swapbias.models.clinical import NoteOptions
from swapbias.studies import Experiment, Row, as_prompts

FACTS = "facts"
_LONG_TEXTS = (FACTS, "tone")  # readings of extracts and summaries
_LONG = 512  # tokens of a text, where nothing else is set
NOTES = "clinical.chat_notes:note_conversations"
_CLOSED = ("options", "label")  # readings of questions whose options an answer may be bound to
_FREE_TEXT, _FEWEST = ("text", "person", "ranking"), 64  # readings, and the tokens that their answers need


def _shares(score: str, unanswered: str, refused: str = "refusals") -> tuple[Column, ...]:
    """Score columns that are shares of answers, each with what more of it means."""
    columns = {"score": score, "unanswered": unanswered, "refused": refused}
    return tuple(Column(name, "share of answers", higher) for name, higher in columns.items())


def _free_text(score: str) -> Reading:
    columns = _shares(score, "no decision that counts anything", "the answer declines to answer")
    length = Column("length", "natural log of words", "longer answers", 0.0, math.inf)
    return Reading((*columns, length, Column("judged", "share of the rubric", "what the rubric counts more")))


class Chat(Kind):
    """Models behind a service or on this machine, named with ``--chat``."""

    name = "chat"
    options = ChatOptions
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", "percentage points", "the answer is right", 0.0, 100.0),)),
        "options": Reading((
            *_shares("options that count more", "no option that counts anything")[:2],
            Column(
                "log_odds", "natural log-odds of the options that count more", "likelier options that count more",
                -math.inf, math.inf,
            ),
            Column("outside", "share of answers", "something else than an option"),
            Column("refused", "share of answers", "refusals"),
            Column("said_unsure", "share of answers", '"do not know"'),
        )),
        "label": Reading(_shares("the phenotype is found", "neither yes nor no")),
        "facts": Reading((
            Column("score", "share of the facts of a checklist", "more facts are kept"),
            *_shares("", "nothing was written")[1:],
        )),
        "completion": Reading(_shares("words of the group", "no completion")),
        "ranking": Reading((
            *_shares("rankings that put the candidate first", "nobody is named first"),
            Column("placed_above", "share of the other candidates", "more of them are ranked lower"),
        )),
        "tone": Reading((
            Column("score", "sentiment from 0 to 1", "more positive summaries"),
            Column("neutral", "sentiment from 0 to 1", "more positive summaries, without the person's gender"),
            Column("source", "sentiment from 0 to 1", "more positive notes"),
            Column("length", "natural log of words", "longer answers", 0.0, math.inf),
            *(
                Column(f"{one}_words", "words in 100", f"more words of {one}", 0.0, 100.0)
                for one in ("health", "emotion", "need")
            ),
            *_shares("", "nothing was written")[1:],
        )),
        "text": _free_text("decisions that count more"),
        "person": _free_text("people who count more"),
    }  # fmt: skip

    def check(self, request: Request) -> None:
        """Refuse settings that name no model, or that nothing would read."""
        chat = request.of(ChatOptions)
        if chat.model is None and self.is_requested(request):
            raise UsageError("Settings of a chat model are given and no model is. Name it with --chat.")
        chat.check()

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """The model that is named, where the way to score it suits the experiment."""
        chat = request.of(ChatOptions)
        why = "" if chat.model else "it asks a chat model; name one with --chat"
        if chat.log_odds and experiment.reading != "options":
            why = why or "it has no options to score by log-odds; ask it with -M scoring=sampled"
        elif chat.log_odds and experiment.compares_orders:
            why = why or "log-odds are averaged over the orders that it compares; ask it with -M scoring=sampled"
        short = experiment.reading in _FREE_TEXT and chat.max_tokens < _FEWEST
        if short:
            why = why or f"its answers are free text that {chat.max_tokens} tokens would cut; give -M max-tokens=200"
        yield "" if short else chat.model or "", why

    def rows(self, experiment: Experiment) -> str:
        """Notes, where the experiment names a corpus of them."""
        return PAIRS if experiment.corpus else PROMPTS

    def expand(self, rows: Sequence[Row], request: Request, experiment: Experiment) -> Sequence[Row]:
        """``trial_rows``, of notes as conversations about them."""
        chat, looks = request.of(ChatOptions), 1
        if experiment.corpus:
            how: Any = {"facts": experiment.reading == FACTS}
            rows = imported(NOTES)(rows, experiment.name, request.of(NoteOptions), **how)
        if chat.stop_early:
            from swapbias.measures import interim_rounds  # numpy, which listing the studies does not need

            looks = len(interim_rounds(chat.trials))
        return trial_rows(rows, chat.trials, chat.scoring, looks=looks)

    def sent(self, row: Mapping[str, str], request: Request) -> tuple[tuple[str, str], ...]:
        """Its text, or with log-odds those of all orders of its options."""
        if not request.of(ChatOptions).log_odds:
            return super().sent(row, request)
        from swapbias.models.chat.log_odds import orders

        return tuple((one.prompt.text, "") for prompt in as_prompts([row]) for one in orders(prompt))

    def announce(self, rows: Sequence[Mapping[str, Any]], request: Request, experiment: Experiment) -> str:
        """Requests, tokens and costs; nothing is sent and no key is needed."""
        from swapbias.models.chat.answering import CHARACTERS_PER_TOKEN, AnsweringScorer

        options = _options_of(request, long=experiment.reading in _LONG_TEXTS)
        options.check_open()
        scorer = AnsweringScorer(options.model or "", options)
        needed = scorer.estimate(as_prompts(rows))
        trials = 1 if options.log_odds else options.trials
        whole, each = (
            "" if math.isnan(cost) else f", at most about {cost:,.2f}" for cost in (needed.cost, needed.cost / trials)
        )
        sentences = [
            f"{needed.requests:,} requests to send: about {needed.prompt_tokens:,} prompt tokens (characters / "
            f"{CHARACTERS_PER_TOKEN}) and at most {needed.output_tokens:,} output tokens{whole}."
        ]
        if trials > 1:
            early = ", ended early where results are decided" if options.stop_early else ""
            sentences.append(f"Each of {trials} trials: {needed.requests // trials:,} requests{each}{early}.")
        if options.max_requests is not None and needed.requests > options.max_requests:
            sentences.append(f"That is more than -M max-requests allows: {options.max_requests:,}.")
        return " ".join(sentences)

    def calls(self, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> str:
        """Requests are announced."""
        return ""

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """The scorer of a chat model; a UsageError without a key, or where limits allow not even one trial."""
        options = _options_of(request)
        scorer, prompts = load_chat(options, request), as_prompts(rows)
        if why := scorer.beyond_limits(as_prompts(_first_trial(rows))):
            raise UsageError(
                f"{scorer.estimate(prompts).requests:,} requests are needed, and {why}: not even one trial of each "
                "prompt. Raise it, or take fewer prompts (--limit)."
            )
        if why := scorer.beyond_limits(prompts):
            say(f"Not all {options.trials} trials will be run: {why}. As many as fit are a whole run.")
        return scorer

    def read(
        self, model: Any, experiment: Experiment, request: Request, *, corpus: str, training: Training
    ) -> Scorer:
        """The model with the experiment's reader of answers."""
        from swapbias.studies import answer_reader  # numpy, which listing the studies does not need

        scorer: Any = copy(model)
        if experiment.reading in _LONG_TEXTS:
            scorer.options = _options_of(request, long=True)
            scorer.identity = {**model.identity, **settings(scorer.options)}
        scorer.read = answer_reader(experiment.reading, experiment.aliases)
        scorer.unit = experiment.unit
        scorer.closed = experiment.reading in _CLOSED
        reader: Scorer = scorer
        return reader


def _first_trial(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("trial", "1") == "1"]


def trial_rows(rows: Sequence[Row], trials: int, scoring: str = SAMPLED, *, looks: int = 1) -> list[Row]:
    """Every prompt once a trial; ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well.

    Where asking may end after any of several ``looks`` at the results, how many were planned is one more. Scored by
    log-odds there are no trials, and of pairs that differ in the order of their options alone (it is averaged over),
    the first stands for all.
    """
    if scoring == LOG_ODDS:
        pairs: dict[str, set[Any]] = {}
        for row in rows:
            pairs.setdefault(row["pair_id"], set()).add(_whatever_order(row))
        first: dict[Any, str] = {}
        chosen = {pair for pair, members in pairs.items() if first.setdefault(frozenset(members), pair) == pair}
        return [row for row in rows if row["pair_id"] in chosen]
    planned = {"looks": str(looks)} if looks > 1 else {}
    return [
        {
            **row,
            **{name: f"{row[name]}/t{trial}" for name in ("prompt_id", "pair_id")},
            "trial": str(trial),
            **planned,
        }
        for trial in range(1, trials + 1)
        for row in rows
    ]


def _whatever_order(row: Row) -> tuple[Any, ...]:
    """A row without its names and the order of its options."""
    from swapbias.models.chat.log_odds import orders

    texts = frozenset(one.prompt.text for prompt in as_prompts([row]) for one in orders(prompt))
    names = ("prompt_id", "pair_id", "text", "candidates")
    rest = frozenset(one for one in row.items() if one[0] not in names)
    return texts, frozenset(row["candidates"]), rest


def load_chat(options: ChatOptions, request: Request) -> Any:
    """The scorer of the chat model that some options name, here or behind its service (UsageError: no key)."""
    chat = _options_of(request, options)
    if options.local:
        from swapbias.models.chat.local import LocalChatScorer

        return LocalChatScorer.load(chat.model or "", request.load, chat)
    if find_spec("openai") is None:
        raise UsageError(
            "Asking a chat service takes the openai package, which is not installed. Install it with pip install "
            "'swapbias[chat]'."
        )
    from swapbias.models.chat.openai_client import ChatScorer

    api_key(chat)
    return ChatScorer(chat.model or "", chat)


def _options_of(request: Request, options: ChatOptions | None = None, *, long: bool = False) -> ChatOptions:
    options = options or request.of(ChatOptions)
    if long and not options.changed("max_tokens"):  # of an answer that is a letter
        options = replace(options, max_tokens=_LONG)
    return replace(options, seed=request.seed, provider=None if options.local else options.provider)


CHAT = Chat()
