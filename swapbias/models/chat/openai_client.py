"""Requests to an OpenAI-compatible service by the openai client, which retries where an error may pass.

Nothing leaves but the prompt and the key that the user chose: no redirect is followed, no variable of the environment
that the client reads becomes a header, and nothing goes by way of a proxy to a service declared as the user's own.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
from huggingface_hub import is_offline_mode

from swapbias.errors import UsageError
from swapbias.models.base import Progress
from swapbias.models.chat.answer_log import FIRST_ANSWERS, USAGE, Answer, AnswerLog, mostly_blank, trial_of
from swapbias.models.chat.chat_options import COMPLETIONS, NO_KEY, ChatOptions, key_names
from swapbias.models.chat.log_odds import closed_names
from swapbias.studies import Prompt, turns

ROUTER = "https://router.huggingface.co/v1"  # Hugging Face Inference Providers
NOTHING = "something else than an answer came back"
MAX_REPLY = 4 * 2**20  # bytes of a reply: an answer of a hundred thousand tokens is a tenth of it
MAX_TOKENS = 2**40  # that a reply may count
MAX_LOG = 1.0  # of a token: what is more than rounding above 0 is no log-probability
MAX_REASON = 40  # characters of why an answer ended
MIN_KEY = 6  # characters: a shorter one is a word that an answer may well say
LENGTHS = ("max_tokens", "max_completion_tokens")  # names of the most tokens: OpenAI's newer models refuse the first
REFUSED, LIMITED, BROKEN = (400, 422), 429, 502
PASSING = (408, 409, 425, LIMITED)  # besides 5xx: states that pass
PATIENCE = 120.0  # seconds without any answer before a limited rate ends the run: limits are often by the minute
HEADERS = {  # that leave this machine: none that the client makes of the environment or of this machine
    "accept", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip
WAYS_OUT = {  # of settings that some models refuse, such as those that think first
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}

_LOGGERS = ("openai", "httpx2", "httpcore2")
Trials = Mapping[str, Prompt]  # answer keys and prompts of one request: the same text, several trials


class MovedError(openai.OpenAIError):
    """A service names another address: neither prompts nor the key go to any other."""


@dataclass(frozen=True, slots=True)
class RequestTrouble:
    """Why a request brought no answer: words, HTTP status (0: none), and whether a retry may help.

    ``ours``: none of the words are the service's, which may repeat the prompt. ``param``: the setting it refuses.
    """

    words: str
    status: int = 0
    passes: bool = True
    ours: bool = False
    param: str = ""


class Asking:
    """One pass over requests. The first failure ends it once the requests under way have ended: they are paid for.

    Args:
        closed: the prompts have options, so that a JSON schema may allow these alone.
        later: of a prompt the keys of its later trials that one request may bring as well.
    """

    def __init__(
        self,
        model: str,
        options: ChatOptions,
        key: str,
        log: AnswerLog,
        *,
        closed: bool = False,
        later: Callable[[Prompt], Trials] = lambda prompt: {},
    ) -> None:
        self.options, self.key, self.log, self.later = options, key, log, later
        self.model = f"{model}:{options.provider}" if options.provider not in (None, "auto") else model
        self.name = model
        self.schema = closed and options.json_schema  # until the service refuses it
        self.several = options.answers_per_request > 1  # until the service refuses it, or gives fewer
        self.length = LENGTHS[0]  # the name that this service takes
        self.end: tuple[RequestTrouble, Prompt, int] | None = None  # what ended it, whose, after how many attempts
        self.stopped, self.answered = asyncio.Event(), 0.0  # when the last answer came

    def ask(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        """Ask the first row of each key and log the answers; ``report`` is called with the rows of each.

        Raises:
            UsageError: a wrong key or an unknown model.
            ValueError: a request that the service refuses, or does not answer in all attempts.
        """
        if not self.options.base_url and is_offline_mode():
            raise ValueError("Hugging Face Inference Providers cannot be asked: HF_HUB_OFFLINE is set: unset it.")
        with _quiet(self.log.read is not None):
            _finish(self.run(groups, report))
        if self.end is not None:  # raised here, so that no error of the client, and no header, hangs on it
            raise self.failure(*self.end)

    async def run(self, groups: Mapping[str, Sequence[Prompt]], report: Progress) -> None:
        """Ask for all, as many at once as the options allow."""
        enough = min(FIRST_ANSWERS, len(self.log) + len(groups))
        free = asyncio.Semaphore(self.options.concurrency)

        async def one(client: openai.AsyncOpenAI, trials: Trials) -> None:
            async with free:
                for answer, prompt in await self._answers(client, trials):
                    self.log.add(answer, prompt)
                    report(len(groups.get(answer.key, ())))
                    if len(self.log) == enough and mostly_blank(self.log):
                        self.stopped.set()

        async with self._client() as client:
            remaining = list(groups)
            while remaining and not self.stopped.is_set():  # again where requests brought fewer answers
                claimed: set[str] = set()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for key in remaining:
                            if key not in claimed:
                                prompt = groups[key][0]
                                trials = {key: prompt, **(self.later(prompt) if self.several else {})}
                                claimed |= trials.keys()
                                tasks.create_task(one(client, trials))
                except BaseExceptionGroup as group:  # a full disk
                    raise group.exceptions[0] from None
                remaining = [key for key in remaining if key not in self.log]

    def _client(self) -> openai.AsyncOpenAI:
        session = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=not self.options.declared,
            timeout=self.options.timeout,
            event_hooks={"request": [self.before], "response": [self.after]},
        )
        return openai.AsyncOpenAI(
            base_url=self.options.base_url or ROUTER,
            api_key=self.key,
            max_retries=self.options.attempts - 1,
            timeout=self.options.timeout,
            http_client=session,
        )

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
                attempts = rounds * self.options.attempts if trouble.passes else 1
                self.end = self.end or (trouble, prompt, attempts)
                self.stopped.set()
        return []

    async def _request(self, client: openai.AsyncOpenAI, trials: Trials) -> list[tuple[Answer, Prompt]]:
        response = await client.post(
            "/completions" if self.options.endpoint == COMPLETIONS else "/chat/completions",
            cast_to=httpx2.Response,
            body=self.body(next(iter(trials.values()))) | ({"n": len(trials)} if len(trials) > 1 else {}),
        )
        seconds, reply = time.monotonic() - response.request.extensions["sent"], response.json()
        choices = [choice for choice in reply["choices"] if _trouble(200, {"choices": [choice]}, "") is None]
        self.several = self.several and len(choices) >= len(trials)
        usage = [reply.get("usage"), *[None] * len(trials)]  # a request is counted once
        return [
            (self.answer_in(choice, key, prompt, seconds, used), prompt)
            for choice, (key, prompt), used in zip(choices, trials.items(), usage, strict=False)
        ]

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON that is sent for a prompt."""
        options, odds, messages = self.options, self.options.log_odds, turns(prompt.text)
        body: dict[str, Any] = {"model": self.model, self.length: 1 if odds else options.max_tokens}
        body["temperature"] = 1.0 if odds else options.temperature  # where it acts on log-probabilities, 1 is plain
        if not odds and not options.no_seed:
            body["seed"] = options.seed + trial_of(prompt.prompt_id)
        if options.endpoint == COMPLETIONS:  # knows no roles: the turns stand one below the other
            body["prompt"] = "".join(f"{turn['content']}\n" for turn in messages)
            return {**body, "logprobs": options.top_logprobs} if odds else body
        body["messages"] = messages
        if odds:
            body |= {"logprobs": True, "top_logprobs": options.top_logprobs}
        if self.schema and (names := closed_names(prompt)):
            answer = {"type": "string", "enum": names}
            schema = {
                "type": "object", "properties": {"answer": answer}, "required": ["answer"],
                "additionalProperties": False,
            }  # fmt: skip
            body["response_format"] = {
                "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }  # fmt: skip
        return body

    def answer_in(self, choice: Mapping[str, Any], key: str, prompt: Prompt, seconds: float, usage: Any) -> Answer:
        """The answer of a choice that ``trouble_in`` found no trouble in."""
        text = choice["text"] if "text" in choice else choice["message"].get("content")
        used = usage if isinstance(usage, dict) else {}
        tokens = first_tokens(choice) if self.options.log_odds else ()
        return Answer(
            key=key,
            prompt_id=prompt.prompt_id,
            answer=self._without_key(text or ""),
            finish_reason=self._without_key(str(choice.get("finish_reason") or ""))[:MAX_REASON],
            usage={name: used[name] for name in USAGE if _is_count(used.get(name))},
            seconds=round(seconds, 3),
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            logprobs=tuple((self._without_key(token), log) for token, log in tokens),
        )

    def _without_key(self, text: str) -> str:
        """A text that can be written down (half of a surrogate pair cannot), without the key if it repeats it."""
        return _hidden(text, self.key if len(self.key) >= MIN_KEY else NO_KEY)

    async def before(self, request: httpx2.Request) -> None:
        """Before each attempt: send no header but ours."""
        for header in set(request.headers) - HEADERS:
            del request.headers[header]
        request.headers["Authorization"] = f"Bearer {self.key}"
        request.headers["Accept-Encoding"] = "identity"
        request.extensions = {**request.extensions, "sent": time.monotonic()}

    async def after(self, response: httpx2.Response) -> None:
        """After each attempt: read within bounds, and say by its headers whether the client is to try again."""
        if response.has_redirect_location:
            raise MovedError("it sends requests on to another address")
        content = await self._content(response)
        response.stream = httpx2.ByteStream(content or b"")
        trouble = trouble_in(response.status_code, content, self.key)
        if response.headers.pop("content-encoding", "identity").strip().lower() != "identity":
            trouble = RequestTrouble("a reply that is packed in another way than was requested came back", ours=True)
        if trouble is None:
            self.answered = time.monotonic()
            return
        response.status_code = trouble.status or BROKEN
        response.extensions["trouble"] = trouble
        response.headers["x-should-retry"] = "true" if trouble.passes and not self.stopped.is_set() else "false"

    async def _content(self, response: httpx2.Response) -> bytes | None:
        """The bytes of a reply; None where they are more than any answer has."""
        raw, content = response.stream, bytearray()
        try:
            async with asyncio.timeout(self.options.timeout):
                async for chunk in raw:  # type: ignore[union-attr]
                    content += chunk
                    if len(content) > MAX_REPLY:
                        return None
        except TimeoutError:
            raise httpx2.ReadTimeout("no answer in time", request=response.request) from None
        finally:
            await raw.aclose()  # type: ignore[union-attr]
        return bytes(content)

    def failure(self, trouble: RequestTrouble, prompt: Prompt, attempts: int) -> ValueError:
        """The sentence that the run stops with."""
        service = self.options.host or self.options.provider or "Hugging Face Inference Providers"
        words, log = trouble.words, self.log
        if log.read is not None and not trouble.ours:
            words = f"{trouble.status or 'no answer'}, and what it said is not shown"
        if trouble.status in (401, 403):
            said = f"refuses the key ({words}). Set {key_names(self.options)[0]} to a valid one"
        elif trouble.status == 404:
            said = f"does not know model {self.name!r} ({words}). Check both names"
        elif not trouble.passes:
            said = f"cannot answer {prompt.prompt_id} ({words})"
            if self.options.log_odds and trouble.status in REFUSED:
                said += "; not every service gives log-probabilities: -M scoring=sampled needs none"
        else:
            said = f"did not answer {prompt.prompt_id} in {attempts} attempts ({words})"
        if trouble.status in REFUSED and trouble.param in WAYS_OUT:
            said = f"{said}. {WAYS_OUT[trouble.param]}"
        place, way = ("memory", "score again to go on")
        if log.path:
            place, way = log.path.name, "go on with swapbias audit --resume DIR"
        kind = UsageError if trouble.status in (401, 403, 404) else ValueError
        return kind(f"{service} {said}. Answers in {place}: {len(log)}; {way}.")


def trouble_in(status: int, content: bytes | None, key: str) -> RequestTrouble | None:
    """What is wrong with a reply of this status; None where its first choice is an answer.

    Services put errors into replies of status 200 too, with a status of their own or without.
    """
    if content is None:
        return RequestTrouble(f"a reply of more than {MAX_REPLY:,} bytes came back", ours=True)
    try:
        return _trouble(status, json.loads(content), key)
    except (ValueError, RecursionError):
        return _trouble(status, content[:10_000].decode(errors="replace"), key)


def _trouble(status: int, reply: Any, key: str) -> RequestTrouble | None:
    error: Any = None
    match reply:
        case {"error": inner} if inner:
            error = inner
        case {"choices": [{"error": inner}, *_]} if inner:
            error = inner
        case {"choices": [{"finish_reason": "error"}, *_]}:
            error = "the answer broke off with an error"
    fields = error if isinstance(error, dict) else {}
    words = _hidden(str(fields.get("message", error or "")), key)
    status = status if status >= 300 else _status(fields.get("code"))
    if status:
        words = words or _hidden(str(reply), key)
        passes = status >= 500 or status in PASSING
        said = f"{status}: {_one_line(words)}" if words else str(status)
        return RequestTrouble(said, status, passes, param=str(fields.get("param", "")))
    match reply:
        case {"choices": [{"text": str()}, *_]} if not error:
            return None
        case {"choices": [{"message": dict() as message}, *_]} if not error:
            if isinstance(message.get("content"), str | None):
                return None
    return RequestTrouble(_one_line(words) or NOTHING, ours=not words)


def trouble_of(error: Exception, key: str) -> RequestTrouble:
    """What an error of the client means; the key is taken out of its words."""
    if isinstance(error, openai.APIStatusError):
        trouble: RequestTrouble = error.response.extensions["trouble"]
        return trouble
    if isinstance(error, openai.APITimeoutError):
        return RequestTrouble("no answer in time", ours=True)
    if isinstance(error, MovedError):
        return RequestTrouble(str(error), passes=False, ours=True)
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
    words = _one_line(_hidden(str(cause) or type(cause).__name__, key))
    return RequestTrouble(words, passes=isinstance(error, openai.APIConnectionError))


def _status(code: Any) -> int:
    """The HTTP status that an error within an answer names; 0 where it names none."""
    number = int(code) if str(code).isdecimal() and len(str(code)) == 3 else 0
    return number if 400 <= number <= 599 else 0


def _hidden(text: str, key: str) -> str:
    text = text.encode(errors="replace").decode()
    return text if key == NO_KEY else text.replace(key, "***")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200].rstrip(".")


def first_tokens(choice: Any) -> tuple[tuple[str, float], ...]:
    """The likeliest first tokens of an answer with their log-probabilities; none where the service gives none."""
    try:
        logs = choice["logprobs"]
        shown = logs["top_logprobs"][0] if "top_logprobs" in logs else logs["content"][0]["top_logprobs"]
        pairs = shown.items() if isinstance(shown, dict) else ((one["token"], one["logprob"]) for one in shown)
        tops = [(str(token), float(log)) for token, log in pairs]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    return tuple((token, log) for token, log in tops if math.isfinite(log) and log < MAX_LOG)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS


@contextmanager
def _quiet(credentialed: bool) -> Iterator[None]:
    """Of credentialed notes the client and its transport log nothing, whatever the level."""
    loggers = [logging.getLogger(name) for name in _LOGGERS] if credentialed else []
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in a thread of its own where this one already runs a loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with closing(asyncio.new_event_loop()) as loop, ThreadPoolExecutor(max_workers=1) as pool:
        task = loop.create_task(work)
        done = pool.submit(loop.run_until_complete, task)
        try:
            done.result()
        except BaseException:  # Ctrl-C reaches this thread, not the one that asks
            loop.call_soon_threadsafe(task.cancel)
            raise
