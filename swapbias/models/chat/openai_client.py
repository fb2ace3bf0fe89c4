"""Chat models behind an OpenAI-compatible service, by the openai client, which retries where an error may pass.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.errors import UsageError
from swapbias.models.base import Progress, silent
from swapbias.models.chat import answering
from swapbias.models.chat.answering import USAGE, Answer, AnsweringScorer, Groups
from swapbias.models.chat.chat_options import ChatOptions, api_key, key_names, settings
from swapbias.models.chat.log_odds import Logs, names_of, shown_logs
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
    param: str = ""  # the setting that the service refuses


class Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for."""

    def __init__(self, scorer: "ChatScorer", key: str) -> None:
        self.scorer, self.options, self.log, self.key = scorer, scorer.options, scorer.log, key
        self.extras = True  # until the service refuses a schema, or several answers
        self.length = LENGTHS[0]  # the name that this service takes
        self.end: tuple[RequestTrouble, Prompt, int] | None = None  # what ended it, whose, after how many attempts
        self.stopped, self.answered = asyncio.Event(), 0.0  # when the last answer came

    def ask(self, groups: Groups, report: Progress, expected: int) -> None:
        """Send the first row of each key and log answers until these are useless; ``report`` gets the rows of each.

        UsageError: a wrong key or model. ValueError: a request is refused or not answered.
        """
        from anyio.from_thread import start_blocking_portal  # of the openai client

        if not self.options.base_url and is_offline_mode():
            raise ValueError("Hugging Face Inference Providers cannot be reached: HF_HUB_OFFLINE is set: unset it.")
        # A loop of its own, for a notebook runs one already.
        with _quiet(self.log.read is not None), start_blocking_portal() as portal:
            portal.call(self.run, groups, report, expected)
        if self.end is not None:  # raised here, so that no error of the client, and no header, hangs on it
            raise self.failure(*self.end)

    async def run(self, groups: Groups, report: Progress, expected: int) -> None:
        """Ask for all, as many at once as the options allow."""
        options, free = self.options, asyncio.Semaphore(self.options.concurrency)
        hooks: Any = {"request": [self.before], "response": [self.after]}
        session = httpx2.AsyncClient(
            follow_redirects=False, trust_env=not options.declared, timeout=options.timeout, event_hooks=hooks
        )

        async def one(key: str, prompt: Prompt) -> None:
            async with free:
                for answer, row in await self.answers({key: prompt, **self.scorer.later_trials(prompt, groups)}):
                    self.log.add(answer, row)
                    report(len(groups.get(answer.key, ())))
                    if self.scorer.useless(expected):
                        self.stopped.set()

        async with openai.AsyncOpenAI(
            base_url=options.base_url or ROUTER, api_key=self.key, max_retries=options.attempts - 1,
            timeout=options.timeout, http_client=session,
        ) as self.client:  # fmt: skip
            await asyncio.gather(*(one(key, rows[0]) for key, rows in groups.items()))

    async def answers(self, trials: Trials) -> list[tuple[Answer, Prompt]]:
        """Answers to a prompt and its later trials, at least to the first; none once the pass is stopped."""
        begun, rounds, prompt = time.monotonic(), 0, next(iter(trials.values()))
        while not self.stopped.is_set():
            length, body = self.length, self.body(trials)
            rounds += 1
            try:
                response = await self.client.post("/chat/completions", cast_to=httpx2.Response, body=body)
                return list(self.answers_in(response.extensions["reply"], trials))
            except Exception as error:  # noqa: BLE001 - whatever a reply does, answers that are paid for stay
                trouble = trouble_of(error, self.key, shown=self.log.read is None)
            if trouble.status in REFUSED and trouble.param == length == LENGTHS[0]:
                self.length = LENGTHS[1]
            elif trouble.status in REFUSED and body.keys() & {"response_format", "n"}:  # not every service knows them
                self.extras = False
            elif trouble.status != LIMITED or time.monotonic() - max(begun, self.answered) >= PATIENCE:
                self.end = self.end or (trouble, prompt, rounds * self.options.attempts)
                self.stopped.set()
        return []

    def answers_in(self, reply: Mapping[str, Any], trials: Trials) -> Iterator[tuple[Answer, Prompt]]:
        """The answers of one reply; where there are fewer than trials, the others are requested in their turn."""
        usage = [reply.get("usage"), *[None] * len(trials)]  # a request is counted once
        for choice, (key, prompt), used in zip(reply["choices"], trials.items(), usage, strict=False):
            if error_in({"choices": [choice]}) is None:
                yield self.answer_in(choice, key, prompt, used), prompt

    def body(self, trials: Trials) -> dict[str, Any]:
        """The JSON that is sent for a prompt and its later trials."""
        options, name, prompt = self.options, self.scorer.model_id, next(iter(trials.values()))
        body: dict[str, Any] = {
            "model": f"{name}:{options.provider}" if options.provider not in (None, "auto") else name,
            "messages": turns(prompt.text),
        }
        if options.log_odds:  # where the temperature acts on log-probabilities, 1 is plain
            more = {"temperature": 1.0, "logprobs": True, "top_logprobs": options.top_logprobs}
            return {**body, self.length: 1, **more}
        body |= {self.length: options.max_tokens, "temperature": options.temperature}
        if not options.no_seed:
            body["seed"] = options.seed + answering.trial_of(prompt.prompt_id)
        if self.extras and len(trials) > 1:
            body["n"] = len(trials)
        if self.extras and self.scorer.closed and options.json_schema:
            named = self.scorer.fields(prompt)
            schema = {
                "type": "object", "properties": named, "required": list(named), "additionalProperties": False,
            }  # fmt: skip
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }  # fmt: skip
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, usage: Any) -> Answer:
        """The answer of a choice that ``error_in`` found no error in."""
        used = usage if isinstance(usage, dict) else {}
        tokens = first_tokens(choice) if self.options.log_odds else ()
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=_hidden(choice["message"].get("content") or "", self.key),
            finish_reason=_hidden(str(choice.get("finish_reason") or ""), self.key)[:MAX_REASON],
            usage={one: used[one] for one in USAGE if type(used.get(one)) is int and 0 <= used[one] < MAX_TOKENS},
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            logprobs=tuple((_hidden(token, self.key), log) for token, log in tokens),
        )

    async def before(self, request: httpx2.Request) -> None:
        """Before each attempt: send no header but ours."""
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"

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
        if trouble.status in (401, 403):
            said = f"refuses the key ({words}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.scorer.model_id!r} ({words}). Check both names"
        elif trouble.passes:
            said = f"did not answer {prompt.prompt_id} in {attempts} attempts ({words})"
        else:
            said = f"cannot answer {prompt.prompt_id} ({words})"
            if self.options.log_odds and refused:
                said += "; not every service gives log-probabilities: -M scoring=sampled needs none"
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


def trouble_of(error: Exception, key: str, *, shown: bool) -> RequestTrouble:
    """What an error of the client means, without the key; what the service says may repeat the prompt."""
    words, status, passes, param = str(error) or type(error).__name__, 0, False, ""
    if isinstance(error, openai.APIStatusError):
        more = error.response.extensions
        said, status = more.get("error", error.body), more.get("status", error.status_code)
        if 300 <= status < 400:
            return RequestTrouble("it sends requests on to another address", status, passes=False)
        fields = said if isinstance(said, dict) else {}
        words, param = str(fields.get("message") or said or ""), str(fields.get("param", ""))
        passes, shown = status == 0 or status >= 500 or status in (408, 409, LIMITED), shown or said is NOTHING
    elif isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time")
    elif isinstance(error, openai.APIConnectionError):
        words, passes = str(error.__cause__) or type(error.__cause__).__name__, True
    if not shown:
        return RequestTrouble(f"{status or 'no answer'}, and what it said is not shown", status, passes, param)
    line = " ".join(_hidden(words, key).split())[:200].rstrip(".")
    return RequestTrouble(": ".join(filter(None, (str(status or ""), line))), status, passes, param)


def _hidden(text: str, key: str) -> str:
    """A text that can be written down (half of a surrogate pair cannot), without the key if it repeats it."""
    text = text.encode(errors="replace").decode()
    return text.replace(key, "***") if len(key) >= MIN_KEY else text


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
    loggers = [logging.getLogger(name) for name in ("openai", "httpx2", "httpcore2") if credentialed]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


class ChatScorer(AnsweringScorer):
    """An ``AnsweringScorer`` of a model behind a service, by the name that the service knows."""

    chunk_rows = sys.maxsize

    def __init__(self, model: str, options: ChatOptions | None = None) -> None:
        super().__init__(model, options)
        self.closed = False  # prompts have options, which a JSON schema may name
        self.fields: Callable[[Prompt], Mapping[str, Any]] = lambda prompt: {
            "answer": {"type": "string", "enum": names_of(prompt)}
        }
        self.sends_text = not self.options.declared
        self.opaque = True
        service = {"host": self.options.host, "provider": self.options.provider or ""}
        self.identity: Mapping[str, Any] = {"kind": self.kind, **service, **settings(self.options)}

    def beyond_limits(self, prompts: Sequence[Prompt]) -> str:
        options, answered = self.options, len(self.log)
        needed = [size for key, size in self.requests(prompts).items() if key not in self.log]
        if needed and options.max_requests is not None and answered + len(needed) > options.max_requests:
            return f"-M max-requests allows {options.max_requests:,}"
        if needed and options.max_cost is not None:
            so_far = self.counted()[1]
            most = options.cost(*map(sum, zip(*needed, strict=True))) / len(needed)
            each = so_far / answered if so_far > 0 else most  # as the service counted, or at most
            if each * (answered + len(needed)) > options.max_cost:
                return f"--max-cost allows {options.max_cost:,.2f}"
        return ""

    def option_logs(self, prompts: Sequence[Prompt], on_progress: Progress = silent) -> list[Logs | None]:
        """By the likeliest first tokens of an answer."""
        answers = [self.log[key] for key in self._answered(prompts, on_progress)]
        return [shown_logs(prompt, one.logprobs) for prompt, one in zip(prompts, answers, strict=True)]

    def useless(self, expected: int) -> str:
        """Of log-odds, one answer without log-probabilities is enough."""
        if not self.options.log_odds:
            return super().useless(expected)
        if all(one.logprobs for one in islice(self.log.values(), answering.FIRST_ANSWERS)):
            return ""
        lacking = f"{self.options.service} answers as {self.model_id!r} without log-probabilities"
        return f"{lacking}, which -M scoring=log-odds needs. Start a new run with -M scoring=sampled."

    def _ask(self, missing: Groups, report: Progress, expected: int) -> None:
        Asking(self, api_key(self.options)).ask(missing, report, expected)

    def later_trials(self, prompt: Prompt, pending: Groups) -> Trials:
        """The trials after that of a prompt which its request may answer as well, if they are not requested yet."""
        trial, several = answering.trial_of(prompt.prompt_id), self.options.answers_per_request
        name = prompt.prompt_id.removesuffix(f"/t{trial}")
        last = min(trial + several - 1 - (trial - 1) % several, self.options.trials)
        prompts = [replace(prompt, prompt_id=f"{name}/t{later}") for later in range(trial + 1, last + 1)]
        found = zip(self._keys(prompts), prompts, strict=True)
        return {key: later for key, later in found if key not in self.log and key not in pending}
