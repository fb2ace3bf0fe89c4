"""Requests to an OpenAI-compatible service by the openai client, which retries where an error may pass.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.errors import UsageError
from swapbias.models.base import Progress
from swapbias.models.chat.chat_options import key_names
from swapbias.models.chat.log_odds import closed_names
from swapbias.models.chat.service import USAGE, Answer, ChatScorer, Groups, trial_of
from swapbias.studies import Prompt, turns

ROUTER = "https://router.huggingface.co/v1"  # Hugging Face Inference Providers
NOTHING = "something else than an answer came back"
MAX_TOKENS = 2**40  # that a reply may count
MAX_LOG = 1.0  # of a token: what is more than rounding above 0 is no log-probability
MAX_REASON = 40  # characters of why an answer ended
MIN_KEY = 6  # characters: a shorter one is a word that an answer may well say
LENGTHS = ("max_tokens", "max_completion_tokens")  # names of the most tokens: OpenAI's newer models refuse the first
REFUSED, LIMITED, BROKEN = (400, 422), 429, 502
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
HEADERS = {  # that leave this machine: none that the client makes of the environment or of this machine
    "accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip
WAYS_OUT = {  # of settings that some models refuse, such as those that think first
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}

Trials = Mapping[str, Prompt]  # answer keys and prompts of one request: the same text, several trials


@dataclass(frozen=True, slots=True)
class RequestTrouble:
    """Why a request brought no answer."""

    words: str
    status: int = 0  # of HTTP; 0: none
    passes: bool = True  # a retry may help
    ours: bool = False  # no word is the service's, which may repeat the prompt
    param: str = ""  # the setting that the service refuses


class Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for."""

    def __init__(self, scorer: ChatScorer, key: str) -> None:
        self.scorer, self.options, self.log, self.key = scorer, scorer.options, scorer.log, key
        self.schema = scorer.closed and self.options.json_schema  # until the service refuses it
        self.several = self.options.answers_per_request > 1  # until the service refuses it, or gives fewer
        self.length = LENGTHS[0]  # the name that this service takes
        self.end: tuple[RequestTrouble, Prompt, int] | None = None  # what ended it, whose, after how many attempts
        self.stopped, self.answered = asyncio.Event(), 0.0  # when the last answer came

    def ask(self, groups: Groups, report: Progress, expected: int) -> None:
        """Ask the first row of each key and log answers until these are useless; ``report`` gets the rows of each.

        Raises:
            UsageError: a wrong key or an unknown model.
            ValueError: a request that the service refuses, or does not answer in all attempts.
        """
        from anyio.from_thread import start_blocking_portal  # of the openai client

        if not self.options.base_url and is_offline_mode():
            raise ValueError("Hugging Face Inference Providers cannot be asked: HF_HUB_OFFLINE is set: unset it.")
        # A loop of its own, for a notebook runs one already.
        with _quiet(self.log.read is not None), start_blocking_portal() as portal:
            portal.call(self.run, groups, report, expected)
        if self.end is not None:  # raised here, so that no error of the client, and no header, hangs on it
            raise self.failure(*self.end)

    async def run(self, groups: Groups, report: Progress, expected: int) -> None:
        """Ask for all, as many at once as the options allow."""
        options, free = self.options, asyncio.Semaphore(self.options.concurrency)

        async def one(client: openai.AsyncOpenAI, trials: Trials) -> None:
            async with free:
                for answer, prompt in await self._answers(client, trials):
                    self.log.add(answer, prompt)
                    report(len(groups.get(answer.key, ())))
                    if self.scorer.useless(expected):
                        self.stopped.set()

        hooks: Any = {"request": [self.before], "response": [self.after]}
        session = httpx2.AsyncClient(
            follow_redirects=False, trust_env=not options.declared, timeout=options.timeout, event_hooks=hooks
        )
        async with openai.AsyncOpenAI(
            base_url=options.base_url or ROUTER, api_key=self.key, max_retries=options.attempts - 1,
            timeout=options.timeout, http_client=session,
        ) as client:  # fmt: skip
            remaining = list(groups)
            while remaining and not self.stopped.is_set():  # again where requests brought fewer answers
                claimed: set[str] = set()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for key in remaining:
                            if key not in claimed:
                                prompt = groups[key][0]
                                trials = {key: prompt, **(self.scorer.later_trials(prompt) if self.several else {})}
                                claimed |= trials.keys()
                                tasks.create_task(one(client, trials))
                except BaseExceptionGroup as group:  # a full disk
                    raise group.exceptions[0] from None
                remaining = [key for key in remaining if key not in self.log]

    async def _answers(self, client: openai.AsyncOpenAI, trials: Trials) -> list[tuple[Answer, Prompt]]:
        """Answers to a prompt and its later trials, at least to the first; none once the pass is stopped."""
        begun, rounds = time.monotonic(), 0
        (key, prompt), *_ = trials.items()
        while not self.stopped.is_set():
            trials = trials if self.several else {key: prompt}
            length, extras = self.length, self.schema or len(trials) > 1
            rounds += 1
            try:
                return await self._request(client, trials)
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for stay
                trouble = trouble_of(error, self.key)
            if trouble.status in REFUSED and trouble.param == length == LENGTHS[0]:
                self.length = LENGTHS[1]
            elif trouble.status in REFUSED and extras:  # not every service knows schemas, or n
                self.schema = self.several = False
            elif trouble.status != LIMITED or time.monotonic() - max(begun, self.answered) >= PATIENCE:
                self.end = self.end or (trouble, prompt, rounds * self.options.attempts)
                self.stopped.set()
        return []

    async def _request(self, client: openai.AsyncOpenAI, trials: Trials) -> list[tuple[Answer, Prompt]]:
        response = await client.post(
            "/chat/completions",
            cast_to=httpx2.Response,
            body=self.body(next(iter(trials.values()))) | ({"n": len(trials)} if len(trials) > 1 else {}),
        )
        seconds, reply = time.monotonic() - response.request.extensions["sent"], response.extensions["reply"]
        choices = [choice for choice in reply["choices"] if error_in({"choices": [choice]}) is None]
        self.several = self.several and len(choices) >= len(trials)
        usage = [reply.get("usage"), *[None] * len(trials)]  # a request is counted once
        return [
            (self.answer_in(choice, key, prompt, seconds, used), prompt)
            for choice, (key, prompt), used in zip(choices, trials.items(), usage, strict=False)
        ]

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON that is sent for a prompt."""
        options, name = self.options, self.scorer.model_id
        body: dict[str, Any] = {
            "model": f"{name}:{options.provider}" if options.provider not in (None, "auto") else name,
            "messages": turns(prompt.text),
        }
        if options.log_odds:  # where the temperature acts on log-probabilities, 1 is plain
            return {
                **body, self.length: 1, "temperature": 1.0, "logprobs": True, "top_logprobs": options.top_logprobs
            }  # fmt: skip
        body |= {self.length: options.max_tokens, "temperature": options.temperature}
        if not options.no_seed:
            body["seed"] = options.seed + trial_of(prompt.prompt_id)
        if self.schema and (names := closed_names(prompt)):
            schema = {
                "type": "object", "properties": {"answer": {"type": "string", "enum": names}}, "required": ["answer"],
                "additionalProperties": False,
            }  # fmt: skip
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }  # fmt: skip
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, seconds: float, usage: Any) -> Answer:
        """The answer of a choice that ``error_in`` found no error in."""
        text = choice["message"].get("content")
        used = usage if isinstance(usage, dict) else {}
        tokens = first_tokens(choice) if self.options.log_odds else ()
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=_hidden(text or "", self.key),
            finish_reason=_hidden(str(choice.get("finish_reason") or ""), self.key)[:MAX_REASON],
            usage={
                name: used[name] for name in USAGE if type(used.get(name)) is int and 0 <= used[name] < MAX_TOKENS
            },
            seconds=round(seconds, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            logprobs=tuple((_hidden(token, self.key), log) for token, log in tokens),
        )

    async def before(self, request: httpx2.Request) -> None:
        """Before each attempt: send no header but ours."""
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"
        request.extensions = {**request.extensions, "sent": time.monotonic()}

    async def after(self, response: httpx2.Response) -> None:
        """After each attempt: an error in place of an answer gets a status, by which the client tries again."""
        await response.aread()
        try:
            reply = json.loads(response.content)
        except (ValueError, RecursionError):
            reply = None
        response.extensions["reply"] = reply
        if response.status_code < 300 and (error := error_in(reply)) is not None:
            code = str(error.get("code")) if isinstance(error, dict) else ""
            status = int(code) if len(code) == 3 and code.isdecimal() and "400" <= code <= "599" else 0
            response.status_code = status or BROKEN
            response.extensions |= {"error": error, "status": status}
        elif response.status_code < 300:
            self.answered = time.monotonic()
        if self.stopped.is_set():
            response.headers["x-should-retry"] = "false"

    def failure(self, trouble: RequestTrouble, prompt: Prompt, attempts: int) -> ValueError:
        """The sentence that the run stops with."""
        words, log, refused = trouble.words, self.log, trouble.status in REFUSED
        if log.read is not None and not trouble.ours:
            words = f"{trouble.status or 'no answer'}, and what it said is not shown"
        if trouble.status in (401, 403):
            said = f"refuses the key ({words}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.scorer.model_id!r} ({words}). Check both names"
        elif not trouble.passes:
            said = f"cannot answer {prompt.prompt_id} ({words})"
            if self.options.log_odds and refused:
                said += "; not every service gives log-probabilities: -M scoring=sampled needs none"
        else:
            said = f"did not answer {prompt.prompt_id} in {attempts} attempts ({words})"
        if refused and trouble.param in WAYS_OUT:
            said = f"{said}. {WAYS_OUT[trouble.param]}"
        place, way = "memory", "score again to go on"
        if log.path:
            place, way = log.path.name, "go on with swapbias audit --resume DIR"
        kind = UsageError if trouble.status in (401, 403, 404) else ValueError
        return kind(f"{self.options.service} {said}. Answers in {place}: {len(log)}; {way}.")


def error_in(reply: Any) -> Any:
    """The error in a reply of status 200, as the service gives it; None where its first choice is an answer."""
    match reply:
        case {"error": error} if error:
            return error
        case {"choices": [{"error": error}, *_]} if error:
            return error
        case {"choices": [{"finish_reason": "error"}, *_]}:
            return "the answer broke off with an error"
        case {"choices": [{"message": dict() as message}, *_]} if isinstance(message.get("content"), str | None):
            return None
    return NOTHING


def trouble_of(error: Exception, key: str) -> RequestTrouble:
    """What an error of the client means; the key is taken out of its words."""
    if isinstance(error, openai.APIStatusError):
        more = error.response.extensions
        said, status = more.get("error", error.body), more.get("status", error.status_code)
        if 300 <= status < 400:
            return RequestTrouble("it sends requests on to another address", status, passes=False, ours=True)
        fields = said if isinstance(said, dict) else {}
        words = _one_line(str(fields.get("message") or said or ""), key)
        passes = status == 0 or status >= 500 or status in (408, 409, LIMITED)
        told = ": ".join(filter(None, (str(status or ""), words)))
        return RequestTrouble(told, status, passes, ours=said is NOTHING, param=str(fields.get("param", "")))
    if isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time", ours=True)
    passes = isinstance(error, openai.APIConnectionError)
    cause = error.__cause__ if passes else error
    return RequestTrouble(_one_line(str(cause) or type(cause).__name__, key), passes=passes)


def _hidden(text: str, key: str) -> str:
    """A text that can be written down (half of a surrogate pair cannot), without the key if it repeats it."""
    text = text.encode(errors="replace").decode()
    return text.replace(key, "***") if len(key) >= MIN_KEY else text


def _one_line(text: str, key: str) -> str:
    return " ".join(_hidden(text, key).split())[:200].rstrip(".")


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """The likeliest first tokens of an answer with their log-probabilities; none where the service gives none."""
    try:
        shown = choice["logprobs"]["content"][0]["top_logprobs"]
        tops = [(str(one["token"]), float(one["logprob"])) for one in shown]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((token, log) for token, log in tops if math.isfinite(log) and log < MAX_LOG)


@contextmanager
def _quiet(credentialed: bool) -> Iterator[None]:
    """Of credentialed notes the client and its transport log nothing, whatever the level."""
    names = ("openai", "httpx2", "httpcore2") if credentialed else ()
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
