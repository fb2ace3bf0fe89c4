"""The kind of chat models: answers to prompts, several of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapbias.errors import need
from swapbias.models.base import VADER, Request, need_vader
from swapbias.models.chat.chat_options import LOG_ODDS, SAMPLED, ChatOptions, api_key
from swapbias.models.clinical import NoteOptions, note_conversations
from swapbias.models.formats import refuse_other_formats
from swapbias.models.kind import Fit, Kind, Reading, RowSource
from swapbias.models.scorer import Scorer
from swapbias.studies import Experiment, Row, as_prompts

FACTS = "facts"
_LONG_TEXTS = (FACTS, "tone")  # readings of extracts and summaries
_LONG = 512  # tokens of a text, where nothing else is set
_CLOSED = ("options", "label")  # readings of questions whose options an answer may be bound to
# readings, and the tokens that their answers need
_FREE_TEXT = ("text", "person", "ranking")
_FEWEST = 64


def _shares(*names: str) -> dict[str, str]:
    return dict.fromkeys(names or ("score", "unanswered", "refused"), "share of answers")


_FREE = Reading({**_shares(), "length": "natural log of words", "judged": "share of the rubric"})
_SENTIMENT = dict.fromkeys(("score", "neutral", "source"), "sentiment from 0 to 1")
_THEMES = dict.fromkeys(("health_words", "emotion_words", "need_words"), "words in 100")


class Chat(Kind):
    """Models behind a service or on this machine, named with ``--chat``."""

    name = "chat"
    title = "Chat models (--chat)"
    options = ChatOptions
    readings: Mapping[str, Reading] = {
        "": Reading({"score": "percentage points"}),
        "options": Reading(
            {
                **_shares("score", "unanswered", "outside", "refused", "said_unsure"),
                "log_odds": "natural log-odds of the options that count more",
            }
        ),
        "label": Reading(_shares()),
        "facts": Reading(
            {"score": "share of the facts of a checklist", **_shares("unanswered", "refused")}
        ),
        "completion": Reading(_shares()),
        "ranking": Reading({**_shares(), "placed_above": "share of the other candidates"}),
        "tone": Reading(
            {
                **_SENTIMENT,
                "length": "natural log of words",
                **_THEMES,
                **_shares("unanswered", "refused"),
            }
        ),
        "text": _FREE,
        "person": _FREE,
    }

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        chat = request.of(ChatOptions)
        why = "" if chat.model else "it asks a chat model; name one with --chat"
        if chat.log_odds and experiment.reads.reading != "options":
            why = why or "it has no options to score by log-odds; ask it with -M scoring=sampled"
        elif chat.log_odds and experiment.compares.orders:
            why = (
                why
                or "log-odds are averaged over the orders that it compares; ask it with -M scoring=sampled"
            )
        short = experiment.reads.reading in _FREE_TEXT and chat.max_tokens < _FEWEST
        if short:
            why = (
                why
                or f"its answers are free text that {chat.max_tokens} tokens would cut; give -M max-tokens=200"
            )
        yield "" if short else chat.model or "", why

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        chat = request.of(ChatOptions)
        if not chat.local:
            need("A chat service", "openai", extra="chat")
        if experiment.reads.reading == "tone" and chat.scorer == VADER:
            need_vader()

    def rows(self, experiment: Experiment) -> RowSource:
        return RowSource.PAIRS if experiment.reads.notes.corpus else RowSource.PROMPTS

    def expand(
        self, rows: Sequence[Row], request: Request, experiment: Experiment
    ) -> Sequence[Row]:
        """``trial_rows``, of notes as conversations about them."""
        chat = request.of(ChatOptions)
        if experiment.reads.notes.corpus:
            how: Any = {
                "prompts_of": experiment.reads.notes.prompts,
                "facts": experiment.reads.reading == FACTS,
            }
            rows = note_conversations(rows, experiment.name, request.of(NoteOptions), **how)
        return trial_rows(rows, chat.trials, chat.scoring)

    def announce(
        self,
        rows: Sequence[Mapping[str, Any]],
        request: Request,
        experiment: Experiment,
        seen: set[str],
    ) -> str:
        """Requests, tokens and costs; nothing is sent and no key is needed."""
        from swapbias.models.chat.answering import CHARACTERS_PER_TOKEN, AnsweringScorer

        options = _options_of(request, long=experiment.reads.reading in _LONG_TEXTS)
        options.check_open()
        needed = AnsweringScorer(options.model or "", options).requests(as_prompts(rows))
        fresh = [needed[key] for key in needed.keys() - seen]
        is_first = not seen
        seen |= needed.keys()
        if not fresh:
            return "sent by the experiments above."
        count = len(fresh)
        tokens = sum(one for one, _ in fresh)
        most = sum(one for _, one in fresh)
        cost = options.cost(tokens, most)
        trials = 1 if options.log_odds else options.trials
        is_unpriced = math.isnan(cost) and not options.local and is_first
        unpriced = (
            " The cost is not known: give -M price-in and -M price-out." if is_unpriced else ""
        )
        whole, each = (
            "" if math.isnan(cost) else f", at most about {one:,.2f}"
            for one in (cost, cost / trials)
        )
        size = f"about {tokens:,} prompt tokens (characters / {CHARACTERS_PER_TOKEN})"
        sentences = [
            f"{count:,} requests to send: {size} and at most {most:,} output tokens{whole}.{unpriced}"
        ]
        if trials > 1:
            sentences.append(f"Each of {trials} trials: {count // trials:,} requests{each}.")
        if options.max_requests is not None and count > options.max_requests:
            sentences.append(f"That is more than -M max-requests allows: {options.max_requests:,}.")
        return " ".join(sentences)

    def load(self, model: str, request: Request, **more: Any) -> Any:
        return load_chat(request.of(ChatOptions), request)

    def read(self, model: Any, experiment: Experiment, request: Request, **more: Any) -> Scorer:
        from swapbias.models.chat.answering import AnsweringScorer, option_fields
        from swapbias.studies import answer_scores

        if not isinstance(model, AnsweringScorer):  # the user's own reads answers itself
            reader: Scorer = model.reading_in(experiment.compares.unit)
            return reader
        is_long = experiment.reads.reading in _LONG_TEXTS
        return model.reading_with(
            answer_scores.answer_reader(experiment.reads.reading, experiment.reads.aliases),
            unit=experiment.compares.unit.name,
            fields=option_fields if experiment.reads.reading in _CLOSED else None,
            max_tokens=_options_of(request, long=True).max_tokens if is_long else None,
        )


def trial_rows(rows: Sequence[Row], trials: int, scoring: str = SAMPLED) -> list[Row]:
    """Every prompt once a trial; ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well.

    Scored by log-odds there are no trials, and of pairs that differ in the order of their options alone (it is
    averaged over), the first stands for all.
    """
    if scoring == LOG_ODDS:
        pairs: dict[str, set[Any]] = {}
        for row in rows:
            pairs.setdefault(row["pair_id"], set()).add(_whatever_order(row))
        first: dict[Any, str] = {}
        chosen = {
            pair
            for pair, members in pairs.items()
            if first.setdefault(frozenset(members), pair) == pair
        }
        return [row for row in rows if row["pair_id"] in chosen]
    return [
        {
            **row,
            **{name: f"{row[name]}/t{trial}" for name in ("prompt_id", "pair_id")},
            "trial": str(trial),
        }
        for trial in range(1, trials + 1)
        for row in rows
    ]


def _whatever_order(row: Row) -> tuple[Any, ...]:
    """A row without its names and the order of its options."""
    from swapbias.models.chat.log_odds import orders

    texts = frozenset(one.text for prompt in as_prompts([row]) for one, _ in orders(prompt))
    names = ("prompt_id", "pair_id", "text", "candidates")
    rest = frozenset(one for one in row.items() if one[0] not in names)
    return texts, frozenset(row["candidates"]), rest


def load_chat(options: ChatOptions, request: Request) -> Any:
    """The scorer of the chat model that some options name, here or behind its service (UsageError: no key)."""
    chat = _options_of(request, options)
    if options.local:
        from swapbias.models.chat.local import LocalChatScorer

        return LocalChatScorer.load(chat.model or "", request.load, chat)
    if not chat.base_url:  # a service may call its models by the names of files
        refuse_other_formats(chat.model or "", Path(chat.model or ""))
    need("A chat service", "openai", extra="chat")
    from swapbias.models.chat.openai_client import ChatScorer

    api_key(chat)
    return ChatScorer(chat.model or "", chat)


def _options_of(
    request: Request, options: ChatOptions | None = None, *, long: bool = False
) -> ChatOptions:
    options = options or request.of(ChatOptions)
    if long and not options.not_usual("max_tokens"):  # of an answer that is a letter
        options = replace(options, max_tokens=_LONG)
    return replace(options, seed=request.seed, provider=None if options.local else options.provider)


CHAT = Chat()
