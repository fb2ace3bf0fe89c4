"""The kind of chat models: answers to prompts, each asked several times."""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from swapbias.errors import UsageError
from swapbias.scorers.chat.options import ChatOptions, api_key, check_provider
from swapbias.scorers.kind import Column, Fit, Kind, Reading, Request, Training, short_name
from swapbias.scorers.scorer import Bar, Say, Scorer
from swapbias.studies import Experiment, as_prompts

_FREE = (
    Column("unanswered", "share of answers", "no decision that counts anything"),
    Column("refused", "share of answers", "the answer declines to answer"),
    Column("length", "natural log of words", "longer answers", 0.0, math.inf),
    Column("judged", "share of the rubric", "what the rubric counts more"),
)
_FEWEST = 64  # tokens that free text needs


class Chat(Kind):
    """Models behind a service or on this machine, named with ``--chat``."""

    name = "chat"
    options = ChatOptions
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", "percentage points", "the answer is right", 0.0, 100.0),)),
        "options": Reading((
            Column("score", "share of answers", "options that count more"),
            Column("unanswered", "share of answers", "no option that counts anything"),
        )),
        "completion": Reading((
            Column("score", "share of answers", "words of the group"),
            Column("unanswered", "share of answers", "no completion"),
        )),
        "text": Reading((Column("score", "share of answers", "decisions that count more"), *_FREE)),
        "person": Reading((Column("score", "share of answers", "people who count more"), *_FREE)),
    }  # fmt: skip

    def check(self, request: Request) -> None:
        """Refuse settings that name no model, or that the way it is asked would leave unheard."""
        asked = request.of(ChatOptions)
        if asked.model is None and self.given(request):
            raise UsageError("Settings of a chat model are given and no model is. Name it with --chat.")
        asked.check()

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """The model that is named."""
        model = request.of(ChatOptions).model
        asked, short = request.of(ChatOptions), ""
        if model and experiment.reading in ("text", "person") and asked.max_tokens < _FEWEST:
            short = f"its answers are free text, which {asked.max_tokens} tokens would cut; give --max-tokens 200"
        yield "" if short else model or "", short or ("" if model else "it asks a chat model; name one with --chat")

    def asked(self, rows: list[dict[str, str]], request: Request) -> list[dict[str, str]]:
        """Every prompt once a trial."""
        return asked_rows(rows, request.of(ChatOptions).trials)

    def unheard(self, request: Request, studies: str) -> str:
        """Nothing else asks it."""
        return f"--chat {short_name(request.of(ChatOptions).model)} is asked by {studies} alone."

    def announce(self, rows: Sequence[Mapping[str, Any]], request: Request) -> str:
        """Requests, tokens and costs; nothing is sent and no key is needed.

        Raises:
            UsageError: an unknown provider.
        """
        from swapbias.scorers.chat.service import ChatScorer

        options = _asked(request)
        check_provider(options)
        needed = ChatScorer(options.model or "", options).estimate(as_prompts(rows), ())
        more = options.max_requests is not None and needed.requests > options.max_requests
        told = f" That is more than --max-requests allows: {options.max_requests:,}." if more else ""
        return f"{needed.sentence()}{told}"

    def calls(self, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> str:
        """Requests are announced."""
        return ""

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """The scorer of a chat model, once it is known that these rows may be asked.

        Raises:
            UsageError: no key, an unknown provider, more requests than allowed.
            ValueError: a local model that cannot be loaded.
        """
        options, scorer = _asked(request), load_chat(request.of(ChatOptions), request)
        if request.of(ChatOptions).local:
            return scorer
        needed = scorer.estimate(as_prompts(rows)).requests
        if options.max_requests is not None and needed > options.max_requests:
            raise UsageError(
                f"{needed:,} requests are needed, and --max-requests allows {options.max_requests:,}. Raise it, or "
                "take fewer prompts (--limit) or trials."
            )
        return scorer

    def read(
        self, model: Any, experiment: Experiment, request: Request, *, corpus: str, training: Training
    ) -> Scorer:
        """Answers as right or wrong, by the experiment's names of what was meant, or as options that they name."""
        from swapbias.scorers.chat.answers import read_answer, read_completion, read_option, read_text

        scorer: Any = copy(model)
        right = partial(read_answer, aliases=experiment.aliases)
        scorer.read = {
            "options": read_option,
            "completion": read_completion,
            "text": read_text,
            "person": partial(read_text, person=True),
        }.get(experiment.reading, right)
        scorer.unit = self.readings[experiment.reading].columns[0].unit
        reader: Scorer = scorer
        return reader


def asked_rows(rows: Sequence[dict[str, str]], trials: int) -> list[dict[str, str]]:
    """Every prompt once a trial; ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well."""
    return [
        {
            **row,
            "prompt_id": f"{row['prompt_id']}/t{trial}",
            "pair_id": f"{row['pair_id']}/t{trial}",
            "trial": str(trial),
        }
        for trial in range(1, trials + 1)
        for row in rows
    ]


def load_chat(options: ChatOptions, request: Request) -> Any:
    """The scorer of the chat model that some options name, behind its service or on this machine.

    Raises:
        UsageError: no key, or an unknown provider. ValueError: a local model that cannot be loaded.
    """
    asked = _asked(request, options)
    if options.local:
        from swapbias.scorers.chat.local import LocalChatScorer

        return LocalChatScorer.load(asked.model or "", request.load, asked)
    from swapbias.scorers.chat.service import ChatScorer

    check_provider(asked)
    api_key(asked)
    return ChatScorer(asked.model or "", asked)


def _asked(request: Request, options: ChatOptions | None = None) -> ChatOptions:
    options = options or request.of(ChatOptions)
    return replace(options, seed=request.seed, provider=None if options.local else options.provider)


CHAT = Chat()
