"""Chat models behind an OpenAI-compatible service: each prompt is a conversation of its own, each answer is kept."""

import hashlib
import json
import math
import os
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from swapbias.errors import UsageError
from swapbias.prompts import Prompt
from swapbias.scorers import Progress, Scored
from swapbias.scorers.answers import AnswerLog, Read, as_scored, by_key, trial_of, unread

CHARACTERS_PER_TOKEN = 4  # of English text, for the estimate alone: each service counts in its own way
NO_KEY = "none"  # sent where no key is set, so that the client does not look for a saved one and send that
MOST_AT_ONCE = 100  # connections that the HTTP client keeps open


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat model is asked.

    Attributes:
        base_url: any OpenAI-compatible endpoint (``http://host:port/v1``); None: Hugging Face Inference Providers.
        provider: which inference provider; None leaves the choice to the service.
        temperature: 0 gives the likeliest answer.
        seed: trial t is asked with seed + t.
        trials: how often each prompt is asked; the rows say which trial they are (``prompt_id`` ends in ``/t3``).
        max_tokens: most tokens of an answer.
        concurrency: most requests at once.
        max_requests: most requests that may be needed; None: any number. Retries are not counted.
        timeout: seconds that one attempt may take.
        attempts: how often a request is tried before the run stops.
        price_in, price_out: currency units per million tokens, for the estimate.

    Raises:
        UsageError: a value that cannot be meant.
    """

    base_url: str | None = None
    provider: str | None = None
    temperature: float = 1.0
    seed: int = 0
    trials: int = 5
    max_tokens: int = 16
    concurrency: int = 8
    max_requests: int | None = None
    timeout: float = 60.0
    attempts: int = 6
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("trials", "max_tokens", "attempts"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, expected 1 or more. Give a whole number.")
        if not 1 <= self.concurrency <= MOST_AT_ONCE:
            raise UsageError(f"concurrency is {self.concurrency}, expected 1 to {MOST_AT_ONCE}. Ask fewer at once.")
        if not (self.timeout > 0 and 0 <= self.temperature < math.inf):
            found = f"timeout {self.timeout} and temperature {self.temperature}"
            raise UsageError(f"{found}: expected a timeout above 0 and a temperature of 0 or more. Change them.")
        if (self.price_in is None) != (self.price_out is None):
            raise UsageError("One of price_in and price_out is given, expected both or none. Add the other.")
        if self.base_url is not None:
            self._check_url(self.base_url)

    def _check_url(self, url: str) -> None:
        if self.provider is not None:
            raise UsageError("base_url and provider are both given, expected one of them. Drop one.")
        if not _is_address(url):
            raise UsageError(f"base_url is {url!r}, expected http://host:port/v1. Give the whole address.")
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query:
            raise UsageError(
                f"base_url of {parts.hostname} holds a user, a password or a query, expected none: files of the run "
                "name it. Put the key into SWAPBIAS_API_KEY."
            )

    @property
    def host(self) -> str:
        """Host and port of ``base_url``; blank where none is given."""
        return urlsplit(self.base_url).netloc if self.base_url else ""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        return False


def answer_key(prompt: Prompt, *, model: str, options: ChatOptions) -> str:
    """sha256 of everything that decides an answer: model, service, text, temperature, seed, length and trial.

    Rows of one trial with the same text share a key, and so an answer.
    """
    service = [model, options.host, options.provider or ""]
    asked = [float(options.temperature), options.seed, options.max_tokens, trial_of(prompt.prompt_id)]
    return hashlib.sha256(json.dumps([*service, prompt.text, *asked]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """What asking takes.

    Attributes:
        requests: to be sent.
        answered: requests whose answers are known.
        prompt_tokens: estimated: a token for every four characters.
        output_tokens: at most.
        cost: at most, in currency units; NaN without prices.
    """

    requests: int
    answered: int
    prompt_tokens: int
    output_tokens: int
    cost: float

    def sentence(self) -> str:
        """The plan in words."""
        told = f"{self.requests:,} requests to send, {self.answered:,} answered already: about "
        told += f"{self.prompt_tokens:,} prompt tokens (characters / {CHARACTERS_PER_TOKEN}) and at most "
        told += f"{self.output_tokens:,} output tokens"
        return f"{told}." if math.isnan(self.cost) else f"{told}, together at most about {self.cost:,.2f}."


def plan(groups: Mapping[str, Sequence[Prompt]], known: Container[str], options: ChatOptions) -> ChatPlan:
    """What is left to ask of the rows of each key."""
    texts = [rows[0].text for key, rows in groups.items() if key not in known]
    tokens_in = sum(math.ceil(len(text) / CHARACTERS_PER_TOKEN) for text in texts)
    tokens_out = options.max_tokens * len(texts)
    cost = math.nan
    if options.price_in is not None and options.price_out is not None:
        cost = (tokens_in * options.price_in + tokens_out * options.price_out) / 1e6
    return ChatPlan(len(texts), len(groups) - len(texts), tokens_in, tokens_out, cost)


def settings(options: ChatOptions) -> dict[str, Any]:
    """What pins the asking down, for the manifest."""
    names = ("temperature", "seed", "trials", "max_tokens")
    return {name: getattr(options, name) for name in names}


def api_key(options: ChatOptions) -> str:
    """From the environment alone, and read anew for each pass, so that no object holds it.

    A saved Hugging Face token never goes to another service.
    """
    names = ("SWAPBIAS_API_KEY", "OPENAI_API_KEY" if options.base_url else "HF_TOKEN")
    for name in names:
        key = os.environ.get(name, "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise UsageError(f"{name} holds characters that no key has. Copy the key again.")
        if key:
            return key
    if options.base_url:
        return NO_KEY
    raise UsageError(f"Inference providers need a key, and neither {' nor '.join(names)} is set. Set one of them.")


class ChatScorer:
    """Score: what ``read`` makes of the answer; NaN where it makes nothing of it. ``answer`` is the raw text.

    Rows of one trial with the same text are asked once. Set ``log`` to the log of a run before scoring: what it
    knows is not asked again, and every answer is in it as soon as it arrives.
    """

    kind = "chat"
    unit = "answer"
    sends_text = True
    chunk_rows = sys.maxsize

    def __init__(
        self, model: str, options: ChatOptions | None = None, *, read: Read = unread, backoff: float = 1.0
    ) -> None:
        """Ask a model by the name that its service knows.

        Args:
            model: name of the model.
            options: service, sampling, limits.
            read: prompt and raw answer -> score and further score columns.
            backoff: seconds before the second attempt; they double from attempt to attempt.
        """
        self.model_id, self.options = model, options or ChatOptions()
        self.read, self.backoff = read, backoff
        self.log = AnswerLog()
        self.sent = 0
        service = {"host": self.options.host, "provider": self.options.provider or ""}
        self.identity: Mapping[str, Any] = {"kind": self.kind, **service, **settings(self.options)}

    def estimate(self, prompts: Sequence[Prompt], known: Container[str] | None = None) -> ChatPlan:
        """What asking takes; ``known`` are keys with answers, those of the log where None."""
        return plan(by_key(prompts, self._keys(prompts)), self.log if known is None else known, self.options)

    def score(self, prompts: Sequence[Prompt], on_progress: Progress | None = None) -> list[Scored]:
        """One Scored per prompt, in order.

        Raises:
            UsageError: no or a wrong key, an unknown model, or more requests than ``max_requests``.
            ValueError: the service refuses a request, or does not answer one in all attempts.
        """
        keys = self._keys(prompts)
        groups = by_key(prompts, keys)
        left = {key: rows for key, rows in groups.items() if key not in self.log}
        report = on_progress or (lambda done: None)
        if len(left) < len(groups):
            report(len(prompts) - sum(map(len, left.values())))
        if left:
            self._refuse_many(len(left))
            self._ask(left, report)
        return [as_scored(one, self.log.known[key], self.read) for one, key in zip(prompts, keys, strict=True)]

    def _keys(self, prompts: Sequence[Prompt]) -> list[str]:
        return [answer_key(prompt, model=self.model_id, options=self.options) for prompt in prompts]

    def _ask(self, left: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        from swapbias.scorers.asking import ask  # the HTTP client loads when it is needed

        key, before = api_key(self.options), len(self.log)
        try:
            ask(
                left, model=self.model_id, options=self.options, key=key, log=self.log, backoff=self.backoff,
                report=report,
            )  # fmt: skip
        finally:
            self.sent += len(self.log) - before

    def _refuse_many(self, needed: int) -> None:
        most = self.options.max_requests
        if most is not None and self.sent + needed > most:
            before = f" after {self.sent:,} sent" if self.sent else ""
            raise UsageError(
                f"{needed:,} requests are needed{before}, and --max-requests allows {most:,}. Raise it, or take "
                "fewer prompts or trials."
            )
